"""The static class on the grid for CP-SAT (OR-Tools), with an exact integer objective.

Modelling, over the decisions of :mod:`formulations.space`:

- each job has one literal for each start slot and one for each end slot, exactly one of each true; running
  in a slot is "started, not ended", a literal;
- each job has literals for the parts it holds: one region, or whole nodes and a rest, of one node type;
- in each region and slot, counts say how many cells host each admissible set; those that contain a job add
  up to the cells of its part while it runs, to 0 else;
- for each set of jobs that can be together, the number of common cells is one variable, enforced in every
  slot in which all of them run;
- the pace of a job: one literal for each possible slowdown, true for the largest among its cells. Work done
  to the end reaches n_j; without the last slot it does not (docs/model.md section 5.2). Both in exact
  integers;
- on nodes that are shared GPU by GPU: a literal for "active", the server's power by a table over the sum of
  CPU shares, and a literal for each measured set that fills the node.

Costs are integers rounded down at a scale at which all rounding together is below :data:`RESOLUTION` of the
objective, so the solver's bound is a bound (:mod:`formulations.scaling`).

Not covered: wake-up time and energy.
"""

from __future__ import annotations

import contextlib
import logging
import math
import signal
import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ortools.sat.python import cp_model

from eaco_opt.result import StopReason

from .base import (
    FormulationError,
    Outcome,
    PlanHook,
    Progress,
    SizeEstimate,
    UncoveredFeatureError,
    wake_features,
)
from .placing import Values, plan_of, values_of
from .scaling import CostScale, cost_scale
from .space import Pattern, Region, Space
from .verdict import verdict, without_search

if TYPE_CHECKING:
    from eaco_opt.instance import Instance
    from eaco_opt.schedule import Plan

    from .grid import Grid

_LOG = logging.getLogger(__name__)

RESOLUTION = 1e-9
"""Largest share of the objective that rounding costs may lose."""

_BYTES_A_NONZERO = 60
_BYTES_A_VARIABLE = 150


class CpsatFormulation:
    """Set counts and exact integers for CP-SAT; proves optima of all features but wake-ups."""

    name = "cpsat"

    def covers(self, instance: Instance) -> list[str]:
        """Return the features of the instance that are not covered."""
        return wake_features(instance)

    def estimate(self, instance: Instance, grid: Grid) -> SizeEstimate:
        """Return the size of the model without building it."""
        return _estimate(Space(instance, grid))

    def build(self, instance: Instance, grid: Grid) -> CpsatModel:
        """Build the model.

        Raises
        ------
        UncoveredFeatureError
            The instance has wake-up times or energies, or too many different sums of CPU shares.
        ScalingError
            Costs do not fit exact integers.
        """
        features = self.covers(instance)
        if features:
            raise UncoveredFeatureError(self.name, features)
        space = Space(instance, grid)
        features = space.cpu_features()
        if features:
            raise UncoveredFeatureError(self.name, features)
        return CpsatModel(space)


def _estimate(space: Space) -> SizeEstimate:
    slots = [p.found.last - p.found.first for p in space.patterns]
    counts = sum(slots)
    members = sum(n * len(p.found.jobs) for n, p in zip(slots, space.patterns, strict=True))
    spans = sum(last - first for first, last in space.windows.spans)
    nodes = sum(not r.pool for r in space.regions) * space.grid.slots
    parts = sum(space.windows.spans[p.job][1] - space.windows.spans[p.job][0] for p in space.parts)
    common = 0
    for region, jobs in space.together:
        common += sum(p.found.last - p.found.first for p in space.supersets(region, jobs))
    variables = counts + 3 * spans + parts + 2 * nodes
    nonzeros = 3 * members + 2 * common + counts + 6 * spans + 3 * parts + 4 * nodes
    constraints = 3 * spans + 2 * parts + len(space.together) + common // 2 + 2 * nodes
    memory = _BYTES_A_NONZERO * nonzeros + _BYTES_A_VARIABLE * variables
    return SizeEstimate(variables=variables, constraints=constraints, nonzeros=nonzeros, memory_bytes=memory)


class CpsatModel:
    """A built CP-SAT model.

    Parameters
    ----------
    space
        The decisions.

    Attributes
    ----------
    model
        The OR-Tools model; ``model.export_to_file(path)`` writes it.
    scale
        Integer units of the objective.
    on_plan
        Told of each plan that CP-SAT finds, if set.
    """

    def __init__(self, space: Space) -> None:
        begin = time.monotonic()
        self.space = space
        self.instance = space.instance
        self.grid = space.grid
        self.model: Any = cp_model.CpModel()
        self.started: list[dict[int, Any]] = []
        self.ended: list[dict[int, Any]] = []
        self.running: dict[tuple[int, int], Any] = {}
        self.on_type: dict[tuple[int, int], Any] = {}
        self.part: dict[int, Any] = {}
        self.present: dict[tuple[int, int], Any] = {}
        self.count: dict[tuple[int, int], Any] = {}
        self.common: dict[tuple[int, tuple[int, ...]], Any] = {}
        self._terms: list[tuple[float, Any]] = []
        self._largest_sum = 0.0
        self._largest: dict[tuple[int, int], float] = {}
        self._constant = -space.costs.total_constant
        self._active_units = 0
        self._start_plan: Plan | None = None
        self.on_plan: PlanHook | None = None
        self.scale: CostScale | None = None
        if without_search(space, 0.0) is None:
            self._add_times()
            self._add_parts()
            self._add_counts()
            self._add_common()
            self._add_paces()
            self._add_nodes()
            self._add_order()
            self._add_objective()
        self.build_s = time.monotonic() - begin

    # Decisions in time ------------------------------------------------------------------------------------

    def _add_times(self) -> None:
        """Start and end literals; running = started, not ended; durations within their windows."""
        m, w = self.model, self.space.windows
        for j in self.space.jobs:
            starts: dict[int, tuple[int, int]] = {}
            for k in w.types[j]:
                s = w.starts[j, k]
                for at, low, high in zip(
                    s.start.tolist(), s.least.tolist(), s.greatest.tolist(), strict=True
                ):
                    old = starts.get(at, (low, high))
                    starts[at] = (min(low, old[0]), max(high, old[1]))
            ends = sorted({at + d for at, (low, high) in starts.items() for d in range(low, high + 1)})
            begins = {at: m.new_bool_var(f"start_{j}_{at}") for at in sorted(starts)}
            finishes = {at: m.new_bool_var(f"end_{j}_{at}") for at in ends}
            away = self._away(j)
            m.add_exactly_one([*begins.values(), *away])
            m.add_exactly_one([*finishes.values(), *away])
            for at, (low, high) in starts.items():
                within = [e for t, e in finishes.items() if at + low <= t <= at + high]
                m.add_bool_or(within).only_enforce_if(begins[at])
            first, last = w.spans[j]
            for t in range(first, last):
                run = m.new_bool_var(f"run_{j}_{t}")
                self.running[j, t] = run
                before = self.running.get((j, t - 1), 0)
                m.add(run == before + begins.get(t, 0) - finishes.get(t, 0))
            self.started.append(begins)
            self.ended.append(finishes)
            costs = self.space.costs
            for t in range(first, last):
                self._cost(float(costs.time[j]), self.running[j, t])
            for t, end in finishes.items():
                self._cost(costs.total * t, end)
            self._active_units += last - first + 1

    def _away(self, j: int) -> list[Any]:
        """Return the literal that says that a job is left out; here none is, every job has to run."""
        return []

    def _cost(self, cost: float, variable: Any, most: int = 1, place: tuple[int, int] | None = None) -> None:
        """Add a summand of the objective; counts of one place (region, slot) add up to its cells at most."""
        if cost == 0.0:
            return
        self._terms.append((cost, variable))
        if place is None:
            self._largest_sum += abs(cost) * most
        else:
            cells = self.space.regions[place[0]].cells
            self._largest[place] = max(self._largest.get(place, 0.0), abs(cost) * cells)

    # Places -----------------------------------------------------------------------------------------------

    def _add_parts(self) -> None:
        """One node type for each job, and there its parts; presence of a part = part and running."""
        m, space = self.model, self.space
        for j in space.jobs:
            types = space.windows.types[j]
            for k in types:
                self.on_type[j, k] = m.new_bool_var(f"type_{j}_{k}") if len(types) > 1 else 1
            if len(types) > 1:
                m.add_exactly_one(self.on_type[j, k] for k in types)
            for k in types:
                mine = [p for p in space.parts_of[j] if space.regions[p.region].node_type == k]
                pool = space.regions[mine[0].region].pool
                whole, rest = space.whole_and_rest(j, k)
                for wanted, number in ((True, whole), (False, min(rest, 1))):
                    group = [p for p in mine if p.whole is wanted]
                    if pool:
                        number, group = (1, mine) if not wanted else (0, [])
                    for p in group:
                        lone = len(group) == number
                        self.part[p.number] = (
                            self.on_type[j, k] if lone else m.new_bool_var(f"part_{p.number}")
                        )
                    if group and len(group) != number:
                        m.add(sum(self.part[p.number] for p in group) == number * self.on_type[j, k])
                if whole and rest and not pool:
                    for region in {p.region for p in mine}:
                        m.add_at_most_one(
                            self._literal(self.part[p.number]) for p in space.parts_in[j, region]
                        )
            # Starts and durations that only some of the types allow.
            for k in types if len(types) > 1 else ():
                s = space.windows.starts[j, k]
                known = {
                    at: (low, high)
                    for at, low, high in zip(
                        s.start.tolist(), s.least.tolist(), s.greatest.tolist(), strict=True
                    )
                }
                for at, begin in self.started[j].items():
                    if at not in known:
                        m.add_implication(begin, ~self.on_type[j, k])
        for p in space.parts:
            first, last = space.windows.spans[p.job]
            held = self.part[p.number]
            for t in range(first, last):
                run = self.running[p.job, t]
                if isinstance(held, int):
                    self.present[p.number, t] = run
                    continue
                here = m.new_bool_var(f"here_{p.number}_{t}")
                m.add_bool_or(here, ~held, ~run)
                m.add_implication(here, held)
                m.add_implication(here, run)
                self.present[p.number, t] = here

    def _literal(self, value: Any) -> Any:
        return self.model.new_constant(value) if isinstance(value, int) else value

    # Company ----------------------------------------------------------------------------------------------

    def _add_counts(self) -> None:
        """Counts of cells by set: those with a job make up its part, all together the region's cells."""
        m, space, costs = self.model, self.space, self.space.costs
        for pattern in space.patterns:
            region = space.regions[pattern.region]
            k = region.node_type
            number = pattern.found.number
            if region.pool:
                power = costs.full_node_w(number, k) - float(costs.sleep_w[k])
            else:
                power = costs.dynamic_w(number, k)
            for t in range(pattern.found.first, pattern.found.last):
                name = f"u_{pattern.number}_{t}"
                u = m.new_bool_var(name) if pattern.most == 1 else m.new_int_var(0, pattern.most, name)
                self.count[pattern.number, t] = u
                self._cost(costs.energy * power, u, pattern.most, (region.number, t))
        for (r, j), patterns in space.patterns_with.items():
            first, last = space.windows.spans[j]
            for t in range(first, last):
                here = [self.count[p.number, t] for p in patterns if p.found.first <= t < p.found.last]
                held = sum(p.cells * self.present[p.number, t] for p in space.parts_in[j, r])
                m.add(sum(here) == held)
        for region in space.regions:
            for t in range(self.grid.slots):
                here = [self.count[p.number, t] for p in self.space.possible(region.number, t)]
                if here:
                    m.add(sum(here) <= region.cells)
        self._active_units += sum(r.cells for r in space.regions) * self.grid.slots

    def _add_common(self) -> None:
        """The number of common cells of a set is the same in every slot in which all of it runs."""
        m, space = self.model, self.space
        for region, jobs in space.together:
            patterns = space.supersets(region, jobs)
            first = max(space.windows.spans[j][0] for j in jobs)
            last = min(space.windows.spans[j][1] for j in jobs)
            q = m.new_int_var(0, space.most_common(region, jobs), f"q_{region}_{'_'.join(map(str, jobs))}")
            self.common[region, jobs] = q
            for t in range(first, last):
                here = sum(self.count[p.number, t] for p in patterns if p.found.first <= t < p.found.last)
                m.add(here == q).only_enforce_if([self.running[j, t] for j in jobs])

    # Progress ---------------------------------------------------------------------------------------------

    def _add_paces(self) -> None:
        """Work to the end of the last slot reaches the need, to its beginning it does not."""
        m, space = self.model, self.space
        for j in space.jobs:
            work, place = space.work[j]
            first, last = space.windows.spans[j]
            paces: list[tuple[list[Any], list[int]]] = []
            for t in range(first, last):
                literals: list[Any] = []
                index: list[int] = []
                for k in space.windows.types[j]:
                    for sigma, literal in self._pace_of(j, k, t):
                        literals.append(literal)
                        index.append(place[space.speed(j, k, sigma)])
                paces.append((literals, index))
            done_up = [
                x * work.up[i] for literals, index in paces for x, i in zip(literals, index, strict=True)
            ]
            done_down = [
                x * work.down[i] for literals, index in paces for x, i in zip(literals, index, strict=True)
            ]
            m.add(sum(done_up) + work.need * sum(self._away(j)) >= work.need)
            # What the last slot adds, at most the fastest: an integer that its end literal ties to its pace.
            tail = m.new_int_var(min(work.down), max(work.down), f"tail_{j}")
            for t, end in self.ended[j].items():
                literals, index = paces[t - 1 - first]
                m.add(
                    tail == sum(x * work.down[i] for x, i in zip(literals, index, strict=True))
                ).only_enforce_if(end)
            m.add(sum(done_down) - tail <= work.need - 1)

    def _pace_of(self, j: int, k: int, t: int) -> list[tuple[float, Any]]:
        """Return (slowdown, literal or 0/1 expression) of a job on a type; all 0 if it does not run there."""
        m, space = self.model, self.space
        regions = [r for r in space.regions if r.node_type == k]
        by_sigma: dict[float, list[Any]] = {}
        for region in regions:
            for p in space.patterns_with.get((region.number, j), ()):
                if p.found.first <= t < p.found.last:
                    by_sigma.setdefault(p.found.sigma_of(j), []).append(self.count[p.number, t])
        here = self._on_type_now(j, k, t)
        if len(by_sigma) == 1:
            return [(next(iter(by_sigma)), here)]
        if space.one_cell(j):
            return [(sigma, sum(counts)) for sigma, counts in by_sigma.items()]
        held = sum(max(p.cells for p in space.parts_in[j, r.number]) for r in regions)
        literals = {
            sigma: m.new_bool_var(f"pace_{j}_{k}_{t}_{i}") for i, sigma in enumerate(sorted(by_sigma))
        }
        m.add(sum(literals.values()) == here)
        slower: list[Any] = []
        for sigma in sorted(by_sigma, reverse=True):
            m.add(sum(by_sigma[sigma]) >= 1).only_enforce_if(literals[sigma])
            slower.append(literals[sigma])
            m.add(sum(by_sigma[sigma]) <= held * sum(slower))
        return list(literals.items())

    def _on_type_now(self, j: int, k: int, t: int) -> Any:
        """Return a literal or 0/1 expression: the job runs on the type in the slot."""
        space = self.space
        if len(space.windows.types[j]) == 1:
            return self.running[j, t]
        mine = [p for p in space.parts_of[j] if space.regions[p.region].node_type == k]
        whole, _ = space.whole_and_rest(j, k)
        if space.regions[mine[0].region].pool:
            return self.present[mine[0].number, t]
        rest = [p for p in mine if not p.whole]
        if rest:
            return sum(self.present[p.number, t] for p in rest)
        here = self.model.new_bool_var(f"on_{j}_{k}_{t}")
        self.model.add(sum(self.present[p.number, t] for p in mine) == whole * here)
        return here

    # Nodes ------------------------------------------------------------------------------------------------

    def _add_nodes(self) -> None:
        """Power of nodes that are shared GPU by GPU, and sleep power up to the last end."""
        m, space, costs = self.model, self.space, self.space.costs
        view = self.instance.arrays()
        for region in space.regions:
            if region.pool:
                continue
            k = region.node_type
            guests = [p for p in space.parts if p.region == region.number]
            for t in range(self.grid.slots):
                here = [
                    p for p in guests if space.windows.spans[p.job][0] <= t < space.windows.spans[p.job][1]
                ]
                if not here:
                    continue
                active = m.new_bool_var(f"active_{region.number}_{t}")
                now = [self.present[p.number, t] for p in here]
                m.add_bool_or([*now, ~active])
                for literal in now:
                    m.add_implication(literal, active)
                self._cost(costs.energy * (costs.standing_w(k) - float(costs.sleep_w[k])), active)
                self._add_cpu(region, t)
                self._add_residuals(region, t)
                self._active_units += 3
        asleep = float(costs.sleep_w[view.node_type].sum())
        if asleep > 0.0 and costs.energy > 0.0:
            latest = m.new_int_var(0, self.grid.slots, "last_end")
            for finishes in self.ended:
                for t, end in finishes.items():
                    m.add(latest >= t).only_enforce_if(end)
            self._cost(costs.energy * asleep, latest, self.grid.slots)
            self._active_units += self.grid.slots

    def _add_cpu(self, region: Region, t: int) -> None:
        """The server's power by the CPU shares on the node: a table, because it is concave and capped."""
        m, costs = self.model, self.space.costs
        groups = self.space.cpu_groups(region, t)
        if not groups:
            return
        powers = self.space.cpu_powers(region, groups)
        if len(groups) == 1 and len(groups[0][1]) == 1:
            self._cost(costs.energy * powers[1,], self.present[groups[0][1][0].number, t])
            return
        pick = {key: m.new_bool_var(f"cpu_{region.number}_{t}_{i}") for i, key in enumerate(powers)}
        m.add_exactly_one(pick.values())
        for at, (_, parts) in enumerate(groups):
            running = sum(self.present[p.number, t] for p in parts)
            m.add(sum(key[at] * x for key, x in pick.items() if key[at]) == running)
        for key, literal in pick.items():
            self._cost(costs.energy * powers[key], literal)

    def _add_residuals(self, region: Region, t: int) -> None:
        """Where all GPUs of the node host the same measured multiset of kinds, its residual counts."""
        m, costs = self.model, self.space.costs
        sets = self.instance.arrays().sets
        by_kinds: dict[tuple[str, ...], list[Pattern]] = {}
        for p in self.space.possible(region.number, t):
            if costs.residual_w(p.found.number, region.node_type) is not None:
                by_kinds.setdefault(sets.kinds[p.found.number], []).append(p)
        for patterns in by_kinds.values():
            residual = costs.residual_w(patterns[0].found.number, region.node_type)
            if not residual or costs.energy == 0.0:
                continue
            filled = sum(self.count[p.number, t] for p in patterns)
            full = m.new_bool_var(f"full_{region.number}_{t}_{'_'.join(str(p.number) for p in patterns)}")
            if sum(p.most for p in patterns) < region.cells:
                m.add(full == 0)
                continue
            m.add(filled == region.cells).only_enforce_if(full)
            m.add(filled <= region.cells - 1).only_enforce_if(~full)
            self._cost(costs.energy * residual, full)

    def _add_order(self) -> None:
        """Equal nodes in the order of their lowest job: who opens a node has a job before it."""
        for part, earlier in self.space.openings:
            others = [self._literal(self.part[q.number]) for q in earlier]
            self.model.add_bool_or(others).only_enforce_if(self._literal(self.part[part.number]))

    # Objective and solving --------------------------------------------------------------------------------

    def _add_objective(self) -> None:
        if not self._terms:
            return
        least = self.space.least_objective() or max(abs(cost) for cost, _ in self._terms)
        self.scale = cost_scale(
            [cost for cost, _ in self._terms],
            largest_sum=self._largest_sum + math.fsum(self._largest.values()),
            active=self._active_units,
            tolerance=RESOLUTION * least,
        )
        self.model.minimize(sum(self.scale.down(cost) * variable for cost, variable in self._terms))

    def start_from(self, plan: Plan) -> None:
        """Give the solver a plan to start from; it is checked first, and kept as the least to answer.

        Raises
        ------
        FormulationError
            The plan is not feasible on this grid.
        """
        values = values_of(self.space, plan)
        self._start_plan = plan
        m = self.model
        m.clear_hints()
        if values is None or without_search(self.space, 0.0) is not None:
            return
        hinted: set[int] = set()

        def put(variable: Any, value: int) -> None:
            if not isinstance(variable, int) and variable.index not in hinted:
                hinted.add(variable.index)
                m.add_hint(variable, value)

        types = {
            (p.job, self.space.regions[p.region].node_type)
            for p in self.space.parts
            if p.number in values.parts
        }
        for j in self.space.jobs:
            for t, x in self.started[j].items():
                put(x, int(t == values.start[j]))
            for t, x in self.ended[j].items():
                put(x, int(t == values.end[j]))
            for t in range(*self.space.windows.spans[j]):
                put(self.running[j, t], int(values.start[j] <= t < values.end[j]))
        for number, x in self.part.items():
            put(x, int(number in values.parts))
        for key, x in self.on_type.items():
            put(x, int(key in types))
        for (number, t), x in self.present.items():
            j = self.space.parts[number].job
            put(x, int(number in values.parts and values.start[j] <= t < values.end[j]))
        for at, x in self.count.items():
            put(x, values.counts.get(at, 0))

    def fixed_to_start(self) -> CpsatModel:
        """Return a copy with the hinted variables fixed to the start: it tells whether the start was taken.

        Raises
        ------
        FormulationError
            No start was given, or it lies beyond the horizon.
        """
        if not self.model.proto.solution_hint.vars:
            raise FormulationError(
                "formulation 'cpsat': give a start within the horizon first, by start_from()"
            )
        out = CpsatModel(self.space)
        hint = self.model.proto.solution_hint
        for index, value in zip(hint.vars, hint.values, strict=True):
            domain = out.model.proto.variables[index].domain
            domain.clear()
            domain.extend([value, value])
        return out

    def solve(
        self,
        *,
        time_limit_s: float | None = None,
        gap: float = 0.0,
        threads: int = 1,
        seed: int = 0,
        deterministic: bool = False,
        progress: Progress | None = None,
    ) -> Outcome:
        """Solve; with ``deterministic`` on one thread and with the limit in deterministic seconds."""
        known = without_search(self.space, self.build_s)
        if known is not None:
            return known
        solver: Any = cp_model.CpSolver()
        p = solver.parameters
        p.num_workers = 1 if deterministic else threads
        p.random_seed = seed % 2**31
        p.relative_gap_limit = gap
        p.absolute_gap_limit = 0.0
        if time_limit_s is not None:
            if deterministic:
                p.max_deterministic_time = time_limit_s
            else:
                p.max_time_in_seconds = time_limit_s
        watch = _Watch(self, progress)
        solver.best_bound_callback = watch.on_bound
        begin = time.monotonic()
        watch.begin = begin
        with _python_keeps_ctrl_c():
            code = solver.solve(self.model, watch)
        solve_s = time.monotonic() - begin
        name = solver.status_name(code)
        claimed_units = solver.objective_value if code in (cp_model.OPTIMAL, cp_model.FEASIBLE) else None
        if code == cp_model.MODEL_INVALID:
            raise FormulationError(
                f"formulation 'cpsat': OR-Tools refuses the model: {self.model.validate()}"
            )
        values = None if claimed_units is None else self._read(solver)
        units = watch.bound
        if code == cp_model.OPTIMAL and gap == 0.0:
            units = claimed_units
        elif code == cp_model.FEASIBLE or (code == cp_model.OPTIMAL and gap > 0.0):
            units = max(float(solver.best_objective_bound), -math.inf if units is None else units)
        spent = float(solver.response_proto.deterministic_time) if deterministic else solve_s
        if code in (cp_model.OPTIMAL, cp_model.INFEASIBLE):
            stop = StopReason.FINISHED
        elif time_limit_s is None or spent < 0.9 * time_limit_s:
            stop = StopReason.INTERRUPTED  # Ctrl-C ends CP-SAT, which then returns what it has
        else:
            stop = StopReason.WORK_LIMIT if deterministic else StopReason.TIME_LIMIT
        return verdict(
            self.space,
            values,
            exact=self.space.exact,
            stop_reason=stop,
            infeasible=code == cp_model.INFEASIBLE,
            bound=self._objective_of(units, rounded=True),
            claimed=self._objective_of(claimed_units, rounded=False),
            rounding=self._rounding(),
            start=self._start_plan,
            build_s=self.build_s,
            solve_s=solve_s,
            message=f"CP-SAT {name}",
        )

    def _rounding(self) -> float:
        return 0.0 if self.scale is None else self._active_units / float(self.scale.scale)

    def _objective_of(self, units: float | None, *, rounded: bool) -> float | None:
        if units is None or not math.isfinite(units):
            return None
        if self.scale is None:
            return self._constant
        # Integer objectives: a bound of 11.3 units means 12, but floor is safe and enough.
        whole = math.floor(units) if rounded else units
        return self.scale.value(whole) + self._constant

    def _read(self, solver: Any) -> Values:
        space = self.space
        start = tuple(
            next(t for t, x in self.started[j].items() if solver.boolean_value(x)) for j in space.jobs
        )
        end = tuple(next(t for t, x in self.ended[j].items() if solver.boolean_value(x)) for j in space.jobs)
        parts = frozenset(
            n for n, x in self.part.items() if (x == 1 if isinstance(x, int) else solver.boolean_value(x))
        )
        counts = {key: int(solver.value(x)) for key, x in self.count.items()}
        return Values(start, end, parts, {key: n for key, n in counts.items() if n})


@contextlib.contextmanager
def _python_keeps_ctrl_c() -> Iterator[None]:
    """Give Ctrl-C back to Python: CP-SAT takes it while it solves, and leaves the system's default behind.

    That would end the whole process at the next Ctrl-C, without a KeyboardInterrupt.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if before is not None:  # None: not set by Python, so Python cannot set it again
            signal.signal(signal.SIGINT, before)


class _Watch(cp_model.CpSolverSolutionCallback):
    """Keeps the best bound that was reported while solving, and passes progress on."""

    def __init__(self, model: CpsatModel, progress: Progress | None) -> None:
        super().__init__()
        self._model = model
        self._progress = progress
        self._lock = threading.Lock()
        self.begin = 0.0
        self.best: float | None = None
        self.bound: float | None = None

    def on_bound(self, units: float) -> None:
        """Take a new bound, in integer units."""
        with self._lock:
            self.bound = units if self.bound is None else max(self.bound, units)
        self._tell()

    def on_solution_callback(self) -> None:
        """Take a new incumbent."""
        with self._lock:
            self.best = float(self.objective_value)
        if self._model.on_plan is not None:
            with contextlib.suppress(FormulationError):  # such as are no schedule are left out
                self._model.on_plan(plan_of(self._model.space, self._model._read(self)))
        self._tell()

    def _tell(self) -> None:
        if self._progress is not None:
            model = self._model
            self._progress(
                time.monotonic() - self.begin,
                model._objective_of(self.best, rounded=False),
                model._objective_of(self.bound, rounded=True),
            )


__all__ = ["CpsatFormulation", "CpsatModel"]
