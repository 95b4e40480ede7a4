"""The method ``milp``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..exact import ExactMethod

if TYPE_CHECKING:
    from formulations.base import Formulation


class Milp(ExactMethod):
    """The static optimum on a grid by a mixed-integer linear programme; HiGHS by default."""

    name = "milp"

    def formulation(self, options: Mapping[str, Any]) -> Formulation:
        """Return the array form of the model."""
        from formulations.milp_arrays import MilpArraysFormulation

        return MilpArraysFormulation()
