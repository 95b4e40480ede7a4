"""The certificate of bounds: by hand, against the compiled code, and that it shares none of it."""

from __future__ import annotations

import ast
import dataclasses
import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eaco_opt.impossible import impossible_jobs
from eaco_opt.instance import Instance
from formulations.configurations import configurations
from formulations.costs import rates_of
from instances import generate
from solvers.bounds import certificate, energy_rates
from solvers.bounds.certificate import certified_bound, confirmed
from solvers.bounds.configuration_lp import ConfigurationLp
from solvers.verify import InternalError
from tests.experiments.tiny import instance, job
from tests.solvers.random_instances import random_instance

MICRO = Fraction(1, 10**6)
BILLIONTH = Fraction(1, 10**9)
N = 10 * (1 - BILLIONTH) - MICRO / 100
"""Epochs of a job of 10 x 100 s released first: 1e-9 less, and what 1e-6 s before its release are worth."""
CLOSE_J = Fraction(1, 10**20)
"""Far above what 100 bits of gains and what is given away come to, here some 100 kJ at most."""


def joules(problem: Instance, *prices: float) -> Fraction | None:
    """Return the bound on energy."""
    return certified_bound(problem, np.array(prices), energy_only=True)


def near(got: Fraction | None, want: Fraction) -> bool:
    """Tell whether a bound is what it should be, or less by a rounding."""
    return got is not None and want - CLOSE_J <= got <= want


# --- By hand: 100 W a node, 1000 s in 10 epochs -------------------------------------------------------------


def test_prices_that_no_pattern_beats_are_paid_in_full() -> None:
    """An epoch costs 100 s * 100 W; at that price or below, the bound is epochs times price."""
    problem = instance(job("a"))
    assert near(joules(problem, 10_000.0), N * 10_000)
    assert near(joules(problem, 6_000.0), N * 6_000)
    assert joules(problem, 0.0) == 0


def test_what_patterns_gain_is_taken_off_for_all_time_that_nodes_have() -> None:
    """At 12 kJ an epoch a node gains 120 - 100 W while the job is there: until 2000 s and the tolerance."""
    problem = instance(job("a", deadline_s=2000.0))
    window = 2000 + MICRO + BILLIONTH * 2000
    assert near(joules(problem, 12_000.0), N * 12_000 - 20 * window)
    # Two nodes gain it twice.
    assert near(joules(instance(job("a", deadline_s=2000.0), nodes=2), 12_000.0), N * 12_000 - 40 * window)


def test_gains_without_end_prove_nothing() -> None:
    """Without a deadline a price above the cost has no bound, and one at the cost has."""
    problem = instance(job("a"))
    assert joules(problem, 10_001.0) is None
    with pytest.raises(InternalError, match=r"at least 1.0, its prices prove None"):
        confirmed("bound", problem, 1.0, np.array([10_001.0]), energy_only=True)


def test_a_pair_shares_the_power_of_a_node() -> None:
    """Slowdown 1.25 for both: a pair does 2 / 125 epochs a second for 100 W, 6,250 J an epoch."""
    problem = instance(job("a", deadline_s=9000.0), job("b", deadline_s=9000.0), slowdown=1.25)
    assert near(joules(problem, 6_250.0, 6_250.0), 2 * N * 6_250)
    # At 7,500 J the pair gains 2 * 7500 / 125 - 100 = 20 W, alone they gain nothing (75 - 100 W).
    window = 9000 + MICRO + BILLIONTH * 9000
    assert near(joules(problem, 7_500.0, 7_500.0), 2 * N * 7_500 - 20 * window)
    # With windows that do not meet, nobody gains; b, released later, cannot start before time 0.
    apart = instance(
        job("a", deadline_s=1000.0), job("b", release_s=2000.0, deadline_s=9000.0), slowdown=1.25
    )
    assert near(joules(apart, 7_500.0, 7_500.0), (N + 10 * (1 - BILLIONTH)) * 7_500)


def test_the_objective_counts_energy_and_running_time() -> None:
    """0.5 * 1e-5 a joule of E0 = 100 kJ and 0.5 / 1000 a second of running: 0.1 an epoch."""
    problem = instance(job("a"))
    assert near(certified_bound(problem, np.array([0.0625])), N / 16)
    assert certified_bound(problem, np.array([0.1000001])) is None
    assert certified_bound(problem, np.array([0.0999999])) is not None


def test_an_empty_instance_costs_nothing() -> None:
    """No jobs, no prices."""
    assert certified_bound(dataclasses.replace(instance(job("a")), jobs=()), np.zeros(0)) == 0


def test_a_claim_is_cut_to_what_is_proved() -> None:
    """A claim a hair too high is rounded down; one that is lower stays; a wrong one is an error."""
    problem = instance(job("a"))
    proved = float(N * 10_000)
    arguments: dict[str, Any] = {"prices": np.array([10_000.0]), "energy_only": True}
    assert confirmed("bound", problem, proved * (1 + 1e-12), **arguments) <= proved
    assert confirmed("bound", problem, 99_000.0, **arguments) == 99_000.0
    with pytest.raises(InternalError, match="is claimed to be at least"):
        confirmed("bound", problem, proved * (1 + 1e-8), **arguments)


# --- Against the compiled code ------------------------------------------------------------------------------


def compare(problem: Instance, rng: np.random.Generator) -> int:
    """Check that both implementations give the same from the same prices; return how many were compared."""
    compared = 0
    lp = ConfigurationLp(configurations(problem))
    for energy_only in (False, True):
        lp.charge(energy_rates(problem) if energy_only else rates_of(problem))
        base = lp.closed_form()
        for factor in (1.0, 1.3, 100.0):
            noise = 1.0 if factor == 1.0 else factor * rng.random(len(base))
            got, prices = lp.lagrangian(base * noise)
            proved = certified_bound(problem, prices, energy_only=energy_only)
            assert proved is not None
            # What the sums are differences of: rounding is in proportion to it.
            earned = sum(
                (Fraction(float(p)) * j.epochs for p, j in zip(prices, problem.jobs, strict=True)),
                Fraction(0),
            )
            size = 2 * earned + abs(proved)
            assert got <= proved
            assert proved - Fraction(got) <= size * BILLIONTH
            compared += 1
    return compared


def certify_all(seeds: range) -> int:
    """Compare on random instances of every feature; return how many numbers were compared."""
    compared = 0
    for seed in seeds:
        rng = np.random.default_rng([77, seed])
        problem = random_instance(rng)
        if not impossible_jobs(problem):
            compared += compare(problem, rng)
    return compared


def test_two_implementations_agree() -> None:
    """From the prices of the closed form and random ones, the objective and energy agree within rounding."""
    assert certify_all(range(120)) >= 250


@pytest.mark.slow
@pytest.mark.parametrize("chunk", range(10))
def test_two_implementations_agree_on_thousands(chunk: int) -> None:
    """The same on more."""
    assert certify_all(range(1_000 + 300 * chunk, 1_300 + 300 * chunk)) >= 600


@pytest.mark.parametrize("family", ["whole-node", "mixed"])
def test_they_agree_on_generated_instances(family: str) -> None:
    """60 jobs of the paper's models, with deadlines."""
    problem = generate(family, jobs=60, nodes=8, seed=5)
    assert compare(problem, np.random.default_rng(5)) == 6


def test_nothing_of_the_bound_itself_is_used() -> None:
    """Sets, powers and references come from the checker; no other code of bounds or physics is imported."""
    tree = ast.parse(Path(certificate.__file__).read_text(encoding="utf-8"))
    used = {
        "." * node.level + (node.module or "") for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)
    }
    allowed = {"eaco_opt.checker", "eaco_opt.instance", "eaco_opt.limits", "..verify"}
    assert {name for name in used if name.startswith(("eaco_opt", "formulations", "solvers", "."))} == allowed


def test_an_unbounded_last_interval_with_a_bounded_one_before() -> None:
    """a has until 2000 s, b for ever: at 12 kJ a may gain until its deadline, b (below cost) never does."""
    problem = instance(job("a", deadline_s=2000.0), job("b", deadline_s=math.inf), max_share=1)
    window = 2000 + MICRO + BILLIONTH * 2000
    assert near(joules(problem, 12_000.0, 9_000.0), N * 21_000 - 20 * window)
    assert joules(problem, 10_000.0, 12_000.0) is None
