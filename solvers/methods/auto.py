"""The method ``auto``: chooses by features of the instance, and falls back where the choice fails.

Rule (docs/exact.md section 3.4). First the policies, in static form on the grid: the best feasible one is the
start of all that follows. Then, in this order, until one proves something or the time is up:

1. ``bruteforce``, for at most :data:`TINY_S` seconds, where the estimate is at most :data:`TINY_PLANS` plans;
   else the configuration LP, whose bound holds on every grid, for at most :data:`BOUND_SHARE` of the time;
2. ``branch-and-price``, where it is registered and covers the instance; where nodes are shared GPU by GPU,
   for at most :data:`SHARED_S` seconds: there it ends soon or not at all;
3. ``milp``, whose bound is closer, then ``cpsat``.

A method that does not cover the instance, would not fit in memory or whose process fails is passed over.
"""

from __future__ import annotations

import dataclasses
import logging
import time
from typing import Any

from eaco_opt.errors import EacoError
from eaco_opt.instance import Instance
from eaco_opt.io_digest import instance_digest
from eaco_opt.physics import evaluate, plan_schedule
from eaco_opt.result import Result, Status, StopReason
from eaco_opt.schedule import Plan, Schedule
from formulations.base import FormulationError, ScalingError, UncoveredFeatureError
from formulations.grid import automatic_slot_s, make_grid

from ..base import METHODS, Hook, Method, Request, SearchProgress, options_text, versions
from ..bounds import bound
from ..exact import ExactMethod
from ..memory import TooLargeError
from ..search import best_policy_plan, start_plan, start_share_s
from .branch_and_price import BranchAndPriceMethod

_LOG = logging.getLogger(__name__)

TINY_PLANS = 1e9
TINY_S = 10.0
"""Brute force is tried first up to so many plans by its estimate, for so long [s]."""

SHARED_S = 10.0
"""Branch-and-price has so long [s] where nodes are shared GPU by GPU."""

BOUND_SHARE, BOUND_JOBS = 0.1, 8
"""The configuration LP has this share of the time, and is worth its start from so many jobs on."""

REFUSALS = (UncoveredFeatureError, ScalingError, TooLargeError)
"""Errors that say: not this method, perhaps another."""


class Auto(ExactMethod):
    """Chooses an exact method by features of the instance, starts from the policies, falls back."""

    name = "auto"

    def choose(self, instance: Instance, slot_s: float) -> list[str]:
        """Return the methods to try, in order."""
        out: list[str] = []
        if _tiny(instance, slot_s):
            out.append("bruteforce")
        if "branch-and-price" in METHODS:
            out.append("branch-and-price")
        return [*out, "milp", "cpsat"]

    def prepare(self, instance: Instance) -> None:
        """Have branch-and-price compiled where it would be tried."""
        if "branch-and-price" in self.choose(instance, 3600.0):
            BranchAndPriceMethod().prepare(instance)

    def solve(self, instance: Instance, request: Request) -> Result:
        """Return the best schedule of all that were tried, with what is proved about it.

        Raises
        ------
        EacoError
            No method takes the instance and no policy gives a feasible schedule; the text says why.
        """
        task = self.task(instance, request)
        if task.time_limit_s != 0.0:
            self.prepare(instance)
        began = time.monotonic()
        slot_s = task.grid_s or automatic_slot_s(instance)
        best = _Best(self.name, instance, slot_s, request, dict(task.options), began)
        best.take_plan(self._start(instance, slot_s, request, task.policies))
        reasons: list[str] = []
        names = self.choose(instance, slot_s)
        if names[0] != "bruteforce" and len(instance.jobs) >= BOUND_JOBS:
            best.take_bound(_bound(instance, request, _left(request, began)))
        for name in names:
            left = _left(request, began)
            if left == 0.0:
                best.stop, best.message = StopReason.TIME_LIMIT, "the time limit came before any method began"
                break
            tiny = name == "bruteforce"
            most = TINY_S if tiny else SHARED_S if name == "branch-and-price" and _shared(instance) else None
            short = most is not None and (left is None or most < left)
            limit = most if short else left
            options = {} if tiny else dict(request.options) | {"policies": False}
            method: Method = METHODS.get(name)()
            try:
                result = method.solve(
                    instance,
                    dataclasses.replace(
                        request,
                        time_limit_s=limit,
                        grid_s=slot_s,
                        start=best.schedule,
                        options=options,
                        progress=best.hook(name),
                    ),
                )
            except REFUSALS as error:
                reasons.append(f"{name}: {error}")
                _LOG.info("auto: %s passed over: %s", name, error)
                continue
            except FormulationError as error:
                reasons.append(f"{name}: {error}")
                _LOG.warning("auto: %s failed, the next one is tried: %s", name, error)
                continue
            best.take(name, result)
            gave_up = short and result.stop_reason in (StopReason.TIME_LIMIT, StopReason.WORK_LIMIT)
            # How far a method comes in its time depends on the machine.
            best.by_the_clock |= gave_up and result.stop_reason is StopReason.TIME_LIMIT
            if gave_up or result.stop_reason is StopReason.ERROR:
                reasons.append(f"{name}: {result.message or result.stop_reason.value}")
                continue
            break
        else:
            if best.schedule is None and not best.ran:
                raise EacoError(
                    f"method {self.name!r}: no method takes instance {instance.name!r}: {'; '.join(reasons)}"
                )
            best.stop = StopReason.ERROR
            best.message = f"no method could go on: {'; '.join(reasons)}"
        return best.result(reasons)

    def _start(self, instance: Instance, slot_s: float, request: Request, policies: bool) -> Plan | None:
        if request.start is not None:
            return start_plan(instance, make_grid(instance, slot_s), request.start, seed=request.seed)
        if not policies or request.time_limit_s == 0.0:
            return None
        limit = start_share_s(None if request.deterministic else request.time_limit_s)
        return best_policy_plan(instance, slot_s, seed=request.seed, time_limit_s=limit)


def _tiny(instance: Instance, slot_s: float) -> bool:
    from ..bruteforce import TooManyPlansError, estimate_plans

    try:
        return estimate_plans(instance, slot_s) <= TINY_PLANS
    except TooManyPlansError:
        return False


def _shared(instance: Instance) -> bool:
    """Tell whether some job may take a part of a node."""
    used = {node.node_type for node in instance.cluster.nodes}
    sizes = [t.gpus for t in instance.cluster.node_types if t.name in used]
    return any(job.gpus < size for job in instance.jobs for size in sizes)


def _bound(instance: Instance, request: Request, left_s: float | None) -> float | None:
    """Return the bound of the configuration LP, ``None`` where there is none."""
    if left_s == 0.0:
        return None
    limit = None if left_s is None or request.deterministic else BOUND_SHARE * left_s
    try:
        return bound(instance, time_limit_s=limit, energy=False).value
    except FormulationError as error:
        _LOG.info("auto: no configuration LP: %s", error)
        return None


def _left(request: Request, began: float) -> float | None:
    if request.time_limit_s is None or (request.deterministic and request.time_limit_s > 0.0):
        return request.time_limit_s
    return max(0.0, request.time_limit_s - (time.monotonic() - began))


class _Best:
    """The best schedule and bound of several runs, with their curves one after the other."""

    def __init__(
        self,
        name: str,
        instance: Instance,
        slot_s: float,
        request: Request,
        options: dict[str, Any],
        began: float,
    ) -> None:
        self._name = name
        self._options = options
        self._instance = instance
        self._slot_s = slot_s
        self._request = request
        self._began = began
        self.schedule: Schedule | None = None
        self.bound: float | None = None
        self.stop = StopReason.FINISHED
        self.message = ""
        self.ran = ""
        self.by_the_clock = False
        self._objective: float | None = None
        self._infeasible = False
        self._last: Result | None = None
        self._build_s = 0.0
        self._curve: list[tuple[float, float | None, float | None]] = []

    def take_plan(self, plan: Plan | None) -> None:
        """Take the plan to start from."""
        if plan is not None:
            schedule = plan_schedule(self._instance, plan, grid_s=self._slot_s, method=self._name)
            self._better(schedule, evaluate(self._instance, plan, grid_s=self._slot_s).objective)
            self._point(time.monotonic() - self._began, self._objective, None)
            self._tell("start")

    def take_bound(self, value: float | None) -> None:
        """Take a bound that is known before any method begins."""
        if value is not None:
            self.bound = value
            self._point(time.monotonic() - self._began, None, value)
            self._tell("configuration-lp")

    def hook(self, name: str) -> Hook | None:
        """Return a progress hook for one of the methods."""
        told, base_s = self._request.progress, time.monotonic() - self._began
        if told is None:
            return None

        def hook(at: Any) -> None:
            if isinstance(at, SearchProgress):
                known = [x for x in (self._objective, at.objective) if x is not None]
                bounds = [x for x in (self.bound, at.bound) if x is not None]
                told(
                    SearchProgress(
                        seconds=base_s + at.seconds,
                        objective=min(known, default=None),
                        bound=max(bounds, default=None),
                        phase=f"{name}: {at.phase}",
                    )
                )

        return hook

    def take(self, name: str, result: Result) -> None:
        """Take what a method returned."""
        base_s = time.monotonic() - self._began - result.build_s - result.solve_s
        if result.curve:
            base_s = time.monotonic() - self._began - result.curve[-1][0]
        self.ran, self._last = name, result
        self.stop, self.message = result.stop_reason, f"by {name}: {result.message or result.status.value}"
        self._build_s += result.build_s
        self._infeasible = result.status is Status.INFEASIBLE
        for seconds, objective, low in result.curve:
            self._point(max(0.0, base_s + seconds), objective, low)
        if result.bound is not None and (self.bound is None or result.bound > self.bound):
            self.bound = result.bound
        if result.schedule is not None and result.objective is not None:
            self._better(result.schedule, result.objective)
        self._tell(f"{name}: {result.status.value}")

    def _tell(self, phase: str) -> None:
        if self._request.progress is not None:
            seconds = time.monotonic() - self._began
            self._request.progress(
                SearchProgress(seconds=seconds, objective=self._objective, bound=self.bound, phase=phase)
            )

    def _better(self, schedule: Schedule, objective: float) -> None:
        if self._objective is None or objective < self._objective:
            self.schedule, self._objective = schedule, objective

    def _point(self, seconds: float, objective: float | None, bound: float | None) -> None:
        """Add a point to the curve, if it is better than the last one."""
        at, old, low = self._curve[-1] if self._curve else (0.0, None, None)
        values = [x for x in (old, objective) if x is not None]
        bounds = [x for x in (low, bound) if x is not None]
        new = (max(at, seconds), min(values, default=None), max(bounds, default=None))
        if not self._curve or new[1:] != (old, low):
            self._curve.append(new)

    def result(self, reasons: list[str]) -> Result:
        """Return the result of all runs together."""
        request, digest = self._request, instance_digest(self._instance)
        status, bound, evaluation = Status.UNKNOWN, self.bound, None
        schedule = self.schedule
        if schedule is not None:
            schedule = dataclasses.replace(schedule, method=self._name, instance_digest=digest)
            evaluation = evaluate(self._instance, schedule, grid_s=self._slot_s)
            status = Status.FEASIBLE
            if self._infeasible:
                self.stop, bound = StopReason.ERROR, None
                self.message = f"contradiction: {self.message}, but a feasible schedule is known"
            elif self._last is not None and self._last.status is Status.OPTIMAL:
                status = Status.OPTIMAL
        elif self._infeasible:
            status = Status.INFEASIBLE
        known: dict[str, Any] = {
            "gap": request.gap or 0.0, "threads": 1 if request.deterministic else request.threads,
            "deterministic": request.deterministic, "time_limit_s": request.time_limit_s,
            "grid_s": self._slot_s, "method": self.ran, "passed_over": "; ".join(reasons),
        }  # fmt: skip
        return Result(
            method=self._name,
            schedule=schedule,
            evaluation=evaluation,
            status=status,
            stop_reason=self.stop,
            bound=bound,
            build_s=self._build_s,
            solve_s=max(0.0, time.monotonic() - self._began - self._build_s),
            seed=request.seed,
            instance_digest=digest,
            options=options_text(self._options | known),
            versions=versions(),
            message=self.message,
            reproducible=request.deterministic
            and self._last is not None
            and self._last.reproducible
            and not self.by_the_clock,
            curve=tuple(self._curve),
        )
