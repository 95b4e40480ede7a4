"""Family ``whole-node``: the paper's setting."""

from __future__ import annotations

from collections import Counter

import numpy as np

from eaco_opt.instance import Instance

from ..draws import pick
from .common import UNIFORM_RELEASES, Request, assemble, uniform_releases_s


def whole_node(request: Request) -> Instance:
    """Jobs that take all GPUs of a node, one of the models each: the setting of the EaCO paper.

    In a cluster of several node sizes each job asks for the size of a node drawn evenly from all nodes, so
    that the sizes asked for have the shares of the nodes.
    """
    models, epochs = request.models(), request.whole_epochs()
    counts = Counter(n.node_type for n in request.cluster.nodes)
    types = [t for t in request.cluster.node_types if counts[t.name]]
    sizes = np.array([t.gpus for t in types], dtype=np.int64)
    workload = request.workload(sizes.tolist())
    gpus = sizes[pick(request.uniforms("node-type"), [counts[t.name] for t in types])]
    return assemble(
        request,
        workload=workload,
        models=models,
        gpus=gpus,
        epochs=epochs,
        release_s=uniform_releases_s(request, workload, models, gpus, epochs),
        assumptions={
            "assumption.gpus": "each job takes all GPUs of a node; node sizes by their share of the nodes",
            "assumption.releases": UNIFORM_RELEASES,
        },
    )
