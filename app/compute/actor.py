"""The actor in each process of a cluster: sums over shards of rows, and over partitions that stay there."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from app.compute.shards import PartialSum, ShardSums
from app.posix import keep_freed_memory
from core.numeric.shards import Part, tree_nodes


@dataclass(frozen=True, slots=True, eq=False)
class _Kept:
    """Partitions that a process has been told, by their places, and what is common to them."""

    common: Any
    partitions: dict[int, Any] = field(default_factory=dict)


class ProcessSums(ShardSums):
    """The sums of one process. Its methods are called one after another."""

    def __init__(self) -> None:
        super().__init__()
        keep_freed_memory()
        self._kept: dict[str, _Kept] = {}

    def partitions_total(
        self,
        name: str,
        common: tuple[Any] | None,
        new: dict[int, Any],
        places: range,
        work: Callable[[Any, Any, Any, Any], Part],
        shared: Any,
        own: Sequence[Any] | None,
        workers: int,
    ) -> PartialSum:
        """Sum over a run of partitions; see `core.numeric.shards.Partitions`.

        Args:
            name: of the partitions.
            common: to all of them, when their name is used for the first time; None afterwards.
            new: partitions that this process has not been told before, by place.
            places: of the run.
            work, shared: of the pass.
            own: of each partition of the run in this pass; None where there is nothing.
            workers: threads.
        """
        begin = time.perf_counter()
        try:
            self.leave_shards()
            if common is not None:
                self._kept[name] = _Kept(common[0])
            kept = self._kept[name]
            kept.partitions.update(new)

            def part(place: int) -> Part:
                each = None if own is None else own[place - places.start]
                return work(kept.common, kept.partitions[place], shared, each)

            nodes = tree_nodes(part, range(places.stop), places, workers)
            return PartialSum(nodes=nodes, seconds=time.perf_counter() - begin)
        except Exception as error:  # noqa: BLE001  whatever it is, the driver raises it
            return PartialSum(error=error)

    def forget_partitions(self, name: str) -> None:
        """Give back what is kept under a name."""
        self._kept.pop(name, None)
