"""Interference predictors, one file each: how fast a job runs beside another, before anybody tried it.

A predictor is a class with the methods of :class:`Predictor` and a line in :data:`PREDICTORS`; other
distributions register through the entry points ``eaco_opt.predictors``. :func:`predicted_interference` makes
the slowdowns of an instance's kinds of one, for truth or history (docs/model.md section 7), and
:func:`evaluate_predictors` tests them out of sample on a measured table. docs/predictors.md describes both.
"""

from __future__ import annotations

from .base import PREDICTORS, PairSpeed, Predictor, Workload, pair_speeds, workload_of
from .evaluate import LEAVE_OUT, Evaluation, Scores, evaluate_predictors
from .use import named_interference, predicted_interference, with_truth

__all__ = [
    "LEAVE_OUT",
    "PREDICTORS",
    "Evaluation",
    "PairSpeed",
    "Predictor",
    "Scores",
    "Workload",
    "evaluate_predictors",
    "named_interference",
    "pair_speeds",
    "predicted_interference",
    "with_truth",
    "workload_of",
]
