"""Two implementations of the physics, written apart, give the same costs and the same verdicts.

`evaluate` is compiled and works on arrays in floats; the checker reads segments in exact numbers. Instances
are drawn with every feature of the model, and with epochs from hundredths of a second to months.
"""

from __future__ import annotations

import dataclasses
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eaco_opt.checker import CheckReport, check_report
from eaco_opt.errors import ScheduleError
from eaco_opt.evaluation import Evaluation
from eaco_opt.instance import Instance
from eaco_opt.interference import Interference
from eaco_opt.limits import ObjectiveForm
from eaco_opt.physics import evaluate, plan_schedule
from eaco_opt.schedule import Placement, Plan, Schedule, ScheduleClass
from tests.eaco_opt.checker_cases import instance as instance_of
from tests.eaco_opt.checker_cases import job, node_type, profile, seg
from tests.eaco_opt.checker_cases import schedule as schedule_of
from tests.strategies import (
    hard_instances_with_plans,
    small_instances_with_plans,
    small_instances_with_schedules,
)

Drawn = tuple[Instance, dict[str, Placement]]

MODES = st.sampled_from(["exact", "float"])
# Powers of ten and others: epochs of 0.01 to 2e7 s.
SCALES = st.sampled_from([1e-3, 0.3, 1.0, 1e4])
SLOTS = st.sampled_from([7.0, 100.0, 333.3, 3600.0])

# More than any cluster drawn here draws at once, with PUE [W].
MOST_W = 1e5

# What a plan can break: physics gives every job its GPUs and its time.
OF_PLANS = {"memory", "max-share", "exclusive", "deadline", "utilisation"}
# What only a schedule can break, and what `evaluate` refuses instead of counting it.
REFUSED = {"missing-job", "overlap"}


def _scaled(instance: Instance, factor: float) -> Instance:
    """Stretch all times of an instance."""
    return dataclasses.replace(
        instance,
        jobs=tuple(
            dataclasses.replace(j, release_s=j.release_s * factor, deadline_s=j.deadline_s * factor)
            for j in instance.jobs
        ),
        profiles=tuple(
            dataclasses.replace(
                p,
                epoch_times=tuple(
                    dataclasses.replace(e, epoch_time_s=e.epoch_time_s * factor) for e in p.epoch_times
                ),
            )
            for p in instance.profiles
        ),
        cluster=dataclasses.replace(
            instance.cluster,
            node_types=tuple(
                dataclasses.replace(t, wake_s=t.wake_s * factor) for t in instance.cluster.node_types
            ),
        ),
    )


def _usable(instance: Instance) -> Instance:
    """Take the raw objective where a job that no node type holds leaves the normalised one undefined."""
    if check_report(instance, Schedule(segments=())).reference_energy_j is not None:
        return instance
    return dataclasses.replace(
        instance, objective=dataclasses.replace(instance.objective, form=ObjectiveForm.RAW)
    )


def _later(release_s: float, wake_s: float, start_s: float, factor: float) -> float:
    """Stretch a start, keeping it no earlier than release and wake-up whatever the rounding."""
    return max(start_s * factor, release_s + wake_s)


@st.composite
def scaled_plans(draw: st.DrawFn) -> tuple[Instance, Plan]:
    instance, placements = draw(small_instances_with_plans())
    factor = draw(SCALES)
    instance = _usable(_scaled(instance, factor))
    jobs = {j.name: j for j in instance.jobs}
    stretched = {
        name: dataclasses.replace(
            p,
            start_s=_later(
                jobs[name].release_s, instance.cluster.type_of(p.gpus[0][0]).wake_s, p.start_s, factor
            ),
        )
        for name, p in placements.items()
    }
    return instance, Plan.of(instance, stretched)


@st.composite
def grid_plans(draw: st.DrawFn) -> tuple[Instance, Plan, float]:
    instance, placements = draw(small_instances_with_plans())
    instance = _usable(instance)
    slot = draw(SLOTS)
    origin = min(j.release_s for j in instance.jobs)
    on_grid = {
        name: dataclasses.replace(p, start_s=origin + slot * math.ceil((p.start_s - origin) / slot))
        for name, p in placements.items()
    }
    return instance, Plan.of(instance, on_grid), slot


def _agree(found: CheckReport, evaluation: Evaluation, slack_s: float = 0.0) -> None:
    """Costs agree within 1e-9, misses in number, other classes of violation in whether there are any.

    ``slack_s``: what the last places of times late on the clock may hide besides; a job less than 1e6 s long
    has a cost in proportion.
    """

    def near(value: float, slack: float) -> object:
        return pytest.approx(value, rel=1e-9, abs=1e-12 + slack)

    slack_j = MOST_W * slack_s
    assert found.energy_j == near(evaluation.energy_j, slack_j)
    for field in dataclasses.fields(found.energy):
        # The residual of a look-up is a difference: the server's part may be much smaller than its terms.
        part = near(getattr(evaluation.energy, field.name), 1e-9 * evaluation.energy_j + slack_j)
        assert getattr(found.energy, field.name) == part
    assert found.avg_tpe_s == near(evaluation.avg_tpe_s, slack_s)
    assert found.mean_jtt_s == near(evaluation.mean_jtt_s, slack_s)
    assert found.makespan_s == near(evaluation.makespan_s, slack_s)
    if found.reference_energy_j is not None:
        assert found.reference_energy_j == near(evaluation.reference_energy_j, 0.0)
        assert found.reference_tpe_s == near(evaluation.reference_tpe_s, 0.0)
        assert found.reference_jtt_s == near(evaluation.reference_jtt_s, 0.0)
    if found.objective is not None:
        scale = 1.0
        if found.reference_energy_j is not None:
            e0, t0, j0 = found.reference_energy_j, found.reference_tpe_s, found.reference_jtt_s
            scale = sum(1.0 / x for x in (e0 / MOST_W, t0, j0) if x)
        assert found.objective == near(evaluation.objective, slack_s * scale)
    assert found.deadline_misses == evaluation.deadline_misses
    assert bool(found.physical_violations) == bool(evaluation.physical_violations)
    assert bool(found.threshold_violations) == bool(evaluation.threshold_violations)
    excess = max((v.amount for v in found.violations if v.kind == "utilisation"), default=0.0)
    assert excess == pytest.approx(evaluation.threshold_excess, abs=1e-9)
    assert found.feasible == evaluation.feasible


@given(scaled_plans(), MODES)
def test_plans(drawn: tuple[Instance, Plan], mode: str) -> None:
    """A plan played by physics and the schedule it leads to, checked, cost the same."""
    instance, plan = drawn
    found = check_report(instance, plan_schedule(instance, plan), _mode=mode)
    assert {v.kind for v in found.violations} <= OF_PLANS
    _agree(found, evaluate(instance, plan))


@given(grid_plans(), MODES)
def test_plans_on_a_grid(drawn: tuple[Instance, Plan, float], mode: str) -> None:
    """The same on slots: departures at the end of exactly the slot in which a job is done."""
    instance, plan, slot = drawn
    found = check_report(instance, plan_schedule(instance, plan, grid_s=slot), grid_s=slot, _mode=mode)
    assert {v.kind for v in found.violations} <= OF_PLANS
    _agree(found, evaluate(instance, plan, grid_s=slot))


@given(small_instances_with_schedules(), MODES)
def test_arbitrary_schedules(drawn: tuple[Instance, Schedule], mode: str) -> None:
    """Segments that stop, move, end early or late cost the same, and are feasible for both or for neither.

    `evaluate` knows nothing of classes of schedule, and refuses what is no schedule of the instance at all.
    """
    instance, schedule = _usable(drawn[0]), drawn[1]
    schedule = dataclasses.replace(schedule, schedule_class=ScheduleClass.FLUID)
    found = check_report(instance, schedule, _mode=mode)
    try:
        evaluation = evaluate(instance, schedule)
    except ScheduleError:
        assert REFUSED & {v.kind for v in found.violations}
        return
    assert not REFUSED & {v.kind for v in found.violations}
    _agree(found, evaluation)


@given(scaled_plans(), st.integers(0, 3))
def test_schedules_cut_short(drawn: tuple[Instance, Plan], victim: int) -> None:
    """Taking a thousandth off the run of one job is noticed by both."""
    instance, plan = drawn
    schedule = plan_schedule(instance, plan)
    rows = list(schedule.segments)
    row = rows[victim % len(rows)]
    shorter = row.start_s + (row.end_s - row.start_s) * 0.999
    rows[victim % len(rows)] = dataclasses.replace(row, end_s=shorter)
    cut = dataclasses.replace(schedule, segments=tuple(rows))
    found = check_report(instance, cut)
    assert (row.job, "incomplete") in {(v.job, v.kind) for v in found.violations}
    assert evaluate(instance, cut).physical_violations > 0


# --- Ties, extremes, and schedules that went wrong --------------------------------------------------------


def _slack_s(schedule: Schedule) -> float:
    """What the last places of the latest time may hide: the checker reads decimals, `evaluate` floats."""
    return 64 * math.ulp(max(abs(s.end_s) for s in schedule.segments))


def _compare(instance: Instance, schedule: Schedule, grid_s: float | None = None) -> CheckReport:
    """Both agree on a schedule, if only that it is none of the instance."""
    found = check_report(instance, schedule, grid_s=grid_s)
    try:
        evaluation = evaluate(instance, schedule, grid_s=grid_s)
    except ScheduleError:
        assert REFUSED & {v.kind for v in found.violations}
        return found
    assert not REFUSED & {v.kind for v in found.violations}
    _agree(found, evaluation, _slack_s(schedule))
    return found


@given(hard_instances_with_plans())
def test_hard_plans(drawn: Drawn) -> None:
    """Equal times, epochs of 1 ms beside epochs of 1e6 s, slowdowns from 0.25 to 4, releases at 1.5e9 s."""
    instance = _usable(drawn[0])
    found = _compare(instance, plan_schedule(instance, Plan.of(instance, drawn[1])))
    assert {v.kind for v in found.violations} <= OF_PLANS


@given(hard_instances_with_plans(), st.sampled_from([0.05, 1.0, 7.7, 600.0]))
def test_hard_plans_on_a_grid(drawn: Drawn, slot: float) -> None:
    """The same on slots that are much shorter or longer than a job."""
    instance = _usable(drawn[0])
    origin = min(j.release_s for j in instance.jobs)
    on_grid = {  # less 1e-6 of a slot: 33.3 / 0.05 is no whole number in floats
        name: dataclasses.replace(p, start_s=origin + slot * math.ceil((p.start_s - origin) / slot - 1e-6))
        for name, p in drawn[1].items()
    }
    schedule = plan_schedule(instance, Plan.of(instance, on_grid), grid_s=slot)
    found = _compare(instance, schedule, slot)
    assert {v.kind for v in found.violations} <= OF_PLANS


@st.composite
def damaged(draw: st.DrawFn) -> tuple[Instance, Schedule]:
    """Draw the schedule of a plan with up to three runs split, shortened, lengthened, moved or paused.

    A run may begin before anything was released.
    """
    clocks = (0.0, 0.1)
    instance, placements = draw(hard_instances_with_plans(clocks=clocks) | small_instances_with_plans())
    instance = _usable(instance)
    rows = list(plan_schedule(instance, Plan.of(instance, placements)).segments)
    for _ in range(draw(st.integers(1, 3))):
        i, part = draw(st.integers(0, len(rows) - 1)), draw(st.sampled_from([0.1, 0.5, 0.9]))
        row = rows[i]
        lasts = row.end_s - row.start_s
        cut, gap = row.start_s + part * lasts, part * lasts
        if 0.1 * lasts < 1e-5 + 1e-8 * abs(row.end_s + lasts):
            continue  # too short for the tolerance of times
        act = draw(st.sampled_from(["split", "shorter", "longer", "later", "earlier", "pause"]))
        if act == "longer":
            rows[i] = dataclasses.replace(row, end_s=row.end_s + gap)
        elif act == "later":
            rows[i] = dataclasses.replace(row, start_s=cut, end_s=row.end_s + gap)
        elif act == "earlier":
            rows[i] = dataclasses.replace(row, start_s=row.start_s - gap, end_s=row.end_s - gap)
        else:
            rows[i] = dataclasses.replace(row, end_s=cut)
        if act == "split":
            rows.append(dataclasses.replace(row, start_s=cut))
        elif act == "pause":
            rows.append(dataclasses.replace(row, start_s=cut + gap, end_s=row.end_s + gap))
    return instance, Schedule(segments=tuple(rows), schedule_class=ScheduleClass.FLUID)


@given(damaged())
def test_damaged_schedules(drawn: tuple[Instance, Schedule]) -> None:
    """Stops, pauses, early and late ends of the schedules that plans lead to."""
    _compare(*drawn)


@st.composite
def damaged_on_a_grid(draw: st.DrawFn) -> tuple[Instance, Schedule, float]:
    """The same by whole slots."""
    instance, plan, slot = draw(grid_plans())
    origin = min(j.release_s for j in instance.jobs)
    rows = list(plan_schedule(instance, plan, grid_s=slot).segments)

    def moved(time_s: float, slots: int) -> float:
        return origin + slot * (round((time_s - origin) / slot) + slots)

    for _ in range(draw(st.integers(1, 3))):
        i, by = draw(st.integers(0, len(rows) - 1)), draw(st.integers(1, 3))
        row = rows[i]
        length = round((row.end_s - row.start_s) / slot)
        act = draw(st.sampled_from(["split", "shorter", "longer", "later", "earlier", "pause"]))
        if act == "longer":
            rows[i] = dataclasses.replace(row, end_s=moved(row.end_s, by))
        elif act in ("later", "earlier"):
            slots = by if act == "later" else -by
            rows[i] = dataclasses.replace(
                row, start_s=moved(row.start_s, slots), end_s=moved(row.end_s, slots)
            )
        elif length > by:
            cut = moved(row.start_s, by)
            rows[i] = dataclasses.replace(row, end_s=cut)
            if act == "split":
                rows.append(dataclasses.replace(row, start_s=cut))
            elif act == "pause":
                rows.append(dataclasses.replace(row, start_s=moved(cut, by), end_s=moved(row.end_s, by)))
    return instance, Schedule(segments=tuple(rows), schedule_class=ScheduleClass.FLUID), slot


@given(damaged_on_a_grid())
def test_damaged_schedules_on_a_grid(drawn: tuple[Instance, Schedule, float]) -> None:
    """Jobs stopped, paused, ended a slot early or kept slots too long."""
    _compare(*drawn)


@pytest.mark.parametrize("mode", ["exact", "float"])
def test_held_slots_after_completion(mode: str) -> None:
    """A job that is done keeps no further slot, also where a neighbour's end changes its speed meanwhile."""
    # x and y are done after a slot of 20 s; y leaves at 20 s and x stays until 40 s. z is done at 20 s, too,
    # pauses, and comes back for exactly one slot.
    jobs = (job("x", "small", 1, 1), job("y", "small", 1, 1), job("z", "small", 1, 1))
    inst = instance_of(jobs, (node_type(), 1))
    held = schedule_of(
        seg("x", 0, 40, (0, 0)), seg("y", 0, 20, (0, 0)), seg("z", 0, 20, (0, 1)), seg("z", 40, 60, (0, 1))
    )
    held = dataclasses.replace(held, schedule_class=ScheduleClass.FLUID)
    found = check_report(inst, held, grid_s=20.0, _mode=mode)
    assert [(v.kind, v.job, v.amount) for v in found.violations] == [
        ("overrun", "x", 20.0),
        ("overrun", "z", 20.0),
    ]
    evaluation = evaluate(inst, held, grid_s=20.0)
    assert evaluation.problems == tuple(
        f"job '{n}' holds its GPUs 20 s after it has finished" for n in ("x", "z")
    )
    _agree(found, evaluation)


@pytest.mark.parametrize("mode", ["exact", "float"])
@pytest.mark.parametrize("off", [0.0, 9e-7, -9e-7, 2e-6])
def test_times_next_to_a_slot_boundary(mode: str, off: float) -> None:
    """Within the tolerance they are the boundary: no progress is lost, and nothing else is paid for."""
    clock = 1000.0
    inst = instance_of((job("x", "small", 1, 2, release_s=clock),))
    stated = schedule_of(seg("x", clock + off, clock + 20 - off, (0, 0)))
    found = check_report(inst, stated, grid_s=10.0, _mode=mode)
    if off == 2e-6:
        assert {v.kind for v in found.violations} >= {"slot"}
        with pytest.raises(ScheduleError, match="which is no boundary of slots of 10 s"):
            evaluate(inst, stated, grid_s=10.0)
    else:
        assert found.feasible
        assert found.avg_tpe_s == pytest.approx(10.0, rel=1e-12)
        _agree(found, evaluate(inst, stated, grid_s=10.0))


@pytest.mark.parametrize("mode", ["exact", "float"])
def test_ends_late_on_the_clock(mode: str) -> None:
    """Runs of 10 ms to an hour at 1.5e9 s are complete as their plan leads to them, and not much less."""
    # A float holds 2.4e-7 s there: 2.4e-5 of an epoch of 10 ms. Eight such places are excused at each change
    # of speed, 1e-4 s are not.
    clock = 1.5e9 + 0.3
    short = profile("short", 0.01, util=0.3, memory_gib=1.0)
    long = profile("long", 3600.0, util=0.4, memory_gib=1.0)
    jobs = (
        job("s", "short", 1, 3, release_s=clock),
        job("t", "short", 1, 7, release_s=clock + 0.7),
        job("l", "long", 1, 1, release_s=clock),
    )
    inst = instance_of(jobs, profiles=(short, long), truth=Interference(model="additive"))
    starts = {"s": clock + 0.1, "t": clock + 0.7, "l": clock}
    plan = Plan.of(inst, {n: Placement(start_s=t, gpus=((0, 0),)) for n, t in starts.items()})
    stated = plan_schedule(inst, plan)
    found = check_report(inst, stated, _mode=mode)
    assert found.feasible
    assert evaluate(inst, stated).feasible
    for i, row in enumerate(stated.segments):
        cut = list(stated.segments)
        cut[i] = dataclasses.replace(row, end_s=row.end_s - 1e-4)
        early = dataclasses.replace(stated, segments=tuple(cut))
        found = check_report(inst, early, _mode=mode)
        assert (row.job, "incomplete") in {(v.job, v.kind) for v in found.violations}
        assert evaluate(inst, early).physical_violations > 0
