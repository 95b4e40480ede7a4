"""The gap study: values on slots, optimum or bound, gaps, shares, and what it says where there is none."""

from __future__ import annotations

import csv
import dataclasses
import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eaco_opt import Instance, Job, Limits, evaluate
from eaco_opt.errors import EacoError
from eaco_opt.io import instance_digest, write_instance, write_schedule
from eaco_opt.physics import plan_schedule
from eaco_opt.result import Result, Status, StopReason
from eaco_opt.schedule import Plan, Schedule, ScheduleClass, Segment
from eaco_opt.simulator import Event, EventKind, Reject, Start, World
from experiments import gap
from experiments.cli import main
from experiments.compare import compare
from experiments.gap import COLUMNS, attained, exclusive_objective, gap_study, relaxed_instance
from instances import generate
from solvers.bruteforce import bruteforce
from solvers.verify import InternalError
from tests.experiments.tiny import instance as tiny_instance
from tests.experiments.tiny import job, two_in_a_row

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


class Keeper:
    """Takes the first job alone on its GPUs and rejects all others."""

    name = "keeper"
    schedule_class = "static"

    def begin(self, world: World, rng: np.random.Generator) -> None:
        pass

    def decide(self, world: World, events: Sequence[Event]) -> Iterator[Start | Reject]:
        for event in events:
            if event.kind is EventKind.ARRIVAL:
                yield Start(event.job, world.best_fit(event.job)) if event.job == 0 else Reject(event.job)


def test_shares_of_energy_and_of_sharing_by_hand() -> None:
    """One after the other attains nothing; the optimum attains all, of the objective and of energy alone."""
    # Two jobs of 1000 s that lose nothing together, one node of 100 W, slots of 1000 s. Exclusive: 200 kJ and
    # E/E0 = T/T0 = 1. The optimum runs both from 0 to 1000 s: 100 kJ, objective 0.5 * 0.5 + 0.5 = 0.75.
    problem = two_in_a_row(slowdown=1.0)
    rows = gap_study([problem], ["fifo"], grid_s=1000.0, exact="bruteforce", energy=True)
    assert [row["method"] for row in rows] == ["bruteforce", "fifo"]
    assert rows[1]["reference"] == pytest.approx(0.75)
    assert rows[1]["gap"] == pytest.approx(1 / 3)
    assert rows[1]["exclusive_energy_kwh"] == pytest.approx(200e3 / 3.6e6)
    assert rows[1]["least_energy_kwh"] == pytest.approx(100e3 / 3.6e6)
    for key in ("attained_share", "attained_share_no_sharing_ref", "energy_attained_share"):
        assert rows[0][key] == pytest.approx(1.0)
        assert rows[1][key] == pytest.approx(0.0, abs=1e-12)
    assert rows[1]["no_sharing_objective"] == pytest.approx(1.0)
    assert rows[1]["no_sharing_status"] == "optimal"
    without = gap_study([problem], ["fifo"], grid_s=1000.0, exact="bruteforce")
    assert without[1]["energy_attained_share"] is None


def test_the_step_is_that_of_compare() -> None:
    """Without a slot length the study and the row `grid-optimal` look for the same optimum."""
    problem = two_in_a_row(max_share=1)
    (row,) = [r for r in compare(problem, ["grid-optimal"]).rows]
    assert gap_study([problem], ["fifo"])[0]["slot_s"] == row.plan_grid_s
    assert gap_study([problem], ["fifo"])[0]["reference"] == pytest.approx(row.plan_grid_objective)


def test_rejected_jobs_are_in_neither_value_nor_reference() -> None:
    """A policy that rejects jobs is measured on the instance without them (docs/model.md 3.10)."""
    problem = two_in_a_row()
    row = gap_study([problem], [Keeper()], grid_s=1000.0, exact="bruteforce")[1]
    assert (row["rejected_jobs"], row["gap"]) == (1, pytest.approx(0.0, abs=1e-12))
    assert row["objective"] == row["reference"] == row["exclusive_objective"] == pytest.approx(1.0)
    assert row["digest"] == instance_digest(problem.without(["b"]))
    assert row["attained_share"] is None  # there is nothing to save


def test_a_value_below_the_optimum_is_an_internal_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reference above the value of a feasible schedule is a contradiction, not a negative gap."""
    real = gap.exact_reference

    def wrong(*given: Any, **more: Any) -> Any:
        found = real(*given, **more)
        return dataclasses.replace(found, value=found.value * 1.5)

    monkeypatch.setattr(gap, "exact_reference", wrong)
    with pytest.raises(
        InternalError, match=r"'bruteforce' on 'tiny', .* costs .*, less than the lower bound"
    ):
        gap_study([two_in_a_row()], ["fifo"], grid_s=1000.0, exact="bruteforce")


def test_no_gap_where_the_reference_is_0() -> None:
    """Without jobs everything costs 0, and a quotient has no meaning."""
    rows = gap_study([tiny_instance()], ["fifo"], grid_s=1000.0, exact="milp")
    assert [(row["gap"], row["attained_share"]) for row in rows] == [(None, None)] * 2


def test_ctrl_c_stops_the_study(monkeypatch: pytest.MonkeyPatch) -> None:
    """An interrupted search does not lead to the next one."""

    def interrupted(*_: Any, **__: Any) -> Result:
        return Result(
            method="auto", schedule=None, evaluation=None, status=Status.UNKNOWN,
            stop_reason=StopReason.INTERRUPTED,
        )  # fmt: skip

    monkeypatch.setattr(gap, "solve", interrupted)
    with pytest.raises(KeyboardInterrupt):
        gap_study([two_in_a_row()], ["fifo"])


def test_a_schedule_that_ends_too_early_is_refused() -> None:
    """Its stated ends have to be those of the slots, or right in continuous time."""
    problem = two_in_a_row(max_share=1)

    def own(end_s: float) -> Schedule:
        gpus = ((0, 0), (0, 1))
        segments = (
            Segment(job="a", start_s=0.0, end_s=end_s, gpus=gpus),
            Segment(job="b", start_s=1200.0, end_s=1200.0 + end_s, gpus=gpus),
        )
        return Schedule(segments=segments, schedule_class=ScheduleClass.STATIC)

    for end_s in (1000.0, 1200.0):  # a run of 1000 s ends after four slots of 300 s
        rows = gap_study([problem], ["fifo"], schedules=[("mine", own(end_s))], grid_s=300.0)
        assert rows[2]["objective"] == pytest.approx(1.2)
        assert rows[2]["gap"] == pytest.approx(0.0, abs=1e-9)
    with pytest.raises(EacoError, match=r"'mine' breaks 2 physical rule"):
        gap_study([problem], ["fifo"], schedules=[("mine", own(900.0))], grid_s=300.0)


def test_exit_codes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """3 where nothing can be done at all, 4 where there was no time; 0 when a method ran, late or not."""
    write_instance(tmp_path / "huge.json", tiny_instance(job("huge", gpus=4)))
    write_instance(tmp_path / "late.json", tiny_instance(job("late", deadline_s=10.0)))
    assert main(["gap", str(tmp_path / "huge.json"), "--json"]) == 3
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert {row["status"] for row in rows} == {"infeasible"}
    assert main(["gap", str(tmp_path / "huge.json"), str(tmp_path / "late.json"), "--methods", "fifo"]) == 0
    printed = capsys.readouterr().out
    assert "no plan keeps all rules" in printed
    assert "'huge': it asks for 4 GPUs" in printed
    assert main(["gap", str(tmp_path / "late.json"), "--time-limit", "0s", "--methods", "fifo"]) == 4
