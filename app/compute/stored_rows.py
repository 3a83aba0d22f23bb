"""Rows of a very large table in shard files: summed one shard after another in this process, or by a cluster.

No process ever holds all of them, however many there are.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from app.compute.folder import DamagedShardError
from app.compute.shards import Shard
from app.errors import UnavailableError
from core.arrays import IntArray
from core.data import Standardization
from core.numeric.shards import Part, ShardedRows, tree_total
from core.predict.transforms import Transform
from core.process.rows import on_shard


class SpreadsShards(Protocol):
    """A cluster that sums over shards that are there already."""

    def sums(self, shards: Sequence[Shard], rows: Sequence[int]) -> ShardedRows:
        """Return the sums of these shards, of about so many rows each."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StoredRows:
    """Rows in the files `parts` of a folder, arrays (m, p + 1) with the target last in raw units; a
    `core.train.beyond.BeyondRows`.

    count: of all rows; target_range: of their targets; groups (p,): lengthscale of each column. workers: threads that
    sum here; cluster: what sums instead.
    """

    folder: Path
    parts: Sequence[str]
    count: int
    target_range: tuple[float, float]
    groups: IntArray
    workers: int = 1
    cluster: SpreadsShards | None = None

    def scatter(self, unit: Standardization, transform: Transform) -> ShardedRows:
        """Return the sums of the rows, with targets under `transform` and then all standardized by `unit`."""
        shards = [
            Shard(folder=str(self.folder), part=part, mask=None, unit=unit, groups=self.groups, transform=transform)
            for part in self.parts
        ]
        if self.cluster is None:
            return _SumsHere(shards, self.workers)
        return self.cluster.sums(shards, [-(-self.count // len(shards))] * len(shards))


@dataclass(frozen=True, slots=True, eq=False)
class _SumsHere:
    """Sums of shards that are read for each pass, by so many threads. Memory: a shard for each."""

    shards: Sequence[Shard]
    workers: int

    def total(self, work: Callable[[Any, Sequence[slice]], Part], size: int, least: int) -> Part:
        """See `core.numeric.shards.ShardedRows`. UnavailableError where a file is not there any more."""
        try:
            return tree_total(lambda shard: on_shard(shard.read(), work, size, least), self.shards, self.workers)
        except (FileNotFoundError, DamagedShardError) as error:
            raise UnavailableError(
                f"a file of the training's rows is lost, and they are read again ({error})"
            ) from None
