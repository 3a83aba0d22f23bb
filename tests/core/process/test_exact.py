"""core/process/exact.py: the full process."""

import numpy as np
import pytest

from core.arrays import FloatArray
from core.errors import NotPositiveDefiniteError
from core.process.exact import exact_nlml_and_gradient
from core.sparse.likelihood import nlml_and_gradient
from core.sparse.scheme import scheme
from core.spec import Approximation
from tests.core.problems import THETAS, oracle_params, problem, to_log
from tests.dense.objective import central_differences, exact_objective


@pytest.mark.parametrize("name", THETAS)
def test_value_and_gradient(name: str) -> None:
    case = problem(13, n=25).with_hyperparameters(**THETAS[name])

    def oracle(theta: FloatArray) -> float:
        params = oracle_params(case.at(theta).hyperparameters, case.groups)
        return exact_objective(params, case.X, case.y)

    value, gradient = exact_nlml_and_gradient(case.rows, case.hyperparameters)
    theta = to_log(case.hyperparameters)
    np.testing.assert_allclose(value, oracle(theta), rtol=1e-9)
    numeric = central_differences(oracle, theta, step=2e-5)
    np.testing.assert_allclose(gradient, numeric, rtol=2e-5, atol=2e-5 * np.abs(numeric).max())


@pytest.mark.parametrize("approximation", list(Approximation))
def test_every_sparse_objective_with_all_rows_has_this_value_and_gradient(approximation: Approximation) -> None:
    case = problem(14, n=30)
    value, gradient = exact_nlml_and_gradient(case.rows, case.hyperparameters)
    sparse, sparse_gradient = nlml_and_gradient(case.rows, case.X, case.hyperparameters, scheme(approximation, 0.4))
    np.testing.assert_allclose(sparse, value, atol=1e-4)
    np.testing.assert_allclose(sparse_gradient, gradient, atol=1e-3)


def test_two_equal_rows_without_noise_are_not_positive_definite() -> None:
    case = problem(15).with_hyperparameters(signal_variance=1.0, bias_variance=0.0, noise_variance=1e-300)
    X = case.X.copy()
    X[1] = X[0]
    with pytest.raises(NotPositiveDefiniteError, match=r"K \+ s2 I"):
        exact_nlml_and_gradient(case.changed(X=X).rows, case.hyperparameters)
