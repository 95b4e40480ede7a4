"""A name for the content of a problem."""

from __future__ import annotations

import hashlib
import json
import math

from .instance import Instance
from .io_instance import INTERFERENCE, LIMITS, NODE_TYPE, USAGE

_PREFIX = b"eaco-opt/instance-digest/1\n"
_ENCODER = json.JSONEncoder(ensure_ascii=True, allow_nan=False, separators=(",", ":"))


def instance_digest(instance: Instance) -> str:
    """Return a SHA-256 in hexadecimal of everything that determines the problem.

    In: jobs in order of submission (all fields but the submit index itself, which only
    orders them), the profiles that jobs use, node types, nodes in their order, PUE,
    measured usage, true slowdowns, limits. Out: name, metadata and objective of the
    instance, profiles that no job uses, the order of node types and epoch times, and
    whatever the form of a file leaves open. Tables of measured sets are in as a whole,
    because a set also limits its subsets (docs/model.md section 1).

    Parameters
    ----------
    instance
        The problem.
    """
    used = {job.profile for job in instance.jobs}
    content = [
        [
            [
                job.name,
                job.profile,
                job.gpus,
                job.epochs,
                job.release_s,
                None if math.isinf(job.deadline_s) else job.deadline_s,
                job.priority,
                job.exclusive,
                job.memory_kind.value,
            ]
            for job in instance.jobs
        ],
        [
            [
                profile.name,
                profile.kind,
                sorted([t.gpu_type, t.gpus or 0, t.epoch_time_s] for t in profile.epoch_times),
                profile.demands(),
            ]
            for profile in instance.profiles
            if profile.name in used
        ],
        sorted((NODE_TYPE.write(t) for t in instance.cluster.node_types), key=lambda t: str(t["name"])),
        [[node.name, node.node_type] for node in instance.cluster.nodes],
        instance.cluster.pue,
        [USAGE.write(row) for row in instance.usage],
        INTERFERENCE.write(instance.truth),
        LIMITS.write(instance.limits),
    ]
    return hashlib.sha256(_PREFIX + _ENCODER.encode(content).encode("ascii")).hexdigest()
