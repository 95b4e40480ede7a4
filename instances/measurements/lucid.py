"""Lucid's measurements on one RTX 3090 (Hu et al., ASPLOS 2023): workloads alone, and pairs that share it.

``single_data.csv``
    ``model, dataset, batchsize, amp, speed`` [samples/s], ``gpu_util, gmem_util`` [percent], ``gmem`` [MiB].
``colocate_info.csv``
    for both sides ``model, dataset, gpu_num, batchsize, amp, speed`` (relative to alone), and of the pair
    ``gpu_util`` [percent], ``gmem_util`` [percent], ``gmem`` [MiB].

The file of pairs needs the other one: beside it, or given as well.
"""

from __future__ import annotations

from collections.abc import Sequence

from eaco_opt.errors import TraceError
from eaco_opt.instance import MeasuredUsage
from eaco_opt.profile import EpochTime, Profile
from eaco_opt.profile_set import ProfileSet

from ..readers.native import CPU_SHARE
from ..readers.table import Book, Row, rows
from ..readers.text import TraceText, real, shown, whole
from .base import EPOCH_S, Measurements, Notes, Pair, header_of, interference_of, none_taken

GPU_TYPE = "RTX3090"
SINGLES = "single_data.csv"
ALONE = ("model", "dataset", "batchsize", "amp", "speed", "gpu_util", "gmem")
SIDE = ("model", "dataset", "gpu_num", "batchsize", "amp", "speed")
PAIRED = (*(f"{c}{side}" for side in "12" for c in SIDE), "gpu_util", "gmem")
MAX_SPEED = 100.0
"""Fastest that a job beside another is believed to be, relative to alone."""


class LucidTable:
    """Lucid's workloads alone and in pairs on one RTX 3090; speeds relative to alone, 0 cannot share."""

    def knows(self, text: TraceText) -> bool:
        """Tell by the columns of either file."""
        names = set(header_of(text))
        return "model1" in names or {"model", "gmem_util", "batchsize"} <= names

    def beside(self, text: TraceText) -> Sequence[str]:
        """Return the file of single measurements for the file of pairs."""
        return (SINGLES,) if "model1" in header_of(text) else ()

    def read(self, texts: Sequence[TraceText], gpu_type: str | None) -> Measurements:
        """Return what the files hold."""
        notes = Notes()
        pairs = [t for t in texts if "model1" in header_of(t)]
        alone = [t for t in texts if t not in pairs]
        if pairs and not alone:
            raise TraceError(
                f"{pairs[0].file}: expected the measurements alone in {SINGLES} beside it; put it there or "
                "give both files"
            )
        made: dict[str, Profile] = {}
        model: dict[str, str] = {}
        for text in alone:
            self._singles(text, notes, gpu_type or GPU_TYPE, made, model)
        if not made:
            raise none_taken(alone[0], notes, "at least one workload measured alone")
        speeds: dict[Pair, tuple[float, float]] = {}
        usage: dict[Pair, tuple[float, float]] = {}
        for text in pairs:
            self._pairs(text, notes, made, speeds, usage)
        found = ProfileSet(
            profiles=tuple(made[k] for k in sorted(made)),
            truth=interference_of(speeds),
            usage=tuple(
                MeasuredUsage(kinds=k, load=load, memory_gib=memory)
                for k, (load, memory) in sorted(usage.items())
                if 0.0 not in speeds[k]
            ),
            metadata=(
                (
                    "source",
                    f"{', '.join(t.name for t in texts)}: Lucid, one {GPU_TYPE} (S-Lab-System-Group/Lucid)",
                ),
                ("sha256", ", ".join(t.sha256 for t in texts)),
                ("assumption.epoch", f"the samples done alone in {EPOCH_S:g} s"),
                ("assumption.peak", "peak GPU utilisation 1; peak memory as measured"),
                ("assumption.cpu", f"CPU share {CPU_SHARE:g}"),
                *(() if gpu_type is None else (("gpu_type", f"taken to hold for {gpu_type}"),)),
            ),
        )
        return notes.measurements(found, model)

    def _singles(
        self, text: TraceText, notes: Notes, gpu_type: str, made: dict[str, Profile], model: dict[str, str]
    ) -> None:
        book = Book(text)
        for row in rows(book, required=ALONE, what="Lucid's single measurements"):
            kind = _kind(row, "", text, notes)
            if kind is None:
                continue
            load, memory = _usage(row, text, notes)
            speed = real(row["speed"])
            if load is None or memory is None:
                continue
            if speed is None or speed <= 0.0:
                what = f"speed must be above 0 samples/s, got {shown(row['speed'])}"
                notes.refuse(text, row.line, "bad-speed", what)
            elif kind in made:
                notes.refuse(text, row.line, "duplicate", f"{kind} occurred before")
            else:
                model[kind] = row["model"]
                made[kind] = Profile(
                    name=kind,
                    epoch_times=(EpochTime(gpu_type=gpu_type, gpus=1, epoch_time_s=EPOCH_S),),
                    gpu_util_mean=load,
                    gpu_util_peak=1.0,
                    gpu_memory_mean_gib=memory,
                    gpu_memory_peak_gib=memory,
                    cpu_share=CPU_SHARE,
                )
        _close(book, notes)

    def _pairs(
        self,
        text: TraceText,
        notes: Notes,
        made: dict[str, Profile],
        speeds: dict[Pair, tuple[float, float]],
        usage: dict[Pair, tuple[float, float]],
    ) -> None:
        book = Book(text)
        for row in rows(book, required=PAIRED, what="Lucid's measured pairs"):
            kinds = [_kind(row, "1", text, notes)]
            if kinds[0] is not None:
                kinds.append(_kind(row, "2", text, notes))
            if None in kinds:
                continue
            a, b = str(kinds[0]), str(kinds[1])
            if a not in made or b not in made:
                lacking = a if a not in made else b
                notes.refuse(text, row.line, "no-single", f"{lacking} was not measured alone")
                continue
            if any(whole(row[f"gpu_num{side}"]) != 1 for side in "12"):
                notes.refuse(text, row.line, "bad-gpus", "both must run on one GPU")
                continue
            cells = [row["speed1"], row["speed2"]]
            found = [real(cell) for cell in cells]
            if any(s is None or not 0.0 <= s <= MAX_SPEED for s in found):
                what = f"speeds must be from 0 to {MAX_SPEED:g} times that alone, got {', '.join(cells)}"
                notes.refuse(text, row.line, "bad-speed", shown(what)[1:-1])
                continue
            load, memory = _usage(row, text, notes)
            if load is None or memory is None:
                continue
            fast = (float(found[0] or 0.0), float(found[1] or 0.0))
            if a > b:
                a, b, fast = b, a, fast[::-1]
            if a == b and fast[0] != fast[1]:
                notes.repair(text, row.line, "equal-jobs-differ", "two equal jobs: both get the lower speed")
                fast = (min(fast), min(fast))
            if (a, b) in speeds:
                notes.repair(text, row.line, "duplicate-pair", "measured before; the lower speeds stand")
                fast = (min(fast[0], speeds[a, b][0]), min(fast[1], speeds[a, b][1]))
                load, memory = max(load, usage[a, b][0]), max(memory, usage[a, b][1])
            speeds[a, b], usage[a, b] = fast, (load, memory)
        _close(book, notes)


def _close(book: Book, notes: Notes) -> None:
    notes.read += book.read
    notes.add(book.notes)


def _kind(row: Row, side: str, text: TraceText, notes: Notes) -> str | None:
    """Return the kind of one side of a row, ``None`` if the row was refused."""
    name, dataset = row[f"model{side}"], row[f"dataset{side}"]
    batch, amp = whole(row[f"batchsize{side}"]), whole(row[f"amp{side}"])
    if not (name and dataset) or not (name + dataset).isprintable() or len(name + dataset) > 200:
        notes.refuse(text, row.line, "bad-model", f"expected model and dataset, got {shown(name + dataset)}")
    elif batch is None or batch < 1 or amp not in (0, 1):
        cells = f"{row[f'batchsize{side}']}, {row[f'amp{side}']}"
        notes.refuse(text, row.line, "bad-model", f"expected a batch size and amp 0 or 1, got {shown(cells)}")
    else:
        return f"{name} ({dataset}, batch size {batch}{', amp' if amp else ''})"
    return None


def _usage(row: Row, text: TraceText, notes: Notes) -> tuple[float | None, float | None]:
    """Return load (fraction) and memory [GiB] of a row, ``None`` if it was refused."""
    load, memory = real(row["gpu_util"]), real(row["gmem"])
    if load is None or load < 0.0 or memory is None or memory < 0.0:
        cells = f"{row['gpu_util']}, {row['gmem']}"
        notes.refuse(text, row.line, "bad-usage", f"expected gpu_util and gmem from 0, got {shown(cells)}")
        return None, None
    if load > 100.0:
        notes.repair(text, row.line, "clipped-utilisation", f"GPU utilisation {load:g} % read as 100 %")
    return min(100.0, load) / 100.0, memory / 1024.0
