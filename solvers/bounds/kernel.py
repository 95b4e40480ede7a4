"""Pricing of patterns as compiled code: the best available jobs for each multiset of classes and interval.

A *context* is a class with a slowdown that its jobs have in some pattern. The gain of a second that job j
spends there is ``a[j] / sigma - b[j]`` (:mod:`formulations.configurations`: a = q pi / tau, b = q running);
jobs of one class with one slowdown are ranked by it, and a pattern takes the first of each of its contexts.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from eaco_opt.kernels._jit import jit

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
ShortArray = NDArray[np.int32]


class Lists(NamedTuple):
    """Who is available when: of interval i and class c, ``job[start[i * C + c] : start[i * C + c + 1]]``."""

    start: IntArray
    job: ShortArray
    classes: int


class Patterns(NamedTuple):
    """P patterns of up to W contexts each, and X contexts.

    ``context`` (P, W) and ``times`` (P, W): a pattern's contexts, -1 beyond, and how many jobs it takes of
    each. ``cls``, ``sigma``, ``most`` (X,): class and slowdown of a context, and the most that any pattern
    takes of it. ``cost`` (P,): objective of a second without the jobs' own time; ``size`` (P,): of what it
    is a difference.
    """

    context: IntArray
    times: IntArray
    cls: IntArray
    sigma: FloatArray
    most: IntArray
    cost: FloatArray
    size: FloatArray


@jit
def rank(
    lists: Lists,
    p: Patterns,
    a: FloatArray,
    b: FloatArray,
    i: int,
    gain: FloatArray,
    who: ShortArray,
    found: IntArray,
) -> None:
    """Fill the best gains (X, W) and jobs (X, W) of each context in interval i; ``found`` says how many."""
    for x in range(len(p.cls)):
        low = lists.start[i * lists.classes + p.cls[x]]
        high = lists.start[i * lists.classes + p.cls[x] + 1]
        most = p.most[x]
        inverse = 1.0 / p.sigma[x]
        n = 0
        for e in range(low, high):
            j = lists.job[e]
            g = a[j] * inverse - b[j]
            if n == most and g <= gain[x, n - 1]:
                continue
            at = n if n < most else most - 1
            while at > 0 and gain[x, at - 1] < g:
                gain[x, at] = gain[x, at - 1]
                who[x, at] = who[x, at - 1]
                at -= 1
            gain[x, at] = g
            who[x, at] = j
            if n < most:
                n += 1
        found[x] = n


@jit
def worth(p: Patterns, gain: FloatArray, found: IntArray, row: int) -> float:
    """Return the gains of a pattern's best jobs less its cost, minus infinity without enough jobs."""
    value = -p.cost[row]
    for w in range(p.context.shape[1]):
        x = p.context[row, w]
        if x < 0:
            break
        if found[x] < p.times[row, w]:
            return -np.inf
        for k in range(p.times[row, w]):
            value += gain[x, k]
    return float(value)


@jit
def safe_worth(p: Patterns, b: FloatArray, gain: FloatArray, who: ShortArray, row: int) -> float:
    """Return what rounding may have taken off :func:`worth`, at most.

    Some twenty operations lie behind each term, each off by at most one unit in 2**52 of it.
    """
    size = p.size[row]
    for w in range(p.context.shape[1]):
        x = p.context[row, w]
        if x < 0:
            break
        for k in range(p.times[row, w]):
            size += abs(gain[x, k]) + 2.0 * b[who[x, k]]
    return float(64.0 * 2.220446049250313e-16 * size)


@jit
def best_worth(
    lists: Lists,
    p: Patterns,
    a: FloatArray,
    b: FloatArray,
    intervals: int,
    gain: FloatArray,
    who: ShortArray,
    found: IntArray,
    out: FloatArray,
    at: IntArray,
) -> None:
    """Fill (I,) the largest worth of any pattern in each interval, rounded up, and its pattern.

    Minus infinity and -1 where nobody is available.
    """
    for i in range(intervals):
        rank(lists, p, a, b, i, gain, who, found)
        best = -np.inf
        at[i] = -1
        for row in range(len(p.cost)):
            value = worth(p, gain, found, row)
            if value > -np.inf:
                value += safe_worth(p, b, gain, who, row)
            if value > best:
                best = value
                at[i] = row
        out[i] = best


@jit
def price(
    lists: Lists,
    p: Patterns,
    a: FloatArray,
    b: FloatArray,
    group: IntArray,
    mu: FloatArray,
    gain: FloatArray,
    who: ShortArray,
    found: IntArray,
    by_pattern: FloatArray,
    pattern_i: IntArray,
    by_job: FloatArray,
    job_i: IntArray,
    job_p: IntArray,
) -> None:
    """Find the best columns: of each group of intervals by pattern, and of each job.

    Parameters
    ----------
    group, mu
        (I,) group of each interval, (G,) price of a unit-second in it.
    by_pattern, pattern_i
        (G * P,) reduced worth and interval of the best column of each group and pattern; come with -inf.
    by_job, job_i, job_p
        (J,) reduced worth, interval and pattern of the best column with each job; come with -inf.
    """
    count = len(p.cost)
    for i in range(len(group)):
        rank(lists, p, a, b, i, gain, who, found)
        g = group[i]
        for row in range(count):
            value = worth(p, gain, found, row)
            if value == -np.inf:
                continue
            reduced = value - mu[g]
            k = g * count + row
            if reduced > by_pattern[k]:
                by_pattern[k] = reduced
                pattern_i[k] = i
            for w in range(p.context.shape[1]):
                x = p.context[row, w]
                if x < 0:
                    break
                times = p.times[row, w]
                least = gain[x, times - 1]
                inverse = 1.0 / p.sigma[x]
                low = lists.start[i * lists.classes + p.cls[x]]
                high = lists.start[i * lists.classes + p.cls[x] + 1]
                for e in range(low, high):
                    j = lists.job[e]
                    # Who is not among the best takes the place of the last of them.
                    own = reduced - max(0.0, least - (a[j] * inverse - b[j]))
                    if own > by_job[j]:
                        by_job[j] = own
                        job_i[j] = i
                        job_p[j] = row


@jit
def members(
    lists: Lists,
    p: Patterns,
    a: FloatArray,
    b: FloatArray,
    interval: IntArray,
    pattern: IntArray,
    forced: IntArray,
    gain: FloatArray,
    who: ShortArray,
    found: IntArray,
    out: IntArray,
) -> None:
    """Fill ``out`` (N, K), -1 beyond, with the jobs of columns: the best ones, but for a ``forced`` job."""
    for n in range(len(interval)):
        i, row, job = interval[n], pattern[n], forced[n]
        rank(lists, p, a, b, i, gain, who, found)
        k = 0
        for w in range(p.context.shape[1]):
            x = p.context[row, w]
            if x < 0:
                break
            has = False
            for m in range(p.times[row, w]):
                out[n, k] = who[x, m]
                has = has or who[x, m] == job
                k += 1
            if job >= 0 and not has:
                low = lists.start[i * lists.classes + p.cls[x]]
                high = lists.start[i * lists.classes + p.cls[x] + 1]
                for e in range(low, high):
                    if lists.job[e] == job:
                        out[n, k - 1] = job
