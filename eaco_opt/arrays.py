"""The numpy view of an instance that all fast code reads.

Times are seconds since the earliest release, so that shifting an instance changes no
value. Jobs are in the order of ``instance.jobs`` (submit index).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .errors import ScheduleError
from .job import MemoryKind
from .sets import JobClass, SetTable

if TYPE_CHECKING:
    from .instance import Instance
    from .schedule import Gpu

TIME_TOLERANCE_S = 1e-6
TIME_TOLERANCE_RELATIVE = 1e-9
PROGRESS_TOLERANCE = 1e-9
"""Tolerances of docs/model.md section 3."""


def time_tolerance_s(t: float) -> float:
    """Return the tolerance [s] at time ``t`` [s] since the earliest release."""
    return TIME_TOLERANCE_S + TIME_TOLERANCE_RELATIVE * abs(t)


class ArrayView:
    """Arrays of an instance with J jobs, N nodes, M GPUs and T node types.

    Attributes
    ----------
    origin_s
        Earliest release, absolute [s].
    release_s, deadline_s
        (J,) since the origin [s].
    epochs, gpus
        (J,) as floats and integers.
    gpu_offset
        (J + 1,) place of a job's GPUs in arrays that list them job after job.
    job_class
        (J,) class number in ``sets``.
    util, cpu
        (J,) mean GPU utilisation alone, and CPU share of a whole node.
    tau_s
        (J, T) exclusive epoch time [s], infinity where the type is forbidden.
    node_type
        (N,) number of the node's type.
    first_gpu
        (N + 1,) global number of the node's first GPU.
    gpu_node
        (M,) node of each GPU.
    type_values
        (T, 10): GPUs, server idle, server busy minus idle, server exponent, GPU standing,
        look-up used (0/1), sleep [W], wake-up [s], wake-up [J], GPU memory [GiB].
    sets
        The table of sets.
    """

    def __init__(self, instance: Instance) -> None:
        jobs = instance.jobs
        cluster = instance.cluster
        profiles = {p.name: p for p in instance.profiles}
        types = cluster.node_types
        self.instance = instance
        self.origin_s = min((j.release_s for j in jobs), default=0.0)
        n = len(jobs)
        self.release_s: NDArray[np.float64] = np.array(
            [j.release_s - self.origin_s for j in jobs], dtype=np.float64
        )
        self.deadline_s: NDArray[np.float64] = np.array(
            [j.deadline_s - self.origin_s for j in jobs], dtype=np.float64
        )
        self.epochs: NDArray[np.float64] = np.array([j.epochs for j in jobs], dtype=np.float64)
        self.gpus: NDArray[np.int64] = np.array([j.gpus for j in jobs], dtype=np.int64)
        self.gpu_offset: NDArray[np.int64] = np.concatenate([[0], np.cumsum(self.gpus)]).astype(np.int64)
        self.priority: NDArray[np.int64] = np.array([j.priority for j in jobs], dtype=np.int64)
        self.exclusive: NDArray[np.bool_] = np.array([j.exclusive for j in jobs], dtype=np.bool_)
        self.util: NDArray[np.float64] = np.array(
            [profiles[j.profile].gpu_util_mean for j in jobs], dtype=np.float64
        )
        self.cpu: NDArray[np.float64] = np.array(
            [profiles[j.profile].cpu_share for j in jobs], dtype=np.float64
        )
        self.tau_s: NDArray[np.float64] = np.full((n, len(types)), np.inf)
        classes: dict[JobClass, int] = {}
        numbers: list[int] = []
        taus: dict[tuple[str, int], list[float]] = {}
        for i, job in enumerate(jobs):
            profile = profiles[job.profile]
            known = taus.get((job.profile, job.gpus))
            if known is None:
                found = [profile.epoch_time_s(t.gpu_type, job.gpus) for t in types]
                known = [math.inf if tau is None else tau for tau in found]
                taus[job.profile, job.gpus] = known
            self.tau_s[i] = known
            parallel = job.memory_kind is MemoryKind.MODEL_PARALLEL
            memory = profile.gpu_memory_peak_gib
            cls = JobClass(profile.kind, memory / job.gpus if parallel else memory, parallel, job.exclusive)
            numbers.append(classes.setdefault(cls, len(classes)))
        # Class numbers follow the classes' own order, so that set keys do not depend on the order of jobs.
        ordered = sorted(classes, key=lambda c: (c.kind, c.memory_gib, c.model_parallel, c.exclusive))
        rank = {classes[c]: i for i, c in enumerate(ordered)}
        self.job_class: NDArray[np.int64] = np.array([rank[k] for k in numbers], dtype=np.int64)
        self.node_type: NDArray[np.int64]
        position = {t.name: i for i, t in enumerate(types)}
        self.node_type = np.array([position[node.node_type] for node in cluster.nodes], dtype=np.int64)
        sizes = np.array([types[k].gpus for k in self.node_type], dtype=np.int64)
        self.first_gpu: NDArray[np.int64] = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        self.gpu_node: NDArray[np.int64] = np.repeat(np.arange(len(sizes)), sizes).astype(np.int64)
        self.type_values: NDArray[np.float64] = np.array(
            [
                [
                    t.gpus,
                    t.power.server.idle_w,
                    t.power.server.busy_w - t.power.server.idle_w,
                    t.power.server.exponent,
                    t.power.gpu.standing_w,
                    float(t.power.lookup),
                    t.sleep_w,
                    t.wake_s,
                    t.wake_energy_j,
                    t.gpu_memory_gib,
                ]
                for t in types
            ],
            dtype=np.float64,
        )
        self.sets = SetTable(instance, tuple(ordered))
        for array in vars(self).values():
            if isinstance(array, np.ndarray):
                array.setflags(write=False)
        self._reference: tuple[float, float, float] | None = None
        # The same arrays as named tuples for compiled code: see eaco_opt.physics.
        self.compiled_view: Any = None
        self.compiled_sets: tuple[int, Any] | None = None

    def gpu_number(self, owner: str, gpu: Gpu) -> int:
        """Return the global number of a (node, gpu) position; unknown ones are an error."""
        node, k = gpu
        if node >= len(self.node_type):
            raise ScheduleError(
                f"{owner}: node {node} does not exist; the cluster has nodes 0 to {len(self.node_type) - 1}"
            )
        first, last = int(self.first_gpu[node]), int(self.first_gpu[node + 1])
        if k >= last - first:
            raise ScheduleError(
                f"{owner}: GPU {k} does not exist on node {self.instance.cluster.nodes[node].name!r}, "
                f"which has GPUs 0 to {last - first - 1}"
            )
        return first + k

    def gpu_position(self, number: int) -> Gpu:
        """Return the (node, gpu) position of a global GPU number."""
        node = int(self.gpu_node[number])
        return node, number - int(self.first_gpu[node])

    def reference(self, slot_s: float | None = None) -> tuple[float, float, float]:
        """Return E0 [J], T0 [s] and J0 [s] of the exclusive reference (docs/model.md section 3).

        All are 0 without jobs, and where a job fits on no node type: there is no exclusive
        execution to compare with.

        Parameters
        ----------
        slot_s
            Instead of E0, T0 and J0, which are continuous values, the same of exclusive execution with
            durations rounded up to slots of this length [s] (docs/model.md 5.6).
        """
        if slot_s is not None:
            return self._work_out_reference(slot_s)
        if self._reference is None:
            self._reference = self._work_out_reference(None)
        return self._reference

    def _work_out_reference(self, slot_s: float | None) -> tuple[float, float, float]:
        n = len(self.epochs)
        if n == 0:
            return 0.0, 0.0, 0.0
        cache: dict[tuple[float, ...], tuple[float, float] | None] = {}
        energy = np.zeros(n)
        run_s = np.zeros(n)
        tau = np.zeros(n)
        for j in range(n):
            key = (
                float(self.job_class[j]),
                float(self.gpus[j]),
                float(self.util[j]),
                float(self.cpu[j]),
                *self.tau_s[j],
            )
            if key not in cache:
                cache[key] = self._exclusive(j)
            found = cache[key]
            if found is None:
                return 0.0, 0.0, 0.0
            power, tau[j] = found
            run_s[j] = self.epochs[j] * tau[j]
            if slot_s is not None:
                run_s[j] = slot_s * max(1.0, math.ceil(run_s[j] * (1.0 - PROGRESS_TOLERANCE) / slot_s))
                tau[j] = run_s[j] / self.epochs[j]
            energy[j] = run_s[j] * power
        pue = self.instance.cluster.pue
        return float(energy.sum() * pue), float(tau.mean()), float(run_s.mean())

    def _exclusive(self, j: int) -> tuple[float, float] | None:
        """Return node power [W] and epoch time [s] of job ``j`` alone on its best node type, if any."""
        s = self.sets.intern((int(self.job_class[j]),))
        best: tuple[float, float] | None = None
        fits = self.sets.memory_gib[s] <= self.type_values[:, 9] * (1.0 + 1e-9)
        for t in range(len(self.type_values)):
            tau = float(self.tau_s[j, t])
            if math.isinf(tau) or not fits[t]:
                continue
            power = self.exclusive_power_w(j, t, s)
            if best is None or (tau, power) < (best[1], best[0]):
                best = (power, tau)
        return best

    def exclusive_power_w(self, j: int, t: int, s: int) -> float:
        """Return the power [W], without PUE, of the nodes of type ``t`` that job ``j`` takes alone."""
        g, size = int(self.gpus[j]), int(self.type_values[t, 0])
        power = 0.0
        full, rest = divmod(g, size)
        for held, count in ((size, full), (rest, 1 if rest else 0)):
            if not count:
                continue
            measured = self.sets.measured_w[s, t]
            if held == size and self.type_values[t, 5] and not math.isnan(measured):
                node = float(measured)
            else:
                model = self.instance.cluster.node_types[t].power
                cpu = min(1.0, float(self.cpu[j]) * held / size)
                node = (
                    model.server.power_w(cpu)
                    + size * model.gpu.standing_w
                    + held * float(self.sets.dynamic_w[s, t])
                )
            power += count * node
        return power
