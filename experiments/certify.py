"""How near a schedule comes to what no schedule can undercut: :func:`certify`.

A search for a good schedule and a lower bound on all schedules run side by side; what lies between them is
the certified gap of the search, and of every other method (docs/model.md sections 6 and 10). Everything is
in continuous time.
"""

from __future__ import annotations

import dataclasses
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from eaco_opt import _validate as v
from eaco_opt.errors import EacoError, ImpossibleJobsError
from eaco_opt.instance import Instance
from eaco_opt.io_digest import instance_digest
from eaco_opt.physics import objective_value
from eaco_opt.result import Result, StopReason
from eaco_opt.schedule import Schedule
from eaco_opt.simulator import Policy
from solvers.base import SearchProgress, versions
from solvers.bounds import Bound, bound
from solvers.run import solve

from .compare import Row, compare
from .shares import KWH_J, Bounds, attained, gap_to, relaxed_instance

SEARCH = "lns"
POLICIES = ("fifo", "fifo_packed", "gandiva", "eaco")
DEFAULT_LIMIT_S = 300.0

NO_SHARING_SHARE = 0.15
"""Share of the time limit spent on the best schedule without sharing, where GPU counts are mixed."""

COLUMNS = (
    "method", "class", "status", "objective", "certified_gap", "gap_relaxed", "bound", "attained_share",
    "attained_share_no_sharing_ref", "energy_kwh", "energy_gap", "energy_bound_kwh", "energy_attained_share",
    "avg_tpe_h", "mean_jct_h", "deadline_misses", "threshold_excess", "seconds",
)  # fmt: skip
"""Keys of a row, and columns of ``rows.csv``."""

CURVE_COLUMNS = ("seconds", "objective", "bound")
Tell = Callable[[str, float | None, float | None], None]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Certified:
    """What certification found.

    Attributes
    ----------
    instance
        The problem, with the objective asked for.
    digest
        Its digest.
    rows
        One for each method, with the keys of :data:`COLUMNS`.
    schedules
        (label, schedule, instance it belongs to) of the rows that have one.
    bound
        Lower bound on objective and energy of every schedule.
    best_objective, best_method
        The least objective of a schedule that keeps all rules; ``None`` without one.
    curve
        (seconds, best objective so far, bound so far), what is not known yet ``None``.
    no_sharing_objective
        Of the best schedule found without sharing; ``None`` where every job takes whole nodes.
    seconds
        In all [s].
    """

    instance: Instance
    digest: str
    rows: tuple[dict[str, Any], ...]
    schedules: tuple[tuple[str, Schedule, Instance], ...]
    bound: Bound
    best_objective: float | None
    best_method: str | None
    curve: tuple[tuple[float, float | None, float | None], ...]
    no_sharing_objective: float | None
    seconds: float
    options: Mapping[str, Any] = field(default_factory=dict)

    def document(self) -> dict[str, Any]:
        """Return everything but the schedules, ready for JSON."""
        return {
            "instance": {
                "name": self.instance.name,
                "digest": self.digest,
                "jobs": len(self.instance.jobs),
                "nodes": len(self.instance.cluster.nodes),
                "alpha": self.instance.objective.alpha,
            },
            "bound": self.bound.value,
            "bound_kind": self.bound.kind,
            "bound_converged": self.bound.converged,
            "bound_seconds": self.bound.seconds,
            "energy_bound_kwh": self.bound.energy_kwh,
            "closed_form": self.bound.closed_form,
            "best": {"objective": self.best_objective, "method": self.best_method},
            "no_sharing_objective": self.no_sharing_objective,
            "rows": [dict(row) for row in self.rows],
            "curve": [dict(zip(CURVE_COLUMNS, point, strict=True)) for point in self.curve],
            "seconds": self.seconds,
            "options": dict(self.options),
            "versions": dict(versions()),
        }


class _Curve:
    """Incumbent and bound over time, told by two threads."""

    def __init__(self, began: float, tell: Tell | None) -> None:
        self._began, self._tell = began, tell
        self._lock = threading.Lock()
        self.objective: float | None = None
        self.bound: float | None = None
        self.points: list[tuple[float, float | None, float | None]] = []

    def take(self, phase: str, *, objective: float | None = None, bound: float | None = None) -> None:
        with self._lock:
            better = False
            if objective is not None and (self.objective is None or objective < self.objective):
                self.objective, better = objective, True
            if bound is not None and (self.bound is None or bound > self.bound):
                self.bound, better = bound, True
            if better:
                self.points.append((time.monotonic() - self._began, self.objective, self.bound))
            if self._tell is not None:
                self._tell(phase, self.objective, self.bound)


def _mixed(instance: Instance) -> bool:
    """Tell whether some job takes part of a node that it may use."""
    view = instance.arrays()
    sizes = {instance.cluster.node_types[t].gpus for t in set(view.node_type.tolist())}
    return any(job.gpus % size for job in instance.jobs for size in sizes)


def _search(
    instance: Instance,
    limit_s: float,
    seed: int,
    threads: int,
    start: Schedule | None,
    options: Mapping[str, Any],
    hook: Callable[[SearchProgress], None] | None,
) -> Result:
    return solve(
        instance,
        SEARCH,
        time_limit_s=limit_s,
        seed=seed,
        threads=threads,
        start=start,
        options=options,
        progress=None if hook is None else lambda at: hook(at) if isinstance(at, SearchProgress) else None,
    )


def certify(
    instance: Instance,
    methods: str | Sequence[str | Policy] = POLICIES,
    *,
    schedules: Sequence[Schedule | tuple[str, Schedule]] = (),
    alpha: float | None = None,
    time_limit_s: float = DEFAULT_LIMIT_S,
    seed: int = 0,
    threads: int | None = None,
    options: Mapping[str, Any] | None = None,
    progress: Tell | None = None,
) -> Certified:
    """Search for a good schedule, bound all schedules from below, and say what lies between.

    Parameters
    ----------
    instance
        The problem.
    methods, schedules
        What to set beside the search: as for :func:`experiments.compare.compare`. The search starts from the
        best of them that keeps all rules.
    alpha
        Weight of energy instead of the instance's own.
    time_limit_s
        Wall-clock limit [s] of everything but the methods themselves.
    seed, threads
        Of the search; all cores without ``threads``.
    options
        Options of the search.
    progress
        Told phase, best objective and bound now and then.

    Raises
    ------
    ImpossibleJobsError
        Jobs can run nowhere.
    EacoError
        A method, option or schedule is not usable.
    InternalError
        A schedule costs less than the bound, or the bound is not confirmed.
    """
    limit = v.real("certify", "time_limit_s", time_limit_s, low=0.0)
    workers = (os.cpu_count() or 1) if threads is None else v.integer("certify", "threads", threads, 1)
    compared = compare(
        instance, methods, alpha=alpha, seed=seed, schedules=schedules, time_limit_s=limit, bounds=False
    )
    instance = compared.instance
    began = time.monotonic()
    curve = _Curve(began, progress)
    rows = list(compared.rows)
    if any(row.method == SEARCH for row in rows):
        raise EacoError(f"certify: {SEARCH!r} is run anyway; leave it out of the methods")
    start = _best(rows)
    if start is not None:
        curve.take("policies", objective=start.result.objective)
    side = _Side(instance, rows, began + limit, curve)
    side.start()
    try:
        alone = _no_sharing(instance, limit * NO_SHARING_SHARE, seed, workers) if _mixed(instance) else None
        searched = time.monotonic()
        found = _search(
            instance,
            max(0.0, began + limit - time.monotonic()),
            seed,
            workers,
            None if start is None else start.result.schedule,
            options or {},
            lambda at: curve.take("search", objective=at.objective),
        )
        if found.evaluation is not None and found.evaluation.feasible:
            curve.take("search", objective=found.objective)
        search_s = time.monotonic() - searched
        if found.stop_reason is StopReason.INTERRUPTED:
            side.stop.set()
    except BaseException:
        side.stop.set()
        raise
    finally:
        side.join()
    lower = side.result()
    if found.stop_reason is StopReason.INTERRUPTED and found.schedule is None:
        raise KeyboardInterrupt
    rows.append(Row(method=SEARCH, kind="method", result=found, instance=instance))
    best = _best(rows)
    table = [_row(row, side.bounds, alone, search_s if row.method == SEARCH else None) for row in rows]
    return Certified(
        instance=instance,
        digest=instance_digest(instance),
        rows=tuple(table),
        schedules=tuple(
            (row.method, row.result.schedule, row.instance) for row in rows if row.result.schedule is not None
        ),
        bound=lower,
        best_objective=None if best is None else best.result.objective,
        best_method=None if best is None else best.method,
        curve=tuple(curve.points),
        no_sharing_objective=alone,
        seconds=time.monotonic() - began,
        options={"seed": seed, "threads": workers, "time_limit_s": limit, **(options or {})},
    )


class _Side(threading.Thread):
    """Bounds beside the search: of the instance, and of what is left of it where a row broke rules."""

    def __init__(self, instance: Instance, rows: Sequence[Row], until: float, curve: _Curve) -> None:
        super().__init__(daemon=True)
        self._instance, self._rows, self._until, self._curve = instance, rows, until, curve
        self.bounds = Bounds(energy=True)
        self._error: BaseException | None = None
        self.stop = threading.Event()

    def _left(self) -> float:
        return max(0.0, self._until - time.monotonic())

    def run(self) -> None:
        try:
            wanted = [self._instance]
            for row in self._rows:
                kept = row.instance
                found = row.result.evaluation
                if found is not None and not found.feasible:
                    kept = relaxed_instance(kept, found)
                if all(instance_digest(kept) != instance_digest(other) for other in wanted):
                    wanted.append(kept)
            for i, kept in enumerate(wanted):
                # The instance itself may take all the time that is left, but for a share for each of the
                # others.
                share = self._left() / (1 + (len(wanted) - 1 - i) * 0.25)

                def tell(_: float, value: float | None, __: float | None, first: bool = i == 0) -> None:
                    if first:
                        self._curve.take("bound", bound=value)

                found_bound = bound(kept, time_limit_s=share, progress=tell, stop=self.stop.is_set)
                if i == 0 and found_bound.value is not None:
                    self._curve.take("bound", bound=found_bound.value)
                self.bounds.put(kept, found_bound)
        except BaseException as error:
            self._error = error

    def result(self) -> Bound:
        """Return the instance's bound, or raise what the thread ended with."""
        if self._error is not None:
            raise self._error
        found = self.bounds.of(self._instance)
        if found is None:
            raise EacoError("certify: there are too many kinds of company for a bound")
        return found


def _best(rows: Sequence[Row]) -> Row | None:
    """Return the row of the least objective among those that keep all rules and serve all jobs."""
    good = [
        row
        for row in rows
        if row.result.evaluation is not None and row.result.evaluation.feasible and not row.rejected
    ]
    return min(good, key=lambda row: row.result.objective or 0.0, default=None)


def _no_sharing(instance: Instance, limit_s: float, seed: int, threads: int) -> float | None:
    """Return the objective of the best schedule found with at most one job on a GPU."""
    limits = dataclasses.replace(instance.limits, max_share=1)
    alone = dataclasses.replace(instance, limits=limits)
    try:
        found = _search(alone, limit_s, seed, threads, None, {}, None)
    except ImpossibleJobsError:
        return None
    if found.evaluation is None or not found.evaluation.feasible:
        return None
    return found.evaluation.objective


def _row(row: Row, bounds: Bounds, alone: float | None, seconds: float | None) -> dict[str, Any]:
    out: dict[str, Any] = dict.fromkeys(COLUMNS)
    result, found = row.result, row.result.evaluation
    out.update(
        {
            "method": row.method,
            "class": None if result.schedule is None else result.schedule.schedule_class.value,
            "status": str(result.status),
            "seconds": result.build_s + result.solve_s if seconds is None else seconds,
        }
    )
    if found is None:
        return out
    lower = bounds.for_value(row.instance, found)
    value = None if lower is None else lower.value
    energy = None if lower is None else lower.energy_kwh
    exclusive = row.instance.arrays().reference()
    owner = f"certify: the schedule of {row.method!r}"
    gap = gap_to(owner, found.objective, value)
    out.update(
        {
            "objective": found.objective,
            "bound": value,
            "certified_gap" if found.feasible else "gap_relaxed": gap,
            "attained_share": attained(row.instance, _exclusive(row.instance), found.objective, value),
            "attained_share_no_sharing_ref": attained(row.instance, alone, found.objective, value),
            "energy_kwh": found.energy_j / KWH_J,
            "energy_bound_kwh": energy,
            "energy_gap": gap_to(f"{owner}, in energy,", found.energy_j / KWH_J, energy),
            "energy_attained_share": attained(
                row.instance, exclusive[0] / KWH_J, found.energy_j / KWH_J, energy
            ),
            "avg_tpe_h": found.avg_tpe_s / 3600.0,
            "mean_jct_h": found.mean_jct_s / 3600.0,
            "deadline_misses": found.deadline_misses,
            "threshold_excess": found.threshold_excess,
        }
    )
    return out


def _exclusive(instance: Instance) -> float | None:
    """Return the objective of exclusive execution."""
    energy, tpe, jtt = instance.arrays().reference()
    return None if tpe <= 0.0 else objective_value(instance, energy, tpe, jtt)
