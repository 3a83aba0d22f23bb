"""The child process of one job, seen from its supervisor: start, messages, kill, reason of its death."""

import json
import logging
import os
import queue
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from typing import IO, Any

from app.jobs.job import Job

log = logging.getLogger(__name__)

_STDERR_CHARACTERS = 300
_JOIN_SECONDS = 2.0
_TERMINATING = {-signal.SIGTERM, -signal.SIGINT, -signal.SIGHUP}


class ChildProcess:
    """A running child with the job's task on its standard input, in a process group of its own.

    `messages` fills with the objects it sends. It is killed when the monotonic clock passes `deadline`, whatever else
    this process is doing: no work goes on under an expired lease.
    """

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], job: Job, deadline: float) -> None:
        self.messages: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self.deadline = deadline
        self.lease_expired = False
        self._failure: str | None = None
        self._job = job
        self._last_line = ""
        self._closed = threading.Event()
        self._received_all = False
        self._process = subprocess.Popen(
            command,
            env={**os.environ, **environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        self._threads = [
            threading.Thread(target=self._read_stdout, args=(self._process.stdout,), daemon=True),
            threading.Thread(target=self._log_stderr, args=(self._process.stderr,), daemon=True),
            threading.Thread(target=self._enforce_deadline, daemon=True),
        ]
        for thread in self._threads:
            thread.start()
        self._send_task()

    @property
    def pid(self) -> int:
        """Process id of the child, which is also its process group."""
        return self._process.pid

    def receive(self, seconds: float) -> dict[str, Any] | None:
        """Return the next message, or None if there is none within `seconds`."""
        try:
            return self.messages.get(timeout=max(seconds, 0.001))
        except queue.Empty:
            return None

    def has_ended(self) -> bool:
        """True when the child has ended and all it sent is in `messages`."""
        if self._process.poll() is None:
            return False
        if not self._received_all:
            self._threads[0].join(_JOIN_SECONDS)  # not for ever: a grandchild may hold the pipe open
            self._received_all = True
        return True

    def close(self) -> None:
        """Kill the child with all it started, wait for it, and close the pipes. Calling it twice does no harm."""
        self._closed.set()
        self.kill()
        self._process.wait()
        for thread in self._threads:
            thread.join(_JOIN_SECONDS)
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            if stream is not None and not stream.closed:
                _close(stream)

    def kill(self) -> None:
        """Send SIGKILL to its process group, if it is there."""
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except ProcessLookupError:
            return

    @property
    def was_terminated(self) -> bool:
        """True where a signal ended it that asks a process to end: it came from outside."""
        return self._process.returncode in _TERMINATING

    @property
    def job_is_at_fault(self) -> bool:
        """True where its death may be its job's fault: not of a signal from outside, nor of a lease that was over."""
        return not (self.was_terminated or self.lease_expired)

    def death_reason(self) -> str:
        """Describe why it ended without a result; after `close` or `has_ended`."""
        if self._failure is not None:
            return self._failure
        code = self._process.returncode
        if code == -signal.SIGKILL:
            return "killed by signal 9 (out of memory?)"
        if code is not None and code < 0:
            return f"killed by signal {-code} ({signal.strsignal(-code)})"
        stderr = f"; last line of stderr: {self._last_line[:_STDERR_CHARACTERS]}" if self._last_line else ""
        return f"ended with exit code {code} and no result{stderr}"

    def _send_task(self) -> None:
        task = {
            "id": self._job.id,
            "kind": self._job.kind,
            "payload": self._job.payload,
            "checkpoint": self._job.checkpoint,
            "attempts": self._job.attempts,
            "progress": self._job.progress,
        }
        stdin = self._process.stdin
        assert stdin is not None
        try:
            stdin.write(json.dumps(task).encode() + b"\n")
            stdin.flush()
        except BrokenPipeError:
            log.debug("%s: the child ended before it read its task", self._job.id)

    def _read_stdout(self, stdout: IO[bytes]) -> None:
        for line in stdout:
            try:
                message = json.loads(line)
                if not isinstance(message, dict) or len(message) != 1:
                    raise ValueError("expected an object with one key")
            except ValueError as error:
                self._failure = f"sent a line that is not in the protocol: {line[:200]!r} ({error})"
                self.kill()
                return
            self.messages.put(message)

    def _log_stderr(self, stderr: IO[bytes]) -> None:
        fields = {"job": self._job.id, "model": self._job.model}  # of a thread of its own
        for line in stderr:
            text = line.decode("utf-8", "replace").replace("\0", "").rstrip()
            self._last_line = text
            log.info("%s child: %s", self._job.id, text, extra=fields)

    def _enforce_deadline(self) -> None:
        while not self._closed.wait(min(max(self.deadline - time.monotonic(), 0.0), 1.0)):
            if time.monotonic() >= self.deadline:
                log.warning("%s: the lease has expired, its process is killed", self._job.id)
                self._failure = "its lease expired"
                self.lease_expired = True
                self.kill()
                return


def _close(stream: IO[bytes]) -> None:
    try:
        stream.close()
    except BrokenPipeError:
        log.debug("a pipe to a child that died had unsent bytes")
