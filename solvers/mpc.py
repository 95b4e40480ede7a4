"""Policy ``mpc``: a rolling-horizon optimiser (model predictive control) among the online policies.

At each arrival the jobs that are known and have not started are planned anew by the search of
:mod:`solvers.lns`, around what is running, which stays where it is; the plan's starts are carried out as
their times come. Long lines are planned by parts: the most urgent jobs first.

It knows no more than EaCO does: what has arrived, what runs, and its belief on slowdowns; and how the
objective weighs energy and time, whose norms are sums over all jobs (docs/model.md section 3). So EaCO beside
``mpc`` shows what optimisation is worth, and ``mpc`` beside the offline optimum what knowing the future is
worth.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Iterator, Sequence

import numpy as np

from eaco_opt import _validate as v
from eaco_opt.arrays import time_tolerance_s
from eaco_opt.policies.eaco import Eaco
from eaco_opt.schedule import ScheduleClass
from eaco_opt.simulator import Action, Event, EventKind, Start, Timer, World
from formulations.base import FormulationError, UncoveredFeatureError

from .lns.driver import search
from .lns.problem import BANK, Layout, SearchProblem, search_problem

NEVER = math.inf


class Mpc:
    """Plan the known jobs anew at each arrival, by search, and start them when the plan says so.

    Where the search does not place every job within its limit, EaCO decides on those without a place until
    the next plan, which the counter ``fallbacks`` counts beside ``decisions``; it decides throughout where
    nodes take time to wake up, or the search does not cover the instance. Jobs that cannot be in time even
    alone run best-effort, without a deadline. Jobs on several nodes start at once where there is room.

    Parameters
    ----------
    iterations
        Limit on destroy-and-repair steps of each decision; the outcome depends on it and the seed alone.
    window
        Most waiting jobs that are planned together: those whose deadlines come first, then those that came
        first. The others wait until there is room in the window.
    decision_s
        Wall-clock limit [s] of each decision besides; ``None`` for none. With it runs are not reproducible.

    Raises
    ------
    DomainError
        A limit is below its least value, or no number.
    """

    name = "mpc"
    schedule_class = ScheduleClass.STATIC
    covers: tuple[str, ...] = (
        "continuous-time",
        "grid",
        "multi-node-jobs",
        "mixed-node-types",
        "exclusive-jobs",
        "model-parallel-memory",
        "infinite-deadlines",
        "both-admission-rules",
        "sleep-and-wake-up",
    )

    def __init__(self, *, iterations: int = 50, window: int = 40, decision_s: float | None = None) -> None:
        self.iterations = v.integer("policy 'mpc'", "iterations", iterations, 0)
        self.window = v.integer("policy 'mpc'", "window", window, 1)
        self.decision_s = (
            None if decision_s is None else v.real("policy 'mpc'", "decision_s", decision_s, low=0.0)
        )
        self.counters: dict[str, int] = {}

    def begin(self, world: World, rng: np.random.Generator) -> None:
        """Build the search's view of the instance, with the beliefs on slowdowns as its truth."""
        self.counters = {"decisions": 0, "fallbacks": 0, "shared": 0, "best_effort": 0}
        self._rng = rng
        self._seed = int(rng.integers(2**31))
        self._eaco: Eaco | None = None
        types = {node.node_type for node in world.instance.cluster.nodes}
        slow = any(t.wake_s > 0.0 for t in world.instance.cluster.node_types if t.name in types)
        believed = dataclasses.replace(world.instance, truth=world.history.base)
        try:
            if slow:
                raise UncoveredFeatureError("mpc", ("nodes that take time to wake up",))
            self._problem = search_problem(believed, grid_s=world.slot_s or None)
        except FormulationError:
            self._eaco = Eaco(observe=False)
            self._eaco.begin(world, rng)
            return
        a = self._problem.arrays
        self._due = a.due.copy()
        self._start = np.full(len(a.epochs), NEVER)
        self._mask = np.zeros(len(a.epochs), dtype=np.int64)
        self._node = np.full(len(a.epochs), -1, dtype=np.int64)
        self._wide = a.size.max(axis=1, initial=0) == 0
        usable = np.where(a.size > 0, a.tau[:, : a.size.shape[1]], NEVER)
        self._alone_s = np.where(self._wide, 0.0, a.epochs * usable.min(axis=1, initial=NEVER))

    def decide(self, world: World, events: Sequence[Event]) -> Iterator[Action]:
        """Plan at arrivals, and start the jobs whose time has come."""
        news = [e.job for e in events if e.kind is EventKind.ARRIVAL]
        if self._eaco is not None:
            self.counters["decisions"] += bool(news)
            self.counters["fallbacks"] += bool(news)
            yield from self._eaco.decide(world, events)
            self.counters |= {key: self._eaco.counters[key] for key in ("shared", "best_effort")}
            return
        for job in [j for j in world.waiting if self._wide[j]]:
            if gpus := world.best_fit(job):
                yield Start(job, gpus)
        window = self._window(world)
        planned = sum(self._start[j] < NEVER for j in window)
        # A line longer than the window is planned anew when half of the window is used up.
        short = len(window) == self.window and planned <= len(window) // 2
        if short or not set(news).isdisjoint(window):
            self.counters["fallbacks"] += not self._plan(world, window)
        yield from self._launch(world)
        yield from self._eaco_decides(world, self._unplanned(world))
        if not world.gpus_of and self._following(world) == NEVER and (left := self._unplanned(world)):
            # Nothing would ever happen: whoever is left runs as well as it can.
            self._due[left] = NEVER
            self.counters["best_effort"] += len(left)
            self._plan(world, left)
            yield from self._launch(world)
        following = self._following(world)
        if following < NEVER:
            yield Timer(following)

    def _unplanned(self, world: World) -> list[int]:
        """Return the jobs of the window for which no plan has a place."""
        return [j for j in self._window(world) if self._start[j] == NEVER]

    def _eaco_decides(self, world: World, jobs: list[int]) -> Iterator[Action]:
        if jobs:
            eaco = Eaco(observe=False)
            yield from eaco.decide_once(world, jobs, self._rng)
            self.counters["shared"] += eaco.counters["shared"]

    def _waiting(self, world: World) -> list[int]:
        return [j for j in world.waiting if not self._wide[j]]

    def _window(self, world: World) -> list[int]:
        """Return the jobs to be planned: the most urgent ones."""
        order = sorted(self._waiting(world), key=lambda j: (self._due[j], j))
        return order[: self.window]

    def _following(self, world: World) -> float:
        """Return the next planned start, infinity if none is."""
        return min((float(self._start[j]) for j in self._waiting(world)), default=NEVER)

    def _launch(self, world: World) -> Iterator[Action]:
        """Start the jobs whose time has come; plan once more if one of them has no room."""
        for again in (True, False):
            stuck = False
            for job in sorted(self._waiting(world), key=lambda j: (self._start[j], j)):
                if self._start[job] > world.now_s + time_tolerance_s(world.now_s):
                    break
                gpus = self._gpus(world, job)
                if world.can_join(job, gpus, obey_u=True):
                    self.counters["shared"] += any(world.residents(g) for g in gpus)
                    yield Start(job, gpus)
                else:
                    stuck = True  # somebody stays longer than was believed
                    self._start[job] = NEVER
            if not stuck or not again:
                return
            self.counters["fallbacks"] += not self._plan(world, self._window(world))

    def _gpus(self, world: World, job: int) -> tuple[int, ...]:
        node, mask = int(self._node[job]), int(self._mask[job])
        first, last = world.first_gpu[node], world.first_gpu[node + 1]
        if self._problem.arrays.types[world.node_types[node], 4] == 1.0:
            return tuple(range(first, last))
        return tuple(g for g in range(first, last) if (mask >> (g - first)) & 1)

    def _plan(self, world: World, window: list[int]) -> bool:
        """Plan jobs anew; return whether each has a place."""
        self.counters["decisions"] += 1
        began, limit = time.monotonic(), self.decision_s
        now = self._now(world)
        for job in window:
            if self._due[job] < NEVER and now + self._alone_s[job] > self._due[job] + time_tolerance_s(now):
                self._due[job] = NEVER
                self.counters["best_effort"] += 1
        shut = {world.gpu_node[g] for j, gpus in world.gpus_of.items() if self._wide[j] for g in gpus}
        while True:
            problem, layout, jobs = self._state(world, window, now, shut)
            found = search(
                problem,
                layout,
                iterations=self.iterations,
                until=None if limit is None else lambda: time.monotonic() - began >= limit,
                seed=self._seed + self.counters["decisions"],
            )
            lost = [k for k in range(len(window), len(jobs)) if found.layout.node[k] < 0]
            if not lost:
                break
            for k in lost:
                # Late whatever is planned; or in a company that no plan may have: its node is left alone.
                if self._due[jobs[k]] < NEVER:
                    self._due[jobs[k]] = NEVER
                else:
                    shut.add(int(layout.node[k]))
        for k, job in enumerate(window):
            self._start[job] = NEVER
            if found.layout.node[k] >= 0:
                self._start[job] = found.layout.start[k]
                self._mask[job] = found.layout.mask[k]
                self._node[job] = found.layout.node[k]
        return bool((found.layout.node[: len(window)] >= 0).all())

    @staticmethod
    def _now(world: World) -> float:
        if not world.slot_s:
            return world.now_s
        return math.ceil(world.now_s / world.slot_s - 1e-9) * world.slot_s

    def _state(
        self, world: World, window: list[int], now: float, shut: set[int]
    ) -> tuple[SearchProblem, Layout, list[int]]:
        """Return problem and plan as they are now, and whose they are.

        The jobs of the window come first, then those that run on nodes which are not shut: fixed, with the
        epochs they have left.
        """
        whole = self._problem
        a = whole.arrays
        running = [
            j
            for j, gpus in world.gpus_of.items()
            if not self._wide[j] and world.gpu_node[gpus[0]] not in shut
        ]
        jobs = window + running
        index = np.array(jobs, dtype=np.int64)
        epochs = a.epochs[index].copy()
        start, mask, node = self._start[index].copy(), self._mask[index].copy(), self._node[index].copy()
        for k in range(len(window)):
            if start[k] == NEVER or int(node[k]) in shut:
                start[k], node[k] = 0.0, -1
            else:
                start[k] = max(now, start[k])
        for k, job in enumerate(running, len(window)):
            gpus = world.gpus_of[job]
            node[k] = world.gpu_node[gpus[0]]
            start[k] = now
            epochs[k] = max(1e-9 * epochs[k], epochs[k] - world.progress_epochs(job))
            if a.types[world.node_types[node[k]], 4] == 1.0:
                mask[k] = 1
            else:
                mask[k] = sum(1 << (g - world.first_gpu[node[k]]) for g in gpus)
        due = self._due[index]
        ideal = whole.ideal[index]
        ahead_s = float(np.max(np.where(np.isfinite(due), due, now) - now, initial=0.0))
        # Prices of jobs without a place come from the known jobs alone, as all else does.
        bank = 2.0 * BANK * ideal + a.total * 2.0 * ahead_s + 1e-9
        arrays = a._replace(
            release=np.full(len(jobs), now),
            due=due,
            epochs=epochs,
            running=a.running[index],
            bank=bank,
            broken=10.0 * float(bank.sum()) + 1.0,
            cpu=a.cpu[index],
            job_class=a.job_class[index],
            size=a.size[index],
            tau=a.tau[index],
        )
        problem = dataclasses.replace(
            whole,
            arrays=arrays,
            nodes=np.array([n for n in whole.nodes if n not in shut], dtype=np.int64),
            jobs=np.arange(len(window), dtype=np.int64),
            ideal=ideal,
        )
        return problem, Layout(start, mask, node), jobs
