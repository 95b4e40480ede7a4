"""Active nodes over time by method, as in the EaCO paper's figure 4."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from .drawing import Drawing
from .saved import in_order, number, read_table, whole
from .style import DASHES, LINES, MARKERS, new_figure, short, whole_ticks

MOST_STEPS = 300
"""Curves with more changes than this are shown as means over :data:`BINS` equal times."""

BINS = 150
NICE_H = (1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10)


def nice(value: float) -> float:
    """Return the least round number that is not below a positive one."""
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in (*NICE_H, 10.0 * NICE_H[0]) if step * power >= value * (1.0 - 1e-12))


def bin_means(
    time_h: NDArray[np.float64], nodes: NDArray[np.float64], edges_h: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the mean of a step function between successive edges.

    Parameters
    ----------
    time_h, nodes
        (C,) times of change, ascending [h], and the value from each on; 0 before the first.
    edges_h
        (B + 1,) edges, ascending [h].
    """
    if not len(time_h):
        return np.zeros(len(edges_h) - 1)
    area = np.concatenate([[0.0], np.cumsum(nodes[:-1] * np.diff(time_h))])
    at = np.searchsorted(time_h, edges_h, side="right") - 1
    inside = np.maximum(at, 0)
    total = np.where(at < 0, 0.0, area[inside] + nodes[inside] * (edges_h - time_h[inside]))
    result: NDArray[np.float64] = np.diff(total) / np.diff(edges_h)
    return result


def draw(folder: Path) -> Drawing:
    """Number of active nodes over time, one line a method.

    Reads ``active_nodes.csv`` and ``nodes.csv`` of a comparison. Curves with very many changes are shown as
    means over equal times, and the axis says so.
    """
    path = folder / "active_nodes.csv"
    table = read_table(path, ("method", "time_h", "active_nodes"))
    cluster = len(read_table(folder / "nodes.csv", ("node", "gpus")))
    curves: dict[str, tuple[NDArray[np.float64], NDArray[np.float64]]] = {}
    for method in in_order([row["method"] for row in table]):
        mine = [row for row in table if row["method"] == method]
        curves[method] = (
            np.array([number(path, row, "time_h") for row in mine]),
            np.array([float(whole(path, row, "active_nodes")) for row in mine]),
        )
    end_h = max((float(t[-1]) for t, _ in curves.values() if len(t)), default=1.0) or 1.0
    averaged = max((len(t) for t, _ in curves.values()), default=0) > MOST_STEPS
    width_h = nice(end_h / BINS)
    figure = new_figure(7.0, 3.0)
    axes = figure.subplots()
    out: list[tuple[str, float, float]] = []
    for i, (method, (time_h, nodes)) in enumerate(curves.items()):
        if averaged:
            last = float(time_h[-1])
            edges = np.unique(np.append(np.arange(0.0, last, width_h), last))
            x, y = edges, np.append(bin_means(time_h, nodes, edges), 0.0)
        else:
            x, y = np.concatenate([[0.0], time_h]), np.concatenate([[0.0], nodes])
        out += [(method, float(a), float(b)) for a, b in zip(x, y, strict=True)]
        axes.step(
            x,
            y,
            where="post",
            label=short(method),
            color=LINES[i % len(LINES)],
            linestyle=DASHES[i % len(DASHES)],
            marker=MARKERS[i % len(MARKERS)],
            markersize=3.5,
            # Spread in both directions, so that markers of curves that coincide do not.
            markevery=(max(1, i * len(x) // (12 * max(1, len(curves)))), max(1, len(x) // 12)),
        )
    axes.axhline(cluster, color="#555555", linewidth=0.8, linestyle=":")
    axes.text(
        1.0, cluster, f"cluster: {cluster} node{'s' if cluster != 1 else ''} ",
        transform=axes.get_yaxis_transform(),
        ha="right", va="bottom", color="#555555",
    )  # fmt: skip
    axes.set_xlim(0.0, end_h * 1.01)
    axes.set_ylim(0.0, cluster * 1.14)
    whole_ticks(axes.yaxis)
    axes.set_xlabel("time since the earliest release [h]")
    axes.set_ylabel(f"active nodes (means over {width_h:g} h)" if averaged else "active nodes")
    axes.grid()
    if curves:
        figure.legend(loc="outside upper center", ncols=min(4, len(curves)), frameon=False)
    return Drawing(figure=figure, columns=("method", "time_h", "active_nodes"), rows=out)
