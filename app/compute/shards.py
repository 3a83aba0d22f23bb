"""The work of a cluster's processes: read shards, keep them in memory, sum over a run of them.

A sum is pure: any process can do any part of it, and do it again. A shard that was read stays in the process,
standardized, under the name of its content, as long as there is room.
"""

import hashlib
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from app.compute.folder import ShardFolder
from core.arrays import IntArray
from core.data import Standardization
from core.numeric.shards import Node, Part, tree_nodes
from core.numeric.workspace import Handover, Workspace
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
        for array in (unit.input_shift, unit.input_scale, unit.input_transform.table, self.groups):
            digest.update(array.tobytes())
        return digest.hexdigest()

    def read(self) -> Rows:
        """Read the rows. FileNotFoundError, DamagedShardError."""
        folder = ShardFolder(Path(self.folder))
        table = folder.read(self.part)
        if self.mask is not None:
            table = table[folder.read(self.mask)]
        X, y = self.unit.inputs(table[:, :-1]), self.unit.targets(self.transform.forward(table[:, -1]))
        return Rows(X=X, y=y, groups=self.groups, workspace=_WORKSPACE, handover=Handover())


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

    def clear_handovers(self, shards: Sequence[Shard]) -> None:
        """Forget what passes over these shards have left for others."""
        with self._lock:
            found = [self._kept[shard.name] for shard in shards if shard.name in self._kept]
        for rows in found:
            if rows.handover is not None:
                rows.handover.clear()


def _size(rows: Rows) -> int:
    return rows.X.nbytes + rows.y.nbytes


_CACHE = _Cache()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PartialSum:
    """Nodes of the tree of a sum that one process has added up, and how long it took; or what was raised, which is not
    raised there: the connection has errors of its own."""

    nodes: "Sequence[Node[Any]]" = ()
    seconds: float = 0.0
    error: Exception | None = None


class ShardSums:
    """The sums of one process of a cluster. Its methods are called one after another."""

    def __init__(self) -> None:
        self._spread: dict[str, Sequence[Shard]] = {}
        self._last: tuple[str, range] | None = None

    def total(
        self,
        name: str,
        shards: Sequence[Shard] | None,
        places: range,
        work: Callable[[Any, Sequence[slice]], Part],
        size: int,
        least: int,
        workers: int,
    ) -> PartialSum:
        """Sum over a run of some spread rows' shards.

        Args:
            name: of the spread rows.
            shards: all of them, when their name is used for the first time; None afterwards.
            places: of the run among the shards.
            work, size, least: see `core.numeric.shards.ShardedRows`.
            workers: threads.
        """
        begin = time.perf_counter()
        try:
            if shards is not None:
                self._spread[name] = shards
            if self._last != (name, places):  # what is kept is of no use for other rows
                self.forget()
                self._last = name, places
            held = self._spread[name]
            nodes = tree_nodes(lambda shard: on_shard(_CACHE.rows(shard), work, size, least), held, places, workers)
            return PartialSum(nodes=nodes, seconds=time.perf_counter() - begin)
        except Exception as error:  # noqa: BLE001  whatever it is, the driver raises it
            return PartialSum(error=error)

    def leave_shards(self) -> None:
        """Give back what the last sum has left for the next one over the same shards."""
        if self._last is not None:
            self.forget()
            self._last = None

    def forget(self) -> None:
        """Give back the memory of the last run of shards but the rows themselves."""
        if self._last is not None:
            name, places = self._last
            _CACHE.clear_handovers([self._spread[name][place] for place in places])
        _WORKSPACE.clear()
