"""What every registered policy must do: keep the rules, repeat itself, hold no state of an earlier run."""

from __future__ import annotations

import dataclasses
import inspect
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from eaco_opt.checker import check_report
from eaco_opt.errors import EacoError
from eaco_opt.impossible import impossible_jobs
from eaco_opt.instance import Instance
from eaco_opt.limits import ObjectiveForm
from eaco_opt.policies import POLICIES, make_policy
from eaco_opt.policies.queue import Line
from eaco_opt.schedule import ScheduleClass
from eaco_opt.simulator import simulate
from tests.eaco_opt.policy_cases import possible, random_case
from tests.strategies import small_instances

ROOT = Path(__file__).resolve().parents[2]

CHOICES: dict[str, dict[str, list[Any]]] = {
    "fifo": {"blocked": ["strict", "skip"]},
    "fifo_packed": {"threshold": [1.5, 1.0], "obey_u": [False, True]},
    "gandiva": {"choice": ["random", "affinity"], "threshold": [1.0, 1.5], "obey_u": [False, True]},
    "eaco": {
        "blocked": ["skip", "strict"],
        "hopeless": ["best-effort", "reject"],
        "observe": [True, False],
        "candidates_per_node": [256, 1],
    },
}
"""Values of the options that the tests draw from; policies of third parties run with their defaults."""


@st.composite
def _options(draw: st.DrawFn, name: str) -> dict[str, Any]:
    return {key: draw(st.sampled_from(values)) for key, values in CHOICES.get(name, {}).items()}


def test_all_options_are_drawn() -> None:
    """The table above names every option of the built-in policies."""
    for name, choices in CHOICES.items():
        assert list(inspect.signature(POLICIES.get(name)).parameters) == list(choices)


@pytest.mark.parametrize("name", list(POLICIES))
def test_registered_policies_are_documented_policies(name: str) -> None:
    """Each can be built without options, names itself as registered, and states its class."""
    policy = make_policy(name)
    assert policy.name == name
    assert ScheduleClass(policy.schedule_class) in ScheduleClass
    assert POLICIES.summary(name)


@pytest.mark.parametrize("name", list(POLICIES))
@given(data=st.data())
def test_the_checker_accepts(name: str, data: st.DataObject) -> None:
    """On small instances with every feature of the model: no physical violation, misses as evaluated.

    No threshold violation where U_threshold is known; the class of the schedule is that of the policy, or
    static on a grid; log and counters belong to the run.
    """
    _conforms(name, data)


@pytest.mark.slow
@pytest.mark.parametrize("name", list(POLICIES))
@settings(max_examples=500)
@given(data=st.data())
def test_the_checker_accepts_many(name: str, data: st.DataObject) -> None:
    """The same, looked at longer."""
    _conforms(name, data)


def _conforms(name: str, data: st.DataObject) -> None:
    instance = data.draw(small_instances(max_jobs=6))
    instance = possible(instance)
    assume(instance.jobs)
    options = data.draw(_options(name))
    grid_s = data.draw(st.sampled_from([None, None, 60.0, 250.0]))
    done = simulate(instance, make_policy(name, **options), 3, grid_s=grid_s)
    report = check_report(done.instance, done.schedule, grid_s=grid_s)
    assert report.physical_violations == 0, report.violations
    assert report.deadline_misses == done.evaluation.deadline_misses
    if name in ("fifo", "eaco") or options.get("obey_u"):
        assert report.threshold_violations == 0
    left = {j.name for j in instance.jobs} - set(done.rejected)
    assert {s.job for s in done.schedule.segments} == left == {j.name for j in done.instance.jobs}
    if done.rejected:
        assert name == "eaco" and options["hopeless"] == "reject"
    expected = ScheduleClass.STATIC if grid_s else make_policy(name).schedule_class
    assert done.schedule.schedule_class == expected
    assert done.log.kind.count("departure") == len(left)
    assert done.log.kind.count("stop") == done.counters.get("undone", 0) + done.counters.get("dissolved", 0)
    assert len(done.log.kind) == len(done.log.time_s) == len(done.log.job)
    if report.objective is not None and instance.objective.form is ObjectiveForm.NORMALISED:
        assert report.objective == pytest.approx(done.evaluation.objective, rel=1e-9)


@pytest.mark.parametrize("name", list(POLICIES))
def test_a_policy_object_can_be_used_again(name: str) -> None:
    """`begin` forgets all of the last run: run after run, also on other instances between, is the same."""
    for seed in range(20):
        one, other = random_case(seed), random_case(seed + 500)
        policy = make_policy(name)
        first = simulate(possible(one.instance), policy, 5)
        simulate(possible(other.instance), policy, 6)
        again = simulate(possible(one.instance), policy, 5)
        fresh = simulate(possible(one.instance), make_policy(name), 5)
        assert first.schedule == again.schedule == fresh.schedule
        assert first.counters == again.counters == fresh.counters


@pytest.mark.parametrize("name", list(POLICIES))
def test_chance_comes_from_the_generator_alone(name: str) -> None:
    """A seed and a generator of that seed give the same run; the global one is neither read nor moved."""
    for seed in range(20):
        instance = possible(random_case(seed).instance)
        np.random.seed(seed)  # noqa: NPY002 - the global state must play no part
        before = np.random.get_state()  # noqa: NPY002
        first = simulate(instance, make_policy(name), 11)
        after = np.random.get_state()  # noqa: NPY002
        assert before[0] == after[0] and (before[1] == after[1]).all() and before[2:] == after[2:]
        np.random.seed(seed + 1)  # noqa: NPY002
        second = simulate(instance, make_policy(name), np.random.default_rng(11))
        assert first.schedule == second.schedule


def test_only_gandiva_draws() -> None:
    """The generator of a policy without chance is not touched."""
    instance = possible(random_case(3).instance)
    for name in ("fifo", "fifo_packed", "eaco"):
        rng = np.random.default_rng(9)
        simulate(instance, make_policy(name), rng)
        assert rng.integers(1 << 30) == np.random.default_rng(9).integers(1 << 30)


PROGRAM = """
import hashlib, sys
from eaco_opt.io import schedule_to_json
from eaco_opt.policies import POLICIES, make_policy
from eaco_opt.simulator import simulate
from instances.generators import generate
from tests.eaco_opt.policy_cases import possible, random_case

cases = [possible(random_case(seed).instance) for seed in range(25)]
cases.append(generate("production", jobs=80, nodes=3, load=1.5, seed=4))
for name in POLICIES:
    for instance in cases:
        done = simulate(instance, make_policy(name), 8)
        text = schedule_to_json(done.schedule, instance)
        log = (done.log.kind, done.log.time_s.tolist(), done.log.job.tolist())
        summary = sorted(done.evaluation.summary().items())
        print(name, hashlib.sha256(text.encode()).hexdigest(), repr(summary), repr(log))
"""


def _said(hash_seed: str, time_zone: str, folder: Path) -> str:
    env = {**os.environ, "PYTHONHASHSEED": hash_seed, "TZ": time_zone, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=folder, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_same_bytes_under_two_hash_seeds_and_time_zones(tmp_path: Path) -> None:
    """Schedules, metrics and logs of all policies do not depend on hash seed or time zone of the process."""
    said = _said("0", "UTC", tmp_path)
    assert said.count("\n") == 26 * len(POLICIES.names())
    assert said == _said("4242", "Asia/Kathmandu", tmp_path)


@given(small_instances(max_jobs=5))
def test_job_names_play_no_part(instance: Instance) -> None:
    """Other names in another order of the alphabet: the same schedule under them (docs/model.md 9.1)."""
    instance = possible(instance)
    other = {j.name: f"x{len(instance.jobs) - i}" for i, j in enumerate(instance.jobs)}
    renamed = dataclasses.replace(
        instance, jobs=tuple(dataclasses.replace(j, name=other[j.name]) for j in instance.jobs)
    )
    for name in POLICIES:
        here = simulate(instance, make_policy(name), 2).schedule.segments
        there = simulate(renamed, make_policy(name), 2).schedule.segments
        key = sorted((other[s.job], s.start_s, s.end_s, s.gpus) for s in here)
        assert key == sorted((s.job, s.start_s, s.end_s, s.gpus) for s in there)


# The waiting line ------------------------------------------------------------------------------------


class _Ranked:
    """As much of a world as a line needs."""

    def __init__(self, ranks: list[int]) -> None:
        self.queue_order = ranks


@given(st.integers(1, 60), st.randoms(use_true_random=False))
def test_a_line_is_a_sorted_list(jobs: int, random: Any) -> None:
    """Whatever is added, taken out and put back: head, length and order are those of a sorted list."""
    ranks = list(range(jobs))
    random.shuffle(ranks)
    line, plain = Line(_Ranked(ranks)), list[int]()  # type: ignore[arg-type]
    outside = list(range(jobs))
    for _ in range(4 * jobs):
        if outside and (not plain or random.random() < 0.5):
            job = outside.pop(random.randrange(len(outside)))
            line.add(job)
            plain = sorted([*plain, job], key=lambda j: ranks[j])
        else:
            job = plain[0] if random.random() < 0.7 else random.choice(plain)
            line.remove(job)
            plain.remove(job)
            outside.append(job)
        assert list(line) == plain and len(line) == len(plain) and bool(line) == bool(plain)
        if plain:
            assert line.head() == plain[0]


def test_a_long_line_forgets_its_front() -> None:
    """Thousands of jobs come and go: what left is not kept, the order stays."""
    line = Line(_Ranked(list(range(5000))))  # type: ignore[arg-type]
    for job in range(5000):
        line.add(job)
    for job in range(4000):
        assert line.head() == job
        line.remove(job)
    assert list(line) == list(range(4000, 5000))
    line.add(17)
    assert line.head() == 17 and len(line) == 1001
    assert len(line._ranks) < 4000


def test_impossible_jobs_are_refused_alike() -> None:
    """Whatever the policy, the same jobs are named in the same words, and nothing runs."""
    found = 0
    for seed in range(150):
        instance = random_case(seed).instance
        fatal = [j.job for j in impossible_jobs(instance) if not j.deadline_only]
        if not fatal:
            continue
        found += 1
        texts = set()
        for name in POLICIES:
            with pytest.raises(EacoError) as caught:
                simulate(instance, make_policy(name), 0)
            texts.add(str(caught.value))
        (text,) = texts
        assert text.startswith(f"{len(fatal)} job(s) can run nowhere")
        assert all(f"job {job!r}: " in text for job in fatal)
    assert found > 3
