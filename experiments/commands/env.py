"""``eaco-opt env``: versions, for reports and records."""

from __future__ import annotations

import platform
import re
from importlib import metadata
from importlib.util import find_spec

from ..console import Out
from . import options as o

CPSAT = {
    "title": "CP-SAT",
    "package": "ortools",
    "available": find_spec("ortools") is not None,
    "how_to_get": "it belongs to eaco-opt; pip install ortools",
}
"""The solver behind the method ``cpsat``, in the form of a back end."""

FALLBACK = (
    "numpy", "scipy", "pandas", "networkx", "pulp", "ortools", "highspy", "numba", "typer", "rich",
    "matplotlib", "pyarrow", "jsonschema",
)  # fmt: skip
"""Core dependencies, for a tree that is used without being installed."""


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _declared() -> list[str]:
    try:
        lines = metadata.requires("eaco-opt") or []
    except metadata.PackageNotFoundError:
        return list(FALLBACK)
    return list(dict.fromkeys(re.split(r"[^A-Za-z0-9._-]", line, maxsplit=1)[0] for line in lines))


def command(json: o.JsonFlag = False, quiet: o.QuietFlag = False) -> None:
    """Print the versions of this program, Python, packages and solvers."""
    screen = Out(json=json, quiet=quiet)
    from eaco_opt import __version__
    from solvers.backends import backends

    packages = {name: version for name in _declared() if (version := _version(name)) is not None}
    solvers = [
        {"name": s["title"], "package": s["package"], "version": _version(s["package"])}
        | {"available": s["available"], "how_to_get": s["how_to_get"]}
        for s in [*backends(), CPSAT]
    ]
    document = {
        "version": __version__,
        "python": platform.python_version(),
        "implementation": platform.python_implementation(),
        "platform": platform.platform(),
        "packages": packages,
        "solvers": solvers,
    }
    screen.document(document)
    screen.say(
        f"eaco-opt {__version__}, {document['implementation']} {document['python']} on {document['platform']}"
    )
    screen.table(["package", "version"], [[name, version] for name, version in packages.items()], left=2)
    here = [f"{s['name']} ({s['package']} {s['version'] or '?'})" for s in solvers if s["available"]]
    screen.say("solvers: " + (", ".join(here) or "none"))
    for s in solvers:
        if not s["available"]:
            screen.say(f"not here: {s['name']}: {s['how_to_get']}")
