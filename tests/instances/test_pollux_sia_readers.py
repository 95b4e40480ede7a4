"""Readers `pollux` and `sia`: running times from measured tables."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest

from eaco_opt.cluster import Cluster, NodeType
from eaco_opt.errors import DomainError
from eaco_opt.impossible import impossible_jobs
from instances import READERS, ImportOptions, TraceImport, import_trace
from instances.paper import node_type
from instances.readers import import_text
from instances.readers.pollux import APPLICATIONS, GPU_COUNTS, running_time_s, step_time_s
from instances.readers.sia import SPEED
from instances.readers.text import TraceText

HEADER = "name,time,application,num_replicas,batch_size"


def take(reader: str, *rows: str, **options: object) -> TraceImport:
    """Import rows below the header."""
    text = TraceText.of("\n".join([HEADER, *rows]), file="w.csv")
    return import_text(reader, READERS.get(reader), text, ImportOptions(**{"nodes": 2, **options}))


def of_type(gpu_type: str, count: int = 1) -> Cluster:
    """A cluster of nodes of 8 GPUs of a type."""
    kind = NodeType(name="n", gpus=8, gpu_type=gpu_type, gpu_memory_gib=16.0, power=node_type().power)
    return Cluster.grouped([(kind, count)])


def test_running_times_by_hand() -> None:
    """NCF on one T4: 10 epochs of 4970845 / 257 = 19341.8, so 19,342 steps of 7.44 ms."""
    assert running_time_s("ncf", 1, 257) == pytest.approx(10 * 19342 * 0.00744)
    # BERT on 4 GPUs, batch 32, 8 each: 88644 / 32 = 2770.1, so 2,771 steps of 0.741 s, twice.
    assert running_time_s("bert", 4, 32) == pytest.approx(2 * 2771 * 0.741)


def test_step_times_between_and_beyond_measurements() -> None:
    """Exact where measured, between neighbours elsewhere, constant below and beyond, in proportion above."""
    for name, application in APPLICATIONS.items():
        batches = list(application.step_s)
        for batch, times in application.step_s.items():
            assert [step_time_s(application, g, batch) for g in GPU_COUNTS] == pytest.approx(times), name
        assert step_time_s(application, 1, 0.5) == step_time_s(application, 1, batches[0])
        assert step_time_s(application, 64, batches[0]) == step_time_s(application, 16, batches[0])
        top = step_time_s(application, 1, batches[-1])
        assert step_time_s(application, 1, 2.0 * batches[-1]) == pytest.approx(2.0 * top)
        one, four = (step_time_s(application, g, batches[0]) for g in (1, 4))
        assert step_time_s(application, 2, batches[0]) == pytest.approx((one + four) / 2.0)


def test_every_application_makes_sense() -> None:
    """Times rise with the batch on a GPU, and more GPUs at the same batch on each make an epoch shorter."""
    for name, application in APPLICATIONS.items():
        for g in range(len(GPU_COUNTS)):
            assert (
                application.step_s[max(application.step_s)][g]
                >= 0.9 * application.step_s[min(application.step_s)][g]
            ), name
        batch = min(application.step_s)
        times = [running_time_s(name, g, g * batch) for g in (1, 16)]
        assert times[1] < times[0], name


def test_pollux_rows_become_jobs() -> None:
    """The kind says application, batch size and GPUs; submission in seconds; running time as on T4."""
    made = take("pollux", "cifar10-0,107,cifar10,1,128", "ncf-1,47,ncf,4,1024")
    later, first = sorted(made.instance.jobs, key=lambda j: -j.release_s)
    assert (first.release_s, first.gpus, later.release_s, later.gpus) == (0.0, 4, 60.0, 1)
    kinds = {p.name: p for p in made.instance.profiles}
    profile = kinds[later.profile]
    assert profile.kind == "cifar10 (batch size 128) x1"
    tau = profile.epoch_time_s("V100", 1)
    assert tau is not None
    assert later.epochs == 100
    assert tau * later.epochs == pytest.approx(running_time_s("cifar10", 1, 128))
    assert "T4" in dict(made.instance.metadata)["assumption.running_time"]


def test_cut_running_times_have_fewer_epochs() -> None:
    """An epoch takes 40 s; cut to a tenth of its running time the job has 10 of the 100 epochs."""
    limit = running_time_s("cifar10", 1, 128) / 10.0
    made = take("pollux", "a,107,cifar10,1,128", max_duration_s=limit)
    (job,), (profile,) = made.instance.jobs, made.instance.profiles
    tau = profile.epoch_time_s("V100", 1)
    assert tau is not None
    assert (job.epochs, made.repaired) == (10, {"clipped-duration": 1})
    assert tau * 10 == pytest.approx(limit)


@pytest.mark.parametrize("reader", ["pollux", "sia"])
@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ("a,107,alexnet,1,128", "unknown-application"),
        ("a,107,,1,128", "missing-application"),
        ("a,None,ncf,1,128", "missing-timestamp"),
        ("a,x,ncf,1,128", "bad-timestamp"),
        ("a,1,ncf,0,128", "no-gpu"),
        ("a,1,ncf,1.5,128", "bad-gpus"),
        ("a,1,ncf,,128", "missing-gpus"),
        ("a,1,ncf,1,", "bad-batch-size"),
        ("a,1,ncf,8,4", "bad-batch-size"),
        ("a,1,ncf,1,1000001", "bad-batch-size"),
    ],
)
def test_odd_rows(reader: str, row: str, reason: str) -> None:
    """Each oddity is refused under its reason, with its line."""
    made = take(reader, "b,1,ncf,1,256", row)
    assert (made.taken, made.refused) == (1, {reason: 1})
    assert [n.line for n in made.details] == [3]


def test_sia_knows_gpu_types() -> None:
    """On T4 as Pollux, on A100 so much faster; case and signs of names do not matter; others forbidden."""
    base = running_time_s("cifar10", 1, 128)
    for gpu_type, speed in (("T4", 1.0), ("a100", 6.90), ("RTX 2080 Ti", 2.27)):
        made = take("sia", "a,1,cifar10,1,128", nodes=None, cluster=of_type(gpu_type))
        (job,), (profile,) = made.instance.jobs, made.instance.profiles
        tau = profile.epoch_time_s(gpu_type, 1)
        assert tau is not None
        assert tau * job.epochs == pytest.approx(base / speed)
        assert impossible_jobs(made.instance) == ()
    with pytest.raises(
        DomainError, match=r"reader 'sia': running times are known for the GPU types T4, .*has H100"
    ):
        take("sia", "a,1,cifar10,1,128", nodes=None, cluster=of_type("H100"))
    # Pollux's times hold anywhere.
    assert take("pollux", "a,1,cifar10,1,128", nodes=None, cluster=of_type("H100")).taken == 1


def test_tables_on_the_page_are_those_of_the_code(root: Path) -> None:
    """Epochs, samples, hours on one T4 and speeds in docs/instances.md."""
    page = (root / "docs" / "instances.md").read_text(encoding="utf-8")
    for name, application in APPLICATIONS.items():
        found = re.search(
            rf"^\| {name} \| (\d+) \| ([\d,]+) \| ([\d.]+) \(batch size (\d+)\) \|$", page, re.MULTILINE
        )
        assert found is not None, name
        epochs, samples, hours, batch = found.groups()
        assert (int(epochs), int(samples.replace(",", ""))) == (application.epochs, application.samples)
        assert float(hours) == pytest.approx(running_time_s(name, 1, int(batch)) / 3600.0, abs=0.006)
    for gpu_type, speeds in SPEED.items():
        assert f"| {gpu_type} | {' | '.join(f'{speeds[a]:g}' for a in APPLICATIONS)} |" in page


@pytest.mark.parametrize("reader", ["pollux", "sia"])
@pytest.mark.parametrize("number", [1, 2, 3, 4])
def test_whole_files(data_dir: Path, reader: str, number: int) -> None:
    """All 160 jobs of each workload are taken and can run alone; the largest has 16 GPUs."""
    made = import_trace(reader, data_dir / "pollux" / f"workload-realistic-{number}.csv")
    assert (made.read, made.taken, made.refused, made.repaired) == (160, 160, {}, {})
    assert impossible_jobs(made.instance) == ()
    assert math.log2(max(j.gpus for j in made.instance.jobs)) in (3.0, 4.0)
