"""Columns by sums over the parts of a table: what a fit and a profile decide on, whatever the number of rows.

What adds up is counted over parts of rows (`app.tables.columns.counts`), so that nobody holds a column. Single values
do not, and are those of MOST_VALUES rows about that a hash draws, the same however the table is cut; smaller tables are
their own sample. A small table is one part, and its readings are kept by its columns.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from app.tables.columns.cells import Cell, FloatArray
from app.tables.columns.counts import (
    MOST_VALUES,
    CellCounts,
    Ends,
    LevelCounts,
    LevelwiseCounts,
    NumberCounts,
    mixed,
)
from app.tables.columns.dates import DateOrder, parse_date
from app.tables.columns.dates_and_booleans import parse_by_level
from app.tables.columns.table import Column, Kind, Table


class ColumnSums:
    """Sums of one column, made when they are asked for.

    rows: of the column; parts: reads them from the first on, a part after another.
    """

    __slots__ = ("_levels", "_levelwise", "_numbers", "parts", "rows")

    def __init__(self, rows: int, parts: Callable[[], Iterator[Column]]) -> None:
        self.rows, self.parts = rows, parts
        self._numbers: NumberCounts | None = None
        self._levels: LevelCounts | None = None
        self._levelwise: dict[tuple[Kind, DateOrder | None], LevelwiseCounts] = {}

    @classmethod
    def of(cls, column: "Column | ColumnSums") -> "ColumnSums":
        """Return the sums of a column in memory."""
        return column if isinstance(column, ColumnSums) else cls(len(column), lambda: iter((column,)))

    def __len__(self) -> int:
        return self.rows

    @property
    def numbers(self) -> NumberCounts:
        """Counts of its cells as numbers."""
        if self._numbers is None:
            self._numbers = self._added(NumberCounts())
        return self._numbers

    @numbers.setter
    def numbers(self, counts: NumberCounts) -> None:
        self._numbers = counts

    @property
    def levels(self) -> LevelCounts:
        """Counts of its cells as texts."""
        if self._levels is None:
            self._levels = self._added(LevelCounts())
        return self._levels

    def cells(self, kind: Kind, order: DateOrder | None) -> CellCounts:
        """Counts of its cells as a kind."""
        if kind is Kind.NUMBER:
            return self.numbers
        if kind is Kind.CATEGORY:
            return CellCounts(rows=self.rows, missing=self.rows - self.levels.cells)
        if (kind, order) not in self._levelwise:
            self._levelwise[kind, order] = self._added(LevelwiseCounts(kind=kind, order=order))
        return self._levelwise[kind, order]

    def _added(self, counts: Any) -> Any:
        for part in self.parts():
            counts.add(part)
        return counts

    def numbered(self) -> Iterator[tuple[int, Column]]:
        """Iterate over the parts, with the number of the first row of each."""
        first = 0
        for part in self.parts():
            yield first, part
            first += len(part)

    def first_cells(self, count: int) -> list[Cell]:
        """Return the cells of the first rows as they came, up to so many."""
        found: list[Cell] = []
        for part in self.parts():
            found += [part.cell(row) for row in range(min(count - len(found), len(part)))]
            if len(found) == count:
                break
        return found

    def values(self, offset: int | None = None) -> FloatArray:
        """The numbers less an offset, NaN where there is none, in the order of the rows: of all, (n,), or in a large
        table of about MOST_VALUES rows that a hash of their numbers draws."""
        parts = [
            part.minus(offset) if self.rows <= MOST_VALUES else _drawn(part.minus(offset), first, self.rows)
            for first, part in self.numbered()
        ]
        return parts[0] if len(parts) == 1 else np.concatenate([np.empty(0), *parts])

    def read_values(self, kind: Kind, order: DateOrder | None) -> FloatArray:
        """The same of numbers less their offset, of dates in days, or of booleans."""
        if kind is Kind.NUMBER:
            return self.values(self.numbers.offset)
        found = [np.empty(0)]
        for first, part in self.numbered():
            values = parse_by_level(part, kind, order)[0]
            found.append(values if self.rows <= MOST_VALUES else _drawn(values, first, self.rows))
        return np.concatenate(found)

    def ends(self, offset: int | None) -> Ends:
        """The ends of the numbers less an offset, exact before they are rounded."""
        if offset is None:
            return self.numbers.ends
        found = Ends()
        for part in self.parts():
            found.add(part.minus(offset))
        return found

    def steps(self) -> float:
        """Return the share of its numbers that are by one larger than the one before."""
        count, last = 0, np.empty(0)
        for part in self.parts():
            values = np.concatenate((last, part.numbers.values))
            count += int(np.count_nonzero(np.diff(values) == 1.0))
            last = values[-1:]
        return count / (self.rows - 1) if self.rows > 1 else np.nan

    def counts_from(self, start: int) -> bool:
        """Return whether its integers are start, start + 1, .., each once in any order, where all lie among these.

        By sums of hashes over both, which no accident makes equal.
        """
        given = expected = np.uint64(0)
        with np.errstate(over="ignore"):
            for first, part in self.numbered():
                given += mixed(part.numbers.values.astype(np.int64).view(np.uint64)).sum(dtype=np.uint64)
                places = start + np.arange(first, first + len(part))
                expected += mixed(places.view(np.uint64)).sum(dtype=np.uint64)
        return bool(given == expected)

    def in_order(self, order: DateOrder) -> bool:
        """Return whether its dates only rise, or only fall, from row to row."""
        rising = falling = True
        steps, last = 0, np.empty(0)
        for part in self.parts():
            names: Any = part.levels.names
            parsed = [parse_date(text, order) for text in names.to_pylist()]
            times = part.by_level(np.array([np.nan if when is None else float(when) for when in parsed]))
            times = np.concatenate((last, times[~np.isnan(times)]))
            difference = np.diff(times)
            steps += len(difference)
            rising, falling = rising and bool((difference >= 0).all()), falling and bool((difference <= 0).all())
            last = times[-1:]
        return steps > 1 and (rising or falling)


def _drawn(values: FloatArray, first: int, rows: int) -> FloatArray:
    """Those of the rows from `first` on that a sample of a table of so many rows has."""
    numbers = np.arange(first, first + len(values)).view(np.uint64)
    share = np.uint64(int(MOST_VALUES / rows * 2.0**64))
    drawn: FloatArray = values[mixed(numbers) < share]
    return drawn


class TableSums(Mapping[str, ColumnSums]):
    """Sums of the columns of a table, kept once made. A table of parts is read once for its columns' numbers together,
    when the first is asked for."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self._sums: dict[str, ColumnSums] = {}

    def __getitem__(self, name: str) -> ColumnSums:
        if name not in self._sums:
            if name not in self.table.names:
                raise KeyError(name)
            self._sums[name] = ColumnSums(self.table.rows, lambda: self._parts(name))
        return self._sums[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.table.names)

    def __len__(self) -> int:
        return len(self.table.names)

    def gather(self, names: Iterable[str]) -> None:
        """Count the cells of these columns as numbers in one reading, where the table has parts."""
        asked = list(dict.fromkeys(names))
        if self.table.parts is None or not asked:
            return
        found = {name: NumberCounts() for name in asked}
        for part in self.table.parts(asked):
            for name, counts in found.items():
                counts.add(part[name])
        for name, counts in found.items():
            self[name].numbers = counts

    def _parts(self, name: str) -> Iterator[Column]:
        if self.table.parts is None:
            yield self.table.columns[name]
            return
        for part in self.table.parts([name]):
            yield part[name]
