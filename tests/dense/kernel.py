"""The ARD Gaussian kernel, from the difference of each pair of rows."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]


class Params(NamedTuple):
    """Weights w_l = 1 / (2 ell_l^2) for each *column* (p,), v0, vb and s2."""

    w: FloatArray
    v0: float
    vb: float
    s2: float


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
    """(log w_1 .. log w_p, log v0, log vb, log s2)."""
    return np.asarray(np.log(np.concatenate([params.w, [params.v0, params.vb, params.s2]])))


def from_log(theta: FloatArray) -> Params:
    """The inverse of `log_params`."""
    values = np.exp(theta)
    return Params(values[:-3], float(values[-3]), float(values[-2]), float(values[-1]))


def kernel(params: Params, A: FloatArray, B: FloatArray) -> FloatArray:
    """K(A, B), (rows of A, rows of B), from the difference of each pair of rows."""
    differences = A[:, None, :] - B[None, :, :]
    return np.asarray(params.v0 * np.exp(-np.sum(params.w * differences**2, axis=2)) + params.vb)
