"""core/sparse/likelihood.py: values against dense normal densities, gradients against 3-point differences of those."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import core.sparse.factors
from core.arrays import FloatArray
from core.sparse.likelihood import nlml_and_gradient
from core.sparse.scheme import scheme
from core.spec import Approximation
from tests.core.problems import POWER, THETAS, Problem, problem, to_log
from tests.dense.objective import central_differences, exact_objective, objective

EVERY = list(Approximation)


def ours(case: Problem, approximation: Approximation) -> tuple[float, FloatArray]:
    return nlml_and_gradient(case.rows, case.Z, case.hyperparameters, scheme(approximation, POWER))


@pytest.mark.parametrize("approximation", EVERY)
@pytest.mark.parametrize("name", THETAS)
def test_value_and_gradient(name: str, approximation: Approximation) -> None:
    """Every hyperparameter (three groups of four columns, signal, bias, noise), every approximation, eight thetas."""
    case = problem(11, n=30).with_hyperparameters(**THETAS[name])
    value, gradient = ours(case, approximation)
    jitter = case.factors(approximation).jitter

    def oracle(theta: FloatArray) -> float:
        return objective(case.at(theta).sparse(approximation, jitter))

    theta = to_log(case.hyperparameters)
    np.testing.assert_allclose(value, oracle(theta), rtol=1e-8)
    numeric = central_differences(oracle, theta, step=2e-5)
    np.testing.assert_allclose(gradient, numeric, rtol=2e-5, atol=2e-5 * np.abs(numeric).max())


@pytest.mark.parametrize("approximation", EVERY)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_gradient_is_that_of_the_value_itself(seed: int, approximation: Approximation) -> None:
    """Tighter, since the rounding of dense inverses stays out."""
    case = problem(seed, n=60, d=10)
    _, gradient = ours(case, approximation)
    theta = to_log(case.hyperparameters)
    numeric = central_differences(lambda t: ours(case.at(t), approximation)[0], theta, step=1e-4)
    np.testing.assert_allclose(gradient, numeric, rtol=1e-6, atol=1e-6 * np.abs(numeric).max())


@pytest.mark.parametrize("approximation", EVERY)
def test_all_rows_as_basis_is_the_exact_marginal_likelihood(approximation: Approximation) -> None:
    """Only the jitter of 1e-8 is between them: its size against s2 is the tolerance."""
    case = problem(4, n=30)
    case = case.changed(indices=np.arange(30))
    value, _ = ours(case, approximation)
    exact = exact_objective(case.sparse(approximation).params, case.X, case.y)
    np.testing.assert_allclose(value, exact, atol=1e-4)


def test_power_one_is_fitc_and_power_nought_is_vfe() -> None:
    case = problem(4)
    near_one = nlml_and_gradient(case.rows, case.Z, case.hyperparameters, scheme(Approximation.PEP, power=1.0))
    near_nought = nlml_and_gradient(case.rows, case.Z, case.hyperparameters, scheme(Approximation.PEP, power=1e-7))
    for (value, gradient), limit, rtol in (
        (near_one, Approximation.FITC, 1e-12),
        (near_nought, Approximation.VFE, 1e-5),
    ):
        expected, expected_gradient = ours(case, limit)
        np.testing.assert_allclose(value, expected, rtol=rtol)
        np.testing.assert_allclose(gradient, expected_gradient, rtol=rtol, atol=rtol)


@pytest.mark.parametrize("approximation", EVERY)
def test_chunked_equals_unchunked(approximation: Approximation, monkeypatch: pytest.MonkeyPatch) -> None:
    case = problem(5, n=209)
    value, gradient = ours(case, approximation)
    monkeypatch.setattr("core.process.rows.BLOCK_NUMBERS", 1)
    for kept in (1 << 29, 0):
        monkeypatch.setattr(core.sparse.factors, "KEPT_BYTES", kept)
        chunked, chunked_gradient = ours(case, approximation)
        np.testing.assert_allclose(chunked, value, rtol=1e-11)
        np.testing.assert_allclose(chunked_gradient, gradient, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("approximation", EVERY)
def test_threads_change_only_rounding_and_not_from_run_to_run(
    approximation: Approximation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("core.process.rows.BLOCK_NUMBERS", 1)
    case = problem(5, n=209)
    value, gradient = ours(case, approximation)
    for workers in (2, 3):
        threaded = case.changed(workers=workers)
        other, other_gradient = ours(threaded, approximation)
        np.testing.assert_allclose(other, value, rtol=1e-11)
        np.testing.assert_allclose(other_gradient, gradient, rtol=1e-8, atol=1e-8)
        again, again_gradient = ours(threaded, approximation)
        assert again == other
        np.testing.assert_array_equal(again_gradient, other_gradient)


@pytest.mark.parametrize("approximation", EVERY)
def test_no_bias_has_no_gradient_in_its_logarithm(approximation: Approximation) -> None:
    case = problem(6).with_hyperparameters(bias_variance=0.0)
    value, gradient = ours(case, approximation)
    assert gradient[-2] == 0.0
    np.testing.assert_allclose(value, ours(case.with_hyperparameters(bias_variance=1e-13), approximation)[0], rtol=1e-9)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 1000), approximation=st.sampled_from(EVERY))
def test_order_of_rows_and_basis_does_not_matter(seed: int, approximation: Approximation) -> None:
    case = problem(seed)
    order = np.random.default_rng(seed).permutation(len(case.y))
    value, gradient = ours(case, approximation)
    moved = case.changed(X=case.X[order], y=case.y[order], indices=np.argsort(order)[case.indices][::-1])
    after, after_gradient = ours(moved, approximation)
    np.testing.assert_allclose(after, value, rtol=1e-9)
    np.testing.assert_allclose(after_gradient, gradient, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("approximation", EVERY)
def test_scaling_target_and_variances_shifts_the_value_by_the_jacobian(
    approximation: Approximation,
) -> None:
    """-log density of c y is that of y plus n log c; the gradient in log theta does not move."""
    case = problem(7)
    value, gradient = ours(case, approximation)
    c, hp = 50.0, case.hyperparameters
    scaled = case.changed(y=c * case.y).with_hyperparameters(
        signal_variance=hp.signal_variance * c**2,
        bias_variance=hp.bias_variance * c**2,
        noise_variance=hp.noise_variance * c**2,
    )
    after, after_gradient = ours(scaled, approximation)
    np.testing.assert_allclose(after, value + len(case.y) * np.log(c), rtol=1e-10)
    np.testing.assert_allclose(after_gradient, gradient, rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("approximation", EVERY)
@pytest.mark.parametrize("noise", [1e-6, 1e-9])
def test_hardly_any_noise(approximation: Approximation, noise: float) -> None:
    """Noise-free data: value and gradient stay finite and the gradient still points the right way."""
    case = problem(8, n=50, d=15).with_hyperparameters(noise_variance=noise)
    case = case.changed(y=np.sin(case.X[:, 0]))
    value, gradient = ours(case, approximation)
    assert np.isfinite(value)
    theta = to_log(case.hyperparameters)
    step = 1e-5 * gradient / np.linalg.norm(gradient)
    downhill = ours(case.at(theta - step), approximation)[0]
    slope = (value - downhill) / np.linalg.norm(step)
    np.testing.assert_allclose(slope, np.linalg.norm(gradient), rtol=1e-2)


@pytest.mark.parametrize("approximation", EVERY)
def test_fewer_rows_than_columns_and_one_basis_vector(approximation: Approximation) -> None:
    rng = np.random.default_rng(0)
    case = problem(9, n=5, d=1, groups=(0, 1, 2, 3, 4, 5, 6, 7))
    case = case.changed(X=rng.normal(size=(5, 8)))
    value, gradient = ours(case, approximation)
    jitter = case.factors(approximation).jitter
    np.testing.assert_allclose(value, objective(case.sparse(approximation, jitter)), rtol=1e-9)
    assert gradient.shape == (11,)
