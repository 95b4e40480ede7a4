"""The model of :mod:`formulations.milp`, built from numpy arrays and handed to HiGHS without objects between.

Same variables, rows, bounds and objective, in the same order (tests compare the two); equations and names
stand there. All variables or rows of a kind are made at once: what belongs to a pattern and what belongs to a
job in a pattern stand in tables, and entries for all slots are these tables repeated. Names are made when
asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from .linear import LinearFormulation, LinearModel, Rows
from .milp_terms import Pace

if TYPE_CHECKING:
    from .milp_terms import Group, MilpTerms
    from .space import Part, Space

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Names = Callable[[], Iterator[str]]


class MilpArraysFormulation(LinearFormulation["MilpArraysModel"]):
    """The MILP of `milp`, built from arrays: for large models."""

    name = "milp-arrays"
    bytes_a_nonzero = 80
    bytes_a_variable = 200

    def model(self, space: Space, terms: MilpTerms) -> MilpArraysModel:
        """Build the model of a space."""
        return MilpArraysModel(space, terms)


class _Builder:
    """Blocks of variables and of rows; entries as (row, variable, value) triples."""

    def __init__(self) -> None:
        self.variables = 0
        self.rows = 0
        self.cost: list[Floats] = []
        self.upper: list[Floats] = []
        self.integer: list[Bools] = []
        self.names: list[Names] = []
        self.row_names: list[Names] = []
        self.low: list[Floats] = []
        self.high: list[Floats] = []
        self._row: list[Ints] = []
        self._column: list[Ints] = []
        self._value: list[Floats] = []

    def add(
        self,
        number: int,
        names: Names,
        *,
        cost: Floats | float = 0.0,
        upper: Floats | float = 1.0,
        integer: bool = True,
    ) -> Ints:
        """Add variables; return their positions."""
        out = np.arange(self.variables, self.variables + number)
        self.variables += number
        self.cost.append(np.broadcast_to(np.asarray(cost, dtype=np.float64), (number,)))
        self.upper.append(np.broadcast_to(np.asarray(upper, dtype=np.float64), (number,)))
        self.integer.append(np.full(number, integer))
        self.names.append(names)
        return out

    def add_rows(self, number: int, names: Names, low: Floats | float, high: Floats | float) -> Ints:
        """Add rows; return their positions."""
        out = np.arange(self.rows, self.rows + number)
        self.rows += number
        self.low.append(np.broadcast_to(np.asarray(low, dtype=np.float64), (number,)))
        self.high.append(np.broadcast_to(np.asarray(high, dtype=np.float64), (number,)))
        self.row_names.append(names)
        return out

    def put(self, row: Ints | int, column: Ints | int, value: Floats | float) -> None:
        """Add entries; scalars are spread."""
        rows, columns, values = np.broadcast_arrays(row, column, np.asarray(value, dtype=np.float64))
        self._row.append(rows.ravel())
        self._column.append(columns.ravel())
        self._value.append(values.ravel())

    def finish(self) -> sparse.csr_matrix:
        """Return the matrix by rows, entries of one place added up and zeros left out."""
        shape = (self.rows, self.variables)
        if not self._row:
            return sparse.csr_matrix(shape)
        at = (
            np.concatenate(self._row, dtype=np.int32, casting="same_kind"),
            np.concatenate(self._column, dtype=np.int32, casting="same_kind"),
        )
        matrix = sparse.csr_matrix(sparse.coo_matrix((np.concatenate(self._value), at), shape=shape))
        matrix.sum_duplicates()
        matrix.eliminate_zeros()
        return matrix


@dataclass(frozen=True, slots=True, eq=False)
class _Members:
    """A row for each job in each pattern (N rows).

    Attributes
    ----------
    pattern, job, node_type, region
        (N,) numbers.
    level
        (N,) place of the job's slowdown in its list of levels.
    """

    pattern: Ints
    job: Ints
    node_type: Ints
    region: Ints
    level: Ints


def _members(space: Space) -> _Members:
    place = {key: {s: i for i, s in enumerate(levels)} for key, levels in space.levels.items()}
    rows = [
        (p.number, j, k, p.region, place[j, k][sigma])
        for p in space.patterns
        for k in (space.regions[p.region].node_type,)
        for j, sigma in zip(p.found.jobs, p.found.sigma, strict=True)
    ]
    return _Members(*np.array(rows, dtype=np.int64).reshape(-1, 5).T)


class MilpArraysModel(LinearModel):
    """The array model of a space."""

    def __init__(self, space: Space, terms: MilpTerms) -> None:
        super().__init__(space, terms)
        self._b = _Builder()
        self._y: dict[tuple[int, int], tuple[Ints, Ints, Ints]] = {}
        # Variables of all slots in which they exist: (first slot, positions).
        self._r: dict[tuple[int, int], tuple[int, Ints]] = {}
        # What makes up r[j,k,t]: slots, and a variable for each.
        self._running: dict[tuple[int, int], tuple[Ints, Ints]] = {}
        self._h: dict[int, tuple[int, Ints]] = {}
        self._w: dict[int, int] = {}
        self._l: dict[tuple[int, int], Ints] = {}
        if self.searched:
            self._m = _members(space)
            self._first, self._last = np.array(
                [(p.found.first, p.found.last) for p in space.patterns], dtype=np.int64
            ).T
            self._region = np.array([p.region for p in space.patterns], dtype=np.int64)
            self._span_first, self._span_last = np.array(space.windows.spans, dtype=np.int64).T
            self._add_runs()
            self._add_places()
            self._add_counts()
            self._add_common()
            self._add_work()
            self._add_nodes()
            self._add_order()
            self._add_last()
        self._matrix = self._b.finish()

    # Runs -------------------------------------------------------------------------------------------------

    def _add_runs(self) -> None:
        """(run), (assign)."""
        b, terms, costs = self._b, self.terms, self.space.costs
        begins, ends = [], []
        for j, k in terms.types:
            starts = self.space.windows.starts[j, k]
            number = starts.greatest - starts.least + 1
            s = np.repeat(starts.start, number)
            d = np.repeat(starts.least, number) + _ramp(number)
            cost = terms.scale * (float(costs.time[j]) * d + costs.total * (s + d))
            y = b.add(len(s), _names("y", j, k, s, d), cost=cost)
            self._y[j, k] = (s, d, y)
            begins.append(s)
            ends.append(s + d)
        # The variables y are the first, so these are indexed by their positions.
        self._begin, self._end = np.concatenate(begins), np.concatenate(ends)
        for j, k in terms.types:
            s, d, y = self._y[j, k]
            slot, run = np.repeat(s, d) + _ramp(d), np.repeat(y, d)
            if not self.space.is_pool(k):
                first, last = int(s.min()), int((s + d).max())
                r = b.add(last - first, _names("r", j, k, np.arange(first, last)), integer=False)
                row = b.add_rows(last - first, _names("run", j, k, np.arange(first, last)), 0.0, 0.0)
                b.put(row, r, 1.0)
                b.put(row[slot - first], run, -1.0)
                self._r[j, k] = (first, r)
                slot, run = np.arange(first, last), r
            self._running[j, k] = (slot, run)
        for j in self.space.jobs:
            row = b.add_rows(1, _names("assign", j), 1.0, 1.0)
            for k in self.space.windows.types[j]:
                b.put(row, self._y[j, k][2], 1.0)

    def _put_run(self, rows: Ints, first: int, j: int, k: int, factor: float) -> None:
        """Add factor * r[j,k,t] to the rows of slots ``first`` on."""
        slot, run = self._running[j, k]
        kept = (slot >= first) & (slot < first + len(rows))
        self._b.put(rows[slot[kept] - first], run[kept], factor)

    def _put_slots(self, rows: Ints, first: int, at: tuple[int, Ints], factor: float) -> None:
        """Add factor * x[t] to the rows of slots ``first`` on; ``at``: first slot and positions of x."""
        start, x = at
        low, high = max(first, start), min(first + len(rows), start + len(x))
        if low < high:
            self._b.put(rows[low - first : high - first], x[low - start : high - start], factor)

    def _here(self, part: Part) -> tuple[int, Ints]:
        """Return first slot and positions of here[p,t]."""
        return self._h.get(part.number) or self._r[part.job, self.space.regions[part.region].node_type]

    def _span(self, j: int) -> tuple[int, int]:
        return self.space.windows.spans[j]

    # Places -----------------------------------------------------------------------------------------------

    def _add_places(self) -> None:
        """(place), (hold), (here), (node)."""
        for i, group in enumerate(self.terms.groups):
            if not group.forced:
                self._add_group(i, group)
        b = self._b
        for (j, r), parts in self.space.parts_in.items():
            chosen = [self._w[p.number] for p in parts if p.number in self._w]
            if len(parts) > 1 and chosen:
                row = b.add_rows(1, _names("node", j, r), -np.inf, 1.0 - (len(parts) - len(chosen)))
                b.put(row, np.array(chosen), 1.0)

    def _add_group(self, i: int, group: Group) -> None:
        b, j, k = self._b, group.job, group.node_type
        numbers = np.array([p.number for p in group.parts])
        w = b.add(len(numbers), _names("w", numbers))
        self._w.update(zip(numbers.tolist(), w.tolist(), strict=True))
        row = b.add_rows(1, _names("place", i), 0.0, 0.0)
        b.put(row, w, 1.0)
        b.put(row, self._y[j, k][2], -float(group.number))
        first, last = self._span(j)
        slots, n = np.arange(first, last), len(numbers)
        # Slot by slot: one h for each part; then a row (hold) for each part and one (here).
        h = b.add(
            n * len(slots), _names("h", np.tile(numbers, len(slots)), np.repeat(slots, n)), integer=False
        ).reshape(len(slots), n)
        for at, number in enumerate(numbers.tolist()):
            self._h[number] = (first, h[:, at])

        def names() -> Iterator[str]:
            for t in slots.tolist():
                for number in numbers.tolist():
                    yield f"hold_{number}_{t}"
                yield f"here_{i}_{t}"

        low = np.tile(np.append(np.full(n, -np.inf), 0.0), len(slots))  # rows (here) are equations
        rows = b.add_rows((n + 1) * len(slots), names, low, 0.0).reshape(len(slots), n + 1)
        b.put(rows[:, :n], h, 1.0)
        b.put(rows[:, :n], w, -1.0)
        b.put(rows[:, n:], h, 1.0)
        self._put_run(rows[:, n], first, j, k, -float(group.number))

    # Company ----------------------------------------------------------------------------------------------

    def _add_counts(self) -> None:
        """(cells)."""
        b, space, m = self._b, self.space, self._m
        cost = np.array([self.terms.pattern_cost(p) for p in space.patterns])
        most = np.array([p.most for p in space.patterns], dtype=np.float64)
        pattern, slot = _slots(self._first, self._last)
        u = b.add(len(slot), _names("u", pattern, slot), cost=cost[pattern], upper=most[pattern])
        # Position of u[P, 0], had it that slot.
        self._u0 = u[0] + np.cumsum(self._last - self._first) - self._last
        # Members in each slot: (member, slot, variable).
        at, slot = _slots(self._first[m.pattern], self._last[m.pattern])
        self._at_slot = (at, slot, self._u0[m.pattern[at]] + slot)
        base = np.zeros((len(space.regions), len(space.jobs)), dtype=np.int64)
        for r, j in space.patterns_with:
            first, last = self._span(j)
            rows = b.add_rows(last - first, _names("cells", r, j, np.arange(first, last)), 0.0, 0.0)
            base[r, j] = rows[0] - first
            for part in space.parts_in[j, r]:
                if space.regions[r].pool:
                    self._put_run(rows, first, j, space.regions[r].node_type, -float(part.cells))
                else:
                    self._put_slots(rows, first, self._here(part), -float(part.cells))
        b.put(base[m.region[at], m.job[at]] + slot, self._at_slot[2], 1.0)

    def _add_common(self) -> None:
        """(common), (joins), (leaves)."""
        b, space = self._b, self.space
        if not space.together:
            return
        number = np.array([len(jobs) for _, jobs in space.together])
        which = np.repeat(np.arange(len(number)), number)
        jobs = np.array([j for _, jobs in space.together for j in jobs], dtype=np.int64)
        heads = np.cumsum(number) - number
        first = np.maximum.reduceat(self._span_first[jobs], heads)
        last = np.minimum.reduceat(self._span_last[jobs], heads)
        most = np.array([space.most_common(*one) for one in space.together], dtype=np.float64)
        together, slot = _slots(first, last)
        q = b.add(len(slot), _names("q", together, slot), upper=most[together], integer=False)
        common = b.add_rows(len(slot), _names("common", together, slot), 0.0, 0.0)
        b.put(common, q, -1.0)
        offset = np.cumsum(last - first) - last
        supersets = [[p.number for p in space.supersets(*one)] for one in space.together]
        owner = np.repeat(np.arange(len(number)), [len(found) for found in supersets])
        above = np.array([p for found in supersets for p in found], dtype=np.int64)
        pair, slot = _slots(self._first[above], self._last[above])
        b.put(common[0] + offset[owner[pair]] + slot, self._u0[above[pair]] + slot, 1.0)
        # Rows between neighbouring slots, and the runs of each job of Q that begin or end between them.
        between, slot = _slots(first + 1, np.maximum(last, first + 1))
        offset_q = q[0] + offset
        offset = np.cumsum(np.maximum(last - first - 1, 0)) - np.maximum(last, first + 1)
        types = np.array([space.regions[r].node_type for r, _ in space.together], dtype=np.int64)
        runs = [self._y[j, k][2] for j, k in zip(jobs.tolist(), types[which].tolist(), strict=True)]
        owner = np.repeat(which, [len(y) for y in runs])
        run = np.concatenate(runs)
        for name, sign, when in (("joins", 1.0, self._begin[run]), ("leaves", -1.0, self._end[run])):
            rows = b.add_rows(len(slot), _names(name, between, slot), -np.inf, 0.0)
            b.put(rows, offset_q[between] + slot, sign)
            b.put(rows, offset_q[between] + slot - 1, -sign)
            kept = (when > first[owner]) & (when < last[owner])
            if kept.any():
                where = owner[kept]
                b.put(rows[0] + offset[where] + when[kept], run[kept], -most[where])

    # Progress ---------------------------------------------------------------------------------------------

    def _by_level(self, of: Callable[[int, int, float], float], kind: Pace) -> Floats:
        """Return (N,) ``of(job, type, slowdown)`` for the members whose pace is of a kind, 0 for others."""
        space, m = self.space, self._m
        most = max(len(levels) for levels in space.levels.values())
        table = np.zeros((len(space.jobs), len(space.instance.cluster.node_types), most))
        for j, k in self.terms.types:
            if self.terms.paces[j, k] is kind:
                table[j, k, : len(space.levels[j, k])] = [of(j, k, s) for s in space.levels[j, k]]
        return table[m.job, m.node_type, m.level]

    def _put_pace(self, row_of: Ints, units: Callable[[int, int, float], float], factor: float) -> None:
        """Add factor * pace[j,t] to the row of each job and slot; ``row_of``: (J, T), -1 for none."""
        b, space, m = self._b, self.space, self._m
        at, slot, u = self._at_slot
        value = self._by_level(units, Pace.COUNTED)[at]
        row = row_of[m.job[at], slot]
        kept = (value != 0.0) & (row >= 0)
        b.put(row[kept], u[kept], factor * value[kept])
        for j, k in self.terms.types:
            levels = space.levels[j, k]
            if self.terms.paces[j, k] is Pace.FIXED:
                slot, run = self._running[j, k]
                row = row_of[j, slot]
                b.put(row[row >= 0], run[row >= 0], factor * units(j, k, levels[0]))
            elif self.terms.paces[j, k] is Pace.CHOSEN:
                row = row_of[j, slice(*self._span(j))]
                value = np.array([units(j, k, sigma) for sigma in levels])
                b.put(row[row >= 0, None], self._l[j, k][row >= 0], factor * value)

    def _add_paces(self, j: int, k: int) -> None:
        """(pace), (slow), (is)."""
        b, space, m = self._b, self.space, self._m
        n = len(space.levels[j, k])
        held = float(space.cells_held(j, k))
        first, last = self._span(j)
        slots = np.arange(first, last)
        names_l = _names("l", j, k, np.repeat(slots, n), np.tile(np.arange(n), len(slots)))
        l = b.add(n * len(slots), names_l).reshape(len(slots), n)
        self._l[j, k] = l

        def names() -> Iterator[str]:
            for t in slots.tolist():
                yield f"pace_{j}_{k}_{t}"
                for i in reversed(range(n)):
                    yield f"is_{j}_{k}_{t}_{i}"
                    if i:
                        yield f"slow_{j}_{k}_{t}_{i}"

        low = np.tile(np.append(0.0, np.full(2 * n - 1, -np.inf)), len(slots))
        rows = b.add_rows(2 * n * len(slots), names, low, 0.0).reshape(len(slots), 2 * n)
        b.put(rows[:, :1], l, 1.0)
        self._put_run(rows[:, 0], first, j, k, -1.0)
        at, slot, u = self._at_slot
        mine = np.flatnonzero((m.job[at] == j) & (m.node_type[at] == k))
        level, slot, u = m.level[at[mine]], slot[mine], u[mine]
        for i in range(n):
            # The row (is) of a level, and the rows (slow) of this level and of all faster ones.
            here = 1 + 2 * (n - 1 - i)
            slow = np.array([2 + 2 * (n - 1 - f) for f in range(1, i + 1)], dtype=np.int64)
            b.put(rows[:, here], l[:, i], 1.0)
            b.put(rows[:, slow], l[:, i : i + 1], -held)
            same = level == i
            b.put(rows[slot[same] - first, here], u[same], -1.0)
            b.put(rows[slot[same] - first][:, slow], u[same][:, None], 1.0)

    def _add_work(self) -> None:
        """(pace), (slow), (is), (done), (early), (final), (slots), (long), (lost), (spare)."""
        b, space, terms = self._b, self.space, self.terms
        for j, k in terms.types:
            if terms.paces[j, k] is Pace.CHOSEN:
                self._add_paces(j, k)
        # The row of a job in each slot: mostly the same, none (-1) where it has no such row.
        done, early, final = np.full((3, len(space.jobs), self.grid.slots), -1)
        for j in space.jobs:
            y = np.concatenate([self._y[j, k][2] for k in space.windows.types[j]])
            d = self._end[y] - self._begin[y]
            row = b.add_rows(1, _names("done", j), 0.0, np.inf)
            b.put(row, y, -terms.least_done(j)[d])
            done[j] = row
            y = y[d > terms.sure_slots(j)]
            if not len(y):
                continue
            fastest = terms.fastest(j)
            z = b.add(1, _names("z", j), upper=fastest, integer=False)
            row = b.add_rows(1, _names("early", j), -np.inf, terms.need[j] - terms.smallest_step(j))
            b.put(row, z, -1.0)
            early[j] = row
            which = np.unique(self._end[y])
            rows = b.add_rows(len(which), _names("final", j, which), -np.inf, fastest)
            b.put(rows, z, 1.0)
            b.put(rows[np.searchsorted(which, self._end[y])], y, fastest)
            final[j, which - 1] = rows
        self._put_pace(done, terms.up, 1.0)
        self._put_pace(early, terms.down, 1.0)
        self._put_pace(final, terms.down, -1.0)
        self._add_slow_slots()
        self._add_losses()

    def _add_slow_slots(self) -> None:
        """(slots)."""
        b, terms, m = self._b, self.terms, self._m
        # For each member: the first of its job's rows, and how many of them count its level.
        first = np.zeros(len(m.job), dtype=np.int64)
        number = np.zeros(len(m.job), dtype=np.int64)
        for j, k in terms.types:
            levels = [i for i, _ in terms.slow_levels(j, k)]
            if not levels:
                continue
            rows = b.add_rows(len(levels), _names("slots", j, k, np.array(levels)), -np.inf, 0.0)
            _, d, y = self._y[j, k]
            for row, (level, most) in zip(rows.tolist(), terms.slow_levels(j, k), strict=True):
                b.put(row, y, -most[d])
                if terms.paces[j, k] is Pace.CHOSEN:
                    b.put(row, self._l[j, k][:, level:], 1.0)
            if terms.paces[j, k] is Pace.COUNTED:
                mine = (m.job == j) & (m.node_type == k)
                first[mine] = rows[0]
                number[mine] = np.searchsorted(levels, m.level[mine], side="right")
        at, _, u = self._at_slot
        again = number[at]
        b.put(np.repeat(first[at], again) + _ramp(again), np.repeat(u, again), 1.0)

    def _add_losses(self) -> None:
        """(long), (lost), (spare)."""
        b, terms, m = self._b, self.terms, self._m
        at, slot, u = self._at_slot
        for j, k in terms.types:
            losses = terms.losses(j, k)
            if losses is None:
                continue
            s, d, y = self._y[j, k]
            slots = np.arange(losses.first, losses.last)
            longer = np.arange(losses.long_first, losses.long_last)
            long = d > losses.shortest
            # The order of variables is that in which the PuLP builder comes upon them.
            beyond = b.add(len(longer), _names("b", j, k, longer), integer=False)
            rows = b.add_rows(len(longer), _names("long", j, k, longer), 0.0, 0.0)
            b.put(rows, beyond, 1.0)
            covered = np.repeat(s[long], d[long]) + _ramp(d[long])
            run = np.repeat(y[long], d[long])
            kept = (covered >= losses.long_first) & (covered < losses.long_last)
            b.put(rows[covered[kept] - losses.long_first] if len(rows) else rows, run[kept], -1.0)
            x = b.add(len(slots), _names("x", j, k, slots), upper=losses.caps[0], integer=False)
            # Rows of each slot: one for each cap where a longer run may be, else only that of the first.
            is_long = (slots >= losses.long_first) & (slots < losses.long_last)
            caps = np.array(losses.caps)
            number = np.where(is_long, len(caps), 1)
            cap = _ramp(number)
            where = np.repeat(np.arange(len(slots)), number)
            lost = b.add_rows(len(cap), _names("lost", j, k, slots[where], cap), -np.inf, 0.0)
            heads = lost[0] + np.cumsum(number) - number
            b.put(lost, x[where], -1.0)
            if len(longer):
                held = is_long[where]
                b.put(lost[held], beyond[slots[where[held]] - losses.long_first], -caps[cap[held]])
            loss = losses.fastest - np.array([terms.up(j, k, sigma) for sigma in self.space.levels[j, k]])
            if terms.paces[j, k] is Pace.COUNTED:
                mine = np.flatnonzero(
                    (m.job[at] == j) & (m.node_type[at] == k) & (slot >= losses.first) & (slot < losses.last)
                )
                value, when, what = loss[m.level[at[mine]]], slot[mine] - losses.first, u[mine]
            else:
                first, last = self._span(j)
                first, last = max(first, losses.first), min(last, losses.last)
                l = self._l[j, k][first - self._span(j)[0] : last - self._span(j)[0]]
                value = np.tile(loss, len(l))
                when, what = np.repeat(np.arange(first, last) - losses.first, len(loss)), l.ravel()
            kept = value > 0.0
            value, when, what = value[kept], when[kept], what[kept]
            again = number[when]
            b.put(
                np.repeat(heads[when], again) + _ramp(again),
                np.repeat(what, again),
                np.minimum(np.repeat(value, again), caps[_ramp(again)]),
            )
            spare = b.add_rows(1, _names("spare", j, k), -np.inf, 0.0)
            b.put(spare, x, 1.0)
            b.put(spare, y[~long], -losses.budget)

    # Nodes ------------------------------------------------------------------------------------------------

    def _add_nodes(self) -> None:
        """(room), (active), (one), (cpu), (full), (fill)."""
        b, space = self._b, self.space
        for region in space.regions:
            r = region.number
            patterns = np.flatnonzero(self._region == r)
            at, slot = _slots(self._first[patterns], self._last[patterns])
            used = np.unique(slot)
            if not region.pool:
                for t in used.tolist():
                    self._add_node_slot(r, t)
                continue
            rows = b.add_rows(len(used), _names("room", r, used), -np.inf, float(region.cells))
            b.put(rows[np.searchsorted(used, slot)], self._u0[patterns[at]] + slot, 1.0)

    def _put_u(self, row: Ints, patterns: Ints, t: int) -> None:
        self._b.put(row, self._u0[patterns] + t, 1.0)

    def _add_node_slot(self, r: int, t: int) -> None:
        b, space, terms = self._b, self.space, self.terms
        region = space.regions[r]
        cells = float(region.cells)

        def here(parts: list[Part]) -> Ints:
            """Return the positions of here[p,t], where the job may run on the node's type in the slot."""
            found = [self._here(part) for part in parts]
            return np.array([x[t - s] for s, x in found if s <= t < s + len(x)], dtype=np.int64)

        a = b.add(1, _names("a", r, t), cost=terms.active_cost(region), integer=False)
        room = b.add_rows(1, _names("room", r, t), -np.inf, 0.0)
        self._put_u(room, np.flatnonzero((self._region == r) & (self._first <= t) & (t < self._last)), t)
        b.put(room, a, -cells)
        for part in terms.guests(region, t):
            active = b.add_rows(1, _names("active", part.number, t), -np.inf, 0.0)
            b.put(active, here([part]), 1.0)
            b.put(active, a, -1.0)
        groups = space.cpu_groups(region, t)
        if groups:
            powers = space.cpu_powers(region, groups)
            keys = np.array(list(powers), dtype=np.float64)
            cost = terms.scale * space.costs.energy * np.array(list(powers.values()))
            c = b.add(len(keys), _names("c", r, t, np.arange(len(keys))), cost=cost)
            b.put(b.add_rows(1, _names("one", r, t), 1.0, 1.0), c, 1.0)
            for i, (_, parts) in enumerate(groups):
                row = b.add_rows(1, _names("cpu", r, t, i), 0.0, 0.0)
                b.put(row, c, keys[:, i])
                b.put(row, here(parts), -1.0)
        for i, full in enumerate(terms.fulls(region, t)):
            f = b.add(1, _names("f", r, t, i), cost=full.cost)
            least = b.add_rows(1, _names("full", r, t, i), 0.0, np.inf)
            most = b.add_rows(1, _names("fill", r, t, i), -np.inf, cells - 1.0)
            numbers = np.array([p.number for p in full.patterns])
            self._put_u(least, numbers, t)
            self._put_u(most, numbers, t)
            b.put(least, f, -cells)
            b.put(most, f, -1.0)

    def _add_order(self) -> None:
        """(order)."""
        b = self._b
        for part, earlier in self.space.openings:
            if part.number in self._w and all(q.number in self._w for q in earlier):
                row = b.add_rows(1, _names("order", part.number), -np.inf, 0.0)
                b.put(row, self._w[part.number], 1.0)
                if earlier:
                    b.put(row, np.array([self._w[q.number] for q in earlier]), -1.0)

    def _add_last(self) -> None:
        """(last)."""
        cost = self.terms.last_cost()
        if cost == 0.0:
            return
        b = self._b
        last = b.add(1, _names("last"), cost=cost, upper=float(self.grid.slots), integer=False)
        for j in self.space.jobs:
            row = b.add_rows(1, _names("last", j), -np.inf, 0.0)
            for k in self.space.windows.types[j]:
                s, d, y = self._y[j, k]
                b.put(row, y, (s + d).astype(np.float64))
            b.put(row, last, -1.0)

    # What solvers need ------------------------------------------------------------------------------------

    def _make_names(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        b = self._b
        return (
            tuple(name for block in b.names for name in block()),
            tuple(name for block in b.row_names for name in block()),
        )

    def rows(self) -> Rows:
        """Return the model as arrays, in the order in which variables and rows were added."""
        b, matrix = self._b, self._matrix
        empty = [np.zeros(0)]
        return Rows(
            make_names=self._make_names,
            cost=np.concatenate(b.cost or empty),
            constant=self.terms.constant(),
            upper=np.concatenate(b.upper or empty),
            integer=np.concatenate(b.integer or [np.zeros(0, dtype=np.bool_)]),
            start=matrix.indptr.astype(np.int32),
            index=matrix.indices.astype(np.int32),
            value=matrix.data,
            low=np.concatenate(b.low or empty),
            high=np.concatenate(b.high or empty),
        )


def _ramp(number: Ints) -> Ints:
    """Return 0 .. n-1 for each n, one after the other."""
    ends = np.cumsum(number)
    out: Ints = np.arange(int(ends[-1]) if len(ends) else 0) - np.repeat(ends - number, number)
    return out


def _slots(first: Ints, last: Ints) -> tuple[Ints, Ints]:
    """Return all slots of ranges [first, last), one range after the other: (number of the range, slot)."""
    number = last - first
    which = np.repeat(np.arange(len(number)), number)
    return which, first[which] + _ramp(number)


def _names(*parts: str | int | Ints) -> Names:
    """Return what makes the names ``a_1_2``, one for each element of the arrays among the parts."""

    def make() -> Iterator[str]:
        arrays = [np.atleast_1d(np.asarray(p)) for p in parts]
        size = max((len(p) for p in parts if isinstance(p, np.ndarray)), default=1)
        columns = [np.broadcast_to(a, (size,)).tolist() for a in arrays]
        for row in zip(*columns, strict=True):
            yield "_".join(map(str, row))

    return make
