"""What an instance asks for, in numbers and a picture: :func:`describe`."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eaco_opt.impossible import ImpossibleJob, impossible_jobs
from eaco_opt.instance import Instance
from eaco_opt.io_digest import instance_digest
from instances.clusters import describe_cluster

from .tables import NODE_COLUMNS, node_rows, prepare_folder, write_csv


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Description:
    """What an instance asks for.

    Attributes
    ----------
    instance
        The instance.
    exclusive_h
        (J,) running time of each job alone on its fastest node type in the cluster [h], NaN where it has
        none.
    gpu_hours
        Sum of exclusive time times GPUs over the jobs that have one [h].
    span_h
        From the first release to the last [h].
    offered_load
        ``gpu_hours`` over the GPU-hours of the cluster during the span; ``None`` where the span is 0.
    jobs_by_gpus, jobs_by_profile
        Counts, by GPUs ascending and by profile descending.
    without_deadline
        Number of jobs with infinite deadlines.
    impossible
        Jobs that can run nowhere, or can meet their deadline nowhere.
    """

    instance: Instance
    exclusive_h: NDArray[np.float64]
    gpu_hours: float
    span_h: float
    offered_load: float | None
    jobs_by_gpus: dict[int, int]
    jobs_by_profile: dict[str, int]
    without_deadline: int
    impossible: tuple[ImpossibleJob, ...]

    def document(self) -> dict[str, Any]:
        """Return it under the keys of the command line."""
        instance = self.instance
        known = self.exclusive_h[np.isfinite(self.exclusive_h)]
        quantiles = {f"p{q}": float(np.percentile(known, q)) for q in (5, 50, 95)} if len(known) else {}
        return {
            "name": instance.name,
            "digest": instance_digest(instance),
            "jobs": len(instance.jobs),
            "nodes": len(instance.cluster.nodes),
            "gpus": instance.cluster.total_gpus(),
            "cluster": describe_cluster(instance.cluster),
            "offered_load": self.offered_load,
            "span_h": self.span_h,
            "gpu_hours": self.gpu_hours,
            "exclusive_h": quantiles,
            "jobs_by_gpus": {str(k): n for k, n in self.jobs_by_gpus.items()},
            "jobs_by_profile": self.jobs_by_profile,
            "without_deadline": self.without_deadline,
            "alpha": instance.objective.alpha,
            "u_threshold": instance.limits.u_threshold,
            "mem_threshold": instance.limits.mem_threshold,
            "max_share": instance.limits.max_share,
            "admission_rule": instance.limits.rule.value,
            "impossible": [
                {"job": j.job, "reason": j.reason, "deadline_only": j.deadline_only} for j in self.impossible
            ],
            "metadata": dict(instance.metadata),
        }


def describe(instance: Instance) -> Description:
    """Return what an instance asks for."""
    view = instance.arrays()
    used = np.unique(view.node_type)
    tau = view.tau_s[:, used].min(axis=1) if len(view.epochs) else np.zeros(0)
    hours = np.where(np.isfinite(tau), tau * view.epochs / 3600.0, np.nan)
    gpu_hours = float(np.nansum(hours * view.gpus))
    span_h = float(view.release_s.max(initial=0.0)) / 3600.0
    supply = instance.cluster.total_gpus() * span_h
    return Description(
        instance=instance,
        exclusive_h=hours,
        gpu_hours=gpu_hours,
        span_h=span_h,
        offered_load=gpu_hours / supply if supply > 0.0 else None,
        jobs_by_gpus=dict(sorted(Counter(job.gpus for job in instance.jobs).items())),
        jobs_by_profile=dict(
            sorted(Counter(j.profile for j in instance.jobs).items(), key=lambda p: (-p[1], p[0]))
        ),
        without_deadline=int(np.isinf(view.deadline_s).sum()),
        impossible=impossible_jobs(instance),
    )


WORKLOAD_COLUMNS = ("job", "profile", "gpus", "epochs", "release_h", "exclusive_h", "deadline_h", "priority")


def write_description(found: Description, path: str | os.PathLike[str], *, force: bool = False) -> list[Path]:
    """Write the tables and the picture of a workload into a folder (docs/outputs.md).

    Parameters
    ----------
    found
        What to write.
    path
        The folder; made if it is missing.
    force
        Whether files there may be replaced.

    Raises
    ------
    OutputExistsError
        The folder holds something and ``force`` is off.
    OSError
        The disk says no.
    """
    from paper_figs import render

    folder = prepare_folder(path, force=force)
    instance, view = found.instance, found.instance.arrays()
    rows = (
        (
            job.name,
            job.profile,
            job.gpus,
            job.epochs,
            float(view.release_s[i]) / 3600.0,
            float(found.exclusive_h[i]),
            float(view.deadline_s[i]) / 3600.0,
            job.priority,
        )
        for i, job in enumerate(instance.jobs)
    )
    write_csv(folder / "workload.csv", WORKLOAD_COLUMNS, rows, force=force)
    write_csv(folder / "nodes.csv", NODE_COLUMNS, node_rows(instance), force=force)
    drawn = render("workload", folder, folder / "figures", force=force)
    return [folder / "workload.csv", folder / "nodes.csv", *drawn]
