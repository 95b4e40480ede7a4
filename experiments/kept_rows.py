"""Rows of long benchmarks, kept in a file as they come, so that a call that was stopped goes on there."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import platform
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from eaco_opt import __version__
from eaco_opt.errors import EacoError
from eaco_opt.output import write_text

_LOG = logging.getLogger(__name__)


class KeptRows:
    """Rows by key in ``NAME.jsonl`` of a folder; in memory without one.

    Parameters
    ----------
    folder
        Made if it is missing; ``None`` keeps nothing.
    name
        Of the file, without its ending.
    force
        Forget what the file holds.

    Raises
    ------
    EacoError
        The folder is a file.
    """

    def __init__(self, folder: Path | None, name: str, *, force: bool = False) -> None:
        self._rows: dict[str, dict[str, Any]] = {}
        self._file: Path | None = None
        if folder is None:
            return
        if folder.exists() and not folder.is_dir():
            raise EacoError(f"{folder}: expected a folder, found a file; name another folder")
        folder.mkdir(parents=True, exist_ok=True)
        self._file = folder / f"{name}.jsonl"
        self._rows = {} if force else _read(self._file)
        write_text(self._file, "".join(json.dumps(row) + "\n" for row in self._rows.values()), force=True)

    def get(self, key: str) -> dict[str, Any] | None:
        """Return the row with a key, ``None`` if it has not been run."""
        return self._rows.get(key)

    def put(self, key: str, row: Mapping[str, Any]) -> dict[str, Any]:
        """Keep a row; it is on the disk when this returns."""
        kept = {"key": key, **row}
        self._rows[key] = kept
        if self._file is not None:
            with self._file.open("a", encoding="utf-8") as file:
                file.write(json.dumps(kept) + "\n")
                file.flush()
                os.fsync(file.fileno())
        return kept


def key_of(what: Mapping[str, Any]) -> str:
    """Return a key for all that determines a run, the version of this project included."""
    text = json.dumps({**what, "version": __version__}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _read(store: Path) -> dict[str, dict[str, Any]]:
    """Return the rows of a store by key; lines that are no row (half written) are told of."""
    out: dict[str, dict[str, Any]] = {}
    broken = 0
    if store.exists():
        for text in store.read_text(encoding="utf-8", errors="replace").splitlines():
            try:
                row = json.loads(text)
            except json.JSONDecodeError:
                row = None
            if isinstance(row, dict) and isinstance(row.get("key"), str):
                out[row["key"]] = row
            else:
                broken += 1
    if broken:
        _LOG.warning(
            "%s: %d line(s) are no finished run, as is left when a run is stopped while it is written; such "
            "runs are repeated",
            store,
            broken,
        )
    return out


def surroundings(packages: tuple[str, ...]) -> dict[str, Any]:
    """Return versions, machine and load of a run, under the keys that rows have for them.

    Parameters
    ----------
    packages
        Distributions whose versions matter; those that are not installed are left out.
    """
    found = []
    for name in packages:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            continue
    return {
        "load_average": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
        "version": __version__,
        "python": platform.python_version(),
        "packages": ", ".join(found),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
    }


def cpu_s() -> float:
    """Return the CPU time of this process and of its children that have ended [s]."""
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


def surroundings_text(rows: list[dict[str, Any]]) -> list[str]:
    """Return lines of Markdown that say with what, where and under what load rows were measured."""
    text: list[str] = []
    for key, words in (
        ("version", "eaco-opt"), ("python", "Python"), ("packages", "Packages"), ("machine", "Machine"),
    ):  # fmt: skip
        found = sorted({str(row[key]) for row in rows if row.get(key)})
        if found:
            text += ["", f"{words}: {'; '.join(found)}."]
    loads = [row["load_average"] for row in rows if row.get("load_average") is not None]
    if loads:
        text += ["", f"Load average at the end of each run: {min(loads):.1f} to {max(loads):.1f}."]
    return text


def seed_numbers(owner: str, text: str) -> tuple[int, ...]:
    """Return the seeds that a text names: ``10`` is 0 to 9, ``3-5,8`` is 3, 4, 5 and 8.

    Raises
    ------
    EacoError
        The text has another form.
    """
    out: list[int] = []
    parts = [part.strip() for part in text.split(",")]
    try:
        if len(parts) == 1 and "-" not in text:
            out += range(int(text))
        else:
            for part in parts:
                low, _, high = part.partition("-")
                out += range(int(low), int(high or low) + 1)
    except ValueError:
        out = []
    if not out or min(out) < 0:
        raise EacoError(f"{owner}: expected seeds such as 10 (0 to 9), 0-4 or 3,7, got {text!r}")
    return tuple(dict.fromkeys(out))
