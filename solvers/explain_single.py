"""Why one job by itself fits nowhere, and facts about sharing that proofs need; exact, no solver.

:class:`SharingFacts` looks at every admissible multiset of job classes (docs/model.md section 1.9):
how fast and how slow a job can be in company, how much work a GPU can do at most, and whether company only
ever slows jobs down, so that leaving a job out harms nobody.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from eaco_opt.arrays import time_tolerance_s
from eaco_opt.sets import LIMIT_TOLERANCE
from formulations.grid import release_slot, slots_of_run
from formulations.patterns import allowed_types, class_graph, is_admissible

from .explain_words import Cause, Conflict, Scope, Way, hours, number

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from eaco_opt.instance import Instance
    from eaco_opt.sets import SetTable

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


@dataclass(frozen=True, slots=True)
class _Obstacle:
    """What keeps a job off a node type, and the change that takes it away."""

    cause: Cause
    amount: float | None
    unit: str
    text: str
    way: Way


def alone_reason(instance: Instance, j: int) -> Conflict | None:
    """Return why no node can host the job at all, whatever its deadline; ``None`` if one can.

    Changes are named as ways out only where nothing else keeps the job from ending in time on that type.
    """
    view = instance.arrays()
    job = instance.jobs[j]
    count = np.bincount(view.node_type, minlength=len(instance.cluster.node_types))
    by_type = {k: _obstacles(instance, j, k, int(n)) for k, n in enumerate(count.tolist()) if n}
    if not all(by_type.values()):
        return None
    order = list(Cause)
    # The type that is nearest to hosting it: fewest obstacles, then the kind that is easiest to move.
    nearest = min(by_type.values(), key=lambda o: (len(o), -order.index(o[0].cause), o[0].amount or 0.0))[0]
    ways: list[Way] = []
    for k, found in by_type.items():
        end_s = float(view.release_s[j]) + job.epochs * float(view.tau_s[j, k])
        in_time = end_s <= float(view.deadline_s[j]) + time_tolerance_s(end_s)
        if len(found) == 1 and (in_time or found[0].cause is Cause.EPOCH_TIME) and found[0].way not in ways:
            ways.append(found[0].way)
    told: dict[str, list[str]] = {}
    for k, found in by_type.items():
        text = " and ".join(o.text for o in found)
        told.setdefault(text, []).append(instance.cluster.node_types[k].name)
    reasons = "; ".join(f"on {', '.join(map(repr, names))}: {text}" for text, names in told.items())
    return Conflict(
        jobs=(job.name,),
        cause=nearest.cause,
        amount=nearest.amount,
        unit=nearest.unit,
        text=f"job {job.name!r} fits on no node: {reasons}",
        scope=Scope.ANY_SLOT,
        minimal=True,
        smallest=True,
        ways=tuple(ways),
    )


def _obstacles(instance: Instance, j: int, k: int, nodes: int) -> list[_Obstacle]:
    """Return all that keeps a job off a node type, of which there are some nodes."""
    view = instance.arrays()
    job = instance.jobs[j]
    node_type = instance.cluster.node_types[k]
    limits = instance.limits
    sets = view.sets
    alone = sets.intern((int(view.job_class[j]),))

    def way(change: str, amount: float | None, unit: str, text: str, *, of_type: bool = True) -> Way:
        return Way(
            change=change,
            job=job.name if change == "epoch-time" else None,
            node_type=node_type.name if of_type else None,
            amount=amount,
            unit=unit,
            proved=amount is not None,
            text=text,
        )

    out: list[_Obstacle] = []
    if math.isinf(view.tau_s[j, k]):
        text = f"its profile {job.profile!r} has no epoch time for {job.gpus} GPU(s) of type "
        text += repr(node_type.gpu_type)
        out.append(
            _Obstacle(Cause.EPOCH_TIME, None, "", text, way("epoch-time", None, "", "an epoch time there"))
        )
    missing = math.ceil(job.gpus / node_type.gpus) - nodes
    if missing > 0:
        text = f"it asks for {job.gpus} GPUs, {nodes * node_type.gpus} are there"
        step = way("nodes", float(missing), "nodes", f"{missing} more node(s) of type {node_type.name!r}")
        out.append(_Obstacle(Cause.GPUS, float(job.gpus - nodes * node_type.gpus), "GPUs", text, step))
    need_gib = float(sets.memory_need_gib[alone])
    share = need_gib / node_type.gpu_memory_gib
    if share > limits.mem_threshold + LIMIT_TOLERANCE:
        room_gib = limits.mem_threshold * node_type.gpu_memory_gib
        text = (
            f"it needs {number(need_gib)} GiB on each GPU, {number(need_gib - room_gib)} GiB more than the "
        )
        text += f"{number(room_gib)} of {number(node_type.gpu_memory_gib)} GiB that mem_threshold leaves"
        if share <= 1.0:
            rise = round(share - limits.mem_threshold, 12)
            step = way(
                "mem_threshold", rise, "fraction",
                f"mem_threshold {number(share)} instead of {number(limits.mem_threshold)}", of_type=False,
            )  # fmt: skip
        else:
            large_gib = need_gib / limits.mem_threshold
            more_gib = large_gib - node_type.gpu_memory_gib
            step = way(
                "gpu-memory", more_gib, "GiB", f"GPUs of {number(large_gib)} GiB on {node_type.name!r}"
            )
        out.append(_Obstacle(Cause.MEMORY, round(need_gib - room_gib, 12), "GiB", text, step))
    if sets.threshold[alone]:
        load = float(sets.u_need[alone])
        excess = round(load - limits.u_threshold, 12)
        text = f"it loads a GPU by itself with {number(load)}, {number(excess)} above u_threshold "
        text += number(limits.u_threshold)
        step = way(
            "u_threshold", excess, "fraction",
            f"u_threshold {number(load)} instead of {number(limits.u_threshold)}", of_type=False,
        )  # fmt: skip
        out.append(_Obstacle(Cause.UTILISATION, excess, "fraction", text, step))
    return out


def late_reason(
    instance: Instance, j: int, facts: SharingFacts, slot_s: float | None, origin_s: float
) -> Conflict | None:
    """Return by how much a job misses its deadline at its best speed from its release on; else ``None``.

    Parameters
    ----------
    instance
        The problem.
    j
        Number of a job that some node can host.
    facts
        Of the instance.
    slot_s
        Length of the slots that starts and ends lie on [s], ``None`` for continuous time.
    origin_s
        Where the first slot begins [s], absolute.
    """
    view = instance.arrays()
    job = instance.jobs[j]
    if math.isinf(job.deadline_s):
        return None
    epoch_s = [
        float(view.tau_s[j, k]) * facts.fastest(int(view.job_class[j]), k) for k in allowed_types(instance, j)
    ]
    best = min(epoch_s)
    due_s = job.deadline_s - origin_s
    end_s = job.release_s - origin_s + job.epochs * best
    late_s = end_s - due_s
    really = late_s > time_tolerance_s(end_s)
    speed = "alone" if facts.harmless else "in the fastest company there can be"
    text = f"job {job.name!r} needs {hours(job.epochs * best)} {speed}, from its release to its deadline are "
    text += f"{hours(job.deadline_s - job.release_s)}"
    if slot_s is not None:
        slots = release_slot(job.release_s - origin_s, slot_s) + slots_of_run(job.epochs, best, slot_s)
        late_on_grid_s = slots * slot_s - due_s
        if late_on_grid_s <= time_tolerance_s(slots * slot_s):
            return None
        text += f": on slots of {hours(slot_s)} it ends {hours(late_on_grid_s)} late"
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
