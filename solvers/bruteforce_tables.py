"""What brute force knows before it begins: windows, choices of GPUs, and tables of least prices.

The proofs that the tables are valid stand in :mod:`solvers.bruteforce`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from eaco_opt.arrays import PROGRESS_TOLERANCE, ArrayView, time_tolerance_s
from eaco_opt.limits import ObjectiveForm

if TYPE_CHECKING:
    from eaco_opt.instance import Instance

NEVER = 2**40
"""Slots that no run takes."""

ROUNDING = 1e-9
"""Slots that least numbers of slots give away to rounding."""

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Prices:
    """Price of a joule before PUE, of a second of running of each job (J,), and of a second of JTT."""

    joule: float
    job_second: FloatArray
    late_second: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Tables:
    """Least prices by job, node type and bits of possible partners (J, T, 2**J); infinity: forbidden.

    Attributes
    ----------
    least_epoch, least_second
        Price of an epoch and of a second of running, in units of the objective.
    least_sigma
        Slowdown.
    most_sigma
        (J, T) largest slowdown in any company, 0 where the job cannot run.
    """

    least_epoch: FloatArray
    least_second: FloatArray
    least_sigma: FloatArray
    most_sigma: FloatArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Windows:
    """When jobs may start and have to end, in slots.

    Attributes
    ----------
    earliest, latest
        (J,) first and last slot in which each job may start; a window is empty if the latest is before the
        earliest.
    last_end
        (J,) last boundary at which it may end.
    wake_slot
        (J, T) first slot in which it may start on a node that it wakes.
    least_slots
        (J, 2**J) slots of its shortest run, by bits of possible partners.
    partners
        (J,) bits of the jobs that it can meet.
    """

    earliest: IntArray
    latest: IntArray
    last_end: IntArray
    wake_slot: IntArray
    least_slots: IntArray
    partners: IntArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Choices:
    """All GPU sets of all jobs; see :class:`solvers.bruteforce_kernel.Task`."""

    first: IntArray
    offset: IntArray
    gpu: IntArray


def prices(instance: Instance) -> Prices:
    """Return what the objective charges (docs/model.md section 3.1)."""
    view = instance.arrays()
    o = instance.objective
    n = len(view.epochs)
    if o.form is ObjectiveForm.RAW:
        joule, tpe, late = o.alpha / 3.6e6, (1.0 - o.alpha) / 3600.0, o.jtt_weight / 3600.0
    else:
        e0, t0, j0 = view.reference()
        joule = o.alpha / e0 if o.alpha > 0.0 and e0 > 0.0 else 0.0
        tpe, late = (1.0 - o.alpha) / t0, o.jtt_weight / j0
    return Prices(
        joule=joule * instance.cluster.pue, job_second=tpe / (n * view.epochs), late_second=late / n
    )


def allowed_types(instance: Instance) -> NDArray[np.bool_]:
    """Return (J, T): whether the job, by itself, can run on nodes of the type."""
    view = instance.arrays()
    types = len(view.type_values)
    nodes = np.bincount(view.node_type, minlength=types)
    out = np.zeros((len(view.epochs), types), dtype=np.bool_)
    for j in range(len(view.epochs)):
        s = view.sets.intern((int(view.job_class[j]),))
        for t in range(types):
            size = int(view.type_values[t, 0])
            out[j, t] = (
                not math.isinf(view.tau_s[j, t])
                and math.ceil(int(view.gpus[j]) / size) <= nodes[t]
                and _admissible(view, s, t)
            )
    return out


def _admissible(view: ArrayView, s: int, t: int) -> bool:
    return not view.sets.physical[s, t] and not view.sets.threshold[s]


def _meetings(instance: Instance, allowed: NDArray[np.bool_]) -> Iterator[tuple[tuple[int, ...], int, int]]:
    """Yield (jobs, number of their set, node type) of all admissible sets of jobs, smaller ones first.

    A set is interned only if all sets with one job less are admissible somewhere: admissible sets are closed
    under taking subsets (docs/model.md section 1.9).
    """
    view = instance.arrays()
    n, types = allowed.shape
    layer: dict[tuple[int, ...], None] = {(): None}
    for size in range(1, min(n, instance.limits.max_share) + 1):
        found: dict[tuple[int, ...], None] = {}
        for jobs in combinations(range(n), size):
            if any((*jobs[:i], *jobs[i + 1 :]) not in layer for i in range(size)):
                continue
            s = view.sets.intern(tuple(sorted(int(view.job_class[j]) for j in jobs)))
            for t in range(types):
                if _admissible(view, s, t) and all(allowed[j, t] for j in jobs):
                    found[jobs] = None
                    yield jobs, s, t
        layer = found


def tables(instance: Instance, allowed: NDArray[np.bool_], cost: Prices) -> Tables:
    """Intern all sets that can occur, and return the least prices over them."""
    view = instance.arrays()
    n, types = allowed.shape
    shape = (n, types, 1 << n)
    least_epoch, least_second, least_sigma = (np.full(shape, np.inf) for _ in range(3))
    most_sigma = np.zeros((n, types))
    floors = [_NodeFloor(view, allowed[:, t], t, instance.limits.max_share) for t in range(types)]
    for jobs, s, t in _meetings(instance, allowed):
        shares = floors[t].shares_w(jobs, s)
        members = view.sets.keys[s]
        bits = sum(1 << j for j in jobs)
        for j, share_w in zip(jobs, shares, strict=True):
            sigma = float(view.sets.sigma[s, members.index(int(view.job_class[j]))])
            second = cost.joule * share_w * int(view.gpus[j]) + float(cost.job_second[j]) + cost.late_second
            mates = bits & ~(1 << j)
            least_second[j, t, mates] = min(least_second[j, t, mates], second)
            least_epoch[j, t, mates] = min(least_epoch[j, t, mates], second * float(view.tau_s[j, t]) * sigma)
            least_sigma[j, t, mates] = min(least_sigma[j, t, mates], sigma)
            most_sigma[j, t] = max(most_sigma[j, t], sigma)
    for table in (least_epoch, least_second, least_sigma):
        for bit in range(n):  # the least over all subsets of the bits
            split = table.reshape(n, types, -1, 2, 1 << bit)
            np.minimum(split[:, :, :, 1], split[:, :, :, 0], out=split[:, :, :, 1])
    return Tables(
        least_epoch=least_epoch, least_second=least_second, least_sigma=least_sigma, most_sigma=most_sigma
    )


class _NodeFloor:
    """Lower bounds of the power of a node of one type, as a sum over its GPUs that host jobs.

    Parameters
    ----------
    view, allowed, t
        The instance, (J,) the jobs that may run on the type, and the type.
    max_share
        Most jobs on a GPU.
    """

    def __init__(self, view: ArrayView, allowed: NDArray[np.bool_], t: int, max_share: int) -> None:
        self._view = view
        self._t = t
        self._size = int(view.type_values[t, 0])
        held = np.minimum(view.gpus[allowed], self._size)
        self._whole = bool((view.gpus[allowed] % self._size == 0).all())
        self._used = max(1, min(self._size, int(held.sum())))
        cpu = view.cpu[allowed]
        most = min(float((cpu * held).sum()) / self._size, max_share * float(cpu.max(initial=0.0)))
        self._cpu_cap = max(1.0, most)

    def shares_w(self, jobs: tuple[int, ...], s: int) -> list[float]:
        """Return for each job of a set its part of a GPU's part of the node's power [W]; none is negative."""
        view, t, size = self._view, self._t, self._size
        _, idle, span, exponent, standing, lookup = view.type_values[t, :6].tolist()
        dynamic = float(view.sets.dynamic_w[s, t])
        cpu = sum(float(view.cpu[j]) for j in jobs)
        if self._whole:
            full = min(1.0, cpu)
            common = (idle + span * (2.0 * full - math.pow(full, exponent))) / size + standing
        else:
            common = (idle + size * standing) / self._used + span * cpu / (size * self._cpu_cap)
        model = common + dynamic
        measured = float(view.sets.measured_w[s, t])
        floor = model
        if lookup and not math.isnan(measured):
            floor = measured / size if self._whole else min(model, measured / size)
        util = [float(view.util[j]) for j in jobs]
        weight = sum(util)
        out = []
        for u in util:
            part = common / len(jobs) + dynamic * (u / weight if weight > 0.0 else 1.0 / len(jobs))
            out.append(floor * part / model if model > 0.0 else floor / len(jobs))
        return out


def slots_at_least(seconds: FloatArray, slot_s: float) -> IntArray:
    """Return the least slots that running times [s] fill; infinite times give `NEVER`."""
    number = np.ceil(seconds / slot_s * (1.0 - ROUNDING) - ROUNDING)
    out: IntArray = np.clip(np.where(np.isfinite(number), number, NEVER), 1, NEVER).astype(np.int64)
    return out


def first_slot(release_s: float, slot_s: float) -> int:
    """Return the first slot that begins at or after a time, within the tolerance."""
    if release_s / slot_s >= NEVER:
        return NEVER
    k = max(0, math.ceil(release_s / slot_s) + 1)
    while k > 0 and release_s - (k - 1) * slot_s <= time_tolerance_s((k - 1) * slot_s):
        k -= 1
    return k


def last_boundary(deadline_s: float, slot_s: float) -> int:
    """Return the last boundary at or before a time, within the tolerance; -1 if there is none."""
    if deadline_s < 0.0:
        return -1
    k = math.floor(deadline_s / slot_s) - 1
    while (k + 1) * slot_s - deadline_s <= time_tolerance_s((k + 1) * slot_s):
        k += 1
    return k


def windows(instance: Instance, allowed: NDArray[np.bool_], table: Tables, slot_s: float) -> Windows:
    """Return when jobs may start and end; the horizon limits ends that deadlines do not."""
    view = instance.arrays()
    n, types = allowed.shape
    needed = view.epochs * (1.0 - PROGRESS_TOLERANCE)
    earliest = np.array([first_slot(float(r), slot_s) for r in view.release_s], dtype=np.int64)
    wake_slot = np.array(
        [
            [first_slot(float(r) + float(view.type_values[t, 7]), slot_s) for t in range(types)]
            for r in view.release_s
        ],
        dtype=np.int64,
    )
    run_s = np.where(
        np.isfinite(table.least_sigma),
        needed[:, None, None]
        * np.where(allowed, view.tau_s, 0.0)[:, :, None]
        * np.where(np.isfinite(table.least_sigma), table.least_sigma, 0.0),
        np.inf,
    )
    least_slots = slots_at_least(run_s.min(axis=1), slot_s)
    worst_s = (needed[:, None] * np.where(allowed, view.tau_s, 0.0) * table.most_sigma).max(axis=1)
    slowest = np.maximum(1.0, np.ceil(worst_s / slot_s)).sum()
    horizon = int(min(NEVER, np.where(allowed, wake_slot, 0).max() + slowest))
    last_end = np.array(
        [
            horizon if d / slot_s > horizon + 1 else min(horizon, last_boundary(float(d), slot_s))
            for d in view.deadline_s
        ],
        dtype=np.int64,
    )
    partners = np.array(
        [
            sum(
                1 << i
                for i in range(n)
                if i != j and max(earliest[i], earliest[j]) < min(last_end[i], last_end[j])
            )
            for j in range(n)
        ],
        dtype=np.int64,
    )
    shortest = least_slots[np.arange(n), partners]
    return Windows(
        earliest=earliest,
        latest=last_end - shortest,
        last_end=last_end,
        wake_slot=wake_slot,
        least_slots=least_slots,
        partners=partners,
    )


def least_run(instance: Instance, allowed: NDArray[np.bool_], table: Tables, slot_s: float) -> FloatArray:
    """Return (J, 2**J): what a whole job costs at least, without waiting, by bits of possible partners."""
    view = instance.arrays()
    n, types = allowed.shape
    needed = view.epochs * (1.0 - PROGRESS_TOLERANCE)
    out = np.full((n, 1 << n), np.inf)
    for t in range(types):
        for j in np.flatnonzero(allowed[:, t]):
            slots = slots_at_least(needed[j] * view.tau_s[j, t] * table.least_sigma[j, t], slot_s)
            by_epochs = needed[j] * table.least_epoch[j, t]
            by_time = slots * slot_s * table.least_second[j, t]
            out[j] = np.minimum(out[j], np.maximum(by_epochs, by_time))
    return out


def twins(instance: Instance) -> IntArray:
    """Return for each job the one before it that differs in name, submit index and priority only, or -1."""
    view = instance.arrays()
    seen: dict[tuple[object, ...], int] = {}
    out = np.full(len(view.epochs), -1, dtype=np.int64)
    for j in range(len(view.epochs)):
        key = (
            int(view.job_class[j]),
            int(view.gpus[j]),
            float(view.epochs[j]),
            float(view.release_s[j]),
            float(view.deadline_s[j]),
            tuple(view.tau_s[j].tolist()),
        )
        out[j] = seen.get(key, -1)
        seen[key] = j
    return out


def useful_nodes(view: ArrayView, allowed: NDArray[np.bool_], t: int) -> list[int]:
    """Return as many nodes of a type as its jobs can take together; equal ones beyond are never needed."""
    size = int(view.type_values[t, 0])
    most = sum(math.ceil(int(g) / size) for g in view.gpus[allowed[:, t]])
    return [int(n) for n in np.flatnonzero(view.node_type == t)[:most]]


def count_choices(view: ArrayView, allowed: NDArray[np.bool_]) -> list[int]:
    """Return how many GPU sets `choices` will list for each job."""
    out = []
    for j in range(len(allowed)):
        total = 0
        for t in np.flatnonzero(allowed[j]):
            size, nodes = int(view.type_values[t, 0]), len(useful_nodes(view, allowed, int(t)))
            full, rest = divmod(int(view.gpus[j]), size)
            total += math.comb(nodes, full) * (max(0, nodes - full) * math.comb(size, rest) if rest else 1)
        out.append(total)
    return out


def choices(view: ArrayView, allowed: NDArray[np.bool_]) -> Choices:
    """List all GPU sets of all jobs: whole nodes of one type, the rest on one more (docs/model.md 1.3)."""
    first, offset = [0], [0]
    gpus: list[int] = []
    for j in range(len(allowed)):
        for t in np.flatnonzero(allowed[j]):
            size, nodes = int(view.type_values[t, 0]), useful_nodes(view, allowed, int(t))
            full, rest = divmod(int(view.gpus[j]), size)
            for taken in combinations(nodes, full):
                body = [int(view.first_gpu[n]) + i for n in taken for i in range(size)]
                if not rest:
                    gpus += body
                    offset.append(len(gpus))
                    continue
                for n in nodes:
                    if n in taken:
                        continue
                    for part in combinations(range(size), rest):
                        gpus += sorted([*body, *(int(view.first_gpu[n]) + i for i in part)])
                        offset.append(len(gpus))
        first.append(len(offset) - 1)
    return Choices(
        first=np.array(first, dtype=np.int64),
        offset=np.array(offset, dtype=np.int64),
        gpu=np.array(gpus, dtype=np.int64),
    )
