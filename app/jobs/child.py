"""The child process of one job: lines of JSON in and out, nothing else in common with its supervisor.

In (one line on standard input): {"id", "kind", "payload", "checkpoint", "attempts", "progress"}. Standard input
then stays open; its end means that the supervisor is gone, and the child ends too. On Linux it also asks for a
death signal, which works even while a C loop holds the interpreter.

Out (lines on what was standard output): {"progress": {..}}, {"checkpoint": {..}}, {"milestone": {"number": 1}}, and
one of {"done": {..}}, {"failed": {"type", "message", "errors"?, "total"?}} or {"postponed": {"type", "message"}},
after which the job goes back to the queue, as it does where this machine's disk is full. File descriptor 1 then points
at standard error, so that a stray print cannot break the protocol. A number that JSON has no form for (NaN, infinity)
is sent as null.
"""

import json
import logging
import math
import os
import re
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO

from app.errors import PursuitError, UnavailableError, is_full, unwritable
from app.jobs.job import JSON
from app.posix import end_with_parent

log = logging.getLogger(__name__)

ORPHANED = 113
"""Exit code of a child whose supervisor has ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """The job as the child gets it. checkpoint, progress: the last ones of an earlier attempt; None at first."""

    id: str
    kind: str
    payload: JSON
    checkpoint: JSON | None
    attempts: int
    progress: JSON | None = None


class Reporter:
    """Messages of a handler to its supervisor; may be used from several threads."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._lock = threading.Lock()

    def progress(self, progress: JSON) -> None:
        """Send the progress that clients see; as often as you like, only the newest is kept."""
        self._send({"progress": progress})

    def checkpoint(self, state: JSON) -> None:
        """Send the state to resume from; the last one is the `checkpoint` of the next attempt."""
        self._send({"checkpoint": state})

    def milestone(self, number: int) -> None:
        """Send that the job has got so far, without a state to resume from: deaths before it and after it are counted
        apart. The first is 1."""
        self._send({"milestone": {"number": number}})

    def done(self, result: JSON) -> None:
        """Send the result; `run_task` does it for what a handler returns."""
        self._send({"done": result})

    def failed(self, error: JSON) -> None:
        """Send the error that ends the job; `run_task` does it for what a handler raises."""
        self._send({"failed": error})

    def postponed(self, error: JSON) -> None:
        """Send the reason to requeue the job; `run_task` does it for an UnavailableError."""
        self._send({"postponed": error})

    def _send(self, message: JSON) -> None:
        line = json.dumps(_json_safe(message), allow_nan=False, separators=(",", ":")).encode() + b"\n"
        try:
            with self._lock:
                self._stream.write(line)
                self._stream.flush()
        except BrokenPipeError:
            os._exit(ORPHANED)


Handler = Callable[[Task, Reporter], JSON]
"""Function that does one kind of job; its result goes to the supervisor's `publish`."""


def run_task(handlers: Mapping[str, Handler], *, client_errors: Sequence[type[Exception]] = ()) -> int:
    """Do the one job on standard input; return the exit code of the process (0: a result or an error was sent).

    client_errors: error classes beside PursuitError whose message is for the client. Any other error is a bug: its
    traceback goes to the log, the client learns that it is internal.
    """
    reporter, task_stream = _redirect_standard_streams()
    _request_death_signal()
    line = task_stream.readline()
    if not line.endswith(b"\n"):
        return ORPHANED
    threading.Thread(target=_exit_with_supervisor, args=(task_stream,), name="watch-supervisor", daemon=True).start()
    task = Task(**json.loads(line))
    try:
        result = handlers[task.kind](task, reporter)
        reporter.done(result)
    except UnavailableError as error:
        log.warning("%s: postponed: %s", task.id, error)
        reporter.postponed(describe(error))
    except PursuitError as error:
        reporter.failed(describe(error))
    except tuple(client_errors) as error:
        reporter.failed(describe(error))
    except MemoryError:
        log.exception("%s: out of memory", task.id)
        reporter.failed({"type": "out-of-memory", "message": "the job needs more memory than there is"})
    except Exception as error:
        if isinstance(error, OSError) and is_full(error):  # this machine's disk, which is not the job's fault
            log.warning("%s: postponed: %s", task.id, error)
            reporter.postponed(describe(unwritable(error)))
            return 0
        log.exception("%s: the handler of %r raised an unexpected error", task.id, task.kind)
        message = f"an internal error; the worker's log has it under {task.id}"
        reporter.failed({"type": "internal", "message": message})
    return 0


def describe(error: Exception) -> dict[str, Any]:
    """Describe an error as the `error` of a job: its class in kebab case without Error, its message, its faults."""
    name = type(error).__name__.removesuffix("Error")
    body: dict[str, Any] = {
        "type": re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", name).lower(),
        "message": str(error),
    }
    if isinstance(error, PursuitError) and error.faults:
        body["errors"] = [asdict(fault) for fault in error.faults]
        body["total"] = error.total
    return body


def _redirect_standard_streams() -> tuple[Reporter, BinaryIO]:
    """Move the protocol to descriptors of its own; 0 then reads nothing, and 1 is standard error."""
    sys.stdout.flush()
    messages = os.fdopen(os.dup(1), "wb")
    task_stream = os.fdopen(os.dup(0), "rb")
    os.dup2(2, 1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    return Reporter(messages), task_stream


def _exit_with_supervisor(task_stream: BinaryIO) -> None:
    while task_stream.read(1):
        pass
    os._exit(ORPHANED)


def _request_death_signal() -> None:
    """Ask Linux to kill this process when the supervisor's thread ends, and first of all when memory runs out."""
    end_with_parent()
    if sys.platform != "linux":
        return
    try:
        Path("/proc/self/oom_score_adj").write_text("500")
    except OSError:
        log.debug("/proc/self/oom_score_adj cannot be written")


def _json_safe(value: Any) -> Any:
    """Replace NaN and infinities by None."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _json_safe(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_json_safe(item) for item in value]
    return value
