"""Reading and writing of instances, clusters, profiles and schedules (docs/formats.md).

=========  ==============================  =======================================
what       text                            file
=========  ==============================  =======================================
instance   :func:`instance_to_json`,       :func:`write_instance`,
           :func:`instance_from_json`      :func:`read_instance`
cluster    :func:`cluster_to_json`,        :func:`write_cluster`,
           :func:`cluster_from_json`       :func:`read_cluster`
profiles   :func:`profiles_to_json`,       :func:`write_profiles`,
           :func:`profiles_from_json`,     :func:`read_profiles`,
           :func:`profile_set_from_json`,  :func:`read_profile_set`
           :func:`profiles_from_csv`
schedule   :func:`schedule_to_json`,       :func:`write_schedule`,
           :func:`schedule_from_json`,     :func:`read_schedule`
           :func:`schedule_to_csv`,
           :func:`schedule_from_csv`
=========  ==============================  =======================================

Files whose name ends in ``.gz`` or ``.xz`` are compressed. Reading and writing are
inverse to each other and exact: floats are written as the shortest decimals that give
them back, and the same object gives the same bytes. Every error names the file and
the place in it. :func:`instance_digest` names the content of a problem, and
:func:`json_schema` returns the published schema of a format.

This module is the public face; the parts lie in ``io_text`` (bytes and text),
``io_json`` (strict JSON), ``io_instance``, ``io_profiles``, ``io_schedule`` and
``io_digest``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from importlib.resources import files
from typing import Any

from .cluster import Cluster
from .errors import FormatError, UnknownNameError
from .instance import Instance
from .io_digest import instance_digest
from .io_instance import cluster_from_json, cluster_to_json, instance_from_json, instance_to_json
from .io_profiles import profile_set_from_json, profiles_from_csv, profiles_from_json, profiles_to_json
from .io_schedule import schedule_from_csv, schedule_from_json, schedule_to_csv, schedule_to_json
from .io_text import MAX_BYTES, Source, pack, read_text, source_name, suffixes
from .output import refuse_existing, write_bytes
from .profile import Profile
from .profile_set import ProfileSet
from .schedule import Schedule

__all__ = [
    "instance_to_json",
    "instance_from_json",
    "read_instance",
    "write_instance",
    "instance_digest",
    "cluster_to_json",
    "cluster_from_json",
    "read_cluster",
    "write_cluster",
    "profiles_to_json",
    "profiles_from_json",
    "profile_set_from_json",
    "profiles_from_csv",
    "read_profile_set",
    "read_profiles",
    "write_profiles",
    "schedule_to_json",
    "schedule_from_json",
    "schedule_to_csv",
    "schedule_from_csv",
    "read_schedule",
    "write_schedule",
    "json_schema",
    "SCHEMAS",
    "MAX_BYTES",
]

SCHEMAS = ("instance", "cluster", "schedule", "profiles")
"""Formats with a published JSON Schema, the current version of each."""


def read_instance(path: Source, *, max_bytes: int = MAX_BYTES) -> Instance:
    """Return the instance in a JSON file, compressed or not.

    Parameters
    ----------
    path
        The file.
    max_bytes
        Limit on its size, and on what it expands to [bytes].

    Raises
    ------
    FormatError, DomainError, UnknownNameError
        The file is no instance; the message names file, line and place.
    OSError
        It cannot be read.
    """
    return instance_from_json(read_text(path, max_bytes=max_bytes), source=source_name(path))


def write_instance(path: Source, instance: Instance, *, force: bool = False) -> None:
    """Write an instance as JSON, whole or not at all.

    Parameters
    ----------
    path
        The file; ``.gz`` and ``.xz`` are compressed.
    instance
        What to write.
    force
        Whether a file that exists may be replaced.

    Raises
    ------
    OutputExistsError
        The file exists and ``force`` is off.
    FormatError
        A text of the instance cannot be written.
    OSError
        The disk says no.
    """
    refuse_existing(path, force=force)
    write_bytes(path, pack(path, instance_to_json(instance)), force=force)


def read_cluster(path: Source, *, max_bytes: int = MAX_BYTES) -> Cluster:
    """Return the cluster in a JSON file; parameters and errors as :func:`read_instance`."""
    return cluster_from_json(read_text(path, max_bytes=max_bytes), source=source_name(path))


def write_cluster(path: Source, cluster: Cluster, *, force: bool = False) -> None:
    """Write a cluster as JSON; parameters and errors as :func:`write_instance`."""
    refuse_existing(path, force=force)
    write_bytes(path, pack(path, cluster_to_json(cluster)), force=force)


def read_profile_set(path: Source, *, max_bytes: int = MAX_BYTES) -> ProfileSet:
    """Return what a file of profiles holds: CSV if its name ends in ``.csv``, else JSON.

    Parameters
    ----------
    path
        The file.
    max_bytes
        Limit on its size, and on what it expands to [bytes].

    Raises
    ------
    FormatError, DomainError
        The file holds no profiles; the message names file, line and place or column.
    OSError
        It cannot be read.
    """
    text = read_text(path, max_bytes=max_bytes)
    if suffixes(path)[0] == ".csv":
        return ProfileSet(profiles=profiles_from_csv(text, source=source_name(path)))
    return profile_set_from_json(text, source=source_name(path))


def read_profiles(path: Source, *, max_bytes: int = MAX_BYTES) -> tuple[Profile, ...]:
    """Return the profiles alone of :func:`read_profile_set`, which see for parameters and errors."""
    return read_profile_set(path, max_bytes=max_bytes).profiles


def write_profiles(path: Source, profiles: Iterable[Profile] | ProfileSet, *, force: bool = False) -> None:
    """Write profiles as JSON, in the order given; parameters and errors as :func:`write_instance`.

    A name that ends in ``.csv`` is refused (``FormatError``), because it would be read as CSV.
    """
    if suffixes(path)[0] == ".csv":
        raise FormatError(
            f"profiles {source_name(path)!r}: expected a name that ends in .json, because profiles are "
            "written as JSON, got '.csv'; rename the file"
        )
    refuse_existing(path, force=force)
    write_bytes(path, pack(path, profiles_to_json(profiles)), force=force)


def _is_csv(path: Source) -> bool:
    """Tell by its suffix whether a schedule is CSV or JSON."""
    suffix = suffixes(path)[0]
    if suffix not in (".csv", ".json"):
        raise FormatError(
            f"schedule {source_name(path)!r}: expected a name that ends in .json or .csv, then .gz or .xz "
            f"if compressed, got {suffix or 'no ending'!r}; rename the file"
        )
    return suffix == ".csv"


def read_schedule(
    path: Source, instance: Instance, *, allow_other_digest: bool = False, max_bytes: int = MAX_BYTES
) -> Schedule:
    """Return the schedule in a JSON or CSV file, told apart by its suffix.

    Parameters
    ----------
    path
        The file.
    instance
        The instance it is for.
    allow_other_digest
        Whether a JSON schedule made for another instance is accepted.
    max_bytes
        Limit on its size, and on what it expands to [bytes].

    Raises
    ------
    FormatError, ScheduleError, DomainError
        The file is no schedule of this instance; the message names file and line.
    OSError
        It cannot be read.
    """
    is_csv = _is_csv(path)
    text = read_text(path, max_bytes=max_bytes)
    if is_csv:
        return schedule_from_csv(text, instance, source=source_name(path))
    return schedule_from_json(text, instance, source=source_name(path), allow_other_digest=allow_other_digest)


def write_schedule(path: Source, schedule: Schedule, instance: Instance, *, force: bool = False) -> None:
    """Write a schedule as JSON or CSV, as the suffix says; a CSV keeps the segments only.

    Parameters
    ----------
    path
        The file; ``.gz`` and ``.xz`` are compressed.
    schedule
        What to write.
    instance
        The instance it is for.
    force
        Whether a file that exists may be replaced.

    Raises
    ------
    ScheduleError
        A segment uses a node that the instance does not have.
    OutputExistsError, FormatError, OSError
        As :func:`write_instance`.
    """
    to_text = schedule_to_csv if _is_csv(path) else schedule_to_json
    refuse_existing(path, force=force)
    write_bytes(path, pack(path, to_text(schedule, instance)), force=force)


def json_schema(name: str) -> dict[str, Any]:
    """Return the published JSON Schema (draft 2020-12) of a format.

    Parameters
    ----------
    name
        One of :data:`SCHEMAS`.

    Raises
    ------
    UnknownNameError
        There is none of that name.
    """
    if name not in SCHEMAS:
        raise UnknownNameError(f"unknown schema {name!r}; known are: {', '.join(SCHEMAS)}")
    text = files("eaco_opt.schemas").joinpath(f"{name}.schema.json").read_text(encoding="utf-8")
    schema: dict[str, Any] = json.loads(text)
    return schema
