"""The pages under docs/ against the code: links, defaults, kinds, options, names and the example."""

from __future__ import annotations

import ast
import dataclasses
import importlib
import inspect
import math
import re
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any, get_args

import pytest

from eaco_opt.checker import check
from eaco_opt.evaluation import VIOLATION_KINDS
from eaco_opt.policies import POLICIES
from eaco_opt.simulator import Action, EventKind, World

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted([*(ROOT / "docs").glob("*.md"), *ROOT.glob("*.md")])
MODEL = (ROOT / "docs" / "model.md").read_text(encoding="utf-8")
POLICY_PAGE = (ROOT / "docs" / "policies.md").read_text(encoding="utf-8")
FOLDERS = ("eaco_opt", "instances", "formulations", "solvers", "experiments", "paper_figs", "tests", "docs")

DOMAIN = {
    "Cluster": "cluster",
    "GpuPower": "power",
    "Interference": "interference",
    "Job": "job",
    "Limits": "limits",
    "NodeType": "cluster",
    "Objective": "limits",
    "PowerModel": "power",
    "Profile": "profile",
    "ServerPower": "power",
}
"""Modules of the classes that the table of defaults names."""


def _prose(text: str) -> str:
    """Return a page without code blocks and code spans, whose brackets are no links."""
    return re.sub(r"`[^`\n]*`", "", re.sub(r"```.*?```", "", text, flags=re.S))


def _anchors(text: str) -> set[str]:
    """Return the anchors that headings of a page get on GitHub."""
    titles = re.findall(r"^#+ (.*)$", re.sub(r"```.*?```", "", text, flags=re.S), flags=re.M)
    return {re.sub(r"[^\w\- ]", "", t.lower()).replace(" ", "-") for t in titles}


def _section(text: str, title: str) -> str:
    """Return what stands under a heading, up to the next of the same level or above."""
    found = re.search(rf"^(#+) {re.escape(title)}\n(.*?)(?=^#{{1,2}} |^### |\Z)", text, flags=re.M | re.S)
    assert found, f"no section {title!r}"
    return found.group(2)


def _rows(text: str) -> list[list[str]]:
    """Return the cells of the body rows of the tables in a text."""
    lines = [line.strip() for line in text.splitlines() if line.startswith("|")]
    body = [
        line
        for i, line in enumerate(lines)
        if not set(line) <= set("|-: ") and not (i + 1 < len(lines) and set(lines[i + 1]) <= set("|-: "))
    ]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in body]


def _rules() -> list[str]:
    """Return the numbers of the rules of docs/model.md, in order."""
    found = re.findall(r"^(?:### |\*\*|\| )?(\d+\.\d+)[. ]", MODEL, flags=re.M)
    return [number for number in found if int(number.split(".")[0]) <= 11]


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    """Every link to a file of the repository leads to one, and every anchor to a heading."""
    for target in re.findall(r"\]\(([^)\s]+)\)", _prose(page.read_text(encoding="utf-8"))):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        assert file.exists(), f"{page.name}: {target} leads nowhere"
        assert ROOT in file.parents or file == ROOT, f"{page.name}: {target} leaves the repository"
        if anchor:
            assert anchor in _anchors(file.read_text(encoding="utf-8")), (
                f"{page.name}: no heading for {target}"
            )


def test_the_map_is_whole() -> None:
    """docs/index.md links to every other page of docs/."""
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    linked = set(re.findall(r"\]\(([^)#\s]+\.md)\)", index))
    pages = {page.name for page in (ROOT / "docs").glob("*.md")} - {"index.md"}
    assert pages <= linked


def test_sections_keep_their_numbers() -> None:
    """Sections are numbered 1 to 11, and the rules of each 1, 2, 3, ... without gaps or repeats."""
    sections = [int(n) for n in re.findall(r"^## (\d+)\. ", MODEL, flags=re.M)]
    assert sections == list(range(1, 12))
    for section in sections:
        inside = [int(n.split(".")[1]) for n in _rules() if n.split(".")[0] == str(section)]
        assert inside == list(range(1, len(inside) + 1)), f"section {section}: {inside}"
        assert inside


def test_cited_rules_exist() -> None:
    """Every section or rule of docs/model.md that code, tests and pages cite stands in it."""
    known = {*_rules(), *(str(i) for i in range(1, 12))}
    number = r"\d+(?:\.\d+)?"
    before = r"model\.md(?:\]\(model\.md\))?,?\s+(?:sections?\s+)?"
    cited = re.compile(rf"{before}((?:{number}(?:, | and | to )?)+)")
    files = [f for folder in FOLDERS for f in (ROOT / folder).rglob("*") if f.suffix in (".py", ".md")]
    seen = 0
    for file in files:
        if file == Path(__file__).resolve():
            continue
        for numbers in cited.findall(file.read_text(encoding="utf-8")):
            for rule in re.findall(number, numbers):
                seen += 1
                assert rule in known, f"{file.relative_to(ROOT)} cites docs/model.md {rule}"
    assert seen > 20  # the pattern still finds the citations


def _default(where: str) -> Any:
    name, _, field = where.rpartition(".")
    if name in DOMAIN:
        cls = getattr(importlib.import_module(f"eaco_opt.{DOMAIN[name]}"), name)
        value = {f.name: f.default for f in dataclasses.fields(cls)}[field]
        assert value is not dataclasses.MISSING, f"{where} has no default"
        return value
    return getattr(importlib.import_module(name), field)


def _read(text: str) -> Any:
    """Return the value that a cell of the table of defaults states."""
    if text in ("true", "false"):
        return text == "true"
    if text == "infinite":
        return math.inf
    if text.startswith("`"):
        return text.strip("`")
    numbers = tuple(float(x) for x in text.split(" to "))
    return numbers if len(numbers) > 1 else numbers[0]


def test_defaults_of_the_model_are_those_of_the_code() -> None:
    """Section 1 states the defaults that the classes have; limits and objective are in it whole."""
    rows = _rows(_section(MODEL, "1.11 Defaults"))
    stated = {row[2].strip("`"): _read(row[1]) for row in rows}
    for where, value in stated.items():
        assert _default(where) == value, where
    for name in ("Limits", "Objective"):
        cls = getattr(importlib.import_module("eaco_opt.limits"), name)
        assert {f"{name}.{f.name}" for f in dataclasses.fields(cls)} <= set(stated)


def test_kinds_of_violation_are_those_of_the_code() -> None:
    """The table of section 3 lists every kind of violation with its class, in the code's order."""
    rows = _rows(_section(MODEL, "3.6 Violations"))
    assert [(row[0].strip("`"), row[1]) for row in rows] == [(k, c.value) for k, c in VIOLATION_KINDS.items()]


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f"`{value}`" if isinstance(value, str) else str(value)


@pytest.mark.parametrize("name", list(POLICIES))
def test_options_of_policies_are_those_of_the_code(name: str) -> None:
    """Each policy's table lists all its options, in order, with the defaults of the constructor."""
    cls = POLICIES.get(name)
    rows = _rows(_section(POLICY_PAGE, name))
    expected = [(f"`{k}`", _shown(p.default)) for k, p in inspect.signature(cls).parameters.items()]
    assert [(row[0], row[1]) for row in rows] == expected
    summary = next(row for row in _rows(POLICY_PAGE) if row[0] == f"`{name}`")
    assert summary[1] == f"`{cls.schedule_class}`"


def test_protocol_of_the_simulator_is_that_of_the_code() -> None:
    """Events, actions and the attributes of the world are named as in the code."""
    events = [row[0].strip("`") for row in _rows(_section(POLICY_PAGE, "Events"))]
    assert sorted(events) == sorted(kind.value for kind in EventKind)
    actions = {
        match.group(1): tuple(match.group(2).split(", "))
        for row in _rows(_section(POLICY_PAGE, "Actions"))
        if (match := re.fullmatch(r"`(\w+)\((.*)\)`", row[0]))
    }
    assert actions == {action.__name__: action._fields for action in get_args(Action)}
    source = inspect.getsource(World)
    for row in _rows(_section(POLICY_PAGE, "What a policy sees")):
        for name, arguments in re.findall(r"`(\w+)(?:\((.*?)\))?`", row[0]):
            if arguments:
                parameters = list(inspect.signature(getattr(World, name)).parameters)[1:]
                assert parameters == arguments.split(", "), name
            else:
                assert hasattr(World, name) or re.search(rf"self\.{name}\b.* = ", source), name


@cache
def _names(file: Path) -> set[str]:
    """Return what a module defines: functions, classes, ``Class.method`` and constants."""
    out: set[str] = set()
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            out.add(node.name)
        if isinstance(node, ast.ClassDef):
            out |= {f"{node.name}.{m.name}" for m in node.body if isinstance(m, ast.FunctionDef)}
        targets = node.targets if isinstance(node, ast.Assign) else []
        if isinstance(node, ast.AnnAssign):
            targets = [node.target]
        for target in targets:
            out |= {name.id for name in ast.walk(target) if isinstance(name, ast.Name)}
    return out


def test_readings_name_code_that_exists() -> None:
    """Each reading of section 11 names the files and functions that take it, and they exist."""
    text = MODEL[MODEL.index("## 11. Readings") :]
    readings = re.split(r"^\*\*(?=11\.\d+ )", text, flags=re.M)[1:]
    assert readings
    for reading in readings:
        assert "*Code:*" in reading, reading[:60]
        code = re.sub(r"\s+", " ", reading.split("*Code:*")[1])
        places = re.findall(r"`([\w/]+\.py)` \(((?:`[\w.]+`(?:, )?)+)\)", code)
        assert places, reading[:60]
        for file, names in places:
            known = _names(ROOT / file)
            for name in re.findall(r"`([\w.]+)`", names):
                assert name in known, f"{reading[:40]!r}: {file} has no {name}"


def test_the_example_of_a_policy_runs(capsys: pytest.CaptureFixture[str]) -> None:
    """The example of docs/policies.md runs as printed; its schedule is static and physically sound."""
    (code,) = re.findall(r"```python\n(.*?)```", POLICY_PAGE, flags=re.S)
    names: dict[str, Any] = {}
    exec(compile(code, "docs/policies.md", "exec"), names)  # noqa: S102 - our own page
    outcome = names["outcome"]
    assert float(capsys.readouterr().out) == outcome.evaluation.summary()["mean_jtt_h"] > 0.0
    kinds = {v.kind for v in check(names["builtin_instance"](), outcome.schedule)}
    assert kinds <= {"deadline", "utilisation"}
    # Of two jobs that waited together for whole nodes, the one with fewer epochs started first.
    epochs = {j.name: j.epochs for j in outcome.instance.jobs}
    release = {j.name: j.release_s for j in outcome.instance.jobs}
    segments = outcome.schedule.segments
    for a in segments:
        for b in segments:
            if a.start_s < b.start_s and release[b.job] <= a.start_s:
                assert epochs[a.job] <= epochs[b.job]


def test_enumerations_are_named_in_the_pages() -> None:
    """Values that users type for limits, objective, memory and classes stand in docs/model.md."""
    for module, name in (
        ("limits", "AdmissionRule"),
        ("limits", "ObjectiveForm"),
        ("job", "MemoryKind"),
        ("schedule", "ScheduleClass"),
    ):
        values: type[StrEnum] = getattr(importlib.import_module(f"eaco_opt.{module}"), name)
        for value in values:
            assert f"`{value.value}`" in MODEL, value
