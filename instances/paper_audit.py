"""What the paper's claims come to when worked out from its own tables, and its tables from our physics.

:func:`audit` recomputes every row of ``claims.csv`` that Tables 1 to 4 determine. :func:`tables` runs the job
sets of Tables 1 and 3 through the physics that every method uses. docs/calibration.md shows both.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal

from eaco_opt.cluster import Cluster
from eaco_opt.instance import Instance
from eaco_opt.job import Job
from eaco_opt.limits import Limits
from eaco_opt.physics import evaluate, plan_schedule
from eaco_opt.schedule import Placement, Plan, Schedule

from . import paper
from .paper import Claim, PaperRow

_KWH_J = 3.6e6
_HOUR_S = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimCheck:
    """A claim of the paper beside what its tables say.

    Attributes
    ----------
    id
        Row of ``claims.csv``.
    where, claim, unit
        As there.
    claimed
        The numbers claimed.
    recomputed
        The same numbers from the tables, ``None`` for each that they do not determine; ``None`` as a whole
        where they determine none.
    agrees
        Whether every recomputed number lies within ``tolerance`` of the claimed one; ``None`` where there is
        nothing to compare.
    tolerance
        Half-width that counts as agreement: one unit of the last digit that the claim is written with, so
        that a number that was cut off or rounded either way still agrees.
    text
        How it was recomputed, from which tables, or why it cannot be.
    """

    id: str
    where: str
    claim: str
    unit: str
    claimed: tuple[float, ...]
    recomputed: tuple[float | None, ...] | None
    agrees: bool | None
    tolerance: tuple[float, ...]
    text: str

    def row(self) -> dict[str, object]:
        """Return the check as a table row; a claim of one number gives numbers, of several gives lists."""

        def shown(values: tuple[float | None, ...] | None) -> object:
            if values is None:
                return None
            return values[0] if len(values) == 1 else list(values)

        return {
            "id": self.id,
            "where": self.where,
            "claim": self.claim,
            "unit": self.unit,
            "claimed": shown(self.claimed),
            "recomputed": shown(self.recomputed),
            "agrees": self.agrees,
            "tolerance": shown(self.tolerance),
            "text": self.text,
        }


_Recomputed = tuple[tuple[Decimal | None, ...] | None, str]


def _alone() -> dict[str, PaperRow]:
    return {row.jobs[0]: row for row in paper.exclusive_rows()}


def _saved_pct(row: PaperRow, energy_kwh: Decimal | None = None) -> Decimal:
    """Return 1 - E(shared) / sum of E(alone), in percent."""
    alone = sum((_alone()[job].energy_kwh for job in row.jobs), Decimal(0))
    return 100 * (1 - (row.energy_kwh if energy_kwh is None else energy_kwh) / alone)


def _slower_pct(row: PaperRow) -> Decimal:
    """Return mean JCT of the set over the mean of its members' JCTs alone, minus 1, in percent."""
    alone = sum((_alone()[job].jct_h for job in row.jobs), Decimal(0))
    return 100 * (row.jct_h * len(row.jobs) / alone - 1)


def _by_set(value: Callable[[PaperRow], Decimal], rows: list[PaperRow]) -> str:
    return ", ".join(f"{row.job_set} {value(row):.2f}" for row in rows)


def _sets(*sizes: int) -> list[PaperRow]:
    return [row for row in paper.shared_rows() if len(row.jobs) in sizes]


def _energy_saved(pick: Callable[..., PaperRow], word: str) -> _Recomputed:
    rows = _sets(2, 3, 4)
    row = pick(rows, key=_saved_pct)
    return (_saved_pct(row),), (
        f"{word} over the six sets, at {row.job_set}, of 1 - energy of the set (Table 3) / sum of its jobs' "
        f"energies alone (Table 1): {_by_set(_saved_pct, rows)} %"
    )


def _c01() -> _Recomputed:
    return _energy_saved(min, "least")


def _c02() -> _Recomputed:
    return _energy_saved(max, "largest")


def _c03() -> _Recomputed:
    rows = _sets(2, 3, 4)
    row = min(rows, key=_slower_pct)
    return (_slower_pct(row),), (
        f"least over the six sets, at {row.job_set}, of mean JCT of the set (Table 3) / mean of its jobs' "
        f"JCTs alone (Table 1) - 1: {_by_set(_slower_pct, rows)} %"
    )


def _c04() -> _Recomputed:
    rows = _sets(2, 3)
    row = max(rows, key=_slower_pct)
    return (_slower_pct(row),), (
        f"largest over the five sets of two and three jobs, at {row.job_set}, of mean JCT of the set "
        f"(Table 3) / mean of its jobs' JCTs alone (Table 1) - 1: {_by_set(_slower_pct, rows)} %"
    )


def _c05() -> _Recomputed:
    (row,) = _sets(4)
    longest = max(r.jct_h for r in paper.exclusive_rows())
    return (_slower_pct(row),), (
        f"mean JCT of the four jobs, {row.jct_h} h (Table 3), / mean of their JCTs alone (Table 1) - 1; "
        f"even against the longest JCT alone, {longest} h, it is {100 * (row.jct_h / longest - 1):.1f} %"
    )


def _c06() -> _Recomputed:
    (row,) = _sets(4)
    product = row.power_w * row.jct_h / 1000
    return (_saved_pct(row),), (
        f"1 - {row.energy_kwh} kWh (Table 3) / sum of the four energies alone (Table 1); the table "
        f"contradicts itself: its mean power x mean JCT = {row.power_w} W x {row.jct_h} h = {product:.1f} "
        f"kWh, which would save {_saved_pct(row, product):.1f} %"
    )


def _c07() -> _Recomputed:
    sets = "; ".join("+".join(jobs) for jobs, _ in paper.CPU_UTILISATION)
    return None, (
        f"no table holds CPU utilisations; the four figures are what the models' CPU shares are made from "
        f"(sets {sets}), so comparing them with the shares would be a circle"
    )


def _c08() -> _Recomputed:
    rows = {row.jobs: row for row in paper.exclusive_rows() + paper.shared_rows()}
    picked = [rows[jobs] for jobs, _ in paper.CPU_UTILISATION]
    values = tuple(100 * row.utilisation.gpu_mean for row in picked)
    shown = ", ".join(f"{row.job_set} {value:.2f}" for row, value in zip(picked, values, strict=True))
    return values, (
        f"mean GPU utilisation (Tables 2 and 4) of the sets that the figures belong to: {shown} %; the last "
        f"would round to {values[-1]:.1f}"
    )


def _cluster() -> _Recomputed:
    return None, (
        "a result of the cluster simulation, whose trace and deadlines the paper does not give; the tables "
        "do not determine it"
    )


def _c18() -> _Recomputed:
    rows = _alone()
    mine, other = rows["J2"], rows["J4"]
    return (mine.jct_h, None), (
        f"Table 1 gives ResNet-18 {mine.jct_h} h alone; {other.jct_h} h is the JCT of {other.kinds[0]}; the "
        "worst case under EaCO is a result of the cluster simulation"
    )


_RECIPES: dict[str, Callable[[], _Recomputed]] = {
    "c01": _c01,
    "c02": _c02,
    "c03": _c03,
    "c04": _c04,
    "c05": _c05,
    "c06": _c06,
    "c07": _c07,
    "c08": _c08,
    **{f"c{n:02d}": _cluster for n in range(9, 18)},
    "c18": _c18,
}


def _last_digit(value: Decimal) -> Decimal:
    exponent = value.as_tuple().exponent
    return Decimal(1).scaleb(exponent if isinstance(exponent, int) else 0)


def _check(claim: Claim) -> ClaimCheck:
    values, text = _RECIPES[claim.id]()
    tolerance = tuple(_last_digit(value) for value in claim.values)
    agrees: bool | None = None
    if values is not None:
        agrees = all(
            abs(found - claimed) <= allowed
            for found, claimed, allowed in zip(values, claim.values, tolerance, strict=True)
            if found is not None
        )
    return ClaimCheck(
        id=claim.id,
        where=claim.where,
        claim=claim.claim,
        unit=claim.unit,
        claimed=tuple(float(value) for value in claim.values),
        recomputed=None if values is None else tuple(None if v is None else float(v) for v in values),
        agrees=agrees,
        tolerance=tuple(float(value) for value in tolerance),
        text=text,
    )


def audit() -> list[ClaimCheck]:
    """Return every claim of ``claims.csv`` beside its value from Tables 1 to 4, in the file's order."""
    return [_check(claim) for claim in paper.claims()]


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRow:
    """A set of Table 1 or 3 beside what the physics gives for it.

    Attributes
    ----------
    job_set
        The paper's name of the set, e.g. ``J1+J4``.
    paper_energy_kwh, paper_mean_jct_h
        The table's [kWh], [h].
    energy_kwh, mean_jct_h
        From the physics [kWh], [h].
    instance, schedule
        What was run, so that the checker can confirm it.
    """

    job_set: str
    paper_energy_kwh: float
    energy_kwh: float
    paper_mean_jct_h: float
    mean_jct_h: float
    instance: Instance
    schedule: Schedule


def table_instance(
    jobs: tuple[str, ...],
    *,
    lookup: bool = True,
    standing_w: float = paper.STANDING_W,
    gpu_standing_w: float = paper.GPU_STANDING_W,
    server_dynamic_w: float = paper.SERVER_DYNAMIC_W,
) -> Instance:
    """Return the instance behind a row of Tables 1 and 3: one node, thresholds 1, at most four jobs on a GPU.

    Parameters
    ----------
    jobs
        The paper's names, e.g. ``("J1", "J4")``; each runs 90 epochs on all 8 GPUs, released at 0, without a
        deadline.
    lookup, standing_w, gpu_standing_w, server_dynamic_w
        As for :func:`instances.paper.power_model`.
    """
    node = paper.node_type(
        lookup=lookup, standing_w=standing_w, gpu_standing_w=gpu_standing_w, server_dynamic_w=server_dynamic_w
    )
    return Instance(
        name="+".join(jobs),
        jobs=tuple(
            Job(name=job, profile=paper.MODEL_OF[job], gpus=paper.NODE_GPUS, epochs=paper.EPOCHS)
            for job in jobs
        ),
        profiles=paper.profiles(),
        cluster=Cluster.uniform(node, 1),
        usage=paper.usage(),
        truth=paper.interference(),
        limits=Limits(u_threshold=1.0, mem_threshold=1.0, max_share=4),
        metadata=(
            ("source", "EaCO paper (arXiv 2412.08294v1), Tables 1 and 3"),
            ("power_lookup", "on" if lookup else "off"),
        ),
    )


def tables(
    *,
    lookup: bool = True,
    standing_w: float = paper.STANDING_W,
    gpu_standing_w: float = paper.GPU_STANDING_W,
    server_dynamic_w: float = paper.SERVER_DYNAMIC_W,
) -> list[TableRow]:
    """Run the ten job sets of Tables 1 and 3 through the physics: all jobs start at 0 and share all GPUs.

    As jobs end one after another the sets that remain are priced and slowed as such: looked up where they
    were measured, modelled otherwise.

    Parameters
    ----------
    lookup, standing_w, gpu_standing_w, server_dynamic_w
        As for :func:`instances.paper.power_model`.
    """
    out: list[TableRow] = []
    everywhere = Placement(start_s=0.0, gpus=tuple((0, gpu) for gpu in range(paper.NODE_GPUS)))
    for row in paper.exclusive_rows() + paper.shared_rows():
        instance = table_instance(
            row.jobs,
            lookup=lookup,
            standing_w=standing_w,
            gpu_standing_w=gpu_standing_w,
            server_dynamic_w=server_dynamic_w,
        )
        plan = Plan.of(instance, dict.fromkeys(row.jobs, everywhere))
        found = evaluate(instance, plan)
        out.append(
            TableRow(
                job_set=row.job_set,
                paper_energy_kwh=float(row.energy_kwh),
                energy_kwh=found.energy_j / _KWH_J,
                paper_mean_jct_h=float(row.jct_h),
                mean_jct_h=found.mean_jct_s / _HOUR_S,
                instance=instance,
                schedule=plan_schedule(instance, plan),
            )
        )
    return out
