"""Job traces with deadlines of ElasticFlow (Gu et al., ASPLOS 2023; microsoft/elasticflow-traces, MIT).

Deadlines are absolute, in the seconds of the submission times. About half of them lie below submission plus
running time: ElasticFlow would give such a job more GPUs. Option ``tight_deadlines`` says what becomes of
them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from eaco_opt.cluster import Cluster

from .columns import TraceColumns
from .native import Workload
from .options import ImportOptions
from .table import MAX_SECONDS, Book, Row, recorded, rows
from .text import TraceText, missing, real, shown, whole

REQUIRED = ("num_gpu", "submission_time", "duration")
OPTIONAL = ("job_id", "model_name", "batch_size", "deadline")
"""Columns that are read; num_iteration is ignored."""

KIND = "elasticflow-job"
"""Kind of a job whose model is not named."""


class ElasticFlow:
    """ElasticFlow's traces: running times and absolute deadlines in seconds."""

    SAMPLE = (
        "job_id,submission_time,num_iteration,model_name,deadline,batch_size,num_gpu,duration\n"
        "a,100,3249,vgg16,5000,32,1,1075\n"
        "b,50,482,bert,900,64,8,360\n"
    )

    def read(self, text: TraceText) -> TraceColumns:
        """Return the columns of a trace.

        Raises
        ------
        TraceError
            The header is missing, or lacks a column or names one twice.
        """
        book = Book(text)
        has_deadlines = False
        for row in rows(book, required=REQUIRED, optional=OPTIONAL, what="an ElasticFlow trace"):
            has_deadlines = has_deadlines or "deadline" in row.at
            submit_s = book.seconds(row, "submission_time")
            if submit_s is None:
                continue
            duration_s = book.duration_s(row, "duration")
            if duration_s is None:
                continue
            gpus = book.gpus(row, "num_gpu")
            if gpus is None:
                continue
            model = book.name(row, "model_name", instead=KIND)
            if model is None:
                continue
            slack = self._slack(book, row, submit_s, duration_s)
            if slack is None:
                continue
            batch = whole(row["batch_size"])
            book.once(row, "job_id")
            book.take(
                row.line,
                submit_s=submit_s,
                gpus=gpus,
                duration_s=duration_s,
                model=model if batch is None else f"{model} (batch size {batch})",
                deadline_slack=slack,
            )
        return book.columns(
            "elasticflow with deadlines" if has_deadlines else "elasticflow",
            deadlines=has_deadlines,
            assumptions=(
                {
                    "assumption.own_deadlines": (
                        "the trace's absolute deadlines, kept as multiples of the running time from release"
                    )
                }
                if has_deadlines
                else {}
            ),
        )

    @staticmethod
    def _slack(book: Book, row: Row, submit_s: float, duration_s: float) -> float | None:
        """Return deadline as a multiple of the running time, NaN without one, ``None`` if refused."""
        cell = row["deadline"]
        if missing(cell):
            return float("nan")
        deadline_s = real(cell)
        if deadline_s is None or abs(deadline_s) > MAX_SECONDS:
            book.refuse(row.line, "bad-deadline", f"deadline must be a number of seconds, got {shown(cell)}")
            return None
        if deadline_s <= submit_s:
            what = f"deadline must be after submission at {submit_s:g} s, got {shown(cell)}"
            book.refuse(row.line, "deadline-before-submission", what)
            return None
        return (deadline_s - submit_s) / duration_s

    def workload(
        self, columns: TraceColumns, gpus: NDArray[np.int64], options: ImportOptions, cluster: Cluster
    ) -> Workload:
        """Return the trace's own running times, a kind for each model; see the base protocol."""
        return recorded("elasticflow", columns, options, cluster)
