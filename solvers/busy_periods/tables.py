"""What a node of each type can do, as arrays for the pricing (one :class:`Place` a node type).

Nodes of a type are interchangeable, and so are the GPUs of a node, so a place is one node of the type and its
*cells*: its GPUs, or the whole node as one cell where every job that may run there fills it.
"""

from __future__ import annotations

import math
from collections import Counter
from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .teams import Teams, make_teams

if TYPE_CHECKING:
    from formulations.space import Space

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

MOST_CLASS_BITS = 6
"""Classes told apart in the tables of joint costs."""


class Place(NamedTuple):
    """One node of a type: J jobs, T slots, S sets on a cell, C classes, L slowdowns, K most jobs on a cell.

    Attributes
    ----------
    node_type, nodes
        Number of the node type, and of nodes of it.
    cells
        Interchangeable cells of a node.
    share
        Most jobs on a cell.
    child
        (S, C) set with one more member of a class, -1 where it is not admissible; set 0 is the empty one.
    level
        (S, C) place of the slowdown of a member of a class in the ascending list of slowdowns.
    cell_cost
        (S,) objective of a cell hosting a set for a slot: its load-dependent power.
    kind_set
        (S,) sets of the same kinds of profile have the same number.
    full_cost
        (S,) objective of a slot of a node all of whose cells host these kinds, where that was measured or the
        node is one cell; NaN elsewhere.
    base_cost
        Objective of a slot of an active node with nothing running, less an inactive one's.
    cpu_cost, cpu_exponent
        Objective of a slot of the server at full CPU above idle, and exponent of the curve.
    cpu
        (J,) CPU utilisation of the node by each job.
    hold, job_class
        (J,) cells held by each job, and its class; 0 cells for a job that cannot run here.
    up
        (J, L) units of work done in a slot at each slowdown.
    fastest
        (J,) most units of work in a slot.
    need
        (J,) units of work of the whole job.
    run_cost, start_cost
        (J,) objective of a slot of running, and of a start one slot later.
    can_start
        (J, T) slots in which each job may start.
    last_end, first_end
        (J,) last and first slot boundary at which each may end.
    own_cost
        (J, L, T) lower bound of what a slot at this slowdown or a smaller one costs for the job itself, the
        node's standing power apart; infinity where it cannot happen.
    rent
        What of a slot's cost is not split among the jobs: `base_cost`.
    lone_cost
        (J,) what a slot costs for a job itself at least, but for its part of its cells' cost.
    part_cost, best_level
        (S, C) least part of a cell's cost, and least slowdown, of a member of a class in a set or any larger
        one.
    most_up
        (J, L) most units of work in a slot at this slowdown or a greater one.
    joint_cost
        (S, 2**B) least that the members of a set add to the cost of a cell with other jobs on it, their
        running apart, by the classes of the others (bits); infinity where there can be none.
    joint_toll
        What measured nodes may take off the sum of `joint_cost`.
    class_bit
        (C,) bit of each class; classes share the last bit where there are more than B.
    next_start
        (J, T + 1) first slot at or after each in which a job may start; T for none.
    monotone
        Whether no job is faster in larger company.
    toll
        By how much at most a slot of a node may cost more with fewer jobs on it, their running included.
    least_run_cost
        (J,) least that a whole run adds to the cost of a busy period; minus infinity where that is not known.
    teams
        All busy periods of few jobs without narrowed windows, ``None`` where they are not worked out.
    """

    node_type: int
    nodes: int
    cells: int
    share: int
    child: IntArray
    level: IntArray
    cell_cost: FloatArray
    kind_set: IntArray
    full_cost: FloatArray
    base_cost: float
    rent: float
    cpu_cost: float
    cpu_exponent: float
    cpu: FloatArray
    hold: IntArray
    job_class: IntArray
    up: IntArray
    fastest: IntArray
    need: IntArray
    run_cost: FloatArray
    start_cost: FloatArray
    can_start: NDArray[np.bool_]
    last_end: IntArray
    first_end: IntArray
    own_cost: FloatArray
    lone_cost: FloatArray
    part_cost: FloatArray
    idle_rent: float
    idle_own_cost: FloatArray
    idle_part_cost: FloatArray
    best_level: IntArray
    most_up: IntArray
    joint_cost: FloatArray
    joint_toll: float
    class_bit: IntArray
    next_start: IntArray
    monotone: bool
    toll: float
    least_run_cost: FloatArray
    teams: Teams | None

    def narrowed(self, can_start: NDArray[np.bool_], last_end: IntArray, first_end: IntArray) -> Place:
        """Return the place with smaller windows."""
        return self._replace(
            can_start=can_start, last_end=last_end, first_end=first_end, next_start=next_starts(can_start)
        )


def make_places(space: Space) -> list[Place]:
    """Return the places of an instance on its grid, one for each node type that some job may use."""
    types = sorted({k for allowed in space.windows.types for k in allowed})
    return [_place(space, k) for k in types]


def _place(space: Space, k: int) -> Place:
    view = space.instance.arrays()
    costs = space.costs
    node_type = space.instance.cluster.node_types[k]
    sets = view.sets
    n, slots = len(space.instance.jobs), space.grid.slots
    jobs = [j for j in space.jobs if k in space.windows.types[j]]
    pool = space.is_pool(k)
    cells = 1 if pool else node_type.gpus
    classes = len(sets.classes)

    found = space.windows.sets[k]
    numbers = sorted({f.number for f in found})
    place_of = {0: 0} | {s: i + 1 for i, s in enumerate(numbers)}
    keys = [(), *(sets.keys[s] for s in numbers)]
    ids = [0, *numbers]
    number_of = {key: i for i, key in enumerate(keys)}
    child = np.full((len(keys), classes), -1, dtype=np.int64)
    for i, key in enumerate(keys):
        for c in range(classes):
            child[i, c] = number_of.get(tuple(sorted((*key, c))), -1)
    sigmas = sorted({s for f in found for s in f.sigma})
    rank = {s: i for i, s in enumerate(sigmas)}
    level = np.zeros((len(keys), classes), dtype=np.int64)
    for i, key in enumerate(keys):
        for m, c in enumerate(key):
            level[i, c] = rank[float(sets.sigma[ids[i], m])]

    e = costs.energy
    per_cell = node_type.gpus // cells
    cell_cost = np.array([0.0] + [e * per_cell * costs.dynamic_w(s, k) for s in numbers])
    kind_set = np.array([int(sets.kind_set[s]) for s in ids], dtype=np.int64)
    full_cost = np.full(len(keys), np.nan)
    for i, s in enumerate(ids):
        if i and (pool or costs.residual_w(s, k) is not None):
            full_cost[i] = e * (costs.full_node_w(s, k) - node_type.sleep_w)
    server = node_type.power.server

    hold = np.zeros(n, dtype=np.int64)
    cpu = np.zeros(n)
    up = np.zeros((n, len(sigmas)), dtype=np.int64)
    need = np.zeros(n, dtype=np.int64)
    can_start = np.zeros((n, slots), dtype=np.bool_)
    last_end = np.zeros(n, dtype=np.int64)
    for j in jobs:
        hold[j] = 1 if pool else view.gpus[j]
        cpu[j] = float(view.cpu[j]) * (1.0 if pool else float(view.gpus[j]) / node_type.gpus)
        work, at = space.work[j]
        need[j] = work.need
        for sigma in space.levels[j, k]:
            up[j, rank[sigma]] = work.up[at[space.speed(j, k, sigma)]]
        starts = space.windows.starts[j, k]
        can_start[j, starts.start] = True
        last_end[j] = int((starts.start + starts.greatest).max())
    # Of several cells some may be empty, and rent beyond the node's own would be paid for those too.
    more = e * (costs.standing_w(k) - node_type.sleep_w) if cells == 1 else 0.0
    part, best = _in_company(space, k, keys, ids, number_of, level, cells, cell_cost, full_cost, 0.0)
    idle_part, _ = _in_company(space, k, keys, ids, number_of, level, cells, cell_cost, full_cost, more)
    idle_own = _own_costs(space, k, jobs, cells, place_of, rank, cell_cost, full_cost, cpu, hold, more)
    most_up = np.maximum.accumulate(up[:, ::-1], axis=1)[:, ::-1].copy()
    own = _own_costs(space, k, jobs, cells, place_of, rank, cell_cost, full_cost, cpu, hold, 0.0)
    class_bit = np.array([1 << min(c, MOST_CLASS_BITS - 1) for c in range(classes)], dtype=np.int64)
    least_run = np.full(classes, np.inf)
    for j in jobs:
        c = int(view.job_class[j])
        least_run[c] = min(least_run[c], float(costs.time[j]) + costs.total)
    measured = [costs.residual_w(s, k) for s in numbers]
    residuals = np.array([e * r for r in measured if r is not None])
    joint_toll: float = 0.0
    if cells > 1:
        joint_toll = max(0.0, float(residuals.max(initial=0.0))) - min(0.0, float(residuals.min(initial=0.0)))
    for table in (child, level, cell_cost, full_cost, up, can_start, own):
        table.setflags(write=False)
    place = Place(
        node_type=k,
        nodes=int((view.node_type == k).sum()),
        cells=cells,
        share=space.instance.limits.max_share,
        child=child,
        level=level,
        cell_cost=cell_cost,
        kind_set=kind_set,
        full_cost=full_cost,
        base_cost=e * (costs.standing_w(k) - node_type.sleep_w),
        rent=e * (costs.standing_w(k) - node_type.sleep_w),
        cpu_cost=e * (server.busy_w - server.idle_w),
        cpu_exponent=server.exponent,
        cpu=cpu,
        hold=hold,
        job_class=view.job_class.astype(np.int64),
        up=up,
        fastest=up.max(axis=1, initial=0),
        need=need,
        run_cost=costs.time + costs.total,
        start_cost=np.full(n, costs.total),
        can_start=can_start,
        last_end=last_end,
        first_end=np.zeros(n, dtype=np.int64),
        own_cost=own,
        lone_cost=costs.time + costs.total + _chord(space, k, jobs, cells) * cpu,
        part_cost=part,
        idle_rent=e * (costs.standing_w(k) - node_type.sleep_w) + more,
        idle_own_cost=idle_own,
        idle_part_cost=idle_part,
        best_level=best,
        most_up=most_up,
        joint_cost=_joint_costs(keys, number_of, cell_cost, full_cost, cells, class_bit),
        joint_toll=joint_toll,
        class_bit=class_bit,
        next_start=next_starts(can_start),
        monotone=_monotone(keys, number_of, level),
        toll=_toll(keys, number_of, full_cost, cell_cost, cells, joint_toll, least_run),
        least_run_cost=np.zeros(n),
        teams=None,
    )
    return place._replace(least_run_cost=_least_run_costs(place, keys, number_of), teams=make_teams(place))


def _least_run_costs(
    place: Place, keys: list[tuple[int, ...]], number_of: dict[tuple[int, ...], int]
) -> FloatArray:
    """Return (J,) what a job's whole run adds at least: its running, and its load where that is known.

    Others run no faster with the job there than without it, and no slot gets cheaper (`_toll`), so taking
    it out of a busy period saves this much.
    """
    n, _ = place.can_start.shape
    if not place.monotone or place.toll > 0.0:
        return np.full(n, -math.inf)
    adds = np.zeros(place.child.shape[1])
    if place.cells == 1:
        adds[:] = math.inf
        for i, key in enumerate(keys):
            for c in set(key):
                at = key.index(c)
                less = number_of[key[:at] + key[at + 1 :]]
                before = float(place.full_cost[less]) if less else 0.0
                adds[c] = min(adds[c], float(place.full_cost[i]) - before)
        adds[np.isinf(adds)] = 0.0
    out = np.zeros(n)
    for j in range(n):
        if place.hold[j]:
            slots = -(-int(place.need[j]) // int(place.fastest[j]))
            first = int(np.flatnonzero(place.can_start[j])[0])
            per_slot = float(place.run_cost[j]) + float(adds[place.job_class[j]])
            out[j] = slots * per_slot + float(place.start_cost[j]) * first
    return out


def _monotone(keys: list[tuple[int, ...]], number_of: dict[tuple[int, ...], int], level: IntArray) -> bool:
    """Tell whether the slowdown of a job never falls when another one joins."""
    for i, key in enumerate(keys):
        for m in range(len(key)):
            rest = key[:m] + key[m + 1 :]
            less = number_of[rest]
            if any(level[less, c] > level[i, c] for c in rest):
                return False
    return True


def _toll(
    keys: list[tuple[int, ...]],
    number_of: dict[tuple[int, ...], int],
    full_cost: FloatArray,
    cell_cost: FloatArray,
    cells: int,
    joint_toll: float,
    least_run: FloatArray,
) -> float:
    """Return the most by which a slot may get dearer when jobs leave, less what their running cost.

    Modelled power grows with every job; measured power and measured loads need not.
    """
    worst = 0.0
    for i, key in enumerate(keys):
        for size in range(1, len(key)):
            for rest in set(combinations(key, size)):
                less = number_of[rest]
                gone = Counter(key) - Counter(rest)
                saved = math.fsum(float(least_run[c]) * m for c, m in gone.items())
                if cells == 1:
                    worst = max(worst, float(full_cost[less] - full_cost[i]) - saved)
                else:
                    worst = max(worst, cells * float(cell_cost[less] - cell_cost[i]))
    if cells > 1:
        worst += joint_toll
        worst = max(0.0, worst - float(least_run.min()))
    return worst


def _chord(space: Space, k: int, jobs: list[int], cells: int) -> float:
    """Return the least slope of the server's capped concave curve; 0 where sets hold its cost already."""
    if cells == 1:
        return 0.0
    view = space.instance.arrays()
    server = space.instance.cluster.node_types[k].power.server
    # Most CPU that jobs can ask for together: the chord of the capped curve ends at that sum.
    most = space.instance.limits.max_share * max((float(view.cpu[j]) for j in jobs), default=0.0)
    return space.costs.energy * (server.busy_w - server.idle_w) / max(1.0, most)


def _cell_rest(
    space: Space, k: int, number: int, cells: int, cell_cost: float, full_cost: float, more: float
) -> float:
    """Return the least that a cell with a set adds to a node's cost."""
    costs = space.costs
    node_type = space.instance.cluster.node_types[k]
    if cells == 1:
        return full_cost - costs.energy * (costs.standing_w(k) - node_type.sleep_w) - more
    return -more + cell_cost + costs.energy * min(0.0, costs.residual_w(number, k) or 0.0) / cells


def _in_company(
    space: Space,
    k: int,
    keys: list[tuple[int, ...]],
    ids: list[int],
    number_of: dict[tuple[int, ...], int],
    level: IntArray,
    cells: int,
    cell_cost: FloatArray,
    full_cost: FloatArray,
    more: float,
) -> tuple[FloatArray, IntArray]:
    """Return (S, C) least part of a cell's cost and least slowdown in a set and all larger ones."""
    view = space.instance.arrays()
    util = np.zeros(level.shape[1])
    util[view.job_class] = view.util
    part = np.full(level.shape, np.inf)
    best = np.full(level.shape, np.iinfo(np.int64).max)
    for i in reversed(range(1, len(keys))):
        key = keys[i]
        rest = _cell_rest(space, k, ids[i], cells, float(cell_cost[i]), float(full_cost[i]), more)
        total = math.fsum(float(util[c]) for c in key)
        for c in set(key):
            share = float(util[c]) / total if total > 0.0 else 1.0 / len(key)
            part[i, c] = min(part[i, c], rest * share)
            best[i, c] = min(best[i, c], level[i, c])
        for m in range(len(key)):
            less = number_of[key[:m] + key[m + 1 :]]
            for c in set(keys[less]):
                part[less, c] = min(part[less, c], part[i, c])
                best[less, c] = min(best[less, c], best[i, c])
    return part, best


def _joint_costs(
    keys: list[tuple[int, ...]],
    number_of: dict[tuple[int, ...], int],
    cell_cost: FloatArray,
    full_cost: FloatArray,
    cells: int,
    class_bit: IntArray,
) -> FloatArray:
    cost = full_cost if cells == 1 else cell_cost
    masks = 1 << min(len(class_bit), MOST_CLASS_BITS)
    out = np.full((len(keys), masks), np.inf)
    if cells > 1:
        # Others may be on other cells only.
        out[:] = cell_cost[:, None]
        out[0] = 0.0
    all_masks = np.arange(masks)
    for i, key in enumerate(keys):
        for size in range(1, len(key)):
            for mine in set(combinations(key, size)):
                others = tuple(sorted((Counter(key) - Counter(mine)).elements()))
                bits = 0
                for c in others:
                    bits |= int(class_bit[c])
                value = float(cost[i] - cost[number_of[others]])
                fits = (all_masks & bits) == bits
                s = number_of[mine]
                out[s, fits] = np.minimum(out[s, fits], value)
    return out


def next_starts(can_start: NDArray[np.bool_]) -> IntArray:
    """Return (J, T + 1) first slot at or after each in which a job may start; T for none."""
    jobs, slots = can_start.shape
    out = np.full((jobs, slots + 1), slots, dtype=np.int64)
    for t in range(slots - 1, -1, -1):
        out[:, t] = np.where(can_start[:, t], t, out[:, t + 1])
    return out


def _own_costs(
    space: Space,
    k: int,
    jobs: list[int],
    cells: int,
    place_of: dict[int, int],
    rank: dict[float, int],
    cell_cost: FloatArray,
    full_cost: FloatArray,
    cpu: FloatArray,
    hold: IntArray,
    more: float,
) -> FloatArray:
    """Return (J, L, T) shares of the load-dependent costs: they sum to no more than any node's.

    The part of a cell's cost is split by stand-alone utilisation. On a node of several cells the server's
    concave curve is replaced by its chord, and of a measured node's difference from the model only what is
    below 0 counts, spread over its cells (docs/model.md section 2).
    """
    view = space.instance.arrays()
    costs = space.costs
    n, slots = len(space.instance.jobs), space.grid.slots
    chord = _chord(space, k, jobs, cells)
    own = np.full((n, len(rank), slots), np.inf)
    for found in space.windows.sets[k]:
        s = place_of[found.number]
        rest = _cell_rest(space, k, found.number, cells, float(cell_cost[s]), float(full_cost[s]), more)
        total = math.fsum(float(view.util[j]) for j in found.jobs)
        for j, sigma in zip(found.jobs, found.sigma, strict=True):
            part = float(view.util[j]) / total if total > 0.0 else 1.0 / len(found.jobs)
            value = rest * part * int(hold[j]) + float(costs.time[j]) + costs.total
            value += chord * float(cpu[j])
            span = slice(found.first, found.last)
            own[j, rank[sigma], span] = np.minimum(own[j, rank[sigma], span], value)
    # A job on several cells goes at the pace of the slowest: the others may be in faster company.
    return np.minimum.accumulate(own, axis=1)
