"""Job lists of Muri (Zhao et al., SIGCOMM 2022), in milliseconds.

Rivendile/Muri. Its iteration consists of storage and CPU work, GPU work and communication (resource_time_0,
_1 and _2); the share of GPU work is the job's GPU utilisation, which other formats do not give.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from eaco_opt.cluster import Cluster

from .columns import TraceColumns
from .native import Workload
from .options import ImportOptions
from .table import MEAN_UTILISATION, Book, Row, recorded, rows
from .text import TraceText, missing, real, shown, whole

REQUIRED = ("num_gpu", "submit_time", "duration")
OPTIONAL = ("job_id", "model_name", "batch_size", "iteration_time", "resource_time_1", "priority")
"""Columns that are read; iterations, interval and the other resource times are ignored."""

KIND = "muri-job"
"""Kind of a job whose model is not named."""

MS = 1e-3
"""Seconds of a millisecond."""

LEAST_UTILISATION, MOST_UTILISATION = 0.01, 0.9
"""Bounds of the utilisation taken from GPU time over iteration time: a job uses its GPUs, and can run alone
under the default U_threshold."""


class Muri:
    """Job lists of Muri: milliseconds, and GPU utilisation from the times of one iteration."""

    SAMPLE = (
        "job_id,num_gpu,submit_time,iterations,model_name,batch_size,duration,interval,iteration_time,"
        "resource_time_0,resource_time_1,resource_time_2,priority\n"
        "0,8,0,10956,gpt2,4,5095000,91000,437,0.6,419,49,0\n"
        "1,1,1534000,1463,vgg16,16,281000,28000,107,117,68,0,1\n"
    )

    def read(self, text: TraceText) -> TraceColumns:
        """Return the columns of a trace.

        Raises
        ------
        TraceError
            The header is missing, or lacks a column or names one twice.
        """
        book = Book(text)
        has_priority = False
        for row in rows(book, required=REQUIRED, optional=OPTIONAL, what="a Muri job list"):
            submit_s = book.seconds(row, "submit_time", unit_s=MS)
            if submit_s is None:
                continue
            duration_s = book.duration_s(row, "duration", unit_s=MS)
            if duration_s is None:
                continue
            gpus = book.gpus(row, "num_gpu")
            if gpus is None:
                continue
            model = book.name(row, "model_name", instead=KIND)
            if model is None:
                continue
            priority = whole(row["priority"])
            if priority is None and not missing(row["priority"]):
                what = f"priority must be a whole number, got {shown(row['priority'])}; taken as 0"
                book.repair(row.line, "bad-priority", what)
            has_priority = has_priority or "priority" in row.at
            book.once(row, "job_id")
            book.take(
                row.line,
                submit_s=submit_s,
                gpus=gpus,
                duration_s=duration_s,
                model=_kind(row, model, gpus),
                priority=priority or 0,
            )
        return book.columns(
            "muri",
            priority=has_priority,
            assumptions={"assumption.units": "times are milliseconds, as in Muri's simulator"},
        )

    def workload(
        self, columns: TraceColumns, gpus: NDArray[np.int64], options: ImportOptions, cluster: Cluster
    ) -> Workload:
        """Return the trace's own running times and utilisations; see the base protocol."""
        return recorded(
            "muri",
            columns,
            options,
            cluster,
            utilisation={kind: utilisation_of(kind) for kind in dict.fromkeys(columns.model)},
            assumptions={
                "assumption.utilisation": (
                    "GPU time over iteration time (resource_time_1 / iteration_time), between "
                    f"{LEAST_UTILISATION:g} and {MOST_UTILISATION:g}; {MEAN_UTILISATION:g} where a row lacks "
                    "them (Jeon et al., USENIX ATC 2019)"
                )
            },
        )


def _kind(row: Row, model: str, gpus: int) -> str:
    """Return model, batch size, GPUs and GPU share: what the job's GPUs are used for and how much."""
    batch = whole(row["batch_size"])
    name = model if batch is None else f"{model} (batch size {batch})"
    step, busy = real(row["iteration_time"]), real(row["resource_time_1"])
    if step is None or busy is None or step <= 0.0 or busy < 0.0:
        return f"{name} x{gpus}"
    share = round(min(MOST_UTILISATION, max(LEAST_UTILISATION, busy / step)), 2)
    return f"{name} x{gpus}, GPU {share:g}"


def utilisation_of(kind: str) -> float:
    """Return the mean GPU utilisation of a kind, fraction."""
    _, found, share = kind.rpartition(", GPU ")
    return float(share) if found else MEAN_UTILISATION
