"""Variance from the nearest rows: k** - k_N' (K_NN + D_N)^-1 k_N, N the m rows with the largest kernel values.

(Vecchia 1988; Datta et al. 2016 for its use in prediction.) The kernel values with all rows, O(n p) for each new row,
are those that the mean needs anyway; the m x m systems of a block of rows are factorised together. With the new row
last of (m + 1) the square of the factor's last diagonal entry is the variance, to which no solve is needed.
"""

from collections.abc import Sequence

import numpy as np

from core.arrays import BoolArray, FloatArray, IntArray
from core.numeric.linalg import ROW_UNIT
from core.numeric.threads import map_threads, split_evenly
from core.process.families import FAMILIES, LEAST_EXPONENT
from core.process.kernel import Kernel

NEAREST = 40
"""Rows that a variance comes from: those of the full process are no better once both are calibrated."""
BLOCK_NUMBERS = 1 << 19
"""Numbers in one block of kernel values, 4 MiB."""


class NearRows:
    """Training rows, ready for variances from the nearest of them. O(n p) numbers."""

    def __init__(
        self, kernel: Kernel, X: FloatArray, D: FloatArray, *, nearest: int = NEAREST, workers: int = 1
    ) -> None:
        """Prepare.

        Args:
            kernel: bias included.
            X: standardized rows (n, p).
            D: noise variances (n,).
            nearest: m, rows that a variance comes from; all n where they are fewer.
            workers: threads.
        """
        self._kernel, self._D, self._workers = kernel, D, workers
        self._rows, self._basis = np.ascontiguousarray(kernel.rows(X)), np.ascontiguousarray(kernel.basis(X))
        self._nearest = min(nearest, len(X))

    def latent_variance(self, inputs: FloatArray) -> FloatArray:
        """Return the variance of the function at standardized inputs (b, p), without noise: (b,).

        O(n p + m^3 / 6) multiply-adds for each.
        """
        return self._over(inputs, None, None)

    def left_out_variance(self, inputs: FloatArray, fold: IntArray, folds: IntArray) -> FloatArray:
        """Return `latent_variance` of rows that take no neighbour of their own fold, (b,).

        Args:
            inputs: standardized (b, p).
            fold: the fold of each, (b,); -1 for a row that may have every neighbour.
            folds: the fold of each of the n rows, (n,); each row's own number stands for leave-one-out.
        """
        return self._over(inputs, fold, folds)

    def _over(self, inputs: FloatArray, fold: IntArray | None, folds: IntArray | None) -> FloatArray:
        variance = np.empty(len(inputs))
        step = max(ROW_UNIT, BLOCK_NUMBERS // len(self._rows) // ROW_UNIT * ROW_UNIT)
        places = [slice(begin, min(begin + step, len(inputs))) for begin in range(0, len(inputs), step)]

        def work(run: Sequence[slice]) -> None:
            for place in run:
                rows, basis = self._kernel.rows(inputs[place]), self._kernel.basis(inputs[place])
                values = self._kernel.stationary(basis, self._rows)
                if fold is not None and folds is not None:
                    own = fold[place, None]
                    values[(own == folds) & (own >= 0)] = -np.inf
                near = np.argpartition(values, len(self._rows) - self._nearest, axis=1)[:, -self._nearest :]
                excluded = np.isneginf(np.take_along_axis(values, near, axis=1))
                variance[place] = self._conditional(rows, basis, near, excluded)

        if places:
            map_threads(work, split_evenly(places, self._workers))
        return variance

    def _conditional(self, rows: FloatArray, basis: FloatArray, near: IntArray, excluded: BoolArray) -> FloatArray:
        """Variance of each of b rows given its neighbours `near` (b, m), without those `excluded`: (b,)."""
        joint = np.concatenate((self._basis[near], basis[:, None]), axis=1) @ np.concatenate(
            (self._rows[near], rows[:, None]), axis=1
        ).transpose(0, 2, 1)
        FAMILIES[self._kernel.family].value(joint, self._kernel.signal_variance, LEAST_EXPONENT)
        joint += self._kernel.bias_variance
        m = near.shape[1]
        diagonal = np.arange(m)
        joint[:, diagonal, diagonal] = self._kernel.diagonal + self._D[near]
        joint[:, m, m] = self._kernel.diagonal
        if excluded.any():  # a neighbour of infinite noise
            row, column = np.nonzero(excluded)
            joint[row, column, column] = np.inf
            joint[row, column, :] = np.where(np.arange(m + 1) == column[:, None], 1.0, 0.0)
            joint[row, :, column] = np.where(np.arange(m + 1) == column[:, None], 1.0, 0.0)
        return np.asarray(np.square(np.linalg.cholesky(joint)[:, m, m]))
