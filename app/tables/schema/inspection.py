"""Inspection of a table's columns for a fit: what each is, its wrong and missing cells, why it is better left out."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from app.errors import InvalidRequestError
from app.tables.columns.cell_errors import CellErrors, list_names
from app.tables.columns.cells import BLANKS, quote
from app.tables.columns.counts import CellCounts
from app.tables.columns.lookalikes import LOOKALIKE_ADVICE, match_lookalike
from app.tables.columns.outliers import Outliers, find_outliers
from app.tables.columns.rounding import check_target
from app.tables.columns.row_numbers import is_index, row_number_start
from app.tables.columns.sentinels import Sentinel, find_sentinels, may_be_sentinel
from app.tables.columns.sums import ColumnSums, TableSums
from app.tables.columns.table import Kind, Table
from app.tables.columns.type_inference import (
    DeclaredType,
    InferredType,
    constant_value,
    declared_type,
    identifier_reason,
    infer_type,
    lookalike_warning,
)
from app.tables.schema.report_notes import date_warnings
from app.tables.schema.row_groups import note_invalid
from app.tables.schema.table_options import Dates, Missing


@dataclass(slots=True, kw_only=True)
class FitState:
    """State of a fit. sums: of the columns over all rows; absent: columns that lack cells, and as what they are read;
    sentinels: numbers, by column, that may stand for a missing cell; outliers: of each target, None where it has none;
    distinct: how many texts each category has."""

    table: Table
    sums: TableSums
    missing: Missing
    missing_values: Sequence[float | str]
    dates: Dates
    cell_errors: CellErrors
    warnings: list[str] = field(default_factory=list)
    absent: dict[str, InferredType] = field(default_factory=dict)
    sentinels: dict[str, list[Sentinel]] = field(default_factory=dict)
    outliers: dict[str, Outliers | None] = field(default_factory=dict)
    distinct: dict[str, int] = field(default_factory=dict)


def cells_of(column: ColumnSums, inferred: InferredType) -> CellCounts:
    return column.cells(inferred.kind, inferred.order)


def inspect_target(state: FitState, target: str) -> None:
    column = state.sums[target]
    numbers = column.numbers
    if numbers.present == 0:
        raise InvalidRequestError(f"the target {target!r} has no value in any row")
    if numbers.invalid and infer_type(column).kind is not Kind.NUMBER:
        _, first = numbers.first[0]
        meant = match_lookalike(str(first).strip(BLANKS))
        raise InvalidRequestError(
            f"the target {target!r} is text, such as {quote(first)}: {numbers.usable:,} of its {numbers.present:,} "
            f"cells are numbers; name a numeric column as target{_numeric_names(state.sums)}"
            f"{'' if meant is None else f', or {LOOKALIKE_ADVICE[meant]}'}"
        )
    check_target(state.table, target, column)
    inferred = InferredType(kind=Kind.NUMBER)
    note_invalid(target, column, inferred, state.cell_errors)
    note_missing(state, target, inferred)
    state.sentinels[target] = sentinels_of(column)
    ends, codes = column.numbers.ends, [each.value for each in state.sentinels[target]]
    state.outliers[target] = find_outliers(column.values(), codes, (ends.low, ends.high))


def _numeric_names(sums: TableSums) -> str:
    """Return the columns that are numbers throughout, in brackets; nothing where there are none."""
    names = [name for name, column in sums.items() if column.numbers.usable and not column.numbers.invalid]
    return f" ({list_names(names)})" if names else ""


def note_missing(state: FitState, name: str, inferred: InferredType) -> None:
    """Note a column that lacks cells."""
    if cells_of(state.sums[name], inferred).missing:
        state.absent[name] = inferred


def sentinels_of(column: ColumnSums) -> list[Sentinel]:
    """Numbers that may stand for a missing cell."""
    ends = column.numbers.ends
    return find_sentinels(column.values()) if may_be_sentinel(ends.low, ends.high) else []


def inspect_column(state: FitState, name: str, choice: DeclaredType | None) -> InferredType:
    """Infer the type of a column; note its wrong and missing cells, and why it is better left out."""
    column = state.sums[name]
    inferred = infer_type(column) if choice is None else declared_type(column, choice)
    if inferred.kind is Kind.UNUSED:
        if inferred.unused_reason is not None:
            state.warnings.append(f"column {name!r} {inferred.unused_reason} and was left out")
        return inferred
    note_invalid(name, column, inferred, state.cell_errors)
    absent = cells_of(column, inferred).missing
    if absent == len(column):
        state.warnings.append(f"column {name!r} is empty in every row and was left out")
        return InferredType(kind=Kind.UNUSED)
    value = constant_value(column, inferred)
    if value is not None and not (absent and state.missing is Missing.IMPUTE):
        state.warnings.append(f"column {name!r} is {value} in every row and was left out")
        return InferredType(kind=Kind.UNUSED)
    note_missing(state, name, inferred)
    state.warnings += date_warnings(name, column, inferred, chosen=choice is not None)
    if inferred.lookalike is not None:
        state.warnings.append(f"column {name!r} {lookalike_warning(inferred.lookalike)}")
    if inferred.kind is Kind.NUMBER:
        state.sentinels[name] = sentinels_of(column)
    if inferred.kind is Kind.CATEGORY:
        state.distinct[name] = column.levels.distinct
    unused_reason = identifier_reason(column, inferred)
    if name in state.table.index and inferred.kind is Kind.NUMBER and is_index(column):
        unused_reason = "is the index of a data frame (whole numbers in a column without a name)"
    return InferredType(
        kind=inferred.kind, order=inferred.order, unused_reason=unused_reason if choice is None else None
    )


def drop_identifiers(state: FitState, inferred_types: dict[str, InferredType], wanted: set[str]) -> None:
    """Return those that nobody asked for; an index of numbers, which may be times, only if something else is left."""
    used = {name: inferred for name, inferred in inferred_types.items() if inferred.kind is not Kind.UNUSED}
    left = [name for name, inferred in used.items() if inferred.unused_reason is None]
    for name, inferred in used.items():
        if inferred.unused_reason is None or name in wanted or (inferred.kind is Kind.NUMBER and not left):
            continue
        inferred_types[name] = InferredType(kind=Kind.UNUSED)
        state.warnings.append(
            f'column {name!r} {inferred.unused_reason} and was left out; to use it, say in "columns" what it is'
        )


def add_number_warnings(state: FitState, inferred_types: dict[str, InferredType]) -> None:
    """Return what looks like a row number and is used, and columns that have no name."""
    for name, inferred in inferred_types.items():
        start = row_number_start(name, state.sums[name]) if inferred.kind is Kind.NUMBER else None
        if start is not None:
            state.warnings.append(
                f"column {name!r} looks like a row number ({start}, {start + 1}, {start + 2}, ..) and was read as a "
                'number like others; if it says nothing of new rows, leave it out ("columns": {"...": "ignore"})'
            )
        elif inferred.kind is not Kind.UNUSED and name in state.table.index:
            state.warnings.append(f"the column without a name was read as {name!r}")
