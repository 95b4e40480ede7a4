"""A typed face of numba's decorator, so that strict typing sees through them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast

from numba import njit

F = TypeVar("F", bound=Callable[..., object])


@cache
def forget_stale_code(folder: Path) -> None:
    """Delete machine code kept in a folder that was compiled from other sources of kernels.

    Numba keeps code while the file of the function itself is unchanged, but functions are
    compiled together with those they call in other files.
    """
    digest = hashlib.sha256()
    for place in dict.fromkeys((Path(__file__).parent, folder)):
        for source in sorted(place.glob("*.py")):
            digest.update(source.read_bytes())
    stamp = folder / "__pycache__" / "kernels.sha256"
    with suppress(OSError):  # a folder that cannot be written to holds no code either
        if stamp.exists() and stamp.read_text() == digest.hexdigest():
            return
        stamp.parent.mkdir(exist_ok=True)
        for kept in stamp.parent.glob("*.nb[ci]"):
            kept.unlink(missing_ok=True)
        stamp.write_text(digest.hexdigest())


def jit(function: F) -> F:
    """Compile at first use, keep the machine code beside the source.

    Reference counting is left out: these functions allocate nothing, their arrays belong
    to the caller, and counting costs several times the work itself. Other threads of Python go on meanwhile.
    """
    forget_stale_code(Path(function.__code__.co_filename).parent)
    options: dict[str, Any] = {"cache": True, "error_model": "numpy", "nogil": True, "_nrt": False}
    return cast(F, njit(**options)(function))


def inlined(function: F) -> F:
    """Compile into each caller, for functions of some size that take the three named tuples.

    Such a call passes some forty arrays by value, which costs more than the work.
    """
    options: dict[str, Any] = {"inline": "always", "error_model": "numpy"}
    return cast(F, njit(**options)(function))
