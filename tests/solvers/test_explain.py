"""Infeasibility explained: hand-made conflicts with known answers, and every claim held against brute force.

In the problems of `tests.experiments.tiny` an epoch of `slow` takes 100 s, so 36 epochs take 1 h; a node has
two GPUs, and every job asks for both unless a test says otherwise.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections import Counter
from typing import Any

import numpy as np
import pytest

from eaco_opt.checker import check
from eaco_opt.cluster import Cluster
from eaco_opt.errors import EacoError
from eaco_opt.impossible import impossible_jobs
from eaco_opt.instance import Instance
from eaco_opt.interference import Interference
from eaco_opt.result import Status
from solvers.bruteforce import bruteforce
from solvers.explain import Cause, Conflict, Scope, Way, explain
from tests.experiments.tiny import BOX, instance, job
from tests.formulations.small_instances import SLOT_S, random_instance

H = 3600.0
ALONE = {Cause.EPOCH_TIME, Cause.GPUS, Cause.MEMORY, Cause.UTILISATION}


def one(found: Any) -> Conflict:
    """Return the only conflict of an infeasible instance."""
    assert found.feasible is False
    assert len(found.conflicts) == 1
    conflict: Conflict = found.conflicts[0]
    return conflict


def way(conflict: Conflict, change: str) -> Way:
    """Return the only way of a kind."""
    (found,) = [w for w in conflict.ways if w.change == change]
    return found


def two(**more: Any) -> Instance:
    """Return two jobs of 2 h on one node, both due after 3 h: one after the other they need 4 h."""
    jobs = [job(name, epochs=72, deadline_s=3 * H) for name in "ab"]
    return instance(*jobs, **{"max_share": 1, **more})


# One job ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("grid_s", [None, 600.0])
def test_deadline_at_release_plus_duration(grid_s: float | None) -> None:
    """A deadline exactly at release + duration is feasible; one second less is late by one second."""
    fits = explain(instance(job("a", epochs=36, release_s=50.0, deadline_s=50.0 + H)), grid_s=grid_s)
    assert fits.feasible is True
    assert fits.conflicts == ()
    assert fits.witness is not None
    late = one(explain(instance(job("a", epochs=36, release_s=50.0, deadline_s=49.0 + H)), grid_s=grid_s))
    assert (late.jobs, late.cause, late.unit, late.scope) == (("a",), Cause.DEADLINE, "h", Scope.ANY_SLOT)
    assert late.amount == pytest.approx(1.0 / 3600.0)


def test_late_only_by_rounding_to_slots() -> None:
    """35 epochs of 100 s take 3500 s, on slots of 600 s 3600 s: feasible in time, 100 s late on the grid."""
    problem = instance(job("a", epochs=35, deadline_s=3500.0))
    assert explain(problem).feasible is True
    late = one(explain(problem, grid_s=600.0))
    assert late.scope is Scope.THIS_GRID
    assert late.amount == pytest.approx(100.0 / 3600.0)
    assert "a shorter slot would do" in late.text


def test_feasible_in_time_although_not_on_the_automatic_grid() -> None:
    """Two jobs of 3500 s in a row, due at 7000 s: no grid of round slots, but a plan in continuous time."""
    jobs = [job(name, epochs=35, deadline_s=7000.0) for name in "ab"]
    problem = instance(*jobs, max_share=1)
    found = explain(problem)
    assert found.feasible is True
    assert found.conflicts == ()
    assert check(problem, found.witness) == []
    assert explain(problem, grid_s="auto").feasible is False


def test_more_gpus_than_there_are() -> None:
    """Six GPUs on a node of two: four GPUs, so two nodes, are missing."""
    found = one(explain(instance(job("a", gpus=6), job("b"))))
    assert (found.jobs, found.cause, found.amount, found.unit) == (("a",), Cause.GPUS, 4.0, "GPUs")
    assert way(found, "nodes").amount == 2.0


def test_memory_of_a_gpu() -> None:
    """4 GiB on a GPU of 10 GiB with mem_threshold 0.3: 1 GiB too much, and a threshold of 0.4 would do."""
    found = one(explain(instance(job("a"), mem_threshold=0.3)))
    assert (found.cause, found.amount, found.unit) == (Cause.MEMORY, pytest.approx(1.0), "GiB")
    assert way(found, "mem_threshold").amount == pytest.approx(0.1)


def test_load_alone_above_the_threshold() -> None:
    """Load 0.4 above u_threshold 0.25 by 0.15."""
    found = one(explain(instance(job("a"), u_threshold=0.25)))
    assert (found.cause, found.amount, found.unit) == (Cause.UTILISATION, pytest.approx(0.15), "fraction")


def test_no_epoch_time() -> None:
    """A job whose profile knows no GPU type of the cluster has no amount to give, but a reason."""
    box = dataclasses.replace(BOX, gpu_type="other")
    found = one(explain(dataclasses.replace(instance(job("a")), cluster=Cluster.uniform(box, 1))))
    assert (found.cause, found.amount) == (Cause.EPOCH_TIME, None)
    assert "'other'" in found.text


def test_other_jobs_are_explained_beside_one_that_fits_nowhere() -> None:
    """A job that fits nowhere does not hide two others that conflict."""
    problem = dataclasses.replace(two(), jobs=(*two().jobs, job("c", gpus=6, submit_index=2)))
    found = explain(problem)
    assert found.feasible is False
    assert [c.jobs for c in found.conflicts] == [("c",), ("a", "b")]
    assert found.complete


# Several jobs -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("grid_s", [None, 1800.0])
def test_two_jobs_one_node(grid_s: float | None) -> None:
    """Two jobs of 2 h due after 3 h on one node: either deadline 1 h later would do, or a second node."""
    found = explain(two(), grid_s=grid_s)
    conflict = one(found)
    assert conflict.jobs == ("a", "b")
    assert conflict.scope is Scope.ANY_SLOT
    assert conflict.minimal
    assert conflict.smallest
    gives = {w.job: (w.amount, w.proved) for w in conflict.ways if w.change == "deadline"}
    # Half an hour less is proved not to do on slots of that length; in continuous time nothing less is.
    on_grid = grid_s is not None
    assert gives == {"a": (1.0, on_grid), "b": (1.0, on_grid)}
    assert way(conflict, "nodes").amount == 1.0
    assert found.delays_proved is on_grid
    assert [hours for _, hours in found.delays] == [1.0]


@pytest.mark.parametrize(
    ("limits", "cause", "change", "amount"),
    [
        ({"max_share": 1}, Cause.MAX_SHARE, "max_share", 1.0),  # 1 -> 2
        ({"max_share": 2, "u_threshold": 0.7}, Cause.UTILISATION, "u_threshold", 0.1),  # 0.4 + 0.4 = 0.8
        ({"max_share": 2, "mem_threshold": 0.5}, Cause.MEMORY, "mem_threshold", 0.3),  # 8 of 10 GiB
    ],
)
def test_the_limit_that_keeps_jobs_apart(
    limits: dict[str, Any], cause: Cause, change: str, amount: float
) -> None:
    """At slowdown 1.2 two jobs of 2 h share a node for 2.4 h, in time; the limit that forbids it is named."""
    conflict = one(explain(two(slowdown=1.2, **limits)))
    assert conflict.cause is cause
    assert conflict.amount == pytest.approx(amount)
    assert way(conflict, change).amount == pytest.approx(amount)
    assert way(conflict, change).proved


def test_pair_that_cannot_share() -> None:
    """A pair that cannot share has to run one after the other, 1 h too long."""
    problem = two(max_share=2)
    problem = dataclasses.replace(problem, truth=Interference(cannot_share=(("slow", "slow"),)))
    conflict = one(explain(problem))
    assert conflict.cause is Cause.CANNOT_SHARE
    assert (conflict.amount, conflict.unit) == (1.0, "h")


def test_exclusive_job() -> None:
    """An exclusive job has to run alone, 1 h too long for two; shared, both would end in time."""
    problem = two(slowdown=1.2, max_share=2)
    jobs = (dataclasses.replace(problem.jobs[0], exclusive=True), problem.jobs[1])
    assert one(explain(dataclasses.replace(problem, jobs=jobs))).cause is Cause.EXCLUSIVE


def test_capacity() -> None:
    """At slowdown 2 sharing does not help: nothing but nodes and deadlines does."""
    conflict = one(explain(two(max_share=2)))
    assert conflict.cause is Cause.CAPACITY
    assert {w.change for w in conflict.ways} == {"deadline", "nodes"}


def test_smallest_conflict_is_found_in_a_crowd() -> None:
    """Five jobs of 1 h with ample time beside two that cannot both run: the two are named."""
    ample = [job(f"x{i}", epochs=36, deadline_s=40 * H) for i in range(5)]
    problem = instance(*ample, *[dataclasses.replace(j, submit_index=-1) for j in two().jobs], max_share=1)
    conflict = one(explain(problem, grid_s=1800.0))
    assert conflict.jobs == ("a", "b")
    assert conflict.smallest


def test_too_much_work_needs_no_solver() -> None:
    """More work than the cluster can do between two times is a conflict, without any time to solve.

    Forty jobs of 1 h due after 10 h on one node: eleven of them are too many.
    """
    jobs = [job(f"j{i:02}", epochs=36, deadline_s=10 * H) for i in range(40)]
    conflicts = explain(instance(*jobs, max_share=1), time_limit_s=0.0).conflicts
    assert [(len(c.jobs), c.scope) for c in conflicts] == [(11, Scope.ANY_SLOT)] * 3


def test_nothing_found_within_the_limit() -> None:
    """Without time a group that only a search finds is not explained, and nothing is claimed.

    One node: b has to run from 1 h to 2 h, which leaves a, of 2 h due after 3 h, an hour before and after.
    """
    b = job("b", epochs=36, release_s=H, deadline_s=2 * H)
    problem = instance(job("a", epochs=72, deadline_s=3 * H), b, max_share=1)
    assert one(explain(problem)).jobs == ("a", "b")
    found = explain(problem, time_limit_s=0.0)
    assert found.feasible is None
    assert found.conflicts == ()
    assert found.stop_reason == "time-limit"


def test_empty_instance() -> None:
    """No jobs: feasible."""
    found = explain(instance())
    assert found.feasible is True
    assert found.conflicts == ()


def test_unusable_arguments() -> None:
    """A slot length or a limit that is none is refused by name."""
    with pytest.raises(EacoError, match="slot length"):
        explain(two(), grid_s=-1.0)
    with pytest.raises(EacoError, match="time_limit_s"):
        explain(two(), time_limit_s=-1.0)


def test_wake_up_time_is_kept_by_plans() -> None:
    """A node that takes 1 h to wake up cannot serve a job of 1 h due after 1.5 h; due after 2 h it can."""
    box = dataclasses.replace(BOX, wake_s=H)
    for deadline_h, feasible in ((1.5, None), (2.0, True)):
        problem = instance(job("a", epochs=36, deadline_s=deadline_h * H))
        found = explain(dataclasses.replace(problem, cluster=Cluster.uniform(box, 1)))
        assert found.feasible is feasible


# Against brute force ----------------------------------------------------------------------------------------


def tight(seed: int) -> Instance:
    """Return a small random instance of all features with tight deadlines and few nodes."""
    rng = np.random.default_rng(seed)
    base = random_instance(seed, jobs=int(rng.integers(2, 5)))
    share = float(rng.choice([0.5, 0.75, 0.85, 1.0]))
    jobs = tuple(
        dataclasses.replace(j, deadline_s=j.release_s + (j.deadline_s - j.release_s) * share)
        for j in base.jobs
    )
    nodes = base.cluster.nodes
    if rng.random() < 0.7:
        nodes = tuple(next(n for n in nodes if n.node_type == t.name) for t in base.cluster.node_types)
    return dataclasses.replace(base, jobs=jobs, cluster=dataclasses.replace(base.cluster, nodes=nodes))


def on_slots(problem: Instance) -> Instance:
    """Return the same problem on the grid, with times on slot boundaries from 0 on."""
    origin_s = min(j.release_s for j in problem.jobs)
    return dataclasses.replace(
        problem,
        jobs=tuple(
            dataclasses.replace(
                j,
                release_s=math.ceil((j.release_s - origin_s) / SLOT_S) * SLOT_S,
                deadline_s=math.floor((j.deadline_s - origin_s) / SLOT_S + 1e-9) * SLOT_S,
            )
            for j in problem.jobs
        ),
    )


def only(problem: Instance, names: Any) -> Instance:
    """Return the problem with these jobs only."""
    return problem.without([j.name for j in problem.jobs if j.name not in set(names)])


def possible(problem: Instance, grid_s: float = SLOT_S) -> bool:
    """Tell by brute force whether there is a plan."""
    if not problem.jobs:
        return True
    status = bruteforce(problem, grid_s=grid_s).status
    assert status in (Status.OPTIMAL, Status.INFEASIBLE)
    return status is Status.OPTIMAL


def later(problem: Instance, delays: dict[str, float]) -> Instance:
    """Return the problem with deadlines that many seconds later."""
    return dataclasses.replace(
        problem,
        jobs=tuple(
            dataclasses.replace(j, deadline_s=j.deadline_s + delays.get(j.name, 0.0)) for j in problem.jobs
        ),
    )


def company_only_slows_down(problem: Instance) -> bool:
    """Tell whether no slowdown of any set is below 1 or falls when a job joins."""
    view = problem.arrays()
    for size in (2, 3, 4):
        for some in itertools.combinations(range(len(problem.jobs)), size):
            key = tuple(sorted(int(view.job_class[j]) for j in some))
            at = view.sets.intern(key)
            for i, _ in enumerate(key):
                rest = key[:i] + key[i + 1 :]
                fewer = view.sets.intern(rest)
                for p, c in enumerate(rest):
                    if view.sets.sigma[fewer, p] > view.sets.sigma[at, key.index(c)] + 1e-12:
                        return False
    return True


def confirm(seed: int) -> Counter[str]:
    """Hold every claim about one instance against brute force; return what was seen."""
    problem = tight(seed)
    seen: Counter[str] = Counter()
    found = explain(problem, grid_s=SLOT_S)
    assert found.feasible is possible(problem)
    in_time = explain(problem)
    if in_time.feasible is False:
        assert not any(possible(problem, grid_s) for grid_s in (SLOT_S, SLOT_S / 3.0))
    if in_time.feasible:
        assert check(problem, in_time.witness) == []
    if found.feasible:
        assert found.conflicts == ()
        assert check(problem, found.witness, grid_s=SLOT_S) == []
        return Counter({"feasible": 1})
    assert found.complete
    snapped = on_slots(problem)
    own = {j.name: j.deadline_s - min(i.release_s for i in problem.jobs) for j in problem.jobs}
    lost = {j.name: own[j.name] - j.deadline_s for j in snapped.jobs}
    plain = company_only_slows_down(problem)
    aside: list[str] = []
    for c in found.conflicts:
        part = only(snapped, c.jobs)
        assert not set(c.jobs) & set(aside)
        assert not possible(part)
        seen[f"{c.cause}, {'one' if len(c.jobs) == 1 else 'several'}"] += 1
        seen[c.scope] += 1
        if plain and not (len(c.jobs) == 1 and c.cause in ALONE):
            assert c.minimal
            assert all(possible(part.without([name])) for name in c.jobs)
            if c.smallest:
                names = [j.name for j in snapped.jobs if j.name not in aside]
                for size in range(1, len(c.jobs)):
                    assert all(possible(only(snapped, s)) for s in itertools.combinations(names, size))
            for w in c.ways:
                seen[w.change] += 1
                if w.change == "deadline":
                    give_s = 3600.0 * w.amount + lost[w.job] if w.amount and w.job else math.nan
                    assert possible(later(part, {str(w.job): give_s}))
                    assert not w.proved or not possible(later(part, {str(w.job): give_s - SLOT_S}))
                elif w.change in ("u_threshold", "mem_threshold", "max_share"):
                    limit = getattr(part.limits, w.change)
                    new = type(limit)(limit + w.amount)
                    limits = dataclasses.replace(part.limits, **{w.change: new})
                    assert possible(dataclasses.replace(part, limits=limits))
        aside += c.jobs
    if found.delays:
        able = snapped.without([c.jobs[0] for c in found.conflicts if len(c.jobs) == 1 and c.cause in ALONE])
        gives = {name: 3600.0 * hours + lost[name] for name, hours in found.delays}
        assert possible(later(able, gives))
        seen["delays"] += 1
    return seen


def test_claims_hold_on_random_instances() -> None:
    """Every conflict is one, is as small as it says, and what is said to help does, by no less."""
    seen: Counter[str] = Counter()
    for seed in range(140):
        seen += confirm(seed)
    assert seen["feasible"] >= 30
    assert seen["deadline, one"] >= 20
    assert sum(n for key, n in seen.items() if key.endswith("several")) >= 20
    assert seen["delays"] >= 20
    assert seen[Scope.ANY_SLOT] >= 10
    assert seen[Scope.THIS_GRID] >= 10


@pytest.mark.slow
def test_claims_hold_on_many_random_instances() -> None:
    """As above, on 3,000 more."""
    for seed in range(1_000, 4_000):
        confirm(seed)


def test_jobs_that_fit_nowhere_are_those_of_the_library() -> None:
    """Single jobs are explained exactly where `impossible_jobs` names them."""
    for seed in range(200):
        problem = tight(seed)
        named = {i.job for i in impossible_jobs(problem) if not i.deadline_only}
        found = explain(problem, time_limit_s=0.0)
        assert named == {c.jobs[0] for c in found.conflicts if c.cause in ALONE and len(c.jobs) == 1}
