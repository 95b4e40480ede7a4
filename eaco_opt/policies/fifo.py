"""FIFO: exclusive GPUs in order of priority and arrival (docs/model.md section 8)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from ..schedule import ScheduleClass
from ..simulator import Action, Event, EventKind, Start, World
from . import choice
from .queue import Line


class Fifo:
    """First in, first out, on exclusive GPUs, best fit.

    Knows neither deadlines nor U_threshold.

    Parameters
    ----------
    blocked
        ``strict`` (default): a head that finds no room blocks the line. ``skip``: later
        jobs may pass it.
    """

    name = "fifo"
    schedule_class = ScheduleClass.STATIC

    def __init__(self, *, blocked: str = "strict") -> None:
        self.blocked = choice(self.name, "blocked", blocked, ("strict", "skip"))

    def begin(self, world: World, rng: np.random.Generator) -> None:
        """Start with an empty line."""
        self._line = Line(world)

    def decide(self, world: World, events: Sequence[Event]) -> Iterator[Action]:
        """Place waiting jobs alone while they fit."""
        line = self._line
        for event in events:
            if event.kind is EventKind.ARRIVAL:
                line.add(event.job)
        if self.blocked == "strict":
            while line:
                job = line.head()
                gpus = world.best_fit(job)
                if not gpus:
                    return
                line.remove(job)
                yield Start(job, gpus)
            return
        # Equal requests fit or fail alike: try each once.
        failed: set[tuple[int, int, tuple[bool, ...]]] = set()
        for job in line:
            key = world.request(job)
            if key in failed:
                continue
            gpus = world.best_fit(job)
            if gpus:
                line.remove(job)
                yield Start(job, gpus)
            else:
                failed.add(key)
