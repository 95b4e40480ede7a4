"""Family ``heavy-tail``: most jobs are short, most work is in a few long ones."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from eaco_opt.instance import Instance

from .common import (
    UNIFORM_RELEASES,
    Parameter,
    Request,
    Traits,
    assemble,
    mixed_sizes,
    uniform_releases_s,
    with_traits,
)

EPOCHS = (1, 1000)

TRAITS = Traits(
    parameters=(
        Parameter(
            name="shape",
            meaning="exponent of the bounded Pareto distribution of the epochs; smaller is heavier",
            default=1.1,
            low=0.1,
            high=10.0,
        ),
    )
)


def bounded_pareto(u: NDArray[np.float64], low: float, high: float, shape: float) -> NDArray[np.float64]:
    """Return numbers in [low, high] with P(X > x) = ((low/x)^a - (low/high)^a) / (1 - (low/high)^a).

    Parameters
    ----------
    u
        Uniforms in [0, 1), of any shape.
    low, high
        Ends, 0 < low <= high.
    shape
        The exponent a.
    """
    tail = (low / high) ** shape
    out: NDArray[np.float64] = low * (1.0 - u * (1.0 - tail)) ** (-1.0 / shape)
    return np.minimum(out, high)


@with_traits(TRAITS)
def heavy_tail(request: Request) -> Instance:
    """Jobs of mixed sizes with bounded-Pareto epochs (1 to 1000): few long jobs hold most of the work.

    Running times of training clusters are heavy-tailed (Jeon et al., USENIX ATC 2019; Hu et al., SC 2021).
    """
    low, high = request.epochs or EPOCHS
    drawn = bounded_pareto(request.uniforms("epochs"), low, high + 1.0, request.params["shape"])
    models = request.models()
    epochs = np.clip(np.floor(drawn).astype(np.int64), low, high)
    gpus, workload, sizes = mixed_sizes(request)
    return assemble(
        request,
        workload=workload,
        models=models,
        gpus=gpus,
        epochs=epochs,
        release_s=uniform_releases_s(request, workload, models, gpus, epochs),
        assumptions={
            "assumption.gpus": sizes,
            "assumption.releases": UNIFORM_RELEASES,
            "assumption.epochs": (
                f"whole part of a bounded Pareto variable on [{low}, {high + 1}) with exponent "
                f"{request.params['shape']:g}"
            ),
        },
    )
