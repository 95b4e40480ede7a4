"""A table of pairs in the manner of Gavel, whose holes are filled from its rows and columns."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from .base import PairSpeed, Workload, clipped

RIDGE = 1.0
"""How strongly effects are drawn to 0, in measured pairs."""


class PairTable:
    """Gavel's pair table: measured pairs are looked up, holes are filled from row and column.

    Gavel completes its matrix of normalised throughputs from the entries that it has. Here the logarithm of
    the speed is a constant, plus what the workload suffers, plus what its neighbour does to others, fitted to
    the measured pairs (ridge regression). A workload that is not in the table suffers and does the average.
    """

    needs_table = True

    def __init__(self, rows: Sequence[PairSpeed]) -> None:
        self._known = {(row.own.kind, row.other.kind): row.speed for row in rows}
        kinds = sorted({kind for pair in self._known for kind in pair})
        self._place = {kind: i for i, kind in enumerate(kinds)}
        n = len(kinds)
        own = np.array([self._place[row.own.kind] for row in rows], dtype=np.int64)
        other = np.array([n + self._place[row.other.kind] for row in rows], dtype=np.int64)
        logs = np.log([row.speed for row in rows])
        self._mean = float(logs.mean())
        # Normal equations of one effect a row and one a column; the mean is taken out beforehand.
        matrix = np.diag(np.full(2 * n, RIDGE))
        right = np.zeros(2 * n)
        for a, b in ((own, own), (other, other), (own, other), (other, own)):
            np.add.at(matrix, (a, b), 1.0)
        for a in (own, other):
            np.add.at(right, a, logs - self._mean)
        self._effects = np.append(np.linalg.solve(matrix, right), 0.0)

    def speeds(self, pairs: Sequence[tuple[Workload, Workload]]) -> NDArray[np.float64]:
        """Return the speed of the first of each pair."""
        n = len(self._place)
        none = 2 * n
        own = [self._place.get(a.kind, none) for a, _ in pairs]
        other = [n + self._place[b.kind] if b.kind in self._place else none for _, b in pairs]
        out = clipped(np.exp(self._mean + self._effects[own] + self._effects[other]))
        for i, (a, b) in enumerate(pairs):
            out[i] = self._known.get((a.kind, b.kind), out[i])
        return out
