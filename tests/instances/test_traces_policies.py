"""Every policy on the shared traces: the independent checker accepts every schedule.

No physical violation; no threshold violation of policies that know U_threshold; as many misses as the
evaluation says; the same energy; every row of the trace scheduled or accounted for before the run.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest

from eaco_opt.checker import CheckReport, check_report
from eaco_opt.errors import ImpossibleJobsError
from eaco_opt.instance import Instance
from eaco_opt.policies import POLICIES, make_policy
from eaco_opt.simulator import Simulation, simulate
from instances import ImportOptions, TraceImport, import_trace

MAPPINGS = ("native", "paper-cnn")
CLUSTERS = {"one-node": (1, 224), "8-gpu-nodes": (28, 8)}
SMALL = ("795a4c", "51b7ef", "2869ce")


@cache
def _import(reader: str, path: Path, **options: Any) -> TraceImport:
    if reader == "gavel":
        options["throughputs"] = path.parent / "v100_throughputs.csv"
    return import_trace(reader, path, ImportOptions(too_large="drop", **options))  # type: ignore[arg-type]


def _accounted(made: TraceImport) -> Instance:
    """Every row was taken, or refused for a reason that is counted."""
    assert made.read == made.taken + sum(made.refused.values())
    assert len(made.instance.jobs) == made.taken > 0
    return made.instance


def _run(instance: Instance, name: str, **options: Any) -> tuple[Simulation, CheckReport]:
    done = simulate(instance, make_policy(name, **options), 7)
    assert done.rejected == () and done.instance is instance
    assert {s.job for s in done.schedule.segments} == {j.name for j in instance.jobs}
    report = check_report(instance, done.schedule)
    assert report.physical_violations == 0, report.violations[:3]
    assert report.deadline_misses == done.evaluation.deadline_misses
    assert bool(report.threshold_violations) == bool(done.evaluation.threshold_violations)
    if name in ("fifo", "eaco") or options.get("obey_u"):
        assert report.threshold_violations == 0
    assert report.energy_j == pytest.approx(done.evaluation.energy_j, rel=1e-9)
    assert report.avg_tpe_s == pytest.approx(done.evaluation.avg_tpe_s, rel=1e-9)
    assert report.mean_jtt_s == pytest.approx(done.evaluation.mean_jtt_s, rel=1e-9)
    if name == "eaco":
        # History = truth: nothing is undone, and only jobs whose deadline was given up miss it.
        assert done.counters["undone"] == 0
        assert done.evaluation.deadline_misses <= done.counters["best_effort"]
    return done, report


@pytest.mark.parametrize("name", list(POLICIES))
@pytest.mark.parametrize("cluster", list(CLUSTERS))
@pytest.mark.parametrize("mapping", MAPPINGS)
@pytest.mark.parametrize("trace", SMALL)
def test_small_gavel_traces(data_dir: Path, trace: str, mapping: str, cluster: str, name: str) -> None:
    """Gavel's small traces with the arrivals of the trace."""
    nodes, gpus = CLUSTERS[cluster]
    made = _import(
        "gavel", data_dir / "gavel" / f"{trace}.trace", mapping=mapping, nodes=nodes, gpus_per_node=gpus
    )
    _run(_accounted(made), name)


@pytest.mark.parametrize("name", list(POLICIES))
@pytest.mark.parametrize("cluster", list(CLUSTERS))
@pytest.mark.parametrize("mapping", MAPPINGS)
@pytest.mark.parametrize("trace", [pytest.param("0e4a51", marks=pytest.mark.slow), "ee9e8c"])
def test_gavel_traces_under_pressure(
    data_dir: Path, trace: str, mapping: str, cluster: str, name: str
) -> None:
    """The first 120 jobs of the large ones, all released at 0: long lines, much sharing."""
    nodes, gpus = CLUSTERS[cluster]
    made = _import(
        "gavel",
        data_dir / "gavel" / f"{trace}.trace",
        mapping=mapping,
        nodes=nodes // 4 or 1,
        gpus_per_node=gpus,
        release="zero",
        jobs=120,
        max_duration_s=86400.0,
    )
    done, _ = _run(_accounted(made), name)
    if name != "fifo" and mapping == "paper-cnn":
        assert max(done.counters.get("packed", 0), done.counters.get("shared", 0)) > 10


@pytest.mark.parametrize("name", list(POLICIES))
@pytest.mark.parametrize("mapping", MAPPINGS)
def test_philly(data_dir: Path, mapping: str, name: str) -> None:
    """The first 3,000 jobs of Philly on 64 nodes of 8 GPUs, in each mapping; 300 for `mpc`."""
    path = data_dir / "philly" / "philly_jobs.csv"
    made = _import("philly-csv", path, mapping=mapping, nodes=64, jobs=300 if name == "mpc" else 3000)
    _run(_accounted(made), name)


@pytest.mark.parametrize("name", ["fifo_packed", "gandiva"])
def test_obey_u_on_a_trace(data_dir: Path, name: str) -> None:
    """With `obey_u` the rivals keep U_threshold too, on a trace where they break it without."""
    made = _import("philly-csv", data_dir / "philly" / "philly_jobs.csv", mapping="native", nodes=8, jobs=250)
    without = _run(made.instance, name)[1]
    assert without.threshold_violations > 0
    assert _run(made.instance, name, obey_u=True)[1].threshold_violations == 0


@pytest.mark.parametrize("name", list(POLICIES))
def test_jobs_that_can_run_nowhere_are_named_before_the_run(data_dir: Path, name: str) -> None:
    """On a single GPU: the jobs that ask for more are named, for every policy alike; without them it runs."""
    made = _import("gavel", data_dir / "gavel" / "51b7ef.trace", nodes=28, gpus_per_node=8)
    small = _import("gavel", data_dir / "gavel" / "51b7ef.trace", nodes=1, gpus_per_node=1).instance.cluster
    problem = made.instance
    wide = [j.name for j in problem.jobs if j.gpus > 1]
    assert wide
    shrunk = Instance(
        name=problem.name, jobs=problem.jobs, profiles=problem.profiles, cluster=small, truth=problem.truth
    )
    with pytest.raises(ImpossibleJobsError) as caught:
        simulate(shrunk, make_policy(name), 0)
    assert [job for job, _ in caught.value.jobs] == wide
    _run(shrunk.without(wide), name)


@pytest.mark.slow
@pytest.mark.parametrize("name", list(POLICIES))
@pytest.mark.parametrize("cluster", list(CLUSTERS))
@pytest.mark.parametrize("mapping", MAPPINGS)
@pytest.mark.parametrize("trace", [*SMALL, "0e4a51", "ee9e8c"])
def test_whole_gavel_traces(data_dir: Path, trace: str, mapping: str, cluster: str, name: str) -> None:
    """All of each of Gavel's traces, arrivals as in the trace."""
    nodes, gpus = CLUSTERS[cluster]
    made = _import(
        "gavel", data_dir / "gavel" / f"{trace}.trace", mapping=mapping, nodes=nodes, gpus_per_node=gpus
    )
    _run(_accounted(made), name)


@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n in POLICIES if n != "mpc"])
@pytest.mark.parametrize("mapping", MAPPINGS)
def test_whole_philly(data_dir: Path, mapping: str, name: str) -> None:
    """All 82,247 jobs of Philly on 64 nodes of 8 GPUs; checked in floating point."""
    made = _import("philly-csv", data_dir / "philly" / "philly_jobs.csv", mapping=mapping, nodes=64)
    _, report = _run(_accounted(made), name)
    assert report.mode == "float"
