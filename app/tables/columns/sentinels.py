"""Numbers that stand for a missing cell, such as -200 or 9999: a value that is written as a code, repeats exactly, and
lies apart from all others of its column. They are told, never taken out unasked.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from app.tables.columns.cell_errors import plural
from app.tables.columns.cells import FloatArray

_MIN_ROWS = 5
_MIN_SHARE = 0.01
_MIN_OTHERS = 3  # distinct values: of fewer nothing is far
_MIN_UNSIGNED = 10  # the same where only the sign sets the value apart
_FAR = 5.0  # interquartile ranges
_NAMED = 20  # columns that a warning lists
_LIMITS: Final = frozenset(
    {2.0**15 - 1, 2.0**15, 2.0**16 - 1, 2.0**31 - 1, 2.0**31, 2.0**32 - 1, 2.0**63, 2.0**64, 9.969209968386869e36}
    | {float(np.finfo(kind).max) for kind in (np.float32, np.float64)}
)
"""Sizes at which machines' numbers end, and netCDF's filling."""
_WHOLE = 2.0**24  # integers up to it are what they are in single precision
_LARGEST_SINGLE = float(np.finfo(np.float32).max)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sentinel:
    """Value that stands in `count` of the column's cells that have a number; low and high: of all others."""

    value: float
    count: int
    low: float
    high: float


def find_sentinels(numbers: FloatArray) -> list[Sentinel]:
    """The values of a column that look like a code for a missing cell. numbers: NaN where there is none already.

    Such a value stands in 1% of the cells and in 5, is written as a code is, and is further from the others than they
    are from each other, or the only one below zero. O(n), and O(n log n) where the least or the largest is a code.
    """
    present = numbers[~np.isnan(numbers)]
    if not len(present) or not may_be_sentinel(float(present.min()), float(present.max())):
        return []
    values, counts = np.unique(present, return_counts=True)
    often = counts >= max(_MIN_ROWS, _MIN_SHARE * len(present))
    coded = np.array([bool(many) and _is_code(value) for value, many in zip(values.tolist(), often, strict=True)])
    others = values[~coded]
    if len(others) < _MIN_OTHERS:
        return []
    low, high = float(others[0]), float(others[-1])
    reach = high - low
    with np.errstate(over="ignore"):  # the differences of huge numbers
        first, third = np.quantile(present[~np.isin(present, values[coded])], [0.25, 0.75])
        if third > first:
            reach = min(reach, _FAR * float(third - first))
    return [
        Sentinel(value=value, count=count, low=low, high=high)
        for value, count in zip(values[coded].tolist(), counts[coded].tolist(), strict=True)
        if max(low - value, value - high) > reach
        or (value < 0.0 <= low and (len(others) >= _MIN_UNSIGNED or value < -1.0))
    ]


def may_be_sentinel(low: float, high: float) -> bool:
    """Return whether one of the ends of a column's numbers, NaN of none, may be a code for a missing cell."""
    return not math.isnan(low) and (_is_code(low) or _is_code(high))


def as_written(value: float) -> float:
    """The number that was written where single precision has rounded it: -999.9 for -999.9000244140625."""
    if (value.is_integer() and abs(value) < _WHOLE) or abs(value) > _LARGEST_SINGLE:
        return value
    single = np.float32(value)
    return float(str(single)) if float(single) == value else value


def _is_code(value: float) -> bool:
    """Return whether people or machines write this for "no value": nines, -1, -200, 88, machine limits."""
    if abs(value) in _LIMITS:
        return True
    value = as_written(value)
    size = abs(value)
    if size < 1.0:
        return False
    if size >= 1e8:  # single precision makes such powers of nines
        return size == 10.0 ** round(math.log10(size)) or (size < 1e15 and set(repr(int(size))) == {"9"})
    digits = repr(size).removesuffix(".0")
    figures = set(digits) - {"."}
    if figures == {"9"} or (figures in ({"7"}, {"8"}) and len(digits) > 1 and "." not in digits):
        return True
    return value == -1.0 or (value <= -100.0 and set(digits[1:]) == {"0"})


def sentinel_warnings(found: Mapping[str, list[Sentinel]]) -> list[str]:
    """A warning for each value, naming the columns."""
    places: dict[float, dict[str, Sentinel]] = {}
    for name, sentinels in found.items():
        for sentinel in sentinels:
            places.setdefault(as_written(sentinel.value), {})[name] = sentinel
    warnings = []
    for value, columns in places.items():
        listed = [f"{name!r} {sentinel.count:,}" for name, sentinel in columns.items()]
        more = f" and {plural(len(listed) - _NAMED, 'more column')}" if len(listed) > _NAMED else ""
        warnings.append(
            f"{as_shown(value)} repeats far from the other values of its column (cells by column: "
            f"{', '.join(listed[:_NAMED])}{more}) and was read as a number; {missing_value_advice(value)}"
        )
    return warnings


def target_sentinel_warnings(name: str, sentinels: Sequence[Sentinel]) -> list[str]:
    """A warning for each value of the target, which is to stand before all others: such rows would be learnt from."""
    return [
        f"the target {name!r} is {as_shown(sentinel.value)} in {plural(sentinel.count, 'row')}, far from its other "
        f"values ({as_shown(sentinel.low)} to {as_shown(sentinel.high)}), and was learnt as it stands: error bars and "
        f"scores are those of predicting it too; {missing_value_advice(sentinel.value)}, and such rows are left out"
        for sentinel in sentinels
    ]


def describe(sentinel: Sentinel) -> str:
    """The same for one column, in words that follow its name."""
    return (
        f"{as_shown(sentinel.value)} stands in {plural(sentinel.count, 'cell')}, the other values are "
        f"{as_shown(sentinel.low)} to {as_shown(sentinel.high)}; {missing_value_advice(sentinel.value)}"
    )


def missing_value_advice(value: float) -> str:
    """Advise how to say that a value means a missing cell."""
    return f'if it stands for a missing cell, say "missing_values": [{as_shown(value)}]'


def as_shown(value: float) -> str:
    """Return the number as JSON has it: an integer without its point, and as before single precision rounded it."""
    value = as_written(value)
    return repr(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
