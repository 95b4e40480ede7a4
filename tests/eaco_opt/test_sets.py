"""The table of sets that meet on a GPU: load, memory, admission (docs/model.md sections 1.7 to 1.9)."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import combinations, combinations_with_replacement
from typing import Any

import numpy as np
import pytest
from hypothesis import given

from eaco_opt.instance import Instance, MeasuredUsage
from eaco_opt.interference import Interference, MeasuredSlowdown
from eaco_opt.job import MemoryKind
from eaco_opt.limits import AdmissionRule, Limits
from eaco_opt.physics import kernel
from eaco_opt.power import MeasuredPower
from eaco_opt.sets import CANNOT_SHARE, NOT_EXCLUSIVE, TOO_MANY, TOO_MUCH_MEMORY, JobClass, SetTable
from tests.eaco_opt.checker_cases import instance, job, node_type, profile
from tests.strategies import small_instances


def table(*kinds: str, **more: Any) -> SetTable:
    """The table of an instance with one data-parallel job of each kind; kinds are 0.2 and 4 GiB each."""
    profiles = more.pop("profiles", tuple(profile(k, util=0.2, memory_gib=4.0) for k in kinds))
    jobs = tuple(job(k, k, 1, 1) for k in kinds)
    return (
        instance(
            jobs, (node_type(gpus=1), 1), profiles=profiles, truth=more.pop("truth", Interference()), **more
        )
        .arrays()
        .sets
    )


def usage(load: float, memory_gib: float, *kinds: str) -> MeasuredUsage:
    return MeasuredUsage(kinds=kinds, load=load, memory_gib=memory_gib)


def number(sets: SetTable, *kinds: str) -> int:
    """The set of these kinds, whose classes are told apart by nothing else."""
    return sets.intern(tuple(sorted([c.kind for c in sets.classes].index(k) for k in kinds)))


# Tables 2 and 4 of the EaCO paper (arXiv 2412.08294v1): mean utilisation of GPU cores, peak "memory
# utilisation", in percent, alone and in sets.
J1, J2, J3, J4 = "AlexNet", "ResNet-18", "ResNet-50", "VGG-16"
ALONE = {J1: (4.72, 4.21), J2: (11.17, 14.63), J3: (36.61, 43.92), J4: (48.01, 51.29)}
TOGETHER = {
    (J1, J3): (40.25, 46.25),
    (J1, J4): (55.16, 52.96),
    (J2, J4): (61.06, 52.54),
    (J1, J2, J3): (52.24, 55.88),
    (J1, J2, J4): (66.99, 52.75),
    (J1, J2, J3, J4): (96.64, 52.54),
}


@pytest.fixture(scope="module")
def paper() -> SetTable:
    profiles = tuple(
        profile(k, util=load / 100, memory_gib=memory / 100 * 32) for k, (load, memory) in ALONE.items()
    )
    rows = tuple(usage(load / 100, memory / 100 * 32, *k) for k, (load, memory) in TOGETHER.items())
    return table(*ALONE, profiles=profiles, usage=rows)


def test_loads_and_memory_of_the_papers_sets(paper: SetTable) -> None:
    """Measured, else the sum; never above a measured superset, whether measured or summed."""

    def of(*kinds: str) -> tuple[float, float]:
        s = number(paper, *kinds)
        return round(100 * paper.load[s], 6), round(100 * paper.memory_gib[s] / 32, 6)

    # J3+J4 was not measured: 36.61 + 48.01 of the cores; 43.92 + 51.29 of the memory are more than the 52.54
    # that all four took, so it is 52.54, and J3+J4 fits wherever the four do.
    assert of(J3, J4) == (84.62, 52.54)
    # J1+J2+J4 was measured at 52.75 of the memory, above its superset's 52.54.
    assert of(J1, J2, J4) == (66.99, 52.54)
    assert of(J2, J4) == (61.06, 52.54)
    # J1+J4: its measured 52.96 lies above that of two supersets, 52.75 and 52.54; the least counts.
    assert of(J1, J4) == (55.16, 52.54)
    # J1+J2 was not measured and lies below all its supersets: 4.72 + 11.17, 4.21 + 14.63.
    assert of(J1, J2) == (15.89, 18.84)
    # J2+J3: the sum of memory, 58.55, is above the 55.88 of J1+J2+J3 and the 52.54 of all four.
    assert of(J2, J3) == (47.78, 52.54)
    # Two of a kind are in none of the measured sets: sums.
    assert of(J1, J1) == (9.44, 8.42)
    assert of(J3, J3) == (73.22, 87.84)
    assert of(J4, J4) == (96.02, 102.58)
    assert of(J1, J2, J3, J4) == (96.64, 52.54)
    assert of(J4) == (48.01, 51.29)


@pytest.mark.parametrize(
    ("kinds", "physical", "threshold"),
    [
        ((J3, J4), 0, False),
        ((J1, J2, J4), 0, False),
        ((J1, J2, J3, J4), 0, True),  # 96.64 > 90
        ((J3, J3), 0, False),  # 87.84 <= 90
        ((J4, J4), TOO_MUCH_MEMORY, True),
        ((J1,) * 5, TOO_MANY, False),
        # J1 twice with J3 and J4: 4.72 * 2 + 36.61 + 48.01 = 94.06; 4.21 * 2 + 43.92 + 51.29 = 103.63.
        ((J1, J1, J3, J4), TOO_MUCH_MEMORY, True),
    ],
)
def test_admission_of_the_papers_sets(
    paper: SetTable, kinds: tuple[str, ...], physical: int, threshold: bool
) -> None:
    """Under the default limits: 0.9 of cores and memory, four jobs on a GPU."""
    s = number(paper, *kinds)
    assert (paper.physical[s, 0], paper.threshold[s]) == (physical, threshold)


def test_both_admission_rules() -> None:
    """`resulting` looks at the load with the newcomer, `existing` at the load it found, in the best order."""
    # 0.5, 0.6, 0.9 in any order: 0.5 + 0.6 = 1.1, 0.5 + 0.9 = 1.4, 0.6 + 0.9 = 1.5, all 2.0.
    heavy = tuple(profile(k, util=u, memory_gib=1.0) for k, u in (("a", 0.5), ("b", 0.6), ("c", 0.9)))
    need = {}
    for rule in AdmissionRule:
        sets = table("a", "b", "c", profiles=heavy, limits=Limits(rule=rule))
        need[rule] = {
            kinds: round(float(sets.u_need[number(sets, *kinds)]), 9)
            for n in (1, 2, 3)
            for kinds in combinations("abc", n)
        }
        for kinds, u in need[rule].items():
            assert sets.threshold[number(sets, *kinds)] == (u > 0.9)
    assert need[AdmissionRule.RESULTING] == {
        ("a",): 0.5, ("b",): 0.6, ("c",): 0.9, ("a", "b"): 1.1, ("a", "c"): 1.4, ("b", "c"): 1.5,
        ("a", "b", "c"): 2.0,
    }  # fmt: skip
    # Alone a job finds nobody. A pair needs the smaller of the two loads. The three: whoever comes last finds
    # at least a + b.
    assert need[AdmissionRule.EXISTING] == {
        ("a",): 0.0, ("b",): 0.0, ("c",): 0.0, ("a", "b"): 0.5, ("a", "c"): 0.5, ("b", "c"): 0.6,
        ("a", "b", "c"): 1.1,
    }  # fmt: skip


def test_a_set_is_no_better_than_its_subsets() -> None:
    """A set that looks harmless is inadmissible if part of it is not."""
    # a+b was measured at 0.8 and 20 GiB. a+b+c was not: 3 * 0.2 and 3 * 4 GiB, less than its part.
    limits = Limits(u_threshold=0.7, mem_threshold=0.5)
    sets = table("a", "b", "c", usage=(usage(0.8, 20.0, "a", "b"),), limits=limits)
    s = number(sets, "a", "b", "c")
    assert (sets.load[s], sets.memory_gib[s]) == (pytest.approx(0.6), 12.0)
    assert (sets.u_need[s], sets.memory_need_gib[s]) == (0.8, 20.0)
    assert (sets.threshold[s], sets.physical[s, 0]) == (True, TOO_MUCH_MEMORY)
    # Once the three are measured below 0.7 and 16 GiB, the pair cannot be above that either.
    rows = (usage(0.8, 20.0, "a", "b"), usage(0.7, 16.0, "a", "b", "c"))
    sets = table("a", "b", "c", usage=rows, limits=limits)
    s = number(sets, "a", "b", "c")
    assert (sets.u_need[s], sets.memory_need_gib[s]) == (0.7, 16.0)
    assert (sets.threshold[s], sets.physical[s, 0]) == (False, 0)


def test_memory_of_model_parallel_members() -> None:
    """Their share is added to what was measured of the others."""
    # x: 12 GiB over 3 GPUs, 4 on each. a+b measured at 6 GiB (sum 8); a+b+x would be measured for
    # data-parallel jobs only, so the row does not apply to a model-parallel x.
    rows = (usage(0.4, 6.0, "a", "b"), usage(0.5, 7.0, "a", "b", "x"))
    profiles = tuple(profile(k, util=0.2, memory_gib=m) for k, m in (("a", 4.0), ("b", 4.0), ("x", 12.0)))
    jobs = (
        job("a", "a", 1, 1),
        job("b", "b", 1, 1),
        job("x", "x", 3, 1, memory_kind=MemoryKind.MODEL_PARALLEL),
    )
    sets = (
        instance(jobs, (node_type(gpus=3), 1), profiles=profiles, usage=rows, truth=Interference())
        .arrays()
        .sets
    )
    assert sets.memory_gib[number(sets, "a", "b")] == 6.0
    assert sets.memory_gib[number(sets, "a", "b", "x")] == 10.0
    assert sets.memory_gib[number(sets, "x")] == 4.0
    assert sets.load[number(sets, "a", "b", "x")] == 0.5
    assert sets.classes[2] == JobClass("x", 4.0, True, False)


def test_classes_are_told_apart_by_what_matters() -> None:
    """Kind, memory on the GPU, memory kind, exclusiveness; not names, epochs or the job's other GPUs."""
    split = MemoryKind.MODEL_PARALLEL
    profiles = (profile("p", util=0.2, memory_gib=4.0),)
    jobs = (
        job("a", "p", 1, 1),
        job("b", "p", 2, 7, 99.0, priority=3),
        job("c", "p", 1, 1, exclusive=True),
        job("d", "p", 1, 1, memory_kind=split),
        job("e", "p", 2, 1, memory_kind=split),
        job("f", "p", 2, 5, memory_kind=split),
    )
    view = instance(jobs, (node_type(), 1), profiles=profiles, truth=Interference()).arrays()
    assert view.job_class.tolist() == [1, 1, 2, 3, 0, 0]
    assert [c.memory_gib for c in view.sets.classes] == [2.0, 4.0, 4.0, 4.0]
    # Numbers do not depend on the order in which jobs are listed.
    turned = tuple(dataclasses.replace(j, submit_index=5 - i) for i, j in enumerate(jobs))
    view = instance(turned, (node_type(), 1), profiles=profiles, truth=Interference()).arrays()
    assert view.job_class.tolist() == [0, 0, 3, 2, 1, 1]


def test_slowdowns_and_powers_of_a_set() -> None:
    """Looked up by kinds, in the order of the members; by node type for power."""
    truth = Interference(
        measured=(MeasuredSlowdown(kinds=("b", "a"), factors=(1.5, 1.25)),), cannot_share=(("a", "c"),)
    )
    sets = table("a", "b", "c", truth=truth)
    assert sets.sigma[number(sets, "a", "b"), :2].tolist() == [1.25, 1.5]
    assert sets.sigma[number(sets, "a"), 0] == 1.0
    apart = number(sets, "a", "b", "c")
    assert sets.physical[apart, 0] == CANNOT_SHARE
    assert sets.factors(("a", "c"), truth) is None
    # For another history the same sets have other slowdowns; what cannot share has none.
    again = sets.slowdowns(truth)
    assert again.shape == (len(sets), 8)
    assert again[number(sets, "a", "b"), :2].tolist() == [1.25, 1.5]
    assert again[apart, :3].tolist() == [np.inf] * 3
    assert sets.slowdowns(Interference(), apart).tolist() == [[1.0] * 8] * (len(sets) - apart)
    # Power: load 0.4 on the second type's curve, and a measured node.
    base = node_type(gpus=1)
    rows = (MeasuredPower(kinds=("b", "a"), power_w=123.0),)
    other = dataclasses.replace(base, name="w", power=dataclasses.replace(base.power, measured=rows))
    jobs = (job("x", "a", 1, 1), job("y", "b", 1, 1))
    profiles = tuple(profile(k, util=0.2, memory_gib=4.0) for k in "ab")
    sets = instance(jobs, (base, 1), (other, 1), profiles=profiles, truth=Interference()).arrays().sets
    s = number(sets, "a", "b")
    assert sets.dynamic_w[s].tolist() == pytest.approx([40.0, 40.0])
    assert np.isnan(sets.measured_w[s, 0]) and sets.measured_w[s, 1] == 123.0


def multisets(classes: int, most: int) -> Iterator[tuple[int, ...]]:
    for n in range(1, most + 1):
        yield from combinations_with_replacement(range(classes), n)


@pytest.mark.parametrize(("classes", "most"), [(6, 4), (26, 2)])
def test_table_grows_and_keeps_its_values(classes: int, most: int) -> None:
    """Hundreds of sets are found again, with and without a member, in Python and in compiled code."""
    kinds = "abcdefghijklmnopqrstuvwxyz"[:classes]
    sets = table(*kinds, truth=Interference(model="crowding", params=(("base", 0.1),)))
    first = {key: sets.intern(key) for key in multisets(classes, 2) if sum(key) % 5 == 0}
    before = {key: (sets.load[s], sets.sigma[s].tolist(), sets.physical[s, 0]) for key, s in first.items()}
    known = {key: sets.intern(key) for key in multisets(classes, most)}
    assert len(sets) == len(known) + 1 > 200
    for key, s in first.items():
        assert known[key] == s
        assert (sets.load[s], sets.sigma[s].tolist(), sets.physical[s, 0]) == before[key]
    child = kernel().child
    for key, s in known.items():
        assert sets.keys[s] == key and sets.count[s] == len(key)
        for i, cls in enumerate(key):
            parent = int(sets.without[s, i])
            assert sets.keys[parent] == key[:i] + key[i + 1 :]
            assert child(sets.hash_keys, sets.hash_values, classes, parent, cls) == s
            assert sets.add(parent, cls) == s
        if len(key) == most:
            assert child(sets.hash_keys, sets.hash_values, classes, s, 0) == -1
    four = sets.intern((0, 1, 2, 3))
    assert sets.sigma[four, :4].tolist() == pytest.approx([1.3] * 4)


# --- Against the definition -------------------------------------------------------------------------------


def within(small: Sequence[str], big: Sequence[str]) -> bool:
    return not Counter(small) - Counter(big)


def load_of(inst: Instance, kinds: Sequence[str]) -> float:
    """Section 1.7, word for word."""
    util = {p.kind: p.gpu_util_mean for p in inst.profiles}
    rows = {row.kinds: row.load for row in inst.usage}
    own = rows.get(tuple(sorted(kinds)), sum(util[k] for k in sorted(kinds)))
    return min([own, *(load for k, load in rows.items() if within(kinds, k))]) if kinds else 0.0


def memory_of(inst: Instance, members: Sequence[JobClass]) -> float:
    """Section 1.8, with model-parallel shares on top."""
    peak = {p.kind: p.gpu_memory_peak_gib for p in inst.profiles}
    rows = {row.kinds: row.memory_gib for row in inst.usage}
    data = sorted(m.kind for m in members if not m.model_parallel)
    own = rows.get(tuple(data), sum(peak[k] for k in data))
    value = min([own, *(memory for k, memory in rows.items() if within(data, k))]) if data else 0.0
    return value + sum(m.memory_gib for m in members if m.model_parallel)


def broken(inst: Instance, members: Sequence[JobClass], gib: float) -> tuple[int, bool, float]:
    """Section 1.9: bits of physical rules broken, U_threshold broken, U needed; over all subsets."""
    limits, bits, need = inst.limits, 0, 0.0
    apart = {frozenset(pair) for pair in inst.truth.cannot_share}
    for n in range(1, len(members) + 1):
        for part in combinations(members, n):
            kinds = [m.kind for m in part]
            if memory_of(inst, part) / gib > limits.mem_threshold + 1e-9:
                bits |= TOO_MUCH_MEMORY
            if n > limits.max_share:
                bits |= TOO_MANY
            if n > 1 and any(m.exclusive for m in part):
                bits |= NOT_EXCLUSIVE
            if n == 2 and frozenset(kinds) in apart:
                bits |= CANNOT_SHARE
            if limits.rule is AdmissionRule.RESULTING:
                u = load_of(inst, kinds)
            else:
                u = min(load_of(inst, [*kinds[:i], *kinds[i + 1 :]]) for i in range(n))
            need = max(need, u)
    return bits, need > limits.u_threshold + 1e-9, need


@given(small_instances())
def test_admission_is_that_of_the_definition(inst: Instance) -> None:
    """Every set of up to four of an instance's classes, against the rule over all subsets."""
    sets = inst.arrays().sets
    for key in multisets(len(sets.classes), 4):
        s = sets.intern(key)
        members = [sets.classes[c] for c in key]
        kinds = [m.kind for m in members]
        assert sets.load[s] == pytest.approx(load_of(inst, kinds), rel=1e-15)
        assert sets.memory_gib[s] == pytest.approx(memory_of(inst, members), rel=1e-15)
        for t, node in enumerate(inst.cluster.node_types):
            bits, above, need = broken(inst, members, node.gpu_memory_gib)
            assert sets.physical[s, t] == bits
            assert sets.threshold[s] == above
            assert sets.u_need[s] == pytest.approx(need, rel=1e-15)
            assert sets.dynamic_w[s, t] == node.power.gpu.dynamic_power_w(sets.load[s])
