"""Interference predictors: by hand, out of sample, and as truth and history of instances."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eaco_opt.errors import DomainError, PartError, TraceError, UnknownNameError
from eaco_opt.interference import Interference, KindDemand
from eaco_opt.io import instance_from_json, instance_to_json, write_profiles
from instances import ImportOptions, builtin_instance, generate, import_trace, paper
from instances.measurements import read_measurements
from instances.predictors import (
    PREDICTORS,
    PairSpeed,
    Workload,
    evaluate_predictors,
    named_interference,
    pair_speeds,
    predicted_interference,
    with_truth,
)
from instances.predictors.evaluate import scores_of
from tests.instances.test_measurements import GAVEL, PAIRS, V32, V64, lucid

NEED_TABLE = [name for name in PREDICTORS if PREDICTORS.get(name).needs_table]


def workload(kind: str, util: float, model: str = "") -> Workload:
    demand = KindDemand(
        kind=kind,
        gpu_util_mean=util,
        gpu_util_peak=1.0,
        gpu_memory_mean_gib=1.0,
        gpu_memory_peak_gib=1.0,
        cpu_share=0.0,
    )
    return Workload(model=model or kind, demand=demand)


A, B, C = workload("a", 0.2), workload("b", 0.9), workload("c", 0.5)


def speed(own: Workload, other: Workload, value: float) -> PairSpeed:
    return PairSpeed(own=own, other=other, speed=value)


ROWS = (speed(A, B, 0.9), speed(B, A, 0.5), speed(A, A, 1.0), speed(C, A, 0.8), speed(A, C, 0.9))


def predict(name: str, rows: Sequence[PairSpeed], *pairs: tuple[Workload, Workload]) -> list[float]:
    found: list[float] = PREDICTORS.get(name)(rows).speeds(pairs).tolist()
    return found


def test_plain_predictors_by_hand() -> None:
    """Mean 4.1 / 5; utilisations 0.2 + 0.9 give 1 / 1.1; the table knows a beside b, and takes turns else."""
    assert predict("mean", ROWS, (B, C)) == pytest.approx([0.82])
    assert predict("additive-utilisation", ROWS, (A, B), (A, C)) == pytest.approx([1 / 1.1, 1.0])
    assert predict("table", ROWS, (A, B), (B, C), (B, A)) == pytest.approx([0.9, 1 / 1.4, 0.5])
    # 1 + base + slope * 1.1**exponent, never below the load.
    fit = paper.interference()
    p = dict(fit.params)
    wanted = 1.0 / max(1.1, 1.0 + p["base"] + p["slope"] * 1.1 ** p["exponent"])
    assert predict("paper-fit", ROWS, (A, B)) == pytest.approx([wanted])


def test_pair_table_fills_holes_from_rows_and_columns() -> None:
    """Known pairs are looked up; a hole is slower where both its row and its column are slow.

    Six workloads; speeds are exp(-own - other) with effects 0, 0.1, ..., 0.5, all pairs but (5, 5) given. The
    ridge pulls the estimate of the hole, exp(-1), towards the mean, but leaves it below every other pair's.
    A workload that the table does not know beside another such gets the mean.
    """
    things = [workload(f"w{i}", 0.5) for i in range(6)]
    rows = [
        speed(things[i], things[k], math.exp(-0.1 * (i + k)))
        for i, k in product(range(6), repeat=2)
        if (i, k) != (5, 5)
    ]
    (hole,) = predict("pair-table", rows, (things[5], things[5]))
    assert math.exp(-1.0) < hole < min(row.speed for row in rows)
    assert predict("pair-table", rows, (things[1], things[2])) == pytest.approx([math.exp(-0.3)])
    mean = math.exp(np.mean([math.log(row.speed) for row in rows]))
    assert predict("pair-table", rows, (A, B)) == pytest.approx([mean])


@pytest.mark.parametrize("name", ["kernel", "gradient-boosted"])
def test_regressors_learn_a_smooth_rule(name: str) -> None:
    """From 20 x 20 pairs with speed 1 - own * other they predict others within 0.07, and stay in range."""
    things = [workload(f"w{i}", i / 19) for i in range(20)]
    rows = [
        speed(a, b, 1.0 - 0.8 * a.demand.gpu_util_mean * b.demand.gpu_util_mean)
        for a, b in product(things, repeat=2)
    ]
    pairs = [(workload("x", x), workload("y", y)) for x, y in product((0.13, 0.52, 0.87), repeat=2)]
    wanted = [1.0 - 0.8 * a.demand.gpu_util_mean * b.demand.gpu_util_mean for a, b in pairs]
    assert predict(name, rows, *pairs) == pytest.approx(wanted, abs=0.07)
    assert predict(name, rows) == []


@pytest.mark.parametrize("name", PREDICTORS.names())
def test_every_predictor_gives_positive_speeds_and_repeats_itself(name: str) -> None:
    """From few rows too: as many speeds as pairs, in a sane range, twice the same, in any order."""
    pairs = list(product((A, B, C, workload("new", 0.0)), repeat=2))
    found = predict(name, ROWS, *pairs)
    assert found == predict(name, ROWS, *pairs)
    assert found[::-1] == predict(name, ROWS, *pairs[::-1])
    assert all(0.01 < x < 2.5 for x in found)
    assert isinstance(PREDICTORS.get(name).needs_table, bool)


# Evaluation ---------------------------------------------------------------------------------------


def test_scores_by_hand() -> None:
    """Errors 0.1, -0.1, 0.3: MAE 0.5/3, bias 0.1, two of three optimistic; ranks 1 2 3 and 1 2 3."""
    scores = scores_of("x", np.array([0.4, 0.8, 0.9]), np.array([0.5, 0.7, 1.2]))
    assert (scores.mae, scores.bias) == (pytest.approx(0.5 / 3), pytest.approx(0.1))
    assert scores.unsafe_share == pytest.approx(2 / 3)
    assert scores.rank_correlation == pytest.approx(1.0)
    # 95th percentile of 0.1, 0.1, 0.3, linear: at 0.9 of the way from the second to the third.
    assert scores.p95 == pytest.approx(0.28)
    assert scores.n == 3
    assert math.isnan(scores_of("x", np.array([0.4, 0.8]), np.array([0.5, 0.5])).rank_correlation)


def test_a_left_out_model_is_on_neither_side(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every side of every pair with the model is predicted, once for each model in it."""
    seen: list[tuple[set[str], set[str]]] = []

    class Spy:
        """Remembers what it learns from and what it is asked."""

        needs_table = True

        def __init__(self, rows: Sequence[PairSpeed]) -> None:
            self.models = {m for row in rows for m in (row.own.model, row.other.model)}

        def speeds(self, pairs: Sequence[tuple[Workload, Workload]]) -> Any:
            asked = set.intersection(*({a.model, b.model} for a, b in pairs))
            seen.append((self.models, asked))
            return np.ones(len(pairs))

    monkeypatch.setattr(sys.modules[__name__], "Spied", Spy, raising=False)
    monkeypatch.setitem(PREDICTORS._targets, "spy", f"{__name__}:Spied")
    b2 = workload("b2", 0.4, model="b")
    rows = (*ROWS, speed(B, b2, 0.7), speed(b2, B, 0.7), speed(C, b2, 0.5), speed(b2, C, 0.6))
    found = evaluate_predictors(rows, "model", ["spy"])
    for models, asked in seen:
        assert asked and not asked & models
    # a: 5 sides; b: a+b, b+b2, c+b2: 6 sides; c: c+a, c+b2: 4 sides.
    assert found.scores[0].n == 15
    assert sorted(set(found.held_out)) == ["a", "b", "c"]
    pairs = evaluate_predictors(rows, "pair", ["spy"])
    assert pairs.scores[0].n == len(rows)
    assert set(pairs.held_out) == {"a + a", "a + b", "a + c", "b + b2", "b2 + c"}


def test_what_cannot_be_evaluated_is_refused() -> None:
    """No pairs, one pair, unknown names: said in words."""
    with pytest.raises(DomainError, match="expected measured pairs with speeds above 0, got none"):
        evaluate_predictors(())
    with pytest.raises(DomainError, match="expected pairs without a to learn from, got none"):
        evaluate_predictors(ROWS[:3])
    with pytest.raises(UnknownNameError, match="leave out 'side'; known are: model, pair"):
        evaluate_predictors(ROWS, "side")
    with pytest.raises(UnknownNameError, match="unknown predictor 'x'; known are: mean"):
        evaluate_predictors(ROWS, "pair", ["x"])


def test_a_missing_library_leaves_a_predictor_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without scikit-learn the others are tested; asked for by name it is an error."""
    monkeypatch.setitem(sys.modules, "sklearn.ensemble", None)
    monkeypatch.delitem(sys.modules, "instances.predictors.gradient_boosted", raising=False)
    found = evaluate_predictors(ROWS, "pair")
    assert "gradient-boosted" not in found.predicted
    assert "install what it needs" in found.missing["gradient-boosted"]
    with pytest.raises(PartError, match="gradient-boosted"):
        evaluate_predictors(ROWS, "pair", ["gradient-boosted"])


def test_lucid_leave_one_model_out(data_dir: Path) -> None:
    """On Lucid's pairs the best predictor beats the mean by 25 % and additive utilisation by 10 %, and more.

    The held-out model is on neither side of what is learnt from.
    """
    rows = pair_speeds(read_measurements(data_dir / "lucid" / "colocate_info.csv"))
    scores = {s.predictor: s for s in evaluate_predictors(rows, "model").scores}
    mae = {name: s.mae for name, s in scores.items()}
    best = min(mae, key=lambda name: mae[name])
    assert best == "gradient-boosted"
    assert mae["mean"] == pytest.approx(0.0941, abs=5e-4)
    assert mae["additive-utilisation"] == pytest.approx(0.0810, abs=5e-4)
    assert mae[best] <= 0.75 * mae["mean"]
    assert mae[best] <= 0.90 * mae["additive-utilisation"]
    assert mae["kernel"] <= 0.90 * mae["additive-utilisation"]
    assert len({s.n for s in scores.values()}) == 1
    assert scores[best].rank_correlation == max(
        s.rank_correlation for s in scores.values() if not math.isnan(s.rank_correlation)
    )


# Truth and history --------------------------------------------------------------------------------


@pytest.fixture
def pairs_file(tmp_path: Path) -> Path:
    """Lucid's two files, small."""
    lucid(tmp_path, PAIRS + "VGG,CIFAR,1,64,1,0.9,PPO,Lunar,1,32,0,0.95,99,30,5120\n")
    return tmp_path / "pairs.csv"


@pytest.mark.parametrize("name", PREDICTORS.names())
def test_truth_from_any_predictor_survives_a_file(name: str, pairs_file: Path) -> None:
    """Any predictor makes a truth of all sets of the kinds, which an instance file gives back in full."""
    instance = builtin_instance()
    text = f"{name}:{pairs_file}" if name in NEED_TABLE else name
    made = with_truth(instance, text)
    again = instance_from_json(instance_to_json(made))
    assert again == made
    assert dict(made.metadata)["truth.predictor"] == name
    assert ("truth.sha256" in dict(made.metadata)) == (name in NEED_TABLE)
    assert str(pairs_file.parent) not in instance_to_json(made)
    demands = made.demands()
    part = PREDICTORS.get(name)(pair_speeds(read_measurements(pairs_file)))
    known = {k: Workload(model=k, demand=d) for k, d in demands.items()}
    for a, b in product(demands, repeat=2):
        expected = part.speeds([(known[a], known[b])])[0]
        assert 1.0 / again.truth.factors((a, b), demands)[a] == pytest.approx(expected)
    assert again.truth.factors(tuple(demands), demands)


def test_larger_sets_are_products_of_predicted_pairs(pairs_file: Path) -> None:
    """The factor in a set of three is the product of the predicted factors of its pairs, at least 1."""
    table = read_measurements(pairs_file)
    demands = builtin_instance().demands()
    truth = predicted_interference("mean", demands, table)
    pair = truth.factors(("AlexNet", "VGG-16"), demands)["AlexNet"]
    three = truth.factors(("AlexNet", "ResNet-50", "VGG-16"), demands)["AlexNet"]
    assert pair > 1.0
    assert three == pytest.approx(pair**2)


def test_the_product_is_nearer_to_the_papers_sets_than_the_sum_of_excesses() -> None:
    """Why larger sets are products: of the paper's sets of three and four, built from pairs.

    Only three of the six pairs were measured; the others get the fitted model. Both rules are below what was
    measured in every set, the sum of excesses further.
    """
    truth = paper.interference()
    demands = builtin_instance().demands()
    larger = [row for row in paper.shared_rows() if len(row.kinds) > 2]
    assert len(larger) == 3
    free = Interference(
        measured=tuple(m for m in truth.measured if len(m.kinds) == 2), model="crowding", params=truth.params
    )
    for row in larger:
        factors = {a: [free.factors((a, b), demands)[a] for b in row.kinds if b != a] for a in row.kinds}
        product_mean = np.mean([math.prod(f) for f in factors.values()])
        excess_mean = np.mean([1.0 + sum(x - 1.0 for x in f) for f in factors.values()])
        assert excess_mean < product_mean < paper.measured_slowdown(row)


def test_pairs_measured_with_speed_0_cannot_share(tmp_path: Path) -> None:
    """Whatever the predictor says of their utilisation."""
    path = tmp_path / "table.csv"
    path.write_text(GAVEL)
    table = read_measurements(path)
    demands = {
        p.kind: KindDemand(
            kind=p.kind,
            gpu_util_mean=p.gpu_util_mean,
            gpu_util_peak=1.0,
            gpu_memory_mean_gib=1.0,
            gpu_memory_peak_gib=1.0,
            cpu_share=0.0,
        )
        for p in table.profiles.profiles
    }
    for name in PREDICTORS:
        truth = predicted_interference(name, demands, table)
        assert not truth.can_share(("A3C x1", "A3C x1"))
    # Looked up: 8/10 and 5/20 of the speed alone.
    found = predicted_interference("table", demands, table).factors(
        ("A3C x1", "LM (batch size 5) x1"), demands
    )
    assert found == pytest.approx({"A3C x1": 1.25, "LM (batch size 5) x1": 4.0})


def test_names_that_are_no_predictor(pairs_file: Path) -> None:
    """Other text is left to the caller; a predictor without its table, or with a bad one, is an error."""
    demands = builtin_instance().demands()
    assert named_interference("problem.json", demands) is None
    assert named_interference("C:problem.json", demands) is None
    with pytest.raises(DomainError, match=r"expected measured pairs to learn from, got no table; name one"):
        named_interference("kernel", demands)
    with pytest.raises(DomainError, match="expected a file behind the colon"):
        named_interference("kernel:", demands)
    with pytest.raises(TraceError, match="cannot be read"):
        named_interference(f"kernel:{pairs_file}x", demands)
    with pytest.raises(DomainError, match="got a table without pairs"):
        named_interference(f"kernel:{pairs_file.parent / 'single_data.csv'}", demands)
    with pytest.raises(UnknownNameError, match=r"unknown predictor 'problem\.json'; known are: mean"):
        with_truth(builtin_instance(), "problem.json")


# Measured workloads in instances ------------------------------------------------------------------

TRACE = "timestamp,duration,num_gpus\n" + "".join(
    f"2017-10-09 07:{i:02d}:00,{600 * (1 + i % 7)},{1 if i % 5 else 2}\n" for i in range(40)
)


def imported(path: Path, **options: Any) -> Any:
    """Import the small trace."""
    trace = path.parent / "trace.csv"
    trace.write_text(TRACE)
    return import_trace("philly-csv", trace, ImportOptions(nodes=4, seed=3, **options))


def test_mapping_to_measured_workloads(tmp_path: Path) -> None:
    """Jobs become workloads measured on their number of GPUs, drawn by seed; others are refused."""
    path = tmp_path / "table.csv"
    path.write_text(
        GAVEL.replace("LM (batch size 5),2,,,30,\n", "").replace(
            "LM (batch size 5),2,LM (batch size 5),2,0,0\n", ""
        )
    )
    made = imported(path, mapping=f"profiles:{path}")
    # Rows 0, 5, ..., 35 ask for two GPUs.
    assert made.refused == {"no-profile": 8}
    assert made.taken == 32
    problem = made.instance
    assert {j.profile for j in problem.jobs} == {"A3C x1", "LM (batch size 5) x1"}
    # An epoch is 600 s of either: row i runs 1 + i mod 7 of them.
    assert [j.epochs for j in problem.jobs[:4]] == [2, 3, 4, 5]
    assert problem.truth.factors(("A3C x1", "LM (batch size 5) x1"), problem.demands())["A3C x1"] == 1.25
    assert not problem.truth.can_share(("A3C x1", "A3C x1"))
    told = dict(problem.metadata)
    assert '"profiles": {"name": "table.csv", "sha256": ' in told["import.call"]
    assert "drawn with the seed evenly" in told["assumption.mapping"]
    assert str(tmp_path) not in instance_to_json(problem)
    assert imported(path, mapping=f"profiles:{path}").instance == problem
    other = imported(path, mapping="profiles", profiles=read_measurements(path).profiles, jobs=5).instance
    assert [j.profile for j in other.jobs] == [j.profile for j in problem.jobs[:5]]


def test_shares_of_measured_workloads(tmp_path: Path) -> None:
    """A workload with share 0 does not occur, in the jobs or in the instance."""
    path = tmp_path / "table.csv"
    path.write_text(GAVEL)
    made = imported(path, mapping=f"profiles:{path}", mix={"A3C x1": 1.0, "LM (batch size 5) x2": 3.0})
    assert {p.name for p in made.instance.profiles} == {"A3C x1", "LM (batch size 5) x2"}
    assert made.refused == {}
    assert {m.kinds for m in made.instance.truth.measured} == set()
    assert "A3C x1 0.25" in dict(made.instance.metadata)["mapping.shares"]
    with pytest.raises(UnknownNameError, match="unknown model 'x' in mix; known are: A3C x1"):
        imported(path, mapping=f"profiles:{path}", mix={"x": 1.0})


def test_mapping_options_that_do_not_fit(tmp_path: Path) -> None:
    """Profiles and mix belong to the mapping `profiles`, which needs a file; so do GPUs epoch times."""
    with pytest.raises(DomainError, match="mix must be left out with mapping 'native'"):
        ImportOptions(mix={"a": 1.0})
    with pytest.raises(DomainError, match="mapping 'profiles' needs measured workloads"):
        ImportOptions(mapping="profiles")  # type: ignore[arg-type]
    with pytest.raises(DomainError, match=r"must name a file, as in profiles:own\.json"):
        ImportOptions(mapping="profiles:")  # type: ignore[arg-type]
    found = lucid(tmp_path)
    with pytest.raises(DomainError, match="epoch times on RTX3090, the cluster has 4 x v100x8"):
        imported(tmp_path / "x", mapping="profiles", profiles=found.profiles)


def test_families_bring_measured_sharing_along(tmp_path: Path) -> None:
    """`generate` with a set of profiles has its slowdowns, usage and metadata."""
    path = tmp_path / "held.json"
    lucid(tmp_path)
    held = read_measurements(tmp_path / "pairs.csv", gpu_type="V100").profiles
    write_profiles(path, held)
    again = read_measurements(path).profiles
    assert again == held
    from instances.clusters import resolve_cluster

    cluster = resolve_cluster("test", nodes=8, gpus_per_node=1, cluster=None, lookup=False)
    made = generate("whole-node", jobs=6, cluster=cluster, profiles=held, seed=1)
    assert made.truth == held.truth
    assert made.usage == held.usage
    told = dict(made.metadata)
    assert told["profiles.gpu_type"] == "taken to hold for V100"
    assert "2 sets with measured slowdowns, 1 pairs that cannot share" in told["assumption.sharing"]
    assert {V32, V64} <= {p.kind for p in made.profiles}
