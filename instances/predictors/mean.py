"""The yardstick: always the mean."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from .base import PairSpeed, Workload


class Mean:
    """The mean of the measured speeds, whatever the pair."""

    needs_table = True

    def __init__(self, rows: Sequence[PairSpeed]) -> None:
        self._mean = float(np.mean([row.speed for row in rows]))

    def speeds(self, pairs: Sequence[tuple[Workload, Workload]]) -> NDArray[np.float64]:
        """Return the mean for each pair."""
        return np.full(len(pairs), self._mean)
