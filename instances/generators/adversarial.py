"""Family ``adversarial``: a trap for greedy co-location, with a proved ratio.

EaCO joins a job to the fullest GPUs that admit it. Here that fills every node with one long job and short
ones, so that each long job ends up with a node of its own, while the optimum puts the long jobs together.
docs/instances.md section 1.3 has the proof.
"""

from __future__ import annotations

import itertools
import math

from eaco_opt.cluster import Cluster, NodeType
from eaco_opt.errors import DomainError
from eaco_opt.instance import Instance
from eaco_opt.interference import Interference, MeasuredSlowdown
from eaco_opt.job import Job
from eaco_opt.power import GpuPower, PowerModel, ServerPower
from eaco_opt.profile import EpochTime, Profile

from .common import Parameter, Request, Traits, with_traits

EPOCH_S = 60.0
POWER_W = 1000.0
GPU_MEMORY_GIB = 32.0

SPACING_EPOCHS = 3
"""Arrivals are so many epochs at full company apart: EaCO's observation of the last one has ended then."""

TRAITS = Traits(
    parameters=(
        Parameter(
            name="length",
            meaning="running time of a long job, in times of all arrivals; the ratio grows with it",
            default=100.0,
            low=1.0,
            high=1e6,
        ),
        Parameter(
            name="slowdown",
            meaning="what each partner adds to the slowdown: k jobs run 1 + (k - 1) * slowdown times as long",
            default=0.0,
            low=0.0,
            high=1.0,
        ),
    ),
    fixed=("load", "slack", "epochs", "mix", "profiles"),
)


def times(jobs: int, max_share: int, length: float, slowdown: float) -> tuple[float, int, int]:
    """Return spacing of arrivals [s], epochs of a short job and of a long one."""
    full = 1.0 + (max_share - 1) * slowdown
    spacing_s = SPACING_EPOCHS * full * EPOCH_S
    arrivals = math.ceil(jobs * spacing_s / EPOCH_S)
    return spacing_s, arrivals, math.ceil(length * arrivals)


def ratio(jobs: int, max_share: int, length: float, slowdown: float) -> float:
    """Return the proved least ratio of EaCO's energy to the optimum's (docs/instances.md section 1.3).

    Parameters
    ----------
    jobs, max_share
        J and K.
    length, slowdown
        The parameters of the family.
    """
    spacing_s, short, long = times(jobs, max_share, length, slowdown)
    full = 1.0 + (max_share - 1) * slowdown
    groups = jobs // max_share
    arrivals = jobs * spacing_s / EPOCH_S
    best = math.ceil(groups / max_share) * (long * full + arrivals)
    best += math.ceil(groups * (max_share - 1) / max_share) * (short * full + arrivals)
    return groups * long / best


@with_traits(TRAITS)
def adversarial(request: Request) -> Instance:
    """A trap for greedy co-location: EaCO uses nearly K times the energy that is needed.

    J = n K jobs in n groups: one long job, then K - 1 short ones, each taking all GPUs of a node. Nothing is
    drawn. K is the limit ``max_share`` and at least 2; the cluster needs n nodes of one type, whose power is
    replaced by a constant, so that energy is the time that nodes are active.
    """
    owner, k = request.owner, request.limits.max_share
    used = {n.node_type for n in request.cluster.nodes}
    if len(used) != 1:
        raise DomainError(f"{owner}: the cluster must have nodes of one type, got {len(used)} types")
    if k < 2 or request.jobs % k:
        raise DomainError(
            f"{owner}: jobs must be a multiple of max_share ({k}), which is at least 2, got {request.jobs}"
        )
    groups = request.jobs // k
    if groups > len(request.cluster.nodes):
        raise DomainError(
            f"{owner}: {request.jobs} jobs need jobs / max_share = {groups} nodes, got "
            f"{len(request.cluster.nodes)}"
        )
    length, slowdown = request.params["length"], request.params["slowdown"]
    spacing_s, short, long = times(request.jobs, k, length, slowdown)
    full = 1.0 + (k - 1) * slowdown
    gpus = next(t.gpus for t in request.cluster.node_types if t.name in used)
    node_type = NodeType(
        name="constant-power",
        gpus=gpus,
        gpu_type="any",
        gpu_memory_gib=GPU_MEMORY_GIB,
        power=PowerModel(
            server=ServerPower(idle_w=POWER_W, busy_w=POWER_W), gpu=GpuPower(standing_w=0.0, dynamic_w=0.0)
        ),
    )
    profiles = tuple(
        Profile(
            name=name,
            epoch_times=(EpochTime(gpu_type="any", epoch_time_s=EPOCH_S),),
            gpu_util_mean=request.limits.u_threshold / (k + 1),
            gpu_util_peak=request.limits.u_threshold / (k + 1),
            gpu_memory_mean_gib=GPU_MEMORY_GIB * request.limits.mem_threshold / (k + 1),
            gpu_memory_peak_gib=GPU_MEMORY_GIB * request.limits.mem_threshold / (k + 1),
        )
        for name in ("long", "short")
    )
    arrivals_s = request.jobs * spacing_s
    jobs = []
    for i in range(request.jobs):
        kind, epochs = ("long", long) if i % k == 0 else ("short", short)
        release_s = i * spacing_s
        jobs.append(
            Job(
                name=f"j{i}",
                profile=kind,
                gpus=gpus,
                epochs=epochs,
                release_s=release_s,
                deadline_s=release_s + 2.0 * (epochs * EPOCH_S * full + arrivals_s),
                submit_index=i,
            )
        )
    sets = [
        kinds
        for size in range(2, k + 1)
        for kinds in itertools.combinations_with_replacement(("long", "short"), size)
    ]
    least = ratio(request.jobs, k, length, slowdown)
    return Instance(
        name=f"adversarial-{request.jobs}x{len(request.cluster.nodes)}-k{k}",
        jobs=tuple(jobs),
        profiles=profiles,
        cluster=Cluster.uniform(node_type, len(request.cluster.nodes)),
        truth=Interference(
            measured=tuple(
                MeasuredSlowdown(kinds=kinds, factors=(1.0 + (len(kinds) - 1) * slowdown,) * len(kinds))
                for kinds in sets
            )
        ),
        limits=request.limits,
        objective=request.objective,
        metadata=(
            ("source", "generator family adversarial"),
            ("generator.call", request.call()),
            ("assumption.gpus", "each job takes all GPUs of a node"),
            (
                "assumption.releases",
                f"every {spacing_s:g} s; a long job, then {k - 1} short one(s), and again",
            ),
            (
                "assumption.deadline",
                "release + 2 * (running time in full company + time of all arrivals), so that none binds",
            ),
            ("assumption.power", f"{POWER_W:g} W whenever a node is active, whatever runs on it"),
            (
                "assumption.sharing",
                f"k jobs on a GPU each run 1 + (k - 1) * {slowdown:g} times as long as alone",
            ),
            ("adversarial.ratio", f"EaCO draws at least {least:.6g} times the least energy"),
        ),
    )
