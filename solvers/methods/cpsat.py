"""The method ``cpsat``."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from ..exact import ExactMethod

if TYPE_CHECKING:
    from formulations.base import Formulation


class Cpsat(ExactMethod):
    """The static optimum on a grid by CP-SAT, in exact integers."""

    name = "cpsat"

    def available(self) -> bool:
        """Tell whether OR-Tools is installed."""
        return find_spec("ortools") is not None

    def formulation(self, options: Mapping[str, Any]) -> Formulation:
        """Return the formulation of that name."""
        from formulations.cpsat import CpsatFormulation

        return CpsatFormulation()
