"""The back end ``cbc``."""

from __future__ import annotations

import shutil
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .base import PulpBackend

if TYPE_CHECKING:
    from ..search import Task


class Cbc(PulpBackend):
    """CBC, bundled with PuLP; calls a feasible model infeasible now and then, so compare with another."""

    name = "cbc"
    title = "CBC"
    package = "pulp"
    module = "pulp"
    abilities = ("warm-start", "gap", "threads", "seed", "work-limit")
    how_to_get = "it comes with PuLP on most platforms; elsewhere install the programme `cbc` (coin-or)"

    def available(self) -> bool:
        """Tell whether PuLP's own CBC is there, or one on the path."""
        spec = find_spec(self.module)
        if spec is None:
            return False
        folders = [Path(folder) / "solverdir" for folder in spec.submodule_search_locations or ()]
        return shutil.which("cbc") is not None or any(
            path.is_file() and path.stem == "cbc" for folder in folders for path in folder.glob("**/cbc*")
        )

    def make(self, task: Task, time_limit_s: float | None) -> Any:
        """Return PuLP's CBC."""
        import pulp

        made = pulp.PULP_CBC_CMD(msg=False)
        kind = pulp.PULP_CBC_CMD if made.available() else pulp.COIN_CMD
        return kind(
            msg=False,
            timeLimit=time_limit_s,
            gapRel=task.gap,
            threads=None if task.deterministic or task.threads == 1 else task.threads,
            warmStart=True,
            maxNodes=task.options.get("node_limit"),
            options=[f"randomCbcSeed {task.seed % 2**31}"],
        )
