"""The outcome of an import, and the file that lists its repairs and refusals."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from eaco_opt.errors import FormatError
from eaco_opt.instance import Instance
from eaco_opt.output import write_text

from .columns import RowNote


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceImport:
    """An imported instance and the accounts of the trace's rows.

    Attributes
    ----------
    instance
        The instance.
    read
        Rows in the file; blank lines, comments and a header are no rows.
    taken
        Rows that became jobs; ``read = taken + sum(refused.values())``.
    repaired
        Rows among those taken that were changed, by reason; a row may count under several.
    refused
        Rows not taken, by reason; each row counts once.
    details
        Every repair (of rows taken) and refusal, in order of line.
    """

    instance: Instance
    read: int
    taken: int
    repaired: dict[str, int]
    refused: dict[str, int]
    details: tuple[RowNote, ...]

    def accounts(self) -> dict[str, object]:
        """Return read, taken, repaired and refused as one JSON-ready mapping."""
        return {"read": self.read, "taken": self.taken, "repaired": self.repaired, "refused": self.refused}


class Accounted(Protocol):
    """What came of a file, with the accounts of its rows."""

    @property
    def details(self) -> tuple[RowNote, ...]:
        """Every repair and refusal, in order of line."""
        ...

    def accounts(self) -> dict[str, object]:
        """Return read, taken, repaired and refused as one JSON-ready mapping."""
        ...


def write_report(result: Accounted, path: str | os.PathLike[str], *, force: bool = False) -> None:
    """Write every repair and refusal to a file.

    Parameters
    ----------
    result
        The import of a trace or of measurements.
    path
        ``*.csv``: columns file, line, action, reason, text. ``*.json``: the accounts, and ``details`` with
        the same columns.
    force
        Whether an existing file may be replaced.

    Raises
    ------
    FormatError
        The name ends in something else.
    OutputExistsError
        The file exists and ``force`` is off.
    """
    ending = Path(path).suffix.lower()
    rows = [dataclasses.asdict(note) for note in result.details]
    if ending == ".json":
        text = json.dumps({**result.accounts(), "details": rows}, indent=1, ensure_ascii=False) + "\n"
    elif ending == ".csv":
        out = io.StringIO()
        writer = csv.DictWriter(out, [f.name for f in dataclasses.fields(RowNote)], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        text = out.getvalue()
    else:
        raise FormatError(
            f"report {os.fspath(path)!r}: expected a name that ends in .csv or .json, got {ending!r}"
        )
    write_text(path, text, force=force)
