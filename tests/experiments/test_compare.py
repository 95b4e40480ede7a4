"""`experiments.compare`: rows, relatives, own policies and schedules, impossible jobs, refusals."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

import eaco_opt
from eaco_opt.checker import check
from eaco_opt.cluster import Cluster
from eaco_opt.errors import DomainError, EacoError, ImpossibleJobsError, ScheduleError, UnknownNameError
from eaco_opt.io import instance_digest
from eaco_opt.schedule import Schedule, ScheduleClass, Segment
from eaco_opt.simulator import Event, EventKind, Reject, Start, World
from experiments.compare import METRICS, RELATIVE, Step, compare
from solvers.verify import InternalError, refuse_violations, verify
from tests.experiments.tiny import BOX, instance, job, two_in_a_row

KEYS = """
    method status energy_kwh avg_tpe_h objective bound gap gap_relaxed mean_jct_h mean_wait_h mean_jtt_h
    makespan_h deadline_misses threshold_excess mean_active_nodes peak_active_nodes node_hours
    modelled_energy_share runtime_s seed
""".split()  # noqa: SIM905
"""Keys of a row that are fixed for users' scripts."""


class Lifo:
    """The newest job first, on exclusive GPUs: a policy of a user's own."""

    name = "lifo"
    schedule_class = "static"

    def begin(self, world: World, rng: np.random.Generator) -> None:
        self.waiting: list[int] = []

    def decide(self, world: World, events: Sequence[Event]) -> Iterator[Start]:
        self.waiting += [e.job for e in events if e.kind is EventKind.ARRIVAL]
        while self.waiting and (gpus := world.best_fit(self.waiting[-1])):
            yield Start(self.waiting.pop(), gpus)


class Picky(Lifo):
    """Takes the first job only and rejects all others."""

    name = "picky"

    def decide(self, world: World, events: Sequence[Event]) -> Iterator[Any]:
        for event in events:
            if event.kind is EventKind.ARRIVAL:
                yield Start(event.job, world.best_fit(event.job)) if event.job == 0 else Reject(event.job)


def static(*segments: tuple[str, float, float], gpus: tuple[int, ...] = (0, 1), node: int = 0) -> Schedule:
    """Return a static schedule of (job, start, end) on GPUs of one node."""
    return Schedule(
        segments=tuple(
            Segment(job=name, start_s=start, end_s=end, gpus=tuple((node, g) for g in gpus))
            for name, start, end in segments
        ),
        schedule_class=ScheduleClass.STATIC,
    )


def test_a_case_worked_by_hand() -> None:
    """FIFO's row holds the energy and times of two jobs one after the other."""
    row = compare(two_in_a_row(), ["fifo"]).rows[0].values()
    assert row["energy_kwh"] == pytest.approx(200e3 / 3.6e6)  # 100 W for 2000 s
    assert row["mean_jct_h"] == pytest.approx(1000 / 3600)
    assert row["mean_wait_h"] == pytest.approx(500 / 3600)
    assert row["mean_jtt_h"] == pytest.approx(1500 / 3600)
    assert row["avg_tpe_h"] == pytest.approx(100 / 3600)
    assert row["makespan_h"] == pytest.approx(2000 / 3600)
    assert row["objective"] == pytest.approx(1.0)  # it is the exclusive reference itself
    assert row["node_hours"] == pytest.approx(2000 / 3600)
    assert (row["peak_active_nodes"], row["mean_active_nodes"]) == (1, pytest.approx(1.0))
    assert row["server_kwh"] == pytest.approx(row["energy_kwh"])
    assert row["p50_wait_h"] == pytest.approx(500 / 3600)
    assert row["max_lateness_h"] is None  # nobody has a deadline


def test_rows_have_the_fixed_keys() -> None:
    """Every row has every fixed key; bounds and gaps are null without a bound."""
    for bounds in (True, False):
        found = compare(
            two_in_a_row(),
            ["fifo", "eaco"],
            schedules=[static(("a", 0.0, 1000.0), ("b", 1000.0, 2000.0))],
            bounds=bounds,
        )
        for row in found.document()["rows"]:
            assert set(KEYS) <= set(row)
            # Two jobs that slow each other down to half: sharing saves no energy, so the bound is that of
            # exclusive execution; EaCO lets them share, which doubles AvgTPE.
            gap = 0.5 if row["method"] == "eaco" else 0.0
            assert row["bound"] == (pytest.approx(1.0) if bounds else None)
            assert row["gap"] == (pytest.approx(gap, abs=1e-8) if bounds else None)
            assert row["gap_relaxed"] is None
        assert row["status"] == "feasible"
        assert set(row["relative"]) == set(RELATIVE)


def test_relatives_are_percent_of_fifo_wherever_it_stands() -> None:
    """FIFO is the reference even if it is not first; its own relatives are 0."""
    # Both jobs share from 0 to 2000 s: energy is that of 2000 s again, each runs 2000 s instead of 1000 s.
    together = static(("a", 0.0, 2000.0), ("b", 0.0, 2000.0))
    found = compare(two_in_a_row(), ["eaco", "fifo"], schedules=[("together", together)])
    assert found.relative_to == "fifo"
    assert set(found.relative(found.row("fifo")).values()) <= {0.0, None}
    relative = found.relative(found.row("together"))
    assert relative["energy_kwh"] == pytest.approx(0.0, abs=1e-9)
    assert relative["mean_jct_h"] == pytest.approx(100.0)
    assert relative["mean_wait_h"] == pytest.approx(-100.0)
    assert relative["deadline_misses"] is None  # FIFO misses none, so there is nothing to be relative to


def test_without_fifo_the_first_row_is_the_reference() -> None:
    """The comparison says which row that is."""
    assert compare(two_in_a_row(), ["gandiva", "eaco"]).relative_to == "gandiva"
    assert compare(two_in_a_row(), [Lifo()]).relative_to == "lifo"


def test_a_policy_of_the_users_own() -> None:
    """A policy object is run like a registered one: the newest job goes first."""
    # a runs alone from 0 to 1000 s; b (released at 1 s) and c (at 2 s) wait; then c, then b.
    problem = instance(job("a"), job("b", release_s=1.0), job("c", release_s=2.0))
    found = eaco_opt.compare(problem, methods=["fifo", Lifo()])
    assert [row.method for row in found.rows] == ["fifo", "lifo"]
    starts = {s.job: s.start_s for s in found.row("lifo").result.schedule.segments}
    assert starts == {"a": 0.0, "c": 1000.0, "b": 2000.0}
    assert found.row("lifo").kind == "policy"


def test_two_objects_of_one_name_get_labels() -> None:
    """Objects of one policy are told apart by a number."""
    found = compare(two_in_a_row(), [Lifo(), Lifo()])
    assert [row.method for row in found.rows] == ["lifo", "lifo (2)"]


def test_one_method_twice_with_options() -> None:
    """LABEL=name gives a name a second row, with options by label."""
    # c is small and could pass b, which waits for the whole node until a has ended.
    problem = instance(job("a", gpus=1), job("b"), job("c", gpus=1))
    found = compare(problem, "fifo,passing=fifo", options={"passing": {"blocked": "skip"}})
    starts = {row.method: {s.job: s.start_s for s in row.result.schedule.segments}["c"] for row in found.rows}
    assert starts == {"fifo": 2000.0, "passing": 0.0}
    assert found.row("passing").values()["options"] == {"blocked": "skip"}


@pytest.mark.parametrize(
    ("methods", "kind", "text"),
    [
        (["nope"], UnknownNameError, "unknown method 'nope'; known are: fifo, fifo_packed, gandiva, eaco"),
        (["fifo", "fifo"], EacoError, "'fifo' is listed twice"),
        ([], EacoError, "nothing to compare"),
        ([Lifo], EacoError, "build an object of the class"),
        ([3], EacoError, r"methods\[0\] must be a registered name or a policy object"),
    ],
)
def test_unusable_methods_are_refused(methods: Any, kind: type[Exception], text: str) -> None:
    """Unknown names list the known ones; classes, duplicates and other things are named."""
    with pytest.raises(kind, match=text):
        compare(two_in_a_row(), methods)


def test_a_path_is_no_instance() -> None:
    """The text says how to read one."""
    for call in (compare, eaco_opt.solve):
        with pytest.raises(EacoError, match=r"expected an Instance, got 'jobs.json'; .*read_instance"):
            call("jobs.json")  # type: ignore[arg-type]


def test_a_label_may_not_be_another_methods_name() -> None:
    """Otherwise rows would be shown relative to something that only looks like FIFO."""
    with pytest.raises(EacoError, match="label 'fifo' is the name of a method, but 'eaco' is meant"):
        compare(two_in_a_row(), "fifo=eaco")


def test_the_empty_instance() -> None:
    """Nothing to do costs nothing: every metric is 0 and nothing is relative to it."""
    found = compare(instance(), ["fifo", "eaco"])
    for row in found.rows:
        assert row.values()["energy_kwh"] == row.values()["objective"] == 0.0
        assert set(found.relative(row).values()) == {None}


def test_options_are_validated_before_anything_runs() -> None:
    """An option that does not exist, or belongs to no row, is an error."""
    with pytest.raises(DomainError, match="unknown option 'speed'; known are: blocked"):
        compare(two_in_a_row(), ["fifo"], options={"fifo": {"speed": 1}})
    with pytest.raises(
        EacoError, match="options for 'eaco', which is no registered method listed; listed are: fifo"
    ):
        compare(two_in_a_row(), ["fifo"], options={"eaco": {}})


def test_a_users_schedule_that_breaks_physics_is_refused() -> None:
    """The violations are named, and where to see all of them."""
    short = static(("a", 0.0, 900.0), ("b", 1000.0, 2000.0))
    with pytest.raises(ScheduleError, match=r"'mine' breaks 1 physical rule.*'a'.*eaco-opt check"):
        compare(two_in_a_row(), ["fifo"], schedules=[("mine", short)])
    with pytest.raises(ScheduleError, match="physical"):
        compare(two_in_a_row(), ["fifo"], schedules=[static(("a", 0.0, 1000.0))])


def test_a_users_schedule_may_miss_deadlines() -> None:
    """Misses are counted as for policies; the row stays feasible."""
    problem = instance(job("a"), job("b", deadline_s=1500.0))
    row = (
        compare(problem, ["fifo"], schedules=[static(("a", 0.0, 1000.0), ("b", 1000.0, 2000.0))])
        .rows[1]
        .values()
    )
    assert (row["status"], row["deadline_misses"]) == ("feasible", 1)
    assert row["max_lateness_h"] == pytest.approx(500 / 3600)
    assert row["runtime_s"] is None
    assert row["seed"] is None


def test_impossible_jobs_stop_or_are_dropped_for_all() -> None:
    """A job of too many GPUs is named and stops; dropped, it is gone from every row, schedules included."""
    problem = instance(job("a"), job("huge", gpus=4))
    with pytest.raises(ImpossibleJobsError, match="'huge': it asks for 4 GPUs"):
        compare(problem, ["fifo"])
    own = static(("a", 0.0, 1000.0), ("huge", 0.0, 1000.0))
    found = compare(problem, ["fifo", "eaco"], schedules=[own], impossible="drop")
    assert [name for name, _ in found.dropped] == ["huge"]
    assert [len(row.instance.jobs) for row in found.rows] == [1, 1, 1]
    assert found.digest == instance_digest(problem.without(["huge"]))
    assert found.document()["dropped"][0]["job"] == "huge"
    with pytest.raises(ImpossibleJobsError):
        compare(instance(job("huge", gpus=4)), ["fifo"], impossible="drop")
    with pytest.raises(EacoError, match="impossible must be 'error' or 'drop', got 'keep'"):
        compare(problem, ["fifo"], impossible="keep")


def test_hopeless_deadlines_run_best_effort_unless_dropped() -> None:
    """A deadline that nobody could meet stops nothing: it is reported, and dropped on request."""
    problem = instance(job("a"), job("late", deadline_s=10.0))
    found = compare(problem, ["fifo", "eaco"])
    assert found.best_effort == ("late",)
    assert [row.values()["deadline_misses"] for row in found.rows] == [1, 1]
    dropped = compare(problem, ["fifo"], impossible="drop")
    assert ([n for n, _ in dropped.dropped], dropped.best_effort) == (["late"], ())


def test_rejected_jobs_are_left_out_of_the_rows_own_instance() -> None:
    """A policy that rejects jobs is measured on the instance without them, and the row says so."""
    found = compare(two_in_a_row(), ["fifo", Picky()])
    row = found.row("picky")
    assert (row.rejected, len(row.instance.jobs)) == (("b",), 1)
    values = row.values()
    assert (values["jobs"], values["rejected"]) == (1, ["b"])
    assert values["objective"] == pytest.approx(1.0)  # b is not in the reference either
    assert row.result.instance_digest == instance_digest(row.instance) != found.digest
    assert check(row.instance, row.result.schedule) == []


def test_alpha_replaces_the_weight_only() -> None:
    """The digest does not depend on alpha, the objective does."""
    half, energy = (compare(two_in_a_row(), ["fifo"], alpha=a) for a in (0.5, 1.0))
    assert half.digest == energy.digest == compare(two_in_a_row(), ["fifo"]).digest
    assert (half.instance.objective.alpha, energy.instance.objective.alpha) == (0.5, 1.0)
    with pytest.raises(DomainError, match="alpha"):
        compare(two_in_a_row(), ["fifo"], alpha=1.5)


def test_a_time_limit_leaves_a_row_without_schedule() -> None:
    """With no time at all nothing is found: the row is unknown and all its metrics are null."""
    found = compare(two_in_a_row(), ["fifo"], time_limit_s=0.0)
    row = found.rows[0].values()
    assert (row["status"], row["stop_reason"], row["class"]) == ("unknown", "time-limit", None)
    assert [row[m] for m in METRICS] == [None] * len(METRICS)
    assert found.relative_to is None
    assert set(found.relative(found.rows[0]).values()) == {None}


def test_grid_physics_for_all_rows() -> None:
    """On slots of 300 s a job of 1000 s takes four slots; the next starts after them."""
    found = compare(two_in_a_row(), ["fifo", "eaco"], grid_s=300.0)
    assert found.grid_s == 300.0
    assert found.row("fifo").values()["makespan_h"] == pytest.approx(2400 / 3600)
    with pytest.raises(EacoError, match="grid_s must be a number of seconds, 'auto' or None, got 'coarse'"):
        compare(two_in_a_row(), ["fifo"], grid_s="coarse")


def test_the_same_seed_gives_the_same_rows() -> None:
    """Two calls agree in everything but the time they took, the plan proved optimal on a grid included."""
    problem = instance(
        *(job(f"j{i}", "fast" if i % 3 else "slow", release_s=10.0 * i) for i in range(5)), nodes=2
    )

    def rows() -> list[dict[str, Any]]:
        return [
            {k: v for k, v in row.items() if k != "runtime_s"} for row in compare(problem, seed=3).table()
        ]

    first = rows()
    assert [row["method"].split()[0] for row in first][4:] == ["grid-optimal"]
    assert first == rows()


def test_progress_reaches_the_end_of_each_row() -> None:
    """Hooks are told the row's number, label and jobs."""
    steps: list[Step] = []
    compare(two_in_a_row(), ["fifo", "eaco"], progress=steps.append)
    last = [s for s in steps if s.done == s.jobs]
    assert {(s.row, s.method, s.done) for s in last} == {(0, "fifo", 2), (1, "eaco", 2)}


def test_settings_state_the_defaults() -> None:
    """Limits, weights, sleep and wake-up stand in the document."""
    settings = compare(two_in_a_row(), ["fifo"]).document()["settings"]
    assert (settings["alpha"], settings["u_threshold"], settings["mem_threshold"]) == (0.5, 0.9, 0.9)
    assert settings["node_types"] == {
        "box": {"sleep_w": 0.0, "wake_s": 0.0, "wake_energy_j": 0.0, "power_lookup": True}
    }


def test_verify_notices_a_wrong_claim() -> None:
    """A schedule whose claimed energy is off by more than a millionth is an internal error."""
    row = compare(two_in_a_row(), ["fifo"]).rows[0]
    evaluation, schedule = row.result.evaluation, row.result.schedule
    assert evaluation is not None and schedule is not None
    verify("fifo", row.instance, schedule, evaluation)
    for field in ("energy_j", "avg_tpe_s", "objective"):
        wrong = dataclasses.replace(evaluation, **{field: getattr(evaluation, field) * (1 + 2e-6)})
        with pytest.raises(InternalError, match=r"'fifo'.*the checker recomputes"):
            verify("fifo", row.instance, schedule, wrong)
        near = dataclasses.replace(evaluation, **{field: getattr(evaluation, field) * (1 + 1e-8)})
        verify("fifo", row.instance, schedule, near)


def test_verify_notices_a_wrong_schedule() -> None:
    """A schedule that breaks physics is an internal error of the method."""
    row = compare(two_in_a_row(), ["fifo"]).rows[0]
    assert row.result.evaluation is not None
    with pytest.raises(InternalError, match="physical violation"):
        verify("fifo", row.instance, static(("a", 0.0, 1000.0), ("b", 500.0, 1500.0)), row.result.evaluation)


def test_refuse_violations_lists_five_and_counts_the_rest() -> None:
    """Of many violations the first five are told."""
    names = [f"j{i}" for i in range(8)]
    problem = instance(*(job(n) for n in names))
    with pytest.raises(ScheduleError, match=r"breaks 8 physical rule.*; and 3 more"):
        refuse_violations(
            "mine", problem, static(*((n, 1000.0 * i, 1000.0 * i + 500.0) for i, n in enumerate(names)))
        )


def test_the_grid_optimum_in_continuous_time() -> None:
    """On slots of 300 s a run of 1000 s takes four; carried out, the plan costs less than on the grid."""
    # Two whole-node jobs that may not share, one after the other: 100 W for 2 * 1200 s on the grid (E/E0 =
    # T/T0 = 1.2), for 2 * 1000 s in continuous time. The second starts when its slot does, not before.
    problem = two_in_a_row(max_share=1)
    found = compare(problem, ["fifo", "grid-optimal"], options={"grid-optimal": {"step_s": 300.0}})
    row = found.row("grid-optimal 5min").values()
    assert (row["plan_grid_s"], row["plan_grid_status"]) == (300.0, "optimal")
    assert row["plan_grid_objective"] == pytest.approx(1.2)
    assert row["objective"] == pytest.approx(1.0)
    assert (row["status"], row["bound"]) == ("feasible", pytest.approx(1.0))
    assert row["gap"] == pytest.approx(0.0, abs=1e-8)
    assert (row["kind"], row["class"], row["options"]["method"]) == ("method", "static", "bruteforce")
    assert row["makespan_h"] == pytest.approx(2200 / 3600)
    assert found.notes == ()
    assert check(problem, found.row("grid-optimal 5min").result.schedule) == []


def test_the_grid_optimum_on_the_grid() -> None:
    """In a comparison on a grid it is the optimum of that grid itself, with its proof."""
    found = compare(two_in_a_row(max_share=1), ["grid-optimal"], grid_s=300.0)
    row = found.rows[0].values()
    assert (row["method"], row["status"], row["gap"]) == ("grid-optimal 5min", "optimal", 0.0)
    assert row["objective"] == row["bound"] == pytest.approx(1.2)
    assert row["plan_grid_s"] is None


def test_without_a_proof_there_is_no_row_but_a_note() -> None:
    """No time, no plan on the grid, or a method that does not cover it: the note says which."""
    late = instance(job("a", deadline_s=1500.0), job("b", deadline_s=1500.0), max_share=1)
    cases: list[tuple[Any, dict[str, Any], str]] = [
        (
            two_in_a_row(max_share=1),
            {"time_limit_s": 0.0},
            r"no optimum was proved on slots of .* within 0 s",
        ),
        (
            late,
            {},
            "no plan keeps all rules on slots of .*explain",
        ),
        (
            late,
            {"methods": ["fifo", "b=grid-optimal"], "options": {"b": {"step_s": 100.0}}},
            "^b 100s is left out: no plan keeps all rules on slots of 100s",
        ),
    ]
    for problem, more, text in cases:
        found = compare(problem, **more)
        assert not any("grid" in row.method for row in found.rows)
        assert len(found.notes) == 1
        assert found.document()["notes"] == list(found.notes)
        assert re.search(text, found.notes[0])


def test_the_proof_is_not_tried_for_many_jobs() -> None:
    """By default; a note says how to ask for it."""
    problem = instance(*(job(f"j{i}", gpus=1) for i in range(41)), nodes=4)
    found = compare(problem)
    assert [row.method for row in found.rows] == ["fifo", "fifo_packed", "gandiva", "eaco"]
    assert "at most 40 jobs" in found.notes[0]
    assert compare(problem, ["fifo"]).notes == ()


def test_exact_methods_beside_policies_in_continuous_time() -> None:
    """Their plan is carried out in continuous time, the row says on which slots it was found."""
    options = {"milp": {"process": "shared"}}
    row = compare(two_in_a_row(max_share=1), ["fifo", "milp"], options=options).row("milp").values()
    assert (row["plan_grid_s"], row["plan_grid_status"]) == (120.0, "optimal")  # the automatic step
    assert row["objective"] == pytest.approx(1.0)
    assert (row["status"], row["bound"]) == ("feasible", pytest.approx(1.0))  # in continuous time
    row = compare(two_in_a_row(max_share=1), ["milp"], options=options, grid_s=300.0).rows[0].values()
    assert (row["status"], row["gap"], row["plan_grid_s"]) == ("optimal", 0.0, None)
    assert row["objective"] == pytest.approx(1.2)


def test_a_plan_that_fails_in_continuous_time_is_left_out() -> None:
    """On the grid a node stays awake until the next job starts; in continuous time it falls asleep."""
    # Slots of 300 s, W = 300 s: a runs from 300 to 1300 s, on the grid to 1500 s; b follows there at once and
    # keeps its deadline of 2700 s. In continuous time the node sleeps from 1300 s on, and is awake for b,
    # released at 1400 s, at 1700 s only.
    box = dataclasses.replace(BOX, wake_s=300.0)
    problem = dataclasses.replace(
        instance(job("a", deadline_s=1500.0), job("b", release_s=1400.0, deadline_s=2700.0)),
        cluster=Cluster.uniform(box, 1),
    )
    for method, label in (("grid-optimal", "grid-optimal 5min"), ("mine=grid-optimal", "mine 5min")):
        found = compare(problem, [method], options={method.split("=")[0]: {"step_s": 300.0}})
        assert found.rows == ()
        assert found.notes == (
            f"{label} has no schedule: its plan on slots of 5min breaks a rule in continuous time",
        )
    assert compare(problem, ["grid-optimal"], grid_s=300.0).rows[0].result.status == "optimal"


def test_a_row_that_missed_a_deadline_is_set_beside_the_relaxed_bound() -> None:
    """Its gap is null, the relaxed one is taken from the bound without the missed deadline."""
    # FIFO runs b from 1000 to 2000 s; nobody can end both by 1500 s: no schedule, so there is no bound.
    problem = instance(job("a", deadline_s=1500.0), job("b", deadline_s=1500.0), max_share=1)
    row = compare(problem, ["fifo"]).rows[0].values()
    assert (row["deadline_misses"], row["bound"], row["gap"]) == (1, None, None)
    # Without b's deadline FIFO's schedule is the best one: exclusive execution.
    assert row["bound_relaxed"] == pytest.approx(1.0)
    assert row["gap_relaxed"] == pytest.approx(0.0, abs=1e-8)
