"""The closed form of docs/model.md 6.1: every job pays its part of the cheapest company that it could have.

The parts of a pattern's members (equation 5, and their own time) add up to its cost. So with the price of
an epoch

    pi_j = min over pools, patterns S with j of  (energy * own_j(S) + q_j running_j) tau_j sigma_j(S) / q_j

no pattern is worth more than it costs: the prices are feasible for the dual of the configuration LP
(:mod:`formulations.configurations`), the Lagrangian bound with them is the sum of n_j pi_j, and it lies at
or below the LP's value.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from formulations.configurations import Configurations


def closed_form_prices(
    model: Configurations, energy: float, running: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return (J,) prices of epochs; infinite for jobs that fit nowhere.

    Parameters
    ----------
    model
        The instance's LP.
    energy, running
        What a joule and (J,) a second of running cost.
    """
    out = np.full(len(model.epochs), np.inf)
    for pool in model.pools:
        jobs = np.flatnonzero(pool.share > 0.0)
        for c in np.unique(model.job_class[jobs]):
            mine = jobs[model.job_class[jobs] == c]
            at = pool.pattern_classes == c
            slow = pool.sigma[at]
            own = energy * pool.own_w[at] * slow
            for k in _lower_left(own, slow):
                price = pool.tau_s[mine] * (own[k] / pool.share[mine] + running[mine] * slow[k])
                out[mine] = np.minimum(out[mine], price)
    return out


def _lower_left(a: NDArray[np.float64], b: NDArray[np.float64]) -> list[int]:
    """Return the points that no other is at or below in both coordinates: the others are never cheapest."""
    keep: list[int] = []
    least = np.inf
    for k in np.lexsort((b, a)):
        if b[k] < least:
            least = float(b[k])
            keep.append(int(k))
    return keep
