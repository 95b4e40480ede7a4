"""What a method returns: schedule, objective, bound, status and provenance."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from .errors import DomainError
from .schedule import Schedule

if TYPE_CHECKING:
    from .evaluation import Evaluation


class Status(StrEnum):
    """What is known about the answer."""

    OPTIMAL = "optimal"
    FEASIBLE = "feasible"
    INFEASIBLE = "infeasible"
    UNKNOWN = "unknown"


class StopReason(StrEnum):
    """Why the method stopped."""

    FINISHED = "finished"
    TIME_LIMIT = "time-limit"
    WORK_LIMIT = "work-limit"
    INTERRUPTED = "interrupted"
    ERROR = "error"


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """Outcome of one run of one method on one instance.

    Attributes
    ----------
    method
        Registered name, or the name of a user's policy object.
    schedule, evaluation
        The schedule and its recomputed value, both ``None`` when there is none.
    status, stop_reason
        Two vocabularies: what is known, and why it stopped.
    bound
        Proved lower bound of the objective, ``None`` when there is none.
    build_s, solve_s
        Wall-clock times [s].
    seed
        Seed of the run.
    instance_digest
        Digest of the instance.
    options, versions
        (name, text) pairs.
    message
        What the method says besides, for people.
    reproducible
        Whether the same call gives the same schedule on every run.
    curve
        (seconds since the call [s], best objective or ``None``, best bound or ``None``) at each improvement,
        in order of time: objectives do not rise, bounds do not fall.
    """

    method: str
    schedule: Schedule | None
    evaluation: Evaluation | None
    status: Status
    stop_reason: StopReason
    bound: float | None = None
    build_s: float = 0.0
    solve_s: float = 0.0
    seed: int = 0
    instance_digest: str = ""
    options: tuple[tuple[str, str], ...] = ()
    versions: tuple[tuple[str, str], ...] = ()
    message: str = ""
    reproducible: bool = True
    curve: tuple[tuple[float, float | None, float | None], ...] = ()

    def __post_init__(self) -> None:
        """Validate."""
        if (self.schedule is None) != (self.evaluation is None):
            raise DomainError(f"result of {self.method!r}: give schedule and evaluation together")
        if self.status in (Status.OPTIMAL, Status.FEASIBLE) and self.schedule is None:
            raise DomainError(f"result of {self.method!r}: status {self.status.value} needs a schedule")

    @property
    def objective(self) -> float | None:
        """Objective of the schedule, ``None`` without one."""
        return None if self.evaluation is None else self.evaluation.objective

    @property
    def gap(self) -> float | None:
        """Relative distance to the bound; ``None`` without a bound or a feasible schedule."""
        if self.bound is None or self.evaluation is None or not self.evaluation.feasible or self.bound <= 0.0:
            return None
        return (self.evaluation.objective - self.bound) / self.bound

    def row(self) -> dict[str, Any]:
        """Return the result as one flat table row; without ``message``, ``reproducible`` and ``curve``."""
        out: dict[str, Any] = {
            "method": self.method,
            "class": None if self.schedule is None else self.schedule.schedule_class.value,
            "status": self.status.value,
            "stop_reason": self.stop_reason.value,
            "bound": self.bound,
            "gap": self.gap,
            "build_s": self.build_s,
            "solve_s": self.solve_s,
            "seed": self.seed,
            "digest": self.instance_digest,
        }
        if self.evaluation is not None:
            out.update(self.evaluation.summary())
        return out
