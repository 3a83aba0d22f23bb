"""core/predict/suggest.py: picks and gains against trying every candidate in the dense covariance."""

from dataclasses import replace

import numpy as np
import pytest

from core.arrays import FloatArray
from core.errors import InvalidDataError, MeanOnlyError
from core.predict.calibration import Calibration
from core.predict.model import Model, ModelPredictor
from core.predict.suggest import MOST_CANDIDATES, expected_improvement, improve, reduce_variance
from core.spec import Approximation
from tests.core.predict.test_joint import full_model, scaled
from tests.core.predict.test_model import noise_of, standardized
from tests.core.predict.test_predictor import BASIS, HP, fitted
from tests.core.problems import oracle_params
from tests.core.runs import table
from tests.dense.mean import conditional_covariance
from tests.dense.posterior import covariance
from tests.dense.suggest import best_for_region, improvement, measured

CANDIDATES, REGION = 40, 30


def rows() -> tuple[FloatArray, FloatArray]:
    inputs = table(7, n=CANDIDATES + REGION).inputs
    return inputs[:CANDIDATES], inputs[CANDIDATES:]


@pytest.mark.parametrize("approximation", list(Approximation))
def test_picks_are_those_that_leave_the_least_variance(approximation: Approximation) -> None:
    """With calibrated variances, and noise that varies."""
    dataset, (candidates, region) = table(0, n=40), rows()
    served, oracle = fitted(dataset, HP, BASIS, approximation)
    noise = noise_of(np.full(7, 0.3), -0.3)
    calibration = Calibration(latent_scale=2.5, noise_scale=0.6)
    predictor = ModelPredictor(Model(posterior=served, noise=noise, calibration=calibration))
    every = np.concatenate((candidates, region))
    found = predictor.predict(every)
    Sigma = scaled(covariance(oracle, standardized(dataset, every)), found.latent_variance)
    own = found.variance - found.latent_variance
    picked, gains = best_for_region(Sigma, own, CANDIDATES, 8)
    ours = reduce_variance(predictor, candidates, region, 8)
    assert ours.places.tolist() == picked
    np.testing.assert_allclose(ours.gains, gains, rtol=1e-6)
    assert ours.before is not None
    assert ours.after is not None
    np.testing.assert_allclose(ours.before, found.latent_variance[CANDIDATES:].mean(), rtol=1e-10)
    np.testing.assert_allclose(ours.before - ours.after, sum(gains), rtol=1e-6)


def test_of_a_full_process_it_is_what_measuring_would_leave() -> None:
    """A row is added with its noise, and the process of all rows conditioned again."""
    model, X, D = full_model(n=30)  # no more than the nearest rows
    dataset, (candidates, region) = table(0, n=30), rows()
    predictor, params = ModelPredictor(model), oracle_params(HP, np.array([0, 1, 1, 2]))
    ours = reduce_variance(predictor, candidates, region, 3)
    Xs, s2 = standardized(dataset, region), HP.noise_variance
    scale = model.posterior.target_scale**2
    for count in range(1, 4):
        added = standardized(dataset, candidates[ours.places[:count]])
        left = conditional_covariance(params, np.concatenate((X, added)), np.append(D, np.full(count, s2)), Xs)
        before = np.diag(conditional_covariance(params, X, D, Xs)).mean()
        np.testing.assert_allclose(scale * (before - np.diag(left).mean()), ours.gains[:count].sum(), rtol=1e-6)


@pytest.mark.parametrize("largest", [True, False])
def test_improvement_is_expected_beyond_the_best(largest: bool) -> None:
    """By integration, the picks measured at their means one after the other."""
    dataset, (candidates, _) = table(0, n=40), rows()
    served, oracle = fitted(dataset, HP, BASIS, Approximation.FITC)
    predictor = ModelPredictor(Model(posterior=served))
    found = predictor.predict(candidates)
    Sigma = scaled(covariance(oracle, standardized(dataset, candidates)), found.latent_variance)
    sign = 1.0 if largest else -1.0
    mean, best = sign * found.centre, float(np.quantile(sign * found.centre, 0.8))
    ours = improve(predictor, candidates, 6, best=sign * best, largest=largest)
    picked: list[int] = []
    for place, gain in zip(ours.places.tolist(), ours.gains, strict=True):
        deviation = np.sqrt(np.diag(Sigma))
        each = [
            -1.0 if other in picked else improvement(mean[other], deviation[other], best) for other in range(CANDIDATES)
        ]
        assert int(np.argmax(each)) == place
        assert gain == pytest.approx(each[place], rel=1e-5)
        picked.append(place)
        Sigma = measured(Sigma, found.variance - found.latent_variance, place)
        best = max(best, mean[place])


def test_what_is_certain_is_no_surprise() -> None:
    gains = expected_improvement(np.array([2.0, 0.0, 1.0]), np.zeros(3), 1.0)
    np.testing.assert_allclose(gains, [1.0, 0.0, 0.0], atol=1e-12)


def test_each_candidate_is_picked_once() -> None:
    """However many are asked for."""
    candidates, region = rows()
    predictor = ModelPredictor(Model(posterior=fitted(table(0, n=40), HP, BASIS, Approximation.FITC)[0]))
    few = candidates[:5]
    assert sorted(reduce_variance(predictor, few, region, 20).places.tolist()) == [0, 1, 2, 3, 4]
    assert sorted(improve(predictor, few, 20, best=1e9, largest=True).places.tolist()) == [0, 1, 2, 3, 4]


def test_refusals() -> None:
    posterior = fitted(table(0, n=40), HP, BASIS, Approximation.FITC)[0]
    predictor, (candidates, region) = ModelPredictor(Model(posterior=posterior)), rows()
    with pytest.raises(InvalidDataError, match="1 to 5,000 candidates, got 5,001"):
        reduce_variance(predictor, np.zeros((MOST_CANDIDATES + 1, 4)), region, 1)
    with pytest.raises(InvalidDataError, match="region: expected 1 to 5,000 rows, got 0"):
        reduce_variance(predictor, candidates, region[:0], 1)
    with pytest.raises(InvalidDataError, match="count: expected 1 to 100, got 101"):
        improve(predictor, candidates, 101, best=0.0, largest=True)
    alone = ModelPredictor(replace(Model(posterior=posterior.without_variance())))
    with pytest.raises(MeanOnlyError):
        reduce_variance(alone, candidates, region, 1)
