"""Family ``mixed``: jobs of 1, 2, 4 and 8 GPUs."""

from __future__ import annotations

import numpy as np

from eaco_opt.instance import Instance

from ..draws import pick
from .common import UNIFORM_RELEASES, Request, assemble, uniform_releases_s

GPU_COUNTS = (1, 2, 4, 8)
GPU_CHANCES = (0.4, 0.2, 0.2, 0.2)
"""GPU counts and their chances."""


def mixed(request: Request) -> Instance:
    """Jobs of 1, 2, 4 or 8 GPUs (chances 0.4, 0.2, 0.2, 0.2), one of the models each.

    A paper model's epoch time and per-GPU utilisation do not depend on the count: a job on fewer GPUs is a
    smaller training run. Where no node is large enough, the count is cut to the GPUs of the largest node, so
    that every job fits in one node of some type.
    """
    models, epochs = request.models(), request.whole_epochs()
    used = {n.node_type for n in request.cluster.nodes}
    largest = max(t.gpus for t in request.cluster.node_types if t.name in used)
    drawn = np.array(GPU_COUNTS, dtype=np.int64)[pick(request.uniforms("gpus"), GPU_CHANCES)]
    gpus = np.minimum(drawn, largest)
    workload = request.workload([min(count, largest) for count in GPU_COUNTS])
    return assemble(
        request,
        workload=workload,
        models=models,
        gpus=gpus,
        epochs=epochs,
        release_s=uniform_releases_s(request, workload, models, gpus, epochs),
        assumptions={
            "assumption.gpus": (
                "1, 2, 4 or 8 GPUs with chances 0.4, 0.2, 0.2, 0.2, cut to the GPUs of the largest node "
                f"({largest}): {int((drawn > largest).sum())} job(s) cut"
            ),
            "assumption.releases": UNIFORM_RELEASES,
        },
    )
