"""The program ``eaco-opt``: its commands, and what becomes of their errors.

Each command is a file in :mod:`experiments.commands` that imports what it needs when it runs, so that help is
quick. Exit codes: 0 done; 1 internal error; 2 bad input or usage; 3 proved infeasible, or ``check`` found
violations; 4 a limit was reached with nothing found; 130 interrupted. With ``--json`` errors too are one JSON
document on standard output, ``{"error": {...}}``, besides their text on standard error.
"""

from __future__ import annotations

import logging
import os
import sys
import traceback
from collections.abc import Sequence
from typing import Any

import typer

from .commands import (
    bench,
    bound,
    certify,
    check,
    compare,
    describe,
    env,
    explain,
    gap,
    generate,
    importing,
    library,
    methods,
    paper,
    predictors,
    profiles,
    solve,
    study,
)
from .console import Out, clean

INTERNAL, USAGE, INFEASIBLE, NOTHING_FOUND, INTERRUPTED, BROKEN_PIPE = 1, 2, 3, 4, 130, 141

# click's own classes, wherever typer has them from.
_UsageError: Any = typer.BadParameter.__mro__[1]
_ClickException: Any = typer.BadParameter.__mro__[2]


def build() -> typer.Typer:
    """Return the program."""
    app = typer.Typer(
        name="eaco-opt",
        add_completion=False,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
        help="How far from optimal are schedulers that share GPUs to save energy?",
        epilog="--debug before or after a command shows the traceback of an error.",
    )
    app.callback()(_root)
    for name, function, short in (
        ("compare", compare.command, "Several methods on one instance, side by side."),
        ("solve", solve.command, "One method on one instance."),
        ("check", check.command, "Does a schedule keep the rules, and what does it cost?"),
        ("explain", explain.command, "Why an instance has no plan, and what would help."),
        ("bound", bound.command, "What no schedule can undercut."),
        ("certify", certify.command, "A good schedule, and how near it is to the best."),
        ("gap", gap.command, "How far methods are from the optimum on a grid."),
        ("generate", generate.command, "An instance of a family, from a seed."),
        ("import", importing.command, "An instance of a trace."),
        ("describe", describe.command, "What an instance asks for and assumes."),
        ("methods", methods.command, "What there is to run."),
        ("env", env.command, "Versions, for reports and records."),
    ):
        app.command(name, short_help=short)(function)
    for name, group, short in (
        ("profiles", profiles, "The workloads that jobs run."),
        ("predictors", predictors, "How well slowdowns are foretold."),
        ("library", library, "Benchmark instances with best known values."),
        ("paper", paper, "The paper's claims and tables, recomputed."),
        ("study", study, "Ready-made studies."),
        ("bench", bench, "How fast it is."),
    ):
        app.add_typer(group.app(), name=name, short_help=short)
    return app


def _version(wanted: bool) -> None:
    if wanted:
        from eaco_opt import __version__

        sys.stdout.write(f"eaco-opt {__version__}\n")
        raise typer.Exit


def _root(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Print the version."
    ),
) -> None:
    """Take the options before the command."""


def main(args: Sequence[str] | None = None) -> int:
    """Run the program and return its exit code.

    Parameters
    ----------
    args
        The words after the program's name; those of the process without it.
    """
    words = list(sys.argv[1:] if args is None else args)
    debug = "--debug" in words
    words = [word for word in words if word != "--debug"]
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    logging.basicConfig(
        stream=sys.stderr,
        level=logging.DEBUG if debug else logging.WARNING,
        format="%(levelname)s: %(message)s",
    )
    logging.getLogger("matplotlib").setLevel(logging.ERROR)
    logging.getLogger("numba").setLevel(logging.WARNING)
    try:
        code = _run(words, debug)
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read our output has left; the interpreter would complain once more at its end.
        devnull = os.open(os.devnull, os.O_WRONLY)
        os.dup2(devnull, sys.stdout.fileno())
        return BROKEN_PIPE
    return code


def _run(words: list[str], debug: bool) -> int:
    out = Out(json="--json" in words)
    command = typer.main.get_command(build())
    try:
        with command.make_context("eaco-opt", words) as context:
            command.invoke(context)
        return 0
    except typer.Exit as stop:
        return int(stop.exit_code)
    except (KeyboardInterrupt, typer.Abort):
        return _failed(out, INTERRUPTED, "Interrupted", "interrupted; nothing unfinished was written", debug)
    except BrokenPipeError:
        raise
    except _ClickException as error:
        where = getattr(error, "ctx", None)
        if not words or type(error).__name__ == "NoArgsIsHelpError":
            sys.stderr.write(error.format_message() + "\n")
            return USAGE
        hint = f"; `{where.command_path} --help` lists what there is" if where is not None else ""
        return _failed(out, USAGE, "UsageError", error.format_message().rstrip(".") + hint, debug)
    except (ValueError, OSError) as error:
        from eaco_opt.errors import EacoError

        if isinstance(error, EacoError):
            return _failed(out, USAGE, type(error).__name__, str(error), debug)
        if isinstance(error, OSError):
            return _failed(out, USAGE, type(error).__name__, _os_text(error), debug)
        return _internal(out, error, debug)
    except MemoryError:
        return _failed(out, INTERNAL, "MemoryError", "out of memory; try a smaller instance", debug)
    except Exception as error:
        return _internal(out, error, debug)


def _os_text(error: OSError) -> str:
    """Return what the system says, with the file it is about."""
    if error.filename is not None and error.strerror:
        return f"{os.fspath(error.filename)!r}: {error.strerror}"
    return str(error) or type(error).__name__


def _internal(out: Out, error: BaseException, debug: bool) -> int:
    text = f"internal error: {error or type(error).__name__}"
    if not debug:
        text += " (the same command with --debug shows where)"
    return _failed(out, INTERNAL, type(error).__name__, text, debug)


def _failed(out: Out, code: int, kind: str, text: str, debug: bool) -> int:
    if debug:
        traceback.print_exc()
    out.document({"error": {"type": kind, "message": text, "exit_code": code}})
    sys.stderr.write(f"error: {clean(text)}\n")
    return code


if __name__ == "__main__":
    sys.exit(main())
