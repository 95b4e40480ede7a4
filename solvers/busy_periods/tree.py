"""The search: column generation, cuts, complete enumeration where the gap allows, and branching.

A node of the tree is a list of decisions: pairs of jobs on the same busy period or not, first and last start
and end of jobs, and first and last possible end of the whole schedule (with sleep power). Its bound comes
from :meth:`solvers.busy_periods.master.Master.bound`. Where all columns that could be part of a better
schedule are few, they are listed and an integer programme over them ends the node; else it is split in two.

Every schedule has been priced by :func:`eaco_opt.physics.evaluate`.
"""

from __future__ import annotations

import heapq
import itertools
import logging
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

import highspy
import numpy as np

from eaco_opt.physics import evaluate
from eaco_opt.result import StopReason
from formulations.base import FormulationError
from formulations.highs import load_empty

from .kernel import FloatArray
from .master import Duals, Master
from .pricing import Column, OutOfTime, Pricer, Prices, TooManyLabels
from .replay import columns_of, plan_of
from .tables import Place

if TYPE_CHECKING:
    from eaco_opt.schedule import Plan
    from formulations.space import Space

_LOG = logging.getLogger(__name__)

EPSILON = 1e-9
"""Reduced costs above minus this count as none, in units of the objective."""

CLOSE = 2e-7
"""A bound this share below the best objective closes the gap."""

WIDE_BEAM = 0.1
"""Share of the labels of an exact search that the widest beam may keep."""

LABELS_A_JOB = 200_000
FEW_JOBS = 15
"""What the first exact search is thought to need: so many labels for each job above so many, with K 3."""

BEAMS = (50, 500)
CELL_BEAMS = (20, 200, 1_000)
"""Labels kept at a boundary by the beams, on nodes of one cell and of several."""

FAR = -1e-2
"""Limit of a first exact search, in units of the objective: far from the optimum it finds columns sooner."""

MIDDLE = -3e-3
"""Limit of another one, as long as the last one found columns below it."""

NEAR = 1e-3
"""Limit of the last exact search: columns that are nearly worth it are, in the next rounds."""

DIVE_ROUNDS = 8
"""Most linear programmes between two columns that a dive fixes."""

MOST_CUTS = 200
CUTS_A_ROUND = 25
LEAST_VIOLATION = 0.02
LISTING_LABELS = 24_000_000
LISTING_COLUMNS = 60_000
LISTING_GAP = 0.002
"""Columns are listed when the gap is at most this share of the objective; cuts come first if it is larger."""

WIDE_LISTING_GAP = 0.008
"""Gap at which they are listed when cuts help no more, or when the exact search needs few labels."""

FEW_LABELS = 600_000
"""Labels of the exact search that are few."""

LISTING_AGAIN = 0.6
"""Listing that needed too many labels is tried again when the gap has shrunk to this share, or with half
the labels."""

LEAST_PROGRESS = 0.02
"""Cuts that close less than this share of the gap are followed by branching."""

WHOLE = 1e-6
"""Values this close to an integer are integer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decisions:
    """What a node of the tree has fixed.

    Attributes
    ----------
    apart, together
        Pairs of jobs on different busy periods, and on the same.
    starts, ends
        {job: (first, last)} slots of start and boundaries of end.
    horizon
        Least and greatest last end of the schedule, in slots.
    """

    apart: tuple[tuple[int, int], ...] = ()
    together: tuple[tuple[int, int], ...] = ()
    starts: tuple[tuple[int, int, int], ...] = ()
    ends: tuple[tuple[int, int, int], ...] = ()
    horizon: tuple[int, int] = (0, 0)

    def allows(self, c: Column) -> bool:
        """Tell whether a column obeys them."""
        here = set(c.jobs)
        if any(a in here and b in here for a, b in self.apart):
            return False
        if any((a in here) != (b in here) for a, b in self.together):
            return False
        for job, low, high in self.starts:
            if job in here and not low <= c.starts[c.jobs.index(job)] <= high:
                return False
        for job, low, high in self.ends:
            if job in here and not low <= c.ends[c.jobs.index(job)] <= high:
                return False
        return c.end <= self.horizon[1]


@dataclass(slots=True, kw_only=True)
class Report:
    """What the search knows so far.

    Attributes
    ----------
    plan, value
        Best plan and its objective by `evaluate`, or ``None`` and infinity.
    bound
        Proved lower bound of the objective of any plan.
    root_bound
        Bound of the root before cuts, ``None`` until it has converged.
    cut_bound
        Bound of the root with its cuts, or ``None``.
    nodes, columns, cuts, rounds
        Counts: nodes of the tree, columns, cuts, solves of the linear programme.
    infeasible
        Whether it is proved that there is no schedule.
    stopped
        Why the search stopped early, ``None`` where it came to its end.
    notes
        Remarks for people.
    """

    plan: Plan | None = None
    value: float = math.inf
    bound: float = -math.inf
    root_bound: float | None = None
    cut_bound: float | None = None
    nodes: int = 0
    columns: int = 0
    cuts: int = 0
    rounds: int = 0
    infeasible: bool = False
    stopped: StopReason | None = None
    notes: list[str] = field(default_factory=list)


Watch = Callable[[Report], None]


class Search:
    """Branch-and-price over the busy periods of one instance on its grid.

    Parameters
    ----------
    space
        The instance on its grid.
    places
        Its places.
    until
        Time on the clock of `time.monotonic` at which to stop.
    gap
        Relative gap at which to stop.
    work_limit
        Labels after which to stop.
    cutting, listing
        Whether to add cuts, and to list all columns within the gap; without them only branching is left.
    watch
        Called when the report has changed.
    """

    def __init__(
        self,
        space: Space,
        places: Sequence[Place],
        *,
        until: float = math.inf,
        gap: float = 0.0,
        work_limit: int | None = None,
        cutting: bool = True,
        listing: bool = True,
        watch: Watch | None = None,
    ) -> None:
        self.space, self.places = space, list(places)
        self.until, self.gap = until, gap
        self.work_limit = work_limit
        self.cutting, self.listing = cutting, listing
        self.watch = watch
        self.report = Report()
        n, slots = len(space.instance.jobs), space.grid.slots
        sleep = space.costs.energy * math.fsum(
            float(space.costs.sleep_w[k]) * int((space.instance.arrays().node_type == k).sum())
            for k in range(len(space.costs.sleep_w))
        )
        self.sleep = sleep
        self.constant = space.costs.total_constant
        self.most = self._trivial_bound() + 1.0
        self.master = Master(self.places, n, slots, sleep, self.most)
        self.pricers = [Pricer(k, p) for k, p in enumerate(self.places)]
        self.jobs, self.slots = n, slots
        # Labels of the last exact search of each place; of listings that failed, those and the gap.
        self._labels = [LABELS_A_JOB * max(0, n * p.share // 3 - FEW_JOBS) for p in self.places]
        self._far = True
        self._too_many: list[tuple[int, float]] = []

    # Values inside are without the constant that the releases take off.

    def _trivial_bound(self) -> float:
        """Return more than any feasible schedule costs."""
        total = self.sleep * self.space.grid.slots
        for j in self.space.jobs:
            worst = 0.0
            for p in self.places:
                if p.hold[j]:
                    power = float(np.nanmax(np.concatenate([p.full_cost, [0.0]])))
                    power = max(
                        power, p.base_cost + p.cells * float(p.cell_cost.max(initial=0.0)) + p.cpu_cost
                    )
                    one = self.space.grid.slots * (power + float(p.run_cost[j]) + float(p.start_cost[j]))
                    worst = max(worst, one)
            total += worst
        return total

    def _late(self) -> bool:
        if self.work_limit is not None and sum(p.count.made for p in self.pricers) > self.work_limit:
            return True
        return time.monotonic() > self.until

    @property
    def target(self) -> float:
        """Bounds at or above this need no more work."""
        if math.isinf(self.report.value):
            return self.most - 0.5
        best = self.report.value + self.constant
        return best - max(CLOSE * abs(self.report.value), self.gap * abs(best) / (1.0 + self.gap))

    def offer(self, plan: Plan) -> bool:
        """Take a plan if it is feasible and better than the best so far."""
        value = evaluate(self.space.instance, plan, grid_s=self.space.grid.slot_s)
        if not value.feasible or value.objective >= self.report.value:
            return False
        self.report.plan, self.report.value = plan, value.objective
        columns = columns_of(self.space, self.places, plan)
        if columns:
            self.master.add(columns)
        self._tell()
        return True

    def _tell(self) -> None:
        self.report.columns, self.report.cuts = len(self.master.columns), len(self.master.cuts)
        if self.watch is not None:
            self.watch(self.report)

    def run(self) -> Report:
        """Search until the gap is closed or time is up; returns :attr:`report`."""
        report = self.report
        root = Decisions(horizon=self._first_horizon())
        heap: list[tuple[float, int, Decisions]] = [(-math.inf, 0, root)]
        number = itertools.count(1)
        closed = math.inf
        least = np.min([pricer.least_costs() for pricer in self.pricers], axis=0)
        if np.isfinite(least).all():
            heap[0] = (math.fsum(least.tolist()) + self.sleep * root.horizon[0], 0, root)
        try:
            self._set_bound(heap[0][0])
            while heap:
                low, _, decisions = heapq.heappop(heap)
                if low >= self.target:
                    closed = min(closed, low)
                    continue
                report.nodes += 1
                try:
                    bound, children = self._node(decisions, low, root=report.nodes == 1)
                except (OutOfTime, TooManyLabels, KeyboardInterrupt):
                    heapq.heappush(heap, (max(low, self._node_bound), next(number), decisions))
                    raise
                if children:
                    for child in children:
                        heapq.heappush(heap, (bound, next(number), child))
                else:
                    closed = min(closed, max(bound, low))
                self._set_bound(min([closed, *(entry[0] for entry in heap)]))
        except (OutOfTime, TooManyLabels, KeyboardInterrupt) as stopped:
            self._set_bound(min([closed, *(entry[0] for entry in heap)]))
            if isinstance(stopped, KeyboardInterrupt):
                report.stopped = StopReason.INTERRUPTED
            elif isinstance(stopped, OutOfTime):
                report.stopped = StopReason.TIME_LIMIT
            else:
                report.stopped = StopReason.WORK_LIMIT
                report.notes.append("the dynamic programme needs more memory than it may use")
            return report
        if math.isinf(report.value):
            report.infeasible = True
        else:
            self._set_bound(min(closed, report.value + self.constant))
        return report

    def _set_bound(self, bound: float) -> None:
        bound = min(bound, self.report.value + self.constant)
        if math.isfinite(bound) and bound - self.constant > self.report.bound:
            self.report.bound = bound - self.constant
            self._tell()

    def _first_horizon(self) -> tuple[int, int]:
        slots = self.space.grid.slots
        if self.sleep <= 0.0:
            return slots, slots
        least = 0
        for j in self.space.jobs:
            ends = [
                int((s.start + s.least).min())
                for k in self.space.windows.types[j]
                for s in [self.space.windows.starts[j, k]]
            ]
            least = max(least, min(ends, default=0))
        return least, slots

    def _restricted(self, decisions: Decisions) -> list[Place]:
        out = []
        for place in self.places:
            can, last, first = place.can_start, place.last_end, place.first_end
            can, last, first = can.copy(), last.copy(), first.copy()
            slots = np.arange(can.shape[1])
            for job, low, high in decisions.starts:
                can[job, (slots < low) | (slots > high)] = False
            for job, low, high in decisions.ends:
                last[job] = min(int(last[job]), high)
                first[job] = max(int(first[job]), low)
            last = np.minimum(last, decisions.horizon[1])
            can &= slots[None, :] < last[:, None]
            out.append(place.narrowed(can, last, first))
        return out

    def _node(self, decisions: Decisions, low: float, *, root: bool) -> tuple[float, list[Decisions]]:
        """Work on a node; returns its bound and its children (none: it is done)."""
        for pricer, place in zip(self.pricers, self._restricted(decisions), strict=True):
            pricer.place = place
        self._node_bound = low
        self._restrict(decisions)
        if root and not self.master.columns:
            self._singles()
        bound, value, _ = self._converge(decisions, low)
        if root:
            self.report.root_bound = bound - self.constant
            self._set_bound(bound)
        if bound >= self.target:
            return bound, []
        self._dive(decisions, value)
        more_cuts = self.cutting
        while bound < self.target:
            gap = self.target - bound
            size = gap / abs(self.target)
            few = sum(self._labels) <= FEW_LABELS
            soon = WIDE_LISTING_GAP if few else LISTING_GAP
            if self._may_list(gap) and size <= soon:
                bound = self._list(decisions, bound)
            elif more_cuts and self._cut(decisions, value):
                before = bound
                bound, value, _ = self._converge(decisions, bound)
                if root:
                    self.report.cut_bound = bound - self.constant
                more_cuts = bound - before > LEAST_PROGRESS * gap or math.isinf(self.report.value)
                if bound < self.target:
                    self._dive(decisions, value)
            elif self._may_list(gap) and size <= WIDE_LISTING_GAP:
                bound = self._list(decisions, bound)
            else:
                break
            if root:
                self._set_bound(bound)
        if bound >= self.target:
            return bound, []
        self._round()
        if bound >= self.target:
            return bound, []
        split = self._split(decisions, value)
        if not split and not self.space.exact:
            # Work in integers admits a little more than the physics here: the bound stands, but no
            # schedule meets it.
            self.report.notes.append("rounding of work leaves a gap")
            return bound, []
        if not split:
            # The relaxation is a schedule, which `_round` has taken, so that the bound has met it.
            raise FormulationError(
                f"branch-and-price of instance {self.space.instance.name!r}: nothing left to branch on at a "
                f"bound of {bound - self.constant!r} below {self.report.value!r}; this is an error of the "
                "method, please report it"
            )
        return bound, split

    def _may_list(self, gap: float) -> bool:
        """Tell whether listing all columns within a gap is worth a try, by what has failed so far."""
        if not self.listing or math.isinf(self.report.value):
            return False
        labels = sum(self._labels)
        return not any(labels > 0.5 * n and gap > LISTING_AGAIN * g for n, g in self._too_many)

    def _singles(self) -> None:
        """Add each job alone, at its first and last start."""
        from .replay import Node

        columns = []
        for k, place in enumerate(self.places):
            for j in range(self.jobs):
                can = np.flatnonzero(place.can_start[j])
                if not place.hold[j] or not len(can):
                    continue
                for start in {int(can[0]), int(can[-1])}:
                    node = Node(place)
                    node.start(j, (1 << int(place.hold[j])) - 1, start)
                    slot = start
                    while node.left:
                        node.run()
                        slot += 1
                    if slot <= place.last_end[j]:
                        columns.append(Column(k, start, slot, (j,), (start,), (slot,), node.cost))
        self.master.add(columns)

    def _prices(self, k: int, duals: Duals, decisions: Decisions) -> Prices:
        return Prices(
            gain=duals.gain,
            price=duals.price[k],
            cuts=[(c, float(p)) for c, p in zip(self.master.cuts, duals.cuts, strict=True) if p > 0.0],
            apart=decisions.apart,
            together=decisions.together,
        )

    def _generate(self, decisions: Decisions) -> tuple[FloatArray, Duals, list[Prices]]:
        """Generate columns with beams until they find none."""
        while True:
            if self._late():
                raise OutOfTime
            _, value, duals = self.master.solve()
            self.report.rounds += 1
            prices = [self._prices(k, duals, decisions) for k in range(len(self.places))]
            if not self._heuristic(prices):
                return value, duals, prices

    def _cut(self, decisions: Decisions, value: FloatArray) -> bool:
        """Add cuts as long as they help, pricing with beams only; tells whether there were any."""
        before, some = -math.inf, False
        while len(self.master.cuts) < MOST_CUTS and self._separate(value):
            some = True
            value, _, _ = self._generate(decisions)
            now = self.master.objective
            if now >= self.target or now - before <= LEAST_PROGRESS * (self.target - before):
                break
            before = now
        return some

    def _converge(self, decisions: Decisions, low: float) -> tuple[float, FloatArray, Duals]:
        """Generate columns until none improves, or the bound is high enough."""
        bound = low
        penalty = self.most
        while True:
            epsilon = max(EPSILON, 1e-12 * penalty)
            if self._late():
                raise OutOfTime
            value, duals, prices = self._generate(decisions)
            exact: list[float] = []
            last = NEAR * min(1.0, abs(self.target))
            for limit in (FAR, MIDDLE, last) if self._far else (FAR, last):
                exact = []
                for pricer, price in zip(self.pricers, prices, strict=True):
                    lanes = pricer.lanes(price)
                    found, least = pricer.search(price, limit=limit, lanes=lanes, until=self.until)
                    exact.append(min(least, limit))
                    self._labels[pricer.number] = pricer.last
                    self.master.add(found)
                self._last_bound = self.master.bound(duals, exact)
                bound = max(bound, self._last_bound)
                self._node_bound = bound
                if self.report.nodes == 1:
                    self._set_bound(bound)
                new = min(exact) < min(limit, -epsilon)
                if new or bound >= self.target:
                    break
            self._far = min(exact) < MIDDLE
            self._last = duals
            short = self.master.artificial(value) > WHOLE
            if not new and short and bound < self.target and penalty < 1e4 * self.most:
                # Not all jobs can be covered, perhaps: then the bound grows with the penalty.
                penalty *= 100.0
                self.master.penalise(penalty)
                continue
            if not new or bound >= self.target:
                return bound, value, duals

    def _separate(self, value: FloatArray) -> int:
        """Add cuts on triples that the relaxation violates, and drop some that no longer bind."""
        weight = value[self.master.fixed :]
        used = np.flatnonzero(weight > 1e-9)
        pair: dict[tuple[int, ...], float] = {}
        for i in used:
            jobs = self.master.columns[i].jobs
            seen: set[tuple[int, ...]] = set()
            for a, b in itertools.combinations(jobs, 2):
                for c in range(self.jobs):
                    if c != a and c != b:
                        seen.add(tuple(sorted((a, b, c))))
            for triple in seen:
                pair[triple] = pair.get(triple, 0.0) + float(weight[i])
        known = set(self.master.cuts)
        found = sorted(
            ((v, t) for t, v in pair.items() if v > 1.0 + LEAST_VIOLATION and t not in known),
            key=lambda x: (-x[0], x[1]),
        )
        uses: dict[int, int] = {}
        chosen = []
        for _, triple in found:
            if all(uses.get(j, 0) < 6 for j in triple):
                chosen.append(triple)
                for j in triple:
                    uses[j] = uses.get(j, 0) + 1
            if len(chosen) == CUTS_A_ROUND or len(chosen) + len(known) >= MOST_CUTS:
                break
        self.master.add_cuts(chosen)
        return len(chosen)

    def _dive(self, decisions: Decisions, value: FloatArray) -> None:
        """Look for a better schedule by fixing one column after the other, pricing between with beams.

        Whatever columns come up stay; the integer programme over all of them follows.
        """
        places = [pricer.place for pricer in self.pricers]
        free = np.ones(self.jobs, dtype=bool)
        fixed: set[int] = set()
        while free.any():
            weight = value[self.master.fixed :]
            best, at = -1.0, -1
            for i in np.flatnonzero(weight > WHOLE).tolist():
                # Of columns of the same weight the one with most jobs, which settles most.
                score = float(weight[i]) + 1e-3 * len(self.master.columns[i].jobs)
                if i not in fixed and score > best and free[list(self.master.columns[i].jobs)].all():
                    best, at = score, i
            if at < 0 or self._late():
                break
            fixed.add(at)
            self.master.fix(at)
            free[list(self.master.columns[at].jobs)] = False
            for pricer, place in zip(self.pricers, places, strict=True):
                can = place.can_start & free[:, None]
                pricer.place = place.narrowed(can, place.last_end, place.first_end)
            if not free.any():
                break
            for _ in range(DIVE_ROUNDS):
                _, value, duals = self.master.solve()
                self.report.rounds += 1
                if not self._heuristic([self._prices(k, duals, decisions) for k in range(len(places))]):
                    break
        for pricer, place in zip(self.pricers, places, strict=True):
            pricer.place = place
        self._restrict(decisions)
        self._round()

    def _heuristic(self, prices: Sequence[Prices]) -> int:
        """Price with beams; returns how many columns were added."""
        new = 0
        for pricer, price in zip(self.pricers, prices, strict=True):
            lanes = pricer.lanes(price)
            # Where an exact search is long, a beam of some of its labels comes first.
            wide = int(WIDE_BEAM * self._labels[pricer.number] / self.slots)
            beams = BEAMS if pricer.place.cells == 1 else CELL_BEAMS
            for beam in (*beams, wide) if wide > 2 * beams[-1] else beams:
                found, _ = pricer.search(price, limit=-EPSILON, lanes=lanes, beam=beam, until=self.until)
                added = self.master.add(found)
                new += added
                if added or self._late():
                    break
        return new

    def _restrict(self, decisions: Decisions) -> None:
        self.master.restrict([decisions.allows(c) for c in self.master.columns], decisions.horizon, self.most)

    def _round(self) -> None:
        """Look for a better schedule among the columns at hand."""
        left = max(1.0, min(20.0, 0.1 * (self.until - time.monotonic())))
        columns = self.master.columns
        found = self._integer(columns, seconds=left)[0]
        if found is not None:
            self._offer_columns([columns[i] for i in found])

    def _offer_columns(self, columns: Sequence[Column]) -> None:
        self.offer(plan_of(self.space, self.places, columns))

    def _list(self, decisions: Decisions, bound: float) -> float:
        """List all columns that a better schedule of this node can have, and solve over them.

        A schedule with a column whose reduced cost is the gap or more costs at least as much as the best
        one known. So the optimum over all columns below it, or that one, is the node's.
        """
        # Reduced costs belong to the bound of their own duals, which may be less than what is known.
        duals, low = self._last, self._last_bound
        reach = self.target - low
        columns: list[Column] = []
        for k, pricer in enumerate(self.pricers):
            price = self._prices(k, duals, decisions)
            before = pricer.most_labels
            pricer.most_labels = LISTING_LABELS
            try:
                found, _ = pricer.search(
                    price,
                    limit=reach + EPSILON,
                    lanes=pricer.lanes(price),
                    whole=True,
                    until=self.until,
                )
            except TooManyLabels:
                _LOG.info("branch-and-price: too many labels within %g", reach)
                self._too_many.append((sum(self._labels), reach))
                return bound
            finally:
                pricer.most_labels = before
            columns += found
        best: dict[tuple[int, tuple[int, ...], int, int], Column] = {}
        for c in columns:
            key = (c.place, c.jobs, c.first, c.end)
            if key not in best or c.cost < best[key].cost:
                best[key] = c
        columns = list(best.values())
        _LOG.info("branch-and-price: %d columns within %g", len(columns), reach)
        if len(columns) <= LISTING_COLUMNS:
            rows, done = self._integer(
                columns, seconds=self.until - time.monotonic(), horizon=decisions.horizon
            )
            if rows is not None:
                self._offer_columns([columns[i] for i in rows])
            if done:
                bound = max(bound, low + reach)
                self._node_bound = bound
                return bound
            if self._late():
                raise OutOfTime
        self._too_many.append((sum(self._labels), reach))
        return bound

    def _integer(
        self, columns: Sequence[Column], *, seconds: float, horizon: tuple[int, int] | None = None
    ) -> tuple[list[int] | None, bool]:
        """Choose columns for each job and node at least cost; also tells whether that is proved.

        Solutions that are no better than the best schedule known are not looked for.
        """
        solver: Any = load_empty()
        highspy.Highs.resetGlobalScheduler(True)
        solver.setOptionValue("threads", 1)
        solver.setOptionValue("mip_rel_gap", 0.0)
        solver.setOptionValue("mip_abs_gap", 1e-9)
        solver.setOptionValue("time_limit", max(0.1, seconds))
        if math.isfinite(self.report.value):
            best = self.report.value + self.constant
            solver.setOptionValue("objective_bound", best - 0.5 * CLOSE * abs(best))
        inf = highspy.kHighsInf
        none = np.zeros(0, dtype=np.int32), np.zeros(0)
        for _ in range(self.jobs):
            solver.addRow(1.0, 1.0, 0, *none)
        for p in self.places:
            for _ in range(self.slots):
                solver.addRow(-inf, 0.0 if self.sleep > 0.0 else float(p.nodes), 0, *none)
        for c in columns:
            base = self.jobs + c.place * self.slots
            rows = np.array([*c.jobs, *(base + t for t in range(c.first, c.end))], dtype=np.int32)
            solver.addCol(c.cost, 0.0, 1.0, len(rows), rows, np.ones(len(rows)))
        kinds = len(columns)
        if self.sleep > 0.0:
            low, high = horizon or self._first_horizon()
            for t in range(self.slots):
                rows = np.array(
                    [self.jobs + k * self.slots + t for k in range(len(self.places))], dtype=np.int32
                )
                values = -np.array([float(p.nodes) for p in self.places])
                solver.addCol(self.sleep, float(t < low), float(t < high), len(rows), rows, values)
            for t in range(self.slots - 1):
                pair = np.array([kinds + t, kinds + t + 1], dtype=np.int32)
                solver.addRow(0.0, inf, 2, pair, np.array([1.0, -1.0]))
            kinds += self.slots
        index = np.arange(kinds, dtype=np.int32)
        integer = np.full(kinds, int(highspy.HighsVarType.kInteger), dtype=np.uint8)
        solver.changeColsIntegrality(kinds, index, integer)
        solver.run()
        status = solver.getModelStatus()
        s = highspy.HighsModelStatus
        done = status in (s.kOptimal, s.kInfeasible, s.kObjectiveBound)
        info = solver.getInfo()
        if info.primal_solution_status != int(highspy.SolutionStatus.kSolutionStatusFeasible):
            return None, done
        x = np.array(solver.getSolution().col_value)[: len(columns)]
        return [int(i) for i in np.flatnonzero(x > 0.5)], done

    def _split(self, decisions: Decisions, value: FloatArray) -> list[Decisions]:
        """Return two nodes that exclude the present relaxation.

        Starts come first: narrower windows make the pricing faster, and "together" makes it slower.
        """
        weight = value[self.master.fixed :]
        used = [(self.master.columns[i], float(weight[i])) for i in np.flatnonzero(weight > WHOLE)]
        split = self._split_slots(decisions, used, "starts")
        if split:
            return split
        together: dict[tuple[int, int], float] = {}
        for c, x in used:
            for pair in itertools.combinations(c.jobs, 2):
                together[pair] = together.get(pair, 0.0) + x
        options = [(abs(x - 0.5), pair) for pair, x in together.items() if WHOLE < x < 1.0 - WHOLE]
        if options:
            _, pair = min(options)
            return [
                replace(decisions, together=(*decisions.together, pair)),
                replace(decisions, apart=(*decisions.apart, pair)),
            ]
        split = self._split_slots(decisions, used, "ends")
        if split:
            return split
        if self.sleep > 0.0:
            low, high = decisions.horizon
            spans = value[self.jobs : self.jobs + self.slots]
            last = max(c.end for c, _ in used)
            at_slot = next(
                (t for t in range(low, high) if WHOLE < spans[t] < 1.0 - WHOLE), min(last, high) - 1
            )
            if low <= at_slot < high:
                return [
                    replace(decisions, horizon=(low, max(low, at_slot))),
                    replace(decisions, horizon=(at_slot + 1, high)),
                ]
        return []

    def _split_slots(
        self, decisions: Decisions, used: Sequence[tuple[Column, float]], what: Literal["starts", "ends"]
    ) -> list[Decisions]:
        """Return two nodes that part the starts or ends of a job as evenly as may be; none if all agree."""
        best: tuple[float, int, int] | None = None
        for j in range(self.jobs):
            at: dict[int, float] = {}
            for c, x in used:
                if j in c.jobs:
                    t = getattr(c, what)[c.jobs.index(j)]
                    at[t] = at.get(t, 0.0) + x
            mass = 0.0
            for t in sorted(at)[:-1]:
                mass += at[t]
                if WHOLE < mass < 1.0 - WHOLE and (best is None or abs(mass - 0.5) < best[0]):
                    best = (abs(mass - 0.5), j, t)
        if best is None:
            return []
        _, j, t = best
        kept = getattr(decisions, what)
        return [
            replace(decisions, **{what: (*kept, (j, 0, t))}),
            replace(decisions, **{what: (*kept, (j, t + 1, self.slots))}),
        ]
