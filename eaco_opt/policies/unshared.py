"""Jobs indexed by GPU count and kind of request."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..simulator import World

Request = tuple[int, int, tuple[bool, ...]]
"""Class, GPUs, and the node types that may be used: see ``World.request``."""


class Unshared:
    """Index of jobs (those that run unshared, or those that wait) by GPU count and request."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.groups: dict[int, dict[Request, dict[int, None]]] = {}

    def add(self, job: int) -> None:
        """Put a job in."""
        request = self._world.request(job)
        self.groups.setdefault(request[1], {}).setdefault(request, {})[job] = None

    def discard(self, job: int) -> None:
        """Take a job out, if it is in."""
        request = self._world.request(job)
        by_request = self.groups.get(request[1], {})
        jobs = by_request.get(request)
        if jobs is not None and job in jobs:
            del jobs[job]
            if not jobs:
                del by_request[request]

    def of_size(self, gpus: int) -> dict[Request, dict[int, None]]:
        """Return {request: {job: None}} of the jobs with this many GPUs."""
        return self.groups.get(gpus, {})
