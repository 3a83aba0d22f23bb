"""Average effect of each feature: what a model predicts over its values where all others are drawn independently, each
from its distribution in training (partial dependence, Friedman 2001; main effects of `core.explain.sobol`).
"""

from typing import Any

import numpy as np

from app.services.background import marginals
from app.storage.artefact import TRAINING_PROFILE, ModelArtefact
from app.tables import Schema
from app.tables.schema.feature_cells import cell_of
from core.explain.product_mean import ProductMean
from core.explain.sobol import main_effects
from core.spec import TargetTransform


def average_effects(artefact: ModelArtefact) -> dict[str, Any]:
    """Return the effect of each feature at its points, as JSON: `scale` that averages were taken on, `average` and
    `average_target`, and of each column its `values`, their `weights`, `effect` and `effect_target`.

    CoreError where the artefact's numbers are not those of a model.
    """
    schema, model = Schema.from_json(artefact.schema), artefact.model()
    rows = (model.mean or model.posterior).basis
    distributions = marginals(schema, artefact.report.get(TRAINING_PROFILE), rows)
    mean, effects = main_effects(ProductMean(model, schema.starts, distributions))
    columns = [
        {
            "name": feature.name,
            "values": [cell_of(feature, point) for point in distribution.points],
            "weights": distribution.probabilities.tolist(),
            "effect": effect.tolist(),
            "effect_target": model.transform.inverse(effect).tolist(),
        }
        for feature, distribution, effect in zip(schema.used, distributions, effects, strict=True)
    ]
    kind = model.transform.kind
    return {
        "target": schema.target,
        "scale": "target" if kind is TargetTransform.NONE else kind.value,
        "average": mean,
        "average_target": float(model.transform.inverse(np.array([mean]))[0]),
        "columns": columns,
    }
