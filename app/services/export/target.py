"""Numbers of calibration and transform, between the process and the answer, for every form of export."""

from dataclasses import dataclass

import numpy as np
from numpy.polynomial.hermite_e import hermegauss
from scipy.special import ndtri

from core.arrays import FloatArray
from core.predict.calibration import STD_LEVEL, Calibration
from core.predict.ranks import rank_curve
from core.predict.transforms import QUADRATURE, Transform
from core.spec import TargetTransform

NORMAL_HALF = float(ndtri(0.5 + 0.5 * STD_LEVEL))
"""Half-width of a normal interval of STD_LEVEL, in standard deviations."""
MOMENTS_BY_SUM = (TargetTransform.YEO_JOHNSON, TargetTransform.RANK_NORMAL)
"""Transforms whose mean and variance are sums over quadrature nodes."""
_LEAST_ERROR, _REFINEMENTS = 1e-9, 40


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TargetNumbers:
    """interval: both ends in standard deviations, of the level that is asked for; std_interval: of STD_LEVEL. nodes,
    weights (QUADRATURE,): of Gauss and Hermite. knots (k,), coefficients (k - 1, 4): pieces of a cubic, and slopes of
    the lines beyond it, of `rank-normal`; empty for others."""

    transform: Transform
    calibration: Calibration
    interval: tuple[float, float]
    std_interval: tuple[float, float]
    nodes: FloatArray
    weights: FloatArray
    knots: FloatArray
    coefficients: FloatArray
    slopes: tuple[float, float]

    @classmethod
    def of(cls, transform: Transform, calibration: Calibration, level: float) -> "TargetNumbers":
        """Return those of a model, for intervals of a level."""
        nodes, weights = hermegauss(QUADRATURE)
        knots, coefficients, slopes = np.empty(0), np.empty((0, 4)), (0.0, 0.0)
        if transform.kind is TargetTransform.RANK_NORMAL:
            curve, low, high = rank_curve(transform.knots)
            knots, coefficients, slopes = np.asarray(curve.x), np.ascontiguousarray(curve.c.T), (low, high)
        return cls(
            transform=transform,
            calibration=calibration,
            interval=calibration.interval(level),
            std_interval=calibration.interval(STD_LEVEL),
            nodes=nodes,
            weights=weights / weights.sum(),
            knots=knots,
            coefficients=coefficients,
            slopes=slopes,
        )

    @property
    def plain(self) -> bool:
        """Return whether the target is learnt as it is, without bounds."""
        return self.transform.kind is TargetTransform.NONE and not self.transform.bounded


def table_of_cdf(calibration: Calibration) -> tuple[FloatArray, FloatArray]:
    """Return scores and the probabilities below them, between which lines are off by _LEAST_ERROR at most."""
    far = np.geomspace(1e-3, 1e8, 200)
    scores = np.unique(np.concatenate([-far, [0.0], far, calibration.quantiles, -calibration.quantiles]))
    cdf = calibration.cdf(scores)
    for _ in range(_REFINEMENTS):
        middle = 0.5 * (scores[1:] + scores[:-1])
        exact = calibration.cdf(middle)
        off = np.abs(exact - 0.5 * (cdf[1:] + cdf[:-1])) > _LEAST_ERROR
        if not off.any():
            break
        places = np.flatnonzero(off) + 1
        scores, cdf = np.insert(scores, places, middle[off]), np.insert(cdf, places, exact[off])
    return scores, np.maximum.accumulate(cdf)
