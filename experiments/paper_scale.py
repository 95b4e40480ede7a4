"""The paper's evaluation (its section 6.2) on generated instances of its size, with intervals over seeds.

The paper names neither its trace nor its load. So the settings are fixed here beforehand: whole-node jobs of
the four models in even shares, 1,000 of them, on 64 nodes at load 0.5 and on 28 nodes at loads 0.8, 1.2 and
1.6; and the same with mixed GPU counts. Every schedule is checked independently.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from eaco_opt.errors import DomainError
from eaco_opt.policies import make_policy
from eaco_opt.simulator import simulate
from instances.generators import generate
from instances.paper import claims
from solvers.verify import verify

METHODS = ("fifo", "fifo_packed", "gandiva", "eaco")
SETTINGS = ((64, 0.5), (28, 0.8), (28, 1.2), (28, 1.6))
"""(nodes, offered load) of each setting, fixed beforehand."""

FAMILIES = ("whole-node", "mixed")
MEASURES = ("energy", "runtime", "total_time", "active_nodes")
"""Energy, mean JCT, mean JTT and mean active nodes, each relative to another method, in percent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A mean over seeds with its 95 % confidence interval (Student's t), in percent.

    Attributes
    ----------
    mean, half_width
        The interval is mean -+ half_width; the half-width of a single seed is ``None``.
    """

    mean: float
    half_width: float | None

    def __str__(self) -> str:
        """Return ``mean ± half-width``, signed, in percent."""
        spread = "" if self.half_width is None else f" ± {self.half_width:.1f}"
        return f"{self.mean:+.1f}{spread}"


def interval(values: Sequence[float]) -> Interval:
    """Return mean and 95 % confidence interval of a sample of independent seeds."""
    from scipy.stats import t

    sample = np.asarray(values, dtype=np.float64)
    n = len(sample)
    if n < 2:
        return Interval(mean=float(sample.mean()), half_width=None)
    half = float(t.ppf(0.975, n - 1)) * float(sample.std(ddof=1)) / math.sqrt(n)
    return Interval(mean=float(sample.mean()), half_width=half)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimRow:
    """A claim of the paper's figures beside ours.

    Attributes
    ----------
    id, claim, against
        Row of ``claims.csv``, its words, and the method compared with.
    claimed
        The paper's figure [percent].
    ours
        By load: the mean over seeds with its interval [percent].
    """

    id: str
    claim: str
    against: str
    claimed: float
    ours: tuple[tuple[float, Interval], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperScale:
    """Outcome of the study.

    Attributes
    ----------
    jobs, seeds
        Jobs an instance, and the seeds run.
    rows
        One row for each run: family, nodes, load, seed, method, and the metrics of compare.
    """

    jobs: int
    seeds: tuple[int, ...]
    rows: tuple[dict[str, Any], ...]

    def relative(self, family: str, nodes: int, load: float, method: str, to: str, measure: str) -> Interval:
        """Return a measure of a method relative to another, paired by seed [percent]."""
        column = {
            "energy": "energy_kwh",
            "runtime": "mean_jct_h",
            "total_time": "mean_jtt_h",
            "active_nodes": "mean_active_nodes",
        }[measure]
        values = [
            100.0 * (a / b - 1.0)
            for a, b in zip(
                self._column(family, nodes, load, method, column),
                self._column(family, nodes, load, to, column),
                strict=True,
            )
        ]
        return interval(values)

    def misses(self, family: str, nodes: int, load: float, method: str) -> Interval:
        """Return the share of jobs that end late [percent]."""
        late = self._column(family, nodes, load, method, "deadline_misses")
        return interval([100.0 * m / self.jobs for m in late])

    def modelled(self, family: str, nodes: int, load: float, method: str) -> Interval:
        """Return the share of energy that rests on modelled sets [percent]."""
        shares = self._column(family, nodes, load, method, "modelled_energy_share")
        return interval([100.0 * s for s in shares])

    def order(self, family: str, nodes: int, load: float, measure: str) -> str:
        """Return the methods from least to most; ``=`` joins those whose difference may be nothing.

        Two neighbours count as different when the 95 % interval of their paired difference leaves out 0.
        """
        methods = sorted(
            METHODS, key=lambda m: self.relative(family, nodes, load, m, METHODS[0], measure).mean
        )
        text = methods[0]
        for before, after in pairwise(methods):
            gap = self.relative(family, nodes, load, after, before, measure)
            clear = gap.half_width is not None and gap.mean > max(gap.half_width, 1e-9)
            text += (" < " if clear else " = ") + after
        return text

    def _column(self, family: str, nodes: int, load: float, method: str, column: str) -> list[float]:
        wanted = (family, nodes, load, method)
        return [
            float(r[column]) for r in self.rows if (r["family"], r["nodes"], r["load"], r["method"]) == wanted
        ]

    def claim_rows(self, family: str = "whole-node") -> tuple[ClaimRow, ...]:
        """Return the claims on energy, runtime, total time and active nodes beside ours."""
        claimed = {c.id: c for c in claims()}
        out: list[ClaimRow] = []
        for ident, nodes, measure, against in (
            ("c09", 64, "energy", ("fifo", "fifo_packed", "gandiva")),
            ("c10", 28, "energy", ("fifo",)),
            ("c11", 28, "energy", ("fifo_packed",)),
            ("c12", 28, "energy", ("gandiva",)),
            ("c13", 64, "runtime", ("fifo",)),
            ("c13", 28, "runtime", ("fifo",)),
            ("c14", 28, "total_time", ("fifo",)),
            ("c16", 28, "active_nodes", ("fifo", "fifo_packed", "gandiva")),
            ("c17", 64, "active_nodes", ("fifo", "fifo_packed", "gandiva")),
        ):
            values = claimed[ident].values
            for i, other in enumerate(against):
                ours = tuple(
                    (load, self.relative(family, nodes, load, "eaco", other, measure))
                    for n, load in SETTINGS
                    if n == nodes
                )
                out.append(
                    ClaimRow(
                        id=ident,
                        claim=f"{nodes} nodes: {measure.replace('_', ' ')}",
                        against=other,
                        claimed=float(values[min(i, len(values) - 1)]),
                        ours=ours,
                    )
                )
        return tuple(out)


def paper_scale(
    *,
    seeds: int = 10,
    jobs: int = 1000,
    families: Sequence[str] = FAMILIES,
    progress: Callable[[int, int], None] | None = None,
) -> PaperScale:
    """Run the four policies on every setting and seed.

    Parameters
    ----------
    seeds
        Number of seeds, 0, 1, ...; at least 1.
    jobs
        Jobs of each instance, at least 1.
    families
        Generator families.
    progress
        Called with (runs done, runs in all).
    """
    for name, value in (("seeds", seeds), ("jobs", jobs)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise DomainError(f"paper scale: {name} must be a whole number >= 1, got {value!r}")
    rows: list[dict[str, Any]] = []
    total = len(families) * len(SETTINGS) * seeds * len(METHODS)
    for family in families:
        for nodes, load in SETTINGS:
            for seed in range(seeds):
                instance = generate(family, jobs=jobs, nodes=nodes, load=load, seed=seed)
                for method in METHODS:
                    run = simulate(instance, make_policy(method), seed)
                    verify(method, run.instance, run.schedule, run.evaluation)
                    rows.append(
                        {
                            "family": family,
                            "nodes": nodes,
                            "load": load,
                            "seed": seed,
                            "method": method,
                            **run.evaluation.summary(),
                        }
                    )
                    if progress is not None:
                        progress(len(rows), total)
    return PaperScale(jobs=jobs, seeds=tuple(range(seeds)), rows=tuple(rows))
