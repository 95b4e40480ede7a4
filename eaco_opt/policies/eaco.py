"""EaCO: co-locate whenever predicted completion times keep the deadlines.

Algorithms 1 and 2 of Haghshenas and Hashemi, arXiv 2412.08294, with the open points
settled as docs/model.md section 8 says; each is an option here.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import _validate as v
from ..limits import AdmissionRule
from ..schedule import ScheduleClass
from ..sets import LIMIT_TOLERANCE
from ..simulator import Action, Event, EventKind, Reject, Start, Stop, Watch, World, boundary_s
from . import choice
from .queue import Line


@dataclass(slots=True)
class _Observation:
    """A newcomer watched until every resident has completed an epoch.

    ``pending`` maps each resident that has not yet done so to the progress it must
    reach; ``marks`` each watched job to (time, progress, stamp of its GPUs) at the start.
    """

    newcomer: int
    gpus: tuple[int, ...]
    key: tuple[tuple[int, ...], tuple[tuple[int, ...], ...]]
    pending: dict[int, float]
    marks: dict[int, tuple[float, float, int]] = field(default_factory=dict)


@dataclass(slots=True)
class _Request:
    """Waiting jobs that differ only in length and deadline, in order of the line.

    ``spans`` tells whether they may need several nodes.
    """

    number: int
    job_class: int
    gpus: int
    spans: bool
    line: Line


class Eaco:
    """Energy-aware co-location with deadlines, one-epoch observation and undo.

    A waiting job takes the candidate GPU set of highest mean present load on which, by
    the history's slowdowns, it and every job connected with it through shared GPUs keep
    their deadlines (those that can still be kept). A newcomer that shares is observed;
    the measured slowdowns enter the history, and if a deadline would now be missed the
    newcomer is stopped at its own epoch boundary and waits again.

    Parameters
    ----------
    blocked
        ``skip`` (default): a job without candidate waits and later ones may pass it;
        ``strict``: it blocks the line.
    hopeless
        What becomes of a job that cannot meet its deadline even alone on an empty node:
        ``best-effort`` (default), with its deadline taken as infinite, or ``reject`` (a
        job that has run before is never rejected).
    observe
        Whether newcomers are observed, the history learns and allocations can be undone
        (default: yes; never in static form).
    candidates_per_node
        Most splits of a request over groups of interchangeable GPUs that are considered
        on one node, those filling the fullest groups first; 256 is all of them on nodes
        of up to 8 GPUs.
    """

    name = "eaco"
    schedule_class = ScheduleClass.EPOCH

    def __init__(
        self,
        *,
        blocked: str = "skip",
        hopeless: str = "best-effort",
        observe: bool = True,
        candidates_per_node: int = 256,
    ) -> None:
        self.blocked = choice(self.name, "blocked", blocked, ("skip", "strict"))
        self.hopeless = choice(self.name, "hopeless", hopeless, ("best-effort", "reject"))
        self.observe = v.flag("policy 'eaco'", "observe", observe)
        self.candidates_per_node = v.integer(
            "policy 'eaco'", "candidates_per_node", candidates_per_node, 1, 1_000_000
        )
        self.counters: dict[str, int] = {}

    def begin(self, world: World, rng: np.random.Generator) -> None:
        """Prepare the line, the compiled search's buffers and an empty record of observations."""
        from ..kernels import eaco as compiled

        self._k: Any = compiled
        self.counters = {"observations": 0, "undone": 0, "shared": 0, "best_effort": 0, "rejected": 0}
        a = world.arrays
        jobs, nodes, gpus = len(a.epochs), len(a.node_type), len(a.gpu_node)
        self._observing = self.observe and not world.static
        self._watched: dict[int, list[_Observation]] = {}
        self._failed: dict[int, set[Any]] = {}
        self._gpus_of: dict[int, tuple[int, ...]] = {}
        self._deadline: NDArray[np.float64] = a.deadline_s.copy()
        self._observed: NDArray[np.bool_] = np.zeros(gpus, dtype=np.bool_)
        self._stamp: list[int] = [0] * gpus
        self._version: NDArray[np.int64] = np.ones(nodes, dtype=np.int64)
        self._epochs: list[float] = a.epochs.tolist()
        self._tau: list[list[float]] = a.tau_s.tolist()
        self._wake_s: list[float] = a.type_values[:, 7].tolist()
        self._fits: dict[Any, list[int]] = {}
        self._requests: dict[tuple[int, int, tuple[bool, ...]], _Request] = {}
        self._by_number: list[_Request] = []
        self._request_of: list[_Request | None] = [None] * jobs
        self._n_waiting = 0
        self._look = False
        classes = max(1, len(a.sets.classes))
        self._seen: NDArray[np.int64] = np.zeros((classes, nodes), dtype=np.int64)
        self._room: NDArray[np.int64] = np.zeros((classes, nodes), dtype=np.int64)
        self._columns: list[NDArray[np.int64]] = [np.zeros(0, dtype=np.int64) for _ in range(4)]
        self._open: NDArray[np.bool_] = np.zeros(0, dtype=np.bool_)
        limits = world.instance.limits
        self._u_limit = limits.u_threshold + LIMIT_TOLERANCE
        self._existing = limits.rule is AdmissionRule.EXISTING
        widest = int(np.diff(a.first_gpu).max()) if nodes else 1
        most = int(a.gpus.max()) if jobs else 1
        self._cand_room = 1024
        self._most = most
        self._make_candidates()
        self._group: NDArray[np.int64] = np.zeros((3, widest + 1), dtype=np.int64)
        self._take: NDArray[np.int64] = np.zeros(max(widest, nodes) + 2, dtype=np.int64)
        self._mark: NDArray[np.int64] = np.zeros(jobs + 1, dtype=np.int64)
        self._comp: NDArray[np.int64] = np.zeros(jobs + 1, dtype=np.int64)
        self._local: NDArray[np.int64] = np.zeros(gpus, dtype=np.int64)
        self._work: NDArray[np.float64] = np.zeros((5, jobs + 1))
        self._chosen: NDArray[np.int64] = np.zeros(most, dtype=np.int64)
        self._wakes = bool((a.type_values[:, 7] > 0.0).any())
        self._ready: NDArray[np.float64] = np.zeros(nodes)

    def _make_candidates(self) -> None:
        self._cand_gpu: NDArray[np.int64] = np.zeros((self._cand_room, self._most), dtype=np.int64)
        self._cand_load: NDArray[np.float64] = np.zeros(self._cand_room)
        self._cand_node: NDArray[np.int64] = np.zeros(self._cand_room, dtype=np.int64)

    # Events ------------------------------------------------------------------------------

    def decide(self, world: World, events: Sequence[Event]) -> Iterator[Action]:
        """Note what happened; end observations that are due; try the waiting jobs in order.

        Waiting jobs are tried at arrivals, departures and ends of observation.
        """
        due: list[_Observation] = []
        fired: list[int] = []
        self._look = False
        for event in events:
            job = event.job
            if event.kind is EventKind.ARRIVAL:
                self._look = True
                self._enqueue(world, job)
            elif event.kind is EventKind.DEPARTURE:
                self._look = True
                self._gone(world, job)
                for observation in self._watched.pop(job, ()):
                    observation.marks.pop(job, None)
                    if observation.newcomer == job:
                        self._close(world, observation)
                    else:
                        observation.pending.pop(job, None)
                        due.append(observation)
            elif event.kind is EventKind.MILESTONE:
                fired.append(job)
                due += self._watched.get(job, ())
        if due:
            yield from self._review(world, due, fired)
        if self._look and self._n_waiting:
            yield from self._place(world)

    def decide_once(self, world: World, jobs: Sequence[int], rng: np.random.Generator) -> Iterator[Action]:
        """Decide on waiting jobs in a world that another policy has run so far; observe nothing.

        Parameters
        ----------
        world
            The present state.
        jobs
            Waiting jobs, in order of arrival.
        rng
            As for `begin`.
        """
        self.begin(world, rng)
        self._gpus_of = dict(world.gpus_of)
        yield from self.decide(world, [Event(EventKind.ARRIVAL, job) for job in jobs])

    def _enqueue(self, world: World, job: int) -> None:
        request = self._request_of[job]
        if request is None:
            key = world.request(job)
            cls, g, allowed = key
            request = self._requests.get(key)
            if request is None:
                sizes = [world.arrays.type_values[t, 0] for t, ok in enumerate(allowed) if ok]
                request = _Request(len(self._requests), cls, g, g > min(sizes), Line(world))
                self._requests[key] = request
                self._by_number.append(request)
                for i, value in enumerate((cls, g, job, 0)):
                    self._columns[i] = np.append(self._columns[i], value)
                self._open = np.zeros(len(self._requests), dtype=np.bool_)
            self._request_of[job] = request
        request.line.add(job)
        self._columns[3][request.number] += 1
        self._n_waiting += 1

    def _dequeue(self, job: int) -> None:
        request = self._request_of[job]
        assert request is not None
        request.line.remove(job)
        self._columns[3][request.number] -= 1
        self._n_waiting -= 1

    def _touch(self, world: World, gpus: tuple[int, ...]) -> None:
        for gpu in gpus:
            self._stamp[gpu] += 1
            self._version[world.gpu_node[gpu]] += 1

    def _gone(self, world: World, job: int) -> None:
        self._touch(world, self._gpus_of.pop(job))

    def _close(self, world: World, observation: _Observation) -> None:
        for gpu in observation.gpus:
            self._observed[gpu] = False
            self._version[world.gpu_node[gpu]] += 1
        for job in observation.marks:
            watched = self._watched.get(job)
            if watched and observation in watched:
                watched.remove(observation)
                if not watched:
                    del self._watched[job]

    # Observation -------------------------------------------------------------------------

    def _stamp_of(self, job: int) -> int:
        return sum(self._stamp[gpu] for gpu in self._gpus_of[job])

    def _begin_observation(self, world: World, job: int, key: Any, residents: list[int]) -> Iterator[Action]:
        observation = _Observation(newcomer=job, gpus=self._gpus_of[job], key=key, pending={})
        epochs = self._epochs
        for resident in residents:
            done = world.progress_epochs(resident)
            if done + 1.0 < epochs[resident]:
                observation.pending[resident] = done + 1.0
            else:
                observation.pending[resident] = math.inf  # its departure counts as its epoch
        for watched in (job, *residents):
            begin = max(world.now_s, float(world.state.since[watched]))
            observation.marks[watched] = (begin, world.progress_epochs(watched), self._stamp_of(watched))
            self._watched.setdefault(watched, []).append(observation)
        for gpu in observation.gpus:
            self._observed[gpu] = True
            self._version[world.gpu_node[gpu]] += 1
        self.counters["observations"] += 1
        for watched in (job, *residents):
            yield from self._watch(world, watched)

    def _watch(self, world: World, job: int) -> Iterator[Action]:
        """Ask for the next milestone of a job that several observations may wait for."""
        goal = math.inf
        done = world.progress_epochs(job) + 1e-9
        for observation in self._watched.get(job, ()):
            if observation.newcomer != job:
                wanted = observation.pending.get(job, math.inf)
            else:
                wanted = math.floor(observation.marks[job][1] + 1e-9) + 1.0
                if wanted <= done and not observation.pending:
                    wanted = math.floor(done) + 1.0
            if done < wanted < goal:
                goal = wanted
        if goal < self._epochs[job]:
            yield Watch(job, goal)

    def _learn(self, world: World, observation: _Observation, job: int) -> None:
        """Record a measured epoch time, if nothing changed on the job's GPUs while it ran."""
        mark = observation.marks.get(job)
        if mark is None or mark[2] != self._stamp_of(job):
            return
        begin, before, _ = mark
        epochs = world.progress_epochs(job) - before
        tau = float(world.arrays.tau_s[job, world.node_types[world.gpu_node[self._gpus_of[job][0]]]])
        if epochs <= 0.0 or world.now_s <= begin:
            return
        factor = (world.now_s - begin) / (tau * epochs)
        sets = [int(world.state.gpu_set[gpu]) for gpu in self._gpus_of[job]]
        cls = int(world.arrays.job_class[job])
        predicted = max(world.history.factor(s, cls) for s in sorted(set(sets)))
        if abs(predicted - factor) > 1e-9 * factor:
            world.history.observe(sets, cls, factor)
            self._version += 1  # a factor of infinity may have become finite

    def _review(self, world: World, due: list[_Observation], fired: list[int]) -> Iterator[Action]:
        """Take note of completed epochs, of all observations first; then judge those that end now.

        In the order of the newcomers' submit indices, and residents before newcomers.
        """
        found = {o.newcomer: o for o in due if o.newcomer in self._gpus_of}
        seen = [found[newcomer] for newcomer in sorted(found)]
        again = dict.fromkeys(fired)
        for observation in seen:
            for resident, goal in list(observation.pending.items()):
                if goal < math.inf and world.progress_epochs(resident) >= goal - 1e-9:
                    self._learn(world, observation, resident)
                    del observation.pending[resident]
        ended: list[_Observation] = []
        for observation in seen:
            newcomer = observation.newcomer
            done = world.progress_epochs(newcomer)
            boundary = math.floor(done + 1e-9)
            first = math.floor(observation.marks[newcomer][1] + 1e-9) + 1.0
            at_boundary = abs(done - boundary) <= 1e-9 * max(1.0, done) and boundary >= first
            if at_boundary and boundary == first:
                self._learn(world, observation, newcomer)
            if observation.pending:
                continue
            if at_boundary:
                ended.append(observation)
            else:
                again[newcomer] = None
        for observation in ended:
            self._look = True
            self._close(world, observation)
            yield from self._judge(world, observation)
        for job in again:
            if job in self._gpus_of:
                yield from self._watch(world, job)

    def _judge(self, world: World, observation: _Observation) -> Iterator[Action]:
        """The allocation is final if all deadlines still hold, else the newcomer is undone."""
        job = observation.newcomer
        if self._hopeless(world, job, asleep=False):
            self._deadline[job] = math.inf
            self.counters["best_effort"] += 1
        holds = self._k.still_holds(
            world.view,
            world.sets,
            world.state,
            world.history.sigma,
            world.now_s,
            world.slot_s,
            job,
            np.array(observation.gpus, dtype=np.int64),
            self._deadline,
            self._mark,
            self._comp,
            self._local,
            self._work,
        )
        if holds:
            return
        self.counters["undone"] += 1
        self._failed.setdefault(job, set()).add(observation.key)
        yield Stop(job)
        self._gone(world, job)
        self._enqueue(world, job)

    # Placement ---------------------------------------------------------------------------

    def _hopeless(self, world: World, job: int, *, asleep: bool) -> bool:
        """Tell whether a deadline cannot be met even alone on an empty node, awake or asleep."""
        deadline = float(self._deadline[job])
        if math.isinf(deadline):
            return False
        request = world.request(job)
        types = self._fits.get(request)
        if types is None:
            nodes = {t: n for n, t in reversed(list(enumerate(world.node_types)))}
            gpus = request[1]
            types = [
                t
                for t, n in sorted(nodes.items())
                if world.may_use(job, n) and math.ceil(gpus / world.node_gpus[n]) <= world.node_types.count(t)
            ]
            self._fits[request] = types
        left = self._epochs[job] - world.progress_epochs(job)
        limit = deadline + 0.5e-6 + 0.5e-9 * abs(deadline)
        slot = world.slot_s
        for t in types:
            begin = world.now_s + (self._wake_s[t] if asleep else 0.0)
            if slot:
                begin = boundary_s(begin, slot)
                end = math.ceil((begin + (left - 1e-9 * self._epochs[job]) * self._tau[job][t]) / slot) * slot
            else:
                end = begin + left * self._tau[job][t]
            if end <= limit:
                return False
        return True

    def _give_up_deadline(self, world: World, job: int) -> bool:
        """Have a hopeless job run best-effort; tell whether it is to be rejected instead."""
        self._deadline[job] = math.inf
        if self.hopeless == "reject" and world.progress_epochs(job) == 0.0:
            self.counters["rejected"] += 1
            return True
        self.counters["best_effort"] += 1
        return False

    def _ask(self, function: Any, *args: Any) -> int:
        """Call compiled code, adding sets that it has not met and room that it lacks."""
        world: World = args[0]
        while True:
            sets = world.sets  # first: it brings the history up to date
            code = int(function(world.view, sets, world.state, world.history.sigma, *args[1:]))
            if code == self._k.MISSING:
                from ..physics import kernel

                counter = world.state.counter
                world.arrays.sets.add(int(counter[kernel().MISS_SET]), int(counter[kernel().MISS_CLASS]))
            else:
                return code

    def _refresh(self, world: World) -> None:
        self._ask(
            self._k.open_requests,
            world,
            self._observed,
            self._u_limit,
            self._existing,
            self._version,
            self._seen,
            self._room,
            *self._columns[:3],
            self._columns[3],
            self._open,
        )
        if self._wakes:
            for node in range(len(self._ready)):
                self._ready[node] = world.begin_s((node,))

    def _find(self, world: World, job: int, skip: int) -> tuple[int, ...]:
        while True:
            code = self._ask(
                self._k.find_candidate,
                world,
                self._observed,
                self._u_limit,
                self._existing,
                self._room,
                job,
                world.now_s,
                world.slot_s,
                self._ready,
                self._wakes,
                self._deadline,
                self.candidates_per_node,
                skip,
                self._cand_gpu,
                self._cand_load,
                self._cand_node,
                self._group,
                self._take,
                self._mark,
                self._comp,
                self._local,
                self._work,
                self._chosen,
            )
            if code == self._k.FULL:
                self._cand_room *= 4
                self._make_candidates()
            elif code == self._k.FOUND:
                return tuple(self._chosen[: int(world.arrays.gpus[job])].tolist())
            else:
                return ()

    def _place(self, world: World) -> Iterator[Action]:
        """Try the waiting jobs in order; all requests share one pass."""
        rank = world.queue_order
        self._refresh(world)
        strict = self.blocked == "strict"
        cursors: dict[int, Iterator[int]] = {}
        heads: dict[int, int] = {}
        # Of each request, time left on each node type and minus the deadline of jobs that failed
        # in this pass: where slowdowns only grow with company, a longer job with an earlier
        # deadline fails too. Of jobs on several nodes not all GPU sets are candidates, so that a later
        # look may see others.
        frontier: dict[int, list[tuple[float, ...]]] = {}
        for request in self._by_number:
            if self._columns[3][request.number] and (strict or self._open[request.number]):
                self._resume(cursors, heads, request, iter(request.line))
        while heads:
            number = min(heads, key=lambda r: rank[heads[r]])
            job = heads.pop(number)
            self._resume(cursors, heads, self._by_number[number], cursors[number])
            if self._hopeless(world, job, asleep=False) and self._give_up_deadline(world, job):
                self._dequeue(job)
                yield Reject(job)
                continue
            if not self._open[number]:
                if strict:
                    return
                heads.pop(number, None)
                continue
            left = self._epochs[job] - world.progress_epochs(job)
            ask = (*(left * tau for tau in self._tau[job] if tau < math.inf), -float(self._deadline[job]))
            beaten = frontier.setdefault(number, [])
            spans = self._by_number[number].spans
            prune = world.history.monotone and job not in self._failed and not (spans and self._wakes)
            gpus: tuple[int, ...] = ()
            key: Any = None
            if not (prune and any(all(map(operator.ge, ask, lost)) for lost in beaten)):
                gpus, key = self._untried(world, job)
                if not gpus and prune:
                    beaten.append(ask)
            if not gpus and self._wakes and self._hopeless(world, job, asleep=True):
                # Too late for a node that has yet to wake up, and no other keeps the deadline.
                if self._give_up_deadline(world, job):
                    self._dequeue(job)
                    yield Reject(job)
                    continue
                gpus, key = self._untried(world, job)
            if not gpus:
                if strict:
                    return
                continue
            self._dequeue(job)
            residents = sorted({r for gpu in gpus for r in world.residents(gpu)})
            yield Start(job, gpus)
            self._gpus_of[job] = gpus
            self._touch(world, gpus)
            if residents:
                self.counters["shared"] += 1
                if self._observing:
                    yield from self._begin_observation(world, job, key, residents)
            if heads:
                self._refresh(world)
            for spanning in [r for r in frontier if self._by_number[r].spans]:
                del frontier[spanning]

    @staticmethod
    def _resume(
        cursors: dict[int, Iterator[int]], heads: dict[int, int], request: _Request, jobs: Iterator[int]
    ) -> None:
        """Have a request's next job wait for its turn in the pass."""
        cursors[request.number] = jobs
        job = next(jobs, -1)
        if job >= 0:
            heads[request.number] = job

    def _untried(self, world: World, job: int) -> tuple[tuple[int, ...], Any]:
        """Return the best candidate that has not failed for this job with the same residents."""
        failed = self._failed.get(job, set())
        skip = 0
        while True:
            gpus = self._find(world, job, skip)
            key = (gpus, tuple(tuple(sorted(world.residents(gpu))) for gpu in gpus))
            if not gpus or key not in failed:
                return gpus, key
            skip += 1
