"""Alibaba's GPU cluster of 2023 (``openb``): pods and nodes, fractions of a GPU.

Published with Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation
Gradient Descent", USENIX ATC 2023 (alibaba/clusterdata, cluster-trace-gpu-v2023). The pods are the trace; the
nodes beside it, where they are there, are a cluster that can be imported too (:func:`cluster_of`).
"""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from eaco_opt.cluster import Cluster, NodeType
from eaco_opt.errors import TraceError
from eaco_opt.power import GpuPower, PowerModel, ServerPower

from ..clusters import gpu_types
from .columns import TraceColumns
from .companions import Companion, Files
from .native import Workload
from .options import ImportOptions
from .table import Book, Row, fraction_kind, recorded, rows, shares
from .text import TraceText, missing, shown, whole

REQUIRED = ("num_gpu", "gpu_milli", "creation_time", "deletion_time", "scheduled_time")
OPTIONAL = ("name", "gpu_spec", "pod_phase")
"""Columns of pods that are read; cpu_milli, memory_mib and qos are ignored."""

NODE_COLUMNS = ("sn", "gpu", "model")
"""Columns of nodes that are read."""

MILLI = 1000
"""One GPU."""

GPU: Mapping[str, tuple[float, float, float]] = {
    "T4": (16.0, 10.0, 70.0),
    "P100": (16.0, 25.0, 250.0),
    "V100M16": (16.0, 30.0, 300.0),
    "V100M32": (32.0, 30.0, 300.0),
    "A10": (24.0, 30.0, 150.0),
    "G2": (24.0, 30.0, 150.0),
    "G3": (40.0, 50.0, 400.0),
}
"""Memory [GiB], idle and full power [W] by GPU model. Powers are those the PWR plug-in's authors use, who
read the trace's G2 as A10 and G3 as A100; the memory of these two is that of the A10 and the smaller A100."""

SERVER = ServerPower(idle_w=100.0, busy_w=300.0)
"""Assumed of every node without its GPUs: the trace records no power."""

POWER_TEXT = (
    "idle and full power of each GPU by its model, as the PWR plug-in's authors have them (G2 as A10, G3 as "
    f"A100); a server without its GPUs from {SERVER.idle_w:g} to {SERVER.busy_w:g} W; not in the trace"
)


class AlibabaOpenb:
    """Alibaba's openb trace of 2023: pods, with fractions of a GPU; its nodes as a cluster."""

    SAMPLE = (
        "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,"
        "scheduled_time\n"
        "pod-0,6000,12288,1,460,,LS,Running,427061,902960,427061\n"
        "pod-1,6000,12288,8,1000,V100M32|T4,LS,Succeeded,427000,427900,427500\n"
    )

    FILES = Files(
        main="openb_pod_list_*.csv",
        companions=(Companion(role="nodes", pattern="openb_node_list_gpu_node.csv", needed=False),),
    )

    def __init__(self) -> None:
        self._own: Cluster | None = None

    def read(self, text: TraceText) -> TraceColumns:
        """Return the columns of a trace.

        Raises
        ------
        TraceError
            The header is missing, or lacks a column or names one twice.
        """
        book = Book(text)
        for row in rows(
            book,
            required=REQUIRED,
            optional=OPTIONAL,
            what="a list of openb pods",
            hint="the lists multigpu* and others without times cannot be imported",
        ):
            submit_s = book.seconds(row, "creation_time")
            if submit_s is None:
                continue
            duration_s = _running_s(book, row, submit_s)
            if duration_s is None:
                continue
            gpus = book.gpus(row, "num_gpu")
            if gpus is None:
                continue
            fraction = _fraction(book, row, gpus)
            if fraction is None:
                continue
            spec = row["gpu_spec"]
            if not spec.isprintable() or len(spec) > 200:
                book.refuse(
                    row.line, "bad-gpu-spec", f"gpu_spec must be names with | between, got {shown(spec)}"
                )
                continue
            kind = fraction_kind("pod", fraction)
            book.once(row, "name")
            book.take(
                row.line,
                submit_s=submit_s,
                gpus=gpus,
                duration_s=duration_s,
                model=kind if missing(spec) else f"{kind}, only {spec}",
            )
        return book.columns(
            "openb pods",
            assumptions={
                "assumption.running_time": "deletion - scheduling; pods that were never scheduled are refused"
            },
        )

    def workload(
        self, columns: TraceColumns, gpus: NDArray[np.int64], options: ImportOptions, cluster: Cluster
    ) -> Workload:
        """Return running times on the GPU types that pods allow; see the base protocol."""
        load, memory_gib, assumptions = shares(columns.model, cluster)
        work = recorded(
            "alibaba-openb-2023",
            columns,
            options,
            cluster,
            utilisation=load,
            memory_gib=memory_gib,
            assumptions={
                **assumptions,
                **({"assumption.power": POWER_TEXT} if cluster is self._own else {}),
                "assumption.gpu_spec": (
                    "a pod that lists GPU models is forbidden on others (V100M16 and V100M32 count as "
                    "V100 too)"
                ),
            },
        )
        allowed = {kind: _allowed(kind, gpu_types(cluster)) for kind in dict.fromkeys(columns.model)}
        for i, kind in enumerate(columns.model):
            work.duration_s[i, ~allowed[kind]] = np.nan
        return dataclasses.replace(
            work,
            unknown_reason="other-gpu-type",
            unknown_text=lambda row: f"{columns.model[row]}: the cluster has none of these GPU models",
        )

    def cluster(self, text: TraceText) -> Cluster:
        """Return the nodes that stand beside the pods, as a cluster.

        Raises
        ------
        TraceError
            There is no list of nodes, or it holds a node that cannot be.
        """
        nodes = text.companions.get("nodes")
        if nodes is None:
            raise TraceError(
                f"{text.file}: expected a list of nodes beside it, a file openb_node_list_gpu_node.csv, "
                "got none; put "
                "it there, or choose another cluster"
            )
        self._own = cluster_of(nodes)
        return self._own


def _running_s(book: Book, row: Row, created_s: float) -> float | None:
    """Return deletion - scheduling [s], ``None`` if the row was refused."""
    if missing(row["scheduled_time"]):
        book.refuse(row.line, "never-scheduled", "scheduled_time is missing, so the running time is unknown")
        return None
    start_s = book.seconds(row, "scheduled_time")
    if start_s is None:
        return None
    if missing(row["deletion_time"]):
        book.refuse(row.line, "never-ended", "deletion_time is missing, so the running time is unknown")
        return None
    end_s = book.seconds(row, "deletion_time")
    if end_s is None:
        return None
    if end_s < start_s:
        what = f"deletion_time must not lie before scheduled_time, got {shown(row['deletion_time'])}"
        book.refuse(row.line, "end-before-start", what)
        return None
    if end_s == start_s:
        book.refuse(
            row.line, "duration-not-positive", "deletion_time must lie after scheduled_time, got the same"
        )
        return None
    if start_s < created_s:
        book.repair(row.line, "start-before-submission", "scheduled before it was created; creation kept")
    return end_s - start_s


def _fraction(book: Book, row: Row, gpus: int) -> float | None:
    """Return the fraction of each GPU, ``None`` if the row was refused."""
    cell = row["gpu_milli"]
    milli = whole(cell)
    if milli is None or not 1 <= milli <= MILLI:
        what = f"gpu_milli must be a whole number from 1 to {MILLI}, got {shown(cell)}"
        book.refuse(row.line, "bad-gpu-share", what)
        return None
    if gpus > 1 and milli != MILLI:
        what = f"gpu_milli of a pod on several GPUs should be {MILLI}, got {milli}; taken of each of its GPUs"
        book.repair(row.line, "shared-gpus", what)
    return milli / MILLI


def _allowed(kind: str, types: tuple[str, ...]) -> NDArray[np.bool_]:
    """Return (W,) whether a kind may run on each of the cluster's GPU types."""
    _, found, spec = kind.partition(", only ")
    if not found:
        return np.ones(len(types), dtype=np.bool_)
    names = {_plain(name) for name in spec.split("|")}
    names |= {re.sub(r"^v100m(16|32)$", "v100", name) for name in names}
    return np.array([_plain(t) in names for t in types], dtype=np.bool_)


def _plain(name: str) -> str:
    return "".join(c for c in name.lower() if c.isalnum())


def cluster_of(nodes: TraceText) -> Cluster:
    """Return the cluster of a list of openb nodes (sn, cpu_milli, memory_mib, gpu, model).

    Nodes of one GPU model and number of GPUs are a node type, e.g. ``T4x2``; nodes without GPUs are left out.

    Parameters
    ----------
    nodes
        The list.

    Raises
    ------
    TraceError
        A row cannot be read, names a model of unknown power, or there is no node with a GPU.
    """
    book = Book(nodes)
    counts: Counter[tuple[str, int]] = Counter()
    for row in rows(book, required=NODE_COLUMNS, what="a list of openb nodes"):
        gpus = whole(row["gpu"])
        if gpus == 0:
            continue
        if gpus is None or not 1 <= gpus <= 1024 or row["model"] not in GPU:
            known = ", ".join(GPU)
            raise TraceError(
                f"{nodes.file}:{row.line}: expected a node with 0 to 1024 GPUs of a model of {known}, "
                f"got {shown(row['gpu'])} of {shown(row['model'])}"
            )
        counts[row["model"], gpus] += 1
    if not counts:
        raise TraceError(f"{nodes.file}: expected nodes with GPUs, got none")
    return Cluster.grouped([(_node_type(m, g), n) for (m, g), n in sorted(counts.items())])


def _node_type(model: str, gpus: int) -> NodeType:
    memory_gib, idle_w, full_w = GPU[model]
    return NodeType(
        name=f"{model}x{gpus}",
        gpus=gpus,
        gpu_type=model,
        gpu_memory_gib=memory_gib,
        power=PowerModel(server=SERVER, gpu=GpuPower(standing_w=idle_w, dynamic_w=full_w - idle_w)),
    )
