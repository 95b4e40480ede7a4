"""Physics on a grid of slots against numbers worked by hand (docs/model.md section 5).

Nodes as in test_physics: a server of 100 W, GPUs of 50 W standing and 100 W more at load 1.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import pytest

from eaco_opt.checker import check_report
from eaco_opt.cluster import NodeType
from eaco_opt.errors import ScheduleError
from eaco_opt.instance import Instance
from eaco_opt.interference import Interference, MeasuredSlowdown
from eaco_opt.job import Job
from eaco_opt.limits import Limits
from eaco_opt.physics import evaluate, plan_schedule
from eaco_opt.schedule import Gpu, Placement, Plan, ScheduleClass
from tests.eaco_opt.checker_cases import instance, job, node_type, profile, schedule, seg

# Alone 10 s and 20 s an epoch; together a takes 15 s and b 25 s.
A = profile("a", 10.0, util=0.3, memory_gib=8.0)
B = profile("b", 20.0, util=0.5, memory_gib=16.0)
TRUTH = Interference(measured=(MeasuredSlowdown(kinds=("a", "b"), factors=(1.5, 1.25)),))
G00: tuple[Gpu, ...] = ((0, 0),)


def build(jobs: tuple[Job, ...], *groups: tuple[NodeType, int], **more: Any) -> Instance:
    return instance(
        jobs, *(groups or ((node_type(gpus=1), 1),)), **{"profiles": (A, B), "truth": TRUTH, **more}
    )


def plan(inst: Instance, **starts: tuple[float, tuple[Gpu, ...]]) -> Plan:
    return Plan.of(inst, {name: Placement(start_s=s, gpus=gpus) for name, (s, gpus) in starts.items()})


def test_departures_are_rounded_up_and_neighbours_slowed_to_that_end() -> None:
    """A job keeps its GPU, interferes and draws power to the end of the slot in which it is done."""
    # Slots of 25 s. x: 4 epochs of 15 s beside y, done at 60 s, leaves at 75 s. y: 3 epochs by then, done at
    # 75 s itself. Without the rounding x would leave at 60 s and y be done at 72 s.
    # 230 W for 75 s. AvgTPE counts whole slots: 75/4 and 75/3.
    inst = build((job("x", "a", 1, 4), job("y", "b", 1, 3)))
    both = plan(inst, x=(0.0, G00), y=(0.0, G00))
    e = evaluate(inst, both, grid_s=25.0)
    assert e.jobs.end_s.tolist() == [75.0, 75.0]
    assert e.energy_j == pytest.approx(75 * 230.0, rel=1e-15)
    assert e.avg_tpe_s == pytest.approx((75 / 4 + 75 / 3) / 2, rel=1e-15)
    assert (e.makespan_s, e.mean_jct_s, e.grid_s, e.feasible) == (75.0, 75.0, 25.0, True)
    # The reference stays that of continuous time: x 40 s at 180 W, y 60 s at 200 W.
    assert (e.reference_energy_j, e.reference_tpe_s, e.reference_jtt_s) == (19200.0, 15.0, 50.0)
    # x's progress is capped at its 4 epochs, though it held the GPU for 5 epochs' time.
    found = check_report(inst, plan_schedule(inst, both, grid_s=25.0), grid_s=25.0)
    assert (found.feasible, dict(found.progress)) == (True, {"x": 4.0, "y": 3.0})
    assert [evaluate(inst, both, grid_s=s).jobs.end_s.tolist() for s in (100.0, 20.0)] == [
        [100.0, 100.0],
        # y has 60/25 = 2.4 epochs when x leaves at 60 s, needs 12 s more and leaves at 80 s.
        [60.0, 80.0],
    ]


def test_a_job_done_at_a_boundary_leaves_there() -> None:
    """Not a slot later; and everything that fits whole slots is as in continuous time."""
    inst = build((job("x", "a", 1, 4), job("y", "b", 1, 3, release_s=3.0)))
    apart = plan(inst, x=(0.0, G00), y=(40.0, G00))
    e, exact = evaluate(inst, apart, grid_s=20.0), evaluate(inst, apart)
    assert e.jobs.end_s.tolist() == exact.jobs.end_s.tolist() == [40.0, 100.0]
    assert (e.energy_j, e.avg_tpe_s, e.mean_jtt_s) == (exact.energy_j, exact.avg_tpe_s, exact.mean_jtt_s)


@pytest.mark.parametrize("slot", [0.1, 0.3, 1 / 3, 7.7])
def test_boundaries_that_floats_cannot_hold(slot: float) -> None:
    """Work of exactly k slots takes k slots, however slots and starts round."""
    for k in (1, 2, 3, 7, 10, 49):
        for first in (0, 1, 3, 10, 1000):
            work = profile("work", k * slot, util=0.3, memory_gib=1.0)
            inst = build((job("x", "work", 1, 1), job("o", "a", 1, 1)), (node_type(), 1), profiles=(work, A))
            both = plan(inst, x=(first * slot, G00), o=(0.0, ((0, 1),)))
            e = evaluate(inst, both, grid_s=slot)
            assert e.jobs.running_s[0] == pytest.approx(k * slot, rel=1e-9), (k, first)


def test_departure_slot_is_decided_by_progress_alone() -> None:
    """n_j counts as reached at n_j * (1 - 1e-9); a time tolerance on top would leave two slots to choose."""
    # 10 epochs, slots of 10 s. 100 s of work end at 100 s; so do 100 s + 0.9e-7 s, whose last 1e-9 are
    # excused; 100 s + 1.1e-7 s need another slot, though 1.1e-7 s is less than the tolerance of times.
    for more, end in ((0.0, 100.0), (0.9e-8, 100.0), (1.1e-8, 110.0)):
        work = profile("work", 10.0 + more, util=0.3, memory_gib=1.0)
        inst = build((job("x", "work", 1, 10),), profiles=(work,))
        e = evaluate(inst, plan(inst, x=(0.0, G00)), grid_s=10.0)
        assert e.jobs.end_s.tolist() == [end]
        # As a stated schedule the other slot is wrong, whichever it is.
        for stated in (100.0, 110.0):
            row = schedule(seg("x", 0.0, stated, (0, 0)))
            right = evaluate(inst, row, grid_s=10.0).physical_violations == 0
            assert right == (stated == end)
            assert check_report(inst, row, grid_s=10.0).feasible == (stated == end)


def test_slots_begin_at_the_earliest_release() -> None:
    """Wherever the clock stands: 7 s, 17 s, ... for slots of 10 s from a release at 7 s."""
    inst = build((job("x", "a", 1, 1, release_s=12.0), job("y", "b", 1, 1, release_s=7.0)), (node_type(), 1))
    both = plan(inst, x=(17.0, G00), y=(7.0, ((0, 1),)))
    e = evaluate(inst, both, grid_s=10.0)
    assert e.jobs.start_s.tolist() == [17.0, 7.0]
    assert e.jobs.end_s.tolist() == [27.0, 27.0]
    assert e.jobs.jtt_s.tolist() == [15.0, 20.0]
    with pytest.raises(ScheduleError) as caught:
        evaluate(inst, plan(inst, x=(20.0, G00), y=(7.0, ((0, 1),))), grid_s=10.0)
    assert str(caught.value) == (
        "job 'x': starts 13.0 s after the earliest release, which is no boundary of slots of 10 s; grid "
        "physics needs times on the grid"
    )
    stated = schedule(seg("x", 17.0, 30.0, (0, 0)), seg("y", 7.0, 27.0, (0, 1)))
    with pytest.raises(ScheduleError, match=r"job 'x': ends 23.0 s after the earliest release, which is no"):
        evaluate(inst, stated, grid_s=10.0)


def test_starts_within_the_tolerance_of_a_boundary_are_on_it() -> None:
    """1e-6 s + 1e-9 t: the job starts at the boundary and loses no progress."""
    inst = build((job("x", "a", 1, 3), job("y", "a", 1, 1)), (node_type(), 1))
    for off, fine in ((9e-7, True), (-9e-7, True), (1.1e-6, False)):
        both = plan(inst, x=(20.0 + off, G00), y=(0.0, ((0, 1),)))
        if fine:
            assert evaluate(inst, both, grid_s=10.0).jobs.end_s.tolist() == [50.0, 10.0]
        else:
            with pytest.raises(ScheduleError, match="no boundary"):
                evaluate(inst, both, grid_s=10.0)


def test_deadline_on_a_grid_is_that_of_the_slot() -> None:
    """A job done in time may still leave late: it ends at the end of its slot."""
    for deadline, misses in ((40.0, 1), (49.0, 1), (50.0, 0)):
        inst = build((job("x", "a", 1, 4, deadline),))
        e = evaluate(inst, plan(inst, x=(0.0, G00)), grid_s=25.0)
        assert (e.deadline_misses, e.jobs.lateness_s.tolist()) == (misses, [50.0 - deadline])


def test_sharing_until_the_end_of_the_slot_counts_against_limits() -> None:
    """A successor that starts while its predecessor still holds the GPU shares it."""
    inst = build((job("x", "a", 1, 4), job("y", "a", 1, 1)), limits=Limits(max_share=1))
    for start, broken in ((25.0, 1), (50.0, 0)):
        e = evaluate(inst, plan(inst, x=(0.0, G00), y=(start, G00)), grid_s=25.0)
        assert e.physical_violations == broken


def test_stops_on_a_grid() -> None:
    """A schedule may stop and go on at boundaries; its last slot is the one that completes the work."""
    inst = build((job("x", "a", 1, 4),), (node_type(gpus=1), 2))

    def stated(*times: float) -> int:
        rows = [seg("x", a, b, (i, 0)) for i, (a, b) in enumerate(zip(times[::2], times[1::2], strict=True))]
        fluid = dataclasses.replace(schedule(*rows), schedule_class=ScheduleClass.FLUID)
        found = check_report(inst, fluid, grid_s=15.0)
        e = evaluate(inst, fluid, grid_s=15.0)
        assert bool(found.physical_violations) == bool(e.physical_violations)
        return e.physical_violations

    # 40 s of work: two slots of 15 s, a pause, and one more; one is too few and two are too many.
    assert stated(0, 30, 45, 60) == 0
    assert stated(0, 30) == 1
    assert stated(0, 30, 45, 75) == 1
    assert stated(0, 45, 60, 75) == 1


def test_wake_ups_on_a_grid() -> None:
    """A wake-up need not fit the grid; its time and energy are those of continuous time."""
    asleep = node_type(gpus=1, sleep_w=10.0, wake_s=20.0, wake_energy_j=1000.0)
    inst = build((job("x", "a", 1, 3), job("y", "a", 1, 1)), (asleep, 1))
    # x: 25 to 55 s, held to 75 s; y: 100 to 110 s, held to 125 s. Asleep 0-5 s and 75-80 s; two wake-ups of
    # 20 s at 150 W. The same with slots of 25 s as without, but for the ends.
    e = evaluate(inst, plan(inst, x=(25.0, G00), y=(100.0, G00)), grid_s=25.0)
    assert e.energy.wake_j == pytest.approx(2 * (1000 + 20 * 150.0))
    assert e.energy.sleep_j == pytest.approx(10 * 10.0)
    assert e.energy_j == pytest.approx(8000 + 100 + 75 * 180.0)
    assert e.feasible
    assert evaluate(inst, plan(inst, x=(0.0, G00), y=(75.0, G00)), grid_s=25.0).physical_violations == 1


@pytest.mark.parametrize("slot", [0.0, -1.0, math.inf, math.nan, True, "10", [1.0]])
def test_slot_length_must_be_a_positive_number(slot: Any) -> None:
    """Anything else is refused, by plans and by schedules."""
    inst = build((job("x", "a", 1, 4),))
    one = plan(inst, x=(0.0, G00))
    for call in (evaluate, plan_schedule):
        with pytest.raises(ScheduleError) as caught:
            call(inst, one, grid_s=slot)
        text = f"grid: the slot length must be a positive number of seconds, got {slot!r}"
        assert str(caught.value) == text
