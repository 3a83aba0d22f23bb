"""Importance of each feature: how far a model's mean moves where the feature's cells are shuffled between rows.

The rows are some of those that the model rests on, for they are kept with it; a shuffle leaves each feature's own
spread as it is and cuts what ties it to the others. With m_i the mean at row i and m_i' that with the cells of a
feature from another row, the importance is sqrt(mean (m_i - m_i')^2), in the target's unit, over SHUFFLES shuffles
(Breiman 2001, with the prediction itself in place of the loss: no truth is needed).

Beside it stand Sobol' indices (`core.explain.sobol`): shares of the variance of the mean of the learnt target where all
features are drawn independently, each from its own distribution in training. The report of a training has them; of a
version of an earlier release they are computed when they are asked for.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from app.services.background import product_mean
from app.storage.artefact import ModelArtefact
from app.tables import Schema
from core.arrays import FloatArray
from core.explain.product_mean import ProductMean
from core.explain.sobol import sobol_indices
from core.predict.model import ModelPredictor

MOST_ROWS = 200
SHUFFLES = 3
SHARES = "importance"
"""Name in the report."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Importance:
    """Importance by feature, the largest first. rows: how many were shuffled; spread: standard deviation of the mean
    over them, to compare with; shares: see `variance_shares`."""

    rows: int
    spread: float
    features: dict[str, float]
    shares: dict[str, Any]


def importance(artefact: ModelArtefact) -> Importance:
    """Return how much each feature matters to a model's mean. O(f m) predictions of the mean, m <= MOST_ROWS rows.

    The same model gives the same numbers.
    """
    schema = Schema.from_json(artefact.schema)
    basis = artefact.posterior.basis
    basis = basis[~np.isnan(basis).any(axis=1)]
    random = np.random.default_rng(0)
    rows = basis[np.sort(random.permutation(len(basis))[:MOST_ROWS])]
    predictor = ModelPredictor(artefact.model())
    mean = predictor.mean(rows)
    shuffles = [random.permutation(len(rows)) for _ in range(SHUFFLES)]
    found = {
        feature.name: _moved(predictor, rows, mean, block, shuffles)
        for feature, block in zip(schema.used, schema.blocks, strict=True)
    }
    ranked = sorted(found.items(), key=lambda each: -each[1])
    shares = artefact.report.get(SHARES)
    return Importance(
        rows=len(rows),
        spread=float(np.std(mean)),
        features=dict(ranked),
        shares=dict(shares) if isinstance(shares, Mapping) else variance_shares(schema, product_mean(artefact)),
    )


def variance_shares(schema: Schema, mean: ProductMean) -> dict[str, Any]:
    """Return Sobol' indices as JSON: `method`, and for each column its `alone` and `with_others` share of the mean's
    variance, with the standard error of the latter, the largest first."""
    found = sobol_indices(mean)
    columns: list[dict[str, Any]] = [
        {
            "name": feature.name,
            "alone": float(found.first[place]),
            "with_others": float(found.total[place]),
            "standard_error": float(found.standard_error[place]),
        }
        for place, feature in enumerate(schema.used)
    ]
    columns.sort(key=lambda each: -each["with_others"])
    return {
        "method": "closed form" if found.closed else "sampled",
        "spread": found.deviation,
        "columns": columns,
    }


def _moved(
    predictor: ModelPredictor, rows: FloatArray, mean: FloatArray, block: slice, shuffles: list[np.ndarray]
) -> float:
    squares = 0.0
    for order in shuffles:
        shuffled = rows.copy()
        shuffled[:, block] = rows[order, block]
        squares += float(np.mean(np.square(predictor.mean(shuffled) - mean)))
    return float(np.sqrt(squares / len(shuffles)))
