"""Pricing of one pool: lists of available jobs, patterns with their contexts, and the calls of the kernel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from . import kernel

if TYPE_CHECKING:
    from formulations.configurations import Configurations, Pool

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """N columns of one pool.

    Attributes
    ----------
    jobs
        (N, W) their jobs in the order of the pattern's members, -1 beyond.
    pattern, interval
        (N,) pattern of the pool, and an interval in which all its jobs are available.
    """

    jobs: IntArray
    pattern: IntArray
    interval: IntArray

    def only(self, keep: IntArray) -> Columns:
        """Return some of them."""
        return Columns(self.jobs[keep], self.pattern[keep], self.interval[keep])


class Pricer:
    """Prices the patterns of one pool.

    Parameters
    ----------
    model
        The LP.
    pool
        One of its pools.

    Attributes
    ----------
    entries
        Number of (interval, job) pairs; the work of a pricing is in proportion.
    """

    def __init__(self, model: Configurations, pool: Pool) -> None:
        self.pool = pool
        self.intervals = len(model.length_s)
        self._lists = _lists(model, pool)
        self.entries = len(self._lists.job)
        self._patterns = _patterns(pool)
        self._b: FloatArray = np.zeros(len(model.epochs))
        width = pool.pattern_classes.shape[1]
        contexts = len(self._patterns.cls)
        self._gain = np.zeros((contexts, width))
        self._who = np.zeros((contexts, width), dtype=np.int32)
        self._found = np.zeros(contexts, dtype=np.int64)

    def charge(self, energy: float, running: FloatArray) -> None:
        """Set what a joule and (J,) a second of each job's running cost."""
        self._patterns = self._patterns._replace(
            cost=energy * self.pool.power_w, size=energy * self.pool.size_w
        )
        self._b = self.pool.share * running

    def _scratch(self) -> tuple[FloatArray, NDArray[np.int32], IntArray]:
        return self._gain, self._who, self._found

    def _a(self, prices: FloatArray) -> FloatArray:
        return self.pool.share * prices / self.pool.tau_s

    def best(self, prices: FloatArray) -> tuple[FloatArray, IntArray]:
        """Return (I,) the largest worth of a unit-second in each interval, rounded up, and (I,) its pattern.

        -inf and -1 where nobody is available.
        """
        out, at = np.zeros(self.intervals), np.zeros(self.intervals, dtype=np.int64)
        kernel.best_worth(
            self._lists, self._patterns, self._a(prices), self._b, self.intervals, *self._scratch(), out, at
        )
        return out, at

    def price(self, prices: FloatArray, group: IntArray, mu: FloatArray, least: float) -> Columns:
        """Return columns that are worth more than they cost.

        Parameters
        ----------
        prices
            (J,) of epochs.
        group, mu
            (I,) group of each interval, (G,) price of a unit-second in a group.
        least
            Reduced worth that a column must exceed.
        """
        count, jobs = len(self._patterns.cost), len(prices)
        by_pattern = np.full(len(mu) * count, -np.inf)
        pattern_i = np.zeros(len(mu) * count, dtype=np.int64)
        by_job = np.full(jobs, -np.inf)
        job_i, job_p = np.zeros((2, jobs), dtype=np.int64)
        a = self._a(prices)
        kernel.price(
            self._lists, self._patterns, a, self._b, group, mu, *self._scratch(),
            by_pattern, pattern_i, by_job, job_i, job_p,
        )  # fmt: skip
        good = np.flatnonzero(by_pattern > least)
        of = np.flatnonzero(by_job > least)
        interval = np.concatenate([pattern_i[good], job_i[of]])
        pattern = np.concatenate([good % count, job_p[of]])
        forced = np.concatenate([np.full(len(good), -1), of])
        return Columns(self._jobs(a, interval, pattern, forced), pattern, interval)

    def column(self, prices: FloatArray, interval: int, pattern: int) -> Columns:
        """Return the best column of a pattern in an interval."""
        i, p = np.array([interval]), np.array([pattern])
        return Columns(self._jobs(self._a(prices), i, p, np.array([-1])), p, i)

    def _jobs(self, a: FloatArray, interval: IntArray, pattern: IntArray, forced: IntArray) -> IntArray:
        out = np.full((len(interval), self.pool.pattern_classes.shape[1]), -1, dtype=np.int64)
        kernel.members(
            self._lists, self._patterns, a, self._b, interval, pattern, forced, *self._scratch(), out
        )
        return out

    def size(self) -> float:
        """Return the largest cost of a pattern's power, the scale of all reduced costs."""
        return float(self._patterns.size.max(initial=0.0))

    def cost(self, columns: Columns) -> FloatArray:
        """Return (N,) the objective of a unit-second of columns, time of their jobs included."""
        held = columns.jobs >= 0
        return np.asarray(
            self._patterns.cost[columns.pattern] + np.where(held, self._b[columns.jobs], 0.0).sum(axis=1)
        )

    def yields(self, columns: Columns) -> FloatArray:
        """Return (N, W) epochs that a unit-second of columns yields to each job, 0 beyond."""
        held = columns.jobs >= 0
        j = np.where(held, columns.jobs, 0)
        sigma = self.pool.sigma[columns.pattern]
        return np.where(held, self.pool.share[j] / (self.pool.tau_s[j] * sigma), 0.0)


def _lists(model: Configurations, pool: Pool) -> kernel.Lists:
    jobs = np.flatnonzero(pool.share > 0.0)
    classes = int(model.job_class.max(initial=0)) + 1
    spans = model.last[jobs] - model.first[jobs]
    who = np.repeat(jobs, spans)
    at = np.concatenate([np.arange(f, t) for f, t in zip(model.first[jobs], model.last[jobs], strict=True)])
    key = at.astype(np.int64) * classes + model.job_class[who]
    order = np.argsort(key, kind="stable")
    counts = np.bincount(key, minlength=classes * len(model.length_s))
    start = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    return kernel.Lists(start=start, job=who[order].astype(np.int32), classes=classes)


def _patterns(pool: Pool) -> kernel.Patterns:
    count, width = pool.pattern_classes.shape
    known: dict[tuple[int, float], int] = {}
    most: list[int] = []
    context = np.full((count, width), -1, dtype=np.int64)
    times = np.zeros((count, width), dtype=np.int64)
    for p in range(count):
        w = -1
        for k in range(width):
            c = int(pool.pattern_classes[p, k])
            if c < 0:
                break
            x = known.setdefault((c, float(pool.sigma[p, k])), len(known))
            if x == len(most):
                most.append(0)
            if w >= 0 and context[p, w] == x:
                times[p, w] += 1
            else:
                w += 1
                context[p, w], times[p, w] = x, 1
            most[x] = max(most[x], int(times[p, w]))
    return kernel.Patterns(
        context=context,
        times=times,
        cls=np.array([c for c, _ in known], dtype=np.int64),
        sigma=np.array([s for _, s in known], dtype=np.float64),
        most=np.array(most, dtype=np.int64),
        cost=np.zeros(count),
        size=np.zeros(count),
    )
