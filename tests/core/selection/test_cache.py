"""core/selection/greedy.py: which candidates a step sees, against a slow replay of the papers' cache."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from core.arrays import FloatArray, IntArray
from core.selection.candidates import CandidateCache
from core.selection.gains import CRITERIA, CacheCriterion, RowCriterion
from core.selection.state import GrowingFit
from core.spec import Method
from tests.core.problems import Problem, oracle_params, problem
from tests.core.selection.test_state import check_cache
from tests.core.selections import BY_ROW, CACHED, chosen
from tests.dense.kernel import kernel
from tests.dense.selection import GAINS, conditional_variance


def replayed(
    case: Problem,
    method: Method,
    size: int,
    cache_size: int,
    fresh: int,
    *,
    seed: int = 0,
    previous: tuple[int, ...] = (),
) -> list[int]:
    """The cache by the rules of Keerthi & Chu 2005, section 3, and Sundararajan et al., section 3.4.

    Each step takes the best of the cache, then replaces it and the fresh - 1 worst by fresh rows. Fresh rows come in
    random order, the previous basis first; when each has had its turn, those that are neither chosen nor in the cache
    come again in another order. Where there are too few of them, fewer of the worst go.
    """
    params = oracle_params(case.hyperparameters, case.groups)
    random = np.random.default_rng(seed)
    order = random.permutation(len(case.y)).tolist()
    queue = [*previous, *(i for i in order if i not in previous)]
    cache, queue = queue[:cache_size], queue[cache_size:]
    basis: list[int] = []
    for _ in range(size):
        ranked = sorted(cache, key=lambda i: -GAINS[method](params, case.X, case.y, basis, i))
        basis.append(ranked[0])
        leaving = [ranked[0], *ranked[1:][::-1][: min(fresh, len(cache)) - 1]]
        arriving, queue = queue[: len(leaving)], queue[len(leaving) :]
        if len(arriving) < len(leaving):
            again = [i for i in range(len(case.y)) if i not in basis and i not in cache and i not in arriving]
            queue = random.permutation(np.array(again, np.int64)).tolist()
            missing = len(leaving) - len(arriving)
            arriving, queue = arriving + queue[:missing], queue[missing:]
        gone = leaving[: max(len(arriving), 1)]
        cache = [i for i in cache if i not in gone] + arriving
    return basis


def cached(method: Method, cache_size: int, fresh: int) -> dict[str, Any]:
    """The options that make a cache of `cache_size` rows, of which `fresh` are replaced."""
    if method is Method.DMAX:
        return {"cache_size": cache_size, "candidates": fresh}
    return {"cache_size": cache_size - fresh or None, "candidates": fresh}


CASES: list[tuple[Method, int, int]] = [(method, 12, 4) for method in CACHED if method is not Method.KAPPA]
CASES += [(method, 6, 6) for method in (Method.KAPPA, Method.SB, Method.LOO_CVE)]
CASES += [(Method.DMAX, 9, 1), (Method.DMAX, 9, 20), (Method.SB, 10, 1)]


@pytest.mark.parametrize(("method", "cache_size", "fresh"), CASES)
def test_cache_takes_the_best_and_replaces_it_and_the_worst(method: Method, cache_size: int, fresh: int) -> None:
    """kappa has a cache of kappa candidates, dmax one of its own size, the others kappa and what is kept."""
    case = problem(7, n=30)
    ours = chosen(case, method, 5, seed=5, **cached(method, cache_size, fresh))
    assert ours.indices.tolist() == replayed(case, method, 5, cache_size, fresh, seed=5)


@pytest.mark.parametrize(("method", "cache_size", "fresh"), CASES)
def test_rows_come_again_when_each_has_had_its_turn(method: Method, cache_size: int, fresh: int) -> None:
    """Few rows: the second round over them begins after a few steps, and ends with fewer than one would replace."""
    case = problem(8, n=17)
    ours = chosen(case, method, 11, seed=6, **cached(method, cache_size, fresh))
    assert ours.indices.tolist() == replayed(case, method, 11, cache_size, fresh, seed=6)


@pytest.mark.parametrize("method", [Method.KAPPA, Method.DMAX, Method.SB])
def test_the_cache_starts_from_the_previous_basis(method: Method) -> None:
    case = problem(9, n=40)
    previous = (33, 4, 21)
    ours = chosen(case, method, 10, seed=2, previous=np.array(previous), **cached(method, 5, 5))
    assert ours.indices.tolist() == replayed(case, method, 10, 5, 5, seed=2, previous=previous)


@pytest.mark.parametrize("method", CACHED)
@pytest.mark.parametrize(("n", "cache_size", "fresh"), [(30, 12, 5), (30, 30, 30), (13, 6, 6), (40, 8, 1)])
def test_cache_holds_no_row_twice_and_none_that_is_chosen(
    method: Method, n: int, cache_size: int, fresh: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Looked at in every step until all rows are taken, also after the first pass over the rows has ended; never empty
    before."""
    if method is Method.KAPPA:
        fresh = cache_size
    criterion = CRITERIA[method]
    assert isinstance(criterion, CacheCriterion)
    steps = 0

    def watching(fit: GrowingFit, cache: CandidateCache) -> FloatArray:
        nonlocal steps
        candidates = cache.indices.tolist()
        assert len(set(candidates)) == len(candidates) == min(cache_size, n - steps)
        assert not set(candidates) & set(fit.indices)
        assert fit.size == steps
        params = oracle_params(case.hyperparameters, case.groups)
        expected = kernel(params, case.X[cache.indices], case.X)
        np.testing.assert_allclose(cache.K, expected, rtol=1e-12)
        steps += 1
        return criterion.gains(fit, cache)

    monkeypatch.setitem(CRITERIA, method, replace(criterion, gains=watching))
    case = problem(7, n=n)
    ours = chosen(case, method, n, **cached(method, cache_size, fresh))
    assert sorted(ours.indices.tolist()) == list(range(n))
    assert steps == n


@pytest.mark.parametrize("method", CACHED)
def test_numbers_of_the_cache_in_the_loop_are_as_from_nothing(method: Method, monkeypatch: pytest.MonkeyPatch) -> None:
    """The numbers after all that the loop does to it in fifty steps: S, h, toward and across of every candidate."""
    criterion = CRITERIA[method]
    assert isinstance(criterion, CacheCriterion)
    looked: list[int] = []

    def watching(fit: GrowingFit, cache: CandidateCache) -> FloatArray:
        if fit.size in (1, 20, 50):
            check_cache(cache, case, fit.indices)
            looked.append(len(cache.indices))
        return criterion.gains(fit, cache)

    monkeypatch.setitem(CRITERIA, method, replace(criterion, gains=watching))
    case = problem(2, n=90).with_hyperparameters(lengthscales=[0.6, 0.8, 0.7])
    fresh = 12 if method is Method.KAPPA else 4
    chosen(case, method, 51, **cached(method, 12, fresh))
    assert looked == [12, 12, 12]


@pytest.mark.parametrize("method", BY_ROW)
def test_every_row_that_is_not_chosen_is_seen(method: Method, monkeypatch: pytest.MonkeyPatch) -> None:
    criterion = CRITERIA[method]
    assert isinstance(criterion, RowCriterion)

    def watching(fit: GrowingFit, rows: IntArray) -> FloatArray:
        assert sorted([*rows.tolist(), *fit.indices]) == list(range(30))
        return criterion.gains(fit, rows)

    monkeypatch.setitem(CRITERIA, method, replace(criterion, gains=watching))
    assert len(chosen(problem(7, n=30), method, 30, candidates=3, cache_size=4).indices) == 30


@pytest.mark.parametrize("method", [*CACHED, *BY_ROW])
def test_a_useless_row_is_seen_once(method: Method, monkeypatch: pytest.MonkeyPatch) -> None:
    """A gain of -inf stays so: the row gives its place to another and never comes again; it may fill the basis up."""
    criterion = CRITERIA[method]
    seen: list[int] = []

    def half(fit: GrowingFit, candidates: Any) -> FloatArray:
        rows = candidates if isinstance(candidates, np.ndarray) else candidates.indices
        seen.extend(row for row in rows.tolist() if row % 2)
        return np.where(rows % 2, -np.inf, criterion.gains(fit, candidates))

    monkeypatch.setitem(CRITERIA, method, replace(criterion, gains=half))
    ours = chosen(problem(3, n=40), method, 40, candidates=6, cache_size=9)
    assert sorted(ours.indices[:20].tolist()) == list(range(0, 40, 2))
    assert sorted(ours.indices[20:].tolist()) == list(range(1, 40, 2))
    np.testing.assert_array_equal(np.isnan(ours.gains), np.arange(40) >= 20)
    assert sorted(seen) == list(range(1, 40, 2))


@pytest.mark.parametrize("method", [*CACHED, *BY_ROW])
def test_rows_that_are_refused_end_the_loop(method: Method, monkeypatch: pytest.MonkeyPatch) -> None:
    """A criterion that finds every candidate useless after three picks: the loop ends there, and the basis is filled
    up with the rows that it knows least."""
    criterion = CRITERIA[method]

    def tired(fit: GrowingFit, candidates: Any) -> FloatArray:
        gains = criterion.gains(fit, candidates)
        return np.asarray(gains if fit.size < 3 else np.full(len(gains), -np.inf))

    monkeypatch.setitem(CRITERIA, method, replace(criterion, gains=tired))
    case = problem(3, n=50)
    ours = chosen(case, method, 20, candidates=6, cache_size=3)
    assert ours.reason == "3 rows by the method until their gains were rounding, then 17 that the basis knew least"
    assert len(set(ours.indices.tolist())) == len(ours.gains) == 20
    np.testing.assert_array_equal(np.isnan(ours.gains), np.arange(20) >= 3)
    params, basis = oracle_params(case.hyperparameters, case.groups), ours.indices.tolist()
    for size in range(3, 20):
        left = [conditional_variance(params, case.X, case.y, basis[:size], row) for row in range(50)]
        assert left[basis[size]] == pytest.approx(max(left), rel=1e-6)


@pytest.mark.parametrize("method", [*CACHED, *BY_ROW])
def test_almost_copies_end_the_loop(method: Method) -> None:
    """Pairs of rows 1e-9 apart: one of each pair, and a reason. `kappa` sees no S, the fit refuses for it."""
    base = np.random.default_rng(0).normal(size=(9, 4))
    case = problem(3, n=18)
    ours = chosen(case.changed(X=np.concatenate([base, base + 1e-9])), method, 18, candidates=4, cache_size=4)
    assert sorted((ours.indices % 9).tolist()) == list(range(9))
    assert "rounding" in ours.reason
    assert np.isfinite(ours.gains).all()


@pytest.mark.parametrize(
    ("n", "size", "cache_size"), [(800, 60, 500), pytest.param(800, 510, 510, marks=pytest.mark.slow)]
)
def test_default_cache_of_dmax_is_d_but_at_least_500(n: int, size: int, cache_size: int) -> None:
    case = problem(7, n=n)

    def picks(cache: int | None) -> list[int]:
        return [int(i) for i in chosen(case, Method.DMAX, size, candidates=4, cache_size=cache).indices]

    assert picks(None) == picks(cache_size)
    assert picks(None) != picks(cache_size - 100)
    assert picks(None) != picks(cache_size + 100)


@pytest.mark.parametrize("method", [method for method in CACHED if method is not Method.DMAX])
def test_default_cache_of_the_others_is_fresh_at_each_step(method: Method) -> None:
    """kappa candidates, none kept (Smola & Bartlett); 59 of them unless one asks for another number."""
    case = problem(7, n=40)
    ours = chosen(case, method, 6, candidates=5)
    assert ours.indices.tolist() == replayed(case, method, 6, 5, 5)
    large = problem(7, n=200)
    default = chosen(large, method, 6).indices.tolist()
    assert default == chosen(large, method, 6, candidates=59).indices.tolist()
    others = [chosen(large, method, 6, candidates=count, seed=0).indices.tolist() for count in (10, 150)]
    assert default not in others


def test_kappa_has_no_other_cache() -> None:
    case = problem(7, n=60)
    first, second = (chosen(case, Method.KAPPA, 9, candidates=6, cache_size=size) for size in (None, 20))
    assert first.indices.tolist() == second.indices.tolist()
