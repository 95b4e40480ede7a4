"""Bytes of a file to text and back: size limits, compression by suffix, UTF-8.

Files whose name ends in ``.gz`` or ``.xz`` are expanded while they are read and
compressed while they are written. Both limits, that of the file and that of what it
expands to, are checked before memory is taken.
"""

from __future__ import annotations

import gzip
import lzma
import os
import zlib
from pathlib import Path
from typing import IO

from .errors import FormatError

MAX_BYTES = 2**30
"""Default limit on the size of a document, as stored and as expanded [bytes]."""

_CHUNK = 2**20
_XZ_MEMORY = 2**28  # `xz -9` asks for 65 MiB; a hostile header may ask for 4 GiB

Source = str | os.PathLike[str]


def source_name(path: Source) -> str:
    """Return how a path is named in messages: printable, whatever bytes its name has."""
    text = os.fspath(path).encode("utf-8", "backslashreplace").decode()
    return text if text.isprintable() else repr(text)[1:-1]


def suffixes(path: Source) -> tuple[str, str]:
    """Return the suffix of the document and that of its compression, both in lower case.

    ``a.CSV.gz`` gives ``(".csv", ".gz")``, and ``a.json`` gives ``(".json", "")``.
    """
    name = Path(path)
    packing = name.suffix.lower()
    if packing not in (".gz", ".xz"):
        return packing, ""
    return name.with_suffix("").suffix.lower(), packing


def _too_large(source: str, what: str, max_bytes: int) -> FormatError:
    return FormatError(
        f"{source}: {what} more than {max_bytes:,} bytes; expected at most that. "
        "Take a smaller file, or raise the limit (max_bytes)"
    )


def _limited(file: IO[bytes] | gzip.GzipFile, source: str, what: str, max_bytes: int) -> bytes:
    out = bytearray()
    while chunk := file.read(_CHUNK):
        out += chunk
        if len(out) > max_bytes:
            raise _too_large(source, what, max_bytes)
    return bytes(out)


def _expand_xz(data: bytes, source: str, max_bytes: int) -> bytes:
    out = bytearray()
    while data:
        packed = lzma.LZMADecompressor(format=lzma.FORMAT_XZ, memlimit=_XZ_MEMORY)
        while not packed.eof:
            out += packed.decompress(data, max_length=min(_CHUNK, max_bytes + 1 - len(out)))
            data = b""
            if len(out) > max_bytes:
                raise _too_large(source, "expands to", max_bytes)
            if packed.needs_input and not packed.eof:
                raise EOFError("the compressed data end too early")
        data = packed.unused_data.lstrip(b"\0")  # several streams may follow each other, with padding
    return bytes(out)


def read_bytes(path: Source, *, max_bytes: int = MAX_BYTES) -> bytes:
    """Return the bytes of a file, expanded when its name ends in ``.gz`` or ``.xz``.

    Raises
    ------
    FormatError
        The file, or what it expands to, is larger than ``max_bytes``, or the
        compressed data are damaged.
    OSError
        The file cannot be read.
    """
    source = source_name(path)
    packing = suffixes(path)[1]
    with open(path, "rb") as file:
        if os.fstat(file.fileno()).st_size > max_bytes:
            raise _too_large(source, "holds", max_bytes)
        try:
            if packing == ".gz":
                with gzip.GzipFile(fileobj=file) as expanded:
                    return _limited(expanded, source, "expands to", max_bytes)
            data = _limited(file, source, "holds", max_bytes)
            return _expand_xz(data, source, max_bytes) if packing == ".xz" else data
        except (gzip.BadGzipFile, EOFError, zlib.error, lzma.LZMAError) as error:
            raise FormatError(
                f"{source}: cannot be expanded as {packing[1:]} ({error}); expected a whole "
                f"{packing[1:]} file; is it damaged, cut short or named wrongly?"
            ) from None


def read_text(path: Source, *, max_bytes: int = MAX_BYTES) -> str:
    """Return the text of a UTF-8 file; a byte order mark stays its first character.

    Raises
    ------
    FormatError
        As :func:`read_bytes`, or the bytes are not UTF-8.
    OSError
        The file cannot be read.
    """
    data = read_bytes(path, max_bytes=max_bytes)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        hint = "save it as UTF-8"
        if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
            hint = "it looks like UTF-16: save it as UTF-8"
        elif data[:2] == b"\x1f\x8b":
            hint = "it looks gzip-compressed: name it .gz"
        elif data[:6] == b"\xfd7zXZ\0":
            hint = "it looks xz-compressed: name it .xz"
        line = data.count(b"\n", 0, error.start) + 1
        raise FormatError(
            f"{source_name(path)}, line {line}: expected UTF-8 text, got byte 0x{data[error.start]:02x} "
            f"at offset {error.start}; {hint}"
        ) from None


def pack(path: Source, text: str) -> bytes:
    """Return the bytes to store under ``path``: UTF-8, compressed as its suffix says.

    The same text gives the same bytes: no time or name goes into them.
    """
    data = text.encode("utf-8")
    packing = suffixes(path)[1]
    if packing == ".gz":
        return gzip.compress(data, compresslevel=6, mtime=0)
    return lzma.compress(data, preset=6) if packing == ".xz" else data
