"""CP-SAT against plain enumeration, and what is made of what it says."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections import Counter

import pytest

from eaco_opt.checker import check
from eaco_opt.cluster import Cluster
from eaco_opt.instance import Instance
from eaco_opt.physics import evaluate, plan_schedule
from eaco_opt.result import Status, StopReason
from formulations.base import UncoveredFeatureError
from formulations.cpsat import CpsatFormulation, CpsatModel
from formulations.grid import make_grid
from tests.formulations.small_instances import (
    SLOT_S,
    count_plans,
    enumerate_optimum,
    features,
    random_instance,
)


def build(instance: Instance, slot_s: float = SLOT_S) -> CpsatModel:
    return CpsatFormulation().build(instance, make_grid(instance, slot_s))


def tractable(first: int, jobs: int, number: int, most: int) -> list[Instance]:
    """Return instances whose plans can be enumerated, from seed `first` on."""
    seeds = itertools.count(first)
    drawn = (random_instance(seed, jobs) for seed in seeds)
    return list(itertools.islice((i for i in drawn if count_plans(i) <= most), number))


def assert_same_optimum(instance: Instance, found: tuple[float, object] | None) -> None:
    """CP-SAT proves the enumerated optimum by a schedule that passes the checker, or both say infeasible."""
    outcome = build(instance).solve(time_limit_s=60.0)
    if found is None:
        assert outcome.status is Status.INFEASIBLE, (instance.name, outcome)
        assert outcome.plan is None and outcome.bound is None
        return
    assert outcome.status is Status.OPTIMAL, (instance.name, outcome)
    assert outcome.plan is not None and outcome.objective is not None and outcome.bound is not None
    assert outcome.objective == pytest.approx(found[0], rel=1e-8), instance.name
    assert outcome.bound <= found[0] * (1.0 + 1e-12)
    assert outcome.bound >= found[0] - 1e-8 * abs(found[0])
    schedule = plan_schedule(instance, outcome.plan, grid_s=SLOT_S)
    assert not check(instance, schedule, grid_s=SLOT_S), instance.name


def test_proves_the_enumerated_optimum_over_all_features() -> None:
    """120 instances of two and three jobs; each feature occurs, most are feasible, many share."""
    seen: Counter[str] = Counter()
    feasible = shared = 0
    instances = [*tractable(100, 2, 70, 20000), *tractable(200, 3, 50, 15000)]
    for instance in instances:
        found = enumerate_optimum(instance)
        assert_same_optimum(instance, found)
        seen.update(features(instance))
        feasible += found is not None
        if found is not None:
            times = evaluate(instance, found[1], grid_s=SLOT_S).jobs
            view = instance.arrays()
            held = [
                set(found[1].gpus[view.gpu_offset[j] : view.gpu_offset[j + 1]].tolist())
                for j in range(len(instance.jobs))
            ]
            shared += any(
                held[a] & held[b] and max(times.start_s[[a, b]]) < min(times.end_s[[a, b]])
                for a, b in itertools.combinations(range(len(held)), 2)
            )
    assert feasible >= 0.6 * len(instances)
    assert shared >= 0.3 * len(instances)
    assert min(seen.values()) >= 10 and len(seen) == 16, seen


@pytest.mark.slow
def test_proves_the_enumerated_optimum_at_length() -> None:
    """2,000 instances of two jobs, 500 of three."""
    for instance in [*tractable(20000, 2, 2000, 20000), *tractable(30000, 3, 500, 40000)]:
        assert_same_optimum(instance, enumerate_optimum(instance))


def test_wake_ups_are_refused_by_name_before_building() -> None:
    """Wake-up time is not covered: `covers` and `build` name it and the node type."""
    instance = random_instance(1)
    kinds = [dataclasses.replace(t, wake_s=60.0, wake_energy_j=5.0) for t in instance.cluster.node_types]
    instance = dataclasses.replace(
        instance, cluster=Cluster(node_types=tuple(kinds), nodes=instance.cluster.nodes)
    )
    assert any("wake-up time of node type" in text for text in CpsatFormulation().covers(instance))
    with pytest.raises(UncoveredFeatureError, match="wake-up energy of node type"):
        build(instance)


def test_no_jobs_cost_nothing() -> None:
    """The objective of an instance without jobs is 0 (docs/model.md section 2.12)."""
    instance = dataclasses.replace(random_instance(1), jobs=())
    outcome = build(instance).solve()
    assert (outcome.status, outcome.objective, outcome.bound) == (Status.OPTIMAL, 0.0, 0.0)


def test_a_hopeless_job_is_named() -> None:
    """A deadline before the shortest run: infeasible without a search, with the job's name."""
    instance = random_instance(1)
    first = dataclasses.replace(instance.jobs[0], deadline_s=instance.jobs[0].release_s + 1.0)
    outcome = build(dataclasses.replace(instance, jobs=(first, *instance.jobs[1:]))).solve()
    assert outcome.status is Status.INFEASIBLE
    assert "'j0'" in outcome.message


def test_without_a_solution_no_value_is_read() -> None:
    """Stopped before anything was found: unknown, without plan, objective and made-up bound."""
    outcome = build(random_instance(5, 5)).solve(time_limit_s=0.0)
    assert outcome.status is Status.UNKNOWN
    assert outcome.stop_reason is StopReason.TIME_LIMIT
    assert outcome.plan is None and outcome.objective is None and outcome.claimed is None
    assert outcome.bound is None


def test_a_start_is_taken_and_never_worsened() -> None:
    """The optimum as start: complete, consistent hints; and it is the answer even without any search."""
    checked = 0
    for instance in tractable(400, 2, 25, 5000):
        found = enumerate_optimum(instance)
        if found is None:
            continue
        model = build(instance)
        model.start_from(found[1])
        outcome = model.solve(time_limit_s=0.0)
        assert outcome.objective == pytest.approx(found[0], rel=1e-12)
        # With all hinted variables fixed to their hints the model has a solution, of the plan's value.
        fixed = model.fixed_to_start().solve(time_limit_s=20.0)
        assert fixed.claimed == pytest.approx(found[0], rel=1e-7), instance.name
        checked += 1
    assert checked >= 15


def test_infinite_deadlines_are_proved_on_the_tightened_horizon() -> None:
    """Without deadlines the optimum is no worse than with any, and waiting for a partner is free."""
    for seed in (3, 4, 8):
        bounded = random_instance(seed, 2)
        free = dataclasses.replace(
            bounded, jobs=tuple(dataclasses.replace(j, deadline_s=math.inf) for j in bounded.jobs)
        )
        one, two = build(bounded).solve(time_limit_s=30.0), build(free).solve(time_limit_s=30.0)
        assert two.status is Status.OPTIMAL and two.objective is not None
        if one.objective is not None:
            assert two.objective <= one.objective * (1.0 + 1e-8)


def test_deterministic_runs_repeat() -> None:
    """One worker, a deterministic limit: twice the same plan."""
    instance = random_instance(210, 3)
    one, two = (build(instance).solve(deterministic=True, time_limit_s=5.0, seed=3) for _ in range(2))
    assert one.plan is not None and two.plan is not None
    assert one.plan.start_s.tolist() == two.plan.start_s.tolist()
    assert one.plan.gpus.tolist() == two.plan.gpus.tolist()


def test_progress_reports_incumbents_and_bounds_that_close() -> None:
    """Incumbents fall, and every bound lies below the optimum."""
    heard: list[tuple[float | None, float | None]] = []
    instance = random_instance(210, 3)
    outcome = build(instance).solve(
        time_limit_s=30.0, progress=lambda _, best, bound: heard.append((best, bound))
    )
    assert outcome.objective is not None
    best = [b for b, _ in heard if b is not None]
    assert best and best == sorted(best, reverse=True)
    assert all(bound is None or bound <= outcome.objective * (1 + 1e-9) for _, bound in heard)


def test_estimate_is_close_to_what_is_built() -> None:
    """The estimate of variables lies within a factor of two of the model."""
    tried = 0
    for seed in range(500, 512):
        instance = random_instance(seed, 4)
        grid = make_grid(instance, SLOT_S)
        estimate = CpsatFormulation().estimate(instance, grid)
        built = len(CpsatFormulation().build(instance, grid).model.proto.variables)
        assert built == 0 or built / 2 <= estimate.variables <= 2 * built
        tried += built > 0
        assert estimate.memory_bytes > 0
    assert tried >= 6
