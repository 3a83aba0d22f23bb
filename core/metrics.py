"""Scores of predictions against truths, in the target's own unit.

NMSE = mean (y - m)^2 / var(y);  NLPD = mean [ (y - m)^2 / v + log(2 pi v) ] / 2   (Keerthi & Chu 2005, sec. 5)
Coverage of level c is the share of truths within m -+ z_c sqrt(v), z_c the normal quantile.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from core.hyperparameters import FloatArray

LEVELS = (0.5, 0.8, 0.9, 0.95, 0.99)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scores:
    """Scores on `rows` rows. nmse is None where the truths do not vary; coverage: level as text -> share inside."""

    rows: int
    nmse: float | None
    rmse: float
    nlpd: float
    coverage: dict[str, float]


def interval_factor(level: float) -> float:
    """z such that a normal variable is within z standard deviations of its mean with probability `level`."""
    return float(ndtri(0.5 + 0.5 * level))


def scores(targets: FloatArray, mean: FloatArray, variance: FloatArray) -> Scores:
    """Scores of predictive means and variances (noise included), all (m,), m >= 1."""
    squares = np.square(targets - mean)
    spread = float(np.var(targets))
    standardized = np.sqrt(squares / variance)
    return Scores(
        rows=len(targets),
        nmse=float(squares.mean()) / spread if spread > 0 else None,
        rmse=float(np.sqrt(squares.mean())),
        nlpd=float(0.5 * np.mean(squares / variance + np.log(2.0 * np.pi * variance))),
        coverage={str(level): float(np.mean(standardized <= interval_factor(level))) for level in LEVELS},
    )
