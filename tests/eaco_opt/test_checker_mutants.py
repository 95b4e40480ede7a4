"""Correct schedules pass the checker, and every way of breaking one is reported by its name.

Each mutant names all kinds of violation it must give, no more and no fewer, and for the one it is about the
job, place, time and amount. The exact and the float mode must say the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from eaco_opt.checker import check, check_report
from eaco_opt.evaluation import VIOLATION_KINDS, Violation, ViolationClass
from eaco_opt.schedule import ScheduleClass
from tests.eaco_opt.checker_cases import CASES, Case, seg


@dataclass(frozen=True)
class Mutant:
    """A change to a correct schedule and what must be said about it."""

    kind: str
    case: str
    change: Callable[[Case], Case]
    job: str
    place: str
    time_s: float
    amount: float
    besides: frozenset[str] = frozenset()


def _mutant(
    kind: str,
    case: str,
    change: Callable[[Case], Case],
    found: tuple[str, str, float, float],
    *besides: str,
) -> Mutant:
    return Mutant(kind, case, change, *found, frozenset(besides))


MUTANTS = [
    # C, and with it 3 epochs, disappears; nobody shared with it.
    _mutant("missing-job", "mixed", lambda c: c.with_segments("C"), ("C", "", 0.0, 3.0)),
    # Without B, A is done after 60 s of its 85.
    _mutant("missing-job", "whole_node", lambda c: c.with_segments("B"), ("B", "", 0.0, 3.0), "overrun"),
    # Somebody else on D's GPU before it; not part of the problem, so nobody is slowed.
    _mutant(
        "unknown-job",
        "mixed",
        lambda c: c.with_segments("ghost", seg("ghost", 2, 9, (0, 3)), seg("ghost", 9, 10, (0, 2))),
        ("ghost", "", 2.0, 2.0),
    ),
    _mutant(
        "unknown-gpu",
        "mixed",
        lambda c: c.changed("D", gpus=((0, 9),)),
        ("D", "n0/9", 10.0, 1.0),
        "incomplete",
    ),
    _mutant(
        "unknown-gpu",
        "exclusive",
        lambda c: c.changed("F", gpus=((7, 0),)),
        ("F", "#7/0", 0.0, 1.0),
        "incomplete",
    ),
    # One of five GPUs does not exist; the other four go on.
    _mutant(
        "unknown-gpu",
        "multi_node",
        lambda c: c.changed("M", gpus=((0, 0), (0, 1), (1, 0), (1, 1), (6, 0))),
        ("M", "#6/0", 0.0, 1.0),
    ),
    _mutant("gpu-count", "mixed", lambda c: c.changed("B", gpus=((0, 1),)), ("B", "n0/1", 0.0, 1.0)),
    _mutant(
        "gpu-count",
        "multi_node",
        lambda c: c.changed("R", gpus=((4, 0), (4, 1))),
        ("R", "n4", 0.0, 1.0),
    ),
    # Two GPUs of one job on two nodes of 2.
    _mutant(
        "gang",
        "multi_node",
        lambda c: c.changed("Q", gpus=((3, 0), (4, 1))),
        ("Q", "n3+n4", 0.0, 2.0),
    ),
    # Five GPUs as 2 + 1 + 1 + 1 instead of 2 + 2 + 1.
    _mutant(
        "gang",
        "multi_node",
        lambda c: c.changed("M", gpus=((0, 0), (0, 1), (1, 0), (2, 0), (4, 1))),
        ("M", "n0+n1+n2+n4", 0.0, 4.0),
    ),
    # The rest on a node of another type.
    _mutant(
        "gang",
        "multi_node",
        lambda c: c.changed("M", gpus=((0, 0), (0, 1), (1, 0), (1, 1), (5, 1))),
        ("M", "n0+n1+n5", 0.0, 3.0),
    ),
    # A big job has no epoch time on w and makes no progress there.
    _mutant(
        "gpu-type",
        "multi_node",
        lambda c: c.changed("R", gpus=((5, 1),)),
        ("R", "n5/1", 0.0, 1.0),
        "incomplete",
    ),
    _mutant("release", "mixed", lambda c: c.changed("D", start_s=9.0, end_s=29.0), ("D", "n0/3", 9.0, 1.0)),
    # The second segment begins 5 s before the first has ended; B is there later.
    _mutant("overlap", "flowing", lambda c: c.changed("A", 1, start_s=10.0), ("A", "n0/1", 10.0, 5.0)),
    # A third job on GPUs for two: 15 s an epoch beside a big one, and the others are no slower for it.
    _mutant(
        "max-share",
        "whole_node",
        lambda c: c.changed("C", start_s=0.0, end_s=15.0),
        ("A+B+C", "n0", 0.0, 1.0),
    ),
    # 20 + 16 of 32 GiB is 1.125; 0.9 is allowed. Loads 0.4 + 0.5 are just allowed.
    _mutant(
        "memory",
        "model_parallel",
        lambda c: c.changed("Z", start_s=30.0, end_s=50.0),
        ("X+Z", "n0/0", 30.0, 0.225),
    ),
    _mutant(
        "exclusive",
        "exclusive",
        lambda c: c.changed("G", start_s=20.0, end_s=40.0),
        ("E+G", "n0/0", 20.0, 1.0),
    ),
    # Two that cannot share make no progress while they do.
    _mutant(
        "cannot-share",
        "model_parallel",
        lambda c: c.changed("L", start_s=30.0, end_s=40.0),
        ("X+L", "n0/1", 30.0, 1.0),
        "incomplete",
    ),
    # One second short of an epoch of 10 s.
    _mutant("incomplete", "whole_node", lambda c: c.changed("A", end_s=84.0), ("A", "", 84.0, 0.1)),
    # B leaves one second early (1/25 epoch); A, faster from 74 s on, is done 1/3 s before its end.
    _mutant(
        "incomplete", "whole_node", lambda c: c.changed("B", end_s=74.0), ("B", "", 74.0, 0.04), "overrun"
    ),
    # One slot short: 15 of 20 s done.
    _mutant("incomplete", "grid", lambda c: c.changed("B", end_s=35.0), ("B", "", 35.0, 0.5)),
    _mutant("overrun", "whole_node", lambda c: c.changed("C", end_s=96.0), ("C", "", 95.0, 1.0)),
    _mutant("overrun", "grid", lambda c: c.changed("A", end_s=65.0), ("A", "", 50.0, 15.0)),
    # A whole segment after completion.
    _mutant(
        "overrun",
        "flowing",
        lambda c: c.with_segments("A", *c.segments("A"), seg("A", 50, 60, (0, 0))),
        ("A", "", 40.0, 10.0),
    ),
    # The node needs until 20 s; A starts at 10 s.
    _mutant(
        "wake-up", "sleeping", lambda c: c.changed("A", start_s=10.0, end_s=40.0), ("A", "n0", 10.0, 10.0)
    ),
    # Released at 30 s, C cannot find its node awake before 50 s.
    _mutant(
        "wake-up", "sleeping", lambda c: c.changed("C", start_s=45.0, end_s=55.0), ("C", "n1", 45.0, 5.0)
    ),
    _mutant("class", "moving", lambda c: c.of_class(ScheduleClass.STATIC), ("A", "n1/0", 30.0, 1.0)),
    _mutant("class", "flowing", lambda c: c.of_class(ScheduleClass.EPOCH), ("A", "", 15.0, 0.5)),
    # Half an epoch earlier, made up for with 5 s at the end, after B.
    _mutant(
        "class",
        "moving",
        lambda c: c.changed("A", 0, end_s=15.0).changed("A", 1, end_s=59.0),
        ("A", "", 15.0, 0.5),
    ),
    # A pause on the same GPU is no run in one piece.
    _mutant(
        "class",
        "mixed",
        lambda c: c.with_segments("D", seg("D", 10, 20, (0, 3)), seg("D", 70, 80, (0, 3))),
        ("D", "n0/3", 70.0, 1.0),
    ),
    _mutant("slot", "grid", lambda c: c.changed("B", start_s=21.0), ("B", "", 21.0, 1.0)),
    _mutant("slot", "grid", lambda c: c.changed("B", end_s=49.0), ("B", "", 49.0, 1.0)),
    _mutant(
        "deadline",
        "whole_node",
        lambda c: c.changed("C", start_s=95.0, end_s=105.0),
        ("C", "", 100.0, 5.0),
    ),
    _mutant("deadline", "grid", lambda c: c.with_job("A", deadline_s=45.0), ("A", "", 45.0, 5.0)),
    # 0.5 + 0.7 is 0.3 above 0.9.
    _mutant("utilisation", "mixed", lambda c: c.changed("H", gpus=((0, 1),)), ("B+H", "n0/1", 30.0, 0.3)),
]


@pytest.mark.parametrize("mode", ["exact", "float"])
@pytest.mark.parametrize("name", CASES)
def test_correct_schedules_are_accepted(name: str, mode: str) -> None:
    """A schedule worked out by hand breaks no rule."""
    case = CASES[name]()
    report = check_report(case.instance, case.schedule, grid_s=case.grid_s, _mode=mode)
    assert report.violations == ()
    assert report.feasible and report.mode == mode
    assert [epochs for _, epochs in report.progress] == pytest.approx([j.epochs for j in case.instance.jobs])


@pytest.mark.parametrize("mode", ["exact", "float"])
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda m: f"{m.kind}-{m.case}")
def test_mutants_are_reported(mutant: Mutant, mode: str) -> None:
    """A broken schedule gives exactly the violations it deserves, with job, place, time and amount."""
    case = mutant.change(CASES[mutant.case]())
    report = check_report(case.instance, case.schedule, grid_s=case.grid_s, _mode=mode)
    assert {v.kind for v in report.violations} == {mutant.kind, *mutant.besides}
    found = [v for v in report.violations if v.kind == mutant.kind]
    assert (mutant.job, mutant.place) in [(v.job, v.place) for v in found]
    first = next(v for v in found if v.job == mutant.job)
    assert first.time_s == pytest.approx(mutant.time_s)
    assert first.amount == pytest.approx(mutant.amount)
    assert first.text and all(name in first.text for name in mutant.job.split("+"))
    assert not report.feasible
    counted = {
        ViolationClass.PHYSICAL: report.physical_violations,
        ViolationClass.DEADLINE: report.deadline_misses,
        ViolationClass.THRESHOLD: report.threshold_violations,
    }
    for violation_class, number in counted.items():
        assert number == sum(v.violation_class is violation_class for v in report.violations)


def test_every_kind_of_violation_has_a_mutant() -> None:
    """No word of the vocabulary goes untested."""
    assert {m.kind for m in MUTANTS} == set(VIOLATION_KINDS)


def test_all_violations_are_returned_by_time() -> None:
    """One bad schedule gives all its violations at once, in order of time."""
    case = CASES["mixed"]()
    for change in (
        lambda c: c.changed("D", start_s=9.0, end_s=29.0),
        lambda c: c.changed("H", gpus=((0, 1),)),
        lambda c: c.changed("B", end_s=41.0),
        lambda c: c.with_segments("C"),
    ):
        case = change(case)
    found = check(case.instance, case.schedule)
    assert isinstance(found, list) and all(isinstance(v, Violation) for v in found)
    assert [(v.kind, v.job) for v in found] == [
        ("missing-job", "C"),
        ("release", "D"),
        ("utilisation", "B+H"),
        ("deadline", "B"),
        ("overrun", "B"),
    ]
