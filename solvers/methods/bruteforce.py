"""The method ``bruteforce``."""

from __future__ import annotations

import dataclasses
from typing import Any

from eaco_opt import _validate as v
from eaco_opt.errors import EacoError
from eaco_opt.instance import Instance
from eaco_opt.physics import evaluate, plan_schedule
from eaco_opt.result import Result, Status, StopReason
from formulations.grid import automatic_slot_s, make_grid

from ..base import Request, SearchProgress, options_text
from ..exact import ExactMethod, grid_of
from ..search import start_plan


class Bruteforce(ExactMethod):
    """The static optimum of a tiny instance, by going through all plans."""

    name = "bruteforce"
    covers = (*ExactMethod.covers, "sleep-and-wake-up")

    def option_defaults(self) -> dict[str, Any]:
        """Return its options: it has none."""
        return {}

    def solve(self, instance: Instance, request: Request) -> Result:
        """Return the optimum; stopped early, the better of what it found and the start.

        It runs in this process, on one thread, and looks at the clock itself; a gap changes nothing, because
        it has no bound before the end.
        """
        from ..bruteforce import bruteforce

        owner = f"method {self.name!r}"
        for label in sorted(request.options):
            raise EacoError(f"{owner}: unknown option {label!r}; it has none")
        slot_s = grid_of(owner, request.grid_s) or automatic_slot_s(instance)
        gap = 0.0 if request.gap is None else v.real(owner, "gap", request.gap, low=0.0)
        start = None
        if request.start is not None:
            start = start_plan(instance, make_grid(instance, slot_s), request.start, seed=request.seed)
        hook = request.progress
        curve: list[tuple[float, float | None, float | None]] = []

        def tell(seconds: float, objective: float | None, bound: float | None) -> None:
            if objective is not None and (not curve or objective != curve[-1][1]):
                curve.append((seconds, objective, None))
            if hook is not None:
                hook(SearchProgress(seconds=seconds, objective=objective, bound=bound, phase="solve"))

        result = bruteforce(instance, grid_s=slot_s, time_limit_s=request.time_limit_s, progress=tell)
        if start is not None and result.status is not Status.OPTIMAL:
            value = evaluate(instance, start, grid_s=slot_s)
            if result.objective is None or value.objective < result.objective:
                schedule = plan_schedule(instance, start, grid_s=slot_s, method=self.name)
                result = dataclasses.replace(
                    result,
                    schedule=dataclasses.replace(schedule, instance_digest=result.instance_digest),
                    evaluation=value,
                    status=Status.FEASIBLE,
                )
        if result.objective is not None:
            seconds = max(result.build_s + result.solve_s, curve[-1][0] if curve else 0.0)
            curve.append((seconds, result.objective, result.bound))
        known: dict[str, Any] = {"gap": gap, "grid_s": slot_s, "time_limit_s": request.time_limit_s}
        return dataclasses.replace(
            result,
            seed=request.seed,
            options=options_text(known),
            reproducible=result.stop_reason is StopReason.FINISHED,
            curve=tuple(curve),
        )
