"""Family ``diurnal``: arrivals follow the hours of the day and the days of the week."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from eaco_opt.instance import Instance

from .common import Parameter, Request, Traits, arrival_window_s, assemble, mixed_sizes, with_traits

STEP_S = 900.0
"""The rate is constant over quarters of an hour [s]."""

TRAITS = Traits(
    parameters=(
        Parameter(
            name="amplitude",
            meaning="swing of the rate over the day, as a share of its mean",
            default=0.8,
            low=0.0,
            high=1.0,
        ),
        Parameter(name="peak_h", meaning="hour of the day of the peak [h]", default=15.0, low=0.0, high=24.0),
        Parameter(
            name="weekend",
            meaning="rate on days 6 and 7, over that of days 1 to 5",
            default=0.5,
            low=0.0,
            high=1.0,
        ),
    )
)


def releases_s(request: Request, window_s: float) -> NDArray[np.float64]:
    """Return (J,) independent draws from the rate over [0, window_s] [s], from Monday, midnight.

    The rate at time t is (1 + amplitude * cos(2 pi (hour - peak_h) / 24)), on weekends times ``weekend``;
    where it is 0 throughout the window, it is even.
    """
    if window_s <= 0.0:
        return np.zeros(request.jobs)
    p = request.params
    steps = max(1, math.ceil(window_s / STEP_S))
    edges = np.minimum(np.arange(steps + 1) * STEP_S, window_s)
    middle_h = 0.5 * (edges[1:] + edges[:-1]) / 3600.0
    rate = 1.0 + p["amplitude"] * np.cos(2.0 * math.pi * (middle_h - p["peak_h"]) / 24.0)
    rate *= np.where(np.floor(middle_h / 24.0) % 7 >= 5, p["weekend"], 1.0)
    mass = np.concatenate([[0.0], np.cumsum(rate * np.diff(edges))])
    if mass[-1] <= 0.0:
        mass = edges
    out: NDArray[np.float64] = np.interp(request.uniforms("release") * mass[-1], mass, edges)
    return out


@with_traits(TRAITS)
def diurnal(request: Request) -> Instance:
    """Jobs of mixed sizes that arrive by day more than by night, and less at weekends."""
    models, epochs = request.models(), request.whole_epochs()
    gpus, workload, sizes = mixed_sizes(request)
    window_s = arrival_window_s(request, workload.tau_s(models, gpus), gpus, epochs)
    p = request.params
    return assemble(
        request,
        workload=workload,
        models=models,
        gpus=gpus,
        epochs=epochs,
        release_s=releases_s(request, window_s),
        assumptions={
            "assumption.gpus": sizes,
            "assumption.releases": (
                "independent draws from a rate 1 + amplitude * cos(2 pi (hour - peak_h) / 24), on days 6 and "
                f"7 times weekend (amplitude {p['amplitude']:g}, peak_h {p['peak_h']:g}, weekend "
                f"{p['weekend']:g}) over [0, total exclusive GPU-hours / (GPUs * load)] from a Monday at "
                "midnight, in quarters of an hour, then shifted so that the first is 0"
            ),
        },
    )
