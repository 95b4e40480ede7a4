"""How the values of the benchmark library come about: ``eaco-opt library measure``.

Entries on a grid (tiny, small) are solved exactly: by brute force, and by both formulations, each by itself.
Entries in continuous time get the bound of the configuration LP, with the prices that prove it, and the best
schedule of the search. What is better than the stored value replaces it. Finished work is kept
(:mod:`experiments.kept_rows`), and each entry is on the disk before the next begins.
"""

from __future__ import annotations

import dataclasses
import datetime
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from eaco_opt import __version__
from eaco_opt.checker import check_report
from eaco_opt.errors import EacoError
from eaco_opt.instance import Instance
from eaco_opt.io import instance_digest
from eaco_opt.result import Result, Status
from eaco_opt.schedule import Schedule
from instances.library import ALPHAS, GRADES, BestKnown, Entry, Library, generated, planned, status_of
from instances.library import Status as Known
from instances.library.plan import STORED, Line
from instances.library.store import gap_of, with_alpha
from solvers import solve
from solvers.bounds import bound
from solvers.verify import InternalError

from .kept_rows import KeptRows, key_of

SAME = 1e-9
"""Relative difference of objectives that is rounding."""

AGREEMENT = 1e-6
"""Relative difference of two proved optima above which the project contradicts itself."""

PROOFS = {"tiny": ("bruteforce", "milp"), "small": ("cpsat", "milp")}
"""Methods that prove the optimum of each grade, both in any case."""

LAST_RESORT = ("branch-and-price", "bruteforce")
"""Methods that are tried while there are fewer than two proofs."""

LIMITS_S = {"tiny": 10.0, "small": 30.0, "medium": 20.0, "large": 60.0, "paper-scale": 120.0}
"""Time limits [s] of an entry if none is given."""

POLICIES = ("eaco", "gandiva", "fifo_packed")
"""Policies that are run besides the search: it does not move jobs on several nodes, and is static."""

SHARE_OF_BOUND = 0.6
"""Share of an entry's time that the bound may take; the search has the rest."""

Tell = Callable[[str, int, int], None]


@dataclass(slots=True, kw_only=True)
class Found:
    """What a run on one entry found."""

    objective: float | None = None
    schedule: Schedule | None = None
    method: str = ""
    bound: float | None = None
    bound_method: str = ""
    prices: list[float] | None = None
    proved_by: list[str] = field(default_factory=list)


def make_instances(library: Library) -> list[str]:
    """Bring manifest and files up to the plan, and return the names that are new.

    Raises
    ------
    EacoError
        A planned instance has another digest than the manifest says: its generator was changed, and all
        values of the old one would be lost.
    """
    known = library.entries if library.manifest_file.exists() else {}
    entries: list[Entry] = []
    new: list[str] = []
    for name, line, seed in planned():
        entry, instance = _planned_entry(name, line, seed)
        old = known.get(name)
        if old is not None and old.digest != entry.digest:
            raise EacoError(
                f"library instance {name!r}: its generator call makes digest {entry.digest}, the manifest "
                f"says {old.digest}; an instance that was published is never changed: give the line another "
                "name"
            )
        if old is None:
            new.append(name)
        if old != entry:
            library.write_instance(entry, instance)
        entries.append(entry)
    order = {grade: i for i, grade in enumerate(GRADES)}
    entries.sort(key=lambda e: order[e.grade])
    if entries != list(known.values()):
        library.write_manifest(entries)
    return new


def _planned_entry(name: str, line: Line, seed: int) -> tuple[Entry, Instance]:
    entry = Entry(
        name=name,
        grade=line.grade,
        family=line.family,
        jobs=line.jobs,
        nodes=line.nodes,
        gpus=0,
        grid_s=line.grid_s,
        generator=line.call(seed),
        digest="",
        file=f"files/{name}.json.gz" if line.grade in STORED else None,
    )
    made = generated(entry)
    return dataclasses.replace(entry, gpus=made.cluster.total_gpus(), digest=instance_digest(made)), made


def measure(
    library: Library,
    names: Sequence[str] = (),
    *,
    grades: Sequence[str] = (),
    alphas: Sequence[float] = ALPHAS,
    time_limit_s: float | None = None,
    seed: int = 0,
    threads: int = 1,
    work: Path | None = None,
    force: bool = False,
    tell: Tell | None = None,
) -> list[BestKnown]:
    """Find better values of entries, store them in the library, and return the rows as they are then.

    Parameters
    ----------
    library
        A folder of one's own, not the package; instances of the plan that it lacks are made first.
    names, grades, alphas
        Which entries; all instances without names and grades.
    time_limit_s
        Wall-clock limit of one entry [s], of each method where there are two; :data:`LIMITS_S` without.
    seed, threads
        Of the search and the solvers.
    work
        Folder that remembers which entries were measured with these limits, so that a call that was stopped
        goes on there.
    force
        Forget what the folder remembers.
    tell
        Called with text, entries done and entries in all.

    Raises
    ------
    UnknownNameError
        No instance of a name.
    EacoError
        A grade is unknown, or an instance is not the one that the manifest means.
    InternalError
        Two proofs contradict each other, or a schedule costs less than a proved bound.
    """
    if library.own:
        raise EacoError("library measure: the installed library is never written; name a folder of your own")
    for grade in grades:
        if grade not in GRADES:
            raise EacoError(f"library: unknown grade {grade!r}; known are: {', '.join(GRADES)}")
    library.root.mkdir(parents=True, exist_ok=True)
    make_instances(library)
    chosen = [library.entry(name) for name in names]
    if not names:
        chosen = [e for e in library.entries.values() if not grades or e.grade in grades]
    kept = KeptRows(work, "library", force=force)
    out: list[BestKnown] = []
    for n, entry in enumerate(chosen):
        limit = LIMITS_S[entry.grade] if time_limit_s is None else time_limit_s
        instance = library.instance(entry.name)
        for alpha in alphas:
            if tell is not None:
                tell(f"{entry.name} alpha {alpha:g}", n, len(chosen))
            # What others have improved meanwhile is not overwritten.
            library.__dict__.pop("values", None)
            old = library.values.get((entry.name, alpha)) if library.values_file.exists() else None
            key = key_of({"digest": entry.digest, "alpha": alpha, "limit_s": limit, "seed": seed})
            if old is None or kept.get(key) is None:
                began = time.monotonic()
                problem = with_alpha(instance, alpha)
                starts = _stored(library, entry, problem)
                found = _found(entry, problem, limit, seed, threads, starts)
                old = improved(library, entry, problem, old, found, time.monotonic() - began)
                kept.put(key, old.row())
            out.append(old)
    return out


def _stored(library: Library, entry: Entry, problem: Instance) -> list[tuple[float, Schedule]]:
    """Return (objective, schedule) of what is stored of an instance with any alpha, best first."""
    out: list[tuple[float, Schedule]] = []
    if not library.values_file.exists():
        return out
    for value in library.values.values():
        if value.instance == entry.name:
            schedule = library.best_schedule(value, problem)
            if schedule is not None:
                report = check_report(problem, schedule, grid_s=entry.grid_s)
                if report.feasible and report.objective is not None:
                    out.append((report.objective, schedule))
    return sorted(out, key=lambda pair: pair[0])


def _found(
    entry: Entry,
    problem: Instance,
    limit_s: float,
    seed: int,
    threads: int,
    starts: Sequence[tuple[float, Schedule]],
) -> Found:
    found = Found()
    if starts:
        found.objective, found.schedule = starts[0]
        found.method = found.schedule.method
    if entry.grid_s is None:
        _continuous(found, problem, limit_s, seed, threads, starts)
    else:
        _on_grid(found, entry, problem, limit_s, seed, threads)
    return found


def _take(found: Found, result: Result) -> None:
    """Take what a method found where it is better."""
    value = result.objective
    if value is None or result.evaluation is None or not result.evaluation.feasible:
        return
    if found.objective is None or value < found.objective * (1.0 - SAME):
        found.objective, found.schedule, found.method = value, result.schedule, result.method


def _continuous(
    found: Found,
    problem: Instance,
    limit_s: float,
    seed: int,
    threads: int,
    starts: Sequence[tuple[float, Schedule]],
) -> None:
    began = time.monotonic()
    lower = bound(problem, time_limit_s=limit_s * SHARE_OF_BOUND, energy=False)
    if lower.infeasible:
        raise EacoError(f"library instance {problem.name!r} has no schedule: {lower.message}")
    found.bound, found.bound_method = lower.value, lower.kind
    found.prices = None if lower.prices is None else [float(x) for x in lower.prices]
    start = next((schedule for _, schedule in starts if _is_static(schedule)), None)
    for policy in POLICIES:
        _take(found, solve(problem, policy, seed=seed))
        if found.schedule is not None and _is_static(found.schedule):
            start = found.schedule
    left = max(limit_s - (time.monotonic() - began), limit_s * (1.0 - SHARE_OF_BOUND))
    _take(found, solve(problem, "lns", time_limit_s=left, seed=seed, threads=threads, start=start))


def _is_static(schedule: Schedule) -> bool:
    return len({s.job for s in schedule.segments}) == len(schedule.segments)


def _on_grid(found: Found, entry: Entry, problem: Instance, limit_s: float, seed: int, threads: int) -> None:
    for method in dict.fromkeys((*PROOFS[entry.grade], *LAST_RESORT)):
        if method not in PROOFS[entry.grade] and len(found.proved_by) > 1:
            continue
        own = {} if method == "bruteforce" else {"process": "shared"}
        try:
            result = solve(
                problem,
                method,
                grid_s=entry.grid_s,
                time_limit_s=limit_s,
                seed=seed,
                threads=threads,
                options=own,
            )
        except EacoError as error:  # too many plans, or a feature that the method does not cover
            if method in PROOFS[entry.grade]:
                raise EacoError(f"library instance {entry.name!r}, method {method!r}: {error}") from error
            continue
        if result.status is Status.INFEASIBLE:
            raise EacoError(
                f"library instance {entry.name!r} has no schedule on its grid ({method} proves it)"
            )
        _take(found, result)
        if result.bound is not None and (found.bound is None or result.bound > found.bound):
            found.bound, found.bound_method = result.bound, method
        if result.status is Status.OPTIMAL:
            if result.objective is not None and found.objective is not None:
                if result.objective > found.objective * (1.0 + AGREEMENT):
                    raise InternalError(
                        f"library instance {entry.name!r}: {method} proves {result.objective!r} to be the "
                        f"optimum, but {found.method} found {found.objective!r}"
                    )
            found.proved_by.append(method)


def improved(
    library: Library, entry: Entry, problem: Instance, old: BestKnown | None, found: Found, time_s: float
) -> BestKnown:
    """Store what was found where it is better than the stored row, and return the row.

    Parameters
    ----------
    library, entry, problem
        Where, which, and the instance with the row's alpha.
    old
        The stored row, ``None`` without one.
    found, time_s
        What a run found, and how long it took [s].
    """
    alpha = problem.objective.alpha
    best = old or BestKnown(
        instance=entry.name, alpha=alpha, schedule_class=entry.schedule_class, grid_s=entry.grid_s,
        status=status_of(None, None), objective=None, bound=None, gap=None, method="", bound_method="",
        proved_by=(), version=__version__, time_s=None, date="", schedule=None, prices=None,
    )  # fmt: skip
    schedule = prices = None
    changes: dict[str, object] = {}
    objective, lower = best.objective, best.bound
    if found.schedule is not None:
        report = check_report(problem, found.schedule, grid_s=entry.grid_s)
        if not report.feasible or report.objective is None:
            raise InternalError(
                f"library instance {entry.name!r}: the schedule of {found.method} breaks rules"
            )
        if objective is None or report.objective < objective * (1.0 - SAME):
            objective, schedule = report.objective, found.schedule
            changes |= {"objective": objective, "method": found.method}
    if found.bound is not None and (lower is None or found.bound > lower):
        lower, prices = found.bound, found.prices
        changes |= {"bound_method": found.bound_method, "prices": None}
    if objective is not None and lower is not None:
        if lower > objective * (1.0 + AGREEMENT):
            raise InternalError(
                f"library instance {entry.name!r}, alpha {alpha:g}: the bound {lower!r} of "
                f"{found.bound_method or best.bound_method} is above the objective {objective!r} of a "
                "schedule"
            )
        lower = min(lower, objective)
    proved = tuple(dict.fromkeys([*best.proved_by, *found.proved_by]))
    changes |= {"bound": lower, "gap": gap_of(objective, lower), "status": status_of(objective, lower)}
    if schedule is not None or "bound_method" in changes or proved != best.proved_by:
        today = datetime.datetime.now(datetime.UTC).date().isoformat()
        changes |= {"version": __version__, "time_s": round(time_s, 2), "date": today}
    row = dataclasses.replace(best, proved_by=proved, **changes)  # type: ignore[arg-type]
    return library.put(row, problem, schedule=schedule, prices=prices)


def summary(library: Library, entries: Iterable[Entry]) -> list[dict[str, Any]]:
    """Return one row a grade: instances, sizes, and how many entries have each status."""
    groups: dict[str, list[Entry]] = {}
    for entry in entries:
        groups.setdefault(entry.grade, []).append(entry)
    out: list[dict[str, Any]] = []
    for grade in GRADES:
        group = groups.get(grade)
        if not group:
            continue
        names = {e.name for e in group}
        values = [v for v in library.values.values() if v.instance in names]
        gaps = sorted(v.gap for v in values if v.gap is not None)
        count = {status.value: sum(v.status is status for v in values) for status in Known}
        out.append(
            {
                "grade": grade,
                "instances": len(group),
                "jobs": [min(e.jobs for e in group), max(e.jobs for e in group)],
                "nodes": [min(e.nodes for e in group), max(e.nodes for e in group)],
                "entries": len(values),
                "optimal": count["optimal"],
                "proved_twice": sum(len(v.proved_by) > 1 for v in values),
                "gap": count["gap"],
                "bound_only": count["bound only"],
                "median_gap": gaps[len(gaps) // 2] if gaps else None,
                "largest_gap": gaps[-1] if gaps else None,
            }
        )
    return out
