"""Methods that do what solvers do on bad days, for tests of what becomes of the answer.

They run in a process of their own, which imports this module by its name.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from collections.abc import Mapping
from typing import Any

from eaco_opt.errors import EacoError
from eaco_opt.result import Status, StopReason
from formulations.base import Formulation, Model, Outcome, SizeEstimate
from formulations.cpsat import CpsatFormulation
from formulations.grid import Grid
from solvers.exact import ExactMethod
from solvers.search import PlanTeller, Task


class Misbehaving(ExactMethod):
    """Builds a model as usual; what it does instead of solving it is an option."""

    name = "misbehaving"
    options: Mapping[str, Any] = {"how": "hang"}

    def formulation(self, options: Mapping[str, Any]) -> Formulation:
        return _Huge() if options["how"] == "huge" else CpsatFormulation()

    def run(self, model: Model, task: Task, time_limit_s: float | None, teller: PlanTeller) -> Outcome:
        how = task.options["how"]
        if how == "hang":
            teller.progress(0.0, None, 0.25)
            while True:
                time.sleep(3600.0)
        if how == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if how == "segfault":
            ctypes.string_at(0)
        if how == "exit":
            os.write(1, b"standard output belongs to the channel\n")
            sys.stderr.write("somebody called exit\n")
            os._exit(7)
        if how == "bug":
            raise ZeroDivisionError("a bug")
        if how == "error":
            raise EacoError("told in the child")
        if how == "memory":
            block = bytearray(800 * 2**20)
            block[::4096] = b"x" * len(block[::4096])
            while True:
                time.sleep(3600.0)
        if how == "infeasible":
            return Outcome(status=Status.INFEASIBLE, stop_reason=StopReason.FINISHED, message="says no")
        if how == "high":
            return Outcome(status=Status.UNKNOWN, stop_reason=StopReason.FINISHED, bound=1e9)
        assert how == "nothing"
        return Outcome(status=Status.UNKNOWN, stop_reason=StopReason.TIME_LIMIT, message="found nothing")


class _Huge(CpsatFormulation):
    """Says that its model takes more memory than any machine has."""

    def estimate(self, instance: Any, grid: Grid) -> SizeEstimate:
        return SizeEstimate(variables=10**12, constraints=10**12, nonzeros=10**13, memory_bytes=10**18)
