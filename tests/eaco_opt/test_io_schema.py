"""The published JSON Schemas: they accept what we write and read, and follow the dataclasses."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eaco_opt import io_instance as forms
from eaco_opt.errors import EacoError, UnknownNameError
from eaco_opt.instance import Instance
from eaco_opt.io import (
    SCHEMAS,
    cluster_to_json,
    instance_digest,
    instance_from_json,
    instance_to_json,
    json_schema,
    profiles_from_json,
    profiles_to_json,
    schedule_from_json,
    schedule_to_json,
)
from eaco_opt.io_json import Record
from eaco_opt.io_profiles import POWER_LIMIT, PROFILES
from eaco_opt.io_schedule import SCHEDULE, SEGMENT
from eaco_opt.profile_set import ProfileSet
from eaco_opt.schedule import Schedule, ScheduleClass, Segment
from tests.strategies import small_instances, small_instances_with_schedules

VALIDATORS = {name: jsonschema.Draft202012Validator(json_schema(name)) for name in SCHEMAS}

# Definition in the schema of instances: the form of its dataclass.
RECORDS: dict[str, Record] = {
    "job": forms.JOB,
    "epoch_time": forms.EPOCH_TIME,
    "profile": forms.PROFILE,
    "measured_usage": forms.USAGE,
    "measured_slowdown": forms.SLOWDOWN,
    "interference": forms.INTERFERENCE,
    "limits": forms.LIMITS,
    "objective": forms.OBJECTIVE,
    "cluster": forms.CLUSTER,
    "node_type": forms.NODE_TYPE,
    "node": forms.NODE,
    "power_model": forms.POWER_MODEL,
    "server_power": forms.SERVER_POWER,
    "gpu_power": forms.GPU_POWER,
    "measured_power": forms.MEASURED_POWER,
}
HEADER = {"format", "version"}


def errors(name: str, text: str) -> list[str]:
    return [f"{e.json_path}: {e.message}" for e in VALIDATORS[name].iter_errors(json.loads(text))]


@pytest.mark.parametrize("name", SCHEMAS)
def test_schemas_are_schemas(name: str) -> None:
    """Each is valid against its own draft, and names format and version that the writer states."""
    schema = json_schema(name)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["properties"]["format"] == {"const": f"eaco-opt/{name}"}
    assert schema["properties"]["version"] == {"const": 1}


def test_unknown_schema() -> None:
    """An unknown name lists the known ones."""
    with pytest.raises(UnknownNameError, match="known are: instance, cluster, schedule, profiles"):
        json_schema("job")


def objects(schema: Any) -> list[dict[str, Any]]:
    """Return every part of a schema that describes objects with fixed keys."""
    out = []
    if isinstance(schema, dict):
        if "properties" in schema:
            out.append(schema)
        for key, part in schema.items():
            if key != "default":
                out += objects(part)
    if isinstance(schema, list):
        for part in schema:
            out += objects(part)
    return out


@pytest.mark.parametrize("name", SCHEMAS)
def test_every_object_refuses_unknown_keys(name: str) -> None:
    """No object with fixed keys lets others in, and every property says what it is and in which unit."""
    parts = objects(json_schema(name))
    assert len(parts) > 2
    for part in parts:
        assert part["additionalProperties"] is False
        assert set(part["required"]) <= set(part["properties"])
        for key, value in part["properties"].items():
            if key not in HEADER:
                assert value.get("description") or value["$ref"]
            for suffix, unit in (("_s", "[s]"), ("_w", "[W]"), ("_gib", "[GiB]"), ("_j", "[J]")):
                assert not key.endswith(suffix) or unit in value["description"], key


def same_fields(
    schema: dict[str, Any], record: Record, more: set[str] | frozenset[str] = frozenset()
) -> None:
    """Hold the properties of a schema to the fields of a dataclass and of its form."""
    fields = [f for f in dataclasses.fields(record.cls) if f.init]
    assert set(schema["properties"]) - more == {f.name for f in fields} == set(record.fields)
    none = dataclasses.MISSING
    needed = {f.name for f in fields if f.default is none and f.default_factory is none}
    assert set(schema["required"]) | (needed & {"nodes"}) == needed | (more & HEADER)
    for field in fields:
        if field.name not in needed:
            default = field.default if field.default is not none else field.default_factory()  # type: ignore[misc]
            written = record.fields[field.name].write(default)
            assert schema["properties"][field.name]["default"] == written, field.name


@pytest.mark.parametrize("name", RECORDS)
def test_definitions_follow_the_dataclasses(name: str) -> None:
    """Properties are the fields, required are those without a default, and defaults are the defaults."""
    same_fields(
        json_schema("instance")["$defs"][name], RECORDS[name], {"groups"} if name == "cluster" else set()
    )


def test_documents_follow_the_dataclasses() -> None:
    """The same for the outermost objects."""
    same_fields(json_schema("instance"), forms.INSTANCE, HEADER)
    same_fields(json_schema("cluster"), forms.CLUSTER, HEADER | {"groups"})
    profiles = json_schema("profiles")
    assert set(profiles["properties"]) - HEADER == set(PROFILES.fields)
    assert {f.name for f in dataclasses.fields(ProfileSet)} == set(PROFILES.fields)
    assert set(profiles["required"]) - HEADER == {"profiles"}
    defaults = {f.name: f.default for f in dataclasses.fields(ProfileSet) if f.name != "profiles"}
    for key, default in defaults.items():
        assert profiles["properties"][key]["default"] == PROFILES.fields[key].write(default), key
    same_fields(profiles["$defs"]["power_limit"], POWER_LIMIT)
    schedule = json_schema("schedule")
    fields = {f.name for f in dataclasses.fields(Schedule)}
    assert set(schedule["properties"]) - HEADER == fields == set(SCHEDULE.fields)
    assert {f.name for f in dataclasses.fields(Segment)} == set(SEGMENT.fields)
    assert set(schedule["$defs"]["segment"]["properties"]) == set(SEGMENT.fields)
    assert schedule["properties"]["schedule_class"]["enum"] == [c.value for c in ScheduleClass]
    assert schedule["properties"]["schedule_class"]["default"] == ScheduleClass.FLUID


def test_shared_definitions_are_the_same() -> None:
    """What instances and clusters or profiles both define, they define alike, and nothing is left."""
    instance, cluster = json_schema("instance"), json_schema("cluster")
    for name, part in json_schema("profiles")["$defs"].items():
        assert name == "power_limit" or instance["$defs"][name] == part
    for name, part in cluster["$defs"].items():
        assert instance["$defs"][name] == part
    assert set(instance["$defs"]) == {*RECORDS, "name", "group"}
    nodes = instance["$defs"]["cluster"]
    assert {k: v for k, v in cluster["properties"].items() if k not in HEADER} == nodes["properties"]
    assert cluster["oneOf"] == nodes["oneOf"]


@given(small_instances(min_jobs=0, wild=True))
def test_what_is_written_is_valid(instance: Instance) -> None:
    """The schemas accept every instance and cluster that the writers put out."""
    assert errors("instance", instance_to_json(instance)) == []
    assert errors("cluster", cluster_to_json(instance.cluster)) == []
    if instance.profiles:
        text = profiles_to_json(instance.profiles)
        assert errors("profiles", text) == []
        assert profiles_from_json(text) == instance.profiles


@given(small_instances_with_schedules(wild=True))
def test_written_schedules_are_valid(drawn: tuple[Instance, Schedule]) -> None:
    """The schema accepts every schedule that the writer puts out."""
    instance, schedule = drawn
    plan = dataclasses.replace(schedule, instance_digest=instance_digest(instance))
    assert errors("schedule", schedule_to_json(plan, instance)) == []


# Values that tell types and limits apart.
ODD = st.sampled_from(
    [None, True, False, -1, 0, 1, 2, 9, 10**9, 0.5, -0.5, 1.5, 1e300, "", "a", " a ", "A" * 501, [], ["a"],
     [1], {}, {"a": 1}]
)  # fmt: skip


def places(value: Any, steps: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the places of all values in a document."""
    out = [steps] if steps else []
    if isinstance(value, (dict, list)):
        for key in value if isinstance(value, dict) else range(len(value)):
            out += places(value[key], (*steps, key))
    return out


@st.composite
def edited(draw: st.DrawFn, text: str) -> str:
    """Draw a document in which one value is replaced, dropped, or joined by an unknown key."""
    content = json.loads(text)
    *outer, last = draw(st.sampled_from(places(content)))
    box = content
    for step in outer:
        box = box[step]
    act = draw(st.sampled_from(["replace", "replace", "drop", "add"]))
    if act == "replace":
        box[last] = draw(ODD)
    elif act == "drop":
        del box[last]
    elif isinstance(box, dict):
        box["gpu"] = draw(ODD)
    return json.dumps(content)


@given(small_instances(), st.data())
def test_what_is_read_is_valid(instance: Instance, data: st.DataObject) -> None:
    """After any edit of one value, what the reader accepts the schema accepts: the reader is stricter."""
    text = data.draw(edited(instance_to_json(instance)))
    try:
        instance_from_json(text)
    except EacoError:
        return
    assert errors("instance", text) == []


@given(small_instances(), st.data())
def test_read_profiles_are_valid(instance: Instance, data: st.DataObject) -> None:
    """The same for files of profiles."""
    text = data.draw(edited(profiles_to_json(instance.profiles)))
    try:
        profiles_from_json(text)
    except EacoError:
        return
    assert errors("profiles", text) == []


@given(small_instances_with_schedules(), st.data())
def test_read_schedules_are_valid(drawn: tuple[Instance, Schedule], data: st.DataObject) -> None:
    """The same for schedules."""
    instance, schedule = drawn
    text = data.draw(edited(schedule_to_json(schedule, instance)))
    try:
        schedule_from_json(text, instance)
    except EacoError:
        return
    assert errors("schedule", text) == []


@pytest.mark.parametrize(
    ("name", "steps", "value"),
    [
        ("instance", ("jobs", 0, "gpus"), "1"),
        ("instance", ("jobs", 0, "gpus"), 0),
        ("instance", ("jobs", 0, "memory_kind"), "both"),
        ("instance", ("jobs", 0, "colour"), "red"),
        ("instance", ("limits", "max_share"), 9),
        ("instance", ("cluster", "groups"), []),
        ("instance", ("cluster", "node_types", 0, "power", "gpu", "exponent"), 1.5),
        ("instance", ("truth", "params", "base"), "1"),
        ("instance", ("version",), 2),
        ("schedule", ("segments", 0, "gpus", 0, "gpus", 0), -1),
        ("schedule", ("segments", 0, "end"), 1),
        ("schedule", ("schedule_class",), "offline"),
        ("profiles", ("profiles",), []),
        ("profiles", ("profiles", 0, "gpu_util_mean"), 62.5),
        ("profiles", ("profiles", 0, "epoch_times", 0, "epoch_time_s"), 0),
        ("profiles", ("profiles", 0, "epoch_time_h"), 1),
    ],
)
@given(drawn=small_instances_with_schedules())
@settings(max_examples=5)
def test_what_is_wrong_is_invalid(
    name: str,
    steps: tuple[Any, ...],
    value: object,
    drawn: tuple[Instance, Schedule],
) -> None:
    """The schemas are no rubber stamp: each of these edits makes a valid document invalid."""
    instance, schedule = drawn
    job = instance.jobs[0]
    first = Segment(job=job.name, start_s=0.0, end_s=1.0, gpus=((0, 0),))
    plan = dataclasses.replace(schedule, segments=(first,))
    text = {
        "instance": lambda: instance_to_json(instance),
        "schedule": lambda: schedule_to_json(plan, instance),
        "profiles": lambda: profiles_to_json(instance.profiles),
    }[name]()
    content = json.loads(text)
    box = content
    for step in steps[:-1]:
        box = box[step]
    box[steps[-1]] = value
    assert errors(name, json.dumps(content)) != []


def test_reading_needs_no_schema_library(root: Path) -> None:
    """Reading and writing load neither jsonschema nor any heavy library."""
    code = (
        "import sys; import eaco_opt.io\n"
        "heavy = {'jsonschema', 'pandas', 'numba', 'networkx', 'scipy', 'matplotlib', 'pyarrow'}\n"
        "print(*sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
