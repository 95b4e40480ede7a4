"""Best schedule and lower bound over time: how fast the gap closes."""

from __future__ import annotations

import math
from pathlib import Path

from .drawing import Drawing
from .saved import number, read_table
from .style import new_figure, short

ROOM = 0.35
"""Bounds further below the last one than this share of the objectives' range are left out of the picture."""


def draw(folder: Path) -> Drawing:
    """Objective of the best schedule and the lower bound against time, with the gap that is left.

    Reads ``curve.csv`` and ``rows.csv`` of a certification. Time is logarithmic from the first tenth of a
    second on; the methods' own objectives are marks at the left.
    """
    path = folder / "curve.csv"
    table = read_table(path, ("seconds", "objective", "bound"))
    points = [
        (number(path, r, "seconds"), number(path, r, "objective"), number(path, r, "bound")) for r in table
    ]
    rows_path = folder / "rows.csv"
    methods = [
        (r["method"], number(rows_path, r, "objective"), r["certified_gap"] != "")
        for r in read_table(rows_path, ("method", "objective", "certified_gap"))
    ]
    end_s = max((t for t, _, _ in points), default=1.0)
    figure = new_figure(3.4, 2.6)
    axes = figure.subplots()
    least_s = 0.1
    out: list[tuple[str, float, float]] = []
    for name, column, style in (
        ("best schedule", 1, {"color": "#c0392b", "linestyle": "-", "marker": "o"}),
        ("lower bound", 2, {"color": "#1f78b4", "linestyle": (0, (5, 1.5)), "marker": "s"}),
    ):
        known = [(max(least_s, p[0]), float(p[column])) for p in points if not math.isnan(p[column])]
        if not known:
            continue
        known.append((max(end_s, least_s) * 1.05, known[-1][1]))
        x, y = zip(*known, strict=True)
        every = max(1, len(x) // 8)
        axes.step(x, y, where="post", label=name, markersize=3.0, markevery=every, **style)
        out += [(name, a, b) for a, b in known]
    tops = [value for _, value, kept in methods if kept and not math.isnan(value)]
    bounds = [p[2] for p in points if not math.isnan(p[2])]
    if tops and bounds:
        low, high = bounds[-1], max(*tops, bounds[-1])
        room = max(high - low, 1e-9)
        axes.set_ylim(max(min(bounds), low - ROOM * room), high + 0.08 * room)
    lines = sorted(
        (value, name) for name, value, kept in methods if kept and value == value and name != "lns"
    )
    low, high = axes.get_ylim()
    at = -math.inf
    for value, name in lines:
        axes.axhline(value, color="#999999", linewidth=0.6, linestyle=":")
        at = max(value, at + 0.06 * (high - low))  # labels of neighbours move apart
        axes.annotate(
            short(name, 14),
            (1.0, at),
            xycoords=("axes fraction", "data"),
            xytext=(2, 0),
            textcoords="offset points",
            va="center",
            fontsize=6.5,
            color="#333333",
        )
    objectives = [p[1] for p in points if not math.isnan(p[1])]
    if objectives and bounds and bounds[-1] > 0.0:
        gap = 100.0 * (objectives[-1] / bounds[-1] - 1.0)
        axes.set_title(f"certified gap {gap:.2f} %")
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(lambda x, _: f"{x:g}")
    axes.set_xlabel("time [s]")
    axes.set_ylabel("objective")
    axes.grid()
    if out:
        figure.legend(loc="outside upper center", ncols=2, frameon=False)
    return Drawing(figure=figure, columns=("curve", "seconds", "objective"), rows=out)
