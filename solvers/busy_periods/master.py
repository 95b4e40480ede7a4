"""The linear programme over busy periods, and the lower bound that its duals prove.

::

    minimise    sum of cost[c] x[c]  +  sum of sleep w[t]
    cover:      sum of x[c] over columns with job j                    = 1     for each job j
    nodes:      sum of x[c] of place k that are active in slot t      <= N[k] w[t]
    cuts:       sum of floor(members of the triple on c / 2) x[c]     <= 1     for some triples of jobs

w[t] tells whether slot t comes before the last end: 1 up to the least, 0 from the greatest last end on, and
not increasing between. Without sleep power it is 1 everywhere.

The bound is worked out from the duals and the least reduced costs, not taken from the solver: it holds for
whatever duals, so an inaccurate solve can only weaken it. Every job is on exactly one column, so there are
no more columns than jobs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import highspy
import numpy as np

from formulations.base import FormulationError
from formulations.highs import load_empty

from .kernel import FloatArray
from .pricing import Column
from .tables import Place


class MasterError(FormulationError):
    """HiGHS did not solve the linear programme."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Duals:
    """Duals of the linear programme, with the signs that the bound needs.

    Attributes
    ----------
    gain
        (J,) of cover.
    price
        (P, T) of nodes, at least 0: what a column pays in each slot it is active.
    cuts
        (C,) at least 0.
    """

    gain: FloatArray
    price: FloatArray
    cuts: FloatArray


class Master:
    """The linear programme; columns and cuts are added, windows of the search tree switch columns off.

    Parameters
    ----------
    places
        The places.
    jobs, slots
        Counts.
    sleep
        Objective of a slot of all nodes asleep.
    most
        Above this, an objective is of no interest: what a job costs that is on no column.
    """

    def __init__(self, places: Sequence[Place], jobs: int, slots: int, sleep: float, most: float) -> None:
        self.places = places
        self.jobs, self.slots, self.sleep = jobs, slots, sleep
        self.columns: list[Column] = []
        self.cuts: list[tuple[int, ...]] = []
        self._known: dict[tuple[int, tuple[int, ...], tuple[int, ...], tuple[int, ...]], int] = {}
        self._off: FloatArray = np.zeros(0)
        self._horizon = (slots, slots)
        self.objective = math.inf
        # The pool of threads belongs to the process, and one of another size than asked for gives no status.
        highspy.Highs.resetGlobalScheduler(True)
        self.solver: Any = load_empty()
        self.solver.setOptionValue("threads", 1)
        self._inf = highspy.kHighsInf
        add = self.solver.addRow
        none = np.zeros(0, dtype=np.int32), np.zeros(0)
        for _ in range(jobs):
            add(1.0, 1.0, 0, *none)
        for p in places:
            for _ in range(slots):
                add(-self._inf, 0.0 if sleep > 0.0 else float(p.nodes), 0, *none)
        # One column for each job that nothing covers.
        for j in range(jobs):
            self.solver.addCol(most, 0.0, 1.0, 1, np.array([j], dtype=np.int32), np.ones(1))
        self.fixed = jobs
        self.cut_row = jobs + len(places) * slots
        if sleep > 0.0:
            for t in range(slots):
                rows = np.array([jobs + k * slots + t for k in range(len(places))], dtype=np.int32)
                values = -np.array([float(p.nodes) for p in places])
                self.solver.addCol(sleep, 1.0, 1.0, len(rows), rows, values)
            self.fixed += slots
            for t in range(slots - 1):
                self.solver.addRow(
                    0.0,
                    self._inf,
                    2,
                    np.array([jobs + t, jobs + t + 1], dtype=np.int32),
                    np.array([1.0, -1.0]),
                )
            self.cut_row += slots - 1

    def add(self, columns: Sequence[Column]) -> int:
        """Add the columns that are new or cheaper than before, and return how many there were."""
        new = 0
        for c in columns:
            key = (c.place, c.jobs, c.starts, c.ends)
            at = self._known.get(key)
            if at is not None:
                # The same on other cells: the cheaper way stays.
                if c.cost < self.columns[at].cost * (1.0 - 1e-12):
                    self.columns[at] = c
                    self.solver.changeColCost(self.fixed + at, c.cost)
                    new += 1
                continue
            self._known[key] = len(self.columns)
            new += 1
            self.columns.append(c)
            base = self.jobs + c.place * self.slots
            rows = [*c.jobs, *(base + t for t in range(c.first, c.end))]
            values = [1.0] * len(rows)
            here = set(c.jobs)
            for q, triple in enumerate(self.cuts):
                if sum(j in here for j in triple) >= 2:
                    rows.append(self.cut_row + q)
                    values.append(1.0)
            self.solver.addCol(
                c.cost, 0.0, self._inf, len(rows), np.array(rows, dtype=np.int32), np.array(values)
            )
        return new

    def add_cuts(self, triples: Sequence[tuple[int, ...]]) -> None:
        """Add rows that hold each triple to at most one column with two or three of it."""
        for triple in triples:
            members = set(triple)
            at = [i for i, c in enumerate(self.columns) if len(members.intersection(c.jobs)) >= 2]
            self.cuts.append(triple)
            self.solver.addRow(
                -self._inf,
                1.0,
                len(at),
                np.array([self.fixed + i for i in at], dtype=np.int32),
                np.ones(len(at)),
            )

    def drop_cuts(self, which: Sequence[int]) -> None:
        """Delete cuts by number."""
        if which:
            rows = np.array([self.cut_row + q for q in which], dtype=np.int32)
            self.solver.deleteRows(len(rows), rows)
            gone = set(which)
            self.cuts = [c for q, c in enumerate(self.cuts) if q not in gone]

    def restrict(self, allowed: Sequence[bool], horizon: tuple[int, int], most: float) -> None:
        """Set what a node of the search tree allows.

        Parameters
        ----------
        allowed
            For each column so far whether it may be used; later columns may.
        horizon
            Least and greatest last end.
        most
            What a job costs that is on no column.
        """
        count = len(self.columns)
        self._horizon = horizon
        index = np.arange(self.fixed, self.fixed + count, dtype=np.int32)
        upper = np.where(np.asarray(allowed, dtype=bool), self._inf, 0.0)
        if count:
            self.solver.changeColsBounds(count, index, np.zeros(count), upper)
        self.penalise(most)
        if self.sleep > 0.0:
            for t in range(self.slots):
                self.solver.changeColBounds(self.jobs + t, float(t < horizon[0]), float(t < horizon[1]))

    def fix(self, at: int) -> None:
        """Take a column for certain, until :meth:`restrict`."""
        self.solver.changeColBounds(self.fixed + at, 1.0, self._inf)

    def penalise(self, most: float) -> None:
        """Set what a job costs that is on no column."""
        for j in range(self.jobs):
            self.solver.changeColCost(j, most)

    def solve(self) -> tuple[float, FloatArray, Duals]:
        """Solve, and return objective, values of the columns and duals.

        Raises
        ------
        MasterError
            HiGHS did not end at an optimum.
        """
        self.solver.run()
        if self.solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
            # Once more from scratch: a warm start may have gone astray.
            self.solver.clearSolver()
            self.solver.run()
        status = self.solver.getModelStatus()
        if status != highspy.HighsModelStatus.kOptimal:
            raise MasterError(
                f"branch-and-price: HiGHS ended the linear programme over busy periods as {status}, "
                "without an optimum; try another slot length or method, and please report it"
            )
        solution = self.solver.getSolution()
        dual = np.array(solution.row_dual)
        value = np.array(solution.col_value)
        jobs, slots = self.jobs, self.slots
        node = np.maximum(0.0, -dual[jobs : jobs + len(self.places) * slots]).reshape(-1, slots)
        duals = Duals(
            gain=dual[:jobs].copy(),
            price=node,
            cuts=np.maximum(0.0, -dual[self.cut_row : self.cut_row + len(self.cuts)]),
        )
        self.objective = float(self.solver.getInfo().objective_function_value)
        return self.objective, value, duals

    def artificial(self, value: FloatArray) -> float:
        """Return how many jobs are on no column."""
        return float(value[: self.jobs].sum())

    def bound(self, duals: Duals, least: Sequence[float]) -> float:
        """Return the lower bound that duals prove, given the least reduced cost of each place's columns.

        Lagrangian: duals of cover, nodes and cuts at their right-hand sides, plus what the columns
        could add. The w[t] of sleep power choose the cheapest last end for themselves.
        """
        total = math.fsum(duals.gain.tolist())
        total -= math.fsum(duals.cuts.tolist())
        if self.sleep > 0.0:
            nodes = np.array([float(p.nodes) for p in self.places])
            slot = self.sleep - nodes @ duals.price
            sums = np.concatenate([[0.0], np.cumsum(slot)])
            total += float(sums[self._horizon[0] : self._horizon[1] + 1].min())
        else:
            total -= math.fsum(
                float(p.nodes) * float(duals.price[k].sum()) for k, p in enumerate(self.places)
            )
        return total + self.jobs * min(0.0, *least) if least else total
