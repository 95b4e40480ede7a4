"""Reader `lucid`: workloads of jobs with measured utilisation and memory, local times or seconds."""

from __future__ import annotations

import pytest

from eaco_opt.impossible import impossible_jobs
from instances import READERS, ImportOptions, TraceImport
from instances.readers import import_text
from instances.readers.text import TraceText

HEADER = (
    "job_id,user,vc,jobname,gpu_num,cpu_num,state,submit_time,duration,dataset,model,batchsize,amp,speed,gpu_util,"
    "gmem_util,gmem"
)


def take(*rows: str, header: str = HEADER, **options: object) -> TraceImport:
    """Import rows below a header."""
    text = TraceText.of("\n".join([header, *rows]), file="log.csv")
    return import_text("lucid", READERS.get("lucid"), text, ImportOptions(**{"nodes": 2, **options}))


def row(
    job: str = "1",
    *,
    gpus: str = "1",
    submit: str = "2020-09-01 00:00:00",
    duration: str = "1200",
    work: str = "CIFAR-10,ResNet18,32,0",
    used: str = "100.5,50.0,20.2,4096",
) -> str:
    """A line of the log."""
    return f"{job},u,vcA,n,{gpus},4,COMPLETED,{submit},{duration},{work},{used}"


def test_measured_use_becomes_the_profile() -> None:
    """50 % GPU utilisation and 4,096 MiB are load 0.5 and 4 GiB, of mean and peak."""
    made = take(row(), row("2", gpus="8", submit="2020-09-01 00:01:00", work="ImageNet,ResNet50,64,1"))
    assert [(j.gpus, j.release_s, j.epochs) for j in made.instance.jobs] == [(1, 0.0, 2), (8, 60.0, 2)]
    first, second = made.instance.profiles
    assert (first.kind, second.kind) == ("ResNet18, CIFAR-10, batch 32", "ResNet50, ImageNet, batch 64, amp")
    assert (first.gpu_util_mean, first.gpu_memory_mean_gib, first.gpu_memory_peak_gib) == (0.5, 4.0, 4.0)
    said = dict(made.instance.metadata)
    assert said["trace.first_submit"] == "2020-08-31T16:00:00Z"
    assert said["assumption.memory"].startswith("gmem of the log")


def test_use_is_the_mean_of_a_kind_bounded_and_may_lack() -> None:
    """Means over the rows of a kind, at most 0.9; without any Philly's mean and the native memory share."""
    made = take(
        row("1", used="1,40.0,1,2048"),
        row("2", used="1,60.0,1,4096"),
        row("3", work="d,full,1,0", used="1,100.0,1,1024"),
        row("4", work="d,unknown,1,0", used=",,,"),
    )
    got = {p.kind: (p.gpu_util_mean, p.gpu_memory_mean_gib) for p in made.instance.profiles}
    assert got == {
        "ResNet18, CIFAR-10, batch 32": (0.5, 3.0),
        "full, d, batch 1": (0.9, 1.0),
        "unknown, d, batch 1": (0.52, pytest.approx(0.45 * 32.0)),
    }
    assert impossible_jobs(made.instance) == ()


def test_seconds_instead_of_dates() -> None:
    """A log whose first time is a number has seconds; a date in it is refused, and the other way round."""
    made = take(row(submit="100.0"), row("2", submit="160"), row("3", submit="2020-09-01 00:00:00"))
    assert [j.release_s for j in made.instance.jobs] == [0.0, 60.0]
    assert made.refused == {"bad-timestamp": 1}
    assert dict(made.instance.metadata)["trace.first_submit"] == "100 s in the trace's own time"
    assert take(row(), row("2", submit="100.0")).refused == {"bad-timestamp": 1}


@pytest.mark.parametrize(
    ("line", "action", "reason"),
    [
        (row("2", gpus="0"), "refused", "no-gpu"),
        (row("2", gpus="None"), "refused", "missing-gpus"),
        (row("2", submit=""), "refused", "missing-timestamp"),
        (row("2", duration=""), "refused", "missing-duration"),
        (row("2", duration="-1"), "refused", "duration-not-positive"),
        (row("2", work="d,\x02,1,0"), "refused", "bad-model"),
        (row("2", work="d,,1,0"), "repaired", "missing-model"),
        (row("2", used="1,-5,1,2048"), "repaired", "bad-usage"),
        (row("2", used="1,5,1,much"), "repaired", "bad-usage"),
        (row("1"), "repaired", "duplicate-id"),
    ],
)
def test_odd_rows(line: str, action: str, reason: str) -> None:
    """Each oddity is refused or repaired under its reason, with its line."""
    made = take(row(), line)
    assert (made.refused if action == "refused" else made.repaired) == {reason: 1}
    assert [(n.line, n.action) for n in made.details] == [(3, action)]


def test_virtual_clusters_and_bare_logs() -> None:
    """`vc` selects; a log with the three columns needed is enough."""
    other = row("2").replace("vcA", "vcB")
    assert take(row(), other, vc="vcB").refused == {"other-vc": 1}
    made = take("1,5,60", header="gpu_num,submit_time,duration")
    assert [p.kind for p in made.instance.profiles] == ["lucid-job"]
    assert made.repaired == {}
