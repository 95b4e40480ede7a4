"""A typed face of numba's decorator, so that strict typing sees through it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from numba import njit

F = TypeVar("F", bound=Callable[..., object])


def jit(function: F) -> F:
    """Compile at first use, keep the machine code beside the source."""
    compiled: F = njit(cache=True, error_model="numpy")(function)
    return compiled
