"""Lower bounds that hold for every schedule of any class (docs/model.md section 6): :func:`bound`.

Map: :mod:`formulations.configurations` states the LP; ``closed_form`` gives prices without solving anything,
``configuration_lp`` the best prices by column generation (``master``: HiGHS; ``pricing`` and ``kernel``:
patterns), ``certificate`` works each bound out anew from its prices alone, in rational arithmetic and by
other code.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from eaco_opt import _validate as v
from eaco_opt.errors import EacoError, UnknownNameError
from eaco_opt.impossible import impossible_jobs
from eaco_opt.instance import Instance
from eaco_opt.io_digest import instance_digest
from formulations.configurations import TooManyPatternsError, configurations
from formulations.costs import Rates, rates_of

from ..run import need_instance
from .certificate import confirmed

if TYPE_CHECKING:
    from .configuration_lp import ConfigurationLp, LpBound

KINDS = ("auto", "closed-form", "configuration-lp")
JOULES_PER_KWH = 3.6e6
SHARE_OF_OBJECTIVE = 0.7
"""Share of the time limit that the bound on the objective may take; the one on energy gets the rest."""

Hook = Callable[[float, float | None, float | None], None]
"""Told seconds, the bound so far, and the LP's value so far."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Bound:
    """A lower bound on the objective of every schedule, and on its energy.

    Attributes
    ----------
    value
        Lower bound on the objective; ``None`` where it is proved that there is no schedule.
    kind
        ``closed-form`` or ``configuration-lp``: what it comes from.
    infeasible
        Whether it is proved that no schedule keeps all rules.
    energy_kwh
        Lower bound on the energy [kWh], sleep power and PUE included; ``None`` if not asked for or
        infeasible.
    closed_form
        The closed form, for comparison; ``None`` where infeasible.
    lp_value
        Value of the configuration LP, which the bound has come as close to as ``converged`` says; ``None``
        without.
    converged
        Whether more time would raise the bound on the objective by no more than
        :data:`~solvers.bounds.configuration_lp.TOLERANCE`.
    seconds
        Wall-clock time [s].
    iterations, intervals, columns
        Rounds of column generation, intervals between releases and deadlines, columns generated.
    prices
        (J,) prices of epochs that prove ``value``, the jobs in the instance's order.
    energy_prices
        (J,) the same for ``energy_kwh``, prices in joules.
    curve
        (seconds, bound, LP value or infinity) after each round.
    digest, message
        Digest of the instance; what there is to say.
    """

    value: float | None
    kind: str
    infeasible: bool = False
    energy_kwh: float | None = None
    closed_form: float | None = None
    lp_value: float | None = None
    converged: bool = True
    seconds: float = 0.0
    iterations: int = 0
    intervals: int = 0
    columns: int = 0
    prices: NDArray[np.float64] | None = None
    energy_prices: NDArray[np.float64] | None = None
    curve: tuple[tuple[float, float, float], ...] = ()
    digest: str = ""
    message: str = ""

    def row(self) -> dict[str, Any]:
        """Return it under the keys of the command line."""
        return {
            "bound": self.value,
            "kind": self.kind,
            "status": "infeasible" if self.infeasible else "bound",
            "seconds": self.seconds,
            "iterations": self.iterations,
            "intervals": self.intervals,
            "columns": self.columns,
            "energy_bound_kwh": self.energy_kwh,
            "closed_form": self.closed_form,
            "lp_value": self.lp_value,
            "converged": self.converged,
            "digest": self.digest,
            "message": self.message,
        }


def energy_rates(instance: Instance) -> Rates:
    """Return the rates with which the cost of a schedule is its energy [J]."""
    jobs = len(instance.jobs)
    return Rates(energy=instance.cluster.pue, running=np.zeros(jobs), total=0.0)


def bound(
    instance: Instance,
    kind: str = "auto",
    *,
    time_limit_s: float | None = None,
    energy: bool = True,
    progress: Hook | None = None,
    stop: Callable[[], bool] | None = None,
) -> Bound:
    """Return a lower bound on the objective of every schedule of any class, and one on its energy.

    It holds in continuous time and on every grid, for schedules that keep deadlines, limits and all other
    rules within the tolerances of docs/model.md section 3.

    Parameters
    ----------
    instance
        The problem, with its objective.
    kind
        ``closed-form``, ``configuration-lp``, or ``auto``: the largest that can be had.
    time_limit_s
        Wall-clock limit [s]; what has been proved until then is returned.
    energy
        Whether to bound the energy as well, by a second LP.
    progress
        Called after each round.
    stop
        Asked before each round whether to end with what has been proved.

    Raises
    ------
    UnknownNameError
        No such kind.
    TooManyPatternsError
        Too many kinds of company for ``configuration-lp`` or ``closed-form``.
    EacoError
        Not an instance, or no limit.
    """
    from .configuration_lp import ConfigurationLp

    need_instance("bound", instance)
    if kind not in KINDS:
        raise UnknownNameError(f"unknown kind of bound {kind!r}; known are: {', '.join(KINDS)}")
    limit = math.inf if time_limit_s is None else v.real("bound", "time_limit_s", time_limit_s, low=0.0)
    began = time.monotonic()
    digest = instance_digest(instance)
    named = "closed-form" if kind == "closed-form" else "configuration-lp"
    if not instance.jobs:
        return Bound(
            value=0.0, kind=named, energy_kwh=0.0 if energy else None, closed_form=0.0, digest=digest
        )
    impossible = impossible_jobs(instance)
    if impossible:
        return Bound(
            value=None,
            kind=named,
            infeasible=True,
            seconds=time.monotonic() - began,
            digest=digest,
            message=f"job {impossible[0].job!r} can never be served: {impossible[0].reason}",
        )
    lp = ConfigurationLp(configurations(instance))
    lp.charge(rates_of(instance))
    if named == "closed-form":
        return _closed_form(instance, lp, energy, began, digest)
    found = lp.solve(
        time_limit_s=limit * (SHARE_OF_OBJECTIVE if energy else 1.0) - (time.monotonic() - began),
        tell=_teller(progress, began),
        stop=stop,
    )
    if math.isinf(found.value):
        return Bound(
            value=None,
            kind=named,
            infeasible=True,
            seconds=time.monotonic() - began,
            iterations=found.rounds,
            intervals=lp.intervals,
            columns=found.columns,
            digest=digest,
            message="whoever shares, the nodes have less time than the jobs need between releases and "
            "deadlines",
        )
    least: LpBound | None = None
    if energy:
        lp.charge(energy_rates(instance))
        least = lp.solve(time_limit_s=limit - (time.monotonic() - began), stop=stop)
    return Bound(
        value=confirmed("bound on the objective", instance, found.value, found.prices),
        kind=named,
        energy_kwh=None if least is None else _confirmed_kwh(instance, least.value, least.prices),
        closed_form=found.curve[0][1],
        lp_value=found.lp_value if math.isfinite(found.lp_value) else None,
        converged=found.converged,
        seconds=time.monotonic() - began,
        iterations=found.rounds,
        intervals=lp.intervals,
        columns=found.columns,
        prices=found.prices,
        energy_prices=None if least is None else least.prices,
        curve=found.curve,
        digest=digest,
    )


def _closed_form(instance: Instance, lp: ConfigurationLp, energy: bool, began: float, digest: str) -> Bound:
    value, prices = lp.lagrangian(lp.closed_form())
    least: tuple[float, NDArray[np.float64]] | None = None
    if energy:
        lp.charge(energy_rates(instance))
        least = lp.lagrangian(lp.closed_form())
    return Bound(
        value=confirmed("closed form", instance, value, prices),
        kind="closed-form",
        energy_kwh=None if least is None else _confirmed_kwh(instance, *least),
        closed_form=value,
        seconds=time.monotonic() - began,
        intervals=lp.intervals,
        prices=prices,
        energy_prices=None if least is None else least[1],
        digest=digest,
    )


def _confirmed_kwh(instance: Instance, joules: float, prices: NDArray[np.float64]) -> float:
    """Return a bound on the energy [kWh], rounded down."""
    found = confirmed("bound on the energy", instance, joules, prices, energy_only=True)
    return math.nextafter(found / JOULES_PER_KWH, -math.inf)


def _teller(progress: Hook | None, began: float) -> Callable[[float, float], None] | None:
    if progress is None:
        return None

    def tell(value: float, lp_value: float) -> None:
        progress(time.monotonic() - began, value, lp_value if math.isfinite(lp_value) else None)

    return tell


__all__ = ["KINDS", "Bound", "EacoError", "TooManyPatternsError", "bound", "energy_rates"]
