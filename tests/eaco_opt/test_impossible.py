"""Jobs that can run nowhere, and those whose deadline is out of reach (docs/model.md section 3.9)."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from eaco_opt.impossible import ImpossibleJob, impossible_jobs
from eaco_opt.instance import Instance, MeasuredUsage
from eaco_opt.interference import SLOWDOWN_MODELS, Interference, KindDemand, MeasuredSlowdown
from eaco_opt.job import MemoryKind
from eaco_opt.limits import AdmissionRule, Limits
from eaco_opt.profile import EpochTime
from tests.eaco_opt.checker_cases import instance, job, node_type, profile

TIMES = (EpochTime(gpu_type="v", epoch_time_s=10.0), EpochTime(gpu_type="w", gpus=1, epoch_time_s=5.0))
PROFILES = (
    profile("p", util=0.3, memory_gib=8.0, epoch_times=TIMES),
    profile("big", util=0.3, memory_gib=30.0, epoch_times=TIMES),
    profile("hot", util=0.95, memory_gib=8.0),
    profile("alien", util=0.3, memory_gib=8.0, epoch_times=(EpochTime(gpu_type="x", epoch_time_s=1.0),)),
)
V, W = node_type("v2"), node_type("w2", gpu_type="w", gpu_memory_gib=16.0)


def build(*jobs: Any, v: int = 2, w: int = 1, **more: Any) -> Instance:
    groups = tuple(g for g in ((V, v), (W, w)) if g[1])
    return instance(jobs, *groups, **{"profiles": PROFILES, "truth": Interference(), **more})


def only(inst: Instance) -> ImpossibleJob:
    found = impossible_jobs(inst)
    assert len(found) == 1
    return found[0]


@pytest.mark.parametrize(
    ("what", "reason"),
    [
        (job("x", "alien", 1, 1), "its profile 'alien' has no epoch time for 1 GPU(s) of type v, w"),
        # Two nodes of two v; w only for one GPU.
        (job("x", "p", 5, 1), "it asks for 5 GPUs, the cluster has at most 4 of one type it may use"),
        # 0.9 of 32 GiB.
        (job("x", "big", 1, 1), "it needs 30 GiB on a GPU, mem_threshold leaves at most 28.8 GiB"),
        (job("x", "hot", 1, 1), "its GPU load alone is 0.950, above u_threshold 0.9"),
    ],
)
def test_reasons(what: Any, reason: str) -> None:
    """No epoch time, too many GPUs, too much memory, too high a load: each with its amounts."""
    found = only(build(job("fine", "p", 4, 1), what))
    assert found == ImpossibleJob(job="x", reason=reason, deadline_only=False)


def test_types_without_nodes_run_nothing() -> None:
    """An epoch time on a type of which the cluster has no node is none."""
    only_w = profile("w", util=0.3, memory_gib=8.0, epoch_times=TIMES[1:])
    here = build(job("x", "w", 1, 1), profiles=(only_w,))
    assert impossible_jobs(here) == ()
    nodes = tuple(n for n in here.cluster.nodes if n.node_type == "v2")
    gone = dataclasses.replace(here, cluster=dataclasses.replace(here.cluster, nodes=nodes))
    assert only(gone).reason == "its profile 'w' has no epoch time for 1 GPU(s) of type v"


def test_what_is_just_possible_is_possible() -> None:
    """All nodes of a type, memory and load at their limits, w for one GPU."""
    assert impossible_jobs(build(job("x", "p", 4, 1), job("y", "p", 1, 1))) == ()
    limits = Limits(mem_threshold=30 / 32, u_threshold=0.95)
    assert impossible_jobs(build(job("x", "big", 1, 1), job("y", "hot", 1, 1), limits=limits)) == ()
    split = job("x", "big", 2, 1, memory_kind=MemoryKind.MODEL_PARALLEL)
    assert impossible_jobs(build(split)) == ()
    assert impossible_jobs(build()) == ()


def test_literal_admission_lets_any_job_start_alone() -> None:
    """Under `existing` an empty GPU takes every job."""
    assert impossible_jobs(build(job("x", "hot", 1, 1), limits=Limits(rule=AdmissionRule.EXISTING))) == ()


def test_measured_load_of_a_single_job_counts() -> None:
    """A measured row of the kind alone, or of a set with it, replaces or caps its utilisation."""
    for row, found in (
        (MeasuredUsage(kinds=("p",), load=0.92, memory_gib=8.0), 1),
        (MeasuredUsage(kinds=("hot", "p"), load=0.85, memory_gib=8.0), 0),
    ):
        what = job("x", "p" if found else "hot", 1, 1)
        assert len(impossible_jobs(build(what, usage=(row,)))) == found


def test_deadlines_out_of_reach() -> None:
    """Deadline before release + epochs * least epoch time: such jobs are only late."""
    # On one GPU the least epoch time is 5 s (w), on two 10 s (v).
    inst = build(
        job("a", "p", 1, 4, 30.0, release_s=10.0),  # 10 + 20
        job("b", "p", 1, 4, 29.0, release_s=10.0),
        job("c", "p", 2, 4, 49.0, release_s=10.0),
        job("d", "p", 2, 4, 50.0 - 1e-6, release_s=10.0),  # within the tolerance
        job("e", "p", 1, 1, 9.0, release_s=10.0),
    )
    text = "its deadline is {} s before the earliest possible end, release + epochs * epoch time"
    assert impossible_jobs(inst) == tuple(
        ImpossibleJob(job=j, reason=text.format(late), deadline_only=True)
        for j, late in (("b", 1), ("c", 1), ("e", 6))
    )
    # Without nodes of type w the least epoch time is that of v; so it is where w's memory is too small.
    assert [x.job for x in impossible_jobs(build(inst.jobs[0], w=0))] == ["a"]
    heavy = dataclasses.replace(PROFILES[0], gpu_memory_mean_gib=15.0, gpu_memory_peak_gib=15.0)
    assert [x.job for x in impossible_jobs(build(inst.jobs[0], profiles=(heavy,)))] == ["a"]


def test_company_that_speeds_up_moves_the_earliest_end() -> None:
    """The smallest measured factor of the job's kind counts, if it is below 1."""
    late = job("x", "p", 1, 4, 17.0)  # 20 s alone
    for factor, found in ((0.8, 0), (0.9, 1), (1.5, 1)):
        truth = Interference(measured=(MeasuredSlowdown(kinds=("hot", "p"), factors=(0.1, factor)),))
        assert len(impossible_jobs(build(late, truth=truth))) == found


class Unbounded:
    """A third party's model that does not promise factors of at least 1."""

    def __init__(self, params: Mapping[str, float]) -> None:
        del params

    def factors(self, members: Sequence[KindDemand]) -> tuple[float, ...]:
        return (1e-3,) * len(members)


def test_a_model_without_a_floor_rules_out_no_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whose factors may be anything: only a deadline before the release is out of reach."""
    monkeypatch.setitem(SLOWDOWN_MODELS._targets, "unbounded", f"{__name__}:Unbounded")
    inst = build(
        job("x", "p", 1, 4, 11.0, release_s=10.0),
        job("y", "p", 1, 4, 9.0, release_s=10.0),
        job("o", "p", 1, 1),
        truth=Interference(model="unbounded"),
    )
    assert [(x.job, x.deadline_only) for x in impossible_jobs(inst)] == [("y", True)]


def test_jobs_are_reported_in_submit_order_with_their_worst_reason() -> None:
    """One entry a job; a job that cannot run at all is not reported for its deadline."""
    inst = build(
        job("z", "p", 1, 9, 1.0, submit_index=2),
        job("y", "hot", 1, 9, 1.0, submit_index=1),
        job("x", "p", 5, 9, 1.0, submit_index=0),
    )
    assert [(x.job, x.deadline_only) for x in impossible_jobs(inst)] == [
        ("x", False),
        ("y", False),
        ("z", True),
    ]
