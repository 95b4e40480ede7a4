"""Profiles together with what was measured about them: sharing, and power limits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from . import _validate as v
from .errors import DomainError
from .instance import MeasuredUsage
from .interference import Interference
from .profile import Profile, checked_profiles


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerLimit:
    """Epoch time and mean power of a workload alone on one GPU under a power limit.

    Attributes
    ----------
    profile
        Name of the profile.
    gpu_type
        GPU that was measured.
    limit_w
        Power limit of the GPU [W], positive.
    epoch_time_s
        Time of one epoch under the limit [s], positive.
    power_w
        Mean power of the GPU [W], positive.
    """

    profile: str
    gpu_type: str
    limit_w: float
    epoch_time_s: float
    power_w: float

    def __post_init__(self) -> None:
        """Validate."""
        v.name("power limit", "profile", self.profile)
        owner = f"power limit of {self.profile!r}"
        v.name(owner, "gpu_type", self.gpu_type)
        for field in ("limit_w", "epoch_time_s", "power_w"):
            object.__setattr__(self, field, v.real(owner, field, getattr(self, field), above=0.0))


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileSet:
    """What a file of measured workloads holds (docs/formats.md section 5).

    Attributes
    ----------
    profiles
        At least one, in the order given.
    truth
        Slowdowns of sets of their kinds.
    usage
        Measured loads and memories of sets of their kinds, each once.
    power_limits
        Measured curves, in order of profile, GPU type and limit.
    metadata
        What was measured and assumed, as (name, text) pairs.
    """

    profiles: tuple[Profile, ...]
    truth: Interference = Interference(model="additive")
    usage: tuple[MeasuredUsage, ...] = ()
    power_limits: tuple[PowerLimit, ...] = ()
    metadata: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        """Validate."""
        put = object.__setattr__
        put(self, "profiles", checked_profiles("profiles", self.profiles))
        if not isinstance(self.truth, Interference):
            raise DomainError(f"profiles: truth must be an Interference, got {self.truth!r}")
        put(self, "usage", v.items("profiles", "usage", self.usage, MeasuredUsage))
        put(self, "power_limits", v.items("profiles", "power_limits", self.power_limits, PowerLimit))
        kinds = {p.kind for p in self.profiles}
        for what, sets in (
            ("truth.measured", [m.kinds for m in self.truth.measured]),
            ("truth.cannot_share", list(self.truth.cannot_share)),
            ("usage", [u.kinds for u in self.usage]),
        ):
            for members in sets:
                unknown = sorted(set(members) - kinds)
                if unknown:
                    raise DomainError(
                        f"profiles: {what} must name kinds of the profiles, got {unknown[0]!r} in "
                        f"{'+'.join(members)}"
                    )
        seen = [u.kinds for u in self.usage]
        if len(set(seen)) != len(seen):
            raise DomainError("profiles: usage must hold each set once; keep one row for each")
        names = {p.name for p in self.profiles}
        keys = [(p.profile, p.gpu_type, p.limit_w) for p in self.power_limits]
        for name in sorted({p.profile for p in self.power_limits} - names):
            raise DomainError(f"profiles: power_limits must name profiles of the file, got {name!r}")
        if len(set(keys)) != len(keys):
            raise DomainError("profiles: power_limits must hold each profile, GPU type and limit once")
        put(self, "power_limits", tuple(p for _, p in sorted(zip(keys, self.power_limits, strict=True))))
        texts = v.pairs("profiles", "metadata", self.metadata, "(name, text)")
        for name, text in texts:
            v.text("profiles", f"metadata[{name}]", text)
        put(self, "metadata", tuple(texts))

    def assumptions(self) -> Mapping[str, str]:
        """Return the metadata as a mapping."""
        return dict(self.metadata)
