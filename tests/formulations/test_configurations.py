"""The configuration LP as stated: pools, patterns, what they cost and yield, and windows of time."""

from __future__ import annotations

import dataclasses
import itertools
import math
from typing import Any

import numpy as np
import pytest

from eaco_opt.checker import exact_tables
from eaco_opt.cluster import Cluster, Node
from eaco_opt.errors import EacoError
from eaco_opt.impossible import impossible_jobs
from eaco_opt.instance import Instance, MeasuredUsage
from eaco_opt.limits import AdmissionRule
from eaco_opt.power import GpuPower, MeasuredPower, PowerModel, ServerPower
from formulations import configurations as module
from formulations.configurations import Pool, TooManyPatternsError, configurations
from formulations.costs import rates_of
from instances import generate
from solvers.bounds.configuration_lp import ConfigurationLp
from tests.experiments.tiny import BOX, instance, job
from tests.solvers.random_instances import random_instance

CURVE = PowerModel(
    server=ServerPower(idle_w=50.0, busy_w=150.0, exponent=2.0),
    gpu=GpuPower(standing_w=10.0, dynamic_w=100.0),
)
"""Server 50 + 100 (2u - u^2) W at CPU load u; GPUs 10 W + 100 W * load."""


def patterns(pool: Pool) -> list[tuple[int, ...]]:
    """Return the multisets of classes that a unit may host."""
    return [tuple(int(c) for c in row if c >= 0) for row in pool.pattern_classes]


def on(problem: Instance, nodes: int = 1, **more: Any) -> Instance:
    """Return a problem on boxes with other attributes."""
    return dataclasses.replace(problem, cluster=Cluster.uniform(dataclasses.replace(BOX, **more), nodes))


def test_units_are_nodes_where_all_jobs_take_whole_ones() -> None:
    """Jobs of 2 and 4 GPUs on boxes of 2: a unit is a node, and carries half of the larger job."""
    (pool,) = configurations(instance(job("a"), job("b", gpus=4), nodes=3)).pools
    assert pool.exact
    assert pool.units == 3
    assert pool.share.tolist() == [1.0, 0.5]
    assert pool.tau_s.tolist() == [100.0, 100.0]
    assert pool.power_w.tolist() == [100.0, 100.0]


def test_units_are_gpus_where_some_job_takes_a_part() -> None:
    """Jobs of 2, 1 and 3 GPUs: a unit is a GPU, at half a node's power."""
    (pool,) = configurations(instance(job("a"), job("b", gpus=1), job("c", gpus=3), nodes=3)).pools
    assert not pool.exact
    assert pool.units == 6
    assert pool.share.tolist() == [0.5, 1.0, 1.0 / 3.0]
    assert set(pool.power_w) == {50.0}


def test_patterns_are_the_admissible_multisets_with_no_more_of_a_class_than_there_are() -> None:
    """Two slow and one fast job, two at most on a GPU: alone, slow + slow, slow + fast."""
    model = configurations(instance(job("a"), job("b"), job("c", "fast"), slowdown=1.5))
    slow, fast = int(model.job_class[0]), int(model.job_class[2])
    (pool,) = model.pools
    want = {(slow,), (fast,), (slow, slow), tuple(sorted((slow, fast)))}
    assert set(patterns(pool)) == want
    sigma = {key: pool.sigma[p, : len(key)].tolist() for p, key in enumerate(patterns(pool))}
    assert all(
        values == [1.5] * len(key) if len(key) > 1 else values == [1.0] for key, values in sigma.items()
    )


def test_both_admission_rules() -> None:
    """Loads 0.4 + 0.4 + 0.4 with U_threshold 0.9: only `existing` lets a third join."""
    jobs = [job(name) for name in "abc"]
    for rule, longest in ((AdmissionRule.RESULTING, 2), (AdmissionRule.EXISTING, 3)):
        problem = instance(*jobs, max_share=3, u_threshold=0.9, mem_threshold=1.0, rule=rule)
        light = tuple(
            dataclasses.replace(p, gpu_memory_peak_gib=3.0, gpu_memory_mean_gib=3.0) for p in problem.profiles
        )
        problem = dataclasses.replace(problem, profiles=light)
        (pool,) = configurations(problem).pools
        assert max(len(key) for key in patterns(pool)) == longest


def test_a_unit_pays_its_part_of_a_uniform_node() -> None:
    """Server 50 + 100 (2u - u^2) W at u = 0.5, all GPUs alike: 125 + 2 * (10 + 100 * 0.4) = 225 W a node."""
    whole = on(instance(job("a")), power=CURVE)
    cpu = tuple(dataclasses.replace(p, cpu_share=0.5) for p in whole.profiles)
    whole = dataclasses.replace(whole, profiles=cpu)
    (pool,) = configurations(whole).pools
    assert pool.power_w.tolist() == pytest.approx([225.0])
    part = dataclasses.replace(on(instance(job("a", gpus=1)), power=CURVE), profiles=cpu)
    (pool,) = configurations(part).pools
    assert pool.power_w.tolist() == pytest.approx([112.5])
    asleep = on(whole, power=CURVE, sleep_w=20.0)
    (pool,) = configurations(asleep).pools
    assert pool.power_w.tolist() == pytest.approx([205.0])


@pytest.mark.parametrize("measured_w", [200.0, 260.0])
def test_gpus_gain_from_negative_residuals_only(measured_w: float) -> None:
    """225 W by the model (CPU 0.5): nodes pay what was measured, GPUs half of it or less."""
    power = dataclasses.replace(CURVE, measured=(MeasuredPower(kinds=("slow",), power_w=measured_w),))
    for gpus, want in ((2, measured_w), (1, min(measured_w, 225.0) / 2.0)):
        problem = on(instance(job("a", gpus=gpus)), power=power)
        cpu = tuple(dataclasses.replace(p, cpu_share=0.5) for p in problem.profiles)
        (pool,) = configurations(dataclasses.replace(problem, profiles=cpu)).pools
        assert pool.power_w.tolist() == pytest.approx([want])


def test_no_node_draws_less_than_its_gpus_pay() -> None:
    """Jensen: sum over GPUs of the price of what each hosts <= power of the mixed node, on random nodes."""
    rng = np.random.default_rng(3)
    checked = 0
    for _ in range(150):
        problem = random_instance(rng)
        if impossible_jobs(problem):
            continue
        tables = exact_tables(problem)
        names = problem.arrays().sets.classes
        for pool in configurations(problem).pools:
            if pool.exact:
                continue
            kinds = [tuple(sorted(names[c].kind for c in key)) for key in patterns(pool)]
            size = problem.cluster.node_types[pool.node_type].gpus
            sleep = problem.cluster.node_types[pool.node_type].sleep_w
            for _ in range(5):
                at = rng.integers(len(kinds), size=int(rng.integers(1, size + 1)))
                asked = sum(float(tables.demand[k].cpu_share) for p in at for k in kinds[p])
                # Empty GPUs pay nothing. Powers by the checker, its look-up included.
                asked_of_node = tables.ar.of(asked) / size
                watts = tables.node_w(pool.node_type, [kinds[p] for p in at], asked_of_node)
                actual = float(sum(watts)) - sleep
                assert pool.power_w[at].sum() <= actual + 1e-9 * (actual + sleep) + 1e-9
                checked += 1
    assert checked > 200


def test_patterns_agree_with_the_checker() -> None:
    """Every multiset of classes is a pattern if and only if the independent checker admits it."""
    rng = np.random.default_rng(11)
    checked = 0
    for _ in range(120):
        problem = random_instance(rng)
        if impossible_jobs(problem):
            continue
        model = configurations(problem)
        tables = exact_tables(problem)
        member = {int(c): tables.jobs[j].member for j, c in enumerate(model.job_class)}
        for pool in model.pools:
            found = {tuple(sorted(key)) for key in patterns(pool)}
            users = np.flatnonzero(pool.share > 0.0)
            counts = np.bincount(model.job_class[users], minlength=max(member) + 1)
            for k in range(1, problem.limits.max_share + 1):
                for key in itertools.combinations_with_replacement(np.flatnonzero(counts).tolist(), k):
                    if any(key.count(c) > counts[c] for c in key):
                        continue
                    admitted = not tables.findings(pool.node_type, tuple(member[c] for c in key))
                    assert (tuple(sorted(key)) in found) == admitted
                    checked += 1
    assert checked > 400


def test_time_is_cut_at_loosened_releases_and_deadlines() -> None:
    """Releases 0 and 500 s, deadlines 2000 s and never; nothing before the earliest release."""
    model = configurations(instance(job("a", deadline_s=2000.0), job("b", release_s=500.0)))
    tolerance_s = 1e-6 + 1e-9 * 2000.0
    assert model.length_s[:2].tolist() == pytest.approx(
        [500.0 - 1.5e-6, 1500.0 + 1.5e-6 + tolerance_s], abs=1e-9
    )
    assert math.isinf(model.length_s[2])
    assert model.first.tolist() == [0, 1]
    assert model.last.tolist() == [2, 3]
    # 1e-9 of the epochs, and for a what 1e-6 s before its release are worth.
    assert model.epochs.tolist() == pytest.approx([10.0 - 1e-8 - 1e-8, 10.0 - 1e-8], rel=1e-12)


def test_merged_windows_reach_outward_and_weaken_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """With room for few pairs of jobs and intervals, neighbours are merged, and windows never shrink."""
    problem = generate("whole-node", jobs=20, nodes=3, seed=4)
    fine = configurations(problem)
    monkeypatch.setattr(module, "MOST_ENTRIES", 60)
    coarse = configurations(problem)
    assert len(coarse.length_s) < len(fine.length_s)
    ends = [np.concatenate([[0.0], np.cumsum(model.length_s)]) for model in (fine, coarse)]
    assert (ends[1][coarse.first] <= ends[0][fine.first] + 1e-6).all()
    assert (ends[1][coarse.last] >= ends[0][fine.last] - 1e-6).all()
    values = []
    for model in (fine, coarse):
        lp = ConfigurationLp(model)
        lp.charge(rates_of(problem))
        values.append(lp.solve().value)
    assert values[1] <= values[0] * (1.0 + 1e-5)


def test_sleep_for_the_least_makespan() -> None:
    """Two nodes of 20 W; b starts at 500 s and takes 1000 s, or 700 s in company at slowdown 0.7."""
    pair = instance(job("a"), job("b", release_s=500.0), slowdown=0.7)
    model = configurations(on(pair, nodes=2, sleep_w=20.0))
    assert model.sleep_j == pytest.approx(2 * 20.0 * 1200.0, rel=1e-7)
    assert model.constant(rates_of(pair)) == pytest.approx(rates_of(pair).energy * model.sleep_j)
    alone = configurations(on(instance(job("a"), job("b", release_s=500.0)), nodes=2, sleep_w=20.0))
    assert alone.sleep_j == pytest.approx(2 * 20.0 * 1500.0, rel=1e-7)


def test_one_pool_by_type_that_is_there_and_of_use() -> None:
    """A type without nodes, and one whose GPUs the jobs do not know, make no pool."""
    strange = dataclasses.replace(BOX, name="strange", gpu_type="H")
    small = dataclasses.replace(BOX, name="small", gpus=1)
    cluster = Cluster(
        node_types=(strange, small, BOX),
        nodes=(Node(name="x", node_type="strange"), Node(name="y", node_type="box")),
    )
    model = configurations(dataclasses.replace(instance(job("a")), cluster=cluster))
    assert [pool.node_type for pool in model.pools] == [2]
    assert model.nowhere == ()
    lost = configurations(dataclasses.replace(instance(job("a", gpus=4)), cluster=cluster))
    assert lost.nowhere == (0,)


def test_too_many_patterns_say_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message names the limit, the type and the option."""
    monkeypatch.setattr(module, "MOST_PATTERNS", 2)
    with pytest.raises(TooManyPatternsError, match=r"more than 2 sets .* type 'box'; lower --max-share") as e:
        configurations(instance(job("a"), job("b"), job("c", "fast")))
    assert isinstance(e.value, EacoError)


def test_measured_usage_opens_a_pattern() -> None:
    """Sum of loads 0.8 exceeds a threshold of 0.7; measured as 0.6, the pair may share."""
    pair = instance(job("a"), job("b"), u_threshold=0.7)
    (pool,) = configurations(pair).pools
    assert len(patterns(pool)) == 1
    usage = (MeasuredUsage(kinds=("slow", "slow"), load=0.6, memory_gib=8.0),)
    (pool,) = configurations(dataclasses.replace(pair, usage=usage)).pools
    assert len(patterns(pool)) == 2
