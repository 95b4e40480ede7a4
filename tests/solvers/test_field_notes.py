"""Traps of solvers that others fell into, each a test that names it; more stand in the tests beside this."""

from __future__ import annotations

import ast
import dataclasses
import math
import re
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pulp
import pytest

from eaco_opt.cluster import Cluster
from eaco_opt.io import instance_digest
from eaco_opt.power import GpuPower, PowerModel, ServerPower
from eaco_opt.result import Status, StopReason
from formulations.base import Outcome, ScalingError
from formulations.cpsat import CpsatFormulation
from formulations.grid import make_grid
from formulations.highs import load_empty
from formulations.milp import MilpFormulation, MilpModel
from formulations.placing import plan_of
from formulations.scaling import cost_scale
from solvers import solve
from solvers.backends.cbc import Cbc
from solvers.base import METHODS
from solvers.explain import explain
from solvers.search import best_policy_plan
from tests.experiments.tiny import BOX, instance, job, two_in_a_row

SLOT_S = 500.0


def model() -> MilpModel:
    problem = two_in_a_row(slowdown=1.5, alpha=1.0)
    return MilpFormulation().build(problem, make_grid(problem, SLOT_S))


def fooling() -> Any:
    """The model of field note 2, which is feasible.

    x0 = x1 = x2 = 1 and c0 = c1 = 0 satisfies every row, the last with equality (9000 + 7200 = 16200), and
    costs 0, the least that there is.
    """
    problem = pulp.LpProblem("fooling", pulp.LpMinimize)
    x0, x1, x2, c0, c1 = (pulp.LpVariable(n, cat="Binary") for n in ("x0", "x1", "x2", "c0", "c1"))
    problem += c0 + c1
    problem += x0 + c1 == 1
    problem += x0 + c0 >= 1
    problem += x1 + c1 <= 1
    problem += c0 + c1 <= 1
    problem += x2 == 1
    problem += 9000 * x1 + 7200 * x2 + 10800 * c1 >= 16200
    return problem


class Says(pulp.LpSolver):
    """Says what it is told to, and leaves values as they are."""

    name = "SAYS"

    def __init__(self, status: int, solution: int) -> None:
        super().__init__()
        self._says = (status, solution)

    def actualSolve(self, lp: Any) -> int:
        lp.assignStatus(*self._says)
        return self._says[0]


def test_1_optimal_of_a_stopped_run_without_a_solution() -> None:
    """Note 1: PuLP says optimal, all variables and the objective read 0.0; here: unknown, and no value."""
    told = Says(pulp.LpStatusOptimal, pulp.LpSolutionOptimal)
    found = model()
    for variable in found.variables.values():
        variable.varValue = 0.0
    outcome = found.solve_with(told, time_limit_s=60.0)
    assert outcome.status is Status.UNKNOWN
    assert outcome.plan is outcome.objective is outcome.bound is None


def test_1_optimal_of_a_stopped_run_with_a_solution() -> None:
    """Note 1: "optimal" at the limit is a schedule without a bound, and the reason is the limit."""
    found = model()
    plan = best_policy_plan(found.instance, SLOT_S)
    assert plan is not None
    found.start_from(plan)  # values that the solver leaves as they are
    told = Says(pulp.LpStatusOptimal, pulp.LpSolutionOptimal)
    outcome = found.solve_with(told, time_limit_s=0.0)
    assert (outcome.status, outcome.stop_reason, outcome.bound) == (
        Status.FEASIBLE,
        StopReason.TIME_LIMIT,
        None,
    )


@pytest.mark.skipif(not Cbc().available(), reason="no CBC here")
def test_2_cbc_calls_a_feasible_model_infeasible() -> None:
    """Note 2: where a feasible schedule is known, "infeasible" is a contradiction, and the schedule stays."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        cbc = pulp.PULP_CBC_CMD(msg=False)
        problem = fooling()
        problem.solve(cbc)
        if problem.status != pulp.LpStatusInfeasible:
            pytest.skip("this CBC solves it")
        # The same wrong word about a model of ours, by the code that every back end of PuLP runs through.
        found = model()
        plan = best_policy_plan(found.instance, SLOT_S)
        assert plan is not None
        found.start_from(plan)
        found.problem = fooling()
        outcome = found.solve_with(cbc, time_limit_s=60.0)
    assert (outcome.status, outcome.stop_reason) == (Status.FEASIBLE, StopReason.ERROR)
    assert outcome.message.startswith("contradiction: PULP_CBC_CMD by PuLP: Infeasible")
    assert outcome.plan is plan and outcome.bound is None


def test_2_the_default_back_end_is_not_fooled() -> None:
    """Note 2: HiGHS, the default, finds the optimum of 0 of that model."""
    problem = fooling()
    problem.solve(pulp.HiGHS(msg=False))
    assert problem.status == pulp.LpStatusOptimal and problem.objective.value() == pytest.approx(0.0)


@pytest.mark.parametrize("name", [name for name in METHODS.names() if METHODS.get(name)().exact])
def test_3_a_difference_below_the_default_gap_of_highs_is_seen(name: str) -> None:
    """Note 3: HiGHS stops at a gap of 1e-4 by default; here all tell 100.000 W from 100.004 W (4e-5).

    Two jobs of 1000 s each, in turn or beside each other: 2000 s of the cheaper node's 100 W, less than any
    use of the dearer one's. Energy alone counts; E0 is that of the cheaper node.
    """
    assert load_empty().getOptionValue("mip_rel_gap")[1] == 1e-4
    dearer = dataclasses.replace(
        BOX,
        name="dearer",
        power=PowerModel(
            server=ServerPower(idle_w=100.004, busy_w=100.004), gpu=GpuPower(standing_w=0.0, dynamic_w=0.0)
        ),
    )
    due = {"deadline_s": 2000.0}
    problem = dataclasses.replace(
        instance(job("a", **due), job("b", **due), max_share=1, alpha=1.0),
        cluster=Cluster.grouped([(dearer, 1), (BOX, 1)]),
    )
    options = {"process": "shared", "policies": False} if name != "bruteforce" else {}
    result = solve(problem, name, grid_s=SLOT_S, options=options)
    assert result.status is Status.OPTIMAL and dict(result.options)["gap"] == "0.0"
    assert result.objective == pytest.approx(1.0, rel=1e-6)
    assert result.bound == pytest.approx(1.0, rel=1e-6)


def test_4_costs_of_too_wide_a_range_are_refused() -> None:
    """Note 4: CP-SAT scales 1e9 beside 1e-9 silently and chooses wrongly; we scale, or say that we cannot."""
    with pytest.raises(ScalingError, match=r"do not fit integers of at most 2\*\*53"):
        cost_scale([1e9, 1e-9], largest_sum=1e9, active=2, tolerance=1e-12)
    scale = cost_scale([1.0, 0.3], largest_sum=1.3, active=2, tolerance=1e-9)
    assert scale.value(scale.down(0.3)) <= 0.3 <= scale.value(scale.down(0.3)) + 1e-9  # rounded down


def test_5_values_of_an_unknown_run_are_not_read() -> None:
    """Note 5: CP-SAT has an objective and a bound of 0 after a limit of 0; we have neither."""
    problem = two_in_a_row()
    outcome: Outcome = CpsatFormulation().build(problem, make_grid(problem, SLOT_S)).solve(time_limit_s=0.0)
    assert outcome.status is Status.UNKNOWN
    assert outcome.plan is outcome.objective is None
    assert outcome.bound is None or outcome.bound > 0.0


AFTER_CPSAT = """
import signal
from tests.solvers.test_field_notes import SLOT_S, two_in_a_row
from formulations.cpsat import CpsatFormulation
from formulations.grid import make_grid
problem = two_in_a_row()
CpsatFormulation().build(problem, make_grid(problem, SLOT_S)).solve()
try:
    signal.raise_signal(signal.SIGINT)
except KeyboardInterrupt:
    print("an ordinary KeyboardInterrupt")
"""


def test_ctrl_c_is_pythons_again_after_cpsat() -> None:
    """CP-SAT leaves the system's handler behind: the next Ctrl-C would end the process without a word."""
    root = Path(__file__).resolve().parents[2]
    words = [sys.executable, "-c", AFTER_CPSAT]
    done = subprocess.run(words, cwd=root, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "an ordinary KeyboardInterrupt\n"), done.stderr


def test_6_an_infeasible_start_is_more_than_a_log_line() -> None:
    """Note 6: a plan that breaks a rule is refused by the model; a feasible one satisfies every row."""
    found = model()
    plan = best_policy_plan(found.instance, SLOT_S)
    assert plan is not None
    found.start_from(plan)
    assert found._start_values is not None
    assert found.arrays.violation(found._start_values)[0] <= 1e-9
    late = type(plan)(plan.start_s + 1e6, plan.gpus)
    problem = instance(job("a", deadline_s=5000.0), job("b", deadline_s=5000.0))
    other = MilpFormulation().build(problem, make_grid(problem, SLOT_S))
    with pytest.raises(ValueError, match="feasible"):
        other.start_from(late)


def test_7_another_number_of_threads_before_does_not_matter() -> None:
    """Note 7: after HiGHS with two threads, by PuLP and by arrays, branch-and-price with one has a status."""
    problem = two_in_a_row(slowdown=1.5, alpha=1.0)
    best = solve(problem, "bruteforce", grid_s=SLOT_S).objective
    shared = {"process": "shared", "policies": False}
    for _ in range(2):
        fooling().solve(pulp.HiGHS(msg=False, threads=2))
        assert solve(problem, "branch-and-price", grid_s=SLOT_S, options=shared).objective == best
        assert solve(problem, "milp", grid_s=SLOT_S, threads=2, options=shared).objective == best
        assert solve(problem, "branch-and-price", grid_s=SLOT_S, options=shared).objective == best


def test_10_values_next_to_integers_are_rounded_and_priced_again() -> None:
    """Note 10: 0.999999 is 1; the plan is the same, and its value is that of the physics."""
    found = model()
    plan = best_policy_plan(found.instance, SLOT_S)
    assert plan is not None
    x = found.columns_of(plan)
    assert x is not None
    rng = np.random.default_rng(0)
    near = x + rng.uniform(-1e-6, 1e-6, len(x))
    values = found.values_from(dict(zip(found.arrays.names, near.tolist(), strict=True)))
    assert plan_of(found.space, values).start_s.tolist() == plan.start_s.tolist()


@pytest.mark.parametrize("name", [name for name in METHODS.names() if METHODS.get(name)().exact])
def test_11_infeasible_comes_with_a_reason(name: str) -> None:
    """Note 11: what every method calls infeasible is explained: which jobs, what binds, by how much.

    Two jobs of 2 h, one node without sharing, both due after 3 h: 1 h is missing.
    """
    jobs = [job(n, epochs=72, deadline_s=3 * 3600.0) for n in "ab"]
    problem = instance(*jobs, max_share=1)
    options = {"process": "shared", "policies": False} if name != "bruteforce" else {}
    assert solve(problem, name, grid_s=1800.0, options=options).status is Status.INFEASIBLE
    (conflict,) = explain(problem, grid_s=1800.0).conflicts
    assert set(conflict.jobs) == {"a", "b"}
    (later,) = {way.amount for way in conflict.ways if way.change == "deadline"}
    assert later == pytest.approx(1.0)
    assert "'a'" in conflict.text and "'b'" in conflict.text


def test_each_trap_of_solvers_has_a_test() -> None:
    """Field notes 1 to 13 are named by the docstring of some test of this folder."""
    named: set[int] = set()
    for path in Path(__file__).parent.glob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                for numbers in re.findall(r"\b[Nn]otes? ([\d, ]+)", ast.get_docstring(node) or ""):
                    named |= {int(n) for n in re.findall(r"\d+", numbers)}
    assert named >= set(range(1, 14))


def test_results_know_their_instance_and_versions() -> None:
    """Provenance of every exact result: digest, options, versions."""
    problem = two_in_a_row()
    result = solve(problem, "cpsat", grid_s=SLOT_S, options={"process": "shared"})
    assert result.instance_digest == instance_digest(problem)
    assert {"eaco-opt", "numpy", "python"} <= {name for name, _ in result.versions}
    assert math.isfinite(result.solve_s) and result.build_s >= 0.0
