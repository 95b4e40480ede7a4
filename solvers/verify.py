"""Nothing is shown before the independent checker has confirmed it.

Every schedule that a method returns is checked from its segments, and the energy, AvgTPE and objective that
were claimed for it are compared with the checker's own. A difference means that the project itself is wrong
somewhere; it is never a warning.
"""

from __future__ import annotations

from eaco_opt.checker import CheckReport, check_report
from eaco_opt.errors import ScheduleError
from eaco_opt.evaluation import Evaluation, Violation, ViolationClass
from eaco_opt.instance import Instance
from eaco_opt.schedule import Schedule

AGREEMENT = 1e-6
"""Largest relative difference between claimed and recomputed values that is put down to rounding."""


class InternalError(RuntimeError):
    """The project contradicts itself; not the user's fault."""


def _physical(report: CheckReport) -> list[Violation]:
    return [v for v in report.violations if v.violation_class is ViolationClass.PHYSICAL]


def verify(
    method: str,
    instance: Instance,
    schedule: Schedule,
    evaluation: Evaluation,
    *,
    grid_s: float | None = None,
) -> CheckReport:
    """Check a method's schedule and the costs claimed for it.

    Parameters
    ----------
    method
        What messages call it.
    instance, schedule, evaluation
        The problem, the answer, and what it is claimed to cost.
    grid_s
        Slot length of grid physics [s]; ``None`` for continuous time.

    Raises
    ------
    InternalError
        A physical rule is broken, or a value differs by more than :data:`AGREEMENT`.
    """
    report = check_report(instance, schedule, grid_s=grid_s)
    physical = _physical(report)
    if physical:
        raise InternalError(
            f"method {method!r}: the checker finds {len(physical)} physical violation(s) in its schedule, "
            f"the first: {physical[0].text}. This is an error of the method or of the checker; please report "
            "it"
        )
    claims = (
        ("energy_kwh", evaluation.energy_j / 3.6e6, report.energy_j / 3.6e6),
        ("avg_tpe_h", evaluation.avg_tpe_s / 3600.0, report.avg_tpe_s / 3600.0),
        ("objective", evaluation.objective, report.objective),
    )
    for name, claimed, found in claims:
        if found is None or not abs(claimed - found) <= AGREEMENT * max(abs(claimed), abs(found)):
            raise InternalError(
                f"method {method!r}: {name} is claimed to be {claimed!r}, the checker recomputes {found!r}. "
                "This is an error of the physics or of the checker; please report it"
            )
    return report


def refuse_violations(
    label: str, instance: Instance, schedule: Schedule, *, grid_s: float | None = None
) -> None:
    """Raise if a user's own schedule breaks a physical rule; late jobs and high loads are counted instead.

    Parameters
    ----------
    label
        What messages call the schedule.
    instance, schedule, grid_s
        As for :func:`verify`.

    Raises
    ------
    ScheduleError
        With the first violations, and where to see all.
    """
    physical = _physical(check_report(instance, schedule, grid_s=grid_s))
    if physical:
        shown = "; ".join(v.text for v in physical[:5])
        more = f"; and {len(physical) - 5} more" if len(physical) > 5 else ""
        raise ScheduleError(
            f"schedule {label!r} breaks {len(physical)} physical rule(s) of instance {instance.name!r}: "
            f"{shown}{more}. `eaco-opt check INSTANCE SCHEDULE` lists them all; compare takes schedules that "
            "can be carried out"
        )
