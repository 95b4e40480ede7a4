"""What the command line prints, and where: results on standard output, everything else on standard error.

With ``--json`` standard output gets exactly one JSON document. Tables are rich's on a terminal, and plain
text of full width in a pipe. Names are printed as text, never as markup.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .jsontext import json_text


def clean(text: str) -> str:
    """Return text that a terminal shows as it is: what is not printable is written as an escape."""
    return "".join(
        c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode("ascii") for c in text
    )


def amount(value: float | None, digits: int = 5) -> str:
    """Return a number with at least so many digits that mean something, and no exponent; a dash for none."""
    if value is None:
        return "-"
    if value == 0.0:
        return "0"
    decimals = digits - 1 - math.floor(math.log10(abs(value)))
    return f"{value:,.{min(max(decimals, 0), 9)}f}"


def count(number: int, noun: str) -> str:
    """Return a number with its noun, e.g. ``1 node`` and ``2 nodes``."""
    return f"{number} {noun}" + ("" if number == 1 else "s")


def percent(value: float | None) -> str:
    """Return a signed percentage, a dash for none; what rounds to nothing has no sign."""
    if value is None:
        return "-"
    text = f"{value:+.1f}"
    return "0.0 %" if text in ("+0.0", "-0.0") else f"{text} %"


def duration_text(seconds: float) -> str:
    """Return a time with its unit."""
    if seconds < 1.0:
        return f"{1000.0 * seconds:.3g} ms"
    if seconds < 120.0:
        return f"{seconds:.3g} s"
    return f"{seconds / 60.0:.3g} min" if seconds < 7200.0 else f"{seconds / 3600.0:.3g} h"


class Out:
    """Where a command writes.

    Parameters
    ----------
    json
        Print one JSON document instead of text.
    quiet
        Leave out notes and progress; results and errors stay.
    """

    def __init__(self, *, json: bool = False, quiet: bool = False) -> None:
        self.json = json
        self.quiet = quiet

    def document(self, value: Mapping[str, Any]) -> None:
        """Print the document of a command, if JSON was asked for."""
        if self.json:
            sys.stdout.write(json_text(value))
            sys.stdout.flush()

    def say(self, text: str = "") -> None:
        """Print a line of the result for people."""
        if not self.json:
            sys.stdout.write(clean(text) + "\n")

    def note(self, text: str) -> None:
        """Print a remark on standard error."""
        if not self.quiet:
            sys.stderr.write(clean(text) + "\n")

    def table(
        self, columns: Sequence[str], rows: Sequence[Sequence[str]], *, left: int = 1, title: str = ""
    ) -> None:
        """Print a table for people; never cuts a cell.

        Parameters
        ----------
        columns, rows
            Headings and cells.
        left
            The first so many columns are aligned left, the others right.
        title
            Above it.
        """
        if self.json:
            return
        cells = [[clean(c) for c in row] for row in rows]
        if sys.stdout.isatty():
            self._rich(columns, cells, left, title)
        else:
            self._plain(columns, cells, left, title)

    def _plain(self, columns: Sequence[str], rows: Sequence[Sequence[str]], left: int, title: str) -> None:
        widths = [max(len(r[i]) for r in (columns, *rows)) for i in range(len(columns))]
        lines = [title] if title else []
        for row in (columns, ["-" * w for w in widths], *rows):
            parts = [
                c.ljust(w) if i < left else c.rjust(w)
                for i, (c, w) in enumerate(zip(row, widths, strict=True))
            ]
            lines.append("  ".join(parts).rstrip())
        sys.stdout.write("\n".join(lines) + "\n")

    def _rich(self, columns: Sequence[str], rows: Sequence[Sequence[str]], left: int, title: str) -> None:
        from rich import box
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        console = Console(file=sys.stdout, highlight=False, markup=False, emoji=False)
        widths = [max(len(r[i]) for r in (columns, *rows)) for i in range(len(columns))]
        # As many columns side by side as fit; the left ones are repeated beside the rest.
        room = console.width - sum(w + 3 for w in widths[:left]) - 1
        groups: list[list[int]] = [[]]
        used = 0
        for i in range(left, len(columns)):
            if groups[-1] and used + widths[i] + 3 > room:
                groups.append([])
                used = 0
            groups[-1].append(i)
            used += widths[i] + 3
        for group in groups:
            table = Table(box=box.SIMPLE_HEAD, title=Text(title) if title else None, title_justify="left")
            shown = [*range(left), *group]
            for i in shown:
                # Names may fold; numbers never do.
                table.add_column(
                    Text(columns[i]),
                    justify="left" if i < left else "right",
                    no_wrap=i >= left,
                    overflow="fold",
                )
            for row in rows:
                table.add_row(*(Text(row[i]) for i in shown))
            console.print(table)

    def warn_of_compiling(self) -> None:
        """Say beforehand that the first run takes longer, if the kernels have not been compiled here yet."""
        from importlib.util import find_spec

        spec = find_spec("eaco_opt.kernels")
        folders = (
            [] if spec is None else [Path(p) / "__pycache__" for p in spec.submodule_search_locations or ()]
        )
        if not os.environ.get("NUMBA_CACHE_DIR") and not any(list(f.glob("*.nbc")) for f in folders):
            self.note("compiling the kernels: this happens once and takes about a minute")

    @contextmanager
    def progress(self, text: str, total: float | None = None) -> Iterator[Bar]:
        """Show a bar on a terminal while the block runs; nothing in a pipe or when quiet."""
        if self.quiet or not sys.stderr.isatty():
            yield Bar(None, text)
            return
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        console = Console(file=sys.stderr, markup=False, highlight=False, emoji=False)
        with Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=24),
            TextColumn("{task.completed:.0f}/{task.total:.0f}" if total else "", markup=False),
            TimeElapsedColumn(),
            console=console,
            transient=True,
        ) as shown:
            yield Bar(shown, text, shown.add_task(clean(text), total=total))


class Bar:
    """A progress bar, or none."""

    def __init__(self, progress: Any, text: str, task: Any = None) -> None:
        self._progress = progress
        self._task = task
        self.text = text

    def at(self, done: float, total: float | None = None, text: str | None = None) -> None:
        """Move the bar."""
        if self._progress is not None:
            more: dict[str, Any] = {} if text is None else {"description": clean(text)}
            if total is not None:
                more["total"] = total
            self._progress.update(self._task, completed=done, **more)
