"""Instances and clusters as JSON (docs/formats.md).

Keys are the names of the dataclass fields, which carry the units. The reader of each
version is a function of its own in ``_INSTANCE_READERS`` and ``_CLUSTER_READERS``; a
later version adds one and keeps those before it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .cluster import Cluster, Node, NodeType
from .errors import EacoError
from .instance import Instance, MeasuredUsage
from .interference import Interference, MeasuredSlowdown
from .io_json import (
    Document,
    Flag,
    Keys,
    Kind,
    Layout,
    ListOf,
    Number,
    Pairs,
    Record,
    Steps,
    Text,
    Whole,
    check_keys,
    document_text,
    header,
    parse,
)
from .job import Job
from .limits import Limits, Objective
from .power import GpuPower, MeasuredPower, PowerModel, ServerPower
from .profile import EpochTime, Profile

INSTANCE_FORMAT = "eaco-opt/instance"
CLUSTER_FORMAT = "eaco-opt/cluster"
VERSION = 1
"""Version that is written, of both formats."""

MAX_NODES = 1_000_000
"""Most nodes that the groups of a cluster may add up to."""

_KINDS = ListOf(Text())

JOB = Record(
    Job,
    "a job",
    {
        "name": Text(),
        "profile": Text(),
        "gpus": Whole(),
        "epochs": Whole(),
        "release_s": Number(),
        "deadline_s": Number(nullable=True),
        "priority": Whole(),
        "exclusive": Flag(),
        "memory_kind": Text(),
        "submit_index": Whole(),
    },
)
EPOCH_TIME = Record(
    EpochTime,
    "an epoch time",
    {"gpu_type": Text(), "gpus": Whole(nullable=True), "epoch_time_s": Number()},
)
PROFILE = Record(
    Profile,
    "a profile",
    {
        "name": Text(),
        "kind": Text(),
        "epoch_times": ListOf(EPOCH_TIME),
        "gpu_util_mean": Number(),
        "gpu_util_peak": Number(),
        "gpu_memory_mean_gib": Number(),
        "gpu_memory_peak_gib": Number(),
        "cpu_share": Number(),
    },
)
SERVER_POWER = Record(
    ServerPower, "the server's power", {"idle_w": Number(), "busy_w": Number(), "exponent": Number()}
)
GPU_POWER = Record(
    GpuPower, "a GPU's power", {"standing_w": Number(), "dynamic_w": Number(), "exponent": Number()}
)
MEASURED_POWER = Record(MeasuredPower, "a measured power", {"kinds": _KINDS, "power_w": Number()})
POWER_MODEL = Record(
    PowerModel,
    "a power model",
    {"server": SERVER_POWER, "gpu": GPU_POWER, "measured": ListOf(MEASURED_POWER), "lookup": Flag()},
)
NODE_TYPE = Record(
    NodeType,
    "a node type",
    {
        "name": Text(),
        "gpus": Whole(),
        "gpu_type": Text(),
        "gpu_memory_gib": Number(),
        "power": POWER_MODEL,
        "sleep_w": Number(),
        "wake_s": Number(),
        "wake_energy_j": Number(),
    },
)
NODE = Record(Node, "a node", {"name": Text(), "node_type": Text()})


_GROUPS = ListOf(Keys("a group of nodes", {"node_type": Text(), "count": Whole()}, ["node_type", "count"]))


class _ClusterForm(Record):
    """A cluster, whose nodes a file may also state as groups of a type and a count."""

    def read(self, document: Document, steps: Steps, value: Any) -> Cluster:
        """Return the cluster; nodes of groups are named ``n0``, ``n1``, ... in order."""
        if type(value) is not dict or ("groups" not in value and "nodes" in value):
            cluster: Cluster = super().read(document, steps, value)
            return cluster
        if "nodes" in value:
            raise document.error(steps, "expected either 'nodes' or 'groups', got both; keep one of the two")
        if "groups" not in value:
            check_keys(document, steps, value, [*self.fields, "groups"], ["node_types"])
            raise document.error(
                steps,
                "expected the key 'nodes' (or 'groups' of a node_type and a count), which is missing; add it",
            )
        plain = {key: item for key, item in value.items() if key != "groups"}
        check_keys(document, steps, plain, self.fields, ["node_types"])
        arguments = self.arguments(document, steps, {**plain, "nodes": []})
        types = {t.name for t in arguments["node_types"]}
        at: Steps = (*steps, "groups")
        nodes: list[Node] = []
        for i, group in enumerate(_GROUPS.read(document, at, value["groups"])):
            if group["node_type"] not in types:
                known = ", ".join(sorted(types)) or "none"
                raise document.error(
                    (*at, i, "node_type"), f"unknown node type {group['node_type']!r}; known are: {known}"
                )
            if not 0 <= group["count"] <= MAX_NODES - len(nodes):
                raise document.error(
                    (*at, i, "count"),
                    f"expected a count of nodes from 0, and at most {MAX_NODES:,} in all groups together, "
                    f"got {group['count']}",
                )
            name = group["node_type"]
            nodes += [
                Node(name=f"n{k}", node_type=name) for k in range(len(nodes), len(nodes) + group["count"])
            ]
        arguments["nodes"] = tuple(nodes)
        try:
            return Cluster(**arguments)
        except EacoError as error:
            raise document.placed(error, steps, self.fields) from None


_CLUSTER_FIELDS: dict[str, Kind] = {"pue": Number(), "node_types": ListOf(NODE_TYPE), "nodes": ListOf(NODE)}
CLUSTER = _ClusterForm(Cluster, "a cluster", _CLUSTER_FIELDS)
USAGE = Record(MeasuredUsage, "a measured usage", {"kinds": _KINDS, "load": Number(), "memory_gib": Number()})
SLOWDOWN = Record(MeasuredSlowdown, "a measured slowdown", {"kinds": _KINDS, "factors": ListOf(Number())})
INTERFERENCE = Record(
    Interference,
    "the sharing tables",
    {
        "model": Text(),
        "params": Pairs(Number()),
        "clamp": Flag(),
        "cannot_share": ListOf(_KINDS),
        "measured": ListOf(SLOWDOWN),
    },
)
LIMITS = Record(
    Limits,
    "the limits",
    {"u_threshold": Number(), "mem_threshold": Number(), "max_share": Whole(), "rule": Text()},
)
OBJECTIVE = Record(Objective, "the objective", {"alpha": Number(), "form": Text(), "jtt_weight": Number()})
INSTANCE = Record(
    Instance,
    "an instance",
    {
        "name": Text(),
        "metadata": Pairs(Text()),
        "objective": OBJECTIVE,
        "limits": LIMITS,
        "cluster": CLUSTER,
        "profiles": ListOf(PROFILE),
        "usage": ListOf(USAGE),
        "truth": INTERFERENCE,
        "jobs": ListOf(JOB),
    },
)

_CLUSTER_LAYOUT: Layout = {
    "node_types": [{"power": {"measured": [None]}}],
    "nodes": [None],
}
_INSTANCE_LAYOUT: Layout = {
    "metadata": {},
    "cluster": _CLUSTER_LAYOUT,
    "profiles": [None],
    "usage": [None],
    "truth": {"cannot_share": [None], "measured": [None]},
    "jobs": [None],
}


def _instance_v1(document: Document, body: dict[str, Any]) -> Instance:
    instance: Instance = INSTANCE.read(document, (), body)
    return instance


def _cluster_v1(document: Document, body: dict[str, Any]) -> Cluster:
    return CLUSTER.read(document, (), body)


_INSTANCE_READERS: dict[int, Callable[[Document, dict[str, Any]], Instance]] = {1: _instance_v1}
_CLUSTER_READERS: dict[int, Callable[[Document, dict[str, Any]], Cluster]] = {1: _cluster_v1}


def instance_to_json(instance: Instance) -> str:
    """Return an instance as JSON text: the same instance, the same text.

    Each job, profile and node is one line, and every field is stated, defaults too.

    Raises
    ------
    FormatError
        A text of the instance holds half of a surrogate pair, which no file can hold.
    """
    value = {"format": INSTANCE_FORMAT, "version": VERSION, **INSTANCE.write(instance)}
    return document_text(f"instance {instance.name!r}", value, _INSTANCE_LAYOUT)


def instance_from_json(text: str, *, source: str = "instance") -> Instance:
    """Return the instance that a JSON text states; the inverse of :func:`instance_to_json`.

    Parameters
    ----------
    text
        The text.
    source
        Name of the file, for messages.

    Raises
    ------
    FormatError
        The text is no JSON, or not of this format, a known version and the right types.
    DomainError, UnknownNameError
        A value is out of range, or a name is not known. Both name file, line and place.
    """
    document = parse(text, source=source)
    version, body = header(document, INSTANCE_FORMAT, _INSTANCE_READERS)
    return _INSTANCE_READERS[version](document, body)


def cluster_to_json(cluster: Cluster) -> str:
    """Return a cluster as JSON text, with its nodes one by one.

    Raises
    ------
    FormatError
        A text of the cluster holds half of a surrogate pair.
    """
    value = {"format": CLUSTER_FORMAT, "version": VERSION, **CLUSTER.write(cluster)}
    return document_text("cluster", value, _CLUSTER_LAYOUT)


def cluster_from_json(text: str, *, source: str = "cluster") -> Cluster:
    """Return the cluster that a JSON text states, with nodes one by one or as groups.

    Parameters
    ----------
    text
        The text.
    source
        Name of the file, for messages.

    Raises
    ------
    FormatError, DomainError
        As :func:`instance_from_json`.
    """
    document = parse(text, source=source)
    version, body = header(document, CLUSTER_FORMAT, _CLUSTER_READERS)
    return _CLUSTER_READERS[version](document, body)
