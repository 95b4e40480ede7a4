"""``predictors``, ``--truth``, ``--history`` and measured tables on the command line."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from eaco_opt.io import read_instance, read_profile_set
from experiments.cli import main
from experiments.predictors import COLUMNS, PREDICTIONS
from instances.predictors import PREDICTORS
from tests.instances.test_measurements import GAVEL, PAIRS, V32, ZEUS, lucid


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Any:
    """Run the program in this process; returns exit code, standard output and standard error."""

    def call(*words: object) -> tuple[int, str, str]:
        code = main([str(w) for w in words])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    """Lucid's two files, small; PPO beside VGG at batch size 64 was measured too."""
    lucid(tmp_path, PAIRS + "VGG,CIFAR,1,64,1,0.9,PPO,Lunar,1,32,0,0.95,99,30,5120\n")
    return tmp_path / "pairs.csv"


def test_evaluate_writes_scores_predictions_and_a_picture(run: Any, pairs: Path, tmp_path: Path) -> None:
    """One row a predictor, as JSON and CSV; each prediction; the figure; nothing is replaced unasked."""
    out = tmp_path / "out"
    code, text, _ = run("predictors", "evaluate", pairs, "--leave-out", "pair", "--out", out, "--json")
    assert code == 0
    document = json.loads(text)
    assert [row["predictor"] for row in document["rows"]] == list(PREDICTORS)
    assert all(tuple(row) == COLUMNS for row in document["rows"])
    # Both sides of two pairs, and one of two equal jobs.
    assert {row["n"] for row in document["rows"]} == {5}
    assert (document["pairs"], document["cannot_share"], document["models"]) == (3, 1, 2)
    assert document["leave_out"] == "pair"
    names = ["scores.csv", "predictions.csv", *(f"figures/calibration.{x}" for x in ("pdf", "png", "csv"))]
    assert document["files"] == names
    assert all((out / name).is_file() for name in names)
    with open(out / "scores.csv", newline="") as file:
        scores = list(csv.DictReader(file))
    assert [float(row["mae"]) for row in scores] == [row["mae"] for row in document["rows"]]
    with open(out / "predictions.csv", newline="") as file:
        reader = csv.DictReader(file)
        predictions = list(reader)
    assert tuple(reader.fieldnames or ()) == PREDICTIONS
    assert len(predictions) == 5 * len(document["rows"])
    code, _, error = run("predictors", "evaluate", pairs, "--leave-out", "pair", "--out", out)
    assert code == 2 and "--force" in error


def test_evaluate_for_people(run: Any, pairs: Path) -> None:
    """A table, what was left out, and where the numbers come from."""
    code, text, _ = run(
        "predictors",
        "evaluate",
        pairs,
        "--format",
        "lucid",
        "--leave-out",
        "pair",
        "--predictors",
        "mean,table",
    )
    assert code == 0
    assert [line.split()[0] for line in text.splitlines()[2:4]] == ["mean", "table"]
    assert "with one pair at a time left out of learning" in text
    assert "source: pairs.csv, single_data.csv: Lucid" in text


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--predictors", "x"], "unknown predictor 'x'"),
        (["--leave-out", "x"], "leave out 'x'; known are: model, pair"),
        (["--format", "gavel"], "expected the columns model, gpus"),
        (["--format", "x"], "unknown format of measurements 'x'"),
        (["--leave-out", "model"], "expected pairs without VGG to learn from"),
    ],
)
def test_bad_calls_end_in_an_error(run: Any, pairs: Path, words: list[str], message: str) -> None:
    """Exit code 2 and a sentence."""
    code, _, error = run("predictors", "evaluate", pairs, *words)
    assert code == 2
    assert message in error


def test_list(run: Any) -> None:
    """Every predictor with whether it needs a table."""
    code, text, _ = run("predictors", "list", "--json")
    assert code == 0
    rows = json.loads(text)["predictors"]
    assert [row["name"] for row in rows] == list(PREDICTORS)
    assert {row["name"] for row in rows if not row["needs_table"]} == {"additive-utilisation", "paper-fit"}
    assert run("predictors", "list")[1].count("\n") == 2 + len(rows)


def test_import_of_measured_tables(run: Any, pairs: Path, tmp_path: Path) -> None:
    """Profiles, pairs, power limits and accounts; --report lists what was repaired and refused."""
    out, report = tmp_path / "own.json", tmp_path / "rows.csv"
    code, text, _ = run("profiles", "import", pairs, "--out", out, "--report", report, "--json")
    assert code == 0
    document = json.loads(text)
    assert (document["read"], document["taken"]) == (7, 7)
    assert document["repaired"] == {"equal-jobs-differ": 1}
    assert document["cannot_share"] == [["PPO (Lunar, batch size 32)", V32]]
    assert len(document["pairs"]) == 3
    assert read_profile_set(out).truth.model == "pair-product"
    assert "equal-jobs-differ" in report.read_text()
    code, text, _ = run("profiles", "show", V32, "--from", out)
    assert code == 0
    shown = [" ".join(line.split()) for line in text.splitlines()]
    assert f"{V32} VGG (CIFAR, batch size 64, amp) 0.800" in shown
    assert f"{V32} PPO (Lunar, batch size 32) 0 (cannot share)" in shown
    code, text, _ = run("profiles", "list", "--from", out)
    assert "3 measured pairs, 1 pair cannot share" in text
    limits = tmp_path / "v100.csv"
    limits.write_text(ZEUS)
    code, text, _ = run("profiles", "import", limits, "--format", "zeus", "--json")
    assert len(json.loads(text)["power_limits"]) == 3
    code, text, _ = run("profiles", "import", limits, "--gpu-type", "A40")
    assert "3 power limits on 2 curves" in text


def test_truth_and_history(run: Any, pairs: Path, tmp_path: Path) -> None:
    """An instance with predicted truth is simulated and checked; policies may believe another predictor."""
    made = tmp_path / "made.json"
    base = ("generate", "mixed", "--jobs", 12, "--nodes", 1, "--load", 2, "--seed", 1)
    code, _, error = run(*base, "--truth", f"pair-table:{pairs}", "--out", made)
    assert code == 0, error
    assert read_instance(made).truth.model == "pair-product"
    for history in ("additive-utilisation", f"kernel:{pairs}", made):
        code, text, error = run(
            "compare", made, "--methods", "eaco", "--history", history, "--no-bound", "--json"
        )
        assert code == 0, error
        document = json.loads(text)
        assert document["rows"][0]["status"] == "feasible"
        assert document["history"] == str(history)
        assert f"policies believe the slowdowns of {history}" in error
    code, _, error = run("compare", made, "--methods", "eaco", "--history", "nope.json")
    assert code == 2 and "nope.json" in error
    code, _, error = run(*base, "--truth", "kernel")
    assert code == 2 and "name one after the predictor, as in kernel:colocate_info.csv" in error


def test_import_with_measured_workloads(run: Any, tmp_path: Path) -> None:
    """--mapping profiles:FILE with --mix and --truth reaches the instance."""
    table, trace, out = tmp_path / "t.csv", tmp_path / "trace.csv", tmp_path / "i.json"
    table.write_text(GAVEL)
    trace.write_text("timestamp,duration,num_gpus\n2017-10-09 07:00:00,1200,1\n2017-10-09 07:01:00,1800,2\n")
    words = ("import", "philly-csv", trace, "--nodes", 1, "--mapping", f"profiles:{table}", "--out", out)
    mix = "LM (batch size 5) x1=2,LM (batch size 5) x2=1"
    code, _, error = run(*words, "--mix", mix, "--truth", "paper-fit")
    assert code == 0, error
    problem = read_instance(out)
    assert [j.profile for j in problem.jobs] == ["LM (batch size 5) x1", "LM (batch size 5) x2"]
    assert [j.epochs for j in problem.jobs] == [2, 3]
    assert problem.truth.model == "crowding"
    code, _, error = run(*words, "--mix", "LM (batch size 5) x1", "--force")
    assert code == 2 and "--mix" in error
    # A comma in a name ends no share.
    code, _, error = run(*words, "--mix", "net (cifar, adam)=1", "--force")
    assert code == 2 and "unknown model 'net (cifar, adam)' in mix" in error
