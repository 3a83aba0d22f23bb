"""Text columns in blocks, which every reader makes of a file; and the checker that every block passes.

The checker holds the limits on rows and cells, drops empty rows at the end, and tallies how numbers are written.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from app.errors import InvalidRequestError
from app.tables.columns.cell_errors import plural
from app.tables.columns.cells import BLANKS, BoolArray, Cell, TextChunk, cell_text, to_numpy
from app.tables.columns.number_formats import MarkCounts
from app.tables.columns.table import LineFinder, no_lines
from app.tables.read.limits import Limits

Block = Sequence[TextChunk]


@dataclass(frozen=True, slots=True, kw_only=True)
class TextBlocks:
    """A file being read. blocks: the cells of some rows at a time, a text column for each name; read once.

    header: what there is beside rows, for messages. marks: the tally of the columns that hold text; tally: it is to be
    made from the blocks. separator: of the cells of delimited text. notes: what a person should know of the reading.
    lines: finds the lines of the file for row numbers. index: names of a data frame's index.
    types: of the columns whose file says them, see `app.tables.columns.types`.
    """

    names: tuple[str, ...]
    blocks: Iterator[Block]
    header: str
    limits: Limits
    marks: dict[str, MarkCounts] = field(default_factory=dict)
    tally: bool = False
    separator: str | None = None
    notes: list[str] = field(default_factory=list)
    lines: LineFinder = no_lines
    index: tuple[str, ...] = ()
    types: dict[str, str] = field(default_factory=dict)


class BlockChecker:
    """Blocks in, blocks out. Once the last is through: `rows`, the marks, and more in the notes."""

    def __init__(self, text_blocks: TextBlocks) -> None:
        self._text_blocks = text_blocks
        self._blank: list[Block] = []
        self.rows = 0

    def blocks(self) -> Iterator[Block]:
        """The blocks without the empty rows at the end. TooLargeError for a limit, InvalidRequestError for no rows."""
        limits = self._text_blocks.limits
        read = 0
        for block in self._text_blocks.blocks:
            size = len(block[0])
            if size == 0:
                continue
            read += size
            self._check_cells(block, read - size)
            full = size - (_blank_tail(block) if len(block) > 1 else 0)  # a lone empty cell is a row to predict
            if full:
                yield from self._release()
                self._tally(block)
                self.rows += full
                limits.check_rows(self.rows)
                yield [column.slice(0, full) for column in block]
            if full < size:
                self._blank.append([column.slice(full) for column in block])
        if self.rows == 0:
            raise InvalidRequestError(f"{self._text_blocks.header} but no rows of data below it")
        if self._blank:
            dropped = sum(len(block[0]) for block in self._blank)
            self._text_blocks.notes.append(f"{plural(dropped, 'empty row')} at the end of the file dropped")

    def _release(self) -> Iterator[Block]:
        """Yield the empty rows that turn out not to be the last."""
        for block in self._blank:
            self.rows += len(block[0])
            yield block
        self._blank = []

    def _check_cells(self, block: Block, start: int) -> None:
        limit = self._text_blocks.limits.cell
        column: Any  # the stubs know of no single chunks
        for name, column in zip(self._text_blocks.names, block, strict=True):
            longest = pc.max(pc.binary_length(column)).as_py()
            if longest is None or longest <= limit:
                continue
            lengths: Any = to_numpy(pc.fill_null(pc.utf8_length(column), 0))
            long = np.flatnonzero(lengths > limit)
            if len(long):
                row = start + int(long[0])
                line = self._text_blocks.lines([row]).get(row)
                place = f"row {row:,}" if line is None else f"line {line:,}"
                raise self._text_blocks.limits.cell_is_too_long(f"{place}, column {name!r}", int(lengths[long[0]]))

    def _tally(self, block: Block) -> None:
        if self._text_blocks.tally:
            for name, column in zip(self._text_blocks.names, block, strict=True):
                if name in self._text_blocks.marks:
                    self._text_blocks.marks[name].add(column)


def to_text_blocks(
    blocks: Iterable[Sequence[Sequence[Cell]]], names: Sequence[str], marks: dict[str, MarkCounts]
) -> Iterator[Block]:
    """Blocks of columns of typed cells as text; the columns that hold text are tallied in `marks`."""
    tallies = [MarkCounts() for _ in names]
    for block in blocks:
        columns = zip(names, tallies, block, strict=True)
        marks.update({name: tally for name, tally, cells in columns if tally.add_cells(cells)})
        yield [pa.array(map(cell_text, cells), pa.string()) for cells in block]


def _blank_tail(block: Block) -> int:
    """Return how many rows at the end have only blank cells."""
    size = len(block[0])
    for column in block:
        if not _is_blank(column[size - 1].as_py()):
            return 0
    filled: BoolArray = np.zeros(size, dtype=np.bool_)
    for column in block:
        filled |= _filled(column)
    last = np.flatnonzero(filled)
    return size - (int(last[-1]) + 1 if len(last) else 0)


def _filled(column: Any) -> BoolArray:
    """Return which cells are not blank."""
    there: Any = pc.not_equal(pc.ascii_trim_whitespace(column), pa.scalar(""))
    flags: BoolArray = to_numpy(pc.fill_null(there, False)).astype(np.bool_)
    return flags


def _is_blank(cell: str | None) -> bool:
    return cell is None or not cell.strip(BLANKS)
