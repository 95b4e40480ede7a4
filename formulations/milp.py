r"""The static class on the grid as a mixed-integer linear programme in PuLP, with its equations.

Indices: jobs j, node types k, slots t, regions r with their cells, parts p of a job in a region, patterns P
(sets of jobs in a region), sets Q of jobs that can be together; see :mod:`formulations.space`. Data: cells
h_p of a part, most cells that can host all of Q, work of a job in a slot at each slowdown, need W_j (in units
of :mod:`formulations.milp_terms`, exact or rounded: up in L, (done), (lost) and (spare), down in (early) and
(final)), least work L_j(d) of a complete run of d slots, most slots C_jki(d) of it at the i-th or a larger
slowdown, shortest run D = D_jk of a job on a type, longest run S_j that is never complete a slot earlier.

Variables::

    y[j,k,s,d]  1 if job j runs on type k in slots s to s+d-1                     binary
    r[j,k,t]    1 if job j runs on type k in t (where k is a pool, only a name)   in [0, 1]
    w[p]        1 if part p is held (where there is a choice)                     binary
    h[p,t]      1 if part p is held and its job runs in t                         in [0, 1]
    u[P,t]      cells that host exactly the jobs of P in t                        integer
    q[r,Q,t]    cells of r that host all of Q in t                                in [0, most]
    l[j,k,t,i]  1 if the i-th slowdown is the pace of j in t                      binary
    z[j]        work that j does in its last slot, if it runs for more than S_j   continuous
    b[j,k,t]    1 if j runs on k in t, for more than D slots in all               in [0, 1]
    x[j,k,t]    work that j loses to company in t, if it runs for D slots on k    continuous
    a[r,t]      1 if the node of region r is active in t                          in [0, 1]
    c[r,t,i]    1 if the i-th combination of CPU shares runs on the node          binary
    f[r,t,i]    1 if the i-th measured multiset of kinds fills the node           binary
    last        last slot boundary at which a job ends                            continuous

with the abbreviations ``begin[j,k,t]`` = sum of y over s = t, ``end[j,k,t]`` = sum of y over s+d = t,
``late[j,t]`` = that sum over all types and d > S_j, ``here[p,t]`` = h[p,t], or r where p is the only choice,
``pace[j,t]`` = work of j in t, from u, l or r, and ``loss[j,k,t,c]`` = what j loses against its fastest slot
on k, at most c: the sum over the same u or l, each times min(c, fastest - its work).

Minimise, with costs per slot (:class:`~formulations.costs.Costs`)::

    sum y * (time of d slots + total time of s+d) + sum u * cost(P) + sum a * standing + sum c * CPU
    + sum f * residual + last * sleep

subject to::

    (assign)  sum y[j,.,.,.] = 1                                                  each j
    (run)     r[j,k,t] = sum of y[j,k,s,d] over s <= t < s+d                      each j, k, t
    (place)   sum of w over a group of parts = number * sum y[j,k,.,.]            each group
    (hold)    h[p,t] <= w[p]
    (here)    sum of h over a group = number * r[j,k,t]                           each group, t
    (node)    whole part + rest part of j in r <= 1
    (cells)   sum of u[P,t] over P that contain j = sum of h_p * here[p,t]        each r, j, t
    (room)    sum of u[P,t] <= cells (pool) or cells * a[r,t] (node)              each r, t
    (common)  q[r,Q,t] = sum of u[P,t] over P that contain Q                      each Q, t
    (joins)   q[r,Q,t] - q[r,Q,t-1] <= most * sum of begin[j,k,t] over Q          each Q, t
    (leaves)  q[r,Q,t-1] - q[r,Q,t] <= most * sum of end[j,k,t] over Q            each Q, t
    (pace)    sum of l[j,k,t,.] = r[j,k,t]                                        each j, k, t with a choice
    (slow)    sum of u with slowdown >= i-th <= cells * sum of l[j,k,t,i'], i' >= i
    (is)      l[j,k,t,i] <= sum of u with the i-th slowdown
    (done)    sum of pace[j,t] >= sum of L_j(d) y                                 docs/model.md section 5.2
    (slots)   slots with slowdown >= i-th <= sum of C_jki(d) y[j,k,.,d]           implied; tightens
    (long)    b[j,k,t] = sum of y[j,k,s,d] over d > D and s <= t < s+d            each j, k, t
    (lost)    loss[j,k,t,c] - c * b[j,k,t] <= x[j,k,t]                            each j, k, t, c
    (spare)   sum of x[j,k,.] <= (fastest * D - L_j(D)) * sum of y[j,k,.,D]       implied; tightens
    (early)   sum of pace[j,t] - z[j] <= W_j - one unit
    (final)   z[j] <= pace[j,e-1] + fastest * (1 - late[j,e])                     each j, e
    (active)  here[p,t] <= a[r,t]
    (one)     sum of c[r,t,.] = 1
    (cpu)     sum of n_i * c[r,t,i] = parts of one CPU share that run
    (full)    cells * f <= sum of its u;   (fill) f >= sum of its u - cells + 1
    (order)   w[p] in a node <= sum of w of jobs up to that of p in the equal node before
    (last)    last >= sum of (s+d) y[j,.,.,.]                                     each j

(early) and (final): without its last slot, a run is not complete. Runs of at most S_j slots are not, whatever
their company, and leave z = fastest; a job without longer runs has no such rows.

(joins) and (leaves) are condition 2 of :mod:`formulations.space`: between two slots in which all of Q run,
none of them begins or ends, so q stays; before and after, (cells) makes it 0. ``most`` is the most cells that
can host all of Q. q needs no integrality of its own, as u has it.

L_j(d) >= W_j says no more than W_j for the run itself; it takes from the LP the mixtures of short and long
runs that share work among them. (lost) and (spare) take more of them. If j runs for D slots on k, b is 0 and
x can be its loss in each slot; these add up to fastest * D less the work of a complete run, which is at
least L_j(D): (spare) holds. If it runs longer, b is 1 in its slots, (lost) says nothing, as one u or l is 1
and no loss counts for more than c, and x can be 0. If it runs elsewhere, all are 0. In the LP, the part
b[j,k,t] of j that runs longer hides as much of the loss in t as it can, which is that of the worst company;
each c bounds what is left from below. The c are the losses of the slowdowns, without those close to a
larger one, and only the largest where no longer run can be. Rows (slots) that say nothing are left out.

For whole-node jobs of one node each, w, h, l, a, c and f are absent: what is left is the interval form.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import pulp
from numpy.typing import NDArray

from eaco_opt.result import StopReason

from .base import Outcome
from .linear import LinearFormulation, LinearModel, Rows
from .milp_terms import Pace
from .verdict import without_search

if TYPE_CHECKING:
    from .milp_terms import Losses, MilpTerms
    from .space import Space


class MilpFormulation(LinearFormulation["MilpModel"]):
    """The interval form and its exact extension to shared nodes, in PuLP."""

    name = "milp"
    bytes_a_nonzero = 1200
    bytes_a_variable = 1500

    def model(self, space: Space, terms: MilpTerms) -> MilpModel:
        """Build the model of a space."""
        return MilpModel(space, terms)


class MilpModel(LinearModel):
    """The PuLP model of a space; ``problem`` is the PuLP object, for files and for other solvers.

    Attributes
    ----------
    problem
        The PuLP problem.
    variables
        {name: PuLP variable}.
    """

    def __init__(self, space: Space, terms: MilpTerms) -> None:
        super().__init__(space, terms)
        self.problem: Any = pulp.LpProblem("static", pulp.LpMinimize)
        self.variables: dict[str, Any] = {}
        self._rows: dict[str, Any] = {}
        # PuLP 3.3 deprecates its older way to make a variable, which is the only one of 3.0 to 3.2.
        self._make = getattr(self.problem, "add_variable", pulp.LpVariable)
        self._costs: list[tuple[Any, float]] = []
        self._begin: dict[tuple[int, int, int], list[Any]] = {}
        self._end: dict[tuple[int, int, int], list[Any]] = {}
        self._runs: dict[tuple[int, int], list[tuple[int, int, Any]]] = {}
        self._running: dict[tuple[int, int, int], list[Any]] = {}
        if self.searched:
            self._add_runs()
            self._add_places()
            self._add_counts()
            self._add_common()
            self._add_work()
            self._add_nodes()
            self._add_order()
            self._add_last()
            self.problem.setObjective(pulp.LpAffineExpression(self._costs, constant=self.terms.constant()))

    def _variable(self, name: str, high: float | None, kind: str, cost: float = 0.0) -> Any:
        made = self._make(name, 0, high, kind)
        self.variables[name] = made
        if cost:
            self._costs.append((made, cost))
        else:  # PuLP knows a variable from the first expression that has it
            self._costs.append((made, 0.0))
        return made

    def _row(self, name: str, terms: list[tuple[Any, float]], sense: int, right: float) -> None:
        total: dict[Any, float] = {}
        for variable, factor in terms:  # PuLP would keep the last of several terms in one variable
            total[variable] = total.get(variable, 0.0) + factor
        row = pulp.LpConstraint(pulp.LpAffineExpression(total), sense, name, right)
        self._rows[name] = row
        self.problem.addConstraint(row)

    # Runs -------------------------------------------------------------------------------------------------

    def _add_runs(self) -> None:
        """(run), (assign)."""
        for j, k in self.terms.types:
            starts = self.space.windows.starts[j, k]
            for s, low, high in zip(
                starts.start.tolist(), starts.least.tolist(), starts.greatest.tolist(), strict=True
            ):
                for d in range(low, high + 1):
                    y = self._variable(f"y_{j}_{k}_{s}_{d}", 1, "Binary", self.terms.run_cost(j, s, d))
                    self._runs.setdefault((j, k), []).append((s, d, y))
                    self._begin.setdefault((j, k, s), []).append(y)
                    self._end.setdefault((j, k, s + d), []).append(y)
        for j, k in self.terms.types:
            runs, running = self._runs[j, k], self._running
            for s, d, y in runs:
                for t in range(s, s + d):
                    running.setdefault((j, k, t), []).append(y)
            if self.space.is_pool(k):
                continue
            for t in range(min(s for s, _, _ in runs), max(s + d for s, d, _ in runs)):
                r = self._variable(f"r_{j}_{k}_{t}", 1, "Continuous")
                ys = [(y, -1.0) for y in running.get((j, k, t), ())]
                self._row(f"run_{j}_{k}_{t}", [(r, 1.0), *ys], pulp.LpConstraintEQ, 0)
                running[j, k, t] = [r]
        for j in self.space.jobs:
            every = [(y, 1.0) for k in self.space.windows.types[j] for _, _, y in self._runs[j, k]]
            self._row(f"assign_{j}", every, pulp.LpConstraintEQ, 1)

    def _run(self, j: int, k: int, t: int, factor: float = 1.0) -> list[tuple[Any, float]]:
        return [(v, factor) for v in self._running.get((j, k, t), ())]

    def _here(self, part: Any, t: int, factor: float = 1.0) -> list[tuple[Any, float]]:
        group = self.terms.group_of.get(part.number)
        if group is None or group.forced:
            return self._run(part.job, self.space.regions[part.region].node_type, t, factor)
        return [(self.variables[f"h_{part.number}_{t}"], factor)]

    def _span(self, *jobs: int) -> range:
        spans = [self.space.windows.spans[j] for j in jobs]
        return range(max(s[0] for s in spans), min(s[1] for s in spans))

    # Places -----------------------------------------------------------------------------------------------

    def _add_places(self) -> None:
        """(place), (hold), (here), (node)."""
        for i, g in enumerate(self.terms.groups):
            if g.forced:
                continue
            for p in g.parts:
                self._variable(f"w_{p.number}", 1, "Binary")
            chosen = [(self.variables[f"w_{p.number}"], 1.0) for p in g.parts]
            runs = [(y, -float(g.number)) for _, _, y in self._runs[g.job, g.node_type]]
            self._row(f"place_{i}", chosen + runs, pulp.LpConstraintEQ, 0)
            for t in self._span(g.job):
                held = []
                for p in g.parts:
                    h = self._variable(f"h_{p.number}_{t}", 1, "Continuous")
                    self._row(
                        f"hold_{p.number}_{t}",
                        [(h, 1), (self.variables[f"w_{p.number}"], -1)],
                        pulp.LpConstraintLE,
                        0,
                    )
                    held.append((h, 1.0))
                self._row(
                    f"here_{i}_{t}",
                    held + self._run(g.job, g.node_type, t, -float(g.number)),
                    pulp.LpConstraintEQ,
                    0,
                )
        for (j, r), parts in self.space.parts_in.items():
            chosen = [
                (self.variables[f"w_{p.number}"], 1.0) for p in parts if f"w_{p.number}" in self.variables
            ]
            if len(parts) > 1 and chosen:
                self._row(f"node_{j}_{r}", chosen, pulp.LpConstraintLE, 1 - (len(parts) - len(chosen)))

    # Company ----------------------------------------------------------------------------------------------

    def _add_counts(self) -> None:
        """(cells)."""
        space = self.space
        for p in space.patterns:
            cost = self.terms.pattern_cost(p)
            for t in range(p.found.first, p.found.last):
                self._variable(f"u_{p.number}_{t}", p.most, "Integer", cost)
        for (r, j), patterns in space.patterns_with.items():
            for t in self._span(j):
                row = [(self._u(p, t), 1.0) for p in patterns if p.found.first <= t < p.found.last]
                for part in space.parts_in[j, r]:
                    row += self._here(part, t, -float(part.cells))
                self._row(f"cells_{r}_{j}_{t}", row, pulp.LpConstraintEQ, 0)

    def _u(self, pattern: Any, t: int) -> Any:
        return self.variables[f"u_{pattern.number}_{t}"]

    def _add_common(self) -> None:
        """(common), (joins), (leaves)."""
        space = self.space
        for i, (r, jobs) in enumerate(space.together):
            patterns = space.supersets(r, jobs)
            for t in self._span(*jobs):
                q = self._variable(f"q_{i}_{t}", space.most_common(r, jobs), "Continuous")
                row = [(self._u(p, t), 1.0) for p in patterns if p.found.first <= t < p.found.last]
                self._row(f"common_{i}_{t}", [*row, (q, -1.0)], pulp.LpConstraintEQ, 0)
        for name, sign, changes in (("joins", 1.0, self._begin), ("leaves", -1.0, self._end)):
            for i, (r, jobs) in enumerate(space.together):
                k, most = space.regions[r].node_type, space.most_common(r, jobs)
                for t in self._span(*jobs)[1:]:
                    q = [(self.variables[f"q_{i}_{t}"], sign), (self.variables[f"q_{i}_{t - 1}"], -sign)]
                    ys = [(y, -float(most)) for j in jobs for y in changes.get((j, k, t), ())]
                    self._row(f"{name}_{i}_{t}", q + ys, pulp.LpConstraintLE, 0)

    # Progress ---------------------------------------------------------------------------------------------

    def _pace(self, j: int, t: int, units: Any, factor: float = 1.0) -> list[tuple[Any, float]]:
        """Return the work of a job in a slot, ``units(j, k, sigma)`` of it at a slowdown."""
        space, row = self.space, []
        for k in space.windows.types[j]:
            kind = self.terms.paces[j, k]
            if kind is Pace.FIXED:
                row += self._run(j, k, t, factor * units(j, k, space.levels[j, k][0]))
            elif kind is Pace.COUNTED:
                for p in space.patterns_of(j, k):
                    if p.found.first <= t < p.found.last:
                        row.append((self._u(p, t), factor * units(j, k, p.found.sigma_of(j))))
            else:
                for i, sigma in enumerate(space.levels[j, k]):
                    row.append((self.variables[f"l_{j}_{k}_{t}_{i}"], factor * units(j, k, sigma)))
        return row

    def _add_work(self) -> None:
        """(pace), (slow), (is), (done), (early), (final), (slots), (long), (lost), (spare)."""
        space, terms = self.space, self.terms
        for j, k in terms.types:
            if terms.paces[j, k] is Pace.CHOSEN:
                self._add_paces(j, k)
        for j in space.jobs:
            span = self._span(j)
            runs = [(d, y) for k in space.windows.types[j] for _, d, y in self._runs[j, k]]
            up = [term for t in span for term in self._pace(j, t, terms.up)]
            least = terms.least_done(j)
            self._row(f"done_{j}", up + [(y, -least[d]) for d, y in runs], pulp.LpConstraintGE, 0)
            late: dict[int, list[Any]] = {}
            for k in space.windows.types[j]:
                for s, d, y in self._runs[j, k]:
                    if d > terms.sure_slots(j):
                        late.setdefault(s + d, []).append(y)
            if not late:
                continue
            down = [term for t in span for term in self._pace(j, t, terms.down)]
            fastest = terms.fastest(j)
            z = self._variable(f"z_{j}", fastest, "Continuous")
            limit = terms.need[j] - terms.smallest_step(j)
            self._row(f"early_{j}", [*down, (z, -1.0)], pulp.LpConstraintLE, limit)
            for e in sorted(late):
                row = [(z, 1.0), *self._pace(j, e - 1, terms.down, -1.0), *((y, fastest) for y in late[e])]
                self._row(f"final_{j}_{e}", row, pulp.LpConstraintLE, fastest)
        for j, k in terms.types:
            self._add_slow_slots(j, k)
        for j, k in terms.types:
            losses = terms.losses(j, k)
            if losses is not None:
                self._add_losses(j, k, losses)

    def _add_paces(self, j: int, k: int) -> None:
        """(pace), (slow), (is)."""
        space, levels = self.space, self.space.levels[j, k]
        held = float(space.cells_held(j, k))
        for t in self._span(j):
            choice = [self._variable(f"l_{j}_{k}_{t}_{i}", 1, "Binary") for i in range(len(levels))]
            row = [(l, 1.0) for l in choice] + self._run(j, k, t, -1.0)
            self._row(f"pace_{j}_{k}_{t}", row, pulp.LpConstraintEQ, 0)
            slower: list[tuple[Any, float]] = []
            for i in reversed(range(len(levels))):
                same = [
                    (self._u(p, t), 1.0)
                    for p in space.patterns_of(j, k)
                    if p.found.first <= t < p.found.last and p.found.sigma_of(j) == levels[i]
                ]
                row = [(choice[i], 1.0)] + [(u, -1.0) for u, _ in same]
                self._row(f"is_{j}_{k}_{t}_{i}", row, pulp.LpConstraintLE, 0)
                slower += [*same, (choice[i], -held)]
                if i:
                    self._row(f"slow_{j}_{k}_{t}_{i}", slower, pulp.LpConstraintLE, 0)

    def _at_levels(self, j: int, k: int, t: int) -> list[tuple[Any, float]]:
        """Return what is 1 if the job runs at some slowdown in a slot, and the slowdown."""
        space = self.space
        if self.terms.paces[j, k] is Pace.COUNTED:
            return [
                (self._u(p, t), p.found.sigma_of(j))
                for p in space.patterns_of(j, k)
                if p.found.first <= t < p.found.last
            ]
        return [(self.variables[f"l_{j}_{k}_{t}_{i}"], sigma) for i, sigma in enumerate(space.levels[j, k])]

    def _add_slow_slots(self, j: int, k: int) -> None:
        """(slots)."""
        for i, most in self.terms.slow_levels(j, k):
            mild = self.space.levels[j, k][i]
            row = [(v, 1.0) for t in self._span(j) for v, sigma in self._at_levels(j, k, t) if sigma >= mild]
            row += [(y, -float(most[d])) for _, d, y in self._runs[j, k]]
            self._row(f"slots_{j}_{k}_{i}", row, pulp.LpConstraintLE, 0)

    def _add_losses(self, j: int, k: int, losses: Losses) -> None:
        """(long), (lost), (spare)."""
        runs, longer = self._runs[j, k], range(losses.long_first, losses.long_last)
        for t in longer:
            b = self._variable(f"b_{j}_{k}_{t}", 1, "Continuous")
            long = [(y, -1.0) for s, d, y in runs if d > losses.shortest and s <= t < s + d]
            self._row(f"long_{j}_{k}_{t}", [(b, 1.0), *long], pulp.LpConstraintEQ, 0)
        spare = [(y, -losses.budget) for _, d, y in runs if d == losses.shortest]
        for t in range(losses.first, losses.last):
            x = self._variable(f"x_{j}_{k}_{t}", losses.caps[0], "Continuous")
            spare.append((x, 1.0))
            lost = [(v, losses.fastest - self.terms.up(j, k, sigma)) for v, sigma in self._at_levels(j, k, t)]
            for i, cap in enumerate(losses.caps if t in longer else losses.caps[:1]):
                row = [(v, min(loss, cap)) for v, loss in lost if loss > 0.0]
                if t in longer:
                    row.append((self.variables[f"b_{j}_{k}_{t}"], -cap))
                self._row(f"lost_{j}_{k}_{t}_{i}", [*row, (x, -1.0)], pulp.LpConstraintLE, 0)
        self._row(f"spare_{j}_{k}", spare, pulp.LpConstraintLE, 0)

    # Nodes ------------------------------------------------------------------------------------------------

    def _add_nodes(self) -> None:
        """(room), (active), (one), (cpu), (full), (fill)."""
        space, terms = self.space, self.terms
        for region in space.regions:
            r, cells = region.number, float(region.cells)
            for t in range(self.grid.slots):
                row = [(self._u(p, t), 1.0) for p in space.possible(r, t)]
                if not row:
                    continue
                if region.pool:
                    self._row(f"room_{r}_{t}", row, pulp.LpConstraintLE, cells)
                    continue
                a = self._variable(f"a_{r}_{t}", 1, "Continuous", terms.active_cost(region))
                self._row(f"room_{r}_{t}", [*row, (a, -cells)], pulp.LpConstraintLE, 0)
                for p in terms.guests(region, t):
                    self._row(
                        f"active_{p.number}_{t}", [*self._here(p, t), (a, -1.0)], pulp.LpConstraintLE, 0
                    )
                groups = space.cpu_groups(region, t)
                if groups:
                    powers = space.cpu_powers(region, groups)
                    factor = terms.scale * space.costs.energy
                    picks = [
                        self._variable(f"c_{r}_{t}_{i}", 1, "Binary", factor * power)
                        for i, power in enumerate(powers.values())
                    ]
                    self._row(f"one_{r}_{t}", [(c, 1.0) for c in picks], pulp.LpConstraintEQ, 1)
                    for at, (_, parts) in enumerate(groups):
                        row = [(c, float(key[at])) for key, c in zip(powers, picks, strict=True) if key[at]]
                        for p in parts:
                            row += self._here(p, t, -1.0)
                        self._row(f"cpu_{r}_{t}_{at}", row, pulp.LpConstraintEQ, 0)
                for i, full in enumerate(terms.fulls(region, t)):
                    f = self._variable(f"f_{r}_{t}_{i}", 1, "Binary", full.cost)
                    filled = [(self._u(p, t), 1.0) for p in full.patterns]
                    self._row(f"full_{r}_{t}_{i}", [*filled, (f, -cells)], pulp.LpConstraintGE, 0)
                    self._row(f"fill_{r}_{t}_{i}", [*filled, (f, -1.0)], pulp.LpConstraintLE, cells - 1)

    def _add_order(self) -> None:
        """(order)."""
        for p, earlier in self.space.openings:
            row = [(self.variables[f"w_{p.number}"], 1.0)] if f"w_{p.number}" in self.variables else []
            others = [self.variables[f"w_{o.number}"] for o in earlier if f"w_{o.number}" in self.variables]
            if row and len(others) == len(earlier):
                self._row(f"order_{p.number}", row + [(w, -1.0) for w in others], pulp.LpConstraintLE, 0)

    def _add_last(self) -> None:
        """(last)."""
        cost = self.terms.last_cost()
        if cost == 0.0:
            return
        last = self._variable("last", self.grid.slots, "Continuous", cost)
        for j in self.space.jobs:
            ends = [(y, float(s + d)) for k in self.space.windows.types[j] for s, d, y in self._runs[j, k]]
            self._row(f"last_{j}", [*ends, (last, -1.0)], pulp.LpConstraintLE, 0)

    # What solvers need ------------------------------------------------------------------------------------

    def rows(self) -> Rows:
        """Return the model as arrays, in the order in which variables and rows were added."""
        number = {name: i for i, name in enumerate(self.variables)}
        index: list[int] = []
        value: list[float] = []
        start = [0]
        low: list[float] = []
        high: list[float] = []
        for row in self._rows.values():
            for variable, factor in row.items():
                if factor:
                    index.append(number[variable.name])
                    value.append(factor)
            start.append(len(index))
            right = -row.constant
            low.append(-np.inf if row.sense == pulp.LpConstraintLE else right)
            high.append(np.inf if row.sense == pulp.LpConstraintGE else right)
        cost: NDArray[np.float64] = np.zeros(len(number))
        for variable, factor in self._costs:
            cost[number[variable.name]] = factor
        made = self.variables.values()
        return Rows(
            make_names=lambda: (tuple(self.variables), tuple(self._rows)),
            cost=cost,
            constant=self.terms.constant(),
            upper=np.array([float(x.upBound) for x in made]),
            integer=np.array([x.cat == "Integer" for x in made], dtype=np.bool_),
            start=np.array(start, dtype=np.int32),
            index=np.array(index, dtype=np.int32),
            value=np.array(value),
            low=np.array(low),
            high=np.array(high),
        )

    def load(self) -> Any:
        """Return a silent HiGHS object that PuLP gave the model; PuLP puts columns in the order of names."""
        from .highs import load_empty

        self.problem.solverModel = load_empty()
        pulp.HiGHS(msg=False).buildSolverModel(self.problem)
        return self.problem.solverModel

    def column_order(self) -> NDArray[np.int64]:
        """Return (V,) the column of each variable in what :meth:`load` returned."""
        return np.array([x.index for x in self.variables.values()], dtype=np.int64)

    def solve_with(
        self,
        solver: Any,
        *,
        time_limit_s: float | None = None,
        gap: float = 0.0,
        bound_of: Callable[[Any], float | None] | None = None,
    ) -> Outcome:
        """Solve with any solver of PuLP (CBC, SCIP, Gurobi, CPLEX, ...).

        PuLP keeps no bound, and says "optimal" of a run that its time limit stopped as well. So the objective
        is taken as bound only where PuLP says optimal, the gap is 0, and the run ended before nine tenths of
        the limit. A start is given to the solver, which takes it if it was made with ``warmStart``.

        Parameters
        ----------
        solver
            A PuLP solver object, with its own time limit and gap.
        time_limit_s, gap
            The same time limit [s] and gap.
        bound_of
            Gives the bound that a solver itself keeps of the PuLP problem, in the model's units.
        """
        known = without_search(self.space, self.build_s)
        if known is not None:
            return known
        begin = time.monotonic()
        if self._start_values is not None:
            for name, value in zip(self.arrays.names, self._start_values.tolist(), strict=True):
                self.variables[name].setInitialValue(value)
        self.problem.solve(solver)
        solve_s = time.monotonic() - begin
        limited = time_limit_s is not None and solve_s >= 0.9 * time_limit_s
        says = f"{solver.name} by PuLP: "
        says += "stopped by its time limit" if limited else pulp.LpStatus[self.problem.status]
        found = {name: x.varValue or 0.0 for name, x in self.variables.items()}
        starts = sum(round(value) for name, value in found.items() if name.startswith("y_"))
        has_values = self.problem.sol_status in (
            pulp.LpSolutionOptimal,
            pulp.LpSolutionIntegerFeasible,
        ) and starts == len(self.instance.jobs)
        claimed = float(self.problem.objective.value()) if has_values else None
        ended = has_values and self.problem.sol_status == pulp.LpSolutionOptimal and not limited
        infeasible = self.problem.status == pulp.LpStatusInfeasible
        bound = claimed if ended and gap == 0.0 else None
        if bound_of is not None and not infeasible:
            bound = bound_of(self.problem)
        return self.conclude(
            self.values_from(found) if has_values else None,
            claimed=claimed,
            bound=bound,
            infeasible=infeasible,
            stop_reason=StopReason.FINISHED if ended or infeasible else StopReason.TIME_LIMIT,
            solve_s=solve_s,
            message=says,
        )
