"""The Standard Workload Format of the Parallel Workloads Archive: 18 numbers a line, -1 for what is unknown.

Chapin et al., "Benchmarks and Standards for the Evaluation of Parallel Job Schedulers", JSSPP 1999;
www.cs.huji.ac.il/labs/parallel/workload. Processors are read as GPUs: an assumption that the metadata state.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from eaco_opt.cluster import Cluster
from eaco_opt.errors import TraceError

from .columns import TraceColumns
from .localtime import zone
from .native import Workload
from .options import ImportOptions
from .table import Book, Row, recorded
from .text import TraceText, is_utf8, real, shown

FIELDS = (
    "job", "submit", "wait", "run", "processors", "cpu", "memory", "requested_processors", "requested_time",
    "requested_memory", "status", "user", "group", "executable", "queue", "partition", "preceding", "think",
)  # fmt: skip
"""Fields of a line in their order; job, submit, run, both processors, status, executable and partition are
read."""

STATES = {"0": "FAILED", "1": "COMPLETED", "2": "PARTIAL", "3": "PARTIAL", "4": "PARTIAL", "5": "CANCELLED"}
"""Words for the field status."""

UNKNOWN = "-1"

KIND = "swf-job"
"""Kind of a job whose executable is not given."""


class Swf:
    """Standard Workload Format: 18 numbers a line, ; comments, -1 unknown; processors are read as GPUs."""

    SAMPLE = (
        "; UnixStartTime: 1506816000\n"
        "; TimeZoneString: Europe/Paris\n"
        "1 0 10 3600 1 -1 -1 1 7200 -1 1 3 1 7 1 2 -1 -1\n"
        "2 60 0 120 -1 -1 -1 8 600 -1 5 3 1 -1 1 2 -1 -1\n"
    )

    def read(self, text: TraceText) -> TraceColumns:
        """Return the columns of a trace.

        Raises
        ------
        TraceError
            The first line that is no comment does not hold 18 numbers.
        """
        book = Book(text)
        header: dict[str, str] = {}
        for row in _rows(book, header):
            submit_s = book.seconds(row, "submit")
            if submit_s is None:
                continue
            if row["run"] == UNKNOWN:
                book.refuse(row.line, "missing-duration", "run must be a number of seconds, got -1 (unknown)")
                continue
            duration_s = book.duration_s(row, "run")
            if duration_s is None:
                continue
            column = "processors"
            if row[column] == UNKNOWN:
                column = "requested_processors"
                if row[column] == UNKNOWN:
                    book.refuse(row.line, "missing-gpus", "processors and requested_processors are unknown")
                    continue
                book.repair(row.line, "requested-gpus", "processors are unknown; those requested are taken")
            gpus = book.gpus(row, column)
            if gpus is None:
                continue
            book.once(row, "job")
            of = row["executable"]
            book.take(
                row.line,
                submit_s=submit_s,
                gpus=gpus,
                duration_s=duration_s,
                model=KIND if of == UNKNOWN else f"executable {of}",
                vc="" if row["partition"] == UNKNOWN else row["partition"],
                state=STATES.get(row["status"], "UNKNOWN"),
            )
        start = real(header.get("unixstarttime", ""))
        dated = start is not None and 0.0 < start < 1e10
        shift = start if start is not None and dated else 0.0
        found = book.columns(
            "swf",
            vc=True,
            state=True,
            time_zone=_zone(header) if dated else None,
            assumptions={"assumption.gpus_of_processors": "a processor of the trace is read as a GPU"},
        )
        found.submit_s[:] += shift
        return found

    def workload(
        self, columns: TraceColumns, gpus: NDArray[np.int64], options: ImportOptions, cluster: Cluster
    ) -> Workload:
        """Return the trace's own running times, a kind for each executable; see the base protocol."""
        return recorded("swf", columns, options, cluster)


def _rows(book: Book, header: dict[str, str]) -> Iterator[Row]:
    """Walk over the lines with their 18 fields, and note what comments declare."""
    at = {name: i for i, name in enumerate(FIELDS)}
    text, first = book.text, True
    for number, line in text.rows():
        body = line.strip()
        if body.startswith(";"):
            declared = re.match(r";\s*(\w+)\s*:\s*(\S+)", body)
            if declared is not None:
                header.setdefault(declared[1].lower(), declared[2])
            continue
        cells = body.split()
        good = is_utf8(line) and len(cells) == len(FIELDS)
        if first and (not good or any(real(c) is None and not re.fullmatch(r"-\d+", c) for c in cells)):
            raise _no_swf(text, number, line)
        first = False
        book.read += 1
        if not is_utf8(line):
            book.refuse(number, "not-utf-8", "expected text in UTF-8, got other bytes")
        elif not good:
            book.refuse(number, "wrong-column-count", f"expected {len(FIELDS)} columns, got {len(cells)}")
        else:
            yield Row(number, cells, at)
    if first:
        raise _no_swf(text, 1, "")


def _no_swf(text: TraceText, number: int, line: str) -> TraceError:
    return TraceError(
        f"{text.file}:{number}: expected the Standard Workload Format, {len(FIELDS)} numbers a line between "
        f"spaces, got {shown(line)}"
    )


def _zone(header: dict[str, str]) -> str:
    """Return the zone that the header names, UTC where it names none that is known."""
    name = header.get("timezonestring", "UTC")
    try:
        zone(name)
    except TraceError:
        return "UTC"
    return name
