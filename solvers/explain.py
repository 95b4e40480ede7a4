"""Why an instance has no plan, in the words of the domain (docs/exact.md section 4).

:func:`explain` looks, in this order, for

1. jobs that fit nowhere by themselves (:mod:`solvers.explain_single`), exact and without a solver;
2. a plan: those of policies, then that of an elastic model (:mod:`solvers.explain_judge`);
3. if there is none, jobs in conflict: an infeasible set of jobs, found in crowded intervals or shown by the
   model of all jobs, is made smaller until any one job may be left out to make it feasible. Then the
   smallest set of all is searched for by hitting sets: every conflict contains a job of each complement
   of a feasible set, so where a smallest set that does so is infeasible, no conflict is smaller.
   The jobs of a conflict are set aside, and the rest is looked at again;
4. ways out: by how much each deadline alone, the number of nodes, a threshold or K would have to give, each
   shown by a checked plan, and by a proof that one step less does not do.
"""

from __future__ import annotations

import dataclasses
import logging
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from ortools.sat.python import cp_model

from eaco_opt._validate import real
from eaco_opt.cluster import Node
from eaco_opt.errors import EacoError
from eaco_opt.limits import MAX_SHARE_CAP
from eaco_opt.physics import evaluate, plan_schedule
from eaco_opt.policies import POLICIES
from eaco_opt.schedule import Plan
from eaco_opt.sets import LIMIT_TOLERANCE
from eaco_opt.simulator import simulate
from formulations.grid import STEPS_S, deadline_slot, make_grid, release_slot
from formulations.patterns import allowed_types, job_sets

from .explain_judge import Clock, Delay, Judge, Ruling, decide_in_time, sets_at_most
from .explain_single import SharingFacts, alone_reason, late_reason, overload, pressure
from .explain_words import Cause, Conflict, Explanation, Scope, Way, hours, number

if TYPE_CHECKING:
    from eaco_opt.instance import Instance

_LOG = logging.getLogger(__name__)

_CROWDED = 8
_CROWDED_JOBS = 12
_SMALLEST_JOBS = 30
_SMALLEST_S = 10.0
_ONE_WAY_S = 20.0
_ALL_S = 30.0
_LEAST_SLOTS = 12
_MOST_SLOTS = 2_000
_FINER = 8.0
_MOST_STEP_SETS = 20_000


def explain(
    instance: Instance,
    *,
    grid_s: float | str | None = None,
    time_limit_s: float | None = None,
    threads: int = 1,
    seed: int = 0,
    progress: Callable[[str], None] | None = None,
) -> Explanation:
    """Return whether an instance has a static plan, and if not, which jobs conflict and what would help.

    Parameters
    ----------
    instance
        The problem.
    grid_s
        ``None``: in continuous time. A slot length [s], or ``"auto"`` for that of exact methods: on that
        grid.
    time_limit_s
        Wall-clock limit [s]; ``None`` for none.
    threads, seed
        For CP-SAT; with one thread and no limit the answer is the same on every run.
    progress
        Called with what is being done.

    Returns
    -------
    Explanation
        Conflicts of several jobs are looked for on the grid, the automatic one without ``grid_s``; each says
        whether it stands in continuous time as well.

    Raises
    ------
    GridError
        The slot length is unusable.
    """
    if time_limit_s is not None:
        time_limit_s = real("explain", "time_limit_s", time_limit_s, low=0.0)
    clock = Clock(time_limit_s)
    return _Explainer(instance, grid_s, clock, threads, seed, progress or (lambda text: None)).run()


class _Explainer:
    """One call of :func:`explain`."""

    def __init__(
        self,
        instance: Instance,
        grid_s: float | str | None,
        clock: Clock,
        threads: int,
        seed: int,
        tell: Callable[[str], None],
    ) -> None:
        self.instance = instance
        self.clock = clock
        self.tell = tell
        self._threads, self._seed = threads, seed
        self.notes: list[str] = []
        self.on_grid = grid_s is not None
        self.facts = SharingFacts(instance)
        self.fatal = [c for j in range(len(instance.jobs)) if (c := alone_reason(instance, j)) is not None]
        self.able = instance.without([c.jobs[0] for c in self.fatal])
        step_s = None if grid_s in (None, "auto") else float(grid_s)
        # The grid is that of the instance as it was given, with the jobs that fit nowhere.
        self.origin_s = instance.arrays().origin_s
        self.slot_s = make_grid(self.able, step_s).slot_s
        if any(t.wake_s > 0.0 for t in instance.cluster.node_types):
            self.notes.append(
                "wake-up times are left out of proofs: a conflict that only they make is not found"
            )

    # The whole --------------------------------------------------------------------------------------------

    def run(self) -> Explanation:
        """Explain."""
        late = [] if self.on_grid else self._late_jobs(on_grid=False)
        hopeless = [*self.fatal, *late]
        if not hopeless:
            done = self._policies()
            if done is not None:
                return done
        gone = [c.jobs[0] for c in late]
        rounded = [c for c in self._late_jobs(on_grid=True) if c.jobs[0] not in gone]
        gone += [c.jobs[0] for c in rounded]
        snapped = _snapped(self.able, self.slot_s, self.origin_s)
        judge = Judge(self.slot_s, continuous=False, clock=self.clock, threads=self._threads, seed=self._seed)
        groups, complete, plan = self._conflicts(judge, snapped.without(gone))
        groups = [self._scoped(c) for c in groups]
        conflicts = [*hopeless, *rounded, *groups]
        feasible: bool | None = None
        if conflicts:
            certain = self.on_grid or any(c.scope is Scope.ANY_SLOT for c in conflicts)
            feasible = False if certain else None
        elif complete:
            feasible = True
            if plan is None or not self._good(plan):
                feasible = None
        if feasible is None and conflicts:
            done = self._beyond(conflicts)
            if done is not None:
                return done
        delays: tuple[tuple[str, float], ...] = ()
        proved = False
        ways: tuple[Way, ...] = ()
        if conflicts and len(self.fatal) < len(conflicts) and self.clock.left_s() > 0.0:
            self.tell("looking for ways out for all jobs together")
            delay = judge.least_delay(snapped, _with_deadline(snapped), cap_s=_ALL_S)
            if delay is not None:
                later = {name: self._hours_later(name, at) for name, at in delay.deadline_s.items()}
                delays = tuple((j.name, later[j.name]) for j in self.able.jobs if j.name in later)
                proved = delay.proved and self.on_grid
            if len(conflicts) - len(self.fatal) > 1:
                ways = tuple(self._other_ways(judge, snapped))
        result = self._answer(conflicts, feasible, complete=complete, plan=plan)
        return dataclasses.replace(result, delays=delays, delays_proved=proved, ways=ways)

    def _beyond(self, conflicts: Sequence[Conflict]) -> Explanation | None:
        """Return the answer if a plan in continuous time is found, although there is none on the grid."""
        self.tell("looking for a plan in continuous time")
        ruling = self._in_time(self.able, _ALL_S)
        if ruling.plan is None or not self._good(ruling.plan):
            self.notes.append(
                f"no plan on slots of {hours(self.slot_s)}; whether there is one in continuous time is open"
            )
            return None
        names = sorted({name for c in conflicts for name in c.jobs})
        self.notes.append(
            f"on slots of {hours(self.slot_s)} there is no plan, only because times are rounded to slots "
            f"(see jobs {', '.join(names[:10])}): solve on shorter slots, or give the slot length to see why"
        )
        return self._answer((), True, complete=True, plan=ruling.plan)

    def _in_time(self, part: Instance, cap_s: float) -> Ruling:
        return decide_in_time(
            part,
            _slots_s(part, make_grid(part).slot_s),
            self.clock,
            threads=self._threads,
            seed=self._seed,
            cap_s=cap_s,
        )

    def _good(self, plan: Plan) -> bool:
        grid_s = self.slot_s if self.on_grid else None
        return evaluate(self.instance, plan, grid_s=grid_s).feasible

    def _answer(
        self,
        conflicts: Sequence[Conflict],
        feasible: bool | None,
        *,
        complete: bool,
        plan: Plan | None,
        method: str = "explain",
    ) -> Explanation:
        witness = objective = None
        if feasible and plan is not None:
            grid_s = self.slot_s if self.on_grid else None
            objective = evaluate(self.instance, plan, grid_s=grid_s).objective
            witness = plan_schedule(self.instance, plan, grid_s=grid_s, method=method)
        stop = "time-limit" if self.clock.ran_out else "finished"
        return Explanation(
            feasible=feasible,
            conflicts=tuple(conflicts),
            in_time=not self.on_grid,
            slot_s=self.slot_s,
            complete=complete,
            delays=(),
            delays_proved=False,
            ways=(),
            witness=witness,
            objective=objective,
            stop_reason="interrupted" if self.clock.interrupted else stop,
            seconds=self.clock.spent_s(),
            notes=tuple(self.notes),
        )

    # Jobs by themselves ---------------------------------------------------------------------------------

    def _late_jobs(self, *, on_grid: bool) -> list[Conflict]:
        slot_s = self.slot_s if on_grid else None
        found = (
            late_reason(self.able, j, self.facts, slot_s, self.origin_s) for j in range(len(self.able.jobs))
        )
        return [c for c in found if c is not None]

    def _policies(self) -> Explanation | None:
        """Return the answer if some policy serves all jobs in time."""
        self.tell("trying policies")
        for name in ("eaco", "fifo"):
            if not self.instance.jobs or self.clock.left_s() <= 0.0:
                continue
            try:
                grid_s = self.slot_s if self.on_grid else None
                done = simulate(self.instance, POLICIES.get(name)(), self._seed, grid_s=grid_s)
            except EacoError as error:
                _LOG.info("explain: policy %s does not serve all jobs: %s", name, error)
                continue
            segments = {s.job: s for s in done.schedule.segments}
            if len(done.schedule.segments) != len(self.instance.jobs) or len(segments) != len(
                self.instance.jobs
            ):
                continue
            view = self.instance.arrays()
            numbers = [view.gpu_number("plan", g) for j in self.instance.jobs for g in segments[j.name].gpus]
            start = np.array([segments[j.name].start_s for j in self.instance.jobs])
            plan = Plan(start, np.array(numbers, dtype=np.int64))
            try:
                if self._good(plan):
                    return self._answer((), True, complete=True, plan=plan, method=name)
            except EacoError:
                continue
        return None

    # Jobs in conflict -----------------------------------------------------------------------------------

    def _conflicts(self, judge: Judge, rest: Instance) -> tuple[list[Conflict], bool, Plan | None]:
        """Return conflicts that share no job, whether the others can be served, and a plan of all."""
        out: list[Conflict] = []
        aside: list[str] = []
        while True:
            sets = _Sets(judge, rest.without(aside), self.facts.harmless)
            self.tell(f"looking for jobs in conflict among {len(sets.names)}")
            some, ruling = self._some_conflict(sets)
            if some is None:
                if ruling.possible is not True:
                    return out, False, None
                plan = ruling.plan if not aside else None
                if plan is not None:
                    plan = _moved(plan, self.origin_s)
                return out, True, plan
            self.tell(f"making a conflict of {len(some)} jobs smaller")
            some, minimal = sets.shrunk(some)
            smallest = len(some) == 1
            if minimal and not smallest and len(sets.names) <= _SMALLEST_JOBS:
                self.tell(f"looking for a conflict of fewer than {len(some)} jobs")
                some, smallest = sets.smallest(some, self.clock.within(_SMALLEST_S))
            self.tell(f"looking for ways out of a conflict of {len(some)} jobs")
            out.append(self._described(judge, sets, some, minimal, smallest))
            aside += some

    def _some_conflict(self, sets: _Sets) -> tuple[frozenset[str] | None, Ruling]:
        """Return jobs in conflict, or what is known about all jobs."""
        rest = sets.instance
        if not sets.names:
            return None, sets.judge.decide(rest)
        crowd = overload(rest, self.facts)
        if crowd is not None:
            some = frozenset(rest.jobs[j].name for j in crowd)
            sets.learn(some, possible=False)
            return some, Ruling(possible=False)
        if len(rest.jobs) > _CROWDED_JOBS:
            for jobs in pressure(rest, _CROWDED_JOBS)[:_CROWDED]:
                some = frozenset(rest.jobs[j].name for j in jobs)
                if sets.possible(some, cap_s=5.0) is False:
                    return some, Ruling(possible=False)
        ruling = sets.ruling(sets.names)
        if ruling.possible is False:
            return sets.names, ruling
        if ruling.possible is None:
            # All together are too hard, or undecided; jobs that lie close together may not be.
            for some in _neighbours(rest):
                if self.clock.left_s() > 0.0 and sets.possible(some, cap_s=10.0) is False:
                    return some, Ruling(possible=False)
        return None, ruling

    def _described(
        self, judge: Judge, sets: _Sets, some: frozenset[str], minimal: bool, smallest: bool
    ) -> Conflict:
        rest = sets.instance
        jobs = tuple(j.name for j in rest.jobs if j.name in some)
        part = rest.without([j.name for j in rest.jobs if j.name not in some])
        deadlines: list[Way] = []
        for name in _with_deadline(part):
            delay = self.clock.left_s() > 0.0 and judge.least_delay(part, [name], cap_s=_ONE_WAY_S)
            if delay and name in delay.deadline_s:
                deadlines.append(self._delay_way(name, delay))
        others = list(self._other_ways(judge, part))
        cause = Cause.CAPACITY
        amount, unit = min(
            ((w.amount, w.unit) for w in deadlines if w.amount is not None), default=(None, "h")
        )
        if len(jobs) == 1:  # late even in the fastest company that there really can be
            cause = Cause.DEADLINE
        for change, named in (
            ("mem_threshold", Cause.MEMORY),
            ("gpu-memory", Cause.MEMORY),
            ("u_threshold", Cause.UTILISATION),
            ("max_share", Cause.MAX_SHARE),
            ("exclusive", Cause.EXCLUSIVE),
            ("cannot-share", Cause.CANNOT_SHARE),
        ):
            way = next((w for w in others if w.change == change), None)
            if way is not None:
                cause = named
                if way.amount is not None:
                    amount, unit = way.amount, way.unit
                break
        ways = (*sorted(deadlines, key=lambda w: w.amount or 0.0), *others)
        return Conflict(
            jobs=jobs,
            cause=cause,
            amount=amount,
            unit=unit,
            text=self._text(part, cause, ways, minimal=minimal, smallest=smallest),
            scope=Scope.UNKNOWN,
            minimal=minimal,
            smallest=smallest,
            ways=ways,
        )

    def _text(
        self, part: Instance, cause: Cause, ways: Sequence[Way], *, minimal: bool, smallest: bool
    ) -> str:
        names = ", ".join(repr(j.name) for j in part.jobs)
        nodes = len(part.cluster.nodes)
        where = f" on slots of {hours(self.slot_s)}"
        if len(part.jobs) == 1:
            text = f"job {names} cannot end in time on {nodes} node(s){where}"
        else:
            text = f"jobs {names} cannot all end in time on {nodes} node(s){where}"
        reason = {
            Cause.MEMORY: "memory keeps them from sharing GPUs",
            Cause.UTILISATION: "u_threshold keeps them from sharing GPUs",
            Cause.MAX_SHARE: "K, the most jobs on a GPU, keeps them from sharing",
            Cause.EXCLUSIVE: "exclusive jobs keep their GPUs to themselves",
            Cause.CANNOT_SHARE: "pairs that cannot share keep them apart",
            Cause.CAPACITY: "there are too few nodes for these deadlines",
        }.get(cause, "")
        text += f": {reason}"
        if smallest:
            text += ". No smaller set of jobs is in conflict"
        elif minimal:
            text += ". Without any one of them the others could be served; it is the smallest set found"
        else:
            text += ". It is the smallest set found"
        if ways:
            text += ". Any one of these would do: " + "; ".join(w.text for w in ways)
        return text

    # Ways out -------------------------------------------------------------------------------------------

    def _hours_later(self, name: str, at_s: float) -> float:
        """Return by how much a job's deadline has to give [h] to lie at a time on the judges' axis."""
        own = next(j for j in self.instance.jobs if j.name == name)
        return (at_s + self.origin_s - own.deadline_s) / 3600.0

    def _delay_way(self, name: str, delay: Delay) -> Way:
        later_h = self._hours_later(name, delay.deadline_s[name])
        # Beyond the grid a delay of less than a slot may do.
        proved = delay.proved and self.on_grid
        more = "" if proved else "at most "
        return Way(
            change="deadline",
            job=name,
            node_type=None,
            amount=later_h,
            unit="h",
            proved=proved,
            text=f"{name!r} a deadline {more}{hours(3600.0 * later_h)} later",
        )

    def _other_ways(self, judge: Judge, part: Instance) -> Iterator[Way]:
        """Yield changes of cluster and limits that make a part feasible, the least of each."""
        cluster = part.cluster
        for node_type in cluster.node_types:
            k = cluster.node_types.index(node_type)
            guests = [j for j in range(len(part.jobs)) if not math.isinf(part.arrays().tau_s[j, k])]
            most = sum(math.ceil(part.jobs[j].gpus / node_type.gpus) for j in guests)
            counts = [float(n) for n in range(1, most + 1)]
            found = self._least(judge, counts, partial(_with_nodes, part, node_type.name))
            if found is not None:
                n, proved = int(found[0]), found[1]
                yield Way(
                    change="nodes", job=None, node_type=node_type.name, amount=float(n), unit="nodes",
                    proved=proved,
                    text=f"{'' if proved else 'at most '}{n} more node(s) of type {node_type.name!r}",
                )  # fmt: skip
        if len(part.jobs) < 2:
            return
        limits = part.limits
        u, memory = _steps(part)

        def limited(**new: float) -> Instance:
            return dataclasses.replace(part, limits=dataclasses.replace(limits, **new))  # type: ignore[arg-type]

        steps = [x for x in u if x > limits.u_threshold + LIMIT_TOLERANCE]
        found = self._least(judge, steps, lambda x: limited(u_threshold=x))
        if found is not None:
            yield _limit_way("u_threshold", found, limits.u_threshold, "fraction")
        shares = sorted({m / g for m, g in memory})
        steps = [x for x in shares if limits.mem_threshold + LIMIT_TOLERANCE < x <= 1.0]
        found = self._least(judge, steps, lambda x: limited(mem_threshold=x))
        if found is not None:
            yield _limit_way("mem_threshold", found, limits.mem_threshold, "fraction")
        else:
            more = sorted({m / limits.mem_threshold - g for m, g in memory})
            steps = [x for x in more if x > LIMIT_TOLERANCE]
            found = self._least(judge, steps, lambda x: _with_memory(part, x))
            if found is not None:
                most_word = "" if found[1] else "at most "
                yield Way(
                    change="gpu-memory", job=None, node_type=None, amount=found[0], unit="GiB",
                    proved=found[1], text=f"{most_word}{number(found[0])} GiB more memory on each GPU",
                )  # fmt: skip
        top = min(MAX_SHARE_CAP, len(part.jobs))
        found = self._least(
            judge,
            [float(x) for x in range(limits.max_share + 1, top + 1)],
            lambda x: limited(max_share=int(x)),
        )
        if found is not None:
            yield _limit_way("max_share", found, limits.max_share, "jobs")
        if any(j.exclusive for j in part.jobs):
            shared = tuple(dataclasses.replace(j, exclusive=False) for j in part.jobs)
            if self._does(judge, dataclasses.replace(part, jobs=shared)):
                yield Way(
                    change="exclusive", job=None, node_type=None, amount=None, unit="", proved=True,
                    text="the exclusive jobs among them shareable",
                )  # fmt: skip
        if part.truth.cannot_share:
            truth = dataclasses.replace(part.truth, cannot_share=())
            if self._does(judge, dataclasses.replace(part, truth=truth)):
                yield Way(
                    change="cannot-share", job=None, node_type=None, amount=None, unit="", proved=True,
                    text="pairs that cannot share allowed to (at the slowdown of the model)",
                )  # fmt: skip

    def _does(self, judge: Judge, changed: Instance) -> bool | None:
        if self.clock.left_s() <= 0.0:
            return None
        return judge.decide(changed, cap_s=_ONE_WAY_S).possible

    def _least(
        self, judge: Judge, steps: Sequence[float], changed: Callable[[float], Instance]
    ) -> tuple[float, bool] | None:
        """Return the least step that does, by bisection, and whether the one before is proved not to.

        In continuous time only where that is the present state, the conflict itself: the judge knows slots
        only.
        """
        if not steps or self._does(judge, changed(steps[-1])) is not True:
            return None
        low, high, proved = -1, len(steps) - 1, True
        while high - low > 1:
            middle = low + 1 if low < 0 and high < 4 else (low + high) // 2
            answer = self._does(judge, changed(steps[middle]))
            if answer is True:
                high = middle
            else:
                low, proved = middle, answer is False
        return steps[high], proved and (self.on_grid or high == 0)

    def _scoped(self, conflict: Conflict) -> Conflict:
        """Return the conflict with its scope: does it stand in continuous time as well?"""
        part = self.able.without([j.name for j in self.able.jobs if j.name not in conflict.jobs])
        crowded = overload(part, self.facts) is not None
        possible = False if crowded else self._in_time(part, _ONE_WAY_S).possible
        if possible is None:
            return conflict
        scope = Scope.THIS_GRID if possible else Scope.ANY_SLOT
        more = (
            ". Only the rounding to slots makes this conflict: a shorter slot would do"
            if possible
            else ". It stands in continuous time as well"
        )
        return dataclasses.replace(conflict, scope=scope, text=conflict.text + more)


class _Sets:
    """What is known about which jobs can be served together.

    Parameters
    ----------
    judge
        Who decides.
    instance
        All jobs that are looked at.
    harmless
        Whether jobs may simply be left out. If not, they stay in the model and may help the others.
    """

    def __init__(self, judge: Judge, instance: Instance, harmless: bool) -> None:
        self.judge = judge
        self.instance = instance
        self.names = frozenset(j.name for j in instance.jobs)
        self._harmless = harmless
        self._yes: list[frozenset[str]] = []
        self._no: list[frozenset[str]] = []

    def learn(self, some: frozenset[str], *, possible: bool) -> None:
        """Take in what is known: subsets of feasible sets are feasible, supersets of others are not."""
        (self._yes if possible else self._no).append(some)

    def ruling(self, some: frozenset[str], cap_s: float = math.inf) -> Ruling:
        """Return whether some jobs can all be served, with a plan."""
        others = [name for name in sorted(self.names - some)]
        if self._harmless:
            ruling = self.judge.decide(self.instance.without(others), cap_s=cap_s)
        else:
            ruling = self.judge.decide(self.instance, optional=frozenset(others), cap_s=cap_s)
        if ruling.possible is not None:
            self.learn(some, possible=ruling.possible)
        return ruling

    def possible(self, some: frozenset[str], cap_s: float = math.inf) -> bool | None:
        """Return whether some jobs can all be served; ``None`` if that is not known within the limits."""
        if any(some <= known for known in self._yes):
            return True
        if any(some >= known for known in self._no):
            return False
        if self.judge.clock.left_s() <= 0.0:
            return None
        return self.ruling(some, cap_s).possible

    def shrunk(self, some: frozenset[str]) -> tuple[frozenset[str], bool]:
        """Return a conflict within a conflict that needs each of its jobs, and whether that is shown.

        Jobs are left out in chunks that get smaller; at last one by one.
        """
        view = self.instance.arrays()
        place = {job.name: i for i, job in enumerate(self.instance.jobs)}

        def when(name: str) -> tuple[float, float, int]:
            i = place[name]
            return float(view.deadline_s[i]), float(view.release_s[i]), i

        kept = sorted(some, key=when)
        chunk = max(1, len(kept) // 2)
        minimal = True
        while True:
            at = 0
            minimal = True
            while at < len(kept) and len(kept) > 1:
                without = frozenset(kept[:at] + kept[at + chunk :])
                answer = self.possible(without, cap_s=10.0) if without else True
                if answer is False:
                    kept = [name for name in kept if name in without]
                else:
                    minimal = minimal and answer is True
                    at += chunk
            if chunk == 1:
                return frozenset(kept), minimal
            chunk = max(1, chunk // 2)

    def smallest(self, some: frozenset[str], limit_s: float | None) -> tuple[frozenset[str], bool]:
        """Return a conflict of the fewest jobs, and whether that is proved."""
        clock = Clock(limit_s)
        rest = sorted(self.names)
        while clock.left_s() > 0.0 and self.judge.clock.left_s() > 0.0:
            hit = _hitting_set(rest, [self.names - yes for yes in self._yes])
            if hit is None:
                return some, False
            if len(hit) >= len(some):
                return some, True
            answer = self.possible(hit, cap_s=5.0)
            if answer is False:
                return hit, True
            if answer is None:
                return some, False
            # As many others as can be served beside them: the complement tells more the smaller it is.
            more = self._grown(hit)
            self.learn(more, possible=True)
        return some, False

    def _grown(self, hit: frozenset[str]) -> frozenset[str]:
        if self._harmless:
            return self.judge.serve_most(self.instance, hit, cap_s=2.0) or hit
        grown = hit
        for name in sorted(self.names - grown):
            if self.possible(grown | {name}, cap_s=2.0) is True:
                grown |= {name}
        return grown


def _hitting_set(names: Sequence[str], groups: Iterable[frozenset[str]]) -> frozenset[str] | None:
    """Return the fewest names such that each group holds one of them; ``None`` if a group is empty."""
    model = cp_model.CpModel()
    pick = {name: model.new_bool_var(name) for name in names}
    for group in groups:
        if not group:
            return None
        model.add_bool_or(pick[name] for name in sorted(group))
    model.minimize(sum(pick.values()))
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.max_time_in_seconds = 5.0
    if solver.solve(model) != cp_model.OPTIMAL:
        return None
    return frozenset(name for name, literal in pick.items() if solver.boolean_value(literal))


def _snapped(instance: Instance, slot_s: float, origin_s: float) -> Instance:
    """Return the same problem on the grid, with times counted from the grid's origin, on slot boundaries.

    So instances with fewer jobs have their slots in the same places.
    """
    jobs = []
    for job in instance.jobs:
        deadline_s = math.inf
        if math.isfinite(job.deadline_s):
            deadline_s = deadline_slot(job.deadline_s - origin_s, slot_s) * slot_s
        first = release_slot(job.release_s - origin_s, slot_s)
        jobs.append(dataclasses.replace(job, release_s=first * slot_s, deadline_s=deadline_s))
    return dataclasses.replace(instance, jobs=tuple(jobs))


def _moved(plan: Plan, by_s: float) -> Plan:
    return Plan(plan.start_s + by_s, plan.gpus)


def _slots_s(instance: Instance, slot_s: float) -> list[float]:
    """Return slot lengths [s] for continuous time, from long ones to some shorter than the automatic one."""
    view = instance.arrays()
    ends = view.deadline_s[np.isfinite(view.deadline_s)]
    span_s = float(ends.max()) if len(ends) else _LEAST_SLOTS * slot_s
    steps = [x for x in STEPS_S if x > slot_s and span_s / x >= _LEAST_SLOTS]
    steps.append(slot_s)
    while slot_s / steps[-1] < _FINER and span_s / steps[-1] * 2.0 <= _MOST_SLOTS:
        steps.append(steps[-1] / 2.0)
    return steps


def _with_deadline(instance: Instance) -> tuple[str, ...]:
    return tuple(j.name for j in instance.jobs if math.isfinite(j.deadline_s))


def _neighbours(instance: Instance) -> Iterator[frozenset[str]]:
    """Yield jobs that are released one after another, in groups that grow and overlap by half."""
    names = [j.name for j in sorted(instance.jobs, key=lambda j: (j.release_s, j.submit_index))]
    size = 4
    while size < len(names):
        for at in range(0, len(names) - size // 2, size // 2):
            yield frozenset(names[at : at + size])
        size *= 2


def _with_nodes(instance: Instance, node_type: str, number_of_nodes: float) -> Instance:
    """Return the instance with more nodes of a type."""
    more = int(number_of_nodes)
    cluster = instance.cluster
    used = {n.name for n in cluster.nodes}
    free = (name for i in range(len(used) + more) if (name := f"extra{i}") not in used)
    nodes = tuple(Node(name=next(free), node_type=node_type) for _ in range(more))
    return dataclasses.replace(instance, cluster=dataclasses.replace(cluster, nodes=(*cluster.nodes, *nodes)))


def _with_memory(instance: Instance, more_gib: float) -> Instance:
    """Return the instance with more memory on each GPU."""
    cluster = instance.cluster
    types = tuple(
        dataclasses.replace(t, gpu_memory_gib=t.gpu_memory_gib + more_gib) for t in cluster.node_types
    )
    return dataclasses.replace(instance, cluster=dataclasses.replace(cluster, node_types=types))


def _steps(instance: Instance) -> tuple[list[float], set[tuple[float, float]]]:
    """Return where limits admit more: values of u_threshold, and (memory of a set, memory of a GPU) [GiB].

    Each limit is lifted by itself, and the sets that then may meet are asked what they need.
    """
    if sets_at_most(instance) > _MOST_STEP_SETS:
        return [], set()
    loads: set[float] = set()
    memory: set[tuple[float, float]] = set()
    loose = dataclasses.replace(instance, limits=dataclasses.replace(instance.limits, u_threshold=1e9))
    for _, number_of_set in _all_sets(loose):
        loads.add(float(loose.arrays().sets.u_need[number_of_set]))
    roomy = _with_memory(instance, 1e9)
    for k, number_of_set in _all_sets(roomy):
        need = float(roomy.arrays().sets.memory_need_gib[number_of_set])
        memory.add((need, instance.cluster.node_types[k].gpu_memory_gib))
    return sorted(loads), memory


def _all_sets(instance: Instance) -> Iterator[tuple[int, int]]:
    view = instance.arrays()
    # Only the order of these numbers is looked at: windows may be given in seconds.
    spans = [(float(r), float(d)) for r, d in zip(view.release_s, view.deadline_s, strict=True)]
    for k in sorted({int(x) for x in view.node_type}):
        jobs = [j for j in range(len(instance.jobs)) if k in allowed_types(instance, j)]
        for found in job_sets(instance, k, jobs, spans):  # type: ignore[arg-type]
            yield k, found.number


def _limit_way(limit: str, found: tuple[float, bool], now: float, unit: str) -> Way:
    value, proved = found
    label = {"max_share": "K (most jobs on a GPU)"}.get(limit, limit)
    return Way(
        change=limit,
        job=None,
        node_type=None,
        amount=round(value - now, 12),
        unit=unit,
        proved=proved,
        text=f"{label} {'' if proved else 'at most '}{number(value)} instead of {number(now)}",
    )


__all__ = ["Cause", "Conflict", "Explanation", "Scope", "Way", "explain"]
