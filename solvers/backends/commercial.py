"""Commercial back ends, through PuLP, where they are installed and licensed. None is ever required."""

from __future__ import annotations

import importlib
import math
from typing import TYPE_CHECKING, Any

from .base import PulpBackend, shifted

if TYPE_CHECKING:
    from ..search import Task


def _threads(task: Task) -> int:
    return 1 if task.deterministic else task.threads


def _finite(bound: float, value: float, problem: Any) -> float | None:
    return shifted(bound, value, problem) if math.isfinite(bound) and abs(bound) < 1e30 else None


class Gurobi(PulpBackend):
    """Gurobi, by gurobipy."""

    name = "gurobi"
    title = "Gurobi"
    package = "gurobipy"
    module = "gurobipy"
    abilities = ("warm-start", "gap", "threads", "seed", "bound", "work-limit")
    how_to_get = "pip install gurobipy, and a licence of Gurobi"

    def make(self, task: Task, time_limit_s: float | None) -> Any:
        """Return PuLP's Gurobi; PuLP leaves out a gap of 0, so it is given as a parameter."""
        import pulp

        more = {} if task.options.get("node_limit") is None else {"NodeLimit": task.options["node_limit"]}
        return pulp.GUROBI(
            msg=False, timeLimit=time_limit_s, warmStart=True,
            MIPGap=task.gap, Threads=_threads(task), Seed=task.seed % 2_000_000_000, **more,
        )  # fmt: skip

    def bound(self, problem: Any) -> float | None:
        """Return Gurobi's bound."""
        model = problem.solverModel
        return _finite(float(model.ObjBound), float(model.ObjVal), problem) if model.SolCount else None


class Cplex(PulpBackend):
    """CPLEX, by its Python package."""

    name = "cplex"
    title = "CPLEX"
    package = "cplex"
    module = "cplex"
    abilities = ("warm-start", "gap", "threads", "seed", "bound", "work-limit")
    how_to_get = "pip install cplex, and a licence of CPLEX"

    def make(self, task: Task, time_limit_s: float | None) -> Any:
        """Return PuLP's CPLEX."""
        import pulp

        more = {"mip.tolerances.mipgap": task.gap, "randomseed": task.seed % 2_000_000_000}
        if task.options.get("node_limit") is not None:
            more["mip.limits.nodes"] = task.options["node_limit"]
        return pulp.CPLEX_PY(
            msg=False, timeLimit=time_limit_s, warmStart=True, threads=_threads(task), **more
        )

    def bound(self, problem: Any) -> float | None:
        """Return CPLEX's bound."""
        found = problem.solverModel.solution
        if not found.is_primal_feasible():
            return None
        return _finite(float(found.MIP.get_best_objective()), float(found.get_objective_value()), problem)


class Xpress(PulpBackend):
    """FICO Xpress, by its Python package."""

    name = "xpress"
    title = "Xpress"
    package = "xpress"
    module = "xpress"
    abilities = ("warm-start", "gap", "threads", "seed", "work-limit")
    how_to_get = "pip install xpress, and a licence of Xpress"

    def make(self, task: Task, time_limit_s: float | None) -> Any:
        """Return PuLP's Xpress."""
        import pulp

        options = [f"THREADS={_threads(task)}", f"RANDOMSEED={task.seed % 2**31}"]
        if task.options.get("node_limit") is not None:
            options.append(f"MAXNODE={task.options['node_limit']}")
        limit = None if time_limit_s is None else max(1, math.ceil(time_limit_s))
        return pulp.XPRESS_PY(msg=False, timeLimit=limit, gapRel=task.gap, warmStart=True, options=options)


class Mosek(PulpBackend):
    """MOSEK, by its Python package."""

    name = "mosek"
    title = "MOSEK"
    package = "mosek"
    module = "mosek"
    abilities = ("gap", "threads", "seed")
    how_to_get = "pip install mosek, and a licence of MOSEK"

    def make(self, task: Task, time_limit_s: float | None) -> Any:
        """Return PuLP's MOSEK, which asks for integer solutions."""
        import pulp

        integer = importlib.import_module(self.module).soltype.itg
        options = {
            "MSK_DPAR_MIO_TOL_REL_GAP": task.gap,
            "MSK_DPAR_MIO_TOL_ABS_GAP": 0.0,
            "MSK_IPAR_NUM_THREADS": _threads(task),
            "MSK_IPAR_MIO_SEED": task.seed % 2**31,
        }
        return pulp.MOSEK(msg=False, timeLimit=time_limit_s, options=options, sol_type=integer)


class Copt(PulpBackend):
    """COPT, by coptpy."""

    name = "copt"
    title = "COPT"
    package = "coptpy"
    module = "coptpy"
    abilities = ("warm-start", "gap", "threads", "bound")
    how_to_get = "pip install coptpy, and a licence of COPT"

    def make(self, task: Task, time_limit_s: float | None) -> Any:
        """Return PuLP's COPT."""
        import pulp

        return pulp.COPT(
            msg=False, timeLimit=time_limit_s, warmStart=True, RelGap=task.gap, Threads=_threads(task)
        )

    def bound(self, problem: Any) -> float | None:
        """Return COPT's bound."""
        model = problem.solverModel
        return _finite(float(model.BestBnd), float(model.BestObj), problem) if model.HasMipSol else None
