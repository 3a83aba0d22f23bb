"""Rows of weights w, by their noise s2 / w_i in one joint normal density; leave-one-out by n deletions.

cov(y) = Q(X, X) + Lambda, Lambda_i = s2 / w_i + a diag(K - Q)_i, and for the exact process K(X, X) + diag(s2 / w).
"""

from typing import NamedTuple

import numpy as np

from tests.dense.kernel import FloatArray, Params, Sparse, kernel
from tests.dense.objective import minus_log_normal
from tests.dense.posterior import projected, residual_diagonal

_SHARES = {"sor": 0.0, "dtc": 0.0, "vfe": 0.0, "fitc": 1.0}


def covariance(model: Sparse, weights: FloatArray) -> FloatArray:
    """Covariance of the targets, (n, n)."""
    share = _SHARES.get(model.approximation, model.power)
    diagonal = model.params.s2 / weights + share * residual_diagonal(model)
    return projected(model, model.X, model.X) + np.diag(diagonal)


def objective(model: Sparse, weights: FloatArray) -> float:
    """The objective, to be minimised."""
    value, e, noise = minus_log_normal(model.y, covariance(model, weights)), residual_diagonal(model), model.params.s2
    if model.approximation == "vfe":
        value += sum(float(weights[i] * e[i] / (2 * noise)) for i in range(len(e)))
    if model.approximation == "pep":
        a = model.power
        terms = [float(np.log(1 + a * e[i] * weights[i] / noise)) for i in range(len(e))]
        value += (1 - a) / (2 * a) * sum(terms)
    return value


def exact_objective(params: Params, X: FloatArray, y: FloatArray, weights: FloatArray) -> float:
    """-log marginal likelihood of the full Gaussian process."""
    return minus_log_normal(y, kernel(params, X, X) + np.diag(params.s2 / weights))


def predict(model: Sparse, weights: FloatArray, Xs: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Mean and latent variance at Xs, each (m,)."""
    inverse = np.linalg.inv(covariance(model, weights))
    Qsf = projected(model, Xs, model.X)
    prior = projected(model, Xs, Xs) if model.approximation == "sor" else kernel(model.params, Xs, Xs)
    return np.asarray(Qsf @ inverse @ model.y), np.asarray(np.diag(prior - Qsf @ inverse @ Qsf.T))


def leave_one_out(model: Sparse, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Mean and variance, with the noise of the row itself, of each target given all the others, each (n,)."""
    n = len(model.X)
    mean, variance = np.empty(n), np.empty(n)
    for i in range(n):
        rest = np.arange(n) != i
        some = model._replace(X=model.X[rest], y=model.y[rest])
        m, v = predict(some, weights[rest], model.X[i : i + 1])
        mean[i], variance[i] = m[0], v[0] + model.params.s2 / weights[i]
    return mean, variance


def pi(params: Params, X: FloatArray, y: FloatArray, weights: FloatArray, indices: list[int], a: FloatArray) -> float:
    """s2 times the negative log posterior at coefficients a of the basis, up to a constant."""
    Z = X[indices]
    fit = kernel(params, X, Z) @ a
    return float(0.5 * params.s2 * a @ kernel(params, Z, Z) @ a + weights @ (0.5 * fit**2 - y * fit))


def minimiser(params: Params, X: FloatArray, y: FloatArray, weights: FloatArray, indices: list[int]) -> FloatArray:
    """The coefficients that minimise pi."""
    Z = X[indices]
    Kfu = kernel(params, X, Z)
    A = params.s2 * kernel(params, Z, Z) + Kfu.T @ np.diag(weights) @ Kfu
    return np.asarray(np.linalg.inv(A) @ (Kfu.T @ (weights * y)))


class Case(NamedTuple):
    """A theta, rows with weights and a basis that a candidate may join."""

    params: Params
    X: FloatArray
    y: FloatArray
    weights: FloatArray
    indices: list[int]


def gain(method: str, case: Case, candidate: int) -> float:
    """What a method of selection says of a candidate: by objectives and measures before and after it joins."""
    params, X, y, w, indices = case
    more = [*indices, candidate]
    before, after = (minimiser(params, X, y, w, basis) if basis else np.zeros(0) for basis in (indices, more))
    match method:
        case "sb" | "nlpp":
            return pi(params, X, y, w, indices, before) - pi(params, X, y, w, more, after)
        case "kappa" | "dmax":
            left, middle, right = (pi(params, X, y, w, more, np.append(before, step)) for step in (-1.0, 0.0, 1.0))
            return float(((right - left) / 2) ** 2 / (2 * (right - 2 * middle + left)))
        case "nlml" | "vfe":
            name = "dtc" if method == "nlml" else "vfe"
            old, new = (objective(Sparse(name, params, X, y, X[basis]), w) for basis in (indices, more))
            return old - new
        case "variance":
            k = kernel(params, X[indices], X[[candidate]])
            inner = k.T @ np.linalg.inv(kernel(params, X[indices], X[indices])) @ k
            return float((kernel(params, X[[candidate]], X[[candidate]]) - inner)[0, 0])
        case "info":
            return _information(case, candidate)
        case _:
            mean, variance = leave_one_out(Sparse("dtc", params, X, y, X[more]), w)
            squares = (y - mean) ** 2
            measures = {
                "loo-cve": w * squares,
                "nlgpp": squares / variance + np.log(variance),
                "gpe": w * (squares + variance),
            }
            return -float(np.mean(measures[method]))


def _information(case: Case, candidate: int) -> float:
    """KL(Qnew || Q) of Seeger et al. 2003, sec. 2.2, between two normal posteriors of (u, f_i), each target seen
    through its own noise, as `tests.dense.selection.information_gain` has it."""
    params, X, y, w, indices = case
    joint = X[[*indices, candidate]]
    Kuu, Kuf = kernel(params, X[indices], X[indices]), kernel(params, X[indices], X)
    prior, precisions = np.linalg.inv(kernel(params, joint, joint)), np.diag(w / params.s2)
    sites = np.zeros((len(X), len(joint)))
    sites[:, :-1] = Kuf.T @ np.linalg.inv(Kuu)
    own = sites.copy()
    own[candidate] = np.append(np.zeros(len(indices)), 1.0)
    P, Pnew = (prior + design.T @ precisions @ design for design in (sites, own))
    old = np.linalg.inv(P) @ sites.T @ precisions @ y
    new = np.linalg.inv(Pnew) @ own.T @ precisions @ y
    trace = np.trace(P @ np.linalg.inv(Pnew)) - len(joint)
    logs = np.linalg.slogdet(Pnew)[1] - np.linalg.slogdet(P)[1]
    return float(0.5 * (trace + (new - old) @ P @ (new - old) + logs))
