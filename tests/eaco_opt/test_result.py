"""Results: what they hold, their gap, and their row."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from eaco_opt.evaluation import VIOLATION_KINDS, Evaluation, Violation, ViolationClass
from eaco_opt.physics import evaluate
from eaco_opt.result import Result, Status, StopReason
from eaco_opt.schedule import Schedule
from tests.eaco_opt.checker_cases import CASES


def result(**fields: Any) -> Result:
    case = CASES["mixed"]()
    valid: dict[str, Any] = {
        "method": "by hand",
        "schedule": case.schedule,
        "evaluation": evaluate(case.instance, case.schedule),
        "status": Status.FEASIBLE,
        "stop_reason": StopReason.FINISHED,
    }
    return Result(**{**valid, **fields})


def test_gap_needs_a_positive_bound_and_a_feasible_schedule() -> None:
    """(objective - bound) / bound; absent, never made up."""
    whole = result()
    assert whole.evaluation is not None and whole.evaluation.feasible
    objective = whole.evaluation.objective
    assert (whole.objective, whole.gap) == (objective, None)
    assert result(bound=objective / 1.25).gap == pytest.approx(0.25)
    assert result(bound=objective).gap == 0.0
    assert result(bound=0.0).gap is None
    assert result(bound=-1.0).gap is None
    late = dataclasses.replace(whole.evaluation, deadline_misses=1)
    assert result(bound=1.0, evaluation=late).gap is None
    none = result(schedule=None, evaluation=None, status=Status.INFEASIBLE, bound=1.0)
    assert (none.objective, none.gap) == (None, None)


@pytest.mark.parametrize("field", ["physical_violations", "threshold_violations", "deadline_misses"])
def test_any_violation_makes_an_evaluation_infeasible(field: str) -> None:
    """Feasible means no violation of any class."""
    e = result().evaluation
    assert e is not None and e.feasible
    assert not dataclasses.replace(e, **{field: 1}).feasible


def test_row_is_flat_and_in_the_units_shown() -> None:
    """One cell a key; energy in kWh, times in hours; without a schedule no metrics."""
    whole = result(bound=0.5, seed=3, instance_digest="abc")
    row, e = whole.row(), whole.evaluation
    assert e is not None
    assert (row["method"], row["class"], row["status"], row["stop_reason"]) == (
        "by hand",
        "static",
        "feasible",
        "finished",
    )
    assert (row["bound"], row["gap"], row["seed"], row["digest"]) == (0.5, whole.gap, 3, "abc")
    assert row["energy_kwh"] == e.energy_j / 3.6e6
    assert row["node_hours"] == e.node_s / 3600
    assert {f: row[f"{f}_h"] for f in ("avg_tpe", "mean_jct", "mean_wait", "mean_jtt", "makespan")} == {
        f: getattr(e, f"{f}_s") / 3600 for f in ("avg_tpe", "mean_jct", "mean_wait", "mean_jtt", "makespan")
    }
    assert all(value is None or isinstance(value, (str, int, float)) for value in row.values())
    none = result(schedule=None, evaluation=None, status=Status.UNKNOWN, stop_reason=StopReason.TIME_LIMIT)
    assert none.row() == {
        "method": "by hand", "class": None, "status": "unknown", "stop_reason": "time-limit", "bound": None,
        "gap": None, "build_s": 0.0, "solve_s": 0.0, "seed": 0, "digest": "",
    }  # fmt: skip


def test_violations_know_their_class() -> None:
    """Every kind has a class; only U_threshold is of class threshold, only deadlines of class deadline."""
    by_class: dict[ViolationClass, list[str]] = {c: [] for c in ViolationClass}
    for kind in VIOLATION_KINDS:
        violation = Violation(kind=kind, job="j", place="n/0", time_s=0.0, amount=1.0, text="")
        by_class[violation.violation_class].append(kind)
    assert by_class[ViolationClass.DEADLINE] == ["deadline"]
    assert by_class[ViolationClass.THRESHOLD] == ["utilisation"]
    assert len(by_class[ViolationClass.PHYSICAL]) == len(VIOLATION_KINDS) - 2


def test_both_parts_of_a_result_are_given_or_neither() -> None:
    """A schedule without its value, or a value without its schedule, is refused."""
    e: Evaluation | None = result().evaluation
    for fields in ({"schedule": None}, {"evaluation": None}):
        with pytest.raises(ValueError, match="give schedule and evaluation together"):
            result(**fields)
    assert e is not None
    assert result(schedule=Schedule(segments=())).schedule == Schedule(segments=())
