"""From the columns of any trace to an instance: selection, mapping, releases, deadlines, accounts.

The order of the steps is part of the meaning of the options (docs/instances.md):

1. rows that the reader refused;
2. rows of other virtual clusters, states and sizes, then rows outside the window;
3. sorting by submit time, ties by line;
4. jobs larger than the cluster (clipped or dropped; under ``refuse`` they stay for now);
5. running times: rows without one are refused, long ones cut; own deadlines that are too tight;
6. a sample of the rows that are left, then the first ``jobs`` of those; under ``refuse`` an error if one of
   them is too large;
7. mapping, and thinning or compressing to a load;
8. releases, deadlines.

Random draws belong to the rows of the file, not to those taken: another window or limit leaves the slack and
the model of a row as they were.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from eaco_opt.cluster import Cluster
from eaco_opt.errors import DomainError, ImpossibleJobsError, TraceError, UnknownNameError
from eaco_opt.instance import Instance, MeasuredUsage
from eaco_opt.interference import Interference
from eaco_opt.io import profiles_to_json
from eaco_opt.job import Job
from eaco_opt.profile import Profile
from eaco_opt.profile_set import ProfileSet

from . import paper
from .clusters import describe_cluster, largest_job, resolve_cluster, smallest_gpu_memory_gib
from .draws import between, pick, uniforms
from .mapping import ProfileMapping
from .readers.columns import REFUSED, REPAIRED, RowNote, TraceColumns
from .readers.localtime import to_posix_s, to_utc_text
from .readers.native import ProfileMaker, Workload, epochs_of, native_assumptions
from .readers.options import (
    DEFAULT_NODES,
    ImportOptions,
    JobMapping,
    LoadBy,
    Release,
    TightDeadlines,
    TooLarge,
)
from .readers.report import TraceImport
from .readers.text import read_bytes, shown
from .workloads import paper_workload

if TYPE_CHECKING:
    from .readers import Reader

MAX_DURATION_S = 1e10
"""Longest running time that is believed (317 years) [s]."""

TIGHT = 1e-9
"""An own deadline that falls short of the running time by a share up to this is not too tight."""

LISTED_IN_METADATA = 1000
"""Most jobs that the metadata names as dropped or clipped; the report names all."""


def _window_s(field: str, value: float | str, columns: TraceColumns, first_s: float) -> float:
    """Return an end of the window in the trace's own seconds."""
    if not isinstance(value, str):
        return first_s + float(value)
    if columns.time_zone is None:
        raise DomainError(
            f"import: {field} must be seconds from the first submit, for {columns.name} has no calendar; got "
            f"{value!r}"
        )
    try:
        return to_posix_s(value, columns.time_zone)[0]
    except ValueError:
        raise DomainError(
            f"import: {field} must be seconds from the first submit or an ISO date such as 2017-10-09 or "
            f"2017-10-09T07:00, got {value!r}"
        ) from None


class _Accounts:
    """Notes on rows, and which rows are still in."""

    def __init__(self, columns: TraceColumns) -> None:
        self.columns = columns
        self.alive: NDArray[np.bool_] = np.ones(len(columns.line), dtype=np.bool_)
        self.refused: list[RowNote] = [n for n in columns.notes if n.action == REFUSED]
        self.repaired: dict[int, list[RowNote]] = {}
        for note in columns.notes:
            if note.action == REPAIRED:
                self.repaired.setdefault(note.line, []).append(note)

    def _note(self, row: int, action: str, reason: str, text: str) -> RowNote:
        line = int(self.columns.line[row])
        return RowNote(file=self.columns.file, line=line, action=action, reason=reason, text=text)

    def refuse(self, row: int, reason: str, text: str) -> None:
        self.alive[row] = False
        self.refused.append(self._note(row, REFUSED, reason, text))

    def repair(self, row: int, reason: str, text: str) -> None:
        self.repaired.setdefault(int(self.columns.line[row]), []).append(
            self._note(row, REPAIRED, reason, text)
        )

    def close(self, taken: list[int]) -> tuple[dict[str, int], dict[str, int], tuple[RowNote, ...]]:
        """Return the counts of repairs (of rows taken) and refusals, and all notes by line."""
        repairs = [n for row in taken for n in self.repaired.get(int(self.columns.line[row]), ())]
        notes = sorted([*repairs, *self.refused], key=lambda n: (n.line, n.action, n.reason))
        repaired = Counter(n.reason for n in repairs)
        refused = Counter(n.reason for n in self.refused)
        return dict(sorted(repaired.items())), dict(sorted(refused.items())), tuple(notes)


def _select(accounts: _Accounts, options: ImportOptions) -> None:
    """Refuse rows of other virtual clusters and rows outside the window."""
    columns = accounts.columns
    if options.vc is not None:
        if not columns.vc:
            raise DomainError(
                f"import: vc must be left out, for {columns.name} names no virtual clusters; got "
                f"{options.vc!r}"
            )
        known = sorted(set(columns.vc))
        if options.vc not in known:
            more = f" and {len(known) - 30} more" if len(known) > 30 else ""
            names = ", ".join(shown(n)[1:-1] for n in known[:30])
            raise UnknownNameError(
                f"import: unknown virtual cluster {options.vc!r} in {columns.name}; known are: {names}{more}"
            )
        for row, name in enumerate(columns.vc):
            if name != options.vc:
                accounts.refuse(row, "other-vc", f"belongs to virtual cluster {shown(name)}")
    if options.states is not None:
        if not columns.state:
            raise DomainError(
                f"import: states must be left out, for {columns.name} does not say how its jobs ended; got "
                f"{', '.join(options.states)}"
            )
        ends = sorted(set(columns.state))
        for word in options.states:
            if word not in ends:
                raise UnknownNameError(
                    f"import: unknown state {word!r} in {columns.name}; known are: "
                    f"{', '.join(shown(n)[1:-1] for n in ends[:30])}"
                )
        for row, name in enumerate(columns.state):
            if accounts.alive[row] and name not in options.states:
                accounts.refuse(row, "other-state", f"ended in state {shown(name)}")
    if options.gpus is not None:
        least, most = options.gpus
        other = accounts.alive & ((columns.gpus < least) | (columns.gpus > most))
        for row in np.flatnonzero(other).tolist():
            text = f"asks for {int(columns.gpus[row])} GPUs, {least} to {most} are taken"
            accounts.refuse(row, "outside-sizes", text)
    if not len(columns.line):
        return
    first_s = float(columns.submit_s.min())
    low = (
        -math.inf
        if options.time_from is None
        else _window_s("time_from", options.time_from, columns, first_s)
    )
    high = math.inf if options.time_to is None else _window_s("time_to", options.time_to, columns, first_s)
    if not low < high:
        raise DomainError(
            f"import: time_from must be before time_to, got {options.time_from!r} and {options.time_to!r}"
        )
    outside = accounts.alive & ((columns.submit_s < low) | (columns.submit_s >= high))
    for row in np.flatnonzero(outside).tolist():
        accounts.refuse(row, "outside-window", "submitted outside the window [from, to)")


def _fit(accounts: _Accounts, order: list[int], largest: int, options: ImportOptions) -> NDArray[np.int64]:
    """Return the GPUs that rows get, after clipping or dropping those too large."""
    gpus = accounts.columns.gpus.copy()
    for row in order:
        asked = int(gpus[row])
        if asked <= largest:
            continue
        if options.too_large is TooLarge.CLIP:
            gpus[row] = largest
            accounts.repair(
                row, "clipped-gpus", f"asks for {asked} GPUs, gets the {largest} that one job can have"
            )
        elif options.too_large is TooLarge.DROP:
            accounts.refuse(row, "too-large", f"asks for {asked} GPUs, one job can have {largest}")
    return gpus


def _durations(
    accounts: _Accounts, order: list[int], workload: Workload, options: ImportOptions
) -> NDArray[np.float64]:
    """Return (N, W) running times, long ones cut; refuses rows without one."""
    durations = workload.duration_s.copy()
    references = _references_s(durations)
    limit = options.max_duration_s
    for row in order:
        if not accounts.alive[row]:
            continue
        reference = references[row]
        if math.isnan(reference):
            accounts.refuse(row, workload.unknown_reason, workload.unknown_text(row))
        elif not 0.0 < reference <= MAX_DURATION_S:
            accounts.refuse(
                row,
                "bad-duration",
                f"running time must be above 0 and at most {MAX_DURATION_S:g} s, got {reference:g} s",
            )
        elif limit is not None and reference > limit:
            exact = durations[row] == reference
            durations[row] *= limit / reference
            durations[row, exact] = limit
            accounts.repair(row, "clipped-duration", f"runs {reference:g} s, cut to {limit:g} s")
    return durations


def _own_slack(accounts: _Accounts, order: list[int], options: ImportOptions) -> NDArray[np.float64]:
    """Return (N,) own deadlines as multiples of the running time, NaN without one.

    Those below 1, which even a job alone would miss, are kept, stretched to 1, or their rows refused.
    """
    columns = accounts.columns
    if not (options.own_deadlines and len(columns.deadline_slack)):
        return np.full(len(columns.line), np.nan)
    slack = columns.deadline_slack.copy()
    if options.tight_deadlines is TightDeadlines.KEEP:
        return slack
    for row in order:
        if accounts.alive[row] and slack[row] < 1.0 - TIGHT:
            what = f"deadline is {slack[row]:.4g} times the running time after release"
            if options.tight_deadlines is TightDeadlines.DROP:
                accounts.refuse(row, "impossible-deadline", what)
            else:
                accounts.repair(row, "stretched-deadline", f"{what}, made 1")
                slack[row] = 1.0
    return slack


def _references_s(durations: NDArray[np.float64]) -> list[float]:
    """Return the first known running time [s] of each row of (N, W) ones, NaN without one."""
    first = np.argmax(~np.isnan(durations), axis=1)
    found: list[float] = durations[np.arange(len(durations)), first].tolist()
    return found


def _row_name(columns: TraceColumns, row: int) -> str:
    return f"line{int(columns.line[row])}"


def _refuse_too_large(columns: TraceColumns, taken: list[int], largest: int, cluster: Cluster) -> None:
    large = [row for row in taken if int(columns.gpus[row]) > largest]
    if large:
        raise ImpossibleJobsError(
            [
                (
                    _row_name(columns, row),
                    f"asks for {int(columns.gpus[row])} GPUs, one job can have {largest} in "
                    f"{describe_cluster(cluster)} ({columns.name}, line {int(columns.line[row])}; "
                    "--too-large drop or clip, too_large from Python, takes the others)",
                )
                for row in large
            ]
        )


def _file_digest(path: object) -> str:
    return hashlib.sha256(read_bytes(str(path))).hexdigest()


def _call(reader: str, options: ImportOptions, cluster: Cluster) -> str:
    """Return the call as JSON for the metadata; files by name and digest, never by path."""
    out: dict[str, object] = {
        "reader": reader,
        "cluster": describe_cluster(cluster),
        "jobs": options.jobs,
        "from": options.time_from,
        "to": options.time_to,
        "vc": options.vc,
        "mapping": options.mapping.value,
        "slack": None if options.slack is None else list(options.slack),
        "own_deadlines": options.own_deadlines,
        "tight_deadlines": options.tight_deadlines.value,
        "too_large": options.too_large.value,
        "release": options.release.value,
        "max_duration_s": options.max_duration_s,
        "seed": options.seed,
    }
    if options.throughputs is not None:
        name = re.split(r"[/\\]", str(options.throughputs))[-1]
        out["throughputs"] = {"name": name, "sha256": _file_digest(options.throughputs)}
    if isinstance(options.profiles, ProfileSet):
        text = profiles_to_json(options.profiles)
        out["profiles"] = {"name": None, "sha256": hashlib.sha256(text.encode()).hexdigest()}
    elif options.profiles is not None:
        name = re.split(r"[/\\]", str(options.profiles))[-1]
        out["profiles"] = {"name": name, "sha256": _file_digest(options.profiles)}
    if options.states is not None:
        out["states"] = list(options.states)
    if options.gpus is not None:
        out["gpus"] = list(options.gpus)
    if options.sample is not None:
        out["sample"] = options.sample
    if options.load is not None:
        out["load"], out["load_by"] = options.load, options.load_by.value
    if options.columns is not None:
        out["columns"] = dict(sorted(options.columns.items()))
    if reader == "csv":
        out["time_unit"], out["time_zone"] = options.time_unit, options.time_zone
    if options.mix is not None:
        out["mix"] = {k: float(x) for k, x in sorted(options.mix.items())}
    return json.dumps(out, sort_keys=True)


def _listed(names: list[str]) -> str:
    more = len(names) - LISTED_IN_METADATA
    return ", ".join(names[:LISTED_IN_METADATA]) + (f" and {more} more" if more > 0 else "")


def _mapped(
    columns: TraceColumns,
    taken: list[int],
    durations: NDArray[np.float64],
    workload: Workload,
    options: ImportOptions,
    cluster: Cluster,
    gpus: NDArray[np.int64],
    measured: ProfileMapping | None,
) -> tuple[
    list[tuple[str, int, float]], tuple[Profile, ...], tuple[MeasuredUsage, ...], Interference, dict[str, str]
]:
    """Return (profile, epochs, exclusive seconds) of each row taken, and the parts of the instance."""
    runs: list[tuple[str, int, float]] = []
    references = _references_s(durations)
    if measured is not None:
        draws = uniforms(options.seed, "model", len(columns.line))
        for row in taken:
            name, tau = measured.draw(float(draws[row]), int(gpus[row]))
            epochs = epochs_of(references[row], tau)
            runs.append((name, epochs, epochs * tau))
        parts = measured.parts([name for name, _, _ in runs])
        return runs, parts.profiles, parts.usage, parts.truth, measured.assumptions()
    if options.mapping is JobMapping.PAPER_CNN:
        four = paper_workload("import with mapping 'paper-cnn'", cluster)
        models = pick(uniforms(options.seed, "model", len(columns.line)), [1.0] * len(paper.MODELS))
        for row in taken:
            model = paper.MODELS[int(models[row])]
            tau = four.epoch_time_s[model]
            epochs = epochs_of(references[row], tau)
            runs.append((model, epochs, epochs * tau))
        assumptions = {
            **four.assumptions,
            "assumption.mapping": (
                "each job is one of the paper's four models, drawn evenly with the seed, with max(1, "
                "running time / epoch time, rounded) epochs"
            ),
        }
        return runs, four.profiles, four.usage, four.truth, assumptions
    memory_gib = smallest_gpu_memory_gib(cluster)
    maker = ProfileMaker(workload, memory_gib)
    whole = _references_s(workload.duration_s)
    for row in taken:
        epochs = (
            epochs_of(references[row])
            if workload.epochs is None
            else epochs_of(workload.epochs[row] * references[row] / whole[row], 1.0)
        )
        taus = tuple(x / epochs for x in durations[row].tolist())
        runs.append((maker.profile(workload.kind[row], taus), epochs, references[row]))
    kinds = {workload.kind[row] for row in taken}
    assumptions = {**native_assumptions(memory_gib), **workload.assumptions}
    return runs, maker.profiles(), (), workload.truth(kinds), assumptions


def _sampled(accounts: _Accounts, left: list[int], options: ImportOptions) -> list[int]:
    """Return a sample of rows, in their order: those whose draws are the least."""
    if options.sample is None or options.sample >= len(left):
        return left
    draws = uniforms(options.seed, "sample", len(accounts.columns.line))
    chosen = set(sorted(left, key=lambda row: (draws[row], row))[: options.sample])
    text = f"not among the {options.sample} rows drawn"
    for row in left:
        if row not in chosen:
            accounts.refuse(row, "not-sampled", text)
    return [row for row in left if row in chosen]


def _load_of(columns: TraceColumns, rows: list[int], work_gpu_s: list[float], cluster: Cluster) -> float:
    """Return the offered load of rows in order of submission: work over GPUs times the time they span."""
    span_s = float(columns.submit_s[rows[-1]] - columns.submit_s[rows[0]])
    if span_s <= 0.0:
        raise DomainError(
            f"import: load must be left out, for all rows taken of {columns.name} are submitted at once"
        )
    return math.fsum(work_gpu_s) / (cluster.total_gpus() * span_s)


def _thinned(
    accounts: _Accounts, rows: list[int], work_gpu_s: list[float], load: float, has: float, seed: int
) -> list[int]:
    """Return the rows that are left when the load is brought down to a target, in their order.

    Rows are kept in the order of their draws as long as that brings the load nearer.
    """
    if load > has * (1.0 + 1e-9):
        raise DomainError(
            f"import: load {load:g} cannot be reached by leaving jobs out: the rows taken have {has:.6g}. "
            "Give load_by 'compress', a smaller cluster, or a wider selection"
        )
    draws = uniforms(seed, "thin", len(accounts.columns.line))
    order = sorted(range(len(rows)), key=lambda i: (draws[rows[i]], rows[i]))
    total = np.cumsum([work_gpu_s[i] for i in order]) / math.fsum(work_gpu_s) * has
    keep = set(order[: 1 + int(np.argmin(np.abs(total - load)))])
    text = f"left out to bring the load from {has:.4g} to {load:g}"
    for i, row in enumerate(rows):
        if i not in keep:
            accounts.refuse(row, "thinned", text)
    return [row for i, row in enumerate(rows) if i in keep]


def _measured(options: ImportOptions, cluster: Cluster) -> ProfileMapping | None:
    """Return the measured workloads that jobs are mapped to, ``None`` with another mapping."""
    if options.mapping is not JobMapping.PROFILES or options.profiles is None:
        return None
    held = options.profiles
    if not isinstance(held, ProfileSet):
        from .measurements import read_measurements

        held = read_measurements(held).profiles
    return ProfileMapping(held, options.mix, cluster)


def _refuse_unmeasured(
    accounts: _Accounts, order: list[int], gpus: NDArray[np.int64], measured: ProfileMapping, largest: int
) -> None:
    """Refuse rows for whose number of GPUs no workload was measured; too large ones are told of as such."""
    for row in order:
        count = int(gpus[row])
        if accounts.alive[row] and count <= largest and not measured.can_run(count):
            accounts.refuse(row, "no-profile", f"no measured workload has an epoch time for {count} GPUs")


def _deadlines_s(
    columns: TraceColumns,
    taken: list[int],
    releases: list[float],
    exclusive: list[float],
    own: NDArray[np.float64],
    options: ImportOptions,
) -> list[float]:
    """Return release + slack * exclusive time, rounded up to whole ms; infinity without slack."""
    slack = np.full(len(columns.line), np.inf)
    if options.slack is not None:
        slack = between(uniforms(options.seed, "slack", len(columns.line)), *options.slack)
    slack = np.where(np.isnan(own), slack, own)
    out: list[float] = []
    for row, release, time in zip(taken, releases, exclusive, strict=True):
        exact = release + float(slack[row]) * time
        # Upwards, so that slack 1 leaves the job exactly its exclusive time.
        out.append(exact if math.isinf(exact) else max(math.ceil(exact * 1000.0) / 1000.0, exact))
    return out


def build(reader_name: str, reader: Reader, columns: TraceColumns, options: ImportOptions) -> TraceImport:
    """Return the instance of a trace's columns, and the accounts of its rows.

    Parameters
    ----------
    reader_name
        What messages and metadata call the reader.
    reader
        Gives the workload of the rows.
    columns
        Its rows.
    options
        What to take and how.

    Raises
    ------
    TraceError
        No row was taken.
    ImpossibleJobsError
        Jobs are too large and ``options.too_large`` is ``refuse``.
    DomainError
        An option does not fit the trace or the cluster.
    """
    nodes = DEFAULT_NODES if options.nodes is None and options.cluster is None else options.nodes
    cluster = resolve_cluster(
        "import",
        nodes=nodes,
        gpus_per_node=options.gpus_per_node,
        cluster=options.cluster,
        lookup=options.mapping is not JobMapping.PROFILES,
    )
    measured = _measured(options, cluster)
    accounts = _Accounts(columns)
    _select(accounts, options)
    order = [int(i) for i in np.lexsort((columns.line, columns.submit_s)) if accounts.alive[i]]

    workload = reader.workload(columns, columns.gpus, options, cluster)
    usable = (paper.GPU_TYPE,) if options.mapping is JobMapping.PAPER_CNN else workload.gpu_types
    if measured is not None:
        usable = measured.gpu_types
    largest = largest_job(cluster, usable)
    if largest == 0:
        raise DomainError(
            f"import: running times of {columns.name} are known for GPU type {', '.join(map(repr, usable))}, "
            f"the cluster has {describe_cluster(cluster)}; give a cluster with such GPUs"
        )
    gpus = _fit(accounts, order, largest, options)
    if options.too_large is TooLarge.CLIP and not np.array_equal(gpus, columns.gpus):
        workload = reader.workload(columns, gpus, options, cluster)
    durations = _durations(accounts, order, workload, options)
    if measured is not None:
        _refuse_unmeasured(accounts, order, gpus, measured, largest)
    own = _own_slack(accounts, order, options)

    left = [row for row in order if accounts.alive[row]]
    left = _sampled(accounts, left, options)
    taken = left if options.jobs is None else left[: options.jobs]
    text = f"comes after the first {options.jobs} usable rows"
    for row in left[len(taken) :]:
        accounts.refuse(row, "beyond-job-limit", text)
    if options.too_large is TooLarge.REFUSE:
        _refuse_too_large(columns, taken, largest, cluster)
    mapped = (durations, workload, options, cluster, gpus, measured)
    pace = 1.0
    said_load: dict[str, str] = {}
    if options.load is not None and taken:
        before = _mapped(columns, taken, *mapped)[0]
        work = [run[2] * int(gpus[row]) for run, row in zip(before, taken, strict=True)]
        has = _load_of(columns, taken, work, cluster)
        if options.load_by is LoadBy.THIN:
            taken = _thinned(accounts, taken, work, options.load, has, options.seed)
            how = "jobs left out at random"
        else:
            pace = has / options.load
            how = f"times between submissions multiplied by {pace:.6g}"
        said_load["assumption.load"] = f"{how}: offered load {has:.6g} before, brought to {options.load:g}"
    repaired, refused, notes = accounts.close(taken)
    if not taken:
        counts = ", ".join(f"{n} {reason}" for reason, n in refused.items()) or "none"
        example = f"; the first: line {notes[0].line}: {notes[0].text}" if notes else ""
        raise TraceError(
            f"{columns.file}: no row was taken; read {columns.read}, refused: {counts}{example}; widen the "
            "selection or check that the reader fits the file"
        )

    runs, profiles, usage, truth, assumptions = _mapped(columns, taken, *mapped)
    first_s = float(columns.submit_s[taken[0]])
    releases = [
        0.0 if options.release is Release.ZERO else round(pace * (float(columns.submit_s[row]) - first_s), 6)
        for row in taken
    ]
    deadlines = _deadlines_s(columns, taken, releases, [r[2] for r in runs], own, options)
    priorities = columns.priority if len(columns.priority) else np.zeros(len(columns.line), dtype=np.int64)
    jobs = tuple(
        Job(
            name=_row_name(columns, row),
            profile=profile,
            gpus=int(gpus[row]),
            epochs=epochs,
            release_s=release,
            deadline_s=deadline,
            priority=int(priorities[row]),
            submit_index=place,
        )
        for place, (row, (profile, epochs, _), release, deadline) in enumerate(
            zip(taken, runs, releases, deadlines, strict=True)
        )
    )
    metadata: Mapping[str, str] = {
        "source": f"trace {columns.name}, reader {reader_name}",
        "trace.name": columns.name,
        "trace.sha256": columns.sha256,
        "trace.variant": columns.variant,
        "trace.first_submit": (
            to_utc_text(first_s)
            if columns.time_zone is not None
            else f"{first_s:g} s in the trace's own time"
        ),
        "import.call": _call(reader_name, options, cluster),
        "import.read": str(columns.read),
        "import.taken": str(len(taken)),
        "import.refused": json.dumps(refused),
        "import.repaired": json.dumps(repaired),
        "import.tight_deadlines": str(int(np.sum(own[taken] < 1.0 - TIGHT))),
        "import.dropped": _listed([f"line{n.line}" for n in notes if n.reason == "too-large"]),
        "import.clipped": _listed([f"line{n.line}" for n in notes if n.reason == "clipped-gpus"]),
        "assumption.releases": (
            "all 0, in the order of the trace"
            if options.release is Release.ZERO
            else "submit times of the trace, shifted so that the first job taken has 0"
        ),
        "assumption.deadline": (
            "infinite"
            if options.slack is None
            else "release + slack * exclusive running time, rounded up to whole ms, slack uniform in "
            f"[{options.slack[0]:g}, {options.slack[1]:g}]"
        )
        + (", unless the trace gives one" if options.own_deadlines and len(columns.deadline_slack) else ""),
        **said_load,
        **columns.assumptions,
        **assumptions,
    }
    instance = Instance(
        name=options.name or _instance_name(columns, reader_name),
        jobs=jobs,
        profiles=profiles,
        cluster=cluster,
        usage=usage,
        truth=truth,
        limits=options.limits,
        objective=options.objective,
        metadata=tuple(metadata.items()),
    )
    return TraceImport(
        instance=instance,
        read=columns.read,
        taken=len(taken),
        repaired=repaired,
        refused=refused,
        details=notes,
    )


def _instance_name(columns: TraceColumns, reader_name: str) -> str:
    """Return a printable name from the file's."""
    stem = shown(columns.name)[1:-1].strip()
    return f"{reader_name} {stem}".strip()
