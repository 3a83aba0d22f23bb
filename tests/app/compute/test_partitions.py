"""app/compute/partitions.py: the mean of many rows by real processes, with the bits of one, whatever is killed."""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import core.mean.precondition
import core.numeric.partitions
from app.compute import cluster as cluster_module
from app.compute.actor import ProcessSums
from app.compute.cluster import Cluster
from core.arrays import FloatArray
from core.data import Dataset
from core.errors import NotPositiveDefiniteError
from core.mean.conjugate import Iteration, Stopping
from core.mean.full import compute_for, full_mean, full_means, sparse_preconditioner, square_product
from core.mean.near import NearRows
from core.mean.precondition import random_basis
from core.mean.subset import subset_mean
from core.numeric.partitions import LocalPartitions, VectorSum
from core.numeric.shards import Compute, Part, Partitions, joined
from core.process.rows import Rows
from core.spec import Adaptation, MeanRows, TrainSpec
from core.train import block_theta, full_process
from core.train.run import train
from tests.app.compute.processes import LEAVES_SOCKETS, DaskProcesses, dask_processes
from tests.core.mean.cases import Case, case
from tests.core.runs import assert_same_bits
from tests.core.train.test_full_process import NORMAL, waves
from tests.processes import wait_until

pytestmark = LEAVES_SOCKETS

ITERATIONS = Stopping(tolerance=1e-9, most=4)


@pytest.fixture(autouse=True)
def _short_passes_are_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(core.numeric.partitions, "LEAST_PASS", 0.0)
    monkeypatch.setattr(core.mean.precondition, "SENT_SIZE", 0)


def plus(common: float, partition: int, shared: float, own: float) -> VectorSum:
    return VectorSum(np.array([[common + 10.0 * partition + shared + own]]))


def refused(common: Any, partition: Any, shared: Any, own: Any) -> VectorSum:  # noqa: ARG001  the shape of work
    raise NotPositiveDefiniteError("B", 3, 0.0)


def test_a_process_keeps_what_it_was_told_until_it_forgets_it() -> None:
    """Runs in any division add up to what one process has."""
    sums, partitions, own = ProcessSums(), [1, 2, 3, 4, 5], [0.1, 0.2, 0.3, 0.4, 0.5]
    wanted = LocalPartitions(100.0, partitions).total(plus, 1000.0, own).values
    for common, new, cut in (((100.0,), {0: 1, 1: 2, 2: 3, 3: 4, 4: 5}, 3), (None, {}, 2)):
        parts = [
            sums.partitions_total(
                "p", common if first == 0 else None, new, range(first, end), plus, 1000.0, own[first:end], 1
            )
            for first, end in ((0, cut), (cut, 5))
        ]
        assert all(part.error is None for part in parts)
        np.testing.assert_array_equal(joined(node for part in parts for node in part.nodes).values, wanted)
    failed = sums.partitions_total("p", None, {}, range(1), refused, 0.0, None, 1)
    assert isinstance(failed.error, NotPositiveDefiniteError)
    sums.forget_partitions("p")
    assert isinstance(sums.partitions_total("p", None, {}, range(1), plus, 0.0, [0.0], 1).error, KeyError)


def solved(rows: Rows, at: Case, *, listen: Callable[[Iteration], None] = lambda _: None) -> list[FloatArray]:
    """Means of all rows and of some, of two targets in lockstep, and near variances."""
    Z = random_basis(rows.X, np.random.default_rng(0))
    full = full_mean(rows, at.kernel, at.D, Z, at.folds, stopping=ITERATIONS, listen=listen)
    some = subset_mean(rows, at.kernel, at.D, np.arange(0, len(rows), 9), at.folds, stopping=ITERATIONS)
    product = square_product(rows, at.kernel, at.D, at.folds, 2)
    preconditioner = sparse_preconditioner(rows, at.kernel, Z, at.D, at.folds, 2)
    targets = [rows.y, rows.X[:, 0]]
    both = full_means(targets, [at.D, 2 * at.D], preconditioner, at.folds, stopping=ITERATIONS, product=product)
    near = NearRows(at.kernel, rows.X, at.D).left_out_variance(rows.X, at.folds, compute_for(rows, len(rows), at.folds))
    return [full.unknowns, full.left_out, some.unknowns, some.left_out, *(mean.unknowns for mean in both), near]


def assert_same(found: Sequence[FloatArray], wanted: Sequence[FloatArray]) -> None:
    for place, (ours, other) in enumerate(zip(found, wanted, strict=True)):
        np.testing.assert_array_equal(ours, other, err_msg=str(place))


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("forward", [False, True])
def test_threads_and_processes_give_the_same_bits(cluster: Cluster, forward: bool) -> None:
    at = case(0, n=1700)
    if forward:
        at = replace(at, folds=replace(at.folds, fold=at.fold - 1, count=3, forward=True))
    wanted = solved(at.rows, at)
    assert_same(solved(replace(at.rows, workers=3), at), wanted)
    assert_same(solved(replace(at.rows, compute=cluster), at), wanted)
    wait_until(lambda: kept(cluster) == [0, 0], 10.0)  # they have given back what the solvers needed


def kept(cluster: Cluster) -> list[int]:
    """Return how many partitions' names each worker keeps."""
    cluster._connected()
    assert cluster._client is not None

    def count(dask_worker: Any) -> int:
        return sum(len(actor._kept) for actor in dask_worker.state.actors.values())

    return list(cluster._client.run(count).values())


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_rounded_and_partly_stored_matrices_are_the_same_too(cluster: Cluster) -> None:
    """Two processes store more than one; what is rounded in one is rounded in all."""
    at = case(1, n=1700)
    for limit in (8_000_000, 5_000_000, 1_000_000):  # in float32; some of it in float64, by two all but a little
        found = [
            full_mean(rows, at.kernel, at.D, at.Z, at.folds, stopping=ITERATIONS, limit=limit).unknowns
            for rows in (at.rows, replace(at.rows, compute=cluster))
        ]
        np.testing.assert_array_equal(found[1], found[0])


def slowly(work: Callable[[Any, Any, Any, Any], Part], common: Any, partition: Any, shared: Any, own: Any) -> Part:
    """Long enough to be killed meanwhile."""
    time.sleep(0.1)
    return work(common, partition, shared, own)


@dataclass(slots=True)
class Slow:
    """A cluster with a pass that takes its time, the one after `after` others; `disturb` is called in the midst of
    it."""

    cluster: Cluster
    disturb: Callable[[], None]
    after: int
    passes: int = 0

    def partitions(self, common: Any, partitions: Sequence[Any], cost: float, here: Partitions) -> Partitions:
        """Return partitions with slow passes."""
        return SlowPartitions(self, self.cluster.partitions(common, partitions, cost, here))

    scatter: Any = None
    map: Any = None


@dataclass(slots=True)
class SlowPartitions:
    """Partitions of a slow cluster."""

    slow: Slow
    inner: Partitions

    def total(
        self, work: Callable[[Any, Any, Any, Any], Part], shared: Any = None, own: Sequence[Any] | None = None
    ) -> Part:
        """Pass over them, slowly when it is time."""
        self.slow.passes += 1
        if self.slow.passes != self.slow.after + 1:
            return self.inner.total(work, shared, own)
        timer = threading.Timer(0.4, self.slow.disturb)
        timer.start()
        part = self.inner.total(partial(slowly, work), shared, own)
        timer.join()
        return part


PASSES = {"gram": 0, "factor": 1, "product": 4, "project": 5, "expand": 6}
"""Passes of a mean of all rows before one of each kind: V and its sums, factors, then the first residuals' two, K P and
two again, .."""


def mean_of(rows: Rows, at: Case) -> list[FloatArray]:
    Z = random_basis(rows.X, np.random.default_rng(0))
    found = full_mean(rows, at.kernel, at.D, Z, at.folds, stopping=ITERATIONS)
    return [found.unknowns, found.left_out]


def workers_of(cluster: Cluster) -> int:
    """Count the workers that the scheduler knows."""
    cluster._connected()
    assert cluster._client is not None
    return len(cluster._client.nthreads())


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("kind", list(PASSES))
def test_a_worker_is_killed_in_mid_pass(tmp_path: Path, kind: str) -> None:
    """The other one does its part, of this pass and of those that follow."""
    at = case(2, n=1700)
    wanted = mean_of(at.rows, at)
    with dask_processes(tmp_path) as processes:
        cluster = Cluster(processes.address, tmp_path / "shards")
        wait_until(lambda: workers_of(cluster) == 2, 120.0)
        slow = Slow(cluster, processes.workers[0].kill, PASSES[kind])
        found = mean_of(replace(at.rows, compute=slow), at)
        assert processes.workers[0].wait() < 0
        assert processes.workers[1].poll() is None
        assert cluster.is_ready()
        cluster.close()
    assert slow.passes > PASSES["expand"]
    assert_same(found, wanted)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("returns", [True, False])
def test_the_scheduler_is_killed_in_mid_pass(tmp_path: Path, returns: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The solve goes on: there where the cluster is back at once, here while it is not."""
    monkeypatch.setattr(cluster_module, "CONNECT_SECONDS", 1.0)
    at = case(3, n=1700)
    wanted = mean_of(at.rows, at)
    with dask_processes(tmp_path) as processes:
        cluster = Cluster(processes.address, tmp_path / "shards")
        wait_until(lambda: workers_of(cluster) == 2, 120.0)

        def disturb() -> None:
            processes.kill()
            if returns:
                processes.start_scheduler()
                processes.start_worker()

        found = mean_of(replace(at.rows, compute=Slow(cluster, disturb, PASSES["product"])), at)
        assert_same(found, wanted)
        assert_same(mean_of(replace(at.rows, compute=cluster), at), wanted)
        assert returns or not cluster.is_ready()
        cluster.close()


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_cluster_that_comes_later_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No pass waits for it meanwhile."""
    monkeypatch.setattr(cluster_module, "CONNECT_SECONDS", 1.0)
    at = case(4, n=1700)
    wanted = mean_of(at.rows, at)
    with dask_processes(tmp_path, workers=0) as processes:
        cluster = Cluster(processes.address, tmp_path / "shards")
        assert not cluster.is_ready()
        began = time.monotonic()
        assert_same(mean_of(replace(at.rows, compute=cluster), at), wanted)
        assert time.monotonic() - began < cluster_module.ABSENT_SECONDS
        monkeypatch.setattr(cluster_module, "ABSENT_SECONDS", 0.0)
        processes.start_worker()
        wait_until(cluster.is_ready, 120.0)
        assert_same(mean_of(replace(at.rows, compute=cluster), at), wanted)
        cluster.close()


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_solve_that_is_cancelled_leaves_nothing_behind(cluster: Cluster) -> None:
    at = case(5, n=1700)
    heard: list[float] = []

    def cancel(iteration: Iteration) -> None:
        heard.append(iteration.fraction)
        if iteration.number == 3:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        solved(replace(at.rows, compute=cluster), at, listen=cancel)
    assert len(heard) == 3
    assert heard == sorted(heard)
    wait_until(lambda: kept(cluster) == [0, 0], 10.0)
    assert_same(mean_of(replace(at.rows, compute=cluster), at), mean_of(at.rows, at))


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_errors_of_a_pass_are_raised(cluster: Cluster) -> None:
    here = LocalPartitions(1.0, [1, 2, 3])
    with pytest.raises(NotPositiveDefiniteError) as raised:
        cluster.partitions(1.0, [1, 2, 3], 3.0, here).total(refused, 0.0)
    assert (raised.value.name, raised.value.size) == ("B", 3)


def trained(compute: Compute | None, spec: TrainSpec, dataset: Dataset, workers: int = 1) -> Any:
    return train(dataset, spec, compute=compute, workers=workers)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("asked", ["full process", "all", 300])
def test_a_whole_training_is_the_same(
    two_workers: DaskProcesses, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: Any
) -> None:
    """A full process with the variances of near rows, and means beside a sparse model."""
    for module in (block_theta, full_process):
        monkeypatch.setattr(module, "EXACT_ROWS", 0)
    monkeypatch.setattr("core.train.mean_choice.CLOSED_ROWS", 0)
    spec = TrainSpec(**NORMAL)
    if asked != "full process":
        spec = TrainSpec(
            basis_size=20,
            adaptation=Adaptation(rounds=1, steps=3),
            mean_rows=MeanRows(asked) if asked == "all" else asked,
        )
    dataset = waves(900)
    cluster = Cluster(two_workers.address, tmp_path / "shards")
    passes = Slow(cluster, lambda: None, 10_000)
    wanted = trained(None, spec, dataset)
    assert_same_bits(trained(None, spec, dataset, workers=2), wanted)
    assert_same_bits(trained(passes, spec, dataset), wanted)
    assert passes.passes > 20
    cluster.close()
