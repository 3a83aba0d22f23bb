"""Columns that give the target away: what is known of them would not be known when a prediction is wanted.

A column alone: the target of a row against that of its neighbours in the order of the column (for a category: of the
other rows of its level). Numbers together: the target as a weighted sum of them, by least squares. Both on a sample.
"""

from collections.abc import Iterator

import numpy as np

from app.tables.cells import FloatArray, IntArray
from app.tables.problems import list_names
from app.tables.schema import Schema
from app.tables.table import Column, Kind, Table

_ALONE = 0.002  # of the target's variance that a column leaves open; the noise counts one and a half times
_TOGETHER = 1e-8
_SAMPLE = 20_000
_SUM_SAMPLE = 2_000
_FEWEST = 30
_MOST_SUMMED = 200


def find_leaks(table: Table, schema: Schema) -> Iterator[str]:
    """Warnings that name the columns. O(rows of the sample log)."""
    if table.rows < _FEWEST:
        return
    chance = np.random.default_rng(0)
    sample = np.arange(table.rows)
    if table.rows > _SAMPLE:
        sample = np.sort(chance.choice(table.rows, _SAMPLE, replace=False))
    y = table.columns[schema.target].numbers.values[sample]
    with np.errstate(all="ignore"):  # squares of huge numbers: they are no leak
        spread = float(np.var(y))
        if not np.isfinite(spread) or spread == 0.0:
            return
        y = (y - y.mean()) / np.sqrt(spread)
        numbers: dict[str, FloatArray] = {}
        found = False
        for feature in schema.used:
            column = table.columns[feature.name]
            if feature.kind is Kind.NUMBER:
                x = column.numbers.values[sample]
                numbers[feature.name] = x
                left = _left_by_order(x, y, chance)
            elif feature.kind is Kind.CATEGORY:
                left = _left_by_level(_codes(column)[sample], y)
            else:
                continue
            if left < _ALONE:
                found = True
                yield (
                    f"column {feature.name!r} predicts the target almost perfectly by itself: if it is not known when "
                    'predictions are wanted, leave it out ("columns": {"...": "ignore"})'
                )
        if not found and (summed := _sum(numbers, y)):
            yield (
                f"the target is a weighted sum of the columns {list_names(summed)}: if they are not known when "
                'predictions are wanted, leave them out ("columns": {"...": "ignore"})'
            )


def _left_by_order(x: FloatArray, y: FloatArray, chance: np.random.Generator) -> float:
    """Mean squared difference to the mean of the two neighbours in the order of x."""
    known = np.isfinite(x)
    if np.count_nonzero(known) < max(_FEWEST, len(x) // 2):
        return np.inf
    shuffled = chance.permutation(np.flatnonzero(known))
    order = shuffled[np.argsort(x[shuffled], kind="stable")]
    ordered = y[order]
    return float(np.mean((ordered[1:-1] - 0.5 * (ordered[:-2] + ordered[2:])) ** 2))


def _left_by_level(codes: IntArray, y: FloatArray) -> float:
    """Mean squared difference to the mean of the other rows of the level."""
    counts = np.bincount(codes)
    sums = np.bincount(codes, weights=y)
    others = counts[codes] - 1
    told = others > 0
    if np.count_nonzero(told) < max(_FEWEST, len(y) // 2):
        return np.inf
    means = (sums[codes][told] - y[told]) / others[told]
    return float(np.mean((y[told] - means) ** 2))


def _codes(column: Column) -> IntArray:
    return column.levels.codes.astype(np.int64) + 1  # 0 where missing


def _sum(numbers: dict[str, FloatArray], y: FloatArray) -> list[str]:
    """The columns of which the target is a weighted sum; none if it is not."""
    if not 2 <= len(numbers) <= _MOST_SUMMED:
        return []
    X = np.column_stack([x[:_SUM_SAMPLE] for x in numbers.values()])
    z = y[:_SUM_SAMPLE]
    X = X - np.nanmean(X, axis=0)
    X = X / np.nanstd(X, axis=0)
    usable = np.isfinite(X).all(axis=0)
    rows, width = X.shape[0], int(np.count_nonzero(usable))
    if width < 2 or rows < 3 * width:
        return []
    X, names = X[:, usable], [name for name, good in zip(numbers, usable.tolist(), strict=True) if good]
    weights, *_ = np.linalg.lstsq(X, z - z.mean(), rcond=None)
    if float(np.mean((z - z.mean() - X @ weights) ** 2)) > _TOGETHER * float(np.var(z)):
        return []
    return [name for name, weight in zip(names, weights.tolist(), strict=True) if abs(weight) > 1e-3]
