"""``eaco-opt paper scale``: the paper's evaluation at its size, beside its figures."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ..console import Out, percent
from . import options as o


def scale_command(
    seeds: Annotated[int, typer.Option("--seeds", min=1, metavar="N", help="Seeds 0 to N - 1.")] = 10,
    jobs: Annotated[int, typer.Option("--jobs", min=1, metavar="J", help="Jobs of each instance.")] = 1000,
    family: Annotated[
        list[str] | None,
        typer.Option(
            "--family", metavar="NAME", help="Generator family; may be repeated (whole-node, mixed)."
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="CSV with one row for each run.")
    ] = None,
    force: o.ForceFlag = False,
    json: o.JsonFlag = False,
    quiet: o.QuietFlag = False,
) -> None:
    """Run the policies on 64 and 28 nodes over seeds, with 95 % intervals, beside the paper's figures."""
    screen = Out(json=json, quiet=quiet)
    from eaco_opt.output import refuse_existing
    from instances.generators import GENERATORS

    from ..paper_scale import FAMILIES, METHODS, SETTINGS, paper_scale
    from ..tables import write_csv

    families = tuple(family or FAMILIES)
    for name in families:
        GENERATORS.get(name)
    if out is not None:
        refuse_existing(out, force=force)
    total = len(families) * len(SETTINGS) * seeds * len(METHODS)
    with screen.progress("policies on all settings", total) as bar:
        study = paper_scale(seeds=seeds, jobs=jobs, families=families, progress=lambda done, _: bar.at(done))
    if out is not None:
        columns = list(study.rows[0])
        write_csv(out, columns, [[row[c] for c in columns] for row in study.rows], force=force)
    screen.document(
        {
            "jobs": jobs,
            "seeds": seeds,
            "settings": [_setting(study, f, n, load) for f in families for n, load in SETTINGS],
            "claims": [_claim(row, f) for f in families for row in study.claim_rows(f)],
        }
    )
    for name in families:
        _show(screen, study, name)


def _numbers(value: Any) -> dict[str, float | None]:
    return {"mean": value.mean, "half_width": value.half_width}


def _setting(study: Any, family: str, nodes: int, load: float) -> dict[str, Any]:
    from ..paper_scale import MEASURES, METHODS

    return {
        "family": family,
        "nodes": nodes,
        "load": load,
        "methods": [
            {
                "method": method,
                **{m: _numbers(study.relative(family, nodes, load, method, METHODS[0], m)) for m in MEASURES},
                "misses": _numbers(study.misses(family, nodes, load, method)),
                "modelled_energy_share": _numbers(study.modelled(family, nodes, load, method)),
            }
            for method in METHODS
        ],
        "order": {m: study.order(family, nodes, load, m) for m in MEASURES},
    }


def _claim(row: Any, family: str) -> dict[str, Any]:
    return {
        "family": family,
        "id": row.id,
        "claim": row.claim,
        "against": row.against,
        "claimed": row.claimed,
        "ours": [{"load": load, **_numbers(value)} for load, value in row.ours],
    }


def _show(screen: Out, study: Any, family: str) -> None:
    from ..paper_scale import MEASURES, METHODS, SETTINGS

    n = len(study.seeds)
    screen.say(
        f"\n{family}: {study.jobs} jobs, {n} seed(s); percent relative to FIFO, "
        "mean ± 95 % interval over seeds"
    )
    rows = [
        [
            str(nodes),
            f"{load:g}",
            method,
            *(str(study.relative(family, nodes, load, method, METHODS[0], m)) for m in MEASURES),
            str(study.misses(family, nodes, load, method)).lstrip("+"),
            str(study.modelled(family, nodes, load, method)).lstrip("+"),
        ]
        for nodes, load in SETTINGS
        for method in METHODS
    ]
    screen.table(
        [
            "nodes",
            "load",
            "method",
            "energy",
            "runtime",
            "total time",
            "active nodes",
            "misses %",
            "modelled %",
        ],
        rows,
        left=3,
    )
    screen.say("\nOrder, least first (= where the 95 % interval of the paired difference holds 0):")
    screen.table(
        ["nodes", "load", "energy", "runtime"],
        [
            [str(nodes), f"{load:g}", *(study.order(family, nodes, load, m) for m in ("energy", "runtime"))]
            for nodes, load in SETTINGS
        ],
        left=4,
    )
    screen.say("\nThe paper's figures beside ours (EaCO against the method named):")
    screen.table(
        ["id", "claim", "against", "paper", "ours"],
        [
            [
                row.id,
                row.claim,
                row.against,
                percent(row.claimed),
                "; ".join(f"{value} at load {load:g}" for load, value in row.ours),
            ]
            for row in study.claim_rows(family)
        ],
        left=5,
    )
