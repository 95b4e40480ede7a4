"""What the library is made of: a table of generator calls, :data:`LINES`.

To add instances, add lines (or seeds), and let ``eaco-opt library measure --library instances/library`` make
and measure them. A line that is measured is never changed: its name stands in the papers of others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

GRADES = ("tiny", "small", "medium", "large", "paper-scale")
STORED = ("tiny", "small", "medium")
"""Grades whose instances are stored as files; the others are stored as their generator call and digest."""

LOOSE = {"u_threshold": 1.0, "mem_threshold": 1.0, "max_share": 3}
"""Limits under which sets of three jobs are admitted; the default ones seldom admit more than two."""

HOUR_S = 3600.0
QUARTER_S = 900.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A row of the table: one instance for each seed.

    Attributes
    ----------
    grade
        One of :data:`GRADES`.
    family, jobs, nodes, gpus, load, slack, epochs, params
        Arguments of :func:`instances.generate`, ``gpus`` those of a node; ``None`` leaves one out.
    limits
        Limits that differ from the defaults.
    seeds
        One instance each.
    grid_s
        Slot length of the entries [s]; ``None``: continuous time.
    """

    grade: str
    family: str
    jobs: int
    nodes: int
    gpus: int = 8
    load: float | None = 1.0
    slack: tuple[float, float] | None = (1.3, 2.5)
    epochs: tuple[int, int] | None = (3, 30)
    params: Mapping[str, float] = field(default_factory=dict)
    limits: Mapping[str, Any] = field(default_factory=dict)
    seeds: tuple[int, ...] = (1,)
    grid_s: float | None = None

    def name(self, seed: int) -> str:
        """Return what the instance of a seed is called: family, jobs x nodes, what is varied, seed.

        ``x4`` after the nodes: 4 GPUs each instead of 8; ``s``: slack; ``l``: load; ``u1-m1-k3``:
        U_threshold, mem_threshold and max_share.
        """
        out = f"{self.family}-{self.jobs:02d}x{self.nodes:02d}"
        if self.gpus != 8:
            out += f"x{self.gpus}"
        if self.slack is not None:
            out += f"-s{self.slack[0]:.1f}-{self.slack[1]:.1f}"
        if self.load is not None:
            out += f"-l{self.load:.1f}"
        for key, letter in (("u_threshold", "u"), ("mem_threshold", "m"), ("max_share", "k")):
            if key in self.limits:
                out += f"-{letter}{self.limits[key]:g}"
        for key, value in sorted(self.params.items()):
            out += f"-{key}{value:g}"
        return f"{out}-{seed:03d}"

    def call(self, seed: int) -> dict[str, Any]:
        """Return the generator call of a seed, as the manifest states it."""
        out: dict[str, Any] = {
            "family": self.family,
            "jobs": self.jobs,
            "nodes": self.nodes,
            "gpus_per_node": self.gpus,
        }
        if self.load is not None:
            out["load"] = self.load
        if self.slack is not None:
            out["slack"] = list(self.slack)
        if self.epochs is not None:
            out["epochs"] = list(self.epochs)
        if self.params:
            out["params"] = dict(sorted(self.params.items()))
        if self.limits:
            out["limits"] = dict(self.limits)
        return {**out, "seed": seed}


def _on_grid(
    grade: str, family: str, jobs: int, nodes: int, seeds: int | tuple[int, ...], **more: Any
) -> Line:
    """Return a line of a grade whose entries are optima on a grid; a number of seeds is 1, 2, ..."""
    given: dict[str, Any] = {"epochs": (3, 15), "grid_s": HOUR_S, **more}
    chosen = seeds if isinstance(seeds, tuple) else tuple(range(1, seeds + 1))
    return Line(grade=grade, family=family, jobs=jobs, nodes=nodes, seeds=chosen, **given)


def _trap(grade: str, jobs: int, nodes: int, share: int, length: float, **more: Any) -> Line:
    """Return a line of family ``adversarial``, whose construction leaves no choice of load, slack, epochs."""
    given: dict[str, Any] = {"load": None, "slack": None, "epochs": None, **more}
    return Line(
        grade=grade,
        family="adversarial",
        jobs=jobs,
        nodes=nodes,
        params={"length": length},
        limits={"max_share": share},
        **given,
    )


def _alike(grade: str, jobs: int, nodes: int, kinds: int, waves: int, **more: Any) -> Line:
    """Return a line of family ``symmetric``, all of whose jobs have slack 4."""
    given: dict[str, Any] = {"slack": None, "load": 1.5, "limits": LOOSE, **more}
    return Line(
        grade=grade,
        family="symmetric",
        jobs=jobs,
        nodes=nodes,
        params={"kinds": kinds, "waves": waves},
        **given,
    )


TIGHT = (1.2, 1.8)
"""Slack of family ``tight-deadlines`` on a grid, which rounds runs up."""

LINES: tuple[Line, ...] = (
    # Tiny: 2 to 4 jobs; brute force goes through all plans on the grid.
    _on_grid("tiny", "whole-node", 2, 2, 2),
    _on_grid("tiny", "whole-node", 3, 2, 4),
    _on_grid("tiny", "whole-node", 4, 2, 4),
    _on_grid("tiny", "whole-node", 4, 2, 3, slack=(2.0, 4.0), load=2.0),
    _on_grid("tiny", "whole-node", 4, 2, 3, slack=(2.0, 4.0), load=2.0, limits=LOOSE),
    _on_grid("tiny", "mixed", 3, 2, 3, gpus=4),
    _on_grid("tiny", "mixed", 4, 2, 4, gpus=4),
    _on_grid("tiny", "mixed", 4, 2, 3, gpus=4, limits=LOOSE),
    _on_grid("tiny", "mixed", 4, 1, 3, slack=(2.0, 4.0), load=2.0),
    _on_grid("tiny", "burst", 4, 2, 3, gpus=4, params={"bursts": 1}),
    _on_grid("tiny", "diurnal", 4, 2, 3, gpus=4),
    _on_grid("tiny", "heavy-tail", 4, 2, 3, gpus=4),
    _on_grid("tiny", "tight-deadlines", 4, 2, 3, gpus=4, slack=TIGHT, grid_s=QUARTER_S),
    _on_grid("tiny", "production", 4, 2, 3, gpus=4, epochs=(2, 20)),
    _alike("tiny", 4, 2, 1, 1, epochs=(3, 15), grid_s=HOUR_S),
    _alike("tiny", 4, 2, 2, 1, epochs=(3, 15), grid_s=HOUR_S),
    _alike("tiny", 4, 2, 2, 2, epochs=(3, 15), grid_s=HOUR_S),
    _trap("tiny", 4, 2, 2, 4.0, grid_s=180.0),
    _trap("tiny", 4, 2, 2, 8.0, grid_s=180.0),
    # Small: 6 to 10 jobs; the optimum on the grid proved by two formulations.
    _on_grid("small", "whole-node", 6, 2, (1, 2, 3, 5)),  # with seed 4 there is no schedule
    _on_grid("small", "whole-node", 8, 3, 4, limits=LOOSE),
    _on_grid("small", "whole-node", 10, 4, 2, limits=LOOSE),
    _on_grid("small", "mixed", 6, 2, (1, 2, 3, 5), gpus=4),  # with seed 4 there is no schedule
    _on_grid("small", "mixed", 6, 2, 3, gpus=4, limits=LOOSE),
    _on_grid("small", "burst", 6, 2, 2, gpus=4, params={"bursts": 2}),
    _on_grid("small", "diurnal", 6, 2, 2, gpus=4),
    _on_grid("small", "heavy-tail", 6, 2, 3, gpus=4, limits=LOOSE),
    _on_grid("small", "tight-deadlines", 6, 3, 2, gpus=4, slack=TIGHT, grid_s=QUARTER_S),
    _on_grid("small", "production", 6, 2, 2, gpus=4, epochs=(2, 20)),
    _alike("small", 6, 3, 1, 1, epochs=(3, 15), grid_s=HOUR_S),
    _alike("small", 8, 3, 2, 2, epochs=(3, 15), grid_s=HOUR_S),
    _alike("small", 9, 3, 3, 1, epochs=(3, 15), grid_s=HOUR_S),
    _trap("small", 6, 3, 2, 3.0, grid_s=180.0),
    # Medium: 12 to 40 jobs, continuous time.
    Line(grade="medium", family="whole-node", jobs=12, nodes=4, seeds=(1, 2)),
    Line(grade="medium", family="whole-node", jobs=20, nodes=6, limits=LOOSE, seeds=(1, 2)),
    Line(
        grade="medium", family="whole-node", jobs=40, nodes=8, load=2.0, slack=(2.0, 4.0), limits=LOOSE,
        seeds=(1, 2),
    ),
    Line(grade="medium", family="mixed", jobs=12, nodes=2, seeds=(1, 2)),
    Line(grade="medium", family="mixed", jobs=20, nodes=4, limits=LOOSE, seeds=(1, 2)),
    Line(grade="medium", family="mixed", jobs=40, nodes=8, limits=LOOSE, seeds=(1, 2)),
    Line(grade="medium", family="burst", jobs=24, nodes=4, limits=LOOSE, params={"bursts": 2}, seeds=(1, 2)),
    Line(grade="medium", family="diurnal", jobs=24, nodes=4, limits=LOOSE, seeds=(1, 2)),
    Line(grade="medium", family="heavy-tail", jobs=24, nodes=4, epochs=(3, 100), limits=LOOSE, seeds=(1, 2)),
    Line(grade="medium", family="tight-deadlines", jobs=24, nodes=8, slack=None, limits=LOOSE, seeds=(1, 2)),
    Line(grade="medium", family="production", jobs=40, nodes=4, epochs=None, limits=LOOSE, seeds=(1, 2)),
    _alike("medium", 24, 8, 1, 2),
    _alike("medium", 36, 9, 3, 3),
    _trap("medium", 16, 4, 4, 10.0),
    _trap("medium", 36, 12, 3, 10.0),
    # Large: 100 to 300 jobs.
    Line(grade="large", family="whole-node", jobs=100, nodes=16, limits=LOOSE),
    Line(grade="large", family="whole-node", jobs=200, nodes=20, load=2.0, slack=(2.0, 4.0), limits=LOOSE),
    Line(grade="large", family="mixed", jobs=100, nodes=16, limits=LOOSE, seeds=(1, 2)),
    Line(grade="large", family="mixed", jobs=300, nodes=20, limits=LOOSE),
    Line(grade="large", family="burst", jobs=100, nodes=16, limits=LOOSE),
    Line(grade="large", family="diurnal", jobs=100, nodes=16, limits=LOOSE),
    Line(grade="large", family="heavy-tail", jobs=100, nodes=16, epochs=(3, 100), limits=LOOSE),
    Line(grade="large", family="tight-deadlines", jobs=100, nodes=24, slack=None, limits=LOOSE),
    Line(grade="large", family="production", jobs=200, nodes=16, epochs=None, limits=LOOSE),
    _alike("large", 120, 20, 3, 5),
    _trap("large", 64, 16, 4, 20.0),
    # Paper-scale: the 28 and 64 nodes of the paper's simulations.
    Line(grade="paper-scale", family="whole-node", jobs=100, nodes=28),
    Line(grade="paper-scale", family="mixed", jobs=100, nodes=28),
    Line(grade="paper-scale", family="production", jobs=300, nodes=28, epochs=None),
    Line(grade="paper-scale", family="whole-node", jobs=300, nodes=64),
    Line(grade="paper-scale", family="mixed", jobs=1000, nodes=64),
    Line(grade="paper-scale", family="whole-node", jobs=1000, nodes=64, limits=LOOSE),
)  # fmt: skip


def planned() -> Iterator[tuple[str, Line, int]]:
    """Yield (name, line, seed) of every instance of the table, in its order."""
    for line in LINES:
        for seed in line.seeds:
            yield line.name(seed), line, seed
