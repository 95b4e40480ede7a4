"""Brute force: optima worked by hand, an enumeration without any cut, the checker, and the policies.

Hand-made instances stand on slots of 600 s. Their node type draws 100 W of server, 50 W a GPU, and up to 100
W a GPU, linear in load; their jobs have epochs of 600 s and a load of 0.3 on every GPU.
"""

from __future__ import annotations

import dataclasses
import inspect
import itertools
import math
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eaco_opt.checker import check_report
from eaco_opt.cluster import Cluster, Node, NodeType
from eaco_opt.errors import DomainError, EacoError, ImpossibleJobsError
from eaco_opt.instance import Instance
from eaco_opt.interference import Interference, MeasuredSlowdown
from eaco_opt.job import Job
from eaco_opt.limits import Limits, Objective, ObjectiveForm
from eaco_opt.physics import evaluate
from eaco_opt.policies import POLICIES, make_policy
from eaco_opt.power import GpuPower, MeasuredPower, PowerModel, ServerPower
from eaco_opt.profile import EpochTime, Profile
from eaco_opt.result import Result, Status, StopReason
from eaco_opt.schedule import Plan, ScheduleClass
from eaco_opt.simulator import simulate
from instances.generators import generate
from solvers import bruteforce as module
from solvers.bruteforce import TooManyPlansError, bruteforce, estimate_plans
from tests.solvers.random_instances import FEATURES, SLOT_S, features, random_instance

D = 600.0


def node_type(gpus: int = 1, name: str = "n", **changes: Any) -> NodeType:
    power = PowerModel(
        server=ServerPower(idle_w=100.0, busy_w=100.0), gpu=GpuPower(standing_w=50.0, dynamic_w=100.0)
    )
    fields: dict[str, Any] = {"gpu_type": "v", "gpu_memory_gib": 32.0, "power": power, **changes}
    return NodeType(name=name, gpus=gpus, **fields)


def profile(
    name: str = "p", tau_s: float = 600.0, util: float = 0.3, memory_gib: float = 8.0, **types: float
) -> Profile:
    """A profile with the epoch time on GPU type v, and those of further GPU types by name."""
    return Profile(
        name=name,
        epoch_times=tuple(EpochTime(gpu_type=t, epoch_time_s=s) for t, s in {"v": tau_s, **types}.items()),
        gpu_util_mean=util,
        gpu_util_peak=util,
        gpu_memory_mean_gib=memory_gib,
        gpu_memory_peak_gib=memory_gib,
    )


def job(name: str, epochs: int = 2, gpus: int = 1, **more: Any) -> Job:
    return Job(**{"name": name, "profile": "p", "gpus": gpus, "epochs": epochs, **more})


def instance(
    *jobs: Job,
    nodes: tuple[tuple[NodeType, int], ...] = ((node_type(), 1),),
    factor: float | None = 1.0,
    alpha: float = 0.5,
    objective: Objective | None = None,
    profiles: tuple[Profile, ...] = (profile(),),
    **more: Any,
) -> Instance:
    """An instance in which two jobs of kind p slow each other down by `factor` (None: they cannot share)."""
    if factor is None:
        truth = Interference(cannot_share=(("p", "p"),))
    else:
        truth = Interference(measured=(MeasuredSlowdown(kinds=("p", "p"), factors=(factor, factor)),))
    return Instance(
        name="hand",
        jobs=jobs,
        profiles=profiles,
        cluster=Cluster.grouped(nodes),
        objective=objective or Objective(alpha=alpha),
        **{"truth": truth, "limits": Limits(max_share=2), **more},
    )


def kilojoule() -> Objective:
    """The objective that counts energy alone, in kWh."""
    return Objective(alpha=1.0, form=ObjectiveForm.RAW)


def solved(problem: Instance, grid_s: float = D, **options: Any) -> Result:
    """Solve; what comes back is optimal or infeasible, and keeps what every answer has to keep."""
    result = bruteforce(problem, grid_s=grid_s, **options)
    assert result.method == "bruteforce" and result.stop_reason is StopReason.FINISHED
    if result.status is Status.INFEASIBLE:
        assert result.schedule is None and result.evaluation is None and result.bound is None
        return result
    assert result.status is Status.OPTIMAL and result.schedule is not None and result.evaluation is not None
    assert result.bound == result.objective
    assert result.schedule.schedule_class is ScheduleClass.STATIC
    assert result.schedule.instance_digest == result.instance_digest != ""
    report = check_report(problem, result.schedule, grid_s=grid_s)
    assert report.feasible
    assert report.objective == pytest.approx(result.objective, rel=1e-9, abs=1e-12)
    return result


def value(problem: Instance, grid_s: float = D) -> float:
    """Return the optimum, infinity if there is no plan."""
    result = solved(problem, grid_s)
    return math.inf if result.objective is None else result.objective


def starts(result: Result) -> dict[str, float]:
    assert result.schedule is not None
    return {s.job: s.start_s / D for s in result.schedule.segments}


# ------------------------------------------------------------------------------------------------ by hand
# Alone a job draws 100 + 50 + 30 = 180 W, two on the GPU draw 210 W. E0 of two jobs of 2 epochs:
E0 = 2 * 1200 * 180.0


def test_a_pair_slower_than_one_after_the_other_does_not_share() -> None:
    """With a factor of 2.5 a pair takes 5 slots of 210 W, one after the other 4 of 180 W: nothing shared."""
    result = solved(instance(job("A"), job("B"), factor=2.5))
    assert result.objective == pytest.approx(1.0)
    assert sorted(starts(result).values()) == [0.0, 2.0]


def test_a_pair_without_slowdown_shares() -> None:
    """Standing power above 0 and no slowdown: 2 slots of 210 W instead of 4 of 180 W."""
    result = solved(instance(job("A"), job("B")))
    assert result.objective == pytest.approx(0.5 * (1200 * 210.0) / E0 + 0.5)
    assert len(set(starts(result).values())) == 1


@pytest.mark.parametrize(
    ("alpha", "expected"), [(0.0, 1.0), (1.0, 6 * 600 * 210.0 / (2 * 3000 * 180.0))], ids=["time", "energy"]
)
def test_the_ends_of_alpha(alpha: float, expected: float) -> None:
    """Factor 1.2: 5 epochs take 6 slots together. For time alone nobody shares, for energy alone both do."""
    result = solved(instance(job("A", 5), job("B", 5), factor=1.2, alpha=alpha))
    assert result.objective == pytest.approx(expected)
    assert (len(set(starts(result).values())) == 1) == (alpha == 1.0)


def test_a_slowdown_below_one_shares_for_time_alone() -> None:
    """Factor 0.5: together two epochs take one slot, 300 s an epoch instead of 600 s."""
    assert value(instance(job("A"), job("B"), factor=0.5, alpha=0.0)) == pytest.approx(0.5)


def test_raw_objective_and_pue() -> None:
    """Raw: 0.5 * kWh + 0.5 * hours, with a PUE of 1.5; one job draws 180 W for 1200 s, 1/6 h an epoch."""
    problem = instance(job("A"), objective=Objective(alpha=0.5, form=ObjectiveForm.RAW))
    problem = dataclasses.replace(problem, cluster=dataclasses.replace(problem.cluster, pue=1.5))
    assert value(problem) == pytest.approx(0.5 * 1.5 * 180 * 1200 / 3.6e6 + 0.5 / 6)


@pytest.mark.parametrize(("deadline_s", "feasible"), [(1800.0, True), (1799.0, False), (1200.0, False)])
def test_a_deadline_is_kept_to_the_slot(deadline_s: float, feasible: bool) -> None:
    """1500 s of work fill 3 slots: a deadline at release + 3 slots is kept, one a second before cannot be."""
    problem = instance(job("A", 1, deadline_s=deadline_s), profiles=(profile(tau_s=1500.0),))
    assert (value(problem) < math.inf) == feasible


def test_a_deadline_of_release_plus_duration_is_kept() -> None:
    """On slots that cut the run evenly: release + duration is feasible, one slot less is not."""
    for release_s in (0.0, 1200.0):
        kept = instance(job("A"), job("B", release_s=release_s, deadline_s=release_s + 1200.0), factor=3.0)
        assert value(kept) < math.inf
        missed = instance(job("A"), job("B", release_s=release_s, deadline_s=release_s + 600.0), factor=3.0)
        assert value(missed) == math.inf


def test_two_jobs_with_the_same_tight_deadline() -> None:
    """One GPU, two jobs due after 2 slots: together they make it without slowdown, not at a factor of 1.5."""
    for factor, expected in ((1.0, 0.5 * 1200 * 210.0 / E0 + 0.5), (1.5, math.inf)):
        problem = instance(job("A", deadline_s=1200.0), job("B", deadline_s=1200.0), factor=factor)
        assert value(problem) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("deadline_s", "energy_j"), [(math.inf, 1200 * 210.0), (2400.0, 600 * 570.0), (1200.0, E0)]
)
def test_waiting_for_a_partner_pays_as_far_as_the_deadline_allows(deadline_s: float, energy_j: float) -> None:
    """B comes in slot 3. A waits for it, or starts in slot 2 to meet it for a slot (180 + 210 + 180 W)."""
    result = solved(instance(job("A", deadline_s=deadline_s), job("B", release_s=1800.0)))
    assert result.objective == pytest.approx(0.5 * energy_j / E0 + 0.5)
    assert starts(result) == {"A": {math.inf: 3.0, 2400.0: 2.0, 1200.0: 0.0}[deadline_s], "B": 3.0}


def test_a_weight_on_jtt_makes_waiting_dear() -> None:
    """As before, without deadlines: with w = 2 the three slots that A would wait cost 2 * 900 / 1200."""
    problem = instance(job("A"), job("B", release_s=1800.0), objective=Objective(alpha=0.5, jtt_weight=2.0))
    result = solved(problem)
    assert starts(result) == {"A": 0.0, "B": 3.0}
    assert result.objective == pytest.approx(0.5 + 0.5 + 2.0)


@pytest.mark.parametrize(
    "more",
    [
        {"factor": None},
        {"limits": Limits(max_share=1)},
        {"limits": Limits(u_threshold=0.5)},
        {"limits": Limits(mem_threshold=0.4)},
    ],
    ids=["cannot share", "K", "U", "memory"],
)
def test_limits_forbid_sharing(more: dict[str, Any]) -> None:
    """Each limit alone makes the pair inadmissible: one after the other, 1."""
    assert value(instance(job("A"), job("B"), **more)) == pytest.approx(1.0)


def test_an_exclusive_job_shares_with_nobody() -> None:
    """As above, by the job's own wish."""
    assert value(instance(job("A"), job("B", exclusive=True))) == pytest.approx(1.0)


def test_measured_power_decides() -> None:
    """A pair measured at 400 W for the node costs more than two runs of 180 W; at 300 W it does not."""
    for pair_w, expected in ((400.0, 1.0), (300.0, 0.5 * 300 * 1200 / E0 + 0.5)):
        power = dataclasses.replace(
            node_type().power, measured=(MeasuredPower(kinds=("p", "p"), power_w=pair_w),)
        )
        problem = instance(job("A"), job("B"), nodes=((node_type(power=power), 1),))
        assert value(problem) == pytest.approx(expected)


def test_one_wake_up_is_cheaper_than_two() -> None:
    """A wake-up takes 600 s of 150 W and 60 kJ. In turn on one node: one wake-up, starts from slot 1 on.

    The second node would cost a wake-up of its own; sleep power is 10 W, for 1 + 4 slots of the second node
    and 0 of the first, whose first slot is its wake-up.
    """
    sleepy = node_type(wake_s=600.0, wake_energy_j=60e3, sleep_w=10.0)
    problem = instance(
        job("A"), job("B"), nodes=((sleepy, 2),), objective=kilojoule(), limits=Limits(max_share=1)
    )
    result = solved(problem)
    assert result.objective == pytest.approx((E0 + 600 * 150 + 60e3 + 5 * 600 * 10) / 3.6e6)
    assert sorted(starts(result).values()) == [1.0, 3.0]
    late = dataclasses.replace(problem, jobs=(job("A", deadline_s=1200.0),))
    assert value(late) == math.inf  # awake after a slot, done after three


def test_a_node_that_is_still_awake_is_taken() -> None:
    """A wake-up costs 60 kJ. C follows B without a pause on the second node; the first has slept for a slot.

    Deadlines leave no other starts: A in slot 0, B in slots 0 and 1, C in slot 2, nothing shared.
    """
    jobs = (job("A", 1, deadline_s=600.0), job("B", 2, deadline_s=1200.0))
    late = job("C", 1, release_s=1200.0, deadline_s=1800.0)
    nodes = ((node_type(wake_energy_j=60e3), 2),)
    problem = instance(*jobs, late, nodes=nodes, objective=kilojoule(), limits=Limits(max_share=1))
    result = solved(problem)
    assert result.objective == pytest.approx((4 * 600 * 180.0 + 2 * 60e3) / 3.6e6)
    assert result.schedule is not None
    assert [s.gpus for s in result.schedule.segments if s.job in "BC"] == [((1, 0),), ((1, 0),)]


def test_gpus_with_equal_sets_of_different_jobs_are_two_choices() -> None:
    """A (1 slot) and B (4 slots), of one kind, cannot share; C is twice as fast beside either as alone.

    Beside B its 4 epochs take the 2 slots that it has; beside A it would need one more. AvgTPE: 600, 600 and
    1200 / 4 s, against 600 s alone.
    """
    pair = MeasuredSlowdown(kinds=("p", "q"), factors=(1.0, 0.5))
    problem = instance(
        job("A", 1, deadline_s=600.0),
        job("B", 4, deadline_s=2400.0),
        job("C", 4, profile="q", deadline_s=1200.0),
        nodes=((node_type(2), 1),),
        alpha=0.0,
        truth=Interference(measured=(pair,), cannot_share=(("p", "p"),)),
        profiles=(profile(), profile("q")),
    )
    assert value(problem) == pytest.approx(2.5 / 3)


def test_a_measured_power_below_the_model_is_found_where_gpus_are_priced_one_by_one() -> None:
    """Two nodes of two GPUs, two jobs of one, no sharing: 260 W on the first, measured 40 W on the second."""
    power = dataclasses.replace(node_type().power, measured=(MeasuredPower(kinds=("p",), power_w=40.0),))
    nodes = ((node_type(2), 1), (node_type(2, "m", power=power), 1))
    problem = instance(job("A"), job("B"), nodes=nodes, objective=kilojoule(), limits=Limits(max_share=1))
    assert value(problem) == pytest.approx(1200 * 40.0 / 3.6e6)


def test_mixed_gpu_counts_fill_a_node() -> None:
    """A node of two GPUs: two jobs of one GPU run beside each other, 260 W, when sharing a GPU is slow."""
    result = solved(
        instance(job("A"), job("B"), nodes=((node_type(2), 1),), factor=3.0, objective=kilojoule())
    )
    assert result.objective == pytest.approx(1200 * 260.0 / 3.6e6)
    assert result.schedule is not None
    assert {s.gpus for s in result.schedule.segments} == {((0, 0),), ((0, 1),)}


def test_a_multi_node_job_leaves_room_beside_its_rest() -> None:
    """M takes a node of two GPUs and one GPU of the next; A fits on the last: 260 + 260 W for two slots."""
    problem = instance(
        job("M", gpus=3),
        job("A"),
        nodes=((node_type(2), 2),),
        objective=kilojoule(),
        limits=Limits(max_share=1),
    )
    result = solved(problem)
    assert result.objective == pytest.approx(1200 * 520.0 / 3.6e6)
    assert len(set(starts(result).values())) == 1


def test_a_job_waits_for_a_multi_node_job_that_itself_waits() -> None:
    """A holds the first of two nodes for 3 slots, M then takes both for two; X, of 4, is due after slot 4.

    X starts in slot 1, on the second node, to share both slots of M: 180 W for 3 + 2 slots on the first node,
    180 W for 2 and 210 W for 2 on the second. Nothing but M, which touches A, keeps X from an earlier start.
    """
    problem = instance(
        job("A", 3, deadline_s=1800.0, exclusive=True),
        job("X", 4, deadline_s=3000.0),
        job("M", 2, gpus=2, deadline_s=3000.0),
        nodes=((node_type(), 2),),
        objective=kilojoule(),
    )
    result = solved(problem)
    assert result.objective == pytest.approx(600 * (5 * 180.0 + 2 * 180 + 2 * 210) / 3.6e6)
    assert starts(result) == {"A": 0.0, "X": 1.0, "M": 3.0}


def test_the_faster_type_wins_where_time_counts_and_the_thrifty_where_energy_does() -> None:
    """Type w runs an epoch in half the time, at 1000 W of server. T0 is that of w: 300 s."""
    greedy = PowerModel(
        server=ServerPower(idle_w=1000.0, busy_w=1000.0), gpu=GpuPower(standing_w=50.0, dynamic_w=100.0)
    )
    nodes = ((node_type(), 1), (node_type(name="w", gpu_type="w", power=greedy), 1))
    for alpha, node, expected in ((0.0, 1, 1.0), (1.0, 0, 1200 * 180.0 / (600 * 1080.0))):
        result = solved(instance(job("A"), nodes=nodes, profiles=(profile(w=300.0),), alpha=alpha))
        assert result.objective == pytest.approx(expected)
        assert result.schedule is not None and result.schedule.segments[0].gpus == ((node, 0),)


def test_no_jobs_cost_nothing() -> None:
    """The optimum of an instance without jobs is 0, by a schedule without segments."""
    result = solved(instance())
    assert result.objective == 0.0 == result.bound
    assert result.schedule is not None and result.schedule.segments == ()


@pytest.mark.parametrize(
    "problem",
    [
        instance(job("A", profile="q"), profiles=(profile("q", memory_gib=40.0),)), instance(job("A",
        profile="q"), profiles=(profile("q", util=0.95),)), instance(job("A", gpus=2)), instance(job("A",
        release_s=10.0, deadline_s=5.0)), instance(job("A", profile="q"), nodes=((node_type(), 0),
        (node_type(name="w", gpu_type="w"), 1)), profiles=(profile("q"),)),
    ],
    ids=["memory", "load", "GPUs", "deadline", "GPU type"],
)  # fmt: skip
def test_impossible_jobs_are_infeasible(problem: Instance) -> None:
    """A job that can run nowhere makes the instance infeasible, without a search and without an error."""
    assert solved(problem).status is Status.INFEASIBLE


# -------------------------------------------------------------------------------------- against everything


def gangs(problem: Instance, j: int) -> Iterator[list[int]]:
    """Yield every GPU set that the gang rule gives a job, types and limits aside."""
    first = np.cumsum([0, *(problem.cluster.type_of(n).gpus for n in range(len(problem.cluster.nodes)))])
    asked = problem.jobs[j]
    for t in problem.cluster.node_types:
        if problem.profile(asked.profile).epoch_time_s(t.gpu_type, asked.gpus) is None:
            continue
        nodes = [n for n, node in enumerate(problem.cluster.nodes) if node.node_type == t.name]
        full, rest = divmod(asked.gpus, t.gpus)
        for taken in itertools.combinations(nodes, full):
            body = [int(first[n]) + i for n in taken for i in range(t.gpus)]
            if not rest:
                yield body
                continue
            for n in set(nodes) - set(taken):
                for part in itertools.combinations(range(t.gpus), rest):
                    yield sorted([*body, *(int(first[n]) + i for i in part)])


def whole_space(problem: Instance, slot_s: float) -> list[list[tuple[list[int], int]]]:
    """Return for each job all pairs of GPU set and start slot, from before its release to after its deadline.

    Without a deadline: to the latest release, a wake-up, and the longest runs of all jobs, a slot more for
    each.
    """
    origin = min(j.release_s for j in problem.jobs)
    slowest = max([2.0, *(f for row in problem.truth.measured for f in row.factors)])
    horizon_s = (
        max(j.release_s for j in problem.jobs) - origin + max(t.wake_s for t in problem.cluster.node_types)
    )
    for asked in problem.jobs:
        longest = max(e.epoch_time_s for e in problem.profile(asked.profile).epoch_times)
        horizon_s += asked.epochs * longest * slowest + 2 * slot_s
    out = []
    for j, asked in enumerate(problem.jobs):
        first = math.floor((asked.release_s - origin) / slot_s)
        last = math.ceil(min(horizon_s, asked.deadline_s - origin) / slot_s)
        out.append([(gpus, k) for gpus in gangs(problem, j) for k in range(first, last)])
    return out


def best_of_all(problem: Instance, space: list[list[tuple[list[int], int]]], slot_s: float) -> float:
    """Return the least objective of all feasible plans, each evaluated by itself."""
    origin = min(j.release_s for j in problem.jobs)
    best = math.inf
    for combination in itertools.product(*space):
        plan = Plan(
            np.array([origin + k * slot_s for _, k in combination]),
            np.array([gpu for gpus, _ in combination for gpu in gpus]),
        )
        found = evaluate(problem, plan, grid_s=slot_s)
        if found.feasible:
            best = min(best, found.objective)
    return best


def shared(result: Result) -> bool:
    """Tell whether two jobs are on a GPU together at any time."""
    assert result.schedule is not None
    pairs = itertools.combinations(result.schedule.segments, 2)
    return any(
        set(a.gpus) & set(b.gpus) and max(a.start_s, b.start_s) < min(a.end_s, b.end_s) for a, b in pairs
    )


def compare_with_everything(seeds: range, most: int) -> Counter[str]:
    """Compare on all instances of the seeds that have at most `most` plans; return what they were like."""
    seen: Counter[str] = Counter()
    for seed in seeds:
        problem = random_instance(np.random.default_rng(seed))
        space = whole_space(problem, SLOT_S)
        if not 1 < math.prod(map(len, space)) <= most:
            continue
        expected = best_of_all(problem, space, SLOT_S)
        result = solved(problem, SLOT_S)
        for cut in ({}, {"_bounds": False}, {"_shifts": False}, {"_bounds": False, "_shifts": False}):
            again = bruteforce(problem, grid_s=SLOT_S, **cut)
            found = math.inf if again.objective is None else again.objective
            assert found == pytest.approx(expected, rel=1e-9, abs=1e-12), (seed, cut)
        if 0.0 < expected < math.inf:  # the bounds along a best plan stay below its value
            search = module._prepare(problem, SLOT_S, bounds=True, shifts=True)
            assert search is not None
            search.best.value[0] = expected * (1.0 + 1e-9)
            module._run(search, None, None)
            assert search.value < expected * (1.0 + 1e-10), seed
        seen.update(["instances", *features(problem)])
        if result.schedule is not None:
            seen.update(["feasible"] + ["shared"] * shared(result))
    return seen


def test_an_enumeration_without_any_cut_finds_the_same() -> None:
    """On over 100 instances of all features, of which most are feasible and many share at the optimum."""
    seen = compare_with_everything(range(220), 600)
    assert seen["instances"] >= 100
    assert seen["feasible"] >= 0.6 * seen["instances"]
    assert seen["shared"] >= 0.4 * seen["feasible"]
    assert min(seen[name] for name in FEATURES) >= 8, seen


@pytest.mark.slow
def test_an_enumeration_without_any_cut_finds_the_same_on_many() -> None:
    """The same on over a thousand instances, with up to 4,000 plans each."""
    seen = compare_with_everything(range(10_000, 12_000), 4_000)
    assert seen["instances"] >= 1_200


LARGER = {
    "whole-node": {"jobs": 4, "nodes": 2, "gpus_per_node": 8},
    "mixed": {"jobs": 3, "nodes": 2, "gpus_per_node": 4},
}


@pytest.mark.parametrize("family", LARGER)
def test_the_sizes_that_have_to_be_quick_are(family: str) -> None:
    """4 jobs on 2 nodes, and 3 of mixed GPU counts, 15 to 50 start slots each: few steps, and nothing lost.

    Steps stand for time: they take about a microsecond each.
    """
    for seed in range(4):
        problem = generate(
            family, seed=seed, epochs=(3, 20), limits=Limits(u_threshold=1.0, max_share=3), **LARGER[family]
        )
        jobs = tuple(dataclasses.replace(j, deadline_s=j.release_s + 18 * 3600.0) for j in problem.jobs)
        problem = dataclasses.replace(problem, jobs=jobs)
        search = module._prepare(problem, 1200.0, bounds=True, shifts=True)
        assert search is not None and module._run(search, None, None) is StopReason.FINISHED
        task = search.arguments[3]
        assert (task.latest - task.earliest + 1).min() >= 15
        assert (task.latest - task.earliest + 1).max() <= 50
        assert search.steps < 300_000
        assert solved(problem, 1200.0).objective == pytest.approx(search.value, rel=1e-9)
        if seed < 2:  # slower by a factor of 10 to 100
            again = bruteforce(problem, grid_s=1200.0, _shifts=False)
            assert again.objective == pytest.approx(search.value, rel=1e-9)


def test_infinite_deadlines_end() -> None:
    """Without any deadline the walk ends, and finds what it finds with deadlines far beyond the horizon."""
    for seed in range(20):
        problem = random_instance(np.random.default_rng(seed), infinite=1.0)
        far = dataclasses.replace(
            problem, jobs=tuple(dataclasses.replace(j, deadline_s=1e9) for j in problem.jobs)
        )
        assert value(problem, SLOT_S) == value(far, SLOT_S)


# -------------------------------------------------------------------------------------- what must always hold


def test_no_policy_beats_it() -> None:
    """No feasible static schedule of a policy on the grid is better; none exists where it says infeasible."""
    compared = matched = 0
    for seed in range(60):
        problem = random_instance(np.random.default_rng(1_000 + seed), jobs=(2, 4))
        optimum = value(problem, SLOT_S)
        for name in POLICIES:
            try:
                run = simulate(problem, make_policy(name), 0, grid_s=SLOT_S)
            except ImpossibleJobsError:
                assert optimum == math.inf
                continue
            if run.evaluation.feasible and run.schedule.schedule_class is ScheduleClass.STATIC:
                compared += 1
                assert run.evaluation.objective >= optimum * (1.0 - 1e-9)
                matched += run.evaluation.objective <= optimum * (1.0 + 1e-9)
    assert compared >= 40
    assert matched >= 10  # the optimum is not below reach


def test_names_order_and_origin_change_no_value() -> None:
    """Jobs and nodes renamed, rows permuted, all times shifted, submit indices kept: the same optimum."""
    for seed in range(25):
        problem = random_instance(np.random.default_rng(2_000 + seed))
        jobs = [
            dataclasses.replace(
                j, name=f"x{9 - j.submit_index}", release_s=j.release_s + 1e5, deadline_s=j.deadline_s + 1e5
            )
            for j in problem.jobs
        ]
        nodes = tuple(Node(name=f"y{i}", node_type=n.node_type) for i, n in enumerate(problem.cluster.nodes))
        other = dataclasses.replace(
            problem,
            jobs=tuple(reversed(jobs)),
            cluster=dataclasses.replace(problem.cluster, nodes=nodes[::-1]),
        )
        assert value(other, SLOT_S) == pytest.approx(value(problem, SLOT_S), rel=1e-9)


def test_loosening_never_raises_the_optimum() -> None:
    """A later deadline, a higher threshold or K, a further node (sleep power 0): never worse (9.2)."""
    better = 0
    for seed in range(40):
        problem = random_instance(np.random.default_rng(3_000 + seed))
        types = tuple(dataclasses.replace(t, sleep_w=0.0) for t in problem.cluster.node_types)
        problem = dataclasses.replace(problem, cluster=dataclasses.replace(problem.cluster, node_types=types))
        before = value(problem, SLOT_S)
        limits = problem.limits
        looser = [
            dataclasses.replace(
                problem,
                jobs=tuple(dataclasses.replace(j, deadline_s=j.deadline_s + SLOT_S) for j in problem.jobs),
            ),
            dataclasses.replace(
                problem, limits=dataclasses.replace(limits, u_threshold=limits.u_threshold + 0.3)
            ),
            dataclasses.replace(problem, limits=dataclasses.replace(limits, mem_threshold=1.0)),
            dataclasses.replace(problem, limits=dataclasses.replace(limits, max_share=limits.max_share + 1)),
            dataclasses.replace(
                problem,
                cluster=dataclasses.replace(
                    problem.cluster,
                    nodes=(*problem.cluster.nodes, Node(name="more", node_type=types[0].name)),
                ),
            ),
        ]
        for other in looser:
            after = value(other, SLOT_S)
            assert after <= before * (1.0 + 1e-9)
            better += after < before
    assert better >= 10


# ------------------------------------------------------------------------------------------------ the walk


def whole_plans(problem: Instance, grid_s: float = D) -> int:
    """Return how many whole plans the walk sees without bounds and shifts."""
    search = module._prepare(problem, grid_s, bounds=False, shifts=False)
    assert search is not None and module._run(search, None, None) is StopReason.FINISHED
    return search.plans


def test_equal_gpus_nodes_and_jobs_are_told_apart_once() -> None:
    """Counts worked by hand; without symmetry they would be 12, 36, 16 and 64.

    One job of 2 of 4 GPUs on 2 nodes, one slot to start in: one plan. Two such jobs that differ: on the same
    two GPUs, on one and on another, on the other two, or on the other node: 4. Two equal jobs of a node
    each, two slots, no sharing: on one node in turn (the window has no room), or on two: starts (0, 0), (0,
    1), (1, 1): 3; two different ones: also (1, 0): 4. With sharing allowed, two different ones also take one
    node: 8.
    """
    due, nodes = 1200.0, ((node_type(4), 2),)
    assert whole_plans(instance(job("A", gpus=2, deadline_s=due), nodes=nodes)) == 1
    pair = (job("A", gpus=2, deadline_s=due), job("B", 1, gpus=2, deadline_s=600.0))
    assert whole_plans(instance(*pair, nodes=nodes)) == 4
    equal = tuple(job(name, gpus=4, deadline_s=1800.0) for name in "AB")
    assert whole_plans(instance(*equal, nodes=nodes, limits=Limits(max_share=1))) == 3
    differ = (equal[0], dataclasses.replace(equal[1], deadline_s=1801.0))
    assert whole_plans(instance(*differ, nodes=nodes, limits=Limits(max_share=1))) == 4
    assert whole_plans(instance(*differ, nodes=nodes)) == 8


def test_priority_is_no_difference() -> None:
    """Jobs that differ in name, submit index and priority only are ordered: it is no constraint (1.2)."""
    equal = [job(name, gpus=1, deadline_s=1800.0, priority=p) for name, p in (("A", 0), ("B", 5))]
    assert whole_plans(instance(*equal)) == 3


def test_the_estimate_is_the_product_of_slots_and_gpu_sets() -> None:
    """The horizon is as long as all runs together: 2 slots for A alone, 3 for A and B.

    A takes 2 of 4 GPUs. Alone it starts at once, on a pair of the one node that it needs: 6. Beside B,
    which has 3 slots to start in and 8 GPUs, it has 2 slots and 12 pairs: 24 * 24.
    """
    nodes = ((node_type(4), 2),)
    one = job("A", gpus=2, deadline_s=9 * D)
    assert estimate_plans(instance(one, nodes=nodes), D) == 6.0
    assert estimate_plans(instance(one, job("B", 1), nodes=nodes), D) == 24.0 * 24.0
    assert estimate_plans(instance(), D) == 1.0
    assert estimate_plans(instance(job("A", gpus=2)), D) == 0.0


def test_what_cannot_end_is_refused_beforehand() -> None:
    """Too many jobs, GPU sets, slots or plans are an error that says how many and what to do."""
    many = [job(f"j{i}", 1 + i, deadline_s=1e6) for i in range(13)]
    with pytest.raises(
        TooManyPlansError, match=r"'hand' has 13 jobs, more than 12; take fewer jobs, longer slots"
    ):
        bruteforce(instance(*many), grid_s=D)
    assert estimate_plans(instance(*many), D) == math.inf
    with pytest.raises(TooManyPlansError, match=r"has about \de\+\d\d plans on slots of 600 s"):
        bruteforce(instance(*many[:12]), grid_s=D)
    with pytest.raises(TooManyPlansError, match=r"has 184,756 GPU sets for its jobs, more than 20,000"):
        bruteforce(instance(job("A", gpus=10), nodes=((node_type(20), 1),)), grid_s=D)
    with pytest.raises(
        TooManyPlansError, match=r"a horizon of 12,000,000 slots of 0.001 s, more than 100,000"
    ):
        bruteforce(instance(job("A", 20)), grid_s=1e-3)


def large() -> Instance:
    """An instance that takes some ten thousand steps."""
    return generate(
        "mixed", jobs=5, nodes=2, gpus_per_node=4, slack=(1.3, 2.5), epochs=(3, 30), seed=1,
        limits=Limits(u_threshold=1.0, mem_threshold=1.0, max_share=3),
    )  # fmt: skip


def test_a_time_limit_of_zero_knows_nothing() -> None:
    """Stopped before the first step: unknown, no schedule, no bound."""
    result = bruteforce(large(), grid_s=3600.0, time_limit_s=0.0)
    assert (result.status, result.stop_reason) == (Status.UNKNOWN, StopReason.TIME_LIMIT)
    assert result.schedule is None and result.bound is None and result.gap is None


def test_a_time_limit_returns_the_best_so_far(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stopped at the second look at the clock: feasible, without a bound, and no better than the optimum."""
    monkeypatch.setattr(module, "_STEPS_A_CALL", 1_000)
    ticks = itertools.count(0.0, 10.0)
    monkeypatch.setattr(module.time, "perf_counter", lambda: next(ticks))
    result = bruteforce(large(), grid_s=3600.0, time_limit_s=15.0)
    monkeypatch.undo()
    assert (result.status, result.stop_reason) == (Status.FEASIBLE, StopReason.TIME_LIMIT)
    assert result.bound is None and result.gap is None
    assert result.schedule is not None and check_report(large(), result.schedule, grid_s=3600.0).feasible
    assert result.objective is not None and result.objective >= value(large(), 3600.0)


def test_ctrl_c_returns_the_best_so_far(monkeypatch: pytest.MonkeyPatch) -> None:
    """An interruption ends the search, not the program; what was found and reported is returned."""
    monkeypatch.setattr(module, "_STEPS_A_CALL", 1_000)
    ticks = itertools.count(0.0, 1.0)
    monkeypatch.setattr(module.time, "perf_counter", lambda: next(ticks))
    told: list[tuple[float, float | None, float | None]] = []

    def progress(seconds: float, best: float | None, bound: float | None) -> None:
        told.append((seconds, best, bound))
        if len(told) == 3:
            raise KeyboardInterrupt

    result = bruteforce(large(), grid_s=3600.0, progress=progress)
    assert (result.status, result.stop_reason) == (Status.FEASIBLE, StopReason.INTERRUPTED)
    times, values, bounds = zip(*told, strict=True)
    assert list(times) == sorted(times)
    assert set(bounds) == {None}
    assert result.objective == pytest.approx(values[-1], rel=1e-9)


@pytest.mark.parametrize("grid_s", [0.0, -1.0, math.nan, math.inf, "600"])
def test_an_unusable_slot_is_refused(grid_s: Any) -> None:
    """The slot has to be a positive, finite number."""
    with pytest.raises(DomainError, match="bruteforce: grid_s"):
        bruteforce(instance(job("A")), grid_s=grid_s)


def test_other_bad_input_is_refused() -> None:
    """A negative time limit, and something that is no instance."""
    with pytest.raises(DomainError, match="bruteforce: time_limit_s"):
        bruteforce(instance(job("A")), grid_s=D, time_limit_s=-1.0)
    with pytest.raises(EacoError, match=r"expected an Instance, got 'file\.json'"):
        bruteforce("file.json", grid_s=D)  # type: ignore[arg-type]


def test_a_walk_that_evaluate_contradicts_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """If the walk's own value and `evaluate` differ, nothing is returned."""
    original = module.evaluate

    def dearer(*arguments: Any, **options: Any) -> Any:
        found = original(*arguments, **options)
        return dataclasses.replace(found, objective=found.objective * (1.0 + 1e-6))

    monkeypatch.setattr(module, "evaluate", dearer)
    with pytest.raises(RuntimeError, match="the walk found a plan of value"):
        bruteforce(instance(job("A")), grid_s=D)


# ------------------------------------------------------------------------------------------------ the page


def test_the_page_says_what_the_code_does(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The examples of docs/exact.md run as printed; parameters and limits are those of the code."""
    page = (root / "docs" / "exact.md").read_text(encoding="utf-8")
    code, solving, *_ = re.findall(r"```python\n(.*?)```", page, flags=re.S)
    names: dict[str, Any] = {}
    exec(compile(code, "docs/exact.md", "exec"), names)  # noqa: S102 - our own page
    status, objective = capsys.readouterr().out.split()
    assert status == "optimal" and 0.0 < float(objective) < 1.0
    exec(compile(solving, "docs/exact.md", "exec"), names)  # noqa: S102 - our own page
    assert capsys.readouterr().out.split()[:3] == ["optimal", "finished", objective]
    public = [name for name in inspect.signature(bruteforce).parameters if not name.startswith("_")]
    assert re.findall(r"^\| `(\w+)` \|", page, flags=re.M)[: len(public)] == public
    for limit in (
        f"{module.MOST_JOBS} jobs",
        f"{module.MOST_CHOICES:,} GPU sets",
        f"{module.MOST_SLOTS:,} slots",
        f"$10^{{{round(math.log10(module.MOST_PLANS))}}}$ plans",
    ):
        assert f"| {limit} " in page
