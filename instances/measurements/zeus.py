"""Zeus's epoch times and mean GPU powers under power limits (You et al., NSDI 2023), on V100 and A40.

Columns ``dataset, network, batch_size, optimizer, power_limit`` [W], ``time_per_epoch`` [s],
``average_power`` [W]. The GPU type stands in the name of the file (``summary_power_v100.csv``).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from eaco_opt.errors import TraceError
from eaco_opt.profile import EpochTime, Profile
from eaco_opt.profile_set import PowerLimit, ProfileSet

from ..readers.native import CPU_SHARE, MEMORY_SHARE
from ..readers.table import LARGEST_SHARE, Book, Row, rows
from ..readers.text import TraceText, missing, real, shown, whole
from .base import Measurements, Notes, header_of, none_taken

GPUS: dict[str, tuple[str, float]] = {"v100": ("V100", 16.0), "a40": ("A40", 48.0)}
"""GPU type and memory [GiB] by what the name of a file holds."""

IDLE_W = 30.0
"""Power of an idle GPU [W] (V100: as the literature has it; of A40 the same is assumed)."""

COLUMNS = (
    "dataset",
    "network",
    "batch_size",
    "optimizer",
    "power_limit",
    "time_per_epoch",
    "average_power",
)


class ZeusTable:
    """Zeus's epoch times and mean powers of workloads alone under power limits; no pairs."""

    def knows(self, text: TraceText) -> bool:
        """Tell by the columns."""
        return {"power_limit", "time_per_epoch"} <= set(header_of(text))

    def beside(self, text: TraceText) -> Sequence[str]:
        """Return nothing: each GPU type has a file of its own, which may be given as well."""
        return ()

    def read(self, texts: Sequence[TraceText], gpu_type: str | None) -> Measurements:
        """Return what the files hold; a workload in several files is one profile.

        Its epoch time is that under the highest limit measured.
        """
        notes = Notes()
        curves: dict[tuple[str, str], dict[float, PowerLimit]] = {}
        model: dict[str, str] = {}
        full_w: dict[str, float] = {}
        memory_gib: list[float] = []
        for text in texts:
            known = [GPUS[k] for k in GPUS if re.search(rf"(?<![a-z0-9]){k}(?![a-z0-9])", text.name.lower())]
            if gpu_type is None and len(known) != 1:
                raise TraceError(
                    f"{text.file}: expected the GPU type in the name of the file, {' or '.join(GPUS)}; "
                    "rename it, or name the type with --gpu-type (gpu_type from Python)"
                )
            named = known[0][0] if gpu_type is None else gpu_type
            memory_gib.append(known[0][1] if known else GPUS["v100"][1])
            book = Book(text)
            for row in rows(book, required=COLUMNS, what="Zeus's measured power limits"):
                point = _point(row, named, text, notes)
                if point is None:
                    continue
                curve = curves.setdefault((point.profile, named), {})
                if point.limit_w in curve:
                    notes.refuse(text, row.line, "duplicate", f"{point.profile} at {point.limit_w:g} W again")
                    continue
                curve[point.limit_w] = point
                model[point.profile] = row["network"]
                full_w[named] = max(full_w.get(named, 0.0), point.limit_w)
            notes.read += book.read
            notes.add(book.notes)
        if not curves:
            raise none_taken(texts[0], notes, "at least one workload measured under a power limit")
        memory = MEMORY_SHARE * min(memory_gib)
        profiles: dict[str, Profile] = {}
        for (name, named), curve in sorted(
            curves.items(), key=lambda c: (c[0][0], c[0][1] != "V100", c[0][1])
        ):
            best = curve[max(curve)]
            time = EpochTime(gpu_type=named, gpus=1, epoch_time_s=best.epoch_time_s)
            if name in profiles:
                old = profiles[name]
                profiles[name] = Profile(
                    name=name,
                    epoch_times=(*old.epoch_times, time),
                    gpu_util_mean=old.gpu_util_mean,
                    gpu_util_peak=1.0,
                    gpu_memory_mean_gib=memory,
                    gpu_memory_peak_gib=memory,
                    cpu_share=CPU_SHARE,
                )
                continue
            share = (best.power_w - IDLE_W) / max(1.0, full_w[named] - IDLE_W)
            profiles[name] = Profile(
                name=name,
                epoch_times=(time,),
                gpu_util_mean=min(LARGEST_SHARE, max(0.02, round(share, 4))),
                gpu_util_peak=1.0,
                gpu_memory_mean_gib=memory,
                gpu_memory_peak_gib=memory,
                cpu_share=CPU_SHARE,
            )
        found = ProfileSet(
            profiles=tuple(profiles.values()),
            power_limits=tuple(p for curve in curves.values() for p in curve.values()),
            metadata=(
                ("source", f"{', '.join(t.name for t in texts)}: Zeus (ml-energy/zeus, Apache-2.0)"),
                ("sha256", ", ".join(t.sha256 for t in texts)),
                ("assumption.epoch", "epoch time under the highest power limit measured"),
                (
                    "assumption.utilisation",
                    f"(mean power - {IDLE_W:g} W) / (highest limit - {IDLE_W:g} W) under the highest limit, "
                    f"from 0.02 to {LARGEST_SHARE:g}; V100 where it was measured there; peak 1; not measured",
                ),
                ("assumption.memory", f"{MEMORY_SHARE:g} of {min(memory_gib):g} GiB: two fit, three do not"),
                ("assumption.cpu", f"CPU share {CPU_SHARE:g}"),
                ("assumption.sharing", "no pair was measured: the sum of utilisations, at least 1"),
            ),
        )
        return notes.measurements(found, model)


def _point(row: Row, gpu_type: str, text: TraceText, notes: Notes) -> PowerLimit | None:
    """Return the point of a row, ``None`` if it was refused."""
    names = [row[c] for c in ("network", "dataset", "optimizer")]
    batch = whole(row["batch_size"])
    if any(missing(n) or not n.isprintable() or len(n) > 100 for n in names) or batch is None or batch < 1:
        cells = ", ".join([*names, row["batch_size"]])
        what = f"expected network, dataset, optimizer and a batch size, got {shown(cells)}"
        notes.refuse(text, row.line, "bad-model", what)
        return None
    values: dict[str, float] = {}
    for column in ("power_limit", "time_per_epoch", "average_power"):
        value = real(row[column])
        if value is None or not 0.0 < value < 1e9:
            reason = f"bad-{column.replace('_', '-')}"
            notes.refuse(text, row.line, reason, f"{column} must be above 0, got {shown(row[column])}")
            return None
        values[column] = value
    if values["average_power"] > values["power_limit"]:
        what = (
            f"{values['average_power']:.4g} W under a limit of {values['power_limit']:g} W, kept as measured"
        )
        notes.repair(text, row.line, "power-above-limit", what)
    return PowerLimit(
        profile=f"{names[0]} ({names[1]}, batch size {batch}, {names[2]})",
        gpu_type=gpu_type,
        limit_w=values["power_limit"],
        epoch_time_s=values["time_per_epoch"],
        power_w=values["average_power"],
    )
