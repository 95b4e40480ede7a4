"""The Philly trace as published: ``cluster_job_log``, a JSON list of jobs with their attempts.

msr-fiddle/philly-traces, CC-BY-4.0; Jeon et al., "Analysis of Large-Scale Multi-Tenant GPU Clusters for DNN
Training Workloads", USENIX ATC 2019. Times are local, US Pacific. The file is read job by job.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eaco_opt.cluster import Cluster
from eaco_opt.errors import TraceError

from .columns import TraceColumns
from .localtime import AMBIGUOUS, to_posix_s
from .native import Workload
from .options import ImportOptions
from .philly_csv import KIND, TIME_ZONE
from .table import MAX_SECONDS, Book, Row, recorded
from .text import TraceText, is_utf8, missing, shown

KEYS = ("jobid", "vc", "status", "submitted_time", "attempts")
"""Keys of a job that are read; user is ignored. Of an attempt: start_time, end_time, detail (with gpus)."""

MAX_JOB_CHARACTERS = 1 << 24
"""Longest text of one job that is read."""

TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\]]')


class PhillyJson:
    """The Philly trace as published (cluster_job_log, JSON), US Pacific time."""

    SAMPLE = (
        "[\n"
        '{"status": "Pass", "vc": "6214e9", "jobid": "application_1_0001", "attempts": [{"start_time": '
        '"2017-10-09 06:14:00", "end_time": "2017-10-09 07:03:11", "detail": [{"ip": "m1", "gpus": ["gpu0", '
        '"gpu1"]}]}], "submitted_time": "2017-10-09 06:13:03", "user": "a"},\n'
        '{"status": "Killed", "vc": "11cb48", "jobid": "application_1_0002", "attempts": [{"start_time": '
        '"2017-10-09 07:02:00", "end_time": "2017-10-09 07:03:06", "detail": [{"ip": "m2", "gpus": '
        '["gpu3"]}]}], "submitted_time": "2017-10-09 07:01:55", "user": "b"}\n'
        "]\n"
    )
    BY_LINES = False

    def read(self, text: TraceText) -> TraceColumns:
        """Return the columns of a trace.

        The running time of a job is the sum over its attempts that began and ended; its GPUs are those of the
        last of these.

        Raises
        ------
        TraceError
            The file is no JSON list of objects, or is cut short.
        """
        book = Book(text)
        for line, job in _jobs(book):
            row = Row(line, [_text(job.get(key)) for key in KEYS], {key: i for i, key in enumerate(KEYS)})
            submit_s = book.calendar_s(row, "submitted_time", TIME_ZONE)
            if submit_s is None:
                continue
            found = _attempts(book, line, job.get("attempts"))
            if found is None:
                continue
            book.once(row, "jobid")
            book.take(
                line,
                submit_s=submit_s,
                gpus=found[1],
                duration_s=found[0],
                model=KIND,
                vc="" if missing(row["vc"]) else row["vc"],
                state="" if missing(row["status"]) else row["status"],
            )
        return book.columns(
            "philly-json",
            vc=True,
            state=True,
            time_zone=TIME_ZONE,
            assumptions={
                "assumption.local_time": (
                    f"times are local in {TIME_ZONE}; where clocks are set back a time that occurs twice is "
                    "the first of the two"
                ),
                "assumption.attempts": (
                    "a job runs for the sum of its attempts that began and ended, on the GPUs of the last "
                    "of these"
                ),
            },
        )

    def workload(
        self, columns: TraceColumns, gpus: NDArray[np.int64], options: ImportOptions, cluster: Cluster
    ) -> Workload:
        """Return the trace's own running times, one generic kind; see the base protocol."""
        return recorded("philly-json", columns, options, cluster)


def _text(value: object) -> str:
    return value if isinstance(value, str) else "" if value is None else json.dumps(value)[:200]


def _jobs(book: Book) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the jobs of a JSON list with their places in it, from 1; what is no object is refused."""
    text = book.text
    depth, begun, first, last = 0, False, 1, 0
    pieces: list[str] = []
    held = 0
    for number, line in text.rows():
        last, at = number, 0
        for token in TOKEN.finditer(line):
            sign = token[0]
            if sign in "{[":
                if depth <= 1:
                    _between(text, number, line[at : token.start()], begun=begun)
                if depth == 0:
                    if sign == "{" or begun:
                        raise _no_list(text, number, line)
                    begun, at = True, token.end()
                elif depth == 1:
                    first, at = number, token.start()
                depth += 1
            elif sign in "}]":
                depth -= 1
                if depth < 0:
                    raise _no_list(text, number, line)
                if depth == 0:
                    _between(text, number, line[at : token.start()], begun=True)
                    at = token.end()
                elif depth == 1:
                    pieces.append(line[at : token.end()])
                    at, held = token.end(), 0
                    job = _job(book, "\n".join(pieces))
                    pieces.clear()
                    if job is not None:
                        yield book.read, job
            elif depth <= 1:
                raise _no_list(text, number, line)
        if depth >= 2:
            pieces.append(line[at:])
            held += len(line)
            if held > MAX_JOB_CHARACTERS:
                raise TraceError(
                    f"{text.file}:{first}: expected jobs of at most {MAX_JOB_CHARACTERS} characters, got a "
                    "longer one; check that brackets and quotes close"
                )
        else:
            _between(text, number, line[at:], begun=begun)
    if not begun:
        raise _no_list(text, 1, "")
    if depth:
        raise TraceError(
            f"{text.file}:{last}: expected ']' at the end of the list, got the end of the file: it is cut "
            "short; fetch it again"
        )


def _between(text: TraceText, number: int, piece: str, *, begun: bool) -> None:
    """Refuse a file that has anything but commas and spaces between jobs."""
    if piece.strip(" \t,") or (piece.strip() and not begun):
        raise _no_list(text, number, piece)


def _no_list(text: TraceText, number: int, line: str) -> TraceError:
    return TraceError(
        f"{text.file}:{number}: expected a JSON list of jobs, as in cluster_job_log: [{{...}}, ...], got "
        f"{shown(line)}"
    )


def _job(book: Book, text: str) -> dict[str, Any] | None:
    book.read += 1
    line = book.read
    if not is_utf8(text):
        book.refuse(line, "not-utf-8", "expected text in UTF-8, got other bytes")
        return None
    try:
        job = json.loads(text)
    except (ValueError, RecursionError) as error:
        book.refuse(line, "bad-json", f"expected a JSON object, got an error: {error}")
        return None
    if not isinstance(job, dict):
        book.refuse(line, "bad-json", f"expected a JSON object, got {shown(text)}")
        return None
    return job


def _attempts(book: Book, line: int, attempts: object) -> tuple[float, int] | None:
    """Return running time [s] and GPUs, ``None`` if the row was refused."""
    if not isinstance(attempts, list) or not attempts:
        book.refuse(
            line, "no-attempt", f"attempts must be a list with at least one, got {shown(str(attempts))}"
        )
        return None
    total, counts = 0.0, []
    for attempt in attempts:
        held = attempt if isinstance(attempt, dict) else {}
        start, end = _text(held.get("start_time")), _text(held.get("end_time"))
        if missing(start) or missing(end):
            which = "start_time" if missing(start) else "end_time"
            book.repair(line, "attempt-without-times", f"an attempt has no {which}; it is not counted")
            continue
        try:
            (end_s, odd_end), (start_s, odd_start) = to_posix_s(end, TIME_ZONE), to_posix_s(start, TIME_ZONE)
        except (ValueError, OverflowError) as error:
            if isinstance(error, TraceError):
                raise
            what = f"times of an attempt must look like 2017-10-09 07:01:55, got {shown(start)}, {shown(end)}"
            book.repair(line, "attempt-without-times", f"{what}; it is not counted")
            continue
        odd = odd_start or odd_end
        if odd is not None:
            passes = "occurs twice, read as the first" if odd == AMBIGUOUS else "never occurs, moved forward"
            what = f"a time of an attempt ({shown(start)}, {shown(end)}) {passes} in {TIME_ZONE}"
            book.repair(line, odd, what)
        seconds = end_s - start_s
        if seconds < 0.0:
            what = f"an attempt ends before it starts ({shown(start)}, {shown(end)}); it is not counted"
            book.repair(line, "attempt-ends-before-start", what)
            continue
        total += seconds
        counts.append(_gpus(held.get("detail")))
    if not counts:
        book.refuse(line, "missing-duration", "no attempt has both times")
        return None
    if not 0.0 < total <= MAX_SECONDS:
        book.refuse(line, "duration-not-positive", f"attempts must last longer than 0 s, got {total:g} s")
        return None
    if len(set(counts)) > 1:
        said = ", ".join(map(str, counts))
        book.repair(line, "gpus-differ", f"attempts have {said} GPUs; those of the last are taken")
    if counts[-1] < 1:
        book.refuse(line, "no-gpu", "the last attempt names no GPU")
        return None
    return total, counts[-1]


def _gpus(detail: object) -> int:
    """Return the number of GPUs that an attempt names."""
    if not isinstance(detail, list):
        return 0
    lists = [d.get("gpus") for d in detail if isinstance(d, dict)]
    return sum(len(gpus) for gpus in lists if isinstance(gpus, list))
