"""Files of profiles that also hold sharing and power limits."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from eaco_opt.errors import DomainError, EacoError, FormatError
from eaco_opt.instance import MeasuredUsage
from eaco_opt.interference import Interference, MeasuredSlowdown
from eaco_opt.io import profile_set_from_json, profiles_to_json, read_profile_set, write_profiles
from eaco_opt.profile import EpochTime, Profile
from eaco_opt.profile_set import PowerLimit, ProfileSet


def profile(name: str) -> Profile:
    return Profile(
        name=name,
        epoch_times=(EpochTime(gpu_type="V100", gpus=1, epoch_time_s=600.0),),
        gpu_util_mean=0.5,
        gpu_util_peak=1.0,
        gpu_memory_mean_gib=4.0,
        gpu_memory_peak_gib=4.0,
    )


def limit(limit_w: float, **more: Any) -> PowerLimit:
    fields: dict[str, Any] = {"profile": "a", "gpu_type": "V100", "epoch_time_s": 600.0, "power_w": 90.5}
    return PowerLimit(limit_w=limit_w, **(fields | more))


WHOLE = ProfileSet(
    profiles=(profile("b"), profile("a"), profile("c")),
    truth=Interference(
        model="pair-product",
        measured=(MeasuredSlowdown(kinds=("a", "b"), factors=(1.25, 1.5)),),
        cannot_share=(("a", "c"),),
    ),
    usage=(MeasuredUsage(kinds=("a", "b"), load=0.9, memory_gib=8.0),),
    power_limits=(limit(250.0), limit(100.0), limit(100.0, gpu_type="A40")),
    metadata=(("source", "by hand"),),
)


def test_a_file_gives_back_what_was_written(tmp_path: Path) -> None:
    """Sharing, power limits and metadata survive writing and reading; the order of profiles is kept."""
    path = tmp_path / "own.json.gz"
    write_profiles(path, WHOLE)
    assert read_profile_set(path) == WHOLE
    assert profile_set_from_json(profiles_to_json(WHOLE)) == WHOLE
    assert [p.name for p in WHOLE.profiles] == ["b", "a", "c"]
    assert [(p.gpu_type, p.limit_w) for p in WHOLE.power_limits] == [
        ("A40", 100.0),
        ("V100", 100.0),
        ("V100", 250.0),
    ]


def test_a_file_of_profiles_alone_says_nothing_of_sets() -> None:
    """Sets that were not measured take turns: the slowdown is that of the model `additive`."""
    text = profiles_to_json([profile("a")])
    short = {k: x for k, x in json.loads(text).items() if k in ("format", "version", "profiles")}
    for form in (text, json.dumps(short)):
        assert profile_set_from_json(form) == ProfileSet(profiles=(profile("a"),))
    assert profile_set_from_json(text).truth == Interference(model="additive")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"usage": (*WHOLE.usage, *WHOLE.usage)}, "usage must hold each set once"),
        ({"power_limits": (limit(1.0), limit(1.0))}, "power_limits must hold each profile, GPU type"),
        (
            {"power_limits": (limit(1.0, profile="x"),)},
            "power_limits must name profiles .*, got 'x'",
        ),
        (
            {"truth": Interference(measured=(MeasuredSlowdown(kinds=("a", "x"), factors=(1, 1)),))},
            "truth.measured must name kinds of the profiles, got 'x' in a\\+x",
        ),
        ({"truth": Interference(cannot_share=(("x", "x"),))}, "truth.cannot_share must name kinds"),
        ({"profiles": ()}, "expected at least one profile, got none"),
    ],
)
def test_what_does_not_fit_is_refused(fields: dict[str, Any], message: str) -> None:
    """Sets and curves belong to profiles of the file and occur once."""
    with pytest.raises(DomainError, match=message):
        dataclasses.replace(WHOLE, **fields)


def test_errors_of_a_file_name_the_place() -> None:
    """A limit of 0 W and an unknown kind are refused with line and place."""
    text = profiles_to_json(WHOLE)
    with pytest.raises(EacoError, match=r"own\.json, line \d+, power_limits\[2\]\.limit_w: .*above 0"):
        profile_set_from_json(text.replace('"limit_w": 250.0', '"limit_w": 0.0'), source="own.json")
    with pytest.raises(DomainError, match=r"own\.json, line \d+.*'x'"):
        profile_set_from_json(
            text.replace('"usage": [\n    {"kinds": ["a"', '"usage": [\n    {"kinds": ["x"'),
            source="own.json",
        )
    with pytest.raises(FormatError, match="unknown key 'limits'"):
        profile_set_from_json(text.replace('"power_limits"', '"limits"'))
