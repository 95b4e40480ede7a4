"""One training job: what it runs, how long, and by when."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

from . import _validate as v
from .errors import DomainError


class MemoryKind(StrEnum):
    """How a job's GPU memory is spread (docs/model.md section 1)."""

    DATA_PARALLEL = "data-parallel"
    MODEL_PARALLEL = "model-parallel"


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A gang of GPUs held for a whole number of epochs (docs/model.md section 1).

    Attributes
    ----------
    name
        Unique name in its instance.
    profile
        Name of the profile it runs.
    gpus
        GPUs asked for, all taken together and held to the end.
    epochs
        Whole epochs to run, at least 1.
    release_s
        Time at which the job becomes known and may start [s].
    deadline_s
        Absolute time by which it should end [s]; may be infinite.
    priority
        Orders queues, the larger first; no constraint.
    exclusive
        Whether no other job may run on its GPUs.
    memory_kind
        ``data-parallel`` (memory on every GPU) or ``model-parallel`` (spread evenly).
    submit_index
        Place in the input, unique in an instance; it settles ties. -1 (default) lets
        the instance fill in the position in its list of jobs.
    """

    name: str
    profile: str
    gpus: int
    epochs: int
    release_s: float = 0.0
    deadline_s: float = math.inf
    priority: int = 0
    exclusive: bool = False
    memory_kind: MemoryKind = MemoryKind.DATA_PARALLEL
    submit_index: int = -1

    def __post_init__(self) -> None:
        """Validate."""
        v.name("job", "name", self.name)
        owner = f"job {self.name!r}"
        v.name(owner, "profile", self.profile)
        put = object.__setattr__
        put(self, "gpus", v.integer(owner, "gpus", self.gpus, 1, 1_000_000))
        put(self, "epochs", v.integer(owner, "epochs", self.epochs, 1, 2**53))
        put(self, "release_s", v.real(owner, "release_s", self.release_s))
        put(self, "deadline_s", v.real(owner, "deadline_s", self.deadline_s, infinite=True))
        put(self, "priority", v.integer(owner, "priority", self.priority, -(2**31), 2**31 - 1))
        v.flag(owner, "exclusive", self.exclusive)
        try:
            put(self, "memory_kind", MemoryKind(self.memory_kind))
        except ValueError:
            known = ", ".join(k.value for k in MemoryKind)
            raise DomainError(
                f"{owner}: memory_kind must be one of {known}, got {self.memory_kind!r}"
            ) from None
        put(self, "submit_index", v.integer(owner, "submit_index", self.submit_index, -1, 2**63 - 1))
