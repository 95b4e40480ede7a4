"""The restricted master problem: the columns found so far, solved by HiGHS for prices.

Rows are scaled to right-hand sides of 1 and columns to a largest coefficient of 1, so that huge and tiny
epochs make no difference. The interior point method without crossover is used: its prices lie in the middle
of the optimal ones, which stabilises column generation (Gondzio, Gonzalez-Brevis and Munari, EJOR 2013),
and are never trusted: bounds are worked out from them by
:class:`~solvers.bounds.configuration_lp.ConfigurationLp`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import highspy
import numpy as np
from numpy.typing import NDArray

from formulations.highs import load_empty

if TYPE_CHECKING:
    from collections.abc import Sequence

    from formulations.configurations import Configurations

    from .pricing import Columns, Pricer

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

OBJECTIVE = 1e3
"""The first bound is brought to this in the solver's units."""

LEAST_EPOCHS = 1e-9
"""Jobs that need less, because the tolerances hide them, count as needing this; prices stay valid."""


@dataclass(frozen=True, slots=True, eq=False)
class Solved:
    """What the master says.

    Attributes
    ----------
    value
        Its objective, artificial columns included: an upper bound on the LP's value once ``missing`` is 0,
        up to the solver's tolerance.
    prices
        (J,) of epochs, or ``None`` where the solver has none.
    capacity
        {(pool, group): price of a unit-second}.
    missing
        Jobs, as shares of their epochs added up, that are left to artificial columns.
    use_s
        By pool: (P,) unit-seconds in each pattern.
    running_s
        (J,) seconds that each job runs, added up over its units and divided by their number.
    """

    value: float
    prices: FloatArray | None
    capacity: dict[tuple[int, int], float]
    missing: float
    use_s: tuple[FloatArray, ...] = ()
    running_s: FloatArray | None = None


class Master:
    """Columns of all pools, kept from one objective to the next.

    Parameters
    ----------
    model
        The LP.
    pricers
        One by pool.
    groups
        Number of groups of intervals that share a row of capacity.
    """

    def __init__(self, model: Configurations, pricers: Sequence[Pricer], groups: int) -> None:
        self._model = model
        self._pricers = pricers
        bounded = np.isfinite(model.length_s)
        count = int(bounded.sum())
        groups = max(1, min(groups, count))
        self.group: IntArray = np.full(len(model.length_s), groups, dtype=np.int64)
        """(I,) group of each interval; the last group holds the unbounded one and has no capacity."""
        self.group[bounded] = np.arange(count) * groups // max(1, count)
        self.room_s: FloatArray = np.full(groups + 1, math.inf)
        """(G,) length of each group [s]."""
        self.room_s[:groups] = np.bincount(
            self.group[bounded], weights=model.length_s[bounded], minlength=groups
        )
        self.active: set[tuple[int, int]] = set()
        """(pool, group) whose capacity the columns would exceed without a row for it."""
        self._known: set[bytes] = set()
        self._batches: list[tuple[int, Columns]] = []
        self.columns = 0

    def add(self, pool: int, columns: Columns) -> int:
        """Take columns that are new; return how many were."""
        jobs = np.sort(columns.jobs, axis=1)
        group = self.group[columns.interval]
        rows = np.array([g if (pool, int(g)) in self.active else -1 for g in group], dtype=np.int64)
        keys = np.column_stack([np.full(len(rows), pool), rows, jobs])
        keep = []
        for n, key in enumerate(keys):
            text = key.tobytes()
            if text not in self._known:
                self._known.add(text)
                keep.append(n)
        if keep:
            self._batches.append((pool, columns.only(np.array(keep))))
            self.columns += len(keep)
        return len(keep)

    def refine(self, capacity: dict[tuple[int, int], float], value: float) -> bool:
        """Halve the groups whose capacity carries a price; return whether there was any to halve.

        Parameters
        ----------
        capacity
            Prices by (pool, group).
        value
            The bound: groups that carry less than 1e-7 of it stay.
        """
        priced = {
            group
            for (pool, group), mu in capacity.items()
            if mu * self._pricers[pool].pool.units * self.room_s[group] > 1e-7 * abs(value)
        }
        split = [g for g in sorted(priced) if (self.group == g).sum() > 1]
        if not split:
            return False
        number = np.zeros(len(self.room_s), dtype=np.int64)
        group = np.zeros_like(self.group)
        active: set[tuple[int, int]] = set()
        n = 0
        for g in range(len(self.room_s)):
            number[g] = n
            mine = np.flatnonzero(self.group == g)
            parts = 2 if g in split else 1
            half = len(mine) // 2 if parts == 2 else len(mine)
            group[mine[:half]] = n
            group[mine[half:]] = n + 1
            active |= {(pool, n + k) for pool, old in self.active if old == g for k in range(parts)}
            n += parts
        self.group, self.active = group, active
        self.room_s = np.array([self._model.length_s[group == g].sum() for g in range(n)])
        self._sort_anew()
        return True

    def _sort_anew(self) -> None:
        """Tell columns apart by the rows that there are now."""
        self._known.clear()
        batches, self._batches, self.columns = self._batches, [], 0
        for pool, columns in batches:
            self.add(pool, columns)

    def solve(
        self, dear: FloatArray, unit: float, tolerance: float, time_limit_s: float, simplex: bool
    ) -> Solved:
        """Solve for prices.

        Parameters
        ----------
        dear
            (J,) objective of leaving out a job.
        unit
            Objective of one unit of the solver.
        tolerance
            Relative duality gap of the interior point method.
        time_limit_s
            Limit [s].
        simplex
            Whether to use the simplex method.
        """
        jobs = len(self._model.epochs)
        epochs = np.maximum(self._model.epochs, LEAST_EPOCHS)
        acting = sorted(self.active)
        row_of = {key: jobs + r for r, key in enumerate(acting)}
        cost, index, value, counts, seconds, where = [], [], [], [], [], []
        for pool, columns in self._batches:
            pricer = self._pricers[pool]
            held = columns.jobs >= 0
            part = np.where(held, pricer.yields(columns) / epochs[columns.jobs], 0.0)
            took = 1.0 / part.max(axis=1)  # seconds in which the quickest job is done
            group = self.group[columns.interval]
            row = np.array([row_of.get((pool, int(g)), -1) for g in group], dtype=np.int64)
            room = pricer.pool.units * self.room_s[group]
            entries = np.column_stack([held, row >= 0])
            index.append(np.column_stack([columns.jobs, row])[entries])
            value.append(np.column_stack([part * took[:, None], took / room])[entries])
            counts.append(entries.sum(axis=1))
            cost.append(pricer.cost(columns) * took / unit)
            seconds.append(took)
            where.append(np.column_stack([np.full(len(group), pool), group]))
        real = self.columns
        columns_cost = np.concatenate([*cost, dear / unit])
        start = np.concatenate([[0], np.cumsum(np.concatenate([*counts, np.ones(jobs, dtype=np.int64)]))])
        rows = jobs + len(acting)
        solver = load_empty()
        solver.passModel(
            len(columns_cost),
            rows,
            int(start[-1]),
            int(highspy.MatrixFormat.kColwise),
            int(highspy.ObjSense.kMinimize),
            0.0,
            columns_cost,
            np.zeros(len(columns_cost)),
            np.full(len(columns_cost), np.inf),
            np.concatenate([np.ones(jobs), np.full(len(acting), -np.inf)]),
            np.concatenate([np.full(jobs, np.inf), np.ones(len(acting))]),
            start[:-1].astype(np.int32),
            np.concatenate([*index, np.arange(jobs)]).astype(np.int32),
            np.concatenate([*value, np.ones(jobs)]),
            np.zeros(len(columns_cost), dtype=np.int32),
        )
        solver.setOptionValue("threads", 1)
        solver.setOptionValue("time_limit", max(0.1, time_limit_s))
        solver.setOptionValue("solver", "simplex" if simplex else "ipx")
        if not simplex:
            solver.setOptionValue("run_crossover", "off")
            solver.setOptionValue("ipm_optimality_tolerance", tolerance)
        solver.run()
        solution = solver.getSolution()
        if not solution.dual_valid:
            return Solved(math.inf, None, {}, math.inf)
        dual = np.array(solution.row_dual)
        x = np.maximum(0.0, np.array(solution.col_value))
        places = np.concatenate(where)
        use: dict[tuple[int, int], float] = {}
        took = np.concatenate(seconds)
        pattern_s, running_s = self._use(x[:real] * took)
        for k in np.flatnonzero(x[:real] > 0.0):
            key = (int(places[k, 0]), int(places[k, 1]))
            use[key] = use.get(key, 0.0) + float(x[k] * took[k])
        full = {
            (pool, at)
            for (pool, at), used in use.items()
            if used > self._pricers[pool].pool.units * self.room_s[at] * (1.0 + 1e-6)
        }
        if not full <= self.active:
            # A column of a group that now has a row may come again for groups that have none.
            self.active |= full
            self._sort_anew()
        capacity = {
            (pool, at): max(0.0, -dual[row_of[pool, at]])
            * (unit / (self._pricers[pool].pool.units * self.room_s[at]))
            for pool, at in acting
        }
        return Solved(
            value=float(solver.getInfo().objective_function_value) * unit,
            prices=np.maximum(0.0, dual[:jobs]) * unit / epochs,
            capacity=capacity,
            missing=float(x[real:].sum()),
            use_s=pattern_s,
            running_s=running_s,
        )

    def _use(self, unit_s: FloatArray) -> tuple[tuple[FloatArray, ...], FloatArray]:
        """Return unit-seconds by pool and pattern, and (J,) running times, of (N,) columns' unit-seconds."""
        patterns = [np.zeros(len(pricer.pool.power_w)) for pricer in self._pricers]
        running = np.zeros(len(self._model.epochs))
        first = 0
        for pool, columns in self._batches:
            mine = unit_s[first : first + len(columns.pattern)]
            first += len(mine)
            np.add.at(patterns[pool], columns.pattern, mine)
            held = columns.jobs >= 0
            share = self._pricers[pool].pool.share[columns.jobs] * mine[:, None]
            np.add.at(running, columns.jobs[held], share[held])
        return tuple(patterns), running
