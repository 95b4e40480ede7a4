"""Registries, and a conformance test of every part that is registered in the project.

A part added to a registry is tested here without further ado: it imports, says what it is, and keeps its
family's protocol in a small run. Trace readers need a sample of their format in :data:`SAMPLES`.
"""

from __future__ import annotations

import dataclasses
import gzip
import re
import shutil
import sys
from collections.abc import Callable
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eaco_opt import registry
from eaco_opt.checker import check_report
from eaco_opt.errors import DomainError, EacoError, PartError, TraceError, UnknownNameError
from eaco_opt.impossible import impossible_jobs
from eaco_opt.instance import Instance
from eaco_opt.interference import SLOWDOWN_MODELS, Interference, KindDemand, MeasuredSlowdown
from eaco_opt.io import instance_from_json, instance_to_json
from eaco_opt.job import MemoryKind
from eaco_opt.limits import Limits
from eaco_opt.policies import POLICIES, make_policy
from eaco_opt.registry import Registry
from eaco_opt.result import Result, Status
from eaco_opt.schedule import ScheduleClass
from eaco_opt.simulator import simulate
from experiments.compare import compare
from experiments.describe import describe, write_description
from experiments.tables import write_comparison
from instances.generators import GENERATORS, generate
from instances.measurements import MEASUREMENTS
from instances.predictors import PREDICTORS
from instances.readers import READERS, ImportOptions, TraceText, import_text
from paper_figs import FIGURES, render
from solvers.backends import BACKENDS, MissingBackendError, backend
from solvers.backends.base import ABILITIES
from solvers.base import METHODS, Request
from tests.eaco_opt.checker_cases import instance, job, node_type, profile

REGISTRIES = {
    "POLICIES": POLICIES,
    "SLOWDOWN_MODELS": SLOWDOWN_MODELS,
    "METHODS": METHODS,
    "BACKENDS": BACKENDS,
    "GENERATORS": GENERATORS,
    "READERS": READERS,
    "MEASUREMENTS": MEASUREMENTS,
    "PREDICTORS": PREDICTORS,
    "FIGURES": FIGURES,
}
PARTS = [(r, name) for r in REGISTRIES.values() for name in r]


# --- A registry by itself ---------------------------------------------------------------------------------


class Documented:
    """What it is.

    And more about it.
    """


class Undocumented(Documented):
    pass


def fruits() -> Registry:
    found = Registry("fruit", "eaco_opt.no_such_group")
    found.register("apple", f"{__name__}:Documented")
    found.register("pear", "json:loads")
    return found


def message(call: Callable[[], object], kind: type[EacoError] = EacoError) -> str:
    with pytest.raises(kind) as caught:
        call()
    return str(caught.value)


def test_parts_are_found_by_name() -> None:
    """Names in order of registration; a part is imported when it is asked for."""
    found = fruits()
    assert found.names() == tuple(found) == ("apple", "pear")
    assert "apple" in found and "plum" not in found and 3 not in found
    assert found.get("apple") is sys.modules[__name__].Documented
    assert found.summary("apple") == "What it is."
    assert found.get("pear")("1") == 1


def test_registering_imports_nothing() -> None:
    """A target is text; a wrong module is only noticed when the part is asked for."""
    found = fruits()
    found.register("plum", "no_such_module_at_all:Plum")
    found.register("fig", "json:no_such_function")
    assert "plum" in found
    assert message(lambda: found.get("plum"), PartError) == (
        "fruit 'plum' (no_such_module_at_all:Plum) cannot be loaded: No module named "
        "'no_such_module_at_all'; install what it needs, or remove the distribution that registers it"
    )
    text = message(lambda: found.get("fig"), PartError)
    assert "fruit 'fig' (json:no_such_function) cannot be loaded: module 'json' has no attribute" in text
    # Whoever looks out for missing packages finds it, too.
    assert issubclass(PartError, ImportError)


def test_what_a_registry_refuses() -> None:
    """A name that is taken, a target of another form, a part that says nothing of itself."""
    found = fruits()
    assert message(lambda: found.register("pear", "json:dumps")) == (
        "fruit 'pear' is registered already, as json:loads; choose another name"
    )
    for target in ("json", "json:", ":loads", ""):
        text = message(lambda target=target: found.register("fig", target))
        assert text == f"fruit 'fig': target must look like 'module:attribute', got {target!r}"
    assert found.names() == ("apple", "pear")
    found.register("mute", f"{__name__}:Undocumented")
    assert message(lambda: found.get("mute")) == (
        f"fruit 'mute' ({__name__}:Undocumented) has no docstring; write one"
    )


def test_an_unknown_name_lists_the_known_ones() -> None:
    """So that a typing error needs no look into the manual."""
    assert (
        message(lambda: fruits().get("plum"), UnknownNameError)
        == "unknown fruit 'plum'; known are: apple, pear"
    )


def test_third_parties_register_through_entry_points(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read once, at the first question, after the built-in ones and by name."""
    points = [
        EntryPoint(name="quince", value="json:dumps", group="g"),
        EntryPoint(name="fig", value="json:load", group="g"),
    ]
    asked: list[str] = []

    def entry_points(*, group: str) -> list[EntryPoint]:
        asked.append(group)
        return points

    monkeypatch.setattr(registry, "entry_points", entry_points)
    found = fruits()
    assert asked == []
    assert found.names() == found.names() == ("apple", "pear", "fig", "quince")
    assert asked == ["eaco_opt.no_such_group"]
    assert found.get("quince")(1) == "1"
    # A third party cannot take a name away, and the error stays until it is gone.
    points.append(EntryPoint(name="apple", value="json:load", group="g"))
    found = fruits()
    for _ in range(2):
        assert "fruit 'apple' is registered already" in message(found.names)
    points.pop()
    assert found.names() == ("apple", "pear", "fig", "quince")


# --- All parts of the project -----------------------------------------------------------------------------


def test_every_registry_is_looked_at(root: Path) -> None:
    """A new family belongs in the list above."""
    folders = ("eaco_opt", "instances", "formulations", "solvers", "experiments", "paper_figs")
    found = {
        name
        for folder in folders
        for file in (root / folder).rglob("*.py")
        for name in re.findall(r"^(\w+)(?:: Registry)? = Registry\(", file.read_text(), re.MULTILINE)
    }
    assert found == set(REGISTRIES)


def test_every_entry_point_group_is_documented(root: Path) -> None:
    """pyproject.toml names the groups that third parties may fill."""
    text = (root / "pyproject.toml").read_text()
    for found in REGISTRIES.values():
        assert re.search(rf"^#   {re.escape(found.group)} +\S", text, re.MULTILINE), found.group


@pytest.mark.parametrize(("found", "name"), PARTS, ids=[f"{r.family}-{n}" for r, n in PARTS])
def test_every_part_imports_and_says_what_it_is(found: Registry, name: str) -> None:
    """A name for the command line, a first line of at most a line, ending like a sentence."""
    assert re.fullmatch(r"[a-z0-9]+([-_][a-z0-9]+)*", name)
    assert found.get(name) is found.get(name)
    assert 10 < len(found.summary(name)) <= 110
    assert found.summary(name)[-1] in ".:"


def everything() -> Instance:
    """A small instance with gangs, node types, exclusive and split jobs, deadlines, sleep, priorities."""
    profiles = (
        profile("p", 10.0, util=0.3, memory_gib=6.0, cpu_share=0.1),
        profile("q", 25.0, util=0.5, memory_gib=9.0, cpu_share=0.3),
    )
    jobs = (
        job("a", "p", 1, 3, 200.0),
        job("b", "q", 2, 2, 300.0, release_s=5.0),
        job("c", "p", 3, 2, release_s=5.0, priority=2),
        job("d", "q", 1, 1, 400.0, release_s=20.0, exclusive=True),
        job("e", "p", 2, 4, 90.0, release_s=31.5, memory_kind=MemoryKind.MODEL_PARALLEL),
        job("f", "q", 1, 2, 500.0, release_s=31.5),
        job("g", "p", 1, 1, release_s=40.0),
    )
    first = node_type("first", 2, sleep_w=5.0, wake_s=4.0, wake_energy_j=100.0)
    truth = Interference(
        measured=(MeasuredSlowdown(kinds=("p", "q"), factors=(1.4, 1.2)),),
        model="crowding",
        params=(("base", 0.1),),
    )
    return instance(
        jobs,
        (first, 2),
        (node_type("second", 2), 1),
        profiles=profiles,
        truth=truth,
        limits=Limits(),
        pue=1.1,
    )


@pytest.mark.parametrize("name", POLICIES.names())
@pytest.mark.parametrize("grid_s", [None, 10.0])
def test_policies(name: str, grid_s: float | None) -> None:
    """With default options: every job runs, by the rules, twice the same; only counted rules are broken."""
    inst = everything()
    policy = make_policy(name)
    assert isinstance(policy.name, str) and policy.name
    done = simulate(inst, policy, np.random.default_rng(3), grid_s=grid_s)
    again = simulate(inst, make_policy(name), np.random.default_rng(3), grid_s=grid_s)
    assert again.schedule == done.schedule
    found = check_report(done.instance, done.schedule, grid_s=grid_s)
    assert found.physical_violations == 0, found.violations
    assert found.deadline_misses == done.evaluation.deadline_misses
    widest = list(ScheduleClass)
    claimed = ScheduleClass.STATIC if grid_s else ScheduleClass(policy.schedule_class)
    assert widest.index(done.schedule.schedule_class) <= widest.index(claimed)
    assert {s.job for s in done.schedule.segments} == {j.name for j in done.instance.jobs}
    with pytest.raises(DomainError, match=f"policy '{name}': unknown option 'colour'; known are: "):
        make_policy(name, colour="red")


def test_policies_leave_nothing_behind() -> None:
    """A policy object can be run again, on another instance, as if it were new."""
    inst = everything()
    part = inst.without(["a", "d"])
    for name in POLICIES:
        policy = make_policy(name)
        simulate(inst, policy, np.random.default_rng(3))
        used = simulate(part, policy, np.random.default_rng(3)).schedule
        assert used == simulate(part, make_policy(name), np.random.default_rng(3)).schedule, name


def demand(kind: str, util: float, memory_gib: float = 4.0) -> KindDemand:
    return KindDemand(
        kind=kind,
        gpu_util_mean=util,
        gpu_util_peak=1.0,
        gpu_memory_mean_gib=memory_gib,
        gpu_memory_peak_gib=memory_gib,
        cpu_share=0.1,
    )


@pytest.mark.parametrize("name", SLOWDOWN_MODELS.names())
def test_slowdown_models(name: str) -> None:
    """A positive factor for each member, equal for equal kinds, in any order; parameters are checked."""
    cls = SLOWDOWN_MODELS.get(name)
    model = cls({})
    some = [demand("a", 0.1), demand("b", 0.4), demand("a", 0.1), demand("c", 0.9, 16.0), demand("d", 0.0)]
    for n in range(2, len(some) + 1):
        factors = model.factors(some[:n])
        assert len(factors) == n and all(f > 0.0 for f in factors)
        if getattr(cls, "never_below_one", False):
            assert min(factors) >= 1.0
        of_kind = dict(zip([m.kind for m in some[:n]], factors, strict=True))
        assert tuple(model.factors(some[:n][::-1])) == tuple(factors)[::-1]
        assert [of_kind[m.kind] for m in some[:n]] == list(factors)
    assert Interference(model=name).model == name
    with pytest.raises(
        DomainError, match=f"slowdown model '{name}': unknown parameter 'colour'; known are: "
    ):
        Interference(model=name, params=(("colour", 1.0),))


@pytest.mark.parametrize("name", METHODS.names())
def test_methods(name: str) -> None:
    """What is available answers for a tiny instance, with a schedule that passes the checker or none."""
    method = METHODS.get(name)()
    assert method.kind and method.schedule_class in list(ScheduleClass)
    assert (type(method.exact), type(method.online)) == (bool, bool)
    assert all(isinstance(word, str) for word in method.covers)
    if not method.available():
        pytest.skip(f"method {name!r} is not available here")
    inst = instance((job("a", "small", 1, 2, 60.0), job("b", "small", 1, 1, 60.0)))
    # The search goes on until its limit.
    options = {"iterations": 200} if name == "lns" else {}
    found: Result = method.solve(inst, Request(time_limit_s=10.0, grid_s=10.0, options=options))
    assert isinstance(found, Result)
    assert found.status in (Status.OPTIMAL, Status.FEASIBLE)
    assert found.schedule is not None and found.objective is not None
    assert check_report(inst, found.schedule, grid_s=10.0).feasible
    assert found.bound is None or found.bound <= found.objective * (1 + 1e-6)


@pytest.mark.parametrize("name", BACKENDS.names())
def test_backends(name: str) -> None:
    """Says what it can in known words and how to get it; where it is installed, it proves a tiny optimum."""
    made = BACKENDS.get(name)()
    assert made.name == name and made.title and made.package and made.how_to_get
    assert set(made.abilities) <= set(ABILITIES)
    if not made.available():
        with pytest.raises(MissingBackendError, match=f"back end '{name}' is not installed here: "):
            backend(name)
        return
    inst = instance((job("a", "small", 1, 2, 60.0), job("b", "small", 1, 1, 60.0)))
    options = {"backend": name, "process": "shared"}
    found = METHODS.get("milp")().solve(inst, Request(time_limit_s=60.0, grid_s=10.0, options=options))
    other = METHODS.get("bruteforce")().solve(inst, Request(grid_s=10.0))
    assert (found.status, other.status) == (Status.OPTIMAL, Status.OPTIMAL)
    assert found.objective == pytest.approx(other.objective, rel=1e-6)


@pytest.mark.parametrize("name", GENERATORS.names())
def test_generators(name: str) -> None:
    """So many jobs that can all run, with deadlines, the same for a seed and not for another one."""
    inst = generate(name, jobs=12, nodes=3, seed=5)
    assert len(inst.jobs) == 12 and len(inst.cluster.nodes) == 3
    assert impossible_jobs(inst) == ()
    assert all(j.deadline_s < float("inf") for j in inst.jobs)
    assert [j.release_s for j in inst.jobs] == sorted(j.release_s for j in inst.jobs)
    assert generate(name, jobs=12, nodes=3, seed=5) == inst
    assert generate(name, jobs=12, nodes=3, seed=6) != inst
    assert instance_from_json(instance_to_json(inst)) == inst
    assert dict(inst.metadata)
    done = simulate(inst, make_policy("fifo"), np.random.default_rng(0))
    assert check_report(inst, done.schedule).physical_violations == 0


# A row that is refused, for each format.
BAD_ROWS = {
    "acme-2024": "3,u1,1,none,8,Other,FAILED,,,,60,0.0,60",
    "alibaba-openb-2023": "pod-2,6000,12288,1,460,,BE,Pending,427061,902960,",
    "alibaba-pai-2020": "j3,i3,u1,Waiting,1600.0,",
    "csv": "c,61,-5,1,x,done,resnet,8000",
    "elasticflow": "c,60,48,bert,900,64,8,none",
    "gavel": "LM (batch size 5)\tpython3 main.py\t-n\t1\t60000\tsoon\t1",
    "helios": "13,u1,vcA,0,4,1,COMPLETED,2020-04-01 00:03:11,,,1200,9",
    "lucid": "3,u,vcA,0,4,FAILED,2020-09-01 00:05:11,60,,,,,,",
    "muri": "2,8,x,1463,vgg16,16,281000,28000,214,82,75,66,1",
    "philly-csv": "2017-10-09 07:01:56,66.0,none,66.0,11cb48",
    "philly-json": '{"submitted_time": "2017-10-09 07:01:55", "attempts": []}',
    "pollux": "alexnet-2,70,alexnet,1,128",
    "sia": "alexnet-2,70,alexnet,1,128",
    "swf": "3 70 0 -1 1 -1 -1 8 600 -1 5 3 1 -1 1 2 -1 -1",
    "tiresias": "2,2,53,157,inception4,-1,26",
}
THROUGHPUTS = (
    "model,gpus,partner_model,partner_gpus,steps_per_s,partner_steps_per_s\n"
    "ResNet-18 (batch size 16),1,,,20,\n"
    "LM (batch size 5),1,,,100,\n"
)


@pytest.mark.parametrize("name", READERS.names())
def test_readers(name: str, tmp_path: Path) -> None:
    """Rows become jobs that can run, or are counted with line and reason; another format is an error."""
    assert name in BAD_ROWS, f"add a row that reader {name!r} refuses to BAD_ROWS"
    (tmp_path / "throughputs.csv").write_text(THROUGHPUTS)
    paths = {"throughputs": tmp_path / "throughputs.csv"} if name == "gavel" else {}
    reader = READERS.get(name)
    text = f"{reader.SAMPLE}{BAD_ROWS[name]}\n"
    if not getattr(reader, "BY_LINES", True):  # a list: the row goes inside
        text = reader.SAMPLE.rstrip("]\n") + f",\n{BAD_ROWS[name]}\n]\n"

    def read(data: str | bytes, **more: Any) -> Any:
        beside = {
            role: TraceText.of(table) for role, table in getattr(reader, "COMPANION_SAMPLES", {}).items()
        }
        text = TraceText.of(data, companions=beside)
        return import_text(name, reader, text, ImportOptions(nodes=2, **paths, **more))

    done = read(text)
    assert (done.read, done.taken, sum(done.refused.values())) == (3, 2, 1)
    assert [j.submit_index for j in done.instance.jobs] == [0, 1]
    assert min(j.release_s for j in done.instance.jobs) == 0.0
    assert impossible_jobs(done.instance) == ()
    notes = [n for n in done.details if n.action == "refused"]
    assert (
        len(notes) == 1 and notes[0].line in (3, 4, 5) and notes[0].text and notes[0].reason in done.refused
    )
    assert read(text).instance == done.instance
    mapped = read(text, mapping="paper-cnn").instance
    assert len(mapped.jobs) == 2 and impossible_jobs(mapped) == ()
    for nonsense in ("", "\n\n", "these are\nthe wrong columns\n", gzip.compress(b"x"), b"\xff" * 40):
        with pytest.raises(TraceError):
            read(nonsense)


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The saved tables of a small comparison, and of its workload."""
    folder = tmp_path_factory.mktemp("tables")
    write_comparison(compare(everything(), ["fifo", "eaco"]), folder / "out", figures=())
    write_description(describe(everything()), folder / "described")
    shutil.copy(folder / "described" / "workload.csv", folder / "out")
    others = {
        "predictions": "predictor,measured,predicted\na,0.8,0.9\na,1,0.95\n",
        "curve": "seconds,objective,bound\n0,1,\n2,0.9,0.8\n",
        "certified": "method,objective,certified_gap\nfifo,1,0.25\nlns,0.9,0.125\n",
        "frontier": "variant,runtime_percent,energy_percent\nas given,0,0\nas given,1,-10\n",
        "points": "name,kind,runtime_percent,energy_percent\nfifo,policy,0,0\n",
    }
    for name, text in others.items():
        if not (folder / "out" / f"{name}.csv").exists():
            (folder / "out" / f"{name}.csv").write_text(text)
    return folder / "out"


@pytest.mark.parametrize("name", FIGURES.names())
def test_figures(name: str, tables: Path, tmp_path: Path) -> None:
    """Drawn from saved tables alone, into files of some size, twice the same bytes, and refused twice."""
    if name == "anytime":  # of a certification, whose rows.csv has other columns
        shutil.copytree(tables, tmp_path / "tables")
        tables = tmp_path / "tables"
        shutil.copy(tables / "certified.csv", tables / "rows.csv")
    files = render(name, tables, tmp_path)
    assert sorted(f.suffix for f in files) == [".csv", ".pdf", ".png"]
    sizes = [f.stat().st_size for f in files]
    assert min(sizes) > 20 and max(sizes) > 1000
    header, *rows = files[-1].read_text().splitlines()
    assert header and rows
    again = render(name, tables, tmp_path / "again")
    assert [f.read_bytes() for f in again] == [f.read_bytes() for f in files]
    with pytest.raises(OSError, match="exists"):
        render(name, tables, tmp_path)


def test_a_new_policy_is_known_to_the_maker(monkeypatch: pytest.MonkeyPatch) -> None:
    """One line in the registry makes a policy of a third party available by name, with its options."""
    monkeypatch.setitem(POLICIES._targets, "mine", f"{__name__}:Mine")
    assert "mine" in POLICIES
    assert make_policy("mine", delay_s=3.0).delay_s == 3.0
    with pytest.raises(DomainError, match="unknown option 'delay'; known are: delay_s"):
        make_policy("mine", delay=3.0)


@dataclasses.dataclass
class Mine:
    """A third party's policy."""

    delay_s: float = 0.0
    name: str = dataclasses.field(default="mine", init=False)
