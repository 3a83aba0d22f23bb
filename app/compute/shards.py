"""The tasks of a cluster's processes: read a shard, keep it in memory, sum over it.

Tasks are pure: any process can do any of them, and do it again. A shard that was read stays in the process,
standardized, under the name of its content, as long as there is room.
"""

import copy
import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from app.compute.folder import ShardFolder
from core.arrays import IntArray
from core.data import Standardization
from core.numeric.shards import Part
from core.numeric.workspace import Workspace
from core.predict.transforms import Transform
from core.process.rows import Rows, on_shard

SHARD_CACHE_BYTES = 1 << 31
"""Most bytes of shards that one process keeps."""
_WORKSPACE = Workspace()
"""Buffers of the sums of this process, overwritten by each task."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Shard:
    """Rows in a file: an array (m, p + 1), the target last, in raw units; a mask of the rows (m, bool), or all of them;
    the transform of their targets, and their standardization."""

    folder: str
    part: str
    mask: str | None
    unit: Standardization
    groups: IntArray
    transform: Transform = field(default_factory=Transform)

    @cached_property
    def name(self) -> str:
        """Hash of all that defines the rows: the same for the same rows."""
        unit = self.unit
        told = f"{self.part} {self.mask} {unit.target_shift!r} {unit.target_scale!r} {self.transform!r}"
        digest = hashlib.sha256(told.encode())
        for array in (unit.input_shift, unit.input_scale, self.groups):
            digest.update(array.tobytes())
        return digest.hexdigest()

    def read(self) -> Rows:
        """Read the rows. FileNotFoundError, DamagedShardError."""
        folder = ShardFolder(Path(self.folder))
        table = folder.read(self.part)
        if self.mask is not None:
            table = table[folder.read(self.mask)]
        X, y = self.unit.inputs(table[:, :-1]), self.unit.targets(self.transform.forward(table[:, -1]))
        return Rows(X=X, y=y, groups=self.groups, workspace=_WORKSPACE)


class _Cache:
    """Shards by name, the most recently used ones, up to SHARD_CACHE_BYTES."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, Rows] = OrderedDict()
        self._bytes = 0

    def rows(self, shard: Shard) -> Rows:
        """Return a shard's rows from memory, or read them now."""
        with self._lock:
            if shard.name in self._kept:
                self._kept.move_to_end(shard.name)
                return self._kept[shard.name]
        rows = shard.read()
        with self._lock:
            if shard.name not in self._kept:
                self._kept[shard.name] = rows
                self._bytes += _size(rows)
            while self._bytes > SHARD_CACHE_BYTES and len(self._kept) > 1:
                _, oldest = self._kept.popitem(last=False)
                self._bytes -= _size(oldest)
        return rows


def _size(rows: Rows) -> int:
    return rows.X.nbytes + rows.y.nbytes


_CACHE = _Cache()


def share_input(work: Any) -> Any:
    """Return the shared input of a sum: a task of its own, so that it is sent once and passed on between machines."""
    return work


def sum_shard(work: Callable[[Any, Sequence[slice]], Part], shard: Shard, size: int, least: int) -> Part:
    """Sum over one shard: the map."""
    return on_shard(_CACHE.rows(shard), work, size, least)


def add_parts(left: Part, right: Part) -> Part:
    """Add two partial sums: the reduction. Both stay as they are, as a task may be done again with its arguments."""
    total = copy.deepcopy(left)
    total.add(right)
    return total
