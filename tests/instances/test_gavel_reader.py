"""Reader `gavel`: three layouts, running times from throughputs, pair slowdowns, accounts of every row."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from eaco_opt.cluster import Cluster, NodeType
from eaco_opt.errors import DomainError, ImpossibleJobsError, TraceError
from eaco_opt.impossible import impossible_jobs
from eaco_opt.interference import MeasuredSlowdown
from instances import ImportOptions, TraceImport, import_trace
from instances.paper import node_type
from instances.readers import gavel
from instances.readers.text import TraceText
from instances.readers.throughputs import read_throughputs

MODEL = "ResNet-18 (batch size 16)"
OTHER = "LM (batch size 5)"

# 20 steps/s alone on 1 GPU, 40 on 2; LM 100 on 1. Together on 1 GPU: ResNet 16 (factor 1.25), LM 50 (factor
# 2); two LMs 100 each (factor 1); two ResNets cannot share, nor two 2-GPU jobs.
TABLE = """\
model,gpus,partner_model,partner_gpus,steps_per_s,partner_steps_per_s
ResNet-18 (batch size 16),1,,,20,
ResNet-18 (batch size 16),2,,,40,
LM (batch size 5),1,,,100,
ResNet-18 (batch size 16),1,LM (batch size 5),1,16,50
LM (batch size 5),1,LM (batch size 5),1,100,100
ResNet-18 (batch size 16),1,ResNet-18 (batch size 16),1,0,0
ResNet-18 (batch size 16),2,ResNet-18 (batch size 16),2,0,0
"""


def row7(model: str = MODEL, steps: object = 24000, arrival: object = "0.000000", gpus: object = 1) -> str:
    """A row of 7 columns."""
    return f"{model}\tpython3 main.py --batch 16\t-n\t1\t{steps}\t{arrival}\t{gpus}"


def row10(
    model: str = MODEL,
    *,
    steps: object = 24000,
    gpus: object = 1,
    priority: object = "1.0",
    slo: object = "-1",
    arrival: object = "0",
) -> str:
    """A row of 10 columns."""
    return f"{model}\tpython3 main.py\tdir\t-n\t1\t{steps}\t{gpus}\t{priority}\t{slo}\t{arrival}"


def row12(model: str = MODEL, *, steps: object = 24000, gpus: object = 1, arrival: object = "0") -> str:
    """A row of 12 columns."""
    return f"{model}\tpython3 main.py\tdir\t-n\t1\t{steps}\t{gpus}\tstatic\t1\t-1.0\t777\t{arrival}"


@pytest.fixture
def take(tmp_path: Path) -> Any:
    """A function that imports rows with the small table above and a few options."""
    (tmp_path / "table.csv").write_text(TABLE)

    def run(rows: list[str] | str | bytes, table: str | None = "table.csv", **options: Any) -> TraceImport:
        data = "\n".join(rows) + "\n" if isinstance(rows, list) else rows
        path = tmp_path / "jobs.trace"
        path.write_bytes(data if isinstance(data, bytes) else data.encode())
        options.setdefault("nodes", 2)
        if table is not None:
            options.setdefault("throughputs", tmp_path / table)
        return import_trace("gavel", path, ImportOptions(**options))

    return run


def test_running_time_is_steps_over_throughput(take: Any) -> None:
    """24,000 steps at 20/s run 1,200 s: two epochs of 600 s; twice as fast on 2 GPUs."""
    result = take([row7(), row7(gpus=2, arrival="30.5")])
    a, b = result.instance.jobs
    assert (a.name, a.gpus, a.epochs, a.release_s) == ("line1", 1, 2, 0.0)
    assert (b.name, b.gpus, b.epochs, b.release_s) == ("line2", 2, 1, 30.5)
    assert result.instance.profile(a.profile).epoch_time_s("V100", 1) == 600.0
    assert result.instance.profile(b.profile).epoch_time_s("V100", 2) == 600.0
    assert a.profile == "ResNet-18 (batch size 16) x1, epoch 600.0 s"
    # One kind a model and GPU count: what the sharing tables know.
    assert {p.kind for p in result.instance.profiles} == {f"{MODEL} x1", f"{MODEL} x2"}
    assert (result.read, result.taken, result.repaired, result.refused) == (2, 2, {}, {})


def test_the_three_layouts_say_the_same(take: Any) -> None:
    """The same three jobs in 7, 10 and 12 columns give equal jobs, but for the priority column."""
    jobs = []
    for make in (row7, row10, row12):
        rows = [
            make(MODEL, steps=24000, gpus=1, arrival="100"),
            make(OTHER, steps=1500, gpus=1, arrival="40"),
            make(MODEL, steps=90000, gpus=2, arrival="40"),
        ]
        result = take(rows)
        jobs.append(
            [(j.name, j.profile, j.gpus, j.epochs, j.release_s, j.deadline_s) for j in result.instance.jobs]
        )
        assert (
            dict(result.instance.metadata)["trace.variant"] == f"gavel, {len(rows[0].split(chr(9)))} columns"
        )
        assert {j.priority for j in result.instance.jobs} == ({0} if make is row7 else {1})
    # By arrival, ties by line; the first release is 0.
    assert [(name, release) for name, _, _, _, release, _ in jobs[0]] == [
        ("line2", 0.0),
        ("line3", 0.0),
        ("line1", 60.0),
    ]
    assert jobs[0] == jobs[1] == jobs[2]


def test_pairs_become_measured_slowdowns(take: Any) -> None:
    """Factor = alone over together for each side; a zero cannot share; pairs of absent kinds are left out."""
    truth = take([row7(), row7(OTHER), row7(gpus=2)]).instance.truth
    lm, resnet = f"{OTHER} x1", f"{MODEL} x1"
    assert truth.measured == (
        MeasuredSlowdown(kinds=(lm, lm), factors=(1.0, 1.0)),
        MeasuredSlowdown(kinds=(lm, resnet), factors=(2.0, 1.25)),
    )
    assert truth.cannot_share == ((resnet, resnet), (f"{MODEL} x2", f"{MODEL} x2"))
    assert truth.model == "additive"
    alone = take([row7(OTHER)]).instance.truth
    assert [m.kinds for m in alone.measured] == [(lm, lm)]
    assert alone.cannot_share == ()


def test_unmeasured_rows_are_refused_and_counted(take: Any) -> None:
    """A model or GPU count without a throughput alone is refused with its reason; the others are taken."""
    result = take([row7(), row7(gpus=16), row7("Unknown"), row7(OTHER, gpus=2)])
    assert (result.read, result.taken, result.refused) == (4, 1, {"no-throughput": 3})
    assert [(n.line, n.action, n.reason) for n in result.details] == [
        (2, "refused", "no-throughput"),
        (3, "refused", "no-throughput"),
        (4, "refused", "no-throughput"),
    ]
    assert result.details[0].text == f"no throughput of '{MODEL}' on 16 V100 GPU(s) was measured"


@pytest.mark.parametrize(
    ("row", "reason", "text"),
    [
        (row7().rsplit("\t", 1)[0], "wrong-column-count", "expected 7 columns, got 6"),
        (row7() + "\textra", "wrong-column-count", "expected 7 columns, got 8"),
        (row7(""), "bad-model", "expected the name of a model, got ''"),
        (row7("a\x07b"), "bad-model", r"expected the name of a model, got 'a\x07b'"),
        (row7(steps=0), "bad-steps", "total steps must be a whole number >= 1, got '0'"),
        (row7(steps="nan"), "bad-steps", "total steps must be a whole number >= 1, got 'nan'"),
        (row7(steps=1.5), "bad-steps", "total steps must be a whole number >= 1, got '1.5'"),
        (row7(arrival="soon"), "bad-arrival", "arrival must be a number of seconds, got 'soon'"),
        (row7(arrival="inf"), "bad-arrival", "arrival must be a number of seconds, got 'inf'"),
        (row7(gpus=0), "bad-gpus", "GPUs must be a whole number from 1 to 1000000, got '0'"),
        (row7(gpus=-1), "bad-gpus", "GPUs must be a whole number from 1 to 1000000, got '-1'"),
        (row7(steps=10**17), "bad-duration", "running time must be above 0 and at most 1e+10 s, got 5e+15 s"),
    ],
)
def test_bad_rows_are_refused_one_by_one(take: Any, row: str, reason: str, text: str) -> None:
    """A bad row is counted under its reason and listed with its line; the good rows around it are taken."""
    result = take([row7(), row, row7(arrival=5)])
    assert (result.read, result.taken, result.refused) == (3, 2, {reason: 1})
    assert [(n.line, n.text) for n in result.details] == [(2, text)]


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (row10(priority="high"), "bad-priority"),
        (row10(slo="none"), "bad-slo"),
        (row10(priority="1e300"), "bad-priority"),
    ],
)
def test_bad_cells_of_wide_rows(take: Any, row: str, reason: str) -> None:
    """Priority and SLO are checked where the layout has them."""
    result = take([row10(), row])
    assert (result.taken, result.refused) == (1, {reason: 1})


def test_fractional_priorities_are_rounded_and_counted(take: Any) -> None:
    """Priorities are whole here; a weight of 2.6 becomes 3 and the row counts as repaired."""
    result = take([row10(priority="2.6"), row10(priority="5.0")])
    assert [j.priority for j in result.instance.jobs] == [3, 5]
    assert result.repaired == {"rounded-priority": 1}


def test_slo_is_the_deadline_as_a_multiple_of_the_running_time(take: Any) -> None:
    """Positive SLOs are the rows' own deadlines (1,200 s * 2 = 2,400 s); -1 means none of its own."""
    rows = [row10(slo="2.0"), row10(slo="-1")]
    own, drawn = take(rows, slack=(9.0, 9.0)).instance.jobs
    assert own.deadline_s == 2400.0
    assert drawn.deadline_s == 9 * 1200.0
    ignored, _ = take(rows, slack=(9.0, 9.0), own_deadlines=False).instance.jobs
    assert ignored.deadline_s == 9 * 1200.0
    own, none = take(rows, slack=None).instance.jobs
    assert (own.deadline_s, none.deadline_s) == (2400.0, math.inf)


def test_not_utf8_is_refused_by_row(take: Any) -> None:
    """A row with foreign bytes is refused; CRLF, BOM, blank lines and comments do no harm."""
    data = (
        b"\xef\xbb\xbf"
        + row7().encode()
        + b"\r\n\r\n# a comment\r\n"
        + row7("caf\xe9").encode("latin-1")
        + b"\r\n"
    )
    result = take(data)
    assert (result.read, result.taken, result.refused) == (2, 1, {"not-utf-8": 1})
    assert result.details[0].line == 4


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", r"jobs.trace: expected rows of 7, 10 or 12 tab-separated columns, got no row"),
        (b"\n\n# x\n", r"got no row"),
        (
            b"timestamp,duration\n1,2\n",
            r"jobs.trace:1: expected 7, 10 or 12 tab-separated columns \(a Gavel trace\), got 1: 'timest",
        ),
        (
            b"a\tb\n",
            r"jobs.trace:1: expected 7, 10 or 12 tab-separated columns \(a Gavel trace\), got 2: 'a\\tb'",
        ),
    ],
)
def test_other_formats_are_refused_as_a_whole(take: Any, data: bytes, text: str) -> None:
    """A file that is no Gavel trace is one error with file, line, what was expected and what was got."""
    with pytest.raises(TraceError, match=text):
        take(data)


def test_the_width_of_most_rows_decides(take: Any) -> None:
    """A first row that is cut does not change what the file is."""
    result = take([row7().rsplit("\t", 1)[0], row7(), row7()])
    assert (result.taken, result.refused) == (2, {"wrong-column-count": 1})


def test_throughputs_are_asked_for(take: Any, tmp_path: Path) -> None:
    """Without a table no running time is known: the error says which file to give."""
    with pytest.raises(
        DomainError, match=r"throughputs is missing.*simulation_throughputs.json or its CSV form"
    ):
        take([row7()], table=None)
    with pytest.raises(TraceError, match=r"nowhere.csv: cannot be read"):
        take([row7()], table="nowhere.csv")


def test_too_large_jobs(take: Any) -> None:
    """A 2-GPU job in a cluster of one GPU is refused by name, dropped, or clipped with the time at 1 GPU."""
    rows = [row7(), row7(gpus=2, steps=48000)]
    cluster = {"nodes": 1, "gpus_per_node": 1}
    with pytest.raises(
        ImpossibleJobsError, match=r"job 'line2': asks for 2 GPUs, one job can have 1"
    ) as caught:
        take(rows, **cluster)
    assert [name for name, _ in caught.value.jobs] == ["line2"]
    dropped = take(rows, too_large="drop", **cluster)
    assert (dropped.taken, dropped.refused) == (1, {"too-large": 1})
    assert dict(dropped.instance.metadata)["import.dropped"] == "line2"
    clipped = take(rows, too_large="clip", **cluster)
    assert (clipped.taken, clipped.repaired) == (2, {"clipped-gpus": 1})
    # 48,000 steps at the 1-GPU rate of 20/s: 2,400 s = 4 epochs of 600 s.
    job = clipped.instance.jobs[1]
    assert (job.gpus, job.epochs, job.profile) == (1, 4, f"{MODEL} x1, epoch 600.0 s")
    assert dict(clipped.instance.metadata)["import.clipped"] == "line2"


def test_mapping_to_the_papers_models(take: Any) -> None:
    """`paper-cnn` keeps running times to the nearest epoch, at least one, and uses the paper's tables."""
    result = take([row7(steps=24000), row7(OTHER, steps=10**7)], mapping="paper-cnn", seed=1)
    short, long = result.instance.jobs
    tau = {p.name: p.epoch_time_s("V100", 1) or math.nan for p in result.instance.profiles}
    assert set(tau) == {"AlexNet", "ResNet-18", "ResNet-50", "VGG-16"}
    assert short.epochs == 1  # 1,200 s is less than an epoch of about 1,400 s
    assert long.epochs == round(100000 / tau[long.profile])
    assert result.instance.truth.model == "crowding"
    assert len(result.instance.usage) == 6


def test_a_table_of_several_gpu_types_serves_a_mixed_cluster(take: Any, tmp_path: Path) -> None:
    """JSON throughputs by GPU type give each type its own epoch time; unmeasured types are forbidden."""
    key = f"('{MODEL}', 1)"
    (tmp_path / "t.json").write_text(json.dumps({"v100": {key: {"null": 20}}, "k80": {key: {"null": 5}}}))
    v100 = node_type(gpus=4)
    k80 = NodeType(name="k80x4", gpus=4, gpu_type="K80", gpu_memory_gib=12.0, power=v100.power)
    t4 = NodeType(name="t4x4", gpus=4, gpu_type="T4", gpu_memory_gib=16.0, power=v100.power)
    result = take(
        [row7()], table="t.json", nodes=None, cluster=Cluster.grouped([(k80, 1), (v100, 1), (t4, 1)])
    )
    (profile,) = result.instance.profiles
    # 24,000 steps: 1,200 s on V100, the reference, hence 2 epochs; 4,800 s on K80.
    assert profile.epoch_time_s("V100", 1) == 600.0
    assert profile.epoch_time_s("K80", 1) == 2400.0
    assert profile.epoch_time_s("T4", 1) is None
    with pytest.raises(DomainError, match=r"holds GPU types k80, v100, the cluster has T4"):
        take([row7()], table="t.json", nodes=None, cluster=Cluster.uniform(t4, 1))


def test_long_jobs_are_cut(take: Any) -> None:
    """`max_duration_s` cuts running times; the row counts as repaired."""
    result = take([row7(steps=24000), row7(steps=10**7)], max_duration_s=86400.0)
    assert [j.epochs for j in result.instance.jobs] == [2, 144]
    assert result.repaired == {"clipped-duration": 1}


# By virtual cluster: rows, and rows whose model and GPU count were not measured (counted with awk).
REAL = {
    "0e4a51": (1181, 197),
    "2869ce": (533, 179),
    "51b7ef": (18, 1),
    "795a4c": (3, 0),
    "ee9e8c": (2000, 373),
}


@pytest.mark.parametrize("name", REAL)
@pytest.mark.parametrize("mapping", ["native", "paper-cnn"])
def test_real_traces(data_dir: Path, name: str, mapping: str) -> None:
    """Every row of the real traces is taken, or refused for lack of a throughput; every job can run alone."""
    options = ImportOptions(
        throughputs=data_dir / "gavel" / "v100_throughputs.csv", mapping=mapping, max_duration_s=86400.0
    )
    result = import_trace("gavel", data_dir / "gavel" / f"{name}.trace", options)
    read, unmeasured = REAL[name]
    assert (result.read, result.taken) == (read, read - unmeasured)
    assert sum(result.refused.values()) == unmeasured
    assert set(result.refused) <= {"no-throughput"}
    assert impossible_jobs(result.instance) == ()
    if mapping == "native":
        for job in result.instance.jobs:
            tau = result.instance.profile(job.profile).epoch_time_s("V100", job.gpus)
            assert tau is not None
            assert job.epochs * tau <= 86400.0 * (1 + 1e-12)


def test_one_node_of_all_gpus(data_dir: Path) -> None:
    """Gavel ignores nodes: one node of 224 GPUs, all releases 0, the first 1,000 usable rows in order."""
    options = ImportOptions(
        throughputs=data_dir / "gavel" / "v100_throughputs.csv",
        nodes=1,
        gpus_per_node=224,
        release="zero",
        max_duration_s=86400.0,
        jobs=1000,
    )
    result = import_trace("gavel", data_dir / "gavel" / "ee9e8c.trace", options)
    assert result.taken == 1000
    assert result.instance.cluster.total_gpus() == 224
    assert len(result.instance.cluster.nodes) == 1
    assert {j.release_s for j in result.instance.jobs} == {0.0}
    lines = [int(j.name.removeprefix("line")) for j in result.instance.jobs]
    assert lines == sorted(lines)
    assert result.read == 2000 == 1000 + sum(result.refused.values())
    assert set(result.refused) == {"no-throughput", "beyond-job-limit"}


def test_utilisation_table_is_its_fit(data_dir: Path) -> None:
    """The stated utilisations are those fitted to Gavel's pairs, to 0.02; each lets its model run alone."""
    table = read_throughputs(data_dir / "gavel" / "v100_throughputs.csv")["v100"]
    fitted = gavel.fit_utilisation(table)
    assert set(fitted) == set(gavel.UTILISATION)
    for model, value in fitted.items():
        assert gavel.UTILISATION[model] == pytest.approx(value, abs=0.02), model
        assert 0.0 < gavel.utilisation_of(model) <= 0.9
    assert gavel.utilisation_of("GPT-9") == 0.52


def test_fit_of_utilisation_recovers_known_shares() -> None:
    """On throughputs made by the additive model the fit gives back the shares that made them."""
    from instances.readers.throughputs import Throughputs

    shares = {"a": 0.6, "b": 0.7, "c": 0.9}
    table = Throughputs(alone={(m, 1): 10.0 for m in shares})
    for m, u in shares.items():
        for n, w in shares.items():
            table.add_pair((m, 1), (n, 1), 10.0 / max(1.0, u + w), 10.0 / max(1.0, u + w))
    assert gavel.fit_utilisation(table) == pytest.approx(shares, abs=0.01)
    with pytest.raises(DomainError, match="expected pairs measured on one GPU each, got none"):
        gavel.fit_utilisation(Throughputs(alone={("a", 1): 1.0}))


def test_native_jobs_share_as_far_as_was_measured(take: Any) -> None:
    """Two native jobs fit in a GPU's memory below the default threshold, three do not."""
    instance = take([row7(OTHER)] * 3).instance
    (profile,) = instance.profiles
    share = profile.gpu_memory_peak_gib / instance.cluster.node_types[0].gpu_memory_gib
    assert 2 * share <= instance.limits.mem_threshold + 1e-9 < 3 * share


def test_reading_alone_needs_no_table() -> None:
    """The first half of a reader gives plain columns, whatever the options."""
    columns = gavel.Gavel().read(TraceText.of("\n".join([row7(), row7(steps="x")]), file="f"))
    assert columns.read == 2
    assert columns.model == (MODEL,)
    assert columns.steps.tolist() == [24000]
    assert math.isnan(columns.duration_s[0])
    assert [(n.file, n.line, n.reason) for n in columns.notes] == [("f", 2, "bad-steps")]
