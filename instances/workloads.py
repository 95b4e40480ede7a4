"""The paper's four models as a workload: what generators draw from and ``--mapping paper-cnn`` maps to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from eaco_opt.cluster import Cluster
from eaco_opt.errors import DomainError
from eaco_opt.instance import MeasuredUsage
from eaco_opt.interference import Interference
from eaco_opt.profile import Profile

from . import paper
from .clusters import gpu_types


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
