"""Gantt chart by GPU, one panel a method: jobs that share a GPU split its row among them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise
from pathlib import Path
from typing import NamedTuple

from .active_nodes import nice
from .drawing import Drawing
from .saved import gpu_numbers, in_order, number, read_table, whole
from .style import COLOURS, HATCHES, new_figure, short

MOST_GPUS = 64
"""The first nodes are shown, as many as have no more GPUs than this together."""

MOST_BLOCKS = 1200
"""The time shown ends where a panel would hold more blocks than this."""

MOST_PANELS = 6
MOST_KINDS = len(COLOURS)
OTHER = "other kinds"

_WIDTH_IN = 7.0
_AXES_IN = 5.9
_LABEL_PT = 5.0
_CHARACTER_IN = 0.045


class Run(NamedTuple):
    """A job on some GPUs of one node, times in hours."""

    job: str
    start_h: float
    end_h: float


class Block(NamedTuple):
    """Neighbouring GPUs of a node that host the same jobs for some time.

    Attributes
    ----------
    node, first, gpus
        Position of the node among those shown, first GPU and number of GPUs.
    start_h, end_h
        From and to [h].
    jobs
        Who is there, in order of joining.
    """

    node: int
    first: int
    gpus: int
    start_h: float
    end_h: float
    jobs: tuple[str, ...]


def stretches(runs: Sequence[Run]) -> list[tuple[float, float, tuple[str, ...]]]:
    """Return the times during which a GPU hosts one set of jobs, with the jobs in order of joining.

    Parameters
    ----------
    runs
        All runs on the GPU.
    """
    ordered = sorted(runs, key=lambda r: (r.start_h, r.job))
    times = sorted({t for run in runs for t in (run.start_h, run.end_h)})
    out: list[tuple[float, float, tuple[str, ...]]] = []
    here: list[Run] = []
    at = 0
    for a, b in pairwise(times):
        here = [run for run in here if run.end_h > a]
        while at < len(ordered) and ordered[at].start_h <= a:
            here.append(ordered[at])
            at += 1
        jobs = tuple(run.job for run in here)
        if not jobs:
            continue
        if out and out[-1][1] == a and out[-1][2] == jobs:
            out[-1] = (out[-1][0], b, jobs)
        else:
            out.append((a, b, jobs))
    return out


def blocks(node: int, by_gpu: Sequence[Sequence[Run]]) -> list[Block]:
    """Return the blocks of a node from the runs on each of its GPUs."""
    found: dict[tuple[float, float, tuple[str, ...]], list[int]] = {}
    for gpu, runs in enumerate(by_gpu):
        for stretch in stretches(runs):
            found.setdefault(stretch, []).append(gpu)
    out: list[Block] = []
    for (start, end, jobs), gpus in found.items():
        for _, neighbours in groupby(enumerate(gpus), key=lambda pair: pair[1] - pair[0]):
            numbers = [gpu for _, gpu in neighbours]
            out.append(Block(node, numbers[0], len(numbers), start, end, jobs))
    return sorted(out, key=lambda b: (b.start_h, b.node, b.first))


class _Tables:
    """What is shown of the saved tables."""

    def __init__(self, folder: Path) -> None:
        path = folder / "nodes.csv"
        table = [(row["node"], whole(path, row, "gpus")) for row in read_table(path, ("node", "gpus"))]
        self.cluster = len(table)
        self.nodes: list[tuple[str, int]] = []
        total = 0
        for name, gpus in table:
            if self.nodes and total + gpus > MOST_GPUS:
                break
            self.nodes.append((name, min(gpus, MOST_GPUS)))
            total += gpus
        self.cut_gpus = bool(table) and table[0][1] > MOST_GPUS
        position = {name: i for i, (name, _) in enumerate(self.nodes)}
        path = folder / "segments.csv"
        rows = read_table(path, ("method", "job", "kind", "start_h", "end_h", "node", "gpus"))
        self.methods = in_order([row["method"] for row in rows])
        self.kind = {row["job"]: row["kind"] for row in rows}
        self.end_h = max((number(path, row, "end_h") for row in rows), default=1.0)
        self.blocks: dict[str, list[Block]] = {}
        for method in self.methods[:MOST_PANELS]:
            runs: list[list[list[Run]]] = [[[] for _ in range(gpus)] for _, gpus in self.nodes]
            for row in rows:
                if row["method"] != method or row["node"] not in position:
                    continue
                node = position[row["node"]]
                run = Run(row["job"], number(path, row, "start_h"), number(path, row, "end_h"))
                for gpu in gpu_numbers(path, row["gpus"]):
                    if gpu < len(runs[node]):
                        runs[node][gpu].append(run)
            self.blocks[method] = sorted(
                (b for i, by_gpu in enumerate(runs) for b in blocks(i, by_gpu)),
                key=lambda b: (b.start_h, b.node, b.first),
            )
        cuts = [found[MOST_BLOCKS].start_h for found in self.blocks.values() if len(found) > MOST_BLOCKS]
        # A round time at or below the first cut; the whole run if nothing is cut.
        self.shown_h = self.end_h
        if cuts and min(cuts) > 0.0:
            step = nice(min(cuts) / 10.0)
            self.shown_h = min(self.end_h, max(step, step * int(min(cuts) / step)))

    def notes(self) -> str:
        """Return what is left out, in words."""
        parts = []
        if len(self.nodes) < self.cluster:
            names = f"nodes {short(self.nodes[0][0])} to {short(self.nodes[-1][0])}"
            parts.append(f"first {len(self.nodes)} of {self.cluster} nodes ({names})")
        if self.cut_gpus:
            parts.append(f"first {MOST_GPUS} GPUs of a node")
        if self.shown_h < self.end_h:
            parts.append(f"first {self.shown_h:g} h of {self.end_h:.4g} h")
        if len(self.methods) > MOST_PANELS:
            parts.append(f"first {MOST_PANELS} of {len(self.methods)} rows of the table")
        return "; ".join(parts)


def _pieces(
    found: Sequence[Block], base: Sequence[int], shown_h: float
) -> Iterator[tuple[Block, str, float, float, float]]:
    """Yield (block, job, bottom, height, end) of each rectangle; row k of a panel is [k, k + 1)."""
    for block in found:
        if block.start_h >= shown_h:
            continue
        height = block.gpus / len(block.jobs)
        for place, job in enumerate(block.jobs):
            bottom = base[block.node] + block.first + place * height
            yield block, job, bottom, height, min(block.end_h, shown_h)


def draw(folder: Path) -> Drawing:
    """Who runs where and when, by GPU, with shared GPUs split among the jobs on them.

    Reads ``segments.csv`` and ``nodes.csv`` of a comparison. Colour and hatch tell the kind of job. Of large
    clusters the first nodes are shown, of long runs the first hours, and the title says which.
    """
    from matplotlib.collections import PolyCollection
    from matplotlib.patches import Patch

    tables = _Tables(folder)
    base = [0]
    for _, gpus in tables.nodes:
        base.append(base[-1] + gpus)
    rows = base[-1]
    panels = list(tables.blocks)
    area: Counter[str] = Counter()  # GPU-hours by kind, of what is shown
    for block in (b for found in tables.blocks.values() for b in found):
        for job in block.jobs:
            area[tables.kind[job]] += (block.end_h - block.start_h) * block.gpus / len(block.jobs)  # type: ignore[assignment]
    order = sorted(area, key=lambda kind: (-area[kind], kind))
    named = order if len(order) <= MOST_KINDS else order[: MOST_KINDS - 1]
    looks = {p: i for i, p in enumerate(sorted(named))}
    row_in = min(0.07, max(0.035, 1.6 / max(1, rows)))
    panel_in = max(0.55, rows * row_in)
    figure = new_figure(_WIDTH_IN, 1.0 + len(panels) * (panel_in + 0.28))
    out: list[tuple[object, ...]] = []
    for i, method in enumerate(panels):
        axes = figure.add_subplot(len(panels), 1, i + 1)
        shapes: dict[int, list[list[tuple[float, float]]]] = {}
        best: dict[str, tuple[float, float, float, float, float]] = {}
        for block, job, bottom, height, end in _pieces(tables.blocks[method], base, tables.shown_h):
            start = block.start_h
            look = looks.get(tables.kind[job], MOST_KINDS - 1)
            shapes.setdefault(look, []).append(
                [(start, bottom), (end, bottom), (end, bottom + height), (start, bottom + height)]
            )
            width_in = (end - start) / tables.shown_h * _AXES_IN
            size = (
                min(width_in / (_CHARACTER_IN * (len(short(job)) + 1)), height * row_in / 0.075),
                start,
                end,
                bottom,
                height,
            )
            best[job] = max(best.get(job, size), size)
            out.append(
                (
                    method,
                    tables.nodes[block.node][0],
                    block.first,
                    block.gpus,
                    start,
                    end,
                    job,
                    tables.kind[job],
                    block.jobs.index(job),
                    len(block.jobs),
                )
            )
        for look in sorted(shapes):
            axes.add_collection(
                PolyCollection(
                    shapes[look],
                    facecolor=COLOURS[look],
                    edgecolor="black",
                    linewidth=0.25,
                    hatch=HATCHES[look],
                )
            )
        for job, (fit, start, end, bottom, height) in best.items():
            if fit >= 1.0:
                axes.text(
                    (start + end) / 2.0, bottom + height / 2.0, short(job), ha="center", va="center",
                    fontsize=_LABEL_PT,
                    clip_on=True, bbox={"boxstyle": "square,pad=0.08", "facecolor": "white",
                    "edgecolor": "none"},
                )  # fmt: skip
        for line in base[1:-1]:
            axes.axhline(line, color="#777777", linewidth=0.4)
        every = max(1, -(-len(tables.nodes) * 9 // max(1, int(panel_in * 72))))  # a label needs 9 points
        ticks = [k for k in range(len(tables.nodes)) if k % every == 0]
        axes.set_yticks(
            [(base[k] + base[k + 1]) / 2.0 for k in ticks], [short(tables.nodes[k][0], 12) for k in ticks]
        )
        axes.tick_params(axis="y", length=0)
        axes.set_xlim(0.0, tables.shown_h)
        axes.set_ylim(rows, 0.0)
        axes.set_title(short(method, 60), loc="left", pad=3.0)
        if i + 1 < len(panels):
            axes.set_xticklabels([])
    if panels:
        axes.set_xlabel("time since the earliest release [h]")
        figure.supylabel("node; one row for each of its GPUs", fontsize=8.0)
    handles = [
        Patch(
            facecolor=COLOURS[look],
            hatch=HATCHES[look],
            edgecolor="black",
            linewidth=0.4,
            label=short(kind, 40),
        )
        for kind, look in looks.items()
    ]
    if len(order) > len(named):
        last = MOST_KINDS - 1
        handles.append(
            Patch(facecolor=COLOURS[last], hatch=HATCHES[last], edgecolor="black", linewidth=0.4, label=OTHER)
        )
    notes = tables.notes()
    if handles:
        longest = max(len(str(h.get_label())) for h in handles)
        columns = 4 if longest <= 18 else 3 if longest <= 28 else 2
        figure.legend(
            handles=handles, loc="outside lower center", ncols=min(len(handles), columns),
            frameon=False,
            handleheight=1.2,
        )  # fmt: skip
    figure.suptitle(
        "jobs that share GPUs split the height between them" + (f"; {notes}" if notes else ""), fontsize=7.5
    )
    return Drawing(
        figure=figure,
        columns=(
            "method",
            "node",
            "first_gpu",
            "gpus",
            "start_h",
            "end_h",
            "job",
            "kind",
            "place",
            "sharing",
        ),
        rows=out,
    )
