"""`evaluate`: what a plan or schedule costs, from the one implementation of physics.

Continuous time and grid (docs/model.md sections 2 and 5) are the same code; on a grid
departures are rounded up to the end of the slot.
"""

from __future__ import annotations

import math
import numbers
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .arrays import ArrayView
from .errors import ScheduleError
from .evaluation import EnergySplit, Evaluation, JobOutcomes
from .limits import ObjectiveForm
from .schedule import Plan, Schedule, ScheduleClass, Segment
from .sets import CANNOT_SHARE, NOT_EXCLUSIVE, TOO_MANY, TOO_MUCH_MEMORY, WIDTH

if TYPE_CHECKING:
    from .instance import Instance
    from .kernels.physics import Sets, State, View


def kernel() -> Any:
    """Return the module of compiled functions, imported at first use."""
    from .kernels import physics as compiled

    return compiled


def make_view(view: ArrayView) -> View:
    """Return the instance as the named tuple that compiled code reads; made once."""
    if view.compiled_view is None:
        view.compiled_view = _view(view)
    fixed: View = view.compiled_view
    return fixed


def _view(view: ArrayView) -> View:
    return kernel().View(  # type: ignore[no-any-return]
        release=view.release_s,
        epochs=view.epochs,
        job_class=view.job_class,
        offset=view.gpu_offset,
        util=view.util,
        cpu=view.cpu,
        tau=view.tau_s,
        node_type=view.node_type,
        first_gpu=view.first_gpu,
        gpu_node=view.gpu_node,
        types=view.type_values,
    )


def make_sets(view: ArrayView) -> Sets:
    """Return the table of sets as it stands; ask again after a set was added."""
    known = len(view.sets)
    if view.compiled_sets is None or view.compiled_sets[0] != known:
        view.compiled_sets = (known, _sets(view))
    sets: Sets = view.compiled_sets[1]
    return sets


def _sets(view: ArrayView) -> Sets:
    t = view.sets
    return kernel().Sets(  # type: ignore[no-any-return]
        size=t.count,
        kind_set=t.kind_set,
        members=t.members,
        without=t.without,
        sigma=t.sigma,
        load=t.load,
        dynamic=t.dynamic_w,
        measured=t.measured_w,
        physical=t.physical,
        threshold=t.threshold,
        u_need=t.u_need,
        hash_keys=t.hash_keys,
        hash_values=t.hash_values,
        classes=max(1, len(t.classes)),
    )


def make_state(view: ArrayView) -> State:
    """Return a state in which nothing runs and all nodes sleep."""
    k = kernel()
    j, n, m, held = len(view.epochs), len(view.node_type), len(view.gpu_node), int(view.gpu_offset[-1])
    # One allocation for each kind of number, cut up: `evaluate` makes a state a call.
    whole = np.zeros(m + m * WIDTH + held + 3 * j + 1 + 5 * n + k.COUNTERS, dtype=np.int64)
    real = np.zeros(9 * j + 9 * n + 12 + 4 * k.PROBLEM_ROOM + 1)
    a = m + m * WIDTH
    b = a + held
    c = b + 3 * j + 1
    d = 9 * j
    e = d + 9 * n
    stated = real[4 * j : 6 * j].reshape(j, 2)
    stated[:, k.S_END] = np.nan
    stated[:, k.S_DONE] = np.inf
    node_f = real[d:e].reshape(n, 9)
    node_f[:, [k.N_TIME, k.N_BEGIN, k.N_END]] = -np.inf
    return k.State(  # type: ignore[no-any-return]
        gpu_set=whole[:m],
        resident=whole[m:a].reshape(m, WIDTH),
        job_gpu=whole[a:b],
        progress=real[:j],
        speed=real[j : 2 * j],
        since=real[2 * j : 3 * j],
        began=real[3 * j : 4 * j],
        target=view.epochs.copy(),
        due=real[6 * j : 7 * j],
        stated=stated,
        running=np.zeros(j, dtype=np.bool_),
        jumps=real[7 * j : 8 * j],
        stamp=whole[b : b + j],
        heap=whole[b + j : b + 2 * j + 1],
        heap_at=whole[b + 2 * j + 1 : c],
        node_f=node_f,
        node_i=whole[c : c + 5 * n].reshape(n, 5),
        job_energy=real[8 * j : d],
        total=real[e : e + 12],
        counter=whole[c + 5 * n :],
        problem=real[e + 12 : -1].reshape(k.PROBLEM_ROOM, 4),
        peak_u=real[-1:],
    )


@dataclass(slots=True, eq=False)
class _Runs:
    """Segments as arrays, times since the origin; ends that are not stated are NaN, for physics to find."""

    job: NDArray[np.int64]
    start: NDArray[np.float64]
    end: NDArray[np.float64]
    offset: NDArray[np.int64]
    gpu: NDArray[np.int64]
    stated: bool


def _runs_of_plan(view: ArrayView, plan: Plan) -> _Runs:
    n = len(view.epochs)
    if plan.start_s.shape != (n,) or plan.gpus.shape != (int(view.gpu_offset[-1]),):
        raise ScheduleError(
            f"plan: arrays must have shapes ({n},) and ({int(view.gpu_offset[-1])},) for instance "
            f"{view.instance.name!r}, got {plan.start_s.shape} and {plan.gpus.shape}"
        )
    if not np.isfinite(plan.start_s).all():
        raise ScheduleError(
            "plan: start of job "
            f"{view.instance.jobs[int(np.argmin(np.isfinite(plan.start_s)))].name!r} is not finite"
        )
    return _Runs(
        np.arange(n),
        plan.start_s - view.origin_s,
        np.full(n, np.nan),
        view.gpu_offset,
        plan.gpus,
        False,
    )


def _runs_of_schedule(view: ArrayView, schedule: Schedule) -> _Runs:
    index = {job.name: i for i, job in enumerate(view.instance.jobs)}
    count = len(schedule.segments)
    job = np.empty(count, dtype=np.int64)
    per_job = np.zeros(len(index), dtype=np.int64)
    gpus: list[int] = []
    sizes = [0]
    first = view.first_gpu.tolist()
    for k, segment in enumerate(schedule.segments):
        i = index.get(segment.job, -1)
        if i < 0:
            raise ScheduleError(f"schedule: job {segment.job!r} is not in instance {view.instance.name!r}")
        job[k] = i
        per_job[i] += 1
        for node, gpu in segment.gpus:
            if node >= len(first) - 1 or gpu >= first[node + 1] - first[node]:
                view.gpu_number(f"schedule: job {segment.job!r}", (node, gpu))
            gpus.append(first[node] + gpu)
        if len(segment.gpus) != view.gpus[i]:
            raise ScheduleError(
                f"schedule: job {segment.job!r} asks for {view.gpus[i]} GPU(s), a segment of it names "
                f"{len(segment.gpus)}"
            )
        sizes.append(len(gpus))
    offset, numbers = np.array(sizes, dtype=np.int64), np.array(gpus, dtype=np.int64)
    for array in (offset, numbers):  # as in plans: the compiled code has one signature
        array.setflags(write=False)
    if len(index) and (not count or per_job.min() == 0):
        missing = view.instance.jobs[int(np.argmin(per_job))].name
        raise ScheduleError(f"schedule: job {missing!r} has no segment; a schedule runs every job")
    return _Runs(
        job,
        np.array([s.start_s for s in schedule.segments], dtype=np.float64) - view.origin_s,
        np.array([s.end_s for s in schedule.segments], dtype=np.float64) - view.origin_s,
        offset,
        numbers,
        True,
    )


def _check_layout(view: ArrayView, runs: _Runs) -> None:
    """Raise unless every run's GPUs exist, are distinct, and form a gang on a type the job may use."""
    gpu = runs.gpu
    if len(gpu) == 0:
        return
    bad = int(
        kernel().bad_layout(
            runs.job, runs.offset, gpu, view.gpu_node, view.first_gpu, view.node_type, view.tau_s
        )
    )
    if bad >= 0:
        run, problem = divmod(bad, 4)
        job = view.instance.jobs[int(runs.job[run])]
        text = (
            "its GPUs must be distinct and listed in ascending order",
            f"its {job.gpus} GPU(s) must lie on one node, or on whole nodes of one type plus a "
            "rest on one more",
            f"its profile {job.profile!r} has no epoch time for the GPU type it was placed on",
            f"its GPU numbers must lie in 0 to {len(view.gpu_node) - 1}",
        )[problem]
        raise ScheduleError(f"job {job.name!r}: {text}")


@dataclass(slots=True, eq=False)
class _Outcome:
    """Raw outcome of one run of the compiled code: state, outcomes by job (9, J), summary."""

    state: Any
    jobs: NDArray[np.float64]
    overrun: NDArray[np.float64]
    missing: NDArray[np.float64]
    early: NDArray[np.bool_]
    summary: NDArray[np.float64]


def _play(view: ArrayView, runs: _Runs, grid_s: float | None) -> _Outcome:
    k = kernel()
    n = len(view.epochs)
    slot = 0.0 if grid_s is None else grid_s
    start, end = runs.start, runs.end
    if grid_s is not None:
        start = _snap(view, runs, start, grid_s, "starts")
        if runs.stated:
            end = _snap(view, runs, end, grid_s, "ends")
    # Equal starts go by job; a schedule lists them by name, and names must change no value.
    order = np.lexsort((runs.job, start)) if runs.stated else np.argsort(start, kind="stable")
    state = make_state(view)
    fixed = make_view(view)
    table = np.zeros((9, n))
    table[0], table[1] = np.inf, -np.inf  # first start, last end
    overrun, missing = np.zeros((2, n))
    early = np.zeros(len(runs.job), dtype=np.bool_)
    sets = make_sets(view)
    while True:
        code = k.run(
            fixed,
            sets,
            state,
            order,
            runs.job,
            start,
            end,
            runs.offset,
            runs.gpu,
            table[0],
            table[1],
            table[2],
            overrun,
            missing,
            early,
            slot,
        )
        if code == k.OK:
            break
        if code == k.MISSING:
            view.sets.add(int(state.counter[k.MISS_SET]), int(state.counter[k.MISS_CLASS]))
            sets = make_sets(view)
        elif code == k.TOO_WIDE:
            raise ScheduleError(f"schedule: more than {WIDTH} jobs share a GPU, which is not supported")
        else:
            name = view.instance.jobs[int(runs.job[-1 - code])].name
            raise ScheduleError(f"schedule: two segments of job {name!r} overlap in time")
    summary = np.zeros(7)
    pue = view.instance.cluster.pue
    k.finish(fixed, state, view.deadline_s, view.origin_s, pue, table, overrun, missing, summary)
    return _Outcome(state, table, overrun, missing, early, summary)


def _snap(
    view: ArrayView, runs: _Runs, times: NDArray[np.float64], grid_s: float, what: str
) -> NDArray[np.float64]:
    """Return times as exact multiples of the slot; a time off the grid is an error."""
    number = np.round(times / grid_s)
    off = np.abs(times - number * grid_s) > 1e-6 + 1e-9 * np.abs(times)
    if off.any():
        run = int(np.argmax(off))
        name = view.instance.jobs[int(runs.job[run])].name
        raise ScheduleError(
            f"job {name!r}: {what} {float(times[run])!r} s after the earliest release, which is no "
            "boundary of slots of "
            f"{grid_s:g} s; grid physics needs times on the grid"
        )
    result: NDArray[np.float64] = number * grid_s
    return result


def _need_grid(grid_s: Any) -> None:
    real = isinstance(grid_s, numbers.Real) and not isinstance(grid_s, bool)
    if grid_s is not None and not (real and math.isfinite(grid_s) and grid_s > 0.0):
        raise ScheduleError(f"grid: the slot length must be a positive number of seconds, got {grid_s!r}")


def evaluate(instance: Instance, plan: Plan | Schedule, *, grid_s: float | None = None) -> Evaluation:
    """Work out cost, metrics and feasibility of a plan or schedule.

    Parameters
    ----------
    instance
        The problem.
    plan
        A plan (physics decides the ends) or a schedule (ends are stated and checked).
    grid_s
        Slot length [s] of grid physics (docs/model.md section 5); ``None`` is
        continuous time.

    Returns
    -------
    Evaluation
        With broken rules counted by class.

    Raises
    ------
    ScheduleError
        The plan does not fit the instance: a job is missing, unknown, placed on GPUs
        that do not exist or form no gang, on a GPU type it has no epoch time for, more
        than 8 jobs share a GPU, or a time is off the grid.
    """
    _need_grid(grid_s)
    if not isinstance(plan, (Plan, Schedule)):
        raise ScheduleError(
            f"evaluate: expected a Plan or a Schedule, got {type(plan).__name__}; "
            "Plan.of(instance, placements) makes a plan of placements by job name"
        )
    view = instance.arrays()
    runs = _runs_of_plan(view, plan) if isinstance(plan, Plan) else _runs_of_schedule(view, plan)
    _check_layout(view, runs)
    return _assess(instance, view, runs, _play(view, runs, grid_s), grid_s)


def plan_schedule(
    instance: Instance, plan: Plan, *, grid_s: float | None = None, method: str = "plan"
) -> Schedule:
    """Return the schedule that a plan leads to: one segment a job, ends from physics.

    Raises
    ------
    ScheduleError
        As `evaluate`.
    """
    _need_grid(grid_s)
    view = instance.arrays()
    runs = _runs_of_plan(view, plan)
    _check_layout(view, runs)
    out = _play(view, runs, grid_s)
    segments = [
        Segment(
            job=job.name,
            start_s=float(out.jobs[0, i]),
            end_s=float(out.jobs[1, i]),
            gpus=tuple(view.gpu_position(int(g)) for g in runs.gpu[runs.offset[i] : runs.offset[i + 1]]),
        )
        for i, job in enumerate(instance.jobs)
    ]
    return Schedule(segments=tuple(segments), schedule_class=ScheduleClass.STATIC, method=method)


def _assess(
    instance: Instance, view: ArrayView, runs: _Runs, out: _Outcome, grid_s: float | None
) -> Evaluation:
    k = kernel()
    pue = instance.cluster.pue
    plain: list[float] = out.state.total.tolist()
    energy = EnergySplit(
        server_j=plain[k.SERVER] * pue,
        gpu_standing_j=plain[k.STANDING] * pue,
        gpu_dynamic_j=plain[k.DYNAMIC] * pue,
        sleep_j=plain[k.SLEEP_J] * pue,
        wake_j=plain[k.WAKE_J] * pue,
    )
    energy_j = energy.total_j
    makespan, avg_tpe, mean_jtt, mean_jct, misses, short, over = out.summary.tolist()
    e0, t0, j0 = view.reference()
    counter: list[int] = out.state.counter.tolist()
    physical = counter[k.PHYSICAL] + counter[k.WAKE_BAD] + int(short) + int(over)
    above = counter[k.THRESHOLD]
    active_j = plain[k.SERVER] + plain[k.STANDING] + plain[k.DYNAMIC]
    jobs = out.jobs
    return Evaluation(
        energy=energy,
        energy_j=energy_j,
        avg_tpe_s=avg_tpe,
        objective=objective_value(instance, energy_j, avg_tpe, mean_jtt),
        reference_energy_j=e0,
        reference_tpe_s=t0,
        reference_jtt_s=j0,
        jobs=JobOutcomes(
            start_s=jobs[k.O_START],
            end_s=jobs[k.O_END],
            running_s=jobs[k.O_RUNNING],
            wait_s=jobs[k.O_WAIT],
            jtt_s=jobs[k.O_JTT],
            tpe_s=jobs[k.O_TPE],
            energy_j=jobs[k.O_ENERGY],
            lateness_s=jobs[k.O_LATENESS],
            missed=jobs[k.O_MISSED] > 0.0,
        ),
        mean_jct_s=mean_jct,
        mean_wait_s=mean_jtt - mean_jct,
        mean_jtt_s=mean_jtt,
        makespan_s=makespan,
        deadline_misses=int(misses),
        physical_violations=physical,
        threshold_violations=above,
        threshold_excess=_excess(view, out) if above else 0.0,
        threshold_excess_gpu_s=plain[k.THRESHOLD_S],
        node_s=plain[k.NODE_S],
        mean_active_nodes=_ratio(plain[k.NODE_S], makespan),
        peak_active_nodes=counter[k.PEAK],
        load_active_gpus=_ratio(plain[k.LOAD_S], plain[k.GPU_S]),
        load_all_gpus=_ratio(plain[k.LOAD_S], makespan * len(view.gpu_node)),
        modelled_energy_share=min(1.0, _ratio(plain[k.MODELLED_SETS], active_j)),
        modelled_power_share=min(1.0, _ratio(plain[k.MODELLED_POWER], active_j)),
        grid_s=grid_s,
        problems=_problems(instance, view, out, runs) if physical else (),
    )


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole > 0.0 else 0.0


def _excess(view: ArrayView, out: _Outcome) -> float:
    return max(0.0, float(out.state.peak_u[0]) - view.instance.limits.u_threshold)


def objective_value(instance: Instance, energy_j: float, avg_tpe_s: float, mean_jtt_s: float) -> float:
    """Return the objective (docs/model.md section 3) of energy [J], AvgTPE [s] and mean JTT [s]."""
    if not instance.jobs:
        return 0.0
    o = instance.objective
    if o.form is ObjectiveForm.RAW:
        return (
            o.alpha * energy_j / 3.6e6
            + (1.0 - o.alpha) * avg_tpe_s / 3600.0
            + o.jtt_weight * mean_jtt_s / 3600.0
        )
    e0, t0, j0 = instance.arrays().reference()
    if t0 <= 0.0:  # some job fits no node type: there is no exclusive execution to compare with
        return math.inf
    energy = o.alpha * energy_j / e0 if o.alpha > 0.0 and e0 > 0.0 else 0.0
    return energy + (1.0 - o.alpha) * avg_tpe_s / t0 + o.jtt_weight * mean_jtt_s / j0


_BITS = (
    (TOO_MANY, "more jobs than max_share on a GPU"),
    (TOO_MUCH_MEMORY, "memory above mem_threshold"),
    (NOT_EXCLUSIVE, "an exclusive job shares a GPU"),
    (CANNOT_SHARE, "two jobs that cannot share do"),
)


def _problems(
    instance: Instance,
    view: ArrayView,
    out: _Outcome,
    runs: _Runs,
) -> tuple[str, ...]:
    k = kernel()
    names = [job.name for job in instance.jobs]
    tolerance = 1e-6 + 1e-9 * np.abs(out.jobs[k.O_END] - view.origin_s)
    short, over = out.missing > 0.0, out.overrun > tolerance
    texts: list[str] = []
    for t, j, gpu, bits in out.state.problem[: int(out.state.counter[k.PROBLEMS])]:
        node, number = view.gpu_position(int(gpu))
        what = "; ".join(text for bit, text in _BITS if int(bits) & bit)
        texts.append(
            f"job {names[int(j)]!r} on {instance.cluster.nodes[node].name}/{number} at "
            f"{t + view.origin_s:g} s: {what}"
        )
    texts += [
        f"job {names[int(runs.job[i])]!r} starts before its release" for i in np.flatnonzero(out.early)[:5]
    ]
    texts += [
        f"job {names[i]!r} ends {out.missing[i]:g} epochs short of its {view.epochs[i]:g}"
        for i in np.flatnonzero(short)[:5]
    ]
    texts += [
        f"job {names[i]!r} holds its GPUs {out.overrun[i]:g} s after it has finished"
        for i in np.flatnonzero(over)[:5]
    ]
    if out.state.counter[k.WAKE_BAD]:
        texts.append(f"{int(out.state.counter[k.WAKE_BAD])} node(s) start work before they can have woken up")
    return tuple(texts)
