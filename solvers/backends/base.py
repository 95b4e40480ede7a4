"""What a back end declares, and what those of PuLP have in common."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Protocol

from eaco_opt.result import Status, StopReason
from formulations.base import FormulationError, Outcome

if TYPE_CHECKING:
    from formulations.base import Formulation, Model

    from ..search import PlanTeller, Task

ABILITIES = ("warm-start", "gap", "threads", "seed", "bound", "progress", "work-limit", "arrays")
"""Words for what a back end can do: take a start, stop at a gap, use several threads, take a seed, tell a
proved bound of a run that did not end, tell solutions while it runs, stop after an amount of work that is
the same on every run, take the model from arrays."""


class Backend(Protocol):
    """A programme that solves the model of ``milp``.

    Attributes
    ----------
    name
        Registered name.
    title
        Name for people.
    package
        Distribution that brings it.
    abilities
        Of :data:`ABILITIES`.
    how_to_get
        What to do where it is missing.
    """

    name: str
    title: str
    package: str
    abilities: tuple[str, ...]
    how_to_get: str

    def available(self) -> bool:
        """Tell whether it is installed, without loading it; a licence is only asked for when it runs."""
        ...

    def formulation(self) -> Formulation:
        """Return the form of the model that it takes."""
        ...

    def solve(self, model: Model, task: Task, time_limit_s: float | None, teller: PlanTeller) -> Outcome:
        """Solve a model of that form."""
        ...


class PulpBackend:
    """A solver that PuLP calls.

    A subclass names itself and the module to look for, and makes the PuLP solver.
    """

    name = ""
    title = ""
    package = ""
    module = ""
    abilities: tuple[str, ...] = ("gap",)
    how_to_get = ""

    def available(self) -> bool:
        """Tell whether its module is installed."""
        return find_spec(self.module) is not None

    def formulation(self) -> Formulation:
        """Return the PuLP form of the model."""
        from formulations.milp import MilpFormulation

        return MilpFormulation()

    def make(self, task: Task, time_limit_s: float | None) -> Any:
        """Return the PuLP solver, silent, with limit, gap, threads and seed as far as it takes them."""
        raise NotImplementedError

    def bound(self, problem: Any) -> float | None:
        """Return the bound that the solver keeps of a PuLP problem, in the model's units; ``None``: none."""
        return None

    def solve(self, model: Model, task: Task, time_limit_s: float | None, teller: PlanTeller) -> Outcome:
        """Solve a PuLP model; what PuLP cannot do here ends in an outcome of status ``unknown``."""
        import pulp

        from formulations.milp import MilpModel

        if not isinstance(model, MilpModel):
            raise FormulationError(f"back end {self.name!r} takes models in PuLP, got {type(model).__name__}")
        try:
            return model.solve_with(
                self.make(task, time_limit_s),
                time_limit_s=time_limit_s,
                gap=task.gap,
                bound_of=self.bound if "bound" in self.abilities else None,
            )
        except pulp.PulpSolverError as error:
            return Outcome(
                status=Status.UNKNOWN,
                stop_reason=StopReason.ERROR,
                build_s=model.build_s,
                message=f"{self.title}: {str(error).strip() or 'PuLP could not run it'}",
            )


def shifted(bound: float, own_value: float, problem: Any) -> float | None:
    """Return a solver's bound in PuLP's objective, which may hold a constant that the solver's does not."""
    value = problem.objective.value()
    return None if value is None else bound + (float(value) - own_value)
