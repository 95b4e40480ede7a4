"""When each job may start and how long it may then run, tightened to a fixed point.

A duration depends on the company that a job has, the company on whose windows overlap, and the windows on the
durations. Starting from releases and deadlines, sets of jobs that may meet, the slowest and the fastest
speed in each slot, the durations of each start, and from them the windows are worked out again until
nothing changes. Only starts and company that no schedule can have are dropped, so the optimum stays.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from eaco_opt.arrays import PROGRESS_TOLERANCE

from .patterns import JobSet, Span, allowed_types, job_sets

if TYPE_CHECKING:
    from eaco_opt.instance import Instance

    from .grid import Grid

_ROUNDING = 1e-12
"""Relative room for rounding in sums of speeds: windows err on the wide side."""


@dataclass(frozen=True, slots=True, eq=False)
class Starts:
    """Starts of one job on one node type.

    Attributes
    ----------
    start
        (S,) possible start slots, ascending.
    least, greatest
        (S,) least and greatest duration from each [slots].
    """

    start: NDArray[np.int64]
    least: NDArray[np.int64]
    greatest: NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Windows:
    """What the tightening leaves.

    Attributes
    ----------
    types
        (J,) node types on which each job can run in time.
    starts
        {(job, node type): starts}.
    spans
        (J,) slots [first, last) in which a job may run at all; (0, 0) if it cannot.
    sets
        {node type: admissible sets of jobs that may meet}.
    """

    types: tuple[tuple[int, ...], ...]
    starts: dict[tuple[int, int], Starts]
    spans: tuple[Span, ...]
    sets: dict[int, tuple[JobSet, ...]]

    def hopeless(self) -> tuple[int, ...]:
        """Return the jobs that cannot end in time on any node type."""
        return tuple(j for j, types in enumerate(self.types) if not types)


def make_windows(instance: Instance, grid: Grid) -> Windows:
    """Return the tightened windows of an instance on a grid."""
    n = len(instance.jobs)
    types = [allowed_types(instance, j) for j in range(n)]
    spans: list[Span] = [
        (int(grid.release[j]), max(int(grid.release[j]), int(grid.deadline[j]))) for j in range(n)
    ]
    while True:
        sets = {
            k: job_sets(instance, k, [j for j in range(n) if k in types[j]], spans)
            for k in sorted({k for allowed in types for k in allowed})
        }
        starts: dict[tuple[int, int], Starts] = {}
        for k, found in sets.items():
            low, high = _slowdowns(found, grid.slots, n)
            for j in range(n):
                if k in types[j]:
                    kept = _starts(instance, grid, j, k, spans[j], low[j], high[j])
                    if len(kept.start):
                        starts[j, k] = kept
        new_types = [tuple(k for k in types[j] if (j, k) in starts) for j in range(n)]
        new_spans: list[Span] = []
        for j in range(n):
            mine = [starts[j, k] for k in new_types[j]]
            first = min((int(s.start[0]) for s in mine), default=0)
            new_spans.append((first, max((int((s.start + s.greatest).max()) for s in mine), default=0)))
        if new_types == types and new_spans == spans:
            return Windows(tuple(types), starts, tuple(spans), sets)
        types, spans = new_types, new_spans


def _slowdowns(
    sets: tuple[JobSet, ...], slots: int, jobs: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return (J, T) least and greatest slowdown of each job in each slot."""
    low = np.ones((jobs, slots))
    high = np.ones((jobs, slots))
    for found in sets:
        for j, sigma in zip(found.jobs, found.sigma, strict=True):
            span = slice(found.first, found.last)
            low[j, span] = np.minimum(low[j, span], sigma)
            high[j, span] = np.maximum(high[j, span], sigma)
    return low, high


def _starts(
    instance: Instance,
    grid: Grid,
    j: int,
    k: int,
    span: Span,
    low: NDArray[np.float64],
    high: NDArray[np.float64],
) -> Starts:
    view = instance.arrays()
    first, last = span
    need = float(view.epochs[j]) * (1.0 - PROGRESS_TOLERANCE)
    speed = grid.slot_s / float(view.tau_s[j, k])
    done_fast = np.concatenate([[0.0], np.cumsum(speed / low[first:last])])
    done_slow = np.concatenate([[0.0], np.cumsum(speed / high[first:last])])
    at = np.arange(last - first)
    # First boundary at which the work is done; len(done) means: not within the window.
    fast = np.searchsorted(done_fast, done_fast[:-1] + need * (1.0 - _ROUNDING)) - at
    slow = np.searchsorted(done_slow, done_slow[:-1] + need * (1.0 + _ROUNDING)) - at
    # Rounding of sums over long windows: a relative slack on what stands before the start as well.
    room = _ROUNDING * done_fast[:-1]
    fast = np.minimum(fast, np.searchsorted(done_fast, done_fast[:-1] + need * (1.0 - _ROUNDING) - room) - at)
    slow = np.maximum(slow, np.searchsorted(done_slow, done_slow[:-1] + need * (1.0 + _ROUNDING) + room) - at)
    fast = np.maximum(fast, 1)
    kept = at + fast <= last - first
    greatest = np.minimum(np.maximum(slow, 1), last - first - at)
    return Starts(
        (first + at[kept]).astype(np.int64), fast[kept].astype(np.int64), greatest[kept].astype(np.int64)
    )
