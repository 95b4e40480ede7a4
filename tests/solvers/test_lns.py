"""The search: its costs are those of `evaluate`, its plans keep all rules, and it finds small optima."""

from __future__ import annotations

import dataclasses
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from eaco_opt.checker import check
from eaco_opt.cluster import Cluster
from eaco_opt.errors import EacoError
from eaco_opt.instance import Instance
from eaco_opt.physics import evaluate, plan_schedule
from eaco_opt.policies import make_policy
from eaco_opt.result import Status, StopReason
from eaco_opt.schedule import Placement, Plan, ScheduleClass
from eaco_opt.simulator import simulate
from instances import generate
from solvers import solve
from solvers.bruteforce import bruteforce
from solvers.lns import kernel
from solvers.lns.driver import search
from solvers.lns.parts import improved, may_be_cut, part_of
from solvers.lns.problem import Layout, layout_of, plan_of, search_problem
from solvers.methods.lns import Lns
from tests.experiments.tiny import BOX, instance, job, two_in_a_row
from tests.solvers.random_instances import SLOT_S, agreement_instance, random_instance


def nowhere(problem: Instance) -> Layout:
    """Return a plan in which no job has a place."""
    jobs = len(problem.jobs)
    return Layout(np.zeros(jobs), np.zeros(jobs, dtype=np.int64), np.full(jobs, -1, dtype=np.int64))


def spread(problem: Instance) -> bool:
    """Tell whether some job needs several nodes of some type."""
    return any(job.gpus > t.gpus for job in problem.jobs for t in problem.cluster.node_types)


@pytest.mark.parametrize("chunk", range(4))
def test_costs_are_those_of_evaluate(chunk: int) -> None:
    """What the core says of a plan is what `evaluate` says, over all features, in time and on a grid."""
    compared = 0
    for seed in range(60 * chunk, 60 * chunk + 60):
        problem = random_instance(np.random.default_rng(seed))
        if spread(problem):
            continue
        for grid_s in (None, SLOT_S):
            view = search_problem(problem, grid_s=grid_s)
            found = search(view, nowhere(problem), iterations=60, seed=seed)
            if not found.placed or len(view.jobs) < len(problem.jobs):
                continue
            outcome = evaluate(problem, plan_of(problem, view, found.layout), grid_s=grid_s)
            assert outcome.feasible, (seed, grid_s, outcome)
            assert found.value + view.constant == pytest.approx(outcome.objective, rel=1e-9, abs=1e-12), seed
            compared += 1
    assert compared >= 30


@pytest.mark.parametrize("chunk", range(2))
def test_no_better_than_the_optimum_and_nearly_always_it(chunk: int) -> None:
    """On small instances over all features: never below brute force, and equal to it but for a few."""
    equal = seen = 0
    for seed in range(20 * chunk, 20 * chunk + 20):
        problem = agreement_instance(seed)
        truth = bruteforce(problem, grid_s=SLOT_S)
        found = solve(problem, "lns", grid_s=SLOT_S, seed=seed, options={"iterations": 1_600})
        if truth.status is Status.INFEASIBLE:
            assert found.schedule is None, seed
            continue
        assert truth.objective is not None
        if found.objective is None:
            assert spread(problem), seed
            continue
        seen += 1
        assert check(problem, found.schedule, grid_s=SLOT_S) == []
        assert found.objective >= truth.objective - 1e-9 * abs(truth.objective), seed
        equal += found.objective <= truth.objective + 1e-7 * abs(truth.objective) or spread(problem)
    assert seen >= 10
    assert equal >= seen - 1


def grid_optima(seeds: range) -> tuple[int, int]:
    """Return how many proved optima of 6 to 10 jobs the search finds in 10 s, and how many there are."""
    hits = known = 0
    for seed in seeds:
        family = ("whole-node", "mixed")[seed % 2]
        jobs = 6 + (seed // 2) % (5 if family == "whole-node" else 2)
        problem = loose(generate(family, jobs=jobs, nodes=2 + seed % 2, epochs=(3, 30), seed=seed))
        truth = solve(problem, "auto", grid_s=3600.0, time_limit_s=60.0)
        if truth.status is not Status.OPTIMAL:
            continue
        known += 1
        assert truth.objective is not None
        for limit_s in (2.0, 10.0):  # what is found in 2 s is found in 10 s
            found = solve(problem, "lns", grid_s=3600.0, time_limit_s=limit_s, seed=seed, threads=2)
            assert found.objective is not None
            assert found.objective >= truth.objective * (1.0 - 1e-6)
            if found.objective <= truth.objective * (1.0 + 1e-6):
                hits += 1
                break
    return hits, known


def loose(problem: Instance) -> Instance:
    """Return an instance with K 3 and no thresholds."""
    limits = dataclasses.replace(problem.limits, max_share=3, u_threshold=1.0, mem_threshold=1.0)
    return dataclasses.replace(problem, limits=limits)


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_proved_optima_on_a_grid_are_found() -> None:
    """Of 200 seeds with 6 to 10 jobs, at least 95 % of the proved optima are found in 10 s."""
    hits, known = grid_optima(range(200))
    assert known >= 100
    assert hits >= 0.95 * known, f"{hits} of {known}"


def test_the_number_of_threads_changes_nothing() -> None:
    """With a limit on iterations the schedule depends on the seed alone, in one group and in several."""
    for nodes in (3, 40):
        problem = generate("whole-node", jobs=30, nodes=nodes, seed=1)
        found = [
            solve(problem, "lns", seed=seed, threads=threads, options={"iterations": 600})
            for seed, threads in ((0, 1), (0, 2), (1, 2))
        ]
        assert found[0].schedule == found[1].schedule
        assert found[0].schedule != found[2].schedule
        assert [f.stop_reason for f in found] == [StopReason.WORK_LIMIT] * 3
        assert all(f.reproducible for f in found)


def test_it_is_never_worse_than_its_start() -> None:
    """Even with no work at all it returns the start, and with work it improves EaCO's plan."""
    problem = generate("mixed", jobs=30, nodes=4, seed=2)
    run = simulate(problem, make_policy("eaco", observe=False))
    before = evaluate(problem, run.schedule).objective
    nothing = solve(problem, "lns", start=run.schedule, options={"iterations": 0})
    assert nothing.objective == pytest.approx(before)
    better = solve(problem, "lns", start=run.schedule, options={"iterations": 400})
    assert better.objective is not None and better.objective < before - 1e-3
    values = [value for _, value, _ in better.curve]
    assert values[0] == pytest.approx(before)
    assert all(a is not None and b is not None and b < a for a, b in pairwise(values))


def test_two_jobs_share_where_that_is_free() -> None:
    """Two equal jobs that do not slow each other down share from the start: half the energy."""
    found = solve(instance(job("a"), job("b"), slowdown=1.0), "lns", options={"iterations": 50})
    assert found.evaluation is not None
    assert found.evaluation.energy_j == pytest.approx(100.0 * 1000.0)
    assert (found.status, found.bound, found.gap) == (Status.FEASIBLE, None, None)
    assert found.schedule is not None and found.schedule.schedule_class is ScheduleClass.STATIC


def test_a_job_waits_for_its_partner() -> None:
    """Released at 0 and at 500 s, no deadlines: the first waits, so that the node is awake for 1000 s."""
    problem = instance(job("a"), job("b", release_s=500.0), slowdown=1.0)
    found = solve(problem, "lns", options={"iterations": 200})
    assert found.evaluation is not None
    assert found.evaluation.energy_j == pytest.approx(100.0 * 1000.0)
    first, second = found.evaluation.jobs.start_s.tolist()
    assert first == pytest.approx(second)
    assert first >= 500.0


def test_where_there_is_nothing_to_find() -> None:
    """A job that can never be in time is proved infeasible; two that cannot both be are not known to be."""
    found = solve(instance(job("a", deadline_s=999.0)), "lns", options={"iterations": 10})
    assert (found.status, found.schedule) == (Status.INFEASIBLE, None)
    late = instance(job("a", deadline_s=1500.0), job("b", deadline_s=1500.0), max_share=1)
    found = solve(late, "lns", options={"iterations": 100})
    assert (found.status, found.schedule, found.stop_reason) == (Status.UNKNOWN, None, StopReason.WORK_LIMIT)
    assert "no schedule that keeps all rules was found" in found.message
    empty = dataclasses.replace(late, jobs=())
    assert solve(empty, "lns", options={"iterations": 10}).objective == 0.0


def test_jobs_on_several_nodes_stay_where_the_start_has_them() -> None:
    """A job on two nodes keeps its GPUs and start, the others are moved around it."""
    problem = dataclasses.replace(
        instance(job("wide", gpus=4, deadline_s=3000.0), job("a"), job("b"), slowdown=1.0),
        cluster=Cluster.uniform(BOX, 3),
    )
    start = Plan.of(
        problem,
        {
            "wide": Placement(start_s=0.0, gpus=((0, 0), (0, 1), (1, 0), (1, 1))),
            "a": Placement(start_s=0.0, gpus=((2, 0), (2, 1))),
            "b": Placement(start_s=1000.0, gpus=((2, 0), (2, 1))),
        },
    )
    schedule = plan_schedule(problem, start, method="mine")
    found = solve(problem, "lns", start=schedule, options={"iterations": 100})
    assert found.schedule is not None and found.evaluation is not None
    wide = {s.job: s for s in found.schedule.segments}["wide"]
    assert (wide.start_s, wide.gpus) == (0.0, ((0, 0), (0, 1), (1, 0), (1, 1)))
    # The node of the others is awake for 1000 s instead of 2000 s; the wide job's two nodes for 1000 s each.
    assert found.evaluation.energy_j == pytest.approx(100.0 * 3000.0)


@pytest.mark.parametrize(
    ("more", "text"),
    [
        (
            {"options": {"speed": 3}},
            "unknown option 'speed'; known are: exact_parts, iterations, operators, policies",
        ),
        ({"options": {"operators": "random,magic"}}, "unknown operator 'magic'; known are: random, time"),
        ({"options": {"operators": ","}}, "operators names none"),
        ({"options": {"iterations": -1}}, "iterations must be"),
        ({"time_limit_s": -1.0}, "time_limit_s must be"),
        ({"grid_s": "often"}, "grid_s must be a number of seconds"),
    ],
)
def test_bad_requests_are_refused(more: dict[str, Any], text: str) -> None:
    """Each with what was expected."""
    with pytest.raises(EacoError, match=text):
        solve(two_in_a_row(), "lns", **more)


def test_a_start_has_to_be_static_and_to_keep_the_rules() -> None:
    """A schedule that stops a job, and one that misses a deadline, are no starts."""
    problem = instance(job("a"), job("b", deadline_s=1500.0))
    late = Plan.of(
        problem,
        {
            "a": Placement(start_s=0.0, gpus=((0, 0), (0, 1))),
            "b": Placement(start_s=1000.0, gpus=((0, 0), (0, 1))),
        },
    )
    with pytest.raises(EacoError, match=r"the start breaks rules \(0 physical, 1 deadlines"):
        solve(problem, "lns", start=plan_schedule(problem, late, method="mine"))
    whole = plan_schedule(problem, late, method="mine")
    first = whole.segments[0]
    half = dataclasses.replace(first, end_s=500.0), dataclasses.replace(first, start_s=500.0)
    stopped = dataclasses.replace(
        whole, segments=(*half, *whole.segments[1:]), schedule_class=ScheduleClass.EPOCH
    )
    with pytest.raises(EacoError, match="the start stops or moves jobs"):
        solve(problem, "lns", start=stopped)


def test_ctrl_c_returns_the_best_so_far() -> None:
    """An interruption ends the search with what it has found."""
    problem = generate("whole-node", jobs=20, nodes=4, seed=0)
    seen: list[float] = []

    def interrupt(at: Any) -> None:
        if at.phase == "search":
            seen.append(at.objective)
            raise KeyboardInterrupt

    found = solve(problem, "lns", progress=interrupt, options={"iterations": 100_000})
    assert found.stop_reason is StopReason.INTERRUPTED
    assert found.objective == pytest.approx(seen[0])


def test_every_operator_works_alone() -> None:
    """Each destroy operator, and the shifts, leaves plans that keep all rules, no worse than the start."""
    problem = generate("mixed", jobs=16, nodes=3, seed=5)
    start = solve(problem, "lns", options={"iterations": 0})
    for name in kernel.OPERATORS:
        found = solve(problem, "lns", seed=3, options={"iterations": 200, "operators": name})
        assert found.objective is not None and start.objective is not None
        assert found.objective <= start.objective


def test_its_layouts_and_plans_are_the_same_thing() -> None:
    """A plan read into the search's form and back is itself, whole nodes or parts of them."""
    for family in ("whole-node", "mixed"):
        problem = generate(family, jobs=12, nodes=3, seed=4)
        run = simulate(problem, make_policy("eaco", observe=False))
        plan = Plan.of(
            problem, {s.job: Placement(start_s=s.start_s, gpus=s.gpus) for s in run.schedule.segments}
        )
        view = search_problem(problem)
        back = plan_of(problem, view, layout_of(problem, view, plan))
        assert back.gpus.tolist() == plan.gpus.tolist()
        assert back.start_s.tolist() == pytest.approx(plan.start_s.tolist())


def test_its_options_are_declared() -> None:
    """The defaults it declares are those of a run without options."""
    assert Lns().option_defaults() == {
        "iterations": None,
        "operators": "random,time,node,two-nodes,worst,pair,related,shift",
        "policies": True,
        "exact_parts": False,
    }


def test_parts_are_weighed_as_in_the_whole() -> None:
    """Two plans of the jobs on some nodes differ in the part as they do in the whole, up to one factor."""
    rng = np.random.default_rng(5)
    problem = loose(generate("whole-node", jobs=9, nodes=3, epochs=(3, 30), seed=4))
    for weight in (0.0, 0.3):
        whole = dataclasses.replace(
            problem, objective=dataclasses.replace(problem.objective, jtt_weight=weight)
        )
        start = solve(whole, "fifo_packed", grid_s=3600.0).schedule
        assert start is not None
        placed = {s.job: Placement(start_s=s.start_s, gpus=s.gpus) for s in start.segments}
        jobs = [j for j, job in enumerate(whole.jobs) if placed[job.name].gpus[0][0] in (0, 2)]
        assert 2 <= len(jobs) < 9
        part = part_of(whole, jobs, (0, 2), 3600.0)
        ratios = []
        base = None
        for _ in range(4):
            moved = dict(placed)
            for j in jobs:
                name = whole.jobs[j].name
                moved[name] = dataclasses.replace(
                    placed[name], start_s=placed[name].start_s + 3600.0 * int(rng.integers(0, 9))
                )
            inside = {
                whole.jobs[j].name: dataclasses.replace(
                    moved[whole.jobs[j].name],
                    gpus=tuple(({0: 0, 2: 1}[n], g) for n, g in moved[whole.jobs[j].name].gpus),
                )
                for j in jobs
            }
            values = (
                evaluate(whole, Plan.of(whole, moved), grid_s=3600.0).objective,
                evaluate(part, Plan.of(part, inside), grid_s=3600.0).objective,
            )
            if base is not None and abs(values[0] - base[0]) > 1e-6:
                ratios.append((values[1] - base[1]) / (values[0] - base[0]))
            base = values
        assert len(ratios) >= 2
        assert ratios == pytest.approx([ratios[0]] * len(ratios), rel=1e-6)


def test_exact_parts_bring_a_bad_plan_to_the_optimum() -> None:
    """From FIFO, without any search: one part holds all jobs, and what comes out is the proved optimum."""
    problem = loose(generate("whole-node", jobs=6, nodes=3, load=0.5, epochs=(3, 10), seed=1))
    truth = solve(problem, "auto", grid_s=3600.0)
    assert truth.status is Status.OPTIMAL and truth.objective is not None
    fifo = solve(problem, "fifo", grid_s=3600.0).schedule
    assert fifo is not None
    first = Plan.of(problem, {s.job: Placement(start_s=s.start_s, gpus=s.gpus) for s in fifo.segments})
    assert evaluate(problem, first, grid_s=3600.0).feasible
    told: list[float] = []
    plan, calls, better = improved(
        problem, first, 3600.0, left_s=lambda: 30.0, seed=0, threads=1, tell=told.append
    )
    found = evaluate(problem, plan, grid_s=3600.0)
    assert found.feasible and found.objective == pytest.approx(truth.objective, rel=1e-6)
    assert calls >= 1 and better == len(told) >= 1 and told[-1] == found.objective


def test_exact_parts_keep_the_limit() -> None:
    """As an option of the method: never worse than without, and the text says what was done."""
    problem = loose(generate("whole-node", jobs=8, nodes=3, epochs=(3, 30), seed=2))
    found = solve(problem, "lns", grid_s=3600.0, time_limit_s=4.0, options={"exact_parts": True})
    assert "parts solved exactly" in found.message
    assert found.schedule is not None and check(problem, found.schedule, grid_s=3600.0) == []
    with_sleep = dataclasses.replace(
        problem,
        cluster=dataclasses.replace(
            problem.cluster,
            node_types=tuple(dataclasses.replace(t, sleep_w=5.0) for t in problem.cluster.node_types),
        ),
    )
    assert not may_be_cut(with_sleep) and may_be_cut(problem)
