"""The elastic model: which jobs can be served, and how late the others are; each optimum worked by hand.

An epoch of `slow` takes 100 s, a slot 1000 s; every job asks for both GPUs of the one node and cannot share.
"""

from __future__ import annotations

import dataclasses

from eaco_opt.instance import Instance
from eaco_opt.job import Job
from eaco_opt.physics import evaluate
from eaco_opt.result import Status
from formulations.elastic import ElasticModel
from formulations.grid import make_grid
from formulations.space import Space
from tests.experiments.tiny import instance, job

SLOT_S = 1000.0


def jobs(*slots_and_due: tuple[int, int]) -> tuple[Job, ...]:
    """Return jobs of so many slots, due after so many."""
    return tuple(
        job(f"j{i}", epochs=10 * slots, deadline_s=due * SLOT_S)
        for i, (slots, due) in enumerate(slots_and_due)
    )


def model(problem: Instance, optional: tuple[int, ...] = ()) -> ElasticModel:
    """Return the model of a problem."""
    return ElasticModel(Space(problem, make_grid(problem, SLOT_S)), optional=optional)


def later(problem: Instance, slots: int) -> Instance:
    """Return the problem with all deadlines so many slots later."""
    given = tuple(dataclasses.replace(j, deadline_s=j.deadline_s + slots * SLOT_S) for j in problem.jobs)
    return dataclasses.replace(problem, jobs=given)


def test_feasible_or_not() -> None:
    """3 + 2 slots fit in a window of 5, and not in one of 4."""
    fits = model(instance(*jobs((3, 5), (2, 5)), max_share=1)).find()
    assert fits.status is Status.OPTIMAL
    assert fits.plan is not None
    assert model(instance(*jobs((3, 4), (2, 4)), max_share=1)).find().status is Status.INFEASIBLE


def test_most_jobs_that_can_be_served() -> None:
    """Of 3, 2 and 2 slots in a window of 4 the two shorter jobs can be served, or the long one alone."""
    built = model(instance(*jobs((3, 4), (2, 4), (2, 4)), max_share=1), optional=(0, 1, 2))
    found = built.serve_most()
    assert found.status is Status.OPTIMAL
    assert found.served == {1, 2}
    built.require([0])
    assert built.serve_most().served == {0}
    built.require([0, 1])
    assert built.serve_most().status is Status.INFEASIBLE
    built.require([])
    assert built.serve_most().served == {1, 2}


def test_least_lateness() -> None:
    """Jobs of 3, 2 and 1 slots due after 3: the longest last ends at 6, so 3 slots late, the others in time.

    Any other order is later: if the job of 2 slots is last, they end at 1, 4, 6 or 3, 4, 6.
    """
    problem = instance(*jobs((3, 3), (2, 3), (1, 3)), max_share=1)
    loose = later(problem, 4)
    found = model(loose).least_lateness({0: 3, 1: 3, 2: 3})
    assert (found.status, found.value, found.bound) == (Status.OPTIMAL, 3, 3)
    assert found.plan is not None
    assert found.end is not None
    assert found.end[0] == 6
    assert evaluate(loose, found.plan, grid_s=SLOT_S).feasible


def test_fewest_late_jobs_settle_ties() -> None:
    """Two jobs of 2 slots due after 2 and 3: one after the other is 1 slot late in total, by one job."""
    found = model(later(instance(*jobs((2, 2), (2, 3)), max_share=1), 3)).least_lateness({0: 2, 1: 3})
    assert (found.value, found.end) == (1, {0: 2, 1: 4})


def test_only_some_may_be_late() -> None:
    """If only the first may be late, the second keeps its deadline: 2 slots from 0, then 3 slots end at 5."""
    problem = instance(*jobs((3, 3), (2, 2)), max_share=1)
    first = dataclasses.replace(problem.jobs[0], deadline_s=8 * SLOT_S)
    loose = dataclasses.replace(problem, jobs=(first, problem.jobs[1]))
    found = model(loose).least_lateness({0: 3})
    assert (found.value, found.bound, found.end) == (2, 2, {0: 5, 1: 2})


def test_a_job_that_is_never_in_time_makes_it_infeasible() -> None:
    """A job of 3 slots due after 2 needs no search."""
    assert model(instance(*jobs((3, 2)))).find().status is Status.INFEASIBLE


def test_nothing_is_said_without_time() -> None:
    """A solve that has no time either answers or says that it does not know, without values."""
    problem = instance(*jobs(*[(3, 40)] * 12), nodes=1, max_share=2, slowdown=1.4)
    found = model(problem).find(time_limit_s=0.0)
    assert found.status in (Status.UNKNOWN, Status.OPTIMAL)
    assert (found.plan is None) == (found.status is Status.UNKNOWN)
