"""Rows in shard files, summed here by threads and by real Dask processes: the same bits."""

import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from app.compute.cluster import Cluster, SpreadShards
from app.compute.folder import ShardFolder
from app.compute.stored_rows import SpreadsShards, StoredRows
from app.errors import ComputeUnavailableError, NotFoundError, UnavailableError
from app.storage.stores import open_address
from core.data import Dataset, standardization
from core.hyperparameters import Hyperparameters
from core.predict.transforms import Transform
from core.sparse.factors import FirstSums, factorise
from core.sparse.scheme import scheme
from core.spec import Approximation, TargetTransform
from core.train.beyond import BeyondSums
from core.train.fit import Subset
from tests.app.compute.processes import LEAVES_SOCKETS, dask_processes

pytestmark = LEAVES_SOCKETS

THETA = Hyperparameters(
    lengthscales=np.array([0.8, 1.1, 2.0]), signal_variance=1.1, noise_variance=0.05, bias_variance=0.3
)
FITC = scheme(Approximation.FITC)
LOG = Transform(kind=TargetTransform.LOG)


def after(seconds: float, item: int) -> int:
    time.sleep(seconds)
    return item


def table(rows: int = 5_000) -> Dataset:
    random = np.random.default_rng(0)
    X = random.normal(size=(rows, 3))
    return Dataset(inputs=X, targets=np.exp(np.sin(X[:, 0]) + 0.1 * random.standard_normal(rows)))


def stored(data: Dataset, folder: Path, *, workers: int = 1, cluster: SpreadsShards | None = None) -> StoredRows:
    whole = np.column_stack((data.inputs, data.targets))
    parts = [ShardFolder(folder).put(part) for part in np.array_split(whole, 7)]
    ends = float(data.targets.min()), float(data.targets.max())
    return StoredRows(
        folder=folder,
        parts=parts,
        count=len(whole),
        target_range=ends,
        groups=data.groups,
        workers=workers,
        cluster=cluster,
    )


def sums_of(rows: StoredRows, data: Dataset) -> FirstSums:
    learnt = Dataset(inputs=data.inputs, targets=np.log(data.targets))
    unit = standardization(learnt)
    Z = unit.inputs(data.inputs[::100])
    return BeyondSums.of(rows, unit, LOG, data.groups, FITC)(Z, THETA)


def test_threads_sum_as_one_does_and_as_the_rows_in_memory(tmp_path: Path) -> None:
    data = table()
    one, three = (sums_of(stored(data, tmp_path, workers=workers), data) for workers in (1, 3))
    np.testing.assert_array_equal(one.information, three.information)
    np.testing.assert_array_equal(one.b, three.b)
    learnt = Dataset(inputs=data.inputs, targets=np.log(data.targets))
    subset = Subset.of(learnt, np.arange(len(data.targets)), standardize=True, workers=1)
    factors = factorise(subset.rows, subset.rows.X[::100], THETA, FITC)
    np.testing.assert_allclose(one.information, factors.information, rtol=1e-9, atol=1e-9)
    assert not one.e  # no number for each row


def test_a_cluster_is_told_how_many_rows_a_file_has(tmp_path: Path) -> None:
    """By which it divides a sum: row groups of a table with few short columns have several times the usual number."""
    data = table()
    rows = stored(data, tmp_path, cluster=Cluster("tcp://nowhere:1", tmp_path))
    spread = rows.scatter(standardization(data), Transform())
    assert isinstance(spread, SpreadShards)
    assert spread.rows == [715] * 7


def test_a_lost_file_is_told(tmp_path: Path) -> None:
    data = table()
    rows = stored(data, tmp_path)
    (tmp_path / rows.parts[3]).unlink()
    with pytest.raises(UnavailableError, match="is lost"):
        sums_of(rows, data)


@pytest.mark.slow
def test_processes_sum_to_the_same_bits(cluster: Cluster, tmp_path: Path) -> None:
    data, folder = table(), tmp_path / "shards"
    here = sums_of(stored(data, folder, workers=2), data)
    there = sums_of(stored(data, folder, cluster=cluster), data)
    np.testing.assert_array_equal(here.information, there.information)
    np.testing.assert_array_equal(here.b, there.b)
    rows = stored(data, folder, cluster=cluster)
    (folder / rows.parts[0]).unlink()
    unit = standardization(data)  # another one: shards that were read stay in the workers' memory
    with pytest.raises(ComputeUnavailableError, match="are read again"):
        BeyondSums.of(rows, unit, Transform(), data.groups, FITC)(unit.inputs(data.inputs[::100]), THETA)


@pytest.mark.slow
def test_work_is_spread_and_its_results_are_in_order(cluster: Cluster) -> None:
    shares = list[float]()
    assert cluster.map(abs, list(range(-20, 0)), shares.append) == list(range(20, 0, -1))
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    assert cluster.map(abs, []) == []


@pytest.mark.slow
def test_what_the_work_raises_is_raised_as_it_is(cluster: Cluster, tmp_path: Path) -> None:
    """An error of a file is not taken for one of the connection."""
    with pytest.raises(FileNotFoundError):
        cluster.map(Path.read_bytes, [tmp_path / "absent"])
    with pytest.raises(NotFoundError, match="does not see"):
        cluster.map(open_address, [str(tmp_path / "absent")])


@pytest.mark.slow
def test_parts_are_read_again_where_a_worker_or_the_scheduler_is_lost(tmp_path: Path) -> None:
    with dask_processes(tmp_path) as processes:
        made = Cluster(processes.address, tmp_path / "shards", timeout=60.0)
        before = made.map(abs, [-1])
        killed = list[str]()

        def disturb(share: float) -> None:
            if share > 0.2 and not killed:
                killed.append("worker")
                worker = processes.workers.pop(0)
                worker.kill()
                worker.wait()
            if share > 0.5 and len(killed) == 1:
                killed.append("all")
                processes.kill()
                processes.start_scheduler()
                processes.start_worker()

        assert made.map(partial(after, 0.2), list(range(30)), disturb) == list(range(30))
        assert killed == ["worker", "all"]
        assert before == [1]
        made.close()
