"""The families beyond the first three: their distributions, their parameters, and the trap for EaCO."""

from __future__ import annotations

import dataclasses
import math
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from eaco_opt.checker import check_report
from eaco_opt.errors import DomainError
from eaco_opt.instance import Instance
from eaco_opt.io import instance_digest
from eaco_opt.limits import Limits, Objective
from eaco_opt.physics import evaluate, plan_schedule
from eaco_opt.policies import make_policy
from eaco_opt.schedule import Plan
from eaco_opt.simulator import simulate
from experiments.cli import main
from instances import generate
from instances.generators import GENERATORS, family_traits
from instances.generators.adversarial import ratio
from instances.generators.diurnal import releases_s
from instances.generators.heavy_tail import bounded_pareto

PINNED = {
    "production": "8021a101b0ed0eba30424bddea3fab12bda5e46f1f176dbc23d2604858fdc3b7",
    "whole-node": "093e3677b6587d766abfb7bcc2fa4aa3908d64957ea0a12f60f011dc26b39e42",
    "mixed": "e138667fdc9d16e71a61d2bf24d16185828359e32e66f3dbca1090e6376f69e6",
    "burst": "fbccbb18b89c04b3d8f62155f5ce89f89b121fae1deec467e4cfc2e08e6ee594",
    "diurnal": "5456440d8f710f916b7d613894033e10e453ae1dc0b3e1a8b9da4e90ddd0ae84",
    "heavy-tail": "58dd59cd25fef81b985fc579b243534c2533921fb14be4f1cbc5081aa78a221e",
    "tight-deadlines": "0fd1b6a0a26aeb7ac6fe2fc8ac857335623d06ae3465e293a31f242110399689",
    "symmetric": "3f674acf73a8a7bfa0b4b27ecbc98038a0e37a43d339d9d4a2c21e1c845875dc",
    "adversarial": "c3468ffe835252504fb6f6fa9e0b7de49dd20da297416e1228012f16548b2556",
}
"""Digests of ``generate(family, jobs=12, nodes=4, seed=7)``: they change only if a family does."""


@pytest.mark.parametrize("family", list(PINNED))
def test_bytes_are_pinned(family: str) -> None:
    """The same call gives the same instance as ever; every family of the registry is pinned."""
    assert set(PINNED) == set(GENERATORS.names())
    assert instance_digest(generate(family, jobs=12, nodes=4, seed=7)) == PINNED[family]


def test_another_process_gives_the_same_bytes() -> None:
    """With another hash seed and time zone."""
    code = (
        "from eaco_opt.io import instance_digest\nfrom instances import generate\n"
        f"for f in {list(PINNED)!r}: print(instance_digest(generate(f, jobs=12, nodes=4, seed=7)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONHASHSEED": "77", "TZ": "Asia/Tokyo"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == list(PINNED.values())


def test_bursts() -> None:
    """About 80 % of the jobs lie within 5 mean times after one of four moments."""
    made = generate("burst", jobs=2000, nodes=20, seed=1, params={"spread_s": 60.0})
    release = np.array([j.release_s for j in made.jobs])
    width = np.searchsorted(release, release + 300.0) - np.arange(2000)
    heads = []
    for i in np.argsort(-width):
        if all(abs(release[i] - release[h]) > 600.0 for h in heads):
            heads.append(int(i))
        if len(heads) == 4:
            break
    inside = sum(int(width[h]) for h in heads)
    assert (
        0.76 * 2000 < inside < 0.84 * 2000
    )  # 80 % less e^-5 plus what falls in by chance; 4 errors of 0.9 %
    even = generate("burst", jobs=300, nodes=8, seed=1, params={"share": 0.0})
    assert [j.release_s for j in even.jobs] == [
        j.release_s for j in generate("mixed", jobs=300, nodes=8, seed=1).jobs
    ]
    one = generate("burst", jobs=300, nodes=8, seed=1, params={"share": 1.0, "bursts": 1, "spread_s": 0.0})
    assert {j.release_s for j in one.jobs} == {0.0}


def request(jobs: int, **params: float) -> Any:
    """Return a call of diurnal."""
    from instances.generators.common import Request, checked_params

    return Request(
        family="diurnal", jobs=jobs, cluster=generate("mixed", jobs=1, nodes=2).cluster, load=1.0,
        slack=(1.0, 2.0), epochs=None, mix=None, limits=Limits(), objective=Objective(), seed=3,
        params=checked_params("x", family_traits("diurnal"), params),
    )  # fmt: skip


def test_diurnal_rate() -> None:
    """Four weeks: the shares of hours and of weekends are those of the rate."""
    t = releases_s(request(40_000), 28 * 86400.0)
    hours = np.histogram(t / 3600.0 % 24.0, bins=24, range=(0, 24))[0] / 40_000
    expected = (1.0 + 0.8 * np.cos(2 * math.pi * (np.arange(24) + 0.5 - 15.0) / 24.0)) / 24.0
    assert np.abs(hours - expected).max() < 5 * math.sqrt(0.08 * 0.92 / 40_000)
    weekend = float(np.mean(np.floor(t / 86400.0) % 7 >= 5))
    assert weekend == pytest.approx(1.0 / 6.0, abs=5 * math.sqrt(0.14 / 40_000))
    flat = releases_s(request(1000, amplitude=0.0, weekend=1.0), 1e6)
    even = generate("mixed", jobs=1000, nodes=2, seed=3)
    assert len(even.jobs) == len(flat)
    assert flat == pytest.approx(request(1000).uniforms("release") * 1e6, abs=1e-3)
    # Only a weekend, and nobody works then: even.
    assert np.all(np.isfinite(releases_s(request(5, amplitude=0.0, weekend=0.0), 0.0)))


def test_heavy_tail() -> None:
    """The tail is that of the bounded Pareto distribution, and a tenth of the jobs holds most of the work."""
    u = (np.arange(100_000) + 0.5) / 100_000
    x = bounded_pareto(u, 1.0, 1001.0, 1.1)
    assert x.min() >= 1.0 and x.max() <= 1001.0
    for at in (2.0, 10.0, 100.0, 900.0):
        tail = (at**-1.1 - 1001.0**-1.1) / (1.0 - 1001.0**-1.1)
        assert np.mean(x > at) == pytest.approx(tail, abs=2e-5)
    made = generate("heavy-tail", jobs=3000, nodes=20, seed=2)
    epochs = np.sort([j.epochs for j in made.jobs])[::-1]
    assert epochs[-1] == 1 and epochs[0] <= 1000
    assert epochs[:300].sum() > 0.6 * epochs.sum()
    lighter = generate("heavy-tail", jobs=3000, nodes=20, seed=2, params={"shape": 3.0})
    assert max(j.epochs for j in lighter.jobs) < epochs[0]
    assert {j.epochs for j in generate("heavy-tail", jobs=50, nodes=4, epochs=(7, 7)).jobs} == {7}


def test_tight_deadlines() -> None:
    """Deadline = release + slack * epochs * epoch time with slack from 1.02 to 1.3, to half a ms."""
    made = generate("tight-deadlines", jobs=300, nodes=8, seed=1)
    tau = {p.name: p.epoch_time_s("V100", 8) for p in made.profiles}
    slacks = [(j.deadline_s - j.release_s) / (j.epochs * (tau[j.profile] or 0.0)) for j in made.jobs]
    assert 1.02 - 1e-5 <= min(slacks) < 1.03 and 1.29 < max(slacks) <= 1.3 + 1e-5


def test_symmetric() -> None:
    """All jobs are the same but for their names; waves have equal parts; kinds take turns."""
    made = generate("symmetric", jobs=12, nodes=4, seed=1)
    assert len({dataclasses.replace(j, name="x", submit_index=0) for j in made.jobs}) == 1
    assert {j.gpus for j in made.jobs} == {8}
    assert made.jobs == generate("symmetric", jobs=12, nodes=4, seed=2).jobs  # nothing is drawn
    many = generate("symmetric", jobs=12, nodes=4, params={"waves": 3, "kinds": 2, "gpus": 2})
    assert [j.profile for j in many.jobs[:4]] == [many.jobs[0].profile, many.jobs[1].profile] * 2
    times = sorted({j.release_s for j in many.jobs})
    assert len(times) == 3 and times[2] == pytest.approx(2 * times[1], abs=2e-3)
    assert {j.gpus for j in many.jobs} == {2}


def best_known(problem: Instance) -> Plan:
    """Return the schedule of the proof: long and short jobs K to a node each, from their releases."""
    k, gpus = problem.limits.max_share, problem.jobs[0].gpus
    start, taken = [], []
    places: dict[str, int] = {"long": 0, "short": 0}
    longs = sum(j.profile == "long" for j in problem.jobs)
    for job in problem.jobs:
        node = places[job.profile] // k + (math.ceil(longs / k) if job.profile == "short" else 0)
        places[job.profile] += 1
        start.append(job.release_s)
        taken += range(node * gpus, (node + 1) * gpus)
    return Plan(np.array(start), np.array(taken, dtype=np.int64))


@pytest.mark.parametrize(
    ("jobs", "nodes", "k", "slowdown"),
    [(4, 2, 2, 0.0), (9, 3, 3, 0.0), (16, 4, 4, 0.0), (16, 5, 4, 0.2), (8, 4, 2, 0.3), (32, 8, 4, 0.0)],
)
def test_the_trap_has_its_ratio(jobs: int, nodes: int, k: int, slowdown: float) -> None:
    """EaCO's energy over that of the schedule of the proof is at least the ratio, in both of its forms.

    And the ratio tends to K / (1 + (K - 1) c) with the length.
    """
    problem = generate(
        "adversarial", jobs=jobs, nodes=nodes, limits=Limits(max_share=k), params={"slowdown": slowdown}
    )
    plan = best_known(problem)
    best = evaluate(problem, plan)
    assert check_report(problem, plan_schedule(problem, plan)).feasible
    least = ratio(jobs, k, 100.0, slowdown)
    assert f"{least:.6g}" in dict(problem.metadata)["adversarial.ratio"]
    for observe in (True, False):
        done = simulate(problem, make_policy("eaco", observe=observe), 0)
        assert done.evaluation.deadline_misses == 0
        assert done.evaluation.energy_j / best.energy_j >= least * (1 - 1e-9)
    limit = k / (1.0 + (k - 1) * slowdown)
    assert 0.9 * limit < least < limit
    assert ratio(jobs, k, 1e5, slowdown) == pytest.approx(limit, rel=1e-3)


@pytest.mark.parametrize(
    ("family", "call", "text"),
    [
        ("mixed", {"params": {"share": 1}}, "family 'mixed': unknown parameter 'share'; known are: none"),
        ("burst", {"params": {"size": 1}}, "unknown parameter 'size'; known are: share, bursts, spread_s"),
        ("burst", {"params": {"share": 1.5}}, "share must be a number from 0 to 1, got 1.5"),
        ("burst", {"params": {"bursts": 2.5}}, "bursts must be a whole number from 1 to 1e.06, got 2.5"),
        ("burst", {"params": {"bursts": math.nan}}, "bursts must be a whole number"),
        ("burst", {"params": {"share": "all"}}, "share must be a number from 0 to 1, got 'all'"),
        ("symmetric", {"params": {"kinds": 9}}, r"kinds must be at most the models in the mix \(4\), got 9"),
        ("symmetric", {"params": {"gpus": 9}}, r"gpus must be at most those of the smallest node \(8\)"),
        ("adversarial", {"jobs": 13}, r"jobs must be a multiple of max_share \(4\)"),
        ("adversarial", {"jobs": 20}, "20 jobs need jobs / max_share = 5 nodes, got 4"),
        ("adversarial", {"load": 2.0}, "its construction leaves no choice of load"),
        ("adversarial", {"slack": (1.0, 2.0)}, "leaves no choice of slack"),
    ],
)
def test_bad_parameters_are_named(family: str, call: dict[str, Any], text: str) -> None:
    """Which one, what is expected, what was got."""
    with pytest.raises(DomainError, match=text):
        generate(family, **{"jobs": 12, "nodes": 4, **call})


def test_parameters_on_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    """--param gives the same bytes as params; wrong ones end in an error."""
    call = ["generate", "burst", "--jobs", "9", "--nodes", "2"]
    assert main([*call, "--param", "bursts=2", "--param", "share=0.5"]) == 0
    made = generate("burst", jobs=9, nodes=2, params={"bursts": 2, "share": 0.5})
    assert instance_digest(made) in capsys.readouterr().out
    for word in ("bursts", "bursts=many", "=3"):
        assert main([*call, "--param", word]) == 2
        assert "NAME=VALUE" in capsys.readouterr().err
    assert main([*call, "--param", "bursts=2", "--param", "bursts=3"]) == 2


def test_parameters_stand_in_the_docs(root: Any) -> None:
    """docs/instances.md lists each parameter with its default."""
    text = (root / "docs" / "instances.md").read_text(encoding="utf-8")
    for family in GENERATORS:
        assert f"| `{family}` |" in text
        for p in family_traits(family).parameters:
            assert f"| `{family}` `{p.name}` | {p.default:g} | {p.low:g} to {p.high:g}" in text, p.name
