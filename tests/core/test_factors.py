"""core/factors.py against n x n matrices."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import core.factors
from core.errors import NumericalError
from core.factors import Factors, Penalty, factorise, information, row_slices, scheme
from core.hyperparameters import Hyperparameters
from core.spec import Approximation
from tests.core.problems import POWER, Problem, problem
from tests.dense.posterior import likelihood_diagonal, residual_diagonal

EVERY = list(Approximation)


@pytest.mark.parametrize("approximation", EVERY)
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_factors_agree_with_the_oracle(seed: int, approximation: Approximation) -> None:
    case = problem(seed)
    ours = case.factors(approximation)
    model = case.sparse(approximation, ours.jitter)
    e, D = residual_diagonal(model), likelihood_diagonal(model)
    np.testing.assert_allclose(ours.e, e, atol=1e-9)
    np.testing.assert_allclose(ours.D, D, atol=1e-9)
    blocks = list(ours.blocks())
    V = np.hstack([block.V for block in blocks])
    np.testing.assert_allclose(information(ours), V / D @ V.T, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(ours.LB @ ours.LB.T, np.eye(len(ours.Z)) + V / D @ V.T, rtol=1e-9)
    np.testing.assert_allclose(ours.L.T @ ours.alpha, ours.c, rtol=1e-9)


@pytest.mark.parametrize(
    ("approximation", "power", "penalty"),
    [
        ("sor", 0.0, Penalty.NONE),
        ("dtc", 0.0, Penalty.NONE),
        ("vfe", 0.0, Penalty.TRACE),
        ("fitc", 1.0, Penalty.NONE),
        ("pep", POWER, Penalty.POWER),
    ],
)
def test_scheme(approximation: str, power: float, penalty: Penalty) -> None:
    ours = scheme(Approximation(approximation), POWER)
    assert (ours.power, ours.penalty) == (power, penalty)


def test_row_slices_cover_every_row_once() -> None:
    for rows, size in ((1, 1), (63, 9), (64, 9), (1000, 10_000), (100_000, 300)):
        seen = np.concatenate([np.arange(rows)[place] for place in row_slices(rows, size)])
        np.testing.assert_array_equal(seen, np.arange(rows))


def _same(ours: Factors, other: Factors, rtol: float) -> None:
    for name in ("L", "LB", "e", "D", "c", "alpha"):
        np.testing.assert_allclose(getattr(ours, name), getattr(other, name), rtol=rtol, atol=1e-11)


@pytest.mark.parametrize("approximation", EVERY)
def test_chunks_and_kept_blocks_change_nothing(approximation: Approximation, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of 64 rows, the last one ragged, made again on the second pass: what a million rows go through."""
    case = problem(5, n=209)
    whole = case.factors(approximation)
    assert len(whole.kept) == 1
    monkeypatch.setattr(core.factors, "BLOCK_NUMBERS", 1)
    chunked = case.factors(approximation)
    assert len(chunked.kept) == 4
    _same(chunked, whole, 1e-9)
    monkeypatch.setattr(core.factors, "KEPT_BYTES", 0)
    again = case.factors(approximation)
    assert again.kept == ()
    for one, other in zip(again.blocks(), chunked.blocks(), strict=True):
        assert one.rows == other.rows
        np.testing.assert_array_equal(one.K0, other.K0)
        np.testing.assert_array_equal(one.V, other.V)


def test_blocks_are_not_spoiled_by_reading_them() -> None:
    case = problem(5)
    ours = case.factors(Approximation.FITC)
    once = [block.V.copy() for block in ours.blocks()]
    for block, before in zip(ours.blocks(), once, strict=True):
        np.testing.assert_array_equal(block.V, before)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    log_length=st.floats(-4, 6),
    log_noise=st.floats(-20, 1),
    log_signal=st.floats(-6, 8),
    duplicates=st.booleans(),
)
def test_residuals_never_negative_and_everything_finite(
    seed: int, log_length: float, log_noise: float, log_signal: float, duplicates: bool
) -> None:
    """e = diag(Kff - Qff) stays within 0..kss over ten orders of magnitude of every hyperparameter."""
    case = problem(seed, n=30, d=12)
    X = case.X.copy()
    if duplicates:
        X[1::2] = X[::2]
    hp = Hyperparameters(
        lengthscales=np.full(3, np.exp(log_length)),
        signal_variance=np.exp(log_signal),
        bias_variance=0.1,
        noise_variance=np.exp(log_noise),
    )
    ours = case.changed(X=X, hyperparameters=hp).factors(Approximation.FITC)
    assert (ours.e >= 0).all()
    assert (ours.e <= hp.prior_variance).all()
    assert (ours.D > 0).all()
    assert np.isfinite(ours.alpha).all()


def test_more_basis_vectors_never_leave_more_unexplained() -> None:
    case = problem(6, n=40, d=20)
    before = np.full(40, np.inf)
    for size in range(1, 21):
        e = case.changed(indices=case.indices[:size]).factors(Approximation.DTC).e
        assert (e <= before + 1e-7).all()
        before = e
    assert e[case.indices].max() < 1e-6 * case.hyperparameters.prior_variance


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 1000), approximation=st.sampled_from(EVERY))
def test_order_of_rows_and_basis_does_not_matter(seed: int, approximation: Approximation) -> None:
    case = problem(seed)
    order = np.random.default_rng(seed).permutation(len(case.y))
    before = case.factors(approximation)
    moved = Problem(
        X=case.X[order],
        y=case.y[order],
        groups=case.groups,
        hyperparameters=case.hyperparameters,
        indices=np.argsort(order)[case.indices],
    )
    after = moved.factors(approximation)
    np.testing.assert_allclose(after.alpha, before.alpha, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(after.e, before.e[order], atol=1e-10)
    backwards = case.changed(indices=case.indices[::-1]).factors(approximation)
    np.testing.assert_allclose(backwards.alpha[::-1], before.alpha, rtol=1e-6, atol=1e-8)


@pytest.mark.filterwarnings("ignore:overflow")
def test_overflowing_hyperparameters_are_a_numerical_error() -> None:
    case = problem(0).with_hyperparameters(signal_variance=1e308, bias_variance=1e308)
    with pytest.raises(NumericalError):
        factorise(case.rows, case.Z, case.hyperparameters, scheme(Approximation.DTC))
