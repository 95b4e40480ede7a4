"""``eaco-opt study``: ready-made studies."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ..console import Out, amount, percent
from . import options as o

QUICK_JOBS, QUICK_NODES = 100, 10
JOBS, NODES = 1000, 64
LOAD = 0.5


def app() -> typer.Typer:
    """Return the group of commands."""
    group = typer.Typer(help="Ready-made studies, each with its tables and figures.", no_args_is_help=True)
    group.command("frontier")(frontier_command)
    return group


def frontier_command(
    instance: Annotated[
        Path | None,
        typer.Option(
            "--instance",
            metavar="FILE",
            help=f"Instance file; without it whole-node, {JOBS} jobs on {NODES} nodes at load {LOAD:g}.",
        ),
    ] = None,
    quick: Annotated[
        bool,
        typer.Option(
            "--quick", help=f"Without --instance: {QUICK_JOBS} jobs on {QUICK_NODES} nodes; short searches."
        ),
    ] = False,
    search_limit: Annotated[
        str | None,
        typer.Option(
            "--search-limit", metavar="DURATION", help="Limit of each search (5s quick, else 2min); 0s: none."
        ),
    ] = None,
    time_limit: Annotated[
        str | None,
        typer.Option("--time-limit", metavar="DURATION", help="Limit of each LP; none without it."),
    ] = None,
    threads: Annotated[int, typer.Option("--threads", min=1, metavar="N", help="Threads of the search.")] = 2,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Folder for tables and figures.")
    ] = None,
    seed: o.SeedOption = 0,
    force: o.ForceFlag = False,
    json: o.JsonFlag = False,
    quiet: o.QuietFlag = False,
) -> None:
    """Trace the least energy for each mean running time: what no scheduler can undercut.

    Policies, searches and the paper's claim (-39 % energy at +3.23 % running time) are set beside it, and
    how much of the answer rests on sets of jobs that were not measured.
    """
    screen = Out(json=json, quiet=quiet)
    limit = None if time_limit is None else o.seconds(time_limit)
    search_s = o.seconds(search_limit) if search_limit is not None else (5.0 if quick else 120.0)
    from instances.generators import generate

    from ..frontier import document, frontier
    from ..tables import prepare_folder, write_frontier

    if out is not None:
        prepare_folder(out, force=force)
    if instance is not None:
        problem = o.read(instance)
    else:
        jobs, nodes = (QUICK_JOBS, QUICK_NODES) if quick else (JOBS, NODES)
        problem = generate("whole-node", jobs=jobs, nodes=nodes, load=LOAD, seed=seed)
    screen.warn_of_compiling()
    with screen.progress("frontier") as bar:
        found = frontier(
            problem,
            search_s=search_s,
            time_limit_s=limit,
            seed=seed,
            threads=threads,
            progress=lambda text, done, total: bar.at(done, total, text),
        )
    doc: dict[str, Any] = document(found)
    tables: list[str] = []
    figures: list[str] = []
    if out is not None:
        written = write_frontier(found, out, force=force)
        names = [path.relative_to(out).as_posix() for path in written]
        tables = [name for name in names if not name.startswith("figures/")]
        figures = [name for name in names if name.startswith("figures/")]
    screen.document(doc | {"tables": tables, "figures": figures})
    _show(screen, doc)
    if out is not None:
        screen.say(f"\nwritten to {out}: {len(tables)} tables, {len(figures)} figure files")


def _show(screen: Out, d: dict[str, Any]) -> None:
    if screen.json:
        return
    screen.say(f"{d['instance']['name']}; percent relative to {d['reference']}")
    screen.table(
        ["", "mean running time", "energy", "least energy at that time"],
        [
            [
                p["name"],
                percent(p["runtime_percent"]),
                percent(p["energy_percent"]),
                percent(p["least_energy_percent"]),
            ]
            for p in d["points"]
        ],
    )
    screen.say("\nThe paper's claim, by what is assumed of sets that were not measured:")
    rows = []
    for v in d["verdicts"]:
        least = v["least_runtime_percent"]
        rows.append(
            [
                v["text"],
                percent(v["least_energy_percent"]),
                "out of reach" if least is None else percent(least),
                "beyond the bound" if v["beyond"] else "not excluded",
            ]
        )
    claim = d["verdicts"][0]
    screen.table(
        [
            "tables",
            f"least energy at {percent(claim['claimed_runtime_percent'])} time",
            f"least time at {percent(claim['claimed_energy_percent'])} energy",
            "the claim is",
        ],
        rows,
    )
    shares = [
        w for w in d["weights"] if w["variant"] == claim["variant"] and w["modelled_energy_share"] is not None
    ]
    if shares:
        near = min(shares, key=lambda w: abs(w["lp_runtime_percent"] - claim["claimed_runtime_percent"]))
        share = amount(100.0 * near["modelled_energy_share"], 3)
        screen.say(
            f"\nAt {percent(near['lp_runtime_percent'])} time, {share} % of the LP's energy is drawn in sets "
            "that were not measured."
        )
