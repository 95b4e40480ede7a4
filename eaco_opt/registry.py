"""Families of exchangeable parts: policies, interference models, readers, ...

A registry maps names to lazy ``"module:attribute"`` strings, so that registering a
part imports nothing and upper floors (and third parties, through entry points) can
add parts without an import from below.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator
from importlib.metadata import entry_points
from typing import Any

from .errors import EacoError, PartError, UnknownNameError


class Registry:
    """One family of named parts.

    Parameters
    ----------
    family
        What the parts are called in messages, singular, e.g. ``"policy"``.
    group
        Entry-point group through which third parties register, e.g.
        ``"eaco_opt.policies"``.
    """

    def __init__(self, family: str, group: str) -> None:
        self.family = family
        self.group = group
        self._targets: dict[str, str] = {}
        self._third_parties_read = False

    def register(self, name: str, target: str) -> None:
        """Add a part; refuses a name that is taken and a target of the wrong form."""
        if name in self._targets:
            raise EacoError(
                f"{self.family} {name!r} is registered already, as {self._targets[name]}; choose another name"
            )
        module, _, attribute = target.partition(":")
        if not module or not attribute:
            raise EacoError(
                f"{self.family} {name!r}: target must look like 'module:attribute', got {target!r}"
            )
        self._targets[name] = target

    def _read_third_parties(self) -> None:
        if self._third_parties_read:
            return
        own = dict(self._targets)
        try:
            for point in sorted(entry_points(group=self.group), key=lambda p: p.name):
                self.register(point.name, point.value)
        except EacoError:
            self._targets = own  # the same error next time, not half of the parts
            raise
        self._third_parties_read = True

    def names(self) -> tuple[str, ...]:
        """Return the known names, in order of registration."""
        self._read_third_parties()
        return tuple(self._targets)

    def __iter__(self) -> Iterator[str]:
        """Iterate over the known names."""
        return iter(self.names())

    def __contains__(self, name: object) -> bool:
        """Tell whether a name is known."""
        return name in self.names()

    def get(self, name: str) -> Any:
        """Import and return a part.

        Raises
        ------
        UnknownNameError
            The name is not known; the text lists those that are.
        PartError
            The part cannot be imported.
        EacoError
            The part has no docstring of its own.
        """
        if name not in self.names():
            known = ", ".join(self.names())
            raise UnknownNameError(f"unknown {self.family} {name!r}; known are: {known}")
        module, _, attribute = self._targets[name].partition(":")
        try:
            part = getattr(importlib.import_module(module), attribute)
        except (ImportError, AttributeError) as error:
            raise PartError(
                f"{self.family} {name!r} ({self._targets[name]}) cannot be loaded: {error}; install what it "
                "needs, or remove the distribution that registers it"
            ) from error
        if not (getattr(part, "__doc__", None) or "").strip():
            raise EacoError(f"{self.family} {name!r} ({self._targets[name]}) has no docstring; write one")
        return part

    def summary(self, name: str) -> str:
        """Return the first line of a part's docstring."""
        return (inspect.getdoc(self.get(name)) or "").splitlines()[0].strip()
