"""Measured tables of other groups, one file each: workloads alone, in pairs, and under power limits.

:func:`read_measurements` is the public face. A format is a class with the methods of :class:`Format` and a
line in :data:`MEASUREMENTS`; other distributions register through the entry points ``eaco_opt.measurements``.
What comes of a table is a :class:`~eaco_opt.profile_set.ProfileSet` with the accounts of its rows
(:class:`Measurements`); docs/predictors.md has a data dictionary for each format.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Protocol

from eaco_opt.errors import TraceError
from eaco_opt.registry import Registry

from ..readers.text import TraceText, read_text
from .base import EPOCH_S, Measurements

MEASUREMENTS = Registry("format of measurements", "eaco_opt.measurements")
MEASUREMENTS.register("profiles", "instances.measurements.own:OwnProfiles")
MEASUREMENTS.register("csv", "instances.measurements.own:OwnCsv")
MEASUREMENTS.register("gavel", "instances.measurements.gavel:GavelTable")
MEASUREMENTS.register("lucid", "instances.measurements.lucid:LucidTable")
MEASUREMENTS.register("zeus", "instances.measurements.zeus:ZeusTable")

__all__ = ["EPOCH_S", "MEASUREMENTS", "Format", "Measurements", "read_measurements"]

MAX_TABLE_BYTES = 256 << 20


class Format(Protocol):
    """What a format of measured tables does; it is built without arguments."""

    def knows(self, text: TraceText) -> bool:
        """Tell by the first lines whether a text is of this format."""
        ...

    def beside(self, text: TraceText) -> Sequence[str]:
        """Return names of files that are read as well if they lie in the same folder."""
        ...

    def read(self, texts: Sequence[TraceText], gpu_type: str | None) -> Measurements:
        """Return what tables hold.

        Parameters
        ----------
        texts
            The files.
        gpu_type
            GPU type that the epoch times are taken to hold for; the one measured without it.

        Raises
        ------
        TraceError
            A file as a whole is not of this format; a single bad row is a note.
        """
        ...


def read_measurements(
    paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    form: str | None = None,
    *,
    gpu_type: str | None = None,
) -> Measurements:
    """Return what measured tables hold; gzip, xz and bzip2 files are decompressed.

    Parameters
    ----------
    paths
        One file, or several that belong together.
    form
        Name in :data:`MEASUREMENTS`; told by the first lines without it.
    gpu_type
        GPU type that the epoch times are taken to hold for; the one measured without it.

    Raises
    ------
    UnknownNameError
        No such format; the text lists the known ones.
    TraceError, FormatError, DomainError
        A file cannot be read or is not of the format.
    """
    files: list[str | os.PathLike[str]] = []
    if isinstance(paths, (str, os.PathLike)):
        files.append(paths)
    else:
        files.extend(paths)
    texts = [read_text(path, limit=MAX_TABLE_BYTES) for path in files]
    if not texts:
        raise TraceError("measurements: expected at least one file, got none")
    name = form or _told(texts[0])
    part: Format = MEASUREMENTS.get(name)()
    known = {os.path.abspath(path) for path in files}
    for path, text in zip(list(files), list(texts), strict=True):
        for other in part.beside(text):
            near = os.path.join(os.path.dirname(os.fspath(path)), other)
            if os.path.isfile(near) and os.path.abspath(near) not in known:
                known.add(os.path.abspath(near))
                texts.append(read_text(near, limit=MAX_TABLE_BYTES))
    return part.read(texts, gpu_type)


def _told(text: TraceText) -> str:
    """Return the format of a text."""
    for name in MEASUREMENTS:
        if MEASUREMENTS.get(name)().knows(text):
            return str(name)
    raise TraceError(
        f"{text.file}: its first lines tell no format of measurements; expected one of "
        f"{', '.join(MEASUREMENTS)} (docs/predictors.md has their columns), name it with --format (form from "
        "Python) to see what is wrong"
    )
