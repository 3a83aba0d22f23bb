"""What a process of the cluster does: reads a shard, keeps it, adds up.

Tasks hold no state that matters: any process can do any of them, and do it again. A shard that was read stays in the
process, standardized, under the name of its content, as long as there is room.
"""

import copy
import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from app.compute.folder import ShardFolder
from core.arrays import IntArray
from core.data import Standardization
from core.numeric.shards import Part
from core.numeric.workspace import Workspace
from core.process.rows import Rows, on_shard

KEPT_BYTES = 1 << 31
"""Shards kept by one process."""
_WORKSPACE = Workspace()
"""What the sums of this process write into, task after task."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Shard:
    """Where some rows lie: an array (m, p + 1), the target last, in raw units; of its rows those that a second one says
    (m, bool), or all; and how they are standardized."""

    folder: str
    part: str
    taken: str | None
    unit: Standardization
    groups: IntArray

    @cached_property
    def name(self) -> str:
        """The same for the same rows."""
        unit = self.unit
        digest = hashlib.sha256(f"{self.part} {self.taken} {unit.target_shift!r} {unit.target_scale!r}".encode())
        for array in (unit.input_shift, unit.input_scale, self.groups):
            digest.update(array.tobytes())
        return digest.hexdigest()

    def read(self) -> Rows:
        """FileNotFoundError, DamagedShardError."""
        folder = ShardFolder(Path(self.folder))
        table = folder.read(self.part)
        if self.taken is not None:
            table = table[folder.read(self.taken)]
        X, y = self.unit.inputs(table[:, :-1]), self.unit.targets(table[:, -1])
        return Rows(X=X, y=y, groups=self.groups, workspace=_WORKSPACE)


class _Cache:
    """Shards by name, those used last, up to KEPT_BYTES."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, Rows] = OrderedDict()
        self._bytes = 0

    def rows(self, shard: Shard) -> Rows:
        """Kept, or read now."""
        with self._lock:
            if shard.name in self._kept:
                self._kept.move_to_end(shard.name)
                return self._kept[shard.name]
        rows = shard.read()
        with self._lock:
            if shard.name not in self._kept:
                self._kept[shard.name] = rows
                self._bytes += _size(rows)
            while self._bytes > KEPT_BYTES and len(self._kept) > 1:
                _, oldest = self._kept.popitem(last=False)
                self._bytes -= _size(oldest)
        return rows


def _size(rows: Rows) -> int:
    return rows.X.nbytes + rows.y.nbytes


_CACHE = _Cache()


def given(work: Any) -> Any:
    """What every task of a pass shares: a task of its own, so that it is sent once and handed on between machines."""
    return work


def sum_shard(work: Callable[[Any, Sequence[slice]], Part], shard: Shard, size: int, least: int) -> Part:
    """The map."""
    return on_shard(_CACHE.rows(shard), work, size, least)


def added(left: Part, right: Part) -> Part:
    """The reduction. Both stay as they are: a task may be done again with what it was given."""
    total = copy.deepcopy(left)
    total.add(right)
    return total
