"""Distribution of each feature in training, on few points, which explanations compare with.

A version keeps with its profile, of each column of numbers, at most POINTS points: all values where they are no more,
else the means of as many parts of the sorted values, so that the points have the column's mean. Of a category it keeps
the shares of the levels. Missing cells that are marked are a point of their own; those that are integrated over are
left out. A version of an earlier release has the distribution over the rows that its mean rests on.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from app.storage.artefact import TRAINING_PROFILE, ModelArtefact
from app.tables import Feature, Kind, Schema
from app.tables.schema.feature_cells import value_columns
from core.arrays import FloatArray
from core.explain.product_mean import Marginal, ProductMean

POINTS = 20
_DIGITS = 9
_MOST_BLOCKS = 64


def column_points(values: FloatArray) -> dict[str, list[float]]:
    """Return points and weights, which add up to one, of numbers (n,), n >= 1, as JSON."""
    distinct, counts = np.unique(values, return_counts=True)
    if len(distinct) > POINTS:
        parts = np.array_split(np.sort(values), POINTS)
        distinct, counts = np.array([part.mean() for part in parts]), np.array([len(part) for part in parts])
    weights = counts / counts.sum()
    return {"points": _rounded(distinct), "weights": _rounded(weights)}


def marginals(schema: Schema, profile: object, rows: FloatArray) -> list[Marginal]:
    """Return the distribution of each used feature on columns of the design matrix.

    Args:
        schema: of the model.
        profile: of its training, as JSON that nobody has checked.
        rows: (M, p) rows of the model, raw units, for features of which it says nothing.
    """
    columns = profile.get("columns") if isinstance(profile, Mapping) else None
    known: Mapping[str, Any] = columns if isinstance(columns, Mapping) else {}
    return [
        _of_profile(feature, known.get(feature.name)) or _of_rows(feature, rows[:, block])
        for feature, block in zip(schema.used, schema.blocks, strict=True)
    ]


def product_mean(artefact: ModelArtefact) -> ProductMean:
    """Return the mean of an artefact, ready to be explained by the features that it is learnt from. CoreError where its
    numbers are not those of a model."""
    schema, model = Schema.from_json(artefact.schema), artefact.model()
    rows = (model.mean or model.posterior).basis
    return ProductMean(model, schema.starts, marginals(schema, artefact.report.get(TRAINING_PROFILE), rows))


def _of_profile(feature: Feature, part: Any) -> Marginal | None:
    try:
        missing = 0.0 if feature.integrate else float(part["missing"])
        if feature.kind is Kind.CATEGORY:
            shares = np.array(part["shares"], np.float64)
            if len(shares) != len(feature.levels) + feature.other:
                return None
            found, weights = np.eye(len(shares), feature.width), shares
        else:
            values, shares = (np.array(part[name], np.float64) for name in ("points", "weights"))
            found, weights = value_columns(feature, values), (1.0 - missing) * shares
        if missing > 0.0 and feature.indicator:
            absent = value_columns(feature, np.array([feature.fill or 0.0]))
            absent[:, -1] = 1.0
            found, weights = np.vstack((found, absent)), np.append(weights, missing)
        return _marginal(found, weights)
    except (KeyError, TypeError, ValueError, OverflowError):
        return None


def _of_rows(feature: Feature, columns: FloatArray) -> Marginal:
    if feature.width == 1:
        found = column_points(columns[:, 0])
        return _marginal(np.array(found["points"])[:, None], np.array(found["weights"]))
    distinct, counts = np.unique(columns, axis=0, return_counts=True)
    some = np.linspace(0, len(distinct) - 1, min(len(distinct), _MOST_BLOCKS)).astype(np.int64)
    return _marginal(distinct[some], counts[some].astype(np.float64))


def _marginal(points: FloatArray, weights: FloatArray) -> Marginal:
    there = weights > 0.0
    return Marginal(points=points[there], probabilities=weights[there])


def _rounded(values: FloatArray | Sequence[float]) -> list[float]:
    return [float(f"{value:.{_DIGITS}g}") for value in values]
