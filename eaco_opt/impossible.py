"""Jobs that can run nowhere, found before anything runs (docs/model.md section 3)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from .interference import SLOWDOWN_MODELS
from .limits import AdmissionRule
from .sets import LIMIT_TOLERANCE

if TYPE_CHECKING:
    from .instance import Instance


@dataclass(frozen=True, slots=True, kw_only=True)
class ImpossibleJob:
    """A job that cannot run, or cannot meet its deadline.

    Attributes
    ----------
    job
        Its name.
    reason
        Why, in words, with amounts.
    deadline_only
        Whether only the deadline is out of reach: simulations then run it best-effort.
    """

    job: str
    reason: str
    deadline_only: bool


def impossible_jobs(instance: Instance) -> tuple[ImpossibleJob, ...]:
    """Return the jobs that no admissible placement can serve, in submit order."""
    view = instance.arrays()
    types = instance.cluster.node_types
    count = np.bincount(view.node_type, minlength=len(types)).tolist()
    limits = instance.limits
    fastest: dict[str, float] = {}
    for row in instance.truth.measured:
        for kind, factor in zip(row.kinds, row.factors, strict=True):
            fastest[kind] = min(fastest.get(kind, 1.0), factor)
    model = SLOWDOWN_MODELS.get(instance.truth.model)
    slowest = 1.0 if getattr(model, "never_below_one", False) else 0.0
    static: dict[tuple[int, int, str], tuple[str, float]] = {}
    out: list[ImpossibleJob] = []
    for j, job in enumerate(instance.jobs):
        cls = int(view.job_class[j])
        key = (cls, job.gpus, job.profile)
        if key not in static:
            static[key] = _static_reason(instance, j, count)
        reason, tau = static[key]
        if not reason and limits.rule is AdmissionRule.RESULTING:
            load = float(view.sets.load[view.sets.intern((cls,))])
            if load > limits.u_threshold + LIMIT_TOLERANCE:
                reason = f"its GPU load alone is {load:.3f}, above u_threshold {limits.u_threshold:g}"
        if reason:
            out.append(ImpossibleJob(job=job.name, reason=reason, deadline_only=False))
            continue
        best = min(slowest, fastest.get(view.sets.classes[cls].kind, 1.0))
        end = float(view.release_s[j]) + job.epochs * tau * best
        deadline = float(view.deadline_s[j])
        if end > deadline + 1e-6 + 1e-9 * abs(end):
            late = end - deadline
            out.append(
                ImpossibleJob(
                    job=job.name,
                    reason=f"its deadline is {late:.6g} s before the earliest possible end, release + "
                    "epochs * epoch time",
                    deadline_only=True,
                )
            )
    return tuple(out)


def _static_reason(instance: Instance, j: int, count: list[int]) -> tuple[str, float]:
    """Return why the job fits nowhere (empty: it does), and its least epoch time where it fits [s]."""
    view = instance.arrays()
    job = instance.jobs[j]
    types = instance.cluster.node_types
    known = [t for t in range(len(types)) if not math.isinf(view.tau_s[j, t]) and count[t]]
    if not known:
        names = ", ".join(sorted({t.gpu_type for t, c in zip(types, count, strict=True) if c}))
        return (
            f"its profile {job.profile!r} has no epoch time for {job.gpus} GPU(s) of type {names}",
            math.inf,
        )
    roomy = [t for t in known if math.ceil(job.gpus / types[t].gpus) <= count[t]]
    if not roomy:
        most = max(types[t].gpus * count[t] for t in known)
        return f"it asks for {job.gpus} GPUs, the cluster has at most {most} of one type it may use", math.inf
    s = view.sets.intern((int(view.job_class[j]),))
    need = float(view.sets.memory_gib[s])
    limit = instance.limits.mem_threshold
    fits = [t for t in roomy if need / types[t].gpu_memory_gib <= limit + LIMIT_TOLERANCE]
    if not fits:
        most_gib = max(types[t].gpu_memory_gib for t in roomy) * limit
        return f"it needs {need:.6g} GiB on a GPU, mem_threshold leaves at most {most_gib:.6g} GiB", math.inf
    return "", min(float(view.tau_s[j, t]) for t in fits)
