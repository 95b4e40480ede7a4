"""The audit of the paper's claims, and its tables through the physics."""

from __future__ import annotations

import json

import pytest

from eaco_opt import check
from instances import paper
from instances.paper_audit import ClaimCheck, TableRow, audit, tables


@pytest.fixture(scope="module")
def checks() -> dict[str, ClaimCheck]:
    """The audit, by claim."""
    return {c.id: c for c in audit()}


@pytest.fixture(scope="module")
def looked_up() -> dict[str, TableRow]:
    """The tables through the physics, with the measured powers."""
    return {row.job_set: row for row in tables()}


@pytest.fixture(scope="module")
def modelled() -> dict[str, TableRow]:
    """The same with modelled powers only."""
    return {row.job_set: row for row in tables(lookup=False)}


def test_every_claim_is_audited_in_order(checks: dict[str, ClaimCheck]) -> None:
    """One check a claim, with the claim's own numbers and an explanation."""
    assert list(checks) == [claim.id for claim in paper.claims()]
    for claim in paper.claims():
        assert checks[claim.id].claimed == tuple(float(v) for v in claim.values)
        assert len(checks[claim.id].text) > 30


def test_where_the_paper_disagrees_with_its_tables(checks: dict[str, ClaimCheck]) -> None:
    """Three claims contradict the tables, five agree, ten cannot be recomputed from them."""
    assert [c.id for c in checks.values() if c.agrees is False] == ["c04", "c05", "c18"]
    assert [c.id for c in checks.values() if c.agrees] == ["c01", "c02", "c03", "c06", "c08"]
    open_ = [c for c in checks.values() if c.agrees is None]
    assert [c.id for c in open_] == ["c07", *(f"c{n:02d}" for n in range(9, 18))]
    assert all(c.recomputed is None for c in open_)


@pytest.mark.parametrize(
    ("claim", "value"),
    [
        # J1+J3: 1 - 50.93 / (24.73 + 47.87) = 1 - 50.93 / 72.60
        ("c01", 29.848),
        # J1+J2+J3: 1 - 59.01 / (24.73 + 33.69 + 47.87) = 1 - 59.01 / 106.29
        ("c02", 44.482),
        # J1+J4: 36.51 / ((34.76 + 36.13) / 2) - 1 = 36.51 / 35.445 - 1
        ("c03", 3.005),
        # J1+J2+J3: 38.28 / ((34.76 + 35.13 + 36.01) / 3) - 1 = 38.28 / 35.3 - 1
        ("c04", 8.442),
        # all four: 44.21 / (142.03 / 4) - 1 = 44.21 / 35.5075 - 1
        ("c05", 24.509),
        # all four: 1 - 93.66 / 161.67
        ("c06", 42.067),
    ],
)
def test_recomputed_by_hand(checks: dict[str, ClaimCheck], claim: str, value: float) -> None:
    """The savings and slowdowns are those of a pocket calculator."""
    found = checks[claim].recomputed
    assert found is not None
    assert found[0] == pytest.approx(value, abs=5e-4)


def test_claims_of_several_numbers(checks: dict[str, ClaimCheck]) -> None:
    """GPU utilisations come one by one; of ResNet-18's two runtimes the tables hold the exclusive one."""
    assert checks["c08"].recomputed == (48.01, 55.16, 66.99, 96.64)
    assert checks["c18"].recomputed == (35.13, None)
    assert "VGG-16" in checks["c18"].text
    assert "85.9 kWh" in checks["c06"].text


def test_agreement_means_one_unit_of_the_last_digit(checks: dict[str, ClaimCheck]) -> None:
    """44 is written to whole percents, 7.8 to tenths: 44.48 agrees with the one, 8.44 not with the other."""
    assert checks["c02"].tolerance == (1.0,)
    assert checks["c04"].tolerance == (0.1,)
    assert checks["c08"].tolerance == (1.0, 0.1, 1.0, 0.1)
    for c in checks.values():
        if c.recomputed is not None:
            pairs = zip(c.claimed, c.recomputed, c.tolerance, strict=True)
            assert c.agrees is all(r is None or abs(r - v) <= t + 1e-12 for v, r, t in pairs)


def test_rows_are_ready_for_json(checks: dict[str, ClaimCheck]) -> None:
    """One number stays a number, several become a list, what is not determined is null."""
    rows = {c.id: c.row() for c in checks.values()}
    assert json.loads(json.dumps(rows)) == rows
    assert (rows["c01"]["claimed"], rows["c10"]["recomputed"]) == (30.0, None)
    assert rows["c18"]["recomputed"] == [35.13, None]


EXCLUSIVE = ["J1", "J2", "J3", "J4"]
TWO_AND_THREE = ["J1+J3", "J1+J4", "J2+J4", "J1+J2+J3", "J1+J2+J4"]


def test_exclusive_runs_match_table_1(looked_up: dict[str, TableRow]) -> None:
    """Alone, energy is within 1 % (0.1 % in fact) and JCT exact: tau is JCT / 90."""
    for name in EXCLUSIVE:
        row = looked_up[name]
        assert row.energy_kwh == pytest.approx(row.paper_energy_kwh, rel=0.001)
        assert row.mean_jct_h == pytest.approx(row.paper_mean_jct_h, rel=1e-9)


def test_two_and_three_jobs_match_table_3(looked_up: dict[str, TableRow]) -> None:
    """Sets of two and three jobs: energy within 3 % (2 % in fact), mean JCT within 3 % (0.2 %)."""
    for name in TWO_AND_THREE:
        row = looked_up[name]
        assert row.energy_kwh == pytest.approx(row.paper_energy_kwh, rel=0.02)
        assert row.mean_jct_h == pytest.approx(row.paper_mean_jct_h, rel=0.002)


def test_a_pair_by_hand(looked_up: dict[str, TableRow]) -> None:
    """J1+J4 at 1506 W with factor 36.51 / 35.445 until J1 ends, then J4's rest alone at 1533 W.

    J1 ends at 34.76 h * 1.0300466 = 35.80442 h; J4 then lacks 36.13 - 34.76 = 1.37 h and ends at 37.17442 h.
    """
    first_h = 34.76 * 36.51 / 35.445
    row = looked_up["J1+J4"]
    assert row.mean_jct_h == pytest.approx((first_h + first_h + 1.37) / 2, rel=1e-9)
    assert row.energy_kwh == pytest.approx((1506 * first_h + 1533 * 1.37) / 1000, rel=1e-9)


def test_without_look_up_within_five_percent(modelled: dict[str, TableRow]) -> None:
    """With the look-up switched off, energies of exclusive runs and of two and three jobs are within 5 %."""
    for name in EXCLUSIVE + TWO_AND_THREE:
        row = modelled[name]
        assert row.energy_kwh == pytest.approx(row.paper_energy_kwh, rel=0.05), name
        assert row.mean_jct_h == pytest.approx(row.paper_mean_jct_h, rel=0.002), name
        assert not row.instance.cluster.node_types[0].power.lookup


def test_four_jobs_side_with_power_times_jct(looked_up: dict[str, TableRow]) -> None:
    """Four jobs: mean JCT within 0.5 %, energy by the table's power x JCT, 85.94, below its 93.66 kWh."""
    row = looked_up["J1+J2+J3+J4"]
    assert row.mean_jct_h == pytest.approx(44.21, rel=0.005)
    assert row.energy_kwh == pytest.approx(85.94, rel=0.015)
    assert row.energy_kwh / row.paper_energy_kwh == pytest.approx(0.927, abs=0.003)


def test_every_schedule_passes_the_checker(
    looked_up: dict[str, TableRow], modelled: dict[str, TableRow]
) -> None:
    """The independent checker finds nothing to object to in any of the twenty schedules."""
    for row in [*looked_up.values(), *modelled.values()]:
        assert check(row.instance, row.schedule) == [], row.job_set


def test_instances_are_those_stated(looked_up: dict[str, TableRow]) -> None:
    """U = mem = 1, K = 4, one node of 8 GPUs, every job from 0 on all of them for 90 epochs."""
    for row in looked_up.values():
        limits = row.instance.limits
        assert (limits.u_threshold, limits.mem_threshold, limits.max_share) == (1.0, 1.0, 4)
        assert row.instance.cluster.total_gpus() == 8
        assert {(j.gpus, j.epochs, j.release_s) for j in row.instance.jobs} == {(8, 90, 0.0)}
        assert {s.start_s for s in row.schedule.segments} == {0.0}
        assert "+".join(j.name for j in row.instance.jobs) == row.job_set
