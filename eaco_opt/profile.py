"""What a job runs: its epoch time and what it asks of GPUs, memory and CPU."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from . import _validate as v
from .errors import DomainError


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochTime:
    """Exclusive epoch time on one GPU type (docs/model.md section 1).

    Attributes
    ----------
    gpu_type
        GPU type the time holds for.
    gpus
        Number of GPUs the time holds for; ``None`` means any number.
    epoch_time_s
        Time of one epoch without any sharing [s], positive.
    """

    gpu_type: str
    gpus: int | None = None
    epoch_time_s: float

    def __post_init__(self) -> None:
        """Validate."""
        v.name("epoch time", "gpu_type", self.gpu_type)
        owner = f"epoch time on {self.gpu_type!r}"
        if self.gpus is not None:
            object.__setattr__(self, "gpus", v.integer(owner, "gpus", self.gpus, 1))
        object.__setattr__(self, "epoch_time_s", v.real(owner, "epoch_time_s", self.epoch_time_s, above=0.0))


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """A training workload, shared by any number of jobs (docs/model.md section 1).

    Attributes
    ----------
    name
        Unique name in its instance.
    kind
        Name under which tables of measured sets, slowdowns and powers know the
        workload; the profile's own name by default. Profiles that differ only in
        their epoch times may share a kind, and must then agree in everything else.
    epoch_times
        Exclusive epoch times; a GPU type without one is forbidden to the job.
    gpu_util_mean, gpu_util_peak
        GPU-core utilisation alone, fractions in [0, 1].
    gpu_memory_mean_gib, gpu_memory_peak_gib
        GPU memory [GiB]: of each GPU for data-parallel jobs, of all the job's GPUs
        together for model-parallel ones.
    cpu_share
        CPU utilisation of a node whose GPUs the job holds all, fraction in [0, 1].
    """

    name: str
    kind: str = ""
    epoch_times: tuple[EpochTime, ...]
    gpu_util_mean: float
    gpu_util_peak: float
    gpu_memory_mean_gib: float
    gpu_memory_peak_gib: float
    cpu_share: float = 0.0

    def __post_init__(self) -> None:
        """Validate."""
        v.name("profile", "name", self.name)
        owner = f"profile {self.name!r}"
        if v.text(owner, "kind", self.kind) == "":
            object.__setattr__(self, "kind", self.name)
        v.name(owner, "kind", self.kind)
        times = v.items(owner, "epoch_times", self.epoch_times, EpochTime)
        if not times:
            raise DomainError(f"{owner}: epoch_times must hold at least one entry, got none")
        keys = [(t.gpu_type, t.gpus) for t in times]
        if len(set(keys)) != len(keys):
            raise DomainError(
                f"{owner}: epoch_times name the same GPU type and count twice; keep one entry each"
            )
        object.__setattr__(self, "epoch_times", times)
        for field in ("gpu_util_mean", "gpu_util_peak", "cpu_share"):
            object.__setattr__(self, field, v.real(owner, field, getattr(self, field), low=0.0, high=1.0))
        for field in ("gpu_memory_mean_gib", "gpu_memory_peak_gib"):
            object.__setattr__(self, field, v.real(owner, field, getattr(self, field), low=0.0))
        for low, high in (("gpu_util_mean", "gpu_util_peak"), ("gpu_memory_mean_gib", "gpu_memory_peak_gib")):
            if getattr(self, low) > getattr(self, high):
                raise DomainError(
                    f"{owner}: {low} must not exceed {high}, got {getattr(self, low)!r} > "
                    f"{getattr(self, high)!r}"
                )

    def epoch_time_s(self, gpu_type: str, gpus: int) -> float | None:
        """Return the exclusive epoch time [s], ``None`` where the GPU type is forbidden.

        An entry for exactly this number of GPUs wins over one for any number.
        """
        found: float | None = None
        for entry in self.epoch_times:
            if entry.gpu_type == gpu_type:
                if entry.gpus == gpus:
                    return entry.epoch_time_s
                if entry.gpus is None:
                    found = entry.epoch_time_s
        return found

    def demands(self) -> tuple[float, ...]:
        """Return what the sharing tables depend on: utilisation, memory and CPU."""
        return (
            self.gpu_util_mean,
            self.gpu_util_peak,
            self.gpu_memory_mean_gib,
            self.gpu_memory_peak_gib,
            self.cpu_share,
        )


def checked_profiles(owner: str, profiles: Iterable[Profile]) -> tuple[Profile, ...]:
    """Return profiles that can stand in one instance, in the order given.

    Parameters
    ----------
    owner
        What messages call them.
    profiles
        At least one.

    Raises
    ------
    DomainError
        There are none, a name occurs twice, or profiles of one kind differ in more than epoch times.
    """
    found: tuple[Profile, ...] = v.items(owner, "profiles", profiles, Profile)
    if not found:
        raise DomainError(f"{owner}: expected at least one profile, got none")
    names: set[str] = set()
    kinds: dict[str, Profile] = {}
    for profile in found:
        if profile.name in names:
            raise DomainError(f"{owner}: profile {profile.name!r} occurs twice; keep one")
        names.add(profile.name)
        twin = kinds.setdefault(profile.kind, profile)
        if twin.demands() != profile.demands():
            raise DomainError(
                f"{owner}: profiles {twin.name!r} and {profile.name!r} share the kind {profile.kind!r} but "
                "differ in utilisation, memory or CPU; give them kinds of their own"
            )
    return found
