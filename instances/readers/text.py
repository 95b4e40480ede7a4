"""From a trace file to its lines: decompression, limits, encoding, line numbers, and numbers in cells."""

from __future__ import annotations

import bz2
import codecs
import gzip
import hashlib
import io
import lzma
import os
import re
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, cast

from eaco_opt.errors import TraceError

MAX_TEXT_BYTES = 1 << 34
"""Most bytes of a trace, decompressed, that are read (16 GiB); a bomb of an archive ends there."""

MAX_LINE_CHARACTERS = 1 << 24
"""Longest line that is read."""

SHOWN = 60
"""Characters of a cell or line that messages show."""


def shown(text: str) -> str:
    """Return a piece of foreign text for messages: quoted, control characters escaped, cut when long."""
    cut = text if len(text) <= SHOWN else text[: SHOWN - 3] + "..."
    return ascii(cut)


def printable(text: str) -> str:
    """Return a path with what cannot be printed escaped, so that messages and reports can hold it."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


class TraceText:
    """The lines of a trace file, read from the file each time they are walked over, never held together.

    Parameters
    ----------
    file
        The path as the caller gave it, for messages.
    source
        Opens the bytes, compressed or not.
    companions
        Other files of the same trace by their role (:mod:`instances.readers.companions`).
    limit
        Most bytes, decompressed, that are read.

    Raises
    ------
    TraceError
        The file cannot be opened, is a damaged archive, or UTF-16 or UTF-32. Damage further on and too many
        bytes are told when the walk gets there.
    """

    __slots__ = ("_limit", "_sha256", "_source", "companions", "file")

    def __init__(
        self,
        *,
        file: str,
        source: Callable[[], IO[bytes]],
        companions: Mapping[str, TraceText] | None = None,
        limit: int | None = None,
    ) -> None:
        self.file = file
        self.companions: Mapping[str, TraceText] = dict(companions or {})
        self._source = source
        self._limit = MAX_TEXT_BYTES if limit is None else limit
        self._sha256: str | None = None
        first = next(_chunks(file, source, self._limit, 4), b"")
        if first.startswith((b"\xff\xfe", b"\xfe\xff")) or first == b"\x00\x00\xfe\xff":
            raise TraceError(f"{file}: expected text in UTF-8, got UTF-16 or UTF-32; save it as UTF-8")

    @classmethod
    def of(
        cls, data: str | bytes, *, file: str = "<text>", companions: Mapping[str, TraceText] | None = None
    ) -> TraceText:
        """Return the lines of a text or of bytes in memory.

        Raises
        ------
        TraceError
            The bytes are UTF-16 or UTF-32.
        """
        raw = data.encode("utf-8", "surrogateescape") if isinstance(data, str) else data
        return cls(file=file, source=lambda: io.BytesIO(raw), companions=companions)

    def beside(self, companions: Mapping[str, TraceText]) -> TraceText:
        """Return the same file with companions."""
        return TraceText(file=self.file, source=self._source, companions=companions, limit=self._limit)

    @property
    def name(self) -> str:
        """Name of the file without its folder."""
        return re.split(r"[/\\]", self.file)[-1] or self.file

    @property
    def sha256(self) -> str:
        """Digest of the decompressed bytes; known after a walk, else found by one."""
        if self._sha256 is None:
            for _ in self._walk():
                pass
        return str(self._sha256)

    @property
    def lines(self) -> tuple[str, ...]:
        """All lines without their ends, for small files; line k of the file is ``lines[k - 1]``."""
        return tuple(self._walk())

    def rows(self) -> Iterator[tuple[int, str]]:
        """Yield (line number, line) of the lines that are neither blank nor comments (``#`` first).

        Bytes that are not UTF-8 stand in lines as lone surrogates, so that the rows concerned, and no others,
        can be refused.

        Raises
        ------
        TraceError
            The file is damaged further on, too long, or a line is.
        """
        for number, line in enumerate(self._walk(), 1):
            body = line.lstrip(" ")
            if body.strip() and not body.startswith("#"):
                yield number, line

    def _walk(self) -> Iterator[str]:
        digest = hashlib.sha256()
        # Not str.splitlines: it also splits at form feeds and the like, and the numbers would be wrong.
        decoder = io.IncrementalNewlineDecoder(
            codecs.getincrementaldecoder("utf-8")("surrogateescape"), translate=True
        )
        rest, number, begin = "", 0, True
        for chunk in _chunks(self.file, self._source, self._limit, 1 << 20):
            digest.update(chunk)
            lines = (rest + decoder.decode(chunk.removeprefix(BOM) if begin else chunk)).split("\n")
            rest, begin = lines.pop(), False
            yield from lines
            number += len(lines)
            if len(rest) > MAX_LINE_CHARACTERS:
                raise TraceError(
                    f"{self.file}:{number + 1}: expected lines of at most {MAX_LINE_CHARACTERS} characters, "
                    "got a longer one; check that this is a text file"
                )
        lines = (rest + decoder.decode(b"", final=True)).split("\n")
        if lines[-1] == "":
            lines.pop()
        yield from lines
        self._sha256 = digest.hexdigest()


BOM = b"\xef\xbb\xbf"


def _chunks(file: str, source: Callable[[], IO[bytes]], limit: int, size: int) -> Iterator[bytes]:
    """Yield the decompressed bytes of a file in pieces of at most ``size``, at most ``limit`` together."""
    seen = 0
    try:
        with source() as raw:
            head = raw.read(6)
            raw.seek(0)
            with _opened(raw, head) as stream:
                while chunk := stream.read(size):
                    seen += len(chunk)
                    if seen > limit:
                        raise TraceError(
                            f"{file}: expected at most {limit} bytes of text (decompressed), got more; cut "
                            "the trace into pieces"
                        )
                    yield chunk
    except (EOFError, lzma.LZMAError, zlib.error, gzip.BadGzipFile) as error:
        raise TraceError(
            f"{file}: the compressed file is damaged or cut short ({error}); fetch it again"
        ) from None
    except TraceError:
        raise
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        said = getattr(error, "strerror", None) or error
        raise TraceError(f"{file}: cannot be read ({said}); check path and permissions") from None


def is_utf8(line: str) -> bool:
    """Tell whether a line of :class:`TraceText` was proper UTF-8."""
    return line.isascii() or not any("\ud800" <= c <= "\udfff" for c in line)


def _opened(raw: IO[bytes], head: bytes) -> IO[bytes]:
    if head.startswith(b"\x1f\x8b"):
        return cast(IO[bytes], gzip.GzipFile(fileobj=raw))
    if head.startswith(b"\xfd7zXZ\x00"):
        return lzma.LZMAFile(raw)
    if head.startswith(b"BZh"):
        return bz2.BZ2File(raw)
    return raw


def read_bytes(path: str | os.PathLike[str], *, limit: int = MAX_TEXT_BYTES) -> bytes:
    """Return the bytes of a file, decompressed when it is gzip, xz or bzip2 (told by its first bytes).

    Parameters
    ----------
    path
        The file.
    limit
        Most bytes to return; decompression stops there.

    Raises
    ------
    TraceError
        The file cannot be read or decompressed, or holds more than ``limit`` bytes.
    """
    file = printable(os.fspath(path))
    return b"".join(_chunks(file, lambda: Path(path).open("rb"), limit, 1 << 20))


def read_text(path: str | os.PathLike[str], *, limit: int | None = None) -> TraceText:
    """Return the lines of a trace file, decompressed when it is gzip, xz or bzip2 (told by its first bytes).

    Raises
    ------
    TraceError
        As for :class:`TraceText`.
    """
    return TraceText(file=printable(os.fspath(path)), source=lambda: Path(path).open("rb"), limit=limit)


_WHOLE = re.compile(r"[+-]?[0-9]{1,18}")
_REAL = re.compile(r"[+-]?(?:[0-9]{1,40}\.?[0-9]{0,40}|\.[0-9]{1,40})(?:[eE][+-]?[0-9]{1,4})?")
_NAN = ("nan", "null", "none", "")


def whole(cell: str) -> int | None:
    """Return the whole number in a cell (``8`` or ``8.0``), ``None`` if there is none."""
    cell = cell.strip(" ")
    if _WHOLE.fullmatch(cell):
        return int(cell)
    value = real(cell)
    if value is not None and value.is_integer() and abs(value) < 2**53:
        return int(value)
    return None


def real(cell: str) -> float | None:
    """Return the finite number in a cell, ``None`` if there is none (text, NaN, infinity, out of range)."""
    cell = cell.strip(" ")
    if not _REAL.fullmatch(cell):
        return None
    value = float(cell)
    return value if abs(value) < 1e300 else None


def missing(cell: str) -> bool:
    """Tell whether a cell says that its value is missing."""
    return cell.strip(" ").lower() in _NAN
