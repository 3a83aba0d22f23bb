"""Predictive mean and variance for new rows.

    mean = k'alpha,   latent variance = base -+ |R k|^2 (see `core.posterior`),   target variance = latent + s2

A block of rows costs one product for the kernel, one triangular product for the variance. Rows are padded to a
multiple of ROW_UNIT, so that a row's numbers are the same to the last bit whatever block it sits in.
"""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import blas

from core.errors import InvalidDataError
from core.hyperparameters import FloatArray
from core.kernel import ROW_UNIT, augmented_basis, augmented_rows, column_weights, gaussian_block
from core.posterior import SparsePosterior

BLOCK_ROWS = 512


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Prediction:
    """For m rows, in the target's unit: mean (m,), latent_variance (m,) of the function, target_variance (m,) of a
    new observation. The variances are None where they were not asked for."""

    mean: FloatArray
    latent_variance: FloatArray | None
    target_variance: FloatArray | None


class Predictor:
    """A posterior made ready: O(d^2) memory, no state that prediction changes, safe to share between threads."""

    def __init__(self, posterior: SparsePosterior) -> None:
        self.posterior = posterior
        self._standardization = posterior.standardization
        hyperparameters = posterior.hyperparameters
        self._weights = column_weights(hyperparameters, posterior.groups.astype(np.int64))
        self._basis = augmented_basis(
            self._standardization.inputs(posterior.basis), self._weights, posterior.signal_variance
        )
        self._R = np.asfortranarray(posterior.R)

    @property
    def columns(self) -> int:
        """p, the number of input columns."""
        return int(self.posterior.basis.shape[1])

    def predict(self, inputs: FloatArray, *, variance: bool = True) -> Prediction:
        """Prediction for inputs (m, p) in raw units, m >= 0. O(m d^2 / 2) with the variance, O(m d p) without.

        Raises InvalidDataError for another shape or a number that is not finite.
        """
        inputs = np.asarray(inputs, dtype=np.float64)
        if inputs.ndim != 2 or inputs.shape[1] != self.columns:
            raise InvalidDataError(f"expected inputs of shape (m, {self.columns}), got {inputs.shape}")
        if not np.isfinite(inputs).all():
            row, column = np.argwhere(~np.isfinite(inputs))[0]
            raise InvalidDataError(f"row {row}, input column {column}: not a finite number")
        rows = len(inputs)
        mean = np.empty(rows)
        latent = np.empty(rows) if variance else None
        for start in range(0, rows, BLOCK_ROWS):
            place = slice(start, min(start + BLOCK_ROWS, rows))
            mean[place], block_latent = self._block(inputs[place], variance)
            if latent is not None:
                latent[place] = block_latent
        unit = self.posterior.target_scale
        mean = mean * unit + self.posterior.target_shift
        if latent is None:
            return Prediction(mean=mean, latent_variance=None, target_variance=None)
        return Prediction(
            mean=mean,
            latent_variance=latent * unit**2,
            target_variance=(latent + self.posterior.noise_variance) * unit**2,
        )

    def _block(self, inputs: FloatArray, variance: bool) -> tuple[FloatArray, FloatArray | None]:
        rows = len(inputs)
        padded = np.zeros((-(-rows // ROW_UNIT) * ROW_UNIT, self.columns))
        padded[:rows] = self._standardization.inputs(inputs)
        k = gaussian_block(self._basis, augmented_rows(padded, self._weights), self.posterior.signal_variance)
        k += self.posterior.bias_variance
        mean = np.asarray(blas.dgemv(1.0, k.T, self.posterior.alpha))[:rows]
        if not variance:
            return mean, None
        product = np.asarray(blas.dtrmm(1.0, self._R, k.T, side=1, trans_a=1, overwrite_b=1)).T
        squares = np.einsum("km,km->m", product, product)[:rows]
        latent = self.posterior.variance_base + self.posterior.variance_sign * squares
        return mean, np.maximum(latent, 0.0)


def predict(posterior: SparsePosterior, inputs: FloatArray, *, variance: bool = True) -> Prediction:
    """One prediction from a posterior; keep a `Predictor` where there will be more."""
    return Predictor(posterior).predict(inputs, variance=variance)
