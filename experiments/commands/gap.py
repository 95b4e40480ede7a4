"""``eaco-opt gap``: how far methods are from the optimum on a grid."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Annotated, Any

import typer

from ..console import Out, amount, duration_text
from . import options as o


def command(
    instances: Annotated[list[Path], typer.Argument(metavar="INSTANCE...", help="Files, or library:NAME.")],
    methods: Annotated[
        str, typer.Option("--methods", metavar="A,B", help="Names, or LABEL=name.")
    ] = "fifo,fifo_packed,gandiva,eaco",
    schedule: Annotated[
        list[Path] | None,
        typer.Option("--schedule", metavar="FILE", help="Static schedule of your own, with starts on slots."),
    ] = None,
    alpha: o.AlphaOption = None,
    exact: Annotated[
        str, typer.Option("--exact", metavar="METHOD|auto", help="Method that gives the optimum or a bound.")
    ] = "auto",
    time_limit: Annotated[
        str, typer.Option("--time-limit", metavar="DURATION", help="Limit of each exact solve.")
    ] = "60s",
    grid: Annotated[
        str | None,
        typer.Option(
            "--grid", metavar="STEP|auto", help="Slot length; that of grid-optimal in compare without it."
        ),
    ] = None,
    threads: Annotated[int, typer.Option("--threads", min=1, metavar="N", help="Threads of the solver.")] = 1,
    energy: Annotated[
        bool, typer.Option("--energy", help="Find the least energy, too: its share of the attainable saving.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Folder for gap.csv, one row a method.")
    ] = None,
    seed: o.SeedOption = 0,
    force: o.ForceFlag = False,
    json: o.JsonFlag = False,
    quiet: o.QuietFlag = False,
) -> None:
    """Compare methods with the proved optimum, or a bound, on slots and within the static class.

    Instances that are infeasible, or of which nothing is proved in time, have rows that say so.
    """
    screen = Out(json=json, quiet=quiet)
    limit = o.seconds(time_limit)
    step = None if grid is None else o.grid(grid)
    from eaco_opt.errors import EacoError
    from eaco_opt.io import read_schedule
    from eaco_opt.output import refuse_existing

    from ..gap import COLUMNS, gap_study
    from ..tables import csv_text

    if grid == "none":
        raise EacoError("gap: gaps are measured on slots, so --grid needs a step or auto, not none")
    target = None
    if out is not None:
        if out.exists() and not out.is_dir():
            raise EacoError(f"{out}: expected a folder, found a file; name another folder")
        out.mkdir(parents=True, exist_ok=True)
        target = out / "gap.csv"
        refuse_existing(target, force=force)
    named = [(o.label(path), o.read(path)) for path in instances]
    if schedule and len(named) != 1:
        raise EacoError(f"gap: --schedule belongs to one instance, got {len(named)}; give them one by one")
    own = [
        (path.name.split(".")[0] or path.name, read_schedule(path, named[0][1])) for path in schedule or []
    ]
    screen.warn_of_compiling()
    with screen.progress("gap", total=1) as bar:
        rows = gap_study(
            named,
            methods,
            schedules=own,
            alpha=alpha,
            exact=exact,
            time_limit_s=limit,
            grid_s=step,
            seed=seed,
            threads=threads,
            energy=energy,
            progress=lambda text, done, total: bar.at(done, total, text),
        )
    if target is not None:
        from eaco_opt.output import write_text

        table = csv_text(COLUMNS, [[row[c] for c in COLUMNS] for row in rows])
        write_text(target, table, force=force)
        screen.note(f"wrote {target}")
    screen.document({"rows": rows})
    _show(screen, rows)
    if all(row["objective"] is None for row in rows):
        raise typer.Exit(3 if all(row["status"] == "infeasible" for row in rows) else 4)


def _gap(value: float | None, kind: str | None) -> str:
    if value is None:
        return "-"
    # Rounding may put a proved optimum a hair on either side of 0.
    text = f"{100.0 * value if abs(value) > 5e-7 else 0.0:.2f} %"
    return f"<= {text}" if kind == "bound" else text


def _share(value: float | None) -> str:
    return "-" if value is None else f"{100.0 * value:.1f} %"


def _show(screen: Out, rows: list[dict[str, Any]]) -> None:
    from ..grid_plans import step_text

    energy = any(row["least_energy_kwh"] is not None for row in rows)
    heads = (
        "method", "status", "objective", "gap", "relaxed gap", "of attainable saving", "of sharing's saving",
        *(["of energy's saving"] if energy else []), "misses", "time",
    )  # fmt: skip
    names = list(dict.fromkeys(row["instance"] for row in rows))
    for name in names:
        mine = [row for row in rows if row["instance"] == name]
        first = mine[0]
        kind = {"optimum": "the optimum", "bound": "a lower bound"}.get(first["reference_kind"] or "")
        against = f"against {kind} {amount(first['reference'], 6)}" if kind else "nothing proved in time"
        if first["status"] == "infeasible":
            against = "no plan keeps all rules (`eaco-opt explain INSTANCE` says why)"
        table = [
            [
                row["method"],
                row["status"],
                amount(row["objective"], 6),
                _gap(row["gap"], row["reference_kind"]),
                _gap(row["gap_relaxed"], row["relaxed_reference_kind"]),
                _share(row["attained_share"]),
                _share(row["attained_share_no_sharing_ref"]),
                *([_share(row["energy_attained_share"])] if energy else []),
                "-" if row["deadline_misses"] is None else str(row["deadline_misses"]),
                "-" if row["seconds"] is None else duration_text(row["seconds"]),
            ]
            for row in mine
        ]
        screen.table(heads, table, title=f"{name}: slots of {step_text(first['slot_s'])}, {against}")
        for row in mine:
            if row["objective"] is None and row["message"]:
                screen.say(f"{row['method']}: {row['message']}")
        screen.say()
    if screen.quiet:
        return
    text = (
        "Static class, on slots. Attainable saving: from exclusive execution on the same slots to the "
        "optimum or bound; sharing's: from the best schedule found without sharing. Relaxed: without the "
        "deadlines that were missed, and with U_threshold as high as was used. <=: against a lower bound."
    )
    screen.say(textwrap.fill(text, 110, break_on_hyphens=False))
