"""`solvers.run`: one method at a time, and the list of methods."""

from __future__ import annotations

from typing import Any

import pytest

import eaco_opt
from eaco_opt.checker import check
from eaco_opt.errors import EacoError, ImpossibleJobsError, UnknownNameError
from eaco_opt.instance import Instance
from eaco_opt.physics import evaluate
from eaco_opt.policies import POLICIES
from eaco_opt.registry import Registry
from eaco_opt.result import Result, Status, StopReason
from eaco_opt.schedule import Schedule, ScheduleClass
from formulations.grid import automatic_slot_s
from solvers import base, catalogue, run
from solvers.base import Request
from solvers.catalogue import methods
from solvers.run import solve
from solvers.verify import InternalError
from tests.experiments.test_compare import Lifo, static
from tests.experiments.tiny import instance, job, two_in_a_row


class InARow:
    """Places jobs one after the other; stands for a method that is not a policy."""

    kind = "toy"
    schedule_class = "static"
    exact = True
    online = False
    covers = ("continuous-time",)
    claims_ends: tuple[float, float] = (1000.0, 2000.0)

    def available(self) -> bool:
        return True

    def solve(self, problem: Instance, request: Request) -> Result:
        self.request = request
        if request.options.get("infeasible"):
            return Result(
                method="toy",
                schedule=None,
                evaluation=None,
                status=Status.INFEASIBLE,
                stop_reason=StopReason.FINISHED,
            )
        schedule = static(("a", 0.0, 1000.0), ("b", 1000.0, 2000.0))
        wrong = static(("a", 0.0, 1000.0), ("b", 900.0, 1900.0))
        return Result(
            method="toy",
            schedule=wrong if request.options.get("wrong") else schedule,
            evaluation=evaluate(problem, schedule),
            status=Status.OPTIMAL,
            stop_reason=StopReason.FINISHED,
            bound=0.5,
        )


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Register the toy method for one test."""
    registry = Registry("method", "eaco_opt.methods")
    registry.register("toy", f"{__name__}:InARow")
    for module in (base, catalogue, run):
        monkeypatch.setattr(module, "METHODS", registry)
    monkeypatch.setitem(__import__("sys").modules, __name__, __import__("sys").modules[__name__])


@pytest.mark.parametrize("name", POLICIES.names())
def test_every_policy_is_solved_and_checked(name: str) -> None:
    """Each registered policy gives a schedule that the checker accepts, with the digest of the instance."""
    problem = two_in_a_row()
    result = eaco_opt.solve(problem, name)
    assert (result.method, result.status, result.stop_reason) == (name, Status.FEASIBLE, StopReason.FINISHED)
    assert result.schedule is not None
    assert check(problem, result.schedule) == []
    assert result.schedule.instance_digest == result.instance_digest == eaco_opt.instance_digest(problem)
    assert dict(result.versions)["eaco-opt"] == eaco_opt.__version__


def test_a_policy_object() -> None:
    """An object of the user's own works as well."""
    assert solve(two_in_a_row(), Lifo()).method == "lifo"


@pytest.mark.parametrize(
    ("method", "options", "kind", "text"),
    [
        ("nope", {}, UnknownNameError, "unknown method 'nope'; known are: fifo, "),
        (Lifo, {}, EacoError, "method must be one of fifo, .* or a policy object"),
        (Lifo(), {"options": {"x": 1}}, EacoError, "options belong to registered names"),
        ("fifo", {"gap": 0.1}, EacoError, "gap has no effect on it"),
        ("fifo", {"start": Schedule(segments=())}, EacoError, "start has no effect on it"),
        ("fifo", {"grid_s": "fine"}, EacoError, "grid_s must be a number of seconds, 'auto' or None"),
        ("fifo", {"time_limit_s": -1.0}, EacoError, "time_limit_s must be at least 0"),
        ("fifo", {"seed": -1}, EacoError, "seed must be at least 0"),
    ],
)
def test_what_does_not_apply_is_refused(method: Any, options: Any, kind: type[Exception], text: str) -> None:
    """Nothing that a caller asks for is left out silently."""
    with pytest.raises(kind, match=text):
        solve(two_in_a_row(), method, **options)


def test_impossible_jobs_stop_a_policy() -> None:
    """The job is named."""
    with pytest.raises(ImpossibleJobsError, match="'huge'"):
        solve(instance(job("a"), job("huge", gpus=4)), "fifo")


def test_no_time_is_unknown() -> None:
    """A policy stopped by its limit has neither schedule nor bound."""
    result = solve(two_in_a_row(), "eaco", time_limit_s=0.0)
    assert (result.status, result.stop_reason) == (Status.UNKNOWN, StopReason.TIME_LIMIT)
    assert result.schedule is result.evaluation is result.bound is None


def test_automatic_slots_fit_the_shortest_job() -> None:
    """The longest step not above a quarter of the shortest job: of 1000 s 120 s, of 50 s 10 s."""
    assert automatic_slot_s(two_in_a_row()) == 120.0  # 250 s: between 120 and 300
    assert automatic_slot_s(instance(job("a"), job("b", "fast", epochs=1))) == 10.0  # 12.5 s
    assert automatic_slot_s(instance()) == 86400.0
    result = solve(two_in_a_row(), "fifo", grid_s="auto")
    assert result.evaluation is not None and result.evaluation.grid_s == 120.0


def test_on_a_grid_every_policy_is_static() -> None:
    """Static form: no undo and no re-pairing."""
    for name in POLICIES.names():
        result = solve(two_in_a_row(), name, grid_s=500.0)
        assert result.schedule is not None
        assert result.schedule.schedule_class is ScheduleClass.STATIC
        assert check(two_in_a_row(), result.schedule, grid_s=500.0) == []


def test_the_list_of_methods() -> None:
    """All policies are listed, with what they are and can."""
    found = {m.name: m for m in methods()}
    assert tuple(found)[: len(POLICIES.names())] == POLICIES.names()
    eaco = found["eaco"].row()
    assert (eaco["kind"], eaco["class"], eaco["exact"], eaco["online"], eaco["available"]) == (
        "policy",
        "epoch",
        False,
        True,
        True,
    )
    assert "multi-node-jobs" in eaco["covers"]
    assert eaco["text"]


def test_a_policy_that_cannot_be_imported_is_listed_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    """A missing library takes one method away, not the list."""
    registry = Registry("policy", "eaco_opt.none")
    registry.register("broken", "no_such_module_at_all:Policy")
    monkeypatch.setattr(catalogue, "POLICIES", registry)
    (info,) = [m for m in methods() if m.name == "broken"]
    assert not info.available
    assert "no_such_module_at_all" in info.text


@pytest.mark.usefixtures("toy")
def test_methods_that_are_no_policies() -> None:
    """A registered method is listed, run with the request, and its answer checked."""
    (info,) = [m for m in methods() if m.name == "toy"]
    assert (info.kind, info.exact, info.online, info.covers) == ("toy", True, False, ("continuous-time",))
    result = solve(two_in_a_row(), "toy", gap=0.01, threads=2, options={"x": 1})
    assert result.status is Status.OPTIMAL
    assert result.gap == pytest.approx(1.0)
    with pytest.raises(InternalError, match="'toy'"):
        solve(two_in_a_row(), "toy", options={"wrong": True})
    assert solve(two_in_a_row(), "toy", options={"infeasible": True}).status is Status.INFEASIBLE
    with pytest.raises(EacoError, match="history has no effect"):
        solve(two_in_a_row(), "toy", history=two_in_a_row().truth)
