"""The search around the compiled core: groups of nodes, chains, threads, time, and the best plan.

Large clusters are cut anew each round into groups of nodes, which are searched side by side; what a group
does depends on its own random numbers alone, so the number of threads changes nothing but the speed. Small
clusters are one group; then several chains search it side by side, and the best is passed on now and then.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from . import kernel
from .problem import Layout, SearchProblem, make_plans, make_scratch

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

WHOLE_GROUP, PART_GROUP = 8, 16
"""Nodes of a group, about: where all jobs take whole nodes, and where some take parts."""

CHAINS = 2
"""Chains that search a small cluster side by side."""

ROUND_ITERATIONS = 400
"""Iterations of a group or chain in a round."""

ROUND_S = 0.4
"""Length of a round [s] where time is limited."""

FIRST_ITERATIONS, MOST_ITERATIONS = 20, 20_000

CYCLE_ROUNDS = 10
"""Rounds in which the chains of a small cluster cool down once."""

WHOLE_REMOVED, PART_REMOVED = 6, 12
"""Most jobs removed at once."""

WHOLE_HOT, PART_HOT, COLD = 0.12, 0.02, 0.0005
"""Temperatures at the beginning (two) and the end, in parts of a job's mean cost."""

STARTS, MASKS = 14, 6
SMALL_STARTS, SMALL_MASKS = 60, 16
SMALL_JOBS = 16
"""Up to so many jobs nearly all starts and sets of GPUs are tried."""

Tell = Callable[[float, float], None]


@dataclass(frozen=True, slots=True, eq=False)
class Searched:
    """What the search ended with.

    Attributes
    ----------
    layout
        The best plan.
    value
        Its cost, without constants; jobs without a place at the price of the bank.
    placed
        Whether every job has a place.
    iterations, insertions
        Work done.
    finished
        Whether the limit on iterations was reached (and not the one on time).
    """

    layout: Layout
    value: float
    placed: bool
    iterations: int
    insertions: int
    finished: bool


class _Chain:
    """One thread's state."""

    def __init__(self, problem: SearchProblem) -> None:
        self.plans = make_plans(problem)
        self.scratch = make_scratch(problem)


def search(
    problem: SearchProblem,
    start: Layout,
    *,
    iterations: int | None = None,
    until: Callable[[], bool] | None = None,
    time_left_s: Callable[[], float] | None = None,
    share_done: Callable[[], float] | None = None,
    seed: int = 0,
    threads: int = 1,
    operators: Sequence[str] = kernel.OPERATORS,
    tell: Tell | None = None,
    keep: list[Searched] | None = None,
) -> Searched:
    """Improve a plan until a limit is reached.

    Parameters
    ----------
    problem
        What is searched.
    start
        The plan to begin with; jobs without a place are put somewhere first.
    iterations
        Limit on iterations of all groups and chains together; none without it. The result depends on it and
        on ``seed`` alone.
    until
        Asked after every round whether to end.
    time_left_s
        Tells the time left [s]; rounds are made to last about :data:`ROUND_S`, or what is left.
    share_done
        Share of the limit that is used up, 0 to 1, for the temperature; that of the iterations without it.
    seed, threads
        Of the random numbers, and most threads.
    operators
        Names among :data:`kernel.OPERATORS`.
    tell
        Called with cost and iterations whenever the best plan gets better.
    keep
        Gets the state after each round, for who is interrupted.
    """
    p = problem.arrays
    best = _Best(problem, start)
    count = len(problem.jobs)
    if count == 0 or len(problem.nodes) == 0 or iterations == 0:
        return best.result(0, 0, True)
    rng = np.random.default_rng(np.random.SeedSequence([seed, 0x1A5]))
    whole = bool((p.types[:, 4] == 1.0).all())
    group_nodes, removed, hot = (
        (WHOLE_GROUP, WHOLE_REMOVED, WHOLE_HOT) if whole else (PART_GROUP, PART_REMOVED, PART_HOT)
    )
    groups = max(1, round(len(problem.nodes) / group_nodes))
    workers = groups if groups > 1 else CHAINS
    chains = [_Chain(problem) for _ in range(workers if groups == 1 else 1)]
    scratch = [make_scratch(problem) for _ in range(workers)]
    for chain in chains:
        best.load(chain.plans, scratch[0])
    weights = [np.ones(len(kernel.OPERATORS)) for _ in range(workers)]
    states = [
        np.array([s.generate_state(1, np.uint64)[0]], dtype=np.uint64)
        for s in np.random.SeedSequence([seed, 0xC4A1]).spawn(workers)
    ]
    allowed = np.array([name in operators for name in kernel.OPERATORS], dtype=np.int64)
    small = count <= SMALL_JOBS
    starts, masks = (SMALL_STARTS, SMALL_MASKS) if small else (STARTS, MASKS)
    counters = [np.zeros(1, dtype=np.int64) for _ in range(workers)]
    done = 0
    rounds = 0
    finished = False
    pace = 0.0
    scale = best.value / max(1, count)
    # One thread needs no pool: short searches would spend their time on making it.
    with ThreadPoolExecutor(min(threads, workers)) if min(threads, workers) > 1 else nullcontext() as pool:
        while True:
            each = ROUND_ITERATIONS
            if iterations is None and time_left_s is not None:
                # The first round tells how long an iteration takes.
                aim = min(ROUND_S, 0.5 * time_left_s() + 0.02)
                each = FIRST_ITERATIONS if pace == 0.0 else max(4, min(MOST_ITERATIONS, int(aim / pace)))
            if iterations is not None:
                each = min(each, (iterations - done) // workers)
                if each <= 0:
                    finished = True
                    break
            share = share_done() if share_done is not None else (done / iterations if iterations else 0.0)
            if groups == 1:
                share = (rounds % CYCLE_ROUNDS) / CYCLE_ROUNDS
            heat = scale * hot * (COLD / hot) ** min(1.0, max(0.0, share))
            cooler = (
                heat if groups > 1 else scale * hot * (COLD / hot) ** min(1.0, share + 1.0 / CYCLE_ROUNDS)
            )
            parts = _parts(problem, chains, groups, rng)
            ends = [_others_end(problem, chains[0].plans, nodes) if groups > 1 else 0.0 for nodes, _ in parts]

            def work(
                k: int,
                parts: list[tuple[IntArray, IntArray]] = parts,
                each: int = each,
                heat: float = heat,
                cooler: float = cooler,
                ends: list[float] = ends,
            ) -> tuple[float, kernel.Group]:
                nodes, jobs = parts[k]
                plans = chains[k if groups == 1 else 0].plans
                group = _group(problem, plans, nodes, jobs, weights[k])
                if len(jobs) == 0:
                    return 0.0, group
                value = kernel.search(
                    p, plans, scratch[k], group, states[k], each, heat, cooler, min(removed, len(jobs)),
                    starts, masks, problem.asleep, ends[k], allowed, counters[k],
                )  # fmt: skip
                return value, group

            before = time.monotonic()
            found = list((map if pool is None else pool.map)(work, range(workers)))
            pace = (time.monotonic() - before) / each
            done += each * workers
            rounds += 1
            if groups > 1:
                better = best.take_groups([group for _, group in found])
            else:
                better = best.take_chain(min(found, key=lambda f: f[0])[1])
                if rounds % CYCLE_ROUNDS == 0:
                    # The first chain goes on from the best plan, the others from where they are.
                    best.load(chains[0].plans, scratch[0])
            if keep is not None:
                keep[:] = [best.result(done, int(sum(c[0] for c in counters)), False)]
            if better and tell is not None:
                tell(best.value, done)
            if until is not None and until():
                break
    return best.result(done, int(sum(c[0] for c in counters)), finished)


class _Best:
    """The best plan so far, by its true cost."""

    def __init__(self, problem: SearchProblem, start: Layout) -> None:
        self._problem = problem
        self._plans = make_plans(problem)
        self._scratch = make_scratch(problem)
        self.layout = start.copy()
        self.value = math.inf
        self.value = self._play(self.layout)
        self.layout = self._read()

    def _play(self, layout: Layout) -> float:
        self.load(self._plans, self._scratch, layout)
        return value_of(self._problem, self._plans)

    def _read(self) -> Layout:
        return Layout(self._plans.start.copy(), self._plans.mask.copy(), self._plans.node.copy())

    def load(self, plans: kernel.Plans, scratch: kernel.Scratch, layout: Layout | None = None) -> None:
        """Set plans from the best layout, or another."""
        of = self.layout if layout is None else layout
        order = np.lexsort((np.arange(len(of.start)), of.start))
        kernel.rebuild(self._problem.arrays, plans, scratch, of.start, of.mask, of.node, order)

    def take_groups(self, groups: Sequence[kernel.Group]) -> bool:
        """Take the best plans of groups together, if that is better."""
        layout = self.layout.copy()
        for group in groups:
            _copy(group, layout)
        return self._take(layout)

    def take_chain(self, group: kernel.Group) -> bool:
        """Take the best plan of a chain, if that is better."""
        layout = self.layout.copy()
        _copy(group, layout)
        return self._take(layout)

    def _take(self, layout: Layout) -> bool:
        value = self._play(layout)
        if value < self.value - 1e-14:
            self.value, self.layout = value, self._read()
            return True
        return False

    def result(self, iterations: int, insertions: int, finished: bool) -> Searched:
        """Return the end of the search."""
        placed = (
            bool((self.layout.node[self._problem.jobs] >= 0).all())
            and self.value < self._problem.arrays.broken
        )
        return Searched(self.layout, self.value, placed, iterations, insertions, finished)


def _copy(group: kernel.Group, layout: Layout) -> None:
    jobs = group.jobs
    layout.start[jobs] = group.best_start[jobs]
    layout.mask[jobs] = group.best_mask[jobs]
    layout.node[jobs] = group.best_node[jobs]


def value_of(problem: SearchProblem, plans: kernel.Plans) -> float:
    """Return the cost of plans, without constants, jobs in the bank at its price."""
    banked = problem.jobs[plans.node[problem.jobs] < 0]
    return float(
        math.fsum(plans.cost[problem.nodes].tolist())
        + math.fsum(problem.arrays.bank[banked].tolist())
        + problem.asleep * float(plans.last.max(initial=0.0))
    )


def _others_end(problem: SearchProblem, plans: kernel.Plans, nodes: IntArray) -> float:
    if problem.asleep == 0.0:
        return 0.0
    mine = np.zeros(len(plans.last), dtype=np.bool_)
    mine[nodes] = True
    return float(plans.last[~mine].max(initial=0.0))


def _parts(
    problem: SearchProblem, chains: Sequence[_Chain], groups: int, rng: np.random.Generator
) -> list[tuple[IntArray, IntArray]]:
    """Return nodes and jobs of each group; of each chain, all."""
    if groups == 1:
        return [(problem.nodes, problem.jobs)] * len(chains)
    shuffled = rng.permutation(problem.nodes)
    node_of = chains[0].plans.node[problem.jobs]
    bank = problem.jobs[node_of < 0]
    out = []
    for k, nodes in enumerate(np.array_split(shuffled, groups)):
        nodes = np.sort(nodes)
        mine = problem.jobs[np.isin(node_of, nodes)]
        out.append((nodes, np.sort(np.concatenate([mine, bank[k::groups]]))))
    return out


def _group(
    problem: SearchProblem, plans: kernel.Plans, nodes: IntArray, jobs: IntArray, weight: FloatArray
) -> kernel.Group:
    total, room = len(plans.start), plans.jobs.shape[1]
    local = np.full(len(plans.held), -1, dtype=np.int64)
    local[nodes] = np.arange(len(nodes))
    most = min(len(jobs), 2 * PART_REMOVED + 8)
    m = len(nodes)
    return kernel.Group(
        nodes=nodes,
        local=local,
        jobs=jobs,
        ideal=problem.ideal,
        best_start=np.zeros(total),
        best_mask=np.zeros(total, dtype=np.int64),
        best_node=np.zeros(total, dtype=np.int64),
        old_jobs=np.zeros((m, room), dtype=np.int64),
        old_end=np.zeros((m, room)),
        old_held=np.zeros(m, dtype=np.int64),
        old_cost=np.zeros(m),
        old_before=np.zeros((m, room)),
        old_last=np.zeros(m),
        old_start=np.zeros(most),
        old_mask=np.zeros(most, dtype=np.int64),
        old_node=np.zeros(most, dtype=np.int64),
        touched=np.zeros(m, dtype=np.int64),
        cost=np.zeros((most, m)),
        start=np.zeros((most, m)),
        mask=np.zeros((most, m), dtype=np.int64),
        removed=np.zeros(most, dtype=np.int64),
        key=np.zeros(len(jobs)),
        weight=weight,
        score=np.zeros(len(weight)),
        uses=np.zeros(len(weight)),
        place=np.zeros(2),
        place_mask=np.zeros(1, dtype=np.int64),
    )
