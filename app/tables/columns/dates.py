"""Dates and timestamps as microseconds since 1970 in UTC, and as the numbers that a model learns from.

Read are `2013-01-31` (also with slashes or points), `31/01/2013`, `31.01.13`, `31-Jan-2013`, `Jan 31, 2013`, each
with a time or without (`05:00`, `T05:00:00.25Z`, `5:00 PM`, `+01:00`), months (`2013-01`, `Jan 2013`), quarters
(`2013Q1`) and weeks (`2013-W05`), which stand for their first day. Whether `10/03/2004` begins with the day or with the
month is a matter of the whole column: some cell has to tell, or the order of the rows, else it is not read. Years of
two digits are 1969 to 2068. Numbers such as 20130131 are dates only where the specification says so. A time without a
zone is UTC.
"""

import math
import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import lru_cache
from typing import Final

import numpy as np

from app.tables.columns.cells import BLANKS, FloatArray, IntArray

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_DAY = 86_400_000_000
_YEARS = range(1900, 2101)  # of numbers that are to be dates

_TIME = (
    r"(?:(?:T|,? )(?P<hour>[01]?[0-9]|2[0-3])(?::(?P<minute>[0-5][0-9])"
    r"(?::(?P<second>[0-5][0-9])(?:\.(?P<fraction>[0-9]{1,9}))?)?)?"
    r"(?: ?(?P<half>[AaPp])\.?[Mm]\.?)?"
    r" ?(?P<zone>Z|UTC|GMT|[+-][0-9]{2}:?[0-9]{2})?)?"
)
_WHOLE_NAMES: Final = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)
_MONTHS: Final = {
    **{name: month for month, name in enumerate(_WHOLE_NAMES, start=1)},
    **{name[:3]: month for month, name in enumerate(_WHOLE_NAMES, start=1)},
    "sept": 9,
}
_NAMES = "|".join(sorted(_MONTHS, key=len, reverse=True))
_NAME = rf"(?P<name>{_NAMES})\.?"
_WEEKDAY = r"(?:(?:mon|tue|wed|thu|fri|sat|sun)[a-z]*,? )?"
_YEAR_FIRST = re.compile(r"(?P<year>[0-9]{4})(?P<mark>[-/.])(?P<one>[0-9]{1,2})(?P=mark)(?P<two>[0-9]{1,2})" + _TIME)
_YEAR_LAST = re.compile(
    r"(?P<one>[0-9]{1,2})(?P<mark>[-/.])(?P<two>[0-9]{1,2})(?P=mark)(?P<year>[0-9]{4}|[0-9]{2})" + _TIME
)
_SURE: Final = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"{_WEEKDAY}(?P<two>[0-9]{{1,2}})[-/. ]{_NAME}[-/., ]+(?P<year>[0-9]{{4}}|[0-9]{{2}}){_TIME}",
        rf"{_WEEKDAY}{_NAME}[- ](?P<two>[0-9]{{1,2}})(?:st|nd|rd|th)?,? (?P<year>[0-9]{{4}}){_TIME}",
        rf"(?P<year>[0-9]{{4}})[-/. ]{_NAME}[-/. ](?P<two>[0-9]{{1,2}}){_TIME}",
        rf"{_NAME}[-/. ](?P<year>[0-9]{{4}})",
        r"(?P<year>[0-9]{4})[-/](?P<one>0[1-9]|1[0-2])",
        r"(?P<one>0?[1-9]|1[0-2])/(?P<year>[0-9]{4})",
        r"(?P<year>[0-9]{4})[- /]?Q(?P<quarter>[1-4])|Q(?P<quarter_>[1-4])[- /]?(?P<year_>[0-9]{4})",
        r"(?P<year>[0-9]{4})-?W(?P<week>[0-4][0-9]|5[0-3])(?:-?(?P<weekday>[1-7]))?",
        r"(?P<year>[0-9]{4})(?P<one>[0-9]{2})(?P<two>[0-9]{2})[T ](?P<hour>[0-9]{2}):?(?P<minute>[0-9]{2})"
        r"(?::?(?P<second>[0-9]{2})(?:\.(?P<fraction>[0-9]{1,9}))?)?(?P<zone>Z|[+-][0-9]{2}:?[0-9]{2})?",
    )
)
"""Dates that say themselves which part is which."""
_LIKE = re.compile(
    rf"[0-9]{{1,4}}([-/. ])[0-9]{{1,2}}\1[0-9]{{1,4}}\b.*|[0-9]{{1,4}}[-/. ]*\b(?:{_NAMES}|weeks?)\b.*"
    rf"|(?:{_NAMES}|weeks?)\.?[- ,]+[0-9]{{1,4}}\b.*"
    r"|[0-9]{4}[-/][0-9]{1,2}|.*\b(19|20)[0-9]{2}\b.*[0-9]:[0-9]{2}.*",
    re.IGNORECASE,
)
_MAX_LENGTH = 40  # characters of a date


class DateOrder(StrEnum):
    """The order of day, month and year in a column, where its dates leave it open; or the unit of its numbers."""

    YEAR_FIRST = "year-first"
    DAY_FIRST = "day-first"
    MONTH_FIRST = "month-first"
    YEARS = "YYYY"
    MONTHS = "YYYYMM"
    DAYS = "YYYYMMDD"
    HOURS = "YYYYMMDDhh"
    MINUTES = "YYYYMMDDhhmm"
    SECONDS = "YYYYMMDDhhmmss"
    UNIX_SECONDS = "seconds since 1970"
    UNIX_MILLISECONDS = "milliseconds since 1970"
    UNIX_MICROSECONDS = "microseconds since 1970"
    UNIX_NANOSECONDS = "nanoseconds since 1970"


TEXT_ORDERS: Final = (DateOrder.YEAR_FIRST, DateOrder.DAY_FIRST, DateOrder.MONTH_FIRST)
"""Orders of text; the others are of numbers that are declared to be dates."""
_DIGITS: Final = {
    DateOrder.YEARS: (4, "%Y"),
    DateOrder.MONTHS: (6, "%Y%m"),
    DateOrder.DAYS: (8, "%Y%m%d"),
    DateOrder.HOURS: (10, "%Y%m%d%H"),
    DateOrder.MINUTES: (12, "%Y%m%d%H%M"),
    DateOrder.SECONDS: (14, "%Y%m%d%H%M%S"),
}
_PER_SECOND: Final = {
    DateOrder.UNIX_SECONDS: 1,
    DateOrder.UNIX_MILLISECONDS: 10**3,
    DateOrder.UNIX_MICROSECONDS: 10**6,
    DateOrder.UNIX_NANOSECONDS: 10**9,
}
_LIKELY_TIMES = (631_152_000, 2_524_608_000)  # seconds of 1990 and of 2050
_UNIX_SPAN = range(10**8, 5 * 10**9)  # seconds: 1973 to 2128
_NUMBER = re.compile(r"([0-9]+)(?:\.([0-9]*))?")


class Cycle(StrEnum):
    """Periodic part of a date; each is a sine and a cosine."""

    DAY = "day"
    WEEK = "week"
    YEAR = "year"


def parse_date(text: str, order: DateOrder) -> int | None:
    """Microseconds since 1970, None for what is no date in this order."""
    text = text.strip(BLANKS)
    if len(text) > _MAX_LENGTH or not any(map(str.isdecimal, text)):
        return None
    if order not in TEXT_ORDERS and (found := _NUMBER.fullmatch(text)):
        return _parse_numeric(found[1], found[2] or "", order)
    found = _YEAR_FIRST.fullmatch(text)
    if found is not None:
        return _micros(found, "one", "two")
    found = _YEAR_LAST.fullmatch(text)
    if found is None:
        return _parse_unambiguous(text)
    if order is DateOrder.DAY_FIRST:
        return _micros(found, "two", "one")
    return _micros(found, "one", "two") if order is DateOrder.MONTH_FIRST else None


@lru_cache(maxsize=4096)
def _parse_unambiguous(text: str) -> int | None:
    """A date that says which part is which; asked for every order in turn."""
    found = next((match for pattern in _SURE if (match := pattern.fullmatch(text))), None)
    return None if found is None else _micros(found, "one", "two")


def _micros(found: re.Match[str], month: str, day: str) -> int | None:
    parts = found.groupdict()
    try:
        year = _year(parts["year"] or parts["year_"])
        if week := parts.get("week"):
            when = datetime.fromisocalendar(year, int(week), int(parts["weekday"] or 1)).replace(tzinfo=UTC)
            return (when - _EPOCH) // _MICROSECOND
        when = datetime(
            year,
            _month(parts, month),
            int(parts.get(day) or 1),
            _hour(parts),
            int(parts.get("minute") or 0),
            int(parts.get("second") or 0),
            int((parts.get("fraction") or "0")[:6].ljust(6, "0")),
            tzinfo=UTC,
        )
        return (when - _offset(parts.get("zone")) - _EPOCH) // _MICROSECOND
    except (ValueError, OverflowError):
        return None


def _year(text: str) -> int:
    year = int(text)
    if len(text) == 4:
        return year
    return year + (1900 if year >= 69 else 2000)


def _month(parts: dict[str, str | None], month: str) -> int:
    if name := parts.get("name"):
        return _MONTHS[name.lower()]
    if quarter := parts.get("quarter") or parts.get("quarter_"):
        return 3 * int(quarter) - 2
    return int(parts.get(month) or 1)


def _hour(parts: dict[str, str | None]) -> int:
    """ValueError for an hour without minutes and half of the day, and for one beyond that half."""
    if parts.get("hour") is None:
        return 0
    hour, half = int(parts["hour"] or 0), parts.get("half")
    if half is None:
        if parts.get("minute") is None:
            raise ValueError("an hour alone")
        return hour
    if not 1 <= hour <= 12:
        raise ValueError("no hour of half a day")
    return hour % 12 + (12 if half in "Pp" else 0)


def _offset(zone: str | None) -> timedelta:
    if zone is None or zone.upper() in ("Z", "UTC", "GMT"):
        return timedelta(0)
    digits = zone[1:].replace(":", "")
    offset = timedelta(hours=int(digits[:2]), minutes=int(digits[2:]))
    return -offset if zone.startswith("-") else offset


def _parse_numeric(whole: str, fraction: str, order: DateOrder) -> int | None:
    """Read a number that is declared to be a date."""
    if order in _PER_SECOND:
        ticks = int(whole) * 10**6 + int((fraction or "0")[:6].ljust(6, "0"))
        micros = ticks // _PER_SECOND[order]
        return micros if micros // 10**6 in _UNIX_SPAN else None
    size, pattern = _DIGITS[order]
    if len(whole) != size or fraction.strip("0"):
        return None
    try:
        when = datetime.strptime(whole, pattern).replace(tzinfo=UTC)
    except ValueError:
        return None
    return (when - _EPOCH) // _MICROSECOND if when.year in _YEARS else None


def infer_number_order(texts: Sequence[str], share: float) -> DateOrder | None:
    """Return the order of numbers that are declared to be dates: at least `share` of the texts can be it."""
    for order in (*_DIGITS, *_PER_SECOND):
        if sum(parse_date(text, order) is not None for text in texts) >= max(1.0, share * len(texts)):
            return order
    return None


def looks_like_dates(texts: Sequence[str], share: float) -> bool:
    """Return whether people would take at least `share` of some texts for dates, whatever they say."""
    return len(texts) > 1 and sum(_LIKE.fullmatch(text) is not None for text in texts) >= share * len(texts)


def may_be_dates(low: float, high: float) -> bool:
    """Return whether `infer_number_dates` may find something in numbers with these ends."""
    units = (10_000, 100)
    ranges = [(_YEARS[0] * unit, _YEARS[-1] * unit + unit - 1) for unit in units]
    ranges += [(_LIKELY_TIMES[0] * unit, _LIKELY_TIMES[1] * unit) for unit in _PER_SECOND.values()]
    return any(least <= low and high <= most for least, most in ranges)


def infer_number_dates(numbers: FloatArray) -> DateOrder | None:
    """Return what all of a column's numbers can be: days (20130131), months (201301) or times since 1970; else None.

    NaN is nothing.
    """
    present = numbers[~np.isnan(numbers)]
    if len(present) < 3 or present.min() == present.max():
        return None
    for order, unit in ((DateOrder.DAYS, 10_000), (DateOrder.MONTHS, 100)):
        if present.min() < _YEARS[0] * unit or present.max() > _YEARS[-1] * unit + unit - 1:
            continue
        distinct = np.unique(present)
        if len(distinct) > 2 and all(parse_date(repr(value), order) is not None for value in distinct.tolist()):
            return order
    return _unix_times(present)


def _unix_times(present: FloatArray) -> DateOrder | None:
    """Return the unit of times from 1990 to 2050 that are in order, or are whole minutes; None for other numbers."""
    if not (present == np.floor(present)).all():
        return None
    before, after = present[:-1], present[1:]  # compared, not subtracted: a difference of numbers may overflow
    in_order = bool((before <= after).all() or (before >= after).all())
    for order, unit in _PER_SECOND.items():
        likely = present.min() >= _LIKELY_TIMES[0] * unit and present.max() <= _LIKELY_TIMES[1] * unit
        if likely and (in_order or not np.any(present % (60 * unit))):
            return order
    return None


def infer_date_order(
    texts: Sequence[str], share: float, rises: Callable[[DateOrder], bool] | None = None
) -> tuple[DateOrder | None, bool]:
    """The order in which at least `share` of the texts are dates; and whether they are dates but do not tell it.

    rises: whether the rows only rise, or only fall, by an order of the dates. Where no cell tells, the order of which
    this is true is taken if it is the only one.
    """
    if not any(parse_date(text, order) is not None for text in texts[:20] for order in TEXT_ORDERS):
        return None, False
    counts = {order: sum(parse_date(text, order) is not None for text in texts) for order in TEXT_ORDERS}
    enough = [order for order in TEXT_ORDERS if counts[order] >= max(1.0, share * len(texts))]
    if DateOrder.YEAR_FIRST in enough:
        return DateOrder.YEAR_FIRST, False
    if not enough:
        return None, False
    marks = {found["mark"] for text in texts if (found := _YEAR_LAST.fullmatch(text.strip(BLANKS)))}
    if marks == {"."} and DateOrder.DAY_FIRST in enough:  # nobody writes the month first with points
        return DateOrder.DAY_FIRST, False
    day, month = counts[DateOrder.DAY_FIRST], counts[DateOrder.MONTH_FIRST]
    if day != month:
        return (DateOrder.DAY_FIRST if day > month else DateOrder.MONTH_FIRST), False
    ordered = [] if rises is None else list(filter(rises, enough))
    return (ordered[0], False) if len(ordered) == 1 else (None, True)


def shows_order(text: str) -> bool:
    """Return whether a date's own numbers say if it begins with the day or with the month, which separators do not."""
    found = _YEAR_LAST.fullmatch(text.strip(BLANKS))
    return found is not None and found["mark"] != "." and (int(found["one"]) > 12) != (int(found["two"]) > 12)


def has_short_year(text: str) -> bool:
    """Return whether a date has a year of two digits."""
    found = _YEAR_LAST.fullmatch(text.strip(BLANKS)) or _SURE[0].fullmatch(text.strip(BLANKS))
    return found is not None and len(found["year"]) == 2


def format_timestamp(micros: int) -> str:
    """A time as messages show it."""
    return (_EPOCH + timedelta(microseconds=micros)).isoformat().removesuffix("+00:00").removesuffix("T00:00:00")


def to_days(micros: IntArray) -> FloatArray:
    """Days since 1970."""
    elapsed: FloatArray = micros / _DAY
    return elapsed


def sine_cosine(micros: IntArray, cycle: Cycle) -> FloatArray:
    """Return the place of each time in the cycle as sine and cosine (n, 2)."""
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


def varying_cycles(micros: IntArray) -> tuple[Cycle, ...]:
    """The cycles that tell these times apart."""
    return tuple(cycle for cycle in Cycle if len(micros) and np.ptp(sine_cosine(micros, cycle), axis=0).max() > 1e-9)
