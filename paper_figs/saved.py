"""Reading of the tables that figures are drawn from."""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from pathlib import Path

from eaco_opt.errors import FormatError


def read_table(path: Path, columns: Sequence[str]) -> list[dict[str, str]]:
    """Return the rows of a CSV that has at least the given columns.

    Parameters
    ----------
    path
        The file.
    columns
        What the figure needs.

    Raises
    ------
    FormatError
        A column is missing or a row has too few cells; the text names file and line.
    OSError
        The file cannot be read.
    """
    with open(path, encoding="utf-8", newline="") as file:
        reader = csv.DictReader(file)
        try:
            missing = [c for c in columns if c not in (reader.fieldnames or ())]
            if missing:
                raise FormatError(
                    f"table {str(path)!r}: expected the columns {', '.join(columns)}, {', '.join(missing)} "
                    "missing"
                )
            rows: list[dict[str, str]] = []
            for row in reader:
                if any(row[c] is None for c in columns):
                    raise FormatError(
                        f"table {str(path)!r}, line {reader.line_num}: expected a value in each column"
                    )
                rows.append(row)
        except csv.Error as error:
            raise FormatError(f"table {str(path)!r}, line {reader.line_num}: no CSV: {error}") from None
    return rows


def number(path: Path, row: dict[str, str], column: str) -> float:
    """Return a number of a row, NaN where the cell is empty."""
    text = row[column]
    if not text:
        return math.nan
    try:
        return float(text)
    except ValueError:
        raise FormatError(
            f"table {str(path)!r}: expected a number in column {column!r}, got {text!r}"
        ) from None


def whole(path: Path, row: dict[str, str], column: str) -> int:
    """Return a whole number of a row."""
    try:
        return int(row[column])
    except ValueError:
        raise FormatError(
            f"table {str(path)!r}: expected a whole number in column {column!r}, got {row[column]!r}"
        ) from None


def gpu_numbers(path: Path, text: str) -> list[int]:
    """Return the GPU numbers of ranges such as ``0-3 6``."""
    out: list[int] = []
    for part in text.split():
        first, _, last = part.partition("-")
        try:
            out.extend(range(int(first), int(last or first) + 1))
        except ValueError:
            raise FormatError(
                f"table {str(path)!r}: expected GPU numbers such as 0-3 6, got {text!r}"
            ) from None
    return out


def in_order(values: Sequence[str]) -> list[str]:
    """Return the different values, in order of first appearance."""
    return list(dict.fromkeys(values))
