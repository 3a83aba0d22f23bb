"""How a CSV file is written: what separates its cells, and whether its first line names the columns."""

import io
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import pairwise

from app.errors import InvalidRequestError, MalformedError
from app.tables.cells import BLANKS, CellKind, parse_number
from app.tables.dates import DateOrder, parse_date
from app.tables.names import are_numbers, clean
from app.tables.source import Source
from app.tables.splitting import Record, records

DELIMITERS = (",", "\t", ";", "|")
_HEAD = 1 << 20  # characters within which the header must end
_SAMPLE = 100  # records that are looked at
_AGREE = 0.9  # share of the records that must be as wide as the first
_YEARS = range(1900, 2101)
# An unquoted quotation mark after the bracket tells JSON from a column named "[m]".
_OTHER_TEXT = re.compile(r"\s*([\[{]\s*[\[{]?\s*\"|<!doctype|<html|<\?xml)", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """delimiter; first: the first record; header: whether it names the columns; doubtful: though it is all numbers."""

    delimiter: str
    first: Record
    header: bool
    doubtful: bool = False

    @property
    def start(self) -> int:
        """The row number of the first record: data rows are numbered from 0."""
        return -1 if self.header else 0


def find_dialect(source: Source, known: Collection[str] = ()) -> Dialect:
    """Looks at the head of the file. known: names of columns; a first line with one of them is a header.

    Raises InvalidRequestError for a blank file, MalformedError for what is no CSV.
    """
    with io.TextIOWrapper(source.text(), encoding="utf-8", newline="") as stream:
        head = stream.read(_HEAD)
    if not head.strip(BLANKS):
        raise InvalidRequestError("the file holds only blank lines: expected a header line and rows of data below it")
    if _OTHER_TEXT.match(head):
        raise MalformedError(
            "the file looks like JSON or HTML, not like CSV; send JSON as application/json, or as JSON Lines: "
            "one object on each line"
        )
    if len(head) == _HEAD and not any(end in head.lstrip(BLANKS) for end in "\r\n"):
        raise MalformedError(f"the first line is longer than {_HEAD:,} characters: this is not a table with a header")
    _, delimiter, sample = max(
        (_rank(sample := _sample(head, delimiter)), delimiter, sample) for delimiter in reversed(DELIMITERS)
    )
    first = sample[0]
    if not first.closed:
        raise MalformedError(f"line {first.line}: a quotation mark in the header is never closed")
    header = len(sample) == 1 or not _is_data(first.cells, sample[1:], known)
    doubtful = header and are_numbers(first.cells) and set(map(clean, first.cells)).isdisjoint(known)
    return Dialect(delimiter=delimiter, first=first, header=header, doubtful=doubtful)


def _sample(head: str, delimiter: str) -> list[Record]:
    sample: list[Record] = []
    for record in records(io.StringIO(head, newline=""), delimiter):
        sample.append(record)
        if len(sample) == _SAMPLE:
            return sample
    if len(head) == _HEAD and len(sample) > 1:
        sample.pop()  # cut in the middle
    return sample


def _rank(sample: Sequence[Record]) -> tuple[bool, int, float]:
    """Most columns among those that most records agree on."""
    width = len(sample[0].cells)
    agree = sum(len(record.cells) == width for record in sample[1:]) / max(1, len(sample) - 1)
    return width > 1 and agree >= _AGREE, width, agree


def _is_data(first: Sequence[str], below: Sequence[Record], known: Collection[str]) -> bool:
    """Whether the first record is a row of data: where the cells below are numbers or dates, it has one too."""
    cells = [cell.strip(BLANKS) for cell in first]
    if not set(cells).isdisjoint(known):
        return False
    columns = [
        place for place in range(len(cells)) if _is_typed([r.cells[place] for r in below if place < len(r.cells)])
    ]
    typed = [cells[place] for place in columns]
    if not any(_kind(cell) for cell in typed) or any(_kind(cell) is False for cell in typed):
        return False
    if typed[0] == "":  # the index of a data frame has no name
        columns, typed = columns[1:], typed[1:]
    return not _number_columns(typed, [[r.cells[p].strip(BLANKS) for p in columns if p < len(r.cells)] for r in below])


def _is_typed(cells: Sequence[str]) -> bool:
    kinds = [_kind(cell.strip(BLANKS)) for cell in cells]
    known = [kind for kind in kinds if kind is not None]
    return bool(known) and sum(known) >= _AGREE * len(known)


def _kind(cell: str) -> bool | None:
    """Whether a cell is a number or a date; None if it is missing."""
    kind, _ = parse_number(cell)
    if kind is CellKind.MISSING:
        return None
    return kind is not CellKind.TEXT or any(parse_date(cell, order) is not None for order in DateOrder)


def _number_columns(cells: Sequence[str], below: Sequence[Sequence[str]]) -> bool:
    """Whether they name the columns although they are numbers: years in a row, or 0, 1, 2, .. or 1, 2, 3, ..; and
    most of the same cells below are not of the same sort.
    """
    if _are_years(cells):
        alike = sum(map(_are_years, below))
    elif _counts_up(cells) and len(cells) >= 3 and int(cells[0]) in (0, 1):
        alike = sum(map(_counts_up, below))
    else:
        return False
    return 2 * alike < len(below)


def _are_years(cells: Sequence[str]) -> bool:
    return _counts_up(cells) and int(cells[0]) in _YEARS


def _counts_up(cells: Sequence[str]) -> bool:
    """Whether they are two integers or more, each one above the one before."""
    if len(cells) < 2 or not all(cell.isascii() and cell.isdigit() for cell in cells):
        return False
    numbers = [int(cell) for cell in cells]
    return all(after - before == 1 for before, after in pairwise(numbers))
