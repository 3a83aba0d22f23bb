"""Targets that lie so far from all others that errors are measured by them alone: mostly a slip of a hand or a sensor.

They are told, never left out unasked. Numbers that stand for a missing cell are those of `sentinels`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from app.tables.columns.cell_errors import plural
from app.tables.columns.cells import FloatArray
from app.tables.columns.sentinels import as_shown

_FAR = 10.0
_MOST, _MOST_SHARE = 10, 0.01
_MIN_OTHERS = 3  # distinct values: of fewer nothing is far
_LISTED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Outliers:
    """Values (k,), k > 0, that lie apart, by size; low and high: of all others."""

    values: tuple[float, ...]
    low: float
    high: float


def find_outliers(
    numbers: FloatArray, known: Sequence[float] = (), ends: tuple[float, float] | None = None
) -> Outliers | None:
    """The few values at either end that lie _FAR times as far from all others as these lie apart; None where none do.

    numbers: NaN where there is none. known: values that are told already. ends: of all numbers, where these are a
    sample of them. At most _MOST at an end, and _MOST_SHARE of all. O(n log n).
    """
    if ends is not None:
        numbers = np.append(numbers, [end for end in ends if not (numbers == end).any()])
    present = numbers[~(np.isnan(numbers) | np.isin(numbers, known))]
    most = min(_MOST, int(_MOST_SHARE * len(present)))
    if most == 0:
        return None
    parted, above = np.partition(present, (most, len(present) - 1 - most)), len(present) - most
    lowest, inner, highest = np.sort(parted[:most]), parted[most:above], np.sort(parted[above:])
    if len(np.unique(inner)) < _MIN_OTHERS:
        return None
    low, high = float(inner.min()), float(inner.max())
    near_low, near_high = _near(-lowest[::-1], -low, -high), _near(highest, high, low)
    far = (*lowest[: most - near_low].tolist(), *highest[near_high:].tolist())
    if not far:
        return None
    others = np.concatenate((lowest[most - near_low :], (low, high), highest[:near_high]))
    return Outliers(values=far, low=float(others.min()), high=float(others.max()))


def _near(ends: FloatArray, high: float, low: float) -> int:
    """Return how many values, increasing from `high` on, come before one that is far from all before it."""
    before = np.concatenate(((high,), ends[:-1]))
    with np.errstate(over="ignore"):  # the differences of huge numbers
        far = np.flatnonzero(ends - before > _FAR * (before - low))
    return int(far[0]) if len(far) else len(ends)


def outlier_warning(name: str, outliers: Outliers) -> str:
    """A warning for the target of this name."""
    values = outliers.values
    listed = ", ".join(map(as_shown, values[:_LISTED])) + (", .." if len(values) > _LISTED else "")
    return (
        f"the target {name!r} has {plural(len(values), 'value')} far from all others, which are "
        f"{as_shown(outliers.low)} to {as_shown(outliers.high)}: {listed}; scores of all rows are dominated by such a "
        "row, and the others are predicted less well for it: if it is a mistake, mend it, or leave the row out"
    )
