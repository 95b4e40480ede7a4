"""Traces that consist of several files: the main file, and its companions in the same folder."""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from eaco_opt.errors import TraceError

from .text import TraceText, printable, read_text

ENDINGS = ("", ".gz", ".xz", ".bz2")
"""What may follow the name of a file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Companion:
    """A file that a trace may have beside its main file.

    Attributes
    ----------
    role
        Name under which the reader finds it.
    pattern
        Of its name, e.g. ``pai_task_table.csv`` or ``openb_node_list_*.csv``; compressed files count too.
    needed
        Whether the trace is useless without it.
    """

    role: str
    pattern: str
    needed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Files:
    """The files of a trace.

    Attributes
    ----------
    main
        Pattern of the name of the main file, by which it is found in a folder.
    companions
        The others.
    """

    main: str
    companions: tuple[Companion, ...]

    def open(
        self, path: str | os.PathLike[str], *, read: Callable[[str | os.PathLike[str]], TraceText] = read_text
    ) -> TraceText:
        """Return the main file with its companions.

        Parameters
        ----------
        path
            The main file, whatever its name, or the folder of all of them.
        read
            Reads one file.

        Raises
        ------
        TraceError
            A file cannot be read, a needed one is not there, or several have the same role.
        """
        main = Path(path)
        try:
            if main.is_dir():
                inside = _one(main, self.main, "main file")
                if inside is None:
                    raise TraceError(
                        f"{printable(str(path))}: expected a file {self.main} in this folder, got none; "
                        "give the "
                        "folder that holds the trace, or its main file"
                    )
                main = inside
            folder = main.parent
            found = {
                c.role: file for c in self.companions if (file := _one(folder, c.pattern, c.role)) is not None
            }
        except (OSError, ValueError) as error:
            if isinstance(error, TraceError):
                raise
            raise TraceError(f"{printable(str(path))}: cannot be read ({error}); check the path") from None
        for companion in self.companions:
            if companion.needed and companion.role not in found:
                raise TraceError(
                    f"{printable(str(main))}: expected the {companion.role} table beside it, a file "
                    f"{companion.pattern}, got none; put it into the folder {printable(str(folder))}"
                )
        beside = {role: read(file) for role, file in found.items() if file != main}
        return read(main).beside(beside)


def _one(folder: Path, pattern: str, role: str) -> Path | None:
    """Return the file of a folder whose name fits, ``None`` if there is none."""
    names = sorted(
        entry.name
        for entry in folder.iterdir()
        if any(fnmatch.fnmatchcase(entry.name, pattern + ending) for ending in ENDINGS)
    )
    if len(names) > 1:
        shown = ", ".join(map(printable, names[:5])) + (", ..." if len(names) > 5 else "")
        raise TraceError(
            f"{printable(str(folder))}: expected one file {pattern} ({role}), got {shown}; name the main "
            "file, or "
            "leave one of them there"
        )
    return folder / names[0] if names else None
