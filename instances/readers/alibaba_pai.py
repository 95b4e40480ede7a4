"""Alibaba's PAI trace of 2020: headerless tables of jobs, tasks and instances, GPUs in percent. CC-BY-4.0.

Published with Weng et al., "MLaaS in the Wild", NSDI 2022 (alibaba/clusterdata, cluster-trace-gpu-v2020).
The job table is the main file. The task table beside it is needed: it says how many GPUs a job asks for. The
instance table, where it is there, says when the instances ran; without it running times are those of the
tasks.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from eaco_opt.cluster import Cluster
from eaco_opt.errors import TraceError

from .columns import TraceColumns
from .companions import Companion, Files
from .native import Workload
from .options import ImportOptions
from .table import MAX_GPUS, MAX_SECONDS, Book, Row, fraction_kind, headless_rows, recorded, shares
from .text import TraceText, missing, real, shown

JOB = ("job_name", "inst_id", "user", "status", "start_time", "end_time")
TASK = (
    "job_name",
    "task_name",
    "inst_num",
    "status",
    "start_time",
    "end_time",
    "plan_cpu",
    "plan_mem",
    "plan_gpu",
    "gpu_type",
)
INSTANCE = (
    "job_name",
    "task_name",
    "inst_name",
    "worker_name",
    "inst_id",
    "status",
    "start_time",
    "end_time",
    "machine",
)
"""Columns of the three tables, in order."""

TIME_ZONE = "Asia/Shanghai"
"""Times are seconds, shifted by an unknown whole number of weeks, and give the hour of the day in UTC+8."""

LOG = logging.getLogger(__name__)

PERCENT = 100.0
"""One GPU."""


@dataclass(slots=True)
class _Request:
    """What the tasks of a job ask for, and the span in which they ran [s]."""

    gpus: float = 0.0
    start_s: float = math.inf
    end_s: float = -math.inf
    unfinished: bool = False
    wrong: str = ""


class AlibabaPai:
    """Alibaba's PAI trace of 2020: job, task and instance tables; GPUs in percent."""

    SAMPLE = "j1,i1,u1,Terminated,1000.0,5000.0\nj2,i2,u1,Failed,1500.0,1800.0\n"
    COMPANION_SAMPLES: ClassVar[Mapping[str, str]] = {
        "task": (
            "j1,worker,2.0,Terminated,1100.0,4900.0,600.0,29.3,50.0,T4\n"
            "j1,ps,1.0,Terminated,1100.0,4900.0,600.0,29.3,,\n"
            "j2,tensorflow,1.0,Failed,1600.0,1700.0,600.0,29.3,25.0,MISC\n"
        )
    }

    FILES = Files(
        main="pai_job_table.csv",
        companions=(
            Companion(role="task", pattern="pai_task_table.csv", needed=True),
            Companion(role="instance", pattern="pai_instance_table.csv", needed=False),
        ),
    )

    def read(self, text: TraceText) -> TraceColumns:
        """Return the columns of a trace.

        Raises
        ------
        TraceError
            A table has another number of columns, or the task table is not there.
        """
        tasks = text.companions.get("task")
        if tasks is None:
            raise TraceError(
                f"{text.file}: expected the task table beside it, a file pai_task_table.csv, got none; it "
                "says how "
                "many GPUs a job asks for"
            )
        book = Book(text)
        task_book = Book(tasks)
        requests = _requests(task_book)
        instances = text.companions.get("instance")
        instance_book = None if instances is None else Book(instances)
        if instance_book is not None:
            _spans(instance_book, requests)
        seen: set[str] = set()
        for row in headless_rows(book, columns=JOB, what="the PAI job table"):
            name = row["job_name"]
            if missing(name):
                book.refuse(row.line, "missing-id", "job_name is missing, so its tasks are unknown")
                continue
            if name in seen:
                book.refuse(
                    row.line, "duplicate-job", f"job_name {shown(name)} occurred before, with the same tasks"
                )
                continue
            seen.add(name)
            submit_s = book.seconds(row, "start_time")
            if submit_s is None:
                continue
            request = requests.get(name)
            taken = _checked(book, row, request)
            if taken is None:
                continue
            asked, duration_s = taken
            gpus = max(1, math.ceil(round(asked, 6)))
            if gpus > 1 and abs(gpus - asked) > 1e-6:
                book.repair(
                    row.line,
                    "rounded-gpus",
                    f"asks for {asked:g} GPUs, takes {gpus} with {asked / gpus:.3g} of each",
                )
            book.take(
                row.line,
                submit_s=submit_s,
                gpus=gpus,
                duration_s=duration_s,
                model=fraction_kind("job", max(0.001, min(1.0, asked / gpus))),
            )
        return book.columns(
            "job, task and instance tables" if instances is not None else "job and task tables",
            time_zone=TIME_ZONE,
            assumptions={
                **_unreadable("task", task_book),
                **_unreadable("instance", instance_book),
                "assumption.local_time": "times are read as UTC+8; the trace is shifted in time",
                "assumption.gpus": (
                    "the sum of inst_num * plan_gpu / 100 over the tasks of a job, rounded up; all "
                    "instances of a job "
                    "as one job"
                ),
                "assumption.running_time": (
                    "last end - first start of a job's instances; of its tasks with GPUs where it has none"
                    if instances is not None
                    else "last end - first start of the tasks with GPUs; there was no instance table"
                ),
            },
        )

    def workload(
        self, columns: TraceColumns, gpus: NDArray[np.int64], options: ImportOptions, cluster: Cluster
    ) -> Workload:
        """Return the trace's own running times, with the shares of GPUs asked for; see the base protocol."""
        load, memory_gib, assumptions = shares(columns.model, cluster)
        return recorded(
            "alibaba-pai-2020",
            columns,
            options,
            cluster,
            utilisation=load,
            memory_gib=memory_gib,
            assumptions=assumptions,
        )


def _checked(book: Book, row: Row, request: _Request | None) -> tuple[float, float] | None:
    """Return GPUs asked for and running time [s] of a job, ``None`` if it was refused."""

    def refuse(reason: str, what: str) -> None:
        book.refuse(row.line, reason, what)

    if request is None:
        refuse("no-task", "the task table holds no task of this job")
        return None
    if request.wrong:
        refuse("bad-task", request.wrong)
        return None
    if request.gpus <= 0.0:
        refuse("no-gpu", "no task of this job asks for a GPU")
        return None
    if request.gpus > MAX_GPUS:
        refuse("bad-gpus", f"GPUs must be at most {MAX_GPUS}, got {request.gpus:g}")
        return None
    if math.isinf(request.start_s):
        refuse("never-started", "no task with GPUs has a start_time, so the running time is unknown")
        return None
    if request.unfinished or math.isinf(request.end_s):
        refuse("never-ended", "a task with GPUs has no end_time, so the running time is unknown")
        return None
    if request.end_s < request.start_s:
        what = f"end must not lie before start, got {request.start_s:g} and {request.end_s:g}"
        refuse("end-before-start", what)
        return None
    if request.end_s == request.start_s:
        refuse("duration-not-positive", "end must lie after start, got the same")
        return None
    return request.gpus, request.end_s - request.start_s


def _unreadable(role: str, book: Book | None) -> dict[str, str]:
    """Return for the metadata how many rows of a companion could not be read, nothing if all could."""
    if book is None or not book.notes:
        return {}
    first = book.notes[0]
    count = f"{len(book.notes)} of {book.read} rows of {book.text.name}"
    said = f"{count}; the first: line {first.line}: {first.text}"
    LOG.warning("alibaba-pai-2020: rows that cannot be read are left out: %s", said)
    return {f"trace.{role}_rows_unreadable": said}


def _requests(book: Book) -> dict[str, _Request]:
    """Return what each job's tasks ask for; a task with a number that cannot be read spoils its job."""
    tasks = book.text
    out: dict[str, _Request] = {}
    for row in headless_rows(book, columns=TASK, what="the PAI task table"):
        request = out.setdefault(row["job_name"], _Request())
        cell = row["plan_gpu"]
        percent = 0.0 if missing(cell) else real(cell)
        count = real(row["inst_num"])
        if percent is None or percent < 0.0:
            request.wrong = (
                f"plan_gpu must be a percentage >= 0, got {shown(cell)} (line {row.line} of {tasks.name})"
            )
            continue
        if percent == 0.0:
            continue
        if count is None or not 0.0 < count <= MAX_GPUS:
            cell = row["inst_num"]
            request.wrong = f"inst_num must be above 0, got {shown(cell)} (line {row.line} of {tasks.name})"
            continue
        request.gpus += count * percent / PERCENT
        start_s, end_s = _time(row, "start_time"), _time(row, "end_time")
        request.unfinished |= end_s is None
        request.start_s = min(request.start_s, math.inf if start_s is None else start_s)
        request.end_s = max(request.end_s, -math.inf if end_s is None else end_s)
    return out


def _spans(book: Book, requests: dict[str, _Request]) -> None:
    """Replace the spans of jobs by those of their instances, where there are some with both times."""
    spans: dict[str, tuple[float, float]] = {}
    for row in headless_rows(book, columns=INSTANCE, what="the PAI instance table"):
        start_s, end_s = _time(row, "start_time"), _time(row, "end_time")
        if start_s is None or end_s is None:
            continue
        name = row["job_name"]
        low, high = spans.get(name, (math.inf, -math.inf))
        spans[name] = (min(low, start_s), max(high, end_s))
    for name, (low, high) in spans.items():
        request = requests.get(name)
        if request is not None:
            request.start_s, request.end_s = low, high


def _time(row: Row, column: str) -> float | None:
    """Return a time [s], ``None`` where it is missing, 0 or no number."""
    value = real(row[column])
    return None if value is None or not 0.0 < value <= MAX_SECONDS else value
