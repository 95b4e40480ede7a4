"""Errors of the toolkit.

Every error a user can cause is a subclass of :class:`EacoError`, itself a
``ValueError``. Its text names the object, what was expected, what was got and
what to do about it.
"""

from __future__ import annotations

from collections.abc import Sequence


class EacoError(ValueError):
    """Base class of all errors that bad input can cause."""


class DomainError(EacoError):
    """A domain object (job, profile, node type, ...) was built from unusable values."""


class FormatError(EacoError):
    """A file or document does not have the form that is required of it."""


class TraceError(EacoError):
    """A trace file cannot be read; the text gives file and line."""


class ScheduleError(EacoError):
    """A plan or schedule does not fit the instance it is used with."""


class UnknownNameError(EacoError):
    """A name is not in the registry; the text lists the known ones."""


class PartError(EacoError, ImportError):
    """A registered part cannot be imported."""


class ImpossibleJobsError(EacoError):
    """Some jobs can run nowhere in the cluster (docs/model.md section 3).

    Attributes
    ----------
    jobs
        Pairs (job name, reason).
    """

    def __init__(self, jobs: Sequence[tuple[str, str]]) -> None:
        self.jobs = tuple(jobs)
        shown = "; ".join(f"job {name!r}: {reason}" for name, reason in self.jobs[:10])
        more = f"; and {len(self.jobs) - 10} more" if len(self.jobs) > 10 else ""
        super().__init__(
            f"{len(self.jobs)} job(s) can run nowhere in this cluster: {shown}{more}. "
            "Drop them (--impossible drop), or give the cluster what they need."
        )


class OutputExistsError(OSError):
    """An output file exists already and overwriting was not asked for."""
