"""Statistics of a model's predictions of the test rows: enough to put NLPD on any scale of the target."""

import numpy as np

from core.arrays import FloatArray
from core.hyperparameters import Hyperparameters
from core.predict.distribution import PredictiveDistribution
from core.predict.metrics import scores
from core.predict.predictor import Moments
from tests.benchmarks.papers.units import Found

_LEAST = 1e-12
"""Least latent variance, as a share of the target's variance, for NLPD without noise."""


def scored(targets: FloatArray, predicted: PredictiveDistribution) -> Found:
    """Scores of test targets (m,) in raw units.

    nlpd: of raw targets; nlpd_unit: of targets over the test rows' deviation. squares: mean of the squared error over
    its variance, 1 where error bars are as wide as the errors; log_variance: mean of its logarithm, raw units.
    """
    score = scores(targets, predicted)
    spread = float(np.std(targets))
    return {
        "nmse": score.nmse,
        "nlpd": score.nlpd,
        "nlpd_unit": score.nlpd - float(np.log(spread)),
        "nlpd_standard_error": score.nlpd_standard_error,
        "crps": score.crps,
        "coverage": score.coverage,
        "squares": float(np.mean(np.square(targets - predicted.centre) / predicted.variance)),
        "log_variance": float(np.mean(np.log(predicted.variance))),
        "test_rows": len(targets),
        "test_deviation": spread,
    }


def scored_plainly(targets: FloatArray, found: Moments) -> Found:
    """The same of error bars as the Gaussian process gives them; `nlpd_latent`, `squares_latent` and
    `log_variance_latent`: with those of the latent function, as if there were no noise."""
    plain = scored(targets, PredictiveDistribution(centre=found.mean, variance=found.target_variance))
    latent = np.maximum(found.latent_variance, _LEAST * np.var(targets))
    noiseless = PredictiveDistribution(centre=found.mean, variance=latent)
    return plain | {
        "nlpd_latent": float(-noiseless.log_density(targets).mean()),
        "squares_latent": float(np.mean(np.square(targets - found.mean) / latent)),
        "log_variance_latent": float(np.mean(np.log(latent))),
    }


def numbers_of(hyperparameters: Hyperparameters) -> Found:
    """Hyperparameters, in standardized units, as JSON."""
    return {
        "lengthscales": hyperparameters.lengthscales.tolist(),
        "signal_variance": hyperparameters.signal_variance,
        "bias_variance": hyperparameters.bias_variance,
        "noise_variance": hyperparameters.noise_variance,
    }
