"""Why one job by itself fits nowhere, and facts about sharing that proofs need; exact, no solver.

:class:`SharingFacts` looks at every admissible multiset of job classes (docs/model.md section 1.9):
how fast and how slow a job can be in company, how much work a GPU can do at most, and whether company only
ever slows jobs down, so that leaving a job out harms nobody.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from eaco_opt.arrays import time_tolerance_s
from eaco_opt.sets import LIMIT_TOLERANCE
from formulations.grid import slots_of_run
from formulations.patterns import allowed_types, class_graph, is_admissible

from .explain_words import Cause, Conflict, Scope, Way, hours, number

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from eaco_opt.instance import Instance
    from eaco_opt.sets import SetTable
    from formulations.grid import Grid

MOST_SETS = 50_000
"""Multisets of job classes that are looked at on a node type; with more, nothing is taken for granted."""

_ROUNDING = 1e-12


class SharingFacts:
    """What sharing can do to speeds, over all admissible multisets of the jobs' classes.

    Attributes
    ----------
    complete
        Whether all multisets were looked at.
    harmless
        Whether leaving a job out never slows another one down. Then a plan for some jobs is one for
        fewer, and a conflict of some jobs is one of all.
    rate
        (T,) most work that a GPU can do, in exclusive seconds of its jobs a second.
    """

    def __init__(self, instance: Instance) -> None:
        view = instance.arrays()
        sets = view.sets
        spare = Counter(int(c) for c in view.job_class)
        self.complete = True
        self.harmless = True
        self.rate: list[float] = []
        self._fastest: dict[tuple[int, int], float] = {}
        self._slowest: dict[tuple[int, int], float] = {}
        self._mates: set[tuple[int, int]] = set()
        for k in range(len(instance.cluster.node_types)):
            graph = class_graph(instance, k)
            layer: list[tuple[int, ...]] = [(c,) for c in sorted(graph) if spare[c]]
            seen = 0
            rate = 1.0 if layer else 0.0
            while layer:
                seen += len(layer)
                if seen > MOST_SETS:
                    self.complete = self.harmless = False
                    rate = math.inf
                    break
                larger: list[tuple[int, ...]] = []
                for key in layer:
                    at = sets.intern(key)
                    sigma = sets.sigma[at]
                    rate = max(rate, math.fsum(1.0 / float(sigma[i]) for i in range(len(key))))
                    self._learn(sets, key, at, k)
                    if len(key) == instance.limits.max_share:
                        continue
                    for c in sorted(set.intersection(*(set(graph[x]) for x in key))):
                        grown = (*key, c)
                        if c >= key[-1] and grown.count(c) <= spare[c]:
                            if is_admissible(view, sets.intern(grown), k):
                                larger.append(grown)
                layer = larger
            self.rate.append(rate)

    def _learn(self, table: SetTable, key: tuple[int, ...], at: int, k: int) -> None:
        sigma = table.sigma[at]
        for i, c in enumerate(key):
            factor = float(sigma[i])
            self._fastest[c, k] = min(self._fastest.get((c, k), math.inf), factor)
            self._slowest[c, k] = max(self._slowest.get((c, k), 0.0), factor)
            self._mates.update((c, d) for j, d in enumerate(key) if j != i)
            if len(key) == 1:
                continue
            rest = key[:i] + key[i + 1 :]
            fewer = table.sigma[table.intern(rest)]
            for p, d in enumerate(rest):
                if float(fewer[p]) > float(sigma[key.index(d)]) * (1.0 + _ROUNDING):
                    self.harmless = False

    def fastest(self, job_class: int, node_type: int) -> float:
        """Return the least slowdown of a class on a node type; 0 where it is not known."""
        return self._fastest.get((job_class, node_type), 1.0) if self.complete else 0.0

    def slowest(self, job_class: int, node_type: int) -> float:
        """Return the greatest slowdown of a class on a node type; infinity where it is not known."""
        return self._slowest.get((job_class, node_type), 1.0) if self.complete else math.inf

    def can_meet(self, one: int, other: int) -> bool:
        """Tell whether jobs of two classes may share a GPU of some node type."""
        return (one, other) in self._mates or not self.complete


def alone_reason(instance: Instance, j: int) -> Conflict | None:
    """Return why no node can host the job at all, whatever its deadline; ``None`` if one can."""
    view = instance.arrays()
    job = instance.jobs[j]
    limits = instance.limits
    count = np.bincount(view.node_type, minlength=len(instance.cluster.node_types))
    sets = view.sets
    alone = sets.intern((int(view.job_class[j]),))
    memory_gib = float(sets.memory_need_gib[alone])
    ways: list[tuple[int, Cause, float, Way]] = []
    told: list[str] = []
    for k, node_type in enumerate(instance.cluster.node_types):
        nodes = int(count[k])
        if not nodes:
            continue
        needed = math.ceil(job.gpus / node_type.gpus)
        room_gib = limits.mem_threshold * node_type.gpu_memory_gib
        if math.isinf(view.tau_s[j, k]):
            text = f"no epoch time for {job.gpus} GPU(s) of type {node_type.gpu_type!r}"
            way = Way(
                change="epoch-time", job=job.name, node_type=node_type.name, amount=None, unit="",
                proved=True, text=f"give profile {job.profile!r} an epoch time there",
            )  # fmt: skip
            ways.append((2, Cause.EPOCH_TIME, 0.0, way))
        elif needed > nodes:
            text = f"{job.gpus} GPUs asked for, {nodes * node_type.gpus} there"
            way = Way(
                change="nodes", job=None, node_type=node_type.name, amount=float(needed - nodes),
                unit="nodes", proved=True, text=f"{needed - nodes} more node(s) of type {node_type.name!r}",
            )  # fmt: skip
            ways.append((1, Cause.GPUS, float(job.gpus - nodes * node_type.gpus), way))
        elif memory_gib / node_type.gpu_memory_gib > limits.mem_threshold + LIMIT_TOLERANCE:
            excess = memory_gib - room_gib
            text = (
                f"{number(memory_gib)} GiB needed on each GPU, mem_threshold {limits.mem_threshold:g} leaves "
                f"{number(room_gib)} of {number(node_type.gpu_memory_gib)} GiB: {number(excess)} GiB too much"
            )
            share = memory_gib / node_type.gpu_memory_gib
            if share <= 1.0:
                way = Way(
                    change="mem_threshold", job=None, node_type=node_type.name,
                    amount=share - limits.mem_threshold, unit="fraction", proved=True,
                    text=f"mem_threshold {number(share)} on node type {node_type.name!r}",
                )  # fmt: skip
            else:
                way = Way(
                    change="gpu-memory", job=None, node_type=node_type.name,
                    amount=memory_gib / limits.mem_threshold - node_type.gpu_memory_gib, unit="GiB",
                    proved=True,
                    text=f"GPUs of {number(memory_gib / limits.mem_threshold)} GiB on {node_type.name!r}",
                )  # fmt: skip
            ways.append((0, Cause.MEMORY, excess, way))
        else:
            told = []
            break
        told.append(f"node type {node_type.name!r}: {text}")
    if told:
        _, cause, amount, _ = min(ways, key=lambda w: (w[0], w[2]))
        unit = {Cause.MEMORY: "GiB", Cause.GPUS: "GPUs"}.get(cause, "")
        return Conflict(
            jobs=(job.name,),
            cause=cause,
            amount=amount if unit else None,
            unit=unit,
            text=f"job {job.name!r} fits on no node. " + "; ".join(told),
            scope=Scope.ANY_SLOT,
            minimal=True,
            smallest=True,
            ways=tuple(w[3] for w in sorted(ways, key=lambda w: (w[0], w[2]))),
        )
    if sets.threshold[alone]:
        load = float(sets.u_need[alone])
        excess = load - limits.u_threshold
        return Conflict(
            jobs=(job.name,),
            cause=Cause.UTILISATION,
            amount=excess,
            unit="fraction",
            text=f"job {job.name!r} loads a GPU by itself with {number(load)}, {number(excess)} above "
            f"u_threshold {limits.u_threshold:g}",
            scope=Scope.ANY_SLOT,
            minimal=True,
            smallest=True,
            ways=(
                Way(
                    change="u_threshold", job=None, node_type=None, amount=excess, unit="fraction",
                    proved=True, text=f"u_threshold {number(load)}",
                ),
            ),
        )  # fmt: skip
    return None


def late_reason(instance: Instance, j: int, facts: SharingFacts, grid: Grid | None) -> Conflict | None:
    """Return by how much a job misses its deadline at its best speed from its release on; else ``None``.

    Parameters
    ----------
    instance
        The problem.
    j
        Number of a job that some node can host.
    facts
        Of the instance.
    grid
        Slots that starts and ends lie on, ``None`` for continuous time.
    """
    view = instance.arrays()
    job = instance.jobs[j]
    if math.isinf(job.deadline_s):
        return None
    epoch_s = [
        float(view.tau_s[j, k]) * facts.fastest(int(view.job_class[j]), k) for k in allowed_types(instance, j)
    ]
    best = min(epoch_s)
    end_s = float(view.release_s[j]) + job.epochs * best
    late_s = end_s - float(view.deadline_s[j])
    really = late_s > time_tolerance_s(end_s)
    speed = "alone" if facts.harmless else "in the fastest company there can be"
    text = f"job {job.name!r} needs {hours(job.epochs * best)} {speed}, from its release to its deadline are "
    text += f"{hours(job.deadline_s - job.release_s)}"
    if grid is not None:
        slots = int(grid.release[j]) + slots_of_run(job.epochs, best, grid.slot_s)
        late_on_grid_s = slots * grid.slot_s - float(view.deadline_s[j])
        if late_on_grid_s <= time_tolerance_s(slots * grid.slot_s):
            return None
        text += f": on slots of {hours(grid.slot_s)} it ends {hours(late_on_grid_s)} late"
        if really:
            text += f" (in continuous time {hours(late_s)})"
        else:
            text += "; only by the rounding to slots: a shorter slot would do"
        late_s = late_on_grid_s
    elif really:
        text += f": it ends {hours(late_s)} late"
    else:
        return None
    return Conflict(
        jobs=(job.name,),
        cause=Cause.DEADLINE,
        amount=late_s / 3600.0,
        unit="h",
        text=text,
        scope=Scope.ANY_SLOT if really else Scope.THIS_GRID,
        minimal=True,
        smallest=True,
        ways=(
            Way(
                change="deadline", job=job.name, node_type=None, amount=late_s / 3600.0, unit="h",
                proved=facts.harmless, text=f"job {job.name!r} a deadline {hours(late_s)} later",
            ),
        ),
    )  # fmt: skip


def overload(instance: Instance, facts: SharingFacts) -> tuple[int, ...] | None:
    """Return jobs whose windows hold more work than the cluster can do in that time, or ``None``.

    A job takes g_j GPUs for n_j tau_j exclusive seconds each, and a GPU does no more than ``facts.rate`` of
    such seconds a second, in any schedule of any class. The jobs with the most work are taken, of the
    interval that needs the fewest.
    """
    view = instance.arrays()
    gpus = np.bincount(view.node_type, minlength=len(instance.cluster.node_types)) * view.type_values[:, 0]
    supply = float(sum(g * r for g, r in zip(gpus, facts.rate, strict=True) if g))
    if not math.isfinite(supply):
        return None
    work = _work(instance)
    best: tuple[int, ...] | None = None
    for start_s, inside in _intervals(instance):
        most = supply * ((view.deadline_s[inside] - start_s) * (1.0 + 1e-9) + 2e-6)
        for at in np.flatnonzero(np.cumsum(work[inside]) > most)[:1]:
            large = sorted(inside[: at + 1].tolist(), key=lambda j: (-work[j], j))
            needed = int(np.flatnonzero(np.cumsum(work[large]) > most[at])[0])
            some = tuple(sorted(large[: needed + 1]))
            if best is None or len(some) < len(best):
                best = some
    return best


def pressure(instance: Instance, most: int) -> list[tuple[int, ...]]:
    """Return the jobs of crowded intervals, the most crowded first, 2 to ``most`` of each."""
    view = instance.arrays()
    work = _work(instance)
    found: dict[tuple[int, ...], float] = {}
    for start_s, within in _intervals(instance):
        inside = within[:most]
        total = np.cumsum(work[inside])
        for at in range(1, len(inside)):
            length_s = float(view.deadline_s[inside[at]] - start_s)
            if length_s > 0.0:
                found[tuple(sorted(inside[: at + 1].tolist()))] = float(total[at]) / length_s
    return sorted(found, key=lambda jobs: (-found[jobs], jobs))


def _work(instance: Instance) -> NDArray[np.float64]:
    """Return the least exclusive GPU-seconds of each job."""
    view = instance.arrays()
    least = [
        min(float(view.tau_s[j, k]) for k in allowed_types(instance, j)) for j in range(len(instance.jobs))
    ]
    out: NDArray[np.float64] = view.gpus * view.epochs * np.array(least)
    return out


def _intervals(instance: Instance) -> Iterator[tuple[float, NDArray[np.int64]]]:
    """Yield (release, jobs that are released no sooner and have a deadline, the earliest deadline first)."""
    view = instance.arrays()
    order = np.argsort(view.deadline_s, kind="stable")
    for start_s in np.unique(view.release_s):
        yield float(start_s), order[(view.release_s[order] >= start_s) & np.isfinite(view.deadline_s[order])]
