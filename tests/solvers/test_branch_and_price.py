"""Branch-and-price: pricing against all busy periods of a node, bounds against optima, branching by itself.

What pricing has to find is known from :mod:`tests.solvers.busy_period_cases`, which knows nothing of tables
and labels; optima come from brute force.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections import Counter
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
import pytest
from scipy.optimize import linprog

from eaco_opt.instance import Instance
from eaco_opt.interference import Interference, MeasuredSlowdown
from eaco_opt.limits import Limits
from eaco_opt.physics import evaluate
from eaco_opt.policies import POLICIES, make_policy
from eaco_opt.power import GpuPower, MeasuredPower, PowerModel, ServerPower
from eaco_opt.result import Status, StopReason
from eaco_opt.schedule import Plan
from eaco_opt.simulator import simulate
from formulations.base import FormulationError
from formulations.grid import make_grid
from formulations.space import Space
from instances.generators import generate
from solvers import solve
from solvers.bruteforce import bruteforce
from solvers.busy_periods import BranchAndPrice
from solvers.busy_periods.master import Duals
from solvers.busy_periods.pricing import Pricer, Prices
from solvers.busy_periods.replay import columns_of, plan_of
from solvers.busy_periods.tables import Place, make_places
from solvers.busy_periods.teams import priced
from solvers.busy_periods.tree import Decisions, Report, Search
from tests.solvers.busy_period_cases import Period, allowed, on_the_grid, periods, reduced
from tests.solvers.random_instances import SLOT_S, agreement_instance, random_instance
from tests.solvers.test_bruteforce import D, instance, job, kilojoule, node_type, profile

NONE = 1e-9
"""Reduced costs above minus this are none; that of the search."""

ROUNDING = 1e-9
"""Costs of one busy period worked out in two ways differ by less, objectives being about 1."""


def space_of(problem: Instance, grid_s: float = SLOT_S) -> Space:
    return Space(problem, make_grid(problem, grid_s))


def optimum(problem: Instance, grid_s: float = SLOT_S) -> float:
    """Return the optimum by brute force, infinity if there is no plan."""
    value = bruteforce(problem, grid_s=grid_s).objective
    return math.inf if value is None else value


def close(a: float, b: float) -> bool:
    return math.isclose(a, b, rel_tol=1e-6, abs_tol=1e-12)


# ------------------------------------------------------------------------------------------------ pricing


@dataclasses.dataclass(frozen=True, eq=False)
class Case:
    """An instance, one of its places, and all busy periods there."""

    problem: Instance
    space: Space
    number: int
    place: Place
    found: list[Period]


def bridged(rng: np.random.Generator) -> Instance:
    """Four jobs of three kinds on one node, with tight windows: busy periods hang on who slows whom."""
    kinds = ("p", "q", "t")
    jobs = []
    for i in range(4):
        epochs, release = int(rng.integers(1, 5)), int(rng.integers(0, 4))
        due = release + epochs + int(rng.integers(0, 3))
        kind = str(rng.choice(kinds))
        jobs.append(job(f"j{i}", epochs, profile=kind, release_s=release * D, deadline_s=due * D))
    slowdowns = [1.0, 1.5, 2.0] if rng.random() < 0.6 else [0.7, 1.0, 1.5]
    rows = []
    for a, b in itertools.combinations_with_replacement(kinds, 2):
        one, two = (float(rng.choice(slowdowns)) for _ in range(2))
        rows.append(MeasuredSlowdown(kinds=(a, b), factors=(one, one if a == b else two)))
    return instance(
        *jobs,
        truth=Interference(measured=tuple(rows), model="additive"),
        profiles=tuple(profile(k, util=0.1, tau_s=float(rng.choice([300.0, 600.0]))) for k in kinds),
        limits=Limits(max_share=3, u_threshold=1.0),
    )


@cache
def cases() -> tuple[Case, ...]:
    """Places of small random instances, and all their busy periods."""
    problems = []
    for seed in range(54):
        rng = np.random.default_rng([7, seed])
        problems.append(
            bridged(rng)
            if seed % 3 == 0
            else on_the_grid(
                random_instance(rng, jobs=(3, 4), infinite=0.0, wide=False, wakes=False, slack=(1, 4))
            )
        )
    out = []
    for problem in problems:
        space = space_of(problem)
        if space.windows.hopeless() or BranchAndPrice().covers(problem):
            continue
        for number, place in enumerate(make_places(space)):
            found = periods(problem, place.node_type, most=3_000)
            if found:
                out.append(Case(problem, space, number, place, found))
    return tuple(out)


def least_alone(case: Case) -> np.ndarray:
    """Return the least cost of each job by itself, 0 where it cannot run."""
    jobs = range(len(case.problem.jobs))
    return np.array([min((p.cost for p in case.found if p.jobs == (j,)), default=0.0) for j in jobs])


def draws(case: Case, number: int, seed: int) -> Iterator[tuple[Place, Prices, str]]:
    """Yield places with narrower windows, prices and rules as a node of the tree may have them."""
    rng = np.random.default_rng([seed, len(case.found)])
    alone = least_alone(case)
    jobs, slots = case.place.can_start.shape
    unit = float(alone.max())
    for draw in range(number):
        gain = alone * (
            rng.uniform(0.3, 1.5, jobs) if draw % 2 else rng.choice([-0.1, 0.0, 0.3, 0.6, 0.9, 1.0], jobs)
        )
        price = unit * rng.uniform(0.0, 0.5, slots) * (rng.random(slots) < 0.3)
        triples = list(itertools.combinations(range(jobs), 3))
        cuts = [(triples[i], unit * float(rng.uniform(0, 1))) for i in rng.permutation(len(triples))[:2]]
        pairs = [
            tuple(sorted(int(i) for i in p)) for p in (rng.permutation(jobs)[:2], rng.permutation(jobs)[:2])
        ]
        kind = ("plain", "cuts", "apart", "together", "both", "first end", "windows")[draw % 7]
        place = case.place
        can, last, first = place.can_start.copy(), place.last_end.copy(), place.first_end.copy()
        if kind in ("together", "both", "first end", "windows"):
            for j in range(jobs):
                at = np.flatnonzero(can[j])
                can[j] = False
                can[j, rng.permutation(at)[: int(rng.integers(1, 4))]] = True
        one = pairs[0][0]
        if kind == "first end":
            first[one] = int(rng.integers(0, slots + 1))
            gain[one] += unit * rng.uniform(0, 1.5)
        if kind == "windows":
            last[one] = int(rng.integers(0, slots + 1))
        if kind in ("together", "both"):
            # Duals of jobs that have to be together are only known as a sum.
            shift = unit * rng.uniform(0, 4)
            gain[list(pairs[0])] += [shift + 0.3 * unit, -shift]
        yield (
            place.narrowed(can, last, first),
            Prices(
                gain=gain,
                price=price,
                cuts=cuts if kind in ("cuts", "both") else [],
                apart=[pairs[1]] if kind == "apart" or (kind == "both" and pairs[0] != pairs[1]) else [],
                together=[pairs[0]] if kind in ("together", "both") else [],
            ),
            kind,
        )


def test_pricing_misses_no_busy_period() -> None:
    """Whatever the duals, the cuts and the decisions of the tree: the bound of the exact search holds.

    If some allowed busy period has a negative reduced cost, one is found; no one's reduced cost is below its
    number of jobs times the least that was met; what is found exists at that cost. So for measured powers
    below a member's and slowdowns below 1, too, which break what the bounds by residents alone rest on.
    """
    seen: Counter[str] = Counter()
    for case in cases():
        known: dict[Any, list[float]] = {}
        for p in case.found:
            known.setdefault((p.jobs, p.starts, p.ends), []).append(p.cost)
        for place, prices, kind in draws(case, 21, seed=1):
            priced = [(reduced(p, prices), p) for p in case.found if allowed(p, prices, place)]
            pricer = Pricer(case.number, place)
            lanes = pricer.lanes(prices)
            columns, least = pricer.search(prices, limit=-NONE, lanes=lanes)
            low = min((cost for cost, _ in priced), default=0.0)
            assert columns or low >= -NONE - ROUNDING, (case.problem, kind, low)
            assert low <= least + ROUNDING or not columns
            for cost, p in priced:
                assert cost >= len(p.jobs) * min(0.0, least, -NONE) - ROUNDING, (case.problem, kind, p)
            for c in columns:
                costs = known[c.jobs, c.starts, c.ends]
                assert min(abs(c.cost - cost) for cost in costs) <= ROUNDING
                assert c.first == min(c.starts) and c.end == max(c.ends)
            seen.update([kind, f"{kind}, negative" if columns else ""])
            seen["same least"] += bool(columns) and abs(low - least) <= ROUNDING
            seen["negative"] += bool(columns)
            seen["company speeds up"] += bool(columns) and not place.monotone
            seen["company saves"] += bool(columns) and place.toll > 0.0
            seen["cells"] += bool(columns) and place.cells > 1
    kinds = ("plain", "cuts", "apart", "together", "both", "first end", "windows")
    assert min(seen[f"{kind}, negative"] for kind in kinds) >= 10, seen
    assert min(seen["company speeds up"], seen["company saves"], seen["cells"]) >= 10, seen
    assert seen["same least"] >= 0.9 * seen["negative"] > 0, seen


def test_a_job_may_be_there_to_keep_two_together() -> None:
    """A busy period that pays only as it joins two jobs, which have to be together and never meet.

    a runs in slot 1, b in slot 3, r in slots 0 to 3. r by itself is worth less than it adds in any company;
    without r, a and b are on two busy periods, which is not allowed. Cost of all three: energy 150 W * 4 + 30
    W * 6 of 2 * 180 W * 6 for E0, AvgTPE 1 of 1: 780 / 2160 + 1 / 2 = 0.861. So the reduced cost is 0.861 -
    (0.2 + 2.65 - 1.75) = -0.239.
    """
    problem = instance(
        job("r", 4, deadline_s=4 * D),
        job("a", 1, release_s=1 * D, deadline_s=2 * D),
        job("b", 1, release_s=3 * D, deadline_s=4 * D),
    )
    (place,) = make_places(space_of(problem))
    gain = np.array([0.2, 2.65, -1.75])
    prices = Prices(gain=gain, price=np.zeros(place.can_start.shape[1]), together=[(1, 2)])
    pricer = Pricer(0, place)
    columns, least = pricer.search(prices, limit=-NONE, lanes=pricer.lanes(prices))
    assert [(c.jobs, c.starts) for c in columns] == [((0, 1, 2), (0, 1, 3))]
    assert columns[0].cost == pytest.approx(780 / 2160 + 0.5)
    assert least == pytest.approx(780 / 2160 + 0.5 - 1.1)


def test_what_may_still_come_counts_against_what_has_been() -> None:
    """A label that has not had a job yet is not dropped for one that has, and costs little less.

    r runs in slots 0 to 3, x in slot 0, o in slot 0 or 2. All three together draw 2000 W; r and x, or r and
    o, 210 W; one alone 180 W. E0 is 6 slots of 180 W. A node pays 5 in slots 0 and 2, so that only r and x
    together are worth it: reduced cost 0. With o in slot 0 it is 0.001 less; with o in slot 2 it is o's 30
    W less its dual.
    """
    power = PowerModel(
        server=ServerPower(idle_w=100.0, busy_w=100.0),
        gpu=GpuPower(standing_w=50.0, dynamic_w=100.0),
        measured=(MeasuredPower(kinds=("p", "p", "x"), power_w=2000.0),),
    )
    problem = instance(
        job("r", 4, deadline_s=4 * D),
        job("x", 1, profile="x", deadline_s=1 * D),
        job("o", 1, deadline_s=3 * D),
        nodes=((node_type(power=power), 1),),
        profiles=(profile(), profile("x")),
        limits=Limits(max_share=3, u_threshold=1.0),
        alpha=1.0,
    )
    (place,) = make_places(space_of(problem))
    can = place.can_start.copy()
    can[2] = [True, False, True, False]
    place = place.narrowed(can, place.last_end, place.first_end)
    both, more = (210 + 3 * 180) / 1080, (2000 - 210) / 1080
    gain = np.array([both + 10.0 - 3.0, 3.0, more + 0.001])
    prices = Prices(gain=gain, price=np.array([5.0, 0.0, 5.0, 0.0]))
    pricer = Pricer(0, place)
    columns, least = pricer.search(prices, limit=-NONE, lanes=pricer.lanes(prices))
    assert least == pytest.approx(30 / 1080 - more - 0.001)
    assert (0, 0, 2) in {c.starts for c in columns}


SLOT_W = D / 3.6e6
"""What a watt costs for a slot where energy alone counts, in kWh."""


def least_reduced(problem: Instance, gain_w: list[float], price_w: list[float], **rules: Any) -> float:
    """Return the least reduced cost on the only place, duals and answer in W for a slot.

    The first job may start in slot 0 only.
    """
    (place,) = make_places(space_of(problem))
    can = place.can_start.copy()
    can[0, 1:] = False
    place = place.narrowed(can, place.last_end, place.first_end)
    prices = Prices(gain=SLOT_W * np.array(gain_w), price=SLOT_W * np.array(price_w), **rules)
    pricer = Pricer(0, place)
    _, least = pricer.search(prices, limit=-NONE, lanes=pricer.lanes(prices))
    return least / SLOT_W


def watts(*measured: tuple[str, float]) -> PowerModel:
    """Power as everywhere here, 180, 210 and 240 W for one, two and three jobs, but for what was measured."""
    return PowerModel(
        server=ServerPower(idle_w=100.0, busy_w=100.0),
        gpu=GpuPower(standing_w=50.0, dynamic_w=100.0),
        measured=tuple(MeasuredPower(kinds=tuple(kinds), power_w=w) for kinds, w in measured),
    )


@pytest.mark.parametrize("swapped", [False, True])
def test_a_cut_that_is_still_to_be_paid_counts(swapped: bool) -> None:
    """A label with one job of a cut is not as good as one with none.

    r runs in slots 0 to 3, beside it a or b in slot 0 and c in slot 2, two jobs at a time. r with a is worth
    1 W more than with b, but a and c are in a cut that costs 300 W. c adds 30 W and is worth 100 W. A node
    pays 3000 W in slots 0 and 2, so no other busy period is worth it. Least: r, b, c with 0 + 30 - 100 W.
    """
    one, two = job("a", 1, deadline_s=1 * D), job("b", 1, deadline_s=1 * D, priority=1)
    problem = instance(
        job("r", 4, deadline_s=4 * D),
        *((two, one) if swapped else (one, two)),
        job("c", 1, release_s=2 * D, deadline_s=3 * D),
        job("d", 1, release_s=5 * D, deadline_s=6 * D),
        objective=kilojoule(),
    )
    a, b = (2, 1) if swapped else (1, 2)
    gain = [210.0 + 3 * 180.0 + 6000.0 - 1500.0, 0.0, 0.0, 100.0, 0.0]
    gain[a], gain[b] = 1501.0, 1500.0
    cuts = [(tuple(sorted((a, 3, 4))), 300.0 * SLOT_W)]
    assert least_reduced(problem, gain, [3000.0, 0.0, 3000.0, 0.0, 0.0, 0.0], cuts=cuts) == pytest.approx(
        -70.0
    )


def test_less_work_left_is_no_advantage_where_company_saves_power() -> None:
    """A job that ends later may save more in measured power than the label that ends sooner is ahead.

    r (3 epochs) runs from slot 0 on, with a or b in slot 0; b slows it to half, so that it ends after slot 3
    instead of 2. c runs in slots 1 to 3. r and c together draw 60 W, c alone 180 W. With a: 210 + 60 + 60 +
    180 = 510 W; with b: 210 + 3 * 60 = 390 W. a is worth 10 W more. A node pays 3000 W in slots 0 and 3, so
    that no other busy period is worth it. Duals of r, b and c: 6391 W, the least is -1 W.
    """
    problem = instance(
        job("r", 3, deadline_s=4 * D),
        job("a", 1, profile="a", deadline_s=1 * D),
        job("b", 1, profile="b", deadline_s=1 * D),
        job("c", 3, release_s=1 * D, deadline_s=4 * D),
        nodes=((node_type(power=watts(("pp", 60.0))), 1),),
        profiles=(profile(), profile("a"), profile("b")),
        truth=Interference(measured=(MeasuredSlowdown(kinds=("b", "p"), factors=(1.0, 2.0)),)),
        objective=kilojoule(),
    )
    gain = [3291.0, 110.0, 100.0, 3000.0]
    assert least_reduced(problem, gain, [3000.0, 0.0, 0.0, 3000.0]) == pytest.approx(-1.0)


def test_less_work_left_is_no_advantage_where_company_speeds_up() -> None:
    """A job that ends later may carry another one to its end in time.

    As before, but c has 6 epochs in slots 1 to 3, and takes half the time beside r: only with r there in all
    three does it end. With b: 4 * 210 = 840 W and 3000 W for slot 0; duals of r, b and c 3841 W.
    """
    problem = instance(
        job("r", 3, deadline_s=4 * D),
        job("a", 1, profile="a", deadline_s=1 * D),
        job("b", 1, profile="b", deadline_s=1 * D),
        job("c", 6, profile="c", release_s=1 * D, deadline_s=4 * D),
        profiles=(profile(), profile("a"), profile("b"), profile("c")),
        truth=Interference(
            measured=(
                MeasuredSlowdown(kinds=("b", "p"), factors=(1.0, 2.0)),
                MeasuredSlowdown(kinds=("c", "p"), factors=(0.5, 1.0)),
            )
        ),
        objective=kilojoule(),
    )
    gain = [3131.0, 120.0, 110.0, 600.0]
    assert least_reduced(problem, gain, [3000.0, 0.0, 0.0, 0.0]) == pytest.approx(-1.0)


def test_residents_may_pay_by_slowing_down_whom_company_makes_cheap() -> None:
    """A busy period whose later jobs are worth nothing by themselves, and cost less with the first one there.

    r runs in slots 0 to 4, c and d from slot 1 on. Beside r, c takes 4 slots as d does, else 2. c and d
    together draw 60 W, with r 90 W. Without r: 2 * 60 + 2 * 180 = 480 W, their duals. With r: 180 + 4 * 90 =
    540 W, of which r adds 180 + 4 * 30 = 300 W if the others cost what they do without it. r's dual is 200 W.
    """
    problem = instance(
        job("r", 5, profile="r", deadline_s=5 * D),
        job("c", 2, profile="c", release_s=1 * D, deadline_s=5 * D),
        job("d", 4, profile="d", release_s=1 * D, deadline_s=5 * D),
        nodes=((node_type(power=watts(("cd", 60.0), ("cdr", 90.0))), 1),),
        profiles=tuple(profile(kind) for kind in "cdr"),
        truth=Interference(
            measured=(
                MeasuredSlowdown(kinds=("c", "r"), factors=(2.0, 1.0)),
                MeasuredSlowdown(kinds=("c", "d", "r"), factors=(2.0, 1.0, 1.0)),
            )
        ),
        limits=Limits(max_share=3, u_threshold=1.0),
        objective=kilojoule(),
    )
    assert least_reduced(problem, [200.0, 120.0, 360.0], [0.0] * 5) == pytest.approx(540.0 - 680.0)


@pytest.mark.parametrize("beam", [1, 5, 50])
def test_beams_return_busy_periods_at_their_cost(beam: int) -> None:
    """A beam may miss, but what it returns is below the limit, allowed, and costs what it says."""
    found = 0
    for case in cases()[:24]:
        known: dict[Any, list[float]] = {}
        for p in case.found:
            known.setdefault((p.jobs, p.starts, p.ends), []).append(p.cost)
        for place, prices, _ in draws(case, 7, seed=2):
            pricer = Pricer(case.number, place)
            columns, _ = pricer.search(prices, limit=-NONE, lanes=pricer.lanes(prices), beam=beam)
            for c in columns:
                assert min(abs(c.cost - cost) for cost in known[c.jobs, c.starts, c.ends]) <= ROUNDING
                period = Period(c.jobs, c.starts, c.ends, c.cost)
                assert allowed(period, prices, place) and reduced(period, prices) < 0.0
            found += len(columns)
    assert found >= 50


def lineage(pricer: Pricer) -> tuple[Any, np.ndarray]:
    """Return the labels of the last search, and for each the least reduced cost of what became of it."""
    labels = pricer._labels
    assert labels is not None
    made = pricer.count.labels
    best = np.where(labels.residents[:made] == 0, labels.cost[:made], math.inf)
    for row in range(made - 1, -1, -1):
        if labels.parent[row] >= 0:
            best[labels.parent[row]] = min(best[labels.parent[row]], best[row])
    return labels, best


def test_the_bound_by_lanes_is_one() -> None:
    """No label's bound is above the reduced cost of a column that it became.

    With a limit beyond all costs only dominated labels are dropped; the bound by residents alone, which is
    about another thing, is switched off by saying that company may speed up.
    """
    compared = tight = 0
    for case in cases():
        for place, prices, kind in draws(case, 7, seed=3):
            if kind in ("together", "both"):
                continue  # halves of a pair are dropped
            pricer = Pricer(case.number, place._replace(monotone=False))
            lanes = pricer.lanes(prices)
            pricer.search(prices, limit=1e9, lanes=lanes, whole=True)
            labels, best = lineage(pricer)
            known = np.isfinite(best)
            over = (labels.bound[: len(best)] - best)[known]
            assert (over <= ROUNDING).all(), (case.problem, kind, float(over.max()))
            compared += int(known.sum())
            tight += int((over >= -1e-2)[labels.residents[: len(best)][known] > 0].sum())
    assert compared >= 5_000
    assert tight >= 200  # a bound that is far below would prove nothing here


def test_teams_cost_no_more_than_their_busy_periods() -> None:
    """Each busy period of a few jobs by themselves begins and costs no less than one of their team's.

    On nodes of one cell the cheapest of each first slot and end is there at its cost, unless two that touch
    (which count as one there, and as two here) are cheaper.
    """
    exact = touching = bounded = 0
    for case in cases():
        teams = case.place.teams
        if teams is None:
            continue
        zero = np.zeros(len(case.problem.jobs))
        value = priced(teams, zero, np.zeros(case.place.can_start.shape[1]), [])
        for p in case.found:
            if len(p.jobs) > teams.size:
                continue
            number = int(teams.offset[len(p.jobs)])
            number += sum(int(teams.choose[j, i + 1]) for i, j in enumerate(p.jobs))
            assert teams.members[number, : len(p.jobs)].tolist() == list(p.jobs)
            rows = np.arange(teams.at[number, p.first], teams.at[number, p.first + 1])
            assert (teams.first[rows] == p.first).all() and (teams.team[rows] == number).all()
            if case.place.cells == 1:
                (same,) = rows[teams.end[rows] == p.end]
                least = min(
                    q.cost for q in case.found if (q.jobs, q.first, q.end) == (p.jobs, p.first, p.end)
                )
                assert value[same] <= least + ROUNDING
                exact += value[same] >= least - ROUNDING
                touching += value[same] < least - ROUNDING
            elif case.place.monotone and case.place.toll == 0.0 and len(rows):
                assert value[rows[teams.end[rows] <= p.end]].min() <= p.cost + ROUNDING
                bounded += 1
    assert min(exact, bounded) >= 100
    assert touching <= 0.2 * exact


def stop_at_the_root(report: Report) -> None:
    """Interrupt a search once its relaxation is solved."""
    if report.root_bound is not None:
        raise KeyboardInterrupt


@pytest.mark.parametrize(("family", "jobs", "nodes"), [("whole-node", 9, 3), ("mixed", 5, 2)])
def test_teams_change_no_bound(family: str, jobs: int, nodes: int) -> None:
    """The relaxation costs the same whether late joiners are compared with teams or not."""
    pruned = 0
    for seed in range(3):
        limits = Limits(u_threshold=1.0, mem_threshold=1.0, max_share=3)
        problem = generate(family, jobs=jobs, nodes=nodes, epochs=(3, 30), limits=limits, seed=seed)
        space = Space(problem, make_grid(problem, 3600.0))
        if space.windows.hopeless():
            continue
        places = make_places(space)
        assert all(p.teams is not None for p in places)
        bounds = []
        for choice in (places, [p._replace(teams=None) for p in places]):
            search = Search(space, choice, watch=stop_at_the_root)
            report = search.run()
            assert report.root_bound is not None
            bounds.append(report.root_bound)
            pruned += sum(p.count.pruned for p in search.pricers)
        assert bounds[0] == pytest.approx(bounds[1], rel=1e-6)
    assert pruned or family != "whole-node"


def test_the_bound_by_residents_alone_is_one() -> None:
    """A column costs at least its label, what residents add, and the best that its later jobs do without.

    The later jobs' best: the least sum of reduced costs over all ways to divide them among busy periods.
    """
    compared = 0
    for case in cases():
        if not case.place.monotone or case.place.toll > 0.0:
            continue
        for place, prices, kind in draws(case, 7, seed=4):
            if kind not in ("plain", "apart", "windows"):
                continue
            best: dict[frozenset[int], float] = {}
            for p in case.found:
                if allowed(p, prices, place):
                    key = frozenset(p.jobs)
                    best[key] = min(best.get(key, math.inf), reduced(p, prices))

            @cache
            def divided(jobs: frozenset[int], best: dict[frozenset[int], float] = best) -> float:
                if not jobs:
                    return 0.0
                first = min(jobs)
                rest = sorted(jobs - {first})
                parts = (
                    frozenset({first, *more})
                    for size in range(len(rest) + 1)
                    for more in itertools.combinations(rest, size)
                )
                return min(best.get(part, math.inf) + divided(jobs - part) for part in parts)

            pricer = Pricer(case.number, place)
            pricer.search(prices, limit=1e9, lanes=pricer.lanes(prices), whole=True)
            labels, _ = lineage(pricer)
            for row in np.flatnonzero(labels.residents[: pricer.count.labels] == 0):
                all_jobs = int(labels.been[row, 0])
                at = int(labels.parent[row])
                while at >= 0:
                    later = all_jobs & ~int(labels.been[at, 0])
                    o = frozenset(j for j in range(len(case.problem.jobs)) if (later >> j) & 1)
                    assert labels.joined[at] + divided(o) <= labels.cost[row] + ROUNDING, case.problem
                    compared += bool(o)
                    at = int(labels.parent[at])
    assert compared >= 300


# ------------------------------------------------------------------------------------ linear programme, bound


def divisions(jobs: tuple[int, ...]) -> Iterator[list[tuple[int, ...]]]:
    """Yield all ways to divide jobs among sets."""
    if not jobs:
        yield []
        return
    for size in range(len(jobs)):
        for more in itertools.combinations(jobs[1:], size):
            for rest in divisions(tuple(j for j in jobs[1:] if j not in more)):
                yield [(jobs[0], *more), *rest]


def test_a_list_holds_something_as_good_as_any_busy_period() -> None:
    """Whatever is below the limit: some columns of the list hold its jobs, within its slots, at no more cost.

    At cost, not at reduced cost: an integer programme chooses among them. The duals are such that no reduced
    cost is below 0, as they are when columns are listed.
    """
    compared = 0
    for case in cases():
        limit = 0.4 * float(least_alone(case).max())
        for place, prices, kind in draws(case, 7, seed=6):
            if kind in ("together", "both", "first end"):
                continue  # no part of a busy period can stand for it there
            gain = prices.gain.copy()
            below = [p for p in case.found if allowed(p, prices, place)]
            for _ in range(60):
                prices = dataclasses.replace(prices, gain=gain.copy())
                low, worst = min(
                    ((reduced(p, prices), p) for p in below), key=lambda x: x[0], default=(0.0, None)
                )
                if low >= 0.0 or worst is None:
                    break
                gain[list(worst.jobs)] += 1.01 * low / len(worst.jobs)
            if low < 0.0:
                continue
            pricer = Pricer(case.number, place)
            lanes = pricer.lanes(prices)
            columns, _ = pricer.search(prices, limit=limit, lanes=lanes, whole=True)
            for p in below:
                if reduced(p, prices) < limit - ROUNDING:
                    cost = min(
                        math.fsum(
                            min(
                                (c.cost for c in columns
                                 if c.jobs == part and c.first >= p.first and c.end <= p.end),
                                default=math.inf,
                            )
                            for part in parts
                        )
                        for parts in divisions(p.jobs)
                    )  # fmt: skip
                    assert cost <= p.cost + ROUNDING, (case.problem, kind, p)
                    compared += len(p.jobs) > 1
    assert compared >= 100


def test_a_list_prefers_what_costs_less_to_what_begins_later() -> None:
    """Worked by hand: the same jobs are done in the end, but later and dearer, and a price hides it.

    a (2 slots) may start in slot 1 or 2, b (3 slots) in slot 2. A pair draws 600 W, more than two nodes. From
    slot 1: 180 W, 600 W, and b alone 2 * 180 W, together 1140 W slots. From slot 2: 600 W twice and 180 W:
    1380. E0 is that of z, a and b by themselves: 6 * 180. A node's price of 0.4 in slot 1 makes the
    second one's reduced cost the smaller by 0.4 - 240 / 1080 = 0.18.
    """
    power = PowerModel(
        server=ServerPower(idle_w=100.0, busy_w=100.0),
        gpu=GpuPower(standing_w=50.0, dynamic_w=100.0),
        measured=(MeasuredPower(kinds=("p", "p"), power_w=600.0),),
    )
    problem = instance(
        job("z", 1, deadline_s=1 * D),
        job("a", 2, release_s=1 * D, deadline_s=4 * D),
        job("b", 3, release_s=2 * D, deadline_s=5 * D),
        nodes=((node_type(power=power), 1),),
        alpha=1.0,
    )
    (place,) = make_places(space_of(problem))
    gain, price = np.array([0.0, 1.0, 0.2]), np.array([0.0, 0.4, 0.0, 0.0, 0.0])
    prices, pricer = Prices(gain=gain, price=price), Pricer(0, place)
    columns, _ = pricer.search(prices, limit=2.0, lanes=pricer.lanes(prices), whole=True)
    pairs = {c.starts: c.cost for c in columns if c.jobs == (1, 2)}
    assert pairs[1, 2] == pytest.approx(1140 / 1080)
    assert pairs[2, 2] == pytest.approx(1380 / 1080)


def small(seed: int, **more: Any) -> Instance:
    options: dict[str, Any] = {
        "jobs": (2, 4),
        "infinite": 0.0,
        "wide": False,
        "wakes": False,
        "slack": (1, 3),
    }
    return on_the_grid(random_instance(np.random.default_rng([11, seed]), **{**options, **more}))


@cache
def wholes() -> tuple[tuple[Instance, Space, list[Place], list[list[Period]], float], ...]:
    """Feasible instances with all busy periods of all places, and the optimum."""
    out = []
    for seed in range(60):
        problem = small(seed)
        space = space_of(problem)
        if space.windows.hopeless() or BranchAndPrice().covers(problem):
            continue
        places = make_places(space)
        found = []
        for place in places:
            every = periods(problem, place.node_type, most=2_500)
            if every is None:
                break
            none = Prices(gain=np.zeros(len(problem.jobs)), price=np.zeros(space.grid.slots))
            found.append([p for p in every if allowed(p, none, place)])
        if len(found) == len(places) and (best := optimum(problem)) < math.inf:
            out.append((problem, space, places, found, best))
    return tuple(out)


def test_the_bound_holds_for_whatever_duals() -> None:
    """`Master.bound` with random duals and the least reduced costs of all busy periods: never above it."""
    near = sleeping = several = 0
    for problem, space, places, found, best in wholes():
        search = Search(space, places)
        jobs, slots = len(problem.jobs), space.grid.slots
        search.master.restrict([], search._first_horizon(), search.most)
        rng = np.random.default_rng(len(found[0]))
        triples = list(itertools.combinations(range(jobs), 3))
        search.master.add_cuts(triples)
        for draw in range(12):
            gain = (best + search.constant) / jobs * rng.uniform(0.5 if draw % 3 else -2.0, 1.5, jobs)
            price = rng.uniform(0.0, best, (len(places), slots)) * (rng.random((len(places), slots)) < 0.2)
            cuts = rng.uniform(0.0, 0.3 * best, len(triples)) * (draw % 2)
            least = [
                min(
                    reduced(
                        p,
                        Prices(
                            gain=gain, price=price[k], cuts=list(zip(triples, cuts.tolist(), strict=True))
                        ),
                    )
                    for p in every
                )
                for k, every in enumerate(found)
                if every
            ]
            bound = search.master.bound(Duals(gain=gain, price=price, cuts=cuts), least)
            assert bound <= (best + search.constant) * (1.0 + 1e-9), (problem, bound, best)
            near += bound >= 0.5 * (best + search.constant)
        sleeping += search.sleep > 0.0
        several += len(places) > 1
    assert near >= 20 and sleeping >= 5 and several >= 2


def relaxation(space: Space, places: list[Place], found: list[list[Period]]) -> float:
    """Return the linear programme over all busy periods, without sleep power, by SciPy."""
    jobs, slots = len(space.instance.jobs), space.grid.slots
    cost, cover, nodes = [], [], []
    for k, every in enumerate(found):
        for p in every:
            cost.append(p.cost)
            cover.append([float(j in p.jobs) for j in range(jobs)])
            row = np.zeros((len(places), slots))
            row[k, p.first : p.end] = 1.0
            nodes.append(row.ravel())
    most = np.repeat([float(place.nodes) for place in places], slots)
    done = linprog(
        cost, A_ub=np.array(nodes).T, b_ub=most, A_eq=np.array(cover).T, b_eq=np.ones(jobs), method="highs"
    )
    assert done.status == 0
    return float(done.fun) - space.costs.total_constant


def test_the_root_is_the_linear_programme_over_all_busy_periods() -> None:
    """Before cuts the bound is the optimum of that, or as much as was needed to meet the best schedule."""
    compared = 0
    for problem, space, places, found, best in wholes():
        if any(t.sleep_w > 0.0 for t in problem.cluster.node_types):
            continue
        report = Search(space, places, cutting=False, listing=False).run()
        assert report.root_bound is not None and close(report.value, best)
        linear = relaxation(space, places, found)
        assert report.root_bound <= linear * (1.0 + 1e-7)
        assert report.root_bound >= min(linear, best) * (1.0 - 1e-6)
        compared += 1
    assert compared >= 10


def test_three_jobs_in_pairs() -> None:
    """The least gap there is, worked by hand, and how cuts and branching close it.

    Three jobs of two slots have to start at once, at most two on a node. Half of each pair: 3 / 2 * 210 W =
    315 W. A pair and one alone: 390 W, which the cut on the three says of the relaxation too. E0: 540 W.
    """
    problem = instance(*(job(n, 2, deadline_s=2 * D) for n in "abc"), nodes=((node_type(), 3),), alpha=1.0)
    for options, nodes in (({"cutting": True}, 1), ({"cutting": False}, 3)):
        search = branched(problem, D, listing=False, **options)
        report = search.report
        assert report.value == pytest.approx(390 / 540) and report.nodes == nodes
        assert report.root_bound == pytest.approx(315 / 540)
        if report.cut_bound is not None:
            assert report.cut_bound == pytest.approx(390 / 540) and search.master.cuts == [(0, 1, 2)]
    assert not search.master.cuts and search.kinds["together"] == 1


def test_the_first_bound_is_one() -> None:
    """What jobs cost at least, each for itself, sums to no more than any busy period costs."""
    share = []
    for case in cases():
        least = Pricer(case.number, case.place).least_costs()
        inside = [p for p in case.found if p.end <= case.space.grid.slots]
        for p in inside:
            total = math.fsum(float(least[j]) for j in p.jobs)
            assert total <= p.cost + ROUNDING, (case.problem, p)
            share.append(total / p.cost if p.cost else 0.0)
    assert max(share) > 0.9  # it says something


# --------------------------------------------------------------------------------------------------- search


class Watched(Search):
    """A search that keeps what it branched on."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.kinds: Counter[str] = Counter()

    def _split(self, decisions: Decisions, value: Any) -> list[Decisions]:
        out = super()._split(decisions, value)
        self.kinds.update(
            what
            for what in ("together", "starts", "ends", "horizon")
            if any(getattr(child, what) != getattr(decisions, what) for child in out)
        )
        return out


def branched(problem: Instance, grid_s: float = SLOT_S, **options: Any) -> Watched:
    """Return the search after it has ended at brute force's optimum with a bound that meets it."""
    space = space_of(problem, grid_s)
    search = Watched(space, make_places(space), **options)
    report = search.run()
    best = optimum(problem, grid_s)
    assert report.infeasible == (best == math.inf) and report.stopped is None and not report.notes
    if best < math.inf:
        assert report.plan is not None
        assert close(report.value, best) and close(report.bound, best), (problem, report, best)
        assert report.bound <= best * (1.0 + 1e-9)
        assert evaluate(problem, report.plan, grid_s=grid_s).feasible
    return search


# Of the first thousand seeds, those whose linear programme has a gap that needs each kind of branching.
BRANCHING = {
    "together": (67, 90, 93, 117, 118, 153, 186, 236, 242, 262, 291, 331),
    "starts": (264, 417, 423),
    "horizon": (115, 159, 160, 189, 235, 274, 310, 342),
}


@pytest.mark.parametrize("kind", BRANCHING)
def test_branching_alone_proves_the_optimum(kind: str) -> None:
    """Without cuts and without listing columns, the tree ends at brute force's optimum."""
    seen: Counter[str] = Counter()
    for seed in BRANCHING[kind]:
        search = branched(agreement_instance(seed), cutting=False, listing=False)
        seen.update(set(search.kinds))
        seen["nodes"] += search.report.nodes > 1
    assert seen[kind] >= 2, seen
    assert seen["nodes"] >= len(BRANCHING[kind]) // 2, seen


@pytest.mark.parametrize(("cutting", "listing"), [(True, False), (False, True), (True, True)])
def test_cuts_and_listing_lose_nothing(cutting: bool, listing: bool) -> None:
    """The same with cuts, with listing, and with both."""
    for seed in itertools.chain(*BRANCHING.values()):
        branched(agreement_instance(seed), cutting=cutting, listing=listing)


def test_infeasible_is_proved_without_listing() -> None:
    """Instances each of whose jobs fits somewhere, but not all of them."""
    proved = 0
    for seed in range(200, 320):
        problem = agreement_instance(seed)
        if BranchAndPrice().covers(problem) or optimum(problem) < math.inf:
            continue
        space = space_of(problem)
        if not space.windows.hopeless():
            proved += branched(problem, cutting=False, listing=False).report.infeasible
    assert proved >= 5


SCARCE = {
    "whole-node": {"jobs": 7, "nodes": 2, "load": 3.0},
    "mixed": {"jobs": 5, "nodes": 1, "load": 2.0, "gpus_per_node": 4},
}


@pytest.mark.parametrize("family", SCARCE)
@pytest.mark.parametrize("tools", [{"cutting": False, "listing": False}, {}])
def test_where_nodes_are_scarce(family: str, tools: dict[str, bool]) -> None:
    """Far more load than the nodes bear in turn: the optimum of brute force, by branching alone too."""
    limits = Limits(max_share=3, u_threshold=1.0, mem_threshold=1.0)
    for seed in (1,) if tools else (2, 3):
        problem = generate(family, epochs=(3, 30), limits=limits, seed=seed, **SCARCE[family])
        search = branched(problem, 3600.0, **tools)
        if family == "whole-node" and tools:
            assert search.report.nodes > 1


def test_more_jobs_than_bits_of_a_word() -> None:
    """66 jobs in one busy period, worked by hand.

    Job i runs in slots i and i + 1. All on one node: one job in the first and last of 67 slots (180 W), two
    in the others (210 W). E0 is 66 * 2 slots of 180 W; AvgTPE is that of exclusive running.
    """
    jobs = [job(f"j{i:02}", 2, release_s=i * D, deadline_s=(i + 2) * D) for i in range(66)]
    problem = instance(*jobs, nodes=((node_type(), 2),))
    result = solve(problem, "branch-and-price", grid_s=D, options={"process": "shared", "policies": False})
    assert result.status is Status.OPTIMAL
    assert result.objective == pytest.approx(0.5 * (2 * 180 + 65 * 210) / (66 * 2 * 180) + 0.5)
    assert result.schedule is not None and len({s.gpus for s in result.schedule.segments}) == 1


def plans(problem: Instance) -> Iterator[Plan]:
    """Yield feasible plans: the optimum, and those of policies."""
    found = bruteforce(problem, grid_s=SLOT_S)
    runs = [found.schedule] + [
        simulate(problem, make_policy(n), 0, grid_s=SLOT_S).schedule for n in POLICIES.names()
    ]
    for schedule in runs:
        if schedule is None:
            continue
        value = evaluate(problem, schedule, grid_s=SLOT_S)
        if value.feasible:
            view = problem.arrays()
            by_name = {s.job: s for s in schedule.segments}
            held = [sorted(int(view.first_gpu[n]) + g for n, g in by_name[j.name].gpus) for j in problem.jobs]
            starts = np.array([by_name[j.name].start_s for j in problem.jobs])
            yield Plan(starts, np.array([g for own in held for g in own], dtype=np.int64))


def test_columns_and_plans_are_the_same_thing() -> None:
    """Columns of a plan cost what `evaluate` says; the plan made of them again has the same value and times.

    Of the objective they leave out sleep power to the last end, and what the releases take off.
    """
    compared = 0
    for seed in range(60):
        problem = agreement_instance(seed)
        if BranchAndPrice().covers(problem):
            continue
        space = space_of(problem)
        places = make_places(space)
        search = Search(space, places)
        for plan in plans(problem):
            columns = columns_of(space, places, plan)
            if columns is None:
                continue  # waits beyond the horizon
            value = evaluate(problem, plan, grid_s=SLOT_S)
            total = math.fsum(c.cost for c in columns) + search.sleep * max(c.end for c in columns)
            assert total - search.constant == pytest.approx(value.objective, rel=1e-9)
            assert sorted(j for c in columns for j in c.jobs) == list(range(len(problem.jobs)))
            again = plan_of(space, places, columns)
            other = evaluate(problem, again, grid_s=SLOT_S)
            assert other.feasible and other.objective == pytest.approx(value.objective, rel=1e-9)
            assert np.allclose(other.jobs.end_s, value.jobs.end_s)
            assert np.array_equal(again.start_s, plan.start_s)
            compared += 1
    assert compared >= 60


def test_columns_that_make_no_schedule_are_an_error() -> None:
    """One busy period more than there are nodes at a time: said, not placed."""
    problem = instance(job("a"), job("b"), limits=Limits(max_share=1))
    space = space_of(problem, D)
    places = make_places(space)
    one = columns_of(space, places, Plan(np.array([0.0, 2 * D]), np.array([0, 0])))
    assert one is not None and len(one) == 2
    late = dataclasses.replace(one[1], first=0, end=2, starts=(0,), ends=(2,))
    with pytest.raises(FormulationError, match="do not make a schedule"):
        plan_of(space, places, [one[0], late])


# ------------------------------------------------------------------------------------------- stopped early


@cache
def scarce_optimum() -> float:
    return optimum(scarce(), 3600.0)


def scarce() -> Instance:
    limits = Limits(max_share=3, u_threshold=1.0, mem_threshold=1.0)
    return generate("whole-node", epochs=(3, 30), limits=limits, seed=1, **SCARCE["whole-node"])


def test_stopped_runs_claim_nothing_that_they_have_not_proved() -> None:
    """Limits in labels, from none to enough: bounds below, objectives above, "optimal" where they meet."""
    problem = scarce()
    best = scarce_optimum()
    grid = make_grid(problem, 3600.0)
    states = set()
    for limit_s in (0.0, 0.001, 0.03, 0.1, 60.0):
        model = BranchAndPrice().build(problem, grid)
        outcome = model.solve(time_limit_s=limit_s, deterministic=True)
        states.add((outcome.status, outcome.stop_reason))
        assert outcome.bound is None or outcome.bound <= best * (1.0 + 1e-9)
        assert outcome.objective is None or outcome.objective >= best * (1.0 - 1e-9)
        if outcome.status is Status.OPTIMAL:
            assert outcome.objective is not None and outcome.bound is not None and outcome.plan is not None
            assert outcome.objective == evaluate(problem, outcome.plan, grid_s=3600.0).objective
            assert close(outcome.bound, outcome.objective)
        else:
            assert outcome.stop_reason is StopReason.WORK_LIMIT
            assert (
                outcome.objective is None
                or outcome.bound is None
                or not close(outcome.bound, outcome.objective)
            )
    assert (Status.OPTIMAL, StopReason.FINISHED) in states
    assert {stop for _, stop in states} == {StopReason.FINISHED, StopReason.WORK_LIMIT}


def test_a_limit_in_labels_falls_at_the_same_place() -> None:
    """Field note 13: two runs with the same limit give the same plan, objective and bound."""
    problem = scarce()
    grid = make_grid(problem, 3600.0)
    one, two = (
        BranchAndPrice().build(problem, grid).solve(time_limit_s=0.05, deterministic=True) for _ in range(2)
    )
    assert one.stop_reason is StopReason.WORK_LIMIT
    assert (one.status, one.objective, one.bound, one.message) == (
        two.status,
        two.objective,
        two.bound,
        two.message,
    )
    assert (one.plan is None) == (two.plan is None)
    if one.plan is not None and two.plan is not None:
        assert np.array_equal(one.plan.start_s, two.plan.start_s)
        assert np.array_equal(one.plan.gpus, two.plan.gpus)


def test_no_time_at_all() -> None:
    """A limit of 0 with a start keeps the start, and claims no bound above the optimum."""
    problem = scarce()
    fifo = next(
        run.schedule for n in POLICIES.names()
        if (run := simulate(problem, make_policy(n), 0, grid_s=3600.0)).evaluation.feasible
    )  # fmt: skip
    start = solve(problem, "branch-and-price", grid_s=3600.0, time_limit_s=0.0, start=fifo)
    assert (start.status, start.stop_reason) == (Status.FEASIBLE, StopReason.TIME_LIMIT)
    assert start.objective == evaluate(problem, fifo, grid_s=3600.0).objective
    assert start.bound is None or start.bound <= scarce_optimum()


@pytest.mark.parametrize("at", [1, 2, 4])
def test_ctrl_c_keeps_plan_and_bound(at: int) -> None:
    """An interruption at any report ends the search; the best plan and the proved bound stay."""
    problem = scarce()
    space = space_of(problem, 3600.0)
    told: list[tuple[float, float]] = []

    def watch(report: Report) -> None:
        told.append((report.value, report.bound))
        if len(told) == at:
            raise KeyboardInterrupt

    report = Search(space, make_places(space), watch=watch).run()
    best = scarce_optimum()
    assert report.stopped is StopReason.INTERRUPTED and not report.infeasible
    assert (report.value <= told[at - 1][0]) and report.bound >= told[at - 1][1]
    assert report.value >= best * (1.0 - 1e-9) and report.bound <= best * (1.0 + 1e-9)
    if report.plan is not None:
        assert evaluate(problem, report.plan, grid_s=3600.0).objective == report.value
