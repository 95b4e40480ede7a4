"""Damaged files: whatever the damage, the answer is a named error or a sound object."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eaco_opt.cluster import Cluster
from eaco_opt.errors import EacoError
from eaco_opt.instance import Instance
from eaco_opt.io import (
    cluster_from_json,
    cluster_to_json,
    instance_digest,
    instance_from_json,
    instance_to_json,
    read_instance,
    schedule_from_csv,
    schedule_from_json,
    schedule_to_csv,
    schedule_to_json,
)
from eaco_opt.schedule import Schedule
from tests.strategies import small_instances, small_instances_with_schedules

# Pieces that mean something to a parser, besides arbitrary text.
PIECES = st.sampled_from(
    ['"', "{", "}", "[", "]", ",", ":", "\\", "\\u", "\\ud800", "null", "true", "NaN", "-Infinity", "1e999",
     "-", "0", "9" * 400, "9" * 5000, ".5", "-0.0", "1e-400", "\x00", "\ufeff", "\u2028", "\ud800", "//",
     "all", "0-9", "0-99999", ";", "\t", "\n", "\r", "[" * 2000, '"a":', "nan", "kind", "gpus", "}" * 50]
) | st.text(max_size=3)  # fmt: skip


@st.composite
def damaged(draw: st.DrawFn, text: str) -> str:
    """Draw a text after one to four cuts, insertions, replacements, repetitions and swaps."""
    for _ in range(draw(st.integers(1, 4))):
        if not text:
            break
        a = draw(st.integers(0, len(text) - 1))
        b = min(len(text), a + draw(st.integers(0, 30)))
        act = draw(st.sampled_from(["cut", "cut short", "insert", "replace", "repeat", "swap"]))
        if act == "cut":
            text = text[:a] + text[b:]
        elif act == "cut short":
            text = text[:a]
        elif act == "insert":
            text = text[:a] + draw(PIECES) + text[a:]
        elif act == "replace":
            text = text[:a] + draw(PIECES) + text[b:]
        elif act == "repeat":
            text = text[:b] + text[a:]
        else:
            c = draw(st.integers(0, len(text)))
            low, high = sorted((a, c))
            text = text[high:] + text[low:high] + text[:low]
    return text


def refused(read: Any, *arguments: Any, **options: Any) -> object:
    """Return what is read, or None after an error that is ours and that can be printed on one line."""
    try:
        return read(*arguments, **options)
    except EacoError as error:
        message = str(error)
        assert message.startswith("x"), message
        assert message.isprintable(), repr(message)
        assert len(message) < 2000
        return None


@given(small_instances(), st.data())
def test_damaged_instances(instance: Instance, data: st.DataObject) -> None:
    """A damaged instance is refused by name, or read as an instance that can be written and read again."""
    text = data.draw(damaged(instance_to_json(instance)))
    back = refused(instance_from_json, text, source="x")
    if isinstance(back, Instance):
        assert instance_from_json(instance_to_json(back)) == back
        assert len(instance_digest(back)) == 64
        assert all(math.isfinite(job.release_s) for job in back.jobs)


@given(small_instances(), st.data())
def test_damaged_clusters(instance: Instance, data: st.DataObject) -> None:
    """The same for clusters."""
    text = data.draw(damaged(cluster_to_json(instance.cluster)))
    back = refused(cluster_from_json, text, source="x")
    if isinstance(back, Cluster):
        assert cluster_from_json(cluster_to_json(back)) == back


@given(small_instances_with_schedules(), st.data())
def test_damaged_schedules(drawn: tuple[Instance, Schedule], data: st.DataObject) -> None:
    """The same for schedules as JSON."""
    instance, schedule = drawn
    text = data.draw(damaged(schedule_to_json(schedule, instance)))
    back = refused(schedule_from_json, text, instance, source="x")
    if isinstance(back, Schedule):
        again = schedule_from_json(schedule_to_json(back, instance), instance, allow_other_digest=True)
        assert again == back


@given(small_instances_with_schedules(), st.data())
def test_damaged_csv(drawn: tuple[Instance, Schedule], data: st.DataObject) -> None:
    """The same for schedules as CSV."""
    instance, schedule = drawn
    text = data.draw(damaged(schedule_to_csv(schedule, instance)))
    back = refused(schedule_from_csv, text, instance, source="x")
    if isinstance(back, Schedule):
        assert schedule_from_csv(schedule_to_csv(back, instance), instance) == back


@pytest.mark.parametrize("suffix", ["json", "json.gz", "json.xz"])
@given(data=st.binary(max_size=60))
def test_arbitrary_bytes(tmp_path_factory: pytest.TempPathFactory, suffix: str, data: bytes) -> None:
    """Bytes of any kind in a file of any suffix are refused by name."""
    path: Path = tmp_path_factory.mktemp("bytes") / f"x.{suffix}"
    path.write_bytes(data)
    with pytest.raises(EacoError, match=rf"x\.{suffix}"):
        read_instance(path)


@given(st.text(max_size=60))
def test_arbitrary_text(text: str) -> None:
    """No arbitrary text is an instance or a cluster, and none is more than a named error."""
    assert refused(instance_from_json, text, source="x") is None
    assert refused(cluster_from_json, text, source="x") is None
