"""Columns of dates and of booleans, read level by level."""

from typing import Any, Final

import numpy as np

from app.tables.columns.cells import MISSING_TOKENS, BoolArray, FloatArray, IntArray
from app.tables.columns.dates import DateOrder, parse_date, to_days
from app.tables.columns.table import Column, Kind

MISSING_TEXTS: Final = frozenset((*MISSING_TOKENS, "NaT"))
"""Texts that stand for a missing date or boolean."""
BOOLEANS: Final = {"true": 1.0, "false": 0.0, "1": 1.0, "0": 0.0, "1.0": 1.0, "0.0": 0.0}
"""Booleans, in small letters; numbers only where a column is known to be boolean."""
DATE_PATTERNS: Final = {
    DateOrder.YEAR_FIRST: "YYYY-MM-DD",
    DateOrder.DAY_FIRST: "DD/MM/YYYY",
    DateOrder.MONTH_FIRST: "MM/DD/YYYY",
}
"""Patterns of dates of each order, for messages; numbers look as their order says."""


def date_pattern(order: DateOrder) -> str:
    """Return how a date of an order looks."""
    return DATE_PATTERNS.get(order, order.value)


def parse_by_level(column: Column, kind: Kind, order: DateOrder | None) -> tuple[FloatArray, BoolArray, IntArray]:
    """Dates or booleans as days or 0 and 1 (n,), NaN elsewhere; which cells are missing; the rows of the wrong ones."""
    names: Any = column.levels.names
    read = np.full(len(names), np.nan)
    void = np.zeros(len(names), dtype=np.bool_)
    micros = np.zeros(len(names), dtype=np.int64)
    for code, name in enumerate(names.to_pylist()):
        if name in MISSING_TEXTS:
            void[code] = True
        elif kind is Kind.BOOLEAN:
            read[code] = BOOLEANS.get(name.lower(), np.nan)
        else:
            when = parse_date(name, order or DateOrder.YEAR_FIRST)
            if when is not None:
                micros[code], read[code] = when, 0.0
    if kind is Kind.DATE:
        read += to_days(micros)
    codes = column.levels.codes
    missing = np.append(void, True)[codes]
    values = column.by_level(read)
    return values, missing, np.flatnonzero(np.isnan(values) & ~missing)
