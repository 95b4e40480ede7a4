r"""Brute force: the proved optimum of class `static` on a grid, for tiny instances.

:func:`bruteforce` goes through all plans {job: (GPU set, start slot)}, which decide everything (docs/model.md
sections 2.11 and 5), and returns the best one that breaks no rule. It shares nothing with the models of
`formulations`, and is the oracle that they are tested against. It covers every feature of docs/model.md.

**Walk.** Depth first; jobs are placed in order of start, jobs that start in one slot in order of submit
index. What starts later changes nothing before, so the physics of a partial plan is final up to its last
start, and is played once for all plans that begin with it. A partial plan is dropped when a job misses its
deadline, a GPU hosts a set that is not admissible (1.9; supersets of such a set are not admissible either),
or a node starts work before it can have woken up. Starts go from the first slot at or after the release to
the last one from which the fastest possible run keeps the deadline, or ends within the horizon: the last
slot by which every job is released and could wake any node, plus the slots of the slowest possible run of
every job.

**Symmetry.** GPUs of one node that host the same jobs are interchangeable for all that follows, and so are
nodes of one type that host the same jobs GPU by GPU and, when idle, owe the same for their next wake-up. Of
such GPUs and nodes the first are taken. Jobs that differ in name, submit index and priority only start in
order of index. Each of the three maps any plan to one that is looked at, with the same starts (of equal
jobs: exchanged) and the same value.

**Shifts.** A *group* is a set of jobs connected by overlapping in time on a node. On types whose wake-ups
cost time or energy, successive jobs of a node also belong together when the pause between them is at most
the wake-up time. Suppose that every job of a group starts after its first slot (release), that every start
of it which wakes a node is made by a job that could have done so a slot earlier, and that on types without
costs of waking no job leaves at the very moment at which the group begins on a node. Then the whole group
can start a slot earlier. Every node of the group is idle in the slot before, so GPUs are free, and its jobs
run as before among themselves. Ends, JTT and the end of the whole plan are not later, so that idle nodes
sleep no longer in all. Where wake-ups cost anything, pauses before the group were longer than the wake-up
time and get shorter, which wakes a node for the same, for less, or not at all; pauses after it were longer
than the wake-up time, and stay so. No rule is broken and the value does not rise. Among optimal plans take
one with the least sum of start slots: none of its groups can be moved. The walk therefore drops a partial
plan as soon as some group can be moved whatever is added. The argument survives the choice among symmetric
plans, which have the same starts and value. It also bounds the horizon: once all jobs are released and could
wake any node, a slot in which no job runs would let everything after it move up.

**Bounds.** Let :math:`a_j(S) \ge 0` be a part of the power of a node of some type for each job j of a set S
that a GPU hosts, such that the power of the node is at least the sum of :math:`a_j(S_i)` over its GPUs i in
use and their jobs. (With the node's GPUs i = 1..G, at most G' of them in use at once, the modelled power is
at least the sum over the GPUs in use of (idle + G standing) / G' + (busy - idle) cpu(S_i) / (G c) +
dynamic(S_i), where c >= 1 bounds the CPU sum from above: the server's curve lies above its chord. A measured
power, which needs all G GPUs to host the same kinds, is the sum of its G-th parts, so the least of the two
is taken where S is measured. If all jobs that a type can run take whole nodes, all GPUs of a node host one
set and its power is known exactly. The part of each job is its share by docs/model.md 2.9, scaled; it is not
negative, whatever the residual of the measurement.) Then a second of running in sets :math:`S_i` costs job j
at least :math:`g_j` times the mean of its :math:`a_j(S_i)`, plus its prices of AvgTPE and JTT, and advances
it by :math:`1 / (\tau_j \max_i \sigma_j(S_i))` epochs. So

- a second costs at least the least of second(S) over admissible sets S that hold j, and
- an epoch costs at least the least of second(S) tau_j sigma_j(S), because :math:`\max_i \sigma_j(S_i)
  \sum_i a_j(S_i) \ge \sum_i \sigma_j(S_i) a_j(S_i)`, whatever side of 1 the slowdowns are on.

What is left of a job costs at least its epochs left, n_j (1 - 1e-9) - done, times the price of an epoch, and
at least the slots that its fastest run needs times the price of a second: on a grid it holds its GPUs, at a
price that is not negative, for whole slots. S ranges over what the job can still meet: jobs that wait and,
if it runs, those on its GPUs, as far as their windows overlap. A waiting job takes the least over node
types. To this are added what has been used up to now, which is exact (idle nodes: sleep power, since waking
draws no less), and the JTT of waiting. Future wake-ups and sleep are not negative. A partial plan is dropped
when this bound reaches the best value known, or when a fastest run misses its deadline.

**Rounding.** All times, progress and departure slots come from the compiled physics that `evaluate` uses, in
the same order of operations. A group that moves keeps its numbers of slots unless the progress of a job lies
within rounding (1e-15) of n_j (1 - 1e-9) at a boundary. Optimality is proved up to a share of 1e-11. The
value returned is that of `evaluate`; it is compared with the walk's own.
"""

from __future__ import annotations

import dataclasses
import logging
import math
import platform
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eaco_opt import __version__
from eaco_opt import _validate as v
from eaco_opt.errors import EacoError
from eaco_opt.evaluation import Evaluation
from eaco_opt.instance import Instance
from eaco_opt.io_digest import instance_digest
from eaco_opt.physics import evaluate, make_sets, make_state, make_view, plan_schedule
from eaco_opt.result import Result, Status, StopReason
from eaco_opt.schedule import Plan

from . import bruteforce_tables as tables

_LOG = logging.getLogger(__name__)

METHOD = "bruteforce"

MOST_JOBS = 12
"""More jobs are refused: the tables of bounds have a column for each set of jobs."""

MOST_CHOICES = 20_000
"""Most GPU sets of all jobs together, before symmetry."""

MOST_SLOTS = 100_000
"""Longest horizon."""

MOST_PLANS = 1e15
"""Most plans, before anything is cut off (`estimate_plans`)."""

AGREEMENT = 1e-9
"""Largest relative difference to `evaluate` that is put down to rounding."""

_STEPS_A_CALL = 20_000
"""Steps between two looks at the clock: some hundredths of a second."""

Progress = Callable[[float, float | None, float | None], None]
"""Called with (seconds of search, best objective or None, None)."""


class TooManyPlansError(EacoError):
    """An instance is too large for brute force; nothing was searched."""


def bruteforce(
    instance: Instance,
    *,
    grid_s: float,
    time_limit_s: float | None = None,
    progress: Progress | None = None,
    _bounds: bool = True,
    _shifts: bool = True,
) -> Result:
    """Return the optimum of class `static` on the grid, proved by going through all plans.

    Parameters
    ----------
    instance
        The problem: a handful of jobs on a few nodes (docs/exact.md says how many).
    grid_s
        Length of a slot [s].
    time_limit_s
        Wall-clock limit of the search [s]; tables, and compiling at the first call ever, come on top.
    progress
        Called a few times a second with (seconds of search, best objective or ``None``, ``None``).

    Returns
    -------
    Result
        ``optimal`` with the objective as bound, or ``infeasible``. Stopped early (time limit, Ctrl-C):
        ``feasible`` with the best schedule so far, or ``unknown``, without a bound.

    Raises
    ------
    TooManyPlansError
        More than `MOST_JOBS` jobs, or so many slots, GPU sets or plans that it would not end.
    DomainError
        ``grid_s`` or ``time_limit_s`` is unusable.
    """
    began = time.perf_counter()
    if not isinstance(instance, Instance):
        raise EacoError(
            f"{METHOD}: expected an Instance, got {instance!r}; read a file with eaco_opt.read_instance(path)"
        )
    grid_s = v.real(METHOD, "grid_s", grid_s, above=0.0)
    if time_limit_s is not None:
        time_limit_s = v.real(METHOD, "time_limit_s", time_limit_s, low=0.0)
    search = _prepare(instance, grid_s, bounds=_bounds, shifts=_shifts)
    built = time.perf_counter()
    stop = StopReason.FINISHED if search is None else _run(search, time_limit_s, progress)
    done = time.perf_counter()
    plan = None if search is None else search.plan()
    if not instance.jobs:
        plan = Plan(np.zeros(0), np.zeros(0, dtype=np.int64))
    proved = stop is StopReason.FINISHED
    status = Status.INFEASIBLE if proved else Status.UNKNOWN
    schedule, evaluation = None, None
    digest = instance_digest(instance)
    if plan is not None:
        status = Status.OPTIMAL if proved else Status.FEASIBLE
        evaluation = _confirm(instance, plan, grid_s, 0.0 if search is None else search.value)
        schedule = dataclasses.replace(
            plan_schedule(instance, plan, grid_s=grid_s, method=METHOD), instance_digest=digest
        )
    if search is not None:
        _LOG.info("%s: %s after %d steps, %d whole plans", METHOD, status.value, search.steps, search.plans)
    return Result(
        method=METHOD,
        schedule=schedule,
        evaluation=evaluation,
        status=status,
        stop_reason=stop,
        bound=evaluation.objective if evaluation is not None and proved else None,
        build_s=built - began,
        solve_s=done - built,
        instance_digest=digest,
        options=(("grid_s", repr(grid_s)),),
        versions=(
            ("eaco-opt", __version__),
            ("numpy", np.__version__),
            ("python", platform.python_version()),
        ),
    )


def estimate_plans(instance: Instance, grid_s: float) -> float:
    """Return how many plans `bruteforce` starts from: the product over jobs of start slots times GPU sets.

    Nothing is cut off from it: neither symmetry nor plans that break limits. Infinity where the tables that
    the count needs are refused; 0 where some job cannot run at all.

    Raises
    ------
    DomainError
        ``grid_s`` is unusable.
    """
    grid_s = v.real(METHOD, "grid_s", grid_s, above=0.0)
    if len(instance.jobs) > MOST_JOBS:
        return math.inf
    allowed = tables.allowed_types(instance)
    if not instance.jobs or not allowed.any(axis=1).all():
        return 1.0 if not instance.jobs else 0.0
    table = tables.tables(instance, allowed, tables.prices(instance))
    window = tables.windows(instance, allowed, table, grid_s)
    return _count(window, tables.count_choices(instance.arrays(), allowed))


def _count(window: tables.Windows, choices: list[int]) -> float:
    wide = np.maximum(0, window.latest - window.earliest + 1)
    return math.prod(float(w) * c for w, c in zip(wide.tolist(), choices, strict=True))


def _refuse(instance: Instance, what: str) -> TooManyPlansError:
    return TooManyPlansError(
        f"{METHOD}: instance {instance.name!r} {what}; take fewer jobs, longer slots or deadlines that are "
        "sooner, or another exact method"
    )


@dataclass(slots=True, eq=False)
class _Search:
    """A walk, and what it is over."""

    instance: Instance
    slot_s: float
    arguments: tuple[Any, ...]
    best: Any
    control: NDArray[np.int64]

    @property
    def value(self) -> float:
        return float(self.best.value[0])

    @property
    def steps(self) -> int:
        return int(self.control[_kernel().STEPS])

    @property
    def plans(self) -> int:
        return int(self.control[_kernel().PLANS])

    def plan(self) -> Plan | None:
        """Return the best plan so far."""
        if math.isinf(self.value):
            return None
        return Plan(self.instance.arrays().origin_s + self.best.start * self.slot_s, self.best.gpu)


def _kernel() -> Any:
    """Return the module of compiled functions, imported at first use."""
    from . import bruteforce_kernel

    return bruteforce_kernel


def _prepare(instance: Instance, slot_s: float, *, bounds: bool, shifts: bool) -> _Search | None:
    """Return a walk that has not begun, or ``None`` if there is nothing to walk over."""
    view = instance.arrays()
    n, nodes, gpus = len(instance.jobs), len(view.node_type), len(view.gpu_node)
    if n > MOST_JOBS:
        raise _refuse(instance, f"has {n} jobs, more than {MOST_JOBS}")
    allowed = tables.allowed_types(instance)
    if not allowed.any(axis=1).all() or n == 0:
        return None
    counts = tables.count_choices(view, allowed)
    if sum(counts) > MOST_CHOICES:
        raise _refuse(instance, f"has {sum(counts):,} GPU sets for its jobs, more than {MOST_CHOICES:,}")
    cost = tables.prices(instance)
    table = tables.tables(instance, allowed, cost)
    window = tables.windows(instance, allowed, table, slot_s)
    plans = _count(window, counts)
    horizon = int(max(window.last_end.max(), window.earliest.max()))
    if horizon > MOST_SLOTS:
        raise _refuse(
            instance, f"has a horizon of {horizon:,} slots of {slot_s:g} s, more than {MOST_SLOTS:,}"
        )
    if plans == 0.0:
        return None
    if plans > MOST_PLANS:
        raise _refuse(
            instance,
            f"has about {plans:.0e} plans on slots of {slot_s:g} s, more than {MOST_PLANS:.0e}",
        )
    k = _kernel()
    listed = tables.choices(view, allowed)
    task = k.Task(
        slot_s=slot_s,
        earliest=window.earliest,
        latest=window.latest,
        wake_slot=window.wake_slot,
        deadline=np.array(view.deadline_s),
        twin=tables.twins(instance),
        partners=window.partners,
        several=(allowed & (view.gpus[:, None] > view.type_values[:, 0])).any(axis=1),
        first_choice=listed.first,
        choice_offset=listed.offset,
        choice_gpu=listed.gpu,
        least_epoch=table.least_epoch,
        least_second=table.least_second,
        least_sigma=table.least_sigma,
        least_run=tables.least_run(instance, allowed, table, slot_s),
        least_slots=window.least_slots,
        joule=cost.joule,
        job_second=cost.job_second,
        late_second=cost.late_second,
        bounds=bounds,
        shifts=shifts,
    )
    state, whole, real, flag = _packed(make_state(view))
    rows = n + 1

    def numbers(*shape: int, fill: int = 0) -> NDArray[np.int64]:
        return np.full(shape, fill, dtype=np.int64)

    frames = k.Frames(
        whole=numbers(rows, len(whole)),
        real=np.zeros((rows, len(real))),
        flag=np.zeros((rows, len(flag)), dtype=np.bool_),
        chain=numbers(rows, nodes, fill=-1),
        anchored=np.zeros((rows, n), dtype=np.bool_),
        gpu_set=numbers(rows, gpus),
        twin_gpu=numbers(rows, gpus, fill=-1),
        twin_node=numbers(rows, nodes, fill=-1),
        slot=numbers(rows),
        job=numbers(rows),
        choice=numbers(rows),
        placed=numbers(rows),
        spent=np.zeros(rows),
    )
    frames.whole[0], frames.real[0], frames.flag[0] = whole, real, flag
    frames.slot[0], frames.job[0] = -1, n  # the slot before the first has nothing left to try
    live = k.Live(
        whole=whole,
        real=real,
        flag=flag,
        chain=numbers(nodes, fill=-1),
        anchored=np.zeros(n, dtype=np.bool_),
        start=numbers(n),
        mark=numbers(gpus),
        hosted=numbers(gpus),
    )
    best = k.Best(value=np.array([np.inf]), start=numbers(n), gpu=numbers(int(view.gpu_offset[-1])))
    control = numbers(k.CONTROLS)
    arguments = (make_view(view), make_sets(view), state, task, frames, live, best, control)
    k.walk(*arguments, 0)  # compiles, at the first call ever, so that it is no part of the search's time
    return _Search(instance, slot_s, arguments, best, control)


def _packed(state: Any) -> tuple[Any, NDArray[np.int64], NDArray[np.float64], NDArray[np.bool_]]:
    """Return a copy of a state whose arrays lie one after the other in three buffers, and the buffers."""
    fields: dict[str, NDArray[Any]] = {}
    buffers = []
    for kind in (np.int64, np.float64, np.bool_):
        arrays = {name: array for name, array in state._asdict().items() if array.dtype == kind}
        buffer = np.concatenate([array.ravel() for array in arrays.values()])
        buffers.append(buffer)
        at = 0
        for name, array in arrays.items():
            fields[name] = buffer[at : at + array.size].reshape(array.shape)
            at += array.size
    return type(state)(**fields), buffers[0], buffers[1], buffers[2]


def _run(search: _Search, time_limit_s: float | None, progress: Progress | None) -> StopReason:
    """Walk to the end, or until time is up or somebody presses Ctrl-C."""
    k = _kernel()
    began = time.perf_counter()
    told = began
    try:
        while True:
            now = time.perf_counter()
            if time_limit_s is not None and now - began >= time_limit_s:
                return StopReason.TIME_LIMIT
            if progress is not None and now - told >= 0.2:
                told = now
                progress(now - began, search.value if math.isfinite(search.value) else None, None)
            if k.walk(*search.arguments, _STEPS_A_CALL):
                break
    except KeyboardInterrupt:
        return StopReason.INTERRUPTED
    failed = int(search.control[k.FAILED])
    if failed:
        name = search.instance.jobs[failed - 1].name
        raise RuntimeError(f"{METHOD}: job {name!r} could not be placed; this is an error of the project")
    return StopReason.FINISHED


def _confirm(instance: Instance, plan: Plan, grid_s: float, value: float) -> Evaluation:
    """Return what `evaluate` says of the best plan; it has to agree with the walk."""
    found = evaluate(instance, plan, grid_s=grid_s)
    if not found.feasible or abs(found.objective - value) > AGREEMENT * max(abs(value), abs(found.objective)):
        verdict = "feasible" if found.feasible else f"not feasible ({'; '.join(found.problems) or 'a limit'})"
        raise RuntimeError(
            f"{METHOD}: the walk found a plan of value {value!r}, evaluate {found.objective!r}, {verdict}; "
            "this is an error of the project; if the compiled physics was changed, delete __pycache__ and "
            "try again"
        )
    return found
