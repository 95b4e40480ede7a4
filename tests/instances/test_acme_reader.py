"""Reader `acme-2024`: Seren and Kalos, offsets, running times from start and end."""

from __future__ import annotations

import pytest

from eaco_opt.impossible import impossible_jobs
from instances import READERS, ImportOptions, TraceImport
from instances.readers import import_text
from instances.readers.text import TraceText

SEREN = (
    "job_id,user,node_num,gpu_num,cpu_num,type,state,submit_time,start_time,end_time,duration,queue,gpu_time"
)
KALOS = (
    "job_id,user,node_num,gpu_num,cpu_num,mem_per_pod_GB,shared_mem_per_pod,type,state,submit_time,start_time,"
    "end_time,fail_time,stop_time,duration,queue,gpu_time"
)


def take(header: str, *rows: str, **options: object) -> TraceImport:
    """Import rows below a header."""
    text = TraceText.of("\n".join([header, *rows]), file="trace.csv")
    return import_text("acme-2024", READERS.get("acme-2024"), text, ImportOptions(**{"nodes": 2, **options}))


def seren(
    submit: str, start: str, end: str, *, gpus: str = "8", duration: str = "", kind: str = "Pretrain"
) -> str:
    """A row of Seren with times of day of 2023-03-01."""
    day = [t if t in ("", "None") or len(t) > 8 else f"2023-03-01 {t}+08:00" for t in (submit, start, end)]
    return f"1{submit}{start}{end}{gpus},u,1,{gpus},64,{kind},COMPLETED,{','.join(day)},{duration},4.0,1"


def test_seren_runs_from_start_to_end() -> None:
    """Submitted 00:00:06, runs 00:10:00 to 00:30:00: released at 0, 20 min or two epochs."""
    made = take(SEREN, seren("00:00:06", "00:10:00", "00:30:00", duration="1200"))
    (job,) = made.instance.jobs
    assert (job.release_s, job.epochs, made.repaired) == (0.0, 2, {})
    said = dict(made.instance.metadata)
    assert (said["trace.variant"], said["trace.first_submit"]) == ("acme, seren", "2023-02-28T16:00:06Z")
    assert [(p.kind, p.gpu_util_mean) for p in made.instance.profiles] == [("Pretrain", 0.9)]
    assert impossible_jobs(made.instance) == ()


def test_kalos_counts_its_duration_from_submission() -> None:
    """Duration is end - submit there: not a mismatch, and not used; offset +00:00, none read as UTC."""
    row = (
        "k1,u,1,8,64,128.0,10.0,Other,CANCELLED,2023-05-17 11:00:00+00:00,2023-05-17 11:10:00,"
        "2023-05-17 11:20:00+00:00,,,1200,600.0,1"
    )
    made = take(KALOS, row)
    assert [j.epochs for j in made.instance.jobs] == [1]
    assert made.repaired == {}
    said = dict(made.instance.metadata)
    assert (said["trace.variant"], said["trace.first_submit"]) == ("acme, kalos", "2023-05-17T11:00:00Z")


@pytest.mark.parametrize(
    ("row", "action", "reason"),
    [
        (seren("00:01:00", "", ""), "refused", "never-started"),
        (seren("00:01:00", "00:02:00", "None"), "refused", "never-ended"),
        (seren("00:01:00", "00:03:00", "00:02:00"), "refused", "end-before-start"),
        (seren("00:01:00", "00:03:00", "00:03:00"), "refused", "duration-not-positive"),
        (seren("", "00:03:00", "00:04:00"), "refused", "missing-timestamp"),
        (seren("yesterday", "00:03:00", "00:04:00"), "refused", "bad-timestamp"),
        (seren("00:01:00", "yesterday", "00:04:00"), "refused", "bad-timestamp"),
        (seren("00:01:00", "00:03:00", "00:04:00", gpus="0"), "refused", "no-gpu"),
        (seren("00:01:00", "00:03:00", "00:04:00", gpus="0.5"), "refused", "bad-gpus"),
        (seren("00:05:00", "00:03:00", "00:04:00"), "repaired", "start-before-submission"),
        (seren("00:01:00", "00:03:00", "00:04:00", duration="999"), "repaired", "duration-mismatch"),
        (seren("00:01:00", "00:03:00", "00:04:00", kind=""), "repaired", "missing-model"),
        (seren("00:00:00", "00:10:00", "00:30:00"), "repaired", "duplicate-id"),
    ],
)
def test_odd_rows(row: str, action: str, reason: str) -> None:
    """Each oddity is refused or repaired under its reason, with its line."""
    made = take(SEREN, seren("00:00:00", "00:10:00", "00:30:00"), row)
    assert (made.refused if action == "refused" else made.repaired) == {reason: 1}
    assert [(n.line, n.action) for n in made.details] == [(3, action)]


def test_jobs_of_a_thousand_gpus() -> None:
    """Jobs of 1,024 GPUs fit in 128 nodes and are named on smaller clusters."""
    rows = [seren("00:00:00", "00:10:00", "00:30:00", gpus="1024")]
    assert take(SEREN, *rows, nodes=128).instance.jobs[0].gpus == 1024
    with pytest.raises(ValueError, match=r"1 job\(s\) can run nowhere in this cluster: job 'line2'"):
        take(SEREN, *rows, nodes=64)
