"""The method ``milp``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from eaco_opt import _validate as v
from formulations.base import Outcome

from ..backends import DEFAULT, Backend, backend
from ..exact import ExactMethod
from ..search import PlanTeller, Task

if TYPE_CHECKING:
    from eaco_opt.instance import Instance
    from formulations.base import Formulation, Model

    from ..base import Request


class Milp(ExactMethod):
    """The static optimum on a grid by a mixed-integer linear programme; HiGHS by default."""

    name = "milp"
    options: Mapping[str, Any] = {"backend": DEFAULT, "node_limit": None}

    def task(self, instance: Instance, request: Request) -> Task:
        """Return what is asked for; a back end that is missing is an error before anything starts."""
        task = super().task(instance, request)
        backend(str(task.options["backend"]))
        if task.options["node_limit"] is not None:
            v.integer("method 'milp'", "node_limit", task.options["node_limit"], 0)
        return task

    def formulation(self, options: Mapping[str, Any]) -> Formulation:
        """Return the form of the model that the back end takes."""
        return self._backend(options).formulation()

    def run(self, model: Model, task: Task, time_limit_s: float | None, teller: PlanTeller) -> Outcome:
        """Solve with the back end."""
        return self._backend(task.options).solve(model, task, time_limit_s, teller)

    @staticmethod
    def _backend(options: Mapping[str, Any]) -> Backend:
        return backend(str(options["backend"]))
