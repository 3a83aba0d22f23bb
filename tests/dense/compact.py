"""Compact posteriors the slow way: B^-1 by an explicit inverse, the smallest rank by trying one after the other.

With W the unit eigenvectors of Lambda^-1/2 Q Lambda^-1/2 (n, n) and lam their eigenvalues, at the training rows
(u_k'l_i)^2 = Lambda_i lam_k W_ik^2, whatever square root of Kuu l belongs to.
"""

import numpy as np

from tests.dense.kernel import FloatArray, Sparse, kernel
from tests.dense.posterior import likelihood_diagonal, projected


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


def smallest_rank(model: Sparse, tolerance: float, *, latent_scale: float = 1.0, noise_scale: float = 1.0) -> int:
    """The fewest directions with which some c keeps the standard deviation of every training row."""
    noise = likelihood_diagonal(model)
    half = 1.0 / np.sqrt(noise)
    lam, W = np.linalg.eigh(half[:, None] * projected(model, model.X, model.X) * half)
    lam, W = np.maximum(lam[::-1], 0.0)[: len(model.Z)], W[:, ::-1][:, : len(model.Z)]
    order = np.argsort(lam)
    lam, squares = lam[order], noise[:, None] * (lam * np.square(W))[:, order]
    shares = 1.0 / (1.0 + lam)
    outside = 0.0 if model.approximation == "sor" else model.params.v0 + model.params.vb - squares.sum(axis=1)
    observed = latent_scale * (outside + squares @ shares) + noise_scale * model.params.s2
    for rank in range(len(lam)):
        lost = latent_scale * squares[:, rank:] @ shares[rank:]
        room = latent_scale * squares[:, rank:].sum(axis=1)
        least = np.max((lost - observed * (1 - (1 - tolerance) ** 2)) / room)
        most = np.min((lost + observed * ((1 + tolerance) ** 2 - 1)) / room)
        if max(least, 0.0) <= min(most, shares[rank]):
            return rank
    return len(lam)
