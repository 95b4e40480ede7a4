"""Independent checker: feasibility and cost of a schedule, worked out from its segments.

This is a second implementation of docs/model.md sections 1 to 5. It shares nothing with
the fast physics but the stored data of the domain objects (and the fitted slowdown
models of :mod:`eaco_opt.slowdown`, whose factors it takes as decimals), so that an error
in one of the two shows as a difference.

Map of the module
-----------------
- :func:`check`, :func:`check_report`, :class:`CheckReport`: the public face.
- ``_Exact``, ``_Float``: the two arithmetics. Up to :data:`EXACT_JOBS` jobs, times,
  progress, load and memory are exact rationals of the decimals as written and powers
  are 50-digit decimals; above, everything is a float (unless floats overflow).
- ``SetTables``: what a set of jobs on a GPU means: load, memory, slowdown, power, which
  rules it breaks, and the reference costs.
- ``_read_segments``: rules that concern one job by itself, and its *runs*: neighbouring
  segments on the same GPUs that touch are one run.
- ``_Sweep``: one pass over all starts and ends, giving each job's speed over time and
  the energy of active nodes. Only jobs that share a GPU with the one that comes or goes
  are looked at, so the work grows with the number of segments times the neighbours.
- ``_check_sharing``: one pass per node over what its GPUs host, for the rules on sets.
- ``_check_progress``: completion, overrun, class of schedule, grid.
- ``_check_nodes``: wake-ups, sleep and the start-up of nodes.

Tolerances (docs/model.md section 3)
------------------------------------
Times agree within ``1e-6 s + 1e-9 * (time since the earliest release)``. Two jobs that
are together on a GPU for no longer than that do not share it as far as limits are
concerned: the rules on sets look at every segment shortened by the tolerance. Where two
events lie within the tolerance of each other their order is undecided, so the progress
test takes the order that favours the schedule: a piece of time no longer than the
tolerance counts at the fastest (for completion) or slowest (for overrun) speed that the
job has around it. Progress reaches ``n_j`` at ``n_j * (1 - 1e-9)``; limits hold within
1e-9. Times are 64-bit floats: a few units in the last place of a time are never held
against a job, which matters only for runs far shorter than their distance from zero.
"""

from __future__ import annotations

import logging
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import combinations
from typing import Any, Protocol, TypeAlias

from . import _validate as v
from .cluster import NodeType
from .errors import DomainError, EacoError, ScheduleError
from .evaluation import EnergySplit, Violation, ViolationClass
from .instance import Instance
from .interference import SLOWDOWN_MODELS, KindDemand, SlowdownModel
from .job import MemoryKind
from .limits import AdmissionRule, ObjectiveForm
from .schedule import Gpu, Schedule, ScheduleClass

_LOG = logging.getLogger(__name__)

EXACT_JOBS = 5000
"""Largest number of jobs that is checked in exact rationals; above it the checker uses floats."""

_SUBSET_CAP = 10
"""Sets of up to this many jobs are tested over every subset; larger ones, which exceed K (at most 8) anyway,
over the whole set, its pairs and its single members."""

_ROUNDING_ULPS = 8
"""Units in the last place of a time that are put down to its representation."""

Num: TypeAlias = Any
"""Exact mode: Fraction; float mode: float."""

Watts: TypeAlias = Any
"""Exact mode: Decimal with 50 digits; float mode: float. Also used for joules and their sums."""

Kinds: TypeAlias = tuple[str, ...]
"""A multiset of profile kinds, sorted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckReport:
    """Everything the checker found and recomputed (docs/model.md sections 2, 3 and 5).

    Attributes
    ----------
    violations
        All violations, by time.
    feasible
        Whether there are none.
    physical_violations, deadline_misses, threshold_violations
        Their numbers by class.
    energy
        Energy by origin, PUE included.
    energy_j
        Total energy [J].
    avg_tpe_s
        Mean over all jobs of the instance of running time per epoch [s].
    mean_jtt_s
        Mean time from release to end [s]; a job without segments counts 0.
    makespan_s
        Earliest release to last end [s].
    objective
        Value of the instance's objective; ``None`` where it is not defined because some
        job has no node type to serve as its exclusive reference.
    reference_energy_j, reference_tpe_s, reference_jtt_s
        E0 [J], T0 [s] and J0 [s] of the exclusive reference, ``None`` likewise.
    progress
        (job name, epochs run, capped at those asked for), in the order of the instance's jobs.
    mode
        ``exact`` or ``float``.
    grid_s
        Slot length [s] of grid physics, ``None`` in continuous time.
    """

    violations: tuple[Violation, ...]
    feasible: bool
    physical_violations: int
    deadline_misses: int
    threshold_violations: int
    energy: EnergySplit
    energy_j: float
    avg_tpe_s: float
    mean_jtt_s: float
    makespan_s: float
    objective: float | None
    reference_energy_j: float | None
    reference_tpe_s: float | None
    reference_jtt_s: float | None
    progress: tuple[tuple[str, float], ...]
    mode: str
    grid_s: float | None


def check(instance: Instance, schedule: Schedule, *, grid_s: float | None = None) -> list[Violation]:
    """Return every rule that a schedule breaks (docs/model.md sections 1 to 5).

    Parameters
    ----------
    instance
        The problem.
    schedule
        Segments and the class they claim.
    grid_s
        Slot length of grid physics [s]; ``None`` for continuous time.

    Returns
    -------
    list of Violation
        By time; empty when the schedule is feasible.

    Raises
    ------
    DomainError
        ``grid_s`` is not a positive number, or the slowdown model gives a factor that is
        not positive and finite. Whatever is wrong with the schedule is a violation, not an error.
    """
    return list(check_report(instance, schedule, grid_s=grid_s).violations)


def check_report(
    instance: Instance, schedule: Schedule, *, grid_s: float | None = None, _mode: str | None = None
) -> CheckReport:
    """Return violations and recomputed costs of a schedule.

    Parameters
    ----------
    instance, schedule, grid_s
        As for :func:`check`.

    Returns
    -------
    CheckReport
        Violations, counts by class, energy, AvgTPE and objective.

    Raises
    ------
    DomainError
        As for :func:`check`.
    """
    if not isinstance(instance, Instance) or not isinstance(schedule, Schedule):
        raise ScheduleError(
            "check: expected an Instance and a Schedule, got "
            f"{type(instance).__name__} and {type(schedule).__name__}; build them first"
        )
    if grid_s is not None:
        grid_s = v.real("check", "grid_s", grid_s, above=0.0)
    mode = _mode or ("exact" if len(instance.jobs) <= EXACT_JOBS else "float")
    with localcontext() as context:
        context.prec = 50
        if mode == "float":
            try:
                report = _Checker(instance, schedule, grid_s, _Float()).report()
                if math.isfinite(report.energy_j) and math.isfinite(report.avg_tpe_s):
                    return report
            except EacoError:
                raise
            except (ArithmeticError, ValueError):  # an infinity, or a rounded NaN
                pass
            _LOG.warning("check: some numbers are out of the range of floats; checking in exact numbers")
        return _Checker(instance, schedule, grid_s, _Exact()).report()


# --- Arithmetic -------------------------------------------------------------------------------------------


class _Arithmetic(Protocol):
    """What the checker asks of numbers."""

    name: str

    def of(self, value: float) -> Num:
        """Return the number as written."""

    def total(self, values: Iterable[Num]) -> Num:
        """Return a sum."""

    def watts(self, value: float) -> Watts:
        """Return a power as written."""

    def scale(self, number: Num) -> Watts:
        """Return a number in the arithmetic of powers."""

    def power(self, base: Num, exponent: float) -> Watts:
        """Return ``base ** exponent`` for base > 0."""


class _Exact:
    """Rationals for times, progress, load and memory; 50-digit decimals for powers."""

    name = "exact"

    def __init__(self) -> None:
        self._known: dict[float, Fraction] = {}

    def of(self, value: float) -> Fraction:
        found = self._known.get(value)
        if found is None:
            found = self._known[value] = Fraction(repr(value))
        return found

    def total(self, values: Iterable[Fraction]) -> Fraction:
        # Pairwise: sums of many unlike fractions would otherwise drag ever longer denominators along.
        terms = list(values)
        while len(terms) > 1:
            terms = [sum(terms[i : i + 2], Fraction(0)) for i in range(0, len(terms), 2)]
        return terms[0] if terms else Fraction(0)

    def watts(self, value: float) -> Decimal:
        return Decimal(repr(value))

    def scale(self, number: Fraction) -> Decimal:
        return Decimal(number.numerator) / Decimal(number.denominator)

    def power(self, base: Fraction, exponent: float) -> Decimal:
        return self.scale(base) ** Decimal(repr(exponent))


class _Float:
    """Floats throughout."""

    name = "float"

    def of(self, value: float) -> float:
        return float(value)

    def total(self, values: Iterable[float]) -> float:
        return math.fsum(values)

    def watts(self, value: float) -> float:
        return float(value)

    def scale(self, number: float) -> float:
        return number

    def power(self, base: float, exponent: float) -> float:
        return float(base**exponent)


# --- What sets of jobs mean -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Member:
    """What the rules on sets see of a job; jobs with equal members are interchangeable.

    ``split_gib`` is the memory on each GPU of a model-parallel job, ``None`` for a data-parallel one.
    """

    kind: str
    split_gib: Num | None
    exclusive: bool


@dataclass(frozen=True, slots=True)
class _Finding:
    """A rule that a set breaks."""

    kind: str
    amount: float
    text: str


@dataclass(slots=True)
class _JobData:
    """A job as the checker uses it; times and epochs in the checker's arithmetic."""

    name: str
    gpus: int
    epochs: int
    release: Num
    deadline: Num | None
    member: _Member
    cpu: Num
    tau_by_type: tuple[Num | None, ...]


def _is_within(small: Kinds, big: Kinds) -> bool:
    """Tell whether a sorted multiset lies within another: it is then a subsequence of it."""
    rest = iter(big)
    return all(any(candidate == kind for candidate in rest) for kind in small)


def _real(number: Num) -> float:
    """Return the nearest float, infinity where it is out of range."""
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def _shown(number: Num) -> str:
    return f"{_real(number):.6g}"


class SetTables:
    """Load, memory, slowdown and power of sets, looked up or computed once each."""

    def __init__(self, instance: Instance, ar: _Arithmetic) -> None:
        self.ar = ar
        self.instance = instance
        self.limits = instance.limits
        self.types: tuple[NodeType, ...] = instance.cluster.node_types
        self.eps = ar.of(1e-9)
        one_of_kind = {p.kind: p for p in instance.profiles}
        self.util = {k: ar.of(p.gpu_util_mean) for k, p in one_of_kind.items()}
        self.peak_gib = {k: ar.of(p.gpu_memory_peak_gib) for k, p in one_of_kind.items()}
        self.demand = {
            k: KindDemand(
                kind=k,
                gpu_util_mean=p.gpu_util_mean,
                gpu_util_peak=p.gpu_util_peak,
                gpu_memory_mean_gib=p.gpu_memory_mean_gib,
                gpu_memory_peak_gib=p.gpu_memory_peak_gib,
                cpu_share=p.cpu_share,
            )
            for k, p in one_of_kind.items()
        }
        self.usage: dict[Kinds, tuple[Num, Num]] = {
            row.kinds: (ar.of(row.load), ar.of(row.memory_gib)) for row in instance.usage
        }
        self.usage_with: dict[str, list[Kinds]] = defaultdict(list)
        for kinds in self.usage:
            for kind in set(kinds):
                self.usage_with[kind].append(kinds)
        self.measured_sigma: dict[Kinds, dict[str, Num]] = {}
        self.sigma_with: dict[str, list[Kinds]] = defaultdict(list)
        for row in instance.truth.measured:
            self.measured_sigma[row.kinds] = {
                kind: ar.of(factor) for kind, factor in zip(row.kinds, row.factors, strict=True)
            }
            for kind in set(row.kinds):
                self.sigma_with[kind].append(row.kinds)
        self.never_together = {frozenset(pair): pair for pair in instance.truth.cannot_share}
        self.model: SlowdownModel = SLOWDOWN_MODELS.get(instance.truth.model)(dict(instance.truth.params))
        self._loads: dict[Kinds, Num] = {}
        self._memories: dict[Kinds, Num] = {}
        self._sigmas: dict[Kinds, dict[str, Num] | None] = {}
        self._server: dict[tuple[int, Num], Watts] = {}
        self._dynamic: dict[tuple[int, Kinds], Watts] = {}
        self._findings: dict[tuple[int, tuple[_Member, ...]], tuple[_Finding, ...]] = {}
        self.whole_node_w: list[dict[Kinds, Watts]] = [
            {row.kinds: ar.watts(row.power_w) for row in t.power.measured} if t.power.lookup else {}
            for t in self.types
        ]
        self.jobs = self._read_jobs()

    def _read_jobs(self) -> list[_JobData]:
        ar = self.ar
        profiles = {p.name: p for p in self.instance.profiles}
        out: list[_JobData] = []
        for job in self.instance.jobs:
            profile = profiles[job.profile]
            taus: list[Num | None] = []
            for node_type in self.types:
                rows = {
                    e.gpus: e.epoch_time_s for e in profile.epoch_times if e.gpu_type == node_type.gpu_type
                }
                tau = rows.get(job.gpus, rows.get(None))
                taus.append(None if tau is None else ar.of(tau))
            split = None
            if job.memory_kind is MemoryKind.MODEL_PARALLEL:
                split = ar.of(profile.gpu_memory_peak_gib) / job.gpus
            out.append(
                _JobData(
                    name=job.name,
                    gpus=job.gpus,
                    epochs=job.epochs,
                    release=ar.of(job.release_s),
                    deadline=None if math.isinf(job.deadline_s) else ar.of(job.deadline_s),
                    member=_Member(profile.kind, split, job.exclusive),
                    cpu=ar.of(profile.cpu_share),
                    tau_by_type=tuple(taus),
                )
            )
        return out

    # Load and memory: the measured value, else the sum of the members; never above a measured superset.

    def load(self, kinds: Kinds) -> Num:
        """Return l(S), not capped at 1; 0 for the empty set."""
        found = self._loads.get(kinds)
        if found is None:
            found = self._loads[kinds] = self._usage_of(kinds, 0, self.util)
        return found

    def _memory_gib(self, kinds: Kinds) -> Num:
        found = self._memories.get(kinds)
        if found is None:
            found = self._memories[kinds] = self._usage_of(kinds, 1, self.peak_gib)
        return found

    def _usage_of(self, kinds: Kinds, column: int, single: dict[str, Num]) -> Num:
        if not kinds:
            return self.ar.of(0.0)
        row = self.usage.get(kinds)
        value = row[column] if row is not None else self.ar.total(single[k] for k in kinds)
        for bigger in self.usage_with.get(kinds[0], ()):
            if len(bigger) > len(kinds) and _is_within(kinds, bigger):
                value = min(value, self.usage[bigger][column])
        return value

    def memory_gib(self, members: Sequence[_Member]) -> Num:
        """Return m(S): that of the data-parallel members plus each model-parallel one's part."""
        whole = self._memory_gib(tuple(sorted(m.kind for m in members if m.split_gib is None)))
        return whole + self.ar.total(m.split_gib for m in members if m.split_gib is not None)

    # Slowdown.

    def sigma(self, kinds: Kinds) -> dict[str, Num] | None:
        """Return the slowdown by kind; ``None`` where two of the set cannot share."""
        if kinds not in self._sigmas:
            self._sigmas[kinds] = self._sigma(kinds)
        return self._sigmas[kinds]

    def _sigma(self, kinds: Kinds) -> dict[str, Num] | None:
        ar = self.ar
        if len(kinds) == 1:
            return {kinds[0]: ar.of(1.0)}
        if self.bad_pairs(kinds):
            return None
        measured = self.measured_sigma.get(kinds)
        if measured is not None:
            return measured
        owner = f"slowdown model {self.instance.truth.model!r}"
        try:
            from_pairs = getattr(self.model, "from_pairs", None)
            if from_pairs is not None and len(kinds) > 2:
                places = range(len(kinds))
                factors = from_pairs(
                    [[self._beside(kinds[i], kinds[k], i == k) for k in places] for i in places]
                )
            else:
                factors = self.model.factors([self.demand[k] for k in kinds])
            if len(factors) != len(kinds):
                raise DomainError(
                    f"{owner}: expected {len(kinds)} factors of {'+'.join(kinds)}, got {len(factors)}"
                )
        except ArithmeticError as error:
            raise DomainError(
                f"{owner}: factors of {'+'.join(kinds)} cannot be worked out ({error}); check its parameters"
            ) from error
        out: dict[str, Num] = {}
        for kind, factor in zip(kinds, factors, strict=True):
            out[kind] = ar.of(v.real(owner, f"factor of {kind} in {'+'.join(kinds)}", factor, above=0.0))
        if not self.instance.truth.clamp:
            return out
        neighbours = {row for kind in set(kinds) for row in self.sigma_with.get(kind, ())}
        smaller = [r for r in neighbours if len(r) < len(kinds) and _is_within(r, kinds)]
        bigger = [r for r in neighbours if len(r) > len(kinds) and _is_within(kinds, r)]
        for kind in out:
            least = [self.measured_sigma[r][kind] for r in smaller if kind in r]
            most = [self.measured_sigma[r][kind] for r in bigger]
            out[kind] = min([max([out[kind], *least]), *most])
        return out

    def _beside(self, own: str, other: str, same_job: bool) -> float:
        """Return the slowdown of one kind beside one other job alone; 1 for the job itself."""
        pair = None if same_job else self.sigma(tuple(sorted((own, other))))
        return 1.0 if pair is None else float(pair[own])

    def bad_pairs(self, kinds: Kinds) -> list[tuple[str, str]]:
        """Return the pairs of a set that cannot share."""
        if not self.never_together:
            return []
        present = sorted(set(kinds))
        found = [(a, b) for a, b in combinations(present, 2) if frozenset((a, b)) in self.never_together]
        found += [(a, a) for a in present if frozenset((a,)) in self.never_together and kinds.count(a) > 1]
        return found

    # Power.

    def server_w(self, type_index: int, cpu: Num) -> Watts:
        """Return the server's power at a CPU utilisation in [0, 1], without its GPUs."""
        key = (type_index, cpu)
        if key not in self._server:
            ar, server = self.ar, self.types[type_index].power.server
            shape = ar.scale(2 * cpu) - ar.power(cpu, server.exponent) if cpu > 0 else ar.watts(0.0)
            idle = ar.watts(server.idle_w)
            self._server[key] = idle + (ar.watts(server.busy_w) - idle) * shape
        return self._server[key]

    def dynamic_w(self, type_index: int, kinds: Kinds) -> Watts:
        """Return the load-dependent power of one GPU that hosts a set."""
        key = (type_index, kinds)
        if key not in self._dynamic:
            ar, gpu = self.ar, self.types[type_index].power.gpu
            load = min(ar.of(1.0), self.load(kinds))
            self._dynamic[key] = (
                ar.watts(gpu.dynamic_w) * ar.power(load, gpu.exponent) if load > 0 else ar.watts(0.0)
            )
        return self._dynamic[key]

    def standing_w(self, type_index: int) -> Watts:
        """Return the standing power of all GPUs of an active node."""
        node_type = self.types[type_index]
        return self.ar.watts(node_type.power.gpu.standing_w) * node_type.gpus

    def empty_w(self, type_index: int) -> tuple[Watts, Watts]:
        """Return server and standing power of an active node that hosts nothing."""
        return self.server_w(type_index, self.ar.of(0.0)), self.standing_w(type_index)

    def node_w(self, type_index: int, hosted: Sequence[Kinds], cpu: Num) -> tuple[Watts, Watts, Watts]:
        """Return power of server (with the residual of a look-up), GPUs standing and GPUs dynamic.

        ``hosted`` lists what each busy GPU hosts; the node's other GPUs are empty.
        """
        server, standing = self.server_w(type_index, min(self.ar.of(1.0), cpu)), self.standing_w(type_index)
        dynamic = self.ar.watts(0.0)
        for kinds in hosted:
            dynamic += self.dynamic_w(type_index, kinds)
        if len(hosted) == self.types[type_index].gpus and len(set(hosted)) == 1:
            measured = self.whole_node_w[type_index].get(hosted[0])
            if measured is not None:
                server = measured - standing - dynamic
        return server, standing, dynamic

    # Rules on what shares a GPU.

    def findings(self, type_index: int, members: tuple[_Member, ...]) -> tuple[_Finding, ...]:
        """Return the rules that the members break when they share a GPU of a node type."""
        key = (type_index, members)
        if key not in self._findings:
            self._findings[key] = tuple(self._find(type_index, members))
        return self._findings[key]

    def _subsets(self, members: tuple[_Member, ...]) -> list[tuple[_Member, ...]]:
        """Return the non-empty subsets to test, equal ones once."""
        if len(members) <= _SUBSET_CAP:
            sizes: Iterable[int] = range(1, len(members) + 1)
        else:
            sizes = (1, 2, len(members))
        return list(dict.fromkeys(t for n in sizes for t in combinations(members, n)))

    def _find(self, type_index: int, members: tuple[_Member, ...]) -> Iterator[_Finding]:
        limits, ar, eps = self.limits, self.ar, self.eps
        count = len(members)
        if count > limits.max_share:
            yield _Finding(
                "max-share",
                _real(count - limits.max_share),
                f"{count} jobs on one GPU; at most {limits.max_share} may",
            )
        if count > 1 and any(m.exclusive for m in members):
            yield _Finding(
                "exclusive", _real(count - 1), f"an exclusive job shares its GPU with {count - 1} other(s)"
            )
        kinds = tuple(sorted(m.kind for m in members))
        pairs = self.bad_pairs(kinds)
        if pairs:
            named = ", ".join(f"{a} and {b}" for a, b in pairs)
            yield _Finding("cannot-share", _real(len(pairs)), f"{named} cannot share a GPU and do")
        subsets = self._subsets(members)
        gpu_gib = ar.of(self.types[type_index].gpu_memory_gib)
        most = max(subsets, key=lambda t: (self.memory_gib(t), -len(t)))
        used = self.memory_gib(most)
        excess = used / gpu_gib - ar.of(limits.mem_threshold)
        if excess > eps:
            part = "" if len(most) == count else f" by {'+'.join(m.kind for m in most)} of them"
            yield _Finding(
                "memory",
                _real(excess),
                f"{_shown(used)} GiB used on a GPU of {_shown(gpu_gib)} GiB{part}: "
                f"{_shown(100 * used / gpu_gib)} %, allowed are {_shown(100 * limits.mem_threshold)} %",
            )
        kind_sets = dict.fromkeys(tuple(sorted(m.kind for m in t)) for t in subsets)
        worst = max(kind_sets, key=lambda t: (self._needed_threshold(t), -len(t)))
        least = self._needed_threshold(worst)
        rise = least - ar.of(limits.u_threshold)
        if rise > eps:
            what = "load" if limits.rule is AdmissionRule.RESULTING else "load before the last joins"
            yield _Finding(
                "utilisation",
                _real(rise),
                f"{what} of {'+'.join(worst)} is {_shown(least)}; "
                f"U_threshold is {_shown(limits.u_threshold)}",
            )

    def _needed_threshold(self, kinds: Kinds) -> Num:
        """Return the least U_threshold under which one set passes by itself."""
        if self.limits.rule is AdmissionRule.RESULTING:
            return self.load(kinds)
        return min(self.load(kinds[:i] + kinds[i + 1 :]) for i in range(len(kinds)))

    # Reference costs.

    def reference(self) -> tuple[Watts, Num, Num] | None:
        """Return E0 [J], T0 [s], J0 [s] of each job alone; ``None`` where a job has no node type."""
        ar = self.ar
        energies: list[Watts] = []
        taus: list[Num] = []
        durations: list[Num] = []
        known: dict[tuple[str, int, bool], tuple[Num, Watts] | None] = {}
        for job, data in zip(self.instance.jobs, self.jobs, strict=True):
            key = (job.profile, job.gpus, data.member.split_gib is None)
            if key not in known:
                known[key] = self._reference_of(data)
            best = known[key]
            if best is None:
                return None
            tau, watts = best
            taus.append(tau)
            durations.append(tau * data.epochs)
            energies.append(ar.scale(tau * data.epochs) * watts)
        count = max(1, len(taus))
        total = sum(energies, ar.watts(0.0)) * ar.watts(self.instance.cluster.pue)
        return total, ar.total(taus) / count, ar.total(durations) / count

    def _reference_of(self, job: _JobData) -> tuple[Num, Watts] | None:
        """Return epoch time and power of one job alone on its fastest type that holds it."""
        best: tuple[Num, Watts] | None = None
        alone = (job.member.kind,)
        for type_index, node_type in enumerate(self.types):
            tau = job.tau_by_type[type_index]
            if tau is None:
                continue
            if self.memory_gib([job.member]) / self.ar.of(node_type.gpu_memory_gib) > 1 + self.eps:
                continue
            watts = self.ar.watts(0.0)
            whole, rest = divmod(job.gpus, node_type.gpus)
            for held, times in ((node_type.gpus, whole), (rest, 1)):
                if held and times:
                    parts = self.node_w(type_index, [alone] * held, job.cpu * held / node_type.gpus)
                    watts += times * sum(parts, self.ar.watts(0.0))
            if best is None or (tau, watts) < best:
                best = (tau, watts)
        return best


def exact_tables(instance: Instance) -> SetTables:
    """Return what sets of jobs mean, in rationals and 50-digit decimals; for other independent checks."""
    return SetTables(instance, _Exact())


# --- The check --------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Run:
    """Uninterrupted time of a job on one GPU set.

    ``from_s`` is later than ``start_s`` where an earlier run of the same job reaches into this one.
    """

    job: int
    start_s: float
    end_s: float
    gpus: tuple[Gpu, ...]
    from_s: float


@dataclass(slots=True)
class _Piece:
    """Time of a job at one pace: seconds per epoch, ``None`` when it makes no progress."""

    start: Num
    end: Num
    pace: Num | None


class _Checker:
    """One check of one schedule."""

    def __init__(self, instance: Instance, schedule: Schedule, grid_s: float | None, ar: _Arithmetic) -> None:
        self.instance = instance
        self.schedule = schedule
        self.grid_s = grid_s
        self.ar = ar
        self.tables = SetTables(instance, ar)
        self.jobs = self.tables.jobs
        self.eps = ar.of(1e-9)
        self.micro_s = ar.of(1e-6)
        self.origin_s = min((j.release_s for j in instance.jobs), default=0.0)
        self.origin = ar.of(self.origin_s)
        type_index = {t.name: i for i, t in enumerate(instance.cluster.node_types)}
        self.node_type = [type_index[n.node_type] for n in instance.cluster.nodes]
        self.gpus_of_node = [instance.cluster.node_types[t].gpus for t in self.node_type]
        self.violations: list[Violation] = []
        self.runs: list[list[_Run]] = [[] for _ in self.jobs]

    def tolerance(self, time: Num) -> Num:
        """Return the tolerance of times [s] around a time."""
        since = time - self.origin
        return self.micro_s + self.eps * since if since > 0 else self.micro_s

    def add(self, kind: str, job: str, place: str, time: Num, amount: Num, text: str) -> None:
        """Note a violation."""
        self.violations.append(
            Violation(kind=kind, job=job, place=place, time_s=_real(time), amount=_real(amount), text=text)
        )

    def gpu_name(self, gpu: Gpu) -> str:
        """Return ``node/gpu``, with the node's position where the cluster has no such node."""
        node, k = gpu
        nodes = self.instance.cluster.nodes
        return f"{nodes[node].name if node < len(nodes) else f'#{node}'}/{k}"

    def place(self, gpus: Iterable[Gpu]) -> str:
        """Return the place of a violation: the GPU, the node or the nodes."""
        listed = sorted(gpus)
        if len(listed) == 1:
            return self.gpu_name(listed[0])
        nodes = self.instance.cluster.nodes
        return "+".join(dict.fromkeys(nodes[n].name if n < len(nodes) else f"#{n}" for n, _ in listed))

    def report(self) -> CheckReport:
        """Run all parts and put the report together."""
        self._read_segments()
        sweep = _Sweep(self)
        sweep.run()
        self._check_sharing()
        progress = [
            self._check_progress(j, sweep.pieces[j], sweep.run_ends[j]) for j in range(len(self.jobs))
        ]
        energy = self._check_nodes(sweep)
        self.violations.sort(key=lambda x: (x.time_s, x.kind, x.job, x.place))
        by_class = dict.fromkeys(ViolationClass, 0)
        for violation in self.violations:
            by_class[violation.violation_class] += 1

        ar, count = self.ar, max(1, len(self.jobs))
        running = [ar.total(ar.of(r.end_s) - ar.of(r.from_s) for r in runs) for runs in self.runs]
        avg_tpe = ar.total(t / j.epochs for t, j in zip(running, self.jobs, strict=True)) / count
        jtts = [self._end(runs) - j.release for runs, j in zip(self.runs, self.jobs, strict=True) if runs]
        mean_jtt = ar.total(jtts) / count
        reference = self.tables.reference()
        total = sum(energy, ar.watts(0.0))
        objective = self._objective(total, avg_tpe, mean_jtt, reference)
        return CheckReport(
            violations=tuple(self.violations),
            feasible=not self.violations,
            physical_violations=by_class[ViolationClass.PHYSICAL],
            deadline_misses=by_class[ViolationClass.DEADLINE],
            threshold_violations=by_class[ViolationClass.THRESHOLD],
            energy=EnergySplit(
                server_j=_real(energy[0]),
                gpu_standing_j=_real(energy[1]),
                gpu_dynamic_j=_real(energy[2]),
                sleep_j=_real(energy[3]),
                wake_j=_real(energy[4]),
            ),
            energy_j=_real(total),
            avg_tpe_s=_real(avg_tpe),
            mean_jtt_s=_real(mean_jtt),
            makespan_s=_real(max([self.origin, *(self._end(r) for r in self.runs if r)]) - self.origin),
            objective=objective,
            reference_energy_j=None if reference is None else _real(reference[0]),
            reference_tpe_s=None if reference is None else _real(reference[1]),
            reference_jtt_s=None if reference is None else _real(reference[2]),
            progress=tuple(
                (job.name, min(_real(job.epochs), _real(epochs)))
                for job, epochs in zip(self.jobs, progress, strict=True)
            ),
            mode=ar.name,
            grid_s=self.grid_s,
        )

    def _end(self, runs: Sequence[_Run]) -> Num:
        return self.ar.of(max(r.end_s for r in runs))

    def _objective(
        self, energy_j: Watts, avg_tpe: Num, mean_jtt: Num, reference: tuple[Watts, Num, Num] | None
    ) -> float | None:
        """Return the objective of docs/model.md section 3."""
        ar, objective = self.ar, self.instance.objective
        if not self.jobs:
            return 0.0
        alpha, weight = ar.watts(objective.alpha), ar.watts(objective.jtt_weight)
        tpe, jtt = ar.scale(avg_tpe), ar.scale(mean_jtt)
        if objective.form is ObjectiveForm.RAW:
            return _real(alpha * energy_j / 3_600_000 + (1 - alpha) * tpe / 3600 + weight * jtt / 3600)
        if reference is None:
            return None
        e0, t0, j0 = reference[0], ar.scale(reference[1]), ar.scale(reference[2])
        value = (1 - alpha) * tpe / t0 + weight * jtt / j0
        if alpha > 0 and energy_j > 0:
            if e0 == 0:
                return None
            value += alpha * energy_j / e0
        return _real(value)

    # Rules that concern one job by itself.

    def _read_segments(self) -> None:
        """Check segments one by one and join those that touch into runs."""
        index = {job.name: i for i, job in enumerate(self.jobs)}
        strangers: dict[str, list[float]] = {}
        by_job: list[list[_Run]] = [[] for _ in self.jobs]
        for segment in self.schedule.segments:  # sorted by start
            j = index.get(segment.job)
            if j is None:
                strangers.setdefault(segment.job, []).append(segment.start_s)
                continue
            start_s, end_s = self._on_grid(segment.start_s), self._on_grid(segment.end_s)
            by_job[j].append(_Run(j, start_s, end_s, segment.gpus, start_s))
        for name, starts in strangers.items():
            self.add(
                "unknown-job",
                name,
                "",
                starts[0],
                len(starts),
                f"job {name!r} is not in instance {self.instance.name!r}; it has {len(starts)} segment(s)",
            )
        for j, segments in enumerate(by_job):
            if segments:
                self._read_job(j, segments)
            else:
                job = self.jobs[j]
                self.add(
                    "missing-job",
                    job.name,
                    "",
                    job.release,
                    job.epochs,
                    f"job {job.name!r} has no segment; {job.epochs} epoch(s) are to be run",
                )

    def _on_grid(self, time_s: float) -> float:
        """Return the slot boundary that a time agrees with, if there is one."""
        if self.grid_s is None:
            return time_s
        time, slot = self.ar.of(time_s), self.ar.of(self.grid_s)
        boundary = self.origin + round((time - self.origin) / slot) * slot
        return _real(boundary) if abs(time - boundary) <= self.tolerance(time) else time_s

    def _read_job(self, j: int, segments: list[_Run]) -> None:
        ar, job = self.ar, self.jobs[j]
        joined: list[_Run] = []
        reached_s = -math.inf
        for run in segments:
            start = ar.of(run.start_s)
            tolerance = self.tolerance(start)
            last = joined[-1] if joined else None
            if last is not None and last.gpus == run.gpus and abs(start - ar.of(last.end_s)) <= tolerance:
                last.end_s = max(last.end_s, run.end_s)
            else:
                if last is not None:
                    overlap = min(ar.of(reached_s), ar.of(run.end_s)) - start
                    if overlap > self.tolerance(min(ar.of(reached_s), ar.of(run.end_s))):
                        self.add(
                            "overlap",
                            job.name,
                            self.place(run.gpus),
                            start,
                            overlap,
                            f"job {job.name!r}: the segment from {run.start_s!r} s and an earlier one of "
                            f"the same job overlap for {_shown(overlap)} s",
                        )
                    run.from_s = max(run.start_s, reached_s)
                joined.append(run)
            reached_s = max(reached_s, run.end_s)
        for run in joined:
            self._check_gpus(job, run)
        self._check_times(job, joined)
        self.runs[j] = joined

    def _check_gpus(self, job: _JobData, run: _Run) -> None:
        """Check the GPU set of a run, and drop GPUs that do not exist from it."""
        named, start = run.gpus, run.start_s
        if len(named) != job.gpus:
            self.add(
                "gpu-count",
                job.name,
                self.place(named),
                start,
                abs(len(named) - job.gpus),
                f"job {job.name!r} asks for {job.gpus} GPU(s) and holds {len(named)} from {start!r} s",
            )
        known = tuple(g for g in named if g[0] < len(self.node_type) and g[1] < self.gpus_of_node[g[0]])
        if len(known) != len(named):
            absent = [g for g in named if g not in set(known)]
            self.add(
                "unknown-gpu",
                job.name,
                self.place(absent),
                start,
                len(absent),
                f"job {job.name!r} holds GPU(s) that the cluster does not have: "
                + ", ".join(self.gpu_name(g) for g in absent[:10])
                + (", ..." if len(absent) > 10 else ""),
            )
            run.gpus = known
        held: dict[int, int] = defaultdict(int)
        for node, _ in known:
            held[node] += 1
        types = {self.node_type[n] for n in held}
        if len(known) == len(named):
            fault = self._gang_fault(held, types, len(known))
            if fault:
                self.add(
                    "gang",
                    job.name,
                    self.place(known),
                    start,
                    len(held),
                    f"job {job.name!r} holds {len(known)} GPU(s) on {len(held)} node(s) from {start!r} s: "
                    + fault,
                )
        for t in sorted(types):
            if job.tau_by_type[t] is None:
                here = [g for g in known if self.node_type[g[0]] == t]
                self.add(
                    "gpu-type",
                    job.name,
                    self.place(here),
                    start,
                    len(here),
                    f"job {job.name!r} has no epoch time for {job.gpus} GPU(s) of type "
                    f"{self.tables.types[t].gpu_type!r} and holds {len(here)} of them",
                )

    def _gang_fault(self, held: dict[int, int], types: set[int], count: int) -> str:
        """Return what is wrong with a layout, or nothing."""
        if len(types) > 1:
            names = ", ".join(sorted(self.tables.types[t].name for t in types))
            return f"they are of several node types ({names}), and one is allowed"
        per_node = self.tables.types[next(iter(types))].gpus
        whole, rest = divmod(count, per_node)
        wanted = [per_node] * whole + ([rest] if rest else [])
        if sorted(held.values(), reverse=True) == wanted:
            return ""
        if count <= per_node:
            return "they must lie on one node"
        more = f" and {rest} GPU(s) of one more" if rest else ""
        return f"they must be all GPUs of {whole} node(s){more}"

    def _check_times(self, job: _JobData, runs: Sequence[_Run]) -> None:
        """Check release, deadline, slot boundaries and the number of runs of a static schedule."""
        ar = self.ar
        for run in runs:
            start = ar.of(run.start_s)
            if start < job.release - self.tolerance(job.release):
                self.add(
                    "release",
                    job.name,
                    self.place(run.gpus or ()),
                    start,
                    job.release - start,
                    f"job {job.name!r} runs from {run.start_s!r} s, {_shown(job.release - start)} s before "
                    "its release",
                )
        end = self._end(runs)
        if job.deadline is not None and end > job.deadline + self.tolerance(job.deadline):
            self.add(
                "deadline",
                job.name,
                "",
                job.deadline,
                end - job.deadline,
                f"job {job.name!r} ends at {_real(end)!r} s, {_shown(end - job.deadline)} s after "
                "its deadline",
            )
        if self.schedule.schedule_class is ScheduleClass.STATIC and len(runs) > 1:
            self.add(
                "class",
                job.name,
                self.place(runs[1].gpus or ()),
                runs[1].start_s,
                len(runs) - 1,
                f"job {job.name!r} stops or moves {len(runs) - 1} time(s); a static schedule runs each job "
                "in one piece",
            )
        if self.grid_s is not None:
            for time_s in (t for run in runs for t in (run.start_s, run.end_s)):
                time = ar.of(time_s)
                off = abs(
                    time - self.origin - round((time - self.origin) / ar.of(self.grid_s)) * ar.of(self.grid_s)
                )
                if off > self.tolerance(time):
                    self.add(
                        "slot",
                        job.name,
                        "",
                        time,
                        off,
                        f"job {job.name!r} starts or ends at {time_s!r} s, {_shown(off)} s off the "
                        f"boundaries of slots of {self.grid_s!r} s",
                    )

    # Rules on sets that share a GPU.

    def _check_sharing(self) -> None:
        """Check what each GPU hosts, every run shortened by the tolerance."""
        events: list[list[tuple[Num, int, _Run, Num]]] = [[] for _ in self.node_type]
        for run in (r for runs in self.runs for r in runs):
            start, end = self.ar.of(run.start_s), self.ar.of(run.end_s)
            shortened = end - self.tolerance(end)
            if shortened <= start:
                continue
            for node in {g[0] for g in run.gpus}:
                events[node].append((start, 1, run, start))
                events[node].append((shortened, 0, run, end))
        for node, timeline in enumerate(events):
            timeline.sort(key=lambda e: (e[0], e[1]))
            self._check_node_sharing(node, timeline)

    def _check_node_sharing(self, node: int, timeline: list[tuple[Num, int, _Run, Num]]) -> None:
        """Follow what the GPUs of a node host; events are (time, 0 end or 1 start, run, time as stated)."""
        counts: list[dict[int, int]] = [{} for _ in range(self.gpus_of_node[node])]
        before: list[tuple[int, ...]] = [()] * len(counts)
        spells: dict[tuple[int, ...], tuple[Num, set[int], set[int]]] = {}
        i = 0
        while i < len(timeline):
            moment, now = timeline[i][0], timeline[i][3]
            touched: set[int] = set()
            while i < len(timeline) and timeline[i][0] == moment:
                _, starts, run, stated = timeline[i]
                now = max(now, stated)
                for n, k in run.gpus:
                    if n == node:
                        touched.add(k)
                        left = counts[k].get(run.job, 0) + (1 if starts else -1)
                        if left:
                            counts[k][run.job] = left
                        else:
                            del counts[k][run.job]
                i += 1
            changed: list[tuple[int, ...]] = []
            for k in touched:
                old, new = before[k], tuple(sorted(counts[k]))
                if old == new:
                    continue
                before[k] = new
                if old in spells:
                    spells[old][1].discard(k)
                    changed.append(old)
                if new and self._findings(node, new):
                    spell = spells.setdefault(new, (now, set(), set()))
                    spell[1].add(k)
                    spell[2].add(k)
            for jobs in changed:
                if jobs in spells and not spells[jobs][1]:
                    self._report_spell(node, jobs, spells.pop(jobs), now)

    def _findings(self, node: int, jobs: tuple[int, ...]) -> tuple[_Finding, ...]:
        members = [self.jobs[j].member for j in jobs]
        if len(members) > 1:
            members.sort(key=lambda m: (m.kind, m.split_gib is not None, m.split_gib or 0, m.exclusive))
        return self.tables.findings(self.node_type[node], tuple(members))

    def _report_spell(
        self, node: int, jobs: tuple[int, ...], spell: tuple[Num, set[int], set[int]], end: Num
    ) -> None:
        start, _, gpus = spell
        names = "+".join(self.jobs[j].name for j in jobs)
        node_name = self.instance.cluster.nodes[node].name
        where = f"{node_name}, GPU(s) {', '.join(str(k) for k in sorted(gpus))}"
        for finding in self._findings(node, jobs):
            self.add(
                finding.kind,
                names,
                self.place((node, k) for k in gpus),
                start,
                finding.amount,
                f"{where}, {_shown(end - start)} s from {_real(start)!r} s, job(s) {names}: {finding.text}",
            )

    # Progress, class and grid.

    def _check_progress(self, j: int, pieces: list[_Piece], run_ends: list[int]) -> Num:
        """Check completion, overrun and stops of one job; return its epochs, not capped."""
        job = self.jobs[j]
        if not self.runs[j]:
            return self.ar.of(0.0)
        fast, slow = self._bounds(pieces, run_ends)
        own = self._epochs(pieces, [p.pace for p in pieces])
        certain = own if fast is slow else self._epochs(pieces, slow)
        likely = own if fast is slow else self._epochs(pieces, fast)
        wanted = job.epochs * (1 - self.eps)
        end = self._end(self.runs[j])
        if likely < wanted and likely + self._rounding(pieces, run_ends) < wanted:
            self.add(
                "incomplete",
                job.name,
                "",
                end,
                job.epochs - likely,
                f"job {job.name!r} has run {_shown(likely)} of {job.epochs} epoch(s) when it ends "
                f"at {_real(end)!r} s",
            )
        elif certain >= (job.epochs if self.grid_s is None else wanted):
            self._check_overrun(job, pieces, slow, certain, end)
        if self.schedule.schedule_class is ScheduleClass.EPOCH:
            self._check_stops(j, pieces, run_ends, fast, slow)
        return own

    def _bounds(self, pieces: list[_Piece], run_ends: list[int]) -> tuple[list[Num | None], list[Num | None]]:
        """Return the fastest and slowest pace of every piece, which differ for short ones only."""
        own: list[Num | None] = [p.pace for p in pieces]
        fast, slow = own, own
        first = 0
        for last in run_ends:
            for i in range(first, last):
                window = self.tolerance(pieces[i].end)
                if pieces[i].end - pieces[i].start > window:
                    continue
                low = high = i
                while low > first and pieces[low - 1].end >= pieces[i].start - window:
                    low -= 1
                while high + 1 < last and pieces[high + 1].start <= pieces[i].end + window:
                    high += 1
                around = own[low : high + 1]
                if len(set(around)) > 1:
                    if fast is own:
                        fast, slow = list(own), list(own)
                    fast[i] = min(q for q in around if q is not None)
                    slow[i] = None if None in around else max(q for q in around if q is not None)
            first = last
        return fast, slow

    def _epochs(self, pieces: Sequence[_Piece], paces: Sequence[Num | None]) -> Num:
        """Return the epochs run, equal paces taken together."""
        by_pace: dict[Num, Num] = {}
        for piece, pace in zip(pieces, paces, strict=True):
            if pace is not None:
                lasts = piece.end - piece.start
                by_pace[pace] = by_pace[pace] + lasts if pace in by_pace else lasts
        return self.ar.total(lasts / pace for pace, lasts in by_pace.items())

    def _rounding(self, pieces: Sequence[_Piece], run_ends: Sequence[int]) -> Num:
        """Return the epochs that the last places of the times at which the pace changes may hide."""
        breaks = {0, *run_ends}
        hidden = 0.0
        speed_before = 0.0
        for i, piece in enumerate(pieces):
            speed = 0.0 if piece.pace is None else _real(1 / piece.pace)
            if i in breaks and i:
                hidden += math.ulp(_real(pieces[i - 1].end)) * speed_before
                speed_before = 0.0
            hidden += math.ulp(_real(piece.start)) * abs(speed - speed_before)
            speed_before = speed
        if pieces:
            hidden += math.ulp(_real(pieces[-1].end)) * speed_before
        return self.ar.of(_ROUNDING_ULPS * hidden if math.isfinite(hidden) else 0.0)

    def _check_overrun(
        self, job: _JobData, pieces: Sequence[_Piece], paces: Sequence[Num | None], epochs: Num, end: Num
    ) -> None:
        """Find when the job was complete, going back from its end, and how long it held GPUs after that.

        On a grid the slot counts in which progress reaches ``n_j * (1 - 1e-9)``; in continuous time, where a
        slow last stretch may take longer for ``1e-9 * n_j`` than the tolerance of times, ``n_j`` itself does.
        """
        surplus = epochs - (job.epochs if self.grid_s is None else job.epochs * (1 - self.eps))
        done = pieces[-1].end
        for piece, pace in zip(reversed(pieces), reversed(paces), strict=True):
            if pace is not None:
                lasts = piece.end - piece.start
                if lasts > surplus * pace:
                    done = piece.end - surplus * pace
                    break
                surplus -= lasts / pace
        allowed = done
        until = "was complete"
        if self.grid_s is not None:
            slot = self.ar.of(self.grid_s)
            allowed = self.origin + slot * math.ceil((done - self.origin) / slot)
            until = "ended the slot in which it was complete"
        late = [p for p in pieces if p.end > allowed]
        held = self.ar.total(p.end - max(p.start, allowed) for p in late)
        if held > self.tolerance(end):
            self.add(
                "overrun",
                job.name,
                "",
                allowed,
                held,
                f"job {job.name!r} {until} at {_real(allowed)!r} s and holds GPUs for {_shown(held)} s "
                "after that",
            )

    def _check_stops(
        self,
        j: int,
        pieces: Sequence[_Piece],
        run_ends: Sequence[int],
        fast: Sequence[Num | None],
        slow: Sequence[Num | None],
    ) -> None:
        """Check that a job stops only at whole epochs (all ends but its last)."""
        job = self.jobs[j]
        for stop in run_ends[:-1]:
            if not stop:
                continue
            high = self._epochs(pieces[:stop], fast[:stop])
            low = high if fast is slow else self._epochs(pieces[:stop], slow[:stop])
            last = pieces[stop - 1]
            # The time tolerance around the stop, in epochs.
            margin = self.ar.of(0.0) if last.pace is None else self.tolerance(last.end) / last.pace
            whole = max(1, math.floor((high + margin) * (1 + self.eps)))
            if low - margin <= whole * (1 + self.eps) and high + margin >= whole * (1 - self.eps):
                continue
            off = min(abs(high - whole), abs(high - whole - 1))
            self.add(
                "class",
                job.name,
                "",
                last.end,
                off,
                f"job {job.name!r} stops or moves after {_shown(high)} epochs; schedules of class epoch do "
                "so at whole epochs only",
            )

    # Nodes: wake-up, sleep, PUE.

    def _check_nodes(self, sweep: _Sweep) -> tuple[Watts, Watts, Watts, Watts, Watts]:
        """Check wake-ups; return energy of servers, GPUs standing and dynamic, sleep and wake-ups [J]."""
        ar = self.ar
        zero = ar.watts(0.0)
        server, standing, dynamic = sweep.server, sweep.standing, sweep.dynamic
        sleep = wake = zero
        last_end = max((self._end(r) for r in self.runs if r), default=self.origin)
        horizon = max(last_end - self.origin, ar.of(0.0))
        by_node: list[list[_Run]] = [[] for _ in self.node_type]
        for run in (r for runs in self.runs for r in runs):
            for node in {g[0] for g in run.gpus}:
                by_node[node].append(run)
        idle_by_type: dict[int, Num] = defaultdict(lambda: ar.of(0.0))
        for node, runs in enumerate(by_node):
            t = self.node_type[node]
            node_type = self.tables.types[t]
            wake_s = ar.of(node_type.wake_s)
            empty = self.tables.empty_w(t)
            active = ar.of(0.0)
            previous_end = self.origin
            for start, end, first_jobs, gaps in self._busy_periods(runs):
                server += empty[0] * ar.scale(gaps)
                standing += empty[1] * ar.scale(gaps)
                warming = max(start - max(start - wake_s, previous_end, self.origin), ar.of(0.0))
                wake += ar.watts(node_type.wake_energy_j) + (empty[0] + empty[1]) * ar.scale(warming)
                active += warming + max(end - max(start, self.origin), ar.of(0.0))
                previous_end = end
                if wake_s > 0:
                    self._check_wake_up(node, start, wake_s, first_jobs)
            idle_by_type[t] += max(horizon - active, ar.of(0.0))
        for t, idle in idle_by_type.items():
            sleep += ar.watts(self.tables.types[t].sleep_w) * ar.scale(idle)
        pue = ar.watts(self.instance.cluster.pue)
        return server * pue, standing * pue, dynamic * pue, sleep * pue, wake * pue

    def _busy_periods(self, runs: list[_Run]) -> Iterator[tuple[Num, Num, list[_Run], Num]]:
        """Yield start, end, runs that start it and time without any run, of each maximal busy period.

        Pauses within the tolerance of times do not end a period.
        """
        ar = self.ar
        runs.sort(key=lambda r: r.start_s)
        i = 0
        while i < len(runs):
            start, end = ar.of(runs[i].start_s), ar.of(runs[i].end_s)
            firsts: list[_Run] = []
            gaps = ar.of(0.0)
            while i < len(runs):
                begin = ar.of(runs[i].start_s)
                if begin > end + self.tolerance(end):
                    break
                gaps += max(begin - end, ar.of(0.0))
                if begin <= start + self.tolerance(start):
                    firsts.append(runs[i])
                end = max(end, ar.of(runs[i].end_s))
                i += 1
            yield start, end, firsts, gaps

    def _check_wake_up(self, node: int, start: Num, wake_s: Num, first: Sequence[_Run]) -> None:
        """Check that a job starting with the busy period was known long enough to wake the node."""
        short = min(self.jobs[r.job].release + wake_s - start for r in first)
        if short > self.tolerance(start):
            names = "+".join(dict.fromkeys(self.jobs[r.job].name for r in first))
            node_name = self.instance.cluster.nodes[node].name
            self.add(
                "wake-up",
                names,
                node_name,
                start,
                short,
                f"node {node_name!r} takes {_shown(wake_s)} s to wake and is busy from {_real(start)!r} s, "
                f"{_shown(short)} s too early for the release of {names}",
            )


# --- The sweep --------------------------------------------------------------------------------------------


class _Node:
    """State of a node in the sweep."""

    __slots__ = ("busy", "held", "hosted", "jobs", "since", "watts")

    def __init__(self, gpus: int) -> None:
        self.jobs: list[set[int]] = [set() for _ in range(gpus)]
        self.hosted: list[Kinds] = [()] * gpus
        self.held: dict[int, int] = {}
        self.busy = 0
        self.since: Num = None
        self.watts: tuple[Watts, Watts, Watts] | None = None


class _Sweep:
    """Speeds of jobs and energy of active nodes, from all starts and ends in order of time.

    Attributes
    ----------
    pieces
        For every job, its pieces of time at one pace, in order of time.
    run_ends
        For every job, the number of pieces up to the end of each of its runs.
    server, standing, dynamic
        Energy of active nodes [J], without PUE, from the earliest release on.
    """

    def __init__(self, checker: _Checker) -> None:
        self.c = checker
        self.ar = checker.ar
        self.tables = checker.tables
        self.pieces: list[list[_Piece]] = [[] for _ in checker.jobs]
        self.run_ends: list[list[int]] = [[] for _ in checker.jobs]
        self.server: Watts = self.ar.watts(0.0)
        self.standing: Watts = self.ar.watts(0.0)
        self.dynamic: Watts = self.ar.watts(0.0)
        self._nodes = [_Node(g) for g in checker.gpus_of_node]
        self._current: list[_Run | None] = [None] * len(checker.jobs)
        self._since: list[Num] = [None] * len(checker.jobs)
        self._pace: list[Num | None] = [None] * len(checker.jobs)

    def run(self) -> None:
        """Sweep over all runs."""
        starts: dict[float, list[_Run]] = defaultdict(list)
        ends: dict[float, list[_Run]] = defaultdict(list)
        for run in (r for runs in self.c.runs for r in runs):
            if run.end_s > run.from_s:
                starts[run.from_s].append(run)
                ends[run.end_s].append(run)
            else:  # wholly inside an earlier run of the same job
                run.from_s = run.end_s
        for time_s in sorted(starts.keys() | ends.keys()):
            self._step(self.ar.of(time_s), ends.get(time_s, ()), starts.get(time_s, ()))

    def _step(self, now: Num, ending: Sequence[_Run], starting: Sequence[_Run]) -> None:
        touched: dict[int, set[int]] = {}
        for run in ending:
            self._close(run.job, now)
            self._current[run.job] = None
            self.run_ends[run.job].append(len(self.pieces[run.job]))
            self._move(run, now, touched, leave=True)
        for run in starting:
            self._current[run.job] = run
            self._since[run.job] = now
            self._pace[run.job] = None
            self._move(run, now, touched, leave=False)
        affected: set[int] = {run.job for run in starting}
        for n, gpus in touched.items():
            node = self._nodes[n]
            for k in gpus:
                affected |= node.jobs[k]
                node.busy -= bool(node.hosted[k])
                node.hosted[k] = tuple(sorted(self.c.jobs[j].member.kind for j in node.jobs[k]))
                node.busy += bool(node.hosted[k])
            node.watts = self._node_w(n, node)
        for j in affected:
            pace = self._pace_of(j)
            if pace != self._pace[j]:
                self._close(j, now)
                self._pace[j] = pace

    def _move(self, run: _Run, now: Num, touched: dict[int, set[int]], *, leave: bool) -> None:
        j = run.job
        for n, k in run.gpus:
            node = self._nodes[n]
            if n not in touched:
                touched[n] = set()
                self._integrate(node, now)
            touched[n].add(k)
            if leave:
                node.jobs[k].discard(j)
                node.held[j] -= 1
                if not node.held[j]:
                    del node.held[j]
            else:
                node.jobs[k].add(j)
                node.held[j] = node.held.get(j, 0) + 1

    def _integrate(self, node: _Node, now: Num) -> None:
        """Add the energy of a node since it last changed, as far as it lies after the earliest release."""
        if node.watts is not None:
            lasts = now - max(node.since, self.c.origin)
            if lasts > 0:
                seconds = self.ar.scale(lasts)
                self.server += node.watts[0] * seconds
                self.standing += node.watts[1] * seconds
                self.dynamic += node.watts[2] * seconds
        node.since = now

    def _node_w(self, n: int, node: _Node) -> tuple[Watts, Watts, Watts] | None:
        if not node.busy:
            return None
        t = self.c.node_type[n]
        asked = self.ar.total(self.c.jobs[j].cpu * held for j, held in node.held.items())
        return self.tables.node_w(t, [h for h in node.hosted if h], asked / self.c.gpus_of_node[n])

    def _pace_of(self, j: int) -> Num | None:
        """Return the seconds that a job takes for an epoch now, on its slowest GPU."""
        run = self._current[j]
        if run is None or not run.gpus:
            return None
        job = self.c.jobs[j]
        slowest = None
        for t, kinds in {(self.c.node_type[n], self._nodes[n].hosted[k]) for n, k in run.gpus}:
            tau, sigma = job.tau_by_type[t], self.tables.sigma(kinds)
            if tau is None or sigma is None:
                return None
            pace = tau * sigma[job.member.kind]
            if slowest is None or pace > slowest:
                slowest = pace
        return slowest

    def _close(self, j: int, now: Num) -> None:
        """End the current piece of a job."""
        if now > self._since[j]:
            self.pieces[j].append(_Piece(self._since[j], now, self._pace[j]))
        self._since[j] = now
