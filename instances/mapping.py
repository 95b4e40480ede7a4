"""Jobs of a trace as measured workloads: the mapping ``profiles:FILE``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from eaco_opt.cluster import Cluster
from eaco_opt.errors import DomainError
from eaco_opt.instance import MeasuredUsage
from eaco_opt.interference import Interference
from eaco_opt.profile import Profile
from eaco_opt.profile_set import ProfileSet

from .clusters import describe_cluster, gpu_types, largest_job
from .draws import pick, shares

_OWNER = "import with mapping 'profiles'"


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """Parts of an instance that hold some of the profiles."""

    profiles: tuple[Profile, ...]
    usage: tuple[MeasuredUsage, ...]
    truth: Interference


class ProfileMapping:
    """Draws a measured workload for each job, among those with an epoch time for its number of GPUs.

    Parameters
    ----------
    held
        The workloads; they are drawn in order of name, whatever the order of the file.
    mix
        Shares by name of profile; equal without it.
    cluster
        Its GPU types decide which epoch times count.

    Raises
    ------
    UnknownNameError
        The mix names no profile.
    DomainError
        No profile has an epoch time on a GPU type of the cluster.
    """

    def __init__(self, held: ProfileSet, mix: Mapping[str, float] | None, cluster: Cluster) -> None:
        self._held = held
        self._profiles = sorted(held.profiles, key=lambda p: p.name)
        self._shares = shares(_OWNER, mix, [p.name for p in self._profiles])
        self._most = {t: largest_job(cluster, (t,)) for t in gpu_types(cluster)}
        self._found: dict[int, tuple[list[int], list[float]]] = {}
        drawn = [p for p, share in zip(self._profiles, self._shares, strict=True) if share > 0.0]
        known = {t.gpu_type for p in drawn for t in p.epoch_times}
        self.gpu_types: tuple[str, ...] = tuple(t for t in self._most if t in known)
        if not self.gpu_types:
            raise DomainError(
                f"{_OWNER}: the profiles have epoch times on {', '.join(sorted(known))}, the cluster has "
                f"{describe_cluster(cluster)}; give a cluster with such GPUs, or state epoch times for its "
                "GPUs (profiles import --gpu-type takes them to hold for another type)"
            )

    def _candidates(self, gpus: int) -> tuple[list[int], list[float]]:
        """Return positions and least epoch times [s] of the profiles that can run on a number of GPUs."""
        found = self._found.get(gpus)
        if found is None:
            places: list[int] = []
            times: list[float] = []
            for i, profile in enumerate(self._profiles):
                taus = [
                    tau
                    for t in self.gpu_types
                    if gpus <= self._most[t] and (tau := profile.epoch_time_s(t, gpus)) is not None
                ]
                if taus and self._shares[i] > 0.0:
                    places.append(i)
                    times.append(min(taus))
            found = self._found[gpus] = (places, times)
        return found

    def can_run(self, gpus: int) -> bool:
        """Tell whether some profile has an epoch time for a number of GPUs."""
        return bool(self._candidates(gpus)[0])

    def draw(self, uniform: float, gpus: int) -> tuple[str, float]:
        """Return name and exclusive epoch time [s] of the workload that a uniform number in [0, 1) draws."""
        places, times = self._candidates(gpus)
        at = int(pick(np.array([uniform]), [self._shares[i] for i in places])[0])
        return self._profiles[places[at]].name, times[at]

    def parts(self, names: Sequence[str]) -> Parts:
        """Return the parts of an instance with the named profiles alone."""
        used = set(names)
        profiles = tuple(p for p in self._profiles if p.name in used)
        kinds = {p.kind for p in profiles}
        truth = self._held.truth
        return Parts(
            profiles=profiles,
            usage=tuple(u for u in self._held.usage if set(u.kinds) <= kinds),
            truth=Interference(
                measured=tuple(m for m in truth.measured if set(m.kinds) <= kinds),
                cannot_share=tuple(pair for pair in truth.cannot_share if set(pair) <= kinds),
                model=truth.model,
                params=truth.params,
                clamp=truth.clamp,
            ),
        )

    def assumptions(self) -> dict[str, str]:
        """Return what is assumed, for the metadata: of the mapping, and of the measurements."""
        even = len(set(self._shares)) == 1
        listed = ", ".join(
            f"{p.name} {share:.4g}"
            for p, share in zip(self._profiles, self._shares, strict=True)
            if share > 0.0
        )
        return {
            "assumption.mapping": (
                "each job is one of the measured workloads that have an epoch time for its number of GPUs, "
                f"drawn with the seed {'evenly' if even else 'by their shares'}, with max(1, running time / "
                "epoch time, rounded) epochs"
            ),
            **({} if even else {"mapping.shares": listed}),
            **{f"profiles.{key}": text for key, text in self._held.metadata},
        }
