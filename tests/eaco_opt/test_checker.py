"""The checker's costs, rules on sets and tolerances, against numbers worked out by hand."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eaco_opt import checker
from eaco_opt.checker import CheckReport, check, check_report
from eaco_opt.errors import DomainError, ScheduleError
from eaco_opt.instance import Instance, MeasuredUsage
from eaco_opt.interference import Interference, MeasuredSlowdown
from eaco_opt.job import MemoryKind
from eaco_opt.limits import AdmissionRule, Limits, Objective, ObjectiveForm
from eaco_opt.power import GpuPower, MeasuredPower, PowerModel, ServerPower
from eaco_opt.profile import EpochTime
from eaco_opt.schedule import Schedule, ScheduleClass
from tests.eaco_opt.checker_cases import (
    CASES,
    Case,
    instance,
    job,
    node_type,
    profile,
    schedule,
    seg,
)
from tests.strategies import small_instances_with_schedules

ALONE = Interference()


@pytest.fixture(params=["exact", "float"])
def report(request: pytest.FixtureRequest) -> Callable[[Case], CheckReport]:
    """Check a case in both modes."""

    def run(case: Case) -> CheckReport:
        return check_report(case.instance, case.schedule, grid_s=case.grid_s, _mode=request.param)

    return run


def _power(
    idle_w: float, busy_w: float, exponent: float, standing_w: float, dynamic_w: float, gpu_exponent: float
) -> PowerModel:
    return PowerModel(
        server=ServerPower(idle_w=idle_w, busy_w=busy_w, exponent=exponent),
        gpu=GpuPower(standing_w=standing_w, dynamic_w=dynamic_w, exponent=gpu_exponent),
    )


def _kinds(found: CheckReport) -> list[str]:
    return [v.kind for v in found.violations]


# --- Costs ------------------------------------------------------------------------------------------------


def test_two_hosts_at_203_w_for_3_s(report: Callable[[Case], CheckReport]) -> None:
    """Two hosts that draw 203 W for 3 s each use 2 * 203 * 3 = 1218 J."""
    host = node_type(gpus=1, power=_power(103.0, 103.0, 1.4, 100.0, 0.0, 1.0))
    second = profile("second", 1.0, util=0.5, memory_gib=1.0)
    case = Case(
        instance((job("a", "second", 1, 3), job("b", "second", 1, 3)), (host, 2), profiles=(second,)),
        schedule(seg("a", 0, 3, (0, 0)), seg("b", 0, 3, (1, 0))),
    )
    found = report(case)
    assert found.feasible
    assert found.energy_j == 1218.0
    assert (found.energy.server_j, found.energy.gpu_standing_j) == (618.0, 600.0)
    assert found.avg_tpe_s == 1.0


def test_power_curves(report: Callable[[Case], CheckReport]) -> None:
    """Server 100 + 200 * (2u - u**2) at u = 0.5 * 1/2; GPUs 50 each, 100 * sqrt(0.25) for the busy one."""
    # u = 0.25: 0.5 - 0.0625 = 0.4375, so 187.5 W; 2 * 50 = 100 W; 50 W: for 10 s.
    curved = node_type(power=_power(100.0, 300.0, 2.0, 50.0, 100.0, 0.5))
    quarter = profile("quarter", util=0.25, memory_gib=1.0, cpu_share=0.5)
    case = Case(
        instance((job("a", "quarter", 1, 1),), (curved, 1), profiles=(quarter,)),
        schedule(seg("a", 0, 10, (0, 1))),
    )
    energy = report(case).energy
    assert energy.server_j == pytest.approx(1875.0, rel=1e-15)
    assert energy.gpu_standing_j == 1000.0
    assert energy.gpu_dynamic_j == pytest.approx(500.0, rel=1e-15)


def test_cpu_and_gpu_load_are_capped_at_one(report: Callable[[Case], CheckReport]) -> None:
    """Two jobs that each want 0.8 of the CPU and of a GPU use 1.0 of both, not 1.6."""
    curved = node_type(gpus=1, power=_power(0.0, 100.0, 1.5, 0.0, 70.0, 0.3))
    eager = profile("eager", util=0.8, memory_gib=1.0, cpu_share=0.8)
    case = Case(
        instance(
            (job("a", "eager", 1, 1), job("b", "eager", 1, 1)),
            (curved, 1),
            profiles=(eager,),
            truth=ALONE,
            limits=Limits(u_threshold=2.0),
        ),
        schedule(seg("a", 0, 10, (0, 0)), seg("b", 0, 10, (0, 0))),
    )
    assert report(case).energy_j == pytest.approx((100.0 + 70.0) * 10.0, rel=1e-15)


def test_shared_gpu_speeds_and_objective(report: Callable[[Case], CheckReport]) -> None:
    """Progress, energy and both forms of the objective of two jobs that share for a while."""
    # One GPU; a: load 0.3, 10 epochs; b: load 0.4, 4 epochs, from 50 s; both 10 s alone and 12.5 s together.
    # a: 5 epochs by 50 s; b runs 4 * 12.5 = 50 s, until 100 s; a has 9 by then and ends at 110 s.
    # Power 150 + 100 * load: 180, 220, 180 W: 50 * 180 + 50 * 220 + 10 * 180 = 21,800 J.
    profiles = (profile("a", util=0.3, memory_gib=4.0), profile("b", util=0.4, memory_gib=4.0))
    truth = Interference(measured=(MeasuredSlowdown(kinds=("a", "b"), factors=(1.25, 1.25)),))
    jobs = (job("x", "a", 1, 10, 110.0), job("y", "b", 1, 4, 100.0, release_s=50.0))
    built = instance(
        jobs,
        (node_type(gpus=1), 1),
        profiles=profiles,
        truth=truth,
        objective=Objective(alpha=0.5, jtt_weight=2.0),
    )
    case = Case(built, schedule(seg("x", 0, 110, (0, 0)), seg("y", 50, 100, (0, 0))))
    found = report(case)
    assert found.feasible
    assert found.energy_j == pytest.approx(21800.0, rel=1e-14)
    assert found.avg_tpe_s == pytest.approx((11.0 + 12.5) / 2, rel=1e-15)
    assert found.mean_jtt_s == (110.0 + 50.0) / 2
    assert found.makespan_s == 110.0
    # Alone: 100 s at 180 W and 40 s at 190 W; epoch 10 s; (100 + 40) / 2 = 70 s.
    assert found.reference_energy_j == pytest.approx(18000.0 + 7600.0, rel=1e-15)
    assert (found.reference_tpe_s, found.reference_jtt_s) == (10.0, 70.0)
    assert found.objective == pytest.approx(0.5 * 21800 / 25600 + 0.5 * 1.175 + 2 * 80 / 70, rel=1e-14)
    raw = case.with_instance(objective=Objective(alpha=0.25, form=ObjectiveForm.RAW, jtt_weight=2.0))
    expected = 0.25 * 21800 / 3.6e6 + 0.75 * 11.75 / 3600 + 2 * 80 / 3600
    assert report(raw).objective == pytest.approx(expected, rel=1e-14)


def test_look_up_of_whole_nodes(report: Callable[[Case], CheckReport]) -> None:
    """A measured node power counts when all GPUs host that multiset of kinds, whichever jobs they are."""
    base = node_type()
    power = dataclasses.replace(
        base.power,
        measured=(
            MeasuredPower(kinds=("small",), power_w=500.0),
            MeasuredPower(kinds=("lone", "small"), power_w=205.0),
        ),
    )
    measured = dataclasses.replace(base, power=power)
    jobs = (
        job("a", "small", 1, 4),
        job("b", "small", 1, 2),
        job("c", "lone", 1, 1, release_s=10.0),
        job("d", "lone", 1, 1, release_s=10.0),
    )
    # 0-10 s: small | small, measured 500 W. 10-20 s: both with lone, measured 205 W (the model says 300 W).
    # 20-40 s: small | empty, modelled 100 + 2 * 50 + 100 * 0.3 = 230 W.
    case = Case(
        instance(jobs, (measured, 1), truth=ALONE),
        schedule(
            seg("a", 0, 40, (0, 0)),
            seg("b", 0, 20, (0, 1)),
            seg("c", 10, 20, (0, 0)),
            seg("d", 10, 20, (0, 1)),
        ),
    )
    found = report(case)
    assert found.feasible
    assert found.energy_j == pytest.approx(5000.0 + 2050.0 + 4600.0, rel=1e-15)
    # The residual goes with the server: 500 - 100 - 60, then 205 - 100 - 100, then the model's 100 W.
    assert found.energy.server_j == pytest.approx(3400.0 + 50.0 + 2000.0, rel=1e-14)
    off = dataclasses.replace(measured, power=dataclasses.replace(power, lookup=False))
    modelled = Case(instance(jobs, (off, 1), truth=ALONE), case.schedule)
    assert report(modelled).energy_j == pytest.approx(2600.0 + 3000.0 + 4600.0, rel=1e-15)


def test_sleep_and_wake_up(report: Callable[[Case], CheckReport]) -> None:
    """Waking draws the empty active power, at most back to the last busy period; PUE multiplies all."""
    # n0 is busy 20-50 s and 60-80 s: it wakes for 20 s and for 10 s. n1 is busy 50-60 s: it sleeps 30 s,
    # wakes for 20 s and sleeps for the last 20 s. Three wake-ups: 3000 J and 50 s of 100 + 50 W = 7500 J;
    # 50 s of sleep at 10 W = 500 J; 60 s of work at 150 + 30 W = 10,800 J; all times 1.2.
    found = report(CASES["sleeping"]())
    assert found.energy.wake_j == pytest.approx(1.2 * 10500.0, rel=1e-15)
    assert found.energy.sleep_j == pytest.approx(1.2 * 500.0, rel=1e-15)
    assert found.energy_j == pytest.approx(1.2 * 21800.0, rel=1e-15)
    assert found.energy.total_j == pytest.approx(found.energy_j, rel=1e-15)


def test_grid_counts_whole_slots(report: Callable[[Case], CheckReport]) -> None:
    """On a grid, jobs draw power and count time to the end of their last slot."""
    # A: 45 s for 4 epochs; B: 30 s for 2. Power 200 + 30 W, from 15 s on 200 + 60 W.
    found = report(CASES["grid"]())
    assert found.avg_tpe_s == pytest.approx((45 / 4 + 30 / 2) / 2, rel=1e-15)
    assert found.energy_j == pytest.approx(15 * 230.0 + 30 * 260.0, rel=1e-15)
    assert dict(found.progress) == {"A": 4.0, "B": 2.0}
    # In continuous time the same schedule holds GPUs too long: A for 5 s, B for 10 s.
    continuous = report(dataclasses.replace(CASES["grid"](), grid_s=None))
    assert [(v.kind, v.job, v.amount) for v in continuous.violations] == [
        ("overrun", "B", 10.0),
        ("overrun", "A", 5.0),
    ]


def test_slowest_gpu_sets_the_pace(report: Callable[[Case], CheckReport]) -> None:
    """A job on three GPUs goes at the pace of the one that it shares."""
    # Y (big) beside X (small) on n1/0: X 15 s, Y 25 s an epoch. Y: 2 epochs, 50 s. X: 50/15 = 10/3 epochs by
    # then and 10 s for each after: 5 epochs at 50 + 50/3 s.
    jobs = (job("X", "small", 3, 5), job("Y", "big", 1, 2))
    end = 50 + 50 / 3
    case = Case(
        instance(jobs, (node_type(), 2)),
        schedule(seg("X", 0, end, (0, 0), (0, 1), (1, 0)), seg("Y", 0, 50, (1, 0))),
    )
    assert report(case).feasible
    assert _kinds(report(case.changed("X", end_s=end - 0.01))) == ["incomplete"]


def test_slowdown_clamp(report: Callable[[Case], CheckReport]) -> None:
    """A modelled slowdown stays between those of measured subsets and supersets, unless told otherwise."""
    # Crowding gives two jobs 1 + base = 1.1 and three 1 + 2 * base = 1.2.
    names = ("a", "b", "c", "d")
    profiles = tuple(profile(n, util=0.1, memory_gib=1.0) for n in names)
    rows = (
        MeasuredSlowdown(kinds=("a", "b"), factors=(1.5, 1.4)),
        MeasuredSlowdown(kinds=("a", "b", "c", "d"), factors=(1.45, 1.6, 1.15, 1.6)),
    )

    def ends(clamp: bool, *together: str) -> dict[str, float]:
        truth = Interference(measured=rows, model="crowding", params=(("base", 0.1),), clamp=clamp)
        jobs = tuple(job(n, n, 1, 1000) for n in together)
        case = Case(
            instance(jobs, (node_type(gpus=1), 1), profiles=profiles, truth=truth),
            schedule(*(seg(n, 0, 1000, (0, 0)) for n in together)),
        )
        return {name: 100 / epochs for name, epochs in report(case).progress}

    assert ends(True, "a", "b") == pytest.approx({"a": 1.5, "b": 1.4})  # looked up
    # a+b+c: a is at least 1.5 (a+b) but at most 1.45 (all four): the larger set has the last word; b at least
    # 1.4; c at most 1.15.
    assert ends(True, "a", "b", "c") == pytest.approx({"a": 1.45, "b": 1.4, "c": 1.15})
    assert ends(False, "a", "b", "c") == pytest.approx({"a": 1.2, "b": 1.2, "c": 1.2})
    assert ends(True, "a", "c") == pytest.approx({"a": 1.1, "c": 1.1})


def test_reference_takes_the_fastest_type_that_holds_the_job(report: Callable[[Case], CheckReport]) -> None:
    """Smallest epoch time among types with the memory, ties to the least power, whole nodes plus a rest."""
    # w is faster (5 s) but too small for 20 GiB; of the two v types, the second draws less.
    heavy = profile(
        "heavy",
        util=0.5,
        memory_gib=20.0,
        epoch_times=(
            EpochTime(gpu_type="v", epoch_time_s=10.0),
            EpochTime(gpu_type="v", gpus=3, epoch_time_s=4.0),
            EpochTime(gpu_type="w", epoch_time_s=2.0),
        ),
    )
    frugal = node_type("frugal", power=_power(60.0, 60.0, 1.4, 50.0, 100.0, 1.0))
    small = node_type("small", gpu_type="w", gpu_memory_gib=16.0)
    jobs = (job("one", "heavy", 1, 2), job("three", "heavy", 3, 5))
    case = Case(
        instance(jobs, (node_type(), 2), (frugal, 1), (small, 1), profiles=(heavy,)),
        schedule(seg("one", 0, 20, (2, 0)), seg("three", 0, 20, (0, 0), (0, 1), (1, 0))),
    )
    found = report(case)
    # one: 20 s at 60 + 100 + 50 = 210 W; three: 20 s at (60 + 100 + 100) + (60 + 100 + 50) = 470 W.
    assert found.reference_energy_j == pytest.approx(4200.0 + 9400.0, rel=1e-15)
    assert (found.reference_tpe_s, found.reference_jtt_s) == (7.0, 20.0)
    # A job whose memory no type holds leaves the normalised objective undefined, and the raw one untouched.
    huge = case.with_instance(profiles=(dataclasses.replace(heavy, gpu_memory_peak_gib=33.0),))
    assert report(huge).objective is None and report(huge).reference_energy_j is None
    raw = huge.with_instance(objective=Objective(form=ObjectiveForm.RAW))
    assert report(raw).objective == pytest.approx(report(raw).energy_j / 7.2e6 + 7.0 / 7200.0)


def test_empty_instance(report: Callable[[Case], CheckReport]) -> None:
    """Nothing to do costs nothing and breaks nothing."""
    found = report(Case(instance(()), schedule()))
    assert found.feasible and found.objective == 0.0 and found.energy_j == 0.0


def test_exact_mode_is_exact() -> None:
    """Numbers are the decimals as written: 0.1 s epochs add up without any rounding."""
    tenth = profile("tenth", 0.1, util=0.3, memory_gib=1.0)
    case = Case(instance((job("a", "tenth", 1, 3),), profiles=(tenth,)), schedule(seg("a", 0, 0.3, (0, 0))))
    found = check_report(case.instance, case.schedule)
    assert found.progress == (("a", 3.0),)
    # 0.3 s at 100 + 100 + 30 W; as decimals 69 J, where floats give 0.1 + 0.1 + 0.1 != 0.3.
    assert Decimal(repr(found.energy_j)) == 69


# --- Rules on sets ----------------------------------------------------------------------------------------


def _together(limits: Limits, usage: tuple[MeasuredUsage, ...] = (), **utils: float) -> Case:
    """Jobs with the given utilisations and 8 GiB each, together on a GPU of 32 GiB for 10 s."""
    profiles = tuple(profile(n, util=u, memory_gib=8.0) for n, u in utils.items())
    jobs = tuple(job(n, n, 1, 1) for n in utils)
    built = instance(jobs, (node_type(gpus=1), 1), profiles=profiles, usage=usage, truth=ALONE, limits=limits)
    return Case(built, schedule(*(seg(n, 0, 10, (0, 0)) for n in utils)))


def _amount(found: CheckReport, kind: str) -> float:
    """Return the amount of the only violation, which must be of that kind; 0 for none."""
    assert set(_kinds(found)) <= {kind} and len(found.violations) <= 1
    return found.violations[0].amount if found.violations else 0.0


def _used(load: float, memory_gib: float, *kinds: str) -> MeasuredUsage:
    return MeasuredUsage(kinds=kinds, load=load, memory_gib=memory_gib)


def test_load_of_measured_and_unmeasured_sets(report: Callable[[Case], CheckReport]) -> None:
    """A measured load wins over the sum, and caps the loads of all subsets."""
    limits = Limits(u_threshold=0.6, mem_threshold=1.0)
    utils = {"a": 0.3, "b": 0.4}
    assert _amount(report(_together(limits, **utils)), "utilisation") == pytest.approx(0.1)
    assert _amount(report(_together(limits, (_used(0.75, 9, "a", "b"),), **utils)), "utilisation") == (
        pytest.approx(0.15)
    )
    assert report(_together(limits, (_used(0.5, 9, "a", "b"),), **utils)).feasible
    # Measured with a third kind: a + b is not above that either, whether measured (0.65) or not.
    three = profile("c", util=0.2, memory_gib=8.0)
    for usage in ((), (_used(0.65, 9, "a", "b"),)):
        case = _together(limits, (*usage, _used(0.55, 9, "a", "b", "c")), **utils)
        case = case.with_instance(profiles=(*case.instance.profiles, three))
        assert report(case).feasible


def test_every_subset_counts(report: Callable[[Case], CheckReport]) -> None:
    """A set is out when a subset was measured above the limit, though the set itself would pass."""
    limits = Limits(u_threshold=0.9, mem_threshold=0.9)
    case = _together(limits, (_used(0.95, 30.0, "a", "b"),), a=0.2, b=0.2, c=0.2)
    found = report(case)
    # 0.6 and 24 GiB together; but a + b: 0.95 - 0.9 and 30/32 - 0.9.
    assert {v.kind: v.amount for v in found.violations} == pytest.approx(
        {"utilisation": 0.05, "memory": 0.0375}
    )
    assert all(v.job == "a+b+c" for v in found.violations)
    assert "a+b" in found.violations[0].text


def test_existing_rule(report: Callable[[Case], CheckReport]) -> None:
    """Under `existing`, some member of every subset may have come last."""
    limits = Limits(u_threshold=0.5, mem_threshold=1.0, rule=AdmissionRule.EXISTING)
    # a alone is above 0.5 but came first; b joined a... or rather a joined b, at 0.3.
    assert report(_together(limits, a=0.7, b=0.3)).feasible
    assert report(_together(limits, a=0.3, b=0.7)).feasible
    # The least load before the last one joins: without a, 0.3 + 0.4 = 0.7.
    found = report(_together(limits, a=0.7, b=0.3, c=0.4))
    assert _amount(found, "utilisation") == pytest.approx(0.2)
    # A subset may need more than the set: a and b were measured at 0.6 alone, so that a + b needs 0.6; the
    # sum of two means, which is the load of an unmeasured pair, is only 0.2.
    usage = (_used(0.6, 9, "a"), _used(0.6, 9, "b"))
    found = report(_together(limits, usage, a=0.1, b=0.1, c=0.1))
    assert _amount(found, "utilisation") == pytest.approx(0.1)


def test_memory_kinds(report: Callable[[Case], CheckReport]) -> None:
    """Model-parallel memory is split over the job's GPUs and added to what was measured for the others."""
    limits = Limits(u_threshold=2.0, mem_threshold=0.9)
    profiles = (
        profile("split", util=0.1, memory_gib=44.0),
        profile("a", util=0.1, memory_gib=8.0),
        profile("b", util=0.1, memory_gib=8.0),
    )
    jobs = (
        job("s", "split", 4, 1, memory_kind=MemoryKind.MODEL_PARALLEL),
        job("x", "a", 1, 1),
        job("y", "b", 1, 1),
    )

    def memory(usage: tuple[MeasuredUsage, ...]) -> float:
        built = instance(
            jobs, (node_type(gpus=4), 1), profiles=profiles, usage=usage, truth=ALONE, limits=limits
        )
        everywhere = seg("s", 0, 10, (0, 0), (0, 1), (0, 2), (0, 3))
        plan = schedule(everywhere, seg("x", 0, 10, (0, 0)), seg("y", 0, 10, (0, 0)))
        return _amount(report(Case(built, plan)), "memory")

    assert memory(()) == 0.0  # 11 + 8 + 8 = 27 of 28.8 GiB
    usage = (_used(0.1, 20.0, "a", "b"),)  # 11 + 20 = 31
    assert memory(usage) == pytest.approx(31 / 32 - 0.9)
    # A superset that was measured caps the data-parallel part: 11 + 17.9 = 28.9.
    assert memory((*usage, _used(0.1, 17.9, "a", "b", "split"))) == pytest.approx(28.9 / 32 - 0.9)


def test_physical_limits_of_a_single_job(report: Callable[[Case], CheckReport]) -> None:
    """A job may be too much for a GPU all by itself."""
    found = report(_together(Limits(u_threshold=0.2, mem_threshold=0.2), a=0.5))
    assert {v.kind: v.amount for v in found.violations} == pytest.approx({"utilisation": 0.3, "memory": 0.05})


def test_violations_on_several_gpus_are_one(report: Callable[[Case], CheckReport]) -> None:
    """The same residents on all GPUs of a node for a time give one violation, another set another one."""
    limits = Limits(u_threshold=0.5, mem_threshold=1.0)
    jobs = (job("a", "small", 2, 3), job("b", "lone", 2, 1), job("c", "lone", 1, 1))
    built = instance(jobs, limits=limits, truth=ALONE)
    both = ((0, 0), (0, 1))
    case = Case(built, schedule(seg("a", 0, 30, *both), seg("b", 5, 15, *both), seg("c", 10, 20, (0, 1))))
    found = report(case.with_instance(limits=dataclasses.replace(limits, u_threshold=0.4)))
    # a + b (0.5) on both GPUs from 5 s, on the first to 15 s; a + b + c (0.7) on the second from 10 s;
    # a + c (0.5) there from 15 s.
    assert [(v.kind, v.job, v.place, v.time_s) for v in found.violations] == [
        ("utilisation", "a+b", "n0", 5.0),
        ("utilisation", "a+b+c", "n0/1", 10.0),
        ("utilisation", "a+c", "n0/1", 15.0),
    ]
    assert [v.amount for v in found.violations] == pytest.approx([0.1, 0.3, 0.1])


def test_crowds_larger_than_the_subsets_looked_at(report: Callable[[Case], CheckReport]) -> None:
    """Far too many jobs on a GPU are reported, not enumerated."""
    count = 40
    jobs = tuple(job(f"j{i}", "small", 1, 1) for i in range(count))
    case = Case(instance(jobs, truth=ALONE), schedule(*(seg(j.name, 0, 10, (0, 0)) for j in jobs)))
    found = report(case)
    assert {v.kind: v.amount for v in found.violations} == pytest.approx(
        {"max-share": 36.0, "memory": 40 * 8 / 32 - 0.9, "utilisation": 40 * 0.3 - 0.9}
    )


# --- Tolerances -------------------------------------------------------------------------------------------

MICRO, MILLI = 1e-6, 1e-3


def _deadline(late_s: float) -> Case:
    return CASES["mixed"]().with_job("B", deadline_s=40.0 - late_s)


def _release(early_s: float) -> Case:
    return CASES["mixed"]().with_job("D", release_s=10.0 + early_s)


def _sharing(kind: str) -> Callable[[float], Case]:
    def build(overlap_s: float) -> Case:
        """Two jobs of 20 GiB on one GPU, half as fast together; y begins `overlap_s` before x ends."""
        profiles = (profile("a", util=0.6, memory_gib=20.0), profile("b", util=0.6, memory_gib=20.0))
        truth = Interference(measured=(MeasuredSlowdown(kinds=("a", "b"), factors=(2.0, 2.0)),))
        limits = {
            "memory": Limits(u_threshold=2.0),
            "utilisation": Limits(mem_threshold=1.0),
            "max-share": Limits(u_threshold=2.0, mem_threshold=1.0, max_share=1),
            "exclusive": Limits(u_threshold=2.0, mem_threshold=1.0),
            "cannot-share": Limits(u_threshold=2.0, mem_threshold=1.0),
        }[kind]
        if kind != "memory":
            profiles = tuple(
                dataclasses.replace(p, gpu_memory_mean_gib=1.0, gpu_memory_peak_gib=1.0) for p in profiles
            )
        if kind == "cannot-share":
            truth = Interference(cannot_share=(("a", "b"),))
        jobs = (job("x", "a", 1, 10, exclusive=kind == "exclusive"), job("y", "b", 1, 10))
        built = instance(jobs, profiles=profiles, truth=truth, limits=limits)
        return Case(
            built,
            schedule(seg("x", 0, 100, (0, 0)), seg("y", 100 - overlap_s, 200 - overlap_s, (0, 0))),
        )

    return build


def _self_overlap(overlap_s: float) -> Case:
    return CASES["flowing"]().changed("A", 1, start_s=15 - overlap_s)


def _slot_start(off_s: float) -> Case:
    return CASES["grid"]().changed("B", start_s=20.0 + off_s)


def _slot_end(off_s: float) -> Case:
    return CASES["grid"]().changed("B", end_s=50.0 - off_s)


def _wake_up(early_s: float) -> Case:
    return CASES["sleeping"]().changed("A", start_s=20 - early_s, end_s=50 - early_s)


def _overrun(late_s: float) -> Case:
    return CASES["mixed"]().changed("C", end_s=70 + late_s)


def _stop(off_s: float) -> Case:
    return CASES["moving"]().changed("A", 0, end_s=20 - off_s).changed("A", 1, end_s=54 + off_s)


def _pause(gap_s: float) -> Case:
    return CASES["mixed"]().with_segments("D", seg("D", 10, 20, (0, 3)), seg("D", 20 + gap_s, 30, (0, 3)))


@pytest.mark.parametrize(
    ("kind", "build"),
    [
        ("deadline", _deadline),
        ("release", _release),
        *(
            (kind, _sharing(kind))
            for kind in ("memory", "utilisation", "max-share", "exclusive", "cannot-share")
        ),
        ("overlap", _self_overlap),
        ("slot", _slot_start),
        ("slot", _slot_end),
        ("wake-up", _wake_up),
        ("overrun", _overrun),
        ("class", _stop),
        ("class", _pause),
    ],
)
def test_tolerance_of_times(
    kind: str, build: Callable[[float], Case], report: Callable[[Case], CheckReport]
) -> None:
    """A rule about time holds at the instant itself and a microsecond beyond it, not a millisecond."""
    assert report(build(0.0)).violations == ()
    assert report(build(MICRO)).violations == ()
    assert kind in _kinds(report(build(MILLI)))


def test_tolerance_grows_with_time(report: Callable[[Case], CheckReport]) -> None:
    """After 1e6 s from the earliest release times agree within about 1.001 ms, wherever the clock begins."""
    for clock in (0.0, 1.5e9):
        jobs = (
            job("a", "small", 1, 1, release_s=clock),
            job("b", "small", 1, 100_000, clock + 1e6, release_s=clock),
        )
        for late_s, kinds in ((0.0009, []), (0.0012, ["deadline"])):
            b = seg("b", clock + late_s, clock + 1e6 + late_s, (0, 1))
            case = Case(instance(jobs), schedule(seg("a", clock, clock + 10, (0, 0)), b))
            assert _kinds(report(case)) == kinds


def test_tolerance_of_progress(report: Callable[[Case], CheckReport]) -> None:
    """The last epoch is reached at 10 * (1 - 1e-9) epochs of 10 s: 1e-7 s early, and no earlier."""
    case = Case(instance((job("a", "small", 1, 10),)), schedule(seg("a", 0, 100, (0, 0))))
    assert report(case).feasible
    assert report(case.changed("a", end_s=100 - 0.9e-7)).feasible
    assert _kinds(report(case.changed("a", end_s=100 - 1.2e-7))) == ["incomplete"]


@pytest.mark.parametrize(("below", "fine"), [(0.0, True), (0.9e-9, True), (1e-8, False)])
def test_tolerance_of_limits(below: float, fine: bool, report: Callable[[Case], CheckReport]) -> None:
    """Limits hold within 1e-9: two jobs of 0.35 and 8 of 32 GiB fill 0.7 and 0.5 exactly."""
    case = _together(Limits(u_threshold=0.7 - below, mem_threshold=0.5 - below), a=0.35, b=0.35)
    assert _kinds(report(case)) == ([] if fine else ["memory", "utilisation"])


def test_coinciding_events_are_simultaneous(report: Callable[[Case], CheckReport]) -> None:
    """A newcomer a microsecond early costs nobody an epoch, though over 1e-9 of theirs would be missing."""
    # Two share at 20 s an epoch, three at 30 s. Were all three there for 1e-6 s, x and z would lose
    # 1e-6 * (1/20 - 1/30) = 1.7e-8 epochs, of 5 and 10.
    truth = Interference(model="crowding", params=(("base", 1.0),))
    jobs = (job("x", "lone", 1, 5), job("y", "lone", 1, 5), job("z", "lone", 1, 10))
    case = Case(
        instance(jobs, truth=truth),
        schedule(
            seg("x", 0, 100, (0, 0)), seg("y", 100 - MICRO, 200 - MICRO, (0, 0)), seg("z", 0, 200, (0, 0))
        ),
    )
    assert report(case).violations == ()


def test_neighbours_that_pass_each_other(report: Callable[[Case], CheckReport]) -> None:
    """A microsecond alone between two neighbours is held against nobody."""
    # z takes 100 s an epoch beside y, and then beside w; alone it would take 10 s. The microsecond between
    # the two gains it 9e-8 epochs, 9e-6 s at the end; w is alone for as long when z has left.
    truth = Interference(model="crowding", params=(("base", 9.0),))
    jobs = (job("w", "lone", 1, 1), job("y", "lone", 1, 1), job("z", "lone", 1, 2))
    built = instance(jobs, truth=truth)

    def passing(gap_s: float) -> Case:
        return Case(
            built,
            schedule(
                seg("y", 0, 100, (0, 0)), seg("z", 0, 200, (0, 0)), seg("w", 100 + gap_s, 200 + gap_s, (0, 0))
            ),
        )

    assert report(passing(0.9 * MICRO)).violations == ()
    assert _kinds(report(passing(MILLI))) == ["overrun", "overrun"]


def test_nodes_do_not_fall_asleep_within_the_tolerance(report: Callable[[Case], CheckReport]) -> None:
    """A node that is left alone for a microsecond draws its empty active power and does not wake up again."""
    # n0 wakes for 20 s, works for 50 s (30 W dynamic) and is empty for 1e-6 s; n1 wakes for 20 s, works for
    # 10 s and sleeps for the rest of 70.000001 s.
    found = report(CASES["sleeping"]().changed("B", start_s=50 + MICRO, end_s=70 + MICRO))
    assert found.energy.wake_j == pytest.approx(1.2 * (2 * 1000 + 2 * 20 * 150), rel=1e-15)
    active = 1.2 * ((50 + MICRO) * 150 + 50 * 30 + 10 * 180)
    assert found.energy.server_j + found.energy.gpu_standing_j + found.energy.gpu_dynamic_j == pytest.approx(
        active, rel=1e-12
    )
    assert found.energy.sleep_j == pytest.approx(1.2 * 10 * (40 + MICRO), rel=1e-12)


def test_one_job_that_could_wake_the_node_is_enough(report: Callable[[Case], CheckReport]) -> None:
    """Of the jobs that start with a busy period only one need have been known in time."""
    case = CASES["sleeping"]()
    case = case.changed("C", start_s=20.0, end_s=32.0).changed("A", end_s=52.0)
    # C, released at 0 s and 15 s, shares with A from the start: 12 s for its epoch, 12 + 20 s for A's three.
    case = case.changed("C", gpus=((0, 0),))
    assert report(case.with_job("C", release_s=0.0)).feasible
    assert report(case.with_job("C", release_s=15.0)).feasible
    # It may come a microsecond after the one that was not.
    together = case.changed("C", start_s=20 + MICRO, end_s=32 + MICRO)
    together = together.with_job("C", release_s=0.0)
    assert report(together.with_job("A", release_s=1.0)).feasible
    late = report(case.with_job("C", release_s=15.0).with_job("A", release_s=1.0))
    assert [(v.kind, v.job, v.amount) for v in late.violations] == [("wake-up", "A+C", 1.0)]


def test_energy_counts_from_the_earliest_release(report: Callable[[Case], CheckReport]) -> None:
    """What runs before anything was released is a violation, and no part of the energy."""
    jobs = (job("a", "small", 1, 2, release_s=10.0),)
    found = report(Case(instance(jobs), schedule(seg("a", 5, 25, (0, 0)))))
    assert [(v.kind, v.amount) for v in found.violations] == [("release", 5.0)]
    assert found.energy_j == pytest.approx(15 * 230.0)  # 100 + 2 * 50 + 30 W
    assert found.avg_tpe_s == 10.0


def test_a_stop_needs_an_epoch(report: Callable[[Case], CheckReport]) -> None:
    """Class `epoch` does not allow to stop before the first epoch, even where no progress was made."""
    case = CASES["multi_node"]().of_class(ScheduleClass.EPOCH)
    # big jobs have no epoch time on w.
    case = case.with_segments("R", seg("R", 0, 5, (5, 1)), seg("R", 5, 25, (4, 0)))
    assert [(v.kind, v.job, v.time_s, v.amount) for v in report(case).violations] == [
        ("gpu-type", "R", 0.0, 1.0),
        ("class", "R", 5.0, 1.0),
    ]


def test_short_runs_late_in_the_schedule(report: Callable[[Case], CheckReport]) -> None:
    """The last place of a float is not held against a job, however short its run."""
    # 0.1 s at 1.5e9 s on the clock: floats there are 2.4e-7 s apart, 2.4e-6 of the run.
    clock = 1.5e9
    short = profile("short", 0.1, util=0.3, memory_gib=1.0)
    jobs = (job("a", "short", 1, 1, release_s=clock),)
    end = clock + 0.1
    case = Case(instance(jobs, profiles=(short,)), schedule(seg("a", clock, end, (0, 0))))
    assert report(case).feasible
    early = math.nextafter(end, 0.0)
    assert report(case.changed("a", end_s=early)).feasible
    assert _kinds(report(case.changed("a", end_s=end - 1e-5))) == ["incomplete"]


# --- Reading schedules ------------------------------------------------------------------------------------


def test_touching_rows_are_one_run(report: Callable[[Case], CheckReport]) -> None:
    """A static schedule written in several rows is static; the same on other GPUs is not."""
    case = CASES["whole_node"]()
    both = case.segments("A")[0].gpus
    rows = case.with_segments("A", seg("A", 0, 31, *both), seg("A", 31, 40, *both), seg("A", 40, 85, *both))
    assert report(rows).violations == ()
    assert report(rows).energy_j == pytest.approx(report(case).energy_j, rel=1e-14)
    grid = CASES["grid"]()
    odd = grid.with_segments("A", seg("A", 5, 17, (0, 0)), seg("A", 17, 50, (0, 0)))
    assert report(odd).violations == ()


def test_mode_follows_the_number_of_jobs() -> None:
    """Up to 5,000 jobs are checked exactly, more in floats; both accept a long queue."""
    for count, mode in ((5, "exact"), (checker.EXACT_JOBS + 1, "float")):
        jobs = tuple(job(f"j{i}", "small", 1, 1, 10.0 * (i // 2 + 1)) for i in range(count))
        rows = [seg(f"j{i}", 10 * (i // 2), 10 * (i // 2 + 1), (0, i % 2)) for i in range(count)]
        found = check_report(instance(jobs), schedule(*rows))
        assert found.mode == mode
        assert found.feasible
        assert found.avg_tpe_s == 10.0


def test_floats_out_of_range_are_checked_exactly() -> None:
    """Where floats overflow the exact numbers take over."""
    jobs = (job("a", "small", 1, 1, release_s=-1.7e308),)
    case = Case(instance(jobs), schedule(seg("a", -1.7e308, 1.7e308, (0, 0))))
    found = check_report(case.instance, case.schedule, _mode="float")
    assert found.mode == "exact"
    assert [(v.kind, v.amount) for v in found.violations] == [("overrun", math.inf)]


@given(
    small_instances_with_schedules(wild=True, cannot_share=True),
    st.none() | st.sampled_from([1e-3, 1.0, 60.0, 1e5]),
    st.sampled_from(["exact", "float"]),
)
def test_no_schedule_is_too_odd(drawn: tuple[Instance, Schedule], grid_s: float | None, mode: str) -> None:
    """Whatever the numbers, there is an answer (or an error of ours about the slowdown model)."""
    try:
        found = check_report(*drawn, grid_s=grid_s, _mode=mode)
    except DomainError as error:
        if "slowdown model" not in str(error):
            raise
        return
    assert found.feasible == (not found.violations)


@given(small_instances_with_schedules(cannot_share=True), st.none() | st.sampled_from([7.0, 60.0]))
def test_modes_agree(drawn: tuple[Instance, Schedule], grid_s: float | None) -> None:
    """Exact and float mode give the same violations and costs."""
    exact = check_report(*drawn, grid_s=grid_s, _mode="exact")
    floats = check_report(*drawn, grid_s=grid_s, _mode="float")

    def listed(found: CheckReport) -> list[tuple[str, str, str]]:
        return [(v.kind, v.job, v.place) for v in found.violations]

    assert sorted(listed(exact)) == sorted(listed(floats))
    assert floats.energy_j == pytest.approx(exact.energy_j, rel=1e-12)
    assert floats.avg_tpe_s == pytest.approx(exact.avg_tpe_s, rel=1e-12)
    assert floats.objective == (
        None if exact.objective is None else pytest.approx(exact.objective, rel=1e-12)
    )


def test_names_and_clock_do_not_matter(report: Callable[[Case], CheckReport]) -> None:
    """Shifting all times, or naming jobs and nodes otherwise, changes no value."""
    for build in CASES.values():
        case = build()
        before = report(case)
        jobs = tuple(
            dataclasses.replace(
                j, name=f"{j.name}'", release_s=j.release_s + 4096.0, deadline_s=j.deadline_s + 4096.0
            )
            for j in case.instance.jobs
        )
        nodes = tuple(dataclasses.replace(n, name=f"{n.name}'") for n in case.instance.cluster.nodes)
        rows = tuple(
            dataclasses.replace(s, job=f"{s.job}'", start_s=s.start_s + 4096.0, end_s=s.end_s + 4096.0)
            for s in case.schedule.segments
        )
        moved = dataclasses.replace(
            case.with_instance(jobs=jobs, cluster=dataclasses.replace(case.instance.cluster, nodes=nodes)),
            schedule=dataclasses.replace(case.schedule, segments=rows),
        )
        after = report(moved)
        assert after.feasible
        assert after.energy_j == pytest.approx(before.energy_j, rel=1e-12)
        assert after.objective == pytest.approx(before.objective, rel=1e-12)


@pytest.mark.parametrize("grid_s", [0.0, -1.0, math.nan, math.inf, True, "15"])
def test_slot_length_must_be_positive(grid_s: Any) -> None:
    """A useless slot length is refused in words."""
    case = CASES["grid"]()
    with pytest.raises(DomainError, match=r"check: grid_s must be"):
        check(case.instance, case.schedule, grid_s=grid_s)


def test_wrong_objects_are_refused() -> None:
    """Something that is no schedule is named, with what was expected."""
    case = CASES["mixed"]()
    with pytest.raises(ScheduleError, match=r"expected an Instance and a Schedule, got Instance and tuple"):
        check(case.instance, case.schedule.segments)  # type: ignore[arg-type]


def test_a_slowdown_model_that_fails_is_named() -> None:
    """A third party's model that gives useless factors is an error that says which set."""
    truth = Interference(model="crowding", params=(("base", 0.0), ("slope", 1.0), ("exponent", 1e308)))
    profiles = tuple(profile(n, util=0.9, memory_gib=1.0) for n in "ab")
    case = Case(
        instance((job("x", "a", 1, 1), job("y", "b", 1, 1)), profiles=profiles, truth=truth),
        schedule(seg("x", 0, 10, (0, 0)), seg("y", 0, 10, (0, 0))),
    )
    with pytest.raises(DomainError, match=r"slowdown model 'crowding': factors of a\+b cannot be worked out"):
        check(case.instance, case.schedule)


@pytest.mark.slow
def test_a_large_trace_is_checked_in_floats() -> None:
    """81,920 jobs that share 64 nodes of 8 GPUs are checked in floats, and found as worked by hand."""
    nodes, count = 64, 160 * 512
    truth = Interference(measured=(MeasuredSlowdown(kinds=("lone", "lone"), factors=(1.2, 1.2)),))
    jobs, rows = [], []
    for i in range(count):
        # Each GPU in turn gets 80 pairs of jobs, one after the other. The second of a pair comes 6 s after
        # the first: each is alone for 6 s (10 s an epoch) and with the other for 16.8 s (12 s an epoch).
        gpu, turn = i % (8 * nodes), i // (8 * nodes)
        start = 30.0 * (turn // 2) + 6.0 * (turn % 2)
        jobs.append(job(f"j{i}", "lone", 1, 2, release_s=0.0))
        rows.append(seg(f"j{i}", start, start + 22.8, (gpu // 8, gpu % 8)))
    large = instance(tuple(jobs), (node_type(gpus=8), nodes), truth=truth)
    found = check_report(large, schedule(*rows))
    assert found.mode == "float"
    # 0.6 epochs alone and 1.4 together: 22.8 s for two epochs.
    assert found.feasible
    assert found.avg_tpe_s == pytest.approx(11.4)
