"""core/selection/gains.py: every gain is its definition, for candidates old and new, at any theta.

The tolerances. A gain is made of S and e, Schur complements in A and in Kuu. Rounding leaves an error of about
eps A_ii in S = A_ii - z'z, so all that is made from it loses log10(A_ii / S) digits, and likewise log10(K_ii / e). At
ordinary theta that is nothing to speak of, and the dense oracle in float64, whose inverses lose as many, is met to
1e-8. At ill-conditioned theta the oracle is in 60 digits, and the tolerance is 100 eps times the largest of these
ratios, of the basis vectors before too (in 400 random problems the largest error was 10 eps times it, the median
0.001 eps); a candidate is to be refused where a ratio is beyond the thresholds of `core.selection.state`, and not
where it is a hundred times below them.
"""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.selection.candidates import AllRows, CandidateCache, KernelColumns
from core.selection.gains import CRITERIA, CacheCriterion, left_out_moments
from core.selection.state import LEAST_SHARE, LEAST_UNEXPLAINED
from core.spec import Approximation, Method
from tests.core.problems import Problem, oracle_params, problem
from tests.core.selections import BY_ROW, CACHED, column, gains_along, grown, small_problems, without_ridge
from tests.dense.loo import leave_one_out
from tests.dense.precise_selection import Exact, exact
from tests.dense.selection import GAINS

EPS = float(np.finfo(float).eps)
METHODS = [*CACHED, *BY_ROW]


def test_every_method_that_chooses_one_row_at_a_time_is_here() -> None:
    assert set(METHODS) == set(CRITERIA) == set(Method) - {Method.RAND, Method.BATCH}
    assert CRITERIA[Method.NLPP] == CRITERIA[Method.SB]
    assert CRITERIA[Method.KAPPA] == CRITERIA[Method.DMAX]


@pytest.mark.parametrize("method", METHODS)
@settings(max_examples=15, deadline=None)
@given(case=small_problems(), joins=st.integers(0, 5))
def test_gain_is_its_definition(method: Method, case: Problem, joins: int) -> None:
    """The gain also of a candidate that was carried along for some steps, and with an empty basis."""
    indices = case.indices.tolist()
    candidates = np.setdiff1d(np.arange(len(case.y)), case.indices)
    params = oracle_params(case.hyperparameters, case.groups)
    with without_ridge():
        ours = gains_along(case, method, indices, candidates, min(joins, len(indices)))
    assert ours is not None
    oracle = [GAINS[method](params, case.X, case.y, indices, i) for i in candidates.tolist()]
    scale = 1.0 + float(case.y @ case.y) / min(params.s2, 1.0)
    np.testing.assert_allclose(ours, oracle, rtol=1e-8, atol=1e-9 * scale)


def tolerance(case: Problem, method: Method, of: Exact) -> float:
    """Effect that rounding may have on a gain (see above), in its own unit."""
    s2, prior, power = case.hyperparameters.noise_variance, case.hyperparameters.prior_variance, float(case.y @ case.y)
    gain = abs(of.gains[method])
    lost = 100 * EPS * of.own_over_schur
    match method:
        case Method.SB | Method.NLPP | Method.KAPPA | Method.DMAX:
            return float(lost * power)
        case Method.NLML | Method.VFE:
            return float((lost + 100 * EPS * of.prior_over_e) * (1.0 + power / s2 + gain))
        case Method.VARIANCE:
            return float(
                100 * EPS * of.prior_over_e * gain + 1000 * EPS * prior
            )  # the basis may be ill-conditioned too
        case Method.INFO:
            ratio = prior / s2  # xi reads 1 - q and s2 / e
            return float((lost + 100 * EPS * (of.prior_over_e + ratio)) * (1.0 + power / s2 + gain))
        case _:
            ratio = prior / s2 if method is Method.NLGPP else 1.0  # variances as small as s2 from p near K_ii
            spread = power / of.left**2 / (s2 if method is Method.NLGPP else 1.0)
            size = prior if method is Method.GPE else 0.0
            return float((lost + 100 * EPS * (of.prior_over_e + ratio)) / of.left * (1.0 + spread + gain + size))


@pytest.mark.parametrize("method", METHODS)
@settings(max_examples=8, deadline=None, derandomize=True)
@given(case=small_problems(ill=True), joins=st.integers(0, 5))
def test_gain_at_ill_conditioned_hyperparameters(method: Method, case: Problem, joins: int) -> None:
    """Gains are as good as their Schur complements allow; refused where they are nothing but rounding."""
    indices = case.indices.tolist()
    candidates = np.setdiff1d(np.arange(len(case.y)), case.indices)[:2]
    params = oracle_params(case.hyperparameters, case.groups)
    with without_ridge():
        ours = gains_along(case, method, indices, candidates, min(joins, len(indices)))
    of = [exact(params, case.X, case.y, indices, i) for i in candidates.tolist()]
    if ours is None:
        worst = max(max(o.own_over_schur, o.prior_over_e) for o in of)
        assert worst > 1e-2 / max(LEAST_SHARE, LEAST_UNEXPLAINED), "a basis was refused that is not hopeless"
        return
    for gain, oracle in zip(ours, of, strict=True):
        if not np.isfinite(gain):
            assert gain == -np.inf
            assert max(oracle.own_over_schur, oracle.prior_over_e) > 1e-2 / max(LEAST_SHARE, LEAST_UNEXPLAINED)
        else:
            assert abs(gain - oracle.gains[method]) <= tolerance(case, method, oracle)


ILL: dict[str, dict[str, Any]] = {
    "hardly any noise": {"noise_variance": 1e-8},
    "long lengthscales": {"lengthscales": [30.0, 30.0, 30.0]},
    "long lengthscales, little noise": {"lengthscales": [10.0, 20.0, 10.0], "noise_variance": 1e-6},
    "only noise": {"noise_variance": 1e6},
    "large bias": {"bias_variance": 1e3},
    "large bias, little noise": {"bias_variance": 1e3, "noise_variance": 1e-6},
    "hardly any signal": {"signal_variance": 1e-5},
}


@pytest.mark.parametrize("name", ILL)
@pytest.mark.parametrize("method", METHODS)
def test_relative_error_at_some_ill_conditioned_hyperparameters(name: str, method: Method) -> None:
    """None is refused, and the gains have four digits at least, or are right to 1e-8 in nats or squared targets."""
    case = problem(1, n=12, d=4).with_hyperparameters(**ILL[name])
    indices = case.indices.tolist()
    candidates = np.setdiff1d(np.arange(12), case.indices)[:2]
    params = oracle_params(case.hyperparameters, case.groups)
    with without_ridge():
        ours = gains_along(case, method, indices, candidates)
    assert ours is not None
    oracle = [exact(params, case.X, case.y, indices, i).gains[method] for i in candidates.tolist()]
    np.testing.assert_allclose(ours, oracle, rtol=1e-4, atol=1e-8)


# Candidates that add nothing


@pytest.mark.parametrize("method", [method for method in METHODS if method not in (Method.KAPPA, Method.DMAX)])
def test_basis_vectors_and_their_copies_are_worth_minus_infinity(method: Method) -> None:
    case = problem(2, n=20, d=3)
    X = case.X.copy()
    copy = int(np.setdiff1d(np.arange(20), case.indices)[0])
    X[copy] = X[case.indices[1]]
    ours = gains_along(case.changed(X=X), method, case.indices.tolist(), np.append(case.indices, copy))
    assert ours is not None
    assert np.isneginf(ours).all()


@pytest.mark.parametrize("method", [Method.NLML, Method.VFE, Method.NLGPP, Method.GPE, Method.INFO, Method.VARIANCE])
def test_candidate_without_variance_of_its_own_is_worth_minus_infinity(method: Method) -> None:
    """A row so near to a basis vector that e is 3e-11 of the prior variance, while S, made of noise, has its digits."""
    case = problem(2, n=20, d=3).with_hyperparameters(noise_variance=1e9, lengthscales=[1.0, 1.0, 1.0])
    X = case.X.copy()
    near = int(np.setdiff1d(np.arange(20), case.indices)[0])
    X[near] = X[case.indices[1]]
    share = case.hyperparameters.signal_variance / case.hyperparameters.prior_variance
    X[near, 0] += np.sqrt(3e-11 / share)
    ours = gains_along(case.changed(X=X), method, case.indices.tolist(), np.array([near]))
    assert ours is not None
    assert ours[0] == -np.inf


@pytest.mark.parametrize("method", [Method.KAPPA, Method.DMAX])
def test_basis_vectors_have_hardly_any_post_backfitting_gain(method: Method) -> None:
    """Their weights are at the least already: the gain needs no threshold."""
    case = problem(2, n=20, d=3)
    ours = gains_along(case, method, case.indices.tolist(), case.indices)
    assert ours is not None
    np.testing.assert_allclose(ours, 0.0, atol=1e-25)


def test_variational_gain_is_not_negative_nor_post_above_pre() -> None:
    for seed in range(5):
        case = problem(seed, n=40, d=6).with_hyperparameters(noise_variance=10.0 ** (seed - 4))
        candidates = np.setdiff1d(np.arange(40), case.indices)
        gains = {m: gains_along(case, m, case.indices.tolist(), candidates) for m in CACHED}
        vfe, sb, post = gains[Method.VFE], gains[Method.SB], gains[Method.KAPPA]
        assert vfe is not None
        assert sb is not None
        assert post is not None
        assert (vfe >= 0).all()
        assert (post <= sb * (1 + 1e-9)).all()


@pytest.mark.parametrize("method", CACHED)
def test_many_candidates_are_scored_like_few(method: Method) -> None:
    """The leave-one-out gains go over runs of candidates."""
    case = problem(3, n=90, d=3)
    candidates = np.setdiff1d(np.arange(90), case.indices)
    whole = gains_along(case, method, case.indices.tolist(), candidates)
    assert whole is not None
    for some in (candidates[31:34], candidates[-1:]):
        part = gains_along(case, method, case.indices.tolist(), some)
        assert part is not None
        np.testing.assert_allclose(part, whole[np.isin(candidates, some)], rtol=1e-11)


@pytest.mark.parametrize("method", CACHED)
def test_criterion_of_columns_scores_only_a_cache(method: Method) -> None:
    case = problem(0, n=10, d=2)
    criterion = CRITERIA[method]
    assert isinstance(criterion, CacheCriterion)
    fit = grown(case, case.indices.tolist())
    cache = CandidateCache.fill(fit, KernelColumns(case.rows, case.hyperparameters), criterion.needs, np.arange(4))
    assert criterion.score(fit, cache).shape == (4,)
    everyone = AllRows(fit=fit, columns=KernelColumns(case.rows, case.hyperparameters), indices=np.arange(4))
    with pytest.raises(TypeError, match="cache"):
        criterion.score(fit, everyone)


def test_left_out_moments_are_those_of_deletion() -> None:
    case = problem(4, n=25, d=5)
    fit = grown(case, case.indices.tolist())
    hyperparameters = case.hyperparameters
    error, variance = left_out_moments(
        fit.residuals, fit.q, fit.p, hyperparameters.prior_variance, hyperparameters.noise_variance
    )
    mean, expected = leave_one_out(case.sparse(Approximation.DTC))
    np.testing.assert_allclose(error, case.y - mean, atol=1e-10)
    np.testing.assert_allclose(variance, expected, rtol=1e-10)


def test_left_out_moments_where_a_row_is_all_its_own() -> None:
    """q = 1 and p > K_ii by rounding: large, but finite and positive."""
    error, variance = left_out_moments(np.array([0.1, -0.2]), np.array([1.0, 1.0 + 1e-15]), np.full(2, 1.1), 1.0, 0.01)
    assert np.isfinite(error).all()
    assert np.sign(error).tolist() == [1.0, -1.0]
    assert (variance > 0.01).all()
    assert np.isfinite(variance).all()


def test_everyone_makes_the_column_of_one_row() -> None:
    case = problem(0, n=10, d=2)
    everyone = AllRows(
        fit=grown(case, [3]), columns=KernelColumns(case.rows, case.hyperparameters), indices=np.array([7, 2, 5])
    )
    np.testing.assert_allclose(everyone.column(1), column(case, 2), rtol=1e-12)
    everyone.drop(np.array([0, 2]))
    assert everyone.indices.tolist() == [2]
