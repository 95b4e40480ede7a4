"""FIFO_packed by hand, and its choice of partners against a plain search."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Any

import numpy as np
import pytest

from eaco_opt.checker import check
from eaco_opt.errors import DomainError
from eaco_opt.interference import Interference, MeasuredSlowdown
from eaco_opt.job import MemoryKind
from eaco_opt.policies import make_policy
from eaco_opt.simulator import Action, Event, Simulation, Start, World, simulate
from tests.eaco_opt.policy_cases import (
    cluster,
    job,
    node_type,
    possible,
    problem,
    profile,
    random_case,
    runs,
    slow,
)


def _packed(*jobs: Any, **changes: Any) -> tuple[Simulation, dict[str, tuple[float, float, Any]]]:
    options, history = changes.pop("options", {}), changes.pop("history", None)
    done = simulate(problem(*jobs, **changes), make_policy("fifo_packed", **options), 0, history=history)
    assert {v.kind for v in check(done.instance, done.schedule)} <= {"deadline", "utilisation"}
    return done, {name: own[0] for name, own in runs(done).items()}


FULL = (job("p", epochs=9), job("q", "b", epochs=9))  # the two GPUs, till 90 s


def test_the_partner_of_highest_summed_throughput() -> None:
    """With p (kind a) x runs at 1/1.3 each, sum 1.54; with q (kind b) at 1/1.2 each, sum 1.67: it joins q."""
    _, found = _packed(*FULL, job("x", "c", at=5.0), truth=slow(ac=1.3, bc=1.2))
    assert found["x"] == (5.0, 17.0, ((0, 1),))


def test_the_threshold_is_exceeded_strictly() -> None:
    """At 4/3 both run at 0.75, the sum is 1.5 and no pair; a lower threshold packs."""
    jobs = (*FULL, job("x", "c", at=5.0))
    truth = slow(ac=1.6, bc=4.0 / 3.0)
    done, found = _packed(*jobs, truth=truth)
    assert found["x"][0] == 90.0 and done.counters == {"packed": 0}
    _, found = _packed(*jobs, truth=truth, options={"threshold": 1.4})
    assert found["x"][0] == 5.0


def test_alone_while_there_is_room() -> None:
    """Sharing would cost nothing, but GPU 1 is free: x goes there."""
    done, found = _packed(job("p", epochs=9), job("x", "c", at=5.0))
    assert found["x"] == (5.0, 15.0, ((0, 1),)) and done.counters["packed"] == 0


def test_equal_sums_take_the_lower_submit_index() -> None:
    """p and q are as good: the one submitted first gets x, the other y."""
    p, q = job("p", epochs=9, submit_index=7), job("q", epochs=9, submit_index=3)
    _, found = _packed(p, q, job("x", "c", at=5.0, submit_index=8), job("y", "c", at=6.0, submit_index=9))
    assert found["x"][2] == found["q"][2] and found["y"][2] == found["p"][2]


def test_a_third_job_never_joins() -> None:
    """At most two on a GPU whatever K: with both GPUs shared, z waits till x leaves at 15 s."""
    done, found = _packed(
        *FULL,
        job("x", "c", at=5.0),
        job("y", "c", at=6.0, epochs=2),
        job("z", "c", at=7.0),
        limits={"max_share": 4},
    )
    assert found["z"] == (15.0, 25.0, found["x"][2]) and done.counters["packed"] == 3


def test_k_of_one_packs_nobody() -> None:
    """K = 1 is obeyed."""
    done, found = _packed(*FULL, job("x", "c", at=5.0), limits={"max_share": 1})
    assert found["x"][0] == 90.0 and done.counters["packed"] == 0


def test_equal_gpu_counts_only() -> None:
    """A job of one GPU finds no partner in a job of two."""
    _, found = _packed(job("p", gpus=2, epochs=9), job("x", "c", at=5.0), job("y", "c", gpus=2, at=6.0))
    assert found["x"][0] == 90.0
    # The line is blocked by x: y, which has a partner, waits behind it.
    assert found["y"][0] == 100.0
    _, found = _packed(job("p", gpus=2, epochs=9), job("y", "c", gpus=2, at=6.0))
    assert found["y"] == (6.0, 16.0, ((0, 0), (0, 1)))


def test_no_one_is_placed_alone_past_a_blocked_head() -> None:
    """The pair does not fit and has no partner; x would fit on the free GPU and still waits (no backfill)."""
    _, found = _packed(job("p", epochs=9), job("pair", "b", gpus=2, at=5.0), job("x", "c", at=6.0))
    assert (found["pair"][0], found["x"][0]) == (90.0, 100.0)


def test_later_in_line_jobs_are_packed_though_they_would_fit_alone() -> None:
    """The pair is packed with w; x behind it, for which GPU 2 is free, is packed with p all the same."""
    done, found = _packed(
        job("w", gpus=2, epochs=9), job("p", epochs=9),
        job("pair", "b", gpus=2, at=5.0), job("x", "c", at=5.0),
        cluster=cluster((node_type(4), 1)),
    )  # fmt: skip
    assert found["pair"][2] == found["w"][2] and found["x"][2] == found["p"][2]
    assert done.counters["packed"] == 2


def test_whoever_ends_the_packing_is_placed_alone_if_it_fits() -> None:
    """The pair is packed with w; x behind it has no partner (p is exclusive), but GPU 3 is free."""
    _, found = _packed(
        job("w", gpus=2, epochs=9), job("p", epochs=9, exclusive=True),
        job("pair", "b", gpus=2, at=5.0), job("x", "c", at=5.0),
        cluster=cluster((node_type(4), 1)),
    )  # fmt: skip
    assert found["pair"][2] == found["w"][2] and found["x"] == (5.0, 15.0, ((0, 3),))


def test_whoever_lost_its_partner_is_unshared_again() -> None:
    """x (with q) leaves at 15 s; q is alone again, and y, the head since 6 s, joins it then."""
    truth = slow(ac=9.0, cc=9.0)
    _, found = _packed(*FULL, job("x", "c", at=5.0), job("y", "c", at=6.0), truth=truth)
    assert found["x"] == (5.0, 15.0, ((0, 1),)) and found["y"] == (15.0, 25.0, ((0, 1),))
    # And the one that joined: q leaves first (at 20 s), x stays, y joins x, of its own kind.
    jobs = (
        job("p", epochs=9),
        job("q", "b", epochs=2),
        job("x", "c", epochs=9, at=5.0),
        job("y", "c", at=6.0),
    )
    _, found = _packed(*jobs, truth=slow(ac=9.0))
    assert found["x"][:1] == (5.0,) and found["y"][0] == 20.0


def test_memory_exclusive_jobs_and_pairs_that_cannot_share() -> None:
    """20 + 10 GiB exceed 0.9 * 32; an exclusive job is no partner and has none; nor has a forbidden pair."""
    heavy = profile("h", memory_gib=20.0), profile("m", memory_gib=10.0)
    blocked = (
        (job("p", "h", gpus=2, epochs=2), job("x", "m", gpus=2, at=5.0), {}),
        (job("p", gpus=2, epochs=2, exclusive=True), job("x", gpus=2, at=5.0), {}),
        (job("p", gpus=2, epochs=2), job("x", gpus=2, at=5.0, exclusive=True), {}),
        (
            job("p", gpus=2, epochs=2),
            job("x", "b", gpus=2, at=5.0),
            {"truth": Interference(cannot_share=(("a", "b"),))},
        ),
    )
    for p, x, changes in blocked:
        _, found = _packed(p, x, profiles=heavy, **changes)
        assert found["x"][0] == 20.0
    # Model-parallel: 20 GiB over two GPUs are 10 on each, and 10 + 10 fit.
    p = job("p", "h", gpus=2, epochs=2, memory_kind=MemoryKind.MODEL_PARALLEL)
    _, found = _packed(p, job("x", "m", gpus=2, at=5.0), profiles=heavy)
    assert found["x"][0] == 5.0


def test_obey_u() -> None:
    """Loads 0.7 + 0.7: packed by default, a counted threshold violation; not with obey_u, nor a violation."""
    hot = [profile("a", util=0.7)]
    jobs = (job("p", gpus=2, epochs=2), job("x", gpus=2, at=5.0))
    done, found = _packed(*jobs, profiles=hot, limits={"u_threshold": 0.9})
    assert found["x"][0] == 5.0
    assert done.evaluation.threshold_violations == 1
    assert done.evaluation.threshold_excess == pytest.approx(0.5)
    done, found = _packed(*jobs, profiles=hot, limits={"u_threshold": 0.9}, options={"obey_u": True})
    assert found["x"][0] == 20.0 and done.evaluation.threshold_violations == 0


def test_it_believes_its_history() -> None:
    """Truth: c is fine with b and bad with a. A history that says the opposite makes x join p, and suffer."""
    truth, history = slow(ac=3.0, bc=1.1), slow(ac=1.1, bc=3.0)
    _, found = _packed(*FULL, job("x", "c", at=5.0), truth=truth, history=history)
    assert found["x"] == (5.0, 35.0, ((0, 0),))


def test_on_several_nodes_and_waking_ones() -> None:
    """A partner over two nodes that still waits for them: the newcomer joins it and begins with it at 5 s."""
    wide = cluster((node_type(2, wake_s=5.0), 2))
    _, found = _packed(job("p", gpus=3, epochs=3), job("x", "c", gpus=3, at=2.0), cluster=wide)
    assert found["p"][:2] == (5.0, 35.0) and found["x"][:2] == (5.0, 15.0)


def test_in_static_form() -> None:
    """Slots of 4 s: the same rule at slot boundaries."""
    instance = problem(job("p", gpus=2, epochs=2), job("x", gpus=2, at=5.0))
    done = simulate(instance, make_policy("fifo_packed"), 0, grid_s=4.0)
    assert {n: own[0][:2] for n, own in runs(done).items()} == {"p": (0.0, 20.0), "x": (8.0, 20.0)}


def test_options_are_checked() -> None:
    """Thresholds are numbers from 0, obey_u is true or false."""
    with pytest.raises(DomainError, match=r"^policy 'fifo_packed': threshold must be at least 0, got -1.0$"):
        make_policy("fifo_packed", threshold=-1.0)
    with pytest.raises(DomainError, match=r"^policy 'fifo_packed': obey_u must be true or false, got 1$"):
        make_policy("fifo_packed", obey_u=1)


class Plain:
    """FIFO_packed by exhaustive search: all placed jobs, all conditions, straight from the rule."""

    name = "plain"
    schedule_class = "static"

    def __init__(self, threshold: float, obey_u: bool) -> None:
        self.threshold, self.obey_u = threshold, obey_u

    def begin(self, world: World, rng: np.random.Generator) -> None:
        pass

    def decide(self, world: World, events: Sequence[Event]) -> Iterator[Action]:
        jobs = world.instance.jobs
        line = sorted(world.waiting, key=lambda j: (-jobs[j].priority, jobs[j].release_s, j))
        packing = False
        while line:
            j = line[0]
            alone = () if packing else world.best_fit(j)
            scored = [(self.score(world, j, k), -k) for k in world.gpus_of if self.fits(world, j, k)]
            score, k = max(scored, default=(0.0, 0))
            if alone:
                yield Start(j, alone)
            elif score > self.threshold:
                packing = True
                yield Start(j, world.gpus_of[-k])
            elif packing:
                packing = False  # once more alone
                continue
            else:
                return
            line.remove(j)

    def fits(self, world: World, j: int, k: int) -> bool:
        gpus = world.gpus_of[k]
        return (
            len(gpus) == world.instance.jobs[j].gpus
            and all(world.residents(g) == (k,) for g in gpus)
            and world.may_use(j, world.gpu_node[gpus[0]])
            and world.can_join(j, gpus, self.obey_u)
        )

    def score(self, world: World, j: int, k: int) -> float:
        instance = world.instance
        kinds = [instance.profile(instance.jobs[i].profile).kind for i in (j, k)]
        if not world.history.base.can_share(kinds):
            return 0.0
        factors = world.history.base.factors(kinds, instance.demands())
        return 1.0 / factors[kinds[0]] + 1.0 / factors[kinds[1]]


def test_against_the_plain_search() -> None:
    """On random problems the same segments as exhaustive search, with enough packing to matter."""
    packed = 0
    for seed in range(200):
        case = random_case(seed)
        threshold, obey_u = (1.5, 1.2, 1.0)[seed % 3], seed % 2 == 0
        policy = make_policy("fifo_packed", threshold=threshold, obey_u=obey_u)
        fast = simulate(possible(case.instance), policy, 0, grid_s=case.grid_s, history=case.history)
        plain = simulate(
            possible(case.instance), Plain(threshold, obey_u), 0, grid_s=case.grid_s, history=case.history
        )
        assert runs(fast) == runs(plain), seed
        packed += fast.counters["packed"]
    assert packed > 100


def test_all_pairs_of_a_table() -> None:
    """Four kinds, all ten pairs measured: for each newcomer and two residents the better sum wins."""
    rng = np.random.default_rng(1)
    kinds = "abcd"
    rows = []
    for pair in [(x, x) for x in kinds] + list(combinations(kinds, 2)):
        one, two = (round(float(f), 2) for f in rng.uniform(1.0, 1.4, 2))
        rows.append(MeasuredSlowdown(kinds=pair, factors=(one, one if pair[0] == pair[1] else two)))
    truth = Interference(measured=tuple(rows))
    demands = problem(profiles=[profile("d")]).demands()

    def total(x: str, y: str) -> float:
        factors = truth.factors([x, y], demands)
        return 1.0 / factors[x] + 1.0 / factors[y]

    for x in kinds:
        for y, z in combinations(kinds, 2):
            _, found = _packed(
                job("p", y, epochs=9), job("q", z, epochs=9), job("x", x, at=5.0),
                truth=truth, profiles=[profile("d")], options={"threshold": 1.0},
            )  # fmt: skip
            assert found["x"][2] == (((0, 0),) if total(x, y) >= total(x, z) else ((0, 1),))
