"""The benchmark library as it ships: manifest, files and table agree with the plan and with each other."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

import instances.library
from eaco_opt.errors import FormatError, UnknownNameError
from eaco_opt.io import instance_digest
from instances.library import ALPHAS, GRADES, LINES, Library, Status, generated, library_instance, planned

ROOT = Path(instances.library.__file__).parent
LIBRARY = Library()
JOBS = {"tiny": (2, 4), "small": (6, 10), "medium": (12, 40), "large": (64, 1000), "paper-scale": (100, 1000)}
"""Fewest and most jobs of each grade, as docs/library.md states them."""

MAX_BYTES = 10 * 2**20


def test_plan_and_manifest_are_the_same() -> None:
    """Every planned instance is in the manifest with its call, and nothing else is."""
    plan = {name: (line, seed) for name, line, seed in planned()}
    assert len(plan) == sum(len(line.seeds) for line in LINES), "two lines give one name"
    assert set(plan) == set(LIBRARY.entries)
    for name, (line, seed) in plan.items():
        entry = LIBRARY.entries[name]
        assert dict(entry.generator) == line.call(seed)
        assert (entry.grade, entry.grid_s) == (line.grade, line.grid_s)


def test_at_least_120_instances_of_all_grades() -> None:
    """There are 120 instances or more, some of each grade and of each family, and grades mean sizes."""
    assert len(LIBRARY.entries) >= 120
    assert {e.grade for e in LIBRARY.entries.values()} == set(GRADES)
    for entry in LIBRARY.entries.values():
        low, high = JOBS[entry.grade]
        assert low <= entry.jobs <= high, entry.name
    assert {e.nodes for e in LIBRARY.entries.values() if e.grade == "paper-scale"} == {28, 64}
    families = Counter(e.family for e in LIBRARY.entries.values())
    assert set(families) == set(instances.GENERATORS.names())
    assert min(families.values()) >= 4


@pytest.mark.parametrize("grade", GRADES)
def test_instances_have_their_digests(grade: str) -> None:
    """Each instance has the digest of the manifest, read from its file and made by its generator call."""
    for entry in LIBRARY.entries.values():
        if entry.grade == grade:
            assert instance_digest(generated(entry)) == entry.digest, entry.name
            assert LIBRARY.instance(entry.name) == generated(entry), entry.name
            assert (entry.file is not None) == (grade in ("tiny", "small", "medium"))


def test_names_say_what_instances_are() -> None:
    """Names begin with family, jobs and nodes, and end in a seed of three digits."""
    for entry in LIBRARY.entries.values():
        found = re.fullmatch(r"([a-z-]+)-(\d\d+)x(\d\d)(x\d)?(-[a-z0-9.]+)*-(\d{3})", entry.name)
        assert found, entry.name
        assert (found[1], int(found[2]), int(found[3]), int(found[6])) == (
            entry.family,
            entry.jobs,
            entry.nodes,
            entry.generator["seed"],
        )


def test_every_instance_has_values_for_three_alphas() -> None:
    """The table has a row for each instance and alpha, and no other."""
    assert len(ALPHAS) == 3
    assert set(LIBRARY.values) == {(name, alpha) for name in LIBRARY.entries for alpha in ALPHAS}


def test_grades_have_what_they_promise() -> None:
    """Tiny: optimum by brute force; small: proved optima, most by two methods; the others: proved bounds."""
    for value in LIBRARY.values.values():
        entry = LIBRARY.entries[value.instance]
        assert value.bound is not None
        assert value.schedule_class == entry.schedule_class
        if entry.grade == "tiny":
            assert value.status is Status.OPTIMAL and "bruteforce" in value.proved_by, value.key
        if entry.grade == "small":
            assert value.status is Status.OPTIMAL and value.proved_by, value.key
        if entry.grid_s is None:
            assert value.prices is not None, value.key
    small = [v for v in LIBRARY.values.values() if LIBRARY.entries[v.instance].grade == "small"]
    assert sum(len(v.proved_by) > 1 for v in small) >= 0.9 * len(small)


def test_it_is_small() -> None:
    """All files together take at most 10 MiB."""
    assert sum(p.stat().st_size for p in ROOT.rglob("*") if p.is_file()) <= MAX_BYTES


def test_an_unknown_name_is_told_with_its_neighbours() -> None:
    """A name with a slip gives the nearest ones."""
    name = next(iter(LIBRARY.entries))
    with pytest.raises(UnknownNameError, match=re.escape(name)):
        library_instance(name[:-1] + "9")


def test_alpha_changes_the_objective_alone() -> None:
    """An instance with another alpha has the same digest: one file serves all alphas."""
    name = next(iter(LIBRARY.entries))
    one, other = library_instance(name), library_instance(name, 0.75)
    assert (one.objective.alpha, other.objective.alpha) == (0.5, 0.75)
    assert instance_digest(one) == instance_digest(other)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "expected JSON"),
        ("[]", "manifest of a library"),
        ('{"format": "eaco-opt/library", "version": 2, "instances": []}', "version 1"),
        ('{"format": "eaco-opt/library", "version": 1}', "a list under"),
        ('{"format": "eaco-opt/library", "version": 1, "instances": [{}]}', r"instances\[0\]"),
    ],
    ids=["empty", "list", "version", "no-list", "no-keys"],
)
def test_a_bad_manifest_is_an_error_with_its_place(tmp_path: Path, text: str, words: str) -> None:
    """What is no manifest ends in a FormatError that names file and place."""
    (tmp_path / "manifest.json").write_text(text)
    with pytest.raises(FormatError, match=words):
        _ = Library(tmp_path).entries


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda t: t.replace("alpha,", "a,", 1), "line 1: expected the columns"),
        (lambda t: t.replace("optimal", "best", 1), "line 2: 'best'"),
        (lambda t: t.replace(",0.25,", ",x,", 1), "line 2"),
        (lambda t: t.replace(",0.25,", ",nan,", 1), "line 2: expected finite"),
        (lambda t: t.replace("schedules/", "../", 1), "line 2: expected a file inside"),
        (lambda t: t + t.splitlines()[1] + "\n", "is there twice"),
        (lambda t: t + "a,b\n", "cells"),
    ],
    ids=["columns", "status", "number", "nan", "outside", "twice", "cells"],
)
def test_a_bad_table_is_an_error_with_its_line(tmp_path: Path, change: object, words: str) -> None:
    """What is no table of values ends in a FormatError that names file and line."""
    text = "".join((ROOT / "best_known.csv").read_text(encoding="utf-8").splitlines(True)[:2])
    (tmp_path / "best_known.csv").write_text(change(text), encoding="utf-8")  # type: ignore[operator]
    with pytest.raises(FormatError, match=words):
        _ = Library(tmp_path).values
