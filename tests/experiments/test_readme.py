"""What README.md shows is what the program prints, and its example runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from experiments.cli import main

README = (Path(__file__).resolve().parents[2] / "README.md").read_text(encoding="utf-8")


def block_after(words: str) -> list[str]:
    """Return the lines of the first fenced block after some words."""
    found = re.search(r"```\w*\n(.*?)```", README[README.index(words) :], flags=re.DOTALL)
    assert found, f"no block after {words!r}"
    return found[1].splitlines()


def test_the_table_of_the_builtin_instance(capsys: pytest.CaptureFixture[str]) -> None:
    """Every line shown is a line of `eaco-opt compare`."""
    assert main(["compare"]) == 0
    printed = capsys.readouterr().out.splitlines()
    shown = block_after("`make compare` prints")
    assert len(shown) > 10
    assert [line for line in shown if line not in printed] == []


def test_the_python_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    """The example compares a policy of its own with two of ours."""
    code = "\n".join(block_after("## From Python"))
    exec(compile(code, "README.md", "exec"), {"__name__": "readme"})  # noqa: S102
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["fifo", "eaco", "shortest-first"]


def test_the_commands_exist(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commands on a generated instance run as they are written."""
    monkeypatch.chdir(tmp_path)
    lines = re.findall(
        r"^    eaco-opt ((?:generate|compare jobs|check|methods|solve four|gap four).*?)(?:  +#.*)?$",
        README,
        flags=re.M,
    )
    assert len(lines) == 9
    for line in lines:
        if "--schedule mine.csv" in line:
            assert main(["solve", "jobs.json", "-m", "fifo", "--out", "mine.csv"]) == 0
        code = main(line.split())
        # FIFO-like policies may miss deadlines, and then `check` says so; EaCO's schedule here has none.
        assert code == 0, (line, capsys.readouterr().err)


@pytest.mark.slow
def test_the_table_of_the_real_trace(
    data_dir: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every line shown is a line of the two commands above it, run on the Philly trace."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "philly_jobs.csv").symlink_to(data_dir / "philly" / "philly_jobs.csv")
    for line in re.findall(r"^    eaco-opt ((?:import|compare philly).*)$", README, flags=re.MULTILINE):
        assert main(line.split()) == 0
    printed = capsys.readouterr().out.splitlines()
    shown = block_after("eaco-opt import philly-csv philly_jobs.csv")
    assert len(shown) > 5
    assert [line for line in shown if line not in printed] == []
