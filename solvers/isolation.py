"""A search in a process of its own: the parent's half, and the words that cross the pipe.

Why: HiGHS keeps one pool of threads for a process, solvers crash, overrun their limits and eat memory, and a
process can be ended from outside. The parent sends one line of JSON, the task; the child
(:mod:`solvers.worker`) answers with one line for each event of :func:`solvers.search.search`. Nothing is
pickled. So the parent always holds the best plan and bound that were told, and returns them when the child

- is still there when the time limit and a grace have passed: it is killed, ``time-limit``;
- dies: ``error``, and the message says of what;
- uses more memory than it may: it is killed, ``error``;
- or when somebody presses Ctrl-C: it is killed, ``interrupted``. A second Ctrl-C is an ordinary one.

The child ends itself when the parent is gone, whatever the reason.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import logging
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from typing import IO, Any

import numpy as np

from eaco_opt.errors import EacoError
from eaco_opt.io import instance_from_json, instance_to_json
from eaco_opt.io_schedule import schedule_from_json, schedule_to_json
from eaco_opt.result import Status, StopReason
from eaco_opt.schedule import Plan
from formulations.base import Outcome

from .memory import GIB, used_bytes
from .search import Event, Task, Tell
from .verify import InternalError

_LOG = logging.getLogger(__name__)

LEAST_GRACE_S = 2.0
GRACE_SHARE = 0.05
"""After its time limit a child has so much longer [s, share of the limit] to end by itself."""

DETERMINISTIC_FACTOR = 10.0
"""A deterministic limit is not wall-clock time; the child is killed after so many times as much."""

_TICK_S = 0.2
_BOOT = "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from solvers.worker import main; main()"


def run_isolated(task: Task, tell: Tell) -> None:
    """Search in a new process, and pass on what it tells; the last event holds the outcome.

    Parameters
    ----------
    task
        What is searched; its options hold plain values.
    tell
        Told of every event, in this thread.

    Raises
    ------
    EacoError
        As :func:`solvers.search.search` in the child.
    InternalError
        The child failed in a way that it should not.
    """
    began = time.monotonic()
    try:
        line = json.dumps(task_document(task))
    except TypeError as error:
        raise EacoError(
            f"options of a method that runs in a process of its own must be plain values: {error}; "
            "or give the option process='shared'"
        ) from error
    limit_s = wall_limit_s(task)
    child = _Child(line)
    try:
        tell(Event(outcome=_listen(child, tell, task, began, limit_s)))
    except KeyboardInterrupt:
        child.kill()
        tell(
            Event(
                outcome=Outcome(
                    status=Status.UNKNOWN, stop_reason=StopReason.INTERRUPTED, message="interrupted (Ctrl-C)"
                )
            )
        )
    finally:
        child.close()


def wall_limit_s(task: Task) -> float | None:
    """Return after which time [s] the child of a task is killed, ``None`` for never."""
    if task.time_limit_s is None:
        return None
    allowed = task.time_limit_s * (DETERMINISTIC_FACTOR if task.deterministic else 1.0)
    return allowed + max(LEAST_GRACE_S, GRACE_SHARE * allowed)


def _listen(child: _Child, tell: Tell, task: Task, began: float, limit_s: float | None) -> Outcome:
    """Pass on what the child tells until it has an outcome, dies, or has to be killed."""
    while True:
        now = time.monotonic() - began
        if limit_s is not None and now >= limit_s:
            child.kill()
            return Outcome(
                status=Status.UNKNOWN,
                stop_reason=StopReason.TIME_LIMIT,
                message=f"killed after {now:.1f} s: the solver did not keep its time limit",
            )
        used = used_bytes(child.pid) if task.memory_bytes is not None else None
        if used is not None and task.memory_bytes is not None and used > task.memory_bytes:
            child.kill()
            return Outcome(
                status=Status.UNKNOWN,
                stop_reason=StopReason.ERROR,
                message=f"killed at {used / GIB:.2f} GiB: more than the {task.memory_bytes / GIB:.2f} GiB "
                "that it may use; choose a longer slot, or another method",
            )
        try:
            line = child.lines.get(timeout=_TICK_S)
        except queue.Empty:
            continue
        if line is None:
            return Outcome(status=Status.UNKNOWN, stop_reason=StopReason.ERROR, message=child.last_words())
        document = json.loads(line)
        if "error" in document:
            raise _error(document["error"])
        event = event_from(document)
        if event.outcome is not None:
            return event.outcome
        tell(event)


class _Child:
    """A process that runs :mod:`solvers.worker`, with threads that write to it and read from it."""

    def __init__(self, line: str) -> None:
        # Solvers of PuLP leave files where they are killed.
        self._folder = tempfile.TemporaryDirectory(prefix="eaco-opt-", ignore_cleanup_errors=True)
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the child
        self._process = subprocess.Popen(
            [sys.executable, "-X", "faulthandler", "-c", _BOOT, json.dumps(sys.path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env=os.environ | dict.fromkeys(("TMPDIR", "TEMP", "TMP"), self._folder.name),
            start_new_session=os.name == "posix",  # Ctrl-C is the parent's; grandchildren die with the child
        )
        self.pid = self._process.pid
        self.lines: queue.Queue[bytes | None] = queue.Queue()
        threading.Thread(target=self._write, args=(line.encode() + b"\n",), daemon=True).start()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _write(self, data: bytes) -> None:
        pipe = self._process.stdin
        if pipe is not None:
            with contextlib.suppress(OSError, ValueError):
                pipe.write(data)
                pipe.flush()

    def _read(self) -> None:
        pipe = self._process.stdout
        if pipe is not None:
            with contextlib.suppress(OSError, ValueError):
                for line in pipe:
                    self.lines.put(line)
        self.lines.put(None)

    def kill(self) -> None:
        """End it, and whatever it started."""
        if os.name == "posix":
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)
        else:  # pragma: no cover - Windows
            self._process.kill()

    def close(self) -> None:
        """End it, and give everything back."""
        self.kill()
        self._process.wait()
        self._reader.join()
        for pipe in (self._process.stdin, self._process.stdout, self._errors):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        self._folder.cleanup()

    def last_words(self) -> str:
        """Return how a child ended that told no outcome."""
        code = self._process.wait()
        self._errors.seek(0)
        text = self._errors.read()[-2000:].decode("utf-8", "replace").strip()
        if code < 0:
            name = signal.Signals(-code).name if -code in set(signal.Signals) else str(-code)
            hint = ", perhaps for want of memory" if name == "SIGKILL" else ""
            how = f"the solver's process was ended by signal {name}{hint}"
        else:
            how = f"the solver's process ended with code {code} and no outcome"
        return f"{how}: {text.splitlines()[-1]}" if text else how


# Words on the pipe ------------------------------------------------------------------------------------------


def task_document(task: Task) -> dict[str, Any]:
    """Return a task as plain values; what is left of a wall-clock limit is sent as a moment."""
    document: dict[str, Any] = {
        name: getattr(task, name)
        for name in (
            "target", "grid_s", "time_limit_s", "gap", "threads", "seed", "deterministic", "policies",
            "memory_bytes",
        )
    }  # fmt: skip
    document["instance"] = instance_to_json(task.instance)
    document["start"] = None if task.start is None else schedule_to_json(task.start, task.instance)
    document["options"] = dict(task.options)
    document["until"] = None if task.time_limit_s is None else time.time() + task.time_limit_s
    return document


def task_from(document: dict[str, Any]) -> Task:
    """Return the task of a document; a wall-clock limit is what is left of it now."""
    instance = instance_from_json(document["instance"])
    fields = {name: document[name] for name in document if name not in ("instance", "start", "until")}
    if document["until"] is not None and not document["deterministic"]:
        fields["time_limit_s"] = max(0.0, document["until"] - time.time())
    start = None if document["start"] is None else schedule_from_json(document["start"], instance)
    return Task(**fields, instance=instance, start=start)


def event_document(event: Event) -> dict[str, Any]:
    """Return an event as plain values."""
    document = {name: getattr(event, name) for name in ("phase", "slot_s", "objective", "bound")}
    document = {name: value for name, value in document.items() if value is not None}
    if event.plan is not None:
        document["plan"] = _plan_document(event.plan)
    if event.outcome is not None:
        fields = {f.name: getattr(event.outcome, f.name) for f in dataclasses.fields(event.outcome)}
        fields["status"], fields["stop_reason"] = event.outcome.status.value, event.outcome.stop_reason.value
        fields["plan"] = None if event.outcome.plan is None else _plan_document(event.outcome.plan)
        document["outcome"] = fields
    return document


def event_from(document: dict[str, Any]) -> Event:
    """Return the event of a document."""
    fields = dict(document)
    if "plan" in fields:
        fields["plan"] = _plan_from(fields["plan"])
    if "outcome" in fields:
        inner = dict(fields["outcome"])
        inner["status"], inner["stop_reason"] = Status(inner["status"]), StopReason(inner["stop_reason"])
        inner["plan"] = None if inner["plan"] is None else _plan_from(inner["plan"])
        fields["outcome"] = Outcome(**inner)
    return Event(**fields)


def _plan_document(plan: Plan) -> list[Any]:
    return [plan.start_s.tolist(), plan.gpus.tolist()]


def _plan_from(value: list[Any]) -> Plan:
    return Plan(np.array(value[0], dtype=np.float64), np.array(value[1], dtype=np.int64))


def error_document(error: BaseException, trace: str) -> dict[str, Any]:
    """Return an error as plain values: its classes from the narrowest, its text, and where it was raised."""
    return {
        "classes": [c.__name__ for c in type(error).__mro__],
        "text": str(error),
        "features": list(getattr(error, "features", ())),
        "trace": trace,
    }


def _error(document: dict[str, Any]) -> Exception:
    """Return the error of a document: of the narrowest class that is known here."""
    known: dict[str, type[EacoError]] = {}
    waiting: list[type[EacoError]] = [EacoError]
    while waiting:
        found = waiting.pop()
        known[found.__name__] = found
        waiting += found.__subclasses__()
    for name in document["classes"]:
        if name in known:
            error = known[name].__new__(known[name], document["text"])
            Exception.__init__(error, document["text"])
            if document["features"]:
                error.features = tuple(document["features"])  # type: ignore[attr-defined]
            return error
    _LOG.error("in the solver's process:\n%s", document["trace"])
    if "MemoryError" in document["classes"]:
        return EacoError("the solver's process ran out of memory; choose a longer slot, or another method")
    return InternalError(f"the solver's process failed: {document['classes'][0]}: {document['text']}")
