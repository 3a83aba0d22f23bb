"""Worth of a candidate, by its definition and from nothing: everything is computed before and after it joins.

pi(alpha; I) = 1/2 alpha'(s2 Kuu + Kuf Kfu) alpha - y'Kfu alpha          (Keerthi & Chu 2005, eq. 4)

Every gain is larger for a better candidate. `state` and `candidate` are what core carries from step to step.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from tests.dense.kernel import FloatArray, Params, Sparse, kernel
from tests.dense.loo import leave_one_out
from tests.dense.objective import objective

Gain = Callable[[Params, FloatArray, FloatArray, list[int], int], float]
"""Function (params, X, y, basis, candidate) -> gain."""


def pi(params: Params, X: FloatArray, y: FloatArray, indices: list[int], alpha: FloatArray) -> float:
    """pi at alpha, for the basis X[indices]."""
    Z = X[indices]
    fit = kernel(params, X, Z) @ alpha
    return float(0.5 * params.s2 * alpha @ kernel(params, Z, Z) @ alpha + 0.5 * fit @ fit - y @ fit)


def minimiser(params: Params, X: FloatArray, y: FloatArray, indices: list[int]) -> FloatArray:
    """The alpha that minimises pi for the basis X[indices], by the inverse of its Hessian."""
    Z = X[indices]
    Kfu = kernel(params, X, Z)
    return np.asarray(np.linalg.inv(params.s2 * kernel(params, Z, Z) + Kfu.T @ Kfu) @ (Kfu.T @ y))


def pre_backfitting_gain(params: Params, X: FloatArray, y: FloatArray, indices: list[int], candidate: int) -> float:
    """Fall of the least pi when `candidate` joins and all weights are found again (Smola & Bartlett)."""
    after = [*indices, candidate]
    before = pi(params, X, y, indices, minimiser(params, X, y, indices)) if indices else 0.0
    return before - pi(params, X, y, after, minimiser(params, X, y, after))


def post_backfitting_gain(params: Params, X: FloatArray, y: FloatArray, indices: list[int], candidate: int) -> float:
    """Fall of pi when `candidate` joins and only its own weight moves (Keerthi & Chu eq. 7 and 8).

    pi is a parabola in that weight: three of its values give the least one.
    """
    old = minimiser(params, X, y, indices) if indices else np.zeros(0)
    left, middle, right = (
        pi(params, X, y, [*indices, candidate], np.append(old, weight)) for weight in (-1.0, 0.0, 1.0)
    )
    slope, curvature = (right - left) / 2, right - 2 * middle + left
    return float(slope**2 / (2 * curvature))


def _falls(approximation: str) -> Gain:
    """Fall of an objective for the hyperparameters: two normal densities of all targets."""

    def gain(params: Params, X: FloatArray, y: FloatArray, indices: list[int], candidate: int) -> float:
        before, after = (Sparse(approximation, params, X, y, X[basis]) for basis in (indices, [*indices, candidate]))
        return objective(before) - objective(after)

    return gain


nlml_gain: Gain = _falls("dtc")
vfe_gain: Gain = _falls("vfe")


def information_gain(params: Params, X: FloatArray, y: FloatArray, indices: list[int], candidate: int) -> float:
    """KL(Qnew || Q) of Seeger et al. 2003, sec. 2.2, between two normal posteriors of (u, f_i).

    Q sees every target through N(y_j; E[f_j | u], s2); Qnew sees the candidate's own through N(y_i; f_i, s2) (eq. 2).
    """
    joint = X[[*indices, candidate]]
    Kuu, Kuf = kernel(params, X[indices], X[indices]), kernel(params, X[indices], X)
    prior = np.linalg.inv(kernel(params, joint, joint))
    sites = np.zeros((len(X), len(joint)))
    sites[:, :-1] = Kuf.T @ np.linalg.inv(Kuu)
    own = sites.copy()
    own[candidate] = np.append(np.zeros(len(indices)), 1.0)

    def gaussian(design: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Mean and precision."""
        precision = prior + design.T @ design / params.s2
        return np.asarray(np.linalg.inv(precision) @ design.T @ y / params.s2), precision

    (old, P), (new, Pnew) = gaussian(sites), gaussian(own)
    trace = np.trace(P @ np.linalg.inv(Pnew)) - len(joint)
    logs = np.linalg.slogdet(Pnew)[1] - np.linalg.slogdet(P)[1]
    return float(0.5 * (trace + (new - old) @ P @ (new - old) + logs))


def conditional_variance(params: Params, X: FloatArray, _: FloatArray, indices: list[int], candidate: int) -> float:
    """The variance of f_i given f at the basis, before any target."""
    Z, x = X[indices], X[[candidate]]
    k = kernel(params, Z, x)
    return float((kernel(params, x, x) - k.T @ np.linalg.inv(kernel(params, Z, Z)) @ k)[0, 0])


class Measures(NamedTuple):
    """Leave-one-out measures by n deletions, the basis held fixed (Sundararajan et al., eq. 2 to 4)."""

    loo_cve: float
    nlgpp: float
    gpe: float


def measures(params: Params, X: FloatArray, y: FloatArray, indices: list[int], jitter: float = 0.0) -> Measures:
    """Measures of DTC with this basis."""
    mean, variance = leave_one_out(Sparse("dtc", params, X, y, X[indices], jitter=jitter))
    square = (y - mean) ** 2
    return Measures(
        loo_cve=float(np.mean(square)),
        nlgpp=float(np.mean(square / variance + np.log(variance))),
        gpe=float(np.mean(square + variance)),
    )


def loo_cve_gain(params: Params, X: FloatArray, y: FloatArray, indices: list[int], candidate: int) -> float:
    """Minus the measure after inclusion."""
    return -measures(params, X, y, [*indices, candidate]).loo_cve


def nlgpp_gain(params: Params, X: FloatArray, y: FloatArray, indices: list[int], candidate: int) -> float:
    """Minus the measure after inclusion."""
    return -measures(params, X, y, [*indices, candidate]).nlgpp


def gpe_gain(params: Params, X: FloatArray, y: FloatArray, indices: list[int], candidate: int) -> float:
    """Minus the measure after inclusion."""
    return -measures(params, X, y, [*indices, candidate]).gpe


GAINS: dict[str, Gain] = {
    "kappa": post_backfitting_gain,
    "dmax": post_backfitting_gain,
    "post-backfitting": post_backfitting_gain,
    "sb": pre_backfitting_gain,
    "nlpp": pre_backfitting_gain,
    "nlml": nlml_gain,
    "vfe": vfe_gain,
    "info": information_gain,
    "variance": conditional_variance,
    "loo-cve": loo_cve_gain,
    "nlgpp": nlgpp_gain,
    "gpe": gpe_gain,
}
"""Gains by the name of the method, or of the gain of `batch`."""


def greedy(
    params: Params,
    X: FloatArray,
    y: FloatArray,
    pool: list[int],
    size: int,
    gain: Gain = pre_backfitting_gain,
) -> tuple[list[int], list[float]]:
    """Pursuit of `size` rows out of `pool`: each step takes the candidate of largest gain."""
    chosen: list[int] = []
    gains: list[float] = []
    for _ in range(size):
        rest = [j for j in pool if j not in chosen]
        scores = [gain(params, X, y, chosen, j) for j in rest]
        best = int(np.argmax(scores))
        chosen.append(rest[best])
        gains.append(scores[best])
    return chosen, gains


class State(NamedTuple):
    """State of a basis, in the order chosen: W, V (d, n); p, q, mu (n,); b (d,)."""

    W: FloatArray
    V: FloatArray
    p: FloatArray
    q: FloatArray
    mu: FloatArray
    b: FloatArray


def state(params: Params, X: FloatArray, y: FloatArray, indices: list[int]) -> State:
    """State from the Cholesky factors of Kuu and A; p, q and mu by inverses, without them."""
    Kuu, Kuf = kernel(params, X[indices], X[indices]), kernel(params, X[indices], X)
    A = params.s2 * Kuu + Kuf @ Kuf.T
    W = np.linalg.inv(np.linalg.cholesky(A)) @ Kuf
    return State(
        W=np.asarray(W),
        V=np.asarray(np.linalg.inv(np.linalg.cholesky(Kuu)) @ Kuf),
        p=np.asarray(np.sum(Kuf * (np.linalg.inv(Kuu) @ Kuf), axis=0)),
        q=np.asarray(np.sum(Kuf * (np.linalg.inv(A) @ Kuf), axis=0)),
        mu=np.asarray(Kuf.T @ np.linalg.inv(A) @ (Kuf @ y)),
        b=np.asarray(W @ y),
    )


class Candidate(NamedTuple):
    """Numbers that the criteria read of a candidate: S, h, e; toward = k - W'z and across = k - V'V[:, i], (n,)."""

    S: float
    h: float
    e: float
    toward: FloatArray
    across: FloatArray


def candidate_numbers(params: Params, X: FloatArray, y: FloatArray, indices: list[int], candidate: int) -> Candidate:
    """S and e are Schur complements: of A and of Kuu with the candidate; the rows are those of W and V then.

    h is minus the slope of pi in the candidate's weight, where all others minimise it.
    """
    more = [*indices, candidate]
    Kuu, Kuf = kernel(params, X[more], X[more]), kernel(params, X[more], X)
    A = params.s2 * Kuu + Kuf @ Kuf.T
    S, e = (float(1.0 / np.linalg.inv(matrix)[-1, -1]) for matrix in (A, Kuu))
    after = state(params, X, y, more)
    slope = Kuf[-1] @ y - A[-1, :-1] @ minimiser(params, X, y, indices)
    return Candidate(S=S, h=float(slope), e=e, toward=np.sqrt(S) * after.W[-1], across=np.sqrt(e) * after.V[-1])
