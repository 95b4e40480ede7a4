"""Several methods on one instance, side by side: :func:`compare`.

Every schedule has passed the independent checker before it is shown. :meth:`Comparison.document` is the JSON
of the command line; docs/outputs.md explains every key.
"""

from __future__ import annotations

import dataclasses
import logging
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from eaco_opt import _validate as v
from eaco_opt.errors import EacoError, ImpossibleJobsError, UnknownNameError
from eaco_opt.evaluation import Evaluation
from eaco_opt.impossible import impossible_jobs
from eaco_opt.instance import Instance
from eaco_opt.interference import Interference
from eaco_opt.io_digest import instance_digest
from eaco_opt.physics import evaluate
from eaco_opt.policies import make_policy
from eaco_opt.result import Result, Status, StopReason
from eaco_opt.schedule import Schedule
from eaco_opt.simulator import ActiveCurve, Policy, Progress, active_curve
from formulations.grid import automatic_slot_s
from solvers.base import Hook as SolveHook
from solvers.base import SearchProgress, versions
from solvers.policy_runs import run_policy, warm_up
from solvers.run import need_instance, solve
from solvers.verify import refuse_violations, verify

from .entries import Entry, entries_of
from .grid_plans import in_continuous_time, optimal_steps_s, step_text
from .shares import Bounds, gap_to

log = logging.getLogger(__name__)

GRID_OPTIMAL = "grid-optimal"
"""Name, among the methods of a comparison, of the plan that is proved optimal on a grid."""

GRID_OPTIMAL_S = 60.0
"""Wall-clock limit of the proof [s] where no other limit is given."""

BOUND_S = 60.0
"""Wall-clock limit of a bound [s] where no other limit is given."""

GRID_OPTIMAL_JOBS = 40
"""The proof is tried for at most so many jobs, unless it was asked for by name."""

DEFAULT_METHODS = ("fifo", "fifo_packed", "gandiva", "eaco", GRID_OPTIMAL)

REFERENCE = "fifo"
"""The row that others are shown relative to, where it is there."""

METRICS = (
    "energy_kwh",
    "avg_tpe_h",
    "objective",
    "mean_jct_h",
    "mean_wait_h",
    "mean_jtt_h",
    "makespan_h",
    "deadline_misses",
    "threshold_excess",
    "mean_active_nodes",
    "peak_active_nodes",
    "node_hours",
    "modelled_energy_share",
)
"""Metrics of a row, by key of the command line."""

RELATIVE = tuple(m for m in METRICS if m not in ("threshold_excess", "modelled_energy_share"))
"""Metrics that are also given relative to the reference, in percent."""

EXTRA = (
    "server_kwh",
    "gpu_standing_kwh",
    "gpu_dynamic_kwh",
    "sleep_kwh",
    "wake_kwh",
    "load_active_gpus",
    "load_all_gpus",
    "max_lateness_h",
    "threshold_excess_gpu_h",
    "modelled_power_share",
    *(f"{p}_{what}_h" for what in ("jct", "wait", "jtt") for p in ("p50", "p90", "p99")),
)
"""Further metrics of a row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What progress hooks are told.

    Attributes
    ----------
    row, rows
        Number of the present row, from 0, and of rows in all.
    method
        Its label.
    done, jobs
        Jobs that have ended, and all.
    """

    row: int
    rows: int
    method: str
    done: int
    jobs: int


Hook = Callable[[Step], None]


def extra_metrics(evaluation: Evaluation) -> dict[str, Any]:
    """Return the metrics of :data:`EXTRA`; lateness is null when no job has a deadline."""
    h, kwh = 3600.0, 3.6e6
    late = float(evaluation.jobs.lateness_s.max()) if len(evaluation.jobs.lateness_s) else -math.inf
    out: dict[str, Any] = {
        "server_kwh": evaluation.energy.server_j / kwh,
        "gpu_standing_kwh": evaluation.energy.gpu_standing_j / kwh,
        "gpu_dynamic_kwh": evaluation.energy.gpu_dynamic_j / kwh,
        "sleep_kwh": evaluation.energy.sleep_j / kwh,
        "wake_kwh": evaluation.energy.wake_j / kwh,
        "load_active_gpus": evaluation.load_active_gpus,
        "load_all_gpus": evaluation.load_all_gpus,
        "max_lateness_h": None if math.isinf(late) else late / h,
        "threshold_excess_gpu_h": evaluation.threshold_excess_gpu_s / h,
        "modelled_power_share": evaluation.modelled_power_share,
    }
    for what, name in (("running_s", "jct"), ("wait_s", "wait"), ("jtt_s", "jtt")):
        for q, value in evaluation.percentiles(what).items():
            out[f"p{q:g}_{name}_h"] = value / h
    return out


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Row:
    """One method's outcome.

    Attributes
    ----------
    method
        Label, unique in the comparison.
    kind
        ``policy``, ``method`` or ``schedule`` (the user's own).
    result
        Schedule, evaluation, status and provenance.
    active
        Number of active nodes over time; ``None`` without a schedule.
    instance
        The instance that the schedule belongs to: without the jobs that the policy rejected.
    counters
        What a policy counted (undos, observations, ...).
    rejected
        Jobs that the policy rejected; metrics and references are those of the instance without them.
    plan_grid_s, plan_grid_status, plan_grid_objective
        Where the plan was found on a grid and the row is in continuous time: slot length [s], status and
        objective there; ``None`` otherwise.
    lower
        Lower bound on the objective of every schedule of ``instance`` of any class, in continuous time.
    lower_relaxed
        The same without the deadlines that the row missed, and with U_threshold as high as it went; ``None``
        where it broke neither.
    """

    method: str
    kind: str
    result: Result
    instance: Instance
    active: ActiveCurve | None = None
    rejected: tuple[str, ...] = ()
    plan_grid_s: float | None = None
    plan_grid_status: str | None = None
    plan_grid_objective: float | None = None
    counters: Mapping[str, int] = field(default_factory=dict)
    lower: float | None = None
    lower_relaxed: float | None = None

    @property
    def broken(self) -> bool:
        """Whether a deadline was missed or a threshold exceeded."""
        return self.result.evaluation is not None and not self.result.evaluation.feasible

    @property
    def bound(self) -> float | None:
        """The larger of the method's own bound and the one in continuous time."""
        known = [b for b in (self.result.bound, self.lower) if b is not None]
        return max(known, default=None)

    def _gap(self, lower: float | None) -> float | None:
        if self.result.evaluation is None:
            return None
        return gap_to(f"compare: the schedule of {self.method!r}", self.result.evaluation.objective, lower)

    def values(self) -> dict[str, Any]:
        """Return the row under the keys of the command line; what is not known is ``None``."""
        result = self.result
        own = self.kind == "schedule"
        out: dict[str, Any] = {
            "method": self.method,
            "class": None if result.schedule is None else result.schedule.schedule_class.value,
            "kind": self.kind,
            "status": result.status.value,
            "stop_reason": result.stop_reason.value,
            "bound": self.bound,
            "bound_relaxed": self.lower_relaxed,
            "gap": None if self.broken else self._gap(self.bound),
            "gap_relaxed": self._gap(self.lower_relaxed),
            "runtime_s": None if own else result.build_s + result.solve_s,
            "seed": None if own else result.seed,
            "options": dict(result.options),
            "counters": dict(self.counters),
            "jobs": len(self.instance.jobs),
            "rejected": list(self.rejected),
            "plan_grid_s": self.plan_grid_s,
            "plan_grid_status": self.plan_grid_status,
            "plan_grid_objective": self.plan_grid_objective,
        }
        found = result.evaluation
        out.update(
            dict.fromkeys((*METRICS, *EXTRA)) if found is None else found.summary() | extra_metrics(found)
        )
        return out


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Comparison:
    """Rows of several methods on one instance.

    Attributes
    ----------
    instance
        What was run: with the objective asked for, without dropped jobs.
    digest
        Its digest.
    rows
        Methods in the order given, then the user's schedules.
    relative_to
        Label of the row that others are shown relative to; ``None`` when no row has a schedule.
    dropped
        (job, reason) of the impossible jobs that were left out for all rows alike.
    best_effort
        Names of jobs whose deadlines nobody could have met; policies ran them all the same.
    grid_s
        Slot length [s] of grid physics, ``None`` in continuous time.
    notes
        What has to be said besides, such as why there is no row of the grid optimum.
    """

    instance: Instance
    digest: str
    rows: tuple[Row, ...]
    relative_to: str | None
    dropped: tuple[tuple[str, str], ...] = ()
    best_effort: tuple[str, ...] = ()
    grid_s: float | None = None
    notes: tuple[str, ...] = ()

    def row(self, method: str) -> Row:
        """Return the row with a label.

        Raises
        ------
        EacoError
            There is none; the text lists those there are.
        """
        for row in self.rows:
            if row.method == method:
                return row
        raise EacoError(f"comparison has no row {method!r}; it has {', '.join(r.method for r in self.rows)}")

    def relative(self, row: Row) -> dict[str, float | None]:
        """Return how far a row lies from the reference row, by metric [%]; ``None`` where that has 0."""
        if self.relative_to is None:
            return dict.fromkeys(RELATIVE)
        base, values = self.row(self.relative_to).values(), row.values()
        out: dict[str, float | None] = {}
        for metric in RELATIVE:
            mine, other = values[metric], base[metric]
            out[metric] = None if mine is None or not other else 100.0 * (mine / other - 1.0)
        return out

    def table(self) -> list[dict[str, Any]]:
        """Return one flat row a method; ``relative_*`` are percent."""
        return [
            row.values() | {f"relative_{m}_percent": x for m, x in self.relative(row).items()}
            for row in self.rows
        ]

    def settings(self) -> dict[str, Any]:
        """Return what the numbers depend on: weights, limits, sleep and wake-up, assumptions."""
        instance = self.instance
        used = {n.node_type for n in instance.cluster.nodes}
        types = [t for t in instance.cluster.node_types if t.name in used]
        return {
            "alpha": instance.objective.alpha,
            "objective_form": instance.objective.form.value,
            "jtt_weight": instance.objective.jtt_weight,
            "u_threshold": instance.limits.u_threshold,
            "mem_threshold": instance.limits.mem_threshold,
            "max_share": instance.limits.max_share,
            "admission_rule": instance.limits.rule.value,
            "pue": instance.cluster.pue,
            "node_types": {
                t.name: {
                    "sleep_w": t.sleep_w,
                    "wake_s": t.wake_s,
                    "wake_energy_j": t.wake_energy_j,
                    "power_lookup": t.power.lookup,
                }
                for t in types
            },
            "grid_s": self.grid_s,
            "assumptions": {
                k.removeprefix("assumption."): t for k, t in instance.metadata if k.startswith("assumption.")
            },
        }

    def document(self) -> dict[str, Any]:
        """Return everything but the schedules, ready for JSON."""
        instance = self.instance
        rows = [row.values() | {"relative": self.relative(row)} for row in self.rows]
        return {
            "instance": {
                "name": instance.name,
                "digest": self.digest,
                "jobs": len(instance.jobs),
                "nodes": len(instance.cluster.nodes),
                "gpus": instance.cluster.total_gpus(),
                "alpha": instance.objective.alpha,
            },
            "relative_to": self.relative_to,
            "rows": rows,
            "dropped": [{"job": job, "reason": reason} for job, reason in self.dropped],
            "best_effort": list(self.best_effort),
            "notes": list(self.notes),
            "settings": self.settings(),
            "versions": dict(versions()),
        }


def _without_impossible(instance: Instance, impossible: str) -> tuple[Instance, tuple[tuple[str, str], ...]]:
    """Return the instance to run, and what was dropped; raises where that was not asked for."""
    if impossible not in ("error", "drop"):
        raise EacoError(f"compare: impossible must be 'error' or 'drop', got {impossible!r}")
    hopeless = impossible_jobs(instance)
    if impossible == "drop" and hopeless:
        if len(hopeless) == len(instance.jobs):
            raise ImpossibleJobsError([(job.job, job.reason) for job in hopeless])
        names = [job.job for job in hopeless]
        log.info("dropped %d impossible job(s): %s", len(names), ", ".join(names))
        return instance.without(names), tuple((job.job, job.reason) for job in hopeless)
    fatal = [(job.job, job.reason) for job in hopeless if not job.deadline_only]
    if fatal:
        raise ImpossibleJobsError(fatal)
    return instance, ()


def compare(
    instance: Instance,
    methods: str | Sequence[str | Policy] | None = None,
    *,
    alpha: float | None = None,
    seed: int = 0,
    schedules: Sequence[Schedule | tuple[str, Schedule]] = (),
    time_limit_s: float | None = None,
    impossible: str = "error",
    options: Mapping[str, Mapping[str, Any]] | None = None,
    grid_s: float | str | None = None,
    history: Interference | None = None,
    bounds: bool = True,
    progress: Hook | None = None,
) -> Comparison:
    """Run several methods on one instance and set them side by side.

    Parameters
    ----------
    instance
        The problem.
    methods
        Registered names, policy objects of the caller's own, or both; ``"LABEL=name"`` gives a name a label,
        so that one method can be listed twice with different options. ``grid-optimal`` is the plan that is
        proved optimal (class ``static``) on a grid, carried out in continuous time; its row is left out,
        with a note, where nothing is proved in time. :data:`DEFAULT_METHODS` by default, ``grid-optimal``
        up to :data:`GRID_OPTIMAL_JOBS` jobs.
    alpha
        Weight of energy instead of the instance's own.
    seed
        Each method gets a generator seeded with it.
    schedules
        The caller's own schedules, alone or as (label, schedule), each one more row.
    time_limit_s
        Wall-clock limit of each method [s]; without it none, but :data:`GRID_OPTIMAL_S` for
        ``grid-optimal``.
    impossible
        ``error``: jobs that can run nowhere are an error that names them, jobs whose deadline nobody could
        meet run best-effort. ``drop``: both are left out for all rows alike.
    options
        Options of the methods, by label. Of ``grid-optimal``: ``method`` (``auto``), ``step_s`` (slot length
        [s], chosen by :func:`experiments.grid_plans.optimal_steps_s` without it), and those of the method.
    grid_s
        Slot length [s] of grid physics for all rows, ``"auto"``, or ``None`` for continuous time, in which
        exact methods find their plan on a grid of the automatic step.
    history
        What policies believe about slowdowns; the truth by default.
    bounds
        Whether to bound the objective of all schedules from below (:func:`solvers.bounds.bound`), for the
        gaps; within ``time_limit_s``, or :data:`BOUND_S`, for each set of rules kept.
    progress
        Called now and then.

    Raises
    ------
    UnknownNameError
        A method does not exist; the text lists the known ones.
    ImpossibleJobsError
        Jobs can run nowhere and ``impossible`` is ``error``.
    ScheduleError
        One of the caller's schedules breaks a physical rule.
    EacoError
        An option is unusable, or a policy misbehaves.
    InternalError
        The checker does not confirm a method's schedule.
    """
    need_instance("compare", instance)
    notes: list[str] = []
    few = len(instance.jobs) <= GRID_OPTIMAL_JOBS
    if methods is None:
        methods = DEFAULT_METHODS if few else [m for m in DEFAULT_METHODS if m != GRID_OPTIMAL]
        if not few:
            notes.append(
                f"{GRID_OPTIMAL} is left out: the proof is tried for at most {GRID_OPTIMAL_JOBS} jobs, "
                "unless it is named among the methods"
            )
    entries = entries_of("compare", methods, schedules, also=(GRID_OPTIMAL,))
    chosen = {key: dict(value) for key, value in (options or {}).items()}
    for label in chosen:
        if label not in [e.label for e in entries if e.name]:
            known = ", ".join(e.label for e in entries if e.name) or "none"
            raise EacoError(
                f"compare: options for {label!r}, which is no registered method listed; listed are: {known}"
            )
    # Built before anything runs, so that a wrong option costs no time.
    policies: dict[str, Policy] = {
        e.label: make_policy(e.name, **chosen.get(e.label, {}))
        for e in entries
        if e.name and e.kind == "policy"
    }
    if alpha is not None:
        instance = dataclasses.replace(
            instance, objective=dataclasses.replace(instance.objective, alpha=alpha)
        )
    instance, dropped = _without_impossible(instance, impossible)
    if isinstance(grid_s, str):
        if grid_s != "auto":
            raise EacoError(f"compare: grid_s must be a number of seconds, 'auto' or None, got {grid_s!r}")
        grid_s = automatic_slot_s(instance)
    digest = instance_digest(instance)
    for label, policy in policies.items():
        warm_up(instance, policy.name, chosen.get(label), grid_s=grid_s)
    gone = {job for job, _ in dropped}
    jobs = len(instance.jobs)
    own = {
        e.label: _own_row(e.label, instance, e.schedule, gone, digest, grid_s)
        for e in entries
        if e.schedule is not None
    }
    rows: list[Row] = []
    for number, entry in enumerate(entries):

        def tell(done: int, number: int = number, entry: Entry = entry) -> None:
            if progress is not None:
                progress(Step(row=number, rows=len(entries), method=entry.label, done=done, jobs=jobs))

        def hook(at: Progress | SearchProgress, tell: Callable[[int], None] = tell) -> None:
            tell(0 if isinstance(at, SearchProgress) else at.done)

        tell(0)
        if entry.label in own:
            rows.append(own[entry.label])
        elif entry.kind == "method":
            if entry.name == GRID_OPTIMAL:
                row, note = _grid_optimal_row(
                    entry, instance, chosen.get(entry.label, {}), grid_s, time_limit_s, seed, hook
                )
            else:
                result = solve(
                    instance,
                    entry.name,
                    time_limit_s=time_limit_s,
                    seed=seed,
                    grid_s=grid_s,
                    options=chosen.get(entry.label),
                    progress=hook,
                )
                row, note = _method_row(entry.label, instance, result, grid_s)
            rows += [] if row is None else [row]
            notes += [] if note is None else [note]
        else:
            rows.append(
                policy_row(
                    entry,
                    entry.policy or policies[entry.label],
                    instance,
                    options=chosen.get(entry.label),
                    seed=seed,
                    time_limit_s=time_limit_s,
                    grid_s=grid_s,
                    history=history,
                    progress=hook,
                    digest=digest,
                )
            )
        tell(jobs)
    if bounds:
        rows = _bounded(rows, BOUND_S if time_limit_s is None else time_limit_s)
    scheduled = [row.method for row in rows if row.result.schedule is not None]
    relative_to = REFERENCE if REFERENCE in scheduled else next(iter(scheduled), None)
    best_effort = () if dropped else tuple(j.job for j in impossible_jobs(instance))
    return Comparison(
        instance=instance,
        digest=digest,
        rows=tuple(rows),
        relative_to=relative_to,
        dropped=dropped,
        best_effort=best_effort,
        grid_s=grid_s,
        notes=tuple(notes),
    )


def _bounded(rows: Sequence[Row], time_limit_s: float) -> list[Row]:
    """Return rows with lower bounds beside them."""
    known = Bounds(time_limit_s=time_limit_s)
    out = []
    for row in rows:
        own = known.of(row.instance)
        found = row.result.evaluation
        relaxed = None if found is None or found.feasible else known.for_value(row.instance, found)
        out.append(
            dataclasses.replace(
                row,
                lower=None if own is None else own.value,
                lower_relaxed=None if relaxed is None else relaxed.value,
            )
        )
    return out


def policy_row(
    entry: Entry,
    policy: Policy,
    instance: Instance,
    *,
    options: Mapping[str, Any] | None = None,
    seed: int = 0,
    time_limit_s: float | None = None,
    grid_s: float | None = None,
    history: Interference | None = None,
    progress: SolveHook | None = None,
    digest: str | None = None,
) -> Row:
    """Run a policy and return its row; the parameters are those of :func:`solvers.policy_runs.run_policy`."""
    result, run = run_policy(
        instance,
        policy,
        label=entry.label,
        options=options,
        seed=seed,
        time_limit_s=time_limit_s,
        grid_s=grid_s,
        history=history,
        progress=progress,
        digest=digest,
    )
    return Row(
        method=entry.label,
        kind="policy",
        result=result,
        instance=instance if run is None else run.instance,
        active=None if run is None else run.active,
        rejected=() if run is None else run.rejected,
        counters={} if run is None else run.counters,
    )


def _grid_optimal_row(
    entry: Entry,
    instance: Instance,
    options: Mapping[str, Any],
    grid_s: float | None,
    time_limit_s: float | None,
    seed: int,
    hook: SolveHook,
) -> tuple[Row | None, str | None]:
    """Return the row of the plan that is proved optimal on a grid, or why there is none."""
    given = dict(options)
    method = str(given.pop("method", "auto"))
    step = given.pop("step_s", None)
    if step is not None:
        steps_s = [v.real(f"compare: {entry.label}", "step_s", step, above=0.0)]
    else:
        steps_s = optimal_steps_s(instance) if grid_s is None else [grid_s]
    limit_s = GRID_OPTIMAL_S if time_limit_s is None else time_limit_s
    began = time.monotonic()
    note = None
    for step_s in steps_s:
        left_s = limit_s if note is None else max(0.0, limit_s - (time.monotonic() - began))
        label = f"{entry.label} {step_text(step_s)}"
        try:
            result = solve(
                instance, method, time_limit_s=left_s, seed=seed, grid_s=step_s, options=given, progress=hook
            )
        except UnknownNameError:
            raise
        except EacoError as error:
            return None, f"{label} is left out: {error}"
        if result.status is Status.OPTIMAL:
            # Not what was left of the limit: the same call gives the same row.
            options = {**dict(result.options), "time_limit_s": str(limit_s)}
            result = dataclasses.replace(result, options=tuple(sorted(options.items())))
            row, reason = _method_row(label, instance, result, grid_s)
            if row is not None and row.result.schedule is None:
                return None, reason
            return row, reason
        note = f"{label} is left out: {_not_proved(result, step_s, limit_s)}"
        if result.status is not Status.INFEASIBLE:
            break
    return None, note


def _method_row(
    label: str, instance: Instance, result: Result, grid_s: float | None
) -> tuple[Row | None, str | None]:
    """Return the row of a method that is no policy, and what has to be said about it.

    In a comparison in continuous time, plans of a grid are carried out in continuous time.
    """
    result = dataclasses.replace(result, method=label)
    found, note = result, None
    step_s = float(dict(result.options).get("grid_s", "nan"))
    moved = grid_s is None and not math.isnan(step_s)
    if moved and (result.schedule is not None or result.status is Status.INFEASIBLE):
        replayed = in_continuous_time(instance, result)
        if replayed is None:
            note = (
                f"{label} has no schedule: no plan exists on slots of {step_text(step_s)}; a shorter slot "
                "may leave room"
                if result.status is Status.INFEASIBLE
                else f"{label} has no schedule: its plan on slots of {step_text(step_s)} breaks a rule in "
                "continuous time"
            )
            replayed = dataclasses.replace(
                result, schedule=None, evaluation=None, status=Status.UNKNOWN, bound=None, curve=()
            )
        found = replayed
    elif moved:
        found = dataclasses.replace(result, bound=None, curve=())
    row = Row(
        method=label,
        kind="method",
        result=found,
        instance=instance,
        active=None if found.schedule is None else active_curve(instance, found.schedule),
        plan_grid_s=step_s if moved else None,
        plan_grid_status=result.status.value if moved else None,
        plan_grid_objective=result.objective if moved else None,
    )
    return row, note


def _not_proved(result: Result, step_s: float, limit_s: float) -> str:
    """Return why there is no optimum, in words."""
    on_grid = f"on slots of {step_text(step_s)}"
    if result.status is Status.INFEASIBLE:
        return f"no plan keeps all rules {on_grid} (`eaco-opt explain INSTANCE` says why)"
    near = "" if result.gap is None else f"; a gap of {100.0 * result.gap:.2g} % was left"
    why = f" ({result.message})" if result.stop_reason is StopReason.ERROR and result.message else ""
    return f"no optimum was proved {on_grid} within {limit_s:g} s{near}{why}"


def _own_row(
    label: str, instance: Instance, schedule: Schedule, gone: set[str], digest: str, grid_s: float | None
) -> Row:
    """Return the row of a user's schedule, checked; segments of dropped jobs are left out."""
    kept = Schedule(
        segments=tuple(s for s in schedule.segments if s.job not in gone),
        schedule_class=schedule.schedule_class,
        method=schedule.method or label,
        instance_digest=digest,
    )
    refuse_violations(label, instance, kept, grid_s=grid_s)
    evaluation = evaluate(instance, kept, grid_s=grid_s)
    verify(label, instance, kept, evaluation, grid_s=grid_s)
    result = Result(
        method=label,
        schedule=kept,
        evaluation=evaluation,
        status=Status.FEASIBLE,
        stop_reason=StopReason.FINISHED,
        instance_digest=digest,
        versions=versions(),
    )
    return Row(
        method=label, kind="schedule", result=result, instance=instance, active=active_curve(instance, kept)
    )
