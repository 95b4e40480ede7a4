"""Electrical power of a node as a function of what its GPUs host.

Server power follows Fan, Weber and Barroso (ISCA 2007):
``P(u) = idle + (busy - idle) * (2u - u**r)``. GPU power is a standing part plus a
concave function of the load. Whole-node measurements override both where a
measured set fills the node (docs/model.md section 2).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from . import _validate as v
from .errors import DomainError


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerPower:
    """Power of a server without its GPUs, by CPU utilisation u in [0, 1].

    Attributes
    ----------
    idle_w, busy_w
        Power at u = 0 and u = 1 [W], ``0 <= idle_w <= busy_w``.
    exponent
        The r of ``2u - u**r``, in [1, 2]; 1.4 in Fan, Weber and Barroso (2007).
    """

    idle_w: float
    busy_w: float
    exponent: float = 1.4

    def __post_init__(self) -> None:
        """Validate."""
        put = object.__setattr__
        put(self, "idle_w", v.real("server power", "idle_w", self.idle_w, low=0.0))
        put(self, "busy_w", v.real("server power", "busy_w", self.busy_w, low=self.idle_w))
        put(self, "exponent", v.real("server power", "exponent", self.exponent, low=1.0, high=2.0))

    def power_w(self, cpu: float) -> float:
        """Return the power [W] at CPU utilisation ``cpu`` in [0, 1]."""
        return self.idle_w + (self.busy_w - self.idle_w) * (2.0 * cpu - math.pow(cpu, self.exponent))


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuPower:
    """Power of one GPU, by load l: ``standing_w + dynamic_w * min(1, l)**exponent``.

    Attributes
    ----------
    standing_w
        Power of an idle GPU in an active node [W], >= 0.
    dynamic_w
        Additional power at load 1 [W], >= 0.
    exponent
        In (0, 1]: the curve is concave.
    """

    standing_w: float
    dynamic_w: float
    exponent: float = 1.0

    def __post_init__(self) -> None:
        """Validate."""
        put = object.__setattr__
        put(self, "standing_w", v.real("GPU power", "standing_w", self.standing_w, low=0.0))
        put(self, "dynamic_w", v.real("GPU power", "dynamic_w", self.dynamic_w, low=0.0))
        put(self, "exponent", v.real("GPU power", "exponent", self.exponent, above=0.0, high=1.0))

    def dynamic_power_w(self, load: float) -> float:
        """Return the power [W] above standing at load ``load`` (capped at 1)."""
        capped = min(1.0, load)
        return self.dynamic_w * math.pow(capped, self.exponent) if capped > 0.0 else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredPower:
    """Measured power of a node all of whose GPUs host the same multiset of kinds.

    Attributes
    ----------
    kinds
        The multiset, kept sorted.
    power_w
        Power of the whole node [W], without PUE, positive.
    """

    kinds: tuple[str, ...]
    power_w: float

    def __post_init__(self) -> None:
        """Validate."""
        kinds = tuple(sorted(v.names("measured power", "kinds", self.kinds)))
        if not kinds:
            raise DomainError("measured power: kinds must name at least one job kind, got none")
        object.__setattr__(self, "kinds", kinds)
        owner = f"measured power of {'+'.join(kinds)}"
        object.__setattr__(self, "power_w", v.real(owner, "power_w", self.power_w, above=0.0))


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerModel:
    """Power of an active node of some type (docs/model.md section 2).

    Attributes
    ----------
    server, gpu
        The modelled parts.
    measured
        Whole-node measurements that override the model where they apply.
    lookup
        Whether ``measured`` is used (``power_lookup`` in options and tables).
    """

    server: ServerPower
    gpu: GpuPower
    measured: tuple[MeasuredPower, ...] = ()
    lookup: bool = True

    def __post_init__(self) -> None:
        """Validate."""
        for field, kind in (("server", ServerPower), ("gpu", GpuPower)):
            if not isinstance(getattr(self, field), kind):
                raise DomainError(
                    f"power model: {field} must be a {kind.__name__}, got {getattr(self, field)!r}"
                )
        measured = v.items("power model", "measured", self.measured, MeasuredPower)
        sets = [m.kinds for m in measured]
        if len(set(sets)) != len(sets):
            raise DomainError("power model: measured names the same set twice; keep one row for each set")
        object.__setattr__(self, "measured", tuple(sorted(measured, key=lambda m: m.kinds)))
        v.flag("power model", "lookup", self.lookup)

    def empty_active_w(self, gpus: int) -> float:
        """Return the power [W] of an active node with ``gpus`` GPUs and nothing running."""
        return self.server.idle_w + gpus * self.gpu.standing_w
