"""What a slot costs, in units of the objective (docs/model.md sections 2.3-2.8 and 3.1).

The objective of a static schedule on the grid is linear in slots::

    objective = sum over active nodes and slots of energy * (node power - sleep power)
              + energy * (sum of sleep powers of all nodes) * (last end)
              + sum over jobs of time * (duration / n_j)  +  total * (end)   -   total_constant

with the weights of :class:`Costs`. Power of a node with its CPU sum and the sets on its GPUs is
``server(c) + G * standing + sum of dynamic(S)``; where all GPUs host the same multiset of kinds that was
measured, the residual of :meth:`Costs.residual_w` brings it to the measured power.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from eaco_opt.limits import ObjectiveForm

if TYPE_CHECKING:
    from eaco_opt.instance import Instance

    from .grid import Grid


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Rates:
    """What the objective charges for energy and time (docs/model.md 3.1).

    Attributes
    ----------
    energy
        Objective of one joule drawn by a node, PUE included.
    running
        (J,) objective of one second of running, by job.
    total
        Objective of one second later that a job ends, the same for all jobs.
    """

    energy: float
    running: NDArray[np.float64]
    total: float


def rates_of(instance: Instance) -> Rates:
    """Return the rates of the instance's objective."""
    view = instance.arrays()
    o = instance.objective
    jobs = max(1, len(instance.jobs))
    if o.form is ObjectiveForm.RAW:
        per_joule, per_tpe_s, per_jtt_s = o.alpha / 3.6e6, (1.0 - o.alpha) / 3600.0, o.jtt_weight / 3600.0
    else:
        e0, t0, j0 = view.reference()
        per_joule = o.alpha / e0 if e0 > 0.0 else 0.0
        # Without a reference time no job fits any node type: the model is infeasible whatever it costs.
        per_tpe_s = (1.0 - o.alpha) / t0 if t0 > 0.0 else 0.0
        per_jtt_s = o.jtt_weight / j0 if j0 > 0.0 else 0.0
    return Rates(
        energy=per_joule * instance.cluster.pue,
        running=per_tpe_s / (jobs * view.epochs),
        total=per_jtt_s / jobs,
    )


class NodePower:
    """Power of a node by what it hosts (docs/model.md section 2).

    Attributes
    ----------
    sleep_w
        (T,) sleep power by node type [W].
    """

    def __init__(self, instance: Instance) -> None:
        self._view = instance.arrays()
        self._types = instance.cluster.node_types
        self.sleep_w: NDArray[np.float64] = np.array([t.sleep_w for t in self._types])

    def standing_w(self, node_type: int) -> float:
        """Return the power of an active node with nothing running [W]."""
        t = self._types[node_type]
        return t.power.empty_active_w(t.gpus)

    def dynamic_w(self, number: int, node_type: int) -> float:
        """Return the load-dependent power of a GPU that hosts a set [W]."""
        return float(self._view.sets.dynamic_w[number, node_type])

    def cpu_w(self, cpu: float, node_type: int) -> float:
        """Return the server's power above idle at a sum of CPU utilisations, which is capped at 1 [W]."""
        server = self._types[node_type].power.server
        capped = min(1.0, cpu)
        return server.power_w(capped) - server.idle_w if capped > 0.0 else 0.0

    def set_cpu(self, number: int) -> float:
        """Return the CPU utilisation of a node all of whose GPUs host a set, before the cap."""
        sets = self._view.sets
        demands = {d.kind: d.cpu_share for d in self._view.instance.demands().values()}
        return math.fsum(demands[kind] for kind in sets.kinds[number])

    def residual_w(self, number: int, node_type: int) -> float | None:
        """Return measured minus modelled power of a node full of a set [W], ``None`` if unmeasured."""
        t = self._types[node_type]
        measured = float(self._view.sets.measured_w[number, node_type])
        if math.isnan(measured) or not t.power.lookup:
            return None
        model = self.standing_w(node_type) + self.cpu_w(self.set_cpu(number), node_type)
        return measured - model - t.gpus * self.dynamic_w(number, node_type)

    def full_node_w(self, number: int, node_type: int) -> float:
        """Return the power of a node all of whose GPUs host a set [W]."""
        model = self.standing_w(node_type) + self.cpu_w(self.set_cpu(number), node_type)
        model += self._types[node_type].gpus * self.dynamic_w(number, node_type)
        return model + (self.residual_w(number, node_type) or 0.0)


class Costs(NodePower):
    """Weights of the objective on a grid, and powers of nodes.

    Attributes
    ----------
    energy
        Objective of one watt drawn for one slot, PUE included.
    time
        (J,) objective of one slot of running, by job.
    total
        Objective of one slot later that a job ends, the same for all jobs.
    total_constant
        What the releases take off the objective.
    """

    def __init__(self, instance: Instance, grid: Grid) -> None:
        super().__init__(instance)
        rates = rates_of(instance)
        self.energy = rates.energy * grid.slot_s
        self.time: NDArray[np.float64] = rates.running * grid.slot_s
        self.total = rates.total * grid.slot_s
        self.total_constant = rates.total * float(self._view.release_s.sum())
