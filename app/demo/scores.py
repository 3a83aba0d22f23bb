"""Scores of predictions from what a client has: truth, mean, standard deviation and interval.

NMSE = mean (y - m)^2 / variance of y             1 is as good as always predicting the mean
NLPD = mean of log(2 pi s^2) / 2 + (y - m)^2 / (2 s^2)    in nats, of the Gaussian N(m, s^2)
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, pvariance


@dataclass(frozen=True, slots=True, kw_only=True)
class Scores:
    """Scores of predictions.

    nmse and coverage have no unit; nlpd is in nats and moves with the logarithm of the target's unit.
    """

    nmse: float
    nlpd: float
    coverage: float


def standard_error(level: float, rows: int) -> float:
    """Standard error of the share of rows inside intervals of this level."""
    return math.sqrt(level * (1.0 - level) / rows)


def score(
    truth: Sequence[float],
    mean: Sequence[float],
    std: Sequence[float],
    lower: Sequence[float],
    upper: Sequence[float],
) -> Scores:
    """Scores of at least one row. nmse is NaN where the truth does not vary."""
    errors = [(y - m) ** 2 for y, m in zip(truth, mean, strict=True)]
    spread = pvariance(truth)
    return Scores(
        nmse=fmean(errors) / spread if spread > 0 else math.nan,
        nlpd=fmean(
            0.5 * math.log(2 * math.pi * s * s) + error / (2 * s * s) for error, s in zip(errors, std, strict=True)
        ),
        coverage=fmean(low <= y <= high for low, y, high in zip(lower, truth, upper, strict=True)),
    )
