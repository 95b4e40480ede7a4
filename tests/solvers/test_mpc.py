"""Policy `mpc`: what it gains over EaCO, what it may know, and where EaCO decides for it."""

from __future__ import annotations

import dataclasses

import pytest

from eaco_opt.checker import check_report
from eaco_opt.errors import DomainError
from eaco_opt.instance import Instance
from eaco_opt.policies import make_policy
from eaco_opt.simulator import simulate
from instances.generators import generate
from tests.eaco_opt.policy_cases import possible, random_case


def made(family: str, seed: int) -> Instance:
    return generate(family, jobs=14, nodes=4 if family == "whole-node" else 2, epochs=(3, 30), seed=seed)


def shifted(instance: Instance, seconds: float) -> Instance:
    jobs = tuple(
        dataclasses.replace(j, release_s=j.release_s + seconds, deadline_s=j.deadline_s + seconds)
        for j in instance.jobs
    )
    return dataclasses.replace(instance, jobs=jobs)


@pytest.mark.parametrize("family", ["whole-node", "mixed"])
def test_it_is_better_than_eaco(family: str) -> None:
    """On most instances its objective is below EaCO's, it misses no deadline, and the checker agrees."""
    better, ours, theirs = 0, 0.0, 0.0
    for seed in range(10):
        problem = made(family, seed)
        mine = simulate(problem, make_policy("mpc"), 0)
        eaco = simulate(problem, make_policy("eaco"), 0)
        assert check_report(problem, mine.schedule).feasible
        assert mine.evaluation.deadline_misses == 0
        assert mine.counters["decisions"] >= 10 and mine.counters["fallbacks"] == 0
        better += mine.evaluation.objective < eaco.evaluation.objective * (1 - 1e-9)
        ours, theirs = ours + mine.evaluation.objective, theirs + eaco.evaluation.objective
    assert better >= 7
    assert ours < 0.99 * theirs


@pytest.mark.parametrize("family", ["whole-node", "mixed"])
def test_it_does_not_know_the_future(family: str) -> None:
    """Whatever comes later, all that starts before is the same (the weights of the objective being equal)."""
    for seed in range(5):
        problem = made(family, seed)
        order = sorted(problem.jobs, key=lambda j: j.release_s)
        late = {j.name for j in order[8:]}
        cut_s = order[8].release_s
        other = dataclasses.replace(
            problem,
            jobs=tuple(
                dataclasses.replace(j, release_s=j.release_s + 777.0, deadline_s=j.deadline_s + 1e6)
                if j.name in late
                else j
                for j in problem.jobs
            ),
        )

        def early(instance: Instance, cut_s: float = cut_s) -> list[tuple[str, float, object]]:
            done = simulate(instance, make_policy("mpc"), 0).schedule
            return sorted((s.job, s.start_s, s.gpus) for s in done.segments if s.start_s < cut_s)

        assert early(problem) == early(other)


def test_without_a_search_eaco_decides() -> None:
    """No iterations, no plan: every decision falls back, and the schedule is that of EaCO in static form."""
    for seed in range(5):
        problem = made("whole-node", seed)
        mine = simulate(problem, make_policy("mpc", iterations=0), 0)
        eaco = simulate(problem, make_policy("eaco", observe=False), 0)
        assert mine.counters["fallbacks"] == mine.counters["decisions"] > 0
        assert mine.evaluation.deadline_misses <= mine.counters["best_effort"]
        assert mine.evaluation.objective == pytest.approx(eaco.evaluation.objective, rel=0.1)


def test_where_nodes_wake_up_eaco_decides() -> None:
    """Plans do not reckon with waking up: the schedule is that of EaCO, every arrival a fallback."""
    problem = made("whole-node", 1)
    types = tuple(
        dataclasses.replace(t, sleep_w=10.0, wake_s=30.0, wake_energy_j=1e4)
        for t in problem.cluster.node_types
    )
    asleep = dataclasses.replace(problem, cluster=dataclasses.replace(problem.cluster, node_types=types))
    mine = simulate(asleep, make_policy("mpc"), 0)
    eaco = simulate(asleep, make_policy("eaco", observe=False), 0)
    assert mine.schedule.segments == eaco.schedule.segments
    assert mine.counters["fallbacks"] == mine.counters["decisions"] > 0


@pytest.mark.parametrize("window", [1, 2, 5])
def test_long_lines_are_planned_by_parts(window: int) -> None:
    """All released at once: with any window every job runs, by the rules, and none waits for ever."""
    problem = made("whole-node", 3)
    at_once = dataclasses.replace(
        problem, jobs=tuple(dataclasses.replace(j, release_s=0.0) for j in problem.jobs)
    )
    done = simulate(at_once, make_policy("mpc", window=window), 0)
    report = check_report(at_once, done.schedule)
    assert report.physical_violations == report.threshold_violations == 0
    assert len(done.schedule.segments) == len(problem.jobs)


def test_shifting_all_times_exactly_changes_nothing() -> None:
    """Times in 1/1024 s moved by 2^20 s lose no bit: the same schedule, moved (docs/model.md 9.1)."""
    for seed in range(20):
        instance = possible(random_case(seed).instance)
        instance = dataclasses.replace(
            instance,
            jobs=tuple(
                dataclasses.replace(
                    j,
                    release_s=round(j.release_s * 1024) / 1024,
                    deadline_s=j.deadline_s if j.deadline_s > 1e9 else round(j.deadline_s * 1024) / 1024 + 1,
                )
                for j in instance.jobs
            ),
        )
        here = simulate(instance, make_policy("mpc"), 1).schedule.segments
        there = simulate(shifted(instance, 2.0**20), make_policy("mpc"), 1).schedule.segments
        assert [(s.job, s.gpus) for s in here] == [(s.job, s.gpus) for s in there]
        for a, b in zip(here, there, strict=True):
            assert b.start_s - 2.0**20 == pytest.approx(a.start_s, abs=1e-6)


def test_a_limit_on_time_keeps_the_rules() -> None:
    """However short a decision's time: a schedule that the checker accepts."""
    problem = made("mixed", 0)
    done = simulate(problem, make_policy("mpc", iterations=10_000, decision_s=0.0), 0)
    assert check_report(problem, done.schedule).feasible


@pytest.mark.parametrize(
    ("option", "value"), [("iterations", -1), ("window", 0), ("decision_s", -1.0), ("iterations", "many")]
)
def test_unusable_options(option: str, value: object) -> None:
    """Refused by name."""
    with pytest.raises(DomainError, match=f"policy 'mpc': {option}"):
        make_policy("mpc", **{option: value})
