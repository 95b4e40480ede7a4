"""The attainable frontier: least energy by mean running time, with methods and the paper's claim on it."""

from __future__ import annotations

import math
from pathlib import Path

from .drawing import Drawing
from .saved import in_order, number, read_table
from .style import DASHES, LINES, MARKERS, new_figure, short

ROOM_PERCENT = 3.0


def draw(folder: Path) -> Drawing:
    """Curves of the least change of energy by change of mean running time, one a variant of the tables.

    Reads ``frontier.csv`` and ``points.csv`` of the study ``frontier``. Nothing lies below a curve.
    """
    curve_path, point_path = folder / "frontier.csv", folder / "points.csv"
    table = read_table(curve_path, ("variant", "runtime_percent", "energy_percent"))
    points = [
        (
            row["name"],
            row["kind"],
            number(point_path, row, "runtime_percent"),
            number(point_path, row, "energy_percent"),
        )
        for row in read_table(point_path, ("name", "kind", "runtime_percent", "energy_percent"))
    ]
    figure = new_figure(7.0, 3.6)
    axes = figure.subplots()
    out: list[tuple[str, str, float, float]] = []
    lowest = 0.0
    for i, variant in enumerate(in_order([row["variant"] for row in table])):
        mine = [row for row in table if row["variant"] == variant]
        x = [number(curve_path, row, "runtime_percent") for row in mine]
        y = [number(curve_path, row, "energy_percent") for row in mine]
        lowest = min(lowest, *y)
        main = i == 0
        axes.plot(
            x,
            y,
            label=f"bound, {variant}",
            color=LINES[i % len(LINES)],
            linestyle=DASHES[i % len(DASHES)],
            linewidth=1.8 if main else 0.9,
        )
        out += [("curve", variant, a, b) for a, b in zip(x, y, strict=True)]
        if main:
            floor = min(lowest, *(p[3] for p in points)) - 20.0
            axes.fill_between(x, y, floor, color="#dddddd", linewidth=0.0)
    groups = {"policy": "policies", "search": "search (offline)", "claim": "the paper's claim"}
    for k, (kind, text) in enumerate(groups.items()):
        shown = [p for p in points if p[1] == kind and not math.isnan(p[3])]
        if not shown:
            continue
        axes.plot(
            [p[2] for p in shown],
            [p[3] for p in shown],
            linestyle="none",
            marker="*" if kind == "claim" else MARKERS[k],
            markersize=11.0 if kind == "claim" else 5.5,
            color=("#1f78b4", "#2e8b57", "#c0392b")[k],
            markeredgecolor="black",
            markeredgewidth=0.5,
            label=text,
            zorder=3,
        )
        out += [(p[1], p[0], p[2], p[3]) for p in shown]
    labels: dict[tuple[float, float], list[str]] = {}
    for name, kind, x_value, y_value in points:
        if kind != "search" and not math.isnan(y_value):
            labels.setdefault((round(x_value, 1), round(y_value, 1)), []).append(short(name, 16))
    for (x_value, y_value), names in labels.items():
        box = {"boxstyle": "square,pad=0.15", "facecolor": "white", "edgecolor": "none", "alpha": 0.8}
        text = ", ".join(names)
        axes.annotate(text, (x_value, y_value), xytext=(8, 6), textcoords="offset points", bbox=box)
    right = max((p[2] for p in points), default=0.0) + ROOM_PERCENT
    axes.set_xlim(-1.0, max(right, 12.0))
    axes.set_ylim(min(lowest, *(p[3] for p in points), 0.0) - ROOM_PERCENT, ROOM_PERCENT)
    axes.set_xlabel("mean running time relative to FIFO [%]")
    axes.set_ylabel("energy relative to FIFO [%]")
    axes.grid()
    figure.legend(loc="outside right upper", frameon=False)
    return Drawing(figure=figure, columns=("what", "name", "runtime_percent", "energy_percent"), rows=out)
