"""The child process that does one job: lines of JSON in and out, nothing else in common with its supervisor.

In (one line on standard input): {"id", "kind", "payload", "checkpoint", "attempts", "progress"}. Standard input
then stays open; its end means that the supervisor is gone, and the child ends too. On Linux it also asks for a
death signal, which works even while a C loop holds the interpreter.

Out (lines on what was standard output): {"progress": {..}}, {"checkpoint": {..}}, and one of {"done": {..}},
{"failed": {"type", "message", "errors"?, "total"?}} or {"postponed": {"type", "message"}}, which is nobody's
fault: the job goes back to the queue. File descriptor 1 then points at standard error, so that a
stray print cannot break the protocol. A number that JSON cannot say (NaN, infinity) is sent as null.
"""

import ctypes
import json
import logging
import math
import os
import re
import signal
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO

from app.errors import PursuitError, UnavailableError
from app.jobs.job import JSON

log = logging.getLogger(__name__)

ORPHANED = 113
"""Exit code of a child whose supervisor went away."""
_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What the child is asked to do. checkpoint: where an earlier try got to; progress: what it last said; None at
    first.
    """

    id: str
    kind: str
    payload: JSON
    checkpoint: JSON | None
    attempts: int
    progress: JSON | None = None


class Reporter:
    """How a handler talks to its supervisor; may be used from several threads."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._lock = threading.Lock()

    def progress(self, news: JSON) -> None:
        """How far it is, for people; as often as you like, only the newest is kept."""
        self._send({"progress": news})

    def checkpoint(self, state: JSON) -> None:
        """What another process needs to go on from here; the last one is the `checkpoint` of the next try."""
        self._send({"checkpoint": state})

    def done(self, result: JSON) -> None:
        """The end; `serve` says this for what a handler returns."""
        self._send({"done": result})

    def failed(self, error: JSON) -> None:
        """The end; `serve` says this for what a handler raises."""
        self._send({"failed": error})

    def postponed(self, error: JSON) -> None:
        """The end of this try; `serve` says this for an UnavailableError."""
        self._send({"postponed": error})

    def _send(self, message: JSON) -> None:
        line = json.dumps(_sayable(message), allow_nan=False, separators=(",", ":")).encode() + b"\n"
        try:
            with self._lock:
                self._stream.write(line)
                self._stream.flush()
        except BrokenPipeError:
            os._exit(ORPHANED)


Handler = Callable[[Task, Reporter], JSON]
"""Does one kind of job; what it returns goes to the supervisor's `publish`."""


def serve(handlers: Mapping[str, Handler], *, refusals: Sequence[type[Exception]] = ()) -> int:
    """Do the one job on standard input; the process's exit code (0: an answer was given, good or bad).

    `refusals`: error classes beside PursuitError whose message is for the person who asked. Anything
    else is a bug of ours: its traceback goes to the log, the person is told that it is internal.
    """
    reporter, orders = _take_over_pipes()
    _die_with_parent()
    line = orders.readline()
    if not line.endswith(b"\n"):
        return ORPHANED
    threading.Thread(target=_watch, args=(orders,), name="watch-supervisor", daemon=True).start()
    task = Task(**json.loads(line))
    try:
        result = handlers[task.kind](task, reporter)
        reporter.done(result)
    except UnavailableError as error:
        log.warning("%s: put off: %s", task.id, error)
        reporter.postponed(describe(error))
    except PursuitError as error:
        reporter.failed(describe(error))
    except tuple(refusals) as error:
        reporter.failed(describe(error))
    except MemoryError:
        log.exception("%s: out of memory", task.id)
        reporter.failed({"type": "out-of-memory", "message": "the job needs more memory than there is"})
    except Exception:
        log.exception("%s: the handler of %r broke", task.id, task.kind)
        message = f"an internal error; the worker's log has it under {task.id}"
        reporter.failed({"type": "internal", "message": message})
    return 0


def describe(error: Exception) -> dict[str, Any]:
    """An error as the `error` of a job: its class in kebab case without Error, its message, the faults if
    any.
    """
    name = type(error).__name__.removesuffix("Error")
    body: dict[str, Any] = {
        "type": re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", name).lower(),
        "message": str(error),
    }
    if isinstance(error, PursuitError) and error.faults:
        body["errors"] = [asdict(fault) for fault in error.faults]
        body["total"] = error.total
    return body


def _take_over_pipes() -> tuple[Reporter, BinaryIO]:
    """The protocol on descriptors of its own; 0 reads nothing from now on, 1 goes where 2 goes."""
    sys.stdout.flush()
    answers = os.fdopen(os.dup(1), "wb")
    orders = os.fdopen(os.dup(0), "rb")
    os.dup2(2, 1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    return Reporter(answers), orders


def _watch(orders: BinaryIO) -> None:
    while orders.read(1):
        pass
    os._exit(ORPHANED)


def _die_with_parent() -> None:
    """On Linux: be killed when the supervisor's thread ends, and be the first to go when memory runs out."""
    if sys.platform != "linux":
        return
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    try:
        Path("/proc/self/oom_score_adj").write_text("500")
    except OSError:
        log.debug("no say in who goes first when memory runs out")


def _sayable(value: Any) -> Any:
    """The same with null for NaN and infinities."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _sayable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_sayable(item) for item in value]
    return value
