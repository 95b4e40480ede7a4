"""FIFO_packed: FIFO that packs pairs when there is no room (docs/model.md section 8)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from .. import _validate as v
from ..schedule import ScheduleClass
from ..simulator import Action, Event, EventKind, Start, World
from .queue import Line
from .unshared import Unshared


class FifoPacked:
    """FIFO; when a job finds no room, it is packed with the partner of best joint speed.

    Jobs are placed alone in order while they fit. From the first that does not fit on,
    each is packed with the placed, unshared job of equal GPU count whose summed
    relative throughput with it is highest and above the threshold; the first that finds
    none ends the packing, and is placed alone if it fits. Relative throughputs come from
    the policy's history. At most two jobs share a GPU; memory and K are obeyed. Rule and
    threshold are Gavel's.

    Parameters
    ----------
    threshold
        Least summed relative throughput, exclusive; 1.5.
    obey_u
        Whether U_threshold is obeyed as well (default: no).
    """

    name = "fifo_packed"
    schedule_class = ScheduleClass.STATIC

    def __init__(self, *, threshold: float = 1.5, obey_u: bool = False) -> None:
        self.threshold = v.real("policy 'fifo_packed'", "threshold", threshold, low=0.0)
        self.obey_u = v.flag("policy 'fifo_packed'", "obey_u", obey_u)
        self.counters: dict[str, int] = {}

    def begin(self, world: World, rng: np.random.Generator) -> None:
        """Start with an empty line."""
        self.counters = {"packed": 0}
        self._line = Line(world)
        self._unshared = Unshared(world)
        self._partner: dict[int, int] = {}

    def decide(self, world: World, events: Sequence[Event]) -> Iterator[Action]:
        """Place alone while it fits, then pack, in turns until neither is possible."""
        line, unshared = self._line, self._unshared
        for event in events:
            if event.kind is EventKind.ARRIVAL:
                line.add(event.job)
            elif event.kind is EventKind.DEPARTURE:
                unshared.discard(event.job)
                partner = self._partner.pop(event.job, -1)
                if partner >= 0:
                    del self._partner[partner]
                    unshared.add(partner)
        while line:
            job = line.head()
            if gpus := world.best_fit(job):
                line.remove(job)
                unshared.add(job)
                yield Start(job, gpus)
                continue
            before = len(line)
            while line:
                job = line.head()
                partner = self._best_partner(world, job)
                if partner < 0:
                    break
                line.remove(job)
                unshared.discard(partner)
                self._partner[job], self._partner[partner] = partner, job
                self.counters["packed"] += 1
                yield Start(job, world.gpus_of[partner])
            if len(line) == before:
                return

    def _best_partner(self, world: World, job: int) -> int:
        best, found = self.threshold, -1
        scores: dict[tuple[int, int], float] = {}
        for request, jobs in self._unshared.of_size(int(world.arrays.gpus[job])).items():
            for partner in jobs:
                gpus = world.gpus_of[partner]
                node = world.gpu_node[gpus[0]]
                key = (request[0], world.node_types[node])
                if key not in scores:
                    fits = world.may_use(job, node) and world.can_join(job, gpus, self.obey_u)
                    scores[key] = joint_throughput(world, job, partner) if fits else -1.0
                score = scores[key]
                if score > best or (score == best and 0 <= partner < found):
                    best, found = score, partner
        return found


def joint_throughput(world: World, job: int, partner: int) -> float:
    """Return the summed relative throughput that the history predicts for a pair."""
    classes = world.arrays.job_class
    a, b = int(classes[job]), int(classes[partner])
    s = world.arrays.sets.intern(tuple(sorted((a, b))))
    return 1.0 / world.history.factor(s, a) + 1.0 / world.history.factor(s, b)
