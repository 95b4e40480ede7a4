"""Small problems for the tests of simulator and policies: by hand, and at random.

By hand: times are short decimals, an epoch takes 10 s on GPU type `v` unless said otherwise, nodes have two
GPUs of 32 GiB. At random (`random_case`): few values that repeat, so that ties, deadlines met exactly and
equal loads are common.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from eaco_opt.cluster import Cluster, Node, NodeType
from eaco_opt.instance import Instance, MeasuredUsage
from eaco_opt.interference import Interference, MeasuredSlowdown
from eaco_opt.job import Job, MemoryKind
from eaco_opt.limits import AdmissionRule, Limits
from eaco_opt.power import GpuPower, PowerModel, ServerPower
from eaco_opt.profile import EpochTime, Profile
from eaco_opt.schedule import Gpu
from eaco_opt.simulator import Simulation

POWER = PowerModel(
    server=ServerPower(idle_w=100.0, busy_w=200.0), gpu=GpuPower(standing_w=50.0, dynamic_w=100.0)
)


def node_type(gpus: int = 2, name: str = "v2", **changes: Any) -> NodeType:
    fields: dict[str, Any] = {"gpu_type": "v", "gpu_memory_gib": 32.0, "power": POWER, **changes}
    return NodeType(name=name, gpus=gpus, **fields)


def cluster(*groups: tuple[NodeType, int]) -> Cluster:
    return Cluster.grouped(groups)


def profile(name: str, tau_s: float | Mapping[str, float] = 10.0, **changes: Any) -> Profile:
    times = tau_s if isinstance(tau_s, Mapping) else {"v": tau_s}
    util = changes.pop("util", 0.3)
    memory = changes.pop("memory_gib", 4.0)
    fields: dict[str, Any] = {
        "epoch_times": tuple(EpochTime(gpu_type=t, epoch_time_s=s) for t, s in times.items()),
        "gpu_util_mean": util,
        "gpu_util_peak": 1.0,
        "gpu_memory_mean_gib": memory,
        "gpu_memory_peak_gib": memory,
        **changes,
    }
    return Profile(name=name, **fields)


def job(name: str, kind: str = "a", gpus: int = 1, epochs: int = 1, **more: Any) -> Job:
    times = {"release_s": more.pop("at", 0.0), "deadline_s": more.pop("by", math.inf)}
    return Job(name=name, profile=kind, gpus=gpus, epochs=epochs, **times, **more)


def slow(**factors: float) -> Interference:
    """Slowdowns by set, equal for all members: slow(ab=1.5, aab=2.0); kinds are single letters."""
    return Interference(
        measured=tuple(
            MeasuredSlowdown(kinds=tuple(kinds), factors=(factor,) * len(kinds))
            for kinds, factor in factors.items()
        )
    )


def problem(*jobs: Job, **changes: Any) -> Instance:
    """One node of two GPUs, kinds a, b and c of load 0.3 and 4 GiB, U = 2, four jobs on a GPU."""
    profiles = {p.name: p for p in (profile("a"), profile("b"), profile("c"))}
    profiles |= {p.name: p for p in changes.pop("profiles", ())}
    limits: dict[str, Any] = {"u_threshold": 2.0, **changes.pop("limits", {})}
    fields: dict[str, Any] = {
        "name": "by-hand",
        "cluster": cluster((node_type(), 1)),
        "profiles": tuple(profiles.values()),
        "limits": Limits(**limits),
        **changes,
    }
    return Instance(jobs=jobs, **fields)


Run = tuple[float, float, tuple[Gpu, ...]]


def runs(done: Simulation) -> dict[str, list[Run]]:
    """Segments by job: (start, end, GPUs), times rounded to 1e-6 s."""
    out: dict[str, list[Run]] = {}
    for s in done.schedule.segments:
        out.setdefault(s.job, []).append((round(s.start_s, 6), round(s.end_s, 6), s.gpus))
    return out


@dataclasses.dataclass(frozen=True)
class RandomCase:
    """An instance, options of EaCO, and how to run it."""

    instance: Instance
    options: dict[str, Any]
    grid_s: float | None
    history: Interference | None


def random_case(seed: int) -> RandomCase:
    """Draw 2 to 9 jobs on 1 to 3 nodes of 2 to 4 GPUs, with every feature of the model somewhere.

    Every sixth is a crowd of jobs that ask for the same, and every sixth has mostly jobs on several nodes.
    """
    rng = np.random.default_rng(seed)

    def pick(*values: Any) -> Any:
        return values[int(rng.integers(len(values)))]

    def chance(p: float) -> bool:
        return bool(rng.random() < p)

    mode = ("crowd", "wide", "any", "any", "any", "any")[seed % 6]
    kinds = ["a", "b", "c"][: int(rng.integers(1, 3 if mode == "crowd" else 4))]
    waking = chance(0.4 if mode == "wide" else 0.2)
    types = [
        node_type(
            2 if mode == "wide" else int(rng.integers(2, 5)),
            name=f"t{i}",
            gpu_type=f"g{i}" if chance(0.7) else "g0",
            gpu_memory_gib=pick(16.0, 32.0),
            wake_s=pick(5.0, 10.0, 30.0) if waking else 0.0,
        )
        for i in range(pick(1, 1, 2) if mode == "any" else 1)
    ]
    size = 3 if mode == "wide" else int(rng.integers(1, 4))
    nodes = tuple(Node(name=f"n{i}", node_type=pick(*types).name) for i in range(size))
    count = {t.name: sum(n.node_type == t.name for n in nodes) for t in types}
    gpu_types = sorted({t.gpu_type for t in types if count[t.name]})
    profiles = []
    for kind in kinds:
        util, memory = pick(0.1, 0.1, 0.2, 0.2, 0.3, 0.3, 0.5, 0.7), float(rng.integers(1, 9))
        known = [g for g in gpu_types if chance(0.8)] or gpu_types[:1]
        for twin in range(pick(1, 1, 2)):
            times = {g: pick(10.0, 12.0, 15.0, 20.0) for g in known}
            name = kind if twin == 0 else f"{kind}2"
            profiles.append(profile(name, times, kind=kind, util=util, memory_gib=memory))
    faster = 0.5 if mode == "crowd" else 0.1
    truth, history = _table(kinds, faster, pick, chance), None
    hasty = chance(0.5)  # long jobs, much sharing, deadlines that a slowdown breaks
    if chance(0.7):
        history = Interference() if hasty or chance(0.4) else _table(kinds, faster, pick, chance)
    asked = {"any": (1, 1, 1, 2, 2, 3, 4, 5, 6), "crowd": (1, 1, 1, 1, 2), "wide": (1, 2, 3, 3, 4, 5)}[mode]
    jobs = []
    for i in range(int(rng.integers(5 if mode == "crowd" else 2, 10 if mode == "crowd" else 9))):
        own = pick(*profiles)
        for gpus in (int(pick(*asked)), 1):
            room = [t for t in types if gpus <= count[t.name] * t.gpus]
            taus = [tau for t in room if (tau := own.epoch_time_s(t.gpu_type, gpus)) is not None]
            if taus:
                break
        epochs = int(rng.integers(2, 9)) if hasty else int(rng.integers(1, 6))
        at = float(pick(0.0, 0.0, 10.0, 20.0, 30.0, 45.0))
        slack = pick(1.1, 1.2, 1.3, 1.5, 1.8) if hasty else pick(0.9, 1.0, 1.1, 1.25, 1.5, 2.0, 3.0)
        by = math.inf if chance(0.2) else at + epochs * min(taus) * slack + pick(0.0, 0.0, 5.0, 30.0)
        jobs.append(
            job(
                f"j{i}",
                own.name,
                gpus,
                epochs,
                at=at,
                by=by,
                priority=pick(0, 0, 0, 1),
                exclusive=chance(0.03 if hasty else 0.1),
                memory_kind=pick(*MemoryKind),
            )
        )
    usage: tuple[MeasuredUsage, ...] = ()
    if chance(0.4):
        sets = {tuple(sorted(pick(*kinds) for _ in range(pick(1, 2, 3)))) for _ in range(2)}
        usage = tuple(
            MeasuredUsage(kinds=s, load=pick(0.2, 0.4, 0.6, 0.8, 0.95), memory_gib=float(rng.integers(2, 20)))
            for s in sorted(sets)
        )
    grid_s = pick(4.0, 5.0, 7.0) if chance(0.3 if waking else 0.1) else None
    return RandomCase(
        instance=Instance(
            name=f"random-{seed}",
            jobs=tuple(jobs),
            profiles=tuple(profiles),
            cluster=Cluster(node_types=tuple(types), nodes=nodes),
            usage=usage,
            truth=truth,
            limits=Limits(
                u_threshold=pick(1.2, 2.0) if hasty else pick(0.6, 0.9, 0.9, 1.2, 2.0),
                mem_threshold=pick(0.5, 0.9, 1.0),
                max_share=pick(2, 3, 4) if hasty else pick(1, 2, 3, 4, 4),
                rule=pick(*AdmissionRule),
            ),
        ),
        options={
            "blocked": pick("skip", "skip", "strict"),
            "hopeless": pick("best-effort", "best-effort", "reject"),
            "observe": chance(0.9),
        },
        grid_s=grid_s,
        history=history if grid_s is None else None,
    )


def _table(kinds: list[str], faster: float, pick: Any, chance: Any) -> Interference:
    forbidden = ((pick(*kinds), pick(*kinds)),) if chance(0.15) else ()
    allowed = Interference(cannot_share=forbidden)
    rows: dict[tuple[str, ...], MeasuredSlowdown] = {}
    for _ in range(pick(1, 2, 3, 4)):
        members = tuple(sorted(pick(*kinds) for _ in range(pick(2, 2, 3))))
        scale = 0.8 if chance(faster) else 1.0
        factor = {k: scale * pick(1.0, 1.1, 1.25, 1.5, 2.0, 3.0) for k in kinds}
        if allowed.can_share(members):
            rows[members] = MeasuredSlowdown(kinds=members, factors=tuple(factor[k] for k in members))
    return Interference(
        measured=tuple(rows.values()),
        cannot_share=forbidden,
        model=pick("none", "additive", "crowding"),
        params=(),
    )


def possible(instance: Instance) -> Instance:
    """The instance without jobs that can run nowhere; those out of reach for their deadline stay."""
    from eaco_opt.impossible import impossible_jobs

    return instance.without([j.job for j in impossible_jobs(instance) if not j.deadline_only])
