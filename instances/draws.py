"""Random numbers that stay the same: one stream for each quantity, and nothing but uniform doubles.

Each quantity of an instance (model, GPU count, release, ...) has a PCG64 stream of its own, derived from the
seed by :class:`numpy.random.SeedSequence`, and draws one number for each job or row in the order of its
input. So an option that changes one quantity leaves the others as they were, and the first jobs of a longer
list are those of a shorter one. Only ``Generator.random`` is used, whose doubles numpy keeps from version to
version; every distribution is an inverse of its cumulative function, worked out here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from eaco_opt.errors import DomainError, UnknownNameError

STREAMS = (
    "model",
    "gpus",
    "epochs",
    "release",
    "slack",
    "node-type",
    "group-size",
    "gap",
    "rate",
    "duration",
    "duration-in-group",
    "burst",
    "burst-time",
    "burst-offset",
    "sample",
    "thin",
)
"""Names of the streams. Their places fix their seeds: add at the end, never reorder or remove."""


def checked_seed(owner: str, seed: object) -> int:
    """Return a seed: a whole number from 0 to 2**63 - 1."""
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or not 0 <= int(seed) < 2**63:
        raise DomainError(f"{owner}: seed must be a whole number from 0 to 2**63 - 1, got {seed!r}")
    return int(seed)


def stream(seed: int, name: str) -> np.random.Generator:
    """Return the generator of one quantity.

    Parameters
    ----------
    seed
        Seed of the whole call.
    name
        One of :data:`STREAMS`.
    """
    # The same as SeedSequence(seed).spawn(len(STREAMS))[STREAMS.index(name)], without the others.
    return np.random.Generator(
        np.random.PCG64(np.random.SeedSequence(seed, spawn_key=(STREAMS.index(name),)))
    )


def uniforms(seed: int, name: str, count: int) -> NDArray[np.float64]:
    """Return ``count`` numbers uniform in [0, 1), the first of the stream ``name``."""
    out: NDArray[np.float64] = stream(seed, name).random(count)
    return out


def whole(u: NDArray[np.float64], low: int, high: int) -> NDArray[np.int64]:
    """Return whole numbers uniform in [low, high] from uniforms ``u``, of the same shape."""
    return np.minimum(low + np.floor(u * (high - low + 1)).astype(np.int64), high)


def between(u: NDArray[np.float64], low: float, high: float) -> NDArray[np.float64]:
    """Return numbers uniform in [low, high] from uniforms ``u``, of the same shape."""
    return low + u * (high - low)


def pick(u: NDArray[np.float64], weights: Sequence[float]) -> NDArray[np.int64]:
    """Return positions drawn with the given weights from uniforms ``u``, of the same shape.

    Weights are finite, not negative and not all 0; a position of weight 0 is never drawn.
    """
    w = np.asarray(weights, dtype=np.float64)
    edges = np.cumsum(w / w.sum())
    edges[np.flatnonzero(w)[-1] :] = 1.0  # rounding must not leave a gap below 1
    return np.searchsorted(edges, u, side="right").astype(np.int64)


def shares(owner: str, mix: Mapping[str, float] | None, known: Sequence[str]) -> tuple[float, ...]:
    """Return the share of each name in ``known``; equal shares without a mix, 0 for names it leaves out.

    Raises
    ------
    UnknownNameError
        The mix names something else; the text lists the known names.
    DomainError
        A share is negative or not finite, or all are 0.
    """
    if mix is None:
        return (1.0 / len(known),) * len(known)
    if not isinstance(mix, Mapping):
        raise DomainError(f"{owner}: mix must map model names to shares, got {mix!r}")
    for name, value in mix.items():
        if name not in known:
            raise UnknownNameError(f"{owner}: unknown model {name!r} in mix; known are: {', '.join(known)}")
        if (
            isinstance(value, bool)
            or not isinstance(value, (int, float, np.number))
            or not 0.0 <= float(value) < math.inf
        ):
            raise DomainError(f"{owner}: mix[{name}] must be a finite number >= 0, got {value!r}")
    total = math.fsum(float(v) for v in mix.values())
    if not 0.0 < total < math.inf:
        raise DomainError(f"{owner}: mix must hold at least one share above 0, got {dict(mix)!r}")
    return tuple(float(mix.get(name, 0.0)) / total for name in known)


def checked_slack(owner: str, slack: object) -> tuple[float, float]:
    """Return (low, high), two finite numbers with 0 < low <= high."""
    pair = tuple(slack) if isinstance(slack, (tuple, list)) else ()
    if (
        len(pair) != 2
        or any(isinstance(x, bool) or not isinstance(x, (int, float, np.number)) for x in pair)
        or not 0.0 < float(pair[0]) <= float(pair[1]) < math.inf
    ):
        raise DomainError(f"{owner}: slack must be two finite numbers with 0 < low <= high, got {slack!r}")
    return float(pair[0]), float(pair[1])
