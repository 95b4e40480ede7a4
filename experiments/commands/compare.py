"""``eaco-opt compare``: several methods on one instance, side by side."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..console import Out, amount, count, duration_text, percent
from . import options as o

if TYPE_CHECKING:
    from ..compare import Comparison, Row, Step

LINES = (
    ("energy", "kWh", "energy_kwh"),
    ("average time per epoch", "h", "avg_tpe_h"),
    ("objective", "", "objective"),
    ("mean JCT (running)", "h", "mean_jct_h"),
    ("mean wait", "h", "mean_wait_h"),
    ("mean JTT (wait + running)", "h", "mean_jtt_h"),
    ("makespan", "h", "makespan_h"),
    ("mean active nodes", "", "mean_active_nodes"),
    ("peak active nodes", "", "peak_active_nodes"),
    ("node-hours", "h", "node_hours"),
)
"""Lines of the table: what, unit, key."""


def command(
    instance: Annotated[
        Path | None,
        typer.Argument(
            metavar="INSTANCE", help="Instance file or library:NAME; the built-in instance without it."
        ),
    ] = None,
    methods: Annotated[
        str | None,
        typer.Option(
            "--methods",
            metavar="A,B",
            help="Names, or LABEL=name to list one method twice; fifo,fifo_packed,gandiva,eaco and, up to 40 "
            "jobs, grid-optimal (the plan proved optimal on a grid, tried for 60 s) without it.",
        ),
    ] = None,
    alpha: o.AlphaOption = None,
    schedule: o.ScheduleOption = None,
    time_limit: o.TimeLimitOption = None,
    impossible: Annotated[
        str,
        typer.Option(
            "--impossible",
            metavar="error|drop",
            help="Jobs that can run nowhere or keep no deadline: name them and stop, or leave them out for "
            "all.",
        ),
    ] = "error",
    option: o.OptionOption = None,
    grid: o.GridOption = None,
    history: o.HistoryOption = None,
    bound: Annotated[
        bool, typer.Option("--bound/--no-bound", help="Bound all schedules from below, for the gaps.")
    ] = True,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Folder for tables, schedules and figures.")
    ] = None,
    seed: o.SeedOption = 0,
    force: o.ForceFlag = False,
    json: o.JsonFlag = False,
    quiet: o.QuietFlag = False,
) -> None:
    """Run several methods on one instance and print energy, times and misses, each also relative to FIFO.

    Every schedule has passed the independent checker. Missed deadlines are counted; they do not change the
    exit code.
    """
    screen = Out(json=json, quiet=quiet)
    chosen = o.method_options(option)
    limit = None if time_limit is None else o.seconds(time_limit)
    step = None if grid is None else o.grid(grid)
    from ..compare import compare
    from ..tables import prepare_folder, write_comparison

    if out is not None:
        prepare_folder(out, force=force)
    if instance is None:
        from instances import builtin_instance

        problem = builtin_instance()
        screen.note("no INSTANCE given: the built-in instance is compared")
    else:
        problem = o.read(instance)
    from eaco_opt.io import read_schedule

    own = [(path.name.split(".")[0] or path.name, read_schedule(path, problem)) for path in schedule or []]
    screen.warn_of_compiling()
    with screen.progress("preparing", total=len(problem.jobs)) as bar:

        def hook(at: Step) -> None:
            bar.at(at.done, at.jobs, f"{at.method} ({at.row + 1} of {at.rows})")

        result = compare(
            problem,
            methods,
            alpha=alpha,
            seed=seed,
            schedules=own,
            time_limit_s=limit,
            impossible=impossible,
            options=chosen,
            grid_s=step,
            history=o.history_of(history, problem),
            bounds=bound,
            progress=hook,
        )
    _show(screen, result)
    document: dict[str, Any] = result.document() | {"history": history}
    if history is not None:
        screen.note(f"policies believe the slowdowns of {history}, not the true ones")
    if out is not None:
        with screen.progress("writing") as bar:
            written = write_comparison(result, out, force=force, progress=lambda name: bar.at(0, None, name))
        document["files"] = [path.relative_to(out).as_posix() for path in written]
        if not quiet:
            screen.say(f"\nwritten to {out}: {len(written)} files, among them rows.csv and figures/*.pdf")
    screen.document(document)
    if all(row.result.schedule is None for row in result.rows):
        raise typer.Exit(4)


def _cell(result: Comparison, row: Row, key: str) -> str:
    value = row.values()[key]
    text = f"{value}" if isinstance(value, int) else amount(value)
    if row.method == result.relative_to or value is None:
        return text
    return f"{text}  {percent(result.relative(row)[key]):>8}"


def _gap(values: dict[str, Any]) -> str:
    """Return the certified gap; of rows that broke a rule, the one to the bound without it."""
    for key, mark in (("gap", ""), ("gap_relaxed", " (relaxed)")):
        if values[key] is not None:
            return f"{100.0 * values[key]:.2f} %{mark}"
    return "-"


def _show(screen: Out, result: Comparison) -> None:
    """Print the table and what it depends on."""
    from ..grid_plans import step_text

    if screen.json:
        return
    problem, rows = result.instance, result.rows
    screen.say(
        f"{problem.name}: {count(len(problem.jobs), 'job')} on {count(len(problem.cluster.nodes), 'node')} "
        f"with {count(problem.cluster.total_gpus(), 'GPU')}"
    )
    table: list[list[str]] = []
    for text, unit, key in LINES:
        label = f"{text} [{unit}]" if unit else text
        table.append([label, *(_cell(result, row, key) for row in rows)])
    values = [row.values() for row in rows]

    def line(label: str, cells: list[str]) -> None:
        table.append([label, *cells])

    def share(value: float | None) -> str:
        return "-" if value is None else f"{100.0 * value:.1f} %"

    missed = [v["deadline_misses"] for v in values]
    line(
        "deadline misses",
        ["-" if m is None else f"{m} of {v['jobs']}" for m, v in zip(missed, values, strict=True)],
    )
    if any(v["threshold_excess"] for v in values):
        line("load above U_threshold, at most", [amount(v["threshold_excess"], 3) for v in values])
    if any(row.rejected for row in rows):
        line("rejected jobs", [str(len(row.rejected)) for row in rows])
    if any(v["bound"] is not None for v in values):
        line("above the lower bound", [_gap(v) for v in values])
    line("energy in sets not measured", [share(v["modelled_energy_share"]) for v in values])
    line("class of schedule", [v["class"] or "-" for v in values])
    line("status", [v["status"] for v in values])
    if any(v["plan_grid_s"] for v in values):
        line(
            "plan found on slots of",
            [
                f"{step_text(v['plan_grid_s'])} ({v['plan_grid_status']})" if v["plan_grid_s"] else "-"
                for v in values
            ],
        )
    line("runtime", ["-" if v["runtime_s"] is None else duration_text(v["runtime_s"]) for v in values])
    screen.table(["", *(row.method for row in rows)], table)
    if screen.quiet:
        return
    if result.relative_to is not None:
        other = "" if result.relative_to == "fifo" else " (fifo is not among the rows)"
        screen.say(
            f"\nPercentages are relative to {result.relative_to}{other}. All rows have passed the checker."
        )
    for text in [
        *_bounds(result),
        *_plans(result),
        *(f"Note: {note}." for note in result.notes),
        *_depends(result),
    ]:
        screen.say(textwrap.fill(text, 110, subsequent_indent="  ", break_on_hyphens=False))


def _bounds(result: Comparison) -> list[str]:
    """Return what the gaps are taken from."""
    rows = [row for row in result.rows if row.bound is not None]
    if not rows:
        return []
    lines = [
        f"No schedule of any class costs less than {amount(rows[0].bound)} (objective; eaco-opt bound "
        f"INSTANCE); "
        "the best one may cost more. How near a search comes: eaco-opt certify INSTANCE."
    ]
    if any(row.lower_relaxed is not None for row in rows):
        lines.append(
            "Relaxed gaps, of rows that missed deadlines or exceeded U_threshold, are taken from the "
            "bound without "
            "those deadlines and with U_threshold as high as they went."
        )
    return lines


def _plans(result: Comparison) -> list[str]:
    """Return what plans from a grid are."""
    if not any(row.plan_grid_s for row in result.rows):
        return []
    return [
        "Plans found on slots are carried out in continuous time, where runs are shorter. `optimal` is "
        "proved among static schedules on those slots; in continuous time another plan may be better. How "
        "far each method is from such an optimum: eaco-opt gap INSTANCE."
    ]


def _depends(result: Comparison) -> list[str]:
    """Return the defaults and settings that the numbers depend on, in words."""
    s = result.settings()
    types = list(s["node_types"].items())
    asleep = ", ".join(
        f"{t['sleep_w']:g} W asleep and {t['wake_s']:g} s to wake up"
        + (f" ({name})" if len(types) > 1 else "")
        for name, t in types
    )
    lines = [
        f"They depend on: alpha {s['alpha']:g} ({s['objective_form']} objective"
        + (f", JTT weight {s['jtt_weight']:g}" if s["jtt_weight"] else "")
        + f"), U_threshold {s['u_threshold']:g} ({s['admission_rule']} rule), mem_threshold "
        f"{s['mem_threshold']:g}, "
        f"K {s['max_share']}; nodes: {asleep}; PUE {s['pue']:g}"
        + (
            f"; grid physics with slots of {duration_text(s['grid_s'])}."
            if s["grid_s"]
            else "; continuous time."
        )
    ]
    if "deadline" in s["assumptions"]:
        lines.append(f"Deadlines: {s['assumptions']['deadline']}.")
    if result.dropped:
        shown = "; ".join(f"{job}: {reason}" for job, reason in result.dropped[:10])
        more = f"; and {len(result.dropped) - 10} more" if len(result.dropped) > 10 else ""
        lines.append(f"Dropped for all rows, {len(result.dropped)} impossible job(s): {shown}{more}.")
    if result.best_effort:
        shown = ", ".join(result.best_effort[:10])
        more = f" and {len(result.best_effort) - 10} more" if len(result.best_effort) > 10 else ""
        lines.append(
            f"No method could have met the deadline of {len(result.best_effort)} job(s), run all the same: "
            f"{shown}{more}."
        )
    return lines
