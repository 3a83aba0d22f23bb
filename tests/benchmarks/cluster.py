"""Training of two million rows on a cluster of two processes against one process, and a simulation of 10^8 rows.

    python -m tests.benchmarks.cluster [rows] [beyond] | --simulate

flights_delay_2m, d = 300, FITC, defaults otherwise: one process with one thread; two Dask workers of one thread each;
the same again with one of them killed (SIGKILL) a third of the way, in the middle of a pass. All three must predict the
same. beyond: SAMPLE rows in the process, the others in files (`core.train.beyond`). --simulate: see
`tests.benchmarks.simulation`; minutes on one core. Unset OPENBLAS_CORETYPE and OPENBLAS_L2_SIZE before.
"""

import logging
import os
import resource
import signal
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import dask
import numpy as np
from distributed import LocalCluster
from threadpoolctl import threadpool_limits

from app.compute.cluster import Cluster
from app.compute.folder import ShardFolder
from app.compute.shards import Shard
from app.compute.stored_rows import StoredRows
from core.arrays import FloatArray, IntArray
from core.data import Dataset, Standardization
from core.numeric.shards import Part, Partitions, ShardedRows, is_very_large
from core.predict.predictor import Predictor
from core.spec import TrainSpec
from core.train.report import TrainResult
from core.train.run import train
from tests.benchmarks.sets import conditions, load
from tests.benchmarks.simulation.measure import measure
from tests.benchmarks.simulation.report import PLANNED_ROWS, report

SIZE = 300
SAMPLE = 200_000
"""Rows that the process holds where the others are in files."""
PARTS = 30_000
"""Rows of a file."""
ASKED = 20_000
"""Rows whose predictions are compared."""
BACKGROUND = {
    "distributed.worker.profile.enabled": False,
    "distributed.admin.tick.interval": "1s",
    "distributed.admin.system-monitor.interval": "10s",
}
"""Dask's own watching, as deploy/README.md has it: otherwise a twentieth of two cores."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pass:
    """One pass over all rows of a sample: the function that each shard runs, rows, basis or pool size, seconds."""

    name: str
    rows: int
    size: int
    seconds: float


@dataclass(slots=True, eq=False)
class Watched:
    """A Compute that writes down the passes, and calls `disturb` in the midst of the one after `after` others."""

    cluster: Cluster
    passes: list[Pass] = field(default_factory=list)
    disturb: Callable[[], None] | None = None
    after: int = 1

    def scatter(self, dataset: Dataset, numbers: IntArray, unit: Standardization) -> ShardedRows:
        """See `core.numeric.shards.Compute`."""
        return _WatchedRows(self, len(numbers), self.cluster.scatter(dataset, numbers, unit))

    def map(self, work: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
        """See `core.numeric.shards.Compute`."""
        return self.cluster.map(work, items)

    def partitions(self, common: Any, partitions: Sequence[Any], cost: float, here: Partitions) -> Partitions:
        """See `core.numeric.shards.Compute`."""
        return self.cluster.partitions(common, partitions, cost, here)

    def sums(self, shards: Sequence[Shard], rows: Sequence[int]) -> ShardedRows:
        """See `app.compute.stored_rows.SpreadsShards`."""
        return _WatchedRows(self, sum(rows), self.cluster.sums(shards, rows))


@dataclass(slots=True, eq=False)
class _WatchedRows:
    watched: Watched
    rows: int
    inner: ShardedRows

    def total(self, work: Callable[[Any, Sequence[slice]], Part], size: int, least: int) -> Part:
        """See `core.numeric.shards.ShardedRows`."""
        begin, disturb = time.perf_counter(), self.watched.disturb
        if disturb is not None and len(self.watched.passes) >= self.watched.after:  # how long one takes is known
            threading.Timer(0.4 * self.watched.passes[-1].seconds, disturb).start()
            self.watched.disturb = None
        part = self.inner.total(work, size, least)
        inner = work.args[-1] if isinstance(work, partial) and work.args else work
        name = inner.func.__name__ if isinstance(inner, partial) else getattr(inner, "__name__", "?")
        self.watched.passes.append(Pass(name=name, rows=self.rows, size=size, seconds=time.perf_counter() - begin))
        return part


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Run:
    """Seconds, processor seconds of this process and of all workers, and predictions of the rows asked."""

    seconds: float
    driver: float
    workers: float
    result: TrainResult
    mean: FloatArray
    variance: FloatArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Table:
    """Rows that a run holds, and those in files, None where it holds all."""

    held: Dataset
    beyond: StoredRows | None = None

    @classmethod
    def of(cls, dataset: Dataset, folder: Path, *, beyond: bool) -> "Table":
        """Write all but SAMPLE rows into files, PARTS rows each, where that is asked."""
        if not beyond:
            return cls(held=dataset)
        rest, store = np.arange(SAMPLE, len(dataset.targets)), ShardFolder(folder)
        table = np.column_stack((dataset.inputs, dataset.targets))
        cuts = [*range(SAMPLE, len(table), PARTS), len(table)]
        y = dataset.targets[rest]
        stored = StoredRows(
            folder=folder,
            parts=[store.put(table[begin:end]) for begin, end in pairwise(cuts)],
            count=len(rest),
            target_range=(float(y.min()), float(y.max())),
            groups=dataset.groups,
        )
        return cls(held=dataset.take(np.arange(SAMPLE)), beyond=stored)


def main(words: Sequence[str]) -> None:
    """Prints Markdown."""
    logging.basicConfig(level=logging.ERROR)
    dask.config.set(BACKGROUND)
    print(conditions(), flush=True)
    if "--simulate" in words:
        _simulate()
        return
    rows = [int(word) for word in words if word.isdecimal()]
    table = load("flights_delay_2m").train[: rows[0] if rows else None]
    dataset = Dataset(inputs=table[:, :-1], targets=table[:, -1])
    n, p = dataset.inputs.shape
    print(f"\nflights_delay_2m, n = {n:,}, p = {p}, d = {SIZE}, {' '.join(words)}\n", flush=True)
    with threadpool_limits(1), tempfile.TemporaryDirectory() as folder:
        given = Table.of(dataset, Path(folder), beyond="beyond" in words)
        alone = _run(given, None)
        _say("one process, one thread", alone, alone)
        with LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as workers:
            cluster = Cluster(workers.scheduler_address, Path(folder))
            watched = Watched(cluster)
            spread = _run(given, watched)
            _say("two workers", spread, alone)
            remote = sum(found.seconds for found in watched.passes)
            print(f"  ({len(watched.passes)} passes, {remote:.1f} s)", flush=True)
            disturbed = Watched(cluster, disturb=partial(_kill_one, workers), after=len(watched.passes) // 3)
            killed = _run(given, disturbed)
            _say("two workers, one killed in mid-pass", killed, alone)
            print(f"  ({killed.seconds / spread.seconds:.2f} times the undisturbed run)", flush=True)
            cluster.close()
    kinds: dict[tuple[str, int, int], list[float]] = defaultdict(list)
    for found in watched.passes:
        kinds[found.name, found.rows, found.size].append(found.seconds)
    print("\n| passes of the undisturbed run | rows | d or pool | times | s | us a row and worker |")
    print("|---|---|---|---|---|---|")
    for (name, count, size), seconds in kinds.items():
        cost = 2e6 * sum(seconds) / len(seconds) / count
        print(f"| {name} | {count:,} | {size} | {len(seconds)} | {sum(seconds):.1f} | {cost:.2f} |")
    search = _searching(spread)
    over_all = [found for found in watched.passes if is_very_large(found.rows)]
    rest = spread.seconds - search - sum(found.seconds for found in over_all)
    print(f"\nStart and rounds took {search:.1f} s; what is neither of them nor a pass over all rows {rest:.1f} s.")


def _simulate() -> None:
    with threadpool_limits(1), tempfile.TemporaryDirectory() as folder:
        report(measure(Path(folder), PLANNED_ROWS))


def _run(table: Table, compute: Watched | None) -> Run:
    beyond = None if table.beyond is None else replace(table.beyond, cluster=compute)
    begin, driver, workers = time.perf_counter(), time.process_time(), workers_seconds()
    result = train(table.held, TrainSpec(basis_size=SIZE), compute=compute, beyond=beyond)
    seconds = time.perf_counter() - begin
    predicted = Predictor(result.model.posterior).moments(table.held.inputs[:ASKED])
    return Run(
        seconds=seconds,
        driver=time.process_time() - driver,
        workers=workers_seconds() - workers,
        result=result,
        mean=predicted.mean,
        variance=predicted.target_variance,
    )


def workers_seconds() -> float:
    """Processor seconds of this process's children, dead ones too."""
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = spent.ru_utime + spent.ru_stime
    for task in list(Path("/proc/self/task").iterdir()):
        for pid in (task / "children").read_text().split():
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            seconds += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return seconds


def _say(name: str, run: Run, alone: Run) -> None:
    phases = ", ".join(f"{phase} {seconds:.1f}" for phase, seconds in run.result.report.seconds.items())
    spread = np.std(alone.mean)
    mean = float(np.abs(run.mean - alone.mean).max() / spread)
    variance = float(np.abs(run.variance / alone.variance - 1.0).max())
    print(
        f"- {name}: {run.seconds:.1f} s ({alone.seconds / run.seconds:.2f} times as fast); largest difference of a "
        f"mean {mean:.1e} of their spread, of a variance {variance:.1e} of itself; processor {run.driver:.1f} s here, "
        f"{run.workers:.1f} s in workers; {phases}",
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
