"""Set of rows of a table: all of them, or a bit for each."""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from app.tables.columns.cells import BoolArray, IntArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RowSet:
    """Rows of a table that has `total` of them. bits (total / 8,): set where a row is in; None where all are."""

    total: int
    count: int
    bits: NDArray[np.uint8] | None = None

    @classmethod
    def every(cls, total: int) -> Self:
        """Return the set of all rows."""
        return cls(total=total, count=total)

    @classmethod
    def of(cls, kept: BoolArray) -> Self:
        """Return the set of the rows that are kept, (n,)."""
        count = int(np.count_nonzero(kept))
        return cls(total=len(kept), count=count, bits=None if count == len(kept) else np.packbits(kept))

    @classmethod
    def of_numbers(cls, numbers: IntArray, total: int) -> Self:
        """Return the set of rows with these numbers, (m,)."""
        kept: BoolArray = np.zeros(total, dtype=np.bool_)
        kept[numbers] = True
        return cls.of(kept)

    @property
    def left_out(self) -> int:
        """Return how many rows are not in."""
        return self.total - self.count

    @property
    def numbers(self) -> IntArray:
        """Return the numbers of the rows, in order, (m,): 8 bytes each, which the set itself does not keep."""
        return self.between(0, self.total)

    def kept(self, first: int, last: int) -> BoolArray | None:
        """Return which of the rows from `first` on and before `last` are in, (last - first,); None where all are."""
        if self.bits is None:
            return None
        begin = first // 8
        unpacked = np.unpackbits(self.bits[begin : (last + 7) // 8])[first - 8 * begin :][: last - first]
        kept: BoolArray = unpacked.astype(np.bool_)
        return None if kept.all() else kept

    def between(self, first: int, last: int) -> IntArray:
        """Return the numbers of the rows from `first` on and before `last`, in order."""
        kept = self.kept(first, last)
        return np.arange(first, last) if kept is None else first + np.flatnonzero(kept)

    def places(self, places: IntArray) -> IntArray:
        """Return the numbers of the rows at these places among those that are in, ascending, (k,). O(total / 8)."""
        if self.bits is None:
            return places
        counts = np.cumsum(np.bitwise_count(self.bits), dtype=np.int64)
        byte = np.searchsorted(counts, places, side="right")
        within = places - np.concatenate(([0], counts))[byte]
        ranks = np.cumsum(np.unpackbits(self.bits[byte][:, np.newaxis], axis=1), axis=1, dtype=np.int64)
        return np.asarray(8 * byte + np.argmax(ranks > within[:, np.newaxis], axis=1), np.int64)
