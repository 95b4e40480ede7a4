"""The table of job sets that meet on a GPU, interned once and read by fast code.

A *class* is what distinguishes two jobs on a GPU: kind of profile, memory on the GPU,
memory kind and exclusiveness. A *set* is a multiset of classes; set 0 is the empty one.
For each set the table holds load, memory, slowdowns, power and admissibility of
docs/model.md section 1, worked out when the set is first met. Interning a set interns
all its sub-multisets, so that removing a member is one look-up.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from .interference import Interference, KindDemand
from .limits import MAX_SHARE_CAP, AdmissionRule

if TYPE_CHECKING:
    from .instance import Instance

LIMIT_TOLERANCE = 1e-9
"""Limits hold within this (docs/model.md section 3)."""

WIDTH = MAX_SHARE_CAP
"""Largest number of members of a set."""

# Bits of `SetTable.physical`.
TOO_MANY, TOO_MUCH_MEMORY, NOT_EXCLUSIVE, CANNOT_SHARE = 1, 2, 4, 8


@dataclass(frozen=True, slots=True)
class JobClass:
    """What distinguishes two jobs on a GPU.

    Attributes
    ----------
    kind
        Kind of profile.
    memory_gib
        Peak memory on one of its GPUs [GiB].
    model_parallel
        Whether the memory is a share of a model-parallel job's.
    exclusive
        Whether it tolerates no other job.
    """

    kind: str
    memory_gib: float
    model_parallel: bool
    exclusive: bool


def _is_sub(small: tuple[str, ...], big: tuple[str, ...]) -> bool:
    rest = Counter(small)
    rest.subtract(Counter(big))
    return all(n <= 0 for n in rest.values())


class SetTable:
    """Interned sets of one instance; grows as sets are met, values never change.

    Parameters
    ----------
    instance
        Gives demands, measured usage, truth, limits and node types.
    classes
        The classes, in order of class number.
    """

    def __init__(self, instance: Instance, classes: tuple[JobClass, ...]) -> None:
        self.classes = classes
        self._demands: dict[str, KindDemand] = instance.demands()
        self._usage = instance.usage
        self._truth = instance.truth
        self._limits = instance.limits
        self._types = instance.cluster.node_types
        self._ids: dict[tuple[int, ...], int] = {}
        self._kind_ids: dict[tuple[str, ...], int] = {}
        self._factors: dict[tuple[str, ...], dict[str, float]] = {}
        self.keys: list[tuple[int, ...]] = []
        self.kinds: list[tuple[str, ...]] = []
        n = 64
        self.count: NDArray[np.int64] = np.zeros(n, dtype=np.int64)
        self.kind_set: NDArray[np.int64] = np.zeros(n, dtype=np.int64)
        self.members: NDArray[np.int64] = np.full((n, WIDTH), -1, dtype=np.int64)
        self.without: NDArray[np.int64] = np.full((n, WIDTH), -1, dtype=np.int64)
        self.sigma: NDArray[np.float64] = np.ones((n, WIDTH))
        self.load: NDArray[np.float64] = np.zeros(n)
        self.memory_gib: NDArray[np.float64] = np.zeros(n)
        self.memory_need_gib: NDArray[np.float64] = np.zeros(n)
        self.u_need: NDArray[np.float64] = np.zeros(n)
        self.dynamic_w: NDArray[np.float64] = np.zeros((n, len(self._types)))
        self.measured_w: NDArray[np.float64] = np.full((n, len(self._types)), np.nan)
        self.physical: NDArray[np.int64] = np.zeros((n, len(self._types)), dtype=np.int64)
        self.threshold: NDArray[np.bool_] = np.zeros(n, dtype=np.bool_)
        self.hash_keys: NDArray[np.int64] = np.full(256, -1, dtype=np.int64)
        self.hash_values: NDArray[np.int64] = np.zeros(256, dtype=np.int64)
        self._hash_used = 0
        self.intern(())

    def __len__(self) -> int:
        """Return the number of interned sets."""
        return len(self.keys)

    def _grow(self) -> None:
        n = len(self.count)
        for field in (
            "count",
            "kind_set",
            "members",
            "without",
            "sigma",
            "load",
            "memory_gib",
            "memory_need_gib",
            "u_need",
            "dynamic_w",
            "measured_w",
            "physical",
            "threshold",
        ):
            old = getattr(self, field)
            new = np.zeros((2 * n, *old.shape[1:]), dtype=old.dtype)
            if field in ("members", "without"):
                new[:] = -1
            elif field == "sigma":
                new[:] = 1.0
            elif field == "measured_w":
                new[:] = np.nan
            new[:n] = old
            setattr(self, field, new)

    def _put_child(self, parent: int, cls: int, child: int) -> None:
        if 2 * (self._hash_used + 1) > len(self.hash_keys):
            keys, values = self.hash_keys, self.hash_values
            self.hash_keys = np.full(2 * len(keys), -1, dtype=np.int64)
            self.hash_values = np.zeros(2 * len(keys), dtype=np.int64)
            for key, value in zip(keys.tolist(), values.tolist(), strict=True):
                if key >= 0:
                    self._insert(key, value)
        key = parent * len(self.classes) + cls
        if self._insert(key, child):
            self._hash_used += 1

    def _insert(self, key: int, value: int) -> bool:
        mask = len(self.hash_keys) - 1
        slot = ((key * 0x9E3779B1) & 0xFFFFFFFF) & mask
        while self.hash_keys[slot] >= 0 and self.hash_keys[slot] != key:
            slot = (slot + 1) & mask
        new = bool(self.hash_keys[slot] < 0)
        self.hash_keys[slot] = key
        self.hash_values[slot] = value
        return new

    def add(self, parent: int, cls: int) -> int:
        """Return the set ``parent`` with one more member of class ``cls``."""
        return self.intern(tuple(sorted((*self.keys[parent], cls))))

    def factors(self, kinds: tuple[str, ...], interference: Interference) -> dict[str, float] | None:
        """Return slowdowns by kind, ``None`` where a pair cannot share."""
        return interference.factors(kinds, self._demands) if interference.can_share(kinds) else None

    def slowdowns(self, interference: Interference, start: int = 0) -> NDArray[np.float64]:
        """Return (sets, WIDTH) slowdowns of the interned sets from number ``start`` on.

        Used by policies whose history differs from the truth. Sets that cannot share
        have factor infinity.
        """
        out = np.ones((len(self.keys) - start, WIDTH))
        for row, s in enumerate(range(start, len(self.keys))):
            if self.count[s] > 1:
                found = self.factors(self.kinds[s], interference)
                for i, c in enumerate(self.keys[s]):
                    out[row, i] = np.inf if found is None else found[self.classes[c].kind]
        return out

    def _load_of(self, kinds: tuple[str, ...]) -> float:
        value = sum(self._demands[k].gpu_util_mean for k in kinds)
        for row in self._usage:
            if row.kinds == kinds:
                value = row.load
        for row in self._usage:
            if len(row.kinds) >= len(kinds) and _is_sub(kinds, row.kinds):
                value = min(value, row.load)
        return value

    def _memory_of(self, key: tuple[int, ...]) -> float:
        """Peak memory: measured for the data-parallel members, shares added for the others."""
        data = tuple(sorted(self.classes[c].kind for c in key if not self.classes[c].model_parallel))
        value = sum(self._demands[k].gpu_memory_peak_gib for k in data)
        if data:
            for row in self._usage:
                if row.kinds == data:
                    value = row.memory_gib
            for row in self._usage:
                if len(row.kinds) >= len(data) and _is_sub(data, row.kinds):
                    value = min(value, row.memory_gib)
        return value + sum(self.classes[c].memory_gib for c in key if self.classes[c].model_parallel)

    def intern(self, key: tuple[int, ...]) -> int:
        """Return the number of the set with these class numbers (sorted), adding it if new."""
        found = self._ids.get(key)
        if found is not None:
            return found
        without = [self.intern(key[:i] + key[i + 1 :]) for i in range(len(key))]
        s = len(self.keys)
        if s == len(self.count):
            self._grow()
        self._ids[key] = s
        self.keys.append(key)
        members = [self.classes[c] for c in key]
        kinds = tuple(sorted(m.kind for m in members))
        self.kinds.append(kinds)
        self.count[s] = len(key)
        self.kind_set[s] = self._kind_ids.setdefault(kinds, len(self._kind_ids))
        self.members[s, : len(key)] = key
        self.without[s, : len(key)] = without
        for i, parent in enumerate(without):
            self._put_child(parent, key[i], s)
        if not key:
            return s
        self._fill(s, key, members, kinds, without)
        return s

    def _fill(
        self,
        s: int,
        key: tuple[int, ...],
        members: list[JobClass],
        kinds: tuple[str, ...],
        without: list[int],
    ) -> None:
        load = self._load_of(kinds)
        memory = self._memory_of(key)
        self.load[s], self.memory_gib[s] = load, memory
        self.memory_need_gib[s] = max([memory, *(self.memory_need_gib[p] for p in without)])
        if self._limits.rule is AdmissionRule.RESULTING:
            own = load
        else:
            own = min(float(self.load[p]) for p in without)
        self.u_need[s] = max([own, *(self.u_need[p] for p in without)])
        self.threshold[s] = self.u_need[s] > self._limits.u_threshold + LIMIT_TOLERANCE
        shareable = self._truth.can_share(kinds)
        if len(key) > 1 and shareable:
            if kinds not in self._factors:
                self._factors[kinds] = self._truth.factors(kinds, self._demands)
            factors = self._factors[kinds]
            for i, member in enumerate(members):
                self.sigma[s, i] = factors[member.kind]
        common = 0
        if len(key) > self._limits.max_share:
            common |= TOO_MANY
        if len(key) > 1 and any(m.exclusive for m in members):
            common |= NOT_EXCLUSIVE
        if not shareable:
            common |= CANNOT_SHARE
        for t, node_type in enumerate(self._types):
            bits = common
            share = self.memory_need_gib[s] / node_type.gpu_memory_gib
            if share > self._limits.mem_threshold + LIMIT_TOLERANCE:
                bits |= TOO_MUCH_MEMORY
            self.physical[s, t] = bits
            self.dynamic_w[s, t] = node_type.power.gpu.dynamic_power_w(load)
            for row in node_type.power.measured:
                if row.kinds == kinds:
                    self.measured_w[s, t] = row.power_w
