"""Can some jobs all be served? Answered with a checked plan, or with a proof that there is none.

On a grid both answers come from one elastic model (:mod:`formulations.elastic`). In continuous time two
models stand on either side of the truth:

- **inner**: the grid itself. A plan on slots is, run in continuous time, only faster.
- **outer**: a relaxation on slots. Map a run [s, e) of any plan to the slots floor(s/D) to floor(e/D). Jobs
  that meet in a slot of the image have met in time, so sets stay admissible and GPUs suffice. A job that
  never is slowed down keeps at least floor(length/D) slots. One that is slowed keeps work of at least
  n_j - v - m (v - w) epochs, v and w being the most and the least it does in a slot, m the number of jobs it
  can meet: the last slot may be cut off, and in the slot in which a companion starts the image may count
  it too early. With these needs, and windows rounded outward, no plan on slots means none in time.

The outer model needs that company only ever slows down (:class:`solvers.explain_single.SharingFacts`).
Between the two the order of starts of an outer plan is tried in continuous time. Where wake-ups take time,
the inner model delays every release by it, and the outer one leaves it out.
"""

from __future__ import annotations

import dataclasses
import logging
import math
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from eaco_opt.checker import check
from eaco_opt.errors import EacoError
from eaco_opt.physics import evaluate, plan_schedule
from eaco_opt.profile import EpochTime, Profile
from eaco_opt.result import Status
from eaco_opt.schedule import Plan
from formulations.base import FormulationError, GridError
from formulations.elastic import ElasticModel, Found
from formulations.grid import make_grid
from formulations.patterns import allowed_types
from formulations.space import Space

from .explain_single import SharingFacts

if TYPE_CHECKING:
    from eaco_opt.instance import Instance
    from eaco_opt.job import Job
    from eaco_opt.schedule import Schedule

_LOG = logging.getLogger(__name__)

MOST_SETS = 200_000
"""Job sets, by an upper estimate, up to which a model is built at all."""

MOST_CELLS = 3_000_000
"""Sets times slots up to which a model is built: about a minute and a gigabyte."""

_EPOCH_BITS = 20
_FIRST_LATE_SLOTS = 8
_MOST_LATE_SLOTS = 2**16


class Clock:
    """A wall-clock limit, and whether somebody pressed Ctrl-C."""

    def __init__(self, limit_s: float | None) -> None:
        self.began = time.monotonic()
        self._end = math.inf if limit_s is None else self.began + limit_s
        self.interrupted = False
        self.ran_out = False

    def left_s(self) -> float:
        """Return the time left [s]; none after an interrupt."""
        left = 0.0 if self.interrupted else max(0.0, self._end - time.monotonic())
        if left == 0.0:
            self.ran_out = True
        return left

    def spent_s(self) -> float:
        """Return the time since the beginning [s]."""
        return time.monotonic() - self.began

    def within(self, cap_s: float) -> float | None:
        """Return the lesser of the time left and a cap [s], ``None`` for no limit."""
        limit = min(self.left_s(), cap_s)
        return None if math.isinf(limit) else limit


@dataclass(frozen=True, slots=True, kw_only=True)
class Ruling:
    """Whether an instance has a plan; ``None``: not known.

    Attributes
    ----------
    possible
        See above.
    instance, plan
        A plan, and the instance it is for; ``None`` without one.
    too_hard
        Whether a limit was reached: shorter slots would not help.
    """

    possible: bool | None
    too_hard: bool = False
    instance: Instance | None = None
    plan: Plan | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Delay:
    """Later deadlines that make an instance feasible.

    Attributes
    ----------
    deadline_s
        {job: the deadline it then needs [s], on the axis of the judge's instances}, those that change.
    total_s, least_s
        Their delays in total, and a proved lower bound of it [s].
    """

    deadline_s: Mapping[str, float]
    total_s: float
    least_s: float

    @property
    def proved(self) -> bool:
        """Whether no less would do."""
        return self.total_s <= self.least_s * (1.0 + 1e-9) + 1e-3


class Judge:
    """Decides for subsets and variants of one instance, with slots of one length.

    Parameters
    ----------
    slot_s
        Slot length of the models [s].
    continuous
        Whether the question is about continuous time; else about the grid.
    clock
        Limit of all work together.
    threads, seed
        For the solver.
    """

    def __init__(self, slot_s: float, *, continuous: bool, clock: Clock, threads: int, seed: int) -> None:
        self.slot_s = slot_s
        self.continuous = continuous
        self.clock = clock
        self._threads = threads
        self._seed = seed

    # Questions ------------------------------------------------------------------------------------------

    def decide(
        self, instance: Instance, *, optional: frozenset[str] = frozenset(), cap_s: float = math.inf
    ) -> Ruling:
        """Decide whether there is a plan.

        Parameters
        ----------
        instance
            The problem; on a grid, its times are slot boundaries.
        optional
            Names of jobs that may be left out.
        cap_s
            Limit of this question [s].
        """
        if not instance.jobs:
            return Ruling(
                possible=True, instance=instance, plan=Plan(np.zeros(0), np.zeros(0, dtype=np.int64))
            )
        found = self._solve(self._inner(instance), optional, cap_s)
        if found is not None and found.end is not None:
            if found.plan is None:
                away = [j.name for i, j in enumerate(instance.jobs) if i not in found.served]
                return self.decide(instance.without(away), cap_s=cap_s)
            if self._holds(instance, found.plan):
                return Ruling(possible=True, instance=instance, plan=found.plan)
        if found is None or found.status is Status.UNKNOWN:
            return Ruling(possible=None, too_hard=True)
        outer = self._outer(instance)
        if outer is None:
            return Ruling(possible=None)
        if outer is not instance or self._wakes(instance):
            found = self._solve(outer, optional, cap_s)
            if found is None or found.status is Status.UNKNOWN:
                return Ruling(possible=None, too_hard=True)
            if found.plan is not None and self.continuous and not optional:
                settled = self._settle(instance, outer, found.plan)
                if settled is not None:
                    return Ruling(possible=True, instance=instance, plan=settled)
        return Ruling(possible=False if found.status is Status.INFEASIBLE else None)

    def least_delay(self, instance: Instance, late: Iterable[str], cap_s: float = math.inf) -> Delay | None:
        """Return the least total delay of some jobs' deadlines that makes an instance feasible on the grid.

        ``None`` if none is found within the limits.
        """
        names = frozenset(late)
        inner = self._inner(instance)
        found = self._least_late(inner, names, cap_s)
        if found is None or found.plan is None or found.value is None:
            return None
        outcome = evaluate(
            self._loosened(instance, names, max(found.value, 1)), found.plan, grid_s=self.slot_s
        )
        deadline_s = {}
        total_s = 0.0
        for i, job in enumerate(instance.jobs):
            end_s = float(outcome.jobs.end_s[i])
            late_s = end_s - job.deadline_s
            if job.name in names and late_s > 0.5 * self.slot_s:
                deadline_s[job.name] = end_s
                total_s += late_s
        if not self._holds(_with_deadlines(instance, deadline_s), found.plan):
            return None
        least_s = 0.0 if self._wakes(instance) else (found.bound or 0) * self.slot_s
        return Delay(deadline_s=deadline_s, total_s=total_s, least_s=min(least_s, total_s))

    def _least_late(self, inner: Instance, names: frozenset[str], cap_s: float) -> Found | None:
        """Return the least total lateness on the grid; each job may be late by more and more slots."""
        until_s = self.clock.spent_s() + cap_s
        most = 1 if len(names) == 1 else _FIRST_LATE_SLOTS
        found: Found | None = None
        while (left_s := until_s - self.clock.spent_s()) > 0.0 and most <= _MOST_LATE_SLOTS:
            # A third, so that a larger cap, which is easier to meet, gets its turn.
            found = self._late(inner, names, most, left_s if math.isinf(left_s) else max(1.0, left_s / 3))
            if found is None or found.plan is not None:
                break
            most *= 2
        if found is None or found.value is None:
            return None
        # A plan with a job later than the cap was not looked at: it has at least that much lateness.
        kept = dataclasses.replace(found, bound=min(found.bound or 0, most + 1))
        left_s = until_s - self.clock.spent_s()
        if found.value <= most or left_s <= 0.0:
            return kept
        wider = self._late(inner, names, found.value, left_s)
        better = wider is not None and wider.value is not None and wider.value <= found.value
        return wider if better else kept

    # Models ---------------------------------------------------------------------------------------------

    def _late(self, instance: Instance, names: frozenset[str], most: int, cap_s: float) -> Found | None:
        loose = self._loosened(instance, names, most)
        space = self._space(loose)
        if space is None:
            return None
        origin_s = instance.arrays().origin_s
        due = {
            i: round((job.deadline_s - origin_s) / self.slot_s)
            for i, job in enumerate(instance.jobs)
            if job.name in names and math.isfinite(job.deadline_s)
        }
        return self._kept(
            ElasticModel(space).least_lateness(
                due, time_limit_s=self.clock.within(cap_s), threads=self._threads, seed=self._seed
            )
        )

    def _loosened(self, instance: Instance, names: frozenset[str], slots: int) -> Instance:
        return _with_deadlines(
            instance, {j.name: j.deadline_s + slots * self.slot_s for j in instance.jobs if j.name in names}
        )

    def _solve(self, instance: Instance, optional: frozenset[str], cap_s: float) -> Found | None:
        if self.clock.left_s() <= 0.0:
            return None
        if not instance.jobs:
            return Found(status=Status.OPTIMAL)
        space = self._space(instance)
        if space is None:
            return None
        hopeless = [instance.jobs[j].name for j in space.windows.hopeless()]
        if optional and hopeless:
            if not optional.issuperset(hopeless):
                return Found(status=Status.INFEASIBLE)
            # Numbers of jobs change, so the answer names those that are served by their old ones.
            return self._without(instance, hopeless, optional, cap_s)
        free = [i for i, job in enumerate(instance.jobs) if job.name in optional]
        model = ElasticModel(space, optional=free)
        return self._kept(
            model.find(time_limit_s=self.clock.within(cap_s), threads=self._threads, seed=self._seed)
        )

    def _without(
        self, instance: Instance, away: list[str], optional: frozenset[str], cap_s: float
    ) -> Found | None:
        rest = instance.without(away)
        found = self._solve(rest, optional - set(away), cap_s)
        if found is None or found.end is None:
            return found
        old = {job.name: i for i, job in enumerate(instance.jobs)}
        number = {i: old[job.name] for i, job in enumerate(rest.jobs)}
        return dataclasses.replace(
            found,
            plan=None,
            served=frozenset(number[i] for i in found.served),
            end={number[i]: e for i, e in found.end.items()},
        )

    def serve_most(self, instance: Instance, required: Iterable[str], cap_s: float) -> frozenset[str] | None:
        """Return the names of many jobs that can be served, those required among them, or ``None``."""
        wanted = frozenset(required)
        space = self._space(self._inner(instance))
        if space is None or space.windows.hopeless():
            return None
        model = ElasticModel(space, optional=[i for i, j in enumerate(instance.jobs) if j.name not in wanted])
        found = self._kept(
            model.serve_most(time_limit_s=self.clock.within(cap_s), threads=self._threads, seed=self._seed)
        )
        return None if found.end is None else frozenset(instance.jobs[i].name for i in found.served)

    def _kept(self, found: Found) -> Found:
        if found.interrupted:
            self.clock.interrupted = True
        return found

    def _space(self, instance: Instance) -> Space | None:
        """Return the decisions, ``None`` where the model would be too large."""
        if self.clock.left_s() <= 0.0 or sets_at_most(instance) > MOST_SETS:
            return None
        try:
            space = Space(instance, make_grid(instance, self.slot_s))
        except GridError:
            return None
        if sum(p.found.last - p.found.first for p in space.patterns) > MOST_CELLS:
            return None
        return space

    # The two sides --------------------------------------------------------------------------------------

    def _wakes(self, instance: Instance) -> bool:
        return any(t.wake_s > 0.0 for t in instance.cluster.node_types)

    def _inner(self, instance: Instance) -> Instance:
        """Return an instance on the grid each of whose plans is one of the instance."""
        if not self._wakes(instance):
            return instance
        wake_s = max(t.wake_s for t in instance.cluster.node_types)
        if not self.continuous:
            wake_s = math.ceil(wake_s / self.slot_s - 1e-9) * self.slot_s
        jobs = tuple(dataclasses.replace(j, release_s=j.release_s + wake_s) for j in instance.jobs)
        return dataclasses.replace(without_wakes(instance), jobs=jobs)

    def _outer(self, instance: Instance) -> Instance | None:
        """Return an instance on the grid that has a plan wherever the instance has; ``None`` without one."""
        if not self.continuous:
            return without_wakes(instance) if self._wakes(instance) else instance
        facts = SharingFacts(instance)
        if not facts.harmless:
            return None
        view = instance.arrays()
        base_s = view.origin_s
        jobs: list[Job] = []
        profiles: dict[str, Profile] = {}
        for j, job in enumerate(instance.jobs):
            need = self._least_need(instance, j, facts)
            if need is None:
                continue
            epochs, tau_s = need
            profile = instance.profile(job.profile)
            name = f"{profile.name} of {job.name}"
            profiles[name] = dataclasses.replace(
                profile,
                name=name,
                epoch_times=tuple(EpochTime(gpu_type=t, epoch_time_s=s) for t, s in tau_s.items()),
            )
            first = math.floor((job.release_s - base_s) / self.slot_s + 1e-9)
            deadline_s = job.deadline_s
            if math.isfinite(deadline_s):
                last = math.floor((job.deadline_s - base_s) / self.slot_s + 1e-9)
                deadline_s = base_s + last * self.slot_s
            jobs.append(
                dataclasses.replace(
                    job, profile=name, epochs=epochs, release_s=base_s + first * self.slot_s,
                    deadline_s=deadline_s,
                )
            )  # fmt: skip
        used = {job.profile for job in instance.jobs}
        kinds = tuple(p for p in instance.profiles if p.name not in used)
        return dataclasses.replace(
            without_wakes(instance), jobs=tuple(jobs), profiles=(*profiles.values(), *kinds)
        )

    def _least_need(
        self, instance: Instance, j: int, facts: SharingFacts
    ) -> tuple[int, dict[str, float]] | None:
        """Return epochs and {GPU type: epoch time [s]} of a job in the outer model; ``None``: no work."""
        view = instance.arrays()
        types = instance.cluster.node_types
        c = int(view.job_class[j])
        mates = sum(
            1
            for i in range(len(instance.jobs))
            if i != j
            and facts.can_meet(c, int(view.job_class[i]))
            and view.release_s[i] < view.deadline_s[j]
            and view.release_s[j] < view.deadline_s[i]
        )
        allowed = allowed_types(instance, j)
        taus = {float(view.tau_s[j, k]) for k in allowed}
        slowest = {k: facts.slowest(c, k) if mates else 1.0 for k in allowed}
        epochs = float(view.epochs[j])
        if len(taus) == 1 and all(s == 1.0 for s in slowest.values()):
            slots = math.floor(epochs * taus.pop() / self.slot_s * (1.0 + 1e-9) + 1e-9)
            return (slots, {types[k].gpu_type: self.slot_s for k in allowed}) if slots else None
        most = max(self.slot_s / float(view.tau_s[j, k]) for k in allowed)
        loss = max(self.slot_s / float(view.tau_s[j, k]) * (1.0 - 1.0 / slowest[k]) for k in allowed)
        scaled = math.floor((epochs - most - mates * loss) * 2**_EPOCH_BITS)
        if scaled < 1:
            return None
        return scaled, {types[k].gpu_type: float(view.tau_s[j, k]) / 2**_EPOCH_BITS for k in allowed}

    # Plans ----------------------------------------------------------------------------------------------

    def _holds(self, instance: Instance, plan: Plan) -> bool:
        """Tell whether a plan keeps all rules, by the physics and by the independent checker."""
        grid_s = None if self.continuous else self.slot_s
        if not evaluate(instance, plan, grid_s=grid_s).feasible:
            return False
        wrong = check(instance, plan_schedule(instance, plan, grid_s=grid_s), grid_s=grid_s)
        if wrong:
            raise FormulationError(
                f"instance {instance.name!r}: physics and checker disagree about a plan: {wrong[0].text}; "
                "please report it"
            )
        return True

    def _settle(self, instance: Instance, outer: Instance, plan: Plan) -> Plan | None:
        """Return a plan in continuous time with the places and the order of an outer plan, or ``None``."""
        if len(outer.jobs) != len(instance.jobs):
            return None
        view = instance.arrays()
        relaxed = evaluate(outer, plan, grid_s=self.slot_s)
        first, last = relaxed.jobs.start_s, relaxed.jobs.end_s
        n = len(instance.jobs)
        gpus = [set(plan.gpus[view.gpu_offset[j] : view.gpu_offset[j + 1]].tolist()) for j in range(n)]
        before = [
            [i for i in range(n) if i != j and gpus[i] & gpus[j] and last[i] <= first[j] + 1e-6]
            for j in range(n)
        ]
        release = np.array([job.release_s for job in instance.jobs])
        start = np.maximum(release, first)
        for _ in range(n + 2):
            moved = Plan(start, plan.gpus)
            try:
                outcome = evaluate(instance, moved)
            except EacoError:  # too many on a GPU for a moment
                return None
            if outcome.feasible:
                return moved if self._holds(instance, moved) else None
            end = outcome.jobs.end_s
            start = np.array([max([release[j], *(end[i] for i in before[j])]) for j in range(n)])
        return None

    def schedule(self, instance: Instance, plan: Plan, method: str) -> Schedule:
        """Return the schedule of a plan."""
        return plan_schedule(instance, plan, grid_s=None if self.continuous else self.slot_s, method=method)


def decide_in_time(
    instance: Instance, slots_s: Sequence[float], clock: Clock, *, threads: int, seed: int, cap_s: float
) -> Ruling:
    """Decide whether there is a plan in continuous time.

    Parameters
    ----------
    instance
        The problem.
    slots_s
        Slot lengths [s] to try one after another, the longest first: long slots make small models, which
        often are enough.
    clock, threads, seed, cap_s
        As for :class:`Judge` and its questions.
    """
    until_s = clock.spent_s() + cap_s
    ruling = Ruling(possible=None, too_hard=True)
    for slot_s in slots_s:
        left_s = until_s - clock.spent_s()
        if left_s <= 0.0:
            break
        judge = Judge(slot_s, continuous=True, clock=clock, threads=threads, seed=seed)
        ruling = judge.decide(instance, cap_s=left_s)
        if ruling.possible is not None or ruling.too_hard:
            break
    return ruling


def without_wakes(instance: Instance) -> Instance:
    """Return the instance with wake-ups that take no time and no energy."""
    types = tuple(dataclasses.replace(t, wake_s=0.0, wake_energy_j=0.0) for t in instance.cluster.node_types)
    return dataclasses.replace(instance, cluster=dataclasses.replace(instance.cluster, node_types=types))


def _with_deadlines(instance: Instance, deadline_s: Mapping[str, float]) -> Instance:
    return dataclasses.replace(
        instance,
        jobs=tuple(
            dataclasses.replace(j, deadline_s=deadline_s.get(j.name, j.deadline_s)) for j in instance.jobs
        ),
    )


def sets_at_most(instance: Instance) -> int:
    """Return an upper estimate of the sets of jobs that may meet."""
    view = instance.arrays()
    total = 0
    for j in range(len(instance.jobs)):
        meet = int(np.sum((view.release_s < view.deadline_s[j]) & (view.deadline_s > view.release_s[j])) - 1)
        if not view.exclusive[j]:
            total += sum(
                math.comb(max(0, meet), size) // (size + 1) for size in range(instance.limits.max_share)
            )
    return total


__all__ = ["Clock", "Delay", "Judge", "Ruling", "decide_in_time", "sets_at_most", "without_wakes"]
