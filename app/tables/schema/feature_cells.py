"""Cells of a feature from its columns of the design matrix, and these from values: the way back of `Feature.encode`."""

from datetime import UTC, datetime, timedelta

import numpy as np

from app.tables.columns.cells import FloatArray
from app.tables.columns.dates import sine_cosine
from app.tables.columns.table import Kind
from app.tables.schema.features import OTHER, Feature

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DAY = 86_400e6
_LEAST_SHARE = 0.5


def value_cell(feature: Feature, number: float) -> float | int | str | bool:
    """Return a number of the design matrix as a cell that a row for a prediction may have."""
    if feature.kind is Kind.BOOLEAN:
        return number >= _LEAST_SHARE
    if feature.kind is Kind.DATE:
        return _date(number)
    if feature.offset is None:
        return number
    exact = feature.offset + round(number)
    return exact if -(2**63) <= exact < 2**64 else float(exact)  # JSON's writers take no more


def cell_of(feature: Feature, columns: FloatArray) -> float | int | str | bool | None:
    """Return the cell of a row from the feature's columns (width,): None where it is missing, or an unseen level.

    Of columns that are between those of cells, as those of moved basis vectors are, the nearest.
    """
    if np.isnan(columns[0]) or (feature.indicator and columns[-1] >= _LEAST_SHARE):
        return None
    if feature.kind is not Kind.CATEGORY:
        return value_cell(feature, float(columns[0]))
    levels = columns[: len(feature.levels) + feature.other]
    place = int(np.argmax(levels))
    if not _LEAST_SHARE <= levels[place] < 1.0 + _LEAST_SHARE:
        return None
    return feature.levels[place] if place < len(feature.levels) else OTHER


def value_columns(feature: Feature, values: FloatArray) -> FloatArray:
    """Return the columns (m, width) of numbers, booleans or dates (m,), as the design matrix has them."""
    columns = np.zeros((len(values), feature.width))
    columns[:, 0] = values
    start = 1
    for cycle in feature.cycles:
        columns[:, start : start + 2] = sine_cosine(np.round(values * _DAY).astype(np.int64), cycle)
        start += 2
    return columns


def _date(days: float) -> str:
    when = _EPOCH + timedelta(microseconds=round(days * _DAY))
    midnight = (when.hour, when.minute, when.second, when.microsecond) == (0, 0, 0, 0)
    return when.date().isoformat() if midnight else when.replace(tzinfo=None).isoformat(timespec="seconds")
