"""Dates and timestamps as microseconds since 1970 in UTC, and as the numbers that a model learns from.

`2013-01-31`, `2013/01/31`, either with a time (`2013-01-31 05:00`, `2013-01-31T05:00:00.25Z`, `..+01:00`), and
`31/01/2013`, `31.01.2013`, `31-01-2013` with or without a time. Whether `10/03/2004` begins with the day or with the
month is a matter of the whole column: some cell has to tell, else it is not read. A time without a zone is UTC.
"""

import math
import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from enum import StrEnum

import numpy as np

from app.tables.cells import BLANKS, FloatArray, IntArray

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_DAY = 86_400_000_000

_TIME = (
    r"(?:[T ](?P<hour>[01]?[0-9]|2[0-3]):(?P<minute>[0-5][0-9])"
    r"(?::(?P<second>[0-5][0-9])(?:\.(?P<fraction>[0-9]{1,9}))?)?"
    r"\s?(?P<zone>Z|UTC|[+-][0-9]{2}:?[0-9]{2})?)?"
)
_YEAR_FIRST = re.compile(r"(?P<year>[0-9]{4})(?P<mark>[-/])(?P<one>[0-9]{1,2})(?P=mark)(?P<two>[0-9]{1,2})" + _TIME)
_YEAR_LAST = re.compile(r"(?P<one>[0-9]{1,2})(?P<mark>[-/.])(?P<two>[0-9]{1,2})(?P=mark)(?P<year>[0-9]{4})" + _TIME)


class DateOrder(StrEnum):
    """How dates that end with the year begin; those that begin with it are always year, month, day."""

    YEAR_FIRST = "year-first"
    DAY_FIRST = "day-first"
    MONTH_FIRST = "month-first"


class Cycle(StrEnum):
    """What of a date comes round again; each is a sine and a cosine."""

    DAY = "day"
    WEEK = "week"
    YEAR = "year"


def parse_date(text: str, order: DateOrder) -> int | None:
    """Microseconds since 1970, None for what is no date in this order."""
    text = text.strip(BLANKS)
    found = _YEAR_FIRST.fullmatch(text)
    month, day = "one", "two"
    if found is None:
        found = _YEAR_LAST.fullmatch(text)
        if found is None or order is DateOrder.YEAR_FIRST:
            return None
        if order is DateOrder.DAY_FIRST:
            month, day = "two", "one"
    try:
        when = datetime(
            int(found["year"]),
            int(found[month]),
            int(found[day]),
            int(found["hour"] or 0),
            int(found["minute"] or 0),
            int(found["second"] or 0),
            int((found["fraction"] or "0")[:6].ljust(6, "0")),
            tzinfo=UTC,
        )
        return (when - _offset(found["zone"]) - _EPOCH) // _MICROSECOND
    except (ValueError, OverflowError):
        return None


def _offset(zone: str | None) -> timedelta:
    if zone in (None, "Z", "UTC"):
        return timedelta(0)
    digits = str(zone)[1:].replace(":", "")
    offset = timedelta(hours=int(digits[:2]), minutes=int(digits[2:]))
    return -offset if str(zone).startswith("-") else offset


def find_order(texts: Sequence[str], share: float) -> tuple[DateOrder | None, bool]:
    """The order in which at least `share` of the texts are dates; and whether they are dates but do not tell it."""
    sample = [text.strip(BLANKS) for text in texts[:20]]
    if not any(_YEAR_FIRST.fullmatch(text) or _YEAR_LAST.fullmatch(text) for text in sample):
        return None, False
    counts = {order: sum(parse_date(text, order) is not None for text in texts) for order in DateOrder}
    enough = [order for order in DateOrder if counts[order] >= max(1.0, share * len(texts))]
    if DateOrder.YEAR_FIRST in enough:
        return DateOrder.YEAR_FIRST, False
    if not enough:
        return None, False
    marks = {found["mark"] for text in texts if (found := _YEAR_LAST.fullmatch(text.strip(BLANKS)))}
    if marks == {"."} and DateOrder.DAY_FIRST in enough:  # nobody writes the month first with points
        return DateOrder.DAY_FIRST, False
    day, month = counts[DateOrder.DAY_FIRST], counts[DateOrder.MONTH_FIRST]
    if day == month:
        return None, True
    return (DateOrder.DAY_FIRST if day > month else DateOrder.MONTH_FIRST), False


def days(micros: IntArray) -> FloatArray:
    """Days since 1970."""
    elapsed: FloatArray = micros / _DAY
    return elapsed


def waves(micros: IntArray, cycle: Cycle) -> FloatArray:
    """Where in the cycle each time is, as sine and cosine (n, 2)."""
    if cycle is Cycle.DAY:
        turn = (micros % _DAY) / _DAY
    elif cycle is Cycle.WEEK:
        turn = ((micros - 4 * _DAY) % (7 * _DAY)) / (7 * _DAY)  # 1970-01-05 was a Monday
    else:
        at = micros.astype("datetime64[us]")
        start = at.astype("datetime64[Y]")
        length = (start + 1).astype("datetime64[us]") - start.astype("datetime64[us]")
        turn = (at - start.astype("datetime64[us]")).astype(np.int64) / length.astype(np.int64)
    angle = 2.0 * math.pi * turn
    return np.column_stack([np.sin(angle), np.cos(angle)])


def cycles(micros: IntArray) -> tuple[Cycle, ...]:
    """The cycles that tell these times apart."""
    return tuple(cycle for cycle in Cycle if len(micros) and np.ptp(waves(micros, cycle), axis=0).max() > 1e-9)
