"""An elastic model: which jobs can be served, and how late the others would be (docs/exact.md section 4).

The decisions and rules are those of :mod:`formulations.cpsat`, without costs. Two things may give: jobs that
are *optional* may be left out, and jobs may end after a *due* slot where the instance's own deadlines
(already loosened by the caller) allow it. Three questions can be asked:

- is there any plan (:meth:`ElasticModel.find` without an objective);
- the most optional jobs that can be served beside the others (:meth:`ElasticModel.serve_most`);
- the least total lateness, and with it the fewest late jobs (:meth:`ElasticModel.least_lateness`).

Not covered: wake-up times. Without them a model admits more plans, so "no plan" still holds.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ortools.sat.python import cp_model

from eaco_opt.physics import evaluate
from eaco_opt.result import Status

from .base import FormulationError
from .cpsat import CpsatModel
from .placing import plan_of
from .verdict import without_search

if TYPE_CHECKING:
    from eaco_opt.schedule import Plan

    from .space import Region, Space

_GRACE_S = 1.0
"""Wall-clock time after its limit at which a solve that has not ended is told to stop [s]."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What an elastic model tells.

    Attributes
    ----------
    status
        ``optimal`` or ``feasible`` with a plan, ``infeasible`` if it is proved that there is none, else
        ``unknown``.
    plan
        A plan that :func:`eaco_opt.physics.evaluate` finds feasible on the grid; ``None`` where there is none
        or jobs are left out.
    served
        Numbers of the jobs that run.
    end
        {job: slot boundary at which it ends}, for the jobs that run.
    value, bound
        The objective and a proved lower bound of it; ``None`` where there is none.
    interrupted
        Whether the solve ended before its limit without an answer: somebody pressed Ctrl-C.
    """

    status: Status
    plan: Plan | None = None
    served: frozenset[int] = frozenset()
    end: Mapping[int, int] | None = None
    value: int | None = None
    bound: int | None = None
    interrupted: bool = False


class ElasticModel(CpsatModel):
    """Feasibility with jobs that may be left out or late.

    Parameters
    ----------
    space
        The decisions; deadlines of jobs that may be late have to be loosened in its instance beforehand.
    optional
        Numbers of the jobs that may be left out; each has to be able to end in time by itself, or in some
        company, on this grid.
    """

    def __init__(self, space: Space, *, optional: Iterable[int] = ()) -> None:
        self.optional = frozenset(optional)
        self.left_out: dict[int, Any] = {}
        super().__init__(space)

    # The rules of the model without its costs ---------------------------------------------------------------

    def _away(self, j: int) -> list[Any]:
        if j not in self.optional:
            return []
        if j not in self.left_out:
            self.left_out[j] = self.model.new_bool_var(f"out_{j}")
        return [self.left_out[j]]

    def _cost(self, cost: float, variable: Any, most: int = 1, place: tuple[int, int] | None = None) -> None:
        """Costs do not matter."""

    def _add_nodes(self) -> None:
        """Power of nodes does not matter."""

    def _add_cpu(self, region: Region, t: int) -> None:
        """Power of servers does not matter."""

    def _add_objective(self) -> None:
        """There is none, unless it is asked for."""

    # Questions --------------------------------------------------------------------------------------------

    def require(self, jobs: Iterable[int]) -> None:
        """Let the optional jobs among these run; the other optional ones may again be left out."""
        wanted = frozenset(jobs)
        for j, literal in self.left_out.items():
            domain = self.model.proto.variables[literal.index].domain
            domain.clear()
            domain.extend([0, 0] if j in wanted else [0, 1])

    def serve_most(self, **how: Any) -> Found:
        """Return a plan that serves the most optional jobs; takes the arguments of :meth:`find`."""
        self.model.minimize(sum(self.left_out.values()))
        return self.find(**how)

    def least_lateness(self, due: Mapping[int, int], **how: Any) -> Found:
        """Return a plan of the least total lateness.

        Parameters
        ----------
        due
            {job: slot boundary after which it is late}.
        how
            Arguments of :meth:`find`.

        Returns
        -------
        Found
            ``value`` and ``bound`` are total lateness [slots].
        """
        weight = len(due) + 1
        terms = [
            (weight * (t - due[j]) + 1) * end
            for j in due
            for t, end in (self.ended[j].items() if j < len(self.ended) else ())
            if t > due[j]
        ]
        self.model.minimize(sum(terms))
        found = self.find(**how)
        return Found(
            status=found.status,
            plan=found.plan,
            served=found.served,
            end=found.end,
            value=None
            if found.end is None
            else sum(max(0, found.end[j] - due[j]) for j in due if j in found.end),
            bound=None if found.bound is None else -(-max(0, found.bound - len(due)) // weight),
            interrupted=found.interrupted,
        )

    def find(self, *, time_limit_s: float | None = None, threads: int = 1, seed: int = 0) -> Found:
        """Solve within a wall-clock limit [s].

        Raises
        ------
        FormulationError
            The solver's plan is none by the physics.
        """
        if not self.instance.jobs or self.space.windows.hopeless():
            known = without_search(self.space, self.build_s)
            if known is not None:
                return Found(status=known.status, plan=known.plan, end={} if known.plan is not None else None)
        solver: Any = cp_model.CpSolver()
        p = solver.parameters
        p.num_workers = threads
        p.random_seed = seed % 2**31
        p.relative_gap_limit = 0.0
        p.absolute_gap_limit = 0.0
        watch = None
        if time_limit_s is not None:
            p.max_time_in_seconds = max(0.01, time_limit_s)
            # The solver looks at its own limit only now and then.
            watch = threading.Timer(time_limit_s + _GRACE_S, solver.stop_search)
            watch.daemon = True
            watch.start()
        begin = time.monotonic()
        try:
            code = solver.solve(self.model)
        finally:
            if watch is not None:
                watch.cancel()
        spent = time.monotonic() - begin
        if code == cp_model.MODEL_INVALID:
            raise FormulationError(f"elastic model: OR-Tools refuses it: {self.model.validate()}")
        if code == cp_model.INFEASIBLE:
            return Found(status=Status.INFEASIBLE)
        if code not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            early = time_limit_s is None or spent < 0.8 * time_limit_s - 0.5
            return Found(status=Status.UNKNOWN, interrupted=early)
        bound = round(solver.best_objective_bound) if self.model.has_objective() else None
        served = frozenset(
            j for j in self.space.jobs if j not in self.left_out or not solver.boolean_value(self.left_out[j])
        )
        end = {
            j: next(t for t, x in self.ended[j].items() if solver.boolean_value(x)) for j in sorted(served)
        }
        plan = None
        status = Status.OPTIMAL if code == cp_model.OPTIMAL else Status.FEASIBLE
        if len(served) == len(self.instance.jobs):
            plan = plan_of(self.space, self._read(solver))
            outcome = evaluate(self.instance, plan, grid_s=self.grid.slot_s)
            if not outcome.feasible:
                if self.space.exact:
                    raise FormulationError(
                        f"elastic model of instance {self.instance.name!r}: the solver's plan breaks a "
                        "rule of the physics; this is an error of the model or the solver, please report it"
                    )
                return Found(status=Status.UNKNOWN, bound=bound)
            # By the physics a plan may end sooner than its values say: never later.
            view = self.instance.arrays()
            end = {
                j: round((float(outcome.jobs.end_s[j]) - view.origin_s) / self.grid.slot_s) for j in served
            }
        elif not self.space.exact:
            return Found(status=Status.UNKNOWN, bound=bound)
        return Found(
            status=status,
            plan=plan,
            served=served,
            end=end,
            value=len(self.instance.jobs) - len(served),
            bound=bound,
        )


__all__ = ["ElasticModel", "Found"]
