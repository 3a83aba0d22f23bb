"""Predictive mean and variance for new rows.

    mean = k'alpha,   latent variance = base -+ |R k|^2 (see `core.sparse.posterior`),   target variance = latent + s2

A block of rows costs one product for the kernel, one triangular product for the variance. Rows are padded to a
multiple of a unit, so that a row's numbers are the same whatever block it sits in: to the last bit where BLAS has
one thread (as the service sets it), to 1e-12 where its own threads split a product by its size.

In float32 the triangular product, which is most of the work, is done in single precision, for models of which
`core.predict.float32` has found that it changes nothing that matters. The mean stays what it is: alpha is large and
changes sign, and a mean in single precision is some hundred times as far off as a variance.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.linalg import blas

from core.arrays import FloatArray
from core.errors import MeanOnlyError
from core.numeric.linalg import ROW_UNIT
from core.numeric.triangle import Triangle
from core.numeric.workspace import Workspace
from core.predict.covariance import LatentCovariance
from core.predict.inputs import checked_inputs, padded_inputs
from core.process.families import LEAST_EXPONENT, LEAST_EXPONENT_FLOAT32
from core.process.kernel import Kernel
from core.sparse.posterior import SparsePosterior
from core.spec import Precision

PREDICTED_ROWS = 512


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Moments:
    """Moments of the posterior at m rows, in the target's unit: mean (m,), latent_variance (m,) of the function,
    target_variance (m,) of a new observation; far_variance: the latent variance far from all data, infinite where there
    is no such prior (SoR)."""

    mean: FloatArray
    latent_variance: FloatArray
    target_variance: FloatArray
    far_variance: float


class Predictor:
    """A posterior made ready: 0.6 d^2 numbers and no other copy of them, no state that prediction changes, safe to
    share between threads.

    workspace: where blocks of kernel values lie, O(d PREDICTED_ROWS) for each thread that predicts; predictors may
    share one.
    """

    def __init__(
        self, posterior: SparsePosterior, workspace: Workspace | None = None, precision: Precision = Precision.FLOAT64
    ) -> None:
        self._workspace = workspace or Workspace()
        self._standardization = posterior.standardization
        self._kernel = Kernel.of(posterior.hyperparameters, posterior.groups.astype(np.int64))
        self._basis = self._kernel.basis(self._standardization.inputs(posterior.basis))
        self._alpha = posterior.alpha
        self._R = None if posterior.mean_only else Triangle(posterior.R, np.dtype(precision.value))
        self._least = LEAST_EXPONENT if precision is Precision.FLOAT64 else LEAST_EXPONENT_FLOAT32
        self._variance_base, self._variance_sign = posterior.variance_base, posterior.variance_sign
        self.noise_variance = posterior.noise_variance * posterior.target_scale**2
        self.far_variance = (
            posterior.far_variance * posterior.target_scale**2 if posterior.far_variance > 0.0 else float("inf")
        )

    @property
    def columns(self) -> int:
        """p, the number of input columns."""
        return len(self._kernel.weights)

    @property
    def basis_size(self) -> int:
        """d, the number of basis vectors."""
        return len(self._basis)

    @property
    def mean_only(self) -> bool:
        """True where there is a mean and no error bar."""
        return self._R is None

    @property
    def reduced(self) -> bool:
        """True where the prior has no variance outside the span of the basis (SoR)."""
        return self._variance_sign > 0.0

    @property
    def nbytes(self) -> int:
        """Bytes of its arrays."""
        return self._basis.nbytes + self._alpha.nbytes + (0 if self._R is None else self._R.nbytes)

    def moments(self, inputs: FloatArray) -> Moments:
        """Mean and variances at these inputs. O(m d^2 / 2) multiply-adds.

        Args:
            inputs: (m, p) in raw units, m >= 0.

        Returns:
            Mean and variances (m,) in the unit of the target.

        Raises:
            InvalidDataError: another shape, or a number that is not finite.
            MeanOnlyError: the posterior has no variance.
        """
        if self._R is None:
            raise MeanOnlyError
        inputs = checked_inputs(inputs, self.columns)
        mean, latent = np.empty(len(inputs)), np.empty(len(inputs))
        for place in _blocks(len(inputs)):
            k = self._kernel_block(inputs[place])
            rows = place.stop - place.start
            mean[place] = self._mean(k)[:rows]
            latent[place] = self._latent(self._R, k)[:rows]
            self._workspace.give(k)
        latent *= self._standardization.target_scale**2
        return Moments(
            mean=self._raw(mean),
            latent_variance=latent,
            target_variance=latent + self.noise_variance,
            far_variance=self.far_variance,
        )

    def mean(self, inputs: FloatArray) -> FloatArray:
        """Return the mean of `moments` alone, (m,), to the same bits. O(m d p)."""
        inputs = checked_inputs(inputs, self.columns)
        mean = np.empty(len(inputs))
        for place in _blocks(len(inputs)):
            k = self._kernel_block(inputs[place])
            mean[place] = self._mean(k)[: place.stop - place.start]
            self._workspace.give(k)
        return self._raw(mean)

    def covariance(self, inputs: FloatArray) -> LatentCovariance:
        """Return the joint posterior of the function, of which `moments` has the diagonal; whatever the inputs are.

        Raises MeanOnlyError: the posterior has no variance.
        """
        del inputs
        if self._R is None:
            raise MeanOnlyError
        return LatentCovariance(self._kernel, self._standardization, self._features, full_prior=not self.reduced)

    def _features(self, inputs: FloatArray) -> FloatArray:
        """R k of raw inputs (m, p), (d, m)."""
        assert self._R is not None
        features = np.empty((self.basis_size, len(inputs)))
        for place in _blocks(len(inputs)):
            k = self._kernel_block(inputs[place])
            features[:, place] = self._R.product(k)[:, : place.stop - place.start]
            self._workspace.give(k)
        return features

    def _latent(self, R: Triangle, k: FloatArray) -> FloatArray:
        """Latent variance (m,), standardized, of a block of kernel values (d, m), which is overwritten."""
        latent = R.squared_norms(k, self._workspace)
        latent *= self._variance_sign
        latent += self._variance_base
        return np.asarray(np.maximum(latent, 0.0, out=latent))

    def _kernel_block(self, inputs: FloatArray) -> FloatArray:
        """K(Z, x) with bias, (d, rows), rows padded to a multiple of the unit."""
        padded = padded_inputs(inputs, self._standardization, ROW_UNIT if self._R is None else self._R.unit)
        room = self._workspace.take(self.basis_size, len(padded))
        return self._kernel.block(self._basis, self._kernel.rows(padded), room, self._least)

    def _mean(self, k: FloatArray) -> FloatArray:
        return np.asarray(blas.dgemv(1.0, k.T, self._alpha))

    def _raw(self, mean: FloatArray) -> FloatArray:
        return np.asarray(mean * self._standardization.target_scale + self._standardization.target_shift)


def moments(posterior: SparsePosterior, inputs: FloatArray) -> Moments:
    """Moments of a posterior for a single use; keep a `Predictor` where there will be more."""
    return Predictor(posterior).moments(inputs)


def _blocks(rows: int) -> Iterator[slice]:
    for start in range(0, rows, PREDICTED_ROWS):
        yield slice(start, min(start + PREDICTED_ROWS, rows))
