"""Exact methods: from a request to a result that holds the best of all that was found on the way."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from eaco_opt import _validate as v
from eaco_opt.errors import EacoError
from eaco_opt.instance import Instance
from eaco_opt.io_digest import instance_digest
from eaco_opt.physics import evaluate, plan_schedule
from eaco_opt.result import Result, Status, StopReason
from eaco_opt.schedule import Plan
from formulations.base import Outcome

from .base import Hook, Request, SearchProgress, options_text, versions
from .isolation import run_isolated
from .memory import GIB
from .search import Event, PlanTeller, Searcher, Task, search
from .verify import InternalError

if TYPE_CHECKING:
    from formulations.base import Formulation, Model

_LOG = logging.getLogger(__name__)

COMMON_OPTIONS: dict[str, Any] = {"policies": True, "process": "own", "memory_gib": None}
"""Options of all exact methods, with their defaults."""

AGREEMENT = 1e-6
"""Share of the objective within which a bound meets it; that of :mod:`formulations.verdict`."""


class Anytime:
    """The best plan and bound so far, and how they came about.

    Parameters
    ----------
    hook
        Told of each improvement and phase.

    Attributes
    ----------
    slot_s
        Slot length of the grid [s], once known.
    plan, objective, bound
        The best so far.
    curve
        As in :class:`~eaco_opt.result.Result`.
    outcome
        How the search ended, once it has.
    """

    def __init__(self, hook: Hook | None = None) -> None:
        self._hook = hook
        self.began = time.monotonic()
        self.slot_s: float | None = None
        self.phase = ""
        self.plan: Plan | None = None
        self.objective: float | None = None
        self.bound: float | None = None
        self.curve: list[tuple[float, float | None, float | None]] = []
        self.outcome: Outcome | None = None

    def take(self, event: Event) -> None:
        """Take an event of a search."""
        if event.slot_s is not None:
            self.slot_s = event.slot_s
        if event.phase is not None:
            self.phase = event.phase
        better = False
        if event.plan is not None and event.objective is not None:
            better |= self._take_plan(event.plan, event.objective)
        better |= self._take_bound(event.bound)
        if event.outcome is not None:
            self.outcome = event.outcome
            if event.outcome.plan is not None and event.outcome.objective is not None:
                better |= self._take_plan(event.outcome.plan, event.outcome.objective)
            better |= self._take_bound(event.outcome.bound)
        seconds = time.monotonic() - self.began
        if better:
            self.curve.append((seconds, self.objective, self.bound))
        if self._hook is not None and (better or event.phase is not None):
            self._hook(
                SearchProgress(seconds=seconds, objective=self.objective, bound=self.bound, phase=self.phase)
            )

    def _take_plan(self, plan: Plan, objective: float) -> bool:
        if self.objective is not None and objective >= self.objective:
            return False
        self.plan, self.objective = plan, objective
        return True

    def _take_bound(self, bound: float | None) -> bool:
        if bound is None or not math.isfinite(bound) or (self.bound is not None and bound <= self.bound):
            return False
        self.bound = bound
        return True


class ExactMethod:
    """What the exact methods that stand on a formulation have in common.

    A subclass names itself and its formulation; it may have options of its own, and run a model in another
    way than by its :meth:`~formulations.base.Model.solve`.
    """

    kind = "exact"
    schedule_class = "static"
    exact = True
    online = False
    covers: tuple[str, ...] = (
        "grid",
        "multi-node-jobs",
        "mixed-node-types",
        "exclusive-jobs",
        "model-parallel-memory",
        "infinite-deadlines",
        "both-admission-rules",
        "sleep",
    )
    name = ""
    options: Mapping[str, Any] = {}
    """Options of its own, with their defaults."""

    def available(self) -> bool:
        """Tell whether what it needs is installed."""
        return True

    def option_defaults(self) -> dict[str, Any]:
        """Return all its options with their defaults."""
        return {**COMMON_OPTIONS, **self.options}

    def formulation(self, options: Mapping[str, Any]) -> Formulation:
        """Return the formulation that stands behind it."""
        raise NotImplementedError

    def run(self, model: Model, task: Task, time_limit_s: float | None, teller: PlanTeller) -> Outcome:
        """Solve a built model."""
        return model.solve(
            time_limit_s=time_limit_s,
            gap=task.gap,
            threads=task.threads,
            seed=task.seed,
            deterministic=task.deterministic,
            progress=teller.progress,
        )

    def prepare(self, instance: Instance) -> None:
        """Do what is to be done once, before the clock runs."""

    def solve(self, instance: Instance, request: Request) -> Result:
        """Return the best schedule found, with what is proved about it."""
        task = self.task(instance, request)
        if task.time_limit_s != 0.0:
            self.prepare(instance)
        anytime = Anytime(request.progress)
        if task.options["process"] == "own" and task.time_limit_s != 0.0:
            run_isolated(task, anytime.take)
        else:
            _run_here(task, self, anytime)
        return conclude(self.name, task, anytime)

    def task(self, instance: Instance, request: Request) -> Task:
        """Return what is asked for, checked."""
        owner = f"method {self.name!r}"
        defaults = self.option_defaults()
        chosen = {**defaults, **request.options}
        unknown = sorted(set(request.options) - set(defaults))
        if unknown:
            known = ", ".join(sorted(defaults))
            raise EacoError(f"{owner}: unknown option {unknown[0]!r}; known are: {known}")
        if chosen["process"] not in ("own", "shared"):
            raise EacoError(f"{owner}: option process must be 'own' or 'shared', got {chosen['process']!r}")
        memory = chosen["memory_gib"]
        limit = request.time_limit_s
        return Task(
            target=f"{type(self).__module__}:{type(self).__qualname__}",
            instance=instance,
            grid_s=grid_of(owner, request.grid_s),
            time_limit_s=None if limit is None else v.real(owner, "time_limit_s", limit, low=0.0),
            gap=0.0 if request.gap is None else v.real(owner, "gap", request.gap, low=0.0),
            threads=v.integer(owner, "threads", request.threads, 1),
            seed=v.integer(owner, "seed", request.seed, 0),
            deterministic=bool(request.deterministic),
            start=request.start,
            policies=bool(chosen["policies"]),
            memory_bytes=None if memory is None else GIB * v.real(owner, "memory_gib", memory, above=0.0),
            options=chosen,
        )


def _run_here(task: Task, method: Searcher, anytime: Anytime) -> None:
    """Search in this process: quicker to begin, but nothing ends it from outside."""
    try:
        search(task, method, anytime.take)
    except KeyboardInterrupt:
        anytime.take(
            Event(
                outcome=Outcome(
                    status=Status.UNKNOWN, stop_reason=StopReason.INTERRUPTED, message="interrupted (Ctrl-C)"
                )
            )
        )


def grid_of(owner: str, grid_s: float | str | None) -> float | None:
    """Return the slot length [s] that was asked for, ``None`` for the automatic rule.

    Raises
    ------
    EacoError
        Continuous time, or no slot length.
    """
    if grid_s is None or grid_s == "auto":
        return None
    if grid_s == "none":
        raise EacoError(
            f"{owner}: grid 'none' means continuous time, in which nothing is proved: exact methods look "
            "for the best static schedule on a grid (docs/exact.md section 1). Give a slot length, or 'auto'"
        )
    if isinstance(grid_s, str):
        raise EacoError(f"{owner}: grid_s must be a number of seconds or 'auto', got {grid_s!r}")
    return v.real(owner, "grid_s", grid_s, above=0.0)


def conclude(name: str, task: Task, anytime: Anytime) -> Result:
    """Return the result of a search from the best plan and bound, and how it ended."""
    outcome = anytime.outcome
    if outcome is None or (anytime.slot_s is None and outcome.plan is not None):
        raise InternalError(f"method {name!r}: the search ended without an outcome")
    instance, slot_s = task.instance, anytime.slot_s
    digest = instance_digest(instance)
    status, stop, message, bound = outcome.status, outcome.stop_reason, outcome.message, anytime.bound
    schedule = evaluation = None
    if anytime.plan is not None:
        schedule = plan_schedule(instance, anytime.plan, grid_s=slot_s, method=name)
        schedule = type(schedule)(
            segments=schedule.segments,
            schedule_class=schedule.schedule_class,
            method=name,
            instance_digest=digest,
        )
        evaluation = evaluate(instance, anytime.plan, grid_s=slot_s)
        if status is Status.INFEASIBLE:
            status, stop, bound = Status.FEASIBLE, StopReason.ERROR, None
            message = f"contradiction: {message}, but a feasible plan is known"
        elif status is Status.FEASIBLE and stop is StopReason.ERROR:
            bound = None  # the formulation found the contradiction itself
        if bound is not None:
            room = AGREEMENT * abs(evaluation.objective)
            if bound > evaluation.objective + room:
                raise InternalError(
                    f"method {name!r}: bound {bound!r} lies above the objective {evaluation.objective!r} of "
                    "a feasible schedule. This is an error of the method or its solver; please report it"
                )
            bound = min(bound, evaluation.objective)
            proved = evaluation.objective - bound <= room
            status = Status.OPTIMAL if proved else Status.FEASIBLE
        elif status is not Status.FEASIBLE:
            status = Status.FEASIBLE
    elif status is Status.INFEASIBLE:
        bound = None
    if status is Status.FEASIBLE and stop is StopReason.FINISHED and task.gap > 0.0:
        message += f"; within the gap of {task.gap:g} that was asked for"
    options: dict[str, Any] = {
        **task.options,
        "gap": task.gap,
        "threads": 1 if task.deterministic else task.threads,
        "deterministic": task.deterministic,
        "time_limit_s": task.time_limit_s,
        "grid_s": slot_s,
    }
    return Result(
        method=name,
        schedule=schedule,
        evaluation=evaluation,
        status=status,
        stop_reason=stop,
        bound=bound,
        build_s=outcome.build_s,
        # A search that was killed or interrupted has not told how long it took.
        solve_s=outcome.solve_s or max(0.0, time.monotonic() - anytime.began - outcome.build_s),
        seed=task.seed,
        instance_digest=digest,
        options=options_text(options),
        versions=versions(),
        message=message,
        reproducible=task.deterministic and stop in (StopReason.FINISHED, StopReason.WORK_LIMIT),
        curve=tuple(anytime.curve),
    )
