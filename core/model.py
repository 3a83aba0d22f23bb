"""All that predicts: a posterior, how its noise varies, how its error bars were calibrated, what the target was learnt
as. No training row is left in it.
"""

from dataclasses import dataclass, field

import numpy as np

from core.calibration import Calibration
from core.hyperparameters import FloatArray
from core.posterior import SparsePosterior
from core.prediction import Predictor
from core.predictive import Predictive
from core.transforms import Transform

MOST_LOG_NOISE = 10.0
"""The noise varies by no more than e to this either way."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Model:
    """posterior: of the learnt target, its variances scaled by the calibration already. noise: of the logarithm of the
    noise variance over the posterior's, None where it is the same everywhere."""

    posterior: SparsePosterior
    noise: SparsePosterior | None = None
    calibration: Calibration = field(default_factory=Calibration)
    transform: Transform = field(default_factory=Transform)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Forecast:
    """For m rows: `target`, the distribution of a new observation; `latent`, that of the function without noise;
    support (m,): the share of the prior's variance that is left, 0 at the data and 1 far from all of them."""

    target: Predictive
    latent: Predictive
    support: FloatArray


class ModelPredictor:
    """A model made ready: no state that prediction changes, safe to share between threads."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.predictor = Predictor(model.posterior)
        self._noise = None if model.noise is None else Predictor(model.noise)

    @property
    def columns(self) -> int:
        """p, the number of input columns."""
        return self.predictor.columns

    def predict(self, inputs: FloatArray) -> Forecast:
        """For inputs (m, p) in raw units. O(m d^2 / 2). Raises InvalidDataError as `Predictor.predict` does."""
        found, model = self.predictor.predict(inputs), self.model
        variance = found.target_variance
        if self._noise is not None:
            noise = model.posterior.noise_variance * model.posterior.target_scale**2
            variance = found.latent_variance + noise * np.exp(log_noise(self._noise, inputs))
        return Forecast(
            target=Predictive(
                centre=found.mean, variance=variance, calibration=model.calibration, transform=model.transform
            ),
            latent=Predictive(centre=found.mean, variance=found.latent_variance, transform=model.transform),
            support=self.predictor.support(found.latent_variance),
        )


def log_noise(predictor: Predictor, inputs: FloatArray) -> FloatArray:
    """log of the noise variance at inputs (m, p) over the constant one, (m,), held within MOST_LOG_NOISE."""
    return np.clip(predictor.mean(inputs), -MOST_LOG_NOISE, MOST_LOG_NOISE)
