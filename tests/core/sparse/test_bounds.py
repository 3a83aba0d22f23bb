"""core/sparse/bounds.py against the definitions of Smola & Bartlett 2001, Theorem 1, and what they bound between
them."""

import numpy as np
import pytest
from hypothesis import given, settings

from core.arrays import FloatArray
from core.sparse.bounds import DualGreedy, bounds_of, posterior_bounds
from tests.core.problems import Problem, oracle_params, problem
from tests.core.selections import small_problems
from tests.dense.kernel import kernel
from tests.dense.posterior import exact_predict
from tests.dense.selection import minimiser, pi


def dual(case: Problem, rows: list[int], target: FloatArray) -> float:
    """The least Q*(a) = -target'a + a'(s2 I + K) a / 2 over the coefficients of some rows."""
    params = oracle_params(case.hyperparameters, case.groups)
    C = kernel(params, case.X[rows], case.X[rows]) + params.s2 * np.eye(len(rows))
    a = np.linalg.inv(C) @ target[rows]
    return float(-target[rows] @ a + 0.5 * a @ C @ a)


def primal(case: Problem, indices: list[int], target: FloatArray) -> float:
    """The least Q over the coefficients of the basis: pi of Keerthi & Chu."""
    params = oracle_params(case.hyperparameters, case.groups)
    return pi(params, case.X, target, indices, minimiser(params, case.X, target, indices))


def dual_greedy(case: Problem, size: int) -> list[int]:
    """Rows that lower Q* most, one at a time."""
    rows: list[int] = []
    for _ in range(size):
        rest = [i for i in range(len(case.y)) if i not in rows]
        rows.append(min(rest, key=lambda i: dual(case, [*rows, i], case.y)))
    return rows


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_dual_set_is_greedy_and_its_value_least(seed: int) -> None:
    case = problem(seed, n=30)
    ours = DualGreedy(case.rows, case.hyperparameters, 12)
    rows = dual_greedy(case, 12)
    assert ours.value == 0.0
    for size in range(1, 13):
        ours.grow()
        assert ours.indices == rows[:size]
        np.testing.assert_allclose(ours.value, dual(case, rows[:size], case.y), rtol=1e-9)
    ours.grow()
    assert ours.indices == rows


def test_dual_set_grows_among_the_rows_that_are_given() -> None:
    case = problem(4, n=30)
    ours, among, rows = DualGreedy(case.rows, case.hyperparameters, 30), np.array([3, 8, 20]), list[int]()
    for _ in among:
        rows.append(min(set(among.tolist()) - set(rows), key=lambda i: dual(case, [*rows, i], case.y)))
        ours.grow(among)
        assert ours.indices == rows
        np.testing.assert_allclose(ours.value, dual(case, rows, case.y), rtol=1e-9)
    ours.grow(among)
    assert ours.indices == rows, "all of them are in"


def test_dual_set_of_all_rows_meets_the_full_process_and_copies_are_rows() -> None:
    """Both bounds with I and I* of all rows are Qmin; the noise keeps copies apart."""
    case = problem(3, n=16)
    X = case.X.copy()
    X[1] = X[0]
    case = case.changed(X=X)
    ours = DualGreedy(case.rows, case.hyperparameters, 99)
    for _ in range(20):
        ours.grow()
    assert sorted(ours.indices) == list(range(16))
    params = oracle_params(case.hyperparameters, case.groups)
    K = kernel(params, X, X)
    least = float(-0.5 * case.y @ K @ np.linalg.inv(K + params.s2 * np.eye(16)) @ case.y)
    found = posterior_bounds(least, ours, case.rows, case.hyperparameters)
    np.testing.assert_allclose(found.lower, least, rtol=1e-9)
    assert abs(found.gap) < 1e-9
    assert (found.upper, found.dual_size) == (least, 16)


@settings(max_examples=60, deadline=None)
@given(case=small_problems())
def test_bounds_are_their_definition_and_hold(case: Problem) -> None:
    indices = case.indices.tolist() or [0]
    params, n = oracle_params(case.hyperparameters, case.groups), len(case.y)
    Xs = np.concatenate([case.X[:2] + 0.1, case.X[:1], 30.0 + case.X[:1]])
    found, lower, upper = bounds_of(case.rows, case.hyperparameters, np.array(indices), Xs)
    rows = dual_greedy(case, len(indices))
    Q, D, power = primal(case, indices, case.y), dual(case, rows, case.y), float(case.y @ case.y)
    np.testing.assert_allclose(found.upper, Q, rtol=1e-5, atol=1e-6 * power)  # core adds jitter to Kuu
    np.testing.assert_allclose(found.lower, -0.5 * power - params.s2 * D, rtol=1e-7, atol=1e-8 * power)
    gap = 2 * (Q + params.s2 * D + 0.5 * power) / (-Q + params.s2 * D + 0.5 * power)
    np.testing.assert_allclose(found.gap, gap, rtol=1e-4, atol=1e-5)
    K = kernel(params, case.X, case.X)
    least = float(-0.5 * case.y @ K @ np.linalg.inv(K + params.s2 * np.eye(n)) @ case.y)
    slack = 1e-6 * (1.0 + power)
    assert found.lower <= least + slack
    assert least <= found.upper + slack
    prior = params.v0 + params.vb + params.s2
    for place, x in enumerate(Xs):
        k = kernel(params, case.X, x[None])[:, 0]
        below = prior - (float(k @ k) + 2 * primal(case, indices, k)) / params.s2
        np.testing.assert_allclose(upper[place], [prior + 2 * dual(case, rows, k)], rtol=1e-7)
        tolerance = 1e-6 * float(k @ k) / params.s2
        np.testing.assert_allclose(lower[place], max(below, params.s2), rtol=1e-6, atol=tolerance)
    _, latent = exact_predict(params, case.X, case.y, Xs)
    assert (lower <= (latent + params.s2) * (1 + 1e-6)).all()
    assert ((latent + params.s2) * (1 - 1e-6) <= upper).all()
