"""What a figure is, and how it becomes files: :func:`render`."""

from __future__ import annotations

import csv
import io
import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eaco_opt.output import refuse_existing, write_bytes, write_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMATS = ("pdf", "png")
PNG_DPI = 150

# Metadata that would change from run to run or from version to version is left out.
_METADATA: dict[str, dict[str, Any]] = {
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
    "png": {"Software": None},
}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Drawing:
    """A drawn figure and the numbers in it.

    Attributes
    ----------
    figure
        The figure; belongs to no window and to no global state.
    columns, rows
        What it shows, as a table.
    """

    figure: Figure
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]


def _cell(value: Any) -> Any:
    if value is None or value != value:
        return ""
    return repr(value) if isinstance(value, float) else value


def render(
    name: str,
    source: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    force: bool = False,
    formats: Sequence[str] = FORMATS,
) -> list[Path]:
    """Draw a figure from saved tables and write it, with a CSV of its numbers beside it.

    Parameters
    ----------
    name
        Name in :data:`paper_figs.FIGURES`.
    source
        Folder with the tables it reads.
    out
        Folder for the files; made if it is missing.
    force
        Whether files there may be replaced.
    formats
        Among ``pdf`` and ``png``.

    Returns
    -------
    list of Path
        The files: one for each format, then the CSV.

    Raises
    ------
    UnknownNameError
        No such figure; the text lists the known ones.
    FormatError
        A table lacks a column or holds something unreadable.
    OutputExistsError
        A file exists and ``force`` is off.
    OSError
        A table is missing, or the disk says no.
    """
    from . import FIGURES
    from .style import context

    draw = FIGURES.get(name)
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    paths = {kind: folder / f"{name}.{kind}" for kind in (*formats, "csv")}
    for path in paths.values():
        refuse_existing(path, force=force)
    with context(), warnings.catch_warnings():
        # Of names in scripts that the font lacks: a box is drawn, the CSV has the name.
        warnings.filterwarnings("ignore", message=r"Glyph .* missing")
        drawing: Drawing = draw(Path(source))
        files: dict[str, bytes] = {}
        for kind in formats:
            buffer = io.BytesIO()
            drawing.figure.savefig(buffer, format=kind, dpi=PNG_DPI, metadata=_METADATA[kind])
            files[kind] = buffer.getvalue()
            drawing.figure.set_layout_engine("none")  # laid out once, the same in every format
    for kind, data in files.items():
        write_bytes(paths[kind], data, force=force)
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(drawing.columns)
    writer.writerows([_cell(value) for value in row] for row in drawing.rows)
    write_text(paths["csv"], text.getvalue(), force=force)
    return list(paths.values())
