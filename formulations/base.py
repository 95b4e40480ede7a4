"""What every formulation of the static class on the grid has in common.

Map: :class:`Formulation` and :class:`Model` are what solvers call; :class:`SizeEstimate` is known before a
model is built, :class:`Outcome` after it was solved; the errors of this floor stand here too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from eaco_opt.errors import EacoError
from eaco_opt.result import Status, StopReason

if TYPE_CHECKING:
    from eaco_opt.instance import Instance
    from eaco_opt.schedule import Plan

    from .grid import Grid


class FormulationError(EacoError):
    """A model and the physics disagree, or a model was asked for what it does not have."""


class UncoveredFeatureError(FormulationError):
    """The instance uses a feature that a formulation does not cover; nothing was built.

    Attributes
    ----------
    features
        The features, in the words of docs/model.md.
    """

    def __init__(self, formulation: str, features: Sequence[str]) -> None:
        self.features = tuple(features)
        super().__init__(
            f"formulation {formulation!r} does not cover: {'; '.join(self.features)}. "
            "Choose another method, or an instance without them."
        )


class GridError(FormulationError):
    """No usable grid of slots: a bad slot length, or too many slots."""


class ScalingError(FormulationError):
    """Costs cannot be brought to integers of at most 2**53 at the resolution asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeEstimate:
    """Size of a model, known before it is built.

    Attributes
    ----------
    variables, constraints, nonzeros
        Counts; upper estimates.
    memory_bytes
        Memory of the built model, without what the solver's search adds.
    """

    variables: int
    constraints: int
    nonzeros: int
    memory_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What is known after a solve. Values are read only where the solver has them.

    Attributes
    ----------
    status
        ``optimal`` only if the bound meets the objective of the plan, which was worked out again by
        :func:`eaco_opt.physics.evaluate`.
    stop_reason
        Why the solver stopped.
    plan
        The best plan, or ``None``.
    objective
        Its objective by `evaluate` on the grid, or ``None``.
    bound
        Proved lower bound of the objective over all static schedules on the grid, or ``None``.
    claimed
        The solver's own objective of the plan, or ``None``.
    build_s, solve_s
        Wall-clock times [s].
    message
        What the solver said, for people.
    """

    status: Status
    stop_reason: StopReason
    plan: Plan | None = None
    objective: float | None = None
    bound: float | None = None
    claimed: float | None = None
    build_s: float = 0.0
    solve_s: float = 0.0
    message: str = ""


Progress = Callable[[float, float | None, float | None], None]
"""Called with (seconds since the start of the solve, best objective or None, best bound or None)."""


PlanHook = Callable[["Plan"], None]
"""Called with a plan as soon as a solver has found it."""


class Model(Protocol):
    """A built model of one instance on one grid.

    A model that can tell plans while it solves has an attribute ``on_plan`` besides, a :data:`PlanHook` or
    ``None``; whoever wants them sets it before :meth:`solve`.
    """

    instance: Instance
    grid: Grid

    def start_from(self, plan: Plan) -> None:
        """Give the solver a plan to start from.

        Raises
        ------
        FormulationError
            The plan is not feasible on this grid.
        """
        ...

    def solve(
        self,
        *,
        time_limit_s: float | None = None,
        gap: float = 0.0,
        threads: int = 1,
        seed: int = 0,
        deterministic: bool = False,
        progress: Progress | None = None,
    ) -> Outcome:
        """Solve within a wall-clock limit [s] and to a relative gap."""
        ...


class Formulation(Protocol):
    """A way to write the static class on the grid (docs/model.md section 5) for a solver."""

    name: str

    def covers(self, instance: Instance) -> list[str]:
        """Return the features of the instance that are not covered; empty means all are."""
        ...

    def estimate(self, instance: Instance, grid: Grid) -> SizeEstimate:
        """Return the size of the model without building it."""
        ...

    def build(self, instance: Instance, grid: Grid) -> Model:
        """Build the model.

        Raises
        ------
        UncoveredFeatureError
            The instance uses a feature that is not covered; raised before anything is built.
        """
        ...


def wake_features(instance: Instance) -> list[str]:
    """Return what the instance uses of wake-up times and energies (docs/model.md section 2.7)."""
    used = {node.node_type for node in instance.cluster.nodes}
    out = []
    for node_type in instance.cluster.node_types:
        if node_type.name in used and node_type.wake_s > 0.0:
            out.append(f"wake-up time of node type {node_type.name!r} ({node_type.wake_s:g} s)")
        if node_type.name in used and node_type.wake_energy_j > 0.0:
            out.append(f"wake-up energy of node type {node_type.name!r} ({node_type.wake_energy_j:g} J)")
    return out
