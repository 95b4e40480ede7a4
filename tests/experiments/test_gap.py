"""The gap study: values on slots, optimum or bound, gaps, shares, and what it says where there is none."""

from __future__ import annotations

import csv
import dataclasses
import json
import math
from pathlib import Path

import numpy as np
import pytest

from eaco_opt import Instance, Job, Limits, evaluate
from eaco_opt.errors import EacoError
from eaco_opt.io import write_instance, write_schedule
from eaco_opt.physics import plan_schedule
from eaco_opt.schedule import Plan
from experiments.cli import main
from experiments.gap import COLUMNS, attained, exclusive_objective, gap_study, relaxed_instance
from instances import generate
from solvers.bruteforce import bruteforce

SLOT_S = 3600.0
LOOSE = Limits(u_threshold=1.0, mem_threshold=1.0, max_share=3)


def small(seed: int = 1, jobs: int = 4, load: float = 1.0) -> Instance:
    return generate("whole-node", jobs=jobs, nodes=2, load=load, epochs=(3, 30), limits=LOOSE, seed=seed)


def test_gaps_are_those_of_brute_force() -> None:
    """The reference is brute force's optimum; gap and share follow from it by their definitions."""
    instance = small()
    rows = gap_study([instance], grid_s=SLOT_S, exact="bruteforce")
    best = bruteforce(instance, grid_s=SLOT_S).evaluation
    assert best is not None
    start = exclusive_objective(instance, SLOT_S)
    assert start is not None and start > 1.0
    assert [tuple(row) for row in rows] == [COLUMNS] * 5
    assert rows[0]["method"] == "bruteforce" and rows[0]["status"] == "optimal"
    for row in rows:
        assert row["class"] == "static" and row["reference_kind"] == "optimum"
        assert row["reference"] == pytest.approx(best.objective, rel=1e-9)
        if row["deadline_misses"] == 0 and row["threshold_excess"] == 0.0:
            assert row["gap"] == pytest.approx((row["objective"] - best.objective) / best.objective)
            assert row["gap"] >= -1e-9 and row["gap_relaxed"] is None
        assert row["attained_share"] == pytest.approx((start - row["objective"]) / (start - row["reference"]))


def test_exclusive_execution_on_slots_by_hand() -> None:
    """One job alone on each of two nodes costs what exclusive execution costs, with durations rounded up."""
    instance = small(jobs=2)
    jobs = tuple(dataclasses.replace(job, deadline_s=math.inf, release_s=0.0) for job in instance.jobs)
    instance = dataclasses.replace(instance, jobs=jobs)
    plan = Plan(np.zeros(2), np.arange(16))
    found = evaluate(instance, plan, grid_s=SLOT_S)
    assert exclusive_objective(instance, SLOT_S) == pytest.approx(found.objective, rel=1e-12)


def test_missed_deadlines_have_a_relaxed_gap_only() -> None:
    """A policy that misses is set against the instance without exactly the deadlines that it missed."""
    for seed in range(20):
        instance = small(seed, jobs=5, load=3.0)
        rows = gap_study([instance], ["fifo"], grid_s=SLOT_S, exact="bruteforce")
        row = rows[1]
        if row["deadline_misses"]:
            break
    else:
        pytest.fail("no seed with a miss")
    assert row["gap"] is None and row["gap_relaxed"] >= -1e-9
    assert row["relaxed_reference_kind"] == "optimum"
    if rows[0]["status"] == "optimal":
        assert row["relaxed_reference"] <= row["reference"] + 1e-9


def test_the_relaxed_instance_gives_way_only_where_it_was_broken() -> None:
    """Deadlines that were kept stay, and U_threshold rises by the excess."""
    instance = dataclasses.replace(small(), limits=Limits(u_threshold=0.1, max_share=3))
    plan = Plan(
        np.array(
            [3600.0 * (40 + 1000 * (j == 1)) + min(job.release_s for job in instance.jobs) for j in range(4)]
        ),
        np.tile(np.arange(8), 4),
    )
    jobs = tuple(dataclasses.replace(job, deadline_s=3600.0 * 500) for job in instance.jobs)
    instance = dataclasses.replace(instance, jobs=jobs)
    found = evaluate(instance, plan, grid_s=SLOT_S)
    relaxed = relaxed_instance(instance, found)
    missed = found.jobs.missed.tolist()
    assert any(missed) and not all(missed)
    for before, after, late in zip(instance.jobs, relaxed.jobs, missed, strict=True):
        assert after.deadline_s == (math.inf if late else before.deadline_s)
    assert relaxed.limits.u_threshold == pytest.approx(0.1 + found.threshold_excess)
    assert evaluate(relaxed, plan, grid_s=SLOT_S).threshold_violations == 0


def test_shares_are_null_where_they_say_nothing() -> None:
    """Nothing to save, a missing value, and sleep power give no share (docs/model.md section 7)."""
    instance = small()
    assert attained(instance, 1.2, 1.0, 0.8) == pytest.approx(0.5)
    assert attained(instance, 1.0, 1.0, 1.0) is None
    assert attained(instance, None, 1.0, 0.8) is None
    types = tuple(dataclasses.replace(t, sleep_w=5.0) for t in instance.cluster.node_types)
    asleep = dataclasses.replace(instance, cluster=dataclasses.replace(instance.cluster, node_types=types))
    assert attained(asleep, 1.2, 1.0, 0.8) is None


def test_an_infeasible_instance_does_not_stop_the_others() -> None:
    """Its rows say so and have no reference; the next instance is studied."""
    good = small()
    late = tuple(dataclasses.replace(job, deadline_s=job.release_s + 60.0) for job in good.jobs)
    bad: Instance = dataclasses.replace(good, jobs=late)
    rows = gap_study([("bad", bad), ("good", good)], ["eaco"], grid_s=SLOT_S, exact="bruteforce")
    assert [(r["instance"], r["method"], r["status"]) for r in rows] == [
        ("bad", "bruteforce", "infeasible"),
        ("bad", "eaco", "feasible"),
        ("good", "bruteforce", "optimal"),
        ("good", "eaco", "feasible"),
    ]
    assert rows[0]["reference"] is None and rows[1]["gap"] is None and rows[1]["gap_relaxed"] is not None


def test_the_optimum_as_a_schedule_of_the_users_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`eaco-opt gap --schedule` finds a gap of 0 for the optimum, and writes one CSV row a method."""
    instance = small()
    best = bruteforce(instance, grid_s=SLOT_S)
    assert best.schedule is not None
    write_instance(tmp_path / "i.json", instance)
    write_schedule(tmp_path / "s.json", best.schedule, instance)
    arguments = [
        "gap", str(tmp_path / "i.json"), "--methods", "eaco", "--schedule", str(tmp_path / "s.json"),
        "--exact", "bruteforce", "--grid", "1h", "--out", str(tmp_path / "out"), "--json",
    ]  # fmt: skip
    assert main(arguments) == 0
    document = json.loads(capsys.readouterr().out)
    assert [r["method"] for r in document["rows"]] == ["bruteforce", "eaco", "s"]
    assert document["rows"][2]["gap"] == pytest.approx(0.0, abs=1e-9)
    with (tmp_path / "out" / "gap.csv").open() as file:
        assert [r["method"] for r in csv.DictReader(file)] == ["bruteforce", "eaco", "s"]
    assert main(arguments) == 2, "an output that exists is not overwritten"
    assert main(["gap", str(tmp_path / "i.json"), "--grid", "none"]) == 2


def test_what_cannot_be_placed_on_slots_is_refused() -> None:
    """Starts between slots, and continuous time, end in errors that say what to do."""
    instance = small()
    best = bruteforce(instance, grid_s=SLOT_S)
    assert best.schedule is not None
    plan = Plan(
        np.array([s.start_s for s in sorted(best.schedule.segments, key=lambda s: s.job)]) + 100.0,
        np.concatenate(
            [[8 * n + g for n, g in s.gpus] for s in sorted(best.schedule.segments, key=lambda s: s.job)]
        ),
    )
    names = [job.name for job in instance.jobs]
    assert names == sorted(names)
    moved = plan_schedule(instance, plan, method="mine")
    with pytest.raises(EacoError, match="on no slot of 3600 s"):
        gap_study([instance], ["eaco"], schedules=[moved], grid_s=SLOT_S, exact="bruteforce")
    with pytest.raises(EacoError, match="grid_s must be a number of seconds or 'auto', got 'none'"):
        gap_study([instance], grid_s="none")
    with pytest.raises(EacoError, match="exact must be a method that proves something, got 'eaco'"):
        gap_study([instance], exact="eaco")
    with pytest.raises(EacoError, match="no instance was given"):
        gap_study([])
    assert isinstance(instance.jobs[0], Job)
