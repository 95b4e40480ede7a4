"""The files that studies leave behind: tidy CSV, JSON, and the folder of a comparison (docs/outputs.md)."""

from __future__ import annotations

import csv
import io
import os
import re
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

from eaco_opt.errors import OutputExistsError
from eaco_opt.instance import Instance
from eaco_opt.io import write_instance, write_schedule
from eaco_opt.output import write_text
from eaco_opt.schedule import Schedule

from .certify import COLUMNS as CERTIFY_COLUMNS
from .certify import CURVE_COLUMNS, Certified
from .compare import EXTRA, METRICS, RELATIVE, Comparison
from .frontier import CURVE_COLUMNS as FRONTIER_COLUMNS
from .frontier import POINT_COLUMNS, WEIGHT_COLUMNS, Frontier, document
from .jsontext import json_text, plain

COMPARE_FILES = (
    "comparison.json",
    "instance.json",
    "rows.csv",
    "jobs.csv",
    "segments.csv",
    "active_nodes.csv",
    "nodes.csv",
)
"""Files of a comparison's folder, beside ``schedules/`` and ``figures/``; the first is written last."""

COMPARE_FIGURES = ("energy_runtime", "active_nodes", "gantt")


def csv_text(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Return a CSV with a header; ``None``, NaN and infinities are empty, floats exact."""
    out = io.StringIO(newline="")
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(columns)
    for row in rows:
        cells = [plain(x) for x in row]
        writer.writerow(["" if x is None else repr(x) if isinstance(x, float) else x for x in cells])
    return out.getvalue()


def write_csv(
    path: Path, columns: Sequence[str], rows: Iterable[Sequence[Any]], *, force: bool = False
) -> None:
    """Write a CSV, whole or not at all."""
    write_text(path, csv_text(columns, rows), force=force)


def file_names(labels: Iterable[str]) -> dict[str, str]:
    """Return a different file name (without its ending) of letters, digits and ``._+-`` for each label."""
    out: dict[str, str] = {}
    taken: set[str] = set()
    for label in labels:
        stem = re.sub(r"[^A-Za-z0-9._+-]+", "_", label).strip("._")[:80] or "method"
        found, n = stem, 1
        while found.lower() in taken:  # some file systems do not tell upper from lower case
            n += 1
            found = f"{stem}-{n}"
        taken.add(found.lower())
        out[label] = found
    return out


def gpu_ranges(gpus: Sequence[int]) -> str:
    """Return GPU numbers as ranges: ``0-3 6``."""
    parts: list[str] = []
    for _, run in groupby(enumerate(sorted(gpus)), key=lambda pair: pair[1] - pair[0]):
        numbers = [number for _, number in run]
        parts.append(str(numbers[0]) if len(numbers) == 1 else f"{numbers[0]}-{numbers[-1]}")
    return " ".join(parts)


def prepare_folder(path: str | os.PathLike[str], *, force: bool = False) -> Path:
    """Make an output folder, or raise now what writing into it would raise later.

    Parameters
    ----------
    path
        The folder; made with its parents if it is missing.
    force
        Whether it may hold something already.

    Raises
    ------
    OutputExistsError
        It holds something, and ``force`` is off.
    OSError
        It is no folder, or cannot be made or written to.
    """
    folder = Path(path)
    if folder.exists() and not folder.is_dir():
        raise NotADirectoryError(f"output {str(folder)!r} is a file; expected a folder, choose another name")
    folder.mkdir(parents=True, exist_ok=True)
    if not force:
        held = next(iter(sorted(p.name for p in folder.iterdir())), None)
        if held is not None:
            raise OutputExistsError(
                f"output folder {str(folder)!r} is not empty (it holds {held!r}) and was left as it is; "
                "choose another, or "
                "ask for replacement (--force, force=True)"
            )
    if not os.access(folder, os.W_OK):
        raise PermissionError(f"output folder {str(folder)!r} cannot be written to; choose another")
    return folder


def _segment_rows(comparison: Comparison) -> Iterable[Sequence[Any]]:
    instance = comparison.instance
    origin = instance.arrays().origin_s
    jobs = {job.name: job for job in instance.jobs}
    kind = {profile.name: profile.kind for profile in instance.profiles}
    for row in comparison.rows:
        if row.result.schedule is None:
            continue
        for s in row.result.schedule.segments:
            for node, share in groupby(s.gpus, key=lambda gpu: gpu[0]):
                yield (
                    row.method,
                    s.job,
                    kind[jobs[s.job].profile],
                    jobs[s.job].gpus,
                    (s.start_s - origin) / 3600.0,
                    (s.end_s - origin) / 3600.0,
                    instance.cluster.nodes[node].name,
                    gpu_ranges([gpu for _, gpu in share]),
                )


def _job_rows(comparison: Comparison) -> Iterable[Sequence[Any]]:
    instance = comparison.instance
    origin = instance.arrays().origin_s
    for row in comparison.rows:
        found = row.result.evaluation
        if found is None:
            continue
        o = found.jobs
        for i, job in enumerate(row.instance.jobs):
            yield (
                row.method,
                job.name,
                job.profile,
                job.gpus,
                job.epochs,
                (job.release_s - origin) / 3600.0,
                (job.deadline_s - origin) / 3600.0,
                (o.start_s[i] - origin) / 3600.0,
                (o.end_s[i] - origin) / 3600.0,
                o.running_s[i] / 3600.0,
                o.wait_s[i] / 3600.0,
                o.jtt_s[i] / 3600.0,
                o.tpe_s[i] / 3600.0,
                o.energy_j[i] / 3.6e6,
                o.lateness_s[i] / 3600.0,
                bool(o.missed[i]),
            )


def _put_schedule(schedule: Schedule, instance: Instance, force: bool, path: Path) -> None:
    write_schedule(path, schedule, instance, force=force)


def _put_instance(instance: Instance, force: bool, path: Path) -> None:
    write_instance(path, instance, force=force)


SEGMENT_COLUMNS = ("method", "job", "kind", "job_gpus", "start_h", "end_h", "node", "gpus")
JOB_COLUMNS = (
    "method", "job", "profile", "gpus", "epochs", "release_h", "deadline_h", "start_h", "end_h", "jct_h",
    "wait_h",
    "jtt_h", "tpe_h", "energy_kwh", "lateness_h", "missed",
)  # fmt: skip
ACTIVE_COLUMNS = ("method", "time_h", "active_nodes")
NODE_COLUMNS = ("node", "node_type", "gpus")
ROW_COLUMNS = (
    "method", "class", "kind", "status", "stop_reason", "jobs", *METRICS, "bound", "bound_relaxed", "gap",
    "gap_relaxed", "runtime_s", "seed", "plan_grid_s", "plan_grid_status", "plan_grid_objective",
    *EXTRA, *(f"relative_{m}_percent" for m in RELATIVE),
)  # fmt: skip


def node_rows(instance: Instance) -> list[tuple[str, str, int]]:
    """Return name, type and GPUs of each node."""
    size = {t.name: t.gpus for t in instance.cluster.node_types}
    return [(n.name, n.node_type, size[n.node_type]) for n in instance.cluster.nodes]


def write_comparison(
    comparison: Comparison,
    path: str | os.PathLike[str],
    *,
    force: bool = False,
    figures: Sequence[str] = COMPARE_FIGURES,
    progress: Callable[[str], None] | None = None,
) -> list[Path]:
    """Write a comparison into a folder: tables, schedules, figures (docs/outputs.md).

    Parameters
    ----------
    comparison
        What to write.
    path
        The folder; made if it is missing.
    force
        Whether files of an earlier comparison may be replaced.
    figures
        Names of figures to draw from the tables.
    progress
        Told the name of each file before it is written.

    Returns
    -------
    list of Path
        The files, ``comparison.json`` last: where it lies, the folder is complete.

    Raises
    ------
    OutputExistsError
        The folder holds something and ``force`` is off.
    OSError
        The disk says no.
    """
    from paper_figs import render

    folder = prepare_folder(path, force=force)
    schedules = folder / "schedules"
    (folder / "comparison.json").unlink(missing_ok=True)
    if schedules.is_dir():  # of an earlier comparison, whose methods may have been others
        for old in schedules.glob("*.json"):
            old.unlink()
    schedules.mkdir(exist_ok=True)
    instance = comparison.instance
    origin = instance.arrays().origin_s
    written: list[Path] = []

    def put(name: str, write: Callable[[Path], None]) -> None:
        if progress is not None:
            progress(name)
        write(folder / name)
        written.append(folder / name)

    put("instance.json", partial(_put_instance, instance, force))
    table = comparison.table()
    put(
        "rows.csv",
        lambda p: write_csv(p, ROW_COLUMNS, ([r[c] for c in ROW_COLUMNS] for r in table), force=force),
    )
    put("jobs.csv", lambda p: write_csv(p, JOB_COLUMNS, _job_rows(comparison), force=force))
    put("segments.csv", lambda p: write_csv(p, SEGMENT_COLUMNS, _segment_rows(comparison), force=force))
    active = (
        (row.method, (t - origin) / 3600.0, n)
        for row in comparison.rows
        if row.active is not None
        for t, n in zip(row.active.time_s.tolist(), row.active.nodes.tolist(), strict=True)
    )
    put("active_nodes.csv", lambda p: write_csv(p, ACTIVE_COLUMNS, active, force=force))
    put("nodes.csv", lambda p: write_csv(p, NODE_COLUMNS, node_rows(instance), force=force))
    names = file_names(row.method for row in comparison.rows)
    for row in comparison.rows:
        schedule = row.result.schedule
        if schedule is not None:
            stem = f"schedules/{names[row.method]}"
            put(f"{stem}.json", partial(_put_schedule, schedule, row.instance, force))
            if row.rejected:
                put(f"{stem}.instance.json", partial(_put_instance, row.instance, force))
    for figure in figures:
        if progress is not None:
            progress(f"figures/{figure}")
        written += render(figure, folder, folder / "figures", force=force)
    document = comparison.document() | {"files": [p.relative_to(folder).as_posix() for p in written]}
    put("comparison.json", lambda p: write_text(p, json_text(document), force=force))
    return written


def write_certified(found: Certified, path: str | os.PathLike[str], *, force: bool = False) -> list[Path]:
    """Write a certification into a folder: tables, schedules, the anytime figure (docs/outputs.md).

    Parameters
    ----------
    found
        What to write.
    path
        The folder; made if it is missing.
    force
        Whether files of an earlier one may be replaced.

    Returns
    -------
    list of Path
        The files, ``certify.json`` last: where it lies, the folder is complete.
    """
    from paper_figs import render

    folder = prepare_folder(path, force=force)
    (folder / "certify.json").unlink(missing_ok=True)
    (folder / "schedules").mkdir(exist_ok=True)
    written = [folder / "instance.json", folder / "rows.csv", folder / "curve.csv"]
    write_instance(written[0], found.instance, force=force)
    write_csv(written[1], CERTIFY_COLUMNS, ([r[c] for c in CERTIFY_COLUMNS] for r in found.rows), force=force)
    write_csv(written[2], CURVE_COLUMNS, found.curve, force=force)
    names = file_names(label for label, _, _ in found.schedules)
    for label, schedule, instance in found.schedules:
        written.append(folder / "schedules" / f"{names[label]}.json")
        write_schedule(written[-1], schedule, instance, force=force)
    written += render("anytime", folder, folder / "figures", force=force)
    written.append(folder / "certify.json")
    document = found.document() | {"files": [p.relative_to(folder).as_posix() for p in written]}
    write_text(written[-1], json_text(document), force=force)
    return written


def write_frontier(found: Frontier, path: str | os.PathLike[str], *, force: bool = False) -> list[Path]:
    """Write the study of the attainable frontier into a folder (docs/outputs.md).

    Parameters
    ----------
    found
        What to write.
    path
        The folder; made if it is missing.
    force
        Whether files of an earlier one may be replaced.

    Returns
    -------
    list of Path
        The files, ``frontier.json`` last: where it lies, the folder is complete.
    """
    from paper_figs import render

    folder = prepare_folder(path, force=force)
    (folder / "frontier.json").unlink(missing_ok=True)
    written = [folder / name for name in ("instance.json", "frontier.csv", "weights.csv", "points.csv")]
    write_instance(written[0], found.instance, force=force)
    write_csv(written[1], FRONTIER_COLUMNS, found.curve_rows(), force=force)
    weights = ([row[c] for c in WEIGHT_COLUMNS] for curve in found.curves for row in curve.rows)
    write_csv(written[2], WEIGHT_COLUMNS, weights, force=force)
    points = ([row[c] for c in POINT_COLUMNS] for row in found.points)
    write_csv(written[3], POINT_COLUMNS, points, force=force)
    written += render("frontier", folder, folder / "figures", force=force)
    written.append(folder / "frontier.json")
    whole = document(found) | {"files": [p.relative_to(folder).as_posix() for p in written]}
    write_text(written[-1], json_text(whole), force=force)
    return written
