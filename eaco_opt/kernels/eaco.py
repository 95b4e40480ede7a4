"""EaCO's search for a GPU set, compiled: candidates, their order, and the deadline test.

See docs/model.md section 8. Capacity (memory, K, utilisation, exclusiveness, no
observation under way) is checked GPU by GPU; GPUs of a node that host the same jobs
are interchangeable, so that each split of the request over such groups is one
candidate. The deadline test plays the jobs connected with the newcomer forward with
the slowdowns of the history.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ._jit import inlined, jit
from .physics import MISS_CLASS, MISS_SET, FloatArray, IntArray, Sets, State, View, child, member_sigma

FOUND, NONE, MISSING, FULL = 1, 0, -1, -2
"""Return codes of `find_candidate` and `open_requests`."""


@inlined
def _joinable(
    view: View,
    sets: Sets,
    state: State,
    sigma: FloatArray,
    observed: NDArray[np.bool_],
    gpu: int,
    cls: int,
    u_limit: float,
    existing: bool,
) -> int:
    """Return 1 if a job of a class may join a GPU, 0 if not, -1 if the set was never met."""
    if observed[gpu]:
        return 0
    s = state.gpu_set[gpu]
    if sets.size[s] >= sets.members.shape[1]:
        return 0
    c = child(sets.hash_keys, sets.hash_values, sets.classes, s, cls)
    if c < 0:
        state.counter[MISS_SET] = s
        state.counter[MISS_CLASS] = cls
        return -1
    if sets.physical[c, view.node_type[view.gpu_node[gpu]]] != 0:
        return 0
    if sets.threshold[c] or (existing and sets.load[s] > u_limit):
        return 0
    if np.isinf(sigma[c, 0]):
        return 0
    return 1


@jit
def open_requests(
    view: View,
    sets: Sets,
    state: State,
    sigma: FloatArray,
    observed: NDArray[np.bool_],
    u_limit: float,
    existing: bool,
    version: IntArray,
    seen: IntArray,
    room: IntArray,
    request_class: IntArray,
    request_gpus: IntArray,
    request_job: IntArray,
    waiting: IntArray,
    is_open: NDArray[np.bool_],
) -> int:
    """Tell for each kind of request (class, GPUs) whether any node has capacity for it.

    ``room[c, n]`` is the number of GPUs of node n that a job of class c may join, worked
    out anew where ``version[n]`` has moved past ``seen[c, n]``.
    """
    nodes = len(view.node_type)
    types = len(view.types)
    for r in range(len(request_class)):
        is_open[r] = False
        if waiting[r] == 0:
            continue
        cls = request_class[r]
        g = request_gpus[r]
        job = request_job[r]
        for n in range(nodes):
            if seen[cls, n] != version[n]:
                count = 0
                for gpu in range(view.first_gpu[n], view.first_gpu[n + 1]):
                    answer = _joinable(view, sets, state, sigma, observed, gpu, cls, u_limit, existing)
                    if answer < 0:
                        return MISSING
                    count += answer
                room[cls, n] = count
                seen[cls, n] = version[n]
            if room[cls, n] >= g and not np.isinf(view.tau[job, view.node_type[n]]):
                is_open[r] = True
        if not is_open[r]:
            for t in range(types):
                size = int(view.types[t, 0])
                if g <= size or np.isinf(view.tau[job, t]):
                    continue
                whole, rest = 0, 0
                for n in range(nodes):
                    if view.node_type[n] == t:
                        if room[cls, n] == size:
                            whole += 1
                        elif room[cls, n] >= g % size:
                            rest += 1
                if whole >= g // size and (g % size == 0 or whole + rest > g // size):
                    is_open[r] = True
    return NONE


@jit
def _connected(
    view: View,
    sets: Sets,
    state: State,
    gpus: IntArray,
    n_gpus: int,
    mark: IntArray,
    comp: IntArray,
) -> int:
    """Collect the jobs connected with some GPUs through shared GPUs; return their number."""
    mark[len(mark) - 1] += 1
    stamp = mark[len(mark) - 1]
    m = 0
    for p in range(n_gpus):
        gpu = gpus[p]
        for i in range(sets.size[state.gpu_set[gpu]]):
            j = state.resident[gpu, i]
            if mark[j] != stamp:
                mark[j] = stamp
                comp[m] = j
                m += 1
    at = 0
    while at < m:
        k = comp[at]
        at += 1
        for p in range(view.offset[k], view.offset[k + 1]):
            gpu = state.job_gpu[p]
            for i in range(sets.size[state.gpu_set[gpu]]):
                j = state.resident[gpu, i]
                if mark[j] != stamp:
                    mark[j] = stamp
                    comp[m] = j
                    m += 1
    return m


@jit
def _speed(
    view: View,
    sets: Sets,
    state: State,
    sigma: FloatArray,
    local: IntArray,
    j: int,
    gpus: IntArray,
    low: int,
    high: int,
) -> float:
    worst = 0.0
    before = -1
    cls = view.job_class[j]
    for p in range(low, high):
        s = local[gpus[p]]
        if s != before:
            before = s
            worst = max(worst, member_sigma(sets.size, sets.members, sigma, s, cls))
    return float(1.0 / (view.tau[j, view.node_type[view.gpu_node[gpus[low]]]] * worst))


@jit
def predict(
    view: View,
    sets: Sets,
    state: State,
    sigma: FloatArray,
    now: float,
    slot: float,
    comp: IntArray,
    m: int,
    newcomer: int,
    new_gpus: IntArray,
    new_begin: float,
    leaver: int,
    local: IntArray,
    left: FloatArray,
    speed: FloatArray,
    begin: FloatArray,
    end: FloatArray,
) -> None:
    """Play connected jobs forward with the slowdowns ``sigma``; fill ``end[0..m)`` of them.

    ``comp[0..m)`` lists the jobs; ``newcomer`` (-1: none) is among them without being
    placed, and takes ``new_gpus`` from ``new_begin`` on; ``leaver`` (-1: none) is taken
    off at once. Residents leave when they are predicted to finish.
    """
    g = 0
    if newcomer >= 0:
        g = view.offset[newcomer + 1] - view.offset[newcomer]
    for i in range(m):
        j = comp[i]
        if j != newcomer:
            for p in range(view.offset[j], view.offset[j + 1]):
                local[state.job_gpu[p]] = state.gpu_set[state.job_gpu[p]]
    for p in range(g):
        gpu = new_gpus[p]
        local[gpu] = child(
            sets.hash_keys, sets.hash_values, sets.classes, state.gpu_set[gpu], view.job_class[newcomer]
        )
    for i in range(m):
        j = comp[i]
        end[i] = -1.0
        if j == newcomer:
            begin[i] = new_begin
            left[i] = view.epochs[j] - state.progress[j]
        else:
            begin[i] = max(now, state.since[j])
            left[i] = view.epochs[j] - (state.progress[j] + state.speed[j] * (begin[i] - state.since[j]))
        if j == leaver:
            _leave(view, sets, state, local, j, state.job_gpu, view.offset[j], view.offset[j + 1])
            end[i] = now
    t = now
    fresh = True
    while True:
        first = np.inf
        for i in range(m):
            if end[i] >= 0.0:
                continue
            j = comp[i]
            if fresh:
                if j == newcomer:
                    speed[i] = _speed(view, sets, state, sigma, local, j, new_gpus, 0, g)
                else:
                    speed[i] = _speed(
                        view, sets, state, sigma, local, j, state.job_gpu, view.offset[j], view.offset[j + 1]
                    )
            at = max(t, begin[i])
            if slot > 0.0:
                due = at
                short = left[i] - 1e-9 * view.epochs[j]
                if short > 0.0:
                    due = max(np.ceil((at + short / speed[i]) / slot), np.floor(at / slot + 0.5) + 1.0) * slot
            else:
                due = at + max(0.0, left[i]) / speed[i]
            first = min(first, due)
        if first == np.inf:
            for i in range(m):
                if end[i] < 0.0:
                    end[i] = np.inf
            return
        fresh = False
        limit = first + 1e-9 + 1e-12 * first
        for i in range(m):
            if end[i] >= 0.0:
                continue
            j = comp[i]
            gone = max(0.0, first - max(t, begin[i])) * speed[i]
            left[i] -= gone
            if slot > 0.0:
                done = left[i] <= 1e-9 * view.epochs[j]
            else:
                done = first + max(0.0, left[i]) / speed[i] <= limit
            if done and begin[i] <= limit:
                end[i] = first
                fresh = True
                if j == newcomer:
                    _leave(view, sets, state, local, j, new_gpus, 0, g)
                else:
                    _leave(view, sets, state, local, j, state.job_gpu, view.offset[j], view.offset[j + 1])
        t = first


@jit
def _leave(
    view: View, sets: Sets, state: State, local: IntArray, j: int, gpus: IntArray, low: int, high: int
) -> None:
    cls = view.job_class[j]
    for p in range(low, high):
        s = local[gpus[p]]
        for q in range(sets.size[s]):
            if sets.members[s, q] == cls:
                local[gpus[p]] = sets.without[s, q]
                break


@jit
def find_candidate(
    view: View,
    sets: Sets,
    state: State,
    sigma: FloatArray,
    observed: NDArray[np.bool_],
    u_limit: float,
    existing: bool,
    room: IntArray,
    job: int,
    now: float,
    slot: float,
    ready: FloatArray,
    wakes: bool,
    deadline: FloatArray,
    per_node: int,
    skip: int,
    cand_gpu: IntArray,
    cand_load: FloatArray,
    cand_node: IntArray,
    group: IntArray,
    take: IntArray,
    mark: IntArray,
    comp: IntArray,
    local: IntArray,
    work: FloatArray,
    chosen: IntArray,
) -> int:
    """Find the first candidate, by mean present load, that keeps the deadlines.

    The first ``skip`` that do are passed over. Fills ``chosen``. ``room`` must be up to
    date (`open_requests`).
    """
    cls = view.job_class[job]
    g = view.offset[job + 1] - view.offset[job]
    nodes = len(view.node_type)
    types = len(view.types)
    n_cand = 0
    for t in range(types):
        if np.isinf(view.tau[job, t]):
            continue
        size = int(view.types[t, 0])
        if g <= size:
            seen_empty = False
            for n in range(nodes):
                if view.node_type[n] != t or room[cls, n] < g:
                    continue
                # Empty nodes of a type that could run the job at the same time are one candidate.
                if state.node_i[n, 0] == 0 and ready[n] <= now:
                    if seen_empty:
                        continue
                    seen_empty = True
                n_new = _splits(
                    view,
                    sets,
                    state,
                    sigma,
                    observed,
                    u_limit,
                    existing,
                    cls,
                    g,
                    n,
                    per_node,
                    cand_gpu,
                    cand_load,
                    cand_node,
                    n_cand,
                    group,
                    take,
                )
                if n_new == FULL:
                    return FULL
                n_cand = n_new
        else:
            n_new = _spreads(
                view,
                sets,
                state,
                sigma,
                observed,
                u_limit,
                existing,
                cls,
                g,
                t,
                size,
                now,
                ready,
                room,
                cand_gpu,
                cand_load,
                cand_node,
                n_cand,
                group,
                take,
            )
            if n_new == FULL:
                return FULL
            n_cand = n_new
    for _ in range(n_cand):
        best = -1
        for c in range(n_cand):
            if cand_node[c] >= 0 and (
                best < 0
                or cand_load[c] > cand_load[best]
                or (cand_load[c] == cand_load[best] and _before(cand_gpu, c, best, g))
            ):
                best = c
        cand_node[best] = -1
        begin = now
        if wakes:
            begin = _begins(view, sets, state, ready, job, cand_gpu[best], g, now, slot)
            if np.isinf(begin):
                continue
        for p in range(g):
            chosen[p] = cand_gpu[best, p]
        if _keeps_deadlines(
            view, sets, state, sigma, now, slot, job, chosen, g, begin, deadline, mark, comp, local, work
        ):
            if skip == 0:
                return FOUND
            skip -= 1
    return NONE


@jit
def _begins(
    view: View,
    sets: Sets,
    state: State,
    ready: FloatArray,
    job: int,
    gpus: IntArray,
    g: int,
    now: float,
    slot: float,
) -> float:
    """Return when a job placed now on some GPUs would run: `World.start_s`, compiled.

    ``ready[n]`` is the time at which node n can run a job that is placed on it now.
    """
    begin = now
    for p in range(g):
        begin = max(begin, ready[view.gpu_node[gpus[p]]])
        for i in range(sets.size[state.gpu_set[gpus[p]]]):
            begin = max(begin, state.began[state.resident[gpus[p], i]])
    if begin <= now:
        return begin
    if view.gpu_node[gpus[0]] != view.gpu_node[gpus[g - 1]]:
        wake = 0.0
        for p in range(g):
            n = view.gpu_node[gpus[p]]
            if ready[n] > now:
                continue
            waited = False
            for q in range(g):
                for i in range(sets.size[state.gpu_set[gpus[q]]]):
                    j = state.resident[gpus[q], i]
                    for k in range(view.offset[j], view.offset[j + 1]):
                        if view.gpu_node[state.job_gpu[k]] == n:
                            waited = True
            if not waited:
                wake = max(wake, view.types[view.node_type[n], 7])
        if wake > 0.0:
            awake = view.release[job] + wake
            if slot > 0.0:
                awake = np.ceil((awake - 0.5e-6 - 1e-15 * awake) / slot) * slot
            begin = max(begin, awake)
    for p in range(g):
        for i in range(sets.size[state.gpu_set[gpus[p]]]):
            if state.began[state.resident[gpus[p], i]] < begin:
                return np.inf
    return begin


@jit
def _rounded(load: float) -> float:
    """Return a load in units of 1e-12, so that sums in another order tie where their decimals do."""
    return float(np.floor(load * 1e12 + 0.5))


@jit
def _before(cand_gpu: IntArray, a: int, b: int, g: int) -> bool:
    for p in range(g):
        if cand_gpu[a, p] != cand_gpu[b, p]:
            return bool(cand_gpu[a, p] < cand_gpu[b, p])
    return False


@jit
def _splits(
    view: View,
    sets: Sets,
    state: State,
    sigma: FloatArray,
    observed: NDArray[np.bool_],
    u_limit: float,
    existing: bool,
    cls: int,
    g: int,
    n: int,
    per_node: int,
    cand_gpu: IntArray,
    cand_load: FloatArray,
    cand_node: IntArray,
    n_cand: int,
    group: IntArray,
    take: IntArray,
) -> int:
    """Append the splits of ``g`` GPUs over the groups of interchangeable GPUs of node ``n``.

    ``group[0]`` holds the joinable GPUs, group after group in order of descending load;
    ``group[1]`` where each group begins.
    """
    first, last = view.first_gpu[n], view.first_gpu[n + 1]
    n_groups = 0
    n_in = 0
    for gpu in range(first, last):
        joinable = _joinable(view, sets, state, sigma, observed, gpu, cls, u_limit, existing)
        group[2, gpu - first] = 0 if joinable == 1 else 1
    while True:
        # The next group: highest load, then lowest GPU.
        best = -1
        for gpu in range(first, last):
            if group[2, gpu - first] == 0 and (
                best < 0 or _rounded(sets.load[state.gpu_set[gpu]]) > _rounded(sets.load[state.gpu_set[best]])
            ):
                best = gpu
        if best < 0:
            break
        group[1, n_groups] = n_in
        n_groups += 1
        k = sets.size[state.gpu_set[best]]
        for gpu in range(best, last):
            if group[2, gpu - first] == 0 and state.gpu_set[gpu] == state.gpu_set[best]:
                same = True
                for i in range(k):
                    if state.resident[gpu, i] != state.resident[best, i]:
                        same = False
                if same:
                    group[2, gpu - first] = 1
                    group[0, n_in] = gpu
                    n_in += 1
    group[1, n_groups] = n_in
    if n_in < g:
        return n_cand
    # All counts (t_1, ..., t_k) with sum g, the first groups filled first.
    made = 0
    left = g
    for i in range(n_groups):
        take[i] = min(left, group[1, i + 1] - group[1, i])
        left -= take[i]
    while True:
        if n_cand >= len(cand_load):
            return FULL
        p = 0
        load = 0.0
        for i in range(n_groups):
            for q in range(take[i]):
                cand_gpu[n_cand, p] = group[0, group[1, i] + q]
                load += sets.load[state.gpu_set[group[0, group[1, i]]]]
                p += 1
        # Ascending GPU numbers (insertion sort; g is small).
        for a in range(1, g):
            x = cand_gpu[n_cand, a]
            b = a - 1
            while b >= 0 and cand_gpu[n_cand, b] > x:
                cand_gpu[n_cand, b + 1] = cand_gpu[n_cand, b]
                b -= 1
            cand_gpu[n_cand, b + 1] = x
        cand_load[n_cand] = _rounded(load / g)
        cand_node[n_cand] = n
        n_cand += 1
        made += 1
        if made >= per_node:
            return n_cand
        # The next count vector: move one unit to the right of some group that has room after it.
        i = n_groups - 2
        spare = take[n_groups - 1]
        moved = False
        while i >= 0:
            space = n_in - group[1, i + 1]
            if take[i] > 0 and space > spare:
                take[i] -= 1
                rest = spare + 1
                for q in range(i + 1, n_groups):
                    take[q] = min(rest, group[1, q + 1] - group[1, q])
                    rest -= take[q]
                moved = True
                break
            spare += take[i]
            i -= 1
        if not moved:
            return n_cand


@jit
def _spreads(
    view: View,
    sets: Sets,
    state: State,
    sigma: FloatArray,
    observed: NDArray[np.bool_],
    u_limit: float,
    existing: bool,
    cls: int,
    g: int,
    t: int,
    size: int,
    now: float,
    ready: FloatArray,
    room: IntArray,
    cand_gpu: IntArray,
    cand_load: FloatArray,
    cand_node: IntArray,
    n_cand: int,
    group: IntArray,
    take: IntArray,
) -> int:
    """Append candidates over several nodes of type ``t``: whole nodes in a row by load, and a rest.

    Whole nodes are ranked by mean load; each run i, i+1, ... of them is combined with each other
    node that has room for the remaining GPUs, which go where they find the highest load on it.
    """
    nodes = len(view.node_type)
    whole, rest = g // size, g % size
    # take[0..n_whole): fully joinable nodes by descending load, then number.
    n_whole = 0
    for n in range(nodes):
        if view.node_type[n] == t and room[cls, n] == size:
            load = 0.0
            for gpu in range(view.first_gpu[n], view.first_gpu[n + 1]):
                load += sets.load[state.gpu_set[gpu]]
            at = n_whole
            while at > 0:
                other = take[at - 1]
                other_load = 0.0
                for gpu in range(view.first_gpu[other], view.first_gpu[other + 1]):
                    other_load += sets.load[state.gpu_set[gpu]]
                if _rounded(other_load) >= _rounded(load):
                    break
                take[at] = other
                at -= 1
            take[at] = n
            n_whole += 1
    for i in range(n_whole - whole + 1):
        seen_empty = False
        for other in range(nodes if rest > 0 else 1):
            if rest > 0:
                if view.node_type[other] != t or room[cls, other] < rest:
                    continue
                used = False
                for q in range(i, i + whole):
                    if take[q] == other:
                        used = True
                if used:
                    continue
                # Empty nodes that could run the job at the same time are one.
                if state.node_i[other, 0] == 0 and ready[other] <= now:
                    if seen_empty:
                        continue
                    seen_empty = True
            if n_cand >= len(cand_load):
                return FULL
            p = 0
            load = 0.0
            for q in range(i, i + whole):
                n = take[q]
                for gpu in range(view.first_gpu[n], view.first_gpu[n + 1]):
                    cand_gpu[n_cand, p] = gpu
                    load += sets.load[state.gpu_set[gpu]]
                    p += 1
            if rest > 0:
                load += _highest(
                    view, sets, state, sigma, observed, u_limit, existing, cls, other, rest, group
                )
                for q in range(rest):
                    cand_gpu[n_cand, p] = group[0, q]
                    p += 1
            for a in range(1, g):
                x = cand_gpu[n_cand, a]
                b = a - 1
                while b >= 0 and cand_gpu[n_cand, b] > x:
                    cand_gpu[n_cand, b + 1] = cand_gpu[n_cand, b]
                    b -= 1
                cand_gpu[n_cand, b + 1] = x
            cand_load[n_cand] = _rounded(load / g)
            cand_node[n_cand] = take[i]
            n_cand += 1
    return n_cand


@jit
def _highest(
    view: View,
    sets: Sets,
    state: State,
    sigma: FloatArray,
    observed: NDArray[np.bool_],
    u_limit: float,
    existing: bool,
    cls: int,
    n: int,
    count: int,
    group: IntArray,
) -> float:
    """Put the ``count`` joinable GPUs of highest load of a node into ``group[0]``; return their load."""
    first, last = view.first_gpu[n], view.first_gpu[n + 1]
    for gpu in range(first, last):
        group[2, gpu - first] = 0
    total = 0.0
    for q in range(count):
        best = -1
        for gpu in range(first, last):
            if (
                group[2, gpu - first] == 0
                and _joinable(view, sets, state, sigma, observed, gpu, cls, u_limit, existing) == 1
                and (
                    best < 0
                    or _rounded(sets.load[state.gpu_set[gpu]]) > _rounded(sets.load[state.gpu_set[best]])
                )
            ):
                best = gpu
        group[2, best - first] = 1
        group[0, q] = best
        total += sets.load[state.gpu_set[best]]
    return total


@jit
def _keeps_deadlines(
    view: View,
    sets: Sets,
    state: State,
    sigma: FloatArray,
    now: float,
    slot: float,
    job: int,
    gpus: IntArray,
    g: int,
    begin: float,
    deadline: FloatArray,
    mark: IntArray,
    comp: IntArray,
    local: IntArray,
    work: FloatArray,
) -> bool:
    """Predict with the newcomer; every job must keep its deadline that keeps it without."""
    m = _connected(view, sets, state, gpus, g, mark, comp)
    finite = not np.isinf(deadline[job])
    for i in range(m):
        if not np.isinf(deadline[comp[i]]):
            finite = True
    if not finite:
        return True
    comp[m] = job
    m += 1
    predict(
        view,
        sets,
        state,
        sigma,
        now,
        slot,
        comp,
        m,
        job,
        gpus,
        begin,
        -1,
        local,
        work[0],
        work[1],
        work[2],
        work[3],
    )
    late = False
    for i in range(m):
        d = deadline[comp[i]]
        if work[3, i] > d + 0.5e-6 + 0.5e-9 * abs(d):
            if i == m - 1:
                return False
            late = True
    if not late:
        return True
    predict(
        view,
        sets,
        state,
        sigma,
        now,
        slot,
        comp,
        m - 1,
        -1,
        gpus,
        now,
        -1,
        local,
        work[0],
        work[1],
        work[2],
        work[4],
    )
    for i in range(m - 1):
        d = deadline[comp[i]]
        limit = d + 0.5e-6 + 0.5e-9 * abs(d)
        if work[3, i] > limit and work[4, i] <= limit:
            return False
    return True


@jit
def still_holds(
    view: View,
    sets: Sets,
    state: State,
    sigma: FloatArray,
    now: float,
    slot: float,
    job: int,
    gpus: IntArray,
    deadline: FloatArray,
    mark: IntArray,
    comp: IntArray,
    local: IntArray,
    work: FloatArray,
) -> bool:
    """After an observation: does every deadline hold that would hold without the newcomer ``job``?"""
    m = _connected(view, sets, state, gpus, len(gpus), mark, comp)
    predict(
        view,
        sets,
        state,
        sigma,
        now,
        slot,
        comp,
        m,
        -1,
        gpus,
        now,
        -1,
        local,
        work[0],
        work[1],
        work[2],
        work[3],
    )
    late = False
    for i in range(m):
        d = deadline[comp[i]]
        if work[3, i] > d + 1e-6 + 1e-9 * abs(d):
            if comp[i] == job:
                return False
            late = True
    if not late:
        return True
    predict(
        view,
        sets,
        state,
        sigma,
        now,
        slot,
        comp,
        m,
        -1,
        gpus,
        now,
        job,
        local,
        work[0],
        work[1],
        work[2],
        work[4],
    )
    for i in range(m):
        d = deadline[comp[i]]
        limit = d + 1e-6 + 1e-9 * abs(d)
        if comp[i] != job and work[3, i] > limit and work[4, i] <= limit:
            return False
    return True
