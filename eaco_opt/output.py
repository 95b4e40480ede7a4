"""Writing files so that no reader ever sees half of one, and nothing is lost by accident.

A file is written under another name in its own folder, brought to the disk and then
given its name in one step. A file that exists is replaced only when asked to.

:func:`refuse_existing`
    Ask before long work whether its output could be written.
:func:`write_text`, :func:`write_bytes`
    Write a whole file.
:func:`open_atomic`
    The same for writers that want an open file, such as figures.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from .errors import FormatError, OutputExistsError

# Of a file system without hard links; links to it must then be replaced by a plain rename.
_NO_LINKS = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EACCES}


def _exists(path: Path) -> OutputExistsError:
    return OutputExistsError(
        f"output {str(path)!r} exists already and was left as it is; expected a name that is free: "
        "choose another, or ask for replacement (--force, force=True)"
    )


def _is_stream(path: Path) -> bool:
    """Tell whether a path is a terminal, a pipe or the like: written straight to, never replaced."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    return stat.S_ISCHR(mode) or stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


def refuse_existing(path: str | os.PathLike[str], *, force: bool = False) -> None:
    """Raise now what writing to ``path`` would raise later; call it before long work.

    Parameters
    ----------
    path
        Where the output is to go.
    force
        Whether a file that exists may be replaced.

    Raises
    ------
    OutputExistsError
        The file exists and ``force`` is off.
    OSError
        The folder does not exist or cannot be written to, or the path is a folder or
        a device.
    """
    target = Path(path)
    if _is_stream(target):
        return
    if os.path.lexists(target):
        if target.is_dir():
            raise IsADirectoryError(f"output {str(target)!r} is a folder; expected the name of a file in it")
        if not force:
            raise _exists(target)
        if target.exists() and not target.is_file():
            raise OSError(f"output {str(target)!r} is no ordinary file; expected a file, choose another name")
    folder = Path(os.path.realpath(target)).parent
    if not folder.is_dir():
        raise FileNotFoundError(
            f"output {str(target)!r}: folder {str(folder)!r} does not exist; create it or choose another name"
        )
    if not os.access(folder, os.W_OK):
        raise PermissionError(
            f"output {str(target)!r}: folder {str(folder)!r} cannot be written to; choose another"
        )


def _new_file(folder: Path) -> tuple[int, Path]:
    """Open a new file of a name nobody else has, with the permissions the user's umask gives."""
    while True:
        path = folder / f".eaco-{secrets.token_hex(8)}.part"
        flags = (
            os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
        )
        with suppress(FileExistsError):
            return os.open(path, flags, 0o666), path


def _sync_folder(folder: Path) -> None:
    """Bring the folder's list of names to the disk, where the system can."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _give_name(temporary: Path, target: Path, shown: Path, force: bool) -> None:
    """Give the finished file its name in one step."""
    if force:
        os.replace(temporary, target)
        return
    try:
        # A link, unlike a rename, fails when the name was taken in the meantime.
        os.link(temporary, target)
    except FileExistsError:
        raise _exists(shown) from None
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        if os.path.lexists(target):
            raise _exists(shown) from None
        os.rename(temporary, target)
    else:
        os.unlink(temporary)


@contextmanager
def open_atomic(path: str | os.PathLike[str], *, force: bool = False) -> Iterator[IO[bytes]]:
    """Yield a binary file that appears under its name when the block ends without an error.

    With an error in the block, a killed process or a full disk, ``path`` is what it
    was before. A symbolic link keeps pointing where it does: the file it leads to is
    replaced. Terminals and pipes are written to directly.

    Parameters
    ----------
    path
        Where the file is to be.
    force
        Whether a file that exists may be replaced; it keeps its permissions.

    Raises
    ------
    OutputExistsError
        The file exists, at the beginning or at the end, and ``force`` is off.
    OSError
        As :func:`refuse_existing`, and whatever the disk says.
    """
    shown = Path(path)
    refuse_existing(shown, force=force)
    if _is_stream(shown):
        with open(shown, "wb") as stream:
            yield stream
        return
    target = Path(os.path.realpath(shown))
    try:
        handle, temporary = _new_file(target.parent)
    except OSError as error:  # name the file that was asked for, not the temporary one
        raise type(error)(
            error.errno, f"cannot be written: {error.strerror}; choose a folder that takes files", str(shown)
        ) from None
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            if force and hasattr(os, "fchmod"):
                with suppress(OSError):
                    os.fchmod(file.fileno(), stat.S_IMODE(target.stat().st_mode))
            file.flush()
            os.fsync(file.fileno())
        _give_name(temporary, target, shown, force)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise
    _sync_folder(target.parent)


def write_bytes(path: str | os.PathLike[str], data: bytes, *, force: bool = False) -> None:
    """Write a whole file at once; see :func:`open_atomic` for the rules and errors."""
    with open_atomic(path, force=force) as file:
        file.write(data)


def write_text(path: str | os.PathLike[str], text: str, *, force: bool = False) -> None:
    """Write a whole text file at once, as UTF-8 and with line ends as they stand in ``text``.

    Raises
    ------
    FormatError
        The text holds a lone surrogate, which UTF-8 cannot express.
    OutputExistsError, OSError
        As :func:`open_atomic`.
    """
    try:
        data = text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise FormatError(
            f"output {str(Path(path))!r}: character {error.start + 1} of the text is the lone surrogate "
            f"{text[error.start]!r}, which no file can hold; expected text that UTF-8 can express"
        ) from None
    write_bytes(path, data, force=force)
