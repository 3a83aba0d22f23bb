"""Type of a column: inferred from all its cells, or as the specification says."""

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

import numpy as np
import pyarrow.compute as pc

from app.tables.columns.cell_errors import plural
from app.tables.columns.cells import FloatArray, IntArray, quote
from app.tables.columns.dates import DateOrder, infer_date_order, infer_number_order
from app.tables.columns.dates_and_booleans import MISSING_TEXTS, parse_by_level
from app.tables.columns.integers import add_offset
from app.tables.columns.lookalikes import LOOKALIKE_ADVICE, LookalikeMatch, find_lookalike
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


def infer_type(column: Column) -> InferredType:
    """NUMBER, BOOLEAN, DATE or CATEGORY, or UNUSED where no cell has a value. O(n)."""
    numbers = column.numbers
    present = len(column) - int(np.count_nonzero(numbers.missing))
    if present == 0:
        return InferredType(kind=Kind.UNUSED, unused_reason="is empty in every row")
    numeric = numbers.finite_count + numbers.unusable
    if numeric >= NUMERIC_SHARE * present:
        return InferredType(kind=Kind.CATEGORY if _is_padded(column) else Kind.NUMBER)
    names = _names(column)
    if names and {name.lower() for name in names} <= {"true", "false"}:
        return InferredType(kind=Kind.BOOLEAN)
    if numeric >= MIN_NUMBERS * present and len(names) > MAX_MIXED_LEVELS:
        return InferredType(kind=Kind.NUMBER)
    return _infer_date(column, names) or _infer_text(column, names)


def _infer_text(column: Column, names: list[str]) -> InferredType:
    """A category; or the number that it looks like, to be refused cell by cell, where a category would say nothing."""
    category = InferredType(kind=Kind.CATEGORY, lookalike=find_lookalike(names, NUMERIC_SHARE))
    if category.lookalike is not None and (len(names) > MAX_MIXED_LEVELS or identifier_reason(column, category)):
        return InferredType(kind=Kind.NUMBER)
    return category


def lookalike_warning(match: LookalikeMatch) -> str:
    """Explain why the texts of a category might be better as numbers, in words that follow the column's name."""
    what = f"{quote(match.example)} is {match.what.value}"
    return f"was read as a category, though {what}; to learn from its order, {LOOKALIKE_ADVICE[match.what]}"


def _infer_date(column: Column, names: list[str], share: float = NUMERIC_SHARE) -> InferredType | None:
    """The date that the texts are, as they say or as the rows are in order; UNUSED where nothing tells."""
    order, unclear = infer_date_order(names, share)
    if order is not None:
        return InferredType(kind=Kind.DATE, order=order)
    if unclear:
        order, unclear = infer_date_order(names, share, lambda values: _in_rows(column, names, values))
        if order is not None:
            return InferredType(kind=Kind.DATE, order=order, from_row_order=True)
    return InferredType(kind=Kind.UNUSED, unused_reason=_UNCLEAR) if unclear else None


def declared_type(column: Column, choice: DeclaredType) -> InferredType:
    """Type of a column that the specification names."""
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


def _in_rows(column: Column, names: list[str], values: FloatArray) -> FloatArray:
    """Return values[place] of names[place] for each row of the column."""
    known: Any = column.levels.names
    index = {name: place for place, name in enumerate(names)}
    places = np.array([index.get(name, -1) for name in known.to_pylist()], dtype=np.int64)
    return column.by_level(np.append(values, np.nan)[places])


def identifier_reason(column: Column, inferred: InferredType) -> str | None:
    """Return why the column only identifies rows: mostly unique text. Numbers never do."""
    if inferred.kind is not Kind.CATEGORY:
        return None
    counts = column.levels.counts()
    present = sum(counts.values())
    if present < MIN_ROWS or len(counts) <= MOSTLY_UNIQUE * present:
        return None
    if len(counts) == present:
        return "is different text in every row"
    return f"is mostly unique text ({len(counts):,} different values in {plural(present, 'cell')})"


def missing_rows(column: Column, inferred: InferredType) -> IntArray:
    """Rows of the missing cells."""
    if inferred.kind is Kind.NUMBER:
        return np.flatnonzero(column.numbers.missing)
    if inferred.kind is Kind.CATEGORY:
        return np.flatnonzero(column.levels.codes < 0)
    return np.flatnonzero(parse_by_level(column, inferred.kind, inferred.order)[1])


def invalid_rows(column: Column, inferred: InferredType) -> IntArray:
    """Rows of the cells that are not of the column's kind."""
    if inferred.kind is Kind.NUMBER:
        return column.numbers.invalid
    if inferred.kind is Kind.CATEGORY:
        return np.empty(0, dtype=np.int64)
    return parse_by_level(column, inferred.kind, inferred.order)[2]


def present_values(column: Column, inferred: InferredType) -> FloatArray:
    """The numbers of a number, boolean or date that is there; those of a number less the column's offset."""
    found = (
        column.minus(column.offset)
        if inferred.kind is Kind.NUMBER
        else parse_by_level(column, inferred.kind, inferred.order)[0]
    )
    present: FloatArray = found[~np.isnan(found)]
    return present


def constant_value(column: Column, inferred: InferredType) -> str | None:
    """The one value of a column that has only one, as shown to people; missing cells aside."""
    if inferred.kind is Kind.CATEGORY:
        levels = column.levels.present()
        return repr(levels[0]) if len(levels) == 1 else None
    if len(invalid_rows(column, inferred)):
        return None
    present = present_values(column, inferred)
    if not len(present) or present.min() != present.max():
        return None
    if inferred.kind is not Kind.NUMBER:
        return repr(column.levels.present()[0])
    return repr(add_offset(float(present[0]), column.offset))


def all_integers(numbers: FloatArray) -> bool:
    """Return whether all are integers."""
    return bool((numbers == np.floor(numbers)).all())


def _is_padded(column: Column) -> bool:
    """Return whether digits are codes: `02134` among texts of one length, or often."""
    if not _may_be_padded(column):
        return False
    counts = {
        name: count for name, count in column.levels.counts().items() if name not in MISSING_TEXTS and name != "?"
    }
    padded = sum(count for name, count in counts.items() if _PADDED.fullmatch(name))
    if padded == 0 or not all(name.isascii() and name.isdigit() for name in counts):
        return False
    return len({len(name) for name in counts}) == 1 or padded >= _PADDED_SHARE * sum(counts.values())


def _may_be_padded(column: Column) -> bool:
    """Look quickly whether there may be codes: nothing begins with zero and goes on with a digit."""
    return bool(pc.any(pc.match_substring_regex(column.texts, r"^[ \t]*0[0-9]")).as_py())


def _names(column: Column) -> list[str]:
    names: Any = column.levels.present()
    return [name for name in names if name not in MISSING_TEXTS]
