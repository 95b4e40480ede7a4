"""Local times of a trace, read with the daylight-saving rules of its zone, and dates given by people."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from eaco_opt.errors import TraceError

AMBIGUOUS = "ambiguous-local-time"
SKIPPED = "skipped-local-time"
"""Reasons: a local time that occurs twice (clocks set back), one that never does (clocks set forward)."""


@cache
def zone(name: str) -> ZoneInfo:
    """Return a time zone by its IANA name.

    Raises
    ------
    TraceError
        Neither the system nor the ``tzdata`` package knows it.
    """
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise TraceError(
            f"time zone {name!r} is not known here; install the system's time-zone data or the package tzdata"
        ) from None


def to_posix_s(text: str, zone_name: str) -> tuple[float, str | None]:
    """Return the POSIX time [s] of an ISO time, and the reason if it needed a rule.

    A time with an offset (``+00:00``, ``Z``) is taken as it is. Any other is local time of the zone. A local
    time that occurs twice is read as the first of the two (``fold=0``: daylight-saving time); one that never
    occurs is read with the offset before the jump (``fold=0`` too), which moves it forward by the jump.

    Parameters
    ----------
    text
        ISO 8601, e.g. ``2017-11-05 01:30:00``; a date alone is its midnight.
    zone_name
        IANA name of the zone, e.g. ``America/Los_Angeles``.

    Raises
    ------
    ValueError
        The text is no ISO time, or lies outside the years 1970 to 9998.
    """
    stamp = datetime.fromisoformat(text.strip(" "))
    if not 1970 <= stamp.year <= 9998:
        raise ValueError(f"year {stamp.year} is outside 1970 to 9998")
    if stamp.tzinfo is not None:
        return stamp.timestamp(), None
    local = stamp.replace(tzinfo=zone(zone_name), fold=0)
    # Seconds of both readings; away from the clock changes they agree.
    first, second = local.timestamp(), local.replace(fold=1).timestamp()
    if first == second:
        return first, None
    return first, AMBIGUOUS if second > first else SKIPPED


def to_utc_text(posix_s: float) -> str:
    """Return a POSIX time [s] as ISO text in UTC, to the second."""
    return datetime.fromtimestamp(posix_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
