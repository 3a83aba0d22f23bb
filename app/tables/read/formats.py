"""Format of a file, by its first bytes and never by its name; and any of them to a Table."""

import os
import re
import zipfile
from collections.abc import Collection
from pathlib import Path

import pyarrow as pa

from app.errors import Fault, InvalidRequestError, UnsupportedMediaError
from app.tables.columns.number_formats import PLAIN, infer_formats
from app.tables.columns.table import Column, Table
from app.tables.read.arrow_files import open_arrow, open_parquet
from app.tables.read.delimited import open_delimited
from app.tables.read.json_tables import open_lines
from app.tables.read.limits import Limits
from app.tables.read.names import clean_name
from app.tables.read.source import Source
from app.tables.read.text_blocks import BlockChecker, TextBlocks
from app.tables.read.workbook import MAGIC as WORKBOOK
from app.tables.read.workbook import open_workbook

READ = "CSV, JSON Lines, Parquet, Arrow or Excel (.xlsx)"
_PARQUET = (b"PAR1",)
_ARROW = (b"ARROW1", b"\xff\xff\xff\xff")
_SMALL_ARCHIVE = 1 << 16  # bytes of a zip archive whose directory is read at once
_JSON = re.compile(rb"\s*\{\s*([\"}]|$)")  # a CSV header may begin with a bracket too
_NOT_READ = {
    b"\xd0\xcf\x11\xe0": "an old Excel workbook (.xls)",
    b"%PDF": "PDF",
    b"BZh": "bzip2",
    b"\xfd7zXZ": "xz",
    b"Rar!": "a RAR archive",
    b"7z\xbc\xaf": "a 7z archive",
    b"\x89PNG": "a picture",
    b"\x89HDF": "HDF5",
    b"SQLite format 3": "an SQLite database",
}


def open_file(
    source: Source,
    *,
    known: Collection[str] = (),
    least_columns: int = 2,
    sheet: str | int | None = None,
    sheet_wanted: bool = True,
) -> TextBlocks:
    """The reader for the file; see the readers for what they raise.

    known: names of columns that a header would have. least_columns: 1 where no target is needed. sheet: of a workbook;
    sheet_wanted: InvalidRequestError for another sort of file, and for a workbook of one sheet of another name.
    """
    head = source.head()
    if sheet is not None and sheet_wanted and not head.startswith(WORKBOOK):
        message = "the table is no Excel workbook, which alone has sheets: leave the field out"
        raise InvalidRequestError(f"sheet: {message}", [Fault(message=message)])
    if head.startswith(_PARQUET):
        return open_parquet(source)
    if head.startswith(_ARROW):
        return open_arrow(source)
    if head.startswith(WORKBOOK):
        return open_workbook(source, known=known, sheet=sheet, fallback=not sheet_wanted)
    for magic, name in _NOT_READ.items():
        if head.startswith(magic):
            raise UnsupportedMediaError(f"the file is {name}; expected {READ}, plain or in gzip or zstd")
    if _JSON.match(head.removeprefix(b"\xef\xbb\xbf")):
        return open_lines(source)
    return open_delimited(source, known={clean_name(name) for name in known}, least_columns=least_columns)


def is_binary(source: Source) -> bool:
    """Return whether the file is no text."""
    return source.head().startswith((*_PARQUET, *_ARROW, WORKBOOK))


def is_truncated(source: Source) -> bool:
    """Return whether a Parquet file or a zip archive lacks its end, or the archive what makes it a workbook: no reader
    needs to be started for it."""
    path = source.origin
    if isinstance(path, bytes) or source.compression() is not None:
        return False
    head = source.head()
    if head.startswith(_PARQUET):
        with path.open("rb") as file:
            file.seek(-min(len(_PARQUET[0]), path.stat().st_size), os.SEEK_END)
            return not file.read().startswith(_PARQUET)
    if head.startswith(WORKBOOK) and path.stat().st_size <= _SMALL_ARCHIVE:
        try:
            with zipfile.ZipFile(path) as archive:
                return "[Content_Types].xml" not in archive.namelist()
        except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError):
            return True
    return False


def read_table(
    origin: Path | bytes,
    *,
    limits: Limits | None = None,
    known: Collection[str] = (),
    least_columns: int = 2,
    sheet: str | int | None = None,
    sheet_wanted: bool = True,
) -> Table:
    """A file of any format as a table in memory, as text; the options are those of `open_file`. O(file)."""
    source = Source(origin=origin, limits=limits or Limits())
    return to_table(open_file(source, known=known, least_columns=least_columns, sheet=sheet, sheet_wanted=sheet_wanted))


def to_table(text_blocks: TextBlocks) -> Table:
    """Read all blocks of a file into memory."""
    checker = BlockChecker(text_blocks)
    blocks = list(checker.blocks())
    number_formats = infer_formats(text_blocks.marks, text_blocks.separator)
    columns = {
        name: Column(
            texts=pa.chunked_array([block[place] for block in blocks], pa.string()),
            number_format=number_formats.get(name, PLAIN),
        )
        for place, name in enumerate(text_blocks.names)
    }
    return Table(
        names=text_blocks.names,
        columns=columns,
        rows=checker.rows,
        marks=text_blocks.marks,
        separator=text_blocks.separator,
        notes=tuple(text_blocks.notes),
        find_lines=text_blocks.lines,
        index=text_blocks.index,
        types=text_blocks.types,
    )
