"""The Philly trace (Microsoft, 2017) as CSV: timestamp, duration, num_gpus, gpu_time, cluster.

The trace was published with Jeon et al., "Analysis of Large-Scale Multi-Tenant GPU Clusters for DNN Training
Workloads", USENIX ATC 2019 (msr-fiddle/philly-traces, CC-BY-4.0). Submit times are local, US Pacific, and the
trace runs over the end of daylight-saving time: on 2017-11-05 the times from 01:00 to 02:00 occur twice.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet

import numpy as np
from numpy.typing import NDArray

from eaco_opt.cluster import Cluster
from eaco_opt.errors import DomainError, TraceError
from eaco_opt.interference import Interference

from ..clusters import gpu_types
from .columns import REFUSED, REPAIRED, RowNote, TraceColumns
from .localtime import AMBIGUOUS, to_posix_s
from .native import Workload
from .options import ImportOptions
from .table import cells_of
from .text import TraceText, is_utf8, missing, real, shown, whole

TIME_ZONE = "America/Los_Angeles"
"""Zone of the trace's timestamps."""

REQUIRED = ("timestamp", "duration", "num_gpus")
OPTIONAL = ("gpu_time", "cluster")
"""Columns that must and that may be there, in any order; others are ignored."""

KIND = "philly-job"
"""The one kind of a native import: the trace does not say what its jobs ran."""

UTILISATION = 0.52
"""Mean GPU utilisation of the cluster's jobs, fraction (Jeon et al.)."""


class PhillyCsv:
    """The Philly trace as CSV (timestamp, duration, num_gpus, gpu_time, cluster), US Pacific time."""

    SAMPLE = (
        "timestamp,duration,num_gpus,gpu_time,cluster\n"
        "2017-10-09 06:13:03,2951.0,2,5902.0,6214e9\n"
        "2017-10-09 07:01:55,66.0,1,66.0,11cb48\n"
    )

    def read(self, text: TraceText) -> TraceColumns:
        """Return the columns of a trace.

        Raises
        ------
        TraceError
            The header is missing, or lacks a column or names one twice.
        """
        rows = text.rows()
        number, line = next(rows, (1, ""))
        names = [c.strip().strip('"').strip() for c in line.split(",")]
        lacking = [c for c in REQUIRED if c not in names]
        twice = [c for c in (*REQUIRED, *OPTIONAL) if names.count(c) > 1]
        if lacking or twice:
            wrong = f"no column {', '.join(lacking)}" if lacking else f"column {', '.join(twice)} twice"
            raise TraceError(
                f"{text.file}:{number}: expected a header with the columns "
                f"{', '.join((*REQUIRED, *OPTIONAL))}, got {wrong}: {shown(line)}"
            )
        at = {name: names.index(name) for name in (*REQUIRED, *OPTIONAL) if name in names}
        width, read = len(names), 0
        notes: list[RowNote] = []
        lines: list[int] = []
        submits: list[float] = []
        durations: list[float] = []
        gpus: list[int] = []
        clusters: list[str] = []

        def note(number: int, action: str, reason: str, what: str) -> None:
            notes.append(RowNote(file=text.file, line=number, action=action, reason=reason, text=what))

        for number, line in rows:
            read += 1
            if not is_utf8(line):
                note(number, REFUSED, "not-utf-8", "expected text in UTF-8, got other bytes")
                continue
            cells = cells_of(line)
            if cells is None or len(cells) != width:
                got = "broken quotes" if cells is None else str(len(cells))
                note(number, REFUSED, "wrong-column-count", f"expected {width} columns, got {got}")
                continue
            stamp = cells[at["timestamp"]]
            try:
                submit, odd = to_posix_s(stamp, TIME_ZONE)
            except (ValueError, OverflowError) as error:
                if isinstance(error, TraceError):  # no time zones on this machine: nothing can be read
                    raise
                what = f"timestamp must look like 2017-10-09 07:01:55, got {shown(stamp)}"
                note(number, REFUSED, "missing-timestamp" if missing(stamp) else "bad-timestamp", what)
                continue
            cell = cells[at["duration"]]
            duration = real(cell)
            if duration is None or duration > 1e10:
                what = f"duration must be a number of seconds, at most 1e10, got {shown(cell)}"
                note(number, REFUSED, "missing-duration" if missing(cell) else "bad-duration", what)
                continue
            if duration <= 0.0:
                note(
                    number, REFUSED, "duration-not-positive", f"duration must be above 0 s, got {shown(cell)}"
                )
                continue
            cell = cells[at["num_gpus"]]
            count = whole(cell)
            if count == 0:
                note(number, REFUSED, "no-gpu", "num_gpus must be at least 1, got 0")
                continue
            if count is None or not 1 <= count <= 1_000_000:
                what = f"num_gpus must be a whole number from 1 to 1000000, got {shown(cell)}"
                note(number, REFUSED, "missing-gpus" if missing(cell) else "bad-gpus", what)
                continue
            if odd is not None:
                passes = (
                    "occurs twice, read as the first" if odd == AMBIGUOUS else "never occurs, moved forward"
                )
                note(number, REPAIRED, odd, f"{shown(stamp)} in {TIME_ZONE} {passes}")
            if "gpu_time" in at:
                cell = cells[at["gpu_time"]]
                total = real(cell)
                product = duration * count
                if not missing(cell) and (total is None or abs(total - product) > 1e-6 * product + 0.5):
                    what = (
                        f"gpu_time should be duration * num_gpus = {product:g}, got {shown(cell)}; not used"
                    )
                    note(number, REPAIRED, "gpu-time-mismatch", what)
            lines.append(number)
            submits.append(submit)
            durations.append(duration)
            gpus.append(count)
            if "cluster" in at:
                clusters.append(cells[at["cluster"]].strip())
        return TraceColumns(
            file=text.file,
            name=text.name,
            sha256=text.sha256,
            variant="philly-csv",
            read=read,
            line=np.array(lines, dtype=np.int64),
            submit_s=np.array(submits, dtype=np.float64),
            gpus=np.array(gpus, dtype=np.int64),
            duration_s=np.array(durations, dtype=np.float64),
            vc=tuple(clusters),
            time_zone=TIME_ZONE,
            notes=tuple(notes),
            assumptions={
                "assumption.local_time": (
                    f"times are local in {TIME_ZONE}; where clocks are set back a time that occurs twice is "
                    "the first of the two"
                )
            },
        )

    def workload(
        self, columns: TraceColumns, gpus: NDArray[np.int64], options: ImportOptions, cluster: Cluster
    ) -> Workload:
        """Return the trace's own running times, one generic kind; see the base protocol.

        Raises
        ------
        DomainError
            A table of throughputs was given: running times are in the trace.
        """
        if options.throughputs is not None:
            raise DomainError(
                "reader 'philly-csv': throughputs must be left out: the trace holds running times"
            )
        types = gpu_types(cluster)

        def truth(kinds: AbstractSet[str]) -> Interference:
            return Interference(model="additive")

        return Workload(
            gpu_types=types,
            duration_s=np.repeat(columns.duration_s[:, np.newaxis], len(types), axis=1),
            kind=[KIND] * len(columns.line),
            utilisation={KIND: UTILISATION},
            truth=truth,
            assumptions={
                "assumption.duration": (
                    "the trace's running times, on every GPU type of the cluster and unchanged where a job "
                    "is clipped to fewer GPUs; the trace does not say what it ran on"
                ),
                "assumption.utilisation": (
                    f"{UTILISATION:g} for every job: the cluster's mean (Jeon et al., USENIX ATC 2019)"
                ),
                "assumption.slowdown": "sum of the utilisations of the jobs on a GPU, at least 1",
            },
        )
