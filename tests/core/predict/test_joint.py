"""core/predict/joint.py and core/predict/covariance.py: draws and totals of rows against a dense full covariance."""

from dataclasses import replace

import numpy as np
import pytest

from core.arrays import FloatArray
from core.errors import InvalidDataError, MeanOnlyError
from core.predict import full_predictor
from core.predict.calibration import Calibration
from core.predict.joint import MOST_DRAWN_ROWS, MOST_TOTAL_ROWS, joint_rows, total
from core.predict.model import Model, ModelPredictor
from core.predict.transforms import Transform
from core.spec import Approximation, Precision, TargetTransform
from tests.core.predict.test_model import HP, noise_of, standardized
from tests.core.predict.test_predictor import BASIS, fitted
from tests.core.problems import oracle_params
from tests.core.runs import table
from tests.dense.mean import conditional_covariance, full_weights, nearest
from tests.dense.posterior import covariance

CALIBRATIONS = [
    Calibration(),
    Calibration(
        latent_scale=3.0,
        noise_scale=0.5,
        rows=200,
        probabilities=np.array([0.0, 0.5, 0.9, 0.99]),
        quantiles=np.array([0.0, 0.8, 2.0, 4.5]),
    ),
]


def scaled(Sigma: FloatArray, served: FloatArray) -> FloatArray:
    """A covariance whose diagonal is that of what is served."""
    scale = np.sqrt(served / np.diag(Sigma))
    return np.asarray(Sigma * scale[:, None] * scale)


def full_model(seed: int = 0, n: int = 40) -> tuple[Model, FloatArray, FloatArray]:
    """A full process with noise of each row, its standardized rows and their noise."""
    dataset = table(seed, n=n)
    posterior, oracle = fitted(dataset, HP, [*range(n)], Approximation.FITC)
    D = HP.noise_variance * np.exp(0.5 * np.sin(np.arange(n)))
    alpha = full_weights(oracle.params, oracle.X, oracle.y, D)
    near = replace(posterior.without_variance(), alpha=alpha)
    return Model(posterior=near, near=D), oracle.X, D


@pytest.mark.parametrize("approximation", list(Approximation))
@pytest.mark.parametrize("calibration", CALIBRATIONS)
def test_a_total_is_that_of_the_dense_covariance(approximation: Approximation, calibration: Calibration) -> None:
    """w'Sigma w with the diagonal that is served, plus the noise of the rows; for any weights."""
    dataset, new = table(0, n=40), table(5, n=30).inputs
    served, oracle = fitted(dataset, HP, BASIS, approximation)
    noise = noise_of(np.full(7, 0.1), -0.3)
    predictor = ModelPredictor(Model(posterior=served, calibration=calibration, noise=noise))
    found = predictor.predict(new)
    std, latent = found.std(), np.square(found.latent_std())
    Sigma = scaled(covariance(oracle, standardized(dataset, new)), latent)
    for weights in (np.ones(30), np.full(30, 1 / 30), np.linspace(0.0, 2.0, 30)):
        ours = total(predictor, new, weights)
        assert ours.method == "exact"
        np.testing.assert_allclose(ours.mean, weights @ found.moments()[0], rtol=1e-12)
        np.testing.assert_allclose(ours.latent_std**2, weights @ Sigma @ weights, rtol=1e-8)
        variance = weights @ Sigma @ weights + weights**2 @ (std**2 - latent)
        np.testing.assert_allclose(ours.std**2, variance, rtol=1e-8)
        below, above = calibration.interval(0.9)
        spread = np.sqrt(variance) / calibration.std_factor
        np.testing.assert_allclose(ours.interval(0.9), ours.mean + np.array([below, above]) * spread, rtol=1e-8)


@pytest.mark.parametrize("model", ["sparse", "full", "log"])
def test_the_total_of_one_row_is_that_row(model: str) -> None:
    """Mean, both error bars and interval; of a transformed target as exactly as draws are."""
    served = fitted(table(0, n=40), HP, BASIS, Approximation.PEP)[0]
    models = {
        "sparse": Model(posterior=served, calibration=CALIBRATIONS[1]),
        "full": replace(full_model()[0], calibration=CALIBRATIONS[1]),
        "log": Model(
            posterior=replace(served, target_shift=1.0, target_scale=0.3),
            calibration=Calibration(latent_scale=2.0),
            transform=Transform(kind=TargetTransform.LOG),
        ),
    }
    predictor, new = ModelPredictor(models[model]), table(5).inputs[:1]
    found, ours = predictor.predict(new), total(predictor, new, np.ones(1))
    tolerance = 0.05 if model == "log" else 1e-8
    assert ours.method == ("samples" if model == "log" else "exact")
    np.testing.assert_allclose(ours.mean, found.moments()[0][0], rtol=1e-12)
    np.testing.assert_allclose(ours.std, found.std()[0], rtol=tolerance)
    np.testing.assert_allclose(ours.latent_std, found.latent_std()[0], rtol=tolerance)
    np.testing.assert_allclose(ours.interval(0.8), [end[0] for end in found.interval(0.8)], rtol=tolerance)
    np.testing.assert_allclose(ours.quantile(0.3), found.quantile(0.3)[0], rtol=tolerance)


def test_a_target_with_bounds_keeps_them_in_its_total() -> None:
    """Near a bound the row's error bars are narrower, and those of a total with them."""
    served = replace(fitted(table(0, n=40), HP, BASIS, Approximation.FITC)[0], target_shift=0.5, target_scale=1.0)
    predictor = ModelPredictor(Model(posterior=served, transform=Transform(lowest=0.0)))
    new = table(5).inputs
    one = total(predictor, new[:1], np.ones(1))
    assert one.std == pytest.approx(float(predictor.predict(new[:1]).std()[0]), rel=1e-9)
    every = total(predictor, new, np.ones(len(new)))
    assert every.mean == pytest.approx(float(predictor.predict(new).moments()[0].sum()), rel=1e-12)
    assert every.interval(0.999999)[0] >= 0.0


def test_a_full_process_is_correlated_as_given_its_rows() -> None:
    """All rows where they are few; the variances are those from the nearest rows, which are served."""
    model, X, D = full_model()
    predictor, new = ModelPredictor(model), table(5, n=25).inputs
    found = predictor.predict(new)
    params = oracle_params(HP, np.array([0, 1, 1, 2]))
    Sigma = scaled(
        conditional_covariance(params, X, D, standardized(table(0, n=40), new)), np.square(found.latent_std())
    )
    ours = total(predictor, new, np.ones(25))
    np.testing.assert_allclose(ours.latent_std**2, Sigma.sum(), rtol=1e-8)


def test_of_many_rows_the_nearest_are_given(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not those that no row asked for is near to: the joint posterior is that of the others."""
    monkeypatch.setattr(full_predictor, "MOST_CONDITIONED", 35)
    model, X, D = full_model()
    predictor, new = ModelPredictor(model), table(5, n=3).inputs
    params, Xs = oracle_params(HP, np.array([0, 1, 1, 2])), standardized(table(0, n=40), new)
    counts = np.zeros(40)
    for x in Xs:
        counts[nearest(params, X, x, 32)] += 1
    some = np.sort(np.argsort(-counts, kind="stable")[:35])
    some = some[counts[some] > 0]
    served = np.square(predictor.predict(new).latent_std())
    Sigma = scaled(conditional_covariance(params, X[some], D[some], Xs), served)
    np.testing.assert_allclose(total(predictor, new, np.ones(3)).latent_std ** 2, Sigma.sum(), rtol=1e-8)


@pytest.mark.parametrize("kind", ["sparse", "full"])
def test_draws_have_the_mean_and_the_covariance(kind: str) -> None:
    """Within four standard errors, of 20,000 draws; the same seed gives the same draws."""
    dataset, new = table(0, n=40), table(5, n=12).inputs
    served, oracle = fitted(dataset, HP, BASIS, Approximation.VFE)
    if kind == "sparse":
        model, Sigma = Model(posterior=served), covariance(oracle, standardized(dataset, new))
    else:
        model, X, D = full_model()
        Sigma = conditional_covariance(oracle.params, X, D, standardized(dataset, new))
    predictor = ModelPredictor(replace(model, calibration=CALIBRATIONS[1]))
    found, rows = predictor.predict(new), joint_rows(predictor, new)
    Sigma = scaled(Sigma, np.square(found.latent_std()))
    np.testing.assert_allclose(rows.factor @ rows.factor.T, Sigma, atol=1e-6 * Sigma.max())
    draws = rows.draws(20_000, np.random.default_rng(1))
    errors = np.sqrt((np.outer(np.diag(Sigma), np.diag(Sigma)) + Sigma**2) / 20_000)
    assert (np.abs(draws.mean(axis=0) - found.centre) < 4 * np.sqrt(np.diag(Sigma) / 20_000)).all()
    assert (np.abs(np.cov(draws.T) - Sigma) < 4.5 * errors).all()
    np.testing.assert_array_equal(draws, rows.draws(20_000, np.random.default_rng(1)))
    assert not np.array_equal(draws[:5], rows.draws(5, np.random.default_rng(2)))


def test_equal_rows_are_drawn_equal() -> None:
    """A function has one value at one place."""
    predictor = ModelPredictor(Model(posterior=fitted(table(0, n=40), HP, BASIS, Approximation.FITC)[0]))
    new = table(5, n=5).inputs
    draws = joint_rows(predictor, np.concatenate([new, new])).draws(50, np.random.default_rng(0))
    spread = predictor.predict(new).latent_std()
    assert (np.abs(draws[:, :5] - draws[:, 5:]) < 2e-3 * spread).all()


def test_a_total_of_logarithms_has_the_moments_of_log_normal_sums() -> None:
    """cov(y_i, y_j) = E y_i E y_j (exp c_ij - 1), to the accuracy of the draws."""
    dataset, new = table(0, n=40), table(5, n=15).inputs
    served, oracle = fitted(dataset, HP, BASIS, Approximation.VFE)
    served = replace(served, target_shift=2.0, target_scale=0.4)
    predictor = ModelPredictor(Model(posterior=served, transform=Transform(kind=TargetTransform.LOG)))
    found, ours = predictor.predict(new), total(predictor, new, np.ones(15))
    C = scaled(covariance(oracle, standardized(dataset, new)), found.latent_variance)
    means = np.exp(found.centre + 0.5 * found.variance)
    C[np.diag_indices(15)] = found.variance
    variance = means @ np.expm1(C) @ means
    np.testing.assert_allclose(ours.mean, means.sum(), rtol=1e-10)
    np.testing.assert_allclose(ours.std, np.sqrt(variance), rtol=0.06)
    lower, upper = ours.interval(0.95)
    assert 0.0 < lower < ours.mean < upper
    again = total(predictor, new, np.ones(15))
    assert (again.std, again.interval(0.5)) == (ours.std, ours.interval(0.5))


def test_single_precision_is_as_good_as_it_was_for_rows() -> None:
    dataset, new = table(0, n=40), table(5, n=20).inputs
    model = Model(posterior=fitted(dataset, HP, BASIS, Approximation.FITC)[0])
    double, single = (
        total(ModelPredictor(replace(model, precision=precision)), new, np.ones(20))
        for precision in (Precision.FLOAT64, Precision.FLOAT32)
    )
    np.testing.assert_allclose(single.std, double.std, rtol=1e-4)


def test_too_many_rows_are_refused() -> None:
    predictor = ModelPredictor(Model(posterior=fitted(table(0, n=40), HP, BASIS, Approximation.FITC)[0]))
    inputs = np.zeros((MOST_TOTAL_ROWS + 1, 4))
    with pytest.raises(InvalidDataError, match="at most 2,000 rows, got 2,001"):
        joint_rows(predictor, inputs[: MOST_DRAWN_ROWS + 1])
    with pytest.raises(InvalidDataError, match="at most 10,000 rows, got 10,001"):
        total(predictor, inputs, np.ones(len(inputs)))


def test_a_mean_alone_has_no_total_with_an_error_bar() -> None:
    posterior = fitted(table(0, n=40), HP, BASIS, Approximation.FITC)[0].without_variance()
    with pytest.raises(MeanOnlyError):
        total(ModelPredictor(Model(posterior=posterior)), table(5).inputs, np.ones(90))
