"""The study at the paper's size: intervals, orders, claims beside ours, and its command."""

from __future__ import annotations

import json
import math
import subprocess
import sys

import pytest

from eaco_opt.errors import DomainError
from experiments.paper_scale import FAMILIES, METHODS, SETTINGS, PaperScale, interval, paper_scale


@pytest.fixture(scope="module")
def study() -> PaperScale:
    return paper_scale(seeds=2, jobs=60, families=("whole-node",))


def test_an_interval_is_students() -> None:
    """Mean 2, standard deviation 1, three seeds: half-width 4.3027 / sqrt 3 = 2.4841."""
    found = interval([1.0, 2.0, 3.0])
    assert found.mean == 2.0
    assert found.half_width == pytest.approx(4.302652729911275 / math.sqrt(3.0))
    assert interval([5.0]).half_width is None


def test_every_setting_seed_and_method_is_run_once(study: PaperScale) -> None:
    """Four settings, two seeds, four methods."""
    keys = [(r["family"], r["nodes"], r["load"], r["seed"], r["method"]) for r in study.rows]
    assert len(keys) == len(set(keys)) == len(SETTINGS) * 2 * len(METHODS)


def test_relative_values_are_paired_by_seed(study: PaperScale) -> None:
    """The mean over seeds of each seed's own ratio, not the ratio of means."""
    rows = {(r["seed"], r["method"]): r for r in study.rows if (r["nodes"], r["load"]) == (28, 1.6)}
    ratios = [
        100.0 * (rows[s, "eaco"]["energy_kwh"] / rows[s, "fifo"]["energy_kwh"] - 1.0) for s in study.seeds
    ]
    found = study.relative("whole-node", 28, 1.6, "eaco", "fifo", "energy")
    assert found.mean == pytest.approx(sum(ratios) / 2)
    assert study.relative("whole-node", 28, 1.6, "fifo", "fifo", "energy").mean == 0.0


def test_the_order_joins_what_cannot_be_told_apart(study: PaperScale) -> None:
    """With an idle cluster FIFO, FIFO_packed and Gandiva coincide, and EaCO saves energy."""
    assert study.order("whole-node", 64, 0.5, "energy") == "eaco < fifo = fifo_packed = gandiva"


def test_claims_name_the_paper_s_figures(study: PaperScale) -> None:
    """c11 claims -24.5 % against FIFO_packed on 28 nodes, c12 -8.3 % against Gandiva."""
    rows = {(r.id, r.against): r for r in study.claim_rows("whole-node")}
    assert rows["c11", "fifo_packed"].claimed == -24.5
    assert rows["c12", "gandiva"].claimed == -8.3
    assert [load for load, _ in rows["c11", "fifo_packed"].ours] == [0.8, 1.2, 1.6]
    assert [load for load, _ in rows["c17", "fifo"].ours] == [0.5]


@pytest.mark.parametrize("field", ["seeds", "jobs"])
def test_bad_sizes_are_refused(field: str) -> None:
    """A study of nothing is no study."""
    with pytest.raises(DomainError, match=f"{field} must be a whole number >= 1, got 0"):
        paper_scale(**{field: 0})


def test_the_command_prints_one_document() -> None:
    """`paper scale --json` gives settings, orders and claims."""
    words = ["paper", "scale", "--seeds", "1", "--jobs", "20", "--family", "mixed", "--json"]
    done = subprocess.run(
        [sys.executable, "-m", "experiments.cli", *words], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert len(document["settings"]) == len(SETTINGS)
    assert {c["family"] for c in document["claims"]} == {"mixed"}
    assert document["settings"][0]["methods"][0]["energy"] == {"mean": 0.0, "half_width": None}


@pytest.mark.slow
def test_the_paper_s_result_in_kind() -> None:
    """At 64 nodes and load 0.5 EaCO saves at least 30 %, runtime rises by under 10 %, the others coincide."""
    study = paper_scale(seeds=10, families=FAMILIES[:1])
    at = ("whole-node", 64, 0.5)
    assert study.relative(*at, "eaco", "fifo", "energy").mean <= -30.0
    assert study.relative(*at, "eaco", "fifo", "runtime").mean < 10.0
    assert study.order(*at, "energy") == "eaco < fifo = fifo_packed = gandiva"
