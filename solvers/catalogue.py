"""The list of what there is to run: online policies, and the methods of :data:`solvers.base.METHODS`."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any

from eaco_opt.errors import UnknownNameError
from eaco_opt.policies import POLICIES

from .base import METHODS, Method

POLICY_COVERS = (
    "continuous-time",
    "grid",
    "multi-node-jobs",
    "mixed-node-types",
    "exclusive-jobs",
    "model-parallel-memory",
    "infinite-deadlines",
    "both-admission-rules",
    "sleep-and-wake-up",
)
"""What an instance may hold when it is run by a policy of this project."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MethodInfo:
    """What the list of methods says about one.

    Attributes
    ----------
    name
        Registered name.
    kind
        ``policy``, or what the method calls itself.
    schedule_class
        ``static``, ``epoch`` or ``fluid`` (docs/model.md section 4), by default options.
    exact
        Whether it can prove optimality.
    online
        Whether it decides without knowing what has not arrived yet.
    available
        Whether it can be run here.
    covers
        Features of instances that it takes.
    text
        One line for people.
    """

    name: str
    kind: str
    schedule_class: str
    exact: bool
    online: bool
    available: bool
    covers: tuple[str, ...]
    text: str

    def row(self) -> dict[str, Any]:
        """Return it under the keys of the command line."""
        return {
            "name": self.name,
            "kind": self.kind,
            "class": self.schedule_class,
            "exact": self.exact,
            "online": self.online,
            "available": self.available,
            "covers": list(self.covers),
            "text": self.text,
        }


def method_names() -> tuple[str, ...]:
    """Return the names that :func:`solve` and ``compare`` know."""
    return (*POLICIES.names(), *METHODS.names())


def methods() -> list[MethodInfo]:
    """Return what there is to run, policies first; what cannot be imported is not available."""
    out: list[MethodInfo] = []
    for name in method_names():
        registry = POLICIES if name in POLICIES else METHODS
        kind = "policy" if registry is POLICIES else "method"
        try:
            part = registry.get(name)
        except ImportError as error:
            text = f"cannot be imported here: {error}"
            out.append(
                MethodInfo(
                    name=name, kind=kind, schedule_class="", exact=False, online=registry is POLICIES,
                    available=False, covers=(), text=text,
                )
            )  # fmt: skip
            continue
        if registry is POLICIES:
            info = MethodInfo(
                name=name,
                kind=kind,
                schedule_class=str(part.schedule_class),
                exact=False,
                online=True,
                available=True,
                covers=tuple(getattr(part, "covers", POLICY_COVERS)),
                text=registry.summary(name),
            )
        else:
            made: Method = part()
            info = MethodInfo(
                name=name,
                kind=made.kind,
                schedule_class=str(made.schedule_class),
                exact=made.exact,
                online=made.online,
                available=made.available(),
                covers=tuple(made.covers),
                text=registry.summary(name),
            )
        out.append(info)
    return out


def policy_options(name: str) -> dict[str, Any]:
    """Return the options of a registered policy with their defaults."""
    parameters = inspect.signature(POLICIES.get(name)).parameters
    return {key: p.default for key, p in parameters.items()}


def method_options(name: str) -> dict[str, Any]:
    """Return the options of a registered method with their defaults, as far as it declares them."""
    made = METHODS.get(name)()
    return dict(made.option_defaults()) if hasattr(made, "option_defaults") else {}


def unknown_method(name: str) -> UnknownNameError:
    """Return the error for a name that nothing is registered under."""
    return UnknownNameError(f"unknown method {name!r}; known are: {', '.join(method_names())}")
