"""What a measured table gives: profiles, sharing, power limits, and the accounts of its rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from eaco_opt.errors import TraceError
from eaco_opt.interference import Interference, MeasuredSlowdown
from eaco_opt.profile_set import ProfileSet

from ..readers.columns import REFUSED, REPAIRED, RowNote
from ..readers.native import EPOCH_TARGET_S
from ..readers.text import TraceText

EPOCH_S = EPOCH_TARGET_S
"""Epoch of a workload whose table gives a throughput but no epoch: what it does alone in this time [s]."""

Pair = tuple[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurements:
    """What measured tables hold, and what became of their rows.

    Attributes
    ----------
    profiles
        Profiles, slowdowns, usage and power limits.
    model
        Model by kind: what is left out together in leave-one-model-out validation.
    read, taken, repaired, refused, details
        Accounts of the rows, as of :class:`~instances.readers.TraceImport`.
    """

    profiles: ProfileSet
    model: Mapping[str, str]
    read: int = 0
    taken: int = 0
    repaired: Mapping[str, int] = field(default_factory=dict)
    refused: Mapping[str, int] = field(default_factory=dict)
    details: tuple[RowNote, ...] = ()

    def accounts(self) -> dict[str, object]:
        """Return read, taken, repaired and refused as one JSON-ready mapping."""
        return {
            "read": self.read,
            "taken": self.taken,
            "repaired": dict(self.repaired),
            "refused": dict(self.refused),
        }

    def speeds(self) -> Iterator[tuple[str, str, float]]:
        """Yield (kind, neighbour, speed relative to alone) of each side of each measured pair; no zeros."""
        for row in self.profiles.truth.measured:
            if len(row.kinds) == 2:
                (a, b), (fa, fb) = row.kinds, row.factors
                yield a, b, 1.0 / fa
                if a != b:
                    yield b, a, 1.0 / fb


class Notes:
    """The accounts of the rows of one or several files while they are read."""

    def __init__(self) -> None:
        self.read = 0
        self._notes: list[RowNote] = []

    def refuse(self, text: TraceText, line: int, reason: str, what: str) -> None:
        """Note that a row is not taken."""
        self._notes.append(RowNote(file=text.file, line=line, action=REFUSED, reason=reason, text=what))

    def repair(self, text: TraceText, line: int, reason: str, what: str) -> None:
        """Note that a row is taken with a change, or as it stands in spite of being odd."""
        self._notes.append(RowNote(file=text.file, line=line, action=REPAIRED, reason=reason, text=what))

    def add(self, notes: Sequence[RowNote]) -> None:
        """Take over notes made elsewhere."""
        self._notes.extend(notes)

    @property
    def first(self) -> RowNote | None:
        """The first note."""
        return self._notes[0] if self._notes else None

    def measurements(self, profiles: ProfileSet, model: Mapping[str, str]) -> Measurements:
        """Return the outcome with the accounts."""
        refused = Counter(n.reason for n in self._notes if n.action == REFUSED)
        repaired = Counter(n.reason for n in self._notes if n.action == REPAIRED)
        return Measurements(
            profiles=profiles,
            model=model,
            read=self.read,
            taken=self.read - sum(refused.values()),
            repaired=dict(sorted(repaired.items())),
            refused=dict(sorted(refused.items())),
            details=tuple(sorted(self._notes, key=lambda n: (n.file, n.line, n.action, n.reason))),
        )


def interference_of(speeds: Mapping[Pair, tuple[float, float]]) -> Interference:
    """Return slowdowns of pairs measured by their speeds; larger sets from their pairs.

    Parameters
    ----------
    speeds
        Speed of both, relative to alone, by sorted pair of kinds; with a 0 the two cannot share.
    """
    measured: list[MeasuredSlowdown] = []
    cannot: list[Pair] = []
    for (a, b), (speed_a, speed_b) in sorted(speeds.items()):
        if speed_a == 0.0 or speed_b == 0.0:
            cannot.append((a, b))
        else:
            measured.append(MeasuredSlowdown(kinds=(a, b), factors=(1.0 / speed_a, 1.0 / speed_b)))
    return Interference(measured=tuple(measured), cannot_share=tuple(cannot), model="pair-product")


def none_taken(text: TraceText, notes: Notes, what: str) -> TraceError:
    """Return the error of a file of which no row was taken."""
    first = notes.first
    got = "no row" if first is None else f"none; the first: line {first.line}: {first.text}"
    return TraceError(f"{text.file}: expected {what}, got {got}")


def head_of(text: TraceText) -> str:
    """Return the first lines, enough to tell a format by."""
    return "\n".join(line[:10_000] for _, line in islice(text.rows(), 20))


def header_of(text: TraceText) -> tuple[str, ...]:
    """Return the names in the first line that is no comment."""
    line = next((line for _, line in text.rows()), "")
    return tuple(cell.strip().strip('"') for cell in line.split(","))
