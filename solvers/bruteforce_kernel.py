"""The compiled part of brute force: a depth-first walk over plans, in order of start.

A step of the walk either starts one more job at the slot of the current frame, or moves the frame to its
next slot. The physics is that of :mod:`eaco_opt.kernels.physics`, called with copies of its state, one copy
a frame; a partial plan in order of start decides everything up to its slot, so nothing is ever worked out
twice. What is cut off, and why no optimum is lost, stands in :mod:`solvers.bruteforce`.

The functions allocate nothing. All arrays come in named tuples: ``Task`` (what does not change), ``Frames``
(one row a depth), ``Live`` (the state at hand) and ``Best``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from eaco_opt.kernels._jit import inlined, jit
from eaco_opt.kernels.physics import (
    DYNAMIC,
    HEAP,
    I_SLOTS,
    I_WAKE_OPEN,
    N_DYNAMIC,
    N_END,
    N_SERVER,
    N_STANDING,
    N_TIME,
    OK,
    SERVER,
    SLEEP_J,
    STANDING,
    WAKE_J,
    FloatArray,
    IntArray,
    Sets,
    State,
    View,
    child,
    start_job,
    stop_job,
)

# Entries of the control array.
DEPTH, STEPS, PLANS, STAMP, FAILED, CONTROLS = range(6)

SLACK = 1e-9
"""Relative and in slots: what bounds give away to rounding."""

TIES = 1e-11
"""Partial plans that cannot get better than the best one by this share are cut off."""


class Task(NamedTuple):
    """What the walk is over: J jobs, T node types, C choices of GPUs, and 2**J sets of partners.

    ``earliest`` and ``latest`` (J,) are the first and last slot in which a job may start, ``wake_slot`` (J,
    T) the first in which it may wake a node, ``twin`` (J,) the job before it that it cannot be told from, or
    -1, ``partners`` (J,) the bits of the jobs whose windows overlap with its own, ``several`` (J,) whether
    some choice of it lies on several nodes. Choice c of job j, for c from ``first_choice[j]`` to
    ``first_choice[j + 1]``, are the GPUs ``choice_gpu[choice_offset[c] : choice_offset[c + 1]]``.

    The tables of bounds are in units of the objective. By job, node type and bits of the partners that are
    still possible: ``least_epoch`` for an epoch, ``least_second`` for a second of running, ``least_sigma``
    the least slowdown. By job and bits: ``least_run`` for the whole job and ``least_slots`` its shortest
    run.

    ``joule`` is the price of a joule before PUE, ``job_second`` (J,) that of a second of running (AvgTPE
    alone), ``late_second`` that of a second of JTT. ``bounds`` and ``shifts`` switch the two ways of cutting
    off on.
    """

    slot_s: float
    earliest: IntArray
    latest: IntArray
    wake_slot: IntArray
    deadline: FloatArray
    twin: IntArray
    partners: IntArray
    several: NDArray[np.bool_]
    first_choice: IntArray
    choice_offset: IntArray
    choice_gpu: IntArray
    least_epoch: FloatArray
    least_second: FloatArray
    least_sigma: FloatArray
    least_run: FloatArray
    least_slots: IntArray
    joule: float
    job_second: FloatArray
    late_second: float
    bounds: bool
    shifts: bool


class Frames(NamedTuple):
    """One row for each number of jobs placed, J + 1 in all.

    ``whole``, ``real`` and ``flag`` hold the state of the physics, ``chain`` and ``anchored`` what is known
    of moving things to the left, ``gpu_set``, ``twin_gpu`` and ``twin_node`` what the choice of GPUs needs.
    ``slot``, ``job`` and ``choice`` say what is tried next, ``placed`` which jobs have started (bits),
    ``spent`` what the jobs that have left cost without their energy.
    """

    whole: IntArray
    real: FloatArray
    flag: NDArray[np.bool_]
    chain: IntArray
    anchored: NDArray[np.bool_]
    gpu_set: IntArray
    twin_gpu: IntArray
    twin_node: IntArray
    slot: IntArray
    job: IntArray
    choice: IntArray
    placed: IntArray
    spent: FloatArray


class Live(NamedTuple):
    """What is being worked on: the buffers behind the state of the physics, and scratch."""

    whole: IntArray
    real: FloatArray
    flag: NDArray[np.bool_]
    chain: IntArray
    anchored: NDArray[np.bool_]
    start: IntArray
    mark: IntArray
    hosted: IntArray


class Best(NamedTuple):
    """The best plan: value (1,), start slots (J,), and GPUs job after job."""

    value: FloatArray
    start: IntArray
    gpu: IntArray


@jit
def _tolerance(t: float) -> float:
    """Return the tolerance [s] at a time since the earliest release (docs/model.md section 3.5)."""
    return 1e-6 + 1e-9 * abs(t)


@jit
def _warm(types: FloatArray, node_type: int, end: float, t: float) -> bool:
    """Tell whether a wake-up of an idle node at ``t``, or later, depends on its last busy period having been.

    True only for types whose wake-ups cost something, within the wake-up time of the end, or at the end
    itself.
    """
    wake = types[node_type, 7]
    if wake <= 0.0 and types[node_type, 8] <= 0.0:
        return False
    return bool(end >= 0.0 and t - end <= max(wake, 0.0) + _tolerance(t))


@jit
def _describe(
    first_gpu: IntArray,
    node_type: IntArray,
    types: FloatArray,
    size: IntArray,
    gpu_set: IntArray,
    resident: IntArray,
    node_f: FloatArray,
    node_i: IntArray,
    hosted: IntArray,
    t: float,
    row_set: IntArray,
    twin_gpu: IntArray,
    twin_node: IntArray,
) -> None:
    """Note for each GPU the one before it in its node that hosts the same jobs, and the same for nodes.

    Nodes are the same if they are of one type, host the same jobs GPU by GPU, and, when idle, owe the same
    for being woken from ``t`` on. -1: there is none.
    """
    for n in range(len(node_type)):
        for gpu in range(first_gpu[n], first_gpu[n + 1]):
            bits = 0
            for i in range(size[gpu_set[gpu]]):
                bits |= 1 << resident[gpu, i]
            hosted[gpu] = bits
            row_set[gpu] = gpu_set[gpu]
            twin = -1
            for other in range(gpu - 1, first_gpu[n] - 1, -1):
                if hosted[other] == bits:
                    twin = other
                    break
            twin_gpu[gpu] = twin
        twin_node[n] = -1
        for m in range(n - 1, -1, -1):
            if node_type[m] != node_type[n]:
                continue
            same = True
            for p in range(first_gpu[n + 1] - first_gpu[n]):
                if hosted[first_gpu[n] + p] != hosted[first_gpu[m] + p]:
                    same = False
                    break
            if not same:
                continue
            if node_i[n, I_SLOTS] == 0:
                mine, other_end = node_f[n, N_END], node_f[m, N_END]
                warm = _warm(types, node_type[n], mine, t)
                if warm != _warm(types, node_type[m], other_end, t) or (warm and mine != other_end):
                    continue
            elif node_i[n, I_WAKE_OPEN] != node_i[m, I_WAKE_OPEN]:
                continue
            twin_node[n] = m
            break


@jit
def _fits(
    j: int,
    low: int,
    high: int,
    choice_gpu: IntArray,
    gpu_node: IntArray,
    first_gpu: IntArray,
    node_type: IntArray,
    cls: int,
    hash_keys: IntArray,
    hash_values: IntArray,
    classes: int,
    physical: IntArray,
    threshold: NDArray[np.bool_],
    gpu_set: IntArray,
    twin_gpu: IntArray,
    twin_node: IntArray,
    mark: IntArray,
    stamp: int,
) -> bool:
    """Tell whether a job may join all GPUs of a choice, and no equal choice comes before it."""
    for p in range(low, high):
        mark[choice_gpu[p]] = stamp
    before = -1
    node = -1
    for p in range(low, high):
        gpu = choice_gpu[p]
        if twin_gpu[gpu] >= 0 and mark[twin_gpu[gpu]] != stamp:
            return False
        s = gpu_set[gpu]
        if s != before:
            before = s
            c = child(hash_keys, hash_values, classes, s, cls)
            if c < 0 or threshold[c] or physical[c, node_type[gpu_node[gpu]]] != 0:
                return False
        if gpu_node[gpu] != node:
            node = gpu_node[gpu]
            other = twin_node[node]
            if other >= 0:
                # Of two equal nodes the first takes the larger part, read as bits from GPU 0 on.
                for q in range(first_gpu[node + 1] - first_gpu[node]):
                    mine = mark[first_gpu[node] + q] == stamp
                    if mine != (mark[first_gpu[other] + q] == stamp):
                        if mine:
                            return False
                        break
    return True


@inlined
def _next_choice(
    view: View, sets: Sets, task: Task, frames: Frames, live: Live, control: IntArray, d: int
) -> int:
    """Move frame ``d`` to the next job and choice that can start at its slot; return the choice, or -1."""
    jobs = len(view.epochs)
    placed = frames.placed[d]
    slot = frames.slot[d]
    j = frames.job[d]
    c = frames.choice[d]
    while j < jobs:
        skip = (placed >> j) & 1 == 1 or slot < task.earliest[j] or slot > task.latest[j]
        if task.twin[j] >= 0 and (placed >> task.twin[j]) & 1 == 0:
            skip = True
        if not skip:
            while c < task.first_choice[j + 1]:
                control[STAMP] += 1
                if _fits(
                    j,
                    task.choice_offset[c],
                    task.choice_offset[c + 1],
                    task.choice_gpu,
                    view.gpu_node,
                    view.first_gpu,
                    view.node_type,
                    view.job_class[j],
                    sets.hash_keys,
                    sets.hash_values,
                    sets.classes,
                    sets.physical,
                    sets.threshold,
                    frames.gpu_set[d],
                    frames.twin_gpu[d],
                    frames.twin_node[d],
                    live.mark,
                    control[STAMP],
                ):
                    frames.job[d] = j
                    frames.choice[d] = c + 1
                    return int(c)
                c += 1
        j += 1
        if j < jobs:
            c = task.first_choice[j]
    frames.job[d] = jobs
    return -1


@inlined
def _join(view: View, state: State, task: Task, live: Live, j: int, k: int) -> None:
    """Note what keeps job ``j``, about to start at slot ``k`` on the GPUs in ``job_gpu``, from moving up.

    ``chain[n]`` names the group of jobs that has to move together with the last one on node n.
    """
    t = k * task.slot_s
    anchor = task.earliest[j] == k
    node = -1
    for p in range(view.offset[j], view.offset[j + 1]):
        n = view.gpu_node[state.job_gpu[p]]
        if n == node:
            continue
        node = n
        old = -1
        if state.node_i[n, I_SLOTS] > 0:
            old = live.chain[n]
        else:
            end = state.node_f[n, N_END]
            touches = end >= 0.0 and t - end <= _tolerance(t)
            kind = view.node_type[n]
            if view.types[kind, 7] > 0.0 or view.types[kind, 8] > 0.0:
                if _warm(view.types, kind, end, t):
                    old = live.chain[n]
                if not touches and task.wake_slot[j, kind] >= k:
                    anchor = True
            elif touches:
                anchor = True
        if old >= 0 and old != j:
            if live.anchored[old]:
                anchor = True
            for m in range(len(view.node_type)):
                if live.chain[m] == old:
                    live.chain[m] = j
        live.chain[n] = j
    live.anchored[j] = anchor


@inlined
def _could_move(view: View, state: State, task: Task, live: Live, placed: int, k: int) -> bool:
    """Tell whether some group could start a slot earlier whatever is still placed, from slot ``k`` on."""
    t = k * task.slot_s
    hope = False
    for j in range(len(view.epochs)):
        if (placed >> j) & 1 == 0:
            if task.several[j]:
                hope = True
            # Never before `earliest`, so that this covers a start right at the release too.
            for kind in range(len(view.types)):
                if task.wake_slot[j, kind] >= k:
                    hope = True
    found = False
    for n in range(len(view.node_type)):
        label = live.chain[n]
        if label < 0 or live.anchored[label] or found:
            continue
        alive = False
        if hope:
            for m in range(len(view.node_type)):
                if live.chain[m] == label and (
                    state.node_i[m, I_SLOTS] > 0
                    or _warm(view.types, view.node_type[m], state.node_f[m, N_END], t)
                ):
                    alive = True
        found = not alive
    return found


@inlined
def _lower_bound(
    view: View, sets: Sets, state: State, task: Task, placed: int, k: int, spent: float
) -> float:
    """Return a lower bound of all plans that go on from here, infinity if a deadline cannot be met.

    What has been used up to slot ``k`` is exact. What is left of a job costs at least its epochs left times
    the least price of an epoch, and at least its least slots left times the least price of a second.
    """
    slot = task.slot_s
    t = k * slot
    jobs = len(view.epochs)
    total = state.total
    energy = total[SERVER] + total[STANDING] + total[DYNAMIC] + total[WAKE_J] + total[SLEEP_J]
    for n in range(len(view.node_type)):
        if state.node_i[n, I_SLOTS] > 0:
            power = state.node_f[n, N_SERVER] + state.node_f[n, N_STANDING] + state.node_f[n, N_DYNAMIC]
            energy += power * max(0.0, t - state.node_f[n, N_TIME])
        else:
            # Every plan from here on lasts at least until t, and waking draws no less than sleeping.
            energy += view.types[view.node_type[n], 6] * max(0.0, t - max(0.0, state.node_f[n, N_END]))
    value = spent + task.joule * energy
    running = 0
    for j in range(jobs):
        if state.running[j]:
            running |= 1 << j
    waiting = ((1 << jobs) - 1) & ~placed
    for j in range(jobs):
        if (running >> j) & 1:
            kind = view.node_type[view.gpu_node[state.job_gpu[view.offset[j]]]]
            mates = waiting
            for p in range(view.offset[j], view.offset[j + 1]):
                gpu = state.job_gpu[p]
                for i in range(sets.size[state.gpu_set[gpu]]):
                    mates |= 1 << state.resident[gpu, i]
            mates &= task.partners[j]
            done = state.progress[j] + state.speed[j] * max(0.0, t - state.since[j])
            left = max(0.0, state.target[j] * (1.0 - 1e-9) - done)
            seconds = left * view.tau[j, kind] * task.least_sigma[j, kind, mates]
            more = max(1.0, np.ceil((seconds / slot) * (1.0 - SLACK) - SLACK))
            end = (k + more) * slot
            if end - task.deadline[j] > _tolerance(end):
                return np.inf
            value += task.job_second[j] * (t - state.began[j]) + task.late_second * (t - view.release[j])
            value += max(
                left * task.least_epoch[j, kind, mates], more * slot * task.least_second[j, kind, mates]
            )
        elif (waiting >> j) & 1:
            mates = (waiting | running) & task.partners[j]
            start = max(task.earliest[j], k)
            end = (start + task.least_slots[j, mates]) * slot
            if start > task.latest[j] or end - task.deadline[j] > _tolerance(end):
                return np.inf
            value += task.least_run[j, mates] + task.late_second * (start * slot - view.release[j])
    return float(value)


@jit
def _whole_energy(
    types: FloatArray, node_type: IntArray, total: FloatArray, node_f: FloatArray, makespan: float
) -> float:
    """Return the energy [J], before PUE, of a plan that is over at ``makespan``."""
    energy = total[SERVER] + total[STANDING] + total[DYNAMIC] + total[WAKE_J] + total[SLEEP_J]
    for n in range(len(node_type)):
        energy += types[node_type[n], 6] * max(0.0, makespan - max(0.0, node_f[n, N_END]))
    return float(energy)


@jit
def _copy(a: FloatArray, b: FloatArray) -> None:
    for i in range(len(a)):
        b[i] = a[i]


@jit
def _copy_whole(a: IntArray, b: IntArray) -> None:
    for i in range(len(a)):
        b[i] = a[i]


@jit
def _copy_flag(a: NDArray[np.bool_], b: NDArray[np.bool_]) -> None:
    for i in range(len(a)):
        b[i] = a[i]


@inlined
def _load(frames: Frames, live: Live, d: int) -> None:
    _copy_whole(frames.whole[d], live.whole)
    _copy(frames.real[d], live.real)
    _copy_flag(frames.flag[d], live.flag)
    _copy_whole(frames.chain[d], live.chain)
    _copy_flag(frames.anchored[d], live.anchored)


@inlined
def _save(frames: Frames, live: Live, d: int) -> None:
    _copy_whole(live.whole, frames.whole[d])
    _copy(live.real, frames.real[d])
    _copy_flag(live.flag, frames.flag[d])
    _copy_whole(live.chain, frames.chain[d])
    _copy_flag(live.anchored, frames.anchored[d])


@jit
def walk(
    view: View,
    sets: Sets,
    state: State,
    task: Task,
    frames: Frames,
    live: Live,
    best: Best,
    control: IntArray,
    budget: int,
) -> bool:
    """Take at most ``budget`` steps; return whether all plans have been seen. Can be called again.

    ``control`` holds the depth (0 at first, -1 at the end), counts of steps and of whole plans, and the
    number of the job whose start failed, plus one, which cannot happen unless the table of sets is not
    whole.
    """
    jobs = len(view.epochs)
    everyone = (1 << jobs) - 1
    slot = task.slot_s
    while control[DEPTH] >= 0:
        if budget <= 0:
            return False
        budget -= 1
        control[STEPS] += 1
        d = control[DEPTH]
        placed = frames.placed[d]
        k = frames.slot[d]
        spent = frames.spent[d]
        choice = _next_choice(view, sets, task, frames, live, control, d)
        starts = choice >= 0
        _load(frames, live, d)
        going = True
        until = -1.0
        if starts:
            j = frames.job[d]
            low = task.choice_offset[choice]
            for p in range(view.offset[j], view.offset[j + 1]):
                state.job_gpu[p] = task.choice_gpu[low + p - view.offset[j]]
            _join(view, state, task, live, j, k)
            if start_job(view, sets, state, j, k * slot, k * slot, slot) != OK:
                control[FAILED] = j + 1
                return True
            live.start[j] = k
            placed |= 1 << j
        else:
            k += 1
            for n in range(len(view.node_type)):
                if state.node_i[n, I_WAKE_OPEN] != 0:
                    going = False
            for j in range(jobs):
                if (placed >> j) & 1 == 0 and task.latest[j] < k:
                    going = False
            until = k * slot
        over = False
        while going:
            while state.counter[HEAP] > 0 and state.due[state.heap[0]] <= until + _tolerance(until):
                j = state.heap[0]
                t = state.due[j]
                stop_job(view, sets, state, j, t, slot)
                spent += task.job_second[j] * (t - state.began[j]) + task.late_second * (t - view.release[j])
                if t - task.deadline[j] > _tolerance(t):
                    going = False
                    break
            if over or not going:
                break
            if task.shifts and _could_move(view, state, task, live, placed, k):
                going = False
            if going and placed == everyone:
                for n in range(len(view.node_type)):
                    if state.node_i[n, I_WAKE_OPEN] != 0:
                        going = False
            if going and task.bounds:
                bound = _lower_bound(view, sets, state, task, placed, k, spent)
                if bound >= best.value[0] * (1.0 - TIES):
                    going = False
            if placed != everyone:
                break
            over = True
            until = 1e300
        if over:
            if going:
                control[PLANS] += 1
                end = 0.0
                for n in range(len(view.node_type)):
                    end = max(end, state.node_f[n, N_END])
                energy = _whole_energy(view.types, view.node_type, state.total, state.node_f, end)
                value = spent + task.joule * energy
                if value < best.value[0]:
                    best.value[0] = value
                    _copy_whole(live.start, best.start)
                    _copy_whole(state.job_gpu, best.gpu)
        elif going:
            if starts:
                j = frames.job[d]
                d += 1
                control[DEPTH] = d
                frames.placed[d] = placed
                frames.job[d] = j + 1
                frames.choice[d] = task.first_choice[min(j + 1, jobs - 1)]
            else:
                frames.job[d] = 0
                frames.choice[d] = 0
            frames.slot[d] = k
            frames.spent[d] = spent
            _save(frames, live, d)
            _describe(
                view.first_gpu,
                view.node_type,
                view.types,
                sets.size,
                state.gpu_set,
                state.resident,
                state.node_f,
                state.node_i,
                live.hosted,
                k * slot,
                frames.gpu_set[d],
                frames.twin_gpu[d],
                frames.twin_node[d],
            )
        elif not starts:
            control[DEPTH] = d - 1
    return True
