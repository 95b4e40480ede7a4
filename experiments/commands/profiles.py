"""``eaco-opt profiles``: the workloads that jobs run."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..console import Out, amount, count
from . import options as o

if TYPE_CHECKING:
    from eaco_opt.profile import Profile
    from eaco_opt.profile_set import ProfileSet

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


def _profiles(instance: Path | None, file: Path | None) -> ProfileSet:
    if instance is not None and file is not None:
        raise typer.BadParameter("--instance and --from exclude each other; give one")
    from eaco_opt.profile_set import ProfileSet

    if instance is not None:
        problem = o.read(instance)
        kinds = {p.kind for p in problem.profiles}
        return ProfileSet(
            profiles=problem.profiles,
            usage=tuple(u for u in problem.usage if set(u.kinds) <= kinds),
            truth=dataclasses.replace(
                problem.truth,
                measured=tuple(m for m in problem.truth.measured if set(m.kinds) <= kinds),
                cannot_share=tuple(pair for pair in problem.truth.cannot_share if set(pair) <= kinds),
            ),
        )
    if file is not None:
        from eaco_opt.io import read_profile_set

        return read_profile_set(file)
    from instances import paper

    return ProfileSet(profiles=paper.profiles(), usage=paper.usage(), truth=paper.interference())


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


def _sets(held: ProfileSet) -> dict[str, Any]:
    """Return what was measured about sets and power limits."""
    return {
        "pairs": [
            {"kinds": list(m.kinds), "factors": list(m.factors)}
            for m in held.truth.measured
            if len(m.kinds) == 2
        ],
        "cannot_share": [list(pair) for pair in held.truth.cannot_share],
        "power_limits": [dataclasses.asdict(p) for p in held.power_limits],
    }


def _show(screen: Out, found: Sequence[Profile], **more: Any) -> None:
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
    screen = Out(json=json, quiet=quiet)
    held = _profiles(instance, file)
    _show(screen, held.profiles, **_sets(held))
    _say_sets(screen, held)


def show_command(
    names: Annotated[list[str], typer.Argument(metavar="NAME...", help="Names of profiles.")],
    instance: InstanceOption = None,
    file: FromOption = None,
    json: o.JsonFlag = False,
    quiet: o.QuietFlag = False,
) -> None:
    """Show profiles by name, their measured pairs and power limits."""
    from eaco_opt.errors import UnknownNameError

    screen = Out(json=json, quiet=quiet)
    held = _profiles(instance, file)
    known = {p.name: p for p in held.profiles}
    for name in names:
        if name not in known:
            shown = ", ".join(list(known)[:20])
            raise UnknownNameError(f"unknown profile {name!r}; known are: {shown}")
    found = [known[name] for name in names]
    kinds = {p.kind for p in found}
    part = dataclasses.replace(
        held,
        truth=dataclasses.replace(
            held.truth,
            measured=tuple(m for m in held.truth.measured if kinds & set(m.kinds)),
            cannot_share=tuple(pair for pair in held.truth.cannot_share if kinds & set(pair)),
        ),
        usage=tuple(u for u in held.usage if kinds & set(u.kinds)),
        power_limits=tuple(p for p in held.power_limits if p.profile in names),
    )
    _show(screen, found, **_sets(part))
    pairs = [
        [a, b, f"{1.0 / fa:.3f}"]
        for m in part.truth.measured
        if len(m.kinds) == 2
        for a, b, fa in _sides(m.kinds, m.factors)
        if a in kinds
    ]
    pairs += [
        [a, b, "0 (cannot share)"] for pair in part.truth.cannot_share for a, b in _both(pair) if a in kinds
    ]
    if pairs:
        screen.say()
        screen.table(["kind", "beside", "speed"], sorted(pairs), left=2)
    if part.power_limits:
        limits = [
            [p.profile, p.gpu_type, amount(p.limit_w), amount(p.epoch_time_s), amount(p.power_w)]
            for p in part.power_limits
        ]
        screen.say()
        screen.table(["profile", "GPU", "limit [W]", "epoch [s]", "power [W]"], limits, left=2)


def _both(pair: Sequence[str]) -> list[tuple[str, str]]:
    """Return a pair from both sides, once if both are the same."""
    return list(dict.fromkeys([(pair[0], pair[1]), (pair[1], pair[0])]))


def _sides(kinds: Sequence[str], factors: Sequence[float]) -> list[tuple[str, str, float]]:
    """Return (kind, neighbour, slowdown) of both sides of a pair, one if both are the same."""
    rows = [(kinds[0], kinds[1], factors[0]), (kinds[1], kinds[0], factors[1])]
    return list(dict.fromkeys(rows))


def _say_sets(screen: Out, held: ProfileSet) -> None:
    """Say how many pairs and power limits there are."""
    pairs = sum(len(m.kinds) == 2 for m in held.truth.measured)
    said = []
    if pairs or held.truth.cannot_share:
        said.append(
            f"{count(pairs, 'measured pair')}, {count(len(held.truth.cannot_share), 'pair')} cannot share"
        )
    if held.power_limits:
        curves = len({(p.profile, p.gpu_type) for p in held.power_limits})
        said.append(f"{count(len(held.power_limits), 'power limit')} on {count(curves, 'curve')}")
    for line in said:
        screen.say(line)


def import_command(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE...",
            help="Measured workloads; .gz, .xz and .bz2 are decompressed. Several that belong together, "
            "such as Zeus's for V100 and A40.",
        ),
    ],
    form: Annotated[
        str | None,
        typer.Option(
            "--format",
            metavar="csv|gavel|lucid|zeus|profiles",
            help="Format of the files; told by their first lines without it.",
        ),
    ] = None,
    gpu_type: Annotated[
        str | None,
        typer.Option(
            "--gpu-type",
            metavar="TYPE",
            help="Take epoch times to hold for this GPU type, not the measured one.",
        ),
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option("--report", metavar="FILE", help="List of repairs and refusals (.csv or .json)."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Profile file to write (JSON).")
    ] = None,
    force: o.ForceFlag = False,
    json: o.JsonFlag = False,
    quiet: o.QuietFlag = False,
) -> None:
    """Read measured workloads, their pairs and power limits, for generate --profiles and import --mapping."""
    screen = Out(json=json, quiet=quiet)
    from eaco_opt.io import write_profiles
    from eaco_opt.output import refuse_existing
    from instances.measurements import read_measurements
    from instances.readers import write_report

    for path in (out, report):
        if path is not None:
            refuse_existing(path, force=force)
    found = read_measurements(files, form, gpu_type=gpu_type)
    held = found.profiles
    if report is not None:
        write_report(found, report, force=force)
    if out is not None:
        write_profiles(out, held, force=force)
    _show(
        screen,
        held.profiles,
        **_sets(held),
        **found.accounts(),
        file=None if out is None else str(out),
        report=None if report is None else str(report),
    )
    _say_sets(screen, held)
    screen.say(f"{found.read} rows read, {found.taken} taken")
    for what, counts in (("repaired", found.repaired), ("refused", found.refused)):
        for reason, number in counts.items():
            screen.say(f"  {what} {number}: {reason}")
    for key, text in held.metadata:
        if key != "sha256" and not quiet:
            screen.say(f"{key}: {text}")
    if out is None:
        screen.note("the profiles were not kept; give --out FILE")
    else:
        screen.say(f"written to {out}")
