"""Small hand-made problems with correct schedules, for the tests of the checker.

All numbers are chosen so that every time is a short decimal that can be worked out by hand; each case says
how.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

from eaco_opt.cluster import Cluster, Node, NodeType
from eaco_opt.instance import Instance
from eaco_opt.interference import Interference, MeasuredSlowdown
from eaco_opt.job import Job, MemoryKind
from eaco_opt.limits import Limits
from eaco_opt.power import GpuPower, PowerModel, ServerPower
from eaco_opt.profile import EpochTime, Profile
from eaco_opt.schedule import Gpu, Schedule, ScheduleClass, Segment


@dataclasses.dataclass(frozen=True)
class Case:
    """An instance, a schedule, and the slot length it is to be read with."""

    instance: Instance
    schedule: Schedule
    grid_s: float | None = None

    def segments(self, job: str) -> tuple[Segment, ...]:
        return tuple(s for s in self.schedule.segments if s.job == job)

    def with_segments(self, job: str, *segments: Segment) -> Case:
        """Replace all segments of a job."""
        rest = tuple(s for s in self.schedule.segments if s.job != job)
        return dataclasses.replace(
            self, schedule=dataclasses.replace(self.schedule, segments=(*rest, *segments))
        )

    def changed(self, job: str, index: int = 0, **fields: Any) -> Case:
        """Change fields of one segment of a job."""
        own = list(self.segments(job))
        own[index] = dataclasses.replace(own[index], **fields)
        return self.with_segments(job, *own)

    def of_class(self, schedule_class: ScheduleClass) -> Case:
        return dataclasses.replace(
            self, schedule=dataclasses.replace(self.schedule, schedule_class=schedule_class)
        )

    def with_instance(self, **fields: Any) -> Case:
        return dataclasses.replace(self, instance=dataclasses.replace(self.instance, **fields))

    def with_job(self, name: str, **fields: Any) -> Case:
        jobs = tuple(dataclasses.replace(j, **fields) if j.name == name else j for j in self.instance.jobs)
        return self.with_instance(jobs=jobs)


def seg(job: str, start_s: float, end_s: float, *gpus: Gpu) -> Segment:
    return Segment(job=job, start_s=start_s, end_s=end_s, gpus=gpus)


def node_type(name: str = "v2", gpus: int = 2, **changes: Any) -> NodeType:
    """100 W of server, 50 W standing and up to 100 W dynamic (linear in load) per GPU of 32 GiB."""
    power = PowerModel(
        server=ServerPower(idle_w=100.0, busy_w=100.0), gpu=GpuPower(standing_w=50.0, dynamic_w=100.0)
    )
    fields: dict[str, Any] = {"gpu_type": "v", "gpu_memory_gib": 32.0, "power": power, **changes}
    return NodeType(name=name, gpus=gpus, **fields)


def profile(name: str, tau_s: float = 10.0, *, util: float, memory_gib: float, **more: Any) -> Profile:
    fields: dict[str, Any] = {
        "epoch_times": (EpochTime(gpu_type="v", epoch_time_s=tau_s),),
        "gpu_util_mean": util,
        "gpu_util_peak": util,
        "gpu_memory_mean_gib": memory_gib,
        "gpu_memory_peak_gib": memory_gib,
        **more,
    }
    return Profile(name=name, **fields)


PROFILES = (
    profile(
        "small",
        util=0.3,
        memory_gib=8.0,
        epoch_times=(
            EpochTime(gpu_type="v", epoch_time_s=10.0),
            EpochTime(gpu_type="w", epoch_time_s=5.0),
        ),
    ),
    profile("big", 20.0, util=0.5, memory_gib=16.0),
    profile("llm", 20.0, util=0.4, memory_gib=40.0),
    profile("lone", util=0.2, memory_gib=4.0),
    profile("hot", util=0.7, memory_gib=2.0),
)

# A big epoch takes 25 s next to a small one, which then takes 15 s; two small ones take 12 s each.
TRUTH = Interference(
    measured=(
        MeasuredSlowdown(kinds=("big", "small"), factors=(1.25, 1.5)),
        MeasuredSlowdown(kinds=("small", "small"), factors=(1.2, 1.2)),
    ),
    cannot_share=(("llm", "lone"),),
)


def job(name: str, profile: str, gpus: int, epochs: int, deadline_s: float = math.inf, **more: Any) -> Job:
    return Job(name=name, profile=profile, gpus=gpus, epochs=epochs, deadline_s=deadline_s, **more)


def instance(jobs: tuple[Job, ...], *groups: tuple[NodeType, int], pue: float = 1.0, **more: Any) -> Instance:
    """An instance on nodes n0, n1, ... of the given groups (default: one node of 2 GPUs)."""
    listed = [t for t, count in (groups or ((node_type(), 1),)) for _ in range(count)]
    cluster = Cluster(
        node_types=tuple(dict.fromkeys(listed)),
        nodes=tuple(Node(name=f"n{i}", node_type=t.name) for i, t in enumerate(listed)),
        pue=pue,
    )
    fields: dict[str, Any] = {"profiles": PROFILES, "truth": TRUTH, **more}
    return Instance(name="case", jobs=jobs, cluster=cluster, **fields)


def schedule(*segments: Segment, schedule_class: ScheduleClass = ScheduleClass.STATIC) -> Schedule:
    return Schedule(segments=segments, schedule_class=schedule_class)


def whole_node() -> Case:
    """All take both GPUs. B: 3 epochs of 25 s; A: 5 of 15 s until B ends, then one of 10 s; C alone."""
    jobs = (job("A", "small", 2, 6, 90.0), job("B", "big", 2, 3, 80.0), job("C", "small", 2, 1, 100.0))
    both = ((0, 0), (0, 1))
    return Case(
        instance(jobs, limits=Limits(u_threshold=1.2, mem_threshold=1.0, max_share=2)),
        schedule(seg("A", 0, 85, *both), seg("B", 0, 75, *both), seg("C", 85, 95, *both)),
    )


def mixed() -> Case:
    """1, 2 and 4 GPUs of a node of 4, nothing shared."""
    jobs = (
        job("A", "small", 1, 4),
        job("B", "big", 2, 2, 40.0),
        job("C", "small", 4, 3),
        job("D", "small", 1, 2, release_s=10.0),
        job("H", "hot", 1, 1),
    )
    return Case(
        instance(jobs, (node_type("v4", 4), 1)),
        schedule(
            seg("A", 0, 40, (0, 0)),
            seg("B", 0, 40, (0, 1), (0, 2)),
            seg("C", 40, 70, (0, 0), (0, 1), (0, 2), (0, 3)),
            seg("D", 10, 30, (0, 3)),
            seg("H", 30, 40, (0, 3)),
        ),
    )


def multi_node() -> Case:
    """M takes two whole nodes of 2 and half of a third, which N fills; P runs on another GPU type."""
    jobs = (
        job("M", "small", 5, 3),
        job("N", "small", 1, 2),
        job("Q", "small", 2, 2),
        job("R", "big", 1, 1),
        job("P", "small", 1, 4),
    )
    return Case(
        instance(jobs, (node_type(), 5), (node_type("w2", 2, gpu_type="w"), 1)),
        schedule(
            seg("M", 0, 30, (0, 0), (0, 1), (1, 0), (1, 1), (2, 0)),
            seg("N", 0, 20, (2, 1)),
            seg("Q", 0, 20, (3, 0), (3, 1)),
            seg("R", 0, 20, (4, 0)),
            seg("P", 0, 20, (5, 0)),
        ),
    )


def exclusive() -> Case:
    """E wants its GPU for itself; F uses the node's other one, G comes after E."""
    jobs = (job("E", "lone", 1, 3, exclusive=True), job("F", "small", 1, 3), job("G", "small", 1, 2))
    return Case(
        instance(jobs), schedule(seg("E", 0, 30, (0, 0)), seg("F", 0, 30, (0, 1)), seg("G", 30, 50, (0, 0)))
    )


def model_parallel() -> Case:
    """X spreads 40 GiB over two GPUs of 32 (0.9 may be used); Y fits beside it, Z and L come later."""
    jobs = (
        job("X", "llm", 2, 2, memory_kind=MemoryKind.MODEL_PARALLEL),
        job("Y", "small", 1, 3),
        job("Z", "big", 1, 1),
        job("L", "lone", 1, 1),
    )
    return Case(
        instance(jobs),
        schedule(
            seg("X", 0, 40, (0, 0), (0, 1)),
            seg("Y", 0, 30, (0, 0)),
            seg("Z", 40, 60, (0, 0)),
            seg("L", 40, 50, (0, 1)),
        ),
    )


def grid() -> Case:
    """Slots of 15 s from the first release, 5 s. A: 40 s of work in 3 slots; B: 20 s in 2."""
    jobs = (job("A", "small", 1, 4, 80.0, release_s=5.0), job("B", "small", 1, 2, release_s=12.0))
    return Case(instance(jobs), schedule(seg("A", 5, 50, (0, 0)), seg("B", 20, 50, (0, 1))), 15.0)


def sleeping() -> Case:
    """Nodes that sleep at 10 W and take 20 s and 1000 J to wake; the first is busy twice."""
    jobs = (job("A", "small", 1, 3), job("B", "small", 1, 2), job("C", "small", 1, 1, release_s=30.0))
    asleep = node_type(gpus=1, sleep_w=10.0, wake_s=20.0, wake_energy_j=1000.0)
    return Case(
        instance(jobs, (asleep, 2), pue=1.2),
        schedule(seg("A", 20, 50, (0, 0)), seg("B", 60, 80, (0, 0)), seg("C", 50, 60, (1, 0))),
    )


def moving() -> Case:
    """A stops after two epochs, waits and goes on elsewhere; B shares with it there, 12 s an epoch."""
    jobs = (job("A", "small", 1, 4), job("B", "small", 1, 2))
    return Case(
        instance(jobs, (node_type(), 2)),
        schedule(
            seg("A", 0, 20, (0, 0)),
            seg("A", 30, 54, (1, 0)),
            seg("B", 30, 54, (1, 0)),
            schedule_class=ScheduleClass.EPOCH,
        ),
    )


def flowing() -> Case:
    """A changes GPU in the middle of an epoch."""
    return Case(
        instance((job("A", "small", 1, 4), job("B", "lone", 1, 1, release_s=20.0))),
        schedule(
            seg("A", 0, 15, (0, 0)),
            seg("A", 15, 40, (0, 1)),
            seg("B", 20, 30, (0, 0)),
            schedule_class=ScheduleClass.FLUID,
        ),
    )


CASES: dict[str, Callable[[], Case]] = {
    f.__name__: f
    for f in (
        whole_node,
        mixed,
        multi_node,
        exclusive,
        model_parallel,
        grid,
        sleeping,
        moving,
        flowing,
    )
}
