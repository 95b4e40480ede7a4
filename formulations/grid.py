"""The time grid: slot length, number of slots, and releases and deadlines in slots (docs/model.md section 5).

Automatic slot length: the longest of :data:`STEPS_S` that cuts the shortest exclusive run of any job into at
least :data:`LEAST_SLOTS_OF_A_JOB` slots and the shortest time between a release and its deadline into as
many, but never so short that the horizon, counted with exclusive runs, has more than :data:`MOST_SLOTS`
slots. Where both cannot be had, the second rule wins; where even the longest step gives more, it is the
longest.

Horizon: the last deadline, or, if that is sooner (it always is where a deadline is infinite), the last
release plus the sum of the longest durations of all jobs, each rounded up to slots. That loses no optimum:
whenever no job runs after the last release, everything later can move up by a slot, which keeps deadlines
and raises no cost.
"""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from eaco_opt.arrays import PROGRESS_TOLERANCE, time_tolerance_s

from .base import GridError
from .patterns import allowed_types, job_sets

if TYPE_CHECKING:
    from eaco_opt.instance import Instance

_LOG = logging.getLogger(__name__)

STEPS_S = (
    *(3600.0 * hours for hours in (24, 12, 6, 4, 2, 1)),
    *(60.0 * minutes for minutes in (30, 20, 15, 10, 5, 2, 1)),
    *(30.0, 20.0, 15.0, 10.0, 5.0, 2.0, 1.0),
)
"""Slot lengths [s] that the automatic rule chooses from."""

LEAST_SLOTS_OF_A_JOB = 4
MOST_SLOTS = 2_000
HARD_LIMIT_SLOTS = 100_000


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Grid:
    """Slots of equal length from the earliest release on.

    Attributes
    ----------
    slot_s
        Length D of a slot [s].
    slots
        Number of slots, the horizon.
    release
        (J,) first slot in which each job may start.
    deadline
        (J,) last boundary by which it has to end, at most ``slots``.
    """

    slot_s: float
    slots: int
    release: NDArray[np.int64]
    deadline: NDArray[np.int64]


def slots_of_run(epochs: float, epoch_s: float, slot_s: float) -> int:
    """Return the slots that a run at constant speed takes: at least one, rounded up (docs/model.md 5.2)."""
    return max(1, math.ceil(epochs * (1.0 - PROGRESS_TOLERANCE) * epoch_s / slot_s))


def release_slot(release_s: float, slot_s: float) -> int:
    """Return the first slot that begins at or after a release, both counted from the same origin."""
    s = math.ceil(release_s / slot_s)
    while s > 0 and (s - 1) * slot_s >= release_s - time_tolerance_s((s - 1) * slot_s):
        s -= 1
    while s * slot_s < release_s - time_tolerance_s(s * slot_s):
        s += 1
    return s


def deadline_slot(deadline_s: float, slot_s: float) -> int:
    """Return the last boundary at or before a deadline, both counted from the same origin."""
    e = max(0, math.floor(deadline_s / slot_s))
    while (e + 1) * slot_s - deadline_s <= time_tolerance_s((e + 1) * slot_s):
        e += 1
    while e > 0 and e * slot_s - deadline_s > time_tolerance_s(e * slot_s):
        e -= 1
    return e


def make_grid(instance: Instance, slot_s: float | None = None) -> Grid:
    """Return the grid of an instance, with the slot length of the automatic rule where none is given.

    Raises
    ------
    GridError
        The slot length is not positive and finite, or the horizon has more than 100,000 slots.
    """
    if slot_s is not None:
        if not (math.isfinite(slot_s) and slot_s > 0.0):
            raise GridError(f"grid: the slot length must be a positive number of seconds, got {slot_s!r}")
        return _with_step(instance, float(slot_s), HARD_LIMIT_SLOTS)
    grid = _with_step(instance, automatic_slot_s(instance), HARD_LIMIT_SLOTS)
    _LOG.info("grid: slots of %g s, %d of them", grid.slot_s, grid.slots)
    return grid


def automatic_slot_s(instance: Instance) -> float:
    """Return the slot length [s] of the automatic rule; quick, however many jobs there are.

    The horizon that the rule looks at takes exclusive runs for the longest ones: that is enough to choose a
    length, and needs no sets of jobs.
    """
    view = instance.arrays()
    wanted = math.inf
    for j in range(len(instance.jobs)):
        types = allowed_types(instance, j)
        if types:
            run_s = float(view.epochs[j] * view.tau_s[j, list(types)].min())
            wanted = min(wanted, run_s / LEAST_SLOTS_OF_A_JOB)
            window_s = float(view.deadline_s[j] - view.release_s[j])
            if window_s >= run_s:
                wanted = min(wanted, window_s / LEAST_SLOTS_OF_A_JOB)
    if not len(instance.jobs):
        return STEPS_S[0]
    last_release_s = float(view.release_s.max())
    last_s = float(view.deadline_s.max())
    first = next((i for i, step in enumerate(STEPS_S) if step <= wanted), len(STEPS_S) - 1)
    for step in reversed(STEPS_S[: first + 1]):
        horizon = last_release_s / step + sum(_exclusive_runs(instance, step))
        if min(horizon, last_s / step) <= MOST_SLOTS:
            return step
    return STEPS_S[0]


def _exclusive_runs(instance: Instance, slot_s: float) -> list[int]:
    """Return the duration of each job alone on its slowest node type [slots]; 0 if it fits nowhere."""
    view = instance.arrays()
    out = []
    for j in range(len(instance.jobs)):
        slowest_s = max((float(view.tau_s[j, k]) for k in allowed_types(instance, j)), default=None)
        out.append(0 if slowest_s is None else slots_of_run(float(view.epochs[j]), slowest_s, slot_s))
    return out


def _with_step(instance: Instance, slot_s: float, most: int) -> Grid:
    view = instance.arrays()
    n = len(instance.jobs)
    if n == 0:
        empty = np.zeros(0, dtype=np.int64)
        return Grid(slot_s=slot_s, slots=0, release=empty, deadline=empty)
    if float(view.release_s.max()) / slot_s > most:
        raise _too_many(float(view.release_s.max()) / slot_s, slot_s, most)
    release = np.array([release_slot(float(r), slot_s) for r in view.release_s], dtype=np.int64)
    last_s = float(view.deadline_s.max())
    # Exclusive runs are the least that the longest can be: where the deadline comes first already, sets of
    # jobs need not be looked at.
    horizon = int(release.max()) + sum(_exclusive_runs(instance, slot_s))
    if last_s / slot_s > horizon:
        horizon = int(release.max()) + sum(_longest_runs(instance, slot_s, release))
    if last_s / slot_s <= horizon:
        horizon = min(horizon, max(0, deadline_slot(last_s, slot_s)))
    if horizon > most:
        raise _too_many(horizon, slot_s, most)
    deadline = np.array(
        [
            horizon if d / slot_s > horizon else min(horizon, deadline_slot(d, slot_s))
            for d in view.deadline_s
        ],
        dtype=np.int64,
    )
    for array in (release, deadline):
        array.setflags(write=False)
    return Grid(slot_s=slot_s, slots=horizon, release=release, deadline=deadline)


def _too_many(slots: float, slot_s: float, most: int) -> GridError:
    return GridError(
        f"grid: slots of {slot_s:g} s give a horizon of {slots:.0f} slots, more than {most:,}; "
        "choose a longer slot, or give the jobs deadlines that are sooner"
    )


def _longest_runs(instance: Instance, slot_s: float, release: NDArray[np.int64]) -> list[int]:
    """Return the longest duration of each job [slots], in the worst company; 0 if it fits nowhere."""
    view = instance.arrays()
    n = len(instance.jobs)
    # No later slot than this is of interest for who can meet whom: deadlines in slots, as far as they are
    # finite.
    ends = [
        2**62 if math.isinf(d) else deadline_slot(min(float(d), 2.0**40 * slot_s), slot_s)
        for d in view.deadline_s
    ]
    spans = [(int(release[j]), max(int(release[j]) + 1, ends[j])) for j in range(n)]
    longest = [0] * n
    types = [allowed_types(instance, j) for j in range(n)]
    for k in {k for allowed in types for k in allowed}:
        worst = [1.0] * n
        for found in job_sets(instance, k, [j for j in range(n) if k in types[j]], spans):
            for j, sigma in zip(found.jobs, found.sigma, strict=True):
                worst[j] = max(worst[j], sigma)
        for j in range(n):
            if k in types[j]:
                run = slots_of_run(float(view.epochs[j]), float(view.tau_s[j, k]) * worst[j], slot_s)
                longest[j] = max(longest[j], run)
    return longest
