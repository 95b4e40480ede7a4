"""EaCO by hand: candidates, deadlines, observation, undo, learning, what is out of reach; and its history."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from eaco_opt.checker import check
from eaco_opt.errors import DomainError
from eaco_opt.history import History
from eaco_opt.instance import Instance, MeasuredUsage
from eaco_opt.interference import Interference, MeasuredSlowdown
from eaco_opt.job import MemoryKind
from eaco_opt.policies import make_policy
from eaco_opt.simulator import Simulation, simulate
from tests.eaco_opt.policy_cases import cluster, job, node_type, problem, profile, runs, slow

OPTIMIST = Interference()
"""A history that knows of no slowdown."""

Found = dict[str, list[tuple[float, float, Any]]]


def _run(*jobs: Any, **changes: Any) -> tuple[Simulation, Found]:
    options, history = changes.pop("options", {}), changes.pop("history", None)
    grid_s = changes.pop("grid_s", None)
    done = simulate(
        problem(*jobs, **changes), make_policy("eaco", **options), 0, history=history, grid_s=grid_s
    )
    broken = [v for v in check(done.instance, done.schedule, grid_s=grid_s) if v.kind != "deadline"]
    assert broken == []
    return done, runs(done)


def _gpus(found: Found, name: str) -> Any:
    return found[name][0][2]


G0, G1 = ((0, 0),), ((0, 1),)


# Candidates -------------------------------------------------------------------------------------------


def test_the_fullest_candidate_first() -> None:
    """x joins p though GPU 1 and node 1 are free; y, later, joins both: load 0.6 beats 0."""
    done, found = _run(
        job("p", epochs=9), job("x", "b", at=5.0, epochs=9), job("y", "c", at=25.0),
        cluster=cluster((node_type(), 2)),
    )  # fmt: skip
    assert [_gpus(found, name) for name in "pxy"] == [G0, G0, G0]
    assert done.counters == {
        "observations": 2, "undone": 0, "shared": 2, "best_effort": 0, "rejected": 0,
    }  # fmt: skip
    assert done.evaluation.peak_active_nodes == 1 and done.schedule.schedule_class == "epoch"


def test_mean_load_over_the_gpus_of_the_candidate() -> None:
    """Two GPUs: {0, 1} has mean load (0.3 + 0.5) / 2, {2, 3} of the next node 0.45: the second is fuller."""
    _, found = _run(
        job("p", "e", epochs=9), job("q", "h", epochs=9), job("w", "w", gpus=2, epochs=9),
        job("x", gpus=2, at=25.0),
        profiles=[profile("e", util=0.3), profile("h", util=0.5), profile("w", util=0.45)],
        cluster=cluster((node_type(), 2)),
        truth=Interference(cannot_share=(("e", "h"), ("e", "w"), ("h", "w"))),
    )  # fmt: skip
    assert _gpus(found, "x") == ((1, 0), (1, 1))


def test_equal_loads_take_the_lowest_gpu_whatever_the_order_of_the_sum() -> None:
    """GPU 0 hosts c (0.3), GPU 1 a and b (0.1 + 0.2, as floats a little more than 0.3): a tie, GPU 0 wins."""
    _, found = _run(
        job("p", "c", epochs=9), job("q", "a", epochs=9), job("r", "b", epochs=9), job("x", "d", at=50.0),
        profiles=[profile("a", util=0.1), profile("b", util=0.2), profile("d")],
        truth=Interference(cannot_share=(("a", "c"), ("b", "c"))),
    )  # fmt: skip
    assert (_gpus(found, "q"), _gpus(found, "r")) == (G1, G1)
    assert _gpus(found, "x") == G0


def test_an_empty_node_is_a_candidate_like_any_other() -> None:
    """x would make p late on GPU 0. GPU 1 has load 0, as the empty node has, and is lower."""
    _, found = _run(
        job("p", epochs=3, by=30.0),
        job("x", "b", at=5.0),
        truth=slow(ab=1.5),
        cluster=cluster((node_type(), 2)),
    )
    assert _gpus(found, "x") == G1


def test_measured_load_ranks_and_limits() -> None:
    """a + b are measured at 0.95 together, above U = 0.9: x goes to GPU 1; measured at 0.5 it joins."""
    for load, gpus in ((0.95, G1), (0.5, G0)):
        usage = (MeasuredUsage(kinds=("a", "b"), load=load, memory_gib=5.0),)
        _, found = _run(job("p", epochs=9), job("x", "b", at=5.0), usage=usage, limits={"u_threshold": 0.9})
        assert _gpus(found, "x") == gpus


def test_the_two_admission_rules() -> None:
    """U = 0.8: `resulting` keeps 0.7 and 0.3 apart; `existing` lets x join load 0.7, and y not load 1.0."""
    jobs = (job("p", "h", epochs=9), job("x", "b", at=5.0, epochs=9), job("y", "c", at=25.0))
    hot = [profile("h", util=0.7)]
    places = {}
    for rule in ("resulting", "existing"):
        done, found = _run(*jobs, profiles=hot, limits={"u_threshold": 0.8, "rule": rule})
        places[rule] = [_gpus(found, name) for name in "pxy"]
        assert done.evaluation.threshold_violations == 0
    assert places == {"resulting": [G0, G1, G1], "existing": [G0, G0, G1]}


def test_exclusive_jobs() -> None:
    """An exclusive newcomer takes an empty GPU, nobody joins an exclusive resident; the other GPU is open."""
    _, found = _run(
        job("p", epochs=9), job("x", "b", at=5.0, epochs=9, exclusive=True), job("y", "c", at=25.0)
    )
    assert [_gpus(found, name) for name in "pxy"] == [G0, G1, G0]


def test_k_and_memory() -> None:
    """K = 2: a third goes elsewhere. 20 + 10 GiB exceed 28.8; model-parallel over two GPUs it is 10 + 10."""
    _, found = _run(
        job("p", epochs=9), job("x", "b", at=5.0, epochs=9), job("y", "c", at=25.0), limits={"max_share": 2}
    )
    assert _gpus(found, "y") == G1
    memory = [profile("h", memory_gib=20.0), profile("m", memory_gib=10.0)]
    for kind, begins in ((MemoryKind.DATA_PARALLEL, 90.0), (MemoryKind.MODEL_PARALLEL, 5.0)):
        _, found = _run(
            job("p", "h", gpus=2, epochs=9, memory_kind=kind), job("x", "m", at=5.0), profiles=memory
        )
        assert found["x"][0][0] == begins


def test_pairs_that_cannot_share_by_truth_or_history() -> None:
    """A pair forbidden by the truth, or by what the history knows, is no candidate (docs/model.md 11.53)."""
    forbidden = Interference(cannot_share=(("a", "b"),))
    for changes in ({"truth": forbidden}, {"history": forbidden}):
        _, found = _run(job("p", epochs=9), job("x", "b", at=5.0), **changes)
        assert _gpus(found, "x") == G1


def test_several_nodes_by_load() -> None:
    """Three nodes of two, node 1 loaded most: 3 GPUs take node 1 whole and the rest where the load is
    highest.
    """
    jobs = (
        job("p", gpus=2, epochs=9), job("q", "h", gpus=2, epochs=9), job("r", "b", gpus=1, epochs=9),
        job("x", "c", gpus=3, at=25.0),
    )  # fmt: skip
    truth = Interference(cannot_share=(("a", "h"), ("a", "b"), ("b", "h")))
    _, found = _run(*jobs, profiles=[profile("h", util=0.5)], truth=truth, cluster=cluster((node_type(), 3)))
    assert _gpus(found, "q") == ((1, 0), (1, 1)) and _gpus(found, "r") == ((2, 0),)
    # Whole nodes by load: 1 (1.0), 0 (0.6), 2 (0.3). With node 1 whole the rest finds 0.3 on GPUs (0, 0) and
    # (2, 0): the lower node.
    assert _gpus(found, "x") == ((0, 0), (1, 0), (1, 1))


def test_the_rest_goes_where_the_deadlines_allow() -> None:
    """Three nodes; r on node 0 would be late in company. 3 GPUs take node 1 whole and the rest on node 2."""
    _, found = _run(
        job("r", epochs=3, by=30.0), job("x", "b", gpus=3, at=5.0), truth=slow(ab=1.5),
        cluster=cluster((node_type(), 3)),
    )  # fmt: skip
    assert found["x"] == [(5.0, 15.0, ((1, 0), (1, 1), (2, 0)))]


def test_a_start_may_bring_nodes_together_in_the_rank() -> None:
    """Nodes 0, 1, 2 by load, of which 1 hosts a job that would be late: 4 GPUs find no two neighbours.

    Then x, which only node 2 takes, makes it the fullest: its neighbour in the rank is node 0 now, and a job
    like the first, behind x in the line, starts, although it is longer and due earlier.
    """
    apart = (("b", "d"), ("b", "e"), ("d", "e"), ("a", "b"), ("a", "e"))
    _, found = _run(
        job("p", "b", gpus=2, epochs=9),
        job("q", "e", gpus=2, epochs=9, by=90.0),
        job("r", "d", gpus=2, epochs=9),
        job("first", "c", gpus=4, at=5.0),
        job("x", gpus=2, at=5.0),
        job("second", "c", gpus=4, epochs=2, at=5.0, by=1000.0),
        profiles=[profile("b", util=0.4), profile("e", util=0.3), profile("d", util=0.2)],
        cluster=cluster((node_type(), 3)),
        truth=Interference(measured=slow(ce=2.0).measured, cannot_share=apart),
        options={"observe": False},
    )
    assert _gpus(found, "x") == ((2, 0), (2, 1))
    assert found["second"][0][0] == 5.0
    assert _gpus(found, "second") == ((0, 0), (0, 1), (2, 0), (2, 1))
    assert found["first"][0][0] > 5.0


def test_fewer_candidates_a_node() -> None:
    """With one candidate a node only the fullest group is tried: x, which p's deadline keeps away, waits.

    By default the next split, GPU 1, is tried too.
    """
    jobs = (job("p", epochs=3, by=30.0), job("x", "b", at=5.0))
    for per_node, begins in ((1, 30.0), (256, 5.0)):
        _, found = _run(*jobs, truth=slow(ab=1.5), options={"candidates_per_node": per_node})
        assert found["x"][0][0] == begins


# The deadline test ------------------------------------------------------------------------------------


def test_the_newcomers_own_deadline() -> None:
    """Together 15 s an epoch: x, due 20 s after 5 s, would need 30 s with p and goes alone."""
    for by, gpus in ((34.9, G1), (35.0, G0)):
        _, found = _run(job("p", epochs=9), job("x", "b", epochs=2, at=5.0, by=by), truth=slow(ab=1.5))
        assert _gpus(found, "x") == gpus


def test_the_residents_deadline() -> None:
    """x, of 2 epochs, keeps p at 15 s an epoch for 30 s: p, alone done at 60 s, ends at 70 s."""
    for by, gpus in ((69.9, G1), (70.0, G0)):
        _, found = _run(job("p", epochs=6, by=by), job("x", "b", epochs=2, at=5.0), truth=slow(ab=1.5))
        assert _gpus(found, "x") == gpus


def test_residents_leave_when_predicted_to() -> None:
    """p, 2 epochs, leaves at 30 s; x is alone from then on: 2 + 2 epochs by 50 s, not 60 s."""
    for by, gpus in ((49.9, G1), (50.0, G0)):
        _, found = _run(job("p", epochs=2), job("x", "b", epochs=4, by=by), truth=slow(ab=1.5))
        assert _gpus(found, "x") == gpus
        assert found["x"][0][1] == (40.0 if gpus == G1 else 50.0)


def test_jobs_connected_through_others() -> None:
    """w holds both GPUs, q shares GPU 0 with it. Who slows w on GPU 1 makes it stay longer with q.

    w: 4 epochs of 15 s (with q) till 60 s; q: 4 epochs by then, 2 more alone till 80 s, due at 85 s. With n
    on either GPU w would take 30 s an epoch and q would be done at 90 s. So n waits till w has left, and
    joins q.
    """
    jobs = (job("w", gpus=2, epochs=4), job("q", "b", epochs=6, by=85.0), job("n", "c", epochs=4, at=30.0))
    _, found = _run(*jobs, truth=slow(ab=1.5, ac=3.0))
    assert found["q"] == [(0.0, 80.0, G0)] and found["n"][0][0] == 60.0
    _, found = _run(*jobs[:1], job("q", "b", epochs=6, by=90.0), jobs[2], truth=slow(ab=1.5, ac=3.0))
    assert found["n"][0][0] == 30.0 and found["q"] == [(0.0, 90.0, G0)]


def test_a_deadline_lost_anyway_does_not_count() -> None:
    """p cannot be done by 50 s even alone (60 s): it runs best-effort, x joins and slows it."""
    done, found = _run(job("p", epochs=6, by=50.0), job("x", "b", epochs=2, at=5.0), truth=slow(ab=1.5))
    assert _gpus(found, "x") == G0 and done.counters["best_effort"] == 1
    assert done.best_effort == ("p",) and done.evaluation.deadline_misses == 1


def test_who_finds_no_candidate_waits_for_a_departure() -> None:
    """Both GPUs are taken: x waits for both till 20 s; y passes it when GPU 1 is free, at 10 s."""
    jobs = (
        job("p", exclusive=True, epochs=2),
        job("q", exclusive=True),
        job("x", gpus=2, at=1.0),
        job("y", at=2.0),
    )
    _, found = _run(*jobs)
    assert (found["y"][0][0], found["x"][0][0]) == (10.0, 20.0)


def test_strict_blocks_the_line() -> None:
    """x heads the line and needs both GPUs, till 20 s exclusively taken in part: y stays behind it."""
    jobs = (job("p", exclusive=True, epochs=2), job("x", gpus=2, at=1.0, exclusive=True), job("y", at=2.0))
    _, found = _run(*jobs)
    assert (found["y"][0][0], found["x"][0][0]) == (2.0, 20.0)
    _, found = _run(*jobs, options={"blocked": "strict"})
    assert (found["x"][0][0], found["y"][0][0]) == (20.0, 30.0)


def test_a_longer_job_may_pass_where_company_speeds_up() -> None:
    """r, q and one of c take 30 s an epoch, r and c alone 5 s. r is due at 110 s, the other GPU is taken.

    short (1 epoch) would leave at 30 s, q at 40 s; r, with 2 of 10 epochs done, would end at 120 s:
    refused. With long (10 epochs) q leaves at 60 s, then r and long would do their other 8 epochs by 100 s:
    admitted, although long is longer and due earlier. short joins at 60 s, for 10 s at 10 s an epoch: the
    others end at 105 s.
    """
    _, found = _run(
        job("x", exclusive=True, epochs=90), job("r", epochs=10, by=110.0), job("q", "b", epochs=2),
        job("short", "c", by=2000.0), job("long", "c", epochs=10, by=105.0),
        truth=slow(abc=3.0, ac=0.5), options={"observe": False},
    )  # fmt: skip
    assert found["long"] == found["r"] == [(0.0, 105.0, G1)]
    assert found["short"] == [(60.0, 70.0, G1)]


def test_order_is_priority_then_release_then_submit_index() -> None:
    """Exclusive jobs of both GPUs, all waiting at 10 s."""
    wide: dict[str, Any] = {"gpus": 2, "exclusive": True}
    _, found = _run(
        job("p", submit_index=0, **wide),
        job("low", at=1.0, priority=-1, submit_index=1, **wide),
        job("later", at=2.0, submit_index=2, **wide),
        job("tie2", at=1.0, submit_index=4, **wide),
        job("tie1", at=1.0, submit_index=3, **wide),
        job("high", at=3.0, priority=1, submit_index=5, **wide),
    )
    assert sorted(found, key=lambda n: found[n][0][0]) == ["p", "high", "tie1", "tie2", "later", "low"]


def test_when_waiting_jobs_are_looked_at() -> None:
    """At arrivals, departures and ends of observation, not at the milestones between (docs/model.md 8.6.1).

    GPU 0: r, 8 epochs, due at 106 s. x, of 3 epochs, doubles its epoch: r would end at 110 s, or at 160 - t
    if x joined at t > 50 s. So x may join from 54 s on. GPU 1: q (50 s an epoch) and y (20 s), which joined
    at 5 s: y's first epoch is over at 25 s, q's at 55 s, y's next at 65 s, when the observation ends.

    From 65 s r and x take 20 s an epoch; r, with 1.5 to go, leaves at 95 s, and x does its other 1.5 by 110
    s.
    """
    _, found = _run(
        job("r", epochs=8, by=106.0), job("q", "b", epochs=9), job("y", "d", epochs=9, at=5.0),
        job("x", "c", epochs=3, at=5.0),
        profiles=[profile("b", 50.0, util=0.5), profile("d", 20.0)],
        truth=slow(ab=9.0, ac=2.0), limits={"max_share": 2},
    )  # fmt: skip
    assert _gpus(found, "y") == G1
    assert found["x"] == [(65.0, 110.0, G0)]


# Out of reach -----------------------------------------------------------------------------------------


def test_hopeless_from_the_start() -> None:
    """Due before it can be done even alone: best-effort, run at once and counted as a miss; or rejected."""
    jobs = (job("late", epochs=3, by=29.0), job("fine", at=1.0))
    done, found = _run(*jobs)
    assert found["late"][0][0] == 0.0 and done.evaluation.deadline_misses == 1
    assert done.counters["best_effort"] == 1 and done.best_effort == ("late",)
    done, found = _run(*jobs, options={"hopeless": "reject"})
    assert done.rejected == ("late",) and list(found) == ["fine"] and done.counters["rejected"] == 1
    assert done.evaluation.deadline_misses == 0


def test_exactly_in_reach_is_not_hopeless() -> None:
    """30 s of work due at 30 s: started alone at once, on time."""
    done, _ = _run(job("p", epochs=3, by=30.0), options={"hopeless": "reject"})
    assert done.rejected == () and done.evaluation.deadline_misses == 0


def test_hopeless_while_waiting() -> None:
    """x (10 s, due at 25 s) waits for p till 20 s: out of reach then, it runs best-effort or is rejected."""
    jobs = (job("p", gpus=2, epochs=2, exclusive=True), job("x", "b", at=1.0, by=25.0), job("y", "c", at=2.0))
    done, found = _run(*jobs)
    assert found["x"][0][0] == 20.0 and done.best_effort == ()
    assert (done.counters["best_effort"], done.evaluation.deadline_misses) == (1, 1)
    done, found = _run(*jobs, options={"hopeless": "reject"})
    assert done.rejected == ("x",) and found["y"][0][0] == 20.0


def test_a_best_effort_job_that_is_on_time_is_no_miss() -> None:
    """Due at 15 s for 20 s of work; company makes epochs shorter (factor 0.7), and it is done at 14 s."""
    faster = slow(ab=0.7)
    done, found = _run(job("p", epochs=9), job("x", "b", epochs=2, by=15.0), truth=faster)
    assert found["x"] == [(0.0, 14.0, G0)]
    assert done.counters["best_effort"] == 1 and done.evaluation.deadline_misses == 0


def test_a_faster_node_type_that_is_too_small_gives_no_hope() -> None:
    """4 GPUs, due at 15 s: type w (10 s) has one node of two, v (20 s) has two: best-effort on v at once."""
    types = (node_type(2, "w2", gpu_type="w"), 1), (node_type(2), 2)
    done, found = _run(
        job("p", gpus=4, by=15.0), profiles=[profile("a", {"w": 10.0, "v": 20.0})], cluster=cluster(*types)
    )
    assert found["p"][0][:2] == (0.0, 20.0) and done.counters["best_effort"] == 1


def test_mixed_node_types() -> None:
    """p, due at 15 s, needs node 1 (10 s) and gets it, though node 0 is lower; due at 20 s node 0."""
    types = (node_type(2, "w2", gpu_type="w"), 1), (node_type(2), 1)
    for by, gpus in ((15.0, ((1, 0),)), (20.0, ((0, 0),))):
        _, found = _run(
            job("p", by=by), profiles=[profile("a", {"w": 20.0, "v": 10.0})], cluster=cluster(*types)
        )
        assert _gpus(found, "p") == gpus


def test_a_wake_up_counts_for_the_deadline() -> None:
    """W = 5 s. Due at 15 s: on time. At 14 s: too late for a sleeping node, best-effort at once."""
    for by, misses in ((15.0, 0), (14.0, 1)):
        done, found = _run(job("p", by=by), cluster=cluster((node_type(wake_s=5.0), 1)))
        assert found["p"][0][:2] == (5.0, 15.0)
        assert done.counters["best_effort"] == misses == done.evaluation.deadline_misses


def test_a_job_in_haste_shares_an_awake_gpu_instead_of_waking_a_node() -> None:
    """W = 30 s, p runs on node 0: x, due 15 s after its release, cannot wait for node 1 and joins p."""
    _, found = _run(
        job("p", gpus=2, epochs=9, by=125.0), job("x", "b", at=40.0, by=55.0), truth=slow(ab=1.5),
        cluster=cluster((node_type(wake_s=30.0), 2)),
    )  # fmt: skip
    assert found["x"] == [(40.0, 55.0, G0)]


def test_an_empty_node_that_is_still_awake_is_another_candidate() -> None:
    """W = 5 s. q leaves node 1 at 25 s, when x arrives, due at 35 s: node 0, asleep since 15 s, is too late.

    p is gone by then; q, of 20 s, could not share with it. With more time x takes node 0, which is lower.
    """
    for by, gpus in ((35.0, ((1, 0), (1, 1))), (40.0, ((0, 0), (0, 1)))):
        _, found = _run(
            job("p", gpus=2, exclusive=True), job("q", "b", gpus=2, epochs=2, exclusive=True),
            job("x", "c", gpus=2, at=25.0, by=by), cluster=cluster((node_type(wake_s=5.0), 2)),
        )  # fmt: skip
        assert found["q"] == [(5.0, 25.0, ((1, 0), (1, 1)))] and _gpus(found, "x") == gpus


def test_joining_a_job_that_waits_means_waiting_with_it() -> None:
    """W = 5 s. w, over nodes 0 and 1, waits till 17 s. Who joins it on GPU 1 is done at 27 s, not before.

    s, due at 27 s, does, as the load is higher there; due at 26 s it goes to GPU 0, where c runs already.
    """
    waking = cluster((node_type(wake_s=5.0), 2))
    for by, gpus in ((26.0, G0), (27.0, G1)):
        _, found = _run(
            job("c", epochs=3), job("w", "h", gpus=3, at=12.0), job("s", "d", at=13.0, by=by),
            profiles=[profile("h", util=0.5), profile("d")], cluster=waking,
            truth=Interference(cannot_share=(("a", "h"),)),
        )  # fmt: skip
        assert found["w"] == [(17.0, 27.0, ((0, 1), (1, 0), (1, 1)))]
        assert _gpus(found, "s") == gpus


def test_a_node_that_may_fall_asleep_meanwhile_needs_time_to_wake() -> None:
    """W = 5 s. c runs on node 0 till 14 s, exclusively; v, at 10 s, wakes node 1 for 15 s. w wants 3 GPUs.

    Released at 10 s it may begin with v at 15 s, alone on node 0 by then. Released at 12 s it may not: node
    0 would have to wake by 17 s. It waits for v's end at 25 s and begins when node 0 has woken, at 30 s.
    """
    for at, begins in ((10.0, 15.0), (12.0, 30.0)):
        _, found = _run(
            job("c", "z", gpus=1, exclusive=True), job("v", gpus=2, at=10.0, priority=1),
            job("w", "b", gpus=3, at=at),
            profiles=[profile("z", 9.0)], cluster=cluster((node_type(wake_s=5.0), 2)),
        )  # fmt: skip
        assert found["c"] == [(5.0, 14.0, G0)] and found["v"] == [(15.0, 25.0, ((1, 0), (1, 1)))]
        assert found["w"][0][0] == begins


# Observation ------------------------------------------------------------------------------------------


def test_nobody_joins_a_set_under_observation() -> None:
    """x joined p at 5 s; y, at 6 s, goes to GPU 1. With GPU 1 taken it waits till the observation ends.

    p and x take 12 s an epoch. p's epoch since 5 s and x's first are over at 17 s.
    """
    truth = slow(ab=1.2, ac=1.0, bc=1.0, abc=1.2)
    jobs = (job("p", epochs=9), job("x", "b", at=5.0, epochs=9), job("y", "c", at=6.0))
    _, found = _run(*jobs, truth=truth)
    assert found["y"][0][0] == 6.0 and _gpus(found, "y") == G1
    _, found = _run(job("q", exclusive=True, epochs=90), *jobs, truth=truth)
    assert found["y"][0][0] == 17.0 and _gpus(found, "y") == G1


def test_all_gpus_of_the_newcomer_are_under_observation() -> None:
    """w takes both GPUs, of which only GPU 0 has a resident: y waits at GPU 1 too, till 15 s."""
    jobs = (job("p", epochs=9), job("w", "b", gpus=2, at=5.0, epochs=9), job("y", "c", at=6.0))
    _, found = _run(*jobs)
    assert found["y"][0][0] == 15.0


def test_other_gpus_of_a_resident_stay_open() -> None:
    """x joined w on GPU 0: GPU 1, which w holds too, may be joined during the observation."""
    _, found = _run(job("w", gpus=2, epochs=9), job("x", "b", at=5.0, epochs=9), job("y", "c", at=6.0))
    assert (_gpus(found, "x"), found["y"][0]) == (G0, (6.0, 16.0, G1))


def test_a_departure_counts_as_the_residents_epoch() -> None:
    """p has half an epoch left when x joins it at 5 s, and leaves at 10 s. x's first epoch ends at 15 s.

    So does the observation; y, which came at 6 s and finds the other GPU exclusively taken, joins then.
    """
    _, found = _run(
        job("q", exclusive=True, epochs=90), job("p"), job("x", "b", at=5.0, epochs=9), job("y", "c", at=6.0)
    )
    assert _gpus(found, "p") == G1 == _gpus(found, "x")
    assert found["p"] == [(0.0, 10.0, G1)] and found["y"][0][0] == 15.0


def test_a_newcomer_that_leaves_first_ends_the_observation() -> None:
    """x of one epoch leaves at 15 s; slow p (50 s an epoch) is not watched any more: y joins it at 15 s."""
    _, found = _run(
        job("q", exclusive=True, epochs=90), job("p", "d", epochs=9),
        job("x", "b", at=5.0), job("y", "c", at=6.0), profiles=[profile("d", 50.0)],
    )  # fmt: skip
    assert found["x"] == [(5.0, 15.0, G1)] and found["y"][0][0] == 15.0


def test_observe_can_be_switched_off() -> None:
    """Without observation nobody is undone, nothing is learned, and others may join at once."""
    done, found = _run(
        job("p", epochs=9), job("x", "b", at=5.0, epochs=9), job("y", "c", at=6.0), options={"observe": False}
    )
    assert _gpus(found, "y") == G0 and done.counters["observations"] == 0


def test_static_form() -> None:
    """On a grid (4 s): nobody is observed; decisions and predictions are those of slots.

    x, seen at 8 s, takes 15 s with p, and holds its GPU for 16 s, till 24 s; alone it takes 10 s, so 12 s.
    """
    for by, gpus in ((24.0, G0), (23.0, G1)):
        done, found = _run(job("p", epochs=9), job("x", "b", at=5.0, by=by), truth=slow(ab=1.5), grid_s=4.0)
        assert done.schedule.schedule_class == "static" and done.counters["observations"] == 0
        assert _gpus(found, "x") == gpus and found["x"][0][:2] == ((8.0, 24.0) if gpus == G0 else (8.0, 20.0))


def test_out_of_reach_on_a_grid() -> None:
    """Slots of 4 s, W = 5 s: p begins at 8 s and holds its GPU till 20 s. Due at 18 s it is out of reach."""
    done, found = _run(job("p", by=18.0), cluster=cluster((node_type(wake_s=5.0), 1)), grid_s=4.0)
    assert found["p"] == [(8.0, 20.0, G0)] and done.counters["best_effort"] == 1
    done, found = _run(job("p", by=11.0), grid_s=4.0)  # 10 s of work, but slots to 12 s
    assert found["p"] == [(0.0, 12.0, G0)] and done.counters["best_effort"] == 1


# Undo and learning ------------------------------------------------------------------------------------


def test_undo_at_the_first_whole_epoch() -> None:
    """History: no slowdown; truth: factor 2. x joins p; at 20 s both have done one epoch.

    x would be done at 80 s, due at 60 s: it is undone, keeps its epoch, does the other three alone on GPU 1.
    p, with 5 epochs left, is alone from 20 s.
    """
    done, found = _run(
        job("p", epochs=6, by=100.0), job("x", "b", epochs=4, by=60.0), truth=slow(ab=2.0), history=OPTIMIST
    )
    assert found == {"p": [(0.0, 70.0, G0)], "x": [(0.0, 20.0, G0), (20.0, 50.0, G1)]}
    assert done.counters == {
        "observations": 1, "undone": 1, "shared": 1, "best_effort": 0, "rejected": 0,
    }  # fmt: skip
    assert done.evaluation.deadline_misses == 0
    assert done.evaluation.jobs.wait_s.tolist() == [0.0, 0.0]


def test_undo_for_the_residents_sake() -> None:
    """x could go on, but p would be done at 100 s instead of 95 s: only the newcomer is undone."""
    done, found = _run(
        job("p", epochs=6, by=95.0), job("x", "b", epochs=4), truth=slow(ab=2.0), history=OPTIMIST
    )
    assert found["p"] == [(0.0, 70.0, G0)] and found["x"][0] == (0.0, 20.0, G0)
    assert done.counters["undone"] == 1


def test_deadlines_that_hold_make_it_final() -> None:
    """Slower than believed but in time: x stays, and is done at 80 s, p at 100 s."""
    done, found = _run(
        job("p", epochs=6, by=100.0), job("x", "b", epochs=4, by=80.0), truth=slow(ab=2.0), history=OPTIMIST
    )
    assert found == {"p": [(0.0, 100.0, G0)], "x": [(0.0, 80.0, G0)]} and done.counters["undone"] == 0


def test_undo_waits_for_the_residents_and_for_the_newcomers_own_epoch() -> None:
    """p: 30 s an epoch, x: 20 s; together 1.5 times that. x joins at 5 s.

    x's epochs are over at 35 s and 65 s, p's (from where it stood) at 50 s. x, of 5 epochs due at 130 s,
    would be done at 155 s: it is undone at 65 s with two epochs done, and is done alone at 125 s.
    """
    _, found = _run(
        job("p", "d", epochs=4), job("x", "b", epochs=5, at=5.0, by=130.0),
        profiles=[profile("d", 30.0), profile("b", 20.0)], truth=slow(bd=1.5), history=OPTIMIST,
    )  # fmt: skip
    assert found["x"] == [(5.0, 65.0, G0), (65.0, 125.0, G1)]


def test_a_newcomer_out_of_reach_by_then_stays() -> None:
    """As before but due at 120 s: at 65 s not even alone (125 s) in time, it goes on best-effort till 155
    s.
    """
    done, found = _run(
        job("p", "d", epochs=4), job("x", "b", epochs=5, at=5.0, by=120.0),
        profiles=[profile("d", 30.0), profile("b", 20.0)], truth=slow(bd=1.5), history=OPTIMIST,
    )  # fmt: skip
    assert found["x"] == [(5.0, 155.0, G0)]
    assert (done.counters["best_effort"], done.counters["undone"]) == (1, 0)
    assert done.evaluation.deadline_misses == 1


def test_an_undone_job_is_never_rejected() -> None:
    """x is undone at 20 s, the other GPU is taken till 30 s: out of reach by then, but it has run."""
    done, found = _run(
        job("q", epochs=3, exclusive=True), job("p", epochs=6, by=100.0), job("x", "b", epochs=4, by=50.0),
        truth=slow(ab=2.0), history=OPTIMIST, options={"hopeless": "reject"},
    )  # fmt: skip
    assert done.rejected == () and len(found["x"]) == 2
    assert done.counters["undone"] == 1 and done.counters["best_effort"] == 1


def test_the_last_epoch_is_not_undone() -> None:
    """x of one epoch: at 20 s it is done, not judged. p, due at 65 s, ends at 70 s: the history's error."""
    done, found = _run(job("p", epochs=6, by=65.0), job("x", "b"), truth=slow(ab=2.0), history=OPTIMIST)
    assert found == {"p": [(0.0, 70.0, G0)], "x": [(0.0, 20.0, G0)]}
    assert done.counters["undone"] == 0 and done.evaluation.deadline_misses == 1


def test_a_failed_combination_is_not_tried_again() -> None:
    """x would make p (due 92 s) end at 100 s and is undone at 20 s; GPU 1 is exclusively taken.

    At 50 s (z arrives) p has two epochs left, and sharing would be in time: but the same GPU with the same
    resident is not tried again. x waits for p's end at 70 s. Another job of x's kind may join at 50 s.
    """
    jobs = (job("q", exclusive=True, epochs=90), job("p", epochs=6, by=92.0), job("x", "b", epochs=4))
    changes: dict[str, Any] = {"truth": slow(ab=2.0), "history": OPTIMIST}
    done, found = _run(*jobs, job("z", exclusive=True, at=50.0), **changes)
    assert found["x"] == [(0.0, 20.0, G1), (70.0, 100.0, G1)] and done.counters["undone"] == 1
    _, found = _run(*jobs, job("other", "b", epochs=3, at=50.0), **changes)
    assert found["other"][0] == (50.0, 100.0, G1)


def test_the_history_learns_and_errs_once() -> None:
    """After x's failure with p, y of x's kind, in the same haste, is not put beside p: no second error.

    p and x are slowed by 2, which the history knows from 20 s on. y (due in 60 s, like x) goes to GPU 1.
    """
    jobs = (job("p", epochs=30), job("x", "b", epochs=4, by=60.0), job("y", "b", epochs=4, at=60.0, by=120.0))
    done, found = _run(*jobs, truth=slow(ab=2.0), history=OPTIMIST)
    assert found["x"] == [(0.0, 20.0, G0), (20.0, 50.0, G1)]
    assert found["y"] == [(60.0, 100.0, G1)] and done.counters["undone"] == 1
    # A new run begins with the history it is given: the same error again.
    assert _run(*jobs, truth=slow(ab=2.0), history=OPTIMIST)[1] == found


def test_a_pessimist_is_cured_too() -> None:
    """The history says 3, the truth is 1.1: y, due 15 s after its release, joins p once x has shown it."""
    jobs = (job("p", epochs=30), job("x", "b", epochs=2), job("y", "b", at=40.0, by=55.0))
    _, found = _run(*jobs, truth=slow(ab=1.1), history=slow(ab=3.0))
    assert _gpus(found, "x") == G0 and found["y"] == [(40.0, 51.0, G0)]
    _, found = _run(*jobs[:1], *jobs[2:], truth=slow(ab=1.1), history=slow(ab=3.0))
    assert _gpus(found, "y") == G1


def test_an_epoch_in_changing_company_teaches_nothing() -> None:
    """r shares GPU 1 with w, x joins w on GPU 0 at 5 s, r leaves within w's epoch: w teaches nothing.

    x, whose GPU did not change, does. So the history learns b's factor beside a, and not a's. Without r both.
    """
    learned = _learned(
        problem(
            job("w", gpus=2, epochs=9), job("r", "c"), job("x", "b", at=5.0, epochs=9),
            truth=slow(ab=1.5, ac=1.0), profiles=[profile("c", 10.0)], limits={"max_share": 2},
        )
    )  # fmt: skip
    assert (("a", "b"), "b") in learned and (("a", "b"), "a") not in learned
    undisturbed = _learned(
        problem(job("w", gpus=2, epochs=9), job("x", "b", at=5.0, epochs=9), truth=slow(ab=1.5))
    )
    assert undisturbed == {(("a", "b"), "a"): pytest.approx(1.5), (("a", "b"), "b"): pytest.approx(1.5)}


def _learned(instance: Instance) -> dict[tuple[tuple[str, ...], str], float]:
    policy = make_policy("eaco")
    kept: list[History] = []

    class Kept:
        name, schedule_class = "kept", "epoch"

        def begin(self, world: Any, rng: Any) -> None:
            kept.append(world.history)
            policy.begin(world, rng)

        def decide(self, world: Any, events: Any) -> Any:
            return policy.decide(world, events)

    simulate(instance, Kept(), 0, history=OPTIMIST)
    return kept[0].learned


# The history by itself --------------------------------------------------------------------------------


def _history(base: Interference = OPTIMIST) -> tuple[History, dict[str, int], dict[str, int]]:
    """A history over kinds a, b, c with sets by name and class numbers by kind."""
    view = problem(job("p"), job("q", "b"), job("r", "c")).arrays()
    classes = {c.kind: i for i, c in enumerate(view.sets.classes)}
    sets = {
        name: view.sets.intern(tuple(sorted(classes[k] for k in name)))
        for name in ("ab", "ac", "bc", "abc", "a")
    }
    return History(base, view), sets, classes


def test_history_starts_from_its_base() -> None:
    """Measured sets as given, others as modelled, one job alone 1, forbidden pairs infinite."""
    history, sets, classes = _history(slow(ab=1.5))
    assert history.factor(sets["ab"], classes["b"]) == 1.5
    assert history.factor(sets["abc"], classes["a"]) == 1.5  # clamped to the measured subset
    assert history.factor(sets["a"], classes["a"]) == 1.0
    history, sets, classes = _history(Interference(cannot_share=(("a", "b"),)))
    assert history.factor(sets["ab"], classes["a"]) == math.inf == history.factor(sets["abc"], classes["c"])


def test_history_one_set() -> None:
    """What is observed is predicted from then on, for that member of that set only."""
    history, sets, classes = _history()
    history.observe([sets["ab"]], classes["a"], 1.7)
    assert history.factor(sets["ab"], classes["a"]) == 1.7
    assert history.factor(sets["ab"], classes["b"]) == 1.0
    assert history.factor(sets["abc"], classes["a"]) == 1.0
    history.observe([sets["ab"]], classes["a"], 0.9)
    assert history.factor(sets["ab"], classes["a"]) == 0.9


def test_history_several_sets() -> None:
    """The slowest GPU counts: what is above the observation is lowered; if all are below, the largest is
    raised.

    Whatever it was, the largest is the observation afterwards.
    """
    history, sets, classes = _history(slow(ab=1.5, ac=1.2))
    a, both = classes["a"], [sets["ab"], sets["ac"]]
    history.observe(both, a, 1.3)
    assert [history.factor(s, a) for s in both] == [1.3, 1.2]
    history.observe(both, a, 2.0)
    assert [history.factor(s, a) for s in both] == [2.0, 1.2]
    history.observe(both, a, 1.1)
    assert [history.factor(s, a) for s in both] == [1.1, 1.1]
    history.observe([*both, sets["a"]], a, 1.4)  # a tie at the top: both are raised
    assert [history.factor(s, a) for s in both] == [1.4, 1.4]
    assert history.factor(sets["a"], a) == 1.0  # alone is alone


def test_history_explains_every_observation() -> None:
    """After any sequence of observations the prediction for the GPUs last observed is what was observed."""
    rng = np.random.default_rng(5)
    history, sets, classes = _history(slow(ab=1.5, abc=2.0))
    for _ in range(200):
        some = [sets[n] for n in ("ab", "ac", "abc") if rng.random() < 0.6] or [sets["ab"]]
        factor = round(float(rng.uniform(0.8, 3.0)), 3)
        history.observe(some, classes["a"], factor)
        assert max(history.factor(s, classes["a"]) for s in some) == factor


def test_history_knows_when_company_speeds_up() -> None:
    """Pruning rests on slowdowns that grow with company: one that falls is noticed, also when learned."""
    assert _history(slow(ab=1.5))[0].monotone
    faster = Interference(
        measured=(
            MeasuredSlowdown(kinds=("a", "b"), factors=(1.5, 1.5)),
            MeasuredSlowdown(kinds=("a", "b", "c"), factors=(1.2, 1.2, 1.2)),
        )
    )
    assert not _history(faster)[0].monotone
    assert not _history(slow(ab=0.9))[0].monotone
    history, sets, classes = _history()
    history.observe([sets["ab"]], classes["a"], 1.7)  # abc is still believed to cost nothing
    assert not history.monotone


def test_history_of_sets_met_later() -> None:
    """What was learned of kinds holds for sets of the same kinds that are interned later."""
    instance = problem(job("p"), job("q", "b"), job("m", "b", memory_kind=MemoryKind.MODEL_PARALLEL))
    view = instance.arrays()
    history = History(OPTIMIST, view)
    a, b, m = (int(view.job_class[j]) for j in range(3))
    history.observe([view.sets.intern(tuple(sorted((a, b))))], a, 1.7)
    later = view.sets.intern(tuple(sorted((a, m))))
    assert history.factor(later, a) == 1.7


# Options and reuse ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"blocked": "no"}, "policy 'eaco': blocked must be one of skip, strict, got 'no'"),
        ({"hopeless": "drop"}, "policy 'eaco': hopeless must be one of best-effort, reject, got 'drop'"),
        ({"observe": 1}, "policy 'eaco': observe must be true or false, got 1"),
        (
            {"candidates_per_node": 0},
            "policy 'eaco': candidates_per_node must be at least 1 and at most 1000000, got 0",
        ),
    ],
)  # fmt: skip
def test_options_are_checked(options: dict[str, Any], text: str) -> None:
    """Each option says what it may be."""
    with pytest.raises(DomainError) as caught:
        make_policy("eaco", **options)
    assert str(caught.value) == text
