"""core/train/cross_fit.py against the dense posterior: a row is predicted by a fit that never saw it, and only once."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import core.sparse.factors
import core.train.cross_fit
from core.arrays import IntArray
from core.process.rows import Rows
from core.sparse.factors import Factors, factorise
from core.sparse.leave_one_out import leave_one_out
from core.sparse.scheme import scheme
from core.spec import Approximation
from core.train.cross_fit import (
    CROSS_FIT_FOLDS,
    LEAST_OTHERS,
    far_variance,
    left_out_by_folds,
    left_out_in_closed_form,
    predicted,
)
from tests.core.problems import POWER, THETAS, Problem, problem
from tests.core.selections import small_problems
from tests.dense import precise
from tests.dense.kernel import Sparse
from tests.dense.loo import leave_one_out as deletions
from tests.dense.posterior import predict as oracle_predict

EVERY = list(Approximation)


def dense_far_variance(oracle: Sparse) -> float:
    """The dense posterior's latent variance a million lengthscales off; infinite for SoR."""
    if oracle.approximation == "sor":
        return float("inf")
    return float(oracle_predict(oracle, np.full((1, oracle.X.shape[1]), 1e9))[1][0])


@pytest.mark.parametrize("approximation", [a for a in EVERY if a is not Approximation.SOR])
@pytest.mark.parametrize("theta", THETAS)
def test_far_variance_is_the_dense_one_very_far_away(theta: str, approximation: Approximation) -> None:
    """Only the bias of the kernel is left there, whose value the data may know well."""
    case = problem(0).with_hyperparameters(**THETAS[theta])
    factors = case.factors(approximation)
    found = far_variance(factors)
    oracle = case.sparse(approximation, factors.jitter)
    _, exact = precise.predict(oracle, np.full((1, 4), 1e9))
    assert found == pytest.approx(exact[0], rel=1e-8)
    assert found == pytest.approx(dense_far_variance(oracle), rel=1e-5)
    kept = Rows(X=np.full((2, 4), 1e9) * [[1.0], [-1.0]], y=np.zeros(2), groups=case.groups)
    np.testing.assert_allclose(predicted(factors, kept.X, kept.y).latent_variance, found, rtol=1e-9)
    hp = case.hyperparameters
    assert hp.signal_variance * (1 - 1e-9) <= found <= hp.prior_variance * (1 + 1e-9)


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(case=small_problems(ill=True), approximation=st.sampled_from([a for a in EVERY if a is not Approximation.SOR]))
def test_far_variance_of_any_theta(case: Problem, approximation: Approximation) -> None:
    """Never below the signal's own: a calibration that divided by less would bend the wrong way."""
    assume(len(case.indices) > 0)
    found = far_variance(case.factors(approximation))
    hp = case.hyperparameters
    rounding = 1e-6 * hp.prior_variance  # the jitter has 1e-8 of it
    assert hp.signal_variance - rounding <= found <= hp.prior_variance + rounding
    assert found > 0.0


@pytest.mark.parametrize("approximation", EVERY)
@pytest.mark.parametrize("seed", [0, 1])
def test_new_rows_are_predicted_as_by_the_dense_posterior(seed: int, approximation: Approximation) -> None:
    case, new = problem(seed), problem(seed + 50, n=33)
    factors = case.factors(approximation)
    found = predicted(factors, new.X, new.y)
    mean, variance = oracle_predict(case.sparse(approximation, factors.jitter), new.X)
    np.testing.assert_allclose(found.error, new.y - mean, rtol=1e-7, atol=1e-8)
    np.testing.assert_allclose(found.latent_variance, variance, rtol=1e-7, atol=1e-10)
    np.testing.assert_array_equal(found.noise_variance, case.hyperparameters.noise_variance)
    np.testing.assert_array_equal(found.places, np.arange(33))
    expected = dense_far_variance(case.sparse(approximation, factors.jitter))
    np.testing.assert_allclose(found.far_variance, np.full(33, expected), rtol=1e-7)


def test_chunks_and_threads_change_only_rounding(monkeypatch: pytest.MonkeyPatch) -> None:
    case, new = problem(0), problem(50, n=209)
    whole = predicted(case.factors(Approximation.FITC), new.X, new.y)
    monkeypatch.setattr("core.process.rows.BLOCK_NUMBERS", 1)
    for workers in (1, 3):
        ours = predicted(case.changed(workers=workers).factors(Approximation.FITC), new.X, new.y)
        np.testing.assert_allclose(ours.error, whole.error, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(ours.latent_variance, whole.latent_variance, rtol=1e-9)


class Fits:
    """Fits on the rest of the rows, its basis every seventh of them, and a record of what each was given."""

    def __init__(self, case: Problem, approximation: Approximation) -> None:
        self.case, self.approximation = case, approximation
        self.rests: list[IntArray] = []
        self.made: list[Factors] = []

    def __call__(self, number: int, rest: IntArray) -> Factors:
        assert number == len(self.rests)
        rows = replace(self.case.rows, X=self.case.X[rest], y=self.case.y[rest])
        terms = scheme(self.approximation, POWER)
        self.rests.append(rest)
        self.made.append(factorise(rows, rows.X[::7], self.case.hyperparameters, terms))
        return self.made[-1]

    def folds(self) -> list[IntArray]:
        """The rows that each fit did not get."""
        return [np.setdiff1d(np.arange(len(self.case.X)), rest) for rest in self.rests]


@pytest.mark.parametrize("approximation", EVERY)
@pytest.mark.parametrize("count", [40, 43])
def test_every_row_is_predicted_once_by_a_fit_without_it(count: int, approximation: Approximation) -> None:
    case = problem(2, n=count)
    fits = Fits(case, approximation)
    found = left_out_by_folds(case.rows, fits, np.random.default_rng(0))
    assert sorted(found.places) == list(range(count))
    size = -(-count // CROSS_FIT_FOLDS)
    assert len(fits.rests) == -(-count // size) <= CROSS_FIT_FOLDS
    assert sorted(np.concatenate(fits.folds())) == list(range(count))
    where = np.argsort(found.places)
    for fold, rest, factors in zip(fits.folds(), fits.rests, fits.made, strict=True):
        oracle = case.sparse(approximation, factors.jitter)
        oracle = oracle._replace(X=case.X[rest], y=case.y[rest], Z=case.X[rest][::7])
        mean, variance = oracle_predict(oracle, case.X[fold])
        np.testing.assert_allclose(found.error[where][fold], case.y[fold] - mean, rtol=1e-6, atol=1e-8)
        np.testing.assert_allclose(found.latent_variance[where][fold], variance, rtol=1e-6, atol=1e-10)
        np.testing.assert_allclose(
            found.far_variance[where][fold], np.full(len(fold), dense_far_variance(oracle)), rtol=1e-6
        )
    np.testing.assert_array_equal(found.noise_variance, case.hyperparameters.noise_variance)


@settings(max_examples=30, deadline=None)
@given(count=st.integers(2, 60), seed=st.integers(0, 100))
def test_folds_part_any_number_of_rows(count: int, seed: int) -> None:
    case = problem(3, n=count, d=1)
    fits = Fits(case, Approximation.DTC)
    found = left_out_by_folds(case.rows, fits, np.random.default_rng(seed))
    assert sorted(found.places) == list(range(count))
    folds = fits.folds()
    assert sorted(np.concatenate(folds)) == list(range(count))
    assert len(folds) <= CROSS_FIT_FOLDS
    assert max(len(fold) for fold in folds) == -(-count // CROSS_FIT_FOLDS)
    assert all(len(rest) for rest in fits.rests)


@pytest.mark.parametrize(
    ("count", "enough", "folds"),
    [(100, 30, 2), (200, 30, 1), (100, 100, 5), (100, 99, 5), (200, 40, 1), (200, 41, 2), (200, 39, 1)],
)
def test_enough_rows_are_enough(count: int, enough: int, folds: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole folds until so many are predicted; a fold is never larger than that."""
    monkeypatch.setattr(core.train.cross_fit, "ENOUGH_ROWS", enough)
    case = problem(4, n=count)
    fits = Fits(case, Approximation.FITC)
    found = left_out_by_folds(case.rows, fits, np.random.default_rng(0), folds=5)
    size = min(count // 5, enough)
    assert len(fits.rests) == folds
    assert [len(fold) for fold in fits.folds()] == [size] * folds
    assert len(found.places) == len(found.error) == len(set(found.places.tolist())) == folds * size
    assert sorted(found.places) == sorted(np.concatenate(fits.folds()))


def test_folds_are_drawn_by_the_seed() -> None:
    case = problem(5)

    def places(seed: int) -> list[int]:
        fits = Fits(case, Approximation.FITC)
        drawn = left_out_by_folds(case.rows, fits, np.random.default_rng(seed)).places
        return [int(place) for place in drawn]

    assert places(0) == places(0) != places(1)


@pytest.mark.parametrize("approximation", EVERY)
def test_closed_form_is_n_deletions(approximation: Approximation) -> None:
    """Few rows: those of the basis are among them."""
    case = problem(0, n=25)
    factors = case.factors(approximation)
    moments = leave_one_out(factors)
    found = left_out_in_closed_form(factors, moments, case.indices)
    mean, variance = deletions(case.sparse(approximation, factors.jitter))
    s2 = case.hyperparameters.noise_variance
    np.testing.assert_array_equal(found.places, np.arange(25))
    np.testing.assert_allclose(found.error, case.y - mean, rtol=1e-7, atol=1e-8)
    np.testing.assert_allclose(found.latent_variance, variance - s2, rtol=1e-6, atol=1e-9)
    np.testing.assert_array_equal(found.noise_variance, s2)
    expected = dense_far_variance(case.sparse(approximation, factors.jitter))
    np.testing.assert_allclose(found.far_variance, np.full(25, expected), rtol=1e-7)


def test_rows_of_the_basis_are_left_out_where_enough_others_are() -> None:
    count = LEAST_OTHERS + 7
    case = problem(1, n=count)
    factors = case.factors(Approximation.FITC)
    found = left_out_in_closed_form(factors, leave_one_out(factors), case.indices)
    others = np.array([row for row in range(count) if row not in set(case.indices.tolist())])
    assert len(others) == LEAST_OTHERS
    np.testing.assert_array_equal(found.places, others)
    mean, variance = deletions(case.sparse(Approximation.FITC, factors.jitter))
    np.testing.assert_allclose(found.error, (case.y - mean)[others], rtol=1e-6, atol=1e-8)
    latent = variance - case.hyperparameters.noise_variance
    np.testing.assert_allclose(found.latent_variance, latent[others], rtol=1e-6, atol=1e-9)
    fewer = problem(1, n=count - 1).factors(Approximation.FITC)
    one_less = left_out_in_closed_form(fewer, leave_one_out(fewer), case.indices % (count - 1))
    assert len(one_less.places) == count - 1
    moved = left_out_in_closed_form(factors, leave_one_out(factors), np.empty(0, np.int64))
    np.testing.assert_array_equal(moved.places, np.arange(count))
