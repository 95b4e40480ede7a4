"""Random streams: separate, the same for ever; inverse distribution functions keep their promises."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eaco_opt.errors import DomainError, UnknownNameError
from instances import draws


def test_streams_are_those_of_seedsequence_spawn() -> None:
    """Stream k is child k of SeedSequence(seed).spawn: independent by numpy's own construction."""
    children = np.random.SeedSequence(7).spawn(len(draws.STREAMS))
    for child, name in zip(children, draws.STREAMS, strict=True):
        wanted = np.random.Generator(np.random.PCG64(child)).random(5)
        assert np.array_equal(draws.uniforms(7, name, 5), wanted)


def test_streams_start_with_these_numbers() -> None:
    """The first number of some streams of seed 0, pinned: they must not change from version to version."""
    # SeedSequence(0) and its children, PCG64, 53-bit doubles: as numpy 1.17 and later give them.
    assert (
        draws.uniforms(0, "model", 1)[0]
        == np.random.default_rng(np.random.SeedSequence(0).spawn(1)[0]).random()
    )
    firsts = [float(draws.uniforms(0, name, 1)[0]) for name in ("model", "release", "slack")]
    assert firsts == [0.9429375528828794, 0.3644334333698406, 0.6529725757834846]


def test_a_longer_draw_begins_with_the_shorter_one() -> None:
    """Asking for more numbers leaves the first ones as they were."""
    assert np.array_equal(draws.uniforms(3, "slack", 100)[:10], draws.uniforms(3, "slack", 10))


def test_whole_reaches_both_ends_and_nothing_else() -> None:
    """[0, 1) maps to low ... high, each with an equal share of the interval."""
    u = np.array([0.0, 0.2499, 0.25, 0.5, 0.75, 1.0 - 2**-53])
    assert draws.whole(u, 3, 6).tolist() == [3, 3, 4, 5, 6, 6]


@given(
    st.lists(st.floats(0.0, 10.0), min_size=1, max_size=6).filter(lambda w: sum(w) > 1e-3),
    st.floats(0.0, 1.0, exclude_max=True),
)
def test_pick_never_draws_a_weight_of_zero(weights: list[float], u: float) -> None:
    """Whatever the rounding of cumulative weights, the drawn position exists and has a weight above 0."""
    (place,) = draws.pick(np.array([u]), weights).tolist()
    assert weights[place] > 0.0


def test_pick_has_the_shares_of_the_weights() -> None:
    """Over an even grid of uniforms each position comes as often as its weight says."""
    u = (np.arange(1000) + 0.5) / 1000
    assert np.bincount(draws.pick(u, [1, 0, 3])).tolist() == [250, 0, 750]


def test_shares_refuse_unknown_names_and_say_the_known_ones() -> None:
    """A misspelt model is an error that lists all models, not a share of nothing."""
    with pytest.raises(UnknownNameError, match=r"unknown model 'VGG' in mix; known are: A, B"):
        draws.shares("x", {"VGG": 1.0}, ("A", "B"))
    for bad in ({"A": -1.0}, {"A": float("nan")}, {"A": float("inf")}, {"A": True}, {"A": 0}, {}):
        with pytest.raises(DomainError, match="mix"):
            draws.shares("x", bad, ("A", "B"))
    assert draws.shares("x", {"B": 3, "A": 1}, ("A", "B", "C")) == (0.25, 0.75, 0.0)
