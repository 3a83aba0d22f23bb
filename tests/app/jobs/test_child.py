"""The child's side of the protocol, with a real child on real pipes."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from app.errors import Fault, InvalidRequestError, LeaseLostError, NotFoundError
from app.jobs.child import ORPHANED, describe
from tests.app.jobs.helpers import CHILD
from tests.processes import alive, wait_until


def start() -> "subprocess.Popen[bytes]":
    return subprocess.Popen(CHILD, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def task(kind: str, payload: dict[str, Any]) -> bytes:
    fields = {"id": "job_1", "kind": kind, "payload": payload, "checkpoint": None, "attempts": 1}
    return json.dumps(fields).encode() + b"\n"


def converse(kind: str, payload: dict[str, Any] | None = None) -> tuple[list[dict[str, Any]], str, int]:
    """The child's messages, its standard error and exit code; its standard input stays open until it ends."""
    child = start()
    assert child.stdin is not None
    assert child.stdout is not None
    assert child.stderr is not None
    with child:
        child.stdin.write(task(kind, payload or {}))
        child.stdin.flush()
        messages = [json.loads(line) for line in child.stdout]
        return messages, child.stderr.read().decode(), child.wait(timeout=10)


def test_an_answer() -> None:
    messages, _, code = converse("echo", {"a": [1.5, "x"]})
    assert messages == [
        {"progress": {"fraction": 1.0}},
        {"done": {"payload": {"a": [1.5, "x"]}, "checkpoint": None, "attempts": 1}},
    ]
    assert code == 0


def test_prints_and_impossible_numbers_do_not_break_the_protocol() -> None:
    messages, errors, code = converse("chatter")
    assert messages[-1] == {"done": {"read": "", "infinite": [None, None, 1.5], "nested": {"nan": [None]}}}
    assert len(messages) == 5001
    assert messages[2500] == {"progress": {"fraction": 0.5, "objective": None}}
    assert "a stray print" in errors
    assert '{"done": {"forged": true}}' in errors
    assert code == 0


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (
            "request",
            {
                "type": "invalid-request",
                "message": "the table is wrong",
                "errors": [{"message": "not a number", "row": 3, "line": None, "column": "x", "value": "?"}],
                "total": 1,
            },
        ),
        ("numbers", {"type": "wrong-numbers", "message": "not positive definite"}),
        ("memory", {"type": "out-of-memory", "message": "the job needs more memory than there is"}),
        ("bug", {"type": "internal", "message": "an internal error; the worker's log has it under job_1"}),
    ],
)
def test_errors_become_answers(error: str, expected: dict[str, Any]) -> None:
    messages, errors, code = converse("refuse", {"error": error})
    assert messages == [{"failed": expected}]
    assert ("Traceback" in errors) == (error in {"memory", "bug"})
    assert code == 0


def test_a_full_disk_sends_the_job_back_with_the_reason() -> None:
    messages, errors, code = converse("refuse", {"error": "full"})
    assert messages == [{"postponed": {"type": "unavailable", "message": "the disk of the server is full"}}]
    assert "No space left on device" in errors
    assert "Traceback" not in errors
    assert code == 0
    (message,), errors, _ = converse("refuse", {"error": "lost file"})
    assert message["failed"]["type"] == "internal"
    assert "FileNotFoundError" in errors


def test_an_unknown_kind_is_an_internal_error() -> None:
    messages, errors, _ = converse("no-such-kind")
    assert messages[0]["failed"]["type"] == "internal"
    assert "no-such-kind" in errors


def test_it_ends_when_its_supervisor_is_gone(tmp_path: Path) -> None:
    """Standard input closes: the child leaves, in the middle of its work."""
    log = tmp_path / "log"
    with start() as child:
        assert child.stdin is not None
        child.stdin.write(task("steps", {"steps": 1, "seconds": 60, "log": str(log)}))
        child.stdin.flush()
        wait_until(log.exists)
        began = time.monotonic()
        child.stdin.close()
        assert child.wait(timeout=5) == ORPHANED
        assert time.monotonic() - began < 1.0


def test_it_ends_when_there_is_no_task() -> None:
    with start() as child:
        assert child.stdin is not None
        child.stdin.write(b'{"id": "job_1", "half a ta')
        child.stdin.close()
        assert child.wait(timeout=10) == ORPHANED


def test_a_child_in_a_c_loop_dies_with_its_parent(tmp_path: Path) -> None:
    """The loop never lets go of the interpreter, so only the death signal can work; the pipe is held open here."""
    log = tmp_path / "log"
    code = (
        "import os, subprocess, sys, time\n"
        f"subprocess.Popen({list(CHILD)!r}, stdin=0, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)\n"
        "time.sleep(60)\n"
    )
    reading, writing = os.pipe()
    with subprocess.Popen([CHILD[0], "-c", code], stdin=reading) as parent:
        os.close(reading)
        os.write(writing, task("spin", {"log": str(log)}))
        wait_until(lambda: log.exists() and log.read_text().endswith("\n"))
        pid = int(log.read_text())
        parent.send_signal(signal.SIGKILL)
        parent.wait(timeout=5)
        assert wait_until(lambda: not alive(pid), 2.0) < 2.0
    os.close(writing)


def test_describe() -> None:
    assert describe(NotFoundError("gone")) == {"type": "not-found", "message": "gone"}
    assert describe(LeaseLostError("x"))["type"] == "lease-lost"
    many = describe(InvalidRequestError("bad", [Fault(message="m")] * 30))
    assert (len(many["errors"]), many["total"]) == (20, 30)
