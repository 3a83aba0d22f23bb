"""core/selection/: picks and gains against refitting from nothing, and the cache of matching pursuit by its rules."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import core.factors
from core.factors import Rows
from core.hyperparameters import FloatArray, Hyperparameters, IntArray
from core.selection.greedy import CRITERIA, select
from core.selection.matching import CandidateCache, candidate_cache, post_backfitting
from core.selection.pool import distinct, pool_products, pursue
from core.selection.state import GrowingFit, Selection
from core.spec import Approximation, Method, TrainSpec
from tests.core.problems import Problem, hyperparameters, oracle_params, problem
from tests.dense.kernel import kernel
from tests.dense.posterior import predict
from tests.dense.selection import greedy, post_backfitting_gain, pre_backfitting_gain

NOBODY: IntArray = np.empty(0, np.int64)
GREEDY = [Method.KAPPA, Method.DMAX, Method.BATCH]


def chosen(
    case: Problem, method: Method, size: int, *, seed: int = 0, previous: IntArray = NOBODY, **options: Any
) -> Selection:
    spec = TrainSpec(method=method, **options)
    return select(case.rows, case.hyperparameters, spec, size, np.random.default_rng(seed), previous)


# The growing fit


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_growing_fit_is_the_dtc_mean(seed: int) -> None:
    case = problem(seed, d=9)
    fit = GrowingFit.empty(case.rows, case.hyperparameters, 9)
    params = oracle_params(case.hyperparameters, case.groups)
    for step, index in enumerate(case.indices, start=1):
        column = kernel(params, case.X, case.X[[index]])[:, 0]
        assert fit.grow(int(index), column)
        model = case.changed(indices=case.indices[:step]).sparse(Approximation.DTC)
        mean, _ = predict(model, case.X)
        np.testing.assert_allclose(fit.mu, mean, atol=1e-7)
        np.testing.assert_allclose(fit.residuals, case.y - mean, atol=1e-7)


def test_growing_fit_refuses_what_it_holds_and_does_not_change() -> None:
    case = problem(0)
    X = case.X.copy()
    X[1] = X[0]
    fit = GrowingFit.empty(Rows(X=X, y=case.y, groups=case.groups), case.hyperparameters, 3)
    column = kernel(oracle_params(case.hyperparameters, case.groups), X, X[[0]])[:, 0]
    assert not fit.holds(1)
    assert fit.grow(0, column)
    assert fit.holds(0)
    assert fit.holds(1)
    assert not fit.holds(2)
    before = fit.mu.copy()
    assert not fit.grow(1, column)
    assert fit.indices == [0]
    np.testing.assert_array_equal(fit.mu, before)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_post_backfitting_gain_is_the_decrease_of_pi(seed: int) -> None:
    case = problem(seed)
    params = oracle_params(case.hyperparameters, case.groups)
    fit = GrowingFit.empty(case.rows, case.hyperparameters, 4)
    candidates = np.array([i for i in range(40) if i not in case.indices])
    cache = candidate_cache(case.rows, candidates, case.hyperparameters)
    basis: list[int] = []
    for index in [None, *case.indices[:3]]:
        if index is not None:
            fit.grow(int(index), kernel(params, case.X, case.X[[index]])[:, 0])
            basis.append(int(index))
        oracle = [post_backfitting_gain(params, case.X, case.y, basis, int(i)) for i in candidates]
        np.testing.assert_allclose(post_backfitting(fit, cache), oracle, rtol=1e-5, atol=1e-7)


# Batch pursuit


@pytest.mark.parametrize("seed", [0, 1, 2, 3])
def test_batch_picks_what_exhaustive_search_picks(seed: int) -> None:
    case = problem(seed)
    pool = np.random.default_rng(seed).permutation(40)[:18]
    ours = pursue(case.rows, pool, case.hyperparameters, 7)
    params = oracle_params(case.hyperparameters, case.groups)
    indices, gains = greedy(params, case.X, case.y, pool.tolist(), 7)
    assert ours.indices.tolist() == indices
    np.testing.assert_allclose(ours.gains, gains, rtol=1e-5)


def test_pool_products(monkeypatch: pytest.MonkeyPatch) -> None:
    case = problem(5, n=209)
    params = oracle_params(case.hyperparameters, case.groups)
    pool = np.arange(3, 60, 5)
    K = kernel(params, case.X[pool], case.X)
    expected = params.s2 * kernel(params, case.X[pool], case.X[pool]) + K @ K.T
    for numbers in (core.factors.BLOCK_NUMBERS, 1):
        monkeypatch.setattr(core.factors, "BLOCK_NUMBERS", numbers)
        for workers in (1, 3):
            T, g = pool_products(case.changed(workers=workers).rows, pool, case.hyperparameters)
            np.testing.assert_allclose(T, expected, rtol=1e-11)
            np.testing.assert_allclose(g, K @ case.y, rtol=1e-10)


def test_batch_never_takes_a_row_that_adds_nothing() -> None:
    """One column with three values: three basis vectors say all there is."""
    case = problem(0, n=30, groups=(0, 0, 0))
    X = np.zeros((30, 3))
    X[:, 0] = np.arange(30) % 3
    ours = pursue(Rows(X=X, y=case.y, groups=np.array([0, 1, 2])), np.arange(30), hyperparameters_of_three(), 10)
    assert sorted(X[ours.indices, 0]) == [0.0, 1.0, 2.0]
    assert "adds more" in ours.reason or "reached" in ours.reason


def hyperparameters_of_three() -> Hyperparameters:
    return hyperparameters([1.0, 1.0, 1.0], signal_variance=1.0, bias_variance=0.1, noise_variance=0.1)


def test_distinct_keeps_the_first_of_each_copy_in_order() -> None:
    X = np.array([[1.0, 2.0], [3.0, 4.0], [1.0, 2.0], [0.0, 0.0], [-0.0, 0.0], [3.0, 4.0]])
    np.testing.assert_array_equal(distinct(X, np.array([5, 2, 1, 4, 0, 3])), [5, 2, 4])


# Every method


@pytest.mark.parametrize("method", list(Method))
@pytest.mark.parametrize("size", [1, 10, 40, 100])
def test_no_row_twice_and_never_more_than_asked(method: Method, size: int) -> None:
    ours = chosen(problem(1), method, size)
    assert len(set(ours.indices.tolist())) == len(ours.indices) == len(ours.gains)
    assert len(ours.indices) <= min(size, 40)
    assert len(ours.indices) >= min(size, 20)
    assert ours.indices.dtype == np.int64


@pytest.mark.parametrize("method", list(Method))
def test_same_seed_same_choice_other_seed_another(method: Method) -> None:
    case = problem(1, n=150)
    options: dict[str, Any] = {"pool_size": 30, "cache_size": 10, "candidates": 10}
    first = chosen(case, method, 8, seed=3, **options)
    np.testing.assert_array_equal(chosen(case, method, 8, seed=3, **options).indices, first.indices)
    assert chosen(case, method, 8, seed=4, **options).indices.tolist() != first.indices.tolist()


@pytest.mark.parametrize("method", list(Method))
def test_a_shorter_run_is_the_start_of_a_longer_one(method: Method) -> None:
    """Prefix consistency, with the sizes of pool and cache held fixed."""
    case = problem(2, n=120)
    options: dict[str, Any] = {"pool_size": 60, "cache_size": 25, "candidates": 7}
    long = chosen(case, method, 30, **options)
    for size in (1, 5, 17):
        short = chosen(case, method, size, **options)
        np.testing.assert_array_equal(short.indices, long.indices[:size])
        np.testing.assert_allclose(short.gains, long.gains[:size], rtol=1e-9)


@pytest.mark.parametrize("method", list(Method))
def test_copies_of_a_row_are_one_candidate(method: Method) -> None:
    """Half of the rows are copies: no two chosen rows are equal, and the choice ends where all are taken."""
    case = problem(3, n=24)
    X = case.X.copy()
    X[1::2] = X[::2]
    ours = chosen(case.changed(X=X), method, 24)
    assert len(np.unique(X[ours.indices], axis=0)) == len(ours.indices) == 12
    assert ours.reason != "basis_size reached"


@pytest.mark.parametrize("method", GREEDY)
def test_greedy_gains_are_the_decrease_of_pi(method: Method) -> None:
    case = problem(4, n=60)
    ours = chosen(case, method, 8)
    params = oracle_params(case.hyperparameters, case.groups)
    oracle = pre_backfitting_gain if method is Method.BATCH else post_backfitting_gain
    basis: list[int] = []
    for index, gain in zip(ours.indices.tolist(), ours.gains, strict=True):
        np.testing.assert_allclose(gain, oracle(params, case.X, case.y, basis, index), rtol=1e-5)
        basis.append(index)


@pytest.mark.parametrize("method", [Method.KAPPA, Method.DMAX])
def test_with_every_row_in_the_cache_each_step_takes_the_best_of_all(method: Method) -> None:
    case = problem(6, n=30)
    ours = chosen(case, method, 6, candidates=30, cache_size=30)
    params = oracle_params(case.hyperparameters, case.groups)
    basis: list[int] = []
    for index in ours.indices.tolist():
        rest = [i for i in range(30) if i not in basis]
        scores = [post_backfitting_gain(params, case.X, case.y, basis, i) for i in rest]
        assert rest[int(np.argmax(scores))] == index
        basis.append(index)


def replayed(case: Problem, order: IntArray, size: int, cache_size: int, fresh: int) -> list[int]:
    """Matching pursuit with its cache, by the rules of Keerthi & Chu 2005, section 3, while fresh rows last."""
    params = oracle_params(case.hyperparameters, case.groups)
    queue = order.tolist()
    cache, queue = queue[:cache_size], queue[cache_size:]
    basis: list[int] = []
    for _ in range(size):
        ranked = sorted(cache, key=lambda i: -post_backfitting_gain(params, case.X, case.y, basis, i))
        basis.append(ranked[0])
        worst = ranked[1:][::-1][: min(fresh, cache_size) - 1]
        cache = [i for i in ranked[1:] if i not in worst]
        cache, queue = cache + queue[: 1 + len(worst)], queue[1 + len(worst) :]
    assert queue, "the replay is only defined while there are fresh rows"
    return basis


@pytest.mark.parametrize(
    ("method", "cache_size", "fresh"), [(Method.KAPPA, 6, 6), (Method.DMAX, 12, 4), (Method.DMAX, 9, 1)]
)
def test_cache_takes_the_best_and_replaces_it_and_the_worst(method: Method, cache_size: int, fresh: int) -> None:
    """kappa has a cache of kappa candidates, dmax one of its own size: the picks are those of the replay."""
    case = problem(7, n=90)
    ours = chosen(case, method, 8, seed=5, candidates=fresh, cache_size=cache_size)
    order = np.random.default_rng(5).permutation(90)
    assert ours.indices.tolist() == replayed(case, order, 8, cache_size, fresh)


@pytest.mark.parametrize("method", [Method.KAPPA, Method.DMAX])
@pytest.mark.parametrize(("n", "cache_size", "fresh"), [(30, 12, 5), (30, 30, 30), (13, 6, 6), (40, 8, 1)])
def test_cache_holds_no_row_twice_and_none_that_is_chosen(
    method: Method, n: int, cache_size: int, fresh: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At every step until all rows are taken, also after the first pass over the rows has ended."""
    steps = 0

    def watching(fit: GrowingFit, cache: CandidateCache) -> FloatArray:
        nonlocal steps
        steps += 1
        candidates = cache.indices.tolist()
        assert len(set(candidates)) == len(candidates)
        assert not set(candidates) & set(fit.indices)
        params = oracle_params(case.hyperparameters, case.groups)
        expected = kernel(params, case.X[cache.indices], case.X)
        np.testing.assert_allclose(cache.K, expected, rtol=1e-12)
        np.testing.assert_allclose(cache.lengths, np.sum(expected**2, axis=1), rtol=1e-12)
        return post_backfitting(fit, cache)

    monkeypatch.setitem(CRITERIA, method, watching)
    case = problem(7, n=n)
    ours = chosen(case, method, n, candidates=fresh, cache_size=cache_size)
    assert sorted(ours.indices.tolist()) == list(range(n))
    assert steps == n


@pytest.mark.parametrize(("n", "size", "cache_size"), [(800, 60, 500), (800, 510, 510)])
def test_default_cache_of_dmax_is_d_but_at_least_500(n: int, size: int, cache_size: int) -> None:
    case = problem(7, n=n)

    def picks(cache: int | None) -> list[int]:
        return chosen(case, Method.DMAX, size, candidates=4, cache_size=cache).indices.tolist()

    assert picks(None) == picks(cache_size)
    assert picks(None) != picks(cache_size - 100)
    assert picks(None) != picks(cache_size + 100)
