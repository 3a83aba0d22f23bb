"""Rows of weights: every gain by its definition, the pool's picks, and what sizes are found by."""

import numpy as np
import pytest

from core.selection.gains import CRITERIA
from core.selection.pool import Pool, pursue
from core.selection.size import prefix_measures
from core.selection.state import Selection
from core.spec import Approximation, Gain, Method
from tests.core.problems import Problem, oracle_params, problem
from tests.core.selections import BY_ROW, CACHED, chosen, gains_along, without_ridge
from tests.dense import weighted as dense
from tests.dense.kernel import Sparse

METHODS = [*CACHED, *BY_ROW]


def dense_case(case: Problem, indices: list[int]) -> dense.Case:
    return dense.Case(oracle_params(case.hyperparameters, case.groups), case.X, case.y, case.weights, indices)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("joins", [0, 2, 4])
def test_gain_is_its_definition(method: Method, joins: int) -> None:
    """Also of a candidate that was carried along for some steps."""
    case = problem(3, n=14, d=4).weighted()
    indices = case.indices.tolist()
    candidates = np.setdiff1d(np.arange(14), case.indices)
    with without_ridge():
        ours = gains_along(case, method, indices, candidates, joins)
    oracle = [dense.gain(method.value, dense_case(case, indices), i) for i in candidates.tolist()]
    assert ours is not None
    np.testing.assert_allclose(ours, oracle, rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("method", [Method.NLML, Method.VFE, Method.LOO_CVE, Method.NLGPP, Method.GPE])
def test_measure_at_the_empty_basis_is_that_of_rows_without_a_model(method: Method) -> None:
    case = problem(4, n=12).weighted()
    hyperparameters = case.hyperparameters
    noise, prior = hyperparameters.noise_variance / case.weights, hyperparameters.prior_variance
    squares = np.square(case.y)
    log_density = 0.5 * np.sum(np.log(2 * np.pi * noise) + squares / noise)
    expected = {
        Method.NLML: log_density,
        Method.VFE: log_density + np.sum(prior / (2 * noise)),
        Method.LOO_CVE: np.mean(case.weights * squares),
        Method.NLGPP: np.mean(squares / (prior + noise) + np.log(prior + noise)),
        Method.GPE: np.mean(case.weights * (squares + prior + noise)),
    }[method]
    start = CRITERIA[method].start
    assert start is not None
    found = start.value(case.rows, prior, hyperparameters.noise_variance)
    np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize(
    ("gain", "method"),
    [
        (Gain.SB, Method.SB),
        (Gain.POST_BACKFITTING, Method.KAPPA),
        (Gain.NLML, Method.NLML),
        (Gain.VFE, Method.VFE),
        (Gain.VARIANCE, Method.VARIANCE),
    ],
)
def test_the_pool_picks_what_the_definition_does(gain: Gain, method: Method) -> None:
    case = problem(5, n=40).weighted()
    pool = np.arange(0, 40, 2)
    with without_ridge():
        found = pursue(case.rows, pool, case.hyperparameters, 6, gain)
    basis: list[int] = []
    for gained in found.gains:
        rest = [index for index in pool.tolist() if index not in basis]
        scores = [dense.gain(method.value, dense_case(case, basis), index) for index in rest]
        assert scores[int(np.argmax(scores))] == pytest.approx(gained, rel=1e-6)
        basis.append(rest[int(np.argmax(scores))])
    assert found.indices.tolist() == basis


def test_folds_of_a_pool_are_pools_without_their_rows() -> None:
    case = problem(8, n=60).weighted()
    fold = np.arange(0, 60, 5)
    rest = np.setdiff1d(np.arange(60), fold)
    shared = Pool(case.rows, np.arange(60), case.hyperparameters).pursue_without(fold, 8)
    alone = pursue(case.rows.take(rest), np.arange(len(rest)), case.hyperparameters, 8)
    np.testing.assert_array_equal(shared.indices, rest[alone.indices])
    np.testing.assert_allclose(shared.gains, alone.gains, rtol=1e-8)


def test_prefix_measures_are_deletions() -> None:
    case = problem(9, n=24, d=5).weighted()
    found = Selection(indices=case.indices, gains=np.zeros(5), reason="")
    params = oracle_params(case.hyperparameters, case.groups)
    expected = [float(np.mean(case.weights * np.square(case.y)))]
    for size in range(1, 6):
        mean, _ = dense.leave_one_out(Sparse("dtc", params, case.X, case.y, case.Z[:size]), case.weights)
        expected.append(float(np.mean(case.weights * (case.y - mean) ** 2)))
    np.testing.assert_allclose(prefix_measures(case.rows, case.hyperparameters, found), expected, rtol=1e-6)


@pytest.mark.parametrize("method", [Method.BATCH, Method.SB, Method.LOO_CVE, Method.INFO, Method.NLML])
def test_a_size_is_found(method: Method) -> None:
    case = problem(10, n=80).weighted()
    found = chosen(case, method, None)
    assert 2 <= len(found.indices) < 80
    weighted, plain = case.factors(Approximation.DTC), case.changed(weights=np.empty(0)).factors(Approximation.DTC)
    assert not np.allclose(weighted.alpha, plain.alpha)


@pytest.mark.parametrize("method", [method for method in METHODS if method is not Method.INFO])
def test_weights_of_one_change_only_rounding(method: Method) -> None:
    case = problem(11, n=60)
    plain, ones = chosen(case, method, 8), chosen(case.changed(weights=np.ones(60)), method, 8)
    np.testing.assert_array_equal(ones.indices, plain.indices)
    np.testing.assert_allclose(ones.gains, plain.gains, rtol=1e-6, atol=1e-9)
