"""What jobs are drawn from: the paper's four models (also of ``--mapping paper-cnn``), or a user's own."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from eaco_opt.cluster import Cluster
from eaco_opt.errors import DomainError
from eaco_opt.instance import MeasuredUsage
from eaco_opt.interference import Interference
from eaco_opt.profile import Profile

from . import paper
from .clusters import gpu_types, largest_job


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperWorkload:
    """The four models, fitted to a cluster's GPUs.

    Attributes
    ----------
    profiles, usage, truth
        Parts of an instance.
    epoch_time_s
        Exclusive epoch time by model [s], the same for any number of GPUs.
    assumptions
        What was assumed, for the instance's metadata.
    """

    profiles: tuple[Profile, ...]
    usage: tuple[MeasuredUsage, ...]
    truth: Interference
    epoch_time_s: Mapping[str, float]
    assumptions: Mapping[str, str]

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names that positions in draws stand for: :data:`instances.paper.MODELS`."""
        return paper.MODELS

    def tau_s(self, models: NDArray[np.int64], gpus: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return (J,) epoch times [s] of (J,) positions in :attr:`names`, whatever the (J,) GPU counts."""
        return np.array([self.epoch_time_s[m] for m in self.names])[models]


def paper_workload(owner: str, cluster: Cluster) -> PaperWorkload:
    """Return the four models for a cluster.

    The paper gives memory as shares of a V100's capacity without saying which capacity. Where all GPUs of the
    cluster have the same memory the shares are shares of that; otherwise of 32 GiB.

    Parameters
    ----------
    owner
        What messages call the caller.
    cluster
        Its nodes; all their GPUs must be V100, the only type that the models were measured on.

    Raises
    ------
    DomainError
        The cluster holds GPUs of another type.
    """
    others = [t for t in gpu_types(cluster) if t != paper.GPU_TYPE]
    if others:
        raise DomainError(
            f"{owner}: the epoch times of {', '.join(paper.MODELS)} are known for GPU type "
            f"{paper.GPU_TYPE!r} only, the cluster has nodes with {', '.join(map(repr, others))}; give a "
            f"cluster of {paper.GPU_TYPE} nodes, or build the instance with profiles of your own"
        )
    used = {n.node_type for n in cluster.nodes}
    memories = sorted({t.gpu_memory_gib for t in cluster.node_types if t.name in used})
    capacity_gib = memories[0] if len(memories) == 1 else paper.GPU_MEMORY_GIB
    profiles = paper.profiles(gpu_memory_gib=capacity_gib)
    times: dict[str, float] = {}
    for profile in profiles:
        tau = profile.epoch_time_s(paper.GPU_TYPE, 1)
        if tau is None:  # pragma: no cover - the profiles of instances.paper hold for any number of GPUs
            raise DomainError(f"{owner}: {profile.name} has no epoch time for one {paper.GPU_TYPE}")
        times[profile.name] = tau
    return PaperWorkload(
        profiles=profiles,
        usage=paper.usage(gpu_memory_gib=capacity_gib),
        truth=paper.interference(),
        epoch_time_s=times,
        assumptions={
            "assumption.models": (
                "the four models of the EaCO paper (arXiv 2412.08294), measured on 8 V100; on other GPU "
                "counts epoch time and per-GPU utilisation are the same: a job on fewer GPUs is a smaller "
                "training run"
            ),
            "assumption.memory": f"the paper's memory shares are shares of {capacity_gib:g} GiB",
        },
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnWorkload:
    """A user's own profiles, on the GPUs of a cluster.

    Attributes
    ----------
    profiles, usage, truth
        Parts of an instance; no set is measured.
    epoch_time_s
        Shortest exclusive epoch time [s] by name and number of GPUs, of all names that are drawn.
    assumptions
        What was assumed, for the instance's metadata.
    """

    profiles: tuple[Profile, ...]
    usage: tuple[MeasuredUsage, ...]
    truth: Interference
    epoch_time_s: Mapping[tuple[str, int], float]
    assumptions: Mapping[str, str]

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names that positions in draws stand for, sorted."""
        return tuple(p.name for p in self.profiles)

    def tau_s(self, models: NDArray[np.int64], gpus: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return (J,) epoch times [s] of (J,) positions in :attr:`names` on (J,) GPUs."""
        names = self.names
        pairs = zip(models.tolist(), gpus.tolist(), strict=True)
        return np.array([self.epoch_time_s[names[m], g] for m, g in pairs], dtype=np.float64)


Workload = PaperWorkload | OwnWorkload
"""What families draw from."""


def own_workload(
    owner: str,
    cluster: Cluster,
    profiles: tuple[Profile, ...],
    *,
    counts: Collection[int],
    drawn: Collection[str],
) -> OwnWorkload:
    """Return a user's own profiles as a workload for a cluster.

    Parameters
    ----------
    owner
        What messages call the caller.
    cluster
        Its nodes.
    profiles
        In order of name.
    counts
        GPU counts that jobs may have.
    drawn
        Names that jobs may have; only these need epoch times.

    Raises
    ------
    DomainError
        A profile that is drawn has no epoch time for a count on a GPU type of the cluster that can host it.
    """
    types = [(t, largest_job(cluster, (t,))) for t in gpu_types(cluster)]
    times: dict[tuple[str, int], float] = {}
    for profile in profiles:
        if profile.name not in drawn:
            continue
        for count in sorted(set(counts)):
            found: list[float] = []
            for gpu_type, most in types:
                if count > most:
                    continue
                tau = profile.epoch_time_s(gpu_type, count)
                if tau is None:
                    known = ", ".join(
                        f"{'any number' if t.gpus is None else t.gpus} of {t.gpu_type!r}"
                        for t in profile.epoch_times
                    )
                    raise DomainError(
                        f"{owner}: profile {profile.name!r} has no epoch time for {count} GPU(s) of type "
                        f"{gpu_type!r}, which its jobs may get; it has {known}. Measure it, state one for "
                        "any number of GPUs, take another cluster, or leave it out with mix"
                    )
                found.append(tau)
            times[profile.name, count] = min(found)
    return OwnWorkload(
        profiles=profiles,
        usage=(),
        truth=Interference(model="additive"),
        epoch_time_s=times,
        assumptions={
            "assumption.models": (
                "the user's own profiles; where the cluster has several GPU types, loads and deadlines are "
                "reckoned with the shortest epoch time"
            ),
            "assumption.sharing": (
                "no set of jobs was measured: slowdown by the model 'additive' (the sum of mean "
                "utilisations, at least 1), load and memory of a shared GPU as sums over its jobs, "
                "powers by the node type's model unless the given cluster has measured ones"
            ),
        },
    )
