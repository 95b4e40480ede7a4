"""Checks of values at the construction of domain objects.

Each function returns the value in its canonical type or raises
:class:`~eaco_opt.errors.DomainError` with a text that names the object, the
field, what was expected and what was got.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping
from typing import Any

from .errors import DomainError

_MAX_NAME = 500


def _shown(value: Any) -> str:
    try:
        shown = repr(value)
    except ValueError:  # an integer of more digits than Python writes out
        return "a number of thousands of digits"
    return shown if len(shown) <= 80 else shown[:77] + "..."


def name(owner: str, field: str, value: Any) -> str:
    """Return a non-empty printable string of at most 500 characters."""
    if not isinstance(value, str) or not value or value != value.strip():
        raise DomainError(
            f"{owner}: {field} must be a non-empty string without surrounding blanks, got {_shown(value)}"
        )
    if len(value) > _MAX_NAME or not value.isprintable():
        raise DomainError(
            f"{owner}: {field} must be printable and at most {_MAX_NAME} characters long, got {_shown(value)}"
        )
    return value


def integer(owner: str, field: str, value: Any, low: int, high: int | None = None) -> int:
    """Return an int in [low, high]; booleans are refused."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise DomainError(f"{owner}: {field} must be a whole number, got {_shown(value)}")
    number = int(value)
    if number < low or (high is not None and number > high):
        upper = "" if high is None else f" and at most {high}"
        raise DomainError(f"{owner}: {field} must be at least {low}{upper}, got {_shown(number)}")
    return number


def real(
    owner: str,
    field: str,
    value: Any,
    *,
    low: float | None = None,
    high: float | None = None,
    above: float | None = None,
    infinite: bool = False,
) -> float:
    """Return a float in the stated range; NaN is refused, infinity only if allowed."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise DomainError(f"{owner}: {field} must be a number, got {_shown(value)}")
    try:
        number = float(value)
    except OverflowError:
        raise DomainError(f"{owner}: {field} must be below 1.8e308 in size, got {_shown(value)}") from None
    if math.isnan(number) or (math.isinf(number) and not (infinite and number > 0)):
        kind = "a finite number or infinity" if infinite else "a finite number"
        raise DomainError(f"{owner}: {field} must be {kind}, got {number}")
    if low is not None and number < low:
        raise DomainError(f"{owner}: {field} must be at least {low:g}, got {number!r}")
    if above is not None and number <= above:
        raise DomainError(f"{owner}: {field} must be above {above:g}, got {number!r}")
    if high is not None and number > high:
        raise DomainError(f"{owner}: {field} must be at most {high:g}, got {number!r}")
    return number + 0.0  # -0.0 becomes 0.0, so that equal objects have equal digests


def flag(owner: str, field: str, value: Any) -> bool:
    """Return a bool; anything else is refused."""
    if not isinstance(value, bool):
        raise DomainError(f"{owner}: {field} must be true or false, got {_shown(value)}")
    return value


def sequence(owner: str, field: str, value: Any, what: str) -> tuple[Any, ...]:
    """Return the members of a sequence; text and mappings are refused, ``what`` names the members."""
    if not isinstance(value, (str, bytes, Mapping)):
        try:
            return tuple(value)
        except TypeError:  # not iterable
            pass
    raise DomainError(f"{owner}: {field} must be a sequence of {what}, got {_shown(value)}")


def pairs(owner: str, field: str, value: Any, what: str) -> tuple[tuple[Any, Any], ...]:
    """Return the pairs of a sequence of pairs or of a mapping; ``what`` names a pair."""
    out: list[tuple[Any, Any]] = []
    for pair in sequence(
        owner, field, value.items() if isinstance(value, Mapping) else value, f"{what} pairs"
    ):
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise DomainError(f"{owner}: {field} must hold {what} pairs, got {_shown(pair)}")
        out.append((pair[0], pair[1]))
    return tuple(out)


def text(owner: str, field: str, value: Any) -> str:
    """Return a string, which may be empty."""
    if not isinstance(value, str):
        raise DomainError(f"{owner}: {field} must be a string, got {_shown(value)}")
    return value


def items(owner: str, field: str, value: Any, kind: type) -> tuple[Any, ...]:
    """Return a tuple whose members all have the given type."""
    out = sequence(owner, field, value, kind.__name__)
    for member in out:
        if not isinstance(member, kind):
            raise DomainError(f"{owner}: {field} must hold {kind.__name__} objects, got {_shown(member)}")
    return out


def names(owner: str, field: str, value: Any) -> tuple[str, ...]:
    """Return a tuple of strings, each fit to be a name (as of :func:`name`)."""
    return tuple(name(owner, field, member) for member in items(owner, field, value, str))
