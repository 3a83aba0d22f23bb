"""app/compute/cluster.py with real processes: the numbers of one process, whatever is killed meanwhile."""

import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import core.numeric.shards
from app.compute.cluster import Cluster, dask_address
from app.errors import ComputeUnavailableError
from core.arrays import FloatArray, IntArray
from core.data import Dataset, Standardization
from core.hyperparameters import Hyperparameters
from core.numeric.shards import Part, Partitions, ShardedRows
from core.predict.predictor import Predictor
from core.process.rows import Rows
from core.selection.pool import pool_products
from core.selection.size import prefix_measures
from core.selection.state import Selection
from core.sparse.factors import Factors, factorise
from core.sparse.leave_one_out import leave_one_out
from core.sparse.likelihood import nlml, nlml_and_gradients
from core.sparse.scheme import scheme
from core.spec import Adaptation, Approximation, Noise, TrainSpec
from core.train.fit import Subset
from core.train.progress import Checkpoint, Phase, Progress
from core.train.run import train
from tests.app.compute.processes import LEAVES_SOCKETS, ROOT, dask_processes
from tests.core.runs import assert_same_bits
from tests.processes import start_module, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900), LEAVES_SOCKETS]

ROWS, LEAST_ROWS = 6_000, 2_000


@pytest.fixture(autouse=True)
def _few_rows_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(core.numeric.shards, "SHARDED_ROWS", LEAST_ROWS)


def dataset() -> Dataset:
    random = np.random.default_rng(0)
    X = random.standard_normal((ROWS, 4))
    return Dataset(inputs=X, targets=np.sin(X).sum(axis=1) + 0.3 * random.standard_normal(ROWS))


THETA = Hyperparameters(
    lengthscales=np.array([1.5, 2.0, 2.5, 3.0]), signal_variance=1.0, bias_variance=0.1, noise_variance=0.1
)


def sample(compute: core.numeric.shards.Compute | None, workers: int = 1) -> Subset:
    """Some of the rows, as where others are held out."""
    numbers = np.sort(np.random.default_rng(1).permutation(ROWS)[: ROWS - 500])
    return Subset.of(dataset(), numbers, standardize=True, workers=workers, compute=compute)


def everything(rows: Rows, approximation: Approximation) -> dict[str, FloatArray]:
    """Compute all sums over the rows."""
    kind, Z = scheme(approximation), rows.X[:40]
    factors = factorise(rows, Z, THETA, kind)
    found = nlml_and_gradients(rows, Z, THETA, kind)
    G, g = pool_products(rows, rows.X[:60], THETA)
    mean, variance = leave_one_out(factors)
    selection = Selection(indices=np.arange(40), gains=np.zeros(40), reason="")
    return {
        **{name: getattr(factors, name) for name in ("information", "LB", "e", "D", "c", "alpha")},
        "nlml": np.array([nlml(factors), found.value]),
        "by_theta": found.by_theta,
        "by_basis": found.by_basis,
        "mean": mean,
        "variance": variance,
        "measures": prefix_measures(rows, THETA, selection),
        "G": G,
        "g": g,
    }


@pytest.mark.parametrize("approximation", ["dtc", "fitc", "vfe", "pep"])
def test_threads_and_processes_give_the_same_bits(cluster: Cluster, approximation: str) -> None:
    wanted = everything(sample(None).rows, Approximation(approximation))
    for other in (sample(None, workers=3), sample(cluster)):
        for name, found in everything(other.rows, Approximation(approximation)).items():
            np.testing.assert_array_equal(found, wanted[name], err_msg=name)


def trained(
    compute: core.numeric.shards.Compute | None, workers: int = 1
) -> tuple[dict[str, Any], FloatArray, FloatArray]:
    """Report without seconds, means and variances."""
    spec = TrainSpec(basis_size=30, adaptation=Adaptation(rounds=1, steps=3), noise=Noise.CONSTANT)
    result = train(dataset(), spec, compute=compute, workers=workers)
    predicted = Predictor(result.model.posterior).moments(dataset().inputs[:500] + 0.1)
    return result.report.to_json() | {"seconds": {}}, predicted.mean, predicted.target_variance


def test_a_whole_training_is_the_same(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rounds are on fewer rows than all, as where there are millions."""
    monkeypatch.setattr("core.train.run_rows.SEARCH_ROWS", LEAST_ROWS - 1)
    report, mean, variance = trained(None)
    for other in (trained(None, workers=2), trained(cluster)):
        np.testing.assert_array_equal(other[1], mean)
        np.testing.assert_array_equal(other[2], variance)
        assert other[0] == report


def test_rounds_on_all_rows_are_the_same_too(cluster: Cluster) -> None:
    """The gradient, with all rows spread."""
    _, mean, variance = trained(None)
    _, other_mean, other_variance = trained(cluster)
    np.testing.assert_array_equal(other_mean, mean)
    np.testing.assert_array_equal(other_variance, variance)


def slowly(work: Callable[[Rows, Sequence[slice]], Part], rows: Rows, places: Sequence[slice]) -> Part:
    """Long enough to be killed meanwhile."""
    time.sleep(0.1)
    return work(rows, places)


@dataclass(slots=True)
class Slow:
    """A cluster with a pass that takes its time, the one after `after` others; `disturb` is called in the midst of
    it."""

    cluster: Cluster
    disturb: Callable[[], None]
    after: int = 0
    passes: int = 0

    def scatter(self, dataset: Dataset, numbers: IntArray, unit: Standardization) -> ShardedRows:
        """Return the rows with slow sums."""
        return SlowRows(self, self.cluster.scatter(dataset, numbers, unit))

    def map(self, work: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
        """Return work(item) of each."""
        return self.cluster.map(work, items)

    def partitions(self, common: Any, partitions: Sequence[Any], cost: float, here: Partitions) -> Partitions:
        """Return the cluster's own."""
        return self.cluster.partitions(common, partitions, cost, here)


@dataclass(slots=True)
class SlowRows:
    """Rows of a slow cluster."""

    slow: Slow
    inner: ShardedRows

    def total(self, work: Callable[[Any, Sequence[slice]], Part], size: int, least: int) -> Part:
        """Sum slowly when it is time."""
        self.slow.passes += 1
        if self.slow.passes != self.slow.after + 1:
            return self.inner.total(work, size, least)
        timer = threading.Timer(0.4, self.slow.disturb)
        timer.start()
        part = self.inner.total(partial(slowly, work), size, least)
        timer.join()
        return part


def workers_of(cluster: Cluster) -> int:
    """Count the workers that the scheduler knows."""
    cluster._connected()
    assert cluster._client is not None
    return len(cluster._client.nthreads())


def fitted(compute: core.numeric.shards.Compute | None) -> Factors:
    rows = sample(compute).rows
    return factorise(rows, rows.X[:40], THETA, scheme(Approximation.FITC))


def test_a_worker_is_killed_in_mid_sum(tmp_path: Path) -> None:
    wanted = fitted(None)
    with dask_processes(tmp_path) as processes:
        cluster = Cluster(processes.address, tmp_path / "shards")
        wait_until(lambda: workers_of(cluster) == 2, 120.0)
        found = fitted(Slow(cluster, processes.workers[0].kill))
        assert processes.workers[0].wait() < 0
        assert processes.workers[1].poll() is None
        cluster.close()
    np.testing.assert_array_equal(found.alpha, wanted.alpha)
    np.testing.assert_array_equal(found.e, wanted.e)


def test_the_scheduler_is_killed_in_mid_sum_and_comes_back(tmp_path: Path) -> None:
    """A new scheduler knows nothing: the pass begins again, and the numbers are the same."""
    wanted = fitted(None)
    with dask_processes(tmp_path) as processes:
        cluster = Cluster(processes.address, tmp_path / "shards", timeout=120.0)

        def disturb() -> None:
            processes.kill()
            processes.start_scheduler()
            processes.start_worker()

        found = fitted(Slow(cluster, disturb))
        cluster.close()
    np.testing.assert_array_equal(found.alpha, wanted.alpha)


IN_DESCENT = 5
"""Passes of a training before one in the middle of its first descent, by which it has chosen a basis."""


@pytest.mark.parametrize("lost", ["worker", "scheduler"])
def test_a_loss_in_the_middle_of_the_search_changes_no_bit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lost: str
) -> None:
    monkeypatch.setattr("core.train.run_rows.SEARCH_ROWS", LEAST_ROWS - 1)
    report, mean, variance = trained(None)
    with dask_processes(tmp_path) as processes:
        cluster = Cluster(processes.address, tmp_path / "shards", timeout=120.0)
        wait_until(lambda: workers_of(cluster) == 2, 120.0)

        def disturb() -> None:
            if lost == "worker":
                processes.workers[0].kill()
                return
            processes.kill()
            processes.start_scheduler()
            processes.start_worker()

        slow = Slow(cluster, disturb, after=IN_DESCENT)
        found, found_mean, found_variance = trained(slow)
        cluster.close()
    assert slow.passes > 2 * IN_DESCENT
    assert found == report
    np.testing.assert_array_equal(found_mean, mean)
    np.testing.assert_array_equal(found_variance, variance)


def test_a_training_that_is_cancelled_in_mid_search_goes_on_from_its_checkpoint(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The listener ends it between two remote evaluations; another connection goes on, with the same numbers."""
    monkeypatch.setattr("core.train.run_rows.SEARCH_ROWS", LEAST_ROWS - 1)
    spec = TrainSpec(basis_size=30, adaptation=Adaptation(rounds=2, steps=3), noise=Noise.CONSTANT)
    wanted = train(dataset(), spec)
    told: list[Progress | Checkpoint] = []

    def cancel(news: Progress | Checkpoint) -> None:
        told.append(news)
        if isinstance(news, Progress) and news.phase is Phase.ADAPTING and news.round == 1:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        train(dataset(), spec, compute=cluster, listen=cancel)
    cluster.close()
    checkpoint = [news for news in told if isinstance(news, Checkpoint)][-1]
    assert checkpoint.round == 1
    found = train(dataset(), spec, compute=cluster, resume=checkpoint)
    assert_same_bits(found, wanted)


def test_a_driver_that_is_killed_leaves_the_workers_to_the_next(tmp_path: Path) -> None:
    """As where a job is cancelled: its process is killed in the middle of a remote pass."""
    wanted = fitted(None)
    with dask_processes(tmp_path) as processes:
        driver = start_module(
            "tests.app.compute.test_cluster",
            processes.address,
            str(tmp_path / "shards"),
            log=tmp_path / "driver.log",
            environment={"PYTHONPATH": str(ROOT)},
            folder=ROOT,
        )
        wait_until(lambda: "in mid-pass" in (tmp_path / "driver.log").read_text(), 120.0)
        driver.kill()
        driver.wait()
        cluster = Cluster(processes.address, tmp_path / "shards")
        found = fitted(cluster)
        assert all(worker.poll() is None for worker in processes.workers)
        cluster.close()
    np.testing.assert_array_equal(found.alpha, wanted.alpha)


def test_a_scheduler_that_does_not_come_back_is_named(tmp_path: Path) -> None:
    with dask_processes(tmp_path, workers=1) as processes:
        cluster = Cluster(processes.address, tmp_path / "shards", timeout=1.0)
        wait_until(lambda: workers_of(cluster) == 1, 120.0)
        with pytest.raises(ComputeUnavailableError, match="does not answer; the job waits"):
            fitted(Slow(cluster, processes.kill))
        cluster.close()


def test_a_cluster_without_workers_is_named(tmp_path: Path) -> None:
    with dask_processes(tmp_path, workers=0) as processes:
        cluster = Cluster(processes.address, tmp_path / "shards", timeout=1.0)
        with pytest.raises(ComputeUnavailableError, match="no workers"):
            fitted(cluster)
        cluster.close()


def test_a_file_that_is_gone_is_written_again(cluster: Cluster, tmp_path: Path) -> None:
    """Damaged files are too. The rows are of this test alone: no process has kept them from another one."""
    numbers = np.sort(np.random.default_rng(2).permutation(ROWS)[: ROWS - 600])
    here, rows = (
        Subset.of(dataset(), numbers, standardize=True, workers=1, compute=compute).rows for compute in (None, cluster)
    )
    wanted = factorise(here, here.X[:40], THETA, scheme(Approximation.FITC))
    large, small = sorted((tmp_path / "shards").iterdir(), key=lambda file: file.stat().st_size, reverse=True)[::127]
    large.write_bytes(large.read_bytes()[::-1])
    small.unlink()
    found = factorise(rows, rows.X[:40], THETA, scheme(Approximation.FITC))
    np.testing.assert_array_equal(found.alpha, wanted.alpha)


def test_an_error_of_a_task_is_raised(cluster: Cluster) -> None:
    spread = sample(cluster).rows.remote
    assert spread is not None
    with pytest.raises(ZeroDivisionError):
        spread.total(broken, 40, 64)


def broken(rows: Rows, places: Sequence[slice]) -> Any:  # noqa: ARG001  the shape of work
    raise ZeroDivisionError


def test_dask_addresses() -> None:
    assert dask_address("dask://host:8786") == "tcp://host:8786"
    assert dask_address("dask+tls://host:8786") == "tls://host:8786"


if __name__ == "__main__":  # a driver to be killed
    core.numeric.shards.SHARDED_ROWS = LEAST_ROWS
    fitted(Slow(Cluster(sys.argv[1], Path(sys.argv[2])), lambda: print("in mid-pass", flush=True)))
