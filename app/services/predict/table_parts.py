"""A table to be predicted, part by part: a small one in memory is one part, a file on disk many, in bounded memory."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from app.services.predict.loaded_model import LoadedModel
from app.services.predict.npy import NpyRows
from app.services.predict.options import Keep, OnError
from app.services.predict.row_decoder import DecodedRows
from app.tables import CellErrors, Kind, Limits, Schema, Table, canonical_parts, open_canonical, read_table
from app.tables.columns.table import LineFinder, no_lines
from app.tables.columns.types import restored
from app.tables.read.names import match_names

PART_ROWS = 1 << 14
"""Rows of a part of a file."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TablePart:
    """Some rows of a table. first_row: number of the first; kept: columns that stand beside the predictions."""

    decoded: DecodedRows
    first_row: int = 0
    kept: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartOptions:
    """Reading of a table to predict. typed: kept columns have the types of the upload,
    or are doubles where the model reads numbers, for files that have types."""

    on_error: OnError = OnError.REFUSE
    keep: Keep = Keep.NONE
    typed: bool = False


def read_part(model: LoadedModel, body: bytes, limits: Limits, options: PartOptions) -> TablePart:
    """Read a table file of any format in memory."""
    schema = model.schema
    sheet = schema.read_options.sheet
    table = read_table(body, limits=limits, known=schema.names, least_columns=1, sheet=sheet, sheet_wanted=False)
    return table_part(schema, table, options, kept_columns(schema, table.names, options.keep), lines=table.lines)


def file_parts(
    model: LoadedModel, path: Path, options: PartOptions, lines: LineFinder = no_lines
) -> Iterator[TablePart]:
    """Read a canonical file. lines: finds the lines of the upload for row numbers."""
    names = open_canonical(path).names
    return parts_of(model, names, partial(canonical_parts, path, rows=PART_ROWS), options, lines)


def parts_of(
    model: LoadedModel,
    names: Sequence[str],
    read: Callable[[Sequence[str]], Iterator[Table]],
    options: PartOptions,
    lines: LineFinder = no_lines,
) -> Iterator[TablePart]:
    """Read a table with these columns. read: some of them, a part of the rows after another; lines: see
    `file_parts`."""
    schema = model.schema
    kept = kept_columns(schema, names, options.keep)
    meant = schema.meaning(names)
    needed = {*meant.values(), *kept}
    asked = [name for name in names if name in needed or len(meant) < len(schema.used)]  # all of them to say what lacks
    first = 0
    for table in read(asked):
        yield table_part(schema, table, options, kept, first_row=first, lines=lines)
        first += table.rows


def npy_parts(model: LoadedModel, path: Path, options: PartOptions) -> tuple[int, Iterator[TablePart]]:
    """Return the number of rows of an npy file, and its parts."""
    file = NpyRows(path)
    rows = file.shape[0]

    def parts() -> Iterator[TablePart]:
        for first in range(0, max(rows, 1), PART_ROWS):
            yield TablePart(decoded=matrix_part(model, file.part(first, PART_ROWS), options, first), first_row=first)

    return rows, parts()


def matrix_part(model: LoadedModel, rows: Any, options: PartOptions, first_row: int = 0) -> DecodedRows:
    """Read rows of numbers in the order of the features."""
    if options.on_error is OnError.REFUSE:
        return DecodedRows.of(model.rows.encode_matrix(rows, first_row))
    return model.rows.encode_matrix_tolerantly(rows, first_row)


def table_part(
    schema: Schema,
    table: Table,
    options: PartOptions,
    kept: Iterable[str],
    *,
    first_row: int = 0,
    lines: LineFinder = no_lines,
) -> TablePart:
    """Encode a table, or a part of one. InvalidRequestError for wrong cells that are not tolerated."""
    errors = CellErrors(lines=lines, first_row=first_row, tolerated=options.on_error is OnError.NULL)
    inputs = schema.encode_table(table, errors)
    failed = errors.rows()
    if len(failed):
        keep = [True] * table.rows
        for row in failed.tolist():
            keep[row] = False
        inputs = inputs[keep]
    decoded = DecodedRows(inputs=inputs, rows=table.rows, failed=failed, reason=errors.first())
    numbers = _plain_numbers(schema, table.names) if options.typed else set()
    given = schema.as_given(table) if numbers else table
    columns = {name: _kept_column(given, name, number=name in numbers, typed=options.typed) for name in kept}
    return TablePart(decoded=decoded, first_row=first_row, kept=columns)


def kept_columns(schema: Schema, names: Iterable[str], keep: Keep) -> tuple[str, ...]:
    """Return the columns of a table that stand beside its predictions, in its order."""
    given = tuple(names)
    if keep is not Keep.OTHERS:
        return given if keep is Keep.ALL else ()
    targets = match_names(schema.targets, given, (*schema.names, *schema.targets)).values()
    used = {*schema.meaning(given).values(), *targets}
    return tuple(name for name in given if name not in used)


def _plain_numbers(schema: Schema, names: Iterable[str]) -> set[str]:
    """Columns that a model reads as numbers which doubles hold."""
    meant = schema.meaning(tuple(names))
    return {
        meant[feature.name]
        for feature in schema.used
        if feature.kind is Kind.NUMBER and feature.offset is None and feature.name in meant
    }


def _kept_column(table: Table, name: str, *, number: bool, typed: bool) -> Any:
    column = table.columns[name]
    if typed and name in table.types:
        return restored(column.texts, table.types[name])
    return pa.array(column.numbers.values, from_pandas=True) if number else column.texts
