"""Policy ``mpc``: a rolling-horizon optimiser (model predictive control) among the online policies.

At each arrival the jobs that are known and have not started are planned anew by the search of
:mod:`solvers.lns`, around what is running, which stays where it is; the plan's starts are carried out as
their times come. It knows no more than EaCO does: what has arrived, what runs, and its belief on slowdowns. So
EaCO beside ``mpc`` shows what optimisation is worth, and ``mpc`` beside the offline optimum what knowing the
future is worth.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress

import numpy as np
from numpy.typing import NDArray

from eaco_opt import _validate as v
from eaco_opt.arrays import time_tolerance_s
from eaco_opt.policies.eaco import Eaco
from eaco_opt.schedule import ScheduleClass
from eaco_opt.simulator import Action, Event, EventKind, Start, Timer, World
from formulations.base import FormulationError

from .lns.driver import search
from .lns.problem import Layout, SearchProblem, search_problem

NEVER = math.inf


class Mpc:
    """Plan all known jobs anew at each arrival, by search, and start them when the plan says so.

    Where the search does not place a newcomer within its limit, EaCO decides on the waiting jobs instead,
    which the counter ``fallbacks`` counts beside ``decisions``. Jobs that no plan serves in time run
    best-effort, without a deadline.

    Parameters
    ----------
    iterations
        Limit on destroy-and-repair steps of each decision; the outcome depends on it and the seed alone.
    decision_s
        Wall-clock limit [s] of each decision besides; ``None`` for none. With it runs are not reproducible.
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

    def __init__(self, *, iterations: int = 200, decision_s: float | None = None) -> None:
        self.iterations = v.integer("policy 'mpc'", "iterations", iterations, 0)
        self.decision_s = (
            None if decision_s is None else v.real("policy 'mpc'", "decision_s", decision_s, low=0.0)
        )
        self.counters: dict[str, int] = {}

    def begin(self, world: World, rng: np.random.Generator) -> None:
        """Build the search's view of the instance, with the beliefs on slowdowns as its truth.

        Where nodes take time to wake up, or the search does not cover the instance, EaCO decides throughout.
        """
        types = {node.node_type for node in world.instance.cluster.nodes}
        slow = any(t.wake_s > 0.0 for t in world.instance.cluster.node_types if t.name in types)
        self._problem: SearchProblem | None = None
        if not slow:
            believed = dataclasses.replace(world.instance, truth=world.history.base)
            with suppress(FormulationError):
                self._problem = search_problem(believed, grid_s=world.slot_s or None)
        jobs = len(world.arrays.epochs)
        self._rng = rng
        self._seed = int(rng.integers(2**31))
        self._due: NDArray[np.float64] = world.arrays.deadline_s.copy()
        self._start = np.full(jobs, NEVER)
        self._mask = np.zeros(jobs, dtype=np.int64)
        self._node = np.full(jobs, -1, dtype=np.int64)
        self._wide = np.zeros(jobs, dtype=np.bool_)
        if self._problem is not None:
            self._wide = self._problem.arrays.size.max(axis=1, initial=0) == 0
        self.counters = {"decisions": 0, "fallbacks": 0, "best_effort": 0}

    def decide(self, world: World, events: Sequence[Event]) -> Iterator[Action]:
        """Plan at arrivals, and start the jobs whose time has come."""
        if self._problem is None:
            if world.waiting:
                self.counters["fallbacks"] += 1
                yield from Eaco(observe=False).decide_once(world, list(world.waiting), self._rng)
            return
        for job in [j for j in world.waiting if self._wide[j]]:
            if gpus := world.best_fit(job):
                yield Start(job, gpus)
        news = any(e.kind is EventKind.ARRIVAL and not self._wide[e.job] for e in events)
        if (news or self._unplanned(world)) and not self._plan(world):
            yield from self._fall_back(world)
        yield from self._launch(world)
        following = self._following(world)
        if following == NEVER and not world.gpus_of and self._waiting(world):
            # Nothing would ever happen: who is left cannot be in time, and runs as well as it can.
            for job in self._unplanned(world):
                self._due[job] = NEVER
                self.counters["best_effort"] += 1
            if not self._plan(world):
                yield from self._fall_back(world)
            yield from self._launch(world)
            following = self._following(world)
        if following < NEVER:
            yield Timer(float(following))

    def _unplanned(self, world: World) -> list[int]:
        return [j for j in self._waiting(world) if self._start[j] == NEVER]

    def _following(self, world: World) -> float:
        """Return the next planned start, infinity if none is."""
        return min((float(self._start[j]) for j in self._waiting(world)), default=NEVER)

    def _launch(self, world: World) -> Iterator[Action]:
        """Start the jobs whose time has come; plan once more if one of them has no room."""
        for again in (True, False):
            stuck = False
            for job in sorted(self._waiting(world), key=lambda j: (self._start[j], j)):
                if self._start[job] > world.now_s + time_tolerance_s(world.now_s):
                    continue
                gpus = self._gpus(world, job)
                if world.can_join(job, gpus, obey_u=True):
                    yield Start(job, gpus)
                else:
                    stuck = True  # somebody stays longer than was believed
                    self._start[job] = NEVER
            if not stuck or not again or not self._plan(world):
                return

    def _waiting(self, world: World) -> list[int]:
        return [j for j in world.waiting if not self._wide[j]]

    def _gpus(self, world: World, job: int) -> tuple[int, ...]:
        problem = self._need()
        node, mask = int(self._node[job]), int(self._mask[job])
        first, last = world.first_gpu[node], world.first_gpu[node + 1]
        if problem.arrays.types[world.node_types[node], 4] == 1.0:
            return tuple(range(first, last))
        return tuple(g for g in range(first, last) if (mask >> (g - first)) & 1)

    def _plan(self, world: World) -> bool:
        """Plan the waiting jobs anew; return whether each has a place."""
        self.counters["decisions"] += 1
        waiting = self._waiting(world)
        began = time.monotonic()
        now = self._now(world)
        while True:
            problem, layout, running = self._state(world, waiting, now)
            found = search(
                problem,
                layout,
                iterations=self.iterations,
                until=None
                if self.decision_s is None
                else lambda: time.monotonic() - began >= (self.decision_s or 0.0),
                seed=self._seed + self.counters["decisions"],
            )
            late = [j for j in running if found.layout.node[j] < 0]
            if not late:
                break
            # It is late already, whatever is planned.
            self._due[late] = NEVER
        placed = found.layout.node[waiting] >= 0 if waiting else np.ones(0, dtype=np.bool_)
        for job, ok in zip(waiting, placed.tolist(), strict=True):
            if ok:
                self._start[job] = found.layout.start[job]
                self._mask[job] = found.layout.mask[job]
                self._node[job] = found.layout.node[job]
        return bool(placed.all())

    def _need(self) -> SearchProblem:
        assert self._problem is not None  # decide() does not plan without it
        return self._problem

    @staticmethod
    def _now(world: World) -> float:
        if not world.slot_s:
            return world.now_s
        return math.ceil(world.now_s / world.slot_s - 1e-9) * world.slot_s

    def _state(self, world: World, waiting: list[int], now: float) -> tuple[SearchProblem, Layout, list[int]]:
        """Return problem and plan as they are now: running jobs fixed, with the epochs they have left."""
        whole = self._need()
        a = whole.arrays
        jobs = len(a.epochs)
        epochs, release = a.epochs.copy(), np.maximum(a.release, now)
        start, mask = np.where(np.isfinite(self._start), self._start, 0.0), self._mask.copy()
        node = np.full(jobs, -1, dtype=np.int64)
        shut: set[int] = set()
        running: list[int] = []
        for job, gpus in world.gpus_of.items():
            if self._wide[job]:
                shut |= {world.gpu_node[g] for g in gpus}
                continue
            running.append(job)
            on = world.gpu_node[gpus[0]]
            node[job] = on
            start[job] = now
            epochs[job] = max(1e-9 * epochs[job], epochs[job] - world.progress_epochs(job))
            if a.types[world.node_types[on], 4] == 1.0:
                mask[job] = 1
            else:
                mask[job] = sum(1 << (g - world.first_gpu[on]) for g in gpus)
        for job in waiting:
            if np.isfinite(self._start[job]) and int(self._node[job]) not in shut:
                node[job] = self._node[job]
                start[job] = max(now, start[job])
        arrays = a._replace(epochs=epochs, release=release, due=self._due)
        problem = dataclasses.replace(
            whole,
            arrays=arrays,
            nodes=np.array([n for n in whole.nodes if n not in shut], dtype=np.int64),
            jobs=np.array(sorted(waiting), dtype=np.int64),
        )
        return problem, Layout(start, mask, node), running

    def _fall_back(self, world: World) -> Iterator[Action]:
        """Let EaCO decide on the waiting jobs."""
        self.counters["fallbacks"] += 1
        yield from Eaco(observe=False).decide_once(world, self._waiting(world), self._rng)
