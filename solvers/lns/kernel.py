"""Compiled core of the search: what a node's plan costs, and destroy and repair on a group of nodes.

A *cell* is a GPU, or a whole node where every job takes whole nodes (``cells`` is 1 then). A node's plan is
the list of its jobs by start, each with a start and a bit mask of cells; :func:`cost_of` plays it
(docs/model.md sections 2 and 5, one node by itself) from the busy period concerned to the moment from which
nothing is changed.

Costs are in units of the objective: active less sleep power, AvgTPE, JTT, wake-ups. Jobs that found no
place stand in the *bank* at a price that no placed job has.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from eaco_opt.kernels._jit import jit

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

OPERATORS = ("random", "time", "node", "two-nodes", "worst", "pair", "related", "shift")
(RANDOM, TIME, NODE, TWO_NODES, WORST, PAIR, RELATED, SHIFT) = range(len(OPERATORS))

INF = np.inf


class Problem(NamedTuple):
    """What does not change: jobs, sets, node types. Times in seconds since the origin.

    ``release``, ``due``, ``epochs``, ``running`` (objective of a second of running), ``bank`` (objective of
    not being placed), ``cpu`` (J,); ``job_class`` (J,); ``tau`` (J, T); ``size`` (J, T) cells, 0 where it
    may not be.

    ``child``, ``without`` (S, C): set with one more or less of a class, -1 where it may not be; by type
    (T, S, C) for ``child``. ``sigma`` (S, C). ``unit_w`` (T, S) power of a node all of whose cells host the
    set; ``dynamic`` (T, S); ``kinds`` (S,) number of its multiset of kinds, ``members`` (S,) how many;
    ``measured`` (T, S) whether a uniform node is looked up.

    ``broken``: objective of a node whose plan breaks a rule, above all others.

    ``types`` (T, 8): server idle, busy minus idle, exponent, standing power of all GPUs, cells, sleep [W],
    wake-up [s], wake-up [J]. ``node_type`` (N,).
    """

    release: FloatArray
    due: FloatArray
    epochs: FloatArray
    running: FloatArray
    bank: FloatArray
    cpu: FloatArray
    job_class: IntArray
    size: IntArray
    tau: FloatArray
    child: IntArray
    without: IntArray
    sigma: FloatArray
    unit_w: FloatArray
    dynamic: FloatArray
    kinds: IntArray
    measured: IntArray
    members: IntArray
    types: FloatArray
    node_type: IntArray
    energy: float
    total: float
    slot: float
    broken: float


class Plans(NamedTuple):
    """What changes: where and when each job runs, and each node's list.

    ``start``, ``end`` (J,), ``mask`` (J,), ``node`` (J,) -1 in the bank; ``jobs`` (N, L) by start, ``held``
    (N,); ``cost`` (N,); ``before`` (N, L + 1) cost of the node before each place of its list where a busy
    period begins there, else NaN; ``last`` (N,) end of the node's last busy period, 0 without any.
    """

    start: FloatArray
    end: FloatArray
    mask: IntArray
    node: IntArray
    jobs: IntArray
    held: IntArray
    cost: FloatArray
    before: FloatArray
    last: FloatArray


class Scratch(NamedTuple):
    """Room of one thread: ``act`` (A, 2) and ``num`` (A, 4) of running jobs, ``cell`` (G,) sets."""

    act: IntArray
    num: FloatArray
    cell: IntArray
    starts: FloatArray
    masks: IntArray


@jit
def tolerance(t: float) -> float:
    """Return the tolerance of times (docs/model.md section 3)."""
    return 1e-6 + 1e-9 * abs(t)


@jit
def uniform(rng: NDArray[np.uint64]) -> float:
    """Return a number in [0, 1): splitmix64 (Steele, Lea and Flood, OOPSLA 2014)."""
    rng[0] += np.uint64(0x9E3779B97F4A7C15)
    z = rng[0]
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    return float(z >> np.uint64(11)) * (1.0 / 9007199254740992.0)


@jit
def below(rng: NDArray[np.uint64], n: int) -> int:
    """Return a whole number in 0 to n - 1."""
    return min(n - 1, int(uniform(rng) * n))


@jit
def cost_of(
    p: Problem,
    s: Plans,
    w: Scratch,
    n: int,
    x: int,
    sx: float,
    mx: int,
    skip: int,
    limit: float,
    keep: bool,
) -> float:
    """Return the cost of node ``n`` with job ``x`` added and ``skip`` left out (-1: none); inf: infeasible.

    Parameters
    ----------
    sx, mx
        Start and mask of ``x``.
    limit
        A cost above this may be returned as infinity.
    keep
        Play the whole list, and store ends, costs and busy periods.
    """
    held = s.held[n]
    kind = p.node_type[n]
    cells = int(p.types[kind, 4])
    idle, swing, power_of, standing = p.types[kind, 0], p.types[kind, 1], p.types[kind, 2], p.types[kind, 3]
    sleep, wake_s, wake_j = p.types[kind, 5], p.types[kind, 6], p.types[kind, 7]
    tau = p.tau
    first = 0
    total = 0.0
    if not keep:
        # From the last busy period that begins before anything changes.
        at = sx
        if skip >= 0 and (x < 0 or s.start[skip] < at):
            at = s.start[skip]
        for i in range(held - 1, -1, -1):
            b = s.before[n, i]
            if not np.isnan(b) and s.start[s.jobs[n, i]] <= at:
                first, total = i, b
                break
    prev_end = -INF
    if first > 0 and wake_s + wake_j > 0.0:
        for i in range(first):
            prev_end = max(prev_end, s.end[s.jobs[n, i]])
    for c in range(cells):
        w.cell[c] = 0
    na = 0
    i = first
    pending = x >= 0
    passed = skip < 0
    t = 0.0
    watts = 0.0
    begun = 0.0
    woken = True
    while True:
        if i < held and s.jobs[n, i] == skip:
            passed = True
            i += 1
        ts = INF
        js = -1
        if i < held:
            js = s.jobs[n, i]
            ts = s.start[js]
        new = False
        if pending and (sx < ts or (sx == ts and x < js)):
            js, ts, new = x, sx, True
        if na == 0:
            if js < 0:
                break
            if not keep and not pending and not new and passed and wake_s + wake_j == 0.0:
                b = s.before[n, i]
                if not np.isnan(b):
                    return float(total + (s.cost[n] - b))
        te = INF
        je = -1
        for a in range(na):
            if w.num[a, 2] < te or (w.num[a, 2] == te and w.act[a, 0] < w.act[je, 0]):
                te = w.num[a, 2]
                je = a
        if na > 0 and te <= ts + 1e-6:
            j = w.act[je, 0]
            if te > p.due[j] + tolerance(te):
                return INF
            dt = te - t
            if dt > 0.0:
                total += p.energy * watts * dt
                for a in range(na):
                    w.num[a, 0] += w.num[a, 1] * dt
            t = te
            total += p.running[j] * (te - w.num[je, 3]) + p.total * te
            if keep:
                s.end[j] = te
            cls = p.job_class[j]
            m = w.act[je, 1]
            for c in range(cells):
                if (m >> c) & 1:
                    w.cell[c] = p.without[w.cell[c], cls]
            na -= 1
            w.act[je, 0] = w.act[na, 0]
            w.act[je, 1] = w.act[na, 1]
            for q in range(4):
                w.num[je, q] = w.num[na, q]
            if na == 0:
                if not woken:
                    return INF
                prev_end = te
                continue
        else:
            at_start = ts
            if na > 0:
                at_start = max(ts, t)
                dt = at_start - t
                if dt > 0.0:
                    total += p.energy * watts * dt
                    for a in range(na):
                        w.num[a, 0] += w.num[a, 1] * dt
                    if not woken and at_start - begun > tolerance(at_start):
                        return INF
            else:
                if keep:
                    s.before[n, i] = total
                resumed = ts - prev_end <= tolerance(ts)
                if prev_end > at_start:
                    at_start = prev_end
                begun = at_start
                if wake_s + wake_j > 0.0 and not resumed:
                    span = ts - max(ts - wake_s, max(prev_end, 0.0))
                    total += p.energy * ((idle + standing - sleep) * max(0.0, span) + wake_j)
                    woken = wake_s <= 0.0
                else:
                    woken = True
            t = at_start
            if wake_s > 0.0 and p.release[js] + wake_s <= t + tolerance(t):
                woken = True
            if keep and na > 0:
                s.before[n, i] = np.nan
            cls = p.job_class[js]
            m = mx if new else s.mask[js]
            for c in range(cells):
                if (m >> c) & 1:
                    child = p.child[kind, w.cell[c], cls]
                    if child < 0:
                        return INF
                    w.cell[c] = child
            w.act[na, 0] = js
            w.act[na, 1] = m
            w.num[na, 0] = 0.0
            w.num[na, 3] = t
            na += 1
            if new:
                pending = False
            else:
                i += 1
        if total > limit:
            return INF
        # New powers, speeds and ends.
        if cells == 1:
            q0 = w.cell[0]
            watts = p.unit_w[kind, q0] - sleep
            for a in range(na):
                j = w.act[a, 0]
                w.num[a, 1] = 1.0 / (tau[j, kind] * p.sigma[q0, p.job_class[j]])
        else:
            q0 = w.cell[0]
            same = True
            dyn = 0.0
            for c in range(cells):
                q = w.cell[c]
                same = same and p.kinds[q] == p.kinds[q0]
                dyn += p.dynamic[kind, q]
            if same and p.members[q0] > 0 and p.measured[kind, q0] > 0:
                watts = p.unit_w[kind, q0] - sleep
            else:
                cpu = 0.0
                for a in range(na):
                    cpu += p.cpu[w.act[a, 0]] * p.size[w.act[a, 0], kind]
                cpu = min(1.0, cpu / cells)
                watts = idle + standing + dyn - sleep
                if cpu > 0.0:
                    watts += swing * (2.0 * cpu - cpu**power_of)
            for a in range(na):
                j = w.act[a, 0]
                m = w.act[a, 1]
                cls = p.job_class[j]
                worst = 0.0
                for c in range(cells):
                    if (m >> c) & 1:
                        worst = max(worst, p.sigma[w.cell[c], cls])
                w.num[a, 1] = 1.0 / (tau[j, kind] * worst)
        for a in range(na):
            j = w.act[a, 0]
            if p.slot > 0.0:
                left = p.epochs[j] * (1.0 - 1e-9) - w.num[a, 0]
                if left <= 0.0:
                    w.num[a, 2] = t
                else:
                    k = np.ceil((t + left / w.num[a, 1]) / p.slot)
                    w.num[a, 2] = max(k, np.floor(t / p.slot + 0.5) + 1.0) * p.slot
            else:
                w.num[a, 2] = t + max(0.0, p.epochs[j] - w.num[a, 0]) / w.num[a, 1]
    if keep:
        s.cost[n] = total
        s.last[n] = max(prev_end, 0.0)
    return total


@jit
def insert(p: Problem, s: Plans, w: Scratch, n: int, j: int, start: float, mask: int) -> None:
    """Put job ``j`` into the list of node ``n``; its feasibility was seen before."""
    at = s.held[n]
    while at > 0 and (
        s.start[s.jobs[n, at - 1]] > start or (s.start[s.jobs[n, at - 1]] == start and s.jobs[n, at - 1] > j)
    ):
        s.jobs[n, at] = s.jobs[n, at - 1]
        at -= 1
    s.jobs[n, at] = j
    s.held[n] += 1
    s.node[j] = n
    s.start[j] = start
    s.mask[j] = mask
    if cost_of(p, s, w, n, -1, 0.0, 0, -1, INF, True) == INF:
        s.cost[n] = p.broken
        for i in range(s.held[n]):
            s.before[n, i] = np.nan


@jit
def remove(p: Problem, s: Plans, w: Scratch, j: int) -> None:
    """Take job ``j`` off its node, into the bank."""
    n = s.node[j]
    at = 0
    while s.jobs[n, at] != j:
        at += 1
    for i in range(at, s.held[n] - 1):
        s.jobs[n, i] = s.jobs[n, i + 1]
    s.held[n] -= 1
    s.node[j] = -1
    if cost_of(p, s, w, n, -1, 0.0, 0, -1, INF, True) == INF:
        # Without it another is too late, or the node is not awake in time: nothing is known of such a node.
        s.cost[n] = p.broken
        for i in range(s.held[n]):
            s.before[n, i] = np.nan


@jit
def spans(p: Problem, s: Plans, w: Scratch, n: int, j: int, rng: NDArray[np.uint64], most: int) -> int:
    """Fill ``w.starts`` with starts of job ``j`` on node ``n`` worth trying; return how many.

    The cost is piecewise smooth in the start, with kinks where an end or start of one job meets another's:
    its release, its latest start, starts and ends of the node's jobs, and starts from which its run, alone
    or at the pace it has with one partner, ends at these.
    """
    kind = p.node_type[n]
    tau = p.tau[j, kind]
    run = p.epochs[j] * tau
    low = p.release[j]
    high = p.due[j] - run
    if p.slot > 0.0:
        low = np.ceil((low - 0.5e-6) / p.slot) * p.slot
        high = np.floor((p.due[j] + 1e-6) / p.slot - np.ceil(run * (1.0 - 1e-9) / p.slot)) * p.slot
    if not high < INF:
        high = max(low, s.last[n]) + run
        if p.slot > 0.0:
            high = np.ceil(high / p.slot) * p.slot
    fast = run
    cls = p.job_class[j]
    room = len(w.starts)
    k = 0
    w.starts[k] = low
    k += 1
    if high < low - 1e-6:
        # Alone it cannot be in time; with company that makes it faster it may be.
        return k
    if high > low:
        w.starts[k] = high
        k += 1
    if p.slot > 0.0 and (high - low) / p.slot <= most:
        t = low + p.slot
        while t < high - 0.5 * p.slot and k < room:
            w.starts[k] = t
            k += 1
            t += p.slot
    else:
        for i in range(s.held[n]):
            o = s.jobs[n, i]
            a, b = s.start[o], s.end[o]
            if a > p.due[j] or b < low:
                continue
            both = p.child[kind, p.child[kind, 0, p.job_class[o]], cls]
            slow = fast * (p.sigma[both, cls] if both >= 0 else 1.0)
            for q in range(6):
                if q == 0:
                    t = a
                elif q == 1:
                    t = b
                elif q == 2:
                    t = a - fast
                elif q == 3:
                    t = b - fast
                elif q == 4:
                    t = b - slow
                else:
                    t = a - slow
                if p.slot > 0.0:
                    t = np.floor(t / p.slot + 1e-9) * p.slot
                if low < t < high and k < room:
                    w.starts[k] = t
                    k += 1
    if k > most:
        # Keep the two ends of the window, draw the others.
        for i in range(2, most):
            at = i + below(rng, k - i)
            t = w.starts[i]
            w.starts[i] = w.starts[at]
            w.starts[at] = t
        k = most
    return k


@jit
def sets_of_cells(
    p: Problem, s: Plans, w: Scratch, n: int, j: int, t: float, rng: NDArray[np.uint64], most: int
) -> int:
    """Fill ``w.masks`` with sets of cells for a start at ``t`` worth trying; return how many.

    Cells that host the same jobs about that time are alike. A set takes the cells of one job that is or
    will be there first, or empty ones, and fills up with those that host the fewest or the most jobs.
    """
    kind = p.node_type[n]
    cells = int(p.types[kind, 4])
    size = p.size[j, kind]
    if size == cells:
        w.masks[0] = (1 << cells) - 1
        return 1
    end = t + p.epochs[j] * p.tau[j, kind]
    for c in range(cells):
        w.cell[c] = 0
    used = 0
    primary = len(w.masks) // 2
    k = 0
    for i in range(s.held[n]):
        o = s.jobs[n, i]
        if s.start[o] >= end:
            break
        if s.end[o] <= t + 1e-6:
            continue
        m = s.mask[o]
        for c in range(cells):
            if (m >> c) & 1:
                w.cell[c] += 1
        used |= m
        if k < primary - 2:
            seen = False
            for q in range(k):
                seen = seen or w.masks[primary + q] == m
            if not seen:
                w.masks[primary + k] = m
                k += 1
    free = ((1 << cells) - 1) & ~used
    if free:
        w.masks[primary + k] = free
        k += 1
    if k == 0:
        w.masks[primary] = free
        k = 1
    out = 0
    for q in range(k):
        first = w.masks[primary + q]
        for order in range(2):
            mask = 0
            left = size
            # From the primary cells, the fullest first, so that what is left of them stays whole.
            for want in range(2):
                while left > 0:
                    best = -1
                    for c in range(cells):
                        inside = (first >> c) & 1
                        if (mask >> c) & 1 or (inside == 1) != (want == 0):
                            continue
                        if (
                            best < 0
                            or (order == 0 and w.cell[c] < w.cell[best])
                            or (order == 1 and w.cell[c] > w.cell[best])
                        ):
                            best = c
                    if best < 0:
                        break
                    mask |= 1 << best
                    left -= 1
            seen = False
            for z in range(out):
                seen = seen or w.masks[z] == mask
            if not seen and out < primary:
                w.masks[out] = mask
                out += 1
    if out > most:
        for i in range(most):
            at = i + below(rng, out - i)
            m = w.masks[i]
            w.masks[i] = w.masks[at]
            w.masks[at] = m
        out = most
    return out


@jit
def best_place(
    p: Problem,
    s: Plans,
    w: Scratch,
    n: int,
    j: int,
    rng: NDArray[np.uint64],
    starts: int,
    masks: int,
    found: FloatArray,
    found_mask: IntArray,
    counter: IntArray,
) -> float:
    """Return the least rise of cost for which node ``n`` takes job ``j``, infinity if it cannot.

    ``found`` and ``found_mask`` (1,) get start and mask; ``counter`` counts insertions tried.
    """
    kind = p.node_type[n]
    if p.size[j, kind] == 0 or p.child[kind, 0, p.job_class[j]] < 0 or s.held[n] >= s.jobs.shape[1]:
        return INF
    best = INF
    k = spans(p, s, w, n, j, rng, starts)
    for i in range(k):
        t = w.starts[i]
        m = sets_of_cells(p, s, w, n, j, t, rng, masks)
        for q in range(m):
            counter[0] += 1
            mask = w.masks[q]
            cost = cost_of(p, s, w, n, j, t, mask, -1, s.cost[n] + best, False) - s.cost[n]
            if cost < best:
                best = cost
                found[0] = t
                found_mask[0] = mask
    return best


@jit
def fine(
    p: Problem,
    s: Plans,
    w: Scratch,
    j: int,
    rng: NDArray[np.uint64],
    tries: int,
    counter: IntArray,
) -> float:
    """Shift the start of a placed job by smaller and smaller steps; return the change of cost."""
    n = s.node[j]
    kind = p.node_type[n]
    before = s.cost[n]
    best, at = before, s.start[j]
    step = (0.05 + 0.5 * uniform(rng)) * p.epochs[j] * p.tau[j, kind]
    if p.slot > 0.0:
        step = p.slot * (1 + below(rng, 3))
    for _ in range(tries):
        better = False
        for sign in (-1.0, 1.0):
            t = at + sign * step
            if t < p.release[j] - 1e-9:
                t = p.release[j]
                if p.slot > 0.0:
                    continue
            counter[0] += 1
            cost = cost_of(p, s, w, n, j, t, s.mask[j], j, best, False)
            if cost < best - 1e-15:
                best, at, better = cost, t, True
                break
        if not better:
            if p.slot > 0.0:
                break
            step *= 0.4
    if best < before - 1e-15:
        mask = s.mask[j]
        remove(p, s, w, j)
        insert(p, s, w, n, j, at, mask)
        return float(s.cost[n] - before)
    return 0.0


class Group(NamedTuple):
    """A part of the cluster that is searched by itself: M nodes, B jobs, at most Q removed at once.

    ``nodes`` (M,), ``local`` (N,) place of a node among them; ``jobs`` (B,) movable jobs on them or in the
    bank; ``ideal`` (J,) cost of each job in the best company. ``best_start``, ``best_mask``, ``best_node``
    (J,) the best plan. ``old_*``: what is put back; ``cost``, ``start``, ``mask`` (Q, M) of insertions;
    ``removed`` (Q,); ``key`` (B,). ``weight``, ``score``, ``uses`` (operators,).
    """

    nodes: IntArray
    local: IntArray
    jobs: IntArray
    ideal: FloatArray
    best_start: FloatArray
    best_mask: IntArray
    best_node: IntArray
    old_jobs: IntArray
    old_end: FloatArray
    old_held: IntArray
    old_cost: FloatArray
    old_before: FloatArray
    old_last: FloatArray
    old_start: FloatArray
    old_mask: IntArray
    old_node: IntArray
    touched: IntArray
    cost: FloatArray
    start: FloatArray
    mask: IntArray
    removed: IntArray
    key: FloatArray
    weight: FloatArray
    score: FloatArray
    uses: FloatArray
    place: FloatArray
    place_mask: IntArray


@jit
def touch(s: Plans, g: Group, n: int) -> None:
    """Note what node ``n`` is like before it is changed for the first time in this iteration."""
    m = g.local[n]
    if g.touched[m]:
        return
    g.touched[m] = 1
    g.old_held[m] = s.held[n]
    g.old_cost[m] = s.cost[n]
    g.old_last[m] = s.last[n]
    for i in range(s.held[n]):
        j = s.jobs[n, i]
        g.old_jobs[m, i] = j
        g.old_end[m, i] = s.end[j]
        g.old_before[m, i] = s.before[n, i]


@jit
def put_back(s: Plans, g: Group, q: int) -> None:
    """Undo an iteration that removed ``q`` jobs."""
    for m in range(len(g.nodes)):
        if g.touched[m]:
            n = g.nodes[m]
            s.held[n] = g.old_held[m]
            s.cost[n] = g.old_cost[m]
            s.last[n] = g.old_last[m]
            for i in range(g.old_held[m]):
                j = g.old_jobs[m, i]
                s.jobs[n, i] = j
                s.end[j] = g.old_end[m, i]
                s.before[n, i] = g.old_before[m, i]
    for r in range(q):
        j = g.removed[r]
        s.start[j] = g.old_start[r]
        s.mask[j] = g.old_mask[r]
        s.node[j] = g.old_node[r]


@jit
def value_of(p: Problem, s: Plans, g: Group, asleep: float, others_end: float) -> float:
    """Return the objective of a group: nodes, jobs in the bank, and all nodes' sleep power to the end."""
    total = 0.0
    end = others_end
    for m in range(len(g.nodes)):
        total += s.cost[g.nodes[m]]
        end = max(end, s.last[g.nodes[m]])
    for b in range(len(g.jobs)):
        if s.node[g.jobs[b]] < 0:
            total += p.bank[g.jobs[b]]
    return total + asleep * end


@jit
def keep_best(s: Plans, g: Group) -> None:
    """Note the present plan of the group as its best."""
    for b in range(len(g.jobs)):
        j = g.jobs[b]
        g.best_start[j] = s.start[j]
        g.best_mask[j] = s.mask[j]
        g.best_node[j] = s.node[j]


@jit
def nearest(g: Group, q: int, taken: int) -> int:
    """Add the jobs of the least keys to the removed ones until there are ``q``; infinite keys stay."""
    while taken < q:
        best = -1
        for b in range(len(g.jobs)):
            if g.key[b] < INF and (best < 0 or g.key[b] < g.key[best]):
                best = b
        if best < 0:
            break
        g.removed[taken] = g.jobs[best]
        g.key[best] = INF
        taken += 1
    return taken


@jit
def destroy(p: Problem, s: Plans, w: Scratch, g: Group, rng: NDArray[np.uint64], op: int, q: int) -> int:
    """Choose jobs to remove by an operator, fill ``g.removed``, and return how many."""
    count = len(g.jobs)
    for b in range(count):
        g.key[b] = INF
    seed = -1
    for _ in range(20):
        j = g.jobs[below(rng, count)]
        if s.node[j] >= 0:
            seed = j
            break
    taken = 0
    if seed < 0:
        return 0
    if op == RANDOM:
        for b in range(count):
            if s.node[g.jobs[b]] >= 0:
                g.key[b] = uniform(rng)
    elif op == TIME:
        t0 = s.start[seed] + uniform(rng) * (s.end[seed] - s.start[seed])
        for b in range(count):
            j = g.jobs[b]
            if s.node[j] >= 0:
                far = max(0.0, max(s.start[j] - t0, t0 - s.end[j]))
                g.key[b] = far + uniform(rng) * 0.5 * (s.end[j] - s.start[j])
    elif op in (NODE, TWO_NODES):
        n1 = s.node[seed]
        n2 = n1
        if op == TWO_NODES:
            for _ in range(10):
                n2 = g.nodes[below(rng, len(g.nodes))]
                if n2 != n1 and s.held[n2] > 0:
                    break
        t0 = s.start[seed] + uniform(rng) * (s.end[seed] - s.start[seed])
        for b in range(count):
            j = g.jobs[b]
            if s.node[j] == n1 or (s.node[j] == n2 and s.node[j] >= 0):
                g.key[b] = max(0.0, max(s.start[j] - t0, t0 - s.end[j])) + 1e-3 * uniform(rng)
    elif op == WORST:
        for _ in range(4 * q):
            b = below(rng, count)
            j = g.jobs[b]
            if s.node[j] >= 0 and g.key[b] == INF:
                n = s.node[j]
                gain = s.cost[n] - cost_of(p, s, w, n, -1, 0.0, 0, j, INF, False)
                g.key[b] = -(gain - g.ideal[j]) * (0.7 + 0.3 * uniform(rng))
    elif op == PAIR:
        n = s.node[seed]
        for b in range(count):
            j = g.jobs[b]
            if (
                s.node[j] == n
                and s.mask[j] & s.mask[seed]
                and s.start[j] < s.end[seed]
                and s.end[j] > s.start[seed]
            ):
                g.key[b] = uniform(rng)
    else:
        length = max(1.0, p.due[seed] - p.release[seed]) if p.due[seed] < INF else 1e5
        for b in range(count):
            j = g.jobs[b]
            if s.node[j] >= 0:
                far = abs(p.release[j] - p.release[seed]) / length
                if p.due[j] < INF and p.due[seed] < INF:
                    far += abs(p.due[j] - p.due[seed]) / length
                if p.job_class[j] != p.job_class[seed]:
                    far += 0.3
                g.key[b] = far * (0.5 + uniform(rng))
    return nearest(g, q, taken)


@jit
def repair(
    p: Problem,
    s: Plans,
    w: Scratch,
    g: Group,
    rng: NDArray[np.uint64],
    q: int,
    regret: int,
    noise: float,
    starts: int,
    masks: int,
    counter: IntArray,
) -> None:
    """Insert the removed jobs where they cost least: by largest regret (2, 3), or in the order given (1)."""
    nodes = len(g.nodes)
    for r in range(q):
        for m in range(nodes):
            g.cost[r, m] = np.nan
    placed = 0
    for r in range(q):
        g.key[r] = 0.0
    while placed < q:
        pick = -1
        best_key = -INF
        pick_m = -1
        for r in range(q):
            if g.key[r] != 0.0:
                continue
            j = g.removed[r]
            first, second, third = INF, INF, INF
            at = -1
            idle = -1
            for m in range(nodes):
                n = g.nodes[m]
                if np.isnan(g.cost[r, m]):
                    if s.held[n] == 0 and idle >= 0 and p.node_type[n] == p.node_type[g.nodes[idle]]:
                        g.cost[r, m] = g.cost[r, idle]
                        g.start[r, m] = g.start[r, idle]
                        g.mask[r, m] = g.mask[r, idle]
                    else:
                        g.cost[r, m] = best_place(
                            p, s, w, n, j, rng, starts, masks, g.place, g.place_mask, counter
                        )
                        g.start[r, m] = g.place[0]
                        g.mask[r, m] = g.place_mask[0]
                        if noise > 0.0:
                            g.cost[r, m] *= 1.0 + noise * (uniform(rng) - 0.5)
                    if s.held[n] == 0 and idle < 0:
                        idle = m
                c = g.cost[r, m]
                if c < first:
                    third = second
                    second = first
                    first = c
                    at = m
                elif c < second:
                    third = second
                    second = c
                elif c < third:
                    third = c
            if at < 0:
                g.key[r] = 2.0  # no place now, and more jobs leave no more room
                placed += 1
                continue
            if regret <= 1:
                pick, pick_m = r, at
                break
            big = p.bank[j]
            key = min(second, big) - first
            if regret > 2:
                key += min(third, big) - first
            if key > best_key:
                best_key = key
                pick = r
                pick_m = at
        if pick < 0:
            break
        j = g.removed[pick]
        n = g.nodes[pick_m]
        touch(s, g, n)
        insert(p, s, w, n, j, g.start[pick, pick_m], g.mask[pick, pick_m])
        g.key[pick] = 1.0
        placed += 1
        for r in range(q):
            g.cost[r, pick_m] = np.nan
        # What stood for other idle nodes of the type holds on: one of them is still idle, or none is.


@jit
def search(
    p: Problem,
    s: Plans,
    w: Scratch,
    g: Group,
    rng: NDArray[np.uint64],
    iterations: int,
    hot: float,
    cold: float,
    most: int,
    starts: int,
    masks: int,
    asleep: float,
    others_end: float,
    allowed: IntArray,
    counter: IntArray,
) -> float:
    """Destroy and repair a group; leave the best plan in ``g.best_*`` and return its objective.

    Parameters
    ----------
    hot, cold
        Temperatures (in the objective) of the annealed acceptance at the beginning and the end.
    most
        Most jobs removed at once.
    starts, masks
        Most starts on a node, and most sets of cells for a start, that are tried.
    asleep, others_end
        Objective of one second of all nodes' sleep power, and the last end outside the group.
    allowed
        (operators,) 1 where an operator may be used.
    """
    value = value_of(p, s, g, asleep, others_end)
    best = value
    keep_best(s, g)
    for it in range(iterations):
        share = it / max(1, iterations)
        heat = hot * (cold / hot) ** share if hot > 0.0 and cold > 0.0 else 0.0
        total = 0.0
        for op in range(len(g.weight)):
            total += g.weight[op] * allowed[op]
        at = uniform(rng) * total
        op = 0
        for k in range(len(g.weight)):
            if allowed[k]:
                op = k
                at -= g.weight[k]
                if at < 0.0:
                    break
        for m in range(len(g.nodes)):
            g.touched[m] = 0
        bound = min(most, len(g.jobs))
        q = 1 + below(rng, bound)
        if uniform(rng) < 0.5:
            q = 1 + below(rng, min(bound, 4))
        if op == SHIFT:
            q = 0
            for _ in range(3):
                j = g.jobs[below(rng, len(g.jobs))]
                if s.node[j] >= 0:
                    fine(p, s, w, j, rng, 12, counter)
            # Shifts never make a node dearer, so there is nothing to put back.
            new = value_of(p, s, g, asleep, others_end)
        else:
            q = destroy(p, s, w, g, rng, op, q)
            for b in range(len(g.jobs)):
                if s.node[g.jobs[b]] < 0 and q < len(g.removed):
                    g.removed[q] = g.jobs[b]
                    q += 1
            for r in range(q):
                j = g.removed[r]
                g.old_start[r] = s.start[j]
                g.old_mask[r] = s.mask[j]
                g.old_node[r] = s.node[j]
            for r in range(q):
                j = g.removed[r]
                if s.node[j] >= 0:
                    touch(s, g, s.node[j])
                    remove(p, s, w, j)
            for r in range(q - 1, 0, -1):
                k = below(rng, r + 1)
                j = g.removed[r]
                g.removed[r] = g.removed[k]
                g.removed[k] = j
                a, b2, c = g.old_start[r], g.old_mask[r], g.old_node[r]
                g.old_start[r], g.old_mask[r], g.old_node[r] = g.old_start[k], g.old_mask[k], g.old_node[k]
                g.old_start[k], g.old_mask[k], g.old_node[k] = a, b2, c
            noise = 0.1 if uniform(rng) < 0.3 else 0.0
            repair(p, s, w, g, rng, q, 1 + below(rng, 3), noise, starts, masks, counter)
            new = value_of(p, s, g, asleep, others_end)
        points = 0.0
        if new < best - 1e-13:
            best = new
            value = new
            keep_best(s, g)
            points = 6.0
        elif new < value - 1e-13:
            value = new
            points = 2.0
        elif new <= value - heat * np.log(1.0 - uniform(rng)):
            value = new
            points = 0.5
        elif op != SHIFT:
            put_back(s, g, q)
        g.score[op] += points
        g.uses[op] += 1.0
        if it % 200 == 199:
            for k in range(len(g.weight)):
                if g.uses[k] > 0.0:
                    g.weight[k] = max(
                        0.2, 0.7 * g.weight[k] + 0.3 * min(5.0, 3.0 * g.score[k] / g.uses[k] + 0.2)
                    )
                g.score[k] = 0.0
                g.uses[k] = 0.0
    return best


@jit
def rebuild(
    p: Problem, s: Plans, w: Scratch, start: FloatArray, mask: IntArray, node: IntArray, order: IntArray
) -> int:
    """Set all nodes' lists from a plan; return the first job that does not fit, -1 if all do.

    ``order`` (J,) jobs by start. A job that does not fit is put into the bank.
    """
    for n in range(len(s.held)):
        s.held[n] = 0
    bad = -1
    for k in range(len(order)):
        j = order[k]
        s.start[j] = start[j]
        s.mask[j] = mask[j]
        s.node[j] = node[j]
        n = node[j]
        if n >= 0:
            if s.held[n] >= s.jobs.shape[1]:
                s.node[j] = -1
                bad = j
                continue
            s.jobs[n, s.held[n]] = j
            s.held[n] += 1
    for n in range(len(s.held)):
        cost = cost_of(p, s, w, n, -1, 0.0, 0, -1, INF, True)
        if cost == INF:
            # Play job after job, and leave out the first that breaks a rule, until none does.
            held = s.held[n]
            s.held[n] = 0
            for i in range(held):
                j = s.jobs[n, i]
                s.jobs[n, s.held[n]] = j
                s.held[n] += 1
                if cost_of(p, s, w, n, -1, 0.0, 0, -1, INF, True) == INF:
                    s.held[n] -= 1
                    s.node[j] = -1
                    bad = j
            cost_of(p, s, w, n, -1, 0.0, 0, -1, INF, True)
    return bad
