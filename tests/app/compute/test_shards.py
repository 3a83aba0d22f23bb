"""app/compute/shards.py: rows as they are here, kept by content, results that stay as they are."""

import copy
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from app.compute import shards
from app.compute.folder import ShardFolder
from app.compute.shards import Shard, ShardSums
from core.arrays import FloatArray
from core.data import Dataset, standardization
from core.process.rows import Rows


class Total:
    """The sum of some rows' targets, and how often it was computed."""

    def __init__(self, value: float) -> None:
        self.value = value

    def add(self, other: "Total") -> None:
        """The rows that come next."""
        self.value += other.value


def sum_shard(shard: Shard) -> float:
    """The sum over one shard, as a new actor makes it."""
    found = ShardSums().total("rows", [shard], range(1), summed, 3, 64, 1)
    if found.error is not None:
        raise found.error
    total: float = found.nodes[0].part.value
    return total


def summed(rows: Rows, places: Sequence[slice]) -> Total:
    return Total(sum(float(rows.y[place].sum()) for place in places))


@pytest.fixture
def dataset() -> Dataset:
    random = np.random.default_rng(0)
    return Dataset(inputs=random.standard_normal((40, 3)), targets=random.standard_normal(40))


def shard_of(dataset: Dataset, folder: Path, selected: FloatArray | None = None) -> Shard:
    store, unit = ShardFolder(folder), standardization(dataset)
    part = store.put(np.column_stack((dataset.inputs, dataset.targets)))
    mask = None if selected is None else store.put(selected.astype(bool))
    return Shard(folder=str(folder), part=part, mask=mask, unit=unit, groups=dataset.groups)


def test_rows_are_those_of_the_sample(dataset: Dataset, tmp_path: Path) -> None:
    shard = shard_of(dataset, tmp_path, np.arange(40.0) % 2)
    rows = shard.read()
    np.testing.assert_array_equal(rows.X, shard.unit.inputs(dataset.inputs[1::2]))
    np.testing.assert_array_equal(rows.y, shard.unit.targets(dataset.targets[1::2]))


def test_a_shard_is_read_once_and_named_by_what_it_is(dataset: Dataset, tmp_path: Path) -> None:
    shard = shard_of(dataset, tmp_path)
    first = sum_shard(shard)
    (tmp_path / shard.part).unlink()
    same = copy.deepcopy(shard)  # by the same protocol as Dask sends it
    assert same.name == shard.name
    assert sum_shard(same) == first
    other = shard_of(dataset, tmp_path, np.arange(40.0) % 3)
    assert other.name != shard.name
    (tmp_path / other.part).unlink()
    with pytest.raises(FileNotFoundError):
        sum_shard(other)


def test_shards_used_last_stay_where_room_is_short(
    dataset: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shards, "SHARD_CACHE_BYTES", 2 * 8 * 4 * 40)
    monkeypatch.setattr(shards, "_CACHE", shards._Cache())
    three = [shard_of(Dataset(inputs=dataset.inputs + k, targets=dataset.targets), tmp_path) for k in range(3)]
    for shard in (three[0], three[1], three[0], three[2]):
        sum_shard(shard)
    for file in tmp_path.iterdir():
        file.unlink()
    sum_shard(three[0])
    sum_shard(three[2])
    with pytest.raises(FileNotFoundError):
        sum_shard(three[1])


@pytest.mark.parametrize("workers", [1, 3])
def test_a_run_of_shards_gives_the_nodes_of_the_tree(dataset: Dataset, tmp_path: Path, workers: int) -> None:
    """Shards 1 to 4 of 6 are 1, 2 + 3 and 4; they are told once."""
    shards = [shard_of(Dataset(inputs=dataset.inputs, targets=dataset.targets + k), tmp_path) for k in range(6)]
    sums = ShardSums()
    first = sums.total("rows", shards, range(1, 5), summed, 3, 64, workers)
    assert [(node.start, node.level) for node in first.nodes] == [(1, 0), (2, 1), (4, 0)]
    again = sums.total("rows", None, range(1, 5), summed, 3, 64, workers)
    assert [node.part.value for node in again.nodes] == [node.part.value for node in first.nodes]


def test_what_is_raised_is_in_the_result(dataset: Dataset, tmp_path: Path) -> None:
    """Errors of the call itself are those of a lost process."""
    shard = shard_of(Dataset(inputs=dataset.inputs, targets=dataset.targets - 1.0), tmp_path)
    (tmp_path / shard.part).unlink()
    found = ShardSums().total("rows", [shard], range(1), summed, 3, 64, 1)
    assert isinstance(found.error, FileNotFoundError)
