"""The model that was fitted to the EaCO paper's sets."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from eaco_opt.interference import Interference

from .. import paper
from .base import PairSpeed, Workload, model_speeds


class PaperFit:
    """The slowdown model ``crowding`` as fitted to the six sets of the EaCO paper (docs/calibration.md)."""

    needs_table = False

    def __init__(self, rows: Sequence[PairSpeed]) -> None:
        del rows  # fitted to the paper's sets

    def interference(self) -> Interference:
        """Return the slowdowns for sets of any size; no set counts as measured."""
        whole = paper.interference()
        return Interference(model=whole.model, params=whole.params)

    def speeds(self, pairs: Sequence[tuple[Workload, Workload]]) -> NDArray[np.float64]:
        """Return the speed of the first of each pair."""
        return model_speeds(self.interference(), pairs)
