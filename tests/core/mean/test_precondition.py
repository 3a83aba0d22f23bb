"""core/mean/precondition.py against dense matrices, of every column."""

from dataclasses import replace

import numpy as np
import pytest

import core.mean.precondition
from core.arrays import FloatArray
from core.mean.folds import Folds
from core.mean.precondition import SparsePreconditioner
from core.numeric.linalg import JITTERS
from tests.core.mean.cases import Case, case
from tests.dense.kernel import kernel


def dense(at: Case, folds: Folds, R: FloatArray) -> FloatArray:
    """Solve (V'V + D) on the rows of each column; Kuu with the jitter that is always added."""
    Kuu, Kuf = kernel(at.params, at.Z, at.Z), kernel(at.params, at.Z, at.rows.X)
    Kuu += JITTERS[0] * np.trace(Kuu) / len(Kuu) * np.eye(len(Kuu))
    P, found = Kuf.T @ np.linalg.solve(Kuu, Kuf) + np.diag(at.D), np.zeros_like(R)
    for column, kept in enumerate(np.tile(folds.kept, R.shape[1] // (1 + folds.count)).T):
        some = np.flatnonzero(kept)
        found[some, column] = np.linalg.solve(P[np.ix_(some, some)], R[some, column])
    return found


@pytest.mark.parametrize("forward", [False, True])
@pytest.mark.parametrize("first", [-1, 0])
def test_every_column_is_solved_on_its_own_rows(first: int, forward: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Folds are in any order, rows in no fold are in every column but before forward ones, and runs are of few rows."""
    monkeypatch.setattr(core.mean.precondition, "BLOCK_ROWS", 7)
    at = case(0, n=130, folds=4)
    folds = replace(at.folds, fold=at.fold + first, count=4 + first, forward=forward)
    R = np.random.default_rng(0).normal(size=(130, 2 * (1 + folds.count)))
    found = SparsePreconditioner(at.kernel, at.rows.X, at.Z, at.D, folds, 2).solve(R)
    np.testing.assert_allclose(found, dense(at, folds, R), rtol=1e-6, atol=1e-8)


def test_without_folds_there_is_one_column() -> None:
    at, R = case(1), np.random.default_rng(0).normal(size=(120, 1))
    none = Folds.none(120)
    found = SparsePreconditioner(at.kernel, at.rows.X, at.Z, at.D, none).solve(R)
    np.testing.assert_allclose(found, dense(at, none, R), rtol=1e-6, atol=1e-8)


def test_the_number_of_threads_changes_no_bit() -> None:
    at = case(2, n=1500)
    R = np.random.default_rng(0).normal(size=(1500, 5))
    found = [
        SparsePreconditioner(at.kernel, at.rows.X, at.Z, at.D, at.folds, workers).solve(R) for workers in (1, 2, 3)
    ]
    for other in found[1:]:
        np.testing.assert_array_equal(other, found[0])


def test_preparation_is_told_and_may_be_cancelled() -> None:
    at, told = case(2), list[float]()
    SparsePreconditioner(at.kernel, at.rows.X, at.Z, at.D, at.folds, tell=told.append)
    assert told == sorted(told)
    assert told[-1] == 1.0

    def cancel(_: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        SparsePreconditioner(at.kernel, at.rows.X, at.Z, at.D, at.folds, tell=cancel)
