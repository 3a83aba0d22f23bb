"""Objectives for the hyperparameters as normal densities of all targets at once; gradients by differences.

Each is -log N(y; 0, C), and a term for two of them:

- SoR and DTC: C = Q + s2 I
- VFE: the same C, + tr(K - Q) / (2 s2) (Titsias 2009, eq. 9)
- FITC: C = Q + diag(K - Q) + s2 I (Snelson & Ghahramani 2006)
- power EP of power a: C = Q + a diag(K - Q) + s2 I, + (1 - a)/(2a) sum_i log(1 + a (K - Q)_ii / s2)
  (Bui et al. 2017, eq. 16)
"""

from collections.abc import Callable

import numpy as np

from tests.dense.kernel import FloatArray, Params, Sparse, kernel
from tests.dense.posterior import residual_diagonal, target_covariance


def minus_log_normal(y: FloatArray, covariance: FloatArray) -> float:
    """-log N(y; 0, covariance)."""
    sign, logdet = np.linalg.slogdet(covariance)
    if sign <= 0:
        raise np.linalg.LinAlgError("the covariance is not positive definite")
    return float(0.5 * (logdet + y @ np.linalg.inv(covariance) @ y + len(y) * np.log(2 * np.pi)))


def objective(model: Sparse) -> float:
    """The objective, to be minimised."""
    value = minus_log_normal(model.y, target_covariance(model))
    e, s2, a = residual_diagonal(model), model.params.s2, model.power
    if model.approximation == "vfe":
        value += float(np.sum(e) / (2 * s2))
    if model.approximation == "pep":
        value += float((1 - a) / (2 * a) * np.sum(np.log(1 + a * e / s2)))
    return value


def exact_objective(params: Params, X: FloatArray, y: FloatArray) -> float:
    """-log marginal likelihood of the full Gaussian process."""
    return minus_log_normal(y, kernel(params, X, X) + params.s2 * np.eye(len(X)))


def central_differences(function: Callable[[FloatArray], float], point: FloatArray, step: float = 1e-5) -> FloatArray:
    """The gradient of `function` by 3-point differences, one coordinate at a time."""
    gradient = np.empty_like(point)
    for j in range(len(point)):
        move = np.zeros_like(point)
        move[j] = step
        gradient[j] = (function(point + move) - function(point - move)) / (2 * step)
    return gradient
