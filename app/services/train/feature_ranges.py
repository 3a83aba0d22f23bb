"""Ranges of the features in training, as a person or a form needs them: ends, and a typical value."""

from typing import Any

import numpy as np

from app.tables import Kind, Schema
from app.tables.schema.feature_cells import value_cell
from core.arrays import FloatArray


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
            found[feature.name] = {name: value_cell(feature, float(value)) for name, value in ends.items()}
    return found
