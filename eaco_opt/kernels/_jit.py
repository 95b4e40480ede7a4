"""A typed face of numba's decorator, so that strict typing sees through them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

from numba import njit

F = TypeVar("F", bound=Callable[..., object])


def jit(function: F) -> F:
    """Compile at first use, keep the machine code beside the source.

    Reference counting is left out: these functions allocate nothing, their arrays belong
    to the caller, and counting costs several times the work itself.
    """
    options: dict[str, Any] = {"cache": True, "error_model": "numpy", "_nrt": False}
    return cast(F, njit(**options)(function))


def inlined(function: F) -> F:
    """Compile into each caller, for functions of some size that take the three named tuples.

    Such a call passes some forty arrays by value, which costs more than the work.
    """
    options: dict[str, Any] = {"inline": "always", "error_model": "numpy"}
    return cast(F, njit(**options)(function))
