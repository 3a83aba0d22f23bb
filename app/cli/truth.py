"""The truth of predictions out of a CSV file: a column of numbers, empty where it is not known."""

import csv
import io
import math
from collections.abc import Sequence

from app.cli.client import Truth
from app.cli.client_errors import ClientError

_SEPARATORS = ",;\t"


def read_truth(body: bytes, columns: Sequence[str], *, target: str | None = None, targets: Sequence[str] = ()) -> Truth:
    """Return the numbers of a column, by default of the only one; an object by target where that is named, or where
    there are several columns, which then have the targets' names. ClientError, which names the line.

    targets: of a model of several; those that are columns are read where none is named.
    """
    try:
        text = body.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ClientError(f"the truth is read from CSV in UTF-8: {error}") from None
    head = text.partition("\n")[0]
    separator = max(_SEPARATORS, key=head.count)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
    names = [name.strip() for name in next(reader, [])]
    wanted = _wanted(names, columns, target, targets)
    # an empty line of a lone column is an empty cell
    rows = [(row, reader.line_num) for row in reader if row or len(names) == 1]
    if wanted is None:
        place = _place(names, columns[0] if columns else None)
        return [_number(row, place, names, line) for row, line in rows]
    places = {name: _place(names, column) for name, column in wanted.items()}
    return {name: [_number(row, place, names, line) for row, line in rows] for name, place in places.items()}


def _wanted(
    names: list[str], columns: Sequence[str], target: str | None, targets: Sequence[str]
) -> dict[str, str | None] | None:
    """Column of each target, None for the only one; None where the truth is that of the only target."""
    if target is not None:
        column = columns[0] if columns else None
        return {target: target if column is None and target in names else column}
    if len(columns) > 1 or (targets and columns):
        return {column: column for column in columns}
    if not targets:
        return None
    found: dict[str, str | None] = {name: name for name in targets if name in names}
    if not found:
        raise ClientError(f"no column has the name of a target ({', '.join(targets)}): name one with --target")
    return found


def _place(names: list[str], column: str | None) -> int:
    if column is None:
        if len(names) != 1:
            raise ClientError(f"name the column of the truth with --column: there are {', '.join(names) or 'none'}")
        return 0
    if names.count(column) != 1:
        raise ClientError(f"there is no column {column!r}, or several: the file has {', '.join(names) or 'none'}")
    return names.index(column)


def _number(row: list[str], place: int, names: list[str], line: int) -> float | None:
    if row and len(row) != len(names):
        raise ClientError(f"line {line}: expected {len(names)} cells, as in the header; got {len(row)}")
    cell = row[place].strip() if row else ""
    if not cell:
        return None
    try:
        number = float(cell)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise ClientError(f"line {line}, column {names[place]!r}: expected a number or nothing, got {cell!r}")
    return number
