"""Shared by the tests of compact models: factors with their posterior, where to look, noise that varies."""

import numpy as np

from core.arrays import FloatArray
from core.data import Standardization
from core.predict.calibration import Calibration
from core.predict.model import Model, ModelPredictor, VaryingNoise, log_noise
from core.predict.predictor import moments
from core.sparse.factors import Factors
from core.sparse.posterior import SparsePosterior, posterior
from core.spec import Approximation
from tests.core.problems import Problem

EVERY = list(Approximation)
TOLERANCES = [0.2, 0.05, 0.01, 1e-3]


def fitted(case: Problem, approximation: Approximation) -> tuple[Factors, SparsePosterior]:
    """Factors and the full posterior; rows are standardized as they are."""
    factors = case.factors(approximation)
    columns = case.X.shape[1]
    units = Standardization(
        input_shift=np.zeros(columns), input_scale=np.ones(columns), target_shift=0.0, target_scale=1.0
    )
    return factors, posterior(factors, case.Z, case.groups, units)


def ratio(one: SparsePosterior, other: SparsePosterior, inputs: FloatArray) -> FloatArray:
    """Ratio of their standard deviations, noise included, neither calibrated."""
    variances = (moments(model, inputs).target_variance for model in (one, other))
    return np.sqrt(np.divide(*variances))


def everywhere(case: Problem, seed: int = 0) -> FloatArray:
    """Training rows, rows beside them and rows far away."""
    chance = np.random.default_rng(seed)
    return np.vstack([case.X, *(chance.normal(size=case.X.shape) * size for size in (0.5, 1.0, 3.0, 100.0))])


def noise_that_varies(case: Problem, depth: float, seed: int = 0) -> VaryingNoise:
    """Logarithms about so large, their range that of the training rows. depth 0: the same everywhere."""
    _, full = fitted(case, Approximation.VFE)
    weights = depth * np.random.default_rng(seed).normal(size=len(case.indices))
    arrays = {**full.without_variance().arrays(), "alpha": weights, "lengthscales": np.full(case.groups.max() + 1, 1.2)}
    scalars = {**full.scalars(), "signal_variance": 1.0, "bias_variance": 0.1}
    plain = VaryingNoise(posterior=SparsePosterior.restore(arrays, scalars), lowest=-6.0, highest=6.0)
    seen = log_noise(plain, case.X)
    return VaryingNoise(posterior=plain.posterior, lowest=float(seen.min()), highest=float(seen.max()))


def deviations(
    model: SparsePosterior, calibration: Calibration, noise: VaryingNoise | None, inputs: FloatArray
) -> FloatArray:
    """Standard deviations of new targets, as they are served."""
    predictor = ModelPredictor(Model(posterior=model, calibration=calibration, noise=noise))
    return np.sqrt(predictor.predict(inputs).variance)
