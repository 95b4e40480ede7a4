"""Built-in models of the slowdown of sets that were not measured."""

from __future__ import annotations

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

    def __init__(self, params: Mapping[str, float]) -> None:
        take("none", params)

    def factors(self, members: Sequence[KindDemand]) -> tuple[float, ...]:
        """Return 1 for each member."""
        return (1.0,) * len(members)


class AdditiveUtilisation:
    """Jobs share GPU time: the factor is the sum of stand-alone utilisations, at least 1."""

    def __init__(self, params: Mapping[str, float]) -> None:
        take("additive", params)

    def factors(self, members: Sequence[KindDemand]) -> tuple[float, ...]:
        """Return max(1, sum of mean utilisations) for each member."""
        return (max(1.0, sum(m.gpu_util_mean for m in members)),) * len(members)


class Crowding:
    """The same factor for all: ``1 + base * (n - 1) + slope * (n - 1) * load**exponent``.

    n is the number of members and load the sum of their mean utilisations. Both terms
    grow with every job added, so that factors never decrease (for base, slope >= 0).
    """

    def __init__(self, params: Mapping[str, float]) -> None:
        p = take("crowding", params, base=0.0, slope=0.0, exponent=1.0)
        for key in p:
            if p[key] < 0.0:
                raise DomainError(f"slowdown model 'crowding': {key} must be at least 0, got {p[key]!r}")
        self._base, self._slope, self._exponent = p["base"], p["slope"], p["exponent"]

    def factors(self, members: Sequence[KindDemand]) -> tuple[float, ...]:
        """Return the common factor for each member."""
        extra = len(members) - 1
        load = sum(m.gpu_util_mean for m in members)
        factor = 1.0 + extra * (self._base + self._slope * load**self._exponent)
        return (factor,) * len(members)
