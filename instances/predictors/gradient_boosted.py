"""Gradient-boosted trees on the two utilisations (scikit-learn)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import GradientBoostingRegressor

from .base import PairSpeed, Workload, clipped, utilisations

TREES = 60
DEPTH = 3
LEAF = 20
"""Fewest measured speeds in a leaf; half of them where there are fewer than twice so many."""


class GradientBoosted:
    """Gradient-boosted regression trees of the speed on both mean utilisations; extra ``predictors``.

    Squared error, no drawing of rows or columns, so that the same table gives the same trees.
    """

    needs_table = True

    def __init__(self, rows: Sequence[PairSpeed]) -> None:
        leaf = max(1, min(LEAF, len(rows) // 4))
        self._trees = GradientBoostingRegressor(
            n_estimators=TREES, max_depth=DEPTH, min_samples_leaf=leaf, random_state=0
        )
        self._trees.fit(utilisations([(row.own, row.other) for row in rows]), [row.speed for row in rows])

    def speeds(self, pairs: Sequence[tuple[Workload, Workload]]) -> NDArray[np.float64]:
        """Return the speed of the first of each pair."""
        if not pairs:
            return np.zeros(0)
        return clipped(np.asarray(self._trees.predict(utilisations(pairs)), dtype=np.float64))
