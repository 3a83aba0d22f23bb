"""Kernels of the squared distance R as sums of Gaussians: k(R) / v0 = sum_q c_q exp(-s_q R).

A Gaussian kernel is a product over columns, a Matern one is not; but it is a mixture of Gaussian ones. With
nu = 1/2, 3/2, 5/2 (Rasmussen & Williams 2006, eq. 4.14, and the integral of K_nu in DLMF 10.32.10),

    k(R) / v0 = integral_0^oo u^(nu - 1) e^-u / Gamma(nu) exp(-s R) du,     s = nu / u:     u is Gamma(nu, 1)

The trapezoidal rule in log u has an error that falls as exp(-pi^2 / h) with its step h, since the integrand is
analytic in a strip of half-width pi / 2 (Trefethen & Weideman 2014; Beylkin & Monzon 2010). What lies below the
smallest u is given to it, so that the weights add up to one: k(0) is exact.
"""

from collections.abc import Mapping

import numpy as np
from scipy.special import gamma

from core.arrays import FloatArray
from core.hyperparameters import KernelFamily

STEP = 0.35
"""Step of log u: exp(-pi^2 / STEP) is 6e-13."""
LARGEST_U = 40.0
MISSING_MASS = 1e-9
"""Probability of u below the smallest node, where that is not below SMALLEST_U."""
SMALLEST_U = 1e-12
"""Its s tells apart squared distances of 1e-12, below which the kernel takes rows for equal."""

_NU: Mapping[KernelFamily, float] = {
    KernelFamily.MATERN52: 2.5,
    KernelFamily.MATERN32: 1.5,
    KernelFamily.MATERN12: 0.5,
}


def exponential_sum(family: KernelFamily) -> tuple[FloatArray, FloatArray]:
    """Return the rates s and the weights c of a kernel over v0, (Q,) each.

    Q is 1 for the Gaussian kernel, which it is to the last bit, and some dozens for the others, which are met to 1e-9
    (matern12: to 1e-6 below R = 1e-10).
    """
    if family is KernelFamily.GAUSSIAN:
        return np.ones(1), np.ones(1)
    nu = _NU[family]
    smallest = max((MISSING_MASS * gamma(nu + 1.0)) ** (1.0 / nu), SMALLEST_U)
    log_u = np.arange(np.log(smallest), np.log(LARGEST_U), STEP)
    u = np.exp(log_u)
    weights = STEP * u**nu * np.exp(-u) / gamma(nu)
    weights[0] += 1.0 - weights.sum()
    return nu / u, weights
