"""``profiles import``, ``--from`` and ``generate --profiles``: what is read, written, shown and refused."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from eaco_opt.errors import DomainError, EacoError, FormatError
from eaco_opt.io import (
    profiles_from_csv,
    profiles_from_json,
    profiles_to_json,
    read_instance,
    read_profiles,
    write_profiles,
)
from eaco_opt.profile import EpochTime, Profile
from experiments.cli import main

HEADER = (
    "name,kind,gpu_type,gpus,epoch_time_s,gpu_util_mean,gpu_util_peak,"
    "gpu_memory_mean_gib,gpu_memory_peak_gib,cpu_share"
)
CSV = f"""{HEADER}
bert,,V100,8,5400,0.625,0.97,11.5,14,0.12
bert,,V100,,7200,0.625,0.97,11.5,14,0.12
unet,cnn,V100,,900,0.3,0.5,6,7,0.2
"""
BERT = Profile(
    name="bert",
    epoch_times=(
        EpochTime(gpu_type="V100", gpus=8, epoch_time_s=5400.0),
        EpochTime(gpu_type="V100", epoch_time_s=7200.0),
    ),
    gpu_util_mean=0.625,
    gpu_util_peak=0.97,
    gpu_memory_mean_gib=11.5,
    gpu_memory_peak_gib=14.0,
    cpu_share=0.12,
)
UNET = Profile(
    name="unet",
    kind="cnn",
    epoch_times=(EpochTime(gpu_type="V100", epoch_time_s=900.0),),
    gpu_util_mean=0.3,
    gpu_util_peak=0.5,
    gpu_memory_mean_gib=6.0,
    gpu_memory_peak_gib=7.0,
    cpu_share=0.2,
)


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Any:
    """Run the program in this process; returns exit code, standard output and standard error."""

    def call(*words: object) -> tuple[int, str, str]:
        code = main([str(w) for w in words])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


@pytest.fixture
def measured(tmp_path: Path) -> Path:
    """A file of measurements of two workloads."""
    path = tmp_path / "measured.csv"
    path.write_text(CSV, encoding="utf-8")
    return path


def test_rows_become_profiles() -> None:
    """Rows of one name are one profile; an empty kind is the name, an empty count any number."""
    assert profiles_from_csv(CSV) == (BERT, UNET)


def test_units_order_and_case_of_columns() -> None:
    """Hours and percent are read as decimals; columns come in any order; kind and gpus may be absent."""
    text = (
        "\ufeffCPU_share_pct,gpu_type,name,epoch_time_h,gpu_util_peak_pct,gpu_util_mean_pct,"
        "gpu_memory_peak_gib,gpu_memory_mean_gib\n\n 7 ,V100,a,0.1,55.1,35.7,2,1\n"
    )
    (found,) = profiles_from_csv(text)
    # 0.1 h = 360 s; in binary floats 35.7 * 0.01 and 55.1 * 0.01 are not 0.357 and 0.551.
    assert found.epoch_times == (EpochTime(gpu_type="V100", epoch_time_s=360.0),)
    assert found.demands() == (0.357, 0.551, 1.0, 2.0, 0.07)
    assert found.kind == "a"


HEAD = HEADER + "\n"
ROW = "a,,V100,8,100,0.4,0.6,5,6,0.1"


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        ("", FormatError, "m.csv: expected a header and a row for each measured workload, got an empty file"),
        (HEADER, FormatError, "m.csv: expected a header and a row .* got a header only"),
        (HEADER.replace("kind", "sort"), FormatError, "m.csv, line 1, column 2: unknown column 'sort'"),
        (HEADER.replace(",", ";"), FormatError, "line 1, column 1: unknown column .* by commas"),
        (HEADER.replace("kind", "cpu_share_pct"), FormatError, "line 1: columns .* both state cpu_share"),
        (
            HEADER.replace("epoch_time_s", "gpu_util_x").replace(",gpu_util_x", ""),
            FormatError,
            r"line 1: expected a header with the column\(s\) epoch_time_s or epoch_time_h, which are missing",
        ),
        (HEAD + f"{ROW},1", FormatError, "line 2: expected 10 values as in the header, got 11"),
        (HEAD + f"{ROW[1:]}", DomainError, "line 2, column 'name': name must be a non-empty .* got ''"),
        (HEAD + f"{ROW.replace('V100', '')}", DomainError, "line 2, column 'gpu_type': gpu_type must be"),
        (HEAD + f"{ROW.replace(',8,', ',0,')}", FormatError, "column 'gpus': expected a whole .* '0'"),
        (HEAD + f"{ROW.replace(',8,', ',8.0,')}", FormatError, "column 'gpus': .* got '8.0'"),
        (HEAD + f"{ROW.replace('100,0', '0,0')}", DomainError, "column 'epoch_time_s': .* above 0, got 0"),
        (HEAD + f"{ROW.replace('100,0', 'nan,0')}", FormatError, "'epoch_time_s': .* a number .* 'nan'"),
        (HEAD + f"{ROW.replace('100,0', '1e999,0')}", DomainError, "'epoch_time_s': .* finite .* got inf"),
        (HEAD + f"{ROW.replace(',5,', ',,')}", FormatError, "'gpu_memory_mean_gib': .* got an empty cell"),
        (HEAD + f"{ROW.replace(',5,', ',-5,')}", DomainError, "'gpu_memory_mean_gib': .* at least 0, got"),
        (
            HEAD + f"{ROW.replace('0.4', '40')}",
            DomainError,
            "line 2, column 'gpu_util_mean': expected a fraction from 0 to 1, got '40'; name the column "
            "gpu_util_mean_pct if it is in percent",
        ),
        (
            f"{HEADER.replace('gpu_util_peak', 'gpu_util_peak_pct')}\n{ROW.replace('0.6', '101')}",
            DomainError,
            "column 'gpu_util_peak_pct': expected a percentage from 0 to 100, got '101'",
        ),
        (
            HEAD + f"{ROW.replace('0.4', '0.7')}",
            DomainError,
            "column 'gpu_util_mean': expected at most the value of 'gpu_util_peak', 0.6, got 0.7",
        ),
        (
            HEAD + f"{ROW}\n\n{ROW.replace('8', '4').replace(',6,', ',7,')}",
            DomainError,
            "line 4, column 'gpu_memory_peak_gib': expected 6.0 as in line 2 of profile 'a', got '7'",
        ),
        (HEAD + f"{ROW}\n{ROW.replace('a,', 'a,b', 1)}", DomainError, "3, column 'kind': expected 'a' as"),
        (
            HEAD + f"{ROW}\nb,a{ROW.replace('0.4', '0.5')[2:]}",
            DomainError,
            "line 3, column 'gpu_util_mean': expected 0.4 as in line 2 of profile 'a' of the same kind 'a'",
        ),
        (HEAD + f"{ROW}\n{ROW}", DomainError, "line 3, column 'gpus': .* one row .* 'a' on 8 GPU"),
        (f'{HEADER}\n"a', FormatError, "line 2: not valid CSV"),
    ],
)
def test_mistakes_are_placed(text: str, kind: type[EacoError], message: str) -> None:
    """Each mistake is refused with file, line and column, with what was expected and what was got."""
    with pytest.raises(kind, match=message) as caught:
        profiles_from_csv(text, source="m.csv")
    assert str(caught.value).startswith("m.csv")


def test_json_is_undone_by_reading(tmp_path: Path) -> None:
    """Reading undoes writing; a file of another format, a twin and an empty list are refused."""
    text = profiles_to_json([BERT, UNET])
    assert profiles_from_json(text) == (BERT, UNET)
    write_profiles(tmp_path / "p.json.gz", [UNET])
    assert read_profiles(tmp_path / "p.json.gz") == (UNET,)
    with pytest.raises(FormatError, match=r"ends in \.json"):
        write_profiles(tmp_path / "p.csv", [UNET])
    with pytest.raises(FormatError, match=r'p\.json, line 2, format: expected "format": "eaco-opt/profiles"'):
        profiles_from_json(text.replace("eaco-opt/profiles", "eaco-opt/instance"), source="p.json")
    with pytest.raises(DomainError, match=r"p\.json, line 4, profiles: .*profile 'bert' occurs twice"):
        profiles_from_json(text.replace('"name": "unet"', '"name": "bert"'), source="p.json")
    with pytest.raises(DomainError, match="share the kind 'bert' but differ"):
        profiles_from_json(text.replace('"kind": "cnn"', '"kind": "bert"'))
    with pytest.raises(DomainError, match="at least one profile, got none"):
        profiles_to_json([])


def test_import_writes_and_shows(run: Any, measured: Path, tmp_path: Path) -> None:
    """The table and the document hold what the file states; an existing output is kept without --force."""
    out = tmp_path / "own.json"
    code, printed, err = run("profiles", "import", measured, "--out", out)
    assert (code, err) == (0, "")
    assert re.search(r"bert +bert +V100 +8 +1.5000 +62.50 / 97.00", printed)
    assert re.search(r"bert +bert +V100 +any +2.0000", printed)
    assert f"written to {out}" in printed
    assert json.loads(out.read_text())["format"] == "eaco-opt/profiles"
    assert read_profiles(out) == (BERT, UNET) == read_profiles(measured)
    before = out.read_bytes()
    code, _, err = run("profiles", "import", measured, "--out", out)
    assert (code, "own.json" in err, out.read_bytes()) == (2, True, before)
    code, printed, _ = run("profiles", "import", measured, "--out", out, "--force", "--json")
    document = json.loads(printed)
    assert (code, document["file"], out.read_bytes()) == (0, str(out), before)
    assert document["profiles"] == json.loads(before)["profiles"]


def test_import_without_out(run: Any, measured: Path) -> None:
    """Without --out a note says that nothing was kept; --quiet leaves it out."""
    code, printed, err = run("profiles", "import", measured)
    assert (code, err) == (0, "the profiles were not kept; give --out FILE\n")
    assert run("profiles", "import", measured, "--quiet") == (0, printed, "")


def test_bad_file_leaves_no_output(run: Any, measured: Path, tmp_path: Path) -> None:
    """A mistake ends with code 2, the place of it, and no file; so does a file that is missing."""
    measured.write_text(CSV.replace("0.3,", "30,"), encoding="utf-8")
    code, printed, err = run("profiles", "import", measured, "--out", tmp_path / "own.json")
    assert (code, printed, (tmp_path / "own.json").exists()) == (2, "", False)
    assert "measured.csv, line 4, column 'gpu_util_mean': expected a fraction from 0 to 1, got '30'" in err
    code, _, err = run("profiles", "import", tmp_path / "none.csv")
    assert code != 0
    assert "none.csv" in err
    assert "Traceback" not in err


def test_list_and_show_from_a_file(run: Any, measured: Path, tmp_path: Path) -> None:
    """--from takes the written file and the CSV; it excludes --instance; unknown names list the known."""
    write_profiles(tmp_path / "own.json", [BERT, UNET])
    for path in (measured, tmp_path / "own.json"):
        code, printed, _ = run("profiles", "list", "--from", path, "--json")
        assert (code, [p["name"] for p in json.loads(printed)["profiles"]]) == (0, ["bert", "unet"])
        code, printed, _ = run("profiles", "show", "unet", "--from", path, "--json")
        assert [p["kind"] for p in json.loads(printed)["profiles"]] == ["cnn"]
    code, _, err = run("profiles", "show", "AlexNet", "--from", measured)
    assert (code, "unknown profile 'AlexNet'; known are: bert, unet" in err) == (2, True)
    code, _, err = run("profiles", "list", "--from", measured, "--instance", measured)
    assert (code, "exclude each other" in err) == (2, True)


def test_generate_from_a_file(run: Any, measured: Path, tmp_path: Path) -> None:
    """CSV to instance to results: jobs run the user's own models, in the shares asked for."""
    own, made = tmp_path / "own.json", tmp_path / "made.json"
    assert run("profiles", "import", measured, "--out", own)[0] == 0
    words = ("generate", "whole-node", "--jobs", 6, "--nodes", 2, "--profiles", own, "--mix", "unet=1")
    code, _, err = run(*words, "--out", made, "--json")
    assert (code, err) == (0, "")
    instance = read_instance(made)
    assert {j.profile for j in instance.jobs} == {"unet"}
    assert instance.profiles == (BERT, UNET)
    code, printed, _ = run("compare", made, "--methods", "fifo,eaco", "--json")
    assert (code, len(json.loads(printed)["rows"])) == (0, 2)
    code, _, err = run(
        "generate", "mixed", "--jobs", 6, "--nodes", 2, "--profiles", own, "--mix", "AlexNet=1"
    )
    assert (code, "unknown model 'AlexNet' in mix; known are: bert, unet" in err) == (2, True)
