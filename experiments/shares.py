"""Gaps and shares, said the same way everywhere (docs/model.md sections 3 and 10), and bounds for them."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass, field

from eaco_opt.evaluation import Evaluation
from eaco_opt.instance import Instance
from eaco_opt.io_digest import instance_digest
from eaco_opt.limits import Objective
from formulations.configurations import TooManyPatternsError
from solvers.bounds import Bound, bound
from solvers.verify import InternalError

KWH_J = 3.6e6

LEAST_ROOM = 1e-6
"""Shares are null where reference and bound are closer than this share of the reference (model.md 10.2)."""

AGREEMENT = 1e-6
"""A value that lies below a bound by less than this share of it is put down to rounding."""


def attained(
    instance: Instance, start: float | None, value: float | None, bound: float | None
) -> float | None:
    """Return the share of the attainable saving, (start - value) / (start - bound).

    ``None`` where one is missing, where there is nothing to save, and where sleep power or wake-ups cost
    something (docs/model.md 10.2).
    """
    if start is None or value is None or bound is None or start - bound <= LEAST_ROOM * abs(start):
        return None
    used = {node.node_type for node in instance.cluster.nodes}
    for node_type in instance.cluster.node_types:
        extras = (node_type.sleep_w, node_type.wake_s, node_type.wake_energy_j)
        if node_type.name in used and max(extras) > 0.0:
            return None
    return (start - value) / (start - bound)


def relaxed_instance(instance: Instance, found: Evaluation) -> Instance:
    """Return the instance without the missed deadlines, and with U_threshold as high as was used."""
    jobs = tuple(
        dataclasses.replace(job, deadline_s=math.inf) if late else job
        for job, late in zip(instance.jobs, found.jobs.missed.tolist(), strict=True)
    )
    limits = instance.limits
    if found.threshold_excess > 0.0:
        limits = dataclasses.replace(limits, u_threshold=limits.u_threshold + found.threshold_excess)
    return dataclasses.replace(instance, jobs=jobs, limits=limits)


@dataclass(slots=True)
class Bounds:
    """Lower bounds in continuous time, each worked out once.

    Attributes
    ----------
    time_limit_s
        Wall-clock limit [s] of each; what was proved until then counts.
    energy
        Whether energy is bounded as well.
    tell
        Called with a text before each.
    """

    time_limit_s: float | None = None
    energy: bool = False
    tell: Callable[[str], None] | None = None
    _found: dict[tuple[str, Objective], Bound | None] = field(default_factory=dict)

    def of(self, instance: Instance) -> Bound | None:
        """Return the bound of an instance; ``None`` where it has too many patterns."""
        key = (instance_digest(instance), instance.objective)  # the digest does not depend on the objective
        if key not in self._found:
            if self.tell is not None:
                self.tell("bound")
            try:
                found = bound(instance, time_limit_s=self.time_limit_s, energy=self.energy)
            except TooManyPatternsError:
                found = None
            self._found[key] = found
        return self._found[key]

    def put(self, instance: Instance, found: Bound) -> None:
        """Keep a bound that was worked out elsewhere."""
        self._found[instance_digest(instance), instance.objective] = found

    def for_value(self, instance: Instance, found: Evaluation) -> Bound | None:
        """Return the bound for a schedule's value: of the relaxed instance if it broke a rule."""
        return self.of(instance if found.feasible else relaxed_instance(instance, found))


def gap_to(owner: str, value: float, lower: float | None) -> float | None:
    """Return (value - lower) / lower, ``None`` without a positive bound.

    Raises
    ------
    InternalError
        The value lies below the bound.
    """
    if lower is None or lower <= 0.0 or not math.isfinite(lower):
        return None
    gap = (value - lower) / lower
    if gap < -AGREEMENT:
        raise InternalError(
            f"{owner} costs {value!r}, less than the lower bound {lower!r}. This is an error of the bound "
            f"or of the "
            "physics; please report it"
        )
    return gap
