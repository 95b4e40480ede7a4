"""Helios (Hu et al., SC 2021): logs of four SenseTime clusters, ``cluster_log.csv``.

S-Lab-System-Group/HeliosData, CC-BY-4.0. Times are local in China, without an offset; more than half of the
rows ask for no GPU; ids are unique only within a cluster.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from eaco_opt.cluster import Cluster

from .columns import TraceColumns
from .native import Workload
from .options import ImportOptions
from .table import Book, recorded, rows
from .text import TraceText

REQUIRED = ("gpu_num", "submit_time", "duration")
OPTIONAL = ("job_id", "vc", "state")
"""Columns that are read; user, cpu_num, node_num, start_time, end_time and queue are ignored."""

TIME_ZONE = "Asia/Shanghai"
"""Zone of the log's times."""

KIND = "helios-job"
"""The one kind of a native import: the log does not say what its jobs ran."""


class Helios:
    """Helios cluster logs (job_id, user, vc, gpu_num, ..., submit_time, ..., duration), times of China."""

    SAMPLE = (
        "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue\n"
        "11,u1,vcA,1,4,1,COMPLETED,2020-04-01 00:03:11,2020-04-01 00:03:20,2020-04-01 00:23:20,1200,9\n"
        "12,u2,vcB,8,32,1,CANCELLED,2020-04-01 00:05:11,2020-04-01 00:05:11,2020-04-01 00:06:11,60,0\n"
    )

    def read(self, text: TraceText) -> TraceColumns:
        """Return the columns of a trace.

        Raises
        ------
        TraceError
            The header is missing, or lacks a column or names one twice.
        """
        book = Book(text)
        has_vc = has_state = False
        for row in rows(book, required=REQUIRED, optional=OPTIONAL, what="a Helios log"):
            has_vc, has_state = "vc" in row.at, "state" in row.at
            submit_s = book.calendar_s(row, "submit_time", TIME_ZONE)
            if submit_s is None:
                continue
            duration_s = book.duration_s(row, "duration")
            if duration_s is None:
                continue
            gpus = book.gpus(row, "gpu_num")
            if gpus is None:
                continue
            book.once(row, "job_id")
            book.take(
                row.line,
                submit_s=submit_s,
                gpus=gpus,
                duration_s=duration_s,
                model=KIND,
                vc=row["vc"],
                state=row["state"],
            )
        return book.columns(
            "helios",
            vc=has_vc,
            state=has_state,
            time_zone=TIME_ZONE,
            assumptions={"assumption.local_time": f"times without an offset are local in {TIME_ZONE}"},
        )

    def workload(
        self, columns: TraceColumns, gpus: NDArray[np.int64], options: ImportOptions, cluster: Cluster
    ) -> Workload:
        """Return the trace's own running times, one generic kind; see the base protocol."""
        return recorded("helios", columns, options, cluster)
