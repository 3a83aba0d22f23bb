"""A Dask scheduler and Dask workers as real processes, to be killed."""

import gc
import subprocess
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.ports import free_port, listens
from tests.processes import start_module, wait_until

ROOT = Path(__file__).parents[3]
ENVIRONMENT = {
    "OPENBLAS_NUM_THREADS": "1",
    "DASK_DISTRIBUTED__WORKER__DAEMON": "True",
    "PYTHONPATH": str(ROOT),
}


LEAVES_SOCKETS = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
"""Mark of tests that kill processes: distributed leaves its sockets to them unclosed."""


@dataclass(slots=True)
class DaskProcesses:
    """A port, a directory for logs, variables beside those of all tests, and the processes that run now. Workers have
    no nanny: a dead one stays dead."""

    directory: Path
    port: int
    environment: dict[str, str] = field(default_factory=dict)
    scheduler: subprocess.Popen[bytes] | None = None
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def address(self) -> str:
        """Address of the scheduler in Dask's form."""
        return f"tcp://127.0.0.1:{self.port}"

    def start_scheduler(self) -> None:
        """Start the scheduler and wait until it listens."""
        self.scheduler = self._start(
            "scheduler", "--host", "127.0.0.1", "--port", str(self.port), "--no-dashboard", "--no-show", "--no-jupyter"
        )
        wait_until(lambda: listens(self.port), 60.0)

    def start_worker(self) -> subprocess.Popen[bytes]:
        """Start a worker of one process and one thread."""
        options = ("--nthreads", "1", "--no-nanny", "--no-dashboard", "--host", "127.0.0.1", "--death-timeout", "60")
        worker = self._start("worker", self.address, *options)
        self.workers.append(worker)
        return worker

    def kill(self) -> None:
        """Kill all processes (SIGKILL)."""
        for process in [*self.workers, *([self.scheduler] if self.scheduler else [])]:
            process.kill()
            process.wait()
        self.workers.clear()
        self.scheduler = None

    def _start(self, role: str, *options: str) -> subprocess.Popen[bytes]:
        log, environment = self.directory / f"{role}-{time.monotonic_ns()}.log", ENVIRONMENT | self.environment
        return start_module(f"distributed.cli.dask_{role}", *options, log=log, environment=environment, folder=ROOT)


@contextmanager
def dask_processes(
    directory: Path, workers: int = 2, environment: dict[str, str] | None = None
) -> Iterator[DaskProcesses]:
    """Start a scheduler and so many workers; all are killed at the end. environment: more variables of them."""
    made = DaskProcesses(directory, free_port(), environment or {})
    try:
        made.start_scheduler()
        for _ in range(workers):
            made.start_worker()
        yield made
    finally:
        made.kill()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            gc.collect()  # what LEAVES_SOCKETS is for would else be found in another test
