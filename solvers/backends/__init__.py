"""Back ends of the method ``milp``: the programmes that solve its model, one small class each.

:data:`BACKENDS` names them; other distributions add theirs through the entry points of its group.
"""

from __future__ import annotations

from typing import Any

from eaco_opt.errors import EacoError
from eaco_opt.registry import Registry

from .base import Backend

BACKENDS = Registry("back end", "eaco_opt.backends")
"""What can solve the model of ``milp``; the first is the default."""

BACKENDS.register("highs", "solvers.backends.highs:Highs")
BACKENDS.register("cbc", "solvers.backends.cbc:Cbc")
BACKENDS.register("scip", "solvers.backends.scip:Scip")
BACKENDS.register("gurobi", "solvers.backends.commercial:Gurobi")
BACKENDS.register("cplex", "solvers.backends.commercial:Cplex")
BACKENDS.register("xpress", "solvers.backends.commercial:Xpress")
BACKENDS.register("mosek", "solvers.backends.commercial:Mosek")
BACKENDS.register("copt", "solvers.backends.commercial:Copt")

DEFAULT = "highs"


class MissingBackendError(EacoError):
    """A back end is not installed here; the text says how to get it."""


def backend(name: str) -> Backend:
    """Return a back end that can be used here.

    Raises
    ------
    UnknownNameError
        There is none of that name; the text lists the known ones.
    MissingBackendError
        It is not installed.
    """
    found: Backend = BACKENDS.get(name)()
    if not found.available():
        here = ", ".join(other for other in BACKENDS if BACKENDS.get(other)().available())
        raise MissingBackendError(
            f"back end {name!r} is not installed here: {found.how_to_get}. Installed are: {here}"
        )
    return found


def backends() -> list[dict[str, Any]]:
    """Return what there is, ready for JSON: name, title, package, abilities, availability, how to get it."""
    out = []
    for name in BACKENDS:
        made: Backend = BACKENDS.get(name)()
        out.append(
            {
                "name": name,
                "title": made.title,
                "package": made.package,
                "abilities": list(made.abilities),
                "available": made.available(),
                "how_to_get": made.how_to_get,
            }
        )
    return out


__all__ = ["BACKENDS", "DEFAULT", "Backend", "MissingBackendError", "backend", "backends"]
