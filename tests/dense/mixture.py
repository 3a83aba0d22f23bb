"""Mixtures of calibrated distributions the obvious way: one row at a time, every component's distribution function by
solving for its quantile's probability, every quantile by a root finder."""

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.stats import norm

Numbers = NDArray[np.float64]


def score_cdf(score: float, probabilities: Numbers, quantiles: Numbers, symmetric: bool) -> float:
    """Probability below a score (y - m) / sd, inside of a table of quantiles; a normal one where the table is empty."""
    if not len(probabilities):
        return float(norm.cdf(score))
    size = abs(score) if symmetric else score
    for k in range(len(quantiles) - 1):
        low, high = quantiles[k], quantiles[k + 1]
        if low <= size < high:
            level = probabilities[k] + (size - low) / (high - low) * (probabilities[k + 1] - probabilities[k])
            if not symmetric:
                return float(level)
            return float(0.5 + 0.5 * level if score >= 0.0 else 0.5 - 0.5 * level)
    raise ValueError(f"score {score} is beyond the table")


def mixture_quantile(
    probability: float,
    centres: Numbers,
    deviations: Numbers,
    table: tuple[Numbers, Numbers, bool],
) -> float:
    """Quantile of a mixture of equal weights whose components have these centres and deviations."""

    def excess(y: float) -> float:
        shares = [score_cdf((y - m) / s, *table) for m, s in zip(centres, deviations, strict=True)]
        return float(sum(shares)) / len(shares) - probability

    reach = 60.0 * max(deviations)
    return float(brentq(excess, min(centres) - reach, max(centres) + reach, xtol=1e-15, rtol=1e-15))


def mixture_moments(means: Numbers, variances: Numbers) -> tuple[float, float]:
    """Mean and variance of a mixture of equal weights, from the second moment."""
    mean = float(sum(means)) / len(means)
    second = float(sum(v + m * m for m, v in zip(means, variances, strict=True))) / len(means)
    return mean, second - mean * mean
