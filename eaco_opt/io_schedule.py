"""Schedules as JSON and as CSV of segments (docs/formats.md).

Files name jobs and nodes; the objects hold positions of nodes, so reading and writing
take the instance. A job or a GPU number that the instance lacks is read: telling it is
the checker's part. A node it lacks has no position, and is an error here.
"""

from __future__ import annotations

import csv
import difflib
import io
import itertools
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any

from .errors import DomainError, EacoError, FormatError, ScheduleError
from .instance import Instance
from .io_digest import instance_digest
from .io_json import (
    Document,
    Keys,
    ListOf,
    Number,
    Steps,
    Text,
    Whole,
    document_text,
    header,
    parse,
    shown,
)
from .schedule import Gpu, Schedule, ScheduleClass, Segment

SCHEDULE_FORMAT = "eaco-opt/schedule"
VERSION = 1

MAX_GPU = 65_535
"""Highest number a GPU of a node can have."""

MAX_GPUS_NAMED = 20_000_000
"""Most GPUs that all rows of a CSV file may name together: a range is short to write."""

_SHARE = Keys("the GPUs of one node", {"node": Text(), "gpus": ListOf(Whole())}, ["node", "gpus"])
SEGMENT = Keys(
    "a segment",
    {"job": Text(), "start_s": Number(), "end_s": Number(), "gpus": ListOf(_SHARE)},
    ["job", "start_s", "end_s", "gpus"],
)
SCHEDULE = Keys(
    "a schedule",
    {"instance_digest": Text(), "method": Text(), "schedule_class": Text(), "segments": ListOf(SEGMENT)},
    ["segments"],
)
_LAYOUT = {"segments": [None]}


def _positions(instance: Instance) -> dict[str, int]:
    return {node.name: i for i, node in enumerate(instance.cluster.nodes)}


def _unknown_node(name: str, instance: Instance, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, list(known), n=1) if len(name) <= 100 else []
    hint = f"; did you mean {near[0]!r}?" if near else ""
    text = repr(name) if len(name) <= 60 else repr(name[:57]) + "..."
    count = len(instance.cluster.nodes)
    return f"unknown node {text}, expected one of the {count} node(s) of instance {instance.name!r}{hint}"


def _by_node(segment: Segment, instance: Instance) -> list[tuple[str, list[int]]]:
    """Return (node name, GPU numbers) of a segment, in order of nodes."""
    nodes = instance.cluster.nodes
    out: list[tuple[str, list[int]]] = []
    for position, gpus in itertools.groupby(segment.gpus, key=lambda gpu: gpu[0]):
        if position >= len(nodes):
            raise ScheduleError(
                f"segment of job {segment.job!r}: node {position} does not exist; "
                f"instance {instance.name!r} has nodes 0 to {len(nodes) - 1}"
            )
        out.append((nodes[position].name, [k for _, k in gpus]))
    return out


def schedule_to_json(schedule: Schedule, instance: Instance) -> str:
    """Return a schedule as JSON text, one segment a line.

    Parameters
    ----------
    schedule
        The schedule.
    instance
        The instance it is for; gives the names of nodes.

    Raises
    ------
    ScheduleError
        A segment uses a node that the instance does not have.
    FormatError
        A text holds half of a surrogate pair, which no file can hold.
    """
    value = {
        "format": SCHEDULE_FORMAT,
        "version": VERSION,
        "instance_digest": schedule.instance_digest,
        "method": schedule.method,
        "schedule_class": schedule.schedule_class.value,
        "segments": [
            {
                "job": s.job,
                "start_s": s.start_s,
                "end_s": s.end_s,
                "gpus": [{"node": node, "gpus": gpus} for node, gpus in _by_node(s, instance)],
            }
            for s in schedule.segments
        ],
    }
    return document_text("schedule", value, _LAYOUT)


def _schedule_v1(
    document: Document, body: dict[str, Any], instance: Instance, allow_other_digest: bool
) -> Schedule:
    content = SCHEDULE.arguments(document, (), body)
    digest = content.get("instance_digest", "")
    if digest and not allow_other_digest:
        expected = instance_digest(instance)
        if digest != expected:
            raise document.error(
                ("instance_digest",),
                f"the schedule was made for another problem: expected the digest of {instance.name!r} "
                f"({expected}), got {shown(digest)}; take the instance it was made for; 'check "
                "--any-instance' and allow_other_digest=True accept it all the same",
                ScheduleError,
            )
    position = _positions(instance)
    segments: list[Segment] = []
    for i, item in enumerate(content["segments"]):
        steps: Steps = ("segments", i)
        gpus: list[Gpu] = []
        for k, share in enumerate(item["gpus"]):
            if share["node"] not in position:
                message = _unknown_node(share["node"], instance, position)
                raise document.error((*steps, "gpus", k, "node"), message, ScheduleError)
            node = position[share["node"]]
            gpus += [(node, number) for number in share["gpus"]]
        try:
            segments.append(
                Segment(job=item["job"], start_s=item["start_s"], end_s=item["end_s"], gpus=tuple(gpus))
            )
        except EacoError as error:
            raise document.placed(error, steps, SEGMENT.fields) from None
    try:
        return Schedule(
            segments=tuple(segments),
            schedule_class=content.get("schedule_class", ScheduleClass.FLUID),
            method=content.get("method", ""),
            instance_digest=digest,
        )
    except EacoError as error:
        raise document.placed(error, (), SCHEDULE.fields) from None


_READERS: dict[int, Callable[[Document, dict[str, Any], Instance, bool], Schedule]] = {1: _schedule_v1}


def schedule_from_json(
    text: str, instance: Instance, *, source: str = "schedule", allow_other_digest: bool = False
) -> Schedule:
    """Return the schedule that a JSON text states; the inverse of :func:`schedule_to_json`.

    Parameters
    ----------
    text
        The text.
    instance
        The instance it is for; gives the positions of nodes.
    source
        Name of the file, for messages.
    allow_other_digest
        Whether a schedule made for another instance is accepted. One that states no
        digest, or an empty one, always is.

    Raises
    ------
    FormatError
        The text is no JSON, or not of this format, a known version and the right types.
    ScheduleError
        The digest is that of another instance, or a node does not exist.
    DomainError
        A value is out of range. All name file, line and place.
    """
    document = parse(text, source=source)
    version, body = header(document, SCHEDULE_FORMAT, _READERS)
    return _READERS[version](document, body, instance, allow_other_digest)


_COLUMNS: Mapping[str, tuple[str, int]] = {
    "job": ("job", 1),
    "start": ("start", 1),
    "start_s": ("start", 1),
    "start_h": ("start", 3600),
    "end": ("end", 1),
    "end_s": ("end", 1),
    "end_h": ("end", 3600),
    "node": ("node", 1),
    "gpus": ("gpus", 1),
}
"""Column name: (what it states, seconds in its unit)."""

_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_RANGE = re.compile(r"([0-9]{1,6})(?:-([0-9]{1,6}))?")
_MAX_NUMBER = 400


def _columns(names: Sequence[str], place: str) -> dict[str, tuple[int, int]]:
    """Return {what it states: (position, seconds in its unit)} of a header row."""
    out: dict[str, tuple[int, int]] = {}
    seen: dict[str, str] = {}
    for i, name in enumerate(names):
        key = name.strip().lower()
        if key not in _COLUMNS:
            text = repr(name if len(name) <= 60 else name[:57] + "...")
            hint = "separate columns by commas; " if ";" in name or "\t" in name else ""
            raise FormatError(
                f"{place}: unknown column {text}; {hint}known columns are: {', '.join(_COLUMNS)}"
            )
        what, unit = _COLUMNS[key]
        if what in out:
            raise FormatError(
                f"{place}: columns {seen[what]!r} and {name.strip()!r} both state the {what}; keep one"
            )
        out[what], seen[what] = (i, unit), name.strip()
    missing = [what for what in ("job", "start", "end", "node", "gpus") if what not in out]
    if missing:
        raise FormatError(
            f"{place}: expected a header with the columns job,start,end,node,gpus, "
            f"{', '.join(repr(m) for m in missing)} missing; add it"
        )
    return out


def _seconds(text: str, unit: int, place: str, what: str) -> float:
    """Return a time [s], read as the decimal written."""
    if not _NUMBER.fullmatch(text) or len(text) > _MAX_NUMBER:
        shown_text = repr(text if len(text) <= 60 else text[:57] + "...")
        raise FormatError(f"{place}: expected a number as {what}, such as 3600 or 0.5, got {shown_text}")
    value = float(text)
    if unit != 1 and 1e-300 < abs(value) < 1e300:
        value = float(Decimal(text) * unit)  # 28 digits; a float has 17
    elif unit != 1:
        value *= unit
    return value


def _gpu_numbers(text: str, size: int, place: str) -> list[int]:
    """Return the GPU numbers that a cell states: ``0-7``, ``0 1 2``, ``0;1;2``, ``all``."""
    if text.lower() == "all":
        return list(range(size))
    out: list[int] = []
    for part in re.split(r"[\s,;]+", text):
        match = _RANGE.fullmatch(part)
        first = int(match[1]) if match else 1
        last = int(match[2]) if match and match[2] else first
        if not match or last < first or last > MAX_GPU:
            shown_part = repr(part if len(part) <= 60 else part[:57] + "...")
            raise FormatError(
                f"{place}: expected GPU numbers from 0 to {MAX_GPU:,} such as 0-7, 0 1 2, 0;1;2 or all, "
                f"got {shown_part}"
            )
        out.extend(range(first, last + 1))
    return out


def schedule_from_csv(text: str, instance: Instance, *, source: str = "schedule") -> Schedule:
    """Return the schedule that a CSV of segments states.

    One row a segment and node; rows of one job with the same start and end are one
    segment. Segments of a job that follow each other without a break on the same GPUs
    are one run. The class is ``static`` when every job has one run, else ``fluid``.

    Parameters
    ----------
    text
        The text, with a header: ``job,start,end,node,gpus``. Times are seconds;
        ``start_h`` and ``end_h`` are hours.
    instance
        The instance it is for; gives the positions of nodes.
    source
        Name of the file, for messages.

    Raises
    ------
    FormatError
        A column or a value is not as expected.
    ScheduleError
        A node does not exist.
    DomainError
        A time or a name is out of range. All name file and line.
    """
    rows = csv.reader(
        io.StringIO(text.removeprefix("\ufeff"), newline=""), strict=True, skipinitialspace=True
    )
    position = _positions(instance)
    columns: dict[str, tuple[int, int]] = {}
    width = named = 0
    parts: dict[tuple[str, float, float], dict[Gpu, None]] = {}
    try:
        for row in rows:
            place = f"{source}, line {rows.line_num}"
            if not any(cell.strip() for cell in row):
                continue
            if not columns:
                columns, width = _columns(row, place), len(row)
                continue
            if len(row) != width:
                raise FormatError(
                    f"{place}: expected {width} values as in the header, got {len(row)}; "
                    "put lists of GPUs with commas in quotes"
                )
            cell = {what: row[i].strip() for what, (i, _) in columns.items()}
            if cell["node"] not in position:
                raise ScheduleError(f"{place}: {_unknown_node(cell['node'], instance, position)}")
            node = position[cell["node"]]
            start, end = (_seconds(cell[what], columns[what][1], place, what) for what in ("start", "end"))
            numbers = _gpu_numbers(cell["gpus"], instance.cluster.type_of(node).gpus, place)
            named += len(numbers)
            if named > MAX_GPUS_NAMED:
                raise FormatError(
                    f"{place}: the file names more than {MAX_GPUS_NAMED:,} GPUs; expected fewer, split it"
                )
            key = (cell["job"], start, end)
            if key not in parts:
                Segment(job=key[0], start_s=start, end_s=end, gpus=((node, 0),))  # its checks, with this line
                parts[key] = {}
            gpus = parts[key]
            for number in numbers:
                if (node, number) in gpus:
                    raise FormatError(
                        f"{place}: GPU {number} of node {cell['node']!r} is named twice for one segment of "
                        f"job {key[0]!r}; name it once"
                    )
                gpus[node, number] = None
    except csv.Error as error:
        raise FormatError(f"{source}, line {rows.line_num}: not valid CSV: {error}") from None
    except DomainError as error:
        raise DomainError(f"{place}: {error}") from None
    if not columns:
        raise FormatError(
            f"{source}: expected a header with the columns job,start,end,node,gpus, got an empty file"
        )
    runs: dict[str, list[Segment]] = {}
    for (job, start, end), gpus in sorted(parts.items(), key=lambda item: item[0]):
        segment = Segment(job=job, start_s=start, end_s=end, gpus=tuple(gpus))
        before = runs.setdefault(job, [])
        if before and before[-1].end_s == start and before[-1].gpus == segment.gpus:
            before[-1] = Segment(job=job, start_s=before[-1].start_s, end_s=end, gpus=segment.gpus)
        else:
            before.append(segment)
    single = all(len(run) == 1 for run in runs.values())
    return Schedule(
        segments=tuple(s for run in runs.values() for s in run),
        schedule_class=ScheduleClass.STATIC if single else ScheduleClass.FLUID,
    )


def _ranges(numbers: Sequence[int]) -> str:
    """Return sorted GPU numbers as ``0-3 6``."""
    out: list[str] = []
    for _, group in itertools.groupby(enumerate(numbers), key=lambda pair: pair[1] - pair[0]):
        run = [number for _, number in group]
        out.append(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}")
    return " ".join(out)


def schedule_to_csv(schedule: Schedule, instance: Instance) -> str:
    """Return the segments of a schedule as CSV; class, method and digest are left out.

    Parameters
    ----------
    schedule
        The schedule.
    instance
        The instance it is for; gives the names of nodes.

    Raises
    ------
    ScheduleError
        A segment uses a node that the instance does not have, or two segments of a job
        have the same start and end, which a CSV cannot tell apart.
    """
    seen: set[tuple[str, float, float]] = set()
    out = io.StringIO(newline="")
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["job", "start_s", "end_s", "node", "gpus"])
    for s in schedule.segments:
        key = (s.job, s.start_s, s.end_s)
        if key in seen:
            raise ScheduleError(
                f"schedule: job {s.job!r} has two segments from {s.start_s!r} to {s.end_s!r} s, which a CSV "
                "cannot tell from one; write JSON"
            )
        seen.add(key)
        for node, gpus in _by_node(s, instance):
            writer.writerow([s.job, repr(s.start_s), repr(s.end_s), node, _ranges(gpus)])
    return out.getvalue()
