"""Atomic writing: all of a file or none of it, and never over another one unasked."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from eaco_opt import output
from eaco_opt.errors import FormatError, OutputExistsError
from eaco_opt.output import open_atomic, refuse_existing, write_bytes, write_text

posix_only = pytest.mark.skipif(os.name != "posix", reason="permissions and pipes of POSIX")


def names(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir())


def test_text_is_written_as_utf8_with_its_own_line_ends(tmp_path: Path) -> None:
    """The bytes are the UTF-8 of the text: line ends are not translated, and nothing else is left behind."""
    write_text(tmp_path / "a.txt", "é\r\nb\n")
    assert (tmp_path / "a.txt").read_bytes() == b"\xc3\xa9\r\nb\n"
    assert names(tmp_path) == ["a.txt"]


def test_existing_file_is_kept_and_named(tmp_path: Path) -> None:
    """Without force an existing file stays as it is, and the error names it and the way out."""
    path = tmp_path / "a.txt"
    path.write_text("old")
    with pytest.raises(OutputExistsError, match=r"a\.txt' exists already.*--force"):
        write_text(path, "new")
    with pytest.raises(OutputExistsError, match=r"a\.txt"):
        refuse_existing(path)
    assert path.read_text() == "old"
    assert names(tmp_path) == ["a.txt"]


def test_force_replaces(tmp_path: Path) -> None:
    """With force the file is replaced as a whole."""
    path = tmp_path / "a.txt"
    path.write_text("a much longer old text")
    refuse_existing(path, force=True)
    write_bytes(path, b"new", force=True)
    assert path.read_bytes() == b"new"
    assert names(tmp_path) == ["a.txt"]


@pytest.mark.parametrize("force", [False, True])
def test_error_while_writing_leaves_what_was_there(tmp_path: Path, force: bool) -> None:
    """A block that fails half-way leaves the old file, or none, and no temporary file."""
    path = tmp_path / "a.txt"
    if force:
        path.write_text("old")

    def half() -> None:
        with open_atomic(path, force=force) as file:
            file.write(b"half of")
            file.flush()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        half()
    assert names(tmp_path) == (["a.txt"] if force else [])
    assert not force or path.read_text() == "old"


def test_killed_process_leaves_the_old_file(tmp_path: Path) -> None:
    """A process that dies in the middle of writing (no clean-up at all) leaves the old file whole."""
    path = tmp_path / "a.txt"
    path.write_text("old")
    code = (
        "import os, sys; from eaco_opt.output import open_atomic\n"
        "with open_atomic(sys.argv[1], force=True) as f:\n"
        "    f.write(b'half of'); f.flush(); os._exit(9)"
    )
    root = Path(output.__file__).resolve().parent.parent
    done = subprocess.run([sys.executable, "-c", code, str(path)], cwd=root, check=False)
    assert done.returncode == 9
    assert path.read_text() == "old"


def write_while_another_does(path: Path) -> None:
    """Write to `path`, which somebody else makes before we are done."""
    with open_atomic(path) as file:
        file.write(b"ours")
        path.write_text("theirs")


def test_a_file_that_appears_meanwhile_is_not_overwritten(tmp_path: Path) -> None:
    """Somebody else's file of the same name, made while we write, survives."""
    path = tmp_path / "a.txt"
    with pytest.raises(OutputExistsError, match=r"a\.txt"):
        write_while_another_does(path)
    assert path.read_text() == "theirs"
    assert names(tmp_path) == ["a.txt"]


@pytest.mark.parametrize("meanwhile", [False, True])
def test_file_systems_without_hard_links(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, meanwhile: bool
) -> None:
    """Where links are not supported a rename takes their place, and still refuses an existing file."""

    def no_links(*_: object) -> None:
        raise OSError(errno.ENOTSUP, "no links here")

    monkeypatch.setattr(os, "link", no_links)
    path = tmp_path / "a.txt"
    if meanwhile:
        with pytest.raises(OutputExistsError):
            write_while_another_does(path)
        assert path.read_text() == "theirs"
    else:
        write_text(path, "ours")
        assert path.read_text() == "ours"
    assert names(tmp_path) == ["a.txt"]


def test_other_errors_of_the_disk_are_passed_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk at the last step is an error, not a reason for another way of writing."""

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "no space left")

    monkeypatch.setattr(os, "link", full)
    with pytest.raises(OSError, match="no space left"):
        write_text(tmp_path / "a.txt", "text")
    assert names(tmp_path) == []


def test_only_one_of_many_writers_wins(tmp_path: Path) -> None:
    """Of eight threads that write the same new file one succeeds, the others are told; the file is whole."""
    path = tmp_path / "a.txt"
    barrier = threading.Barrier(8)
    outcome: list[str] = []

    def run(letter: str) -> None:
        barrier.wait()
        try:
            write_text(path, letter * 10000)
            outcome.append(letter)
        except OutputExistsError:
            outcome.append("refused")

    threads = [threading.Thread(target=run, args=(c,)) for c in "abcdefgh"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    winners = [x for x in outcome if x != "refused"]
    assert len(outcome) == 8
    assert len(winners) == 1
    assert path.read_text() == winners[0] * 10000
    assert names(tmp_path) == ["a.txt"]


def test_places_that_cannot_be_written_are_named_before_the_work(tmp_path: Path) -> None:
    """A missing folder, a folder in place of a file: told by the early check and by the writer alike."""
    for force in (False, True):
        for act in (refuse_existing, lambda p, force: write_text(p, "x", force=force)):
            with pytest.raises(FileNotFoundError, match=r"folder '.*missing' does not exist; create it"):
                act(tmp_path / "missing" / "a.txt", force=force)
            with pytest.raises(IsADirectoryError, match="is a folder"):
                act(tmp_path, force=force)
    assert names(tmp_path) == []


def test_free_name_passes_the_early_check(tmp_path: Path) -> None:
    """The early check says nothing about a free name, and makes no file."""
    refuse_existing(tmp_path / "a.txt")
    assert names(tmp_path) == []


@posix_only
def test_permissions_follow_umask_and_are_kept_on_replacement(tmp_path: Path) -> None:
    """A new file has the permissions of any other new file; a replaced one keeps its own."""
    path, other = tmp_path / "a.txt", tmp_path / "b.txt"
    other.write_text("made the usual way")
    write_text(path, "x")
    assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE(other.stat().st_mode)
    path.chmod(0o640)
    write_text(path, "y", force=True)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


@posix_only
def test_symbolic_link_stays_a_link(tmp_path: Path) -> None:
    """Replacing through a link replaces the file it leads to; a link, even a dead one, is no free name."""
    (tmp_path / "real").mkdir()
    real, link = tmp_path / "real" / "a.txt", tmp_path / "link"
    link.symlink_to(real)
    with pytest.raises(OutputExistsError):
        write_text(link, "x")
    write_text(link, "x", force=True)
    write_text(link, "y", force=True)
    assert link.is_symlink()
    assert real.read_text() == "y"
    assert names(tmp_path / "real") == ["a.txt"]


@posix_only
def test_pipes_are_written_to_and_stay(tmp_path: Path) -> None:
    """A pipe gets the bytes and is not replaced, with or without force."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    got: list[bytes] = []
    reader = threading.Thread(target=lambda: got.append(pipe.read_bytes()))
    reader.start()
    write_text(pipe, "through")
    reader.join()
    assert got == [b"through"]
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_lone_surrogate_is_refused(tmp_path: Path) -> None:
    """Text that UTF-8 cannot hold is refused before anything is written."""
    with pytest.raises(FormatError, match=r"character 3 of the text is the lone surrogate '\\ud800'"):
        write_text(tmp_path / "a.txt", "ab\ud800")
    assert names(tmp_path) == []
