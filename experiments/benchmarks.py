"""How fast it is: simulation of large traces, evaluation of plans, building of models (``eaco-opt bench``).

A speed is shown as a ratio of two things measured in one go, or as a growth over sizes; seconds stand beside
it for the machine at hand. Each simulation runs in a process of its own, with kernels compiled before the
clock starts, so that its peak memory is its own. Finished rows are kept in the output folder, and a run that
was stopped goes on from them.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from eaco_opt import __version__
from eaco_opt.errors import EacoError
from eaco_opt.instance import Instance
from eaco_opt.output import write_text
from eaco_opt.schedule import Plan

from .jsontext import json_text
from .tables import csv_text

if TYPE_CHECKING:
    from formulations.linear import LinearFormulation, Rows

SIZES = (1_000, 5_000, 20_000, 82_247)
"""Jobs of the growth runs; the last is the whole Philly trace."""

NODES, GPUS_PER_NODE = 64, 8

GAVEL_USER_S: dict[tuple[int, str], tuple[float, bool]] = {
    (200, "fifo"): (7.7, True),
    (200, "fifo_packed"): (91.5, True),
    (200, "gandiva"): (88.1, True),
    (1000, "fifo"): (33.6, True),
    (500, "fifo_packed"): (300.0, False),
    (500, "gandiva"): (291.0, False),
}
"""User seconds of Gavel's own simulator and whether it finished,
by jobs and policy: stanford-futuredata/gavel,
trace of virtual cluster ee9e8c, all jobs released at 0 and capped at 24 h, 224 GPUs; measured once, on one
core of a machine of 2 cores and 24 GiB."""

GAVEL_IMPORTS_S = 3.0
"""Of those seconds up to three are imports; they are taken off before the ratio is formed."""

GAVEL_CASES = (
    (200, "fifo"),
    (200, "fifo_packed"),
    (200, "gandiva"),
    (500, "fifo_packed"),
    (500, "gandiva"),
    (1000, "fifo"),
    (1000, "fifo_packed"),
    (1000, "gandiva"),
)

COLUMNS = {
    "simulate": (
        "run", "instance", "policy", "jobs", "nodes", "gpus", "wall_s", "cpu_s", "jobs_per_s", "peak_rss_mib",
        "growth_to_linear", "gavel_user_s", "gavel_finished", "speed_to_gavel", "energy_kwh",
        "deadline_misses", "version",
    ),
    "evaluate": (
        "run", "instance", "jobs", "nodes", "plans", "seconds", "plans_per_s", "speed_to_checker", "version",
    ),
    "build": (
        "run", "instance", "jobs", "nodes", "slots", "variables", "constraints", "nonzeros", "prepare_s",
        "build_s", "load_s", "seconds", "speed_to_pulp", "speed_to_pulp_prepared", "version",
    ),
}  # fmt: skip

Tell = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One simulation: a row to be.

    Attributes
    ----------
    run
        ``growth`` or ``gavel``.
    policy, jobs
        What is simulated.
    source
        How the worker makes the instance (:mod:`experiments.bench_worker`).
    """

    run: str
    policy: str
    jobs: int
    source: Mapping[str, Any]

    def key(self) -> str:
        """Return a name for the case: another version or another source is another case."""
        text = json.dumps([__version__, self.run, self.policy, self.jobs, dict(self.source)], sort_keys=True)
        return f"{self.run}-{self.policy}-{self.jobs}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"


def data_folder(given: str | os.PathLike[str] | None = None) -> Path | None:
    """Return the folder with traces: the given one, EACO_DATA, or ``shared/data`` beside the project.

    Raises
    ------
    EacoError
        A folder was named that does not exist.
    """
    named = given or os.environ.get("EACO_DATA")
    if named:
        if not Path(named).is_dir():
            raise EacoError(
                f"data folder {os.fspath(named)!r} does not exist; expected one with philly/ and gavel/"
            )
        return Path(named)
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    return beside if beside.is_dir() else None


def cases(*, quick: bool, data: Path | None) -> tuple[list[Case], list[str]]:
    """Return the simulations to run, and remarks on what stands in for missing data.

    Parameters
    ----------
    quick
        Small sizes only.
    data
        Folder with traces, ``None`` if there is none.
    """
    notes: list[str] = []
    philly = None if data is None else data / "philly" / "philly_jobs.csv"
    gavel = None if data is None else data / "gavel" / "ee9e8c.trace"
    out: list[Case] = []
    have_philly = philly is not None and philly.is_file()
    if not have_philly:
        notes.append(
            "the Philly trace is not there: instances of the family production of the same sizes instead"
        )
    for jobs in SIZES[:2] if quick else SIZES:
        source: dict[str, Any] = {"kind": "generate", "family": "production", "jobs": jobs, "nodes": NODES}
        if have_philly:
            source = {
                "kind": "import",
                "reader": "philly-csv",
                "file": str(philly),
                "nodes": NODES,
                "mapping": "paper-cnn",
            }
            source["jobs"] = jobs
        out += [Case(run="growth", policy=policy, jobs=jobs, source=source) for policy in ("fifo", "eaco")]
    if gavel is None or not gavel.is_file():
        notes.append("Gavel's trace ee9e8c is not there: no comparison with Gavel")
        return out, notes
    for jobs, policy in GAVEL_CASES:
        if quick and jobs > 200:
            continue
        source = {
            "kind": "import",
            "reader": "gavel",
            "file": str(gavel),
            "throughputs": str(gavel.parent / "v100_throughputs.csv"),
            "nodes": 1,
            "gpus_per_node": 224,
            "jobs": jobs,
            "release": "zero",
            "max_duration_s": 86400.0,
        }
        out.append(Case(run="gavel", policy=policy, jobs=jobs, source=source))
    return out, notes


def run_case(case: Case) -> dict[str, Any]:
    """Run a simulation in a process of its own and return what it measured.

    Raises
    ------
    EacoError
        The process failed; the text is its error.
    """
    root = str(Path(__file__).resolve().parents[1])
    paths = [root, *filter(None, [os.environ.get("PYTHONPATH")])]
    done = subprocess.run(
        [sys.executable, "-m", "experiments.bench_worker"],
        input=json.dumps({"policy": case.policy, "source": dict(case.source)}),
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        check=False,
    )
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        raise EacoError(f"bench: {case.policy} on {case.jobs} jobs failed: {last}")
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def _row(case: Case, found: Mapping[str, Any]) -> dict[str, Any]:
    row = dict.fromkeys(COLUMNS["simulate"]) | {
        "run": case.run,
        "instance": found["instance"],
        "policy": case.policy,
        "jobs": found["jobs"],
        "nodes": found["nodes"],
        "gpus": found["gpus"],
        "wall_s": found["wall_s"],
        "cpu_s": found["cpu_s"],
        "jobs_per_s": found["jobs"] / found["wall_s"],
        "peak_rss_mib": found["peak_rss_mib"],
        "energy_kwh": found["energy_kwh"],
        "deadline_misses": found["deadline_misses"],
        "version": __version__,
    }
    known = GAVEL_USER_S.get((case.jobs, case.policy)) if case.run == "gavel" else None
    if known is not None:
        seconds, finished = known
        row |= {
            "gavel_user_s": seconds,
            "gavel_finished": finished,
            "speed_to_gavel": (seconds - GAVEL_IMPORTS_S) / found["cpu_s"],
        }
    return row


def simulate_rows(
    *,
    quick: bool = False,
    data: Path | None = None,
    out: Path | None = None,
    force: bool = False,
    tell: Tell | None = None,
) -> tuple[list[dict[str, Any]], list[str]]:
    """Measure simulations: growth over sizes, and Gavel's runs.

    Parameters
    ----------
    quick
        Small sizes only.
    data
        Folder with traces, ``None`` if there is none.
    out
        Folder that keeps finished rows; a later call takes them from there.
    force
        Measure again what is kept there.
    tell
        Told what runs: text, number, and how many.

    Returns
    -------
    rows, notes
        A row under the keys of :data:`COLUMNS` for each run; remarks on missing data.
    """
    todo, notes = cases(quick=quick, data=data)
    kept = None if out is None else out / "simulate"
    if kept is not None:
        kept.mkdir(parents=True, exist_ok=True)
    rows: list[dict[str, Any]] = []
    for i, case in enumerate(todo):
        if tell is not None:
            tell(f"{case.policy}, {case.jobs} jobs ({case.run})", i, len(todo))
        path = None if kept is None else kept / f"{case.key()}.json"
        if path is not None and path.is_file() and not force:
            found = json.loads(path.read_text(encoding="utf-8"))
        else:
            found = run_case(case)
            if path is not None:
                write_text(path, json_text(found), force=True)
        rows.append(_row(case, found))
    for row in rows:
        first = next((r for r in rows if r["run"] == "growth" and r["policy"] == row["policy"]), None)
        if row["run"] == "growth" and first is not None:
            row["growth_to_linear"] = (row["cpu_s"] / row["jobs"]) / (first["cpu_s"] / first["jobs"])
    if out is not None:
        _write(out, "simulate", rows)
    return rows, notes


def _write(out: Path, name: str, rows: list[dict[str, Any]]) -> None:
    columns = COLUMNS[name]
    write_text(
        out / f"{name}.csv", csv_text(columns, ([row[c] for c in columns] for row in rows)), force=True
    )


PAIRABLE = {"AlexNet": 1.0, "ResNet-18": 1.0, "ResNet-50": 1.0}
"""Models of which any two fit in a GPU's memory together, so that random pairs break no rule."""


def random_plans(instance: Instance, count: int, seed: int) -> Iterator[Plan]:
    """Yield plans of whole-node jobs in which at most two share a node at any time.

    Each node has two lanes. Jobs go to random lanes in order of release and start when they are released and
    the job before them in the lane has ended at half its exclusive speed at the latest.

    Parameters
    ----------
    instance
        Jobs that take all GPUs of a node, of models that fit together (:data:`PAIRABLE`).
    count, seed
        How many plans, and the seed of the draws.
    """
    rng = np.random.default_rng(seed)
    view = instance.arrays()
    order = np.argsort(view.release_s, kind="stable")
    nodes = len(view.node_type)
    longest = 2.0 * view.epochs * view.tau_s.min(axis=1)
    for _ in range(count):
        lanes = rng.integers(0, 2 * nodes, size=len(order))
        free = np.zeros(2 * nodes)
        start = np.zeros(len(order))
        gpus = np.zeros(int(view.gpu_offset[-1]), dtype=np.int64)
        for j in order.tolist():
            lane = int(lanes[j])
            start[j] = max(float(view.release_s[j]), free[lane])
            free[lane] = start[j] + longest[j]
            node = lane // 2
            gpus[view.gpu_offset[j] : view.gpu_offset[j + 1]] = np.arange(
                view.first_gpu[node], view.first_gpu[node + 1]
            )
        yield Plan(start + view.origin_s, gpus)


def evaluate_rows(
    *, quick: bool = False, out: Path | None = None, seed: int = 0, tell: Tell | None = None
) -> list[dict[str, Any]]:
    """Measure the compiled evaluation against the checker, which is plain Python, on the same plans.

    The checker works from the schedule that a plan leads to, and tests every rule as well; it is the
    yardstick because it is the other implementation of the same physics.

    Parameters
    ----------
    quick
        Fewer plans.
    out
        Folder for ``evaluate.csv``.
    seed
        Seed of the plans.
    tell
        As for :func:`simulate_rows`.
    """
    from eaco_opt.checker import check_report
    from eaco_opt.physics import evaluate, plan_schedule
    from instances import generate

    jobs, nodes = 200, 28
    instance = generate("whole-node", jobs=jobs, nodes=nodes, load=1.0, mix=PAIRABLE, seed=seed)
    plans = list(random_plans(instance, 200 if quick else 1000, seed))
    few = plans[: 4 if quick else 20]
    schedules = [plan_schedule(instance, plan) for plan in few]
    compiled = [evaluate(instance, plan).objective for plan in few]  # compiles the kernels, too
    rows: list[dict[str, Any]] = []

    def measure(run: str, repeat: int, work: Callable[[], int]) -> None:
        if tell is not None:
            tell(run, len(rows), 3)
        began = time.perf_counter()
        done = sum(work() for _ in range(repeat))
        taken = time.perf_counter() - began
        rows.append(
            dict.fromkeys(COLUMNS["evaluate"])
            | {
                "run": run,
                "instance": instance.name,
                "jobs": jobs,
                "nodes": nodes,
                "plans": done,
                "seconds": taken,
                "plans_per_s": done / taken,
                "version": __version__,
            }
        )

    def fast() -> int:
        for plan in plans:
            evaluate(instance, plan)
        return len(plans)

    def checker(mode: str) -> Callable[[], int]:
        def work() -> int:
            for i, schedule in enumerate(schedules):
                found = check_report(instance, schedule, _mode=mode).objective
                if found is None or abs(found - compiled[i]) > 1e-6 * abs(found):
                    raise RuntimeError(f"bench: evaluate gives {compiled[i]!r}, the checker {found!r}")
            return len(schedules)

        return work

    measure("evaluate", 1 if quick else 5, fast)
    measure("checker-float", 1, checker("float"))
    measure("checker-exact", 1, checker("exact"))
    for row in rows:
        row["speed_to_checker"] = row["plans_per_s"] / rows[1]["plans_per_s"]
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        _write(out, "evaluate", rows)
    return rows


BUILDS = 3
"""How often each model is built for :func:`build_rows`."""


def build_rows(
    *, quick: bool = False, out: Path | None = None, seed: int = 0, tell: Tell | None = None
) -> list[dict[str, Any]]:
    """Measure how a time-indexed model comes into HiGHS: from arrays, and through PuLP objects.

    Both start from the same index sets and coefficients, which are prepared once (``prepare_s``), and end
    with a HiGHS object that holds the model and has not solved it; PuLP hands its objects over by its own
    interface to HiGHS. Times are CPU times of this process, which other processes disturb less; the least of
    three counts for each. What the two HiGHS objects hold is then compared number by number.

    Parameters
    ----------
    quick
        A model of some 30,000 nonzeros in place of some 500,000.
    out
        Folder for ``build.csv``.
    seed
        Seed of the instance.
    tell
        As for :func:`simulate_rows`.

    Raises
    ------
    RuntimeError
        The two models differ.
    """
    from eaco_opt.limits import Limits
    from formulations.grid import make_grid
    from formulations.highs import read_back
    from formulations.milp import MilpFormulation
    from formulations.milp_arrays import MilpArraysFormulation
    from formulations.milp_terms import MilpTerms
    from formulations.space import Space
    from instances import generate

    jobs, nodes = (12, 4) if quick else (32, 10)
    limits = Limits(u_threshold=1.0, mem_threshold=1.0, max_share=3)
    instance = generate("whole-node", jobs=jobs, nodes=nodes, epochs=(3, 30), limits=limits, seed=seed)
    began = time.process_time()
    space = Space(instance, make_grid(instance, 3600.0))
    terms = MilpTerms(space)
    prepared = time.process_time() - began
    builders: dict[str, LinearFormulation[Any]] = {
        "arrays": MilpArraysFormulation(),
        "pulp": MilpFormulation(),
    }
    rows: list[dict[str, Any]] = []
    held = {}
    for run, builder in builders.items():
        if tell is not None:
            tell(run, len(rows), 2)
        best = (math.inf, 0.0, 0.0)
        for _ in range(BUILDS):
            began = time.process_time()
            model = builder.model(space, terms)
            built = time.process_time()
            solver = model.load()
            loaded = time.process_time()
            best = min(best, (loaded - began, built - began, loaded - built))
        held[run] = (read_back(solver), model.column_order())
        found = held[run][0]
        rows.append(
            dict.fromkeys(COLUMNS["build"])
            | {
                "run": run,
                "instance": instance.name,
                "jobs": jobs,
                "nodes": nodes,
                "slots": space.grid.slots,
                "variables": len(found.cost),
                "constraints": len(found.low),
                "nonzeros": len(found.value),
                "prepare_s": prepared,
                "build_s": best[1],
                "load_s": best[2],
                "seconds": best[0],
                "version": __version__,
            }
        )
    _same_models(*held["arrays"], *held["pulp"])
    for row in rows:
        row["speed_to_pulp"] = rows[1]["seconds"] / row["seconds"]
        row["speed_to_pulp_prepared"] = (rows[1]["seconds"] + prepared) / (row["seconds"] + prepared)
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        _write(out, "build", rows)
    return rows


def _same_models(one: Rows, order: NDArray[np.int64], two: Rows, order_two: NDArray[np.int64]) -> None:
    """Raise if two models differ; ``order`` gives the place of each variable among the columns."""
    for field in ("cost", "upper", "integer", "low", "high"):
        a, b = getattr(one, field), getattr(two, field)
        if field in ("cost", "upper", "integer"):
            a, b = a[order], b[order_two]
        if not np.array_equal(a, b):
            raise RuntimeError(f"bench: the models differ in {field!r}")
    if one.constant != two.constant or not np.array_equal(one.start, two.start):
        raise RuntimeError("bench: the models differ in the constant or in the sizes of rows")
    entries = []
    for model, at in ((one, order), (two, order_two)):
        variable = np.argsort(at)[model.index]
        row = np.repeat(np.arange(len(model.low)), np.diff(model.start))
        by_place = np.lexsort((variable, row))
        entries.append((variable[by_place], model.value[by_place]))
    if not all(np.array_equal(a, b) for a, b in zip(*entries, strict=True)):
        raise RuntimeError("bench: the models differ in their coefficients")
