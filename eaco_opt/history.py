"""What a policy believes about slowdowns: measurements given to it, and its own.

Truth and history are two objects (docs/model.md section 7). The history starts from an
:class:`~eaco_opt.interference.Interference` and learns from observed epochs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from .interference import Interference
from .sets import WIDTH

if TYPE_CHECKING:
    from .arrays import ArrayView


class History:
    """Predicted slowdowns for the sets of one instance, updated by observations.

    Parameters
    ----------
    base
        What is known beforehand.
    view
        Array view of the instance.

    Attributes
    ----------
    sigma
        (capacity, 8) predicted slowdown of each member of each interned set; infinity
        where a pair is known not to share.
    learned
        Observed factors by (kinds of the set, kind of the member).
    """

    def __init__(self, base: Interference, view: ArrayView) -> None:
        self.base = base
        self._sets = view.sets
        self._known = 0
        self.sigma: NDArray[np.float64] = np.ones((0, WIDTH))
        self.learned: dict[tuple[tuple[str, ...], str], float] = {}
        self.monotone = True
        self._by_kinds: dict[tuple[str, ...], list[int]] = {}
        self._with_one_more: dict[int, list[int]] = {}
        self.sync()

    def sync(self) -> None:
        """Extend the table to the sets interned since the last call."""
        sets = self._sets
        if len(self.sigma) < len(sets.count):
            bigger = np.ones((len(sets.count), WIDTH))
            bigger[: self._known] = self.sigma[: self._known]
            self.sigma = bigger
        if self._known == len(sets):
            return
        self.sigma[self._known : len(sets)] = sets.slowdowns(self.base, self._known)
        first, self._known = self._known, len(sets)
        for s in range(first, len(sets)):
            self._by_kinds.setdefault(sets.kinds[s], []).append(s)
            for i in range(len(sets.keys[s])):
                self._with_one_more.setdefault(int(sets.without[s, i]), []).append(s)
            self._apply(s)
            self._watch(s)

    def _apply(self, s: int) -> None:
        if not self.learned:
            return
        kinds = self._sets.kinds[s]
        for i, cls in enumerate(self._sets.keys[s]):
            factor = self.learned.get((kinds, self._sets.classes[cls].kind))
            if factor is not None:
                self.sigma[s, i] = factor

    def _watch(self, s: int) -> None:
        """Notice when a member runs faster with one neighbour more: pruning rests on the opposite."""
        key = self._sets.keys[s]
        for i in range(len(key)):
            parent = int(self._sets.without[s, i])
            left = [float(self.sigma[s, q]) for q in range(len(key)) if q != i]
            for q, factor in enumerate(left):
                if factor < self.sigma[parent, q]:
                    self.monotone = False

    def factor(self, s: int, cls: int) -> float:
        """Return the predicted slowdown of a member of class ``cls`` in set number ``s``."""
        self.sync()
        key = self._sets.keys[s]
        return float(self.sigma[s, key.index(cls)])

    def observe(self, sets: list[int], cls: int, factor: float) -> None:
        """Learn the slowdown of a job of class ``cls`` whose GPUs host ``sets``.

        A job goes at the pace of its slowest GPU, so with different sets on its GPUs
        the observed factor is the largest of theirs: entries above it are lowered to it,
        and if all were below, the largest is raised to it. Afterwards the prediction for
        the same GPUs equals the observation.
        """
        self.sync()
        kind = self._sets.classes[cls].kind
        distinct = sorted(set(sets))
        values = {s: self.factor(s, cls) for s in distinct}
        top = max(values.values())
        if top == factor:
            return
        if top > factor:
            chosen = [s for s in distinct if values[s] > factor]
        else:
            chosen = [s for s in distinct if values[s] == top]
        changed = {self._sets.kinds[s] for s in chosen if self._sets.count[s] > 1}
        for kinds in sorted(changed):
            self.learned[kinds, kind] = factor
        touched = [s for kinds in sorted(changed) for s in self._by_kinds[kinds]]
        for s in touched:
            self._apply(s)
        for s in touched:
            self._watch(s)
            for bigger in self._with_one_more.get(s, ()):
                self._watch(bigger)
