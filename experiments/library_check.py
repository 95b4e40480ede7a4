"""The benchmark library put to the proof: :func:`verify`, and :func:`submit` for schedules of others.

Nothing here trusts what is written in ``best_known.csv``: digests, feasibility, objectives and, where it is
cheap, bounds are worked out anew, by the independent checker, by the exact arithmetic of
:mod:`solvers.bounds.certificate` and by brute force.
"""

from __future__ import annotations

import dataclasses
import datetime
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from eaco_opt import __version__
from eaco_opt.checker import CheckReport, check_report
from eaco_opt.errors import EacoError, FormatError
from eaco_opt.instance import Instance
from eaco_opt.io import instance_digest, read_instance, read_schedule, write_schedule
from eaco_opt.io_text import read_text, suffixes
from eaco_opt.output import write_text
from eaco_opt.result import Status
from eaco_opt.schedule import Schedule, ScheduleClass
from instances.library import ALPHAS, GRADES, BestKnown, Entry, Library, generated, status_of
from instances.library.store import OPTIMAL_GAP, gap_of, values_text, with_alpha
from solvers import solve
from solvers.bounds import bound
from solvers.bounds.certificate import certified_bound
from solvers.bruteforce import estimate_plans
from solvers.verify import InternalError

SAME = 1e-9
"""Relative difference of recomputed numbers that is rounding."""

MAX_PLANS = 1e9
"""Most plans, by the estimate, of a bound that brute force proves anew without ``deep``."""

DEEP_LIMIT_S = 60.0

Tell = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Something that is not as the library says.

    Attributes
    ----------
    instance, alpha
        Where; ``None`` where it is about the instance itself, ``""`` where about the folder.
    what
        ``file``, ``digest``, ``manifest``, ``row``, ``schedule``, ``objective``, ``bound``, ``gap`` or
        ``status``.
    text
        What was expected and what was found.
    """

    instance: str
    alpha: float | None
    what: str
    text: str

    def row(self) -> dict[str, Any]:
        """Return it under the keys of the command line."""
        return dataclasses.asdict(self)


@dataclass(slots=True, kw_only=True)
class Verified:
    """What :func:`verify` did and found.

    Attributes
    ----------
    instances, entries, schedules
        How many were looked at.
    bounds_proved, bounds_trusted
        Bounds that were worked out anew, and those that would take too long.
    trusted
        (instance, alpha) of the latter.
    problems
        What is wrong.
    """

    instances: int = 0
    entries: int = 0
    schedules: int = 0
    bounds_proved: int = 0
    bounds_trusted: int = 0
    trusted: list[tuple[str, float]] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)

    def document(self) -> dict[str, Any]:
        """Return it ready for JSON."""
        return {
            "ok": not self.problems,
            "instances": self.instances,
            "entries": self.entries,
            "schedules": self.schedules,
            "bounds_proved": self.bounds_proved,
            "bounds_trusted": self.bounds_trusted,
            "problems": [p.row() for p in self.problems],
        }


def chosen_entries(library: Library, names: Sequence[str], grades: Sequence[str]) -> list[Entry]:
    """Return the entries of names and grades; all without either.

    Raises
    ------
    UnknownNameError
        No instance of a name.
    EacoError
        No such grade.
    """
    for grade in grades:
        if grade not in GRADES:
            raise EacoError(f"library: unknown grade {grade!r}; known are: {', '.join(GRADES)}")
    named = [library.entry(name) for name in names]
    if names:
        return [e for e in named if not grades or e.grade in grades]
    return [e for e in library.entries.values() if not grades or e.grade in grades]


def verify(
    library: Library,
    names: Sequence[str] = (),
    *,
    grades: Sequence[str] = (),
    deep: bool = False,
    tell: Tell | None = None,
) -> Verified:
    """Check a library against its own claims.

    Parameters
    ----------
    library
        The library.
    names, grades
        Which instances; all without either.
    deep
        Prove again what takes long: every optimum by each method that is said to have proved it.
    tell
        Called with text, instances done and instances in all.

    Raises
    ------
    EacoError
        A name or grade is unknown, or manifest or table cannot be read at all.
    """
    chosen = chosen_entries(library, names, grades)
    out = Verified()
    for n, entry in enumerate(chosen):
        if tell is not None:
            tell(entry.name, n, len(chosen))
        out.instances += 1
        instance = _verified_instance(out, library, entry)
        for alpha in ALPHAS:
            value = library.values.get((entry.name, alpha))
            if value is None:
                out.problems.append(_problem(entry, alpha, "row", "there is no row in best_known.csv"))
            elif instance is not None:
                out.entries += 1
                _Row(out, library, entry, value, with_alpha(instance, alpha), deep).verify()
    if not names and not grades:
        _strays(out, library)
    return out


def _problem(entry: Entry, alpha: float | None, what: str, text: str) -> Problem:
    return Problem(instance=entry.name, alpha=alpha, what=what, text=text)


def _verified_instance(out: Verified, library: Library, entry: Entry) -> Instance | None:
    """Return an instance, or ``None`` with what is wrong noted; stored ones are generated as well."""
    found: list[tuple[str, Instance]] = []
    try:
        found.append(("its generator call", generated(entry)))
        if entry.file is not None:
            found.append((entry.file, read_instance(library.root / entry.file)))
    except (EacoError, OSError) as error:
        out.problems.append(_problem(entry, None, "file", str(error)))
        return None
    for source, instance in found:
        digest = instance_digest(instance)
        if digest != entry.digest:
            text = f"the manifest says {entry.digest}, {source} gives {digest}"
            out.problems.append(_problem(entry, None, "digest", text))
            return None
    made = found[-1][1]
    stated = {"name": entry.name, "jobs": entry.jobs, "nodes": entry.nodes, "gpus": entry.gpus}
    real = {
        "name": made.name,
        "jobs": len(made.jobs),
        "nodes": len(made.cluster.nodes),
        "gpus": made.cluster.total_gpus(),
    }
    for key, value in stated.items():
        if value != real[key]:
            text = f"the manifest says {key} {value!r}, the instance has {real[key]!r}"
            out.problems.append(_problem(entry, None, "manifest", text))
    return made


def _strays(out: Verified, library: Library) -> None:
    """Note rows and files that belong to nothing."""
    for value in library.values.values():
        if value.instance not in library.entries or value.alpha not in ALPHAS:
            out.problems.append(
                Problem(
                    instance=value.instance,
                    alpha=value.alpha,
                    what="row",
                    text="the row belongs to no instance and alpha of the library",
                )
            )
    wanted = {e.file for e in library.entries.values()}
    for value in library.values.values():
        wanted |= {value.schedule, value.prices}
    for folder in ("files", "schedules", "prices"):
        for path in sorted((library.root / folder).glob("*.json.gz")):
            if f"{folder}/{path.name}" not in wanted:
                out.problems.append(
                    Problem(
                        instance="", alpha=None, what="file", text=f"{folder}/{path.name} belongs to no row"
                    )
                )


@dataclass(slots=True)
class _Row:
    """One row of the table under examination."""

    out: Verified
    library: Library
    entry: Entry
    value: BestKnown
    problem: Instance
    deep: bool

    def say(self, what: str, text: str) -> None:
        self.out.problems.append(_problem(self.entry, self.value.alpha, what, text))

    def verify(self) -> None:
        value, entry = self.value, self.entry
        if (value.schedule_class, value.grid_s) != (entry.schedule_class, entry.grid_s):
            self.say(
                "row",
                f"expected class {entry.schedule_class!r} and grid {entry.grid_s!r}, got "
                f"{value.schedule_class!r} and {value.grid_s!r}",
            )
        gap = gap_of(value.objective, value.bound)
        if (gap is None) != (value.gap is None) or (
            gap is not None and value.gap is not None and abs(gap - value.gap) > SAME
        ):
            self.say("gap", f"objective and bound give {gap!r}, the table says {value.gap!r}")
        status = status_of(value.objective, value.bound)
        if status is not value.status:
            self.say(
                "status", f"objective and bound give {status.value!r}, the table says {value.status.value!r}"
            )
        objective = self.schedule()
        self.bound(objective)

    def schedule(self) -> float | None:
        """Check the best schedule, and return its objective."""
        value = self.value
        if (value.schedule is None) != (value.objective is None):
            self.say("schedule", "objective and schedule must be given together")
        try:
            schedule = self.library.best_schedule(value, self.problem)
        except (EacoError, OSError) as error:
            self.say("schedule", str(error))
            return None
        if schedule is None:
            return None
        self.out.schedules += 1
        if self.entry.grid_s is not None:
            schedule = dataclasses.replace(schedule, schedule_class=ScheduleClass.STATIC)
        report = check_report(self.problem, schedule, grid_s=self.entry.grid_s)
        if not report.feasible:
            self.say("schedule", _violations(report))
            return None
        found = report.objective
        if found is None or value.objective is None or abs(found - value.objective) > SAME * abs(found):
            self.say("objective", f"the checker recomputes {found!r}, the table says {value.objective!r}")
        return found

    def bound(self, objective: float | None) -> None:
        """Work the bound out anew, where that is cheap or asked for."""
        value = self.value
        if value.bound is None:
            self.say("bound", "every row has a bound")
            return
        if objective is not None and value.bound > objective * (1.0 + OPTIMAL_GAP):
            self.say("bound", f"{value.bound!r} is above the objective {objective!r} of the schedule")
        proved = self._proved(objective)
        if proved is None:
            self.out.bounds_trusted += 1
            self.out.trusted.append(value.key)

    def _proved(self, objective: float | None) -> bool | None:
        value = self.value
        if value.prices is not None:
            return self._by_prices(objective)
        if self.entry.grid_s is None:
            self.say("bound", "a bound in continuous time has a file of prices that prove it")
            return False
        methods: list[str] = []
        if estimate_plans(self.problem, self.entry.grid_s) <= MAX_PLANS and self.entry.jobs <= 8:
            methods = ["bruteforce"]
        elif not self.deep:
            # Not a proof of the row's own bound, but of some bound: it must not contradict the schedule.
            least = bound(self.problem, energy=False).value
            if least is not None and objective is not None and least > objective * (1.0 + OPTIMAL_GAP):
                self.say("bound", f"the configuration LP gives {least!r}, above the objective {objective!r}")
        if self.deep:
            methods = list(dict.fromkeys([*methods, *value.proved_by]))
        return self._by_methods(methods)

    def _by_prices(self, objective: float | None) -> bool:
        value = self.value
        try:
            prices = self.library.prices(value)
        except (EacoError, OSError) as error:
            self.say("bound", str(error))
            return False
        if prices is None or len(prices) != self.entry.jobs:
            self.say("bound", f"expected {self.entry.jobs} prices, got {len(prices or [])}")
            return False
        proved = certified_bound(self.problem, np.array(prices))
        exact = None if proved is None else float(proved)
        # What is stated may be cut to the objective, never be more than what the prices prove.
        least = None if exact is None else exact if objective is None else min(exact, objective)
        stated = value.bound or 0.0
        if exact is None or least is None or stated > exact * (1.0 + SAME) or stated < least * (1.0 - SAME):
            self.say("bound", f"its prices prove {exact!r}, the table says {stated!r}")
        self.out.bounds_proved += 1
        return True

    def _by_methods(self, methods: Sequence[str]) -> bool | None:
        value, done = self.value, False
        for method in methods:
            options = {} if method == "bruteforce" else {"process": "shared"}
            found = solve(
                self.problem, method, grid_s=self.entry.grid_s, time_limit_s=DEEP_LIMIT_S, options=options
            )
            if found.status is not Status.OPTIMAL or found.objective is None:
                continue
            done = True
            optimum = found.objective
            if value.objective is not None and abs(value.objective - optimum) > OPTIMAL_GAP * optimum:
                self.say(
                    "objective",
                    f"{method} proves the optimum {optimum!r}, the table says {value.objective!r}",
                )
            # A row that names proofs states the optimum; without one its bound may be less.
            least = optimum * (1.0 - OPTIMAL_GAP) if value.proved_by else 0.0
            if value.bound is None or not least <= value.bound <= optimum * (1.0 + OPTIMAL_GAP):
                self.say("bound", f"{method} proves the optimum {optimum!r}, the table says {value.bound!r}")
        self.out.bounds_proved += done
        return done or None


def _violations(report: CheckReport) -> str:
    shown = "; ".join(x.text for x in report.violations[:3])
    more = len(report.violations) - 3
    return f"it breaks {len(report.violations)} rule(s): {shown}" + (f"; and {more} more" if more > 0 else "")


# --- Submissions ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Submitted:
    """What a schedule is worth beside the best known one, for one alpha.

    Attributes
    ----------
    alpha
        Weight of energy.
    objective, best, bound
        Its objective, the best one known before, and the bound.
    better
        Whether it is better by more than rounding.
    by
        By how much, as a share of the best one known; negative where it is worse, ``None`` where none was
        known.
    value
        The new row, ``None`` if it is not better.
    """

    alpha: float
    objective: float
    best: float | None
    bound: float | None
    better: bool
    by: float | None
    value: BestKnown | None

    def row(self) -> dict[str, Any]:
        """Return it under the keys of the command line."""
        return {
            "alpha": self.alpha,
            "objective": self.objective,
            "best_known": self.best,
            "bound": self.bound,
            "better": self.better,
            "better_by": self.by,
            "status": None if self.value is None else self.value.status.value,
        }


def submitted_schedule(
    library: Library, path: Path, instance: str | None = None
) -> tuple[Entry, Instance, Schedule]:
    """Return the library instance that a schedule file belongs to, and the schedule.

    Parameters
    ----------
    library
        The library.
    path
        JSON, or CSV of segments.
    instance
        Name of the instance; needed where the file does not name its digest.

    Raises
    ------
    EacoError
        The file cannot be read as a schedule of an instance of the library; the text says why.
    """
    if instance is not None:
        entry = library.entry(instance)
    else:
        digest = _digest_in(path)
        if not digest:
            raise EacoError(f"{path}: the file does not say which instance it is for; give --instance NAME")
        by_digest = library.by_digest(digest)
        if by_digest is None:
            raise EacoError(
                f"{path}: the schedule is for the instance with digest {digest}, which is none of the "
                f"library's {len(library.entries)}"
            )
        entry = by_digest
    problem = library.instance(entry.name)
    schedule = read_schedule(path, problem)
    if entry.grid_s is not None:
        schedule = dataclasses.replace(schedule, schedule_class=ScheduleClass.STATIC)
    return entry, problem, dataclasses.replace(schedule, instance_digest=entry.digest)


def _digest_in(path: Path) -> str:
    """Return the digest that a schedule file names, empty without one."""
    if suffixes(path)[0] == ".csv":
        return ""
    try:
        document = json.loads(read_text(path))
    except ValueError as error:
        if isinstance(error, EacoError):
            raise
        raise FormatError(f"{path}: expected a schedule as JSON, got {error}") from None
    found = document.get("instance_digest", "") if isinstance(document, dict) else ""
    return found if isinstance(found, str) else ""


def submit(
    library: Library,
    path: Path,
    *,
    instance: str | None = None,
    alphas: Sequence[float] = ALPHAS,
    method: str | None = None,
    time_s: float | None = None,
    out: Path | None = None,
    write: bool = False,
    force: bool = False,
) -> tuple[Entry, list[Submitted]]:
    """Check a schedule, compare it with the best known ones, and store it where it is better.

    Parameters
    ----------
    library
        What to compare with.
    path, instance
        As for :func:`submitted_schedule`.
    alphas
        Weights of energy to compare with.
    method, time_s
        What found it, the schedule's own word without; how long that took [s].
    out
        Folder for a submission: the schedule for each alpha in which it is better, and ``best_known.csv``
        with the new rows.
    write
        Store it in the library itself, which must not be the one that ships.
    force
        Whether files of ``out`` may be replaced.

    Raises
    ------
    EacoError
        The schedule belongs to no instance of the library, breaks rules, or is better for no alpha; nothing
        is written.
    InternalError
        It costs less than a proved bound: a contradiction, which is not accepted.
    """
    if write and library.own:
        raise EacoError("library submit: the installed library is never written; name a folder of your own")
    entry, problem, schedule = submitted_schedule(library, path, instance)
    if method is not None:
        schedule = dataclasses.replace(schedule, method=method)
    found = [_judged(library, entry, with_alpha(problem, a), schedule, path, time_s) for a in alphas]
    good = [s for s in found if s.value is not None]
    if not good:
        told = "; ".join(
            f"alpha {s.alpha:g}: {s.objective!r}, best known {s.best!r}" + (" (the same)" if _same(s) else "")
            for s in found
        )
        raise EacoError(f"{path}: the schedule of {entry.name!r} is better for no alpha: {told}")
    if write:
        for s in good:
            library.put(_value(s), with_alpha(problem, s.alpha), schedule=schedule)
    if out is not None:
        _write_submission(out, entry, problem, schedule, [_value(s) for s in good], force)
    return entry, found


def _same(s: Submitted) -> bool:
    return s.by is not None and abs(s.by) <= SAME


def _value(s: Submitted) -> BestKnown:
    if s.value is None:
        raise InternalError("a schedule that is not better has no row")
    return s.value


def _judged(
    library: Library, entry: Entry, problem: Instance, schedule: Schedule, path: Path, time_s: float | None
) -> Submitted:
    alpha = problem.objective.alpha
    old = library.values.get((entry.name, alpha))
    if old is None:
        raise EacoError(f"library instance {entry.name!r}: no row for alpha {alpha:g}; known are: {ALPHAS}")
    report = check_report(problem, schedule, grid_s=entry.grid_s)
    if not report.feasible or report.objective is None:
        grid = "in continuous time" if entry.grid_s is None else f"on slots of {entry.grid_s:g} s"
        raise EacoError(
            f"{path}: not a schedule that keeps all rules of {entry.name!r} {grid}: {_violations(report)}. "
            "`eaco-opt check` lists all"
        )
    objective = report.objective
    if old.bound is not None and objective < old.bound * (1.0 - OPTIMAL_GAP):
        raise InternalError(
            f"contradiction: the checker finds {path} to be a schedule of {entry.name!r} with objective "
            f"{objective!r} for alpha {alpha:g}, below the bound {old.bound!r} of {old.bound_method}. "
            "Bound or checker is wrong; the schedule is not accepted. Please report it"
        )
    by = None if old.objective is None else (old.objective - objective) / old.objective
    better = by is None or by > SAME
    value = None
    if better:
        lower = None if old.bound is None else min(old.bound, objective)
        value = dataclasses.replace(
            old,
            status=status_of(objective, lower),
            objective=objective,
            bound=lower,
            gap=gap_of(objective, lower),
            method=schedule.method or "submitted",
            version=__version__,
            time_s=time_s,
            date=datetime.datetime.now(datetime.UTC).date().isoformat(),
        )
    return Submitted(
        alpha=alpha,
        objective=objective,
        best=old.objective,
        bound=old.bound,
        better=better,
        by=by,
        value=value,
    )


def _write_submission(
    out: Path, entry: Entry, problem: Instance, schedule: Schedule, values: Sequence[BestKnown], force: bool
) -> None:
    out.mkdir(parents=True, exist_ok=True)
    rows = []
    for value in values:
        name = f"{entry.name}.a{value.alpha:.2f}.json.gz"
        write_schedule(out / name, schedule, with_alpha(problem, value.alpha), force=force)
        rows.append(dataclasses.replace(value, schedule=f"schedules/{name}"))
    write_text(out / "best_known.csv", values_text(rows), force=force)
