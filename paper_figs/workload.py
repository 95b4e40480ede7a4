"""What an instance asks for: GPUs over time, and how large and how long its jobs are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from .active_nodes import bin_means, nice
from .drawing import Drawing
from .saved import number, read_table, whole
from .style import COLOURS, HATCHES, new_figure, whole_ticks

BINS = 200


def draw(folder: Path) -> Drawing:
    """GPUs asked for over time, GPUs of a job, and exclusive running times.

    Reads ``workload.csv`` (one row a job: release_h, gpus, exclusive_h) and ``nodes.csv``.
    """
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    path = folder / "workload.csv"
    table = read_table(path, ("release_h", "gpus", "exclusive_h"))
    nodes = folder / "nodes.csv"
    cluster = sum(whole(nodes, row, "gpus") for row in read_table(nodes, ("node", "gpus")))
    release = np.array([number(path, row, "release_h") for row in table])
    gpus = np.array([float(whole(path, row, "gpus")) for row in table])
    hours = np.array([number(path, row, "exclusive_h") for row in table])
    time_h, asked = demand(release, gpus, hours)
    end_h = float(time_h[-1]) if len(time_h) else 1.0
    width_h = nice(end_h / BINS)
    edges = np.unique(np.append(np.arange(0.0, end_h, width_h), end_h))
    mean = bin_means(time_h, asked, edges)
    figure = new_figure(7.0, 4.6)
    grid = figure.add_gridspec(2, 2, height_ratios=(1.15, 1.0))
    top = figure.add_subplot(grid[0, :])
    top.stairs(mean, edges, fill=True, color=COLOURS[0], alpha=0.85)
    top.axhline(cluster, color="black", linewidth=0.9, linestyle=(0, (4, 2)))
    label = f"cluster: {cluster} GPU{'s' if cluster != 1 else ''}"
    box = {"boxstyle": "square,pad=0.2", "facecolor": "white", "edgecolor": "none", "alpha": 0.85}
    top.text(0.995, cluster, label, transform=top.get_yaxis_transform(), ha="right", va="center", bbox=box)
    top.set_xlim(0.0, end_h)
    top.set_ylim(0.0, max(cluster * 1.15, float(mean.max(initial=0.0)) * 1.05))
    top.set_title("GPUs in use if each job ran alone from its release")
    top.set_xlabel("time since the earliest release [h]")
    top.set_ylabel(f"GPUs (means over {width_h:g} h)")
    top.grid(axis="y")
    left = figure.add_subplot(grid[1, 0])
    sizes, counts = np.unique(gpus.astype(np.int64), return_counts=True)
    left.bar(range(len(sizes)), counts, color=COLOURS[2], edgecolor="black", linewidth=0.6, hatch=HATCHES[1])
    if len(sizes) <= 12:
        for i, count in enumerate(counts.tolist()):
            left.annotate(
                str(count),
                (i, count),
                (0, 1.5),
                textcoords="offset points",
                ha="center",
                va="bottom",
                fontsize=6.5,
            )
    left.margins(y=0.1)
    every = max(1, -(-len(sizes) // 12))
    left.set_xticks(range(0, len(sizes), every), [str(k) for k in sizes[::every]])
    left.set_xlabel("GPUs of a job")
    left.set_ylabel("jobs")
    left.grid(axis="y")
    whole_ticks(left.yaxis)
    right = figure.add_subplot(grid[1, 1])
    bins = duration_bins(hours)
    number_of, _ = np.histogram(hours, bins)
    right.stairs(
        number_of, bins, fill=True, color=COLOURS[1], edgecolor="black", linewidth=0.6, hatch=HATCHES[2]
    )
    if len(bins) > 1 and bins[0] > 0.0:
        right.set_xscale("log")
        # The usual labels of a logarithmic axis are formulas, which names in figures must not be.
        if bins[-1] < 50.0 * bins[0]:
            right.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        right.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
        right.xaxis.set_minor_formatter(NullFormatter())
    right.set_xlabel("exclusive running time of a job [h]")
    right.set_ylabel("jobs")
    right.grid(axis="y")
    whole_ticks(right.yaxis)
    rows: list[tuple[object, ...]] = [
        ("gpus_over_time", float(a), float(b), float(y))
        for a, b, y in zip(edges, edges[1:], mean, strict=False)
    ]
    rows += [("jobs_by_gpus", int(k), int(k), int(n)) for k, n in zip(sizes, counts, strict=True)]
    rows += [
        ("jobs_by_exclusive_h", float(a), float(b), int(n))
        for a, b, n in zip(bins, bins[1:], number_of, strict=False)
    ]
    return Drawing(figure=figure, columns=("panel", "low", "high", "value"), rows=rows)


def demand(
    release_h: NDArray[np.float64], gpus: NDArray[np.float64], hours: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the step function of GPUs in use if each job ran alone from its release.

    Parameters
    ----------
    release_h, gpus, hours
        (J,) release [h], GPUs and exclusive running time [h]; jobs without one are left out.
    """
    known = np.isfinite(hours)
    times = np.concatenate([release_h[known], (release_h + hours)[known]])
    change = np.concatenate([gpus[known], -gpus[known]])
    at, where = np.unique(times, return_inverse=True)
    return at, np.cumsum(np.bincount(where, weights=change, minlength=len(at)))


def duration_bins(hours: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return edges of a histogram of running times [h]: equal steps on a logarithmic scale."""
    known = hours[np.isfinite(hours)]
    if not len(known):
        return np.array([0.0, 1.0])
    low, high = float(known.min()), float(known.max())
    if high / low < 1.0 + 1e-9:
        low, high = low / 2.0, high * 2.0
    bins: NDArray[np.float64] = np.geomspace(low, high, 31 if len(known) > 100 else 13)
    bins[0], bins[-1] = low, high  # geomspace may miss its ends by a rounding
    return bins
