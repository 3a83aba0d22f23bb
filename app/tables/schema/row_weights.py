"""The column that says how much each row counts: numbers of at least 0, of which 0 leaves a row out."""

from collections.abc import Mapping, Sequence
from typing import NoReturn

import numpy as np

from app.errors import MAX_FAULTS, Fault, InvalidRequestError
from app.tables.columns.cell_errors import CellErrors, plural
from app.tables.columns.cells import BoolArray, Cell, quote
from app.tables.columns.row_set import RowSet
from app.tables.columns.sums import ColumnSums
from app.tables.columns.table import Kind, Table
from app.tables.columns.type_inference import DeclaredType, InferredType
from app.tables.schema.inspection import FitState
from app.tables.schema.row_groups import RowGroupColumn, note_invalid
from app.tables.schema.table_options import TableOptions, names_several, resolve
from core.data import LEAST_WEIGHT

_TAKEN = (DeclaredType.NUMBER, DeclaredType.IGNORE)


def weight_column(
    table: Table,
    targets: Sequence[str],
    options: TableOptions,
    choices: Mapping[str, DeclaredType],
    grouped: RowGroupColumn | None,
) -> str | None:
    """Return the column of weights, None where the specification names none.

    choices: what columns are declared to be. grouped: the column that rows are left out by. Raises InvalidRequestError:
    an unknown column, one that is something else too, or several targets.
    """
    if options.weights is None:
        return None
    name = resolve("weights", [options.weights], table)[0]
    if names_several(options.target, table):
        _refuse("rows of several targets all count the same, so far; train one target at a time")
    if name in targets:
        _refuse(f"{name!r} is the target")
    if grouped is not None and name == grouped.name:
        _refuse(f"{name!r} is the column of {grouped.by} too")
    if options.features is not None and name in resolve("features", options.features, table):
        _refuse(f"{name!r} is one of the features too; a weight says how precise a row is, and predicts nothing")
    if (choice := choices.get(name, DeclaredType.NUMBER)) not in _TAKEN:
        _refuse(f"{name!r} is declared as {choice} in columns; weights are numbers")
    return name


def note_weights(column: ColumnSums, name: str, cell_errors: CellErrors) -> None:
    """Note the cells that are there and are no weight."""
    note_invalid(name, column, InferredType(kind=Kind.NUMBER), cell_errors)
    if not column.numbers.ends.low < 0.0:
        return
    total, first_cells = 0, list[tuple[int, Cell]]()
    for first, part in column.numbered():
        rows = np.flatnonzero(part.numbers.values < 0.0)
        total += len(rows)
        first_cells += [(first + row, part.cell(row)) for row in rows[: MAX_FAULTS - len(first_cells)].tolist()]
    cell_errors.add_first(name, total, first_cells, _negative)


def rows_that_count(state: FitState, rows: RowSet, weights: str | None) -> RowSet:
    """Return those of the rows whose weight is above 0, with a warning that tells how many are not; all where there is
    no column of weights. InvalidRequestError where none is, and where one is nothing beside another."""
    if weights is None:
        return rows
    keep: BoolArray = np.zeros(rows.total, dtype=np.bool_)
    least, row, greatest = np.inf, 0, 0.0
    for first, part in state.sums[weights].numbered():
        values = part.numbers.values
        counts, asked = values > 0.0, rows.kept(first, first + len(values))
        if asked is not None:
            counts &= asked
        keep[first : first + len(values)] = counts
        if counts.any():
            lowest = int(np.argmin(np.where(counts, values, np.inf)))
            greatest = max(greatest, float(values[counts].max()))
            if values[lowest] < least:
                least, row = float(values[lowest]), first + lowest
    found = RowSet.of(keep)
    if not found.count:
        _refuse(f"column {weights!r} is 0 in every row that could be learnt from")
    if least < LEAST_WEIGHT * greatest:
        message = f"{least!r} is nothing beside the greatest, {greatest!r}; write 0 for rows that are not to count"
        fault = Fault(row=row, column=weights, value=repr(least), message=message)
        raise InvalidRequestError(f"weights: row {row}, column {weights!r}: {message}", [fault])
    if count := rows.count - found.count:
        said = "has a weight of 0 and was" if count == 1 else "have a weight of 0 and were"
        state.warnings.append(f"{count:,} of {plural(rows.count, 'row')} {said} left out")
    return found


def _negative(cell: Cell) -> str:
    return f"{quote(cell)} is negative; a weight is a number of at least 0"


def _refuse(message: str) -> NoReturn:
    raise InvalidRequestError(f"weights: {message}", [Fault(message=message, column="weights")])
