"""The method ``bruteforce``."""

from __future__ import annotations

import dataclasses
from typing import Any

from eaco_opt.errors import EacoError
from eaco_opt.instance import Instance
from eaco_opt.result import Result

from ..base import Request, SearchProgress, options_text
from ..exact import ExactMethod, grid_of


class Bruteforce(ExactMethod):
    """The static optimum of a tiny instance, by going through all plans."""

    name = "bruteforce"
    covers = (*ExactMethod.covers, "sleep-and-wake-up")

    def option_defaults(self) -> dict[str, Any]:
        """Return its options: it has none."""
        return {}

    def solve(self, instance: Instance, request: Request) -> Result:
        """Return the optimum, or the best schedule within the limit."""
        from formulations.grid import automatic_slot_s

        from ..bruteforce import bruteforce

        owner = f"method {self.name!r}"
        for label in sorted(request.options):
            raise EacoError(f"{owner}: unknown option {label!r}; it has none")
        if request.start is not None:
            raise EacoError(f"{owner}: it goes through all plans, so a start has no effect; leave it out")
        if request.gap:
            raise EacoError(f"{owner}: it has no bound before the end, so a gap has no effect; leave it out")
        grid_s = grid_of(owner, request.grid_s) or automatic_slot_s(instance)
        hook = request.progress
        curve: list[tuple[float, float | None, float | None]] = []

        def tell(seconds: float, objective: float | None, bound: float | None) -> None:
            if objective is not None and (not curve or objective != curve[-1][1]):
                curve.append((seconds, objective, None))
            if hook is not None:
                hook(SearchProgress(seconds=seconds, objective=objective, bound=bound, phase="solve"))

        result = bruteforce(instance, grid_s=grid_s, time_limit_s=request.time_limit_s, progress=tell)
        if result.objective is not None:
            curve.append((result.build_s + result.solve_s, result.objective, result.bound))
        known: dict[str, Any] = {"gap": 0.0, "grid_s": grid_s, "time_limit_s": request.time_limit_s}
        return dataclasses.replace(
            result,
            seed=request.seed,
            options=options_text(known),
            reproducible=result.stop_reason.value == "finished",
            curve=tuple(curve),
        )
