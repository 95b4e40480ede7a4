"""``eaco-opt env``: versions, for reports and records."""

from __future__ import annotations

import platform
import re
from importlib import metadata

from ..console import Out
from . import options as o

SOLVERS = {"highspy": "HiGHS", "pulp": "CBC (by PuLP)", "ortools": "CP-SAT", "pyscipopt": "SCIP"}
"""Distributions that bring a solver."""

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

    packages = {name: version for name in _declared() if (version := _version(name)) is not None}
    solvers = [
        {"name": text, "package": name, "version": version}
        for name, text in SOLVERS.items()
        if (version := _version(name)) is not None
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
    screen.say("solvers: " + (", ".join(f"{s['name']} {s['version']}" for s in solvers) or "none"))
