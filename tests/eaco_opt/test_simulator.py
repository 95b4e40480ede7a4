"""The simulator's protocol: what a policy is told, may do, and is told off for (docs/policies.md)."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eaco_opt.checker import check
from eaco_opt.errors import DomainError, EacoError, ImpossibleJobsError
from eaco_opt.instance import Instance
from eaco_opt.interference import Interference
from eaco_opt.policies import POLICIES, make_policy
from eaco_opt.schedule import Schedule, Segment
from eaco_opt.simulator import (
    Action,
    Event,
    PolicyError,
    Progress,
    Reject,
    Simulation,
    Start,
    Stop,
    Timer,
    Watch,
    World,
    active_curve,
    boundary_s,
    simulate,
)
from tests.eaco_opt.policy_cases import (
    cluster,
    job,
    node_type,
    possible,
    problem,
    profile,
    random_case,
    runs,
    slow,
)

Decide = Callable[[World, Sequence[Event]], Iterable[Action]]


class Scripted:
    """A policy made of one function; it keeps what it was told: (time, [(kind, job)])."""

    def __init__(self, decide: Decide, schedule_class: str = "fluid", name: str = "scripted") -> None:
        self.name = name
        self.schedule_class = schedule_class
        self._decide = decide
        self.told: list[tuple[float, list[tuple[str, int]]]] = []

    def begin(self, world: World, rng: np.random.Generator) -> None:
        self.told = []

    def decide(self, world: World, events: Sequence[Event]) -> Iterator[Action]:
        self.told.append((round(world.now_s, 6), [(e.kind.value, e.job) for e in events]))
        yield from self._decide(world, events)


def at(times: dict[float, Sequence[Action]]) -> Decide:
    """Actions by time [s since the earliest release]."""

    def decide(world: World, events: Sequence[Event]) -> Iterator[Action]:
        yield from times.get(round(world.now_s, 6), ())

    return decide


def play(
    instance: Instance, script: dict[float, Sequence[Action]], **options: Any
) -> tuple[Simulation, Scripted]:
    policy = Scripted(at(script), options.pop("schedule_class", "fluid"))
    return simulate(instance, policy, 0, **options), policy


# What happens when ------------------------------------------------------------------------------------


def test_single_job() -> None:
    """One job of three epochs of 10 s runs from its release for 30 s: told of arrival and departure."""
    done, policy = play(problem(job("x", epochs=3, at=100.0)), {0.0: [Start(0, (0,))]})
    assert runs(done) == {"x": [(100.0, 130.0, ((0, 0),))]}
    assert policy.told == [(0.0, [("arrival", 0)]), (30.0, [("departure", 0)])]
    assert done.log.kind == ("arrival", "start", "departure")
    assert done.log.time_s.tolist() == [100.0, 100.0, 130.0]
    assert done.log.job.tolist() == [0, 0, 0]
    assert done.active.time_s.tolist() == [100.0, 130.0] and done.active.nodes.tolist() == [1, 0]
    assert done.evaluation.makespan_s == pytest.approx(30.0)
    assert done.counters == {} and done.rejected == () and done.best_effort == ()
    assert done.schedule.method == "scripted" and done.schedule.schedule_class == "fluid"


@pytest.mark.parametrize("name", list(POLICIES))
@pytest.mark.parametrize("grid_s", [None, 10.0])
def test_no_jobs(name: str, grid_s: float | None) -> None:
    """An instance without jobs is an empty schedule of objective 0, and the policy is never asked."""
    done = simulate(problem(), make_policy(name), 0, grid_s=grid_s)
    assert done.schedule.segments == () and done.evaluation.objective == 0.0
    assert done.log.kind == () and len(done.active.time_s) == 0


def test_events_of_one_moment_come_together_and_in_order() -> None:
    """At 20 s two jobs leave (by submit index), one arrives, a timer rings: one question, in this order."""
    instance = problem(
        job("p", epochs=2, submit_index=5),
        job("q", epochs=2, submit_index=3),
        job("late", at=20.0, submit_index=1),
    )
    # In order of submit index: late = 0, q = 1, p = 2.
    done, policy = play(
        instance, {0.0: [Start(2, (1,)), Start(1, (0,)), Timer(20.0)], 20.0: [Start(0, (0,))]}
    )
    assert policy.told == [
        (0.0, [("arrival", 1), ("arrival", 2)]),
        (20.0, [("departure", 1), ("departure", 2), ("arrival", 0), ("timer", -1)]),
        (30.0, [("departure", 0)]),
    ]
    assert done.log.kind == (
        *("arrival", "arrival", "start", "start"),
        *("departure", "departure", "arrival", "timer", "start", "departure"),
    )
    assert done.log.job.tolist() == [1, 2, 2, 1, 1, 2, 0, -1, 0, 0]


def test_events_closer_than_rounding_are_one_moment() -> None:
    """Departures 1e-10 s apart are one question; 1e-5 s apart they are two."""
    for gap, questions in ((1e-10, 2), (1e-5, 3)):
        instance = problem(job("p"), job("q", "z"), profiles=[profile("z", 10.0 + gap)])
        _, policy = play(instance, {0.0: [Start(0, (0,)), Start(1, (1,))]})
        assert len(policy.told) == questions


def test_departed_jobs_have_left_their_gpus() -> None:
    """When the departure is told, the GPU is free, the demand is down, and it can be given away at once."""
    seen = []

    def decide(world: World, events: Sequence[Event]) -> Iterator[Action]:
        seen.append((world.free[0], world.demand, sorted(world.waiting), sorted(world.gpus_of)))
        if world.waiting and world.free[0] == 2:
            yield Start(min(world.waiting), (0, 1))

    done = simulate(problem(job("p", gpus=2), job("q", gpus=2)), Scripted(decide), 0)
    assert seen == [(2, 4, [0, 1], []), (2, 2, [1], []), (2, 0, [], [])]
    assert runs(done)["q"] == [(10.0, 20.0, ((0, 0), (0, 1)))]


def test_actions_are_carried_out_one_by_one() -> None:
    """A generator sees the effect of each action before it yields the next."""
    seen = []

    def decide(world: World, events: Sequence[Event]) -> Iterator[Action]:
        while world.waiting:
            j = min(world.waiting)
            yield Start(j, world.best_fit(j))
            seen.append((world.gpus_of[j], world.free[0], world.residents(world.gpus_of[j][0])))

    simulate(problem(job("p"), job("q")), Scripted(decide), 0)
    assert seen == [((0,), 1, (0,)), ((1,), 0, (1,))]


# Milestones, stops, timers ----------------------------------------------------------------------------


def test_milestones() -> None:
    """p alone (10 s/epoch) to 20 s, then with q at factor 1.5: 2.5 epochs are done at 27.5 s, 4 at 50 s.

    A watch replaces the one before; one at or beyond the job's end is ignored.
    """
    instance = problem(job("p", epochs=4), job("q", "b", epochs=2, at=20.0), truth=slow(ab=1.5))
    seen = []

    def decide(world: World, events: Sequence[Event]) -> Iterator[Action]:
        if world.now_s == 0.0:
            yield Start(0, (0,))
            yield Watch(0, 3.5)
            yield Watch(0, 2.5)
            yield Watch(0, 4.0)
            yield Watch(0, 4.5)
            yield Watch(0, math.inf)
        elif world.now_s == 20.0:
            yield Start(1, (0,))
        for event in events:
            if event.kind == "milestone":
                seen.append((round(world.now_s, 9), world.progress_epochs(event.job), world.slowdown(0)))

    done = simulate(instance, Scripted(decide), 0)
    assert seen == [(27.5, 2.5, pytest.approx(1.5))]
    # q needs 30 s, till 50 s, when p has done 2 + 30/15 = 4 epochs: both leave at 50 s.
    assert runs(done) == {"p": [(0.0, 50.0, ((0, 0),))], "q": [(20.0, 50.0, ((0, 0),))]}


def test_stop_and_resume_elsewhere_keep_progress() -> None:
    """p runs 15 s on GPU 0 (1.5 epochs), pauses 5 s, does the other 1.5 epochs on GPU 1 till 35 s."""
    done, _ = play(
        problem(job("p", epochs=3)),
        {0.0: [Start(0, (0,)), Timer(15.0), Timer(20.0)], 15.0: [Stop(0)], 20.0: [Start(0, (1,))]},
    )
    assert runs(done) == {"p": [(0.0, 15.0, ((0, 0),)), (20.0, 35.0, ((0, 1),))]}
    assert done.evaluation.jobs.wait_s.tolist() == [pytest.approx(5.0)]
    assert done.log.kind == ("arrival", "start", "timer", "stop", "timer", "start", "departure")
    assert check(done.instance, done.schedule) == []


def test_stop_at_the_moment_of_the_start_leaves_nothing() -> None:
    """A start taken back at once leaves no segment and no progress."""
    done, _ = play(problem(job("p")), {0.0: [Start(0, (0,)), Stop(0), Start(0, (1,))]})
    assert runs(done) == {"p": [(0.0, 10.0, ((0, 1),))]}


def test_a_stop_forgets_the_watch() -> None:
    """A job watched for 2 epochs, stopped after 1 and resumed, is no longer watched."""
    _, policy = play(
        problem(job("p", epochs=3)),
        {0.0: [Start(0, (0,)), Watch(0, 2.0), Timer(10.0)], 10.0: [Stop(0), Start(0, (0,))]},
    )
    assert [events for _, events in policy.told] == [[("arrival", 0)], [("timer", -1)], [("departure", 0)]]


def test_timers_ring_in_order_of_time() -> None:
    """Timers are asked for in seconds since the earliest release; equal ones ring together."""
    instance = problem(job("p", at=1000.0))
    done, policy = play(instance, {0.0: [Start(0, (0,)), Timer(7.0), Timer(3.0), Timer(7.0)]})
    assert policy.told == [
        (0.0, [("arrival", 0)]),
        (3.0, [("timer", -1)]),
        (7.0, [("timer", -1), ("timer", -1)]),
        (10.0, [("departure", 0)]),
    ]
    assert [t for t, kind in zip(done.log.time_s, done.log.kind, strict=True) if kind == "timer"] == [
        1003.0, 1007.0, 1007.0,
    ]  # fmt: skip


# The grid ---------------------------------------------------------------------------------------------


def test_grid_rounds_releases_timers_departures_and_milestones_up() -> None:
    """Slots of 4 s: released at 5 s, seen at 8 s; 10 s of work end at 20 s; half of it is seen at 16 s."""
    instance = problem(job("first"), job("p", at=5.0))

    def decide(world: World, events: Sequence[Event]) -> Iterator[Action]:
        for event in events:
            if event.kind == "arrival":
                yield Start(event.job, (event.job,))
                if event.job == 1:
                    yield Watch(1, 0.5)
                    yield Timer(world.now_s + 0.1)  # never at the present boundary
                    yield Timer(world.now_s + 4.0)

    policy = Scripted(decide)
    done = simulate(instance, policy, 0, grid_s=4.0)
    assert policy.told == [
        (0.0, [("arrival", 0)]),
        (8.0, [("arrival", 1)]),
        (12.0, [("departure", 0), ("timer", -1), ("timer", -1)]),
        (16.0, [("milestone", 1)]),
        (20.0, [("departure", 1)]),
    ]
    assert runs(done) == {"first": [(0.0, 12.0, ((0, 0),))], "p": [(8.0, 20.0, ((0, 1),))]}
    assert done.schedule.schedule_class == "static"
    assert check(done.instance, done.schedule, grid_s=4.0) == []


def test_a_milestone_on_a_grid_takes_no_progress_away() -> None:
    """Watched for 0.1 epochs in slots of 12 s: the milestone finds 1.2 epochs, the job still ends at 24 s."""
    seen = []

    def decide(world: World, events: Sequence[Event]) -> Iterator[Action]:
        for event in events:
            if event.kind == "arrival":
                yield Start(0, (0,))
                yield Watch(0, 0.1)
            elif event.kind == "milestone":
                seen.append(world.progress_epochs(0))

    done = simulate(problem(job("p", epochs=2)), Scripted(decide), 0, grid_s=12.0)
    assert seen == [pytest.approx(1.2)]
    assert runs(done) == {"p": [(0.0, 24.0, ((0, 0),))]}


@pytest.mark.parametrize(
    ("t", "slot", "expected"),
    [(0.0, 5.0, 0.0), (5.0, 5.0, 5.0), (5.0000004, 5.0, 5.0), (5.000001, 5.0, 10.0), (1.1, 0.1, 1.1),
     (4e-5, 86400.0, 86400.0)],
)  # fmt: skip
def test_boundaries(t: float, slot: float, expected: float) -> None:
    """The boundary at or after a time, rounding aside; never so early that a start precedes its release."""
    assert boundary_s(t, slot) == pytest.approx(expected, abs=1e-12)


def test_a_release_just_after_a_boundary_waits_for_the_next() -> None:
    """Released 5e-5 s after a boundary of day-long slots: beyond the tolerance, so it starts a day later."""
    instance = problem(job("first"), job("p", at=5e-5))
    done = simulate(instance, make_policy("fifo"), 0, grid_s=86400.0)
    assert runs(done)["p"][0][0] == 86400.0
    assert check(done.instance, done.schedule, grid_s=86400.0) == []


# Waking nodes -----------------------------------------------------------------------------------------


def waking(nodes: int = 1, wake_s: float = 5.0, gpus: int = 2) -> Any:
    return cluster((node_type(gpus, wake_s=wake_s), nodes))


def test_a_start_on_a_sleeping_node_waits_for_it() -> None:
    """W = 5 s: p begins at 5 s; q, placed at 3 s on the waking node, begins with it; r, later, at once."""
    instance = problem(
        job("p", epochs=2), job("q", "b", at=3.0), job("r", "c", at=10.0), cluster=waking(gpus=3)
    )
    begins = {}

    def decide(world: World, events: Sequence[Event]) -> Iterator[Action]:
        for event in events:
            if event.kind == "arrival":
                begins[event.job] = world.begin_s([0]), world.start_s(event.job, (event.job,))
                yield Start(event.job, (event.job,))

    done = simulate(instance, Scripted(decide), 0)
    assert begins == {0: (5.0, 5.0), 1: (5.0, 5.0), 2: (10.0, 10.0)}
    assert {name: own[0][:2] for name, own in runs(done).items()} == {
        "p": (5.0, 25.0), "q": (5.0, 15.0), "r": (10.0, 20.0),
    }  # fmt: skip
    assert done.log.time_s[list(done.log.kind).index("start")] == 5.0
    assert check(done.instance, done.schedule) == []


def test_a_node_just_emptied_is_awake_and_one_emptied_before_is_not() -> None:
    """p leaves at 15 s: q, placed then, begins at once; r, placed 5 s after q left, waits again."""
    instance = problem(job("p"), job("q"), job("r", at=30.0), cluster=waking())
    done, _ = play(instance, {0.0: [Start(0, (0,))], 15.0: [Start(1, (0,))], 30.0: [Start(2, (0,))]})
    assert {name: own[0][:2] for name, own in runs(done).items()} == {
        "p": (5.0, 15.0), "q": (15.0, 25.0), "r": (35.0, 45.0),
    }  # fmt: skip
    assert check(done.instance, done.schedule) == []


def test_a_waiting_job_on_several_nodes_does_not_keep_them_awake() -> None:
    """Two nodes, W = 5 s. c runs on node 0 from 5 s to 15 s; w is placed on both at 12 s and begins at 17 s.

    From 15 s on nobody runs on node 0, it sleeps; d, placed there at 16 s, begins with w and not before.
    """
    instance = problem(job("c"), job("w", "b", gpus=3, at=12.0), job("d", "c", at=16.0), cluster=waking(2))
    done, _ = play(
        instance,
        {0.0: [Start(0, (0,))], 12.0: [Start(1, (1, 2, 3))], 16.0: [Start(2, (0,))]},
    )
    assert {name: own[0][:2] for name, own in runs(done).items()} == {
        "c": (5.0, 15.0), "w": (17.0, 27.0), "d": (17.0, 27.0),
    }  # fmt: skip
    assert check(done.instance, done.schedule) == []


def test_sharing_with_a_job_that_waits_means_waiting_with_it() -> None:
    """w waits till 17 s for node 1 and holds GPU 1 of node 0, which is awake: s, put there, waits too."""
    instance = problem(
        job("c", epochs=3), job("w", "b", gpus=3, at=12.0), job("s", "c", at=13.0), cluster=waking(2)
    )
    done, _ = play(instance, {0.0: [Start(0, (0,))], 12.0: [Start(1, (1, 2, 3))], 13.0: [Start(2, (1,))]})
    assert runs(done)["s"][0][:2] == (17.0, 27.0)
    assert check(done.instance, done.schedule) == []


def test_a_job_on_several_nodes_leaves_each_the_time_to_wake() -> None:
    """W = 5 s. c runs on node 0 till 14 s, v wakes node 1 for 15 s. At 12 s w might join v and take GPU 1.

    It would begin with v at 15 s, alone on node 0 by then: node 0 has time to wake if w was released by 10 s.
    """
    z = profile("z", 9.0)
    for released, begins in ((10.0, 15.0), (10.5, math.inf)):
        instance = problem(
            job("c", "z"),
            job("v", at=10.0),
            job("w", "b", gpus=3, at=released),
            cluster=waking(2),
            profiles=[z],
        )
        seen: list[float] = []

        def decide(world: World, events: Sequence[Event], seen: list[float] = seen) -> Iterator[Action]:
            if world.now_s == 0.0:
                yield Start(0, (0,))
                yield Timer(12.0)
            elif world.now_s == 10.0:
                yield Start(1, (3,))
            elif world.now_s == 12.0:
                seen.append(world.start_s(2, (1, 2, 3)))
                if seen[0] < math.inf:
                    yield Start(2, (1, 2, 3))
                else:
                    yield Reject(2)

        done = simulate(instance, Scripted(decide), 0)
        assert seen == [begins]
        assert runs(done).get("w", [(math.inf,)])[0][0] == begins
        assert check(done.instance, done.schedule) == []


def test_wake_up_on_a_grid() -> None:
    """W = 5 s and slots of 4 s: a start on the sleeping node begins at 8 s, the first boundary after 5 s."""
    done = simulate(problem(job("p"), cluster=waking()), make_policy("fifo"), 0, grid_s=4.0)
    assert runs(done) == {"p": [(8.0, 20.0, ((0, 0),))]}
    assert check(done.instance, done.schedule, grid_s=4.0) == []


def test_departures_elsewhere_late_in_a_long_run() -> None:
    """p leaves GPU 0 after 3e6 s, when the time tolerance is 3 ms; q leaves GPU 1 two milliseconds later.

    x starts on GPU 0 in between: its run is as long as it must be, though another departure is close. The
    same where x joins r, which leaves two milliseconds later.
    """
    long, longer = profile("p", 3e6), profile("q", 3e6 + 0.002)
    instance = problem(job("p", "p"), job("q", "q"), job("x", at=1.0), profiles=[long, longer])
    done = simulate(instance, make_policy("fifo"), 0)
    assert runs(done)["x"] == [(3e6, 3e6 + 10.0, ((0, 0),))]
    assert check(done.instance, done.schedule) == []
    instance = problem(job("r", "q", gpus=2), job("x", gpus=2, at=3e6), profiles=[longer], truth=slow(aq=1.5))
    done, _ = play(instance, {0.0: [Start(0, (0, 1))], 3e6: [Start(1, (0, 1))]})
    assert done.evaluation.physical_violations == 0 and check(done.instance, done.schedule) == []


# What the world shows ---------------------------------------------------------------------------------


def test_slowdown_is_the_truth_of_now() -> None:
    """Alone 1, in company what the truth says, on several GPUs the slowest counts."""
    instance = problem(
        job("p", gpus=2, epochs=9),
        job("q", "b", epochs=9),
        job("r", "c", epochs=9),
        truth=slow(ab=1.5, ac=3.0),
    )
    seen = []

    def decide(world: World, events: Sequence[Event]) -> Iterator[Action]:
        if world.now_s == 0.0:
            for j, gpus in ((0, (0, 1)), (1, (0,)), (2, (1,))):
                yield Start(j, gpus)
                seen.append([round(world.slowdown(k), 9) for k in range(j + 1)])

    simulate(instance, Scripted(decide), 0, history=Interference())
    assert seen == [[1.0], [1.5, 1.5], [3.0, 1.5, 3.0]]


def test_can_join_and_may_use() -> None:
    """Memory (16 of 32 GiB with 0.5), K = 2, exclusive, no epoch time, U_threshold only if asked."""
    types = (node_type(), 1), (node_type(name="w2", gpu_type="w"), 1)
    instance = problem(
        job("p"), job("q", "b"), job("big", "m"), job("alone", exclusive=True), job("hot", "h"),
        cluster=cluster(*types),
        profiles=[profile("m", memory_gib=14.0), profile("h", util=0.8)],
        limits={"mem_threshold": 0.5, "max_share": 2, "u_threshold": 1.0},
    )  # fmt: skip
    seen = {}

    def decide(world: World, events: Sequence[Event]) -> Iterator[Action]:
        if world.now_s == 0.0:
            yield Start(0, (0,))
            seen["join"] = [world.can_join(j, (0,), True) for j in (1, 2, 3, 4)]
            seen["anyway"] = [world.can_join(j, (0,), False) for j in (1, 2, 3, 4)]
            seen["use"] = [world.may_use(1, 0), world.may_use(1, 1)]
            yield Start(1, (0,))
            seen["third"] = world.can_join(4, (0,), False)
            for j in (2, 3, 4):
                yield Reject(j)

    simulate(instance, Scripted(decide), 0)
    assert seen == {
        "join": [True, False, False, False],  # memory 18 > 16; exclusive; load 1.1 > 1
        "anyway": [True, False, False, True],
        "use": [True, False],
        "third": False,
    }


def test_can_join_by_either_rule() -> None:
    """U = 0.7: `existing` lets load 0.7 join load 0.3 and then nobody; `resulting` lets neither."""
    found = {}
    for rule in ("existing", "resulting"):
        instance = problem(
            job("p"), job("hot", "h"), job("q", "b"),
            profiles=[profile("h", util=0.7)], limits={"u_threshold": 0.7, "rule": rule},
        )  # fmt: skip

        def decide(world: World, events: Sequence[Event], rule: str = rule) -> Iterator[Action]:
            if world.now_s == 0.0:
                yield Start(0, (0,))
                found[rule] = [world.can_join(1, (0,), True)]
                yield Start(1, (0,))
                found[rule].append(world.can_join(2, (0,), True))
                yield Reject(2)

        simulate(instance, Scripted(decide), 0)
    assert found == {"existing": [True, False], "resulting": [False, False]}


def _best_fit(instance: Instance, before: Sequence[Start], job_number: int) -> tuple[int, ...]:
    out: list[tuple[int, ...]] = []

    def decide(world: World, events: Sequence[Event]) -> Iterator[Action]:
        if world.now_s == 0.0:
            yield from before
            out.append(world.best_fit(job_number))
            for j in list(world.waiting):
                yield Reject(j)

    simulate(instance, Scripted(decide), 0)
    return out[0]


def test_best_fit() -> None:
    """The fullest node that has room, then the lowest; its lowest free GPUs; whole nodes and a rest."""
    four = node_type(4)
    jobs = [
        job("a1"),
        job("a2", gpus=2),
        job("g2", gpus=2),
        job("g3", gpus=3),
        job("g6", gpus=6),
        job("g9", gpus=9),
    ]
    instance = problem(*jobs, cluster=cluster((four, 3)))
    first = [Start(0, (0,)), Start(1, (5, 7))]  # node 0 has 1-3 free, node 1 has 4 and 6 free
    assert _best_fit(instance, first, 2) == (4, 6)  # two free on node 1, three on node 0
    assert _best_fit(instance, first, 3) == (1, 2, 3)
    assert _best_fit(instance, first, 4) == (
        4,
        6,
        8,
        9,
        10,
        11,
    )  # node 2 whole, the rest on node 1, the fullest
    assert _best_fit(instance, first, 5) == ()  # two whole nodes are needed
    assert _best_fit(instance, [], 5) == (0, 1, 2, 3, 4, 5, 6, 7, 8)


def test_best_fit_on_mixed_nodes() -> None:
    """Only nodes of types with an epoch time and memory count; a gang lies on one type."""
    v, w, small = node_type(2), node_type(2, "w2", gpu_type="w"), node_type(2, "s2", gpu_memory_gib=3.0)
    profiles = [profile("a"), profile("w", {"w": 10.0}), profile("b", {"v": 10.0, "w": 10.0})]
    instance = problem(
        job("p"), job("q", "w"), job("r", "b", gpus=4), job("s", "w", gpus=2), profiles=profiles,
        cluster=cluster((small, 1), (v, 1), (w, 2)),
    )  # fmt: skip
    assert _best_fit(instance, [], 0) == (2,)  # 4 GiB do not fit 0.9 * 3 GiB of node 0
    assert _best_fit(instance, [], 1) == (4,)
    assert _best_fit(instance, [], 2) == (4, 5, 6, 7)  # one v node is not enough, two w nodes are
    assert _best_fit(instance, [Start(1, (5,))], 3) == (6, 7)
    assert _best_fit(instance, [Start(1, (5,))], 2) == ()


# Logs, curves, hooks ----------------------------------------------------------------------------------


def _count(schedule: Schedule, t: float) -> int:
    return len({n for s in schedule.segments if s.start_s <= t < s.end_s for n, _ in s.gpus})


@pytest.mark.parametrize("seed", range(12))
def test_active_curve_is_a_direct_count(seed: int) -> None:
    """Between any two changes the curve says how many nodes host a segment; it ends at 0."""
    case = random_case(seed)
    done = simulate(possible(case.instance), make_policy("fifo"), 0)
    curve = done.active
    times = curve.time_s.tolist()
    assert times == sorted(set(times)) and curve.nodes[-1] == 0
    for a, b, nodes in zip(times, times[1:], curve.nodes.tolist(), strict=False):
        assert nodes == _count(done.schedule, (a + b) / 2)
    assert curve.nodes.max() == done.evaluation.peak_active_nodes
    hours = sum((b - a) * n for a, b, n in zip(times, times[1:], curve.nodes.tolist(), strict=False))
    assert hours == pytest.approx(done.evaluation.node_s)


def test_active_curve_joins_spans_that_touch() -> None:
    """Node 0 is active from 0 to 30 s without a gap, node 1 from 10 to 20 s."""
    parts = [("p", 0.0, 10.0, 0), ("q", 10.0, 30.0, 0), ("r", 10.0, 20.0, 1)]
    schedule = Schedule(
        segments=tuple(Segment(job=n, start_s=a, end_s=b, gpus=((k, 0),)) for n, a, b, k in parts)
    )
    curve = active_curve(problem(cluster=cluster((node_type(), 2))), schedule)
    assert list(zip(curve.time_s.tolist(), curve.nodes.tolist(), strict=True)) == [
        (0.0, 1), (10.0, 2), (20.0, 1), (30.0, 0),
    ]  # fmt: skip


def test_progress_hook() -> None:
    """Told every 2,048 questions and at the end, when all jobs are done; the run is the same without it."""
    told: list[Progress] = []
    instance = problem(*(job(f"j{i}", at=20.0 * i) for i in range(1500)))
    done = simulate(instance, make_policy("fifo"), 0, progress=told.append)
    assert len(told) == 2  # 3,000 questions
    assert told[0].jobs == 1500 and 0 < told[0].done < 1500
    assert (told[-1].done, told[-1].events) == (1500, len(done.log.kind))
    assert told[0].time_s < told[1].time_s == pytest.approx(done.evaluation.makespan_s)
    assert simulate(instance, make_policy("fifo"), 0).schedule == done.schedule


def test_runtime_and_counters() -> None:
    """The outcome says how long the run took and what the policy counted, as a copy."""
    policy = make_policy("fifo_packed")
    done = simulate(problem(job("p")), policy, 0)
    assert done.runtime_s > 0.0
    assert done.counters == {"packed": 0} and done.counters is not policy.counters


# Rejected jobs ----------------------------------------------------------------------------------------


def test_rejected_jobs_leave_the_instance() -> None:
    """The outcome belongs to the instance without the rejected job: the makespan begins with the other."""
    done, policy = play(problem(job("no"), job("yes", at=7.0)), {0.0: [Reject(0)], 7.0: [Start(1, (0,))]})
    assert done.rejected == ("no",) and [j.name for j in done.instance.jobs] == ["yes"]
    assert done.evaluation.makespan_s == pytest.approx(10.0)
    assert done.log.kind == ("arrival", "reject", "arrival", "start", "departure")
    assert policy.told[-1] == (17.0, [("departure", 1)])


def test_all_jobs_rejected() -> None:
    """Nothing is left: an empty schedule of objective 0."""
    done, _ = play(problem(job("no")), {0.0: [Reject(0)]})
    assert done.rejected == ("no",) and done.schedule.segments == () and done.evaluation.objective == 0.0


def test_a_reject_that_moves_the_grid_runs_anew() -> None:
    """Slots of 10 s; the job released at 0 is rejected, so slots begin at 3 s, and so does the other job."""
    hopeless = job("no", epochs=9, by=20.0)
    done = simulate(
        problem(hopeless, job("yes", at=3.0, by=500.0)),
        make_policy("eaco", hopeless="reject"),
        0,
        grid_s=10.0,
    )
    assert done.rejected == ("no",)
    assert runs(done) == {"yes": [(3.0, 13.0, ((0, 0),))]}
    assert check(done.instance, done.schedule, grid_s=10.0) == []


# Errors -----------------------------------------------------------------------------------------------

TWO = problem(job("p", epochs=5), job("q", "b", epochs=5))
GANG = problem(
    job("p", gpus=3, epochs=5),
    cluster=cluster((node_type(2), 2), (node_type(2, "w2", gpu_type="w"), 1), (node_type(4, "v4"), 1)),
    profiles=[profile("a", {"v": 10.0})],
)

MISTAKES: dict[str, tuple[Instance, dict[float, Sequence[Any]], str]] = {
    "start of a running job": (
        TWO,
        {0.0: [Start(0, (0,)), Start(0, (1,))]},
        "policy 'scripted' starts job 'p', which is not waiting",
    ),
    "start of a job that has not arrived": (
        problem(job("p"), job("q", at=5.0)),
        {0.0: [Start(1, (0,))]},
        "policy 'scripted' starts job 'q', which is not waiting",
    ),
    "too many GPUs": (
        TWO,
        {0.0: [Start(0, (0, 1))]},
        "policy 'scripted' starts job 'p' on GPUs (0, 1); expected 1 GPU numbers below 2",
    ),
    "too few GPUs": (
        GANG,
        {0.0: [Start(0, (0, 1))]},
        "policy 'scripted' starts job 'p' on GPUs (0, 1); expected 3 GPU numbers below 10",
    ),
    "unknown GPU": (
        TWO,
        {0.0: [Start(0, (2,))]},
        "policy 'scripted' starts job 'p' on GPUs (2,); expected 1 GPU numbers below 2",
    ),
    "negative GPU": (
        TWO,
        {0.0: [Start(0, (-1,))]},
        "policy 'scripted' starts job 'p' on GPUs (-1,); expected 1 GPU numbers below 2",
    ),
    "no GPUs": (
        TWO,
        {0.0: [Start(0, ())]},
        "policy 'scripted' starts job 'p' on GPUs (); expected 1 GPU numbers",
    ),
    "GPUs that are no numbers": (
        TWO,
        {0.0: [Start(0, (0.5,))]},  # type: ignore[arg-type]
        "policy 'scripted' starts job 'p' on GPUs (0.5,); expected 1 GPU numbers",
    ),
    "GPUs that are no list": (
        TWO,
        {0.0: [Start(0, 0)]},  # type: ignore[arg-type]
        "policy 'scripted' starts job 'p' on GPUs 0; expected 1 GPU numbers",
    ),
    "GPUs in another order": (
        GANG,
        {0.0: [Start(0, (1, 0, 2))]},
        "policy 'scripted' starts job 'p' on GPUs (1, 0, 2); list them once each, ascending",
    ),
    "a GPU twice": (
        GANG,
        {0.0: [Start(0, (0, 0, 1))]},
        "policy 'scripted' starts job 'p' on GPUs (0, 0, 1); list them once each, ascending",
    ),
    "no gang: no whole node": (
        GANG,
        {0.0: [Start(0, (0, 6, 7))]},
        "policy 'scripted' starts job 'p' on GPUs (0, 6, 7); its 3 GPU(s) must lie on one node, or on whole "
        "nodes of one type plus a rest on one more",
    ),
    "no gang: parts of a large node": (
        problem(job("p", gpus=2, epochs=5), cluster=cluster((node_type(4, "v4"), 2))),
        {0.0: [Start(0, (3, 4))]},
        "policy 'scripted' starts job 'p' on GPUs (3, 4); its 2 GPU(s) must lie on one node, or on whole "
        "nodes of one type plus a rest on one more",
    ),
    "a GPU type without epoch time": (
        problem(job("p", "w"), cluster=GANG.cluster, profiles=[profile("w", {"w": 10.0})]),
        {0.0: [Start(0, (0,))]},
        "policy 'scripted' starts job 'p' on a GPU type for which its profile has no epoch time",
    ),
    "stop of a waiting job": (TWO, {0.0: [Stop(0)]}, "policy 'scripted' stops job 'p', which does not run"),
    "stop of a job that wakes its node": (
        problem(job("p"), cluster=waking()),
        {0.0: [Start(0, (0,)), Stop(0)]},
        "policy 'scripted' stops job 'p', which waits for a node to wake up until 5.0 s; stop it when it "
        "runs",
    ),
    "watch of a waiting job": (
        TWO,
        {0.0: [Watch(0, 1.0)]},
        "policy 'scripted' watches job 'p', which does not run",
    ),
    "watch of what is done": (
        TWO,
        {0.0: [Start(0, (0,)), Watch(0, 0.0)]},
        "policy 'scripted' watches job 'p' for 0 epochs, which it has done",
    ),
    "watch of no number": (
        TWO,
        {0.0: [Start(0, (0,)), Watch(0, math.nan)]},
        "policy 'scripted': epochs to watch for must be a finite number or infinity, got nan",
    ),
    "timer at the present": (
        TWO,
        {0.0: [Timer(0.0)]},
        "policy 'scripted' sets a timer for 0.0 s, which is not ahead of 0.0 s",
    ),
    "timer in the past": (
        problem(job("p"), job("q", at=5.0)),
        {5.0: [Timer(4.0)]},
        "policy 'scripted' sets a timer for 4.0 s, which is not ahead of 5.0 s",
    ),
    "timer at infinity": (
        TWO,
        {0.0: [Timer(math.inf)]},
        "policy 'scripted': time of a timer must be a finite number, got inf",
    ),
    "reject of a running job": (
        TWO,
        {0.0: [Start(0, (0,)), Reject(0)]},
        "policy 'scripted' rejects job 'p', which runs or has run; only jobs that never ran can be rejected",
    ),
    "reject of a job that has run": (
        TWO,
        {0.0: [Start(0, (0,)), Timer(5.0)], 5.0: [Stop(0), Reject(0)]},
        "policy 'scripted' rejects job 'p', which runs or has run; only jobs that never ran can be rejected",
    ),
    "unknown action": (
        TWO,
        {0.0: ["start p"]},
        "policy 'scripted' answered 'start p'; expected Start, Stop, Watch, Timer or Reject",
    ),
    "unknown job": (
        TWO,
        {0.0: [Start(2, (0,))]},
        "policy 'scripted' names job number 2; there are 2 jobs, numbered from 0",
    ),
    "a job by name": (
        TWO,
        {0.0: [Start("p", (0,))]},  # type: ignore[arg-type]
        "policy 'scripted' names job number 'p'; there are 2 jobs, numbered from 0",
    ),
    "jobs left waiting": (
        TWO,
        {0.0: [Start(0, (0,))]},
        "policy 'scripted' leaves 1 job(s) waiting for ever, although nothing is left to happen; among them "
        "'q'",
    ),
    "a physical rule broken": (
        problem(job("p", exclusive=True), job("q")),
        {0.0: [Start(0, (0,)), Start(1, (0,))]},
        "policy 'scripted' broke a physical rule: job 'q' on n0/0 at 0 s: an exclusive job shares a GPU",
    ),
    "sharing while a node wakes": (
        problem(job("c", epochs=3), job("w", "b", gpus=3, at=12.0), cluster=waking(2)),
        {0.0: [Start(0, (0,))], 12.0: [Start(1, (0, 2, 3))]},
        "policy 'scripted': job 'w' is to share GPUs with running jobs and to wait for a node to wake up, "
        "both at once; place it on awake nodes, or on free GPUs",
    ),
    "nine jobs on a GPU": (
        problem(*(job(f"j{i}") for i in range(9)), limits={"u_threshold": 9.0, "max_share": 8}),
        {0.0: [Start(i, (0,)) for i in range(9)]},
        "policy 'scripted': job 'j8': more than 8 jobs on a GPU are not supported",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_are_named(mistake: str) -> None:
    """What a policy cannot do ends the run with a PolicyError: who, what, what was expected."""
    instance, script, text = MISTAKES[mistake]
    with pytest.raises(EacoError) as caught:
        play(instance, script)
    assert str(caught.value) == text
    assert isinstance(caught.value, PolicyError | DomainError)


@pytest.mark.parametrize("options", [{"schedule_class": "static"}, {"grid_s": 10.0}])
def test_static_runs_refuse_stops(options: dict[str, Any]) -> None:
    """A policy of class static, and any policy on a grid, cannot stop what runs."""
    with pytest.raises(PolicyError, match=r"^policy 'scripted' stops job 'p' in a run of class static$"):
        play(TWO, {0.0: [Start(0, (0,)), Timer(10.0)], 10.0: [Stop(0)]}, **options)


def test_a_decision_that_is_no_list() -> None:
    """A `decide` that forgot to yield is told so, instead of a TypeError."""

    class Forgetful(Scripted):
        def decide(self, world: World, events: Sequence[Event]) -> Any:
            return None

    with pytest.raises(
        PolicyError,
        match=r"^policy 'scripted': decide returned None; expected actions, in a list or yielded one by one$",
    ):
        simulate(TWO, Forgetful(at({})), 0)


def test_lists_are_answers_too() -> None:
    """`decide` may return a list; numpy numbers are numbers."""

    class Listing(Scripted):
        def decide(self, world: World, events: Sequence[Event]) -> Any:
            gpus = np.arange(1, dtype=np.int64)
            return [Start(e.job, gpus) for e in events if e.kind == "arrival"]  # type: ignore[arg-type]

    assert runs(simulate(problem(job("p")), Listing(at({})), np.int64(3))) == {"p": [(0.0, 10.0, ((0, 0),))]}


@pytest.mark.parametrize(
    ("policy", "text"),
    [
        (object(), "has no name; a policy has a name (str), a schedule_class, begin and decide"),
        (type("P", (), {"name": "p"})(), "policy 'p' has no method begin; give an object with begin(world,"),
        (Scripted, "has no name"),
        (POLICIES.get("fifo"), "policy 'fifo' has no method begin; give an object with begin(world, rng)"),
        (
            Scripted(at({}), "statik"),
            "policy 'scripted': schedule_class must be one of static, epoch, fluid, got 'statik'",
        ),
    ],
)  # fmt: skip
def test_objects_that_are_no_policy(policy: Any, text: str) -> None:
    """Refused before anything runs, whatever is missing."""
    with pytest.raises(PolicyError) as caught:
        simulate(TWO, policy, 0)
    assert text in str(caught.value)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"rng": -1}, "simulate: rng (a seed or a numpy Generator) must be at least 0, got -1"),
        ({"rng": 0.5}, "simulate: rng (a seed or a numpy Generator) must be a whole number, got 0.5"),
        ({"rng": None}, "simulate: rng (a seed or a numpy Generator) must be a whole number, got None"),
        ({"grid_s": 0.0}, "simulate: grid_s must be above 0, got 0.0"),
        ({"grid_s": math.nan}, "simulate: grid_s must be a finite number, got nan"),
        (
            {"grid_s": 5.0, "history": Interference()},
            "simulate: on a grid the history is the truth; leave history out",
        ),
    ],
)
def test_unusable_parameters(options: dict[str, Any], text: str) -> None:
    """Seeds, slots and histories are checked before the run."""
    with pytest.raises(EacoError) as caught:
        simulate(TWO, make_policy("fifo"), **options)
    assert str(caught.value) == text


def test_impossible_jobs_are_named_before_anything_runs() -> None:
    """A job too large for the cluster ends the run before the policy is asked; hopeless deadlines do not."""
    policy = Scripted(at({}))
    with pytest.raises(
        ImpossibleJobsError, match=r"job 'huge': it asks for 3 GPUs, the cluster has at most 2"
    ):
        simulate(problem(job("huge", gpus=3), job("p")), policy, 0)
    assert policy.told == []
    done = simulate(problem(job("late", epochs=2, by=15.0)), make_policy("fifo"), 0)
    assert done.best_effort == ("late",) and done.evaluation.deadline_misses == 1


@pytest.mark.parametrize("name", list(POLICIES))
def test_unknown_options_and_names(name: str) -> None:
    """A policy's options are listed when one is unknown; so are the policies."""
    with pytest.raises(DomainError, match=rf"^policy '{name}': unknown option 'x'; known are: \w+"):
        make_policy(name, x=1)
    with pytest.raises(EacoError, match="unknown policy 'lifo'; known are: fifo, fifo_packed, gandiva, eaco"):
        make_policy("lifo")


# Shifts -----------------------------------------------------------------------------------------------


@given(st.integers(0, 200), st.sampled_from([1e5, 1.5e9, -3e6]))
def test_shifting_all_times_changes_nothing(seed: int, shift: float) -> None:
    """Releases and deadlines moved by a constant: the same segments, moved (docs/model.md 9.1).

    Not `mpc`, whose search compares sums to the last bit: tests/solvers/test_mpc.py shifts without rounding.
    """
    case = random_case(seed)
    instance = possible(case.instance)
    moved = dataclasses.replace(
        instance,
        jobs=tuple(
            dataclasses.replace(j, release_s=j.release_s + shift, deadline_s=j.deadline_s + shift)
            for j in instance.jobs
        ),
    )
    for name in [n for n in POLICIES if n != "mpc"]:
        here = simulate(instance, make_policy(name), 1).schedule.segments
        there = simulate(moved, make_policy(name), 1).schedule.segments
        found = [(s.job, s.gpus) for s in there]
        assert sorted(found) == sorted((s.job, s.gpus) for s in here)
        for a, b in zip(
            sorted(here, key=lambda s: (s.job, s.start_s)),
            sorted(there, key=lambda s: (s.job, s.start_s)),
            strict=True,
        ):
            assert b.start_s - shift == pytest.approx(a.start_s, abs=1e-6)
            assert b.end_s - shift == pytest.approx(a.end_s, abs=1e-6)


def test_times_beyond_the_resolution_of_floats_are_refused() -> None:
    """A release 1e300 s after the others cannot be played: its seconds are lost in rounding."""
    from instances.generators import generate

    instance = generate("whole-node", jobs=2, nodes=1, seed=0)
    late = dataclasses.replace(instance.jobs[1], release_s=1e300, deadline_s=math.inf)
    far = dataclasses.replace(instance, jobs=(instance.jobs[0], late))
    with pytest.raises(DomainError, match=r"job 'j1': it is released 1e\+300 s after the earliest job"):
        simulate(far, make_policy("fifo"), 0)
