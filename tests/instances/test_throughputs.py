"""Gavel's throughput tables: both forms, what a zero means, what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from eaco_opt.errors import TraceError
from instances.readers.text import TraceText
from instances.readers.throughputs import parse_throughputs, read_throughputs

A, B = "('ResNet-18 (batch size 16)', 1)", "('LM (batch size 5)', 1)"
KEY_A, KEY_B = ("ResNet-18 (batch size 16)", 1), ("LM (batch size 5)", 1)


def parse(document: Any) -> Any:
    """Throughputs of a JSON document."""
    return parse_throughputs(TraceText.of(json.dumps(document), file="t.json"))


def test_json_and_csv_hold_the_same() -> None:
    """The two forms of the same three measurements give equal tables."""
    from_json = parse({"V100": {A: {"null": 30.0, A: [20.0, 20.0], B: [15.0, 50.0]}, B: {"null": 100.0}}})
    from_csv = parse_throughputs(
        TraceText.of(
            "model,gpus,partner_model,partner_gpus,steps_per_s,partner_steps_per_s\n"
            "ResNet-18 (batch size 16),1,,,30.0,\n"
            "ResNet-18 (batch size 16),1,ResNet-18 (batch size 16),1,20.0,20.0\n"
            "ResNet-18 (batch size 16),1,LM (batch size 5),1,15.0,50.0\n"
            "LM (batch size 5),1,,,100.0,\n"
        )
    )
    assert from_json == from_csv
    table = from_json["v100"]
    assert table.alone == {KEY_A: 30.0, KEY_B: 100.0}
    # The pair is kept once, in order of name: LM first.
    assert table.pairs == {(KEY_A, KEY_A): (20.0, 20.0), (KEY_B, KEY_A): (50.0, 15.0)}
    assert table.conflicts == 0


def test_a_pair_given_twice_keeps_the_slower_numbers() -> None:
    """A-with-B and B-with-A may differ; the lower throughput of each side stands, and it is counted."""
    table = parse({"v100": {A: {"null": 30, B: [15.0, 50.0]}, B: {"null": 100, A: [40.0, 16.0]}}})["v100"]
    assert table.pairs == {(KEY_B, KEY_A): (40.0, 15.0)}
    assert table.conflicts == 1


def test_two_equal_jobs_have_one_speed() -> None:
    """A model paired with itself takes the lower of two different throughputs."""
    table = parse({"v100": {A: {"null": 30, A: [15.0, 20.0]}}})["v100"]
    assert table.pairs == {(KEY_A, KEY_A): (15.0, 15.0)}
    assert table.conflicts == 1


def test_alone_at_zero_counts_as_unmeasured() -> None:
    """A throughput of 0 alone says that the model was not measured there."""
    assert parse({"v100": {A: {"null": 0}}})["v100"].alone == {}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"t: expected a table of throughputs, got an empty file"),
        ("{", r"t: expected Gavel's throughput JSON, got "),
        ("[" * 100000, r"t: expected Gavel's throughput JSON"),
        ("[]", r"t: expected an object by GPU type, got '\[\]'"),
        ("{}", r"t: expected an object by GPU type, got '\{\}'"),
        ('{"v100": 3}', r"t: 'v100': expected an object by \(model, GPUs\), got '3'"),
        (
            '{"v100": {"ResNet": {}}}',
            r"expected a key like \"\('ResNet-18 \(batch size 16\)', 1\)\", got 'ResNet'",
        ),
        ('{"v100": {"(\'A\', 0)": {}}}', r"expected a key like"),
        ('{"v100": {"(\'A\', 1)": 3}}', r"expected an object by partner, got '3'"),
        ('{"v100": {"(\'A\', 1)": {"null": -1}}}', r"expected a throughput >= 0 \[steps/s\], got '-1'"),
        ('{"v100": {"(\'A\', 1)": {"null": NaN}}}', r"got NaN is no throughput"),
        ('{"v100": {"(\'A\', 1)": {"null": "9"}}}', r"expected a throughput >= 0"),
        ('{"v100": {"(\'A\', 1)": {"(\'A\', 1)": [1]}}}', r"expected a pair of throughputs, got '\[1\]'"),
        ('{"v100": {}, "v100": {}}', r"key 'v100' occurs twice"),
        (
            "model,gpus\nA,1\n",
            r"t:1: expected the columns model, gpus, partner_model, .*\(or Gavel's JSON form\)",
        ),
    ],
)
def test_unusable_tables_are_refused_in_words(text: str, message: str) -> None:
    """A table that cannot be understood is an error with file and place; it never becomes a part of one."""
    with pytest.raises(TraceError, match=message):
        parse_throughputs(TraceText.of(text, file="t"))


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("A,1,,,x,", r"t:2: steps_per_s must be a throughput >= 0 \[steps/s\], got 'x'"),
        ("A,1,,,-1,", r"t:2: steps_per_s: expected a throughput >= 0"),
        ("A,0,,,1,", r"t:2: gpus must be a whole number >= 1, got '0'"),
        ("A,1,B,,1,1", r"t:2: partner_gpus must be a whole number >= 1, got ''"),
        ("A,1,B,1,1,", r"t:2: partner_steps_per_s must be a throughput"),
        (",1,,,1,", r"t:2: model must be a name, got nothing"),
        ("A,1", r"t:2: expected 6 columns, got 2"),
        ('"A,1,,,1,', r"t:2: expected a line of CSV"),
    ],
)
def test_unusable_rows_of_a_csv_table_are_named(row: str, message: str) -> None:
    """Each broken row of the CSV form is an error with file and line."""
    header = "model,gpus,partner_model,partner_gpus,steps_per_s,partner_steps_per_s\n"
    with pytest.raises(TraceError, match=message):
        parse_throughputs(TraceText.of(header + row + "\n", file="t"))


def test_the_measured_table(data_dir: Path) -> None:
    """Gavel's V100 table: 83 alone, 1,759 pair entries, 1,123 with a zero; both sides agree."""
    tables = read_throughputs(data_dir / "gavel" / "v100_throughputs.csv")
    assert set(tables) == {"v100"}
    table = tables["v100"]
    assert len(table.alone) == 83
    entries = sum(1 if a == b else 2 for a, b in table.pairs)
    zeros = sum(1 if a == b else 2 for (a, b), steps in table.pairs.items() if 0.0 in steps)
    assert (entries, zeros, table.conflicts) == (1759, 1123, 0)
    # Pairs exist for equal GPU counts only, and those of more than one GPU all hold a zero.
    assert all(a[1] == b[1] for a, b in table.pairs)
    assert all(0.0 in steps for (a, _), steps in table.pairs.items() if a[1] > 1)
