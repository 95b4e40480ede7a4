"""What may be concluded from what a solver says, once for all formulations.

The plan is built from the solver's values and priced by :func:`eaco_opt.physics.evaluate`; the solver's
objective must agree with that. ``optimal`` needs a bound that meets the objective of the plan. A solver
that calls a model infeasible for which a feasible plan is known contradicts itself, which the outcome says.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from eaco_opt.physics import evaluate
from eaco_opt.result import Status, StopReason
from eaco_opt.schedule import Plan

from .base import FormulationError, Outcome
from .placing import plan_of

if TYPE_CHECKING:
    from .placing import Values
    from .space import Space

AGREEMENT = 1e-6
"""Share of the objective within which a bound, a claim and an evaluation are the same."""


def without_search(space: Space, build_s: float) -> Outcome | None:
    """Return the outcome where nothing needs to be solved: no jobs, or a job that cannot end in time."""
    if not space.instance.jobs:
        plan = Plan(np.zeros(0), np.zeros(0, dtype=np.int64))
        return Outcome(
            status=Status.OPTIMAL,
            stop_reason=StopReason.FINISHED,
            plan=plan,
            objective=0.0,
            bound=0.0,
            build_s=build_s,
            message="no jobs",
        )
    hopeless = space.windows.hopeless()
    if not hopeless:
        return None
    names = ", ".join(repr(space.instance.jobs[j].name) for j in hopeless[:10])
    return Outcome(
        status=Status.INFEASIBLE,
        stop_reason=StopReason.FINISHED,
        build_s=build_s,
        message=f"no admissible placement ends in time on this grid for job(s) {names}",
    )


def verdict(
    space: Space,
    values: Values | None,
    *,
    exact: bool,
    stop_reason: StopReason,
    infeasible: bool,
    bound: float | None,
    claimed: float | None,
    rounding: float,
    start: Plan | None,
    build_s: float,
    solve_s: float,
    message: str,
) -> Outcome:
    """Return what is known after a solve.

    Parameters
    ----------
    space
        The decisions.
    values
        The solver's best values, ``None`` where it has none.
    exact
        Whether completion in the model agrees with the physics in every case.
    stop_reason
        Why it stopped.
    infeasible
        Whether it says that there is no solution.
    bound
        Its lower bound of the objective, ``None`` where it has none.
    claimed
        Its objective of ``values``; ``None`` where it is not known.
    rounding
        By how much rounding may have lowered ``claimed`` and ``bound``.
    start
        The plan it was started from; the answer is never worse.
    build_s, solve_s, message
        For the outcome.

    Raises
    ------
    FormulationError
        Physics and solver disagree about the values, or the bound lies above the objective of a feasible
        plan.
    """
    plan: Plan | None = None
    objective: float | None = None
    if values is not None:
        plan = plan_of(space, values)
        outcome = evaluate(space.instance, plan, grid_s=space.grid.slot_s)
        room = rounding + AGREEMENT * abs(outcome.objective)
        wrong = claimed is not None and abs(outcome.objective - claimed) > room
        if exact and (wrong or not outcome.feasible):
            raise FormulationError(
                f"model of instance {space.instance.name!r}: the solver claims {claimed!r}, the physics says "
                f"{outcome.objective!r}, {'feasible' if outcome.feasible else 'not feasible'}; this is an "
                "error of the model or the solver, please report it"
            )
        if outcome.feasible:
            objective = outcome.objective
        else:  # the scaled work admits a little more than the physics: no plan, but the bound holds
            plan = None
    if start is not None:
        value = evaluate(space.instance, start, grid_s=space.grid.slot_s).objective
        if objective is None or value < objective:
            plan, objective = start, value
    if infeasible:
        if plan is None:
            return Outcome(
                status=Status.INFEASIBLE,
                stop_reason=stop_reason,
                build_s=build_s,
                solve_s=solve_s,
                message=message,
            )
        return Outcome(
            status=Status.FEASIBLE,
            stop_reason=StopReason.ERROR,
            plan=plan,
            objective=objective,
            build_s=build_s,
            solve_s=solve_s,
            message=f"contradiction: {message}, but a feasible plan is known",
        )
    status = Status.UNKNOWN
    if objective is not None:
        room = rounding + AGREEMENT * abs(objective)
        status = Status.FEASIBLE
        if bound is not None:
            if bound > objective + room:
                raise FormulationError(
                    f"model of instance {space.instance.name!r}: the bound {bound!r} lies above the "
                    f"objective {objective!r} of a feasible plan; this is an error of the model or the "
                    "solver, please report it"
                )
            bound = min(bound, objective)
            if objective - bound <= room:
                status = Status.OPTIMAL
    return Outcome(
        status=status,
        stop_reason=stop_reason,
        plan=plan,
        objective=objective,
        bound=bound,
        claimed=claimed,
        build_s=build_s,
        solve_s=solve_s,
        message=message,
    )
