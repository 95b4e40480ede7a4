"""Slowdowns: measured sets, built-in models, and the clamp between measured neighbours (section 1.6)."""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import combinations_with_replacement
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eaco_opt.errors import DomainError
from eaco_opt.interference import SLOWDOWN_MODELS, Interference, KindDemand, MeasuredSlowdown
from tests.strategies import interferences

KINDS = "abcde"


def demand(kind: str, util: float) -> KindDemand:
    return KindDemand(
        kind=kind,
        gpu_util_mean=util,
        gpu_util_peak=1.0,
        gpu_memory_mean_gib=1.0,
        gpu_memory_peak_gib=1.0,
        cpu_share=0.0,
    )


DEMANDS = {k: demand(k, u) for k, u in zip(KINDS, (0.1, 0.2, 0.4, 0.8, 0.0), strict=True)}


def measured(*rows: tuple[str, tuple[float, ...]]) -> tuple[MeasuredSlowdown, ...]:
    return tuple(MeasuredSlowdown(kinds=tuple(kinds), factors=factors) for kinds, factors in rows)


def factors(kinds: str, **fields: Any) -> dict[str, float]:
    return Interference(**fields).factors(tuple(kinds), DEMANDS)


def test_alone_nobody_is_slowed() -> None:
    """One job, or none, has factor 1, also where that job was measured in company."""
    assert factors("a", measured=measured(("aa", (2.0, 2.0)))) == {"a": 1.0}
    assert factors("") == {}


def test_measured_sets_are_looked_up_in_any_order() -> None:
    """A set is a multiset: order does not matter, numbers do; factors may be below 1 and differ."""
    rows = measured(("ba", (0.8, 1.5)), ("aab", (1.25, 1.25, 3.0)))
    for kinds in ("ab", "ba"):
        assert factors(kinds, measured=rows) == {"a": 1.5, "b": 0.8}
    for kinds in ("aab", "aba", "baa"):
        assert factors(kinds, measured=rows) == {"a": 1.25, "b": 3.0}
    assert factors("abb", measured=rows, clamp=False) == {"a": 1.0, "b": 1.0}


def test_built_in_models() -> None:
    """None: 1. Additive: the sum of utilisations, at least 1. Crowding: by heads and load, at least it."""
    assert factors("cd") == {"c": 1.0, "d": 1.0}
    assert factors("cd", model="additive") == {"c": pytest.approx(1.2), "d": pytest.approx(1.2)}
    assert factors("ab", model="additive") == {"a": 1.0, "b": 1.0}
    # 1 + (n - 1) * (base + slope * load**exponent): three with load 0.1 + 0.2 + 0.4 = 0.7.
    params = (("base", 0.05), ("slope", 0.2), ("exponent", 2.0))
    three = 1 + 2 * (0.05 + 0.2 * 0.49)
    assert factors("abc", model="crowding", params=params) == dict.fromkeys("abc", pytest.approx(three))
    # By default the exponent is 4 and nothing costs anything, except that a GPU has one second a second:
    # c and d ask for 1.2.
    assert factors("cd", model="crowding") == {"c": pytest.approx(1.2), "d": pytest.approx(1.2)}
    slope = (("slope", 1.0),)
    assert factors("bc", model="crowding", params=slope)["b"] == pytest.approx(1 + 0.6**4)
    # Twice the same kind counts twice: 0.8 + 0.8.
    assert factors("dd", model="additive") == {"d": 1.6}


def test_clamp_between_measured_subsets_and_supersets() -> None:
    """A modelled factor is raised to its measured subsets', then lowered to its measured supersets'."""
    rows = measured(("ab", (1.5, 1.4)), ("abcd", (1.45, 1.6, 1.15, 1.3)), ("cc", (1.1, 1.1)))
    params = (("base", 0.1),)  # pairs 1.1, three 1.2, four 1.3; the load of d and c, 1.2, is more

    def of(kinds: str, clamp: bool = True) -> dict[str, float]:
        return factors(kinds, measured=rows, model="crowding", params=params, clamp=clamp)

    # a: at least 1.5 beside b, at most 1.45 with all four: where they cross the larger set has the last word.
    assert of("abc") == {"a": 1.45, "b": 1.4, "c": pytest.approx(1.15)}
    # c, 1.2 by the model, is 1.15 at most; nothing was measured of a and b without each other.
    assert of("ac") == {"a": 1.1, "c": pytest.approx(1.1)}
    assert of("bcd") == {"b": pytest.approx(1.4), "c": 1.15, "d": 1.3}
    assert of("abc", clamp=False) == dict.fromkeys("abc", 1.2)
    # A second c is in no measured superset with a; c+c is a subset of it.
    assert of("acc") == {"a": pytest.approx(1.2), "c": pytest.approx(1.2)}
    # Factors below 1 bound as well: with a+c measured at 0.7 for a, more company may not cost a more.
    below = measured(("abc", (0.7, 0.9, 1.0)))
    assert factors("ab", measured=below, model="crowding", params=params) == {"a": 0.7, "b": 0.9}


def test_pairs_that_cannot_share() -> None:
    """They forbid every set that holds them; a pair of one kind forbids it twice, not once."""
    apart = Interference(cannot_share=(("b", "a"), ("c", "c")))
    verdicts = {kinds: apart.can_share(tuple(kinds)) for kinds in ("a", "ab", "ba", "acb", "c", "ac", "cbc")}
    assert verdicts == {
        "a": True, "ab": False, "ba": False, "acb": False, "c": True, "ac": True, "cbc": False
    }  # fmt: skip
    with pytest.raises(DomainError) as caught:
        apart.factors(("b", "a"), DEMANDS)
    assert str(caught.value) == "interference: a+b holds a pair that cannot share; it has no slowdown"
    assert Interference().can_share(tuple("aabbcc"))


class Given:
    """A third party's model that returns its parameter's worth of factors, of that size."""

    def __init__(self, params: Mapping[str, float]) -> None:
        self._params = dict(params)

    def factors(self, members: Sequence[KindDemand]) -> tuple[float, ...]:
        count = int(self._params.get("count", len(members)))
        if self._params.get("fail"):
            raise ZeroDivisionError("float division by zero")
        return (self._params.get("factor", 2.0),) * count


@pytest.mark.parametrize(
    ("params", "text"),
    [
        ({"factor": 0.0}, "slowdown model 'given': factor of a in a+b must be above 0, got 0.0"),
        ({"factor": -1.0}, "slowdown model 'given': factor of a in a+b must be above 0, got -1.0"),
        ({"count": 1.0}, "slowdown model 'given': expected 2 factors of a+b, got 1"),
        ({"count": 3.0}, "slowdown model 'given': expected 2 factors of a+b, got 3"),
        (
            {"fail": 1.0},
            "slowdown model 'given': factors of a+b cannot be worked out (float division by zero); check its "
            "parameters",
        ),
    ],
)
def test_models_that_give_nonsense_are_named(
    params: dict[str, float], text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a third party's model returns is checked, and the text says which set it was asked for."""
    monkeypatch.setitem(SLOWDOWN_MODELS._targets, "given", f"{__name__}:Given")
    assert factors("ab", model="given") == {"a": 2.0, "b": 2.0}
    with pytest.raises(DomainError) as caught:
        factors("ab", model="given", params=tuple(params.items()))
    assert str(caught.value) == text


@given(interferences(list("abc")), st.permutations("abc"))
def test_factors_against_the_definition(truth: Interference, order: list[str]) -> None:
    """Every multiset of up to four kinds: looked up, or modelled and clamped, or forbidden."""

    def within(small: Sequence[str], big: Sequence[str]) -> bool:
        return not Counter(small) - Counter(big)

    rows = {row.kinds: dict(zip(row.kinds, row.factors, strict=True)) for row in truth.measured}
    model = SLOWDOWN_MODELS.get(truth.model)(dict(truth.params))
    for n in range(2, 5):
        for kinds in combinations_with_replacement("abc", n):
            listed = sorted(kinds, key=order.index)
            pairs = {tuple(sorted((listed[i], listed[j]))) for i in range(n) for j in range(i)}
            if pairs & set(truth.cannot_share):
                assert not truth.can_share(listed)
                continue
            found = truth.factors(listed, DEMANDS)
            if kinds in rows:
                assert found == rows[kinds]
                continue
            if truth.model == "pair-product" and n > 2:
                rest = {k: list((Counter(kinds) - Counter([k])).elements()) for k in kinds}
                beside = {k: [truth.factors((k, other), DEMANDS)[k] for other in rest[k]] for k in kinds}
                raw = {k: max(1.0, math.prod(beside[k])) for k in kinds}
            else:
                raw = dict(zip(kinds, model.factors([DEMANDS[k] for k in kinds]), strict=True))
            for kind, factor in raw.items():
                value = factor
                if truth.clamp:
                    smaller = [f[kind] for k, f in rows.items() if within(k, kinds) and kind in f]
                    larger = [f[kind] for k, f in rows.items() if within(kinds, k)]
                    value = min([max([value, *smaller]), *larger])
                assert found[kind] == value


def test_equal_interferences_are_equal_objects() -> None:
    """Rows and parameters in another order, and lists for tuples, make the same table."""
    rows = measured(("ab", (1.5, 1.4)), ("bc", (1.1, 1.2)))
    one = Interference(measured=rows, model="crowding", params=(("base", 0.1), ("slope", 0.2)))
    two = Interference(measured=list(rows[::-1]), model="crowding", params=[("slope", 0.2), ("base", 0.1)])  # type: ignore[arg-type]
    assert one == two
    assert dataclasses.replace(one, clamp=False) != one


def test_larger_sets_from_pairs() -> None:
    """`pair-product`: the factors of the pairs multiplied; unmeasured pairs get the sum of utilisations.

    By hand, utilisations being 0.1, 0.2, 0.4, 0.8: a beside b 1.1, b beside a 1.3; a and c, and b and
    c, were not measured and take turns at a load below 1, so their factors are 1. In abc: a 1.1, b 1.3, c 1.
    In bcd the pairs b+d and c+d have loads 1.0 and 1.2: b 1 * 1, c 1 * 1.2, d 1 * 1.2. In aab: a is beside
    another a (1.5) and b: 1.65; b is beside a twice: 1.69.
    """
    rows = measured(("ab", (1.1, 1.3)), ("aa", (1.5, 1.5)), ("ae", (0.8, 0.7)), ("be", (1.0, 0.9)))
    fields: dict[str, Any] = {"measured": rows, "model": "pair-product"}
    assert factors("cd", **fields) == pytest.approx({"c": 1.2, "d": 1.2})
    assert factors("abc", **fields) == pytest.approx({"a": 1.1, "b": 1.3, "c": 1.0})
    assert factors("bcd", **fields) == pytest.approx({"b": 1.0, "c": 1.2, "d": 1.2})
    assert factors("aab", **fields) == pytest.approx({"a": 1.65, "b": 1.69})
    # Two pairs that ran faster together by noise do not make a larger set faster than alone.
    assert factors("abe", **fields)["e"] == 1.0


def test_a_measured_set_wins_over_its_pairs() -> None:
    """A measured triple is looked up, and bounds the modelled pair inside it from above."""
    rows = measured(("ab", (1.1, 1.3)), ("abc", (1.2, 1.4, 1.05)), ("bd", (1.4, 1.5)))
    fields: dict[str, Any] = {"measured": rows, "model": "pair-product"}
    assert factors("abc", **fields) == {"a": 1.2, "b": 1.4, "c": 1.05}
    # abd: b is beside a (1.3) and d (1.4).
    assert factors("abd", **fields)["b"] == pytest.approx(1.3 * 1.4)
    # abcc: c beside a, b and c, all modelled as 1, but never below its 1.05 in abc.
    assert factors("abcc", **fields)["c"] == 1.05
