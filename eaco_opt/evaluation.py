"""What a schedule costs and whether it is feasible: the outputs of physics and checker."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray


class ViolationClass(StrEnum):
    """The three classes of violation (docs/model.md section 3)."""

    PHYSICAL = "physical"
    DEADLINE = "deadline"
    THRESHOLD = "threshold"


VIOLATION_KINDS: dict[str, ViolationClass] = {
    "missing-job": ViolationClass.PHYSICAL,
    "unknown-job": ViolationClass.PHYSICAL,
    "unknown-gpu": ViolationClass.PHYSICAL,
    "gpu-count": ViolationClass.PHYSICAL,
    "gang": ViolationClass.PHYSICAL,
    "gpu-type": ViolationClass.PHYSICAL,
    "release": ViolationClass.PHYSICAL,
    "overlap": ViolationClass.PHYSICAL,
    "max-share": ViolationClass.PHYSICAL,
    "memory": ViolationClass.PHYSICAL,
    "exclusive": ViolationClass.PHYSICAL,
    "cannot-share": ViolationClass.PHYSICAL,
    "incomplete": ViolationClass.PHYSICAL,
    "overrun": ViolationClass.PHYSICAL,
    "wake-up": ViolationClass.PHYSICAL,
    "class": ViolationClass.PHYSICAL,
    "slot": ViolationClass.PHYSICAL,
    "deadline": ViolationClass.DEADLINE,
    "utilisation": ViolationClass.THRESHOLD,
}
"""Every kind of violation and its class. ``gang``: a multi-node job's GPUs are not whole
nodes of one type plus a rest on one more; ``overlap``: two segments of one job overlap;
``incomplete``: progress below the job's epochs at its end; ``overrun``: GPUs held after
completion; ``class``: stops or moves the schedule's class does not allow; ``slot``: a time
off the grid."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """One broken rule.

    Attributes
    ----------
    kind
        Key of :data:`VIOLATION_KINDS`.
    job
        Name of the job concerned, or the names joined by ``+``.
    place
        ``node/gpu``, the node, or empty.
    time_s
        When, absolute [s].
    amount
        By how much, in the unit the text names (seconds, GiB, fraction, epochs, GPUs).
    text
        The sentence for people.
    """

    kind: str
    job: str
    place: str
    time_s: float
    amount: float
    text: str

    @property
    def violation_class(self) -> ViolationClass:
        """Class of the violation."""
        return VIOLATION_KINDS[self.kind]


@dataclass(frozen=True, slots=True, kw_only=True)
class EnergySplit:
    """Energy by origin [J], PUE included; the parts add up to the total.

    Attributes
    ----------
    server_j
        Servers of active nodes, with the residual of looked-up measurements.
    gpu_standing_j, gpu_dynamic_j
        Standing and load-dependent energy of the GPUs of active nodes.
    sleep_j, wake_j
        Inactive nodes, and wake-ups (empty active power while waking and the wake-up energy).
    """

    server_j: float
    gpu_standing_j: float
    gpu_dynamic_j: float
    sleep_j: float
    wake_j: float

    @property
    def total_j(self) -> float:
        """Total energy [J]."""
        return self.server_j + self.gpu_standing_j + self.gpu_dynamic_j + self.sleep_j + self.wake_j


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class JobOutcomes:
    """Per-job outcomes; arrays of shape (J,) in the order of ``instance.jobs``.

    Attributes
    ----------
    start_s, end_s
        First start and last end [s], absolute.
    running_s
        Time running: JCT in the paper's word [s].
    wait_s
        JTT minus JCT [s]: queueing and pauses.
    jtt_s
        Job total time, end minus release [s].
    tpe_s
        Time per epoch, running time over epochs [s].
    energy_j
        The job's share of energy (equation 5), PUE included [J].
    lateness_s
        End minus deadline [s], negative when early, -inf without a deadline.
    missed
        Whether the deadline is missed beyond the tolerances of docs/model.md section 3.
    """

    start_s: NDArray[np.float64]
    end_s: NDArray[np.float64]
    running_s: NDArray[np.float64]
    wait_s: NDArray[np.float64]
    jtt_s: NDArray[np.float64]
    tpe_s: NDArray[np.float64]
    energy_j: NDArray[np.float64]
    lateness_s: NDArray[np.float64]
    missed: NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Evaluation:
    """Cost, metrics and feasibility of a plan or schedule (docs/model.md sections 2, 3, 5).

    Attributes
    ----------
    energy
        Energy by origin.
    energy_j
        Total energy [J].
    avg_tpe_s
        Mean time per epoch [s].
    objective
        Value of the instance's objective.
    reference_energy_j, reference_tpe_s, reference_jtt_s
        E0 [J], T0 [s] and J0 [s] of the exclusive reference.
    jobs
        Outcomes by job.
    mean_jct_s, mean_wait_s, mean_jtt_s, makespan_s
        Means over jobs and the time from earliest release to last completion [s].
    deadline_misses
        Number of jobs that end late.
    physical_violations, threshold_violations
        Numbers of events at which a physical rule, or U_threshold, begins to be broken.
    threshold_excess
        Least amount by which U_threshold would have to rise to admit every set used.
    threshold_excess_gpu_s
        GPU-seconds spent in sets above U_threshold.
    node_s
        Node-seconds active.
    mean_active_nodes, peak_active_nodes
        Over the makespan.
    load_active_gpus, load_all_gpus
        Mean GPU load over GPUs hosting a job, and over all GPUs during the makespan.
    modelled_energy_share
        Share of active energy drawn by nodes while any of their GPUs hosts a set that was not
        measured, in [0, 1].
    modelled_power_share
        Share of active energy whose node power was modelled and not looked up.
    grid_s
        Slot length [s] in grid physics, ``None`` in continuous time.
    problems
        First few physical violations, for people.
    """

    energy: EnergySplit
    energy_j: float
    avg_tpe_s: float
    objective: float
    reference_energy_j: float
    reference_tpe_s: float
    reference_jtt_s: float
    jobs: JobOutcomes
    mean_jct_s: float
    mean_wait_s: float
    mean_jtt_s: float
    makespan_s: float
    deadline_misses: int
    physical_violations: int
    threshold_violations: int
    threshold_excess: float
    threshold_excess_gpu_s: float
    node_s: float
    mean_active_nodes: float
    peak_active_nodes: int
    load_active_gpus: float
    load_all_gpus: float
    modelled_energy_share: float
    modelled_power_share: float
    grid_s: float | None
    problems: tuple[str, ...]

    @property
    def feasible(self) -> bool:
        """Whether no rule of any class is broken."""
        return not (self.physical_violations or self.deadline_misses or self.threshold_violations)

    def percentiles(self, field: str, q: tuple[float, ...] = (50.0, 90.0, 99.0)) -> dict[float, float]:
        """Return percentiles of a field of :class:`JobOutcomes` over the jobs."""
        values = getattr(self.jobs, field)
        if len(values) == 0:
            return dict.fromkeys(q, 0.0)
        return {p: float(np.percentile(values, p)) for p in q}

    def summary(self) -> dict[str, Any]:
        """Return the metrics in the units shown to people (kWh, hours), by CLI key."""
        h, kwh = 3600.0, 3.6e6
        return {
            "energy_kwh": self.energy_j / kwh,
            "avg_tpe_h": self.avg_tpe_s / h,
            "objective": self.objective,
            "mean_jct_h": self.mean_jct_s / h,
            "mean_wait_h": self.mean_wait_s / h,
            "mean_jtt_h": self.mean_jtt_s / h,
            "makespan_h": self.makespan_s / h,
            "deadline_misses": self.deadline_misses,
            "threshold_excess": self.threshold_excess,
            "mean_active_nodes": self.mean_active_nodes,
            "peak_active_nodes": self.peak_active_nodes,
            "node_hours": self.node_s / h,
            "modelled_energy_share": self.modelled_energy_share,
        }
