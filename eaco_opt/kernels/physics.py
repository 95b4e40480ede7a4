"""The physics of docs/model.md section 2 as compiled code.

One state machine serves `evaluate`, the simulator and the solvers: jobs are placed on
GPUs and removed from them at given times; between two changes of a node every speed
and power is constant. A change touches only the nodes it concerns; the jobs on them get
new speeds, and the time at which each reaches its next target is kept in a heap.

The functions take three named tuples of arrays: ``View`` (the instance), ``Sets`` (the
table of job sets, see :mod:`eaco_opt.sets`) and ``State``. A set that was never met is
reported as a code (`MISSING`), filled in by Python, and the call repeated.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ._jit import inlined, jit

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

OK, MISSING, TOO_WIDE = 0, 1, 2
"""Return codes of `place` and `run`."""

# Rows of State.energy [J], without PUE, and of other integrals over time.
(
    SERVER,
    STANDING,
    DYNAMIC,
    MODELLED_SETS,
    MODELLED_POWER,
    NODE_S,
    LOAD_S,
    GPU_S,
    THRESHOLD_S,
    WAKE_J,
    WAKE_S,
    SLEEP_J,
) = range(12)
# Entries of State.counter.
(
    ACTIVE,
    PEAK,
    PHYSICAL,
    THRESHOLD,
    WAKE_BAD,
    HEAP,
    MISS_SET,
    MISS_CLASS,
    NEXT,
    STAMP,
    PROBLEMS,
    COUNTERS,
) = range(12)
# Columns of State.node_f.
N_SERVER, N_STANDING, N_DYNAMIC, N_TIME, N_LOAD, N_USED, N_ABOVE, N_BEGIN, N_END = range(9)
# Columns of State.node_i.
I_SLOTS, I_MODELLED_SETS, I_MODELLED_POWER, I_WAKE_OPEN, I_SPLIT = range(5)
# Columns of State.stated.
S_END, S_DONE = range(2)
PROBLEM_ROOM = 16


class View(NamedTuple):
    """The instance: arrays of :class:`eaco_opt.arrays.ArrayView`."""

    release: FloatArray
    epochs: FloatArray
    job_class: IntArray
    offset: IntArray
    util: FloatArray
    cpu: FloatArray
    tau: FloatArray
    node_type: IntArray
    first_gpu: IntArray
    gpu_node: IntArray
    types: FloatArray


class Sets(NamedTuple):
    """The table of sets: arrays of :class:`eaco_opt.sets.SetTable`."""

    size: IntArray
    kind_set: IntArray
    members: IntArray
    without: IntArray
    sigma: FloatArray
    load: FloatArray
    dynamic: FloatArray
    measured: FloatArray
    physical: IntArray
    threshold: NDArray[np.bool_]
    u_need: FloatArray
    hash_keys: IntArray
    hash_values: IntArray
    classes: int


class State(NamedTuple):
    """What changes: who is where, progress, speeds, and integrals over time.

    ``stated`` (J, 2) is the end that a segment states, NaN where physics decides, and for
    stated ends when the job will have done its epochs (on a grid: the end of that slot).
    ``jumps`` adds up by how much the speed changed, for the rounding of stated times.
    """

    gpu_set: IntArray
    resident: IntArray
    job_gpu: IntArray
    progress: FloatArray
    speed: FloatArray
    since: FloatArray
    began: FloatArray
    target: FloatArray
    due: FloatArray
    stated: FloatArray
    running: NDArray[np.bool_]
    jumps: FloatArray
    stamp: IntArray
    heap: IntArray
    heap_at: IntArray
    node_f: FloatArray
    node_i: IntArray
    job_energy: FloatArray
    total: FloatArray
    counter: IntArray
    problem: FloatArray
    peak_u: FloatArray


@jit
def child(hash_keys: IntArray, hash_values: IntArray, classes: int, parent: int, cls: int) -> int:
    """Return the set with one more member of a class, -1 if it was never met."""
    key = parent * classes + cls
    mask = len(hash_keys) - 1
    slot = ((key * 0x9E3779B1) & 0xFFFFFFFF) & mask
    while hash_keys[slot] >= 0:
        if hash_keys[slot] == key:
            return int(hash_values[slot])
        slot = (slot + 1) & mask
    return -1


@jit
def _up(heap: IntArray, place: IntArray, due: FloatArray, at: int) -> None:
    j = heap[at]
    key = due[j]
    while at > 0:
        parent = (at - 1) >> 1
        k = heap[parent]
        if due[k] < key or (due[k] == key and k < j):
            break
        heap[at] = k
        place[k] = at
        at = parent
    heap[at] = j
    place[j] = at


@jit
def _down(heap: IntArray, place: IntArray, due: FloatArray, n: int, at: int) -> None:
    j = heap[at]
    key = due[j]
    while True:
        c = 2 * at + 1
        if c >= n:
            break
        k = heap[c]
        if c + 1 < n:
            k2 = heap[c + 1]
            if due[k2] < due[k] or (due[k2] == due[k] and k2 < k):
                c += 1
                k = k2
        if key < due[k] or (key == due[k] and j < k):
            break
        heap[at] = k
        place[k] = at
        at = c
    heap[at] = j
    place[j] = at


@jit
def _restore(heap: IntArray, place: IntArray, due: FloatArray, n: int, j: int) -> None:
    """Put job ``j`` of the heap where its new due time belongs."""
    _up(heap, place, due, place[j])
    _down(heap, place, due, n, place[j])


@jit
def _push(heap: IntArray, place: IntArray, due: FloatArray, counter: IntArray, j: int) -> None:
    at = counter[HEAP]
    counter[HEAP] = at + 1
    heap[at] = j
    place[j] = at
    _up(heap, place, due, at)


@jit
def _pop(heap: IntArray, place: IntArray, due: FloatArray, counter: IntArray, j: int) -> None:
    n = counter[HEAP] - 1
    counter[HEAP] = n
    at = place[j]
    last = heap[n]
    if last != j:
        heap[at] = last
        place[last] = at
        _restore(heap, place, due, n, last)


@jit
def _same(size: IntArray, gpu_set: IntArray, resident: IntArray, a: int, b: int) -> bool:
    """Tell whether two GPUs of a node host the same jobs (in the same order)."""
    if gpu_set[a] != gpu_set[b]:
        return False
    for i in range(size[gpu_set[a]]):
        if resident[a, i] != resident[b, i]:
            return False
    return True


@jit
def _run_end(size: IntArray, gpu_set: IntArray, resident: IntArray, split: int, gpu: int, last: int) -> int:
    """Return the end of the run of GPUs from ``gpu`` on that host the same jobs."""
    if split == 0:
        return last
    end = gpu + 1
    while end < last and _same(size, gpu_set, resident, gpu, end):
        end += 1
    return end


@inlined
def settle_node(view: View, sets: Sets, state: State, n: int, t: float) -> None:
    """Add the energy of node ``n`` since its last change, in total and by job (equation 5)."""
    nf = state.node_f
    dt = t - max(nf[n, N_TIME], 0.0)  # energy counts from the earliest release on
    nf[n, N_TIME] = t
    slots = state.node_i[n, I_SLOTS]
    if dt <= 0.0 or slots == 0:
        return
    server, standing, dynamic = nf[n, N_SERVER], nf[n, N_STANDING], nf[n, N_DYNAMIC]
    total = state.total
    total[SERVER] += server * dt
    total[STANDING] += standing * dt
    total[DYNAMIC] += dynamic * dt
    power = server + standing + dynamic
    if state.node_i[n, I_MODELLED_SETS]:
        total[MODELLED_SETS] += power * dt
    if state.node_i[n, I_MODELLED_POWER]:
        total[MODELLED_POWER] += power * dt
    total[NODE_S] += dt
    total[LOAD_S] += nf[n, N_LOAD] * dt
    total[GPU_S] += nf[n, N_USED] * dt
    total[THRESHOLD_S] += nf[n, N_ABOVE] * dt
    if state.node_i[n, I_WAKE_OPEN] and t - nf[n, N_BEGIN] > 1e-6 + 1e-9 * abs(t):
        state.node_i[n, I_WAKE_OPEN] = 0
        state.counter[WAKE_BAD] += 1
    node_type = view.node_type[n]
    per_gpu = view.types[node_type, 4]
    first, last = view.first_gpu[n], view.first_gpu[n + 1]
    used = nf[n, N_USED]
    common = (server + per_gpu * ((last - first) - used)) / slots
    gpu = first
    while gpu < last:
        end = _run_end(sets.size, state.gpu_set, state.resident, state.node_i[n, I_SPLIT], gpu, last)
        s = state.gpu_set[gpu]
        k = sets.size[s]
        if k > 0:
            run = (end - gpu) * dt
            weight = 0.0
            for i in range(k):
                weight += view.util[state.resident[gpu, i]]
            for i in range(k):
                j = state.resident[gpu, i]
                share = view.util[j] / weight if weight > 0.0 else 1.0 / k
                state.job_energy[j] += run * (common + per_gpu / k + sets.dynamic[s, node_type] * share)
        gpu = end


@jit
def member_sigma(size: IntArray, members: IntArray, sigma: FloatArray, s: int, cls: int) -> float:
    """Return the slowdown of a member of class ``cls`` in set ``s``, from table ``sigma``."""
    for i in range(size[s]):
        if members[s, i] == cls:
            return float(sigma[s, i])
    return 1.0


@jit
def due_time(speed: float, target: float, progress: float, since: float, t: float, slot: float) -> float:
    """Return when a job reaches its target; with slots, the end of that slot."""
    if speed <= 0.0:
        return np.inf
    t = max(t, since)
    if slot > 0.0:
        left = target * (1.0 - 1e-9) - progress
        if left <= 0.0:
            return t
        k = np.ceil((t + left / speed) / slot)
        return float(max(k, np.floor(t / slot + 0.5) + 1.0) * slot)
    return t + max(0.0, target - progress) / speed


@jit
def settle_job(progress: FloatArray, speed: FloatArray, since: FloatArray, j: int, t: float) -> None:
    """Add the progress of job ``j`` since its last change of speed.

    A ``since`` in the future means that the job waits for its node to wake up.
    """
    if t > since[j]:
        progress[j] += speed[j] * (t - since[j])
        since[j] = t


@inlined
def _new_due(state: State, j: int, t: float, slot: float) -> None:
    """Work out anew when the running job ``j`` comes due."""
    due = due_time(state.speed[j], state.target[j], state.progress[j], state.since[j], t, slot)
    if not np.isnan(state.stated[j, S_END]):
        if state.progress[j] < (state.target[j] * (1.0 - 1e-9) if slot > 0.0 else state.target[j]):
            state.stated[j, S_DONE] = due
        due = state.stated[j, S_END]
    state.due[j] = due
    _restore(state.heap, state.heap_at, state.due, state.counter[HEAP], j)


@inlined
def refresh_node(view: View, sets: Sets, state: State, n: int, t: float, slot: float) -> None:
    """Work out powers of node ``n``, and speeds and due times of the jobs on it, from ``t`` on."""
    node_type = view.node_type[n]
    types = view.types
    first, last = view.first_gpu[n], view.first_gpu[n + 1]
    state.counter[STAMP] += 1
    stamp = state.counter[STAMP]
    cpu = 0.0
    dynamic = 0.0
    used = 0.0
    above = 0.0
    load = 0.0
    slots = 0
    modelled = 0
    uniform = True
    gpu = first
    while gpu < last:
        end = _run_end(sets.size, state.gpu_set, state.resident, state.node_i[n, I_SPLIT], gpu, last)
        s = state.gpu_set[gpu]
        k = sets.size[s]
        run = end - gpu
        if sets.kind_set[s] != sets.kind_set[state.gpu_set[first]]:
            uniform = False
        if k > 0:
            used += run
            slots += run * k
            dynamic += run * sets.dynamic[s, node_type]
            load += run * min(1.0, sets.load[s])
            if sets.threshold[s]:
                above += run
            if np.isnan(sets.measured[s, node_type]):
                modelled = 1
            for i in range(k):
                j = state.resident[gpu, i]
                cpu += run * view.cpu[j]
                if state.stamp[j] != stamp:
                    state.stamp[j] = stamp
                    settle_job(state.progress, state.speed, state.since, j, t)
                    cls = view.job_class[j]
                    worst = member_sigma(sets.size, sets.members, sets.sigma, s, cls)
                    if view.offset[j + 1] - view.offset[j] != run:  # it has GPUs outside this run
                        before = s
                        for p in range(view.offset[j], view.offset[j + 1]):
                            s2 = state.gpu_set[state.job_gpu[p]]
                            if s2 != before:
                                before = s2
                                worst = max(worst, member_sigma(sets.size, sets.members, sets.sigma, s2, cls))
                    # The node type of a multi-node job is the same for all its nodes.
                    speed = 1.0 / (view.tau[j, node_type] * worst)
                    state.jumps[j] += abs(speed - state.speed[j])
                    state.speed[j] = speed
                    _new_due(state, j, t, slot)
        gpu = end
    size = last - first
    cpu = min(1.0, cpu / size)
    nf = state.node_f
    standing = size * types[node_type, 4]
    measured = np.nan
    if uniform and used == size and types[node_type, 5] > 0.0:
        measured = sets.measured[state.gpu_set[first], node_type]
    looked_up = not np.isnan(measured)
    if looked_up:
        server = measured - standing - dynamic
    else:
        server = types[node_type, 1]
        if cpu > 0.0:
            server += types[node_type, 2] * (2.0 * cpu - cpu ** types[node_type, 3])
    nf[n, N_SERVER] = server
    nf[n, N_STANDING] = standing
    nf[n, N_DYNAMIC] = dynamic
    nf[n, N_LOAD] = load
    nf[n, N_USED] = used
    nf[n, N_ABOVE] = above
    state.node_i[n, I_SLOTS] = slots
    state.node_i[n, I_MODELLED_SETS] = modelled
    state.node_i[n, I_MODELLED_POWER] = 0 if looked_up else 1


@inlined
def _begin_node(view: View, state: State, n: int, t: float, ready: bool) -> None:
    """Begin a busy period of node ``n``: count it, pay for its wake-up."""
    nf = state.node_f
    resumed = t - nf[n, N_END] <= 1e-6 + 1e-9 * abs(t)
    state.counter[ACTIVE] += 1
    state.counter[PEAK] = max(state.counter[PEAK], state.counter[ACTIVE])
    if resumed:
        return
    node_type = view.node_type[n]
    wake = view.types[node_type, 7]
    begin = max(t - wake, max(nf[n, N_END], 0.0))
    empty = view.types[node_type, 1] + view.types[node_type, 4] * view.types[node_type, 0]
    span = max(0.0, t - begin)
    state.total[WAKE_J] += empty * span + view.types[node_type, 8]
    state.total[WAKE_S] += span
    # The node slept from its last end to the beginning of the wake-up.
    state.total[SLEEP_J] += view.types[node_type, 6] * max(0.0, begin - max(nf[n, N_END], 0.0))
    nf[n, N_BEGIN] = t
    state.node_i[n, I_WAKE_OPEN] = 0 if (ready or wake <= 0.0) else 1


@inlined
def place(view: View, sets: Sets, state: State, j: int, t: float, slot: float) -> int:
    """Start job ``j`` at ``t`` on the GPUs listed for it in ``state.job_gpu``.

    Returns `OK`, `MISSING` (nothing was changed; ``counter`` names set and class) or
    `TOO_WIDE` (nothing was changed; a GPU holds the most jobs supported already).
    """
    cls = view.job_class[j]
    low, high = view.offset[j], view.offset[j + 1]
    before = -1
    for p in range(low, high):
        s = state.gpu_set[state.job_gpu[p]]
        if s != before:
            before = s
            if sets.size[s] >= sets.members.shape[1]:
                return TOO_WIDE
            if child(sets.hash_keys, sets.hash_values, sets.classes, s, cls) < 0:
                state.counter[MISS_SET] = s
                state.counter[MISS_CLASS] = cls
                return MISSING
    state.running[j] = True
    state.speed[j] = 0.0
    state.since[j] = t
    state.began[j] = t
    bad = False
    hot = False
    node = -1
    before = -1
    s = -1
    for p in range(low, high):
        gpu = state.job_gpu[p]
        if view.gpu_node[gpu] != node:
            node = view.gpu_node[gpu]
            settle_node(view, sets, state, node, t)
            wake = view.types[view.node_type[node], 7]
            ready = view.release[j] + wake <= t + 1e-6 + 1e-9 * abs(t)
            if state.node_i[node, I_SLOTS] == 0:
                _begin_node(view, state, node, t, ready)
                state.node_i[node, I_SLOTS] = 1
            elif ready and t - state.node_f[node, N_BEGIN] <= 1e-6 + 1e-9 * abs(t):
                state.node_i[node, I_WAKE_OPEN] = 0
            covered = 0
            while p + covered < high and view.gpu_node[state.job_gpu[p + covered]] == node:
                covered += 1
            if covered < view.first_gpu[node + 1] - view.first_gpu[node]:
                state.node_i[node, I_SPLIT] = 1
        old = state.gpu_set[gpu]
        same = old == before and gpu > view.first_gpu[node]
        if not same:
            before = old
            s = child(sets.hash_keys, sets.hash_values, sets.classes, old, cls)
        state.resident[gpu, sets.size[old]] = j
        state.gpu_set[gpu] = s
        if same:
            continue
        bits = sets.physical[s, view.node_type[node]]
        if bits != 0:
            bad = True
            k = state.counter[PROBLEMS]
            if k < PROBLEM_ROOM and (k == 0 or state.problem[k - 1, 1] != j):
                state.problem[k, 0] = t
                state.problem[k, 1] = j
                state.problem[k, 2] = gpu
                state.problem[k, 3] = bits
                state.counter[PROBLEMS] = k + 1
        if sets.threshold[s]:
            hot = True
            state.peak_u[0] = max(state.peak_u[0], sets.u_need[s])
    if bad:
        state.counter[PHYSICAL] += 1
    if hot:
        state.counter[THRESHOLD] += 1
    state.due[j] = np.inf
    _push(state.heap, state.heap_at, state.due, state.counter, j)
    node = -1
    for p in range(low, high):
        if view.gpu_node[state.job_gpu[p]] != node:
            node = view.gpu_node[state.job_gpu[p]]
            refresh_node(view, sets, state, node, t, slot)
    return OK


@inlined
def remove(view: View, sets: Sets, state: State, j: int, t: float, slot: float) -> None:
    """Take job ``j`` off its GPUs at ``t``; its progress is settled and kept."""
    cls = view.job_class[j]
    low, high = view.offset[j], view.offset[j + 1]
    settle_job(state.progress, state.speed, state.since, j, t)
    state.speed[j] = 0.0
    state.running[j] = False
    _pop(state.heap, state.heap_at, state.due, state.counter, j)
    node = -1
    for p in range(low, high):
        gpu = state.job_gpu[p]
        if view.gpu_node[gpu] != node:
            node = view.gpu_node[gpu]
            settle_node(view, sets, state, node, t)
        s = state.gpu_set[gpu]
        k = sets.size[s]
        i = 0
        while state.resident[gpu, i] != j:
            i += 1
        for q in range(i, k - 1):
            state.resident[gpu, q] = state.resident[gpu, q + 1]
        state.resident[gpu, k - 1] = -1
        for q in range(k):
            if sets.members[s, q] == cls:
                state.gpu_set[gpu] = sets.without[s, q]
                break
    node = -1
    for p in range(low, high):
        if view.gpu_node[state.job_gpu[p]] != node:
            node = view.gpu_node[state.job_gpu[p]]
            refresh_node(view, sets, state, node, t, slot)
            if state.node_i[node, I_SLOTS] == 0:
                state.counter[ACTIVE] -= 1
                state.node_f[node, N_END] = t
                state.node_i[node, I_SPLIT] = 0


@jit
def set_target(state: State, j: int, target: float, t: float, slot: float) -> None:
    """Have the running job ``j`` come due when its progress reaches ``target`` epochs."""
    state.target[j] = target
    settle_job(state.progress, state.speed, state.since, j, t)
    _new_due(state, j, t, slot)


# Rows of the table of outcomes by job, and entries of the summary, that `finish` fills.
O_START, O_END, O_RUNNING, O_WAIT, O_JTT, O_TPE, O_ENERGY, O_LATENESS, O_MISSED = range(9)
S_MAKESPAN, S_TPE, S_JTT, S_JCT, S_MISSES, S_SHORT, S_OVER = range(7)


@jit
def finish(
    view: View,
    state: State,
    deadline: FloatArray,
    origin: float,
    pue: float,
    outcome: FloatArray,
    overrun: FloatArray,
    missing: FloatArray,
    summary: FloatArray,
) -> None:
    """Add the sleep energy up to the last completion; fill outcomes by job and their means.

    ``outcome`` comes with first start, last end and running time, and is completed:
    (9, J), starts and ends made absolute, energies with PUE.
    """
    jobs = outcome.shape[1]
    t = 0.0
    for j in range(jobs):
        t = max(t, outcome[O_END, j])
    for n in range(len(view.node_type)):
        if state.node_i[n, I_SLOTS] == 0:
            asleep = t - max(state.node_f[n, N_END], 0.0)
            state.total[SLEEP_J] += view.types[view.node_type[n], 6] * max(0.0, asleep)
    summary[S_MAKESPAN] = t
    for j in range(jobs):
        end = outcome[O_END, j]
        running = outcome[O_RUNNING, j]
        jtt = end - view.release[j]
        tpe = running / view.epochs[j]
        late = end - deadline[j]
        outcome[O_JTT, j] = jtt
        outcome[O_WAIT, j] = jtt - running
        outcome[O_TPE, j] = tpe
        outcome[O_LATENESS, j] = late
        outcome[O_ENERGY, j] = state.job_energy[j] * pue
        outcome[O_START, j] += origin
        outcome[O_END, j] += origin
        outcome[O_MISSED, j] = 1.0 if late > 1e-6 + 1e-9 * abs(end) else 0.0
        summary[S_TPE] += tpe
        summary[S_JTT] += jtt
        summary[S_JCT] += running
        summary[S_MISSES] += outcome[O_MISSED, j]
        # Stated times are rounded to the last place of absolute ones; nothing else excuses a job that ends
        # short. A few units there at every change of its speed are not held against it.
        if missing[j] > 0.0 and missing[j] <= 8.0 * np.spacing(abs(origin) + end) * state.jumps[j]:
            missing[j] = 0.0
        summary[S_SHORT] += 1.0 if missing[j] > 0.0 else 0.0
        summary[S_OVER] += 1.0 if overrun[j] > 1e-6 + 1e-9 * abs(end) else 0.0
    if jobs:
        for i in (S_TPE, S_JTT, S_JCT):
            summary[i] /= jobs


@jit
def start_job(view: View, sets: Sets, state: State, j: int, now: float, begin: float, slot: float) -> int:
    """For the simulator: `place` at ``now`` a job that runs from ``begin`` >= ``now`` on."""
    code = place(view, sets, state, j, now, slot)
    if code == OK and begin > now:
        state.since[j] = begin
        state.began[j] = begin
        _new_due(state, j, now, slot)
    return code


@jit
def stop_job(view: View, sets: Sets, state: State, j: int, t: float, slot: float) -> None:
    """For the simulator: `remove`."""
    remove(view, sets, state, j, t, slot)


@jit
def run(
    view: View,
    sets: Sets,
    state: State,
    order: IntArray,
    job: IntArray,
    start: FloatArray,
    end: FloatArray,
    offset: IntArray,
    gpu: IntArray,
    first_start: FloatArray,
    last_end: FloatArray,
    running: FloatArray,
    overrun: FloatArray,
    missing: FloatArray,
    early: NDArray[np.bool_],
    slot: float,
) -> int:
    """Play segments in time; an end of NaN means "when the job has done its epochs".

    ``order`` lists the segments by start. Can be called again after `MISSING`.
    Fills ``first_start``, ``last_end``, ``running``, ``overrun`` (time [s] that GPUs
    were held after completion) and ``missing`` (epochs short of completion), shape (J,), and
    ``early`` (started before the release), one flag a segment.
    """
    n = len(order)
    counter = state.counter
    while True:
        at = counter[NEXT]
        ts = np.inf
        if at < n:
            ts = start[order[at]]
        tf = np.inf
        if counter[HEAP] > 0:
            tf = state.due[state.heap[0]]
        if at >= n and counter[HEAP] == 0:
            return OK
        leaves = tf <= ts + 1e-6 or at >= n
        limit = ts + 1e-6 + 1e-9 * min(abs(ts), 1e300)
        if not leaves and tf <= limit:
            # Late in a long run the tolerance is wide: who leaves elsewhere does not come first.
            k = order[at]
            leaves = state.running[job[k]]
            for p in range(offset[k], offset[k + 1]):
                for i in range(sets.size[state.gpu_set[gpu[p]]]):
                    if state.due[state.resident[gpu[p], i]] <= limit:
                        leaves = True
        if leaves:
            j = state.heap[0]
            t = tf
            state.jumps[j] += state.speed[j]
            remove(view, sets, state, j, t, slot)
            running[j] += t - state.began[j]
            last_end[j] = max(last_end[j], t)
            overrun[j] += max(0.0, t - max(state.stated[j, S_DONE], state.began[j]))
            if state.progress[j] > state.target[j]:
                state.progress[j] = state.target[j]
                missing[j] = 0.0
            elif state.progress[j] < state.target[j] * (1.0 - 1e-9):
                missing[j] = state.target[j] - state.progress[j]
            else:
                missing[j] = 0.0
            counter[NEXT] = at
        else:
            k = order[at]
            j = job[k]
            t = ts
            if ts < view.release[j] - 1e-6 - 1e-9 * abs(ts):
                early[k] = True
                counter[PHYSICAL] += 1
            # A tolerated overlap: whoever had to leave left a moment after this start.
            for p in range(offset[k], offset[k + 1]):
                node = view.gpu_node[gpu[p]]
                t = max(t, state.node_f[node, N_TIME])
            if state.running[j]:
                return int(-1 - k)
            for p in range(offset[k], offset[k + 1]):
                state.job_gpu[view.offset[j] + p - offset[k]] = gpu[p]
            state.stated[j, S_END] = end[k]
            code = place(view, sets, state, j, t, slot)
            if code != OK:
                if early[k]:  # this segment comes again
                    early[k] = False
                    counter[PHYSICAL] -= 1
                return code
            if t > ts and not np.isnan(end[k]):
                state.since[j] = ts  # a stated run has made progress since its stated start
            first_start[j] = min(first_start[j], t)
            counter[NEXT] = at + 1


@jit
def bad_layout(
    job: IntArray,
    offset: IntArray,
    gpu: IntArray,
    gpu_node: IntArray,
    first_gpu: IntArray,
    node_type: IntArray,
    tau: FloatArray,
) -> int:
    """Return 4 * run + problem of the first run whose GPUs form no gang, or -1.

    Problems: 0 not ascending and distinct, 1 no gang (docs/model.md section 1), 2 GPU
    type forbidden to the job, 3 no such GPU.
    """
    for r in range(len(job)):
        low, high = offset[r], offset[r + 1]
        for p in range(low, high):
            if gpu[p] < 0 or gpu[p] >= len(gpu_node):
                return int(4 * r + 3)
        for p in range(low + 1, high):
            if gpu[p] <= gpu[p - 1]:
                return int(4 * r)
        kind = node_type[gpu_node[gpu[low]]]
        size = first_gpu[gpu_node[gpu[low]] + 1] - first_gpu[gpu_node[gpu[low]]]
        parts = 0
        p = low
        while p < high:
            node = gpu_node[gpu[p]]
            q = p
            while q < high and gpu_node[gpu[q]] == node:
                q += 1
            if node_type[node] != kind:
                return int(4 * r + 1)
            if q - p < size:
                parts += 1
                if parts > 1 or (high - low >= size and (high - low) % size != q - p):
                    return int(4 * r + 1)
            elif high - low < size:
                return int(4 * r + 1)
            p = q
        if np.isinf(tau[job[r], kind]):
            return int(4 * r + 2)
    return -1
