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
from eaco_opt.limits import ObjectiveForm
from eaco_opt.physics import evaluate, plan_schedule
from eaco_opt.schedule import Placement, Plan, Schedule, ScheduleClass
from tests.strategies import small_instances_with_plans, small_instances_with_schedules

Drawn = tuple[Instance, dict[str, Placement]]

MODES = st.sampled_from(["exact", "float"])
# Powers of ten and others: epochs of 0.01 to 2e7 s.
SCALES = st.sampled_from([1e-3, 0.3, 1.0, 1e4])
SLOTS = st.sampled_from([7.0, 100.0, 333.3, 3600.0])

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


def _agree(found: CheckReport, evaluation: Evaluation) -> None:
    """Costs agree within 1e-9, misses in number, other classes of violation in whether there are any."""

    def near(value: float) -> object:
        return pytest.approx(value, rel=1e-9, abs=1e-12)

    assert found.energy_j == near(evaluation.energy_j)
    for field in dataclasses.fields(found.energy):
        # The residual of a look-up is a difference: the server's part may be much smaller than its terms.
        part = pytest.approx(getattr(evaluation.energy, field.name), rel=1e-9, abs=1e-9 * evaluation.energy_j)
        assert getattr(found.energy, field.name) == part
    assert found.avg_tpe_s == near(evaluation.avg_tpe_s)
    assert found.mean_jtt_s == near(evaluation.mean_jtt_s)
    assert found.makespan_s == near(evaluation.makespan_s)
    if found.reference_energy_j is not None:
        assert found.reference_energy_j == near(evaluation.reference_energy_j)
        assert found.reference_tpe_s == near(evaluation.reference_tpe_s)
        assert found.reference_jtt_s == near(evaluation.reference_jtt_s)
    if found.objective is not None:
        assert found.objective == near(evaluation.objective)
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
