"""What must always hold of the physics (docs/model.md section 9), on drawn instances and plans."""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eaco_opt.checker import check_report
from eaco_opt.cluster import Cluster, Node
from eaco_opt.evaluation import Evaluation
from eaco_opt.instance import Instance
from eaco_opt.interference import Interference
from eaco_opt.physics import evaluate, plan_schedule
from eaco_opt.schedule import Placement, Plan, Schedule
from tests.eaco_opt.test_sets import load_of
from tests.strategies import hard_instances_with_plans, small_instances_with_plans

Placements = dict[str, Placement]
Drawn = tuple[Instance, Placements]

SLOTS = st.sampled_from([None, 60.0, 1000.0])
JOB_FIELDS = ("running_s", "wait_s", "jtt_s", "tpe_s", "energy_j", "lateness_s", "missed")
# More than any cluster drawn here draws at once, with PUE [W].
MOST_W = 1e5


def values(e: Evaluation) -> dict[str, Any]:
    """Every number of an evaluation, except absolute times, texts and the slot."""
    apart = ("jobs", "problems", "energy", "grid_s")
    out = {f.name: getattr(e, f.name) for f in dataclasses.fields(e) if f.name not in apart}
    out |= dataclasses.asdict(e.energy)
    return out | {name: getattr(e.jobs, name).tolist() for name in JOB_FIELDS}


def on_grid(inst: Instance, placements: Placements, slot: float | None) -> Placements:
    """The placements with starts at the next slot boundary, in whole seconds without a grid."""
    origin = min(j.release_s for j in inst.jobs)
    step = slot or 1.0
    return {
        name: dataclasses.replace(p, start_s=origin + step * math.ceil((p.start_s - origin) / step))
        for name, p in placements.items()
    }


def with_jobs(inst: Instance, change: Callable[[Any], Any]) -> Instance:
    return dataclasses.replace(inst, jobs=tuple(change(j) for j in inst.jobs))


# --- Names, order and the clock change no value (9.1) -----------------------------------------------------


@given(small_instances_with_plans(), SLOTS, st.sampled_from([-7200.0, 1.0, 2.0**20, 1.5e9]))
def test_shifting_all_times_changes_no_value(drawn: Drawn, slot: float | None, by: float) -> None:
    """Releases, deadlines and starts moved by a constant (in whole seconds, so that floats are exact)."""
    inst, placements = drawn[0], on_grid(*drawn, slot)
    later = with_jobs(
        inst, lambda j: dataclasses.replace(j, release_s=j.release_s + by, deadline_s=j.deadline_s + by)
    )
    moved = {n: dataclasses.replace(p, start_s=p.start_s + by) for n, p in placements.items()}
    here = evaluate(inst, Plan.of(inst, placements), grid_s=slot)
    there = evaluate(later, Plan.of(later, moved), grid_s=slot)
    assert values(there) == values(here)
    np.testing.assert_allclose(there.jobs.end_s - by, here.jobs.end_s, rtol=1e-12, atol=1e-12 * abs(by))


def renamed(inst: Instance, placements: Placements) -> tuple[Instance, Placements, dict[str, str]]:
    """Turn all names of jobs, profiles, nodes and types round, so that they sort the other way."""
    count = len(inst.jobs)
    job = {j.name: f"r{count - i:03}" for i, j in enumerate(inst.jobs)}
    prof = {p.name: f"p{len(inst.profiles) - i:03}" for i, p in enumerate(inst.profiles)}
    c = inst.cluster
    of_type = {t.name: f"t{len(c.node_types) - i:03}" for i, t in enumerate(c.node_types)}
    cluster = dataclasses.replace(
        c,
        node_types=tuple(dataclasses.replace(t, name=of_type[t.name]) for t in c.node_types),
        nodes=tuple(
            Node(name=f"m{len(c.nodes) - i:03}", node_type=of_type[n.node_type])
            for i, n in enumerate(c.nodes)
        ),
    )
    other = dataclasses.replace(
        inst,
        name="other",
        jobs=tuple(dataclasses.replace(j, name=job[j.name], profile=prof[j.profile]) for j in inst.jobs),
        profiles=tuple(dataclasses.replace(p, name=prof[p.name]) for p in inst.profiles),
        cluster=cluster,
    )
    return other, {job[n]: p for n, p in placements.items()}, job


@given(small_instances_with_plans() | hard_instances_with_plans(), SLOTS)
def test_names_change_no_value(drawn: Drawn, slot: float | None) -> None:
    """Jobs, profiles (their kinds stay), nodes and types renamed: bitwise the same, as plan and schedule."""
    inst, placements = drawn[0], on_grid(*drawn, slot)
    other, moved, job = renamed(inst, placements)
    here, there = Plan.of(inst, placements), Plan.of(other, moved)
    assert values(evaluate(inst, here, grid_s=slot)) == values(evaluate(other, there, grid_s=slot))
    stated = plan_schedule(inst, here, grid_s=slot)
    rows = tuple(dataclasses.replace(s, job=job[s.job]) for s in stated.segments)
    again = dataclasses.replace(stated, segments=rows)
    assert values(evaluate(inst, stated, grid_s=slot)) == values(evaluate(other, again, grid_s=slot))


@given(small_instances_with_plans(), st.randoms(use_true_random=False))
def test_order_of_rows_changes_no_value(drawn: Drawn, chance: Any) -> None:
    """Jobs with their submit indices, profiles, types and measured rows in any order: bitwise the same."""
    inst, placements = drawn

    def mixed(rows: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(chance.sample(rows, len(rows)))

    types = tuple(
        dataclasses.replace(t, power=dataclasses.replace(t.power, measured=mixed(t.power.measured)))
        for t in inst.cluster.node_types
    )
    other = dataclasses.replace(
        inst,
        jobs=mixed(inst.jobs),
        profiles=mixed(
            tuple(dataclasses.replace(p, epoch_times=mixed(p.epoch_times)) for p in inst.profiles)
        ),
        cluster=dataclasses.replace(inst.cluster, node_types=mixed(types)),
        usage=mixed(inst.usage),
        truth=dataclasses.replace(inst.truth, measured=mixed(inst.truth.measured)),
    )
    turned = dict(mixed(tuple(placements.items())))
    here, there = Plan.of(inst, placements), Plan.of(other, turned)
    assert values(evaluate(inst, here)) == values(evaluate(other, there))
    stated = plan_schedule(inst, here)
    again = Schedule(segments=mixed(stated.segments), schedule_class=stated.schedule_class)
    assert values(evaluate(inst, stated)) == values(evaluate(other, again))


# --- Loosening never hurts a plan (9.2) -------------------------------------------------------------------


@given(small_instances_with_plans())
def test_loosening_keeps_a_feasible_plan_feasible_at_the_same_value(drawn: Drawn) -> None:
    """Later deadlines, higher thresholds, a larger K, one more node: no new violation, no other cost."""
    inst, placements = drawn
    here = evaluate(inst, Plan.of(inst, placements))
    looser = with_jobs(inst, lambda j: dataclasses.replace(j, deadline_s=j.deadline_s + 1000.0))
    limits = dataclasses.replace(
        inst.limits,
        u_threshold=inst.limits.u_threshold + 0.2,
        mem_threshold=1.0,
        max_share=inst.limits.max_share + 1,
    )
    cluster = inst.cluster
    more: list[Node] = []
    if all(t.sleep_w == 0.0 for t in cluster.node_types):
        more = [Node(name="extra", node_type=cluster.nodes[0].node_type)]
    grown = dataclasses.replace(cluster, nodes=(*cluster.nodes, *more))
    looser = dataclasses.replace(looser, limits=limits, cluster=grown)
    there = evaluate(looser, Plan.of(looser, placements))
    assert there.deadline_misses <= here.deadline_misses
    assert there.physical_violations <= here.physical_violations
    assert there.threshold_violations <= here.threshold_violations
    assert there.threshold_excess <= here.threshold_excess
    assert (there.objective, there.energy_j, there.avg_tpe_s) == (
        here.objective,
        here.energy_j,
        here.avg_tpe_s,
    )


# --- Conservation (9.4 and 2.9) ---------------------------------------------------------------------------


@given(small_instances_with_plans() | hard_instances_with_plans(clocks=(0.0, 0.1)), SLOTS)
def test_every_job_does_exactly_its_epochs(drawn: Drawn, slot: float | None) -> None:
    """The schedule that a plan leads to gives each job its epochs, neither more nor less."""
    inst, placements = drawn[0], on_grid(*drawn, slot)
    stated = plan_schedule(inst, Plan.of(inst, placements), grid_s=slot)
    found = check_report(inst, stated, grid_s=slot)
    assert {v.kind for v in found.violations} & {"incomplete", "overrun"} == set()
    for job, (name, epochs) in zip(inst.jobs, found.progress, strict=True):
        assert name == job.name
        assert epochs == pytest.approx(job.epochs, rel=1e-9)


@given(small_instances_with_plans() | hard_instances_with_plans(), SLOTS)
def test_parts_add_up(drawn: Drawn, slot: float | None) -> None:
    """Jobs' shares, sleep and wake-ups are the energy; JCT and wait are JTT; means are means."""
    inst, placements = drawn[0], on_grid(*drawn, slot)
    e = evaluate(inst, Plan.of(inst, placements), grid_s=slot)
    assert e.jobs.energy_j.sum() + e.energy.sleep_j + e.energy.wake_j == pytest.approx(e.energy_j, rel=1e-9)
    assert e.energy.total_j == e.energy_j
    slack = 64 * math.ulp(float(np.abs(e.jobs.end_s).max()))
    np.testing.assert_allclose(e.jobs.running_s + e.jobs.wait_s, e.jobs.jtt_s, rtol=1e-12, atol=slack)
    np.testing.assert_allclose(e.jobs.end_s - e.jobs.start_s, e.jobs.running_s, rtol=1e-9, atol=slack)
    epochs = np.array([j.epochs for j in inst.jobs])
    np.testing.assert_allclose(e.jobs.tpe_s * epochs, e.jobs.running_s, rtol=1e-12)
    assert e.avg_tpe_s == pytest.approx(e.jobs.tpe_s.mean(), rel=1e-12)
    assert e.mean_jtt_s == pytest.approx(e.jobs.jtt_s.mean(), rel=1e-12)
    assert e.mean_jct_s == pytest.approx(e.jobs.running_s.mean(), rel=1e-12)
    assert e.deadline_misses == e.jobs.missed.sum()
    assert 0.0 <= e.load_active_gpus <= 1.0 + 1e-12
    assert e.load_all_gpus <= e.load_active_gpus + 1e-12
    assert 0.0 <= e.modelled_energy_share <= e.modelled_power_share + 1e-9 <= 1.0 + 1e-9
    assert 0 < e.peak_active_nodes <= len(inst.cluster.nodes)
    assert e.mean_active_nodes <= e.peak_active_nodes * (1 + 1e-9)


# --- A plan and the schedule it leads to ------------------------------------------------------------------


@given(small_instances_with_plans() | hard_instances_with_plans(), SLOTS)
def test_a_plan_and_its_schedule_evaluate_alike(drawn: Drawn, slot: float | None) -> None:
    """The same costs within 1e-9 (and the last places of times), the same violations."""
    inst, placements = drawn[0], on_grid(*drawn, slot)
    plan = Plan.of(inst, placements)
    stated = plan_schedule(inst, plan, grid_s=slot)
    here, there = evaluate(inst, plan, grid_s=slot), evaluate(inst, stated, grid_s=slot)
    slack = 64 * math.ulp(max(abs(s.end_s) for s in stated.segments))
    for field in ("avg_tpe_s", "mean_jct_s", "mean_jtt_s", "makespan_s"):
        assert getattr(there, field) == pytest.approx(getattr(here, field), rel=1e-9, abs=slack), field
    for field in ("energy_j", "node_s", "threshold_excess_gpu_s"):
        assert getattr(there, field) == pytest.approx(getattr(here, field), rel=1e-9, abs=MOST_W * slack), (
            field
        )
    np.testing.assert_allclose(there.jobs.energy_j, here.jobs.energy_j, rtol=1e-9, atol=MOST_W * slack)
    for field in (
        "deadline_misses",
        "physical_violations",
        "threshold_violations",
        "threshold_excess",
        "peak_active_nodes",
    ):
        assert getattr(there, field) == getattr(here, field), field


# --- Grid and continuous time (5.8) -----------------------------------------------------------------------


@given(small_instances_with_plans())
def test_grid_meets_continuous_time_as_slots_shrink(drawn: Drawn) -> None:
    """With starts on the boundaries, every end and the costs come as close as one likes."""
    # A departure is late by less than a slot D and holds its neighbours up by as much, or lets them go on at
    # another speed; the factors drawn differ by less than four. So d_k <= D + 3 * (d_1 + ... + d_(k-1)).
    inst, placements = drawn[0], on_grid(*drawn, 1.0)
    plan = Plan.of(inst, placements)
    exact = evaluate(inst, plan)
    for slot in (1.0, 2.0**-5, 2.0**-10):
        e = evaluate(inst, plan, grid_s=slot)
        off = slot * 4.0 ** len(inst.jobs)
        np.testing.assert_allclose(e.jobs.end_s, exact.jobs.end_s, rtol=0, atol=off)
        assert e.energy_j == pytest.approx(exact.energy_j, abs=MOST_W * off)
        assert e.avg_tpe_s == pytest.approx(exact.avg_tpe_s, abs=off)
        # The reference stays that of continuous time.
        assert e.reference_energy_j == exact.reference_energy_j
        assert e.reference_tpe_s == exact.reference_tpe_s


@given(small_instances_with_plans())
def test_grid_is_continuous_time_where_everything_is_whole_slots(drawn: Drawn) -> None:
    """Without slowdowns all running times are multiples of 10 s; with such starts nothing differs."""
    inst = dataclasses.replace(drawn[0], truth=Interference())
    plan = Plan.of(inst, on_grid(inst, drawn[1], 10.0))
    exact, e = values(evaluate(inst, plan)), values(evaluate(inst, plan, grid_s=10.0))
    for name, value in exact.items():
        np.testing.assert_allclose(e[name], value, rtol=1e-9, atol=1e-9, err_msg=name)


@given(small_instances_with_plans(), st.sampled_from([7.0, 60.0, 1000.0]))
def test_grid_times_are_whole_slots(drawn: Drawn, slot: float) -> None:
    """Jobs start and end on boundaries; each takes at least one slot and its work at the least slowdown."""
    inst, placements = drawn[0], on_grid(*drawn, slot)
    origin = min(j.release_s for j in inst.jobs)
    e = evaluate(inst, Plan.of(inst, placements), grid_s=slot)
    for times in (e.jobs.start_s - origin, e.jobs.end_s - origin, e.jobs.running_s):
        np.testing.assert_allclose(times / slot, np.round(times / slot), rtol=0, atol=1e-6)
    assert (e.jobs.running_s >= slot * (1 - 1e-9)).all()


@given(small_instances_with_plans(), st.sampled_from([7.0, 60.0, 1000.0]))
def test_exclusive_execution_on_a_grid_costs_more_than_the_reference(drawn: Drawn, slot: float) -> None:
    """Every job alone takes its running time rounded up: energy and AvgTPE are at least the reference's."""
    inst = drawn[0]
    # As many awake nodes of each type as there are GPUs asked for.
    total = sum(j.gpus for j in inst.jobs)
    types = tuple(
        dataclasses.replace(t, sleep_w=0.0, wake_s=0.0, wake_energy_j=0.0) for t in inst.cluster.node_types
    )
    roomy = Cluster.grouped([(t, total) for t in types], pue=inst.cluster.pue)
    inst = dataclasses.replace(inst, cluster=roomy)
    view = inst.arrays()
    e0, t0, _ = view.reference()
    if t0 == 0.0:
        return  # some job fits on no type
    start = min(j.release_s for j in inst.jobs)
    free = [t * total for t in range(len(types))]
    placements: Placements = {}
    for j, job in enumerate(inst.jobs):
        alone = view.sets.intern((int(view.job_class[j]),))
        _, _, t = min(
            (float(view.tau_s[j, t]), view.exclusive_power_w(j, t, alone), t)
            for t, node_type in enumerate(types)
            if math.isfinite(view.tau_s[j, t]) and view.sets.memory_gib[alone] <= node_type.gpu_memory_gib
        )
        size = types[t].gpus
        gpus = tuple((free[t] + k // size, k % size) for k in range(job.gpus))
        free[t] += math.ceil(job.gpus / size)
        placements[job.name] = Placement(start_s=start, gpus=gpus)
    plan = Plan.of(inst, placements)
    exact, e = evaluate(inst, plan), evaluate(inst, plan, grid_s=slot)
    assert exact.energy_j == pytest.approx(e0, rel=1e-9)
    assert exact.avg_tpe_s == pytest.approx(t0, rel=1e-9)
    assert e.energy_j >= e0 * (1 - 1e-9)
    assert e.avg_tpe_s >= t0 * (1 - 1e-9)


# --- Jobs' shares of the energy, from their definition (2.9) ----------------------------------------------


def _shares_of_node(inst: Instance, node: int, hosted: list[list[str]]) -> dict[str, float]:
    """What each job on a node is charged a second [W], without PUE; `hosted` names the jobs on each GPU."""
    node_type = inst.cluster.type_of(node)
    power = node_type.power
    jobs = {j.name: j for j in inst.jobs}
    kinds = [tuple(sorted(inst.profile(jobs[n].profile).kind for n in names)) for names in hosted]
    busy = [k for k in kinds if k]
    dynamic = [power.gpu.dynamic_power_w(load_of(inst, k)) if k else 0.0 for k in kinds]
    held = Counter(n for names in hosted for n in names)
    cpu = sum(inst.profile(jobs[n].profile).cpu_share * h for n, h in held.items()) / node_type.gpus
    server = power.server.power_w(min(1.0, cpu))
    rows = {row.kinds: row.power_w for row in power.measured}
    if power.lookup and len(busy) == node_type.gpus and len(set(busy)) == 1 and busy[0] in rows:
        server = rows[busy[0]] - sum(dynamic) - node_type.gpus * power.gpu.standing_w
    common = server + (node_type.gpus - len(busy)) * power.gpu.standing_w
    out = {n: common * h / sum(held.values()) for n, h in held.items()}
    for names, watts in zip(hosted, dynamic, strict=True):
        utils = [inst.profile(jobs[n].profile).gpu_util_mean for n in names]
        for n, util in zip(names, utils, strict=True):
            part = util / sum(utils) if sum(utils) > 0.0 else 1.0 / len(names)
            out[n] += power.gpu.standing_w / len(names) + watts * part
    return out


@given(small_instances_with_plans(), SLOTS)
def test_shares_are_those_of_equation_5(drawn: Drawn, slot: float | None) -> None:
    """Between any two changes every GPU's and server's power is split as written, whoever came first."""
    inst, placements = drawn[0], on_grid(*drawn, slot)
    plan = Plan.of(inst, placements)
    rows = plan_schedule(inst, plan, grid_s=slot).segments
    charged = dict.fromkeys((j.name for j in inst.jobs), 0.0)
    times = sorted({t for s in rows for t in (s.start_s, s.end_s)})
    for begin, end in pairwise(times):
        middle = (begin + end) / 2
        for n in range(len(inst.cluster.nodes)):
            hosted: list[list[str]] = [[] for _ in range(inst.cluster.type_of(n).gpus)]
            for s in rows:
                if s.start_s < middle < s.end_s:
                    for node, k in s.gpus:
                        if node == n:
                            hosted[k].append(s.job)
            if any(hosted):
                for name, watts in _shares_of_node(inst, n, hosted).items():
                    charged[name] += inst.cluster.pue * watts * (end - begin)
    e = evaluate(inst, plan, grid_s=slot)
    # Times within the tolerance of each other are one: a watt for a microsecond is not told apart.
    np.testing.assert_allclose(e.jobs.energy_j, list(charged.values()), rtol=1e-9, atol=MOST_W * 1e-9)
