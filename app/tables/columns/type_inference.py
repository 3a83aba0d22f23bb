"""What a column is: guessed from all its cells, or as the specification says."""

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

import numpy as np
import pyarrow.compute as pc

from app.tables.columns.cell_errors import plural
from app.tables.columns.cells import FloatArray, IntArray, quote
from app.tables.columns.dates import DateOrder, find_number_order, find_order
from app.tables.columns.dates_and_booleans import GAPS, scan
from app.tables.columns.integers import with_offset
from app.tables.columns.lookalikes import INSTEAD, Seen, find_lookalike
from app.tables.columns.table import Column, Kind

MOST_LEVELS: Final = 50
"""Most distinct texts of a category that has numbers too; with more, it is numbers with mistakes."""
NUMERIC_SHARE: Final = 0.9
"""From this share of numbers (or dates) on, the rest of a column is taken for mistakes, not for categories."""
FEWEST_NUMBERS: Final = 0.5
"""The same for a column that would have more than MOST_LEVELS levels."""
FEWEST_ROWS: Final = 20
"""In fewer rows it is no wonder that all cells differ: nothing is taken for an identifier."""
MOSTLY_UNIQUE: Final = 0.5
"""Text with more distinct values than this share of its cells says nothing about other rows."""
_UNCLEAR = (
    "holds dates that may begin with the day or with the month (write YYYY-MM-DD, or say "
    'in "columns" that it is "day-first" or "month-first")'
)
_PADDED_SHARE = 0.1
_PADDED = re.compile(r"0[0-9]+")


class Choice(StrEnum):
    """What the specification may say that a column is."""

    NUMBER = "number"
    CATEGORY = "category"
    DATE = "date"
    DAY_FIRST = "day-first"
    MONTH_FIRST = "month-first"
    BOOLEAN = "boolean"
    IGNORE = "ignore"


@dataclass(frozen=True, slots=True, kw_only=True)
class Guess:
    """kind; order: of a date; decided: the order of the rows told it. useless: why the column is better left out, in
    words that follow its name. seen: what a category looks like that could have been a number."""

    kind: Kind
    order: DateOrder | None = None
    decided: bool = False
    useless: str | None = None
    seen: Seen | None = None


def guess_kind(column: Column) -> Guess:
    """NUMBER, BOOLEAN, DATE or CATEGORY, or UNUSED where no cell has a value. O(n)."""
    numbers = column.numbers
    present = len(column) - int(np.count_nonzero(numbers.missing))
    if present == 0:
        return Guess(kind=Kind.UNUSED, useless="is empty in every row")
    meant = numbers.finite + numbers.meant
    if meant >= NUMERIC_SHARE * present:
        return Guess(kind=Kind.CATEGORY if _is_padded(column) else Kind.NUMBER)
    names = _names(column)
    if names and {name.lower() for name in names} <= {"true", "false"}:
        return Guess(kind=Kind.BOOLEAN)
    if meant >= FEWEST_NUMBERS * present and len(names) > MOST_LEVELS:
        return Guess(kind=Kind.NUMBER)
    return _guess_date(column, names) or _guess_text(column, names)


def _guess_text(column: Column, names: list[str]) -> Guess:
    """A category; or the number that it looks like, to be refused cell by cell, where a category would say nothing."""
    category = Guess(kind=Kind.CATEGORY, seen=find_lookalike(names, NUMERIC_SHARE))
    if category.seen is not None and (len(names) > MOST_LEVELS or identifies(column, category)):
        return Guess(kind=Kind.NUMBER)
    return category


def tell_lookalike(seen: Seen) -> str:
    """Why the texts of a category might be better as numbers, in words that follow the column's name."""
    what = f"{quote(seen.example)} is {seen.what.value}"
    return f"was read as a category, though {what}; to learn from its order, {INSTEAD[seen.what]}"


def _guess_date(column: Column, names: list[str], share: float = NUMERIC_SHARE) -> Guess | None:
    """The date that the texts are, as they say or as the rows are in order; UNUSED where nothing tells."""
    order, unclear = find_order(names, share)
    if order is not None:
        return Guess(kind=Kind.DATE, order=order)
    if unclear:
        order, unclear = find_order(names, share, lambda values: _in_rows(column, names, values))
        if order is not None:
            return Guess(kind=Kind.DATE, order=order, decided=True)
    return Guess(kind=Kind.UNUSED, useless=_UNCLEAR) if unclear else None


def chosen_kind(column: Column, choice: Choice) -> Guess:
    """The guess for a column that the specification names."""
    match choice:
        case Choice.IGNORE:
            return Guess(kind=Kind.UNUSED)
        case Choice.DATE:
            names = _names(column)
            numbers = find_number_order(names, FEWEST_NUMBERS)
            guess = None if numbers is not None else _guess_date(column, names, FEWEST_NUMBERS)
            return guess or Guess(kind=Kind.DATE, order=numbers or DateOrder.YEAR_FIRST)
        case Choice.DAY_FIRST | Choice.MONTH_FIRST:
            return Guess(kind=Kind.DATE, order=DateOrder(choice.value))
        case _:
            return Guess(kind=Kind(choice.value))


def _in_rows(column: Column, names: list[str], values: FloatArray) -> FloatArray:
    """values[place] of names[place] for each row of the column."""
    known: Any = column.levels.names
    index = {name: place for place, name in enumerate(names)}
    places = np.array([index.get(name, -1) for name in known.to_pylist()], dtype=np.int64)
    return column.by_level(np.append(values, np.nan)[places])


def identifies(column: Column, guess: Guess) -> str | None:
    """Why the column tells rows apart and no more: text that hardly ever comes twice. Numbers never do."""
    if guess.kind is not Kind.CATEGORY:
        return None
    counts = column.levels.counts()
    present = sum(counts.values())
    if present < FEWEST_ROWS or len(counts) <= MOSTLY_UNIQUE * present:
        return None
    if len(counts) == present:
        return "is different text in every row"
    return f"is text that hardly comes twice ({len(counts):,} different values in {plural(present, 'cell')})"


def gaps(column: Column, guess: Guess) -> IntArray:
    """Rows of the missing cells."""
    if guess.kind is Kind.NUMBER:
        return np.flatnonzero(column.numbers.missing)
    if guess.kind is Kind.CATEGORY:
        return np.flatnonzero(column.levels.codes < 0)
    return np.flatnonzero(scan(column, guess.kind, guess.order)[1])


def wrong(column: Column, guess: Guess) -> IntArray:
    """Rows of the cells that are not of the column's kind."""
    if guess.kind is Kind.NUMBER:
        return column.numbers.bad
    if guess.kind is Kind.CATEGORY:
        return np.empty(0, dtype=np.int64)
    return scan(column, guess.kind, guess.order)[2]


def values(column: Column, guess: Guess) -> FloatArray:
    """The numbers of a number, boolean or date that is there; those of a number less the column's offset."""
    found = column.less(column.offset) if guess.kind is Kind.NUMBER else scan(column, guess.kind, guess.order)[0]
    present: FloatArray = found[~np.isnan(found)]
    return present


def only_value(column: Column, guess: Guess) -> str | None:
    """The one value of a column that has only one, as shown to people; missing cells aside."""
    if guess.kind is Kind.CATEGORY:
        levels = column.levels.present()
        return repr(levels[0]) if len(levels) == 1 else None
    if len(wrong(column, guess)):
        return None
    present = values(column, guess)
    if not len(present) or present.min() != present.max():
        return None
    if guess.kind is not Kind.NUMBER:
        return repr(column.levels.present()[0])
    return repr(with_offset(float(present[0]), column.offset))


def is_whole(numbers: FloatArray) -> bool:
    """Whether all are integers."""
    return bool((numbers == np.floor(numbers)).all())


def _is_padded(column: Column) -> bool:
    """Whether digits are codes: `02134` among texts of one length, or often."""
    if not _may_be_padded(column):
        return False
    counts = {name: count for name, count in column.levels.counts().items() if name not in GAPS and name != "?"}
    padded = sum(count for name, count in counts.items() if _PADDED.fullmatch(name))
    if padded == 0 or not all(name.isascii() and name.isdigit() for name in counts):
        return False
    return len({len(name) for name in counts}) == 1 or padded >= _PADDED_SHARE * sum(counts.values())


def _may_be_padded(column: Column) -> bool:
    """A look that is quick where nothing begins with zero and goes on with a digit."""
    return bool(pc.any(pc.match_substring_regex(column.texts, r"^[ \t]*0[0-9]")).as_py())


def _names(column: Column) -> list[str]:
    names: Any = column.levels.present()
    return [name for name in names if name not in GAPS]
