"""How far methods are from the optimum on a grid, within the static class: :func:`gap_study`.

Every value of a row is in the same physics (docs/model.md section 5) and class (section 4): policies run in
their static form on the slots, an exact method gives the optimum or a bound there, and shares of the
attainable saving are taken from exclusive execution on the same slots (section 10). Optima and bounds are
told apart in every row (``reference_kind``) and are never averaged.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from eaco_opt import _validate as v
from eaco_opt.errors import EacoError, ImpossibleJobsError, ScheduleError
from eaco_opt.evaluation import Evaluation
from eaco_opt.impossible import impossible_jobs
from eaco_opt.instance import Instance
from eaco_opt.io_digest import instance_digest
from eaco_opt.limits import Objective
from eaco_opt.physics import evaluate, objective_value, plan_schedule
from eaco_opt.policies import make_policy
from eaco_opt.result import Result, Status, StopReason
from eaco_opt.schedule import Placement, Plan, Schedule, ScheduleClass
from eaco_opt.simulator import Policy
from formulations.grid import automatic_slot_s
from solvers.base import METHODS
from solvers.policy_runs import run_policy, warm_up
from solvers.run import need_instance, solve
from solvers.verify import refuse_violations

from .entries import Entry, entries_of, unique
from .grid_plans import optimal_steps_s
from .shares import KWH_J, Bounds, attained, gap_to, relaxed_instance

DEFAULT_METHODS = ("fifo", "fifo_packed", "gandiva", "eaco")
DEFAULT_LIMIT_S = 60.0

COLUMNS = (
    "instance", "digest", "method", "class", "status", "slot_s", "alpha", "objective", "reference",
    "reference_kind", "reference_source", "gap", "gap_relaxed", "attained_share",
    "attained_share_no_sharing_ref",
    "exclusive_objective", "no_sharing_objective", "no_sharing_status", "relaxed_reference",
    "relaxed_reference_kind", "energy_kwh", "energy_attained_share", "least_energy_kwh", "least_energy_kind",
    "exclusive_energy_kwh", "avg_tpe_h", "deadline_misses", "threshold_excess", "rejected_jobs", "seconds",
    "seed", "exact_method", "message",
)  # fmt: skip
"""Keys of a row, and columns of ``gap.csv``."""

END_TOLERANCE_S = 1e-3
"""Ends [s] of a schedule that differ by less from those on slots are these."""

Tell = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """What an exact method says about an instance on a grid.

    Attributes
    ----------
    value
        Optimum or lower bound, ``None`` where there is neither.
    kind
        ``optimum``, ``bound``, or ``None``.
    result
        The method's result, or ``None`` where it refused.
    message
        What it said.
    source
        Where the bound comes from if not from the method: the kind of a bound in continuous time.
    """

    value: float | None
    kind: str | None
    result: Result | None
    message: str
    source: str = ""


def exact_reference(
    instance: Instance,
    method: str,
    *,
    slot_s: float,
    time_limit_s: float | None,
    seed: int = 0,
    threads: int = 1,
) -> Reference:
    """Return the optimum of an instance on a grid, or the best bound within the limit."""
    try:
        result = solve(instance, method, grid_s=slot_s, time_limit_s=time_limit_s, seed=seed, threads=threads)
    except EacoError as error:
        return Reference(value=None, kind=None, result=None, message=str(error))
    if result.stop_reason is StopReason.INTERRUPTED:
        raise KeyboardInterrupt  # of the study, not of this one search
    if result.status is Status.OPTIMAL and result.evaluation is not None:
        return Reference(
            value=result.evaluation.objective, kind="optimum", result=result, message=result.message
        )
    kind = None if result.bound is None else "bound"
    return Reference(value=result.bound, kind=kind, result=result, message=result.message)


def exclusive_objective(instance: Instance, slot_s: float) -> float | None:
    """Return the objective of exclusive execution on slots: durations rounded up (docs/model.md 5.6).

    ``None`` where some job fits no node type.
    """
    view = instance.arrays()
    if view.reference()[1] <= 0.0:
        return None
    return objective_value(instance, *view.reference(slot_s))


def gap_study(
    instances: Sequence[Instance | tuple[str, Instance]],
    methods: str | Sequence[str | Policy] = DEFAULT_METHODS,
    *,
    schedules: Sequence[Schedule | tuple[str, Schedule]] = (),
    alpha: float | None = None,
    exact: str = "auto",
    time_limit_s: float | None = DEFAULT_LIMIT_S,
    grid_s: float | str | None = None,
    seed: int = 0,
    threads: int = 1,
    energy: bool = False,
    progress: Tell | None = None,
) -> list[dict[str, Any]]:
    """Return a row for each instance and method, with the keys of :data:`COLUMNS`.

    Parameters
    ----------
    instances
        Instances, alone or as (name, instance).
    methods, schedules
        What to put beside the optimum: as for :func:`experiments.compare.compare`. Schedules have to be
        static, with starts on slots.
    alpha
        Weight of energy instead of the instances' own.
    exact
        Method that gives the optimum or bound; its schedule is a row as well.
    time_limit_s
        Wall-clock limit of each exact solve [s]: one an instance, one for the best schedule without sharing,
        and one for each set of broken deadlines and thresholds.
    grid_s
        Slot length [s], ``"auto"`` for the automatic rule, or ``None`` for the step of the row
        ``grid-optimal`` of ``compare`` (:func:`experiments.grid_plans.optimal_steps_s`).
    seed, threads
        For whatever is drawn, and for the exact method.
    energy
        Whether to look for the least energy as well, for the attained share of energy alone: one more exact
        solve an instance, and one for each set of broken deadlines and thresholds.
    progress
        Called with text, steps done and steps in all.

    Raises
    ------
    EacoError
        A method, option or schedule is not usable. That an instance is infeasible or that nothing was proved
        is no error: its rows say so.
    InternalError
        A schedule costs less than the optimum or bound.
    """
    taken: set[str] = set()
    named = [
        (unique(item[0], taken), item[1]) if isinstance(item, tuple) else (unique(item.name, taken), item)
        for item in instances
    ]
    if not named:
        raise EacoError("gap: no instance was given; name at least one")
    entries = entries_of("gap", methods, schedules)
    if exact not in METHODS or not METHODS.get(exact)().exact:
        known = ", ".join(METHODS.names())
        raise EacoError(
            f"gap: exact must be a method that proves something, got {exact!r}; known are: {known}"
        )
    rows: list[dict[str, Any]] = []
    total = len(named) * (len(entries) + 2)
    done = 0

    def tell(text: str) -> None:
        nonlocal done
        if progress is not None:
            progress(text, done, total)
        done += 1

    for name, given in named:
        need_instance("gap", given)
        instance = given
        if alpha is not None:
            instance = dataclasses.replace(given, objective=dataclasses.replace(given.objective, alpha=alpha))
        if grid_s is None:
            steps_s = optimal_steps_s(instance)
        elif isinstance(grid_s, str):
            if grid_s != "auto":
                raise EacoError(f"gap: grid_s must be a number of seconds or 'auto', got {grid_s!r}")
            steps_s = [automatic_slot_s(instance)]
        else:
            steps_s = [v.real("gap", "grid_s", grid_s, above=0.0)]
        tell(f"{name}: {exact}")
        for slot_s in steps_s:
            study = _Study(name, instance, slot_s, exact, time_limit_s, seed, threads, energy)
            study.solve()
            if study.reference.result is None or study.reference.result.status is not Status.INFEASIBLE:
                break
        tell(f"{name}: without sharing")
        study.solve_alone()
        rows.append(study.own_row())
        for entry in entries:
            tell(f"{name}: {entry.label}")
            rows.append(study.row(entry))
    return rows


class _Study:
    """One instance on its grid."""

    def __init__(
        self,
        name: str,
        instance: Instance,
        slot_s: float,
        exact: str,
        time_limit_s: float | None,
        seed: int,
        threads: int,
        energy: bool,
    ) -> None:
        self.energy = energy
        self.name, self.instance, self.slot_s = name, instance, slot_s
        self.exact, self.limit, self.seed, self.threads = exact, time_limit_s, seed, threads
        self.exclusive = exclusive_objective(instance, slot_s)
        self.reference = Reference(value=None, kind=None, result=None, message="")
        self.alone = self.reference
        self._found: dict[tuple[str, bool], Reference] = {}
        self.seconds = 0.0

    def _solve(self, instance: Instance) -> Reference:
        found = exact_reference(
            instance,
            self.exact,
            slot_s=self.slot_s,
            time_limit_s=self.limit,
            seed=self.seed,
            threads=self.threads,
        )
        infeasible = found.result is not None and found.result.status is Status.INFEASIBLE
        if found.kind == "optimum" or infeasible:
            return found
        # No proof: a bound in continuous time holds on every grid, and may be the better one.
        lower = Bounds(time_limit_s=self.limit).of(instance)
        if lower is None or lower.value is None or (found.value is not None and found.value >= lower.value):
            return found
        return dataclasses.replace(found, value=lower.value, kind="bound", source=lower.kind)

    def solve(self) -> None:
        began = time.perf_counter()
        self.reference = self._of(self.instance)
        self.seconds = time.perf_counter() - began

    def _of(self, instance: Instance, *, energy: bool = False) -> Reference:
        """Return the optimum or bound of an instance; each is looked for once."""
        if energy:
            instance = dataclasses.replace(instance, objective=Objective(alpha=1.0))
        key = (instance_digest(instance), energy)  # the digest does not depend on the objective
        if key not in self._found:
            self._found[key] = self._solve(instance)
        return self._found[key]

    def solve_alone(self) -> None:
        """Find the best schedule without sharing: the same instance with at most one job on a GPU."""
        limits = dataclasses.replace(self.instance.limits, max_share=1)
        self.alone = self._of(dataclasses.replace(self.instance, limits=limits))

    def _source(self, reference: Reference) -> str | None:
        return None if reference.value is None else reference.source or self.exact

    def _base(self, label: str) -> dict[str, Any]:
        alone = self.alone.result
        row: dict[str, Any] = dict.fromkeys(COLUMNS)
        row.update(
            {
                "instance": self.name,
                "digest": instance_digest(self.instance),
                "method": label,
                "class": str(ScheduleClass.STATIC),
                "slot_s": self.slot_s,
                "alpha": self.instance.objective.alpha,
                "reference": self.reference.value,
                "reference_kind": self.reference.kind,
                "reference_source": self._source(self.reference),
                "exclusive_objective": self.exclusive,
                "no_sharing_objective": None
                if alone is None or alone.evaluation is None
                else alone.evaluation.objective,
                "no_sharing_status": None if alone is None else str(alone.status),
                "seed": self.seed,
                "exact_method": self.exact,
            }
        )
        return row

    def own_row(self) -> dict[str, Any]:
        """Return the row of the exact method itself."""
        row = self._base(self.exact)
        result = self.reference.result
        row["seconds"] = self.seconds
        row["message"] = self.reference.message
        if result is None:
            row["status"] = str(Status.UNKNOWN)
            return row
        row["status"] = str(result.status)
        if result.evaluation is not None:
            self._measure(row, self.instance, result.evaluation)
        return row

    def row(self, entry: Entry) -> dict[str, Any]:
        """Return the row of a policy, another method or a schedule."""
        row = self._base(entry.label)
        began = time.perf_counter()
        try:
            found, instance, status, message = self._run(entry)
        except ScheduleError as error:
            raise EacoError(f"gap: schedule {entry.label!r} for instance {self.name!r}: {error}") from error
        row["seconds"] = time.perf_counter() - began
        row["status"], row["message"] = status, message
        if found is not None:
            self._measure(row, instance, found)
        return row

    def _run(self, entry: Entry) -> tuple[Evaluation | None, Instance, str, str]:
        """Return value, the instance that it is of (without jobs that a policy rejected), status, message."""
        instance, feasible = self.instance, str(Status.FEASIBLE)
        if entry.schedule is not None:
            return self._own_schedule(entry.label, entry.schedule), instance, feasible, ""
        if entry.kind == "method":
            try:
                result = solve(
                    instance,
                    entry.name,
                    grid_s=self.slot_s,
                    time_limit_s=self.limit,
                    seed=self.seed,
                    threads=self.threads,
                )
            except EacoError as error:
                return None, instance, str(Status.UNKNOWN), str(error)
            if result.stop_reason is StopReason.INTERRUPTED:
                raise KeyboardInterrupt
            return result.evaluation, instance, str(result.status), result.message
        try:
            policy = entry.policy
            if policy is None:
                policy = make_policy(entry.name)
                if not any(not job.deadline_only for job in impossible_jobs(instance)):
                    warm_up(instance, entry.name, grid_s=self.slot_s)
            result, run = run_policy(
                instance,
                policy,
                label=entry.label,
                seed=self.seed,
                time_limit_s=self.limit,
                grid_s=self.slot_s,
            )
        except ImpossibleJobsError as error:
            return None, instance, str(Status.INFEASIBLE), str(error)
        return (
            result.evaluation,
            instance if run is None else run.instance,
            str(result.status),
            result.message,
        )

    def _own_schedule(self, label: str, schedule: Schedule) -> Evaluation:
        """Return the value of a user's schedule as a static plan on the slots.

        Its ends are those of the slots, or else have to be right in continuous time.
        """
        view = self.instance.arrays()
        segments = {s.job: s for s in schedule.segments}
        if len(segments) != len(schedule.segments):
            raise EacoError(
                f"gap: schedule {label!r} stops and moves jobs (class epoch or fluid); gaps here are within "
                "the static class. Use compare for it"
            )
        for s in schedule.segments:
            slots = (s.start_s - view.origin_s) / self.slot_s
            if abs(slots - round(slots)) * self.slot_s > 1e-6 + 1e-9 * abs(s.start_s - view.origin_s):
                raise EacoError(
                    f"gap: schedule {label!r} starts job {s.job!r} at {s.start_s!r} s, which is on no slot "
                    f"of {self.slot_s:g} s from the earliest release; give --grid a step that its starts fit"
                )
        plan = Plan.of(
            self.instance, {s.job: Placement(start_s=s.start_s, gpus=s.gpus) for s in schedule.segments}
        )
        on_grid = plan_schedule(self.instance, plan, grid_s=self.slot_s, method=label)
        if any(abs(s.end_s - segments[s.job].end_s) > END_TOLERANCE_S for s in on_grid.segments):
            refuse_violations(label, self.instance, schedule)
        refuse_violations(label, self.instance, on_grid, grid_s=self.slot_s)
        return evaluate(self.instance, plan, grid_s=self.slot_s)

    def _measure(self, row: dict[str, Any], instance: Instance, found: Evaluation) -> None:
        """Set a value beside the optimum or bound of its instance, or of what is left of it.

        Parameters
        ----------
        row
            Gets the values.
        instance
            What the value is of: without the jobs that a policy rejected.
        found
            The value.
        """
        value = found.objective
        row.update(
            {
                "objective": value,
                "energy_kwh": found.energy_j / KWH_J,
                "avg_tpe_h": found.avg_tpe_s / 3600.0,
                "deadline_misses": found.deadline_misses,
                "threshold_excess": found.threshold_excess,
                "rejected_jobs": len(self.instance.jobs) - len(instance.jobs),
            }
        )
        if instance is not self.instance:
            limits = dataclasses.replace(instance.limits, max_share=1)
            alone = self._of(dataclasses.replace(instance, limits=limits)).result
            reference = self._of(instance)
            row.update(
                {
                    "digest": instance_digest(instance),
                    "reference": reference.value,
                    "reference_kind": reference.kind,
                    "reference_source": self._source(reference),
                    "exclusive_objective": exclusive_objective(instance, self.slot_s),
                    "no_sharing_objective": None if alone is None else alone.objective,
                    "no_sharing_status": None if alone is None else str(alone.status),
                }
            )
        kept = instance if found.feasible else relaxed_instance(instance, found)
        reference = self._of(kept)
        if not found.feasible:
            row["relaxed_reference"], row["relaxed_reference_kind"] = reference.value, reference.kind
        gap = gap_to(
            f"gap: the schedule of {row['method']!r} on {self.name!r}, on slots of {self.slot_s:g} s,",
            value,
            reference.value,
        )
        row["gap" if found.feasible else "gap_relaxed"] = gap
        row["attained_share"] = attained(instance, row["exclusive_objective"], value, reference.value)
        row["attained_share_no_sharing_ref"] = attained(
            instance, row["no_sharing_objective"], value, reference.value
        )
        if self.energy:
            least, view = self._of(kept, energy=True), instance.arrays()
            least_j = None if least.value is None else least.value * view.reference()[0]
            exclusive_j = view.reference(self.slot_s)[0]
            row.update(
                {
                    "exclusive_energy_kwh": exclusive_j / KWH_J,
                    "least_energy_kwh": None if least_j is None else least_j / KWH_J,
                    "least_energy_kind": least.kind,
                    "energy_attained_share": attained(instance, exclusive_j, found.energy_j, least_j),
                }
            )
