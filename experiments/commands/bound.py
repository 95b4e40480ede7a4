"""``eaco-opt bound``: a lower bound on the objective and the energy of every schedule."""

from __future__ import annotations

import dataclasses
from typing import Annotated

import typer

from ..console import Out, amount
from . import options as o


def command(
    instance: o.InstanceArgument,
    kind: Annotated[
        str,
        typer.Option(
            "--kind",
            metavar="auto|closed-form|configuration-lp",
            help="Where the bound comes from; auto: the largest that can be had.",
        ),
    ] = "auto",
    alpha: o.AlphaOption = None,
    time_limit: o.TimeLimitOption = "5min",
    json: o.JsonFlag = False,
    quiet: o.QuietFlag = False,
) -> None:
    """Bound the objective and the energy of every schedule from below, whatever its class.

    Exit code 3 says that no schedule keeps all rules.
    """
    screen = Out(json=json, quiet=quiet)
    limit = None if time_limit is None else o.seconds(time_limit)
    from solvers.bounds import bound

    problem = o.read(instance)
    if alpha is not None:
        objective = dataclasses.replace(problem.objective, alpha=alpha)
        problem = dataclasses.replace(problem, objective=objective)
    screen.warn_of_compiling()
    with screen.progress("bound") as bar:

        def tell(_: float, value: float | None, lp_value: float | None) -> None:
            left = "" if lp_value is None or value is None else f", at most {amount(lp_value)}"
            bar.at(0.0, text=f"bound {'' if value is None else amount(value)}{left}")

        found = bound(problem, kind, time_limit_s=limit, progress=tell)
    screen.document(found.row())
    if found.infeasible:
        screen.say(f"no schedule keeps all rules: {found.message}")
        raise typer.Exit(3)
    if found.value is not None:
        screen.say(f"objective  at least {amount(found.value)}  ({found.kind})")
    if found.energy_kwh is not None:
        screen.say(f"energy     at least {amount(found.energy_kwh)} kWh")
    if found.closed_form is not None and found.kind != "closed-form":
        screen.say(f"closed form        {amount(found.closed_form)}")
    if not found.converged and found.lp_value is not None:
        screen.note(f"not converged: more time would raise the bound to at most {amount(found.lp_value)}")
