"""Workloads of Sia (Jayaram Subramanya et al., SOSP 2023; siasosp23/artifacts): the format of Pollux.

Sia schedules clusters of several GPU types. Running times are those of :mod:`instances.readers.pollux`, on
T4, divided by how much faster Sia's authors measured each application on one GPU of the other type.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from eaco_opt.cluster import Cluster
from eaco_opt.errors import DomainError

from ..clusters import gpu_types
from .columns import TraceColumns
from .native import Workload
from .options import ImportOptions
from .pollux import Pollux

SPEED: Mapping[str, Mapping[str, float]] = {
    "T4": {"bert": 1.0, "cifar10": 1.0, "deepspeech2": 1.0, "imagenet": 1.0, "ncf": 1.0, "yolov3": 1.0},
    "RTX2080Ti": {
        "bert": 2.06,
        "cifar10": 2.27,
        "deepspeech2": 1.67,
        "imagenet": 1.99,
        "ncf": 1.05,
        "yolov3": 0.485,
    },
    "V100": {
        "bert": 3.19,
        "cifar10": 3.23,
        "deepspeech2": 2.28,
        "imagenet": 3.11,
        "ncf": 1.0,
        "yolov3": 2.56,
    },
    "RTX6000": {
        "bert": 2.87,
        "cifar10": 2.56,
        "deepspeech2": 1.54,
        "imagenet": 1.92,
        "ncf": 1.32,
        "yolov3": 1.81,
    },
    "A100": {
        "bert": 10.8,
        "cifar10": 6.90,
        "deepspeech2": 2.46,
        "imagenet": 4.77,
        "ncf": 1.99,
        "yolov3": 2.92,
    },
}
"""Samples per second on one GPU over those on one T4, each at the largest batch measured (Sia's artifact,
adaptdl/torch/profiles; its names t4, rtx, v100, quad and dgx). The artifact has NCF nine times slower on V100
than on T4, which cannot be; it is taken as equal."""


def _plain(name: str) -> str:
    return "".join(c for c in name.lower() if c.isalnum())


class Sia(Pollux):
    """Sia workloads; running times by GPU type from the measurements of Pollux and Sia."""

    reader = "sia"

    def workload(
        self, columns: TraceColumns, gpus: NDArray[np.int64], options: ImportOptions, cluster: Cluster
    ) -> Workload:
        """Return running times on the cluster's GPU types that Sia measured; others are forbidden.

        Raises
        ------
        DomainError
            Sia measured none of the cluster's GPU types.
        """
        known = {_plain(name): name for name in SPEED}
        present = gpu_types(cluster)
        types = tuple(t for t in present if _plain(t) in known)
        if not types:
            raise DomainError(
                f"reader 'sia': running times are known for the GPU types {', '.join(SPEED)}, the cluster "
                "has "
                f"{', '.join(present)}; give a cluster with one of the former, or take the reader 'pollux'"
            )
        base = super().workload(columns, gpus, options, cluster)
        durations = np.empty((len(columns.line), len(types)))
        applications = [kind.split(" ")[0] for kind in columns.model]
        for w, gpu_type in enumerate(types):
            speed = SPEED[known[_plain(gpu_type)]]
            durations[:, w] = columns.duration_s / np.array(
                [speed[a] for a in applications], dtype=np.float64
            )
        return dataclasses.replace(
            base,
            gpu_types=types,
            duration_s=durations,
            assumptions={
                **base.assumptions,
                "assumption.duration": (
                    "running times on T4 over the speed of one GPU of the type relative to T4 (Jayaram "
                    "Subramanya et al., SOSP 2023); unchanged where a job is clipped to fewer GPUs; NCF "
                    "on V100 "
                    "as on T4"
                ),
            },
        )
