"""Any CSV with a header: a mapping says which columns hold what (``--columns``)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from eaco_opt.cluster import Cluster
from eaco_opt.errors import DomainError, TraceError

from .columns import TraceColumns
from .localtime import zone
from .native import Workload
from .options import ImportOptions
from .table import UNITS, Book, Row, recorded, rows
from .text import TraceText, missing, real, shown, whole

ROLES = ("submit", "duration", "gpus", "start", "end", "id", "vc", "state", "model", "priority", "deadline")
"""What a column may hold. Needed are submit, gpus, and duration or start and end."""

TIME_UNITS = {"ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
"""Units of times given as numbers [s]."""

KIND = "csv-job"
"""Kind of a job whose model is not named."""


class OwnCsv:
    """Any CSV with a header; --columns says which column holds what, --time-unit and --time-zone how."""

    SAMPLE = (
        "id,submit,duration,gpus,vc,state,model,deadline\n"
        "a,0,3600,1,x,done,resnet,8000\n"
        "b,60,120,8,y,failed,bert,900\n"
    )

    def __init__(self) -> None:
        self._options = ImportOptions()

    def configure(self, options: ImportOptions) -> None:
        """Take columns, unit and zone from the options of the import.

        Raises
        ------
        DomainError
            A role is unknown, or two roles have one column.
        """
        self._options = options
        self._columns()
        if options.time_unit not in TIME_UNITS:
            raise DomainError(
                f"reader 'csv': unknown time_unit {options.time_unit!r}; known are: {', '.join(TIME_UNITS)}"
            )
        if options.time_zone is not None:
            try:
                zone(options.time_zone)
            except TraceError as error:
                raise DomainError(f"reader 'csv': {error}") from None

    def _columns(self) -> dict[str, str]:
        """Return {role: column}; the column of a role has its name unless the options say otherwise."""
        given = dict(self._options.columns or {})
        for role in given:
            if role not in ROLES:
                raise DomainError(f"reader 'csv': unknown column {role!r}; known are: {', '.join(ROLES)}")
        twice = sorted({c for c in given.values() if list(given.values()).count(c) > 1})
        if twice:
            raise DomainError(f"reader 'csv': column {twice[0]!r} stands for two roles; give each its own")
        return {role: given.get(role, role) for role in ROLES}

    def read(self, text: TraceText) -> TraceColumns:
        """Return the columns of a trace.

        Times are numbers, or ISO dates; the first row that has a submit time says which.

        Raises
        ------
        TraceError
            The header is missing, lacks a column that is needed, or names one twice.
        """
        book = Book(text)
        column = self._columns()
        given = set(self._options.columns or {})
        unit_s = TIME_UNITS[self._options.time_unit]
        by_ends = "duration" not in given and {"start", "end"} <= given
        needed = ["submit", "gpus", *(("start", "end") if by_ends else ("duration",))]
        needed += [role for role in ROLES if role in given and role not in needed]
        required = list(dict.fromkeys(column[role] for role in needed))
        optional = [column[role] for role in ROLES if column[role] not in required]
        calendar: bool | None = None
        present: set[str] = set()
        hint = (
            "say which columns hold what: --columns submit=COLUMN,duration=COLUMN,gpus=COLUMN (from Python: "
            f"columns); known are: {', '.join(ROLES)}"
        )
        for row in rows(book, required=required, optional=optional, what="a CSV", hint=hint):
            present = {role for role in ROLES if column[role] in row.at}
            if calendar is None and not missing(row[column["submit"]]):
                calendar = real(row[column["submit"]].removeprefix("-")) is None
            times: dict[str, float | None] = {}
            wanted = ["submit", *(("start", "end") if by_ends else ())]
            if "deadline" in present and not missing(row[column["deadline"]]):
                wanted.append("deadline")
            for role in wanted:
                times[role] = self._time(book, row, column[role], unit_s, bool(calendar))
                if times[role] is None:
                    break
            if None in times.values():
                continue
            submit_s = times["submit"]
            assert submit_s is not None  # the loop above left otherwise
            duration_s = self._lasts(book, row, column, times, unit_s, by_ends)
            if duration_s is None:
                continue
            gpus = book.gpus(row, column["gpus"])
            if gpus is None:
                continue
            model = book.name(row, column["model"], instead=KIND)
            if model is None:
                continue
            cell = row[column["priority"]]
            size = whole(cell.removeprefix("-"))
            if size is None and not missing(cell):
                what = f"{column['priority']} must be a whole number, got {shown(cell)}; taken as 0"
                book.repair(row.line, "bad-priority", what)
            priority = -(size or 0) if cell.startswith("-") else size or 0
            book.once(row, column["id"])
            deadline = times.get("deadline")
            book.take(
                row.line,
                submit_s=submit_s,
                gpus=gpus,
                duration_s=duration_s,
                model=model,
                vc=row[column["vc"]],
                state=row[column["state"]],
                priority=priority,
                deadline_slack=float("nan") if deadline is None else (deadline - submit_s) / duration_s,
            )
        return book.columns(
            "csv",
            vc="vc" in present,
            state="state" in present,
            priority="priority" in present,
            deadlines="deadline" in present,
            time_zone=(self._options.time_zone or "UTC") if calendar else None,
            assumptions={
                "assumption.columns": ", ".join(f"{r}={column[r]}" for r in ROLES if r in present),
                **(
                    {
                        "assumption.local_time": (
                            f"times without an offset are local in {self._options.time_zone or 'UTC'}"
                        )
                    }
                    if calendar
                    else {"assumption.time_unit": f"times are in {UNITS[unit_s]}"}
                ),
            },
        )

    def _time(self, book: Book, row: Row, column: str, unit_s: float, calendar: bool) -> float | None:
        if calendar:
            return book.calendar_s(row, column, self._options.time_zone or "UTC")
        return book.seconds(row, column, unit_s=unit_s)

    def _lasts(
        self,
        book: Book,
        row: Row,
        column: dict[str, str],
        times: dict[str, float | None],
        unit_s: float,
        by_ends: bool,
    ) -> float | None:
        """Return the running time [s], ``None`` if the row was refused."""
        if not by_ends:
            return book.duration_s(row, column["duration"], unit_s=unit_s)
        start, end = times["start"] or 0.0, times["end"] or 0.0
        if end <= start:
            what = (
                f"{column['end']} must lie after {column['start']}, got {shown(row[column['start']])}, "
                f"{shown(row[column['end']])}"
            )
            book.refuse(row.line, "end-before-start", what)
            return None
        return end - start

    def workload(
        self, columns: TraceColumns, gpus: NDArray[np.int64], options: ImportOptions, cluster: Cluster
    ) -> Workload:
        """Return the trace's own running times, a kind for each model; see the base protocol."""
        return recorded("csv", columns, options, cluster)
