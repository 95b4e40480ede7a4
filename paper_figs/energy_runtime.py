"""Total energy and average runtime by method, as in the EaCO paper's figure 3."""

from __future__ import annotations

import math
from pathlib import Path

from .drawing import Drawing
from .saved import number, read_table
from .style import COLOURS, HATCHES, new_figure, short


def amount(value: float) -> str:
    """Return a number of at least four digits, without an exponent."""
    digits = 3 - math.floor(math.log10(abs(value))) if value else 0
    return f"{value:,.{min(max(digits, 0), 9)}f}"


def change(percent: float) -> str:
    """Return a change in percent with its sign; what rounds to nothing has none."""
    text = f"{percent:+.1f}"
    return "0.0 %" if text in ("+0.0", "-0.0") else f"{text} %"


def draw(folder: Path) -> Drawing:
    """Bars of energy and mean running time (JCT) relative to FIFO.

    Reads ``rows.csv`` of a comparison. Without a row of FIFO the first row with a schedule takes its place,
    and the axes say so.
    """
    path = folder / "rows.csv"
    rows = [
        (row["method"], number(path, row, "energy_kwh"), number(path, row, "mean_jct_h"))
        for row in read_table(path, ("method", "energy_kwh", "mean_jct_h"))
    ]
    known = [row for row in rows if not math.isnan(row[1])]
    base = next(
        (row for row in known if row[0] == "fifo"), known[0] if known else ("none", math.nan, math.nan)
    )
    names = [name for name, _, _ in rows]
    figure = new_figure(7.0, 1.0 + 0.34 * len(rows))
    panels = figure.subplots(1, 2, sharey=True)
    out: list[list[object]] = [[name, energy, None, jct, None] for name, energy, jct in rows]
    for column, axes, title, unit in (
        (1, panels[0], "Total energy", "kWh"),
        (2, panels[1], "Average runtime (mean JCT)", "h"),
    ):
        reference, largest = float(base[column]), 100.0
        for i, row in enumerate(rows):
            value = float(row[column])
            share = 100.0 * value / reference if reference > 0.0 else math.nan
            out[i][2 * column] = share
            if math.isnan(share):
                text = "no schedule" if math.isnan(value) else f"{amount(value)} {unit}"
                axes.text(1.0, i, text, va="center", color="#555555")
                continue
            axes.barh(
                i,
                share,
                height=0.7,
                color=COLOURS[i % len(COLOURS)],
                hatch=HATCHES[i % len(HATCHES)],
                edgecolor="black",
                linewidth=0.6,
            )
            text = f"{amount(value)} {unit}" if row is base else change(share - 100.0)
            box = {"boxstyle": "square,pad=0.15", "facecolor": "white", "edgecolor": "none"}
            axes.annotate(text, (share, i), (6.0, 0.0), textcoords="offset points", va="center", bbox=box)
            largest = max(largest, share)
        axes.axvline(100.0, color="black", linewidth=0.7, linestyle=(0, (4, 2)))
        axes.set_xlim(0.0, largest * 1.32)
        axes.set_title(title)
        axes.set_xlabel(f"relative to {short(base[0])} [%]")
        axes.grid(axis="x")
    panels[0].set_yticks(range(len(rows)), [short(name) for name in names])
    panels[0].set_ylim(len(rows) - 0.4, -0.6)
    return Drawing(
        figure=figure,
        columns=(
            "method",
            "energy_kwh",
            "energy_relative_percent",
            "mean_jct_h",
            "mean_jct_relative_percent",
        ),
        rows=out,
    )
