"""The options that all trace readers share."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from eaco_opt.cluster import Cluster
from eaco_opt.errors import DomainError, UnknownNameError
from eaco_opt.limits import Limits, Objective
from eaco_opt.profile_set import ProfileSet

from ..draws import checked_seed, checked_slack

DEFAULT_NODES = 64
"""Nodes of an imported instance when none are named: the larger cluster of the EaCO paper."""

_OWNER = "import"


class JobMapping(StrEnum):
    """What an imported job runs: its own workload, one of the EaCO paper's four models, or a measured one."""

    NATIVE = "native"
    PAPER_CNN = "paper-cnn"
    PROFILES = "profiles"


class TooLarge(StrEnum):
    """What happens to a job that asks for more GPUs than the cluster can give it."""

    REFUSE = "refuse"
    DROP = "drop"
    CLIP = "clip"


class Release(StrEnum):
    """Releases as in the trace (shifted, first 0), or all 0 in the order of the trace."""

    TRACE = "trace"
    ZERO = "zero"


class LoadBy(StrEnum):
    """How a target load is reached: jobs left out at random, or the time between submissions scaled."""

    THIN = "thin"
    COMPRESS = "compress"


class TightDeadlines(StrEnum):
    """What becomes of a trace's own deadline that lies before release + exclusive running time."""

    KEEP = "keep"
    DROP = "drop"
    STRETCH = "stretch"


def _word(field: str, kind: type[StrEnum], value: str) -> StrEnum:
    try:
        return kind(value)
    except ValueError:
        known = ", ".join(k.value for k in kind)
        raise UnknownNameError(f"{_OWNER}: unknown {field} {value!r}; known are: {known}") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportOptions:
    """How a trace becomes an instance (docs/instances.md).

    Attributes
    ----------
    nodes, gpus_per_node
        Number of V100 nodes and GPUs of each; 64 and 8 by default.
    cluster
        A cluster instead.
    jobs
        Take the first so many usable rows after sorting and selection; all by default.
    time_from, time_to
        Window of submit times [from, to): seconds from the first submit of the trace (a number, or text that
        is one), or, for traces with dates, an ISO date or time. Without an offset it is local time of the
        trace.
    vc
        Take rows of this virtual cluster only.
    states
        Take rows that ended in one of these states only, in the trace's own words.
    gpus
        (low, high): take rows that ask for so many GPUs only, both included.
    sample
        Take so many of the usable rows, drawn evenly; all by default.
    load
        Offered load to reach: exclusive GPU-hours of the jobs over GPU-hours of the cluster from the first
        submission to the last; as it is by default.
    load_by
        ``thin`` leaves out jobs at random, ``compress`` scales the time between submissions (either way).
    mapping
        ``native``, ``paper-cnn``, or ``profiles`` for the measured workloads of ``profiles``; text
        ``profiles:FILE`` names their file at once.
    profiles
        Measured workloads (:class:`~eaco_opt.profile_set.ProfileSet`), or a file of them in any format of
        :data:`instances.measurements.MEASUREMENTS`; for the mapping ``profiles``.
    mix
        Shares of the measured workloads by name; equal without it.
    slack
        (low, high): the deadline is release + slack * exclusive running time, slack uniform between; ``None``
        for infinite deadlines.
    own_deadlines
        Whether a row's own deadline, where the trace has one, replaces the drawn one.
    tight_deadlines
        ``keep``, ``drop`` (the job is refused) or ``stretch`` (the deadline becomes release + exclusive
        running time), for own deadlines that even a job alone would miss.
    too_large
        ``refuse`` (an error that names the jobs), ``drop`` or ``clip``.
    release
        ``trace`` or ``zero``.
    max_duration_s
        Longer running times are cut to this [s]; ``None`` for no cut.
    trace_cluster
        Whether the cluster is the one that the trace itself describes, for the reader ``alibaba-openb-2023``;
        ``nodes``, ``gpus_per_node`` and ``cluster`` must be left out then.
    columns
        {role: column} of the reader ``csv``; see :data:`instances.readers.own_csv.ROLES`.
    time_unit, time_zone
        Of the reader ``csv``: unit of times given as numbers (ms, s, min, h, d), and IANA zone of dates
        without an offset (UTC without it).
    throughputs
        File of measured throughputs, for the reader ``gavel``.
    seed
        Seeds slack and models; whole number >= 0.
    limits, objective
        Those of the instance.
    name
        Name of the instance; file name and reader by default.
    """

    nodes: int | None = None
    gpus_per_node: int | None = None
    cluster: Cluster | None = None
    jobs: int | None = None
    time_from: float | str | None = None
    time_to: float | str | None = None
    vc: str | None = None
    states: tuple[str, ...] | None = None
    gpus: tuple[int, int] | None = None
    sample: int | None = None
    load: float | None = None
    load_by: LoadBy = LoadBy.THIN
    mapping: JobMapping = JobMapping.NATIVE
    profiles: ProfileSet | str | os.PathLike[str] | None = None
    mix: Mapping[str, float] | None = None
    slack: tuple[float, float] | None = (1.3, 2.5)
    own_deadlines: bool = True
    tight_deadlines: TightDeadlines = TightDeadlines.KEEP
    too_large: TooLarge = TooLarge.REFUSE
    release: Release = Release.TRACE
    max_duration_s: float | None = None
    trace_cluster: bool = False
    columns: Mapping[str, str] | None = None
    time_unit: str = "s"
    time_zone: str | None = None
    throughputs: str | os.PathLike[str] | None = None
    seed: int = 0
    limits: Limits = Limits()
    objective: Objective = Objective()
    name: str | None = None

    def __post_init__(self) -> None:
        """Validate."""
        put = object.__setattr__
        if self.jobs is not None and (
            isinstance(self.jobs, bool) or not isinstance(self.jobs, int) or self.jobs < 1
        ):
            raise DomainError(f"{_OWNER}: jobs must be a whole number >= 1, got {self.jobs!r}")
        self._check_mapping()
        self._check_selection()
        put(self, "too_large", _word("choice for too large jobs", TooLarge, self.too_large))
        put(self, "release", _word("choice of releases", Release, self.release))
        tight = _word("choice for tight deadlines", TightDeadlines, self.tight_deadlines)
        put(self, "tight_deadlines", tight)
        if self.slack is not None:
            put(self, "slack", checked_slack(_OWNER, self.slack))
        for field in ("time_from", "time_to"):
            value = getattr(self, field)
            if isinstance(value, str) and re.fullmatch(r"[0-9]+(\.[0-9]*)?", value):
                value = float(value)
                put(self, field, value)
            if isinstance(value, bool) or not (
                value is None
                or isinstance(value, str)
                or (isinstance(value, (int, float)) and math.isfinite(value))
            ):
                raise DomainError(f"{_OWNER}: {field} must be seconds or an ISO date, got {value!r}")
        limit = self.max_duration_s
        if limit is not None:
            if isinstance(limit, bool) or not isinstance(limit, (int, float)) or not 0.0 < limit < math.inf:
                raise DomainError(
                    f"{_OWNER}: max_duration_s must be a finite number above 0 [s], got {limit!r}"
                )
            put(self, "max_duration_s", float(limit))
        put(self, "seed", checked_seed(_OWNER, self.seed))
        if not isinstance(self.limits, Limits):
            raise DomainError(f"{_OWNER}: limits must be a Limits, got {self.limits!r}")
        if not isinstance(self.objective, Objective):
            raise DomainError(f"{_OWNER}: objective must be an Objective, got {self.objective!r}")
        for field in ("own_deadlines", "trace_cluster"):
            if not isinstance(getattr(self, field), bool):
                raise DomainError(f"{_OWNER}: {field} must be true or false, got {getattr(self, field)!r}")
        if self.trace_cluster and (self.nodes, self.gpus_per_node, self.cluster) != (None, None, None):
            raise DomainError(
                f"{_OWNER}: give either trace_cluster or nodes, gpus_per_node or cluster, not both"
            )

    def _check_selection(self) -> None:
        """Check states, sizes, sample and load."""
        put = object.__setattr__
        if self.states is not None:
            words = tuple(self.states) if isinstance(self.states, (tuple, list)) else ()
            if not words or not all(isinstance(w, str) and w for w in words):
                raise DomainError(f"{_OWNER}: states must be names of states, got {self.states!r}")
            put(self, "states", words)
        if self.gpus is not None:
            pair = tuple(self.gpus) if isinstance(self.gpus, (tuple, list)) else ()
            whole = all(isinstance(x, int) and not isinstance(x, bool) for x in pair)
            if len(pair) != 2 or not whole or not 1 <= pair[0] <= pair[1]:
                raise DomainError(
                    f"{_OWNER}: gpus must be two whole numbers with 1 <= low <= high, got {self.gpus!r}"
                )
            put(self, "gpus", pair)
        if self.sample is not None and (
            isinstance(self.sample, bool) or not isinstance(self.sample, int) or self.sample < 1
        ):
            raise DomainError(f"{_OWNER}: sample must be a whole number >= 1, got {self.sample!r}")
        put(self, "load_by", _word("way to a load", LoadBy, self.load_by))
        if self.load is not None:
            number = isinstance(self.load, (int, float)) and not isinstance(self.load, bool)
            if not number or not 0.0 < self.load < math.inf:
                raise DomainError(f"{_OWNER}: load must be a finite number above 0, got {self.load!r}")
            if self.release == Release.ZERO:
                raise DomainError(f"{_OWNER}: load must be left out with release 'zero': no time passes")
            put(self, "load", float(self.load))

    def _check_mapping(self) -> None:
        """Read ``profiles:FILE``, and hold mapping, profiles and mix to each other."""
        put = object.__setattr__
        word, colon, path = str(self.mapping).partition(":")
        if word == JobMapping.PROFILES and colon:
            if self.profiles is not None:
                raise DomainError(
                    f"{_OWNER}: give either mapping 'profiles:FILE' or profiles, not both, got "
                    f"{self.mapping!r} and {self.profiles!r}"
                )
            if not path:
                raise DomainError(f"{_OWNER}: mapping must name a file, as in profiles:own.json")
            put(self, "mapping", JobMapping.PROFILES)
            put(self, "profiles", path)
        put(self, "mapping", _word("mapping", JobMapping, self.mapping))
        measured = self.mapping is JobMapping.PROFILES
        if measured and self.profiles is None:
            raise DomainError(
                f"{_OWNER}: mapping 'profiles' needs measured workloads; name their file, as in "
                "profiles:own.json"
            )
        for field in ("profiles", "mix"):
            if not measured and getattr(self, field) is not None:
                raise DomainError(
                    f"{_OWNER}: {field} must be left out with mapping {self.mapping.value!r}; it belongs to "
                    "the mapping profiles:FILE"
                )
