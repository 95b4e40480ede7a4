"""Gavel's table of measured throughputs: each model alone, and pairs that share a GPU.

Two forms hold the same numbers, in steps per second:

JSON (Gavel's ``simulation_throughputs.json``)
    ``{"v100": {"('ResNet-18 (batch size 16)', 1)": {"null": 32.4, "('A3C', 1)": [30.1, 6.0]}}}``:
    by GPU type, then (model, GPU count); ``null`` is alone, any other key a partner, with the throughputs of
    both.
CSV
    Columns ``model, gpus, partner_model, partner_gpus, steps_per_s, partner_steps_per_s``; without a partner
    the model is alone. It holds V100 only.

A throughput of 0 in a pair means that the two cannot share (Gavel ran out of memory, or did not measure it).
"""

from __future__ import annotations

import csv
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from eaco_opt.errors import TraceError

from .text import TraceText, read_text, real, shown, whole

Key = tuple[str, int]
"""(model, GPU count)."""

MAX_TABLE_BYTES = 256 << 20

CSV_COLUMNS = ("model", "gpus", "partner_model", "partner_gpus", "steps_per_s", "partner_steps_per_s")
CSV_GPU_TYPE = "v100"

_KEY = re.compile(r"""\(\s*(?:'([^'\\]+)'|"([^"\\]+)")\s*,\s*([0-9]{1,6})\s*\)""")


@dataclass(slots=True, kw_only=True)
class Throughputs:
    """Measured throughputs of one GPU type.

    Attributes
    ----------
    alone
        Steps per second of each (model, GPU count) alone, positive.
    pairs
        Steps per second of both members together, by the sorted pair of keys; 0 cannot share. Where a pair
        was given from both sides with different numbers the lower ones stand.
    conflicts
        Number of pairs given with different numbers.
    """

    alone: dict[Key, float] = field(default_factory=dict)
    pairs: dict[tuple[Key, Key], tuple[float, float]] = field(default_factory=dict)
    conflicts: int = 0

    def add_pair(self, a: Key, b: Key, steps_a: float, steps_b: float) -> None:
        """Add a measured pair; a second measurement of it keeps the lower throughputs."""
        if a > b:
            a, b, steps_a, steps_b = b, a, steps_b, steps_a
        if a == b and steps_a != steps_b:
            # Equal jobs have equal speeds: take the lower for both.
            self.conflicts += 1
            steps_a = steps_b = min(steps_a, steps_b)
        before = self.pairs.get((a, b))
        if before is not None and before != (steps_a, steps_b):
            self.conflicts += 1
            steps_a, steps_b = min(before[0], steps_a), min(before[1], steps_b)
        self.pairs[a, b] = (steps_a, steps_b)


def _key(place: str, text: str) -> Key:
    match = _KEY.fullmatch(text.strip())
    if match is None or int(match[3]) < 1:
        raise TraceError(
            f"{place}: expected a key like \"('ResNet-18 (batch size 16)', 1)\", got {shown(text)}"
        )
    return match[1] or match[2], int(match[3])


def _rate(place: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0.0 <= value < 1e18:
        raise TraceError(f"{place}: expected a throughput >= 0 [steps/s], got {shown(str(value))}")
    return float(value)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out = dict(pairs)
    if len(out) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise ValueError(f"key {shown(key)} occurs twice")
            seen.add(key)
    return out


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is no throughput")


def _from_json(text: TraceText) -> dict[str, Throughputs]:
    try:
        document = json.loads("\n".join(text.lines), object_pairs_hook=_unique, parse_constant=_no_constant)
    except RecursionError:
        raise TraceError(
            f"{text.file}: expected Gavel's throughput JSON, got something nested without end"
        ) from None
    except ValueError as error:
        raise TraceError(f"{text.file}: expected Gavel's throughput JSON, got {error}") from None
    if not isinstance(document, dict) or not document:
        raise TraceError(f"{text.file}: expected an object by GPU type, got {shown(json.dumps(document))}")
    out: dict[str, Throughputs] = {}
    for gpu_type, rows in document.items():
        table = Throughputs()
        place = f"{text.file}: {shown(gpu_type)}"
        if not isinstance(rows, dict):
            raise TraceError(f"{place}: expected an object by (model, GPUs), got {shown(json.dumps(rows))}")
        for name, partners in rows.items():
            key = _key(place, name)
            here = f"{place}, {shown(name)}"
            if not isinstance(partners, dict):
                raise TraceError(f"{here}: expected an object by partner, got {shown(json.dumps(partners))}")
            for partner, value in partners.items():
                if partner == "null":
                    rate = _rate(here, value)
                    if rate > 0.0:
                        table.alone[key] = rate
                elif isinstance(value, list) and len(value) == 2:
                    there = f"{here} with {shown(partner)}"
                    table.add_pair(key, _key(there, partner), _rate(there, value[0]), _rate(there, value[1]))
                else:
                    raise TraceError(
                        f"{here} with {shown(partner)}: expected a pair of throughputs, got "
                        f"{shown(json.dumps(value))}"
                    )
        out[gpu_type.lower()] = table
    return out


def _from_csv(text: TraceText) -> dict[str, Throughputs]:
    table = Throughputs()
    header: list[str] | None = None
    for number, line in text.rows():
        place = f"{text.file}:{number}"
        try:
            cells = next(csv.reader([line], strict=True))
        except csv.Error as error:
            raise TraceError(f"{place}: expected a line of CSV, got {shown(line)} ({error})") from None
        if header is None:
            header = [c.strip() for c in cells]
            if sorted(header) != sorted(CSV_COLUMNS):
                raise TraceError(
                    f"{place}: expected the columns {', '.join(CSV_COLUMNS)} (or Gavel's JSON form), got "
                    f"{shown(line)}"
                )
            continue
        if len(cells) != len(header):
            raise TraceError(f"{place}: expected {len(header)} columns, got {len(cells)}")
        row = dict(zip(header, cells, strict=True))

        def count(column: str, row: Mapping[str, str] = row, place: str = place) -> int:
            value = whole(row[column])
            if value is None or value < 1:
                raise TraceError(f"{place}: {column} must be a whole number >= 1, got {shown(row[column])}")
            return value

        def rate(column: str, row: Mapping[str, str] = row, place: str = place) -> float:
            value = real(row[column])
            if value is None:
                raise TraceError(
                    f"{place}: {column} must be a throughput >= 0 [steps/s], got {shown(row[column])}"
                )
            return _rate(f"{place}: {column}", value)

        if not row["model"].strip():
            raise TraceError(f"{place}: model must be a name, got nothing")
        key = (row["model"].strip(), count("gpus"))
        if not row["partner_model"].strip():
            alone = rate("steps_per_s")
            if alone > 0.0:
                table.alone[key] = alone
        else:
            partner = (row["partner_model"].strip(), count("partner_gpus"))
            table.add_pair(key, partner, rate("steps_per_s"), rate("partner_steps_per_s"))
    if header is None:
        raise TraceError(f"{text.file}: expected a table of throughputs, got an empty file")
    return {CSV_GPU_TYPE: table}


def parse_throughputs(text: TraceText) -> dict[str, Throughputs]:
    """Return the throughputs of each GPU type, its name in lower case.

    Raises
    ------
    TraceError
        The text is neither form, or a number is unusable; the text says where.
    """
    first = next((line for line in text.lines if line.strip()), "")
    if first.lstrip()[:1] in ("{", "["):
        return _from_json(text)
    return _from_csv(text)


def read_throughputs(path: str | os.PathLike[str]) -> dict[str, Throughputs]:
    """Return the throughputs of each GPU type in a file; see :func:`parse_throughputs`."""
    return parse_throughputs(read_text(path, limit=MAX_TABLE_BYTES))
