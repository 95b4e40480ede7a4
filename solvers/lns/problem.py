"""What the search works on: arrays of jobs, sets and nodes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from eaco_opt.instance import Instance
from eaco_opt.schedule import Plan
from formulations.base import UncoveredFeatureError
from formulations.configurations import admissible_multisets
from formulations.costs import NodePower, Rates, rates_of
from formulations.patterns import allowed_types

from . import kernel

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

MOST_CELLS = 62
"""Most GPUs of a node that jobs may share by parts: sets of GPUs are bit masks."""

BANK = 30.0
"""A job without a place costs this many times what it costs alone."""


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """Where each job runs and when: the search's own form of a plan.

    Attributes
    ----------
    start
        (J,) seconds since the origin.
    mask
        (J,) bit mask of cells of the node.
    node
        (J,) node, -1 for jobs without a place.
    """

    start: FloatArray
    mask: IntArray
    node: IntArray

    def copy(self) -> Layout:
        """Return a copy."""
        return Layout(self.start.copy(), self.mask.copy(), self.node.copy())


@dataclass(frozen=True, slots=True, eq=False)
class SearchProblem:
    """Everything that does not change while the search runs.

    Attributes
    ----------
    arrays
        For compiled code; node and job numbers are those of the instance.
    nodes
        Nodes whose plans may change.
    jobs
        Jobs that may be moved.
    ideal
        (J,) objective of each job in the best company there is.
    asleep
        Objective of one second in which all nodes sleep.
    constant
        What the releases take off the objective (weight of JTT).
    """

    arrays: kernel.Problem
    nodes: IntArray
    jobs: IntArray
    ideal: FloatArray
    asleep: float
    constant: float


def covers(instance: Instance) -> tuple[str, ...]:
    """Return the features of an instance that the search does not cover, in words."""
    out = []
    for t in instance.cluster.node_types:
        if t.gpus > MOST_CELLS and any(job.gpus % t.gpus for job in instance.jobs):
            out.append(f"jobs on parts of nodes of more than {MOST_CELLS} GPUs (node type {t.name!r})")
    return tuple(out)


def search_problem(
    instance: Instance,
    *,
    grid_s: float | None = None,
    rates: Rates | None = None,
    epochs: FloatArray | None = None,
    release_s: FloatArray | None = None,
    fixed: Sequence[int] = (),
) -> SearchProblem:
    """Return the search's view of an instance.

    Parameters
    ----------
    instance
        The problem.
    grid_s
        Slot length [s] of grid physics; continuous time without it.
    rates
        What energy and time cost; those of the instance's objective without it.
    epochs, release_s
        (J,) epochs left and earliest starts [s since the origin], where they differ from the instance's.
    fixed
        Jobs that stay where and when they are.

    Raises
    ------
    UncoveredFeatureError
        Nodes have too many GPUs for bit masks.
    TooManyPatternsError
        There are too many kinds of company.
    """
    missing = covers(instance)
    if missing:
        raise UncoveredFeatureError("lns", missing)
    view = instance.arrays()
    rates = rates or rates_of(instance)
    power = NodePower(instance)
    types = instance.cluster.node_types
    jobs = len(instance.jobs)
    classes = max(1, len(view.sets.classes))
    allowed = [allowed_types(instance, j) for j in range(jobs)]
    size = np.zeros((jobs, len(types)), dtype=np.int64)
    cells = np.ones(len(types), dtype=np.int64)
    single = np.ones(jobs, dtype=np.bool_)
    for t, node_type in enumerate(types):
        users = [j for j in range(jobs) if t in allowed[j]]
        whole = all(int(view.gpus[j]) % node_type.gpus == 0 for j in users)
        cells[t] = 1 if whole else node_type.gpus
        for j in users:
            if view.gpus[j] <= node_type.gpus:
                size[j, t] = 1 if whole else int(view.gpus[j])
    single = size.max(axis=1, initial=0) > 0
    sets: dict[tuple[int, ...], int] = {(): 0}
    admitted: list[set[tuple[int, ...]]] = []
    for t in range(len(types)):
        able = np.flatnonzero(size[:, t])
        counts = np.bincount(view.job_class[able], minlength=classes)
        keys = admissible_multisets(instance, t, counts) if len(able) else []
        admitted.append(set(keys))
        for key in keys:
            sets.setdefault(key, len(sets))
    child = np.full((len(types), len(sets), classes), -1, dtype=np.int64)
    without = np.full((len(sets), classes), -1, dtype=np.int64)
    sigma = np.ones((len(sets), classes))
    unit = np.zeros((len(types), len(sets)))
    dynamic = np.zeros((len(types), len(sets)))
    measured = np.zeros((len(types), len(sets)), dtype=np.int64)
    kinds = np.zeros(len(sets), dtype=np.int64)
    count = np.zeros(len(sets), dtype=np.int64)
    for key, number in sets.items():
        if not key:
            continue
        s = view.sets.intern(key)
        count[number] = len(key)
        kinds[number] = 1 + int(view.sets.kind_set[s])
        for i, c in enumerate(key):
            rest = key[:i] + key[i + 1 :]
            without[number, c] = sets[rest]
            sigma[number, c] = view.sets.sigma[s, i]
            for t in range(len(types)):
                if key in admitted[t]:
                    child[t, sets[rest], c] = number
        for t in range(len(types)):
            unit[t, number] = power.full_node_w(s, t)
            dynamic[t, number] = power.dynamic_w(s, t)
            measured[t, number] = power.residual_w(s, t) is not None
    table = np.array(
        [
            [
                t.power.server.idle_w,
                t.power.server.busy_w - t.power.server.idle_w,
                t.power.server.exponent,
                t.gpus * t.power.gpu.standing_w,
                cells[k],
                t.sleep_w,
                t.wake_s,
                t.wake_energy_j,
            ]
            for k, t in enumerate(types)
        ],
        dtype=np.float64,
    )
    left = view.epochs if epochs is None else epochs
    held = set(fixed) | set(np.flatnonzero(~single).tolist())
    alone = np.zeros(jobs)
    for j in range(jobs):
        runs = [
            float(left[j] * view.tau_s[j, t])
            * (
                rates.energy * power.full_node_w(view.sets.intern((int(view.job_class[j]),)), t)
                + rates.running[j]
            )
            for t in allowed[j]
        ]
        alone[j] = min(runs, default=0.0)
    horizon = float(
        np.max(np.where(np.isfinite(view.deadline_s), view.deadline_s, view.release_s), initial=0.0)
    )
    bank = BANK * alone + rates.total * 2.0 * horizon + 1e-9
    arrays = kernel.Problem(
        release=view.release_s if release_s is None else release_s,
        due=view.deadline_s,
        epochs=left,
        running=rates.running,
        bank=bank,
        cpu=view.cpu,
        job_class=view.job_class,
        size=size,
        tau=view.tau_s,
        child=child,
        without=without,
        sigma=sigma,
        unit_w=unit,
        dynamic=dynamic,
        kinds=kinds,
        measured=measured,
        members=count,
        types=table,
        node_type=view.node_type,
        energy=rates.energy,
        total=rates.total,
        slot=0.0 if grid_s is None else grid_s,
        broken=10.0 * float(bank.sum()) + 1.0,
    )
    sleeping = float(table[view.node_type, 5].sum())
    return SearchProblem(
        arrays=arrays,
        nodes=np.arange(len(view.node_type)),
        jobs=np.array([j for j in range(jobs) if j not in held], dtype=np.int64),
        ideal=0.5 * alone,
        asleep=rates.energy * sleeping,
        constant=-rates.total * float(view.release_s.sum()),
    )


def layout_of(instance: Instance, problem: SearchProblem, plan: Plan) -> Layout:
    """Return a plan in the search's own form; jobs on several nodes have no place in it."""
    view = instance.arrays()
    jobs = len(instance.jobs)
    node = np.full(jobs, -1, dtype=np.int64)
    mask = np.zeros(jobs, dtype=np.int64)
    for j in range(jobs):
        gpus = plan.gpus[view.gpu_offset[j] : view.gpu_offset[j + 1]]
        on = {int(view.gpu_node[g]) for g in gpus}
        if len(on) > 1:
            continue
        node[j] = on.pop()
        if problem.arrays.types[view.node_type[node[j]], 4] == 1.0:
            mask[j] = 1
        else:
            mask[j] = sum(1 << int(g - view.first_gpu[node[j]]) for g in gpus)
    return Layout(plan.start_s - view.origin_s, mask, node)


def plan_of(instance: Instance, problem: SearchProblem, layout: Layout, others: Plan | None = None) -> Plan:
    """Return a layout as a plan; jobs that it does not hold keep the place they have in ``others``."""
    view = instance.arrays()
    start = layout.start + view.origin_s
    gpus: list[int] = []
    for j in range(len(instance.jobs)):
        n = int(layout.node[j])
        if n < 0:
            if others is None:
                raise ValueError(f"job {instance.jobs[j].name!r} has no place")
            start[j] = others.start_s[j]
            gpus += others.gpus[view.gpu_offset[j] : view.gpu_offset[j + 1]].tolist()
            continue
        first = int(view.first_gpu[n])
        if problem.arrays.types[view.node_type[n], 4] == 1.0:
            gpus += range(first, int(view.first_gpu[n + 1]))
        else:
            m = int(layout.mask[j])
            gpus += [first + c for c in range(MOST_CELLS) if (m >> c) & 1]
    return Plan(start, np.array(gpus, dtype=np.int64))


def make_plans(problem: SearchProblem) -> kernel.Plans:
    """Return empty plans of all nodes."""
    jobs, nodes = len(problem.arrays.epochs), len(problem.arrays.node_type)
    room = min(jobs, 4 * math.ceil(jobs / max(1, nodes)) + 64) + 1
    return kernel.Plans(
        start=np.zeros(jobs),
        end=np.zeros(jobs),
        mask=np.zeros(jobs, dtype=np.int64),
        node=np.full(jobs, -1, dtype=np.int64),
        jobs=np.zeros((nodes, room), dtype=np.int64),
        held=np.zeros(nodes, dtype=np.int64),
        cost=np.zeros(nodes),
        before=np.full((nodes, room), np.nan),
        last=np.zeros(nodes),
    )


def make_scratch(problem: SearchProblem) -> kernel.Scratch:
    """Return room for one thread."""
    cells = int(problem.arrays.types[:, 4].max())
    running = 8 * cells + 2
    return kernel.Scratch(
        act=np.zeros((running, 2), dtype=np.int64),
        num=np.zeros((running, 4)),
        cell=np.zeros(cells, dtype=np.int64),
        starts=np.zeros(400),
        masks=np.zeros(64, dtype=np.int64),
    )
