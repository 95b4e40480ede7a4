"""Kernel ridge regression on the two utilisations, in numpy alone."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from .base import PairSpeed, Workload, clipped, utilisations

CENTRES = 4
"""Bumps a side: on a grid over the square of both utilisations."""

WIDTH = 0.5
"""Standard deviation of a bump, in utilisation: one and a half steps of the grid."""

RIDGE = 10.0
"""How strongly weights are drawn to 0, in measured speeds."""


class Kernel:
    """Kernel ridge regression of the speed on both mean utilisations; needs numpy only.

    Gaussian bumps stand on a grid over the square of the two utilisations; their weights are those of a ridge
    regression of the speed less its mean.
    """

    needs_table = True

    def __init__(self, rows: Sequence[PairSpeed]) -> None:
        steps = np.linspace(0.0, 1.0, CENTRES)
        self._centres = np.array([(a, b) for a in steps for b in steps])
        bumps = self._bumps(utilisations([(row.own, row.other) for row in rows]))
        speeds = np.array([row.speed for row in rows])
        self._mean = float(speeds.mean())
        matrix = bumps.T @ bumps + RIDGE * np.eye(len(self._centres))
        self._weights = np.linalg.solve(matrix, bumps.T @ (speeds - self._mean))

    def _bumps(self, at: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return (N, C) values of the bumps at (N, 2) points."""
        square = ((at[:, None, :] - self._centres[None, :, :]) ** 2).sum(axis=2)
        out: NDArray[np.float64] = np.exp(-square / (2.0 * WIDTH**2))
        return out

    def speeds(self, pairs: Sequence[tuple[Workload, Workload]]) -> NDArray[np.float64]:
        """Return the speed of the first of each pair."""
        return clipped(self._mean + self._bumps(utilisations(pairs)) @ self._weights)
