"""Passes over partitions that keep something from one pass to the next: in this process, or in others.

A solver passes over the same rows some hundred times. A partition is a run of them, with what is made of them once and
read in each pass, kernel values or a factor's rows. It is made again wherever it is not there: a process that is lost
takes nothing along but its part of a pass.

    total = ((0 + 1) + (2 + 3)) + ..        of work(common, partition, shared, own), `core.numeric.shards`

How many partitions there are depends on the rows alone, so that the sums have the same bits wherever they are made. A
pass that is long enough to be divided between machines has LEAST_PASS multiply-adds: nothing that is measured decides.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from core.arrays import FloatArray
from core.numeric.shards import Compute, Part, Partitions, tree_total

LEAST_PASS = 1e9
"""Multiply-adds of a pass from which other processes do it: a fifth of a second of one core, which beside its work
costs some 20 ms of messages with each of them."""


@dataclass(frozen=True, slots=True, eq=False)
class LocalPartitions:
    """Partitions that this process passes over, on so many threads; a `core.numeric.shards.Partitions`."""

    common: Any
    partitions: Sequence[Any]
    workers: int = 1

    def total(
        self, work: Callable[[Any, Any, Any, Any], Part], shared: Any = None, own: Sequence[Any] | None = None
    ) -> Part:
        """See `core.numeric.shards.Partitions`."""

        def part(place: int) -> Part:
            return work(self.common, self.partitions[place], shared, None if own is None else own[place])

        return tree_total(part, range(len(self.partitions)), self.workers)


def dividing(compute: Compute | None, cost: float) -> Compute | None:
    """Return the other processes, where there are any and a pass has so many multiply-adds that they do it; else
    None."""
    return compute if cost >= LEAST_PASS else None


def partitioned(
    common: Any, partitions: Sequence[Any], workers: int, compute: Compute | None, cost: float
) -> Partitions:
    """Return partitions that are passed over by `compute` where there is one, else by so many threads here.

    Args:
        common: to all of them; of a class that other processes can load, as are the partitions.
        partitions: at least one.
        workers: threads.
        compute: other processes, see `dividing`.
        cost: multiply-adds of a pass, about.
    """
    here = LocalPartitions(common, partitions, workers)
    return here if compute is None else compute.partitions(common, partitions, cost, here)


@dataclass(slots=True, eq=False)
class VectorSum:
    """A sum of arrays (r, m) of which a later one may be wider: what is missing of the others is zero."""

    values: FloatArray

    def add(self, other: "VectorSum") -> None:
        """Add another's."""
        if self.values.shape == other.values.shape:
            self.values += other.values
            return
        narrow, self.values = self.values, other.values.copy()
        self.values[:, : narrow.shape[1]] += narrow


@dataclass(slots=True, eq=False)
class Concatenation:
    """Arrays of the partitions, one after the other."""

    pieces: list[FloatArray]

    def add(self, other: "Concatenation") -> None:
        """Put another's behind."""
        self.pieces = [*self.pieces, *other.pieces]

    def joined(self, axis: int = 0) -> FloatArray:
        """Return them as one array."""
        return np.concatenate(self.pieces, axis=axis)
