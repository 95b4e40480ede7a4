"""Family ``mixed``: jobs of 1, 2, 4 and 8 GPUs."""

from __future__ import annotations

from eaco_opt.instance import Instance

from .common import UNIFORM_RELEASES, Request, assemble, mixed_sizes, uniform_releases_s


def mixed(request: Request) -> Instance:
    """Jobs of 1, 2, 4 or 8 GPUs (chances 0.4, 0.2, 0.2, 0.2), one of the models each.

    A paper model's epoch time and per-GPU utilisation do not depend on the count: a job on fewer GPUs is a
    smaller training run. Where no node is large enough, the count is cut to the GPUs of the largest node.
    """
    models, epochs = request.models(), request.whole_epochs()
    gpus, workload, sizes = mixed_sizes(request)
    return assemble(
        request,
        workload=workload,
        models=models,
        gpus=gpus,
        epochs=epochs,
        release_s=uniform_releases_s(request, workload, models, gpus, epochs),
        assumptions={"assumption.gpus": sizes, "assumption.releases": UNIFORM_RELEASES},
    )
