"""app/compute/shards.py: rows as they are here, kept by content, results that stay as they are."""

import copy
import pickle
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from app.compute import shards
from app.compute.folder import ShardFolder
from app.compute.shards import Shard, ShardSums
from core.arrays import FloatArray
from core.data import Dataset, standardization
from core.hyperparameters import Hyperparameters
from core.numeric.shards import Node, Part, joined
from core.process.rows import Rows
from core.sparse.factors import factorise
from core.sparse.likelihood import nlml, nlml_and_gradients
from core.sparse.scheme import scheme
from core.spec import Approximation
from core.train.fit import Subset


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


@dataclass(slots=True)
class TwoProcesses:
    """Rows in shards that two actors sum, both in this process, each always the same half."""

    shards: list[Shard]
    actors: tuple[ShardSums, ShardSums] = field(default_factory=lambda: (ShardSums(), ShardSums()))

    def total(self, work: Callable[[Any, Sequence[slice]], Part], size: int, least: int) -> Part:
        """See `core.numeric.shards.ShardedRows`."""
        half = len(self.shards) // 2
        nodes: list[Node[Part]] = []
        for actor, places in zip(self.actors, (range(half), range(half, len(self.shards))), strict=True):
            found = actor.total("rows", self.shards, places, work, size, least, 1)
            assert found.error is None
            nodes += pickle.loads(pickle.dumps(found.nodes))  # noqa: S301  as sent: a part of an array is one of its own
        return joined(nodes)


@pytest.mark.parametrize("approximation", ["dtc", "fitc", "vfe", "pep"])
def test_a_gradient_reads_the_blocks_that_the_first_pass_has_left(
    approximation: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the bits of one process, whether they are there or not; nothing of them is left in the end."""
    monkeypatch.setattr("core.process.rows.BLOCK_NUMBERS", 1)
    monkeypatch.setattr(shards, "_CACHE", shards._Cache())
    random = np.random.default_rng(3)
    X = random.standard_normal((700, 4))
    dataset = Dataset(inputs=X, targets=np.sin(X).sum(axis=1))
    here = Subset.of(dataset, np.arange(700), standardize=True, workers=1, very_large=True)
    store, unit, cuts = ShardFolder(tmp_path), here.standardization, here.rows.cuts
    parts = [store.put(np.column_stack((X[a:b], dataset.targets[a:b]))) for a, b in pairwise(cuts)]
    spread = [Shard(folder=str(tmp_path), part=part, mask=None, unit=unit, groups=dataset.groups) for part in parts]
    Z, kind = here.rows.X[:40], scheme(Approximation(approximation))
    theta = Hyperparameters(lengthscales=np.full(4, 1.5), signal_variance=1.0, bias_variance=0.1, noise_variance=0.1)
    wanted = nlml_and_gradients(here.rows, Z, theta, kind)

    def left() -> list[bool]:
        held = [shards._CACHE.rows(shard).handover for shard in spread]
        return [each is not None and each._left is not None for each in held]

    remote = TwoProcesses(spread)
    rows = replace(here.rows, remote=remote)
    for forgets in (False, True):
        factors = factorise(rows, Z, theta, kind)
        assert all(left())
        if forgets:
            remote.actors[0].forget()
        assert nlml(factors) == nlml(factorise(here.rows, Z, theta, kind))
        assert not any(left())
        found = nlml_and_gradients(rows, Z, theta, kind)
        assert found.value == wanted.value
        np.testing.assert_array_equal(found.by_theta, wanted.by_theta)
        np.testing.assert_array_equal(found.by_basis, wanted.by_basis)
        assert not any(left())
    factorise(rows, Z, theta, kind, keep=False)
    assert not any(left())
    factorise(rows, Z, theta, kind)
    remote.actors[0].total("others", spread[:1], range(1), summed, 3, 64, 1)
    assert left() == [False] * 8 + [True] * 8
