"""docs/instances.md says what the code does: names, options, defaults, reasons, assumed figures."""

from __future__ import annotations

import dataclasses
import inspect
import re
from pathlib import Path

import pytest

from instances import GENERATORS, READERS, ImportOptions, generate
from instances.generators.common import DEFAULT_EPOCHS, DEFAULT_LOAD, DEFAULT_SLACK
from instances.generators.production import stored_fit
from instances.readers import (
    acme,
    elasticflow,
    lucid,
    muri,
    native,
    philly_csv,
    pollux,
    tiresias,
)
from instances.readers import alibaba_openb as openb
from instances.readers import alibaba_pai as pai
from instances.readers.gavel import LAYOUTS, UNKNOWN_UTILISATION, UTILISATION, UTILISATION_CAP
from instances.readers.options import DEFAULT_NODES
from instances.readers.table import LARGEST_SHARE


@pytest.fixture(scope="module")
def page(root: Path) -> str:
    """Text of the page."""
    return (root / "docs" / "instances.md").read_text(encoding="utf-8")


def test_every_name_is_on_the_page(page: str) -> None:
    """Families, readers, options of both and their defaults are all named."""
    fields = [f.name for f in dataclasses.fields(ImportOptions)]
    parameters = [p for p in inspect.signature(generate).parameters if p != "family"]
    for name in (*GENERATORS, *READERS, *fields, *parameters):
        assert f"`{name}`" in page, name
    assert f"| `load` | {DEFAULT_LOAD} |" in page
    assert f"| `slack` | {DEFAULT_SLACK[0]}, {DEFAULT_SLACK[1]} | deadline = release + slack * 1.1" in page
    assert ImportOptions().slack == DEFAULT_SLACK
    assert f"| `epochs` | {DEFAULT_EPOCHS[0]}, {DEFAULT_EPOCHS[1]} |" in page
    assert f"| `nodes`, `gpus_per_node` | {DEFAULT_NODES}, 8 |" in page


def test_every_reason_is_on_the_page(page: str, root: Path) -> None:
    """Each reason under which code counts rows is explained or listed."""
    reasons: set[str] = set()
    for path in [root / "instances" / "selection.py", *sorted((root / "instances" / "readers").glob("*.py"))]:
        source = path.read_text(encoding="utf-8")
        reasons |= set(re.findall(r'(?:REFUSED|REPAIRED), "([a-z0-9-]+)"', source))
        reasons |= set(re.findall(r'(?:refuse|repair)\(\s*(?:row(?:\.line)?,\s*)?"([a-z0-9-]+)"', source))
        reasons |= set(re.findall(r'"([a-z0-9-]+)" if (?:missing\(|column ==)', source))
        reasons |= set(re.findall(r'REFUSED, "([a-z0-9-]+)" if', source))
        reasons |= set(re.findall(r'unknown_reason="([a-z0-9-]+)"', source))
        reasons |= set(re.findall(r'^(?:AMBIGUOUS|SKIPPED) = "([a-z-]+)"', source, re.MULTILINE))
        reasons |= set(re.findall(r'if missing\(\w+\) else "([a-z-]+)"', source))
    assert {"no-throughput", "too-large", "clipped-gpus", "ambiguous-local-time", "bad-gpus"} <= reasons
    assert len(reasons) >= 25
    assert not {r for r in reasons if f"`{r}`" not in page}


def test_utilisation_table(page: str) -> None:
    """The printed utilisations are those in the code, all of them."""
    section = page[page.index("| model | utilisation |") : page.index("### 2.2")]
    rows = re.findall(r"\| ([A-Z][^|]*?) \| ([0-9.]+) ", section)
    assert {model: float(value) for model, value in rows} == dict(UTILISATION)
    assert f"at most {UTILISATION_CAP}" in page
    assert f"| the same, of other models | {UNKNOWN_UTILISATION} |" in page


def test_other_assumed_figures(page: str) -> None:
    """Memory, CPU and epochs of native jobs, and the figures quoted from the production fit."""
    assert f"{native.MEMORY_SHARE} of the cluster's smallest GPU" in page
    assert f"| CPU share of a whole node | {native.CPU_SHARE} |" in page
    assert f"equal epochs of about {native.EPOCH_TARGET_S:g} s" in page
    fit = stored_fit()
    assert f"intraclass correlation {fit.duration_correlation}" in page
    assert f"standard deviation {fit.noise_sd:.2f}, correlation {fit.noise_correlation}" in page
    assert f"exponential with mean {fit.gap_s:.1f} s" in page
    shares = dict(zip(fit.gpu_counts, [n / sum(fit.gpu_jobs) for n in fit.gpu_jobs], strict=True))
    for gpus, text in ((1, "one GPU"), (2, "two"), (4, "four"), (8, "eight")):
        assert f"{100 * shares[gpus]:.1f} % {text}" in page
    assert f"{100 * sum(x for g, x in shares.items() if g > 8):.1f} % more" in page


def test_layouts_of_gavel(page: str) -> None:
    """The column numbers of the page are those that the reader reads."""
    for field, title in (
        ("model", "job type"),
        ("steps", "total steps"),
        ("arrival", "arrival"),
        ("gpus", "GPUs (scale factor)"),
        ("priority", "priority weight"),
        ("slo", "SLO"),
    ):
        numbers = [str(layout[field] + 1) if field in layout else "" for layout in LAYOUTS.values()]
        assert f"| {title} | {' | '.join(numbers)} |".replace("|  |", "| |") in page, title


def test_columns_of_readers(page: str) -> None:
    """Every column that a reader of tables reads is in the dictionary of its section."""
    read = {
        "acme-2024": (*acme.REQUIRED, *acme.OPTIONAL),
        "alibaba-openb-2023": (*openb.REQUIRED, *openb.OPTIONAL, *openb.NODE_COLUMNS),
        "alibaba-pai-2020": (*pai.JOB, *pai.TASK, *pai.INSTANCE),
        "elasticflow": (*elasticflow.REQUIRED, *elasticflow.OPTIONAL),
        "lucid": (*lucid.REQUIRED, *lucid.OPTIONAL),
        "muri": (*muri.REQUIRED, *muri.OPTIONAL),
        "philly-csv": (*philly_csv.REQUIRED, *philly_csv.OPTIONAL),
        "pollux": (*pollux.REQUIRED, *pollux.OPTIONAL),
        "tiresias": (*tiresias.REQUIRED, *tiresias.OPTIONAL),
    }
    sections = {
        m[1]: m[2] for m in re.finditer(r"^### [0-9.]+ `(.*?)`\n(.*?)(?=^##)", page, re.MULTILINE | re.DOTALL)
    }
    for name, columns in read.items():
        assert not {c for c in columns if f"`{c}`" not in sections[name]}, name
    assert f"{LARGEST_SHARE} f, mean and peak" in page
    for model, (memory_gib, idle_w, full_w) in openb.GPU.items():
        plain = model.removesuffix("M16").removesuffix("M32")
        assert re.search(rf"{plain}[A-Z0-9 a-z]* {idle_w:g}\s+and\s+{full_w:g}\s+W", page), model
        assert f"{memory_gib:g}" in sections["alibaba-openb-2023"]
