"""Refusal of integers that 64-bit numbers would round, where that matters."""

from typing import Any

import numpy as np

from app.tables.columns.cell_errors import CellErrors
from app.tables.columns.cells import IntArray, quote
from app.tables.columns.integers import MAX_EXACT, find_collision
from app.tables.columns.table import Column, Table

_MAX_COMPARED = 200_000  # different cells
_LEAST = 1e-6  # of a target's standard deviation: less is no news to anyone
_ADVICE = (
    'if such cells name something, say in "columns" that it is a category or to be ignored; if others far from them '
    'stand for a missing cell, list these in "missing_values"'
)


def choose_offset(table: Table, name: str, column: Column) -> int | None:
    """The integer that a feature's numbers are read as differences from, None if they are exact without.

    column: its rows that are trained on. InvalidRequestError naming the cell where different ones stay one number even
    so, since others lie too far from them.
    """
    offset = column.offset
    if not exceeds_exact(column):
        return offset
    numbers = column.minus(offset)
    if float(np.nanmax(numbers)) - float(np.nanmin(numbers)) >= MAX_EXACT:
        texts: Any = column.levels.names.slice(0, _MAX_COMPARED)
        pair = find_collision(texts.to_pylist(), offset, column.number_format)
        if pair is not None:
            whole = table.columns[name]
            first = whole.levels.names.index(pair[1]).as_py()
            place = np.flatnonzero(whole.levels.codes == first)[:1]
            message = f"{quote(pair[1])} and {quote(pair[0])} are one 64-bit number beside the others of the column"
            _refuse(table, name, place, message, _ADVICE)
    return offset


def exceeds_exact(column: Column) -> bool:
    """Return whether a number of the column is past the integers that 64-bit numbers hold."""
    return bool(np.nanmax(np.abs(column.numbers.values)) >= MAX_EXACT)


def check_target(table: Table, name: str) -> None:
    """InvalidRequestError naming the cell of a target that would be rounded by more than its spread allows."""
    column = table.columns[name]
    if not column.numbers.finite_count or not exceeds_exact(column) or column.offset is None:
        return
    exact = column.minus(column.offset)
    rounded = column.numbers.values - float(column.offset)
    errors = np.nan_to_num(np.abs(exact - rounded))
    worst = int(errors.argmax())
    if errors[worst] > _LEAST * float(np.nanstd(exact)):
        shown = f"{column.numbers.values[worst]:.0f}"
        message = (
            f"{quote(column.cell(worst))} is past the integers that 64-bit numbers hold, and would be read as {shown}"
        )
        _refuse(
            table, name, np.array([worst]), message, f"subtract a constant from the target, such as {column.offset}"
        )


def _refuse(table: Table, name: str, rows: IntArray, message: str, advice: str) -> None:
    cell_errors = CellErrors(lines=table.lines)
    cell_errors.add(name, rows, table.columns[name].cell, lambda _: message)
    cell_errors.refuse(advice)
