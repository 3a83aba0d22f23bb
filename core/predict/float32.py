"""Choice between double and single precision for a model's predictions.

Rounding k and R to 24 bits changes a latent variance by some 1e-6 of the prior's: nothing where the noise is a share of
it, everything where it is tiny. How much is measured on every training row. A full process has its variances in double
precision always, and its mean from kernel values of 24 bits, whose errors grow with the weights: measured on some rows.
"""

from dataclasses import replace

import numpy as np

from core.arrays import FloatArray
from core.predict.model import Model, ModelPredictor
from core.spec import Precision

MOST_ERROR = 1e-3
"""Largest error of mean and standard deviation, as a share of the standard deviation."""
LOOKED_ROWS = 1_000
"""Training rows at which a full process is looked at, evenly spaced."""


def float32_error(model: Model, inputs: FloatArray) -> float:
    """The largest change that float32 makes to mean or standard deviation (noise included) of the learnt target at any
    of the inputs (n, p), as a share of that standard deviation. O(n d^2). A mean on rows of its own is always in double
    precision, and not looked at. Of a full process at no more than about LOOKED_ROWS of them, O(n) each."""
    if model.near is not None:
        inputs = inputs[:: max(1, len(inputs) // LOOKED_ROWS)]
    exact, single = (
        ModelPredictor(replace(model, precision=precision, mean=None)).predict(inputs)
        for precision in (Precision.FLOAT64, Precision.FLOAT32)
    )
    std = np.sqrt(exact.variance)
    worst = np.maximum(np.abs(single.centre - exact.centre), np.abs(np.sqrt(single.variance) - std))
    return float((worst / std).max(initial=0.0))


def kept_precision(model: Model, inputs: FloatArray, asked: Precision) -> tuple[Precision, str | None]:
    """The precision to predict in, and a warning where that is not what was asked. inputs: of the training rows (n, p).

    model: with its error bars, even if they will not be kept.
    """
    if asked is Precision.FLOAT64:
        return asked, None
    error = float32_error(model, inputs)
    if error <= MOST_ERROR:
        return asked, None
    return Precision.FLOAT64, (
        f"the model predicts in float64: in float32 a training row's mean or error bar would be off by {error:.2g} of "
        f"its standard deviation, and at most {MOST_ERROR:g} is taken; a model with more noise or longer lengthscales "
        "would bear it"
    )
