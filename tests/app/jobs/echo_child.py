"""The child of the tests: kinds of jobs that end well, end badly, hang, crash, or break the rules."""

# ruff: noqa: ARG001  a handler takes a task and a reporter, also where it needs neither

import logging
import math
import os
import subprocess
import sys
import time
from pathlib import Path

from app.errors import ComputeUnavailableError, Fault, InvalidRequestError, UnavailableError
from app.jobs.child import Reporter, Task, run_task
from app.jobs.job import JSON


class WrongNumbersError(Exception):
    """Stand-in for an error of the numerics."""


def echo(task: Task, reporter: Reporter) -> JSON:
    """Return the task."""
    reporter.progress({"fraction": 1.0})
    return {"payload": task.payload, "checkpoint": task.checkpoint, "attempts": task.attempts}


def steps(task: Task, reporter: Reporter) -> JSON:
    """Do steps. payload: steps, seconds each, log (a file that gets a line `step pid` each), die_at (a step)."""
    first = 0 if task.checkpoint is None else task.checkpoint["step"]
    for step in range(first, task.payload["steps"]):
        with Path(task.payload["log"]).open("a") as log:
            log.write(f"{step} {os.getpid()}\n")
        if step == task.payload.get("die_at"):
            os.kill(os.getpid(), 9)
        time.sleep(task.payload["seconds"])
        reporter.progress({"fraction": (step + 1) / task.payload["steps"], "round": step + 1})
        reporter.checkpoint({"step": step + 1, "theta": [math.pi * step]})
    return {"steps": task.payload["steps"], "model": "cars"}


def phases(task: Task, reporter: Reporter) -> JSON:
    """Go through phases. payload: phases, seconds each."""
    for phase in task.payload["phases"]:
        reporter.progress({"phase": phase})
        time.sleep(task.payload["seconds"])
    return {}


def spin(task: Task, reporter: Reporter) -> JSON:
    """Run a loop in C that never releases the interpreter; the pid is in the file payload["log"]."""
    Path(task.payload["log"]).write_text(f"{os.getpid()}\n")
    reporter.progress({"phase": "spinning"})
    sum(range(10**12))
    return {}


def die(task: Task, reporter: Reporter) -> JSON:
    """Die. payload: signal, or exit code."""
    with Path(task.payload["log"]).open("a") as log:
        log.write(f"{os.getpid()}\n")
    sys.stderr.write("some library's last words\n")
    sys.stderr.flush()
    if "signal" in task.payload:
        os.kill(os.getpid(), task.payload["signal"])
    os._exit(task.payload["exit"])


def die_where(task: Task, reporter: Reporter) -> JSON:
    """Die at once where there is a file payload["broken"]."""
    if Path(task.payload["broken"]).exists():
        os.kill(os.getpid(), 4)
    return {}


def refuse(task: Task, reporter: Reporter) -> JSON:
    """Raise what payload["error"] names."""
    kind = task.payload["error"]
    if kind == "request":
        raise InvalidRequestError("the table is wrong", [Fault(message="not a number", row=3, column="x", value="?")])
    if kind == "store":
        raise UnavailableError("the bucket does not answer")
    if kind == "numbers":
        raise WrongNumbersError("not positive definite")
    if kind == "memory":
        raise MemoryError
    if kind == "full":
        Path("/dev/full").write_text("one byte too many")
    if kind == "lost file":
        Path("/nowhere/at/all").read_bytes()
    raise KeyError(kind)


def unavailable(task: Task, reporter: Reporter) -> JSON:
    """Find the cluster unavailable until there is a file payload["there"]."""
    reporter.checkpoint({"step": 1})
    if not Path(task.payload["there"]).exists():
        raise ComputeUnavailableError("the cluster does not answer; the job waits")
    return {"checkpoint": task.checkpoint}


def detach(task: Task, reporter: Reporter) -> JSON:
    """Leave a process behind that holds the pipes open, send much, and die without a result."""
    subprocess.Popen(["sleep", "30"], pass_fds=(reporter._stream.fileno(),))
    for number in range(200):
        reporter.progress({"fraction": number / 200})
    os._exit(4)


def chatter(task: Task, reporter: Reporter) -> JSON:
    """Print, read standard input, send numbers that JSON has no form for, and much progress."""
    print("a stray print")
    os.write(1, b'{"done": {"forged": true}}\n')
    read = sys.stdin.read()
    for number in range(5000):
        reporter.progress({"fraction": number / 5000, "objective": math.nan})
    return {"read": read, "infinite": [math.inf, -math.inf, 1.5], "nested": {"nan": (math.nan,)}}


def garbage(task: Task, reporter: Reporter) -> JSON:
    """Write a line that is not in the protocol onto the protocol's own descriptor."""
    reporter._stream.write(b"\xff not json\n")
    reporter._stream.flush()
    time.sleep(60)
    return {}


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    KINDS = (echo, steps, phases, spin, die, die_where, refuse, unavailable, detach, chatter, garbage)
    sys.exit(run_task({kind.__name__: kind for kind in KINDS}, client_errors=(WrongNumbersError,)))
