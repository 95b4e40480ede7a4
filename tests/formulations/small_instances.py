"""Small random instances over all features of the static class, and the value of each by plain enumeration.

The enumeration knows nothing of the formulations: it tries every start slot and every placement that is not a
renaming of GPUs or equal nodes, and asks `evaluate` for the value of each whole plan.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import numpy as np

from eaco_opt.cluster import Cluster, NodeType
from eaco_opt.instance import Instance, MeasuredUsage
from eaco_opt.interference import Interference, MeasuredSlowdown
from eaco_opt.job import Job, MemoryKind
from eaco_opt.limits import AdmissionRule, Limits, Objective, ObjectiveForm
from eaco_opt.physics import evaluate
from eaco_opt.power import GpuPower, MeasuredPower, PowerModel, ServerPower
from eaco_opt.profile import EpochTime, Profile
from eaco_opt.schedule import Plan

SLOT_S = 600.0


def _pick(rng: np.random.Generator, *values: float) -> float:
    return float(values[int(rng.integers(len(values)))])


def random_instance(seed: int, jobs: int = 3, *, whole: bool | None = None) -> Instance:
    """Return an instance of a few jobs; features come and go with the seed.

    `whole=True` gives every job whole nodes, `whole=False` mixed GPU counts, `None` leaves it to the seed.
    """
    rng = np.random.default_rng(seed)
    kinds = ["a", "b", "c"][: int(rng.integers(1, 4))]
    profiles = []
    for kind in kinds:
        times = [EpochTime(gpu_type="x", epoch_time_s=_pick(rng, 200, 290, 310, 420, 600))]
        if rng.random() < 0.7:
            times.append(EpochTime(gpu_type="y", epoch_time_s=_pick(rng, 200, 350, 500)))
        mean = _pick(rng, 0.2, 0.35, 0.5, 0.65)
        memory = _pick(rng, 2, 5, 8)
        profiles.append(
            Profile(
                name=kind,
                epoch_times=tuple(times),
                gpu_util_mean=mean,
                gpu_util_peak=mean,
                gpu_memory_mean_gib=memory,
                gpu_memory_peak_gib=memory,
                cpu_share=_pick(rng, 0.0, 0.2, 0.45, 0.8),
            )
        )
    sets = [
        k for n in (1, 2, 3) for k in itertools.combinations_with_replacement(kinds, n) if rng.random() < 0.3
    ]
    factor = {True: (0.8, 0.9, 1.0, 1.1), False: (1.0, 1.05, 1.2, 1.35, 1.6)}[bool(rng.random() < 0.25)]
    slow = []
    for key in sets:
        if len(key) > 1:
            by_kind = {kind: _pick(rng, *factor) for kind in kinds}
            slow.append(MeasuredSlowdown(kinds=key, factors=tuple(by_kind[kind] for kind in key)))
    barred: list[tuple[str, str]] = []
    if rng.random() < 0.15:
        one, two = sorted(rng.choice(kinds, 2).tolist())
        barred.append((one, two))
        slow = [row for row in slow if one == two or not {one, two} <= set(row.kinds)]
        slow = [row for row in slow if one != two or row.kinds.count(one) < 2]
    whole = bool(rng.random() < 0.5) if whole is None else whole
    types = []
    for name in ("x", "y")[: 1 + int(rng.random() < 0.4)]:
        gpus = int(rng.integers(1, 5)) if whole else int(rng.integers(2, 5))
        idle = _pick(rng, 50, 150)
        power = PowerModel(
            server=ServerPower(
                idle_w=idle, busy_w=idle + _pick(rng, 0, 100, 200), exponent=_pick(rng, 1, 1.4)
            ),
            gpu=GpuPower(
                standing_w=_pick(rng, 10, 40), dynamic_w=_pick(rng, 100, 250), exponent=_pick(rng, 0.5, 1)
            ),
            measured=tuple(
                MeasuredPower(kinds=key, power_w=_pick(rng, 300, 500, 800))
                for key in sets
                if rng.random() < 0.4
            ),
            lookup=bool(rng.random() < 0.8),
        )
        sleep = _pick(rng, 0, 0, 0.1, 0.5) * min(
            [power.empty_active_w(gpus), *(m.power_w for m in power.measured)]
        )
        types.append(
            NodeType(
                name=name, gpus=gpus, gpu_type=name, gpu_memory_gib=16.0, power=power, sleep_w=round(sleep, 3)
            )
        )
    counts = [int(rng.integers(1, 3)) for _ in types]
    cluster = Cluster.grouped(list(zip(types, counts, strict=True)), pue=_pick(rng, 1, 1.2))
    multi = rng.random() < 0.2
    out = []
    for i in range(jobs):
        size = types[int(rng.integers(len(types)))].gpus
        if whole:
            gpus = size * (2 if multi and rng.random() < 0.5 else 1)
        else:
            gpus = int(rng.integers(1, size + 1 + 2 * multi))
        epochs = int(rng.integers(1, 5))
        profile = profiles[int(rng.integers(len(profiles)))]
        release = _pick(rng, 0, 0, 300, 600, 900)
        run = epochs * profile.epoch_times[0].epoch_time_s
        out.append(
            Job(
                name=f"j{i}",
                profile=profile.name,
                gpus=gpus,
                epochs=epochs,
                release_s=release,
                deadline_s=release + math.ceil(run * _pick(rng, 1.3, 1.8, 2.5) / SLOT_S + 1) * SLOT_S,
                exclusive=bool(rng.random() < 0.1),
                memory_kind=MemoryKind.MODEL_PARALLEL if rng.random() < 0.2 else MemoryKind.DATA_PARALLEL,
            )
        )
    return Instance(
        name=f"small-{seed}",
        jobs=tuple(out),
        profiles=tuple(profiles),
        cluster=cluster,
        usage=tuple(
            MeasuredUsage(kinds=key, load=_pick(rng, 0.3, 0.6, 0.9), memory_gib=_pick(rng, 4, 8, 12))
            for key in sets
            if rng.random() < 0.4
        ),
        truth=Interference(
            measured=tuple(slow),
            cannot_share=tuple(barred),
            model=("none", "additive", "crowding")[int(rng.integers(3))],
            params=(),
        ),
        limits=Limits(
            u_threshold=_pick(rng, 0.7, 0.9, 1.0, 1.3),
            mem_threshold=_pick(rng, 0.7, 0.9, 1.0),
            max_share=int(rng.integers(2, 5)),
            rule=AdmissionRule.EXISTING if rng.random() < 0.3 else AdmissionRule.RESULTING,
        ),
        objective=Objective(
            alpha=_pick(rng, 0, 0.2, 0.5, 0.8, 1),
            form=ObjectiveForm.RAW if rng.random() < 0.3 else ObjectiveForm.NORMALISED,
            jtt_weight=_pick(rng, 0, 0, 0.3),
        ),
    )


def _placements(instance: Instance, job: int) -> list[tuple[int, ...]]:
    """Return every gang of GPUs that the job may hold."""
    view = instance.arrays()
    out = []
    for k, node_type in enumerate(instance.cluster.node_types):
        if math.isinf(view.tau_s[job, k]):
            continue
        nodes = [int(n) for n in np.flatnonzero(view.node_type == k)]
        whole, rest = divmod(int(view.gpus[job]), node_type.gpus)
        gpus = {n: range(int(view.first_gpu[n]), int(view.first_gpu[n + 1])) for n in nodes}
        for full in itertools.combinations(nodes, whole):
            base = [g for n in full for g in gpus[n]]
            if not rest:
                out.append(tuple(sorted(base)))
            for n in nodes if rest else ():
                if n not in full:
                    out += [tuple(sorted([*base, *c])) for c in itertools.combinations(gpus[n], rest)]
    return out


def _layouts(instance: Instance) -> Iterator[tuple[tuple[int, ...], ...]]:
    """Yield placements of all jobs, one for each class of renamings of GPUs and equal nodes."""
    view = instance.arrays()
    seen = set()
    for layout in itertools.product(*(_placements(instance, j) for j in range(len(instance.jobs)))):
        guests: dict[int, list[int]] = {}
        for j, gpus in enumerate(layout):
            for g in gpus:
                guests.setdefault(g, []).append(j)
        nodes = []
        for n, k in enumerate(view.node_type):
            gpus_of = range(int(view.first_gpu[n]), int(view.first_gpu[n + 1]))
            nodes.append((int(k), tuple(sorted(tuple(guests.get(g, ())) for g in gpus_of))))
        key = tuple(sorted(nodes))
        if key not in seen:
            seen.add(key)
            yield layout


def count_plans(instance: Instance, slot_s: float = SLOT_S) -> int:
    """Return how many plans `enumerate_optimum` would try, without the last step of thinning layouts."""
    number = 1
    for j in range(len(instance.jobs)):
        number *= len(_placements(instance, j)) * max(1, len(_starts(instance, j, slot_s)))
    return number


def _starts(instance: Instance, j: int, slot_s: float) -> range:
    view = instance.arrays()
    return range(math.ceil(view.release_s[j] / slot_s), math.ceil(view.deadline_s[j] / slot_s))


def enumerate_optimum(instance: Instance, slot_s: float = SLOT_S) -> tuple[float, Plan] | None:
    """Return the least objective and a plan that has it, `None` if no plan is feasible."""
    view = instance.arrays()
    best: tuple[float, Plan] | None = None
    starts = [_starts(instance, j, slot_s) for j in range(len(instance.jobs))]
    for layout in _layouts(instance):
        gpus = np.array([g for held in layout for g in held], dtype=np.int64)
        for at in itertools.product(*starts):
            plan = Plan(np.array([view.origin_s + s * slot_s for s in at]), gpus)
            outcome = evaluate(instance, plan, grid_s=slot_s)
            if outcome.feasible and (best is None or outcome.objective < best[0]):
                best = (outcome.objective, plan)
    return best


def features(instance: Instance) -> set[str]:
    """Return the features of the static class that an instance uses."""
    view = instance.arrays()
    types = instance.cluster.node_types
    sizes = {t.gpus for t in types}
    factors = {f for row in instance.truth.measured for f in row.factors}
    smallest = min(sizes)
    seen = {
        "mixed GPU counts": any(j.gpus % s for j in instance.jobs for s in sizes),
        "whole nodes": all(j.gpus % smallest == 0 for j in instance.jobs),
        "several node types": len(types) > 1,
        "exclusive": any(j.exclusive for j in instance.jobs),
        "rule existing": instance.limits.rule is AdmissionRule.EXISTING,
        "rule resulting": instance.limits.rule is AdmissionRule.RESULTING,
        "raw": instance.objective.form is ObjectiveForm.RAW,
        "normalised": instance.objective.form is ObjectiveForm.NORMALISED,
        "JTT weight": instance.objective.jtt_weight > 0.0,
        "concave GPU power": any(t.power.gpu.exponent < 1.0 for t in types),
        "measured power": any(t.power.lookup and t.power.measured for t in types),
        "slowdown below 1": any(f < 1.0 for f in factors),
        "cannot share": bool(instance.truth.cannot_share),
        "sleep power": any(t.sleep_w > 0.0 for t in types),
        "model-parallel": any(j.memory_kind is MemoryKind.MODEL_PARALLEL for j in instance.jobs),
        "multi-node jobs": any(
            j.gpus > types[int(k)].gpus
            for i, j in enumerate(instance.jobs)
            for k in np.flatnonzero(np.isfinite(view.tau_s[i]))
        ),
    }
    return {name for name, used in seen.items() if used}
