"""One exact search from grid to outcome: what runs in this process or in one of its own.

:func:`search` takes a :class:`Task` and tells what happens through one function: plans that were found,
bounds that were proved, and the outcome. So whoever listens has the best plan so far, whatever becomes
of the search (:mod:`solvers.isolation`). Order: grid, features, start, size, build, solve.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from eaco_opt.arrays import time_tolerance_s
from eaco_opt.errors import EacoError, ImpossibleJobsError, ScheduleError
from eaco_opt.impossible import impossible_jobs
from eaco_opt.instance import Instance
from eaco_opt.physics import evaluate, plan_schedule
from eaco_opt.policies import POLICIES, make_policy
from eaco_opt.result import Status, StopReason
from eaco_opt.schedule import Placement, Plan, Schedule, ScheduleClass
from formulations.base import Outcome, UncoveredFeatureError
from formulations.grid import make_grid

from .memory import refuse_too_large
from .policy_runs import run_policy

if TYPE_CHECKING:
    from formulations.base import Formulation, Model
    from formulations.grid import Grid

_LOG = logging.getLogger(__name__)

LEAST_START_S = 1.0
"""So much of a limit policies may take at least, to find a start [s]."""


class StartError(EacoError):
    """A schedule to start from is no static schedule on the grid, or breaks a rule there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What is searched, and how.

    Attributes
    ----------
    target
        ``"module:Class"`` of the method.
    instance
        The problem.
    grid_s
        Slot length [s], ``None`` for the automatic rule.
    time_limit_s
        Wall-clock limit of all of it [s], or ``None``.
    gap, threads, seed, deterministic
        As for :func:`solvers.solve`.
    start
        Schedule to start from, or ``None``.
    policies
        Whether to start from the best policy where no start is given.
    memory_bytes
        Most memory, or ``None`` for what the machine has.
    options
        Options of the method.
    """

    target: str
    instance: Instance
    grid_s: float | None = None
    time_limit_s: float | None = None
    gap: float = 0.0
    threads: int = 1
    seed: int = 0
    deterministic: bool = False
    start: Schedule | None = None
    policies: bool = True
    memory_bytes: float | None = None
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened; what is ``None`` has not changed.

    Attributes
    ----------
    phase
        What begins: ``start``, ``build`` or ``solve``.
    slot_s
        Slot length of the grid [s].
    plan, objective
        A feasible plan and its objective by `evaluate`.
    bound
        A proved lower bound of the objective.
    outcome
        The end.
    """

    phase: str | None = None
    slot_s: float | None = None
    plan: Plan | None = None
    objective: float | None = None
    bound: float | None = None
    outcome: Outcome | None = None


Tell = Callable[[Event], None]


class Searcher(Protocol):
    """What :func:`search` asks of a method."""

    def formulation(self, options: Mapping[str, Any]) -> Formulation:
        """Return the formulation that stands behind it."""
        ...

    def run(self, model: Model, task: Task, time_limit_s: float | None, teller: PlanTeller) -> Outcome:
        """Solve a built model."""
        ...


class PlanTeller:
    """Passes on what a solver finds while it searches: plans that `evaluate` confirms, and bounds.

    Parameters
    ----------
    instance, slot_s
        The problem and its grid.
    tell
        Who is told.
    """

    def __init__(self, instance: Instance, slot_s: float, tell: Tell) -> None:
        self._instance = instance
        self._slot_s = slot_s
        self._tell = tell
        self._best = math.inf
        self._bound = -math.inf

    def plan(self, plan: Plan) -> None:
        """Take a plan; one that is not feasible or no better than those before is left out."""
        found = evaluate(self._instance, plan, grid_s=self._slot_s)
        if found.feasible and found.objective < self._best:
            self._best = found.objective
            self._tell(Event(plan=plan, objective=found.objective))

    def progress(self, seconds: float, objective: float | None, bound: float | None) -> None:
        """Take what formulations call their progress hook with; objectives count once their plan is known."""
        if bound is not None and bound > self._bound:
            self._bound = bound
            self._tell(Event(bound=bound))


def search(task: Task, method: Searcher, tell: Tell) -> None:
    """Search, and tell what happens; the last event holds the outcome.

    Raises
    ------
    UncoveredFeatureError, GridError, StartError, TooLargeError, FormulationError
        Nothing was searched, or the solver contradicts the physics.
    """
    began = time.monotonic()
    instance = task.instance
    grid = make_grid(instance, task.grid_s)
    tell(Event(phase="start", slot_s=grid.slot_s))
    formulation = method.formulation(task.options)
    features = formulation.covers(instance)
    if features:
        raise UncoveredFeatureError(formulation.name, features)
    start = start_plan(instance, grid, task.start, seed=task.seed)
    if start is None and task.policies and _left(task, began) != 0.0:
        start = best_policy_plan(
            instance, grid.slot_s, seed=task.seed, time_limit_s=start_share_s(_left(task, began))
        )
    teller = PlanTeller(instance, grid.slot_s, tell)
    if start is not None:
        teller.plan(start)
    if _left(task, began) == 0.0:
        tell(Event(outcome=_out_of_time("before there was anything to search")))
        return
    refuse_too_large(formulation, instance, grid, task.memory_bytes)
    tell(Event(phase="build"))
    model = formulation.build(instance, grid)
    if start is not None:
        model.start_from(start)
    if hasattr(model, "on_plan"):
        model.on_plan = teller.plan
    tell(Event(phase="solve"))
    left = task.time_limit_s if task.deterministic else _left(task, began)
    if left == 0.0:
        tell(Event(outcome=_out_of_time("before the solver began")))
        return
    outcome = method.run(model, task, left, teller)
    tell(Event(outcome=outcome))


def _left(task: Task, began: float) -> float | None:
    """Return what is left of the wall-clock limit [s]; a deterministic limit is not one, unless it is 0."""
    if task.time_limit_s is None or (task.deterministic and task.time_limit_s > 0.0):
        return None
    return max(0.0, task.time_limit_s - (time.monotonic() - began))


def start_share_s(left_s: float | None) -> float | None:
    """Return the time that policies may take for a start [s]: a fifth of what is left, or a second."""
    return None if left_s is None else min(left_s, max(left_s / 5.0, LEAST_START_S))


def _out_of_time(when: str) -> Outcome:
    return Outcome(
        status=Status.UNKNOWN, stop_reason=StopReason.TIME_LIMIT, message=f"the time limit came {when}"
    )


# Starts -----------------------------------------------------------------------------------------------------


def start_plan(instance: Instance, grid: Grid, schedule: Schedule | None, *, seed: int = 0) -> Plan | None:
    """Return the plan of a schedule to start from, checked; ``None`` without one.

    A static schedule whose starts are slot boundaries is taken as it is: each job's GPUs and start, the ends
    being those of the grid. The schedule of a registered policy that is none is replaced by that policy's
    static form on the grid.

    Raises
    ------
    StartError
        It is not such a schedule, or breaks a rule on the grid.
    """
    if schedule is None:
        return None
    owner = f"start {schedule.method!r}" if schedule.method else "start"
    try:
        plan = _as_plan(owner, instance, grid, schedule)
    except StartError:
        if schedule.method not in POLICIES:
            raise
        _LOG.info("%s is not on the grid: its policy is run in static form there", owner)
        found = policy_plan(instance, schedule.method, grid.slot_s, seed=seed)
        if found is None:
            raise StartError(
                f"{owner}: in static form on slots of {grid.slot_s:g} s the policy misses deadlines or "
                "limits; give another start, or none"
            ) from None
        return found
    try:
        found_value = evaluate(instance, plan, grid_s=grid.slot_s)
    except ScheduleError as error:
        raise StartError(f"{owner}: {error}") from error
    if not found_value.feasible:
        raise StartError(
            f"{owner}: on slots of {grid.slot_s:g} s it breaks a rule: "
            f"{_first_violation(instance, plan, grid)}; "
            "give a schedule that is feasible there (`eaco-opt check --grid` shows all), or none"
        )
    return plan


def _first_violation(instance: Instance, plan: Plan, grid: Grid) -> str:
    from eaco_opt.checker import check

    said = check(instance, plan_schedule(instance, plan, grid_s=grid.slot_s), grid_s=grid.slot_s)
    more = f" (and {len(said) - 1} more)" if len(said) > 1 else ""
    return said[0].text + more if said else "of the limits on sets"


def _as_plan(owner: str, instance: Instance, grid: Grid, schedule: Schedule) -> Plan:
    origin_s = instance.arrays().origin_s
    placements: dict[str, Placement] = {}
    for segment in schedule.segments:
        if segment.job in placements:
            raise StartError(
                f"{owner}: job {segment.job!r} has several segments; exact methods start from schedules "
                f"of class {ScheduleClass.STATIC.value!r}, in which each job runs once"
            )
        slot = round((segment.start_s - origin_s) / grid.slot_s)
        on_grid_s = origin_s + slot * grid.slot_s
        if abs(segment.start_s - on_grid_s) > time_tolerance_s(abs(on_grid_s)):
            raise StartError(
                f"{owner}: job {segment.job!r} starts {segment.start_s - origin_s:g} s after the earliest "
                f"release, which is no multiple of the slot of {grid.slot_s:g} s; give a schedule made "
                f"with --grid "
                f"{grid.slot_s:g}s"
            )
        placements[segment.job] = Placement(start_s=on_grid_s, gpus=segment.gpus)
    try:
        return Plan.of(instance, placements)
    except ScheduleError as error:
        raise StartError(f"{owner}: {error}") from error


def policy_plan(
    instance: Instance, name: str, slot_s: float, *, seed: int = 0, time_limit_s: float | None = None
) -> Plan | None:
    """Return the plan of a policy in static form on a grid; ``None`` if it is not feasible or out of time."""
    result, _ = run_policy(instance, make_policy(name), seed=seed, grid_s=slot_s, time_limit_s=time_limit_s)
    if result.schedule is None or result.evaluation is None or not result.evaluation.feasible:
        return None
    if len(result.schedule.segments) != len(instance.jobs):
        return None  # the policy rejected jobs
    placements = {s.job: Placement(start_s=s.start_s, gpus=s.gpus) for s in result.schedule.segments}
    return Plan.of(instance, placements)


def best_policy_plan(
    instance: Instance, slot_s: float, *, seed: int = 0, time_limit_s: float | None = None
) -> Plan | None:
    """Return the best feasible plan of the registered policies in static form, ``None`` if there is none."""
    if any(not job.deadline_only for job in impossible_jobs(instance)) or not instance.jobs:
        return None
    best: tuple[float, Plan] | None = None
    began = time.monotonic()
    for name in POLICIES.names():
        left = None if time_limit_s is None else time_limit_s - (time.monotonic() - began)
        if left is not None and left <= 0.0:
            break
        try:
            plan = policy_plan(instance, name, slot_s, seed=seed, time_limit_s=left)
        except (
            EacoError,
            ImpossibleJobsError,
        ) as error:  # a third party's policy must not stop an exact method
            _LOG.info("policy %r gives no start: %s", name, error)
            continue
        if plan is None:
            continue
        value = evaluate(instance, plan, grid_s=slot_s).objective
        if best is None or value < best[0]:
            best = (value, plan)
    return None if best is None else best[1]
