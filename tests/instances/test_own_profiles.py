"""Instances drawn from a user's own profiles; without them the same bytes as ever."""

from __future__ import annotations

import dataclasses
import hashlib
import math
from typing import Any

import pytest

from eaco_opt.cluster import Cluster, Node
from eaco_opt.errors import DomainError, UnknownNameError
from eaco_opt.impossible import impossible_jobs
from eaco_opt.instance import Instance
from eaco_opt.io import instance_digest, instance_from_json, instance_to_json
from eaco_opt.limits import Limits
from eaco_opt.profile import EpochTime, Profile
from instances import builtin_instance, generate
from instances.generators import GENERATORS, Request
from instances.paper import MODELS, node_type

FAMILIES = ("whole-node", "mixed", "production")


def own(name: str = "own", times: dict[tuple[str, int | None], float] | None = None, **more: Any) -> Profile:
    """A profile with the given epoch times, 600 s on any number of V100 without them."""
    times = {("V100", None): 600.0} if times is None else times
    values: dict[str, Any] = {
        "gpu_util_mean": 0.35, "gpu_util_peak": 0.5, "gpu_memory_mean_gib": 6.0, "gpu_memory_peak_gib": 8.0,
        "cpu_share": 0.1,
    }  # fmt: skip
    return Profile(
        name=name,
        epoch_times=tuple(EpochTime(gpu_type=t, gpus=g, epoch_time_s=s) for (t, g), s in times.items()),
        **{**values, **more},
    )


def two_types() -> Cluster:
    """Two nodes of 4 V100 and two of 2 A100."""
    v100 = node_type(gpus=4, lookup=False)
    a100 = dataclasses.replace(v100, name="a100x2", gpu_type="A100", gpus=2)
    nodes = [Node(name=f"n{i}", node_type=(v100, a100)[i // 2].name) for i in range(4)]
    return Cluster(node_types=(v100, a100), nodes=tuple(nodes))


def sha256(instance: Instance) -> str:
    """Hash of the bytes that would be written."""
    return hashlib.sha256(instance_to_json(instance).encode()).hexdigest()


def test_without_profiles_the_same_bytes() -> None:
    """The built-in instance and one with a mix have the bytes they had before profiles could be given."""
    assert sha256(builtin_instance()) == "222eb41847c64da0ed7dbe2c1d008a031d1a711c28dd8fa9c5c80bb223b4bb22"
    made = generate("mixed", jobs=40, nodes=6, load=0.9, seed=5, mix={"AlexNet": 1, "VGG-16": 2})
    assert sha256(made) == "15108427f685f4618763c8001c068f552e760f8691a61c2215d81e6a5a769259"


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_takes_own_profiles(family: str) -> None:
    """Jobs run the profiles given, keep load and possible ends, and nothing counts as measured."""
    slow, fast = own("slow"), own("fast", {("V100", None): 60.0, ("V100", 8): 30.0})
    made = generate(family, jobs=50, nodes=4, load=0.8, seed=3, profiles=[slow, fast])
    assert made.profiles == (fast, slow)
    assert {j.profile for j in made.jobs} == {"fast", "slow"}
    assert impossible_jobs(made) == ()
    assert (made.usage, made.truth.model, made.truth.measured) == ((), "additive", ())
    assert "model 'additive'" in dict(made.metadata)["assumption.sharing"]
    assert '"profiles": ["fast", "slow"]' in dict(made.metadata)["generator.call"]
    assert not any(m.power.lookup for m in made.cluster.node_types)
    assert instance_from_json(instance_to_json(made)) == made
    again = generate(family, jobs=50, nodes=4, load=0.8, seed=3, profiles=iter([fast, slow]))
    assert instance_to_json(again) == instance_to_json(made)


def test_draws_are_those_of_the_paper_models() -> None:
    """Only the models change: with four own profiles jobs have the same GPUs and epochs."""
    paper = generate("mixed", jobs=30, nodes=4, seed=1)
    named = generate("mixed", jobs=30, nodes=4, seed=1, profiles=[own(m, kind="k") for m in MODELS])
    assert sorted((j.gpus, j.epochs) for j in paper.jobs) == sorted((j.gpus, j.epochs) for j in named.jobs)
    # The paper's powers were measured with its own ResNet-50, not with a user's workload of that name.
    (kind,) = named.cluster.node_types
    assert not kind.power.lookup
    assert instance_digest(paper) != instance_digest(named)


def test_epoch_times_by_count() -> None:
    """Deadlines follow the epoch time of a job's count: 100 s on 1 GPU, 40 s on 2, 25 on 4, 10 on 8."""
    tau = {1: 100.0, 2: 40.0, 4: 25.0, 8: 10.0}
    profile = own(times={("V100", g): s for g, s in tau.items()})
    made = generate("mixed", jobs=40, nodes=2, slack=(2.0, 2.0), seed=2, profiles=[profile])
    assert {j.gpus for j in made.jobs} == set(tau)
    for job in made.jobs:
        allowed = 2.0 * 1.1 * job.epochs * tau[job.gpus] + 3600.0
        assert math.isclose(job.deadline_s - job.release_s, allowed, abs_tol=2e-3)


def test_shortest_time_of_several_gpu_types() -> None:
    """With V100 (60 s) and A100 (20 s) a deadline allows the A100's time; four GPUs fit on two A100 nodes."""
    profile = own(times={("V100", None): 60.0, ("A100", None): 20.0})
    made = generate("whole-node", jobs=30, cluster=two_types(), slack=(2.0, 2.0), seed=0, profiles=[profile])
    assert {j.gpus for j in made.jobs} == {2, 4}
    for job in made.jobs:
        assert math.isclose(job.deadline_s - job.release_s, 44.0 * job.epochs + 3600.0, abs_tol=2e-3)


@pytest.mark.parametrize("family", FAMILIES)
def test_missing_epoch_time_is_refused(family: str) -> None:
    """A profile without a time for a count or a type is named; left out by mix it may stay."""
    bad = own("big-only", {("V100", 16): 60.0})
    message = r"profile 'big-only' has no epoch time for \d+ GPU\(s\) of type 'V100'.* it has 16 of 'V100'"
    with pytest.raises(DomainError, match=message):
        generate(family, jobs=5, nodes=1, profiles=[bad, own()])
    made = generate(family, jobs=5, nodes=1, profiles=[bad, own()], mix={"own": 1})
    assert {j.profile for j in made.jobs} == {"own"}
    with pytest.raises(DomainError, match=r"'own' has no epoch time for \d GPU\(s\) of type 'A100'"):
        generate(family, jobs=5, cluster=two_types(), profiles=[own()])


def test_profile_that_fits_nowhere_is_refused() -> None:
    """40 GiB do not fit on a V100 of 32 GiB, and a load of 0.95 is above the threshold of 0.9."""
    for profile, reason in (
        (own(gpu_memory_peak_gib=40.0), "needs 40 GiB"),
        (own(gpu_util_mean=0.95, gpu_util_peak=1.0), "GPU load alone is 0.950"),
    ):
        with pytest.raises(DomainError, match=f"profile 'own' can run nowhere .* {reason}"):
            generate("whole-node", jobs=3, nodes=1, profiles=[profile])
    busy = own(gpu_util_mean=0.95, gpu_util_peak=1.0)
    assert generate("whole-node", jobs=3, nodes=1, profiles=[busy], limits=Limits(u_threshold=1.0)).jobs


def test_bad_arguments() -> None:
    """No profiles, twins, kinds that differ, other objects and models that are not there are refused."""
    for profiles, message in (
        ([], "at least one profile, got none"),
        ([own(), own()], "profile 'own' occurs twice"),
        ([own("a", kind="k"), own("b", kind="k", cpu_share=0.5)], "share the kind 'k' but differ"),
        ("own.json", "profiles must be a sequence of Profile, got 'own.json'"),
        ([1], "profiles must hold Profile objects, got 1"),
    ):
        with pytest.raises(DomainError, match=f"family 'mixed': .*{message}"):
            generate("mixed", jobs=3, nodes=1, profiles=profiles)  # type: ignore[arg-type]
    with pytest.raises(UnknownNameError, match="unknown model 'VGG-16' in mix; known are: own"):
        generate("mixed", jobs=3, nodes=1, profiles=[own()], mix={"VGG-16": 1})


def test_family_that_does_not_take_profiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """A family of somebody else that draws from the paper's models all the same is refused, not believed."""

    of_the_paper = builtin_instance()

    def stubborn(request: Request) -> Instance:
        return of_the_paper

    monkeypatch.setattr(GENERATORS, "get", lambda name: stubborn)
    with pytest.raises(DomainError, match="family 'stubborn': does not take profiles"):
        generate("stubborn", jobs=3, nodes=1, profiles=[own()])
