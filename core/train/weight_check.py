"""Whether errors of left-out rows are as their weights say.

A weight claims that a row's noise variance is s2 over it. Where it only says which rows matter, rows of little weight
err less than is claimed, the scale of the noise is a compromise, and error bars of a row of mean weight are wrong.
"""

import numpy as np

from core.arrays import FloatArray
from core.train.calibrate import CalibrationResult

LEAST_ROWS = 100
"""Left-out rows below which their halves say nothing."""
RATIO, ERRORS = 2.0, 4.0
"""Mean squares of scores in both halves differ where one is so many times the other, and by so many standard errors."""


def weight_doubt(read: CalibrationResult) -> str | None:
    """Return a sentence where the lighter half of the left-out rows errs by much less, or more, than its weights say,
    beside the heavier half; None where not, and for rows without weights. O(m log m)."""
    left_out = read.left_out
    if left_out is None or not len(left_out.weights) or len(left_out.weights) < LEAST_ROWS:
        return None
    variance = read.calibration.variance(left_out.latent_variance, left_out.noise_variance, left_out.far_variance)
    order = np.argsort(left_out.weights, kind="stable")
    scores = (np.square(left_out.error) / variance)[order]
    (light, light_doubt), (heavy, heavy_doubt) = map(_mean, np.array_split(scores, 2))
    doubt = np.hypot(light_doubt, heavy_doubt)
    if max(light, heavy) < RATIO * min(light, heavy) or abs(light - heavy) < ERRORS * doubt:
        return None
    return (
        f"squared errors of the rows that count less are {light / heavy:.2g} times what their weights say beside those "
        "that count more: a weight says how precise a row is, one over the variance of its noise; where it only says "
        "which rows matter, error bars are not those of a row of mean weight"
    )


def _mean(values: FloatArray) -> tuple[float, float]:
    """Mean and its standard error."""
    return float(values.mean()), float(values.std() / np.sqrt(len(values)))
