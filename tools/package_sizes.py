"""Print the installed size of each distribution of the environment, the heaviest first (`make sizes`).

Sizes are the sums of the files that each distribution's own record lists, compiled caches left out, in MiB.
"""

from __future__ import annotations

from importlib.metadata import distributions
from pathlib import Path


def main() -> None:
    """Print one line a distribution, then the total."""
    rows = []
    for dist in distributions():
        paths = [Path(str(file.locate())) for file in dist.files or () if file.suffix != ".pyc"]
        rows.append((sum(p.stat().st_size for p in paths if p.is_file()), f"{dist.name} {dist.version}"))
    for size, name in [*sorted(rows, reverse=True), (sum(size for size, _ in rows), "total")]:
        print(f"{size / 2**20:8.1f} MiB  {name}")


if __name__ == "__main__":
    main()
