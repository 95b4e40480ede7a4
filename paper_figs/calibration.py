"""Is what predictors say what happens? Measured against predicted speed of jobs that share a GPU."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from .drawing import Drawing
from .saved import in_order, number, read_table
from .style import COLOURS, LINES, new_figure, short

BINS = 10
POINTS = 300
"""Most points a panel; the predictions are thinned evenly to this."""


def draw(folder: Path) -> Drawing:
    """Measured over predicted speed: one panel a predictor, means of tenths of its predictions.

    Reads ``predictions.csv`` (predictor, measured, predicted).
    """
    path = folder / "predictions.csv"
    table = read_table(path, ("predictor", "measured", "predicted"))
    names = in_order([row["predictor"] for row in table])
    columns = min(4, max(1, len(names)))
    lines = max(1, math.ceil(len(names) / columns))
    figure = new_figure(7.0, 0.4 + 1.95 * lines)
    values = {
        name: np.array(
            [
                (number(path, row, "predicted"), number(path, row, "measured"))
                for row in table
                if row["predictor"] == name
            ]
        )
        for name in names
    }
    low, high = _limits([v for v in values.values() if len(v)])
    rows: list[tuple[object, ...]] = []
    axes = figure.subplots(lines, columns, squeeze=False, sharex=True, sharey=True).ravel()
    for axis, name in zip(axes, names, strict=False):
        points = values[name]
        parts = _parts(points[np.argsort(points[:, 0], kind="stable")])
        thin = points[:: max(1, -(-len(points) // POINTS))]
        axis.plot([low, high], [low, high], color="black", linewidth=0.7, linestyle=(0, (4, 2)))
        axis.plot(
            thin[:, 0], thin[:, 1], linestyle="", marker=".", markersize=2.2, color=COLOURS[5], zorder=1
        )
        x = [float(part[:, 0].mean()) for part in parts]
        y = [float(part[:, 1].mean()) for part in parts]
        down = [float(np.percentile(part[:, 1], 10.0)) for part in parts]
        up = [float(np.percentile(part[:, 1], 90.0)) for part in parts]
        axis.vlines(x, down, up, color=LINES[2], linewidth=1.1, zorder=2)
        axis.plot(x, y, color=LINES[1], marker="o", markersize=3.2, linewidth=1.0, zorder=3)
        error = np.abs(points[:, 0] - points[:, 1]).mean()
        axis.set_title(f"{short(name)}\nMAE {error:.3f}")
        axis.set_xlim(low, high)
        axis.set_ylim(low, high)
        axis.set_aspect("equal")
        axis.grid()
        rows += [
            (name, len(part), a, b, c, d) for part, a, b, c, d in zip(parts, x, y, down, up, strict=True)
        ]
    for i, axis in enumerate(axes):
        if i >= len(names):
            axis.set_axis_off()
        elif i + columns >= len(names):
            axis.tick_params(labelbottom=True)
    figure.supxlabel("predicted speed beside another job, relative to alone", fontsize=8.0)
    figure.supylabel("measured speed", fontsize=8.0)
    return Drawing(
        figure=figure,
        columns=("predictor", "n", "predicted_mean", "measured_mean", "measured_p10", "measured_p90"),
        rows=rows,
    )


def _parts(order: NDArray[np.float64]) -> list[NDArray[np.float64]]:
    """Return about a tenth of the (N, 2) sorted points each; equal predictions stay together."""
    size = max(1, -(-len(order) // BINS))
    parts = []
    start = 0
    while start < len(order):
        end = min(start + size, len(order))
        while end < len(order) and order[end, 0] - order[end - 1, 0] < 1e-9:
            end += 1
        parts.append(order[start:end])
        start = end
    return parts


def _limits(values: list[NDArray[np.float64]]) -> tuple[float, float]:
    """Return what both axes show: all but the most extreme hundredth of the numbers."""
    if not values:
        return 0.0, 1.0
    whole = np.concatenate([v.ravel() for v in values])
    low, high = np.percentile(whole, [0.5, 99.5]).tolist()
    return math.floor(10.0 * low - 1e-9) / 10.0, max(math.ceil(10.0 * high + 1e-9) / 10.0, low + 0.1)
