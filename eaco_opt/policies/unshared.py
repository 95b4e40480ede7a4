"""Running jobs that share with nobody, by GPU count and class."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..simulator import World


class Unshared:
    """Index of the running jobs that have their GPUs to themselves."""

    def __init__(self, world: World) -> None:
        self._class: list[int] = world.arrays.job_class.tolist()
        self._gpus: list[int] = world.arrays.gpus.tolist()
        self.groups: dict[int, dict[int, dict[int, None]]] = {}

    def add(self, job: int) -> None:
        """Note that a job runs alone."""
        by_class = self.groups.setdefault(self._gpus[job], {})
        by_class.setdefault(self._class[job], {})[job] = None

    def discard(self, job: int) -> None:
        """Note that a job has gone, or shares now."""
        by_class = self.groups.get(self._gpus[job], {})
        jobs = by_class.get(self._class[job])
        if jobs is not None and job in jobs:
            del jobs[job]
            if not jobs:
                del by_class[self._class[job]]

    def of_size(self, gpus: int) -> dict[int, dict[int, None]]:
        """Return {class: {job: None}} of the unshared jobs with this many GPUs."""
        return self.groups.get(gpus, {})
