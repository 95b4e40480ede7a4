"""The benchmark library: instances of graded sizes, with the best that is known of each.

:func:`library_instance` gives an instance by its name; :class:`Library` all that a folder holds:
``manifest.json`` (the instances), ``best_known.csv`` (objectives and bounds), ``files``, ``schedules`` and
``prices``. :mod:`instances.library.plan` is the table of generator calls that it is made from.
docs/library.md describes the files for other people's tools; ``eaco-opt library`` lists, verifies and takes
submissions.
"""

from .plan import GRADES, LINES, Line, planned
from .store import (
    ALPHAS,
    COLUMNS,
    BestKnown,
    Entry,
    Library,
    Status,
    generated,
    library_instance,
    status_of,
)

__all__ = [
    "ALPHAS",
    "COLUMNS",
    "GRADES",
    "LINES",
    "BestKnown",
    "Entry",
    "Library",
    "Line",
    "Status",
    "generated",
    "library_instance",
    "planned",
    "status_of",
]
