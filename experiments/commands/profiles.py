"""``eaco-opt profiles``: the workloads that jobs run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..console import Out, amount
from . import options as o

if TYPE_CHECKING:
    from eaco_opt.profile import Profile

FileOption = Annotated[
    Path | None,
    typer.Option(
        "--instance", metavar="FILE", help="Profiles of an instance, instead of the paper's four models."
    ),
]


def app() -> typer.Typer:
    """Return the group of commands."""
    group = typer.Typer(
        no_args_is_help=True, rich_markup_mode=None, help="List and show the workloads that jobs run."
    )
    group.command("list")(list_command)
    group.command("show")(show_command)
    return group


def _profiles(path: Path | None) -> tuple[Profile, ...]:
    if path is not None:
        return o.read(path).profiles
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


def _show(screen: Out, found: list[Profile]) -> None:
    screen.document({"profiles": [_document(p) for p in found]})
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


def list_command(instance: FileOption = None, json: o.JsonFlag = False, quiet: o.QuietFlag = False) -> None:
    """List profiles: the paper's four models, or those of an instance."""
    _show(Out(json=json, quiet=quiet), list(_profiles(instance)))


def show_command(
    names: Annotated[list[str], typer.Argument(metavar="NAME...", help="Names of profiles.")],
    instance: FileOption = None,
    json: o.JsonFlag = False,
    quiet: o.QuietFlag = False,
) -> None:
    """Show profiles by name."""
    from eaco_opt.errors import UnknownNameError

    known = {p.name: p for p in _profiles(instance)}
    for name in names:
        if name not in known:
            shown = ", ".join(list(known)[:20])
            raise UnknownNameError(f"unknown profile {name!r}; known are: {shown}")
    _show(Out(json=json, quiet=quiet), [known[name] for name in names])
