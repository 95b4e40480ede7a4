"""Run one method on one instance: :func:`solve`, and the list of what there is to run.

Two families of methods: online policies (``eaco_opt.policies``), which are simulated, and everything else,
which is registered in :data:`METHODS`. Whatever comes back has passed the independent checker.
"""

from __future__ import annotations

import dataclasses
import inspect
import platform
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from eaco_opt import __version__
from eaco_opt import _validate as v
from eaco_opt.errors import EacoError, UnknownNameError
from eaco_opt.impossible import impossible_jobs
from eaco_opt.instance import Instance
from eaco_opt.interference import Interference
from eaco_opt.io_digest import instance_digest
from eaco_opt.policies import POLICIES, make_policy
from eaco_opt.registry import Registry
from eaco_opt.result import Result, Status, StopReason
from eaco_opt.schedule import Schedule
from eaco_opt.simulator import Action, Event, Policy, Progress, Simulation, World, simulate

from .verify import verify

METHODS = Registry("method", "eaco_opt.methods")
"""Methods that are not policies; other distributions add theirs through the entry points of that group."""

POLICY_COVERS = (
    "continuous-time",
    "grid",
    "multi-node-jobs",
    "mixed-node-types",
    "exclusive-jobs",
    "model-parallel-memory",
    "infinite-deadlines",
    "both-admission-rules",
    "sleep-and-wake-up",
)
"""What an instance may hold when it is run by a policy of this project."""

Hook = Callable[[Progress], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What a method of :data:`METHODS` is asked for; the attributes are parameters of :func:`solve`."""

    time_limit_s: float | None = None
    gap: float | None = None
    threads: int = 1
    seed: int = 0
    start: Schedule | None = None
    deterministic: bool = False
    grid_s: float | str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    progress: Hook | None = None


class Method(Protocol):
    """A method that is not a policy; registered as a class that is built without arguments.

    Attributes
    ----------
    kind, schedule_class, exact, online, covers
        As in :class:`MethodInfo`.
    """

    kind: str
    schedule_class: str
    exact: bool
    online: bool
    covers: tuple[str, ...]

    def available(self) -> bool:
        """Tell whether what it needs is installed, without loading it."""
        ...

    def solve(self, instance: Instance, request: Request) -> Result:
        """Return the answer; :func:`solve` checks it."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class MethodInfo:
    """What the list of methods says about one.

    Attributes
    ----------
    name
        Registered name.
    kind
        ``policy``, or what the method calls itself.
    schedule_class
        ``static``, ``epoch`` or ``fluid`` (docs/model.md section 4), by default options.
    exact
        Whether it can prove optimality.
    online
        Whether it decides without knowing what has not arrived yet.
    available
        Whether it can be run here.
    covers
        Features of instances that it takes.
    text
        One line for people.
    """

    name: str
    kind: str
    schedule_class: str
    exact: bool
    online: bool
    available: bool
    covers: tuple[str, ...]
    text: str

    def row(self) -> dict[str, Any]:
        """Return it under the keys of the command line."""
        return {
            "name": self.name,
            "kind": self.kind,
            "class": self.schedule_class,
            "exact": self.exact,
            "online": self.online,
            "available": self.available,
            "covers": list(self.covers),
            "text": self.text,
        }


def method_names() -> tuple[str, ...]:
    """Return the names that :func:`solve` and ``compare`` know."""
    return (*POLICIES.names(), *METHODS.names())


def methods() -> list[MethodInfo]:
    """Return what there is to run, policies first; what cannot be imported is not available."""
    out: list[MethodInfo] = []
    for name in method_names():
        registry = POLICIES if name in POLICIES else METHODS
        kind = "policy" if registry is POLICIES else "method"
        try:
            part = registry.get(name)
        except ImportError as error:
            text = f"cannot be imported here: {error}"
            out.append(
                MethodInfo(
                    name=name, kind=kind, schedule_class="", exact=False, online=registry is POLICIES,
                    available=False, covers=(), text=text,
                )
            )  # fmt: skip
            continue
        if registry is POLICIES:
            info = MethodInfo(
                name=name,
                kind=kind,
                schedule_class=str(part.schedule_class),
                exact=False,
                online=True,
                available=True,
                covers=tuple(getattr(part, "covers", POLICY_COVERS)),
                text=registry.summary(name),
            )
        else:
            made: Method = part()
            info = MethodInfo(
                name=name,
                kind=made.kind,
                schedule_class=str(made.schedule_class),
                exact=made.exact,
                online=made.online,
                available=made.available(),
                covers=tuple(made.covers),
                text=registry.summary(name),
            )
        out.append(info)
    return out


def policy_options(name: str) -> dict[str, Any]:
    """Return the options of a registered policy with their defaults."""
    parameters = inspect.signature(POLICIES.get(name)).parameters
    return {key: p.default for key, p in parameters.items()}


def need_instance(owner: str, instance: object) -> None:
    """Raise unless an object is an instance; a path is a common mistake."""
    if not isinstance(instance, Instance):
        raise EacoError(
            f"{owner}: expected an Instance, got {instance!r}; read a file with eaco_opt.read_instance(path)"
        )


def unknown_method(name: str) -> UnknownNameError:
    """Return the error for a name that nothing is registered under."""
    return UnknownNameError(f"unknown method {name!r}; known are: {', '.join(method_names())}")


AUTO_STEPS_S = (1.0, 5.0, 10.0, 30.0, 60.0, 300.0, 600.0, 1800.0, 3600.0, 7200.0, 14400.0, 28800.0, 86400.0)
"""Slot lengths that the automatic choice picks from [s]."""

AUTO_SHARE = 0.25
"""The automatic slot is no longer than this share of the shortest exclusive running time."""


def auto_grid_s(instance: Instance) -> float:
    """Return a slot length [s]: the longest step not above a quarter of the shortest job."""
    view = instance.arrays()
    if not len(view.epochs):
        return AUTO_STEPS_S[-1]
    shortest = float(np.min(view.epochs[:, None] * view.tau_s)) * AUTO_SHARE
    fitting = [step for step in AUTO_STEPS_S if step <= shortest]
    return fitting[-1] if fitting else AUTO_STEPS_S[0]


def warm_up(
    instance: Instance, name: str, options: Mapping[str, Any] | None = None, *, grid_s: float | None = None
) -> None:
    """Run a registered policy on the first two jobs, so that compiling its kernels is no part of a time.

    Parameters
    ----------
    instance
        The problem to come; without jobs that can run nowhere.
    name, options, grid_s
        The policy, its options, and the slot length [s] of the run to come.
    """
    few = dataclasses.replace(instance, jobs=instance.jobs[:2])
    simulate(few, make_policy(name, **dict(options or {})), grid_s=grid_s)


class _TimeUp(Exception):
    """The time limit was reached inside a simulation."""


class _Guarded:
    """A policy that is asked no more once its time is up."""

    def __init__(self, policy: Policy, until: float) -> None:
        self._policy = policy
        self._until = until
        self.name = policy.name
        self.schedule_class = policy.schedule_class

    @property
    def counters(self) -> dict[str, int]:
        return getattr(self._policy, "counters", {})

    def begin(self, world: World, rng: np.random.Generator) -> None:
        self._policy.begin(world, rng)

    def decide(self, world: World, events: Sequence[Event]) -> Iterable[Action]:
        if time.perf_counter() >= self._until:
            raise _TimeUp
        return self._policy.decide(world, events)


def is_policy(thing: object) -> bool:
    """Tell whether an object follows the protocol of policies (and is not a class of them)."""
    return not isinstance(thing, type) and (
        isinstance(getattr(thing, "name", None), str)
        and hasattr(thing, "schedule_class")
        and callable(getattr(thing, "begin", None))
        and callable(getattr(thing, "decide", None))
    )


def run_policy(
    instance: Instance,
    policy: Policy,
    *,
    label: str | None = None,
    options: Mapping[str, Any] | None = None,
    seed: int = 0,
    time_limit_s: float | None = None,
    grid_s: float | None = None,
    history: Interference | None = None,
    progress: Hook | None = None,
    digest: str | None = None,
) -> tuple[Result, Simulation | None]:
    """Simulate a policy, have its schedule checked, and return result and simulation.

    Parameters
    ----------
    instance, policy
        What to run on what.
    label
        Name in the result; the policy's own by default.
    options
        Options it was built with, for the record.
    seed, time_limit_s, grid_s, history, progress
        As for :func:`solve`.
    digest
        Digest of the instance, if known.

    Returns
    -------
    Result, Simulation or None
        Without a schedule (status ``unknown``) when the time limit came first. Where the policy rejected
        jobs, both belong to the instance without them (``Simulation.instance``), and so does the digest.

    Raises
    ------
    ImpossibleJobsError, PolicyError
        As :func:`eaco_opt.simulate`.
    InternalError
        The checker disagrees.
    """
    name = label or policy.name
    digest = instance_digest(instance) if digest is None else digest
    known = tuple(sorted((key, str(value)) for key, value in (options or {}).items()))
    runner: Policy = policy
    began = time.perf_counter()
    if time_limit_s is not None:
        runner = _Guarded(policy, began + v.real("solve", "time_limit_s", time_limit_s, low=0.0))
    rng = np.random.default_rng(v.integer("solve", "seed", seed, 0))
    try:
        done = simulate(instance, runner, rng, grid_s=grid_s, history=history, progress=progress)
    except _TimeUp:
        result = Result(
            method=name,
            schedule=None,
            evaluation=None,
            status=Status.UNKNOWN,
            stop_reason=StopReason.TIME_LIMIT,
            solve_s=time.perf_counter() - began,
            seed=seed,
            instance_digest=digest,
            options=known,
            versions=versions(),
        )
        return result, None
    if done.rejected:
        digest = instance_digest(done.instance)
    schedule = Schedule(
        segments=done.schedule.segments,
        schedule_class=done.schedule.schedule_class,
        method=name,
        instance_digest=digest,
    )
    verify(name, done.instance, schedule, done.evaluation, grid_s=grid_s)
    result = Result(
        method=name,
        schedule=schedule,
        evaluation=done.evaluation,
        status=Status.FEASIBLE,
        stop_reason=StopReason.FINISHED,
        solve_s=done.runtime_s,
        seed=seed,
        instance_digest=digest,
        options=known,
        versions=versions(),
    )
    return result, done


def versions() -> tuple[tuple[str, str], ...]:
    """Return the versions that a result depends on."""
    return (("eaco-opt", __version__), ("numpy", np.__version__), ("python", platform.python_version()))


def solve(
    instance: Instance,
    method: str | Policy = "eaco",
    *,
    time_limit_s: float | None = None,
    gap: float | None = None,
    threads: int = 1,
    seed: int = 0,
    start: Schedule | None = None,
    deterministic: bool = False,
    grid_s: float | str | None = None,
    options: Mapping[str, Any] | None = None,
    history: Interference | None = None,
    progress: Hook | None = None,
) -> Result:
    """Run one method and return what it found, checked.

    Parameters
    ----------
    instance
        The problem, with its objective.
    method
        A registered name, or a policy object of the caller's own.
    time_limit_s
        Wall-clock limit [s]; a policy that is stopped by it has no schedule (status ``unknown``).
    gap
        Relative gap at which an exact method may stop.
    threads
        Most threads an exact method may use; policies use one.
    seed
        Seeds whatever is drawn.
    start
        Schedule to start from, for methods that improve one.
    deterministic
        Ask for the same answer on every run; policies always give it.
    grid_s
        Slot length [s] of grid physics (docs/model.md section 5), ``"auto"`` for :func:`auto_grid_s`, or
        ``None`` for continuous time. Policies are run in their static form on a grid.
    options
        Options of the method.
    history
        What a policy believes about slowdowns; the truth by default.
    progress
        Called now and then.

    Raises
    ------
    UnknownNameError
        No such method; the text lists the known ones.
    ImpossibleJobsError
        A policy cannot run, because some jobs can run nowhere.
    EacoError
        An option does not exist or does not apply to the method.
    InternalError
        The checker does not confirm the answer.
    """
    need_instance("solve", instance)
    chosen = dict(options or {})
    name = method if isinstance(method, str) else ""
    if name and name not in POLICIES:
        if name not in METHODS:
            raise unknown_method(name)
        if history is not None:
            raise EacoError(f"method {name!r} predicts nothing, so history has no effect; leave it out")
        solver: Method = METHODS.get(name)()
        request = Request(
            time_limit_s=time_limit_s,
            gap=gap,
            threads=threads,
            seed=seed,
            start=start,
            deterministic=deterministic,
            grid_s=grid_s,
            options=chosen,
            progress=progress,
        )
        result = solver.solve(instance, request)
        if result.schedule is not None and result.evaluation is not None:
            verify(name, instance, result.schedule, result.evaluation, grid_s=result.evaluation.grid_s)
        return result
    if name:
        policy: Policy = make_policy(name, **chosen)
    else:
        if isinstance(method, str) or not is_policy(method):
            raise EacoError(
                f"solve: method must be one of {', '.join(method_names())}, or a policy object with name, "
                f"schedule_class, begin() and decide(), got {method!r}"
            )
        if chosen:
            raise EacoError(
                f"policy {method.name!r}: options belong to registered names; build the object with them"
            )
        policy = method
    for label, value in (("start", start), ("gap", gap)):
        if value is not None:
            raise EacoError(
                f"method {policy.name!r} is a policy: {label} has no effect on it, leave it out; a policy "
                "decides online "
                "and proves nothing"
            )
    if isinstance(grid_s, str):
        if grid_s != "auto":
            raise EacoError(f"solve: grid_s must be a number of seconds, 'auto' or None, got {grid_s!r}")
        grid_s = auto_grid_s(instance)
    if name and not any(not job.deadline_only for job in impossible_jobs(instance)):
        warm_up(instance, name, chosen, grid_s=grid_s)
    result, _ = run_policy(
        instance,
        policy,
        label=name or None,
        options=chosen,
        seed=seed,
        time_limit_s=time_limit_s,
        grid_s=grid_s,
        history=history,
        progress=progress,
    )
    return result
