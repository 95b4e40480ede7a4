"""Clusters of imported and generated instances, and what fits in them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from eaco_opt.cluster import Cluster
from eaco_opt.errors import DomainError

from .paper import node_type


def resolve_cluster(
    owner: str,
    *,
    nodes: int | None,
    gpus_per_node: int | None,
    cluster: Cluster | None,
    lookup: bool = True,
) -> Cluster:
    """Return the cluster asked for: the given one, or ``nodes`` of the paper's V100 servers.

    Parameters
    ----------
    owner
        What messages call the caller.
    nodes, gpus_per_node
        Number of nodes and GPUs of each (8 by default), of the node type of
        :func:`instances.paper.node_type`.
    cluster
        A cluster of the caller's own, instead of both.
    lookup
        Whether the paper's servers look up the powers measured with the paper's four models.

    Raises
    ------
    DomainError
        Neither or both were given, or a number is out of range.
    """
    if cluster is not None:
        if not isinstance(cluster, Cluster):
            raise DomainError(f"{owner}: cluster must be a Cluster, got {cluster!r}")
        if nodes is not None or gpus_per_node is not None:
            raise DomainError(
                f"{owner}: give either cluster or nodes and gpus_per_node, not both; got a cluster with "
                f"nodes={nodes!r}, gpus_per_node={gpus_per_node!r}"
            )
        return cluster
    if nodes is None:
        raise DomainError(f"{owner}: the cluster is missing; give nodes (and gpus_per_node), or a cluster")
    for field, value in (("nodes", nodes), ("gpus_per_node", gpus_per_node)):
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
            raise DomainError(f"{owner}: {field} must be a whole number >= 1, got {value!r}")
    return Cluster.uniform(
        node_type(gpus=8 if gpus_per_node is None else gpus_per_node, lookup=lookup), nodes
    )


def describe_cluster(cluster: Cluster) -> str:
    """Return a cluster in words, e.g. ``64 x v100x8 (8 V100 each)``."""
    counts = Counter(n.node_type for n in cluster.nodes)
    return " + ".join(
        f"{counts[t.name]} x {t.name} ({t.gpus} {t.gpu_type} each)"
        for t in cluster.node_types
        if counts[t.name]
    )


def gpu_types(cluster: Cluster) -> tuple[str, ...]:
    """Return the GPU types that some node has, in order of the cluster's node types."""
    used = {n.node_type for n in cluster.nodes}
    return tuple(dict.fromkeys(t.gpu_type for t in cluster.node_types if t.name in used))


def largest_job(cluster: Cluster, types: Collection[str]) -> int:
    """Return the most GPUs that one job can take.

    A job on several nodes takes nodes of one type (docs/model.md section 1), so this is the largest number of
    GPUs of all nodes of one type.

    Parameters
    ----------
    cluster
        The nodes.
    types
        GPU types that the job can run on.
    """
    counts = Counter(n.node_type for n in cluster.nodes)
    return max((t.gpus * counts[t.name] for t in cluster.node_types if t.gpu_type in types), default=0)


def smallest_gpu_memory_gib(cluster: Cluster) -> float:
    """Return the memory of the smallest GPU of the cluster [GiB]."""
    used = {n.node_type for n in cluster.nodes}
    return min(t.gpu_memory_gib for t in cluster.node_types if t.name in used)
