"""The model of :mod:`formulations.milp`, built from numpy arrays and handed to HiGHS without objects between.

Same variables, rows, bounds and objective, in the same order (tests compare the two); equations and names
stand there. A block of variables or rows is made with one call, so a large model takes a fraction of the
time and memory that objects do. Names are made when asked for.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from .base import SizeEstimate, wake_features
from .linear import LinearModel, Rows
from .milp import checked_space
from .milp_terms import Group, MilpTerms, Pace, estimate
from .space import Part, Pattern, Space

if TYPE_CHECKING:
    from eaco_opt.instance import Instance

    from .grid import Grid

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Names = Callable[[], Iterator[str]]
Line = tuple[int, int, int]
"""Rows: the first, how far they are apart, and how many."""


class MilpArraysFormulation:
    """The MILP of `milp`, built from arrays: for large models."""

    name = "milp-arrays"

    def covers(self, instance: Instance) -> list[str]:
        """Return the features of the instance that are not covered."""
        return wake_features(instance)

    def estimate(self, instance: Instance, grid: Grid) -> SizeEstimate:
        """Return the size of the model without building it."""
        return estimate(Space(instance, grid), bytes_a_nonzero=80, bytes_a_variable=200)

    def build(self, instance: Instance, grid: Grid) -> MilpArraysModel:
        """Build the model.

        Raises
        ------
        UncoveredFeatureError
            The instance has wake-up times or energies, or too many different sums of CPU shares.
        """
        return MilpArraysModel(checked_space(self.name, self.covers(instance), instance, grid))


class _Builder:
    """Blocks of variables and of rows; entries as (row, variable, value) triples."""

    def __init__(self) -> None:
        self.variables = 0
        self.rows = 0
        self.cost: list[Floats] = []
        self.upper: list[Floats] = []
        self.integer: list[NDArray[np.bool_]] = []
        self.names: list[Names] = []
        self.row_names: list[Names] = []
        self.low: list[Floats] = []
        self.high: list[Floats] = []
        self._row: list[Ints] = []
        self._column: list[Ints] = []
        self._value: list[Floats] = []
        self._lines: list[tuple[int, int, int, int, int]] = []
        self._line_values: list[float] = []

    def add(
        self,
        number: int,
        names: Names,
        *,
        cost: Floats | float = 0.0,
        upper: float = 1.0,
        integer: bool = True,
    ) -> Ints:
        """Add variables; return their positions."""
        out = np.arange(self.variables, self.variables + number)
        self.variables += number
        self.cost.append(np.broadcast_to(np.asarray(cost, dtype=np.float64), (number,)))
        self.upper.append(np.full(number, upper))
        self.integer.append(np.full(number, integer))
        self.names.append(names)
        return out

    def add_rows(self, number: int, names: Names, low: float, high: float) -> Ints:
        """Add rows; return their positions."""
        out = np.arange(self.rows, self.rows + number)
        self.rows += number
        self.low.append(np.full(number, low))
        self.high.append(np.full(number, high))
        self.row_names.append(names)
        return out

    def put(self, row: Ints | int, column: Ints | int, value: Floats | float) -> None:
        """Add entries; scalars are spread."""
        rows, columns, values = np.broadcast_arrays(row, column, np.asarray(value, dtype=np.float64))
        self._row.append(rows.ravel())
        self._column.append(columns.ravel())
        self._value.append(values.ravel())

    def put_line(self, rows: Line, column: int, step: int, value: float) -> None:
        """Add one entry to each of some rows, variables ``step`` apart; they are written out at the end."""
        self._lines.append((*rows, column, step))
        self._line_values.append(value)

    def finish(self, constant: float) -> tuple[sparse.csr_matrix, float]:
        """Return the matrix by rows, entries of one place added up and zeros left out."""
        shape = (self.rows, self.variables)
        if not self._row:
            return sparse.csr_matrix(shape), constant
        if self._lines:
            row, row_step, number, column, step = np.array(self._lines, dtype=np.int64).T
            at = _ramp(number)
            self._row.append(np.repeat(row, number) + np.repeat(row_step, number) * at)
            self._column.append(np.repeat(column, number) + np.repeat(step, number) * at)
            self._value.append(np.repeat(np.array(self._line_values), number))
            self._lines, self._line_values = [], []
        triples = (np.concatenate(self._value), (np.concatenate(self._row), np.concatenate(self._column)))
        matrix = sparse.csr_matrix(sparse.coo_matrix(triples, shape=shape))
        matrix.sum_duplicates()
        matrix.eliminate_zeros()
        return matrix, constant


class MilpArraysModel(LinearModel):
    """The array model of a space."""

    def __init__(self, space: Space) -> None:
        begin = time.monotonic()
        super().__init__(space, MilpTerms(space))
        self._b = _Builder()
        self._y: dict[tuple[int, int], tuple[Ints, Ints, Ints]] = {}
        # Variables by slot: first slot, number, position of the first, distance of the positions.
        self._r: dict[tuple[int, int], tuple[int, int, int, int]] = {}
        self._w: dict[int, int] = {}
        self._h: dict[int, tuple[int, int, int, int]] = {}
        self._u: dict[int, tuple[int, int, int, int]] = {}
        self._l: dict[tuple[int, int], Ints] = {}
        if self.searched:
            self._add_runs()
            self._add_places()
            self._add_counts()
            self._add_common()
            self._add_work()
            self._add_nodes()
            self._add_order()
            self._add_last()
        self._matrix, self._constant = self._b.finish(self.terms.constant())
        self.build_s = time.monotonic() - begin

    def _span(self, *jobs: int) -> tuple[int, int]:
        spans = [self.space.windows.spans[j] for j in jobs]
        first = max(s[0] for s in spans)
        return first, max(first, min(s[1] for s in spans))

    def _add_runs(self) -> None:
        """(run), (assign)."""
        b, terms = self._b, self.terms
        for j, k in terms.types:
            starts = self.space.windows.starts[j, k]
            number = starts.greatest - starts.least + 1
            s = np.repeat(starts.start, number)
            d = np.repeat(starts.least, number) + _ramp(number)
            costs = self.space.costs
            cost = terms.scale * (float(costs.time[j]) * d + costs.total * (s + d))
            y = b.add(len(s), _names("y", j, k, s, d), cost=cost)
            self._y[j, k] = (s, d, y)
        for j, k in terms.types:
            s, d, y = self._y[j, k]
            first, last = int(s.min()), int((s + d).max())
            r = b.add(last - first, _names("r", j, k, np.arange(first, last)), integer=False)
            self._r[j, k] = (first, len(r), int(r[0]), 1)
            row = b.add_rows(last - first, _names("run", j, k, np.arange(first, last)), 0.0, 0.0)
            b.put(row, r, 1.0)
            b.put(row[np.repeat(s - first, d) + _ramp(d)], np.repeat(y, d), -1.0)
        for j in self.space.jobs:
            row = b.add_rows(1, _names("assign", j), 1.0, 1.0)
            for k in self.space.windows.types[j]:
                b.put(row, self._y[j, k][2], 1.0)

    def _put(self, rows: Line, first: int, at: tuple[int, int, int, int], factor: float) -> None:
        """Add factor * x[t] to the rows of slots ``first`` on; ``at``: first slot, number, position, step."""
        row, apart, number = rows
        start, length, column, step = at
        low, high = max(first, start), min(first + number, start + length)
        if low < high and factor != 0.0:
            line = (row + (low - first) * apart, apart, high - low)
            self._b.put_line(line, column + (low - start) * step, step, factor)

    def _put_run(self, rows: Line, j: int, k: int, first: int, factor: float) -> None:
        """Add factor * r[j,k,t] to the rows of slots ``first`` on, where r exists."""
        self._put(rows, first, self._r[j, k], factor)

    def _put_here(self, rows: Line, part: Part, first: int, factor: float) -> None:
        """Add factor * here[p,t] to the rows of slots ``first`` on."""
        k = self.space.regions[part.region].node_type
        self._put(rows, first, self._h.get(part.number) or self._r[part.job, k], factor)

    def _put_count(self, rows: Line, pattern: Pattern, first: int, factor: float) -> None:
        """Add factor * u[P,t] to the rows of slots ``first`` on."""
        self._put(rows, first, self._u[pattern.number], factor)

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
            self._h[number] = (first, len(slots), int(h[0, at]), n)

        def names() -> Iterator[str]:
            for t in slots.tolist():
                for number in numbers.tolist():
                    yield f"hold_{number}_{t}"
                yield f"here_{i}_{t}"

        rows = b.add_rows((n + 1) * len(slots), names, -np.inf, 0.0).reshape(len(slots), n + 1)
        # Rows (here) are equations.
        b.low[-1] = np.tile(np.append(np.full(n, -np.inf), 0.0), len(slots))
        b.put(rows[:, :n], h, 1.0)
        b.put(rows[:, :n], np.broadcast_to(w, h.shape), -1.0)
        b.put(np.broadcast_to(rows[:, n:], h.shape), h, 1.0)
        line = (int(rows[0, n]), n + 1, len(slots))
        self._put_run(line, j, k, first, -float(group.number))

    def _add_counts(self) -> None:
        """(cells)."""
        b, space = self._b, self.space
        for p in space.patterns:
            slots = np.arange(p.found.first, p.found.last)
            names = _names("u", p.number, slots)
            u = b.add(len(slots), names, cost=self.terms.pattern_cost(p), upper=float(p.most))
            self._u[p.number] = (p.found.first, len(slots), int(u[0]), 1)
        for (r, j), patterns in space.patterns_with.items():
            first, last = self._span(j)
            row = b.add_rows(last - first, _names("cells", r, j, np.arange(first, last)), 0.0, 0.0)
            line = (int(row[0]), 1, last - first)
            for p in patterns:
                self._put_count(line, p, first, 1.0)
            for part in space.parts_in[j, r]:
                self._put_here(line, part, first, -float(part.cells))

    def _add_common(self) -> None:
        """(upper), (lower)."""
        b, space = self._b, self.space
        for i, (r, jobs) in enumerate(space.together):
            most = float(space.most_common(r, jobs))
            k = space.regions[r].node_type
            q = b.add(1, _names("q", i), upper=most)
            first, last = self._span(*jobs)
            both = b.add_rows(2 * (last - first), _pair_names(i, first, last), -np.inf, 0.0)
            b.low[-1] = np.tile([-np.inf, -most * len(jobs)], last - first)
            b.high[-1] = np.tile([0.0, np.inf], last - first)
            at = int(both[0])
            upper, lower = (at, 2, last - first), (at + 1, 2, last - first)
            for line in (upper, lower):
                for p in space.supersets(r, jobs):
                    self._put_count(line, p, first, 1.0)
                b.put_line(line, int(q[0]), 0, -1.0)
            for j in jobs:
                self._put_run(lower, j, k, first, -most)

    def _put_pace(
        self, rows: Line, j: int, first: int, units: Callable[[int, int, float], float], factor: float
    ) -> None:
        """Add factor * pace[j,t] to the rows of slots ``first`` on."""
        space = self.space
        for k in space.windows.types[j]:
            levels = space.levels[j, k]
            if self.terms.paces[j, k] is Pace.FIXED:
                self._put_run(rows, j, k, first, factor * units(j, k, levels[0]))
            elif self.terms.paces[j, k] is Pace.COUNTED:
                value = {sigma: factor * units(j, k, sigma) for sigma in levels}
                for p in space.patterns_of(j, k):
                    self._put_count(rows, p, first, value[p.found.sigma_of(j)])
            else:
                at, l = space.windows.spans[j][0], self._l[j, k]
                for i, sigma in enumerate(levels):
                    picks = (at, len(l), int(l[0, i]), len(levels))
                    self._put(rows, first, picks, factor * units(j, k, sigma))

    def _add_paces(self, j: int, k: int) -> None:
        """(pace), (slow), (is)."""
        b, space = self._b, self.space
        levels = space.levels[j, k]
        n = len(levels)
        held = float(space.cells_held(j, k))
        first, last = self._span(j)
        slots = np.arange(first, last)
        l = b.add(n * len(slots), _names("l", j, k, np.repeat(slots, n), np.tile(np.arange(n), len(slots))))
        l = l.reshape(len(slots), n)
        self._l[j, k] = l

        def names() -> Iterator[str]:
            for t in slots.tolist():
                yield f"pace_{j}_{k}_{t}"
                for i in reversed(range(n)):
                    yield f"is_{j}_{k}_{t}_{i}"
                    if i:
                        yield f"slow_{j}_{k}_{t}_{i}"

        rows = b.add_rows(2 * n * len(slots), names, -np.inf, 0.0).reshape(len(slots), 2 * n)
        b.low[-1] = np.tile(np.append(0.0, np.full(2 * n - 1, -np.inf)), len(slots))
        b.put(np.broadcast_to(rows[:, :1], l.shape), l, 1.0)

        def line(column: int) -> Line:
            return int(rows[0, column]), 2 * n, len(slots)

        self._put_run(line(0), j, k, first, -1.0)
        for i in range(n):
            at = 1 + 2 * (n - 1 - i)
            b.put(rows[:, at], l[:, i], 1.0)
            # The rows (slow) of this level and of all faster ones.
            slow = [2 + 2 * (n - 1 - m) for m in range(1, i + 1)]
            for column in slow:
                b.put(rows[:, column], l[:, i], -held)
            for p in space.patterns_of(j, k):
                if p.found.sigma_of(j) == levels[i]:
                    self._put_count(line(at), p, first, -1.0)
                    for column in slow:
                        self._put_count(line(column), p, first, 1.0)

    def _add_work(self) -> None:
        """(pace), (slow), (is), (done), (most), (slots), (early), (final)."""
        b, space, terms = self._b, self.space, self.terms
        for j, k in terms.types:
            if terms.paces[j, k] is Pace.CHOSEN:
                self._add_paces(j, k)
        for j in space.jobs:
            first, last = self._span(j)
            slots = last - first
            done = b.add_rows(1, _names("done", j), 0.0, np.inf)
            most = b.add_rows(1, _names("most", j), -np.inf, 0.0)
            for k in space.windows.types[j]:
                self._add_slow_slots(j, k)
            fastest = terms.fastest(j)
            z = b.add(1, _names("z", j), upper=fastest, integer=False)
            early = b.add_rows(1, _names("early", j), -np.inf, terms.need[j] - terms.smallest_step(j))
            self._put_pace((int(done[0]), 0, slots), j, first, terms.up, 1.0)
            self._put_pace((int(most[0]), 0, slots), j, first, terms.down, 1.0)
            self._put_pace((int(early[0]), 0, slots), j, first, terms.down, 1.0)
            b.put(early, z, -1.0)
            ends: list[Ints] = []
            for k in space.windows.types[j]:
                s, d, y = self._y[j, k]
                b.put(done, y, -terms.least_done(j)[d])
                b.put(most, y, -terms.most_done(j)[d])
                ends.append(s + d)
            which = np.unique(np.concatenate(ends))
            final = b.add_rows(len(which), _names("final", j, which), -np.inf, fastest)
            b.put(final, z, 1.0)
            # Row of each slot: that of the end after it; slots that end nothing have none.
            by_slot = np.full(slots, -1)
            by_slot[which - 1 - first] = final
            kept = np.flatnonzero(by_slot >= 0)
            for run in np.split(kept, np.flatnonzero(np.diff(kept) > 1) + 1):
                line = (int(by_slot[run[0]]), 1, len(run))
                self._put_pace(line, j, first + int(run[0]), terms.down, -1.0)
            for k, end in zip(space.windows.types[j], ends, strict=True):
                b.put(final[np.searchsorted(which, end)], self._y[j, k][2], fastest)

    def _add_slow_slots(self, j: int, k: int) -> None:
        """(slots)."""
        b, space, levels = self._b, self.space, self.space.levels[j, k]
        n = len(levels)
        if n == 1:
            return
        rows = b.add_rows(n - 1, _names("slots", j, k, np.arange(1, n)), -np.inf, 0.0)
        _, d, y = self._y[j, k]
        for i in range(1, n):
            b.put(rows[i - 1], y, -self.terms.slow_slots(j, k, i)[d])
            if self.terms.paces[j, k] is Pace.CHOSEN:
                b.put(rows[i - 1], self._l[j, k][:, i:], 1.0)
        if self.terms.paces[j, k] is Pace.COUNTED:
            for p in space.patterns_of(j, k):
                level = levels.index(p.found.sigma_of(j))
                for i in range(1, level + 1):
                    line = (int(rows[i - 1]), 0, p.found.last - p.found.first)
                    self._put_count(line, p, p.found.first, 1.0)

    def _add_nodes(self) -> None:
        """(room), (active), (one), (cpu), (full), (fill)."""
        b, space = self._b, self.space
        for region in space.regions:
            r, cells = region.number, float(region.cells)
            patterns = space.patterns_in[r]
            used = np.zeros(self.grid.slots, dtype=np.bool_)
            for p in patterns:
                used[p.found.first : p.found.last] = True
            if region.pool:
                slots = np.flatnonzero(used)
                rows = np.full(self.grid.slots, -1)
                rows[slots] = b.add_rows(len(slots), _names("room", r, slots), -np.inf, cells)
                for p in patterns:
                    line = (int(rows[p.found.first]), 1, p.found.last - p.found.first)
                    self._put_count(line, p, p.found.first, 1.0)
                continue
            for t in np.flatnonzero(used).tolist():
                self._add_node_slot(r, t)

    def _add_node_slot(self, r: int, t: int) -> None:
        b, space, terms = self._b, self.space, self.terms
        region = space.regions[r]
        cells = float(region.cells)
        a = b.add(1, _names("a", r, t), cost=terms.active_cost(region), integer=False)
        room = b.add_rows(1, _names("room", r, t), -np.inf, 0.0)
        for p in space.possible(r, t):
            self._put_count((int(room[0]), 0, 1), p, t, 1.0)
        b.put(room, a, -cells)
        guests = terms.guests(region, t)
        for part in guests:
            active = b.add_rows(1, _names("active", part.number, t), -np.inf, 0.0)
            self._put_here((int(active[0]), 0, 1), part, t, 1.0)
            b.put(active, a, -1.0)
        groups = space.cpu_groups(region, t)
        if groups:
            powers = space.cpu_powers(region, groups)
            keys = np.array(list(powers), dtype=np.float64)
            cost = terms.scale * space.costs.energy * np.array(list(powers.values()))
            c = b.add(len(keys), _names("c", r, t, np.arange(len(keys))), cost=cost)
            b.put(b.add_rows(1, _names("one", r, t), 1.0, 1.0), c, 1.0)
            for at, (_, parts) in enumerate(groups):
                row = b.add_rows(1, _names("cpu", r, t, at), 0.0, 0.0)
                b.put(row, c, keys[:, at])
                for part in parts:
                    self._put_here((int(row[0]), 0, 1), part, t, -1.0)
        for i, full in enumerate(terms.fulls(region, t)):
            f = b.add(1, _names("f", r, t, i), cost=full.cost)
            least = b.add_rows(1, _names("full", r, t, i), 0.0, np.inf)
            most = b.add_rows(1, _names("fill", r, t, i), -np.inf, cells - 1.0)
            for p in full.patterns:
                self._put_count((int(least[0]), 0, 1), p, t, 1.0)
                self._put_count((int(most[0]), 0, 1), p, t, 1.0)
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

    @cached_property
    def _all_names(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        b = self._b
        return (
            tuple(name for block in b.names for name in block()),
            tuple(name for block in b.row_names for name in block()),
        )

    def rows(self) -> Rows:
        """Return the model as arrays, in the order in which variables and rows were added."""
        b, matrix = self._b, self._matrix
        names, row_names = self._all_names
        empty = [np.zeros(0)]
        return Rows(
            names=names,
            row_names=row_names,
            cost=np.concatenate(b.cost or empty),
            constant=self._constant,
            upper=np.concatenate(b.upper or empty),
            integer=np.concatenate(b.integer or [np.zeros(0, dtype=np.bool_)]),
            start=matrix.indptr.astype(np.int32),
            index=matrix.indices.astype(np.int32),
            value=matrix.data,
            low=np.concatenate(b.low or empty),
            high=np.concatenate(b.high or empty),
        )

    def write(self, path: Path | str) -> None:
        """Write the model for other programmes through HiGHS: ``.mps`` or ``.lp`` by the name of the file."""
        from .highs import load

        target = Path(path)
        if target.suffix not in (".mps", ".lp"):
            self.refuse_suffix(target)
        solver = load(self.arrays)
        for i, name in enumerate(self.arrays.names):
            solver.passColName(i, name)
        for i, name in enumerate(self.arrays.row_names):
            solver.passRowName(i, name)
        solver.writeModel(str(target))


def _ramp(number: Ints) -> Ints:
    """Return 0 .. n-1 for each n, one after the other."""
    ends = np.cumsum(number)
    out: Ints = np.arange(int(ends[-1]) if len(ends) else 0) - np.repeat(ends - number, number)
    return out


def _names(*parts: str | int | Ints) -> Names:
    """Return what makes the names ``a_1_2``, one for each element of the arrays among the parts."""

    def make() -> Iterator[str]:
        arrays = [np.atleast_1d(np.asarray(p)) for p in parts]
        size = max(len(a) for a in arrays)
        columns = [np.broadcast_to(a, (size,)).tolist() for a in arrays]
        for row in zip(*columns, strict=True):
            yield "_".join(map(str, row))

    return make


def _pair_names(i: int, first: int, last: int) -> Names:
    def make() -> Iterator[str]:
        for t in range(first, last):
            yield f"upper_{i}_{t}"
            yield f"lower_{i}_{t}"

    return make
