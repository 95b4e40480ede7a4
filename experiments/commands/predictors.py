"""``eaco-opt predictors``: how well the slowdown of jobs that share a GPU is foretold."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..console import Out
from . import options as o


def app() -> typer.Typer:
    """Return the group of commands."""
    group = typer.Typer(
        no_args_is_help=True,
        rich_markup_mode=None,
        help="Predict how fast jobs run beside others, and test it on pairs that were measured.",
    )
    group.command("list")(list_command)
    group.command("evaluate")(evaluate_command)
    return group


def list_command(json: o.JsonFlag = False, quiet: o.QuietFlag = False) -> None:
    """List the predictors, for --truth and --history."""
    screen = Out(json=json, quiet=quiet)
    from eaco_opt.errors import PartError
    from instances.predictors import PREDICTORS

    rows = []
    for name in PREDICTORS:
        try:
            part = PREDICTORS.get(name)
        except PartError as error:
            rows.append({"name": name, "available": False, "needs_table": None, "text": str(error)})
            continue
        text = PREDICTORS.summary(name)
        rows.append({"name": name, "available": True, "needs_table": part.needs_table, "text": text})
    screen.document({"predictors": rows})
    table = [
        [
            str(row["name"]),
            "yes" if row["needs_table"] else "-" if row["needs_table"] is None else "no",
            str(row["text"]),
        ]
        for row in rows
    ]
    screen.table(["predictor", "table", "what"], table, left=3)


def evaluate_command(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE...", help="Measured pairs: of profiles import, or Gavel's or Lucid's table itself."
        ),
    ],
    form: Annotated[
        str | None,
        typer.Option(
            "--format",
            metavar="gavel|lucid|profiles",
            help="Format of the files; told by their first lines without it.",
        ),
    ] = None,
    leave_out: Annotated[
        str,
        typer.Option(
            "--leave-out", metavar="model|pair", help="What predictors do not learn from at a time."
        ),
    ] = "model",
    predictors: Annotated[
        str | None,
        typer.Option("--predictors", metavar="A,B", help="Names; all that can run without it."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="Folder for scores, predictions and a calibration plot."),
    ] = None,
    force: o.ForceFlag = False,
    json: o.JsonFlag = False,
    quiet: o.QuietFlag = False,
) -> None:
    """Test predictors on pairs that they did not learn from: error, bias, ranks, optimism."""
    screen = Out(json=json, quiet=quiet)
    from instances.measurements import read_measurements
    from instances.predictors import evaluate_predictors, pair_speeds

    from ..predictors import document, write_evaluation
    from ..tables import prepare_folder

    if out is not None:
        prepare_folder(out, force=force)
    names = None if predictors is None else [n.strip() for n in predictors.split(",") if n.strip()]
    measured = read_measurements(files, form)
    with screen.progress("preparing") as bar:
        found = evaluate_predictors(
            pair_speeds(measured), leave_out, names, lambda name, done, total: bar.at(done, total, name)
        )
    shown = document(found, measured)
    if out is not None:
        with screen.progress("drawing"):
            paths = write_evaluation(found, out, force=force)
        shown["files"] = [path.relative_to(out).as_posix() for path in paths]
    screen.document(shown)
    heads = ["predictor", "MAE", "bias", "95 % error", "rank correlation", "optimistic", "n"]
    rows = [
        [
            s.predictor,
            f"{s.mae:.4f}",
            f"{s.bias:+.4f}",
            f"{s.p95:.4f}",
            "-" if s.rank_correlation != s.rank_correlation else f"{s.rank_correlation:.3f}",
            f"{100.0 * s.unsafe_share:.1f} %",
            str(s.n),
        ]
        for s in found.scores
    ]
    screen.table(heads, rows)
    screen.say()
    screen.say(
        f"Errors are of the speed relative to alone, with one {leave_out} at a time left out of learning."
    )
    for key, text in measured.profiles.metadata:
        if key in ("source", "assumption.utilisation") and not quiet:
            screen.say(f"{key}: {text}")
    for name, text in found.missing.items():
        screen.note(f"{name} is left out: {text}")
    if out is not None:
        screen.say(f"written to {out}: {', '.join(shown['files'])}")
