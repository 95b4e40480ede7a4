"""Compiled dynamic programme over the busy periods of one node.

A *label* is what may have happened on the node from the start of a busy period to a slot boundary: who is
still there with how much work left on which cells, who has been there, and the reduced cost so far. Labels of
a boundary are extended by every admissible choice of jobs that start there, and by running one slot. A label
without residents closes the busy period: it is a column.

A label is dropped when no continuation can bring its reduced cost below the limit, or when another label may
be continued in every way that it may at no higher cost; :mod:`solvers.busy_periods.pricing` says why.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from eaco_opt.kernels._jit import jit

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
SmallArray = NDArray[np.int32]
BoolArray = NDArray[np.bool_]

WORD = 62
NEVER = 1e6

# Columns of `Labels.chain`.
NEXT, KEY = range(2)

# Entries of the control array of `extend`.
SOURCE, COUNT, FULL, MADE, BOUNDED, DOMINATED, LOOK, ALONE, CONTROLS = range(9)


class Labels(NamedTuple):
    """Labels, one row each; R most residents, W words of jobs, Q words of cuts.

    ``cost`` (M,) reduced cost, ``true`` (M,) cost; ``residents`` (M,) how many; ``job``, ``left``, ``cells``
    (M, R) residents in ascending order, their work left and bits of their cells; ``been`` (M, W) jobs that
    have started, ``open`` (M, W) those that still may; ``odd`` (M, Q) cuts of which an odd number of jobs has
    started; ``first`` (M,) slot in which the busy period began; ``parent`` (M,), -1 for none; ``bound`` (M,)
    least reduced cost of any column that it may become; ``lonely`` (M,) reduced cost if nobody joins,
    ``joined`` (M,) at least with others, theirs apart; ``chain`` (M, 2) next label of the same bucket, and
    hash value;
    ``alive`` (M,).
    """

    cost: FloatArray
    true: FloatArray
    residents: SmallArray
    job: SmallArray
    left: IntArray
    cells: SmallArray
    been: IntArray
    open: IntArray
    odd: IntArray
    first: SmallArray
    parent: SmallArray
    bound: FloatArray
    lonely: FloatArray
    joined: FloatArray
    chain: IntArray
    alive: BoolArray


@jit
def server_cost(cpu: float, cpu_cost: float, cpu_exponent: float) -> float:
    """Return what the CPU's load adds to the objective of a slot of a node (docs/model.md section 2)."""
    u = min(1.0, cpu)
    if u > 0.0:
        return float(cpu_cost * (2.0 * u - u**cpu_exponent))
    return 0.0


@jit
def node_cost(
    sets: IntArray,
    cells: int,
    cpu: float,
    cell_cost: FloatArray,
    kind_set: IntArray,
    full_cost: FloatArray,
    base_cost: float,
    cpu_cost: float,
    cpu_exponent: float,
) -> float:
    """Return the objective of a slot of a node whose cells host these sets (docs/model.md section 2)."""
    first = sets[0]
    same = first != 0
    for c in range(1, cells):
        if kind_set[sets[c]] != kind_set[first]:
            same = False
            break
    if same and full_cost[first] == full_cost[first]:
        return float(full_cost[first])
    total = base_cost
    for c in range(cells):
        total += cell_cost[sets[c]]
    return total + server_cost(cpu, cpu_cost, cpu_exponent)


@jit
def order_cells(code: IntArray, cells: int, order: IntArray) -> None:
    """Put the numbers of the cells in descending order of their residents' bits; equal ones stay in order."""
    for c in range(cells):
        order[c] = c
    for i in range(1, cells):
        c = order[i]
        k = i - 1
        while k >= 0 and code[order[k]] < code[c]:
            order[k + 1] = order[k]
            k -= 1
        order[k + 1] = c


@jit
def choices(
    code: IntArray,
    sets: IntArray,
    cells: int,
    hold: int,
    cls: int,
    child: IntArray,
    out: IntArray,
    order: IntArray,
    take: IntArray,
    size: IntArray,
    group: IntArray,
) -> int:
    """Write all ways to place a job that holds some cells (bits of cells), equal cells counted once.

    Cells with the same residents are a group, of which the first ones are taken.
    """
    order_cells(code, cells, order)
    groups = 0
    for i in range(cells):
        c = order[i]
        if i == 0 or code[order[i - 1]] != code[c]:
            group[groups] = i
            size[groups] = 1
            groups += 1
        else:
            size[groups - 1] += 1
    for g in range(groups):
        if child[sets[order[group[g]]], cls] < 0:
            size[g] = 0
        take[g] = 0
    made = 0
    # All vectors take <= size of sum hold, in lexicographic order, by an odometer that keeps the sum.
    g = 0
    rest = hold
    while True:
        # Fill greedily from g on.
        while g < groups:
            take[g] = min(size[g], rest)
            rest -= take[g]
            g += 1
        if rest == 0:
            bits = 0
            for h in range(groups):
                for i in range(take[h]):
                    bits |= 1 << order[group[h] + i]
            out[made] = bits
            made += 1
        # Next: lower the last take that can be lowered, move what follows.
        g = groups - 1
        rest += take[g]
        take[g] = 0
        g -= 1
        while g >= 0 and take[g] == 0:
            g -= 1
        if g < 0:
            return made
        take[g] -= 1
        rest += 1
        g += 1


class Rules(NamedTuple):
    """What a node of the search tree and its duals ask of columns.

    ``gain`` (J,) dual of each job; ``price`` (T,) what an active node pays in each slot besides its cost;
    ``apart`` (J, W) jobs that must not be on the same column; ``pair`` (P, 2) jobs that must be on the same
    or on none, ``paired`` (W,) all of those; ``later`` (T + 1, W) jobs that may start in a slot or after it;
    ``cut_price`` (C,) what a column pays for each pair of jobs of a cut; ``cut_jobs`` (C, W); ``cuts_of`` (J,
    Q) cuts with each job; ``limit`` columns at or above this reduced
    cost are of no interest; ``whole`` whether all columns below the limit are wanted and not the best only;
    ``strict`` (J,) whether less work left of a job is no advantage; ``toll`` (T + 1,) what less work left may
    cost at most from a boundary on; ``worth`` (J,) the most that a job can add to the gain of a column;
    ``alone`` whether the bound by residents alone holds (never with pairs); ``teams`` most jobs of a team, 0
    without, and the arrays of :class:`solvers.busy_periods.teams.Teams`, ``last_start`` (J,) last slot of a
    start.
    """

    gain: FloatArray
    price: FloatArray
    apart: IntArray
    pair: IntArray
    paired: IntArray
    later: IntArray
    cut_price: FloatArray
    cut_jobs: IntArray
    cuts_of: IntArray
    limit: float
    whole: bool
    strict: IntArray
    toll: FloatArray
    worth: FloatArray
    alone: bool
    teams: int
    team_choose: IntArray
    team_offset: IntArray
    team_at: IntArray
    team_end: IntArray
    team_value: FloatArray
    last_start: IntArray


class Lanes(NamedTuple):
    """Tables of the bound by lanes: ``lane`` (T + 1, T + 1), ``run`` flat, and the same for idle lanes.

    ``run[offset[j] + ((t - first[j]) * bins[j] + q) * (T + 1) + b]`` belongs to job j at boundary t, in a
    busy period that ends at b, with at least need[j] - (bins[j] - 1 - q) * width[j] units of work left (at
    least one): steps of the fastest pace stay on these values. ``margin`` (T + 1, J) is what a job can add at
    most to idle lanes if it starts at a boundary or later.
    """

    lane: FloatArray
    run: FloatArray
    idle_lane: FloatArray
    idle_run: FloatArray
    margin: FloatArray
    offset: IntArray
    first: IntArray
    bins: IntArray
    width: IntArray


class Scratch(NamedTuple):
    """Working memory of `extend`; D = most residents + 1 depths, X most choices of cells."""

    sets: IntArray  # (D, cells)
    code: IntArray  # (D, cells)
    job: IntArray  # (D,)
    left: IntArray  # (D,)
    bits: IntArray  # (D,)
    cost: FloatArray  # (D,)
    true: FloatArray  # (D,)
    cpu: FloatArray  # (D,)
    been: IntArray  # (D, W)
    odd: IntArray  # (D, Q)
    at: IntArray  # (D,) place in the list of candidates
    choice: IntArray  # (D,)
    made: IntArray  # (D,)
    buffer: IntArray  # (D, X)
    candidate: IntArray  # (J,)
    new_job: IntArray  # (D,)
    new_left: IntArray  # (D,)
    new_bits: IntArray  # (D,)
    go_left: IntArray  # (D,)
    new_set: IntArray  # (cells,)
    order: IntArray  # (cells,)
    new_code: IntArray  # (cells,)
    take: IntArray  # (cells,)
    size: IntArray  # (cells,)
    group: IntArray  # (cells,)
    open: IntArray  # (W,)
    odd_left: IntArray  # (Q,)
    saving: FloatArray  # (T + 1,)
    ahead: FloatArray  # (T + 1,)
    late: IntArray  # (J,)


@jit
def alone_costs(
    t: int,
    count: int,
    joins: int,
    mask: int,
    job: IntArray,
    left: IntArray,
    bits: IntArray,
    sets: IntArray,
    price: FloatArray,
    cells: int,
    child: IntArray,
    level: IntArray,
    cell_cost: FloatArray,
    kind_set: IntArray,
    full_cost: FloatArray,
    base_cost: float,
    cpu_cost: float,
    cpu_exponent: float,
    cpu: FloatArray,
    job_class: IntArray,
    up: IntArray,
    run_cost: FloatArray,
    joint_cost: FloatArray,
    joint_toll: float,
    last_end: IntArray,
    saving: FloatArray,
) -> tuple[float, float]:
    """Return what residents cost from a boundary to their ends, alone and at least in company.

    In company, from slot ``joins`` on, a slot costs at least what they add to the cost of the others, of whom
    ``mask`` gives the classes. ``left`` and ``sets`` are overwritten. ``saving`` (T + 1,) is set to what
    company saves at most in all slots before each boundary from t on. Infinite costs: some resident would
    be late even alone.
    """
    slots = price.shape[0]
    without = 0.0
    within = 0.0
    stay = count
    m = t
    saving[t] = 0.0
    while stay > 0 and m < slots:
        use = 0.0
        running = 0.0
        for i in range(count):
            if left[i] > 0:
                use += cpu[job[i]]
                running += run_cost[job[i]]
        value = price[m] + node_cost(
            sets, cells, use, cell_cost, kind_set, full_cost, base_cost, cpu_cost, cpu_exponent
        )
        without += value + running
        joint = -joint_toll
        for c in range(cells):
            joint += joint_cost[sets[c], mask]
        # Where nobody can join, a team that is there saves less than nothing.
        saving[m + 1] = saving[m] + max(value - joint, -NEVER)
        if m >= joins:
            value = min(value, joint)
        within += value + running
        gone = False
        for i in range(count):
            if left[i] > 0:
                j = job[i]
                pace = 0
                for c in range(cells):
                    if (bits[i] >> c) & 1:
                        pace = max(pace, level[sets[c], job_class[j]])
                left[i] -= up[j, pace]
                if left[i] <= 0:
                    stay -= 1
                    gone = True
                elif m + 1 >= last_end[j]:
                    return np.inf, np.inf
        m += 1
        if gone and stay > 0:
            for c in range(cells):
                sets[c] = 0
            for i in range(count):
                if left[i] > 0:
                    for c in range(cells):
                        if (bits[i] >> c) & 1:
                            sets[c] = child[sets[c], job_class[job[i]]]
    while m < slots:
        saving[m + 1] = saving[m]
        m += 1
    return without, within


@jit
def with_teams(
    t: int,
    late: IntArray,
    count: int,
    choose: IntArray,
    offset: IntArray,
    at: IntArray,
    end: IntArray,
    value: FloatArray,
    last_start: IntArray,
    saving: FloatArray,
    ahead: FloatArray,
) -> float:
    """Return the least that jobs add which start at a boundary or later, or not at all.

    ``late`` are at most as many jobs as a team has, in ascending order; ``saving`` as in `alone_costs`;
    ``ahead`` (T + 1,) is overwritten.
    """
    slots = ahead.shape[0] - 1
    last = t - 1
    for i in range(count):
        last = max(last, last_start[late[i]])
    for a in range(last + 1, slots + 1):
        ahead[a] = 0.0
    for a in range(last, t - 1, -1):
        best = ahead[a + 1]
        for code in range(1, 1 << count):
            size = 0
            team = 0
            for m in range(count):
                if (code >> m) & 1:
                    size += 1
                    team += choose[late[m], size]
            team += offset[size]
            for e in range(at[team, a], at[team, a + 1]):
                b = end[e]
                best = min(best, value[e] - saving[b] + saving[a] + ahead[b])
        ahead[a] = best
    return float(ahead[t])


@jit
def extend(
    t: int,
    low: int,
    high: int,
    control: IntArray,
    labels: Labels,
    bucket: IntArray,
    cells: int,
    share: int,
    child: IntArray,
    level: IntArray,
    cell_cost: FloatArray,
    kind_set: IntArray,
    full_cost: FloatArray,
    base_cost: float,
    cpu_cost: float,
    cpu_exponent: float,
    cpu: FloatArray,
    hold: IntArray,
    job_class: IntArray,
    up: IntArray,
    fastest: IntArray,
    need: IntArray,
    run_cost: FloatArray,
    start_cost: FloatArray,
    can_start: BoolArray,
    last_end: IntArray,
    first_end: IntArray,
    rent: float,
    lone_cost: FloatArray,
    part_cost: FloatArray,
    idle_rent: float,
    idle_part_cost: FloatArray,
    best_level: IntArray,
    most_up: IntArray,
    joint_cost: FloatArray,
    joint_toll: float,
    class_bit: IntArray,
    next_start: IntArray,
    rules: Rules,
    lanes: Lanes,
    work: Scratch,
) -> None:
    """Make the labels of boundary t + 1 from those of boundary t, rows low to high, and from an idle node.

    ``control[SOURCE]`` is the row to go on with (low - 1: the idle node), ``control[COUNT]`` the next free
    row; ``control[FULL]`` is set where rows have run out: then the same row is to be done again with more.
    ``bucket`` holds the first label of each hash value, all -1 at the beginning of a slot.
    """
    jobs = hold.shape[0]
    slots = can_start.shape[1]
    words = labels.been.shape[1]
    cut_words = labels.odd.shape[1]
    room = labels.cost.shape[0]
    last_bucket = bucket.shape[0] - 1
    sets, code = work.sets, work.code
    pairs = rules.pair.shape[0]
    most = labels.job.shape[1]
    lane, idle_lane = lanes.lane, lanes.idle_lane
    source = control[SOURCE]
    while source < high:
        idle = source < low
        if not idle and (labels.residents[source] == 0 or not labels.alive[source]):
            source += 1
            continue
        # The state of depth 0.
        present = 0
        for c in range(cells):
            sets[0, c] = 0
            code[0, c] = 0
        work.cpu[0] = 0.0
        if idle:
            work.cost[0] = 0.0
            work.true[0] = 0.0
            for w in range(words):
                work.been[0, w] = 0
            for w in range(cut_words):
                work.odd[0, w] = 0
        else:
            present = labels.residents[source]
            work.cost[0] = labels.cost[source]
            work.true[0] = labels.true[source]
            for w in range(words):
                work.been[0, w] = labels.been[source, w]
            for w in range(cut_words):
                work.odd[0, w] = labels.odd[source, w]
            for i in range(present):
                j = labels.job[source, i]
                work.job[i] = j
                work.left[i] = labels.left[source, i]
                work.bits[i] = labels.cells[source, i]
                work.cpu[0] += cpu[j]
                for c in range(cells):
                    if (work.bits[i] >> c) & 1:
                        sets[0, c] = child[sets[0, c], job_class[j]]
                        code[0, c] |= 1 << i
        candidates = 0
        for j in range(jobs):
            if can_start[j, t] and hold[j] > 0:
                if idle or (labels.open[source, j // WORD] >> (j % WORD)) & 1:
                    work.candidate[candidates] = j
                    candidates += 1
        depth = 0
        work.at[0] = -1
        work.choice[0] = 0
        work.made[0] = 0
        fresh = not idle
        while depth >= 0:
            if fresh:
                # Run a slot with the residents of this depth.
                fresh = False
                n = present + depth
                if rules.alone and depth > 0:
                    # With whoever else may still start, now or later: see `alone_costs`.
                    mask = 0
                    for k in range(work.at[depth] + 1, candidates):
                        mask |= class_bit[job_class[work.candidate[k]]]
                    joins = slots
                    if mask:
                        joins = t
                    for j in range(jobs):
                        if (rules.later[t + 1, j // WORD] >> (j % WORD)) & 1:
                            if not (work.been[depth, j // WORD] >> (j % WORD)) & 1:
                                joins = min(joins, next_start[j, t + 1])
                                mask |= class_bit[job_class[j]]
                    for i in range(n):
                        work.go_left[i] = work.left[i]
                    for c in range(cells):
                        work.new_set[c] = sets[depth, c]
                    without, within = alone_costs(
                        t,
                        n,
                        joins,
                        mask,
                        work.job,
                        work.go_left,
                        work.bits,
                        work.new_set,
                        rules.price,
                        cells,
                        child,
                        level,
                        cell_cost,
                        kind_set,
                        full_cost,
                        base_cost,
                        cpu_cost,
                        cpu_exponent,
                        cpu,
                        job_class,
                        up,
                        run_cost,
                        joint_cost,
                        joint_toll,
                        last_end,
                        work.saving,
                    )
                    if work.cost[depth] + within >= rules.limit:
                        control[ALONE] += 1
                        depth -= 1
                        continue
                value = node_cost(
                    sets[depth],
                    cells,
                    work.cpu[depth],
                    cell_cost,
                    kind_set,
                    full_cost,
                    base_cost,
                    cpu_cost,
                    cpu_exponent,
                )
                kept = 0
                possible = True
                for i in range(n):
                    j = work.job[i]
                    value += run_cost[j]
                    pace = 0
                    for c in range(cells):
                        if (work.bits[i] >> c) & 1:
                            pace = max(pace, level[sets[depth, c], job_class[j]])
                    left = work.left[i] - up[j, pace]
                    if left <= 0:
                        if t + 1 < first_end[j] or t + 1 > last_end[j]:
                            possible = False
                            break
                        continue
                    if left > fastest[j] * (last_end[j] - t - 1):
                        possible = False
                        break
                    k = kept - 1
                    while k >= 0 and work.new_job[k] > j:
                        work.new_job[k + 1] = work.new_job[k]
                        work.new_left[k + 1] = work.new_left[k]
                        work.new_bits[k + 1] = work.new_bits[k]
                        k -= 1
                    work.new_job[k + 1] = j
                    work.new_left[k + 1] = left
                    work.new_bits[k + 1] = work.bits[i]
                    kept += 1
                if possible:
                    cost = work.cost[depth] + value + rules.price[t]
                    true = work.true[depth] + value
                    control[MADE] += 1
                    # Who may still start.
                    for w in range(words):
                        work.open[w] = rules.later[t + 1, w] & ~work.been[depth, w]
                    gain_idle = 0.0
                    for j in range(jobs):
                        if (work.open[j // WORD] >> (j % WORD)) & 1:
                            for w in range(words):
                                if rules.apart[j, w] & work.been[depth, w]:
                                    work.open[j // WORD] &= ~(1 << (j % WORD))
                                    break
                    for p in range(pairs):
                        a, b = rules.pair[p, 0], rules.pair[p, 1]
                        has_a = (work.been[depth, a // WORD] >> (a % WORD)) & 1
                        has_b = (work.been[depth, b // WORD] >> (b % WORD)) & 1
                        if has_a != has_b:
                            o = b if has_a else a
                            if kept == 0 or not (work.open[o // WORD] >> (o % WORD)) & 1:
                                possible = False
                                break
                if possible and kept == 0:
                    if cost < rules.limit:
                        if control[COUNT] == room:
                            control[FULL] = 1
                            control[SOURCE] = source
                            return
                        row = control[COUNT]
                        control[COUNT] += 1
                        labels.cost[row] = cost
                        labels.true[row] = true
                        labels.bound[row] = cost
                        labels.residents[row] = 0
                        labels.parent[row] = -1 if idle else source
                        labels.first[row] = t if idle else labels.first[source]
                        labels.alive[row] = True
                        for w in range(words):
                            labels.been[row, w] = work.been[depth, w]
                elif possible:
                    held = 0
                    for c in range(cells):
                        work.new_set[c] = 0
                    for i in range(kept):
                        j = work.new_job[i]
                        held += hold[j]
                        work.go_left[i] = work.new_left[i]
                        for c in range(cells):
                            if (work.new_bits[i] >> c) & 1:
                                work.new_set[c] = child[work.new_set[c], job_class[j]]
                    free = cells * share - held
                    bound = -np.inf
                    least = -np.inf
                    lonely = -np.inf
                    joined = -np.inf
                    if possible and rules.alone:
                        # Whoever joins later would do no worse on a node of its own, but for what the
                        # company of the present residents saves: see the module.
                        mask = 0
                        joins = slots
                        for j in range(jobs):
                            if (work.open[j // WORD] >> (j % WORD)) & 1:
                                joins = min(joins, next_start[j, t + 1])
                                mask |= class_bit[job_class[j]]
                        for i in range(kept):
                            work.go_left[i] = work.new_left[i]
                        without, within = alone_costs(
                            t + 1,
                            kept,
                            joins,
                            mask,
                            work.new_job,
                            work.go_left,
                            work.new_bits,
                            work.new_set,
                            rules.price,
                            cells,
                            child,
                            level,
                            cell_cost,
                            kind_set,
                            full_cost,
                            base_cost,
                            cpu_cost,
                            cpu_exponent,
                            cpu,
                            job_class,
                            up,
                            run_cost,
                            joint_cost,
                            joint_toll,
                            last_end,
                            work.saving,
                        )
                        least = cost + within
                        joined = least
                        lonely = cost + without
                        if rules.teams and least < rules.limit and lonely >= rules.limit:
                            count = 0
                            for j in range(jobs):
                                if (work.open[j // WORD] >> (j % WORD)) & 1:
                                    if count < rules.teams:
                                        work.late[count] = j
                                    count += 1
                            if count <= rules.teams:
                                least = max(
                                    least,
                                    lonely
                                    + with_teams(
                                        t + 1,
                                        work.late,
                                        count,
                                        rules.team_choose,
                                        rules.team_offset,
                                        rules.team_at,
                                        rules.team_end,
                                        rules.team_value,
                                        rules.last_start,
                                        work.saving,
                                        work.ahead,
                                    ),
                                )
                        if least >= rules.limit:
                            possible = False
                            control[ALONE] += 1
                    if not rules.alone:
                        for j in range(jobs):
                            if (work.open[j // WORD] >> (j % WORD)) & 1:
                                gain_idle += lanes.margin[t + 1, j]
                        # Until the first of them can have left, all residents are in each other's company.
                        m = t + 1
                        spent = 0.0
                        spent_idle = 0.0
                        leaving = False
                        while not leaving and m < slots:
                            for i in range(kept):
                                j = work.new_job[i]
                                pace = 0
                                spent += lone_cost[j] + hold[j] * (rent + rules.price[m]) / (cells * share)
                                spent_idle += lone_cost[j] + hold[j] * (idle_rent + rules.price[m]) / (
                                    cells * share
                                )
                                for c in range(cells):
                                    if (work.new_bits[i] >> c) & 1:
                                        pace = max(pace, best_level[work.new_set[c], job_class[j]])
                                        spent += part_cost[work.new_set[c], job_class[j]]
                                        spent_idle += idle_part_cost[work.new_set[c], job_class[j]]
                                work.go_left[i] -= most_up[j, pace]
                                if work.go_left[i] <= 0:
                                    leaving = True
                            m += 1
                        for i in range(kept):
                            if work.go_left[i] > 0 and m >= last_end[work.new_job[i]]:
                                possible = False
                        if possible:
                            ahead = -np.inf
                            ahead_idle = -np.inf
                            for b in range(m, slots + 1):
                                some = free * lane[t + 1, b]
                                some_idle = free * idle_lane[t + 1, b]
                                for i in range(kept):
                                    j = work.new_job[i]
                                    if work.go_left[i] <= 0:
                                        some += hold[j] * lane[m, b]
                                        some_idle += hold[j] * idle_lane[m, b]
                                        continue
                                    if b == m:
                                        some = -np.inf
                                        some_idle = -np.inf
                                        break
                                    done = need[j] - work.go_left[i] + lanes.width[j] - 1
                                    q = max(0, lanes.bins[j] - 1 - done // lanes.width[j])
                                    at = (
                                        lanes.offset[j]
                                        + ((m - lanes.first[j]) * lanes.bins[j] + q) * (slots + 1)
                                        + b
                                    )
                                    some += lanes.run[at]
                                    some_idle += lanes.idle_run[at]
                                ahead = max(ahead, some)
                                ahead_idle = max(ahead_idle, some_idle)
                            bound = cost + max(spent - ahead, spent_idle - ahead_idle - gain_idle)
                    bound = max(bound, least)
                    if bound >= rules.limit:
                        control[BOUNDED] += 1
                        possible = False
                    if possible:
                        # Cells in the order of their residents.
                        key = 1469598103934665603
                        if cells > 1:
                            for c in range(cells):
                                work.new_code[c] = 0
                                for i in range(kept):
                                    if (work.new_bits[i] >> c) & 1:
                                        work.new_code[c] |= 1 << i
                            order_cells(work.new_code, cells, work.order)
                            for i in range(kept):
                                work.new_bits[i] = 0
                            for p in range(cells):
                                here = work.new_code[work.order[p]]
                                for i in range(kept):
                                    if (here >> i) & 1:
                                        work.new_bits[i] |= 1 << p
                        for i in range(kept):
                            key = (key ^ (work.new_job[i] + 1)) * 1099511628211
                            if rules.strict[work.new_job[i]]:
                                key = (key ^ work.new_left[i]) * 1099511628211
                            key = (key ^ work.new_bits[i]) * 1099511628211
                        first = t if idle else labels.first[source]
                        if rules.whole:
                            for w in range(words):
                                key = (key ^ work.been[depth, w]) * 1099511628211
                        slot = (key ^ (key >> 29) ^ (key >> 47)) & last_bucket
                        # Cuts that none of the jobs that may still start belongs to are settled.
                        for w in range(cut_words):
                            bits = work.odd[depth, w]
                            q = w * WORD
                            while bits:
                                if bits & 1:
                                    some_left = False
                                    for v in range(words):
                                        if rules.cut_jobs[q, v] & work.open[v]:
                                            some_left = True
                                            break
                                    if not some_left:
                                        bits ^= 1
                                        work.odd_left[w] &= ~(1 << (q - w * WORD))
                                    else:
                                        work.odd_left[w] |= 1 << (q - w * WORD)
                                else:
                                    work.odd_left[w] &= ~(1 << (q - w * WORD))
                                bits >>= 1
                                q += 1
                            # Clear what lies above the highest bit that was set.
                            work.odd_left[w] &= (1 << (q - w * WORD)) - 1
                        # Dominance both ways.
                        row = -1
                        other = bucket[slot]
                        last = -1
                        looked = 0
                        while other >= 0 and looked < control[LOOK]:
                            looked += 1
                            # What decides most comparisons comes first: cost, and work left.
                            same = labels.chain[other, KEY] == key
                            old_wins = labels.cost[other] <= cost
                            new_wins = cost <= labels.cost[other]
                            toll = 0.0
                            if same:
                                for i in range(kept):
                                    if labels.left[other, i] != work.new_left[i]:
                                        toll = rules.toll[t + 1]
                                        if rules.strict[work.new_job[i]]:
                                            same = False
                                            break
                                        if labels.left[other, i] > work.new_left[i]:
                                            old_wins = False
                                        else:
                                            new_wins = False
                                        if not (old_wins or new_wins):
                                            same = False
                                            break
                            if same:
                                same = labels.residents[other] == kept
                                for i in range(kept):
                                    if (
                                        labels.job[other, i] != work.new_job[i]
                                        or labels.cells[other, i] != work.new_bits[i]
                                    ):
                                        same = False
                            if same:
                                old_more = toll
                                new_more = toll
                                for w in range(words):
                                    a, b = labels.open[other, w], work.open[w]
                                    been = labels.been[other, w] ^ work.been[depth, w]
                                    if (been | (a ^ b)) & rules.paired[w]:
                                        old_wins = False
                                        new_wins = False
                                    differ = a ^ b
                                    j = w * WORD
                                    while differ:
                                        if differ & 1:
                                            if a & 1:
                                                new_more += rules.worth[j]
                                            else:
                                                old_more += rules.worth[j]
                                        differ >>= 1
                                        a >>= 1
                                        j += 1
                                    if rules.whole and labels.been[other, w] != work.been[depth, w]:
                                        old_wins = False
                                        new_wins = False
                                # All columns are asked for to be chosen from at cost, not at reduced cost:
                                # one that begins later may only pay less for the node.
                                if rules.whole and labels.first[other] != first:
                                    if labels.first[other] < first or labels.true[other] + toll > true:
                                        old_wins = False
                                    if labels.first[other] > first or true + toll > labels.true[other]:
                                        new_wins = False
                                old_wins = old_wins and labels.cost[other] + old_more <= cost
                                new_wins = new_wins and cost + new_more <= labels.cost[other]
                                if old_wins or new_wins:
                                    for w in range(cut_words):
                                        differ = labels.odd[other, w] ^ work.odd_left[w]
                                        q = w * WORD
                                        old_bits = labels.odd[other, w]
                                        while differ:
                                            if differ & 1:
                                                if old_bits & 1:
                                                    old_more += rules.cut_price[q]
                                                else:
                                                    new_more += rules.cut_price[q]
                                            differ >>= 1
                                            old_bits >>= 1
                                            q += 1
                                    old_wins = old_wins and labels.cost[other] + old_more <= cost
                                    new_wins = new_wins and cost + new_more <= labels.cost[other]
                                    if old_wins:
                                        row = -2
                                        control[DOMINATED] += 1
                                        if last >= 0:
                                            # What wins once wins again: to the front.
                                            labels.chain[last, NEXT] = labels.chain[other, NEXT]
                                            labels.chain[other, NEXT] = bucket[slot]
                                            bucket[slot] = other
                                        break
                                    if new_wins:
                                        control[DOMINATED] += 1
                                        if row == -1:
                                            row = other
                                        else:
                                            labels.alive[other] = False
                                            labels.chain[last, NEXT] = labels.chain[other, NEXT]
                                            other = labels.chain[other, NEXT]
                                            continue
                            last = other
                            other = labels.chain[other, NEXT]
                        if row != -2:
                            if row == -1:
                                if control[COUNT] == room:
                                    control[FULL] = 1
                                    control[SOURCE] = source
                                    return
                                row = control[COUNT]
                                control[COUNT] += 1
                                labels.chain[row, NEXT] = bucket[slot]
                                labels.chain[row, KEY] = key
                                bucket[slot] = row
                            labels.cost[row] = cost
                            labels.true[row] = true
                            labels.bound[row] = bound
                            labels.lonely[row] = lonely
                            labels.joined[row] = joined
                            labels.residents[row] = kept
                            labels.parent[row] = -1 if idle else source
                            labels.first[row] = first
                            labels.alive[row] = True
                            for i in range(kept):
                                labels.job[row, i] = work.new_job[i]
                                labels.left[row, i] = work.new_left[i]
                                labels.cells[row, i] = work.new_bits[i]
                            for w in range(words):
                                labels.been[row, w] = work.been[depth, w]
                                labels.open[row, w] = work.open[w]
                            for w in range(cut_words):
                                labels.odd[row, w] = work.odd_left[w]
            # Next choice of cells for the job at hand, or the next job.
            if work.choice[depth] == work.made[depth]:
                work.at[depth] += 1
                if work.at[depth] == candidates or present + depth == most:
                    depth -= 1
                    continue
                j = work.candidate[work.at[depth]]
                work.choice[depth] = 0
                work.made[depth] = 0
                allowed = True
                for w in range(words):
                    if rules.apart[j, w] & work.been[depth, w]:
                        allowed = False
                if not allowed:
                    continue
                if cells == 1:
                    if child[sets[depth, 0], job_class[j]] >= 0:
                        work.buffer[depth, 0] = 1
                        work.made[depth] = 1
                else:
                    work.made[depth] = choices(
                        code[depth],
                        sets[depth],
                        cells,
                        hold[j],
                        job_class[j],
                        child,
                        work.buffer[depth],
                        work.order,
                        work.take,
                        work.size,
                        work.group,
                    )
                continue
            j = work.candidate[work.at[depth]]
            bits = work.buffer[depth, work.choice[depth]]
            work.choice[depth] += 1
            d = depth + 1
            n = present + depth
            for c in range(cells):
                sets[d, c] = sets[depth, c]
                code[d, c] = code[depth, c]
                if (bits >> c) & 1:
                    sets[d, c] = child[sets[depth, c], job_class[j]]
                    code[d, c] |= 1 << n
            work.job[n] = j
            work.left[n] = need[j]
            work.bits[n] = bits
            work.cpu[d] = work.cpu[depth] + cpu[j]
            later = start_cost[j] * t
            work.cost[d] = work.cost[depth] + later - rules.gain[j]
            work.true[d] = work.true[depth] + later
            for w in range(words):
                work.been[d, w] = work.been[depth, w]
            work.been[d, j // WORD] |= 1 << (j % WORD)
            for w in range(cut_words):
                bits = work.odd[depth, w] & rules.cuts_of[j, w]
                q = w * WORD
                while bits:
                    if bits & 1:
                        work.cost[d] += rules.cut_price[q]
                    bits >>= 1
                    q += 1
                work.odd[d, w] = work.odd[depth, w] ^ rules.cuts_of[j, w]
            depth = d
            work.at[depth] = work.at[depth - 1]
            work.choice[depth] = 0
            work.made[depth] = 0
            fresh = True
        source += 1
    control[SOURCE] = source
    control[FULL] = 0


@jit
def lane_tables(
    cells: int,
    share: int,
    base_cost: float,
    hold: IntArray,
    up: IntArray,
    need: IntArray,
    own_cost: FloatArray,
    start_cost: FloatArray,
    can_start: BoolArray,
    last_end: IntArray,
    gain: FloatArray,
    price: FloatArray,
    lane: FloatArray,
    run: FloatArray,
    offset: IntArray,
    first: IntArray,
    bins: IntArray,
    width: IntArray,
) -> None:
    """Fill the tables of :class:`Lanes`; see :mod:`solvers.busy_periods.pricing`.

    Work left is rounded down, and the pace is the best of several: a job may end before its first end here.
    """
    jobs, levels, slots = own_cost.shape
    number = cells * share
    for b in range(1, slots + 1):
        lane[b, b] = 0.0
        for t in range(b - 1, -1, -1):
            rent = (base_cost + price[t]) / number
            best = lane[t + 1, b] - rent
            for j in range(jobs):
                if hold[j] == 0 or t < first[j] or t >= last_end[j]:
                    continue
                base = offset[j] + (t - first[j]) * bins[j] * (slots + 1) + b
                after = base + bins[j] * (slots + 1)
                for q in range(bins[j]):
                    most = -np.inf
                    least = np.inf
                    for k in range(levels):
                        # Slower levels matter only where they are cheaper.
                        if own_cost[j, k, t] >= least:
                            continue
                        least = own_cost[j, k, t]
                        value = -own_cost[j, k, t] - hold[j] * rent
                        left = max(1, need[j] - (bins[j] - 1 - q) * width[j]) - up[j, k]
                        if left <= 0:
                            value += hold[j] * lane[t + 1, b]
                        elif t + 1 < b and t + 1 < last_end[j]:
                            to = max(0, bins[j] - 1 - (need[j] - left + width[j] - 1) // width[j])
                            value += run[after + to * (slots + 1)]
                        else:
                            continue
                        most = max(most, value)
                    run[base + q * (slots + 1)] = most
                if can_start[j, t]:
                    q = bins[j] - 1
                    value = gain[j] - start_cost[j] * t + run[base + q * (slots + 1)]
                    best = max(best, value / hold[j])
            lane[t, b] = best


@jit
def margins(
    hold: IntArray,
    start_cost: FloatArray,
    can_start: BoolArray,
    gain: FloatArray,
    lane: FloatArray,
    run: FloatArray,
    offset: IntArray,
    first: IntArray,
    bins: IntArray,
    margin: FloatArray,
) -> None:
    """Write what each job can add at most if it starts at a boundary or later: ``margin`` (T + 1, J).

    The tables are those of lanes in which no job starts.
    """
    jobs, slots = can_start.shape
    for j in range(jobs):
        margin[slots, j] = 0.0
        for t in range(slots - 1, -1, -1):
            most = margin[t + 1, j]
            if hold[j] > 0 and can_start[j, t]:
                q = bins[j] - 1
                for b in range(t + 1, slots + 1):
                    at = offset[j] + ((t - first[j]) * bins[j] + q) * (slots + 1) + b
                    most = max(most, gain[j] - start_cost[j] * t + run[at] - hold[j] * lane[t, b])
            margin[t, j] = most
