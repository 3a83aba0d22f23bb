"""Text to records with the `csv` module: the slow, exact reader behind the dialect and the error messages."""

import csv
import io
import itertools
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from app.errors import MalformedError
from app.tables.read.source import Source


class Record(NamedTuple):
    """Record of a file: the 1-based line it starts on, its cells, and whether its last quotation mark is closed."""

    line: int
    cells: list[str]
    closed: bool = True


def records(lines: Iterator[str], delimiter: str) -> Iterator[Record]:
    """Records of `lines`, blank lines skipped; a quoted cell may span lines.

    Raises MalformedError where a cell is longer than the `csv` module takes.
    """
    # A last line of our own tells an open quotation mark: only then does it end up inside a record.
    end = "\0end of file"
    reader = csv.reader(itertools.chain(lines, [end]), delimiter=delimiter)
    line = 1
    try:
        for cells in reader:
            if cells == [end]:
                return
            if cells:
                yield Record(line, cells, not cells[-1].endswith(end))
            line = reader.line_num + 1
    except csv.Error as error:
        raise MalformedError(
            f"line {line}: a cell is longer than {csv.field_size_limit():,} characters; is a quotation mark not closed?"
        ) from error


def records_of(source: Source, delimiter: str) -> Iterator[Record]:
    """Yield every record of a file that is not a blank line."""
    with io.TextIOWrapper(source.text(), encoding="utf-8", newline="") as lines:
        yield from records(lines, delimiter)


def find_lines(source: Source, delimiter: str, start: int, rows: Iterable[int]) -> dict[int, int]:
    """The 1-based lines on which data rows start; start: the row number of the first record. O(file)."""
    wanted = set(rows)
    found: dict[int, int] = {}
    if not wanted:
        return found
    last = max(wanted)
    try:
        for row, record in enumerate(records_of(source, delimiter), start=start):
            if row in wanted:
                found[row] = record.line
            if row >= last:
                break
    except MalformedError:  # a cell too long for the slow reader: lines below it stay unknown
        pass
    return found
