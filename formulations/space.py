"""The decisions of the static class on the grid, without symmetric copies.

GPUs of a node, and nodes of a type that only hosts whole-node jobs, are interchangeable. So no model names
them: it counts, for each set of jobs and slot, how many of them host it.

A :class:`Region` is a place with interchangeable *cells*: all nodes of a type together (a *pool*, each node a
cell) where every job that may run there fills whole nodes; else one node (each GPU a cell). A :class:`Part`
says that a job, if placed so, holds a number of cells of a region. A :class:`Pattern` is an admissible set
of jobs in a region; ``u[pattern, slot]`` counts the cells that host exactly this set.

Two conditions make counts a schedule (docs/model.md section 4.1, each job starts once on one GPU set and
stays):

1. the cells that host a running job number what its parts hold, in each slot;
2. for each set Q of two or more jobs, the number of cells that host all of Q is the same in all slots in
   which all of Q run: ``q[region, Q]``.

By inclusion and exclusion they fix, for the jobs that run in both of two neighbouring slots, how many cells
host each subset of them; so cells can be matched from slot to slot, which :mod:`formulations.placing` does.
Where all jobs hold one cell, condition 2 for pairs implies it for larger sets.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, pairwise, product
from typing import TYPE_CHECKING

from .costs import Costs
from .patterns import JobSet
from .scaling import Work, integer_work
from .windows import Windows, make_windows

if TYPE_CHECKING:
    from eaco_opt.instance import Instance

    from .grid import Grid


MOST_CPU_SUMS = 5_000
"""Most combinations of CPU shares on one node that are tabulated."""


@dataclass(frozen=True, slots=True)
class Region:
    """Interchangeable cells.

    Attributes
    ----------
    number
        Position in the list of regions.
    node_type
        Number of the node type.
    nodes
        Nodes it is made of: all of a type (pool), or one.
    pool
        Whether cells are nodes.
    cells
        Number of cells.
    """

    number: int
    node_type: int
    nodes: tuple[int, ...]
    pool: bool
    cells: int


@dataclass(frozen=True, slots=True)
class Part:
    """A job's hold on a region.

    Attributes
    ----------
    number
        Position in the list of parts.
    job, region, cells
        Job, region and cells held.
    whole
        Whether it is one of the whole nodes of a job larger than a node (only in regions of one node).
    """

    number: int
    job: int
    region: int
    cells: int
    whole: bool


@dataclass(frozen=True, slots=True)
class Pattern:
    """An admissible set in a region.

    Attributes
    ----------
    number
        Position in the list of patterns.
    region
        Number of the region.
    found
        The set.
    most
        Most cells that can host it.
    """

    number: int
    region: int
    found: JobSet
    most: int


class Space:
    """All decisions for one instance on one grid.

    Attributes
    ----------
    instance, grid, windows, costs
        What it was made from.
    regions, parts, patterns
        See the module.
    """

    def __init__(self, instance: Instance, grid: Grid) -> None:
        self.instance = instance
        self.grid = grid
        self.windows: Windows = make_windows(instance, grid)
        self.costs = Costs(instance, grid)
        view = instance.arrays()
        self.jobs = range(len(instance.jobs))
        types = self.windows.types
        regions: list[Region] = []
        for k, node_type in enumerate(instance.cluster.node_types):
            nodes = tuple(int(i) for i in (view.node_type == k).nonzero()[0])
            guests = [j for j in self.jobs if k in types[j]]
            if not guests:
                continue
            if all(view.gpus[j] % node_type.gpus == 0 for j in guests):
                regions.append(Region(len(regions), k, nodes, True, len(nodes)))
            else:
                for node in nodes:
                    regions.append(Region(len(regions), k, (node,), False, node_type.gpus))
        self.regions = tuple(regions)
        parts: list[Part] = []
        for j in self.jobs:
            for region in self.regions:
                if region.node_type not in types[j]:
                    continue
                size = instance.cluster.node_types[region.node_type].gpus
                whole, rest = divmod(int(view.gpus[j]), size)
                if region.pool:
                    parts.append(Part(len(parts), j, region.number, whole, False))
                    continue
                if whole:
                    parts.append(Part(len(parts), j, region.number, size, True))
                if rest:
                    parts.append(Part(len(parts), j, region.number, rest, False))
        self.parts = tuple(parts)
        self.parts_of: dict[int, list[Part]] = {j: [] for j in self.jobs}
        self.parts_in: dict[tuple[int, int], list[Part]] = {}
        self.parts_at: dict[int, list[Part]] = {r.number: [] for r in self.regions}
        for part in parts:
            self.parts_of[part.job].append(part)
            self.parts_at[part.region].append(part)
            self.parts_in.setdefault((part.job, part.region), []).append(part)
        patterns: list[Pattern] = []
        for region in self.regions:
            for found in self.windows.sets[region.node_type]:
                held = [max(p.cells for p in self.parts_in[j, region.number]) for j in found.jobs]
                patterns.append(Pattern(len(patterns), region.number, found, min(region.cells, *held)))
        self.patterns = tuple(patterns)
        self.patterns_in: dict[int, list[Pattern]] = {r.number: [] for r in self.regions}
        self.patterns_with: dict[tuple[int, int], list[Pattern]] = {}
        for pattern in patterns:
            self.patterns_in[pattern.region].append(pattern)
            for j in pattern.found.jobs:
                self.patterns_with.setdefault((pattern.region, j), []).append(pattern)

    def whole_and_rest(self, job: int, node_type: int) -> tuple[int, int]:
        """Return how many whole nodes of a type the job takes, and how many GPUs of one more."""
        view = self.instance.arrays()
        return divmod(int(view.gpus[job]), self.instance.cluster.node_types[node_type].gpus)

    def one_cell(self, job: int) -> bool:
        """Tell whether the job holds a single cell wherever it may be placed."""
        return all(part.cells == 1 and not part.whole for part in self.parts_of[job])

    @cached_property
    def together(self) -> tuple[tuple[int, tuple[int, ...]], ...]:
        """Sets (region, jobs) whose number of common cells must not change while all of them run.

        Sets of three and more are left out where one of their jobs holds a single cell: for it, being
        together with two others is being on their common cell.
        """
        out = []
        for pattern in self.patterns:
            jobs = pattern.found.jobs
            if len(jobs) == 2 or (len(jobs) > 2 and not any(self.one_cell(j) for j in jobs)):
                out.append((pattern.region, jobs))
        return tuple(out)

    def supersets(self, region: int, jobs: tuple[int, ...]) -> list[Pattern]:
        """Return the patterns of a region that contain all of some jobs."""
        return self._supersets[region, jobs]

    @cached_property
    def _supersets(self) -> dict[tuple[int, tuple[int, ...]], list[Pattern]]:
        out: dict[tuple[int, tuple[int, ...]], list[Pattern]] = {key: [] for key in self.together}
        for pattern in self.patterns:
            jobs = pattern.found.jobs
            for size in range(2, len(jobs) + 1):
                for part in combinations(jobs, size):
                    if (pattern.region, part) in out:
                        out[pattern.region, part].append(pattern)
        return out

    def most_common(self, region: int, jobs: tuple[int, ...]) -> int:
        """Return the most cells of a region that can host all of some jobs."""
        return next(p.most for p in self.supersets(region, jobs) if p.found.jobs == jobs)

    def is_pool(self, node_type: int) -> bool:
        """Tell whether the nodes of a type are a pool."""
        return any(r.pool for r in self.regions if r.node_type == node_type)

    def patterns_of(self, job: int, node_type: int) -> list[Pattern]:
        """Return the patterns that contain a job, on all nodes of a type."""
        return [
            p
            for r in self.regions
            if r.node_type == node_type
            for p in self.patterns_with.get((r.number, job), ())
        ]

    def cells_held(self, job: int, node_type: int) -> int:
        """Return how many cells in all the job holds if it runs on a type."""
        if self.is_pool(node_type):
            return self.whole_and_rest(job, node_type)[0]
        return int(self.instance.arrays().gpus[job])

    @cached_property
    def openings(self) -> tuple[tuple[Part, tuple[Part, ...]], ...]:
        """Order of equal nodes by their lowest job: (part, parts of which one is held if it is).

        A part in a node needs one of a job no later in the equal node before it.
        """
        out = []
        for k in sorted({r.node_type for r in self.regions if not r.pool}):
            for before, after in pairwise(r for r in self.regions if r.node_type == k):
                for p in self.parts_at[after.number]:
                    earlier = tuple(q for q in self.parts_at[before.number] if q.job <= p.job)
                    out.append((p, earlier))
        return tuple(out)

    def cpu_groups(self, region: Region, slot: int) -> list[tuple[float, list[Part]]]:
        """Return the parts in a region of one node that may use its CPU in a slot, by CPU utilisation.

        Empty where the server's power does not depend on the CPU, or costs nothing.
        """
        view = self.instance.arrays()
        server = self.instance.cluster.node_types[region.node_type].power.server
        if region.pool or server.busy_w == server.idle_w or self.costs.energy == 0.0:
            return []
        size = self.instance.cluster.node_types[region.node_type].gpus
        groups: dict[float, list[Part]] = {}
        for part in self.parts:
            first, last = self.windows.spans[part.job]
            if part.region == region.number and first <= slot < last and view.cpu[part.job] > 0.0:
                groups.setdefault(float(view.cpu[part.job]) * part.cells / size, []).append(part)
        return sorted(groups.items())

    def cpu_powers(
        self, region: Region, groups: list[tuple[float, list[Part]]]
    ) -> dict[tuple[int, ...], float]:
        """Return {parts running of each group: server's power above idle [W]}."""
        counts = product(*(range(len(parts) + 1) for _, parts in groups))
        return {
            key: self.costs.cpu_w(
                math.fsum(n * share for n, (share, _) in zip(key, groups, strict=True)), region.node_type
            )
            for key in counts
        }

    def cpu_features(self) -> list[str]:
        """Return the nodes whose CPU utilisation can take more values than are tabulated."""
        out = []
        for region in self.regions:
            most = max(
                (
                    math.prod(len(parts) + 1 for _, parts in self.cpu_groups(region, t))
                    for t in range(self.grid.slots)
                ),
                default=1,
            )
            if most > MOST_CPU_SUMS:
                out.append(
                    f"more than {MOST_CPU_SUMS:,} sums of CPU shares on node "
                    f"{self.instance.cluster.nodes[region.nodes[0]].name!r} (up to {most:,}; shares are the "
                    "same for jobs of one profile and GPU count)"
                )
        return out

    def speed(self, job: int, node_type: int, sigma: float) -> float:
        """Return the epochs that a job does in a slot at a slowdown."""
        tau = float(self.instance.arrays().tau_s[job, node_type])
        return self.grid.slot_s * (1.0 / (tau * sigma))

    @cached_property
    def levels(self) -> dict[tuple[int, int], tuple[float, ...]]:
        """{(job, node type): its possible slowdowns, ascending}."""
        found: dict[tuple[int, int], set[float]] = {}
        for k, sets in self.windows.sets.items():
            for one in sets:
                for j, sigma in zip(one.jobs, one.sigma, strict=True):
                    found.setdefault((j, k), set()).add(sigma)
        return {key: tuple(sorted(values)) for key, values in found.items()}

    def speeds(self, job: int) -> tuple[list[float], int]:
        """Return the speeds that a job can have [epochs a slot], ascending, and its longest duration."""
        types = self.windows.types[job]
        speeds = sorted({self.speed(job, k, s) for k in types for s in self.levels[job, k]})
        longest = max((int(self.windows.starts[job, k].greatest.max()) for k in types), default=1)
        return speeds, longest

    def possible(self, region: int, slot: int) -> list[Pattern]:
        """Return the patterns of a region that are possible in a slot."""
        return [p for p in self.patterns_in[region] if p.found.first <= slot < p.found.last]

    def least_objective(self) -> float:
        """Return a figure of the order of the objective: every job alone, its least duration, shared nodes.

        It sets tolerances and scales, and is no bound. 0 if time and energy cost nothing.
        """
        total = 0.0
        for j in self.jobs:
            types = self.windows.types[j]
            if types:
                least = min(int(self.windows.starts[j, k].least.min()) for k in types)
                power = min(self.costs.standing_w(k) for k in types) / len(self.jobs)
                total += least * (float(self.costs.time[j]) + self.costs.energy * power + self.costs.total)
        return total

    @cached_property
    def work(self) -> tuple[tuple[Work, dict[float, int]], ...]:
        """(J,) work of each job in integers, and the place of each speed [epochs a slot] in its lists."""
        out = []
        for j in self.jobs:
            speeds, longest = self.speeds(j)
            work = integer_work(float(self.instance.jobs[j].epochs), speeds, longest)
            out.append((work, {p: i for i, p in enumerate(speeds)}))
        return tuple(out)

    @property
    def exact(self) -> bool:
        """Whether completion in integers agrees with the physics in every case."""
        return all(work.exact for work, _ in self.work)
