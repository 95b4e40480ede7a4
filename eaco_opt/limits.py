"""What may share a GPU: thresholds, the admission rule, and the objective's weights."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from . import _validate as v
from .errors import DomainError

MAX_SHARE_CAP = 8
"""Largest number of jobs on one GPU that the toolkit supports."""


class AdmissionRule(StrEnum):
    """How U_threshold is read (docs/model.md section 1).

    ``resulting``: the load of the set with the newcomer must not exceed it
    (equations 3-4 of the paper). ``existing``: the load of those already there must
    not (Algorithm 2, line 4, read literally).
    """

    RESULTING = "resulting"
    EXISTING = "existing"


class ObjectiveForm(StrEnum):
    """Units of the objective: relative to exclusive execution, or kWh and hours."""

    NORMALISED = "normalised"
    RAW = "raw"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits on what shares a GPU (docs/model.md section 1).

    Attributes
    ----------
    u_threshold
        Largest GPU-core load, fraction, >= 0 (values above 1 are meaningful).
    mem_threshold
        Largest share of a GPU's memory, fraction in (0, 1].
    max_share
        Most jobs on one GPU, K, between 1 and 8.
    rule
        Admission rule.
    """

    u_threshold: float = 0.9
    mem_threshold: float = 0.9
    max_share: int = 4
    rule: AdmissionRule = AdmissionRule.RESULTING

    def __post_init__(self) -> None:
        """Validate."""
        put = object.__setattr__
        put(self, "u_threshold", v.real("limits", "u_threshold", self.u_threshold, low=0.0))
        put(self, "mem_threshold", v.real("limits", "mem_threshold", self.mem_threshold, above=0.0, high=1.0))
        put(self, "max_share", v.integer("limits", "max_share", self.max_share, 1, MAX_SHARE_CAP))
        try:
            put(self, "rule", AdmissionRule(self.rule))
        except ValueError:
            raise DomainError(
                f"limits: rule must be one of {', '.join(r.value for r in AdmissionRule)}, got {self.rule!r}"
            ) from None


@dataclass(frozen=True, slots=True, kw_only=True)
class Objective:
    """Weights of the objective (docs/model.md section 3).

    Attributes
    ----------
    alpha
        Weight of energy against average time per epoch, in [0, 1].
    form
        ``normalised`` (by exclusive execution) or ``raw`` (kWh and hours).
    jtt_weight
        Weight of the mean job total time, >= 0.
    """

    alpha: float = 0.5
    form: ObjectiveForm = ObjectiveForm.NORMALISED
    jtt_weight: float = 0.0

    def __post_init__(self) -> None:
        """Validate."""
        put = object.__setattr__
        put(self, "alpha", v.real("objective", "alpha", self.alpha, low=0.0, high=1.0))
        put(self, "jtt_weight", v.real("objective", "jtt_weight", self.jtt_weight, low=0.0))
        try:
            put(self, "form", ObjectiveForm(self.form))
        except ValueError:
            raise DomainError(
                f"objective: form must be one of {', '.join(f.value for f in ObjectiveForm)}, got "
                f"{self.form!r}"
            ) from None
