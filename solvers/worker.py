"""The child's half of :mod:`solvers.isolation`: read a task, search, tell every event.

Started as ``python -c`` by the parent. Solvers write to standard output as they like, so the channel to the
parent is a copy of it that nobody else knows, and standard output itself leads to standard error.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
import threading
import traceback
from typing import Any

from .isolation import error_document, event_document, task_from
from .search import Event, search


def main() -> None:
    """Serve one task, and end."""
    channel = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    lock = threading.Lock()

    def send(document: dict[str, Any]) -> None:
        with lock:
            channel.write(json.dumps(document).encode() + b"\n")
            channel.flush()

    line = sys.stdin.buffer.readline()
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        task = task_from(json.loads(line))
        module, _, name = task.target.partition(":")
        method = getattr(importlib.import_module(module), name)()

        def tell(event: Event) -> None:
            send(event_document(event))

        search(task, method, tell)
    except BaseException as error:  # told to the parent, whatever it is
        send({"error": error_document(error, traceback.format_exc())})
    # No farewell of libraries whose threads may hang.
    sys.stderr.flush()
    os._exit(0)


def _end_with_parent() -> None:
    """Wait until the pipe from the parent closes, then end this process and whatever it started."""
    while sys.stdin.buffer.read(4096):
        pass
    if os.name == "posix" and os.getpgid(0) == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(1)
