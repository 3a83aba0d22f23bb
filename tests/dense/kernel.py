"""The ARD kernels, from the difference of each pair of rows."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]


class Params(NamedTuple):
    """Weights w_l = 1 / (2 ell_l^2) for each *column* (p,), v0, vb and s2; the kernel's name in KERNELS."""

    w: FloatArray
    v0: float
    vb: float
    s2: float
    family: str = "gaussian"


class Sparse(NamedTuple):
    """One sparse regression: sor, dtc, fitc, vfe or pep, its data, its basis vectors Z (d, p)."""

    approximation: str
    params: Params
    X: FloatArray
    y: FloatArray
    Z: FloatArray
    power: float = 0.5
    jitter: float = 0.0
    """Added to the diagonal of K(Z, Z), as a share of the prior variance."""


def log_params(params: Params) -> FloatArray:
    """Vector (log w_1 .. log w_p, log v0, log vb, log s2)."""
    return np.asarray(np.log(np.concatenate([params.w, [params.v0, params.vb, params.s2]])))


def from_log(theta: FloatArray, family: str = "gaussian") -> Params:
    """The inverse of `log_params`."""
    values = np.exp(theta)
    return Params(values[:-3], float(values[-3]), float(values[-2]), float(values[-1]), family)


KERNELS: dict[str, Callable[[FloatArray], FloatArray]] = {
    "gaussian": lambda R: np.exp(-R),
    "matern52": lambda R: (1.0 + np.sqrt(10.0 * R) + 10.0 * R / 3.0) * np.exp(-np.sqrt(10.0 * R)),
    "matern32": lambda R: (1.0 + np.sqrt(6.0 * R)) * np.exp(-np.sqrt(6.0 * R)),
    "matern12": lambda R: np.exp(-np.sqrt(2.0 * R)),
}
"""value / v0 of each family, from the squared distances R = sum_l w_l (x_l - x'_l)^2."""


def kernel(params: Params, A: FloatArray, B: FloatArray) -> FloatArray:
    """K(A, B), (rows of A, rows of B), from the difference of each pair of rows."""
    differences = A[:, None, :] - B[None, :, :]
    return np.asarray(params.v0 * KERNELS[params.family](np.sum(params.w * differences**2, axis=2)) + params.vb)
