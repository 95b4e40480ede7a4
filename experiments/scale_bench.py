"""Certified gaps at the scale of real clusters: the tables of ``eaco-opt bench scale``.

A line is a family, a size, a load, limits and a time limit; each is run on some seeds by
:func:`experiments.certify.certify`, which has every schedule checked and the bound worked out anew by other
code.
Finished runs are kept (:mod:`experiments.kept_rows`).
"""

from __future__ import annotations

import dataclasses
import resource
import statistics
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from eaco_opt.errors import EacoError
from eaco_opt.instance import Instance
from eaco_opt.limits import Limits
from eaco_opt.output import write_text
from instances import generate
from instances.readers import import_trace
from instances.readers.options import ImportOptions, JobMapping, TooLarge

from .benchmarks import data_folder
from .certify import SEARCH, Certified, certify
from .kept_rows import KeptRows, cpu_s, key_of, surroundings, surroundings_text
from .tables import csv_text

EPOCHS = (3, 30)
SLACK = (1.3, 2.5)
SEEDS = (0, 1, 2)
MARKS_S = (60.0, 300.0)
"""Times [s] at which the gap is read off the anytime curve, besides the end."""

PACKAGES = ("highspy", "numba", "numpy")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A line of the table.

    Attributes
    ----------
    family, jobs, nodes, load
        What is generated, with slack 1.3 to 2.5, 3 to 30 epochs and alpha 0.5; family ``philly`` is the
        first jobs of the Philly trace mapped to the paper's models, its slack the reader's own.
    limits
        ``loose``: K 3, both thresholds 1; ``default``: K 4, both thresholds 0.9.
    time_limit_s
        Of search and bound together [s].
    """

    family: str
    jobs: int
    nodes: int
    load: float = 1.0
    limits: str = "loose"
    time_limit_s: float = 300.0

    @property
    def name(self) -> str:
        """Return a short name, unique among the lines."""
        out = f"{self.family}-{self.jobs}x{self.nodes}"
        if self.load != 1.0:
            out += f"-load{self.load:g}"
        if self.limits != "loose":
            out += f"-{self.limits}"
        return f"{out}-{self.time_limit_s / 60.0:g}min"


def _both(**what: Any) -> tuple[Line, Line]:
    return Line(**what), Line(**what, limits="default")


LINES: tuple[Line, ...] = (
    *_both(family="mixed", jobs=100, nodes=28),
    *_both(family="whole-node", jobs=1000, nodes=64),
    *_both(family="whole-node", jobs=1000, nodes=64, time_limit_s=1800.0),
    *_both(family="mixed", jobs=1000, nodes=64, time_limit_s=1800.0),
    *_both(family="whole-node", jobs=300, nodes=28, load=2.5),
    *_both(family="philly", jobs=3000, nodes=64, time_limit_s=1800.0),
)
"""All lines."""

QUICK: tuple[Line, ...] = (
    Line(family="whole-node", jobs=100, nodes=28, time_limit_s=20.0),
    Line(family="mixed", jobs=100, nodes=28, time_limit_s=20.0),
)
"""Lines of ``--quick``, run on one seed."""

COLUMNS = (
    "line", "family", "jobs", "nodes", "load", "limits", "time_limit_s", "seed", "bound", "closed_form",
    "bound_s", "bound_converged", "intervals", "columns", "objective", "best_method",
    "gap_1min", "gap_5min", "gap", "attained_share", "attained_share_no_sharing_ref",
    "energy_attained_share", "eaco_gap", "eaco_attained_share", "wall_s", "cpu_s", "peak_rss_mib", "digest",
    "load_average", "version", "python", "packages", "machine",
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
            raise EacoError(f"bench scale: no line begins with {word!r}; there are: {names}")
    return tuple(line for line in lines if not only or any(line.name.startswith(w) for w in only))


def scale_rows(
    lines: Iterable[Line],
    seeds: Sequence[int] = SEEDS,
    *,
    data: Path | None = None,
    out: Path | None = None,
    force: bool = False,
    tell: Tell | None = None,
) -> tuple[list[dict[str, Any]], list[str]]:
    """Run the lines on the seeds, and return a row a run, and notes; finished ones are not run again.

    Parameters
    ----------
    lines, seeds
        What to run; a trace is run once, with the first seed.
    data
        Folder with the traces; lines of traces that are not there are noted and left out.
    out
        Folder that keeps the rows, and gets ``scale.csv`` and ``scale.md``.
    force
        Run again what the folder keeps.
    tell
        Called with text, runs done and runs in all.
    """
    kept = KeptRows(out, "scale", force=force)
    runs = [(line, s) for line in lines for s in (seeds[:1] if line.family == "philly" else seeds)]
    rows: list[dict[str, Any]] = []
    notes: list[str] = []
    for n, (line, seed) in enumerate(runs):
        if tell is not None:
            tell(f"{line.name} seed {seed}", n, len(runs))
        key = key_of({**dataclasses.asdict(line), "seed": seed})
        row = kept.get(key)
        if row is None:
            instance = _instance(line, seed, data)
            if instance is None:
                notes.append(f"{line.name} is left out: the Philly trace is not there (EACO_DATA)")
                continue
            row = kept.put(key, _run(line, seed, instance))
        rows.append({c: row.get(c) for c in COLUMNS})
    if out is not None:
        table = csv_text(COLUMNS, [[row[c] for c in COLUMNS] for row in rows])
        write_text(out / "scale.csv", table, force=True)
        write_text(out / "scale.md", summary_text(rows), force=True)
    return rows, notes


def _instance(line: Line, seed: int, data: Path | None) -> Instance | None:
    loose = line.limits == "loose"
    limits = Limits(u_threshold=1.0, mem_threshold=1.0, max_share=3) if loose else Limits()
    if line.family != "philly":
        return generate(
            line.family,
            jobs=line.jobs,
            nodes=line.nodes,
            load=line.load,
            slack=SLACK,
            epochs=EPOCHS,
            limits=limits,
            seed=seed,
        )
    folder = data_folder(data)
    path = None if folder is None else folder / "philly" / "philly_jobs.csv"
    if path is None or not path.is_file():
        return None
    options = ImportOptions(
        nodes=line.nodes,
        jobs=line.jobs,
        mapping=JobMapping.PAPER_CNN,
        too_large=TooLarge.DROP,
        seed=seed,
        limits=limits,
    )
    return import_trace("philly-csv", path, options).instance


def _run(line: Line, seed: int, instance: Instance) -> dict[str, Any]:
    cpu = cpu_s()
    found = certify(instance, time_limit_s=line.time_limit_s, seed=seed)
    rows = {row["method"]: row for row in found.rows}
    own, eaco = rows[SEARCH], rows["eaco"]
    value = found.bound.value
    rss = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {
        "line": line.name,
        "family": line.family,
        "jobs": len(instance.jobs),
        "nodes": line.nodes,
        "load": line.load,
        "limits": line.limits,
        "time_limit_s": line.time_limit_s,
        "seed": seed,
        "bound": value,
        "closed_form": found.bound.closed_form,
        "bound_s": found.bound.curve[-1][0] if found.bound.curve else None,
        "bound_converged": found.bound.converged,
        "intervals": found.bound.intervals,
        "columns": found.bound.columns,
        "objective": found.best_objective,
        "best_method": found.best_method,
        "gap_1min": _gap_at(found, MARKS_S[0]),
        "gap_5min": _gap_at(found, MARKS_S[1]),
        "gap": None if found.best_objective is None or not value else found.best_objective / value - 1.0,
        "attained_share": own["attained_share"],
        "attained_share_no_sharing_ref": own["attained_share_no_sharing_ref"],
        "energy_attained_share": own["energy_attained_share"],
        "eaco_gap": eaco["certified_gap"] if eaco["certified_gap"] is not None else eaco["gap_relaxed"],
        "eaco_attained_share": eaco["attained_share"],
        "wall_s": found.seconds,
        "cpu_s": cpu_s() - cpu,
        "peak_rss_mib": rss / (1024.0**2 if sys.platform == "darwin" else 1024.0),
        "digest": found.digest,
        **surroundings(PACKAGES),
    }


def _gap_at(found: Certified, seconds: float) -> float | None:
    """Return the gap of the best schedule at some time to the last bound; ``None`` after the end."""
    if found.seconds < seconds or found.bound.value is None or found.bound.value <= 0.0:
        return None
    known = [value for at, value, _ in found.curve if at <= seconds and value is not None]
    return known[-1] / found.bound.value - 1.0 if known else None


def summary_rows(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return one row a line: means over its seeds, largest values where a limit is asked for."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault(row["line"], []).append(row)
    out = []
    for name, group in groups.items():

        def worst(key: str, of: list[dict[str, Any]] = group) -> float | None:
            return max((r[key] for r in of if r[key] is not None), default=None)

        def mean(key: str, of: list[dict[str, Any]] = group) -> float | None:
            known = [r[key] for r in of if r[key] is not None]
            return statistics.fmean(known) if known else None

        out.append(
            {
                "line": name,
                "runs": len(group),
                "seeds": " ".join(str(r["seed"]) for r in group),
                "converged": sum(bool(r["bound_converged"]) for r in group),
                "largest_bound_s": worst("bound_s"),
                "largest_gap_5min": worst("gap_5min"),
                "largest_gap": worst("gap"),
                "mean_attained_share": mean("attained_share"),
                "mean_energy_attained_share": mean("energy_attained_share"),
                "mean_eaco_gap": mean("eaco_gap"),
                "mean_eaco_attained_share": mean("eaco_attained_share"),
                "peak_rss_mib": worst("peak_rss_mib"),
            }
        )
    return out


SUMMARY_HEADS = (
    "line", "seeds", "bounds converged", "bound after [s]", "gap at 5 min [%]",
    "gap at the end [%]", "saving attained [%]", "energy saving attained [%]", "EaCO: gap [%]",
    "EaCO: saving attained [%]", "memory [MiB]",
)  # fmt: skip


def summary_cells(row: dict[str, Any]) -> list[str]:
    """Return a row of the summary as text, under :data:`SUMMARY_HEADS`."""

    def percent(key: str) -> str:
        return "-" if row[key] is None else f"{100.0 * row[key]:.2f}"

    return [
        row["line"],
        row["seeds"],
        f"{row['converged']} of {row['runs']}",
        "-" if row["largest_bound_s"] is None else f"{row['largest_bound_s']:.1f}",
        percent("largest_gap_5min"),
        percent("largest_gap"),
        percent("mean_attained_share"),
        percent("mean_energy_attained_share"),
        percent("mean_eaco_gap"),
        percent("mean_eaco_attained_share"),
        f"{row['peak_rss_mib']:.0f}",
    ]


def summary_text(rows: Sequence[dict[str, Any]]) -> str:
    """Return the summary as Markdown: a table, and below it versions, machine and load."""
    text = ["| " + " | ".join(SUMMARY_HEADS) + " |", "|" + "---|" * len(SUMMARY_HEADS)]
    text += ["| " + " | ".join(summary_cells(row)) + " |" for row in summary_rows(rows)]
    return "\n".join([*text, *surroundings_text(list(rows))]) + "\n"
