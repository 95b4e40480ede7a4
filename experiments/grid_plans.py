"""Plans that exact methods find on a grid of slots, carried out in continuous time.

Exact methods look for the best static schedule on a grid (docs/model.md section 5). In a comparison in
continuous time their plan, every job's GPU set and start, is worked out again there: runs are shorter,
because nothing is rounded up to slots. What was proved on the grid is no proof in continuous time, so such a
result is ``feasible`` and has no bound.
"""

from __future__ import annotations

import dataclasses

from eaco_opt.errors import ScheduleError
from eaco_opt.instance import Instance
from eaco_opt.physics import evaluate, plan_schedule
from eaco_opt.result import Result, Status
from eaco_opt.schedule import Placement, Plan
from formulations.grid import STEPS_S, automatic_slot_s
from solvers.bruteforce import TooManyPlansError, estimate_plans
from solvers.methods.auto import TINY_PLANS
from solvers.verify import verify

COARSER = 4.0
"""Longest slot of :func:`optimal_steps_s` over the automatic one, which cuts the shortest run into four."""


def step_text(seconds: float) -> str:
    """Return a slot length as the command line takes it, e.g. ``15min``."""
    for unit_s, unit in ((3600.0, "h"), (60.0, "min")):
        if seconds >= unit_s and seconds % unit_s == 0.0:
            return f"{seconds / unit_s:g}{unit}"
    return f"{seconds:g}s"


def optimal_steps_s(instance: Instance) -> list[float]:
    """Return the slot lengths [s] on which an optimum is looked for in a comparison, the first one first.

    The automatic step, where brute force would do on it. Otherwise the longest step of the automatic rule's
    list that is at most :data:`COARSER` times as long: a plan is carried out in continuous time anyway, where
    only the starts are rounded, and proofs take many times as long on shorter slots. The automatic step comes
    second, for instances that have no plan on longer slots.

    Features of the instance alone decide, not the speed of the machine, so that a comparison shows the same
    step everywhere.
    """
    fine_s = automatic_slot_s(instance)
    try:
        few = estimate_plans(instance, fine_s) <= TINY_PLANS
    except TooManyPlansError:
        few = False
    if few:
        return [fine_s]
    return sorted({max(s for s in STEPS_S if s <= COARSER * fine_s), fine_s}, reverse=True)


def in_continuous_time(instance: Instance, result: Result) -> Result | None:
    """Return the result of a grid with its plan worked out in continuous time.

    Parameters
    ----------
    instance
        The problem.
    result
        With a static schedule on a grid.

    Returns
    -------
    Result or None
        ``None`` where the plan breaks a rule in continuous time: a busy period that ends earlier may leave
        no time to wake the node up again, and a job may be late that its company made faster.

    Raises
    ------
    InternalError
        The checker does not confirm the schedule.
    """
    if result.schedule is None:
        return None
    plan = Plan.of(
        instance, {s.job: Placement(start_s=s.start_s, gpus=s.gpus) for s in result.schedule.segments}
    )
    try:
        evaluation = evaluate(instance, plan)
    except ScheduleError:
        return None
    if not evaluation.feasible:
        return None
    schedule = dataclasses.replace(
        plan_schedule(instance, plan, method=result.method), instance_digest=result.instance_digest
    )
    verify(result.method, instance, schedule, evaluation)
    return dataclasses.replace(
        result, schedule=schedule, evaluation=evaluation, status=Status.FEASIBLE, bound=None, curve=()
    )
