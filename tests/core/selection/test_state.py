"""core/selection/state.py and candidates.py: what is carried from step to step is what one finds from nothing."""

from typing import Any

import numpy as np
import pytest

import core.selection.candidates
from core.arrays import FloatArray
from core.process.kernel import Kernel
from core.process.rows import Rows
from core.selection.candidates import CandidateCache, KernelColumns, Needs
from core.selection.gains import CRITERIA, CacheCriterion
from core.selection.state import GrowingFit, Selection
from core.spec import Approximation, Method
from tests.core.problems import Problem, oracle_params, problem
from tests.core.selections import CACHED, chosen, column, grown
from tests.dense.kernel import kernel
from tests.dense.posterior import predict
from tests.dense.selection import candidate_numbers, state

ALL = Needs(schur=True, explained=True, toward=True, across=True)
ROUGH = {"lengthscales": [0.6, 0.8, 0.7]}
"""Short lengthscales: fifty basis vectors of ninety rows are far from dependent, so float64 oracles have digits."""


def rough(seed: int = 0, n: int = 90, d: int = 50) -> Problem:
    return problem(seed, n=n, d=d).with_hyperparameters(**ROUGH)


# The growing fit


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_growing_fit_is_the_dtc_mean(seed: int) -> None:
    case = problem(seed, d=9)
    fit = GrowingFit.empty(case.rows, case.hyperparameters, 9)
    for step, index in enumerate(case.indices, start=1):
        assert fit.grow(int(index), column(case, int(index)))
        model = case.changed(indices=case.indices[:step]).sparse(Approximation.DTC)
        mean, _ = predict(model, case.X)
        np.testing.assert_allclose(fit.mu, mean, atol=1e-7)
        np.testing.assert_allclose(fit.residuals, case.y - mean, atol=1e-7)


@pytest.mark.parametrize("explained", [True, False])
def test_after_fifty_steps_everything_is_as_from_nothing(explained: bool) -> None:
    """A has a condition of 1e4 here, and the oracle's inverses lose as many of 16 digits."""
    case = rough()
    indices = case.indices.tolist()
    fit = grown(case, indices, explained=explained)
    oracle = state(oracle_params(case.hyperparameters, case.groups), case.X, case.y, indices)
    assert fit.indices == indices
    assert fit.size == 50
    np.testing.assert_allclose(fit.W[:50], oracle.W, atol=1e-10)
    np.testing.assert_allclose(fit.b[:50], oracle.b, atol=1e-10)
    np.testing.assert_allclose(fit.q, oracle.q, atol=1e-10)
    np.testing.assert_allclose(fit.mu, oracle.mu, atol=1e-10)
    np.testing.assert_allclose(fit.residuals, case.y - oracle.mu, atol=1e-10)
    if explained:
        assert fit.V is not None
        np.testing.assert_allclose(fit.V[:50], oracle.V, atol=1e-10)
        np.testing.assert_allclose(fit.p, oracle.p, atol=1e-10)
        np.testing.assert_allclose(fit.unexplained, case.hyperparameters.prior_variance - oracle.p, atol=1e-10)
        assert (fit.unexplained >= 0).all()
    else:
        assert fit.V is None
        np.testing.assert_array_equal(fit.p, 0.0)


def test_a_step_is_the_new_row_of_each_factor() -> None:
    case = rough(1, d=8)
    fit = grown(case, case.indices[:7].tolist(), capacity=8)
    step = fit.grow(int(case.indices[7]), column(case, int(case.indices[7])))
    assert step is not None
    oracle = state(oracle_params(case.hyperparameters, case.groups), case.X, case.y, case.indices.tolist())
    np.testing.assert_allclose(step.w, oracle.W[7], atol=1e-11)
    assert step.v is not None
    np.testing.assert_allclose(step.v, oracle.V[7], atol=1e-11)
    np.testing.assert_allclose(step.beta, oracle.b[7], atol=1e-11)


@pytest.mark.parametrize("explained", [True, False])
def test_growing_fit_refuses_what_it_holds_and_does_not_change(explained: bool) -> None:
    case = problem(0)
    X = case.X.copy()
    X[1] = X[0]
    case = case.changed(X=X)
    fit = GrowingFit.empty(case.rows, case.hyperparameters, 3, explained=explained)
    assert not fit.holds(1)
    assert fit.grow(0, column(case, 0))
    assert fit.holds(0)
    assert fit.holds(1)
    assert not fit.holds(2)
    before = [values.copy() for values in (fit.mu, fit.q, fit.p, fit.W[:1], fit.b[:1])]
    assert fit.grow(1, column(case, 1)) is None
    assert fit.indices == [0]
    for was, now in zip(before, (fit.mu, fit.q, fit.p, fit.W[:1], fit.b[:1]), strict=True):
        np.testing.assert_array_equal(now, was)
    assert fit.grow(2, column(case, 2))
    mean, _ = predict(case.changed(indices=np.array([0, 2])).sparse(Approximation.DTC), X)
    np.testing.assert_allclose(fit.mu, mean, atol=1e-10)


def test_first_picks_of_a_selection() -> None:
    whole = Selection(indices=np.array([5, 2, 9]), gains=np.array([3.0, 2.0, 1.0]), reason="a", measures=np.arange(4.0))
    first = whole.first(2, "b")
    assert (first.indices.tolist(), first.gains.tolist(), first.reason) == ([5, 2], [3.0, 2.0], "b")
    assert first.measures.tolist() == [0.0, 1.0, 2.0]


# The cache of candidates


def check_cache(cache: CandidateCache, case: Problem, indices: list[int], atol: float = 1e-9) -> None:
    """All that it holds, from nothing."""
    params = oracle_params(case.hyperparameters, case.groups)
    K = kernel(params, case.X[cache.indices], case.X)
    np.testing.assert_allclose(cache.K, K, rtol=1e-12)
    np.testing.assert_allclose(cache.lengths, np.sum(K**2, axis=1), rtol=1e-12)
    for place, candidate in enumerate(cache.indices.tolist()):
        oracle = candidate_numbers(params, case.X, case.y, indices, candidate)
        np.testing.assert_allclose(cache.h[place], oracle.h, atol=atol)
        if cache.needs.schur:
            np.testing.assert_allclose(cache.S[place], oracle.S, atol=atol)
        if cache.needs.toward:
            np.testing.assert_allclose(cache.toward[place], oracle.toward, atol=atol)
        if cache.needs.across:
            np.testing.assert_allclose(cache.across[place], oracle.across, atol=atol)
        np.testing.assert_allclose(cache.column(place), column(case, candidate), rtol=1e-12)


@pytest.mark.parametrize("method", CACHED)
def test_cache_after_fifty_steps_with_fresh_candidates_in_between(method: Method) -> None:
    """Each step takes one of the cache; fresh rows come at some steps in some places, the others are carried along."""
    case = rough(2, d=1)
    criterion = CRITERIA[method]
    assert isinstance(criterion, CacheCriterion)
    rng = np.random.default_rng(0)
    fit = GrowingFit.empty(case.rows, case.hyperparameters, 50, explained=criterion.needs.explained)
    columns = KernelColumns(case.rows, case.hyperparameters)
    queue = rng.permutation(90)
    cache = CandidateCache.fill(fit, columns, criterion.needs, queue[:12])
    queue, stayed = queue[12:], np.zeros(12, int)
    for step in range(50):
        place = int(rng.integers(12))
        grew = fit.grow(int(cache.indices[place]), cache.column(place))
        assert grew is not None
        cache.follow(grew)
        leaving = np.array([place])
        if step % 7 == 3:
            leaving = np.append(leaving, (place + 1 + rng.permutation(11)[:2]) % 12)
        cache.replace(leaving, queue[: len(leaving)])
        queue, stayed[leaving] = queue[len(leaving) :], step
        if step in (0, 10, 49):
            check_cache(cache, case, fit.indices)
    assert (50 - stayed > 15).any(), "no candidate was carried along for long"


def test_no_candidates_are_replaced_by_none_and_some_are_dropped() -> None:
    case = rough(3, d=5)
    fit = grown(case, case.indices.tolist())
    rest = np.setdiff1d(np.arange(90), case.indices)[:6]
    cache = CandidateCache.fill(fit, KernelColumns(case.rows, case.hyperparameters), ALL, rest)
    cache.replace(np.empty(0, np.int64), np.empty(0, np.int64))
    cache.drop(np.array([4, 0]))
    assert cache.indices.tolist() == rest[[1, 2, 3, 5]].tolist()
    check_cache(cache, case, fit.indices)
    cache.drop(np.empty(0, np.int64))
    assert len(cache.indices) == 4


def test_cache_is_not_its_list_of_rows() -> None:
    case = rough(3, d=5)
    rows = np.array([1, 2, 3])
    cache = CandidateCache.fill(grown(case, [0]), KernelColumns(case.rows, case.hyperparameters), ALL, rows)
    cache.replace(np.array([0]), np.array([9]))
    assert rows.tolist() == [1, 2, 3]


@pytest.mark.parametrize("kept", [1 << 29, 8 * 30 * 2, 0])
def test_kernel_columns_are_the_same_however_many_are_kept(kept: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(core.selection.candidates, "KEPT_BYTES", kept)
    monkeypatch.setattr(core.selection.candidates, "LEAST_CACHED_COLUMNS", 0)
    case = problem(4, n=30, groups=(0, 1, 1, 2))
    columns = KernelColumns(case.rows, case.hyperparameters)
    for indices in ([3, 1, 7], [7, 3], [29], [1, 2, 3, 4, 5], [5, 1], []):
        expected = kernel(oracle_params(case.hyperparameters, case.groups), case.X[indices], case.X)
        found = columns.of(np.array(indices, np.int64))
        assert found.shape == (len(indices), 30)
        np.testing.assert_allclose(found, expected, rtol=1e-12)
        found[:] = np.nan  # what is kept is a copy


def test_kernel_columns_that_come_back_are_not_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []

    def counting(self: Kernel, basis: FloatArray, *rest: Any) -> FloatArray:
        made.append(len(basis))
        return original(self, basis, *rest)

    original = Kernel.stationary
    monkeypatch.setattr(Kernel, "stationary", counting)
    monkeypatch.setattr(core.selection.candidates, "KEPT_BYTES", 8 * 30 * 4)
    monkeypatch.setattr(core.selection.candidates, "LEAST_CACHED_COLUMNS", 0)
    case = problem(4, n=30)
    columns = KernelColumns(case.rows, case.hyperparameters)
    for indices in ([0, 1, 2], [2, 0], [3, 4], [0, 2], [1]):  # 1 is the one used longest ago when 4 comes
        columns.of(np.array(indices))
    assert made == [3, 2, 1]


def test_memory_for_columns_does_not_change_the_picks(monkeypatch: pytest.MonkeyPatch) -> None:
    case = problem(5, n=60)
    options: dict[str, Any] = {"candidates": 5, "cache_size": 4}
    first = chosen(case, Method.NLML, 15, **options)
    monkeypatch.setattr(core.selection.candidates, "KEPT_BYTES", 8 * 60 * 3)
    monkeypatch.setattr(core.selection.candidates, "LEAST_CACHED_COLUMNS", 0)
    again = chosen(case, Method.NLML, 15, **options)
    np.testing.assert_array_equal(first.indices, again.indices)
    np.testing.assert_array_equal(first.gains, again.gains)


def test_empty_fit_explains_nothing() -> None:
    case = problem(6, n=20)
    fit = GrowingFit.empty(Rows(X=case.X, y=case.y, groups=case.groups), case.hyperparameters, 4, explained=True)
    np.testing.assert_array_equal(fit.residuals, case.y)
    np.testing.assert_array_equal(fit.unexplained, case.hyperparameters.prior_variance)
    assert (fit.size, fit.holds(0)) == (0, False)
