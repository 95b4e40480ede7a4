"""All busy periods of one node, found by plain enumeration and priced by `evaluate`.

It knows nothing of the tables and labels of branch-and-price: for every set of jobs, every start and every
placement that is no renaming of GPUs, the plan on a node of its own is evaluated. What is dear is done once
an instance; reduced costs for any duals then take no more than a sum.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from eaco_opt.cluster import Cluster, Node
from eaco_opt.instance import Instance
from eaco_opt.limits import ObjectiveForm
from eaco_opt.physics import evaluate
from eaco_opt.schedule import Plan
from solvers.busy_periods.pricing import Prices
from solvers.busy_periods.tables import Place
from tests.solvers.random_instances import SLOT_S


@dataclass(frozen=True, slots=True)
class Period:
    """A busy period: jobs in ascending order, their slots [start, end), and what it costs."""

    jobs: tuple[int, ...]
    starts: tuple[int, ...]
    ends: tuple[int, ...]
    cost: float

    @property
    def first(self) -> int:
        """First active slot."""
        return min(self.starts)

    @property
    def end(self) -> int:
        """Slot after the last active one."""
        return max(self.ends)


def on_the_grid(problem: Instance) -> Instance:
    """Return the instance with releases at slot boundaries, so that any job's release can begin a grid."""
    jobs = []
    for job in problem.jobs:
        late = math.ceil(job.release_s / SLOT_S) * SLOT_S - job.release_s
        jobs.append(
            dataclasses.replace(job, release_s=job.release_s + late, deadline_s=job.deadline_s + late)
        )
    return dataclasses.replace(problem, jobs=tuple(jobs))


def _placements(gpus: int, holds: Sequence[int]) -> Iterator[tuple[tuple[int, ...], ...]]:
    seen = set()
    for held in itertools.product(*(itertools.combinations(range(gpus), h) for h in holds)):
        key = tuple(sorted(tuple(g in own for own in held) for g in range(gpus)))
        if key not in seen:
            seen.add(key)
            yield held


def periods(problem: Instance, number: int, most: int = 20_000) -> list[Period] | None:
    """Return all busy periods on a node of a type; `None` if more than `most` plans would be tried."""
    node_type = problem.cluster.node_types[number]
    view = problem.arrays()
    origin = min(job.release_s for job in problem.jobs)
    o, count = problem.objective, len(problem.jobs)
    if o.form is ObjectiveForm.RAW:
        joule, tpe_s, jtt_s = o.alpha / 3.6e6, (1.0 - o.alpha) / 3600.0, o.jtt_weight / 3600.0
    else:
        e0, t0, j0 = view.reference()
        joule, tpe_s, jtt_s = (
            x / y if y else 0.0 for x, y in ((o.alpha, e0), (1.0 - o.alpha, t0), (o.jtt_weight, j0))
        )
    pue = problem.cluster.pue
    node = Cluster(
        node_types=(dataclasses.replace(node_type, sleep_w=0.0),),
        nodes=(Node(name="n", node_type=node_type.name),),
        pue=pue,
    )
    fits = [
        j
        for j, job in enumerate(problem.jobs)
        if job.gpus <= node_type.gpus and math.isfinite(view.tau_s[j, number])
    ]

    def slots(j: int) -> range:
        job = problem.jobs[j]
        return range(
            math.ceil((job.release_s - origin) / SLOT_S), math.ceil((job.deadline_s - origin) / SLOT_S)
        )

    chosen = [c for size in range(1, len(fits) + 1) for c in itertools.combinations(fits, size)]
    layouts = {c: list(_placements(node_type.gpus, [problem.jobs[j].gpus for j in c])) for c in chosen}
    if sum(len(layouts[c]) * math.prod(len(slots(j)) for j in c) for c in chosen) > most:
        return None
    found: dict[tuple[tuple[int, ...], ...], dict[float, Period]] = {}
    for members in chosen:
        small = dataclasses.replace(problem, jobs=tuple(problem.jobs[j] for j in members), cluster=node)
        for held, at in itertools.product(layouts[members], itertools.product(*(slots(j) for j in members))):
            start_s = [origin + a * SLOT_S for a in at]
            plan = Plan(np.array(start_s), np.array([g for own in held for g in own], dtype=np.int64))
            outcome = evaluate(small, plan, grid_s=SLOT_S)
            if not outcome.feasible:
                continue
            ends = tuple(round((float(e) - origin) / SLOT_S) for e in outcome.jobs.end_s)
            # A job that starts as the node falls empty begins a busy period of its own.
            reach = min(at) + 1
            for begin, end in sorted(zip(at, ends, strict=True)):
                if begin >= reach:
                    break
                reach = max(reach, end)
            else:
                active_s = (max(ends) - min(at)) * SLOT_S
                cost = joule * (outcome.energy_j - node_type.sleep_w * pue * active_s)
                for j, begin, end in zip(members, at, ends, strict=True):
                    cost += tpe_s * (end - begin) * SLOT_S / problem.jobs[j].epochs / count
                    cost += jtt_s * end * SLOT_S / count
                same = found.setdefault((members, at, ends), {})
                same.setdefault(round(cost, 12), Period(members, at, ends, cost))
    return [p for same in found.values() for p in same.values()]


def reduced(period: Period, prices: Prices) -> float:
    """Return the reduced cost of a busy period."""
    out = period.cost - sum(float(prices.gain[j]) for j in period.jobs)
    out += float(prices.price[period.first : period.end].sum())
    return out + sum(p * (sum(j in period.jobs for j in cut) // 2) for cut, p in prices.cuts)


def allowed(period: Period, prices: Prices, place: Place) -> bool:
    """Tell whether a busy period obeys pairs apart and together, and the windows of a place."""
    here = set(period.jobs)
    if any(a in here and b in here for a, b in prices.apart):
        return False
    if any((a in here) != (b in here) for a, b in prices.together):
        return False
    return period.end <= place.can_start.shape[1] and all(
        place.can_start[j, s] and place.first_end[j] <= e <= place.last_end[j]
        for j, s, e in zip(period.jobs, period.starts, period.ends, strict=True)
    )
