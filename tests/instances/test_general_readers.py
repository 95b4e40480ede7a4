"""Readers `philly-json`, `helios`, `swf` and `csv`, each quirk on a hand-written sample."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from eaco_opt.errors import DomainError, TraceError
from instances import READERS, ImportOptions, TraceImport
from instances.readers import import_text
from instances.readers.text import TraceText


def taken(name: str, data: str | bytes, **more: Any) -> TraceImport:
    options = ImportOptions(**{"nodes": 4, "slack": None, **more})
    return import_text(name, READERS.get(name), TraceText.of(data, file="trace"), options)


def refusals(made: TraceImport) -> dict[int, str]:
    return {n.line: n.reason for n in made.details if n.action == "refused"}


def repairs(made: TraceImport) -> list[tuple[int, str]]:
    return [(n.line, n.reason) for n in made.details if n.action == "repaired"]


# philly-json ------------------------------------------------------------------------------------------


def philly(**change: Any) -> dict[str, Any]:
    """Return a job of one attempt of 60 s on two GPUs, with changes."""
    attempt = {
        "start_time": "2017-10-09 07:02:00",
        "end_time": "2017-10-09 07:03:00",
        "detail": [{"ip": "m1", "gpus": ["gpu0", "gpu1"]}],
    }
    job = {
        "status": "Pass", "vc": "a", "jobid": "j1", "attempts": [attempt],
        "submitted_time": "2017-10-09 07:01:00", "user": "u",
    }  # fmt: skip
    return {**job, **change}


def attempt(start: Any, end: Any, gpus: int = 1) -> dict[str, Any]:
    return {
        "start_time": start,
        "end_time": end,
        "detail": [{"ip": "m", "gpus": [f"gpu{i}" for i in range(gpus)]}],
    }


def listed(*jobs: Any, indent: int | None = None) -> str:
    return json.dumps(list(jobs), indent=indent)


@pytest.mark.parametrize("indent", [None, 4])
def test_philly_json_however_it_is_laid_out(indent: int | None) -> None:
    """On one line or on many, the jobs are the same, and named after their places in the list."""
    other = philly(jobid="j{2}", submitted_time="2017-10-09 07:05:00", user='quote " and \\ and ]')
    made = taken("philly-json", listed(philly(), other, indent=indent))
    assert (made.read, made.taken) == (2, 2)
    assert [(j.gpus, j.release_s) for j in made.instance.jobs] == [(2, 0.0), (2, 240.0)]
    assert made.instance.jobs[0].epochs >= 1
    assert [j.name for j in made.instance.jobs] == ["line1", "line2"]


def test_philly_json_attempts() -> None:
    """Attempts add up; those without times, or that end before they start, do not count and are told."""
    day = "2017-10-09 "
    jobs = [
        philly(
            jobid="sum",
            attempts=[
                attempt(day + "07:00:00", day + "07:01:00", 4),
                attempt(day + "08:00:00", day + "08:00:30", 2),
            ],
        ),
        philly(
            jobid="running",
            attempts=[attempt(day + "07:00:00", day + "07:02:00"), attempt(day + "09:00:00", None)],
        ),
        philly(
            jobid="back",
            attempts=[
                attempt(day + "07:00:00", day + "06:00:00"),
                attempt(day + "07:00:00", day + "07:03:00"),
            ],
        ),
        philly(jobid="none", attempts=[]),
        philly(jobid="null", attempts=None),
        philly(jobid="open", attempts=[attempt(day + "07:00:00", "None")]),
        philly(jobid="instant", attempts=[attempt(day + "07:00:00", day + "07:00:00")]),
        philly(jobid="nogpu", attempts=[attempt(day + "07:00:00", day + "07:01:00", 0)]),
        philly(jobid="when", submitted_time="None"),
        philly(jobid="odd", submitted_time="yesterday"),
        philly(jobid="sum"),
        "no object",
    ]
    text = "[\n" + ",\n".join(json.dumps(j) for j in jobs[:-1]) + "\n]"
    made = taken("philly-json", text)
    durations = {j.name: j.epochs for j in made.instance.jobs}
    assert set(durations) == {"line1", "line2", "line3", "line11"}
    seconds = {
        j.name: made.instance.profile(j.profile).epoch_time_s("V100", j.gpus) for j in made.instance.jobs
    }
    runs = {name: durations[name] * (seconds[name] or 0.0) for name in durations}
    assert runs == pytest.approx({"line1": 90.0, "line2": 120.0, "line3": 180.0, "line11": 60.0})
    assert {j.name: j.gpus for j in made.instance.jobs}["line1"] == 2
    assert refusals(made) == {
        4: "no-attempt", 5: "no-attempt", 6: "missing-duration", 7: "duration-not-positive", 8: "no-gpu",
        9: "missing-timestamp", 10: "bad-timestamp",
    }  # fmt: skip
    assert repairs(made) == [
        (1, "gpus-differ"), (2, "attempt-without-times"), (3, "attempt-ends-before-start"),
        (11, "duplicate-id"),
    ]  # fmt: skip
    assert taken("philly-json", text, states=("Pass",), vc="a").taken == 4


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[", "cut short"),
        (listed(philly())[:-1], "cut short"),
        (listed(philly())[:-30], "cut short"),
        (listed(philly(), "no object"), "expected a JSON list of jobs"),
        (json.dumps(philly()), "expected a JSON list of jobs"),
        ('[{"a": 1}] x', "expected a JSON list of jobs"),
        ("[1, 2]", "expected a JSON list of jobs"),
        ("]", "expected a JSON list of jobs"),
        ("[]", "no row was taken"),
    ],
)
def test_philly_json_that_is_none(text: str, said: str) -> None:
    """An error with file and line."""
    with pytest.raises(TraceError, match=said):
        taken("philly-json", text)


def test_philly_json_with_a_broken_job_inside() -> None:
    """A job that is no JSON, or no object, is refused by itself."""
    text = f'[\n{json.dumps(philly())},\n{{\'a\': 1}},\n[1],\n{{"a": "\xff"}}\n]'.encode("latin-1")
    made = taken("philly-json", text)
    assert made.taken == 1 and refusals(made) == {2: "bad-json", 3: "bad-json", 4: "not-utf-8"}


# helios -----------------------------------------------------------------------------------------------


def test_helios() -> None:
    """Zero GPUs, missing cells, repeated ids, states and virtual clusters; CRLF and a byte order mark."""
    head = "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue"
    rows = [
        "1,u,vcA,8,1,1,COMPLETED,2020-04-01 08:00:00,,,60,0",
        "2,u,vcA,0,1,1,COMPLETED,2020-04-01 08:00:00,,,60,0",
        "3,u,vcB,None,1,1,FAILED,2020-04-01 08:00:00,,,60,0",
        "4,u,vcB,1.5,1,1,FAILED,2020-04-01 08:00:00,,,60,0",
        "5,u,vcB,1,1,1,FAILED,,,,60,0",
        "6,u,vcB,1,1,1,FAILED,2020-04-01 08:00:00,,,null,0",
        "1,u,vcB,1,1,1,SUSPENDED,2020-03-31 23:59:59,,,30,0",
        "8,u,vcB,1,1,1,FAILED,2020-04-01 08:00:00,,,0,0",
        "9,u,vcB,999999999,1,1,FAILED,2020-04-01 08:00:00,,,5,0",
    ]
    data = b"\xef\xbb\xbf" + "\r\n".join([head, *rows]).encode()
    made = taken("helios", data)
    assert refusals(made) == {
        3: "no-gpu", 4: "missing-gpus", 5: "bad-gpus", 6: "missing-timestamp", 7: "missing-duration",
        9: "duration-not-positive", 10: "bad-gpus",
    }  # fmt: skip
    assert [j.name for j in made.instance.jobs] == ["line8", "line2"]
    assert repairs(made) == [(8, "duplicate-id")]
    assert dict(made.instance.metadata)["trace.first_submit"] == "2020-03-31T15:59:59Z"  # 8 h before
    assert [j.name for j in taken("helios", data, states=["SUSPENDED"]).instance.jobs] == ["line8"]


# swf --------------------------------------------------------------------------------------------------


def swf(**change: int | str) -> str:
    """Return a line: 60 s on 4 processors, with changes by field number (f1 to f18)."""
    cells = ["1", "0", "5", "60", "4", *["-1"] * 13]
    for key, value in change.items():
        cells[int(key[1:]) - 1] = str(value)
    return " ".join(cells)


def test_swf() -> None:
    """-1 is missing, run time 0 is refused, requested processors stand in, the header has the date."""
    lines = [
        "; Version: 2.2",
        "; UnixStartTime: 1000000000",
        "; TimeZoneString: Nowhere/City",
        swf(),
        swf(f1=2, f4=-1),
        swf(f1=3, f4=0),
        swf(f1=4, f5=-1, f8=6, f2=30, f11=1, f14=9, f16=2),
        swf(f1=5, f5=-1),
        swf(f1=6, f5=0),
        swf(f1=1, f2=40, f11=0),
        swf(f1=7, f2="x"),
        "1 2 3",
        ";",
    ]
    made = taken("swf", "\n".join(lines), too_large="drop")
    assert refusals(made) == {
        5: "missing-duration", 6: "duration-not-positive", 8: "missing-gpus", 9: "no-gpu",
        11: "bad-timestamp",
        12: "wrong-column-count",
    }  # fmt: skip
    assert [(j.name, j.gpus, j.release_s) for j in made.instance.jobs] == [
        ("line4", 4, 0.0), ("line7", 6, 30.0), ("line10", 4, 40.0),
    ]  # fmt: skip
    assert repairs(made) == [(7, "requested-gpus"), (10, "duplicate-id")]
    said = dict(made.instance.metadata)
    assert said["trace.first_submit"] == "2001-09-09T01:46:40Z"
    assert said["assumption.gpus_of_processors"] == "a processor of the trace is read as a GPU"
    assert [j.name for j in taken("swf", "\n".join(lines), states=["COMPLETED"], vc="2").instance.jobs] == [
        "line7"
    ]
    plain = taken("swf", swf())
    assert dict(plain.instance.metadata)["trace.first_submit"] == "0 s in the trace's own time"
    for text in ("", "; only comments", "1 2 3", swf().replace(" ", ","), swf(f5="four")):
        with pytest.raises(TraceError, match="expected the Standard Workload Format, 18 numbers"):
            taken("swf", text)


# csv --------------------------------------------------------------------------------------------------


def test_csv_with_columns_of_other_names() -> None:
    """Columns by role, in another unit; what stands beside is ignored; models are kinds."""
    text = "when,n,long,team,who,due,what\n10,2,1.5,x,ann,100,net\n0,1,2,y,bob,,None\n"
    columns = {
        "submit": "when",
        "gpus": "n",
        "duration": "long",
        "vc": "team",
        "deadline": "due",
        "model": "what",
    }
    made = taken("csv", text, columns=columns, time_unit="min", slack=(2.0, 2.0))
    assert [(j.name, j.gpus, j.release_s) for j in made.instance.jobs] == [
        ("line3", 1, 0.0),
        ("line2", 2, 600.0),
    ]
    assert [j.deadline_s for j in made.instance.jobs] == pytest.approx([240.0, 6000.0])
    assert repairs(made) == [(3, "missing-model")]
    said = dict(made.instance.metadata)
    assert (
        said["assumption.columns"] == "submit=when, duration=long, gpus=n, vc=team, model=what, deadline=due"
    )
    assert said["assumption.time_unit"] == "times are in minutes"
    assert json.loads(said["import.call"])["columns"] == columns


def test_csv_with_dates_and_ends() -> None:
    """Running time from start and end; dates with an offset and without one, in a named zone."""
    text = (
        "submit,begin,finish,gpus,state,priority\n"
        "2024-03-01T08:00:00+01:00,2024-03-01 09:00,2024-03-01 10:00,1,ok,-3\n"
        "2024-03-01 08:00:30,2024-03-01 09:00,2024-03-01 08:00,1,ok,2\n"
        "2024-03-01 08:01:00,2024-03-01 09:00,2024-03-01 09:30,1,bad,2\n"
    )
    columns = {"start": "begin", "end": "finish"}
    made = taken("csv", text, columns=columns, time_zone="Europe/Berlin")
    assert [(j.name, j.release_s, j.priority) for j in made.instance.jobs] == [
        ("line2", 0.0, -3),
        ("line4", 60.0, 2),
    ]
    assert refusals(made) == {3: "end-before-start"}
    assert dict(made.instance.metadata)["trace.first_submit"] == "2024-03-01T07:00:00Z"


def test_csv_says_what_it_needs() -> None:
    """A lacking column names what there is and how to map; wrong roles, units and zones are refused."""
    text = "when,n,long\n10,2,1.5\n"
    with pytest.raises(
        TraceError, match=r"trace:1: .*no column submit, gpus, duration.*--columns submit=COLUMN"
    ):
        taken("csv", text)
    with pytest.raises(TraceError, match="no column nn"):
        taken("csv", text, columns={"submit": "when", "gpus": "nn", "duration": "long"})
    with pytest.raises(DomainError, match="unknown column 'size'; known are: submit, duration"):
        taken("csv", text, columns={"size": "n"})
    with pytest.raises(DomainError, match="column 'n' stands for two roles"):
        taken("csv", text, columns={"gpus": "n", "submit": "n"})
    with pytest.raises(DomainError, match="unknown time_unit 'weeks'; known are: ms, s, min, h, d"):
        taken("csv", text, time_unit="weeks")
    with pytest.raises(DomainError, match="time zone 'Mars/Base' is not known"):
        taken("csv", text, time_zone="Mars/Base")
    with pytest.raises(DomainError, match="columns must be left out; it belongs to the reader 'csv'"):
        taken("helios", READERS.get("helios").SAMPLE, columns={"submit": "x"})


# Selection and load -----------------------------------------------------------------------------------


def many(count: int = 200) -> str:
    """Return a CSV: a job each minute, an hour long, of 1, 2 or 4 GPUs, each third one failed."""
    rows = [
        f"{i},{60 * i},3600,{(1, 2, 4)[i % 3]},{'failed' if i % 3 == 0 else 'done'}" for i in range(count)
    ]
    return "id,submit,duration,gpus,state\n" + "\n".join(rows)


def test_states_and_sizes() -> None:
    """Rows in other states or of other sizes are refused by those names; unknown states list the known."""
    made = taken("csv", many(9), states=("done",), gpus=(2, 3))
    assert made.refused == {"other-state": 3, "outside-sizes": 3}
    assert {j.gpus for j in made.instance.jobs} == {2}
    with pytest.raises(Exception, match="unknown state 'lost' in trace; known are: done, failed"):
        taken("csv", many(9), states=("lost",))
    with pytest.raises(DomainError, match="states must be left out, for trace does not say"):
        taken("tiresias", READERS.get("tiresias").SAMPLE, states=("done",))
    with pytest.raises(TraceError, match="no row was taken; read 9, refused: 9 outside-sizes"):
        taken("csv", many(9), gpus=(5, 5))


def test_a_sample_belongs_to_the_rows() -> None:
    """N rows in order of submission; the same seed, the same rows; smaller samples are parts of larger."""
    names = [j.name for j in taken("csv", many(), sample=40, seed=3).instance.jobs]
    assert len(names) == 40 and names == sorted(names, key=lambda n: int(n[4:]))
    assert names == [j.name for j in taken("csv", many(), sample=40, seed=3).instance.jobs]
    assert names != [j.name for j in taken("csv", many(), sample=40, seed=4).instance.jobs]
    assert set(j.name for j in taken("csv", many(), sample=10, seed=3).instance.jobs) <= set(names)
    made = taken("csv", many(), sample=40, jobs=5)
    assert made.taken == 5 and made.refused == {"beyond-job-limit": 35, "not-sampled": 160}
    assert taken("csv", many(5), sample=10).taken == 5


def load_of(made: TraceImport, span_s: float) -> float:
    work = sum(3600.0 * j.gpus for j in made.instance.jobs)
    return work / (made.instance.cluster.total_gpus() * span_s)


def test_thinning_to_a_load() -> None:
    """The load of those left, over the time that all span, is that asked for to within a job."""
    span_s = 199 * 60.0
    has = load_of(taken("csv", many()), span_s)
    made = taken("csv", many(), load=0.7 * has, seed=1)
    assert load_of(made, span_s) == pytest.approx(0.7 * has, abs=4 * 3600.0 / (32 * span_s))
    assert made.refused == {"thinned": 200 - made.taken}
    assert f"offered load {has:.6g} before" in dict(made.instance.metadata)["assumption.load"]
    fewer = taken("csv", many(), load=0.3 * has, seed=1)
    assert {j.name for j in fewer.instance.jobs} < {j.name for j in made.instance.jobs}
    with pytest.raises(
        DomainError, match="load 99 cannot be reached by leaving jobs out: the rows taken have"
    ):
        taken("csv", many(), load=99.0)


def test_compressing_to_a_load() -> None:
    """All jobs stay; releases are multiplied; the load comes out exactly, up or down."""
    has = load_of(taken("csv", many()), 199 * 60.0)
    for load in (2.0 * has, 0.5 * has):
        made = taken("csv", many(), load=load, load_by="compress")
        assert made.taken == 200
        assert load_of(made, made.instance.jobs[-1].release_s) == pytest.approx(load, rel=1e-6)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"load": 0.0}, "load must be a finite number above 0, got 0.0"),
        ({"load": 1.0, "release": "zero"}, "load must be left out with release 'zero'"),
        ({"load": 1.0, "load_by": "magic"}, "unknown way to a load 'magic'; known are: thin, compress"),
        ({"gpus": (3, 2)}, "gpus must be two whole numbers with 1 <= low <= high"),
        ({"gpus": (-1, 2)}, "gpus must be two whole numbers"),
        ({"sample": 0}, "sample must be a whole number >= 1, got 0"),
        ({"states": ()}, "states must be names of states"),
    ],
)
def test_bad_selections_are_named(more: dict[str, Any], said: str) -> None:
    """Before anything is read."""
    with pytest.raises(Exception, match=said):
        taken("csv", many(3), **more)


def test_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The options of the command are those of the library."""
    from experiments.cli import main

    path, out = tmp_path / "t.csv", tmp_path / "i.json"
    path.write_text(many().replace("gpus", "n"))
    call = [
        "import",
        "csv",
        str(path),
        "--columns",
        "gpus=n",
        "--nodes",
        "4",
        "--out",
        str(out),
        "--force",
        "--json",
    ]
    more = [
        "--states",
        "done",
        "--gpus",
        "2",
        "4",
        "--sample",
        "50",
        "--load",
        "0.5",
        "--load-by",
        "compress",
    ]
    assert main([*call, *more, "--time-unit", "s"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["taken"] == 50
    assert document["refused"] == {"not-sampled": 83, "other-state": 67}
    assert main([*call, "--columns", "gpus"]) == 2
    assert "ROLE=COLUMN" in capsys.readouterr().err
