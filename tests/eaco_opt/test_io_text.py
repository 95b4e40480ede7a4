"""Files to text: limits, compression, encodings."""

from __future__ import annotations

import gzip
import lzma
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eaco_opt.errors import FormatError
from eaco_opt.io_text import pack, read_text, source_name, suffixes


def stored(folder: Path, name: str, data: bytes) -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


@given(st.text())
@pytest.mark.parametrize("name", ["a.json", "a.json.gz", "a.json.XZ"])
def test_packing_is_undone_by_reading(tmp_path_factory: pytest.TempPathFactory, name: str, text: str) -> None:
    """Whatever the suffix, reading gives back the text, and packing twice gives the same bytes."""
    path = stored(tmp_path_factory.mktemp("pack"), name, pack(name, text))
    assert read_text(path) == text
    assert pack(path, text) == path.read_bytes()


def test_compressed_files_are_what_they_say(tmp_path: Path) -> None:
    """Other programs read what we pack, we read what they pack, several members after each other included."""
    assert gzip.decompress(pack("a.gz", "text")) == b"text"
    assert lzma.decompress(pack("a.xz", "text")) == b"text"
    assert read_text(stored(tmp_path, "a.gz", gzip.compress(b"one, ") + gzip.compress(b"two"))) == "one, two"
    two = lzma.compress(b"one, ") + b"\0" * 8 + lzma.compress(b"two")
    assert read_text(stored(tmp_path, "a.xz", two)) == "one, two"
    assert read_text(stored(tmp_path, "b.xz", lzma.compress(b""))) == ""


@pytest.mark.parametrize(("name", "what"), [("a", "holds"), ("a.gz", "expands to"), ("a.xz", "expands to")])
def test_size_is_limited_before_and_after_expansion(tmp_path: Path, name: str, what: str) -> None:
    """Exactly the limit is read; a byte more is refused, naming file and limit."""
    text = "x" * 5000
    path = stored(tmp_path, name, pack(name, text))
    assert read_text(path, max_bytes=5000) == text
    with pytest.raises(FormatError, match=rf"{name}: {what} more than 4,999 bytes; expected at most that"):
        read_text(path, max_bytes=4999)


@pytest.mark.parametrize("packing", ["gz", "xz"])
def test_bombs_are_refused_without_being_expanded(tmp_path: Path, packing: str) -> None:
    """A small file that expands to 64 MiB is refused with little more memory taken than the limit allows."""
    zeros = b"0" * 2**26
    data = gzip.compress(zeros, 1) if packing == "gz" else lzma.compress(zeros, preset=0)
    del zeros
    assert len(data) < 300_000
    path = stored(tmp_path, f"bomb.json.{packing}", data)
    tracemalloc.start()
    try:
        with pytest.raises(FormatError, match=r"bomb.json.* expands to more than 2,000,000 bytes"):
            read_text(path, max_bytes=2_000_000)
        assert tracemalloc.get_traced_memory()[1] < 16_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("name", ["a.gz", "a.xz"])
@pytest.mark.parametrize("damage", ["cut", "flip", "garbage", "empty", "plain"])
def test_damaged_archives_are_named(tmp_path: Path, name: str, damage: str) -> None:
    """A truncated, altered or foreign file is refused by name, never half-read in silence."""
    whole = pack(name, "some text that is long enough to be worth packing " * 20)
    data = {
        "cut": whole[:-6],
        "flip": whole[:30] + bytes([whole[30] ^ 0xFF]) + whole[31:],
        "garbage": whole + b"garbage",
        "empty": b"",
        "plain": b"{}",
    }[damage]
    path = stored(tmp_path, name, data)
    if damage == "empty":
        assert read_text(path) == ""  # no members: an empty document, which every format refuses
        return
    with pytest.raises(
        FormatError, match=rf"{name}: cannot be expanded as {name[2:]} \(.*damaged, cut short"
    ):
        read_text(path)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"a\nb\xe9c", r"x, line 2: expected UTF-8 text, got byte 0xe9 at offset 3; save it as UTF-8"),
        ("a".encode("utf-16"), r"x, line 1: .*looks like UTF-16"),
        (gzip.compress(b"a", mtime=0), r"x, line 1: .*looks gzip-compressed: name it .gz"),
        (lzma.compress(b"a"), r"x, line 1: .*looks xz-compressed: name it .xz"),
        (b"\xed\xa0\x80", r"x, line 1: expected UTF-8 text, got byte 0xed"),
    ],
)
def test_other_encodings_are_refused(tmp_path: Path, data: bytes, message: str) -> None:
    """Bytes that are no UTF-8 are refused with their place and, where it can be told, what they are."""
    with pytest.raises(FormatError, match=message):
        read_text(stored(tmp_path, "x", data))


def test_missing_file_and_folder_are_errors_of_the_system(tmp_path: Path) -> None:
    """What cannot be opened is an OSError that names the path."""
    with pytest.raises(FileNotFoundError, match="none"):
        read_text(tmp_path / "none")
    with pytest.raises(OSError, match=str(tmp_path.name)):
        read_text(tmp_path)


def test_suffixes() -> None:
    """The compression is the last suffix if it is one we know, in either case."""
    assert suffixes("a.JSON.Gz") == (".json", ".gz")
    assert suffixes("a.b/c.csv.xz") == (".csv", ".xz")
    assert suffixes("a.csv") == (".csv", "")
    assert suffixes("a") == ("", "")
    assert suffixes("a.gz") == ("", ".gz")


def test_file_names_in_messages_can_be_printed() -> None:
    """Undecodable bytes and control characters of a file name do not reach the terminal."""
    for name in ("a\udcffb", "a\x1b[31mb", "a\nb"):
        assert source_name(name).isprintable()
        source_name(name).encode("utf-8")
    assert source_name(Path("dir") / "é.json").endswith("é.json")
