"""Certification, the command ``bound``, and the tables of ``bench scale``."""

from __future__ import annotations

import csv
import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from eaco_opt.checker import check_report
from eaco_opt.errors import EacoError
from eaco_opt.io import read_schedule, write_instance
from experiments import certify as certify_module
from experiments import scale_bench
from experiments.certify import COLUMNS, certify
from experiments.cli import main
from experiments.scale_bench import LINES, QUICK, Line, chosen_lines, scale_rows, summary_rows, summary_text
from instances import generate
from solvers.bounds import bound
from tests.experiments.tiny import instance, job

FAST = {"iterations": 300}


def test_two_jobs_by_hand() -> None:
    """Two equal jobs that share at full speed halve the energy, and the bound is reached.

    ``slow`` takes 100 s an epoch on a node of 100 W, 1 epoch each: 20 kJ exclusively, 10 kJ shared. Alpha 1:
    objectives 1 and 0.5. The bound is 0.5, so the search's gap is 0 and it attains the whole saving.
    """
    problem = instance(job("a"), job("b"), slowdown=1.0)
    problem = dataclasses.replace(problem, objective=dataclasses.replace(problem.objective, alpha=1.0))
    found = certify(problem, "fifo", time_limit_s=5.0, options=FAST)
    rows = {row["method"]: row for row in found.rows}
    assert found.bound.value == pytest.approx(0.5, rel=1e-5)
    assert found.best_objective == pytest.approx(0.5, rel=1e-6)
    assert rows["lns"]["certified_gap"] == pytest.approx(0.0, abs=1e-5)
    assert rows["lns"]["attained_share"] == pytest.approx(1.0, abs=1e-4)
    assert rows["lns"]["energy_attained_share"] == pytest.approx(1.0, abs=1e-4)


@pytest.fixture(scope="module")
def certified() -> certify_module.Certified:
    return certify(
        generate("mixed", jobs=12, nodes=3, load=0.6, seed=4), time_limit_s=10.0, options=FAST, seed=1
    )


def test_gaps_are_those_of_the_rows(certified: certify_module.Certified) -> None:
    """Each gap is objective over bound, the best row is the least of those that keep all rules."""
    assert [row["method"] for row in certified.rows] == ["fifo", "fifo_packed", "gandiva", "eaco", "lns"]
    assert certified.bound.converged and certified.bound.value is not None
    kept = []
    for row in certified.rows:
        assert tuple(row) == COLUMNS
        feasible = not row["deadline_misses"] and not row["threshold_excess"]
        gap = row["certified_gap"] if feasible else row["gap_relaxed"]
        assert (row["gap_relaxed"] is None) == feasible
        if feasible:
            kept.append(row["objective"])
            assert row["bound"] == certified.bound.value
        else:
            assert row["bound"] <= certified.bound.value * (1 + 1e-6)  # fewer rules
        assert gap == pytest.approx(row["objective"] / row["bound"] - 1.0) and gap >= 0.0
        assert row["energy_gap"] >= 0.0
    assert certified.best_objective == min(kept)
    assert certified.no_sharing_objective is not None
    assert certified.best_objective < certified.no_sharing_objective


def test_schedules_are_feasible_and_the_curve_only_improves(certified: certify_module.Certified) -> None:
    """The checker accepts the search's schedule; objectives fall, bounds rise, times do too."""
    schedules = {label: (schedule, problem) for label, schedule, problem in certified.schedules}
    schedule, problem = schedules["lns"]
    report = check_report(problem, schedule)
    assert report.feasible
    assert report.objective == pytest.approx(certified.rows[-1]["objective"], rel=1e-9)
    times = [point[0] for point in certified.curve]
    values = [point[1] for point in certified.curve if point[1] is not None]
    lower = [point[2] for point in certified.curve if point[2] is not None]
    assert times == sorted(times)
    assert values == sorted(values, reverse=True)
    assert values[-1] == pytest.approx(certified.best_objective, rel=1e-12)
    assert lower == sorted(lower) and lower[-1] <= (certified.bound.value or 0.0) * (1 + 1e-9)


def test_a_schedule_of_ones_own_is_a_row_and_may_be_the_start(
    certified: certify_module.Certified,
) -> None:
    """The best schedule found before, given again, leaves nothing worse than itself."""
    label, schedule, problem = certified.schedules[-1]
    assert label == "lns"
    again = certify(problem, "fifo", schedules=[("mine", schedule)], time_limit_s=2.0, options=FAST)
    assert [row["method"] for row in again.rows] == ["fifo", "mine", "lns"]
    assert again.best_objective is not None
    assert again.best_objective <= certified.rows[-1]["objective"] * (1 + 1e-12)


def test_no_time_gives_a_valid_bound() -> None:
    """A limit of zero: the closed form is left, below every objective, and nothing is claimed to be done."""
    found = certify(generate("whole-node", jobs=10, nodes=3, seed=2), time_limit_s=0.0)
    assert found.bound.value is not None and found.best_objective is not None
    assert 0.0 < found.bound.value <= found.best_objective


def test_what_is_refused() -> None:
    """The search among the methods, unknown methods and options, negative limits: said by name."""
    problem = instance(job("a"))
    with pytest.raises(EacoError, match="'lns' is run anyway"):
        certify(problem, "lns", time_limit_s=0.1)
    with pytest.raises(EacoError, match="nope"):
        certify(problem, "nope", time_limit_s=0.1)
    with pytest.raises(EacoError, match="unknown option 'colour'"):
        certify(problem, "fifo", time_limit_s=0.1, options={"colour": 1})
    with pytest.raises(EacoError, match="time_limit_s"):
        certify(problem, "fifo", time_limit_s=-1.0)


def test_jobs_that_cannot_be_served_in_time() -> None:
    """Two jobs due when one alone would end: no schedule keeps both, the search has none."""
    problem = instance(job("a", deadline_s=100.0), job("b", deadline_s=100.0), slowdown=2.0, nodes=1)
    found = certify(problem, "fifo", time_limit_s=2.0, options=FAST)
    assert found.best_objective is None and found.best_method is None
    assert found.rows[0]["gap_relaxed"] is not None and found.rows[0]["gap_relaxed"] >= 0.0


def test_the_command_writes_tables_schedules_and_the_figure(tmp_path: Path, capsys: Any) -> None:
    """certify.json, rows.csv, curve.csv, the schedules, and the figure anytime, which agree."""
    problem = generate("whole-node", jobs=8, nodes=3, seed=5)
    path, out = tmp_path / "i.json", tmp_path / "out"
    write_instance(path, problem)
    call = ["certify", str(path), "--time-limit", "3s", "-o", "iterations=300", "--out", str(out), "--json"]
    assert main(call) == 0
    document = json.loads(capsys.readouterr().out)
    assert {"certify.json", "rows.csv", "curve.csv"} <= set(document["files"])
    assert any(name.endswith("anytime.png") for name in document["files"])
    with (out / "rows.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [float(r["objective"]) for r in rows] == [r["objective"] for r in document["rows"]]
    for row in document["rows"]:
        (name,) = [f for f in document["files"] if "schedules/" in f and f"{row['method']}." in f]
        schedule = read_schedule(out / name, problem)
        assert check_report(problem, schedule).objective == pytest.approx(row["objective"], rel=1e-9)
    assert main(call) == 2  # the folder is not empty
    assert "--force" in capsys.readouterr().err


def test_the_command_bound(tmp_path: Path, capsys: Any) -> None:
    """Prints what the library gives, for an alpha of one's own; infeasible instances exit with 3."""
    problem = generate("whole-node", jobs=8, nodes=3, seed=5)
    path = tmp_path / "i.json"
    write_instance(path, problem)
    assert main(["bound", str(path), "--alpha", "0.9", "--json", "-q"]) == 0
    document = json.loads(capsys.readouterr().out)
    objective = dataclasses.replace(problem.objective, alpha=0.9)
    assert document["bound"] == bound(dataclasses.replace(problem, objective=objective)).value
    assert main(["bound", str(path), "--kind", "closed-form", "-q"]) == 0
    assert "closed-form" in capsys.readouterr().out
    assert main(["bound", str(path), "--kind", "guess"]) == 2
    assert "configuration-lp" in capsys.readouterr().err
    late = instance(job("a", epochs=10, deadline_s=5.0))
    write_instance(path, late, force=True)
    assert main(["bound", str(path)]) == 3


SMALL = Line(family="whole-node", jobs=12, nodes=4, time_limit_s=1.0)


def test_bench_scale_keeps_what_is_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A row for each seed with gap, bound, versions; a second call runs nothing that is there."""
    rows, notes = scale_rows([SMALL], [0, 1], out=tmp_path)
    assert notes == [] and [row["seed"] for row in rows] == [0, 1]
    for row in rows:
        assert row["gap"] == pytest.approx(row["objective"] / row["bound"] - 1.0) and row["gap"] >= 0.0
        assert row["closed_form"] <= row["bound"] * (1 + 1e-9)
        assert row["packages"] and row["version"] and row["digest"]
    monkeypatch.setattr(scale_bench, "certify", None)  # would fail if it were called
    again, _ = scale_rows([SMALL], [0, 1], out=tmp_path)
    assert again == rows
    assert (tmp_path / "scale.csv").read_text().count("\n") == 3
    (summary,) = summary_rows(rows)
    assert summary["largest_gap"] == max(row["gap"] for row in rows)
    assert SMALL.name in summary_text(rows)


def test_a_trace_that_is_not_there_is_noted(tmp_path: Path) -> None:
    """Its line is left out, with a note."""
    line = Line(family="philly", jobs=10, nodes=2, time_limit_s=1.0)
    rows, notes = scale_rows([line], [0], data=tmp_path)
    assert rows == [] and "Philly trace is not there" in notes[0]


def test_lines_are_chosen_by_the_beginnings_of_their_names() -> None:
    """All without words; an unknown word lists what there is."""
    assert chosen_lines([]) == LINES and chosen_lines([], quick=True) == QUICK
    assert {line.family for line in chosen_lines(["mixed"])} == {"mixed"}
    assert len({line.name for line in LINES}) == len(LINES)
    with pytest.raises(EacoError, match="no line begins with 'zzz'; there are: "):
        chosen_lines(["zzz"])
