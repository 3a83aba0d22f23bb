"""Columns of a JSON request that stand beside its predictions, as the client sent them.

A second reading of the rows, for those who ask for it alone: the decoders of the first one keep no cell that is not an
input.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import pyarrow as pa

from app.errors import InvalidRequestError
from app.services.decoding import decode_any
from app.services.predict.options import Keep
from app.services.predict.table_parts import kept_columns
from app.tables import Schema, flatten_column
from app.tables.columns.cells import cell_text


def kept_cells(schema: Schema, raw: msgspec.Raw, keep: Keep, *, columns: bool) -> dict[str, Any]:
    """Return the kept columns of `rows` or `columns` as Arrow arrays: numbers, booleans and text as they came, text
    where a column has several kinds. A cell that an object lacks is null.

    InvalidRequestError for a cell that is none of these.
    """
    found = decode_any(bytes(raw), where="columns" if columns else "rows")
    cells = _of_columns(found) if columns else _of_rows(schema, found)
    return {name: _array(name, cells[name]) for name in kept_columns(schema, cells, keep)}


def _of_columns(found: Any) -> dict[str, list[Any]]:
    if not isinstance(found, dict):
        raise InvalidRequestError("columns: expected an object of lists of cells by column name")
    return {name: list(flatten_column(part)) for name, part in found.items() if isinstance(part, list)}


def _of_rows(schema: Schema, found: Any) -> dict[str, list[Any]]:
    """Cells by column, in the order in which names come first; rows that are lists are in the order of the features."""
    if not isinstance(found, list):
        raise InvalidRequestError("rows: expected a list of rows")
    rows = [row if isinstance(row, Mapping) else _named(schema.names, row) for row in found]
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: [row.get(name) for row in rows] for name in names}


def _named(names: Sequence[str], row: Any) -> Mapping[str, Any]:
    """A row by name; one that is no list of so many cells was refused, or is not predicted and has none."""
    return dict(zip(names, row, strict=True)) if isinstance(row, list) and len(row) == len(names) else {}


def _array(name: str, cells: list[Any]) -> Any:
    for row, cell in enumerate(cells):
        if isinstance(cell, list | dict):
            raise InvalidRequestError(f"keep: row {row}, column {name!r}: expected a number, a text, a boolean or null")
    kinds = {type(cell) for cell in cells} - {type(None)}
    if kinds <= {int, float} and kinds != {int}:
        return pa.array(cells, pa.float64(), from_pandas=False)
    try:
        return pa.array(cells)
    except (pa.ArrowException, OverflowError):  # kinds that do not go together, or integers past 64 bits
        return pa.array([cell_text(cell) for cell in cells], pa.string())
