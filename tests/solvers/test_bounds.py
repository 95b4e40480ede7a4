"""Bounds: small ones worked by hand, and that no schedule from anywhere lies below one."""

from __future__ import annotations

import dataclasses
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from eaco_opt import evaluate
from eaco_opt.cluster import Cluster, Node
from eaco_opt.errors import EacoError, ImpossibleJobsError, UnknownNameError
from eaco_opt.evaluation import Evaluation
from eaco_opt.impossible import impossible_jobs
from eaco_opt.instance import Instance
from eaco_opt.limits import Objective, ObjectiveForm
from eaco_opt.policies import make_policy
from eaco_opt.power import GpuPower, MeasuredPower, PowerModel, ServerPower
from eaco_opt.profile import EpochTime
from eaco_opt.result import Status
from eaco_opt.schedule import Plan
from eaco_opt.simulator import simulate
from experiments.shares import relaxed_instance
from formulations.configurations import configurations
from formulations.costs import Rates, rates_of
from instances import generate
from solvers.bounds import bound, energy_rates
from solvers.bounds.certificate import certified_bound, confirmed
from solvers.bounds.configuration_lp import ConfigurationLp
from solvers.bruteforce import TooManyPlansError, bruteforce
from solvers.verify import InternalError
from tests.experiments.tiny import BOX, instance, job
from tests.solvers.random_instances import SLOT_S, agreement_instance, random_instance

KWH_J = 3.6e6
THE_FOUR = ("fifo", "fifo_packed", "gandiva", "eaco")


def value(problem: Instance, **more: Any) -> float:
    """Return the bound on the objective."""
    found = bound(problem, **more).value
    assert found is not None
    return found


# --- By hand: 100 W a node whatever runs on it, 1000 s a job alone, objective of exclusive execution 1 ------


def test_one_job_alone() -> None:
    """One job costs what it costs alone."""
    found = bound(instance(job("a")))
    assert found.value == pytest.approx(1.0, abs=1e-8)
    assert found.energy_kwh == pytest.approx(100.0 * 1000.0 / KWH_J, rel=1e-8)
    assert found.closed_form == pytest.approx(1.0, abs=1e-8)
    assert found.value <= 1.0  # n_j is loosened by 1e-9, and rounding goes down


def test_two_jobs_share_if_that_is_cheaper() -> None:
    """Without slowdown a pair halves the energy: 0.5 * 0.5 + 0.5; at twice the time it saves nothing."""
    assert value(instance(job("a"), job("b"), slowdown=1.0)) == pytest.approx(0.75, abs=1e-8)
    # Together 2000 s at 100 W: the same energy, and AvgTPE doubles. So alone.
    assert value(instance(job("a"), job("b"), slowdown=2.0)) == pytest.approx(1.0, abs=1e-8)
    # Slowdown 1.5: energy 1500 s of 2000 s, AvgTPE 1.5: 0.375 + 0.75 > 1. With alpha 1 only the first counts.
    assert value(instance(job("a"), job("b"), slowdown=1.5)) == pytest.approx(1.0, abs=1e-8)
    assert value(instance(job("a"), job("b"), slowdown=1.5, alpha=1.0)) == pytest.approx(0.75, abs=1e-8)


def test_jobs_whose_windows_do_not_meet_do_not_share() -> None:
    """The closed form does not see windows, the LP does."""
    problem = instance(
        job("a", deadline_s=1000.0), job("b", release_s=2000.0, deadline_s=3000.0), slowdown=1.0
    )
    found = bound(problem)
    assert found.closed_form == pytest.approx(0.75, abs=1e-8)
    assert found.value == pytest.approx(1.0, abs=1e-6)


def test_a_pair_on_half_a_node_each() -> None:
    """Two jobs of one GPU fill a node of two side by side: 100 W for 1000 s serve both."""
    problem = instance(job("a", gpus=1), job("b", gpus=1), slowdown=2.0)
    # Alone each pays for a node of its own: E0 is 2 * 100 W * 1000 s. So 0.5 * 0.5 + 0.5 * 1.
    assert value(problem) == pytest.approx(0.75, abs=1e-8)


def test_a_node_is_charged_as_if_it_were_uniform() -> None:
    """Server power 2u - u^2 of 100 W: a node at u = 0.5 draws 75 W, and two halves pay 37.5 W each."""
    curve = PowerModel(
        server=ServerPower(idle_w=0.0, busy_w=100.0, exponent=2.0),
        gpu=GpuPower(standing_w=0.0, dynamic_w=0.0),
    )
    box = dataclasses.replace(BOX, power=curve)
    problem = instance(job("a", gpus=1), job("b", gpus=1), alpha=1.0)
    profiles = tuple(dataclasses.replace(p, cpu_share=0.5) for p in problem.profiles)
    problem = dataclasses.replace(problem, cluster=Cluster.uniform(box, 1), profiles=profiles)
    # Uniform node of two such jobs: u = 0.5. A job by itself: u = 0.25, 43.75 W. The chord says 25 W a GPU.
    found = bound(problem)
    assert found.energy_kwh == pytest.approx(2 * 37.5 * 1000.0 / KWH_J, rel=1e-8)
    assert found.value == pytest.approx(75.0 / (2 * 43.75), rel=1e-8)


def test_a_measured_node_that_draws_more_than_the_model_binds_whole_nodes_only() -> None:
    """Measured 150 W: whole-node jobs pay it; where GPUs are shared by parts a mixed node would not."""
    power = dataclasses.replace(BOX.power, measured=(MeasuredPower(kinds=("slow",), power_w=150.0),))
    box = dataclasses.replace(BOX, power=power)
    whole = dataclasses.replace(instance(job("a")), cluster=Cluster.uniform(box, 1))
    assert bound(whole).energy_kwh == pytest.approx(150.0 * 1000.0 / KWH_J, rel=1e-8)
    part = dataclasses.replace(instance(job("a", gpus=1)), cluster=Cluster.uniform(box, 1))
    assert bound(part).energy_kwh == pytest.approx(50.0 * 1000.0 / KWH_J, rel=1e-8)
    less = dataclasses.replace(BOX.power, measured=(MeasuredPower(kinds=("slow",), power_w=60.0),))
    cheap = dataclasses.replace(part, cluster=Cluster.uniform(dataclasses.replace(BOX, power=less), 1))
    assert bound(cheap).energy_kwh == pytest.approx(30.0 * 1000.0 / KWH_J, rel=1e-8)


def test_more_work_than_time_is_proved_infeasible() -> None:
    """Two whole-node jobs of 1000 s with 1500 s on one node; with two nodes, or with sharing, they fit."""
    late = instance(job("a", deadline_s=1500.0), job("b", deadline_s=1500.0), max_share=1)
    found = bound(late)
    assert (found.value, found.infeasible, found.energy_kwh) == (None, True, None)
    assert "less time than the jobs need" in found.message
    two = dataclasses.replace(late, cluster=Cluster.uniform(BOX, 2))
    assert value(two) == pytest.approx(1.0, abs=1e-8)
    hopeless = bound(instance(job("a", deadline_s=999.0)))
    assert hopeless.infeasible and "'a' can never be served" in hopeless.message


def test_capacity_that_binds_raises_the_bound() -> None:
    """Three jobs due at 2000 s on one node: two of them have to share, which costs more than being alone."""
    jobs = [job(name, deadline_s=2000.0) for name in "abc"]
    # Slowdown 1.2, alpha 0: each second alone that is given up costs. Alone x, in pairs y, in 1000 s:
    # x + 2 y / 1.2 >= 3 within x + y = 2, so y = 1.5. AvgTPE 0.5 + 2 * 1.5 = 3.5 of 3.
    tight = instance(*jobs, slowdown=1.2, alpha=0.0)
    assert value(tight) == pytest.approx(3.5 / 3.0, rel=1e-6)
    loose = instance(*(job(name) for name in "abc"), slowdown=1.2, alpha=0.0)
    assert value(loose) == pytest.approx(1.0, abs=1e-8)


def test_a_job_on_two_nodes_pays_for_both() -> None:
    """Four GPUs on boxes of two: two nodes for 1000 s."""
    problem = dataclasses.replace(instance(job("a", gpus=4)), cluster=Cluster.uniform(BOX, 2))
    found = bound(problem)
    assert found.energy_kwh == pytest.approx(200.0 * 1000.0 / KWH_J, rel=1e-8)
    assert found.value == pytest.approx(1.0, abs=1e-8)


def test_the_cheaper_of_two_node_types() -> None:
    """A box of 60 W beside one of 100 W: the bound takes the cheaper."""
    power = dataclasses.replace(BOX.power, server=ServerPower(idle_w=60.0, busy_w=60.0))
    small = dataclasses.replace(BOX, name="small", power=power)
    cluster = Cluster(
        node_types=(BOX, small), nodes=(Node(name="x", node_type="box"), Node(name="y", node_type="small"))
    )
    found = bound(dataclasses.replace(instance(job("a")), cluster=cluster))
    assert found.energy_kwh == pytest.approx(60.0 * 1000.0 / KWH_J, rel=1e-8)


def test_sleep_power_and_pue() -> None:
    """Two nodes that sleep at 10 W: 100 W for 1000 s on one, 10 W on the other; PUE 1.5 multiplies."""
    box = dataclasses.replace(BOX, sleep_w=10.0)
    problem = dataclasses.replace(instance(job("a")), cluster=Cluster.uniform(box, 2, pue=1.5))
    assert bound(problem).energy_kwh == pytest.approx(1.5 * 110.0 * 1000.0 / KWH_J, rel=1e-8)


def test_weight_of_jtt_and_raw_objective() -> None:
    """A job's total time is at least its running time: w * 1000 s / J0; raw counts hours and kWh."""
    problem = instance(job("a"))
    weighted = dataclasses.replace(problem, objective=Objective(alpha=0.5, jtt_weight=0.3))
    assert value(weighted) == pytest.approx(1.3, abs=1e-8)
    raw = dataclasses.replace(
        problem, objective=Objective(alpha=0.25, form=ObjectiveForm.RAW, jtt_weight=0.1)
    )
    hours = 1000.0 / 3600.0
    assert value(raw) == pytest.approx(0.25 * 0.1 * hours + 0.75 * 0.1 * hours + 0.1 * hours, rel=1e-8)


def test_work_before_the_earliest_release_costs_no_energy() -> None:
    """Started 0.9 us early, within the tolerance of times, a job of 10 ms saves 9e-5 of its energy."""
    problem = instance(job("a", epochs=1))
    quick = tuple(
        dataclasses.replace(p, epoch_times=(EpochTime(gpu_type="G", epoch_time_s=0.01),))
        for p in problem.profiles
    )
    problem = dataclasses.replace(problem, profiles=quick)
    outcome = evaluate(problem, Plan(start_s=np.array([-9e-7]), gpus=np.array([0, 1])))
    assert outcome.feasible
    assert outcome.energy_j == pytest.approx(1.0 - 9e-5, rel=1e-9)
    under(problem, outcome, "early")


def test_exclusive_jobs_stay_alone() -> None:
    """Sharing would halve the energy, but one of the two tolerates nobody."""
    assert value(instance(job("a", exclusive=True), job("b"), slowdown=1.0)) == pytest.approx(1.0, abs=1e-8)


def test_kinds_and_limits() -> None:
    """The closed form by itself; no time leaves it; no jobs cost nothing; wrong requests are refused."""
    problem = generate("whole-node", jobs=12, nodes=4, seed=0)
    closed, best = bound(problem, "closed-form"), bound(problem)
    assert closed.value is not None and best.value is not None
    assert closed.kind == "closed-form" and best.kind == "configuration-lp"
    assert closed.value <= best.value
    assert best.converged and best.lp_value == pytest.approx(best.value, rel=1e-5)
    hasty = bound(problem, time_limit_s=0.0)
    assert hasty.value == pytest.approx(closed.value, rel=1e-12)
    assert not hasty.converged
    assert bound(problem, energy=False).energy_kwh is None
    assert bound(dataclasses.replace(problem, jobs=())).value == 0.0
    with pytest.raises(UnknownNameError, match="unknown kind of bound 'magic'; known are: auto, closed-form"):
        bound(problem, "magic")
    with pytest.raises(EacoError, match="expected an Instance"):
        bound("problem.json")  # type: ignore[arg-type]
    with pytest.raises(EacoError, match="time_limit_s"):
        bound(problem, time_limit_s=-1.0)


def test_a_claim_above_its_prices_is_an_internal_error() -> None:
    """The certificate does not confirm one part in a million more."""
    problem = generate("mixed", jobs=10, nodes=2, seed=1)
    found = bound(problem)
    assert found.value is not None and found.prices is not None
    assert confirmed("bound", problem, found.value, found.prices) <= found.value
    with pytest.raises(InternalError, match=r"claimed to be at least .*, its prices prove"):
        confirmed("bound", problem, found.value * (1.0 + 1e-6), found.prices)


# --- No schedule lies below ---------------------------------------------------------------------------------


def hostile(seed: int) -> Instance:
    """Return a random instance of every feature, some with ties, tiny and huge epochs, or equal deadlines."""
    rng = np.random.default_rng(seed)
    problem = random_instance(rng)
    trick = seed % 5
    if trick == 1:
        jobs = tuple(
            dataclasses.replace(j, epochs=1 if k % 2 else 1_000_000, deadline_s=math.inf)
            for k, j in enumerate(problem.jobs)
        )
    elif trick == 2:
        last = max(j.deadline_s for j in problem.jobs)
        jobs = tuple(dataclasses.replace(j, release_s=0.0, deadline_s=last) for j in problem.jobs)
    elif trick == 3:
        first = problem.jobs[0]
        jobs = tuple(
            dataclasses.replace(first, name=j.name, submit_index=j.submit_index) for j in problem.jobs
        )
    else:
        jobs = problem.jobs
    return dataclasses.replace(problem, jobs=jobs)


def under(problem: Instance, outcome: Evaluation, seed: object) -> None:
    """Fail if a schedule lies below the bound that it may be set beside."""
    kept = problem if outcome.feasible else relaxed_instance(problem, outcome)
    found = bound(kept)
    assert not found.infeasible, seed
    assert found.value is not None and found.energy_kwh is not None and found.closed_form is not None
    assert found.value <= outcome.objective * (1.0 + 1e-9) + 1e-12, seed
    assert found.energy_kwh * KWH_J <= outcome.energy_j * (1.0 + 1e-9) + 1e-9, seed
    assert found.closed_form <= found.value * (1.0 + 1e-9) + 1e-12, seed
    assert found.prices is not None
    proved = certified_bound(kept, found.prices)
    assert proved is not None
    assert found.value <= proved <= Fraction(found.value) * (1 + Fraction(1, 10**6)) + Fraction(1, 10**9)


def check_policies(seeds: range) -> int:
    """Compare the bound with every policy's schedule of every class; return how many were compared."""
    compared = 0
    for seed in seeds:
        problem = hostile(seed)
        if any(not j.deadline_only for j in impossible_jobs(problem)):
            continue
        for name in THE_FOUR:
            try:
                run = simulate(problem, make_policy(name))
            except ImpossibleJobsError:
                continue
            if run.evaluation.physical_violations == 0:
                under(run.instance, run.evaluation, (seed, name))
                compared += 1
    return compared


def check_optima(seeds: range) -> int:
    """Compare the bound with optima on a grid; return how many were compared."""
    compared = 0
    for seed in seeds:
        problem = agreement_instance(seed)
        try:
            truth = bruteforce(problem, grid_s=SLOT_S)
        except TooManyPlansError:
            continue
        if truth.status is Status.OPTIMAL and truth.evaluation is not None:
            under(problem, truth.evaluation, seed)
            compared += 1
        elif truth.status is Status.INFEASIBLE:
            bound(problem)  # whatever it says, it says it without an error
    return compared


@pytest.mark.parametrize("chunk", range(4))
def test_no_policy_lies_below(chunk: int) -> None:
    """Of any class, in continuous time; with misses or excess, the relaxed bound. Hostile data."""
    assert check_policies(range(25 * chunk, 25 * chunk + 25)) >= 40


@pytest.mark.parametrize("chunk", range(2))
def test_no_optimum_on_a_grid_lies_below(chunk: int) -> None:
    """Brute force on slots finds nothing below the bound in continuous time."""
    assert check_optima(range(40 * chunk, 40 * chunk + 40)) >= 10


@pytest.mark.slow
@pytest.mark.parametrize("chunk", range(40))
def test_thousands_of_policies_and_optima(chunk: int) -> None:
    """The same, 50 times as many."""
    first = 1_000 + 100 * chunk
    assert check_policies(range(first, first + 100)) >= 160
    assert check_optima(range(first, first + 50)) >= 10


def test_any_prices_prove_something() -> None:
    """Random, zero, huge prices: never above an optimum; in unbounded intervals they are scaled down."""
    rng = np.random.default_rng(7)
    compared = 0
    for seed in range(30):
        problem = agreement_instance(seed)
        truth = bruteforce(problem, grid_s=SLOT_S)
        if truth.objective is None or impossible_jobs(problem):
            continue
        lp = ConfigurationLp(configurations(problem))
        lp.charge(rates_of(problem))
        base = lp.closed_form()
        for factor in (0.0, 0.5, 1.0, 1.5, 1e3, 1e9):
            got, used = lp.lagrangian(base * factor * rng.random(len(base)) * 2.0)
            assert got <= truth.objective * (1.0 + 1e-9) + 1e-12, (seed, factor)
            assert (used >= 0.0).all()
            compared += 1
    assert compared >= 60


@pytest.mark.parametrize("sleep_w", [100.0, math.nextafter(100.0, 0.0), 100.0 - 1e-12, 99.99])
def test_nodes_that_sleep_at_full_power(sleep_w: float) -> None:
    """Running costs nothing then: 100 W on every node for 1000 s is all, with and without unbounded time."""
    problem = instance(job("a"), job("b", gpus=1), alpha=1.0)
    for nodes in (1, 3):
        cluster = Cluster.uniform(dataclasses.replace(BOX, sleep_w=sleep_w), nodes)
        found = bound(dataclasses.replace(problem, cluster=cluster))
        assert found.energy_kwh is not None
        # One after the other on one node, 2000 s, is dearer than the others' sleep by the difference only.
        awake_kwh = (100.0 - sleep_w) * 2000.0 / KWH_J
        asleep_kwh = nodes * sleep_w * 1000.0 / KWH_J
        assert asleep_kwh * (1.0 - 1e-8) <= found.energy_kwh <= asleep_kwh + awake_kwh


def test_prices_of_one_objective_serve_another() -> None:
    """Columns are kept from one objective to the next, and the second bound is that of a fresh LP."""
    problem = generate("mixed", jobs=15, nodes=3, seed=3)
    kept = ConfigurationLp(configurations(problem))
    for rates in (
        rates_of(problem),
        energy_rates(problem),
        Rates(energy=1e-6, running=np.full(15, 1e-5), total=0.0),
    ):
        kept.charge(rates)
        fresh = ConfigurationLp(configurations(problem))
        fresh.charge(rates)
        assert kept.solve().value == pytest.approx(fresh.solve().value, rel=2e-5)


def test_a_limit_on_time_or_a_stop_leaves_a_valid_bound() -> None:
    """Stopped after the first round, the bound is at least the closed form and at most the LP."""
    problem = generate("whole-node", jobs=60, nodes=10, seed=2)
    whole = bound(problem)
    early = bound(problem, stop=lambda: True)
    assert early.value is not None and whole.value is not None and whole.closed_form is not None
    assert whole.closed_form - 1e-12 <= early.value <= whole.value + 1e-12
    assert [b for _, b, _ in whole.curve] == sorted(b for _, b, _ in whole.curve)
