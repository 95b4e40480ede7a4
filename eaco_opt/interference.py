"""How much slower a job's epochs get when others share its GPUs.

:class:`Interference` combines measured sets with a fitted or stated model for all
others; truth and history of docs/model.md section 7 are two such objects.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, pairwise
from typing import Protocol

from . import _validate as v
from .errors import DomainError
from .registry import Registry

SLOWDOWN_MODELS = Registry("slowdown model", "eaco_opt.interference")
SLOWDOWN_MODELS.register("none", "eaco_opt.slowdown:NoSlowdown")
SLOWDOWN_MODELS.register("additive", "eaco_opt.slowdown:AdditiveUtilisation")
SLOWDOWN_MODELS.register("crowding", "eaco_opt.slowdown:Crowding")
SLOWDOWN_MODELS.register("pair-product", "eaco_opt.slowdown:PairProduct")


@dataclass(frozen=True, slots=True, kw_only=True)
class KindDemand:
    """What a slowdown model may look at: a kind and its stand-alone demands.

    Attributes
    ----------
    kind
        Kind of profile.
    gpu_util_mean, gpu_util_peak, cpu_share
        Fractions.
    gpu_memory_mean_gib, gpu_memory_peak_gib
        GPU memory [GiB].
    """

    kind: str
    gpu_util_mean: float
    gpu_util_peak: float
    gpu_memory_mean_gib: float
    gpu_memory_peak_gib: float
    cpu_share: float


class SlowdownModel(Protocol):
    """A family of models for sets that were not measured.

    Built as ``cls(params)`` from the parameters stored with the interference. A class
    whose factors are never below 1 says so with ``never_below_one = True``; without it
    no deadline is ever taken to be out of reach beforehand.
    """

    def factors(self, members: Sequence[KindDemand]) -> tuple[float, ...]:
        """Return the positive slowdown of each member of a set of two or more."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredSlowdown:
    """Measured slowdowns of one set of jobs that share a GPU.

    Attributes
    ----------
    kinds
        The multiset of kinds, at least two; kept sorted together with ``factors``.
    factors
        Factor by which each member's epoch time grows, positive, may be below 1;
        equal kinds carry equal factors.
    """

    kinds: tuple[str, ...]
    factors: tuple[float, ...]

    def __post_init__(self) -> None:
        """Validate and sort."""
        kinds = v.names("measured slowdown", "kinds", self.kinds)
        owner = f"measured slowdown of {'+'.join(kinds)}"
        if len(kinds) < 2:
            raise DomainError(f"{owner}: kinds must hold at least two, got {len(kinds)}")
        factors = tuple(
            v.real(owner, "factors", f, above=0.0)
            for f in v.sequence(owner, "factors", self.factors, "numbers")
        )
        if len(factors) != len(kinds):
            raise DomainError(f"{owner}: one factor a member is needed, got {len(factors)} for {len(kinds)}")
        pairs = sorted(zip(kinds, factors, strict=True))
        for (a, fa), (b, fb) in pairwise(pairs):
            if a == b and fa != fb:
                raise DomainError(
                    f"{owner}: equal kinds must have equal factors, got {fa!r} and {fb!r} for {a!r}"
                )
        object.__setattr__(self, "kinds", tuple(k for k, _ in pairs))
        object.__setattr__(self, "factors", tuple(f for _, f in pairs))


def _contains(big: tuple[str, ...], small: tuple[str, ...]) -> bool:
    rest = Counter(small)
    rest.subtract(Counter(big))
    return all(n <= 0 for n in rest.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Interference:
    """Slowdown sigma_j(S) of every member of every set (docs/model.md section 1).

    Attributes
    ----------
    measured
        Sets that were measured; they are looked up.
    cannot_share
        Pairs of kinds measured with relative speed 0; no set may hold both.
    model
        Registered slowdown model for all other sets.
    params
        Its parameters, as (name, value) pairs.
    clamp
        Whether a modelled factor is kept at least that of every measured subset and
        at most that of every measured superset.
    """

    measured: tuple[MeasuredSlowdown, ...] = ()
    cannot_share: tuple[tuple[str, str], ...] = ()
    model: str = "none"
    params: tuple[tuple[str, float], ...] = ()
    clamp: bool = True
    _rows: dict[tuple[str, ...], dict[str, float]] = field(init=False, repr=False, compare=False)
    _largest: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Validate."""
        put = object.__setattr__
        rows = v.items("interference", "measured", self.measured, MeasuredSlowdown)
        sets = [m.kinds for m in rows]
        for kinds, count in Counter(sets).items():
            if count > 1:
                raise DomainError(f"interference: set {'+'.join(kinds)} is measured twice; keep one row")
        put(self, "measured", tuple(sorted(rows, key=lambda m: m.kinds)))
        pairs: set[tuple[str, str]] = set()
        for pair in v.sequence("interference", "cannot_share", self.cannot_share, "pairs of kinds"):
            members = tuple(sorted(v.names("interference", "cannot_share", pair)))
            if len(members) != 2:
                raise DomainError(f"interference: cannot_share must hold pairs of kinds, got {pair!r}")
            pairs.add((members[0], members[1]))
        put(self, "cannot_share", tuple(sorted(pairs)))
        for kinds in sets:
            if self._forbidden(kinds, pairs):
                raise DomainError(
                    f"interference: set {'+'.join(kinds)} is measured but holds a pair that cannot share; "
                    "drop one of the two"
                )
        v.name("interference", "model", self.model)
        values = dict[str, float]()
        for key, value in v.pairs("interference", "params", self.params, "(name, value)"):
            if v.name("interference", "params", key) in values:
                raise DomainError(f"interference: parameter {key!r} is given twice; keep one")
            values[key] = v.real("interference", f"params[{key}]", value)
        put(self, "params", tuple(sorted(values.items())))
        v.flag("interference", "clamp", self.clamp)
        # Tables of thousands of pairs are read for every set that is met: by key, not row by row.
        put(self, "_rows", {m.kinds: dict(zip(m.kinds, m.factors, strict=True)) for m in self.measured})
        put(self, "_largest", max(map(len, sets), default=0))
        SLOWDOWN_MODELS.get(self.model)(dict(self.params))

    @staticmethod
    def _forbidden(kinds: tuple[str, ...], pairs: set[tuple[str, str]]) -> bool:
        return any((kinds[i], kinds[j]) in pairs for i in range(len(kinds)) for j in range(i + 1, len(kinds)))

    def can_share(self, kinds: Sequence[str]) -> bool:
        """Tell whether a set holds no pair that cannot share."""
        return not self.cannot_share or not self._forbidden(tuple(sorted(kinds)), set(self.cannot_share))

    def factors(self, kinds: Sequence[str], demands: Mapping[str, KindDemand]) -> dict[str, float]:
        """Return the slowdown of each kind in the multiset ``kinds``.

        Parameters
        ----------
        kinds
            The multiset of kinds on the GPU, in any order.
        demands
            Stand-alone demands by kind.

        Raises
        ------
        DomainError
            The set holds a pair that cannot share, or the model gave too many or too few
            factors, or one that is not positive and finite, or failed.
        """
        key = tuple(sorted(kinds))
        if len(key) <= 1:
            return dict.fromkeys(key, 1.0)
        if not self.can_share(key):
            raise DomainError(
                f"interference: {'+'.join(key)} holds a pair that cannot share; it has no slowdown"
            )
        known = self._rows.get(key)
        if known is not None:
            return dict(known)
        model: SlowdownModel = SLOWDOWN_MODELS.get(self.model)(dict(self.params))
        owner = f"slowdown model {self.model!r}"
        try:
            from_pairs = getattr(model, "from_pairs", None)
            if from_pairs is not None and len(key) > 2:
                raw = from_pairs(self._pairs(key, demands))
            else:
                raw = model.factors([demands[k] for k in key])
        except ArithmeticError as error:
            raise DomainError(
                f"{owner}: factors of {'+'.join(key)} cannot be worked out ({error}); check its parameters"
            ) from error
        if len(raw) != len(key):
            raise DomainError(f"{owner}: expected {len(key)} factors of {'+'.join(key)}, got {len(raw)}")
        out: dict[str, float] = {}
        for kind, factor in zip(key, raw, strict=True):
            out[kind] = v.real(
                f"slowdown model {self.model!r}", f"factor of {kind} in {'+'.join(key)}", factor, above=0.0
            )
        if self.clamp:
            for size in range(2, min(len(key), self._largest + 1)):
                for kinds in set(combinations(key, size)):
                    for kind, factor in self._rows.get(kinds, {}).items():
                        out[kind] = max(out[kind], factor)
            if self._largest > len(key):
                for kinds, shared in self._rows.items():
                    if len(kinds) > len(key) and _contains(kinds, key):
                        for kind in set(key):
                            out[kind] = min(out[kind], shared[kind])
        return out

    def _pairs(self, key: tuple[str, ...], demands: Mapping[str, KindDemand]) -> list[list[float]]:
        """Return [i][k], the slowdown of member i beside member k alone; 1 where i is k."""
        return [
            [1.0 if i == k else self.factors((a, b), demands)[a] for k, b in enumerate(key)]
            for i, a in enumerate(key)
        ]
