"""Method ``lns``: large-neighbourhood search for a good static schedule, in continuous time or on a grid."""

from __future__ import annotations

import dataclasses
import logging
import math
import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from eaco_opt import _validate as v
from eaco_opt.errors import EacoError, ImpossibleJobsError, ScheduleError
from eaco_opt.impossible import impossible_jobs
from eaco_opt.instance import Instance
from eaco_opt.io_digest import instance_digest
from eaco_opt.physics import evaluate, plan_schedule
from eaco_opt.policies import make_policy
from eaco_opt.result import Result, Status, StopReason
from eaco_opt.schedule import Placement, Plan, Schedule, ScheduleClass
from eaco_opt.simulator import simulate

from ..base import METHODS, Request, SearchProgress, options_text, versions
from ..lns import kernel
from ..lns.driver import Searched, search
from ..lns.parts import METHOD, improved, may_be_cut
from ..lns.problem import Layout, SearchProblem, layout_of, plan_of, search_problem

_LOG = logging.getLogger(__name__)

DEFAULT_LIMIT_S = 60.0
"""Wall-clock limit [s] where neither time nor iterations are limited."""

DETERMINISTIC_ITERATIONS = 20_000
"""Iterations of a deterministic run that names none."""

STARTS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("eaco", {"observe": False}),
    ("fifo_packed", {}),
    ("fifo", {}),
)
"""Policies, in static form, whose best feasible plan the search begins with."""

PARTS_SHARE = 0.5
"""Share of the time that belongs to exact parts, on a grid."""


class Lns:
    """Large-neighbourhood search: take jobs out, put them back where they cost least, keep what is better.

    Anytime, from the best static policy or a schedule of yours; deadlines and limits are kept throughout.
    Options: ``iterations`` (limit on destroy-and-repair steps; with it, or ``deterministic``, the result
    depends on the seed alone), ``operators`` (comma-separated names, all without it), ``policies`` (whether
    to begin with them), ``exact_parts`` (whether, on a grid and with a time limit, the last half of the time
    goes to parts of the plan, which ``branch-and-price`` plans anew; docs/search.md says what it is worth).
    """

    kind = "search"
    schedule_class = ScheduleClass.STATIC
    exact = False
    online = False
    covers: tuple[str, ...] = (
        "continuous-time",
        "grid",
        "multi-node-jobs-where-the-start-has-them",
        "mixed-node-types",
        "exclusive-jobs",
        "model-parallel-memory",
        "infinite-deadlines",
        "both-admission-rules",
        "sleep-and-wake-up",
    )
    name = "lns"

    def available(self) -> bool:
        """Tell that nothing else is needed."""
        return True

    def option_defaults(self) -> dict[str, Any]:
        """Return its options with their defaults."""
        return {
            "iterations": None,
            "operators": ",".join(kernel.OPERATORS),
            "policies": True,
            "exact_parts": False,
        }

    def solve(self, instance: Instance, request: Request) -> Result:
        """Search until a limit is reached, and return the best schedule found."""
        began = time.monotonic()
        options = {**self.option_defaults(), **request.options}
        unknown = sorted(set(request.options) - set(self.option_defaults()))
        if unknown:
            known = ", ".join(sorted(self.option_defaults()))
            raise EacoError(f"method 'lns': unknown option {unknown[0]!r}; known are: {known}")
        operators = _operators(options["operators"])
        iterations = options["iterations"]
        if iterations is not None:
            iterations = v.integer("method 'lns'", "iterations", iterations, 0)
        elif request.deterministic:
            iterations = DETERMINISTIC_ITERATIONS
        limit = request.time_limit_s
        if limit is not None:
            limit = v.real("method 'lns'", "time_limit_s", limit, low=0.0)
        elif iterations is None:
            limit = DEFAULT_LIMIT_S
        threads = v.integer("method 'lns'", "threads", request.threads, 1)
        seed = v.integer("method 'lns'", "seed", request.seed, 0)
        grid_s = _grid(instance, request.grid_s)
        run = _Run(self.name, instance, request, options, grid_s, began, limit, iterations)
        impossible = impossible_jobs(instance)
        if impossible:
            return run.nothing(
                Status.INFEASIBLE,
                StopReason.FINISHED,
                f"job {impossible[0].job!r} can never be served: {impossible[0].reason}",
            )
        problem = search_problem(instance, grid_s=grid_s)
        start = self._start(instance, request.start, grid_s, bool(options["policies"]))
        ready = time.monotonic()
        _warm_up(problem)
        if run.for_parts():
            METHODS.get(METHOD)().prepare(instance)
        run.began += time.monotonic() - ready  # compiling is no part of the limit
        return run.search(problem, start, operators, threads, seed)

    def _start(
        self, instance: Instance, given: Schedule | None, grid_s: float | None, policies: bool
    ) -> Plan | None:
        """Return the plan to begin with: the given schedule's, or that of the best static policy."""
        if given is not None:
            return _plan_of_schedule(instance, given, grid_s)
        best: tuple[bool, float, Plan] | None = None
        for name, chosen in STARTS if policies else STARTS[-1:]:
            try:
                found = simulate(instance, make_policy(name, **chosen), grid_s=grid_s)
            except ImpossibleJobsError:
                return None
            plan = _static_plan(instance, found.schedule)
            if plan is None:
                continue
            outcome = evaluate(instance, plan, grid_s=grid_s)
            key = (not outcome.feasible, outcome.objective)
            if best is None or key < best[:2]:
                best = (*key, plan)
        return None if best is None else best[2]


@dataclasses.dataclass(slots=True, eq=False)
class _Run:
    """One call of the method."""

    name: str
    instance: Instance
    request: Request
    options: Mapping[str, Any]
    grid_s: float | None
    began: float
    limit: float | None
    iterations: int | None
    curve: list[tuple[float, float | None, float | None]] = dataclasses.field(default_factory=list)
    searched_s: float = 0.0

    def left(self) -> float:
        return math.inf if self.limit is None else max(0.0, self.limit - (time.monotonic() - self.began))

    def tell(self, objective: float | None, phase: str) -> None:
        seconds = time.monotonic() - self.began
        if objective is not None:
            self.curve.append((seconds, objective, None))
        if self.request.progress is not None:
            self.request.progress(SearchProgress(seconds=seconds, objective=objective, phase=phase))

    def nothing(self, status: Status, stop: StopReason, message: str) -> Result:
        return self._result(None, status, stop, message, False)

    def search(
        self, problem: SearchProblem, start: Plan | None, operators: tuple[str, ...], threads: int, seed: int
    ) -> Result:
        instance = self.instance
        built = time.monotonic() - self.began
        frozen = np.array([bool(problem.arrays.size[j].max() == 0) for j in range(len(instance.jobs))])
        if frozen.any() and start is None:
            return self.nothing(
                Status.UNKNOWN,
                StopReason.FINISHED,
                "jobs on several nodes stay where a start has them; there is none",
            )
        first = None if start is None else evaluate(instance, start, grid_s=self.grid_s)
        if frozen.any() and first is not None and not first.feasible:
            return self.nothing(
                Status.UNKNOWN,
                StopReason.FINISHED,
                "jobs on several nodes stay where a start has them; no start keeps all rules",
            )
        if first is not None and first.feasible:
            self.tell(first.objective, "start")
        empty = Layout(
            np.zeros(len(frozen)),
            np.zeros(len(frozen), dtype=np.int64),
            np.full(len(frozen), -1, dtype=np.int64),
        )
        layout = empty if start is None else layout_of(instance, problem, start)
        if frozen.any() and start is not None:
            problem = _without_frozen(instance, problem, start, frozen)
        shift = _constant(instance, problem, layout, start, first)

        def better(value: float, _: float) -> None:
            self.tell(value + shift, "search")

        interrupted = False
        searching = time.monotonic()
        exact_s = self.for_parts()
        found: Searched | None = None
        box: list[Searched] = []
        try:
            found = search(
                problem,
                layout,
                iterations=self.iterations,
                until=lambda: self.left() <= exact_s,
                time_left_s=None if self.limit is None else lambda: max(0.0, self.left() - exact_s),
                share_done=None
                if self.limit is None or self.iterations is not None
                else self._share(searching, exact_s),
                seed=seed,
                threads=threads,
                operators=operators,
                tell=better,
                keep=box,
            )
        except KeyboardInterrupt:
            if not box:
                raise
            found, interrupted = box[-1], True
        plan = start if found is None or not found.placed else plan_of(instance, problem, found.layout, start)
        outcome = None if plan is None else evaluate(instance, plan, grid_s=self.grid_s)
        if first is not None and first.feasible and (outcome is None or outcome.objective > first.objective):
            plan, outcome = start, first
        text = "" if found is None else f"{found.iterations} iterations, {found.insertions} insertions tried"
        if exact_s > 0.0 and self.grid_s is not None and not interrupted and outcome is not None:
            try:
                if plan is not None and outcome.feasible:
                    plan, calls, gains = improved(
                        instance, plan, self.grid_s, left_s=self.left, seed=seed, threads=threads,
                        tell=lambda value: self.tell(value, "exact parts"),
                    )  # fmt: skip
                    outcome = evaluate(instance, plan, grid_s=self.grid_s)
                    text += f", {calls} parts solved exactly, {gains} made better"
            except KeyboardInterrupt:
                interrupted = True
        self.searched_s = time.monotonic() - searching
        stop = StopReason.TIME_LIMIT
        if interrupted:
            stop = StopReason.INTERRUPTED
        elif found is not None and found.finished:
            stop = StopReason.WORK_LIMIT
        if plan is None or outcome is None or not outcome.feasible:
            return self._result(
                None, Status.UNKNOWN, stop, f"no schedule that keeps all rules was found; {text}", False
            )
        fixed = self.iterations is not None and stop is StopReason.WORK_LIMIT
        return self._result(plan, Status.FEASIBLE, stop, text, fixed, built)

    def for_parts(self) -> float:
        """Return the time at the end that belongs to the exact method [s]."""
        if self.grid_s is None or self.limit is None or self.iterations is not None:
            return 0.0
        if not self.options["exact_parts"] or not may_be_cut(self.instance):
            return 0.0
        return PARTS_SHARE * self.limit

    def _share(self, since: float, kept_s: float) -> Any:
        whole = max(1e-3, (self.limit or 0.0) - (since - self.began) - kept_s)
        return lambda: (time.monotonic() - since) / whole

    def _result(
        self,
        plan: Plan | None,
        status: Status,
        stop: StopReason,
        message: str,
        fixed: bool,
        built: float = 0.0,
    ) -> Result:
        digest = instance_digest(self.instance)
        schedule = evaluation = None
        if plan is not None:
            schedule = dataclasses.replace(
                plan_schedule(self.instance, plan, grid_s=self.grid_s, method=self.name),
                instance_digest=digest,
            )
            evaluation = evaluate(self.instance, plan, grid_s=self.grid_s)
        options = {
            **self.options,
            "iterations": self.iterations,
            "time_limit_s": self.limit,
            "threads": self.request.threads,
            "grid_s": self.grid_s,
        }
        if self.grid_s is None:
            del options["grid_s"]
        return Result(
            method=self.name,
            schedule=schedule,
            evaluation=evaluation,
            status=status,
            stop_reason=stop,
            build_s=built,
            solve_s=self.searched_s,
            seed=self.request.seed,
            instance_digest=digest,
            options=options_text(options),
            versions=versions(),
            message=message,
            reproducible=fixed,
            curve=tuple(self.curve),
        )


def _constant(
    instance: Instance, problem: SearchProblem, layout: Layout, start: Plan | None, first: Any
) -> float:
    """Return what the objective has besides the search's value: releases, nodes that are not searched."""
    if first is None or len(problem.nodes) == len(problem.arrays.node_type):
        return problem.constant
    value = search(problem, layout, iterations=0).value
    return float(first.objective) - value


def _without_frozen(
    instance: Instance, problem: SearchProblem, start: Plan, frozen: np.ndarray[Any, Any]
) -> SearchProblem:
    """Leave nodes that a job on several nodes uses, and all jobs on them, as they are."""
    view = instance.arrays()
    owner = np.repeat(np.arange(len(frozen)), view.gpus)
    node_of = view.gpu_node[start.gpus]
    shut = np.unique(node_of[frozen[owner]])
    held = np.unique(owner[np.isin(node_of, shut)])
    return dataclasses.replace(
        problem,
        nodes=np.setdiff1d(problem.nodes, shut),
        jobs=np.setdiff1d(problem.jobs, held),
    )


def _warm_up(problem: SearchProblem) -> None:
    """Compile, or load what was compiled, before the clock counts."""
    none = Layout(
        np.zeros(len(problem.arrays.epochs)),
        np.zeros(len(problem.arrays.epochs), dtype=np.int64),
        np.full(len(problem.arrays.epochs), -1, dtype=np.int64),
    )
    few = dataclasses.replace(problem, jobs=problem.jobs[:1], nodes=problem.nodes[:1])
    search(few, none, iterations=4)


def _operators(text: Any) -> tuple[str, ...]:
    names = tuple(name.strip() for name in str(text).split(",") if name.strip())
    for name in names:
        if name not in kernel.OPERATORS:
            raise EacoError(
                f"method 'lns': unknown operator {name!r}; known are: {', '.join(kernel.OPERATORS)}"
            )
    if not names:
        raise EacoError(f"method 'lns': operators names none; known are: {', '.join(kernel.OPERATORS)}")
    return names


def _grid(instance: Instance, grid_s: float | str | None) -> float | None:
    if grid_s is None or grid_s == "none":
        return None
    if grid_s == "auto":
        from formulations.grid import automatic_slot_s

        return automatic_slot_s(instance)
    if isinstance(grid_s, str):
        raise EacoError(f"method 'lns': grid_s must be a number of seconds, 'auto' or None, got {grid_s!r}")
    return v.real("method 'lns'", "grid_s", grid_s, above=0.0)


def _static_plan(instance: Instance, schedule: Schedule) -> Plan | None:
    """Return the plan of a schedule that starts each job once, ``None`` for others."""
    if len({s.job for s in schedule.segments}) != len(schedule.segments):
        return None
    return Plan.of(instance, {s.job: Placement(start_s=s.start_s, gpus=s.gpus) for s in schedule.segments})


def _plan_of_schedule(instance: Instance, schedule: Schedule, grid_s: float | None) -> Plan:
    """Return a given schedule's plan.

    Raises
    ------
    EacoError
        It stops or moves jobs, or its plan breaks a rule.
    """
    plan = _static_plan(instance, schedule)
    if plan is None:
        raise EacoError(
            "method 'lns': the start stops or moves jobs (class "
            f"{schedule.schedule_class.value}); it has to be static, with one segment a job"
        )
    try:
        outcome = evaluate(instance, plan, grid_s=grid_s)
    except ScheduleError as error:
        raise EacoError(f"method 'lns': the start does not fit the instance: {error}") from error
    if not outcome.feasible:
        raise EacoError(
            f"method 'lns': the start breaks rules ({outcome.physical_violations} physical, "
            f"{outcome.deadline_misses} deadlines, {outcome.threshold_violations} thresholds); give a "
            f"schedule that "
            "keeps them, or none"
        )
    return plan
