"""Seeded random instances of a few jobs that use every feature of the model, for comparing exact methods.

`random_instance(rng)` draws one; `features(instance)` says which of :data:`FEATURES` it uses.
`agreement_instance(seed)` draws one that several methods cover and solve quickly. All times are multiples of
a minute, so that slots of ten minutes cut runs at odd places.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from eaco_opt.cluster import Cluster, Node, NodeType
from eaco_opt.instance import Instance, MeasuredUsage
from eaco_opt.interference import Interference, MeasuredSlowdown
from eaco_opt.job import Job, MemoryKind
from eaco_opt.limits import AdmissionRule, Limits, Objective, ObjectiveForm
from eaco_opt.power import GpuPower, MeasuredPower, PowerModel, ServerPower
from eaco_opt.profile import EpochTime, Profile
from formulations.grid import make_grid
from formulations.milp_arrays import MilpArraysFormulation
from solvers.bruteforce import estimate_plans

SLOT_S = 600.0

FEATURES = (
    "whole-node",
    "mixed GPU counts",
    "several node types",
    "multi-node job",
    "exclusive",
    "model-parallel",
    "existing",
    "cannot share",
    "asymmetric slowdown",
    "slowdown below 1",
    "modelled slowdown",
    "sleep power",
    "wake-up time",
    "wake-up energy",
    "PUE",
    "raw",
    "JTT weight",
    "residual",
    "concave power",
    "K 1",
    "K 3",
    "K 4",
    "infinite deadline",
    "twins",
    "U above 1",
)


def _chance(rng: np.random.Generator, p: float) -> bool:
    return bool(rng.random() < p)


def _number(rng: np.random.Generator, low: float, high: float, step: float) -> float:
    return round(step * int(rng.integers(round(low / step), round(high / step) + 1)), 9)


def _power(rng: np.random.Generator, kinds: list[str]) -> PowerModel:
    idle = _number(rng, 0, 300, 10)
    measured = {}
    for _ in range(int(rng.integers(0, 4))):
        members = tuple(sorted(str(k) for k in rng.choice(kinds, size=int(rng.integers(1, 4)))))
        measured[members] = _number(rng, 200, 1200, 10)
    return PowerModel(
        server=ServerPower(
            idle_w=idle, busy_w=idle + _number(rng, 0, 300, 10), exponent=_number(rng, 1, 2, 0.1)
        ),
        gpu=GpuPower(
            standing_w=_number(rng, 0, 60, 5),
            dynamic_w=_number(rng, 0, 250, 10),
            exponent=float(rng.choice([1.0, 0.5, 0.3])),
        ),
        measured=tuple(MeasuredPower(kinds=k, power_w=w) for k, w in measured.items()),
        lookup=_chance(rng, 0.8),
    )


def _cluster(rng: np.random.Generator, kinds: list[str], most_nodes: int, most_gpus: int) -> Cluster:
    types = []
    for i in range(1 if _chance(rng, 0.7) else 2):
        gpus = int(rng.integers(1, most_gpus + 1))
        power = _power(rng, kinds)
        ceiling = min([power.empty_active_w(gpus), *(row.power_w for row in power.measured)])
        types.append(
            NodeType(
                name=f"type{i}",
                gpus=gpus,
                gpu_type=f"gpu{i}",
                gpu_memory_gib=float(rng.choice([16.0, 32.0])),
                power=power,
                sleep_w=ceiling * float(rng.choice([0.0, 0.0, 0.1, 0.5])),
                wake_s=float(rng.choice([0.0, 0.0, 60.0, 600.0, 900.0])),
                wake_energy_j=float(rng.choice([0.0, 0.0, 50_000.0])),
            )
        )
    count = int(rng.integers(len(types), most_nodes + 1))
    named = [types[i % len(types)].name for i in range(count)]
    return Cluster(
        node_types=tuple(types),
        nodes=tuple(Node(name=f"n{i}", node_type=name) for i, name in enumerate(named)),
        pue=float(rng.choice([1.0, 1.0, 1.3])),
    )


def _profile(rng: np.random.Generator, kind: str, types: int) -> Profile:
    util, memory = _number(rng, 0, 0.6, 0.05), _number(rng, 1, 9, 1)
    known = [i for i in range(types) if _chance(rng, 0.8)] or [0]
    return Profile(
        name=kind,
        epoch_times=tuple(
            EpochTime(gpu_type=f"gpu{i}", epoch_time_s=_number(rng, 240, 1500, 60)) for i in known
        ),
        gpu_util_mean=util,
        gpu_util_peak=1.0,
        gpu_memory_mean_gib=memory,
        gpu_memory_peak_gib=memory,
        cpu_share=_number(rng, 0, 1, 0.1),
    )


def _truth(rng: np.random.Generator, kinds: list[str]) -> Interference:
    pairs: set[tuple[str, str]] = set()
    if _chance(rng, 0.15):
        a, b = sorted(str(k) for k in rng.choice(kinds, size=2))
        pairs.add((a, b))
    rows: dict[tuple[str, ...], MeasuredSlowdown] = {}
    for _ in range(int(rng.integers(0, 5))):
        members = tuple(sorted(str(k) for k in rng.choice(kinds, size=int(rng.integers(2, 4)))))
        inside = {(a, b) for i, a in enumerate(members) for b in members[i + 1 :]}
        if inside & pairs:
            continue
        factor = {k: _number(rng, 0.7, 2.0, 0.05) for k in dict.fromkeys(members)}
        rows[members] = MeasuredSlowdown(kinds=members, factors=tuple(factor[k] for k in members))
    model = str(rng.choice(["none", "none", "additive", "crowding"]))
    params = (("base", 0.1), ("slope", 0.2)) if model == "crowding" else ()
    return Interference(
        measured=tuple(rows.values()), cannot_share=tuple(pairs), model=model, params=params,
        clamp=_chance(rng, 0.5),
    )  # fmt: skip


def _sizes(cluster: Cluster, profile: Profile, wide: bool) -> list[int]:
    """Return the GPU counts for which some node type with enough nodes has an epoch time."""
    out: set[int] = set()
    most = math.inf if wide else min(t.gpus for t in cluster.node_types)
    for t in cluster.node_types:
        nodes = sum(node.node_type == t.name for node in cluster.nodes)
        if profile.epoch_time_s(t.gpu_type, 1) is not None:
            out |= set(range(1, int(min(nodes * t.gpus, most)) + 1))
    return sorted(out)


def random_instance(
    rng: np.random.Generator,
    *,
    jobs: tuple[int, int] = (2, 3),
    most_nodes: int = 3,
    most_gpus: int = 3,
    slack: tuple[int, int] = (1, 6),
    infinite: float = 0.1,
    wide: bool = True,
    wakes: bool = True,
) -> Instance:
    """Draw an instance.

    Parameters
    ----------
    rng
        Source of chance.
    jobs
        Range of the number of jobs.
    most_nodes, most_gpus
        Most nodes, and most GPUs of a node.
    slack
        Range of what deadlines leave beyond the exclusive running time, in slots.
    infinite
        Chance of a deadline at infinity.
    wide
        Whether jobs may need several nodes.
    wakes
        Whether nodes may need time or energy to wake up.
    """
    kinds = ["a", "b", "c"][: int(rng.integers(1, 4))]
    while True:
        cluster = _cluster(rng, kinds, most_nodes, most_gpus)
        if not wakes:
            awake = (dataclasses.replace(t, wake_s=0.0, wake_energy_j=0.0) for t in cluster.node_types)
            cluster = dataclasses.replace(cluster, node_types=tuple(awake))
        profiles = [_profile(rng, kind, len(cluster.node_types)) for kind in kinds]
        profiles = [p for p in profiles if _sizes(cluster, p, wide)]
        if profiles:
            break
    count = int(rng.integers(jobs[0], jobs[1] + 1))
    whole = _chance(rng, 0.3)
    rows: list[Job] = []
    for i in range(count):
        if rows and _chance(rng, 0.2):
            twin = rows[int(rng.integers(len(rows)))]
            row = Job(
                name=f"j{i}", profile=twin.profile, gpus=twin.gpus, epochs=twin.epochs,
                release_s=twin.release_s, deadline_s=twin.deadline_s, exclusive=twin.exclusive,
                memory_kind=twin.memory_kind, priority=i,
            )  # fmt: skip
            rows.append(row)
            continue
        profile = profiles[int(rng.integers(len(profiles)))]
        sizes = _sizes(cluster, profile, wide)
        full = [t.gpus for t in cluster.node_types if t.gpus in sizes]
        gpus = int(rng.choice(full if whole and full else sizes))
        epochs = int(rng.integers(1, 4))
        release = 60.0 * int(rng.integers(0, 20)) if _chance(rng, 0.7) else 0.0
        slowest = max(t.epoch_time_s for t in profile.epoch_times)
        deadline = release + epochs * slowest + SLOT_S * int(rng.integers(slack[0], slack[1] + 1))
        rows.append(
            Job(
                name=f"j{i}",
                profile=profile.name,
                gpus=gpus,
                epochs=epochs,
                release_s=release,
                deadline_s=math.inf if _chance(rng, infinite) else deadline,
                exclusive=_chance(rng, 0.1),
                memory_kind=MemoryKind.MODEL_PARALLEL if _chance(rng, 0.15) else MemoryKind.DATA_PARALLEL,
            )
        )
    usage: dict[tuple[str, ...], MeasuredUsage] = {}
    for _ in range(int(rng.integers(0, 3))):
        members = tuple(sorted(str(k) for k in rng.choice(kinds, size=int(rng.integers(1, 4)))))
        usage[members] = MeasuredUsage(
            kinds=members, load=_number(rng, 0, 1, 0.05), memory_gib=_number(rng, 1, 20, 1)
        )
    return Instance(
        name="random",
        jobs=tuple(rows),
        profiles=tuple(profiles),
        cluster=cluster,
        usage=tuple(usage.values()),
        truth=_truth(rng, [p.kind for p in profiles]),
        limits=Limits(
            u_threshold=_number(rng, 0.7, 1.6, 0.1),
            mem_threshold=float(rng.choice([0.7, 0.9, 1.0])),
            max_share=int(rng.choice([1, 2, 2, 3, 3, 4])),
            rule=AdmissionRule.EXISTING if _chance(rng, 0.3) else AdmissionRule.RESULTING,
        ),
        objective=Objective(
            alpha=float(rng.choice([0.0, 0.3, 0.5, 0.8, 1.0])),
            form=ObjectiveForm.RAW if _chance(rng, 0.3) else ObjectiveForm.NORMALISED,
            jtt_weight=float(rng.choice([0.0, 0.0, 0.1, 0.5])),
        ),
    )


def agreement_instance(seed: int, *, most_plans: float = 3e6, most_nonzeros: int = 3_000) -> Instance:
    """Draw an instance of 2 to 5 jobs, each of which fits somewhere, that several methods solve quickly.

    Parameters
    ----------
    seed
        Which one.
    most_plans, most_nonzeros
        What brute force has to go through, and size of the MILP, at most; larger ones are drawn again.
    """
    rng = np.random.default_rng([2024, seed])
    while True:
        instance = random_instance(
            rng,
            jobs=(2, 5),
            most_gpus=int(rng.integers(3, 5)),
            most_nodes=int(rng.integers(2, 4)),
            slack=(2, 6),
            wide=_chance(rng, 0.5),
            wakes=False,
        )
        if 0.0 < estimate_plans(instance, SLOT_S) <= most_plans:
            size = MilpArraysFormulation().estimate(instance, make_grid(instance, SLOT_S))
            if size.nonzeros <= most_nonzeros:
                return instance


def features(instance: Instance) -> set[str]:
    """Return which of `FEATURES` an instance uses: what it holds, not what its optimum happens to need."""
    jobs, truth, limits, objective = instance.jobs, instance.truth, instance.limits, instance.objective
    used = {n.node_type for n in instance.cluster.nodes}
    types = [t for t in instance.cluster.node_types if t.name in used]
    sizes = {t.gpus for t in types}
    known = {instance.profile(j.profile).kind for j in jobs}
    measured = [m for m in truth.measured if set(m.kinds) <= known]
    keys = [
        (j.profile, j.gpus, j.epochs, j.release_s, j.deadline_s, j.exclusive, j.memory_kind) for j in jobs
    ]
    tests = {
        "whole-node": all(j.gpus in sizes for j in jobs),
        "mixed GPU counts": len({j.gpus for j in jobs}) > 1,
        "several node types": len(types) > 1,
        "multi-node job": any(
            j.gpus > t.gpus and instance.profile(j.profile).epoch_time_s(t.gpu_type, j.gpus)
            for j in jobs
            for t in types
        ),
        "exclusive": any(j.exclusive for j in jobs),
        "model-parallel": any(j.memory_kind is MemoryKind.MODEL_PARALLEL for j in jobs),
        "existing": limits.rule is AdmissionRule.EXISTING,
        "cannot share": bool(truth.cannot_share),
        "asymmetric slowdown": any(len(set(m.factors)) > 1 for m in measured),
        "slowdown below 1": any(min(m.factors) < 1.0 for m in measured),
        "modelled slowdown": truth.model != "none",
        "sleep power": any(t.sleep_w > 0.0 for t in types),
        "wake-up time": any(t.wake_s > 0.0 for t in types),
        "wake-up energy": any(t.wake_energy_j > 0.0 for t in types),
        "PUE": instance.cluster.pue > 1.0,
        "raw": objective.form is ObjectiveForm.RAW,
        "JTT weight": objective.jtt_weight > 0.0,
        "residual": any(t.power.lookup and t.power.measured for t in types),
        "concave power": any(t.power.gpu.exponent < 1.0 for t in types),
        "K 1": limits.max_share == 1,
        "K 3": limits.max_share >= 3,
        "K 4": limits.max_share >= 4,
        "infinite deadline": any(math.isinf(j.deadline_s) for j in jobs),
        "twins": len(set(keys)) < len(keys),
        "U above 1": limits.u_threshold > 1.0,
    }
    assert set(tests) == set(FEATURES)
    return {name for name, holds in tests.items() if holds}
