"""What ships: the package list of `pyproject.toml`, and the wheel that comes of it."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import eaco_opt

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
LISTED: list[str] = PROJECT["tool"]["setuptools"]["packages"]
TOPS = sorted({name.split(".")[0] for name in LISTED})


def test_listed_packages_are_those_on_disk() -> None:
    """The explicit list names every folder with Python files or package data, and nothing else."""
    on_disk = {
        ".".join(path.parent.relative_to(ROOT).parts)
        for top in TOPS
        for path in (ROOT / top).rglob("*")
        if path.suffix in (".py", ".json", ".csv", ".gz") and "__pycache__" not in path.parts
    }
    assert sorted(LISTED) == sorted(on_disk)
    assert len(LISTED) == len(set(LISTED))


def test_every_package_is_one_and_says_what_it_holds() -> None:
    """Each listed package has an `__init__.py` that opens with a docstring."""
    for name in LISTED:
        init = ROOT.joinpath(*name.split("."), "__init__.py")
        assert init.is_file(), f"{name} has no __init__.py"
        first = init.read_text(encoding="utf-8").lstrip()
        assert first.startswith(('"""', 'r"""')), f"{name}/__init__.py does not open with a docstring"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel built from a copy of the tree (a build leaves folders behind)."""
    tmp = tmp_path_factory.mktemp("wheel")
    source = tmp / "source"
    for top in [*TOPS, "tests"]:
        shutil.copytree(ROOT / top, source / top, ignore=shutil.ignore_patterns("__pycache__"))
    for path in ROOT.iterdir():
        if path.is_file() and path.suffix in ("", ".md", ".toml", ".cff"):
            shutil.copy2(path, source / path.name)
    pip = [sys.executable, "-m", "pip", "wheel", "--no-index", "--no-deps", "--no-build-isolation"]
    done = subprocess.run([*pip, "-w", str(tmp), str(source)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (made,) = tmp.glob("*.whl")
    assert made.name.startswith("eaco_opt-")
    assert made.name.endswith("-py3-none-any.whl")
    return made


@pytest.fixture(scope="module")
def wheel_names(wheel: Path) -> list[str]:
    """Names of the files in the wheel."""
    with zipfile.ZipFile(wheel) as archive:
        return archive.namelist()


def test_wheel_holds_every_module_and_data_file(wheel_names: list[str]) -> None:
    """All modules, type markers, JSON schemas and data tables on disk are in the wheel."""
    wanted = {
        path.relative_to(ROOT).as_posix()
        for top in TOPS
        for path in (ROOT / top).rglob("*")
        if path.suffix in (".py", ".typed", ".json", ".csv", ".gz") and "__pycache__" not in path.parts
    }
    assert wanted <= set(wheel_names), sorted(wanted - set(wheel_names))
    assert {f"{top}/py.typed" for top in TOPS} <= set(wheel_names)


def test_wheel_holds_nothing_else(wheel_names: list[str]) -> None:
    """No tests, no tools, no stray file: only the listed packages and the metadata, with the licence."""
    for name in wheel_names:
        folder = name.rpartition("/")[0]
        assert folder.replace("/", ".") in LISTED or folder.partition("/")[0].endswith(".dist-info"), name
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in wheel_names)
    entry_points = [name for name in wheel_names if name.endswith("entry_points.txt")]
    assert len(entry_points) == 1


def test_library_works_from_the_wheel(wheel: Path, tmp_path: Path) -> None:
    """The benchmark library is found and verified where only the wheel's files are, outside the tree."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "installed")
    script = (
        "import sys; sys.path.insert(0, sys.argv[1]); import instances.library as library\n"
        "assert library.__file__.startswith(sys.argv[1]), library.__file__\n"
        "from experiments.cli import main\n"
        "sys.exit(main(['library', 'verify', *list(library.Library().entries)[:2]]))"
    )
    words = [sys.executable, "-I", "-c", script, str(tmp_path / "installed")]
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "all as stated" in done.stdout


def test_one_version_everywhere() -> None:
    """Project file, package and citation name one version; the changelog has a place for the next."""
    version = PROJECT["project"]["version"]
    assert eaco_opt.__version__ == version
    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert "\n## [Unreleased]\n" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_each_declared_dependency_is_explained() -> None:
    """Every dependency of the project file, extras included, has a row in docs/dependencies.md."""
    lines = [*PROJECT["project"]["dependencies"]]
    for more in PROJECT["project"]["optional-dependencies"].values():
        lines += more
    text = (ROOT / "docs" / "dependencies.md").read_text(encoding="utf-8")
    cells = {
        name.strip() for row in text.splitlines() if row.startswith("|") for name in re.split(r"[|,]", row)
    }
    missing = {name for line in lines if (name := re.split(r"[<>=!~\[ ]", line)[0]) not in cells}
    assert not missing


def test_lock_is_hashed_and_portable() -> None:
    """Each entry of the lock is one exact version with hashes; nothing in it names a place to fetch from."""
    text = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    entries = re.split(r"\n(?=[a-z0-9])", text.partition("\n#    make lock\n")[2])
    assert len(entries) > 40
    for entry in entries:
        assert re.match(r"[a-z0-9._-]+==[^ ]+ (; [^\\]+)?\\\n    --hash=sha256:[0-9a-f]{64}", entry), entry[
            :80
        ]
    assert "://" not in text
    assert not re.search(r"^\s*-(-index|-extra|-find|i|f)", text, re.MULTILINE)


def test_lock_covers_the_project_file() -> None:
    """Every core and `dev` dependency is in the lock, at a version that the project file allows."""
    text = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    locked = re.findall(r"^([a-z0-9._-]+)==([^ ]+)", text, re.MULTILINE)
    for line in [*PROJECT["project"]["dependencies"], *PROJECT["project"]["optional-dependencies"]["dev"]]:
        requirement = Requirement(line)
        versions = [version for name, version in locked if name == requirement.name.lower()]
        assert versions, f"{line} is not in requirements.lock: run `make lock`"
        assert all(version in requirement.specifier for version in versions), f"{line}: run `make lock`"
