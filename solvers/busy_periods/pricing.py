"""Columns of least reduced cost for one place: beams first, then the whole dynamic programme.

:class:`Pricer` drives :func:`solvers.busy_periods.kernel.extend` slot by slot, so that a time limit or a
Ctrl-C is met between slots, and turns closed labels into :class:`Column` objects.

Without a beam the answer is exact in this sense: if some column has a reduced cost below the limit and 0,
one is found; and if the columns of a schedule are split into busy periods, the reduced cost of each
part is at least the least one that was met, or the limit. That is what the bound of
:class:`solvers.busy_periods.master.Master` needs. Labels are dropped for these reasons, each of which keeps
it:

*Lanes.* A node of C cells with at most K jobs each is C K lanes. A lane pays its part of the node's
standing power whether it is used or not; a job that holds h cells fills h lanes and pays its own part of
the load-dependent cost in the best company that it can have, at the pace of that company. Letting each lane
choose its jobs for itself, and jobs be chosen more than once, gives what can be gained at most until the
busy period ends. A second table lets no further job start on any lane and adds what each could add at most
(``margin``).

*Alone.* Take residents R and whoever joins them later, O. Without R, the jobs of O make one or more busy
periods of their own, which cost no more than what they cost in company; and R adds to every slot at least
what it adds to the cost of the best company. So the reduced cost is at least that of the label, plus R's
least additions until it is gone, plus the reduced cost of O by itself. The last is at least 0 if no busy
period of fewer jobs is below 0, and of those that are, one with the fewest jobs is never dropped. Where
many labels have the same few jobs left to start, the least reduced cost of these by themselves (a
*prospect*) is worked out by the same dynamic programme. This needs that company never speeds a job up
(:attr:`Place.monotone`) and never makes a slot cheaper, the running of the others included
(:attr:`Place.toll` 0), and prices that are not negative.

*Teams.* Under the same conditions, let R and O run as they would without each other. That is no longer than
what they do together, so in every slot what is left running of them is part of what really runs, and costs
no more. Where both run, a slot costs at least O's cost, its price included, plus R's least addition: less
than both costs by what company saves (``saving``), and where R leaves no room for anybody, O cannot be there
at all. If few jobs may still start, all their busy periods by themselves are known
(:mod:`solvers.busy_periods.teams`), and the cheapest way to place some of them over R's slots is a bound.

*Dominance.* Of two labels of a boundary with the same residents on the same cells, the one with no more
work left of any resident may do whatever the other may, at no higher cost: a job that ends sooner slows
nobody down any more and costs nothing any more. How far measured tables break that is the toll. Where a job
ends so soon that the node falls idle, the busy period falls in two, whose reduced costs add up to no more.
A job that one may still start and the other may not is worth at most its dual less what its run adds at
least (``worth``). Cuts count against the label that has an odd number of a triple's jobs.

*Decisions of the tree.* Where two jobs have to be together, or the end of a job has a lower limit, a busy
period that ends sooner, or falls in two, may be none that is allowed. So there labels are not dropped by
residents alone, and one dominates another only if all work left is the same and it may start no job less.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solvers.memory import available_bytes

from . import kernel
from .kernel import WORD, FloatArray, IntArray, Labels, Lanes, Rules, Scratch, SmallArray
from .tables import Place, next_starts
from .teams import priced


class OutOfTime(Exception):
    """The time limit came before the dynamic programme was through."""


class TooManyLabels(Exception):
    """The dynamic programme needs more labels than allowed."""


@dataclass(frozen=True, slots=True)
class Column:
    """A busy period of one node.

    Attributes
    ----------
    place
        Number of the place.
    first, end
        Slots [first, end) in which the node is active.
    jobs, starts, ends
        Its jobs in ascending order, and the slots [start, end) of each.
    cost
        Its part of the objective.
    """

    place: int
    first: int
    end: int
    jobs: tuple[int, ...]
    starts: tuple[int, ...]
    ends: tuple[int, ...]
    cost: float


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Prices:
    """Duals of a place, and what the search tree asks of its columns.

    Attributes
    ----------
    gain
        (J,) dual of each job.
    price
        (T,) what an active node pays in each slot.
    cuts
        Triples of jobs and what a column pays for each pair of a triple.
    apart, together
        Pairs of jobs that must not, and must, be on the same column.
    """

    gain: FloatArray
    price: FloatArray
    cuts: Sequence[tuple[tuple[int, ...], float]] = ()
    apart: Sequence[tuple[int, int]] = ()
    together: Sequence[tuple[int, int]] = ()


@dataclass(slots=True)
class Count:
    """What was done, for messages and tests."""

    calls: int = 0
    labels: int = 0
    made: int = 0
    most: int = 0
    bounded: int = 0
    prospects: int = 0
    pruned: int = 0
    alone: int = 0
    dominated: int = 0
    lanes_s: float = 0.0
    extend_s: float = 0.0


STEPS = 8
"""Steps of the bound's scale of work in a slot at the fastest pace."""
_ROOM = 1 << 14
LOOK = 100
MOST_PROSPECT = 6
PROSPECT = 0.05


@dataclass(slots=True, eq=False)
class Pricer:
    """The dynamic programme of one place.

    Attributes
    ----------
    number
        Number of the place in the columns it makes.
    place
        The place, with the windows of the present node of the search tree.
    most_labels
        Labels beyond which :class:`TooManyLabels` is raised.
    count
        What was done so far.
    last
        Labels of the last search.
    """

    number: int
    place: Place
    most_labels: int = 40_000_000
    count: Count = field(default_factory=Count)
    last: int = 0
    _labels: Labels | None = None
    _prospects: dict[tuple[int, ...], float] = field(default_factory=dict)
    _run: FloatArray = field(default_factory=lambda: np.empty(0))
    _idle_run: FloatArray = field(default_factory=lambda: np.empty(0))

    def lanes(self, prices: Prices) -> Lanes:
        """Return the bound tables for some duals; empty ones where the bound by residents alone does more."""
        if not _alone(self.place, prices):
            return self._tables(prices)
        none, numbers = np.zeros((0, 0)), np.zeros(0, dtype=np.int64)
        flat = np.zeros(0)
        jobs, slots = self.place.can_start.shape
        return Lanes(none, flat, none, flat, np.zeros((slots + 1, jobs)), numbers, numbers, numbers, numbers)

    def _tables(self, prices: Prices) -> Lanes:
        p = self.place
        jobs, slots = p.can_start.shape
        began = time.perf_counter()
        starts = [np.flatnonzero(p.can_start[j]) for j in range(jobs)]
        first = np.array([int(s[0]) if len(s) else 0 for s in starts], dtype=np.int64)
        width = np.maximum(1, p.fastest // STEPS)
        bins = -(-p.need // width) + 1
        size = np.where(p.hold > 0, np.maximum(0, p.last_end - first) * bins * (slots + 1), 0)
        offset = np.concatenate([[0], np.cumsum(size)]).astype(np.int64)
        if len(self._run) < offset[-1]:
            self._run = np.empty(int(offset[-1]))
            self._idle_run = np.empty(int(offset[-1]))
        lane = np.full((slots + 1, slots + 1), -math.inf)
        idle_lane = lane.copy()
        none = np.full(jobs, -1e18)
        # In the second one no further job starts: each adds its margin at most.
        for rent, own_cost, gain, to, run in (
            (p.rent, p.own_cost, prices.gain, lane, self._run),
            (p.idle_rent, p.idle_own_cost, none, idle_lane, self._idle_run),
        ):
            kernel.lane_tables(
                p.cells,
                p.share,
                rent,
                p.hold,
                p.up,
                p.need,
                own_cost,
                p.start_cost,
                p.can_start,
                p.last_end,
                gain,
                prices.price,
                to,
                run,
                offset,
                first,
                bins,
                width,
            )
        margin = np.zeros((slots + 1, jobs))
        kernel.margins(
            p.hold,
            p.start_cost,
            p.can_start,
            prices.gain,
            idle_lane,
            self._idle_run,
            offset,
            first,
            bins,
            margin,
        )
        self.count.lanes_s += time.perf_counter() - began
        return Lanes(lane, self._run, idle_lane, self._idle_run, margin, offset, first, bins, width)

    def least_costs(self) -> FloatArray:
        """Return (J,) what each job costs at least, with its share of nodes; infinity where it cannot run.

        They sum to no more than any busy period costs: the lanes of the module, without duals.
        """
        p = self.place
        jobs, slots = p.can_start.shape
        lanes = self._tables(Prices(gain=np.zeros(jobs), price=np.zeros(slots)))
        out = np.full(jobs, math.inf)
        for j in np.flatnonzero(p.hold > 0):
            starts = np.flatnonzero(p.can_start[j])
            if not len(starts):
                continue
            table = lanes.idle_run[lanes.offset[j] : lanes.offset[j + 1]].reshape(
                -1, lanes.bins[j], slots + 1
            )
            for t in starts.tolist():
                most = float(table[t - lanes.first[j], -1, t + 1 :].max())
                out[j] = min(out[j], float(p.start_cost[j]) * t - most)
        return out

    def search(
        self,
        prices: Prices,
        *,
        limit: float,
        lanes: Lanes,
        beam: int | None = None,
        whole: bool = False,
        until: float = math.inf,
        most: int = 200,
    ) -> tuple[list[Column], float]:
        """Return columns with a reduced cost below a limit, and the least reduced cost that was met.

        Parameters
        ----------
        prices
            Duals and rules.
        limit
            Columns at or above this reduced cost are of no interest.
        lanes
            Bound tables of these prices.
        beam
            Labels kept at each boundary; ``None`` for all, which makes the answer exact: see the module.
        whole
            Return all columns below the limit, the cheapest for each set of jobs and slots: any other one may
            be replaced by some of these, which hold its jobs within its slots at no higher cost.
        until
            Time on the clock of `time.monotonic` at which to give up.
        most
            Most columns to return, the best ones (all if ``whole``).

        Raises
        ------
        OutOfTime, TooManyLabels
            Only without a beam.
        """
        self._prospects = {}
        labels, made, least = self._run_slots(
            prices, limit, lanes, beam, whole, until, self.place.can_start, 0, self._labels, 0
        )
        self._labels = labels
        self.last = made
        closed = np.flatnonzero(labels.residents[:made] == 0)
        if not len(closed):
            return [], limit
        order = closed[np.argsort(labels.cost[closed], kind="stable")]
        if not whole:
            order = _different(labels, order, most)
        return [self._column(labels, int(row)) for row in order], least

    def _run_slots(
        self,
        prices: Prices,
        limit: float,
        lanes: Lanes,
        beam: int | None,
        whole: bool,
        until: float,
        can_start: NDArray[np.bool_],
        begin: int,
        labels: Labels | None,
        level: int,
    ) -> tuple[Labels, int, float]:
        """Run the dynamic programme from a slot on; return labels, how many, and the least reduced cost."""
        p = self.place
        jobs = len(can_start)
        words = -(-jobs // WORD)
        cut_words = max(1, -(-len(prices.cuts) // WORD))
        rules = _rules(p, prices, words, cut_words, limit, whole, can_start)
        some = can_start.any(axis=1)
        widest = min(int(some.sum()), p.cells * p.share) if level else min(jobs, p.cells * p.share)
        widest = max(1, widest)
        if labels is None or not _fits(labels, widest, words, cut_words):
            labels = _labels(_ROOM if not level else 256, widest, words, cut_words)
        work = _scratch(p, widest, words, cut_words)
        control = np.zeros(kernel.CONTROLS, dtype=np.int64)
        control[kernel.LOOK] = LOOK
        low = high = 0
        bucket = np.full(1 << (12 if not level else 8), -1, dtype=np.int64)
        self.count.calls += 1
        began = time.perf_counter()
        last = int(p.last_end[some].max()) if some.any() else 0
        next_start = next_starts(can_start)
        for t in range(begin, last):
            if until < math.inf and time.monotonic() > until:
                raise OutOfTime
            control[kernel.SOURCE] = low - 1
            bucket.fill(-1)
            while True:
                kernel.extend(
                    t,
                    low,
                    high,
                    control,
                    labels,
                    bucket,
                    p.cells,
                    p.share,
                    p.child,
                    p.level,
                    p.cell_cost,
                    p.kind_set,
                    p.full_cost,
                    p.base_cost,
                    p.cpu_cost,
                    p.cpu_exponent,
                    p.cpu,
                    p.hold,
                    p.job_class,
                    p.up,
                    p.fastest,
                    p.need,
                    p.run_cost,
                    p.start_cost,
                    can_start,
                    p.last_end,
                    p.first_end,
                    p.rent,
                    p.lone_cost,
                    p.part_cost,
                    p.idle_rent,
                    p.idle_part_cost,
                    p.best_level,
                    p.most_up,
                    p.joint_cost,
                    p.joint_toll,
                    p.class_bit,
                    next_start,
                    rules,
                    lanes,
                    work,
                )
                if not control[kernel.FULL]:
                    break
                if len(labels.cost) >= self.most_labels or _too_large(labels):
                    raise TooManyLabels
                labels = _grow(labels)
            low, high = high, int(control[kernel.COUNT])
            if rules.alone and high - low > 100:
                self._prune(t + 1, low, high, labels, prices, limit, lanes, until, can_start, level)
            if beam is not None and high - low > beam:
                bound = labels.bound[low:high]
                open_ = labels.alive[low:high] & (labels.residents[low:high] > 0)
                if int(open_.sum()) > beam:
                    ranked = np.where(open_, bound, math.inf)
                    keep = np.argpartition(ranked, beam)[:beam]
                    drop = open_.copy()
                    drop[keep] = False
                    labels.alive[low:high] &= ~drop
            while high - low > len(bucket):
                bucket = np.full(2 * len(bucket), -1, dtype=np.int64)
        self.count.extend_s += time.perf_counter() - began if not level else 0.0
        made = int(control[kernel.COUNT])
        self.count.labels += made
        self.count.most = max(self.count.most, made)
        self.count.made += int(control[kernel.MADE])
        self.count.alone += int(control[kernel.ALONE])
        self.count.bounded += int(control[kernel.BOUNDED])
        self.count.dominated += int(control[kernel.DOMINATED])
        closed = labels.residents[:made] == 0
        least = float(labels.cost[:made][closed].min()) if closed.any() else limit
        return labels, made, least

    def _prune(
        self,
        t: int,
        low: int,
        high: int,
        labels: Labels,
        prices: Prices,
        limit: float,
        lanes: Lanes,
        until: float,
        can_start: NDArray[np.bool_],
        level: int,
    ) -> None:
        """Drop labels whose joiners cannot make up for the residents: see the module."""
        rows = low + np.flatnonzero(
            labels.alive[low:high] & (labels.residents[low:high] > 0) & (labels.lonely[low:high] >= limit)
        )
        if not len(rows):
            return
        open_ = labels.open[rows]
        if open_.shape[1] == 1:
            keys, inverse, counts = np.unique(open_[:, 0], return_inverse=True, return_counts=True)
            keys = keys[:, None]
        else:
            keys, inverse, counts = np.unique(open_, axis=0, return_inverse=True, return_counts=True)
        inverse = inverse.reshape(-1)
        worth = np.zeros(len(keys))
        for i, key in enumerate(keys):
            jobs = _members(key)
            if not jobs:
                worth[i] = math.inf
                continue
            name = tuple(sorted(jobs))
            known = self._prospects.get(name)
            if known is None:
                if len(jobs) > MOST_PROSPECT or counts[i] < 15 * len(jobs) ** 2 or level > 3:
                    continue
                masked = np.zeros_like(can_start)
                masked[list(name), t:] = can_start[list(name), t:]
                _, _, least = self._run_slots(
                    prices, PROSPECT, lanes, None, False, until, masked, t, None, level + 1
                )
                known = max(0.0, least)
                self._prospects[name] = known
                self.count.prospects += 1
            worth[i] = known
        gone = labels.joined[rows] + worth[inverse] >= limit
        labels.alive[rows[gone]] = False
        self.count.pruned += int(gone.sum())

    def _column(self, labels: Labels, row: int) -> Column:
        chain = [row]
        while labels.parent[chain[-1]] >= 0:
            chain.append(int(labels.parent[chain[-1]]))
        chain.reverse()
        first = int(labels.first[row])
        starts: dict[int, int] = {}
        ends: dict[int, int] = {}
        before: set[int] = set()
        for i, label in enumerate(chain):
            t = first + i
            been = _members(labels.been[label])
            here = {int(j) for j in labels.job[label, : labels.residents[label]]}
            for j in been - starts.keys():
                starts[j] = t
                before.add(j)
            for j in before - here:
                ends[j] = t + 1
            before = here
        jobs = tuple(sorted(starts))
        return Column(
            self.number,
            first,
            first + len(chain),
            jobs,
            tuple(starts[j] for j in jobs),
            tuple(ends[j] for j in jobs),
            float(labels.true[row]),
        )


def _fits(old: Labels, widest: int, words: int, cut_words: int) -> bool:
    shape = (old.job.shape[1], old.been.shape[1], old.odd.shape[1])
    return shape == (widest, words, cut_words)


def _too_large(labels: Labels) -> bool:
    """Tell whether twice as many labels would take more than half of the memory that is left."""
    available = available_bytes()
    return available is not None and 4.0 * sum(a.nbytes for a in labels) > available


def _grow(old: Labels) -> Labels:
    new = _labels(2 * len(old.cost), old.job.shape[1], old.been.shape[1], old.odd.shape[1])
    arrays: list[tuple[NDArray[Any], NDArray[Any]]] = list(zip(old, new, strict=True))
    for before, after in arrays:
        after[: len(before)] = before
    return new


def _members(words: IntArray) -> set[int]:
    return {w * WORD + b for w, word in enumerate(words.tolist()) for b in range(WORD) if (word >> b) & 1}


def _different(labels: Labels, order: IntArray, most: int) -> IntArray:
    """Return the best rows with different sets of jobs, then others, at most some in all."""
    seen: dict[tuple[int, ...], int] = {}
    out = []
    for row in order.tolist():
        key = tuple(labels.been[row].tolist())
        if seen.get(key, 0) < 3:
            seen[key] = seen.get(key, 0) + 1
            out.append(row)
            if len(out) == most:
                break
    return np.array(out, dtype=np.int64)


def _labels(size: int, widest: int, words: int, cut_words: int) -> Labels:
    def whole(*shape: int) -> IntArray:
        return np.zeros(shape, dtype=np.int64)

    def small(*shape: int) -> SmallArray:
        return np.zeros(shape, dtype=np.int32)

    return Labels(
        cost=np.zeros(size),
        true=np.zeros(size),
        residents=small(size),
        job=small(size, widest),
        left=whole(size, widest),
        cells=small(size, widest),
        been=whole(size, words),
        open=whole(size, words),
        odd=whole(size, cut_words),
        first=small(size),
        parent=small(size),
        bound=np.zeros(size),
        lonely=np.zeros(size),
        joined=np.zeros(size),
        chain=whole(size, 2),
        alive=np.zeros(size, dtype=np.bool_),
    )


def _scratch(p: Place, widest: int, words: int, cut_words: int) -> Scratch:
    depths = widest + 1
    most = math.comb(p.cells, p.cells // 2)

    def whole(*shape: int) -> IntArray:
        return np.zeros(shape, dtype=np.int64)

    return Scratch(
        sets=whole(depths, p.cells),
        code=whole(depths, p.cells),
        job=whole(depths),
        left=whole(depths),
        bits=whole(depths),
        cost=np.zeros(depths),
        true=np.zeros(depths),
        cpu=np.zeros(depths),
        been=whole(depths, words),
        odd=whole(depths, cut_words),
        at=whole(depths),
        choice=whole(depths),
        made=whole(depths),
        buffer=whole(depths, most),
        candidate=whole(len(p.hold)),
        new_job=whole(depths),
        new_left=whole(depths),
        new_bits=whole(depths),
        go_left=whole(depths),
        new_set=whole(p.cells),
        order=whole(p.cells),
        new_code=whole(p.cells),
        take=whole(p.cells),
        size=whole(p.cells),
        group=whole(p.cells),
        open=whole(words),
        odd_left=whole(cut_words),
        saving=np.zeros(p.can_start.shape[1] + 1),
        ahead=np.zeros(p.can_start.shape[1] + 1),
        late=whole(len(p.hold)),
    )


def _bit(words: IntArray, j: int) -> None:
    words[j // WORD] |= 1 << (j % WORD)


def _tied(p: Place, prices: Prices) -> bool:
    """Tell whether the end of one job can be too early for another, or for itself."""
    return bool(prices.together) or bool(p.first_end.any())


def _alone(p: Place, prices: Prices) -> bool:
    """Tell whether the bound by residents alone holds: see the module."""
    return p.monotone and p.toll == 0.0 and not _tied(p, prices) and bool((prices.price >= 0.0).all())


def _rules(
    p: Place,
    prices: Prices,
    words: int,
    cut_words: int,
    limit: float,
    whole: bool,
    can_start: NDArray[np.bool_],
) -> Rules:
    jobs, slots = can_start.shape
    apart = np.zeros((jobs, words), dtype=np.int64)
    for a, b in prices.apart:
        _bit(apart[a], b)
        _bit(apart[b], a)
    paired = np.zeros(words, dtype=np.int64)
    for pair in prices.together:
        for j in pair:
            _bit(paired, j)
    later = np.zeros((slots + 1, words), dtype=np.int64)
    for j in range(jobs):
        can = np.flatnonzero(can_start[j])
        if len(can) and p.hold[j] > 0:
            for t in range(int(can[-1]) + 1):
                _bit(later[t], j)
    cut_jobs = np.zeros((max(1, len(prices.cuts)), words), dtype=np.int64)
    cuts_of = np.zeros((jobs, cut_words), dtype=np.int64)
    for q, (members, _) in enumerate(prices.cuts):
        for j in members:
            _bit(cut_jobs[q], j)
            _bit(cuts_of[j], q)
    # Where an end can be too early, less work left is no advantage.
    tied = _tied(p, prices)
    strict = np.full(jobs, tied or not p.monotone, dtype=np.int64)
    alone = _alone(p, prices)
    teams = p.teams if alone else None
    none = np.zeros(0, dtype=np.int64)
    worth = np.full(jobs, math.inf) if tied else np.maximum(0.0, prices.gain - p.least_run_cost)
    return Rules(
        gain=prices.gain,
        price=prices.price,
        apart=apart,
        pair=np.array(list(prices.together), dtype=np.int64).reshape(-1, 2),
        paired=paired,
        later=later,
        cut_price=np.array([price for _, price in prices.cuts] or [0.0]),
        cut_jobs=cut_jobs,
        cuts_of=cuts_of,
        limit=limit,
        whole=whole,
        strict=strict,
        alone=alone,
        teams=teams.size if teams else 0,
        team_choose=teams.choose if teams else none.reshape(0, 0),
        team_offset=teams.offset if teams else none,
        team_at=teams.at if teams else none.reshape(0, 0),
        team_end=teams.end if teams else none,
        team_value=priced(teams, prices.gain, prices.price, prices.cuts) if teams else np.zeros(0),
        last_start=slots - 1 - np.argmax(can_start[:, ::-1], axis=1),
        worth=worth,
        toll=p.toll * (slots - np.arange(slots + 1.0)),
    )
