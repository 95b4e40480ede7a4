"""What an instance asks for: GPUs and arrivals over time; sizes, running times and slack of its jobs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from .active_nodes import bin_means, nice
from .drawing import Drawing
from .saved import number, read_table, whole
from .style import COLOURS, HATCHES, new_figure, whole_ticks

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BINS = 200
ARRIVAL_BINS = 60

LOG_FROM = 10.0
"""Slack is shown on a logarithmic scale where the largest is so many times the least."""


def draw(folder: Path) -> Drawing:
    """GPUs asked for and arrivals over time; GPUs, exclusive running times and slack of the jobs.

    Reads ``workload.csv`` (one row a job: release_h, gpus, exclusive_h, deadline_h) and ``nodes.csv``.
    """
    path = folder / "workload.csv"
    table = read_table(path, ("release_h", "gpus", "exclusive_h", "deadline_h"))
    nodes = folder / "nodes.csv"
    cluster = sum(whole(nodes, row, "gpus") for row in read_table(nodes, ("node", "gpus")))
    release = np.array([number(path, row, "release_h") for row in table])
    gpus = np.array([float(whole(path, row, "gpus")) for row in table])
    hours = np.array([number(path, row, "exclusive_h") for row in table])
    deadline = np.array([number(path, row, "deadline_h") for row in table])
    time_h, asked = demand(release, gpus, hours)
    end_h = max(float(time_h[-1]) if len(time_h) else 0.0, float(release.max(initial=0.0))) or 1.0
    width_h = nice(end_h / BINS)
    edges = time_edges(end_h, width_h)
    mean = bin_means(time_h, asked, edges)
    figure = new_figure(7.0, 5.4)
    grid = figure.add_gridspec(3, 6, height_ratios=(1.15, 0.65, 1.0))
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
    middle = figure.add_subplot(grid[1, :])
    last_h = float(release.max(initial=0.0)) or end_h
    step_h = nice(last_h / ARRIVAL_BINS)
    slots = time_edges(last_h, step_h)
    arrivals, _ = np.histogram(release, slots)
    middle.stairs(arrivals, slots, fill=True, color=COLOURS[3], edgecolor="black", linewidth=0.6)
    middle.set_xlim(0.0, last_h)
    middle.set_xlabel("release since the earliest [h]")
    middle.set_ylabel(f"jobs per {step_h:g} h")
    middle.grid(axis="y")
    whole_ticks(middle.yaxis)
    left = figure.add_subplot(grid[2, :2])
    sizes, counts = np.unique(gpus.astype(np.int64), return_counts=True)
    left.bar(range(len(sizes)), counts, color=COLOURS[2], edgecolor="black", linewidth=0.6, hatch=HATCHES[1])
    if len(sizes) <= 8:
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
    every = max(1, -(-len(sizes) // 8))
    left.set_xticks(range(0, len(sizes), every), [str(k) for k in sizes[::every]])
    left.set_xlabel("GPUs of a job")
    left.set_ylabel("jobs")
    left.grid(axis="y")
    whole_ticks(left.yaxis)
    bins = duration_bins(hours)
    number_of = histogram(figure.add_subplot(grid[2, 2:4]), hours, bins, 1, log=bins[0] > 0.0)
    figure.axes[-1].set_xlabel("exclusive running time [h]")
    slack = (deadline - release) / hours
    ranges = slack_bins(slack)
    log = ranges[0] > 0.0 and ranges[-1] >= LOG_FROM * ranges[0]
    jobs_of = histogram(figure.add_subplot(grid[2, 4:]), slack, ranges, 4, log=log)
    figure.axes[-1].set_xlabel("allowed time / running time")
    without = int((~np.isfinite(slack)).sum())
    if without:
        figure.axes[-1].set_title(f"{without} job{'s' if without != 1 else ''} without", fontsize=7)
    rows: list[tuple[object, ...]] = [
        ("gpus_over_time", float(a), float(b), float(y))
        for a, b, y in zip(edges, edges[1:], mean, strict=False)
    ]
    rows += [
        ("releases_over_time", float(a), float(b), int(n))
        for a, b, n in zip(slots, slots[1:], arrivals, strict=False)
    ]
    rows += [("jobs_by_gpus", int(k), int(k), int(n)) for k, n in zip(sizes, counts, strict=True)]
    for panel, ends, found in (("jobs_by_exclusive_h", bins, number_of), ("jobs_by_slack", ranges, jobs_of)):
        rows += [(panel, float(a), float(b), int(n)) for a, b, n in zip(ends, ends[1:], found, strict=False)]
    return Drawing(figure=figure, columns=("panel", "low", "high", "value"), rows=rows)


def time_edges(end_h: float, width_h: float) -> NDArray[np.float64]:
    """Return edges from 0 to the end [h], so far apart; the last part may be shorter."""
    return np.unique(np.append(np.arange(0.0, end_h, width_h), end_h))


def histogram(
    axes: Axes, values: NDArray[np.float64], bins: NDArray[np.float64], style: int, *, log: bool
) -> NDArray[np.int64]:
    """Draw how many jobs lie between successive edges, and return it."""
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

    found, _ = np.histogram(values[np.isfinite(values)], bins)
    axes.stairs(
        found,
        bins,
        fill=True,
        color=COLOURS[style],
        edgecolor="black",
        linewidth=0.6,
        hatch=HATCHES[style + 1],
    )
    if log:
        axes.set_xscale("log")
        # The usual labels of a logarithmic axis are formulas, which names in figures must not be.
        if bins[-1] < 50.0 * bins[0]:
            axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
        axes.xaxis.set_minor_formatter(NullFormatter())
    else:
        axes.xaxis.set_major_locator(MaxNLocator(5))
    axes.set_ylabel("jobs")
    axes.grid(axis="y")
    whole_ticks(axes.yaxis)
    return found


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


def slack_bins(slack: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return edges of a histogram of time until the deadline over running time.

    Steps are equal on a logarithmic scale where the values differ by a factor of :data:`LOG_FROM`, else on a
    linear one.
    """
    known = slack[np.isfinite(slack)]
    if not len(known):
        return np.array([0.0, 1.0])
    low, high = float(known.min()), float(known.max())
    if low > 0.0 and high >= LOG_FROM * low:
        return duration_bins(known)
    if high - low < 1e-4 * max(1.0, abs(high)):  # equal but for whole milliseconds
        low, high = low - 0.5, high + 0.5
    return np.linspace(low, high, 32 if len(known) > 100 else 14)
