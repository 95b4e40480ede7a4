"""The compiled EaCO against one in plain Python (naive_eaco.py): the same schedules on random small problems.

What the two agree on is also held to what docs/model.md sections 7 and 8 promise: with history = truth
nothing is undone and no miss is EaCO's fault; with a wrong history every allocation kept all deadlines by
what the history said at that moment.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from eaco_opt.checker import check
from eaco_opt.interference import Interference
from eaco_opt.policies import make_policy
from eaco_opt.schedule import Schedule
from eaco_opt.simulator import Action, Event, Simulation, Start, Stop, World, simulate
from tests.eaco_opt.naive_eaco import Gpus, NaiveEaco
from tests.eaco_opt.policy_cases import RandomCase, possible, random_case

BLOCKS = range(8)
PER_BLOCK = 50
SLOW_BLOCKS = range(8, 48)


def _segments(schedule: Schedule) -> list[tuple[str, tuple[Any, ...], float, float]]:
    return sorted((s.job, s.gpus, s.start_s, s.end_s) for s in schedule.segments)


def _same(a: Schedule, b: Schedule) -> bool:
    """The same jobs on the same GPUs, times within 1e-6 s."""
    return len(a.segments) == len(b.segments) and all(
        p[:2] == q[:2] and abs(p[2] - q[2]) <= 1e-6 and abs(p[3] - q[3]) <= 1e-6
        for p, q in zip(_segments(a), _segments(b), strict=True)
    )


def _run(case: RandomCase, policy: Any) -> Simulation:
    return simulate(possible(case.instance), policy, 0, grid_s=case.grid_s, history=case.history)


def _compare(seed: int) -> Counter[str]:
    case = random_case(seed)
    fast = _run(case, make_policy("eaco", **case.options))
    naive = _run(case, NaiveEaco(**case.options, grid_s=case.grid_s))
    where = f"seed {seed}, {case.options}, grid {case.grid_s}"
    assert _same(fast.schedule, naive.schedule), where
    assert fast.counters == naive.counters, where
    assert sorted(fast.rejected) == sorted(naive.rejected), where
    broken = [v for v in check(fast.instance, fast.schedule, grid_s=case.grid_s) if v.kind != "deadline"]
    assert not broken, (where, broken)
    return Counter(naive.counters)


@pytest.mark.parametrize("block", BLOCKS)
def test_same_schedules(block: int) -> None:
    """On random small problems with every feature both EaCOs make the same segments and count the same."""
    total: Counter[str] = sum((_compare(s) for s in _seeds(block)), Counter())
    assert total["shared"] > 20 and total["observations"] > 15 and total["best_effort"] > 5


@pytest.mark.slow
@pytest.mark.parametrize("block", SLOW_BLOCKS)
def test_same_schedules_on_many(block: int) -> None:
    """The same on two thousand more."""
    for seed in _seeds(block):
        _compare(seed)


def _seeds(block: int) -> range:
    return range(PER_BLOCK * block, PER_BLOCK * (block + 1))


def test_the_random_problems_are_hard_enough() -> None:
    """Among the default seeds are undos, wrong histories, grids, waking nodes and jobs on several nodes."""
    cases = [random_case(s) for block in BLOCKS for s in _seeds(block)]
    undone = sum(_run(c, make_policy("eaco", **c.options)).counters["undone"] for c in cases)
    assert undone >= 30
    assert sum(c.grid_s is not None for c in cases) > 20
    assert sum(c.history is not None for c in cases) > 100
    assert sum(any(t.wake_s for t in c.instance.cluster.node_types) for c in cases) > 40
    widest = [max(t.gpus for t in c.instance.cluster.node_types) for c in cases]
    assert sum(max(j.gpus for j in c.instance.jobs) > w for c, w in zip(cases, widest, strict=True)) > 40


# What the history said ---------------------------------------------------------------------------------


class Judge(NaiveEaco):
    """Runs the compiled EaCO and judges each allocation by the naive predictions, from the real history.

    ``hopeless_starts`` are jobs whose deadline was out of reach at their last start.
    """

    def __init__(self, options: dict[str, Any]) -> None:
        super().__init__(**options)
        self.eaco = make_policy("eaco", **options)
        self.name = "judged-eaco"
        self.starts = 0
        self.hopeless_starts: set[int] = set()

    def begin(self, world: World, rng: np.random.Generator) -> None:
        super().begin(world, rng)
        self.eaco.begin(world, rng)
        self.counters = self.eaco.counters
        self.starts = 0
        self.hopeless_starts = set()

    def slowdown(self, job: int, company: Sequence[int]) -> float:
        classes = self.world.arrays.job_class
        key = tuple(sorted(int(classes[k]) for k in company))
        return self.world.history.factor(self.world.arrays.sets.intern(key), int(classes[job]))

    def decide(self, world: World, events: Sequence[Event]) -> Iterator[Action]:
        self.world = world
        for event in events:
            if event.kind == "departure":
                self.left(event.job)
        for action in self.eaco.decide(world, events):
            if isinstance(action, Start):
                self.judge(world, action.job, tuple(action.gpus))
            elif isinstance(action, Stop):
                assert (
                    abs(world.progress_epochs(action.job) - round(world.progress_epochs(action.job))) < 1e-9
                )
                self.left(action.job)
            yield action

    def judge(self, world: World, job: int, gpus: Gpus) -> None:
        self.starts += 1
        start = world.start_s(job, gpus)
        self.hopeless_starts.discard(job)
        if self.hopeless(world, job, wake=False) or self.hopeless(world, job, wake=True):
            self.hopeless_starts.add(job)
            self.deadline[job] = math.inf
        # The newcomer by its own deadline, all others as far as they can still meet theirs.
        assert self.keeps(world, job, gpus, start), (world.now_s, self.jobs[job].name, gpus)
        self.where[job], self.start[job] = gpus, start


def _judged(seed: int, *, truth: bool) -> tuple[RandomCase, Simulation, Judge] | None:
    case = random_case(seed)
    if case.grid_s is not None or (case.history is None) != truth:
        return None
    judge = Judge(case.options)
    return case, _run(case, judge), judge


@pytest.mark.parametrize("truth", [True, False])
def test_every_allocation_keeps_what_the_history_says(truth: bool) -> None:
    """At each start, by the history of that moment, the newcomer is on time and so is whoever was without it.

    This is what "EaCO never causes a miss that its history said would not happen" means at an allocation.
    """
    starts = 0
    for seed in range(160):
        found = _judged(seed, truth=truth)
        starts += found[2].starts if found else 0
    assert starts > 200


def _missed(done: Simulation) -> list[int]:
    return np.flatnonzero(done.evaluation.jobs.missed).tolist()


def test_with_the_truth_nothing_is_undone_and_only_hopeless_jobs_miss() -> None:
    """History = truth: no undo; whoever misses its deadline was out of reach when it was last started."""
    missed = 0
    for seed in range(420):
        found = _judged(seed, truth=True)
        if found is None:
            continue
        _, done, judge = found
        assert done.counters["undone"] == 0, seed
        names = {judge.jobs[j].name for j in judge.hopeless_starts}
        late = {done.instance.jobs[j].name for j in _missed(done)}
        assert late <= names, seed
        missed += len(late)
    assert missed > 40


def _factors_used_are_right(done: Simulation, history: Interference) -> bool:
    """Whether the history is right about every set of jobs that ever met on a GPU."""
    instance = done.instance
    kind = {j.name: instance.profile(j.profile).kind for j in instance.jobs}
    demands = instance.demands()
    gpus = {gpu for s in done.schedule.segments for gpu in s.gpus}
    for gpu in gpus:
        here = [s for s in done.schedule.segments if gpu in s.gpus]
        for t in sorted({s.start_s for s in here} | {s.end_s for s in here}):
            kinds = sorted(kind[s.job] for s in here if s.start_s <= t < s.end_s - 1e-9)
            if len(kinds) > 1 and history.factors(kinds, demands) != instance.truth.factors(kinds, demands):
                return False
    return True


def test_a_miss_or_an_undo_takes_an_error_of_the_history() -> None:
    """Where a wrong history is right about all sets that met, nothing is undone and only hopeless jobs miss.

    So each other miss, and each undo, follows from a factor that the history had wrong.
    """
    right = wrong = surprises = 0
    for seed in range(420):
        found = _judged(seed, truth=False)
        if found is None:
            continue
        case, done, judge = found
        assert case.history is not None
        names = {judge.jobs[j].name for j in judge.hopeless_starts}
        unforeseen = {done.instance.jobs[j].name for j in _missed(done)} - names
        if _factors_used_are_right(done, case.history):
            right += 1
            assert not unforeseen and done.counters["undone"] == 0, seed
        else:
            wrong += 1
            surprises += len(unforeseen) + done.counters["undone"]
    assert right > 50 and wrong > 50 and surprises > 20
