"""Policies as methods: a run, its time limit, and the checker's word on its schedule."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from eaco_opt import _validate as v
from eaco_opt.instance import Instance
from eaco_opt.interference import Interference
from eaco_opt.io_digest import instance_digest
from eaco_opt.policies import make_policy
from eaco_opt.result import Result, Status, StopReason
from eaco_opt.schedule import Schedule
from eaco_opt.simulator import Action, Event, Policy, Simulation, World, simulate

from .base import Hook, options_text, versions
from .verify import verify


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
    known = options_text(options or {})
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
