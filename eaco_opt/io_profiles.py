"""Profiles as JSON and as CSV: measured workloads (docs/formats.md).

The JSON form holds the profiles as they stand in an instance, with what was measured about sharing and power
limits. The CSV form has one row for each epoch time;
rows of one name are one profile, and must agree in everything but GPU type, count and epoch time.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any

from . import _validate as v
from .errors import DomainError, FormatError
from .io_instance import INTERFERENCE, PROFILE, USAGE
from .io_json import (
    Document,
    Keys,
    Layout,
    ListOf,
    Number,
    Pairs,
    Record,
    Text,
    document_text,
    header,
    parse,
)
from .profile import EpochTime, Profile, checked_profiles
from .profile_set import PowerLimit, ProfileSet

PROFILES_FORMAT = "eaco-opt/profiles"
VERSION = 1
"""Version that is written."""

POWER_LIMIT = Record(
    PowerLimit,
    "a power limit",
    {
        "profile": Text(),
        "gpu_type": Text(),
        "limit_w": Number(),
        "epoch_time_s": Number(),
        "power_w": Number(),
    },
)
PROFILES = Keys(
    "profiles",
    {
        "profiles": ListOf(PROFILE),
        "usage": ListOf(USAGE),
        "truth": INTERFERENCE,
        "power_limits": ListOf(POWER_LIMIT),
        "metadata": Pairs(Text()),
    },
    ["profiles"],
)

_LAYOUT: Layout = {
    "profiles": [None],
    "usage": [None],
    "truth": {"cannot_share": [None], "measured": [None]},
    "power_limits": [None],
    "metadata": {},
}


def _profiles_v1(document: Document, body: dict[str, Any]) -> ProfileSet:
    found = PROFILES.read(document, (), body)
    try:
        checked_profiles("profiles", found["profiles"])
    except DomainError as error:
        raise document.placed(error, ("profiles",)) from None
    try:
        return ProfileSet(**found)
    except DomainError as error:
        raise document.placed(error, (), PROFILES.fields) from None


_READERS: dict[int, Callable[[Document, dict[str, Any]], ProfileSet]] = {1: _profiles_v1}


def profiles_to_json(profiles: Iterable[Profile] | ProfileSet) -> str:
    """Return profiles as JSON text, in the order given: the same profiles, the same text.

    Parameters
    ----------
    profiles
        The profiles; a :class:`~eaco_opt.profile_set.ProfileSet` with what else was measured.

    Raises
    ------
    DomainError
        There are none, a name occurs twice, or profiles of one kind differ in more than epoch times.
    FormatError
        A text in them holds half of a surrogate pair, which no file can hold.
    """
    held = profiles if isinstance(profiles, ProfileSet) else _set_of(profiles)
    fields = {key: getattr(held, key) for key in PROFILES.fields}
    value = {"format": PROFILES_FORMAT, "version": VERSION, **PROFILES.write(fields)}
    return document_text("profiles", value, _LAYOUT)


def _set_of(profiles: Iterable[Profile]) -> ProfileSet:
    return ProfileSet(profiles=checked_profiles("profiles", profiles))


def profile_set_from_json(text: str, *, source: str = "profiles") -> ProfileSet:
    """Return what a JSON text of profiles states; the inverse of :func:`profiles_to_json`.

    Parameters
    ----------
    text
        The text.
    source
        Name of the file, for messages.

    Raises
    ------
    FormatError
        The text is no JSON, or not of this format, a known version and the right types.
    DomainError
        A value is out of range, a name occurs twice, or profiles of one kind differ in more than epoch times.
        Both name file, line and place.
    """
    document = parse(text, source=source)
    version, body = header(document, PROFILES_FORMAT, _READERS)
    return _READERS[version](document, body)


def profiles_from_json(text: str, *, source: str = "profiles") -> tuple[Profile, ...]:
    """Return the profiles alone of :func:`profile_set_from_json`, which see for parameters and errors."""
    return profile_set_from_json(text, source=source).profiles


# CSV ---------------------------------------------------------------------------------------------

_ONE, _HOUR, _PERCENT = Decimal(1), Decimal(3600), Decimal("0.01")

_COLUMNS: Mapping[str, tuple[str, Decimal]] = {
    "name": ("name", _ONE),
    "kind": ("kind", _ONE),
    "gpu_type": ("gpu_type", _ONE),
    "gpus": ("gpus", _ONE),
    "epoch_time_s": ("epoch_time_s", _ONE),
    "epoch_time_h": ("epoch_time_s", _HOUR),
    "gpu_util_mean": ("gpu_util_mean", _ONE),
    "gpu_util_mean_pct": ("gpu_util_mean", _PERCENT),
    "gpu_util_peak": ("gpu_util_peak", _ONE),
    "gpu_util_peak_pct": ("gpu_util_peak", _PERCENT),
    "gpu_memory_mean_gib": ("gpu_memory_mean_gib", _ONE),
    "gpu_memory_peak_gib": ("gpu_memory_peak_gib", _ONE),
    "cpu_share": ("cpu_share", _ONE),
    "cpu_share_pct": ("cpu_share", _PERCENT),
}
"""Column name: (the field it states, its unit in units of the field)."""

_OPTIONAL = ("kind", "gpus")
_FIELDS = tuple(dict.fromkeys(field for field, _ in _COLUMNS.values()))
_FRACTIONS = ("gpu_util_mean", "gpu_util_peak", "cpu_share")
_DEMANDS = ("gpu_util_mean", "gpu_util_peak", "gpu_memory_mean_gib", "gpu_memory_peak_gib", "cpu_share")
_ORDERED = (("gpu_util_mean", "gpu_util_peak"), ("gpu_memory_mean_gib", "gpu_memory_peak_gib"))
_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_MAX_NUMBER = 400


def _shown(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:57] + "...")


def _header(names: Sequence[str], place: str) -> dict[str, tuple[int, str]]:
    """Return {field: (position, column name)} of a header row."""
    out: dict[str, tuple[int, str]] = {}
    for i, name in enumerate(names):
        key = name.strip().lower()
        if key not in _COLUMNS:
            hint = "separate columns by commas; " if ";" in name or "\t" in name else ""
            raise FormatError(
                f"{place}, column {i + 1}: unknown column {_shown(name.strip())}; {hint}known columns are: "
                f"{', '.join(_COLUMNS)}"
            )
        field = _COLUMNS[key][0]
        if field in out:
            raise FormatError(
                f"{place}: columns {out[field][1]!r} and {key!r} both state {field}; keep one of the two"
            )
        out[field] = (i, key)
    missing = [field for field in _FIELDS if field not in out and field not in _OPTIONAL]
    if missing:
        ways = [" or ".join(k for k, (g, _) in _COLUMNS.items() if g == f) for f in missing]
        raise FormatError(
            f"{place}: expected a header with the column(s) {', '.join(ways)}, which are missing; add them"
        )
    return out


def _number(text: str, field: str, column: str, place: str) -> float:
    """Return the value of a cell in the unit of the field, read as the decimal written."""
    unit = _COLUMNS[column][1]
    if not _NUMBER.fullmatch(text) or len(text) > _MAX_NUMBER:
        got = _shown(text) if text else "an empty cell"
        raise FormatError(f"{place}: expected a number such as 0.5 or 3600, got {got}")
    value = float(text)
    if field in _FRACTIONS:
        high = 100.0 if unit == _PERCENT else 1.0
        if not 0.0 <= value <= high:
            what = "a percentage from 0 to 100" if unit == _PERCENT else "a fraction from 0 to 1"
            hint = f"; name the column {column}_pct if it is in percent" if 1.0 < value <= 100.0 else ""
            raise DomainError(f"{place}: expected {what}, got {_shown(text)}{hint}")
    elif field == "epoch_time_s":
        v.real(place, column, value, above=0.0)
    else:
        v.real(place, column, value, low=0.0)
    if unit != _ONE:
        value = float(Decimal(text) * unit) if 1e-300 < abs(value) < 1e300 else value * float(unit)
        v.real(place, field, value, above=0.0 if field == "epoch_time_s" else None)
    return value


def _count(text: str, place: str) -> int | None:
    """Return the number of GPUs of a cell, ``None`` for an empty one: any number."""
    if not text:
        return None
    if not re.fullmatch("[0-9]{1,9}", text) or int(text) < 1:
        raise FormatError(
            f"{place}: expected a whole number of GPUs from 1, or nothing for any number, got {_shown(text)}"
        )
    return int(text)


class _Rows:
    """The rows read so far, by name of profile."""

    def __init__(self) -> None:
        self.same: dict[str, dict[str, Any]] = {}
        self.first: dict[str, int] = {}
        self.times: dict[str, dict[tuple[str, int | None], tuple[int, EpochTime]]] = {}
        self.kinds: dict[str, str] = {}

    def add(self, cell: Mapping[str, str], columns: Mapping[str, str], source: str, line: int) -> None:
        """Take a row of {field: text}; ``columns`` gives the names of the file's columns by field."""

        def place(field: str) -> str:
            return f"{source}, line {line}, column {columns[field]!r}"

        name = v.name(place("name"), "name", cell["name"])
        kind = v.name(place("kind"), "kind", cell["kind"]) if cell.get("kind") else name
        gpu_type = v.name(place("gpu_type"), "gpu_type", cell["gpu_type"])
        gpus = _count(cell["gpus"], place("gpus")) if "gpus" in cell else None
        numbers = {f: _number(cell[f], f, columns[f], place(f)) for f in ("epoch_time_s", *_DEMANDS)}
        time = EpochTime(gpu_type=gpu_type, gpus=gpus, epoch_time_s=numbers.pop("epoch_time_s"))
        for low, high in _ORDERED:
            if numbers[low] > numbers[high]:
                raise DomainError(
                    f"{place(low)}: expected at most the value of {columns[high]!r}, {cell[high]}, "
                    f"got {cell[low]}"
                )
        values: dict[str, Any] = {"kind": kind, **numbers}
        if name not in self.same:
            self.same[name], self.first[name], self.times[name] = values, line, {}
        self._agree(f"profile {name!r}", name, values, values, cell, place)
        twin = self.kinds.setdefault(kind, name)
        self._agree(f"profile {twin!r} of the same kind {kind!r}", twin, numbers, values, cell, place)
        known = self.times[name].setdefault((gpu_type, gpus), (line, time))
        if known[0] != line:
            counted = "any number of GPUs" if gpus is None else f"{gpus} GPU(s)"
            where = "gpus" if "gpus" in columns else "gpu_type"
            raise DomainError(
                f"{place(where)}: expected one row for profile {name!r} on {counted} of type {gpu_type!r}, "
                f"got a second one after line {known[0]}; keep one"
            )

    def _agree(
        self,
        owner: str,
        name: str,
        fields: Iterable[str],
        values: Mapping[str, Any],
        cell: Mapping[str, str],
        place: Callable[[str], str],
    ) -> None:
        """Refuse a row that differs in one of the fields from the first row of a profile."""
        for field in fields:
            stated = self.same[name][field]
            if values[field] != stated:
                raise DomainError(
                    f"{place(field)}: expected {stated!r} as in line {self.first[name]} of {owner}, got "
                    f"{_shown(cell[field])}; make them agree, or give the profile another name and kind"
                )

    def profiles(self) -> tuple[Profile, ...]:
        """Return the profiles, in the order of their first rows."""
        return tuple(
            Profile(name=name, epoch_times=tuple(t for _, t in self.times[name].values()), **values)
            for name, values in self.same.items()
        )


def profiles_from_csv(text: str, *, source: str = "profiles") -> tuple[Profile, ...]:
    """Return the profiles that a CSV of measurements states, in the order of their first rows.

    Parameters
    ----------
    text
        The text, with a header. Columns: ``name``, ``kind`` (may be left out; empty: the name), ``gpu_type``,
        ``gpus`` (may be left out; empty: any number), ``epoch_time_s`` or ``epoch_time_h``,
        ``gpu_util_mean``, ``gpu_util_peak`` and ``cpu_share`` as fractions, or with ``_pct`` after the name
        in percent, ``gpu_memory_mean_gib``, ``gpu_memory_peak_gib``.
    source
        Name of the file, for messages.

    Raises
    ------
    FormatError
        A column or a value is not as expected.
    DomainError
        A value is out of range, or rows that must agree do not. Both name file, line and column.
    """
    reader = csv.reader(
        io.StringIO(text.removeprefix("\ufeff"), newline=""), strict=True, skipinitialspace=True
    )
    header_row: dict[str, tuple[int, str]] = {}
    columns: dict[str, str] = {}
    width = 0
    rows = _Rows()
    try:
        for row in reader:
            place = f"{source}, line {reader.line_num}"
            if not any(cell.strip() for cell in row):
                continue
            if not header_row:
                header_row, width = _header(row, place), len(row)
                columns = {field: column for field, (_, column) in header_row.items()}
                continue
            if len(row) != width:
                raise FormatError(f"{place}: expected {width} values as in the header, got {len(row)}")
            cells = {field: row[i].strip() for field, (i, _) in header_row.items()}
            rows.add(cells, columns, source, reader.line_num)
    except csv.Error as error:
        raise FormatError(f"{source}, line {reader.line_num}: not valid CSV: {error}") from None
    if not rows.same:
        got = "a header only" if header_row else "an empty file"
        raise FormatError(f"{source}: expected a header and a row for each measured workload, got {got}")
    return rows.profiles()
