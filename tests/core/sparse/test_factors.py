"""core/sparse/factors.py against n x n matrices."""

from collections.abc import Iterable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import core.sparse.factors
from core.errors import NumericalError
from core.hyperparameters import Hyperparameters
from core.process.rows import Rows, over_rows
from core.sparse.factors import Block, Factors, factorise
from core.sparse.leave_one_out import leave_one_out
from core.sparse.scheme import Penalty, scheme
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
    V = np.hstack([block.V for block in blocks_of(ours)])
    np.testing.assert_allclose(ours.information, V / D @ V.T, rtol=1e-9, atol=1e-9)
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


def blocks_of(factors: Factors) -> list[Block]:
    def copied(blocks: Iterable[Block]) -> list[Block]:  # blocks that are not kept hold until the next one
        return [
            Block(rows=block.rows, K0_and_two=block.K0_and_two.copy(), V_and_one=block.V_and_one.copy())
            for block in blocks
        ]

    return [block for run in factors.over_blocks(copied) for block in run]


@pytest.mark.parametrize("workers", [1, 2, 3, 16])
def test_rows_are_cut_into_blocks_that_cover_each_once_in_order(workers: int) -> None:
    for n, size in ((1, 1), (63, 9), (64, 9), (1000, 10_000), (100_000, 300)):
        rows = Rows(X=np.zeros((n, 1)), y=np.zeros(n), groups=np.zeros(1, np.int64), workers=workers)
        runs = over_rows(rows, np.zeros((size, 1)), list)
        seen = [np.arange(n)[place] for run in runs for place in run]
        np.testing.assert_array_equal(np.concatenate(seen), np.arange(n))
        assert len(runs) <= workers


def _same(ours: Factors, other: Factors, rtol: float) -> None:
    for name in ("L", "LB", "e", "D", "c", "alpha"):
        np.testing.assert_allclose(getattr(ours, name), getattr(other, name), rtol=rtol, atol=1e-11)


@pytest.mark.parametrize("approximation", EVERY)
def test_chunks_and_kept_blocks_change_nothing(approximation: Approximation, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of 64 rows, the last one ragged, made again on the second pass: what a million rows go through."""
    case = problem(5, n=209)
    whole = case.factors(approximation)
    assert len(blocks_of(whole)) == 1
    monkeypatch.setattr("core.process.rows.BLOCK_NUMBERS", 1)
    chunked = case.factors(approximation)
    assert len(blocks_of(chunked)) == 4
    assert len(chunked.kept) == 1
    _same(chunked, whole, 1e-9)
    monkeypatch.setattr(core.sparse.factors, "KEPT_BYTES", 0)
    again = case.factors(approximation)
    assert again.kept == ()
    for one, other in zip(blocks_of(again), blocks_of(chunked), strict=True):
        assert one.rows == other.rows
        np.testing.assert_array_equal(one.K0, other.K0)
        np.testing.assert_array_equal(one.V, other.V)


@pytest.mark.parametrize("workers", [2, 3, 16])
def test_threads_change_only_rounding_and_not_from_run_to_run(workers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("core.process.rows.BLOCK_NUMBERS", 1)
    case = problem(5, n=209)
    alone = case.factors(Approximation.FITC)
    threaded = case.changed(workers=workers)
    ours = threaded.factors(Approximation.FITC)
    assert len(ours.kept) == min(workers, 4)
    _same(ours, alone, 1e-9)
    for _ in range(5):
        again = threaded.factors(Approximation.FITC)
        np.testing.assert_array_equal(again.alpha, ours.alpha)
        np.testing.assert_array_equal(again.e, ours.e)


def test_blocks_are_not_spoiled_by_reading_them() -> None:
    """Objective, gradient and leave-one-out read what is kept: they must leave it as it is."""
    case = problem(5)
    ours = case.factors(Approximation.FITC)
    once = [block.V.copy() for block in blocks_of(ours)]
    leave_one_out(ours)
    for block, before in zip(blocks_of(ours), once, strict=True):
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
