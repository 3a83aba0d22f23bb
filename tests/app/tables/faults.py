"""Cells of a table and faults of a refusal in plain values."""

from app.errors import PursuitError
from app.tables import Table

Fault = tuple[int | None, int | None, str | None, str]  # row, line, column, message


def texts(table: Table) -> dict[str, list[str | None]]:
    return {name: table.columns[name].texts.to_pylist() for name in table.names}


def faults(error: PursuitError) -> list[Fault]:
    return [(fault.row, fault.line, fault.column, fault.message) for fault in error.faults]
