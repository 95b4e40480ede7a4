"""Reader `philly-csv`: columns, local times, running times kept exactly, accounts of every row."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from eaco_opt.cluster import Cluster, NodeType
from eaco_opt.errors import DomainError, TraceError
from eaco_opt.impossible import impossible_jobs
from instances import ImportOptions, TraceImport, import_trace
from instances.paper import node_type
from instances.readers import TooLarge, import_text
from instances.readers.philly_csv import PhillyCsv
from instances.readers.text import TraceText, read_text

HEADER = "timestamp,duration,num_gpus,gpu_time,cluster"


@pytest.fixture
def take(tmp_path: Path) -> Any:
    """A function that imports rows below the header, with a few options."""

    def run(rows: list[str], header: str = HEADER, **options: Any) -> TraceImport:
        path = tmp_path / "jobs.csv"
        path.write_text("\n".join([header, *rows]) + "\n")
        options.setdefault("nodes", 2)
        return import_trace("philly-csv", path, ImportOptions(**options))

    return run


def test_rows_become_jobs_in_order_of_submission(take: Any) -> None:
    """The file is unsorted: jobs come by submit time, ties by line; releases count from the first."""
    result = take(
        [
            "2017-10-09 07:01:55,66.0,1,66.0,11cb48",
            "2017-10-09 06:13:03,2951.0,2,5902.0,6214e9",
            "2017-10-09 07:01:55,1200,8,9600,11cb48",
        ]
    )
    jobs = result.instance.jobs
    assert [(j.name, j.gpus, j.release_s) for j in jobs] == [
        ("line3", 2, 0.0),
        ("line2", 1, 2932.0),
        ("line4", 8, 2932.0),
    ]
    # 2,951 s are 5 epochs of 590.2 s, 66 s one epoch, 1,200 s two.
    assert [j.epochs for j in jobs] == [5, 1, 2]
    tau = [result.instance.profile(j.profile).epoch_time_s("V100", j.gpus) for j in jobs]
    assert tau == [2951.0 / 5, 66.0, 600.0]
    assert {p.kind for p in result.instance.profiles} == {"philly-job"}
    assert dict(result.instance.metadata)["trace.first_submit"] == "2017-10-09T13:13:03Z"


def test_the_night_the_clocks_went_back(take: Any) -> None:
    """2017-11-05: 01:30 is the first of the two, so 03:30 comes three hours later; it is counted."""
    result = take(
        [
            "2017-11-05 00:30:00,60,1,60,a",
            "2017-11-05 01:30:00,60,1,60,a",
            "2017-11-05 01:59:59,60,1,60,a",
            "2017-11-05 02:00:00,60,1,60,a",
            "2017-11-05 03:30:00,60,1,60,a",
        ]
    )
    assert [j.release_s for j in result.instance.jobs] == [0.0, 3600.0, 5399.0, 9000.0, 14400.0]
    assert result.repaired == {"ambiguous-local-time": 2}
    assert [n.line for n in result.details] == [3, 4]
    assert (
        result.details[0].text
        == "'2017-11-05 01:30:00' in America/Los_Angeles occurs twice, read as the first"
    )


def test_the_night_the_clocks_went_forward(take: Any) -> None:
    """A local time that never was is moved forward by the jump, and counted."""
    result = take(
        ["2017-03-12 01:30:00,60,1,60,a", "2017-03-12 02:30:00,60,1,60,a", "2017-03-12 03:30:00,60,1,60,a"]
    )
    assert [j.release_s for j in result.instance.jobs] == [0.0, 3600.0, 3600.0]
    assert result.repaired == {"skipped-local-time": 1}


@pytest.mark.parametrize(
    ("row", "reason", "text"),
    [
        ("2017-10-09 07:01:55,66.0,1,66.0", "wrong-column-count", "expected 5 columns, got 4"),
        ('2017-10-09 07:01:55,"66.0,1,66.0,x', "wrong-column-count", "expected 5 columns, got broken quotes"),
        (",66,1,66,a", "missing-timestamp", "timestamp must look like 2017-10-09 07:01:55, got ''"),
        ("None,66,1,66,a", "missing-timestamp", "timestamp must look like 2017-10-09 07:01:55, got 'None'"),
        (
            "9/10/2017,66,1,66,a",
            "bad-timestamp",
            "timestamp must look like 2017-10-09 07:01:55, got '9/10/2017'",
        ),
        (
            "2017-10-09 07:01:55,,1,,a",
            "missing-duration",
            "duration must be a number of seconds, at most 1e10, got ''",
        ),
        (
            "2017-10-09 07:01:55,NaN,1,1,a",
            "missing-duration",
            "duration must be a number of seconds, at most 1e10, got 'NaN'",
        ),
        (
            "2017-10-09 07:01:55,inf,1,1,a",
            "bad-duration",
            "duration must be a number of seconds, at most 1e10, got 'inf'",
        ),
        (
            "2017-10-09 07:01:55,1e300,1,1,a",
            "bad-duration",
            "duration must be a number of seconds, at most 1e10, got '1e300'",
        ),
        ("2017-10-09 07:01:55,0,1,0,a", "duration-not-positive", "duration must be above 0 s, got '0'"),
        ("2017-10-09 07:01:55,-5,1,-5,a", "duration-not-positive", "duration must be above 0 s, got '-5'"),
        ("2017-10-09 07:01:55,66,0,0,a", "no-gpu", "num_gpus must be at least 1, got 0"),
        (
            "2017-10-09 07:01:55,66,,0,a",
            "missing-gpus",
            "num_gpus must be a whole number from 1 to 1000000, got ''",
        ),
        (
            "2017-10-09 07:01:55,66,1.5,99,a",
            "bad-gpus",
            "num_gpus must be a whole number from 1 to 1000000, got '1.5'",
        ),
        (
            "2017-10-09 07:01:55,66,-2,99,a",
            "bad-gpus",
            "num_gpus must be a whole number from 1 to 1000000, got '-2'",
        ),
    ],
)
def test_bad_rows_are_refused_one_by_one(take: Any, row: str, reason: str, text: str) -> None:
    """A bad row is counted under its reason and listed with its line; the good rows around it are taken."""
    good = "2017-10-09 07:01:55,66.0,1,66.0,a"
    result = take([good, row, good])
    assert (result.read, result.taken, result.refused) == (3, 2, {reason: 1})
    assert [(n.line, n.action, n.text) for n in result.details] == [(3, "refused", text)]


def test_gpu_time_is_checked_but_not_used(take: Any) -> None:
    """A gpu_time that is not duration * num_gpus is counted; a missing one is not an error."""
    result = take(
        ["2017-10-09 07:01:55,66,2,66,a", "2017-10-09 07:01:56,66,2,,a", "2017-10-09 07:01:57,66,2,x,a"]
    )
    assert (result.taken, result.repaired) == (3, {"gpu-time-mismatch": 2})
    assert {j.epochs for j in result.instance.jobs} == {1}


def test_columns_may_stand_in_any_order(take: Any) -> None:
    """The header says where the columns are; columns of other names are ignored, optional ones may lack."""
    result = take(['7,"1",2017-10-09 07:01:55,66'], header='user,"num_gpus", timestamp ,duration')
    assert result.taken == 1
    assert result.instance.jobs[0].gpus == 1


@pytest.mark.parametrize(
    ("header", "text"),
    [
        (
            "timestamp,duration,gpus",
            r"jobs.csv:1: expected a header with the columns timestamp, duration, num_gpus, gpu_time, "
            r"cluster, got no column num_gpus: 'timestamp,duration,gpus'",
        ),
        ("a\tb", r"jobs.csv:1: .* got no column timestamp, duration, num_gpus: 'a\\tb'"),
        ("timestamp,duration,num_gpus,duration", r"got column duration twice"),
        ("# nothing but a comment", r"jobs.csv:2: .* got no column timestamp, duration, num_gpus"),
        ("", r"got no column timestamp, duration, num_gpus"),
    ],
)
def test_other_formats_are_refused_as_a_whole(take: Any, header: str, text: str) -> None:
    """A wrong header is one error with file, line, what was expected and what was got."""
    with pytest.raises(TraceError, match=text):
        take(["2017-10-09 07:01:55,66,1,66,a"], header=header)


def test_an_empty_file_is_refused(tmp_path: Path) -> None:
    """No header at all is the same error, not an empty instance."""
    (tmp_path / "e.csv").write_text("")
    with pytest.raises(TraceError, match=r"e.csv:1: expected a header"):
        import_trace("philly-csv", tmp_path / "e.csv")


def test_throughputs_have_no_place_here(take: Any) -> None:
    """The option of another reader is refused instead of ignored."""
    with pytest.raises(DomainError, match="throughputs must be left out: the trace holds running times"):
        take(["2017-10-09 07:01:55,66,1,66,a"], throughputs="t.csv")


def test_virtual_clusters(take: Any) -> None:
    """`vc` takes the rows of one virtual cluster, counts the others, and lists the known on a typo."""
    rows = [
        "2017-10-09 07:01:55,66,1,66,aa",
        "2017-10-09 07:01:50,66,1,66,bb",
        "2017-10-09 07:01:59,66,1,66,aa",
    ]
    result = take(rows, vc="aa")
    assert (result.taken, result.refused) == (2, {"other-vc": 1})
    assert [j.name for j in result.instance.jobs] == ["line2", "line4"]
    with pytest.raises(ValueError, match=r"unknown virtual cluster 'cc' in jobs.csv; known are: aa, bb"):
        take(rows, vc="cc")


def test_any_gpu_type_will_do_natively(take: Any) -> None:
    """The trace names no GPU type: running times hold on every type; the paper's models need V100."""
    a100 = NodeType(name="a100x8", gpus=8, gpu_type="A100", gpu_memory_gib=40.0, power=node_type().power)
    cluster = Cluster.grouped([(node_type(), 1), (a100, 1)])
    rows = ["2017-10-09 07:01:55,1200,1,1200,a"]
    (profile,) = take(rows, nodes=None, cluster=cluster).instance.profiles
    assert profile.epoch_time_s("V100", 1) == profile.epoch_time_s("A100", 1) == 600.0
    # Memory: 0.45 of the smallest GPU.
    assert profile.gpu_memory_peak_gib == pytest.approx(0.45 * 32.0)
    with pytest.raises(
        DomainError, match=r"known for GPU type 'V100' only, the cluster has nodes with 'A100'"
    ):
        take(rows, nodes=None, cluster=cluster, mapping="paper-cnn")


# Of the whole file, counted with awk: rows, rows with a local time from 01:00 to 02:00 on 2017-11-05, jobs of
# more than 16 GPUs; rows of virtual cluster ee9e8c.
ROWS, TWICE, ABOVE_16, EE9E8C = 82247, 7, 83, 1511


def test_the_whole_trace(data_dir: Path) -> None:
    """All 82,247 jobs are taken, running times kept exactly, each able to run alone."""
    text = read_text(data_dir / "philly" / "philly_jobs.csv")
    result = import_text("philly-csv", PhillyCsv, text, ImportOptions())
    assert (result.read, result.taken, result.refused) == (ROWS, ROWS, {})
    assert result.repaired == {"ambiguous-local-time": TWICE}
    columns = PhillyCsv().read(text)
    exact = dict(zip((f"line{n}" for n in columns.line.tolist()), columns.duration_s.tolist(), strict=True))
    tau = {p.name: p.epoch_times[0].epoch_time_s for p in result.instance.profiles}
    for job in result.instance.jobs:
        assert abs(job.epochs * tau[job.profile] - exact[job.name]) <= 4e-16 * exact[job.name]
    assert impossible_jobs(result.instance) == ()


def test_a_small_cluster_names_drops_or_clips(data_dir: Path) -> None:
    """On 2 nodes of 8 GPUs the 83 jobs of more than 16 GPUs are named, dropped or clipped, and counted."""
    text = read_text(data_dir / "philly" / "philly_jobs.csv")
    # All rows of more than 16 GPUs, and every fiftieth of the others.
    lines = [x for n, x in enumerate(text.lines) if n % 50 == 0 or int((x or ",,0").split(",")[2]) > 16]
    few = TraceText.of("\n".join(lines), file="few.csv")
    rows = len(lines) - 1

    def take_few(too_large: str) -> TraceImport:
        return import_text(
            "philly-csv", PhillyCsv, few, ImportOptions(nodes=2, too_large=TooLarge(too_large))
        )

    dropped, clipped = take_few("drop"), take_few("clip")
    assert (dropped.taken, dropped.refused) == (rows - ABOVE_16, {"too-large": ABOVE_16})
    assert (clipped.taken, clipped.repaired["clipped-gpus"]) == (rows, ABOVE_16)
    assert max(j.gpus for j in clipped.instance.jobs) == 16
    with pytest.raises(ValueError, match=rf"^{ABOVE_16} job\(s\) can run nowhere in this cluster: job 'line"):
        take_few("refuse")


def test_one_virtual_cluster_mapped_to_the_papers_models(data_dir: Path) -> None:
    """A virtual cluster's jobs become the four models, evenly, with epochs to the nearest, at least 1."""
    result = import_trace(
        "philly-csv", data_dir / "philly" / "philly_jobs.csv", ImportOptions(vc="ee9e8c", mapping="paper-cnn")
    )
    assert (result.taken, result.refused) == (EE9E8C, {"other-vc": ROWS - EE9E8C})
    models = [j.profile for j in result.instance.jobs]
    for model in set(models):
        assert models.count(model) / EE9E8C == pytest.approx(0.25, abs=4 * math.sqrt(0.25 * 0.75 / EE9E8C))
    assert len(set(models)) == 4
    assert min(j.epochs for j in result.instance.jobs) == 1
    assert impossible_jobs(result.instance) == ()
