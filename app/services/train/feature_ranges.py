"""Ranges of the features in training, as a person or a form needs them: ends, and a typical value."""

from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np

from app.tables import Feature, Kind, Schema
from core.arrays import FloatArray

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def feature_ranges(schema: Schema, inputs: FloatArray) -> dict[str, dict[str, Any]]:
    """Return by feature its `lowest`, `highest` and `typical` value, of a category the most common level alone.

    Values are as a row for a prediction takes them: dates as text, integers whole. inputs: (n, p), the design matrix.
    """
    found: dict[str, dict[str, Any]] = {}
    for feature, block in zip(schema.used, schema.blocks, strict=True):
        cells = inputs[:, block]
        if feature.kind is Kind.CATEGORY:
            common = int(np.argmax(np.nansum(cells[:, : len(feature.levels)], axis=0)))
            found[feature.name] = {"typical": feature.levels[common]}
            continue
        values = cells[:, 0][~np.isnan(cells[:, 0])]
        if len(values):
            ends = {
                "lowest": values.min(),
                "highest": values.max(),
                "typical": np.quantile(values, 0.5, method="nearest"),
            }
            found[feature.name] = {name: _value(feature, float(value)) for name, value in ends.items()}
    return found


def _value(feature: Feature, number: float) -> float | int | str | bool:
    """Return a number of the design matrix as a cell."""
    if feature.kind is Kind.BOOLEAN:
        return number >= 0.5
    if feature.kind is Kind.DATE:
        return _date(number)
    if feature.offset is None:
        return number
    exact = feature.offset + round(number)
    return exact if -(2**63) <= exact < 2**64 else float(exact)  # JSON's writers take no more


def _date(days: float) -> str:
    when = _EPOCH + timedelta(microseconds=round(days * 86_400e6))
    midnight = (when.hour, when.minute, when.second, when.microsecond) == (0, 0, 0, 0)
    return when.date().isoformat() if midnight else when.replace(tzinfo=None).isoformat(timespec="seconds")
