"""An API and workers as real processes over one data directory, to be asked and to be killed."""

import json
import math
import random
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from core.numeric.shards import SHARDED_ROWS
from tests.processes import alive, children, start_module, wait_until

ENVIRONMENT = {"OPENBLAS_NUM_THREADS": "1", "PURSUIT_THREADS": "1", "PURSUIT_LEASE_SECONDS": "3", "PURSUIT_PORT": "0"}


@dataclass(slots=True)
class System:
    """One data directory with the processes that work on it; where they are `apart`, each process has its own.

    environment: settings beside those of all these tests.
    """

    directory: Path
    environment: dict[str, str] = field(default_factory=dict)
    apart: bool = False
    api: subprocess.Popen[bytes] | None = None
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)
    url: str = ""

    def start_api(self) -> httpx.Client:
        """Start an API and wait until it listens; return a client of it."""
        announced = self.directory / f"api-{time.monotonic_ns()}.out"
        self.api = self._start("api", announced)

        def listens() -> bool:
            assert self.api is not None
            assert self.api.poll() is None, self.log()
            return "\n" in announced.read_text()

        wait_until(listens, 120.0)  # a starved process is slow to begin
        self.url = announced.read_text().split()[-1]
        return httpx.Client(base_url=self.url, timeout=30.0, trust_env=False)

    def start_worker(self) -> subprocess.Popen[bytes]:
        """Start a worker."""
        worker = self._start("worker", self.directory / "worker.out")
        self.workers.append(worker)
        return worker

    def child(self) -> int:
        """Wait for the process that computes for the last worker; return its id."""
        wait_until(lambda: bool(children(self.workers[-1].pid)))
        return children(self.workers[-1].pid)[0]

    def kill(self) -> None:
        """Kill API, supervisors and children at once (SIGKILL)."""
        processes = [*self.workers, *([self.api] if self.api else [])]
        orphans = [child for process in processes for child in children(process.pid)]
        for process in processes:
            process.kill()
        for process in processes:
            process.wait()
        for child in orphans:
            wait_until(lambda child=child: not alive(child), 5.0)  # type: ignore[misc]  # mypy: default in a lambda
        self.workers.clear()
        self.api = None

    def log(self) -> str:
        """Return all that the processes have logged."""
        return (self.directory / "log").read_text()

    def _start(self, role: str, output: Path) -> subprocess.Popen[bytes]:
        data = self.directory / (f"data-{role}" if self.apart else "data")
        environment = ENVIRONMENT | self.environment
        arguments = (role, "--data-dir", str(data))
        return start_module("app.cli", *arguments, log=self.directory / "log", output=output, environment=environment)


@contextmanager
def system(directory: Path, *, environment: dict[str, str] | None = None, apart: bool = False) -> Iterator[System]:
    """Make a System whose processes are killed at the end."""
    made = System(directory, environment=environment or {}, apart=apart)
    try:
        yield made
    finally:
        made.kill()


def surface(rows: int, *, seed: int = 0) -> str:
    """A smooth function of four columns, a category, and a little noise."""
    chance = random.Random(seed)
    lines = ["a,b,c,d,site,y"]
    for _ in range(rows):
        a, b, c, d = (chance.uniform(-2, 2) for _ in range(4))
        site = chance.choice(["north", "south", "west"])
        y = math.sin(a * b) + 0.5 * math.cos(2 * c) * d + len(site) + chance.gauss(0, 0.1)
        lines.append(f"{a!r},{b!r},{c!r},{d!r},{site},{y!r}")
    return "\n".join(lines) + "\n"


def many_rows() -> str:
    """Table with just enough rows for shards, where none is held out."""
    random = np.random.default_rng(0)
    a, b = random.uniform(-2, 2, (2, SHARDED_ROWS + 10))
    y = np.sin(a * b) + 0.1 * random.standard_normal(len(a))
    return "a,b,y\n" + "\n".join(f"{u:.4f},{v:.4f},{w:.4f}" for u, v, w in zip(a, b, y, strict=True)) + "\n"


ROWS = [[0.1, -0.2, 0.3, 1.5, "north"], [1.0, 1.0, -1.0, 0.0, "west"]]


def submit(client: httpx.Client, table: str, **spec: Any) -> str:
    """POST /train; the job's id."""
    form = {"spec": json.dumps({"model": "surface", "target": "y"} | spec)}
    answer = client.post("/train", files={"file": ("surface.csv", table)}, data=form)
    assert answer.status_code == 202, answer.text
    job: str = answer.json()["id"]
    return job


def job_of(client: httpx.Client, job: str) -> dict[str, Any]:
    """GET /jobs/{id}."""
    found: dict[str, Any] = client.get(f"/jobs/{job}").json()
    return found


def follow(client: httpx.Client, job: str) -> list[dict[str, Any]]:
    """Return all events of a job until it has ended."""
    with client.stream("GET", f"/jobs/{job}/events", timeout=60.0) as stream:
        return [json.loads(line[5:]) for line in stream.iter_lines() if line.startswith("data:")]


def predict(client: httpx.Client, model: str = "surface") -> dict[str, Any]:
    """POST /predict for ROWS."""
    answer = client.post("/predict", json={"model": model, "rows": ROWS, "include": ["latent_std"]})
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def terminate(process: subprocess.Popen[bytes], seconds: float = 15.0) -> int:
    """Send SIGTERM and wait; return the exit code."""
    process.send_signal(signal.SIGTERM)
    return process.wait(seconds)
