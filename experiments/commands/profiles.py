"""``eaco-opt profiles``: the workloads that jobs run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..console import Out, amount
from . import options as o

if TYPE_CHECKING:
    from eaco_opt.profile import Profile

InstanceOption = Annotated[
    Path | None,
    typer.Option(
        "--instance", metavar="FILE", help="Profiles of an instance, instead of the paper's four models."
    ),
]
FromOption = Annotated[
    Path | None,
    typer.Option(
        "--from", metavar="FILE", help="Profiles of a file that profiles import wrote, or of its CSV."
    ),
]


def app() -> typer.Typer:
    """Return the group of commands."""
    group = typer.Typer(
        no_args_is_help=True, rich_markup_mode=None, help="List, show and import the workloads that jobs run."
    )
    group.command("list")(list_command)
    group.command("show")(show_command)
    group.command("import")(import_command)
    return group


def _profiles(instance: Path | None, file: Path | None) -> tuple[Profile, ...]:
    if instance is not None and file is not None:
        raise typer.BadParameter("--instance and --from exclude each other; give one")
    if instance is not None:
        return o.read(instance).profiles
    if file is not None:
        from eaco_opt.io import read_profiles

        return read_profiles(file)
    from instances import paper

    return paper.profiles()


def _document(profile: Profile) -> dict[str, Any]:
    return {
        "name": profile.name,
        "kind": profile.kind,
        "epoch_times": [
            {"gpu_type": t.gpu_type, "gpus": t.gpus, "epoch_time_s": t.epoch_time_s}
            for t in profile.epoch_times
        ],
        "gpu_util_mean": profile.gpu_util_mean,
        "gpu_util_peak": profile.gpu_util_peak,
        "gpu_memory_mean_gib": profile.gpu_memory_mean_gib,
        "gpu_memory_peak_gib": profile.gpu_memory_peak_gib,
        "cpu_share": profile.cpu_share,
    }


def _show(screen: Out, found: list[Profile], **more: Any) -> None:
    screen.document({"profiles": [_document(p) for p in found]} | more)
    rows = [
        [
            p.name,
            p.kind,
            t.gpu_type,
            "any" if t.gpus is None else str(t.gpus),
            amount(t.epoch_time_s / 3600.0),
            f"{100.0 * p.gpu_util_mean:.2f} / {100.0 * p.gpu_util_peak:.2f}",
            f"{p.gpu_memory_mean_gib:.2f} / {p.gpu_memory_peak_gib:.2f}",
            f"{100.0 * p.cpu_share:.1f}",
        ]
        for p in found
        for t in p.epoch_times
    ]
    heads = [
        "profile",
        "kind",
        "GPU",
        "GPUs",
        "epoch [h]",
        "GPU load mean / peak [%]",
        "memory mean / peak [GiB]",
        "CPU [%]",
    ]
    screen.table(heads, rows, left=3)


def list_command(
    instance: InstanceOption = None,
    file: FromOption = None,
    json: o.JsonFlag = False,
    quiet: o.QuietFlag = False,
) -> None:
    """List profiles: the paper's four models, those of an instance, or those of a file."""
    _show(Out(json=json, quiet=quiet), list(_profiles(instance, file)))


def show_command(
    names: Annotated[list[str], typer.Argument(metavar="NAME...", help="Names of profiles.")],
    instance: InstanceOption = None,
    file: FromOption = None,
    json: o.JsonFlag = False,
    quiet: o.QuietFlag = False,
) -> None:
    """Show profiles by name."""
    from eaco_opt.errors import UnknownNameError

    known = {p.name: p for p in _profiles(instance, file)}
    for name in names:
        if name not in known:
            shown = ", ".join(list(known)[:20])
            raise UnknownNameError(f"unknown profile {name!r}; known are: {shown}")
    _show(Out(json=json, quiet=quiet), [known[name] for name in names])


def import_command(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="Measured workloads: CSV with a header; .gz and .xz are decompressed."
        ),
    ],
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Profile file to write (JSON).")
    ] = None,
    force: o.ForceFlag = False,
    json: o.JsonFlag = False,
    quiet: o.QuietFlag = False,
) -> None:
    """Read measured workloads from a CSV, for generate --profiles."""
    screen = Out(json=json, quiet=quiet)
    from eaco_opt.io import profiles_from_csv, write_profiles
    from eaco_opt.io_text import read_text, source_name
    from eaco_opt.output import refuse_existing

    if out is not None:
        refuse_existing(out, force=force)
    found = profiles_from_csv(read_text(file), source=source_name(file))
    if out is not None:
        write_profiles(out, found, force=force)
    _show(screen, list(found), file=None if out is None else str(out))
    if out is None:
        screen.note("the profiles were not kept; give --out FILE")
    else:
        screen.say(f"written to {out}")
