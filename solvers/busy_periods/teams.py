"""Busy periods of few jobs, all of them: what the pricing compares late joiners with.

A *team* is a set of at most three jobs. Whatever else runs on a node, a team that starts there costs at least
what it costs by itself, less what the node's standing power and the concave curve save in company; so the
cheapest busy period of each team, by first slot and end, is worked out once for an instance. Duals depend on
nothing else, so a round of pricing only adds them.

Only for nodes of one cell: on several cells placements multiply the work.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from eaco_opt.kernels._jit import jit

if TYPE_CHECKING:
    from .tables import Place

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

MOST = 3
"""Most jobs of a team."""

MOST_JOBS = 60
"""Jobs beyond which there are no teams: they grow with the third power."""


class Teams(NamedTuple):
    """All busy periods of teams that may be cheapest: M teams, E busy periods, J jobs, T slots.

    Attributes
    ----------
    number
        (J, J, J) number of the team of three jobs in ascending order, or of fewer where a job is given
        repeatedly; -1 where it has no busy period.
    at
        (M, T + 1) first busy period of a team that begins in a slot or after it.
    members
        (M, 3) its jobs in ascending order, then -1.
    team, first, end
        (E,) team, first slot and end.
    value
        (E,) its reduced cost (of tables without duals: its cost).
    """

    number: IntArray
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
    child: IntArray,
    level: IntArray,
    full_cost: FloatArray,
    job_class: IntArray,
    up: IntArray,
    need: IntArray,
    run_cost: FloatArray,
    start_cost: FloatArray,
    can_start: BoolArray,
    last_end: IntArray,
    first_start: IntArray,
    last_start: IntArray,
) -> None:
    """Write the least cost of busy periods of up to three jobs by first slot and end: ``best`` (T, T + 1).

    ``start`` and ``left`` are working memory.
    """
    n = team.shape[0]
    slots = can_start.shape[1]
    for a in range(slots):
        for b in range(slots + 1):
            best[a, b] = np.inf
    i, j, k = team[0], team[min(1, n - 1)], team[n - 1]
    for a in range(first_start[i], last_start[i] + 1):
        if not can_start[i, a]:
            continue
        start[0] = a
        low_b = first_start[j] if n > 1 else 0
        high_b = last_start[j] if n > 1 else 0
        for b in range(low_b, high_b + 1):
            if n > 1 and not can_start[j, b]:
                continue
            start[1] = b
            low_c = first_start[k] if n > 2 else 0
            high_c = last_start[k] if n > 2 else 0
            for c in range(low_c, high_c + 1):
                if n > 2 and not can_start[k, c]:
                    continue
                start[2] = c
                begin = slots
                cost = 0.0
                for m in range(n):
                    begin = min(begin, start[m])
                    left[m] = need[team[m]]
                    cost += start_cost[team[m]] * start[m]
                running = n
                t = begin
                possible = True
                while running > 0:
                    s = 0
                    for m in range(n):
                        if left[m] > 0 and start[m] <= t:
                            s = child[s, job_class[team[m]]]
                            if s < 0:
                                break
                            cost += run_cost[team[m]]
                    if s <= 0:
                        # Not admissible, or the node falls idle before all have started.
                        possible = False
                        break
                    cost += full_cost[s]
                    for m in range(n):
                        if left[m] > 0 and start[m] <= t:
                            left[m] -= up[team[m], level[s, job_class[team[m]]]]
                            if left[m] <= 0:
                                running -= 1
                            elif t + 1 >= last_end[team[m]]:
                                possible = False
                    if not possible:
                        break
                    t += 1
                if possible:
                    best[begin, t] = min(best[begin, t], cost)


def make_teams(place: Place) -> Teams | None:
    """Return the teams of a place without duals; ``None`` where there are none."""
    p = place
    can_start = p.can_start
    jobs, slots = can_start.shape
    able = [j for j in range(jobs) if p.hold[j] > 0 and can_start[j].any()]
    if p.cells > 1 or len(able) > MOST_JOBS:
        return None
    first = np.array([int(np.argmax(row)) for row in can_start], dtype=np.int64)
    last = np.array([slots - 1 - int(np.argmax(row[::-1])) for row in can_start], dtype=np.int64)
    number = np.full((jobs, jobs, jobs), -1, dtype=np.int64)
    best = np.empty((slots, slots + 1))
    work = np.empty(MOST, dtype=np.int64), np.empty(MOST, dtype=np.int64)
    at: list[IntArray] = []
    members: list[list[int]] = []
    teams: list[IntArray] = []
    firsts: list[IntArray] = []
    ends: list[IntArray] = []
    costs: list[FloatArray] = []
    made = 0
    for size in range(1, MOST + 1):
        for team in combinations(able, size):
            cheapest(
                np.array(team, dtype=np.int64),
                best,
                *work,
                p.child,
                p.level,
                p.full_cost,
                p.job_class,
                p.up,
                p.need,
                p.run_cost,
                p.start_cost,
                can_start,
                p.last_end,
                first,
                last,
            )
            a, b = np.nonzero(np.isfinite(best))
            if not len(a):
                continue
            number[(*team, *(team[-1],) * (MOST - size))] = len(at)
            teams.append(np.full(len(a), len(at), dtype=np.int64))
            members.append([*team, *(-1,) * (MOST - size)])
            firsts.append(a.astype(np.int64))
            at.append(made + np.searchsorted(a, np.arange(slots + 1)))
            ends.append(b.astype(np.int64))
            costs.append(best[a, b])
            made += len(a)
    if not at:
        return None
    join = np.concatenate
    return Teams(number, np.array(at), np.array(members), join(teams), join(firsts), join(ends), join(costs))


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
    pays = -gain[teams.members].sum(axis=1, where=teams.members >= 0)
    for triple, each in cuts:
        pays += each * (np.isin(teams.members, triple).sum(axis=1) // 2)
    sums = np.concatenate([[0.0], np.cumsum(price)])
    return np.asarray(teams.value + pays[teams.team] + sums[teams.end] - sums[teams.first])
