"""core/model.py: how a posterior, noise that varies, a calibration and a transform are read together."""

from dataclasses import replace

import numpy as np
import pytest

from core.calibration import Calibration
from core.hyperparameters import FloatArray
from core.model import MOST_LOG_NOISE, Model, ModelPredictor, log_noise
from core.posterior import SparsePosterior
from core.prediction import Predictor
from core.spec import Approximation
from core.transforms import TargetTransform, Transform
from tests.core.problems import hyperparameters, oracle_params
from tests.core.runs import table
from tests.core.test_prediction import BASIS, fitted
from tests.dense.kernel import kernel
from tests.dense.posterior import predict as oracle_predict

HP = hyperparameters([1.1, 2.0, 1.6], signal_variance=1.4, bias_variance=0.3, noise_variance=0.07)
EVERY = list(Approximation)


def noise_of(alpha: FloatArray, shift: float) -> SparsePosterior:
    """A posterior of logarithms with these weights, inputs in raw units."""
    served, _ = fitted(table(0, n=40), HP, BASIS, Approximation.VFE)
    return replace(served, alpha=alpha, target_shift=shift, target_scale=1.5)


def log_noise_by_hand(noise: SparsePosterior, inputs: FloatArray) -> FloatArray:
    params = oracle_params(HP, np.array([0, 1, 1, 2]))
    standardized = [(rows - noise.input_shift) / noise.input_scale for rows in (inputs, noise.basis)]
    return np.asarray(noise.target_shift + 1.5 * kernel(params, *standardized) @ noise.alpha)


@pytest.mark.parametrize("approximation", EVERY)
def test_parts_of_the_variance_are_scaled_by_themselves(approximation: Approximation) -> None:
    """3 times the latent variance and a quarter of the noise, the mean as it was."""
    dataset, new = table(0, n=40), table(5).inputs
    served, oracle = fitted(dataset, HP, BASIS, approximation)
    unit = dataset.targets.std()
    mean, variance = oracle_predict(oracle, (new - dataset.inputs.mean(axis=0)) / dataset.inputs.std(axis=0))
    calibration = Calibration(latent_scale=3.0, noise_scale=0.25)
    found = ModelPredictor(Model(posterior=served.scaled(3.0, 0.25), calibration=calibration)).predict(new)
    np.testing.assert_allclose(found.target.centre, dataset.targets.mean() + unit * mean, rtol=1e-9)
    np.testing.assert_allclose(found.latent.variance, 3.0 * unit**2 * variance, rtol=1e-7)
    np.testing.assert_allclose(found.target.variance, unit**2 * (3.0 * variance + 0.25 * 0.07), rtol=1e-7)
    np.testing.assert_array_equal(found.latent.centre, found.target.centre)
    np.testing.assert_array_equal(found.support, Predictor(served.scaled(3.0, 0.25)).support(found.latent.variance))


def test_noise_that_varies_is_the_constant_one_times_its_exponential() -> None:
    dataset, new = table(0, n=40), table(5).inputs
    served, oracle = fitted(dataset, HP, BASIS, Approximation.FITC)
    noise = noise_of(np.random.default_rng(0).normal(size=7) * 0.4, -0.3)
    found = ModelPredictor(Model(posterior=served.scaled(1.0, 2.0), noise=noise)).predict(new)
    _, variance = oracle_predict(oracle, (new - dataset.inputs.mean(axis=0)) / dataset.inputs.std(axis=0))
    factor = np.exp(log_noise_by_hand(noise, new))
    assert factor.max() > 3 * factor.min()
    unit = dataset.targets.std()
    np.testing.assert_allclose(found.target.variance, unit**2 * (variance + 2.0 * 0.07 * factor), rtol=1e-7)
    np.testing.assert_allclose(found.latent.variance, unit**2 * variance, rtol=1e-7)
    np.testing.assert_allclose(log_noise(Predictor(noise), new), np.log(factor), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("shift", [-1e4, 1e4])
def test_noise_is_held_within_its_limits(shift: float) -> None:
    noise, new = noise_of(np.zeros(7), shift), table(5).inputs
    np.testing.assert_array_equal(log_noise(Predictor(noise), new), np.copysign(MOST_LOG_NOISE, shift))
    served, _ = fitted(table(0, n=40), HP, BASIS, Approximation.FITC)
    found = ModelPredictor(Model(posterior=served, noise=noise)).predict(new).target.variance
    assert np.isfinite(found).all()
    assert (found > 0.0).all()


def test_calibration_is_of_new_targets_and_the_transform_of_both() -> None:
    """The latent function has no observations that could calibrate it: its quantiles are the normal's."""
    served, _ = fitted(table(0, n=40), HP, BASIS, Approximation.FITC)
    served = replace(served, target_shift=1.0, target_scale=0.5)
    calibration = Calibration(probabilities=np.array([0.0, 0.9]), quantiles=np.array([0.0, 9.0]), rows=9)
    transform = Transform(kind=TargetTransform.LOG)
    new = table(5).inputs
    found = ModelPredictor(Model(posterior=served, calibration=calibration, transform=transform)).predict(new)
    plain = ModelPredictor(Model(posterior=served)).predict(new)
    centre, sd = plain.target.centre, np.sqrt(plain.target.variance)
    np.testing.assert_allclose(found.target.quantile(0.95), np.exp(centre + 9.0 * sd), rtol=1e-12)
    latent = centre + 1.6448536269514722 * np.sqrt(plain.latent.variance)
    np.testing.assert_allclose(found.latent.quantile(0.95), np.exp(latent), rtol=1e-9)
    np.testing.assert_allclose(found.target.quantile(0.5), np.exp(centre), rtol=1e-12)


def test_a_rows_answer_does_not_depend_on_its_batch() -> None:
    served, _ = fitted(table(0, n=40), HP, BASIS, Approximation.FITC)
    predictor = ModelPredictor(Model(posterior=served, noise=noise_of(np.linspace(-1.0, 1.0, 7), 0.2)))
    assert predictor.columns == 4
    new = table(5, n=600).inputs
    whole = predictor.predict(new)
    for row in (0, 1, 7, 511, 512, 599):
        one = predictor.predict(new[row : row + 1])
        assert one.target.variance[0] == whole.target.variance[row]
        assert one.support[0] == whole.support[row]
    assert len(predictor.predict(new[:0]).support) == 0
