"""The built-in instance: what is compared when none is named."""

from __future__ import annotations

from eaco_opt.instance import Instance

from .generators import generate


def builtin_instance() -> Instance:
    """Return the built-in instance: 12 whole-node jobs on 4 nodes, at an offered load of 1.2.

    It is the family ``whole-node`` (the paper's setting) with seed 0, the first seed there is. Jobs of 3 to
    30 epochs keep the time grid of exact models short; a load of 1.2 makes queues, so that exclusive
    execution, packing under pressure and co-location differ.
    """
    return generate("whole-node", jobs=12, nodes=4, load=1.2, epochs=(3, 30), seed=0)
