"""core/selection/pool.py: batch pursuit picks, gains and numbers as a search from nothing over the same pool."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import core.selection.greedy
import core.selection.pool
import core.sparse.factors
from core.arrays import FloatArray
from core.hyperparameters import Hyperparameters
from core.process.rows import BLOCK_NUMBERS, Rows
from core.selection.greedy import select
from core.selection.pool import Pool, _Pursuit, pool_products, pursue
from core.selection.state import distinct
from core.sparse.factors import factorise
from core.sparse.likelihood import nlml
from core.sparse.scheme import scheme
from core.spec import Approximation, Gain, Method, TrainSpec
from tests.core.problems import Problem, hyperparameters, oracle_params, problem
from tests.core.selections import REACHED, by_gain, chosen, small_problems, without_ridge
from tests.dense.kernel import kernel
from tests.dense.precise_selection import exact
from tests.dense.selection import GAINS, candidate_numbers, greedy, state

GAIN_NAMES = list(Gain)
STEPWISE = {Gain.SB: Method.SB, Gain.POST_BACKFITTING: Method.KAPPA, Gain.NLML: Method.NLML, Gain.VFE: Method.VFE}


def three_of(**variances: float) -> Hyperparameters:
    return hyperparameters(
        [1.0, 1.0, 1.0], **{"signal_variance": 1.0, "bias_variance": 0.1, "noise_variance": 0.1, **variances}
    )


# Against the dense oracle


@pytest.mark.parametrize("gain", GAIN_NAMES)
@pytest.mark.parametrize("seed", [0, 1, 2, 3])
def test_batch_picks_what_exhaustive_search_picks(gain: Gain, seed: int) -> None:
    case = problem(seed)
    pool = np.random.default_rng(seed).permutation(40)[:18]
    with without_ridge():
        ours = pursue(case.rows, pool, case.hyperparameters, 7, gain)
    params = oracle_params(case.hyperparameters, case.groups)
    indices, gains = greedy(params, case.X, case.y, pool.tolist(), 7, GAINS[gain])
    assert ours.indices.tolist() == indices
    np.testing.assert_allclose(ours.gains, gains, rtol=1e-7, atol=1e-8)
    assert ours.reason == REACHED


@pytest.mark.parametrize("gain", GAIN_NAMES)
@settings(max_examples=15, deadline=None)
@given(case=small_problems(), size=st.integers(1, 5), pool_size=st.integers(2, 9))
def test_batch_gains_are_their_definition(gain: Gain, case: Problem, size: int, pool_size: int) -> None:
    """The gain of each pick in turn, and no other row of the pool had a larger one."""
    pool = np.random.default_rng(0).permutation(len(case.y))[:pool_size]
    with without_ridge():
        ours = pursue(case.rows, pool, case.hyperparameters, size, gain)
    params = oracle_params(case.hyperparameters, case.groups)
    assert len(ours.indices) == min(size, len(pool))
    scale = 1.0 + (case.y @ case.y) / min(params.s2, 1.0)
    basis: list[int] = []
    for index, reported in zip(ours.indices.tolist(), ours.gains.tolist(), strict=True):
        oracle = {i: GAINS[gain](params, case.X, case.y, basis, i) for i in pool.tolist() if i not in basis}
        assert abs(reported - oracle[index]) <= 1e-8 * abs(oracle[index]) + 1e-9 * scale
        assert max(oracle.values()) <= oracle[index] + 1e-8 * abs(oracle[index]) + 1e-9 * scale
        basis.append(index)


@pytest.mark.parametrize("gain", GAIN_NAMES)
@settings(max_examples=10, deadline=None, derandomize=True)
@given(case=small_problems(ill=True))
def test_batch_gains_at_ill_conditioned_hyperparameters(gain: Gain, case: Problem) -> None:
    """Against 60 digits: right to eps times what the Schur complements lose, as step by step.

    The Gram form squares no condition number that the gains do not have already: A itself is a Gram matrix. What is
    worse than step by step is VFE's |k - V'V[:, j]|^2 / e, a difference of numbers as large as k'k, over e.
    """
    with without_ridge():
        ours = by_gain(pursue(case.rows, np.arange(len(case.y)), case.hyperparameters, 4, gain))
    params = oracle_params(case.hyperparameters, case.groups)
    eps, power, prior = float(np.finfo(float).eps), float(case.y @ case.y), case.hyperparameters.prior_variance
    basis: list[int] = []
    for index, reported in zip(ours.indices.tolist(), ours.gains.tolist(), strict=True):
        of = exact(params, case.X, case.y, basis, index)
        gain_of, lost = abs(of.gains[gain]), 300 * eps * of.own_over_schur
        tolerance = lost * power
        if gain in (Gain.NLML, Gain.VFE):
            tolerance = (lost + 300 * eps * of.prior_over_e) * (1.0 + power / params.s2 + gain_of)
        if gain is Gain.VFE:
            tolerance += 300 * eps * len(case.y) * prior * of.prior_over_e / (2 * params.s2)
        if gain is Gain.VARIANCE:
            tolerance = 30 * eps * of.prior_over_e * gain_of + 1000 * eps * prior
        assert abs(reported - of.gains[gain]) <= tolerance
        basis.append(index)


@pytest.mark.parametrize("gain", list(STEPWISE))
def test_batch_with_all_rows_is_the_method_step_by_step_with_all_rows(gain: Gain) -> None:
    case = problem(6, n=150)
    with without_ridge():
        batch = chosen(case, Method.BATCH, 20, pool_size=150, gain=gain)
        stepwise = chosen(case, STEPWISE[gain], 20, candidates=150)
    assert batch.indices.tolist() == stepwise.indices.tolist()
    np.testing.assert_allclose(batch.gains, stepwise.gains, rtol=1e-7, atol=1e-9)


def test_batch_by_variance_is_the_method_variance_after_its_first_pick() -> None:
    """The first is a tie of all rows: `variance` takes row 0, so it stands first in the pool here."""
    case = problem(6, n=100)
    batch = pursue(case.rows, np.arange(100), case.hyperparameters, 25, Gain.VARIANCE)
    stepwise = chosen(case, Method.VARIANCE, 25)
    assert batch.indices.tolist() == stepwise.indices.tolist()
    np.testing.assert_allclose(batch.gains, stepwise.gains, rtol=1e-9)


@pytest.mark.parametrize("gain", GAIN_NAMES)
def test_order_of_the_pool_does_not_matter(gain: Gain) -> None:
    """But for a tie: all rows have the same variance before the first pick, so the first of the pool stays."""
    case = problem(7, n=80)
    rng = np.random.default_rng(1)
    whole = pursue(case.rows, np.arange(80), case.hyperparameters, 15, gain)
    for _ in range(3):
        pool = np.append(0, 1 + rng.permutation(79))
        other = pursue(case.rows, pool, case.hyperparameters, 15, gain)
        assert other.indices.tolist() == whole.indices.tolist()
        np.testing.assert_allclose(other.gains, whole.gains, rtol=1e-8)


# The numbers of the pool


def test_pool_products(monkeypatch: pytest.MonkeyPatch) -> None:
    case = problem(5, n=209)
    params = oracle_params(case.hyperparameters, case.groups)
    pool = np.arange(3, 60, 5)
    K = kernel(params, case.X[pool], case.X)
    for numbers in (BLOCK_NUMBERS, 1):
        monkeypatch.setattr("core.process.rows.BLOCK_NUMBERS", numbers)
        for workers in (1, 3):
            G, g = pool_products(case.changed(workers=workers).rows, case.X[pool], case.hyperparameters)
            np.testing.assert_allclose(G, K @ K.T, rtol=1e-11)
            np.testing.assert_allclose(G, G.T, rtol=0)
            np.testing.assert_allclose(g, K @ case.y, rtol=1e-10)


@pytest.mark.parametrize("gain", GAIN_NAMES)
def test_a_pursuit_without_a_fold_is_one_on_the_other_rows(gain: Gain) -> None:
    case = problem(6, n=120)
    pool = np.random.default_rng(1).permutation(120)[:60]
    shared = Pool(case.rows, pool, case.hyperparameters)
    whole = shared.pursue(12, gain).indices
    for fold in (np.arange(0, 120, 7), np.arange(40), pool[:30]):
        rest = np.setdiff1d(np.arange(120), fold)
        among = pool[~np.isin(pool, fold)]
        other = case.changed(X=case.X[rest], y=case.y[rest])
        expected = pursue(other.rows, np.searchsorted(rest, among), case.hyperparameters, 12, gain)
        ours = shared.pursue_without(fold, 12, gain)
        np.testing.assert_array_equal(ours.indices, rest[expected.indices])
        np.testing.assert_allclose(ours.gains, expected.gains, rtol=1e-6)
    np.testing.assert_array_equal(shared.pursue(12, gain).indices, whole)  # nothing was used up


@pytest.mark.parametrize("gain", GAIN_NAMES)
def test_rows_that_stand_for_all_count_as_often_as_there_are_more_rows(gain: Gain) -> None:
    """40 of 120 rows, each three times, are another table of 120."""
    case = problem(7, n=120)
    some, pool = np.arange(40), np.random.default_rng(2).permutation(40)[:25]
    thrice = case.changed(X=np.tile(case.X[some], (3, 1)), y=np.tile(case.y[some], 3))
    ours = pursue(case.rows, pool, case.hyperparameters, 10, gain, some)
    expected = pursue(thrice.rows, pool, thrice.hyperparameters, 10, gain)
    np.testing.assert_array_equal(ours.indices, expected.indices)
    np.testing.assert_allclose(ours.gains, expected.gains, rtol=1e-8)


def test_of_many_rows_some_choose(monkeypatch: pytest.MonkeyPatch) -> None:
    """The gains are as large as those of all rows, and the basis nearly as good; no candidate is summed."""
    case = problem(8, n=4_000)
    spec = TrainSpec(basis_size=20, pool_size=100)
    by_all = select(case.rows, case.hyperparameters, spec, np.random.default_rng(0))
    summed: list[FloatArray] = []

    def remembered(rows: Rows, *rest: Any) -> Any:
        summed.append(rows.X)
        return pool_products(rows, *rest)

    monkeypatch.setattr(core.selection.greedy, "SUMMED_ROWS", 1_000)
    monkeypatch.setattr(core.selection.pool, "pool_products", remembered)
    by_some = select(case.rows, case.hyperparameters, spec, np.random.default_rng(0))
    (X,) = summed
    assert len(X) == 1_000
    assert not {row.tobytes() for row in X} & {case.X[i].tobytes() for i in by_some.indices}
    assert by_some.gains.sum() == pytest.approx(by_all.gains.sum(), rel=0.1)
    explained = [
        nlml(factorise(case.rows, case.X[found.indices], case.hyperparameters, scheme(Approximation.DTC)))
        for found in (by_all, by_some)
    ]
    assert explained[1] < explained[0] + 0.02 * abs(explained[0])


@pytest.mark.parametrize("gain", GAIN_NAMES)
def test_pool_after_fifty_steps_is_as_from_nothing(gain: Gain) -> None:
    """S, h, e, |k - V'V[:, j]|^2 of every candidate that is left; R, C, H = V K_.J and V V' of the fifty chosen."""
    case = problem(2, n=90).with_hyperparameters(lengthscales=[0.6, 0.8, 0.7])
    params = oracle_params(case.hyperparameters, case.groups)
    pool = np.random.default_rng(3).permutation(90)[:70]
    G, g = pool_products(case.rows, case.X[pool], case.hyperparameters)
    K = kernel(params, case.X[pool], case.X[pool])
    T = G + case.hyperparameters.noise_variance * K
    state_of = _Pursuit(K, T, g, float(case.y @ case.y), np.zeros(70, bool), case.hyperparameters, 50, gain)
    for _ in range(50):
        assert state_of.take_best()
    indices = pool[state_of.chosen].tolist()
    assert len(set(indices)) == 50
    for place in range(70):
        if place in state_of.chosen:
            continue
        oracle = candidate_numbers(params, case.X, case.y, indices, int(pool[place]))
        np.testing.assert_allclose(state_of._S[place], oracle.S, atol=1e-9)
        np.testing.assert_allclose(state_of._h[place], oracle.h, atol=1e-9)
        if gain in (Gain.NLML, Gain.VFE, Gain.VARIANCE):
            np.testing.assert_allclose(state_of._e[place], oracle.e, atol=1e-9)
        if gain is Gain.VFE:
            np.testing.assert_allclose(state_of._across[place], oracle.across @ oracle.across, atol=1e-9)
    A = params.s2 * kernel(params, case.X[indices], case.X[indices])
    A += kernel(params, case.X[indices], case.X) @ kernel(params, case.X, case.X[indices])
    np.testing.assert_allclose(state_of._R[:, state_of.chosen].T @ state_of._R[:, state_of.chosen], A, atol=1e-9)
    if gain is Gain.VFE:
        V = state(params, case.X, case.y, indices).V
        np.testing.assert_allclose(state_of._C, V[:, pool], atol=1e-9)
        np.testing.assert_allclose(state_of._H, V @ kernel(params, case.X, case.X[pool]), atol=1e-9)
        np.testing.assert_allclose(state_of._VV, V @ V.T, atol=1e-9)


# The end of the pool


@pytest.mark.parametrize("gain", GAIN_NAMES)
def test_batch_never_takes_a_row_that_adds_nothing(gain: Gain) -> None:
    """One column with three values: three basis vectors say all there is."""
    X = np.zeros((30, 3))
    X[:, 0] = np.arange(30) % 3
    y = problem(0, n=30).y
    ours = pursue(Rows(X=X, y=y, groups=np.array([0, 1, 2])), np.arange(30), three_of(), 10, gain)
    assert sorted(X[ours.indices, 0]) == [0.0, 1.0, 2.0]
    assert "adds more" in ours.reason


@pytest.mark.parametrize("gain", GAIN_NAMES)
def test_rows_that_are_almost_copies_are_out(gain: Gain) -> None:
    """Not equal, but to 1e-9: the second of a pair adds only rounding, and the choice ends with a reason; or where the
    ridge says how little they add, they come after all others."""
    base = np.random.default_rng(0).normal(size=(8, 3))
    X = np.concatenate([base, base + 1e-9])
    y = np.random.default_rng(1).normal(size=16)
    ours = pursue(Rows(X=X, y=y, groups=np.arange(3)), np.arange(16), three_of(), 16, gain)
    assert sorted((ours.indices[:8] % 8).tolist()) == list(range(8))
    if gain in (Gain.SB, Gain.POST_BACKFITTING):
        assert ours.gains[8:].max() < 1e-9 * ours.gains[0]
    else:
        assert len(ours.indices) == 8
        assert "adds more" in ours.reason
    assert np.isfinite(ours.gains).all()


@pytest.mark.parametrize("gain", [Gain.SB, Gain.POST_BACKFITTING])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_ridge_changes_no_gain_that_is_known(gain: Gain, seed: int) -> None:
    case = problem(seed, n=60)
    with_it = pursue(case.rows, np.arange(60), case.hyperparameters, 15, gain)
    with without_ridge():
        without = pursue(case.rows, np.arange(60), case.hyperparameters, 15, gain)
    np.testing.assert_array_equal(with_it.indices, without.indices)
    np.testing.assert_allclose(with_it.gains, without.gains, rtol=1e-5)  # RIDGE times own over Schur complement


@pytest.mark.parametrize("gain", [Gain.SB, Gain.POST_BACKFITTING])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_long_lengthscales_do_not_leave_a_pursuit_to_rounding(gain: Gain, seed: int) -> None:
    """A smooth function of three columns, hardly any noise: past some fifteen rows T has no digits left of its own. All
    that were asked for are chosen, and the same where the rows come in another unit."""
    rng = np.random.default_rng(seed)
    X, copies = rng.normal(size=(300, 3)), []
    y = np.sin(X @ [0.3, 0.2, -0.4]) + 1e-3 * rng.normal(size=300)
    theta = hyperparameters([6.0, 6.0, 6.0], signal_variance=10.0, bias_variance=0.1, noise_variance=1e-6)
    for shift in (0.0, 273.15, -1e3):
        rows = Rows(X=(X + shift) - shift, y=y, groups=np.arange(3))
        copies.append(pursue(rows, np.arange(300), theta, 60, gain))
    first = copies[0]
    assert first.reason == REACHED
    assert len(first.indices) == 60
    for other in copies[1:]:
        np.testing.assert_array_equal(other.indices[:40], first.indices[:40])
        np.testing.assert_allclose(other.gains.sum(), first.gains.sum(), rtol=1e-6)


@pytest.mark.parametrize("seed", range(0, 3000, 100))
def test_nearly_singular_tables_gain_no_more_than_there_is(seed: int) -> None:
    """One column, long lengthscales, next to no noise: pi cannot fall below zero, so it can fall by pi in all."""
    rng = np.random.default_rng(seed)
    log_noise, log_length = rng.uniform(-25, 0), rng.uniform(-1, 3)
    x = np.random.default_rng(seed).normal(size=(25, 1))
    y = np.sin(x[:, 0])
    theta = Hyperparameters(
        lengthscales=np.array([np.exp(log_length)]),
        signal_variance=1.0,
        bias_variance=0.1,
        noise_variance=np.exp(log_noise),
    )
    ours = pursue(Rows(X=x, y=y, groups=np.array([0])), np.arange(25), theta, 20)
    assert ours.gains.sum() <= 0.5 * y @ y * (1 + 1e-5)


@pytest.mark.parametrize("gain", GAIN_NAMES)
def test_pool_smaller_than_what_is_asked_for(gain: Gain) -> None:
    """All of the pool are chosen, and the reason does not say that as many were found as asked for."""
    case = problem(1)
    ours = pursue(case.rows, np.array([3, 8, 20, 31]), case.hyperparameters, 9, gain)
    assert sorted(ours.indices.tolist()) == [3, 8, 20, 31]
    assert ours.reason != REACHED


@pytest.mark.parametrize("gain", GAIN_NAMES)
def test_copies_are_known_as_such_without_the_thresholds(gain: Gain, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rounding may lift a copy over any threshold: that no two chosen rows are equal does not hang on one."""
    monkeypatch.setattr("core.selection.gains.LEAST_SHARE", 1e-25)
    monkeypatch.setattr(core.selection.pool, "LEAST_UNEXPLAINED", 1e-25)
    case = problem(3, n=24)
    X = case.X.copy()
    X[1::2] = X[::2]
    ours = pursue(case.changed(X=X).rows, np.arange(24), case.hyperparameters, 24, gain)
    assert len(np.unique(X[ours.indices], axis=0)) == len(ours.indices) == 12


def test_target_without_any_size_is_chosen_by_ties() -> None:
    """y = 0: nothing to gain, and still a basis of distinct rows."""
    case = problem(3)
    ours = pursue(case.changed(y=np.zeros(40)).rows, np.arange(40), case.hyperparameters, 5)
    assert len(set(ours.indices.tolist())) == 5
    np.testing.assert_array_equal(ours.gains, 0.0)


def test_distinct_keeps_the_first_of_each_copy_in_order() -> None:
    X = np.array([[1.0, 2.0], [3.0, 4.0], [1.0, 2.0], [0.0, 0.0], [-0.0, 0.0], [3.0, 4.0]])
    np.testing.assert_array_equal(distinct(X, np.array([5, 2, 1, 4, 0, 3])), [5, 2, 4])


def lines(n: int, noise: float) -> tuple[FloatArray, FloatArray]:
    """Many rows close together on a line."""
    rng = np.random.default_rng(4)
    X = np.concatenate([np.sort(rng.uniform(0, 3, size=(n, 1)), axis=0), np.zeros((n, 2))], axis=1)
    return X, np.sin(2 * X[:, 0]) + noise * rng.normal(size=n)


@pytest.mark.parametrize("gain", [Gain.NLML, Gain.VFE])
def test_gains_stay_true_until_the_pool_is_spent(gain: Gain) -> None:
    """Rows close together, little noise: S and e fall by ten orders. The reported gains are right to 1e-3 in all that
    counts (the largest gain so far times 1e-6), every fifth of them and the last pick before the threshold."""
    X, y = lines(60, 0.05)
    theta = three_of(noise_variance=1e-3)
    ours = by_gain(pursue(Rows(X=X, y=y, groups=np.arange(3)), np.arange(60), theta, 40, gain))
    params = oracle_params(theta, np.arange(3))
    indices = ours.indices.tolist()
    for step in {*range(0, len(indices), 5), len(indices) - 1}:
        oracle = exact(params, X, y, indices[:step], indices[step]).gains[gain]
        np.testing.assert_allclose(ours.gains[step], oracle, rtol=1e-3, atol=1e-6 * ours.gains[0])
