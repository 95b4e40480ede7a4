"""The waiting line of first-come policies."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..simulator import World


class Line:
    """Jobs in order of priority, then arrival, then submit index."""

    def __init__(self, world: World) -> None:
        self._rank = world.queue_order
        self._job = [0] * len(self._rank)
        for job, rank in enumerate(self._rank):
            self._job[rank] = job
        self._ranks: list[int] = []
        self._first = 0

    def __len__(self) -> int:
        """Return the number of waiting jobs."""
        return len(self._ranks) - self._first

    def __iter__(self) -> Iterator[int]:
        """Iterate over the waiting jobs in order; the line may change meanwhile."""
        return iter([self._job[rank] for rank in self._ranks[self._first :]])

    def add(self, job: int) -> None:
        """Put a job in its place."""
        rank = self._rank[job]
        if not self or rank > self._ranks[-1]:
            self._ranks.append(rank)
        else:
            insort(self._ranks, rank, lo=self._first)

    def head(self) -> int:
        """Return the first job."""
        return self._job[self._ranks[self._first]]

    def remove(self, job: int) -> None:
        """Take a job out."""
        at = bisect_left(self._ranks, self._rank[job], lo=self._first)
        if at == self._first:
            self._first += 1
            if self._first > 1024 and 2 * self._first > len(self._ranks):
                del self._ranks[: self._first]
                self._first = 0
        else:
            del self._ranks[at]
