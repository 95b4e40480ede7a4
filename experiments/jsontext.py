"""Strict JSON of whatever the studies hold: no NaN, no infinity, plain ASCII."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any


def plain(value: Any) -> Any:
    """Return a value of JSON's own types: NaN and infinities become null, numpy scalars become numbers."""
    if isinstance(value, Mapping):
        return {str(k): plain(x) for k, x in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(x) for x in value]
    if isinstance(value, (bool, str)) or value is None:
        return value
    if hasattr(value, "item"):
        return plain(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, (int, float)):
        return value
    return str(value)


def json_text(value: Any) -> str:
    """Return strict JSON in ASCII, with a newline."""
    return json.dumps(plain(value), indent=1, allow_nan=False) + "\n"
