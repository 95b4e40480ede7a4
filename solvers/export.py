"""The model of ``milp`` as a file for other programmes, and the solution that they bring back."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from eaco_opt.io_digest import instance_digest
from eaco_opt.physics import evaluate, plan_schedule
from eaco_opt.result import Result, Status, StopReason
from formulations.base import FormulationError
from formulations.grid import make_grid

from .base import options_text, versions
from .exact import grid_of

if TYPE_CHECKING:
    from eaco_opt.instance import Instance
    from formulations.milp_arrays import MilpArraysModel


def _model(instance: Instance, grid_s: float | str | None) -> MilpArraysModel:
    from formulations.milp_arrays import MilpArraysFormulation

    grid = make_grid(instance, grid_of("method 'milp'", grid_s))
    return MilpArraysFormulation().build(instance, grid)


def export_model(
    instance: Instance, path: Path | str, *, grid_s: float | str | None = None, force: bool = False
) -> None:
    """Write the model of ``milp`` to a file, ``.mps`` or ``.lp`` by its name.

    Parameters
    ----------
    instance, grid_s
        The problem, and the slot length [s] (the automatic rule without it).
    path
        The file.
    force
        Replace a file that exists.

    Raises
    ------
    OutputExistsError
        The file exists.
    FormulationError
        The name has another ending, there is nothing to solve, or a feature is not covered.
    """
    from eaco_opt.output import refuse_existing

    target = Path(path)
    refuse_existing(target, force=force)
    model = _model(instance, grid_s)
    if target.suffix not in (".mps", ".lp"):
        model.refuse_suffix(target)
    if not model.searched:
        raise FormulationError(
            f"export: instance {instance.name!r} leaves nothing to solve: it has no jobs, or one that "
            "cannot end in time; `eaco-opt explain` says which"
        )
    model.write(target)


def import_solution(instance: Instance, path: Path | str, *, grid_s: float | str | None = None) -> Result:
    """Return the result of a solution of an exported model, priced by the physics; there is no bound.

    Raises
    ------
    FormulationError
        The file has no value for some job, or the values are no schedule.
    """
    model = _model(instance, grid_s)
    found = model.import_solution(path)
    digest = instance_digest(instance)
    slot_s = model.grid.slot_s
    schedule = evaluation = None
    if found.plan is not None:
        schedule = plan_schedule(instance, found.plan, grid_s=slot_s, method="milp")
        evaluation = evaluate(instance, found.plan, grid_s=slot_s)
    return Result(
        method="milp",
        schedule=schedule,
        evaluation=evaluation,
        status=Status.UNKNOWN if schedule is None else Status.FEASIBLE,
        stop_reason=StopReason.FINISHED,
        instance_digest=digest,
        options=options_text({"grid_s": slot_s, "solution": Path(path).name}),
        versions=versions(),
        message=found.message,
    )
