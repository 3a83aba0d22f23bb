"""The first sheet of an Excel workbook (.xlsx) to blocks of text columns.

The workbook is a zip archive of XML. openpyxl reads it row by row through Python's `zipfile`, which never unpacks more
of a member than its directory announces; what it announces is counted against the limit first. Formulas give the value
that Excel stored with them; nothing in the file is run.
"""

import io
import struct
import zipfile
import zlib
from collections.abc import Iterator
from datetime import date, datetime, time, timedelta
from itertools import islice
from typing import Any
from xml.etree.ElementTree import ParseError

import pyarrow as pa
from openpyxl import load_workbook
from openpyxl.utils.exceptions import InvalidFileException

from app.errors import InvalidRequestError, MalformedError, UnsupportedMediaError
from app.tables.cells import cell_text
from app.tables.incoming import Block, Incoming
from app.tables.names import are_numbers, doubt, read_names
from app.tables.source import Source

MAGIC = b"PK\x03\x04"
_ROWS = 2_000  # rows in a block
_DAMAGE = (
    *(zipfile.BadZipFile, zlib.error, struct.error, InvalidFileException, ParseError, EOFError, NotImplementedError),
    *(KeyError, ValueError, TypeError, IndexError, AttributeError, OverflowError, RuntimeError, AssertionError),
)
"""What the libraries raise for a damaged, encrypted or foreign workbook."""


def open_workbook(source: Source) -> Incoming:
    """The first sheet; its first row that is not empty names the columns.

    Raises UnsupportedMediaError for another kind of zip archive, MalformedError for a damaged workbook.
    """
    if source.compression() is not None:
        raise UnsupportedMediaError("an Excel workbook is compressed already; send it without gzip or zstd")
    rows = _filled_rows(source)
    try:
        sheets, title = next(rows)
        line, header = next(rows, (0, ()))
    except _DAMAGE as error:
        raise _damaged(error) from error
    if not header:
        raise InvalidRequestError("the first sheet of the workbook is empty: expected a row of names and rows below it")
    width = max(place for place, cell in enumerate(header, start=1) if cell is not None)
    names = read_names([cell_text(_cell(cell)) or "" for cell in header[:width]], source.limits, line=line)
    notes = [] if sheets == 1 else [f"the workbook has {sheets} sheets; only the first, {title!r}, was read"]
    if are_numbers(names.names):
        notes.append(doubt(names.names))
    return Incoming(
        names=names.names,
        index=names.index,
        blocks=_blocks(rows, width),
        header="the sheet has a row of names",
        limits=source.limits,
        notes=notes,
        lines=lambda rows: _lines(source, set(rows)),
    )


def _blocks(rows: Iterator[tuple[int, Any]], width: int) -> Iterator[Block]:
    try:
        while some := list(islice(rows, _ROWS)):
            for line, row in some:
                if any(cell is not None for cell in row[width:]):
                    raise InvalidRequestError(f"line {line:,}: there are cells beside the {width} named columns")
            yield [
                pa.array([cell_text(_cell(row[place])) if place < len(row) else None for _, row in some], pa.string())
                for place in range(width)
            ]
    except _DAMAGE as error:
        raise _damaged(error) from error


def _filled_rows(source: Source) -> Iterator[tuple[int, Any]]:
    """How many sheets there are and the title of the first; then its rows that have a cell, with their numbers."""
    with io.BytesIO(source.origin) if isinstance(source.origin, bytes) else source.origin.open("rb") as stored:
        with zipfile.ZipFile(stored) as archive:
            if "xl/workbook.xml" not in archive.namelist():
                raise UnsupportedMediaError("the file is a zip archive and no Excel workbook; send the table inside it")
            source.limits.check_bytes(sum(member.file_size for member in archive.infolist()))
        book = load_workbook(stored, read_only=True, data_only=True, keep_links=False)
        if not book.worksheets:
            raise InvalidRequestError("the workbook has no sheet of cells")
        sheet: Any = book.worksheets[0]
        sheet.reset_dimensions()
        yield len(book.sheetnames), sheet.title
        for number, row in enumerate(sheet.iter_rows(values_only=True), start=1):
            if any(cell is not None for cell in row):
                yield number, row


def _lines(source: Source, wanted: set[int]) -> dict[int, int]:
    """The sheet's rows of data rows."""
    rows = _filled_rows(source)
    next(rows)
    return {row: number for row, (number, _) in enumerate(rows, start=-1) if row in wanted}


def _cell(cell: Any) -> str | float | int | bool | None:
    """What the other readers would have found in the place of an Excel cell."""
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


def _damaged(error: Exception) -> MalformedError:
    return MalformedError(f"the Excel workbook is damaged or not of the .xlsx kind ({type(error).__name__})")
