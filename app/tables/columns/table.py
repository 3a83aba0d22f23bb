"""Table: named columns of cells as they came, read as numbers or as text on demand.

What a column *is* (a number or a category) is inferred only when a schema is fitted. At prediction time the schema
says how to read it, so a small table is never misread.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import chain
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from app.tables.columns.cells import (
    BLANKS,
    Cell,
    FloatArray,
    IntArray,
    Levels,
    Numbers,
    Texts,
    cell_text,
    levels_of,
    parse_cells,
    parse_levels,
    parse_numbers,
    texts_of,
    to_numpy,
)
from app.tables.columns.integers import differences, find_offset, text_differences
from app.tables.columns.missing import MissingValues
from app.tables.columns.number_formats import PLAIN, MarkCounts, NumberFormat, infer_formats
from app.tables.columns.read_options import AUTODETECT, ReadOptions
from app.tables.columns.row_set import RowSet

MISSING_LEVEL = -1
UNSEEN_LEVEL = -2
_FEW = 2_000  # cells up to which Python is quicker than Arrow


class Kind(StrEnum):
    """Kind of a feature. UNUSED: left out in training; it has its place in a row but is not read."""

    NUMBER = "number"
    BOOLEAN = "boolean"
    DATE = "date"
    CATEGORY = "category"
    UNUSED = "unused"


PartReader = Callable[[Sequence[str]], Iterator[Mapping[str, "Column"]]]
"""Reads columns of these names a part of the rows after another, from the first row on."""
LineFinder = Callable[[Iterable[int]], dict[int, int]]


def no_lines(rows: Iterable[int]) -> dict[int, int]:  # noqa: ARG001  the signature of LineFinder
    """Find no lines: nothing is known of them."""
    return {}


class Column:
    """Column of text cells of a file, or JSON values. Readings are kept once made.

    number_format: how its numbers are written. missing: what stands for a missing cell beside the usual.
    """

    __slots__ = ("_cells", "_levels", "_numbers", "_texts", "missing", "number_format")

    def __init__(
        self,
        *,
        texts: "Texts | None" = None,
        cells: Sequence[Cell] | None = None,
        number_format: NumberFormat = PLAIN,
        missing: MissingValues | None = None,
    ) -> None:
        self._texts = texts
        self._cells = cells
        self.number_format = number_format
        self.missing = missing
        self._numbers: Numbers | None = None
        self._levels: Levels | None = None

    def __len__(self) -> int:
        if self._cells is not None:
            return len(self._cells)
        return 0 if self._texts is None else len(self._texts)

    @property
    def texts(self) -> Texts:
        """The cells as text, null where JSON has null."""
        if self._texts is None:
            self._texts = texts_of(self._cells or ())
        return self._texts

    @property
    def numbers(self) -> Numbers:
        """The column read as numbers."""
        if self._numbers is None:
            if self._cells is None:
                numbers = parse_numbers(self.texts, self.number_format)
            else:
                numbers = _float_column(self._cells) or parse_cells(self._cells, self.number_format)
            self._numbers = numbers if self.missing is None else self.missing.mask(numbers, self.cell)
        return self._numbers

    def floats(self) -> FloatArray | None:
        """Return JSON cells as floats (n,) if all are finite numbers and nothing is a missing cell by its value."""
        if self._cells is None or self.missing is not None:
            return None
        values = float_matrix([self._cells])
        return None if values is None else values[0]

    @property
    def offset(self) -> int | None:
        """The integer that its numbers are to be read as differences from, where they would be rounded; O(n)."""
        return find_offset(self.numbers.values)

    def minus(self, offset: int | None) -> FloatArray:
        """The column read as numbers, less the offset (n,): exact before it is rounded; NaN where there is none."""
        values = self.numbers.values
        if offset is None:
            return values
        if self._cells is not None:
            return differences(self._cells, values, offset, self.number_format)
        return text_differences(self.texts, values, offset, self.number_format)

    @property
    def levels(self) -> Levels:
        """The column read as text levels."""
        if self._levels is None:
            few = self._cells is not None and len(self._cells) <= _FEW
            levels = levels_of(self._cells or ()) if few else parse_levels(self.texts)
            self._levels = levels if self.missing is None else self.missing.mask_levels(levels, self.number_format)
        return self._levels

    def level_codes(self, index: Mapping[str, int]) -> IntArray:
        """Return the place of each cell's level (n,), or MISSING_LEVEL or UNSEEN_LEVEL. index: levels to places."""
        if self._cells is not None:
            cells = self._cells
            return np.array([self._place(cell, index) for cell in cells], dtype=np.int64)
        found: Any = pc.index_in(self.levels.names, value_set=pa.array(list(index), pa.string()))
        by_code = np.append(to_numpy(pc.fill_null(found, UNSEEN_LEVEL)), MISSING_LEVEL).astype(np.int64)
        for code in np.flatnonzero(by_code == UNSEEN_LEVEL).tolist():
            by_code[code] = _place_of_text(self.levels.names[code].as_py(), index)
        result: IntArray = by_code[self.levels.codes]  # code -1 is the last entry: missing
        return result

    def by_level(self, values: FloatArray) -> FloatArray:
        """Return values[code] for each cell (n,), NaN where it is missing; values: one for each of `levels.names`."""
        result: FloatArray = np.append(values, np.nan)[self.levels.codes]
        return result

    def read_as(self, missing: MissingValues | None, number_format: NumberFormat | None = None) -> "Column":
        """The same cells with other missing values, and in another format if one is given."""
        number_format = self.number_format if number_format is None else number_format
        if missing == self.missing and number_format == self.number_format:
            return self
        return Column(texts=self._texts, cells=self._cells, number_format=number_format, missing=missing)

    def take(self, rows: IntArray) -> "Column":
        """Take these rows, with the readings made so far."""
        if self._cells is not None:
            cells = self._cells
            return Column(
                cells=[cells[row] for row in rows.tolist()], number_format=self.number_format, missing=self.missing
            )
        taken = Column(texts=self.texts.take(rows), number_format=self.number_format, missing=self.missing)
        if self._numbers is not None and not len(self._numbers.invalid):
            taken._numbers = replace(
                self._numbers, values=self._numbers.values[rows], missing=self._numbers.missing[rows]
            )
        if self._levels is not None:
            taken._levels = replace(self._levels, codes=self._levels.codes[rows])
        return taken

    def cell(self, row: int) -> Cell:
        """The cell as it came."""
        if self._cells is not None:
            return self._cells[row]
        return self.texts[row].as_py()

    def _place(self, cell: Cell, index: Mapping[str, int]) -> int:
        text = cell_text(cell)
        text = None if text is None else text.strip(BLANKS)
        if not text or (self.missing is not None and self.missing.matches(cell, self.number_format)):
            return MISSING_LEVEL
        return index[text] if text in index else _place_of_text(text, index)


def _place_of_text(text: str, index: Mapping[str, int]) -> int:
    """A number that names a level in another spelling: 2 for 2.0 and 2.0 for 2, which writers do not tell apart."""
    if _WHOLE.fullmatch(text):
        other = text.removesuffix(".0") if text.endswith(".0") else f"{text}.0"
        return index.get(other, UNSEEN_LEVEL)
    return UNSEEN_LEVEL


_WHOLE = re.compile(r"-?(0|[1-9][0-9]*)(\.0)?")


def _float_column(cells: Sequence[Cell]) -> Numbers | None:
    """JSON numbers, quickly; None unless every cell is a finite number."""
    values = float_matrix([cells])
    if values is None:
        return None
    rows = len(cells)
    return Numbers(
        values=values[0], missing=np.zeros(rows, dtype=np.bool_), invalid=np.empty(0, dtype=np.int64), unusable=0
    )


def float_matrix(rows: Sequence[Sequence[Cell]]) -> FloatArray | None:
    """Rows of one length as (m, p) float64 if every cell is a finite JSON number, else None."""
    if not set(map(type, chain.from_iterable(rows))) <= {int, float}:
        return None
    numbers = cast(Iterable[Sequence[float]], rows)  # the line above has looked at every cell
    try:
        values = np.fromiter(chain.from_iterable(numbers), dtype=np.float64, count=len(rows) * len(rows[0]))
    except OverflowError:  # an integer past float64
        return None
    return values.reshape(len(rows), -1) if np.isfinite(values).all() else None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Table:
    """Columns of equal length, in the order of the upload.

    marks: the tally of the columns that hold text, by name; the numbers of the others have decimal points by their
    type. separator: of the cells of a delimited file. read_options: how the table was to be read when it was sent.
    notes: what a person should know of the reading. find_lines: the 1-based lines of the file on which data rows
    start, nothing for JSON; reads the file again. index: names of the columns that are a data frame's index.
    types: of the columns whose file says them, see `app.tables.columns.types`. parts: reads the rows part by part; None
    of a table whose columns are one part each.
    """

    names: tuple[str, ...]
    columns: Mapping[str, Column]
    rows: int
    marks: Mapping[str, MarkCounts] = field(default_factory=dict)
    separator: str | None = None
    read_options: ReadOptions = AUTODETECT
    notes: tuple[str, ...] = ()
    find_lines: LineFinder = no_lines
    index: tuple[str, ...] = ()
    types: Mapping[str, str] = field(default_factory=dict)
    parts: PartReader | None = None

    def take(self, rows: IntArray, names: Iterable[str]) -> "Table":
        """Take these rows of these columns, without the file: row numbers are then those of the new table."""
        columns = _MappedColumns(self.columns, tuple(names), lambda column, _: column.take(rows))
        return Table(names=tuple(columns), columns=columns, rows=len(rows), marks=self.marks, separator=self.separator)

    def keep(self, rows: RowSet, names: Iterable[str]) -> "Table":
        """Take these rows as `take` does, and part by part where the table has parts."""
        if rows.bits is None:
            return self
        columns = _MappedColumns(self.columns, tuple(names), lambda column, _: column.take(rows.numbers))
        kept = Table(names=tuple(columns), columns=columns, rows=rows.count, marks=self.marks, separator=self.separator)
        parts = self.parts
        return kept if parts is None else replace(kept, parts=lambda asked: _kept_parts(parts(asked), rows))

    def sample(self, rows: IntArray, names: Iterable[str]) -> "Table":
        """Take a few rows, ascending, in one reading of these columns."""
        if self.parts is None:
            return self.take(rows, names)
        asked, first = list(dict.fromkeys(names)), 0
        found: dict[str, list[Column]] = {name: [] for name in asked}
        for part in self.parts(asked):
            size = len(part[asked[0]])
            begin, end = np.searchsorted(rows, (first, first + size))
            for name in asked:
                found[name].append(part[name].take(rows[begin:end] - first))
            first += size
        columns = {name: _joined(taken) for name, taken in found.items()}
        return Table(names=tuple(asked), columns=columns, rows=len(rows), marks=self.marks, separator=self.separator)

    def read_as(
        self, missing: MissingValues | None, number_formats: Mapping[str, NumberFormat] | None = None
    ) -> "Table":
        """The same table with other missing values, and with other number formats of some columns."""
        number_formats = number_formats or {}
        parts = self.parts

        def read(column: Column, name: str) -> Column:
            return column.read_as(missing, number_formats.get(name))

        def read_parts(names: Sequence[str]) -> Iterator[Mapping[str, Column]]:
            assert parts is not None
            for part in parts(names):
                yield {name: read(column, name) for name, column in part.items()}

        columns = _MappedColumns(self.columns, self.names, read)
        return replace(self, columns=columns, parts=None if parts is None else read_parts)

    def number_formats(
        self, read_options: ReadOptions | None = None, known: Mapping[str, NumberFormat] | None = None
    ) -> dict[str, NumberFormat]:
        """Return the number format of each column of text; see `infer_format`. They go over the table's own."""
        asked = self.read_options if read_options is None else read_options.with_defaults(self.read_options)
        return infer_formats(self.marks, self.separator, decimal=asked.decimal, thousands=asked.thousands, known=known)

    def line(self, row: int) -> int | None:
        """The line on which a data row starts, if it is known."""
        return self.lines([row]).get(row)

    def lines(self, rows: Iterable[int]) -> dict[int, int]:
        """Return the lines of several rows in one reading."""
        wanted = set(rows)
        return self.find_lines(wanted) if wanted else {}


def _kept_parts(parts: Iterator[Mapping[str, Column]], rows: RowSet) -> Iterator[Mapping[str, Column]]:
    """The parts with those of their rows that are kept; none that is empty."""
    first = 0
    for part in parts:
        last = first + max(map(len, part.values()))
        kept = rows.kept(first, last)
        first = last
        if kept is None:
            yield part
        elif kept.any():
            yield {name: column.take(np.flatnonzero(kept)) for name, column in part.items()}


def _joined(columns: Sequence[Column]) -> Column:
    """Columns of text after each other, read as the first."""
    first = columns[0]
    chunks = [chunk for column in columns for chunk in column.texts.chunks]
    return Column(texts=pa.chunked_array(chunks, pa.string()), number_format=first.number_format, missing=first.missing)


class _MappedColumns(Mapping[str, Column]):
    """Columns made anew when they are asked for; the last one asked for is kept."""

    def __init__(
        self, columns: Mapping[str, Column], names: tuple[str, ...], change: Callable[[Column, str], Column]
    ) -> None:
        self._columns = columns
        self._names = dict.fromkeys(names)
        self._change = change
        self._last: tuple[str, Column] | None = None

    def __getitem__(self, name: str) -> Column:
        if name not in self._names:
            raise KeyError(name)
        if self._last is None or self._last[0] != name:
            self._last = (name, self._change(self._columns[name], name))
        return self._last[1]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)
