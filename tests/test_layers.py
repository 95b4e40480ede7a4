"""The floors of the house: who may import whom, and what must not be in the repository.

Imports are read with `ast`, so those inside functions and under TYPE_CHECKING count too. Strings such as
`"solvers.mpc:MPC"` in a registry are no imports: that is how a lower floor names an upper one.
"""

from __future__ import annotations

import ast
import hashlib
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

# Each shipped folder, and the project's modules that it may import besides its own.
FLOORS: dict[str, tuple[str, ...]] = {
    "eaco_opt": (),
    "formulations": ("eaco_opt",),
    "instances": ("eaco_opt",),
    "solvers": ("eaco_opt", "formulations"),
    "paper_figs": ("eaco_opt", "instances.paper"),
    "experiments": ("eaco_opt", "formulations", "instances", "solvers", "paper_figs"),
}

# Third parties that only some places may import; all others are free to every floor that is not named below.
ONLY_IN: dict[str, tuple[str, ...]] = {
    "pulp": ("formulations", "solvers"),
    "ortools": ("formulations", "solvers"),
    "highspy": ("formulations", "solvers"),
    "pyscipopt": ("formulations", "solvers"),
    "typer": ("experiments",),
    "matplotlib": ("paper_figs", "experiments"),
    "dask": ("experiments",),
    "distributed": ("experiments",),
    "sklearn": ("instances.predictors",),
}

# The ground floor takes no more than the physics needs.
GROUND = {"numpy", "scipy", "pandas", "networkx", "numba", "jsonschema"}

# What a bare `import eaco_opt` must not load: it stays quick, and works where no solver is installed.
HEAVY = {"pandas", "numba", "networkx", "matplotlib", "pulp", "ortools", "highspy", "pyarrow", "typer"}


def modules() -> Iterator[tuple[str, str, bool]]:
    """Yield dotted name, text, and whether it is a package, of every shipped module."""
    for top in FLOORS:
        for path in sorted((ROOT / top).rglob("*.py")):
            is_package = path.name == "__init__.py"
            place = path.parent if is_package else path.with_suffix("")
            yield ".".join(place.relative_to(ROOT).parts), path.read_text(encoding="utf-8"), is_package


def imports(name: str, text: str, is_package: bool) -> set[tuple[str, int]]:
    """Return each module that `text` imports, absolute, with its line; `from a import b` gives `a.b`.

    Whether `b` is a module or a name in one cannot be told from the text; both are below `a`, which is all
    that the rules ask.
    """
    found: set[tuple[str, int]] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found |= {(alias.name, node.lineno) for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = name.split(".")
                above = above[: len(above) - node.level + is_package]
                base = ".".join([*above, base] if base else above)
            found |= {(f"{base}.{alias.name}", node.lineno) for alias in node.names}
    return found


def below(module: str, folder: str) -> bool:
    """Tell whether `module` is `folder` or lies in it."""
    return module == folder or module.startswith(folder + ".")


def broken_rules(name: str, text: str, is_package: bool = False) -> list[str]:
    """Return a line of text for each import of module `name` that the floors forbid."""
    own = name.split(".")[0]
    allowed = (own, *FLOORS[own])
    said = []
    for module, line in sorted(imports(name, text, is_package)):
        top = module.split(".")[0]
        where = f"{name}:{line} imports {module}"
        if top == "tests":
            said.append(f"{where}: shipped code never imports tests")
        elif top in FLOORS:
            if not any(below(module, folder) for folder in allowed):
                said.append(f"{where}: {own} may import {', '.join(FLOORS[own]) or 'no other folder'}")
        elif top in ONLY_IN and not any(below(name, folder) for folder in ONLY_IN[top]):
            said.append(f"{where}: {top} belongs to {', '.join(ONLY_IN[top])}")
        elif own == "eaco_opt" and top not in GROUND and top not in sys.stdlib_module_names:
            said.append(f"{where}: eaco_opt takes only the standard library and {', '.join(sorted(GROUND))}")
        elif own == "eaco_opt" and top == "numba" and not below(name, "eaco_opt.kernels"):
            said.append(f"{where}: numba belongs to eaco_opt.kernels")
    return said


def test_imports_run_downward_only() -> None:
    """No shipped module imports a floor above it, a folder beside it, or a library kept to other floors."""
    said = [line for module in modules() for line in broken_rules(*module)]
    assert not said, "\n".join(said)


def test_every_shipped_folder_has_a_floor() -> None:
    """The folders with a rule above are those of the package list."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert {name.split(".")[0] for name in project["tool"]["setuptools"]["packages"]} == set(FLOORS)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("eaco_opt.job", "import instances"),
        ("eaco_opt.job", "def f():\n    from solvers import solve"),
        ("eaco_opt.job", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import experiments.cli"),
        ("eaco_opt.job", "import highspy"),
        ("eaco_opt.job", "import numba"),
        ("eaco_opt.job", "import rich.progress"),
        ("formulations.grid", "from instances.paper import profiles"),
        ("instances.paper", "from formulations import grid"),
        ("solvers.mpc", "import instances.paper"),
        ("paper_figs.gantt", "from instances import generators"),
        ("paper_figs.gantt", "from instances.readers import gavel"),
        ("paper_figs.gantt", "from solvers import solve"),
        ("experiments.compare", "import pulp"),
        ("experiments.compare", "from ortools.sat.python import cp_model"),
        ("experiments.compare", "import tests.oracle"),
        ("instances.readers.gavel", "from ...solvers import solve"),
    ],
)
def test_the_rules_catch(name: str, text: str) -> None:
    """Each of these imports breaks exactly one rule, and the rule names the module and the line."""
    said = broken_rules(name, text)
    assert len(said) == 1
    assert said[0].startswith(f"{name}:{text.count(chr(10)) + 1} imports ")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("eaco_opt.kernels.simulate", "import numba\nfrom ..job import Job\nfrom . import fast"),
        ("eaco_opt.registry", 'MPC = "solvers.mpc:MPC"'),
        ("solvers.highs", "import highspy\nfrom formulations.grid import Grid\nimport eaco_opt"),
        ("paper_figs.table3", "from instances.paper import TABLE_3\nfrom instances import paper"),
        ("experiments.cli", "import typer\nimport solvers, instances, formulations, paper_figs, eaco_opt"),
    ],
)
def test_the_rules_allow(name: str, text: str) -> None:
    """Downward imports, a folder's own modules and registry strings break no rule."""
    assert broken_rules(name, text) == []


def test_relative_imports_are_resolved() -> None:
    """A dot means the package for a module, and the package itself for its `__init__`."""
    assert imports("a.b.c", "from . import x", is_package=False) == {("a.b.x", 1)}
    assert imports("a.b.c", "from ..d import x", is_package=False) == {("a.d.x", 1)}
    assert imports("a.b", "from .d import x", is_package=True) == {("a.b.d.x", 1)}


def test_third_parties_are_declared() -> None:
    """Whatever shipped code imports is in the standard library or a declared dependency."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lines = [*project["dependencies"]]
    for extra, more in project["optional-dependencies"].items():
        lines += more if extra not in ("dev", "docs") else []
    names = {re.split(r"[^A-Za-z0-9_-]", line)[0].lower() for line in lines}
    names = {{"scikit-learn": "sklearn"}.get(name, name) for name in names}
    known = sys.stdlib_module_names | names | set(FLOORS)
    unknown = {
        f"{name}:{line} imports {module}"
        for name, text, is_package in modules()
        for module, line in imports(name, text, is_package)
        if module.split(".")[0] not in known
    }
    assert not unknown, "\n".join(sorted(unknown))


def test_bare_import_is_light() -> None:
    """`import eaco_opt` in a fresh process loads no solver, no compiler and no table or plot library."""
    code = f"import eaco_opt, sys; print(*sorted({HEAVY!r} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == []


def committed() -> list[Path]:
    """Return the files that git tracks, skipping the test outside a repository."""
    try:
        done = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("not in a git repository, or no git: nothing to look through")
    paths = [ROOT / name.decode() for name in done.stdout.split(b"\0") if name]
    return [path for path in paths if path.is_file()]


# Put together from parts, so that this file does not find itself.
MACHINE_FOLDERS = ["work", "home", "root", "Users", "opt/" + "pypi", "opt/" + "wheels"]
MACHINE_PATH = re.compile(
    rb"(?<![\w.~)}])(?:[A-Za-z]:)?[/\\](?:" + "|".join(MACHINE_FOLDERS).encode() + rb")[/\\]"
)
REGISTRY_HOSTS = [
    ".".join(parts).encode()
    for parts in (("pypi", "org"), ("pythonhosted", "org"), ("npmjs", "org"), ("deb", "debian", "org"))
]


def test_nothing_committed_names_a_machine_or_a_registry() -> None:
    """No committed file holds a path of somebody's machine or the host name of a package registry."""
    said = []
    for path in committed():
        for number, line in enumerate(path.read_bytes().splitlines(), 1):
            hits = [match.group().decode() for match in MACHINE_PATH.finditer(line)]
            hits += [host.decode() for host in REGISTRY_HOSTS if host in line.lower()]
            said += [f"{path.relative_to(ROOT)}:{number}: {hit}" for hit in hits]
    assert not said, "\n".join(said)


@pytest.mark.parametrize("before", ["", " ", '"', "=", "file://", "C:", "a:"])
def test_a_machine_path_is_seen_in_any_place(before: str) -> None:
    """The pattern sees a path at the start of a line and after its usual neighbours."""
    assert MACHINE_PATH.search(f"{before}/{'home'}/somebody/eaco".encode())


@pytest.mark.parametrize("before", ["frame", "..", ".", "~", "$HOME", "$(ROOT)", "{root}"])
def test_a_relative_path_is_no_machine_path(before: str) -> None:
    """The pattern passes over the same folder name below another folder or a variable."""
    assert not MACHINE_PATH.search(f"{before}/{'home'}/somebody/eaco".encode())


def test_no_data_of_others_is_committed(data_dir: Path) -> None:
    """No committed file equals, byte for byte, a file of the data folder."""

    def digest(path: Path) -> str:
        return hashlib.sha256(path.read_bytes()).hexdigest()

    theirs = {digest(path): path for path in data_dir.rglob("*") if path.is_file() and path.stat().st_size}
    assert theirs, f"{data_dir} holds no file"
    ours = {path.relative_to(ROOT): digest(path) for path in committed()}
    same = [f"{path} is {theirs[found].name}" for path, found in ours.items() if found in theirs]
    assert not same, "\n".join(same)
