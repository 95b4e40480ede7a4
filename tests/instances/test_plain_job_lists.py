"""Readers `tiresias`, `muri` and `elasticflow`: job lists with running times."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from eaco_opt.errors import TraceError
from eaco_opt.impossible import impossible_jobs
from instances import READERS, ImportOptions, TraceImport, import_trace
from instances.readers import import_text
from instances.readers.text import TraceText

TIRESIAS = "job_id,num_gpu,submit_time,iterations,model_name,duration,interval"
MURI = (
    "job_id,num_gpu,submit_time,iterations,model_name,batch_size,duration,interval,iteration_time,"
    "resource_time_0,resource_time_1,resource_time_2,priority"
)
FLOW = "job_id,submission_time,num_iteration,model_name,deadline,batch_size,num_gpu,duration"


def take(reader: str, header: str, *rows: str, **options: object) -> TraceImport:
    """Import rows below a header."""
    text = TraceText.of("\n".join([header, *rows]), file="t.csv")
    return import_text(reader, READERS.get(reader), text, ImportOptions(**{"nodes": 2, **options}))


def test_tiresias_rows_become_jobs() -> None:
    """Seconds as they are, a kind for each model, order by submission."""
    made = take("tiresias", TIRESIAS, "0,1,50,606,vgg19,1200,30", "1,8,30,133,vgg11,147,23")
    assert [(j.name, j.gpus, j.release_s, j.epochs) for j in made.instance.jobs] == [
        ("line3", 8, 0.0, 1),
        ("line2", 1, 20.0, 2),
    ]
    assert {p.kind for p in made.instance.profiles} == {"vgg19", "vgg11"}
    assert {p.gpu_util_mean for p in made.instance.profiles} == {0.52}


@pytest.mark.parametrize(
    ("row", "reason", "text"),
    [
        ("2,8,,1,m,147,23", "missing-timestamp", "submit_time must be a number of seconds, got ''"),
        ("2,8,None,1,m,147,23", "missing-timestamp", "submit_time must be a number of seconds, got 'None'"),
        ("2,8,noon,1,m,147,23", "bad-timestamp", "submit_time must be a number of seconds, got 'noon'"),
        ("2,8,1e11,1,m,147,23", "bad-timestamp", "submit_time must be a number of seconds, got '1e11'"),
        (
            "2,8,1,1,m,null,23",
            "missing-duration",
            "duration must be a number of seconds, at most 1e+10, got 'null'",
        ),
        (
            "2,8,1,1,m,inf,23",
            "bad-duration",
            "duration must be a number of seconds, at most 1e+10, got 'inf'",
        ),
        ("2,8,1,1,m,0,23", "duration-not-positive", "duration must be above 0, got '0'"),
        ("2,0,1,1,m,9,23", "no-gpu", "num_gpu must be at least 1, got 0"),
        ("2,nan,1,1,m,9,23", "missing-gpus", "num_gpu must be a whole number from 1 to 1000000, got 'nan'"),
        ("2,1.5,1,1,m,9,23", "bad-gpus", "num_gpu must be a whole number from 1 to 1000000, got '1.5'"),
        (
            "2,1000001,1,1,m,9,23",
            "bad-gpus",
            "num_gpu must be a whole number from 1 to 1000000, got '1000001'",
        ),
        ("2,1,1,1,\x07,9,23", "bad-model", "model_name must be a printable name, got '\\x07'"),
    ],
)
def test_bad_rows_are_refused_in_words(row: str, reason: str, text: str) -> None:
    """A bad row is counted under its reason and listed with its line and what was expected."""
    good = "0,1,50,606,vgg19,1200,30"
    made = take("tiresias", TIRESIAS, good, row)
    assert (made.read, made.taken, made.refused) == (2, 1, {reason: 1})
    assert [(n.file, n.line, n.text) for n in made.details] == [("t.csv", 3, text)]


def test_repairs_are_counted() -> None:
    """A job without a model is one of no name; a repeated id is another job."""
    made = take("tiresias", TIRESIAS, "0,1,5,6,,12,30", "0,1,6,6,None,12,30")
    assert made.repaired == {"duplicate-id": 1, "missing-model": 2}
    assert {p.kind for p in made.instance.profiles} == {"tiresias-job"}


def test_columns_are_found_by_name() -> None:
    """Any order, quotes, columns of other names; optional ones may lack, required ones and twins not."""
    made = take("tiresias", 'user,"duration",submit_time, num_gpu ', '"a,b",60,0,2')
    assert [j.gpus for j in made.instance.jobs] == [2]
    with pytest.raises(
        TraceError,
        match=r"^t.csv:1: expected a Tiresias job list, .*, got no column num_gpu, duration: 'a,sub",
    ):
        take("tiresias", "a,submit_time", "1,2")
    with pytest.raises(TraceError, match="got column duration twice"):
        take("tiresias", "num_gpu,submit_time,duration,duration", "1,2,3,4")


def test_muri_is_in_milliseconds() -> None:
    """1,200,000 ms are 20 min, two epochs; submission 30,000 ms later is a release at 30 s."""
    made = take(
        "muri",
        MURI,
        "0,8,1000,10,gpt2,4,1200000,9,500,0.6,450,49,0",
        "1,1,31000,10,vgg16,16,600000,9,107,117,68,0,1",
    )
    first, second = made.instance.jobs
    assert (first.release_s, first.epochs, first.priority) == (0.0, 2, 0)
    assert (second.release_s, second.epochs, second.priority) == (30.0, 1, 1)
    # GPU share: 450 / 500 = 0.9; 68 / 107 = 0.6355, two digits.
    assert [p.gpu_util_mean for p in made.instance.profiles] == [0.9, 0.64]
    assert "milliseconds" in dict(made.instance.metadata)["assumption.units"]


def test_muri_shares_are_bounded_and_optional() -> None:
    """A GPU time above the iteration's gives 0.9, of almost none 0.01, a missing one the mean 0.52."""
    made = take(
        "muri",
        MURI,
        "0,1,0,1,a,1,60000,9,100,1,200,0,0",
        "1,1,0,1,b,1,60000,9,1000,1,0.1,0,0",
        "2,1,0,1,c,1,60000,9,,1,5,0,x",
    )
    assert [p.gpu_util_mean for p in made.instance.profiles] == [0.9, 0.01, 0.52]
    assert made.repaired == {"bad-priority": 1}
    assert impossible_jobs(made.instance) == ()


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ("2,8,x,1,m,1,9000,9,1,1,1,1,0", "bad-timestamp"),
        ("2,8,1,1,m,1,1e14,9,1,1,1,1,0", "bad-duration"),
        ("2,8,1,1,m,1,-5,9,1,1,1,1,0", "duration-not-positive"),
        ("2,0,1,1,m,1,5,9,1,1,1,1,0", "no-gpu"),
    ],
)
def test_muri_refusals(row: str, reason: str) -> None:
    """The bounds of running times are those of seconds: 1e14 ms are 1e11 s."""
    made = take("muri", MURI, "0,8,0,10,gpt2,4,5095000,91000,437,0.6,419,49,0", row)
    assert made.refused == {reason: 1}


# Submission 100, running time 1,000: deadlines at 2,100 (twice the time), 1,100 (just enough), 600 (half).
ROWS = ("a,100,1,vgg16,2100,32,1,1000", "b,100,1,vgg16,1100,32,1,1000", "c,100,1,vgg16,600,32,1,1000")


def test_elasticflow_keeps_deadlines() -> None:
    """Absolute deadlines become release + the same span, tight ones too, and these are counted."""
    made = take("elasticflow", FLOW, *ROWS)
    assert [j.deadline_s for j in made.instance.jobs] == pytest.approx([2000.0, 1000.0, 500.0], abs=0.0011)
    assert dict(made.instance.metadata)["import.tight_deadlines"] == "1"
    assert {p.kind for p in made.instance.profiles} == {"vgg16 (batch size 32)"}


def test_elasticflow_drops_or_stretches_tight_deadlines() -> None:
    """`drop` refuses the job, `stretch` gives it its running time alone; both are counted."""
    dropped = take("elasticflow", FLOW, *ROWS, tight_deadlines="drop")
    assert (dropped.taken, dropped.refused) == (2, {"impossible-deadline": 1})
    stretched = take("elasticflow", FLOW, *ROWS, tight_deadlines="stretch")
    assert stretched.repaired == {"stretched-deadline": 1}
    assert stretched.instance.jobs[2].deadline_s == 1000.0
    for made in (dropped, stretched):
        assert dict(made.instance.metadata)["import.tight_deadlines"] == "0"
        assert made.details[0].text == "deadline is 0.5 times the running time after release" + (
            ", made 1" if made is stretched else ""
        )


def test_elasticflow_without_deadlines() -> None:
    """A missing deadline is drawn, a trace without the column has drawn ones, own ones can be ignored."""
    made = take("elasticflow", FLOW, "a,100,1,vgg16,None,32,1,1000")
    assert 1300.0 <= made.instance.jobs[0].deadline_s <= 2500.0
    bare = take("elasticflow", "job_id,submission_time,duration,num_gpu", "a,100,1000,1", slack=None)
    assert math.isinf(bare.instance.jobs[0].deadline_s)
    ignored = take("elasticflow", FLOW, *ROWS, own_deadlines=False, slack=(3.0, 3.0))
    assert {j.deadline_s for j in ignored.instance.jobs} == {3000.0}


@pytest.mark.parametrize(
    ("deadline", "reason"),
    [("soon", "bad-deadline"), ("100", "deadline-before-submission"), ("-5", "deadline-before-submission")],
)
def test_elasticflow_bad_deadlines(deadline: str, reason: str) -> None:
    """A deadline that is no number, or not after submission, refuses the row."""
    made = take("elasticflow", FLOW, ROWS[0], f"d,100,1,vgg16,{deadline},32,1,1000")
    assert made.refused == {reason: 1}


@pytest.mark.parametrize(
    ("reader", "file", "rows", "tight"),
    [
        ("tiresias", "tiresias/60_job.csv", 60, 0),
        ("elasticflow", "elasticflow/195job.csv", 195, 92),
        ("elasticflow", "elasticflow/cluster01.csv", 1595, 797),
    ],
)
def test_whole_files(data_dir: Path, reader: str, file: str, rows: int, tight: int) -> None:
    """All rows are taken and can run alone; so many deadlines lie below submission + running time (awk)."""
    made = import_trace(reader, data_dir / file)
    assert (made.read, made.taken, made.refused, made.repaired) == (rows, rows, {}, {})
    assert int(dict(made.instance.metadata)["import.tight_deadlines"]) == tight
    # Jobs whose own deadline is too tight are exactly those that can meet it nowhere.
    assert len(impossible_jobs(made.instance)) in (0, tight)
