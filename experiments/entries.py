"""What users name as rows of a study: registered methods, policy objects, and schedules of their own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from eaco_opt.errors import EacoError
from eaco_opt.policies import POLICIES
from eaco_opt.schedule import Schedule
from eaco_opt.simulator import Policy
from solvers.base import METHODS
from solvers.catalogue import unknown_method
from solvers.policy_runs import is_policy


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A row to be: a registered name, a policy object or a schedule.

    Attributes
    ----------
    label
        Unique among the rows.
    kind
        ``policy``, ``method`` or ``schedule``.
    name
        Registered name, empty for objects and schedules.
    policy, schedule
        The object, ``None`` for names.
    """

    label: str
    kind: str
    name: str = ""
    policy: Policy | None = None
    schedule: Schedule | None = None


def unique(label: str, taken: set[str]) -> str:
    """Return a label that is not taken, with a number where need be, and take it."""
    found, n = label, 1
    while found in taken:
        n += 1
        found = f"{label} ({n})"
    taken.add(found)
    return found


def entries_of(
    owner: str,
    methods: str | Sequence[str | Policy],
    schedules: Sequence[Schedule | tuple[str, Schedule]] = (),
    *,
    also: Sequence[str] = (),
) -> list[Entry]:
    """Return the rows that methods and schedules stand for, in their order.

    Parameters
    ----------
    owner
        The study, for messages.
    methods
        Names (``a,b`` or a list; ``LABEL=name`` gives a label), policy objects, or both.
    schedules
        Schedules, alone or as (label, schedule).
    also
        Names that the study knows besides the registered ones.

    Raises
    ------
    UnknownNameError
        A name is not known.
    EacoError
        A label is used twice or misleads, a thing is neither name nor policy, or there is nothing.
    """
    given: Sequence[str | Policy] = (
        [m.strip() for m in methods.split(",")] if isinstance(methods, str) else methods
    )
    taken: set[str] = set()
    out: list[Entry] = []
    for i, method in enumerate(given):
        if isinstance(method, str):
            label, _, name = method.rpartition("=")
            label = (label or name).strip()
            name = name.strip()
            if name not in POLICIES and name not in METHODS and name not in also:
                raise unknown_method(name)
            if label != name and (label in POLICIES or label in METHODS or label in also):
                raise EacoError(
                    f"{owner}: label {label!r} is the name of a method, but {name!r} is meant; take another"
                )
            if label in taken:
                raise EacoError(
                    f"{owner}: {label!r} is listed twice; leave one out, or give it a label of its own: "
                    f"'LABEL={name}'"
                )
            taken.add(label)
            out.append(Entry(label=label, kind="policy" if name in POLICIES else "method", name=name))
        elif is_policy(method):
            out.append(Entry(label=unique(method.name, taken), kind="policy", policy=method))
        else:
            hint = "; build an object of the class" if isinstance(method, type) else ""
            raise EacoError(
                f"{owner}: methods[{i}] must be a registered name or a policy object with name, "
                f"schedule_class, begin() and decide(), got {method!r}{hint}"
            )
    for schedule in schedules:
        label, found = schedule if isinstance(schedule, tuple) else (schedule.method or "schedule", schedule)
        out.append(Entry(label=unique(label, taken), kind="schedule", schedule=found))
    if not out:
        raise EacoError(f"{owner}: nothing to compare; name at least one method or schedule")
    return out
