"""Rows of a table that are trained on: those without the missing cells that the specification leaves out."""

from collections.abc import Iterator, Sequence

import numpy as np

from app.errors import MAX_FAULTS, InvalidRequestError
from app.tables.columns.cell_errors import list_names, plural
from app.tables.columns.cells import BoolArray, Cell, quote
from app.tables.columns.row_set import RowSet
from app.tables.columns.sums import TableSums
from app.tables.columns.table import Table
from app.tables.columns.type_inference import missing_cells
from app.tables.schema.inspection import FitState, cells_of
from app.tables.schema.row_groups import GroupedBy, RowGroupColumn
from app.tables.schema.table_options import Missing

_CORRECT = "correct the file, "
_LIST_MISSING = 'list what stands for a missing cell in "missing_values"'
_DROP = 'set "missing" to "drop" to leave such rows out'
_IMPUTE = ', or to "impute" to integrate over what they may be'


def kept_rows(
    state: FitState,
    targets: Sequence[str],
    used: Sequence[str],
    grouped: RowGroupColumn | None,
    weights: str | None,
    several: bool,
) -> RowSet:
    """Rows to train on, of several targets those that have one of them. Refuses wrong cells, and missing ones under
    "error"; under "impute" a row without a group is one of its own, and one without a place in time is dropped."""
    table = state.table
    own = () if weights is None else (weights,)
    if state.cell_errors.total:
        state.cell_errors.refuse(_wrong_advice(state.cell_errors.columns(), (*targets, *own)))
    by = own if grouped is None else (grouped.name, *own)
    absent = [name for name in dict.fromkeys((*(() if several else targets), *used, *by)) if name in state.absent]
    needed = (*targets, *(by if grouped is not None and grouped.by is GroupedBy.ORDER else own))
    counts = {name: cells_of(state.sums[name], state.absent[name]).missing for name in absent}
    if state.missing is Missing.ERROR and absent:
        for name in absent:
            first = _first_missing(state, name)
            state.cell_errors.add_first(name, counts[name], first, lambda cell: f"missing ({quote(cell)})")
        state.cell_errors.refuse(_DROP if weights is not None else _missing_advice(absent, needed, used, grouped))
    causes = absent if state.missing is Missing.DROP else [name for name in needed if name in absent]
    without_target = several and all(target in state.absent for target in targets)
    if not causes and not without_target:
        return RowSet.every(table.rows)
    keep: BoolArray = np.ones(table.rows, dtype=np.bool_)
    if without_target:
        keep[:] = False
        for name in targets:
            for rows, missing in _missing(state, name):
                keep[rows] |= ~missing
    for name in causes:
        for rows, missing in _missing(state, name):
            keep[rows] &= ~missing
    found = RowSet.of(keep)
    if causes:
        which = ", ".join(f"{name!r} {counts[name]:,}" for name in causes)
        state.warnings.append(
            f"{found.left_out:,} of {plural(table.rows, 'row')} dropped because a cell is missing (by column: {which})"
        )
    return found


def _wrong_advice(columns: Sequence[str], needed: Sequence[str]) -> str:
    """Return advice on wrong cells. needed: columns that are numbers, whatever `columns` of the specification says."""
    free = [name for name in columns if name not in needed]
    if not free:
        return f"{_CORRECT}or {_LIST_MISSING}"
    which = "the column" if len(free) == len(columns) else list_names(free)
    return f'{_CORRECT}{_LIST_MISSING}, or say in "columns" what {which} is ("category", "ignore")'


def _missing_advice(
    absent: Sequence[str], needed: Sequence[str], used: Sequence[str], grouped: RowGroupColumn | None
) -> str:
    """Return advice on missing cells. absent: columns with some; needed: those whose rows are dropped either way."""
    dropped = [name for name in absent if name in needed]
    if len(dropped) == len(absent):
        return _DROP
    if grouped is not None and all(name in dropped or (name == grouped.name and name not in used) for name in absent):
        return f'{_DROP}, or to "impute" to take a row without a group as one of its own'
    return _DROP + _IMPUTE + (f"; rows without {list_names(dropped)} are left out either way" if dropped else "")


def _missing(state: FitState, name: str) -> Iterator[tuple[slice, BoolArray]]:
    """Iterate over the parts of a column that lacks cells: its rows, and which of them are missing."""
    for first, part in state.sums[name].numbered():
        yield slice(first, first + len(part)), missing_cells(part, state.absent[name])


def _first_missing(state: FitState, name: str) -> list[tuple[int, Cell]]:
    """The first rows of a column where a cell is missing, with what is there."""
    found: list[tuple[int, Cell]] = []
    for first, part in state.sums[name].numbered():
        rows = np.flatnonzero(missing_cells(part, state.absent[name]))[: MAX_FAULTS - len(found)]
        found += [(first + row, part.cell(row)) for row in rows.tolist()]
        if len(found) == MAX_FAULTS:
            break
    return found


def rows_with_target(state: FitState, rows: RowSet, target: str) -> RowSet:
    """Those of the rows that have a value of this target."""
    if target not in state.absent:
        return rows
    keep: BoolArray = np.zeros(rows.total, dtype=np.bool_)
    keep[rows.numbers] = True
    for own, missing in _missing(state, target):
        keep[own] &= ~missing
    return RowSet.of(keep)


def checked_rows(kept: Table, sums: TableSums, target: str, *, several: bool) -> Table:
    """The rows that have a value of this target, which differs among them."""
    numbers = sums[target].numbers
    own, rows = kept, kept.rows
    if several and numbers.missing:
        there = [~np.isnan(part.numbers.values) for part in sums[target].parts()]
        own, rows = kept.keep(RowSet.of(np.concatenate(there)), kept.names), numbers.usable
    if rows < 2:
        raise InvalidRequestError(f"at least 2 rows are needed to learn from, got {rows}")
    if numbers.ends.constant:
        raise InvalidRequestError(
            f"the target {target!r} is {numbers.ends.first!r} in every row: there is nothing to predict, and nothing "
            "tells how far off that may be; name another target, or send rows in which it differs"
        )
    return own
