"""FIFO by hand: order, best fit, `strict` and `skip`, several nodes, mixed nodes, the grid."""

from __future__ import annotations

import math

import pytest

from eaco_opt.checker import check
from eaco_opt.errors import DomainError
from eaco_opt.policies import make_policy
from eaco_opt.simulator import simulate
from tests.eaco_opt.policy_cases import cluster, job, node_type, possible, problem, profile, random_case, runs


def _starts(*jobs: object, **changes: object) -> dict[str, tuple[float, tuple[tuple[int, int], ...]]]:
    options = changes.pop("options", {})
    done = simulate(problem(*jobs, **changes), make_policy("fifo", **options), 0)  # type: ignore[arg-type]
    assert [v for v in check(done.instance, done.schedule) if v.kind != "deadline"] == []
    return {name: (own[0][0], own[0][2]) for name, own in runs(done).items()}


# p holds one of two GPUs for 30 s; the pair asks for both; s, for 10 s, would fit beside p.
BLOCKED = (job("p", epochs=3), job("pair", gpus=2, at=1.0), job("s", at=2.0))


def test_strict_blocks() -> None:
    """The pair waits till p leaves at 30 s, and s behind it till the pair leaves at 40 s."""
    assert _starts(*BLOCKED) == {
        "p": (0.0, ((0, 0),)), "pair": (30.0, ((0, 0), (0, 1))), "s": (40.0, ((0, 0),)),
    }  # fmt: skip


def test_skip_passes() -> None:
    """s passes the pair at 2 s, and is gone when p leaves."""
    assert _starts(*BLOCKED, options={"blocked": "skip"}) == {
        "p": (0.0, ((0, 0),)), "pair": (30.0, ((0, 0), (0, 1))), "s": (2.0, ((0, 1),)),
    }  # fmt: skip


def test_skip_can_starve_the_head() -> None:
    """s runs till 32 s and u, released at 29 s, takes p's GPU at 30 s: the pair starts at 40 s only."""
    jobs = (job("p", epochs=3), job("pair", gpus=2, at=1.0), job("s", epochs=3, at=2.0), job("u", at=29.0))
    starts = _starts(*jobs, options={"blocked": "skip"})
    assert (starts["u"][0], starts["pair"][0]) == (30.0, 40.0)


def test_order_is_priority_then_release_then_submit_index() -> None:
    """One GPU's worth of 10-s jobs, all there when p leaves at 10 s: the order of starts tells the line."""
    jobs = (
        job("p", gpus=2, submit_index=0),
        job("low", gpus=2, at=1.0, priority=-1, submit_index=1),
        job("later", gpus=2, at=2.0, submit_index=2),
        job("tie2", gpus=2, at=1.0, submit_index=4),
        job("tie1", gpus=2, at=1.0, submit_index=3),
        job("high", gpus=2, at=3.0, priority=7, submit_index=5),
    )
    starts = _starts(*jobs)
    assert sorted(starts, key=lambda name: starts[name][0]) == ["p", "high", "tie1", "tie2", "later", "low"]


def test_a_job_of_higher_priority_stops_nobody() -> None:
    """Priority orders the line; what runs keeps its GPUs."""
    starts = _starts(job("p", gpus=2, epochs=9), job("high", at=1.0, priority=9))
    assert starts["high"][0] == 90.0


def test_best_fit_is_the_fullest_node_with_room() -> None:
    """Nodes of 4: after 1 + 2 GPUs on node 0 and 3 on node 1, a pair goes to node 2, one GPU to node 0."""
    starts = _starts(
        job("one"), job("two", gpus=2), job("three", gpus=3), job("pair", gpus=2), job("last"),
        cluster=cluster((node_type(4), 3)),
    )  # fmt: skip
    assert [starts[name][1] for name in ("one", "two", "three", "pair", "last")] == [
        ((0, 0),),
        ((0, 1), (0, 2)),
        ((1, 0), (1, 1), (1, 2)),
        ((2, 0), (2, 1)),
        ((0, 3),),  # one free GPU on nodes 0 and 1 each: the lower
    ]


def test_a_job_on_several_nodes() -> None:
    """Five GPUs on nodes of two: nodes 1 and 2 whole (0 is taken in part), the rest on the fullest, 0."""
    starts = _starts(job("p"), job("wide", gpus=5), cluster=cluster((node_type(2), 4)))
    assert starts["wide"] == (0.0, ((0, 1), (1, 0), (1, 1), (2, 0), (2, 1)))


def test_a_node_type_that_is_too_slow_is_still_taken() -> None:
    """FIFO knows no deadlines: with equal room it takes the lower node, be it slower."""
    types = (node_type(2, "old", gpu_type="w"), 1), (node_type(2, "new"), 1)
    starts = _starts(
        job("p", by=15.0), cluster=cluster(*types), profiles=[profile("a", {"w": 20.0, "v": 10.0})]
    )
    assert starts["p"] == (0.0, ((0, 0),))


def test_alone_whatever_the_memory_and_load_of_others() -> None:
    """Exclusive GPUs: U_threshold and K play no part, nobody shares though all would fit on one GPU."""
    starts = _starts(*(job(f"j{i}") for i in range(4)))
    assert [starts[f"j{i}"] for i in range(4)] == [
        (0.0, ((0, 0),)), (0.0, ((0, 1),)), (10.0, ((0, 0),)), (10.0, ((0, 1),)),
    ]  # fmt: skip


def test_on_a_grid() -> None:
    """Slots of 4 s: 10 s of work hold the GPU for 12 s, and the next starts then."""
    done = simulate(problem(job("p", gpus=2), job("q", gpus=2)), make_policy("fifo"), 0, grid_s=4.0)
    assert {n: own[0][:2] for n, own in runs(done).items()} == {"p": (0.0, 12.0), "q": (12.0, 24.0)}
    assert done.evaluation.grid_s == 4.0 and done.evaluation.makespan_s == pytest.approx(24.0)


def test_options_are_checked() -> None:
    """An unknown word is answered with those that are known."""
    with pytest.raises(DomainError, match=r"^policy 'fifo': blocked must be one of strict, skip, got 'no'$"):
        make_policy("fifo", blocked="no")


@pytest.mark.parametrize("blocked", ["strict", "skip"])
def test_no_head_that_fits_is_left_waiting(blocked: str) -> None:
    """On random problems nobody shares, and whenever a job starts late, it did not fit or was not first.

    Direct form: replay the segments; after each release or departure neither the first of the line (strict),
    nor anyone in it (skip), finds enough free GPUs on a node.
    """
    looked = 0
    for seed in range(60):
        instance = possible(random_case(seed).instance)
        done = simulate(instance, make_policy("fifo", blocked=blocked), 0)
        own = {s.job: s for s in done.schedule.segments}
        jobs = sorted(instance.jobs, key=lambda j: (-j.priority, j.release_s, j.submit_index))
        if any(t.wake_s for t in instance.cluster.node_types):
            continue
        assert done.evaluation.peak_active_nodes <= len(instance.cluster.nodes)
        moments = {j.release_s for j in jobs} | {s.end_s for s in own.values()}
        for t in sorted(moments):
            running = [s for s in own.values() if s.start_s <= t + 1e-7 and s.end_s > t + 1e-7]
            taken = [gpu for s in running for gpu in s.gpus]
            assert len(taken) == len(set(taken))
            line = [j for j in jobs if j.release_s <= t + 1e-7 and own[j.name].start_s > t + 1e-7]
            for j in line[:1] if blocked == "strict" else line:
                looked += 1
                for n in range(len(instance.cluster.nodes)):
                    kind = instance.cluster.type_of(n)
                    tau = instance.profile(j.profile).epoch_time_s(kind.gpu_type, j.gpus)
                    free = kind.gpus - sum(node == n for node, _ in taken)
                    memory = instance.profile(j.profile).gpu_memory_peak_gib
                    small = memory > instance.limits.mem_threshold * kind.gpu_memory_gib
                    assert tau is None or free < j.gpus or small, (seed, t, j.name)
                assert own[j.name].start_s < math.inf
    assert looked > 100
