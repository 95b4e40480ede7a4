"""The data dictionary docs/outputs.md names every column that is written, and none that is not."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from experiments.benchmarks import COLUMNS
from experiments.certify import COLUMNS as CERTIFY_COLUMNS
from experiments.commands.explain import KEYS as EXPLAIN_KEYS
from experiments.commands.solve import KEYS
from experiments.compare import RELATIVE
from experiments.describe import WORKLOAD_COLUMNS
from experiments.exact_bench import COLUMNS as EXACT_COLUMNS
from experiments.frontier import CURVE_COLUMNS as FRONTIER_COLUMNS
from experiments.frontier import POINT_COLUMNS, WEIGHT_COLUMNS
from experiments.gap import COLUMNS as GAP_COLUMNS
from experiments.predictors import COLUMNS as SCORE_COLUMNS
from experiments.predictors import PREDICTIONS
from experiments.scale_bench import COLUMNS as SCALE_COLUMNS
from experiments.tables import ACTIVE_COLUMNS, JOB_COLUMNS, NODE_COLUMNS, ROW_COLUMNS, SEGMENT_COLUMNS
from instances.library import COLUMNS as LIBRARY_COLUMNS

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = (DOCS / "outputs.md").read_text(encoding="utf-8")


def columns_after(words: str, page: str = PAGE) -> list[str]:
    """Return the names in the first column of the first table after some words."""
    assert page.count(words) >= 1, f"the page has no {words!r}"
    lines = page[page.index(words) :].splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("|---"))
    names: list[str] = []
    for line in lines[start + 1 :]:
        if not line.startswith("|"):
            break
        names += re.findall(r"`([^`]+)`", line.split("|")[1])
    return names


@pytest.mark.parametrize(
    ("words", "columns"),
    [
        ("`jobs.csv`:", JOB_COLUMNS),
        ("`segments.csv`:", SEGMENT_COLUMNS),
        ("`active_nodes.csv`:", ACTIVE_COLUMNS),
        ("`nodes.csv`:", NODE_COLUMNS),
        ("`workload.csv`:", WORKLOAD_COLUMNS),
        ("`bench simulate`:", COLUMNS["simulate"]),
        ("`bench evaluate`:", COLUMNS["evaluate"]),
        ("`gap`: `rows`", GAP_COLUMNS),
        ("`bench exact`:", EXACT_COLUMNS),
        ("`bench build`:", COLUMNS["build"]),
        ("`bench scale`:", SCALE_COLUMNS),
        ("`certify`: `rows`", CERTIFY_COLUMNS),
        ("`points.csv`:", POINT_COLUMNS),
        ("`weights.csv`:", WEIGHT_COLUMNS),
        ("`frontier.csv`:", FRONTIER_COLUMNS),
        ("`predictors evaluate`: `rows`", SCORE_COLUMNS),
        ("`predictions.csv`:", PREDICTIONS),
    ],
)
def test_tables_are_listed_in_order(words: str, columns: tuple[str, ...]) -> None:
    """The dictionary of a table has exactly its columns, in their order."""
    assert columns_after(words) == list(columns)


def test_rows_are_listed_in_order() -> None:
    """`rows.csv` has the listed columns, then percentages for those marked with a percent sign."""
    listed = columns_after("### A row")
    assert [c for c in ROW_COLUMNS if not c.startswith("relative_")] == listed
    marked = re.findall(r"^\| `([a-z_]+)` % \|", PAGE, flags=re.MULTILINE)
    assert [f"relative_{m}_percent" for m in marked] == [c for c in ROW_COLUMNS if c.startswith("relative_")]
    assert marked == list(RELATIVE)


def test_keys_of_solve_are_listed() -> None:
    """Every key that a document of `solve` always has stands in its table."""
    assert set(KEYS) <= set(columns_after("## solve"))


def test_keys_of_explain_are_listed() -> None:
    """The table of `explain` has the keys of its document, in their order."""
    found = [k for k in columns_after("## explain") if k in EXPLAIN_KEYS]
    assert list(dict.fromkeys(found)) == list(EXPLAIN_KEYS)


def test_columns_of_the_library_are_listed() -> None:
    """docs/library.md lists the columns of `best_known.csv`, in their order."""
    page = (DOCS / "library.md").read_text(encoding="utf-8")
    assert columns_after("`best_known.csv` has a row", page) == list(LIBRARY_COLUMNS)
