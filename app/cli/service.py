"""Private service of one command: `pursuit serve` in a process of its own.

It listens on a free port of this machine, or on a Unix socket in a directory that only this user can enter.
"""

import os
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from app.cli.client import Client, ClientError
from app.launch import python_command

_STARTING_SECONDS = 60.0
_STOPPING_SECONDS = 20.0
_LAST_LINES = 30


class ServiceError(ClientError):
    """The private service did not come up; the message holds the end of its log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """A running `pursuit serve`: its process, its log, and where it listens."""

    process: subprocess.Popen[bytes]
    log: Path
    url: str
    socket: Path | None = None

    def client(self) -> Client:
        """A new client of this service."""
        return Client(self.url, socket=self.socket)

    def last_lines(self) -> str:
        """The end of the service's log."""
        return "\n".join(self.log.read_text(encoding="utf-8", errors="replace").splitlines()[-_LAST_LINES:])

    def stop(self) -> None:
        """End the service and its workers; returns when they are gone."""
        self.process.terminate()
        if self.process.stdin is not None:
            self.process.stdin.close()
        try:
            self.process.wait(_STOPPING_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def start(
    data_dir: Path, log: Path, *, port: int = 0, workers: int = 1, socket: Path | None = None, stay: bool = False
) -> Service:
    """Start a service and wait until it can work. Raises ServiceError, after stopping it, when it cannot.

    `Service.stop` ends it, and so does the end of this process, however it comes, unless the service is to `stay`.
    """
    where: Sequence[str] = ("--port", str(port)) if socket is None else ("--socket", str(socket))
    life = () if stay else ("--while-stdin",)
    words = ("serve", "--data-dir", str(data_dir), "--workers", str(workers), *where, *life)
    announced = log.with_suffix(".out")
    with announced.open("wb") as output, log.open("wb") as errors:
        process = subprocess.Popen(
            python_command("app.cli", *words),
            stdin=subprocess.DEVNULL if stay else subprocess.PIPE,
            stdout=output,
            stderr=errors,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
            start_new_session=True,  # Ctrl-C is for the command, which then stops the service itself
        )
    service = Service(process=process, log=log, url="", socket=socket)
    try:
        service = replace(service, url=_wait_for_url(service, announced))
        _wait_until_ready(service)
    except BaseException:
        service.stop()
        raise
    return service


@contextmanager
def local_service(data_dir: Path, *, workers: int) -> Iterator[Client]:
    """Open a client of a private service over a data directory, on a Unix socket; both end with the block."""
    with tempfile.TemporaryDirectory(prefix="pursuit-") as folder:
        service = start(data_dir, Path(folder, "serve.log"), workers=workers, socket=Path(folder, "serve.sock"))
        try:
            with service.client() as client:
                yield client
        finally:
            service.stop()


def _wait_for_url(service: Service, announced: Path) -> str:
    """Wait for the URL that the service prints once it listens, and return it."""
    deadline = time.monotonic() + _STARTING_SECONDS
    while time.monotonic() < deadline:
        for line in announced.read_text(encoding="utf-8").splitlines(keepends=True):
            if line.endswith("\n") and "http://" in line:
                return "http://" + line.partition("http://")[2].strip()
        if service.process.poll() is not None:
            last = service.last_lines()
            if last.startswith("error: ") and "\n" not in last:  # it says plainly what is wrong
                raise ServiceError(last.removeprefix("error: "))
            raise ServiceError(f"the service did not start:\n{last}")
        time.sleep(0.05)
    raise ServiceError(f"the service did not come up within {_STARTING_SECONDS:.0f} s:\n{service.last_lines()}")


def _wait_until_ready(service: Service) -> None:
    deadline = time.monotonic() + _STARTING_SECONDS
    with service.client() as client:
        while not client.ready():
            if service.process.poll() is not None or time.monotonic() > deadline:
                raise ServiceError(f"the service does not become ready:\n{service.last_lines()}")
            time.sleep(0.05)
