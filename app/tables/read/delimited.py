"""CSV to blocks of text columns. Arrow splits the file; the `csv` module says what is wrong where."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv

from app.errors import MAX_FAULTS, Fault, InvalidRequestError, MalformedError
from app.tables.columns.cell_errors import plural
from app.tables.columns.cells import BLANKS
from app.tables.columns.number_formats import MarkCounts
from app.tables.read.csv_records import find_lines, records_of
from app.tables.read.dialect import Dialect, find_dialect
from app.tables.read.edited_text import EditedText
from app.tables.read.names import ColumnNames, clean_name, numeric_names_note, read_names
from app.tables.read.source import UTF8, WESTERN, NotUtf8Error, Source
from app.tables.read.text_blocks import Block, TextBlocks

_BLOCK = 4 << 20  # bytes that Arrow splits at a time; also the longest record
_ENOUGH_RAGGED = 1_000  # ragged lines after which counting stops


def open_delimited(source: Source, *, known: Collection[str] = (), least_columns: int = 2) -> TextBlocks:
    """A CSV file (comma, tab, semicolon or pipe), most often with a header line.

    Names are trimmed; cells stay text. Lines may end in LF, CRLF or CR; blank lines are skipped; a quoted cell may
    hold delimiters and line ends. known: names that a header would have. least_columns: 1 where no target is needed; an
    empty cell of a single column must then be quoted, or its line counts as blank.

    Raises MalformedError (not CSV text) or InvalidRequestError (header, ragged rows), each with the place, at once or
    while the blocks are read.
    """
    source = _with_encoding(source)
    dialect = find_dialect(source, known)
    source = dialect.source
    notes = dialect.notes
    if source.encoding == WESTERN:
        notes.append(f"the file is not {UTF8}: read as {WESTERN} (Latin-1); if letters are wrong, save it as {UTF8}")
    width = len(dialect.first.cells)
    names, kept = _names(dialect, source, notes)
    if len(names.names) < least_columns:
        raise InvalidRequestError(
            "the header names only one column; expected at least two (one feature and the target), "
            "separated by comma, tab, semicolon or pipe"
            + ("; if it is a title, a row of names has to stand below it" if dialect.wider else "")
        )
    return TextBlocks(
        names=names.names,
        index=names.index,
        blocks=_blocks(source, dialect, width, kept, notes),
        header="the file has a header line",
        limits=source.limits,
        marks={name: MarkCounts() for name in names.names},
        tally=True,
        separator=dialect.delimiter if len(names.names) > 1 else ",",  # of one column nobody can tell
        notes=notes,
        lines=partial(find_lines, source, dialect.delimiter, dialect.start),
    )


def _with_encoding(source: Source) -> Source:
    """The source with the encoding that its first bad byte suggests, and whether lines begin with `#`; O(file)."""
    try:
        return replace(source, hashes=_has_hashes(source))
    except NotUtf8Error as error:
        if not error.western:
            raise MalformedError(error.message) from error
        western = replace(source, encoding=WESTERN)
        try:
            return replace(western, hashes=_has_hashes(western))
        except NotUtf8Error:
            raise MalformedError(error.message) from error


def _has_hashes(source: Source) -> bool:
    """Read the text to its end; whether a line begins with `#`."""
    found, last = False, b"\n"
    with source.text() as stream:
        while data := stream.read(1 << 20):
            if not found and b"#" in data:
                found = (last in b"\r\n" and data[:1] == b"#") or b"\n#" in data or b"\r#" in data
            last = data[-1:]
    return found


def _names(dialect: Dialect, source: Source, notes: list[str]) -> tuple[ColumnNames, int]:
    """The names, without those of empty columns at the end; and how many of the file's columns they are."""
    cells = dialect.first.cells
    if not dialect.header:
        notes.append(f"the file has no header line: its columns were named column_1 to column_{len(cells)}")
        return read_names([f"column_{place}" for place in range(1, len(cells) + 1)], source.limits), len(cells)
    kept = len(cells)
    while kept > 1 and not clean_name(cells[kept - 1]):
        kept -= 1
    if kept < len(cells) and _holds_cells(source, dialect, kept):
        kept = len(cells)  # refused below, by position
    if kept < len(cells):
        notes.append(f"{plural(len(cells) - kept, 'empty column')} without a name at the end of the file dropped")
    names = read_names(cells[:kept], source.limits, line=dialect.first.line)
    if dialect.doubtful:
        notes.append(numeric_names_note(names.names))
    return names, kept


def _holds_cells(source: Source, dialect: Dialect, kept: int) -> bool:
    """Return whether a column without a name has a cell in the first rows; further down `_blocks` looks."""
    for count, record in enumerate(records_of(source, dialect.delimiter)):
        if count and any(cell.strip(BLANKS) for cell in record.cells[kept:]):
            return True
        if count == 1_000:
            break
    return False


def _blocks(source: Source, dialect: Dialect, width: int, kept: int, notes: list[str]) -> Iterator[Block]:
    """The cells of all data rows."""
    header = dialect.first
    names = [str(place) for place in range(width)]
    rows = 0
    last = ""
    try:
        with source.text() as stream, _open_csv(stream, dialect.delimiter, names) as reader:
            for batch in reader:
                block = batch.columns
                if not batch.num_rows:
                    continue
                last = block[-1][-1].as_py()
                if rows == 0:  # Arrow reads the header as a row, which shows that both readers split alike
                    if [cell[0].as_py() for cell in block] != header.cells:
                        raise MalformedError(f"line {header.line}: the quotation marks in the header are not balanced")
                    if dialect.header:
                        block = batch.slice(1).columns
                rows += batch.num_rows
                _refuse_nameless(block, kept, header.line)
                yield block[:kept]
            notes += _comment_notes(stream)
    except pa.ArrowInvalid as error:
        _refuse_records(source, dialect, width, error)
    if any(end in last for end in "\r\n"):  # perhaps an unclosed quotation mark has swallowed the rest of the file
        _refuse_records(source, dialect, width, None)


def _comment_notes(stream: BinaryIO) -> list[str]:
    text = getattr(stream, "raw", None)
    if not isinstance(text, EditedText) or not text.skipped:
        return []
    some, first = plural(len(text.skipped), "comment line"), text.skipped[0]
    return [f"{some} skipped, beginning with '#' (the first is line {first:,})"]


def _refuse_nameless(block: Block, kept: int, line: int) -> None:
    for place, column in enumerate(block[kept:], start=kept + 1):
        if pc.any(pc.not_equal(pc.ascii_trim_whitespace(column), pa.scalar(""))).as_py():
            message = f"column {place} has an empty name"
            raise InvalidRequestError(
                f"every column needs a name of its own; {message}, and cells below it",
                [Fault(line=line, message=message)],
            )


def _open_csv(stream: BinaryIO, delimiter: str, names: Sequence[str]) -> pa_csv.CSVStreamingReader:
    return pa_csv.open_csv(
        stream,
        read_options=pa_csv.ReadOptions(column_names=list(names), block_size=_BLOCK),
        parse_options=pa_csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
        convert_options=pa_csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=False
        ),
    )


def _refuse_records(source: Source, dialect: Dialect, width: int, error: pa.ArrowInvalid | None) -> None:
    """Refuse the records that are wrong, with their places. Return only if none is and there was no `error`."""
    faults: list[Fault] = []
    total = 0
    for row, record in enumerate(records_of(source, dialect.delimiter), start=dialect.start):
        if not record.closed:
            raise MalformedError(
                f"line {record.line:,}: a quotation mark is never closed",
                [Fault(line=record.line, message="a quotation mark is never closed")],
            ) from error
        if len(record.cells) == width:
            continue
        total += 1
        if total <= MAX_FAULTS:
            message = f"expected {width} cells, got {len(record.cells)}"
            faults.append(Fault(row=row, line=record.line, message=message))
        if total == _ENOUGH_RAGGED:
            break
    if faults:
        many = "" if total == 1 else f" ({'at least ' if total == _ENOUGH_RAGGED else ''}{total:,} such lines)"
        raise InvalidRequestError(f"line {faults[0].line:,}: {faults[0].message}{many}", faults, total) from error
    if error is not None:
        raise MalformedError(f"the file cannot be read as CSV: {error}") from error
