"""The four models, the tables and the calibration of the EaCO paper.

Source of every figure: K. Haghshenas and M. Hashemi, "EaCO: Resource Sharing Dynamics and Its Impact on
Energy Efficiency for DNN Training", arXiv 2412.08294 (v1, December 2024): one server with 8 NVIDIA V100 and
2 Intel Xeon Gold 6240, four models trained on ImageNet for about 90 epochs, alone and in six sets. The tables
lie in ``instances/data`` (columns and units: the README there); docs/calibration.md shows the fits' errors.

Map of the module
-----------------
- the tables: :func:`exclusive_rows`, :func:`shared_rows`, :func:`claims`
- parts of an instance: :func:`profiles`, :func:`usage`, :func:`interference`, :func:`power_model`,
  :func:`node_type`
- the fits behind them: :func:`choose_exponent`, :func:`fit_slowdown`, :func:`fit_power`; their errors by row:
  :func:`slowdown_errors`, :func:`power_errors`
- what the tables cannot identify: the constants under "Assumptions"

Measured sets are looked up; the fits serve all others (docs/model.md sections 1 and 2).
"""

from __future__ import annotations

import csv
import dataclasses
import math
import numbers
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from functools import cache
from importlib import resources
from typing import Any

import numpy as np

from eaco_opt.cluster import NodeType
from eaco_opt.errors import DomainError, FormatError
from eaco_opt.instance import MeasuredUsage
from eaco_opt.interference import Interference, KindDemand, MeasuredSlowdown
from eaco_opt.power import GpuPower, MeasuredPower, PowerModel, ServerPower
from eaco_opt.profile import EpochTime, Profile
from eaco_opt.slowdown import Crowding

MODELS = ("AlexNet", "ResNet-18", "ResNet-50", "VGG-16")
"""The models behind the paper's J1, J2, J3 and J4."""

MODEL_OF = {f"J{i}": model for i, model in enumerate(MODELS, 1)}
"""Model by the paper's name of the job."""

GPU_TYPE = "V100"
"""Name of the only GPU type that the profiles have an epoch time for."""

EPOCHS = 90
"""Epochs of each measured job: JCT over epoch time in Table 1 gives about 90 (ImageNet's usual number)."""

NODE_GPUS = 8
"""GPUs of the measured server; measured powers hold for such nodes only."""

# ----------------------------------------------------------------------------------------------------
# Assumptions: what the tables do not identify. The defaults stand here and nowhere else, most are parameters
# of the functions below; docs/calibration.md shows their effect.

GPU_MEMORY_GIB = 32.0
"""Memory of a GPU [GiB]. The V100 was sold with 16 and with 32 GiB, the paper does not say which it had. Its
tables give shares of the capacity, so nothing in a schedule of these models depends on the choice."""

CPU_UTILISATION = (
    (("J4",), "0.066"),
    (("J1", "J4"), "0.124"),
    (("J1", "J2", "J4"), "0.188"),
    (("J1", "J2", "J3", "J4"), "0.245"),
)
"""Mean CPU utilisation of the node that the paper's section 3 gives for one, two, three and four jobs; the
sets are those whose mean GPU utilisation it names beside. Each set adds one model, which gives the four
models' CPU shares by differences, on the assumption that they add up."""

STANDING_W = 400.0
"""Power of the active node with nothing running [W]: server and 8 GPUs. The measured rows leave it open: any
value from 0 to about 470 W can be fitted within 5 % on each row. 400 W is 8 idle GPUs and 160 W of server."""

GPU_STANDING_W = 30.0
"""Power of an idle V100 [W]: the figure of the PWR scheduling plug-in (V100: idle 30 W, full 300 W)."""

SERVER_DYNAMIC_W = 210.0
"""What the server draws at CPU utilisation 1 above utilisation 0 [W]: 70 % of the thermal design power of its
2 x Intel Xeon Gold 6240, 150 W each (Intel's data sheet). Barroso and Hoelzle ("The Case for
Energy-Proportional Computing", IEEE Computer 40(12), 2007) put the dynamic range of server processors at
about 70 % of their peak."""

SERVER_EXPONENT = 1.4
"""The r of ``2u - u**r``: Fan, Weber and Barroso (ISCA 2007)."""

# ----------------------------------------------------------------------------------------------------
# How the exponent of the load in the slowdown model is chosen. Six rows narrow it down and do not fix it:
# the sum of squares is flat from 4 upwards, and the choice moves as single rows are left out.

SLOWDOWN_EXPONENTS = tuple(range(1, 9))
"""Exponents that :func:`choose_exponent` compares."""

SLOWDOWN_MARGIN = 0.05
"""How far above the least sum of squares a smaller exponent may lie and still be preferred, relative."""

# ----------------------------------------------------------------------------------------------------
# Chosen and fitted constants. choose_exponent(), fit_slowdown() and fit_power() give the same to the digits
# written; tests hold them to it.

SLOWDOWN_EXPONENT = 4.0
SLOWDOWN_BASE = 0.0348
SLOWDOWN_SLOPE = 0.0459
NODE_DYNAMIC_W = 1496.73
GPU_EXPONENT = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Utilisation:
    """A row of Table 2 or 4, as fractions: nvidia-smi's memory and GPU-core columns.

    Attributes
    ----------
    memory_mean, memory_peak
        Mean and peak of the memory column, read as a share of capacity.
    gpu_mean, gpu_peak
        Mean and peak share of time in which at least one kernel runs.
    """

    memory_mean: Decimal
    memory_peak: Decimal
    gpu_mean: Decimal
    gpu_peak: Decimal


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperRow:
    """Rows of Tables 1 and 2, or 3 and 4, of one set of jobs; numbers are the decimals printed.

    Attributes
    ----------
    jobs
        The paper's names, e.g. ``("J1", "J4")``.
    power_w
        Mean power of the node [W].
    energy_kwh
        Total energy [kWh].
    jct_h
        JCT, for a set the mean over its jobs [h].
    epoch_h
        Mean epoch time [h], ``None`` where the table has none.
    utilisation
        Of the node's GPUs.
    """

    jobs: tuple[str, ...]
    power_w: Decimal
    energy_kwh: Decimal
    jct_h: Decimal
    epoch_h: Decimal | None
    utilisation: Utilisation

    @property
    def job_set(self) -> str:
        """The set in the paper's writing, e.g. ``J1+J4``."""
        return "+".join(self.jobs)

    @property
    def kinds(self) -> tuple[str, ...]:
        """The models of the set, in the order of ``jobs``."""
        return tuple(MODEL_OF[job] for job in self.jobs)


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A number that the paper's text claims.

    Attributes
    ----------
    id
        ``c01`` ...
    where
        Section and figure.
    claim
        What is claimed, in our words.
    values
        The numbers; several where one claim holds several.
    text
        The numbers as the paper's text arranges them.
    unit
        Unit of the numbers.
    """

    id: str
    where: str
    claim: str
    values: tuple[Decimal, ...]
    text: str
    unit: str


def _read(name: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield (place, row) of a shipped table."""
    with resources.files("instances.data").joinpath(name).open(encoding="utf-8") as file:
        reader = csv.DictReader(file, strict=True)
        for row in reader:
            place = f"{name}:{reader.line_num}"
            if None in row or None in row.values():
                raise FormatError(
                    f"{place}: expected {len(reader.fieldnames or ())} columns; restore the shipped file"
                )
            yield place, row


def _number(place: str, row: dict[str, str], column: str) -> Decimal:
    try:
        value = Decimal(row[column])
    except KeyError:
        raise FormatError(f"{place}: no column {column!r}; restore the shipped file") from None
    except InvalidOperation:
        raise FormatError(f"{place}: column {column!r} must be a number, got {row[column]!r}") from None
    if not value.is_finite() or value < 0:
        raise FormatError(f"{place}: column {column!r} must be finite and not negative, got {row[column]!r}")
    return value


def _table(power: str, utilisation: str, key: str) -> tuple[PaperRow, ...]:
    shares: dict[str, Utilisation] = {}
    for place, row in _read(utilisation):
        get = {
            field: _number(place, row, f"{column}_util_pct") / 100
            for field, column in (
                ("memory_mean", "avg_mem"),
                ("memory_peak", "max_mem"),
                ("gpu_mean", "avg_gpu"),
                ("gpu_peak", "max_gpu"),
            )
        }
        shares[row[key]] = Utilisation(**get)
    out: list[PaperRow] = []
    jct = "jct_h" if key == "job" else "avg_jct_h"
    for place, row in _read(power):
        jobs = tuple(row[key].split("+"))
        if row[key] not in shares or not set(jobs) <= set(MODEL_OF):
            raise FormatError(f"{place}: {row[key]!r} has no row in {utilisation}, or names an unknown job")
        out.append(
            PaperRow(
                jobs=jobs,
                power_w=_number(place, row, "avg_power_w"),
                energy_kwh=_number(place, row, "total_energy_kwh"),
                jct_h=_number(place, row, jct),
                epoch_h=_number(place, row, "avg_epoch_h") if row["avg_epoch_h"] else None,
                utilisation=shares[row[key]],
            )
        )
    return tuple(out)


@cache
def exclusive_rows() -> tuple[PaperRow, ...]:
    """Return Tables 1 and 2: each of the four models alone on the node."""
    return _table("table1_exclusive.csv", "table2_exclusive_utilisation.csv", "job")


@cache
def shared_rows() -> tuple[PaperRow, ...]:
    """Return Tables 3 and 4: the six sets that shared the node."""
    return _table("table3_colocated.csv", "table4_colocated_utilisation.csv", "job_set")


@cache
def claims() -> tuple[Claim, ...]:
    """Return every number that the paper's text claims."""
    out: list[Claim] = []
    for place, row in _read("claims.csv"):
        try:
            parts = row["value"].replace(" to ", " / ").split(" / ")
            values = tuple(Decimal(part) for part in parts)
        except InvalidOperation:
            raise FormatError(f"{place}: column 'value' must hold numbers, got {row['value']!r}") from None
        out.append(
            Claim(
                id=row["id"],
                where=row["where"],
                claim=row["claim"],
                values=values,
                text=row["value"],
                unit=row["unit"],
            )
        )
    return tuple(out)


@cache
def cpu_shares() -> dict[str, Decimal]:
    """Return the models' CPU shares of a node, the differences of :data:`CPU_UTILISATION`."""
    out: dict[str, Decimal] = {}
    before: tuple[tuple[str, ...], Decimal] = ((), Decimal(0))
    for jobs, text in CPU_UTILISATION:
        (added,) = set(jobs) - set(before[0])
        out[MODEL_OF[added]] = Decimal(text) - before[1]
        before = (jobs, Decimal(text))
    return {model: out[model] for model in MODELS}


def _gib(share: Decimal, gpu_memory_gib: float) -> float:
    # In decimals, so that 51.29 % of 32 GiB is 16.4128 GiB and not its neighbour.
    return float(share * Decimal(repr(float(gpu_memory_gib))))


def profiles(*, gpu_memory_gib: float = GPU_MEMORY_GIB) -> tuple[Profile, ...]:
    """Return the four models (Tables 1 and 2).

    The epoch time is JCT / 90, the same for any number of V100s: a job on fewer GPUs is a smaller run.

    Parameters
    ----------
    gpu_memory_gib
        Capacity that the memory columns are shares of [GiB].
    """
    return tuple(
        Profile(
            name=MODEL_OF[row.jobs[0]],
            epoch_times=(EpochTime(gpu_type=GPU_TYPE, epoch_time_s=float(row.jct_h * 3600 / EPOCHS)),),
            gpu_util_mean=float(row.utilisation.gpu_mean),
            gpu_util_peak=float(row.utilisation.gpu_peak),
            gpu_memory_mean_gib=_gib(row.utilisation.memory_mean, gpu_memory_gib),
            gpu_memory_peak_gib=_gib(row.utilisation.memory_peak, gpu_memory_gib),
            cpu_share=float(cpu_shares()[MODEL_OF[row.jobs[0]]]),
        )
        for row in exclusive_rows()
    )


def usage(*, gpu_memory_gib: float = GPU_MEMORY_GIB) -> tuple[MeasuredUsage, ...]:
    """Return load (mean GPU utilisation) and peak memory of the six measured sets (Table 4)."""
    return tuple(
        MeasuredUsage(
            kinds=row.kinds,
            load=float(row.utilisation.gpu_mean),
            memory_gib=_gib(row.utilisation.memory_peak, gpu_memory_gib),
        )
        for row in shared_rows()
    )


def _demands(kinds: Sequence[str]) -> list[KindDemand]:
    known = {
        p.kind: KindDemand(
            kind=p.kind,
            gpu_util_mean=p.gpu_util_mean,
            gpu_util_peak=p.gpu_util_peak,
            gpu_memory_mean_gib=p.gpu_memory_mean_gib,
            gpu_memory_peak_gib=p.gpu_memory_peak_gib,
            cpu_share=p.cpu_share,
        )
        for p in profiles()
    }
    return [known[kind] for kind in kinds]


def measured_slowdown(row: PaperRow) -> float:
    """Return the slowdown of a measured set: its mean JCT over the mean of its members' JCTs alone."""
    alone = {r.jobs[0]: r.jct_h for r in exclusive_rows()}
    return float(row.jct_h * len(row.jobs) / sum(alone[job] for job in row.jobs))


def interference() -> Interference:
    """Return the slowdowns: six sets measured, all others by the fitted model, clamped between them."""
    return Interference(
        measured=tuple(
            MeasuredSlowdown(kinds=row.kinds, factors=(measured_slowdown(row),) * len(row.kinds))
            for row in shared_rows()
        ),
        model="crowding",
        params=(("base", SLOWDOWN_BASE), ("exponent", SLOWDOWN_EXPONENT), ("slope", SLOWDOWN_SLOPE)),
        clamp=True,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowdownFit:
    """Parameters of the ``crowding`` model that fit measured sets best.

    Attributes
    ----------
    base, slope, exponent
        Parameters of :class:`eaco_opt.slowdown.Crowding`.
    """

    base: float
    slope: float
    exponent: float


def _modelled(fit: SlowdownFit, rows: Sequence[PaperRow]) -> list[float]:
    """Return the modelled factor of each set."""
    model = Crowding(dataclasses.asdict(fit))
    return [model.factors(_demands(row.kinds))[0] for row in rows]


def _sum_of_squares(fit: SlowdownFit, rows: Sequence[PaperRow]) -> float:
    """Return the sum of squared relative errors of the factor."""
    pairs = zip(_modelled(fit, rows), rows, strict=True)
    return math.fsum((model / measured_slowdown(row) - 1.0) ** 2 for model, row in pairs)


def fit_slowdown(
    rows: Sequence[PaperRow] | None = None, *, exponent: float = SLOWDOWN_EXPONENT
) -> SlowdownFit:
    """Fit base and slope of the ``crowding`` model: least squares of the relative error of the factor.

    Parameters
    ----------
    rows
        Measured sets, at least two; all six by default.
    exponent
        Held fixed; :func:`choose_exponent` chooses one.

    Raises
    ------
    DomainError
        There are fewer than two sets, or the exponent is negative or not finite.
    """
    used = shared_rows() if rows is None else tuple(rows)
    if len(used) < 2:
        raise DomainError(
            f"fit of the slowdown: two parameters need at least two measured sets, got {len(used)}"
        )
    wanted = np.array([measured_slowdown(row) for row in used])
    members = [_demands(row.kinds) for row in used]

    def residuals(x: Any) -> Any:
        model = Crowding({"base": float(x[0]), "slope": float(x[1]), "exponent": exponent})
        return np.array([model.factors(m)[0] for m in members]) / wanted - 1.0

    from scipy.optimize import least_squares

    found = least_squares(residuals, [0.02, 0.06], bounds=(0.0, np.inf), xtol=1e-14, ftol=1e-14, gtol=1e-14)
    return SlowdownFit(base=float(found.x[0]), slope=float(found.x[1]), exponent=exponent)


def choose_exponent(rows: Sequence[PaperRow] | None = None) -> float:
    """Choose the exponent of the ``crowding`` model: the smallest that fits about as well as the best.

    Base and slope are fitted for each of :data:`SLOWDOWN_EXPONENTS`. Of those whose sum of squared relative
    errors is at most 1 + :data:`SLOWDOWN_MARGIN` times the least one, the smallest is taken: the gentlest
    extrapolation that the sets allow.

    Parameters
    ----------
    rows
        Measured sets, at least three; all six by default.

    Raises
    ------
    DomainError
        There are fewer than three sets.
    """
    used = shared_rows() if rows is None else tuple(rows)
    if len(used) < 3:
        raise DomainError(
            f"exponent of the slowdown: three parameters need at least three measured sets, got {len(used)}"
        )
    sums = {e: _sum_of_squares(fit_slowdown(used, exponent=float(e)), used) for e in SLOWDOWN_EXPONENTS}
    # Below 1e-20 a sum is rounding: all such fits are exact and equally good.
    limit = max((1.0 + SLOWDOWN_MARGIN) * min(sums.values()), 1e-20)
    return float(min(e for e, total in sums.items() if total <= limit))


def slowdown_errors(fit: SlowdownFit | None = None) -> dict[str, tuple[float, float]]:
    """Return (measured, modelled) factor of each measured set, without look-up.

    Parameters
    ----------
    fit
        Parameters; the stored ones by default.
    """
    used = fit or SlowdownFit(base=SLOWDOWN_BASE, slope=SLOWDOWN_SLOPE, exponent=SLOWDOWN_EXPONENT)
    rows = shared_rows()
    return {
        row.job_set: (measured_slowdown(row), model)
        for row, model in zip(rows, _modelled(used, rows), strict=True)
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerFit:
    """Node power ``standing_w + server_dynamic_w * (2c - c**r) + node_dynamic_w * u**gpu_exponent``.

    c is the CPU utilisation of the node, r is :data:`SERVER_EXPONENT`, u the mean GPU utilisation.

    Attributes
    ----------
    standing_w
        Node with nothing running [W]; given.
    server_dynamic_w
        CPU's range [W]; given.
    node_dynamic_w
        All 8 GPUs at load 1, above standing [W]; fitted.
    gpu_exponent
        In (0, 1]; fitted.
    """

    standing_w: float
    server_dynamic_w: float
    node_dynamic_w: float
    gpu_exponent: float


def _node_rows() -> tuple[PaperRow, ...]:
    return exclusive_rows() + shared_rows()


def _load(kinds: tuple[str, ...]) -> float:
    """Return the load of a set (docs/model.md section 1)."""
    measured = {tuple(sorted(row.kinds)): float(row.utilisation.gpu_mean) for row in _node_rows()}
    key = tuple(sorted(kinds))
    if key in measured:
        return measured[key]
    total = sum(measured[(kind,)] for kind in key)
    return min([total, *(load for big, load in measured.items() if not Counter(key) - Counter(big))])


def _server_dynamic_w(kinds: tuple[str, ...], server_dynamic_w: float) -> float:
    cpu = float(sum(cpu_shares()[kind] for kind in kinds))
    return ServerPower(idle_w=0.0, busy_w=server_dynamic_w, exponent=SERVER_EXPONENT).power_w(cpu)


def _run(row: PaperRow) -> list[tuple[float, tuple[str, ...]]]:
    """Return the phases (hours, kinds) of a set whose jobs start together and end one by one."""
    alone = {r.kinds[0]: float(r.jct_h) for r in exclusive_rows()}
    slowdown = interference()
    demands = {d.kind: d for d in _demands(MODELS)}
    left = sorted(row.kinds, key=alone.__getitem__)
    done_h = 0.0  # what has been done of each job so far, in hours of running alone
    out = []
    while left:
        factor = slowdown.factors(left, demands)[left[0]]  # the same for all of a set
        out.append(((alone[left[0]] - done_h) * factor, tuple(left)))
        done_h = alone[left.pop(0)]
    return out


def fit_power(*, standing_w: float = STANDING_W, server_dynamic_w: float = SERVER_DYNAMIC_W) -> PowerFit:
    """Fit the dynamic power of the GPUs, so that the largest relative error is as small as can be.

    The errors are those of the power of the ten measured rows, and of the energy of the five sets of two and
    three jobs when they are run (mean power times mean JCT is not quite what a set draws until its last job
    ends). The four-job set's energy is left out: the table contradicts itself there.

    Parameters
    ----------
    standing_w
        Power of the active node with nothing running [W], below each measured power.
    server_dynamic_w
        What the server draws at CPU utilisation 1 above utilisation 0 [W].

    Raises
    ------
    DomainError
        A value is negative or not finite, or the standing power is not below each measured power.

    Notes
    -----
    With the exponent held, each error is ``f_i + b * g_i`` with ``g_i > 0``, b being the dynamic power; the
    least ``max |f_i + b * g_i|`` over b is ``max over i, k of (f_k g_i - f_i g_k) / (g_i + g_k)``. The
    exponent is the best of 0.001, 0.002, ..., 1.
    """
    _power_given(standing_w, server_dynamic_w)
    runs = [([(1.0, row.kinds)], float(row.power_w)) for row in _node_rows()]
    runs += [(_run(row), float(row.energy_kwh) * 1000.0) for row in shared_rows() if len(row.jobs) < 4]
    phases = [(i, hours / wanted, kinds) for i, (parts, wanted) in enumerate(runs) for hours, kinds in parts]
    given = np.full(len(runs), -1.0)
    for i, weight, kinds in phases:
        given[i] += weight * (standing_w + _server_dynamic_w(kinds, server_dynamic_w))
    loads = [(i, weight, _load(kinds)) for i, weight, kinds in phases]
    best = (math.inf, 0.0, 1.0)
    for thousandth in range(1, 1001):
        exponent = thousandth / 1000.0
        per_watt = np.zeros(len(runs))
        for i, weight, load in loads:
            per_watt[i] += weight * load**exponent
        worst = float(
            np.max((np.outer(per_watt, given) - np.outer(given, per_watt)) / np.add.outer(per_watt, per_watt))
        )
        if worst < best[0]:
            best = (worst, float(np.max((-worst - given) / per_watt)), exponent)
    return PowerFit(
        standing_w=float(standing_w),
        server_dynamic_w=float(server_dynamic_w),
        node_dynamic_w=max(0.0, best[1]),
        gpu_exponent=best[2],
    )


def _node_w(kinds: tuple[str, ...], fit: PowerFit) -> float:
    dynamic_w = fit.node_dynamic_w * math.pow(_load(kinds), fit.gpu_exponent)
    return fit.standing_w + _server_dynamic_w(kinds, fit.server_dynamic_w) + dynamic_w


def _power_given(standing_w: float, server_dynamic_w: float) -> None:
    for field, value in (("standing_w", standing_w), ("server_dynamic_w", server_dynamic_w)):
        _not_negative(field, value)
    least = min(_node_rows(), key=lambda row: row.power_w)
    if standing_w >= least.power_w:
        raise DomainError(
            f"power of the paper's node: standing_w must be below the least measured power, "
            f"{least.power_w} W of {least.job_set}, got {standing_w:g} W"
        )


def _power_fit(standing_w: float, server_dynamic_w: float) -> PowerFit:
    """Return the stored fit for the default assumptions, a fresh one for others."""
    if (standing_w, server_dynamic_w) == (STANDING_W, SERVER_DYNAMIC_W):
        return PowerFit(
            standing_w=STANDING_W,
            server_dynamic_w=SERVER_DYNAMIC_W,
            node_dynamic_w=NODE_DYNAMIC_W,
            gpu_exponent=GPU_EXPONENT,
        )
    return fit_power(standing_w=standing_w, server_dynamic_w=server_dynamic_w)


def power_errors(
    *, standing_w: float = STANDING_W, server_dynamic_w: float = SERVER_DYNAMIC_W
) -> dict[str, tuple[float, float]]:
    """Return (measured, modelled) power [W] of each of the ten measured rows, without look-up.

    Parameters
    ----------
    standing_w, server_dynamic_w
        As for :func:`fit_power`.
    """
    fit = _power_fit(standing_w, server_dynamic_w)
    return {row.job_set: (float(row.power_w), _node_w(row.kinds, fit)) for row in _node_rows()}


def _not_negative(field: str, value: Any) -> None:
    real = isinstance(value, numbers.Real) and not isinstance(value, bool)
    if not real or not 0.0 <= value < math.inf:
        raise DomainError(
            f"power of the paper's node: {field} must be a finite number >= 0 [W], got {value!r}"
        )


def power_model(
    *,
    lookup: bool = True,
    standing_w: float = STANDING_W,
    gpu_standing_w: float = GPU_STANDING_W,
    server_dynamic_w: float = SERVER_DYNAMIC_W,
) -> PowerModel:
    """Return the power of the paper's node: fitted model and the ten measured rows.

    Parameters
    ----------
    lookup
        Whether the measured rows are used where they apply.
    standing_w
        Power of the active node with nothing running, 8 GPUs included [W].
    gpu_standing_w
        Part of it that each GPU draws [W]; the server draws the rest, ``standing_w - 8 * gpu_standing_w``.
    server_dynamic_w
        What the server draws at CPU utilisation 1 above utilisation 0 [W].

    Raises
    ------
    DomainError
        A value is negative or not finite, the standing power is not below each measured power, or the GPUs
        would draw more of it than there is.

    Notes
    -----
    The GPUs' dynamic power is fitted anew where ``standing_w`` or ``server_dynamic_w`` differs from its
    default, so that the measured rows stay reproduced; the split between server and GPUs changes no row.
    """
    _power_given(standing_w, server_dynamic_w)
    _not_negative("gpu_standing_w", gpu_standing_w)
    idle_w = standing_w - NODE_GPUS * gpu_standing_w
    if idle_w < 0.0:
        raise DomainError(
            f"power of the paper's node: gpu_standing_w must be at most {standing_w / NODE_GPUS:g} W, "
            f"an eighth of the node's standing power ({standing_w:g} W), got {gpu_standing_w:g} W; "
            "lower it, or raise standing_w"
        )
    fit = _power_fit(standing_w, server_dynamic_w)
    return PowerModel(
        server=ServerPower(idle_w=idle_w, busy_w=idle_w + server_dynamic_w, exponent=SERVER_EXPONENT),
        gpu=GpuPower(
            standing_w=gpu_standing_w, dynamic_w=fit.node_dynamic_w / NODE_GPUS, exponent=fit.gpu_exponent
        ),
        measured=tuple(MeasuredPower(kinds=row.kinds, power_w=float(row.power_w)) for row in _node_rows()),
        lookup=lookup,
    )


def node_type(
    *,
    name: str | None = None,
    gpus: int = NODE_GPUS,
    gpu_memory_gib: float = GPU_MEMORY_GIB,
    lookup: bool = True,
    standing_w: float = STANDING_W,
    gpu_standing_w: float = GPU_STANDING_W,
    server_dynamic_w: float = SERVER_DYNAMIC_W,
    sleep_w: float = 0.0,
    wake_s: float = 0.0,
    wake_energy_j: float = 0.0,
) -> NodeType:
    """Return the paper's server as a node type.

    Parameters
    ----------
    name
        ``v100x8`` (the number of GPUs at its end) by default.
    gpus
        Number of GPUs. With another number than 8 the server stays the same and nothing is looked up: the
        measured powers hold for 8 GPUs.
    gpu_memory_gib
        Memory of each GPU [GiB]; give :func:`profiles` and :func:`usage` the same.
    lookup, standing_w, gpu_standing_w, server_dynamic_w
        As for :func:`power_model`; ``standing_w`` is that of the 8-GPU node whatever ``gpus`` is.
    sleep_w, wake_s, wake_energy_j
        As for :class:`~eaco_opt.cluster.NodeType`; the paper gives none.
    """
    power = power_model(
        lookup=lookup, standing_w=standing_w, gpu_standing_w=gpu_standing_w, server_dynamic_w=server_dynamic_w
    )
    if gpus != NODE_GPUS:
        power = dataclasses.replace(power, measured=())
    return NodeType(
        name=f"v100x{gpus}" if name is None else name,
        gpus=gpus,
        gpu_type=GPU_TYPE,
        gpu_memory_gib=gpu_memory_gib,
        power=power,
        sleep_w=sleep_w,
        wake_s=wake_s,
        wake_energy_j=wake_energy_j,
    )
