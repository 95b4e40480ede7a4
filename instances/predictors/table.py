"""Look up what was measured, and fall back on utilisations."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from .additive import AdditiveUtilisation
from .base import PairSpeed, Workload


class Table:
    """Measured pairs are looked up; all others get the prediction of ``additive-utilisation``."""

    needs_table = True

    def __init__(self, rows: Sequence[PairSpeed]) -> None:
        self._known = {(row.own.kind, row.other.kind): row.speed for row in rows}
        self._fallback = AdditiveUtilisation(rows)

    def speeds(self, pairs: Sequence[tuple[Workload, Workload]]) -> NDArray[np.float64]:
        """Return the speed of the first of each pair."""
        out = self._fallback.speeds(pairs)
        for i, (own, other) in enumerate(pairs):
            out[i] = self._known.get((own.kind, other.kind), out[i])
        return out
