"""`eaco-opt explain`: keys, exit codes, files, and what is shown to people."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from eaco_opt.io import write_instance
from experiments.cli import main
from experiments.commands.explain import KEYS
from tests.experiments.tiny import instance, job

H = 3600.0


@pytest.fixture
def tight(tmp_path: Path) -> Path:
    """A file with two jobs of 2 h on one node, both due after 3 h."""
    path = tmp_path / "tight.json"
    write_instance(path, instance(*[job(n, epochs=72, deadline_s=3 * H) for n in "ab"], max_share=1))
    return path


def document(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, Any]:
    """Return exit code and document of a run."""
    code = main([*map(str, words), "--json"])
    return code, json.loads(capsys.readouterr().out)


def test_conflict(tight: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 0 once explained; a conflict has its fixed keys and what would help."""
    code, found = document(capsys, "explain", tight)
    assert code == 0
    assert tuple(found) == KEYS
    assert found["feasible"] is False
    (conflict,) = found["conflicts"]
    assert {"jobs", "cause", "amount", "text"} <= set(conflict)
    assert conflict["jobs"] == ["a", "b"]
    assert {"change": "deadline", "job": "a", "amount": 1.0, "unit": "h"}.items() <= conflict["ways"][
        0
    ].items()
    assert found["delays"] in ([{"job": n, "amount": 1.0, "unit": "h"}] for n in "ab")


def test_feasible(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A feasible instance has no conflicts, and a schedule that `check` accepts."""
    path, plan = tmp_path / "ok.json", tmp_path / "plan.json"
    write_instance(path, instance(job("a", epochs=36, deadline_s=H)))
    code, found = document(capsys, "explain", path, "--out", plan)
    assert (code, found["feasible"], found["conflicts"]) == (0, True, [])
    assert found["schedule"] == str(plan)
    assert document(capsys, "check", path, plan)[0] == 0


def test_limit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 4 where the limit was reached with nothing found, with the document all the same.

    b has to run from 1 h to 2 h on the one node, which leaves no 2 h for a.
    """
    path = tmp_path / "hard.json"
    b = job("b", epochs=36, release_s=H, deadline_s=2 * H)
    write_instance(path, instance(job("a", epochs=72, deadline_s=3 * H), b, max_share=1))
    code, found = document(capsys, "explain", path, "--time-limit", "0s")
    assert (code, found["feasible"], found["conflicts"]) == (4, None, [])
    assert found["stop_reason"] == "time-limit"


def test_bad_usage(tight: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A grid that is none, and a file that is none, are errors of the user."""
    assert document(capsys, "explain", tight, "--grid", "soon")[0] == 2
    assert document(capsys, "explain", tight.with_name("none.json"))[0] == 2


def test_text(tight: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """People are told who, why, by how much and what else would do."""
    assert main(["explain", str(tight), "--grid", "30min", "--quiet"]) == 0
    text = capsys.readouterr().out
    assert "NOT feasible on slots of 0.5 h" in text
    assert "jobs 'a', 'b' cannot all end in time" in text
    assert "1 h later" in text
    assert "1 more node(s) of type 'box'" in text
