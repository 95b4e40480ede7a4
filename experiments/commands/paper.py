"""``eaco-opt paper``: the EaCO paper's claims and tables, recomputed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ..console import Out, amount, percent
from . import options as o
from .paper_scale import scale_command


def app() -> typer.Typer:
    """Return the group of commands."""
    group = typer.Typer(
        no_args_is_help=True, rich_markup_mode=None, help="The EaCO paper's claims and tables, recomputed."
    )
    group.command("audit")(audit_command)
    group.command("tables")(tables_command)
    group.command("scale")(scale_command)
    return group


def _numbers(value: Any) -> str:
    values = value if isinstance(value, list) else [value]
    return " / ".join("-" if x is None else f"{x:.4g}" for x in values)


def audit_command(json: o.JsonFlag = False, quiet: o.QuietFlag = False) -> None:
    """Recompute every claim of the paper that its own tables determine."""
    screen = Out(json=json, quiet=quiet)
    from instances.paper_audit import audit

    rows = [claim.row() for claim in audit()]
    screen.document({"claims": rows})
    words = {True: "yes", False: "NO", None: "-"}
    table = [
        [
            str(r["id"]),
            str(r["claim"]),
            str(r["unit"]),
            _numbers(r["claimed"]),
            "-" if r["recomputed"] is None else _numbers(r["recomputed"]),
            words[r["agrees"]],  # type: ignore[index]
        ]
        for r in rows
    ]
    screen.table(["id", "claim", "unit", "claimed", "recomputed", "agrees"], table, left=3)
    if not quiet:
        screen.say("\nHow each was recomputed, or why it cannot be:")
        for r in rows:
            screen.say(f"  {r['id']}: {r['text']}")


def tables_command(
    no_lookup: Annotated[
        bool,
        typer.Option("--no-lookup", help="Model the power of measured sets too, instead of looking it up."),
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="Folder for the instance and schedule of each row."),
    ] = None,
    force: o.ForceFlag = False,
    json: o.JsonFlag = False,
    quiet: o.QuietFlag = False,
) -> None:
    """Run the job sets of the paper's Tables 1 and 3 through the physics."""
    screen = Out(json=json, quiet=quiet)
    from eaco_opt.io import instance_digest, write_instance, write_schedule
    from eaco_opt.physics import evaluate
    from eaco_opt.schedule import Schedule
    from instances.paper_audit import tables
    from solvers.verify import verify

    from ..tables import prepare_folder

    if out is not None:
        prepare_folder(out, force=force)
    documents: list[dict[str, Any]] = []
    table: list[list[str]] = []
    for row in tables(lookup=not no_lookup):
        verify(row.job_set, row.instance, row.schedule, evaluate(row.instance, row.schedule))
        files: list[str | None] = [None, None]
        if out is not None:
            instance, schedule = out / f"{row.job_set}.instance.json", out / f"{row.job_set}.schedule.json"
            write_instance(instance, row.instance, force=force)
            named = Schedule(
                segments=row.schedule.segments,
                schedule_class=row.schedule.schedule_class,
                method="paper tables",
                instance_digest=instance_digest(row.instance),
            )
            write_schedule(schedule, named, row.instance, force=force)
            files = [str(instance), str(schedule)]
        documents.append(
            {
                "job_set": row.job_set,
                "paper_energy_kwh": row.paper_energy_kwh,
                "energy_kwh": row.energy_kwh,
                "paper_mean_jct_h": row.paper_mean_jct_h,
                "mean_jct_h": row.mean_jct_h,
                "instance": files[0],
                "schedule": files[1],
            }
        )
        table.append(
            [
                row.job_set,
                amount(row.paper_energy_kwh, 4),
                amount(row.energy_kwh, 4),
                percent(100.0 * (row.energy_kwh / row.paper_energy_kwh - 1.0)),
                amount(row.paper_mean_jct_h, 4),
                amount(row.mean_jct_h, 4),
                percent(100.0 * (row.mean_jct_h / row.paper_mean_jct_h - 1.0)),
            ]
        )
    screen.document({"rows": documents, "power_lookup": not no_lookup})
    heads = ["jobs", "energy [kWh]: paper", "here", "off", "mean JCT [h]: paper", "here", "off"]
    screen.table(heads, table)
    if out is not None:
        screen.say(f"written to {out}; confirm a row with `eaco-opt check INSTANCE SCHEDULE`")
