"""From counts to a plan, and from a plan to counts (see :mod:`formulations.space`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from eaco_opt.physics import evaluate
from eaco_opt.schedule import Plan

from .base import FormulationError

if TYPE_CHECKING:
    from .space import Region, Space


@dataclass(frozen=True, slots=True, eq=False)
class Values:
    """Values of the decisions.

    Attributes
    ----------
    start, end
        (J,) slots [start, end) in which each job runs.
    parts
        Numbers of the parts that hold.
    counts
        {(pattern number, slot): cells that host exactly this set}, zeros left out.
    """

    start: tuple[int, ...]
    end: tuple[int, ...]
    parts: frozenset[int]
    counts: dict[tuple[int, int], int]


def plan_of(space: Space, values: Values) -> Plan:
    """Return the plan that the counts describe, cells matched from slot to slot.

    Raises
    ------
    FormulationError
        The counts are no schedule: they break one of the two conditions of :mod:`formulations.space`.
    """
    view = space.instance.arrays()
    gpus: list[list[int]] = [[] for _ in space.jobs]
    wanted: dict[tuple[int, int], Counter[tuple[int, ...]]] = {}
    for (number, slot), count in values.counts.items():
        pattern = space.patterns[number]
        wanted.setdefault((pattern.region, slot), Counter())[pattern.found.jobs] += count
    for region in space.regions:
        cells: list[tuple[int, ...]] = [()] * region.cells
        for slot in range(space.grid.slots):
            target = wanted.get((region.number, slot), Counter()).copy()
            running = {j for j in space.jobs if values.start[j] <= slot < values.end[j]}
            cells = [tuple(j for j in cell if j in running) for cell in cells]
            old = {j for cell in cells for j in cell}
            # The fullest cells first; an empty cell takes what is made of newcomers only, or stays empty.
            for at in sorted(range(region.cells), key=lambda c: -len(cells[c])):
                match = next(
                    (s for s in sorted(target) if target[s] and tuple(j for j in s if j in old) == cells[at]),
                    None,
                )
                if match is None:
                    if cells[at]:
                        raise _no_schedule(space, region, slot, cells[at])
                    continue
                target[match] -= 1
                for j in set(match) - set(cells[at]):
                    if slot != values.start[j]:
                        raise _no_schedule(space, region, slot, (j,))
                    gpus[j] += _gpus_of(space, region, at)
                cells[at] = match
            if +target:
                raise _no_schedule(space, region, slot, next(iter(+target)))
    for j in space.jobs:
        if len(gpus[j]) != view.gpus[j]:
            raise _no_schedule(space, None, values.start[j], (j,))
    starts = np.array([view.origin_s + s * space.grid.slot_s for s in values.start], dtype=np.float64)
    return Plan(starts, np.array([g for held in gpus for g in sorted(held)], dtype=np.int64))


def _gpus_of(space: Space, region: Region, cell: int) -> list[int]:
    first = space.instance.arrays().first_gpu
    if region.pool:
        node = region.nodes[cell]
        return list(range(int(first[node]), int(first[node + 1])))
    return [int(first[region.nodes[0]]) + cell]


def _no_schedule(space: Space, region: Region | None, slot: int, jobs: Sequence[int]) -> FormulationError:
    names = "+".join(space.instance.jobs[j].name for j in jobs)
    where = "" if region is None else f" in region {region.number}"
    return FormulationError(
        f"model of instance {space.instance.name!r}: the solver's values for {names} in slot {slot}{where} "
        "are no schedule; this is an error of the model or the solver, please report it"
    )


def values_of(space: Space, plan: Plan) -> Values | None:
    """Return the values of a feasible plan; equal nodes are put in the order of their first job.

    ``None`` for a plan that ends after the horizon: the model holds better ones only.

    Raises
    ------
    FormulationError
        The plan is not feasible on the grid.
    """
    view = space.instance.arrays()
    grid = space.grid
    outcome = evaluate(space.instance, plan, grid_s=grid.slot_s)
    if not outcome.feasible:
        raise FormulationError(
            f"plan for instance {space.instance.name!r}: not feasible on slots of {grid.slot_s:g} s "
            f"({outcome.physical_violations} physical, {outcome.deadline_misses} deadline, "
            f"{outcome.threshold_violations} threshold violations); a start has to be feasible"
        )
    start = [round((float(s) - view.origin_s) / grid.slot_s) for s in outcome.jobs.start_s]
    end = [round((float(e) - view.origin_s) / grid.slot_s) for e in outcome.jobs.end_s]
    if max(end, default=0) > grid.slots:
        return None
    held = [[int(g) for g in plan.gpus[view.gpu_offset[j] : view.gpu_offset[j + 1]]] for j in space.jobs]
    cell_at = _cells(space, [{int(view.gpu_node[g]) for g in mine} for mine in held])
    parts: set[int] = set()
    hosts: dict[tuple[int, int], list[int]] = {}
    for j, mine in enumerate(held):
        cells: dict[int, set[int]] = {}
        for g in mine:
            region, cell = cell_at[g]
            cells.setdefault(region, set()).add(cell)
        for at, which in cells.items():
            part = next(p for p in space.parts_in[j, at] if p.cells == len(which))
            parts.add(part.number)
            for one in which:
                hosts.setdefault((at, one), []).append(j)
    number = {(p.region, p.found.jobs): p.number for p in space.patterns}
    counts: Counter[tuple[int, int]] = Counter()
    for (region, _), guests in hosts.items():
        for slot in range(min(start[j] for j in guests), max(end[j] for j in guests)):
            here = tuple(j for j in guests if start[j] <= slot < end[j])
            if here:
                counts[number[region, here], slot] += 1
    return Values(tuple(start), tuple(end), frozenset(parts), dict(counts))


def _cells(space: Space, nodes_of: Sequence[set[int]]) -> Mapping[int, tuple[int, int]]:
    """Return {GPU: (region, cell)}, nodes of a type taken in the order of the lowest job on them."""
    view = space.instance.arrays()
    first_job: dict[int, int] = {}
    for j, nodes in enumerate(nodes_of):
        for node in nodes:
            first_job.setdefault(node, j)
    out: dict[int, tuple[int, int]] = {}
    for k in {r.node_type for r in space.regions}:
        regions = [r for r in space.regions if r.node_type == k]
        ordered = sorted(
            (n for r in regions for n in r.nodes), key=lambda n: (first_job.get(n, len(nodes_of)), n)
        )
        for at, node in enumerate(ordered):
            first, last = int(view.first_gpu[node]), int(view.first_gpu[node + 1])
            for gpu in range(first, last):
                pool = regions[0].pool
                out[gpu] = (regions[0].number, at) if pool else (regions[at].number, gpu - first)
    return out
