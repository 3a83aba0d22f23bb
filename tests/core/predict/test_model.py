"""core/predict/model.py: how a posterior, noise that varies, a calibration and a transform are read together."""

from dataclasses import replace

import numpy as np
import pytest

from core.arrays import FloatArray
from core.data import Dataset
from core.errors import InvalidDataError
from core.predict.calibration import Calibration
from core.predict.model import Model, ModelPredictor, VaryingNoise, log_noise
from core.predict.transforms import Transform
from core.spec import Approximation, TargetTransform
from tests.core.leftout import stretched
from tests.core.predict.test_predictor import BASIS, fitted
from tests.core.problems import hyperparameters, oracle_params
from tests.core.runs import table
from tests.dense.kernel import Sparse, kernel
from tests.dense.posterior import predict as oracle_predict

HP = hyperparameters([1.1, 2.0, 1.6], signal_variance=1.4, bias_variance=0.3, noise_variance=0.07)
EVERY = list(Approximation)


def noise_of(alpha: FloatArray, shift: float, lowest: float = -9.0, highest: float = 9.0) -> VaryingNoise:
    """Logarithms with these weights, inputs in raw units, no error bars of their own."""
    served, _ = fitted(table(0, n=40), HP, BASIS, Approximation.VFE)
    mean = replace(served.without_variance(), alpha=alpha, target_shift=shift, target_scale=1.5)
    return VaryingNoise(posterior=mean, lowest=lowest, highest=highest)


def log_noise_by_hand(noise: VaryingNoise, inputs: FloatArray) -> FloatArray:
    params, mean = oracle_params(HP, np.array([0, 1, 1, 2])), noise.posterior
    standardized = [(rows - mean.input_shift) / mean.input_scale for rows in (inputs, mean.basis)]
    plain = mean.target_shift + 1.5 * kernel(params, *standardized) @ mean.alpha
    return np.array([min(max(value, noise.lowest), noise.highest) for value in plain])


def standardized(dataset: Dataset, inputs: FloatArray) -> FloatArray:
    return np.asarray((inputs - dataset.inputs.mean(axis=0)) / dataset.inputs.std(axis=0))


def far_away(oracle: Sparse) -> float:
    """The dense posterior's latent variance a million lengthscales off; infinite for SoR."""
    return np.inf if oracle.approximation == "sor" else float(oracle_predict(oracle, np.full((1, 4), 1e9))[1][0])


@pytest.mark.parametrize("approximation", EVERY)
@pytest.mark.parametrize("scales", [(3.0, 0.25), (0.1, 2.0), (20.0, 1.0)])
def test_parts_of_the_variance_are_scaled_by_themselves(
    scales: tuple[float, float], approximation: Approximation
) -> None:
    """The latent variance's odds and the noise, the mean and the support as they were."""
    dataset, new = table(0, n=40), table(5).inputs
    served, oracle = fitted(dataset, HP, BASIS, approximation)
    unit = dataset.targets.std()
    mean, variance = oracle_predict(oracle, standardized(dataset, new))
    latent = np.array([stretched(value, far_away(oracle), scales[0]) for value in variance])
    calibration = Calibration(latent_scale=scales[0], noise_scale=scales[1])
    found = ModelPredictor(Model(posterior=served, calibration=calibration)).predict(new)
    np.testing.assert_allclose(found.centre, dataset.targets.mean() + unit * mean, rtol=1e-9)
    np.testing.assert_allclose(found.latent.variance, unit**2 * latent, rtol=1e-6)
    np.testing.assert_allclose(found.variance, unit**2 * (latent + scales[1] * 0.07), rtol=1e-6)
    np.testing.assert_array_equal(found.latent.centre, found.centre)
    np.testing.assert_array_equal(found.support, ModelPredictor(Model(posterior=served)).predict(new).support)
    np.testing.assert_allclose(found.support, np.minimum(variance / far_away(oracle), 1.0), rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("approximation", [a for a in EVERY if a is not Approximation.SOR])
@pytest.mark.parametrize("latent_scale", [0.05, 0.4, 1.0, 6.0])
@pytest.mark.parametrize("distance", [1e2, 1e6, 1e300])
def test_far_from_all_data_no_calibration_takes_the_prior_away(
    distance: float, latent_scale: float, approximation: Approximation
) -> None:
    """There remain at least the signal's variance, and the noise as the calibration has it: neither less nor more."""
    dataset = table(0, n=40)
    served, oracle = fitted(dataset, HP, BASIS, approximation)
    calibration = Calibration(latent_scale=latent_scale, noise_scale=0.5)
    far = dataset.inputs.mean(axis=0) + distance * dataset.inputs.std(axis=0) * np.array([[1.0] * 4, [-1.0] * 4])
    found = ModelPredictor(Model(posterior=served, calibration=calibration)).predict(far)
    unit = dataset.targets.std()
    assert (np.sqrt(found.variance) >= unit * np.sqrt(1.4 + 0.5 * 0.07)).all()
    np.testing.assert_allclose(found.latent.variance, unit**2 * far_away(oracle), rtol=1e-7)
    np.testing.assert_allclose(found.variance, unit**2 * (far_away(oracle) + 0.5 * 0.07), rtol=1e-7)
    np.testing.assert_allclose(found.support, 1.0, rtol=1e-9)


def test_noise_that_varies_is_the_constant_one_times_its_exponential() -> None:
    dataset, new = table(0, n=40), table(5).inputs
    served, oracle = fitted(dataset, HP, BASIS, Approximation.FITC)
    noise = noise_of(np.random.default_rng(0).normal(size=7) * 0.4, -0.3)
    found = ModelPredictor(Model(posterior=served, noise=noise, calibration=Calibration(noise_scale=2.0))).predict(new)
    _, variance = oracle_predict(oracle, standardized(dataset, new))
    factor = np.exp(log_noise_by_hand(noise, new))
    assert factor.max() > 3 * factor.min()
    unit = dataset.targets.std()
    np.testing.assert_allclose(found.variance, unit**2 * (variance + 2.0 * 0.07 * factor), rtol=1e-7)
    np.testing.assert_allclose(found.latent.variance, unit**2 * variance, rtol=1e-7)
    np.testing.assert_allclose(log_noise(noise, new), np.log(factor), rtol=1e-9, atol=1e-9)


def test_noise_stays_in_the_range_that_was_seen() -> None:
    """Inside it is what the second GP says, outside the nearer end."""
    new = table(5).inputs
    wide = noise_of(np.random.default_rng(0).normal(size=7) * 0.4, -0.3)
    plain = log_noise(wide, new)
    low, high = (float(value) for value in np.quantile(plain, (0.2, 0.7)))
    held = log_noise(replace(wide, lowest=low, highest=high), new)
    inside = (plain >= low) & (plain <= high)
    assert 0 < inside.sum() < len(plain)
    np.testing.assert_array_equal(held[inside], plain[inside])
    np.testing.assert_array_equal(held[plain < low], low)
    np.testing.assert_array_equal(held[plain > high], high)
    np.testing.assert_allclose(held, log_noise_by_hand(replace(wide, lowest=low, highest=high), new), atol=1e-9)
    for lowest, highest in ((1.0, 0.5), (-np.inf, 1.0), (0.0, np.inf), (np.nan, 1.0), (0.0, np.nan)):
        with pytest.raises(InvalidDataError, match="noise: expected a range"):
            replace(wide, lowest=lowest, highest=highest)


@pytest.mark.parametrize("shift", [-1e4, 1e4])
def test_noise_is_held_within_its_limits(shift: float) -> None:
    noise, new = noise_of(np.zeros(7), shift), table(5).inputs
    np.testing.assert_array_equal(log_noise(noise, new), np.copysign(9.0, shift))
    served, _ = fitted(table(0, n=40), HP, BASIS, Approximation.FITC)
    found = ModelPredictor(Model(posterior=served, noise=noise)).predict(new).variance
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
    centre, sd = plain.centre, np.sqrt(plain.variance)
    np.testing.assert_allclose(found.quantile(0.95), np.exp(centre + 9.0 * sd), rtol=1e-12)
    latent = centre + 1.6448536269514722 * np.sqrt(plain.latent.variance)
    np.testing.assert_allclose(found.latent.quantile(0.95), np.exp(latent), rtol=1e-9)
    np.testing.assert_allclose(found.quantile(0.5), np.exp(centre), rtol=1e-12)


def test_a_rows_answer_does_not_depend_on_its_batch() -> None:
    served, _ = fitted(table(0, n=40), HP, BASIS, Approximation.FITC)
    predictor = ModelPredictor(Model(posterior=served, noise=noise_of(np.linspace(-1.0, 1.0, 7), 0.2)))
    assert predictor.columns == 4
    new = table(5, n=600).inputs
    whole = predictor.predict(new)
    for row in (0, 1, 7, 511, 512, 599):
        one = predictor.predict(new[row : row + 1])
        assert one.variance[0] == whole.variance[row]
        assert one.support[0] == whole.support[row]
    assert len(predictor.predict(new[:0]).support) == 0


@pytest.mark.parametrize("varying", [False, True])
def test_rows_of_other_weights_have_their_own_noise(varying: bool) -> None:
    """The noise of a row of mean weight over the row's own, scaled as all noise; everything else as it was."""
    new, weights = table(5).inputs, np.geomspace(0.01, 100.0, len(table(5).inputs))
    served, _ = fitted(table(0, n=40), HP, BASIS, Approximation.FITC)
    noise = noise_of(np.linspace(-1.0, 1.0, len(served.basis)), 0.3) if varying else None
    calibration = Calibration(latent_scale=2.0, noise_scale=0.5)
    predictor = ModelPredictor(Model(posterior=served, noise=noise, calibration=calibration))
    plain, own = predictor.predict(new), predictor.predict(new, weights)
    np.testing.assert_array_equal(own.centre, plain.centre)
    np.testing.assert_array_equal(own.latent_variance, plain.latent_variance)
    noise_alone = np.asarray(plain.variance - plain.latent_variance)
    np.testing.assert_allclose(own.variance - own.latent_variance, noise_alone / weights, rtol=1e-9)
    np.testing.assert_array_equal(predictor.predict(new, np.ones(len(new))).variance, plain.variance)
