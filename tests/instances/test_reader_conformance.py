"""Every registered reader, on its own sample and on what happens to files: any ending is in words."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eaco_opt.errors import EacoError, TraceError
from eaco_opt.impossible import impossible_jobs
from instances import READERS, ImportOptions, TraceImport, import_trace
from instances.readers import import_text
from instances.readers.text import TraceText

FUZZ = 5000 if os.environ.get("HYPOTHESIS_PROFILE") == "slow" else 50
THROUGHPUTS = (
    "model,gpus,partner_model,partner_gpus,steps_per_s,partner_steps_per_s\n"
    "ResNet-18 (batch size 16),1,,,20,\n"
    "LM (batch size 5),1,,,100,\n"
)
NAMES = READERS.names()
BY_LINES = [n for n in NAMES if getattr(READERS.get(n), "BY_LINES", True)]
MARKS = {"gavel": "\t", "swf": " "}
"""What stands between cells; a comma elsewhere."""


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Throughputs of the models in the sample of `gavel`."""
    path = tmp_path_factory.mktemp("table") / "throughputs.csv"
    path.write_text(THROUGHPUTS)
    return path


def options_of(name: str, table: Path, **more: Any) -> ImportOptions:
    """Options that the reader needs, and others."""
    if name == "gavel":
        more["throughputs"] = table
    return ImportOptions(**{"nodes": 2, **more})


def taken(name: str, data: str | bytes, table: Path, **more: Any) -> TraceImport:
    """Import a text of a reader's format, its companions being those of the sample."""
    reader = READERS.get(name)
    beside = {r: TraceText.of(t, file=r) for r, t in getattr(reader, "COMPANION_SAMPLES", {}).items()}
    text = TraceText.of(data, file="trace", companions=beside)
    return import_text(name, reader, text, options_of(name, table, **more))


@pytest.mark.parametrize("name", NAMES)
def test_the_sample_is_taken(name: str, table: Path) -> None:
    """Two rows, two jobs that can run, in both mappings; the metadata name trace, call and assumptions."""
    for mapping in ("native", "paper-cnn"):
        made = taken(name, READERS.get(name).SAMPLE, table, mapping=mapping)
        assert (made.read, made.taken, made.refused) == (2, 2, {})
        assert impossible_jobs(made.instance) == ()
        said = dict(made.instance.metadata)
        native = {"assumption.duration", "assumption.slowdown"} if mapping == "native" else set()
        assert {"source", "trace.sha256", "import.call", *native} <= set(said)


@pytest.mark.parametrize("name", NAMES)
def test_line_ends_marks_and_blank_lines_mean_nothing(name: str, table: Path) -> None:
    """CRLF, CR, a byte order mark, blank and comment lines: the same jobs."""
    sample = READERS.get(name).SAMPLE
    wanted = taken(name, sample, table).instance
    for data in (
        sample.replace("\n", "\r\n").encode(),
        sample.replace("\n", "\r").encode(),
        b"\xef\xbb\xbf" + sample.encode(),
        sample.rstrip("\n").encode(),
        sample.encode() + b"\n\n",
    ):
        got = taken(name, data, table).instance
        assert (got.jobs, got.profiles, got.truth) == (wanted.jobs, wanted.profiles, wanted.truth)


@pytest.mark.parametrize("name", NAMES)
def test_compressed_files_and_cut_ones(name: str, table: Path, tmp_path: Path) -> None:
    """gz, xz and bz2 are read as the text; a compressed file cut short is an error that says so."""
    reader = READERS.get(name)
    files = getattr(reader, "FILES", None)
    for role, text in getattr(reader, "COMPANION_SAMPLES", {}).items():
        (companion,) = [c for c in files.companions if c.role == role]
        (tmp_path / companion.pattern).write_text(text)
    data = reader.SAMPLE.encode()
    wanted = taken(name, data, table).instance
    for ending, pack in ((".gz", gzip.compress), (".xz", lzma.compress), (".bz2", bz2.compress)):
        path = tmp_path / f"trace{ending}"
        path.write_bytes(pack(data))
        made = import_trace(name, path, options_of(name, table))
        assert made.instance.jobs == wanted.jobs
    (tmp_path / "cut.gz").write_bytes(gzip.compress(data)[:-12])
    with pytest.raises(TraceError, match=r"cut\.gz: the compressed file is damaged or cut short"):
        import_trace(name, tmp_path / "cut.gz", options_of(name, table))
    with pytest.raises(TraceError, match="cannot be read"):
        import_trace(name, tmp_path / "absent.csv", options_of(name, table))


@pytest.mark.parametrize("name", NAMES)
def test_files_of_another_kind(name: str, table: Path) -> None:
    """Nothing, blanks, another delimiter, UTF-16, bytes: one error that names the file, and a line or why."""
    sample = READERS.get(name).SAMPLE
    other = sample.replace(MARKS.get(name, ","), ";")
    for data in (b"", b"\n \n", b"# a comment\n", other.encode(), sample.encode("utf-16"), b"\x00\x01\xfe"):
        with pytest.raises(TraceError, match=r"^trace(:\d+)?: expected "):
            taken(name, data, table)


@pytest.mark.parametrize("name", BY_LINES)
def test_bad_rows_among_good_ones(name: str, table: Path) -> None:
    """A row with foreign bytes or a cell too few is refused by line and reason; the good ones are taken."""
    sample = READERS.get(name).SAMPLE.encode()
    good = sample.rstrip(b"\n").split(b"\n")[-1]
    mark = MARKS.get(name, ",").encode()
    line = sample.count(b"\n") + 1
    for bad, reason in (
        (b"\xff" + good, "not-utf-8"),
        (good.rpartition(mark)[0], "wrong-column-count"),
        (good + mark + b"x", "wrong-column-count"),
        (
            good.rpartition(mark)[0] + mark + (b"1" if mark == b" " else b"") + mark + b'"x',
            "wrong-column-count",
        ),
    ):
        made = taken(name, sample + bad + b"\n", table)
        assert (made.read, made.taken, made.refused) == (3, 2, {reason: 1})
        (note,) = [n for n in made.details if n.action == "refused"]
        assert (note.file, note.line, note.reason) == ("trace", line, reason)


@pytest.mark.parametrize("name", BY_LINES)
def test_the_order_of_rows_means_nothing_but_names(name: str, table: Path) -> None:
    """Unsorted rows become jobs in order of submission, with the same sizes and releases."""
    lines = READERS.get(name).SAMPLE.rstrip("\n").split("\n")
    head, rows = lines[:-2], lines[-2:]
    there = taken(name, "\n".join([*head, *rows]), table, slack=None, own_deadlines=False)
    back = taken(name, "\n".join([*head, *rows[::-1]]), table, slack=None, own_deadlines=False)

    def plain(made: TraceImport) -> list[tuple[float, int, int, str]]:
        return [(j.release_s, j.gpus, j.epochs, j.profile) for j in made.instance.jobs]

    assert plain(there) == plain(back)
    assert [r for r, *_ in plain(there)] == sorted(r for r, *_ in plain(there))


@pytest.mark.parametrize("name", BY_LINES)
def test_a_row_twice(name: str, table: Path) -> None:
    """A repeated row is kept or refused, and counted wherever the format has ids."""
    sample = READERS.get(name).SAMPLE
    again = sample + sample.rstrip("\n").split("\n")[-1] + "\n"
    made = taken(name, again, table)
    assert made.read == 3 == made.taken + sum(made.refused.values())
    if name not in ("gavel", "philly-csv"):  # these have no ids
        counted = made.repaired.get("duplicate-id", 0) + made.refused.get("duplicate-job", 0)
        assert counted == 1


@pytest.mark.parametrize("name", NAMES)
def test_jobs_of_too_many_gpus(name: str, table: Path) -> None:
    """On one GPU the larger jobs are named, dropped or clipped; accounts add up."""
    sample = READERS.get(name).SAMPLE
    for too_large in ("drop", "clip"):
        made = taken(name, sample, table, nodes=1, gpus_per_node=1, too_large=too_large)
        assert made.read == made.taken + sum(made.refused.values())
        assert all(j.gpus == 1 for j in made.instance.jobs)


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=FUZZ)
@given(data=st.data())
def test_mutilated_files_end_in_words(name: str, table: Path, data: st.DataObject) -> None:
    """Bytes of the sample replaced, dropped, repeated: an instance whose accounts add up, or our error."""
    raw = bytearray(READERS.get(name).SAMPLE.encode())
    for _ in range(data.draw(st.integers(0, 4))):
        at = data.draw(st.integers(0, len(raw)))
        to = data.draw(st.integers(at, min(len(raw), at + 40)))
        raw[at:to] = data.draw(
            st.one_of(
                st.binary(max_size=8),
                st.sampled_from(
                    [b",", b"\t", b"\n", b'"', b"nan", b"None", b"-1", b"0", b"1e308", b"9" * 20, b"\r", b""]
                ),
            )
        )
    try:
        made = taken(
            name, bytes(raw), table, too_large=data.draw(st.sampled_from(["drop", "clip", "refuse"]))
        )
    except EacoError:
        return
    assert made.read == made.taken + sum(made.refused.values())
    assert made.taken == len(made.instance.jobs) > 0
    assert sum(n.action == "refused" for n in made.details) == sum(made.refused.values())


@pytest.mark.parametrize("name", [n for n in NAMES if hasattr(READERS.get(n), "COMPANION_SAMPLES")])
@settings(max_examples=FUZZ)
@given(data=st.data())
def test_mutilated_companions_end_in_words(name: str, data: st.DataObject) -> None:
    """The same for the other files of a trace."""
    reader = READERS.get(name)
    mutilated: dict[str, bytes] = {}
    for role, text in reader.COMPANION_SAMPLES.items():
        raw = bytearray(text.encode())
        at = data.draw(st.integers(0, len(raw)))
        raw[at : at + data.draw(st.integers(0, 30))] = data.draw(
            st.one_of(st.binary(max_size=6), st.sampled_from([b",", b"\n", b"nan", b"-1", b"1e308", b'"']))
        )
        mutilated[role] = bytes(raw)
    try:
        beside = {role: TraceText.of(raw, file=role) for role, raw in mutilated.items()}
        made = import_text(
            name, reader, TraceText.of(reader.SAMPLE, companions=beside), ImportOptions(too_large="drop")
        )
    except EacoError:
        return
    assert made.read == 2 == made.taken + sum(made.refused.values())


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=FUZZ)
@given(st.binary(max_size=200))
def test_any_bytes_end_in_words(name: str, table: Path, raw: bytes) -> None:
    """Whatever the bytes: our error, since no bytes at random are a trace."""
    with pytest.raises(EacoError):
        taken(name, raw, table)
