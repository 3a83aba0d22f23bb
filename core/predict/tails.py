"""Tails beyond the ranks: a t distribution fitted to the scores (y - m) / sd of left-out rows.

    scale t(nu),    1 / nu = 1 / nu' + 1 / n

with nu' and the scale of the highest posterior density (Lange, Little & Taylor 1989, with an exponential prior of mean
HEAVINESS for 1 / nu', and for the logarithm of the scale a normal one by the weight of one row), and 1 / n for the
scale being known from n scores only: for normal scores of an unknown variance the predictive distribution has about n
degrees of freedom. The density of the scores is this distribution too.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy.optimize import minimize
from scipy.special import digamma, gammaln, stdtr, stdtrit

from core.arrays import FloatArray
from core.errors import InvalidDataError

HEAVINESS = 0.2
SCALES = (1e-3, 20.0)
"""Range of the scale: scores have unit variance, about, and exact hits say only that most of them are small."""
MOST_HEAVY = 1.0
"""Largest 1 / nu': a Cauchy distribution."""
_LEAST_HEAVY = 1e-4


@dataclass(frozen=True, slots=True, kw_only=True)
class Tail:
    """A t distribution about zero: its degrees of freedom and its scale."""

    freedom: float
    scale: float

    def __post_init__(self) -> None:
        if not (0.0 < self.freedom < np.inf and 0.0 < self.scale < np.inf):
            raise InvalidDataError("calibration: a tail needs finite freedom and scale above zero")

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Self:
        """Restore what `dataclasses.asdict` and a JSON round trip made of one. KeyError, TypeError, ValueError."""
        return cls(freedom=float(document["freedom"]), scale=float(document["scale"]))

    def quantile(self, probability: float) -> float:
        """Return the quantile of this probability, between 0 and 1."""
        return self.scale * float(stdtrit(self.freedom, probability))

    def cdf(self, scores: FloatArray) -> FloatArray:
        """Return the probability below scores, (m,): the inverse of `quantile`."""
        return np.asarray(stdtr(self.freedom, scores / self.scale))

    def log_density(self, scores: FloatArray) -> FloatArray:
        """Return the log density of scores, (m,), nats."""
        nu = self.freedom
        constant = gammaln(0.5 * (nu + 1.0)) - gammaln(0.5 * nu) - 0.5 * np.log(nu * np.pi) - np.log(self.scale)
        return np.asarray(constant - 0.5 * (nu + 1.0) * np.log1p(np.square(scores / self.scale) / nu))


def fit_tail(sizes: FloatArray) -> Tail:
    """Fit a tail to sizes |z| of scores, (n,), n >= 1. O(n), some dozens of times."""
    count, squares = len(sizes), np.square(sizes)

    def loss(point: FloatArray) -> tuple[float, FloatArray]:
        log_scale, log_heavy = point
        heavy = np.exp(log_heavy)
        nu = 1.0 / heavy
        ratio = squares * np.exp(-2.0 * log_scale) * heavy  # z^2 / (s^2 nu)
        logarithm = np.log1p(ratio)
        share = ratio / (1.0 + ratio)
        constant = gammaln(0.5 * (nu + 1.0)) - gammaln(0.5 * nu) - 0.5 * np.log(nu * np.pi) - log_scale
        value = 0.5 * (nu + 1.0) * logarithm.sum() - count * constant
        by_scale = count - (nu + 1.0) * share.sum()
        by_nu = (
            0.5 * logarithm.sum()
            - 0.5 * (nu + 1.0) * heavy * share.sum()
            - count * (0.5 * digamma(0.5 * (nu + 1.0)) - 0.5 * digamma(0.5 * nu) - 0.5 * heavy)
        )
        value += 0.5 * log_scale**2 + heavy / HEAVINESS
        slope = np.array([by_scale + log_scale, -nu * by_nu + heavy / HEAVINESS])
        return float(value) / count, slope / count

    bounds = [tuple(np.log(SCALES)), (np.log(_LEAST_HEAVY), np.log(MOST_HEAVY))]
    found = minimize(loss, np.array([0.0, np.log(HEAVINESS)]), jac=True, method="L-BFGS-B", bounds=bounds)
    scale, heavy = np.exp(found.x).tolist()
    return Tail(freedom=1.0 / (heavy + 1.0 / count), scale=scale)
