"""Run an online policy on an instance: events in, starts and stops out.

The simulator knows the truth; the policy sees the jobs that have arrived, what runs
where, progress, and its own history of slowdowns (docs/model.md section 7). Between
events it does nothing: at every arrival, departure, milestone or timer the policy is
asked once and answers with actions, each carried out before it is asked for the next.

A policy is any object with the attributes and the two methods of :class:`Policy`::

    class ShortestFirst:
        '''Exclusive GPUs, the shortest job first.'''

        name = "shortest-first"
        schedule_class = "static"

        def begin(self, world, rng):
            self.waiting = []

        def decide(self, world, events):
            self.waiting += [e.job for e in events if e.kind == "arrival"]
            self.waiting.sort(key=lambda j: world.instance.jobs[j].epochs)
            while self.waiting and (gpus := world.best_fit(self.waiting[0])):
                yield Start(self.waiting.pop(0), gpus)
"""

from __future__ import annotations

import math
import numbers
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from heapq import heappop, heappush
from itertools import groupby, pairwise
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from . import _validate as v
from .arrays import ArrayView, time_tolerance_s
from .errors import DomainError, EacoError, ImpossibleJobsError
from .evaluation import Evaluation
from .history import History
from .impossible import impossible_jobs
from .instance import Instance
from .interference import Interference
from .limits import AdmissionRule
from .physics import evaluate, kernel, make_sets, make_state, make_view
from .schedule import Schedule, ScheduleClass, Segment
from .sets import LIMIT_TOLERANCE


class PolicyError(EacoError):
    """A policy asked for something that cannot be done, or left jobs waiting for ever."""


class EventKind(StrEnum):
    """Why a policy is asked."""

    ARRIVAL = "arrival"
    DEPARTURE = "departure"
    MILESTONE = "milestone"
    TIMER = "timer"


class Event(NamedTuple):
    """Something that happened at the present time; ``job`` is its position, -1 for timers."""

    kind: EventKind
    job: int


class Start(NamedTuple):
    """Start (or resume) a job on GPUs given by their global numbers, in ascending order."""

    job: int
    gpus: Sequence[int]


class Stop(NamedTuple):
    """Take a running job off its GPUs; it keeps its progress and may be started again.

    A job that still waits for a node to wake up cannot be stopped.
    """

    job: int


class Watch(NamedTuple):
    """Ask for a milestone event when a running job's progress reaches ``epochs``."""

    job: int
    epochs: float


class Timer(NamedTuple):
    """Ask for a timer event at ``time_s`` (seconds since the earliest release)."""

    time_s: float


class Reject(NamedTuple):
    """Refuse a waiting job that has never run; the outcome is that of the instance without it."""

    job: int


Action = Start | Stop | Watch | Timer | Reject


class Policy(Protocol):
    """What the simulator needs of a policy.

    Attributes
    ----------
    name
        Shown in tables.
    schedule_class
        ``static``, ``epoch`` or ``fluid``: what the policy may do to running jobs.
    """

    name: str
    schedule_class: str

    def begin(self, world: World, rng: np.random.Generator) -> None:
        """Prepare for a run; called once, before the first event."""
        ...

    def decide(self, world: World, events: Sequence[Event]) -> Iterable[Action]:
        """Answer with actions; may be a generator, which sees each action's effect."""
        ...


@dataclass(frozen=True, slots=True)
class Progress:
    """What progress hooks are told: jobs done and in all, simulated time [s], events so far."""

    done: int
    jobs: int
    time_s: float
    events: int


class World:
    """The present state as a policy sees it.

    Jobs are positions in ``instance.jobs``, GPUs global numbers, times seconds since
    the earliest release.

    Attributes
    ----------
    instance, arrays
        The problem and its array view.
    history
        The policy's beliefs on slowdowns.
    now_s
        Present time.
    static
        Whether the run is in static form: no undo, no re-pairing (docs/model.md section 5).
    free
        Free GPUs by node.
    waiting
        Jobs that have arrived and do not run, in order of arrival.
    """

    def __init__(self, instance: Instance, history: Interference, grid_s: float | None, static: bool) -> None:
        self.instance = instance
        self.arrays: ArrayView = instance.arrays()
        self.history = History(history, self.arrays)
        self.now_s = 0.0
        self.static = static
        self.slot_s = grid_s or 0.0
        self.view = make_view(self.arrays)
        self.state = make_state(self.arrays)
        self._sets = make_sets(self.arrays)
        self._sets_known = len(self.arrays.sets)
        a = self.arrays
        self.node_gpus: list[int] = np.diff(a.first_gpu).tolist()
        self.first_gpu: list[int] = a.first_gpu.tolist()
        self.gpu_node: list[int] = a.gpu_node.tolist()
        self.node_types: list[int] = a.node_type.tolist()
        self.free: list[int] = list(self.node_gpus)
        self.jobs_on: list[int] = [0] * len(self.node_gpus)
        self.ready_s: list[float] = [0.0] * len(self.node_gpus)
        self.emptied_s: list[float] = [-1.0] * len(self.node_gpus)
        self.gpus_of: dict[int, tuple[int, ...]] = {}
        self.waiting: dict[int, None] = {}
        self.demand = 0
        self._wake: list[float] = [float(a.type_values[t, 7]) for t in self.node_types]
        self._wakes = any(wake > 0.0 for wake in self._wake)
        self._count: list[int] = [0] * len(self.gpu_node)
        self._gpus: list[int] = a.gpus.tolist()
        self._offset: list[int] = a.gpu_offset.tolist()
        self._order: list[int] | None = None
        self._k = kernel()
        self._epochs: list[float] = a.epochs.tolist()
        finite = np.isfinite(a.tau_s)
        self._types_ok: NDArray[np.bool_] = finite
        self._requests: list[tuple[int, int, tuple[bool, ...]] | None] = [None] * len(a.epochs)
        self._uniform = bool(finite.all()) and len(a.type_values) == 1

    # What is where -----------------------------------------------------------------

    @property
    def sets(self) -> Any:
        """The table of sets for compiled code, with all sets interned by now."""
        if self._sets_known != len(self.arrays.sets):
            self._sets = make_sets(self.arrays)
            self._sets_known = len(self.arrays.sets)
            self.history.sync()
        return self._sets

    def request(self, job: int) -> tuple[int, int, tuple[bool, ...]]:
        """Return what decides where a job fits: class, GPUs, and the node types it may use."""
        found = self._requests[job]
        if found is None:
            a = self.arrays
            found = (int(a.job_class[job]), self._gpus[job], tuple(self._types_ok[job].tolist()))
            self._requests[job] = found
        return found

    @property
    def queue_order(self) -> list[int]:
        """Rank of each job in a queue: priority (larger first), then arrival, then submit index."""
        if self._order is None:
            a = self.arrays
            ranked = np.lexsort((np.arange(len(a.epochs)), a.release_s, -a.priority))
            ranks = np.empty(len(ranked), dtype=np.int64)
            ranks[ranked] = np.arange(len(ranked))
            self._order = ranks.tolist()
        return self._order

    def residents(self, gpu: int) -> tuple[int, ...]:
        """Return the jobs on a GPU, in order of joining."""
        n = int(self.arrays.sets.count[self.state.gpu_set[gpu]])
        return tuple(self.state.resident[gpu, :n].tolist())

    def progress_epochs(self, job: int) -> float:
        """Return the epochs a job has done by now."""
        state = self.state
        done = float(state.progress[job])
        if state.running[job] and self.now_s > state.since[job]:
            done += float(state.speed[job]) * (self.now_s - float(state.since[job]))
        return min(done, self._epochs[job])

    def slowdown(self, job: int) -> float:
        """Return the slowdown a running job shows now: its epoch time over the exclusive one."""
        node = self.gpu_node[self.gpus_of[job][0]]
        return 1.0 / (float(self.state.speed[job]) * float(self.arrays.tau_s[job, self.node_types[node]]))

    def may_use(self, job: int, node: int) -> bool:
        """Tell whether a job has an epoch time on the node's type and its memory fits there alone."""
        t = self.node_types[node]
        if not self._types_ok[job, t]:
            return False
        sets = self.arrays.sets
        s = sets.intern((int(self.arrays.job_class[job]),))
        return not sets.physical[s, t]

    def child(self, gpu: int, job: int) -> int:
        """Return the number of the set a GPU would host with one job more."""
        return self.arrays.sets.add(int(self.state.gpu_set[gpu]), int(self.arrays.job_class[job]))

    def can_join(self, job: int, gpus: Sequence[int], obey_u: bool) -> bool:
        """Tell whether a job may join what its GPUs host: memory, K, exclusiveness, sharing.

        With ``obey_u`` also U_threshold, by the admission rule in the order of joining
        (docs/model.md section 1).
        """
        sets, limits = self.arrays.sets, self.instance.limits
        before = -1
        for gpu in gpus:
            s = int(self.state.gpu_set[gpu])
            if s == before:
                continue
            before = s
            bigger = self.child(gpu, job)
            if sets.physical[bigger, self.node_types[self.gpu_node[gpu]]]:
                return False
            if obey_u and sets.threshold[bigger]:
                return False
            existing = limits.rule is AdmissionRule.EXISTING
            if obey_u and existing and sets.load[s] > limits.u_threshold + LIMIT_TOLERANCE:
                return False
        return True

    def best_fit(self, job: int) -> tuple[int, ...]:
        """Return free GPUs for a job: the fullest node that has room, lowest GPUs; empty if none.

        A job of more GPUs than a node has takes whole free nodes of one type (the lowest)
        and the rest on the fullest other node of the type.
        """
        g = self._gpus[job]
        best, least = -1, 1 << 60
        split = False
        free, sizes = self.free, self.node_gpus
        if self._uniform:
            size = sizes[0]
            if g <= size:
                for node, room in enumerate(free):
                    if g <= room < least:
                        best, least = node, room
                        if room == g:
                            break
                return self._lowest_free(best, g) if best >= 0 and self.may_use(job, best) else ()
            split = True
        else:
            for node, room in enumerate(free):
                if g <= room < least and self.may_use(job, node):
                    best, least = node, room
                split = split or g > sizes[node]
            if best >= 0:
                return self._lowest_free(best, g)
        return self._spread(job, g) if split else ()

    def _spread(self, job: int, g: int) -> tuple[int, ...]:
        for t in range(len(self.arrays.type_values)):
            nodes = [n for n in range(len(self.free)) if self.node_types[n] == t]
            if not nodes or not self.may_use(job, nodes[0]):
                continue
            size = self.node_gpus[nodes[0]]
            if g <= size:
                continue
            whole, rest = divmod(g, size)
            chosen = [n for n in nodes if self.free[n] == size][:whole]
            if len(chosen) < whole:
                continue
            gpus = [k for n in chosen for k in range(self.first_gpu[n], self.first_gpu[n + 1])]
            if rest:
                taken = set(chosen)
                left = [(self.free[n], n) for n in nodes if n not in taken and self.free[n] >= rest]
                if not left:
                    continue
                gpus += self._lowest_free(min(left)[1], rest)
            return tuple(sorted(gpus))
        return ()

    def _lowest_free(self, node: int, g: int) -> tuple[int, ...]:
        out: list[int] = []
        for gpu in range(self.first_gpu[node], self.first_gpu[node + 1]):
            if not self._count[gpu]:
                out.append(gpu)
                if len(out) == g:
                    break
        return tuple(out)

    # Changes, made by the simulator --------------------------------------------------

    def begin_s(self, nodes: Iterable[int]) -> float:
        """Return when a job placed now on these nodes could run: at once, or when they are awake."""
        begin = self.now_s
        for node in nodes:
            begin = max(begin, self._awake_s(node))
        return self._boundary_s(begin) if begin > self.now_s else begin

    def start_s(self, job: int, gpus: Sequence[int]) -> float:
        """Return when a job placed now on these GPUs would run; infinity where it cannot be placed.

        It cannot where it would share GPUs with a running job while it waits for a node to wake up.
        """
        begin = self.now_s
        if not self._wakes:
            return begin
        residents = dict.fromkeys(r for g in gpus for r in self.residents(g))
        began = [float(self.state.began[r]) for r in residents]
        nodes = sorted({self.gpu_node[g] for g in gpus})
        begin = max([self.begin_s(nodes), *began])
        if begin <= self.now_s:
            return begin
        if len(nodes) > 1:
            # A node that is awake now may fall asleep meanwhile. Then some job that begins on it must have
            # left it the time to wake up: one that waits there already, or this one.
            waited = {self.gpu_node[g] for r in residents for g in self.gpus_of[r]}
            wake = [self._wake[n] for n in nodes if n not in waited and self._awake_s(n) <= self.now_s]
            if wake:
                begin = max(begin, self._boundary_s(float(self.arrays.release_s[job]) + max(wake)))
        return begin if all(b >= begin for b in began) else math.inf

    def _awake_s(self, node: int) -> float:
        """Return when a node is awake if a job is placed on it now."""
        wake = self._wake[node]
        if wake <= 0.0:
            return self.now_s
        if self.jobs_on[node] and self.ready_s[node] <= self.now_s:
            return self.now_s
        if 0.0 <= self.now_s - self.emptied_s[node] <= time_tolerance_s(self.now_s):
            return self.now_s
        return self.ready_s[node] if self.jobs_on[node] else self.now_s + wake

    def _boundary_s(self, t: float) -> float:
        """Return the first slot boundary at or after a time; the time itself in continuous time."""
        return boundary_s(t, self.slot_s) if self.slot_s else t

    def _start(self, job: int, gpus: tuple[int, ...]) -> float:
        nodes = sorted({self.gpu_node[g] for g in gpus})
        begin = self.start_s(job, gpus)
        if begin == math.inf:
            raise PolicyError(
                f"job {self.instance.jobs[job].name!r} is to share GPUs with running jobs and to wait for a "
                "node to wake up, both at once; place it on awake nodes, or on free GPUs"
            )
        low = self._offset[job]
        self.state.job_gpu[low : low + len(gpus)] = gpus
        k = self._k
        code = k.start_job(self.view, self.sets, self.state, job, self.now_s, begin, self.slot_s)
        while code == k.MISSING:
            self.arrays.sets.add(int(self.state.counter[k.MISS_SET]), int(self.state.counter[k.MISS_CLASS]))
            code = k.start_job(self.view, self.sets, self.state, job, self.now_s, begin, self.slot_s)
        if code != k.OK:
            raise PolicyError(
                f"job {self.instance.jobs[job].name!r}: more than 8 jobs on a GPU are not supported"
            )
        for node in nodes:
            self.ready_s[node] = min(self.ready_s[node], begin) if self.jobs_on[node] else begin
            self.jobs_on[node] += 1
        for gpu in gpus:
            if not self._count[gpu]:
                self.free[self.gpu_node[gpu]] -= 1
            self._count[gpu] += 1
        self.gpus_of[job] = gpus
        self.waiting.pop(job, None)
        return begin

    def _stop(self, job: int, t: float) -> None:
        self._k.stop_job(self.view, self.sets, self.state, job, t, self.slot_s)
        gpus = self.gpus_of.pop(job)
        before = -1
        for gpu in gpus:
            node = self.gpu_node[gpu]
            self._count[gpu] -= 1
            if not self._count[gpu]:
                self.free[node] += 1
            if node != before:
                before = node
                self.jobs_on[node] -= 1
                if self._wake[node] > 0.0:
                    self._left(node, job, t)

    def _left(self, node: int, job: int, t: float) -> None:
        """Note since when a node that a job has left hosts no running job, and when the next will run."""
        began = self.state.began
        ran = float(began[job]) < t
        if self.jobs_on[node]:
            span = range(self.first_gpu[node], self.first_gpu[node + 1])
            self.ready_s[node] = min(float(began[r]) for g in span for r in self.residents(g))
            ran = ran and self.ready_s[node] > t
        if ran:
            self.emptied_s[node] = t


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EventLog:
    """What happened, in order: arrays of one length.

    Attributes
    ----------
    time_s
        Absolute times [s].
    kind
        ``arrival``, ``start``, ``stop``, ``departure``, ``milestone``, ``timer``.
    job
        Position of the job in ``instance.jobs``, -1 for timers.
    """

    time_s: NDArray[np.float64]
    kind: tuple[str, ...]
    job: NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ActiveCurve:
    """Number of active nodes over time, a step function.

    Attributes
    ----------
    time_s
        Absolute times of change [s], ascending.
    nodes
        Number active from each time on.
    """

    time_s: NDArray[np.float64]
    nodes: NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Simulation:
    """Outcome of a policy's run.

    Attributes
    ----------
    schedule
        Its segments.
    evaluation
        The schedule evaluated anew.
    log, active
        Event log and active-node curve.
    counters
        What the policy counted (undos, observations, ...), by name.
    instance
        The instance the outcome belongs to: without rejected jobs.
    best_effort, rejected
        Names of jobs whose deadlines were out of reach from the start, and of those the
        policy rejected.
    runtime_s
        Wall-clock time of the run [s].
    """

    schedule: Schedule
    evaluation: Evaluation
    log: EventLog
    active: ActiveCurve
    counters: dict[str, int]
    instance: Instance
    best_effort: tuple[str, ...]
    rejected: tuple[str, ...]
    runtime_s: float


def boundary_s(t: float, slot_s: float) -> float:
    """Return the first boundary of slots at or after a time [s], half the time tolerance allowed."""
    return math.ceil((t - 0.5e-6 - 1e-15 * t) / slot_s) * slot_s


def active_curve(instance: Instance, schedule: Schedule) -> ActiveCurve:
    """Return the active-node curve of a schedule."""
    spans: dict[int, list[tuple[float, float]]] = {}
    for segment in schedule.segments:
        for node in {n for n, _ in segment.gpus}:
            spans.setdefault(node, []).append((segment.start_s, segment.end_s))
    times: list[float] = []
    steps: list[int] = []
    for node in sorted(spans):
        end = -math.inf
        begin = math.nan
        for a, b in sorted(spans[node]):
            if a > end + 1e-6:
                if end > -math.inf:
                    times += [begin, end]
                    steps += [1, -1]
                begin = a
            end = max(end, b)
        times += [begin, end]
        steps += [1, -1]
    if not times:
        return ActiveCurve(time_s=np.zeros(0), nodes=np.zeros(0, dtype=np.int64))
    at, where = np.unique(np.array(times), return_inverse=True)
    change = np.bincount(where, weights=np.array(steps)).round().astype(np.int64)
    return ActiveCurve(time_s=at, nodes=np.cumsum(change))


_LONGEST_S = 1e12


def _need_resolution(instance: Instance) -> None:
    """Raise if times lie so far apart that a float cannot tell their seconds from each other."""
    view = instance.arrays()
    for job, release in zip(instance.jobs, view.release_s.tolist(), strict=True):
        if release > _LONGEST_S:
            raise DomainError(
                f"job {job.name!r}: it is released {release:.6g} s after the earliest job; expected at most "
                f"{_LONGEST_S:g} s (over 30,000 years), beyond which seconds are lost in rounding; "
                "correct or drop it"
            )


def simulate(
    instance: Instance,
    policy: Policy,
    rng: np.random.Generator | int = 0,
    *,
    grid_s: float | None = None,
    history: Interference | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> Simulation:
    """Run a policy and return its schedule, evaluated.

    Parameters
    ----------
    instance
        The problem; the run is on its truth.
    policy
        Any object that follows :class:`Policy`.
    rng
        Generator for the policy's random choices, or a seed for one.
    grid_s
        Run in static form on slots of this length [s] (docs/model.md section 5):
        decisions and departures at slot boundaries, history is the truth.
    history
        What the policy believes about slowdowns; the truth by default.
    progress
        Called every few thousand events.

    Raises
    ------
    ImpossibleJobsError
        Some jobs can run nowhere. Jobs with hopeless deadlines are run best-effort.
    PolicyError
        The policy misbehaved; the text says how.
    DomainError
        ``rng`` or ``grid_s`` is unusable.
    """
    began = time.perf_counter()
    generator = _generator(rng)
    schedule_class = _check_policy(policy)
    if grid_s is not None:
        grid_s = v.real("simulate", "grid_s", grid_s, above=0.0)
    hopeless = impossible_jobs(instance)
    fatal = [(job.job, job.reason) for job in hopeless if not job.deadline_only]
    if fatal:
        raise ImpossibleJobsError(fatal)
    if grid_s is not None and history is not None:
        raise PolicyError("simulate: on a grid the history is the truth; leave history out")
    _need_resolution(instance)
    served = instance
    rejected: list[str] = []
    while True:
        run = _Run(served, policy, generator, grid_s, history or instance.truth, progress)
        run.loop()
        rejected += run.rejected
        before = served.arrays().origin_s
        if run.rejected:
            served = served.without(run.rejected)
        shift = served.arrays().origin_s - before
        if not grid_s or abs(shift - round(shift / grid_s) * grid_s) <= 0.5e-6:
            break
        # Without the rejected jobs the slots begin at another time (docs/model.md section 5): run anew.
    schedule = Schedule(
        segments=tuple(run.segments),
        schedule_class=ScheduleClass.STATIC if run.world.static else schedule_class,
        method=policy.name,
    )
    evaluation = evaluate(served, schedule, grid_s=grid_s)
    if evaluation.physical_violations:
        raise PolicyError(f"policy {policy.name!r} broke a physical rule: {evaluation.problems[0]}")
    return Simulation(
        schedule=schedule,
        evaluation=evaluation,
        log=EventLog(
            time_s=np.array(run.log_time) + run.world.arrays.origin_s,
            kind=tuple(run.log_kind),
            job=np.array(run.log_job, dtype=np.int64),
        ),
        active=active_curve(served, schedule),
        instance=served,
        counters=dict(getattr(policy, "counters", {})),
        best_effort=tuple(job.job for job in hopeless),
        rejected=tuple(rejected),
        runtime_s=time.perf_counter() - began,
    )


def _generator(rng: Any) -> np.random.Generator:
    if isinstance(rng, np.random.Generator):
        return rng
    return np.random.default_rng(v.integer("simulate", "rng (a seed or a numpy Generator)", rng, 0))


def _check_policy(policy: Any) -> ScheduleClass:
    """Return the policy's class of schedule; refuse an object that is no policy before anything runs."""
    if not isinstance(getattr(policy, "name", None), str):
        raise PolicyError(
            f"policy {policy!r} has no name; a policy has a name (str), a schedule_class, begin and decide"
        )
    for method in ("begin", "decide"):
        if isinstance(policy, type) or not callable(getattr(policy, method, None)):
            raise PolicyError(
                f"policy {policy.name!r} has no method {method}; give an object with begin(world, rng) and "
                "decide(world, events), not a class"
            )
    try:
        return ScheduleClass(policy.schedule_class)
    except (AttributeError, ValueError):
        known = ", ".join(c.value for c in ScheduleClass)
        raise PolicyError(
            f"policy {policy.name!r}: schedule_class must be one of {known}, got "
            f"{getattr(policy, 'schedule_class', None)!r}"
        ) from None


class _Run:
    """One run of the event loop."""

    def __init__(
        self,
        instance: Instance,
        policy: Policy,
        rng: np.random.Generator,
        grid_s: float | None,
        history: Interference,
        progress: Callable[[Progress], None] | None,
    ) -> None:
        self.instance = instance
        self.policy = policy
        self.world = World(instance, history, grid_s, static=grid_s is not None)
        self.progress = progress
        self.segments: list[Segment] = []
        self.rejected: list[str] = []
        self.log_time: list[float] = []
        self.log_kind: list[str] = []
        self.log_job: list[int] = []
        self._timers: list[float] = []
        self._done = 0
        self._final: list[float] = self.world.arrays.epochs.tolist()
        self._names = [job.name for job in instance.jobs]
        self._k = kernel()
        policy.begin(self.world, rng)

    def loop(self) -> None:
        """Play events until every job has ended."""
        world, state = self.world, self.world.state
        arrays = world.arrays
        n = len(arrays.epochs)
        slot = world.slot_s
        release = arrays.release_s.copy()
        if slot:
            release = np.array([boundary_s(t, slot) for t in release.tolist()])
        order = np.lexsort((np.arange(n), release)).tolist()
        when = release.tolist()
        gpus = arrays.gpus.tolist()
        counter, heap, due = state.counter, state.heap, state.due
        heap_size = self._k.HEAP
        at = 0
        asked = 0
        while self._done < n:
            t = math.inf
            if at < n:
                t = when[order[at]]
            if counter[heap_size]:
                t = min(t, float(due[heap[0]]))
            if self._timers:
                t = min(t, self._timers[0])
            if t == math.inf:
                stuck = [self._names[j] for j in world.waiting][:5]
                raise PolicyError(
                    f"policy {self.policy.name!r} leaves {len(world.waiting)} job(s) waiting for ever, "
                    f"although nothing is left to happen; among them {', '.join(map(repr, stuck))}"
                )
            limit = t + 1e-9 + 1e-12 * t
            events: list[Event] = []
            while counter[heap_size] and due[heap[0]] <= limit:
                j = int(heap[0])
                t = max(t, float(due[j]))
                world.now_s = t
                events.append(self._come_due(j, t))
            while at < n and when[order[at]] <= limit:
                j = order[at]
                at += 1
                t = max(t, when[j])
                world.waiting[j] = None
                world.demand += gpus[j]
                self._log(when[j], "arrival", j)
                events.append(Event(EventKind.ARRIVAL, j))
            while self._timers and self._timers[0] <= limit:
                heappop(self._timers)
                events.append(Event(EventKind.TIMER, -1))
                self._log(t, "timer", -1)
            world.now_s = t
            answer = self.policy.decide(world, events)
            if not hasattr(answer, "__iter__"):
                raise PolicyError(
                    f"policy {self.policy.name!r}: decide returned {answer!r}; expected actions, in a "
                    "list or yielded one by one"
                )
            for action in answer:
                self._carry_out(action)
            asked += 1
            if self.progress is not None and asked % 2048 == 0:
                self.progress(Progress(self._done, n, t, len(self.log_time)))
        if self.progress is not None:
            self.progress(Progress(self._done, n, world.now_s, len(self.log_time)))

    def _log(self, t: float, kind: str, job: int) -> None:
        self.log_time.append(t)
        self.log_kind.append(kind)
        self.log_job.append(job)

    def _come_due(self, j: int, t: float) -> Event:
        state = self.world.state
        if state.target[j] < self._final[j]:
            target = float(state.target[j])
            self._k.set_target(state, j, target, t, self.world.slot_s)
            if not self.world.slot_s or state.progress[j] < target:
                state.progress[j] = target  # exactly at the milestone, without rounding
            self._k.set_target(state, j, self._final[j], t, self.world.slot_s)
            self._log(t, "milestone", j)
            return Event(EventKind.MILESTONE, j)
        self._end(j, t, "departure")
        self._done += 1
        self.world.demand -= int(self.world.arrays.gpus[j])
        return Event(EventKind.DEPARTURE, j)

    def _end(self, j: int, t: float, kind: str) -> None:
        world = self.world
        begin = float(world.state.began[j])
        gpus = world.gpus_of[j]
        world._stop(j, t)
        self._log(t, kind, j)
        if t > begin:
            origin = world.arrays.origin_s
            self.segments.append(
                Segment(
                    job=self._names[j],
                    start_s=begin + origin,
                    end_s=t + origin,
                    gpus=tuple((n := world.gpu_node[g], g - world.first_gpu[n]) for g in gpus),
                )
            )

    def _carry_out(self, action: Any) -> None:
        world = self.world
        t = world.now_s
        if isinstance(action, Start):
            j = self._job(action.job)
            if j not in world.waiting:
                raise PolicyError(
                    f"policy {self.policy.name!r} starts job {self._names[j]!r}, which is not waiting"
                )
            gpus = self._numbers(j, action.gpus)
            self._check_gang(j, gpus)
            try:
                begin = world._start(j, gpus)
            except PolicyError as error:
                raise PolicyError(f"policy {self.policy.name!r}: {error}") from None
            self._log(begin, "start", j)
        elif isinstance(action, Stop):
            j = self._running(action.job, "stops")
            if world.static or self.policy.schedule_class == ScheduleClass.STATIC:
                raise PolicyError(
                    f"policy {self.policy.name!r} stops job {self._names[j]!r} in a run of class static"
                )
            if world.state.began[j] > t:
                raise PolicyError(
                    f"policy {self.policy.name!r} stops job {self._names[j]!r}, which waits for a node to "
                    f"wake up until {float(world.state.began[j])!r} s; stop it when it runs"
                )
            self._k.set_target(world.state, j, self._final[j], t, world.slot_s)
            self._end(j, t, "stop")
            world.waiting[j] = None
        elif isinstance(action, Watch):
            j = self._running(action.job, "watches")
            owner = f"policy {self.policy.name!r}"
            target = action.epochs
            if type(target) is not float or target != target:
                owner = f"policy {self.policy.name!r}"
                target = v.real(owner, "epochs to watch for", target, infinite=True)
            if target < self._final[j]:
                if target <= world.progress_epochs(j):
                    raise PolicyError(
                        f"policy {self.policy.name!r} watches job {self._names[j]!r} for {target:g} epochs, "
                        "which it has done"
                    )
                self._k.set_target(world.state, j, target, t, world.slot_s)
        elif isinstance(action, Timer):
            at = v.real(f"policy {self.policy.name!r}", "time of a timer", action.time_s)
            if not at > t:
                raise PolicyError(
                    f"policy {self.policy.name!r} sets a timer for {at!r} s, which is not ahead of {t!r} s"
                )
            if world.slot_s:
                at = max(boundary_s(at, world.slot_s), boundary_s(t + world.slot_s, world.slot_s))
            heappush(self._timers, at)
        elif isinstance(action, Reject):
            j = self._job(action.job)
            if j not in world.waiting or world.state.progress[j] > 0.0:
                raise PolicyError(
                    f"policy {self.policy.name!r} rejects job {self._names[j]!r}, which runs or has run; "
                    "only jobs that never ran can be rejected"
                )
            del world.waiting[j]
            world.demand -= world._gpus[j]
            self._done += 1
            self.rejected.append(self._names[j])
            self._log(t, "reject", j)
        else:
            raise PolicyError(
                f"policy {self.policy.name!r} answered {action!r}; expected Start, Stop, Watch, Timer "
                "or Reject"
            )

    def _job(self, job: Any) -> int:
        if (type(job) is int or isinstance(job, numbers.Integral)) and 0 <= int(job) < len(self._names):
            return int(job)
        raise PolicyError(
            f"policy {self.policy.name!r} names job number {job!r}; there are {len(self._names)} jobs, "
            "numbered from 0"
        )

    def _running(self, job: Any, verb: str) -> int:
        j = self._job(job)
        if j not in self.world.gpus_of:
            raise PolicyError(
                f"policy {self.policy.name!r} {verb} job {self._names[j]!r}, which does not run"
            )
        return j

    def _numbers(self, j: int, gpus: Any) -> tuple[int, ...]:
        listed = tuple(gpus) if hasattr(gpus, "__iter__") else ()
        if not listed or not all(type(k) is int or isinstance(k, numbers.Integral) for k in listed):
            raise PolicyError(
                f"policy {self.policy.name!r} starts job {self._names[j]!r} on GPUs {gpus!r}; expected "
                f"{self.world._gpus[j]} GPU numbers"
            )
        return tuple(map(int, listed))

    def _check_gang(self, j: int, gpus: tuple[int, ...]) -> None:
        world = self.world
        g = world._gpus[j]
        total = len(world.gpu_node)
        if len(gpus) != g or any(not 0 <= k < total for k in gpus):
            raise PolicyError(
                f"policy {self.policy.name!r} starts job {self._names[j]!r} on GPUs {gpus!r}; expected "
                f"{g} GPU numbers below {total}"
            )
        for a, b in pairwise(gpus):
            if b <= a:
                raise PolicyError(
                    f"policy {self.policy.name!r} starts job {self._names[j]!r} on GPUs {gpus!r}; list "
                    "them once each, ascending"
                )
        if not _is_gang(world, gpus):
            raise PolicyError(
                f"policy {self.policy.name!r} starts job {self._names[j]!r} on GPUs {gpus!r}; its {g} GPU(s) "
                "must lie on one node, or on whole nodes of one type plus a rest on one more"
            )
        if not all(world._types_ok[j, world.node_types[world.gpu_node[k]]] for k in gpus):
            raise PolicyError(
                f"policy {self.policy.name!r} starts job {self._names[j]!r} on a GPU type for which "
                "its profile has no epoch time"
            )


def _is_gang(world: World, gpus: tuple[int, ...]) -> bool:
    """Tell whether ascending GPU numbers are a gang (docs/model.md section 1.3)."""
    node = world.gpu_node[gpus[0]]
    size = world.node_gpus[node]
    if world.gpu_node[gpus[-1]] == node:
        return True
    parts = [(n, len(list(held))) for n, held in groupby(gpus, key=lambda k: world.gpu_node[k])]
    if len({world.node_types[n] for n, _ in parts}) > 1:
        return False
    whole, rest = divmod(len(gpus), size)
    return sorted(count for _, count in parts) == ([rest] if rest else []) + [size] * whole
