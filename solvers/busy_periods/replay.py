"""From columns to a plan and back.

A column says when its jobs start and end and what it costs; which cells they hold is found again by trying,
which is needed for the few columns of a plan only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from eaco_opt.physics import evaluate
from eaco_opt.schedule import Plan
from formulations.base import FormulationError

from . import kernel
from .kernel import IntArray
from .pricing import Column
from .tables import Place

if TYPE_CHECKING:
    from formulations.space import Space

SAME_COST = 1e-9
"""Costs of one column worked out in two orders agree within this share."""


class Node:
    """The state of one node while a column is replayed."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.left: dict[int, int] = {}
        self.cells: dict[int, int] = {}
        self.cost = 0.0

    def copy(self) -> Node:
        """Return an independent copy."""
        out = Node(self.place)
        out.left, out.cells, out.cost = dict(self.left), dict(self.cells), self.cost
        return out

    def sets(self) -> IntArray:
        """Return the set on each cell."""
        p = self.place
        out = np.zeros(p.cells, dtype=np.int64)
        for j in sorted(self.cells):
            for c in range(p.cells):
                if (self.cells[j] >> c) & 1:
                    out[c] = p.child[out[c], p.job_class[j]]
                    if out[c] < 0:
                        raise FormulationError(f"place {p.node_type}: a set that is not admissible")
        return out

    def start(self, job: int, cells: int, slot: int) -> None:
        """Start a job on some cells (bits)."""
        self.left[job] = int(self.place.need[job])
        self.cells[job] = cells
        self.cost += float(self.place.start_cost[job]) * slot

    def run(self) -> list[int]:
        """Run a slot, and return the jobs that end with it."""
        p = self.place
        sets = self.sets()
        use = math.fsum(float(p.cpu[j]) for j in self.left)
        self.cost += float(
            kernel.node_cost(
                sets,
                p.cells,
                use,
                p.cell_cost,
                p.kind_set,
                p.full_cost,
                p.base_cost,
                p.cpu_cost,
                p.cpu_exponent,
            )
        )
        self.cost += math.fsum(float(p.run_cost[j]) for j in self.left)
        gone = []
        for j in sorted(self.left):
            pace = max(
                int(p.level[sets[c], p.job_class[j]]) for c in range(p.cells) if (self.cells[j] >> c) & 1
            )
            self.left[j] -= int(p.up[j, pace])
            if self.left[j] <= 0:
                gone.append(j)
        for j in gone:
            del self.left[j]
            del self.cells[j]
        return gone

    def choices(self, job: int) -> list[int]:
        """Return all ways to place a job, equal cells counted once."""
        p = self.place
        order = sorted(self.cells)
        code = np.zeros(p.cells, dtype=np.int64)
        for i, j in enumerate(order):
            for c in range(p.cells):
                if (self.cells[j] >> c) & 1:
                    code[c] |= 1 << i
        out = np.zeros(math.comb(p.cells, p.cells // 2), dtype=np.int64)
        scratch = [np.zeros(p.cells, dtype=np.int64) for _ in range(4)]
        made = kernel.choices(
            code,
            self.sets(),
            p.cells,
            int(p.hold[job]),
            int(p.job_class[job]),
            p.child,
            out,
            scratch[0],
            scratch[1],
            scratch[2],
            scratch[3],
        )
        return [int(bits) for bits in out[:made]]


def cells_of(place: Place, column: Column) -> dict[int, int] | None:
    """Return the cells (bits) of each job of a column, or ``None`` if no placement gives it."""
    ends = dict(zip(column.jobs, column.ends, strict=True))
    starts = dict(zip(column.jobs, column.starts, strict=True))

    def walk(node: Node, slot: int, waiting: tuple[int, ...], held: dict[int, int]) -> dict[int, int] | None:
        if waiting:
            job, rest = waiting[0], waiting[1:]
            for bits in node.choices(job):
                branch = node.copy()
                branch.start(job, bits, slot)
                found = walk(branch, slot, rest, {**held, job: bits})
                if found is not None:
                    return found
            return None
        gone = node.run()
        slot += 1
        if set(gone) != {j for j, end in ends.items() if end == slot}:
            return None
        if slot == column.end:
            return held if abs(node.cost - column.cost) <= SAME_COST * max(1e-3, abs(column.cost)) else None
        return walk(node, slot, tuple(j for j in column.jobs if starts[j] == slot), held)

    first = tuple(j for j in column.jobs if starts[j] == column.first)
    return walk(Node(place), column.first, first, {})


def plan_of(space: Space, places: Sequence[Place], columns: Sequence[Column]) -> Plan:
    """Return the plan of columns that cover each job once and fit the nodes.

    Raises
    ------
    FormulationError
        They do not; this is an error of the search.
    """
    view = space.instance.arrays()
    n = len(space.instance.jobs)
    starts = np.zeros(n)
    gpus: list[list[int]] = [[] for _ in range(n)]
    for k, place in enumerate(places):
        nodes = [int(i) for i in np.flatnonzero(view.node_type == place.node_type)]
        free = {node: 0 for node in nodes}
        mine = sorted((c for c in columns if c.place == k), key=lambda c: (c.first, c.jobs))
        for column in mine:
            node = next((i for i in nodes if free[i] <= column.first), None)
            cells = cells_of(place, column)
            if node is None or cells is None:
                raise FormulationError(
                    f"branch-and-price of instance {space.instance.name!r}: busy periods do not make a "
                    "schedule; this is an error of the method, please report it"
                )
            free[node] = column.end
            low, high = int(view.first_gpu[node]), int(view.first_gpu[node + 1])
            per_cell = (high - low) // place.cells
            for job, start in zip(column.jobs, column.starts, strict=True):
                starts[job] = view.origin_s + start * space.grid.slot_s
                gpus[job] = [
                    low + c * per_cell + g
                    for c in range(place.cells)
                    if (cells[job] >> c) & 1
                    for g in range(per_cell)
                ]
    return Plan(starts, np.array([g for held in gpus for g in sorted(held)], dtype=np.int64))


def columns_of(space: Space, places: Sequence[Place], plan: Plan) -> list[Column] | None:
    """Return the busy periods of a feasible plan; ``None`` where it goes beyond horizon or windows."""
    view = space.instance.arrays()
    slot_s = space.grid.slot_s
    outcome = evaluate(space.instance, plan, grid_s=slot_s)
    start = [round((float(s) - view.origin_s) / slot_s) for s in outcome.jobs.start_s]
    end = [round((float(e) - view.origin_s) / slot_s) for e in outcome.jobs.end_s]
    by_node: dict[int, list[int]] = {}
    for j in range(len(space.instance.jobs)):
        held = plan.gpus[view.gpu_offset[j] : view.gpu_offset[j + 1]]
        by_node.setdefault(int(view.gpu_node[held[0]]), []).append(j)
    number = {p.node_type: k for k, p in enumerate(places)}
    out: list[Column] = []
    for node, jobs in sorted(by_node.items()):
        k = number.get(int(view.node_type[node]))
        if k is None:
            return None
        place = places[k]
        first_gpu = int(view.first_gpu[node])
        per_cell = (int(view.first_gpu[node + 1]) - first_gpu) // place.cells
        jobs = sorted(jobs, key=lambda j: (start[j], j))
        while jobs:
            busy = [jobs.pop(0)]
            until = end[busy[0]]
            while jobs and start[jobs[0]] < until:
                busy.append(jobs.pop(0))
                until = max(until, end[busy[-1]])
            state = Node(place)
            found: dict[int, int] = {}
            for slot in range(start[busy[0]], until):
                for j in busy:
                    if start[j] == slot:
                        if slot >= space.grid.slots or not place.can_start[j, slot]:
                            return None
                        held = plan.gpus[view.gpu_offset[j] : view.gpu_offset[j + 1]]
                        cells = {(int(g) - first_gpu) // per_cell for g in held}
                        state.start(j, sum(1 << c for c in cells), slot)
                for j in state.run():
                    found[j] = slot + 1
            ordered = tuple(sorted(busy))
            if any(found.get(j) != end[j] for j in ordered):
                return None
            out.append(
                Column(
                    k,
                    start[busy[0]],
                    until,
                    ordered,
                    tuple(start[j] for j in ordered),
                    tuple(end[j] for j in ordered),
                    state.cost,
                )
            )
    return out
