"""Instances and clusters as JSON: exact both ways, stable, and strict."""

from __future__ import annotations

import json
import math
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eaco_opt import io_instance
from eaco_opt.cluster import Cluster, NodeType
from eaco_opt.errors import DomainError, EacoError, FormatError, OutputExistsError, UnknownNameError
from eaco_opt.instance import Instance
from eaco_opt.io import (
    cluster_from_json,
    cluster_to_json,
    instance_from_json,
    instance_to_json,
    read_cluster,
    read_instance,
    write_cluster,
    write_instance,
)
from eaco_opt.job import Job, MemoryKind
from eaco_opt.power import GpuPower, PowerModel, ServerPower
from eaco_opt.profile import EpochTime, Profile
from tests.strategies import small_instances

# What a person would write: only what is needed, groups of nodes, no defaults.
BY_HAND = """{
  "format": "eaco-opt/instance", "version": 1, "name": "by hand",
  "cluster": {
    "node_types": [
      {"name": "v100x8", "gpus": 8, "gpu_type": "V100", "gpu_memory_gib": 32,
       "power": {"server": {"idle_w": 100, "busy_w": 300}, "gpu": {"standing_w": 30, "dynamic_w": 220}}}
    ],
    "groups": [{"node_type": "v100x8", "count": 2}]
  },
  "profiles": [
    {"name": "resnet", "epoch_times": [{"gpu_type": "V100", "epoch_time_s": 600}], "gpu_util_mean": 0.5,
     "gpu_util_peak": 0.75, "gpu_memory_mean_gib": 4, "gpu_memory_peak_gib": 6.5}
  ],
  "jobs": [
    {"name": "a", "profile": "resnet", "gpus": 8, "epochs": 3},
    {"name": "b", "profile": "resnet", "gpus": 4, "epochs": 1, "release_s": 0.1, "deadline_s": 7200}
  ]
}
"""


def by_hand() -> Instance:
    """The same instance, built in Python."""
    node_type = NodeType(
        name="v100x8",
        gpus=8,
        gpu_type="V100",
        gpu_memory_gib=32.0,
        power=PowerModel(
            server=ServerPower(idle_w=100.0, busy_w=300.0),
            gpu=GpuPower(standing_w=30.0, dynamic_w=220.0),
        ),
    )
    profile = Profile(
        name="resnet",
        epoch_times=(EpochTime(gpu_type="V100", epoch_time_s=600.0),),
        gpu_util_mean=0.5,
        gpu_util_peak=0.75,
        gpu_memory_mean_gib=4.0,
        gpu_memory_peak_gib=6.5,
    )
    return Instance(
        name="by hand",
        cluster=Cluster.uniform(node_type, 2),
        profiles=(profile,),
        jobs=(
            Job(name="a", profile="resnet", gpus=8, epochs=3),
            Job(name="b", profile="resnet", gpus=4, epochs=1, release_s=0.1, deadline_s=7200.0),
        ),
    )


@given(small_instances(min_jobs=0, wild=True))
def test_reading_undoes_writing(instance: Instance) -> None:
    """Any instance comes back equal, to the last bit of each float, and writes the same text again."""
    text = instance_to_json(instance)
    back = instance_from_json(text)
    assert back == instance
    assert repr(back) == repr(instance)
    assert instance_to_json(back) == text


@given(small_instances(wild=True))
def test_clusters_too(instance: Instance) -> None:
    """Any cluster comes back equal from a file of its own."""
    text = cluster_to_json(instance.cluster)
    assert cluster_from_json(text) == instance.cluster
    assert cluster_to_json(cluster_from_json(text)) == text


def test_what_people_write() -> None:
    """A file that leaves out all defaults and groups its nodes states the instance built in Python."""
    instance = instance_from_json(BY_HAND)
    assert instance == by_hand()
    assert [n.name for n in instance.cluster.nodes] == ["n0", "n1"]
    assert math.isinf(instance.jobs[0].deadline_s)
    assert [j.submit_index for j in instance.jobs] == [0, 1]


def test_text_of_an_instance() -> None:
    """Keys stand in a fixed order, every default is stated, and each job is one line."""
    lines = instance_to_json(by_hand()).splitlines()
    assert lines[:6] == [
        "{",
        '  "format": "eaco-opt/instance",',
        '  "version": 1,',
        '  "name": "by hand",',
        '  "metadata": {},',
        '  "objective": {"alpha": 0.5, "form": "normalised", "jtt_weight": 0.0},',
    ]
    assert lines[-4:] == [
        '    {"name": "a", "profile": "resnet", "gpus": 8, "epochs": 3, "release_s": 0.0, "deadline_s": null,'
        ' "priority": 0, "exclusive": false, "memory_kind": "data-parallel", "submit_index": 0},',
        '    {"name": "b", "profile": "resnet", "gpus": 4, "epochs": 1, "release_s": 0.1, '
        '"deadline_s": 7200.0, "priority": 0, "exclusive": false, "memory_kind": "data-parallel", '
        '"submit_index": 1}',
        "  ]",
        "}",
    ]


def test_order_of_keys_and_form_of_numbers_do_not_matter() -> None:
    """Keys in any order and numbers written otherwise state the same instance, hence the same bytes."""
    value = json.loads(BY_HAND)
    value = dict(reversed(value.items()))
    value["jobs"] = [dict(reversed(job.items())) for job in value["jobs"]]
    text = json.dumps(value, indent=1).replace("7200", "7.2e3").replace("0.1", "0.1000000000000000055")
    assert "7.2e3" in text
    assert instance_to_json(instance_from_json(text)) == instance_to_json(by_hand())


def test_files(tmp_path: Path) -> None:
    """Plain and compressed files hold the same instance; an existing one is not overwritten unasked."""
    instance = by_hand()
    for name in ("a.json", "a.json.gz", "a.json.xz"):
        write_instance(tmp_path / name, instance)
        assert read_instance(str(tmp_path / name)) == instance
    assert (tmp_path / "a.json").read_bytes() == instance_to_json(instance).encode()
    with pytest.raises(OutputExistsError, match=r"a\.json"):
        write_instance(tmp_path / "a.json", instance)
    write_instance(tmp_path / "a.json", instance, force=True)
    write_cluster(tmp_path / "c.json.gz", instance.cluster)
    assert read_cluster(tmp_path / "c.json.gz") == instance.cluster
    with pytest.raises(
        FormatError, match=r"c\.json\.gz, line 2, format: .*'eaco-opt/cluster'.*another kind of file"
    ):
        read_instance(tmp_path / "c.json.gz")
    with pytest.raises(FormatError, match=r"a\.json: holds more than 100 bytes"):
        read_instance(tmp_path / "a.json", max_bytes=100)
    with pytest.raises(FileNotFoundError, match="none"):
        read_instance(tmp_path / "none")


def at(value: Any, *steps: str | int) -> Any:
    for step in steps:
        value = value[step]
    return value


F, D, U = FormatError, DomainError, UnknownNameError
REFUSED: list[tuple[tuple[str | int, ...], object, type[EacoError], str]] = [
    # (place of the value, what stands there instead, error, message)
    (("jobs", 1, "gpus"), "4", F, r"x, line \d+, jobs\[1\].gpus: expected a whole number, got the text '4'"),
    (("jobs", 1, "gpus"), 4.0, F, r"jobs\[1\].gpus: expected a whole number, got 4.0; write it without"),
    (("jobs", 1, "gpus"), 4.5, F, r"jobs\[1\].gpus: expected a whole number, got 4.5"),
    (("jobs", 1, "gpus"), True, F, r"jobs\[1\].gpus: expected a whole number, got true"),
    (("jobs", 1, "gpus"), None, F, r"jobs\[1\].gpus: expected a whole number, got null"),
    (("jobs", 1, "gpus"), [4], F, r"jobs\[1\].gpus: expected a whole number, got a list of 1"),
    (("jobs", 1, "gpus"), 0, D, r"x, line \d+, jobs\[1\].gpus: job 'b': gpus must be at least 1"),
    (("jobs", 1, "epochs"), 10**300, D, r"jobs\[1\].epochs: job 'b': epochs must"),
    (("jobs", 1, "submit_index"), 2**63, D, r"jobs\[1\].submit_index: job 'b'"),
    (("jobs", 1, "release_s"), True, F, r"jobs\[1\].release_s: expected a number, got true"),
    (("jobs", 1, "release_s"), "0", F, r"jobs\[1\].release_s: expected a number, got the text '0'"),
    (("jobs", 1, "release_s"), None, F, r"jobs\[1\].release_s: expected a number, got null"),
    (("jobs", 1, "release_s"), 10**310, F, r"jobs\[1\].release_s: expected a number below 1.8e308"),
    (("jobs", 1, "deadline_s"), "inf", F, r"deadline_s: expected a number, or null for infinity, got"),
    (("jobs", 1, "deadline_s"), 10**310, F, r"deadline_s: expected a number below 1.8e308, or null"),
    (("jobs", 1, "exclusive"), 1, F, r"jobs\[1\].exclusive: expected true or false, got 1"),
    (("jobs", 1, "memory_kind"), "both", D, r"jobs\[1\].memory_kind: job 'b': memory_kind must be one"),
    (("jobs", 1, "name"), 7, F, r"jobs\[1\].name: expected a text in quotes, got 7"),
    (("jobs", 1, "name"), "", D, r"jobs\[1\].name: job: name must be a non-empty"),
    (("jobs", 1, "name"), "a", D, r"x, line 1: instance 'by hand': job 'a' occurs twice"),
    (("jobs", 1, "profile"), "vgg", D, r"job 'b': unknown profile 'vgg'; known are: resnet"),
    (("jobs", 1, "deadline"), 5, F, r"x, line \d+, jobs\[1\].deadline: unknown key 'deadline'; did you mean"),
    (("jobs", 1, "\ud800"), 5, F, r"unknown key '\\ud800'; known keys are: name"),
    (("jobs", 1), [], F, r"jobs\[1\]: expected a job as an object, got a list of 0"),
    (("jobs", 1), {"name": "b", "gpus": 1}, F, r"jobs\[1\]: expected the key\(s\) 'profile', 'epochs'"),
    (("jobs",), {"a": 1}, F, r"x, line \d+, jobs: expected a list, got an object with 1 key"),
    (("name",), "a\u0007", D, r"instance: name must be printable"),
    (("name",), "\ud800", F, r"name: text '\\ud800' holds the lone surrogate '\\ud800'"),
    (("metadata",), {"a": 1}, F, r"metadata.a: expected a text in quotes, got 1"),
    (("metadata",), {"a \ud800": "x"}, F, r"lone surrogate '\\ud800'"),
    (("metadata",), ["a"], F, r"metadata: expected an object of names and values"),
    (("limits",), {"u_threshold": -1}, D, r"limits.u_threshold: limits: u_threshold must be at least 0"),
    (("limits",), {"k": 4}, F, r"limits.k: unknown key 'k'; known keys are: u_thr"),
    (("objective",), {"alpha": 2}, D, r"objective.alpha: objective: alpha must be at most 1, got 2.0"),
    (("objective",), None, F, r"objective: expected the objective as an object, got null"),
    (("truth",), {"model": "crowd"}, U, r"x, line \d+, truth: unknown slowdown model 'crowd'"),
    (("truth",), {"model": "crowding", "params": {"b": 1}}, D, r"truth: .*unknown parameter 'b'"),
    (("truth",), {"params": {"base": True}}, F, r"truth.params.base: expected a number, got true"),
    (("truth",), {"cannot_share": [["a"]]}, D, r"truth.cannot_share: interference: cannot_share must"),
    (("truth",), {"cannot_share": ["ab"]}, F, r"truth.cannot_share\[0\]: expected a list"),
    (("truth",), {"measured": [{"kinds": {"a": 1}, "factors": [1]}]}, F, r"kinds: expected a list"),
    (("usage",), [{"kinds": ["a"], "load": 2, "memory_gib": 1}], D, r"usage\[0\].load: measured usage"),
    (("profiles", 0, "gpu_util_mean"), 0.8, D, r"profiles\[0\].gpu_util_mean: profile 'resnet'"),
    (("profiles", 0, "epoch_times", 0, "gpus"), 0, D, r"profiles\[0\].epoch_times\[0\].gpus: epoch time"),
    (("profiles", 0, "epoch_times", 0, "gpus"), "1", F, r"expected a whole number or null, got"),
    (("cluster", "nodes"), [], F, r"cluster: expected either 'nodes' or 'groups', got both"),
    (("cluster", "pue"), 0.5, D, r"cluster.pue: cluster: pue must be at least 1"),
    (("cluster", "groups", 0, "count"), 0, D, r"cluster: cluster: at least one node type and one node"),
    (("cluster", "groups", 0, "count"), -1, F, r"count: expected a count of nodes from 0"),
    (("cluster", "groups", 0, "count"), 10**6 + 1, F, r"at most 1,000,000 in all groups"),
    (("cluster", "groups", 0, "node_type"), "p", F, r"groups\[0\].node_type: unknown node type 'p'; known"),
    (("cluster", "groups", 0, "type"), "p", F, r"unknown key 'type'; did you mean 'node_type'"),
    (("cluster", "groups"), 3, F, r"cluster.groups: expected a list, got 3"),
    (("cluster", "node"), 3, F, r"cluster.node: unknown key 'node'"),
    (("cluster",), {"node_types": []}, F, r"cluster: expected the key 'nodes' \(or 'groups' of a node_type"),
    (("cluster",), {"node_typs": []}, F, r"unknown key 'node_typs'; did you mean 'node_types'"),
    (("cluster",), "paper", F, r"cluster: expected a cluster as an object, got the text 'paper'"),
    (("cluster", "node_types", 0, "sleep_w"), 999, D, r"node_types\[0\].sleep_w: node type 'v100x8'"),
    (("format",), "eaco-opt/schedule", F, r"x, line \d+, format: expected .*/schedule'.*another"),
    (("version",), 2, F, r'version: expected "version" to be one of 1, got 2; a newer eaco-opt'),
    (("version",), 0, F, r'x, line \d+, version: expected "version" to be one of 1, got 0$'),
    (("version",), True, F, r'expected "version" to be one of 1, got true'),
    (("version",), "1", F, r'expected "version" to be one of 1, got the text'),
    (("extra",), 1, F, r"x, line \d+, extra: unknown key 'extra'; known keys are: name, metadata"),
]  # fmt: skip


@pytest.mark.parametrize(("steps", "value", "kind", "message"), REFUSED)
def test_content_is_refused_with_its_place(
    steps: tuple[str | int, ...], value: object, kind: type[EacoError], message: str
) -> None:
    """Each wrong value is refused by an error of the right family that names file, line, place and remedy."""
    content = json.loads(BY_HAND)
    at(content, *steps[:-1])[steps[-1]] = value
    with pytest.raises(kind, match=message) as caught:
        instance_from_json(json.dumps(content, indent=1), source="x")
    assert str(caught.value).isprintable()
    assert str(caught.value).startswith("x, line ")


@pytest.mark.parametrize("key", ["format", "version", "name", "jobs", "profiles", "cluster"])
def test_needed_keys(key: str) -> None:
    """A document without a needed key says which is missing."""
    content = json.loads(BY_HAND)
    del content[key]
    with pytest.raises(FormatError, match=rf"x, line 1.*{key}.*missing"):
        instance_from_json(json.dumps(content), source="x")


@pytest.mark.parametrize("text", ["[]", "3", "null", '"eaco-opt/instance"'])
def test_other_documents(text: str) -> None:
    """A JSON document that is no object is told what an instance looks like."""
    with pytest.raises(
        FormatError, match=r'x, line 1: expected an object with "format": "eaco-opt/instance", got'
    ):
        instance_from_json(text, source="x")


def test_line_numbers_are_those_of_the_value() -> None:
    """The line in a message is the line on which the wrong value stands."""
    text = BY_HAND.replace('"epochs": 1', '"epochs": 0')
    line = next(i for i, row in enumerate(text.splitlines(), 1) if '"epochs": 0' in row)
    with pytest.raises(
        DomainError, match=rf"^x, line {line}, jobs\[1\].epochs: job 'b': epochs must be at least 1"
    ):
        instance_from_json(text, source="x")


def test_a_number_too_large_for_a_float_is_no_infinite_deadline() -> None:
    """1e999 overflows to infinity in most readers; here it is refused, for no deadline is written as null."""
    for number in ("1e999", "-1e999", "1" + "0" * 400):
        text = BY_HAND.replace('"deadline_s": 7200', f'"deadline_s": {number}')
        with pytest.raises(FormatError, match=r"1.8e308|at most 400 digits"):
            instance_from_json(text)


def test_a_new_version_is_one_entry_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """The version of a file chooses its reader: with a second one both versions are read, each by its own."""

    def reader(document: Any, body: dict[str, Any]) -> Instance:
        body["name"] += " (version 2)"
        return io_instance._instance_v1(document, body)

    monkeypatch.setitem(io_instance._INSTANCE_READERS, 2, reader)
    assert instance_from_json(BY_HAND).name == "by hand"
    assert instance_from_json(BY_HAND.replace('"version": 1', '"version": 2')).name == "by hand (version 2)"
    with pytest.raises(FormatError, match=r"one of 1, 2, got 3"):
        instance_from_json(BY_HAND.replace('"version": 1', '"version": 3'))


def test_lone_surrogates_are_not_written() -> None:
    """Text that no file can hold is refused by the writer, saying where it is."""
    instance = Instance(
        name="x",
        jobs=(),
        profiles=(),
        cluster=by_hand().cluster,
        metadata=(("note", "half \udc00 of a pair"),),
    )
    with pytest.raises(FormatError, match=r"instance 'x': cannot be written.*lone surrogate '\\udc00'"):
        instance_to_json(instance)


def test_groups_of_several_types_number_their_nodes_in_order() -> None:
    """Groups become nodes n0, n1, ... in the order of the file, as `Cluster.grouped` makes them."""
    cluster = by_hand().cluster
    text = cluster_to_json(cluster)
    second = dict(json.loads(text)["node_types"][0], name="other", gpus=4)
    content = json.loads(text)
    del content["nodes"]
    content["node_types"].append(second)
    content["groups"] = [
        {"node_type": "other", "count": 1},
        {"node_type": "v100x8", "count": 2},
        {"node_type": "other", "count": 0},
    ]
    got = cluster_from_json(json.dumps(content))
    assert [(n.name, n.node_type) for n in got.nodes] == [("n0", "other"), ("n1", "v100x8"), ("n2", "v100x8")]
    types = {t.name: t for t in got.node_types}
    assert got.nodes == Cluster.grouped([(types["other"], 1), (types["v100x8"], 2)]).nodes


@given(small_instances(min_jobs=1), st.randoms(use_true_random=False))
def test_rows_in_any_order_state_the_same_instance(instance: Instance, chance: random.Random) -> None:
    """With submit indices stated, the order of jobs, profiles and tables in a file does not matter."""
    content = json.loads(instance_to_json(instance))
    for rows in (content["jobs"], content["profiles"], content["usage"], content["truth"]["measured"]):
        chance.shuffle(rows)
    assert instance_from_json(json.dumps(content)) == instance


CODE = """
import sys
from pathlib import Path
from eaco_opt.io import instance_digest, instance_from_json, instance_to_json
instance = instance_from_json(Path(sys.argv[1]).read_text(encoding="utf-8"))
sys.stdout.buffer.write(instance_to_json(instance).encode() + instance_digest(instance).encode())
"""


def test_bytes_do_not_depend_on_the_process(tmp_path: Path, root: Path) -> None:
    """Two processes with other hash seeds, time zones and locales write the same bytes and digest."""
    path = tmp_path / "a.json"
    path.write_text(
        BY_HAND.replace('"jobs"', '"metadata": {"z": "1", "é": "2", "a": "3"}, "jobs"'), encoding="utf-8"
    )
    out = [
        subprocess.run(
            [sys.executable, "-c", CODE, str(path)],
            cwd=root,
            env={**os.environ, "PYTHONHASHSEED": seed, "TZ": zone, "LC_ALL": "C"},
            capture_output=True,
            check=True,
        ).stdout
        for seed, zone in (("1", "UTC"), ("2", "Asia/Kolkata"))
    ]
    assert out[0] == out[1]
    assert len(out[0]) > 1000


def large(count: int) -> Instance:
    small = by_hand()
    jobs = tuple(
        Job(
            name=f"application_{i:07d}",
            profile="resnet",
            gpus=1 + i % 8,
            epochs=1 + i % 97,
            release_s=i / 7.0,
            deadline_s=i / 7.0 + 1e5 / 3.0,
            memory_kind=MemoryKind.MODEL_PARALLEL if i % 5 else MemoryKind.DATA_PARALLEL,
        )
        for i in range(count)
    )
    return Instance(name="large", jobs=jobs, profiles=small.profiles, cluster=small.cluster)


def test_large_files_come_back_equal(tmp_path: Path) -> None:
    """An instance of 82,000 jobs (17 MB) is written and read again equal."""
    instance = large(82_000)
    path = tmp_path / "large.json"
    write_instance(path, instance)
    assert read_instance(path) == instance
