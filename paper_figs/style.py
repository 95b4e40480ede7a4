"""One look for all figures: readable in grey, with hatches, line styles and markers besides colour."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLOURS = ("#4477aa", "#ee8866", "#44bb99", "#eedd88", "#aa4499", "#99ddff", "#bbcc33", "#dddddd")
"""Fills, told apart by most kinds of colour-blindness (after Paul Tol) and lighter or darker in grey."""

LINES = ("#222222", "#c0392b", "#1f78b4", "#2e8b57", "#8e44ad", "#b8860b", "#777777", "#d81b9a")
"""Line colours."""

HATCHES = ("", "////", "....", "\\\\\\\\", "xxxx", "oo", "++", "")
DASHES: tuple[Any, ...] = (
    "-",
    (0, (5, 1.5)),
    (0, (1, 1)),
    (0, (6, 1.5, 1, 1.5)),
    (0, (3, 1, 1, 1, 1, 1)),
    "-",
    "--",
    ":",
)
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")

MAX_NAME = 22
"""Longest name that a figure writes out."""

_RC: dict[str, Any] = {
    "pdf.fonttype": 42,
    "ps.fonttype": 42,
    "pdf.compression": 6,
    "svg.hashsalt": "eaco-opt",
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],  # comes with matplotlib, so that every machine draws the same
    "font.size": 8.0,
    "axes.titlesize": 8.5,
    "axes.labelsize": 8.0,
    "xtick.labelsize": 7.5,
    "ytick.labelsize": 7.5,
    "legend.fontsize": 7.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.linewidth": 0.7,
    "grid.linewidth": 0.4,
    "grid.color": "#cccccc",
    "hatch.linewidth": 0.5,
    "lines.linewidth": 1.2,
    "path.simplify": False,
    "text.usetex": False,
    "text.parse_math": False,  # a dollar sign in a name is a dollar sign
    "figure.constrained_layout.use": True,
}


# Settings of windows and programs, which are no part of a look.
_NO_LOOKS = (
    "backend", "date.epoch", "docstring", "figure.max_open_warning", "figure.raise_window", "interactive",
    "keymap", "macosx", "savefig.directory", "tk.", "toolbar", "webagg",
)  # fmt: skip


@contextmanager
def context() -> Iterator[None]:
    """Draw with matplotlib's defaults and this look, whatever the user's own settings; they are put back."""
    import matplotlib

    look: dict[Any, Any] = {
        k: v for k, v in matplotlib.rcParamsDefault.items() if not k.startswith(_NO_LOOKS)
    }
    look.update(_RC)
    with matplotlib.rc_context(look):
        yield


def new_figure(width_in: float, height_in: float) -> Figure:
    """Return a figure of its own, known to no window system and to no global state."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width_in, height_in))
    FigureCanvasAgg(figure)
    return figure


def whole_ticks(axis: Any) -> None:
    """Put ticks of an axis at whole numbers only."""
    from matplotlib.ticker import MaxNLocator

    axis.set_major_locator(MaxNLocator(nbins="auto", steps=[1, 2, 5, 10], integer=True))


def short(name: str, limit: int = MAX_NAME) -> str:
    """Return a name, cut if it is too long for a figure."""
    return name if len(name) <= limit else name[: limit - 1] + "…"
