"""Where instances come from.

- :func:`generate` makes instances of the families in :data:`GENERATORS` from a seed;
- :func:`import_trace` turns traces of other groups into instances, by the readers in :data:`READERS`;
- :func:`builtin_instance` is the instance that is compared when none is named;
- :mod:`instances.paper` holds the EaCO paper's models, tables and calibration, ``data`` the tables that ship.

Imports `eaco_opt` only. docs/instances.md describes families, readers, options and assumptions.
"""

from .builtin import builtin_instance
from .generators import GENERATORS, generate
from .readers import (
    READERS,
    ImportOptions,
    RowNote,
    TraceImport,
    import_trace,
    write_report,
)

__all__ = [
    "GENERATORS",
    "READERS",
    "ImportOptions",
    "RowNote",
    "TraceImport",
    "builtin_instance",
    "generate",
    "import_trace",
    "write_report",
]
