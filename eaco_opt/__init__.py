"""eaco-opt: how far from optimal are schedulers that share GPUs to save energy?

The public face. Domain objects describe a problem, :func:`evaluate` works out what a
plan costs, :func:`check` verifies a schedule independently, :func:`simulate` runs an
online policy. :func:`compare` is a lazy look-up of the upper floors. Importing this
module loads nothing heavy; everything is imported at first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_LAZY = {
    "Job": "job",
    "MemoryKind": "job",
    "EpochTime": "profile",
    "Profile": "profile",
    "ServerPower": "power",
    "GpuPower": "power",
    "MeasuredPower": "power",
    "PowerModel": "power",
    "NodeType": "cluster",
    "Node": "cluster",
    "Cluster": "cluster",
    "Interference": "interference",
    "MeasuredSlowdown": "interference",
    "AdmissionRule": "limits",
    "Limits": "limits",
    "Objective": "limits",
    "ObjectiveForm": "limits",
    "Instance": "instance",
    "MeasuredUsage": "instance",
    "Placement": "schedule",
    "Plan": "schedule",
    "Schedule": "schedule",
    "ScheduleClass": "schedule",
    "Segment": "schedule",
    "Evaluation": "evaluation",
    "Violation": "evaluation",
    "Result": "result",
    "Status": "result",
    "StopReason": "result",
    "EacoError": "errors",
    "evaluate": "physics",
    "plan_schedule": "physics",
    "check": "checker",
    "check_report": "checker",
    "Policy": "simulator",
    "simulate": "simulator",
    "read_instance": "io",
    "write_instance": "io",
    "read_schedule": "io",
    "write_schedule": "io",
    "instance_digest": "io",
}
_UPPER = {
    "bound": "solvers.bounds:bound",
    "compare": "experiments.compare:compare",
    "solve": "solvers.run:solve",
}

__all__ = ["__version__", *_LAZY, *_UPPER]

if TYPE_CHECKING:
    from .checker import check as check
    from .checker import check_report as check_report
    from .cluster import Cluster as Cluster
    from .cluster import Node as Node
    from .cluster import NodeType as NodeType
    from .errors import EacoError as EacoError
    from .evaluation import Evaluation as Evaluation
    from .evaluation import Violation as Violation
    from .instance import Instance as Instance
    from .instance import MeasuredUsage as MeasuredUsage
    from .interference import Interference as Interference
    from .interference import MeasuredSlowdown as MeasuredSlowdown
    from .io import instance_digest as instance_digest
    from .io import read_instance as read_instance
    from .io import read_schedule as read_schedule
    from .io import write_instance as write_instance
    from .io import write_schedule as write_schedule
    from .job import Job as Job
    from .job import MemoryKind as MemoryKind
    from .limits import AdmissionRule as AdmissionRule
    from .limits import Limits as Limits
    from .limits import Objective as Objective
    from .limits import ObjectiveForm as ObjectiveForm
    from .physics import evaluate as evaluate
    from .physics import plan_schedule as plan_schedule
    from .power import GpuPower as GpuPower
    from .power import MeasuredPower as MeasuredPower
    from .power import PowerModel as PowerModel
    from .power import ServerPower as ServerPower
    from .profile import EpochTime as EpochTime
    from .profile import Profile as Profile
    from .result import Result as Result
    from .result import Status as Status
    from .result import StopReason as StopReason
    from .schedule import Placement as Placement
    from .schedule import Plan as Plan
    from .schedule import Schedule as Schedule
    from .schedule import ScheduleClass as ScheduleClass
    from .schedule import Segment as Segment
    from .simulator import Policy as Policy
    from .simulator import simulate as simulate


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(importlib.import_module(f".{_LAZY[name]}", __name__), name)
    if name in _UPPER:
        module, _, attribute = _UPPER[name].partition(":")
        return getattr(importlib.import_module(module), attribute)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
