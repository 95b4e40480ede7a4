"""Gavel's measured throughputs, alone and in pairs (Narayanan et al., OSDI 2020), as JSON or CSV.

The tables are those of :mod:`instances.readers.throughputs`. Utilisation, memory and CPU were not measured;
they are assumed as for Gavel's traces (docs/instances.md section 2.1).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from eaco_opt.errors import DomainError, TraceError
from eaco_opt.profile import EpochTime, Profile
from eaco_opt.profile_set import ProfileSet

from ..readers.gavel import UNKNOWN_UTILISATION, UTILISATION, UTILISATION_CAP, kind_of, utilisation_of
from ..readers.native import CPU_SHARE, MEMORY_SHARE
from ..readers.text import TraceText
from ..readers.throughputs import Key, parse_throughputs
from .base import EPOCH_S, Measurements, Notes, Pair, head_of, header_of, interference_of

V100_GIB = 16
"""Memory of the GPUs that Gavel measured on [GiB]."""

_BATCH = re.compile(r"\s*\(batch size [^)]*\)$")


def model_of(name: str) -> str:
    """Return the model without its batch size."""
    return _BATCH.sub("", name)


class GavelTable:
    """Gavel's throughputs alone and in pairs, JSON or CSV; a pair with a 0 cannot share."""

    def knows(self, text: TraceText) -> bool:
        """Tell by the columns, or by the keys of the JSON."""
        head = head_of(text)
        return "steps_per_s" in header_of(text) or (head.lstrip().startswith("{") and "('" in head)

    def beside(self, text: TraceText) -> Sequence[str]:
        """Return nothing: the file holds all."""
        return ()

    def read(self, texts: Sequence[TraceText], gpu_type: str | None) -> Measurements:
        """Return what one table holds."""
        if len(texts) != 1:
            raise TraceError(f"{texts[1].file}: expected one table of throughputs, got {len(texts)}")
        text = texts[0]
        tables = parse_throughputs(text)
        # V100 first: its pairs are the best measured.
        order = sorted(tables, key=lambda t: (t != "v100", t))
        if gpu_type is not None:
            if gpu_type.lower() not in tables and len(tables) > 1:
                raise DomainError(f"{text.file}: expected a GPU type of {', '.join(order)}, got {gpu_type!r}")
            order = [gpu_type.lower() if gpu_type.lower() in tables else order[0]]
        reference = tables[order[0]]
        if not reference.alone:
            raise TraceError(f"{text.file}: expected throughputs alone on {order[0].upper()}, got none")
        kinds: dict[Key, str] = {key: kind_of(key) for key in sorted(reference.alone)}
        memory_gib = MEMORY_SHARE * V100_GIB
        profiles = []
        for key, kind in kinds.items():
            times = [
                EpochTime(
                    gpu_type=gpu_type or name.upper(),
                    gpus=key[1],
                    epoch_time_s=EPOCH_S * reference.alone[key] / tables[name].alone[key],
                )
                for name in order
                if key in tables[name].alone
            ]
            profiles.append(
                Profile(
                    name=kind,
                    epoch_times=tuple(times),
                    gpu_util_mean=utilisation_of(key[0]),
                    gpu_util_peak=1.0,
                    gpu_memory_mean_gib=memory_gib,
                    gpu_memory_peak_gib=memory_gib,
                    cpu_share=CPU_SHARE,
                )
            )
        speeds: dict[Pair, tuple[float, float]] = {}
        left_out = 0
        for (a, b), (steps_a, steps_b) in reference.pairs.items():
            if a not in kinds or b not in kinds:
                left_out += 1
                continue
            both = (steps_a / reference.alone[a], steps_b / reference.alone[b])
            if kinds[a] <= kinds[b]:
                speeds[kinds[a], kinds[b]] = both
            else:
                speeds[kinds[b], kinds[a]] = both[::-1]
        unknown = sorted({key[0] for key in kinds if key[0] not in UTILISATION})
        notes = Notes()
        notes.read = sum(len(t.alone) for t in tables.values()) + len(reference.pairs)
        found = ProfileSet(
            profiles=tuple(profiles),
            truth=interference_of(speeds),
            metadata=(
                (
                    "source",
                    f"{text.name}, Gavel's throughputs on {order[0].upper()} (stanford-futuredata/gavel)",
                ),
                ("sha256", text.sha256),
                ("assumption.epoch", f"the steps done alone in {EPOCH_S:g} s on {order[0].upper()}"),
                (
                    "assumption.utilisation",
                    f"fitted to the same pairs, at most {UTILISATION_CAP:g}"
                    + (f"; {UNKNOWN_UTILISATION:g} for {', '.join(unknown)}" if unknown else ""),
                ),
                ("assumption.memory", f"{MEMORY_SHARE:g} of {V100_GIB} GiB: two fit, three do not"),
                ("assumption.cpu", f"CPU share {CPU_SHARE:g}"),
                (
                    "pairs",
                    f"{len(reference.pairs)} measured, {reference.conflicts} of them from both sides with "
                    f"different numbers (the slower taken), {left_out} without a throughput alone",
                ),
                *(() if gpu_type is None else (("gpu_type", f"taken to hold for {gpu_type}"),)),
            ),
        )
        return notes.measurements(found, {kind: model_of(key[0]) for key, kind in kinds.items()})
