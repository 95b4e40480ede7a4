"""From a predictor to slowdowns: what an instance's truth or a policy's history may be."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from itertools import combinations_with_replacement

from eaco_opt.errors import DomainError
from eaco_opt.instance import Instance
from eaco_opt.interference import Interference, KindDemand, MeasuredSlowdown

from ..measurements import Measurements, read_measurements
from .base import PREDICTORS, Workload, pair_speeds

MAX_KINDS = 500
"""Most kinds whose pairs are predicted one by one."""


def predicted_interference(
    name: str, demands: Mapping[str, KindDemand], table: Measurements | None = None
) -> Interference:
    """Return the slowdowns that a predictor gives sets of some kinds.

    Parameters
    ----------
    name
        Name in :data:`instances.predictors.PREDICTORS`.
    demands
        Stand-alone demands by kind, of :meth:`~eaco_opt.instance.Instance.demands`.
    table
        Measured pairs to learn from.

    Returns
    -------
    Interference
        Predictors that are a slowdown model of the toolkit give that. Others give a table of all pairs of the
        kinds; larger sets are built from their pairs (slowdown model ``pair-product``). Pairs that the table
        measured with speed 0 cannot share. Either way it is written into an instance file in full.

    Raises
    ------
    UnknownNameError, PartError
        No such predictor, or it needs a library that is not installed.
    DomainError
        It needs a table and there is none, the table holds no pairs, or there are too many kinds.
    """
    part = PREDICTORS.get(name)
    cannot = () if table is None else table.profiles.truth.cannot_share
    cannot = tuple(pair for pair in cannot if set(pair) <= set(demands))
    if not part.needs_table and hasattr(part, "interference"):
        found: Interference = part(()).interference()
        return dataclasses.replace(found, cannot_share=cannot)
    rows = () if table is None else pair_speeds(table)
    if part.needs_table and not rows:
        raise DomainError(
            f"predictor {name!r}: expected measured pairs to learn from, got "
            f"{'no table' if table is None else 'a table without pairs'}; name one after the predictor, as "
            f"in {name}:colocate_info.csv"
        )
    if len(demands) > MAX_KINDS:
        raise DomainError(
            f"predictor {name!r}: expected at most {MAX_KINDS} kinds of profiles, got {len(demands)}; map "
            "the jobs to fewer, or take additive-utilisation or paper-fit"
        )
    model = {} if table is None else dict(table.model)
    known = {
        kind: Workload(model=model.get(kind, kind), demand=demand) for kind, demand in sorted(demands.items())
    }
    sets = [p for p in combinations_with_replacement(known, 2) if tuple(sorted(p)) not in set(cannot)]
    asked = [(known[a], known[b]) for a, b in sets] + [(known[b], known[a]) for a, b in sets]
    speeds = part(rows).speeds(asked)
    measured = tuple(
        MeasuredSlowdown(kinds=pair, factors=(1.0 / float(speeds[i]), 1.0 / float(speeds[len(sets) + i])))
        for i, pair in enumerate(sets)
    )
    return Interference(measured=measured, cannot_share=cannot, model="pair-product")


def named_interference(
    text: str, demands: Mapping[str, KindDemand]
) -> tuple[Interference, dict[str, str]] | None:
    """Return the slowdowns that ``PREDICTOR`` or ``PREDICTOR:FILE`` names, ``None`` for any other text.

    Parameters
    ----------
    text
        Name of a predictor and, behind a colon, a measured table (docs/predictors.md).
    demands
        Stand-alone demands by kind.

    Returns
    -------
    tuple
        Slowdowns, and what the metadata say of them: predictor, and name and digest of the table.

    Raises
    ------
    DomainError, TraceError, FormatError, PartError
        As :func:`predicted_interference` and :func:`~instances.measurements.read_measurements`.
    """
    name, colon, path = text.partition(":")
    if name not in PREDICTORS:
        return None
    if colon and not path:
        raise DomainError(f"predictor {name!r}: expected a file behind the colon, got {text!r}")
    table = read_measurements(path) if path else None
    told = {"predictor": name}
    if table is not None:
        told["table"] = dict(table.profiles.metadata).get("source", os.path.basename(path))
        told["sha256"] = dict(table.profiles.metadata).get("sha256", "")
    return predicted_interference(name, demands, table), told


def with_truth(instance: Instance, text: str) -> Instance:
    """Return an instance whose true slowdowns are those of a predictor.

    Parameters
    ----------
    instance
        The instance; its measured loads and memories stay.
    text
        ``PREDICTOR`` or ``PREDICTOR:FILE``, as for :func:`named_interference`.

    Raises
    ------
    UnknownNameError
        The text names no predictor; and what :func:`named_interference` raises.
    """
    found = named_interference(text, instance.demands())
    if found is None:
        PREDICTORS.get(text.partition(":")[0])  # raises, and lists the known ones
        raise DomainError(f"truth: expected a predictor, got {text!r}")
    truth, told = found
    metadata = dict(instance.metadata) | {f"truth.{key}": value for key, value in told.items() if value}
    return dataclasses.replace(instance, truth=truth, metadata=tuple(metadata.items()))
