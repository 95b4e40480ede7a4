"""What predictors learn from and are asked: workloads, and the speeds of pairs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from eaco_opt.interference import Interference, KindDemand
from eaco_opt.registry import Registry

from ..measurements import Measurements

PREDICTORS = Registry("predictor", "eaco_opt.predictors")
PREDICTORS.register("mean", "instances.predictors.mean:Mean")
PREDICTORS.register("additive-utilisation", "instances.predictors.additive:AdditiveUtilisation")
PREDICTORS.register("paper-fit", "instances.predictors.paper_fit:PaperFit")
PREDICTORS.register("table", "instances.predictors.table:Table")
PREDICTORS.register("pair-table", "instances.predictors.pair_table:PairTable")
PREDICTORS.register("kernel", "instances.predictors.kernel:Kernel")
PREDICTORS.register("gradient-boosted", "instances.predictors.gradient_boosted:GradientBoosted")

SLOWEST, FASTEST = 0.02, 2.0
"""Range of predicted speeds, relative to alone: beyond it there is noise or a mistake."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """What a predictor may know of a workload alone.

    Attributes
    ----------
    model
        Model that it is a variant of (another batch size, precision or GPU count).
    demand
        Kind, utilisation, memory, CPU share.
    """

    model: str
    demand: KindDemand

    @property
    def kind(self) -> str:
        """Name under which tables know it."""
        return self.demand.kind


@dataclass(frozen=True, slots=True, kw_only=True)
class PairSpeed:
    """A measured speed: of one workload beside another, relative to alone; above 0."""

    own: Workload
    other: Workload
    speed: float


class Predictor(Protocol):
    """What a predictor does; built as ``cls(rows)`` from the measured speeds to learn from.

    A class that learns from nothing measured says so with ``needs_table = False``. One whose predictions are
    a slowdown model of the toolkit has a method ``interference()`` besides, which gives it for sets of any
    size.
    """

    needs_table: bool

    def __init__(self, rows: Sequence[PairSpeed]) -> None: ...

    def speeds(self, pairs: Sequence[tuple[Workload, Workload]]) -> NDArray[np.float64]:
        """Return (N,) speeds of the first beside the second, relative to alone."""
        ...


class ModelPredictor(Predictor, Protocol):
    """A predictor that is a slowdown model of the toolkit."""

    def interference(self) -> Interference:
        """Return the slowdowns."""
        ...


def workload_of(measured: Measurements) -> dict[str, Workload]:
    """Return the workloads of a table by kind."""
    return {
        p.kind: Workload(
            model=measured.model[p.kind],
            demand=KindDemand(
                kind=p.kind,
                gpu_util_mean=p.gpu_util_mean,
                gpu_util_peak=p.gpu_util_peak,
                gpu_memory_mean_gib=p.gpu_memory_mean_gib,
                gpu_memory_peak_gib=p.gpu_memory_peak_gib,
                cpu_share=p.cpu_share,
            ),
        )
        for p in measured.profiles.profiles
    }


def pair_speeds(measured: Measurements) -> tuple[PairSpeed, ...]:
    """Return both sides of each measured pair; pairs that cannot share have no speeds."""
    known = workload_of(measured)
    return tuple(PairSpeed(own=known[a], other=known[b], speed=s) for a, b, s in measured.speeds())


def clipped(speeds: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return speeds within the range that is believed."""
    out: NDArray[np.float64] = np.clip(speeds, SLOWEST, FASTEST)
    return out


def model_speeds(truth: Interference, pairs: Sequence[tuple[Workload, Workload]]) -> NDArray[np.float64]:
    """Return (N,) speeds that a slowdown model gives the first of each pair.

    A pair of a kind with itself is handed to the model as two jobs of it, as in the simulator.
    """
    out = np.ones(len(pairs))
    for i, (own, other) in enumerate(pairs):
        demands = {own.kind: own.demand, other.kind: other.demand}
        out[i] = 1.0 / truth.factors((own.kind, other.kind), demands)[own.kind]
    return out


def utilisations(pairs: Sequence[tuple[Workload, Workload]]) -> NDArray[np.float64]:
    """Return (N, 2) mean utilisations of both sides, own first: what regressions look at."""
    values = [(a.demand.gpu_util_mean, b.demand.gpu_util_mean) for a, b in pairs]
    return np.array(values, dtype=np.float64).reshape(-1, 2)
