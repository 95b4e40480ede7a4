"""Selection and accounts, whatever the reader: windows, limits, releases, deadlines, reports, conformance."""

from __future__ import annotations

import csv
import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eaco_opt.errors import (
    DomainError,
    EacoError,
    FormatError,
    OutputExistsError,
    TraceError,
    UnknownNameError,
)
from eaco_opt.io import instance_digest
from instances import READERS, ImportOptions, TraceImport, import_trace, write_report
from instances.readers import import_text
from instances.readers.text import TraceText

HEADER = "timestamp,duration,num_gpus,gpu_time,cluster"
ROWS = [f"2017-10-09 07:{minute:02d}:00,{600 + 600 * (minute % 3)},1,,a" for minute in range(10)]


def take(rows: list[str] = ROWS, **options: Any) -> TraceImport:
    """Import Philly rows, ten of them a minute apart by default, with a few options."""
    options.setdefault("nodes", 2)
    text = TraceText.of("\n".join([HEADER, *rows]) + "\n", file="some/folder/jobs.csv")
    return import_text("philly-csv", READERS.get("philly-csv"), text, ImportOptions(**options))


def names(result: TraceImport) -> list[int]:
    """Lines of the jobs, in order."""
    return [int(j.name.removeprefix("line")) for j in result.instance.jobs]


@pytest.mark.parametrize("name", READERS.names())
def test_readers_conform(name: str) -> None:
    """Each reader has a summary, both halves, and refuses files of nobody's format as a whole."""
    assert READERS.summary(name).endswith(".")
    reader = READERS.get(name)
    for data in (b"", b"\n\n", b"\x00\x01\x02", b"{}", b"hello world\n", b"\xff\xfe"):
        with pytest.raises(TraceError):
            import_text(name, reader, TraceText.of(data), ImportOptions())


def test_unknown_reader_lists_the_known() -> None:
    """A misspelt reader is an error that lists what there is."""
    with pytest.raises(UnknownNameError, match=rf"unknown trace reader 'x'; known are: {', '.join(READERS)}"):
        import_trace("x", "f")


@pytest.mark.parametrize(
    ("low", "high", "lines"),
    [
        (None, None, range(2, 12)),
        (120, None, range(4, 12)),
        (None, 120, range(2, 4)),
        (60.0, 180.0, range(3, 5)),
        ("60", "180", range(3, 5)),
        ("2017-10-09 07:03", None, range(5, 12)),
        ("2017-10-09T07:03:00", "2017-10-09T07:05:00", range(5, 7)),
        ("2017-10-09T14:03:00+00:00", "2017-10-09T14:05:00Z", range(5, 7)),
        ("2017-10-09", "2017-10-10", range(2, 12)),
    ],
)
def test_windows(low: Any, high: Any, lines: range) -> None:
    """Windows are [from, to): seconds from the first submit, or dates, local unless they carry an offset."""
    result = take(time_from=low, time_to=high)
    assert names(result) == list(lines)
    assert result.instance.jobs[0].release_s == 0.0
    out = 10 - len(lines)
    assert result.refused == ({"outside-window": out} if out else {})


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"time_from": "soon"}, r"time_from must be seconds from the first submit or an ISO date such as"),
        ({"time_from": 50, "time_to": 50}, r"time_from must be before time_to, got 50 and 50"),
        ({"time_to": math.nan}, r"time_to must be seconds or an ISO date, got nan"),
        ({"jobs": 0}, r"jobs must be a whole number >= 1, got 0"),
        ({"slack": (2, 1)}, r"import: slack must be two finite numbers with 0 < low <= high"),
        ({"max_duration_s": 0}, r"max_duration_s must be a finite number above 0 \[s\], got 0"),
        ({"mapping": "x"}, r"unknown mapping 'x'; known are: native, paper-cnn"),
        ({"too_large": "x"}, r"unknown choice for too large jobs 'x'; known are: refuse, drop, clip"),
        ({"release": "x"}, r"unknown choice of releases 'x'; known are: trace, zero"),
        ({"seed": -1}, r"seed must be a whole number"),
        ({"nodes": 0}, r"nodes must be a whole number >= 1, got 0"),
        ({"limits": 1}, r"limits must be a Limits, got 1"),
        ({"objective": 1}, r"objective must be an Objective, got 1"),
        ({"own_deadlines": 1}, r"own_deadlines must be true or false, got 1"),
    ],
)
def test_bad_options_are_named(options: dict[str, Any], text: str) -> None:
    """Each unusable option is an error that names it and says what was expected."""
    with pytest.raises(EacoError, match=text):
        take(**options)


def test_traces_without_a_calendar_refuse_dates(data_dir: Path) -> None:
    """Gavel's arrivals are seconds: a date for a window, or a virtual cluster, is an error that says so."""
    path, table = data_dir / "gavel" / "51b7ef.trace", data_dir / "gavel" / "v100_throughputs.csv"
    with pytest.raises(
        DomainError, match=r"must be seconds from the first submit, for 51b7ef.trace has no calendar"
    ):
        import_trace("gavel", path, ImportOptions(throughputs=table, time_from="2017-10-09"))
    with pytest.raises(DomainError, match=r"vc must be left out, for 51b7ef.trace names no virtual clusters"):
        import_trace("gavel", path, ImportOptions(throughputs=table, vc="a"))
    some = import_trace("gavel", path, ImportOptions(throughputs=table, time_from=70000.0))
    assert some.refused["outside-window"] == 2  # arrivals 0 and 58,417 of 18


def test_the_first_jobs_in_order_of_submission() -> None:
    """`jobs` takes the first usable rows by submit time; the others are counted."""
    result = take(list(reversed(ROWS)), jobs=3)
    assert names(result) == [11, 10, 9]
    assert result.refused == {"beyond-job-limit": 7}
    assert take(jobs=99).taken == 10


def test_dropped_rows_do_not_use_up_the_limit() -> None:
    """Too large rows before the limit make room for later ones when dropped, and are an error when not."""
    rows = ["2017-10-09 06:00:00,600,64,,a", *ROWS]
    result = take(rows, jobs=2, too_large="drop")
    assert names(result) == [3, 4]
    assert result.refused == {"beyond-job-limit": 8, "too-large": 1}
    with pytest.raises(EacoError, match=r"job 'line2': asks for 64 GPUs, one job can have 16 in 2 x v100x8"):
        take(rows, jobs=2)
    # A too large row beyond the limit troubles nobody.
    late = [*ROWS, "2017-10-09 08:00:00,600,64,,a"]
    assert take(late, jobs=2).taken == 2


def test_release_zero_keeps_the_order() -> None:
    """All releases are 0; submit indices keep the order of the trace."""
    result = take(list(reversed(ROWS)), release="zero")
    assert {j.release_s for j in result.instance.jobs} == {0.0}
    assert names(result) == list(range(11, 1, -1))
    assert [j.submit_index for j in result.instance.jobs] == list(range(10))


def test_deadlines() -> None:
    """Deadline = release + slack * exclusive time: exact at slack 1, in the range, none without slack."""
    for job in take(slack=(1.0, 1.0)).instance.jobs:
        assert job.deadline_s == job.release_s + job.epochs * 600.0
    for job in take(slack=(1.3, 2.5)).instance.jobs:
        assert 1.3 - 1e-9 <= (job.deadline_s - job.release_s) / (job.epochs * 600.0) <= 2.5 + 1e-5
    assert {j.deadline_s for j in take(slack=None).instance.jobs} == {math.inf}
    # Thirds of seconds: rounded up to the next millisecond, never down.
    (job,) = take(["2017-10-09 07:00:00,0.3333333,1,,a"], slack=(1.0, 1.0)).instance.jobs
    assert job.deadline_s == 0.334


def test_draws_belong_to_rows_of_the_file() -> None:
    """A window or a limit leaves the slack and the model of each row as they were."""
    for options in ({"time_from": 180.0}, {"jobs": 4}):
        whole = {j.name: j for j in take(mapping="paper-cnn", seed=5).instance.jobs}
        for job in take(mapping="paper-cnn", seed=5, **options).instance.jobs:
            before = whole[job.name]
            assert (job.profile, job.epochs) == (before.profile, before.epochs)
            left = job.deadline_s - job.release_s
            assert left == pytest.approx(before.deadline_s - before.release_s, abs=2e-3)


def test_seed_changes_draws_and_nothing_else() -> None:
    """Another seed gives other deadlines for the same jobs."""
    a, b = take(seed=1).instance, take(seed=2).instance
    assert [(j.name, j.epochs, j.release_s) for j in a.jobs] == [
        (j.name, j.epochs, j.release_s) for j in b.jobs
    ]
    assert [j.deadline_s for j in a.jobs] != [j.deadline_s for j in b.jobs]
    assert instance_digest(a) == instance_digest(take(seed=1).instance)


def test_nothing_taken_is_an_error_with_the_counts() -> None:
    """An empty selection is not an empty instance: the text gives the counts and the first reason."""
    rows = ["2017-10-09 07:00:00,0,1,,a", "2017-10-09 07:00:00,9,0,,a"]
    with pytest.raises(
        TraceError,
        match=r"no row was taken; read 2, refused: 1 duration-not-positive, 1 no-gpu; the first: line 2",
    ):
        take(rows)
    with pytest.raises(TraceError, match=r"no row was taken; read 0, refused: none"):
        take([])


def test_metadata_says_what_was_done() -> None:
    """Names, digests, counts and assumptions are there, and no path of the machine."""
    said = dict(take(["2017-10-09 06:00:00,600,64,,a", *ROWS], too_large="drop").instance.metadata)
    assert said["source"] == "trace jobs.csv, reader philly-csv"
    assert (said["import.read"], said["import.taken"], said["import.dropped"]) == ("11", "10", "line2")
    assert json.loads(said["import.refused"]) == {"too-large": 1}
    assert json.loads(said["import.call"])["cluster"] == "2 x v100x8 (8 V100 each)"
    assert len(said["trace.sha256"]) == 64
    assert not any("some/folder" in text for text in said.values())


def test_name_of_the_instance() -> None:
    """The name comes from reader and file, unless one is given."""
    assert take().instance.name == "philly-csv jobs.csv"
    assert take(name="mine").instance.name == "mine"


BAD = [*ROWS[:3], "2017-10-09 07:00:00,0,1,,=cmd()", "2017-11-05 01:10:00,600,1,,a"]


def test_report_as_csv_and_json(tmp_path: Path) -> None:
    """Both forms list every repair and refusal with file, line, action, reason and text."""
    result = take(BAD)
    write_report(result, tmp_path / "r.csv")
    with (tmp_path / "r.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(r["file"], r["line"], r["action"], r["reason"]) for r in rows] == [
        ("some/folder/jobs.csv", "5", "refused", "duration-not-positive"),
        ("some/folder/jobs.csv", "6", "repaired", "ambiguous-local-time"),
    ]
    write_report(result, tmp_path / "r.json")
    document = json.loads((tmp_path / "r.json").read_text())
    assert {k: document[k] for k in ("read", "taken", "repaired", "refused")} == {
        "read": 5,
        "taken": 4,
        "repaired": {"ambiguous-local-time": 1},
        "refused": {"duration-not-positive": 1},
    }
    assert [d["line"] for d in document["details"]] == [5, 6]


def test_report_never_overwrites_unasked(tmp_path: Path) -> None:
    """An existing report stays, unless replacing it was asked for; other endings are refused."""
    result = take(BAD)
    path = tmp_path / "r.csv"
    path.write_text("mine")
    with pytest.raises(OutputExistsError):
        write_report(result, path)
    assert path.read_text() == "mine"
    write_report(result, path, force=True)
    assert path.read_text().startswith("file,line,action,reason,text\n")
    with pytest.raises(FormatError, match=r"expected a name that ends in .csv or .json, got '.txt'"):
        write_report(result, tmp_path / "r.txt")


CELL = st.one_of(
    st.sampled_from(
        ["", "0", "1", "8", "64", "-1", "nan", "1e400", "2017-11-05 01:30:00", "a", '"', "600.5", "\x00"]
    ),
    st.text(max_size=12),
)
LINE = st.one_of(
    st.lists(CELL, min_size=1, max_size=13).map("\t".join),
    st.lists(CELL, min_size=3, max_size=6).map(",".join),
    st.text(max_size=40),
)


@given(
    st.sampled_from(["philly-csv", "gavel"]),
    st.sampled_from([HEADER + "\n", "", "#\n"]),
    st.lists(LINE, max_size=8),
    st.sampled_from(["refuse", "drop", "clip"]),
    st.sampled_from(["native", "paper-cnn"]),
    st.sampled_from([None, 1, 3]),
)
def test_any_text_is_taken_or_refused_in_words(
    reader: str, head: str, lines: list[str], too_large: str, mapping: str, jobs: int | None
) -> None:
    """Whatever a file holds: an instance whose accounts add up, or an error of ours; never a traceback."""
    text = TraceText.of((head + "\n".join(lines)).encode("utf-8", "surrogatepass"))
    options = ImportOptions(nodes=1, too_large=too_large, mapping=mapping, jobs=jobs)
    if reader == "gavel":  # its first half alone: the second needs a table
        try:
            columns = READERS.get(reader)().read(text)
        except EacoError:
            return
        assert columns.read == len(columns.line) + sum(n.action == "refused" for n in columns.notes)
        return
    try:
        result = import_text(reader, READERS.get(reader), text, options)
    except EacoError:
        return
    assert result.read == result.taken + sum(result.refused.values())
    assert result.taken == len(result.instance.jobs) > 0
    assert sum(n.action == "refused" for n in result.details) == sum(result.refused.values())
    assert sum(n.action == "repaired" for n in result.details) == sum(result.repaired.values())


GAVEL_CELLS = st.tuples(
    st.sampled_from(["LM (batch size 5)", "x", "", "\ud800"]),
    st.sampled_from(["1", "100000", "0", "nan", "99999999999999999", "9" * 30]),
    st.sampled_from(["0", "5.5", "-3", "1e12", "1e13", "x"]),
    st.sampled_from(["1", "2", "64", "0", "1000001", "2.0"]),
)


@given(st.lists(GAVEL_CELLS, min_size=1, max_size=6), st.sampled_from(["drop", "clip", "refuse"]))
def test_gavel_rows_with_odd_cells(
    tmp_path_factory: Any, rows: list[tuple[str, str, str, str]], too_large: str
) -> None:
    """Rows of the right width with odd cells, through both halves: accounts add up, or an error of ours."""
    table = tmp_path_factory.getbasetemp() / "odd-table.csv"
    if not table.exists():
        table.write_text(
            "model,gpus,partner_model,partner_gpus,steps_per_s,partner_steps_per_s\n"
            "LM (batch size 5),1,,,3,\nLM (batch size 5),8,,,9,\n"
        )
    lines = [f"{model}\tc\t-n\t1\t{steps}\t{arrival}\t{gpus}" for model, steps, arrival, gpus in rows]
    text = TraceText.of("\n".join(lines).encode("utf-8", "surrogatepass"))
    options = ImportOptions(nodes=1, too_large=too_large, throughputs=table)
    try:
        result = import_text("gavel", READERS.get("gavel"), text, options)
    except EacoError:
        return
    assert result.read == len(rows) == result.taken + sum(result.refused.values())
