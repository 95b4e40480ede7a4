"""A bound worked out anew from its prices alone, in exact arithmetic.

Nothing here uses the LP, its arrays or its compiled code: sets, slowdowns, powers and references are those
of the independent checker (:mod:`eaco_opt.checker`), in rationals and 50-digit decimals. For prices ``pi_j
>= 0`` of epochs the Lagrangian bound of :mod:`formulations.configurations` is::

    L(pi) = sum over j of n_j pi_j  -  sum over pools, intervals I of  M |I| v(I)  + constant

with v(I) the largest worth of any pattern. Gains of jobs are rounded up and costs of patterns down to
multiples of ``2**-SCALE_BITS`` of the largest, so that v(I) is never too small. Energy counts from the
earliest release on: what the tolerance of times lets jobs do before it is taken off n_j, and no interval
begins earlier. All else is exact but for powers with fractional exponents, right to 50 digits, for which
``1e-40`` of all terms is given away.

Available jobs are kept sorted by gain for each context (class and slowdown) while time is swept, so that
1,000 jobs take some seconds.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from eaco_opt.checker import SetTables, exact_tables
from eaco_opt.instance import Instance
from eaco_opt.limits import ObjectiveForm

from ..verify import InternalError

SCALE_BITS = 100
AGREEMENT = 1e-9
JOULES_PER_KWH = 3_600_000
DIGITS = 50
SECOND_TOLERANCE = Fraction(1, 10**6)
SHARE_TOLERANCE = Fraction(1, 10**9)
GIVEN_AWAY = Fraction(1, 10**40)


@dataclass(frozen=True, slots=True)
class _Rates:
    """Objective of a joule (PUE included) and of a second of each job's running."""

    energy: Fraction
    running: tuple[Fraction, ...]


def certified_bound(
    instance: Instance, prices: NDArray[np.float64], *, energy_only: bool = False
) -> Fraction | None:
    """Return the Lagrangian bound of prices.

    Parameters
    ----------
    instance
        The problem.
    prices
        (J,) prices of epochs, >= 0, in the instance's order.
    energy_only
        Bound the energy [J] instead of the objective.

    Returns
    -------
    Fraction or None
        ``None`` where the prices prove nothing: with them some pattern gains in an unbounded interval.
    """
    with localcontext() as context:
        context.prec = DIGITS
        return _certified(instance, prices, energy_only)


def _certified(instance: Instance, prices: NDArray[np.float64], energy_only: bool) -> Fraction | None:
    tables = exact_tables(instance)
    if not tables.jobs:
        return Fraction(0)
    rates = _rates(instance, tables, energy_only)
    pi = [Fraction(float(price)) for price in prices]
    origin = min(job.release for job in tables.jobs)
    lost = Fraction(0)
    sleeping = Fraction(0)
    quickest: dict[int, Fraction] = {}
    for t, node_type in enumerate(instance.cluster.node_types):
        nodes = sum(node.node_type == node_type.name for node in instance.cluster.nodes)
        sleeping += nodes * Fraction(repr(float(node_type.sleep_w)))
        if not nodes:
            continue
        pool = _Pool(instance, tables, t, nodes, rates, pi)
        of_pool = pool.lost(origin)
        if of_pool is None:
            return None
        lost += of_pool
        for j, fast in pool.quickest():
            quickest[j] = min(fast, quickest.get(j, fast))
    makespan = Fraction(0)
    earned = Fraction(0)
    for j, (job, price) in enumerate(zip(tables.jobs, pi, strict=True)):
        epochs = job.epochs * (1 - SHARE_TOLERANCE)
        begin = _earliest(Fraction(job.release) - origin)
        if j in quickest:
            epochs = max(Fraction(0), epochs - max(Fraction(0), -begin) / quickest[j])
            makespan = max(makespan, max(Fraction(0), begin) + epochs * quickest[j])
        earned += epochs * price
    constant = rates.energy * sleeping * makespan
    return earned - lost + constant - GIVEN_AWAY * (earned + lost + constant)


def confirmed(
    owner: str, instance: Instance, value: float, prices: NDArray[np.float64], *, energy_only: bool = False
) -> float:
    """Return a claimed bound, or what its prices prove in exact arithmetic, rounded down, if that is less.

    Parameters
    ----------
    owner
        What messages call it.
    instance, value, prices, energy_only
        The claim: ``prices`` prove ``value``, of the objective or of the energy [J].

    Raises
    ------
    InternalError
        The claim exceeds what the prices prove by more than :data:`AGREEMENT` of it.
    """
    proved = certified_bound(instance, prices, energy_only=energy_only)
    if proved is None or value > float(proved) + AGREEMENT * abs(value):
        raise InternalError(
            f"{owner} of instance {instance.name!r} is claimed to be at least {value!r}, its prices prove "
            f"{None if proved is None else float(proved)!r}. This is an error of the bound; please report it"
        )
    return min(value, math.nextafter(float(proved), -math.inf))


def _earliest(release: Fraction) -> Fraction:
    """Return when a job may start at the earliest, within the tolerance of times."""
    return release - SECOND_TOLERANCE - SHARE_TOLERANCE * release


def _fraction(value: Decimal | Fraction) -> Fraction:
    return Fraction(value)


def _rates(instance: Instance, tables: SetTables, energy_only: bool) -> _Rates:
    jobs = len(tables.jobs)
    pue = Fraction(repr(float(instance.cluster.pue)))
    if energy_only:
        return _Rates(pue, (Fraction(0),) * jobs)
    o = instance.objective
    alpha, weight = Fraction(repr(float(o.alpha))), Fraction(repr(float(o.jtt_weight)))
    if o.form is ObjectiveForm.RAW:
        per_joule, per_tpe, per_jtt = alpha / JOULES_PER_KWH, (1 - alpha) / 3600, weight / 3600
    else:
        reference = tables.reference()
        if reference is None:
            return _Rates(Fraction(0), (Fraction(0),) * jobs)
        e0, t0, j0 = (_fraction(x) for x in reference)
        per_joule = alpha / e0 if e0 > 0 else Fraction(0)
        per_tpe, per_jtt = (1 - alpha) / t0, weight / j0
    running = tuple(per_tpe / (jobs * job.epochs) + per_jtt / jobs for job in tables.jobs)
    return _Rates(per_joule * pue, running)


class _Pool:
    """Units of one node type: patterns, their costs, and the gains of jobs in them."""

    def __init__(
        self,
        instance: Instance,
        tables: SetTables,
        t: int,
        nodes: int,
        rates: _Rates,
        pi: Sequence[Fraction],
    ) -> None:
        self._tables, self._t = tables, t
        node_type = instance.cluster.node_types[t]
        size = node_type.gpus
        self.users = [
            j
            for j, job in enumerate(tables.jobs)
            if job.tau_by_type[t] is not None
            and nodes * size >= job.gpus
            and not tables.findings(t, (job.member,))
        ]
        self.whole = all(tables.jobs[j].gpus % size == 0 for j in self.users)
        self.units = nodes if self.whole else nodes * size
        members = sorted(
            {tables.jobs[j].member for j in self.users},
            key=lambda m: (m.kind, m.split_gib is not None, m.split_gib or 0, m.exclusive),
        )
        number = {member: c for c, member in enumerate(members)}
        self._class = {j: number[tables.jobs[j].member] for j in self.users}
        counts = [0] * len(members)
        for j in self.users:
            counts[self._class[j]] += 1
        self._patterns: list[tuple[int, list[tuple[int, int]]]] = []
        self._contexts: dict[tuple[int, Fraction], int] = {}
        self._most: list[int] = []
        costs: list[Fraction] = []
        shapes: list[list[tuple[int, int]]] = []
        most = instance.limits.max_share
        for key in _multisets(counts, most, lambda k: not tables.findings(t, tuple(members[c] for c in k))):
            kinds = tuple(sorted(members[c].kind for c in key))
            cpu = sum((self._cpu(tables, members[c].kind) for c in key), Fraction(0))
            server = tables.server_w(t, min(Fraction(1), cpu))
            model = _fraction(server + tables.standing_w(t) + size * tables.dynamic_w(t, kinds))
            looked_up = _fraction(sum(tables.node_w(t, [kinds] * size, cpu), Decimal(0)))
            power = looked_up if self.whole else min(model, looked_up)
            power -= Fraction(repr(float(node_type.sleep_w)))
            costs.append(rates.energy * power / (1 if self.whole else size))
            sigma = tables.sigma(kinds) or {}
            shape: dict[int, int] = {}
            for c in key:
                context = (c, Fraction(sigma[members[c].kind]))
                x = self._contexts.setdefault(context, len(self._contexts))
                if x == len(self._most):
                    self._most.append(0)
                shape[x] = shape.get(x, 0) + 1
                self._most[x] = max(self._most[x], shape[x])
            shapes.append(list(shape.items()))
        share = {j: Fraction(size if self.whole else 1, tables.jobs[j].gpus) for j in self.users}
        gains: list[dict[int, Fraction]] = []
        by_class: dict[int, list[int]] = {}
        for j in self.users:
            by_class.setdefault(self._class[j], []).append(j)
        for c, sigma_x in self._contexts:
            gains.append(
                {
                    j: share[j] * (pi[j] / (self._tau(j) * sigma_x) - rates.running[j])
                    for j in by_class.get(c, ())
                }
            )
        largest = max([abs(g) for of in gains for g in of.values()] + [abs(c) for c in costs] + [Fraction(0)])
        self._unit = largest / 2**SCALE_BITS if largest else Fraction(1)
        self._gains = [{j: math.ceil(g / self._unit) for j, g in of.items()} for of in gains]
        self._patterns = [
            (math.floor(cost / self._unit), shape) for cost, shape in zip(costs, shapes, strict=True)
        ]
        self._of_class: dict[int, list[int]] = {}
        for x, (c, _) in enumerate(self._contexts):
            self._of_class.setdefault(c, []).append(x)

    @staticmethod
    def _cpu(tables: SetTables, kind: str) -> Fraction:
        return Fraction(repr(float(tables.demand[kind].cpu_share)))

    def _tau(self, j: int) -> Fraction:
        tau = self._tables.jobs[j].tau_by_type[self._t]
        assert tau is not None
        return Fraction(tau)

    def quickest(self) -> Iterator[tuple[int, Fraction]]:
        """Return each user's least epoch time in any pattern."""
        least: dict[int, Fraction] = {}
        for c, sigma in self._contexts:
            least[c] = min(sigma, least.get(c, sigma))
        for j in self.users:
            yield j, self._tau(j) * least[self._class[j]]

    def lost(self, origin: Fraction) -> Fraction | None:
        """Return the sum over intervals of M |I| v(I), ``None`` where v is positive in an unbounded one."""
        changes: dict[Fraction, tuple[list[int], list[int]]] = {}
        for j in self.users:
            job = self._tables.jobs[j]
            begin = max(Fraction(0), _earliest(Fraction(job.release) - origin))
            changes.setdefault(begin, ([], []))[0].append(j)
            if job.deadline is not None:
                deadline = Fraction(job.deadline) - origin
                end = deadline + SECOND_TOLERANCE + SHARE_TOLERANCE * abs(deadline)
                changes.setdefault(end, ([], []))[1].append(j)
        present: list[list[tuple[int, int]]] = [[] for _ in self._gains]
        total = Fraction(0)
        before: Fraction | None = None
        worth = 0
        for time in sorted(changes):
            if worth > 0 and before is not None:
                total += (time - before) * worth
            comes, goes = changes[time]
            for j in comes:
                for x in self._of_class.get(self._class[j], ()):
                    insort(present[x], (self._gains[x][j], j))
            for j in goes:
                for x in self._of_class.get(self._class[j], ()):
                    at = bisect_left(present[x], (self._gains[x][j], j))
                    # A window that ends before it begins lets nobody in.
                    if at < len(present[x]) and present[x][at] == (self._gains[x][j], j):
                        del present[x][at]
            worth = self._worth(present)
            before = time
        return None if worth > 0 else total * self._unit * self.units

    def _worth(self, present: list[list[tuple[int, int]]]) -> int:
        best = 0
        tops = [
            [g for g, _ in jobs[: -most - 1 : -1]] for jobs, most in zip(present, self._most, strict=True)
        ]
        for cost, shape in self._patterns:
            value = -cost
            for x, times in shape:
                top = tops[x]
                if len(top) < times:
                    break
                value += sum(top[:times])
            else:
                best = max(best, value)
        return best


def _multisets(
    counts: Sequence[int], most: int, admits: Callable[[tuple[int, ...]], bool]
) -> Iterator[tuple[int, ...]]:
    """Return the admissible multisets of at most ``most`` numbers, none more often than its count."""
    layer: list[tuple[int, ...]] = [(c,) for c in range(len(counts)) if counts[c] and admits((c,))]
    while layer:
        yield from layer
        layer = [
            (*key, c)
            for key in layer
            if len(key) < most
            for c in range(key[-1], len(counts))
            if key.count(c) < counts[c] and admits((*key, c))
        ]
