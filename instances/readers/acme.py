"""The Acme traces (Shanghai AI Laboratory, 2023): ``trace_seren.csv`` and ``trace_kalos.csv``, CC-BY-4.0.

Published with Hu et al., "Characterization of Large Language Model Development in the Datacenter", NSDI 2024
(InternLM/AcmeTrace). Times carry an offset, +08:00 in Seren and +00:00 in Kalos. The column duration is end -
start in Seren and end - submit in Kalos, whatever the README says; so running times are taken from start and
end.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from eaco_opt.cluster import Cluster

from .columns import TraceColumns
from .localtime import to_posix_s
from .native import Workload
from .options import ImportOptions
from .table import MAX_SECONDS, Book, Row, recorded, rows
from .text import TraceText, missing, real, shown

REQUIRED = ("gpu_num", "submit_time", "start_time", "end_time")
OPTIONAL = ("job_id", "type", "state", "duration", "mem_per_pod_GB")
"""Columns that are read or that tell the form; user, node_num, cpu_num, queue, gpu_time and others are "
"ignored."""

ZONES = {"seren": "Asia/Shanghai", "kalos": "UTC"}
"""Zone of a time without an offset."""

KIND = "acme-job"
"""Kind of a job whose type is not named."""

UTILISATION = 0.9
"""Mean GPU utilisation of every job, fraction. Hu et al. measured medians of 97 % (Seren) and 99 % (Kalos);
with this a job can still run alone under the default U_threshold."""


class Acme:
    """The Acme traces Seren and Kalos; running time is end - start."""

    SAMPLE = (
        "job_id,user,node_num,gpu_num,cpu_num,type,state,submit_time,start_time,end_time,duration,queue,gpu_time\n"
        "1,u1,1,8,64,Pretrain,COMPLETED,2023-03-01 00:00:06+08:00,2023-03-01 00:00:10+08:00,"
        "2023-03-01 01:00:10+08:00,3600,4.0,28800\n"
        "2,u1,1,1,8,Evaluation,FAILED,2023-03-01 00:01:00+08:00,2023-03-01 00:01:00+08:00,"
        "2023-03-01 00:02:00+08:00,60,0.0,60\n"
    )

    def read(self, text: TraceText) -> TraceColumns:
        """Return the columns of a trace.

        Raises
        ------
        TraceError
            The header is missing, or lacks a column or names one twice.
        """
        book = Book(text)
        form = "seren"
        for row in rows(book, required=REQUIRED, optional=OPTIONAL, what="an Acme trace"):
            form = "kalos" if "mem_per_pod_GB" in row.at else "seren"
            zone = ZONES[form]
            submit_s = book.calendar_s(row, "submit_time", zone)
            if submit_s is None:
                continue
            duration_s = self._running_s(book, row, submit_s, zone)
            if duration_s is None:
                continue
            gpus = book.gpus(row, "gpu_num")
            if gpus is None:
                continue
            kind = book.name(row, "type", instead=KIND)
            if kind is None:
                continue
            book.once(row, "job_id")
            book.take(row.line, submit_s=submit_s, gpus=gpus, duration_s=duration_s, model=kind)
        return book.columns(
            f"acme, {form}",
            time_zone=ZONES[form],
            assumptions={
                "assumption.local_time": f"times without an offset are local in {ZONES[form]}",
                "assumption.running_time": "end - start; the column duration is checked, not used",
            },
        )

    @staticmethod
    def _running_s(book: Book, row: Row, submit_s: float, zone: str) -> float | None:
        """Return end - start [s], ``None`` if the row was refused."""
        times: list[float] = []
        for column in ("start_time", "end_time"):
            cell = row[column]
            if missing(cell):
                reason = "never-started" if column == "start_time" else "never-ended"
                book.refuse(row.line, reason, f"{column} is missing, so the running time is unknown")
                return None
            try:
                times.append(to_posix_s(cell, zone)[0])
            except (ValueError, OverflowError):
                what = f"{column} must look like 2023-05-01 12:30:00+08:00, got {shown(cell)}"
                book.refuse(row.line, "bad-timestamp", what)
                return None
        start_s, end_s = times
        if end_s < start_s:
            what = f"end_time must not lie before start_time, got {shown(row['end_time'])}"
            book.refuse(row.line, "end-before-start", what)
            return None
        if end_s == start_s:
            book.refuse(row.line, "duration-not-positive", "end_time must lie after start_time, got the same")
            return None
        if end_s - start_s > MAX_SECONDS:  # pragma: no cover - years are bounded by to_posix_s
            return None
        if start_s < submit_s:
            book.repair(
                row.line, "start-before-submission", "starts before it is submitted; submit time kept"
            )
        written = real(row["duration"])
        if written is not None and min(abs(written - (end_s - t)) for t in (start_s, submit_s)) > 1.0:
            what = (
                f"duration should be end - start = {end_s - start_s:g} s (or end - submit), got "
                f"{shown(row['duration'])}; not used"
            )
            book.repair(row.line, "duration-mismatch", what)
        return end_s - start_s

    def workload(
        self, columns: TraceColumns, gpus: NDArray[np.int64], options: ImportOptions, cluster: Cluster
    ) -> Workload:
        """Return the trace's own running times, a kind for each type of work; see the base protocol."""
        return recorded(
            "acme-2024",
            columns,
            options,
            cluster,
            utilisation=dict.fromkeys(columns.model, UTILISATION),
            assumptions={
                "assumption.utilisation": (
                    f"{UTILISATION:g} for every job: medians of 97 % (Seren) and 99 % (Kalos) were measured "
                    "(Hu et al., NSDI 2024), cut to the default U_threshold"
                )
            },
        )
