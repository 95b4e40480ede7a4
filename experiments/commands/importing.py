"""``eaco-opt import``: a trace of another group becomes an instance."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated, Any

import typer

from ..console import Out, count
from . import options as o
from .generate import mix_of


def columns_of(text: str) -> dict[str, str]:
    """Return {role: column} of text such as ``submit=arrival,gpus=num_gpus``."""
    out: dict[str, str] = {}
    for word in text.split(","):
        role, sign, column = word.partition("=")
        if not sign or not role.strip() or not column.strip() or role.strip() in out:
            raise typer.BadParameter(
                f"--columns: expected ROLE=COLUMN, such as submit=arrival,gpus=n; got {text!r}"
            )
        out[role.strip()] = column.strip()
    return out


def command(
    reader: Annotated[
        str, typer.Argument(metavar="READER", help="Its format, e.g. gavel (docs/instances.md).")
    ],
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="The trace, or the folder of its files; .gz, .xz and .bz2 are decompressed."
        ),
    ],
    nodes: o.NodesOption = None,
    gpus_per_node: o.GpusPerNodeOption = None,
    cluster: o.ClusterOption = None,
    jobs: Annotated[
        int | None, typer.Option("--jobs", min=1, metavar="N", help="Take the first N usable rows.")
    ] = None,
    time_from: Annotated[
        str | None,
        typer.Option("--from", metavar="TIME", help="First submit time: date, or seconds from the first."),
    ] = None,
    time_to: Annotated[
        str | None, typer.Option("--to", metavar="TIME", help="End of submit times, itself not taken.")
    ] = None,
    vc: Annotated[str | None, typer.Option("--vc", metavar="NAME", help="One virtual cluster only.")] = None,
    states: Annotated[
        str | None,
        typer.Option("--states", metavar="A,B", help="Jobs that ended so only, in the trace's words."),
    ] = None,
    gpus: Annotated[
        tuple[int, int] | None,
        typer.Option("--gpus", metavar="LO HI", help="Jobs of so many GPUs only."),
    ] = None,
    sample: Annotated[
        int | None, typer.Option("--sample", min=1, metavar="N", help="Draw N of the usable rows.")
    ] = None,
    load: Annotated[
        float | None,
        typer.Option("--load", metavar="L", help="Offered load on the cluster to bring the trace to."),
    ] = None,
    load_by: Annotated[
        str,
        typer.Option(
            "--load-by", metavar="thin|compress", help="Leave out jobs, or scale the time between them."
        ),
    ] = "thin",
    columns: Annotated[
        str | None,
        typer.Option(
            "--columns", metavar="ROLE=COLUMN,..", help="csv: submit=..,duration=..,gpus=.. and others."
        ),
    ] = None,
    time_unit: Annotated[
        str, typer.Option("--time-unit", metavar="ms|s|min|h|d", help="csv: unit of times that are numbers.")
    ] = "s",
    time_zone: Annotated[
        str | None,
        typer.Option("--time-zone", metavar="ZONE", help="csv: zone of dates without an offset (UTC)."),
    ] = None,
    mapping: Annotated[
        str,
        typer.Option(
            "--mapping",
            metavar="native|paper-cnn|profiles:FILE",
            help="The trace's own work, the paper's models, or measured workloads.",
        ),
    ] = "native",
    mix: Annotated[
        str | None,
        typer.Option(
            "--mix", metavar="NAME=SHARE,..", help="profiles:FILE: shares of the workloads; equal without it."
        ),
    ] = None,
    slack: Annotated[
        tuple[float, float] | None,
        typer.Option(
            "--slack", metavar="LO HI", help="Deadline = release + slack * exclusive time (1.3 2.5)."
        ),
    ] = None,
    no_deadlines: Annotated[
        bool, typer.Option("--no-deadlines", help="Infinite deadlines, instead of --slack.")
    ] = False,
    tight_deadlines: Annotated[
        str,
        typer.Option(
            "--tight-deadlines", metavar="keep|drop|stretch", help="Own deadlines that no job could meet."
        ),
    ] = "keep",
    too_large: Annotated[
        str,
        typer.Option("--too-large", metavar="refuse|drop|clip", help="Jobs with more GPUs than the cluster."),
    ] = "refuse",
    release: Annotated[
        str, typer.Option("--release", metavar="trace|zero", help="Releases as in the trace, or all at 0.")
    ] = "trace",
    max_duration: Annotated[
        str | None,
        typer.Option("--max-duration", metavar="DURATION", help="Cut longer running times, e.g. 24h."),
    ] = None,
    trace_cluster: Annotated[
        bool, typer.Option("--trace-cluster", help="The trace's own nodes (alibaba-openb-2023).")
    ] = False,
    throughputs: Annotated[
        Path | None,
        typer.Option("--throughputs", metavar="FILE", help="gavel: measured throughputs (JSON or CSV)."),
    ] = None,
    alpha: o.AlphaOption = None,
    u_threshold: o.UThresholdOption = None,
    mem_threshold: o.MemThresholdOption = None,
    max_share: o.MaxShareOption = None,
    rule: o.RuleOption = None,
    truth: o.TruthOption = None,
    report: Annotated[
        Path | None,
        typer.Option("--report", metavar="FILE", help="List of repairs and refusals (.csv or .json)."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Instance file to write (JSON).")
    ] = None,
    seed: o.SeedOption = 0,
    force: o.ForceFlag = False,
    json: o.JsonFlag = False,
    quiet: o.QuietFlag = False,
) -> None:
    """Make an instance of a trace; every row is taken, repaired or refused, and counted."""
    screen = Out(json=json, quiet=quiet)
    if slack is not None and no_deadlines:
        raise typer.BadParameter("--slack and --no-deadlines exclude each other; give one")
    shares = mix_of(mix)
    given: dict[str, Any] = {}
    if slack is not None:
        given["slack"] = tuple(slack)
    if no_deadlines:
        given["slack"] = None
    if states is not None:
        given["states"] = tuple(word.strip() for word in states.split(",") if word.strip())
    if gpus is not None:
        given["gpus"] = tuple(gpus)
    if columns is not None:
        given["columns"] = columns_of(columns)
    if max_duration is not None:
        given["max_duration_s"] = o.seconds(max_duration)
    from eaco_opt.io import instance_digest, write_instance
    from eaco_opt.output import refuse_existing
    from instances import ImportOptions, import_trace, write_report

    for path in (out, report):
        if path is not None:
            refuse_existing(path, force=force)
    if out is not None and report is not None and out.absolute() == report.absolute():
        raise typer.BadParameter("--out and --report name the same file; give each its own")
    with screen.progress(f"reading {file.name}"):
        made = import_trace(
            reader,
            file,
            ImportOptions(
                nodes=nodes,
                gpus_per_node=gpus_per_node,
                cluster=o.cluster_of(cluster),
                jobs=jobs,
                time_from=time_from,
                time_to=time_to,
                vc=vc,
                sample=sample,
                load=load,
                load_by=load_by,  # type: ignore[arg-type]
                time_unit=time_unit,
                time_zone=time_zone,
                mapping=mapping,  # type: ignore[arg-type]
                mix=shares,
                tight_deadlines=tight_deadlines,  # type: ignore[arg-type]
                trace_cluster=trace_cluster,
                too_large=too_large,  # type: ignore[arg-type]
                release=release,  # type: ignore[arg-type]
                throughputs=throughputs,
                seed=seed,
                limits=o.limits_of(u_threshold, mem_threshold, max_share, rule),
                objective=o.objective_of(alpha),
                **given,
            ),
        )
    if truth is not None:
        from instances.predictors import with_truth

        made = dataclasses.replace(made, instance=with_truth(made.instance, truth))
    if report is not None:
        write_report(made, report, force=force)
    if out is not None:
        write_instance(out, made.instance, force=force)
    digest = instance_digest(made.instance)
    problem = made.instance
    screen.document(
        made.accounts()
        | {
            "digest": digest,
            "name": problem.name,
            "jobs": len(problem.jobs),
            "nodes": len(problem.cluster.nodes),
            "gpus": problem.cluster.total_gpus(),
            "file": None if out is None else str(out),
            "report": None if report is None else str(report),
        }
    )
    size = f"{count(len(problem.jobs), 'job')} on {count(len(problem.cluster.nodes), 'node')}"
    screen.say(f"{problem.name}: {size}, digest {digest}")
    screen.say(f"{made.read} rows read, {made.taken} taken")
    for what, counts in (("repaired", made.repaired), ("refused", made.refused)):
        for reason, number in counts.items():
            screen.say(f"  {what} {number}: {reason}")
    if out is None:
        screen.note("the instance was not kept; give --out FILE")
    else:
        screen.say(f"written to {out}")
    if report is not None:
        screen.say(f"repairs and refusals listed in {report}")
