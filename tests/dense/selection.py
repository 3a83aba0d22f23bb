"""What a candidate is worth, by minimising the posterior objective again from nothing.

pi(alpha; I) = 1/2 alpha'(s2 Kuu + Kuf Kfu) alpha - y'Kfu alpha          (Keerthi & Chu 2005, eq. 4)
"""

import numpy as np

from tests.dense.kernel import FloatArray, Params, kernel


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
    """How far least pi falls when `candidate` joins and all weights are found again (Smola & Bartlett)."""
    after = [*indices, candidate]
    before = pi(params, X, y, indices, minimiser(params, X, y, indices)) if indices else 0.0
    return before - pi(params, X, y, after, minimiser(params, X, y, after))


def post_backfitting_gain(params: Params, X: FloatArray, y: FloatArray, indices: list[int], candidate: int) -> float:
    """How far pi falls when `candidate` joins and only its own weight moves (Keerthi & Chu eq. 7 and 8).

    pi is a parabola in that weight: three of its values give the least one.
    """
    old = minimiser(params, X, y, indices) if indices else np.zeros(0)
    left, middle, right = (
        pi(params, X, y, [*indices, candidate], np.append(old, weight)) for weight in (-1.0, 0.0, 1.0)
    )
    slope, curvature = (right - left) / 2, right - 2 * middle + left
    return float(slope**2 / (2 * curvature))


def greedy(params: Params, X: FloatArray, y: FloatArray, pool: list[int], size: int) -> tuple[list[int], list[float]]:
    """Pursuit of `size` rows out of `pool`: each step takes the candidate of largest pre-backfitting gain."""
    chosen: list[int] = []
    gains: list[float] = []
    for _ in range(size):
        rest = [j for j in pool if j not in chosen]
        scores = [pre_backfitting_gain(params, X, y, chosen, j) for j in rest]
        best = int(np.argmax(scores))
        chosen.append(rest[best])
        gains.append(scores[best])
    return chosen, gains
