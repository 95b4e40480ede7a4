"""The program `eaco-opt`: fixed words, JSON keys, exit codes, error texts, files, and what goes where."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from eaco_opt.io import read_instance, read_schedule, write_instance
from experiments.cli import main
from instances import READERS
from solvers.catalogue import method_names
from tests.experiments.test_compare import KEYS as ROW_KEYS
from tests.experiments.tiny import instance, job, two_in_a_row
from tests.solvers.test_run import toy  # noqa: F401

ROOT = Path(__file__).resolve().parents[2]

SOLVE_KEYS = """
    method class status stop_reason objective bound gap energy_kwh avg_tpe_h makespan_h mean_jct_h mean_wait_h
    mean_jtt_h deadline_misses build_s solve_s seed digest
""".split()  # noqa: SIM905


class Done(NamedTuple):
    """What a run of the program left behind."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """The one JSON document on standard output; fails if there is anything else."""

        def refuse(text: str) -> None:
            raise AssertionError(f"{text} is no JSON")

        return json.loads(self.out, parse_constant=refuse)


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Any:
    """Run the program in this process."""

    def call(*words: object) -> Done:
        code = main([str(w) for w in words])
        captured = capsys.readouterr()
        return Done(code, captured.out, captured.err)

    return call


def shell(*words: object, env: dict[str, str] | None = None, **more: Any) -> Done:
    """Run the program in a process of its own, its output in pipes."""
    done = subprocess.run(
        [sys.executable, "-m", "experiments.cli", *map(str, words)],
        cwd=ROOT,
        env={**os.environ, **(env or {})},
        capture_output=True,
        text=True,
        check=False,
        **more,
    )
    return Done(done.returncode, done.stdout, done.stderr)


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    """A file with two whole-node jobs on one node."""
    path = tmp_path / "tiny.json"
    write_instance(path, two_in_a_row())
    return path


# compare -----------------------------------------------------------------------------------------


def test_compare_document(cli: Any, tiny: Path) -> None:
    """The fixed keys are there, and alpha and the digest are those of the instance."""
    done = cli("compare", tiny, "--methods", "fifo,eaco", "--alpha", "0.25", "--json")
    assert (done.code, done.err) == (0, "")
    assert {"digest", "jobs", "nodes", "alpha"} <= set(done.document["instance"])
    assert done.document["instance"] | {"digest": ""} == {
        "name": "tiny", "digest": "", "jobs": 2, "nodes": 1, "gpus": 2, "alpha": 0.25,
    }  # fmt: skip
    assert [row["method"] for row in done.document["rows"]] == ["fifo", "eaco"]
    assert all(set(ROW_KEYS) <= set(row) for row in done.document["rows"])


def test_compare_without_instance_takes_the_builtin_one(cli: Any) -> None:
    """All four methods run on it, and the output says what it depends on."""
    done = cli("compare", "--methods", "fifo,fifo_packed,gandiva,eaco")
    assert done.code == 0
    assert "no INSTANCE given: the built-in instance is compared" in done.err
    for word in ("fifo", "fifo_packed", "gandiva", "eaco", "energy [kWh]", "deadline misses"):
        assert word in done.out
    said = " ".join(done.out.split())
    for word in (
        "alpha 0.5",
        "U_threshold 0.9",
        "mem_threshold 0.9",
        "K 4",
        "0 W asleep",
        "PUE 1",
        "slack uniform in",
    ):
        assert word in said


def test_compare_counts_misses_and_exits_0(cli: Any, tmp_path: Path) -> None:
    """Missed deadlines do not change the exit code."""
    write_instance(tmp_path / "late.json", instance(job("a"), job("b", deadline_s=1500.0)))
    done = cli("compare", tmp_path / "late.json", "--methods", "fifo", "--json")
    assert (done.code, done.document["rows"][0]["deadline_misses"]) == (0, 1)
    assert "1 of 2" in cli("compare", tmp_path / "late.json", "--methods", "fifo").out


def test_compare_a_schedule_of_the_users_own(cli: Any, tiny: Path, tmp_path: Path) -> None:
    """A CSV of segments is one more row, named after the file."""
    csv = tmp_path / "mine.csv"
    csv.write_text("job,start,end,node,gpus\nb,0,1000,n0,all\na,1000,2000,n0,0-1\n")
    done = cli("compare", tiny, "--methods", "fifo", "--schedule", csv, "--json")
    row = done.document["rows"][1]
    assert (done.code, row["method"], row["class"], row["kind"]) == (0, "mine", "static", "schedule")
    assert row["relative"]["energy_kwh"] == pytest.approx(0.0, abs=1e-9)
    csv.write_text("job,start,end,node,gpus\nb,0,900,n0,all\na,1000,2000,n0,0-1\n")
    done = cli("compare", tiny, "--methods", "fifo", "--schedule", csv)
    assert done.code == 2
    assert "'mine' breaks 1 physical rule" in done.err
    assert "eaco-opt check" in done.err


def test_compare_impossible_jobs(cli: Any, tmp_path: Path) -> None:
    """They are named with exit code 2, or dropped and listed."""
    write_instance(tmp_path / "i.json", instance(job("a"), job("huge", gpus=4)))
    done = cli("compare", tmp_path / "i.json", "--json")
    assert (done.code, done.document["error"]["exit_code"]) == (2, 2)
    assert "'huge'" in done.document["error"]["message"]
    assert "'huge'" in done.err
    done = cli("compare", tmp_path / "i.json", "--impossible", "drop")
    assert done.code == 0
    assert "Dropped for all rows, 1 impossible job(s): huge: it asks for 4 GPUs" in " ".join(done.out.split())


def test_compare_with_no_time_exits_4(cli: Any, tiny: Path) -> None:
    """A limit reached with nothing found still gives one document, with nulls."""
    done = cli("compare", tiny, "--methods", "fifo,eaco", "--time-limit", "0s", "--json")
    assert done.code == 4
    assert [row["status"] for row in done.document["rows"]] == ["unknown", "unknown"]
    assert [row["energy_kwh"] for row in done.document["rows"]] == [None, None]


def test_compare_options_and_labels(cli: Any, tmp_path: Path) -> None:
    """--option reaches the labelled row only."""
    write_instance(tmp_path / "i.json", instance(job("a", gpus=1), job("b"), job("c", gpus=1)))
    done = cli(
        "compare", tmp_path / "i.json", "--methods", "fifo,skip=fifo", "--option", "skip.blocked=skip",
        "--json",
    )  # fmt: skip
    strict, skip = done.document["rows"]
    assert (strict["options"], skip["options"]) == ({}, {"blocked": "skip"})
    assert skip["mean_wait_h"] < strict["mean_wait_h"]


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--methods", "nope"], "unknown method 'nope'; known are: fifo, fifo_packed, gandiva, eaco"),
        (["--option", "eaco.nope=1"], "policy 'eaco': unknown option 'nope'; known are: "),
        (["--option", "eaco"], "expected METHOD.KEY=VALUE, got 'eaco'"),
        (["--option", "eaco.a=1", "--option", "eaco.a=2"], "eaco.a is given twice"),
        (["--time-limit", "soon"], "expected a duration such as 90s, 15min, 1h or 2d, got 'soon'"),
        (["--grid", "0s"], "expected a slot length such as 5min, auto or none, got '0s'"),
        (["--alpha", "2"], "--alpha"),
        (["--seed", "-1"], "--seed"),
        (["--nope"], "No such option: --nope"),
        (["--schedule", "missing.json"], "missing.json"),
    ],
)
def test_compare_bad_usage(cli: Any, tiny: Path, words: list[str], text: str) -> None:
    """Bad input ends with exit code 2 and one line that names it, also as JSON; never with a traceback."""
    done = cli("compare", tiny, *words)
    assert (done.code, done.out) == (2, "")
    assert text in done.err
    assert len(done.err.splitlines()) == 1
    document = cli("compare", tiny, *words, "--json").document
    assert text in document["error"]["message"]


def test_a_file_that_is_no_instance(cli: Any, tmp_path: Path) -> None:
    """Missing, empty, other JSON and a folder: exit code 2 and the file's name."""
    (tmp_path / "empty.json").write_text("")
    (tmp_path / "other.json").write_text('{"a": NaN}')
    for name in ("missing.json", "empty.json", "other.json", "."):
        done = cli("describe", tmp_path / name)
        assert done.code == 2
        assert str(tmp_path / name) in done.err
        assert "Traceback" not in done.err


# compare --out -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A comparison's folder, written once."""
    out = tmp_path_factory.mktemp("out") / "new" / "folder"
    assert main(["compare", "--out", str(out), "--json"]) == 0
    return out


def test_compare_out_files(folder: Path) -> None:
    """All files are there, and the document lists them."""
    document = json.loads((folder / "comparison.json").read_text())
    names = set(document["files"])
    figures = {
        f"figures/{n}.{e}" for n in ("energy_runtime", "active_nodes", "gantt") for e in ("pdf", "png", "csv")
    }
    tables = {"instance.json", "rows.csv", "jobs.csv", "segments.csv", "active_nodes.csv", "nodes.csv"}
    schedules = {f"schedules/{m}.json" for m in ("fifo", "fifo_packed", "gandiva", "eaco", "grid-optimal_1h")}
    assert names == figures | tables | schedules
    on_disk = {p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()}
    assert on_disk == names | {"comparison.json"}


@pytest.mark.parametrize("method", ["fifo", "fifo_packed", "gandiva", "eaco", "grid-optimal 1h"])
def test_compare_out_schedules_are_confirmed(cli: Any, folder: Path, method: str) -> None:
    """`check` accepts each schedule and recomputes the energy of its row."""
    done = cli(
        "check", folder / "instance.json", folder / f"schedules/{method.replace(' ', '_')}.json", "--json"
    )
    rows = {r["method"]: r for r in json.loads((folder / "comparison.json").read_text())["rows"]}
    assert (done.code, done.document["feasible"]) == (0, True)
    for key in ("energy_kwh", "avg_tpe_h", "objective"):
        assert done.document[key] == pytest.approx(rows[method][key], rel=1e-9)


def test_compare_out_tables_are_tidy(folder: Path) -> None:
    """Tables have the documented columns, and their numbers are those of the document."""
    import csv

    rows = {r["method"]: r for r in json.loads((folder / "comparison.json").read_text())["rows"]}
    with open(folder / "rows.csv", newline="") as file:
        table = list(csv.DictReader(file))
    assert [r["method"] for r in table] == list(rows)
    for row in table:
        assert float(row["energy_kwh"]) == rows[row["method"]]["energy_kwh"]
        assert float(row["gap"]) == rows[row["method"]]["gap"] >= 0.0
    with open(folder / "jobs.csv", newline="") as file:
        jobs = list(csv.DictReader(file))
    assert len(jobs) == 5 * 12
    for method, found in rows.items():
        mine = [r for r in jobs if r["method"] == method]
        assert sum(float(r["jct_h"]) for r in mine) / 12 == pytest.approx(found["mean_jct_h"])
        assert sum(r["missed"] == "True" for r in mine) == found["deadline_misses"]
    with open(folder / "active_nodes.csv", newline="") as file:
        active = [r for r in csv.DictReader(file) if r["method"] == "fifo"]
    # The area below the curve is the node-hours.
    hours = [float(r["time_h"]) for r in active]
    nodes = [int(r["active_nodes"]) for r in active]
    area = sum(n * (b - a) for n, a, b in zip(nodes, hours, hours[1:], strict=False))
    assert area == pytest.approx(rows["fifo"]["node_hours"])


def test_compare_out_refuses_a_folder_in_use(cli: Any, tiny: Path, folder: Path, tmp_path: Path) -> None:
    """Without --force a folder that holds something is left alone, before anything runs."""
    before = (folder / "rows.csv").read_bytes()
    done = cli("compare", tiny, "--out", folder)
    assert done.code == 2
    assert str(folder) in done.err
    assert "--force" in done.err
    assert (folder / "rows.csv").read_bytes() == before
    file = tmp_path / "file"
    file.write_text("mine")
    done = cli("compare", tiny, "--out", file, "--force")
    assert (done.code, file.read_text()) == (2, "mine")
    assert "expected a folder" in done.err


def test_compare_out_force_replaces_and_leaves_no_stale_schedule(
    cli: Any, tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With --force the new comparison takes the place of the old, other files stay."""
    monkeypatch.setattr("paper_figs.render", lambda *_, **__: [])  # figures take time and are not the point
    out = tmp_path / "out"
    assert cli("compare", tiny, "--methods", "fifo,eaco", "--out", out).code == 0
    (out / "notes.txt").write_text("mine")
    done = cli("compare", tiny, "--methods", "fifo", "--out", out, "--force")
    assert done.code == 0
    assert [p.name for p in (out / "schedules").iterdir()] == ["fifo.json"]
    assert (out / "notes.txt").read_text() == "mine"
    assert str(out) in done.out


# solve, check ------------------------------------------------------------------------------------


def test_solve_and_check(cli: Any, tiny: Path, tmp_path: Path) -> None:
    """solve keeps a schedule that check confirms; both have their fixed keys."""
    out = tmp_path / "s.json"
    done = cli("solve", tiny, "--method", "fifo", "--out", out, "--json")
    assert (done.code, done.err) == (0, "")
    assert set(SOLVE_KEYS) <= set(done.document)
    assert (done.document["class"], done.document["schedule"]) == ("static", str(out))
    checked = cli("check", tiny, out, "--json")
    counts = {"feasible", "physical_violations", "deadline_misses", "threshold_violations", "violations"}
    assert counts | {"objective", "energy_kwh", "avg_tpe_h"} <= set(checked.document)
    assert (checked.code, checked.document["violations"]) == (0, [])
    assert checked.document["energy_kwh"] == pytest.approx(done.document["energy_kwh"])
    assert cli("check", tiny, out).out.startswith(
        "feasible: 0 physical, 0 deadline and 0 threshold violation(s)"
    )
    # CSV, too.
    assert cli("solve", tiny, "-m", "fifo", "--out", tmp_path / "s.csv").code == 0
    assert len(read_schedule(tmp_path / "s.csv", read_instance(tiny)).segments) == 2


def test_solve_does_not_overwrite(cli: Any, tiny: Path, tmp_path: Path) -> None:
    """An existing file is named and kept; --force replaces it."""
    out = tmp_path / "s.json"
    out.write_text("mine")
    done = cli("solve", tiny, "--method", "fifo", "--out", out)
    assert (done.code, out.read_text()) == (2, "mine")
    assert str(out) in done.err
    assert cli("solve", tiny, "--method", "fifo", "--out", out, "--force").code == 0
    assert out.read_text() != "mine"


@pytest.mark.usefixtures("toy")
def test_solve_exit_codes(cli: Any, tiny: Path) -> None:
    """3 when proved infeasible, 4 when a limit came first; one document each."""
    done = cli("solve", tiny, "--method", "toy", "--option", "infeasible=true", "--json")
    assert (done.code, done.document["status"], done.document["objective"]) == (3, "infeasible", None)
    assert set(SOLVE_KEYS) <= set(done.document)
    done = cli("solve", tiny, "--method", "fifo", "--time-limit", "0s", "--json")
    assert (done.code, done.document["status"], done.document["stop_reason"]) == (4, "unknown", "time-limit")
    done = cli("solve", tiny, "--method", "toy", "--json")
    assert (done.code, done.document["status"], done.document["bound"]) == (0, "optimal", 0.5)


@pytest.mark.usefixtures("toy")
def test_an_internal_error_exits_1(cli: Any, tiny: Path) -> None:
    """A method whose answer the checker does not confirm: exit code 1, how to see more, no traceback."""
    words = ("solve", tiny, "--method", "toy", "--option", "wrong=true", "--json")
    done = cli(*words)
    assert (done.code, done.document["error"]["exit_code"]) == (1, 1)
    assert "the same command with --debug" in done.err
    assert "Traceback" not in done.err
    assert "Traceback" in cli(*words, "--debug").err


def test_solve_exactly(cli: Any, tiny: Path, tmp_path: Path) -> None:
    """An exact method takes the automatic grid, proves, and tells how it came about; check confirms it."""
    out = tmp_path / "s.json"
    words = ("--option", "process=shared", "--time-limit", "60s")
    done = cli("solve", tiny, "-m", "cpsat", "--out", out, *words, "--json")
    assert done.code == 0
    document = done.document
    assert (document["status"], document["stop_reason"], document["class"]) == (
        "optimal",
        "finished",
        "static",
    )
    assert document["grid_s"] > 0.0 and document["bound"] == pytest.approx(document["objective"], rel=1e-6)
    assert document["curve"][-1]["objective"] == document["objective"]
    assert document["message"] == "CP-SAT OPTIMAL" and document["reproducible"] is False
    assert document["options"]["gap"] == "0.0"
    assert cli("check", tiny, out, "--grid", f"{document['grid_s']}s").code == 0
    again = cli("solve", tiny, "-m", "milp", "--start", out, *words, "--deterministic", "--json")
    assert again.document["curve"][0]["objective"] == pytest.approx(document["objective"])
    assert again.document["reproducible"] is True
    shown = cli("solve", tiny, "-m", "cpsat", *words)
    assert "lower bound" in shown.out and "CP-SAT OPTIMAL" in shown.out


def test_solve_exactly_with_nothing_found(cli: Any, tiny: Path) -> None:
    """Exit code 4 at a limit with nothing found; --grid none is bad usage for an exact method."""
    done = cli("solve", tiny, "-m", "cpsat", "--time-limit", "0s", "--json")
    assert (done.code, done.document["status"], done.document["bound"]) == (4, "unknown", None)
    done = cli("solve", tiny, "-m", "cpsat", "--grid", "none", "--json")
    assert done.code == 2 and "continuous time" in done.document["error"]["message"]


def test_back_ends_and_model_files(cli: Any, tiny: Path, tmp_path: Path) -> None:
    """--backend and --export belong to milp; a model file is not overwritten without being asked."""
    words = ("solve", tiny, "-m", "milp", "--option", "process=shared", "--time-limit", "0s")
    model = tmp_path / "model.mps"
    assert cli(*words, "--export", model).code == 4
    assert "ROWS" in model.read_text() and "y_0_0_" in model.read_text()
    assert cli(*words, "--export", model).code == 2
    assert cli(*words, "--export", model, "--force").code == 4
    done = cli(*words, "--export", tmp_path / "model.txt")
    assert done.code == 2 and ".mps or .lp" in done.err
    for more in (("--backend", "cbc"), ("--export", tmp_path / "x.lp")):
        done = cli("solve", tiny, "-m", "cpsat", *more)
        assert done.code == 2 and "belongs to the method milp" in done.err
    done = cli(*words, "--backend", "abacus")
    assert done.code == 2 and "known are: highs, cbc" in done.err


def test_solve_options_of_another_method(cli: Any, tiny: Path) -> None:
    """Options may be given with or without the method's name, not with another's."""
    assert cli("solve", tiny, "-m", "fifo", "--option", "blocked=skip").code == 0
    assert cli("solve", tiny, "-m", "fifo", "--option", "fifo.blocked=skip").code == 0
    done = cli("solve", tiny, "-m", "fifo", "--option", "eaco.blocked=skip")
    assert (done.code, "'eaco' is not the method that is run" in done.err) == (2, True)


def test_check_lists_violations_and_exits_3(cli: Any, tmp_path: Path) -> None:
    """Each violation has kind, job, place, time, amount and text; exit code 3 with one document."""
    path = tmp_path / "i.json"
    write_instance(path, instance(job("a"), job("b", deadline_s=1500.0)))
    csv = tmp_path / "s.csv"
    csv.write_text("job,start,end,node,gpus\na,0,900,n0,all\nb,1000,2000,n0,all\n")
    done = cli("check", path, csv, "--json")
    assert (done.code, done.document["feasible"]) == (3, False)
    assert (done.document["physical_violations"], done.document["deadline_misses"]) == (1, 1)
    assert all(
        {"kind", "job", "place", "time_s", "amount", "text"} <= set(v) for v in done.document["violations"]
    )
    assert {(v["kind"], v["job"]) for v in done.document["violations"]} == {
        ("incomplete", "a"),
        ("deadline", "b"),
    }
    human = cli("check", path, csv)
    assert human.code == 3
    assert "NOT feasible: 1 physical, 1 deadline and 0 threshold violation(s)" in human.out
    assert "incomplete" in human.out


def test_check_wants_the_right_instance(cli: Any, tiny: Path, tmp_path: Path) -> None:
    """A schedule made for another instance is refused, and accepted on request."""
    out = tmp_path / "s.json"
    cli("solve", tiny, "-m", "fifo", "--out", out)
    other = tmp_path / "other.json"
    write_instance(other, instance(job("a"), job("b", epochs=10, priority=1)))
    assert cli("check", other, out).code == 2
    assert cli("check", other, out, "--any-instance").code == 0


# generate, import, describe ----------------------------------------------------------------------


def test_generate(cli: Any, tmp_path: Path) -> None:
    """The document has digest, jobs and nodes; the same seed gives the same bytes, another seed others."""
    words = (
        "generate",
        "mixed",
        "--jobs",
        9,
        "--nodes",
        2,
        "--load",
        "0.8",
        "--slack",
        2,
        3,
        "--epochs",
        5,
        6,
    )
    more = (
        "--alpha",
        "0.3",
        "--u-threshold",
        "1.2",
        "--mem-threshold",
        "0.8",
        "--max-share",
        3,
        "--mix",
        "VGG-16=1",
    )
    files = [tmp_path / f"{i}.json" for i in range(3)]
    seeds = (4, 4, 5)
    documents = [
        cli(*words, *more, "--seed", s, "--out", f, "--json").document
        for s, f in zip(seeds, files, strict=True)
    ]
    assert {"digest", "jobs", "nodes"} <= set(documents[0])
    assert (documents[0]["jobs"], documents[0]["nodes"]) == (9, 2)
    assert documents[0]["digest"] == documents[1]["digest"] != documents[2]["digest"]
    assert files[0].read_bytes() == files[1].read_bytes()
    made = read_instance(files[0])
    assert {j.profile for j in made.jobs} == {"VGG-16"}
    assert {j.epochs for j in made.jobs} <= {5, 6}
    limits = made.limits
    assert (limits.u_threshold, limits.mem_threshold, limits.max_share, made.objective.alpha) == (
        1.2,
        0.8,
        3,
        0.3,
    )
    again = cli(*words, "--out", files[0])
    assert (again.code, str(files[0]) in again.err) == (2, True)


def test_generate_on_a_cluster_file(cli: Any, tmp_path: Path) -> None:
    """--cluster takes the place of --nodes; both together are refused."""
    from eaco_opt.cluster import Cluster
    from eaco_opt.io import write_cluster
    from instances import paper

    path = tmp_path / "c.json"
    write_cluster(path, Cluster.uniform(paper.node_type(gpus=4), 3))
    done = cli("generate", "mixed", "--jobs", 3, "--cluster", path, "--json")
    assert (done.code, done.document["nodes"], done.document["gpus"]) == (0, 3, 12)
    done = cli("generate", "mixed", "--jobs", 3, "--cluster", path, "--nodes", 3)
    assert (done.code, "not both" in done.err) == (2, True)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["nope", "--jobs", "3", "--nodes", "1"], "unknown generator family 'nope'; known are: production"),
        (["mixed", "--jobs", "3"], "the cluster is missing"),
        (["mixed", "--jobs", "3", "--nodes", "1", "--load", "0"], "load"),
        (["mixed", "--jobs", "3", "--nodes", "1", "--mix", "VGG-16"], "expected shares such as AlexNet=2"),
        (["mixed", "--jobs", "3", "--nodes", "1", "--slack", "3", "2"], "slack"),
        (["mixed", "--jobs", "3", "--nodes", "1", "--rule", "nope"], "rule must be one of"),
    ],
)
def test_generate_bad_usage(cli: Any, words: list[str], text: str) -> None:
    """Each mistake is named, with exit code 2."""
    done = cli("generate", *words)
    assert done.code == 2
    assert text in done.err


PHILLY = """timestamp,duration,num_gpus,gpu_time,cluster
2017-10-03 00:00:00,3600,1,3600,aaa
2017-10-03 01:00:00,7200,2,14400,aaa
2017-10-03 02:00:00,-5,1,0,bbb
2017-10-03 03:00:00,7200,99,712800,bbb
"""


def test_import(cli: Any, tmp_path: Path) -> None:
    """Rows are read, taken, repaired or refused, and counted; the report lists each."""
    trace = tmp_path / "t.csv"
    trace.write_text(PHILLY)
    out, report = tmp_path / "i.json", tmp_path / "r.csv"
    done = cli(
        "import", "philly-csv", trace, "--nodes", 2, "--too-large", "clip", "--max-duration", "90min",
        "--out", out, "--report", report, "--json",
    )  # fmt: skip
    assert done.code == 0
    assert {"read", "taken", "repaired", "refused", "digest"} <= set(done.document)
    assert (done.document["read"], done.document["taken"]) == (4, 3)
    assert done.document["repaired"] == {"clipped-duration": 2, "clipped-gpus": 1}
    assert sum(done.document["refused"].values()) == 1
    assert len(report.read_text().splitlines()) == 1 + 3 + 1
    assert [j.gpus for j in read_instance(out).jobs] == [1, 2, 16]
    human = cli("import", "philly-csv", trace, "--nodes", 2, "--too-large", "drop")
    assert "4 rows read, 2 taken" in human.out
    assert "refused 1: too-large" in human.out


def test_import_selection(cli: Any, tmp_path: Path) -> None:
    """Window, virtual cluster, job limit, mapping, deadlines and releases reach the reader."""
    trace = tmp_path / "t.csv"
    trace.write_text(PHILLY)
    out = tmp_path / "i.json"

    def jobs(*words: object) -> Any:
        assert (
            cli("import", "philly-csv", trace, "--too-large", "drop", "--out", out, "--force", *words).code
            == 0
        )
        return read_instance(out).jobs

    assert len(jobs("--vc", "aaa")) == 2
    assert len(jobs("--from", "2017-10-03 00:30", "--to", "2017-10-03 02:30")) == 1
    assert len(jobs("--jobs", 1)) == 1
    assert [j.release_s for j in jobs("--nodes", 2, "--release", "zero")] == [0.0, 0.0]
    assert all(j.deadline_s == float("inf") for j in jobs("--no-deadlines"))
    assert [j.deadline_s for j in jobs("--nodes", 2, "--slack", 2, 2)] == [7200.0, 3600.0 + 14400.0]
    assert {j.profile for j in jobs("--mapping", "paper-cnn")} <= {
        "AlexNet",
        "ResNet-18",
        "ResNet-50",
        "VGG-16",
    }


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--nodes", "2"], "asks for 99 GPUs"),
        (["--mapping", "nope"], "unknown mapping 'nope'; known are: native, paper-cnn"),
        (["--max-duration", "1 week"], "expected a duration"),
        (["--slack", "1", "2", "--no-deadlines"], "exclude each other"),
        (["--report", "r.txt"], "expected a name that ends in .csv or .json"),
    ],
)
def test_import_bad_usage(cli: Any, tmp_path: Path, words: list[str], text: str) -> None:
    """Each mistake is named, with exit code 2; a job larger than the cluster stops the import by default."""
    trace = tmp_path / "t.csv"
    trace.write_text(PHILLY)
    words = [str(tmp_path / w) if w == "r.txt" else w for w in words]
    done = cli("import", "philly-csv", trace, *words)
    assert done.code == 2
    assert text in done.err


def test_a_trace_of_several_files(cli: Any, tmp_path: Path) -> None:
    """The folder will do; the report names file and line; without the companion the error names it."""
    reader = READERS.get("alibaba-pai-2020")
    (tmp_path / "pai_job_table.csv").write_text(reader.SAMPLE + "x,i,u,Failed,1600.0,\n")
    done = cli("import", "alibaba-pai-2020", tmp_path)
    assert (done.code, "pai_task_table.csv" in done.err) == (2, True)
    (tmp_path / "pai_task_table.csv").write_text(reader.COMPANION_SAMPLES["task"])
    report = tmp_path / "report.json"
    done = cli("import", "alibaba-pai-2020", tmp_path, "--json", "--report", report)
    assert (done.code, done.document["refused"]) == (0, {"no-task": 1})
    (note,) = json.loads(report.read_text())["details"]
    assert (Path(note["file"]).name, note["line"]) == ("pai_job_table.csv", 3)


def test_tight_deadlines(cli: Any, tmp_path: Path) -> None:
    """`drop` refuses a job whose deadline lies before submission + running time; other words are errors."""
    path = tmp_path / "t.csv"
    path.write_text("submission_time,duration,num_gpu,deadline\n0,100,1,500\n0,100,1,50\n")
    done = cli("import", "elasticflow", path, "--json", "--tight-deadlines", "drop")
    assert done.document["refused"] == {"impossible-deadline": 1}
    done = cli("import", "elasticflow", path, "--tight-deadlines", "loosen")
    assert (done.code, "known are: keep, drop, stretch" in done.err) == (2, True)


def test_the_traces_own_cluster(cli: Any, tmp_path: Path) -> None:
    """`--trace-cluster` takes the nodes beside the pods, and excludes another cluster."""
    (tmp_path / "openb_pod_list_a.csv").write_text(READERS.get("alibaba-openb-2023").SAMPLE)
    (tmp_path / "openb_node_list_gpu_node.csv").write_text("sn,gpu,model\na,8,T4\nb,2,G3\nc,2,G3\n")
    done = cli("import", "alibaba-openb-2023", tmp_path, "--json", "--trace-cluster")
    made = done.document
    assert (made["nodes"], made["gpus"], made["jobs"]) == (3, 12, 2)
    done = cli("import", "alibaba-openb-2023", tmp_path, "--trace-cluster", "--nodes", 2)
    assert (done.code, "give either trace_cluster or nodes" in done.err) == (2, True)


def test_import_a_file_of_another_format(cli: Any, tmp_path: Path) -> None:
    """File and line are named; the known readers too."""
    trace = tmp_path / "t.csv"
    trace.write_text("a,b\n1,2\n")
    done = cli("import", "philly-csv", trace)
    assert (done.code, "t.csv:1" in done.err) == (2, True)
    done = cli("import", "nope", trace)
    assert (done.code, "gavel, helios, lucid, muri, philly-csv, philly-json" in done.err) == (2, True)


def test_describe(cli: Any, tmp_path: Path) -> None:
    """Worked by hand: two jobs of 2 GPUs for 1000 s on 2 GPUs, the second released at 500 s."""
    path = tmp_path / "i.json"
    write_instance(path, instance(job("a"), job("b", release_s=500.0), job("huge", gpus=4, release_s=100.0)))
    done = cli("describe", path, "--json")
    found = done.document
    assert {"jobs", "nodes", "gpus", "offered_load", "span_h", "impossible"} <= set(found)
    assert (found["jobs"], found["nodes"], found["gpus"]) == (3, 1, 2)
    assert found["span_h"] == pytest.approx(500 / 3600)
    # 2 * 1000 + 2 * 1000 + 4 * 1000 GPU-seconds of work over 2 GPUs * 500 s.
    assert found["offered_load"] == pytest.approx(8.0)
    assert [j["job"] for j in found["impossible"]] == ["huge"]
    human = cli("describe", path)
    assert "impossible: job huge: it asks for 4 GPUs" in human.out


def test_describe_out(cli: Any, tiny: Path, tmp_path: Path) -> None:
    """The picture and its tables; without --force a folder in use is left alone."""
    out = tmp_path / "d"
    done = cli("describe", tiny, "--out", out, "--json")
    assert done.document["offered_load"] is None  # all at once
    names = {"workload.csv", "nodes.csv", *(f"figures/workload.{e}" for e in ("pdf", "png", "csv"))}
    assert set(done.document["files"]) == names
    assert all((out / name).stat().st_size for name in names)
    assert cli("describe", tiny, "--out", out).code == 2
    assert cli("describe", tiny, "--out", out, "--force").code == 0


# methods, profiles, paper, env, bench -------------------------------------------------------------


def test_methods(cli: Any) -> None:
    """Every method has its fixed keys; options are shown with their defaults."""
    done = cli("methods", "--json")
    keys = {"name", "kind", "class", "exact", "online", "available", "covers", "text"}
    assert all(keys <= set(m) for m in done.document["methods"])
    assert [m["name"] for m in done.document["methods"]] == list(method_names())
    assert "options of fifo: blocked=strict" in cli("methods").out


def test_profiles(cli: Any, tiny: Path) -> None:
    """The paper's four models, or those of an instance; show takes names."""
    done = cli("profiles", "list", "--json")
    assert [p["name"] for p in done.document["profiles"]] == ["AlexNet", "ResNet-18", "ResNet-50", "VGG-16"]
    done = cli("profiles", "show", "fast", "--instance", tiny, "--json")
    (found,) = done.document["profiles"]
    assert found["epoch_times"] == [{"gpu_type": "G", "gpus": None, "epoch_time_s": 50.0}]
    done = cli("profiles", "show", "nope")
    assert (done.code, "unknown profile 'nope'; known are: AlexNet" in done.err) == (2, True)


def test_paper_audit(cli: Any) -> None:
    """Every claim of the table, with what was recomputed; the two that disagree say so."""
    done = cli("paper", "audit", "--json")
    assert all({"id", "claimed", "recomputed", "agrees", "text"} <= set(c) for c in done.document["claims"])
    verdict = {c["id"]: c["agrees"] for c in done.document["claims"]}
    assert (len(verdict), verdict["c01"], verdict["c04"], verdict["c09"]) == (18, True, False, None)
    assert "NO" in cli("paper", "audit").out


def test_paper_tables(cli: Any, tmp_path: Path) -> None:
    """Ten rows, each of which `check` confirms from the files written."""
    out = tmp_path / "t"
    done = cli("paper", "tables", "--out", out, "--json")
    keys = {
        "job_set",
        "paper_energy_kwh",
        "energy_kwh",
        "paper_mean_jct_h",
        "mean_jct_h",
        "instance",
        "schedule",
    }
    rows = done.document["rows"]
    assert len(rows) == 10
    assert all(keys <= set(r) for r in rows)
    for row in rows:
        checked = cli("check", row["instance"], row["schedule"], "--json")
        assert checked.code == 0
        assert checked.document["energy_kwh"] == pytest.approx(row["energy_kwh"])
    assert cli("paper", "tables", "--out", out).code == 2
    assert cli("paper", "tables", "--json").document["rows"][0]["instance"] is None


def test_env(cli: Any) -> None:
    """Versions of the program, Python, packages and solvers, without loading a solver."""
    done = cli("env", "--json")
    assert {"version", "python", "packages", "solvers"} <= set(done.document)
    assert {"numpy", "highspy", "typer"} <= set(done.document["packages"])
    assert "HiGHS" in {s["name"] for s in done.document["solvers"]}
    code = (
        "import sys\nfrom experiments.cli import main\nmain(['env', '--json'])\n"
        "print(*sorted(sys.modules), file=sys.stderr)"
    )
    loaded = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert not {"highspy", "pulp", "ortools", "pyscipopt", "matplotlib"} & set(loaded.stderr.split())


# What goes where ----------------------------------------------------------------------------------


def test_help_is_light_and_complete() -> None:
    """`--help` loads none of the heavy libraries and lists every command."""
    code = (
        "import sys\nfrom experiments.cli import main\ncode = main(['--help'])\n"
        "print(code, *sorted(sys.modules), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    code_word, *loaded = done.stderr.split()
    assert code_word == "0"
    heavy = {
        "numpy",
        "pandas",
        "numba",
        "networkx",
        "matplotlib",
        "scipy",
        "pulp",
        "ortools",
        "highspy",
        "rich",
    }
    assert not heavy & set(loaded)
    for name in (
        "compare",
        "solve",
        "check",
        "generate",
        "import",
        "describe",
        "methods",
        "profiles",
        "paper",
        "bench",
        "env",
    ):
        assert f"  {name} " in done.stdout


def test_nothing_but_the_document_and_no_escape_codes(tiny: Path) -> None:
    """In a pipe JSON stands alone, tables have no escape codes and are as wide as they need to be."""
    done = shell("compare", tiny, "--json")
    assert done.code == 0
    assert done.document["rows"]
    assert done.err == ""
    text = shell("profiles", "list", env={"COLUMNS": "20", "FORCE_COLOR": "1"})
    assert "\x1b" not in text.out + text.err
    assert max(map(len, text.out.splitlines())) > 60
    assert "…" not in text.out


def test_quiet(cli: Any, tiny: Path) -> None:
    """--quiet leaves the result and drops notes."""
    loud, quiet = (cli("solve", tiny, "-m", "fifo", *more) for more in ((), ("--quiet",)))
    assert "give --out FILE" in loud.err
    assert quiet.err == ""
    assert "energy" in quiet.out


def test_names_are_text_not_markup(cli: Any, tmp_path: Path) -> None:
    """A job called [red] is printed as that, and a dollar sign draws no formula."""
    path = tmp_path / "i.json"
    names = ("[red]x[/red]", "$a_b$", "'; DROP")
    write_instance(path, instance(*(job(n, gpus=4) for n in names), job("ok")))
    done = cli("describe", path)
    for name in names:
        assert name in done.out
    write_instance(tmp_path / "ok.json", instance(*(job(n) for n in names)))
    done = cli("compare", tmp_path / "ok.json", "--methods", "[bold]=fifo", "--out", tmp_path / "o")
    assert done.code == 0
    assert "[bold]" in done.out
    assert [p.name for p in (tmp_path / "o" / "schedules").iterdir()] == ["bold.json"]


def test_output_that_nobody_reads_any_more_is_quiet() -> None:
    """A closed pipe ends the program without a word."""
    process = subprocess.Popen(
        [sys.executable, "-m", "experiments.cli", "methods", "--json"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None and process.stderr is not None
    process.stdout.close()
    assert process.stderr.read() == ""
    assert process.wait() == 141


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_interrupt_is_clean(tmp_path: Path) -> None:
    """Ctrl-C ends with code 130 and one line, and leaves no half-written file."""
    code = (
        "import experiments.compare, time, sys\nfrom experiments.cli import main\n"
        "def slow(*a, **k):\n    print('started', file=sys.stderr, flush=True)\n    time.sleep(60)\n"
        "experiments.compare.compare = slow\n"
        f"sys.exit(main(['compare', '--out', {str(tmp_path / 'o')!r}, '--quiet']))"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    assert process.stderr.readline() == "started\n"
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out) == (130, "")
    assert err == "error: interrupted; nothing unfinished was written\n"
    assert not list((tmp_path / "o").iterdir())


def test_hash_seed_and_time_zone_change_no_byte(folder: Path, tmp_path: Path) -> None:
    """Tables and schedules of a comparison do not depend on hashing or on the time zone."""
    # Without the variable this process has a random seed.
    seed = "1" if os.environ.get("PYTHONHASHSEED") != "1" else "2"
    env = {"PYTHONHASHSEED": seed, "TZ": "Asia/Tokyo"}
    code = (
        "import sys\nfrom experiments.compare import compare\n"
        "from experiments.tables import write_comparison\n"
        "from instances import builtin_instance\n"
        "write_comparison(compare(builtin_instance()), sys.argv[1], figures=())"
    )
    subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "o")], cwd=ROOT, env={**os.environ, **env}, check=True
    )
    folders = [folder, tmp_path / "o"]
    # Figures come from these tables alone; tests/paper_figs holds them to the same.
    names = sorted(p.relative_to(folders[1]) for p in folders[1].rglob("*") if p.is_file())
    assert len(names) == 7 + 5
    for name in names:
        first, second = ((f / name).read_bytes() for f in folders)
        if name.name in ("rows.csv", "comparison.json"):  # they hold the time that each method took
            first, second = (_without_runtime(data, name.suffix) for data in (first, second))
        assert first == second, name


def _without_runtime(data: bytes, suffix: str) -> Sequence[Any]:
    import csv
    import io

    if suffix == ".json":
        document = json.loads(data)
        document["files"] = [name for name in document["files"] if not name.startswith("figures/")]
        return [document | {"rows": [r | {"runtime_s": None} for r in document["rows"]]}]
    return [r | {"runtime_s": ""} for r in csv.DictReader(io.StringIO(data.decode()))]


def test_module_and_script_agree() -> None:
    """`python -m experiments.cli` is the program."""
    assert shell("--version").out.startswith("eaco-opt ")
