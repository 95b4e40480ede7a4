"""Busy periods of few jobs, all of them: what the pricing compares late joiners with.

A *team* is a set of a few jobs. Whatever else runs on a node, a team that starts there costs at least what it
costs by itself, less what the node's standing power and the concave curve save in company; so the cheapest
busy period of each team, by first slot and end, is worked out once for an instance. Duals depend on nothing
else, so a round of pricing only adds them.

On nodes of several cells placements would multiply the work. There all run at the pace that they have alone,
and each cell costs what a job adds at least to it: a lower bound of what the team costs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from eaco_opt.kernels._jit import jit

from .kernel import BoolArray, FloatArray, IntArray, server_cost

if TYPE_CHECKING:
    from .tables import Place

MOST = 5
"""Most jobs of a team."""

MOST_ON_A_CELL = 3
"""Most jobs of a team on a node of one cell, where larger ones cost more time than they save."""

MOST_STARTS = 6e7
"""Most combinations of starts that are gone through: teams of more jobs are left out where there are more."""


class Teams(NamedTuple):
    """All busy periods of teams that may be cheapest: M teams, E busy periods, J jobs, T slots.

    Attributes
    ----------
    size
        Most jobs of a team.
    choose
        (J + 1, MOST + 1) binomial coefficients: the team of jobs i < j < ... has the number ``offset[size] +
        choose[i, 1] + choose[j, 2] + ...``.
    offset
        (MOST + 1,) number of the first team of each size.
    at
        (M, T + 1) first busy period of a team that begins in a slot or after it.
    members
        (M, MOST) its jobs in ascending order, then -1.
    team, first, end
        (E,) team, first slot and end.
    value
        (E,) reduced cost (of tables without duals: cost).
    """

    size: int
    choose: IntArray
    offset: IntArray
    at: IntArray
    members: IntArray
    team: IntArray
    first: IntArray
    end: IntArray
    value: FloatArray


@jit
def cheapest(
    team: IntArray,
    best: FloatArray,
    start: IntArray,
    left: IntArray,
    exact: bool,
    most: int,
    child: IntArray,
    level: IntArray,
    full_cost: FloatArray,
    base_cost: float,
    cpu_cost: float,
    cpu_exponent: float,
    cpu: FloatArray,
    hold: IntArray,
    least_cost: FloatArray,
    job_class: IntArray,
    up: IntArray,
    fastest: IntArray,
    need: IntArray,
    run_cost: FloatArray,
    start_cost: FloatArray,
    can_start: BoolArray,
    last_end: IntArray,
    first_start: IntArray,
    last_start: IntArray,
) -> None:
    """Write the least cost of busy periods of a team by first slot and end: ``best`` (T, T + 1).

    ``exact`` on nodes of one cell; else the lower bound of the module, with at most ``most`` lanes and
    ``least_cost`` (J,) for a slot of a job's cells. ``start`` and ``left`` are working memory.
    """
    n = team.shape[0]
    slots = can_start.shape[1]
    for a in range(slots):
        for b in range(slots + 1):
            best[a, b] = np.inf
    for m in range(n):
        start[m] = first_start[team[m]]
    while True:
        possible = True
        begin = slots
        cost = 0.0
        for m in range(n):
            j = team[m]
            if not can_start[j, start[m]]:
                possible = False
                break
            begin = min(begin, start[m])
            left[m] = need[j]
            cost += start_cost[j] * start[m]
        running = n
        t = begin
        while possible and running > 0:
            s = 0
            lanes = 0
            use = 0.0
            for m in range(n):
                j = team[m]
                if left[m] > 0 and start[m] <= t:
                    cost += run_cost[j]
                    if exact:
                        s = child[s, job_class[j]]
                        if s < 0:
                            break
                    lanes += hold[j]
                    use += cpu[j]
                    if not exact:
                        cost += least_cost[j]
            if s < 0 or lanes == 0 or lanes > most:
                # Not admissible, or the node falls idle before all have started.
                possible = False
                break
            if exact:
                cost += full_cost[s]
            else:
                cost += base_cost + server_cost(use, cpu_cost, cpu_exponent)
            for m in range(n):
                j = team[m]
                if left[m] > 0 and start[m] <= t:
                    left[m] -= up[j, level[s, job_class[j]]] if exact else fastest[j]
                    if left[m] <= 0:
                        running -= 1
                    elif t + 1 >= last_end[j]:
                        possible = False
            t += 1
        if possible:
            if cost < best[begin, t]:
                best[begin, t] = cost
        # The next combination of starts.
        m = n - 1
        while m >= 0 and start[m] == last_start[team[m]]:
            start[m] = first_start[team[m]]
            m -= 1
        if m < 0:
            return
        start[m] += 1


def make_teams(place: Place) -> Teams | None:
    """Return the teams of a place without duals; ``None`` where there are none."""
    p = place
    jobs, slots = p.can_start.shape
    able = [j for j in range(jobs) if p.hold[j] > 0 and p.can_start[j].any()]
    first = np.array([int(np.argmax(row)) for row in p.can_start], dtype=np.int64)
    last = np.array([slots - 1 - int(np.argmax(row[::-1])) for row in p.can_start], dtype=np.int64)
    width = last - first + 1
    size, starts = 0, 0.0
    sums = np.zeros(MOST + 1)
    sums[0] = 1.0
    for j in able:
        # Elementary symmetric sums: combinations of starts over all teams of each size.
        sums[1:] += sums[:-1] * float(width[j])
    most = MOST_ON_A_CELL if p.cells == 1 else MOST
    while size < min(most, len(able)) and starts + sums[size + 1] <= MOST_STARTS:
        size += 1
        starts += float(sums[size])
    if size == 0:
        return None
    choose = np.array([[math.comb(j, k) for k in range(MOST + 1)] for j in range(jobs + 1)], dtype=np.int64)
    offset = np.zeros(MOST + 1, dtype=np.int64)
    for k in range(2, MOST + 1):
        offset[k] = offset[k - 1] + math.comb(jobs, k - 1)
    count = int(sum(math.comb(jobs, k) for k in range(1, size + 1)))
    least_cost: FloatArray = p.hold * _least_costs(p)[p.job_class]
    # What measured nodes may cost less than the sum over their cells.
    standing = p.base_cost - (p.joint_toll if p.cells > 1 else 0.0)
    best = np.empty((slots, slots + 1))
    work = np.empty(MOST, dtype=np.int64), np.empty(MOST, dtype=np.int64)
    members = np.full((count, MOST), -1, dtype=np.int64)
    at = np.zeros((count, slots + 1), dtype=np.int64)
    teams: list[IntArray] = []
    firsts: list[IntArray] = []
    ends: list[IntArray] = []
    costs: list[FloatArray] = []
    made = 0
    for k in range(1, size + 1):
        for team in combinations(able, k):
            cheapest(
                np.array(team, dtype=np.int64),
                best,
                *work,
                p.cells == 1,
                p.cells * p.share,
                p.child,
                p.level,
                p.full_cost,
                standing,
                p.cpu_cost,
                p.cpu_exponent,
                p.cpu,
                p.hold,
                least_cost,
                p.job_class,
                p.up,
                p.fastest,
                p.need,
                p.run_cost,
                p.start_cost,
                p.can_start,
                p.last_end,
                first,
                last,
            )
            a, b = np.nonzero(np.isfinite(best))
            number = int(offset[k]) + sum(int(choose[j, i + 1]) for i, j in enumerate(team))
            members[number, :k] = np.array(team)
            at[number] = made + np.searchsorted(a, np.arange(slots + 1))
            teams.append(np.full(len(a), number, dtype=np.int64))
            firsts.append(a.astype(np.int64))
            ends.append(b.astype(np.int64))
            costs.append(best[a, b])
            made += len(a)
    join = np.concatenate
    return Teams(size, choose, offset, at, members, join(teams), join(firsts), join(ends), join(costs))


def _least_costs(p: Place) -> FloatArray:
    """Return (C,) what a job of a class adds at least to the cost of a cell."""
    out = np.full(p.child.shape[1], np.inf)
    for s in range(len(p.child)):
        for c in range(p.child.shape[1]):
            if p.child[s, c] >= 0:
                out[c] = min(out[c], float(p.cell_cost[p.child[s, c]] - p.cell_cost[s]))
    out[np.isinf(out)] = 0.0
    return np.asarray(np.maximum(0.0, out), dtype=np.float64)


def priced(
    teams: Teams, gain: FloatArray, price: FloatArray, cuts: Sequence[tuple[tuple[int, ...], float]]
) -> FloatArray:
    """Return (E,) reduced costs of the busy periods of teams.

    Parameters
    ----------
    teams
        The teams, with costs.
    gain, price, cuts
        As in :class:`solvers.busy_periods.pricing.Prices`.
    """
    pays = -np.where(teams.members >= 0, gain[teams.members], 0.0).sum(axis=1)
    for triple, each in cuts:
        pays += each * (np.isin(teams.members, triple).sum(axis=1) // 2)
    sums = np.concatenate([[0.0], np.cumsum(price)])
    standing: FloatArray = sums[teams.end] - sums[teams.first]
    return np.asarray(teams.value + pays[teams.team] + standing, dtype=np.float64)
