"""The ARD Gaussian kernel with bias, by blocks of rows.

    K(x, x') = v0 exp(-sum_l w_l (x_l - x'_l)^2) + vb                        (Keerthi & Chu 2005, sec. 5)

The exponent of a whole block is one matrix product: with a row as (x sqrt(w), |x|_w^2, 1) and a basis vector as
(2 z sqrt(w), -1, log v0 - |z|_w^2) the product is log of the kernel without its bias. Exponents are clamped, since
`exp` is tens of times slower where its result is subnormal.

Rows run along the leading dimension of the product, and are padded to a multiple of ROW_UNIT: then OpenBLAS uses the
same instructions for a row whatever its block is.
"""

from dataclasses import dataclass

import numpy as np

from core.arrays import FloatArray, IntArray
from core.hyperparameters import Hyperparameters
from core.numeric.linalg import mirror_lower

LEAST_EXPONENT = -700.0
"""exp(-700) is 1e-304: nothing, and still a normal number."""
LEAST_SINGLE_EXPONENT = -87.0
"""The same in single precision: exp(-87) is 1e-38."""


def augmented_rows(inputs: FloatArray, weights: FloatArray) -> FloatArray:
    """(m, p) -> (m, p + 2) in Fortran order: x sqrt(w), |x|_w^2, 1."""
    rows, columns = inputs.shape
    augmented = np.empty((rows, columns + 2), order="F")
    scaled = augmented[:, :columns]
    np.multiply(inputs, np.sqrt(weights), out=scaled)
    np.einsum("ml,ml->m", scaled, scaled, out=augmented[:, columns])
    augmented[:, columns + 1] = 1.0
    return augmented


def augmented_basis(basis: FloatArray, weights: FloatArray, signal_variance: float) -> FloatArray:
    """(d, p) -> (d, p + 2) in Fortran order: 2 z sqrt(w), -1, log v0 - |z|_w^2."""
    size, columns = basis.shape
    augmented = np.empty((size, columns + 2), order="F")
    scaled = basis * np.sqrt(weights)
    augmented[:, :columns] = 2.0 * scaled
    augmented[:, columns] = -1.0
    augmented[:, columns + 1] = np.log(signal_variance) - np.einsum("ml,ml->m", scaled, scaled)
    return augmented


def gaussian_block(
    basis: FloatArray,
    rows: FloatArray,
    signal_variance: float,
    out: FloatArray | None = None,
    least: float = LEAST_EXPONENT,
) -> FloatArray:
    """v0 exp(-|z - x|_w^2), (d, m) in C order, from an augmented basis (d, q) and augmented rows (m, q). No bias.

    out: where to put it. least: exponents below are taken for it.
    """
    block = np.matmul(basis, rows.T, out=np.empty((len(basis), len(rows))) if out is None else out)
    np.clip(block, least, np.log(signal_variance), out=block)
    return np.exp(block, out=block)


def column_weights(hyperparameters: Hyperparameters, groups: IntArray) -> FloatArray:
    """The ARD weight of every input column, (p,)."""
    return np.asarray(hyperparameters.weights[groups])


def cross(
    basis: FloatArray,
    inputs: FloatArray,
    hyperparameters: Hyperparameters,
    groups: IntArray,
    out: FloatArray | None = None,
) -> FloatArray:
    """Kernel without its bias between (d, p) and (m, p), both standardized: (d, m). O(d m p). out: where to put it."""
    weights = column_weights(hyperparameters, groups)
    v0 = hyperparameters.signal_variance
    return gaussian_block(augmented_basis(basis, weights, v0), augmented_rows(inputs, weights), v0, out)


def gram(
    basis: FloatArray, hyperparameters: Hyperparameters, groups: IntArray, out: FloatArray | None = None
) -> FloatArray:
    """Kernel without its bias among (d, p) inputs: (d, d), symmetric, with exactly v0 on its diagonal."""
    matrix = cross(basis, basis, hyperparameters, groups, out)
    mirror_lower(matrix)  # rounding depends on which of two inputs is the row
    np.fill_diagonal(matrix, hyperparameters.signal_variance)
    return matrix


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
        """The sums of one block P = weighted diag(scale), scale (m,). O(d m p) in one product."""
        rows, columns = inputs.shape
        scale = np.ones(rows) if scale is None else scale
        sums = weighted @ np.column_stack((inputs * scale[:, None], scale))
        return cls(
            inputs=sums[:, :columns],
            rows=sums[:, columns],
            squares=np.square(inputs).T @ (weighted.sum(axis=0) * scale),
        )

    def add(self, other: "DistanceSums") -> None:
        """Another block's."""
        self.inputs += other.inputs
        self.rows += other.rows
        self.squares += other.squares

    def moments(self, basis: FloatArray) -> FloatArray:
        """sum_ji P_ji (z_jl - x_il)^2 for every column l, (p,): how an ARD weight moves sum(P)."""
        crossed = np.einsum("jl,jl->l", basis, self.inputs)
        return np.asarray(np.square(basis).T @ self.rows + self.squares - 2.0 * crossed)

    def pulls(self, basis: FloatArray) -> FloatArray:
        """sum_i P_ji (x_il - z_jl), (d, p): where the rows draw each basis vector."""
        return self.inputs - self.rows[:, None] * basis
