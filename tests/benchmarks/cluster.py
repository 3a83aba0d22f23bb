"""Training of two million rows on a cluster of two processes against one process, and what that says of 10^8 rows.

    python -m tests.benchmarks.cluster [rows]

flights_delay_2m, d = 300, FITC, defaults otherwise: one process with one thread; two Dask workers of one thread each;
the same again with one of them killed (SIGKILL) in the middle of a pass over all rows. All three must predict the same.
Then a plan on paper from the rates measured. Unset OPENBLAS_CORETYPE and OPENBLAS_L2_SIZE before.
"""

import logging
import math
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from distributed import LocalCluster
from threadpoolctl import threadpool_limits

from app.compute.cluster import Cluster
from core.arrays import FloatArray, IntArray
from core.data import Dataset, Standardization
from core.numeric.shards import MOST_SHARDS, Part, ShardedRows, cuts_of
from core.predict.predictor import Predictor
from core.spec import TrainSpec
from core.train.report import TrainResult
from core.train.run import train
from tests.benchmarks.sets import conditions, load

SIZE = 300
ASKED = 20_000
"""Rows whose predictions are compared."""
PLANNED_ROWS, MACHINES, CORES = 100_000_000, 32, 16
GIGABITS = 10.0
"""Network of each machine, Gbit/s."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pass:
    """One pass over all rows of a sample: the function that each shard runs, rows, basis or pool size, seconds."""

    name: str
    rows: int
    size: int
    seconds: float


@dataclass(slots=True, eq=False)
class Watched:
    """A Compute that writes down the passes, and calls `disturb` in the midst of one."""

    cluster: Cluster
    passes: list[Pass] = field(default_factory=list)
    disturb: Callable[[], None] | None = None

    def scatter(self, dataset: Dataset, numbers: IntArray, unit: Standardization) -> ShardedRows:
        """See `core.numeric.shards.Compute`."""
        return _WatchedRows(self, len(numbers), self.cluster.scatter(dataset, numbers, unit))


@dataclass(slots=True, eq=False)
class _WatchedRows:
    watched: Watched
    rows: int
    inner: ShardedRows

    def total(self, work: Callable[[Any, Sequence[slice]], Part], size: int, least: int) -> Part:
        """See `core.numeric.shards.ShardedRows`."""
        begin, disturb = time.perf_counter(), self.watched.disturb
        if disturb is not None and self.watched.passes:  # how long one takes is known
            threading.Timer(0.4 * self.watched.passes[-1].seconds, disturb).start()
            self.watched.disturb = None
        part = self.inner.total(work, size, least)
        inner = work.args[-1] if isinstance(work, partial) and work.args else work
        name = inner.func.__name__ if isinstance(inner, partial) else getattr(inner, "__name__", "?")
        self.watched.passes.append(Pass(name=name, rows=self.rows, size=size, seconds=time.perf_counter() - begin))
        return part


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Run:
    """Seconds in all and by phase, and predictions of the rows asked."""

    seconds: float
    result: TrainResult
    mean: FloatArray
    variance: FloatArray


def main(words: Sequence[str]) -> None:
    """Prints Markdown."""
    logging.basicConfig(level=logging.ERROR)
    os.environ.setdefault("MALLOC_TRIM_THRESHOLD_", str(256 << 20))  # for the workers, as deploy/README.md says
    print(conditions(), flush=True)
    table = load("flights_delay_2m").train[: int(words[0]) if words else None]
    dataset = Dataset(inputs=table[:, :-1], targets=table[:, -1])
    n, p = dataset.inputs.shape
    print(f"\nflights_delay_2m, n = {n:,}, p = {p}, d = {SIZE}, {len(cuts_of(n)) - 1} shards\n", flush=True)
    with threadpool_limits(1):
        alone = _run(dataset, None)
        _say("one process, one thread", alone, alone)
        with (
            tempfile.TemporaryDirectory() as folder,
            LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as workers,
        ):
            cluster = Cluster(workers.scheduler_address, Path(folder))
            watched = Watched(cluster)
            spread = _run(dataset, watched)
            _say("two workers", spread, alone)
            disturbed = Watched(cluster, disturb=partial(_kill_one, workers))
            _say("two workers, one killed in mid-pass", _run(dataset, disturbed), alone)
            cluster.close()
    local = spread.seconds - sum(found.seconds for found in watched.passes)
    print("\n| pass of the undisturbed run | rows | d or pool | s | us a row and worker |\n|---|---|---|---|---|")
    for found in watched.passes:
        cost = 2e6 * found.seconds / found.rows
        print(f"| {found.name} | {found.rows:,} | {found.size} | {found.seconds:.1f} | {cost:.2f} |")
    print(
        f"\nOutside the passes: {local:.1f} s of {spread.seconds:.1f} s, of which the search on at most 50,000 rows and"
    )
    print(f"its start took {_searching(spread):.1f} s whatever n is.")
    plan(watched.passes, local - _searching(spread), _searching(spread), n, p)


def plan(passes: Sequence[Pass], local: float, search: float, n: int, p: int) -> None:
    """PLANNED_ROWS on MACHINES from these passes of two workers. local: seconds that grow with n, on one thread."""
    rows, cores = PLANNED_ROWS, MACHINES * CORES
    summed = sum(found.seconds for found in passes) * 2.0 / n * rows / cores
    largest = max(found.size for found in passes)
    tasks = 2 * MOST_SHARDS
    per_second = 1e9 * GIGABITS / 8.0
    shared = 8.0 * 4.0 * largest**2 * math.ceil(math.log2(MACHINES)) / per_second * len(passes)
    # Results of neighbouring shards are mostly added where they are: log2(machines) steps go over the network.
    added = 8.0 * largest**2 * math.ceil(math.log2(cores)) / per_second * len(passes)
    columns = 8.0 * rows * 4 / per_second  # e twice, leave-one-out's mean and variance
    table = 8.0 * rows * (p + 1)
    print(
        f"\n{rows:,} rows on {MACHINES} machines of {CORES} cores like these, {GIGABITS:.0f} Gbit/s each, on paper:\n"
    )
    print("| what | how much |\n|---|---|")
    print(f"| shards on the shared disk | {MOST_SHARDS} of {table / MOST_SHARDS / 1e6:.1f} MB, {table / 1e9:.1f} GB |")
    print(f"| each machine reads, a sample | {table / MACHINES / 1e6:.0f} MB |")
    print(f"| passes over all rows | {len(passes)}, {summed:.0f} s on {cores} cores |")
    print(f"| scheduling, {tasks} tasks a pass at 1 ms | {len(passes) * tasks * 1e-3:.0f} s |")
    print(f"| what a pass shares, over the network | {shared:.1f} s |")
    print(f"| results added over the network | {added:.1f} s |")
    print(f"| numbers of every row to the job's machine | {8.0 * rows * 4 / 1e9:.1f} GB, {columns:.1f} s |")
    print(f"| the search, whatever n is | {search:.0f} s |")
    print(f"| the rest, one thread, grows with n | {local / n * rows:.0f} s |")
    whole = summed + len(passes) * tasks * 1e-3 + shared + added + columns + search + local / n * rows
    print(f"| all | {whole:.0f} s |")


def _run(dataset: Dataset, compute: Watched | None) -> Run:
    begin = time.perf_counter()
    result = train(dataset, TrainSpec(basis_size=SIZE), compute=compute)
    seconds = time.perf_counter() - begin
    predicted = Predictor(result.model.posterior).moments(dataset.inputs[:ASKED])
    return Run(seconds=seconds, result=result, mean=predicted.mean, variance=predicted.target_variance)


def _say(name: str, run: Run, alone: Run) -> None:
    phases = ", ".join(f"{phase} {seconds:.1f}" for phase, seconds in run.result.report.seconds.items())
    spread = np.std(alone.mean)
    mean = float(np.abs(run.mean - alone.mean).max() / spread)
    variance = float(np.abs(run.variance / alone.variance - 1.0).max())
    print(
        f"- {name}: {run.seconds:.1f} s ({alone.seconds / run.seconds:.2f} times as fast); largest difference of a "
        f"mean {mean:.1e} of their spread, of a variance {variance:.1e} of itself; {phases}",
        flush=True,
    )


def _searching(run: Run) -> float:
    """Seconds of start and rounds."""
    seconds = run.result.report.seconds
    return seconds["starting"] + seconds["adapting"] + seconds["selecting"]


def _kill_one(workers: LocalCluster) -> None:
    """SIGKILL for the process that computes of one worker; its nanny starts another."""
    pid = next(iter(workers.workers.values())).pid
    print(f"  (a worker is killed: process {pid})", flush=True)
    os.kill(pid, signal.SIGKILL)


if __name__ == "__main__":
    main(sys.argv[1:])
