"""The configuration LP of docs/model.md section 6 by column generation, with a valid bound at every moment.

Every round: the master gives prices of epochs; between the best prices so far and these, the step with the
largest Lagrangian bound is looked for (prices of a young master are far off, a small step towards them is
not); at both places patterns are priced, which gives new columns. For each group of intervals and pattern
the best column enters, and for each job the best column with it, so that every job's row gets something
new.

The bound that counts is :meth:`ConfigurationLp.lagrangian`: worked out from prices alone, all intervals as
they are, every sum rounded against us. Neither the master's value nor its tolerances enter it.

Intervals are not merged for pricing, only for the rows of capacity: a group of neighbouring intervals shares
one, and it is added only once the columns would exceed it. Where such a row carries a price, groups are
halved (``refine``) as long as that raises the bound.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from formulations.configurations import Configurations
from formulations.costs import Rates

from .closed_form import closed_form_prices
from .master import OBJECTIVE, Master
from .pricing import Pricer

_LOG = logging.getLogger(__name__)

FloatArray = NDArray[np.float64]

TOLERANCE = 1e-5
"""The LP counts as solved when its value is at most this share above the bound."""

GROUPS = 64
"""Groups of intervals at first."""

MOST_ROUNDS = 500
DEAR = 10.0
"""An artificial column costs this many times a job's closed form at first, ten times more if one stays."""
DEAREST = 1e8
STEPS = (1.0, 0.6, 0.3, 0.1, 0.03)
"""Steps from the best prices towards the master's that are tried."""
ROUNDING = 1e-12
"""Share of all terms of the Lagrangian bound that is given away for rounding."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LpBound:
    """What column generation ended with.

    Attributes
    ----------
    value
        Lower bound on the cost of every schedule; infinite where it is proved that there is none.
    prices
        (J,) prices of epochs that prove it.
    lp_value
        Value of the last master, an upper bound on the LP's; infinite before there is one.
    converged
        Whether the two met within :data:`TOLERANCE`.
    rounds, columns, groups
        Work done, and groups of intervals that share a row of capacity at the end.
    use_s
        By pool: (P,) unit-seconds in each pattern in the last master.
    running_s
        (J,) running time of each job there.
    curve
        (seconds, bound, value of the master) of each round.
    """

    value: float
    prices: FloatArray
    lp_value: float
    converged: bool
    rounds: int
    columns: int
    groups: int
    use_s: tuple[FloatArray, ...]
    running_s: FloatArray
    curve: tuple[tuple[float, float, float], ...]


Tell = Callable[[float, float], None]


class ConfigurationLp:
    """The LP of one instance; columns are kept from one objective to the next.

    Parameters
    ----------
    model
        The LP of an instance (:func:`formulations.configurations.configurations`).

    Attributes
    ----------
    model
        What may run together.
    """

    def __init__(self, model: Configurations) -> None:
        self.model = model
        self._pricers = [Pricer(self.model, pool) for pool in self.model.pools]
        self._master = Master(self.model, self._pricers, GROUPS)
        self._rates: Rates | None = None
        self._running: FloatArray = np.zeros(len(self.model.epochs))

    @property
    def intervals(self) -> int:
        """Number of intervals between releases and deadlines."""
        return len(self.model.length_s)

    def charge(self, rates: Rates) -> None:
        """Set what energy and time cost."""
        self._rates = rates
        self._running = rates.running + rates.total
        for pricer in self._pricers:
            pricer.charge(rates.energy, self._running)

    def closed_form(self) -> FloatArray:
        """Return the prices (J,) of the closed form under the rates set."""
        return closed_form_prices(self.model, self._need().energy, self._running)

    def _need(self) -> Rates:
        if self._rates is None:
            raise RuntimeError("charge() comes first")
        return self._rates

    def lagrangian(self, prices: FloatArray) -> tuple[float, FloatArray]:
        """Return a lower bound on the cost of every schedule from prices of epochs, and the prices used.

        Parameters
        ----------
        prices
            (J,) any numbers >= 0. Where they make a pattern worth more than it costs in an unbounded
            interval, those of jobs without a deadline are scaled down until none is.

        Returns
        -------
        bound : float
            Rounded down.
        prices : (J,) array
            As used.
        """
        model = self.model
        prices, tops = self._without_free_lunch(prices)
        gain = model.epochs * prices
        losses = [
            float(math.fsum((pricer.pool.units * model.length_s[top > 0.0] * top[top > 0.0]).tolist()))
            for pricer, top in zip(self._pricers, tops, strict=True)
        ]
        total, lost = math.fsum(gain.tolist()), math.fsum(losses)
        constant = model.constant(self._need())
        return total - lost + constant - ROUNDING * (total + lost + constant), prices

    def _without_free_lunch(self, prices: FloatArray) -> tuple[FloatArray, list[FloatArray]]:
        """Return prices with which no pattern gains in an unbounded interval, and the largest worths."""
        endless = not math.isfinite(self.model.length_s[-1])
        free = self.model.last == self.intervals
        while True:
            tops = []
            scale = 1.0
            for pricer in self._pricers:
                top, pattern = pricer.best(prices)
                if endless and top[-1] > 0.0:
                    column = pricer.column(prices, self.intervals - 1, int(pattern[-1]))
                    jobs = column.jobs[0][column.jobs[0] >= 0]
                    earned = float((pricer.yields(column)[0][: len(jobs)] * prices[jobs]).sum())
                    # Newton's step: what is earned has to come down to the cost, less what rounding may hide.
                    scale = min(
                        scale, (1.0 - float(top[-1]) / earned) * (1.0 - 1e-12) if earned > 0.0 else 0.0
                    )
                tops.append(top)
            if scale == 1.0:
                return prices, tops
            if scale > 0.0:
                prices = np.where(free, prices * scale, prices)
            elif (prices[free] > 0.0).any():
                prices = np.where(free, 0.0, prices)
            else:
                # No pattern costs less than nothing, so without prices none gains: this is rounding.
                for top in tops:
                    top[-1] = min(0.0, top[-1])
                return prices, tops

    def solve(
        self,
        *,
        time_limit_s: float = math.inf,
        tolerance: float = TOLERANCE,
        start: FloatArray | None = None,
        tell: Tell | None = None,
        stop: Callable[[], bool] | None = None,
    ) -> LpBound:
        """Generate columns until the bound meets the LP's value or time is up.

        Parameters
        ----------
        time_limit_s
            Limit [s].
        tolerance
            Relative difference of LP and bound that ends it.
        start
            (J,) prices to start from besides those of the closed form.
        tell
            Called with bound and the master's value.
        stop
            Asked before each round whether to end.
        """
        began = time.monotonic()
        closed = self.closed_form()
        best, prices = self.lagrangian(closed)
        if start is not None:
            value, used = self.lagrangian(start)
            if value > best:
                best, prices = value, used
        for pool, pricer in enumerate(self._pricers):
            # Whatever its reduced cost: every job gets a column, and every group its best patterns.
            self._master.add(pool, pricer.price(prices, self._master.group, self._mu(pool, {}), -math.inf))
        unit = max(abs(best), 1e-300) / OBJECTIVE
        dear, lp_value, converged, rounds = DEAR, math.inf, False, 0
        use_s: tuple[FloatArray, ...] = ()
        running_s = np.zeros(len(closed))
        curve: list[tuple[float, float, float]] = [(time.monotonic() - began, best, math.inf)]
        scale = np.maximum(self.model.epochs * closed, 1e-9 * max(best, 1e-300) / len(closed))
        while rounds < MOST_ROUNDS:
            left = time_limit_s - (time.monotonic() - began)
            if left <= 0.0 or (stop is not None and stop()):
                break
            rounds += 1
            close = lp_value - best <= 3e-3 * abs(best)
            before = len(self._master.active)
            solved = self._master.solve(dear * scale, unit, 1e-8 if close else 1e-4, left, simplex=False)
            if solved.prices is None and time.monotonic() - began < time_limit_s:
                solved = self._master.solve(dear * scale, unit, 1e-8, left, simplex=True)
            if solved.prices is None:
                break
            use_s = solved.use_s
            running_s = running_s if solved.running_s is None else solved.running_s
            lp_value = solved.value + self.model.constant(self._need())
            best, prices, middle = self._step(best, prices, solved.prices)
            new = 0
            for pool, pricer in enumerate(self._pricers):
                mu = self._mu(pool, solved.capacity)
                least = 1e-12 * float(pricer.size())
                for at in (solved.prices, middle):
                    if at is not None:
                        new += self._master.add(pool, pricer.price(at, self._master.group, mu, least))
            curve.append((time.monotonic() - began, best, lp_value))
            if tell is not None:
                tell(best, lp_value)
            if len(self._master.active) > before:
                continue  # these columns exceed a capacity that the master did not know
            met = lp_value - best <= tolerance * abs(best)
            stuck = new == 0 and close
            if not (met or stuck):
                continue
            if solved.missing > 1e-6:
                if self._impossible(solved.prices):
                    best, converged = math.inf, True
                    break
                if dear < DEAREST:
                    dear *= 10.0
                    continue
            converged = met
            if not self._master.refine(solved.capacity, best - self.model.constant(self._need())):
                break
        return LpBound(
            value=best,
            prices=prices,
            lp_value=lp_value,
            converged=converged,
            rounds=rounds,
            columns=self._master.columns,
            groups=len(self._master.room_s) - 1,
            use_s=use_s,
            running_s=running_s,
            curve=tuple(curve),
        )

    def _mu(self, pool: int, capacity: dict[tuple[int, int], float]) -> FloatArray:
        return np.array([capacity.get((pool, g), 0.0) for g in range(len(self._master.room_s))])

    def _step(
        self, best: float, prices: FloatArray, towards: FloatArray
    ) -> tuple[float, FloatArray, FloatArray | None]:
        """Return the best bound on the way to other prices, its prices, and where else to price."""
        middle = None
        ahead = -math.inf
        for step in STEPS:
            at = prices + step * (towards - prices)
            value, used = self.lagrangian(at)
            if value > best:
                best, prices = value, used
            if value > ahead:
                ahead, middle = value, (None if step == 1.0 else at)
            elif step < 1.0:
                break  # the bound is a concave function of the prices: it will not rise again
        return best, prices, middle

    def _impossible(self, prices: FloatArray) -> bool:
        """Tell whether prices prove that there is no schedule: with costs of 0 their bound is positive."""
        rates = self._need()
        self.charge(Rates(energy=0.0, running=np.zeros_like(rates.running), total=0.0))
        value, _ = self.lagrangian(prices)
        self.charge(rates)
        return value > 0.0
