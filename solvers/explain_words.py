"""The words of an explanation: causes, conflicts, ways out (docs/exact.md section 4)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from eaco_opt.schedule import Schedule


class Cause(StrEnum):
    """Why jobs conflict.

    ``epoch-time``, ``gpus``: no node type can run the job, or has enough GPUs. ``memory``, ``utilisation``:
    mem_threshold or u_threshold; alone, or they keep jobs from sharing that otherwise could end in time.
    ``max-share``, ``exclusive``, ``cannot-share``: likewise, for K, exclusive jobs, and pairs that cannot
    share. ``deadline``: the job would be late even at its best speed. ``capacity``: no rule of sharing by
    itself; there are too few nodes for these deadlines.
    """

    EPOCH_TIME = "epoch-time"
    GPUS = "gpus"
    MEMORY = "memory"
    UTILISATION = "utilisation"
    DEADLINE = "deadline"
    MAX_SHARE = "max-share"
    EXCLUSIVE = "exclusive"
    CANNOT_SHARE = "cannot-share"
    CAPACITY = "capacity"


class Scope(StrEnum):
    """How far a conflict reaches.

    ``any slot``: in continuous time, so on every grid. ``this grid``: a plan in continuous time is known, so
    it is the rounding to slots that makes the conflict. ``unknown``: proved on the grid, undecided beyond it.
    """

    ANY_SLOT = "any slot"
    THIS_GRID = "this grid"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """One change that dissolves a conflict by itself.

    For a job that fits nowhere it follows from the rules; for others a plan was found and checked.

    Attributes
    ----------
    change
        ``deadline``, ``nodes``, ``u_threshold``, ``mem_threshold``, ``gpu-memory``, ``max_share``,
        ``exclusive``, ``cannot-share`` or ``epoch-time``.
    job
        Whose deadline; ``None`` for others.
    node_type
        Of which nodes; ``None`` for others.
    amount
        By how much, in ``unit`` (h, nodes, fraction, GiB, jobs); ``None`` where there is no amount.
    unit
        Of the amount.
    proved
        Whether no smaller amount would do, to the resolution of the grid.
    text
        The sentence for people.
    """

    change: str
    job: str | None
    node_type: str | None
    amount: float | None
    unit: str
    proved: bool
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Conflict:
    """Jobs that cannot all be served.

    Attributes
    ----------
    jobs
        Their names, in submit order.
    cause
        What stands in the way.
    amount
        By how much the limit of the cause has to give at least, in ``unit``; for ``capacity`` and the causes
        without an amount of their own, by how much one deadline has to give if it is the right one [h].
    unit
        Of the amount: h, fraction, GiB, GPUs or jobs.
    text
        The sentence for people.
    scope
        Whether it depends on the slots.
    minimal
        Whether any of the jobs could be left out to dissolve it, each shown by a plan for the others.
    smallest
        Whether it is proved that no fewer jobs of the instance are in conflict.
    ways
        What would dissolve it, each by itself.
    """

    jobs: tuple[str, ...]
    cause: Cause
    amount: float | None
    unit: str
    text: str
    scope: Scope
    minimal: bool
    smallest: bool
    ways: tuple[Way, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Whether an instance has a plan, and if not, why.

    Attributes
    ----------
    feasible
        ``None`` if that is not known.
    conflicts
        No two share a job; the instance without their jobs is feasible if ``complete``.
    in_time
        Whether ``feasible`` is about continuous time; else about the grid.
    slot_s
        Slot length of the grid [s], on which groups of jobs are looked at.
    complete
        Whether it is shown that the other jobs can all be served.
    delays
        Deadlines that together make the instance feasible: (job, hours later), least in total if
        ``delays_proved``; empty where there are none or they were not found.
    delays_proved
        See ``delays``.
    ways
        Other changes that make the whole instance feasible, each by itself.
    witness, objective
        A plan's schedule and its objective, where the instance is feasible.
    stop_reason
        ``finished``, ``time-limit`` or ``interrupted``.
    seconds
        Wall-clock time [s].
    notes
        What has to be said besides.
    """

    feasible: bool | None
    conflicts: tuple[Conflict, ...]
    in_time: bool
    slot_s: float
    complete: bool
    delays: tuple[tuple[str, float], ...]
    delays_proved: bool
    ways: tuple[Way, ...]
    witness: Schedule | None
    objective: float | None
    stop_reason: str
    seconds: float
    notes: tuple[str, ...]


def number(value: float) -> str:
    """Return a number for people."""
    return f"{value:.6g}"


def hours(seconds: float) -> str:
    """Return a time span for people, in hours, or in seconds where it is short."""
    return f"{seconds:.6g} s" if abs(seconds) < 360.0 else f"{seconds / 3600.0:.6g} h"
