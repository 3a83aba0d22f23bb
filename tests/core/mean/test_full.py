"""core/mean/full.py against one solve for each fit."""

from dataclasses import replace

import numpy as np
import pytest

from core.hyperparameters import KernelFamily
from core.mean.conjugate import Iteration, Stopping
from core.mean.folds import Folds
from core.mean.full import full_mean, full_means, sparse_preconditioner, square_product
from core.mean.precondition import random_basis
from core.process.kernel import Kernel
from core.process.rows import Rows
from tests.core.mean.cases import FAMILIES, case
from tests.core.problems import hyperparameters
from tests.dense.mean import full_weights, left_out_means

EXACT = Stopping(tolerance=1e-11, most=500)
"""Iterations until nothing moves: what is left is rounding times the condition of K + D, about 1e4 here."""


@pytest.mark.parametrize("family", FAMILIES)
def test_weights_and_left_out_predictions(family: KernelFamily) -> None:
    at = case(0, family=family)
    found = full_mean(at.rows, at.kernel, at.D, at.Z, at.folds, stopping=EXACT)
    assert found.settled
    y = at.rows.y
    np.testing.assert_allclose(found.alpha, full_weights(at.params, at.rows.X, y, at.D), rtol=1e-7, atol=1e-8)
    np.testing.assert_allclose(found.left_out, left_out_means(at.params, at.rows.X, y, at.D, at.fold), atol=1e-8)


def test_rows_in_no_fold_are_in_every_fit() -> None:
    at = case(1)
    fold = np.where(np.arange(len(at.fold)) < 40, -1, at.fold)
    found = full_mean(at.rows, at.kernel, at.D, at.Z, replace(at.folds, fold=fold), stopping=EXACT)
    expected = left_out_means(at.params, at.rows.X, at.rows.y, at.D, fold)
    np.testing.assert_allclose(found.left_out[40:], expected[40:], atol=1e-8)
    whole = at.kernel.gram(at.rows.X) @ full_weights(at.params, at.rows.X, at.rows.y, at.D)
    np.testing.assert_allclose(found.left_out[:40], whole[:40], atol=1e-8)


def test_without_folds_the_whole_fit_is_the_same() -> None:
    at = case(2)
    found = full_mean(at.rows, at.kernel, at.D, at.Z, Folds.none(len(at.rows)), stopping=EXACT)
    expected = full_weights(at.params, at.rows.X, at.rows.y, at.D)
    np.testing.assert_allclose(found.alpha, expected, rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("limit", [1 << 30, 0])
def test_the_number_of_threads_changes_no_bit(limit: int) -> None:
    """Kernel values are stored, and made again; 800 rows are two strips."""
    at = case(3, n=800, folds=2)
    few = Stopping(most=5)
    found = [
        full_mean(replace(at.rows, workers=workers), at.kernel, at.D, at.Z, at.folds, limit=limit, stopping=few)
        for workers in (1, 2, 3)
    ]
    for other in found[1:]:
        np.testing.assert_array_equal(other.unknowns, found[0].unknowns)


def test_the_stop_keeps_left_out_predictions_within_the_tolerance() -> None:
    at = case(4, n=400)
    exact = full_mean(at.rows, at.kernel, at.D, at.Z, at.folds, stopping=EXACT)
    found = full_mean(at.rows, at.kernel, at.D, at.Z, at.folds)
    assert found.iterations < exact.iterations
    error = np.sqrt(np.mean(np.square(exact.left_out - at.rows.y)))
    moved = np.sqrt(np.mean(np.square(found.left_out - exact.left_out)))
    assert 0.0 < moved < 0.1 * error  # the bound on what is missing


def test_a_plateau_at_the_start_is_not_taken_for_the_end() -> None:
    """Noise of 1e-6 and a basis of a tenth of the rows: by their change alone predictions had come to rest after a
    dozen iterations, 1.3 of their errors away."""
    random = np.random.default_rng(0)
    X = random.normal(size=(300, 4))
    y = np.sin(X @ random.normal(size=4))
    theta = hyperparameters([0.6] * 4, signal_variance=1.0, bias_variance=0.1, noise_variance=1e-6)
    rows, folds, D = (
        Rows(X=X, y=y, groups=np.arange(4)),
        Folds(fold=random.permutation(300) % 4, count=4),
        np.full(300, 1e-6),
    )
    kernel = Kernel.of(theta, rows.groups)
    found = full_mean(rows, kernel, D, X[:30], folds, stopping=Stopping(most=2000))
    exact = full_mean(rows, kernel, D, X, folds, stopping=Stopping(tolerance=1e-10, most=50))
    error = np.sqrt(np.mean(np.square(exact.left_out - y)))
    assert found.settled
    assert np.sqrt(np.mean(np.square(found.left_out - exact.left_out))) < 0.15 * error  # the bound is .1, about


def test_iterations_go_on_from_a_checkpoint() -> None:
    at = case(5)
    whole = full_mean(at.rows, at.kernel, at.D, at.Z, at.folds, stopping=EXACT)
    cut = full_mean(at.rows, at.kernel, at.D, at.Z, at.folds, stopping=Stopping(tolerance=1e-11, most=8))
    assert not cut.settled
    assert cut.iterations == 8
    found = full_mean(at.rows, at.kernel, at.D, at.Z, at.folds, stopping=EXACT, resume=cut.unknowns)
    np.testing.assert_allclose(found.left_out, whole.left_out, atol=1e-8)
    np.testing.assert_allclose(found.alpha, whole.alpha, rtol=1e-6, atol=1e-7)


def test_a_listener_hears_a_rising_fraction_and_may_cancel() -> None:
    at = case(6)
    heard: list[Iteration] = []
    full_mean(at.rows, at.kernel, at.D, at.Z, at.folds, listen=heard.append)
    fractions = [iteration.fraction for iteration in heard]
    assert [iteration.number for iteration in heard] == list(range(1, len(heard) + 1))
    assert fractions == sorted(fractions)
    assert fractions[-1] == 1.0

    def cancel(iteration: Iteration) -> None:
        if iteration.number == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        full_mean(at.rows, at.kernel, at.D, at.Z, at.folds, listen=cancel)


@pytest.mark.parametrize(("noise", "weight"), [(10.0, 1.0), (0.1, 4.0), (0.01, 4.0)])
def test_the_fraction_foretells_when_iterations_end(noise: float, weight: float) -> None:
    """13, 55 and 135 of them: from the middle on the fraction is that of the iterations, within a third of it."""
    at = case(8, n=600)
    kernel = replace(at.kernel, weights=weight * at.kernel.weights)
    heard: list[Iteration] = []
    full_mean(at.rows, kernel, noise * at.D, at.Z, at.folds, stopping=Stopping(tolerance=2e-2), listen=heard.append)
    count = len(heard)
    assert all(0.75 < each.fraction * count / each.number < 1.33 for each in heard[count // 2 :])


def test_random_rows_precondition_in_few_iterations() -> None:
    """Short lengthscales and little noise: hundreds of iterations with a basis of 15 rows."""
    at = case(8, n=600)
    short = replace(at.kernel, weights=4.0 * at.kernel.weights)
    few = full_mean(at.rows, short, 0.1 * at.D, random_basis(at.rows.X, np.random.default_rng(0)), at.folds)
    many = full_mean(at.rows, short, 0.1 * at.D, at.Z, at.folds)
    assert few.settled
    assert few.iterations < 0.5 * many.iterations


def test_another_noise_is_solved_from_the_last_weights() -> None:
    at = case(7)
    first = full_mean(at.rows, at.kernel, at.D, at.Z, at.folds, stopping=EXACT)
    D = at.D * np.exp(np.random.default_rng(0).normal(size=len(at.D)))
    found = full_mean(at.rows, at.kernel, D, at.Z, at.folds, stopping=EXACT, resume=first.unknowns)
    expected = full_weights(at.params, at.rows.X, at.rows.y, D)
    np.testing.assert_allclose(found.alpha, expected, rtol=1e-6, atol=1e-7)


def test_the_joint_column_is_without_both_folds() -> None:
    at = case(7, folds=5)
    folds = at.folds.with_joint()
    both = folds.jointly_left
    np.testing.assert_array_equal(both, np.flatnonzero(at.fold >= 3))
    found = full_mean(at.rows, at.kernel, at.D, at.Z, folds, stopping=EXACT)
    together = np.where(at.fold >= 3, 3, at.fold)
    expected = left_out_means(at.params, at.rows.X, at.rows.y, at.D, together)
    np.testing.assert_allclose(found.jointly_left_out, expected[both], atol=1e-8)
    alone = full_mean(at.rows, at.kernel, at.D, at.Z, at.folds, stopping=EXACT)
    np.testing.assert_allclose(found.left_out, alone.left_out, atol=1e-8)
    assert not len(alone.jointly_left_out)


def test_forward_folds_and_few_have_no_joint_column() -> None:
    at = case(8, folds=3)
    assert at.folds.with_joint() is at.folds
    forward = Folds(fold=np.arange(60) % 6, count=6, forward=True)
    assert forward.with_joint() is forward
    assert forward.columns == 7
    assert replace(forward, forward=False).with_joint().columns == 8


def test_several_targets_have_each_their_joint_column() -> None:
    at = case(9, folds=4)
    folds, targets = at.folds.with_joint(), [at.rows.y, np.cos(at.rows.X[:, 0])]
    preconditioner = sparse_preconditioner(at.rows, at.kernel, at.Z, at.D, folds, 2)
    product = square_product(at.rows, at.kernel, at.D, folds, 2)
    found = full_means(targets, [at.D, at.D], preconditioner, folds, stopping=EXACT, product=product)
    for y, mean in zip(targets, found, strict=True):
        alone = full_mean(replace(at.rows, y=y), at.kernel, at.D, at.Z, folds, stopping=EXACT)
        np.testing.assert_allclose(mean.jointly_left_out, alone.jointly_left_out, atol=1e-8)
        np.testing.assert_allclose(mean.left_out, alone.left_out, atol=1e-8)
