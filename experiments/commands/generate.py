"""``eaco-opt generate``: an instance of a family, from a seed."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Annotated

import typer

from ..console import Out, count
from . import options as o


def mix_of(text: str | None) -> dict[str, float] | None:
    """Return {model: share} of text such as ``AlexNet=2,VGG-16=1``."""
    if text is None:
        return None
    wrong = f"--mix: expected shares such as AlexNet=2,VGG-16=1, got {text!r}"
    out: dict[str, float] = {}
    rest = text
    while rest:
        # A comma ends a share, but may stand in a name.
        found = re.match(r"([^=]+)=([^=,]+)(?:,|$)", rest)
        if found is None or not found[1].strip() or found[1].strip() in out:
            raise typer.BadParameter(wrong)
        try:
            out[found[1].strip()] = float(found[2])
        except ValueError:
            raise typer.BadParameter(wrong) from None
        rest = rest[found.end() :]
    if not out or text.endswith(","):
        raise typer.BadParameter(wrong)
    return out


def params_of(words: list[str] | None) -> dict[str, float]:
    """Return {name: value} of words such as ``bursts=3``."""
    out: dict[str, float] = {}
    for word in words or []:
        name, sign, value = word.partition("=")
        try:
            number = float(value)
        except ValueError:
            number = math.nan
        if not sign or not name.strip() or name.strip() in out or math.isnan(number):
            raise typer.BadParameter(
                f"--param: expected NAME=VALUE with a number, once for a name, got {word!r}"
            )
        out[name.strip()] = number
    return out


def command(
    family: Annotated[
        str, typer.Argument(metavar="FAMILY", help="Such as whole-node or mixed; a wrong name lists all.")
    ],
    jobs: Annotated[int, typer.Option("--jobs", min=1, metavar="N", help="Number of jobs.")],
    nodes: o.NodesOption = None,
    gpus_per_node: o.GpusPerNodeOption = None,
    cluster: o.ClusterOption = None,
    load: Annotated[
        float,
        typer.Option(
            "--load", metavar="L", help="Exclusive GPU-hours of all jobs over those of the cluster."
        ),
    ] = 1.0,
    slack: Annotated[
        tuple[float, float] | None,
        typer.Option("--slack", metavar="LO HI", help="Range of the slack; that of the family without it."),
    ] = None,
    epochs: Annotated[
        tuple[int, int] | None,
        typer.Option("--epochs", metavar="LO HI", help="Range of the epochs; that of the family without it."),
    ] = None,
    mix: Annotated[
        str | None,
        typer.Option("--mix", metavar="MODEL=SHARE,..", help="Shares of the models; equal without it."),
    ] = None,
    param: Annotated[
        list[str] | None,
        typer.Option(
            "--param",
            metavar="NAME=VALUE",
            help="Parameter of the family (docs/instances.md); may be repeated.",
        ),
    ] = None,
    alpha: o.AlphaOption = None,
    u_threshold: o.UThresholdOption = None,
    mem_threshold: o.MemThresholdOption = None,
    max_share: o.MaxShareOption = None,
    rule: o.RuleOption = None,
    profiles: Annotated[
        Path | None,
        typer.Option(
            "--profiles",
            metavar="FILE",
            help="Draw from the profiles of this file (of profiles import, or its CSV), not the paper's.",
        ),
    ] = None,
    truth: o.TruthOption = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Instance file to write (JSON).")
    ] = None,
    seed: o.SeedOption = 0,
    force: o.ForceFlag = False,
    json: o.JsonFlag = False,
    quiet: o.QuietFlag = False,
) -> None:
    """Make an instance of a family; the same options give the same bytes."""
    screen = Out(json=json, quiet=quiet)
    shares = mix_of(mix)
    params = params_of(param)
    from eaco_opt.io import instance_digest, read_profile_set, write_instance
    from eaco_opt.output import refuse_existing
    from instances import generate

    if out is not None:
        refuse_existing(out, force=force)
    made = generate(
        family,
        jobs=jobs,
        nodes=nodes,
        gpus_per_node=gpus_per_node,
        cluster=o.cluster_of(cluster),
        load=load,
        slack=slack,
        epochs=epochs,
        mix=shares,
        limits=o.limits_of(u_threshold, mem_threshold, max_share, rule),
        objective=o.objective_of(alpha),
        seed=seed,
        profiles=None if profiles is None else read_profile_set(profiles),
        params=params,
    )
    if truth is not None:
        from instances.predictors import with_truth

        made = with_truth(made, truth)
    if out is not None:
        write_instance(out, made, force=force)
    digest = instance_digest(made)
    nodes_made = len(made.cluster.nodes)
    screen.document(
        {
            "digest": digest,
            "name": made.name,
            "jobs": len(made.jobs),
            "nodes": nodes_made,
            "gpus": made.cluster.total_gpus(),
            "seed": seed,
            "file": None if out is None else str(out),
        }
    )
    screen.say(f"{made.name}: {count(len(made.jobs), 'job')} on {count(nodes_made, 'node')}, digest {digest}")
    if out is None:
        screen.note("the instance was not kept; give --out FILE")
    else:
        screen.say(f"written to {out}")
