"""Problems that can be worked by hand, shared by the tests of this folder.

One node type ``box`` of two GPUs, 100 W when active whatever runs on it, so that energy is 100 W times the
time that nodes are active. Two profiles, ``slow`` (100 s an epoch, load 0.4) and ``fast`` (50 s, load 0.3),
of 4 GiB on GPUs of 10 GiB; jobs that share GPUs run at half speed unless a test says otherwise.
"""

from __future__ import annotations

import math
from typing import Any

from eaco_opt.cluster import Cluster, NodeType
from eaco_opt.instance import Instance
from eaco_opt.interference import Interference, MeasuredSlowdown
from eaco_opt.job import Job
from eaco_opt.limits import Limits, Objective
from eaco_opt.power import GpuPower, PowerModel, ServerPower
from eaco_opt.profile import EpochTime, Profile

BOX = NodeType(
    name="box",
    gpus=2,
    gpu_type="G",
    gpu_memory_gib=10.0,
    power=PowerModel(
        server=ServerPower(idle_w=100.0, busy_w=100.0), gpu=GpuPower(standing_w=0.0, dynamic_w=0.0)
    ),
)


def profile(name: str, epoch_time_s: float, load: float) -> Profile:
    """Return a profile of 4 GiB."""
    return Profile(
        name=name,
        epoch_times=(EpochTime(gpu_type="G", epoch_time_s=epoch_time_s),),
        gpu_util_mean=load,
        gpu_util_peak=load,
        gpu_memory_mean_gib=4.0,
        gpu_memory_peak_gib=4.0,
    )


PROFILES = (profile("slow", 100.0, 0.4), profile("fast", 50.0, 0.3))


def job(name: str, kind: str = "slow", *, epochs: int = 10, gpus: int = 2, **more: Any) -> Job:
    """Return a job; by default 10 epochs of 100 s on a whole node."""
    return Job(name=name, profile=kind, gpus=gpus, epochs=epochs, **more)


def instance(*jobs: Job, nodes: int = 1, slowdown: float = 2.0, alpha: float = 0.5, **more: Any) -> Instance:
    """Return an instance in which any two jobs slow each other down by the same factor."""
    pairs = (("fast", "fast"), ("fast", "slow"), ("slow", "slow"))
    return Instance(
        name="tiny",
        jobs=jobs,
        profiles=PROFILES,
        cluster=Cluster.uniform(BOX, nodes),
        truth=Interference(
            measured=tuple(MeasuredSlowdown(kinds=pair, factors=(slowdown, slowdown)) for pair in pairs)
        ),
        limits=Limits(**{"max_share": 2, **more}),
        objective=Objective(alpha=alpha),
    )


def two_in_a_row(**more: Any) -> Instance:
    """Return two whole-node jobs of 1000 s released at 0 on one node.

    Under FIFO b waits 1000 s: energy 100 W * 2000 s = 200 kJ, mean JCT 1000 s, mean wait 500 s, makespan 2000
    s.
    """
    return instance(job("a"), job("b"), **more)


INFINITE = math.inf
