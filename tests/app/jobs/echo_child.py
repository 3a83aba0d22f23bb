"""The child of the tests: kinds of jobs that end well, end badly, hang, crash, or break the rules."""

# ruff: noqa: ARG001  a handler takes a task and a reporter, also where it needs neither

import logging
import math
import os
import subprocess
import sys
import time
from pathlib import Path

from app.errors import Fault, InvalidRequestError, UnavailableError
from app.jobs.child import Reporter, Task, serve
from app.jobs.job import JSON


class WrongNumbersError(Exception):
    """Stands for an error of the numerics."""


def echo(task: Task, reporter: Reporter) -> JSON:
    """Gives back what it was told."""
    reporter.progress({"fraction": 1.0})
    return {"payload": task.payload, "checkpoint": task.checkpoint, "attempts": task.attempts}


def steps(task: Task, reporter: Reporter) -> JSON:
    """payload: steps, seconds each, log (a file that gets a line `step pid` each), die_at (kill -9 itself there)."""
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


def spin(task: Task, reporter: Reporter) -> JSON:
    """A loop in C that never lets go of the interpreter; the pid is in the file payload["log"]."""
    Path(task.payload["log"]).write_text(f"{os.getpid()}\n")
    reporter.progress({"phase": "spinning"})
    sum(range(10**12))
    return {}


def die(task: Task, reporter: Reporter) -> JSON:
    """payload: signal, or exit code."""
    with Path(task.payload["log"]).open("a") as log:
        log.write(f"{os.getpid()}\n")
    sys.stderr.write("some library's last words\n")
    sys.stderr.flush()
    if "signal" in task.payload:
        os.kill(os.getpid(), task.payload["signal"])
    os._exit(task.payload["exit"])


def refuse(task: Task, reporter: Reporter) -> JSON:
    """Raises what payload["error"] names."""
    wanted = task.payload["error"]
    if wanted == "request":
        raise InvalidRequestError("the table is wrong", [Fault(message="not a number", row=3, column="x", value="?")])
    if wanted == "store":
        raise UnavailableError("the bucket does not answer")
    if wanted == "numbers":
        raise WrongNumbersError("not positive definite")
    if wanted == "memory":
        raise MemoryError
    raise KeyError(wanted)


def detach(task: Task, reporter: Reporter) -> JSON:
    """Leaves a process behind that holds the pipes open, says much, and dies without an answer."""
    subprocess.Popen(["sleep", "30"], pass_fds=(reporter._stream.fileno(),))
    for number in range(200):
        reporter.progress({"fraction": number / 200})
    os._exit(4)


def chatter(task: Task, reporter: Reporter) -> JSON:
    """Prints, reads standard input, sends numbers that JSON cannot say, and much progress."""
    print("a stray print")
    os.write(1, b'{"done": {"forged": true}}\n')
    read = sys.stdin.read()
    for number in range(5000):
        reporter.progress({"fraction": number / 5000, "objective": math.nan})
    return {"read": read, "infinite": [math.inf, -math.inf, 1.5], "nested": {"nan": (math.nan,)}}


def garbage(task: Task, reporter: Reporter) -> JSON:
    """Writes onto the protocol's own descriptor what is not in the protocol."""
    reporter._stream.write(b"\xff not json\n")
    reporter._stream.flush()
    time.sleep(60)
    return {}


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    KINDS = (echo, steps, spin, die, refuse, detach, chatter, garbage)
    sys.exit(serve({kind.__name__: kind for kind in KINDS}, refusals=(WrongNumbersError,)))
