"""docs/formats.md: its examples are read, and its tables name every key with its default."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from eaco_opt.io import (
    SCHEMAS,
    cluster_from_json,
    instance_from_json,
    instance_to_json,
    json_schema,
    profiles_from_csv,
    profiles_from_json,
    schedule_from_csv,
    schedule_from_json,
)
from eaco_opt.io_profiles import _COLUMNS as _PROFILE_COLUMNS
from eaco_opt.io_schedule import _COLUMNS


@pytest.fixture(scope="module")
def page(root: Path) -> str:
    """The page."""
    return (root / "docs" / "formats.md").read_text(encoding="utf-8")


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)


def test_examples_are_read(page: str) -> None:
    """The instance, the cluster, both schedules and both profiles are what the readers take, and agree."""
    instance_text, cluster_text, schedule_text, profiles_text = blocks(page, "json")
    csv_text, profiles_csv_text = blocks(page, "csv")
    assert profiles_from_csv(profiles_csv_text) == profiles_from_json(profiles_text)
    instance = instance_from_json(instance_text)
    assert instance_from_json(instance_to_json(instance)) == instance
    assert [n.name for n in instance.cluster.nodes] == ["n0", "n1"]
    assert len(cluster_from_json(cluster_text).nodes) == 2
    schedule = schedule_from_json(schedule_text, instance)
    assert schedule_from_csv(csv_text, instance).segments == schedule.segments
    assert schedule_from_csv(csv_text, instance).schedule_class == schedule.schedule_class
    # The plan is sound: each job runs its epochs alone, after release and wake-up.
    for segment in schedule.segments:
        job = next(j for j in instance.jobs if j.name == segment.job)
        tau = instance.profile(job.profile).epoch_time_s("V100", job.gpus)
        assert tau is not None
        assert segment.end_s - segment.start_s == job.epochs * tau
        assert segment.start_s >= job.release_s + 60.0


def test_example_of_a_message(page: str) -> None:
    """The message that the page shows is the one that the reader gives."""
    (shown,) = blocks(page, "text")
    content = json.loads(blocks(page, "json")[0])
    content["jobs"] += [dict(content["jobs"][0], name="c"), dict(content["jobs"][0], name="d", gpu=3)]
    with pytest.raises(ValueError, match="unknown key") as caught:
        instance_from_json(json.dumps(content), source="problem.json")
    said = re.sub(r"line \d+", "line 34", str(caught.value))
    assert said.startswith(shown.strip().removesuffix("..."))


def keys(schema: Any) -> set[str]:
    if isinstance(schema, dict):
        own = set(schema.get("properties", {}))
        return own.union(*(keys(part) for key, part in schema.items() if key != "default"))
    return set()


def test_every_key_and_column_is_described(page: str) -> None:
    """Every key of the schemas and every column of the CSV stands in the page."""
    known = set().union(*(keys(json_schema(name)) for name in SCHEMAS)) | set(_COLUMNS)
    known |= set(_PROFILE_COLUMNS)
    assert len(known) > 60
    words = {word for code in re.findall(r"`([^`\n]+)`", page) for word in re.findall(r"\w+", code)}
    assert known <= words, sorted(known - words)


def test_defaults_in_the_tables(page: str) -> None:
    """A default that a table states is that of the schema."""
    definitions = json_schema("instance")["$defs"]
    rows = re.findall(r"^\| `([\w.\[\]]+)` \| (\S*) \|", page, re.MULTILINE)
    tables = {"limits": "limits", "objective": "objective", "truth": "interference", "power": "power_model"}
    checked = 0
    for name, stated in rows:
        owner, _, key = name.removesuffix("[]").rpartition(".")
        owner = owner.removesuffix("[]")
        if not stated:
            continue
        where = {"": "job", "node_types": "node_type"}.get(owner) or tables[owner]
        properties = definitions[where]["properties"]
        if key == "pue":
            properties = definitions["cluster"]["properties"]
        elif key == "cpu_share":
            properties = definitions["profile"]["properties"]
        elif key in ("metadata", "usage"):
            properties = json_schema("instance")["properties"]
        elif key in ("instance_digest", "method", "schedule_class"):
            properties = json_schema("schedule")["properties"]
        assert properties[key]["default"] == json.loads(stated.strip("`")), name
        checked += 1
    assert checked > 20
