"""Rows that are to follow those of a table: the same columns, and cells of the kinds that these have."""

from app.errors import MAX_FAULTS, Fault, InvalidRequestError
from app.tables.columns.sums import TableSums
from app.tables.columns.table import Column, Kind, Table
from app.tables.columns.type_inference import infer_type, invalid_rows
from app.tables.read.names import match_names

_WHAT = {Kind.NUMBER: "a number", Kind.DATE: "a date as the others are", Kind.BOOLEAN: "true or false"}


def check_appended(table: Table, more: Table) -> dict[str, str]:
    """Return what the rows call each column of the table.

    Raises InvalidRequestError naming columns that are missing or unknown, and cells that are not of the kind that the
    column has in the table; a category takes any text.
    """
    meant = match_names(table.names, more.names)
    missing = [name for name in table.names if name not in meant]
    unknown = [name for name in more.names if name not in meant.values()]
    faults = [Fault(column=name, message="missing column") for name in missing]
    faults += [Fault(column=name, message="there is no such column in the dataset") for name in unknown]
    if faults:
        parts = [f"no column {', '.join(map(repr, missing))}"] if missing else []
        parts += [f"no such column in the dataset: {', '.join(map(repr, unknown))}"] if unknown else []
        raise InvalidRequestError(f"expected the columns of the dataset: {'; '.join(parts)}", faults)
    total, sums = 0, TableSums(table)
    for name in table.names:
        whole = sums[name]
        inferred = infer_type(whole)
        if inferred.kind not in _WHAT or whole.cells(inferred.kind, inferred.order).invalid:
            continue  # a column that had odd cells before may have more of them
        column = Column(texts=more.columns[meant[name]].texts, number_format=next(whole.parts()).number_format)
        for row in invalid_rows(column, inferred).tolist():
            total += 1
            if len(faults) < MAX_FAULTS:
                cell = str(column.cell(row))
                message = f"expected {_WHAT[inferred.kind]}, got {cell!r}"
                faults.append(Fault(row=row, column=name, value=cell, message=message))
    if faults:
        first = faults[0]
        rest = f", and {total - 1} more cell{'s' if total > 2 else ''}" if total > 1 else ""
        raise InvalidRequestError(f"row {first.row}, column {first.column!r}: {first.message}{rest}", faults, total)
    return meant
