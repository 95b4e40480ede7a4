"""Files of eaco-opt itself: profiles as JSON, and the CSV of measurements (docs/formats.md)."""

from __future__ import annotations

from collections.abc import Sequence

from eaco_opt.errors import TraceError
from eaco_opt.io import profile_set_from_json, profiles_from_csv
from eaco_opt.profile_set import ProfileSet

from ..readers.text import TraceText
from .base import Measurements, Notes, head_of, header_of


def _one(texts: Sequence[TraceText], gpu_type: str | None) -> TraceText:
    if len(texts) != 1:
        raise TraceError(
            f"{texts[1].file}: expected one file of profiles, got {len(texts)}; import them one by one"
        )
    if gpu_type is not None:
        raise TraceError(
            f"{texts[0].file}: states its GPU types itself; expected no other, got {gpu_type!r}; leave it out"
        )
    return texts[0]


def _measurements(found: ProfileSet) -> Measurements:
    notes = Notes()
    notes.read = len(found.profiles)
    return notes.measurements(found, {p.kind: p.kind for p in found.profiles})


class OwnProfiles:
    """A profile file as JSON; each kind counts as a model of its own."""

    def knows(self, text: TraceText) -> bool:
        """Tell by the format that the file names."""
        return '"eaco-opt/profiles"' in head_of(text)

    def beside(self, text: TraceText) -> Sequence[str]:
        """Return nothing: the file holds all."""
        return ()

    def read(self, texts: Sequence[TraceText], gpu_type: str | None) -> Measurements:
        """Return what the file holds."""
        text = _one(texts, gpu_type)
        return _measurements(profile_set_from_json("\n".join(text.lines), source=text.file))


class OwnCsv:
    """The CSV of measured workloads alone, one row for each epoch time."""

    def knows(self, text: TraceText) -> bool:
        """Tell by the columns name and GPU type."""
        return {"name", "gpu_type"} <= {name.lower() for name in header_of(text)}

    def beside(self, text: TraceText) -> Sequence[str]:
        """Return nothing: the file holds all."""
        return ()

    def read(self, texts: Sequence[TraceText], gpu_type: str | None) -> Measurements:
        """Return what the file holds."""
        text = _one(texts, gpu_type)
        found = profiles_from_csv("\n".join(text.lines), source=text.file)
        return _measurements(ProfileSet(profiles=found))
