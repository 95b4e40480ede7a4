"""Nodes, their types, and the cluster they form."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from . import _validate as v
from .errors import DomainError
from .power import PowerModel


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeType:
    """A kind of server (docs/model.md section 1).

    Attributes
    ----------
    name
        Unique name in its cluster.
    gpus
        Number of GPUs, G.
    gpu_type
        Name of the GPU type; profiles give their epoch times by it.
    gpu_memory_gib
        Memory of each GPU [GiB].
    power
        Power when active.
    sleep_w
        Power of an inactive node [W].
    wake_s
        Time from asleep to active [s].
    wake_energy_j
        Energy of one wake-up [J], besides the empty active power during ``wake_s``.
    """

    name: str
    gpus: int
    gpu_type: str
    gpu_memory_gib: float
    power: PowerModel
    sleep_w: float = 0.0
    wake_s: float = 0.0
    wake_energy_j: float = 0.0

    def __post_init__(self) -> None:
        """Validate; sleep power may exceed neither the empty nor any measured active power."""
        v.name("node type", "name", self.name)
        owner = f"node type {self.name!r}"
        put = object.__setattr__
        put(self, "gpus", v.integer(owner, "gpus", self.gpus, 1, 65536))
        v.name(owner, "gpu_type", self.gpu_type)
        put(self, "gpu_memory_gib", v.real(owner, "gpu_memory_gib", self.gpu_memory_gib, above=0.0))
        if not isinstance(self.power, PowerModel):
            raise DomainError(f"{owner}: power must be a PowerModel, got {self.power!r}")
        put(self, "sleep_w", v.real(owner, "sleep_w", self.sleep_w, low=0.0))
        put(self, "wake_s", v.real(owner, "wake_s", self.wake_s, low=0.0))
        put(self, "wake_energy_j", v.real(owner, "wake_energy_j", self.wake_energy_j, low=0.0))
        empty = self.power.empty_active_w(self.gpus)
        if self.sleep_w > empty:
            raise DomainError(
                f"{owner}: sleep_w must not exceed the empty active power {empty:g} W, got {self.sleep_w:g} W"
            )
        for row in self.power.measured:
            if self.sleep_w > row.power_w:
                raise DomainError(
                    f"{owner}: sleep_w must not exceed the measured power of {'+'.join(row.kinds)} "
                    f"({row.power_w:g} W), got {self.sleep_w:g} W"
                )


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One server.

    Attributes
    ----------
    name
        Unique name in its cluster.
    node_type
        Name of its type.
    """

    name: str
    node_type: str

    def __post_init__(self) -> None:
        """Validate."""
        v.name("node", "name", self.name)
        v.name(f"node {self.name!r}", "node_type", self.node_type)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """Nodes of one or several types; the order of ``nodes`` settles ties.

    Attributes
    ----------
    node_types
        The types, at least one.
    nodes
        The nodes, at least one.
    pue
        Power usage effectiveness, >= 1; multiplies all energy.
    """

    node_types: tuple[NodeType, ...]
    nodes: tuple[Node, ...]
    pue: float = 1.0

    def __post_init__(self) -> None:
        """Validate."""
        types = v.items("cluster", "node_types", self.node_types, NodeType)
        nodes = v.items("cluster", "nodes", self.nodes, Node)
        if not types or not nodes:
            raise DomainError("cluster: at least one node type and one node are needed; add them")
        for label, names in (("node type", [t.name for t in types]), ("node", [n.name for n in nodes])):
            seen: set[str] = set()
            for name in names:
                if name in seen:
                    raise DomainError(f"cluster: {label} {name!r} occurs twice; give each its own name")
                seen.add(name)
        known = {t.name for t in types}
        for node in nodes:
            if node.node_type not in known:
                raise DomainError(
                    f"node {node.name!r}: node_type must be one of {', '.join(sorted(known))}, got "
                    f"{node.node_type!r}"
                )
        object.__setattr__(self, "node_types", types)
        object.__setattr__(self, "nodes", nodes)
        object.__setattr__(self, "pue", v.real("cluster", "pue", self.pue, low=1.0))

    @classmethod
    def uniform(cls, node_type: NodeType, count: int, *, pue: float = 1.0) -> Cluster:
        """Return a cluster of ``count`` nodes ``n0, n1, ...`` of one type."""
        count = v.integer("cluster", "count", count, 1, 1_000_000)
        return cls.grouped([(node_type, count)], pue=pue)

    @classmethod
    def grouped(cls, groups: Sequence[tuple[NodeType, int]], *, pue: float = 1.0) -> Cluster:
        """Return a cluster of (type, count) groups, nodes named ``n0, n1, ...`` in order."""
        nodes: list[Node] = []
        for node_type, count in groups:
            if not isinstance(node_type, NodeType):
                raise DomainError(
                    f"cluster: groups must hold (NodeType, count) pairs, got {type(node_type).__name__}"
                )
            number = v.integer(f"node type {node_type.name!r}", "count", count, 0, 1_000_000)
            first = len(nodes)  # taken before, because extend() lets a generator see the list grow
            nodes.extend(Node(name=f"n{first + i}", node_type=node_type.name) for i in range(number))
        return cls(node_types=tuple(t for t, _ in groups), nodes=tuple(nodes), pue=pue)

    def type_of(self, node: int) -> NodeType:
        """Return the type of the node at position ``node``."""
        name = self.nodes[node].node_type
        for node_type in self.node_types:
            if node_type.name == name:
                return node_type
        raise DomainError(f"node {self.nodes[node].name!r}: unknown type {name!r}")  # pragma: no cover

    def total_gpus(self) -> int:
        """Return the number of GPUs of all nodes."""
        by_name = {t.name: t.gpus for t in self.node_types}
        return sum(by_name[n.node_type] for n in self.nodes)
