"""``eaco-opt solve``: one method on one instance."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..console import Out, amount, duration_text
from . import options as o

if TYPE_CHECKING:
    from solvers.base import SearchProgress

KEYS = (
    "method", "class", "status", "stop_reason", "objective", "bound", "gap", "energy_kwh", "avg_tpe_h",
    "makespan_h",
    "mean_jct_h", "mean_wait_h", "mean_jtt_h", "deadline_misses", "build_s", "solve_s", "seed", "digest",
)  # fmt: skip
"""Keys that the document always has."""


def command(
    instance: o.InstanceArgument,
    method: Annotated[str, typer.Option("--method", "-m", metavar="NAME", help="See `eaco-opt methods`.")],
    alpha: o.AlphaOption = None,
    grid: Annotated[
        str | None,
        typer.Option(
            "--grid",
            metavar="STEP|auto|none",
            help="Slot length of grid physics; auto for exact methods and none for others without it.",
        ),
    ] = None,
    time_limit: o.TimeLimitOption = None,
    gap: Annotated[
        float | None,
        typer.Option("--gap", min=0.0, metavar="SHARE", help="Relative gap to stop at (exact methods)."),
    ] = None,
    threads: Annotated[
        int, typer.Option("--threads", min=1, metavar="N", help="Most threads (exact methods).")
    ] = 1,
    start: Annotated[
        Path | None,
        typer.Option(
            "--start", metavar="SCHEDULE", help="Schedule to start from (methods that improve one)."
        ),
    ] = None,
    deterministic: Annotated[
        bool, typer.Option("--deterministic", help="The same answer on every run; policies always give it.")
    ] = False,
    option: Annotated[
        list[str] | None,
        typer.Option(
            "--option", "-o", metavar="KEY=VALUE", help="Option of the method; may be given several times."
        ),
    ] = None,
    backend: Annotated[
        str | None,
        typer.Option(
            "--backend", metavar="NAME", help="Solver behind the method milp; see `eaco-opt methods`."
        ),
    ] = None,
    export: Annotated[
        Path | None,
        typer.Option(
            "--export", metavar="FILE", help="Write the model of milp before solving it (.mps or .lp)."
        ),
    ] = None,
    history: o.HistoryOption = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="SCHEDULE", help="File for the schedule (.json or .csv).")
    ] = None,
    seed: o.SeedOption = 0,
    force: o.ForceFlag = False,
    json: o.JsonFlag = False,
    quiet: o.QuietFlag = False,
) -> None:
    """Run one method on one instance, print what it costs, and keep the schedule.

    Exit code 3 says that the instance is proved infeasible, 4 that a limit was reached with nothing found.
    """
    screen = Out(json=json, quiet=quiet)
    chosen = o.method_options(option, method)
    other = [name for name in chosen if name != method]
    if other:
        raise typer.BadParameter(f"--option: {other[0]!r} is not the method that is run, {method!r}")
    if backend is not None:
        if method != "milp":
            raise typer.BadParameter(f"--backend belongs to the method milp, not to {method!r}")
        chosen.setdefault(method, {})["backend"] = backend
    if export is not None and method != "milp":
        raise typer.BadParameter(f"--export belongs to the method milp, not to {method!r}")
    limit = None if time_limit is None else o.seconds(time_limit)
    from eaco_opt.io import read_schedule, write_schedule
    from eaco_opt.output import refuse_existing
    from eaco_opt.result import Status, StopReason
    from solvers import solve
    from solvers.base import METHODS, SearchProgress

    if out is not None:
        refuse_existing(out, force=force)
    exact = method in METHODS and METHODS.get(method)().exact
    step = o.grid(grid) if grid is not None else None
    if exact and step is None:
        step = "auto" if grid is None else "none"
    problem = o.read(instance)
    if alpha is not None:
        problem = dataclasses.replace(problem, objective=dataclasses.replace(problem.objective, alpha=alpha))
    first = None if start is None else read_schedule(start, problem)
    if export is not None:
        from solvers.export import export_model

        export_model(problem, export, grid_s=step, force=force)
    screen.warn_of_compiling()
    with screen.progress(method, total=None if exact else len(problem.jobs)) as bar:
        result = solve(
            problem,
            method,
            time_limit_s=limit,
            gap=gap,
            threads=threads,
            seed=seed,
            start=first,
            deterministic=deterministic,
            grid_s=step,
            options=chosen.get(method),
            history=o.history_of(history, problem),
            progress=lambda at: (
                bar.at(0, text=search_text(method, at))
                if isinstance(at, SearchProgress)
                else bar.at(at.done, at.jobs)
            ),
        )
    if out is not None and result.schedule is not None:
        write_schedule(out, result.schedule, problem, force=force)
    row = result.row()
    document: dict[str, Any] = {key: row.get(key) for key in KEYS} | row
    document |= {
        "options": dict(result.options),
        "message": result.message,
        "reproducible": result.reproducible,
        "curve": [
            {"seconds": seconds, "objective": objective, "bound": bound}
            for seconds, objective, bound in result.curve
        ],
        "versions": dict(result.versions),
        "schedule": None,
    }
    if result.evaluation is not None:
        document["grid_s"] = result.evaluation.grid_s
    if out is not None and result.schedule is not None:
        document["schedule"] = str(out)
    screen.document(document)
    _show(screen, document)
    if result.status is Status.INFEASIBLE:
        raise typer.Exit(3)
    if result.schedule is None:
        codes = {StopReason.INTERRUPTED: 130, StopReason.ERROR: 1}
        raise typer.Exit(codes.get(result.stop_reason, 4))


def search_text(method: str, at: SearchProgress) -> str:
    """Return how far a search has come, for a progress line."""
    parts = [f"{method}, {at.phase}"]
    parts += [
        f"{name} {amount(x)}" for name, x in (("best", at.objective), ("bound", at.bound)) if x is not None
    ]
    if at.gap is not None:
        parts.append(f"gap {100.0 * at.gap:.2f} %")
    return "  ".join(parts)


def _show(screen: Out, d: dict[str, Any]) -> None:
    units = (
        ("objective", "objective", ""),
        ("lower bound", "bound", ""),
        ("energy", "energy_kwh", " kWh"),
        ("average time per epoch", "avg_tpe_h", " h"),
        ("mean JCT (running)", "mean_jct_h", " h"),
        ("mean wait", "mean_wait_h", " h"),
        ("mean JTT (wait + running)", "mean_jtt_h", " h"),
        ("makespan", "makespan_h", " h"),
    )
    rows = [["status", f"{d['status']} ({d['stop_reason']})"], ["class of schedule", d["class"] or "-"]]
    rows += [[text, amount(d[key]) + unit] for text, key, unit in units if d[key] is not None]
    if d["gap"] is not None:
        rows.append(["gap", f"{100.0 * d['gap']:.2f} %"])
    if d["deadline_misses"] is not None:
        rows.append(["deadline misses", str(d["deadline_misses"])])
    if d["message"]:
        rows.append(["solver", d["message"]])
    rows.append(["time", duration_text(d["build_s"] + d["solve_s"])])
    if d["schedule"]:
        rows.append(["schedule", d["schedule"]])
    screen.table(["", d["method"]], rows)
    if d["schedule"] is None and d["class"] is not None:
        screen.note("the schedule was not kept; give --out FILE")
