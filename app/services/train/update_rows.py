"""Rows with targets for a model that is there, read as it reads rows to predict."""

from dataclasses import dataclass

import numpy as np

from app.errors import MAX_FAULTS, Fault, InvalidRequestError
from app.tables import CellErrors, Schema, Table
from app.tables.read.names import match_names
from core.arrays import FloatArray, IntArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ReadRows:
    """Rows to learn from: inputs (k, p), targets (k,), and their row numbers in the table (k,)."""

    inputs: FloatArray
    targets: FloatArray
    rows: IntArray


def read_rows(schema: Schema, table: Table) -> ReadRows:
    """Read a table for a model; rows with a missing cell, where it predicts such, are left out.

    Raises InvalidRequestError naming rows and columns, also for a target that is missing or is no number.
    """
    found = match_names([schema.target], table.names, (*schema.names, schema.target))
    if schema.target not in found:
        message = f"there is no column {schema.target!r}, which the model predicts; there are "
        message += ", ".join(map(repr, table.names[:20]))
        raise InvalidRequestError(message, [Fault(message="missing column", column=schema.target)])
    inputs = schema.encode_table(table, CellErrors(lines=table.lines))
    targets = _targets(schema, table, found[schema.target])
    rows = np.flatnonzero(~np.isnan(inputs).any(axis=1))
    if not len(rows):
        raise InvalidRequestError("there is no row without a missing cell to learn from")
    return ReadRows(inputs=inputs[rows], targets=targets[rows], rows=rows)


def _targets(schema: Schema, table: Table, name: str) -> FloatArray:
    table = table.read_as(schema.missing, table.number_formats(schema.read_options))
    column = table.columns[name]
    targets = column.numbers.values
    bad = np.flatnonzero(~np.isfinite(targets))
    if len(bad):
        some = bad[:MAX_FAULTS].tolist()
        lines = table.lines(some)
        faults = []
        for row in some:
            cell = column.cell(row)
            message = "the target is missing" if cell is None or not str(cell).strip() else f"{cell!r} is not a number"
            value = None if cell is None else str(cell)
            faults.append(Fault(row=row, line=lines.get(row), column=name, value=value, message=message))
        first = faults[0]
        more = f", and {len(bad) - 1} more row{'s' if len(bad) > 2 else ''}" if len(bad) > 1 else ""
        raise InvalidRequestError(f"row {first.row}, column {name!r}: {first.message}{more}", faults, len(bad))
    return np.asarray(targets)
