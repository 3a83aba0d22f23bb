"""Columns by sums over the parts of a table: what a fit and a profile decide on, whatever the number of rows.

Counts, ends and the first wrong cells add up over parts of rows, so that nobody holds a column. Two things do not, and
come from a sample that a hash draws, the same however the table is cut: levels, of which MOST_LEVELS different ones
are counted and then a share of them and the most common ones (`LevelCounts`), and single values, which are those of
MOST_VALUES rows about (`ColumnSums.values`). Smaller tables are their own sample. A small table is one part, and its
readings are kept by its columns.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import numpy as np
import pyarrow.compute as pc

from app.errors import MAX_FAULTS
from app.tables.columns.cells import Cell, FloatArray, IntArray
from app.tables.columns.dates import DateOrder, parse_date
from app.tables.columns.dates_and_booleans import parse_by_level
from app.tables.columns.integers import offset_of
from app.tables.columns.table import Column, Kind, Table

MOST_VALUES: Final = 1 << 18
"""Rows of which single values are looked at: of larger tables about so many of all."""
MOST_LEVELS: Final = 1 << 18
"""Different texts of a column that are all counted."""
_PADDED = r"^[ \t]*0[0-9]"


class Sums(Protocol):
    """What adds up over the parts of a column."""

    def add(self, column: Column) -> None:
        """Add the next part."""
        ...


@dataclass(slots=True, kw_only=True)
class Ends:
    """Ends of numbers; first: of them, in the order of the rows. NaN where there is none."""

    low: float = np.nan
    high: float = np.nan
    first: float = np.nan

    def add(self, values: FloatArray) -> None:
        """Add numbers (m,), NaN where there is none."""
        present = values[~np.isnan(values)]
        if len(present):
            self.low = float(np.fmin(self.low, present.min()))
            self.high = float(np.fmax(self.high, present.max()))
            self.first = float(present[0]) if np.isnan(self.first) else self.first

    @property
    def known(self) -> bool:
        """Return whether there is a number."""
        return not np.isnan(self.low)

    @property
    def constant(self) -> bool:
        """Return whether all numbers are the same, and there is one."""
        return self.low == self.high


@dataclass(slots=True, kw_only=True)
class CellCounts:
    """Counts of a column's cells as one kind. invalid: those that are not of it; first: row and cell of the first few
    of these; ends: of the others."""

    rows: int = 0
    missing: int = 0
    invalid: int = 0
    first: list[tuple[int, Cell]] = field(default_factory=list)
    ends: Ends = field(default_factory=Ends)

    def count(self, column: Column, missing: int, invalid: IntArray, values: FloatArray) -> None:
        """Add a part. invalid: its wrong rows."""
        self.missing += missing
        self.invalid += len(invalid)
        for row in invalid[: MAX_FAULTS - len(self.first)].tolist():
            self.first.append((self.rows + row, column.cell(row)))
        self.ends.add(values)
        self.rows += len(column)

    @property
    def present(self) -> int:
        """Return how many cells are not missing."""
        return self.rows - self.missing

    @property
    def usable(self) -> int:
        """Return how many cells are of the kind."""
        return self.rows - self.missing - self.invalid


@dataclass(slots=True, kw_only=True)
class NumberCounts(CellCounts):
    """Counts of cells as numbers. unusable: of the wrong cells, those that are meant as numbers; whole: all are
    integers; padded: a cell may begin with a zero that a number has not."""

    unusable: int = 0
    whole: bool = True
    padded: bool = False

    def add(self, column: Column) -> None:
        """Add the next part."""
        numbers = column.numbers
        values = numbers.values
        self.count(column, int(np.count_nonzero(numbers.missing)), numbers.invalid, values)
        self.unusable += numbers.unusable
        present = values[~np.isnan(values)]
        self.whole = self.whole and bool((present == np.floor(present)).all())
        self.padded = self.padded or bool(pc.any(pc.match_substring_regex(column.texts, _PADDED)).as_py())

    @property
    def offset(self) -> int | None:
        """The integer that its numbers are to be read as differences from, where they would be rounded."""
        return offset_of(self.ends.low, self.ends.high, whole=self.whole)

    @property
    def all_whole(self) -> bool:
        """Return whether every cell is an integer."""
        return self.usable == self.rows and self.whole


@dataclass(slots=True, kw_only=True)
class LevelCounts:
    """Different texts of a column with the cells of each, in the order in which they come.

    Of more than `most`, those of a share of all texts are kept, by a hash, and the most common of the others.
    `distinct` is then an estimate, and a count that of the cells since its text was last left out.
    """

    most: int = MOST_LEVELS
    cells: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    share: float = 1.0

    def add(self, column: Column) -> None:
        """Add the next part."""
        found = column.levels.counts()
        self.cells += sum(found.values())
        if not self.counts:
            self.counts = found
        else:
            for name, count in found.items():
                self.counts[name] = self.counts.get(name, 0) + count
        if len(self.counts) > self.most:
            self._thin()

    def _thin(self) -> None:
        """Keep at most half as many by the hash, and the most common quarter besides."""
        drawn = {name for name in self.counts if _uniform(name) < self.share}
        while len(drawn) > self.most // 2:
            self.share *= 0.5
            drawn = {name for name in drawn if _uniform(name) < self.share}
        common = sorted(self.counts, key=lambda name: (-self.counts[name], name))[: self.most // 4]
        kept = drawn.union(common)
        self.counts = {name: count for name, count in self.counts.items() if name in kept}

    @property
    def complete(self) -> bool:
        """Return whether all texts are counted."""
        return self.share == 1.0

    @property
    def distinct(self) -> int:
        """Return how many different texts there are."""
        return len(self.counts) if self.complete else round(len(self.names()) / self.share)

    @property
    def all_different(self) -> bool:
        """Return whether no text comes twice."""
        return set(self.counts.values()) <= {1}

    def names(self) -> list[str]:
        """The different texts, sorted; of very many a sample."""
        return sorted(self.counts if self.complete else (name for name in self.counts if _uniform(name) < self.share))


def _uniform(name: str) -> float:
    digest = hashlib.blake2b(name.encode(errors="surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little") * 2.0**-64


@dataclass(slots=True, kw_only=True)
class LevelwiseCounts(CellCounts):
    """Counts of cells as dates, in days, or as booleans; earliest, latest: such a date as it is written."""

    kind: Kind
    order: DateOrder | None
    earliest: tuple[int, str] | None = None
    latest: tuple[int, str] | None = None

    def add(self, column: Column) -> None:
        """Add the next part."""
        values, missing, invalid = parse_by_level(column, self.kind, self.order)
        self.count(column, int(np.count_nonzero(missing)), invalid, values)
        if self.kind is Kind.DATE:
            order = self.order or DateOrder.YEAR_FIRST
            dated = [(when, text) for text in column.levels.counts() if (when := parse_date(text, order)) is not None]
            if dated:
                self.earliest = min(dated) if self.earliest is None else min(self.earliest, *dated)
                self.latest = max(dated) if self.latest is None else max(self.latest, *dated)


@dataclass(slots=True, kw_only=True)
class DistinctNumbers:
    """Number of different values; of more than `most` an estimate by those that a hash draws."""

    most: int = MOST_VALUES
    shift: int = 0
    kept: FloatArray = field(default_factory=lambda: np.empty(0))

    def add(self, values: FloatArray) -> None:
        """Add numbers (m,), none of them NaN."""
        self.kept = np.unique(np.concatenate((self.kept, self._drawn(values))))
        while len(self.kept) > self.most:
            self.shift += 1
            self.kept = self._drawn(self.kept)

    def _drawn(self, values: FloatArray) -> FloatArray:
        if not self.shift:
            return values
        drawn: FloatArray = values[mixed((values + 0.0).view(np.uint64)) >> np.uint64(64 - self.shift) == 0]
        return drawn

    @property
    def count(self) -> int:
        """Return how many there are."""
        return len(self.kept) << self.shift


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


def mixed(numbers: "np.ndarray[Any, np.dtype[np.uint64]]") -> "np.ndarray[Any, np.dtype[np.uint64]]":
    """Return hashes of 64-bit words, (m,): the finaliser of SplitMix64 (Steele, Lea and Flood 2014)."""
    with np.errstate(over="ignore"):
        z = numbers + np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


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
