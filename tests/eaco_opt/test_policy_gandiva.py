"""Gandiva by hand, by its odds, and by what must hold after each of its decisions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from eaco_opt.checker import check
from eaco_opt.errors import DomainError
from eaco_opt.interference import Interference
from eaco_opt.policies import make_policy
from eaco_opt.simulator import Action, Event, Simulation, Start, Stop, World, simulate
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

Found = dict[str, list[tuple[float, float, Any]]]


def _run(*jobs: Any, seed: int = 0, **changes: Any) -> tuple[Simulation, Found]:
    options, history = changes.pop("options", {}), changes.pop("history", None)
    done = simulate(problem(*jobs, **changes), make_policy("gandiva", **options), seed, history=history)
    assert {v.kind for v in check(done.instance, done.schedule)} <= {"deadline", "utilisation"}
    return done, runs(done)


FULL = (job("p", epochs=9), job("q", "b", epochs=9))  # the two GPUs, till 90 s
X = job("x", "c", at=5.0)


def test_no_packing_while_demand_fits() -> None:
    """p, r and the pair ask for 4 of 4 GPUs: the pair gets the other node, nobody shares."""
    done, found = _run(
        job("p"), job("r"), job("pair", "b", gpus=2, at=5.0), cluster=cluster((node_type(2), 2))
    )
    assert found["pair"] == [(5.0, 15.0, ((1, 0), (1, 1)))] and done.counters["packed"] == 0


def test_fragmentation_is_no_reason_to_pack() -> None:
    """One GPU is free on each of two nodes: a pair finds no node and waits, as 2 + 2 GPUs fit the cluster."""
    jobs = [job(f"j{i}", epochs=2 if i % 2 else 9) for i in range(4)]
    done, found = _run(*jobs, job("pair", gpus=2, at=25.0), cluster=cluster((node_type(2), 2)))
    assert found["pair"][0][0] == 90.0 and done.counters["packed"] == 0


def test_packs_under_pressure_without_looking_at_speeds() -> None:
    """x makes demand 3 > 2: it joins p or q at once, even at a factor of 1.9."""
    done, found = _run(*FULL, X, truth=slow(ac=1.9, bc=1.9))
    assert found["x"] == [(5.0, 24.0, found["x"][0][2])] and done.counters == {"packed": 1, "dissolved": 0}


def test_partners_are_drawn_evenly() -> None:
    """Over 400 seeds x joins p about half of the time (within 4 standard deviations of 200)."""
    joined = Counter(_run(*FULL, X, seed=seed)[1]["x"][0][2] for seed in range(400))
    assert sum(joined.values()) == 400 and abs(joined[((0, 0),)] - 200) <= 40


def test_waiting_jobs_are_drawn_evenly_among_those_with_a_partner() -> None:
    """One partner (q is exclusive), three waiting jobs, one with no partner: the other two share the odds."""
    jobs = (
        job("p", epochs=9), job("q", epochs=9, exclusive=True),
        job("x", at=5.0), job("y", "b", at=5.0), job("no", at=5.0, exclusive=True),
    )  # fmt: skip
    found = [_run(*jobs, seed=seed)[1] for seed in range(300)]
    first = Counter(min(("x", "y", "no"), key=lambda name, run=run: run[name][0][0]) for run in found)
    assert first["no"] == 0 and abs(first["x"] - 150) <= 35


def test_the_seed_decides() -> None:
    """The same seed, the same schedule; the policy takes its randomness from nowhere else."""
    np.random.seed(1)  # noqa: NPY002 - to show that the global generator plays no part
    one = [_run(*FULL, X, job("y", at=6.0), seed=seed)[1] for seed in range(20)]
    np.random.seed(2)  # noqa: NPY002
    assert one == [_run(*FULL, X, job("y", at=6.0), seed=seed)[1] for seed in range(20)]
    assert len({str(found) for found in one}) > 1


def test_affinity_takes_the_partner_of_lowest_load() -> None:
    """b loads a GPU by 0.2, a by 0.3: x joins q whatever the seed; at equal loads the lower submit index."""
    light = [profile("b", util=0.2)]
    options = {"choice": "affinity"}
    for seed in range(10):
        assert _run(*FULL, X, profiles=light, options=options, seed=seed)[1]["x"][0][2] == ((0, 1),)
        assert _run(*FULL, X, options=options, seed=seed)[1]["x"][0][2] == ((0, 0),)


def test_a_bad_pair_parts_at_the_next_decision() -> None:
    """p fills the node; x joins at 5 s at factor 2.5: summed throughput 0.8 < 1. y arrives at 15 s.

    At 15 s the pair is dissolved; all ask for 6 of 2 GPUs, so x or y is drawn and joins p at once.
    """
    jobs = (job("p", gpus=2, epochs=9), job("x", "c", gpus=2, at=5.0), job("y", "b", gpus=2, at=15.0))
    done, found = _run(*jobs, truth=slow(ac=2.5, ab=1.0))
    assert done.counters["dissolved"] >= 1
    assert found["x"][0] == (5.0, 15.0, ((0, 0), (0, 1)))
    again = {_run(*jobs, truth=slow(ac=2.5, ab=1.0), seed=seed)[1]["x"][1][0] for seed in range(20)}
    assert 15.0 in again and len(again) > 1  # bad pairs are not remembered: x may join p again at once


def test_the_one_that_joined_leaves_with_its_progress() -> None:
    """One GPU. x joins p at 5 s at factor 2.5; u, exclusive, arrives at 15 s and parts them.

    x has done 0.4 epochs then, p 0.5 + 0.4. x is the only one with a partner, so it is drawn and joins p
    anew. No event parts them till it ends, 0.6 * 25 = 15 s later. p has done 1.5 epochs by 30 s, ends 75 s
    later.
    """
    jobs = (job("p", epochs=9), X, job("u", "b", at=15.0, exclusive=True))
    done, found = _run(*jobs, truth=slow(ac=2.5), cluster=cluster((node_type(1), 1)))
    one = ((0, 0),)
    assert found["x"] == [(5.0, 15.0, one), (15.0, 30.0, one)]
    assert found["p"] == [(0.0, 105.0, one)] and found["u"] == [(105.0, 115.0, one)]
    assert done.counters == {"packed": 2, "dissolved": 1}


def test_the_next_head_is_placed_alone() -> None:
    """The pair heads the line, does not fit, is packed with w; u behind it fits on GPU 2 and starts."""
    done, found = _run(
        job("w", gpus=2, epochs=9), job("pair", gpus=2, at=5.0), job("u", exclusive=True, at=5.0),
        cluster=cluster((node_type(3), 1)),
    )  # fmt: skip
    assert found["pair"][0][2] == found["w"][0][2] and found["u"] == [(5.0, 15.0, ((0, 2),))]
    assert done.counters["packed"] == 1


def test_exactly_one_is_good_enough() -> None:
    """Factor 2 for both: the sum is 1, not below it, and the pair stays; with threshold 1.1 it parts."""
    jobs = (
        job("p", gpus=2, epochs=9),
        job("x", "c", gpus=2, at=5.0),
        job("y", gpus=2, at=15.0, exclusive=True),
    )
    done, found = _run(*jobs, truth=slow(ac=2.0))
    assert found["x"] == [(5.0, 25.0, ((0, 0), (0, 1)))] and done.counters["dissolved"] == 0
    done, found = _run(*jobs, truth=slow(ac=2.0), options={"threshold": 1.1})
    assert found["x"][0][1] == 15.0 and done.counters["dissolved"] >= 1


def test_pairs_stay_when_demand_fits_again() -> None:
    """x joins p or q at 5 s; the other leaves at 90 s and its GPU stays empty: the pair goes on."""
    jobs = (job("p", epochs=9), job("q", "b", epochs=9), job("x", "c", epochs=9, at=5.0))
    for seed in range(6):
        _, found = _run(*jobs, seed=seed, truth=slow(ac=1.5, bc=1.5))
        assert [len(own) for own in found.values()] == [1, 1, 1]
        partner = "p" if found["p"][0][2] == found["x"][0][2] else "q"
        assert found[partner][0][1] > 90.0


def test_whoever_lost_its_partner_is_unshared_again() -> None:
    """x and x2 join at 5 s and leave at 15 s; y, waiting since 6 s as both GPUs are shared, joins then."""
    jobs = (*FULL, X, job("x2", "c", at=5.0), job("y", "c", at=6.0))
    for seed in range(6):
        assert _run(*jobs, seed=seed)[1]["y"][0][0] == 15.0


def test_alone_first_in_strict_order() -> None:
    """The pair heads the line and does not fit: x behind it is not placed alone on GPU 1, but packed."""
    jobs = (job("p", epochs=9), job("pair", "b", gpus=2, at=5.0), job("x", "c", at=5.0))
    _, found = _run(*jobs)
    assert found["x"] == [(5.0, 15.0, ((0, 0),))]  # 4 GPUs asked for, 2 there: packed with p
    assert found["pair"][0][0] == 90.0


def test_equal_gpu_counts_only() -> None:
    """A job of one GPU has no partner in a job of two."""
    done, found = _run(job("p", gpus=2, epochs=9), X)
    assert found["x"][0][0] == 90.0 and done.counters["packed"] == 0


def test_limits_are_obeyed() -> None:
    """K = 1, memory, exclusive jobs, pairs that cannot share: no packing; U_threshold only with obey_u."""
    p, x = job("p", gpus=2, epochs=2), job("x", "b", gpus=2, at=5.0)
    heavy = [profile("a", memory_gib=20.0), profile("b", memory_gib=10.0)]
    cases: tuple[tuple[Any, Any, dict[str, Any], float], ...] = (
        (p, x, {}, 5.0),
        (p, x, {"limits": {"max_share": 1}}, 20.0),
        (p, x, {"profiles": heavy}, 20.0),
        (p, job("x", gpus=2, at=5.0, exclusive=True), {}, 20.0),
        (p, x, {"truth": Interference(cannot_share=(("a", "b"),))}, 20.0),
        (p, x, {"limits": {"u_threshold": 0.5}}, 5.0),
        (p, x, {"limits": {"u_threshold": 0.5}, "options": {"obey_u": True}}, 20.0),
    )
    for first, second, changes, begins in cases:
        assert _run(first, second, **changes)[1]["x"][0][0] == begins


def test_it_sees_speeds_and_not_its_history() -> None:
    """A history that calls the pair bad changes nothing while it runs well."""
    jobs = (
        job("p", gpus=2, epochs=9),
        job("x", "c", gpus=2, at=5.0, epochs=3),
        job("y", "b", gpus=2, at=15.0),
    )
    done, _ = _run(*jobs, truth=slow(ac=1.0), history=slow(ac=9.0, ab=9.0))
    assert done.counters["dissolved"] == 0


def test_static_form_parts_nobody() -> None:
    """On a grid a bad pair stays together, and the schedule is static."""
    jobs = (
        job("p", gpus=2, epochs=2),
        job("x", "c", gpus=2, at=5.0),
        job("y", gpus=2, at=15.0, exclusive=True),
    )
    done = simulate(problem(*jobs, truth=slow(ac=5.0)), make_policy("gandiva"), 0, grid_s=5.0)
    assert done.schedule.schedule_class == "static" and done.counters["dissolved"] == 0
    assert [len(own) for own in runs(done).values()] == [1, 1, 1]


def test_a_pair_on_a_waking_node_is_observed_when_it_runs() -> None:
    """W = 20 s: x joins p at 5 s, both begin at 20 s; arrivals till 20 s part nobody, that at 25 s does."""
    jobs = (
        job("p", gpus=2, epochs=9), job("x", "c", gpus=2, at=5.0),
        job("y1", "b", gpus=2, at=10.0, exclusive=True), job("y2", "b", gpus=2, at=20.0, exclusive=True),
        job("y3", "b", gpus=2, at=25.0, exclusive=True),
    )  # fmt: skip
    _, found = _run(*jobs, truth=slow(ac=5.0), cluster=cluster((node_type(2, wake_s=20.0), 1)))
    assert found["x"][0][:2] == (20.0, 25.0)


def test_options_are_checked() -> None:
    """Choice, threshold and obey_u say what they may be."""
    with pytest.raises(
        DomainError, match=r"^policy 'gandiva': choice must be one of random, affinity, got 'best'$"
    ):
        make_policy("gandiva", choice="best")
    with pytest.raises(DomainError, match=r"^policy 'gandiva': threshold must be a finite number, got nan$"):
        make_policy("gandiva", threshold=float("nan"))
    with pytest.raises(DomainError, match=r"^policy 'gandiva': obey_u must be true or false, got 'yes'$"):
        make_policy("gandiva", obey_u="yes")


class Watched:
    """Gandiva with every decision checked against the rule, from what the world shows."""

    def __init__(self, **options: Any) -> None:
        self.gandiva = make_policy("gandiva", **options)
        self.name, self.schedule_class = "watched", "fluid"
        self.threshold, self.obey_u = self.gandiva.threshold, self.gandiva.obey_u

    def begin(self, world: World, rng: np.random.Generator) -> None:
        self.gandiva.begin(world, rng)
        self.counters = self.gandiva.counters
        self.joined: dict[int, float] = {}  # the second of each pair: since when it runs

    def pairs(self, world: World) -> list[tuple[int, int]]:
        found = {world.residents(gpus[0]) for gpus in world.gpus_of.values()}
        assert all(len(jobs) <= 2 for jobs in found)
        return [(jobs[0], jobs[1]) for jobs in found if len(jobs) == 2]

    def bad(self, world: World) -> set[int]:
        out = set()
        for first, second in self.pairs(world):
            together = 1.0 / world.slowdown(first) + 1.0 / world.slowdown(second)
            if together < self.threshold and self.joined[second] < world.now_s and not world.static:
                out.add(second)
        return out

    def decide(self, world: World, events: Sequence[Event]) -> Iterator[Action]:
        total = len(world.gpu_node)
        expected, stopped = self.bad(world), set()
        for action in self.gandiva.decide(world, events):
            if isinstance(action, Stop):
                stopped.add(action.job)
                yield action
                continue
            assert isinstance(action, Start)
            residents = {r for gpu in action.gpus for r in world.residents(gpu)}
            if residents:
                # Packed only under pressure, with one unshared job on exactly these GPUs.
                (partner,) = residents
                assert world.demand > total
                assert world.gpus_of[partner] == tuple(action.gpus)
                self.joined[action.job] = world.start_s(action.job, action.gpus)
            else:
                order = world.queue_order
                assert action.job == min(world.waiting, key=lambda j: order[j])
            yield action
        assert stopped == expected
        if world.waiting:
            order = world.queue_order
            assert not world.best_fit(min(world.waiting, key=lambda j: order[j]))
        if world.demand > total:
            for j in world.waiting:
                for k, gpus in world.gpus_of.items():
                    if len(gpus) == world.instance.jobs[j].gpus and world.residents(gpus[0]) == (k,):
                        fits = world.may_use(j, world.gpu_node[gpus[0]]) and world.can_join(
                            j, gpus, self.obey_u
                        )
                        assert not fits


def test_every_decision_follows_the_rule() -> None:
    """On random problems: only bad pairs part, the head goes alone, packing is under pressure and to the
    end.
    """
    total: Counter[str] = Counter()
    for seed in range(200):
        case = random_case(seed)
        policy = Watched(
            choice=("random", "affinity")[seed % 2], threshold=(1.0, 1.4)[seed // 2 % 2], obey_u=seed % 3 == 0
        )
        done = simulate(possible(case.instance), policy, seed, grid_s=case.grid_s)
        total.update(done.counters)
    assert total["packed"] > 130 and total["dissolved"] > 8
