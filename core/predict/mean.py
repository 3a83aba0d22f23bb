"""A mean that rests on rows of its own: k(x, X_M) alpha, with M far above the number of basis vectors.

Mean and variance of a Gaussian process need not share a basis (Cheng & Boots 2017): a mean costs O(M p) a row, where a
variance costs O(d^2). Here the M centres run along the rows of memory, and inputs are taken ROW_UNIT at a time,
padded: the products have one shape whatever is asked, so that a row's mean has the same bits alone and in a table, and
a single row pays for M kernel values, not for a whole unit of them.
"""

import numpy as np

from core.arrays import FloatArray
from core.numeric.linalg import ROW_UNIT
from core.numeric.workspace import Workspace
from core.predict.inputs import checked_inputs, padded_inputs
from core.process.families import FAMILIES, LEAST_EXPONENT
from core.process.kernel import Kernel
from core.sparse.posterior import SparsePosterior


class MeanPredictor:
    """Centres and weights made ready: M (p + 3) numbers, in double precision always; safe to share between threads."""

    def __init__(self, posterior: SparsePosterior, workspace: Workspace | None = None) -> None:
        """Prepare.

        Args:
            posterior: its basis (M, p) and alpha (M,) are read, never a variance.
            workspace: where ROW_UNIT rows of kernel values lie, for each thread that predicts.
        """
        self._workspace = workspace or Workspace()
        self._standardization = posterior.standardization
        self._kernel = Kernel.of(posterior.hyperparameters, posterior.groups.astype(np.int64))
        self._centres = self._kernel.rows(self._standardization.inputs(posterior.basis))
        self._alpha = posterior.alpha
        self._bias = posterior.bias_variance * float(posterior.alpha.sum())

    @property
    def size(self) -> int:
        """M, the number of centres."""
        return len(self._alpha)

    @property
    def nbytes(self) -> int:
        """Bytes of its arrays."""
        return self._centres.nbytes + self._alpha.nbytes

    def mean(self, inputs: FloatArray) -> FloatArray:
        """Return the mean at inputs (m, p) in raw units, in the target's unit: (m,). O(m M p).

        Raises InvalidDataError for another shape, or a number that is not finite.
        """
        inputs = checked_inputs(inputs, self._centres.shape[1] - 2)
        padded, mean = padded_inputs(inputs, self._standardization, ROW_UNIT), np.empty(len(inputs))
        value = FAMILIES[self._kernel.family].value
        with self._workspace.borrow(ROW_UNIT, len(self._alpha)) as block:
            for start in range(0, len(inputs), ROW_UNIT):
                rows = min(ROW_UNIT, len(inputs) - start)
                np.matmul(self._kernel.basis(padded[start : start + ROW_UNIT]), self._centres.T, out=block)
                value(block[:rows], self._kernel.signal_variance, LEAST_EXPONENT)
                for row in range(rows):
                    mean[start + row] = block[row] @ self._alpha
        mean += self._bias
        return np.asarray(mean * self._standardization.target_scale + self._standardization.target_shift)
