"""Counts of a column's cells that add up over the parts of a table.

Counts, ends and the first wrong cells do so by themselves. Of more than MOST_LEVELS different texts, or MOST_VALUES
different numbers, those that a hash draws are kept, the same however the table is cut.
"""

import hashlib
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow.compute as pc

from app.errors import MAX_FAULTS
from app.tables.columns.cells import Cell, FloatArray, IntArray
from app.tables.columns.dates import DateOrder, parse_date
from app.tables.columns.dates_and_booleans import parse_by_level
from app.tables.columns.integers import offset_of
from app.tables.columns.table import Column, Kind

MOST_VALUES: Final = 1 << 18
"""Different numbers of a column that are all counted, and rows of which single values are looked at: of larger tables
about so many of all."""
MOST_LEVELS: Final = 1 << 18
"""Different texts of a column that are all counted."""
_PADDED = r"^[ \t]*0[0-9]"


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


def mixed(numbers: "np.ndarray[Any, np.dtype[np.uint64]]") -> "np.ndarray[Any, np.dtype[np.uint64]]":
    """Return hashes of 64-bit words, (m,): the finaliser of SplitMix64 (Steele, Lea and Flood 2014)."""
    with np.errstate(over="ignore"):
        z = numbers + np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))
