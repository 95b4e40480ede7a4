"""Workloads of Pollux (Qiao et al., OSDI 2021): name, time, application, num_replicas, batch_size.

petuum/adaptdl, Apache-2.0. The workloads have no running times: these come from the table of the six
applications below, which was measured by Pollux's authors on T4 GPUs, four to a node
(simulator/applications.py and its folder traces in the same repository).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from eaco_opt.cluster import Cluster

from .columns import TraceColumns
from .native import Workload
from .options import ImportOptions
from .table import Book, Row, recorded, rows
from .text import TraceText, missing, shown, whole

REQUIRED = ("time", "application", "num_replicas", "batch_size")
OPTIONAL = ("name",)
"""Columns that are read."""

GPU_COUNTS = (1, 4, 8, 16)
"""GPUs that step times were measured on: one, and one, two and four whole nodes of four T4."""


@dataclass(frozen=True, slots=True)
class Application:
    """What one of the applications does and how long a step takes.

    Attributes
    ----------
    epochs
        Passes over the data until it ends (``max_epochs`` of Pollux's simulator).
    samples
        Samples of one pass.
    step_s
        Batch size of one GPU to step times [s] on each of :data:`GPU_COUNTS`, on T4.
    """

    epochs: int
    samples: int
    step_s: Mapping[int, tuple[float, float, float, float]]


APPLICATIONS: Mapping[str, Application] = {
    "bert": Application(
        2,
        88_644,
        {
            4: (0.455, 0.533, 2.486, 1.798),
            8: (0.703, 0.741, 2.533, 1.757),
            12: (0.922, 0.957, 2.539, 1.888),
        },
    ),
    "cifar10": Application(
        100,
        50_000,
        {
            32: (0.0428, 0.0582, 0.185, 0.152),
            129: (0.1039, 0.1105, 0.231, 0.155),
            257: (0.187, 0.204, 0.260, 0.224),
            725: (0.496, 0.556, 0.597, 0.604),
        },
    ),
    "deepspeech2": Application(
        80,
        7_134,
        {
            10: (0.466, 0.666, 1.238, 1.022),
            20: (0.681, 0.830, 1.520, 1.271),
            40: (1.122, 1.233, 1.546, 1.478),
            57: (1.664, 1.775, 1.914, 2.064),
        },
    ),
    "imagenet": Application(
        90,
        1_281_167,
        {
            20: (0.147, 0.161, 0.561, 0.430),
            57: (0.324, 0.336, 0.572, 0.499),
            115: (0.560, 0.601, 0.745, 0.613),
            200: (0.924, 1.005, 1.015, 1.046),
        },
    ),
    "ncf": Application(
        10,
        4_970_845,
        {
            32: (0.00731, 0.01215, 0.0295, 0.0329),
            257: (0.00744, 0.01207, 0.0381, 0.0285),
            1025: (0.00866, 0.01336, 0.0319, 0.0301),
            2051: (0.00905, 0.01434, 0.0402, 0.0308),
        },
    ),
    "yolov3": Application(
        50,
        16_551,
        {
            4: (0.267, 0.457, 1.677, 1.174),
            8: (0.326, 0.501, 1.637, 1.188),
            16: (0.573, 0.760, 1.839, 1.464),
        },
    ),
}
"""The six applications. Step times are those of Pollux's ``placements.csv`` at some of the batch sizes,
rounded to three digits; samples are its iterations of an epoch times the batch size."""


def step_time_s(application: Application, gpus: int, local_batch: float) -> float:
    """Return the time of one step on T4 GPUs [s].

    Linear between measured batch sizes and, in the logarithm, between measured GPU counts; below the smallest
    batch and beyond the most GPUs as there, above the largest batch in proportion to the batch (gradients are
    accumulated).

    Parameters
    ----------
    application
        What runs.
    gpus
        GPUs, at least 1.
    local_batch
        Samples of a step on each GPU, above 0.
    """
    batches = list(application.step_s)
    table = np.array(list(application.step_s.values()))
    scale = max(1.0, local_batch / batches[-1])
    at_batch = [float(np.interp(local_batch, batches, table[:, i])) for i in range(len(GPU_COUNTS))]
    return scale * float(np.interp(math.log(gpus), np.log(GPU_COUNTS), at_batch))


def running_time_s(name: str, gpus: int, batch: int) -> float:
    """Return the running time of an application on T4 GPUs [s]: epochs * steps of an epoch * step time."""
    application = APPLICATIONS[name]
    steps = math.ceil(application.samples / batch)
    return application.epochs * steps * step_time_s(application, gpus, batch / gpus)


class Pollux:
    """Pollux workloads; running times from the measured table of its six applications."""

    reader = "pollux"
    SAMPLE = (
        "name,time,application,num_replicas,batch_size\ncifar10-0,107,cifar10,1,128\nncf-1,60,ncf,4,1024\n"
    )

    def read(self, text: TraceText) -> TraceColumns:
        """Return the columns of a trace.

        Raises
        ------
        TraceError
            The header is missing, or lacks a column or names one twice.
        """
        book = Book(text)
        for row in rows(book, required=REQUIRED, optional=OPTIONAL, what=f"a workload of {self.reader}"):
            submit_s = book.seconds(row, "time")
            if submit_s is None:
                continue
            name = row["application"]
            if name not in APPLICATIONS:
                reason = "missing-application" if missing(name) else "unknown-application"
                what = f"application must be one of {', '.join(APPLICATIONS)}, got {shown(name)}"
                book.refuse(row.line, reason, what)
                continue
            gpus = book.gpus(row, "num_replicas")
            if gpus is None:
                continue
            batch = self._batch(book, row, gpus)
            if batch is None:
                continue
            book.once(row, "name")
            book.take(
                row.line,
                submit_s=submit_s,
                gpus=gpus,
                duration_s=running_time_s(name, gpus, batch),
                model=f"{name} (batch size {batch}) x{gpus}",
            )
        return book.columns(
            self.reader,
            assumptions={
                "assumption.running_time": (
                    "epochs * steps of an epoch * step time; epochs, samples and step times on T4 GPUs, "
                    "four to "
                    "a node, as Pollux's simulator has them (petuum/adaptdl, Qiao et al., OSDI 2021); an "
                    "epoch "
                    "is one pass over the data whatever the batch size"
                )
            },
        )

    @staticmethod
    def _batch(book: Book, row: Row, gpus: int) -> int | None:
        """Return the batch size of all GPUs together, ``None`` if the row was refused."""
        batch = whole(row["batch_size"])
        if batch is None or not gpus <= batch <= 1_000_000:
            cell = shown(row["batch_size"])
            what = f"batch_size must be a whole number from num_replicas to 1000000, got {cell}"
            book.refuse(row.line, "bad-batch-size", what)
            return None
        return batch

    def workload(
        self, columns: TraceColumns, gpus: NDArray[np.int64], options: ImportOptions, cluster: Cluster
    ) -> Workload:
        """Return running times and epochs of the table, the same on every GPU type; see the base protocol."""
        work = recorded(
            self.reader,
            columns,
            options,
            cluster,
            assumptions={
                "assumption.epochs": "those of the application, as in Pollux's simulator",
                "assumption.duration": (
                    "running times as on T4, on every GPU type of the cluster and unchanged where a job is "
                    "clipped to fewer GPUs"
                ),
            },
        )
        return dataclasses.replace(
            work, epochs=[APPLICATIONS[kind.split(" ")[0]].epochs for kind in columns.model]
        )
