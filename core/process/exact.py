"""The full GP on a few rows: where adaptation starts from.

    phi = -log N(y; 0, C),  dphi/dK = (C^-1 - C^-1 y y'C^-1) / 2,  C = K + s2 I, or K + s2 diag(ratio / weights)

Of several targets that share theta phi is the mean, for one factorisation.

Fitting theta on a random subset is the start that Keerthi & Chu 2005 (sec. 5) and Seeger et al. 2003 use. O(n^3).
"""

import numpy as np

from core.arrays import FloatArray
from core.errors import NumericalError
from core.hyperparameters import Hyperparameters
from core.numeric.linalg import cholesky, inverse_from_cholesky, solve_vector
from core.process.kernel import DistanceSums, Kernel
from core.process.rows import Rows
from core.process.theta import Theta


def exact_nlml_and_gradient(
    rows: Rows, hyperparameters: Hyperparameters, ratio: FloatArray | None = None
) -> tuple[float, FloatArray]:
    """Return the objective and its gradient in theta of the full GP. O(n^3 / 2) multiply-adds, three (n, n) arrays.

    Args:
        rows: training rows, (n, p) and (n,), standardized.
        hyperparameters: in standardized units.
        ratio: noise of each row of weight one over s2, (n,), where it varies.

    Returns:
        phi in nats for all n rows, and dphi/dtheta (g + 3,) in the layout of `core.process.theta`.

    Raises:
        NotPositiveDefiniteError: C is not, to double precision.
        NumericalError: a result is not a finite number.
    """
    n, s2, kernel = len(rows), hyperparameters.noise_variance, Kernel.of(hyperparameters, rows.groups)
    if rows.weighted:
        ratio = (1.0 if ratio is None else ratio) / rows.weights
    K0 = kernel.stationary_gram(rows.X)
    C = np.asfortranarray(kernel.add_bias(K0))
    C[np.diag_indices(n)] += s2 if ratio is None else s2 * ratio
    L = cholesky(C, "K + s2 I")
    fit, betas = 0.0, []
    for y in rows.every_target().T:
        betas.append(solve_vector(L, solve_vector(L, y), transposed=True))
        fit += y @ betas[-1]
    value = 0.5 * (fit / len(betas) + n * np.log(2.0 * np.pi)) + np.log(np.diag(L)).sum()
    dC = inverse_from_cholesky(L, rows.workers)
    if len(betas) == 1:
        dC -= np.outer(betas[0], betas[0])
    else:
        dC -= np.transpose(betas) @ (np.array(betas) / len(betas))
    dC *= 0.5
    P = dC * kernel.slope_gram(K0, rows.X)
    by_weights = np.zeros(len(hyperparameters.lengthscales))
    np.add.at(by_weights, rows.groups, -kernel.weights * DistanceSums.of(P, rows.X).moments(rows.X))
    gradient = Theta.assemble(
        weights=by_weights,
        signal=float((dC * K0).sum()),
        bias=kernel.bias_variance * float(dC.sum()),
        noise=s2 * float(np.trace(dC) if ratio is None else np.diag(dC) @ ratio),
    )
    if not (np.isfinite(value) and np.isfinite(gradient).all()):
        raise NumericalError("the objective or its gradient is not a finite number")
    return float(value), gradient
