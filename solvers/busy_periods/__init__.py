"""Branch-and-price over busy periods: the static optimum on a grid, with a proof.

A column is one busy period of one node: its jobs, their starts and the cells they hold. The linear programme
over all columns (:mod:`.master`) is solved by column generation; its columns come from a dynamic programme on
one node (:mod:`.pricing`, :mod:`.kernel`) on the arrays of :mod:`.tables`. Cuts, complete enumeration and
branching (:mod:`.tree`) close what gap remains. :mod:`.replay` turns columns into plans and back.

:class:`BranchAndPrice` follows the protocol :class:`formulations.base.Formulation`. docs/exact.md explains
the method, its proofs and its limits.
"""

from __future__ import annotations

import dataclasses
import math
import time
from functools import cache
from typing import TYPE_CHECKING

from eaco_opt.physics import evaluate
from eaco_opt.result import StopReason
from formulations.base import (
    FormulationError,
    Outcome,
    PlanHook,
    Progress,
    SizeEstimate,
    UncoveredFeatureError,
    wake_features,
)
from formulations.grid import make_grid
from formulations.space import Space
from formulations.verdict import verdict, without_search

from .tables import make_places
from .tree import Report, Search

if TYPE_CHECKING:
    from eaco_opt.instance import Instance
    from eaco_opt.schedule import Plan
    from formulations.grid import Grid

MOST_CELLS = 12
"""Most GPUs of a node that is shared GPU by GPU: placements are listed, up to half of the cells choose."""

WORK_A_SECOND = 500_000
"""Labels that count as a second of work where the answer has to be the same on every run."""


@cache
def _compiled() -> list[bool]:
    return []


def compile_kernels(instance: Instance) -> None:
    """Compile all kernels on the first job of an instance, once a process."""
    if _compiled():
        return
    few = dataclasses.replace(instance, jobs=instance.jobs[:1])
    method = BranchAndPrice()
    if few.jobs and not method.covers(few):
        method.build(few, make_grid(few)).solve()
        _compiled().append(True)


class BranchAndPrice:
    """Busy-period set partitioning by column generation, cuts and branching."""

    name = "branch-and-price"

    def covers(self, instance: Instance) -> list[str]:
        """Return the features of the instance that are not covered; empty means all are."""
        out = wake_features(instance)
        used = sorted({node.node_type for node in instance.cluster.nodes})
        types = [t for t in instance.cluster.node_types if t.name in used]
        smallest = min((t.gpus for t in types), default=0)
        wide = [j.name for j in instance.jobs if smallest < j.gpus]
        if wide:
            names = ", ".join(repr(name) for name in wide[:3]) + (" ..." if len(wide) > 3 else "")
            out.append(f"jobs over several nodes ({names}: more GPUs than a node of {smallest})")
        shared = [t for t in types if any(j.gpus != t.gpus for j in instance.jobs)]
        for t in shared:
            if t.gpus > MOST_CELLS:
                out.append(
                    f"nodes of {t.gpus} GPUs (type {t.name!r}) shared GPU by GPU; at most {MOST_CELLS} can be"
                )
        return out

    def estimate(self, instance: Instance, grid: Grid) -> SizeEstimate:
        """Return the size of the linear programme's start; columns and labels are added as it runs."""
        types = len({node.node_type for node in instance.cluster.nodes})
        jobs = len(instance.jobs)
        rows = jobs + types * grid.slots
        return SizeEstimate(
            variables=jobs,
            constraints=rows,
            nonzeros=jobs,
            memory_bytes=200_000_000,
        )

    def build(self, instance: Instance, grid: Grid) -> BranchAndPriceModel:
        """Build the tables.

        Raises
        ------
        UncoveredFeatureError
            The instance uses a feature that is not covered.
        """
        missing = self.covers(instance)
        if missing:
            raise UncoveredFeatureError(self.name, missing)
        return BranchAndPriceModel(instance, grid)


class BranchAndPriceModel:
    """The search for one instance on one grid.

    Attributes
    ----------
    instance, grid
        What it was made for.
    on_plan
        Called with each better plan, or ``None``.
    report
        What the last search found out, ``None`` before.
    """

    def __init__(self, instance: Instance, grid: Grid) -> None:
        begin = time.monotonic()
        self.instance, self.grid = instance, grid
        self.space = Space(instance, grid)
        self.on_plan: PlanHook | None = None
        self.report: Report | None = None
        self._start: Plan | None = None
        hopeless = bool(self.space.windows.hopeless()) or not instance.jobs
        self._places = [] if hopeless else make_places(self.space)
        self.build_s = time.monotonic() - begin

    def start_from(self, plan: Plan) -> None:
        """Give the search a plan to start from.

        Raises
        ------
        FormulationError
            The plan is not feasible on this grid.
        """
        if not evaluate(self.instance, plan, grid_s=self.grid.slot_s).feasible:
            raise FormulationError(
                f"plan for instance {self.instance.name!r}: not feasible on slots of {self.grid.slot_s:g} s; "
                "a start has to be feasible"
            )
        self._start = plan

    def solve(
        self,
        *,
        time_limit_s: float | None = None,
        gap: float = 0.0,
        threads: int = 1,
        seed: int = 0,
        deterministic: bool = False,
        progress: Progress | None = None,
    ) -> Outcome:
        """Solve on one thread; nothing is drawn, so ``threads`` and ``seed`` change nothing.

        With ``deterministic`` the limit is in labels, 500,000 to a second.
        """
        known = without_search(self.space, self.build_s)
        if known is not None:
            return known
        begin = time.monotonic()
        told: list[Plan] = []

        def watch(report: Report) -> None:
            if progress is not None:
                value = report.value if math.isfinite(report.value) else None
                bound = report.bound if math.isfinite(report.bound) else None
                progress(time.monotonic() - begin, value, bound)
            if (
                self.on_plan is not None
                and report.plan is not None
                and (not told or told[-1] is not report.plan)
            ):
                told.append(report.plan)
                self.on_plan(report.plan)

        limited = time_limit_s is not None
        search = Search(
            self.space,
            self._places,
            until=begin + time_limit_s if time_limit_s is not None and not deterministic else math.inf,
            work_limit=int(WORK_A_SECOND * time_limit_s)
            if time_limit_s is not None and deterministic
            else None,
            gap=gap,
            watch=watch,
        )
        if self._start is not None:
            search.offer(self._start)
        report = search.run()
        self.report = report
        stop = StopReason.FINISHED
        if report.stopped is not None:
            stop = report.stopped
            if stop is StopReason.TIME_LIMIT and deterministic and limited:
                stop = StopReason.WORK_LIMIT
        message = (
            f"branch-and-price: nodes {report.nodes}, columns {report.columns}, cuts {report.cuts}, "
            f"linear programmes {report.rounds}"
        )
        if report.root_bound is not None:
            message += f", root bound {report.root_bound:.9g}"
        outcome = verdict(
            self.space,
            None,
            exact=self.space.exact,
            stop_reason=stop,
            infeasible=report.infeasible,
            bound=report.bound if math.isfinite(report.bound) else None,
            claimed=None,
            rounding=0.0,
            start=report.plan,
            build_s=self.build_s,
            solve_s=time.monotonic() - begin,
            message=message + "".join(f"; {note}" for note in report.notes),
        )
        return outcome
