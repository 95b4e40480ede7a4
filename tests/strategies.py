"""Hypothesis strategies for small problems, shared by the property tests.

`small_instances()` draws instances that use every feature of the model: several node types, sharing
tables, limits, both kinds of memory, exclusive jobs, infinite deadlines, priorities.
`small_instances_with_plans()` adds a placement for every job. Values are moderate decimals, fit for physics;
`wild=True` draws the whole range that the domain objects accept (for tests of reading and writing, not of
physics).
"""

from __future__ import annotations

import dataclasses
import math
from itertools import combinations_with_replacement
from typing import Any

from hypothesis import strategies as st

from eaco_opt.cluster import Cluster, Node, NodeType
from eaco_opt.instance import Instance, MeasuredUsage
from eaco_opt.interference import Interference, MeasuredSlowdown
from eaco_opt.job import Job, MemoryKind
from eaco_opt.limits import AdmissionRule, Limits, Objective, ObjectiveForm
from eaco_opt.power import GpuPower, MeasuredPower, PowerModel, ServerPower
from eaco_opt.profile import EpochTime, Profile
from eaco_opt.schedule import Gpu, Placement, Schedule, ScheduleClass, Segment

# Printable and without blanks: what every name field accepts.
_LETTERS = st.characters(exclude_categories=("C", "Z"))
_TEXTS = st.text(max_size=20)  # any text that UTF-8 can hold: control characters and quotes too


def _names(count: int, prefix: str, *, wild: bool) -> st.SearchStrategy[list[str]]:
    """Draw `count` different names; tame ones are `prefix0`, `prefix1`, ..."""
    if not wild:
        return st.just([f"{prefix}{i}" for i in range(count)])
    return st.lists(st.text(_LETTERS, min_size=1, max_size=8), min_size=count, max_size=count, unique=True)


def _number(low: float, high: float, step: float, *, wild: bool, top: float | None = None) -> Any:
    """Draw a multiple of `step` in [low, high]; wild: any float from low to `top`, or to the largest."""
    if wild:
        return st.floats(low, top, allow_nan=False, allow_infinity=False)
    first, last = round(low / step), round(high / step)
    return st.integers(first, last).map(lambda k: round(k * step, 6))


def _positive(low: float, high: float, step: float, *, wild: bool, top: float | None = None) -> Any:
    return (
        _number(low, high, step, wild=False)
        if not wild
        else st.floats(0.0, top, exclude_min=True, allow_nan=False, allow_infinity=False)
    )


@st.composite
def power_models(draw: st.DrawFn, kinds: list[str], *, wild: bool = False) -> PowerModel:
    """Draw a power model with up to two measured sets of the given kinds."""
    # Wild powers stay below 1e100, so that sums over GPUs stay finite.
    top = 1e100
    idle = draw(_number(0.0, 300.0, 5.0, wild=wild, top=top))
    busy = idle + draw(_number(0.0, 300.0, 5.0, wild=wild, top=top))
    sets = draw(st.lists(st.lists(st.sampled_from(kinds), min_size=1, max_size=3).map(sorted), max_size=2))
    rows = {tuple(k): draw(_positive(100.0, 3000.0, 50.0, wild=wild, top=top)) for k in sets}
    return PowerModel(
        server=ServerPower(
            idle_w=idle, busy_w=busy, exponent=draw(_number(1.0, 2.0, 0.1, wild=wild, top=2.0))
        ),
        gpu=GpuPower(
            standing_w=draw(_number(0.0, 60.0, 5.0, wild=wild, top=top)),
            dynamic_w=draw(_number(0.0, 300.0, 10.0, wild=wild, top=top)),
            exponent=draw(_positive(0.1, 1.0, 0.1, wild=wild, top=1.0)),
        ),
        measured=tuple(MeasuredPower(kinds=k, power_w=w) for k, w in rows.items()),
        lookup=draw(st.booleans()),
    )


@st.composite
def clusters(
    draw: st.DrawFn,
    kinds: list[str],
    *,
    max_types: int = 2,
    max_nodes: int = 3,
    max_gpus: int = 4,
    sleeping: bool = True,
    wild: bool = False,
) -> Cluster:
    """Draw a cluster; a type may be without nodes. `sleeping=False`: no sleep power and no wake-ups."""
    types: list[NodeType] = []
    count = draw(st.integers(1, max_types))
    for name, gpu_type in zip(
        draw(_names(count, "type", wild=wild)), draw(_names(count, "gpu", wild=wild)), strict=True
    ):
        gpus = draw(st.integers(1, max_gpus))
        power = draw(power_models(kinds, wild=wild))
        ceiling = min([power.empty_active_w(gpus), *(row.power_w for row in power.measured)])
        share = draw(st.sampled_from([0.0, 0.1, 1.0])) if sleeping else 0.0
        types.append(
            NodeType(
                name=name,
                gpus=gpus,
                gpu_type=gpu_type if wild else draw(st.sampled_from(["gpu0", "gpu1"])),
                gpu_memory_gib=draw(_positive(8.0, 80.0, 8.0, wild=wild)),
                power=power,
                sleep_w=ceiling * share,
                wake_s=draw(_number(0.0, 300.0, 60.0, wild=wild)) if sleeping else 0.0,
                wake_energy_j=draw(_number(0.0, 9000.0, 500.0, wild=wild)) if sleeping else 0.0,
            )
        )
    of_type = draw(st.lists(st.sampled_from(types), min_size=1, max_size=max_nodes))
    names = draw(_names(len(of_type), "n", wild=wild))
    return Cluster(
        node_types=tuple(types),
        nodes=tuple(Node(name=n, node_type=t.name) for n, t in zip(names, of_type, strict=True)),
        pue=draw(_number(1.0, 1.6, 0.1, wild=wild)),
    )


@st.composite
def interferences(
    draw: st.DrawFn, kinds: list[str], *, cannot_share: bool = True, wild: bool = False
) -> Interference:
    """Draw sharing tables over the given kinds, with any built-in model for the other sets."""
    multisets = st.lists(st.sampled_from(kinds), min_size=2, max_size=3).map(lambda k: tuple(sorted(k)))
    pairs: set[tuple[str, str]] = set()
    if cannot_share and draw(st.booleans()):
        a, b = sorted(draw(st.tuples(st.sampled_from(kinds), st.sampled_from(kinds))))
        pairs.add((a, b))
    rows = []
    for members in draw(st.lists(multisets, max_size=3, unique=True)):
        inside = {(a, b) for i, a in enumerate(members) for b in members[i + 1 :]}
        if inside & pairs:
            continue
        factor = {k: draw(_positive(0.8, 2.5, 0.05, wild=wild)) for k in dict.fromkeys(members)}
        rows.append(MeasuredSlowdown(kinds=members, factors=tuple(factor[k] for k in members)))
    model = draw(st.sampled_from(["none", "additive", "crowding", "pair-product"]))
    params: dict[str, float] = {}
    if model == "crowding":
        for key, high in (("base", 0.4), ("slope", 0.4), ("exponent", 2.0)):
            if draw(st.booleans()):
                params[key] = draw(_number(0.0, high, 0.1, wild=wild))
    return Interference(
        measured=tuple(rows),
        cannot_share=tuple(pairs),
        model=model,
        params=tuple(params.items()),
        clamp=draw(st.booleans()),
    )


@st.composite
def profiles_for(
    draw: st.DrawFn, kinds: list[str], gpu_types: list[str], *, wild: bool = False
) -> list[Profile]:
    """Draw a profile or two for each kind; each runs, with any number of GPUs, on one of `gpu_types`."""
    out: list[Profile] = []
    for kind in kinds:
        mean = draw(_number(0.0, 1.0, 0.05, wild=wild, top=1.0))
        memory = draw(_number(0.0, 40.0, 1.0, wild=wild, top=1e100))
        common: dict[str, Any] = {
            "gpu_util_mean": mean,
            "gpu_util_peak": max(mean, draw(_number(0.0, 1.0, 0.05, wild=wild, top=1.0))),
            "gpu_memory_mean_gib": memory,
            "gpu_memory_peak_gib": memory + draw(_number(0.0, 8.0, 1.0, wild=wild, top=1e100)),
            "cpu_share": draw(_number(0.0, 1.0, 0.05, wild=wild, top=1.0)),
        }
        for twin in range(draw(st.integers(1, 2))):
            seconds = _positive(10.0, 2000.0, 10.0, wild=wild)
            times = {(draw(st.sampled_from(gpu_types)), None): draw(seconds)}
            for _ in range(draw(st.integers(0, 2))):
                key = (draw(st.sampled_from(gpu_types)), draw(st.none() | st.integers(1, 4)))
                times[key] = draw(seconds)
            out.append(
                Profile(
                    name=kind if twin == 0 else f"{kind}/{twin}",
                    kind=kind,
                    epoch_times=tuple(
                        EpochTime(gpu_type=t, gpus=g, epoch_time_s=s) for (t, g), s in times.items()
                    ),
                    **common,
                )
            )
    return out


def _room(cluster: Cluster, profile: Profile, gpus: int) -> list[NodeType]:
    """Return the node types on whose nodes a job of `gpus` GPUs fits, memory and limits aside."""
    count = {t.name: 0 for t in cluster.node_types}
    for node in cluster.nodes:
        count[node.node_type] += 1
    return [
        t
        for t in cluster.node_types
        if profile.epoch_time_s(t.gpu_type, gpus) is not None and gpus <= count[t.name] * t.gpus
    ]


@st.composite
def small_instances(
    draw: st.DrawFn,
    *,
    min_jobs: int = 1,
    max_jobs: int = 4,
    max_types: int = 2,
    max_nodes: int = 3,
    max_gpus: int = 4,
    cannot_share: bool = True,
    sleeping: bool = True,
    wild: bool = False,
) -> Instance:
    """Draw an instance whose every job has a node type with an epoch time and enough GPUs.

    Memory, limits and deadlines may still rule a job out. `cannot_share=False` leaves out pairs that cannot
    share; `sleeping=False` leaves out sleep power and wake-ups.
    """
    kinds = draw(_names(draw(st.integers(1, 3)), "k", wild=wild))
    cluster = draw(
        clusters(
            kinds, max_types=max_types, max_nodes=max_nodes, max_gpus=max_gpus, sleeping=sleeping, wild=wild
        )
    )
    used = {node.node_type for node in cluster.nodes}
    gpu_types = list(dict.fromkeys(t.gpu_type for t in cluster.node_types if t.name in used))
    profiles = draw(profiles_for(kinds, gpu_types, wild=wild))
    count = draw(st.integers(min_jobs, max_jobs))
    jobs: list[Job] = []
    indices = draw(st.permutations(range(count)))
    gaps = draw(st.booleans())
    for i, name in enumerate(draw(_names(count, "job", wild=wild))):
        profile = draw(st.sampled_from(profiles))
        sizes = [g for g in range(1, 2 * max_gpus + 2) if _room(cluster, profile, g)]
        release = draw(
            st.floats(allow_nan=False, allow_infinity=False)
            if wild
            else _number(0.0, 7200.0, 300.0, wild=False)
        )
        deadline = (
            st.floats(allow_nan=False, allow_infinity=False)
            if wild
            else _number(600.0, 40000.0, 300.0, wild=False).map(lambda slack, r=release: r + slack)
        )
        jobs.append(
            Job(
                name=name,
                profile=profile.name,
                gpus=draw(st.sampled_from(sizes)),
                epochs=draw(st.integers(1, 2**53 if wild else 5)),
                release_s=release,
                deadline_s=draw(st.just(math.inf) | deadline),
                priority=draw(st.integers(-(2**31), 2**31 - 1) if wild else st.integers(-1, 1)),
                exclusive=draw(st.booleans()),
                memory_kind=draw(st.sampled_from(MemoryKind)),
                submit_index=indices[i] * (7 if gaps else 1),
            )
        )
    sets = st.lists(st.sampled_from(kinds), min_size=1, max_size=3).map(lambda k: tuple(sorted(k)))
    usage = tuple(
        MeasuredUsage(
            kinds=members,
            load=draw(_number(0.0, 1.0, 0.05, wild=wild, top=1.0)),
            memory_gib=draw(_number(0.0, 80.0, 1.0, wild=wild)),
        )
        for members in draw(st.lists(sets, max_size=3, unique=True))
    )
    return Instance(
        name=draw(_names(1, "instance", wild=wild))[0],
        jobs=tuple(jobs),
        profiles=tuple(profiles),
        cluster=cluster,
        usage=usage,
        truth=draw(interferences(kinds, cannot_share=cannot_share, wild=wild)),
        limits=Limits(
            u_threshold=draw(_number(0.5, 1.5, 0.1, wild=wild)),
            mem_threshold=draw(_positive(0.5, 1.0, 0.1, wild=wild, top=1.0)),
            max_share=draw(st.integers(1, 8 if wild else 4)),
            rule=draw(st.sampled_from(AdmissionRule)),
        ),
        objective=Objective(
            alpha=draw(_number(0.0, 1.0, 0.1, wild=wild, top=1.0)),
            form=draw(st.sampled_from(ObjectiveForm)),
            jtt_weight=draw(_number(0.0, 1.0, 0.5, wild=wild)),
        ),
        metadata=tuple(draw(st.dictionaries(_TEXTS, _TEXTS, max_size=2)).items()) if wild else (),
    )


@st.composite
def _gangs(draw: st.DrawFn, instance: Instance, job: Job) -> tuple[tuple[Gpu, ...], NodeType]:
    """Draw GPUs that keep the job's gang rule, and the type of their nodes (docs/model.md section 1)."""
    cluster = instance.cluster
    node_type = draw(st.sampled_from(_room(cluster, instance.profile(job.profile), job.gpus)))
    nodes = [i for i, node in enumerate(cluster.nodes) if node.node_type == node_type.name]
    whole, rest = divmod(job.gpus, node_type.gpus)
    chosen = draw(st.permutations(nodes))[: whole + (rest > 0)]
    gpus = [(n, k) for n in chosen[:whole] for k in range(node_type.gpus)]
    if rest:
        gpus += [(chosen[whole], k) for k in draw(st.permutations(range(node_type.gpus)))[:rest]]
    return tuple(sorted(gpus)), node_type


@st.composite
def plans(draw: st.DrawFn, instance: Instance) -> dict[str, Placement]:
    """Draw `{job name: placement}` for every job, on GPUs that exist and keep the gang rule.

    A job starts at or after its release plus its node's wake-up time. Sharing is arbitrary: memory, limits,
    `exclusive` and deadlines may be broken.
    """
    out: dict[str, Placement] = {}
    for job in instance.jobs:
        gpus, node_type = draw(_gangs(instance, job))
        wait = draw(st.sampled_from([0.0, 0.0, 60.0, 1000.0, 12345.6]))
        out[job.name] = Placement(start_s=job.release_s + node_type.wake_s + wait, gpus=gpus)
    return out


@st.composite
def small_instances_with_plans(draw: st.DrawFn, **options: Any) -> tuple[Instance, dict[str, Placement]]:
    """Draw an instance and a plan for it; options are those of `small_instances`.

    Pairs that cannot share are left out unless asked for, because a set that holds one has no slowdown.
    """
    instance = draw(small_instances(**{"cannot_share": False, **options}))
    return instance, draw(plans(instance))


@st.composite
def small_instances_with_schedules(draw: st.DrawFn, **options: Any) -> tuple[Instance, Schedule]:
    """Draw an instance and segments on its nodes with arbitrary ends, which physics need not agree with.

    Segments of one job do not overlap (wild: they may, but no two have the same start and end).
    """
    instance = draw(small_instances(**{"cannot_share": False, **options}))
    wild = bool(options.get("wild", False))
    segments: list[Segment] = []
    for job in instance.jobs:
        count = draw(st.integers(0, 3))
        if wild:
            finite = st.floats(allow_nan=False, allow_infinity=False)
            spans = st.tuples(finite, finite).filter(lambda pair: pair[0] < pair[1])
            times = draw(st.lists(spans, min_size=count, max_size=count, unique=True))
        else:
            gap, length = _number(0.0, 9000.0, 0.1, wild=False), _number(0.1, 9000.0, 0.1, wild=False)
            times, now = [], job.release_s
            for _ in range(count):
                start = now + draw(gap)
                now = start + draw(length)
                times.append((start, now))
        for start, end in times:
            gpus, _ = draw(_gangs(instance, job))
            segments.append(Segment(job=job.name, start_s=start, end_s=end, gpus=gpus))
    return instance, Schedule(
        segments=tuple(segments),
        schedule_class=draw(st.sampled_from(ScheduleClass)),
        method=draw(_TEXTS if wild else st.sampled_from(["", "by hand"])),
    )


# Epoch times and releases that differ by up to eight powers of ten, but never by less than the tolerance of
# times where they are compared: 1 ms within the first hour, 50 ms after 1e6 s.
_HARD_TIMES = (
    ((0.001, 0.05, 1.0, 33.3, 600.0), (0.0, 0.0, 0.001, 33.3)),
    ((0.05, 1.0, 33.3, 600.0, 1e6), (0.0, 0.0, 33.3, 1e6)),
)
_HARD_CLOCKS = (0.0, 0.1, 1.5e9, 1.5e9 + 0.1)


@st.composite
def hard_instances_with_plans(
    draw: st.DrawFn, *, max_jobs: int = 5, clocks: tuple[float, ...] = _HARD_CLOCKS
) -> tuple[Instance, dict[str, Placement]]:
    """Draw an instance and a plan full of ties: equal releases, starts, deadlines, lengths and speeds.

    Epochs take from 1 ms to 1e6 s in one instance, slowdowns are from 0.25 to 4 (or there are none), and
    the earliest release may lie at 1.5e9 s. Every job has one or two GPUs on one or two nodes of two.
    """
    kinds = ["k0", "k1", "k2"][: draw(st.integers(1, 3))]
    node = draw(clusters(kinds, max_types=1, max_nodes=1, max_gpus=2, sleeping=draw(st.booleans())))
    node_type = dataclasses.replace(node.node_types[0], gpus=2, gpu_type="gpu0", gpu_memory_gib=64.0)
    if node_type.wake_s > 0.0:
        node_type = dataclasses.replace(node_type, wake_s=draw(st.sampled_from([1.0, 33.3])))
    all_taus, all_offsets = draw(st.sampled_from(_HARD_TIMES))
    taus = draw(st.lists(st.sampled_from(all_taus), min_size=len(kinds), max_size=len(kinds)))
    profiles = tuple(
        Profile(
            name=kind,
            epoch_times=(EpochTime(gpu_type="gpu0", epoch_time_s=tau),),
            gpu_util_mean=util,
            gpu_util_peak=1.0,
            gpu_memory_mean_gib=memory,
            gpu_memory_peak_gib=memory,
            cpu_share=draw(st.sampled_from([0.0, 0.5, 1.0])),
        )
        for kind, tau, util, memory in (
            (k, t, draw(st.sampled_from([0.0, 0.3, 0.45])), draw(st.sampled_from([0.0, 16.0, 28.8])))
            for k, t in zip(kinds, taus, strict=True)
        )
    )
    rows = {}
    if draw(st.booleans()):
        for members in combinations_with_replacement(kinds, 2):
            factor = {k: draw(st.sampled_from([0.25, 0.5, 0.9, 1.0, 1.1, 4.0])) for k in members}
            rows[members] = tuple(factor[k] for k in members)
    truth = Interference(
        measured=tuple(MeasuredSlowdown(kinds=k, factors=f) for k, f in rows.items()),
        model=draw(st.sampled_from(["none", "additive"])),
        clamp=draw(st.booleans()),
    )
    clock = draw(st.sampled_from(clocks))
    offsets = draw(st.lists(st.sampled_from(all_offsets), min_size=1, max_size=2))
    slack = draw(st.sampled_from([0.001, 1.0, 100.0, 1e7, math.inf]))
    jobs: list[Job] = []
    placements: dict[str, Placement] = {}
    for i in range(draw(st.integers(1, max_jobs))):
        profile = draw(st.sampled_from(profiles))
        release = clock + draw(st.sampled_from(offsets))
        jobs.append(
            Job(
                name=f"job{i}",
                profile=profile.name,
                gpus=draw(st.integers(1, 2)),
                epochs=draw(st.sampled_from([1, 1, 2, 3, 1000])),
                release_s=release,
                deadline_s=clock + slack,
                exclusive=draw(st.integers(0, 5)) == 0,
            )
        )
        at = draw(st.integers(0, 1))
        gpus = ((at, 0), (at, 1)) if jobs[i].gpus == 2 else ((at, draw(st.integers(0, 1))),)
        # At once, after one epoch of somebody, or when the other release is over.
        wait = draw(st.sampled_from([0.0, 0.0, *taus, *offsets]))
        placements[jobs[i].name] = Placement(start_s=release + node_type.wake_s + wait, gpus=gpus)
    instance = Instance(
        name="hard",
        jobs=tuple(jobs),
        profiles=profiles,
        cluster=Cluster.uniform(node_type, 2, pue=draw(st.sampled_from([1.0, 1.3]))),
        truth=truth,
        limits=Limits(u_threshold=0.9, mem_threshold=0.9, max_share=draw(st.integers(1, 4))),
        objective=Objective(
            alpha=draw(st.sampled_from([0.0, 0.5, 1.0])), jtt_weight=draw(st.sampled_from([0.0, 1.0]))
        ),
    )
    return instance, placements
