"""Gavel's job traces (Narayanan et al., OSDI 2020), 7, 10 or 12 tab-separated columns.

The formats are told apart by the number of columns:

7 (``traces/msr``)
    job type, command, steps argument, needs data (0/1), total steps, arrival [s], GPUs.
10 (Gavel's generator)
    job type, command, working directory, steps argument, needs data, total steps, GPUs, priority, SLO,
    arrival [s].
12 (Shockwave's generator)
    as 10 with mode after GPUs and duration [s] after SLO.

Running times are not in the trace: they are steps over the throughput measured alone for the model and GPU
count (``throughputs``, both mappings). Rows without such a measurement are refused and counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from collections.abc import Set as AbstractSet

import numpy as np
from numpy.typing import NDArray

from eaco_opt.cluster import Cluster
from eaco_opt.errors import DomainError, TraceError
from eaco_opt.interference import Interference, MeasuredSlowdown

from ..clusters import gpu_types
from .columns import REFUSED, REPAIRED, RowNote, TraceColumns
from .native import Workload
from .options import ImportOptions
from .text import TraceText, is_utf8, real, shown, whole
from .throughputs import Key, Throughputs, read_throughputs

LAYOUTS: Mapping[int, Mapping[str, int]] = {
    7: {"model": 0, "steps": 4, "arrival": 5, "gpus": 6},
    10: {"model": 0, "steps": 5, "gpus": 6, "priority": 7, "slo": 8, "arrival": 9},
    12: {"model": 0, "steps": 5, "gpus": 6, "priority": 8, "slo": 9, "arrival": 11},
}
"""Positions of the columns that are read, by number of columns."""

TAB = "\t"
EXPECTED = "7, 10 or 12 tab-separated columns"

UTILISATION: Mapping[str, float] = {
    "A3C": 0.83,
    "CycleGAN": 1.0,
    "LM (batch size 5)": 0.78,
    "LM (batch size 10)": 0.67,
    "LM (batch size 20)": 0.69,
    "LM (batch size 40)": 0.71,
    "LM (batch size 80)": 0.76,
    "Recommendation (batch size 512)": 1.0,
    "Recommendation (batch size 1024)": 1.0,
    "Recommendation (batch size 2048)": 1.0,
    "Recommendation (batch size 4096)": 0.78,
    "Recommendation (batch size 8192)": 1.0,
    "ResNet-18 (batch size 16)": 0.27,
    "ResNet-18 (batch size 32)": 0.44,
    "ResNet-18 (batch size 64)": 0.53,
    "ResNet-18 (batch size 128)": 0.54,
    "ResNet-18 (batch size 256)": 0.81,
    "ResNet-50 (batch size 16)": 1.0,
    "ResNet-50 (batch size 32)": 1.0,
    "ResNet-50 (batch size 64)": 1.0,
    "ResNet-50 (batch size 128)": 1.0,
    "Transformer (batch size 16)": 0.79,
    "Transformer (batch size 32)": 0.79,
    "Transformer (batch size 64)": 0.82,
    "Transformer (batch size 128)": 0.76,
    "Transformer (batch size 256)": 0.96,
}
"""Mean GPU utilisation of Gavel's models on one V100, fraction. Gavel did not measure it: the figures are
:func:`fit_utilisation` of its V100 pair throughputs (stanford-futuredata/gavel, MIT), the shares of GPU time
that explain its pairs best when jobs simply take turns. The same on 2, 4 and 8 GPUs."""

UTILISATION_CAP = 0.9
"""No model is given more: one above U_threshold (0.9 by default) could not even run alone."""

UNKNOWN_UTILISATION = 0.52
"""Of models that are not in :data:`UTILISATION`: the mean GPU utilisation of the Philly cluster (Jeon et al.,
USENIX ATC 2019)."""

MAX_MODEL_CHARACTERS = 200


def kind_of(key: Key) -> str:
    """Return the kind of a (model, GPU count), e.g. ``ResNet-18 (batch size 16) x1``."""
    return f"{key[0]} x{key[1]}"


def utilisation_of(model: str) -> float:
    """Return the mean GPU utilisation that is assumed of a model, fraction."""
    return min(UTILISATION_CAP, UTILISATION.get(model, UNKNOWN_UTILISATION))


def fit_utilisation(table: Throughputs) -> dict[str, float]:
    """Fit the utilisation of each model measured on one GPU to the slowdowns of its pairs.

    Jobs that take turns on a GPU slow down by max(1, u_a + u_b) (slowdown model ``additive``). The fit
    minimises the squares of the difference of the logarithms over all measured members of pairs, with every u
    in [0.02, 1].

    Parameters
    ----------
    table
        Throughputs of one GPU type.

    Returns
    -------
    dict
        Utilisation by model, rounded to two digits.
    """
    from scipy.optimize import least_squares

    models = sorted(model for model, gpus in table.alone if gpus == 1)
    place = {model: i for i, model in enumerate(models)}
    rows: list[tuple[int, int, float]] = []
    for (a, b), (steps_a, steps_b) in sorted(table.pairs.items()):
        if a[1] == b[1] == 1 and steps_a > 0.0 and steps_b > 0.0 and a in table.alone and b in table.alone:
            i, j = place[a[0]], place[b[0]]
            rows.append((i, j, float(np.log(table.alone[a] / steps_a))))
            if i != j:
                rows.append((j, i, float(np.log(table.alone[b] / steps_b))))
    if not rows:
        raise DomainError("fit of utilisation: expected pairs measured on one GPU each, got none")
    left = np.array([r[0] for r in rows])
    right = np.array([r[1] for r in rows])
    wanted = np.array([r[2] for r in rows])

    def residuals(u: NDArray[np.float64]) -> NDArray[np.float64]:
        out: NDArray[np.float64] = np.log(np.maximum(1.0, u[left] + u[right])) - wanted
        return out

    found = least_squares(residuals, np.full(len(models), 0.5), bounds=(0.02, 1.0))
    return {model: round(float(u), 2) for model, u in zip(models, found.x, strict=True)}


class Gavel:
    """Gavel's job traces of 7, 10 or 12 tab-separated columns; running times from measured throughputs."""

    SAMPLE = (
        "ResNet-18 (batch size 16)\tpython3 main.py\t-n\t1\t24000\t0.000000\t1\n"
        "LM (batch size 5)\tpython3 main.py\t-n\t1\t60000\t30.5\t1\n"
    )

    def __init__(self) -> None:
        self._tables: dict[str, Throughputs] | None = None

    def read(self, text: TraceText) -> TraceColumns:
        """Return the columns of a trace.

        The layout is that of most rows; rows of another width are refused.

        Raises
        ------
        TraceError
            No row has 7, 10 or 12 tab-separated columns.
        """
        widths: Counter[int] = Counter()
        first = ""
        for number, line in text.rows():
            width = line.count(TAB) + 1
            widths[width] += 1
            if not first:
                first = (
                    f"{text.file}:{number}: expected {EXPECTED} (a Gavel trace), got {width}: {shown(line)}"
                )
        if not first:
            raise TraceError(f"{text.file}: expected rows of {EXPECTED}, got no row")
        known = [(widths[w], -w) for w in LAYOUTS if widths[w]]
        if not known:
            raise TraceError(first)
        width = -max(known)[1]
        at = LAYOUTS[width]
        notes: list[RowNote] = []
        out: dict[str, list[float]] = {k: [] for k in ("line", "arrival", "gpus", "steps", "priority", "slo")}
        models: list[str] = []

        def note(number: int, action: str, reason: str, what: str) -> None:
            notes.append(RowNote(file=text.file, line=number, action=action, reason=reason, text=what))

        for number, line in text.rows():
            cells = line.split(TAB)
            if len(cells) != width:
                note(number, REFUSED, "wrong-column-count", f"expected {width} columns, got {len(cells)}")
                continue
            if not is_utf8(line):
                note(number, REFUSED, "not-utf-8", "expected text in UTF-8, got other bytes")
                continue
            model = cells[at["model"]].strip()
            if not model or not model.isprintable() or len(model) > MAX_MODEL_CHARACTERS:
                note(number, REFUSED, "bad-model", f"expected the name of a model, got {shown(model)}")
                continue
            steps = whole(cells[at["steps"]])
            if steps is None or steps < 1:
                what = f"total steps must be a whole number >= 1, got {shown(cells[at['steps']])}"
                note(number, REFUSED, "bad-steps", what)
                continue
            arrival = real(cells[at["arrival"]])
            if arrival is None or abs(arrival) > 1e12:
                what = f"arrival must be a number of seconds, got {shown(cells[at['arrival']])}"
                note(number, REFUSED, "bad-arrival", what)
                continue
            gpus = whole(cells[at["gpus"]])
            if gpus is None or not 1 <= gpus <= 1_000_000:
                what = f"GPUs must be a whole number from 1 to 1000000, got {shown(cells[at['gpus']])}"
                note(number, REFUSED, "bad-gpus", what)
                continue
            priority, slo = 0, float("nan")
            if "priority" in at:
                weight, factor = real(cells[at["priority"]]), real(cells[at["slo"]])
                if weight is None or abs(weight) > 1e9:
                    what = f"priority must be a number, got {shown(cells[at['priority']])}"
                    note(number, REFUSED, "bad-priority", what)
                    continue
                if factor is None:
                    what = f"SLO must be a number, got {shown(cells[at['slo']])}"
                    note(number, REFUSED, "bad-slo", what)
                    continue
                priority = round(weight)
                if priority != weight:
                    note(number, REPAIRED, "rounded-priority", f"priority {weight:g} read as {priority}")
                slo = factor if factor > 0.0 else float("nan")
            models.append(model)
            for field, value in (
                ("line", number),
                ("arrival", arrival),
                ("gpus", gpus),
                ("steps", steps),
                ("priority", priority),
                ("slo", slo),
            ):
                out[field].append(value)
        wide = width > 7
        return TraceColumns(
            file=text.file,
            name=text.name,
            sha256=text.sha256,
            variant=f"gavel, {width} columns",
            read=widths.total(),
            line=np.array(out["line"], dtype=np.int64),
            submit_s=np.array(out["arrival"], dtype=np.float64),
            gpus=np.array(out["gpus"], dtype=np.int64),
            duration_s=np.full(len(models), np.nan),
            model=tuple(models),
            steps=np.array(out["steps"], dtype=np.int64),
            priority=np.array(out["priority"] if wide else [], dtype=np.int64),
            deadline_slack=np.array(out["slo"] if wide else [], dtype=np.float64),
            notes=tuple(notes),
            assumptions=(
                {
                    "assumption.slo": (
                        "a positive SLO is the deadline as a multiple of the running time, counted from "
                        "release, as in Gavel; others have none"
                    ),
                    "assumption.priority": "Gavel's priority weight, rounded, orders queues",
                }
                if wide
                else {}
            ),
        )

    def workload(
        self, columns: TraceColumns, gpus: NDArray[np.int64], options: ImportOptions, cluster: Cluster
    ) -> Workload:
        """Return running times (steps over throughput alone) and pair slowdowns; see the base protocol.

        Raises
        ------
        DomainError
            No table of throughputs was given, or it knows none of the cluster's GPU types.
        TraceError
            The table cannot be read.
        """
        if options.throughputs is None:
            raise DomainError(
                "reader 'gavel': throughputs is missing: a Gavel trace holds steps, and running times come "
                "from measured throughputs; give Gavel's simulation_throughputs.json or its CSV form "
                "(--throughputs FILE)"
            )
        if self._tables is None:
            self._tables = read_throughputs(options.throughputs)
        present = gpu_types(cluster)
        types = tuple(t for t in present if t.lower() in self._tables)
        if not types:
            raise DomainError(
                "reader 'gavel': the table of throughputs holds GPU types "
                f"{', '.join(sorted(self._tables))}, the cluster has {', '.join(present)}; give a cluster "
                "with one of the former"
            )
        # The reference: V100 where there are some, for its pairs are the best measured.
        types = tuple(sorted(types, key=lambda t: (t.lower() != "v100", present.index(t))))
        keys: list[Key] = list(zip(columns.model, gpus.tolist(), strict=True))
        durations = np.full((len(keys), len(types)), np.nan)
        for w, gpu_type in enumerate(types):
            alone = self._tables[gpu_type.lower()].alone
            rates = np.array([alone.get(key, np.nan) for key in keys], dtype=np.float64)
            durations[:, w] = columns.steps / rates
        durations[np.isnan(durations[:, 0])] = np.nan  # unknown on the reference: refused
        reference = self._tables[types[0].lower()]
        used = {kind_of(key): key for key in keys}
        unknown = sorted({key[0] for key in keys if key[0] not in UTILISATION})

        def unknown_text(row: int) -> str:
            model, count = keys[row]
            return f"no throughput of {shown(model)} on {count} {types[0]} GPU(s) was measured"

        def truth(kinds: AbstractSet[str]) -> Interference:
            return pair_interference(reference, {kind: used[kind] for kind in kinds})

        return Workload(
            gpu_types=types,
            duration_s=durations,
            kind=[kind_of(key) for key in keys],
            utilisation={kind: utilisation_of(key[0]) for kind, key in used.items()},
            truth=truth,
            unknown_reason="no-throughput",
            unknown_text=unknown_text,
            assumptions={
                "assumption.duration": f"total steps / throughput measured alone on {', '.join(types)}",
                "assumption.utilisation": (
                    "GPU utilisation by model fitted to Gavel's V100 pair throughputs, at most "
                    f"{UTILISATION_CAP:g}; not measured"
                    + (f"; {UNKNOWN_UTILISATION:g} for {', '.join(unknown)}" if unknown else "")
                ),
                "assumption.slowdown": (
                    f"pairs measured on {types[0]}: throughput alone over together for each side; a 0 cannot "
                    "share; pairs of different GPU counts and larger sets are modelled (sum of "
                    f"utilisations, at least that of every measured pair); {reference.conflicts} pair(s) "
                    "measured twice with different numbers, the slower taken"
                ),
            },
        )


def pair_interference(table: Throughputs, kinds: Mapping[str, Key]) -> Interference:
    """Return the slowdowns of kinds from the pairs of a table.

    Parameters
    ----------
    table
        Throughputs of one GPU type.
    kinds
        (model, GPU count) by kind; only their pairs are taken.

    Returns
    -------
    Interference
        Factor = throughput alone / together for each side; pairs with a 0 cannot share; all other sets by the
        model ``additive``, clamped.
    """
    names = {key: kind for kind, key in kinds.items()}
    measured: list[MeasuredSlowdown] = []
    cannot: list[tuple[str, str]] = []
    for (a, b), (steps_a, steps_b) in sorted(table.pairs.items()):
        if a not in names or b not in names or a not in table.alone or b not in table.alone:
            continue
        if steps_a == 0.0 or steps_b == 0.0:
            cannot.append((names[a], names[b]))
        else:
            factors = (table.alone[a] / steps_a, table.alone[b] / steps_b)
            measured.append(MeasuredSlowdown(kinds=(names[a], names[b]), factors=factors))
    return Interference(measured=tuple(measured), cannot_share=tuple(cannot), model="additive")
