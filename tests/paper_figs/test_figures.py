"""Figures: what their files are like, and that the numbers in them are those of the tables."""

from __future__ import annotations

import csv
import os
import re
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eaco_opt.errors import FormatError, OutputExistsError, UnknownNameError
from paper_figs import FIGURES, render
from paper_figs.active_nodes import bin_means, nice
from paper_figs.energy_runtime import amount, change
from paper_figs.gantt import MOST_BLOCKS, MOST_GPUS, Block, Run, blocks, stretches
from paper_figs.saved import gpu_numbers, read_table
from paper_figs.style import short
from paper_figs.workload import demand, duration_bins, slack_bins

ROOT = Path(__file__).resolve().parents[2]


def write(path: Path, *rows: str) -> None:
    """Write lines."""
    path.write_text("\n".join(rows) + "\n")


def write_tables(folder: Path, *, nodes: int = 2, jobs: int = 0) -> None:
    """Write the tables of a small comparison; with ``jobs``, of so many short ones on each node."""
    write(
        folder / "rows.csv",
        "method,energy_kwh,mean_jct_h,objective,certified_gap",
        "mine,9,2.2,0.95,0.1",
        "fifo,10,2,1,0.2",
        "none,,,,",
        "$x_1$ [b] a name that is far too long for any figure,12,2,1.1,0.3",
    )
    write(folder / "curve.csv", "seconds,objective,bound", "0,1,", "1.5,1,0.6", "2,0.95,0.8", "9,0.9,0.85")
    write(
        folder / "frontier.csv",
        "variant,runtime_percent,energy_percent",
        *(f"{variant},{x},{-10 * x}" for variant in ("as given", "$x_1$ only") for x in range(4)),
    )
    write(
        folder / "points.csv",
        "name,kind,runtime_percent,energy_percent",
        "fifo,policy,0,0",
        "lns,search,2.5,-20",
        "$x_1$ [b] a name that is far too long for any figure,policy,1,-5",
        "claim,claim,3,-39",
    )
    write(folder / "nodes.csv", "node,node_type,gpus", *(f"n{i},box,8" for i in range(nodes)))
    segments = ["method,job,kind,job_gpus,start_h,end_h,node,gpus"]
    active = ["method,time_h,active_nodes"]
    for method in ("fifo", "mine"):
        segments += [
            f"{method},a,AlexNet,8,0,4,n0,0-7",
            f"{method},b,VGG-16,4,1,2,n0,0-3",
            f"{method},c,$x_1$,2,1,3,n1,1 4",
        ]
        active += [f"{method},0,1", f"{method},1,2", f"{method},3,1", f"{method},4,0"]
        for i in range(jobs):
            segments += [f"{method},{k}-{i},AlexNet,8,{5 + i},{6 + i},n{k},0-7" for k in range(nodes)]
            active += [f"{method},{5 + i},{i % 2 + 1}"]
    write(folder / "segments.csv", *segments)
    write(folder / "active_nodes.csv", *active)
    write(
        folder / "predictions.csv",
        "predictor,measured,predicted",
        *(f"always,{0.5 + 0.05 * i},0.7" for i in range(11)),
        *(f"$x_1$ [b] a name that is far too long,{0.5 + 0.05 * i},{0.6 + 0.04 * i}" for i in range(11)),
    )
    write(
        folder / "workload.csv",
        "job,gpus,release_h,exclusive_h,deadline_h",
        "a,8,0,4,6",
        "b,4,1,1,3",
        "c,2,1,,",
    )


def table(path: Path) -> list[dict[str, str]]:
    """Return the rows of a CSV."""
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with tables and every figure drawn from them."""
    folder = tmp_path_factory.mktemp("figures")
    write_tables(folder)
    for name in FIGURES:
        render(name, folder, folder / "figures")
    return folder


@pytest.mark.parametrize("name", FIGURES.names())
def test_files_and_fonts(drawn: Path, name: str) -> None:
    """Each figure is a vector PDF with Type 42 fonts only, a PNG of fair size and a CSV."""
    pdf, png = ((drawn / "figures" / f"{name}.{kind}").read_bytes() for kind in ("pdf", "png"))
    assert pdf.startswith(b"%PDF")
    assert b"/Type3" not in pdf
    assert b"/FontFile2" in pdf  # TrueType outlines, which is what Type 42 embeds
    assert b"/Subtype /Image" not in pdf  # nothing is rasterised
    assert b"CreationDate" not in pdf
    assert png.startswith(b"\x89PNG")
    width, height = (int.from_bytes(png[i : i + 4], "big") for i in (16, 20))
    assert width in (510, 1050)  # 3.4 or 7 in at 150 dpi: one column or two
    assert 150 <= height <= 1500
    assert table(drawn / "figures" / f"{name}.csv")


@pytest.mark.parametrize("name", FIGURES.names())
def test_same_tables_give_the_same_bytes(drawn: Path, tmp_path: Path, name: str) -> None:
    """Drawn again in this process, nothing changes."""
    for path in render(name, drawn, tmp_path):
        assert path.read_bytes() == (drawn / "figures" / path.name).read_bytes(), path.name


def test_other_processes_give_the_same_bytes(drawn: Path, tmp_path: Path) -> None:
    """Another process, hash seed, time zone and the user's own matplotlib settings change nothing."""
    (tmp_path / "matplotlibrc").write_text("font.size: 20\npdf.fonttype: 3\naxes.facecolor: red\n")
    seed = "1" if os.environ.get("PYTHONHASHSEED") != "1" else "2"
    env = {
        **os.environ,
        "PYTHONHASHSEED": seed,
        "TZ": "Asia/Tokyo",
        "MATPLOTLIBRC": str(tmp_path / "matplotlibrc"),
    }
    code = (
        "import sys\nfrom paper_figs import FIGURES, render\n"
        "for name in FIGURES:\n    render(name, sys.argv[1], sys.argv[2])\n"
        "assert 'matplotlib.pyplot' not in sys.modules\n"
    )
    subprocess.run(
        [sys.executable, "-c", code, str(drawn), str(tmp_path / "o")], cwd=ROOT, env=env, check=True
    )
    names = sorted(p.name for p in (drawn / "figures").iterdir())
    assert names == sorted(p.name for p in (tmp_path / "o").iterdir())
    for name in names:
        assert (tmp_path / "o" / name).read_bytes() == (drawn / "figures" / name).read_bytes(), name


def test_global_settings_are_put_back(drawn: Path, tmp_path: Path) -> None:
    """Drawing leaves the caller's matplotlib as it was."""
    import matplotlib

    before = dict(matplotlib.rcParams)
    with matplotlib.rc_context({"font.size": 33.0}):
        render("workload", drawn, tmp_path)
        assert matplotlib.rcParams["font.size"] == 33.0
    assert dict(matplotlib.rcParams) == before


def test_files_in_the_way(drawn: Path, tmp_path: Path) -> None:
    """Nothing is replaced unless asked, and nothing is written when one file is in the way."""
    (tmp_path / "gantt.csv").write_text("mine")
    with pytest.raises(OutputExistsError, match=r"gantt\.csv"):
        render("gantt", drawn, tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["gantt.csv"]
    render("gantt", drawn, tmp_path, force=True)
    assert (tmp_path / "gantt.csv").read_text() != "mine"


def test_errors_name_the_table(tmp_path: Path) -> None:
    """An unknown figure lists the known; a missing table or column and an odd value name the file."""
    with pytest.raises(UnknownNameError, match="unknown figure 'nope'; known are: energy_runtime"):
        render("nope", tmp_path, tmp_path / "o")
    with pytest.raises(OSError, match=r"rows\.csv"):
        render("energy_runtime", tmp_path, tmp_path / "o")
    write(tmp_path / "rows.csv", "method,energy_kwh", "fifo,1")
    with pytest.raises(FormatError, match=r"rows\.csv.*mean_jct_h missing"):
        render("energy_runtime", tmp_path, tmp_path / "o")
    write(tmp_path / "rows.csv", "method,energy_kwh,mean_jct_h", "fifo,1,two")
    with pytest.raises(FormatError, match=r"rows\.csv.*column 'mean_jct_h', got 'two'"):
        render("energy_runtime", tmp_path, tmp_path / "o")
    write(tmp_path / "rows.csv", "method,energy_kwh,mean_jct_h", "fifo,1")
    with pytest.raises(FormatError, match="line 2: expected a value in each column"):
        read_table(tmp_path / "rows.csv", ("method", "mean_jct_h"))


def test_energy_runtime_numbers(drawn: Path) -> None:
    """Bars are percent of FIFO, which need not come first; a row without a schedule has none."""
    rows = {r["method"]: r for r in table(drawn / "figures" / "energy_runtime.csv")}
    assert float(rows["mine"]["energy_relative_percent"]) == pytest.approx(90.0)
    assert float(rows["mine"]["mean_jct_relative_percent"]) == pytest.approx(110.0)
    assert float(rows["fifo"]["energy_relative_percent"]) == 100.0
    assert rows["none"]["energy_relative_percent"] == ""


def test_calibration_numbers(drawn: Path) -> None:
    """Equal predictions are one point; others are means of tenths, here of two rows each."""
    rows = table(drawn / "figures" / "calibration.csv")
    (always,) = [r for r in rows if r["predictor"] == "always"]
    assert (int(always["n"]), float(always["predicted_mean"])) == (11, pytest.approx(0.7))
    # 0.5, 0.55, ..., 1: mean 0.75, tenth and ninetieth percentile at the second and the last but one.
    assert float(always["measured_mean"]) == pytest.approx(0.75)
    assert (float(always["measured_p10"]), float(always["measured_p90"])) == (
        pytest.approx(0.55),
        pytest.approx(0.95),
    )
    other = [r for r in rows if r["predictor"] != "always"]
    assert [int(r["n"]) for r in other] == [2, 2, 2, 2, 2, 1]
    assert float(other[0]["predicted_mean"]) == pytest.approx(0.62)
    assert float(other[0]["measured_mean"]) == pytest.approx(0.525)


def test_active_nodes_numbers(drawn: Path) -> None:
    """A short curve is shown as it is."""
    rows = [r for r in table(drawn / "figures" / "active_nodes.csv") if r["method"] == "fifo"]
    assert [(float(r["time_h"]), float(r["active_nodes"])) for r in rows[-4:]] == [
        (0, 1),
        (1, 2),
        (3, 1),
        (4, 0),
    ]


def test_long_curves_are_averaged(tmp_path: Path) -> None:
    """Of more than 300 changes means over equal times are shown; their area is that of the curve."""
    write_tables(tmp_path, jobs=1000)
    render("active_nodes", tmp_path, tmp_path / "o")
    rows = [r for r in table(tmp_path / "o" / "active_nodes.csv") if r["method"] == "fifo"]
    times = [float(r["time_h"]) for r in rows]
    assert len(rows) <= 152
    area = sum(float(r["active_nodes"]) * (b - a) for r, a, b in zip(rows, times, times[1:], strict=False))
    # 1 + 2 * 2 + 1 node-hours until 4 h, none until 5 h, then 1 and 2 nodes in turns for 999 h.
    assert area == pytest.approx(1 + 4 + 1 + 500 * 1 + 499 * 2)


def test_gantt_numbers(drawn: Path) -> None:
    """Rectangles: a shares its GPUs 0-3 with b from 1 to 2 h and has GPUs 4-7 to itself."""
    rows = [r for r in table(drawn / "figures" / "gantt.csv") if r["method"] == "fifo" and r["node"] == "n0"]
    got = {
        (
            r["job"],
            int(r["first_gpu"]),
            int(r["gpus"]),
            float(r["start_h"]),
            float(r["end_h"]),
            int(r["sharing"]),
        )
        for r in rows
    }
    assert got == {
        ("a", 4, 4, 0.0, 4.0, 1),
        ("a", 0, 4, 0.0, 1.0, 1),
        ("a", 0, 4, 1.0, 2.0, 2),
        ("b", 0, 4, 1.0, 2.0, 2),
        ("a", 0, 4, 2.0, 4.0, 1),
    }
    scattered = [
        r for r in table(drawn / "figures" / "gantt.csv") if r["job"] == "c" and r["method"] == "fifo"
    ]
    assert [(int(r["first_gpu"]), int(r["gpus"])) for r in scattered] == [(1, 1), (4, 1)]


def test_gantt_of_a_large_run_is_cut_and_says_so(tmp_path: Path) -> None:
    """The first nodes of at most 64 GPUs and the first hours are shown; the title says which."""
    write_tables(tmp_path, nodes=9, jobs=170)
    (path, _, numbers) = render("gantt", tmp_path, tmp_path / "o")
    rows = table(numbers)
    assert {r["node"] for r in rows} == {f"n{i}" for i in range(MOST_GPUS // 8)}
    assert len([r for r in rows if r["method"] == "fifo"]) <= MOST_BLOCKS
    # 8 blocks an hour from 5 h on: 1200 of them end at about 154 h, cut to a multiple of nice(15.4) = 20 h.
    assert max(float(r["end_h"]) for r in rows) == 140.0
    assert path.stat().st_size < 2_000_000


def pdf_texts(path: Path) -> str:
    """Return the uncompressed streams of a PDF."""
    data = path.read_bytes()
    out = b""
    for part in re.findall(rb"stream\r?\n(.*?)\r?\nendstream", data, re.DOTALL):
        try:
            out += zlib.decompress(part)
        except zlib.error:
            continue
    return out.decode("latin-1").replace("\0", "")  # Type 42 strings have two bytes a letter


def test_dollar_signs_are_no_formulas(drawn: Path) -> None:
    """A name in dollar signs is drawn as it is written: the PDF shows the signs."""
    text = pdf_texts(drawn / "figures" / "energy_runtime.pdf")
    assert "$x_1$" in "".join(re.findall(r"\(((?:[^()\\]|\\.)*)\)", text))


def test_no_figure_draws_formulas(drawn: Path) -> None:
    """Ticks of logarithmic axes, too, are numbers: no text holds markup of formulas."""
    for name in FIGURES:
        assert "mathdefault" not in pdf_texts(drawn / "figures" / f"{name}.pdf"), name


# Pieces -------------------------------------------------------------------------------------------


def test_stretches_by_hand() -> None:
    """b joins a at 1 h and leaves at 2 h; c follows at once; order is that of joining."""
    runs = [Run("a", 0, 3), Run("b", 1, 2), Run("c", 2, 4)]
    assert stretches(runs) == [(0, 1, ("a",)), (1, 2, ("a", "b")), (2, 3, ("a", "c")), (3, 4, ("c",))]
    assert stretches([]) == []
    # One job on the same GPU in two touching segments is one stretch; a gap is a gap.
    assert stretches([Run("a", 0, 1), Run("a", 1, 2), Run("a", 3, 4)]) == [(0, 2, ("a",)), (3, 4, ("a",))]


def test_blocks_join_neighbours_only() -> None:
    """GPUs 0, 1 and 3 host the same: GPU 3 is a block of its own."""
    same = [Run("a", 0, 1)]
    assert blocks(5, [same, same, [], same]) == [Block(5, 0, 2, 0, 1, ("a",)), Block(5, 3, 1, 0, 1, ("a",))]


def test_bin_means_by_hand() -> None:
    """2 until 1 h, then 4 until 2 h, then 0: the mean over [0, 2] is 3, over [1.5, 3] it is 4/3."""
    time_h, nodes = np.array([0.0, 1.0, 2.0]), np.array([2.0, 4.0, 0.0])
    assert bin_means(time_h, nodes, np.array([-1.0, 0.0, 2.0])).tolist() == [0.0, 3.0]
    assert bin_means(time_h, nodes, np.array([1.5, 3.0])) == pytest.approx([4 * 0.5 / 1.5])
    assert bin_means(np.zeros(0), np.zeros(0), np.array([0.0, 1.0])).tolist() == [0.0]


def test_demand_by_hand() -> None:
    """Two jobs of 8 and 4 GPUs overlap from 1 to 2 h; one without a running time is left out."""
    at, asked = demand(np.array([0.0, 1.0, 1.0]), np.array([8.0, 4.0, 2.0]), np.array([4.0, 1.0, np.nan]))
    assert (at.tolist(), asked.tolist()) == ([0.0, 1.0, 2.0, 4.0], [8.0, 12.0, 8.0, 0.0])


def test_duration_bins_hold_every_job() -> None:
    """Edges reach from the shortest to the longest job, also when all are equal or there is none."""
    for hours in (np.array([0.5, 2.0, 70.0]), np.array([3.0, 3.0]), np.geomspace(1e-3, 1e3, 500)):
        bins = duration_bins(hours)
        assert np.histogram(hours, bins)[0].sum() == len(hours)
        assert (np.diff(bins) > 0).all()
    assert duration_bins(np.array([np.nan])).tolist() == [0.0, 1.0]


@pytest.mark.parametrize(
    "slack", [[1.0, 1.3], [2.0, 2.0], [4.0, 4.0 + 1e-8], [-1.0, 0.0, 50.0], [0.1, 3.0, 900.0], [2.0, np.inf]]
)
def test_slack_bins_hold_every_job(slack: list[float]) -> None:
    """Edges reach from the least to the largest slack, equal or below 0 or not, in even steps."""
    values = np.array(slack)
    known = values[np.isfinite(values)]
    bins = slack_bins(values)
    assert np.histogram(known, bins)[0].sum() == len(known)
    steps = np.diff(np.log(bins) if slack[0] == 0.1 else bins)
    assert steps.min() > 0.0 and np.allclose(steps, steps[0])
    assert slack_bins(np.array([np.nan, np.inf])).tolist() == [0.0, 1.0]


def test_workload_counts_by_hand(drawn: Path) -> None:
    """Job a runs 4 h of the 6 h allowed, b 1 h of 2 h, c has no running time: counts by panel."""
    rows = table(drawn / "figures" / "workload.csv")
    total = {
        panel: 0.0 for panel in ("releases_over_time", "jobs_by_gpus", "jobs_by_exclusive_h", "jobs_by_slack")
    }
    for row in rows:
        if row["panel"] in total:
            total[row["panel"]] += float(row["value"])
    assert total == {
        "releases_over_time": 3, "jobs_by_gpus": 3, "jobs_by_exclusive_h": 2, "jobs_by_slack": 2
    }  # fmt: skip
    slack = [row for row in rows if row["panel"] == "jobs_by_slack"]
    assert (float(slack[0]["low"]), float(slack[-1]["high"])) == (1.5, 2.0)


@pytest.mark.parametrize(
    ("value", "text"),
    [(85.837, "85.84"), (22_020.4, "22,020"), (0.39453, "0.3945"), (0.0, "0"), (6.1556, "6.156")],
)
def test_amounts(value: float, text: str) -> None:
    """Four digits at least, and no exponent."""
    assert amount(value) == text


@pytest.mark.parametrize(
    ("value", "text"), [(-34.52, "-34.5 %"), (8.1, "+8.1 %"), (-0.04, "0.0 %"), (0.04, "0.0 %")]
)
def test_changes(value: float, text: str) -> None:
    """What rounds to nothing has no sign."""
    assert change(value) == text


def test_small_pieces() -> None:
    """Round numbers, ranges of GPUs, cut names."""
    assert [nice(x) for x in (0.9, 1.0, 1.1, 2.6, 9.9, 1234.0)] == [1.0, 1.0, 1.5, 3.0, 10.0, 1500.0]
    assert gpu_numbers(Path("t"), "0-2 5") == [0, 1, 2, 5]
    with pytest.raises(FormatError, match="expected GPU numbers such as 0-3 6, got 'x'"):
        gpu_numbers(Path("t"), "x")
    assert (short("a" * 22), short("a" * 23)) == ("a" * 22, "a" * 21 + "…")


def test_every_figure_has_a_summary() -> None:
    """The registry shows a line for each figure."""
    summaries: dict[str, Any] = {name: FIGURES.summary(name) for name in FIGURES}
    assert all(summaries.values())
