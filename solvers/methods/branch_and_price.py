"""The method ``branch-and-price``."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from ..exact import ExactMethod

if TYPE_CHECKING:
    from eaco_opt.instance import Instance
    from formulations.base import Formulation


class BranchAndPriceMethod(ExactMethod):
    """The static optimum on a grid by branch-and-price over busy periods of nodes."""

    name = "branch-and-price"

    def prepare(self, instance: Instance) -> None:
        """Compile the kernels, which takes some ten seconds once; their code is kept beside the sources."""
        import_module("solvers.busy_periods").compile_kernels(instance)

    def formulation(self, options: Mapping[str, Any]) -> Formulation:
        """Return the formulation of that name, whose package compiles kernels when it is imported."""
        made: Formulation = import_module("solvers.busy_periods").BranchAndPrice()
        return made
