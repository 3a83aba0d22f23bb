"""Sums over shards of rows: the same cuts and the same order of additions wherever the work is done.

A sum is a map, `work` on some rows, and a reduction, `add` of two neighbours' results. There are three ways to do it,
chosen by what the rows say (`core.process.rows.Rows`): one shard after another (one worker), shards on several threads
(`core.numeric.threads`), or shards in other processes, on other machines, behind a `ShardedRows`. Where a table is very
large, cuts of all its rows and of samples of them depend on their number alone, and results are added in a binary tree
over the shards' numbers:

    ((0 + 1) + (2 + 3)) + ((4 + 5) + 6)

so that all three give the same bits on the same kind of processor. Whoever has a run of neighbouring shards adds the
nodes of the tree that are in it (`tree_nodes`), and these are added in the end (`joined`). In smaller tables there is a
run for each thread.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, Self, TypeVar

import numpy as np

from core.arrays import IntArray
from core.data import Dataset, Standardization
from core.numeric.threads import map_threads, split_evenly

SHARDED_ROWS = 1 << 18
"""Rows of a table from which cuts are fixed: there are then enough shards for any number of threads."""
SHARD_ROWS = 1 << 15
"""About the rows of a shard: 2 MB with eight columns, and with d = 500 a second's work for one core."""
FEWEST_SHARDS, MOST_SHARDS = 64, 1024
"""Bounds on the number of shards: more would only be more results to add."""
SAMPLE_SHARD_ROWS, FEWEST_SAMPLE_SHARDS = 1 << 13, 16
"""The same of samples: a candidate pool's result has a million numbers, which take as long to add up as to make from a
thousand rows."""


class Summable(Protocol):
    """Result of work on some rows, to be added to that of others."""

    def add(self, other: Self) -> None:
        """Adds the result of the rows that come next, in place; `other` stays as it is."""
        ...


Part = TypeVar("Part", bound=Summable)
Item = TypeVar("Item")
Result = TypeVar("Result")


class ShardedRows(Protocol):
    """Rows that lie in shards where other processes read them."""

    def total(self, work: Callable[[Any, Sequence[slice]], Part], size: int, least: int) -> Part:
        """The sum of work(rows, blocks of them) over the shards: what `core.process.rows.on_shard` does for each of
        them, added in the order of `tree_total`.

        work: a function of a module, or a functools.partial of one, with arrays and plain values.
        """
        ...


class Partitions(Protocol):
    """Partitions of one piece of work, each with what it keeps from pass to pass (`core.numeric.partitions`)."""

    def total(
        self, work: Callable[[Any, Any, Any, Any], Part], shared: Any = None, own: Sequence[Any] | None = None
    ) -> Part:
        """The sum over the partitions, in the order of `tree_total`, of work(what is common to all, a partition, what
        is shared in this pass, what is the partition's own in this pass).

        work: a function of a module, which may change what the partition keeps, but no result by that. own: one for
        each partition.
        """
        ...


class Compute(Protocol):
    """Other processes that add up, and that do work of which each part is by itself."""

    def scatter(self, dataset: Dataset, numbers: IntArray, unit: Standardization) -> ShardedRows:
        """Lets them read these rows of the dataset, standardized by `unit`, cut at `sample_cuts`."""
        ...

    def map(self, work: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
        """Return work(item) of each, by one thread each. work: a function of a module."""
        ...

    def partitions(self, common: Any, partitions: Sequence[Any], cost: float, here: Partitions) -> Partitions:
        """Return the same partitions as `here` has, passed over by these processes as long as they are there, else
        here. cost: multiply-adds of a pass, about, as many for each partition."""
        ...


def is_very_large(rows: int) -> bool:
    """Return whether a table of so many rows, wherever they are, has sums with fixed cuts."""
    return rows >= SHARDED_ROWS


def cuts_of(rows: int) -> IntArray:
    """Return the cuts between the shards of a table, (shards + 1,): a power of two of them, by the number of rows
    alone."""
    shards = FEWEST_SHARDS
    while shards < MOST_SHARDS and shards * SHARD_ROWS < rows:
        shards *= 2
    return np.arange(shards + 1) * rows // shards


def even_cuts(rows: int) -> tuple[int, ...]:
    """Return the cuts of a sample of so many rows of a very large table, a power of two of shards."""
    shards = FEWEST_SAMPLE_SHARDS
    while shards < FEWEST_SHARDS and shards * SAMPLE_SHARD_ROWS < rows:
        shards *= 2
    return tuple((np.arange(shards + 1) * rows // shards).tolist())


def sample_cuts(rows: int, numbers: IntArray) -> tuple[int, ...]:
    """Return the cuts of some rows of a very large table, increasing row numbers: those of all its rows where they are
    many themselves, as places in `numbers`, else even ones."""
    if not is_very_large(len(numbers)):
        return even_cuts(len(numbers))
    return tuple(np.searchsorted(numbers, cuts_of(rows)).tolist())


@dataclass(slots=True, eq=False)
class Node(Generic[Part]):
    """The sum of the 2^level items from `start` on."""

    start: int
    level: int
    part: Part


def _nothing(_: object) -> None:
    """Discard nothing."""


def tree_total(
    work: Callable[[Item], Part], items: Sequence[Item], workers: int, discard: Callable[[Part], None] = _nothing
) -> Part:
    """The sum of work(item), added in a binary tree over the items' numbers, on so many threads.

    discard: hears of each result that was added to another and is needed no more. Each thread holds at most
    log2(items) + 1 results.
    """
    return joined(tree_nodes(work, items, range(len(items)), workers, discard), discard)


def tree_nodes(
    work: Callable[[Item], Part],
    items: Sequence[Item],
    places: Sequence[int],
    workers: int,
    discard: Callable[[Part], None] = _nothing,
) -> list[Node[Part]]:
    """Return the nodes of the tree over all items that these neighbouring places make, 2 log2(places) at most."""

    def run_of(run: Sequence[int]) -> list[Node[Part]]:
        nodes: list[Node[Part]] = []
        for place in run:
            _push(nodes, Node(place, 0, work(items[place])), discard)
        return nodes

    nodes: list[Node[Part]] = []
    for run in map_threads(run_of, split_evenly(places, workers)):
        for node in run:
            _push(nodes, node, discard)
    return nodes


def joined(found: Iterable[Node[Part]], discard: Callable[[Part], None] = _nothing) -> Part:
    """Return the sum of nodes that cover all items, in order. Parts are added to in place."""
    nodes = halves_joined(found, discard)
    while len(nodes) > 1:  # the ragged end, from the right
        last = nodes.pop()
        nodes[-1].part.add(last.part)
        discard(last.part)
    return nodes[0].part


def halves_joined(found: Iterable[Node[Part]], discard: Callable[[Part], None] = _nothing) -> list[Node[Part]]:
    """Return the fewest nodes of the tree that cover what these do, neighbours in order, two at most of each level.
    Parts are added to in place."""
    nodes: list[Node[Part]] = []
    for node in found:
        _push(nodes, node, discard)
    return nodes


def _push(nodes: list[Node[Part]], node: Node[Part], discard: Callable[[Part], None]) -> None:
    """Joins the node with its left neighbours as long as they are the two halves of a larger one."""
    while nodes and nodes[-1].level == node.level and nodes[-1].start % (2 << node.level) == 0:
        left = nodes.pop()
        left.part.add(node.part)
        discard(node.part)
        node = Node(left.start, node.level + 1, left.part)
    nodes.append(node)
