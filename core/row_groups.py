"""Rows of a table that belong together, and how they are left out: never on both sides of a split.

A row whose like is on the other side of a split is predicted as if it were known, so errors of such splits promise what
no new row gets. What counts as a like is one of four: the row alone; rows with equal inputs; rows of one group, where
new rows will be of other groups; and rows of one time, where new rows will be later ones. Those are left out forward:
a fold is predicted from the rows before it.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Self

import numpy as np

from core.arrays import FloatArray, IntArray
from core.errors import InvalidDataError

MANY_REPLICATES = 10.0
"""Rows with equal inputs, on average, from which new rows too have inputs that are known: rows are then alone."""
FEWEST_GROUPS = 10
"""Distinct inputs below which folds of them would be a fit to other settings."""
LARGEST_HELD_OUT = 1.0 / 3.0
"""Share of the rows that a held-out group may take at most."""
_STEP, _MIX = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9)


class Grouping(StrEnum):
    """Reason why rows belong together."""

    ROW = "row"
    """They do not: each is alone."""
    EQUAL = "equal inputs"
    GROUP = "group"
    ORDER = "order"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RowGroups:
    """by: why rows belong together. group (n,): the group of each row, numbers from 0; of ORDER they rise with time.
    Empty for ROW."""

    by: Grouping = Grouping.ROW
    group: IntArray = field(default_factory=lambda: np.empty(0, np.int64))

    @classmethod
    def of(cls, by: Grouping, values: FloatArray | IntArray) -> Self:
        """Rows with equal values (n,) are one group; of ORDER, values rise with time."""
        return cls(by=by, group=np.unique(values, return_inverse=True)[1].astype(np.int64))

    @property
    def forward(self) -> bool:
        """True where a fold is predicted from earlier rows alone."""
        return self.by is Grouping.ORDER

    @property
    def alone(self) -> bool:
        """True where every row may be left out by itself."""
        return self.by is Grouping.ROW

    @property
    def count(self) -> int:
        """Groups; 0 for ROW."""
        return int(self.group.max()) + 1 if len(self.group) else 0

    def check(self, rows: int) -> None:
        """Raise InvalidDataError unless these are groups of so many rows."""
        if len(self.group) != (0 if self.alone else rows):
            raise InvalidDataError(f"expected a group for each of the {rows} rows, got {len(self.group)}")

    def take(self, rows: IntArray) -> "RowGroups":
        """Return the groups of some rows, numbered anew."""
        if self.alone:
            return self
        return RowGroups.of(self.by, self.group[rows])

    def single(self) -> IntArray:
        """Return the rows that are alone in their group, of EQUAL; none of others."""
        if self.by is not Grouping.EQUAL:
            return np.empty(0, np.int64)
        return np.flatnonzero(np.bincount(self.group)[self.group] == 1)

    def held_out(self, rows: int, count: int, random: np.random.Generator) -> IntArray:
        """Return about `count` of so many rows: whole groups at random, or the latest rows; none where groups are too
        large for that. Increasing."""
        if self.alone:
            return np.sort(random.permutation(rows)[:count])
        sizes = np.bincount(self.group)
        order = np.arange(len(sizes))[::-1] if self.forward else random.permutation(len(sizes))
        before = np.cumsum(sizes[order]) - sizes[order]
        taken = order[before < count]
        if sizes[taken].sum() > max(LARGEST_HELD_OUT * rows, count):
            taken = taken[:-1]
        return np.flatnonzero(np.isin(self.group, taken))

    def folds(self, rows: int, count: int, random: np.random.Generator) -> IntArray:
        """Return the fold of each row, (n,), from 0: at most `count`, of whole groups and about even size. Of ORDER
        they follow each other, and -1 are the first rows, which no fold has."""
        if self.alone:
            return np.asarray(random.permutation(rows) % min(count, rows))
        sizes = np.bincount(self.group)
        if self.forward:
            middle = np.cumsum(sizes) - 0.5 * sizes
            place = np.minimum((middle / rows * (count + 1)).astype(np.int64), count)
            place = np.unique(place, return_inverse=True)[1] - 1
            return np.asarray(np.maximum(place, -1)[self.group])
        fold, filled = np.empty(len(sizes), np.int64), np.zeros(min(count, len(sizes)), np.int64)
        order = random.permutation(len(sizes))
        largest_first = order[np.argsort(-sizes[order], kind="stable")]
        equal = bool(sizes.max() == sizes.min()) or len(sizes) > 100 * count
        if equal:
            fold[largest_first] = np.arange(len(sizes)) % len(filled)
        else:
            for each in largest_first:
                smallest = int(np.argmin(filled))
                fold[each] = smallest
                filled[smallest] += sizes[each]
        return np.asarray(fold[self.group])

    def blocks(self, largest: int) -> list[IntArray]:
        """Return places of rows in blocks of at most `largest` rows, no two of one group: as many as the largest group
        has rows, or more. What rows of a group share looks like noise in such a block."""
        order = np.argsort(self.group, kind="stable")
        counts = np.bincount(self.group)
        turn = np.arange(len(order)) - np.repeat(np.cumsum(counts) - counts, counts)  # of each row in its group
        found = []
        for number in range(int(counts.max())):
            block = np.sort(order[turn == number])
            found += np.array_split(block, -(-len(block) // largest))
        return found

    def splits(self, fold: IntArray) -> Iterator[tuple[IntArray, IntArray]]:
        """Yield the rows of each fold, of `folds`, and those it is predicted from."""
        for number in range(int(fold.max()) + 1):
            yield np.flatnonzero(fold == number), np.flatnonzero(fold < number if self.forward else fold != number)


def groups_of_equal_rows(inputs: FloatArray) -> RowGroups:
    """Return rows with equal inputs (n, p) as groups; rows alone where none are equal, or so many that new rows will
    have known inputs too. O(n p + n log n)."""
    _, group, counts = np.unique(row_hashes(inputs), return_inverse=True, return_counts=True)
    distinct = len(counts)
    if distinct == len(inputs) or distinct < FEWEST_GROUPS or len(inputs) >= MANY_REPLICATES * distinct:
        return RowGroups()
    return RowGroups(by=Grouping.EQUAL, group=group.reshape(-1).astype(np.int64))


def row_hashes(rows: FloatArray) -> IntArray:
    """Return a 64-bit hash of each row (n, p), equal where rows are, NaN being equal to NaN: (n,). O(n p)."""
    bits = row_bits(rows)
    hashes = np.zeros(len(bits), np.uint64)
    for column in bits.T:
        hashes ^= column + _STEP + (hashes << np.uint64(6)) + (hashes >> np.uint64(2))
        hashes *= _MIX
        hashes ^= hashes >> np.uint64(29)
    return hashes.view(np.int64)


def row_bits(rows: FloatArray) -> "np.ndarray[tuple[int, int], np.dtype[np.uint64]]":
    """Return the bits of rows (n, p), with one zero and one NaN."""
    rows = np.ascontiguousarray(rows + 0.0)
    bits = rows.view(np.uint64)
    bits[np.isnan(rows)] = 0x7FF8000000000000
    return bits


def mean_by_group(values: FloatArray, group: IntArray) -> FloatArray:
    """Return the mean of each group's values (m,), which alone are independent."""
    _, place, counts = np.unique(group, return_inverse=True, return_counts=True)
    return np.asarray(np.bincount(place, values) / counts)
