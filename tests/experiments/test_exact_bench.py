"""The strength tables: what is run, what is kept, and how runs are counted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from eaco_opt.errors import EacoError
from experiments import exact_bench
from experiments.cli import main
from experiments.exact_bench import (
    COLUMNS,
    LINES,
    QUICK,
    Line,
    chosen_lines,
    exact_rows,
    summary_rows,
    summary_text,
)
from experiments.kept_rows import seed_numbers

TINY = Line(family="whole-node", jobs=3, nodes=2, method="bruteforce", time_limit_s=60.0)


def test_a_row_says_what_was_run_and_what_came_of_it() -> None:
    """A tiny line is proved: bound and objective meet, and the row names instance, method and versions."""
    (row,) = exact_rows([TINY], [1])
    assert tuple(row) == COLUMNS
    assert row["status"] == "optimal"
    assert row["bound"] == pytest.approx(row["objective"], rel=1e-6)
    assert (row["line"], row["seed"], row["limits"]) == ("whole-node-3x2-bruteforce", 1, "loose")
    assert row["digest"] and row["version"] and row["python"]
    assert (row["violations"], row["root_gap"]) == (0, None)
    assert row["cpu_s"] >= 0.0
    assert "highspy " in row["packages"]


def test_milp_has_a_root_gap() -> None:
    """The root's bound lies below the optimum, and the gap is relative to it."""
    line = Line(family="whole-node", jobs=3, nodes=1, method="milp", time_limit_s=60.0)
    (row,) = exact_rows([line], [0])
    assert row["status"] == "optimal"
    assert row["root_bound"] <= row["objective"] * (1.0 + 1e-9)
    assert row["root_gap"] == pytest.approx(row["objective"] / row["root_bound"] - 1.0, abs=1e-12)


def test_a_proof_needs_a_schedule_without_violations() -> None:
    """A row that claims to be optimal with a schedule that breaks a rule is not counted as proved."""
    base = {"line": "a", "time_limit_s": 5.0, "wall_s": 4.0, "status": "optimal", "gap": 0.0, "seed": 0}
    (row,) = summary_rows([{**base, "violations": 0}, {**base, "violations": 1}])
    assert (row["runs"], row["proved"]) == (2, 1)


@pytest.mark.parametrize(
    ("text", "numbers"), [("3", (0, 1, 2)), ("3-5,8", (3, 4, 5, 8)), ("7-7", (7,)), ("2,2,0", (2, 0))]
)
def test_seeds_are_a_number_or_a_list(text: str, numbers: tuple[int, ...]) -> None:
    """One number says how many, a list says which."""
    assert seed_numbers("bench exact", text) == numbers


@pytest.mark.parametrize("text", ["", "0", "a", "5-3", "1,,2", "-3"])
def test_other_seeds_are_refused(text: str) -> None:
    """The error shows what is expected."""
    with pytest.raises(EacoError, match="expected seeds such as 10"):
        seed_numbers("bench exact", text)


def test_a_run_that_was_stopped_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Finished runs are not run again, a half-written line is, and `force` runs all again."""
    ran: list[int] = []

    def instant(line: Line, seed: int) -> dict[str, Any]:
        ran.append(seed)
        return {
            "line": line.name,
            "time_limit_s": 1.0,
            "seed": seed,
            "status": "optimal",
            "objective": 1.5,
            "bound": 1.0,
            "wall_s": 2.0,
        }

    monkeypatch.setattr(exact_bench, "_run", instant)
    first = exact_rows([TINY], [0, 1, 2], out=tmp_path)
    assert ran == [0, 1, 2]
    store = tmp_path / "exact.jsonl"
    lines = store.read_text().splitlines()
    store.write_text("\n".join(lines[:2]) + "\n" + lines[2][:20])
    assert caplog.messages == []
    assert exact_rows([TINY], [0, 1, 2], out=tmp_path) == first
    assert [m.split(": ")[1] for m in caplog.messages] == [
        "1 line(s) are no finished run, as is left when a run is stopped while it is written; such runs are "
        "repeated"
    ]
    assert first[0]["gap"] == pytest.approx(0.5)  # relative to the bound
    assert ran == [0, 1, 2, 2]
    assert [json.loads(x)["seed"] for x in store.read_text().splitlines()] == [0, 1, 2]
    exact_rows([TINY], [0], out=tmp_path, force=True)
    assert ran[-1] == 0
    assert (tmp_path / "exact.csv").read_text().startswith("line,family,")


def test_infeasible_seeds_are_counted_apart() -> None:
    """Of four runs one is infeasible, one proved, one left at 0.1 %, one without bound: 1 of 3 is proved."""
    base = {"line": "a", "time_limit_s": 5.0, "wall_s": 4.0, "seed": 3, "root_gap": 0.01, "version": "9"}
    rows = [
        {**base, "status": "infeasible", "gap": None},
        {**base, "status": "optimal", "gap": 0.0},
        {**base, "status": "feasible", "gap": 0.001},
        {**base, "status": "feasible", "gap": None},
    ]
    (row,) = summary_rows(rows)
    assert (row["runs"], row["infeasible"], row["proved"], row["within_0.2_percent"], row["unknown"]) == (
        4, 1, 1, 2, 1,
    )  # fmt: skip
    assert row["largest_gap_percent"] == pytest.approx(0.1)
    text = summary_text(rows)
    assert "| a | 5 | 3 3 3 3 | 1 | 1 of 3 | 2 of 3 | 1 | 4.0 | 4.0 | 0.10 | 1.00 |" in text
    assert "eaco-opt: 9." in text


def test_lines_are_chosen_by_the_beginning_of_their_names() -> None:
    """Names are unique; an unknown word is an error that lists them; a file is no folder."""
    names = [line.name for line in (*LINES, *QUICK)]
    assert len(set(names)) == len(names)
    assert {line.jobs for line in chosen_lines(["whole-node-20x6"])} == {20}
    with pytest.raises(EacoError, match=r"no line begins with 'x'; there are: whole-node-10x3"):
        chosen_lines(["x"])


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    """The error names the file."""
    (tmp_path / "f").write_text("")
    with pytest.raises(EacoError, match="expected a folder, found a file"):
        exact_rows([TINY], [0], out=tmp_path / "f")


def test_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`bench exact` gives rows and their summary as JSON."""
    monkeypatch.setattr(exact_bench, "QUICK", (TINY,))
    assert main(["bench", "exact", "--quick", "--seeds", "1", "--out", str(tmp_path), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [r["status"] for r in document["rows"]] == ["optimal"]
    assert document["summary"][0]["proved"] == 1
