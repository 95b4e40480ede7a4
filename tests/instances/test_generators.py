"""Generator families: what they promise about releases, loads, deadlines, counts, and sameness."""

from __future__ import annotations

import json
import math
from collections import Counter
from typing import Any

import numpy as np
import pytest

from eaco_opt.cluster import Cluster
from eaco_opt.errors import DomainError, UnknownNameError
from eaco_opt.impossible import impossible_jobs
from eaco_opt.instance import Instance
from eaco_opt.io import instance_from_json, instance_to_json
from eaco_opt.limits import Limits, Objective
from instances import GENERATORS, builtin_instance, generate
from instances.paper import MODELS, node_type

DRAWN = ("production", "whole-node", "mixed", "burst", "diurnal", "heavy-tail", "tight-deadlines")
FAMILIES = (*DRAWN, "symmetric", "adversarial")


def tau_s(instance: Instance, model: str) -> float:
    """Epoch time of a model of the instance."""
    tau = instance.profile(model).epoch_time_s("V100", 8)
    assert tau is not None
    return tau


def work_gpu_s(instance: Instance) -> float:
    """Exclusive GPU-seconds of all jobs."""
    return math.fsum(j.gpus * j.epochs * tau_s(instance, j.profile) for j in instance.jobs)


def test_the_families_are_these() -> None:
    """The registry holds these families, each with a summary for the command line."""
    assert GENERATORS.names() == FAMILIES
    for name in FAMILIES:
        assert GENERATORS.summary(name).endswith(".")


@pytest.mark.parametrize("family", FAMILIES)
def test_conformance(family: str) -> None:
    """Every family: J jobs j0... by release, first release 0, whole ms, possible alone, metadata in full."""
    instance = generate(family, jobs=60, nodes=16, seed=3)
    assert [j.name for j in instance.jobs] == [f"j{i}" for i in range(60)]
    assert [j.submit_index for j in instance.jobs] == list(range(60))
    releases = [j.release_s for j in instance.jobs]
    assert releases == sorted(releases)
    assert releases[0] == 0.0
    assert all(t == round(t, 3) for j in instance.jobs for t in (j.release_s, j.deadline_s))
    assert all(math.isfinite(j.deadline_s) for j in instance.jobs)
    assert impossible_jobs(instance) == ()
    assert instance_from_json(instance_to_json(instance)) == instance
    assert (instance.limits, instance.objective) == (Limits(), Objective())
    said = dict(instance.metadata)
    assert json.loads(said["generator.call"])["seed"] == 3
    assert {"source", "assumption.deadline", "assumption.gpus", "assumption.releases"} <= set(said)


@pytest.mark.parametrize("family", DRAWN)
def test_same_call_same_bytes_and_other_seed_other_jobs(family: str) -> None:
    """Two calls give equal text; another seed gives other jobs."""
    texts = [instance_to_json(generate(family, jobs=30, nodes=8, seed=s)) for s in (5, 5, 6)]
    assert texts[0] == texts[1]
    assert texts[0] != texts[2]


@pytest.mark.parametrize("family", [f for f in DRAWN if f != "tight-deadlines"])
def test_deadlines_follow_the_rule(family: str) -> None:
    """Deadline = release + slack * 1.1 * epochs * epoch time + 1 h with slack in the range, to half a ms."""
    instance = generate(family, jobs=200, nodes=16, slack=(1.5, 1.75), seed=1)
    slacks = [
        (j.deadline_s - j.release_s - 3600.0) / (1.1 * j.epochs * tau_s(instance, j.profile))
        for j in instance.jobs
    ]
    assert min(slacks) >= 1.5 - 1e-6
    assert max(slacks) <= 1.75 + 1e-6
    # 200 uniform draws: the mean lies within 4 standard errors (0.25 / sqrt(12 * 200) each).
    assert abs(np.mean(slacks) - 1.625) < 4 * 0.25 / math.sqrt(12 * 200)


@pytest.mark.parametrize("family", ["whole-node", "mixed", "heavy-tail", "tight-deadlines"])
def test_releases_fill_the_window_of_the_load(family: str) -> None:
    """Releases are uniform over [0, W], W = work / (GPUs * load): offered load is as asked by definition."""
    instance = generate(family, jobs=3000, nodes=20, load=0.8, seed=2)
    window = work_gpu_s(instance) / (160 * 0.8)
    releases = np.array([j.release_s for j in instance.jobs]) / window
    # Shifted by the first release: with 3,000 draws both ends lie within 0.5 % of 0 and 1.
    assert 0.995 < releases[-1] <= 1.0
    # Kolmogorov-Smirnov at the 0.1 % level: 1.95 / sqrt(n).
    assert np.abs(releases - (np.arange(3000) + 0.5) / 3000).max() < 1.95 / math.sqrt(3000)


@pytest.mark.parametrize(
    ("family", "params", "last"),
    [
        ("burst", {"spread_s": 0.0}, (0.97, 1.0)),
        ("diurnal", {}, (0.97, 1.0)),
        # The last of ten waves comes at 9/10 of the window.
        ("symmetric", {"waves": 10}, (0.9 - 1e-6, 0.9 + 1e-6)),
    ],
)
def test_uneven_releases_fill_the_same_window(
    family: str, params: dict[str, float], last: tuple[float, float]
) -> None:
    """Other shapes of arrival lie in the same window [0, W], so that they too have the load asked for."""
    instance = generate(family, jobs=3000, nodes=20, load=0.8, seed=2, params=params)
    window = work_gpu_s(instance) / (160 * 0.8)
    assert last[0] <= instance.jobs[-1].release_s / window <= last[1]


def test_load_scales_releases_and_nothing_else() -> None:
    """Twice the load halves every release; models, counts, epochs and relative deadlines stay."""
    slow, fast = (generate("mixed", jobs=50, nodes=8, load=x, seed=9) for x in (0.5, 1.0))
    for a, b in zip(slow.jobs, fast.jobs, strict=True):
        assert (a.name, a.profile, a.gpus, a.epochs) == (b.name, b.profile, b.gpus, b.epochs)
        assert b.release_s == pytest.approx(a.release_s / 2, abs=2e-3)
        assert b.deadline_s - b.release_s == pytest.approx(a.deadline_s - a.release_s, abs=2e-3)


@pytest.mark.parametrize(
    ("option", "kept"),
    [
        ({"epochs": (1, 5)}, ("profile", "gpus")),
        ({"mix": {"AlexNet": 1}}, ("gpus", "epochs")),
        ({"slack": (3.0, 4.0)}, ("profile", "gpus", "epochs", "release_s")),
        ({"nodes": 40}, ("profile", "gpus", "epochs")),
    ],
)
def test_one_option_does_not_shuffle_the_others(option: dict[str, Any], kept: tuple[str, ...]) -> None:
    """Each quantity has a stream of its own, so jobs keep what the changed option does not concern."""
    call: dict[str, Any] = {"jobs": 40, "nodes": 8, "seed": 4}
    before, after = generate("mixed", **call), generate("mixed", **{**call, **option})
    for a, b in zip(before.jobs, after.jobs, strict=True):
        assert [getattr(a, f) for f in kept] == [getattr(b, f) for f in kept]


def test_whole_node_jobs_take_a_node() -> None:
    """Every job asks for all GPUs of a node, whatever the node's size."""
    for size in (1, 4, 8):
        jobs = generate("whole-node", jobs=20, nodes=3, gpus_per_node=size).jobs
        assert {j.gpus for j in jobs} == {size}


def test_whole_node_sizes_have_the_shares_of_the_nodes() -> None:
    """With 3 nodes of 4 GPUs and 1 of 8, three quarters of the jobs ask for 4."""
    cluster = Cluster.grouped([(node_type(gpus=4), 3), (node_type(gpus=8), 1)])
    counts = Counter(j.gpus for j in generate("whole-node", jobs=4000, cluster=cluster).jobs)
    assert set(counts) == {4, 8}
    assert counts[4] / 4000 == pytest.approx(0.75, abs=4 * math.sqrt(0.75 * 0.25 / 4000))


def test_mixed_counts_have_the_stated_chances() -> None:
    """1, 2, 4, 8 GPUs come with chances 0.4, 0.2, 0.2, 0.2, each within 4 standard errors."""
    counts = Counter(j.gpus for j in generate("mixed", jobs=5000, nodes=8).jobs)
    for gpus, chance in ((1, 0.4), (2, 0.2), (4, 0.2), (8, 0.2)):
        assert counts[gpus] / 5000 == pytest.approx(chance, abs=4 * math.sqrt(chance * (1 - chance) / 5000))


def test_mixed_counts_are_cut_to_the_largest_node() -> None:
    """On 3-GPU nodes jobs of 4 and 8 become jobs of 3, the others stay, and the metadata counts the cuts."""
    small = generate("mixed", jobs=300, nodes=8, gpus_per_node=3, seed=1)
    large = generate("mixed", jobs=300, nodes=8, gpus_per_node=8, seed=1)
    by_deadline = {(j.epochs, j.profile, round(j.deadline_s - j.release_s, 1)): j.gpus for j in large.jobs}
    for j in small.jobs:
        key = (j.epochs, j.profile, round(j.deadline_s - j.release_s, 1))
        if key in by_deadline:
            assert j.gpus == min(3, by_deadline[key])
    cut = sum(j.gpus > 3 for j in large.jobs)
    assert f"{cut} job(s) cut" in dict(small.metadata)["assumption.gpus"]


def test_models_and_epochs_are_even() -> None:
    """The four models come evenly; epochs are uniform whole numbers from 10 to 90."""
    jobs = generate("whole-node", jobs=8000, nodes=8, seed=6).jobs
    models, epochs = Counter(j.profile for j in jobs), Counter(j.epochs for j in jobs)
    for model in MODELS:
        assert models[model] / 8000 == pytest.approx(0.25, abs=4 * math.sqrt(0.25 * 0.75 / 8000))
    assert sorted(epochs) == list(range(10, 91))
    expected = 8000 / 81
    assert all(abs(n - expected) < 5 * math.sqrt(expected) for n in epochs.values())


def test_mix_sets_the_shares() -> None:
    """Shares are relative; a model that is left out does not occur."""
    counts = Counter(
        j.profile for j in generate("mixed", jobs=4000, nodes=8, mix={"VGG-16": 3, "AlexNet": 1}).jobs
    )
    assert set(counts) == {"VGG-16", "AlexNet"}
    assert counts["VGG-16"] / 4000 == pytest.approx(0.75, abs=4 * math.sqrt(0.75 * 0.25 / 4000))


def test_memory_shares_are_of_the_clusters_gpus() -> None:
    """The paper gives shares of capacity: on 16-GiB GPUs all memories are half of those on 32-GiB ones."""
    small = generate("mixed", jobs=3, cluster=Cluster.uniform(node_type(gpu_memory_gib=16.0), 2))
    large = generate("mixed", jobs=3, cluster=Cluster.uniform(node_type(gpu_memory_gib=32.0), 2))
    for a, b in zip(small.profiles, large.profiles, strict=True):
        assert a.gpu_memory_peak_gib == pytest.approx(b.gpu_memory_peak_gib / 2)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"jobs": 0}, r"family 'mixed': jobs must be a whole number from 1 to 10000000, got 0"),
        ({"jobs": 2.5}, r"jobs must be a whole number"),
        ({"jobs": True}, r"jobs must be a whole number"),
        ({"nodes": 0}, r"family 'mixed': nodes must be a whole number >= 1, got 0"),
        (
            {"nodes": None},
            r"family 'mixed': the cluster is missing; give nodes \(and gpus_per_node\), or a cluster",
        ),
        ({"gpus_per_node": -1}, r"gpus_per_node must be a whole number >= 1, got -1"),
        ({"load": 0.0}, r"family 'mixed': load must be a finite number above 0, got 0.0"),
        ({"load": float("nan")}, r"load must be a finite number above 0, got nan"),
        ({"load": float("inf")}, r"load must be a finite number above 0, got inf"),
        ({"slack": (2.0, 1.0)}, r"slack must be two finite numbers with 0 < low <= high, got \(2.0, 1.0\)"),
        ({"slack": (0.0, 1.0)}, r"slack must be two finite numbers"),
        ({"slack": 1.3}, r"slack must be two finite numbers"),
        ({"epochs": (0, 5)}, r"epochs must be two whole numbers with 1 <= low <= high"),
        ({"epochs": (7, 5)}, r"epochs must be two whole numbers with 1 <= low <= high"),
        ({"epochs": (1.5, 5)}, r"epochs must be two whole numbers"),
        ({"seed": -1}, r"seed must be a whole number from 0 to 2\*\*63 - 1, got -1"),
        ({"seed": 1.0}, r"seed must be a whole number"),
        ({"limits": 3}, r"limits must be a Limits, got 3"),
        ({"objective": 3}, r"objective must be an Objective, got 3"),
        (
            {"cluster": Cluster.uniform(node_type(), 1)},
            r"give either cluster or nodes and gpus_per_node, not both",
        ),
    ],
)
def test_bad_arguments_are_named(change: dict[str, Any], text: str) -> None:
    """Each unusable argument is an error that names it and says what was expected."""
    with pytest.raises(DomainError, match=text):
        generate("mixed", **{"jobs": 5, "nodes": 2, **change})


def test_unknown_family_and_model_list_the_known() -> None:
    """Misspelt names are errors that list what there is."""
    with pytest.raises(
        UnknownNameError, match=r"unknown generator family 'x'; known are: production, whole-node, mixed"
    ):
        generate("x", jobs=1, nodes=1)
    with pytest.raises(
        UnknownNameError, match=r"unknown model 'alexnet' in mix; known are: AlexNet, ResNet-18, "
    ):
        generate("mixed", jobs=1, nodes=1, mix={"alexnet": 1.0})


@pytest.mark.parametrize("family", [f for f in FAMILIES if f != "adversarial"])
def test_other_gpus_are_refused(family: str) -> None:
    """The four models have epoch times for V100 only; a cluster with other GPUs is refused, naming them."""
    import dataclasses

    other = dataclasses.replace(node_type(), name="a100x8", gpu_type="A100")
    with pytest.raises(
        DomainError, match=r"known for GPU type 'V100' only, the cluster has nodes with 'A100'"
    ):
        generate(family, jobs=5, cluster=Cluster.grouped([(node_type(), 1), (other, 1)]))
    # A type that no node has does not matter.
    assert generate(family, jobs=5, cluster=Cluster.grouped([(node_type(), 1), (other, 0)])).jobs


def test_builtin_instance_is_its_call() -> None:
    """The built-in instance is the documented call: 12 whole-node jobs on 4 nodes, load 1.2, seed 0."""
    instance = builtin_instance()
    assert instance == generate("whole-node", jobs=12, nodes=4, load=1.2, epochs=(3, 30), seed=0)
    assert len(instance.jobs) == 12
    assert len(instance.cluster.nodes) == 4
    assert {j.gpus for j in instance.jobs} == {8}
    assert impossible_jobs(instance) == ()


def test_production_clips_epochs_and_counts_as_told() -> None:
    """`epochs` clips, and counts above what one job can have in the cluster are cut to that."""
    instance = generate("production", jobs=3000, nodes=1, gpus_per_node=2, epochs=(2, 7), seed=1)
    assert {j.gpus for j in instance.jobs} == {1, 2}
    assert {2, 7} <= {j.epochs for j in instance.jobs} <= set(range(2, 8))


def test_production_refuses_a_window_without_end() -> None:
    """A load so small that jobs would arrive over centuries is refused before anything is drawn."""
    with pytest.raises(DomainError, match=r"raise the load or take fewer jobs"):
        generate("production", jobs=1000, nodes=64, load=1e-6)
