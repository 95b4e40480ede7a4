"""The plain columns that every reader makes of its text, and notes on rows not taken as they stood."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

REPAIRED = "repaired"
REFUSED = "refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class RowNote:
    """What was done to one row of a trace besides taking it.

    Attributes
    ----------
    file, line
        Where the row stands.
    action
        ``repaired`` or ``refused``.
    reason
        Short word under which such rows are counted.
    text
        What was expected, got and done.
    """

    file: str
    line: int
    action: str
    reason: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceColumns:
    """N readable rows of a trace, in the order of the file.

    Attributes
    ----------
    file, name, sha256
        Of the :class:`~instances.readers.text.TraceText`.
    variant
        Which form of the format it is, for the metadata.
    read
        Rows in the file, readable or not.
    line
        (N,) line numbers.
    submit_s
        (N,) submit times [s]: POSIX time where ``time_zone`` is given, else since an unnamed origin.
    gpus
        (N,) GPUs asked for.
    duration_s
        (N,) running times [s], NaN where the trace gives none.
    model
        (N,) names of what the rows run; empty without such a column.
    steps
        (N,) training steps; empty without such a column.
    vc
        (N,) virtual clusters; empty without such a column.
    state
        (N,) how the rows ended, in the trace's own words; empty without such a column.
    priority
        (N,) priorities, larger first; empty without such a column.
    deadline_slack
        (N,) the trace's own deadline as a multiple of the running time, NaN where a row has none; empty
        without such a column.
    utilisation, memory_gib
        (N,) mean GPU utilisation (fraction) and memory of a GPU [GiB] that the trace gives for the rows, NaN
        where it gives none; empty without such columns.
    time_zone
        Name of the zone in which the trace's local times, and dates given without an offset, are read.
    notes
        Refused rows, and repairs of readable ones.
    assumptions
        What was assumed, for the metadata.
    """

    file: str
    name: str
    sha256: str
    variant: str
    read: int
    line: NDArray[np.int64]
    submit_s: NDArray[np.float64]
    gpus: NDArray[np.int64]
    duration_s: NDArray[np.float64]
    model: tuple[str, ...] = ()
    steps: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    vc: tuple[str, ...] = ()
    state: tuple[str, ...] = ()
    priority: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    deadline_slack: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0, dtype=np.float64))
    utilisation: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0, dtype=np.float64))
    memory_gib: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0, dtype=np.float64))
    time_zone: str | None = None
    notes: tuple[RowNote, ...] = ()
    assumptions: Mapping[str, str] = field(default_factory=dict)
