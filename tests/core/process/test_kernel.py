"""core/process/kernel.py against the kernel one pair at a time."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.process.kernel import DistanceSums, cross, gram
from tests.core.problems import hyperparameters, oracle_params, problem
from tests.dense.kernel import kernel


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_cross_is_the_kernel_without_bias(seed: int) -> None:
    case = problem(seed)
    params = oracle_params(case.hyperparameters, case.groups)
    ours = cross(case.Z, case.X, case.hyperparameters, case.groups)
    np.testing.assert_allclose(ours + params.vb, kernel(params, case.Z, case.X), rtol=1e-13)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_gram_is_symmetric_with_the_signal_variance_on_its_diagonal(seed: int) -> None:
    case = problem(seed)
    params = oracle_params(case.hyperparameters, case.groups)
    ours = gram(case.Z, case.hyperparameters, case.groups)
    np.testing.assert_array_equal(ours, ours.T)
    np.testing.assert_array_equal(np.diag(ours), params.v0)
    np.testing.assert_allclose(ours + params.vb, kernel(params, case.Z, case.Z), rtol=1e-13)


def test_columns_of_one_group_share_a_lengthscale() -> None:
    """Swapping two columns of a group changes nothing, swapping columns of two groups does."""
    case = problem(3, groups=(0, 0, 1, 2))
    before = cross(case.Z, case.X, case.hyperparameters, case.groups)
    swap = case.X[:, [1, 0, 2, 3]]
    np.testing.assert_allclose(cross(swap[case.indices], swap, case.hyperparameters, case.groups), before, rtol=1e-13)
    swap = case.X[:, [0, 2, 1, 3]]
    assert np.abs(cross(swap[case.indices], swap, case.hyperparameters, case.groups) - before).max() > 1e-2


def test_far_rows_are_nothing_and_a_normal_number() -> None:
    """Past the clamp the kernel is 0 for all purposes, never subnormal, never negative, never NaN."""
    hp = hyperparameters([1.0], signal_variance=2.0, bias_variance=0.0, noise_variance=0.1)
    far = cross(np.zeros((1, 1)), np.array([[40.0], [1e3], [1e6], [1e150]]), hp, np.array([0]))
    assert (far < 1e-300).all()
    assert (far >= np.finfo(float).tiny).all()


def test_close_rows_never_pass_the_signal_variance() -> None:
    """|x|^2 + |z|^2 - 2 x'z may round below zero; the kernel must not pass v0, or e = K - Q goes wrong."""
    rng = np.random.default_rng(0)
    X = 30.0 * rng.normal(size=(200, 3))
    near = X + 1e-9 * rng.normal(size=X.shape)
    hp = hyperparameters([0.3, 1.0, 3.0], signal_variance=1.7, bias_variance=0.0, noise_variance=0.1)
    assert cross(X, near, hp, np.arange(3)).max() <= 1.7 * (1 + 4e-16)


@given(scale=st.floats(1e-3, 1e3), seed=st.integers(0, 1000))
def test_scaling_inputs_and_lengthscales_together_changes_nothing(scale: float, seed: int) -> None:
    case = problem(seed, n=12, d=4)
    before = cross(case.Z, case.X, case.hyperparameters, case.groups)
    scaled = case.with_hyperparameters(lengthscales=case.hyperparameters.lengthscales * scale)
    after = cross(case.Z * scale, case.X * scale, scaled.hyperparameters, case.groups)
    np.testing.assert_allclose(after, before, rtol=1e-11)


@pytest.mark.parametrize("cut", [9, 4])
def test_distance_sums(cut: int) -> None:
    """Of all rows at once, or of two blocks that are added."""
    rng = np.random.default_rng(0)
    P, Z, X = rng.normal(size=(4, 9)), rng.normal(size=(4, 3)), rng.normal(size=(9, 3))
    sums = DistanceSums.of(P[:, :cut], X[:cut])
    sums.add(DistanceSums.of(P[:, cut:], X[cut:]))
    np.testing.assert_allclose(sums.moments(Z), np.einsum("ji,jil->l", P, (Z[:, None] - X[None]) ** 2), rtol=1e-12)
    np.testing.assert_allclose(sums.pulls(Z), np.einsum("ji,jil->jl", P, X[None] - Z[:, None]), atol=1e-13)
