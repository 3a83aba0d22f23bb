"""Bytes or JSON to a Table. Arrow splits the file; the `csv` module is asked again only to say what is wrong where."""

import io
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

import pyarrow as pa
import pyarrow.csv as pa_csv

from app.errors import MOST_FAULTS, Fault, InvalidRequestError, MalformedError, TooLargeError
from app.tables.cells import BLANKS, Cell, TextChunk
from app.tables.problems import json_type, plural
from app.tables.source import Limits, Record, TextSource, records
from app.tables.table import Column, Table

DELIMITERS = (",", "\t", ";")
_HEAD = 1 << 20  # characters within which the header must end
_BLOCK = 4 << 20  # bytes that Arrow splits at a time; also the longest record
_NAME = 256  # characters of a column name
_ENOUGH_RAGGED = 1_000  # ragged lines after which counting stops
# An unquoted quotation mark after the bracket tells JSON from a column named "[m]".
_OTHER_TEXT = re.compile(r"\s*([\[{]\s*[\[{]?\s*\"|<!doctype|<html|<\?xml)", re.IGNORECASE)
_CELL_TYPES = {str, int, float, bool, type(None)}


def read_csv(source: Path | bytes, *, limits: Limits | None = None, least_columns: int = 2) -> Table:
    """A CSV file (comma, tab or semicolon; UTF-8; plain or gzip) with a header line.

    Names are trimmed; cells stay text. Lines may end in LF, CRLF or CR; blank lines are skipped; a quoted cell may
    hold delimiters and line ends. least_columns: 1 where no target is needed; an empty cell of a single column must
    then be quoted, or its line counts as blank.

    Raises MalformedError, UnsupportedMediaError (not CSV text), TooLargeError (a limit) or InvalidRequestError (header,
    ragged rows, no rows), each with the place. O(file); holds the text once.
    """
    text = TextSource(origin=source, limits=limits or Limits())
    delimiter, header = _read_header(text, least_columns)
    names = _check_names([name.strip(BLANKS) for name in header.cells], text.limits, line=header.line)
    chunks = _split(text, delimiter, header)
    rows = sum(len(chunk[0]) for chunk in chunks)
    if rows == 0:
        raise InvalidRequestError("the file has a header line but no rows of data below it")
    columns = {
        name: Column(texts=pa.chunked_array([chunk[j] for chunk in chunks], pa.string()))
        for j, name in enumerate(names)
    }
    return Table(names=names, columns=columns, rows=rows, source=text, delimiter=delimiter)


def from_columns(columns: Mapping[str, Sequence[Any]], *, limits: Limits | None = None) -> Table:
    """JSON columns: name to a list of numbers, texts, booleans or nulls, all of one length. O(cells)."""
    limits = limits or Limits()
    names = _check_names([name.strip(BLANKS) for name in columns], limits)
    made = dict(zip(names, columns.values(), strict=True))
    rows = common_length({name: cells_of(name, cells) for name, cells in made.items()})
    if rows == 0:
        raise InvalidRequestError("the columns are empty: expected at least one row")
    _check_rows(rows, limits)
    return Table(names=names, columns={name: Column(cells=cells) for name, cells in made.items()}, rows=rows)


def from_rows(rows: Sequence[Mapping[str, Any]], *, limits: Limits | None = None) -> Table:
    """JSON rows: objects by column name; columns in order of first appearance, a name left out is a missing cell."""
    if not rows:
        raise InvalidRequestError("rows is empty: expected at least one row")
    names: dict[str, None] = {}
    for row, cells in enumerate(rows):
        if not isinstance(cells, Mapping):
            raise InvalidRequestError(
                f"row {row}: expected an object of cells by column name, got {json_type(cells)}",
                [Fault(row=row, message=f"expected an object, got {json_type(cells)}")],
            )
        if cells.keys() != names.keys():
            names.update(dict.fromkeys(cells))
    return from_columns({name: [cells.get(name) for cells in rows] for name in names}, limits=limits)


def cells_of(name: str, cells: Any) -> Sequence[Cell]:
    """A JSON column, checked: a list of numbers, valid texts, booleans and nulls."""
    if not isinstance(cells, Sequence) or isinstance(cells, str):
        message = f"expected a list of cells, got {json_type(cells)}"
        raise InvalidRequestError(f"column {name!r}: {message}", [Fault(column=name, message=message)])
    types = set(map(type, cells))
    if not types <= _CELL_TYPES:
        for row, cell in enumerate(cells):
            if not isinstance(cell, Cell):
                _refuse_cell(name, row, f"expected a number or text, got {json_type(cell)}")
    if types <= {int, float}:
        return cells
    texts = [cell for cell in cells if isinstance(cell, str)]
    if not _encodes("".join(texts)):
        for row, cell in enumerate(cells):
            if isinstance(cell, str) and not _encodes(cell):
                _refuse_cell(name, row, "the text is not valid Unicode")
    return cells


def common_length(columns: Mapping[str, Sequence[Cell]]) -> int:
    """How many cells each column has; refuses columns of different lengths."""
    first = next(iter(columns))
    for name, cells in columns.items():
        if len(cells) != len(columns[first]):
            raise InvalidRequestError(
                f"columns differ in length: {first!r} has {plural(len(columns[first]), 'cell')}, "
                f"{name!r} has {len(cells):,}",
                [Fault(column=name, message=f"{len(cells):,} cells, expected {len(columns[first]):,}")],
            )
    return len(columns[first])


def _refuse_cell(name: str, row: int, message: str) -> NoReturn:
    raise InvalidRequestError(f"row {row}, column {name!r}: {message}", [Fault(row=row, column=name, message=message)])


def _encodes(text: str) -> bool:
    """Whether UTF-8 can hold the text: JSON can escape half a surrogate pair."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _read_header(text: TextSource, least_columns: int) -> tuple[str, Record]:
    """The delimiter and the first record. The best delimiter agrees with the second record, then splits most."""
    with io.TextIOWrapper(text.open(), encoding="utf-8", newline="") as stream:
        head = stream.read(_HEAD)
    if not head.strip(BLANKS):
        raise InvalidRequestError("the file holds only blank lines: expected a header line and rows of data below it")
    if _OTHER_TEXT.match(head):
        raise MalformedError("the file looks like JSON or HTML, not like CSV; send JSON as application/json")
    if len(head) == _HEAD and not any(end in head.lstrip(BLANKS) for end in "\r\n"):
        raise MalformedError(f"the first line is longer than {_HEAD:,} characters: this is not a table with a header")
    best: tuple[tuple[bool, int], str, Record] | None = None
    for delimiter in DELIMITERS:
        first_two = []
        for record in records(io.StringIO(head, newline=""), delimiter):
            first_two.append(record)
            if len(first_two) == 2:
                break
        first, second = first_two[0], first_two[-1]
        width = len(first.cells)
        rank = (width > 1 and width == len(second.cells), width)
        if best is None or rank > best[0]:
            best = (rank, delimiter, first)
    assert best is not None  # DELIMITERS is not empty and the head is not blank
    _, delimiter, header = best
    if not header.closed:
        raise MalformedError(f"line {header.line}: a quotation mark in the header is never closed")
    if len(header.cells) < least_columns:
        raise InvalidRequestError(
            "the header names only one column; expected at least two (one feature and the target), "
            "separated by comma, tab or semicolon"
        )
    return delimiter, header


def _check_names(names: Sequence[str], limits: Limits, line: int | None = None) -> tuple[str, ...]:
    if not names:
        raise InvalidRequestError("there are no columns: expected at least one feature and the target")
    if len(names) > limits.columns:
        raise TooLargeError(f"the table has {len(names):,} columns; at most {limits.columns:,} are read (max_columns)")
    faults = []
    places: dict[str, int] = {}
    for place, name in enumerate(names, start=1):
        if not name:
            faults.append(Fault(line=line, message=f"column {place} has an empty name"))
        elif len(name) > _NAME or not _encodes(name):
            faults.append(
                Fault(
                    line=line, message=f"the name of column {place} is longer than {_NAME} characters or not valid text"
                )
            )
        elif name in places:
            faults.append(
                Fault(line=line, column=name, message=f"columns {places[name]} and {place} are both named {name!r}")
            )
        else:
            places[name] = place
    if faults:
        raise InvalidRequestError(f"every column needs a name of its own; {faults[0].message}", faults)
    return tuple(names)


def _check_rows(rows: int, limits: Limits) -> None:
    if rows > limits.rows:
        raise TooLargeError(f"the table has more than {limits.rows:,} rows, the most that are read (max_rows)")


def _split(text: TextSource, delimiter: str, header: Record) -> list[list[TextChunk]]:
    """The cells of all data rows as blocks of text columns."""
    names = [str(j) for j in range(len(header.cells))]
    chunks: list[list[TextChunk]] = []
    rows = -1  # Arrow reads the header as a row, which shows that both readers split alike
    try:
        with text.open() as stream, _open_csv(stream, delimiter, names) as reader:
            for batch in reader:
                if rows < 0 < batch.num_rows and [cell[0].as_py() for cell in batch.columns] != header.cells:
                    raise MalformedError(f"line {header.line}: the quotation marks in the header are not balanced")
                chunks.append((batch.slice(1) if rows < 0 < batch.num_rows else batch).columns)
                rows += batch.num_rows
                _check_rows(rows, text.limits)
    except pa.ArrowInvalid as error:
        _refuse_records(text, delimiter, len(names), error)
    if _may_end_open(chunks):
        _refuse_records(text, delimiter, len(names), None)
    return chunks


def _open_csv(stream: BinaryIO, delimiter: str, names: Sequence[str]) -> pa_csv.CSVStreamingReader:
    return pa_csv.open_csv(
        stream,
        read_options=pa_csv.ReadOptions(column_names=list(names), block_size=_BLOCK),
        parse_options=pa_csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
        convert_options=pa_csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=False
        ),
    )


def _may_end_open(chunks: Sequence[Sequence[TextChunk]]) -> bool:
    """Whether the last cell spans lines: perhaps an unclosed quotation mark has swallowed the rest of the file."""
    last = next((chunk[-1] for chunk in reversed(chunks) if len(chunk[-1])), None)
    return last is not None and any(end in last[-1].as_py() for end in "\r\n")


def _refuse_records(text: TextSource, delimiter: str, width: int, error: pa.ArrowInvalid | None) -> None:
    """Says where the records are wrong. Returns only if nothing is wrong and there was no `error`."""
    faults: list[Fault] = []
    total = 0
    for row, record in enumerate(text.records(delimiter), start=-1):
        if not record.closed:
            raise MalformedError(
                f"line {record.line:,}: a quotation mark is never closed",
                [Fault(line=record.line, message="a quotation mark is never closed")],
            ) from error
        if len(record.cells) == width:
            continue
        total += 1
        if total <= MOST_FAULTS:
            message = f"expected {width} cells, got {len(record.cells)}"
            faults.append(Fault(row=row, line=record.line, message=message))
        if total == _ENOUGH_RAGGED:
            break
    if faults:
        many = "" if total == 1 else f" ({'at least ' if total == _ENOUGH_RAGGED else ''}{total:,} such lines)"
        raise InvalidRequestError(f"line {faults[0].line:,}: {faults[0].message}{many}", faults, total) from error
    if error is not None:
        raise MalformedError(f"the file cannot be read as CSV: {error}") from error
