"""EaCO a second time, slowly and in plain Python: the oracle of test_eaco_oracle.py.

Written from docs/model.md sections 1, 7, 8 and 11 and from Algorithms 1 and 2 of the paper, not from
`eaco_opt/policies/eaco.py` or its kernel. Nothing is cached and nothing is pruned: at every arrival,
departure and end of an observation each waiting job looks at all subsets of GPUs, and every prediction plays
all running jobs forward. Loads, memories, slowdowns, predictions and what has been learned are worked out
here from the instance; of the simulator's `World` only the documented part is used.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np

from eaco_opt.job import MemoryKind
from eaco_opt.limits import AdmissionRule
from eaco_opt.simulator import Action, Event, EventKind, Reject, Start, Stop, Watch, World

Kinds = tuple[str, ...]
Gpus = tuple[int, ...]

LIMIT = Fraction(1, 10**9)
"""Limits hold within 1e-9 (docs/model.md 3.5)."""


def exact(value: float) -> Fraction:
    """The number as written (3.5)."""
    return Fraction(repr(float(value)))


def inside(small: Kinds, big: Kinds) -> bool:
    """Whether one multiset is part of another."""
    return all(small.count(kind) <= big.count(kind) for kind in small)


class Observation:
    """A newcomer and its residents, watched (8.6.6, 8.6.7, 11.48)."""

    def __init__(self, newcomer: int, gpus: Gpus, combination: Any) -> None:
        self.newcomer = newcomer
        self.gpus = gpus
        self.combination = combination
        self.pending: dict[int, float] = {}
        # Of each watched job: begin of the epoch that teaches, progress then, changes on its GPUs until then.
        self.begun: dict[int, tuple[float, float, int]] = {}


class NaiveEaco:
    """EaCO by the book."""

    name = "naive-eaco"
    schedule_class = "epoch"

    def __init__(
        self,
        *,
        blocked: str = "skip",
        hopeless: str = "best-effort",
        observe: bool = True,
        grid_s: float | None = None,
    ) -> None:
        self.strict = blocked == "strict"
        self.reject = hopeless == "reject"
        self.observe = observe
        self.grid_s = grid_s
        self.counters: dict[str, int] = {}

    def begin(self, world: World, rng: np.random.Generator) -> None:
        instance = world.instance
        self.instance = instance
        self.counters = dict.fromkeys(("observations", "undone", "shared", "best_effort", "rejected"), 0)
        self.jobs = instance.jobs
        origin = min((j.release_s for j in instance.jobs), default=0.0)
        self.deadline = [j.deadline_s - origin for j in instance.jobs]
        self.kind = [instance.profile(j.profile).kind for j in instance.jobs]
        nodes = range(len(instance.cluster.nodes))
        self.node_type = [instance.cluster.type_of(n) for n in nodes]
        self.on_node: list[list[int]] = []
        self.node_of: list[int] = []
        for n in nodes:
            self.on_node.append([len(self.node_of) + k for k in range(self.node_type[n].gpus)])
            self.node_of += [n] * self.node_type[n].gpus
        self.learned: dict[tuple[Kinds, str], float] = {}
        self.belief = world.history.base
        self.watched: list[Observation] = []
        self.failed: dict[int, list[Any]] = {j: [] for j in range(len(self.jobs))}
        self.changes = [0] * len(self.node_of)
        self.where: dict[int, Gpus] = {}
        self.start: dict[int, float] = {}

    # What sharing means (docs/model.md section 1) -----------------------------------------------------

    def tau(self, job: int, node: int) -> float:
        profile = self.instance.profile(self.jobs[job].profile)
        found = profile.epoch_time_s(self.node_type[node].gpu_type, self.jobs[job].gpus)
        return math.inf if found is None else found

    def load(self, jobs: Sequence[int]) -> Fraction:
        """Load of a GPU: 1.7, 11.3, 11.4."""
        if not jobs:
            return Fraction(0)
        kinds = tuple(self.kind[j] for j in jobs)
        profiles = [self.instance.profile(self.jobs[j].profile) for j in jobs]
        rows = self.instance.usage
        own = [exact(r.load) for r in rows if inside(r.kinds, kinds) and inside(kinds, r.kinds)]
        value = own[0] if own else sum((exact(p.gpu_util_mean) for p in profiles), Fraction(0))
        return min([value, *(exact(r.load) for r in rows if inside(kinds, r.kinds))])

    def memory(self, jobs: Sequence[int]) -> Fraction:
        """Memory of a GPU [GiB]: 1.8, 11.3, 11.5."""
        data, value = [], Fraction(0)
        for j in jobs:
            peak = exact(self.instance.profile(self.jobs[j].profile).gpu_memory_peak_gib)
            if self.jobs[j].memory_kind is MemoryKind.MODEL_PARALLEL:
                value += peak / self.jobs[j].gpus
            else:
                data.append((self.kind[j], peak))
        if not data:
            return value
        kinds = tuple(kind for kind, _ in data)
        rows = self.instance.usage
        own = [exact(r.memory_gib) for r in rows if inside(r.kinds, kinds) and inside(kinds, r.kinds)]
        found = own[0] if own else sum((peak for _, peak in data), Fraction(0))
        return value + min([found, *(exact(r.memory_gib) for r in rows if inside(kinds, r.kinds))])

    def admissible(self, jobs: Sequence[int], node: int) -> bool:
        """The rule on sets, 1.9: every subset passes."""
        limits = self.instance.limits
        u = exact(limits.u_threshold) + LIMIT
        capacity = exact(self.node_type[node].gpu_memory_gib)
        for size in range(1, len(jobs) + 1):
            for part in combinations(jobs, size):
                if self.memory(part) / capacity > exact(limits.mem_threshold) + LIMIT:
                    return False
                if size > limits.max_share:
                    return False
                if size > 1 and any(self.jobs[j].exclusive for j in part):
                    return False
                if not self.instance.truth.can_share([self.kind[j] for j in part]):
                    return False
                if limits.rule is AdmissionRule.RESULTING:
                    if self.load(part) > u:
                        return False
                elif all(self.load([k for k in part if k is not j]) > u for j in part):
                    return False
        return True

    def joinable(self, world: World, job: int, gpu: int) -> bool:
        """Whether the job may join one GPU as far as capacity goes: 8.6.6, 11.9, 11.53."""
        if any(gpu in o.gpus for o in self.watched):
            return False
        residents = world.residents(gpu)
        node = self.node_of[gpu]
        if math.isinf(self.tau(job, node)):
            return False
        if (
            self.instance.limits.rule is AdmissionRule.EXISTING
            and self.load(residents) > exact(self.instance.limits.u_threshold) + LIMIT
        ):
            return False
        company = [*residents, job]
        return self.admissible(company, node) and self.belief.can_share([self.kind[j] for j in company])

    # Predictions (section 7) --------------------------------------------------------------------------

    def slowdown(self, job: int, company: Sequence[int]) -> float:
        """What the policy believes of a job's slowdown in a set."""
        kinds = tuple(sorted(self.kind[j] for j in company))
        if len(kinds) == 1:
            return 1.0
        key = (kinds, self.kind[job])
        if key in self.learned:
            return self.learned[key]
        return self.belief.factors(kinds, self.instance.demands())[self.kind[job]]

    def play(self, world: World, where: dict[int, Gpus], begin: dict[int, float]) -> dict[int, float]:
        """Predict the end of every job in `where`, each leaving when it finishes (8.6.3)."""
        now = world.now_s
        left = {j: self.jobs[j].epochs - world.progress_epochs(j) for j in where}
        t, ends = now, dict[int, float]()
        while left:
            speed = {}
            for j in left:
                worst = max(self.slowdown(j, [k for k in left if gpu in where[k]]) for gpu in where[j])
                speed[j] = 1.0 / (self.tau(j, self.node_of[where[j][0]]) * worst)
            due = {}
            for j in left:
                at = max(t, begin[j])
                if self.grid_s is None:
                    due[j] = at + left[j] / speed[j]
                else:
                    short = left[j] - 1e-9 * self.jobs[j].epochs
                    slot = math.ceil((at + short / speed[j]) / self.grid_s)
                    due[j] = max(slot, round(at / self.grid_s) + 1) * self.grid_s
            first = min(due.values())
            for j in list(left):
                left[j] -= max(0.0, first - max(t, begin[j])) * speed[j]
                if due[j] <= first + 1e-9 + 1e-12 * first:
                    ends[j] = first
                    del left[j]
            t = first
        return ends

    def limit(self, job: int, share: float) -> float:
        """Deadline plus a share of the time tolerance (3.5, 11.46)."""
        d = self.deadline[job]
        return d + share * (1e-6 + 1e-9 * abs(d)) if d < math.inf else math.inf

    def keeps(self, world: World, job: int, gpus: Gpus, start: float) -> bool:
        """The deadline test of 8.6.4 before an allocation."""
        began = {j: max(world.now_s, self.start[j]) for j in self.where}
        alone = self.play(world, dict(self.where), dict(began))
        ends = self.play(world, {**self.where, job: gpus}, {**began, job: start})
        if ends[job] > self.limit(job, 0.5):
            return False
        return all(ends[j] <= self.limit(j, 0.5) for j in self.where if alone[j] <= self.limit(j, 0.5))

    def holds(self, world: World, job: int) -> bool:
        """The deadline test of 11.49 after an observation."""
        began = {j: max(world.now_s, self.start[j]) for j in self.where}
        ends = self.play(world, dict(self.where), began)
        alone = self.play(world, {j: g for j, g in self.where.items() if j != job}, began)
        return ends[job] <= self.limit(job, 1.0) and all(
            ends[j] <= self.limit(j, 1.0) for j in alone if alone[j] <= self.limit(j, 1.0)
        )

    def hopeless(self, world: World, job: int, *, wake: bool) -> bool:
        """11.47: out of reach even alone on empty nodes, awake or not."""
        left = self.jobs[job].epochs - world.progress_epochs(job)
        for t in self.instance.cluster.node_types:
            nodes = [n for n, kind in enumerate(self.node_type) if kind is t]
            if len(nodes) * t.gpus < self.jobs[job].gpus or not nodes:
                continue
            if math.ceil(self.jobs[job].gpus / t.gpus) > len(nodes):
                continue
            if math.isinf(self.tau(job, nodes[0])) or not self.admissible([job], nodes[0]):
                continue
            at = world.now_s + (t.wake_s if wake else 0.0)
            end = at + left * self.tau(job, nodes[0])
            if self.grid_s is not None:
                at = math.ceil(round(at / self.grid_s, 6)) * self.grid_s
                short = left - 1e-9 * self.jobs[job].epochs
                end = math.ceil((at + short * self.tau(job, nodes[0])) / self.grid_s) * self.grid_s
            if end <= self.limit(job, 0.5):
                return False
        return True

    # Candidates (Algorithm 2; 11.43 to 11.45) ---------------------------------------------------------

    def candidates(self, world: World, job: int) -> list[Gpus]:
        g = self.jobs[job].gpus
        found: set[Gpus] = set()
        open_gpus = [[gpu for gpu in gpus if self.joinable(world, job, gpu)] for gpus in self.on_node]
        for n, gpus in enumerate(open_gpus):
            if g > self.node_type[n].gpus:
                continue
            splits: dict[Any, Gpus] = {}
            for chosen in combinations(gpus, g):
                # GPUs that host the same jobs are interchangeable: the lowest of each kind stand for all.
                split = tuple(sorted(tuple(sorted(world.residents(gpu))) for gpu in chosen))
                splits[split] = min(splits.get(split, chosen), chosen)
            found |= set(splits.values())
        for t in self.instance.cluster.node_types:
            if g > t.gpus:
                nodes = [n for n, kind in enumerate(self.node_type) if kind is t]
                found |= set(self.spreads(world, g, nodes, t.gpus, open_gpus))

        def rank(gpus: Gpus) -> tuple[Fraction, Gpus]:
            return -sum((self.load(world.residents(k)) for k in gpus), Fraction(0)) / g, gpus

        return sorted(found, key=rank)

    def spreads(
        self, world: World, g: int, nodes: list[int], size: int, open_gpus: list[list[int]]
    ) -> Iterator[Gpus]:
        """Runs of neighbours in the rank by load, the rest on each other node, fullest GPUs first (11.45)."""

        def total(gpus: Iterable[int]) -> Fraction:
            return sum((self.load(world.residents(k)) for k in gpus), Fraction(0))

        whole, rest = divmod(g, size)
        ranked = sorted(
            (n for n in nodes if len(open_gpus[n]) == size), key=lambda n: (-total(self.on_node[n]), n)
        )
        for i in range(len(ranked) - whole + 1):
            run = ranked[i : i + whole]
            gpus = [k for n in run for k in self.on_node[n]]
            if not rest:
                yield tuple(sorted(gpus))
                continue
            for n in nodes:
                if n not in run and len(open_gpus[n]) >= rest:
                    fullest = sorted(open_gpus[n], key=lambda k: (-self.load(world.residents(k)), k))[:rest]
                    yield tuple(sorted(gpus + fullest))

    # Events -------------------------------------------------------------------------------------------

    def decide(self, world: World, events: Sequence[Event]) -> Iterator[Action]:
        look = False
        for event in events:
            if event.kind is EventKind.DEPARTURE:
                look = True
                self.left(event.job)
                for o in list(self.watched):
                    if o.newcomer == event.job:
                        self.watched.remove(o)  # ends without judgement
                    else:
                        o.pending.pop(event.job, None)
            elif event.kind is EventKind.ARRIVAL:
                look = True
        self.watched.sort(key=lambda o: o.newcomer)
        for o in self.watched:
            for resident, goal in sorted(o.pending.items()):
                if world.progress_epochs(resident) >= goal - 1e-9:
                    self.learn(world, o, resident)
                    del o.pending[resident]
        for o in self.watched:
            if self.at_boundary(world, o) == 1:
                self.learn(world, o, o.newcomer)
        for o in list(self.watched):
            if not o.pending and self.at_boundary(world, o):
                look = True
                self.watched.remove(o)
                if self.hopeless(world, o.newcomer, wake=False):
                    self.deadline[o.newcomer] = math.inf
                    self.counters["best_effort"] += 1
                if not self.holds(world, o.newcomer):
                    self.counters["undone"] += 1
                    self.failed[o.newcomer].append(o.combination)
                    yield Stop(o.newcomer)
                    self.left(o.newcomer)
        if look:
            yield from self.place(world)
        yield from self.watch(world)

    def left(self, job: int) -> None:
        for gpu in self.where.pop(job):
            self.changes[gpu] += 1

    def at_boundary(self, world: World, o: Observation) -> int:
        """How many whole epochs the newcomer has done since its allocation, 0 between two boundaries."""
        done = world.progress_epochs(o.newcomer)
        whole = round(done)
        return round(whole - o.begun[o.newcomer][1]) if abs(done - whole) <= 1e-9 * max(1, whole) else 0

    def learn(self, world: World, o: Observation, job: int) -> None:
        """11.50 and 11.51."""
        begin, before, changes = o.begun[job]
        gpus = self.where[job]
        if changes != sum(self.changes[k] for k in gpus):
            return
        epochs = world.progress_epochs(job) - before
        factor = (world.now_s - begin) / (self.tau(job, self.node_of[gpus[0]]) * epochs)
        sets = {tuple(sorted(world.residents(k))) for k in gpus}
        believed = {s: self.slowdown(job, s) for s in sets}
        top = max(believed.values())
        if abs(top - factor) <= 1e-9 * factor:
            return
        for s, value in believed.items():
            if value > factor or (top < factor and value == top):
                if len(s) > 1:
                    self.learned[tuple(sorted(self.kind[j] for j in s)), self.kind[job]] = factor

    def watch(self, world: World) -> Iterator[Action]:
        """Ask for the next epoch that matters; a newcomer is watched at each of its epochs."""
        goals: dict[int, list[float]] = {}
        for o in self.watched:
            goals.setdefault(o.newcomer, []).append(math.floor(world.progress_epochs(o.newcomer) + 1e-9) + 1)
            for resident, goal in o.pending.items():
                goals.setdefault(resident, []).append(goal)
        for job, wanted in goals.items():
            ahead = [goal for goal in wanted if goal > world.progress_epochs(job) + 1e-9]
            if ahead and min(ahead) < self.jobs[job].epochs:
                yield Watch(job, min(ahead))

    def place(self, world: World) -> Iterator[Action]:
        """Algorithm 1 for each waiting job, in order of priority, arrival, submit index (11.37)."""
        order = sorted(world.waiting, key=lambda j: (-self.jobs[j].priority, self.jobs[j].release_s, j))
        for job in order:
            if self.hopeless(world, job, wake=False) and self.give_up(world, job):
                yield Reject(job)
                continue
            room = self.candidates(world, job)
            gpus, start = self.choose(world, job, room)
            if not gpus and room and self.hopeless(world, job, wake=True):
                if self.give_up(world, job):
                    yield Reject(job)
                    continue
                gpus, start = self.choose(world, job, room)
            if not gpus:
                if self.strict:
                    return
                continue
            combination = (gpus, [sorted(world.residents(k)) for k in gpus])
            residents = sorted({r for k in gpus for r in world.residents(k)})
            yield Start(job, gpus)
            self.where[job], self.start[job] = gpus, start
            for gpu in gpus:
                self.changes[gpu] += 1
            if residents:
                self.counters["shared"] += 1
                if self.observe and self.grid_s is None:
                    self.counters["observations"] += 1
                    o = Observation(job, gpus, combination)
                    for j in (job, *residents):
                        done = world.progress_epochs(j)
                        began = max(world.now_s, self.start[j])
                        o.begun[j] = (began, done, sum(self.changes[k] for k in self.where[j]))
                        if j != job:
                            o.pending[j] = done + 1 if done + 1 < self.jobs[j].epochs else math.inf
                    self.watched.append(o)

    def choose(self, world: World, job: int, room: list[Gpus]) -> tuple[Gpus, float]:
        """The first candidate that keeps the deadlines and has not failed for this job."""
        for gpus in room:
            if (gpus, [sorted(world.residents(k)) for k in gpus]) in self.failed[job]:
                continue
            start = world.start_s(job, gpus)
            if start < math.inf and self.keeps(world, job, gpus, start):
                return gpus, start
        return (), math.inf

    def give_up(self, world: World, job: int) -> bool:
        """Take the deadline as infinite; tell whether the job is rejected instead."""
        if math.isinf(self.deadline[job]):
            return False
        self.deadline[job] = math.inf
        if self.reject and world.progress_epochs(job) == 0.0:
            self.counters["rejected"] += 1
            return True
        self.counters["best_effort"] += 1
        return False
