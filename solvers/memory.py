"""Memory: what the machine has left, and the refusal of models that would not fit."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

from eaco_opt.errors import EacoError

if TYPE_CHECKING:
    from eaco_opt.instance import Instance
    from formulations.base import Formulation, SizeEstimate
    from formulations.grid import Grid

SEARCH_FACTOR = 3.0
"""A solver's search is taken to need so many times the memory of its model."""

GIB = 2.0**30


class TooLargeError(EacoError):
    """A model would not fit in memory; it was not built."""


def available_bytes() -> float | None:
    """Return the memory that a new process could have, ``None`` where the system does not say.

    The least of what the machine reports as available and what is left below the limit of a container.
    """
    found: list[float] = []
    with contextlib.suppress(OSError, ValueError):
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                found.append(float(line.split()[1]) * 1024.0)
    with contextlib.suppress(OSError, ValueError):
        limit = float(Path("/sys/fs/cgroup/memory.max").read_text(encoding="ascii"))
        used = float(Path("/sys/fs/cgroup/memory.current").read_text(encoding="ascii"))
        found.append(max(0.0, limit - used))
    if not found:
        with contextlib.suppress(OSError, ValueError, AttributeError):
            found.append(float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")))
    return min(found, default=None)


def used_bytes(pid: int) -> float | None:
    """Return the resident memory of a process, ``None`` where the system does not say (Linux does)."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])
    except (OSError, ValueError, IndexError):
        return None
    return float(pages * os.sysconf("SC_PAGE_SIZE"))


def refuse_too_large(
    formulation: Formulation, instance: Instance, grid: Grid, most_bytes: float | None
) -> SizeEstimate:
    """Return the size of a model, after those that would not fit were refused.

    Parameters
    ----------
    formulation, instance, grid
        What would be built.
    most_bytes
        Most memory for model and search [bytes]; what the machine has left if ``None`` or more than that.

    Raises
    ------
    TooLargeError
        The model and its search would need more.
    """
    size = formulation.estimate(instance, grid)
    known = [x for x in (most_bytes, available_bytes()) if x is not None]
    needed = SEARCH_FACTOR * size.memory_bytes
    if known and needed > min(known):
        raise TooLargeError(
            f"formulation {formulation.name!r}: instance {instance.name!r} on {grid.slots} slots of "
            f"{grid.slot_s:g} s gives about {size.variables:,} variables and {size.nonzeros:,} nonzeros, "
            f"which need about {needed / GIB:.1f} GiB with the search; {min(known) / GIB:.1f} GiB may be "
            "used. Choose a longer slot (--grid), fewer jobs, or another method (`eaco-opt methods`)"
        )
    return size
