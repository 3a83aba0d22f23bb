"""Rows of weights: factors, objective, leave-one-out and bounds against dense densities with a noise for each row."""

import numpy as np
import pytest

import core.sparse.factors
from core.arrays import FloatArray
from core.sparse.bounds import DualGreedy, bounds_of
from core.sparse.leave_one_out import leave_one_out
from core.sparse.likelihood import nlml, nlml_and_gradient, nlml_and_gradients
from core.sparse.scheme import scheme
from core.spec import Approximation
from tests.core.problems import POWER, THETAS, Problem, oracle_params, problem, to_log
from tests.dense import weighted as dense
from tests.dense.kernel import kernel
from tests.dense.objective import central_differences

EVERY = list(Approximation)
SMOOTH = [Approximation.SOR, Approximation.DTC, Approximation.VFE]
"""Approximations whose noise diagonal has no part of the unexplained variance, which is each row's own."""


def ours(case: Problem, approximation: Approximation) -> tuple[float, FloatArray]:
    return nlml_and_gradient(case.rows, case.Z, case.hyperparameters, scheme(approximation, POWER))


@pytest.mark.parametrize("approximation", EVERY)
@pytest.mark.parametrize("name", THETAS)
def test_value_and_gradient(name: str, approximation: Approximation) -> None:
    case = problem(11, n=30).weighted().with_hyperparameters(**THETAS[name])
    value, gradient = ours(case, approximation)
    jitter = case.factors(approximation).jitter

    def oracle(theta: FloatArray) -> float:
        return dense.objective(case.at(theta).sparse(approximation, jitter), case.weights)

    theta = to_log(case.hyperparameters)
    np.testing.assert_allclose(value, oracle(theta), rtol=1e-8)
    np.testing.assert_allclose(nlml(case.factors(approximation)), value, rtol=1e-12)
    numeric = central_differences(oracle, theta, step=2e-5)
    np.testing.assert_allclose(gradient, numeric, rtol=2e-5, atol=2e-5 * np.abs(numeric).max())


@pytest.mark.parametrize("approximation", EVERY)
def test_gradients_in_theta_and_in_the_basis_are_those_of_the_value(approximation: Approximation) -> None:
    case = problem(3, n=60, d=10).weighted(1)
    terms = scheme(approximation, POWER)
    found = nlml_and_gradients(case.rows, case.Z, case.hyperparameters, terms)
    numeric = central_differences(lambda t: ours(case.at(t), approximation)[0], to_log(case.hyperparameters), step=1e-4)
    np.testing.assert_allclose(found.by_theta, numeric, rtol=1e-6, atol=1e-6 * np.abs(numeric).max())

    def moved(flat: FloatArray) -> float:
        return nlml_and_gradient(case.rows, flat.reshape(case.Z.shape), case.hyperparameters, terms)[0]

    numeric = central_differences(moved, case.Z.ravel(), step=1e-4)
    np.testing.assert_allclose(found.by_basis.ravel(), numeric, rtol=1e-6, atol=1e-6 * np.abs(numeric).max())


@pytest.mark.parametrize("approximation", EVERY)
@pytest.mark.parametrize("seed", [0, 1])
def test_leave_one_out_is_n_deletions(seed: int, approximation: Approximation) -> None:
    case = problem(seed, n=25).weighted(seed)
    factors = case.factors(approximation)
    mean, variance = leave_one_out(factors)
    oracle_mean, oracle_variance = dense.leave_one_out(case.sparse(approximation, factors.jitter), case.weights)
    np.testing.assert_allclose(mean, oracle_mean, rtol=1e-7, atol=1e-8)
    np.testing.assert_allclose(variance, oracle_variance, rtol=1e-7)


@pytest.mark.parametrize("approximation", EVERY)
def test_weights_of_one_are_no_weights(approximation: Approximation) -> None:
    """To rounding: the sums are other ones for DTC and VFE, whose noise is one number without weights."""
    case = problem(5, n=50)
    value, gradient = ours(case, approximation)
    other, other_gradient = ours(case.changed(weights=np.ones(50)), approximation)
    np.testing.assert_allclose(other, value, rtol=1e-12)
    np.testing.assert_allclose(other_gradient, gradient, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("approximation", SMOOTH)
def test_a_mean_of_k_rows_of_equal_inputs_is_a_row_of_weight_k(approximation: Approximation) -> None:
    """The same posterior at fixed theta, whatever the targets' spread within the copies; with all rows as basis that is
    the exact process. FITC and power EP give each copy an error of its own, and do not."""
    case, random = problem(6, n=20), np.random.default_rng(1)
    counts = random.integers(1, 5, size=20)
    copies = case.changed(
        X=np.repeat(case.X, counts, axis=0),
        y=np.repeat(case.y, counts) + 0.3 * random.normal(size=counts.sum()),
        indices=np.cumsum(counts)[case.indices] - 1,
    )
    place = np.repeat(np.arange(20), counts)
    one = case.changed(y=np.bincount(place, copies.y) / counts, weights=counts.astype(np.float64))
    first, second = copies.factors(approximation), one.factors(approximation)
    np.testing.assert_allclose(second.alpha, first.alpha, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(second.information, first.information, rtol=1e-10, atol=1e-10)


def test_a_row_of_hardly_any_weight_is_as_if_it_were_not_there() -> None:
    case = problem(7, n=30)
    rest = np.setdiff1d(np.arange(30), [29])
    case = case.changed(indices=np.setdiff1d(case.indices, [29]))
    without = case.changed(X=case.X[rest], y=case.y[rest])
    faint = case.changed(weights=np.where(np.arange(30) == 29, 1e-12, 1.0))
    for approximation in EVERY:
        np.testing.assert_allclose(
            faint.factors(approximation).alpha, without.factors(approximation).alpha, rtol=1e-6, atol=1e-8
        )


@pytest.mark.parametrize("approximation", EVERY)
def test_chunks_and_threads_change_only_rounding(approximation: Approximation, monkeypatch: pytest.MonkeyPatch) -> None:
    case = problem(5, n=209).weighted()
    value, gradient = ours(case, approximation)
    mean, variance = leave_one_out(case.factors(approximation))
    monkeypatch.setattr("core.process.rows.BLOCK_NUMBERS", 1)
    monkeypatch.setattr(core.sparse.factors, "KEPT_BYTES", 0)
    for workers in (1, 3):
        threaded = case.changed(workers=workers)
        other, other_gradient = ours(threaded, approximation)
        np.testing.assert_allclose(other, value, rtol=1e-11)
        np.testing.assert_allclose(other_gradient, gradient, rtol=1e-8, atol=1e-8)
        for found, expected in zip(leave_one_out(threaded.factors(approximation)), (mean, variance), strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-8)


def scaled(case: Problem) -> tuple[FloatArray, FloatArray]:
    """Kernel matrix and targets of the process sqrt(w) f, whose rows all have the noise s2."""
    roots, params = np.sqrt(case.weights), oracle_params(case.hyperparameters, case.groups)
    return roots[:, None] * kernel(params, case.X, case.X) * roots, roots * case.y


def test_bounds_hold_the_full_process_between_them() -> None:
    """The dual value by its definition, Qmin by the full process, and the full process's error bar at rows."""
    case = problem(2, n=40, d=12).weighted()
    K, y = scaled(case)
    s2 = case.hyperparameters.noise_variance
    dual = DualGreedy(case.rows, case.hyperparameters, 12)
    for size in range(1, 13):
        dual.grow()
        rows = dual.indices
        inner = np.linalg.inv(s2 * np.eye(size) + K[np.ix_(rows, rows)])
        np.testing.assert_allclose(dual.value, -0.5 * y[rows] @ inner @ y[rows], rtol=1e-9)
    found, lower, upper = bounds_of(case.rows, case.hyperparameters, case.indices, case.X[:5])
    least = -0.5 * y @ K @ np.linalg.inv(s2 * np.eye(40) + K) @ y
    assert found.lower <= least <= found.upper
    params = oracle_params(case.hyperparameters, case.groups)
    np.testing.assert_allclose(
        found.upper,
        dense.pi(
            params,
            case.X,
            case.y,
            case.weights,
            case.indices.tolist(),
            dense.minimiser(params, case.X, case.y, case.weights, case.indices.tolist()),
        ),
        rtol=1e-6,
    )
    inverse = np.linalg.inv(kernel(params, case.X, case.X) + np.diag(s2 / case.weights))
    k = kernel(params, case.X[:5], case.X)
    exact = np.diag(kernel(params, case.X[:5], case.X[:5]) - k @ inverse @ k.T) + s2
    assert (lower <= exact * (1 + 1e-9)).all()
    assert (exact <= upper * (1 + 1e-9)).all()
