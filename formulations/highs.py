"""HiGHS on arrays: statuses, values and bounds as they may be read, and nothing else.

HiGHS counts time for each object, keeps one pool of threads for the process, and leaves objective and values
at 0 where it has none; all of that is dealt with here.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import highspy
import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from eaco_opt.result import StopReason

from .base import FormulationError, Progress
from .linear import Rows

ABSOLUTE_GAP = 1e-6
"""Absolute gap in the model's units, in which the objective is of the order of 100."""


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """What HiGHS found.

    Attributes
    ----------
    x
        (V,) values of the best solution, or ``None``.
    objective, bound
        Its objective and the proved lower bound in the model's units, or ``None``.
    infeasible
        Whether HiGHS says that there is no solution.
    stop_reason, solve_s, message
        Why it stopped, after how long [s], in its words.
    """

    x: NDArray[np.float64] | None
    objective: float | None
    bound: float | None
    infeasible: bool
    stop_reason: StopReason
    solve_s: float
    message: str


class _Quiet(highspy.Highs):
    """HiGHS without its banner, which the first object of a process prints while it is made."""

    def enableCallbacks(self) -> None:
        """Turn output off first."""
        self.setOptionValue("output_flag", False)
        super().enableCallbacks()  # type: ignore[no-untyped-call]


def load_empty() -> Any:
    """Return a silent HiGHS object without a model."""
    return _Quiet()  # type: ignore[no-untyped-call]


def load(rows: Rows) -> Any:
    """Return a silent HiGHS object that holds the model."""
    solver = load_empty()
    count = len(rows.cost)
    status = solver.passModel(
        count,
        len(rows.low),
        len(rows.index),
        int(highspy.MatrixFormat.kRowwise),
        int(highspy.ObjSense.kMinimize),
        rows.constant,
        rows.cost,
        np.zeros(count),
        rows.upper,
        rows.low,
        rows.high,
        rows.start[:-1],
        rows.index,
        rows.value,
        rows.integer.astype(np.int32),
    )
    if status == highspy.HighsStatus.kError:
        raise FormulationError(
            "HiGHS refuses the model's arrays; this is an error of the model, please report it"
        )
    return solver


def read_back(solver: Any) -> Rows:
    """Return what a HiGHS object holds, without names; entries of a row by column."""
    model = solver.getLp()
    held = model.a_matrix_
    by_columns = held.format_ == highspy.MatrixFormat.kColwise
    make = sparse.csc_matrix if by_columns else sparse.csr_matrix
    shape = (model.num_row_, model.num_col_)
    matrix = sparse.csr_matrix(make((held.value_, held.index_, held.start_), shape=shape))
    matrix.sort_indices()
    integer = [kind == highspy.HighsVarType.kInteger for kind in model.integrality_]
    return Rows(
        make_names=lambda: ((), ()),
        cost=np.array(model.col_cost_),
        constant=float(model.offset_),
        upper=np.array(model.col_upper_),
        integer=np.array(integer or [False] * model.num_col_),
        start=matrix.indptr,
        index=matrix.indices,
        value=matrix.data,
        low=np.array(model.row_lower_),
        high=np.array(model.row_upper_),
    )


def write_model(rows: Rows, path: Path) -> None:
    """Write a model to a file, MPS or LP by its ending."""
    solver = load(rows)
    for i, name in enumerate(rows.names):
        solver.passColName(i, name)
    for i, name in enumerate(rows.row_names):
        solver.passRowName(i, name)
    solver.writeModel(str(path))


def run_highs(
    rows: Rows,
    *,
    time_limit_s: float | None,
    gap: float,
    threads: int,
    seed: int,
    start: NDArray[np.float64] | None,
    progress: Progress | None,
    on_values: Callable[[NDArray[np.float64]], None] | None = None,
    node_limit: int | None = None,
) -> Found:
    """Solve a model; see :class:`Found`.

    ``on_values`` is called with the values of each better solution; ``node_limit`` is the most nodes of the
    search tree, a limit that falls at the same place on every run.
    """
    begin = time.monotonic()
    solver = load(rows)
    highspy.Highs.resetGlobalScheduler(True)
    for option, value in (
        ("threads", threads),
        ("random_seed", seed % 2**31),
        ("mip_rel_gap", gap),
        ("mip_abs_gap", ABSOLUTE_GAP),
    ):
        solver.setOptionValue(option, value)
    if time_limit_s is not None:
        solver.setOptionValue("time_limit", float(time_limit_s))
    if node_limit is not None:
        solver.setOptionValue("mip_max_nodes", node_limit)
    if start is not None:
        solution = highspy.HighsSolution()
        solution.col_value = start.tolist()
        solution.value_valid = True
        solver.setSolution(solution)
    if progress is not None:

        def tell(event: Any) -> None:
            best, bound = event.data_out.mip_primal_bound, event.data_out.mip_dual_bound
            progress(time.monotonic() - begin, _finite(best), _finite(bound))

        solver.cbMipImprovingSolution.subscribe(tell)
        solver.cbMipLogging.subscribe(tell)
    if on_values is not None:
        solver.cbMipImprovingSolution.subscribe(
            lambda event: on_values(np.array(event.data_out.mip_solution))
        )
    solver.run()
    status = solver.getModelStatus()
    info = solver.getInfo()
    kinds = highspy.HighsModelStatus
    if status in (kinds.kOptimal, kinds.kInfeasible, kinds.kUnboundedOrInfeasible, kinds.kModelEmpty):
        stop = StopReason.FINISHED
    elif status == kinds.kTimeLimit:
        stop = StopReason.TIME_LIMIT
    elif status in (kinds.kSolutionLimit, kinds.kIterationLimit):
        stop = StopReason.WORK_LIMIT
    elif status == kinds.kInterrupt:
        stop = StopReason.INTERRUPTED
    else:
        stop = StopReason.ERROR
    has_values = info.primal_solution_status == int(highspy.SolutionStatus.kSolutionStatusFeasible)
    # Every variable has finite bounds, so "unbounded or infeasible" is infeasible.
    infeasible = status in (kinds.kInfeasible, kinds.kUnboundedOrInfeasible)
    bound = None if infeasible or stop is StopReason.ERROR else _finite(info.mip_dual_bound)
    return Found(
        x=np.array(solver.getSolution().col_value) if has_values and not infeasible else None,
        objective=float(info.objective_function_value) if has_values and not infeasible else None,
        bound=bound,
        infeasible=infeasible,
        stop_reason=stop,
        solve_s=time.monotonic() - begin,
        message=f"HiGHS {solver.modelStatusToString(status)}",
    )


def _finite(number: float) -> float | None:
    return float(number) if math.isfinite(number) and abs(number) < 1e30 else None
