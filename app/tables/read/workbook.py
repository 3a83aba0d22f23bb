"""A sheet of an Excel workbook (.xlsx) to blocks of text columns.

The workbook is a zip archive of XML. openpyxl reads it row by row through Python's `zipfile`, which never unpacks more
of a member than its directory announces; what it announces is counted against the limit first. Formulas give the value
that Excel stored with them; nothing in the file is run.
"""

import errno
import io
import re
import struct
import zipfile
import zlib
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from datetime import date, datetime, time, timedelta
from itertools import chain, islice
from typing import IO, Any
from xml.etree.ElementTree import ParseError, iterparse

from app.errors import Fault, InvalidRequestError, MalformedError, UnsupportedMediaError
from app.tables.columns.cell_errors import list_names
from app.tables.columns.cells import Cell, cell_text
from app.tables.columns.number_formats import MarkCounts
from app.tables.read.csv_records import Record
from app.tables.read.names import are_numbers, numeric_names_note, read_names
from app.tables.read.preamble import find_preamble
from app.tables.read.source import Source
from app.tables.read.text_blocks import TextBlocks, to_text_blocks

MAGIC = b"PK\x03\x04"
Sheet = str | int | None
_SAMPLE = 100  # rows that are looked at for titles and units
_ROWS = 2_000  # rows in a block
_DAMAGE = (
    *(zipfile.BadZipFile, zlib.error, struct.error, ParseError, EOFError, NotImplementedError),
    *(KeyError, ValueError, TypeError, IndexError, AttributeError, OverflowError, RuntimeError, AssertionError),
)
"""Errors of the libraries for a damaged, encrypted or foreign workbook, beside openpyxl's own."""


def open_workbook(
    source: Source, *, known: Collection[str] = (), sheet: Sheet = None, fallback: bool = False
) -> TextBlocks:
    """A sheet; its first row that is not empty names the columns, but for titles above it and units below it.

    known: names of columns that a row of names would have. sheet: its name, or its number from 1; None: the first.
    fallback: a workbook that has but one sheet need not have that one.

    Raises UnsupportedMediaError for another kind of zip archive, MalformedError for a damaged workbook,
    InvalidRequestError for a sheet that is not there and for formulas that nothing has computed.
    """
    if source.compression() is not None:
        raise UnsupportedMediaError("an Excel workbook is compressed already; send it without gzip or zstd")
    filled = _filled_rows(source, sheet, fallback)
    with _refuse_damage():
        titles, title = next(filled)
        head = list(islice(filled, _SAMPLE))
    which = "the first sheet of the workbook" if title == titles[0] else f"the sheet {title!r}"
    if not head:
        raise InvalidRequestError(f"{which} is empty: expected a row of names and rows below it")
    preamble = find_preamble([_record(line, row) for line, row in head], known)
    rows = chain((row for place, row in enumerate(head) if place not in preamble.skipped), filled)
    line, header = next(rows)
    width = max(place for place, cell in enumerate(header, start=1) if cell is not None)
    names = read_names([cell_text(_cell(cell)) or "" for cell in header[:width]], source.limits, line=line)
    notes = [] if len(titles) == 1 else [_sheet_note(title, titles, sheet)]
    notes += preamble.notes
    if are_numbers(names.names):
        notes.append(numeric_names_note(names.names))
    marks: dict[str, MarkCounts] = {}
    skipped = {head[place][0] for place in preamble.skipped}
    return TextBlocks(
        names=names.names,
        index=names.index,
        blocks=to_text_blocks(_blocks(rows, width), names.names, marks),
        header="the sheet has a row of names",
        limits=source.limits,
        marks=marks,
        notes=notes,
        lines=lambda rows: _lines(source, sheet, fallback, skipped, set(rows)),
    )


def _sheet_note(title: str, titles: Sequence[str], asked: Sheet) -> str:
    others = list_names([other for other in titles if other != title])
    hint = "" if asked is not None else '; say "sheet" in the spec for another'
    return f"the workbook has {len(titles)} sheets: {title!r} was read, not {others}{hint}"


def _record(line: int, row: Sequence[Any]) -> Record:
    """A row as a file of text would have it, without empty cells at its end."""
    cells = [cell_text(_cell(cell)) or "" for cell in row]
    while cells and not cells[-1]:
        cells.pop()
    return Record(line, cells or [""])


def _blocks(rows: Iterator[tuple[int, Any]], width: int) -> Iterator[list[list[Cell]]]:
    with _refuse_damage():
        while some := list(islice(rows, _ROWS)):
            for line, row in some:
                if any(cell is not None for cell in row[width:]):
                    raise InvalidRequestError(f"line {line:,}: there are cells beside the {width} named columns")
            yield [[_cell(row[place]) if place < len(row) else None for _, row in some] for place in range(width)]


def _filled_rows(source: Source, sheet: Sheet, fallback: bool) -> Iterator[tuple[Any, Any]]:
    """The titles of all sheets and that of the one to read; then its rows that have a cell, with their numbers."""
    from openpyxl import load_workbook  # noqa: PLC0415  slow to import, and most processes read no workbook

    with io.BytesIO(source.origin) if isinstance(source.origin, bytes) else source.origin.open("rb") as stored:
        with zipfile.ZipFile(stored) as archive:
            if "xl/workbook.xml" not in archive.namelist():
                raise UnsupportedMediaError("the file is a zip archive and no Excel workbook; send the table inside it")
            source.limits.check_bytes(sum(member.file_size for member in archive.infolist()))
        book = load_workbook(stored, read_only=True, data_only=True, keep_links=False)
        if not book.worksheets:
            raise InvalidRequestError("the workbook has no sheet of cells")
        titles = [one.title for one in book.worksheets]
        found: Any = book.worksheets[_find_sheet(titles, sheet, fallback)]
        with found._get_source() as cells:  # the library keeps the place of a sheet's XML to itself
            _refuse_formulas(cells, found.title)
        found.reset_dimensions()
        yield titles, found.title
        for number, row in enumerate(found.iter_rows(values_only=True), start=1):
            if any(cell is not None for cell in row):
                yield number, row


def _find_sheet(titles: Sequence[str], sheet: Sheet, fallback: bool) -> int:
    """The place of the sheet that is asked for; a name goes before a number."""
    if sheet is None:
        return 0
    names = [title.strip() for title in titles]
    asked = str(sheet).strip()
    if asked in names and not isinstance(sheet, int):
        return names.index(asked)
    if asked.isascii() and asked.isdigit() and 1 <= int(asked) <= len(titles):
        return int(asked) - 1
    if asked in names:
        return names.index(asked)
    if fallback and len(titles) == 1:
        return 0
    message = f"the workbook has no sheet {sheet!r}; it has {list_names(titles)}"
    raise InvalidRequestError(f"sheet: {message}", [Fault(message=message)])


def _refuse_formulas(cells: IO[bytes], title: str) -> None:
    """InvalidRequestError naming the first cell with a formula whose value nobody has stored; O(sheet) where there are
    formulas. Programs that write workbooks leave values to those that open them.
    """
    last = b""
    while piece := cells.read(1 << 20):
        if b"<f" in last + piece or b":f" in last + piece:
            break
        last = piece[-1:]
    else:
        return
    cells.seek(0)
    for _, element in iterparse(cells):
        tag = element.tag.rpartition("}")[2]
        if tag == "c":
            inside = {child.tag.rpartition("}")[2]: child.text for child in element}
            if "f" in inside and not inside.get("v") and element.get("t") != "str":  # a text may be empty
                place = element.get("r", "")
                message = f"the cell {place} of the sheet {title!r} holds a formula without a stored value"
                line = re.sub("[^0-9]", "", place)
                raise InvalidRequestError(
                    f"{message}: open the workbook in Excel or LibreOffice, save it, and send it again",
                    [Fault(message=message, line=int(line) if line else None)],
                )
        if tag == "row":
            element.clear()


def _lines(source: Source, sheet: Sheet, fallback: bool, skipped: set[int], wanted: set[int]) -> dict[int, int]:
    """The sheet's rows of data rows."""
    rows = _filled_rows(source, sheet, fallback)
    next(rows)
    numbers = (number for number, _ in rows if number not in skipped)
    return {row: number for row, number in enumerate(numbers, start=-1) if row in wanted}


def _cell(cell: Any) -> str | float | int | bool | None:
    """Return what the other readers would have found in the place of an Excel cell."""
    match cell:
        case datetime():
            return cell.isoformat(sep="T", timespec="seconds") if cell.time() != time(0) else cell.date().isoformat()
        case date() | time():
            return cell.isoformat()
        case timedelta():
            return cell.total_seconds() / 86_400.0  # as Excel counts
        case None | bool() | int() | float() | str():
            return cell
        case _:
            return str(cell)


@contextmanager
def _refuse_damage() -> Iterator[None]:
    """MalformedError for what the libraries say of a damaged file; an error of the server's disk stays one."""
    from openpyxl.utils.exceptions import InvalidFileException  # noqa: PLC0415  as above

    try:
        yield
    except (*_DAMAGE, InvalidFileException, OSError) as error:
        if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):  # EINVAL: a place before the file
            raise
        cut = isinstance(error, zipfile.BadZipFile)
        why = "it is cut short, or no zip archive" if cut else type(error).__name__
        message = f"the Excel workbook is damaged or not of the .xlsx kind ({why})"
        raise MalformedError(message) from error
