"""The full GP on a few rows: where adaptation starts from.

    phi = -log N(y; 0, K + s2 I),  dphi/dK = (C^-1 - C^-1 y y'C^-1) / 2,  C = K + s2 I

Fitting theta on a random subset is the start that Keerthi & Chu 2005 (sec. 5) and Seeger et al. 2003 use. O(n^3).
"""

import numpy as np

from core.errors import NumericalError
from core.factors import Rows
from core.hyperparameters import FloatArray, Hyperparameters
from core.kernel import DistanceSums, gram
from core.linalg import cholesky, inverse_from_cholesky, solve_vector


def exact_nlml_and_gradient(rows: Rows, hyperparameters: Hyperparameters) -> tuple[float, FloatArray]:
    """phi in nats and dphi/dtheta, theta = (log w_1..w_g, log v0, log vb, log s2), of the full GP on all `rows`.

    O(n^3 / 2) multiply-adds, three (n, n) arrays. Raises NotPositiveDefiniteError or NumericalError.
    """
    vb, s2 = hyperparameters.bias_variance, hyperparameters.noise_variance
    n, groups = len(rows), rows.groups
    K0 = gram(rows.X, hyperparameters, groups)
    C = np.asfortranarray(K0 + vb)
    C[np.diag_indices(n)] += s2
    L = cholesky(C, "K + s2 I")
    beta = solve_vector(L, solve_vector(L, rows.y), transposed=True)
    value = 0.5 * (rows.y @ beta + n * np.log(2.0 * np.pi)) + np.log(np.diag(L)).sum()
    dC = inverse_from_cholesky(L)
    dC -= np.outer(beta, beta)
    dC *= 0.5
    P = dC * K0
    gradient = np.zeros(len(hyperparameters.lengthscales) + 3)
    np.add.at(gradient, groups, -hyperparameters.weights[groups] * DistanceSums.of(P, rows.X).moments(rows.X))
    gradient[-3] = P.sum()
    gradient[-2] = vb * dC.sum()
    gradient[-1] = s2 * np.trace(dC)
    if not (np.isfinite(value) and np.isfinite(gradient).all()):
        raise NumericalError("the objective or its gradient is not a finite number")
    return float(value), gradient
