"""Exact integers in place of floats, with a stated direction of rounding.

Costs are rounded **down**. All variables are counted from 0 up, so the integer objective never exceeds the
true one times the scale, and a lower bound of it, divided by the scale, is a lower bound of the true
objective.

Work is scaled so that "progress has reached n_j" means the same in integers. The speeds that a job can have
are a short list; a small scale is looked for at which every possible vector of counts (slots at each speed)
falls on the right side, which is tried out. Only where there are too many vectors to try are the speeds
rounded **up** for "reached" and **down** for "not yet reached", at a scale of 2**36: then the model admits
a little more than the physics, bounds stay valid, and what the plan does is worked out by the physics.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from eaco_opt.arrays import PROGRESS_TOLERANCE

from .base import ScalingError

LARGEST = 2**53
"""Largest integer that scaled sums may reach: beyond, floats inside solvers are no longer exact."""

_MOST_TRIED_BITS = 30
_MOST_VECTORS = 60_000
LARGE_BITS = 36
"""Resolution of work where too many vectors would have to be tried: 2**-36 of a job."""


@dataclass(frozen=True, slots=True)
class CostScale:
    """Turns costs into integers and integer objectives back into bounds.

    Attributes
    ----------
    scale
        Integer units in one unit of the objective, a power of two.
    """

    scale: Fraction

    def down(self, cost: float) -> int:
        """Return the cost in integer units, rounded down."""
        return math.floor(Fraction(cost) * self.scale)

    def value(self, units: float) -> float:
        """Return the objective of a number of integer units (for a bound: rounded towards minus infinity)."""
        exact = Fraction(units) / self.scale
        near = float(exact)
        return near if Fraction(near) <= exact else math.nextafter(near, -math.inf)


def cost_scale(costs: Sequence[float], *, largest_sum: float, active: int, tolerance: float) -> CostScale:
    """Return the least scale at which rounding costs no more than a tolerance.

    Parameters
    ----------
    costs
        All coefficients of the objective.
    largest_sum
        Largest possible sum of coefficients times variables, in absolute value.
    active
        Most units of variables that are above 0 in any solution: each loses less than one integer unit.
    tolerance
        Largest loss of the whole objective to rounding, in units of the objective, above 0.

    Raises
    ------
    ScalingError
        A coefficient is not finite, or at that scale the sum would exceed 2**53.
    """
    if not all(math.isfinite(c) for c in costs) or not math.isfinite(largest_sum):
        raise ScalingError(
            "costs: every coefficient must be finite; check powers and weights of the instance"
        )
    if not tolerance > 0.0:
        raise ScalingError(f"costs: the tolerance must be above 0, got {tolerance!r}")
    bits = math.ceil(math.log2(max(1, active)) - math.log2(tolerance))
    scale = Fraction(2) ** bits
    if Fraction(largest_sum) * scale + active > LARGEST:
        raise ScalingError(
            f"costs: sums up to {largest_sum:.6g} at a resolution of {tolerance:.3g} do not fit integers of "
            "at most 2**53; raise the tolerance, shorten the horizon or lengthen the slot"
        )
    return CostScale(scale)


@dataclass(frozen=True, slots=True)
class Work:
    """Work of a job in integers.

    Attributes
    ----------
    need
        Units that complete it: reached when the sum of ``up`` is at least this.
    up
        Units done in a slot at each speed, for "it has reached".
    down
        Units done in a slot at each speed, for "it has not yet reached": the sum is at most ``need - 1``.
    exact
        Whether both tests agree with the physics for every possible vector of counts.
    """

    need: int
    up: tuple[int, ...]
    down: tuple[int, ...]
    exact: bool


def integer_work(
    epochs: float, speeds: Sequence[float], most_slots: int, *, large_bits: int = LARGE_BITS
) -> Work:
    """Return the work of a job whose slots each run at one of some speeds.

    Parameters
    ----------
    epochs
        Whole epochs n_j; reached at n_j * (1 - 1e-9).
    speeds
        Epochs a slot, positive, each different.
    most_slots
        Longest duration [slots].
    large_bits
        Most bits of the scale, and those of the scale at which speeds are rounded.
    """
    need = Fraction(epochs) * (1 - Fraction(PROGRESS_TOLERANCE))
    shares = [Fraction(p) / need for p in speeds]
    vectors = _vectors(len(shares), most_slots)
    if vectors is not None:
        done = vectors @ np.array([float(s) for s in shares])
        reached = done >= 1.0
        # Undecided by floats: exact fractions for the few that lie next to 1.
        for i in np.flatnonzero(np.abs(done - 1.0) < 1e-9):
            reached[i] = sum(int(c) * s for c, s in zip(vectors[i], shares, strict=True)) >= 1
        for bits in range(4, min(large_bits, _MOST_TRIED_BITS) + 1):
            units = [math.ceil(s * 2**bits) for s in shares]
            # Rounding up keeps every vector that has reached; those that have not must stay below.
            if not len(vectors) or int((vectors[~reached] @ np.array(units)).max(initial=0)) < 2**bits:
                return Work(2**bits, tuple(units), tuple(units), True)
    bits = large_bits
    up = tuple(math.ceil(s * 2**bits) for s in shares)
    return Work(2**bits, up, tuple(math.floor(s * 2**bits) for s in shares), False)


def _vectors(levels: int, most: int) -> NDArray[np.int64] | None:
    """Return all vectors of counts with a sum of at most ``most``; ``None`` if there are too many."""
    if math.comb(most + levels, levels) > _MOST_VECTORS:
        return None
    out = np.zeros((1, 0), dtype=np.int64)
    for _ in range(levels):
        left = most - out.sum(axis=1)
        rows = np.repeat(np.arange(len(out)), left + 1)
        at = np.arange(len(rows)) - np.repeat(np.cumsum(left + 1) - (left + 1), left + 1)
        out = np.column_stack([out[rows], at])
    return out
