"""How large an instance the exact methods prove: the tables of ``eaco-opt bench exact``.

A line of the table is a family, a size, a slack, limits and a method with a time limit; each is run on some
seeds. Finished runs are appended, one JSON line each, to ``exact.jsonl`` in the output folder; a later call
skips them. A line that was only half written when a run was stopped is told of and its run is repeated.

"Proved" is status ``optimal`` with a schedule that keeps every rule by the independent checker.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from eaco_opt.checker import check
from eaco_opt.errors import EacoError
from eaco_opt.limits import Limits
from eaco_opt.output import write_text
from instances import generate
from solvers.run import solve

from .kept_rows import KeptRows, cpu_s, key_of, surroundings, surroundings_text
from .tables import csv_text

SLOT_S = 3600.0
EPOCHS = (3, 30)
ALPHA = 0.5
SEEDS = tuple(range(10))
THREADS = 2
PACKAGES = ("highspy", "ortools", "pulp", "numba", "numpy", "scipy")
"""Their versions stand in each row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A line of the table.

    Attributes
    ----------
    family, jobs, nodes, load, slack
        What is generated; the other parameters are alpha 0.5 and 3 to 30 epochs, slots of 1 h.
    limits
        ``loose``: K 3, both thresholds 1; ``default``: K 4, both thresholds 0.9.
    method, time_limit_s
        What is run, for how long [s].
    """

    family: str
    jobs: int
    nodes: int
    load: float = 1.0
    slack: tuple[float, float] = (1.3, 2.5)
    limits: str = "loose"
    method: str = "branch-and-price"
    time_limit_s: float = 300.0

    @property
    def name(self) -> str:
        """Return a short name, unique among the lines."""
        out = f"{self.family}-{self.jobs}x{self.nodes}"
        if self.load != 1.0:
            out += f"-load{self.load:g}"
        if self.slack != (1.3, 2.5):
            out += f"-slack{self.slack[0]:g}-{self.slack[1]:g}"
        if self.limits != "loose":
            out += f"-{self.limits}"
        return f"{out}-{self.method}"


def _both(**what: Any) -> tuple[Line, Line]:
    return Line(**what), Line(**what, limits="default")


LINES: tuple[Line, ...] = (
    *_both(family="whole-node", jobs=10, nodes=3, method="milp", time_limit_s=60.0),
    *_both(family="whole-node", jobs=10, nodes=3, time_limit_s=60.0),
    *_both(family="whole-node", jobs=15, nodes=5, time_limit_s=60.0),
    *_both(family="whole-node", jobs=20, nodes=6),
    *_both(family="whole-node", jobs=25, nodes=8),
    *_both(family="whole-node", jobs=40, nodes=13, slack=(1.1, 1.5)),
    *_both(family="whole-node", jobs=15, nodes=2, load=3.0),
    *_both(family="mixed", jobs=8, nodes=2, time_limit_s=60.0, method="auto"),
    *_both(family="mixed", jobs=10, nodes=3, method="auto"),
    *_both(family="mixed", jobs=12, nodes=3, method="auto"),
)
"""All lines, smaller first within a family."""

QUICK: tuple[Line, ...] = (
    Line(family="whole-node", jobs=6, nodes=2, time_limit_s=60.0),
    Line(family="whole-node", jobs=6, nodes=2, method="milp", time_limit_s=60.0),
    Line(family="mixed", jobs=4, nodes=1, time_limit_s=60.0),
)
"""Lines of ``--quick``, run on two seeds."""

COLUMNS = (
    "line", "family", "jobs", "nodes", "load", "slack_low", "slack_high", "limits", "method", "time_limit_s",
    "seed", "status", "stop_reason", "violations", "objective", "bound", "gap", "root_bound", "root_gap",
    "build_s", "solve_s", "wall_s", "cpu_s", "digest", "message", "load_average", "version", "python",
    "packages", "machine",
)  # fmt: skip

Tell = Callable[[str, int, int], None]


def chosen_lines(only: Sequence[str], *, quick: bool = False) -> tuple[Line, ...]:
    """Return the lines whose names begin with one of some words; all without words.

    Raises
    ------
    EacoError
        A word fits no line; the text lists them.
    """
    lines = QUICK if quick else LINES
    for word in only:
        if not any(line.name.startswith(word) for line in lines):
            names = ", ".join(line.name for line in lines)
            raise EacoError(f"bench exact: no line begins with {word!r}; there are: {names}")
    return tuple(line for line in lines if not only or any(line.name.startswith(w) for w in only))


def exact_rows(
    lines: Iterable[Line],
    seeds: Sequence[int] = SEEDS,
    *,
    out: Path | None = None,
    force: bool = False,
    tell: Tell | None = None,
) -> list[dict[str, Any]]:
    """Run the lines on the seeds, and return a row a run; finished ones in ``out`` are not run again.

    Parameters
    ----------
    lines, seeds
        What to run.
    out
        Folder that keeps the rows, and gets ``exact.csv`` and ``exact.md``.
    force
        Run again what the folder keeps.
    tell
        Called with text, runs done and runs in all.

    Raises
    ------
    EacoError
        The folder cannot be used.
    """
    lines = tuple(lines)
    kept = KeptRows(out, "exact", force=force)
    rows: list[dict[str, Any]] = []
    total = len(lines) * len(seeds)
    for line in lines:
        for seed in seeds:
            key = key_of({**asdict(line), "seed": seed})
            if tell is not None:
                tell(f"{line.name} seed {seed}", len(rows), total)
            row = kept.get(key) or kept.put(key, _run(line, seed))
            rows.append(_gaps({c: row.get(c) for c in COLUMNS}))
    if out is not None:
        table = csv_text(COLUMNS, [[row[c] for c in COLUMNS] for row in rows])
        write_text(out / "exact.csv", table, force=True)
        write_text(out / "exact.md", summary_text(rows), force=True)
    return rows


def _run(line: Line, seed: int) -> dict[str, Any]:
    loose = line.limits == "loose"
    instance = generate(
        line.family,
        jobs=line.jobs,
        nodes=line.nodes,
        load=line.load,
        slack=line.slack,
        epochs=EPOCHS,
        limits=Limits(u_threshold=1.0, mem_threshold=1.0, max_share=3) if loose else Limits(),
        seed=seed,
    )
    began, cpu = time.monotonic(), cpu_s()
    result = solve(instance, line.method, grid_s=SLOT_S, time_limit_s=line.time_limit_s, threads=THREADS)
    wall_s, used_s = time.monotonic() - began, cpu_s() - cpu
    root_bound = None
    if line.method == "milp" and result.schedule is not None:
        root = solve(
            instance,
            line.method,
            grid_s=SLOT_S,
            time_limit_s=line.time_limit_s,
            threads=THREADS,
            options={"node_limit": 1},
        )
        root_bound = root.bound
    return {
        "line": line.name,
        "family": line.family,
        "jobs": line.jobs,
        "nodes": line.nodes,
        "load": line.load,
        "slack_low": line.slack[0],
        "slack_high": line.slack[1],
        "limits": line.limits,
        "method": line.method,
        "time_limit_s": line.time_limit_s,
        "seed": seed,
        "status": str(result.status),
        "stop_reason": str(result.stop_reason),
        "violations": None
        if result.schedule is None
        else len(check(instance, result.schedule, grid_s=SLOT_S)),
        "objective": result.objective,
        "bound": result.bound,
        "root_bound": root_bound,
        "build_s": result.build_s,
        "solve_s": result.solve_s,
        "wall_s": wall_s,
        "cpu_s": used_s,
        "digest": result.instance_digest,
        "message": result.message,
        **surroundings(PACKAGES),
    }


def _gaps(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row with its gaps, relative to the bound (docs/model.md 6.6)."""
    for gap, bound in (("gap", row["bound"]), ("root_gap", row["root_bound"])):
        known = row["objective"] is not None and bound is not None and bound > 0.0
        row[gap] = (row["objective"] - bound) / bound if known else None
    return row


def summary_rows(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return one row a line: runs by what is known of them, median time of the proofs, largest gap left.

    Seeds that are proved infeasible on the grid are counted apart: "proved" is of the others.
    """
    groups: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault(row["line"], []).append(row)
    out = []
    for name, group in groups.items():
        feasible = [r for r in group if r["status"] != "infeasible"]
        proved = [r for r in feasible if r["status"] == "optimal" and not r.get("violations")]
        left = [r["gap"] for r in feasible if r not in proved and r["gap"] is not None]
        roots = [r["root_gap"] for r in feasible if r.get("root_gap") is not None]
        out.append(
            {
                "line": name,
                "time_limit_s": group[0]["time_limit_s"],
                "runs": len(group),
                "seeds": " ".join(str(r["seed"]) for r in group),
                "infeasible": len(group) - len(feasible),
                "proved": len(proved),
                "within_0.2_percent": len(proved) + sum(gap <= 0.002 for gap in left),
                "unknown": sum(r["gap"] is None for r in feasible),
                "median_s": statistics.median([r["wall_s"] for r in proved]) if proved else None,
                "longest_s": max([r["wall_s"] for r in proved]) if proved else None,
                "largest_gap_percent": 100.0 * max(left) if left else None,
                "largest_root_gap_percent": 100.0 * max(roots) if roots else None,
            }
        )
    return out


def summary_text(rows: Sequence[dict[str, Any]]) -> str:
    """Return the summary as Markdown: a table, and below it seeds, versions, machine and load."""
    heads = (
        "line", "limit [s]", "seeds", "infeasible", "proved", "within 0.2 %", "no gap known",
        "median time of proofs [s]", "longest [s]", "largest gap left [%]", "largest root gap [%]",
    )  # fmt: skip
    text = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    for row in summary_rows(rows):
        percent = (row["largest_gap_percent"], row["largest_root_gap_percent"])
        cells = [
            row["line"],
            f"{row['time_limit_s']:g}",
            row["seeds"],
            str(row["infeasible"]),
            f"{row['proved']} of {row['runs'] - row['infeasible']}",
            f"{row['within_0.2_percent']} of {row['runs'] - row['infeasible']}",
            str(row["unknown"]),
            *("-" if row[k] is None else f"{row[k]:.1f}" for k in ("median_s", "longest_s")),
            *("-" if x is None else f"{x:.2f}" for x in percent),
        ]
        text.append("| " + " | ".join(cells) + " |")
    text += surroundings_text(list(rows))
    return "\n".join(text) + "\n"
