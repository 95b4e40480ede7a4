"""The attainable frontier: the least energy for each mean running time, as a curve of bounds.

For a weight w >= 0 the configuration LP bounds ``E / E_ref + w R / R_ref`` of every schedule from below, E
its energy, R its mean JCT (running time), both relative to a reference run. So with the bounds L(w) of many
weights, no schedule of mean JCT ``rho R_ref`` draws less than

    max over w of  L(w) - w rho                                                     (times E_ref):

the curve is convex, falls, and every point below it is beyond what the instance's own tables of slowdowns
and powers allow, for any scheduler that knows the future and may stop and move jobs at any time.

Much of it may rest on sets that were not measured. Variants of the tables show how much: only measured sets
admitted; modelled sets slowed down half as much, or not at all, beyond what they are alone; their power 5 %
lower.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eaco_opt import _validate as v
from eaco_opt.errors import EacoError
from eaco_opt.instance import Instance
from eaco_opt.io_digest import instance_digest
from formulations.configurations import Configurations, Pool, configurations
from formulations.costs import Rates
from instances.paper import claims
from solvers.bounds.configuration_lp import ConfigurationLp
from solvers.run import solve

from .compare import compare

HEAVIEST = 100.0
"""Largest weight of running time against energy, both relative; the curve is steeper nowhere that matters."""

TOLERANCE = 1e-3
"""Weights are added until the bounds lie this close to the LP's own solutions, in parts of the reference."""

MOST_WEIGHTS = 40

SEARCH_ALPHAS = (0.3, 0.5, 0.7, 0.9)
POLICIES = ("fifo", "fifo_packed", "gandiva", "eaco")
REFERENCE = "fifo"

VARIANTS: dict[str, str] = {
    "as given": "slowdowns and powers as the instance has them",
    "measured only": "only sets of kinds whose power was measured may share",
    "half slowdown": "sets that were not measured slow their members down half as much",
    "no slowdown": "sets that were not measured slow nobody down",
    "less power": "sets that were not measured draw 5 % less",
}
"""What is changed about the tables, by name."""

CURVE_COLUMNS = ("variant", "runtime_percent", "energy_percent")
WEIGHT_COLUMNS = (
    "variant", "weight", "bound", "converged", "lp_runtime_percent", "lp_energy_percent",
    "modelled_energy_share", "seconds",
)  # fmt: skip
POINT_COLUMNS = (
    "name",
    "kind",
    "runtime_percent",
    "energy_percent",
    "least_energy_percent",
    "deadline_misses",
)

Tell = Callable[[str, int, int], None]


def claimed_point() -> tuple[float, float]:
    """Return the paper's claimed change of runtime and energy against FIFO [percent]."""
    found = {claim.id: float(claim.values[0]) for claim in claims()}
    return found["c13"], found["c10"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Curve:
    """Bounds of one variant of the tables.

    Attributes
    ----------
    variant
        Key of :data:`VARIANTS`.
    weights, bounds
        (W,) ascending weights, and what they bound from below.
    fastest
        Lower bound on the mean running time, relative to the reference, whatever the energy.
    rows
        One for each weight, with the keys of :data:`WEIGHT_COLUMNS`.
    """

    variant: str
    weights: NDArray[np.float64]
    bounds: NDArray[np.float64]
    fastest: float
    rows: tuple[dict[str, Any], ...]

    def least_energy(self, runtime_percent: float) -> float:
        """Return the least change of energy [percent] at a change of mean running time [percent]."""
        rho = 1.0 + runtime_percent / 100.0
        return 100.0 * (float(np.max(self.bounds - self.weights * rho)) - 1.0)

    def least_runtime(self, energy_percent: float) -> float | None:
        """Return the least change of mean running time at a change of energy [percent], if any is."""
        left = self.bounds - (1.0 + energy_percent / 100.0)
        if self.weights[0] == 0.0 and left[0] > 0.0:
            return None
        some = self.weights > 0.0
        return 100.0 * (max(self.fastest, float(np.max(left[some] / self.weights[some]))) - 1.0)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Frontier:
    """Outcome of the study.

    Attributes
    ----------
    instance
        The problem.
    reference
        Name of the run that percentages are relative to.
    curves
        By variant.
    points
        Methods and claims, with the keys of :data:`POINT_COLUMNS`.
    seconds
        In all [s].
    """

    instance: Instance
    reference: str
    curves: tuple[Curve, ...]
    points: tuple[dict[str, Any], ...]
    seconds: float

    def curve_rows(
        self, low: float = 0.0, high: float = 25.0, steps: int = 101
    ) -> list[tuple[str, float, float]]:
        """Return the curves as (variant, change of runtime, least change of energy) [percent]."""
        return [
            (curve.variant, float(x), curve.least_energy(float(x)))
            for curve in self.curves
            for x in np.linspace(low, high, steps)
        ]

    def verdicts(self) -> list[dict[str, Any]]:
        """Return what each variant says about the claimed point."""
        runtime, energy = claimed_point()
        out = []
        for curve in self.curves:
            least = curve.least_energy(runtime)
            out.append(
                {
                    "variant": curve.variant,
                    "text": VARIANTS[curve.variant],
                    "claimed_runtime_percent": runtime,
                    "claimed_energy_percent": energy,
                    "least_energy_percent": least,
                    "least_runtime_percent": curve.least_runtime(energy),
                    "beyond": bool(energy < least),
                }
            )
        return out


def frontier(
    instance: Instance,
    *,
    methods: Sequence[str] = POLICIES,
    search_s: float = 60.0,
    time_limit_s: float | None = None,
    variants: Sequence[str] = tuple(VARIANTS),
    seed: int = 0,
    threads: int = 1,
    progress: Tell | None = None,
) -> Frontier:
    """Trace the least energy for each mean running time, and set methods and the paper's claim beside it.

    Parameters
    ----------
    instance
        The problem; its own weight of energy does not matter.
    methods
        Policies, among them the reference.
    search_s
        Wall-clock limit [s] of the search with each of :data:`SEARCH_ALPHAS`; 0 leaves it out.
    time_limit_s
        Wall-clock limit [s] of each LP.
    variants
        Of :data:`VARIANTS`.
    seed, threads
        Of the search.
    progress
        Called with text, steps done and steps in all.

    Raises
    ------
    EacoError
        The reference is not among the methods, or a variant is not known.
    """
    began = time.monotonic()
    if REFERENCE not in methods:
        raise EacoError(f"frontier: {REFERENCE!r} must be among the methods, to which all is relative")
    unknown = [name for name in variants if name not in VARIANTS]
    if unknown:
        raise EacoError(f"frontier: unknown variant {unknown[0]!r}; known are: {', '.join(VARIANTS)}")
    limit = math.inf if time_limit_s is None else v.real("frontier", "time_limit_s", time_limit_s, above=0.0)
    alphas = SEARCH_ALPHAS if search_s > 0.0 else ()
    total = 1 + len(alphas) + len(variants) * (1 + MOST_WEIGHTS)
    done = 0

    def tell(text: str) -> None:
        nonlocal done
        if progress is not None:
            progress(text, done, total)
        done += 1

    tell("policies")
    compared = compare(instance, list(methods), seed=seed, bounds=False)
    base = compared.row(REFERENCE).result.evaluation
    if base is None:
        raise EacoError(f"frontier: {REFERENCE!r} has no schedule of instance {instance.name!r}")
    energy_j, running_s = base.energy_j, base.mean_jct_s
    points: list[dict[str, Any]] = []

    def put(name: str, kind: str, evaluation: Any) -> None:
        points.append(
            {
                "name": name,
                "kind": kind,
                "runtime_percent": 100.0 * (evaluation.mean_jct_s / running_s - 1.0),
                "energy_percent": 100.0 * (evaluation.energy_j / energy_j - 1.0),
                "deadline_misses": evaluation.deadline_misses,
            }
        )

    for row in compared.rows:
        if row.result.evaluation is not None:
            put(row.method, "policy", row.result.evaluation)
    start = None
    for alpha in alphas:
        tell(f"search, alpha {alpha:g}")
        weighted = dataclasses.replace(
            instance, objective=dataclasses.replace(instance.objective, alpha=alpha)
        )
        found = solve(weighted, "lns", time_limit_s=search_s, seed=seed, threads=threads, start=start)
        if found.evaluation is not None and found.evaluation.feasible:
            put(f"lns, alpha {alpha:g}", "search", found.evaluation)
            start = found.schedule
    model = configurations(instance)
    curves = [
        _curve(name, _variant(model, name), instance, energy_j, running_s, limit, tell) for name in variants
    ]
    runtime, energy = claimed_point()
    points.append(
        {
            "name": "paper's claim",
            "kind": "claim",
            "runtime_percent": runtime,
            "energy_percent": energy,
            "deadline_misses": None,
        }
    )
    for point in points:
        point["least_energy_percent"] = curves[0].least_energy(point["runtime_percent"])
    return Frontier(
        instance=instance,
        reference=REFERENCE,
        curves=tuple(curves),
        points=tuple(points),
        seconds=time.monotonic() - began,
    )


def _curve(
    name: str,
    model: Configurations,
    instance: Instance,
    energy_j: float,
    running_s: float,
    limit_s: float,
    tell: Callable[[str], None],
) -> Curve:
    lp = ConfigurationLp(model)
    jobs = len(instance.jobs)
    pue = instance.cluster.pue
    found: dict[float, tuple[float, dict[str, Any]]] = {}
    prices: NDArray[np.float64] | None = None

    tell(f"{name}, running time alone")
    lp.charge(Rates(energy=0.0, running=np.full(jobs, 1.0 / (jobs * running_s)), total=0.0))
    fastest = lp.solve(time_limit_s=limit_s).value

    def look(weight: float) -> None:
        nonlocal prices
        tell(f"{name}, weight {weight:g}")
        began = time.monotonic()
        lp.charge(Rates(energy=pue / energy_j, running=np.full(jobs, weight / (jobs * running_s)), total=0.0))
        out = lp.solve(time_limit_s=limit_s, start=prices)
        prices = out.prices
        drawn = [pool.power_w * use for pool, use in zip(model.pools, out.use_s, strict=True)]
        total = sum(float(d.sum()) for d in drawn)
        modelled = sum(float(d[~pool.measured].sum()) for pool, d in zip(model.pools, drawn, strict=True))
        row = {
            "variant": name,
            "weight": weight,
            "bound": out.value,
            "converged": out.converged,
            "lp_runtime_percent": 100.0 * (float(out.running_s.mean()) / running_s - 1.0),
            "lp_energy_percent": 100.0 * ((total + model.sleep_j) * pue / energy_j - 1.0),
            "modelled_energy_share": modelled / total if total > 0.0 else None,
            "seconds": time.monotonic() - began,
        }
        found[weight] = (out.value, row)

    look(0.0)
    look(HEAVIEST)
    while len(found) < MOST_WEIGHTS:
        weight = _next(found)
        if weight is None or any(abs(weight - w) <= 1e-3 * max(w, 1e-2) for w in found):
            break
        look(weight)
    known = sorted(found)
    return Curve(
        variant=name,
        weights=np.array(known),
        bounds=np.array([found[w][0] for w in known]),
        fastest=fastest,
        rows=tuple(found[w][1] for w in known),
    )


def _next(found: dict[float, tuple[float, dict[str, Any]]]) -> float | None:
    """Return the weight that would close the widest gap between bounds and the LP's solutions, if any is.

    The lines of two neighbouring weights meet at a point on or below the curve; the chord between the
    solutions of the two lies on or above it. The chord's slope is the weight to try (a sandwich algorithm).
    """
    known = sorted(found)
    best, widest = None, TOLERANCE
    for low, high in pairwise(known):
        (below, a), (above, b) = found[low], found[high]
        r0, e0 = (1.0 + a[f"lp_{k}_percent"] / 100.0 for k in ("runtime", "energy"))
        r1, e1 = (1.0 + b[f"lp_{k}_percent"] / 100.0 for k in ("runtime", "energy"))
        if r0 - r1 <= 1e-9:
            continue
        meet = (above - below) / (high - low)
        chord = e1 + (e0 - e1) * (meet - r1) / (r0 - r1)
        gap = chord - (below - low * meet)
        if gap > widest:
            best, widest = (e1 - e0) / (r0 - r1), gap
    return best


def _variant(model: Configurations, name: str) -> Configurations:
    """Return the LP with other tables for sets that were not measured."""
    pools: list[Pool] = []
    for pool in model.pools:
        guess = ~pool.measured & (pool.pattern_classes[:, 1:] >= 0).any(axis=1)
        if name == "measured only":
            keep = ~guess
            pools.append(
                dataclasses.replace(
                    pool,
                    pattern_classes=pool.pattern_classes[keep],
                    sigma=pool.sigma[keep],
                    power_w=pool.power_w[keep],
                    size_w=pool.size_w[keep],
                    measured=pool.measured[keep],
                    own_w=pool.own_w[keep],
                )
            )
            continue
        slow = {"half slowdown": 0.5, "no slowdown": 0.0}.get(name, 1.0)
        watts = 0.95 if name == "less power" else 1.0
        sigma, power, own = pool.sigma.copy(), pool.power_w.copy(), pool.own_w.copy()
        sigma[guess] = 1.0 + slow * (sigma[guess] - 1.0)
        power[guess] *= watts
        own[guess] *= watts
        pools.append(dataclasses.replace(pool, sigma=sigma, power_w=power, own_w=own))
    return dataclasses.replace(model, pools=tuple(pools))


def document(found: Frontier) -> dict[str, Any]:
    """Return what the study says, ready for JSON."""
    return {
        "instance": {
            "name": found.instance.name,
            "digest": instance_digest(found.instance),
            "jobs": len(found.instance.jobs),
            "nodes": len(found.instance.cluster.nodes),
        },
        "reference": found.reference,
        "verdicts": found.verdicts(),
        "points": [dict(point) for point in found.points],
        "weights": [dict(row) for curve in found.curves for row in curve.rows],
        "seconds": found.seconds,
    }
