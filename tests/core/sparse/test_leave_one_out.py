"""core/sparse/leave_one_out.py against n deletions, with the basis kept."""

import numpy as np
import pytest

import core.sparse.factors
from core.sparse.leave_one_out import leave_one_out
from core.spec import Approximation
from tests.core.problems import problem
from tests.dense.loo import exact_leave_one_out
from tests.dense.loo import leave_one_out as deletions

EVERY = list(Approximation)


@pytest.mark.parametrize("approximation", EVERY)
@pytest.mark.parametrize("seed", [0, 1])
def test_leave_one_out_is_n_deletions(seed: int, approximation: Approximation) -> None:
    case = problem(seed, n=25)
    factors = case.factors(approximation)
    mean, variance = leave_one_out(factors)
    oracle_mean, oracle_variance = deletions(case.sparse(approximation, factors.jitter))
    np.testing.assert_allclose(mean, oracle_mean, rtol=1e-7, atol=1e-8)
    np.testing.assert_allclose(variance, oracle_variance, rtol=1e-7)


@pytest.mark.parametrize("approximation", [Approximation.DTC, Approximation.FITC])
def test_all_rows_as_basis_is_the_exact_process(approximation: Approximation) -> None:
    """Deletion with Z = X fixed: deleting a row from the *data* only is deleting it from the full process."""
    case = problem(2, n=25)
    case = case.changed(indices=np.arange(25))
    mean, variance = leave_one_out(case.factors(approximation))
    exact_mean, exact_variance = exact_leave_one_out(case.sparse(approximation).params, case.X, case.y)
    np.testing.assert_allclose(mean, exact_mean, atol=1e-5)
    np.testing.assert_allclose(variance, exact_variance, rtol=1e-5)


def test_chunks_and_threads_change_only_rounding(monkeypatch: pytest.MonkeyPatch) -> None:
    case = problem(5, n=209)
    whole = leave_one_out(case.factors(Approximation.FITC))
    monkeypatch.setattr("core.process.rows.BLOCK_NUMBERS", 1)
    monkeypatch.setattr(core.sparse.factors, "KEPT_BYTES", 0)
    for workers in (1, 3):
        chunked = leave_one_out(case.changed(workers=workers).factors(Approximation.FITC))
        for ours, expected in zip(chunked, whole, strict=True):
            np.testing.assert_allclose(ours, expected, rtol=1e-8)


@pytest.mark.parametrize("approximation", EVERY)
@pytest.mark.parametrize("noise", [1e-6, 1e-9, 1e-12, 1e-16])
@pytest.mark.parametrize("size", [20, 40])
def test_noise_free_data_give_finite_moments(size: int, noise: float, approximation: Approximation) -> None:
    """Moments where 1 - q_i has no digits left may be loose, but must stay finite and sane."""
    case = problem(8, n=40, d=size).with_hyperparameters(noise_variance=noise)
    case = case.changed(y=np.sin(case.X[:, 0]))
    mean, variance = leave_one_out(case.factors(approximation))
    assert np.isfinite(mean).all()
    assert np.isfinite(variance).all()
    assert (variance >= noise * (1 - 1e-6)).all()
    assert variance.max() <= 2 * case.hyperparameters.prior_variance + noise
    assert np.abs(mean).max() < 100.0
