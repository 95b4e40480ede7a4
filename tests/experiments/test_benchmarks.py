"""Benchmarks: what is run, what is kept, and that what they time is right."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from eaco_opt.errors import EacoError
from eaco_opt.physics import evaluate
from experiments import bench_worker, benchmarks
from experiments.benchmarks import (
    COLUMNS,
    PAIRABLE,
    Case,
    build_rows,
    cases,
    data_folder,
    evaluate_rows,
    random_plans,
    simulate_rows,
)
from experiments.cli import main
from instances import generate

ROOT = Path(__file__).resolve().parents[2]

SMALL = {"kind": "generate", "family": "mixed", "jobs": 30, "nodes": 2}


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[Case]:
    """Replace the simulations by instant ones that cost 1 ms a job, and list them."""
    ran: list[Case] = []

    def instant(case: Case) -> dict[str, Any]:
        ran.append(case)
        return {
            "instance": "none", "jobs": case.jobs, "nodes": 64, "gpus": 512, "wall_s": case.jobs / 1000.0,
            "cpu_s": case.jobs / 1000.0, "peak_rss_mib": 100.0, "energy_kwh": 1.0, "deadline_misses": 0,
        }  # fmt: skip

    monkeypatch.setattr(benchmarks, "run_case", instant)
    return ran


def test_without_traces_production_stands_in(counted: list[Case]) -> None:
    """The remark says so; sizes stay, and Gavel's runs are left out."""
    rows, notes = simulate_rows(data=None)
    assert [(r["policy"], r["jobs"]) for r in rows] == [
        (policy, jobs) for jobs in (1000, 5000, 20000, 82247) for policy in ("fifo", "eaco")
    ]
    assert all(case.source["family"] == "production" for case in counted)
    assert any("family production" in note for note in notes)
    assert any("no comparison with Gavel" in note for note in notes)
    assert all(row["growth_to_linear"] == pytest.approx(1.0) for row in rows)


def test_with_traces_all_runs_are_there(data_dir: Path) -> None:
    """Growth on the Philly trace on 64 nodes, and Gavel's runs on one node of 224 GPUs."""
    full, notes = cases(quick=False, data=data_dir)
    assert notes == []
    assert {(c.run, c.policy, c.jobs) for c in full} >= {
        ("growth", "eaco", 82247), ("gavel", "fifo", 1000), ("gavel", "gandiva", 500),
    }  # fmt: skip
    quick, _ = cases(quick=True, data=data_dir)
    assert max(c.jobs for c in quick) == 5000


def test_the_ratio_to_gavel(counted: list[Case], data_dir: Path) -> None:
    """200 jobs of FIFO took Gavel 7.7 s, 3 s of them imports: 0.2 s here are 23.5 times faster."""
    rows, _ = simulate_rows(quick=True, data=data_dir)
    row = next(r for r in rows if r["run"] == "gavel" and r["policy"] == "fifo")
    assert row["speed_to_gavel"] == pytest.approx(4.7 / 0.2)
    assert row["gavel_finished"] is True


def test_a_stopped_run_goes_on(counted: list[Case], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Finished rows are kept one by one; only what is missing runs again, all of it with force."""

    def stop(case: Case) -> dict[str, Any]:
        if len(counted) == 3:
            raise KeyboardInterrupt
        return inner(case)

    inner = benchmarks.run_case
    monkeypatch.setattr(benchmarks, "run_case", stop)
    with pytest.raises(KeyboardInterrupt):
        simulate_rows(out=tmp_path)
    monkeypatch.setattr(benchmarks, "run_case", inner)
    rows, _ = simulate_rows(out=tmp_path)
    assert (len(counted), len(rows)) == (8, 8)
    assert simulate_rows(out=tmp_path)[0] == rows
    assert len(counted) == 8
    simulate_rows(out=tmp_path, force=True)
    assert len(counted) == 16
    header = (tmp_path / "simulate.csv").read_text().splitlines()[0]
    assert header == ",".join(COLUMNS["simulate"])


def test_the_worker_measures_in_a_process_of_its_own() -> None:
    """It answers in JSON; energy and misses are those of the same simulation here."""
    done = subprocess.run(
        [sys.executable, "-m", "experiments.bench_worker"],
        input=json.dumps({"policy": "fifo", "source": SMALL}),
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    found = json.loads(done.stdout)
    here = bench_worker.measure("fifo", dict(SMALL))
    assert (found["jobs"], found["nodes"], found["gpus"]) == (30, 2, 16)
    for key in ("energy_kwh", "deadline_misses", "instance"):
        assert found[key] == here[key]
    assert found["wall_s"] > 0.0
    assert found["peak_rss_mib"] > 10.0


def test_a_failed_worker_is_an_error_that_says_why() -> None:
    """The last line of its error is in the text."""
    case = Case(run="growth", policy="nope", jobs=30, source=SMALL)
    with pytest.raises(EacoError, match=r"nope on 30 jobs failed: .*unknown policy 'nope'"):
        benchmarks.run_case(case)


def test_a_named_data_folder_must_exist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An option or variable that leads nowhere is a mistake."""
    assert data_folder(tmp_path) == tmp_path
    monkeypatch.setenv("EACO_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(EacoError, match="nowhere"):
        data_folder()


def test_random_plans_are_feasible_and_share() -> None:
    """Plans keep all physical rules, at most two jobs share, and some do."""
    instance = generate("whole-node", jobs=40, nodes=4, load=1.0, mix=PAIRABLE, seed=1)
    alone = instance.arrays().reference()[1]
    found = [evaluate(instance, plan) for plan in random_plans(instance, 5, seed=1)]
    assert [e.physical_violations for e in found] == [0] * 5
    assert all(e.avg_tpe_s > alone for e in found)
    assert len({e.energy_j for e in found}) == 5


def test_bench_evaluate(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """The compiled evaluation is faster than the checker on the same plans, and both agree on each."""
    rows = evaluate_rows(quick=True, out=tmp_path)
    assert [r["run"] for r in rows] == ["evaluate", "checker-float", "checker-exact"]
    assert rows[0]["speed_to_checker"] > 1.0
    assert rows[1]["speed_to_checker"] == 1.0
    assert (tmp_path / "evaluate.csv").read_text().splitlines()[0] == ",".join(COLUMNS["evaluate"])
    assert main(["bench", "evaluate", "--quick", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["rows"]) == 3


def test_bench_build(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Both ways put the same model into HiGHS; from arrays it is faster."""
    rows = build_rows(quick=True, out=tmp_path)
    assert [r["run"] for r in rows] == ["arrays", "pulp"]
    for size in ("variables", "constraints", "nonzeros"):
        assert rows[0][size] == rows[1][size] > 1000
    assert rows[0]["speed_to_pulp"] > 1.0 and rows[1]["speed_to_pulp"] == 1.0
    assert (tmp_path / "build.csv").read_text().splitlines()[0] == ",".join(COLUMNS["build"])
    assert main(["bench", "build", "--quick", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["rows"]) == 2
    assert main(["bench", "build", "--quick"]) == 0
    assert "times PuLP" in capsys.readouterr().out


def test_bench_build_notices_a_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    """One coefficient changed on the way is found."""
    import formulations.highs

    genuine = formulations.highs.load

    def changed(rows: Any) -> Any:
        rows.value[-1] *= 1.0 + 1e-12
        return genuine(rows)

    monkeypatch.setattr(formulations.highs, "load", changed)
    with pytest.raises(RuntimeError, match="coefficients"):
        build_rows(quick=True)


@pytest.mark.usefixtures("counted")
def test_bench_simulate_command(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """One document of rows; the table for people shows growth."""
    monkeypatch.setenv("EACO_DATA", str(tmp_path))
    assert main(["bench", "simulate", "--quick", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert len(document["rows"]) == 4
    assert set(COLUMNS["simulate"]) == set(document["rows"][0])
    assert main(["bench", "simulate", "--quick"]) == 0
    captured = capsys.readouterr()
    assert "growth / linear" in captured.out
    assert "family production" in captured.err


@pytest.mark.slow
def test_speed_against_gavel(data_dir: Path) -> None:
    """The packing policies are at least 200 times faster than Gavel's on its own runs."""
    rows, _ = simulate_rows(quick=True, data=data_dir)
    ratios = {r["policy"]: r["speed_to_gavel"] for r in rows if r["run"] == "gavel"}
    assert ratios["fifo_packed"] > 200.0
    assert ratios["gandiva"] > 200.0
