"""Run one method on one instance: :func:`solve`.

Two families of methods: online policies (``eaco_opt.policies``), which are simulated, and everything else,
which is registered in :data:`solvers.base.METHODS`. Whatever comes back has passed the independent checker.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from eaco_opt.errors import EacoError
from eaco_opt.impossible import impossible_jobs
from eaco_opt.instance import Instance
from eaco_opt.interference import Interference
from eaco_opt.policies import POLICIES, make_policy
from eaco_opt.result import Result
from eaco_opt.schedule import Schedule
from eaco_opt.simulator import Policy

from .base import METHODS, Hook, Method, Request
from .catalogue import method_names, unknown_method
from .policy_runs import is_policy, run_policy, warm_up
from .verify import verify


def need_instance(owner: str, instance: object) -> None:
    """Raise unless an object is an instance; a path is a common mistake."""
    if not isinstance(instance, Instance):
        raise EacoError(
            f"{owner}: expected an Instance, got {instance!r}; read a file with eaco_opt.read_instance(path)"
        )


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
        Slot length [s] of grid physics (docs/model.md section 5), ``"auto"`` for the rule of
        :func:`formulations.grid.automatic_slot_s`, or ``None``: continuous time for policies, which are run
        in their static form on a grid; ``"auto"`` for exact methods, which need a grid.
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
        from formulations.grid import automatic_slot_s

        if grid_s != "auto":
            raise EacoError(f"solve: grid_s must be a number of seconds, 'auto' or None, got {grid_s!r}")
        grid_s = automatic_slot_s(instance)
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
