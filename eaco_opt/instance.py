"""The whole problem: jobs, profiles, cluster, sharing tables, limits, objective."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from . import _validate as v
from .cluster import Cluster
from .errors import DomainError
from .interference import Interference, KindDemand
from .job import Job
from .limits import Limits, Objective
from .profile import Profile

if TYPE_CHECKING:
    from .arrays import ArrayView


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredUsage:
    """Measured load and memory of one GPU that hosts a set of jobs.

    Attributes
    ----------
    kinds
        The multiset of kinds, kept sorted.
    load
        Mean GPU-core utilisation, fraction in [0, 1].
    memory_gib
        Peak GPU memory [GiB].
    """

    kinds: tuple[str, ...]
    load: float
    memory_gib: float

    def __post_init__(self) -> None:
        """Validate."""
        kinds = tuple(sorted(v.names("measured usage", "kinds", self.kinds)))
        if not kinds:
            raise DomainError("measured usage: kinds must name at least one job kind, got none")
        object.__setattr__(self, "kinds", kinds)
        owner = f"measured usage of {'+'.join(kinds)}"
        object.__setattr__(self, "load", v.real(owner, "load", self.load, low=0.0, high=1.0))
        object.__setattr__(self, "memory_gib", v.real(owner, "memory_gib", self.memory_gib, low=0.0))


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """A scheduling problem (docs/model.md sections 1 and 3).

    Attributes
    ----------
    name
        What people call it.
    jobs
        Jobs, kept in order of submit index.
    profiles
        Profiles, kept in order of name; at least those the jobs use.
    cluster
        The nodes.
    usage
        Measured loads and memories of sets.
    truth
        True slowdowns, which the simulator runs on.
    limits, objective
        Limits on sharing, and the weights of the objective.
    metadata
        What was assumed, as (key, text) pairs; no part of the problem.
    """

    name: str
    jobs: tuple[Job, ...]
    profiles: tuple[Profile, ...]
    cluster: Cluster
    usage: tuple[MeasuredUsage, ...] = ()
    truth: Interference = field(default_factory=Interference)
    limits: Limits = field(default_factory=Limits)
    objective: Objective = field(default_factory=Objective)
    metadata: tuple[tuple[str, str], ...] = ()
    _arrays: list[Any] = field(default_factory=list, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Validate and bring jobs and profiles into their canonical order."""
        put = object.__setattr__
        v.name("instance", "name", self.name)
        owner = f"instance {self.name!r}"
        jobs = list(v.items(owner, "jobs", self.jobs, Job))
        given = {j.submit_index for j in jobs}
        if given == {-1}:
            jobs = [dataclasses.replace(job, submit_index=i) for i, job in enumerate(jobs)]
        elif -1 in given:
            raise DomainError(f"{owner}: give submit_index for all jobs or for none, got a mixture")
        names: set[str] = set()
        indices: dict[int, str] = {}
        for job in jobs:
            if job.name in names:
                raise DomainError(f"{owner}: job {job.name!r} occurs twice; give each job its own name")
            names.add(job.name)
            if job.submit_index in indices:
                raise DomainError(
                    f"{owner}: jobs {indices[job.submit_index]!r} and {job.name!r} have the same "
                    f"submit_index {job.submit_index}; give each its own"
                )
            indices[job.submit_index] = job.name
        jobs.sort(key=lambda j: j.submit_index)
        put(self, "jobs", tuple(jobs))
        profiles = v.items(owner, "profiles", self.profiles, Profile)
        by_name: dict[str, Profile] = {}
        by_kind: dict[str, Profile] = {}
        for profile in profiles:
            if profile.name in by_name:
                raise DomainError(f"{owner}: profile {profile.name!r} occurs twice; keep one")
            by_name[profile.name] = profile
            twin = by_kind.setdefault(profile.kind, profile)
            if twin.demands() != profile.demands():
                raise DomainError(
                    f"{owner}: profiles {twin.name!r} and {profile.name!r} share the kind {profile.kind!r} "
                    "but differ "
                    "in utilisation, memory or CPU; give them kinds of their own"
                )
        put(self, "profiles", tuple(sorted(profiles, key=lambda p: p.name)))
        for job in jobs:
            if job.profile not in by_name:
                known = ", ".join(sorted(by_name)[:20]) or "none"
                raise DomainError(f"job {job.name!r}: unknown profile {job.profile!r}; known are: {known}")
        for label, kind in (
            ("cluster", Cluster),
            ("truth", Interference),
            ("limits", Limits),
            ("objective", Objective),
        ):
            if not isinstance(getattr(self, label), kind):
                raise DomainError(f"{owner}: {label} must be a {kind.__name__}, got {getattr(self, label)!r}")
        usage = v.items(owner, "usage", self.usage, MeasuredUsage)
        sets = [u.kinds for u in usage]
        if len(set(sets)) != len(sets):
            raise DomainError(f"{owner}: usage names the same set twice; keep one row for each set")
        put(self, "usage", tuple(sorted(usage, key=lambda u: u.kinds)))
        pairs = v.pairs(owner, "metadata", self.metadata, "(key, text)")
        for pair in pairs:
            if not all(isinstance(text, str) for text in pair):
                raise DomainError(f"{owner}: metadata must hold (key, text) pairs of strings, got {pair!r}")
        if len({key for key, _ in pairs}) != len(pairs):
            raise DomainError(f"{owner}: metadata names a key twice; keep one")
        put(self, "metadata", tuple(sorted((str(a), str(b)) for a, b in pairs)))

    def profile(self, name: str) -> Profile:
        """Return a profile by name."""
        for profile in self.profiles:
            if profile.name == name:
                return profile
        raise DomainError(f"instance {self.name!r}: unknown profile {name!r}")

    def demands(self) -> dict[str, KindDemand]:
        """Return the stand-alone demands by kind."""
        out: dict[str, KindDemand] = {}
        for p in self.profiles:
            out[p.kind] = KindDemand(
                kind=p.kind,
                gpu_util_mean=p.gpu_util_mean,
                gpu_util_peak=p.gpu_util_peak,
                gpu_memory_mean_gib=p.gpu_memory_mean_gib,
                gpu_memory_peak_gib=p.gpu_memory_peak_gib,
                cpu_share=p.cpu_share,
            )
        return out

    def without(self, names: Sequence[str]) -> Instance:
        """Return the instance without some jobs; the others keep their submit indices."""
        drop = set(names)
        known = {j.name for j in self.jobs}
        for name in names:
            if name not in known:
                raise DomainError(f"instance {self.name!r}: no job {name!r} to drop")
        return dataclasses.replace(self, jobs=tuple(j for j in self.jobs if j.name not in drop))

    def arrays(self) -> ArrayView:
        """Return the numpy view of the instance, made once and shared by all fast code."""
        if not self._arrays:
            from .arrays import ArrayView

            self._arrays.append(ArrayView(self))
        view: ArrayView = self._arrays[0]
        return view
