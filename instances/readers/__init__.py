"""Trace readers, one file each: a trace file of another group becomes an instance.

:func:`import_trace` is the public face. Every reader works in two halves: text to plain columns
(:class:`TraceColumns`, with a :class:`RowNote` for each row refused or repaired), and columns to a
:class:`Workload` (what the rows run and for how long); selection, mapping, deadlines and the accounts are the
same for all (:mod:`instances.selection`). Every row of a file is taken, or refused for a reason that is
counted and can be listed (:func:`write_report`). docs/instances.md has a data dictionary for each format.

A reader of another distribution is a class with the methods of :class:`Reader`, registered through the entry
points ``eaco_opt.readers``.
"""

from __future__ import annotations

import dataclasses
import os
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from eaco_opt.cluster import Cluster
from eaco_opt.errors import DomainError
from eaco_opt.registry import Registry

from .columns import RowNote, TraceColumns
from .companions import Files
from .native import Workload
from .options import DEFAULT_NODES, ImportOptions, JobMapping, LoadBy, Release, TightDeadlines, TooLarge
from .report import TraceImport, write_report
from .text import TraceText, read_text

READERS = Registry("trace reader", "eaco_opt.readers")
READERS.register("acme-2024", "instances.readers.acme:Acme")
READERS.register("alibaba-openb-2023", "instances.readers.alibaba_openb:AlibabaOpenb")
READERS.register("alibaba-pai-2020", "instances.readers.alibaba_pai:AlibabaPai")
READERS.register("csv", "instances.readers.own_csv:OwnCsv")
READERS.register("elasticflow", "instances.readers.elasticflow:ElasticFlow")
READERS.register("gavel", "instances.readers.gavel:Gavel")
READERS.register("helios", "instances.readers.helios:Helios")
READERS.register("lucid", "instances.readers.lucid:Lucid")
READERS.register("muri", "instances.readers.muri:Muri")
READERS.register("philly-csv", "instances.readers.philly_csv:PhillyCsv")
READERS.register("philly-json", "instances.readers.philly_json:PhillyJson")
READERS.register("pollux", "instances.readers.pollux:Pollux")
READERS.register("sia", "instances.readers.sia:Sia")
READERS.register("swf", "instances.readers.swf:Swf")
READERS.register("tiresias", "instances.readers.tiresias:Tiresias")

__all__ = [
    "DEFAULT_NODES",
    "READERS",
    "ImportOptions",
    "JobMapping",
    "LoadBy",
    "Reader",
    "Release",
    "RowNote",
    "TightDeadlines",
    "TooLarge",
    "TraceColumns",
    "TraceImport",
    "TraceText",
    "Workload",
    "import_text",
    "import_trace",
    "read_text",
    "write_report",
]


class Reader(Protocol):
    """What a trace reader does; it is built without arguments.

    A reader raises :class:`~eaco_opt.errors.TraceError` when the file as a whole is not of its format, with
    file, line, what was expected and what was got. A single bad row is a note, never an error.

    The attribute ``SAMPLE`` is a small text of the format with two rows, both taken; the conformance tests
    read it, and mutilate it in all ways that files get mutilated.

    A trace of several files has an attribute ``FILES`` (:class:`~instances.readers.companions.Files`), and
    finds the others in ``text.companions``; ``COMPANION_SAMPLES`` are their samples by role. A reader whose
    trace describes its cluster has a method ``cluster(text)`` that returns it, for the option
    ``trace_cluster``. A reader that needs options to read has a method ``configure(options)``.
    ``BY_LINES`` is false where a row is not a line.
    """

    SAMPLE: str

    def read(self, text: TraceText) -> TraceColumns:
        """Return the columns of a trace."""
        ...

    def workload(
        self, columns: TraceColumns, gpus: NDArray[np.int64], options: ImportOptions, cluster: Cluster
    ) -> Workload:
        """Return what the rows run.

        Parameters
        ----------
        columns
            As :meth:`read` returned them.
        gpus
            (N,) GPUs that the rows get: those asked for, or fewer where they were clipped.
        options, cluster
            As for the import.
        """
        ...


def import_trace(
    reader: str, path: str | os.PathLike[str], options: ImportOptions | None = None
) -> TraceImport:
    """Return the instance that a trace file makes, and the accounts of its rows.

    Parameters
    ----------
    reader
        Name in :data:`READERS`.
    path
        The trace; gzip, xz and bzip2 files are decompressed. For traces of several files (readers with an
        attribute ``FILES``) the main file or the folder of all.
    options
        How to import; the defaults of :class:`ImportOptions` without it.

    Raises
    ------
    UnknownNameError
        No such reader; the text lists the known ones.
    TraceError
        The file cannot be read, is not of this format, or no row of it was taken.
    ImpossibleJobsError
        Jobs ask for more GPUs than the cluster has, and options say to refuse that.
    DomainError
        An option does not fit the trace or the cluster.
    """
    part = READERS.get(reader)
    files: Files | None = getattr(part, "FILES", None)
    text = read_text(path) if files is None else files.open(path)
    return import_text(reader, part, text, options or ImportOptions())


def import_text(name: str, reader: type[Reader], text: TraceText, options: ImportOptions) -> TraceImport:
    """Return the instance that the lines of a trace make; see :func:`import_trace` for errors.

    Parameters
    ----------
    name
        What messages and metadata call the reader.
    reader
        Its class.
    text, options
        The lines, and how to import.
    """
    from ..selection import build

    part = reader()
    configure = getattr(part, "configure", None)
    if configure is not None:
        configure(options)
    else:
        for field, default in (("columns", None), ("time_unit", "s"), ("time_zone", None)):
            if getattr(options, field) != default:
                raise DomainError(f"import: {field} must be left out; it belongs to the reader 'csv'")
    if options.trace_cluster:
        own = getattr(part, "cluster", None)
        if own is None:
            raise DomainError(f"import: trace_cluster must be left out, for reader {name!r} reads no cluster")
        options = dataclasses.replace(options, trace_cluster=False, cluster=own(text))
    return build(name, part, part.read(text), options)
