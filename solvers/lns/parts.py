"""Small parts of a plan handed to an exact method: some nodes with all their jobs, optimal by themselves.

On a grid the nodes of a static schedule do not know of each other: as long as no node draws power asleep, the
cost of a plan is a sum over nodes. So the jobs of a few nodes may be planned anew on those nodes, by a method
that proves its plan, and what it saves there it saves in all.
"""

from __future__ import annotations

import dataclasses
import logging
import math
from collections.abc import Callable, Sequence

import numpy as np

from eaco_opt.cluster import Cluster
from eaco_opt.errors import EacoError
from eaco_opt.instance import Instance
from eaco_opt.limits import Objective, ObjectiveForm
from eaco_opt.physics import evaluate, plan_schedule
from eaco_opt.result import Status
from eaco_opt.schedule import Placement, Plan
from formulations.costs import rates_of

from ..base import METHODS, Request

_LOG = logging.getLogger(__name__)

METHOD = "branch-and-price"
MOST_JOBS, MOST_NODES = 10, 4
"""Largest part that is handed over."""

PART_S = 5.0
"""Longest time for a part [s]."""

Placements = dict[str, Placement]


def may_be_cut(instance: Instance) -> bool:
    """Tell whether nodes are independent: none draws power asleep or takes time to wake up."""
    used = {node.node_type for node in instance.cluster.nodes}
    types = [t for t in instance.cluster.node_types if t.name in used]
    return all(t.sleep_w == 0.0 and t.wake_s == 0.0 and t.wake_energy_j == 0.0 for t in types)


def part_of(instance: Instance, jobs: Sequence[int], nodes: Sequence[int], grid_s: float) -> Instance:
    """Return some jobs on some nodes, weighed against each other as in the whole instance.

    Releases are moved to the slot in which the job can start, so that the part has the slots of the whole.

    Parameters
    ----------
    instance
        The whole.
    jobs, nodes
        Indices, ascending.
    grid_s
        Slot length [s].
    """
    origin_s = instance.arrays().origin_s
    rates = rates_of(instance)
    first = jobs[0]
    per_tpe = float(rates.running[first]) * instance.jobs[first].epochs * len(jobs)
    energy = rates.energy / instance.cluster.pue * 3.6e6
    time, total = per_tpe * 3600.0, rates.total * len(jobs) * 3600.0
    both = energy + time
    alpha = energy / both if both > 0.0 else 1.0
    weight = total / both if both > 0.0 else 0.0
    return dataclasses.replace(
        instance,
        name=f"{instance.name} (part)",
        jobs=tuple(
            dataclasses.replace(
                job, release_s=origin_s + grid_s * math.ceil((job.release_s - origin_s) / grid_s - 1e-9)
            )
            for job in (instance.jobs[j] for j in jobs)
        ),
        cluster=Cluster(
            node_types=instance.cluster.node_types,
            nodes=tuple(instance.cluster.nodes[n] for n in nodes),
            pue=instance.cluster.pue,
        ),
        objective=Objective(alpha=alpha, form=ObjectiveForm.RAW, jtt_weight=weight),
    )


def placements_of(instance: Instance, plan: Plan, grid_s: float) -> Placements:
    """Return where and when each job starts, by name."""
    schedule = plan_schedule(instance, plan, grid_s=grid_s)
    return {s.job: Placement(start_s=s.start_s, gpus=s.gpus) for s in schedule.segments}


def improved(
    instance: Instance,
    plan: Plan,
    grid_s: float,
    *,
    left_s: Callable[[], float],
    seed: int,
    threads: int,
    tell: Callable[[float], None],
) -> tuple[Plan, int, int]:
    """Hand parts of a plan to the exact method until the time is up or no part is left untried.

    Parameters
    ----------
    instance, plan
        The problem and a plan that keeps its rules.
    grid_s
        Slot length [s].
    left_s
        Tells the time left [s].
    seed, threads
        Of the choice of parts, and for the method.
    tell
        Called with each better objective.

    Returns
    -------
    tuple
        The best plan, parts that were tried, and how many of them made it better.
    """
    if not may_be_cut(instance):
        return plan, 0, 0
    rng = np.random.default_rng(np.random.SeedSequence([seed, 0x9A27]))
    best = evaluate(instance, plan, grid_s=grid_s).objective
    number = {job.name: j for j, job in enumerate(instance.jobs)}
    tried: set[tuple[int, ...]] = set()
    calls = better = 0
    misses = 0
    while left_s() > 0.2 and misses < 50:
        placed = placements_of(instance, plan, grid_s)
        nodes = _choose(instance, placed, rng)
        if nodes is None or nodes in tried:
            misses += 1
            continue
        misses = 0
        tried.add(nodes)
        jobs = sorted(number[name] for name, p in placed.items() if p.gpus[0][0] in nodes)
        found = _solved(
            part_of(instance, jobs, nodes, grid_s), placed, nodes, grid_s, min(PART_S, left_s()), threads
        )
        calls += 1
        if found is None:
            break
        plan_now = Plan.of(instance, {**placed, **found})
        outcome = evaluate(instance, plan_now, grid_s=grid_s)
        if outcome.feasible and outcome.objective < best - 1e-12 * abs(best):
            plan, best = plan_now, outcome.objective
            better += 1
            tell(best)
            tried = {other for other in tried if not set(other) & set(nodes)}
    return plan, calls, better


def _choose(instance: Instance, placed: Placements, rng: np.random.Generator) -> tuple[int, ...] | None:
    """Draw some nodes whose jobs are few enough, idle ones among them; ``None`` if the draw was no good."""
    count = len(instance.cluster.nodes)
    held = [0] * count
    shut: set[int] = set()
    for p in placed.values():
        on = {node for node, _ in p.gpus}
        if len(on) > 1:
            shut |= on
        for node in on:
            held[node] += 1
    chosen: list[int] = []
    jobs = 0
    for node in rng.permutation(count).tolist():
        if node not in shut and jobs + held[node] <= MOST_JOBS and len(chosen) < MOST_NODES:
            chosen.append(node)
            jobs += held[node]
    return tuple(sorted(chosen)) if jobs else None


def _solved(
    part: Instance, placed: Placements, nodes: tuple[int, ...], grid_s: float, limit_s: float, threads: int
) -> Placements | None:
    """Return a plan of a part by the exact method, in the whole's nodes; ``None`` where it gives up."""
    place = {node: k for k, node in enumerate(nodes)}
    start = plan_schedule(
        part,
        Plan.of(
            part,
            {
                job.name: Placement(
                    start_s=placed[job.name].start_s,
                    gpus=tuple((place[n], g) for n, g in placed[job.name].gpus),
                )
                for job in part.jobs
            },
        ),
        grid_s=grid_s,
    )
    request = Request(
        time_limit_s=limit_s,
        grid_s=grid_s,
        threads=threads,
        start=start,
        options={"policies": False},
    )
    try:
        found = METHODS.get(METHOD)().solve(part, request)
    except EacoError as error:
        _LOG.info("lns: %s does not take a part: %s", METHOD, error)
        return None
    if found.schedule is None or found.status not in (Status.OPTIMAL, Status.FEASIBLE):
        return {}
    return {
        s.job: Placement(start_s=s.start_s, gpus=tuple((nodes[n], g) for n, g in s.gpus))
        for s in found.schedule.segments
    }
