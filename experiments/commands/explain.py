"""``eaco-opt explain``: why has an instance no plan, and what would help?"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated, Any

import typer

from ..console import Out, amount
from . import options as o

KEYS = (
    "feasible", "in_time", "slot_s", "conflicts", "complete", "delays", "delays_proved", "ways", "objective",
    "schedule", "stop_reason", "seconds", "notes", "digest",
)  # fmt: skip
"""Keys of the document."""


def command(
    instance: o.InstanceArgument,
    grid: Annotated[
        str | None,
        typer.Option(
            "--grid",
            metavar="STEP|auto",
            help="Explain what holds on slots of this length (auto: that of exact methods); without it, what "
            "holds in continuous time.",
        ),
    ] = None,
    time_limit: o.TimeLimitOption = "5min",
    threads: Annotated[int, typer.Option("--threads", min=1, metavar="N", help="Threads of the solver.")] = 1,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="SCHEDULE", help="File for a schedule that keeps all rules, if any."),
    ] = None,
    seed: o.SeedOption = 0,
    force: o.ForceFlag = False,
    json: o.JsonFlag = False,
    quiet: o.QuietFlag = False,
) -> None:
    """Say which jobs cannot all be served, by how much they would have to give, and what else would help.

    Exit code 4 says that the limit was reached with nothing found.
    """
    screen = Out(json=json, quiet=quiet)
    limit = None if time_limit is None else o.seconds(time_limit)
    step = None if grid is None else o.grid(grid)
    from eaco_opt.io import write_schedule
    from eaco_opt.io_digest import instance_digest
    from eaco_opt.output import refuse_existing
    from solvers.explain import explain

    if out is not None:
        refuse_existing(out, force=force)
    problem = o.read(instance)
    screen.warn_of_compiling()
    with screen.progress("explaining") as bar:
        found = explain(
            problem,
            grid_s=step,
            time_limit_s=limit,
            threads=threads,
            seed=seed,
            progress=lambda text: bar.at(0.0, text=text),
        )
    if out is not None and found.witness is not None:
        write_schedule(out, found.witness, problem, force=force)
    document: dict[str, Any] = {
        "feasible": found.feasible,
        "in_time": found.in_time,
        "slot_s": found.slot_s,
        "conflicts": [dataclasses.asdict(c) for c in found.conflicts],
        "complete": found.complete,
        "delays": [{"job": job, "amount": hours, "unit": "h"} for job, hours in found.delays],
        "delays_proved": found.delays_proved,
        "ways": [dataclasses.asdict(w) for w in found.ways],
        "objective": found.objective,
        "schedule": str(out) if out is not None and found.witness is not None else None,
        "stop_reason": found.stop_reason,
        "seconds": found.seconds,
        "notes": list(found.notes),
        "digest": instance_digest(problem),
    }
    screen.document(document)
    _show(screen, document)
    if found.feasible is None and not found.conflicts:
        raise typer.Exit(4)


def _show(screen: Out, d: dict[str, Any]) -> None:
    where = "in continuous time" if d["in_time"] else f"on slots of {d['slot_s'] / 3600.0:g} h"
    answer = {True: "feasible", False: "NOT feasible", None: "not known to be feasible"}[d["feasible"]]
    screen.say(f"{answer} {where}")
    if d["objective"] is not None:
        screen.say(f"a schedule that keeps all rules has the objective {amount(d['objective'])}")
    for i, c in enumerate(d["conflicts"], start=1):
        size = "" if c["amount"] is None else f", by {amount(c['amount'])} {c['unit']}"
        screen.say(f"{i}. {c['cause']}{size}: {c['text']}")
    if d["conflicts"] and d["complete"]:
        screen.say("The other jobs can all be served.")
    if d["delays"]:
        least = "the least in total" if d["delays_proved"] else "not proved to be the least"
        shown = ", ".join(f"{x['job']} by {amount(x['amount'])} h" for x in d["delays"])
        screen.say(f"All jobs can be served if these deadlines are later ({least}): {shown}")
    if d["ways"]:
        screen.say("or, each by itself: " + "; ".join(w["text"] for w in d["ways"]))
    for note in d["notes"]:
        screen.note(note)
    if d["stop_reason"] != "finished":
        screen.note(f"stopped by: {d['stop_reason']}; more may be found with more time")
