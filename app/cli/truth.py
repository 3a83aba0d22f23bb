"""The truth of predictions out of a CSV file: a column of numbers, empty where it is not known."""

import csv
import io
import math

from app.cli.client_errors import ClientError

_SEPARATORS = ",;\t"


def read_truth(body: bytes, column: str | None) -> list[float | None]:
    """Return the numbers of a column, by default of the only one. ClientError, which names the line."""
    try:
        text = body.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ClientError(f"the truth is read from CSV in UTF-8: {error}") from None
    head = text.partition("\n")[0]
    separator = max(_SEPARATORS, key=head.count)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
    names = [name.strip() for name in next(reader, [])]
    place = _place(names, column)
    # an empty line of a lone column is an empty cell
    return [_number(row, place, names, reader.line_num) for row in reader if row or len(names) == 1]


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
