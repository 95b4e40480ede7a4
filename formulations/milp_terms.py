"""Numbers and index sets that both builders of the MILP share: :mod:`formulations.milp` and its array twin.

Work is counted in integers (:mod:`formulations.scaling`) and divided by a power of two, so that coefficients
are exact in floats and one unit is far above the feasibility tolerance of a solver. The objective is
multiplied by a power of two that brings it to the order of 100, whatever its unit, so that absolute
tolerances mean the same everywhere.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from .base import SizeEstimate
from .scaling import Work, integer_work

if TYPE_CHECKING:
    from .space import Part, Pattern, Region, Space

WORK_BITS = 20
"""Resolution of work, where it has to be rounded: 2**-20 of a job."""

_ROW_BITS = 10
_OBJECTIVE_BITS = 7
_NEAR_LOSSES = 0.9
"""A loss above this share of the next larger one gets no row of its own: it would cut off next to nothing."""


class Pace(Enum):
    """How the pace of a job on a node type is known."""

    FIXED = "fixed"
    """It has one slowdown only."""
    COUNTED = "counted"
    """It holds one cell, so the count that contains it says its slowdown."""
    CHOSEN = "chosen"
    """The largest slowdown among its cells: a binary for each."""


@dataclass(frozen=True, slots=True)
class Group:
    """Parts of a job among which it holds a fixed number if it runs on their node type.

    Attributes
    ----------
    job, node_type
        Job and type.
    number
        Parts held: 1, or the whole nodes of a job larger than a node.
    parts
        The parts.
    """

    job: int
    node_type: int
    number: int
    parts: tuple[Part, ...]

    @property
    def forced(self) -> bool:
        """Whether all parts are held, so that none has to be chosen."""
        return len(self.parts) == self.number


@dataclass(frozen=True, slots=True)
class Full:
    """A node that is full of one measured multiset of kinds: its patterns, and the cost of its residual."""

    patterns: tuple[Pattern, ...]
    cost: float


@dataclass(frozen=True, slots=True)
class Losses:
    """What a job loses to company on a node type, for the rows on its shortest runs.

    Work is in units of the job's rows.

    Attributes
    ----------
    shortest
        The least duration on the type [slots].
    fastest
        Most work in a slot.
    caps
        Caps on the loss of a slot, descending; the first is the largest loss there is.
    budget
        Most that a run of the shortest duration can lose in all.
    first, last
        Slots [first, last) in which such a run may be.
    long_first, long_last
        Those of them in which a longer one may be; empty if there is none.
    """

    shortest: int
    fastest: float
    caps: tuple[float, ...]
    budget: float
    first: int
    last: int
    long_first: int
    long_last: int


class MilpTerms:
    """Index sets and coefficients of the MILP of a space.

    Attributes
    ----------
    space
        The decisions.
    scale
        The objective of the model is the true one times this.
    types
        (job, node type) pairs that are possible.
    groups
        Groups of parts on nodes that are shared GPU by GPU.
    paces
        {(job, node type): how its pace is known}.
    need
        (J,) work of each job, in units of its rows.
    """

    def __init__(self, space: Space) -> None:
        self.space = space
        windows = space.windows
        self.types = [(j, k) for j in space.jobs for k in windows.types[j]]
        least = space.least_objective()
        self.scale = 2.0 ** (_OBJECTIVE_BITS - math.frexp(least)[1]) if least > 0.0 else 1.0
        self.groups: list[Group] = []
        self.group_of: dict[int, Group] = {}
        self.paces: dict[tuple[int, int], Pace] = {}
        for j, k in self.types:
            mine = [p for p in space.parts_of[j] if space.regions[p.region].node_type == k]
            whole, rest = space.whole_and_rest(j, k)
            if not space.regions[mine[0].region].pool:
                for number, wanted in ((whole, True), (min(rest, 1), False)):
                    parts = tuple(p for p in mine if p.whole is wanted)
                    if parts:
                        group = Group(j, k, number, parts)
                        self.groups.append(group)
                        self.group_of.update({p.number: group for p in parts})
            if len(space.levels[j, k]) == 1:
                self.paces[j, k] = Pace.FIXED
            elif all(p.cells == 1 for p in mine):
                self.paces[j, k] = Pace.COUNTED
            else:
                self.paces[j, k] = Pace.CHOSEN
        self._slow_levels: dict[tuple[int, int], list[tuple[int, NDArray[np.float64]]]] = {}
        self._pattern_cost: dict[tuple[int, int], float] = {}
        self._losses: dict[tuple[int, int], Losses | None] = {}
        self._work: list[tuple[Work, dict[float, int], float]] = []
        self._least_done: list[NDArray[np.float64]] = []
        cache: dict[tuple[float, tuple[float, ...], int], Work] = {}
        for j in space.jobs:
            speeds, longest = space.speeds(j)
            key = (float(space.instance.jobs[j].epochs), tuple(speeds), longest)
            if key not in cache:
                cache[key] = integer_work(*key, large_bits=WORK_BITS)
            work = cache[key]
            unit = 2.0 ** max(0, work.need.bit_length() - 1 - _ROW_BITS)
            self._work.append((work, {p: i for i, p in enumerate(speeds)}, unit))
            self._least_done.append(least_by_duration(work, longest) / unit)
        self.need = [work.need / unit for work, _, unit in self._work]

    @property
    def exact(self) -> bool:
        """Whether completion in the model's units agrees with the physics in every case."""
        return all(work.exact for work, _, _ in self._work)

    def up(self, job: int, node_type: int, sigma: float) -> float:
        """Return the work done in a slot at a slowdown, rounded up."""
        work, place, unit = self._work[job]
        return work.up[place[self.space.speed(job, node_type, sigma)]] / unit

    def down(self, job: int, node_type: int, sigma: float) -> float:
        """Return the work done in a slot at a slowdown, rounded down."""
        work, place, unit = self._work[job]
        return work.down[place[self.space.speed(job, node_type, sigma)]] / unit

    def fastest(self, job: int) -> float:
        """Return the most work done in a slot, rounded down as :meth:`down`."""
        work, _, unit = self._work[job]
        return max(work.down, default=0) / unit

    def smallest_step(self, job: int) -> float:
        """Return one unit of work: "not yet reached" is at most the need less this."""
        return 1.0 / self._work[job][2]

    def least_done(self, job: int) -> NDArray[np.float64]:
        """Return (D + 1,) least work by duration of a run that is complete."""
        return self._least_done[job]

    def sure_slots(self, job: int) -> int:
        """Return the longest duration of which no run can be complete a slot before its end."""
        work = self._work[job][0]
        return (work.need - 1) // max(1, *work.down) + 1

    def slow_slots(self, job: int, node_type: int, level: int) -> NDArray[np.float64]:
        """Return (D + 1,) most slots at the given or a larger slowdown, by duration of a complete run.

        Numbers of whole slots: the fractions that the work alone would leave room for are cut off.
        """
        work, place, _ = self._work[job]
        levels = self.space.levels[job, node_type]
        done = [work.up[place[self.space.speed(job, node_type, sigma)]] for sigma in levels]
        fast, mild = max(done), max(done[level:])
        d: NDArray[np.int64] = np.arange(len(self._least_done[job]))
        if mild >= fast:
            return d.astype(np.float64)
        room = (d * fast - work.need) // (fast - mild)
        return np.clip(room, 0, d).astype(np.float64)

    def slow_levels(self, job: int, node_type: int) -> list[tuple[int, NDArray[np.float64]]]:
        """Return the levels whose :meth:`slow_slots` say something, with these.

        A level at which every run may be slow throughout says nothing, nor does one with the same numbers as
        the level before, which counts more slots.
        """
        if (job, node_type) in self._slow_levels:
            return self._slow_levels[job, node_type]
        least, greatest = self._durations(job, node_type)
        d = np.arange(least, greatest + 1)
        out: list[tuple[int, NDArray[np.float64]]] = []
        for level in range(1, len(self.space.levels[job, node_type])):
            most = self.slow_slots(job, node_type, level)
            if (most[d] < d).any() and not (out and np.array_equal(out[-1][1][d], most[d])):
                out.append((level, most))
        self._slow_levels[job, node_type] = out
        return out

    def losses(self, job: int, node_type: int) -> Losses | None:
        """Return what the rows on shortest runs need; ``None`` where they would say nothing."""
        if (job, node_type) not in self._losses:
            self._losses[job, node_type] = self._find_losses(job, node_type)
        return self._losses[job, node_type]

    def _find_losses(self, job: int, node_type: int) -> Losses | None:
        least, greatest = self._durations(job, node_type)
        levels = self.space.levels[job, node_type]
        done = [self.up(job, node_type, sigma) for sigma in levels]
        fastest = max(done)
        caps: list[float] = []
        for loss in sorted({fastest - one for one in done}, reverse=True):
            if loss > 0.0 and (not caps or loss <= _NEAR_LOSSES * caps[-1]):
                caps.append(loss)
        budget = fastest * least - float(self.least_done(job)[least])
        if least == greatest or not caps or budget >= caps[0] * least:
            return None
        starts = self.space.windows.starts[job, node_type]
        short = starts.start[starts.least == least]
        long = starts.start[starts.greatest > least]
        ends = long + starts.greatest[starts.greatest > least]
        first, last = int(short.min()), int(short.max()) + least
        long_first, long_last = max(first, int(long.min())), min(last, int(ends.max()))
        return Losses(
            least, fastest, tuple(caps), budget, first, last, long_first, max(long_first, long_last)
        )

    def _durations(self, job: int, node_type: int) -> tuple[int, int]:
        starts = self.space.windows.starts[job, node_type]
        return int(starts.least.min()), int(starts.greatest.max())

    def pattern_cost(self, pattern: Pattern) -> float:
        """Return the cost of one cell that hosts a pattern for a slot."""
        region = self.space.regions[pattern.region]
        costs, k, number = self.space.costs, region.node_type, pattern.found.number
        # Jobs of the same classes make the same set: the same number and cost.
        if (number, k) not in self._pattern_cost:
            power = costs.dynamic_w(number, k)
            if region.pool:
                power = costs.full_node_w(number, k) - float(costs.sleep_w[k])
            self._pattern_cost[number, k] = self.scale * costs.energy * power
        return self._pattern_cost[number, k]

    def run_cost(self, job: int, start: int, duration: int) -> float:
        """Return what time costs for a run: time per epoch, and total time from the first slot on."""
        costs = self.space.costs
        return self.scale * (float(costs.time[job]) * duration + costs.total * (start + duration))

    def active_cost(self, region: Region) -> float:
        """Return the cost of a slot of an active node that is shared GPU by GPU, without load and CPU."""
        costs, k = self.space.costs, region.node_type
        return self.scale * costs.energy * (costs.standing_w(k) - float(costs.sleep_w[k]))

    def last_cost(self) -> float:
        """Return the cost of a slot more before the last end: all nodes asleep."""
        costs = self.space.costs
        return self.scale * costs.energy * float(costs.sleep_w[self.space.instance.arrays().node_type].sum())

    def constant(self) -> float:
        """Return the constant of the objective."""
        return -self.scale * self.space.costs.total_constant

    def guests(self, region: Region, slot: int) -> list[Part]:
        """Return the parts in a region whose jobs may run in a slot."""
        spans = self.space.windows.spans
        return [p for p in self.space.parts_at[region.number] if spans[p.job][0] <= slot < spans[p.job][1]]

    def fulls(self, region: Region, slot: int) -> list[Full]:
        """Return the measured multisets of kinds that can fill a node of one region in a slot."""
        costs, sets = self.space.costs, self.space.instance.arrays().sets
        by_kinds: dict[tuple[str, ...], list[Pattern]] = {}
        if region.pool or costs.energy == 0.0:
            return []
        for p in self.space.possible(region.number, slot):
            if costs.residual_w(p.found.number, region.node_type):
                by_kinds.setdefault(sets.kinds[p.found.number], []).append(p)
        out = []
        for patterns in by_kinds.values():
            residual = costs.residual_w(patterns[0].found.number, region.node_type)
            if residual is not None and sum(p.most for p in patterns) >= region.cells:
                out.append(Full(tuple(patterns), self.scale * costs.energy * residual))
        return out


def least_by_duration(work: Work, longest: int) -> NDArray[np.float64]:
    """Return the least integer work of a complete run by its duration, 0 to ``longest`` slots.

    It is the smallest sum of ``up`` of so many slots that reaches the need; the need where none does. It
    comes from the set of all sums, kept as the bits of an integer.
    """
    low = np.full(longest + 1, float(work.need))
    if not work.up:
        return low
    up = 1
    # Sums further above the need are not of runs that end when they are complete.
    sensible = (1 << (work.need + max(work.up))) - 1
    for d in range(1, longest + 1):
        up = _add(up, work.up) & sensible
        reached = up >> work.need
        if reached:
            low[d] = work.need + (reached & -reached).bit_length() - 1
    return low


def _add(sums: int, steps: tuple[int, ...]) -> int:
    out = 0
    for step in set(steps):
        out |= sums << step
    return out


def estimate(space: Space, *, bytes_a_nonzero: int, bytes_a_variable: int) -> SizeEstimate:
    """Return the size of the MILP of a space, from its index sets."""
    variables = constraints = nonzeros = 0
    for (j, _), starts in space.windows.starts.items():
        first, last = space.windows.spans[j]
        number = int((starts.greatest - starts.least + 1).sum())
        covered = int(sum(d * n for d, n in zip(*_durations(starts.least, starts.greatest), strict=True)))
        variables += number + last - first
        constraints += 2 * (last - first)
        nonzeros += covered + 6 * number + 2 * (last - first)
    members = common = counts = 0
    for p in space.patterns:
        slots = p.found.last - p.found.first
        counts += slots
        members += slots * len(p.found.jobs)
    pairs = 0
    for r, jobs in space.together:
        common += sum(p.found.last - p.found.first for p in space.supersets(r, jobs))
        spans = [space.windows.spans[j] for j in jobs]
        slots = max(0, min(s[1] for s in spans) - max(s[0] for s in spans))
        pairs += slots
        nonzeros += slots * (len(jobs) + 2)
    held = sum(space.windows.spans[p.job][1] - space.windows.spans[p.job][0] for p in space.parts)
    nodes = sum(not r.pool for r in space.regions) * space.grid.slots
    variables += counts + len(space.together) + held + 8 * nodes
    constraints += 2 * pairs + 4 * held + len(space.regions) * space.grid.slots + 8 * nodes
    nonzeros += 5 * members + counts + 2 * common + 8 * held + 20 * nodes
    memory = bytes_a_nonzero * nonzeros + bytes_a_variable * (variables + constraints)
    return SizeEstimate(variables=variables, constraints=constraints, nonzeros=nonzeros, memory_bytes=memory)


def _durations(least: NDArray[np.int64], greatest: NDArray[np.int64]) -> tuple[list[int], list[int]]:
    """Return durations, and how many starts may take each."""
    top = int(greatest.max())
    number = np.zeros(top + 2, dtype=np.int64)
    np.add.at(number, least, 1)
    np.add.at(number, greatest + 1, -1)
    return list(range(top + 1)), np.cumsum(number)[: top + 1].tolist()
