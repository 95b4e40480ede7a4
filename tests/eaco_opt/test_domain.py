"""Domain objects: what they refuse, in which words, and the canonical form of what they keep."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from eaco_opt import (
    Cluster,
    EpochTime,
    GpuPower,
    Instance,
    Interference,
    Job,
    Limits,
    MeasuredPower,
    MeasuredSlowdown,
    MeasuredUsage,
    Node,
    NodeType,
    Objective,
    Placement,
    Plan,
    PowerModel,
    Profile,
    Result,
    Schedule,
    Segment,
    ServerPower,
    Status,
    StopReason,
)
from eaco_opt import _validate as v
from eaco_opt.errors import (
    DomainError,
    EacoError,
    FormatError,
    ImpossibleJobsError,
    OutputExistsError,
    ScheduleError,
    TraceError,
    UnknownNameError,
)
from eaco_opt.job import MemoryKind
from eaco_opt.limits import AdmissionRule, ObjectiveForm
from eaco_opt.schedule import ScheduleClass

POWER = PowerModel(
    server=ServerPower(idle_w=100.0, busy_w=200.0), gpu=GpuPower(standing_w=50.0, dynamic_w=250.0)
)
TYPE = NodeType(name="v2", gpus=2, gpu_type="V", gpu_memory_gib=32.0, power=POWER)
PROFILE = Profile(
    name="p",
    epoch_times=(EpochTime(gpu_type="V", epoch_time_s=10.0),),
    gpu_util_mean=0.3,
    gpu_util_peak=0.4,
    gpu_memory_mean_gib=3.0,
    gpu_memory_peak_gib=4.0,
)
JOB = Job(name="j", profile="p", gpus=1, epochs=1)
CLUSTER = Cluster.uniform(TYPE, 1)
INSTANCE = Instance(name="case", jobs=(JOB,), profiles=(PROFILE,), cluster=CLUSTER)
SEGMENT = Segment(job="j", start_s=0.0, end_s=10.0, gpus=((0, 0),))

# A valid object of every class; a test below holds the list to the modules.
VALID: tuple[Any, ...] = (
    POWER.server,
    POWER.gpu,
    MeasuredPower(kinds=("p",), power_w=300.0),
    POWER,
    TYPE,
    CLUSTER.nodes[0],
    CLUSTER,
    PROFILE.epoch_times[0],
    PROFILE,
    JOB,
    MeasuredUsage(kinds=("p",), load=0.3, memory_gib=4.0),
    MeasuredSlowdown(kinds=("p", "p"), factors=(1.1, 1.1)),
    Interference(),
    Limits(),
    Objective(),
    INSTANCE,
    Placement(start_s=0.0, gpus=((0, 0),)),
    SEGMENT,
    Schedule(segments=(SEGMENT,)),
)


def build(valid: Any, **fields: Any) -> Callable[[], object]:
    """A valid object with some fields replaced, when called."""
    return lambda: dataclasses.replace(valid, **fields)


def slow(*kinds: str, factors: Any = None) -> MeasuredSlowdown:
    return MeasuredSlowdown(kinds=kinds, factors=factors or (1.5,) * len(kinds))


TWIN = dataclasses.replace(PROFILE, name="q", kind="p", gpu_util_mean=0.2)
TIME = PROFILE.epoch_times[0]

TEXTS: list[tuple[Callable[[], object], str]] = [
    # Names, for all objects alike.
    (
        build(JOB, name=""),
        "job: name must be a non-empty string without surrounding blanks, got ''",
    ),
    (
        build(JOB, name=" j"),
        "job: name must be a non-empty string without surrounding blanks, got ' j'",
    ),
    (
        build(JOB, name=7),
        "job: name must be a non-empty string without surrounding blanks, got 7",
    ),
    (
        build(JOB, name="a\nb"),
        "job: name must be printable and at most 500 characters long, got 'a\\nb'",
    ),
    (
        build(JOB, name="x" * 501),
        f"job: name must be printable and at most 500 characters long, got '{'x' * 76}...",
    ),
    # Numbers, for all objects alike.
    (build(JOB, gpus=True), "job 'j': gpus must be a whole number, got True"),
    (build(JOB, gpus=1.0), "job 'j': gpus must be a whole number, got 1.0"),
    (build(JOB, gpus=0), "job 'j': gpus must be at least 1 and at most 1000000, got 0"),
    (
        build(JOB, epochs=10**5000),
        "job 'j': epochs must be at least 1 and at most 9007199254740992, got "
        "a number of thousands of digits",
    ),
    (build(JOB, release_s=True), "job 'j': release_s must be a number, got True"),
    (build(JOB, release_s="1"), "job 'j': release_s must be a number, got '1'"),
    (build(JOB, release_s=math.nan), "job 'j': release_s must be a finite number, got nan"),
    (build(JOB, release_s=math.inf), "job 'j': release_s must be a finite number, got inf"),
    (
        build(JOB, release_s=10**5000),
        "job 'j': release_s must be below 1.8e308 in size, got a number of thousands of digits",
    ),
    (build(JOB, deadline_s=math.nan), "job 'j': deadline_s must be a finite number or infinity, got nan"),
    (build(JOB, deadline_s=-math.inf), "job 'j': deadline_s must be a finite number or infinity, got -inf"),
    # Jobs.
    (
        build(JOB, profile=""),
        "job 'j': profile must be a non-empty string without surrounding blanks, got ''",
    ),
    (
        build(JOB, priority=2**31),
        "job 'j': priority must be at least -2147483648 and at most 2147483647, got 2147483648",
    ),
    (build(JOB, exclusive=1), "job 'j': exclusive must be true or false, got 1"),
    (
        build(JOB, memory_kind="both"),
        "job 'j': memory_kind must be one of data-parallel, model-parallel, got 'both'",
    ),
    (
        build(JOB, submit_index=-2),
        "job 'j': submit_index must be at least -1 and at most 9223372036854775807, got -2",
    ),
    # Epoch times and profiles.
    (
        build(TIME, gpu_type=None),
        "epoch time: gpu_type must be a non-empty string without surrounding blanks, got None",
    ),
    (build(TIME, gpus=0), "epoch time on 'V': gpus must be at least 1, got 0"),
    (build(TIME, epoch_time_s=0), "epoch time on 'V': epoch_time_s must be above 0, got 0.0"),
    (build(PROFILE, kind=None), "profile 'p': kind must be a string, got None"),
    (build(PROFILE, epoch_times=()), "profile 'p': epoch_times must hold at least one entry, got none"),
    (
        build(PROFILE, epoch_times=(TIME, build(TIME, epoch_time_s=2.0)())),
        "profile 'p': epoch_times name the same GPU type and count twice; keep one entry each",
    ),
    (
        build(PROFILE, epoch_times=TIME),
        "profile 'p': epoch_times must be a sequence of EpochTime, got "
        "EpochTime(gpu_type='V', gpus=None, epoch_time_s=10.0)",
    ),
    (build(PROFILE, epoch_times=(3,)), "profile 'p': epoch_times must hold EpochTime objects, got 3"),
    (build(PROFILE, gpu_util_peak=1.1), "profile 'p': gpu_util_peak must be at most 1, got 1.1"),
    (build(PROFILE, cpu_share=-0.1), "profile 'p': cpu_share must be at least 0, got -0.1"),
    (
        build(PROFILE, gpu_util_mean=0.5),
        "profile 'p': gpu_util_mean must not exceed gpu_util_peak, got 0.5 > 0.4",
    ),
    (
        build(PROFILE, gpu_memory_mean_gib=4.5),
        "profile 'p': gpu_memory_mean_gib must not exceed gpu_memory_peak_gib, got 4.5 > 4.0",
    ),
    # Power.
    (build(POWER.server, idle_w=-1), "server power: idle_w must be at least 0, got -1.0"),
    (build(POWER.server, busy_w=99), "server power: busy_w must be at least 100, got 99.0"),
    (build(POWER.server, exponent=0.9), "server power: exponent must be at least 1, got 0.9"),
    (build(POWER.server, exponent=2.1), "server power: exponent must be at most 2, got 2.1"),
    (build(POWER.gpu, standing_w=-1), "GPU power: standing_w must be at least 0, got -1.0"),
    (build(POWER.gpu, dynamic_w=-1), "GPU power: dynamic_w must be at least 0, got -1.0"),
    (build(POWER.gpu, exponent=0), "GPU power: exponent must be above 0, got 0.0"),
    (build(POWER.gpu, exponent=1.1), "GPU power: exponent must be at most 1, got 1.1"),
    (
        lambda: MeasuredPower(kinds=(), power_w=1.0),
        "measured power: kinds must name at least one job kind, got none",
    ),
    (
        lambda: MeasuredPower(kinds=("b", "a"), power_w=0.0),
        "measured power of a+b: power_w must be above 0, got 0.0",
    ),
    (
        lambda: MeasuredPower(kinds="ab", power_w=1.0),  # type: ignore[arg-type]
        "measured power: kinds must be a sequence of str, got 'ab'",
    ),
    (
        lambda: MeasuredPower(kinds=("a", " "), power_w=1.0),
        "measured power: kinds must be a non-empty string without surrounding blanks, got ' '",
    ),
    (
        build(POWER, server=POWER.gpu),
        "power model: server must be a ServerPower, got GpuPower(standing_w=50.0, dynamic_w=250.0, "
        "exponent=1.0)",
    ),
    (build(POWER, gpu=None), "power model: gpu must be a GpuPower, got None"),
    (
        build(
            POWER,
            measured=[MeasuredPower(kinds=k, power_w=w) for k, w in ((("a", "b"), 1.0), (("b", "a"), 2.0))],
        ),
        "power model: measured names the same set twice; keep one row for each set",
    ),
    (build(POWER, lookup=None), "power model: lookup must be true or false, got None"),
    # Node types, nodes, clusters.
    (build(TYPE, gpus=65537), "node type 'v2': gpus must be at least 1 and at most 65536, got 65537"),
    (build(TYPE, gpu_memory_gib=0), "node type 'v2': gpu_memory_gib must be above 0, got 0.0"),
    (build(TYPE, power=None), "node type 'v2': power must be a PowerModel, got None"),
    (build(TYPE, wake_s=-1), "node type 'v2': wake_s must be at least 0, got -1.0"),
    (build(TYPE, wake_energy_j=-1), "node type 'v2': wake_energy_j must be at least 0, got -1.0"),
    (  # 100 + 2 * 50 W
        build(TYPE, sleep_w=201),
        "node type 'v2': sleep_w must not exceed the empty active power 200 W, got 201 W",
    ),
    (
        build(
            TYPE,
            sleep_w=151,
            power=build(POWER, measured=(MeasuredPower(kinds=("b", "a"), power_w=150.0),))(),
        ),
        "node type 'v2': sleep_w must not exceed the measured power of a+b (150 W), got 151 W",
    ),
    (
        lambda: Node(name="n", node_type=""),
        "node 'n': node_type must be a non-empty string without surrounding blanks, got ''",
    ),
    (build(CLUSTER, nodes=()), "cluster: at least one node type and one node are needed; add them"),
    (build(CLUSTER, node_types=()), "cluster: at least one node type and one node are needed; add them"),
    (build(CLUSTER, node_types=(TYPE, TYPE)), "cluster: node type 'v2' occurs twice; give each its own name"),
    (
        build(CLUSTER, nodes=(CLUSTER.nodes[0], CLUSTER.nodes[0])),
        "cluster: node 'n0' occurs twice; give each its own name",
    ),
    (
        build(
            CLUSTER,
            node_types=(TYPE, build(TYPE, name="b")()),
            nodes=(Node(name="n", node_type="c"),),
        ),
        "node 'n': node_type must be one of b, v2, got 'c'",
    ),
    (build(CLUSTER, pue=0.9), "cluster: pue must be at least 1, got 0.9"),
    (lambda: Cluster.uniform(TYPE, 0), "cluster: count must be at least 1 and at most 1000000, got 0"),
    (
        lambda: Cluster.grouped([(TYPE, -1)]),
        "node type 'v2': count must be at least 0 and at most 1000000, got -1",
    ),
    (
        lambda: Cluster.grouped([("v2", 1)]),  # type: ignore[list-item]
        "cluster: groups must hold (NodeType, count) pairs, got str",
    ),
    # Sharing tables.
    (
        lambda: MeasuredUsage(kinds=(), load=0.1, memory_gib=1.0),
        "measured usage: kinds must name at least one job kind, got none",
    ),
    (
        lambda: MeasuredUsage(kinds=("",), load=0.1, memory_gib=1.0),
        "measured usage: kinds must be a non-empty string without surrounding blanks, got ''",
    ),
    (
        lambda: MeasuredUsage(kinds=("b", "a"), load=1.1, memory_gib=1.0),
        "measured usage of a+b: load must be at most 1, got 1.1",
    ),
    (
        lambda: MeasuredUsage(kinds=("a",), load=0.1, memory_gib=-1.0),
        "measured usage of a: memory_gib must be at least 0, got -1.0",
    ),
    (lambda: slow("a"), "measured slowdown of a: kinds must hold at least two, got 1"),
    (
        lambda: slow("a", "\t"),
        "measured slowdown: kinds must be a non-empty string without surrounding blanks, got '\\t'",
    ),
    (
        lambda: slow("b", "a", factors=(1.0,)),
        "measured slowdown of b+a: one factor a member is needed, got 1 for 2",
    ),
    (lambda: slow("a", "b", factors=(1.0, 0)), "measured slowdown of a+b: factors must be above 0, got 0.0"),
    (
        lambda: slow("a", "b", factors=1.5),
        "measured slowdown of a+b: factors must be a sequence of numbers, got 1.5",
    ),
    (
        lambda: slow("a", "b", "a", factors=(1.5, 1.0, 1.25)),
        "measured slowdown of a+b+a: equal kinds must have equal factors, got 1.25 and 1.5 for 'a'",
    ),
    (
        lambda: Interference(measured=(slow("a", "b"), slow("b", "a", factors=(2.0, 2.0)))),
        "interference: set a+b is measured twice; keep one row",
    ),
    (
        lambda: Interference(cannot_share=(("a",),)),  # type: ignore[arg-type]
        "interference: cannot_share must hold pairs of kinds, got ('a',)",
    ),
    (
        lambda: Interference(cannot_share=(("a", " "),)),
        "interference: cannot_share must be a non-empty string without surrounding blanks, got ' '",
    ),
    (
        lambda: Interference(cannot_share=5),  # type: ignore[arg-type]
        "interference: cannot_share must be a sequence of pairs of kinds, got 5",
    ),
    (
        lambda: Interference(measured=(slow("a", "b", "c"),), cannot_share=(("c", "a"),)),
        "interference: set a+b+c is measured but holds a pair that cannot share; drop one of the two",
    ),
    (
        lambda: Interference(model="psychic"),
        "unknown slowdown model 'psychic'; known are: none, additive, crowding, pair-product",
    ),
    (
        lambda: Interference(model="crowding", params=(("base", 0.1), ("base", 0.2))),
        "interference: parameter 'base' is given twice; keep one",
    ),
    (
        lambda: Interference(model="crowding", params=(("base", "0.1"),)),  # type: ignore[arg-type]
        "interference: params[base] must be a number, got '0.1'",
    ),
    (
        lambda: Interference(params=("base",)),  # type: ignore[arg-type]
        "interference: params must hold (name, value) pairs, got 'base'",
    ),
    (
        lambda: Interference(params=(("base", 0.1),)),
        "slowdown model 'none': unknown parameter 'base'; known are: none",
    ),
    (
        lambda: Interference(model="crowding", params=(("bass", 0.1),)),
        "slowdown model 'crowding': unknown parameter 'bass'; known are: base, slope, exponent",
    ),
    (
        lambda: Interference(model="crowding", params=(("slope", -0.1),)),
        "slowdown model 'crowding': slope must be a finite number >= 0, got -0.1",
    ),
    (lambda: Interference(clamp=1), "interference: clamp must be true or false, got 1"),  # type: ignore[arg-type]
    # Limits and objective.
    (build(Limits(), u_threshold=-0.1), "limits: u_threshold must be at least 0, got -0.1"),
    (build(Limits(), mem_threshold=0), "limits: mem_threshold must be above 0, got 0.0"),
    (build(Limits(), mem_threshold=1.1), "limits: mem_threshold must be at most 1, got 1.1"),
    (build(Limits(), max_share=9), "limits: max_share must be at least 1 and at most 8, got 9"),
    (build(Limits(), rule="any"), "limits: rule must be one of resulting, existing, got 'any'"),
    (build(Objective(), alpha=1.1), "objective: alpha must be at most 1, got 1.1"),
    (build(Objective(), jtt_weight=-1), "objective: jtt_weight must be at least 0, got -1.0"),
    (build(Objective(), form="best"), "objective: form must be one of normalised, raw, got 'best'"),
    # Instances.
    (
        build(INSTANCE, jobs=(JOB, build(JOB, name="k", submit_index=3)())),
        "instance 'case': give submit_index for all jobs or for none, got a mixture",
    ),
    (
        build(INSTANCE, jobs=(JOB, JOB)),
        "instance 'case': job 'j' occurs twice; give each job its own name",
    ),
    (
        build(INSTANCE, jobs=[build(JOB, name=n, submit_index=3)() for n in "jk"]),
        "instance 'case': jobs 'j' and 'k' have the same submit_index 3; give each its own",
    ),
    (build(INSTANCE, jobs=("j",)), "instance 'case': jobs must hold Job objects, got 'j'"),
    (
        build(INSTANCE, profiles=(PROFILE, PROFILE)),
        "instance 'case': profile 'p' occurs twice; keep one",
    ),
    (
        build(INSTANCE, profiles=(PROFILE, TWIN)),
        "instance 'case': profiles 'p' and 'q' share the kind 'p' but differ in utilisation, memory or CPU; "
        "give them kinds of their own",
    ),
    (build(INSTANCE, profiles=(build(PROFILE, name="a")(),)), "job 'j': unknown profile 'p'; known are: a"),
    (build(INSTANCE, profiles=()), "job 'j': unknown profile 'p'; known are: none"),
    (build(INSTANCE, cluster=None), "instance 'case': cluster must be a Cluster, got None"),
    (build(INSTANCE, truth=None), "instance 'case': truth must be a Interference, got None"),
    (build(INSTANCE, limits=None), "instance 'case': limits must be a Limits, got None"),
    (build(INSTANCE, objective=None), "instance 'case': objective must be a Objective, got None"),
    (
        build(
            INSTANCE,
            usage=[MeasuredUsage(kinds=k, load=0.1, memory_gib=1.0) for k in (("a", "b"), ("b", "a"))],
        ),
        "instance 'case': usage names the same set twice; keep one row for each set",
    ),
    (
        build(INSTANCE, metadata=(("a", 1),)),
        "instance 'case': metadata must hold (key, text) pairs of strings, got ('a', 1)",
    ),
    (build(INSTANCE, metadata=(1,)), "instance 'case': metadata must hold (key, text) pairs, got 1"),
    (
        build(INSTANCE, metadata=(("a", "1"), ("a", "2"))),
        "instance 'case': metadata names a key twice; keep one",
    ),
    (lambda: INSTANCE.without(["k"]), "instance 'case': no job 'k' to drop"),
    (lambda: INSTANCE.profile("q"), "instance 'case': unknown profile 'q'"),
    # Placements, segments, schedules, plans.
    (
        lambda: Placement(start_s=math.inf, gpus=((0, 0),)),
        "placement: start_s must be a finite number, got inf",
    ),
    (lambda: Placement(start_s=0.0, gpus=()), "placement: gpus must not be empty"),
    (
        lambda: Placement(start_s=0.0, gpus=(0, 1)),  # type: ignore[arg-type]
        "placement: gpus must hold tuple objects, got 0",
    ),
    (
        lambda: Placement(start_s=0.0, gpus=((0, 1, 2),)),  # type: ignore[arg-type]
        "placement: gpus must hold (node, gpu) pairs, got (0, 1, 2)",
    ),
    (
        lambda: Placement(start_s=0.0, gpus=((0, 1), (0, 1))),
        "placement: gpus name the same GPU twice, got [(0, 1), (0, 1)]",
    ),
    (build(SEGMENT, gpus=((0, -1),)), "segment of job 'j': gpu must be at least 0, got -1"),
    (build(SEGMENT, gpus=((0.0, 1),)), "segment of job 'j': node must be a whole number, got 0.0"),
    (build(SEGMENT, end_s=0.0), "segment of job 'j': end_s must be after start_s, got 0.0 to 0.0"),
    (
        build(SEGMENT, job=None),
        "segment: job must be a non-empty string without surrounding blanks, got None",
    ),
    (build(Schedule(segments=()), segments=("j",)), "schedule: segments must hold Segment objects, got 'j'"),
    (
        build(Schedule(segments=()), schedule_class="offline"),
        "schedule: schedule_class must be one of static, epoch, fluid, got 'offline'",
    ),
    (build(Schedule(segments=()), method=None), "schedule: method must be a string, got None"),
    (build(Schedule(segments=()), instance_digest=1), "schedule: instance_digest must be a string, got 1"),
    (lambda: Plan.of(INSTANCE, {}), "plan: job 'j' has no placement; a plan places every job"),
    (
        lambda: Plan.of(INSTANCE, {"j": VALID[16], "x": VALID[16], "y": VALID[16]}),
        "plan: job 'x' is not in instance 'case'",
    ),
    (
        lambda: Plan.of(INSTANCE, {"j": ((0, 0),)}),  # type: ignore[dict-item]
        "plan: job 'j' needs a Placement, got tuple",
    ),
    (
        lambda: Plan.of(INSTANCE, {"j": Placement(start_s=0.0, gpus=((0, 0), (0, 1)))}),
        "plan: job 'j' asks for 1 GPU(s), its placement names 2",
    ),
    (
        lambda: Plan.of(INSTANCE, {"j": Placement(start_s=0.0, gpus=((1, 0),))}),
        "plan: job 'j': node 1 does not exist; the cluster has nodes 0 to 0",
    ),
    (
        lambda: Plan.of(INSTANCE, {"j": Placement(start_s=0.0, gpus=((0, 2),))}),
        "plan: job 'j': GPU 2 does not exist on node 'n0', which has GPUs 0 to 1",
    ),
    (
        lambda: Plan(np.zeros(1), np.array([0.5])),
        "plan: gpus must be an array of whole numbers, got type float64",
    ),
    (
        lambda: Plan(["soon"], [0]),  # type: ignore[arg-type]
        "plan: start_s must be an array of numbers, got type <U4",
    ),
    (
        lambda: Plan([0.0], [[0], [1, 2]]),  # type: ignore[arg-type]
        "plan: gpus must be an array of whole numbers, got rows of different lengths",
    ),
    # Results.
    (
        lambda: result(schedule=Schedule(segments=())),
        "result of 'm': give schedule and evaluation together",
    ),
    (
        lambda: result(status=Status.FEASIBLE),
        "result of 'm': status feasible needs a schedule",
    ),
]


def result(**fields: Any) -> Result:
    valid: dict[str, Any] = {
        "method": "m",
        "schedule": None,
        "evaluation": None,
        "status": Status.UNKNOWN,
        "stop_reason": StopReason.TIME_LIMIT,
    }
    return Result(**{**valid, **fields})


@pytest.mark.parametrize(("make", "text"), TEXTS, ids=[text[:60] for _, text in TEXTS])
def test_error_texts(make: Callable[[], object], text: str) -> None:
    """What is refused is named with object and field, what was expected, and what was got."""
    with pytest.raises(EacoError) as caught:
        make()
    assert str(caught.value) == text


JUNK: tuple[Any, ...] = (
    None, True, 0, -1, 1.5, math.nan, math.inf, -math.inf, 10**400, "", "x", " x ", "x\n", "x" * 501, b"x",
    (), [], [1], [None], ["x"], [("a", 1)], [["a", "b"]], [("a", "b", "c")], {}, {"a": 1}, {1: 2}, {"a"},
    object(), np.array([1.0, 2.0]), np.array(1), np.float64(1.0), np.int64(1), ((0, 0), (0, 0)), ((0, 1.5),),
    1j, float, [()], [[[]]], [({}, 1)], lambda: 1,
)  # fmt: skip


@pytest.mark.parametrize("valid", VALID, ids=lambda valid: type(valid).__name__)
def test_no_value_of_any_field_ends_in_a_traceback(valid: Any) -> None:
    """Whatever a field is given, the object is built or says in an error of ours why not."""
    refused = 0
    for field in dataclasses.fields(valid):
        if field.init:
            for value in JUNK:
                try:
                    dataclasses.replace(valid, **{field.name: value})
                except DomainError:
                    refused += 1
                except UnknownNameError:  # of a slowdown model
                    assert field.name == "model"
    assert refused > len(JUNK) / 2


def test_every_domain_class_is_looked_at() -> None:
    """The lists above leave out no dataclass that checks its values."""
    from eaco_opt import cluster, instance, interference, job, limits, power, profile, schedule

    known = {type(valid) for valid in VALID}
    for module in (cluster, instance, interference, job, limits, power, profile, schedule):
        for name, cls in vars(module).items():
            checks = (
                isinstance(cls, type) and "__post_init__" in vars(cls) and cls.__module__ == module.__name__
            )
            assert not checks or cls in known or cls is Plan, name


@pytest.mark.parametrize("valid", VALID, ids=lambda valid: type(valid).__name__)
def test_objects_are_frozen_slotted_and_keyword_only(valid: Any) -> None:
    """A change is a new object: fields cannot be set, new ones not added, positions not mixed up."""
    fields = [f.name for f in dataclasses.fields(valid) if f.init]
    for name in fields:
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(valid, name, getattr(valid, name))
    assert not hasattr(valid, "__dict__")
    with pytest.raises(TypeError):
        type(valid)(*(getattr(valid, name) for name in fields))
    copy = dataclasses.replace(valid)
    assert copy == valid and copy is not valid


def test_fields_hold_one_type_whatever_was_given() -> None:
    """Equal objects look equal: whole numbers become floats, -0.0 becomes 0.0, lists become tuples."""
    job = Job(name="j", profile="p", gpus=np.int64(2), epochs=3, release_s=-0.0, deadline_s=7)
    assert (type(job.gpus), type(job.release_s), type(job.deadline_s)) == (int, float, float)
    assert math.copysign(1.0, job.release_s) == 1.0
    assert job.memory_kind is MemoryKind.DATA_PARALLEL
    assert dataclasses.replace(job, memory_kind="model-parallel").memory_kind is MemoryKind.MODEL_PARALLEL
    assert Limits(rule="existing").rule is AdmissionRule.EXISTING  # type: ignore[arg-type]
    assert Objective(form="raw").form is ObjectiveForm.RAW  # type: ignore[arg-type]
    assert Schedule(segments=[], schedule_class="epoch").schedule_class is ScheduleClass.EPOCH  # type: ignore[arg-type]
    assert PROFILE.kind == "p"
    assert Interference(model="crowding", params={"slope": 1, "base": 0.5}).params == (  # type: ignore[arg-type]
        ("base", 0.5),
        ("slope", 1.0),
    )
    assert dataclasses.replace(INSTANCE, metadata={"b": "2", "a": "1"}).metadata == (("a", "1"), ("b", "2"))


def test_what_has_no_order_is_sorted() -> None:
    """Rows given in another order make an equal object; kinds take their factors along."""
    assert slow("b", "a", "b", factors=(2.0, 1.5, 2.0)) == slow("a", "b", "b", factors=(1.5, 2.0, 2.0))
    assert MeasuredPower(kinds=("b", "a"), power_w=1.0).kinds == ("a", "b")
    rows = (slow("c", "d"), slow("a", "b"))
    assert Interference(measured=rows) == Interference(measured=rows[::-1])
    assert Interference(cannot_share=(("b", "a"), ("a", "b"))).cannot_share == (("a", "b"),)
    one, two = SEGMENT, dataclasses.replace(SEGMENT, start_s=-1.0, gpus=((1, 0), (0, 3)))
    assert Schedule(segments=(one, two)) == Schedule(segments=(two, one))
    assert two.gpus == ((0, 3), (1, 0))
    jobs = [dataclasses.replace(JOB, name=n, submit_index=i) for n, i in (("a", 9), ("b", 4))]
    assert [j.name for j in dataclasses.replace(INSTANCE, jobs=jobs).jobs] == ["b", "a"]
    given = dataclasses.replace(INSTANCE, jobs=[dataclasses.replace(JOB, name=n) for n in "zyx"])
    assert [(j.name, j.submit_index) for j in given.jobs] == [("z", 0), ("y", 1), ("x", 2)]


def test_the_builder_keeps_no_hold_on_what_it_built() -> None:
    """Changing a list or array afterwards changes no object made from it."""
    jobs, starts, gpus = [JOB], np.zeros(1), np.zeros(1, dtype=np.int64)
    instance, plan = dataclasses.replace(INSTANCE, jobs=jobs), Plan(starts, gpus)
    jobs.clear()
    starts[0] = gpus[0] = 1
    assert len(instance.jobs) == 1
    assert plan.start_s[0] == 0.0 and plan.gpus[0] == 0
    with pytest.raises(ValueError, match="read-only"):
        plan.start_s[0] = 1.0


def test_epoch_time_for_the_count_wins_over_any_count() -> None:
    """An entry for exactly the GPUs asked for is preferred; without any the type is forbidden."""
    times = (
        EpochTime(gpu_type="V", gpus=4, epoch_time_s=3.0),
        EpochTime(gpu_type="V", epoch_time_s=10.0),
        EpochTime(gpu_type="W", gpus=2, epoch_time_s=5.0),
    )
    for order in (times, times[::-1]):
        profile = dataclasses.replace(PROFILE, epoch_times=order)
        found = [profile.epoch_time_s(t, g) for t, g in (("V", 4), ("V", 1), ("W", 2), ("W", 1), ("X", 1))]
        assert found == [3.0, 10.0, 5.0, None, None]


def test_nodes_of_a_cluster_are_numbered_through() -> None:
    """Groups give nodes n0, n1, ... in order; a group of none gives none."""
    other = dataclasses.replace(TYPE, name="w8", gpus=8)
    cluster = Cluster.grouped([(TYPE, 2), (dataclasses.replace(other, name="none"), 0), (other, 1)])
    assert [(n.name, n.node_type) for n in cluster.nodes] == [("n0", "v2"), ("n1", "v2"), ("n2", "w8")]
    assert [cluster.type_of(n).gpus for n in range(3)] == [2, 2, 8]
    assert cluster.total_gpus() == 12
    assert [len(Cluster.uniform(TYPE, n).nodes) for n in (1, 3)] == [1, 3]


def test_instance_without_jobs_keeps_the_others_indices() -> None:
    """Dropping jobs leaves the submit indices of the rest, which settle ties."""
    jobs = tuple(dataclasses.replace(JOB, name=n) for n in "abc")
    left = dataclasses.replace(INSTANCE, jobs=jobs).without(["b"])
    assert [(j.name, j.submit_index) for j in left.jobs] == [("a", 0), ("c", 2)]
    assert left.without([]) == left


def test_plan_and_placements_are_two_forms_of_one_thing() -> None:
    """GPU k of node n has the number of the GPUs on the nodes before, plus k."""
    jobs = (JOB, dataclasses.replace(JOB, name="k", gpus=2))
    instance = dataclasses.replace(INSTANCE, jobs=jobs, cluster=Cluster.uniform(TYPE, 3))
    placements = {
        "j": Placement(start_s=1.0, gpus=((2, 1),)),
        "k": Placement(start_s=2.0, gpus=((1, 1), (1, 0))),
    }
    plan = Plan.of(instance, placements)
    assert plan.gpus.tolist() == [5, 2, 3]
    assert plan.start_s.tolist() == [1.0, 2.0]
    assert plan.placements(instance) == placements


def test_all_errors_are_value_errors_that_name_themselves() -> None:
    """A caller can catch EacoError alone; files that exist are an OSError."""
    for cls in (DomainError, FormatError, TraceError, ScheduleError, UnknownNameError, ImpossibleJobsError):
        assert issubclass(cls, EacoError) and issubclass(EacoError, ValueError)
    assert issubclass(OutputExistsError, OSError)


def test_impossible_jobs_are_listed_up_to_ten() -> None:
    """The text names ten of them and counts the rest; all are in `jobs`."""
    error = ImpossibleJobsError([(f"j{i}", "too big") for i in range(12)])
    assert len(error.jobs) == 12
    assert str(error) == (
        "12 job(s) can run nowhere in this cluster: "
        + "; ".join(f"job 'j{i}': too big" for i in range(10))
        + "; and 2 more. Drop them (--impossible drop), or give the cluster what they need."
    )
    assert "more." not in str(ImpossibleJobsError([("a", "too big")]))


def test_what_is_shown_of_a_value_is_short() -> None:
    """A value of any size is shown in at most 80 characters."""
    with pytest.raises(DomainError) as caught:
        v.flag("x", "y", list(range(10_000)))
    assert len(str(caught.value)) < 120
