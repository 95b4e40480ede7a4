"""`library`: what is tampered with is found and named, and only better schedules are accepted."""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import experiments.library_measure as measuring
from eaco_opt.errors import EacoError
from eaco_opt.io import read_schedule, write_schedule
from eaco_opt.schedule import Schedule
from experiments.cli import main
from experiments.library_check import submit, verify
from experiments.library_measure import measure, summary
from instances import builtin_instance
from instances.library import COLUMNS, BestKnown, Library, status_of
from instances.library.store import gap_of, with_alpha
from solvers import solve
from solvers.verify import InternalError

TINY = "whole-node-04x02-s1.3-2.5-l1.0-002"
MEDIUM = "whole-node-12x04-s1.3-2.5-l1.0-001"
SHIPPED = Library()


@pytest.fixture
def library(tmp_path: Path) -> Library:
    """A library of one tiny and one medium instance, which may be written."""
    root = tmp_path / "library"
    made = Library(root)
    root.mkdir()
    entries = [SHIPPED.entries[TINY], SHIPPED.entries[MEDIUM]]
    made.write_manifest(entries)
    values = [v for v in SHIPPED.values.values() if v.instance in (TINY, MEDIUM)]
    made.write_values(values)
    names = [e.file for e in entries] + [v.schedule for v in values] + [v.prices for v in values]
    for name in names:
        if name is not None:
            (root / name).parent.mkdir(exist_ok=True)
            shutil.copy(SHIPPED.root / name, root / name)
    return Library(root)


def change(library: Library, name: str = TINY, alpha: float = 0.5, **what: Any) -> BestKnown:
    """Replace cells of a row, and return it."""
    row = dataclasses.replace(library.values[name, alpha], **what)
    library.write_values({**library.values, row.key: row}.values())
    return row


def found(library: Library) -> set[tuple[str, float | None, str]]:
    """Return instance, alpha and kind of all problems."""
    return {(p.instance, p.alpha, p.what) for p in verify(library).problems}


@pytest.fixture(scope="module")
def worse() -> Schedule:
    """A feasible schedule of the tiny instance on its grid that is not the best one: that of FIFO."""
    entry = SHIPPED.entries[TINY]
    result = solve(SHIPPED.instance(TINY), "fifo", grid_s=entry.grid_s)
    assert result.schedule is not None and result.evaluation is not None and result.evaluation.feasible
    assert result.objective is not None
    assert result.objective > (SHIPPED.values[TINY, 0.5].objective or 0.0) * 1.001
    return result.schedule


def with_worse(library: Library, schedule: Schedule, alpha: float = 0.5) -> BestKnown:
    """Put a worse schedule into the library, as if nothing better were known."""
    problem = with_alpha(library.instance(TINY), alpha)
    found = solve(problem, "fifo", grid_s=library.entries[TINY].grid_s).objective
    old = library.values[TINY, alpha]
    row = dataclasses.replace(
        old, objective=found, gap=gap_of(found, old.bound), status=status_of(found, old.bound), proved_by=()
    )
    return library.put(row, problem, schedule=schedule)


# --- verify -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("grade", ["tiny", "small"])
def test_the_shipped_library_is_as_it_says(grade: str) -> None:
    """Digests, schedules, objectives and all bounds that are cheap to prove, of all instances of a grade."""
    done = verify(SHIPPED, grades=[grade])
    assert [p.text for p in done.problems] == []
    assert done.schedules == done.entries == 3 * done.instances
    assert done.bounds_proved >= 0.7 * done.entries


def test_deep_proves_what_is_else_taken_on_trust() -> None:
    """A row that is too much for brute force is proved again by the methods that are said to have."""
    name = "symmetric-06x03-l1.5-u1-m1-k3-kinds1-waves1-001"
    assert verify(SHIPPED, [name]).bounds_trusted == 3
    done = verify(SHIPPED, [name], deep=True)
    assert (done.bounds_proved, done.bounds_trusted, done.problems) == (3, 0, [])


def test_a_medium_bound_is_proved_by_its_prices(library: Library) -> None:
    """Bounds in continuous time are worked out anew from stored prices: none is taken on trust."""
    done = verify(library)
    assert not done.problems
    assert (done.bounds_proved, done.bounds_trusted) == (6, 0)


@pytest.mark.parametrize("name", [TINY, MEDIUM])
@pytest.mark.parametrize("factor", [1.0 - 1e-6, 1.0 + 1e-6])
def test_a_changed_objective_is_found(library: Library, name: str, factor: float) -> None:
    """A millionth more or less than the schedule costs is named, with instance and alpha."""
    old = library.values[name, 0.5].objective
    assert old is not None
    change(library, name, objective=old * factor)
    assert (name, 0.5, "objective") in found(library)
    assert all(p[:2] == (name, 0.5) for p in found(library))


@pytest.mark.parametrize("name", [TINY, MEDIUM])
@pytest.mark.parametrize("factor", [0.99, 1.0 + 1e-5])
def test_a_changed_bound_is_found(library: Library, name: str, factor: float) -> None:
    """A bound that its proof does not give is named, also with gap and status made to fit."""
    row = library.values[name, 0.5]
    assert row.bound is not None
    bound = row.bound * factor
    change(
        library,
        name,
        bound=bound,
        gap=gap_of(row.objective, bound),
        status=status_of(row.objective, bound),
    )
    assert {p[2] for p in found(library)} & {"bound", "objective"} == {"bound"}


def test_a_changed_schedule_is_found(library: Library) -> None:
    """A job that starts a slot later, or is left out, is named."""
    problem = library.instance(TINY)
    row = library.values[TINY, 0.5]
    best = library.best_schedule(row, problem)
    assert best is not None
    path = library.root / str(row.schedule)
    last = max(best.segments, key=lambda s: s.start_s)
    rest = tuple(s for s in best.segments if s is not last)
    later = dataclasses.replace(last, start_s=last.start_s + 3600.0, end_s=last.end_s + 3600.0)
    for segments in (rest, (*rest, later)):
        write_schedule(path, dataclasses.replace(best, segments=segments), problem, force=True)
        assert found(library) & {(TINY, 0.5, "schedule"), (TINY, 0.5, "objective")}
    path.unlink()
    assert (TINY, 0.5, "schedule") in found(library)


@pytest.mark.parametrize("name", [TINY, MEDIUM])
def test_a_changed_digest_is_found(library: Library, name: str) -> None:
    """A digest in the manifest that is not the instance's is named."""
    entries = [
        dataclasses.replace(e, digest="0" * 64) if e.name == name else e for e in library.entries.values()
    ]
    library.write_manifest(entries)
    assert (name, None, "digest") in found(library)


def test_a_changed_generator_or_file_is_found(library: Library) -> None:
    """The stored file and the generator call must both give the instance of the manifest."""
    first, second = library.entries.values()
    library.write_manifest([dataclasses.replace(first, generator={**first.generator, "seed": 9}), second])
    assert (TINY, None, "digest") in found(library)
    library.write_manifest([first, second])
    shutil.copy(library.root / str(second.file), library.root / str(first.file))
    assert (TINY, None, "digest") in found(library)


def test_changed_prices_are_found(library: Library) -> None:
    """Prices that prove another bound than the table's are named."""
    row = library.values[MEDIUM, 0.5]
    prices = library.prices(row)
    assert prices is not None
    library.put(row, with_alpha(library.instance(MEDIUM), 0.5), prices=[p * 0.9 for p in prices])
    assert found(library) == {(MEDIUM, 0.5, "bound")}


@pytest.mark.parametrize(
    ("what", "kind"),
    [({"gap": 0.5}, "gap"), ({"grid_s": 900.0}, "row"), ({"schedule_class": "fluid"}, "row")],
    ids=["gap", "grid", "class"],
)
def test_other_changed_cells_are_found(library: Library, what: dict[str, Any], kind: str) -> None:
    """Gap, grid and class that do not fit are named."""
    change(library, **what)
    assert (TINY, 0.5, kind) in found(library)


def test_rows_and_files_too_few_or_too_many_are_found(library: Library) -> None:
    """A missing row, a row of nothing, and a file of nothing are named."""
    rows = [v for v in library.values.values() if v.key != (TINY, 0.25)]
    library.write_values([*rows, dataclasses.replace(rows[0], instance="nothing")])
    shutil.copy(library.root / str(rows[0].schedule), library.root / "schedules" / "stray.json.gz")
    assert {(TINY, 0.25, "row"), ("nothing", 0.5, "row"), ("", None, "file")} <= found(library)


def test_verify_says_what_is_wrong_and_ends_with_3(
    library: Library, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command lists the problems and has exit code 3; without any it has 0."""
    words = ["library", "verify", "--all", "--library", str(library.root), "--json"]
    assert main(words) == 0
    assert json.loads(capsys.readouterr().out)["ok"] is True
    change(library, objective=0.5)
    assert main(words) == 3
    document = json.loads(capsys.readouterr().out)
    assert document["ok"] is False
    assert {p["instance"] for p in document["problems"]} == {TINY}


# --- submit -----------------------------------------------------------------------------------------------


def file_of(tmp_path: Path, schedule: Schedule, name: str = TINY, ending: str = "json") -> Path:
    """Write a schedule, and return the file."""
    path = tmp_path / f"mine.{ending}"
    write_schedule(path, schedule, SHIPPED.instance(name), force=True)
    return path


@pytest.fixture
def best(tmp_path: Path) -> Path:
    """A file with the best known schedule of the tiny instance."""
    schedule = SHIPPED.best_schedule(SHIPPED.values[TINY, 0.5], SHIPPED.instance(TINY))
    assert schedule is not None
    return file_of(tmp_path, schedule)


def test_a_better_schedule_is_accepted_and_stored(library: Library, worse: Schedule, best: Path) -> None:
    """It replaces the worse one, with the objective, gap and status that it has, and verify agrees."""
    old = with_worse(library, worse)
    assert old.status.value == "gap"
    entry, judged = submit(library, best, alphas=[0.5], write=True, method="mine", time_s=2.0)
    assert entry.name == TINY
    (one,) = judged
    assert one.better and one.by is not None and one.best is not None
    assert one.by == pytest.approx((one.best - one.objective) / one.best)
    fresh = Library(library.root)
    row = fresh.values[TINY, 0.5]
    assert (row.status.value, row.method, row.time_s) == ("optimal", "mine", 2.0)
    assert row.objective == pytest.approx(SHIPPED.values[TINY, 0.5].objective, rel=1e-9)
    assert not verify(fresh).problems


def test_a_submission_is_a_folder_of_schedules_and_rows(
    library: Library, worse: Schedule, best: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`--out` gets the schedule and its row, for the alphas in which it is better; the library stays."""
    with_worse(library, worse)
    before = library.values_file.read_bytes()
    submit(library, best, out=tmp_path / "out")
    assert library.values_file.read_bytes() == before
    lines = (tmp_path / "out" / "best_known.csv").read_text().splitlines()
    assert lines[0] == ",".join(COLUMNS)
    assert len(lines) == 2 and lines[1].startswith(f"{TINY},0.5,static,3600.0,optimal,")
    kept = read_schedule(tmp_path / "out" / f"{TINY}.a0.50.json.gz", SHIPPED.instance(TINY))
    assert kept.segments == read_schedule(best, SHIPPED.instance(TINY)).segments
    assert main(["library", "submit", str(best), "--library", str(library.root), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [s["alpha"] for s in document["accepted"]] == [0.5]
    assert [s["alpha"] for s in document["not_better"]] == [0.25, 0.75]


def test_a_csv_needs_the_name_of_its_instance(library: Library, worse: Schedule, tmp_path: Path) -> None:
    """CSV of segments names no digest: the instance is asked for."""
    with_worse(library, worse)
    optimum = SHIPPED.best_schedule(SHIPPED.values[TINY, 0.5], SHIPPED.instance(TINY))
    assert optimum is not None
    path = file_of(tmp_path, optimum, ending="csv")
    with pytest.raises(EacoError, match="give --instance"):
        submit(library, path)
    _, judged = submit(library, path, instance=TINY)
    assert [s.better for s in judged] == [False, True, False]


@pytest.mark.parametrize("which", ["same", "worse"])
def test_what_is_not_better_is_refused(
    library: Library, worse: Schedule, best: Path, tmp_path: Path, which: str
) -> None:
    """The best known schedule again, and a worse one, change nothing."""
    path = best if which == "same" else file_of(tmp_path, worse)
    before = library.values_file.read_bytes()
    with pytest.raises(EacoError, match="better for no alpha"):
        submit(library, path, write=True)
    assert library.values_file.read_bytes() == before


def _left_out(schedule: Schedule) -> Schedule:
    return dataclasses.replace(schedule, segments=schedule.segments[1:])


def _off_grid(schedule: Schedule) -> Schedule:
    first = schedule.segments[0]
    moved = dataclasses.replace(first, start_s=first.start_s + 60.0, end_s=first.end_s + 60.0)
    return dataclasses.replace(schedule, segments=(moved, *schedule.segments[1:]))


def _late(schedule: Schedule) -> Schedule:
    moved = [
        dataclasses.replace(s, start_s=s.start_s + 3.6e6, end_s=s.end_s + 3.6e6) for s in schedule.segments
    ]
    return dataclasses.replace(schedule, segments=tuple(moved))


@pytest.mark.parametrize("breaks", [_left_out, _off_grid, _late], ids=["left-out", "off-grid", "late"])
def test_what_breaks_rules_is_refused(
    library: Library, worse: Schedule, tmp_path: Path, breaks: Callable[[Schedule], Schedule]
) -> None:
    """A schedule without a job, off the grid, or late is refused, with the rule that it breaks."""
    with_worse(library, worse)
    with pytest.raises(EacoError, match=r"breaks \d+ rule"):
        submit(library, file_of(tmp_path, breaks(worse)), write=True)


def test_a_schedule_of_another_instance_is_refused(library: Library, tmp_path: Path) -> None:
    """A digest that no instance of the library has, and a name whose instance has another, are told."""
    other = builtin_instance()
    result = solve(other, "fifo")
    assert result.schedule is not None
    path = tmp_path / "other.json"
    write_schedule(path, result.schedule, other)
    with pytest.raises(EacoError, match="none of the library's 2"):
        submit(library, path)
    with pytest.raises(EacoError, match="another problem"):
        submit(library, path, instance=TINY)
    (tmp_path / "bad.json").write_text("no schedule")
    with pytest.raises(EacoError, match="expected a schedule as JSON"):
        submit(library, tmp_path / "bad.json")


def test_what_undercuts_a_bound_is_a_contradiction(
    library: Library, worse: Schedule, best: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A schedule below a proved bound is no record but an error of the project: exit code 1, not stored."""
    row = with_worse(library, worse)
    assert row.objective is not None
    change(library, bound=row.objective * 0.9999, gap=gap_of(row.objective, row.objective * 0.9999))
    with pytest.raises(InternalError, match="contradiction"):
        submit(library, best, alphas=[0.5], write=True)
    words = ["library", "submit", str(best), "--alpha", "0.5", "--library", str(library.root)]
    assert main(words) == 1
    assert "contradiction" in capsys.readouterr().err
    assert Library(library.root).values[TINY, 0.5].objective == row.objective


def test_the_installed_library_is_never_written(best: Path) -> None:
    """Neither submit nor measure writes the package."""
    with pytest.raises(EacoError, match="never written"):
        submit(SHIPPED, best, write=True)
    with pytest.raises(EacoError, match="never written"):
        measure(SHIPPED, [TINY])


# --- measure ----------------------------------------------------------------------------------------------


def test_measure_proves_improves_and_goes_on(
    library: Library, worse: Schedule, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worse row gets the proved optimum; what the work folder remembers is not run again."""
    plan = [p for p in measuring.planned() if p[0] in (TINY, MEDIUM)]
    monkeypatch.setattr(measuring, "planned", lambda: iter(plan))
    with_worse(library, worse)
    rows = measure(library, [TINY], alphas=[0.5], time_limit_s=10.0, work=tmp_path / "work")
    assert [r.status.value for r in rows] == ["optimal"]
    assert rows[0].proved_by == ("bruteforce", "milp")
    assert rows[0].objective == pytest.approx(SHIPPED.values[TINY, 0.5].objective, rel=1e-9)
    assert not verify(Library(library.root)).problems

    def never(*_: Any, **__: Any) -> None:
        raise AssertionError("run again")

    monkeypatch.setattr(measuring, "solve", never)
    assert measure(library, [TINY], alphas=[0.5], time_limit_s=10.0, work=tmp_path / "work") == rows


def test_measure_makes_a_library_from_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Manifest, files and values of a planned instance are made, with a schedule and prices that verify."""
    plan = [p for p in measuring.planned() if p[0] == MEDIUM]
    monkeypatch.setattr(measuring, "planned", lambda: iter(plan))
    made = Library(tmp_path / "new")
    (row,) = measure(made, alphas=[0.5], time_limit_s=1.0)
    assert row.status.value == "gap" and row.prices is not None and row.gap is not None and row.gap >= 0.0
    wanted = {(MEDIUM, 0.25, "row"), (MEDIUM, 0.75, "row")}
    assert found(Library(made.root)) == wanted


def test_a_published_instance_is_never_changed(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    """A line of the plan whose call makes another instance than the manifest's is refused."""
    plan = [
        (name, dataclasses.replace(line, load=3.0), seed)
        for name, line, seed in measuring.planned()
        if name == TINY
    ]
    monkeypatch.setattr(measuring, "planned", lambda: iter(plan))
    with pytest.raises(EacoError, match="never changed"):
        measure(library, [TINY])


# --- the other commands -----------------------------------------------------------------------------------


def test_list_show_and_export(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """They show the manifest and the table, and write files that `check` takes."""
    assert main(["library", "list", "--grade", "tiny", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)["instances"]
    assert {e["grade"] for e in listed} == {"tiny"}
    assert main(["library", "show", f"library:{TINY}", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown in listed
    assert [v["alpha"] for v in shown["best_known"]] == [0.25, 0.5, 0.75]
    assert main(["library", "list", "--summary", "--json"]) == 0
    grades = json.loads(capsys.readouterr().out)["grades"]
    assert sum(g["instances"] for g in grades) == len(SHIPPED.entries)
    files = [str(tmp_path / "i.json"), str(tmp_path / "s.csv")]
    words = ["library", "export", TINY, "--out", files[0], "--schedule", files[1], "--alpha", "0.75"]
    assert main(words) == 0
    capsys.readouterr()
    assert main(["check", *files, "--grid", "1h", "--json"]) == 0
    objective = json.loads(capsys.readouterr().out)["objective"]
    assert objective == pytest.approx(SHIPPED.values[TINY, 0.75].objective, rel=1e-9)


def test_the_table_of_grades_is_current() -> None:
    """The table in docs/library.md is what `library list --summary` says of the shipped library."""
    page = (Path(__file__).resolve().parents[2] / "docs" / "library.md").read_text(encoding="utf-8")
    lines = page[page.index("| grade | instances |") :].split("\n\n", 1)[0].splitlines()[2:]
    table = [[cell.strip().replace(",", "") for cell in line.strip("|").split("|")] for line in lines]

    def percent(gap: float | None) -> str:
        return f"{100.0 * gap:.3f} %" if gap and gap > 1e-5 else ""

    expected = [
        [
            r["grade"],
            str(r["instances"]),
            " - ".join(map(str, r["jobs"])),
            " - ".join(map(str, r["nodes"])),
            str(r["entries"]),
            str(r["optimal"]),
            str(r["proved_twice"]),
            str(r["gap"]),
            percent(r["median_gap"]),
            percent(r["largest_gap"]),
        ]
        for r in summary(SHIPPED, SHIPPED.entries.values())
    ]
    assert table == expected
    assert page.startswith(f"# The benchmark library\n\n{len(SHIPPED.entries)} instances")


def test_instance_arguments_take_library_names(capsys: pytest.CaptureFixture[str]) -> None:
    """`library:NAME` stands for a file wherever a command takes an instance."""
    assert main(["bound", f"library:{TINY}", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["digest"] == SHIPPED.entries[TINY].digest
    assert document["bound"] <= (SHIPPED.values[TINY, 0.5].objective or 0.0)
    assert main(["bound", "library:nothing"]) == 2
    assert "library list" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        ["list", "--grade", "giant"],
        ["show", "nothing"],
        ["verify", "nothing"],
        ["verify", "--all", "--grade", "tiny"],
        ["submit", "missing.json"],
        ["submit", "x.json", "--alpha", "0.3"],
        ["submit", "x.json", "--out", "a", "--library", "b"],
        ["list", "--library", "missing"],
    ],
    ids=lambda words: "-".join(words),
)
def test_bad_input_ends_with_2(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Unknown names, missing files and options that exclude each other are told, without a traceback."""
    assert main(["library", *words]) == 2
    err = capsys.readouterr().err
    assert err.startswith("error: ") and "Traceback" not in err
