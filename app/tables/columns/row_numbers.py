"""Columns that number the rows: the index of a data frame, which is left out, and what looks like one, which is told.

Numbers say something even where they only rise: a year, a time, a table sorted by a column. So no named column is left
out because of them. The index of a data frame has no name, and would be another one at prediction time.
"""

import re
from typing import Final

import numpy as np

from app.tables.columns.sums import ColumnSums
from app.tables.columns.table import Column

_MIN_ROWS = 5  # rows from which on counting is no coincidence
_STEPS = 0.9  # share of the steps by one from which on repeated numbers are those of data frames put together
_NAMES: Final = frozenset(
    ("id", "index", "idx", "row", "rowid", "rownum", "rownumber", "rownames", "nr", "no", "number", "obs", "order")
)
_NAMELESS = re.compile(r"unnamed: ?[0-9]+(\.[0-9]+)?|column_1|level_[0-9]+|__index_level_[0-9]+__|#")
_ID = re.compile(r"(.*[^a-z0-9])?(id|index|idx)|.*[a-z](ID|Id)")


def row_number_start(name: str, column: Column | ColumnSums) -> int | None:
    """0 or 1 where name and cells are those of a row number that counts from there, in any order; O(n)."""
    column = ColumnSums.of(column)
    if not _is_name(name) or len(column) < _MIN_ROWS or not column.numbers.all_whole:
        return None
    ends = column.numbers.ends
    if ends.low not in (0.0, 1.0) or ends.high != ends.low + len(column) - 1.0:
        return None
    start = int(ends.low)
    return start if column.counts_from(start) else None


def _is_name(name: str) -> bool:
    letters = re.sub(r"[\W_]+", "", name.casefold())
    return letters in _NAMES or _NAMELESS.fullmatch(name.casefold()) is not None or _ID.fullmatch(name) is not None


def is_index(column: Column | ColumnSums) -> bool:
    """Return whether the cells of a column without a name are those of a data frame's index: whole numbers that are all
    different (of a large table its sample), or that count up from several starts.
    """
    column = ColumnSums.of(column)
    if not column.numbers.all_whole:
        return False
    values = column.values()
    return len(np.unique(values)) == len(values) or column.steps() >= _STEPS
