"""The MILP: two builders of one model, against plain enumeration, and what is made of what solvers say."""

from __future__ import annotations

import dataclasses
import itertools
import logging
from pathlib import Path

import numpy as np
import pulp
import pytest
from scipy import sparse

from eaco_opt.checker import check
from eaco_opt.instance import Instance
from eaco_opt.limits import Limits
from eaco_opt.physics import plan_schedule
from eaco_opt.result import Status, StopReason
from formulations.base import FormulationError
from formulations.grid import make_grid
from formulations.highs import run_highs
from formulations.linear import Rows
from formulations.milp import MilpFormulation, MilpModel
from formulations.milp_arrays import MilpArraysFormulation, MilpArraysModel
from formulations.milp_terms import least_by_duration
from formulations.scaling import integer_work
from instances.generators import generate
from tests.formulations.small_instances import SLOT_S, count_plans, enumerate_optimum, random_instance


def by_arrays(instance: Instance) -> MilpArraysModel:
    return MilpArraysFormulation().build(instance, make_grid(instance, SLOT_S))


def by_objects(instance: Instance) -> MilpModel:
    return MilpFormulation().build(instance, make_grid(instance, SLOT_S))


def tractable(first: int, jobs: int, number: int, most: int) -> list[Instance]:
    """Return instances whose plans can be enumerated, from seed `first` on."""
    drawn = (random_instance(seed, jobs) for seed in itertools.count(first))
    return list(itertools.islice((i for i in drawn if count_plans(i) <= most), number))


def matrix(rows: Rows) -> sparse.csr_matrix:
    shape = (len(rows.low), len(rows.cost))
    return sparse.csr_matrix((rows.value, rows.index, rows.start), shape=shape)


def test_both_builders_make_the_same_model() -> None:
    """Names, bounds, integrality, objective, rows and matrix agree exactly on 60 instances of 3 or 4 jobs."""
    kinds: set[str] = set()
    for seed in range(60):
        instance = random_instance(seed, 3 + seed % 2)
        one, two = by_objects(instance).arrays, by_arrays(instance).arrays
        assert one.names == two.names and one.row_names == two.row_names
        for field in ("cost", "upper", "integer", "low", "high"):
            assert np.array_equal(getattr(one, field), getattr(two, field)), (seed, field)
        assert one.constant == two.constant
        difference = abs(matrix(one) - matrix(two))
        assert difference.nnz == 0 or difference.max() == 0.0, seed
        kinds |= {name.split("_")[0] for name in (*one.names, *one.row_names)}
    variables = "y r w h u q l z b x a c f last"
    rows = (
        "run assign place hold here node cells common joins leaves pace slow is done early final slots "
        "long lost spare room active one cpu full fill order"
    )
    assert kinds == {*variables.split(), *rows.split()}


def test_every_enumerated_optimum_is_a_point_of_the_model_with_its_value() -> None:
    """The optimum, found without the model, violates no row and costs the same: no row cuts it off."""
    tried = 0
    for instance in tractable(600, 2, 60, 5000):
        found = enumerate_optimum(instance)
        if found is None:
            continue
        model = by_arrays(instance)
        x = model.columns_of(found[1])
        assert x is not None
        assert model.arrays.violation(x)[0] <= 1e-9, model.arrays.violation(x)
        assert model.arrays.objective(x) / model.terms.scale == pytest.approx(found[0], rel=1e-12)
        tried += 1
    assert tried >= 40


def whole_node(jobs: int, nodes: int, seed: int) -> MilpArraysModel:
    limits = Limits(max_share=3, u_threshold=1.0, mem_threshold=1.0)
    instance = generate("whole-node", jobs=jobs, nodes=nodes, epochs=(3, 30), limits=limits, seed=seed)
    return MilpArraysFormulation().build(instance, make_grid(instance, 3600.0))


def relaxed(rows: Rows, *, without: tuple[str, ...] = ()) -> float:
    """Return the value of the LP relaxation, rows of some names left out."""
    drop = np.array([name.split("_")[0] in without for name in rows.row_names])
    found = run_highs(
        dataclasses.replace(
            rows,
            integer=np.zeros(len(rows.cost), dtype=np.bool_),
            low=np.where(drop, -np.inf, rows.low),
            high=np.where(drop, np.inf, rows.high),
        ),
        time_limit_s=None,
        gap=0.0,
        threads=1,
        seed=0,
        start=None,
        progress=None,
    )
    assert found.objective is not None
    return found.objective


def test_the_relaxation_is_close_to_the_optimum() -> None:
    """Six jobs, two nodes, three seeds: the LP is within 2.5 % of the optimum, on average within 1.5 %.

    The rows that only tighten are needed for that.
    """
    gaps, loose = [], []
    for seed in (1, 2, 3):
        model = whole_node(6, 2, seed)
        best = model.solve().claimed
        assert best is not None
        best *= model.terms.scale
        gaps.append(best / relaxed(model.arrays) - 1.0)
        loose.append(best / relaxed(model.arrays, without=("spare", "slots")) - 1.0)
    assert max(gaps) < 0.025 and np.mean(gaps) < 0.015
    assert np.mean(loose) > np.mean(gaps) + 0.01


def assert_same_optimum(instance: Instance) -> None:
    """HiGHS proves the enumerated optimum by a schedule that passes the checker, or both say infeasible."""
    found = enumerate_optimum(instance)
    outcome = by_arrays(instance).solve(time_limit_s=60.0)
    if found is None:
        assert outcome.status is Status.INFEASIBLE, (instance.name, outcome)
        return
    assert outcome.status is Status.OPTIMAL, (instance.name, outcome)
    assert outcome.plan is not None and outcome.objective is not None and outcome.bound is not None
    assert outcome.objective == pytest.approx(found[0], rel=1e-7), instance.name
    assert found[0] * (1 - 1e-6) <= outcome.bound <= found[0] * (1 + 1e-9)
    schedule = plan_schedule(instance, outcome.plan, grid_s=SLOT_S)
    assert not check(instance, schedule, grid_s=SLOT_S), instance.name


def test_proves_the_enumerated_optimum_over_all_features() -> None:
    """The instances of the CP-SAT test, which asserts that all features occur in them."""
    for instance in [*tractable(100, 2, 70, 20000), *tractable(200, 3, 50, 15000)]:
        assert_same_optimum(instance)


@pytest.mark.slow
def test_proves_the_enumerated_optimum_at_length() -> None:
    """2,000 instances of two jobs, 400 of three."""
    for instance in [*tractable(40000, 2, 2000, 20000), *tractable(50000, 3, 400, 40000)]:
        assert_same_optimum(instance)


def test_cbc_through_pulp_agrees_where_it_proves() -> None:
    """CBC on the PuLP model: the enumerated optimum, or infeasible where that is."""
    for instance in tractable(700, 2, 12, 5000):
        found = enumerate_optimum(instance)
        outcome = by_objects(instance).solve_with(pulp.PULP_CBC_CMD(msg=False, gapRel=0.0))
        if found is None:
            assert outcome.status is Status.INFEASIBLE
        else:
            assert outcome.status is Status.OPTIMAL, (instance.name, outcome)
            assert outcome.objective == pytest.approx(found[0], rel=1e-6)


class _Claims(pulp.LpSolver):  # type: ignore[misc]
    """A solver that says what it is told to, and gives no values (or those of a plan)."""

    name = "claims"

    def __init__(self, status: int, sol_status: int, values: dict[str, float], wait_s: float = 0.0) -> None:
        super().__init__(msg=False)
        self._says = (status, sol_status, values, wait_s)

    def available(self) -> bool:
        return True

    def actualSolve(self, lp: pulp.LpProblem, **_: object) -> int:
        import time

        status, sol_status, values, wait_s = self._says
        time.sleep(wait_s)
        for variable in lp.variables():
            variable.varValue = values.get(variable.name, 0.0)
        lp.assignStatus(status, sol_status)
        return status


def some_feasible() -> tuple[Instance, tuple[float, object]]:
    for instance in tractable(800, 2, 20, 5000):
        found = enumerate_optimum(instance)
        if found is not None:
            return instance, found
    raise AssertionError("none of 20 instances is feasible")


def test_optimal_of_a_run_at_its_limit_is_no_proof() -> None:
    """PuLP says optimal for a run stopped by its limit: feasible here, without a bound."""
    instance, found = some_feasible()
    model = by_objects(instance)
    x = dict(zip(model.arrays.names, model.columns_of(found[1]).tolist(), strict=True))  # type: ignore[union-attr]
    said = _Claims(pulp.LpStatusOptimal, pulp.LpSolutionOptimal, x, wait_s=0.2)
    outcome = model.solve_with(said, time_limit_s=0.2)
    assert outcome.status is Status.FEASIBLE and outcome.bound is None
    assert outcome.stop_reason is StopReason.TIME_LIMIT
    assert outcome.objective == pytest.approx(found[0], rel=1e-9)
    assert model.solve_with(said, time_limit_s=100.0).status is Status.OPTIMAL


def test_zeros_of_a_run_without_a_solution_are_not_read() -> None:
    """PuLP leaves every variable and the objective at 0 where nothing was found: unknown, no plan."""
    instance, _ = some_feasible()
    outcome = by_objects(instance).solve_with(_Claims(pulp.LpStatusOptimal, pulp.LpSolutionOptimal, {}))
    assert outcome.status is Status.UNKNOWN
    assert outcome.plan is None and outcome.objective is None and outcome.bound is None


def test_infeasible_against_a_known_plan_is_a_contradiction() -> None:
    """A solver that calls a model infeasible whose start is feasible: the start stays, and it is said."""
    instance, found = some_feasible()
    model = by_objects(instance)
    model.start_from(found[1])  # type: ignore[arg-type]
    outcome = model.solve_with(_Claims(pulp.LpStatusInfeasible, pulp.LpSolutionInfeasible, {}))
    assert outcome.status is Status.FEASIBLE and outcome.stop_reason is StopReason.ERROR
    assert "contradiction" in outcome.message and outcome.objective == pytest.approx(found[0])


def test_values_of_another_objective_than_claimed_are_an_error() -> None:
    """A solver whose claim and values do not belong together is found out by the physics."""
    instance, found = some_feasible()
    model = by_objects(instance)
    values = model.values_from(
        dict(zip(model.arrays.names, model.columns_of(found[1]).tolist(), strict=True))  # type: ignore[union-attr]
    )
    with pytest.raises(FormulationError, match="the physics says"):
        model.conclude(
            values,
            claimed=0.5 * found[0] * model.terms.scale,
            bound=None,
            infeasible=False,
            stop_reason=StopReason.FINISHED,
            solve_s=0.0,
            message="",
        )
    with pytest.raises(FormulationError, match="lies above the objective"):
        model.conclude(
            values,
            claimed=None,
            bound=1.5 * found[0] * model.terms.scale,
            infeasible=False,
            stop_reason=StopReason.FINISHED,
            solve_s=0.0,
            message="",
        )


def test_stopped_highs_has_no_made_up_values() -> None:
    """At a limit of 0 s there is no plan, no objective and no bound of 0; with a start, the start."""
    instance = tractable(900, 4, 5, 10**9)[4]
    outcome = by_arrays(instance).solve(time_limit_s=0.0)
    assert outcome.status is Status.UNKNOWN and outcome.stop_reason is StopReason.TIME_LIMIT
    assert outcome.plan is None and outcome.objective is None and outcome.bound is None
    feasible, found = some_feasible()
    model = by_arrays(feasible)
    model.start_from(found[1])  # type: ignore[arg-type]
    outcome = model.solve(time_limit_s=0.0)
    assert outcome.objective == pytest.approx(found[0])


def test_threads_may_change_within_a_process() -> None:
    """HiGHS keeps one pool of threads: after a run with two, one still gives an optimum."""
    instance, found = some_feasible()
    for threads in (2, 1, 2):
        assert by_arrays(instance).solve(threads=threads).objective == pytest.approx(found[0], rel=1e-7)


@pytest.mark.parametrize("build", [by_objects, by_arrays])
@pytest.mark.parametrize("suffix", [".mps", ".lp"])
def test_files_hold_the_model_and_solutions_come_back(
    build: object, suffix: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Another programme reads the file and finds the optimum; its solution file becomes the plan again."""
    import highspy

    instance, found = some_feasible()
    model = build(instance)  # type: ignore[operator]
    path = tmp_path / f"model{suffix}"
    model.write(path)
    solver = highspy.Highs()
    solver.silent()
    assert solver.readModel(str(path)) != highspy.HighsStatus.kError
    solver.setOptionValue("mip_rel_gap", 0.0)
    solver.run()
    solver.writeSolution(str(tmp_path / "model.sol"), 0)
    outcome = model.import_solution(tmp_path / "model.sol")
    assert outcome.status is Status.FEASIBLE and outcome.bound is None
    assert outcome.objective == pytest.approx(found[0], rel=1e-7)
    capfd.readouterr()


def test_other_endings_and_incomplete_solutions_are_refused(tmp_path: Path) -> None:
    """A name that says no format, and a solution without the runs of a job, are errors that say so."""
    model = by_arrays(some_feasible()[0])
    with pytest.raises(FormulationError, match=r"\.mps or \.lp"):
        model.write(tmp_path / "model.txt")
    (tmp_path / "empty.sol").write_text("nothing here\n")
    with pytest.raises(FormulationError, match="'j0'"):
        model.import_solution(tmp_path / "empty.sol")


def test_solving_prints_nothing(capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture) -> None:
    """Libraries are silent, HiGHS with its banner too."""
    caplog.set_level(logging.INFO)
    by_arrays(some_feasible()[0]).solve()
    captured = capfd.readouterr()
    assert captured.out == "" and captured.err == ""


def test_work_by_duration_is_that_of_all_runs() -> None:
    """Least work of complete runs of each length, against all sequences of two speeds.

    Need 10 epochs at 3 or 2 a slot: alone 4 slots, at the slow speed 5.
    """
    work = integer_work(10, [2.0, 3.0], 6)
    least = least_by_duration(work, 6)
    for d in range(1, 7):
        ends = []
        for steps in itertools.product(work.up, repeat=d):
            sums = list(itertools.accumulate(steps))
            if sums[-1] >= work.need and (d == 1 or sums[-2] < work.need):
                ends.append(sums[-1])
        if ends:
            assert least[d] <= min(ends)
    assert least[4] == min(sum(s) for s in itertools.product(work.up, repeat=4) if sum(s) >= work.need)


def test_estimate_is_close_to_what_is_built() -> None:
    """The estimate of variables and nonzeros of a larger model is within a factor of two."""
    arrays = whole_node(16, 5, 1)
    nonzeros = len(arrays.arrays.index)
    estimate = MilpArraysFormulation().estimate(arrays.instance, arrays.grid)
    assert nonzeros / 2 <= estimate.nonzeros <= 2 * nonzeros
    assert len(arrays.arrays.cost) / 2 <= estimate.variables <= 2 * len(arrays.arrays.cost)
