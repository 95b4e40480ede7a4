"""Scores of predictors as documents and files."""

from __future__ import annotations

import csv
import dataclasses
import io
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from eaco_opt.output import write_text
from instances.measurements import Measurements
from instances.predictors import Evaluation, Scores

COLUMNS = tuple(f.name for f in dataclasses.fields(Scores))
PREDICTIONS = ("predictor", "left_out", "kind", "beside", "measured", "predicted")


def rows(found: Evaluation) -> list[dict[str, Any]]:
    """Return a row for each predictor; a correlation that does not exist is ``None``."""
    out = []
    for scores in found.scores:
        row = dataclasses.asdict(scores)
        if math.isnan(row["rank_correlation"]):
            row["rank_correlation"] = None
        out.append(row)
    return out


def document(found: Evaluation, measured: Measurements) -> dict[str, Any]:
    """Return the JSON document of an evaluation."""
    return {
        "leave_out": found.leave_out,
        "rows": rows(found),
        "missing": dict(found.missing),
        "pairs": sum(len(m.kinds) == 2 for m in measured.profiles.truth.measured),
        "cannot_share": len(measured.profiles.truth.cannot_share),
        "models": len({model for row in found.rows for model in (row.own.model, row.other.model)}),
        "metadata": dict(measured.profiles.metadata),
        **measured.accounts(),
    }


def write_evaluation(found: Evaluation, folder: Path, *, force: bool = False) -> list[Path]:
    """Write scores, predictions and the calibration plot.

    Parameters
    ----------
    found
        The evaluation.
    folder
        An empty folder, or one whose files may be replaced.
    force
        Whether existing files may be replaced.

    Returns
    -------
    list of Path
        ``scores.csv``, ``predictions.csv``, and the figure ``calibration`` in ``figures``.
    """
    from paper_figs import render

    scores = [[row[c] for c in COLUMNS] for row in rows(found)]
    predictions = [
        (name, held, row.own.kind, row.other.kind, row.speed, float(value))
        for name, values in found.predicted.items()
        for held, row, value in zip(found.held_out, found.rows, values, strict=True)
    ]
    written = [
        _write(folder / "scores.csv", COLUMNS, scores, force=force),
        _write(folder / "predictions.csv", PREDICTIONS, predictions, force=force),
    ]
    return written + render("calibration", folder, folder / "figures", force=force)


def _write(path: Path, columns: Sequence[str], lines: Iterable[Sequence[Any]], *, force: bool) -> Path:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(
        ["" if x is None else repr(x) if isinstance(x, float) else x for x in line] for line in lines
    )
    write_text(path, text.getvalue(), force=force)
    return path
