"""``eaco-opt describe``: what an instance asks for and what it assumes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..console import Out, amount
from . import options as o


def command(
    instance: o.InstanceArgument,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="Folder for tables and a picture of the workload."),
    ] = None,
    force: o.ForceFlag = False,
    json: o.JsonFlag = False,
    quiet: o.QuietFlag = False,
) -> None:
    """Say what an instance asks for: jobs, load over time, sizes, impossible jobs, assumptions."""
    screen = Out(json=json, quiet=quiet)
    from ..describe import describe, write_description
    from ..tables import prepare_folder

    if out is not None:
        prepare_folder(out, force=force)
    problem = o.read(instance)
    found = describe(problem)
    document = found.document()
    if out is not None:
        with screen.progress("drawing"):
            files = write_description(found, out, force=force)
        document["files"] = [path.relative_to(out).as_posix() for path in files]
    screen.document(document)
    if json:
        return
    load = found.offered_load
    screen.say(f"{problem.name}: digest {document['digest']}")
    rows = [
        ["jobs", str(document["jobs"])],
        ["nodes", f"{document['nodes']} ({document['cluster']})"],
        ["GPUs", str(document["gpus"])],
        ["releases span", f"{amount(found.span_h)} h"],
        ["exclusive work", f"{amount(found.gpu_hours)} GPU-hours"],
        ["offered load", "- (all jobs are released at once)" if load is None else amount(load, 4)],
        ["jobs by GPUs", ", ".join(f"{count} x {gpus}" for gpus, count in found.jobs_by_gpus.items()) or "-"],
        ["jobs by profile", f"{len(found.jobs_by_profile)} profile(s)"],
        ["jobs without deadline", str(found.without_deadline)],
        ["impossible jobs", str(len(found.impossible))],
    ]
    if len(found.jobs_by_profile) <= 8:
        rows[7][1] = ", ".join(f"{count} x {name}" for name, count in found.jobs_by_profile.items()) or "-"
    screen.table(["", "value"], rows, left=2)
    for job in found.impossible[:20]:
        late = " (deadline only: it is run best-effort)" if job.deadline_only else ""
        screen.say(f"  impossible: job {job.job}: {job.reason}{late}")
    if len(found.impossible) > 20:
        screen.say(f"  and {len(found.impossible) - 20} more; --json lists them all")
    if not quiet:
        for key, text in problem.metadata:
            shown = text if len(text) <= 300 else text[:297] + "..."
            screen.say(f"{key}: {shown}")
    if out is not None:
        screen.say(f"written to {out}: {', '.join(document['files'])}")
