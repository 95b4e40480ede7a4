"""Built-in models of the slowdown of sets that were not measured."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from .errors import DomainError
from .interference import KindDemand


def take(model: str, params: Mapping[str, float], **defaults: float) -> dict[str, float]:
    """Return the parameters of a model, defaults filled in; unknown ones are refused."""
    for key in params:
        if key not in defaults:
            known = ", ".join(defaults) or "none"
            raise DomainError(f"slowdown model {model!r}: unknown parameter {key!r}; known are: {known}")
    return {**defaults, **params}


class NoSlowdown:
    """Sharing costs nothing: every factor is 1."""

    never_below_one = True

    def __init__(self, params: Mapping[str, float]) -> None:
        take("none", params)

    def factors(self, members: Sequence[KindDemand]) -> tuple[float, ...]:
        """Return 1 for each member."""
        return (1.0,) * len(members)


class AdditiveUtilisation:
    """Jobs share GPU time: the factor is the sum of stand-alone utilisations, at least 1."""

    never_below_one = True

    def __init__(self, params: Mapping[str, float]) -> None:
        take("additive", params)

    def factors(self, members: Sequence[KindDemand]) -> tuple[float, ...]:
        """Return max(1, sum of mean utilisations) for each member."""
        return (max(1.0, sum(m.gpu_util_mean for m in members)),) * len(members)


class Crowding:
    """Every member is slowed by each job more, the harder the fuller the GPU; never below the load.

    With n members and load l, the sum of their mean stand-alone utilisations, the common factor is
    ``max(l, 1 + (n - 1) * (base + slope * l**exponent))``. ``base`` is what one more job costs
    whatever it does on the GPU (input pipeline, CPU, memory of the host), the second term what
    contention for the GPU costs. The floor l says that a GPU has no more than one second of kernel
    time a second. The factor is at least 1 and grows, or stays, with every job added: n and l do, and base,
    slope and exponent are not negative. Parameters: ``base`` (default 0), ``slope`` (0), ``exponent`` (4).

    The default exponent is the one that measured sets chose (docs/calibration.md section 2). Sets with a load
    above 1 were not measured; there three and more jobs soon exceed the floor.
    """

    never_below_one = True

    def __init__(self, params: Mapping[str, float]) -> None:
        p = take("crowding", params, base=0.0, slope=0.0, exponent=4.0)
        for key, value in p.items():
            if not 0.0 <= value < math.inf:
                raise DomainError(
                    f"slowdown model 'crowding': {key} must be a finite number >= 0, got {value!r}"
                )
        self._base, self._slope, self._exponent = p["base"], p["slope"], p["exponent"]

    def factors(self, members: Sequence[KindDemand]) -> tuple[float, ...]:
        """Return the common factor for each member."""
        more = len(members) - 1
        load = sum(m.gpu_util_mean for m in members)
        factor = 1.0 + more * (self._base + self._slope * load**self._exponent)
        return (max(load, factor),) * len(members)


class PairProduct(AdditiveUtilisation):
    """Each neighbour slows a job as in their pair: the factor is the product over neighbours, at least 1.

    Pairs come from the table of measured sets. A pair that is not there gets the sum of mean utilisations,
    at least 1, as in the model ``additive``. docs/predictors.md says why it is not the sum of excesses.
    """

    def __init__(self, params: Mapping[str, float]) -> None:
        take("pair-product", params)

    def from_pairs(self, pairs: Sequence[Sequence[float]]) -> tuple[float, ...]:
        """Return the factor of each member of a set of three and more.

        Parameters
        ----------
        pairs
            (n, n) slowdown of member i beside member k alone, 1 on the diagonal.
        """
        return tuple(max(1.0, math.prod(row)) for row in pairs)
