"""Compact posteriors the slow way: B^-1 by an explicit inverse, the smallest rank by trying one after the other.

With W the unit eigenvectors of Lambda^-1/2 Q Lambda^-1/2 (n, n) and lam their eigenvalues, at the training rows
(u_k'l_i)^2 = Lambda_i lam_k W_ik^2, whatever square root of Kuu l belongs to.
"""

import numpy as np

from tests.dense.kernel import FloatArray, Sparse, kernel
from tests.dense.posterior import likelihood_diagonal, predict, projected


def latent_variance(model: Sparse, directions: FloatArray, rest: float, Xs: FloatArray) -> FloatArray:
    """kss - l'l + l'(c I + S S')l at Xs (m,), without kss - l'l for SoR; l = L^-1 k, L the Cholesky factor of Kuu."""
    params, Z = model.params, model.Z
    prior = params.v0 + params.vb
    Kuu = kernel(params, Z, Z) + model.jitter * prior * np.eye(len(Z))
    inner = rest * np.eye(len(Z)) + directions @ directions.T
    if model.approximation != "sor":
        inner -= np.eye(len(Z))
    root = np.linalg.inv(np.linalg.cholesky(Kuu))
    Ksu = kernel(params, Xs, Z)
    base = 0.0 if model.approximation == "sor" else prior
    return np.asarray(base + np.diag(Ksu @ root.T @ inner @ root @ Ksu.T))


def far_variance(model: Sparse) -> float:
    """The latent variance where of the kernel only the bias is left; infinite for SoR."""
    if model.approximation == "sor":
        return float("inf")
    return float(predict(model, np.full((1, model.Z.shape[1]), 1e9))[1][0])


def stretched(latent: FloatArray, far_variance: float, scale: float) -> FloatArray:
    """The odds of latent / far_variance times the scale; what is past the far_variance stays."""
    if np.isinf(far_variance):
        return scale * latent
    odds = scale * latent / np.maximum(far_variance - latent, 1e-300)
    return np.asarray(np.where(latent >= far_variance, latent, far_variance * odds / (1.0 + odds)))


def smallest_rank(
    model: Sparse, tolerance: float, *, latent_scale: float = 1.0, noise: FloatArray | None = None
) -> int:
    """The fewest directions with which some c keeps the standard deviation of every training row.

    noise: variance of each row as it is observed (n,), the constant one by default. c is found by halving: where it is
    too small some row falls too far, where it is too large some row rises too far.
    """
    noise = np.full(len(model.X), model.params.s2) if noise is None else noise
    diagonal = likelihood_diagonal(model)
    half = 1.0 / np.sqrt(diagonal)
    lam, W = np.linalg.eigh(half[:, None] * projected(model, model.X, model.X) * half)
    lam, W = np.maximum(lam[::-1], 0.0)[: len(model.Z)], W[:, ::-1][:, : len(model.Z)]
    order = np.argsort(lam)
    lam, squares = lam[order], diagonal[:, None] * (lam * np.square(W))[:, order]
    shares = 1.0 / (1.0 + lam)
    outside = 0.0 if model.approximation == "sor" else model.params.v0 + model.params.vb - squares.sum(axis=1)
    latent, far = outside + squares @ shares, far_variance(model)
    observed = stretched(latent, far, latent_scale) + noise

    def change(rank: int, rest: float) -> FloatArray:
        served = latent - squares[:, rank:] @ (shares[rank:] - rest)
        return np.asarray(np.sqrt((stretched(np.maximum(served, 0.0), far, latent_scale) + noise) / observed) - 1.0)

    for rank in range(len(lam)):
        low, high = 0.0, float(shares[rank])
        for _ in range(60):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if change(rank, middle).min() < -tolerance else (low, middle)
        if change(rank, high).min() >= -tolerance and change(rank, low).max() <= tolerance:
            return rank
    return len(lam)
