"""The mean of all rows by a cluster of two processes against one: seconds, processor seconds, what a pass sends.

    python -m tests.benchmarks.full_mean [ROWS] [--noise SHARE]

kin40k, theta of the set (its noise times SHARE), ten folds in lockstep, preconditioner included, then the variances
from near rows: one process with one thread, and two Dask workers of one thread each. Weights, left-out predictions and
variances must have the same bits. Bytes are those of the messages; an idle pass sends and gets as many and does nothing
else. Unset OPENBLAS_CORETYPE and OPENBLAS_L2_SIZE before.
"""

import argparse
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import dask
import numpy as np
from distributed import LocalCluster

from app.compute.cluster import Cluster
from app.compute.members import Member, Members, Summed
from app.compute.shards import PartialSum
from core.arrays import FloatArray
from core.data import Dataset
from core.mean.conjugate import Stopping
from core.mean.folds import held_out_and_others
from core.mean.full import compute_for, full_mean
from core.mean.near import NearRows
from core.mean.precondition import random_basis
from core.numeric.partitions import VectorSum
from core.numeric.shards import Part, Partitions
from core.process.kernel import Kernel
from core.process.rows import Rows
from core.row_groups import RowGroups
from core.train.fit import Subset
from core.train.full_process import FOLDS, TOLERANCE
from tests.benchmarks.cluster import BACKGROUND, workers_seconds
from tests.benchmarks.sets import conditions, full_gp_of_kin40k, load
from tests.benchmarks.simulation.trace import bytes_of

NAME, ROWS, IDLE_PASSES = "kin40k", 20_000, 20
WEIGHED = 3
"""Iterations whose messages are weighed."""


@dataclass(slots=True)
class Passes:
    """Passes of one kind: seconds of each."""

    seconds: list[float] = field(default_factory=list)
    asked: float = 0.0
    answered: float = 0.0


@dataclass(slots=True, eq=False)
class Watched:
    """A Compute that writes down its passes by the name of their work; idle: of passes that do nothing."""

    cluster: Cluster
    kinds: dict[str, Passes] = field(default_factory=lambda: defaultdict(Passes))
    idle: list[float] = field(default_factory=list)
    idle_processor: list[float] = field(default_factory=list)
    scatter: Any = None
    map: Any = None

    def partitions(self, common: Any, partitions: Sequence[Any], cost: float, here: Partitions) -> Partitions:
        """See `core.numeric.shards.Compute`."""
        return _WatchedPartitions(self, self.cluster.partitions(common, partitions, cost, here))


@dataclass(slots=True, eq=False)
class _WatchedPartitions:
    watched: Watched
    inner: Partitions

    def total(
        self, work: Callable[[Any, Any, Any, Any], Part], shared: Any = None, own: Sequence[Any] | None = None
    ) -> Part:
        """See `core.numeric.shards.Partitions`."""
        name = work.__name__
        _MESSAGES.clear()
        begin = time.perf_counter()
        part = self.inner.total(work, shared, own)
        kind = self.watched.kinds[name]
        kind.seconds.append(time.perf_counter() - begin - _MESSAGES.get("weighing", 0.0))
        kind.asked += _MESSAGES.get("asked", 0.0)
        kind.answered += _MESSAGES.get("answered", 0.0)
        while name == "_square_run" and len(kind.seconds) > 1 and len(self.watched.idle) < IDLE_PASSES:
            begin, used = time.perf_counter(), time.process_time()
            _MESSAGES.clear()
            self.inner.total(idle, shared)
            weighing = _MESSAGES.get("weighing", 0.0)
            self.watched.idle.append(time.perf_counter() - begin - weighing)
            self.watched.idle_processor.append(time.process_time() - used - weighing)
        return part


_MESSAGES: dict[str, float] = defaultdict(float)
"""Bytes of the messages of a pass, and the seconds that it took to count them."""


class _WeighedMembers(Members):
    """Members whose messages are weighed."""

    def _call(self, member: Member, asked: Summed, places: range) -> "Future[PartialSum]":
        begin = time.process_time()
        known = {name: set(told) for name, told in member.known.items()}
        _MESSAGES["asked"] += bytes_of(asked.call(known, places, member.threads))
        _MESSAGES["weighing"] += time.process_time() - begin
        return super()._call(member, asked, places)

    def _result(self, future: "Future[PartialSum]", member: Member) -> PartialSum | None:
        found = super()._result(future, member)
        begin = time.process_time()
        _MESSAGES["answered"] += bytes_of(found)
        _MESSAGES["weighing"] += time.process_time() - begin
        return found


def idle(strips: Any, run: Sequence[slice], vectors: FloatArray, own: None) -> VectorSum:
    """What a product sends and gets, without the product."""
    del strips, own
    return VectorSum(np.zeros((len(vectors), run[-1].stop)))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Run:
    """Seconds, processor seconds of this process and of the workers, iterations, and what was found."""

    seconds: float
    driver: float
    workers: float
    iterations: int
    found: list[FloatArray]


def main() -> None:
    """Prints Markdown."""
    options = argparse.ArgumentParser()
    options.add_argument("rows", type=int, nargs="?", default=ROWS)
    options.add_argument("--noise", type=float, default=1.0)
    asked = options.parse_args()
    dask.config.set(BACKGROUND)
    print(conditions(), flush=True)
    split = load(NAME)
    table = np.vstack((split.train, split.test))[: asked.rows]
    dataset = Dataset(inputs=table[:, :-1], targets=table[:, -1])
    rows = Subset.of(dataset, np.arange(len(table)), standardize=True, workers=1).rows
    with tempfile.TemporaryDirectory() as folder:
        alone = _run(rows, asked.noise)
        _say("one process, one thread", alone, alone)
        with LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as workers:
            cluster = Cluster(workers.scheduler_address, Path(folder))
            cluster.is_ready()
            plain = _run(replace(rows, compute=cluster), asked.noise)
            _say("two workers", plain, alone)
            watched = Watched(cluster)
            assert cluster._client is not None
            cluster._members = _WeighedMembers(cluster._client)
            _run(replace(rows, compute=watched), asked.noise, WEIGHED)
            cluster.close()
    _say_passes(watched)


def _run(rows: Rows, noise: float, most: int = 300) -> Run:
    """Solve. noise: share of that of the set's theta; most: iterations."""
    begin, driver, workers = time.perf_counter(), time.process_time(), workers_seconds()
    random = np.random.default_rng(0)
    hyperparameters = full_gp_of_kin40k()
    hyperparameters = replace(hyperparameters, noise_variance=noise * hyperparameters.noise_variance)
    kernel, D = Kernel.of(hyperparameters, rows.groups), np.full(len(rows), hyperparameters.noise_variance)
    folds = held_out_and_others(len(rows), np.empty(0, np.int64), FOLDS, random, RowGroups())
    Z = random_basis(rows.X, random)
    mean = full_mean(rows, kernel, D, Z, folds, stopping=Stopping(tolerance=TOLERANCE, most=most))
    near = NearRows(kernel, rows.X, D).left_out_variance(rows.X, folds, compute_for(rows, len(rows), folds))
    return Run(
        seconds=time.perf_counter() - begin,
        driver=time.process_time() - driver,
        workers=workers_seconds() - workers,
        iterations=mean.iterations,
        found=[mean.unknowns, mean.left_out, near],
    )


def _say(name: str, run: Run, alone: Run) -> None:
    same = all(np.array_equal(ours, other) for ours, other in zip(run.found, alone.found, strict=True))
    times = alone.seconds / run.seconds
    print(
        f"- {name}: {run.seconds:.1f} s ({times:.2f} times as fast), processor {run.driver:.1f} s here, "
        f"{run.workers:.1f} s in workers; {run.iterations} iterations; {'same' if same else 'OTHER'} bits",
        flush=True,
    )


def _say_passes(watched: Watched) -> None:
    print("\n| passes | times | ms, median | MB sent to both | MB answered by both |")
    print("|---|---|---|---|---|")
    for name, kind in watched.kinds.items():
        count = len(kind.seconds)
        print(
            f"| {name} | {count} | {1e3 * np.median(kind.seconds):.0f} | {1e-6 * kind.asked / count:.2f} "
            f"| {1e-6 * kind.answered / count:.2f} |"
        )
    waited, used = 1e3 * np.median(watched.idle), 1e3 * np.median(watched.idle_processor)
    print(f"\nA product that does nothing: {waited:.1f} ms, {used:.1f} of this process's processor.")


if __name__ == "__main__":
    main()
