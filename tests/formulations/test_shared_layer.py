"""Grid, windows, co-location sets, costs, scaling and the matching of counts to GPUs."""

from __future__ import annotations

import dataclasses
import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from eaco_opt.cluster import Cluster, NodeType
from eaco_opt.instance import Instance
from eaco_opt.interference import Interference, MeasuredSlowdown
from eaco_opt.job import Job
from eaco_opt.limits import AdmissionRule, Limits
from eaco_opt.physics import evaluate
from eaco_opt.power import GpuPower, PowerModel, ServerPower
from eaco_opt.profile import EpochTime, Profile
from formulations.base import FormulationError, GridError, ScalingError
from formulations.grid import make_grid
from formulations.patterns import class_graph, job_sets
from formulations.placing import Values, plan_of, values_of
from formulations.scaling import CostScale, cost_scale, integer_work
from formulations.space import Space
from formulations.windows import make_windows
from tests.formulations.small_instances import SLOT_S, count_plans, enumerate_optimum, random_instance


def two_jobs(*, factor: float = 1.5, deadline_s: float = math.inf, **options: object) -> Instance:
    """Two equal jobs of 4 epochs of 900 s on two nodes of two GPUs; together they run `factor` slower."""
    node = NodeType(
        name="n",
        gpus=2,
        gpu_type="x",
        gpu_memory_gib=16.0,
        power=PowerModel(
            server=ServerPower(idle_w=100.0, busy_w=100.0), gpu=GpuPower(standing_w=50.0, dynamic_w=100.0)
        ),
    )
    profile = Profile(
        name="p",
        epoch_times=(EpochTime(gpu_type="x", epoch_time_s=900.0),),
        gpu_util_mean=0.4,
        gpu_util_peak=0.4,
        gpu_memory_mean_gib=2.0,
        gpu_memory_peak_gib=2.0,
    )
    jobs = tuple(
        Job(name=name, profile="p", gpus=2, epochs=4, deadline_s=deadline_s, **options) for name in ("a", "b")
    )
    truth = Interference(measured=(MeasuredSlowdown(kinds=("p", "p"), factors=(factor, factor)),))
    return Instance(name="two", jobs=jobs, profiles=(profile,), cluster=Cluster.uniform(node, 2), truth=truth)


def test_automatic_slot_cuts_the_shortest_run_and_window_into_four() -> None:
    """A run of 3600 s allows slots of 900 s; a window of 3600 s too; a horizon of 2,000 slots comes first."""
    assert make_grid(two_jobs()).slot_s == 900.0
    assert make_grid(two_jobs(deadline_s=3600.0)).slot_s == 900.0
    late = two_jobs()
    late = dataclasses.replace(
        late, jobs=(late.jobs[0], dataclasses.replace(late.jobs[1], release_s=2000 * 1200.0))
    )
    # 900 s would need 2,667 slots up to the last release, 1200 s a few more than 2,000.
    assert make_grid(late).slot_s == 1800.0


def test_horizon_without_deadlines_is_last_release_plus_longest_runs() -> None:
    """Two jobs of 4 * 900 s, 1.5 times that together: 6 slots of 900 s each, from slot 0 on."""
    grid = make_grid(two_jobs(), 900.0)
    assert grid.slots == 12
    assert grid.deadline.tolist() == [12, 12]


def test_horizon_is_the_last_deadline_where_that_is_sooner() -> None:
    """Deadlines at 8.5 slots leave 8."""
    assert make_grid(two_jobs(deadline_s=8.5 * 900.0), 900.0).slots == 8


def test_releases_and_deadlines_use_the_time_tolerance() -> None:
    """A release 1e-7 s after a boundary is on it, a deadline 1e-7 s before one too; 1e-3 s is not."""
    base = two_jobs()
    for off, slot in ((1e-7, 1), (1e-3, 2)):
        jobs = (base.jobs[0], dataclasses.replace(base.jobs[1], release_s=900.0 + off))
        assert make_grid(dataclasses.replace(base, jobs=jobs), 900.0).release.tolist() == [0, slot]
        assert make_grid(two_jobs(deadline_s=6 * 900.0 - off), 900.0).slots == 7 - slot


@pytest.mark.parametrize("slot_s", [0.0, -1.0, math.nan, math.inf])
def test_bad_slots_are_refused(slot_s: float) -> None:
    """A slot length is a positive number."""
    with pytest.raises(GridError, match="positive number of seconds"):
        make_grid(two_jobs(), slot_s)


def test_too_many_slots_are_refused_with_advice() -> None:
    """Slots of 0.01 s give 1,080,000 of them."""
    with pytest.raises(GridError, match="choose a longer slot"):
        make_grid(two_jobs(), 0.01)


def test_windows_of_a_job_that_may_share() -> None:
    """4 slots alone, 6 with the other all the time; with 8 slots in all, starts 0 to 4 are left.

    From slot 3 at most 5 slots are left; from slot 4 only 4: it has to be alone.
    """
    instance = two_jobs(deadline_s=8 * 900.0)
    windows = make_windows(instance, make_grid(instance, 900.0))
    starts = windows.starts[0, 0]
    assert starts.start.tolist() == [0, 1, 2, 3, 4]
    assert starts.least.tolist() == [4, 4, 4, 4, 4]
    assert starts.greatest.tolist() == [6, 6, 6, 5, 4]


def test_windows_count_only_company_that_can_be_there() -> None:
    """b has to end at slot 5; from slot 5 on a runs alone: started at 4 it shares one slot, 5 in all."""
    base = two_jobs(deadline_s=12 * 900.0)
    jobs = (base.jobs[0], dataclasses.replace(base.jobs[1], deadline_s=5 * 900.0))
    instance = dataclasses.replace(base, jobs=jobs)
    windows = make_windows(instance, make_grid(instance, 900.0))
    starts = windows.starts[0, 0]
    # One slot at pace 1/1.5 leaves 3.33 epochs: 4 slots more.
    assert starts.greatest[4] == 5
    assert starts.greatest[5:].tolist() == [4, 4, 4, 4]


def test_a_job_that_cannot_end_in_time_is_hopeless() -> None:
    """3 slots do not hold a run of 4."""
    instance = two_jobs(deadline_s=3 * 900.0)
    assert make_windows(instance, make_grid(instance, 900.0)).hopeless() == (0, 1)


def test_speed_ups_shorten_the_least_duration() -> None:
    """At factor 0.5 both together take 2 slots, alone 4."""
    instance = two_jobs(factor=0.5, deadline_s=8 * 900.0)
    starts = make_windows(instance, make_grid(instance, 900.0)).starts[0, 0]
    assert starts.least.tolist() == [2] * 7
    assert starts.greatest.tolist() == [4, 4, 4, 4, 4, 3, 2]


def test_windows_hold_every_optimum() -> None:
    """Start and duration of the enumerated optimum lie in the windows, on 40 random instances."""
    tried = 0
    for seed in itertools.count(7000):
        instance = random_instance(seed, 2)
        found = enumerate_optimum(instance) if count_plans(instance) < 5000 else None
        if found is None:
            continue
        windows = make_windows(instance, make_grid(instance, SLOT_S))
        view = instance.arrays()
        outcome = evaluate(instance, found[1], grid_s=SLOT_S)
        for j in range(2):
            k = int(view.node_type[view.gpu_node[found[1].gpus[view.gpu_offset[j]]]])
            starts = windows.starts[j, k]
            at = starts.start.tolist().index(round((outcome.jobs.start_s[j] - view.origin_s) / SLOT_S))
            assert starts.least[at] <= round(outcome.jobs.running_s[j] / SLOT_S) <= starts.greatest[at]
        tried += 1
        if tried == 40:
            break


def test_sets_are_those_the_rule_on_sets_admits() -> None:
    """Cliques filtered by their own limits are the subsets all of whose subsets pass, tested one by one."""
    found_larger = 0
    for seed in range(30):
        instance = random_instance(seed, 5)
        view = instance.arrays()
        spans = [(0, 5), (0, 5), (3, 8), (4, 8), (5, 9)]
        for k in range(len(instance.cluster.node_types)):
            sets = {s.jobs for s in job_sets(instance, k, range(5), spans)}
            naive = set()
            for size in range(1, instance.limits.max_share + 1):
                for jobs in itertools.combinations(range(5), size):
                    if max(spans[j][0] for j in jobs) >= min(spans[j][1] for j in jobs):
                        continue
                    if all(
                        _passes(instance, part, k)
                        for n in range(1, size + 1)
                        for part in itertools.combinations(jobs, n)
                    ):
                        naive.add(jobs)
            assert sets == naive
            found_larger += sum(len(s) > 2 for s in sets)
            graph = class_graph(instance, k)
            assert all(
                graph.has_edge(int(view.job_class[s[0]]), int(view.job_class[s[1]]))
                for s in sets
                if len(s) == 2
            )
    assert found_larger > 20


def _passes(instance: Instance, jobs: tuple[int, ...], k: int) -> bool:
    """Tell whether one set passes the five tests of docs/model.md section 1.9, without its subsets."""
    view = instance.arrays()
    limits = instance.limits
    number = view.sets.intern(tuple(sorted(int(view.job_class[j]) for j in jobs)))
    kinds = view.sets.kinds[number]
    if (
        view.sets.memory_gib[number] / instance.cluster.node_types[k].gpu_memory_gib
        > limits.mem_threshold + 1e-9
    ):
        return False
    if not instance.truth.can_share(kinds) or (
        len(jobs) > 1 and any(instance.jobs[j].exclusive for j in jobs)
    ):
        return False
    load = view.sets.load
    if limits.rule is AdmissionRule.RESULTING:
        return bool(load[number] <= limits.u_threshold + 1e-9)
    return min(float(load[p]) for p in view.sets.without[number, : len(jobs)]) <= limits.u_threshold + 1e-9


def test_counts_give_the_objective_of_the_plan_and_the_plan_back() -> None:
    """Costs by slots add up to `evaluate`, and counts made of a plan lead to a plan of the same value."""
    tried = 0
    for seed in range(80):
        instance = random_instance(seed, 2)
        found = enumerate_optimum(instance) if count_plans(instance) < 5000 else None
        if found is None:
            continue
        space = Space(instance, make_grid(instance, SLOT_S))
        values = values_of(space, found[1])
        assert values is not None
        assert objective_of(space, values) == pytest.approx(found[0], rel=1e-12)
        plan = plan_of(space, values)
        assert evaluate(instance, plan, grid_s=SLOT_S).objective == pytest.approx(found[0], rel=1e-12)
        tried += 1
    assert tried > 50


def objective_of(space: Space, values: Values) -> float:
    """Return the objective by the weights of `Costs`, slot by slot."""
    costs, view = space.costs, space.instance.arrays()
    total = -costs.total_constant
    for j in space.jobs:
        total += costs.time[j] * (values.end[j] - values.start[j]) + costs.total * values.end[j]
    asleep = float(costs.sleep_w[view.node_type].sum())
    total += costs.energy * asleep * max(values.end)
    for region in space.regions:
        k = region.node_type
        for t in range(space.grid.slots):
            here = [
                (space.patterns[n], count)
                for (n, slot), count in values.counts.items()
                if slot == t and space.patterns[n].region == region.number
            ]
            if not here:
                continue
            if region.pool:
                power = sum(c * (costs.full_node_w(p.found.number, k) - costs.sleep_w[k]) for p, c in here)
            else:
                running = [
                    p
                    for p in space.parts
                    if p.region == region.number
                    and p.number in values.parts
                    and values.start[p.job] <= t < values.end[p.job]
                ]
                cpu = math.fsum(view.cpu[p.job] * p.cells / region.cells for p in running)
                power = costs.standing_w(k) - costs.sleep_w[k] + costs.cpu_w(cpu, k)
                power += sum(c * costs.dynamic_w(p.found.number, k) for p, c in here)
                kinds = {view.sets.kinds[p.found.number] for p, _ in here}
                if len(kinds) == 1 and sum(c for _, c in here) == region.cells:
                    power += costs.residual_w(here[0][0].found.number, k) or 0.0
            total += costs.energy * power
    return float(total)


def test_counts_that_are_no_schedule_are_refused() -> None:
    """Two jobs together in one slot and apart in the next cannot have stayed on their GPUs."""
    instance = two_jobs(deadline_s=8 * 900.0)
    space = Space(instance, make_grid(instance, 900.0))
    number = {p.found.jobs: p.number for p in space.patterns}
    counts = {(number[0, 1], t): 1 for t in range(3)}
    counts |= {(number[j,], t): 1 for t in range(3, 5) for j in (0, 1)}
    with pytest.raises(FormulationError, match="no schedule"):
        plan_of(space, Values((0, 0), (5, 5), frozenset({0, 1}), counts))


def test_a_start_has_to_be_feasible() -> None:
    """A plan that misses a deadline is no start."""
    instance = two_jobs(deadline_s=8 * 900.0)
    space = Space(instance, make_grid(instance, 900.0))
    values = values_of(space, enumerate_optimum(instance, 900.0)[1])  # type: ignore[index]
    assert values is not None
    late = dataclasses.replace(values, start=(5, 0))
    plan = plan_of(space, values)
    late_plan = type(plan)(np.array([900.0 * s for s in late.start]), plan.gpus)
    with pytest.raises(FormulationError, match="not feasible on slots of 900 s"):
        values_of(space, late_plan)


def test_costs_are_rounded_down_and_bounds_stay_bounds() -> None:
    """The integer of a cost is at most the cost, and an integer bound gives back no more than it says."""
    scale = cost_scale([0.1, 0.3], largest_sum=40.0, active=100, tolerance=1e-6)
    rng = np.random.default_rng(1)
    for cost in rng.uniform(-1.0, 1.0, 200):
        units = scale.down(float(cost))
        assert Fraction(units) <= Fraction(float(cost)) * scale.scale < units + 1
        assert Fraction(scale.value(units)) <= Fraction(units) / scale.scale
    # 100 units each lose less than one integer unit: together less than the tolerance.
    assert 100 / scale.scale <= Fraction(1e-6)


def test_costs_beyond_exact_integers_are_an_error() -> None:
    """Sums of 1e9 at a resolution of 1e-9 do not fit 2**53; nor does an infinite cost."""
    with pytest.raises(ScalingError, match=r"2\*\*53"):
        cost_scale([1e9, 1e-9], largest_sum=1e9, active=1, tolerance=1e-9)
    with pytest.raises(ScalingError, match="finite"):
        cost_scale([math.inf], largest_sum=1.0, active=1, tolerance=1e-9)
    assert isinstance(cost_scale([1.0], largest_sum=1.0, active=1, tolerance=1e-9), CostScale)


@pytest.mark.parametrize("seed", range(40))
def test_integer_work_agrees_with_exact_fractions(seed: int) -> None:
    """Reached and not yet reached, for every vector of counts, also where one ends exactly at n_j."""
    rng = np.random.default_rng(seed)
    epochs = int(rng.integers(1, 30))
    most = int(rng.integers(2, 15))
    # Speeds that reach n_j exactly after some slots, so that ties occur.
    speeds = sorted({epochs / int(n) for n in rng.integers(1, 2 * most, int(rng.integers(1, 4)))})
    work = integer_work(epochs, speeds, most)
    assert work.exact and work.up == work.down
    for counts in itertools.product(range(most + 1), repeat=len(speeds)):
        if sum(counts) <= most:
            done = sum(c * Fraction(p) for c, p in zip(counts, speeds, strict=True))
            reached = done >= epochs * (1 - Fraction(1e-9))
            assert (sum(c * u for c, u in zip(counts, work.up, strict=True)) >= work.need) is reached


def test_work_with_too_many_vectors_is_rounded_outward() -> None:
    """Eight speeds over 40 slots are too many vectors to try: up for reached, down for not yet."""
    speeds = [1.0 / (1.0 + 0.1 * i) for i in range(8)]
    work = integer_work(20, speeds, 40)
    assert not work.exact
    need = 20 * (1 - Fraction(1e-9))
    for p, up, down in zip(speeds, work.up, work.down, strict=True):
        assert Fraction(down, work.need) <= Fraction(p) / need <= Fraction(up, work.need)


def test_limits_of_two_jobs_close_the_set() -> None:
    """With a load limit of 0.7 two jobs of 0.4 are no set; with 0.8 they are."""
    instance = two_jobs()
    for limit, sets in ((0.7, 2), (0.8, 3)):
        bounded = dataclasses.replace(instance, limits=Limits(u_threshold=limit))
        assert len(job_sets(bounded, 0, [0, 1], [(0, 9), (0, 9)])) == sets
