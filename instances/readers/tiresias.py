"""Job lists of Tiresias (Gu et al., NSDI 2019): GPUs, submission, model and running time of each job.

SymbioticLab/Tiresias, Apache-2.0. Times are seconds from an origin of its own.
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

REQUIRED = ("num_gpu", "submit_time", "duration")
OPTIONAL = ("job_id", "model_name")
"""Columns that are read; iterations and interval are ignored."""

KIND = "tiresias-job"
"""Kind of a job whose model is not named."""


class Tiresias:
    """Job lists of the Tiresias simulator, with running times in seconds."""

    SAMPLE = (
        "job_id,num_gpu,submit_time,iterations,model_name,duration,interval\n"
        "0,1,0,606,vgg19,164,30\n"
        "1,8,30,133,vgg11,147,23\n"
    )

    def read(self, text: TraceText) -> TraceColumns:
        """Return the columns of a trace.

        Raises
        ------
        TraceError
            The header is missing, or lacks a column or names one twice.
        """
        book = Book(text)
        for row in rows(book, required=REQUIRED, optional=OPTIONAL, what="a Tiresias job list"):
            submit_s = book.seconds(row, "submit_time")
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
            book.once(row, "job_id")
            book.take(row.line, submit_s=submit_s, gpus=gpus, duration_s=duration_s, model=model)
        return book.columns("tiresias")

    def workload(
        self, columns: TraceColumns, gpus: NDArray[np.int64], options: ImportOptions, cluster: Cluster
    ) -> Workload:
        """Return the trace's own running times, a kind for each model; see the base protocol."""
        return recorded("tiresias", columns, options, cluster)
