"""Native workloads: a trace's own running times as profiles of the toolkit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from eaco_opt.interference import Interference
from eaco_opt.profile import EpochTime, Profile

EPOCH_TARGET_S = 600.0
"""A native job is cut into equal epochs of about ten minutes: traces do not say where epochs end. An epoch is
what EaCO observes and the unit at whose end a job may be stopped."""

MEMORY_SHARE = 0.45
"""Share of a GPU's memory that a native job takes, mean and peak. The traces record no memory. With 0.45 any
two jobs fit below the default threshold of 0.9 and no three do, which is as far as Gavel's measurements of
pairs go: a pair that ran together had room, and three were never tried."""

CPU_SHARE = 0.066
"""CPU utilisation of a node whose GPUs a native job holds all: the EaCO paper's mean for one job."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """What the N rows of a trace run, before selection.

    Attributes
    ----------
    gpu_types
        GPU types with known running times, the reference first; W of them.
    duration_s
        (N, W) exclusive running times [s]; NaN where unknown or forbidden. The first known one of a row is
        its reference; a row without any is refused.
    epochs
        (N,) epochs of each row where its application says so; ``None``: running times are cut into epochs of
        :data:`EPOCH_TARGET_S`. A row whose running time is cut has epochs in proportion.
    unknown_reason, unknown_text
        Reason under which such rows are counted, and their text by position.
    kind
        (N,) kind of each row: what sharing tables know it by.
    utilisation
        Mean GPU utilisation of each kind, fraction.
    truth
        Function of the kinds in use that gives the slowdowns.
    memory_gib
        GPU memory of a kind, mean and peak [GiB], where it is known; others take :data:`MEMORY_SHARE`.
    assumptions
        For the metadata; they replace those of :func:`native_assumptions` under the same key.
    """

    gpu_types: tuple[str, ...]
    duration_s: NDArray[np.float64]
    kind: Sequence[str]
    utilisation: Mapping[str, float]
    truth: Callable[[AbstractSet[str]], Interference]
    memory_gib: Mapping[str, float] = field(default_factory=dict)
    epochs: Sequence[int] | None = None
    unknown_reason: str = "no-running-time"
    unknown_text: Callable[[int], str] = lambda _: "no running time is known"
    assumptions: Mapping[str, str] = field(default_factory=dict)


def epochs_of(duration_s: float, target_s: float = EPOCH_TARGET_S) -> int:
    """Return max(1, duration / target rounded to the nearest whole number)."""
    return max(1, int(np.floor(duration_s / target_s + 0.5)))


class ProfileMaker:
    """Makes one profile for each kind and epoch time in use.

    Parameters
    ----------
    workload
        Gives GPU types and utilisation.
    memory_gib
        Memory of the cluster's smallest GPU, which :data:`MEMORY_SHARE` is a share of [GiB].
    """

    def __init__(self, workload: Workload, memory_gib: float) -> None:
        self._workload = workload
        self._memory_gib = MEMORY_SHARE * memory_gib
        self._made: dict[tuple[str, tuple[float, ...]], Profile] = {}

    def profile(self, kind: str, epoch_time_s: tuple[float, ...]) -> str:
        """Return the name of the profile of a kind with an epoch time for each GPU type (NaN: forbidden)."""
        key = (kind, epoch_time_s)
        found = self._made.get(key)
        if found is None:
            times = {t: x for t, x in zip(self._workload.gpu_types, epoch_time_s, strict=True) if x == x}
            shown = " / ".join(f"{x!r} s" for x in dict.fromkeys(times.values()))
            utilisation = self._workload.utilisation[kind]
            memory_gib = self._workload.memory_gib.get(kind, self._memory_gib)
            found = Profile(
                name=f"{kind}, epoch {shown}",
                kind=kind,
                epoch_times=tuple(EpochTime(gpu_type=t, epoch_time_s=x) for t, x in times.items()),
                gpu_util_mean=utilisation,
                gpu_util_peak=max(1.0, utilisation),
                gpu_memory_mean_gib=memory_gib,
                gpu_memory_peak_gib=memory_gib,
                cpu_share=CPU_SHARE,
            )
            self._made[key] = found
        return found.name

    def profiles(self) -> tuple[Profile, ...]:
        """Return the profiles made so far."""
        return tuple(self._made.values())


def native_assumptions(cluster_memory_gib: float) -> dict[str, str]:
    """Return what every native import assumes, for the metadata."""
    return {
        "assumption.epochs": f"running times are cut into equal epochs of about {EPOCH_TARGET_S:g} s",
        "assumption.memory": (
            f"each job takes {MEMORY_SHARE:g} of the memory of the cluster's smallest GPU "
            f"({cluster_memory_gib:g} GiB): any two fit below the default threshold, no three do; the trace "
            "records no memory"
        ),
        "assumption.cpu": f"CPU share {CPU_SHARE:g} of a node whose GPUs a job holds all (EaCO paper)",
        "assumption.peak": "peak GPU utilisation 1",
        "assumption.power": "V100 servers of the EaCO paper, unless a cluster was given",
    }
