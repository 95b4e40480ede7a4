"""A linear model, whatever it was built with: its arrays, its plans, and solving it with HiGHS."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from eaco_opt.result import StopReason

from .base import (
    FormulationError,
    Outcome,
    PlanHook,
    Progress,
    SizeEstimate,
    UncoveredFeatureError,
    wake_features,
)
from .milp_terms import MilpTerms, Pace, estimate
from .placing import Values, plan_of, values_of
from .space import Space
from .verdict import verdict, without_search

if TYPE_CHECKING:
    from eaco_opt.instance import Instance
    from eaco_opt.schedule import Plan

    from .grid import Grid
    from .space import Part

M = TypeVar("M", bound="LinearModel")

FEASIBILITY = 1e-6
"""Largest violation of a row or bound that still counts as none."""


@dataclass(frozen=True, eq=False)
class Rows:
    """Minimise cost . x + constant over low <= A x <= high, 0 <= x <= upper, some of x integer.

    Attributes
    ----------
    make_names
        Makes the (V,) and (R,) names, which cost more than all arrays; see :attr:`names`.
    cost, upper
        (V,) floats.
    constant
        Of the objective.
    integer
        (V,) whether a variable is integer.
    start, index, value
        A by rows, compressed: (R + 1,), (Z,), (Z,).
    low, high
        (R,) bounds of the rows, infinite where there is none.
    """

    make_names: Callable[[], tuple[tuple[str, ...], tuple[str, ...]]]
    cost: NDArray[np.float64]
    constant: float
    upper: NDArray[np.float64]
    integer: NDArray[np.bool_]
    start: NDArray[np.int32]
    index: NDArray[np.int32]
    value: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]

    @cached_property
    def _all_names(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        return self.make_names()

    @property
    def names(self) -> tuple[str, ...]:
        """(V,) names of the variables, made when first asked for."""
        return self._all_names[0]

    @property
    def row_names(self) -> tuple[str, ...]:
        """(R,) names of the rows, made when first asked for."""
        return self._all_names[1]

    def violation(self, x: NDArray[np.float64]) -> tuple[float, str]:
        """Return the largest violation of a row, a bound or integrality by (V,) values, and where."""
        worst, where = 0.0, ""
        activity = np.add.reduceat(
            np.append(self.value * x[self.index], 0.0), np.minimum(self.start[:-1], len(self.index))
        )
        activity[self.start[1:] == self.start[:-1]] = 0.0
        for amount, names in (
            (np.maximum(self.low - activity, activity - self.high), self.row_names),
            (np.maximum(-x, x - self.upper), self.names),
            (np.where(self.integer, np.abs(x - np.round(x)), 0.0), self.names),
        ):
            if len(amount) and float(amount.max()) > worst:
                worst, where = float(amount.max()), names[int(amount.argmax())]
        return worst, where

    def objective(self, x: NDArray[np.float64]) -> float:
        """Return the objective of (V,) values."""
        return float(self.cost @ x) + self.constant


class LinearFormulation(Generic[M]):
    """What the builders of the one linear model have in common (equations: :mod:`formulations.milp`).

    Attributes
    ----------
    name
        Of the formulation.
    bytes_a_nonzero, bytes_a_variable
        Memory that the builder takes for each.
    """

    name: str
    bytes_a_nonzero: int
    bytes_a_variable: int

    def covers(self, instance: Instance) -> list[str]:
        """Return the features of the instance that are not covered."""
        return wake_features(instance)

    def estimate(self, instance: Instance, grid: Grid) -> SizeEstimate:
        """Return the size of the model without building it."""
        return estimate(
            Space(instance, grid),
            bytes_a_nonzero=self.bytes_a_nonzero,
            bytes_a_variable=self.bytes_a_variable,
        )

    def build(self, instance: Instance, grid: Grid) -> M:
        """Build the model.

        Raises
        ------
        UncoveredFeatureError
            The instance has wake-up times or energies, or too many different sums of CPU shares.
        """
        begin = time.monotonic()
        features = self.covers(instance)
        if features:
            raise UncoveredFeatureError(self.name, features)
        space = Space(instance, grid)
        features = space.cpu_features()
        if features:
            raise UncoveredFeatureError(self.name, features)
        model = self.model(space, MilpTerms(space))
        model.build_s = time.monotonic() - begin
        return model

    def model(self, space: Space, terms: MilpTerms) -> M:
        """Build the model of a space from its index sets and coefficients."""
        raise NotImplementedError


class LinearModel:
    """A linear model of a space (the equations stand in :mod:`formulations.milp`).

    Attributes
    ----------
    space, terms
        Decisions and coefficients.
    instance, grid
        What it was built from.
    searched
        Whether there is anything to solve; without jobs, or with one that cannot end in time, the model is
        empty.
    on_plan
        Told of each plan that HiGHS finds, if set.
    node_limit
        Most nodes of HiGHS's search tree, if set.
    """

    def __init__(self, space: Space, terms: MilpTerms) -> None:
        self.space = space
        self.terms = terms
        self.instance = space.instance
        self.grid = space.grid
        self.searched = without_search(space, 0.0) is None
        self.build_s = 0.0
        self.on_plan: PlanHook | None = None
        self.node_limit: int | None = None
        self._start_plan: Plan | None = None
        self._start_values: NDArray[np.float64] | None = None

    def rows(self) -> Rows:
        """Return the model as arrays."""
        raise NotImplementedError

    @cached_property
    def arrays(self) -> Rows:
        """The model as arrays, made once."""
        return self.rows()

    def load(self) -> Any:
        """Return a silent HiGHS object that holds the model, and has not solved it."""
        from .highs import load

        return load(self.arrays)

    def column_order(self) -> NDArray[np.int64]:
        """Return (V,) the column of each variable in what :meth:`load` returns."""
        return np.arange(len(self.arrays.cost))

    def write(self, path: Path | str) -> None:
        """Write the model for other programmes: ``.mps`` or ``.lp`` by the name of the file.

        Names inside are numeric (``y_<job>_<type>_<start>_<duration>`` and so on), so that no name of a job
        can clash with another.
        """
        from .highs import write_model

        target = Path(path)
        if target.suffix not in (".mps", ".lp"):
            self.refuse_suffix(target)
        write_model(self.arrays, target)

    @staticmethod
    def refuse_suffix(path: Path) -> None:
        """Raise for a file name that says neither MPS nor LP."""
        raise FormulationError(
            f"model file {path.name!r}: the name must end in .mps or .lp, got {path.suffix or 'no ending'!r}"
        )

    # Plans and values --------------------------------------------------------------------------------
    # --------------------------------------------------------------------------------------------

    def columns_of(self, plan: Plan) -> NDArray[np.float64] | None:
        """Return the (V,) values of a feasible plan; ``None`` if it ends after the horizon.

        Raises
        ------
        FormulationError
            The plan is not feasible on the grid.
        """
        values = values_of(self.space, plan)
        if values is None:
            return None
        number = {name: i for i, name in enumerate(self.arrays.names)}
        out = np.zeros(len(number))
        for name, value in self._named(values).items():
            if name in number:
                out[number[name]] = value
        return out

    def _named(self, values: Values) -> dict[str, float]:
        """Return {name: value} of all variables that are not 0 (and of some that do not exist)."""
        space, terms, jobs = self.space, self.terms, self.space.jobs
        out: dict[str, float] = {"last": float(max(values.end, default=0))}
        held = [p for p in space.parts if p.number in values.parts]
        node_type = {p.job: space.regions[p.region].node_type for p in held}
        for j in jobs:
            out[f"y_{j}_{node_type[j]}_{values.start[j]}_{values.end[j] - values.start[j]}"] = 1.0
            for t in range(values.start[j], values.end[j]):
                out[f"r_{j}_{node_type[j]}_{t}"] = 1.0
        for p in held:
            out[f"w_{p.number}"] = 1.0
            for t in range(values.start[p.job], values.end[p.job]):
                out[f"h_{p.number}_{t}"] = 1.0
                out[f"a_{p.region}_{t}"] = 1.0
        hosting: dict[tuple[int, int], list[tuple[tuple[int, ...], int, int]]] = {}
        slowest: dict[tuple[int, int], float] = {}
        for (number, t), count in values.counts.items():
            pattern = space.patterns[number]
            out[f"u_{number}_{t}"] = float(count)
            hosting.setdefault((pattern.region, t), []).append((pattern.found.jobs, count, number))
            for j, sigma in zip(pattern.found.jobs, pattern.found.sigma, strict=True):
                slowest[j, t] = max(slowest.get((j, t), 0.0), sigma)
        for i, (r, together) in enumerate(space.together):
            for t in range(max(values.start[j] for j in together), min(values.end[j] for j in together)):
                here = hosting.get((r, t), ())
                out[f"q_{i}_{t}"] = float(sum(n for s, n, _ in here if set(together) <= set(s)))
        for (j, t), sigma in slowest.items():
            k = node_type[j]
            if terms.paces[j, k] is Pace.CHOSEN:
                out[f"l_{j}_{k}_{t}_{space.levels[j, k].index(sigma)}"] = 1.0
            if t == values.end[j] - 1:
                late = values.end[j] - values.start[j] > terms.sure_slots(j)
                out[f"z_{j}"] = terms.down(j, k, sigma) if late else terms.fastest(j)
            losses = terms.losses(j, k)
            if losses is not None and values.end[j] - values.start[j] > losses.shortest:
                out[f"b_{j}_{k}_{t}"] = 1.0
            elif losses is not None:
                out[f"x_{j}_{k}_{t}"] = losses.fastest - terms.up(j, k, sigma)
        for region in space.regions:
            for t in range(self.grid.slots) if not region.pool else ():
                groups = space.cpu_groups(region, t)
                if groups:
                    key = tuple(
                        sum(
                            p.number in values.parts and values.start[p.job] <= t < values.end[p.job]
                            for p in parts
                        )
                        for _, parts in groups
                    )
                    out[f"c_{region.number}_{t}_{list(space.cpu_powers(region, groups)).index(key)}"] = 1.0
                here = hosting.get((region.number, t), [])
                for i, full in enumerate(terms.fulls(region, t)):
                    numbers = {p.number for p in full.patterns}
                    if sum(count for _, count, n in here if n in numbers) == region.cells:
                        out[f"f_{region.number}_{t}_{i}"] = 1.0
        return out

    def values_from(self, x: Mapping[str, float]) -> Values:
        """Return the decisions in values by name, as a solver gives them: rounded, zeros may be left out."""
        space, terms = self.space, self.terms
        start: dict[int, int] = {}
        end: dict[int, int] = {}
        node_type: dict[int, int] = {}
        counts: dict[tuple[int, int], int] = {}
        for name, value in x.items():
            whole = round(value)
            if not whole:
                continue
            if name.startswith("y_"):
                j, k, s, d = map(int, name[2:].split("_"))
                start[j], end[j], node_type[j] = s, s + d, k
            elif name.startswith("u_"):
                number, t = map(int, name[2:].split("_"))
                counts[number, t] = whole
        if len(start) != len(self.instance.jobs):
            missing = next(j for j in space.jobs if j not in start)
            raise FormulationError(
                f"solution for instance {self.instance.name!r}: job {self.instance.jobs[missing].name!r} "
                f"(number {missing}) has no variable y_{missing}_* with value 1; give all values"
            )

        def is_held(part: Part) -> bool:
            if space.regions[part.region].node_type != node_type[part.job]:
                return False
            group = terms.group_of.get(part.number)
            return group is None or group.forced or round(x.get(f"w_{part.number}", 0.0)) == 1

        parts = frozenset(p.number for p in space.parts if is_held(p))
        jobs = space.jobs
        return Values(tuple(start[j] for j in jobs), tuple(end[j] for j in jobs), parts, counts)

    def import_solution(self, path: Path | str) -> Outcome:
        """Return the outcome of a solution that another programme wrote.

        Lines that hold the name of a variable followed by a number are read (HiGHS, CBC, SCIP, Gurobi and
        plain ``name value`` files), all others are left out; variables that are not named are 0. The plan is
        priced by the physics; there is no bound.

        Raises
        ------
        FormulationError
            The file has no value for the runs of some job, or the values are no schedule.
        """
        known = without_search(self.space, self.build_s)
        if known is not None:
            return known
        names = set(self.arrays.names)
        found: dict[str, float] = {}
        with Path(path).open(encoding="utf-8") as lines:
            for line in lines:
                for name, number in pairwise(line.split()):
                    if name in names and name not in found:
                        with contextlib.suppress(ValueError):
                            found[name] = float(number)
                            break
        return self.conclude(
            self.values_from(found),
            claimed=None,
            bound=None,
            infeasible=False,
            stop_reason=StopReason.FINISHED,
            solve_s=0.0,
            message=f"solution read from {Path(path).name}",
        )

    # Solving --------------------------------------------------------------------------------
    # -----------------------------------------------------------------------------------------------------

    def start_from(self, plan: Plan) -> None:
        """Give the solver a plan to start from; the answer is never worse.

        Raises
        ------
        FormulationError
            The plan is not feasible on this grid, or the model does not hold it (an error of the model).
        """
        self._start_values = self.columns_of(plan) if self.searched else None
        if self._start_values is not None:
            amount, where = self.arrays.violation(self._start_values)
            if amount > FEASIBILITY:
                raise FormulationError(
                    f"model of instance {self.instance.name!r}: a feasible plan violates {where!r} by "
                    f"{amount:g}; this is an error of the model, please report it"
                )
        self._start_plan = plan

    def solve(
        self,
        *,
        time_limit_s: float | None = None,
        gap: float = 0.0,
        threads: int = 1,
        seed: int = 0,
        deterministic: bool = False,
        progress: Progress | None = None,
    ) -> Outcome:
        """Solve with HiGHS; on one thread it is deterministic but for where a time limit falls."""
        known = without_search(self.space, self.build_s)
        if known is not None:
            return known
        from .highs import run_highs

        scale = self.terms.scale
        found = run_highs(
            self.arrays,
            time_limit_s=time_limit_s,
            gap=gap,
            threads=1 if deterministic else threads,
            seed=seed,
            start=self._start_values,
            progress=None
            if progress is None
            else lambda s, best, bound: progress(
                s, None if best is None else best / scale, None if bound is None else bound / scale
            ),
            on_values=None if self.on_plan is None else self._tell,
            node_limit=self.node_limit,
        )
        values = None
        if found.x is not None:
            values = self.values_from(dict(zip(self.arrays.names, found.x.tolist(), strict=True)))
        return self.conclude(
            values,
            claimed=found.objective,
            bound=found.bound,
            infeasible=found.infeasible,
            stop_reason=found.stop_reason,
            solve_s=found.solve_s,
            message=found.message,
        )

    def _tell(self, x: NDArray[np.float64]) -> None:
        """Pass on the plan of values that a solver has found; such as are no schedule are left out."""
        if self.on_plan is not None:
            with contextlib.suppress(FormulationError):
                values = self.values_from(dict(zip(self.arrays.names, x.tolist(), strict=True)))
                self.on_plan(plan_of(self.space, values))

    def conclude(
        self,
        values: Values | None,
        *,
        claimed: float | None,
        bound: float | None,
        infeasible: bool,
        stop_reason: StopReason,
        solve_s: float,
        message: str,
    ) -> Outcome:
        """Return the outcome of any solver; ``claimed`` and ``bound`` are in the model's units."""
        return verdict(
            self.space,
            values,
            exact=self.terms.exact,
            stop_reason=stop_reason,
            infeasible=infeasible,
            bound=None if bound is None else bound / self.terms.scale,
            claimed=None if claimed is None else claimed / self.terms.scale,
            rounding=0.0,
            start=self._start_plan,
            build_s=self.build_s,
            solve_s=solve_s,
            message=message,
        )
