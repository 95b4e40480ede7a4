"""Family ``burst``: most jobs arrive in a few bursts."""

from __future__ import annotations

import numpy as np

from eaco_opt.instance import Instance

from .common import Parameter, Request, Traits, arrival_window_s, assemble, mixed_sizes, with_traits

TRAITS = Traits(
    parameters=(
        Parameter(
            name="share", meaning="share of the jobs that belong to a burst", default=0.8, low=0.0, high=1.0
        ),
        Parameter(name="bursts", meaning="number of bursts", default=4.0, low=1.0, high=1e6, whole=True),
        Parameter(
            name="spread_s",
            meaning="mean time from the beginning of a burst to the arrival of one of its jobs [s]",
            default=600.0,
            low=0.0,
            high=1e9,
        ),
    )
)


@with_traits(TRAITS)
def burst(request: Request) -> Instance:
    """Jobs of mixed sizes of which four fifths arrive in four bursts, the others evenly.

    Bursts begin at times uniform over the window that the load gives; a job of a burst (all bursts alike)
    comes an exponential time after its beginning.
    """
    models, epochs = request.models(), request.whole_epochs()
    gpus, workload, sizes = mixed_sizes(request)
    window_s = arrival_window_s(request, workload.tau_s(models, gpus), gpus, epochs)
    p = request.params
    bursts = int(p["bursts"])
    begin_s = request.uniforms("burst-time", bursts) * window_s
    of = request.uniforms("burst")  # below the share: in a burst, the remainder says in which
    inside = of < p["share"]
    which = np.minimum((of / max(p["share"], 1e-300) * bursts), bursts - 1).astype(np.int64)
    offset_s = -p["spread_s"] * np.log1p(-request.uniforms("burst-offset"))
    even_s = request.uniforms("release") * window_s
    return assemble(
        request,
        workload=workload,
        models=models,
        gpus=gpus,
        epochs=epochs,
        release_s=np.where(inside, begin_s[which] + offset_s, even_s),
        assumptions={
            "assumption.gpus": sizes,
            "assumption.releases": (
                f"a job is in one of {bursts} burst(s) with chance {p['share']:g}, all alike; bursts begin "
                "uniformly over [0, total exclusive GPU-hours / (GPUs * load)], their jobs an exponential "
                f"time of mean {p['spread_s']:g} s later; other jobs uniformly over the same; then shifted "
                f"so that the first is 0. {int(inside.sum())} job(s) in bursts"
            ),
        },
    )
