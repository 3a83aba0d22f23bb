"""Columns that give the target away: what is known of them would not be known when a prediction is wanted.

A column alone: a copy of the target, or one in other units or on another scale (their ranks agree); the target rounded
or put into classes (the classes lie one beside the other, without gaps that the target has not elsewhere); or any
function of it (the target of a row against that of its neighbours in the order of the column, for a category of the
other rows of its level). Numbers together: the target as a weighted sum of them, by least squares, up to rounding. All
on a sample, each on the rows where its cells are there.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from app.tables.columns.cell_errors import list_names
from app.tables.columns.cells import FloatArray, IntArray
from app.tables.columns.table import Kind, Table
from app.tables.schema.schema import Schema

_ALONE = 0.002  # of the target's variance that a column leaves open; the noise counts one and a half times
_RANKS = 0.999  # correlation of ranks from which on one is a copy of the other
_CHANCE = math.log(1e6)  # to one that rows fall into separate classes
_TOGETHER = 1e-8
_ROUNDED = 0.002  # of the variance that rounding may leave open
_DECIMALS = 9
_SAMPLE = 20_000
_SUM_SAMPLE = 2_000
_MIN_ROWS = 30
_MAX_SUMMED = 200
_PERFECT = "predicts the target almost perfectly by itself"
_ADVICE = 'not known when predictions are wanted, leave {} out ("columns": {{"...": "ignore"}})'


def leak_warnings(tables: Mapping[str, Table], schema: Schema) -> list[str]:
    """Return the warnings of each target by its rows; of several targets they name it."""
    found = []
    for target, table in tables.items():
        told = find_leaks(table, replace(schema, target=target))
        found += [warning if len(tables) == 1 else f"target {target!r}: {warning}" for warning in told]
    return found


def find_leaks(table: Table, schema: Schema) -> Iterator[str]:
    """Warnings that name the columns. O(rows of the sample log)."""
    if table.rows < _MIN_ROWS:
        return
    rng = np.random.default_rng(0)
    if table.rows > _SAMPLE:
        sample = np.sort(rng.choice(table.rows, _SAMPLE, replace=False))
        table = table.sample(sample, [schema.target, *(feature.name for feature in schema.used)])
    y = table.columns[schema.target].numbers.values
    numbers: dict[str, FloatArray] = {}
    with np.errstate(all="ignore"):  # squares of huge numbers: they are no leak
        spread = float(np.var(y))
        if not np.isfinite(spread) or spread == 0.0:
            return
        for feature in schema.used:
            column = table.columns[feature.name]
            if feature.kind is Kind.NUMBER:
                x = column.minus(feature.offset)
                relation = _number(x, y, rng)
                if relation is None:
                    numbers[feature.name] = x
            elif feature.kind in (Kind.CATEGORY, Kind.BOOLEAN):
                relation = _category(column.levels.codes.astype(np.int64), y)
            else:
                continue
            if relation is not None:
                yield f"column {feature.name!r} {relation}: if it is {_ADVICE.format('it')}"
        summed, rounded = _weighted_sum(numbers, y)
        if len(summed) == 1:
            yield f"column {summed[0]!r} {_PERFECT}: if it is {_ADVICE.format('it')}"
        elif summed:
            what = "up to rounding a weighted sum" if rounded else "a weighted sum"
            yield f"the target is {what} of the columns {list_names(summed)}: if they are {_ADVICE.format('them')}"


def _number(x: FloatArray, y: FloatArray, rng: np.random.Generator) -> str | None:
    """Return what a column of numbers is to the target, in words that follow its name."""
    known = np.flatnonzero(np.isfinite(x))
    return None if len(known) < max(_MIN_ROWS, len(x) // 2) else _relation(x[known], y[known], rng)


def _relation(x: FloatArray, y: FloatArray, rng: np.random.Generator) -> str | None:
    values, codes = np.unique(x, return_inverse=True)
    z, ranks = _standardized(y), _ranks(np.unique(y, return_inverse=True)[1])
    if len(values) < 2 or z is None or ranks is None:
        return None
    if float(np.mean((x - y) ** 2)) < _ALONE * float(np.var(y)):
        return "is nearly equal to the target"
    if _is_rounded(x, y) or _in_classes(codes, y):
        return "is the target rounded or put into classes"
    order = _ranks(codes)
    agreement = 0.0 if order is None else float(np.mean(order * ranks))
    if abs(agreement) >= _RANKS:
        direction = "rising" if agreement > 0.0 else "falling"
        return f"{_PERFECT}, {direction} with it as a copy on another scale does"
    if min(_unexplained_by_order(codes, z, rng), _unexplained_by_order(codes, ranks, rng)) < _ALONE:
        return _PERFECT
    return None


def _category(codes: IntArray, y: FloatArray) -> str | None:
    """The same for a column of levels; codes: -1 where it is missing."""
    known = np.flatnonzero(codes >= 0)
    if len(known) < max(_MIN_ROWS, len(codes) // 2):
        return None
    _, levels = np.unique(codes[known], return_inverse=True)
    y = y[known]
    z = _standardized(y)
    if z is None:
        return None
    if _in_classes(levels, y):
        return "is the target put into classes"
    return _PERFECT if _unexplained_by_level(levels, z) < _ALONE else None


def _standardized(y: FloatArray) -> FloatArray | None:
    """Zero mean and unit variance; None for a constant."""
    spread = float(np.std(y))
    return (y - y.mean()) / spread if spread > 0.0 else None


def _ranks(codes: IntArray) -> FloatArray | None:
    """Ranks of the values that codes number in order, those of ties their mean; standardized."""
    counts = np.bincount(codes)
    return _standardized((np.cumsum(counts) - 0.5 * (counts - 1))[codes])


def _is_rounded(x: FloatArray, y: FloatArray) -> bool:
    """Return whether x is y to the nearest, the next lower or the next higher unit, of which y spans several."""
    unit = _last_decimal(x)
    left = (y - x) / unit if unit > 0.0 and np.ptp(y) > 5.0 * unit else np.array([np.inf])
    return bool(any(low <= left.min() and left.max() <= low + 1.0 for low in (-0.5, 0.0, -1.0)))


def _in_classes(codes: IntArray, y: FloatArray) -> bool:
    """Return whether the classes' targets lie beside each other and do not mix, where it can be no coincidence.

    Groups that merely differ are set apart by gaps. Those between classes are to be no wider than the widest inside of
    the two: for half of them at least, counted by rows, since there are few rows in the classes of a tail.
    """
    counts = np.bincount(codes)
    ways = math.lgamma(len(y) + 1) - math.lgamma(len(counts) + 1) - sum(math.lgamma(n + 1) for n in counts.tolist())
    if len(counts) < 2 or ways < _CHANCE:
        return False
    least, most, widest = (np.full(len(counts), start) for start in (np.inf, -np.inf, 0.0))
    np.minimum.at(least, codes, y)
    np.maximum.at(most, codes, y)
    rows = np.lexsort((y, codes))
    inside = np.diff(codes[rows]) == 0
    np.maximum.at(widest, codes[rows][1:][inside], np.diff(y[rows])[inside])
    order = np.lexsort((most, least))
    between = least[order][1:] - most[order][:-1]
    beside = np.maximum(widest[order][1:], widest[order][:-1])
    rows_beside = np.where(beside > 0.0, counts[order][1:] + counts[order][:-1], 0)
    close = float(np.sum(rows_beside[between <= beside]))
    return bool((between >= 0.0).all() and close > 0.0 and close >= 0.5 * np.sum(rows_beside))


def _unexplained_by_order(codes: IntArray, y: FloatArray, rng: np.random.Generator) -> float:
    """Mean squared difference to the mean of the two neighbours in the order of a column."""
    shuffled = rng.permutation(len(codes))
    ordered = y[shuffled[np.argsort(codes[shuffled], kind="stable")]]
    return float(np.mean((ordered[1:-1] - 0.5 * (ordered[:-2] + ordered[2:])) ** 2))


def _unexplained_by_level(codes: IntArray, y: FloatArray) -> float:
    """Mean squared difference to the mean of the other rows of the level."""
    counts = np.bincount(codes)
    sums = np.bincount(codes, weights=y)
    others = counts[codes] - 1
    has_others = others > 0
    if np.count_nonzero(has_others) < max(_MIN_ROWS, len(y) // 2):
        return np.inf
    means = (sums[codes][has_others] - y[has_others]) / others[has_others]
    return float(np.mean((y[has_others] - means) ** 2))


def _weighted_sum(numbers: dict[str, FloatArray], y: FloatArray) -> tuple[list[str], bool]:
    """The columns of which the target is a weighted sum, none if it is not; and whether only up to rounding."""
    if not 2 <= len(numbers) <= _MAX_SUMMED:
        return [], False
    names = list(numbers)
    X = np.column_stack([numbers[name] for name in names])
    rows, columns = _complete(X)
    X, y, names = X[np.ix_(rows, columns)], y[rows], [names[place] for place in columns.tolist()]
    scale = X.std(axis=0)
    fit = np.isfinite(scale) & (scale > 0.0)
    X, names = X[:, fit], [name for name, good in zip(names, fit.tolist(), strict=True) if good]
    spread = float(np.std(y))
    if X.shape[1] < 2 or len(rows) < max(_MIN_ROWS, 3 * X.shape[1]) or spread == 0.0:
        return [], False
    X = (X - X.mean(axis=0)) / scale[fit]
    z = (y - y.mean()) / spread
    weights, *_ = np.linalg.lstsq(X, z, rcond=None)
    errors = z - X @ weights
    share = float(np.mean(errors**2))
    least = max(1e-3, 5.0 * math.sqrt(share / len(rows)))  # five times what rounding makes of no weight at all
    summed = [name for name, weight in zip(names, weights.tolist(), strict=True) if abs(weight) > least]
    if share <= _TOGETHER:
        return summed, False
    # Half a unit of the last decimal may be lost in each of the columns and in the target.
    lost = 0.5 * (1 + len(summed)) * _last_decimal(y) / spread
    return (summed, True) if share <= _ROUNDED and float(np.abs(errors).max()) <= lost else ([], False)


def _complete(X: FloatArray) -> tuple[IntArray, IntArray]:
    """Rows without a gap, and the columns in which they have none: those with the most gaps go first."""
    there = np.isfinite(X)
    columns = np.flatnonzero(there.mean(axis=0) >= 0.5)
    while len(columns):
        rows = np.flatnonzero(there[:, columns].all(axis=1))
        if len(rows) >= max(_MIN_ROWS, 3 * len(columns)):
            return rows[:_SUM_SAMPLE], columns
        columns = np.delete(columns, there[:, columns].mean(axis=0).argmin())
    return np.empty(0, dtype=np.int64), columns


def _last_decimal(y: FloatArray) -> float:
    """The unit that all of them are whole numbers of: 1, 0.1, .. ; 0 if they have more decimals."""
    for decimals in range(_DECIMALS + 1):
        scaled = y * 10.0**decimals
        if (np.abs(scaled - np.round(scaled)) <= 1e-9 * np.maximum(1.0, np.abs(scaled))).all():
            return 10.0**-decimals
    return 0.0
