"""Online policies: EaCO and its rivals, one file each.

A policy is registered with one line here (or through the entry-point group
``eaco_opt.policies``) and built with :func:`make_policy`.
"""

from __future__ import annotations

import inspect
from typing import Any

from ..errors import DomainError
from ..registry import Registry

POLICIES = Registry("policy", "eaco_opt.policies")
POLICIES.register("fifo", "eaco_opt.policies.fifo:Fifo")
POLICIES.register("fifo_packed", "eaco_opt.policies.fifo_packed:FifoPacked")
POLICIES.register("gandiva", "eaco_opt.policies.gandiva:Gandiva")
POLICIES.register("eaco", "eaco_opt.policies.eaco:Eaco")
POLICIES.register("mpc", "solvers.mpc:Mpc")


def make_policy(name: str, **options: Any) -> Any:
    """Build a registered policy with options.

    Raises
    ------
    UnknownNameError
        No such policy.
    DomainError
        An option does not exist for it, or has an unusable value.
    """
    cls = POLICIES.get(name)
    known = list(inspect.signature(cls).parameters)
    for option in options:
        if option not in known:
            raise DomainError(
                f"policy {name!r}: unknown option {option!r}; known are: {', '.join(known) or 'none'}"
            )
    return cls(**options)


def choice(policy: str, option: str, value: str, allowed: tuple[str, ...]) -> str:
    """Return an option's value if it is one of those allowed."""
    if value not in allowed:
        raise DomainError(f"policy {policy!r}: {option} must be one of {', '.join(allowed)}, got {value!r}")
    return value
