"""How good predictors are out of sample: leave one model out, or one pair."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from eaco_opt.errors import DomainError, PartError, UnknownNameError

from .base import PREDICTORS, PairSpeed, Predictor

LEAVE_OUT = ("model", "pair")
"""What is held out together."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scores:
    """Errors of one predictor on pairs that it did not learn from.

    Attributes
    ----------
    predictor
        Its name.
    mae, bias
        Mean absolute error, and mean of predicted less measured; relative speed.
    p95
        95th percentile of the absolute error.
    rank_correlation
        Spearman's, of predicted and measured speeds; NaN where the predictions are all equal.
    unsafe_share
        Share of predictions above what was measured.
    n
        Predictions.
    """

    predictor: str
    mae: float
    bias: float
    p95: float
    rank_correlation: float
    unsafe_share: float
    n: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Evaluation:
    """Scores of predictors, and the predictions behind them.

    Attributes
    ----------
    scores
        In the order asked for.
    leave_out
        ``model`` or ``pair``.
    rows
        (N,) the measured speeds that were predicted.
    held_out
        (N,) what was left out for each: a model, or both kinds of a pair.
    predicted
        (N,) predictions by predictor.
    missing
        Predictors that could not run, with the reason.
    """

    scores: tuple[Scores, ...]
    leave_out: str
    rows: tuple[PairSpeed, ...]
    held_out: tuple[str, ...]
    predicted: dict[str, NDArray[np.float64]]
    missing: dict[str, str]


def _folds(rows: Sequence[PairSpeed], leave_out: str) -> list[tuple[str, list[int], list[int]]]:
    """Return (what is held out, rows to learn from, rows to predict) of each fold."""
    groups: dict[str, list[int]] = {}
    for i, row in enumerate(rows):
        if leave_out == "model":
            for model in {row.own.model, row.other.model}:
                groups.setdefault(model, []).append(i)
        else:
            a, b = sorted((row.own.kind, row.other.kind))
            groups.setdefault(f"{a} + {b}", []).append(i)
    everything = range(len(rows))
    out = []
    for name in sorted(groups):
        held = set(groups[name])
        out.append((name, [i for i in everything if i not in held], groups[name]))
    return out


def evaluate_predictors(
    rows: Sequence[PairSpeed],
    leave_out: str = "model",
    predictors: Sequence[str] | None = None,
    progress: Callable[[str, int, int], None] | None = None,
) -> Evaluation:
    """Test predictors on measured pairs that they did not learn from.

    With ``leave_out`` a model, each model in turn is on neither side of what is learnt from, and every side
    of every pair that holds it is predicted; a pair of two models is so predicted twice, once for each. With
    a pair, each pair of kinds is left out in turn, both sides.

    Parameters
    ----------
    rows
        Measured speeds, of :func:`pair_speeds`.
    leave_out
        ``model`` or ``pair``.
    predictors
        Names in :data:`PREDICTORS`; all without it, those whose library is not installed left out.
    progress
        Called with (predictor, folds done, folds).

    Raises
    ------
    UnknownNameError
        No such predictor or way of leaving out.
    DomainError
        There are no pairs, or nothing is left to learn from when one is held out.
    PartError
        A predictor that was named needs a library that is not installed.
    """
    if leave_out not in LEAVE_OUT:
        raise UnknownNameError(
            f"predictors: unknown choice of what to leave out {leave_out!r}; known are: "
            f"{', '.join(LEAVE_OUT)}"
        )
    for name in predictors or ():
        if name not in PREDICTORS:
            PREDICTORS.get(name)  # raises, and lists the known ones
    rows = tuple(rows)
    if not rows:
        raise DomainError(
            "predictors: expected measured pairs with speeds above 0, got none; give a table of workloads "
            "that share a GPU"
        )
    folds = _folds(rows, leave_out)
    for name, learn, _ in folds:
        if not learn:
            raise DomainError(
                f"predictors: expected pairs without {name} to learn from, got none; measure more, or leave "
                "out pairs instead of models"
            )
    order = [i for _, _, held in folds for i in held]
    measured = np.array([rows[i].speed for i in order])
    predicted: dict[str, NDArray[np.float64]] = {}
    missing: dict[str, str] = {}
    for name in dict.fromkeys(PREDICTORS.names() if predictors is None else predictors):
        try:
            part: type[Predictor] = PREDICTORS.get(name)
        except PartError as error:
            if predictors is not None:
                raise
            missing[name] = str(error)
            _log.info("%s", error)
            continue
        parts: list[NDArray[np.float64]] = []
        for done, (_, learn, held) in enumerate(folds):
            if progress is not None:
                progress(name, done, len(folds))
            fitted = part([rows[i] for i in learn])
            parts.append(fitted.speeds([(rows[i].own, rows[i].other) for i in held]))
        predicted[name] = np.concatenate(parts)
    return Evaluation(
        scores=tuple(scores_of(name, measured, values) for name, values in predicted.items()),
        leave_out=leave_out,
        rows=tuple(rows[i] for i in order),
        held_out=tuple(name for name, _, held in folds for _ in held),
        predicted=predicted,
        missing=missing,
    )


def scores_of(name: str, measured: NDArray[np.float64], predicted: NDArray[np.float64]) -> Scores:
    """Return the scores of (N,) predictions of (N,) measured speeds."""
    error = predicted - measured
    return Scores(
        predictor=name,
        mae=float(np.abs(error).mean()),
        bias=float(error.mean()),
        p95=float(np.percentile(np.abs(error), 95.0)),
        rank_correlation=_rank_correlation(measured, predicted),
        unsafe_share=float((error > 1e-9).mean()),
        n=len(error),
    )


def _rank_correlation(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    from scipy.stats import rankdata

    # Predictions that differ by rounding alone are equal.
    x, y = rankdata(a), rankdata(np.round(b, 12))
    if x.std() == 0.0 or y.std() == 0.0:
        return math.nan
    return float(np.corrcoef(x, y)[0, 1])
