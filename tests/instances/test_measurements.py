"""Measured tables of Gavel, Lucid and Zeus: what becomes of their rows, on small samples written by hand."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from eaco_opt.errors import DomainError, EacoError, TraceError, UnknownNameError
from eaco_opt.interference import Interference, MeasuredSlowdown
from eaco_opt.profile import EpochTime
from eaco_opt.profile_set import PowerLimit
from instances.measurements import EPOCH_S, MEASUREMENTS, Measurements, read_measurements

ALONE = """model,dataset,batchsize,amp,speed,gpu_util,gmem_util,gmem,label
VGG,CIFAR,32,0,100,50,20,2048,0
VGG,CIFAR,64,1,100,80,20,3072,0
PPO,Lunar,32,0,5,12.5,0,1024,0
"""
SIDES = ",".join(f"model{i},dataset{i},gpu_num{i},batchsize{i},amp{i},speed{i}" for i in "12")
PAIRS = f"""{SIDES},gpu_util,gmem_util,gmem
VGG,CIFAR,1,64,1,0.5,VGG,CIFAR,1,32,0,0.8,99,30,5120
VGG,CIFAR,1,32,0,0.625,VGG,CIFAR,1,32,0,0.64,95,30,4096
PPO,Lunar,1,32,0,0,VGG,CIFAR,1,32,0,1.25,60,20,3000
"""
V32, V64, PPO = "VGG (CIFAR, batch size 32)", "VGG (CIFAR, batch size 64, amp)", "PPO (Lunar, batch size 32)"

ZEUS = """dataset,network,batch_size,optimizer,power_limit,time_per_epoch,average_power
cifar,net,32,adam,100,12,90
cifar,net,32,adam,150,10,120
cifar,net,64,adam,150,8,151.5
"""

GAVEL = """model,gpus,partner_model,partner_gpus,steps_per_s,partner_steps_per_s
A3C,1,,,10,
LM (batch size 5),1,,,20,
LM (batch size 5),2,,,30,
A3C,1,LM (batch size 5),1,8,5
LM (batch size 5),1,A3C,1,5,8
A3C,1,A3C,1,0,0
LM (batch size 5),2,LM (batch size 5),2,0,0
"""


def lucid(folder: Path, pairs: str | None = PAIRS, alone: str | None = ALONE) -> Measurements:
    """Read Lucid's two files."""
    if alone is not None:
        (folder / "single_data.csv").write_text(alone)
    if pairs is None:
        return read_measurements(folder / "single_data.csv")
    (folder / "pairs.csv").write_text(pairs)
    return read_measurements(folder / "pairs.csv")


def written(folder: Path, name: str, text: str) -> Path:
    """Write a file."""
    path = folder / name
    path.write_text(text)
    return path


def test_lucid_by_hand(tmp_path: Path) -> None:
    """Singles become profiles, pairs slowdowns for each side; equal jobs are equally slow; 0 cannot share."""
    found = lucid(tmp_path)
    held = found.profiles
    assert [p.name for p in held.profiles] == [PPO, V32, V64]
    vgg = held.profiles[1]
    assert vgg.epoch_times == (EpochTime(gpu_type="RTX3090", gpus=1, epoch_time_s=EPOCH_S),)
    # 50 % and 2,048 MiB.
    assert (vgg.gpu_util_mean, vgg.gpu_memory_peak_gib) == (0.5, 2.0)
    # Speeds 0.5 and 0.8 are factors 2 and 1.25; of 0.625 and 0.64 of two equal jobs the lower stands: 1.6.
    assert held.truth == Interference(
        measured=(
            MeasuredSlowdown(kinds=(V32, V64), factors=(1.25, 2.0)),
            MeasuredSlowdown(kinds=(V32, V32), factors=(1.6, 1.6)),
        ),
        cannot_share=((PPO, V32),),
        model="pair-product",
    )
    assert [(u.kinds, u.load, u.memory_gib) for u in held.usage] == [
        ((V32, V32), 0.95, 4.0),
        ((V32, V64), 0.99, 5.0),
    ]
    assert found.model == {PPO: "PPO", V32: "VGG", V64: "VGG"}
    assert found.accounts() == {
        "read": 6,
        "taken": 6,
        "repaired": {"equal-jobs-differ": 1},
        "refused": {},
    }
    assert sorted(found.speeds()) == [(V32, V32, 0.625), (V32, V64, 0.8), (V64, V32, 0.5)]


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ("VGG,CIFAR,1,32,0,x,VGG,CIFAR,1,64,1,1,9,9,9", "bad-speed"),
        ("VGG,CIFAR,1,32,0,-0.5,VGG,CIFAR,1,64,1,1,9,9,9", "bad-speed"),
        ("VGG,CIFAR,1,32,0,,VGG,CIFAR,1,64,1,1,9,9,9", "bad-speed"),
        ("VGG,CIFAR,1,32,0,1,TD3,Biped,1,64,1,1,9,9,9", "no-single"),
        ("VGG,CIFAR,2,32,0,1,VGG,CIFAR,1,64,1,1,9,9,9", "bad-gpus"),
        ("VGG,CIFAR,1,32,2,1,VGG,CIFAR,1,64,1,1,9,9,9", "bad-model"),
        (",CIFAR,1,32,0,1,VGG,CIFAR,1,64,1,1,9,9,9", "bad-model"),
        ("VGG,CIFAR,1,None,0,1,VGG,CIFAR,1,64,1,1,9,9,9", "bad-model"),
        ("VGG,CIFAR,1,32,0,1,VGG,CIFAR,1,64,1,1,null,9,9", "bad-usage"),
        ("VGG,CIFAR,1,32,0,1,VGG", "wrong-column-count"),
    ],
)
def test_lucid_bad_rows_are_refused_and_counted(tmp_path: Path, row: str, reason: str) -> None:
    """Each bad row is refused for its reason, listed with its line, and the others are taken."""
    found = lucid(tmp_path, PAIRS + row + "\n")
    assert found.refused == {reason: 1}
    assert (found.read, found.taken) == (7, 6)
    (note,) = [n for n in found.details if n.action == "refused"]
    assert (note.line, Path(note.file).name) == (5, "pairs.csv")
    assert found.profiles.truth == lucid(tmp_path).profiles.truth


def test_lucid_repairs(tmp_path: Path) -> None:
    """A pair given twice, from either side, keeps the lower speeds; utilisation above 100 % is 100 %."""
    again = PAIRS + "VGG,CIFAR,1,32,0,0.9,VGG,CIFAR,1,64,1,0.4,120,30,6144\n"
    found = lucid(tmp_path, again)
    assert found.repaired == {"clipped-utilisation": 1, "duplicate-pair": 1, "equal-jobs-differ": 1}
    (row,) = [m for m in found.profiles.truth.measured if m.kinds == (V32, V64)]
    # V32: the lower of 0.8 and 0.9; V64: the lower of 0.5 and 0.4. Load and memory: the larger.
    assert row.factors == (1.25, 2.5)
    (usage,) = [u for u in found.profiles.usage if u.kinds == (V32, V64)]
    assert (usage.load, usage.memory_gib) == (1.0, 6.0)


def test_lucid_singles_by_themselves_and_missing(tmp_path: Path) -> None:
    """Singles alone give profiles that take turns; pairs without singles are an error."""
    with pytest.raises(TraceError, match=r"expected the measurements alone in single_data\.csv beside it"):
        lucid(tmp_path, alone=None)
    assert lucid(tmp_path, pairs=None).profiles.truth.measured == ()
    with pytest.raises(TraceError, match=r"expected at least one workload measured alone, got no row"):
        lucid(tmp_path, alone=ALONE.splitlines()[0])


def test_zeus_by_hand(tmp_path: Path) -> None:
    """Curves by workload and GPU; epoch time under the highest limit; utilisation from the power there."""
    first = written(tmp_path, "summary_power_v100.csv", ZEUS)
    found = read_measurements(first)
    held = found.profiles
    assert [p.name for p in held.profiles] == [
        "net (cifar, batch size 32, adam)",
        "net (cifar, batch size 64, adam)",
    ]
    small = held.profiles[0]
    # 120 W of 150 W, 30 W idle: (120 - 30) / (150 - 30) = 0.75. Memory 0.45 of 16 GiB = 7.2.
    assert (small.gpu_util_mean, small.gpu_memory_peak_gib) == (0.75, pytest.approx(7.2))
    assert small.epoch_times == (EpochTime(gpu_type="V100", gpus=1, epoch_time_s=10.0),)
    assert held.power_limits[0] == PowerLimit(
        profile=small.name, gpu_type="V100", limit_w=100.0, epoch_time_s=12.0, power_w=90.0
    )
    # 151.5 W under a limit of 150 W is kept as measured, and counted.
    assert found.accounts() == {"read": 3, "taken": 3, "repaired": {"power-above-limit": 1}, "refused": {}}
    # A second GPU type adds an epoch time and a curve to the same profile; utilisation is that of V100.
    second = written(tmp_path, "summary_power_a40.csv", ZEUS.replace("150,10,", "150,5,"))
    both = read_measurements([second, first]).profiles
    assert both.profiles[0].epoch_times == (
        EpochTime(gpu_type="V100", gpus=1, epoch_time_s=10.0),
        EpochTime(gpu_type="A40", gpus=1, epoch_time_s=5.0),
    )
    assert len(both.power_limits) == 6


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ("cifar,net,8,adam,100,12,0", "bad-average-power"),
        ("cifar,net,8,adam,0,12,9", "bad-power-limit"),
        ("cifar,net,8,adam,100,null,9", "bad-time-per-epoch"),
        ("cifar,,8,adam,100,12,9", "bad-model"),
        ("cifar,net,0,adam,100,12,9", "bad-model"),
        ("cifar,net,32,adam,100,12,90", "duplicate"),
    ],
)
def test_zeus_bad_rows(tmp_path: Path, row: str, reason: str) -> None:
    """Powers of 0, missing times and repeated points are refused for their reason."""
    found = read_measurements(written(tmp_path, "v100.csv", ZEUS + row + "\n"))
    assert found.refused == {reason: 1}
    assert (
        found.profiles.power_limits
        == read_measurements(written(tmp_path, "v100.csv", ZEUS)).profiles.power_limits
    )


def test_zeus_needs_the_gpu_type(tmp_path: Path) -> None:
    """A name without the GPU type is an error; the type may be given instead."""
    path = written(tmp_path, "powers.csv", ZEUS)
    with pytest.raises(TraceError, match="expected the GPU type in the name of the file, v100 or a40"):
        read_measurements(path)
    assert read_measurements(path, gpu_type="P100").profiles.power_limits[0].gpu_type == "P100"


def test_gavel_by_hand(tmp_path: Path) -> None:
    """Kinds are model and GPU count; pairs are asymmetric; a 0 cannot share; models have no batch size."""
    found = read_measurements(written(tmp_path, "table.csv", GAVEL))
    held = found.profiles
    lm = "LM (batch size 5) x1"
    assert [p.name for p in held.profiles] == ["A3C x1", lm, "LM (batch size 5) x2"]
    # Speeds 8/10 and 5/20.
    assert held.truth.measured == (MeasuredSlowdown(kinds=("A3C x1", lm), factors=(1.25, 4.0)),)
    assert held.truth.cannot_share == (("A3C x1", "A3C x1"), ("LM (batch size 5) x2", "LM (batch size 5) x2"))
    assert set(found.model.values()) == {"A3C", "LM"}
    assert held.profiles[2].epoch_time_s("V100", 2) == EPOCH_S
    assert held.profiles[2].epoch_time_s("V100", 1) is None


def test_gavel_json_has_all_gpu_types(tmp_path: Path) -> None:
    """Epoch times of other GPU types follow their throughput; pairs are those of V100."""
    key = "('A3C', 1)"
    table = {"k80": {key: {"null": 2.5}}, "v100": {key: {"null": 10.0, key: [5.0, 5.0]}}}
    held = read_measurements(written(tmp_path, "t.json", json.dumps(table))).profiles
    assert held.profiles[0].epoch_times == (
        EpochTime(gpu_type="V100", gpus=1, epoch_time_s=EPOCH_S),
        EpochTime(gpu_type="K80", gpus=1, epoch_time_s=4 * EPOCH_S),
    )
    assert held.truth.measured == (MeasuredSlowdown(kinds=("A3C x1", "A3C x1"), factors=(2.0, 2.0)),)
    only = read_measurements(tmp_path / "t.json", gpu_type="K80").profiles
    assert (only.profiles[0].epoch_times[0].gpu_type, only.truth.measured) == ("K80", ())


def test_formats_are_told_and_named(tmp_path: Path) -> None:
    """The first lines tell the format, compressed or not; a wrong name lists the known."""
    packed = tmp_path / "table.csv.gz"
    packed.write_bytes(gzip.compress(b"\xef\xbb\xbf" + GAVEL.replace("\n", "\r\n").encode()))
    assert len(read_measurements(packed).profiles.profiles) == 3
    with pytest.raises(
        TraceError, match="tell no format of measurements; expected one of profiles, csv, gavel"
    ):
        read_measurements(written(tmp_path, "x.csv", "a,b\n1,2\n"))
    with pytest.raises(
        UnknownNameError, match="unknown format of measurements 'x'; known are: profiles, csv"
    ):
        read_measurements(packed, "x")
    with pytest.raises(TraceError, match="damaged or cut short"):
        read_measurements(written_bytes(tmp_path / "cut.gz", packed.read_bytes()[:40]))
    with pytest.raises(EacoError):
        read_measurements(written(tmp_path, "empty.csv", ""))


def written_bytes(path: Path, data: bytes) -> Path:
    """Write bytes."""
    path.write_bytes(data)
    return path


FORMS = ("gavel", "lucid", "zeus", "csv", "profiles")
BYTES = st.one_of(
    st.binary(max_size=300),
    st.tuples(
        st.sampled_from([ALONE, PAIRS, ZEUS, GAVEL]).map(str.encode),
        st.integers(0, 400),
        st.binary(max_size=6),
    ).map(lambda x: x[0][: x[1]] + x[2] + x[0][x[1] + 1 :]),
)


def import_bytes(folder: Path, form: str, data: bytes) -> None:
    """Read bytes as a measured table; anything but an error of the toolkit gets through."""
    (folder / "single_data.csv").write_text(ALONE)
    path = written_bytes(folder / "v100.csv", data)
    try:
        found = read_measurements(path, form)
    except EacoError:
        return
    assert found.read == found.taken + sum(found.refused.values())


@given(st.sampled_from(FORMS), BYTES)
def test_fuzzed_bytes_raise_documented_errors_only(
    tmp_path_factory: pytest.TempPathFactory, form: str, data: bytes
) -> None:
    """Whatever the bytes: measurements, or an error of the toolkit."""
    import_bytes(tmp_path_factory.getbasetemp(), form, data)


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_many_fuzzed_bytes(tmp_path: Path, form: str) -> None:
    """The same for 5,000 inputs of each format."""

    @settings(max_examples=5000, suppress_health_check=list(HealthCheck), deadline=None)
    @given(BYTES)
    def run(data: bytes) -> None:
        import_bytes(tmp_path, form, data)

    run()


@pytest.mark.parametrize(
    ("file", "counts"),
    [
        ("lucid/colocate_info.csv", (66, 1045, 0, 0)),
        ("gavel/v100_throughputs.csv", (83, 330, 591, 0)),
        ("zeus/summary_power_v100.csv", (68, 0, 0, 476)),
        ("zeus/summary_power_a40.csv", (53, 0, 0, 453)),
    ],
)
def test_real_tables(data_dir: Path, file: str, counts: tuple[int, ...]) -> None:
    """Every row of the real tables is taken; profiles, pairs, pairs that cannot share, power limits."""
    found = read_measurements(data_dir / file)
    held = found.profiles
    got: tuple[Any, ...] = (
        len(held.profiles),
        len(held.truth.measured),
        len(held.truth.cannot_share),
        len(held.power_limits),
    )
    assert got == counts
    assert found.refused == {}


def test_own_files_are_read_one_at_a_time(tmp_path: Path) -> None:
    """Files of eaco-opt name their GPU types themselves."""
    text = (
        "name,gpu_type,epoch_time_s,gpu_util_mean,gpu_util_peak,gpu_memory_mean_gib,gpu_memory_peak_gib,"
        "cpu_share\na,V100,10,0.1,0.2,1,2,0\n"
    )
    path = written(tmp_path, "own.csv", text)
    assert read_measurements(path).model == {"a": "a"}
    with pytest.raises(TraceError, match="expected one file of profiles, got 2"):
        read_measurements([path, path])
    with pytest.raises(EacoError, match="states its GPU types itself"):
        read_measurements(path, gpu_type="A40")
    with pytest.raises(DomainError, match="line 2"):
        read_measurements(written(tmp_path, "own.csv", text.replace("0.1,", "10,")))
    assert "csv" in MEASUREMENTS
