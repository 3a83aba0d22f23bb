"""The place of levels that training has not seen, chosen so that their error bar holds the spread between levels.

Levels are unit vectors, so u (1, .., 1) in their L columns is as far from each of them: at a squared distance D,

    D = (1 - u)^2 + (L - 1) u^2,    u = (1 + sqrt(1 + L (D - 1))) / L,

and D = 2 is how far they are from one another. There the mean is that of an average level at the other columns of the
row. But one signal variance serves all columns, so the variance there can be less than levels differ by. How much they
do is known from rows trained on, with m, v at a row's own level and m*, v* at the unseen one,

    tau^2 = mean((m - m*)^2 + v),

the step of EM for the variance of a random effect (Dempster, Laird & Rubin 1977); a new one beside L others has
(L + 1) / L of it, and (L - 1) / (L - 3) for what L levels do not tell of tau. D grows from 2 until mean(v*) is that.
"""

from dataclasses import replace

import numpy as np

from app.tables import Feature, Kind, Schema, Unseen
from core.arrays import FloatArray
from core.predict.model import Model, ModelPredictor

FEWEST_LEVELS = 5
"""Fewer tell nothing of their spread."""
ROWS = 200
DOUBLINGS, HALVINGS = 16, 6
NEAREST = 2.0
"""The squared distance between two levels."""


def place_unseen(schema: Schema, model: Model, inputs: FloatArray) -> Schema:
    """The schema, with the place of unseen levels where such rows are to be answered. O(ROWS d^2) a category.

    inputs (n, p): of the rows trained on.
    """
    if schema.unseen is not Unseen.PRIOR:
        return schema
    predictor = ModelPredictor(model)
    some = inputs[np.unique(np.linspace(0, len(inputs) - 1, ROWS).astype(np.int64))]
    features, start = [], 0
    for feature in schema.features:
        block = slice(start, start + feature.width)
        start = block.stop
        features.append(_placed(feature, predictor, some, block))
    return replace(schema, features=tuple(features))


def _placed(feature: Feature, predictor: ModelPredictor, inputs: FloatArray, block: slice) -> Feature:
    levels = feature.width
    if feature.kind is not Kind.CATEGORY or feature.other or levels < FEWEST_LEVELS:
        return feature
    own = predictor.predict(inputs).latent
    moved = inputs.copy()
    factor = (levels + 1) / levels * (levels - 1) / (levels - 3)

    def is_enough(distance: float) -> bool:
        """Return whether the error bar of a level so far away holds the spread between levels."""
        moved[:, block] = _value(levels, distance)
        unseen = predictor.predict(moved).latent
        between = np.mean(np.square(own.centre - unseen.centre) + own.variance)
        return bool(np.mean(unseen.variance) >= factor * between)

    near, far = NEAREST, NEAREST
    for _ in range(DOUBLINGS):
        if is_enough(far):
            break
        near, far = far, 2.0 * far
    else:
        return feature  # the prior has no such variance: SoR
    for _ in range(HALVINGS if far > NEAREST else 0):
        middle = 0.5 * (near + far)
        near, far = (near, middle) if is_enough(middle) else (middle, far)
    return replace(feature, unseen_value=_value(levels, far))


def _value(levels: int, distance: float) -> float:
    """u of the module's text."""
    return float(1.0 + np.sqrt(1.0 + levels * (distance - 1.0))) / levels
