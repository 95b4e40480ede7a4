"""Make `.venv` from `requirements.lock`, unless it already is what the lock says.

`make env` runs this with any Python >= 3.11; only the standard library is used. The steps:

1. a stamp inside the environment tells what it was made from (digest of the lock, of `pyproject.toml`, the
   folder it was made in). It is removed before packages change and written when they are complete, so that a
   half-made environment never counts;
2. an environment that agrees with its stamp and whose interpreter starts is left alone, without any network;
3. if only `pyproject.toml` changed, the project alone is installed anew (entry points, packages), no network;
4. if the lock changed, its packages are installed over the old ones, and the project anew;
5. else the folder is emptied, every package of the lock is installed, then the project itself, editable, with
   the locked build backend. Hashes are checked whenever a package is installed.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ENV = ROOT / ".venv"
LOCK = ROOT / "requirements.lock"
STAMP = ENV / "made-from.json"
PYTHON = ENV / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
PROJECT = ["install", "--no-index", "--no-deps", "--no-build-isolation", "--editable", str(ROOT)]


def say(text: str) -> None:
    """Print one line of progress at once."""
    print(f"[env] {text}", flush=True)


def digest(path: Path) -> str:
    """Return the SHA-256 of a text file, whatever its line ends."""
    return hashlib.sha256(path.read_bytes().replace(b"\r\n", b"\n")).hexdigest()


def wanted() -> dict[str, str]:
    """Return what the stamp of an environment that is up to date says."""
    return {"lock": digest(LOCK), "project": digest(ROOT / "pyproject.toml"), "folder": str(ROOT)}


def found() -> dict[str, str]:
    """Return what the stamp says; empty where there is none or the environment does not start."""
    try:
        said = json.loads(STAMP.read_text(encoding="utf-8"))
        subprocess.run([PYTHON, "-c", "import pip"], check=True, capture_output=True)
    except (OSError, ValueError, subprocess.CalledProcessError):
        return {}
    return said if isinstance(said, dict) else {}


def stamp(text: dict[str, str]) -> None:
    """Write the stamp, whole or not at all."""
    half = STAMP.with_suffix(".new")
    half.write_text(json.dumps(text, indent=1) + "\n", encoding="utf-8")
    half.replace(STAMP)


def create() -> list[str]:
    """Make an empty environment and return the command that runs pip for it.

    Some Linux systems split `ensurepip` off from Python (`python3-venv`); there the pip beside the
    interpreter fills the environment, if it is new enough to be pointed at another one (22.3).
    """
    try:
        import venv
    except ImportError:
        raise SystemExit(f"[env] {sys.executable} has no module venv: {ADVICE}") from None
    try:
        import ensurepip  # noqa: F401
    except ImportError:
        probe = [sys.executable, "-m", "pip", "--python", sys.executable, "--version"]
        if subprocess.run(probe, capture_output=True).returncode != 0:
            raise SystemExit(
                f"[env] {sys.executable} has neither ensurepip nor pip >= 22.3: {ADVICE}"
            ) from None
        say("this Python has no ensurepip; its own pip fills the environment")
        venv.create(ENV, clear=True, with_pip=False, symlinks=os.name != "nt")
        return [sys.executable, "-m", "pip", "--python", str(PYTHON)]
    venv.create(ENV, clear=True, with_pip=True, symlinks=os.name != "nt")
    return [str(PYTHON), "-m", "pip"]


ADVICE = (
    "install it (Debian, Ubuntu: apt install python3-venv) or name another Python, "
    "as in `make env PYTHON=/path/to/python3.12`."
)


def run(pip: list[str], *words: str) -> None:
    """Run pip, printing errors only where nobody watches; stop with its exit code if it fails."""
    quiet = [] if sys.stdout.isatty() else ["-qq"]
    done = subprocess.run([*pip, "--disable-pip-version-check", *quiet, *words], cwd=ROOT)
    if done.returncode != 0:
        say(f"pip stopped with exit code {done.returncode}; the environment is not made.")
        say("Its last lines say why; without network, only an environment that is already made can be used.")
        raise SystemExit(done.returncode)


def main() -> None:
    """Bring the environment to what lock and project file say, and say what was done."""
    want, have = wanted(), found()
    if have == want:
        return
    start = time.monotonic()
    pip = [str(PYTHON), "-m", "pip"]
    if have.get("folder") != want["folder"]:
        say(f"{ENV.name} is missing, unfinished or moved: making it with Python {sys.version.split()[0]}")
        STAMP.unlink(missing_ok=True)
        pip, have = create(), {}
    if have.get("lock") != want["lock"]:
        say("installing what requirements.lock lists, hashes checked (some minutes on a first download)")
        STAMP.unlink(missing_ok=True)
        run(pip, "install", "--require-hashes", "--only-binary", ":all:", "--requirement", str(LOCK))
        stamp({**want, "project": "not installed yet"})
    say("installing the project itself, editable")
    run([str(PYTHON), "-m", "pip"], *PROJECT)
    stamp(want)
    say(f"done in {time.monotonic() - start:.0f} s")


if __name__ == "__main__":
    main()
