"""Table: named columns of cells as they came, read as numbers or as text on demand.

What a column *is* (a number or a category) is guessed only when a schema is fitted. At prediction time the schema
says how to read it, so a small table is never misread.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import chain
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from app.errors import MalformedError
from app.tables.cells import (
    BLANKS,
    Cell,
    FloatArray,
    IntArray,
    Levels,
    Numbers,
    Texts,
    cell_text,
    parse_cells,
    parse_levels,
    parse_numbers,
    texts_of,
    to_numpy,
)
from app.tables.source import TextSource

NUMERIC_SHARE = 0.9
"""From this share of numbers on, the rest of a column is taken for mistakes, not for categories."""


MISSING_LEVEL = -1
UNSEEN_LEVEL = -2


class Kind(StrEnum):
    """How a feature is read. UNUSED: constant or empty in training; it has its place in a row but is not read."""

    NUMBER = "number"
    CATEGORY = "category"
    UNUSED = "unused"


class Column:
    """One column: text cells of a file, or JSON values. Readings are kept once made."""

    __slots__ = ("_cells", "_levels", "_numbers", "_texts")

    def __init__(self, *, texts: "Texts | None" = None, cells: Sequence[Cell] | None = None) -> None:
        self._texts = texts
        self._cells = cells
        self._numbers: Numbers | None = None if cells is None else _plain_numbers(cells)
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
            self._numbers = parse_numbers(self.texts) if self._cells is None else parse_cells(self._cells)
        return self._numbers

    @property
    def levels(self) -> Levels:
        """The column read as text levels."""
        if self._levels is None:
            self._levels = parse_levels(self.texts)
        return self._levels

    def places(self, levels: Sequence[str]) -> IntArray:
        """The place of each cell among `levels` (n,), or MISSING_LEVEL or UNSEEN_LEVEL."""
        index = {level: place for place, level in enumerate(levels)}
        if self._cells is not None:
            return np.array([_place(cell, index) for cell in self._cells], dtype=np.int64)
        found: Any = pc.index_in(self.levels.names, value_set=pa.array(levels, pa.string()))
        by_code = np.append(to_numpy(pc.fill_null(found, UNSEEN_LEVEL)), MISSING_LEVEL).astype(np.int64)
        result: IntArray = by_code[self.levels.codes]  # code -1 is the last entry: missing
        return result

    def take(self, rows: IntArray) -> "Column":
        """These rows, with the readings made so far."""
        if self._cells is not None:
            cells = self._cells
            return Column(cells=[cells[row] for row in rows.tolist()])
        taken = Column(texts=self.texts.take(rows))
        if self._numbers is not None and not len(self._numbers.bad):
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

    def guess(self) -> Kind:
        """NUMBER if every cell that is not missing, or at least 90% of them, is meant as a number."""
        numbers = self.numbers
        meant = numbers.finite + numbers.meant
        text = len(numbers.bad) - numbers.meant
        return Kind.NUMBER if text == 0 or meant >= NUMERIC_SHARE * (meant + text) else Kind.CATEGORY


def _place(cell: Cell, index: Mapping[str, int]) -> int:
    if isinstance(cell, str):
        text = cell.strip(BLANKS)
        return index.get(text, UNSEEN_LEVEL if text else MISSING_LEVEL)
    if cell is None:
        return MISSING_LEVEL
    for text in _spellings(cell):
        if text in index:
            return index[text]
    return UNSEEN_LEVEL


def _spellings(cell: float) -> Iterator[str]:
    """A number that names a level: as it is, then 2 for 2.0 and 2.0 for 2, which JSON writers do not tell apart."""
    text = cell_text(cell)
    yield str(text)
    if isinstance(cell, float) and cell.is_integer():
        yield str(int(cell))
    elif isinstance(cell, int) and not isinstance(cell, bool) and abs(cell) < 1 << 53:
        yield repr(float(cell))


def _plain_numbers(cells: Sequence[Cell]) -> Numbers | None:
    """JSON numbers, quickly; None unless every cell is a finite number."""
    values = plain_matrix([cells])
    if values is None:
        return None
    rows = len(cells)
    return Numbers(values=values[0], missing=np.zeros(rows, dtype=np.bool_), bad=np.empty(0, dtype=np.int64), meant=0)


def plain_matrix(rows: Sequence[Sequence[Cell]]) -> FloatArray | None:
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
    """Columns of equal length, in the order of the upload; `source` is the file, None for JSON."""

    names: tuple[str, ...]
    columns: Mapping[str, Column]
    rows: int
    source: TextSource | None = None
    delimiter: str = field(default=",")

    def take(self, rows: IntArray, names: Iterable[str]) -> "Table":
        """These rows of these columns, without the file: row numbers are then those of the new table."""
        columns = {name: self.columns[name].take(rows) for name in names}
        return Table(names=tuple(columns), columns=columns, rows=len(rows))

    def line(self, row: int) -> int | None:
        """The 1-based line of the file on which a data row starts; None for JSON. Reads the file again: O(file)."""
        return self.lines([row]).get(row)

    def lines(self, rows: Iterable[int]) -> dict[int, int]:
        """`line` for several rows in one reading."""
        wanted = set(rows)
        found: dict[int, int] = {}
        if self.source is None or not wanted:
            return found
        last = max(wanted)
        try:
            for row, record in enumerate(self.source.records(self.delimiter), start=-1):
                if row in wanted:
                    found[row] = record.line
                if row >= last:
                    break
        except MalformedError:  # a cell too long for the slow reader: lines below it stay unknown
            pass
        return found
