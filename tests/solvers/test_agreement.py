"""Exact methods agree with brute force, and with each other, on random instances over all features.

Brute force knows nothing of the formulations, the checker nothing of either. 200 instances run by default, in
chunks so that several workers share them; 20,000, and larger ones, are marked slow. A wrong word of CBC is
counted and listed as a warning if it is caught as a contradiction once a feasible schedule is known; any
other difference fails.
"""

from __future__ import annotations

import dataclasses
import math
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from eaco_opt.checker import check, check_report
from eaco_opt.errors import ImpossibleJobsError
from eaco_opt.evaluation import Evaluation
from eaco_opt.instance import Instance
from eaco_opt.physics import evaluate
from eaco_opt.policies import POLICIES, make_policy
from eaco_opt.result import Result, Status, StopReason
from eaco_opt.schedule import ScheduleClass
from eaco_opt.simulator import simulate
from formulations.base import FormulationError, UncoveredFeatureError
from solvers import solve
from solvers.backends.cbc import Cbc
from solvers.bruteforce import bruteforce
from tests.experiments.tiny import two_in_a_row
from tests.solvers.random_instances import FEATURES, SLOT_S, agreement_instance, features

pytestmark = pytest.mark.filterwarnings("ignore:PULP_CBC_CMD is deprecated:DeprecationWarning")

INSTANCES, CHUNK = 200, 20
SLOW_INSTANCES, SLOW_CHUNK, SLOW_FROM = 20_000, 200, 1_000
LARGER, LARGER_CHUNK, LARGER_FROM = 400, 20, 100_000

TOLERANCE = 1e-6
"""Share of the objective within which an optimum is proved (docs/exact.md section 3.1)."""

WAYS: dict[str, tuple[str, dict[str, Any]]] = {
    "milp": ("milp", {}),
    "milp by CBC": ("milp", {"backend": "cbc"}),
    "cpsat": ("cpsat", {}),
    "branch-and-price": ("branch-and-price", {}),
}

NEVER_HERE = {"wake-up time", "wake-up energy"}
"""Features that only brute force covers; tests/solvers/test_methods.py shows that the others refuse them."""


class CbcWasWrong(UserWarning):
    """CBC called a feasible instance infeasible, or a schedule optimal that is not, and was caught."""


def ask(problem: Instance, way: str, **more: Any) -> Result | None:
    """Return the answer of a method that is told nothing but the instance; `None` if it is not covered."""
    method, options = WAYS[way]
    own = {**options, "process": "shared", "policies": False}
    try:
        return solve(problem, method, grid_s=SLOT_S, options=own, **more)
    except UncoveredFeatureError:
        return None


def policies(problem: Instance) -> Iterator[tuple[str, Evaluation]]:
    """Yield the static schedule of each policy on the grid; none where jobs cannot run at all."""
    for name in POLICIES.names():
        try:
            run = simulate(problem, make_policy(name), 0, grid_s=SLOT_S)
        except ImpossibleJobsError:
            continue
        assert run.schedule.schedule_class is ScheduleClass.STATIC
        yield name, run.evaluation


def same(a: float, b: float) -> bool:
    return math.isclose(a, b, rel_tol=TOLERANCE, abs_tol=1e-12)


def faults(problem: Instance, truth: Result, found: Result) -> Iterator[str]:
    """Yield what is wrong with an answer, given that of brute force."""
    if found.status is not truth.status or found.stop_reason is not StopReason.FINISHED:
        yield f"{found.status}, {found.stop_reason} ({found.message}) instead of {truth.status}"
    if found.schedule is None or found.objective is None:
        if found.bound is not None:
            yield f"a bound of {found.bound!r} without a schedule"
        return
    if truth.objective is not None and not same(found.objective, truth.objective):
        yield f"{found.objective!r} instead of {truth.objective!r}"
    yield from (f"the checker: {v.text}" for v in check(problem, found.schedule, grid_s=SLOT_S))
    # "Proved": by code that did not produce the schedule.
    report = check_report(problem, found.schedule, grid_s=SLOT_S)
    again = evaluate(problem, found.schedule, grid_s=SLOT_S)
    if not again.feasible or not same(again.objective, report.objective):
        yield f"evaluate and checker: {again.objective!r} and {report.objective!r}"
    if found.bound is None or not same(found.bound, again.objective):
        yield f"a bound of {found.bound!r} does not meet {again.objective!r}"


def caught(problem: Instance, way: str, truth: Result) -> bool:
    """Tell whether a wrong answer is seen to be one as soon as a feasible schedule is known."""
    if truth.schedule is None:
        return False
    try:
        again = ask(problem, way, start=truth.schedule)
    except FormulationError as error:
        return "lies above the objective" in str(error)
    assert again is not None
    contradicts = again.stop_reason is StopReason.ERROR and again.message.startswith("contradiction")
    return contradicts and again.objective == truth.objective and again.bound is None


def compare(seeds: Iterable[int], ways: Iterable[str] = tuple(WAYS), **sizes: Any) -> Counter[str]:
    """Assert agreement on instances, and return how many there were and how many each method covers."""
    seen: Counter[str] = Counter()
    wrong: list[str] = []
    ways = [way for way in ways if way != "milp by CBC" or Cbc().available()]
    for seed in seeds:
        problem = agreement_instance(seed, **sizes)
        truth = bruteforce(problem, grid_s=SLOT_S)
        assert truth.status in (Status.OPTIMAL, Status.INFEASIBLE)
        seen.update(["instances", truth.status.value])
        wrong += [f"seed {seed}, brute force: {fault}" for fault in faults(problem, truth, truth)]
        names = set()
        for way in ways:
            found = ask(problem, way)
            if found is None:
                continue
            names.add(WAYS[way][0])
            seen[way] += 1
            here = [f"seed {seed}, {way}: {fault}" for fault in faults(problem, truth, found)]
            if here and way == "milp by CBC" and caught(problem, way, truth):
                seen["CBC was wrong"] += 1
                warnings.warn("; ".join(here), CbcWasWrong, stacklevel=2)
                continue
            wrong += here
        if len(names) < 2:
            wrong.append(f"seed {seed}: only {names} beside brute force")
        best = math.inf if truth.objective is None else truth.objective
        for name, value in policies(problem):
            if value.feasible and value.objective < best * (1.0 - 1e-9):
                wrong.append(f"seed {seed}: {name} reaches {value.objective!r}, less than {best!r}")
    assert not wrong, "\n".join(wrong)
    return seen


@pytest.mark.parametrize("first", range(0, INSTANCES, CHUNK))
def test_all_methods_find_the_optimum_of_brute_force(first: int) -> None:
    """Same optimum or all infeasible, proved and checked, at least two methods each, beaten by no policy."""
    seen = compare(range(first, first + CHUNK))
    assert seen["instances"] == CHUNK
    assert seen["milp"] == seen["cpsat"] == CHUNK  # they cover all of it
    assert seen["branch-and-price"] >= CHUNK // 2  # all but jobs over several nodes


def test_the_instances_are_not_trivial() -> None:
    """Of those 200: 60 % feasible, each feature in 20, sharing better in 40 %, EaCO not optimal in 30 %.

    Sharing is better where no schedule without it is as good, or feasible at all; EaCO is not optimal where
    its schedule is worse than the optimum, those that break a deadline apart.
    """
    seen: Counter[str] = Counter()
    for seed in range(INSTANCES):
        problem = agreement_instance(seed)
        assert 2 <= len(problem.jobs) <= 5
        seen.update(features(problem))
        seen[f"{len(problem.jobs)} jobs"] += 1
        best = bruteforce(problem, grid_s=SLOT_S).objective
        if best is None:
            seen["infeasible"] += 1
            continue
        seen["feasible"] += 1
        limits = dataclasses.replace(problem.limits, max_share=1)
        alone = bruteforce(dataclasses.replace(problem, limits=limits), grid_s=SLOT_S).objective
        seen["sharing"] += alone is None or (alone > best and not same(alone, best))
        eaco = dict(policies(problem)).get("eaco")
        seen["eaco worse"] += eaco is not None and eaco.feasible and not same(eaco.objective, best)
    assert seen["feasible"] >= 0.6 * INSTANCES, seen
    assert seen["infeasible"] >= 0.1 * INSTANCES, seen
    assert seen["sharing"] >= 0.4 * INSTANCES, seen
    assert seen["eaco worse"] >= 0.3 * INSTANCES, seen
    for name in (*FEATURES, *(f"{n} jobs" for n in range(2, 6))):
        assert seen[name] >= 20 or name in NEVER_HERE, (name, seen)


def test_a_wrong_answer_is_not_passed_over() -> None:
    """The comparison can fail: a bound that is too low, a wrong "infeasible", a schedule that is worse.

    Two jobs of 1000 s: together 1500 s, 3 slots; in turn, as FIFO has them, 4.
    """
    problem = two_in_a_row(slowdown=1.5, alpha=1.0)
    truth = bruteforce(problem, grid_s=SLOT_S)
    assert truth.bound is not None and truth.evaluation is not None
    assert not list(faults(problem, truth, truth))
    assert not Cbc().available() or not caught(problem, "milp by CBC", truth)  # it says nothing wrong here
    low = dataclasses.replace(truth, bound=truth.bound * (1.0 - 1e-5))
    assert [f[:10] for f in faults(problem, truth, low)] == ["a bound of"]
    empty = Result(
        method="none", schedule=None, evaluation=None, status=Status.INFEASIBLE,
        stop_reason=StopReason.FINISHED,
    )  # fmt: skip
    assert [f[:10] for f in faults(problem, truth, empty)] == ["infeasible"]
    worse = solve(problem, "fifo", grid_s=SLOT_S)
    claimed = dataclasses.replace(worse, status=Status.OPTIMAL, bound=worse.objective)
    assert list(faults(problem, truth, claimed)) == [f"{worse.objective!r} instead of {truth.objective!r}"]


@pytest.mark.slow
@pytest.mark.parametrize("first", range(SLOW_FROM, SLOW_FROM + SLOW_INSTANCES, SLOW_CHUNK))
def test_all_methods_find_the_optimum_of_brute_force_at_length(first: int) -> None:
    """20,000 further instances."""
    assert compare(range(first, first + SLOW_CHUNK))["instances"] == SLOW_CHUNK


@pytest.mark.slow
@pytest.mark.parametrize("first", range(LARGER_FROM, LARGER_FROM + LARGER, LARGER_CHUNK))
def test_all_methods_find_the_optimum_of_brute_force_on_larger_ones(first: int) -> None:
    """400 instances of up to ten times the plans and four times the size; without CBC, which is too slow."""
    ways = [way for way in WAYS if way != "milp by CBC"]
    seen = compare(range(first, first + LARGER_CHUNK), ways, most_plans=3e7, most_nonzeros=12_000)
    assert seen["instances"] == LARGER_CHUNK
