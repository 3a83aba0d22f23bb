"""app/compute/shards.py: rows as they are here, kept by content, results that stay as they are."""

import copy
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from app.compute import shards
from app.compute.folder import ShardFolder
from app.compute.shards import Shard, add_parts, sum_shard
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
    first = sum_shard(summed, shard, 3, 64)
    (tmp_path / shard.part).unlink()
    same = copy.deepcopy(shard)  # by the same protocol as Dask sends it
    assert same.name == shard.name
    assert sum_shard(summed, same, 3, 64).value == first.value
    other = shard_of(dataset, tmp_path, np.arange(40.0) % 3)
    assert other.name != shard.name
    (tmp_path / other.part).unlink()
    with pytest.raises(FileNotFoundError):
        sum_shard(summed, other, 3, 64)


def test_shards_used_last_stay_where_room_is_short(
    dataset: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shards, "SHARD_CACHE_BYTES", 2 * 8 * 4 * 40)
    monkeypatch.setattr(shards, "_CACHE", shards._Cache())
    three = [shard_of(Dataset(inputs=dataset.inputs + k, targets=dataset.targets), tmp_path) for k in range(3)]
    for shard in (three[0], three[1], three[0], three[2]):
        sum_shard(summed, shard, 3, 64)
    for file in tmp_path.iterdir():
        file.unlink()
    sum_shard(summed, three[0], 3, 64)
    sum_shard(summed, three[2], 3, 64)
    with pytest.raises(FileNotFoundError):
        sum_shard(summed, three[1], 3, 64)


def test_adding_leaves_both_as_they_were() -> None:
    left, right = Total(1.0), Total(2.0)
    assert add_parts(left, right).value == 3.0
    assert add_parts(left, right).value == 3.0
