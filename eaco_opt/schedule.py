"""Plans and schedules: who runs where and when.

A :class:`Plan` fixes one GPU set and start for each job (class ``static``); physics
decides the ends. A :class:`Schedule` states segments with their ends, and can also
express stops and moves (classes ``epoch`` and ``fluid``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from . import _validate as v
from .errors import DomainError, ScheduleError

if TYPE_CHECKING:
    from .instance import Instance

Gpu = tuple[int, int]
"""A GPU: (position of its node in the cluster, position of the GPU in the node)."""


class ScheduleClass(StrEnum):
    """Classes of schedule (docs/model.md section 4), from the narrowest to the widest."""

    STATIC = "static"
    EPOCH = "epoch"
    FLUID = "fluid"


def _gpu_tuple(owner: str, gpus: object) -> tuple[Gpu, ...]:
    out: list[Gpu] = []
    for gpu in v.items(owner, "gpus", gpus, tuple):
        if len(gpu) != 2:
            raise DomainError(f"{owner}: gpus must hold (node, gpu) pairs, got {gpu!r}")
        out.append((v.integer(owner, "node", gpu[0], 0), v.integer(owner, "gpu", gpu[1], 0)))
    out.sort()
    if not out:
        raise DomainError(f"{owner}: gpus must not be empty")
    if len(set(out)) != len(out):
        raise DomainError(f"{owner}: gpus name the same GPU twice, got {out!r}")
    return tuple(out)


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Where and when one job starts.

    Attributes
    ----------
    start_s
        Start [s], absolute.
    gpus
        (node, gpu) positions, kept sorted.
    """

    start_s: float
    gpus: tuple[Gpu, ...]

    def __post_init__(self) -> None:
        """Validate."""
        object.__setattr__(self, "start_s", v.real("placement", "start_s", self.start_s))
        object.__setattr__(self, "gpus", _gpu_tuple("placement", self.gpus))


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """An uninterrupted run of a job on one GPU set.

    Attributes
    ----------
    job
        Name of the job.
    start_s, end_s
        Absolute times [s], ``start_s < end_s``.
    gpus
        (node, gpu) positions, kept sorted.
    """

    job: str
    start_s: float
    end_s: float
    gpus: tuple[Gpu, ...]

    def __post_init__(self) -> None:
        """Validate."""
        v.name("segment", "job", self.job)
        owner = f"segment of job {self.job!r}"
        object.__setattr__(self, "start_s", v.real(owner, "start_s", self.start_s))
        object.__setattr__(self, "end_s", v.real(owner, "end_s", self.end_s))
        if self.end_s <= self.start_s:
            raise DomainError(f"{owner}: end_s must be after start_s, got {self.start_s!r} to {self.end_s!r}")
        object.__setattr__(self, "gpus", _gpu_tuple(owner, self.gpus))


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """Segments of all jobs.

    Attributes
    ----------
    segments
        Kept sorted by (start, job name, GPUs).
    schedule_class
        The class the schedule claims to belong to.
    method
        What made it; for people.
    instance_digest
        Digest of the instance it was made for, or empty.
    """

    segments: tuple[Segment, ...]
    schedule_class: ScheduleClass = ScheduleClass.FLUID
    method: str = ""
    instance_digest: str = ""

    def __post_init__(self) -> None:
        """Validate and sort."""
        segments = v.items("schedule", "segments", self.segments, Segment)
        object.__setattr__(
            self, "segments", tuple(sorted(segments, key=lambda s: (s.start_s, s.job, s.gpus)))
        )
        try:
            object.__setattr__(self, "schedule_class", ScheduleClass(self.schedule_class))
        except ValueError:
            known = ", ".join(c.value for c in ScheduleClass)
            raise DomainError(
                f"schedule: schedule_class must be one of {known}, got {self.schedule_class!r}"
            ) from None
        v.text("schedule", "method", self.method)
        v.text("schedule", "instance_digest", self.instance_digest)


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """Start and GPU set of every job, as arrays (docs/model.md section 2).

    Build it with :meth:`of`, or directly from arrays in fast code. Numbers of another
    type raise :class:`~eaco_opt.errors.ScheduleError`.

    Attributes
    ----------
    start_s
        (J,) absolute starts [s], in the order of ``instance.jobs``.
    gpus
        (sum of g_j,) global GPU numbers, job after job; GPU k of node n has number
        ``(GPUs of the nodes before n) + k``.
    """

    start_s: NDArray[np.float64]
    gpus: NDArray[np.int64]

    def __post_init__(self) -> None:
        """Take private read-only copies."""
        for field, kind, kinds in (("start_s", np.float64, "iuf"), ("gpus", np.int64, "iu")):
            what = "numbers" if "f" in kinds else "whole numbers"
            try:
                given = np.asarray(getattr(self, field))
            except ValueError:
                raise ScheduleError(
                    f"plan: {field} must be an array of {what}, got rows of different lengths"
                ) from None
            if given.size and given.dtype.kind not in kinds:  # a conversion would truncate, or fail
                raise ScheduleError(f"plan: {field} must be an array of {what}, got type {given.dtype}")
            array = np.array(given, dtype=kind)
            array.setflags(write=False)
            object.__setattr__(self, field, array)

    @classmethod
    def of(cls, instance: Instance, placements: Mapping[str, Placement]) -> Plan:
        """Return the plan of ``{job name: placement}``.

        Raises
        ------
        ScheduleError
            A job is missing or unknown, or its GPUs do not exist or have another number.
        """
        view = instance.arrays()
        unknown = sorted(set(placements) - {j.name for j in instance.jobs})
        if unknown:
            raise ScheduleError(f"plan: job {unknown[0]!r} is not in instance {instance.name!r}")
        starts = np.empty(len(instance.jobs))
        gpus: list[int] = []
        for i, job in enumerate(instance.jobs):
            if job.name not in placements:
                raise ScheduleError(f"plan: job {job.name!r} has no placement; a plan places every job")
            placement = placements[job.name]
            if not isinstance(placement, Placement):
                raise ScheduleError(
                    f"plan: job {job.name!r} needs a Placement, got {type(placement).__name__}"
                )
            starts[i] = placement.start_s
            if len(placement.gpus) != job.gpus:
                raise ScheduleError(
                    f"plan: job {job.name!r} asks for {job.gpus} GPU(s), its placement names "
                    f"{len(placement.gpus)}"
                )
            gpus.extend(view.gpu_number(f"plan: job {job.name!r}", gpu) for gpu in placement.gpus)
        return cls(starts, np.array(gpus, dtype=np.int64))

    def placements(self, instance: Instance) -> dict[str, Placement]:
        """Return the plan as ``{job name: placement}``."""
        view = instance.arrays()
        out: dict[str, Placement] = {}
        for i, job in enumerate(instance.jobs):
            numbers = self.gpus[view.gpu_offset[i] : view.gpu_offset[i + 1]]
            out[job.name] = Placement(
                start_s=float(self.start_s[i]), gpus=tuple(view.gpu_position(int(k)) for k in numbers)
            )
        return out
