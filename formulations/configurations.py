"""The configuration LP in continuous time: what may run together, and what a second of it costs and yields.

Time is cut at all releases and deadlines, loosened by the tolerances of docs/model.md section 3. In an
interval I a *pool* of equal units of one node type spends ``y[S, I]`` unit-seconds in *pattern* S, a set of
jobs available all through I::

    minimise    sum over S, I of  c(S) y[S, I]   + constant
    subject to  sum over S, I of  q_j / (tau_j sigma_j(S)) y[S, I]  >=  n_j           for every job j
                sum over S of     y[S, I]  <=  M |I|                          for every pool, bounded I

    c(S) = energy * (power(S) - sleep) + sum over j in S of q_j * running_j

``M`` counts the pool's units and ``q_j`` is the share of its job that one unit carries. Two kinds of pool:

*Nodes* (``exact``), where every job that may use the type takes whole nodes: a unit is a node, ``q_j`` is 1
/ (nodes of j), S its configuration, and power(S) the node's power, look-up included.

*GPUs*, where some job takes part of a node: a unit is a GPU, ``q_j = 1 / g_j``, and power(S) is the power
of a node **all** of whose GPUs host S, divided by its G GPUs; a positive look-up residual is left out,
since only a uniform node draws it. This prices a node's GPUs and its standing power together, from below:
the server's power f is a concave function of the node's CPU load u = (u_1 + ... + u_G) / G, with u_i the
load that GPU i's jobs would put on the node if they held all of it, so ``f(u) >= (f(u_1) + ... + f(u_G)) /
G`` by Jensen's inequality, with equality on uniform nodes. It is never below the chord of f that
docs/model.md section 6 allows. Progress: a gang goes at the pace of its slowest GPU, so the mean of the
paces on its g GPUs is at least its own.

Every schedule of any class gives a feasible y: take for y[S, I] the time that units spend with S. So the
LP's value is a lower bound, and so is, for any prices pi >= 0 of epochs, the Lagrangian bound (weak
duality)::

    L(pi) = sum over j of n_j pi_j  -  sum over pools, I of  M |I| v(I)  + constant
    v(I)  = max(0, max over S of  sum over j in S of q_j pi_j / (tau_j sigma_j(S))  -  c(S))

Where |I| is not bounded v(I) has to be 0. Jobs of one class (:class:`eaco_opt.sets.JobClass`) have the same
slowdowns in the same company, so the maximum is over multisets of classes, with the best available jobs of
each class.

The weight of JTT is charged a second of running: a job's total time is at least the time that it runs,
which is at least its fastest possible running time. Sleep power: active minus sleep power in the costs, and
all nodes' sleep power for the least makespan in the constant. Wake-ups cost nothing here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from eaco_opt.arrays import PROGRESS_TOLERANCE, time_tolerance_s

from .base import FormulationError
from .costs import NodePower, Rates
from .patterns import allowed_types, class_graph, is_admissible

if TYPE_CHECKING:
    from eaco_opt.instance import Instance

MOST_PATTERNS = 200_000
"""Most multisets of classes of one pool; each is priced in every interval."""


MOST_ENTRIES = 20_000_000
"""Most pairs of a job and an interval; neighbouring intervals are merged where there would be more."""


class TooManyPatternsError(FormulationError):
    """There are more co-location patterns than can be priced one by one."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Pool:
    """Equal units of one node type, and the P patterns that one of them may host.

    Attributes
    ----------
    node_type
        Number of the type.
    exact
        Whether units are nodes and patterns their configurations; else units are GPUs.
    units
        M, the number of units.
    share
        (J,) q_j, share of the job on one unit; 0 for jobs that may not use the type.
    tau_s
        (J,) epoch time alone [s], infinite for jobs that may not use the type.
    pattern_classes
        (P, K) class numbers of the members, ascending, -1 beyond.
    sigma
        (P, K) slowdown of the members.
    power_w
        (P,) power of a unit [W], its share of sleep power subtracted.
    size_w
        (P,) largest of the powers that ``power_w`` is a difference of [W], for bounds on rounding.
    measured
        (P,) whether power and slowdowns of the set were measured, not modelled.
    own_w
        (P, K) the part of ``power_w`` that each member has to answer for [W] (equation 5; docs/model.md 2.6).
    """

    node_type: int
    exact: bool
    units: int
    share: NDArray[np.float64]
    tau_s: NDArray[np.float64]
    pattern_classes: NDArray[np.int64]
    sigma: NDArray[np.float64]
    power_w: NDArray[np.float64]
    size_w: NDArray[np.float64]
    measured: NDArray[np.bool_]
    own_w: NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Configurations:
    """The LP of an instance, columns implicit; what energy and time cost is no part of it.

    Attributes
    ----------
    pools
        One by node type that some job may use.
    epochs
        (J,) n_j, loosened, and less what may have run before the earliest release, which is in no interval.
    job_class
        (J,) class numbers.
    first, last
        (J,) intervals [first, last) in which each job is available.
    length_s
        (I,) lengths of the intervals [s]; the last one may be infinite.
    sleep_j
        Energy [J], without PUE, of all nodes asleep for the least makespan.
    nowhere
        Jobs that no pool takes: there is no schedule.
    """

    pools: tuple[Pool, ...]
    epochs: NDArray[np.float64]
    job_class: NDArray[np.int64]
    first: NDArray[np.int64]
    last: NDArray[np.int64]
    length_s: NDArray[np.float64]
    sleep_j: float
    nowhere: tuple[int, ...]

    def constant(self, rates: Rates) -> float:
        """Return what every schedule pays besides the LP: sleep power for the least makespan."""
        return rates.energy * self.sleep_j


def configurations(instance: Instance) -> Configurations:
    """Return the configuration LP of an instance; its objective is not looked at.

    Raises
    ------
    TooManyPatternsError
        Some node type admits more than :data:`MOST_PATTERNS` patterns.
    """
    view = instance.arrays()
    jobs = len(instance.jobs)
    allowed = [allowed_types(instance, j) for j in range(jobs)]
    power = NodePower(instance)
    pools: list[Pool] = []
    sleeping = 0.0
    for t, node_type in enumerate(instance.cluster.node_types):
        nodes = int((view.node_type == t).sum())
        sleeping += nodes * node_type.sleep_w
        users = [j for j in range(jobs) if t in allowed[j]]
        if nodes and users:
            pools.append(_pool(instance, t, nodes, users, power))
    early = np.array([r - time_tolerance_s(r) for r in view.release_s], dtype=np.float64)
    release = np.maximum(0.0, early)
    finite = np.isfinite(view.deadline_s)
    deadline = view.deadline_s.copy()
    deadline[finite] += [time_tolerance_s(d) for d in view.deadline_s[finite]]
    times = _merged(np.unique(np.concatenate([release, deadline])), release, deadline)
    fastest = np.full(jobs, np.inf)
    for pool in pools:
        least = _least_sigma(pool, int(view.job_class.max(initial=-1)) + 1)
        fastest = np.minimum(fastest, pool.tau_s * least[view.job_class])
    # What runs before the earliest release, within the tolerance of times, costs no energy.
    epochs = np.maximum(0.0, view.epochs * (1.0 - PROGRESS_TOLERANCE) - (release - early) / fastest)
    nowhere = tuple(int(j) for j in range(jobs) if not allowed[j])
    makespan = float(np.max(release + epochs * fastest, initial=0.0)) if not nowhere else 0.0
    return Configurations(
        pools=tuple(pools),
        epochs=epochs,
        job_class=view.job_class,
        first=_first(times, release),
        last=np.searchsorted(times, deadline),
        length_s=np.diff(times),
        sleep_j=sleeping * makespan * (1.0 - PROGRESS_TOLERANCE),
        nowhere=nowhere,
    )


def _first(times: NDArray[np.float64], release: NDArray[np.float64]) -> NDArray[np.int64]:
    return np.searchsorted(times, release, side="right").astype(np.int64) - 1


def _merged(
    times: NDArray[np.float64], release: NDArray[np.float64], deadline: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return fewer points in time where all would make more than :data:`MOST_ENTRIES`.

    Windows reach to the next point outward, which weakens the bound and keeps it valid.
    """
    step = 1
    while True:
        kept = times[::step]
        # The last two stay: the last interval alone may be unbounded.
        kept = np.unique(np.concatenate([kept, times[-2:]]))
        entries = int((np.searchsorted(kept, deadline) - _first(kept, release)).sum())
        if entries <= MOST_ENTRIES or len(kept) <= 3:
            return kept
        step *= 2


def _least_sigma(pool: Pool, classes: int) -> NDArray[np.float64]:
    """Return (classes,) the least slowdown of each class in any pattern, 1 where it is in none."""
    out = np.full(classes, np.inf)
    held = pool.pattern_classes >= 0
    np.minimum.at(out, pool.pattern_classes[held], pool.sigma[held])
    out[np.isinf(out)] = 1.0
    return out


def _pool(instance: Instance, t: int, nodes: int, users: list[int], power: NodePower) -> Pool:
    view = instance.arrays()
    node_type = instance.cluster.node_types[t]
    size = node_type.gpus
    exact = all(int(view.gpus[j]) % size == 0 for j in users)
    units = 1 if exact else size
    """Units of a node."""
    share = np.zeros(len(instance.jobs))
    tau = np.full(len(instance.jobs), np.inf)
    share[users] = (size if exact else 1.0) / view.gpus[users]
    tau[users] = view.tau_s[users, t]
    counts = np.bincount(view.job_class[users], minlength=len(view.sets.classes))
    keys = admissible_multisets(instance, t, counts)
    width = max(len(key) for key in keys)
    classes = np.full((len(keys), width), -1, dtype=np.int64)
    sigma = np.ones((len(keys), width))
    watts, largest = np.zeros((2, len(keys)))
    own = np.zeros((len(keys), width))
    measured = np.zeros(len(keys), dtype=np.bool_)
    util = {d.kind: d.gpu_util_mean for d in instance.demands().values()}
    for p, key in enumerate(keys):
        number = view.sets.intern(key)
        k = len(key)
        classes[p, :k] = key
        sigma[p, :k] = view.sets.sigma[number, :k]
        measured[p] = not math.isnan(view.sets.measured_w[number, t])
        residual = power.residual_w(number, t) or 0.0
        full = power.full_node_w(number, t)
        largest[p] = (full + abs(residual)) / units
        if not exact:
            full -= max(0.0, residual)
        watts[p] = (full - node_type.sleep_w) / units
        loads = [util[view.sets.classes[c].kind] for c in key]
        whole = math.fsum(loads)
        dynamic = size * power.dynamic_w(number, t)
        for i, load in enumerate(loads):
            of_load = load / whole if whole > 0.0 else 1.0 / k
            own[p, i] = (dynamic * of_load + (full - dynamic - node_type.sleep_w) / k) / units
    return Pool(
        node_type=t,
        exact=exact,
        units=nodes * units,
        share=share,
        tau_s=tau,
        pattern_classes=classes,
        sigma=sigma,
        power_w=watts,
        size_w=largest,
        measured=measured,
        own_w=own,
    )


def admissible_multisets(instance: Instance, t: int, counts: NDArray[np.int64]) -> list[tuple[int, ...]]:
    """Return the admissible multisets of classes on a type, with no more of a class than there are jobs."""
    view = instance.arrays()
    graph = class_graph(instance, t)
    usable = [c for c in range(len(counts)) if counts[c] and c in graph]
    layer: list[tuple[int, ...]] = [(c,) for c in usable]
    out: list[tuple[int, ...]] = []
    while layer:
        out += layer
        if len(out) > MOST_PATTERNS:
            raise TooManyPatternsError(
                f"configuration LP of instance {instance.name!r}: more than {MOST_PATTERNS:,} sets of job "
                f"classes may share a GPU of type {instance.cluster.node_types[t].name!r}; lower "
                "--max-share"
            )
        larger = []
        for key in layer:
            if len(key) == instance.limits.max_share:
                continue
            for c in usable:
                if c < key[-1] or key.count(c) >= counts[c] or any(not graph.has_edge(c, m) for m in key):
                    continue
                if is_admissible(view, view.sets.intern((*key, c)), t):
                    larger.append((*key, c))
        layer = larger
    return out
