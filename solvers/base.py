"""What every method has in common: the registry, what it is asked for, and what it tells while it runs."""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from eaco_opt import __version__
from eaco_opt.instance import Instance
from eaco_opt.registry import Registry
from eaco_opt.result import Result
from eaco_opt.schedule import Schedule
from eaco_opt.simulator import Progress

METHODS = Registry("method", "eaco_opt.methods")
"""Methods that are not policies; other distributions add theirs through the entry points of that group."""


METHODS.register("auto", "solvers.methods.auto:Auto")
METHODS.register("bruteforce", "solvers.methods.bruteforce:Bruteforce")
METHODS.register("branch-and-price", "solvers.methods.branch_and_price:BranchAndPriceMethod")
METHODS.register("cpsat", "solvers.methods.cpsat:Cpsat")
METHODS.register("lns", "solvers.methods.lns:Lns")
METHODS.register("milp", "solvers.methods.milp:Milp")


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchProgress:
    """How far an exact method has come.

    Attributes
    ----------
    seconds
        Since the call [s].
    objective
        Of the best schedule so far, ``None`` without one.
    bound
        Best proved lower bound so far, ``None`` without one.
    phase
        What it is doing, for people: ``start``, ``build``, ``solve``, ...
    """

    seconds: float
    objective: float | None = None
    bound: float | None = None
    phase: str = ""

    @property
    def gap(self) -> float | None:
        """Relative distance of objective and bound; ``None`` where there is none."""
        if self.objective is None or self.bound is None or self.bound <= 0.0:
            return None
        return (self.objective - self.bound) / self.bound


Hook = Callable[[Progress | SearchProgress], None]
"""Policies tell how many jobs have ended, exact methods how far objective and bound have come."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What a method of :data:`METHODS` is asked for; the attributes are parameters of :func:`solve`."""

    time_limit_s: float | None = None
    gap: float | None = None
    threads: int = 1
    seed: int = 0
    start: Schedule | None = None
    deterministic: bool = False
    grid_s: float | str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    progress: Hook | None = None


class Method(Protocol):
    """A method that is not a policy; registered as a class that is built without arguments.

    Attributes
    ----------
    kind, schedule_class, exact, online, covers
        As in :class:`MethodInfo`.
    """

    kind: str
    schedule_class: str
    exact: bool
    online: bool
    covers: tuple[str, ...]

    def available(self) -> bool:
        """Tell whether what it needs is installed, without loading it."""
        ...

    def solve(self, instance: Instance, request: Request) -> Result:
        """Return the answer; :func:`solve` checks it."""
        ...


def versions() -> tuple[tuple[str, str], ...]:
    """Return the versions that a result depends on."""
    return (("eaco-opt", __version__), ("numpy", np.__version__), ("python", platform.python_version()))


def options_text(options: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Return options as a result records them."""
    return tuple(sorted((key, str(value)) for key, value in options.items()))
