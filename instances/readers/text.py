"""From a trace file to its lines: decompression, limits, encoding, line numbers, and numbers in cells."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import io
import lzma
import os
import re
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, cast

from eaco_opt.errors import TraceError

MAX_TEXT_BYTES = 1 << 30
"""Most bytes of a trace, decompressed, that are read (1 GiB)."""

SHOWN = 60
"""Characters of a cell or line that messages show."""


def shown(text: str) -> str:
    """Return a piece of foreign text for messages: quoted, control characters escaped, cut when long."""
    cut = text if len(text) <= SHOWN else text[: SHOWN - 3] + "..."
    return ascii(cut)


def printable(text: str) -> str:
    """Return a path with what cannot be printed escaped, so that messages and reports can hold it."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceText:
    """The lines of a trace file.

    Attributes
    ----------
    file
        The path as the caller gave it, for messages.
    sha256
        Digest of the decompressed bytes.
    lines
        Lines without their ends; line k of the file is ``lines[k - 1]``. Bytes that are not UTF-8 stand in
        them as lone surrogates, so that the rows concerned, and no others, can be refused.
    companions
        Other files of the same trace by their role (:mod:`instances.readers.companions`).
    """

    file: str
    sha256: str
    lines: tuple[str, ...]
    companions: Mapping[str, TraceText] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Name of the file without its folder."""
        return re.split(r"[/\\]", self.file)[-1] or self.file

    @classmethod
    def of(
        cls, data: str | bytes, *, file: str = "<text>", companions: Mapping[str, TraceText] | None = None
    ) -> TraceText:
        """Return the lines of a text or of decompressed bytes.

        Raises
        ------
        TraceError
            The bytes are UTF-16 or UTF-32.
        """
        raw = data.encode("utf-8", "surrogateescape") if isinstance(data, str) else data
        if raw.startswith((b"\xff\xfe", b"\xfe\xff")) or raw.startswith(b"\x00\x00\xfe\xff"):
            raise TraceError(f"{file}: expected text in UTF-8, got UTF-16 or UTF-32; save it as UTF-8")
        text = raw.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "surrogateescape")
        # Not str.splitlines: it also splits at form feeds and the like, and the numbers would be wrong.
        lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
        if lines[-1] == "":
            lines.pop()
        return cls(
            file=file,
            sha256=hashlib.sha256(raw).hexdigest(),
            lines=tuple(lines),
            companions=dict(companions or {}),
        )

    def rows(self) -> Iterator[tuple[int, str]]:
        """Yield (line number, line) of the lines that are neither blank nor comments (``#`` first)."""
        for number, line in enumerate(self.lines, 1):
            body = line.lstrip(" ")
            if body.strip() and not body.startswith("#"):
                yield number, line


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
    out = io.BytesIO()
    try:
        with Path(path).open("rb") as raw:
            head = raw.read(6)
            raw.seek(0)
            with _opened(raw, head) as stream:
                while chunk := stream.read(1 << 20):
                    out.write(chunk)
                    if out.tell() > limit:
                        raise TraceError(
                            f"{file}: expected at most {limit} bytes of text (decompressed), got more; cut "
                            "the trace into pieces"
                        )
    except (EOFError, lzma.LZMAError, zlib.error, gzip.BadGzipFile) as error:
        raise TraceError(
            f"{file}: the compressed file is damaged or cut short ({error}); fetch it again"
        ) from None
    except TraceError:
        raise
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        said = getattr(error, "strerror", None) or error
        raise TraceError(f"{file}: cannot be read ({said}); check path and permissions") from None
    return out.getvalue()


def read_text(path: str | os.PathLike[str], *, limit: int = MAX_TEXT_BYTES) -> TraceText:
    """Return the lines of a trace file; see :func:`read_bytes` for compression, limit and errors."""
    return TraceText.of(read_bytes(path, limit=limit), file=printable(os.fspath(path)))


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
