"""Sparse posteriors as conditioning of one joint Gaussian (Quinonero-Candela & Rasmussen 2005, sec. 4 to 6).

With Q(a, b) = K(a, Z) K(Z, Z)^-1 K(Z, b), the targets and a latent test value are jointly normal with

    cov(y) = Q(X, X) + Lambda,  cov(f*, y) = Q(x*, X),  var(f*) = Q(x*, x*) for SoR, K(x*, x*) for all others,

and Lambda = s2 for SoR, DTC, VFE; s2 + diag(K - Q) for FITC; s2 + a diag(K - Q) for power EP of power a.
"""

import numpy as np

from tests.dense.kernel import FloatArray, Params, Sparse, kernel


def projected(model: Sparse, A: FloatArray, B: FloatArray) -> FloatArray:
    """Q(A, B)."""
    params, Z = model.params, model.Z
    Kuu = kernel(params, Z, Z) + model.jitter * (params.v0 + params.vb) * np.eye(len(Z))
    return np.asarray(kernel(params, A, Z) @ np.linalg.inv(Kuu) @ kernel(params, Z, B))


def residual_diagonal(model: Sparse) -> FloatArray:
    """e = diag(Kff - Qff), (n,)."""
    params, X = model.params, model.X
    return np.asarray(np.diag(kernel(params, X, X) - projected(model, X, X)))


def likelihood_diagonal(model: Sparse) -> FloatArray:
    """Lambda, (n,)."""
    share = {"sor": 0.0, "dtc": 0.0, "vfe": 0.0, "fitc": 1.0, "pep": model.power}[model.approximation]
    return model.params.s2 + share * residual_diagonal(model) if share else np.full(len(model.X), model.params.s2)


def target_covariance(model: Sparse) -> FloatArray:
    """Q(X, X) + Lambda, (n, n)."""
    return projected(model, model.X, model.X) + np.diag(likelihood_diagonal(model))


def predict(model: Sparse, Xs: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Mean and latent variance at Xs, each (m,). A new observation adds s2 to the variance."""
    params = model.params
    inverse = np.linalg.inv(target_covariance(model))
    Qsf = projected(model, Xs, model.X)
    prior = projected(model, Xs, Xs) if model.approximation == "sor" else kernel(params, Xs, Xs)
    return np.asarray(Qsf @ inverse @ model.y), np.asarray(np.diag(prior - Qsf @ inverse @ Qsf.T))


def exact_predict(params: Params, X: FloatArray, y: FloatArray, Xs: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The full Gaussian process: mean and latent variance at Xs, each (m,)."""
    inverse = np.linalg.inv(kernel(params, X, X) + params.s2 * np.eye(len(X)))
    Ksf = kernel(params, Xs, X)
    return np.asarray(Ksf @ inverse @ y), np.asarray(np.diag(kernel(params, Xs, Xs) - Ksf @ inverse @ Ksf.T))


def covariance(model: Sparse, Xs: FloatArray) -> FloatArray:
    """Covariance of the latent function among Xs, (m, m)."""
    inverse = np.linalg.inv(target_covariance(model))
    Qsf = projected(model, Xs, model.X)
    prior = projected(model, Xs, Xs) if model.approximation == "sor" else kernel(model.params, Xs, Xs)
    return np.asarray(prior - Qsf @ inverse @ Qsf.T)
