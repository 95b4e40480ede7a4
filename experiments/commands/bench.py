"""``eaco-opt bench``: how fast it is."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ..console import Out, amount
from . import options as o

QuickFlag = Annotated[bool, typer.Option("--quick", help="Small sizes only.")]
OutOption = Annotated[
    Path | None,
    typer.Option("--out", metavar="DIR", help="Folder that keeps finished rows; a later call goes on there."),
]


def app() -> typer.Typer:
    """Return the group of commands."""
    group = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Measure speed: ratios and growth.")
    group.command("simulate")(simulate_command)
    group.command("evaluate")(evaluate_command)
    group.command("build")(build_command)
    group.command("exact")(exact_command)
    group.command("scale")(scale_command)
    return group


def _text(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return amount(value, 3) if isinstance(value, float) else str(value)


def simulate_command(
    quick: QuickFlag = False,
    data: Annotated[
        Path | None,
        typer.Option("--data", metavar="DIR", help="Folder with philly/ and gavel/; EACO_DATA without it."),
    ] = None,
    out: OutOption = None,
    force: Annotated[bool, typer.Option("--force", help="Measure again what --out keeps.")] = False,
    json: o.JsonFlag = False,
    quiet: o.QuietFlag = False,
) -> None:
    """Time simulations: the Philly trace by size, and Gavel's runs beside Gavel's own times."""
    screen = Out(json=json, quiet=quiet)
    from ..benchmarks import data_folder, simulate_rows

    with screen.progress("bench simulate", total=1) as bar:
        rows, notes = simulate_rows(
            quick=quick,
            data=data_folder(data),
            out=out,
            force=force,
            tell=lambda text, done, total: bar.at(done, total, text),
        )
    screen.document({"rows": rows, "notes": notes})
    growth = [r for r in rows if r["run"] == "growth"]
    keys = ("policy", "jobs", "wall_s", "jobs_per_s", "growth_to_linear", "peak_rss_mib")
    heads = ("policy", "jobs", "wall [s]", "jobs per s", "CPU growth / linear", "peak RSS [MiB]")
    if growth:
        title = f"{growth[-1]['instance']}: {growth[0]['nodes']} nodes, {growth[0]['gpus']} GPUs"
        screen.table(heads, [[_text(r[k]) for k in keys] for r in growth], title=title)
    gavel = [r for r in rows if r["run"] == "gavel"]
    if gavel:
        screen.say()
        keys = ("policy", "jobs", "cpu_s", "gavel_user_s", "gavel_finished", "speed_to_gavel")
        heads = ("policy", "jobs", "CPU here [s]", "Gavel user [s]", "Gavel done", "times faster")
        title = f"Gavel's runs: {gavel[0]['gpus']} GPUs, released at 0, capped at 24 h"
        screen.table(heads, [[_text(r[k]) for k in keys] for r in gavel], title=title)
        screen.say(
            "Where Gavel was not done, its seconds are those after which it was stopped. 3 s of imports are "
            "taken off "
            "before the ratio."
        )
    for note in notes:
        screen.note(note)


def evaluate_command(
    quick: QuickFlag = False,
    out: OutOption = None,
    seed: o.SeedOption = 0,
    json: o.JsonFlag = False,
    quiet: o.QuietFlag = False,
) -> None:
    """Time the compiled evaluation of whole-node plans of 200 jobs against the checker (plain Python)."""
    screen = Out(json=json, quiet=quiet)
    from ..benchmarks import evaluate_rows

    with screen.progress("bench evaluate", total=3) as bar:
        rows = evaluate_rows(
            quick=quick, out=out, seed=seed, tell=lambda text, done, n: bar.at(done, n, text)
        )
    screen.document({"rows": rows})
    keys = ("run", "plans", "seconds", "plans_per_s", "speed_to_checker")
    heads = ("run", "plans", "seconds", "plans per s", "times the checker (float)")
    title = f"{rows[0]['instance']}: plans of {rows[0]['jobs']} jobs"
    screen.table(heads, [[_text(r[k]) for k in keys] for r in rows], title=title)


def build_command(
    quick: QuickFlag = False,
    out: OutOption = None,
    seed: o.SeedOption = 0,
    json: o.JsonFlag = False,
    quiet: o.QuietFlag = False,
) -> None:
    """Time how a time-indexed model comes into HiGHS: from arrays against PuLP objects, in one run."""
    screen = Out(json=json, quiet=quiet)
    from ..benchmarks import build_rows

    with screen.progress("bench build", total=2) as bar:
        rows = build_rows(quick=quick, out=out, seed=seed, tell=lambda text, done, n: bar.at(done, n, text))
    screen.document({"rows": rows})
    keys = ("run", "variables", "constraints", "nonzeros", "build_s", "load_s", "seconds", "speed_to_pulp")
    heads = ("run", "variables", "rows", "nonzeros", "build [s]", "load [s]", "both [s]", "times PuLP")
    title = f"{rows[0]['instance']}: {rows[0]['jobs']} jobs, {rows[0]['slots']} slots, CPU times"
    screen.table(heads, [[_text(r[k]) for k in keys] for r in rows], title=title)
    screen.say(
        f"Index sets and coefficients, prepared once for both, took {rows[0]['prepare_s']:.2f} s; counted "
        f"for each, arrays are {rows[0]['speed_to_pulp_prepared']:.1f} times faster."
    )


def exact_command(
    quick: QuickFlag = False,
    only: Annotated[
        str, typer.Option("--only", metavar="A,B", help="Lines whose names begin with one of these.")
    ] = "",
    seeds: Annotated[
        str, typer.Option("--seeds", metavar="N|LIST", help="10 is 0 to 9; or a list such as 0-4,7.")
    ] = "10",
    out: OutOption = None,
    force: Annotated[bool, typer.Option("--force", help="Run again what --out keeps.")] = False,
    json: o.JsonFlag = False,
    quiet: o.QuietFlag = False,
) -> None:
    """Run the exact methods on generated instances by size, and count what they prove in their time."""
    screen = Out(json=json, quiet=quiet)
    from ..exact_bench import chosen_lines, exact_rows, summary_rows
    from ..kept_rows import seed_numbers

    lines = chosen_lines([w.strip() for w in only.split(",") if w.strip()], quick=quick)
    with screen.progress("bench exact", total=1) as bar:
        rows = exact_rows(
            lines,
            seed_numbers("bench exact", seeds)[: 2 if quick else None],
            out=out,
            force=force,
            tell=lambda text, done, total: bar.at(done, total, text),
        )
    summary = summary_rows(rows)
    screen.document({"rows": rows, "summary": summary})
    heads = ("line", "limit [s]", "seeds", "infeasible", "proved", "median [s]", "largest gap left [%]")
    keys = ("line", "time_limit_s", "runs", "infeasible", "proved", "median_s", "largest_gap_percent")
    screen.table(heads, [[_text(r[k]) for k in keys] for r in summary])


def scale_command(
    quick: QuickFlag = False,
    only: Annotated[
        str, typer.Option("--only", metavar="A,B", help="Lines whose names begin with one of these.")
    ] = "",
    seeds: Annotated[
        str, typer.Option("--seeds", metavar="N|LIST", help="3 is 0 to 2; or a list such as 0-4,7.")
    ] = "3",
    data: Annotated[
        Path | None, typer.Option("--data", metavar="DIR", help="Folder with philly/; EACO_DATA without it.")
    ] = None,
    out: OutOption = None,
    force: Annotated[bool, typer.Option("--force", help="Run again what --out keeps.")] = False,
    json: o.JsonFlag = False,
    quiet: o.QuietFlag = False,
) -> None:
    """Certify large generated instances: bounds, searches and what lies between them."""
    screen = Out(json=json, quiet=quiet)
    from ..kept_rows import seed_numbers
    from ..scale_bench import SUMMARY_HEADS, chosen_lines, scale_rows, summary_cells, summary_rows

    lines = chosen_lines([w.strip() for w in only.split(",") if w.strip()], quick=quick)
    with screen.progress("bench scale", total=1) as bar:
        rows, notes = scale_rows(
            lines,
            seed_numbers("bench scale", seeds)[: 1 if quick else None],
            data=data,
            out=out,
            force=force,
            tell=lambda text, done, total: bar.at(done, total, text),
        )
    summary = summary_rows(rows)
    screen.document({"rows": rows, "summary": summary, "notes": notes})
    screen.table(SUMMARY_HEADS, [summary_cells(row) for row in summary])
    for note in notes:
        screen.note(note)
