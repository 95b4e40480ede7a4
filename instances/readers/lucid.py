"""Job logs of Lucid (Hu et al., ASPLOS 2023): the Venus log with what each job runs and what that uses.

S-Lab-System-Group/Lucid, non-commercial. The columns are those of the Helios traces, and for each job a
model, data set, batch size, mixed precision (amp), and measurements of these alone: speed, GPU utilisation
and memory.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from eaco_opt.cluster import Cluster

from .columns import TraceColumns
from .native import Workload
from .options import ImportOptions
from .table import MEAN_UTILISATION, Book, Row, per_kind, recorded, rows
from .text import TraceText, missing, real, shown, whole

REQUIRED = ("gpu_num", "submit_time", "duration")
OPTIONAL = ("job_id", "vc", "state", "model", "dataset", "batchsize", "amp", "gpu_util", "gmem")
"""Columns that are read; user, cpu_num, speed, gmem_util and others are ignored."""

TIME_ZONE = "Asia/Shanghai"
"""Zone of times without an offset: the clusters stand in China, the log names no zone."""

KIND = "lucid-job"
"""Kind of a job whose model is not named."""

MOST_UTILISATION = 0.9
"""No kind is given more, so that every job can run alone under the default U_threshold."""

MIB_PER_GIB = 1024.0


class Lucid:
    """Lucid's job logs: Helios columns with model, measured GPU utilisation and memory."""

    SAMPLE = (
        "job_id,user,vc,gpu_num,cpu_num,state,submit_time,duration,dataset,model,batchsize,amp,gpu_util,gmem\n"
        "1,u,vcA,1,4,COMPLETED,2020-09-01 00:03:11,1200,CIFAR-10,ResNet18,32,0,57.8,2458\n"
        "2,u,vcA,8,4,FAILED,2020-09-01 00:05:11,60,ImageNet,ResNet50,64,1,93.1,9216\n"
    )

    def read(self, text: TraceText) -> TraceColumns:
        """Return the columns of a trace.

        Submit times are local times, or seconds from an origin of their own (the logs made of Pollux
        workloads); the first row that has one says which.

        Raises
        ------
        TraceError
            The header is missing, or lacks a column or names one twice.
        """
        book = Book(text)
        calendar: bool | None = None
        has_vc = has_state = False
        for row in rows(book, required=REQUIRED, optional=OPTIONAL, what="a Lucid log"):
            has_vc, has_state = "vc" in row.at, "state" in row.at
            if calendar is None and not missing(row["submit_time"]):
                calendar = real(row["submit_time"]) is None
            submit_s = (
                book.seconds(row, "submit_time")
                if calendar is False
                else book.calendar_s(row, "submit_time", TIME_ZONE)
            )
            if submit_s is None:
                continue
            duration_s = book.duration_s(row, "duration")
            if duration_s is None:
                continue
            gpus = book.gpus(row, "gpu_num")
            if gpus is None:
                continue
            model = book.name(row, "model", instead=KIND)
            if model is None:
                continue
            kind = _kind(row, model)
            book.once(row, "job_id")
            book.take(
                row.line,
                submit_s=submit_s,
                gpus=gpus,
                duration_s=duration_s,
                model=kind,
                vc=row["vc"],
                state=row["state"],
                utilisation=_measured(book, row, "gpu_util", 100.0, 100.0),
                memory_gib=_measured(book, row, "gmem", 1e6, MIB_PER_GIB),
            )
        return book.columns(
            "lucid",
            vc=has_vc,
            state=has_state,
            time_zone=None if calendar is False else TIME_ZONE,
            assumptions=(
                {}
                if calendar is False
                else {"assumption.local_time": f"times without an offset are local in {TIME_ZONE}"}
            ),
        )

    def workload(
        self, columns: TraceColumns, gpus: NDArray[np.int64], options: ImportOptions, cluster: Cluster
    ) -> Workload:
        """Return running times, and utilisation and memory as measured; see the base protocol."""
        load = per_kind(columns.model, columns.utilisation)
        memory_gib = per_kind(columns.model, columns.memory_gib)
        return recorded(
            "lucid",
            columns,
            options,
            cluster,
            utilisation={
                k: min(MOST_UTILISATION, load.get(k, MEAN_UTILISATION)) for k in dict.fromkeys(columns.model)
            },
            memory_gib=memory_gib,
            assumptions={
                "assumption.utilisation": (
                    f"gpu_util of the log, mean of each kind, at most {MOST_UTILISATION:g}; "
                    f"{MEAN_UTILISATION:g} where it has none (Jeon et al., USENIX ATC 2019)"
                ),
                **(
                    {
                        "assumption.memory": (
                            "gmem of the log, mean of each kind, for mean and peak; kinds without it take "
                            "the "
                            "share of native jobs"
                        )
                    }
                    if memory_gib
                    else {}
                ),
            },
        )


def _kind(row: Row, model: str) -> str:
    """Return what tells workloads apart: model, data set, batch size, mixed precision."""
    parts = [model]
    if not missing(row["dataset"]) and row["dataset"].isprintable():
        parts.append(row["dataset"][:100])
    batch = whole(row["batchsize"])
    if batch is not None:
        parts.append(f"batch {batch}")
    if whole(row["amp"]) == 1:
        parts.append("amp")
    return ", ".join(parts)


def _measured(book: Book, row: Row, column: str, most: float, unit: float) -> float:
    """Return a cell divided by its unit, NaN where it is missing or cannot be."""
    cell = row[column]
    value = real(cell)
    if missing(cell):
        return float("nan")
    if value is None or not 0.0 < value <= most:
        what = f"{column} must be above 0 and at most {most:g}, got {shown(cell)}; not used"
        book.repair(row.line, "bad-usage", what)
        return float("nan")
    return value / unit
