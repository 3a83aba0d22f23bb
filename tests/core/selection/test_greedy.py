"""core/selection/greedy.py: every method on the one loop, against search from nothing; what all of them promise."""

from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import core.selection.gains
import core.selection.state
from core.arrays import FloatArray
from core.hyperparameters import Hyperparameters
from core.process.rows import Rows
from core.selection.greedy import select
from core.spec import Approximation, Gain, Method, TrainSpec
from tests.core.problems import Problem, oracle_params, problem
from tests.core.selections import BY_ROW, CACHED, REACHED, by_gain, chosen
from tests.dense.objective import objective
from tests.dense.selection import GAINS, conditional_variance, measures, minimiser, pi
from tests.dense.selection import Gain as Oracle

GREEDY = [*CACHED, *BY_ROW, Method.BATCH]
RUNS = [(method, Gain.SB) for method in Method] + [(Method.BATCH, gain) for gain in Gain if gain is not Gain.SB]
"""Every method, and `batch` with every gain."""


def oracle_of(method: Method, gain: Gain = Gain.SB) -> Oracle:
    return GAINS[gain if method is Method.BATCH else method]


def whole(n: int) -> dict[str, Any]:
    """Options with which every row is a candidate at every step."""
    return {"candidates": n, "cache_size": n, "pool_size": n}


# Picks and gains


@pytest.mark.parametrize(("method", "gain"), RUNS)
def test_gains_are_their_definition(method: Method, gain: Gain) -> None:
    """Few candidates, replaced at every step: each reported gain is that of its own row."""
    case = problem(4, n=60)
    ours = chosen(case, method, 8, candidates=6, cache_size=7, pool_size=40, gain=gain)
    assert len(ours.indices) == len(ours.gains) == 8
    assert ours.reason == REACHED
    if method is Method.RAND:
        assert np.isnan(ours.gains).all()
        return
    params = oracle_params(case.hyperparameters, case.groups)
    basis: list[int] = []
    for index, reported in zip(ours.indices.tolist(), ours.gains, strict=True):
        oracle = oracle_of(method, gain)(params, case.X, case.y, basis, index)
        np.testing.assert_allclose(reported, oracle, rtol=1e-7, atol=1e-9)
        basis.append(index)


@pytest.mark.parametrize(("method", "gain"), [run for run in RUNS if run[0] is not Method.RAND])
def test_with_every_row_a_candidate_each_step_takes_the_best_of_all(method: Method, gain: Gain) -> None:
    case = problem(6, n=18)
    ours = chosen(case, method, 5, gain=gain, **whole(18))
    params = oracle_params(case.hyperparameters, case.groups)
    basis: list[int] = []
    for index in ours.indices.tolist():
        rest = [i for i in range(18) if i not in basis]
        scores = [oracle_of(method, gain)(params, case.X, case.y, basis, i) for i in rest]
        if np.ptp(scores) > 1e-12:  # all variances are equal before the first pick
            assert rest[int(np.argmax(scores))] == index
        basis.append(index)


def test_the_two_names_of_sb_are_one_method() -> None:
    case = problem(7, n=70)
    first, second = (chosen(case, method, 12, candidates=9) for method in (Method.SB, Method.NLPP))
    assert first.indices.tolist() == second.indices.tolist()
    np.testing.assert_array_equal(first.gains, second.gains)


@pytest.mark.parametrize("method", [method for method in Method if method not in (Method.RAND, Method.INFO)])
def test_greedy_beats_random(method: Method) -> None:
    """It has on average less of what it minimises than the luckiest of five random choices."""
    case = problem(10, n=60)
    params = oracle_params(case.hyperparameters, case.groups)
    left_out = (Method.LOO_CVE, Method.NLGPP, Method.GPE)

    def left(indices: list[int]) -> float:
        model = case.changed(indices=np.array(indices))
        match method:
            case Method.NLML | Method.VFE:
                return objective(model.sparse(Approximation.DTC if method is Method.NLML else Approximation.VFE))
            case Method.LOO_CVE | Method.NLGPP | Method.GPE:
                return float(measures(params, case.X, case.y, indices)[left_out.index(method)])
            case Method.VARIANCE:
                return max(conditional_variance(params, case.X, case.y, indices, i) for i in range(60))
            case _:
                return pi(params, case.X, case.y, indices, minimiser(params, case.X, case.y, indices))

    ours = [left(chosen(case, method, 10, seed=seed).indices.tolist()) for seed in range(2)]
    random = [left(chosen(case, Method.RAND, 10, seed=seed).indices.tolist()) for seed in range(5)]
    assert np.mean(ours) < min(random)


def test_random_choice_has_no_gains_and_is_uniform() -> None:
    case = problem(9, n=10)
    counts = np.zeros(10)
    for seed in range(600):
        ours = chosen(case, Method.RAND, 3, seed=seed)
        assert np.isnan(ours.gains).all()
        counts[ours.indices] += 1
    assert np.abs(counts / 600 - 0.3).max() < 0.08  # four standard deviations


@pytest.mark.parametrize("method", [method for method in GREEDY if method not in BY_ROW])
def test_the_previous_basis_is_among_the_candidates(method: Method) -> None:
    """A cache or pool of its very size, only its rows are there to begin with."""
    case = problem(8, n=80)
    previous = np.array([50, 7, 69, 31, 62, 78])
    cache_size = 6 if method is Method.DMAX else None
    ours = chosen(case, method, 1, previous=previous, pool_size=6, cache_size=cache_size, candidates=6)
    assert ours.indices[0] in previous
    params = oracle_params(case.hyperparameters, case.groups)
    best = max(previous.tolist(), key=lambda i: oracle_of(method)(params, case.X, case.y, [], i))
    assert ours.indices[0] == best


# What all promise


@pytest.mark.parametrize(("method", "gain"), RUNS)
@pytest.mark.parametrize("size", [1, 10, 40, 100])
def test_no_row_twice_and_never_more_than_asked(method: Method, gain: Gain, size: int) -> None:
    ours = chosen(problem(1), method, size, gain=gain)
    assert len(set(ours.indices.tolist())) == len(ours.indices) == len(ours.gains)
    assert len(ours.indices) <= min(size, 40)
    assert len(ours.indices) >= min(size, 20)
    assert ours.indices.dtype == np.int64
    assert (ours.reason == REACHED) == (len(ours.indices) == size)


@pytest.mark.parametrize("method", list(Method))
def test_same_seed_same_choice_other_seed_another(method: Method) -> None:
    case = problem(1, n=150)
    options: dict[str, Any] = {"pool_size": 30, "cache_size": 10, "candidates": 10}
    first = chosen(case, method, 8, seed=3, **options)
    np.testing.assert_array_equal(chosen(case, method, 8, seed=3, **options).indices, first.indices)
    other = chosen(case, method, 8, seed=4, **options)
    assert (other.indices.tolist() == first.indices.tolist()) == (method in BY_ROW)


@pytest.mark.parametrize(("method", "gain"), RUNS)
@pytest.mark.parametrize("n", [120, 36])
def test_a_shorter_run_is_the_start_of_a_longer_one(method: Method, gain: Gain, n: int) -> None:
    """Prefix consistency, with the sizes of pool and cache held fixed; also when fresh rows have run out."""
    case = problem(2, n=n)
    options: dict[str, Any] = {"pool_size": 60, "cache_size": 25, "candidates": 7, "gain": gain}
    long = chosen(case, method, 30, **options)
    assert len(long.indices) == 30
    for size in (1, 5, 17, 29):
        short = chosen(case, method, size, **options)
        np.testing.assert_array_equal(short.indices, long.indices[:size])
        np.testing.assert_allclose(short.gains, long.gains[:size], rtol=1e-9)


@pytest.mark.parametrize(("method", "gain"), [run for run in RUNS if run[0] is not Method.RAND])
def test_order_of_the_rows_does_not_matter(method: Method, gain: Gain) -> None:
    """Every row is a candidate, so no chance is left. Row 0 stays: to `variance` all rows are equal at first."""
    case = problem(11, n=45)
    first = chosen(case, method, 12, gain=gain, **whole(45))
    for seed in range(3):
        order = np.append(0, 1 + np.random.default_rng(seed).permutation(44))
        moved = case.changed(X=case.X[order], y=case.y[order])
        other = chosen(moved, method, 12, gain=gain, seed=seed, **whole(45))
        if method is Method.BATCH and gain is Gain.VARIANCE:
            continue  # its first pick is a tie of all, broken by the order of the pool (see test_selection_pool)
        assert order[other.indices].tolist() == first.indices.tolist()
        np.testing.assert_allclose(other.gains, first.gains, rtol=1e-8)


# Copies and awkward rows


def with_copies(case: Problem) -> Problem:
    """Every second row is a copy of the one before it, with another target."""
    X = case.X.copy()
    X[1::2] = X[::2]
    return case.changed(X=X)


@pytest.mark.parametrize(("method", "gain"), RUNS)
@pytest.mark.parametrize("options", [{}, {"candidates": 3, "cache_size": 4}])
def test_copies_of_a_row_are_one_candidate(method: Method, gain: Gain, options: dict[str, Any]) -> None:
    """Half of the rows are copies: no two chosen rows are equal, and the choice ends where all are taken."""
    case = with_copies(problem(3, n=24))
    ours = chosen(case, method, 24, gain=gain, **options)
    assert len(np.unique(case.X[ours.indices], axis=0)) == len(ours.indices) == 12
    assert ours.reason != REACHED


@pytest.mark.parametrize("method", [*CACHED, *BY_ROW])
def test_copies_are_known_as_such_without_the_thresholds(method: Method, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rounding may lift a copy over any threshold: that no two chosen rows are equal does not hang on one."""
    for module in (core.selection.state, core.selection.gains):
        monkeypatch.setattr(module, "LEAST_SHARE", 1e-25)
        monkeypatch.setattr(module, "LEAST_UNEXPLAINED", 1e-25)
    case = with_copies(problem(3, n=24))
    ours = chosen(case, method, 24, candidates=5, cache_size=5)
    assert len(np.unique(case.X[ours.indices], axis=0)) == len(ours.indices) == 12


@pytest.mark.parametrize(("method", "gain"), [run for run in RUNS if run[0] is not Method.RAND])
def test_copies_with_other_targets_count_in_the_gains(method: Method, gain: Gain) -> None:
    """Each step has the largest gain of all rows that are no copy of a chosen one; all targets are in it."""
    case = with_copies(problem(5, n=20))
    ours = chosen(case, method, 4, gain=gain, **whole(20))
    params = oracle_params(case.hyperparameters, case.groups)
    basis: list[int] = []
    for index, reported in zip(ours.indices.tolist(), ours.gains, strict=True):
        rest = [i for i in range(20) if not (case.X[basis] == case.X[i]).all(axis=1).any()]
        scores = {i: oracle_of(method, gain)(params, case.X, case.y, basis, i) for i in rest}
        np.testing.assert_allclose(reported, scores[index], rtol=1e-7, atol=1e-9)
        np.testing.assert_allclose(reported, max(scores.values()), rtol=1e-7, atol=1e-9)
        basis.append(index)


@pytest.mark.parametrize(("method", "gain"), RUNS)
@pytest.mark.parametrize("n", [1, 2, 9])
def test_fewer_rows_than_asked_for(method: Method, gain: Gain, n: int) -> None:
    """All are chosen, and the reason does not say that as many were found as asked for."""
    case = problem(12, n=12)
    ours = chosen(case.changed(X=case.X[:n], y=case.y[:n]), method, 20, gain=gain)
    assert sorted(ours.indices.tolist()) == list(range(n))
    assert ours.reason != REACHED


@pytest.mark.parametrize(("method", "gain"), RUNS)
@pytest.mark.parametrize("value", [0.0, 1.0, -3.0])
def test_target_that_is_constant(method: Method, gain: Gain, value: float) -> None:
    """Nothing to tell rows apart by, or only the bias: a basis of distinct rows and finite gains."""
    case = problem(13, n=30)
    ours = chosen(case.changed(y=np.full(30, value)), method, 8, gain=gain, candidates=5)
    assert len(set(ours.indices.tolist())) == 8
    assert method is Method.RAND or np.isfinite(ours.gains).all()
    if method in (Method.SB, Method.KAPPA, Method.DMAX) or (method is Method.BATCH and gain is Gain.SB):
        assert (ours.gains >= 0).all()
        assert (value == 0.0) == (ours.gains[0] == 0.0)


def awkward(kind: str, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    X = rng.normal(size=(25, 3))
    y = np.sin(X[:, 0])
    if kind == "columns":
        X = rng.normal(size=(4, 3))
        y = rng.normal(size=4)
    if kind == "constant":
        X[:, 1:] = 0.0
    if kind == "equal":
        X[:] = 0.0
    if kind == "lattice":
        X = np.round(X)
    return X, y


def bounded(gains: FloatArray, y: FloatArray, method: Method, gain: Gain) -> None:
    """Decreases of pi: not negative, and in all not more than there is."""
    squares = (Method.SB, Method.NLPP, Method.KAPPA, Method.DMAX)
    if method in squares or (method is Method.BATCH and gain in (Gain.SB, Gain.POST_BACKFITTING)):
        assert (gains >= 0).all()
        assert gains.sum() <= 0.5 * y @ y * (1 + 1e-5)
    if method is Method.VARIANCE or (method is Method.BATCH and gain is Gain.VARIANCE):
        assert (gains > 0).all()
        assert (np.diff(gains) <= 0).all()


@settings(max_examples=120, deadline=None)
@given(
    kind=st.sampled_from(["noise-free", "columns", "constant", "equal", "lattice"]),
    run=st.sampled_from(RUNS),
    seed=st.integers(0, 1000),
    log_noise=st.floats(-25, 0),
    log_length=st.floats(-3, 6),
    size=st.sampled_from([None, 20]),
)
@example(  # q rounds past 1 with one of OpenBLAS's kernels
    kind="constant", run=(Method.INFO, Gain.SB), seed=480, log_noise=-16.75, log_length=0.0, size=None
)
def test_awkward_data_end_with_distinct_rows_and_finite_gains(
    kind: str, run: tuple[Method, Gain], seed: int, log_noise: float, log_length: float, size: int | None
) -> None:
    X, y = awkward(kind, np.random.default_rng(seed))
    hyperparameters = Hyperparameters(
        lengthscales=np.full(3, np.exp(log_length)),
        signal_variance=1.0,
        bias_variance=0.1,
        noise_variance=np.exp(log_noise),
    )
    rows = Rows(X=X, y=y, groups=np.arange(3))
    spec = TrainSpec(method=run[0], gain=run[1], basis_size=size, max_basis_size=20)
    ours = select(rows, hyperparameters, spec, np.random.default_rng(seed))
    assert 1 <= len(ours.indices) <= 20
    assert len(np.unique(X[ours.indices], axis=0)) == len(ours.indices) == len(ours.gains)
    assert ours.reason
    assert np.isfinite(ours.measures).all()
    if run[0] is not Method.RAND and not ours.complete:
        assert np.isfinite(by_gain(ours).gains).all()
        bounded(by_gain(ours).gains, y, *run)
