"""Tables with a header, row by row, and the book in which a reader enters its jobs, refusals and repairs.

Readers of comma-separated formats walk over :func:`rows`, take numbers and times out of the cells with the
methods of :class:`Book`, each of which refuses the row itself when the cell is no good, and enter what is
left with :meth:`Book.take`.
"""

from __future__ import annotations

import csv
import re
import sys
from array import array
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from eaco_opt.cluster import Cluster
from eaco_opt.errors import DomainError, TraceError
from eaco_opt.interference import Interference

from ..clusters import gpu_types, smallest_gpu_memory_gib
from .columns import REFUSED, REPAIRED, RowNote, TraceColumns
from .localtime import AMBIGUOUS, to_posix_s
from .native import Workload
from .options import ImportOptions
from .text import TraceText, is_utf8, missing, real, shown, whole

MAX_SECONDS = 1e10
"""Longest running time and latest submit time that are believed [s]."""

MAX_GPUS = 1_000_000

MAX_NAME_CHARACTERS = 200
"""Longest name of a model or job that is read."""

MEAN_UTILISATION = 0.52
"""GPU utilisation of jobs whose trace records none, fraction: the mean of the Philly cluster (Jeon et al.,
USENIX ATC 2019)."""

LARGEST_SHARE = 0.9
"""What a job that asks for whole GPUs is given of each, load and memory: the default thresholds, so that it
can run alone and with nothing beside it. A fraction f of a GPU is this times f: fractions that fill a
GPU in their trace fill it here, and no more fit."""

UNITS = {1.0: "seconds", 1e-3: "milliseconds", 60.0: "minutes", 3600.0: "hours", 86400.0: "days"}
"""Units of time by their length [s]."""

NUMBERS = ("line", "submit", "gpus", "duration", "priority", "deadline", "utilisation", "memory")


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a table.

    Attributes
    ----------
    line
        Its number.
    cells
        Its cells.
    at
        Places of the columns by name.
    """

    line: int
    cells: Sequence[str]
    at: Mapping[str, int]

    def __getitem__(self, column: str) -> str:
        """Return the cell of a column without spaces around it; empty where the table lacks the column."""
        place = self.at.get(column)
        return "" if place is None else self.cells[place].strip()


@dataclass(slots=True)
class Book:
    """What a reader found in a file: jobs, refusals and repairs.

    Attributes
    ----------
    text
        The file.
    read
        Rows seen so far.
    """

    text: TraceText
    read: int = 0
    _notes: list[RowNote] = field(default_factory=list)
    _numbers: dict[str, array[float]] = field(default_factory=lambda: {k: array("d") for k in NUMBERS})
    _model: list[str] = field(default_factory=list)
    _vc: list[str] = field(default_factory=list)
    _state: list[str] = field(default_factory=list)
    _ids: set[str] = field(default_factory=set)

    @property
    def notes(self) -> tuple[RowNote, ...]:
        """Return the refusals and repairs so far."""
        return tuple(self._notes)

    def refuse(self, row: int, reason: str, what: str) -> None:
        """Note that a row, given by its line, is not taken."""
        self._note(row, REFUSED, reason, what)

    def repair(self, row: int, reason: str, what: str) -> None:
        """Note that a row, given by its line, is taken with a change."""
        self._note(row, REPAIRED, reason, what)

    def _note(self, line: int, action: str, reason: str, what: str) -> None:
        self._notes.append(RowNote(file=self.text.file, line=line, action=action, reason=reason, text=what))

    def gpus(self, row: Row, column: str) -> int | None:
        """Return a whole number of GPUs, ``None`` if the row was refused."""
        cell = row[column]
        count = whole(cell)
        if count == 0:
            self.refuse(row.line, "no-gpu", f"{column} must be at least 1, got 0")
            return None
        if count is None or not 1 <= count <= MAX_GPUS:
            reason = "missing-gpus" if missing(cell) else "bad-gpus"
            what = f"{column} must be a whole number from 1 to {MAX_GPUS}, got {shown(cell)}"
            self.refuse(row.line, reason, what)
            return None
        return count

    def duration_s(self, row: Row, column: str, *, unit_s: float = 1.0) -> float | None:
        """Return a running time [s] given in units of ``unit_s``, ``None`` if the row was refused."""
        cell = row[column]
        value = real(cell)
        if value is None or value * unit_s > MAX_SECONDS:
            reason = "missing-duration" if missing(cell) else "bad-duration"
            unit = UNITS[unit_s]
            most = f"{MAX_SECONDS / unit_s:g}"
            self.refuse(
                row.line, reason, f"{column} must be a number of {unit}, at most {most}, got {shown(cell)}"
            )
            return None
        if value <= 0.0:
            self.refuse(row.line, "duration-not-positive", f"{column} must be above 0, got {shown(cell)}")
            return None
        return value * unit_s

    def seconds(self, row: Row, column: str, *, unit_s: float = 1.0) -> float | None:
        """Return a time since the trace's own origin [s], ``None`` if the row was refused."""
        cell = row[column]
        value = real(cell)
        if value is None or abs(value * unit_s) > MAX_SECONDS:
            reason = "missing-timestamp" if missing(cell) else "bad-timestamp"
            unit = UNITS[unit_s]
            self.refuse(row.line, reason, f"{column} must be a number of {unit}, got {shown(cell)}")
            return None
        return value * unit_s

    def calendar_s(self, row: Row, column: str, zone: str) -> float | None:
        """Return the POSIX time [s] of an ISO time, read in a zone; ``None`` if the row was refused."""
        cell = row[column]
        try:
            posix_s, odd = to_posix_s(cell, zone)
        except (ValueError, OverflowError) as error:
            if isinstance(error, TraceError):  # no time zones on this machine: nothing can be read
                raise
            reason = "missing-timestamp" if missing(cell) else "bad-timestamp"
            self.refuse(row.line, reason, f"{column} must look like 2020-04-01 12:30:00, got {shown(cell)}")
            return None
        if odd is not None:
            passes = "occurs twice, read as the first" if odd == AMBIGUOUS else "never occurs, moved forward"
            self.repair(row.line, odd, f"{shown(cell)} in {zone} {passes}")
        return posix_s

    def name(self, row: Row, column: str, *, instead: str) -> str | None:
        """Return what a job runs, ``instead`` where the cell is empty; ``None`` if the row was refused."""
        cell = row[column]
        if missing(cell):
            if column in row.at:
                self.repair(row.line, "missing-model", f"{column} is missing, taken as {instead!r}")
            return instead
        if not cell.isprintable() or len(cell) > MAX_NAME_CHARACTERS:
            self.refuse(row.line, "bad-model", f"{column} must be a printable name, got {shown(cell)}")
            return None
        return cell

    def once(self, row: Row, column: str) -> None:
        """Note a row whose id occurred before: it is kept, as a job of its own."""
        cell = row[column]
        if missing(cell):
            return
        if cell in self._ids:
            self.repair(
                row.line, "duplicate-id", f"{column} {shown(cell)} occurred before; kept as another job"
            )
        self._ids.add(cell)

    def take(
        self,
        line: int,
        *,
        submit_s: float,
        gpus: int,
        duration_s: float,
        model: str = "",
        vc: str = "",
        state: str = "",
        priority: int = 0,
        deadline_slack: float = float("nan"),
        utilisation: float = float("nan"),
        memory_gib: float = float("nan"),
    ) -> None:
        """Enter a job; for the meanings see :class:`~instances.readers.columns.TraceColumns`."""
        values = (line, submit_s, gpus, duration_s, priority, deadline_slack, utilisation, memory_gib)
        for name, value in zip(NUMBERS, values, strict=True):
            self._numbers[name].append(value)
        # One text for all rows that say the same: a million rows have few names.
        self._model.append(sys.intern(model))
        self._vc.append(sys.intern(vc))
        self._state.append(sys.intern(state))

    def columns(
        self,
        variant: str,
        *,
        vc: bool = False,
        state: bool = False,
        priority: bool = False,
        deadlines: bool = False,
        time_zone: str | None = None,
        assumptions: Mapping[str, str] | None = None,
    ) -> TraceColumns:
        """Return the columns of the jobs entered.

        Parameters
        ----------
        variant
            Form of the format.
        vc, state, priority, deadlines
            Whether the file has virtual clusters, states, priorities, deadlines.
        time_zone, assumptions
            Of :class:`~instances.readers.columns.TraceColumns`.
        """
        numbers = self._numbers
        return TraceColumns(
            file=self.text.file,
            name=self.text.name,
            sha256=self.text.sha256,
            variant=variant,
            read=self.read,
            line=np.array(numbers["line"], dtype=np.int64),
            submit_s=np.array(numbers["submit"], dtype=np.float64),
            gpus=np.array(numbers["gpus"], dtype=np.int64),
            duration_s=np.array(numbers["duration"], dtype=np.float64),
            model=tuple(self._model),
            vc=tuple(self._vc) if vc else (),
            state=tuple(self._state) if state else (),
            priority=np.array(numbers["priority"] if priority else [], dtype=np.int64),
            deadline_slack=np.array(numbers["deadline"] if deadlines else [], dtype=np.float64),
            utilisation=np.array(numbers["utilisation"], dtype=np.float64),
            memory_gib=np.array(numbers["memory"], dtype=np.float64),
            time_zone=time_zone,
            notes=self.notes,
            assumptions={
                **{
                    f"trace.{role}_table": f"{file.name}, sha256 {file.sha256}"
                    for role, file in sorted(self.text.companions.items())
                },
                **(assumptions or {}),
            },
        )


def cells_of(line: str) -> list[str] | None:
    """Return the cells of one line of CSV, ``None`` where its quotes do not match."""
    if '"' not in line:
        return line.split(",")
    try:
        return next(csv.reader([line], strict=True))
    except csv.Error:
        return None


def rows(
    book: Book, *, required: Sequence[str], optional: Sequence[str] = (), what: str, hint: str = ""
) -> Iterator[Row]:
    """Walk over the rows below a header; rows of another width or with foreign bytes are refused.

    Parameters
    ----------
    book
        Of the file; its ``read`` is counted up.
    required, optional
        Columns that must and that may be there, in any order; others are ignored.
    what
        The format in words, for the error.
    hint
        What to do when columns are lacking.

    Raises
    ------
    TraceError
        The header is missing, or lacks a required column or names one twice.
    """
    text = book.text
    lines = text.rows()
    number, line = next(lines, (1, ""))
    names = [c.strip() for c in cells_of(line) or []]
    lacking = [c for c in required if c not in names]
    twice = [c for c in (*required, *optional) if names.count(c) > 1]
    if lacking or twice:
        wrong = f"no column {', '.join(lacking)}" if lacking else f"column {', '.join(twice)} twice"
        raise TraceError(
            f"{text.file}:{number}: expected {what}, a comma-separated header with the columns "
            f"{', '.join(required)}, got {wrong}: {shown(line)}{hint and '; ' + hint}"
        )
    at = {c: names.index(c) for c in (*required, *optional) if c in names}
    for row in _cut(book, lines, len(names)):
        yield Row(row[0], row[1], at)


def headless_rows(book: Book, *, columns: Sequence[str], what: str) -> Iterator[Row]:
    """Walk over the rows of a table without a header, whose columns are known by their order.

    Raises
    ------
    TraceError
        There is no row, or the first has another number of cells.
    """
    text = book.text
    number, line = next(text.rows(), (1, ""))
    if len(cells_of(line) or ()) != len(columns):
        raise TraceError(
            f"{text.file}:{number}: expected {what}, {len(columns)} comma-separated columns without a header "
            f"({', '.join(columns)}), got {shown(line)}"
        )
    at = {c: i for i, c in enumerate(columns)}
    for row in _cut(book, text.rows(), len(columns)):
        yield Row(row[0], row[1], at)


def _cut(book: Book, lines: Iterator[tuple[int, str]], width: int) -> Iterator[tuple[int, list[str]]]:
    for number, line in lines:
        book.read += 1
        if not is_utf8(line):
            book.refuse(number, "not-utf-8", "expected text in UTF-8, got other bytes")
            continue
        cells = cells_of(line)
        if cells is None or len(cells) != width:
            got = "broken quotes" if cells is None else str(len(cells))
            book.refuse(number, "wrong-column-count", f"expected {width} columns, got {got}")
            continue
        yield number, cells


def refuse_throughputs(reader: str, options: ImportOptions) -> None:
    """Refuse the option ``throughputs`` for a reader that has no use for it.

    Raises
    ------
    DomainError
        It was given.
    """
    if options.throughputs is not None:
        raise DomainError(
            f"reader {reader!r}: throughputs must be left out: running times do not come from a table of "
            "throughputs here"
        )


def recorded(
    reader: str,
    columns: TraceColumns,
    options: ImportOptions,
    cluster: Cluster,
    *,
    utilisation: Mapping[str, float] | float = MEAN_UTILISATION,
    memory_gib: Mapping[str, float] | None = None,
    assumptions: Mapping[str, str] | None = None,
) -> Workload:
    """Return the running times that a trace records, on every GPU type of the cluster.

    Parameters
    ----------
    reader
        Name of the reader, for errors.
    columns
        Its rows; ``model`` is the kind of each.
    options, cluster
        Of the import.
    utilisation
        Mean GPU utilisation, fraction: by kind, or one for all.
    memory_gib
        GPU memory [GiB] of the kinds whose memory is known.
    assumptions
        What was assumed besides.
    """
    refuse_throughputs(reader, options)
    types = gpu_types(cluster)
    kinds = dict.fromkeys(columns.model)
    same = not isinstance(utilisation, Mapping)
    return Workload(
        gpu_types=types,
        duration_s=np.repeat(columns.duration_s[:, np.newaxis], len(types), axis=1),
        kind=columns.model,
        utilisation={k: utilisation for k in kinds} if same else dict(utilisation),  # type: ignore[arg-type,misc]
        memory_gib=dict(memory_gib or {}),
        truth=additive,
        assumptions={
            "assumption.duration": (
                "the trace's running times, on every GPU type of the cluster and unchanged where a job is "
                "clipped to fewer GPUs"
            ),
            **(
                {
                    "assumption.utilisation": (
                        f"{utilisation:g} for every job, the mean of the Philly cluster (Jeon et al., USENIX "
                        "ATC 2019); the trace records none"
                    )
                }
                if same
                else {}
            ),
            "assumption.slowdown": "sum of the utilisations of the jobs on a GPU, at least 1",
            **(assumptions or {}),
        },
    )


def additive(kinds: AbstractSet[str]) -> Interference:
    """Return slowdowns of the model ``additive`` for any kinds."""
    return Interference(model="additive")


_FRACTION = re.compile(r", ([0-9.]+) GPU")


def fraction_kind(what: str, fraction: float) -> str:
    """Return the kind of a job that asks for a fraction of each of its GPUs, e.g. ``pod, 0.46 GPU``."""
    return f"{what}, {round(fraction, 3):g} GPU"


def fraction_of(kind: str) -> float:
    """Return the fraction in a kind of :func:`fraction_kind`."""
    found = _FRACTION.search(kind)
    return 1.0 if found is None else float(found[1])


def shares(
    kinds: Sequence[str], cluster: Cluster
) -> tuple[dict[str, float], dict[str, float], dict[str, str]]:
    """Return load and memory of kinds that ask for a fraction of each of their GPUs.

    Parameters
    ----------
    kinds
        Of :func:`fraction_kind`.
    cluster
        Gives the memory of the smallest GPU.

    Returns
    -------
    tuple
        Utilisation by kind, memory by kind [GiB], and the assumptions for the metadata.
    """
    memory_gib = smallest_gpu_memory_gib(cluster)
    share = {kind: round(LARGEST_SHARE * fraction_of(kind), 12) for kind in dict.fromkeys(kinds)}
    return (
        share,
        {kind: s * memory_gib for kind, s in share.items()},
        {
            "assumption.fraction": (
                "a job on a fraction f of a GPU is a job on one GPU; load and memory, mean and peak, of "
                "each GPU "
                f"are {LARGEST_SHARE:g} * f of it, and {LARGEST_SHARE:g} for whole GPUs: what is asked for, "
                "scaled to the default thresholds, not what was measured"
            ),
            "assumption.utilisation": f"{LARGEST_SHARE:g} times the fraction of a GPU that is asked for",
            "assumption.memory": (
                f"{LARGEST_SHARE:g} times the fraction of a GPU that is asked for, of the memory of the "
                f"cluster's smallest GPU ({memory_gib:g} GiB)"
            ),
        },
    )


def per_kind(kinds: Sequence[str], values: NDArray[np.float64]) -> dict[str, float]:
    """Return the mean of (N,) values over the rows of each of (N,) kinds, without the NaN among them."""
    total: dict[str, float] = {}
    count: dict[str, int] = {}
    for kind, value in zip(kinds, values.tolist(), strict=True):
        if value == value:
            total[kind] = total.get(kind, 0.0) + value
            count[kind] = count.get(kind, 0) + 1
    return {kind: total[kind] / count[kind] for kind in total}
