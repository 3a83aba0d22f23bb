"""A scheduler and workers as real processes, to be killed."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.app.cli.processes import eventually

ENVIRONMENT = {"OPENBLAS_NUM_THREADS": "1", "DASK_DISTRIBUTED__WORKER__DAEMON": "True"}


@dataclass(slots=True)
class DaskProcesses:
    """A port, a directory for logs, and the processes that run now. Workers have no nanny: a dead one stays dead."""

    directory: Path
    port: int
    scheduler: subprocess.Popen[bytes] | None = None
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def address(self) -> str:
        """As Dask says it."""
        return f"tcp://127.0.0.1:{self.port}"

    def start_scheduler(self) -> None:
        """Listens when this returns."""
        self.scheduler = self._start(
            "scheduler", "--host", "127.0.0.1", "--port", str(self.port), "--no-dashboard", "--no-show", "--no-jupyter"
        )

        def listens() -> bool:
            with socket.socket() as probe:
                return probe.connect_ex(("127.0.0.1", self.port)) == 0

        eventually(listens, 60.0)

    def start_worker(self) -> subprocess.Popen[bytes]:
        """One process, one thread."""
        options = ("--nthreads", "1", "--no-nanny", "--no-dashboard", "--host", "127.0.0.1", "--death-timeout", "60")
        worker = self._start("worker", self.address, *options)
        self.workers.append(worker)
        return worker

    def kill(self) -> None:
        """Kill -9 for all."""
        for process in [*self.workers, *([self.scheduler] if self.scheduler else [])]:
            process.kill()
            process.wait()
        self.workers.clear()
        self.scheduler = None

    def _start(self, what: str, *options: str) -> subprocess.Popen[bytes]:
        with (self.directory / f"{what}-{time.monotonic_ns()}.log").open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "distributed.cli.dask_" + what, *options],
                cwd=Path(__file__).parents[3],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=os.environ | ENVIRONMENT | {"PYTHONPATH": str(Path(__file__).parents[3])},
            )


@contextmanager
def dask_processes(directory: Path, workers: int = 2) -> Iterator[DaskProcesses]:
    """A scheduler and so many workers; none of them is left at the end."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    made = DaskProcesses(directory, port)
    try:
        made.start_scheduler()
        for _ in range(workers):
            made.start_worker()
        yield made
    finally:
        made.kill()
