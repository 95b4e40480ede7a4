"""The digest of an instance: what it depends on, and what it does not."""

from __future__ import annotations

import dataclasses
import math
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eaco_opt.cluster import Cluster
from eaco_opt.instance import Instance, MeasuredUsage
from eaco_opt.interference import Interference, MeasuredSlowdown
from eaco_opt.io import instance_digest, instance_from_json, instance_to_json
from eaco_opt.job import Job, MemoryKind
from eaco_opt.limits import AdmissionRule, Limits, Objective, ObjectiveForm
from eaco_opt.power import MeasuredPower
from eaco_opt.profile import EpochTime, Profile
from tests.strategies import small_instances

TWO_JOBS = """{"format": "eaco-opt/instance", "version": 1, "name": "two jobs",
 "cluster": {"pue": 1.25, "node_types": [{"name": "t", "gpus": 4, "gpu_type": "A", "gpu_memory_gib": 16,
   "power": {"server": {"idle_w": 50, "busy_w": 90},
     "gpu": {"standing_w": 20, "dynamic_w": 80, "exponent": 0.5},
       "measured": [{"kinds": ["p"], "power_w": 400}]}, "sleep_w": 5, "wake_s": 30, "wake_energy_j": 100}],
   "nodes": [{"name": "n0", "node_type": "t"}, {"name": "n1", "node_type": "t"}]},
 "profiles": [
   {"name": "p", "epoch_times": [{"gpu_type": "A", "epoch_time_s": 60}, {"gpu_type": "A", "gpus": 2,
    "epoch_time_s": 35}], "gpu_util_mean": 0.25, "gpu_util_peak": 0.5, "gpu_memory_mean_gib": 1,
    "gpu_memory_peak_gib": 2, "cpu_share": 0.125}],
 "usage": [{"kinds": ["p", "p"], "load": 0.5, "memory_gib": 4}],
 "truth": {"model": "crowding", "params": {"base": 0.1},
   "measured": [{"kinds": ["p", "p"], "factors": [1.2, 1.2]}]},
 "jobs": [{"name": "a", "profile": "p", "gpus": 2, "epochs": 3},
          {"name": "b", "profile": "p", "gpus": 1, "epochs": 1, "release_s": 0.1, "deadline_s": 7200}]}
"""  # fmt: skip


def two_jobs() -> Instance:
    return instance_from_json(TWO_JOBS)


def test_digest_is_what_it_was() -> None:
    """The digest of this instance never changes: results and schedules of earlier versions refer to it."""
    assert instance_digest(two_jobs()) == "ddc25d91651cf5e3152c60734f3cadb416152600dfd4933433c5fc612bc2ac39"


@given(small_instances(min_jobs=0, wild=True), st.data())
def test_what_the_digest_leaves_out(instance: Instance, data: st.DataObject) -> None:
    """Name, metadata, objective, unused profiles and orders without meaning do not change it."""
    digest = instance_digest(instance)
    assert re.fullmatch(r"[0-9a-f]{64}", digest)
    unused = Profile(
        name="nobody runs this one",
        epoch_times=(EpochTime(gpu_type="any", epoch_time_s=1.0),),
        gpu_util_mean=0.0,
        gpu_util_peak=0.0,
        gpu_memory_mean_gib=0.0,
        gpu_memory_peak_gib=0.0,
    )
    profiles = [
        dataclasses.replace(p, epoch_times=tuple(data.draw(st.permutations(p.epoch_times))))
        for p in instance.profiles
    ]
    same = dataclasses.replace(
        instance,
        name="another name",
        metadata=(("more", "text"),),
        objective=Objective(alpha=0.123, form=ObjectiveForm.RAW, jtt_weight=7.0),
        profiles=(*data.draw(st.permutations(profiles)), unused),
        jobs=tuple(
            dataclasses.replace(j, submit_index=3 * j.submit_index + 5)
            for j in data.draw(st.permutations(instance.jobs))
        ),
        cluster=dataclasses.replace(
            instance.cluster, node_types=tuple(data.draw(st.permutations(instance.cluster.node_types)))
        ),
    )
    assert instance_digest(same) == digest
    assert instance_digest(instance_from_json(instance_to_json(same))) == digest


def changed(value: Any) -> Any:
    """Another value of the same type that the field also accepts."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, MemoryKind):
        return MemoryKind.MODEL_PARALLEL
    if isinstance(value, AdmissionRule):
        return AdmissionRule.EXISTING
    if isinstance(value, (int, float)):
        return value + 1 if isinstance(value, int) else math.nextafter(value, math.inf)
    raise TypeError(value)


def edits() -> list[tuple[str, Instance]]:
    """`two_jobs()` with each of its parts changed by the least amount, one at a time."""
    x = two_jobs()
    node_type, job, profile = x.cluster.node_types[0], x.jobs[1], x.profiles[0]
    out: list[tuple[str, Instance]] = []

    def add(label: str, **parts: Any) -> None:
        out.append((label, dataclasses.replace(x, **parts)))

    def cluster(**parts: Any) -> Cluster:
        return dataclasses.replace(x.cluster, **parts)

    def with_type(**parts: Any) -> Cluster:
        return cluster(node_types=(dataclasses.replace(node_type, **parts),))

    for field in ("gpus", "epochs", "release_s", "deadline_s", "priority", "exclusive", "memory_kind"):
        other = dataclasses.replace(job, **{field: changed(getattr(job, field))})
        add(f"job {field}", jobs=(x.jobs[0], other))
    add("no deadline", jobs=(x.jobs[0], dataclasses.replace(job, deadline_s=math.inf)))
    add("job name", jobs=(x.jobs[0], dataclasses.replace(job, name="c")))
    add(
        "order of submission",
        jobs=tuple(dataclasses.replace(j, submit_index=1 - j.submit_index) for j in x.jobs),
    )
    add("one job fewer", jobs=x.jobs[:1])
    extra = Job(name="c", profile="p", gpus=1, epochs=1, submit_index=2)
    add("one job more", jobs=(*x.jobs, extra))
    for field in (
        "gpu_util_mean",
        "gpu_util_peak",
        "gpu_memory_mean_gib",
        "gpu_memory_peak_gib",
        "cpu_share",
    ):
        other_profile = dataclasses.replace(profile, **{field: changed(getattr(profile, field))})
        add(f"profile {field}", profiles=(other_profile,))
    for i, time_ in enumerate(profile.epoch_times):
        times = list(profile.epoch_times)
        times[i] = dataclasses.replace(time_, epoch_time_s=changed(time_.epoch_time_s))
        add(f"epoch time {i}", profiles=(dataclasses.replace(profile, epoch_times=tuple(times)),))
    for field in ("gpus", "gpu_memory_gib", "sleep_w", "wake_s", "wake_energy_j"):
        add(f"node type {field}", cluster=with_type(**{field: changed(getattr(node_type, field))}))
    add("gpu type", cluster=with_type(gpu_type="B"))
    power = node_type.power
    for part in ("server", "gpu"):
        for field in [f.name for f in dataclasses.fields(getattr(power, part))]:
            model = getattr(power, part)
            other_model = dataclasses.replace(model, **{field: changed(getattr(model, field))})
            add(f"{part} {field}", cluster=with_type(power=dataclasses.replace(power, **{part: other_model})))
    add("lookup", cluster=with_type(power=dataclasses.replace(power, lookup=False)))
    measured = (MeasuredPower(kinds=("p",), power_w=math.nextafter(400.0, math.inf)),)
    add("measured power", cluster=with_type(power=dataclasses.replace(power, measured=measured)))
    add("pue", cluster=cluster(pue=changed(x.cluster.pue)))
    add("one node fewer", cluster=cluster(nodes=x.cluster.nodes[:1]))
    add("order of nodes", cluster=cluster(nodes=x.cluster.nodes[::-1]))
    add("usage load", usage=(MeasuredUsage(kinds=("p", "p"), load=changed(0.5), memory_gib=4.0),))
    add("usage memory", usage=(MeasuredUsage(kinds=("p", "p"), load=0.5, memory_gib=changed(4.0)),))
    add("no usage", usage=())
    truth = x.truth
    rows = (MeasuredSlowdown(kinds=("p", "p"), factors=(changed(1.2),) * 2),)
    add("measured slowdown", truth=dataclasses.replace(truth, measured=rows))
    add("model", truth=dataclasses.replace(truth, model="none", params=()))
    add("params", truth=dataclasses.replace(truth, params=(("base", changed(0.1)),)))
    add("clamp", truth=dataclasses.replace(truth, clamp=False))
    add("cannot share", truth=Interference(cannot_share=(("p", "q"),)))
    for field in [f.name for f in dataclasses.fields(Limits)]:
        add(
            f"limits {field}",
            limits=dataclasses.replace(x.limits, **{field: changed(getattr(x.limits, field))}),
        )
    return out


def test_what_the_digest_holds() -> None:
    """Every other part of a problem changes it, floats by their last bit, and no two of these agree."""
    digests = {"unchanged": instance_digest(two_jobs())}
    for label, instance in edits():
        assert instance_digest(instance) not in digests.values(), label
        digests[label] = instance_digest(instance)
    assert len(digests) > 45


@pytest.mark.parametrize("part", ["usage", "truth"])
def test_sets_of_kinds_without_a_job_count(part: str) -> None:
    """A measured set limits its subsets, so it is in the digest even if a member is run by no job."""
    x = two_jobs()
    parts: dict[str, Any] = {
        "usage": (*x.usage, MeasuredUsage(kinds=("p", "zz"), load=0.1, memory_gib=1.0)),
        "truth": dataclasses.replace(
            x.truth, measured=(*x.truth.measured, MeasuredSlowdown(kinds=("p", "zz"), factors=(1.0, 1.0)))
        ),
    }
    assert instance_digest(dataclasses.replace(x, **{part: parts[part]})) != instance_digest(x)


def test_large_instances_have_digests() -> None:
    """Of 82,000 jobs one epoch more of one job shows in the digest."""
    x = two_jobs()
    jobs = tuple(Job(name=f"j{i}", profile="p", gpus=1, epochs=1 + i, release_s=i / 3) for i in range(82_000))
    large = dataclasses.replace(x, jobs=jobs)
    longer = dataclasses.replace(jobs[-1], epochs=jobs[-1].epochs + 1)
    other = dataclasses.replace(x, jobs=(*jobs[:-1], longer))
    assert instance_digest(large) != instance_digest(other)
