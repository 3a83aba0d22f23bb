"""core/predict/targets.py: sums over targets and joint draws of them against dense covariances."""

from dataclasses import replace

import numpy as np
import pytest

from core.arrays import FloatArray
from core.predict.calibration import Calibration
from core.predict.joint import joint_rows, total
from core.predict.model import Model, ModelPredictor
from core.predict.targets import (
    TargetPart,
    correlated_scores,
    joint_draws,
    nearest_correlation,
    sum_of_targets,
    total_draws,
)
from core.predict.transforms import Transform
from core.spec import Approximation, TargetTransform
from tests.core.predict.test_joint import CALIBRATIONS, scaled
from tests.core.predict.test_model import HP, standardized
from tests.core.predict.test_predictor import BASIS, fitted
from tests.core.runs import table
from tests.dense.posterior import covariance

R = np.array([[1.0, 0.6, -0.3], [0.6, 1.0, 0.2], [-0.3, 0.2, 1.0]])
SCALES = np.array([1.0, 0.4, 2.5])
NEW = table(5, n=15).inputs


def predictors(calibration: Calibration) -> tuple[list[ModelPredictor], FloatArray, FloatArray]:
    """Three targets of one posterior but for their units; the covariance of the rows of the first one's function as it
    is served (m, m), and its noise (m,)."""
    dataset = table(0, n=40)
    served, oracle = fitted(dataset, HP, BASIS, Approximation.FITC)
    found = [
        ModelPredictor(
            Model(
                posterior=replace(served, target_scale=served.target_scale * scale, target_shift=10.0 * scale),
                calibration=calibration,
            )
        )
        for scale in SCALES
    ]
    rows = found[0].predict(NEW)
    latent = np.square(rows.latent_std())
    return found, scaled(covariance(oracle, standardized(dataset, NEW)), latent), np.square(rows.std()) - latent


@pytest.mark.parametrize("calibration", CALIBRATIONS)
@pytest.mark.parametrize("each_row", [True, False])
def test_a_sum_is_that_of_the_dense_separable_covariance(calibration: Calibration, each_row: bool) -> None:
    """All errors of all targets have the covariance (a a' R) x V, and the noise (a a' R) x diag(noise)."""
    models, V, noise = predictors(calibration)
    B, rows = R * np.outer(SCALES, SCALES), len(NEW)
    latent, target = np.kron(B, V), np.kron(B, V + np.diag(noise))
    among = np.eye(rows) if each_row else np.linspace(0.0, 2.0, rows)[None, :]
    over_targets = np.array([1.0, 0.5, 2.0])
    W = np.kron(over_targets[None, :], among)  # (rows or 1, t m)
    if each_row:
        parts = [TargetPart.of_rows(each.predict(NEW)) for each in models]
    else:
        parts = [TargetPart.of_total(total(each, NEW, among[0])) for each in models]
    found = sum_of_targets(parts, R, over_targets)
    means = np.concatenate([each.predict(NEW).moments()[0] for each in models])
    assert found.method == "exact"
    np.testing.assert_allclose(found.mean, W @ means, rtol=1e-12)
    np.testing.assert_allclose(found.latent_std, np.sqrt(np.diag(W @ latent @ W.T)), rtol=1e-8)
    std = np.sqrt(np.diag(W @ target @ W.T))
    np.testing.assert_allclose(found.std, std, rtol=1e-8)
    below, above = calibration.interval(0.9)
    lower, upper = found.interval(0.9)
    np.testing.assert_allclose(lower, found.mean + below * std / calibration.std_factor, rtol=1e-8)
    np.testing.assert_allclose(upper, found.mean + above * std / calibration.std_factor, rtol=1e-8)


def test_a_sum_of_one_target_is_the_target_and_of_multiples_the_sum() -> None:
    models, _, _ = predictors(CALIBRATIONS[1])
    parts = [TargetPart.of_rows(each.predict(NEW)) for each in models]
    one = sum_of_targets(parts[:1], np.eye(1), np.ones(1))
    np.testing.assert_allclose(one.interval(0.8), parts[0].interval(0.8), rtol=1e-12)
    same = sum_of_targets(parts, np.ones((3, 3)), np.ones(3))
    np.testing.assert_allclose(same.std, SCALES.sum() * parts[0].std, rtol=1e-10)
    np.testing.assert_allclose(same.quantile(0.1), np.sum([part.quantile(0.1) for part in parts], axis=0), rtol=1e-10)


def test_draws_have_the_separable_covariance() -> None:
    """Within five standard errors, of 20,000 draws; their sums are those of the sum over targets."""
    models, V, _ = predictors(CALIBRATIONS[1])
    draws = joint_draws([joint_rows(each, NEW) for each in models], R, 20_000, np.random.default_rng(1))
    expected = np.kron(R * np.outer(SCALES, SCALES), V)
    variances = np.diag(expected)
    errors = np.sqrt((np.outer(variances, variances) + expected**2) / 20_000)
    assert (np.abs(np.cov(np.hstack(draws).T) - expected) < 5.0 * errors).all()
    totals = [total(each, NEW, np.ones(15)) for each in models]
    drawn = np.stack(total_draws(totals, R, 20_000, np.random.default_rng(2)))
    np.testing.assert_allclose(np.corrcoef(drawn), R, atol=0.035)
    latent = sum_of_targets([TargetPart.of_total(each) for each in totals], R, np.ones(3)).latent_std
    np.testing.assert_allclose(drawn.sum(axis=0).std(), latent, rtol=0.03)
    np.testing.assert_allclose(np.sum(draws, axis=(0, 2)).std(), latent, rtol=0.03)


def test_draws_of_targets_whose_rows_are_unlike_keep_their_own_covariance() -> None:
    """With other hyperparameters the correlation between targets is at most R; of each by itself it is its own."""
    first = predictors(CALIBRATIONS[0])[0][0]
    other = fitted(table(0, n=40), replace(HP, signal_variance=0.5), BASIS[:3], Approximation.VFE)[0]
    rows = [joint_rows(each, NEW) for each in (first, ModelPredictor(Model(posterior=other)))]
    correlation = np.array([[1.0, 0.8], [0.8, 1.0]])
    a, b = joint_draws(rows, correlation, 20_000, np.random.default_rng(0))
    for draws, each in zip((a, b), rows, strict=True):
        Sigma = each.factor @ each.factor.T
        errors = np.sqrt((np.outer(np.diag(Sigma), np.diag(Sigma)) + Sigma**2) / 20_000)
        assert (np.abs(np.cov(draws.T) - Sigma) < 5.0 * errors).all()
    between = np.array([np.corrcoef(a[:, row], b[:, row])[0, 1] for row in range(15)])
    cosines = np.einsum("ij,ij->i", rows[0].factor, rows[1].factor)
    cosines /= np.prod([np.linalg.norm(each.factor, axis=1) for each in rows], axis=0)
    np.testing.assert_allclose(between, 0.8 * cosines, atol=0.03)
    assert between.max() < 0.8 + 0.02


def test_a_sum_of_logarithms_has_the_quantiles_of_its_draws() -> None:
    """Two log-normal targets and a normal one, against a Monte Carlo sum of 400,000."""
    models, _, _ = predictors(CALIBRATIONS[0])
    served = fitted(table(0, n=40), HP, BASIS, Approximation.FITC)[0]
    served = replace(served, target_shift=1.0, target_scale=0.5)
    logs = ModelPredictor(Model(posterior=served, transform=Transform(kind=TargetTransform.LOG)))
    rows = [logs.predict(NEW), logs.predict(NEW), models[0].predict(NEW)]
    found = sum_of_targets([TargetPart.of_rows(each) for each in rows], R, np.ones(3))
    assert found.method == "samples"
    scores = correlated_scores(R, (400_000,), np.random.default_rng(0))
    for row in (0, 7):
        sums = np.zeros(400_000)
        for each, own in zip(rows, scores, strict=True):
            sums += each.transform.inverse(each.centre[row] + own * np.sqrt(each.variance[row]))
        for probability in (0.05, 0.5, 0.9):
            error = abs(found.quantile(probability)[row] - np.quantile(sums, probability))
            assert error < 0.08 * sums.std(), (row, probability)
    one = sum_of_targets([TargetPart.of_rows(rows[0])], np.eye(1), np.ones(1))
    np.testing.assert_allclose(one.quantile(0.5), rows[0].quantile(0.5), rtol=0.05)
    np.testing.assert_allclose(one.std, rows[0].std(), rtol=1e-12)


def test_correlations_of_pairs_are_made_those_of_numbers() -> None:
    """One that is possible stays; else no variance of a sum is negative."""
    assert nearest_correlation(R) is R
    impossible = np.array([[1.0, 0.9, -0.9], [0.9, 1.0, 0.9], [-0.9, 0.9, 1.0]])
    found = nearest_correlation(impossible)
    assert np.linalg.eigvalsh(found)[0] > -1e-12
    np.testing.assert_allclose(np.diag(found), 1.0)
    assert (np.sign(found) == np.sign(impossible)).all()
    scores = correlated_scores(np.ones((2, 2)), (1000,), np.random.default_rng(0))
    np.testing.assert_allclose(scores[0], scores[1], atol=1e-9)
