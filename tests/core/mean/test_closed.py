"""core/mean/closed.py against a refit without each row."""

import numpy as np
import pytest

from core.errors import NotPositiveDefiniteError
from core.hyperparameters import KernelFamily
from core.mean.closed import closed_form_mean
from tests.core.mean.cases import FAMILIES, case
from tests.dense.mean import conditional_variance, full_weights, left_out_means


@pytest.mark.parametrize("family", FAMILIES)
def test_leave_one_out(family: KernelFamily) -> None:
    at = case(0, n=50, family=family)
    found = closed_form_mean(at.rows, at.kernel, at.D)
    X, y, rest = at.rows.X, at.rows.y, ~np.eye(50, dtype=bool)
    np.testing.assert_allclose(found.mean.alpha, full_weights(at.params, X, y, at.D), rtol=1e-8, atol=1e-9)
    expected = left_out_means(at.params, X, y, at.D, np.arange(50))
    np.testing.assert_allclose(found.mean.left_out, expected, atol=1e-9)
    variances = [conditional_variance(at.params, X[rest[i]], at.D[rest[i]], X[i]) for i in range(50)]
    np.testing.assert_allclose(found.latent_variance, variances, atol=1e-9)


def test_two_equal_rows_without_noise_are_refused() -> None:
    at = case(1, n=20)
    X = at.rows.X.copy()
    X[1] = X[0]
    same = at.problem.changed(X=X).rows
    with pytest.raises(NotPositiveDefiniteError, match=r"K \+ D"):
        closed_form_mean(same, at.kernel, np.full(20, 1e-300))
