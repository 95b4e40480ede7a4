"""Family ``symmetric``: many identical jobs."""

from __future__ import annotations

import dataclasses

import numpy as np

from eaco_opt.errors import DomainError
from eaco_opt.instance import Instance

from .common import Parameter, Request, Traits, arrival_window_s, assemble, with_traits

SLACK = (4.0, 4.0)

TRAITS = Traits(
    parameters=(
        Parameter(
            name="kinds",
            meaning="kinds of jobs, each of another model",
            default=1.0,
            low=1.0,
            high=1e6,
            whole=True,
        ),
        Parameter(
            name="waves",
            meaning="moments, evenly spaced, at which the jobs arrive",
            default=1.0,
            low=1.0,
            high=1e6,
            whole=True,
        ),
        Parameter(
            name="gpus",
            meaning="GPUs of a job; 0: all of a node",
            default=0.0,
            low=0.0,
            high=1e6,
            whole=True,
        ),
    ),
    slack=SLACK,
)


@with_traits(TRAITS)
def symmetric(request: Request) -> Instance:
    """Identical jobs on identical nodes: as many equal solutions as there are permutations.

    Nothing is drawn. Job i is of kind i mod ``kinds``: the models of the mix in order of their names; all
    have the same number of epochs (the middle of the range), GPUs and slack (the upper end of the range).
    They arrive in ``waves``, evenly spaced over the time that the load gives. What it is for: methods that do
    not break symmetry try the permutations one by one.
    """
    sizes = {
        t.gpus for t in request.cluster.node_types if t.name in {n.node_type for n in request.cluster.nodes}
    }
    count = int(request.params["gpus"]) or min(sizes)
    if count > min(sizes):
        raise DomainError(
            f"{request.owner}: gpus must be at most those of the smallest node ({min(sizes)}), got {count}"
        )
    names = [k for k, share in enumerate(request.shares()) if share > 0.0]
    kinds = int(request.params["kinds"])
    if kinds > len(names):
        raise DomainError(
            f"{request.owner}: kinds must be at most the models in the mix ({len(names)}), got {kinds}"
        )
    low, high = request.epochs or (10, 90)
    jobs = request.jobs
    models = np.array(names, dtype=np.int64)[np.arange(jobs) % kinds]
    gpus = np.full(jobs, count, dtype=np.int64)
    epochs = np.full(jobs, (low + high) // 2, dtype=np.int64)
    workload = request.workload([count])
    waves = min(int(request.params["waves"]), jobs)
    window_s = arrival_window_s(request, workload.tau_s(models, gpus), gpus, epochs)
    wave = np.arange(jobs) * waves // jobs
    return assemble(
        dataclasses.replace(request, slack=(request.slack[1], request.slack[1])),
        workload=workload,
        models=models,
        gpus=gpus,
        epochs=epochs,
        release_s=np.asarray(wave * (window_s / waves), dtype=np.float64),
        assumptions={
            "assumption.gpus": f"{count} GPU(s) each",
            "assumption.releases": (
                f"in {waves} wave(s) of equal size, evenly spaced over total exclusive GPU-hours / (GPUs * "
                "load)"
            ),
            "assumption.epochs": f"{int(epochs[0])} each, the middle of the range",
        },
    )
