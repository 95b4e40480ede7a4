"""The back end ``highs``."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from formulations.base import Outcome
from formulations.linear import LinearModel

if TYPE_CHECKING:
    from formulations.base import Formulation, Model

    from ..search import PlanTeller, Task


class Highs:
    """HiGHS, on arrays; the default."""

    name = "highs"
    title = "HiGHS"
    package = "highspy"
    abilities = ("warm-start", "gap", "threads", "seed", "bound", "progress", "work-limit", "arrays")
    how_to_get = "it belongs to eaco-opt; pip install highspy"

    def available(self) -> bool:
        """Tell whether highspy is installed."""
        return find_spec("highspy") is not None

    def formulation(self) -> Formulation:
        """Return the array form of the model: the same model as in PuLP, built many times faster."""
        from formulations.milp_arrays import MilpArraysFormulation

        return MilpArraysFormulation()

    def solve(self, model: Model, task: Task, time_limit_s: float | None, teller: PlanTeller) -> Outcome:
        """Solve; the option ``node_limit`` ends the search at the same node on every run."""
        if isinstance(model, LinearModel):
            model.node_limit = task.options.get("node_limit")
        return model.solve(
            time_limit_s=time_limit_s,
            gap=task.gap,
            threads=task.threads,
            seed=task.seed,
            deterministic=task.deterministic,
            progress=teller.progress,
        )
