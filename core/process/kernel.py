"""Kernels of the squared distance R, with a bias, by blocks of rows.

    K(x, x') = k(R) + vb,    R = sum_l w_l (x_l - x'_l)^2,    k(0) = v0       (gaussian: Keerthi & Chu 2005, sec. 5)

A family is its value k(R) and its slope dk/dR (`core.process.families`): every derivative follows from the slope,

    dk/dw_l = k'(R) (x_l - x'_l)^2,    dk/dx_l = 2 w_l k'(R) (x_l - x'_l)

The R of a whole block are one matrix product: with a row as (x sqrt(w), |x|_w^2, 1) and a basis vector as
(2 z sqrt(w), -1, c - |z|_w^2) the product is c - R. With c = log v0 it is the logarithm of the Gaussian kernel, and
with c = 0 what other families start from. Exponents are clamped, since `exp` is tens of times slower where its result
is subnormal.

Rows run along the leading dimension of the product, and are padded to a multiple of ROW_UNIT: then OpenBLAS uses the
same instructions for a row whatever its block is.
"""

from dataclasses import dataclass

import numpy as np

from core.arrays import FloatArray, IntArray
from core.hyperparameters import Hyperparameters, KernelFamily
from core.numeric.linalg import mirror_lower
from core.process.families import FAMILIES, LEAST_EXPONENT


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Kernel:
    """A kernel with its numbers: weights (p,), w of every input column, v0 and vb. All inputs are standardized.

    `stationary` is k(R) alone; `cross`, `gram`, `block` and `diagonal` have the bias in them.
    """

    family: KernelFamily
    weights: FloatArray
    signal_variance: float
    bias_variance: float

    @classmethod
    def of(cls, hyperparameters: Hyperparameters, groups: IntArray) -> "Kernel":
        """Kernel of these hyperparameters; groups: which lengthscale each input column uses, (p,)."""
        return cls(
            family=hyperparameters.kernel,
            weights=np.asarray(hyperparameters.weights[groups]),
            signal_variance=hyperparameters.signal_variance,
            bias_variance=hyperparameters.bias_variance,
        )

    @property
    def diagonal(self) -> float:
        """K(x, x) = v0 + vb of every x."""
        return self.signal_variance + self.bias_variance

    def cross(self, basis: FloatArray, inputs: FloatArray, out: FloatArray | None = None) -> FloatArray:
        """Return the kernel between two sets of inputs. O(d m p).

        Args:
            basis: (d, p).
            inputs: (m, p).
            out: where to put the result.

        Returns:
            (d, m) in C order, in squared units of the standardized target.
        """
        return self.block(self.basis(basis), self.rows(inputs), out)

    def gram(self, inputs: FloatArray, out: FloatArray | None = None) -> FloatArray:
        """Return the kernel among inputs (d, p): (d, d), symmetric, with exactly v0 + vb on its diagonal. O(d^2 p)."""
        matrix = self.stationary_gram(inputs, out)
        return self.add_bias(matrix, matrix)

    def rows(self, inputs: FloatArray) -> FloatArray:
        """Prepare rows for `block`: (m, p) -> (m, p + 2) in Fortran order, x sqrt(w), |x|_w^2, 1."""
        rows, columns = inputs.shape
        prepared = np.empty((rows, columns + 2), order="F")
        scaled = prepared[:, :columns]
        np.multiply(inputs, np.sqrt(self.weights), out=scaled)
        np.einsum("ml,ml->m", scaled, scaled, out=prepared[:, columns])
        prepared[:, columns + 1] = 1.0
        return prepared

    def basis(self, basis: FloatArray) -> FloatArray:
        """Prepare basis vectors for `block`: (d, p) -> (d, p + 2) in Fortran order, 2 z sqrt(w), -1, c - |z|_w^2."""
        return self._prepared_basis(basis, FAMILIES[self.family].offset(self.signal_variance))

    def block(
        self, basis: FloatArray, rows: FloatArray, out: FloatArray | None = None, least: float = LEAST_EXPONENT
    ) -> FloatArray:
        """Return the kernel, (d, m) in C order, of a prepared basis (d, q) and prepared rows (m, q).

        Args:
            basis: what `Kernel.basis` made.
            rows: what `Kernel.rows` made.
            out: where to put the result.
            least: smallest exponent; those below are taken for it.
        """
        block = self.stationary(basis, rows, out, least)
        return self.add_bias(block, block)

    def stationary(
        self, basis: FloatArray, rows: FloatArray, out: FloatArray | None = None, least: float = LEAST_EXPONENT
    ) -> FloatArray:
        """Return `block` without its bias."""
        block = np.matmul(basis, rows.T, out=np.empty((len(basis), len(rows))) if out is None else out)
        FAMILIES[self.family].value(block, self.signal_variance, least)
        return block

    def stationary_gram(self, inputs: FloatArray, out: FloatArray | None = None) -> FloatArray:
        """Return `gram` without its bias, with exactly v0 on its diagonal."""
        matrix = self.stationary(self.basis(inputs), self.rows(inputs), out)
        mirror_lower(matrix)  # rounding depends on which of two inputs is the row
        np.fill_diagonal(matrix, self.signal_variance)
        return matrix

    def add_bias(self, stationary: FloatArray, out: FloatArray | None = None) -> FloatArray:
        """Return stationary values with the bias added, in `out` where that is given."""
        return np.asarray(np.add(stationary, self.bias_variance, out=out))

    def slope(self, stationary: FloatArray, basis: FloatArray, inputs: FloatArray, out: FloatArray) -> FloatArray:
        """Return -dk/dR, (d, m), for a basis (d, p) and inputs (m, p) whose `stationary` values are known.

        It is `stationary` itself where a family's slope is minus its value, and is written to `out` otherwise.
        """
        slope = FAMILIES[self.family].slope
        if slope is None:
            return stationary
        np.matmul(self._prepared_basis(basis, 0.0), self.rows(inputs).T, out=out)
        slope(out, self.signal_variance, LEAST_EXPONENT)
        return out

    def slope_gram(self, stationary: FloatArray, inputs: FloatArray) -> FloatArray:
        """Return `slope` among inputs (d, p) whose `stationary_gram` is known, (d, d) and symmetric."""
        slope = FAMILIES[self.family].slope
        if slope is None:
            return stationary
        matrix = self._prepared_basis(inputs, 0.0) @ self.rows(inputs).T
        mirror_lower(matrix)
        np.fill_diagonal(matrix, 0.0)
        slope(matrix, self.signal_variance, LEAST_EXPONENT)
        return matrix

    def _prepared_basis(self, basis: FloatArray, offset: float) -> FloatArray:
        size, columns = basis.shape
        prepared = np.empty((size, columns + 2), order="F")
        scaled = basis * np.sqrt(self.weights)
        prepared[:, :columns] = 2.0 * scaled
        prepared[:, columns] = -1.0
        prepared[:, columns + 1] = offset - np.einsum("ml,ml->m", scaled, scaled)
        return prepared


@dataclass(slots=True, eq=False)
class DistanceSums:
    """Sums of P (d, m), a weight for every pair of basis vector and row, from which distances follow.

    inputs: P X, (d, p). rows: P 1, (d,). squares: sum_i (1'P)_i x_il^2, (p,).
    """

    inputs: FloatArray
    rows: FloatArray
    squares: FloatArray

    @classmethod
    def of(cls, weighted: FloatArray, inputs: FloatArray, scale: FloatArray | None = None) -> "DistanceSums":
        """Return the sums of one block P = weighted diag(scale), scale (m,). O(d m p) in one product."""
        rows, columns = inputs.shape
        scaled = np.empty((rows, columns + 1))
        if scale is None:
            scaled[:, :columns], scaled[:, columns] = inputs, 1.0
        else:
            np.multiply(inputs, scale[:, None], out=scaled[:, :columns])
            scaled[:, columns] = scale
        sums, total = weighted @ scaled, weighted.sum(axis=0)
        return cls(  # arrays of their own, as they are once they are sent: parts of one are added up in another order
            inputs=np.ascontiguousarray(sums[:, :columns]),
            rows=sums[:, columns].copy(),
            squares=np.square(inputs).T @ (total if scale is None else total * scale),
        )

    @classmethod
    def zero(cls, size: int, columns: int) -> "DistanceSums":
        """Return the sums of no block, for d = `size` and p = `columns`."""
        return cls(inputs=np.zeros((size, columns)), rows=np.zeros(size), squares=np.zeros(columns))

    def add(self, other: "DistanceSums") -> None:
        """Add the sums of another block."""
        self.inputs += other.inputs
        self.rows += other.rows
        self.squares += other.squares

    def moments(self, basis: FloatArray) -> FloatArray:
        """Return sum_ji P_ji (z_jl - x_il)^2 for every column l, (p,): how an ARD weight moves sum(P)."""
        crossed = np.einsum("jl,jl->l", basis, self.inputs)
        return np.asarray(np.square(basis).T @ self.rows + self.squares - 2.0 * crossed)

    def pulls(self, basis: FloatArray) -> FloatArray:
        """Return sum_i P_ji (x_il - z_jl), (d, p): where the rows draw each basis vector."""
        return self.inputs - self.rows[:, None] * basis
