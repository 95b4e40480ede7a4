"""Our FIFO against Gavel's, written again here as rounds, on a real trace; and what fragmentation costs.

Gavel's FIFO ignores nodes and decides in rounds of 360 s: at each boundary jobs start in order of arrival
until the first that does not fit; running jobs keep their GPUs; a GPU freed inside a round idles to its
end; a job that completes inside a round counts with its real time. The reference reads trace and
throughputs by itself.
"""

from __future__ import annotations

import csv
import heapq
import re
from pathlib import Path

import pytest

from eaco_opt.policies import make_policy
from eaco_opt.simulator import Simulation, simulate
from instances import ImportOptions, import_trace

ROUND_S = 360.0
CAP_S = 86400.0
DOCS = Path(__file__).resolve().parents[2] / "docs" / "policies.md"


def read_jobs(folder: Path, count: int) -> list[tuple[int, float]]:
    """(GPUs, running time alone [s]) of the first jobs of trace ee9e8c, capped at 24 h."""
    alone: dict[tuple[str, int], float] = {}
    with (folder / "v100_throughputs.csv").open(encoding="utf-8") as lines:
        for row in csv.DictReader(lines):
            if not row["partner_model"]:
                alone[row["model"], int(row["gpus"])] = float(row["steps_per_s"])
    rows = []
    for line in (folder / "ee9e8c.trace").read_text(encoding="utf-8").splitlines():
        model, _, _, _, steps, arrival, gpus = line.split("\t")
        rate = alone.get((model, int(gpus)), 0.0)
        if rate > 0.0:
            rows.append((float(arrival), int(gpus), min(CAP_S, int(steps) / rate)))
    rows.sort(key=lambda row: row[0])
    return [(gpus, seconds) for _, gpus, seconds in rows[:count]]


def gavel_fifo(jobs: list[tuple[int, float]], gpus: int, round_s: float = ROUND_S) -> tuple[float, float]:
    """Mean completion time and makespan [s] of Gavel's FIFO with all jobs there at 0."""
    free, start, ends = gpus, 0.0, list[float]()
    running: list[tuple[float, int]] = []
    waiting = list(reversed(jobs))
    while waiting or running:
        while running and running[0][0] <= start:
            free += heapq.heappop(running)[1]
        while waiting and waiting[-1][0] <= free:
            asked, seconds = waiting.pop()
            free -= asked
            ends.append(start + seconds)
            heapq.heappush(running, (start + seconds, asked))
        start += round_s
    return sum(ends) / len(ends), max(ends)


def fifo(folder: Path, count: int, nodes: int, gpus_per_node: int) -> Simulation:
    options = ImportOptions(
        mapping="native",  # type: ignore[arg-type]
        release="zero",  # type: ignore[arg-type]
        nodes=nodes,
        gpus_per_node=gpus_per_node,
        jobs=count,
        max_duration_s=CAP_S,
        throughputs=folder / "v100_throughputs.csv",
    )
    return simulate(import_trace("gavel", folder / "ee9e8c.trace", options).instance, make_policy("fifo"), 0)


def test_the_reference_by_hand() -> None:
    """4 GPUs, rounds of 10 s; jobs of (3 GPUs, 15 s), (2, 5 s), (1, 5 s), (4, 1 s).

    Round 0: the first; the second does not fit and stops the line, though the third would. It ends at 15 s,
    so rounds 10 and 20: the second and the third start at 20 s, end at 25 s; the fourth starts at 30 s,
    ends at 31 s.
    """
    jobs = [(3, 15.0), (2, 5.0), (1, 5.0), (4, 1.0)]
    assert gavel_fifo(jobs, 4, 10.0) == ((15.0 + 25.0 + 25.0 + 31.0) / 4, 31.0)


def test_the_trace_is_read_alike(data_dir: Path) -> None:
    """Reader and reference agree on the jobs: GPUs and running times, in order."""
    folder = data_dir / "gavel"
    done = fifo(folder, 500, 1, 512)
    tau = done.instance.arrays().tau_s[:, 0]
    ours = [(j.gpus, j.epochs * float(t)) for j, t in zip(done.instance.jobs, tau, strict=True)]
    theirs = read_jobs(folder, 500)
    assert [g for g, _ in ours] == [g for g, _ in theirs]
    assert [s for _, s in ours] == pytest.approx([s for _, s in theirs], rel=1e-9)


@pytest.mark.parametrize("gpus", [224, 512])
@pytest.mark.parametrize("count", [200, 500, 1000])
def test_gavels_fifo(data_dir: Path, count: int, gpus: int) -> None:
    """On one node of all GPUs: the mean JTT within 3 %, the makespan too; ours earlier, having no rounds.

    As rounds shrink to 1 s the two become one.
    """
    folder = data_dir / "gavel"
    done = fifo(folder, count, 1, gpus).evaluation
    jobs = read_jobs(folder, count)
    mean_s, makespan_s = gavel_fifo(jobs, gpus)
    assert 0.97 * mean_s <= done.mean_jtt_s <= mean_s
    assert 0.97 * makespan_s <= done.makespan_s <= makespan_s
    mean_s, makespan_s = gavel_fifo(jobs, gpus, 1.0)
    assert done.mean_jtt_s == pytest.approx(mean_s, rel=1e-4)
    assert done.makespan_s == pytest.approx(makespan_s, rel=1e-4)


def fragmentation_cost(folder: Path, count: int, gpus: int) -> tuple[float, float]:
    """By how much 8-GPU nodes lengthen FIFO's mean JTT and makespan against one node of all GPUs,
    fractions.
    """
    whole = fifo(folder, count, 1, gpus).evaluation
    nodes = fifo(folder, count, gpus // 8, 8).evaluation
    return nodes.mean_jtt_s / whole.mean_jtt_s - 1.0, nodes.makespan_s / whole.makespan_s - 1.0


@pytest.mark.parametrize("gpus", [224, 512])
@pytest.mark.parametrize("count", [200, 500, 1000])
def test_cost_of_fragmentation(data_dir: Path, count: int, gpus: int) -> None:
    """docs/policies.md says what 8-GPU nodes cost; a gang that needs one node or whole nodes waits longer."""
    jtt, makespan = fragmentation_cost(data_dir / "gavel", count, gpus)
    assert jtt > 0.0 and makespan > 0.0
    row = rf"\| {count:,} \| {gpus} \| \+([\d.]+) % \| \+([\d.]+) % \|"
    found = re.search(row, DOCS.read_text(encoding="utf-8"))
    assert found, row
    assert (float(found[1]), float(found[2])) == (round(100 * jtt, 1), round(100 * makespan, 1))
