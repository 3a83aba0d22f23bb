"""Several APIs and workers as processes that share a database and a store, each with a data directory of its own."""

import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from tests.ports import free_port
from tests.processes import alive, children, start_module, wait_until

LEASE_SECONDS = 3.0
ENVIRONMENT = {
    "OPENBLAS_NUM_THREADS": "1",
    "PURSUIT_THREADS": "1",
    "PURSUIT_LEASE_SECONDS": str(LEASE_SECONDS),
}


@dataclass(slots=True)
class Fleet:
    """Processes by name: `api-1`, `api-2`, `worker-1`, .. An API keeps its port over restarts."""

    directory: Path
    shared: Mapping[str, str]
    ports: dict[str, int] = field(default_factory=dict)
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def start(self, name: str, **environment: str) -> None:
        """Start it, without waiting for it; `ready` does."""
        kind = name.partition("-")[0]
        if kind == "api":
            self.ports.setdefault(name, free_port())
        own = {"PURSUIT_DATA_DIR": str(self.directory / name), "PURSUIT_PORT": str(self.ports.get(name, 0))}
        self.processes[name] = start_module(
            "app.cli",
            kind,
            log=self.directory / f"{name}.log",
            environment=ENVIRONMENT | dict(self.shared) | own | environment,
        )

    def ready(self, name: str) -> None:
        """Wait until an API or a worker says that it is ready."""
        wait_until(lambda: self._is_ready(name), 240.0)

    def stop(self, name: str, seconds: float = 60.0) -> int:
        """Send SIGTERM and wait; return the exit code."""
        process = self.processes.pop(name)
        process.send_signal(signal.SIGTERM)
        return process.wait(seconds)

    def kill(self, name: str) -> None:
        """Kill the process alone (SIGKILL); what it started must end by itself."""
        process = self.processes.pop(name)
        orphans = children(process.pid)
        process.kill()
        process.wait()
        for orphan in orphans:
            wait_until(lambda orphan=orphan: not alive(orphan), 10.0)  # type: ignore[misc]  # mypy: default in a lambda

    def restart(self, name: str) -> None:
        """Stop it cleanly, start it, wait until it is ready."""
        assert self.stop(name) == 0, self.log(name)
        self.start(name)
        self.ready(name)

    def children_of(self, name: str) -> list[int]:
        """Return the processes that it has started: a worker's child."""
        return children(self.processes[name].pid)

    def url(self, name: str) -> str:
        """Return the URL of an API."""
        return f"http://127.0.0.1:{self.ports[name]}"

    def log(self, name: str) -> str:
        """Return all that the processes of this name have logged."""
        path = self.directory / f"{name}.log"
        return path.read_text() if path.exists() else ""

    def close(self) -> None:
        """Kill them all."""
        for name in list(self.processes):
            self.processes[name].send_signal(signal.SIGCONT)
            self.kill(name)

    def _is_ready(self, name: str) -> bool:
        process = self.processes[name]
        assert process.poll() is None, self.log(name)
        if name not in self.ports:
            return f"-{process.pid}-" in self.log(name)  # "worker {host}-{pid}-{chance} is ready"
        try:
            answer = httpx.get(f"{self.url(name)}/health/ready", timeout=5.0, trust_env=False)
        except httpx.TransportError:
            return False
        return answer.status_code == 200


@contextmanager
def fleet(directory: Path, names: Sequence[str], **shared: str) -> Iterator[Fleet]:
    """Start these processes with these settings and wait for them; kill them at the end."""
    directory.mkdir(exist_ok=True)
    made = Fleet(directory, shared)
    try:
        for name in names:
            made.start(name)
        for name in names:
            made.ready(name)
        yield made
    finally:
        made.close()
