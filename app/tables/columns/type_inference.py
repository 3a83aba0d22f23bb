"""Type of a column: inferred from all its cells, or as the specification says."""

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import numpy as np

from app.tables.columns.cell_errors import plural
from app.tables.columns.cells import BoolArray, IntArray, quote
from app.tables.columns.dates import DateOrder, infer_date_order, infer_number_order
from app.tables.columns.dates_and_booleans import MISSING_TEXTS, parse_by_level
from app.tables.columns.integers import add_offset
from app.tables.columns.lookalikes import LOOKALIKE_ADVICE, LookalikeMatch, find_lookalike
from app.tables.columns.sums import ColumnSums
from app.tables.columns.table import Column, Kind

MAX_MIXED_LEVELS: Final = 50
"""Most distinct texts of a category that has numbers too; with more, it is numbers with mistakes."""
NUMERIC_SHARE: Final = 0.9
"""Share of numbers (or dates) from which on the rest of a column is taken for mistakes, not for categories."""
MIN_NUMBERS: Final = 0.5
"""The same for a column that would have more than MAX_MIXED_LEVELS levels."""
MIN_ROWS: Final = 20
"""Fewest rows of an identifier: in fewer it is no wonder that all cells differ."""
MOSTLY_UNIQUE: Final = 0.5
"""Text with more distinct values than this share of its cells says nothing about other rows."""
_UNCLEAR = (
    "holds dates that may begin with the day or with the month (write YYYY-MM-DD, or say "
    'in "columns" that it is "day-first" or "month-first")'
)
_PADDED_SHARE = 0.1
_PADDED = re.compile(r"0[0-9]+")


class DeclaredType(StrEnum):
    """Type that the specification may declare for a column."""

    NUMBER = "number"
    CATEGORY = "category"
    DATE = "date"
    DAY_FIRST = "day-first"
    MONTH_FIRST = "month-first"
    BOOLEAN = "boolean"
    IGNORE = "ignore"


@dataclass(frozen=True, slots=True, kw_only=True)
class InferredType:
    """Type of a column, as its cells or the specification tell.

    order: of a date; from_row_order: only the order of the rows told it. unused_reason: why the column is better left
    out, in words that follow its name. lookalike: what a category looks like that could have been a number.
    """

    kind: Kind
    order: DateOrder | None = None
    from_row_order: bool = False
    unused_reason: str | None = None
    lookalike: LookalikeMatch | None = None


def infer_type(column: Column | ColumnSums) -> InferredType:
    """NUMBER, BOOLEAN, DATE or CATEGORY, or UNUSED where no cell has a value. O(n)."""
    column = ColumnSums.of(column)
    numbers = column.numbers
    present = numbers.present
    if present == 0:
        return InferredType(kind=Kind.UNUSED, unused_reason="is empty in every row")
    numeric = numbers.usable + numbers.unusable
    if numeric >= NUMERIC_SHARE * present:
        return InferredType(kind=Kind.CATEGORY if _is_padded(column) else Kind.NUMBER)
    names = _names(column)
    if names and {name.lower() for name in names} <= {"true", "false"}:
        return InferredType(kind=Kind.BOOLEAN)
    if numeric >= MIN_NUMBERS * present and len(names) > MAX_MIXED_LEVELS:
        return InferredType(kind=Kind.NUMBER)
    return _infer_date(column, names) or _infer_text(column, names)


def _infer_text(column: ColumnSums, names: list[str]) -> InferredType:
    """A category; or the number that it looks like, to be refused cell by cell, where a category would say nothing."""
    category = InferredType(kind=Kind.CATEGORY, lookalike=find_lookalike(names, NUMERIC_SHARE))
    if category.lookalike is not None and (len(names) > MAX_MIXED_LEVELS or identifier_reason(column, category)):
        return InferredType(kind=Kind.NUMBER)
    return category


def lookalike_warning(match: LookalikeMatch) -> str:
    """Explain why the texts of a category might be better as numbers, in words that follow the column's name."""
    what = f"{quote(match.example)} is {match.what.value}"
    return f"was read as a category, though {what}; to learn from its order, {LOOKALIKE_ADVICE[match.what]}"


def _infer_date(column: ColumnSums, names: list[str], share: float = NUMERIC_SHARE) -> InferredType | None:
    """The date that the texts are, as they say or as the rows are in order; UNUSED where nothing tells."""
    order, unclear = infer_date_order(names, share)
    if order is not None:
        return InferredType(kind=Kind.DATE, order=order)
    if unclear:
        order, unclear = infer_date_order(names, share, column.in_order)
        if order is not None:
            return InferredType(kind=Kind.DATE, order=order, from_row_order=True)
    return InferredType(kind=Kind.UNUSED, unused_reason=_UNCLEAR) if unclear else None


def declared_type(column: Column | ColumnSums, choice: DeclaredType) -> InferredType:
    """Type of a column that the specification names."""
    column = ColumnSums.of(column)
    match choice:
        case DeclaredType.IGNORE:
            return InferredType(kind=Kind.UNUSED)
        case DeclaredType.DATE:
            names = _names(column)
            numbers = infer_number_order(names, MIN_NUMBERS)
            inferred = None if numbers is not None else _infer_date(column, names, MIN_NUMBERS)
            return inferred or InferredType(kind=Kind.DATE, order=numbers or DateOrder.YEAR_FIRST)
        case DeclaredType.DAY_FIRST | DeclaredType.MONTH_FIRST:
            return InferredType(kind=Kind.DATE, order=DateOrder(choice.value))
        case _:
            return InferredType(kind=Kind(choice.value))


def identifier_reason(column: Column | ColumnSums, inferred: InferredType) -> str | None:
    """Return why the column only identifies rows: mostly unique text. Numbers never do."""
    if inferred.kind is not Kind.CATEGORY:
        return None
    levels = ColumnSums.of(column).levels
    if levels.cells < MIN_ROWS or levels.distinct <= MOSTLY_UNIQUE * levels.cells:
        return None
    if levels.all_different:
        return "is different text in every row"
    about = "" if levels.complete else "about "
    return f"is mostly unique text ({about}{levels.distinct:,} different values in {plural(levels.cells, 'cell')})"


def missing_cells(column: Column, inferred: InferredType) -> BoolArray:
    """Return which cells of a column, or of a part of one, are missing, (m,)."""
    if inferred.kind is Kind.NUMBER:
        return column.numbers.missing
    if inferred.kind is Kind.CATEGORY:
        return np.asarray(column.levels.codes < 0)
    return parse_by_level(column, inferred.kind, inferred.order)[1]


def invalid_rows(column: Column, inferred: InferredType) -> IntArray:
    """Rows of the cells that are not of the column's kind."""
    if inferred.kind is Kind.NUMBER:
        return column.numbers.invalid
    if inferred.kind is Kind.CATEGORY:
        return np.empty(0, dtype=np.int64)
    return parse_by_level(column, inferred.kind, inferred.order)[2]


def constant_value(column: Column | ColumnSums, inferred: InferredType) -> str | None:
    """The one value of a column that has only one, as shown to people; missing cells aside."""
    column = ColumnSums.of(column)
    if inferred.kind is Kind.CATEGORY:
        levels = column.levels
        return repr(next(iter(levels.counts))) if levels.distinct == 1 else None
    cells = column.cells(inferred.kind, inferred.order)
    if cells.invalid:
        return None
    if inferred.kind is not Kind.NUMBER:
        return repr(column.levels.names()[0]) if cells.ends.constant else None
    offset = column.numbers.offset
    ends = column.ends(offset)
    return repr(add_offset(ends.first, offset)) if ends.constant else None


def _is_padded(column: ColumnSums) -> bool:
    """Return whether digits are codes: `02134` among texts of one length, or often."""
    if not column.numbers.padded:
        return False
    counts = {name: count for name, count in column.levels.counts.items() if name not in MISSING_TEXTS and name != "?"}
    padded = sum(count for name, count in counts.items() if _PADDED.fullmatch(name))
    if padded == 0 or not all(name.isascii() and name.isdigit() for name in counts):
        return False
    return len({len(name) for name in counts}) == 1 or padded >= _PADDED_SHARE * sum(counts.values())


def _names(column: ColumnSums) -> list[str]:
    return [name for name in column.levels.names() if name not in MISSING_TEXTS]
