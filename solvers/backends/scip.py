"""The back end ``scip``."""

from __future__ import annotations

import shutil
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from .base import PulpBackend, shifted

if TYPE_CHECKING:
    from ..search import Task


class Scip(PulpBackend):
    """SCIP, by pyscipopt or else by the programme `scip` on the path."""

    name = "scip"
    title = "SCIP"
    package = "pyscipopt"
    module = "pyscipopt"
    abilities = ("warm-start", "gap", "seed", "bound", "work-limit")
    how_to_get = "pip install 'eaco-opt[scip]', or install the programme `scip` (scipopt.org)"

    def available(self) -> bool:
        """Tell whether pyscipopt is installed, or a programme `scip` is on the path."""
        return super().available() or shutil.which("scip") is not None

    def make(self, task: Task, time_limit_s: float | None) -> Any:
        """Return PuLP's SCIP."""
        import pulp

        limits = {"gapRel": task.gap, "maxNodes": task.options.get("node_limit"), "timeLimit": time_limit_s}
        seed = f"randomization/randomseedshift = {task.seed % 2**31}"
        if find_spec(self.module) is None:
            return pulp.SCIP_CMD(msg=False, options=[seed], **limits)
        limits = {key: value for key, value in limits.items() if value is not None}
        return pulp.SCIP_PY(msg=False, warmStart=True, options=[seed.replace(" ", "")], **limits)

    def bound(self, problem: Any) -> float | None:
        """Return SCIP's dual bound, where it ran in this process."""
        model = getattr(problem, "solverModel", None)
        if model is None or model.getNSols() == 0:
            return None
        return shifted(float(model.getDualbound()), float(model.getObjVal()), problem)
