"""The files of a library folder, read and written: :class:`Library`."""

from __future__ import annotations

import csv
import dataclasses
import difflib
import io
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import Any

from eaco_opt.errors import EacoError, FormatError, UnknownNameError
from eaco_opt.instance import Instance
from eaco_opt.io import instance_digest, read_instance, read_schedule, write_instance, write_schedule
from eaco_opt.io_text import pack, read_text
from eaco_opt.limits import Limits
from eaco_opt.output import write_bytes, write_text
from eaco_opt.schedule import Schedule

from ..generators import generate
from .plan import GRADES

FORMAT = "eaco-opt/library"
PRICES_FORMAT = "eaco-opt/bound-prices"
VERSION = 1

ALPHAS = (0.25, 0.5, 0.75)
"""Weights of energy that the library has values for: the even one, and one on either side."""

OPTIMAL_GAP = 1e-6
"""Largest gap of an optimum: bound and objective are floats of different programmes."""

COLUMNS = (
    "instance", "alpha", "class", "grid_s", "status", "objective", "bound", "gap", "method", "bound_method",
    "proved_by", "version", "time_s", "date", "schedule", "prices",
)  # fmt: skip
"""Columns of ``best_known.csv``."""

_NUMBERS = ("grid_s", "objective", "bound", "gap", "time_s")


class Status(StrEnum):
    """What is known of an entry."""

    OPTIMAL = "optimal"
    GAP = "gap"
    BOUND_ONLY = "bound only"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """An instance of the library, as the manifest states it.

    Attributes
    ----------
    name, grade, family
        What it is called, one of :data:`~instances.library.plan.GRADES`, and the generator family.
    jobs, nodes, gpus
        Their numbers, GPUs of all nodes.
    grid_s
        Slot length of its values [s]; ``None``: they hold in continuous time.
    generator
        Arguments of :func:`instances.generate`.
    digest
        Of the instance (docs/formats.md).
    file
        Where it is stored, relative to the library; ``None``: only the call is.
    """

    name: str
    grade: str
    family: str
    jobs: int
    nodes: int
    gpus: int
    grid_s: float | None
    generator: Mapping[str, Any]
    digest: str
    file: str | None

    @property
    def schedule_class(self) -> str:
        """Return the class of schedule that the values are about (docs/model.md section 4)."""
        return "any" if self.grid_s is None else "static"


@dataclass(frozen=True, slots=True, kw_only=True)
class BestKnown:
    """A row of ``best_known.csv``: what is known of one instance with one alpha.

    Attributes
    ----------
    instance, alpha
        Which.
    schedule_class, grid_s
        What the values are about: ``static`` on slots of ``grid_s`` [s], or ``any`` in continuous time.
    status
        One of :class:`Status`.
    objective, bound, gap
        Of the best schedule, of all schedules, and (objective - bound) / bound; ``None``: not known.
    method, bound_method
        What found the schedule, and what proved the bound.
    proved_by
        All methods that have proved the optimum, each by itself.
    version, time_s, date
        Of this project; what finding both took [s, wall clock]; day of the last improvement.
    schedule, prices
        Files with the schedule, and with the prices that prove the bound, relative to the library.
    """

    instance: str
    alpha: float
    schedule_class: str
    grid_s: float | None
    status: Status
    objective: float | None
    bound: float | None
    gap: float | None
    method: str
    bound_method: str
    proved_by: tuple[str, ...]
    version: str
    time_s: float | None
    date: str
    schedule: str | None
    prices: str | None

    @property
    def key(self) -> tuple[str, float]:
        """Return what tells rows apart."""
        return self.instance, self.alpha

    def row(self) -> dict[str, Any]:
        """Return it under the names of :data:`COLUMNS`."""
        return {
            "instance": self.instance,
            "alpha": self.alpha,
            "class": self.schedule_class,
            "grid_s": self.grid_s,
            "status": self.status.value,
            "objective": self.objective,
            "bound": self.bound,
            "gap": self.gap,
            "method": self.method or None,
            "bound_method": self.bound_method or None,
            "proved_by": ";".join(self.proved_by) or None,
            "version": self.version,
            "time_s": self.time_s,
            "date": self.date,
            "schedule": self.schedule,
            "prices": self.prices,
        }


def gap_of(objective: float | None, bound: float | None) -> float | None:
    """Return (objective - bound) / bound, ``None`` where one of them is not known or the bound is 0."""
    if objective is None or bound is None or bound <= 0.0:
        return None
    return (objective - bound) / bound


def status_of(objective: float | None, bound: float | None) -> Status:
    """Return the status that an objective and a bound give."""
    if objective is None:
        return Status.UNKNOWN if bound is None else Status.BOUND_ONLY
    gap = gap_of(objective, bound)
    return Status.OPTIMAL if gap is not None and gap <= OPTIMAL_GAP else Status.GAP


def generated(entry: Entry) -> Instance:
    """Return the instance that an entry's generator call makes.

    Raises
    ------
    EacoError
        The call is not one of :func:`instances.generate`.
    """
    call = dict(entry.generator)
    limits = call.pop("limits", None)
    try:
        if limits is not None:
            call["limits"] = Limits(**limits)
        made = generate(**call)
    except TypeError as error:
        raise EacoError(f"library instance {entry.name!r}: its generator call is none: {error}") from None
    return dataclasses.replace(made, name=entry.name)


class Library:
    """A library folder; the one that ships without an argument.

    Parameters
    ----------
    root
        The folder.

    Raises
    ------
    FormatError
        A file of it is not what docs/library.md says; the text names file and place.
    OSError
        A file cannot be read.
    """

    def __init__(self, root: str | Path | None = None) -> None:
        self.root = Path(__file__).parent if root is None else Path(root)
        self.own = root is None

    @property
    def manifest_file(self) -> Path:
        """Return where the manifest lies."""
        return self.root / "manifest.json"

    @property
    def values_file(self) -> Path:
        """Return where the best known values lie."""
        return self.root / "best_known.csv"

    @cached_property
    def entries(self) -> dict[str, Entry]:
        """Return the entries of the manifest by name, in its order."""
        return {e.name: e for e in _manifest(self.manifest_file)}

    @cached_property
    def values(self) -> dict[tuple[str, float], BestKnown]:
        """Return the best known values by (instance, alpha), in the order of the file."""
        return {value.key: value for value in _values(self.values_file)}

    def entry(self, name: str) -> Entry:
        """Return an entry by name.

        Raises
        ------
        UnknownNameError
            There is none; the text has the nearest names.
        """
        found = self.entries.get(name)
        if found is None:
            near = difflib.get_close_matches(name, list(self.entries), n=3, cutoff=0.5)
            hint = f"; did you mean {' or '.join(map(repr, near))}?" if near else ""
            raise UnknownNameError(
                f"unknown library instance {name!r}, expected one of the {len(self.entries)} that "
                f"`eaco-opt library list` shows{hint}"
            )
        return found

    def by_digest(self, digest: str) -> Entry | None:
        """Return the entry whose instance has a digest, ``None`` if there is none."""
        return next((e for e in self.entries.values() if e.digest == digest), None)

    def instance(self, name: str, alpha: float | None = None) -> Instance:
        """Return an instance by name, read or generated, with a weight of energy if one is given.

        Raises
        ------
        UnknownNameError
            There is none of this name.
        EacoError
            It is not the one that the manifest means: its digest differs.
        """
        entry = self.entry(name)
        if entry.file is not None:
            found = read_instance(self.root / entry.file)
        else:
            found = generated(entry)
        digest = instance_digest(found)
        if digest != entry.digest:
            raise EacoError(
                f"library instance {entry.name!r}: expected digest {entry.digest}, got {digest}; "
                + ("its file was changed" if entry.file else "its generator makes another instance now")
            )
        return found if alpha is None else with_alpha(found, alpha)

    def best_schedule(self, value: BestKnown, instance: Instance) -> Schedule | None:
        """Return the best known schedule of a row, ``None`` without one."""
        return None if value.schedule is None else read_schedule(self.root / value.schedule, instance)

    def prices(self, value: BestKnown) -> list[float] | None:
        """Return the prices of epochs that prove a row's bound, in the order of jobs; ``None`` without."""
        if value.prices is None:
            return None
        path = self.root / value.prices
        try:
            document = json.loads(read_text(path))
            header = document["format"], document["version"], document["instance"], document["alpha"]
            prices = [float(x) for x in document["prices"]]
        except (ValueError, KeyError, TypeError) as error:
            raise FormatError(f"{path}: expected prices as docs/library.md says, got {error!r}") from None
        if header != (PRICES_FORMAT, VERSION, value.instance, value.alpha):
            raise FormatError(
                f"{path}: expected the prices of {value.instance!r} with alpha {value.alpha:g}, got "
                f"those of {header[2]!r} with alpha {header[3]!r}"
            )
        if not all(math.isfinite(x) and x >= 0.0 for x in prices):
            raise FormatError(f"{path}: prices must be finite and at least 0")
        return prices

    # --- Writing ----------------------------------------------------------------------------------------

    def write_manifest(self, entries: Iterable[Entry]) -> None:
        """Replace the manifest."""
        rows = [dataclasses.asdict(e) for e in entries]
        lines = ",\n".join("    " + json.dumps(row, ensure_ascii=True) for row in rows)
        head = f'  "format": "{FORMAT}",\n  "version": {VERSION},\n  "alphas": {json.dumps(list(ALPHAS))},\n'
        text = "{\n" + head + '  "instances": [\n' + lines + "\n  ]\n}\n"
        write_text(self.manifest_file, text, force=True)
        self.__dict__.pop("entries", None)

    def write_instance(self, entry: Entry, instance: Instance) -> None:
        """Store an instance in the file that its entry names."""
        if entry.file is not None:
            (self.root / entry.file).parent.mkdir(parents=True, exist_ok=True)
            write_instance(self.root / entry.file, instance, force=True)

    def put(
        self,
        value: BestKnown,
        instance: Instance,
        *,
        schedule: Schedule | None = None,
        prices: Iterable[float] | None = None,
    ) -> BestKnown:
        """Store a row with its schedule and prices, and return it with the names of their files.

        What is not given stays as it is.
        """
        stem = f"{value.instance}.a{value.alpha:.2f}.json.gz"
        if schedule is not None:
            value = dataclasses.replace(value, schedule=f"schedules/{stem}")
            (self.root / "schedules").mkdir(parents=True, exist_ok=True)
            write_schedule(self.root / "schedules" / stem, schedule, instance, force=True)
        if prices is not None:
            value = dataclasses.replace(value, prices=f"prices/{stem}")
            document = {
                "format": PRICES_FORMAT,
                "version": VERSION,
                "instance": value.instance,
                "instance_digest": instance_digest(instance),
                "alpha": value.alpha,
                "prices": [float(x) for x in prices],
            }
            path = self.root / "prices" / stem
            path.parent.mkdir(parents=True, exist_ok=True)
            write_bytes(path, pack(path, json.dumps(document) + "\n"), force=True)
        self.__dict__.pop("values", None)  # another call may have written meanwhile
        known = dict(self.values) if self.values_file.exists() else {}
        known[value.key] = value
        self.write_values(known.values())
        return value

    def write_values(self, values: Iterable[BestKnown]) -> None:
        """Replace ``best_known.csv``, in the order of the manifest."""
        place = {name: i for i, name in enumerate(self.entries)}
        rows = sorted(values, key=lambda v: (place.get(v.instance, len(place)), v.instance, v.alpha))
        write_text(self.values_file, values_text(rows), force=True)
        self.__dict__.pop("values", None)


def values_text(values: Iterable[BestKnown]) -> str:
    """Return rows as the text of ``best_known.csv``."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    for value in values:
        row = value.row()
        writer.writerow(["" if row[c] is None else _cell(row[c]) for c in COLUMNS])
    return out.getvalue()


def with_alpha(instance: Instance, alpha: float) -> Instance:
    """Return an instance with another weight of energy."""
    return dataclasses.replace(instance, objective=dataclasses.replace(instance.objective, alpha=alpha))


def library_instance(name: str, alpha: float | None = None) -> Instance:
    """Return an instance of the library that ships, by name.

    Parameters
    ----------
    name
        As ``eaco-opt library list`` shows it.
    alpha
        Weight of energy instead of 0.5.

    Raises
    ------
    UnknownNameError
        There is none of this name.
    """
    return Library().instance(name, alpha)


def _cell(value: Any) -> str:
    return repr(value) if isinstance(value, float) else str(value)


def _manifest(path: Path) -> list[Entry]:
    text = read_text(path)
    try:
        document = json.loads(text)
    except ValueError as error:
        raise FormatError(f"{path}: expected JSON, got {error}") from None
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise FormatError(f"{path}: expected the manifest of a library, with format {FORMAT!r}")
    if document.get("version") != VERSION:
        raise FormatError(f"{path}: expected version {VERSION}, got {document.get('version')!r}")
    rows = document.get("instances")
    if not isinstance(rows, list):
        raise FormatError(f"{path}: expected a list under 'instances'")
    out: list[Entry] = []
    names = {f.name for f in dataclasses.fields(Entry)}
    kinds: dict[str, tuple[type, ...]] = {
        "name": (str,), "grade": (str,), "family": (str,), "jobs": (int,), "nodes": (int,), "gpus": (int,),
        "grid_s": (int, float, type(None)), "generator": (dict,), "digest": (str,),
        "file": (str, type(None)),
    }  # fmt: skip
    for i, row in enumerate(rows):
        where = f"{path}, instances[{i}]"
        if not isinstance(row, dict) or set(row) != names:
            raise FormatError(f"{where}: expected an object with the keys {', '.join(sorted(names))}")
        for key, allowed in kinds.items():
            if not isinstance(row[key], allowed) or isinstance(row[key], bool):
                raise FormatError(f"{where}: {key!r} has the wrong type: {row[key]!r}")
        if row["grade"] not in GRADES:
            raise FormatError(f"{where}: grade must be one of {', '.join(GRADES)}, got {row['grade']!r}")
        if any(entry.name == row["name"] for entry in out):
            raise FormatError(f"{where}: {row['name']!r} is there twice")
        if row["file"] is not None:
            _inside(where, row["file"])
        out.append(Entry(**row))
    return out


def _inside(where: str, file: str) -> str:
    """Return the name of a file, refused if it leads out of the library."""
    path = Path(file)
    if path.is_absolute() or ".." in path.parts or not file:
        raise FormatError(f"{where}: expected a file inside the library, got {file!r}")
    return file


def _values(path: Path) -> list[BestKnown]:
    reader = csv.DictReader(io.StringIO(read_text(path), newline=""))
    if tuple(reader.fieldnames or ()) != COLUMNS:
        raise FormatError(f"{path}, line 1: expected the columns {','.join(COLUMNS)}")
    out: dict[tuple[str, float], BestKnown] = {}
    for row in reader:
        where = f"{path}, line {reader.line_num}"
        if None in row or None in row.values():
            raise FormatError(f"{where}: expected {len(COLUMNS)} cells")
        try:
            numbers = {key: float(row[key]) if row[key] else None for key in _NUMBERS}
            value = BestKnown(
                instance=row["instance"],
                alpha=float(row["alpha"]),
                schedule_class=row["class"],
                status=Status(row["status"]),
                method=row["method"],
                bound_method=row["bound_method"],
                proved_by=tuple(row["proved_by"].split(";")) if row["proved_by"] else (),
                version=row["version"],
                date=row["date"],
                schedule=_inside(where, row["schedule"]) if row["schedule"] else None,
                prices=_inside(where, row["prices"]) if row["prices"] else None,
                **numbers,
            )
        except ValueError as error:
            raise FormatError(f"{where}: {error}") from None
        if not all(x is None or math.isfinite(x) for x in (value.alpha, *numbers.values())):
            raise FormatError(f"{where}: expected finite numbers")
        if value.key in out:
            raise FormatError(f"{where}: {value.instance!r} with alpha {value.alpha:g} is there twice")
        out[value.key] = value
    return list(out.values())
