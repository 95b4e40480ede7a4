"""``eaco-opt certify``: a good schedule and a bound on all schedules, side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ..console import Out, amount
from . import options as o


def command(
    instance: o.InstanceArgument,
    methods: Annotated[
        str,
        typer.Option(
            "--methods", metavar="A,B", help="What to set beside the search; it starts from the best."
        ),
    ] = "fifo,fifo_packed,gandiva,eaco",
    schedule: o.ScheduleOption = None,
    alpha: o.AlphaOption = None,
    time_limit: Annotated[
        str, typer.Option("--time-limit", metavar="DURATION", help="Wall-clock limit of search and bound.")
    ] = "5min",
    threads: Annotated[
        int | None, typer.Option("--threads", min=1, metavar="N", help="Threads of the search; all cores.")
    ] = None,
    option: Annotated[
        list[str] | None,
        typer.Option("--option", "-o", metavar="KEY=VALUE", help="Option of the search; may be given again."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Folder for tables, schedules and the figure.")
    ] = None,
    seed: o.SeedOption = 0,
    force: o.ForceFlag = False,
    json: o.JsonFlag = False,
    quiet: o.QuietFlag = False,
) -> None:
    """Search for a good schedule, bound all schedules from below, and print every method's certified gap.

    Exit code 3 says that no schedule keeps all rules, 4 that nothing was found in time.
    """
    screen = Out(json=json, quiet=quiet)
    limit = o.seconds(time_limit)
    from eaco_opt.io import read_schedule

    from ..certify import SEARCH, certify
    from ..tables import prepare_folder, write_certified

    chosen = o.method_options(option, default=SEARCH).get(SEARCH, {})
    if out is not None:
        prepare_folder(out, force=force)
    problem = o.read(instance)
    own = [(path.name.split(".")[0] or path.name, read_schedule(path, problem)) for path in schedule or []]
    screen.warn_of_compiling()
    with screen.progress("certify", total=limit) as bar:

        def tell(phase: str, objective: float | None, lower: float | None) -> None:
            best = "-" if objective is None else amount(objective)
            least = "-" if lower is None else amount(lower)
            bar.at(0.0, text=f"{phase}: best {best}, bound {least}")

        found = certify(
            problem,
            methods,
            schedules=own,
            alpha=alpha,
            time_limit_s=limit,
            seed=seed,
            threads=threads,
            options=chosen,
            progress=tell,
        )
    document: dict[str, Any] = found.document()
    if out is not None:
        written = write_certified(found, out, force=force)
        document["files"] = [path.relative_to(out).as_posix() for path in written]
    screen.document(document)
    if found.bound.infeasible:
        screen.say(f"no schedule keeps all rules: {found.bound.message}")
    _show(screen, document)
    if out is not None:
        screen.say(f"\nwritten to {out}")
    if found.bound.infeasible:
        raise typer.Exit(3)
    if found.best_objective is None:
        raise typer.Exit(4)


def _percent(value: float | None, digits: int = 2) -> str:
    return "-" if value is None else f"{100.0 * value:.{digits}f} %"


def _show(screen: Out, d: dict[str, Any]) -> None:
    if screen.json:
        return
    header = [
        "method",
        "objective",
        "certified gap",
        "saving attained",
        "energy [kWh]",
        "energy saving attained",
    ]
    mixed = d["no_sharing_objective"] is not None
    if mixed:
        header.insert(4, "... over no sharing")
    table = []
    for row in d["rows"]:
        gap = _percent(row["certified_gap"])
        if row["gap_relaxed"] is not None:
            gap = f"{_percent(row['gap_relaxed'])} (relaxed)"
        cells = [row["method"], amount(row["objective"]), gap, _percent(row["attained_share"], 1)]
        if mixed:
            cells.append(_percent(row["attained_share_no_sharing_ref"], 1))
        table.append([*cells, amount(row["energy_kwh"]), _percent(row["energy_attained_share"], 1)])
    screen.table(header, table)
    if screen.quiet or d["bound"] is None:
        return
    state = "" if d["bound_converged"] else ", not converged: more time would raise it"
    screen.say(
        f"\nNo schedule of any class has an objective below {amount(d['bound'])} or draws less than "
        f"{amount(d['energy_bound_kwh'])} kWh\n({d['bound_kind']}{state}; worked out anew in exact "
        f"arithmetic)."
    )
    screen.say("Savings are from exclusive execution (docs/model.md section 10); relaxed gaps: section 3.")
