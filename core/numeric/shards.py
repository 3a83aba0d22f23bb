"""Sums over shards of rows: the same cuts and the same order of additions wherever the work is done.

A sum is a map, `work` on some rows, and a reduction, `add` of two neighbours' results. There are three ways to do it,
chosen by what the rows say (`core.process.rows.Rows`): one shard after another (one worker), shards on several threads
(`core.numeric.threads`), or shards in other processes, on other machines, behind a `ShardedRows`. Where rows are many,
cuts depend on their number alone and results are added in a binary tree over the shards' numbers:

    ((0 + 1) + (2 + 3)) + ((4 + 5) + 6)

so that all three give the same bits on the same kind of processor. With fewer rows there is a run for each thread.
"""

from collections.abc import Callable, Sequence
from typing import Any, Generic, Protocol, Self, TypeVar

import numpy as np

from core.arrays import IntArray
from core.data import Dataset, Standardization
from core.numeric.threads import map_threads, split_evenly

SHARDED_ROWS = 1 << 18
"""Rows from which cuts are fixed: there are then enough shards for any number of threads."""
SHARD_ROWS = 1 << 15
"""About the rows of a shard: 2 MB with eight columns, and with d = 500 a second's work for one core."""
FEWEST_SHARDS, MOST_SHARDS = 64, 1024
"""Bounds on the number of shards: more would only be more results to add."""


class Summable(Protocol):
    """Result of work on some rows, to be added to that of others."""

    def add(self, other: Self) -> None:
        """Adds the result of the rows that come next, in place; `other` stays as it is."""
        ...


Part = TypeVar("Part", bound=Summable)
Item = TypeVar("Item")


class ShardedRows(Protocol):
    """Rows that lie in shards where other processes read them."""

    def total(self, work: Callable[[Any, Sequence[slice]], Part], size: int, least: int) -> Part:
        """The sum of work(rows, blocks of them) over the shards: what `core.process.rows.on_shard` does for each of
        them, added in the order of `tree_total`.

        work: a function of a module, or a functools.partial of one, with arrays and plain values.
        """
        ...


class Compute(Protocol):
    """Other processes that add up."""

    def scatter(self, dataset: Dataset, numbers: IntArray, unit: Standardization) -> ShardedRows:
        """Lets them read these rows of the dataset, standardized by `unit`, cut at `cuts_of` its rows."""
        ...


def cuts_of(rows: int) -> IntArray:
    """Return the cuts between the shards of a table, (shards + 1,): a power of two of them, by the number of rows
    alone."""
    shards = FEWEST_SHARDS
    while shards < MOST_SHARDS and shards * SHARD_ROWS < rows:
        shards *= 2
    return np.arange(shards + 1) * rows // shards


def sample_cuts(rows: int, numbers: IntArray) -> tuple[int, ...]:
    """The same for some rows of a table, increasing row numbers: places in `numbers`; () where they are too few."""
    if len(numbers) < SHARDED_ROWS:
        return ()
    return tuple(np.searchsorted(numbers, cuts_of(rows)).tolist())


def tree_total(
    work: Callable[[Item], Part],
    items: Sequence[Item],
    workers: int,
    discard: Callable[[Part], None] = lambda _: None,
) -> Part:
    """The sum of work(item), added in a binary tree over the items' numbers, on so many threads.

    discard: hears of each result that was added to another and is needed no more. Each thread holds at most
    log2(items) + 1 results.
    """

    def run_of(places: Sequence[int]) -> list[_Node[Part]]:
        nodes: list[_Node[Part]] = []
        for place in places:
            _push(nodes, _Node(place, 0, work(items[place])), discard)
        return nodes

    nodes: list[_Node[Part]] = []
    for run in map_threads(run_of, split_evenly(range(len(items)), workers)):
        for node in run:
            _push(nodes, node, discard)
    while len(nodes) > 1:  # the ragged end, from the right
        last = nodes.pop()
        nodes[-1].part.add(last.part)
        discard(last.part)
    return nodes[0].part


class _Node(Generic[Part]):
    """The sum of the 2^level items from `start` on."""

    def __init__(self, start: int, level: int, part: Part) -> None:
        self.start, self.level, self.part = start, level, part


def _push(nodes: "list[_Node[Part]]", node: "_Node[Part]", discard: Callable[[Part], None]) -> None:
    """Joins the node with its left neighbours as long as they are the two halves of a larger one."""
    while nodes and nodes[-1].level == node.level and nodes[-1].start % (2 << node.level) == 0:
        left = nodes.pop()
        left.part.add(node.part)
        discard(node.part)
        node = _Node(left.start, node.level + 1, left.part)
    nodes.append(node)
