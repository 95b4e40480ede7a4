"""``eaco-opt library``: instances of graded sizes, and the best that is known of each."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..console import Out, amount, count, duration_text
from . import options as o

if TYPE_CHECKING:
    from instances.library import BestKnown, Entry, Library

FolderOption = Annotated[
    Path | None,
    typer.Option("--library", metavar="DIR", help="A library folder, instead of the one that ships."),
]
GradeOption = Annotated[
    list[str] | None,
    typer.Option(
        "--grade", metavar="GRADE", help="tiny, small, medium, large or paper-scale; may be given again."
    ),
]
NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="See `eaco-opt library list`.")]
NamesArgument = Annotated[
    list[str] | None, typer.Argument(metavar="[NAME]...", help="See `eaco-opt library list`; all without.")
]


def app() -> typer.Typer:
    """Return the group of commands."""
    group = typer.Typer(
        no_args_is_help=True,
        rich_markup_mode=None,
        help="Instances of graded sizes with best known values (docs/library.md). Other commands take "
        "library:NAME for INSTANCE.",
    )
    group.command("list")(list_command)
    group.command("show")(show_command)
    group.command("export")(export_command)
    group.command("verify")(verify_command)
    group.command("submit")(submit_command)
    group.command("measure")(measure_command)
    return group


def _library(folder: Path | None) -> Library:
    from instances.library import Library

    return Library(folder)


def _percent(value: Any) -> str:
    return "-" if value is None else f"{100.0 * value:.3f} %"


def _said(value: BestKnown | None) -> str:
    if value is None:
        return "-"
    return _percent(value.gap) if value.status.value == "gap" else value.status.value


def list_command(
    grade: GradeOption = None,
    family: Annotated[
        str | None, typer.Option("--family", metavar="NAME", help="Only of this generator family.")
    ] = None,
    summary: Annotated[bool, typer.Option("--summary", help="One line a grade.")] = False,
    library: FolderOption = None,
    json: o.JsonFlag = False,
    quiet: o.QuietFlag = False,
) -> None:
    """List the instances, with the gap of the best known schedule for each alpha."""
    screen = Out(json=json, quiet=quiet)
    from instances.library import ALPHAS

    from ..library_check import chosen_entries

    held = _library(library)
    found = [e for e in chosen_entries(held, [], grade or []) if family in (None, e.family)]
    if summary:
        _summary(screen, held, found)
        return
    screen.document({"instances": [_document(held, e) for e in found]})
    rows = [
        [
            e.name,
            e.grade,
            str(e.jobs),
            str(e.nodes),
            str(e.gpus),
            "-" if e.grid_s is None else duration_text(e.grid_s),
            *(_said(held.values.get((e.name, a))) for a in ALPHAS),
        ]
        for e in found
    ]
    heads = ["instance", "grade", "jobs", "nodes", "GPUs", "grid", *(f"alpha {a:g}" for a in ALPHAS)]
    screen.table(heads, rows, left=2)
    screen.note("percentages: gap between the best known schedule and the bound on all schedules")


def _summary(screen: Out, held: Library, found: list[Entry]) -> None:
    from ..library_measure import summary

    rows: list[dict[str, Any]] = summary(held, found)
    screen.document({"grades": rows})

    def span(pair: list[int]) -> str:
        return str(pair[0]) if pair[0] == pair[1] else f"{pair[0]}-{pair[1]}"

    table = [
        [
            r["grade"],
            str(r["instances"]),
            span(r["jobs"]),
            span(r["nodes"]),
            str(r["entries"]),
            str(r["optimal"]),
            str(r["proved_twice"]),
            str(r["gap"]),
            str(r["bound_only"]),
            _percent(r["median_gap"]),
            _percent(r["largest_gap"]),
        ]
        for r in rows
    ]
    heads = [
        "grade", "instances", "jobs", "nodes", "entries", "optimal", "proved twice", "gap", "bound only",
        "median gap", "largest gap",
    ]  # fmt: skip
    screen.table(heads, table)


def _document(held: Library, entry: Entry) -> dict[str, Any]:
    from instances.library import ALPHAS

    values = [held.values[entry.name, a] for a in ALPHAS if (entry.name, a) in held.values]
    return {
        "name": entry.name,
        "grade": entry.grade,
        "family": entry.family,
        "jobs": entry.jobs,
        "nodes": entry.nodes,
        "gpus": entry.gpus,
        "grid_s": entry.grid_s,
        "generator": dict(entry.generator),
        "digest": entry.digest,
        "file": entry.file,
        "best_known": [value.row() for value in values],
    }


def show_command(
    name: NameArgument, library: FolderOption = None, json: o.JsonFlag = False, quiet: o.QuietFlag = False
) -> None:
    """Show an instance: where it comes from, and what is known of it."""
    screen = Out(json=json, quiet=quiet)
    held = _library(library)
    entry = held.entry(o.bare(name))
    document = _document(held, entry)
    screen.document(document)
    grid = "continuous time" if entry.grid_s is None else f"slots of {duration_text(entry.grid_s)}"
    screen.table(
        ["", entry.name],
        [
            ["grade", entry.grade],
            ["size", f"{count(entry.jobs, 'job')}, {count(entry.nodes, 'node')}, {entry.gpus} GPUs"],
            ["values", f"class {entry.schedule_class}, {grid}"],
            ["digest", entry.digest],
            ["file", entry.file or "none: it is generated"],
            ["call", _words(entry)],
        ],
        left=2,
    )
    rows = [
        [
            f"{v['alpha']:g}",
            v["status"],
            amount(v["objective"], 8),
            amount(v["bound"], 8),
            _percent(v["gap"]),
            v["method"] or "-",
            (v["proved_by"] or v["bound_method"] or "-").replace(";", ", "),
            v["date"],
        ]
        for v in document["best_known"]
    ]
    screen.say()
    screen.table(
        ["alpha", "status", "objective", "bound", "gap", "found by", "proved by", "date"], rows, left=2
    )


def _words(entry: Entry) -> str:
    """Return the generator call as a command."""
    call = dict(entry.generator)
    words = ["eaco-opt", "generate", str(call.pop("family"))]
    limits = call.pop("limits", {})
    params = call.pop("params", {})
    for key, value in {**call, **limits}.items():
        words.append("--" + key.replace("_", "-"))
        words += [f"{x:g}" for x in value] if isinstance(value, list) else [str(value)]
    for key, value in params.items():
        words += ["--param", f"{key}={value:g}"]
    return shlex.join(words)


def export_command(
    name: NameArgument,
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="Instance file to write (JSON).")],
    alpha: o.AlphaOption = None,
    schedule: Annotated[
        Path | None,
        typer.Option("--schedule", metavar="FILE", help="File for the best known schedule of --alpha."),
    ] = None,
    library: FolderOption = None,
    force: o.ForceFlag = False,
    json: o.JsonFlag = False,
    quiet: o.QuietFlag = False,
) -> None:
    """Write an instance, and its best known schedule, as files for other programs."""
    screen = Out(json=json, quiet=quiet)
    from eaco_opt.errors import EacoError
    from eaco_opt.io import write_instance, write_schedule
    from eaco_opt.output import refuse_existing

    refuse_existing(out, force=force)
    held = _library(library)
    problem = held.instance(o.bare(name), alpha)
    best = None
    if schedule is not None:
        refuse_existing(schedule, force=force)
        value = held.values.get((problem.name, problem.objective.alpha))
        best = None if value is None else held.best_schedule(value, problem)
        if best is None:
            raise EacoError(
                f"library instance {problem.name!r}: there is no schedule for alpha "
                f"{problem.objective.alpha:g}"
            )
    write_instance(out, problem, force=force)
    if schedule is not None and best is not None:
        write_schedule(schedule, best, problem, force=force)
    screen.document(
        {
            "name": problem.name,
            "digest": held.entry(problem.name).digest,
            "alpha": problem.objective.alpha,
            "file": str(out),
            "schedule": None if schedule is None else str(schedule),
        }
    )
    screen.say(f"{problem.name} written to {out}")
    if schedule is not None:
        screen.say(f"its best known schedule written to {schedule}")


def verify_command(
    names: NamesArgument = None,
    grade: GradeOption = None,
    everything: Annotated[bool, typer.Option("--all", help="All grades, not only tiny and small.")] = False,
    deep: Annotated[
        bool, typer.Option("--deep", help="Prove every optimum again, by each method that is said to have.")
    ] = False,
    library: FolderOption = None,
    json: o.JsonFlag = False,
    quiet: o.QuietFlag = False,
) -> None:
    """Check the library against its own claims; without options the grades tiny and small.

    Instances are generated and read and their digests compared, every best schedule goes through the
    independent checker, objectives are recomputed, bounds worked out anew where that is cheap. Exit code 3
    says that something is not as stated.
    """
    screen = Out(json=json, quiet=quiet)
    if everything and (grade or names):
        raise typer.BadParameter("--all means everything; leave out --grade and names")
    from ..library_check import verify

    grades = grade or ([] if everything or names else ["tiny", "small"])
    screen.warn_of_compiling()
    with screen.progress("verify", total=1) as bar:
        found = verify(
            _library(library),
            [o.bare(name) for name in names or []],
            grades=grades,
            deep=deep,
            tell=lambda text, done, total: bar.at(done, total, text),
        )
    screen.document(found.document())
    screen.say(
        f"{count(found.instances, 'instance')}, {count(found.schedules, 'schedule')} checked, "
        f"{count(found.bounds_proved, 'bound')} worked out anew, {found.bounds_trusted} not"
        + ("" if deep or not found.bounds_trusted else " (--deep proves more)")
    )
    if found.problems:
        rows = [
            [p.instance or "-", "-" if p.alpha is None else f"{p.alpha:g}", p.what, p.text]
            for p in found.problems
        ]
        screen.table(["instance", "alpha", "what", "text"], rows, left=4)
        screen.say(f"NOT as stated: {count(len(found.problems), 'problem')}")
        raise typer.Exit(3)
    screen.say("all as stated")


def submit_command(
    schedule: Annotated[
        Path, typer.Argument(metavar="SCHEDULE", help="Schedule (JSON, or CSV of segments).")
    ],
    instance: Annotated[
        str | None,
        typer.Option("--instance", metavar="NAME", help="Instance, where the file does not name its digest."),
    ] = None,
    alpha: Annotated[
        float | None,
        typer.Option("--alpha", metavar="SHARE", help="Compare for this alpha only: 0.25, 0.5 or 0.75."),
    ] = None,
    method: Annotated[
        str | None,
        typer.Option("--method", metavar="NAME", help="What found it; the file's own word without."),
    ] = None,
    time: Annotated[
        str | None, typer.Option("--time", metavar="DURATION", help="How long finding it took.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="Folder for the submission: schedules and rows."),
    ] = None,
    library: Annotated[
        Path | None,
        typer.Option("--library", metavar="DIR", help="Library folder to compare with and to write into."),
    ] = None,
    force: o.ForceFlag = False,
    json: o.JsonFlag = False,
    quiet: o.QuietFlag = False,
) -> None:
    """Check a schedule, and accept it if it is better than the best known one.

    The installed library is never written: --out writes a submission, --library changes a folder of yours;
    without either nothing is written.
    """
    screen = Out(json=json, quiet=quiet)
    if out is not None and library is not None:
        raise typer.BadParameter("--out writes a submission, --library into a library; give one")
    from instances.library import ALPHAS

    from ..library_check import submit

    if alpha is not None and alpha not in ALPHAS:
        raise typer.BadParameter(f"--alpha: the library has values for {', '.join(map(str, ALPHAS))}")
    entry, found = submit(
        _library(library),
        schedule,
        instance=None if instance is None else o.bare(instance),
        alphas=ALPHAS if alpha is None else (alpha,),
        method=method,
        time_s=None if time is None else o.seconds(time),
        out=out,
        write=library is not None,
        force=force,
    )
    where = out or library
    screen.document(
        {
            "instance": entry.name,
            "accepted": [s.row() for s in found if s.better],
            "not_better": [s.row() for s in found if not s.better],
            "written": None if where is None else str(where),
        }
    )
    for s in found:
        if not s.better:
            said = f"not better: {amount(s.objective, 8)} against {amount(s.best, 8)}"
        elif s.by is None:
            said = f"accepted: {amount(s.objective, 8)}, the first schedule that is known"
        else:
            said = (
                f"accepted: {amount(s.objective, 8)} instead of {amount(s.best, 8)}, better by "
                f"{100.0 * s.by:.4f} %"
            )
        screen.say(f"{entry.name}, alpha {s.alpha:g}: {said}")
    if where is None:
        screen.note("nothing was written; give --out DIR for a submission, or --library DIR")
    else:
        screen.say(f"written to {where}")


def measure_command(
    library: Annotated[
        Path,
        typer.Option("--library", metavar="DIR", help="Library folder to improve; made if it is missing."),
    ],
    names: NamesArgument = None,
    grade: GradeOption = None,
    time_limit: Annotated[
        str | None,
        typer.Option("--time-limit", metavar="DURATION", help="Of each entry; by grade without it."),
    ] = None,
    threads: Annotated[int, typer.Option("--threads", min=1, metavar="N", help="Most threads.")] = 1,
    work: Annotated[
        Path | None,
        typer.Option("--work", metavar="DIR", help="Folder that remembers what is done: go on from there."),
    ] = None,
    seed: o.SeedOption = 0,
    force: Annotated[bool, typer.Option("--force", help="Forget what the folder --work remembers.")] = False,
    json: o.JsonFlag = False,
    quiet: o.QuietFlag = False,
) -> None:
    """Look for better values of entries, and store what is better in a library folder.

    For those who keep a library; a submission is checked by `submit`.
    """
    screen = Out(json=json, quiet=quiet)
    limit = None if time_limit is None else o.seconds(time_limit)
    from ..library_measure import measure

    screen.warn_of_compiling()
    with screen.progress("measure", total=1) as bar:
        rows = measure(
            _library(library),
            [o.bare(name) for name in names or []],
            grades=grade or [],
            time_limit_s=limit,
            seed=seed,
            threads=threads,
            work=work,
            force=force,
            tell=lambda text, done, total: bar.at(done, total, text),
        )
    screen.document({"rows": [row.row() for row in rows]})
    table = [
        [
            r.instance,
            f"{r.alpha:g}",
            r.status.value,
            amount(r.objective, 7),
            amount(r.bound, 7),
            _percent(r.gap),
        ]
        for r in rows
    ]
    screen.table(["instance", "alpha", "status", "objective", "bound", "gap"], table, left=3)
