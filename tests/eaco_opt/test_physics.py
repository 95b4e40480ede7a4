"""Physics in continuous time against numbers worked by hand.

Unless a test says otherwise a node has a server of 100 W whatever its CPU does, and GPUs of 32 GiB that draw
50 W standing and 100 W more at load 1, in proportion to the load.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest

from eaco_opt.checker import check_report
from eaco_opt.cluster import NodeType
from eaco_opt.errors import ScheduleError
from eaco_opt.evaluation import Evaluation
from eaco_opt.instance import Instance, MeasuredUsage
from eaco_opt.interference import Interference, MeasuredSlowdown
from eaco_opt.job import Job, MemoryKind
from eaco_opt.limits import AdmissionRule, Limits, Objective, ObjectiveForm
from eaco_opt.physics import evaluate, objective_value, plan_schedule
from eaco_opt.power import GpuPower, MeasuredPower, PowerModel, ServerPower
from eaco_opt.profile import EpochTime
from eaco_opt.schedule import Gpu, Placement, Plan, Schedule, ScheduleClass
from tests.eaco_opt.checker_cases import instance, job, node_type, profile, schedule, seg

# Alone 10 s and 20 s an epoch; together a takes 1.5 times as long and b 1.25 times.
A = profile("a", 10.0, util=0.3, memory_gib=8.0)
B = profile("b", 20.0, util=0.5, memory_gib=16.0)
TRUTH = Interference(measured=(MeasuredSlowdown(kinds=("a", "b"), factors=(1.5, 1.25)),))
FREE = Limits(u_threshold=8.0, mem_threshold=1.0, max_share=8)
MICRO, MILLI = 1e-6, 1e-3


def build(jobs: tuple[Job, ...], *groups: tuple[NodeType, int], **more: Any) -> Instance:
    """An instance with profiles a and b, on one node of one GPU unless groups are given."""
    return instance(
        jobs, *(groups or ((node_type(gpus=1), 1),)), **{"profiles": (A, B), "truth": TRUTH, **more}
    )


def plan(inst: Instance, **starts: tuple[float, tuple[Gpu, ...]]) -> Plan:
    return Plan.of(inst, {name: Placement(start_s=s, gpus=gpus) for name, (s, gpus) in starts.items()})


def powered(base: NodeType, **changes: Any) -> NodeType:
    return dataclasses.replace(base, power=dataclasses.replace(base.power, **changes))


def shares(e: Evaluation) -> float:
    """Jobs' shares of the energy with sleep and wake-ups [J]; must be the total."""
    return float(e.jobs.energy_j.sum()) + e.energy.sleep_j + e.energy.wake_j


G00: tuple[Gpu, ...] = ((0, 0),)
BOTH: tuple[Gpu, ...] = ((0, 0), (0, 1))


# --- Speeds, energy, objective ----------------------------------------------------------------------------


def test_two_hosts_at_203_w_for_3_s() -> None:
    """Two hosts that draw 203 W for 3 s each use 2 * 203 * 3 = 1218 J."""
    host = node_type(
        gpus=1,
        power=PowerModel(
            server=ServerPower(idle_w=103.0, busy_w=103.0), gpu=GpuPower(standing_w=100.0, dynamic_w=0.0)
        ),
    )
    second = profile("second", 1.0, util=0.5, memory_gib=1.0)
    inst = build((job("x", "second", 1, 3), job("y", "second", 1, 3)), (host, 2), profiles=(second,))
    e = evaluate(inst, plan(inst, x=(0.0, ((0, 0),)), y=(0.0, ((1, 0),))))
    assert e.energy_j == 1218.0
    assert (e.energy.server_j, e.energy.gpu_standing_j, e.energy.gpu_dynamic_j) == (618.0, 600.0, 0.0)
    assert e.jobs.energy_j.tolist() == [609.0, 609.0]
    assert (e.node_s, e.mean_active_nodes, e.peak_active_nodes, e.makespan_s) == (6.0, 2.0, 2, 3.0)


def pair(**more: Any) -> tuple[Instance, Plan]:
    """x runs 4 epochs of a and y 3 of b, on one GPU from 0 s on."""
    inst = build((job("x", "a", 1, 4), job("y", "b", 1, 3)), **more)
    return inst, plan(inst, x=(0.0, G00), y=(0.0, G00))


def test_speeds_change_when_a_neighbour_leaves() -> None:
    """Two jobs of different length that share a GPU: ends, energy, shares, means."""
    # Together x takes 15 s an epoch and y 25 s. x ends at 60 s; y has 60/25 = 2.4 epochs by then and runs
    # the other 0.6 at 20 s: 12 s more.
    # Power 100 + 50 + 100 * 0.8 = 230 W for 60 s, then 100 + 50 + 50 = 200 W for 12 s: 16,200 J.
    inst, both = pair()
    e = evaluate(inst, both)
    assert e.feasible and e.problems == ()
    assert e.jobs.end_s.tolist() == pytest.approx([60.0, 72.0], rel=1e-15)
    assert e.jobs.running_s.tolist() == pytest.approx([60.0, 72.0], rel=1e-15)
    assert e.jobs.tpe_s.tolist() == pytest.approx([15.0, 24.0], rel=1e-15)
    assert e.avg_tpe_s == pytest.approx(19.5, rel=1e-15)
    assert e.energy_j == pytest.approx(16200.0, rel=1e-15)
    assert e.energy.server_j == pytest.approx(7200.0, rel=1e-15)
    assert e.energy.gpu_standing_j == pytest.approx(3600.0, rel=1e-15)
    assert e.energy.gpu_dynamic_j == pytest.approx(60 * 80.0 + 12 * 50.0, rel=1e-15)
    # Equation 5. Both hold one GPU: half the server and half of standing each while together, 75 W; the
    # dynamic 80 W in proportion to 0.3 and 0.5, 30 W and 50 W. Alone y pays for everything.
    assert e.jobs.energy_j.tolist() == pytest.approx([60 * 105.0, 60 * 125.0 + 12 * 200.0], rel=1e-14)
    assert e.mean_jct_s == e.mean_jtt_s == pytest.approx(66.0, rel=1e-15)
    assert (e.mean_wait_s, e.deadline_misses) == (0.0, 0)
    assert e.jobs.lateness_s.tolist() == [-math.inf, -math.inf]
    # min(1, load) is 0.8, then 0.5, of the only GPU.
    assert e.load_active_gpus == e.load_all_gpus == pytest.approx((60 * 0.8 + 12 * 0.5) / 72, rel=1e-14)


def test_objective_in_both_forms_with_jtt_weight() -> None:
    """Normalised by exclusive execution, or kWh and hours; the weight adds mean JTT."""
    # Alone: x 40 s at 180 W, y 60 s at 200 W: E0 = 19,200 J, T0 = 15 s, J0 = 50 s.
    inst, both = pair(objective=Objective(alpha=0.25, jtt_weight=0.1))
    e = evaluate(inst, both)
    assert e.reference_energy_j == pytest.approx(19200.0, rel=1e-15)
    assert (e.reference_tpe_s, e.reference_jtt_s) == (15.0, 50.0)
    assert e.objective == pytest.approx(0.25 * 16200 / 19200 + 0.75 * 19.5 / 15 + 0.1 * 66 / 50, rel=1e-14)
    raw = dataclasses.replace(inst, objective=Objective(alpha=0.25, form=ObjectiveForm.RAW, jtt_weight=0.1))
    expected = 0.25 * 16200 / 3.6e6 + 0.75 * 19.5 / 3600 + 0.1 * 66 / 3600
    assert evaluate(raw, both).objective == pytest.approx(expected, rel=1e-14)
    assert objective_value(raw, 16200.0, 19.5, 66.0) == pytest.approx(expected, rel=1e-15)
    assert e.summary()["energy_kwh"] == pytest.approx(16200 / 3.6e6, rel=1e-14)


def test_chain_of_three_jobs_on_one_two_and_four_gpus() -> None:
    """Jobs connected through shared GPUs slow each other down, each as much as its slowest GPU."""
    # GPU 0 hosts A, B, C; GPU 1 hosts B, C; GPUs 2 and 3 host C. Slowdown = sum of utilisations 0.6, at
    # least 1: 1.8, 1.2, 1. All three are on GPU 0, so all take 18 s an epoch until A ends at 18 s.
    # Then GPU 0 hosts B, C: 1.2. B does its second epoch in 12 s, until 30 s; C has 2 epochs by then and
    # does its third alone in 10 s, until 40 s.
    even = profile("even", util=0.6, memory_gib=8.0)
    jobs = (job("A", "even", 1, 1), job("B", "even", 2, 2), job("C", "even", 4, 3))
    inst = build(
        jobs,
        (node_type(gpus=4), 1),
        profiles=(even,),
        truth=Interference(model="additive"),
    )
    four = tuple((0, k) for k in range(4))
    e = evaluate(inst, plan(inst, A=(0.0, four[:1]), B=(0.0, four[:2]), C=(0.0, four)))
    assert e.jobs.end_s.tolist() == pytest.approx([18.0, 30.0, 40.0], rel=1e-14)
    # Dynamic: min(1, load) is 1, 1, 0.6, 0.6 for 30 s and 0.6 everywhere for 10 s.
    assert e.energy.server_j == pytest.approx(4000.0, rel=1e-14)
    assert e.energy.gpu_standing_j == pytest.approx(8000.0, rel=1e-14)
    assert e.energy.gpu_dynamic_j == pytest.approx(30 * 320.0 + 10 * 240.0, rel=1e-14)
    assert e.load_active_gpus == pytest.approx((30 * 3.2 + 10 * 2.4) / 160, rel=1e-14)
    # A holds 1 of 7 held GPUs, a third of GPU 0's standing 50 W and of its dynamic 100 W.
    a = 18 * (100 / 7 + 50 / 3 + 100 / 3)
    # B holds 2 of 7, then 2 of 6: 50/3 + 25 W of standing and 100/3 + 50 W dynamic, then 2 * 25 and 2 * 50.
    b = 18 * (200 / 7 + 50 / 3 + 25 + 100 / 3 + 50) + 12 * (200 / 6 + 50 + 100)
    assert e.jobs.energy_j.tolist() == pytest.approx([a, b, 24000.0 - a - b], rel=1e-14)
    # Loads 1.8 and 1.2 exceed 0.9 on GPU 0 for 30 s and on GPU 1 for 30 s: B's start breaks the limit, and
    # so does C's.
    assert (e.threshold_violations, e.physical_violations) == (2, 0)
    assert e.threshold_excess == pytest.approx(0.9, rel=1e-12)
    assert e.threshold_excess_gpu_s == pytest.approx(60.0, rel=1e-14)
    # Read literally, a job may join while the load of those there is at most 0.9. Only A+B+C breaks that:
    # whoever joined last found 1.2.
    literal = dataclasses.replace(inst, limits=Limits(rule=AdmissionRule.EXISTING))
    e = evaluate(literal, plan(literal, A=(0.0, four[:1]), B=(0.0, four[:2]), C=(0.0, four)))
    assert e.threshold_violations == 1
    assert e.threshold_excess == pytest.approx(0.3, rel=1e-12)
    assert e.threshold_excess_gpu_s == pytest.approx(18.0, rel=1e-14)


def test_a_neighbour_may_speed_a_job_up() -> None:
    """Measured slowdowns below 1 and different for the two members are taken as they are."""
    # x takes 8 s an epoch beside y, y 30 s beside x. x ends at 16 s; y has 16/30 epochs by then and needs
    # (2 - 16/30) * 20 = 88/3 s more.
    truth = Interference(measured=(MeasuredSlowdown(kinds=("a", "b"), factors=(0.8, 1.5)),))
    inst = build((job("x", "a", 1, 2), job("y", "b", 1, 2)), truth=truth)
    e = evaluate(inst, plan(inst, x=(0.0, G00), y=(0.0, G00)))
    assert e.jobs.end_s.tolist() == pytest.approx([16.0, 16.0 + 88 / 3], rel=1e-15)
    assert e.jobs.tpe_s[0] == pytest.approx(8.0)


def test_multi_node_job_goes_at_the_pace_of_its_slowest_node() -> None:
    """A job of 5 GPUs takes two nodes of two and half of a third, whose other user it leaves alone."""
    # y shares M's GPU on n2: M takes 15 s an epoch and y 25 s. y ends at 25 s, M has 5/3 epochs by then and
    # does the other 4/3 at 10 s: until 115/3 s. z has n2's other GPU to itself, 2 epochs of 10 s.
    jobs = (job("M", "a", 5, 3), job("y", "b", 1, 1), job("z", "a", 1, 2))
    inst = build(jobs, (node_type(), 3))
    five = ((0, 0), (0, 1), (1, 0), (1, 1), (2, 0))
    e = evaluate(inst, plan(inst, M=(0.0, five), y=(0.0, ((2, 0),)), z=(0.0, ((2, 1),))))
    end = 115 / 3
    assert e.jobs.end_s.tolist() == pytest.approx([end, 25.0, 20.0], rel=1e-15)
    # n0 and n1: 100 + 2 * 50 + 2 * 30 = 260 W. n2: 200 W and 80 + 30 W to 20 s, 80 W to 25 s, 30 W after.
    n2 = 20 * 310.0 + 5 * 280.0 + (end - 25) * 230.0
    assert e.energy_j == pytest.approx(2 * 260 * end + n2, rel=1e-14)
    # y: 1 of 3 held GPUs of n2, half of GPU 0's standing power, 50 W dynamic; after 20 s GPU 1 is empty, and
    # its 50 W are shared like the server's.
    y = 20 * (100 / 3 + 25 + 50) + 5 * (150 / 2 + 25 + 50)
    assert e.jobs.energy_j[1] == pytest.approx(y, rel=1e-14)
    assert shares(e) == pytest.approx(e.energy_j, rel=1e-14)
    assert e.peak_active_nodes == 3
    assert e.mean_active_nodes == pytest.approx(3.0, rel=1e-14)
    # n2's second GPU is free after 20 s.
    assert e.load_all_gpus == pytest.approx(
        (4 * 0.3 * end + 25 * 0.8 + (end - 25) * 0.3 + 20 * 0.3) / (6 * end), rel=1e-14
    )


def test_waiting_counts_in_jtt_only() -> None:
    """JCT is time running; JTT is end minus release, and the rest of it is waiting."""
    # x, released at 5 s, waits until 50 s, runs 40 s and ends 85 s after its release.
    inst = build((job("x", "a", 1, 4, 100.0, release_s=5.0), job("y", "b", 1, 1)))
    e = evaluate(inst, plan(inst, x=(50.0, G00), y=(0.0, G00)))
    assert e.jobs.jtt_s.tolist() == [85.0, 20.0]
    assert e.jobs.running_s.tolist() == [40.0, 20.0]
    assert e.jobs.wait_s.tolist() == [45.0, 0.0]
    assert e.jobs.lateness_s.tolist() == [-10.0, -math.inf]
    assert (e.mean_jct_s, e.mean_jtt_s, e.mean_wait_s) == (30.0, 52.5, 22.5)
    assert (e.makespan_s, e.node_s) == (90.0, 60.0)
    assert e.mean_active_nodes == pytest.approx(60 / 90)
    assert e.percentiles("jtt_s", (0.0, 50.0, 100.0)) == {0.0: 20.0, 50.0: 52.5, 100.0: 85.0}


def test_empty_instance_costs_nothing() -> None:
    """Without jobs the objective is 0 and every mean is 0."""
    inst = build(())
    for what in (plan(inst), Schedule(segments=())):
        e = evaluate(inst, what)
        assert e.feasible
        assert (e.objective, e.energy_j, e.avg_tpe_s, e.makespan_s, e.mean_active_nodes) == (0,) * 5
        assert (e.load_active_gpus, e.load_all_gpus, e.modelled_energy_share) == (0, 0, 0)
        assert e.percentiles("end_s") == {50.0: 0.0, 90.0: 0.0, 99.0: 0.0}


# --- Power ------------------------------------------------------------------------------------------------


def test_server_follows_its_curve_and_cpu_is_capped_at_one() -> None:
    """100 + 100 * (2c - c**1.4) W, c by the share of the node's GPUs held; two jobs of 0.7 use 1.0."""
    curved = powered(node_type(), server=ServerPower(idle_w=100.0, busy_w=200.0))
    busy = profile("busy", util=0.3, memory_gib=1.0, cpu_share=0.7)
    solo = build((job("x", "busy", 1, 1),), (curved, 1), profiles=(busy,))
    e = evaluate(solo, plan(solo, x=(0.0, G00)))
    c = 0.35  # one of two GPUs
    assert e.energy.server_j == pytest.approx(10 * (100 + 100 * (2 * c - c**1.4)), rel=1e-14)
    two = build((job("x", "busy", 2, 1), job("y", "busy", 2, 1)), (curved, 1), profiles=(busy,), limits=FREE)
    e = evaluate(two, plan(two, x=(0.0, BOTH), y=(0.0, BOTH)))
    assert e.energy.server_j == pytest.approx(10 * 200.0, rel=1e-14)
    # The reference has them one at a time: c = 0.7.
    alone = 100 + 100 * (1.4 - 0.7**1.4) + 100 + 60
    assert e.reference_energy_j == pytest.approx(2 * 10 * alone, rel=1e-14)


def test_gpu_power_is_concave_and_capped_at_load_one() -> None:
    """50 + 100 * sqrt(min(1, load)) W: 100 W at load 0.25, 150 W at load 1 and above."""
    root = powered(node_type(gpus=1), gpu=GpuPower(standing_w=50.0, dynamic_w=100.0, exponent=0.5))
    quarter = profile("quarter", util=0.25, memory_gib=1.0)
    full = profile("full", util=0.9, memory_gib=1.0)
    for name, count, dynamic_w in (("quarter", 1, 50.0), ("quarter", 4, 100.0), ("full", 3, 100.0)):
        inst = build(
            tuple(job(f"j{i}", name, 1, 1) for i in range(count)),
            (root, 1),
            profiles=(quarter, full),
            limits=FREE,
        )
        e = evaluate(inst, plan(inst, **{f"j{i}": (0.0, G00) for i in range(count)}))
        assert e.energy.gpu_dynamic_j == pytest.approx(10 * dynamic_w, rel=1e-14)
        assert e.jobs.energy_j.tolist() == pytest.approx([10 * (150 + dynamic_w) / count] * count, rel=1e-14)


MEASURED = (MeasuredPower(kinds=("a",), power_w=250.0), MeasuredPower(kinds=("a", "b"), power_w=300.0))


@pytest.mark.parametrize("lookup", [True, False])
def test_measured_power_is_looked_up_where_the_set_fills_the_node(lookup: bool) -> None:
    """The difference to the model goes with the server; without look-up the model stands."""
    # As the pair above, but both on both GPUs. The model: 100 + 100 + 2 * 80 = 360 W for 60 s, of which the
    # measured 300 W leave 300 - 100 - 160 = 40 W for the server; then y alone, not measured, 300 W for 12 s.
    measured = powered(node_type(), measured=MEASURED, lookup=lookup)
    inst = build((job("x", "a", 2, 4), job("y", "b", 2, 3)), (measured, 1))
    e = evaluate(inst, plan(inst, x=(0.0, BOTH), y=(0.0, BOTH)))
    together, server = (300.0, 40.0) if lookup else (360.0, 100.0)
    total = 60 * together + 12 * 300.0
    assert e.energy_j == pytest.approx(total, rel=1e-14)
    assert e.energy.server_j == pytest.approx(60 * server + 12 * 100.0, rel=1e-14)
    # x: half of the server (with residual) and of 100 W standing, 2 * 30 W dynamic.
    assert e.jobs.energy_j[0] == pytest.approx(60 * (server / 2 + 50 + 60), rel=1e-14)
    assert shares(e) == pytest.approx(e.energy_j, rel=1e-14)
    # y alone is not in the table of measured sets, whether or not it is used; its power was modelled, and
    # without look-up all power was.
    assert e.modelled_energy_share == pytest.approx(3600 / total, rel=1e-14)
    assert e.modelled_power_share == pytest.approx(3600 / total if lookup else 1.0, rel=1e-14)
    # The reference looks up too: x alone on both GPUs 40 s at 250 W (modelled 260 W), y 60 s at 300 W.
    assert e.reference_energy_j == pytest.approx(40 * (250 if lookup else 260) + 60 * 300.0, rel=1e-14)


def test_look_up_asks_for_equal_sets_whichever_jobs_they_are() -> None:
    """Two jobs of one kind, each on a GPU of its own, fill the node like one job on both."""
    measured = powered(node_type(), measured=MEASURED)
    inst = build((job("x", "a", 1, 1), job("y", "a", 1, 2)), (measured, 1))
    e = evaluate(inst, plan(inst, x=(0.0, ((0, 0),)), y=(0.0, ((0, 1),))))
    # 10 s at 250 W; then one GPU is empty: 100 + 100 + 30 W for 10 s. Both are sets that were measured.
    assert e.energy_j == pytest.approx(2500.0 + 2300.0, rel=1e-14)
    assert e.modelled_energy_share == 0.0
    assert e.modelled_power_share == pytest.approx(2300 / 4800, rel=1e-14)
    # Different measured sets on the two GPUs are no whole-node measurement: 100 + 100 + 80 + 30 = 310 W.
    inst = build((job("x", "a", 2, 3), job("y", "b", 1, 1)), (measured, 1))
    e = evaluate(inst, plan(inst, x=(0.0, BOTH), y=(0.0, ((0, 1),))))
    # y runs 25 s beside x; x has 25/15 epochs by then and needs 40/3 s more, at the measured 250 W.
    assert e.energy_j == pytest.approx(25 * 310.0 + 40 / 3 * 250.0, rel=1e-14)
    # Measured for another type of node, it does not count.
    other = node_type("v2b")
    inst = build((job("x", "a", 2, 1),), (measured, 1), (other, 1))
    assert evaluate(inst, plan(inst, x=(0.0, ((1, 0), (1, 1))))).energy_j == pytest.approx(2600.0, rel=1e-14)


def test_shares_with_all_utilisations_zero() -> None:
    """Dynamic power is split evenly where no resident uses the GPU by itself."""
    # Measured together they load the GPU by 0.5: 50 W, 25 W each, although alone both have 0.
    lazy = tuple(profile(n, util=0.0, memory_gib=1.0) for n in "pq")
    usage = (MeasuredUsage(kinds=("p", "q"), load=0.5, memory_gib=2.0),)
    inst = build((job("x", "p", 1, 1), job("y", "q", 1, 1)), profiles=lazy, usage=usage)
    e = evaluate(inst, plan(inst, x=(0.0, G00), y=(0.0, G00)))
    assert e.energy.gpu_dynamic_j == pytest.approx(500.0)
    assert e.jobs.energy_j.tolist() == pytest.approx([1000.0, 1000.0], rel=1e-15)
    # With a third that uses the GPU, that one pays for all of the dynamic power.
    inst = build((job("x", "p", 1, 1), job("y", "a", 1, 1)), profiles=(*lazy, A), truth=Interference())
    e = evaluate(inst, plan(inst, x=(0.0, G00), y=(0.0, G00)))
    assert e.jobs.energy_j.tolist() == pytest.approx([750.0, 1050.0], rel=1e-15)


# --- Sleep, wake-up, PUE ----------------------------------------------------------------------------------

ASLEEP = node_type(gpus=1, sleep_w=10.0, wake_s=20.0, wake_energy_j=1000.0)


def awake(jobs: tuple[Job, ...], nodes: int = 1, **more: Any) -> Instance:
    return build(jobs, (ASLEEP, nodes), truth=Interference(), limits=FREE, **more)


@pytest.mark.parametrize("pue", [1.0, 1.25])
def test_sleep_wake_up_and_pue(pue: float) -> None:
    """A node wakes with its empty power, at most back to its last busy period; PUE multiplies all."""
    # n0 works 20-50 s and 60-80 s, n1 50-60 s. n0 wakes from 0 to 20 s and, W = 20 s but busy until 50 s,
    # from 50 to 60 s; n1 from 30 to 50 s. 3 * 1000 J + 50 s * 150 W. n1 sleeps 30 s and then 20 s to the end.
    # Work: 60 s at 100 + 50 + 30 W.
    inst = awake((job("x", "a", 1, 3), job("y", "a", 1, 2), job("z", "a", 1, 1, release_s=30.0)), 2, pue=pue)
    e = evaluate(inst, plan(inst, x=(20.0, G00), y=(60.0, G00), z=(50.0, ((1, 0),))))
    assert e.feasible
    assert e.energy.wake_j == pytest.approx(pue * (3000 + 50 * 150.0), rel=1e-14)
    assert e.energy.sleep_j == pytest.approx(pue * 50 * 10.0, rel=1e-14)
    assert e.energy_j == pytest.approx(pue * (10500 + 500 + 60 * 180.0), rel=1e-14)
    assert e.jobs.energy_j.tolist() == pytest.approx([pue * 5400, pue * 3600, pue * 1800], rel=1e-14)
    assert shares(e) == pytest.approx(e.energy_j, rel=1e-14)
    # Waking is no work: node-hours and JCT are the 60 s; one node at a time.
    assert (e.node_s, e.mean_active_nodes, e.peak_active_nodes) == (60.0, 0.75, 1)
    assert e.jobs.running_s.tolist() == [30.0, 20.0, 10.0]
    # The reference knows neither sleep nor wake-ups, but PUE: 60 s at 180 W.
    assert e.reference_energy_j == pytest.approx(pue * 10800, rel=1e-14)


def test_a_node_must_have_had_time_to_wake_up() -> None:
    """Some job that starts with a busy period must have been released W before."""
    inst = awake((job("x", "a", 1, 3, release_s=7.0), job("y", "a", 1, 1)))
    for start, broken in ((27.0, 0), (27.0 - MICRO / 2, 0), (27.0 - MILLI, 1), (7.0, 1)):
        e = evaluate(inst, plan(inst, x=(start, G00), y=(100.0, G00)))
        assert e.physical_violations == broken, start
    assert e.problems == ("1 node(s) start work before they can have woken up",)
    # y ends at 60 s; the node is awake still when x starts: 11 s after its release is late enough.
    inst = awake((job("x", "a", 1, 3, release_s=49.0), job("y", "a", 1, 4)))
    e = evaluate(inst, plan(inst, x=(60.0, G00), y=(20.0, G00)))
    assert e.feasible
    assert e.energy.wake_j == pytest.approx(1000 + 20 * 150.0)


@pytest.mark.parametrize("first", ["known", "late"])
@pytest.mark.parametrize("apart", [0.0, MICRO / 2])
def test_one_of_those_that_start_a_busy_period_is_enough(first: str, apart: float) -> None:
    """Of two jobs that start at the same moment, one was released in time and one was not."""
    order = ("known", "late") if first == "known" else ("late", "known")
    release = {"known": 0.0, "late": 15.0}
    inst = awake(tuple(job(n, "a", 1, 1, release_s=release[n]) for n in order))
    starts = {n: (20.0 + apart * i, G00) for i, n in enumerate(order)}
    assert evaluate(inst, plan(inst, **starts)).feasible
    # A millisecond apart, the first must have been released in time itself.
    starts[order[1]] = (20.0 + MILLI, G00)
    assert evaluate(inst, plan(inst, **starts)).physical_violations == (first == "late")


def test_busy_periods_that_touch_are_one() -> None:
    """A job that starts when the last one ends, or within the tolerance, finds the node awake."""
    inst = awake((job("x", "a", 1, 3), job("y", "a", 1, 1)))
    for gap, wakes in ((0.0, 1), (MICRO / 2, 1), (MILLI, 2)):
        e = evaluate(inst, plan(inst, x=(20.0, G00), y=(50.0 + gap, G00)))
        assert e.energy.wake_j == pytest.approx(wakes * 1000 + 20 * 150.0, abs=1.0), gap
        assert e.node_s == pytest.approx(40.0, abs=1e-5)


def test_first_wake_up_is_counted_from_the_earliest_release() -> None:
    """Before anything was released no energy is counted, though the node cannot have woken up by then."""
    inst = awake((job("x", "a", 1, 1, release_s=100.0),))
    e = evaluate(inst, plan(inst, x=(105.0, G00)))
    assert e.energy.wake_j == pytest.approx(1000 + 5 * 150.0)
    assert (e.physical_violations, e.energy.sleep_j) == (1, 0.0)


# --- Feasibility ------------------------------------------------------------------------------------------


def test_deadline_met_exactly() -> None:
    """An end at the deadline is in time, a second later is a miss; a microsecond is within the tolerance."""
    for deadline, missed in (
        (40.0, False),
        (40.0 - MICRO, False),
        (40.0 - 2 * MICRO, True),
        (39.0, True),
        (math.inf, False),
    ):
        inst = build((job("x", "a", 1, 4, deadline),))
        e = evaluate(inst, plan(inst, x=(0.0, G00)))
        assert (e.deadline_misses, e.feasible, e.jobs.missed.tolist()) == (missed, not missed, [missed])
        assert e.jobs.lateness_s.tolist() == [40.0 - deadline]
        assert (e.physical_violations, e.threshold_violations) == (0, 0)


def test_tolerance_of_times_grows_with_time() -> None:
    """After 1e6 s, times agree within 1e-6 + 1e-3 s, wherever the clock begins."""
    for clock in (0.0, 1.5e9):
        for late, missed in ((0.0009, 0), (0.0012, 1)):
            inst = build(
                (job("x", "a", 1, 1, release_s=clock), job("y", "a", 1, 1, clock + 1e6, release_s=clock)),
            )
            e = evaluate(inst, plan(inst, x=(clock, G00), y=(clock + 1e6 - 10 + late, G00)))
            assert e.deadline_misses == missed


def test_release() -> None:
    """A start a microsecond before the release is at the release, a millisecond is before it."""
    inst = build((job("x", "a", 1, 1, release_s=10.0), job("y", "a", 1, 1)))
    for early, broken in ((0.0, 0), (MICRO / 2, 0), (MILLI, 1)):
        e = evaluate(inst, plan(inst, x=(10.0 - early, G00), y=(0.0, G00)))
        assert e.physical_violations == broken
    assert e.problems == ("job 'x' starts before its release",)


def test_starts_before_anything_was_released() -> None:
    """Such a job runs as stated, and only what lies after the earliest release is energy."""
    # x, released at 10 s, runs from 5 to 25 s; the 5 s before 10 s are not counted: 15 s at 180 W.
    inst = build((job("x", "a", 1, 2, release_s=10.0),))
    e = evaluate(inst, plan(inst, x=(5.0, G00)))
    assert (e.jobs.start_s.tolist(), e.jobs.end_s.tolist()) == ([5.0], [25.0])
    assert e.energy_j == pytest.approx(15 * 180.0)
    assert (e.avg_tpe_s, e.makespan_s, e.physical_violations) == (10.0, 15.0, 1)
    # The schedule that the plan leads to has the same fault.
    assert evaluate(inst, plan_schedule(inst, plan(inst, x=(5.0, G00)))).physical_violations == 1


def trio(limits: Limits, **more: Any) -> tuple[Instance, Plan]:
    """Three jobs of 8 GiB and load 0.3 on one GPU of 32 GiB."""
    fields: dict[str, Any] = {"truth": Interference(), "limits": limits, **more}
    inst = build(tuple(job(n, "a", 1, 1) for n in "xyz"), **fields)
    return inst, plan(inst, x=(0.0, G00), y=(0.0, G00), z=(0.0, G00))


def test_limits_hold_within_a_billionth() -> None:
    """Three jobs fill 0.9 of the core and 0.75 of the memory exactly."""
    for u, mem, threshold, physical in (
        (0.9, 0.75, 0, 0),
        (0.9 - 0.9e-9, 0.75 - 0.9e-9, 0, 0),
        (0.9 - 1e-8, 0.75, 1, 0),
        (0.9, 0.75 - 1e-8, 0, 1),
    ):
        e = evaluate(*trio(Limits(u_threshold=u, mem_threshold=mem)))
        assert (e.threshold_violations, e.physical_violations) == (threshold, physical)
        assert e.feasible == (threshold + physical == 0)
        assert e.threshold_excess == pytest.approx(threshold * 1e-8, rel=1e-6)


def test_each_limit_is_named() -> None:
    """The first violations are told with job, place, time and limit."""
    on = "on n0/0 at 0 s: "
    e = evaluate(*trio(Limits(max_share=2, mem_threshold=0.5)))
    assert e.physical_violations == 1
    assert e.problems == (f"job 'z' {on}more jobs than max_share on a GPU; memory above mem_threshold",)
    inst, all_three = trio(FREE)
    jobs = tuple(dataclasses.replace(j, exclusive=j.name == "y") for j in inst.jobs)
    e = evaluate(dataclasses.replace(inst, jobs=jobs), all_three)
    assert e.physical_violations == 2
    assert e.problems == tuple(f"job {n!r} {on}an exclusive job shares a GPU" for n in "yz")
    apart = dataclasses.replace(inst, truth=Interference(cannot_share=(("a", "a"),)))
    e = evaluate(apart, all_three)
    assert e.problems == tuple(f"job {n!r} {on}two jobs that cannot share do" for n in "yz")


def test_exclusive_job_leaves_the_other_gpus_to_others() -> None:
    """An exclusive job shares its node, not its GPUs, and only while it runs."""
    jobs = (job("x", "a", 1, 1, exclusive=True), job("y", "b", 1, 1), job("z", "a", 1, 1))
    inst = build(jobs, (node_type(), 1))
    e = evaluate(inst, plan(inst, x=(0.0, ((0, 0),)), y=(0.0, ((0, 1),)), z=(10.0, ((0, 0),))))
    assert e.feasible
    e = evaluate(inst, plan(inst, x=(0.0, ((0, 0),)), y=(0.0, ((0, 1),)), z=(9.0, ((0, 0),))))
    assert e.physical_violations == 1


def test_memory_of_model_parallel_jobs() -> None:
    """40 GiB are spread over the job's GPUs, where a data-parallel job would need them on each."""
    llm = profile("llm", 20.0, util=0.4, memory_gib=40.0)
    split = job("x", "llm", 2, 1, memory_kind=MemoryKind.MODEL_PARALLEL)
    # On each GPU of 32 GiB 20 GiB of x; with 8 GiB of a 0.875 of it, with 16 GiB of b 1.125.
    for other, broken in (("a", 0), ("b", 1)):
        inst = build(
            (split, job("y", other, 1, 1)), (node_type(), 1), profiles=(A, B, llm), truth=Interference()
        )
        e = evaluate(inst, plan(inst, x=(0.0, BOTH), y=(0.0, ((0, 1),))))
        assert e.physical_violations == broken
    whole = build(
        (dataclasses.replace(split, memory_kind="data-parallel"),), (node_type(), 1), profiles=(llm,)
    )
    assert evaluate(whole, plan(whole, x=(0.0, BOTH))).physical_violations == 1
    # No node type holds 40 GiB on a GPU, so there is no exclusive execution to compare with.
    assert evaluate(whole, plan(whole, x=(0.0, BOTH))).objective == math.inf
    assert check_report(whole, plan_schedule(whole, plan(whole, x=(0.0, BOTH)))).objective is None


def test_gpus_are_handed_over_within_the_tolerance() -> None:
    """A job that starts a moment before the last one ends starts at that end, and shares with nobody."""
    inst = build((job("x", "a", 1, 4), job("y", "a", 1, 1)), limits=Limits(max_share=1))
    e = evaluate(inst, plan(inst, x=(0.0, G00), y=(40.0 - MICRO / 2, G00)))
    assert e.feasible
    assert e.jobs.start_s[1] == 40.0
    e = evaluate(inst, plan(inst, x=(0.0, G00), y=(40.0 - MILLI, G00)))
    assert e.physical_violations == 1


# --- Reference --------------------------------------------------------------------------------------------


def test_reference_over_node_types() -> None:
    """The fastest type that physically holds the job; ties by power; as many nodes as it needs, or none."""
    frugal = powered(node_type("frugal"), server=ServerPower(idle_w=60.0, busy_w=60.0))
    fast = node_type("fast", gpu_type="w", gpu_memory_gib=16.0)
    times = (EpochTime(gpu_type="v", epoch_time_s=10.0), EpochTime(gpu_type="w", epoch_time_s=5.0))
    small = profile("small", util=0.3, memory_gib=16.0, epoch_times=times)
    large = profile("large", util=0.5, memory_gib=20.0, epoch_times=times)
    jobs = (job("s", "small", 1, 2), job("l", "large", 3, 4))
    inst = build(jobs, (node_type(), 3), (frugal, 1), (fast, 1), profiles=(small, large), limits=FREE)
    # s: on w, 16 of 16 GiB, 5 s an epoch, 100 + 100 + 30 = 230 W for 10 s. l: 20 GiB do not fit w; of the v
    # types the second draws less: a whole node 60 + 100 + 100 and one GPU of another 60 + 100 + 50, 470 W
    # for 40 s, though the cluster has only one such node.
    e = evaluate(inst, plan(inst, s=(0.0, ((4, 0),)), l=(0.0, ((0, 0), (0, 1), (1, 0)))))
    assert e.reference_energy_j == pytest.approx(10 * 230.0 + 40 * 470.0, rel=1e-15)
    assert (e.reference_tpe_s, e.reference_jtt_s) == (7.5, 25.0)
    # mem_threshold does not matter, nor does whether the type has nodes.
    tight = dataclasses.replace(inst, limits=Limits(mem_threshold=0.5))
    assert tight.arrays().reference() == inst.arrays().reference()
    nodes = tuple(n for n in inst.cluster.nodes if n.node_type == "v2")
    without = dataclasses.replace(inst, cluster=dataclasses.replace(inst.cluster, nodes=nodes))
    assert without.arrays().reference() == inst.arrays().reference()


def test_exclusive_execution_has_objective_one() -> None:
    """Every job alone on a node of its own, all its GPUs taken, is the reference itself."""
    inst = build((job("x", "a", 2, 4), job("y", "b", 4, 3)), (node_type(), 3))
    e = evaluate(inst, plan(inst, x=(0.0, BOTH), y=(0.0, ((1, 0), (1, 1), (2, 0), (2, 1)))))
    assert e.objective == pytest.approx(1.0, rel=1e-15)


# --- Schedules --------------------------------------------------------------------------------------------


def test_stops_and_moves_of_a_schedule() -> None:
    """Segments keep progress across a pause, and the pause is waiting."""
    # x: two epochs alone on n0, a pause of 10 s, two more on n1 beside y at 15 s. y: 30 s at 25 s an epoch,
    # then 0.8 epochs at 20 s: until 76 s.
    inst = build((job("x", "a", 1, 4), job("y", "b", 1, 2)), (node_type(gpus=1), 2))
    stated = schedule(
        seg("x", 0, 20, (0, 0)),
        seg("x", 30, 60, (1, 0)),
        seg("y", 30, 76, (1, 0)),
        schedule_class=ScheduleClass.EPOCH,
    )
    e = evaluate(inst, stated)
    assert e.feasible
    assert e.jobs.running_s.tolist() == [50.0, 46.0]
    assert e.jobs.wait_s.tolist() == [10.0, 30.0]
    assert e.jobs.tpe_s.tolist() == [12.5, 23.0]
    assert (e.jobs.start_s.tolist(), e.jobs.end_s.tolist()) == ([0.0, 30.0], [60.0, 76.0])
    assert e.energy_j == pytest.approx(20 * 180.0 + 30 * 230.0 + 16 * 200.0, rel=1e-14)


@pytest.mark.parametrize(
    ("end", "broken"),
    [
        (40.0, 0),
        (40.0 - 0.3e-7, 0),
        (40.0 - 0.5e-7, 1),
        (39.0, 1),
        (40.0 + MICRO, 0),
        (40.0 + MILLI, 1),
        (41.0, 1),
    ],
)
def test_stated_ends_on_both_sides_of_completion(end: float, broken: int) -> None:
    """4 epochs of 10 s are reached at 4 * (1 - 1e-9): 4e-8 s early; GPUs may be held 1e-6 s longer."""
    inst = build((job("x", "a", 1, 4),))
    e = evaluate(inst, schedule(seg("x", 0, end, (0, 0))))
    assert e.physical_violations == broken
    texts = {
        39.0: ("job 'x' ends 0.1 epochs short of its 4",),
        41.0: ("job 'x' holds its GPUs 1 s after it has finished",),
    }
    assert end not in texts or e.problems == texts[end]
    assert bool(check_report(inst, schedule(seg("x", 0, end, (0, 0)))).physical_violations) == bool(broken)


def test_gpus_held_after_completion_add_up() -> None:
    """An overrun is what is held after completion, also in later segments and beside neighbours."""
    # x is done at 40 s. It stays for 5 s and comes back for 7 s.
    inst = build((job("x", "a", 1, 4), job("y", "b", 1, 1)), (node_type(gpus=1), 1), limits=FREE)
    stated = schedule(seg("x", 0, 45, (0, 0)), seg("x", 50, 57, (0, 0)), seg("y", 60, 80, (0, 0)))
    e = evaluate(inst, stated)
    assert e.problems == ("job 'x' holds its GPUs 12 s after it has finished",)
    assert e.physical_violations == 1
    # Beside y from 45 s on, x is as done as before: 45 s to 57 s is overrun too, and y is slowed to 25 s.
    stated = schedule(seg("x", 0, 57, (0, 0)), seg("y", 45, 67.4, (0, 0)))
    e = evaluate(inst, stated)
    assert e.problems == ("job 'x' holds its GPUs 17 s after it has finished",)


def test_stated_ends_late_on_the_clock() -> None:
    """At 1.5e9 s floats are 2.4e-7 s apart: what a float cannot state is not held against a job."""
    clock = 1.5e9 + 0.1
    tenth = profile("tenth", 0.1, util=0.3, memory_gib=1.0)
    jobs = (job("x", "tenth", 1, 1, release_s=clock), job("y", "tenth", 1, 7, release_s=clock))
    inst = build(jobs, profiles=(tenth,), truth=Interference(model="additive"))
    both = plan(inst, x=(clock, G00), y=(clock + 0.05, G00))
    stated = plan_schedule(inst, both)
    early = [dataclasses.replace(s, end_s=math.nextafter(s.end_s, 0.0)) for s in stated.segments]
    late = [dataclasses.replace(s, end_s=s.end_s - 1e-5) for s in stated.segments]
    for rows, broken in ((stated.segments, 0), (early, 0), (late, 2)):
        again = dataclasses.replace(stated, segments=tuple(rows))
        assert evaluate(inst, again).physical_violations == broken
        assert check_report(inst, again).physical_violations == broken


def test_equal_starts_go_by_job_and_not_by_name() -> None:
    """A schedule lists equal starts by name; what is counted at them does not depend on it."""
    # x and y fit together (0.6), the third (0.9) does not: one start breaks the limit, in whatever order the
    # names put them. Of y, y and w (0.3, 0.3, 0.6) it is the third by submit index, with 1.2, or the second.
    heavy = profile("heavy", util=0.6, memory_gib=1.0)
    counts = set()
    for names in (("x", "y", "z"), ("z", "x", "y"), ("y", "z", "x")):
        jobs = tuple(
            job(n, p, 1, 1, submit_index=i)
            for i, (n, p) in enumerate(zip(names, ("a", "heavy", "a"), strict=True))
        )
        inst = build(jobs, profiles=(A, heavy), truth=Interference(), limits=Limits(u_threshold=0.8))
        e = evaluate(inst, schedule(*(seg(n, 0, 10, (0, 0)) for n in names)))
        counts.add((e.threshold_violations, e.energy_j, tuple(e.jobs.energy_j)))
    assert len(counts) == 1
    assert counts.pop()[0] == 2


# --- What is refused --------------------------------------------------------------------------------------

TWO_TYPES = (node_type(), 2), (node_type("w2", gpu_type="w"), 1)


def refused(what: Any, *, jobs: tuple[Job, ...] = (), grid_s: Any = None) -> str:
    inst = build(jobs or (job("x", "a", 1, 1), job("y", "a", 3, 1)), *TWO_TYPES)
    with pytest.raises(ScheduleError) as caught:
        evaluate(inst, what(inst) if callable(what) else what, grid_s=grid_s)
    return str(caught.value)


def arrays(starts: list[float], gpus: list[int]) -> Plan:
    return Plan(np.array(starts), np.array(gpus, dtype=np.int64))


GANG = "job 'y': its 3 GPU(s) must lie on one node, or on whole nodes of one type plus a rest on one more"
X, Y = seg("x", 0, 10, (0, 0)), seg("y", 0, 10, (0, 0), (0, 1), (1, 0))


@pytest.mark.parametrize(
    ("what", "text"),
    [
        (
            arrays([0.0], [0]),
            "plan: arrays must have shapes (2,) and (4,) for instance 'case', got (1,) and (1,)",
        ),
        (arrays([0.0, math.nan], [0, 0, 1, 2]), "plan: start of job 'y' is not finite"),
        (arrays([math.inf, 0.0], [0, 0, 1, 2]), "plan: start of job 'x' is not finite"),
        (arrays([0.0, 0.0], [6, 0, 1, 2]), "job 'x': its GPU numbers must lie in 0 to 5"),
        (arrays([0.0, 0.0], [-1, 0, 1, 2]), "job 'x': its GPU numbers must lie in 0 to 5"),
        (
            arrays([0.0, 0.0], [0, 0, 2, 1]),
            "job 'y': its GPUs must be distinct and listed in ascending order",
        ),
        (
            arrays([0.0, 0.0], [0, 0, 1, 1]),
            "job 'y': its GPUs must be distinct and listed in ascending order",
        ),
        # Half a node, half another and half a third; two types; a forbidden type.
        (arrays([0.0, 0.0], [0, 0, 2, 4]), GANG),
        (arrays([0.0, 0.0], [0, 0, 1, 4]), GANG),
        (
            arrays([0.0, 0.0], [4, 0, 1, 2]),
            "job 'x': its profile 'a' has no epoch time for the GPU type it was placed on",
        ),
        (schedule(X), "schedule: job 'y' has no segment; a schedule runs every job"),
        (schedule(), "schedule: job 'x' has no segment; a schedule runs every job"),
        (schedule(X, Y, seg("w", 0, 1, (0, 0))), "schedule: job 'w' is not in instance 'case'"),
        (
            schedule(seg("x", 0, 10, (0, 0), (0, 1)), Y),
            "schedule: job 'x' asks for 1 GPU(s), a segment of it names 2",
        ),
        (
            schedule(seg("x", 0, 10, (3, 0)), Y),
            "schedule: job 'x': node 3 does not exist; the cluster has nodes 0 to 2",
        ),
        (
            schedule(seg("x", 0, 10, (0, 2)), Y),
            "schedule: job 'x': GPU 2 does not exist on node 'n0', which has GPUs 0 to 1",
        ),
        (
            schedule(X, seg("x", 9, 11, (0, 1)), Y),
            "schedule: two segments of job 'x' overlap in time",
        ),
        (
            {"x": Placement(start_s=0.0, gpus=((0, 0),))},
            "evaluate: expected a Plan or a Schedule, got dict; Plan.of(instance, placements) makes a plan "
            "of placements by job name",
        ),
    ],
)
def test_what_is_no_plan_of_the_instance_is_refused(what: Any, text: str) -> None:
    """What cannot be priced is an error that names the job and what was expected."""
    assert refused(what) == text


def test_gangs() -> None:
    """Whole nodes may come in any order, with the rest on any other node of the type."""
    inst = build((job("x", "a", 5, 1),), (node_type(), 3))
    for gpus in ([0, 1, 2, 3, 4], [0, 1, 2, 4, 5], [1, 2, 3, 4, 5]):
        assert evaluate(inst, arrays([0.0], gpus)).feasible
    inst = build((job("x", "a", 4, 1),), (node_type(), 3))
    with pytest.raises(ScheduleError, match="whole nodes"):
        evaluate(inst, arrays([0.0], [0, 1, 2, 4]))
    inst = build((job("x", "a", 2, 1),), (node_type(), 2))
    with pytest.raises(ScheduleError, match="must lie on one node"):
        evaluate(inst, arrays([0.0], [1, 2]))


def test_more_than_eight_jobs_on_a_gpu_are_refused() -> None:
    """Eight share a GPU, nine are an error."""
    for count in (8, 9):
        inst = build(tuple(job(f"j{i}", "a", 1, 1) for i in range(count)), limits=FREE, truth=Interference())
        everyone = arrays([0.0] * count, [0] * count)
        if count == 8:
            assert evaluate(inst, everyone).physical_violations == 4  # 8 GiB each: four fill the GPU
        else:
            with pytest.raises(ScheduleError, match="more than 8 jobs share a GPU, which is not supported"):
                evaluate(inst, everyone)


# --- What a plan leads to ---------------------------------------------------------------------------------


def test_plan_schedule_states_what_evaluate_found() -> None:
    """One segment a job, of class static, with the starts, ends and GPUs of the evaluation."""
    inst, both = pair()
    stated = plan_schedule(inst, both, method="by hand")
    assert (stated.schedule_class, stated.method) == (ScheduleClass.STATIC, "by hand")
    assert [(s.job, s.start_s, s.end_s, s.gpus) for s in stated.segments] == [
        ("x", 0.0, pytest.approx(60.0), G00),
        ("y", 0.0, pytest.approx(72.0), G00),
    ]


def test_evaluation_does_not_depend_on_what_was_evaluated_before() -> None:
    """The table of sets grows with use; values do not change."""
    inst, both = pair()
    fresh = evaluate(inst, both)
    again = evaluate(inst, both)
    alone = plan(inst, x=(0.0, G00), y=(100.0, G00))
    evaluate(inst, alone)
    for e in (again, evaluate(inst, both)):
        assert e.energy_j == fresh.energy_j and e.objective == fresh.objective
        assert e.jobs.energy_j.tolist() == fresh.jobs.energy_j.tolist()


def test_a_third_party_model_that_fails_is_named() -> None:
    """Slowdowns that cannot be worked out are an error that says of which set, not a traceback."""
    truth = Interference(model="crowding", params=(("slope", 1.0), ("exponent", 1e308)))
    heavy = tuple(profile(n, util=0.9, memory_gib=1.0) for n in "pq")
    inst = build((job("x", "p", 1, 1), job("y", "q", 1, 1)), profiles=heavy, truth=truth)
    with pytest.raises(ValueError, match=r"slowdown model 'crowding': factors of p\+q cannot be worked out"):
        evaluate(inst, plan(inst, x=(0.0, G00), y=(0.0, G00)))


def test_profiles_of_one_kind_share_their_tables() -> None:
    """A kind names measured sets; profiles of it differ in epoch times only."""
    twin = dataclasses.replace(
        A, name="a/slow", kind="a", epoch_times=(EpochTime(gpu_type="v", epoch_time_s=40.0),)
    )
    inst = build((job("x", "a/slow", 1, 1), job("y", "b", 1, 2)), profiles=(A, B, twin))
    e = evaluate(inst, plan(inst, x=(0.0, G00), y=(0.0, G00)))
    # x: 60 s; y: 50 s beside it.
    assert e.jobs.end_s[1] == pytest.approx(50.0)
    # x has 50/60 epochs by then and needs 40/6 s more.
    assert e.jobs.end_s[0] == pytest.approx(50 + 40 / 6)


def test_runs_that_touch_before_the_first_release_are_one_busy_period() -> None:
    """Times before the first release agree within a tolerance, too: the node wakes up once, not twice."""
    # n0 wakes at -1,125 s for x, which hands over to itself at -1,000 s; y is what begins the clock at 0.
    inst = build((job("x", "a", 1, 2), job("y", "b", 1, 1)), (node_type(gpus=1, wake_energy_j=500.0), 2))
    stated = schedule(seg("x", -1125, -1000, (0, 0)), seg("x", -1000, 125, (0, 0)), seg("y", 0, 20, (1, 0)))
    e = evaluate(inst, stated)
    assert e.energy.wake_j == 1000.0  # one wake-up of each node
    assert check_report(inst, stated).energy.wake_j == 1000.0
