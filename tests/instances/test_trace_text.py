"""From files to lines and cells: compression, limits, encodings, line numbers, numbers, local times."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import lzma
import tracemalloc
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eaco_opt.errors import TraceError
from instances.readers.localtime import AMBIGUOUS, SKIPPED, to_posix_s
from instances.readers.text import TraceText, is_utf8, read_bytes, read_text, real, shown, whole

PACIFIC = "America/Los_Angeles"


@pytest.mark.parametrize("pack", [bytes, gzip.compress, lzma.compress, bz2.compress])
def test_compressed_files_are_read_by_their_first_bytes(tmp_path: Path, pack: object) -> None:
    """gzip, xz and bzip2 give the same lines and digest as the plain file, whatever the name says."""
    assert callable(pack)
    path = tmp_path / "trace.csv"
    path.write_bytes(pack(b"a,b\n1,2\n"))
    text = read_text(path)
    assert text.lines == ("a,b", "1,2")
    assert text.sha256 == TraceText.of("a,b\n1,2\n").sha256
    assert text.name == "trace.csv"


def test_decompression_stops_at_the_limit(tmp_path: Path) -> None:
    """A small archive that unfolds to a large file is refused once the limit is passed."""
    path = tmp_path / "bomb.gz"
    path.write_bytes(gzip.compress(b"0" * 5_000_000))
    with pytest.raises(
        TraceError, match=r"bomb.gz: expected at most 1000 bytes of text \(decompressed\), got more"
    ):
        read_bytes(path, limit=1000)
    assert len(read_bytes(path, limit=5_000_000)) == 5_000_000


@pytest.mark.parametrize(
    "data",
    [
        gzip.compress(b"hello" * 1000, mtime=0)[:-20],  # no time in the name of a test
        lzma.compress(b"hello" * 1000)[:-20],
        bz2.compress(b"hello" * 1000)[:-10],
        b"\x1f\x8bgarbage that is no gzip at all",
        b"BZhgarbage",
        b"\xfd7zXZ\x00garbage",
    ],
    ids=["cut-gzip", "cut-xz", "cut-bzip2", "no-gzip", "no-bzip2", "no-xz"],
)
def test_damaged_archives_are_named(tmp_path: Path, data: bytes) -> None:
    """A cut or broken archive is a trace error that names the file."""
    path = tmp_path / "broken"
    path.write_bytes(data)
    with pytest.raises(TraceError, match=r"broken: "):
        list(read_text(path).rows())


@pytest.mark.parametrize("name", ["missing.csv", ".", "nul\0byte"])
def test_files_that_cannot_be_read_are_named(tmp_path: Path, name: str) -> None:
    """A missing file, a folder and an impossible path are trace errors, in printable text."""
    with pytest.raises(TraceError, match=r"cannot be read .*check path and permissions") as caught:
        read_text(f"{tmp_path}/{name}")
    assert str(caught.value).isprintable()


def test_line_ends_bom_blanks_and_comments() -> None:
    """CRLF, CR and LF end lines; a BOM goes; blank lines and comments are no rows; numbers stay true."""
    text = TraceText.of(b"\xef\xbb\xbfa\r\nb\r\n\r\n  # note\n\x0cc\rd")
    assert text.lines == ("a", "b", "", "  # note", "\x0cc", "d")
    assert list(text.rows()) == [(1, "a"), (2, "b"), (5, "\x0cc"), (6, "d")]


def test_lines_are_read_piece_by_piece(tmp_path: Path) -> None:
    """Line ends, marks and letters that lie across pieces of a megabyte are read as if they did not."""
    piece = 1 << 20
    for filler, rest in (
        (piece - 1, b"\r\nb\n"),
        (piece - 1, b"\xc3\xb6\nb"),
        (piece - 1, b"\r\rb"),
        (piece, b""),
    ):
        data = b"\xef\xbb\xbf" + b"a" * (filler - 3) + rest
        path = tmp_path / "t.csv"
        path.write_bytes(data)
        text = read_text(path)
        wanted = data[3:].decode().replace("\r\n", "\n").replace("\r", "\n").removesuffix("\n").split("\n")
        assert list(text.lines) == wanted
        assert text.sha256 == hashlib.sha256(data).hexdigest()


def test_a_file_is_never_held_in_memory(tmp_path: Path) -> None:
    """Walking over 24 MB of rows takes a few of them at a time: at most 6 MB more than before."""
    path = tmp_path / "big.csv.gz"
    path.write_bytes(gzip.compress(b"1,2,3,4,5,6\n" * 2_000_000, compresslevel=1))
    text = read_text(path)
    tracemalloc.start()
    try:
        assert sum(1 for _ in text.rows()) == 2_000_000
        assert tracemalloc.get_traced_memory()[1] < 40_000_000
    finally:
        tracemalloc.stop()


def test_a_line_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is one long line is no table: an error with its line, before it fills the memory."""
    monkeypatch.setattr("instances.readers.text.MAX_LINE_CHARACTERS", 1000)
    with pytest.raises(
        TraceError, match=r"^<text>:3: expected lines of at most 1000 characters, got a longer one"
    ):
        list(TraceText.of("a\nb\n" + "c" * 1001).rows())


def test_bytes_that_are_not_utf8_stay_in_their_lines() -> None:
    """Only the line with foreign bytes is marked; the others are read."""
    text = TraceText.of(b"good\nb\xe4d\nk\xc3\xb6nnte\n")
    assert [is_utf8(line) for line in text.lines] == [True, False, True]
    assert text.lines[2] == "könnte"


def test_utf16_is_refused_in_words() -> None:
    """UTF-16 would give rows of garbage; the text says what to do."""
    with pytest.raises(
        TraceError, match=r"<text>: expected text in UTF-8, got UTF-16 or UTF-32; save it as UTF-8"
    ):
        TraceText.of("a,b\n".encode("utf-16"))


@pytest.mark.parametrize(
    ("cell", "value"),
    [("8", 8), (" 8 ", 8), ("+8", 8), ("-3", -3), ("8.0", 8), ("1e3", 1000)],
)
def test_whole_numbers(cell: str, value: int) -> None:
    """Whole numbers are plain decimals, also where a table wrote them with a point."""
    assert whole(cell) == value


@pytest.mark.parametrize(
    "cell", ["", "8.5", "1_000", "nan", "inf", "0x8", "\u0668", "9" * 5000, "1e400", "1e30"]
)
def test_what_is_no_whole_number(cell: str) -> None:
    """Nothing that only Python would take for a number passes, and nothing beyond exact floats."""
    assert whole(cell) is None


@pytest.mark.parametrize(
    ("cell", "value"), [("66.0", 66.0), (".5", 0.5), ("5.", 5.0), ("1e3", 1000.0), ("-0", 0.0)]
)
def test_real_numbers(cell: str, value: float) -> None:
    """Real numbers are plain decimals."""
    assert real(cell) == value


@pytest.mark.parametrize("cell", ["", "1_0", "NaN", "Infinity", "1e999", "1,5", "--1", "1e", "."])
def test_what_is_no_real_number(cell: str) -> None:
    """NaN, infinity, numbers out of range and foreign notations are none."""
    assert real(cell) is None


@given(st.text())
def test_shown_text_is_short_and_printable(text: str) -> None:
    """Whatever stands in a cell, messages show at most its first 60 characters, in ASCII."""
    assert shown(text).isascii()
    assert shown(text).isprintable()
    assert len(shown(text)) <= 60 * 10 + 2


@pytest.mark.parametrize(
    ("text", "utc", "reason"),
    [
        # Daylight-saving time ended on 2017-11-05 at 02:00 PDT = 09:00 UTC, clocks went to 01:00 PST.
        ("2017-11-05 00:59:59", "2017-11-05 07:59:59", None),
        ("2017-11-05 01:00:00", "2017-11-05 08:00:00", AMBIGUOUS),
        ("2017-11-05 01:30:00", "2017-11-05 08:30:00", AMBIGUOUS),
        ("2017-11-05 01:59:59", "2017-11-05 08:59:59", AMBIGUOUS),
        # 01:30 (first) to 03:30 is three hours: field knowledge about this trace.
        ("2017-11-05 03:30:00", "2017-11-05 11:30:00", None),
        ("2017-11-05 02:00:00", "2017-11-05 10:00:00", None),
        # It began on 2017-03-12 at 02:00 PST = 10:00 UTC: 02:30 never was, and moves to 03:30 PDT.
        ("2017-03-12 02:30:00", "2017-03-12 10:30:00", SKIPPED),
        ("2017-03-12 03:30:00", "2017-03-12 10:30:00", None),
        ("2017-10-09T07:01:55", "2017-10-09 14:01:55", None),
        ("2017-10-09", "2017-10-09 07:00:00", None),
        ("2017-11-05 01:30:00-08:00", "2017-11-05 09:30:00", None),
        ("2017-11-05T09:30:00Z", "2017-11-05 09:30:00", None),
    ],
)
def test_local_times_of_the_us_pacific(text: str, utc: str, reason: str | None) -> None:
    """Local times become POSIX times by the rule: the first of two, forward where there is none."""
    wanted = datetime.fromisoformat(utc).replace(tzinfo=UTC).timestamp()
    assert to_posix_s(text, PACIFIC) == (wanted, reason)


@pytest.mark.parametrize(
    "text", ["", "yesterday", "2017-13-01 00:00:00", "1969-12-31 00:00:00", "9999-12-31 00:00:00"]
)
def test_what_is_no_time_is_a_value_error(text: str) -> None:
    """Texts that are no time of our centuries are refused, never an overflow."""
    with pytest.raises(ValueError, match=r"."):
        to_posix_s(text, PACIFIC)


def test_an_unknown_zone_says_what_to_install() -> None:
    """Machines without time-zone data get advice, not a traceback."""
    with pytest.raises(TraceError, match="install the system's time-zone data or the package tzdata"):
        to_posix_s("2017-10-09", "Mars/Olympus")
