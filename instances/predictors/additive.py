"""Jobs take turns: the sum of utilisations."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from eaco_opt.interference import Interference

from .base import PairSpeed, Workload, model_speeds


class AdditiveUtilisation:
    """Jobs take turns: speed 1 / max(1, sum of mean utilisations); the slowdown model ``additive``."""

    needs_table = False

    def __init__(self, rows: Sequence[PairSpeed]) -> None:
        del rows  # nothing to learn

    def interference(self) -> Interference:
        """Return the slowdowns for sets of any size."""
        return Interference(model="additive")

    def speeds(self, pairs: Sequence[tuple[Workload, Workload]]) -> NDArray[np.float64]:
        """Return the speed of the first of each pair."""
        return model_speeds(self.interference(), pairs)
