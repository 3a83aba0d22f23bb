"""The closed forms that `core` is built on, each written out in three lines and held against an oracle.

A failure means that a formula (or an oracle) is wrong, whatever `core` does with it. Names of the papers:
L L' = Kuu, V = L^-1 Kuf, M = s2 I + V V' = LM LM', W = LM^-1 V, p_i = sum_k V_ki^2, q_i = sum_k W_ki^2.
"""

from typing import NamedTuple

import numpy as np
import pytest

from tests.dense.kernel import FloatArray, Params, Sparse, from_log, kernel, log_params
from tests.dense.loo import exact_leave_one_out, leave_one_out
from tests.dense.objective import central_differences, exact_objective, objective
from tests.dense.posterior import exact_predict, predict, projected, residual_diagonal, target_covariance
from tests.dense.precise import predict as precise_predict
from tests.dense.selection import greedy, minimiser, pi, post_backfitting_gain, pre_backfitting_gain

APPROXIMATIONS = ["sor", "dtc", "fitc", "vfe", "pep"]
POWER = 0.4


class Problem(NamedTuple):
    """A small regression, its basis and everything the closed forms share."""

    params: Params
    X: FloatArray
    y: FloatArray
    indices: list[int]

    @property
    def basis(self) -> FloatArray:
        return self.X[self.indices]

    def sparse(self, approximation: str) -> Sparse:
        return Sparse(approximation, self.params, self.X, self.y, self.basis, POWER)


@pytest.fixture(params=[0, 1, 2])
def problem(request: pytest.FixtureRequest) -> Problem:
    rng = np.random.default_rng(request.param)
    X = rng.normal(size=(26, 3))
    y = np.sin(2 * X[:, 0]) + 0.3 * X[:, 1] + 0.2 * rng.normal(size=26)
    w = rng.uniform(0.1, 0.9, size=3)
    params = Params(w, rng.uniform(0.5, 2.0), rng.uniform(0.1, 0.6), rng.uniform(0.03, 0.2))
    return Problem(params, X, y, [4, 11, 0, 20, 7, 16])


class Factors(NamedTuple):
    """Weight-space quantities of DTC, by explicit inverses."""

    Kuu: FloatArray
    Kuf: FloatArray
    L: FloatArray
    V: FloatArray
    M: FloatArray
    LM: FloatArray
    W: FloatArray
    alpha: FloatArray
    r: FloatArray
    mu: FloatArray


def factors(problem: Problem) -> Factors:
    s2 = problem.params.s2
    Kuu = kernel(problem.params, problem.basis, problem.basis)
    Kuf = kernel(problem.params, problem.basis, problem.X)
    L = np.asarray(np.linalg.cholesky(Kuu))
    V = np.linalg.inv(L) @ Kuf
    M = s2 * np.eye(len(Kuu)) + V @ V.T
    LM = np.asarray(np.linalg.cholesky(M))
    alpha = np.linalg.inv(s2 * Kuu + Kuf @ Kuf.T) @ Kuf @ problem.y
    mu = Kuf.T @ alpha
    return Factors(Kuu, Kuf, L, V, M, LM, np.linalg.inv(LM) @ V, alpha, problem.y - mu, mu)


def test_predictive_table(problem: Problem) -> None:
    """The weight-space means and variances of every approximation are conditionals of the joint Gaussian."""
    params, y = problem.params, problem.y
    f = factors(problem)
    Xs = np.random.default_rng(9).normal(size=(7, 3)) * 2
    ks = kernel(params, problem.basis, Xs)
    ls = np.linalg.inv(f.L) @ ks
    kss, s2 = params.v0 + params.vb, params.s2
    left = s2 * np.sum(ls * (np.linalg.inv(f.M) @ ls), axis=0)
    prior = kss - np.sum(ls * ls, axis=0)
    for approximation, variance in (("sor", left), ("dtc", prior + left), ("vfe", prior + left)):
        mean, oracle = predict(problem.sparse(approximation), Xs)
        np.testing.assert_allclose(ks.T @ f.alpha, mean, atol=1e-10)
        np.testing.assert_allclose(variance, oracle, atol=1e-10)
    for approximation, share in (("fitc", 1.0), ("pep", POWER)):
        lam = s2 + share * (kss - np.sum(f.V**2, axis=0))
        alpha = np.linalg.inv(f.Kuu + f.Kuf / lam @ f.Kuf.T) @ (f.Kuf / lam @ y)
        variance = prior + np.sum(ls * (np.linalg.inv(np.eye(len(f.L)) + f.V / lam @ f.V.T) @ ls), axis=0)
        mean, oracle = predict(problem.sparse(approximation), Xs)
        np.testing.assert_allclose(ks.T @ alpha, mean, atol=1e-10)
        np.testing.assert_allclose(variance, oracle, atol=1e-10)


@pytest.mark.parametrize("approximation", APPROXIMATIONS)
def test_precise_prediction_agrees(problem: Problem, approximation: str) -> None:
    Xs = np.random.default_rng(9).normal(size=(3, 3))
    model = problem.sparse(approximation)
    for ours, oracle in zip(precise_predict(model, Xs), predict(model, Xs), strict=True):
        np.testing.assert_allclose(ours, oracle, rtol=1e-9)


def test_all_rows_as_basis_is_the_full_process(problem: Problem) -> None:
    """The oracles' own limit: all equal the full process, SoR its mean only; so do the objectives."""
    params, X, y = problem.params, problem.X, problem.y
    Xs = np.random.default_rng(9).normal(size=(7, 3))
    mean, variance = exact_predict(params, X, y, Xs)
    for approximation in APPROXIMATIONS:
        ours, ours_variance = predict(problem.sparse(approximation)._replace(Z=X), Xs)
        np.testing.assert_allclose(ours, mean, atol=1e-7)
        if approximation != "sor":
            np.testing.assert_allclose(ours_variance, variance, atol=1e-7)
        exact = exact_objective(params, X, y)
        np.testing.assert_allclose(objective(problem.sparse(approximation)._replace(Z=X)), exact, atol=1e-6)


def test_power_ep_ends_in_fitc_and_vfe(problem: Problem) -> None:
    pep = problem.sparse("pep")
    fitc, vfe = objective(problem.sparse("fitc")), objective(problem.sparse("vfe"))
    np.testing.assert_allclose(objective(pep._replace(power=1.0)), fitc, rtol=1e-12)
    np.testing.assert_allclose(objective(pep._replace(power=1e-7)), vfe, rtol=1e-5)


def test_information_bound(problem: Problem) -> None:
    """VFE bounds the marginal likelihood of the full process from below (Titsias 2009)."""
    exact = exact_objective(problem.params, problem.X, problem.y)
    assert objective(problem.sparse("vfe")) > exact


def test_dtc_objective(problem: Problem) -> None:
    """phi = 1/2 [ log|M| + (n - d) log s2 + (y'y - b'b)/s2 + n log 2 pi ], b = LM^-1 V y."""
    f, y, s2 = factors(problem), problem.y, problem.params.s2
    n, d = len(y), len(f.L)
    b = np.linalg.inv(f.LM) @ f.V @ y
    _, logdet = np.linalg.slogdet(f.M)
    phi = 0.5 * (logdet + (n - d) * np.log(s2) + (y @ y - b @ b) / s2 + n * np.log(2 * np.pi))
    dtc, vfe = problem.sparse("dtc"), problem.sparse("vfe")
    np.testing.assert_allclose(phi, objective(dtc), rtol=1e-10)
    trace = np.sum(residual_diagonal(dtc)) / (2 * s2)
    np.testing.assert_allclose(phi + trace, objective(vfe), rtol=1e-10)


def test_dtc_gradient(problem: Problem) -> None:
    """dphi/dKuf = A^-1 Kuf - alpha r'/s2 and dphi/dKuu = 1/2 (s2 A^-1 - Kuu^-1 + alpha alpha')."""
    f, (params, X, y, _), Z = factors(problem), problem, problem.basis
    s2, n, d = params.s2, len(y), len(f.L)
    inverse = np.linalg.inv(s2 * f.Kuu + f.Kuf @ f.Kuf.T)
    dKuf = inverse @ f.Kuf - np.outer(f.alpha, f.r) / s2
    dKuu = 0.5 * (s2 * inverse - np.linalg.inv(f.Kuu) + np.outer(f.alpha, f.alpha))
    gradient = []
    for column in range(X.shape[1]):
        gap = (Z[:, None, column] - X[None, :, column]) ** 2
        gap_uu = (Z[:, None, column] - Z[None, :, column]) ** 2
        gradient.append(
            -params.w[column] * (np.sum(dKuf * (f.Kuf - params.vb) * gap) + np.sum(dKuu * (f.Kuu - params.vb) * gap_uu))
        )
    gradient.append(np.sum(dKuf * (f.Kuf - params.vb)) + np.sum(dKuu * (f.Kuu - params.vb)))
    gradient.append(params.vb * (np.sum(dKuf) + np.sum(dKuu)))
    b = np.linalg.inv(f.LM) @ f.V @ y
    noise = s2 * np.trace(np.linalg.inv(f.M)) + n - d + np.sum((np.linalg.inv(f.LM).T @ b) ** 2)
    gradient.append(0.5 * (noise - (y @ y - b @ b) / s2))
    dtc = problem.sparse("dtc")
    oracle = central_differences(lambda t: objective(dtc._replace(params=from_log(t))), log_params(params))
    np.testing.assert_allclose(gradient, oracle, rtol=1e-6, atol=1e-6)


def test_gains(problem: Problem) -> None:
    """sb, post-backfitting, nlml and vfe gains are exact decreases of pi and of the objectives."""
    params, X, y, indices = problem
    f, s2, Z = factors(problem), params.s2, problem.basis
    kss = params.v0 + params.vb
    K = kernel(params, X, X)
    for i in (1, 9, 25):
        k = K[:, i]
        z = s2 * f.W[:, i] + f.W @ k
        den = s2 * kss + k @ k
        S = den - z @ z
        h = k @ f.r - s2 * f.mu[i]
        e = kss - np.sum(f.V[:, i] ** 2)
        pre = pre_backfitting_gain(params, X, y, indices, i)
        post = post_backfitting_gain(params, X, y, indices, i)
        np.testing.assert_allclose(h**2 / (2 * S), pre, rtol=1e-6)
        np.testing.assert_allclose(h**2 / (2 * den), post, rtol=1e-6)
        nlml = h**2 / (2 * s2 * S) - 0.5 * np.log(S / (s2 * e))
        more = np.vstack([Z, X[i]])
        dtc = objective(problem.sparse("dtc")) - objective(problem.sparse("dtc")._replace(Z=more))
        np.testing.assert_allclose(nlml, dtc, rtol=1e-6, atol=1e-8)
        v = (k - f.V.T @ f.V[:, i]) / np.sqrt(e)
        vfe = objective(problem.sparse("vfe")) - objective(problem.sparse("vfe")._replace(Z=more))
        np.testing.assert_allclose(nlml + v @ v / (2 * s2), vfe, rtol=1e-6, atol=1e-8)


def test_information_gain(problem: Problem) -> None:
    """KL[Qnew, Q] between dense posteriors is the paper's closed form.

    Q sees row i through the projected likelihood N(y_i; E[f_i | u], s2), Qnew through N(y_i; f_i, s2) (Seeger
    et al. 2003, sec. 2.2), so the divergence is that of the joint of u and f_i.
    """
    params, X, y, _ = problem
    f, s2 = factors(problem), params.s2
    kss = params.v0 + params.vb
    i = 9
    joint = np.vstack([problem.basis, X[i : i + 1]])
    prior = kernel(params, joint, joint)
    project = np.linalg.inv(f.Kuu) @ f.Kuf  # (d, n): E[f | u] = project' u
    sites = np.vstack([project, np.zeros(len(y))]).T  # rows of the likelihood's design over (u, f_i)

    def gaussian(design: FloatArray) -> tuple[FloatArray, FloatArray]:
        covariance = np.asarray(np.linalg.inv(np.linalg.inv(prior) + design.T @ design / s2))
        return covariance @ design.T @ y / s2, covariance

    exact = sites.copy()
    exact[i] = np.append(np.zeros(len(f.L)), 1.0)
    m0, C0 = gaussian(sites)
    m1, C1 = gaussian(exact)
    inverse = np.linalg.inv(C0)
    kl = 0.5 * (
        np.trace(inverse @ C1)
        - len(m0)
        + (m1 - m0) @ inverse @ (m1 - m0)
        + np.linalg.slogdet(C0)[1]
        - np.linalg.slogdet(C1)[1]
    )
    e, q = kss - np.sum(f.V[:, i] ** 2), np.sum(f.W[:, i] ** 2)
    ratio = s2 / e
    xi = 1.0 / (ratio + 1.0 - q)
    # Delta_i of eq. 3, with sigma / l_i = sqrt(ratio)
    kappa = xi * (1.0 + 2.0 * ratio)
    paper = -np.log(np.sqrt(ratio)) - 0.5 * (np.log(xi) + xi * (1.0 - kappa) / s2 * (f.mu[i] - y[i]) ** 2 - kappa + 2.0)
    np.testing.assert_allclose(paper, kl, rtol=1e-8)


def test_one_more_basis_vector(problem: Problem) -> None:
    """The rank-one updates of mu, q and p after adding a row."""
    params, X, y, indices = problem
    f, s2 = factors(problem), params.s2
    i = 9
    kss, k = params.v0 + params.vb, kernel(params, X, X[i : i + 1])[:, 0]
    z = s2 * f.W[:, i] + f.W @ k
    S, e = s2 * kss + k @ k - z @ z, kss - np.sum(f.V[:, i] ** 2)
    w = (k - f.W.T @ z) / np.sqrt(S)
    beta = (y @ k - (f.W @ y) @ z) / np.sqrt(S)
    v = (k - f.V.T @ f.V[:, i]) / np.sqrt(e)
    g = factors(Problem(params, X, y, [*indices, i]))
    np.testing.assert_allclose(f.mu + beta * w, g.mu, atol=1e-8)
    np.testing.assert_allclose(np.sum(f.W**2, axis=0) + w**2, np.sum(g.W**2, axis=0), atol=1e-8)
    np.testing.assert_allclose(np.sum(f.V**2, axis=0) + v**2, np.sum(g.V**2, axis=0), atol=1e-8)


def test_batch_pursuit(problem: Problem) -> None:
    """Pivoted Cholesky of the pool's Gram matrix picks what refitting from nothing picks, with its gains."""
    params, X, y, _ = problem
    pool = [2, 3, 5, 8, 9, 10, 13, 17, 18, 19, 21, 22, 24]
    K = kernel(params, X[pool], X)
    T = params.s2 * kernel(params, X[pool], X[pool]) + K @ K.T
    S, h, R = np.diag(T).copy(), K @ y, np.zeros((0, len(pool)))
    picked: list[int] = []
    gains: list[float] = []
    for _ in range(6):
        free = ~np.isin(np.arange(len(pool)), picked)
        score = np.where(free, h**2 / (2 * np.where(free, S, 1.0)), -np.inf)
        j = int(np.argmax(score))
        picked.append(j)
        gains.append(score[j])
        row = (T[j] - R[:, j] @ R) / np.sqrt(S[j])
        h = h - h[j] / np.sqrt(S[j]) * row
        S = S - row**2
        R = np.vstack([R, row])
    chosen, oracle = greedy(params, X, y, pool, 6)
    assert [pool[j] for j in picked] == chosen
    np.testing.assert_allclose(gains, oracle, rtol=1e-5)


def test_leave_one_out(problem: Problem) -> None:
    """One formula for all: with C = cov(y), y_i - f_-i = [C^-1 y]_i / [C^-1]_ii, and for a new target

    var_-i = 1 / [C^-1]_ii + K_ii - Q_ii + s2 - Lambda_i. For DTC this is K_ii - p_i + s2 / (1 - q_i), and the
    residual r_i / (1 - q_i) (Sundararajan et al., appendix). SoR's lacks K - Q.
    """
    params, X, y = problem.params, problem.X, problem.y
    f = factors(problem)
    e, q = residual_diagonal(problem.sparse("dtc")), np.sum(f.W**2, axis=0)
    for approximation in APPROXIMATIONS:
        mean, variance = leave_one_out(problem.sparse(approximation))
        others = problem.sparse(approximation)._replace(X=problem.X[1:], y=problem.y[1:])
        expected = predict(others, problem.X[:1])  # nothing of the row that is gone
        np.testing.assert_allclose((mean[0], variance[0] - problem.params.s2), np.ravel(expected), rtol=1e-8)
        C = target_covariance(problem.sparse(approximation))
        lam = np.diag(C - projected(problem.sparse("dtc"), X, X))
        inverse = np.linalg.inv(C)
        more = 0.0 if approximation == "sor" else e
        np.testing.assert_allclose(y - inverse @ y / np.diag(inverse), mean, atol=1e-9)
        np.testing.assert_allclose(1 / np.diag(inverse) + more + params.s2 - lam, variance, atol=1e-9)
        if approximation == "dtc":
            np.testing.assert_allclose(f.r / (1 - q), y - mean, atol=1e-9)
            np.testing.assert_allclose(e + params.s2 / (1 - q), variance, atol=1e-9)
    mean, variance = exact_leave_one_out(params, X, y)
    inverse = np.linalg.inv(kernel(params, X, X) + params.s2 * np.eye(len(X)))
    np.testing.assert_allclose(y - inverse @ y / np.diag(inverse), mean, atol=1e-9)
    np.testing.assert_allclose(1 / np.diag(inverse), variance, atol=1e-9)


def test_served_factor(problem: Problem) -> None:
    """variance = kss - |R k|^2 with R from F = L^-T U diag(sqrt(lam / (lam + s2))), V V' = U diag(lam) U'."""
    params = problem.params
    f = factors(problem)
    lam, U = np.linalg.eigh(f.V @ f.V.T)
    F = np.linalg.inv(f.L).T @ U * np.sqrt(lam / (lam + params.s2))
    R = np.linalg.qr(F.T)[1]
    Xs = np.random.default_rng(9).normal(size=(7, 3))
    ks = kernel(params, problem.basis, Xs)
    _, variance = predict(problem.sparse("dtc"), Xs)
    np.testing.assert_allclose(params.v0 + params.vb - np.sum((R @ ks) ** 2, axis=0), variance, atol=1e-9)


def test_minimiser_is_the_mean(problem: Problem) -> None:
    """pi is least at alpha = A^-1 Kuf y, the weights of the SoR and DTC mean."""
    alpha = minimiser(problem.params, problem.X, problem.y, problem.indices)
    np.testing.assert_allclose(alpha, factors(problem).alpha, rtol=1e-7)
    least = pi(problem.params, problem.X, problem.y, problem.indices, alpha)
    for move in np.eye(len(alpha)) * 1e-2:
        for side in (-1, 1):
            assert pi(problem.params, problem.X, problem.y, problem.indices, alpha + side * move) > least
