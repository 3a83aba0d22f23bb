"""A full process made ready: mean and variance of a row from the same kernel values with all M training rows.

    m(x) = k(x, X) alpha,    variance from the nearest rows (`core.mean.near`)

Inputs are taken ROW_UNIT at a time, padded, as in `core.predict.mean`: a row's numbers are the same alone and in a
table. In float32 kernel values, which are most of the work, are computed in single precision from distances and summed
in double, for models of which `core.predict.float32` has found that it changes nothing that matters.
"""

import numpy as np

from core.arrays import FloatArray, IntArray
from core.mean.near import NEAREST, NearRows, largest
from core.numeric.linalg import ROW_UNIT, LowerSolver, cholesky
from core.numeric.workspace import Workspace
from core.predict.covariance import LatentCovariance
from core.predict.inputs import checked_inputs, padded_inputs
from core.predict.predictor import Moments
from core.process.families import FAMILIES, LEAST_EXPONENT, LEAST_EXPONENT_FLOAT32
from core.process.kernel import Kernel
from core.sparse.posterior import SparsePosterior
from core.spec import Precision

MOST_CONDITIONED = 1_500
"""Training rows that a joint posterior is given."""
CONDITIONED_BLOCK = 256
"""Inputs whose nearest rows are looked for at a time."""


class FullPredictor:
    """Training rows and weights made ready: M (2 p + 6) numbers, safe to share between threads."""

    def __init__(
        self,
        posterior: SparsePosterior,
        noise: FloatArray,
        workspace: Workspace | None = None,
        precision: Precision = Precision.FLOAT64,
    ) -> None:
        """Prepare.

        Args:
            posterior: its basis are all training rows (M, p); it has no variance.
            noise: D, the noise variance of each of them, standardized, (M,).
            workspace: where ROW_UNIT rows of kernel values lie, for each thread that predicts.
            precision: of the kernel values that the mean sums.
        """
        self._workspace, self._single = workspace or Workspace(), precision is Precision.FLOAT32
        self._standardization = posterior.standardization
        self._kernel = Kernel.of(posterior.hyperparameters, posterior.groups.astype(np.int64))
        self._near = NearRows(self._kernel, self._standardization.inputs(posterior.basis), noise, nearest=NEAREST)
        self._alpha = posterior.alpha
        self._bias = posterior.bias_variance * float(posterior.alpha.sum())
        scale = posterior.target_scale**2
        self.noise_variance = posterior.noise_variance * scale
        self.far_variance = posterior.far_variance * scale
        self.mean_only, self.reduced = False, False

    @property
    def columns(self) -> int:
        """p, the number of input columns."""
        return len(self._kernel.weights)

    @property
    def basis_size(self) -> int:
        """M, the number of training rows."""
        return len(self._alpha)

    @property
    def nbytes(self) -> int:
        """Bytes of its arrays."""
        return self._near.nbytes + self._alpha.nbytes

    def moments(self, inputs: FloatArray) -> Moments:
        """Return mean and variances at inputs (m, p) in raw units. O(M p + NEAREST^3 / 6) for each.

        Raises InvalidDataError for another shape, or a number that is not finite.
        """
        latent = np.empty(len(inputs))
        mean = self._over(inputs, latent)
        latent *= self._standardization.target_scale**2
        return Moments(
            mean=mean,
            latent_variance=latent,
            target_variance=latent + self.noise_variance,
            far_variance=self.far_variance,
        )

    def mean(self, inputs: FloatArray) -> FloatArray:
        """Return the mean of `moments` alone, (m,), to the same bits. O(m M p)."""
        return self._over(inputs, None)

    def covariance(self, inputs: FloatArray) -> LatentCovariance:
        """Return the joint posterior of the function at inputs (m, p) given the training rows that are nearest to them:
        all M up to MOST_CONDITIONED, else as many, those first that are near to most of the inputs.

        O(m M p), and O(MOST_CONDITIONED^3 / 6). Its variances are no larger than those of `moments`, which are given
        NEAREST rows only.
        """
        some = self._nearest_to(checked_inputs(inputs, self.columns))
        basis = self._near.basis[some]
        C = self._kernel.block(basis, self._near.rows[some])
        np.fill_diagonal(C, self._kernel.diagonal + self._near.noise[some])
        lower = LowerSolver(cholesky(C, "K + D of the nearest rows"))

        def features(inputs: FloatArray) -> FloatArray:
            X = padded_inputs(inputs, self._standardization, 1)
            return lower.solve(self._kernel.block(basis, self._kernel.rows(X)))

        return LatentCovariance(self._kernel, self._standardization, features)

    def _nearest_to(self, inputs: FloatArray) -> IntArray:
        """Return which training rows, in their order."""
        size = self.basis_size
        if size <= MOST_CONDITIONED:
            return np.arange(size)
        counts, padded = np.zeros(size, np.int64), padded_inputs(inputs, self._standardization, 1)
        for start in range(0, len(padded), CONDITIONED_BLOCK):
            values = self._kernel.basis(padded[start : start + CONDITIONED_BLOCK]) @ self._near.rows.T
            counts += np.bincount(largest(values, NEAREST).ravel(), minlength=size)
        some = np.argsort(-counts, kind="stable")[:MOST_CONDITIONED]
        return np.sort(some[counts[some] > 0])

    def _over(self, inputs: FloatArray, latent: FloatArray | None) -> FloatArray:
        """Return the mean in raw units; standardized variances go to `latent` where that is given."""
        inputs = checked_inputs(inputs, self.columns)
        padded, mean = padded_inputs(inputs, self._standardization, ROW_UNIT), np.empty(len(inputs))
        with self._workspace.borrow(ROW_UNIT, len(self._alpha)) as block:
            for start in range(0, len(inputs), ROW_UNIT):
                rows = min(ROW_UNIT, len(inputs) - start)
                basis = self._kernel.basis(padded[start : start + ROW_UNIT])
                np.matmul(basis, self._near.rows.T, out=block)
                if latent is not None:
                    latent[start : start + rows] = self._near.conditional(basis[:rows], block[:rows])
                self._evaluate(block[:rows])
                for row in range(rows):
                    mean[start + row] = block[row] @ self._alpha
        mean += self._bias
        return np.asarray(mean * self._standardization.target_scale + self._standardization.target_shift)

    def _evaluate(self, block: FloatArray) -> None:
        """Turn c - R into kernel values, in place."""
        value, v0 = FAMILIES[self._kernel.family].value, self._kernel.signal_variance
        if not self._single:
            value(block, v0, LEAST_EXPONENT)
            return
        with self._workspace.borrow(-(-block.size // 2)) as room:
            single = room.view(np.float32)[: block.size].reshape(block.shape)
            single[...] = block
            value(single, v0, LEAST_EXPONENT_FLOAT32)
            block[...] = single
