"""JSON to tables: columns, rows, and files with one object on each line."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NoReturn

import msgspec

from app.errors import Fault, InvalidRequestError, MalformedError
from app.tables.columns.cell_errors import json_type, plural
from app.tables.columns.cells import Cell
from app.tables.columns.number_formats import PLAIN, MarkCounts, infer_formats
from app.tables.columns.table import Column, Table
from app.tables.read.json_locations import find_invalid_literal
from app.tables.read.limits import Limits
from app.tables.read.names import is_encodable, read_names
from app.tables.read.source import Source
from app.tables.read.strict_json import TOO_LARGE, find_duplicate_key, first_too_large, is_too_large
from app.tables.read.text_blocks import TextBlocks, to_text_blocks

_CELL_TYPES = {str, int, float, bool, type(None)}
_LINES = 5_000  # lines in a block
_BYTE = re.compile(r"\(byte ([0-9]+)\)")
_DIGITS = 308  # of the largest double, less one
_ANY = msgspec.json.Decoder(dict[str, str | int | float | bool | None])


def from_columns(columns: Mapping[str, Sequence[Any]], *, limits: Limits | None = None) -> Table:
    """JSON columns: name to a list of numbers, texts, booleans or nulls, all of one length; an array of shape (n, 1),
    lists of one cell, is a column too. O(cells).
    """
    return _from_columns({name: flatten_column(cells) for name, cells in columns.items()}, limits or Limits())


def flatten_column(cells: Any) -> Any:
    """The cells inside a list of lists of one cell; what else it may be is left as it is."""
    if not isinstance(cells, list) or not cells or not isinstance(cells[0], list):
        return cells
    ones = all(isinstance(cell, list) and len(cell) == 1 for cell in cells)
    return [cell[0] for cell in cells] if ones else cells


def _from_columns(columns: Mapping[str, Sequence[Any]], limits: Limits) -> Table:
    names = read_names(list(columns), limits)
    made = dict(zip(names.names, columns.values(), strict=True))
    rows = common_length({name: check_cells(name, cells, limits) for name, cells in made.items()})
    if rows == 0:
        raise InvalidRequestError("the columns are empty: expected at least one row")
    limits.check_rows(rows)
    marks = {}
    for name, cells in made.items():
        tally = MarkCounts()
        if tally.add_cells(cells):
            marks[name] = tally
    number_formats = infer_formats(marks)
    columns_read = {
        name: Column(cells=cells, number_format=number_formats.get(name, PLAIN)) for name, cells in made.items()
    }
    return Table(names=names.names, columns=columns_read, rows=rows, marks=marks, index=names.index)


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
    return _from_columns({name: [cells.get(name) for cells in rows] for name in names}, limits or Limits())


def check_cells(name: str, cells: Any, limits: Limits | None = None) -> Sequence[Cell]:
    """A JSON column, checked: a list of numbers, valid texts, booleans and nulls."""
    if not isinstance(cells, Sequence) or isinstance(cells, str):
        message = f"expected a list of cells, got {json_type(cells)}"
        raise InvalidRequestError(f"column {name!r}: {message}", [Fault(column=name, message=message)])
    types = set(map(type, cells))
    if not types <= _CELL_TYPES:
        for row, cell in enumerate(cells):
            if not isinstance(cell, Cell):
                _refuse_cell(name, row, f"expected a number or text, got {json_type(cell)}")
    too_large = first_too_large(cells, types)
    if too_large is not None:
        _refuse_cell(name, too_large, TOO_LARGE)
    if types <= {int, float}:
        return cells
    longest = Limits().cell if limits is None else limits.cell
    for row, cell in enumerate(cells):
        if isinstance(cell, str) and not cell.isascii() and not is_encodable(cell):
            _refuse_cell(name, row, "the text is not valid Unicode")
        if isinstance(cell, str) and len(cell) > longest:
            raise (limits or Limits()).cell_is_too_long(f"row {row:,}, column {name!r}", len(cell))
    return cells


def common_length(columns: Mapping[str, Sequence[Cell]]) -> int:
    """Return how many cells each column has; refuses columns of different lengths."""
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


def open_lines(source: Source) -> TextBlocks:
    """JSON Lines: an object of cells by column name on each line; a name left out is a missing cell; reads it twice."""
    names: dict[str, None] = {}
    given: list[str] = []
    for row, (line, cells) in enumerate(_objects(source)):
        if cells.keys() - names.keys():
            names.update(dict.fromkeys(cells))
            given = list(names)
            source.limits.check_columns(len(given))
        source.limits.check_rows(row + 1)
        del line
    cleaned = read_names(given, source.limits)

    def lines(rows: Any) -> dict[int, int]:
        wanted = set(rows)
        return {row: line for row, (line, _) in enumerate(_objects(source)) if row in wanted}

    marks: dict[str, MarkCounts] = {}
    return TextBlocks(
        names=cleaned.names,
        index=cleaned.index,
        blocks=to_text_blocks(_blocks(source, given), cleaned.names, marks),
        header="the file has no lines",
        limits=source.limits,
        marks=marks,
        lines=lines,
    )


def _blocks(source: Source, names: Sequence[str]) -> Iterator[list[list[Cell]]]:
    waiting: list[dict[str, Cell]] = []
    for _, cells in _objects(source):
        waiting.append(cells)
        if len(waiting) == _LINES:
            yield _block(waiting, names)
            waiting = []
    if waiting:
        yield _block(waiting, names)


def _block(rows: Sequence[Mapping[str, Cell]], names: Sequence[str]) -> list[list[Cell]]:
    return [[cells.get(name) for cells in rows] for name in names]


def _objects(source: Source) -> Iterator[tuple[int, dict[str, Cell]]]:
    """Yield every object with its 1-based line; blank lines skipped. Refuses what is no object of cells, by line."""
    row = 0
    with source.text() as stream:
        for number, text in enumerate(stream, start=1):
            if not text.strip():
                continue
            try:
                cells = _ANY.decode(text)
                if text.count(b":") != len(cells):
                    _check_duplicate_keys(number, row, text, cells)
                if len(text) > _DIGITS:
                    _check_whole_numbers(number, row, cells)
                yield number, cells
            except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
                _refuse_line(number, row, text, error)
            row += 1


def _too_large_column(text: bytes) -> str | None:
    """The column of a line whose number is past float64."""
    try:
        cells = msgspec.json.decode(text, type=dict[str, msgspec.Raw])
    except msgspec.DecodeError:  # a list
        return None
    for name, cell in cells.items():
        try:
            msgspec.json.decode(cell)
        except msgspec.ValidationError:
            return name
    return None


def _check_duplicate_keys(number: int, row: int, text: bytes, cells: Mapping[str, Cell]) -> None:
    """Refuse a line with more colons than keys where a key is there twice: mostly they are in texts, as in times."""
    texts = [*cells, *(cell for cell in cells.values() if isinstance(cell, str))]
    if b"\\" not in text and text.count(b":") == len(cells) + sum(each.count(":") for each in texts):
        return
    twice = find_duplicate_key(text)
    if twice is not None:
        message = f"the key {twice.key!r} is there twice"
        fault = Fault(row=row, line=number, column=twice.key, message=message)
        raise InvalidRequestError(f"line {number:,}: {message}", [fault])


def _check_whole_numbers(number: int, row: int, cells: Mapping[str, Cell]) -> None:
    for name, cell in cells.items():
        if is_too_large(cell):
            fault = Fault(row=row, line=number, column=name, message=TOO_LARGE)
            raise InvalidRequestError(f"line {number:,}, column {name!r}: {TOO_LARGE}", [fault])


def _refuse_line(number: int, row: int, text: bytes, error: Exception) -> NoReturn:
    """Refuse, in words, a line that is no object of cells."""
    try:
        found = msgspec.json.decode(text)
    except msgspec.ValidationError:
        message = "a number is too large: expected at most 1.8e308"
        fault = Fault(row=row, line=number, column=_too_large_column(text), message=message)
        place = f"line {number:,}" + ("" if fault.column is None else f", column {fault.column!r}")
        raise InvalidRequestError(f"{place}: {message}", [fault]) from error
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as worse:
        at = _BYTE.search(str(worse))
        literal = None if at is None else find_invalid_literal(text, int(at[1]))
        if literal is not None:
            message = f"{literal.text} is not a JSON number; write a finite number, or null for a missing cell"
            column = literal.path.removeprefix(".") or None
            place = f"line {number:,}" + ("" if column is None else f", column {column!r}")
            fault = Fault(row=row, line=number, column=column, value=literal.text, message=message)
            raise MalformedError(f"{place}: {message}", [fault]) from error
        message = str(worse).removeprefix("JSON is malformed: ")
        raise MalformedError(
            f"line {number:,} is not a JSON object: {message}; "
            "JSON Lines have one object of cells by column name on each line",
            [Fault(line=number, message=message)],
        ) from error
    if not isinstance(found, dict):
        message = f"expected an object of cells by column name, got {json_type(found)}"
        raise InvalidRequestError(f"line {number:,}: {message}", [Fault(line=number, message=message)]) from error
    for name, cell in found.items():
        if not isinstance(cell, Cell):
            message = f"expected a number or text, got {json_type(cell)}"
            raise InvalidRequestError(
                f"line {number:,}, column {name!r}: {message}",
                [Fault(row=row, line=number, column=name, message=message)],
            ) from error
    raise MalformedError(f"line {number:,}: {error}") from error
