"""Processes of the tests: start them with a log, look at them, wait for what they do."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path


def start_module(
    module: str,
    *arguments: str,
    log: Path,
    environment: Mapping[str, str],
    output: Path | None = None,
    folder: Path | None = None,
) -> subprocess.Popen[bytes]:
    """Start `python -m module` without input; its output is appended to `log`, or standard output to `output`.

    environment: variables beside those of this process. folder: its working directory, if another one.
    """
    with log.open("ab") as errors, (output or log).open("ab") as answers:
        return subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=answers,
            stderr=errors,
            env={**os.environ, "PYTHONUNBUFFERED": "1", **environment},
        )


def finish(started: Sequence[subprocess.Popen[bytes]], seconds: float = 60.0) -> None:
    """Wait for processes whose standard error is a pipe; AssertionError with it if one fails."""
    errors = [process.communicate(timeout=seconds)[1].decode() for process in started]
    assert [process.returncode for process in started] == [0] * len(started), errors


def children(pid: int) -> list[int]:
    """Return the processes whose parent is `pid`."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[1]) == pid:
                found.append(int(entry.name))
    return found


def alive(pid: int) -> bool:
    """True if a process runs; one that has ended but was not waited for (a zombie) does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def wait_until(holds: Callable[[], bool], seconds: float = 30.0, pause: float = 0.05) -> float:
    """Wait until something holds; return the seconds it took. AssertionError if it does not in time."""
    began = time.monotonic()
    while not holds():
        assert time.monotonic() - began < seconds, f"not so within {seconds} s"
        time.sleep(pause)
    return time.monotonic() - began
