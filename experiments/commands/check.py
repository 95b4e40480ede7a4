"""``eaco-opt check``: does a schedule keep the rules, and what does it cost?"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated, Any

import typer

from ..console import Out, amount
from . import options as o

SHOWN = 50


def command(
    instance: o.InstanceArgument,
    schedule: Annotated[
        Path, typer.Argument(metavar="SCHEDULE", help="Schedule (JSON, or CSV of segments).")
    ],
    grid: Annotated[
        str | None,
        typer.Option(
            "--grid", metavar="STEP", help="Slot length of grid physics; continuous time without it."
        ),
    ] = None,
    alpha: o.AlphaOption = None,
    any_instance: Annotated[
        bool, typer.Option("--any-instance", help="Accept a schedule that was made for another instance.")
    ] = False,
    json: o.JsonFlag = False,
    quiet: o.QuietFlag = False,
) -> None:
    """Check a schedule with the independent checker: every rule it breaks, its energy and its times.

    Exit code 3 says that there are violations of any kind: physical, deadline or threshold.
    """
    screen = Out(json=json, quiet=quiet)
    step = None if grid is None else o.grid(grid)
    if isinstance(step, str):
        raise typer.BadParameter("--grid: the checker needs a slot length such as 5min, or none")
    from eaco_opt.checker import check_report
    from eaco_opt.io import read_schedule

    problem = o.read(instance)
    if alpha is not None:
        problem = dataclasses.replace(problem, objective=dataclasses.replace(problem.objective, alpha=alpha))
    found = read_schedule(schedule, problem, allow_other_digest=any_instance)
    with screen.progress("checking"):
        report = check_report(problem, found, grid_s=step)
    violations: list[dict[str, Any]] = [
        {
            "kind": v.kind,
            "class": v.violation_class.value,
            "job": v.job,
            "place": v.place,
            "time_s": v.time_s,
            "amount": v.amount,
            "text": v.text,
        }
        for v in report.violations
    ]
    screen.document(
        {
            "feasible": report.feasible,
            "physical_violations": report.physical_violations,
            "deadline_misses": report.deadline_misses,
            "threshold_violations": report.threshold_violations,
            "objective": report.objective,
            "energy_kwh": report.energy_j / 3.6e6,
            "avg_tpe_h": report.avg_tpe_s / 3600.0,
            "mean_jtt_h": report.mean_jtt_s / 3600.0,
            "makespan_h": report.makespan_s / 3600.0,
            "arithmetic": report.mode,
            "violations": violations,
        }
    )
    screen.say(
        ("feasible" if report.feasible else "NOT feasible")
        + f": {report.physical_violations} physical, {report.deadline_misses} deadline and "
        f"{report.threshold_violations} threshold violation(s)"
    )
    screen.say(
        f"energy {amount(report.energy_j / 3.6e6)} kWh, average time per epoch "
        f"{amount(report.avg_tpe_s / 3600.0)} h, "
        f"objective {amount(report.objective)} ({report.mode} arithmetic)"
    )
    if violations:
        rows = [
            [v["class"], v["kind"], v["job"], v["place"], f"{v['time_s'] / 3600.0:,.4f}", v["text"]]
            for v in violations[:SHOWN]
        ]
        screen.table(["class", "kind", "job", "place", "time [h]", "what"], rows, left=6)
        if len(violations) > SHOWN:
            screen.say(f"and {len(violations) - SHOWN} more; --json lists them all")
        raise typer.Exit(3)
