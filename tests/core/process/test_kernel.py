"""core/process/kernel.py against the kernel one pair at a time, for every family."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.arrays import FloatArray
from core.hyperparameters import KernelFamily
from core.process.families import FAMILIES
from core.process.kernel import DistanceSums, Kernel
from tests.core.problems import Problem, hyperparameters, oracle_params, problem
from tests.dense.kernel import KERNELS, kernel

EVERY = pytest.mark.parametrize("family", list(KernelFamily))


def of(case: Problem, family: KernelFamily = KernelFamily.GAUSSIAN) -> Kernel:
    return Kernel.of(replace(case.hyperparameters, kernel=family), case.groups)


def test_every_family_has_an_entry_and_a_dense_twin() -> None:
    assert set(FAMILIES) == set(KernelFamily)
    assert set(KERNELS) == {family.value for family in KernelFamily}


@EVERY
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_cross_is_the_kernel_with_its_bias(seed: int, family: KernelFamily) -> None:
    case = problem(seed)
    params = oracle_params(case.hyperparameters, case.groups)._replace(family=family.value)
    expected = kernel(params, case.Z, case.X)
    ours = of(case, family)
    np.testing.assert_allclose(ours.cross(case.Z, case.X), expected, rtol=1e-13)
    basis, rows = ours.basis(case.Z), ours.rows(case.X)
    np.testing.assert_allclose(ours.stationary(basis, rows), expected - params.vb, rtol=1e-13, atol=1e-15)
    out = np.empty_like(expected)
    assert ours.block(basis, rows, out) is out
    np.testing.assert_allclose(out, expected, rtol=1e-13)


@EVERY
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_gram_is_symmetric_with_the_prior_variance_on_its_diagonal(seed: int, family: KernelFamily) -> None:
    case = problem(seed)
    params = oracle_params(case.hyperparameters, case.groups)._replace(family=family.value)
    ours = of(case, family)
    K = ours.gram(case.Z)
    np.testing.assert_array_equal(K, K.T)
    np.testing.assert_array_equal(np.diag(K), params.v0 + params.vb)
    np.testing.assert_array_equal(np.diag(ours.stationary_gram(case.Z)), params.v0)
    assert ours.diagonal == params.v0 + params.vb
    np.testing.assert_allclose(K, kernel(params, case.Z, case.Z), rtol=1e-13)


@EVERY
def test_slope_is_the_change_with_distance(family: KernelFamily) -> None:
    """Slope by 3-point differences of the dense kernel in one weight: dk/dw_l = k'(R) (x_l - x'_l)^2."""
    case = problem(5)
    params, ours = oracle_params(case.hyperparameters, case.groups)._replace(family=family.value), of(case, family)
    step = np.zeros(len(params.w))
    step[0] = 1e-6
    up, down = (params._replace(w=params.w + sign * step) for sign in (1.0, -1.0))

    def check(slope: FloatArray, other: FloatArray) -> None:
        change = kernel(up, case.Z, other) - kernel(down, case.Z, other)
        np.testing.assert_allclose(-slope * (case.Z[:, :1] - other[:, 0]) ** 2, change / 2e-6, rtol=1e-6, atol=1e-9)

    values = ours.stationary(ours.basis(case.Z), ours.rows(case.X))
    check(ours.slope(values, case.Z, case.X, np.empty_like(values)), case.X)
    among = ours.slope_gram(ours.stationary_gram(case.Z), case.Z)
    np.testing.assert_array_equal(among, among.T)
    check(among, case.Z)


@EVERY
def test_columns_of_one_group_share_a_lengthscale(family: KernelFamily) -> None:
    """Swapping two columns of a group changes nothing, swapping columns of two groups does."""
    case = problem(3, groups=(0, 0, 1, 2))
    ours = of(case, family)
    before = ours.cross(case.Z, case.X)
    swap = case.X[:, [1, 0, 2, 3]]
    np.testing.assert_allclose(ours.cross(swap[case.indices], swap), before, rtol=1e-13)
    swap = case.X[:, [0, 2, 1, 3]]
    assert np.abs(ours.cross(swap[case.indices], swap) - before).max() > 1e-2


@EVERY
def test_far_rows_are_nothing_and_a_normal_number(family: KernelFamily) -> None:
    """Past the clamp the kernel is 0 for all purposes, never subnormal, never negative, never NaN."""
    hp = hyperparameters([1.0], signal_variance=2.0, bias_variance=0.0, noise_variance=0.1)
    ours = Kernel.of(replace(hp, kernel=family), np.array([0]))
    far = ours.cross(np.zeros((1, 1)), np.array([[1e3], [1e6], [1e150]]))
    assert (far < 1e-290).all()
    assert (far >= np.finfo(float).tiny).all()


@EVERY
def test_close_rows_never_pass_the_signal_variance(family: KernelFamily) -> None:
    """Distances |x|^2 + |z|^2 - 2 x'z may round below zero; the kernel must not pass v0, or e = K - Q goes wrong."""
    rng = np.random.default_rng(0)
    X = 30.0 * rng.normal(size=(200, 3))
    near = X + 1e-9 * rng.normal(size=X.shape)
    hp = hyperparameters([0.3, 1.0, 3.0], signal_variance=1.7, bias_variance=0.0, noise_variance=0.1)
    assert Kernel.of(replace(hp, kernel=family), np.arange(3)).cross(X, near).max() <= 1.7 * (1 + 4e-16)


@given(scale=st.floats(1e-3, 1e3), seed=st.integers(0, 1000), family=st.sampled_from(KernelFamily))
def test_scaling_inputs_and_lengthscales_together_changes_nothing(
    scale: float, seed: int, family: KernelFamily
) -> None:
    case = problem(seed, n=12, d=4)
    before = of(case, family).cross(case.Z, case.X)
    scaled = case.with_hyperparameters(lengthscales=case.hyperparameters.lengthscales * scale)
    after = of(scaled, family).cross(case.Z * scale, case.X * scale)
    np.testing.assert_allclose(after, before, rtol=1e-11)


@pytest.mark.parametrize("cut", [9, 4])
def test_distance_sums(cut: int) -> None:
    """Sums of all rows at once, or of two blocks that are added."""
    rng = np.random.default_rng(0)
    P, Z, X = rng.normal(size=(4, 9)), rng.normal(size=(4, 3)), rng.normal(size=(9, 3))
    sums = DistanceSums.of(P[:, :cut], X[:cut])
    sums.add(DistanceSums.of(P[:, cut:], X[cut:]))
    for array in (sums.inputs, sums.rows, sums.squares):  # in the layout that they have once they are sent
        assert array.flags.c_contiguous
    np.testing.assert_allclose(sums.moments(Z), np.einsum("ji,jil->l", P, (Z[:, None] - X[None]) ** 2), rtol=1e-12)
    np.testing.assert_allclose(sums.pulls(Z), np.einsum("ji,jil->jl", P, X[None] - Z[:, None]), atol=1e-13)
