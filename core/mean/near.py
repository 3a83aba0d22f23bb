"""Variance from the nearest rows: k** - k_N' (K_NN + D_N)^-1 k_N, N the m rows with the largest kernel values.

(Vecchia 1988; Datta et al. 2016 for its use in prediction.) The kernel values with all rows, O(n p) for each new row,
are those that the mean needs anyway; the m x m systems of a block of rows are factorised together. With the new row
last of (m + 1) the square of the factor's last diagonal entry is the variance, to which no solve is needed.

The m largest of a row of values are found among those that are no smaller than the m-th largest maximum of STRIDES
interleaved parts: at least m values are, and seldom many more.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from core.arrays import BoolArray, FloatArray, IntArray
from core.mean.folds import Folds
from core.mean.products import RUNS
from core.numeric.linalg import ROW_UNIT
from core.numeric.partitions import Concatenation, partitioned
from core.numeric.shards import Compute
from core.numeric.threads import split_evenly
from core.process.families import FAMILIES, LEAST_EXPONENT
from core.process.kernel import Kernel

NEAREST = 32
"""Rows that a variance comes from: those of the full process are no better once both are calibrated."""
BLOCK_NUMBERS = 1 << 19
"""Numbers in one block of kernel values, 4 MiB."""
STRIDES = 1_000
"""Parts whose maxima are looked at first, where there are more values than that."""


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
        self.rows, self.basis = np.ascontiguousarray(kernel.rows(X)), np.ascontiguousarray(kernel.basis(X))
        self._nearest = min(nearest, len(X))

    @property
    def nbytes(self) -> int:
        """Bytes of its arrays."""
        return self.rows.nbytes + self.basis.nbytes + self._D.nbytes

    @property
    def noise(self) -> FloatArray:
        """Noise variances (n,)."""
        return self._D

    def latent_variance(self, inputs: FloatArray) -> FloatArray:
        """Return the variance of the function at standardized inputs (b, p), without noise: (b,).

        O(n p + m^3 / 6) multiply-adds for each.
        """
        return self._over(inputs)

    def left_out_variance(
        self, inputs: FloatArray, folds: Folds, compute: Compute | None = None, places: IntArray | None = None
    ) -> FloatArray:
        """Return `latent_variance` of the n rows themselves, or of some, without neighbours of their own fold, nor of
        later ones where folds go forward, (m,).

        Args:
            inputs: of the rows, standardized (m, p).
            folds: of all n rows, one for each row for leave-one-out; a row in none may have every neighbour.
            compute: other processes that do it instead.
            places: which of the n rows they are, (m,), where they are not all.
        """
        return self._over(inputs, folds, compute, folds.fold if places is None else folds.fold[places])

    def conditional(self, basis: FloatArray, values: FloatArray) -> FloatArray:
        """Return the latent variance of each of b rows, (b,).

        Args:
            basis: `Kernel.basis` of the rows, (b, p + 2).
            values: their kernel values with all n rows, or what rises with them, (b, n); -inf where a row may not be a
                neighbour.
        """
        near = largest(values, self._nearest)
        excluded = np.isneginf(np.take_along_axis(values, near, axis=1))
        return self._conditional(np.asarray(basis), near, excluded)

    def of_block(self, inputs: FloatArray, unknown: BoolArray | None) -> FloatArray:
        """Return the latent variance of a few inputs (b, p) without neighbours that are `unknown` (b, n): (b,)."""
        basis = self._kernel.basis(inputs)
        values = basis @ self.rows.T  # c - R, which rises with the kernel
        if unknown is not None:
            values[unknown] = -np.inf
        return self.conditional(basis, values)

    def _over(
        self,
        inputs: FloatArray,
        folds: Folds | None = None,
        compute: Compute | None = None,
        own: IntArray | None = None,
    ) -> FloatArray:
        """own: fold of each input, (m,)."""
        if not len(inputs):
            return np.empty(0)
        step = max(ROW_UNIT, BLOCK_NUMBERS // len(self.rows) // ROW_UNIT * ROW_UNIT)
        places = [slice(begin, min(begin + step, len(inputs))) for begin in range(0, len(inputs), step)]
        runs = [_Run.of(inputs, run, own) for run in split_evenly(places, RUNS)]
        cost = float(len(inputs)) * len(self.rows)
        return partitioned((self, folds), runs, self._workers, compute, cost).total(_variances).joined()

    def _conditional(self, basis: FloatArray, near: IntArray, excluded: BoolArray) -> FloatArray:
        """Variance of each of b rows given its neighbours `near` (b, m), without those `excluded`: (b,)."""
        count, m = near.shape
        joint = np.empty((count, m + 1, m + 1))
        neighbours = self.basis[near]
        np.matmul(neighbours, self.rows[near].transpose(0, 2, 1), out=joint[:, :m, :m])
        np.matmul(self.rows[near], basis[:, :, None], out=joint[:, m, :m, None])
        joint[:, :m, m] = joint[:, m, :m]
        joint[:, m, m] = FAMILIES[self._kernel.family].offset(self._kernel.signal_variance)
        FAMILIES[self._kernel.family].value(joint, self._kernel.signal_variance, LEAST_EXPONENT)
        joint += self._kernel.bias_variance
        diagonal = np.arange(m)
        joint[:, diagonal, diagonal] = self._kernel.diagonal + self._D[near]
        joint[:, m, m] = self._kernel.diagonal
        if excluded.any():  # a neighbour of infinite noise
            row, column = np.nonzero(excluded)
            joint[row, column, column] = np.inf
            joint[row, column, :] = np.where(np.arange(m + 1) == column[:, None], 1.0, 0.0)
            joint[row, :, column] = np.where(np.arange(m + 1) == column[:, None], 1.0, 0.0)
        return np.asarray(np.square(np.linalg.cholesky(joint)[:, m, m]))


@dataclass(frozen=True, slots=True, eq=False)
class _Run:
    """Blocks of inputs, (b, p) each, and the fold of each input, (b,); no folds where none are left out."""

    blocks: Sequence[FloatArray]
    own: Sequence[IntArray]

    @classmethod
    def of(cls, inputs: FloatArray, places: Sequence[slice], own: IntArray | None) -> "_Run":
        """Return the run of these places."""
        return cls([inputs[place] for place in places], [] if own is None else [own[place] for place in places])


def _variances(common: tuple[NearRows, Folds | None], run: _Run, _: None, __: None) -> Concatenation:
    """Return the variances of a run."""
    near, folds = common
    if folds is None:
        return Concatenation([near.of_block(block, None) for block in run.blocks])
    found = []
    for block, own in zip(run.blocks, run.own, strict=True):
        unknown = own[:, None] <= folds.fold if folds.forward else own[:, None] == folds.fold
        found.append(near.of_block(block, unknown & (own[:, None] >= 0)))
    return Concatenation(found)


def largest(values: FloatArray, count: int) -> IntArray:
    """Return the places of the `count` largest of each row of values (b, n): (b, count), in no order.

    Of equal values any may be taken. O(b n).
    """
    rows, n = values.shape
    if n <= max(STRIDES, 4 * count):
        return np.asarray(np.argpartition(values, n - count, axis=1)[:, n - count :])
    whole = n // STRIDES * STRIDES
    maxima = values[:, :whole].reshape(rows, -1, STRIDES).max(axis=1)
    least = np.partition(maxima, STRIDES - count, axis=1)[:, STRIDES - count]
    flat = np.flatnonzero(values >= least[:, None])
    row = flat // n
    begin = np.searchsorted(row, np.arange(rows + 1))
    widest = int(np.diff(begin).max())
    places = np.zeros((rows, widest), np.int64)
    found = np.full((rows, widest), -np.inf)
    slot = np.arange(len(flat)) - begin[row]
    places[row, slot] = flat - row * n
    found[row, slot] = values.reshape(-1)[flat]
    if widest > count:
        best = np.argpartition(found, widest - count, axis=1)[:, widest - count :]
        places = np.take_along_axis(places, best, axis=1)
    return places
