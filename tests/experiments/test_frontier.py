"""The attainable frontier: what its curves say, and that no schedule lies below them."""

from __future__ import annotations

import numpy as np
import pytest

from eaco_opt.errors import EacoError
from experiments.frontier import VARIANTS, Curve, claimed_point, frontier
from instances import generate
from tests.experiments.tiny import instance, job


def curve(*points: tuple[float, float]) -> Curve:
    """Return a curve of (weight, bound)."""
    weights, bounds = zip(*points, strict=True)
    return Curve(
        variant="as given", weights=np.array(weights), bounds=np.array(bounds), fastest=1.02, rows=()
    )


def test_a_curve_is_the_upper_envelope_of_its_lines() -> None:
    """E + w R >= L(w) for w = 0, 1, 2: at R 1.1 the last says E >= 0.5, at R 1.5 the first says E >= 0.4."""
    found = curve((0.0, 0.4), (1.0, 1.5), (2.0, 2.7))
    assert found.least_energy(10.0) == pytest.approx(-50.0)  # max(0.4, 1.5 - 1.1, 2.7 - 2.2) = 0.5
    assert found.least_energy(50.0) == pytest.approx(-60.0)
    # E 0.5 needs R >= 1.0 by the second line and >= 1.1 by the third.
    assert found.least_runtime(-50.0) == pytest.approx(10.0)
    assert found.least_runtime(-61.0) is None  # below 0.4 for every R
    assert found.least_runtime(0.0) == pytest.approx(2.0)  # whatever the energy


def test_two_jobs_that_may_share() -> None:
    """Sharing at full speed halves the energy of two equal jobs at no cost in time; nothing does better."""
    found = frontier(instance(job("a"), job("b"), slowdown=1.0), search_s=0.0, variants=("as given",))
    (only,) = found.curves
    assert only.least_energy(0.0) == pytest.approx(-50.0, abs=1e-6)
    assert only.least_energy(20.0) == pytest.approx(-50.0, abs=1e-6)
    assert only.least_runtime(-40.0) == pytest.approx(0.0, abs=1e-4)
    assert only.least_runtime(-51.0) is None


def test_nothing_lies_below_the_curve_and_fewer_sets_raise_it() -> None:
    """Policies on a generated instance lie on or above the curve; tables only of measured sets allow less."""
    problem = generate("whole-node", jobs=20, nodes=4, load=0.8, seed=3)
    found = frontier(problem, search_s=0.0)
    assert [c.variant for c in found.curves] == list(VARIANTS)
    for point in found.points:
        if point["kind"] == "policy" and point["deadline_misses"] == 0:
            assert point["energy_percent"] >= point["least_energy_percent"] - 1e-6
    by_name = {c.variant: c for c in found.curves}
    for row in found.verdicts():
        assert row["beyond"] == (row["claimed_energy_percent"] < row["least_energy_percent"])
        assert (
            (row["claimed_runtime_percent"], row["claimed_energy_percent"])
            == claimed_point()
            == (3.23, -39.0)
        )
    for x in (1.0, 3.23, 8.0):
        given = by_name["as given"].least_energy(x)
        # Each curve lies at most 0.1 below that of its LP.
        assert by_name["measured only"].least_energy(x) >= given - 0.1
        assert by_name["half slowdown"].least_energy(x) <= given + 0.1
        assert by_name["no slowdown"].least_energy(x) <= by_name["half slowdown"].least_energy(x) + 0.1
    modelled = {row["modelled_energy_share"] for row in by_name["measured only"].rows}
    assert modelled == {0.0}


def test_what_cannot_be_drawn_is_refused() -> None:
    """An unknown variant, and methods without the reference."""
    problem = instance(job("a"))
    with pytest.raises(EacoError, match="unknown variant 'free lunch'; known are: as given, "):
        frontier(problem, variants=("free lunch",))
    with pytest.raises(EacoError, match="'fifo' must be among the methods"):
        frontier(problem, methods=("eaco",))
