"""Which jobs may share a GPU: admissible sets as cliques of a compatibility graph.

Vertices of the class graph are job classes (:class:`eaco_opt.sets.JobClass`); two classes, or a class and
itself, are joined where a GPU of the node type may host both. Sets of jobs are cliques of the graph of jobs
whose classes are joined and whose windows overlap. A clique need not be admissible (load and memory of
three are no matter of pairs), so each is tested against the limits of its own set (docs/model.md section
1.9). Admissible sets are closed under taking subsets, so they are grown one job at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import networkx as nx

if TYPE_CHECKING:
    from eaco_opt.arrays import ArrayView
    from eaco_opt.instance import Instance

Span = tuple[int, int]
"""Slots [first, last) in which a job may run."""


@dataclass(frozen=True, slots=True)
class JobSet:
    """Jobs that may share a GPU of some node type.

    Attributes
    ----------
    jobs
        Job numbers, ascending.
    number
        Number of the set of their classes in the instance's table of sets.
    sigma
        Slowdown of each job in it.
    first, last
        Slots [first, last) in which all of them may run.
    """

    jobs: tuple[int, ...]
    number: int
    sigma: tuple[float, ...]
    first: int
    last: int

    def sigma_of(self, job: int) -> float:
        """Return the slowdown of one of the jobs."""
        return self.sigma[self.jobs.index(job)]


def is_admissible(view: ArrayView, number: int, node_type: int) -> bool:
    """Tell whether a GPU of the type may host the set (docs/model.md section 1.9)."""
    return not view.sets.physical[number, node_type] and not view.sets.threshold[number]


def allowed_types(instance: Instance, job: int) -> tuple[int, ...]:
    """Return the node types that can run the job by itself: epoch time, enough nodes, memory and load."""
    view = instance.arrays()
    alone = view.sets.intern((int(view.job_class[job]),))
    out = []
    for k, node_type in enumerate(instance.cluster.node_types):
        nodes = int((view.node_type == k).sum())
        fits = view.tau_s[job, k] < float("inf") and nodes * node_type.gpus >= view.gpus[job]
        if fits and is_admissible(view, alone, k):
            out.append(k)
    return tuple(out)


def class_graph(instance: Instance, node_type: int) -> nx.Graph:
    """Return the compatibility graph of the job classes on a node type; loops join a class with itself."""
    view = instance.arrays()
    graph = nx.Graph()
    alone = [
        c for c in range(len(view.sets.classes)) if is_admissible(view, view.sets.intern((c,)), node_type)
    ]
    graph.add_nodes_from(alone)
    for i, a in enumerate(alone):
        for b in alone[i:]:
            if is_admissible(view, view.sets.intern((a, b)), node_type):
                graph.add_edge(a, b)
    return graph


def job_sets(
    instance: Instance, node_type: int, jobs: Sequence[int], spans: Sequence[Span]
) -> tuple[JobSet, ...]:
    """Return all admissible sets of the given jobs on a node type, smaller sets first.

    Parameters
    ----------
    instance
        The problem.
    node_type
        Number of the node type.
    jobs
        Jobs that may run on it.
    spans
        (J,) slots in which each job may run; jobs whose spans do not overlap never meet.
    """
    view = instance.arrays()
    classes = class_graph(instance, node_type)
    meet = nx.Graph()
    order = sorted(j for j in jobs if int(view.job_class[j]) in classes and spans[j][0] < spans[j][1])
    meet.add_nodes_from(order)
    for i, a in enumerate(order):
        for b in order[i + 1 :]:
            overlap = max(spans[a][0], spans[b][0]) < min(spans[a][1], spans[b][1])
            if overlap and classes.has_edge(int(view.job_class[a]), int(view.job_class[b])):
                meet.add_edge(a, b)
    out: list[JobSet] = []
    layer = [_job_set(view, (j,), spans) for j in order]
    while layer:
        out += layer
        larger = []
        for found in layer:
            if len(found.jobs) == instance.limits.max_share:
                continue
            common = set.intersection(*(set(meet[j]) for j in found.jobs))
            for j in sorted(c for c in common if c > found.jobs[-1]):
                key = tuple(sorted(int(view.job_class[i]) for i in (*found.jobs, j)))
                if is_admissible(view, view.sets.intern(key), node_type):
                    larger.append(_job_set(view, (*found.jobs, j), spans))
        layer = larger
    return tuple(out)


def _job_set(view: ArrayView, jobs: tuple[int, ...], spans: Sequence[Span]) -> JobSet:
    number = view.sets.intern(tuple(sorted(int(view.job_class[j]) for j in jobs)))
    members = view.sets.keys[number]
    sigma = tuple(float(view.sets.sigma[number, members.index(int(view.job_class[j]))]) for j in jobs)
    return JobSet(jobs, number, sigma, max(spans[j][0] for j in jobs), min(spans[j][1] for j in jobs))
