"""Every registered method keeps the same promises; a newcomer is tested here the moment it is registered."""

from __future__ import annotations

import dataclasses
from itertools import pairwise
from typing import Any

import pytest

import eaco_opt
from eaco_opt.checker import check
from eaco_opt.errors import EacoError, UnknownNameError
from eaco_opt.instance import Instance
from eaco_opt.physics import evaluate
from eaco_opt.policies import POLICIES
from eaco_opt.result import Result, Status, StopReason
from eaco_opt.schedule import Schedule, ScheduleClass, Segment
from formulations.base import UncoveredFeatureError
from formulations.grid import automatic_slot_s
from instances import generate
from solvers import solve
from solvers.base import METHODS, Request, SearchProgress
from solvers.memory import TooLargeError, available_bytes
from solvers.methods import auto
from solvers.search import Event, StartError, search
from tests.experiments.tiny import BOX, instance, job, two_in_a_row

EXACT = [name for name in METHODS.names() if METHODS.get(name)().exact and METHODS.get(name)().available()]
ISOLATED = [name for name in EXACT if "process" in METHODS.get(name)().option_defaults()]


def run(problem: Instance, name: str, **more: Any) -> Result:
    """Solve in this process, which is quicker to begin."""
    options = {**({"process": "shared"} if name in ISOLATED else {}), **more.pop("options", {})}
    return solve(problem, name, **{"grid_s": 500.0, "options": options, **more})


def pair(slowdown: float, **more: Any) -> Instance:
    """Two jobs of 1000 s on one node.

    Energy is 100 W times active time and alpha is 1. In turn: 2000 s. Together each takes slowdown * 1000 s,
    which on slots of 500 s is 3 slots for 1.5 and 4 for 2: sharing pays at 1.5, is no gain at 2.
    """
    return two_in_a_row(slowdown=slowdown, alpha=1.0, **more)


@pytest.mark.parametrize("name", EXACT)
@pytest.mark.parametrize(("slowdown", "active_s"), [(1.5, 1500.0), (2.0, 2000.0), (3.0, 2000.0)])
def test_proves_the_optimum_worked_by_hand(name: str, slowdown: float, active_s: float) -> None:
    """Field note 22: share where that is shorter than in turn; the checker accepts it, the bound meets it."""
    problem = pair(slowdown)
    result = run(problem, name)
    assert (result.method, result.status, result.stop_reason) == (name, Status.OPTIMAL, StopReason.FINISHED)
    assert result.schedule is not None and result.evaluation is not None and result.bound is not None
    assert check(problem, result.schedule, grid_s=500.0) == []
    assert result.evaluation.energy_j == pytest.approx(100.0 * active_s)
    assert result.objective == pytest.approx(result.bound, rel=1e-6)
    assert result.schedule.schedule_class is ScheduleClass.STATIC
    assert result.schedule.instance_digest == result.instance_digest == eaco_opt.instance_digest(problem)
    assert result.schedule.method == name
    assert dict(result.options)["gap"] == "0.0"
    assert float(dict(result.options)["grid_s"]) == 500.0


@pytest.mark.parametrize("name", EXACT)
def test_a_deadline_one_second_too_early_is_infeasible(name: str) -> None:
    """Field note 23: two jobs of 1000 s in turn need 2000 s; they cannot share; 1999 s is proved too few."""
    for deadline_s, status in ((2000.0, Status.OPTIMAL), (1999.0, Status.INFEASIBLE)):
        jobs = (job("a", deadline_s=deadline_s), job("b", deadline_s=deadline_s))
        result = run(instance(*jobs, max_share=1), name, grid_s=1000.0)
        assert (result.status, result.stop_reason) == (status, StopReason.FINISHED)
        assert (result.schedule is None) is (status is Status.INFEASIBLE)
        assert status is Status.OPTIMAL or result.bound is None


@pytest.mark.parametrize("name", EXACT)
def test_no_time_gives_nothing_or_the_start(name: str) -> None:
    """A limit of 0: unknown, no value made up (field notes 1, 4, 5); with a start, the start."""
    problem = pair(1.5)
    result = run(problem, name, time_limit_s=0.0)
    assert (result.status, result.stop_reason) == (Status.UNKNOWN, StopReason.TIME_LIMIT)
    assert result.schedule is result.objective is result.bound is result.gap is None
    start = solve(problem, "fifo", grid_s=500.0)
    result = run(problem, name, time_limit_s=0.0, start=start.schedule)
    assert (result.status, result.stop_reason) == (Status.FEASIBLE, StopReason.TIME_LIMIT)
    assert result.objective == start.objective
    assert result.bound is None


@pytest.mark.parametrize("name", EXACT)
def test_no_jobs_cost_nothing(name: str) -> None:
    """The optimum of an instance without jobs is 0."""
    result = run(instance(), name, grid_s="auto")
    assert (result.status, result.objective, result.bound) == (Status.OPTIMAL, 0.0, 0.0)


@pytest.mark.parametrize("name", EXACT)
def test_continuous_time_is_refused_and_auto_is_the_default(name: str) -> None:
    """Exact methods need a grid; without one, they take that of the automatic rule."""
    problem = pair(1.5)
    with pytest.raises(EacoError, match=f"method '{name}': grid 'none' means continuous time"):
        run(problem, name, grid_s="none")
    assert automatic_slot_s(problem) == 120.0  # a quarter of 1000 s, or less
    for grid_s in (None, "auto"):
        result = run(problem, name, grid_s=grid_s)
        assert result.evaluation is not None and result.evaluation.grid_s == 120.0
    with pytest.raises(EacoError, match="'fine'"):
        run(problem, name, grid_s="fine")


@pytest.mark.parametrize("name", EXACT)
def test_wrong_requests_are_refused(name: str) -> None:
    """Unknown options, limits below 0, something else than a schedule's instance."""
    for more, text in (
        ({"options": {"colour": 1}}, f"method '{name}': unknown option 'colour'"),
        ({"time_limit_s": -1.0}, "time_limit_s must be at least 0"),
        ({"gap": -0.1}, "gap must be at least 0"),
        ({"history": pair(2.0).truth}, "history has no effect"),
    ):
        with pytest.raises(EacoError, match=text):
            run(pair(1.5), name, **more)


@pytest.mark.parametrize("name", EXACT)
def test_the_curve_is_monotone_and_ends_at_the_result(name: str) -> None:
    """Times and bounds rise, objectives fall; the hook was told the same."""
    told: list[SearchProgress] = []
    result = run(pair(1.5), name, progress=told.append)
    assert result.curve[-1][1:] == (result.objective, pytest.approx(result.bound, rel=1e-6))
    for (t0, o0, b0), (t1, o1, b1) in pairwise(result.curve):
        assert t0 <= t1
        assert o0 is None or (o1 is not None and o1 <= o0)
        assert b0 is None or (b1 is not None and b1 >= b0)
    if name in ISOLATED:
        assert told[-1].objective == pytest.approx(result.objective)


@pytest.mark.parametrize("name", ISOLATED)
def test_a_process_of_its_own_gives_the_same_answer(name: str) -> None:
    """The default; the grid of the automatic rule, the start and the options reach it."""
    problem = pair(1.5)
    start = solve(problem, "fifo", grid_s=500.0).schedule
    result = solve(problem, name, grid_s=500.0, start=start, time_limit_s=60.0)
    assert (result.status, dict(result.options)["process"]) == (Status.OPTIMAL, "own")
    assert result.objective == pytest.approx(run(problem, name).objective)
    assert result.curve[0][1] == pytest.approx(evaluate(problem, start, grid_s=500.0).objective)


@pytest.mark.parametrize("name", EXACT)
def test_two_deterministic_runs_are_the_same(name: str) -> None:
    """Field note 13: one worker and a deterministic limit give the same schedule, and the result says so."""
    problem = instance(*(job(n, gpus=1, epochs=e) for n, e in (("a", 5), ("b", 7), ("c", 5))), slowdown=1.3)
    first, second = (run(problem, name, deterministic=True, seed=5, time_limit_s=60.0) for _ in range(2))
    assert first.schedule == second.schedule
    assert first.reproducible and second.reproducible


@pytest.mark.parametrize("name", ISOLATED)
def test_what_is_not_deterministic_says_so(name: str) -> None:
    """Several workers, or a limit in wall-clock time, may give another schedule next time."""
    if name != "auto":  # brute force, which auto takes here, always gives the same
        assert not run(pair(1.5), name).reproducible


def test_names_that_look_the_same_to_a_file_are_told_apart() -> None:
    """Field note 12: `job-1` and `job+1` become one LP name; inside, names are numbers."""
    problem = instance(job("job-1", epochs=5), job("job+1", epochs=10), alpha=1.0, slowdown=3.0)
    result = run(problem, "milp", options={"backend": "cbc"})
    assert result.status is Status.OPTIMAL
    assert result.objective == pytest.approx(run(problem, "bruteforce").objective)


def test_one_gap_for_all() -> None:
    """Field note 3: solvers' own default gaps differ; ours is 0, is recorded, and is the same for all."""
    problem = instance(*(job(n, gpus=1, epochs=e) for n, e in (("a", 5), ("b", 7), ("c", 6))), slowdown=1.3)
    best = run(problem, "bruteforce").objective
    assert best is not None
    for name, options in (("cpsat", {}), ("milp", {}), ("milp", {"backend": "cbc"})):
        proved = run(problem, name, options=options)
        assert proved.status is Status.OPTIMAL and dict(proved.options)["gap"] == "0.0"
        assert proved.objective == pytest.approx(best, rel=1e-9)
        loose = run(problem, name, options=options, gap=0.5)
        assert loose.stop_reason is StopReason.FINISHED and dict(loose.options)["gap"] == "0.5"
        assert loose.objective is not None and loose.objective <= best / (1.0 - 0.5) + 1e-9
        assert loose.bound is None or loose.bound <= best * (1.0 + 1e-6)


def test_threads_may_change_from_solve_to_solve() -> None:
    """Field note 7: HiGHS keeps one pool of threads for a process; neither way of running it minds."""
    problem = pair(1.5)
    for threads in (1, 2, 1):
        assert run(problem, "milp", threads=threads).status is Status.OPTIMAL
        assert solve(problem, "milp", grid_s=500.0, threads=threads).status is Status.OPTIMAL


def test_nodes_are_a_limit_that_falls_at_the_same_place() -> None:
    """`node_limit` ends HiGHS reproducibly; the reason is no time limit, and the bound stays a bound."""
    jobs = [job(f"j{i}", gpus=1 + i % 2, epochs=4 + i, release_s=300.0 * i) for i in range(3)]
    problem = instance(*jobs, slowdown=1.3, nodes=2)
    runs = [
        run(problem, "milp", grid_s=250.0, deterministic=True, options={"node_limit": 1, "policies": False})
        for _ in range(2)
    ]
    for result in runs:
        assert result.stop_reason in (StopReason.WORK_LIMIT, StopReason.FINISHED)
        assert result.reproducible
    assert runs[0].schedule == runs[1].schedule
    assert runs[0].bound == runs[1].bound is not None


# Starts ------------------------------------------------------------------------------------------------


def static(*segments: tuple[str, float, float], method: str = "") -> Schedule:
    gpus = ((0, 0), (0, 1))
    return Schedule(
        segments=tuple(Segment(job=j, start_s=s, end_s=e, gpus=gpus) for j, s, e in segments),
        schedule_class=ScheduleClass.STATIC,
        method=method,
    )


@pytest.mark.parametrize("name", EXACT)
def test_a_start_is_taken(name: str) -> None:
    """Field note 6: warm starts get lost without a word. Here the start is the first point of the curve."""
    problem = pair(1.5)
    start = static(("b", 0.0, 1000.0), ("a", 1000.0, 2000.0))
    value = evaluate(problem, start, grid_s=500.0).objective
    result = run(problem, name, start=start, options={"policies": False} if name in ISOLATED else {})
    assert result.objective is not None and result.objective <= value
    if name in ISOLATED:
        assert result.curve[0][1] == value


@pytest.mark.parametrize("name", EXACT)
@pytest.mark.parametrize(
    ("segments", "text"),
    [
        ((("a", 250.0, 1250.0), ("b", 1500.0, 2500.0)), "job 'a' starts 250 s after the earliest release"),
        ((("a", 0.0, 500.0), ("a", 1000.0, 1500.0), ("b", 500.0, 1000.0)), "job 'a' has several segments"),
        ((("a", 0.0, 1000.0),), "job 'b' has no placement"),
        ((("a", 0.0, 1000.0), ("b", 5000.0, 6000.0)), "breaks a rule: .*'b'"),
    ],
)
def test_a_start_that_cannot_be_one_is_refused(name: str, segments: Any, text: str) -> None:
    """Off the grid, with stops, incomplete, or against a rule (a deadline at 4000 s): said, not dropped."""
    problem = instance(job("a"), job("b", deadline_s=4000.0))
    with pytest.raises(StartError, match=text):
        run(problem, name, start=static(*segments))


def test_a_policy_off_the_grid_is_run_again_on_it() -> None:
    """The schedule of a policy in continuous time stands for that policy's static form."""
    problem = instance(job("a", epochs=9), job("b"))  # a ends at 900 s, which is no boundary
    for policy in POLICIES.names():
        free = solve(problem, policy)
        result = run(problem, "cpsat", start=free.schedule, options={"policies": False})
        grid = solve(problem, policy, grid_s=500.0)
        assert result.curve[0][1] == pytest.approx(grid.objective)


def test_without_a_start_the_best_policy_is_one() -> None:
    """The first plan known is that of the best policy in static form on the grid."""
    problem = pair(1.5)
    values = [solve(problem, policy, grid_s=500.0).objective for policy in POLICIES.names()]
    first = run(problem, "cpsat").curve[0][1]
    assert first == pytest.approx(min(v for v in values if v is not None))
    assert run(problem, "cpsat", options={"policies": False}).curve[0][1] is None


# Size, back ends, auto ---------------------------------------------------------------------------------


def test_a_model_that_would_not_fit_is_not_built() -> None:
    """Field note 9: an estimate before the build, and a refusal that says what would help."""
    available = available_bytes()
    assert available is None or available > 2.0**20
    with pytest.raises(TooLargeError, match=r"variables and .* nonzeros.*Choose a longer slot"):
        run(pair(1.5), "milp", grid_s=1.0, options={"memory_gib": 1e-5})


def test_a_missing_back_end_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before anything runs; an unknown one lists the known."""
    monkeypatch.setattr("solvers.backends.scip.Scip.available", lambda self: False)
    with pytest.raises(EacoError, match=r"'scip' is not installed here: pip install.*Installed are: highs"):
        run(pair(1.5), "milp", options={"backend": "scip"})
    with pytest.raises(UnknownNameError, match="known are: highs, cbc"):
        run(pair(1.5), "milp", options={"backend": "abacus"})


def waking() -> Instance:
    """Two jobs on one node that needs 500 s to wake up: a feature that only brute force covers."""
    box = dataclasses.replace(BOX, wake_s=500.0)
    problem = pair(1.5)
    return dataclasses.replace(problem, cluster=type(problem.cluster).uniform(box, 1))


def test_features_that_are_not_covered_are_named() -> None:
    """Wake-up times are refused before a model is built."""
    with pytest.raises(UncoveredFeatureError, match="wake-up time of node type 'box'"):
        run(waking(), "cpsat")


def test_auto_takes_brute_force_for_tiny_instances() -> None:
    """And says which method it was."""
    result = run(waking(), "auto")
    assert result.status is Status.OPTIMAL
    assert dict(result.options)["method"] == "bruteforce"
    assert result.objective == pytest.approx(run(waking(), "bruteforce").objective)


def test_auto_passes_over_what_does_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without brute force: the next that covers the instance; what was passed over is recorded."""
    monkeypatch.setattr(auto, "TINY_PLANS", 0.0)
    chosen = auto.Auto().choose(pair(1.5), 500.0)
    assert "bruteforce" not in chosen and chosen[-2:] == ["milp", "cpsat"]
    monkeypatch.setattr(auto.Auto, "choose", lambda self, problem, slot_s: ["milp", "cpsat"])
    assert dict(run(pair(1.5), "auto").options)["method"] == "milp"
    monkeypatch.setattr("solvers.methods.milp.Milp.formulation", _refuse)
    result = run(pair(1.5), "auto")
    assert (result.status, dict(result.options)["method"]) == (Status.OPTIMAL, "cpsat")
    assert "milp: formulation 'milp' does not cover: everything" in dict(result.options)["passed_over"]


def test_auto_returns_the_best_policy_where_no_method_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Feasible and without a bound, with the reasons; without a policy's schedule it is an error."""
    monkeypatch.setattr(auto.Auto, "choose", lambda self, problem, slot_s: ["cpsat"])
    result = run(waking(), "auto")
    assert (result.status, result.stop_reason, result.bound) == (Status.FEASIBLE, StopReason.ERROR, None)
    assert "wake-up time" in result.message
    with pytest.raises(EacoError, match=r"no method takes instance 'tiny': cpsat: .*wake-up time"):
        run(waking(), "auto", options={"policies": False})


def test_auto_goes_on_where_brute_force_gives_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiny by the estimate, but not within its time: the next method starts from what is known."""
    monkeypatch.setattr(auto, "TINY_S", 0.0)
    result = run(pair(1.5), "auto")
    assert result.status is Status.OPTIMAL
    assert dict(result.options)["method"] != "bruteforce"


def test_auto_leaves_branch_and_price_early_where_nodes_are_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a job may take a part of a node, it has a short time; where all fill nodes, all that is left."""
    monkeypatch.setattr(auto, "TINY_PLANS", 0.0)
    monkeypatch.setattr(auto, "SHARED_S", 0.0)
    shared = generate("mixed", jobs=3, nodes=1, seed=0)
    assert auto._shared(shared)
    result = solve(shared, "auto", grid_s=3600.0, time_limit_s=60.0)
    assert result.status is Status.OPTIMAL
    assert dict(result.options)["method"] == "milp"
    assert "branch-and-price" in dict(result.options)["passed_over"]
    whole = generate("whole-node", jobs=3, nodes=1, seed=0)
    assert not auto._shared(whole)
    result = solve(whole, "auto", grid_s=3600.0, time_limit_s=60.0)
    assert dict(result.options)["method"] == "branch-and-price"


def _refuse(self: object, options: object) -> Any:
    raise UncoveredFeatureError("milp", ["everything"])


@pytest.mark.parametrize("name", [n for n in ISOLATED if n != "auto"])
def test_plans_are_told_while_it_searches(name: str) -> None:
    """The best plan is known before the outcome: whoever ends the search loses nothing but the proof."""
    method = METHODS.get(name)()
    told: list[Event] = []
    problem = instance(*(job(n, gpus=1, epochs=e) for n, e in (("a", 5), ("b", 7), ("c", 6))), slowdown=1.3)
    task = method.task(problem, Request(grid_s=500.0, options={"policies": False}))
    search(task, method, told.append)
    outcome = told[-1].outcome
    assert outcome is not None and outcome.status is Status.OPTIMAL
    values = [event.objective for event in told if event.plan is not None]
    assert values == sorted(values, reverse=True)
    assert values[-1] == pytest.approx(outcome.objective, rel=1e-9)
