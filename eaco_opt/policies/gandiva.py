"""Gandiva: random packing under pressure, undone on introspection (docs/model.md section 8)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from .. import _validate as v
from ..schedule import ScheduleClass
from ..simulator import Action, Event, EventKind, Start, Stop, World
from . import choice
from .queue import Line
from .unshared import Request, Unshared


class Gandiva:
    """FIFO placement; while demand exceeds the cluster, random pairs share, bad pairs part.

    While the GPUs asked for by all jobs present exceed the cluster, a waiting job and a
    running, unshared one of equal GPU count are drawn at random and packed, without
    looking at speeds, until no pair is left. At every later decision, pairs whose
    summed relative throughput is observed to be below the threshold are dissolved: the
    job that joined goes back to the line with its progress. Bad pairs are not
    remembered, and pairs are not parted merely because demand fits again. At most two
    jobs share; memory and K are obeyed. In static form pairs are not dissolved.

    Parameters
    ----------
    choice
        ``random`` (default): pairs are drawn evenly; ``affinity``: the waiting job is
        drawn, and joins the partner with the lowest summed load (lowest submit index
        among equals).
    threshold
        Least summed relative throughput of a pair that stays; 1.
    obey_u
        Whether U_threshold is obeyed when packing (default: no).
    """

    name = "gandiva"
    schedule_class = ScheduleClass.FLUID

    def __init__(self, *, choice: str = "random", threshold: float = 1.0, obey_u: bool = False) -> None:
        self.choice = _choice(choice)
        self.threshold = v.real("policy 'gandiva'", "threshold", threshold, low=0.0)
        self.obey_u = v.flag("policy 'gandiva'", "obey_u", obey_u)
        self.counters: dict[str, int] = {}

    def begin(self, world: World, rng: np.random.Generator) -> None:
        """Start with an empty line."""
        self.counters = {"packed": 0, "dissolved": 0}
        self._rng = rng
        self._line = Line(world)
        self._unshared = Unshared(world)
        self._partner: dict[int, int] = {}
        self._joined: dict[int, float] = {}
        self._may_pair: dict[tuple[Request, int, int], bool] = {}
        self._waiting = Unshared(world)  # the same index, over waiting jobs
        self._total = len(world.gpu_node)

    def decide(self, world: World, events: Sequence[Event]) -> Iterator[Action]:
        """Part bad pairs; place alone while it fits, pack while demand exceeds supply, in turns."""
        line, unshared, waiting = self._line, self._unshared, self._waiting
        for event in events:
            if event.kind is EventKind.ARRIVAL:
                line.add(event.job)
                waiting.add(event.job)
            elif event.kind is EventKind.DEPARTURE:
                unshared.discard(event.job)
                self._part(event.job)
        if not world.static:
            for job in [j for j, t in self._joined.items() if t < world.now_s]:
                partner = self._partner[job]
                if 1.0 / world.slowdown(job) + 1.0 / world.slowdown(partner) < self.threshold:
                    self._part(job)
                    unshared.discard(job)
                    self.counters["dissolved"] += 1
                    yield Stop(job)
                    line.add(job)
                    waiting.add(job)
        first = True
        while True:
            before = len(line)
            while line and (gpus := world.best_fit(line.head())):
                job = line.head()
                line.remove(job)
                waiting.discard(job)
                unshared.add(job)
                yield Start(job, gpus)
            if world.demand <= self._total or not (first or len(line) < before):
                return
            first = False
            for job, partner in self._draw(world):
                line.remove(job)
                waiting.discard(job)
                unshared.discard(partner)
                self._partner[job], self._partner[partner] = partner, job
                self._joined[job] = max(world.now_s, float(world.state.since[partner]))
                self.counters["packed"] += 1
                yield Start(job, world.gpus_of[partner])

    def _part(self, job: int) -> None:
        partner = self._partner.pop(job, -1)
        if partner >= 0:
            del self._partner[partner]
            self._joined.pop(job, None)
            self._joined.pop(partner, None)
            self._unshared.add(partner)

    def _draw(self, world: World) -> Iterator[tuple[int, int]]:
        """Draw a waiting job evenly among those that have a partner, then its partner, until none has."""
        groups: list[tuple[list[int], list[int]]] = []
        for size, by_request in self._waiting.groups.items():
            partners = self._unshared.of_size(size)
            for request, jobs in by_request.items():
                fits = self._fitting(world, request, next(iter(jobs)), partners)
                if fits:
                    groups.append((list(jobs), fits))
        while total := sum(len(waiting) for waiting, _ in groups):
            k = int(self._rng.integers(total))
            for waiting, fits in groups:
                if k < len(waiting):
                    job, partner = waiting.pop(k), self._pick(world, fits)
                    break
                k -= len(waiting)
            yield job, partner
            for _, fits in groups:
                if partner in fits:
                    fits.remove(partner)
            groups = [(waiting, fits) for waiting, fits in groups if waiting and fits]

    def _fitting(
        self, world: World, request: Request, job: int, partners: dict[Request, dict[int, None]]
    ) -> list[int]:
        """Return the partners that a job with this request may join; pairs are judged once a run."""
        out: list[int] = []
        for (cls, _, _), jobs in partners.items():
            for partner in jobs:
                node = world.gpu_node[world.gpus_of[partner][0]]
                key = (request, cls, world.node_types[node])
                fits = self._may_pair.get(key)
                if fits is None:
                    fits = world.may_use(job, node) and world.can_join(
                        job, world.gpus_of[partner], self.obey_u
                    )
                    self._may_pair[key] = fits
                if fits:
                    out.append(partner)
        return out

    def _pick(self, world: World, partners: list[int]) -> int:
        if self.choice == "random":
            return partners[int(self._rng.integers(len(partners)))]
        util = world.arrays.util
        return min(partners, key=lambda p: (float(util[p]), p))


def _choice(value: str) -> str:
    return choice("gandiva", "choice", value, ("random", "affinity"))
