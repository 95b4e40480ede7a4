"""Searches in a process of their own: whatever becomes of it, the best plan that was told is the answer."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eaco_opt.errors import EacoError
from eaco_opt.io import instance_digest
from eaco_opt.result import Result, Status, StopReason
from eaco_opt.schedule import Plan
from formulations.base import Outcome, UncoveredFeatureError
from solvers import isolation, solve
from solvers.base import Request, SearchProgress
from solvers.isolation import event_document, event_from, task_document, task_from, wall_limit_s
from solvers.memory import TooLargeError
from solvers.search import Event, Task
from solvers.verify import InternalError
from tests.experiments.tiny import instance, job, two_in_a_row
from tests.solvers.misbehaving import Misbehaving

needs_posix = pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")


def misbehave(how: str, *, hook: Any = None, limit: float | None = None, **options: Any) -> Result:
    request = Request(
        grid_s=500.0, time_limit_s=limit, progress=hook, options={"how": how, **options}, seed=3
    )
    return Misbehaving().solve(two_in_a_row(), request)


# two_in_a_row: a and b of 2 slots of 500 s on one node, half speed together. FIFO in static form: a then b, 4
# slots of energy; that is the start of every search below.
def assert_is_start(result: Result) -> None:
    assert result.schedule is not None and result.evaluation is not None and result.status is Status.FEASIBLE
    assert result.evaluation.makespan_s == 2000.0
    assert result.curve[0][1] == result.objective


class _Clock:
    """A clock that stands still until it is told to jump."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def time(self) -> float:
        return time.time()


def test_a_solver_that_hangs_is_killed_and_its_incumbent_returned(monkeypatch: pytest.MonkeyPatch) -> None:
    """Field note 8: limits are overrun. An outer clock ends the process: start and told bound stay."""
    clock = _Clock()
    monkeypatch.setattr(isolation, "time", clock)

    def hook(at: SearchProgress) -> None:
        if at.bound is not None:  # told right before it hangs
            clock.now = 1e6

    result = misbehave("hang", hook=hook, limit=500.0)
    assert_is_start(result)
    assert (result.stop_reason, result.bound) == (StopReason.TIME_LIMIT, 0.25)
    assert "killed after 1000000.0 s" in result.message


def test_the_wall_clock_guards_deterministic_limits_too() -> None:
    """Limit plus 5 %, at least 2 s more; ten times a deterministic limit; never without a limit."""
    task = Task(target="x:y", instance=two_in_a_row())
    assert wall_limit_s(task) is None
    assert wall_limit_s(Task(target="x:y", instance=two_in_a_row(), time_limit_s=10.0)) == 12.0
    assert wall_limit_s(Task(target="x:y", instance=two_in_a_row(), time_limit_s=100.0)) == 105.0
    slow = Task(target="x:y", instance=two_in_a_row(), time_limit_s=100.0, deterministic=True)
    assert wall_limit_s(slow) == 1050.0


@needs_posix
@pytest.mark.parametrize(
    ("how", "text"),
    [
        ("kill", "ended by signal SIGKILL, perhaps for want of memory"),
        ("segfault", "ended by signal SIGSEGV"),
        ("exit", "ended with code 7 and no outcome: somebody called exit"),
    ],
)
def test_a_solver_that_dies_leaves_its_incumbent(how: str, text: str) -> None:
    """A crash is no crash of ours: the start is returned, and the message says what happened."""
    result = misbehave(how)
    assert_is_start(result)
    assert result.stop_reason is StopReason.ERROR
    assert text in result.message


@needs_posix
def test_a_solver_that_dies_with_nothing_found_is_unknown() -> None:
    """No schedule, no bound, and why."""
    result = misbehave("kill", policies=False)
    assert (result.status, result.stop_reason) == (Status.UNKNOWN, StopReason.ERROR)
    assert result.schedule is result.bound is None
    assert "SIGKILL" in result.message


def test_errors_of_the_child_are_raised_here() -> None:
    """Errors of the user keep class and text; a bug is an internal error that names it."""
    with pytest.raises(EacoError, match="told in the child"):
        misbehave("error")
    with pytest.raises(InternalError, match="ZeroDivisionError: a bug"):
        misbehave("bug")
    with pytest.raises(TooLargeError, match=r"Choose a longer slot.*another method"):
        misbehave("huge")


def test_uncovered_features_keep_their_list() -> None:
    """What a formulation does not cover is an attribute of the error, also through the pipe."""
    error = isolation._error(isolation.error_document(UncoveredFeatureError("f", ["a", "b"]), ""))
    assert isinstance(error, UncoveredFeatureError) and error.features == ("a", "b")
    assert str(error) == str(UncoveredFeatureError("f", ["a", "b"]))


def test_ctrl_c_returns_the_incumbent() -> None:
    """The first Ctrl-C ends the solver; what it told is the answer, and the reason is said."""

    def hook(at: SearchProgress) -> None:
        if at.bound is not None:
            signal.raise_signal(signal.SIGINT)

    result = misbehave("hang", hook=hook)
    assert_is_start(result)
    assert (result.stop_reason, result.bound) == (StopReason.INTERRUPTED, 0.25)


def test_a_second_ctrl_c_aborts(monkeypatch: pytest.MonkeyPatch) -> None:
    """While the answer of the first is put together, another one is an ordinary KeyboardInterrupt."""

    def hook(at: SearchProgress) -> None:
        if at.bound is not None:
            raise KeyboardInterrupt

    def closing(child: object) -> None:
        raise KeyboardInterrupt

    killed = isolation._Child.close
    monkeypatch.setattr(isolation._Child, "close", lambda child: (killed(child), closing(child)))
    with pytest.raises(KeyboardInterrupt):
        misbehave("hang", hook=hook)


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="memory of a process is read from /proc")
def test_a_solver_that_eats_memory_is_killed() -> None:
    """Above the cap it ends, with its incumbent and advice."""
    result = misbehave("memory", memory_gib=0.8)
    assert_is_start(result)
    assert result.stop_reason is StopReason.ERROR
    assert "than the 0.80 GiB that it may use; choose a longer slot" in result.message


def test_answer_is_never_worse_than_the_start() -> None:
    """A solver that finds nothing leaves the start."""
    result = misbehave("nothing")
    assert_is_start(result)
    assert result.stop_reason is StopReason.TIME_LIMIT


def test_infeasible_against_a_feasible_start_is_a_contradiction() -> None:
    """Field note 2: the schedule stays, and it is said; nobody is told that there is none."""
    result = misbehave("infeasible")
    assert_is_start(result)
    assert (result.stop_reason, result.bound) == (StopReason.ERROR, None)
    assert result.message == "contradiction: says no, but a feasible plan is known"
    assert misbehave("infeasible", policies=False).status is Status.INFEASIBLE


def test_a_bound_above_a_feasible_schedule_is_an_error() -> None:
    """Such a bound is wrong, and so is everything that rests on it."""
    with pytest.raises(InternalError, match="lies above the objective"):
        misbehave("high")


def test_tasks_and_events_cross_the_pipe_unchanged() -> None:
    """Exactly, through JSON text: instance, start, limits; plan, bound and outcome."""
    problem = instance(job("a"), job("b", release_s=0.1), nodes=2)
    start = solve(problem, "fifo", grid_s=500.0).schedule
    task = Task(target="m:C", instance=problem, grid_s=0.1, gap=1e-3, start=start, options={"x": None})
    back = task_from(json.loads(json.dumps(task_document(task))))
    assert back == task and instance_digest(back.instance) == instance_digest(problem)
    limited = task_from(task_document(Task(target="m:C", instance=problem, time_limit_s=100.0)))
    assert limited.time_limit_s is not None and 0.0 < limited.time_limit_s <= 100.0
    plan = Plan(np.array([0.1, 1e300]), np.array([0, 1, 2, 3]))
    outcome = Outcome(
        status=Status.FEASIBLE, stop_reason=StopReason.WORK_LIMIT, plan=plan, objective=1 / 3, bound=None
    )
    event = event_from(json.loads(json.dumps(event_document(Event(bound=0.1, outcome=outcome)))))
    assert event.outcome is not None and event.outcome.plan is not None
    assert event.bound == 0.1 and event.outcome.objective == 1 / 3 and event.outcome.bound is None
    assert event.outcome.plan.start_s.tolist() == plan.start_s.tolist()
    assert (event.outcome.status, event.outcome.stop_reason) == (Status.FEASIBLE, StopReason.WORK_LIMIT)


ORPHAN = """
import subprocess
real = subprocess.Popen
def told(*words, **more):
    made = real(*words, **more)
    print(made.pid, flush=True)
    return made
subprocess.Popen = told
from tests.solvers.test_isolation import misbehave
misbehave("hang", hook=lambda at: print("hangs", flush=True) if at.bound is not None else None)
"""


def _runs(pid: int) -> bool:
    """Tell whether a process is there, and not only waiting to be buried."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="processes are looked up in /proc")
def test_the_child_ends_with_its_parent() -> None:
    """A parent that is killed leaves no solver behind."""
    root = Path(__file__).resolve().parents[2]
    parent = subprocess.Popen([sys.executable, "-c", ORPHAN], cwd=root, stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    assert parent.stdout.readline() == "hangs\n" and _runs(child)
    parent.kill()
    parent.wait()
    parent.stdout.close()
    while _runs(child):
        time.sleep(0.05)


def test_options_for_another_process_are_plain_values() -> None:
    """An object cannot be sent; the text says what to do."""
    with pytest.raises(EacoError, match="process='shared'"):
        misbehave("nothing", policies=object())
