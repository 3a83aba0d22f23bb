"""Factorisations and triangular products, laid out for BLAS.

A block of rows is held as a (d, m) array in C order, which is the (m, d) matrix that Fortran's BLAS wants; so every
solve against a block works in place and from the right:  V = L^-1 K  is  V' = K' L^-T.
"""

import math
import warnings

import numpy as np
from scipy.linalg import blas, lapack

from core.errors import InvalidDataError, NotPositiveDefiniteError, NumericalError
from core.hyperparameters import FloatArray

JITTERS = (1e-8, 1e-7, 1e-6, 1e-5, 1e-4)
"""The ladder, relative to the mean of the diagonal. The first rung is always added: it bounds the condition number."""


def cholesky(matrix: FloatArray, name: str) -> FloatArray:
    """Lower factor L (d, d), Fortran order, of a symmetric positive definite matrix; only its lower half is read.

    O(d^3 / 6) multiply-adds. Raises NotPositiveDefiniteError, or NumericalError where it is not finite.
    """
    factor, failed = lapack.dpotrf(matrix, lower=1, clean=1)
    if failed or not np.isfinite(factor[-1:, -1:]).all():
        if not np.isfinite(matrix).all():
            raise NumericalError(f"{name} ({len(matrix)} x {len(matrix)}) holds a number that is not finite")
        raise NotPositiveDefiniteError(name, len(matrix), 0.0)
    return np.asfortranarray(factor)


def jittered_cholesky(matrix: FloatArray, name: str) -> tuple[FloatArray, float]:
    """Lower factor of `matrix` + jitter I, and the jitter (absolute). `matrix` is not changed.

    Climbs JITTERS with a RuntimeWarning at each step past the first; NotPositiveDefiniteError at the end of the ladder.
    """
    scale = float(np.trace(matrix)) / len(matrix)
    for rung, relative in enumerate(JITTERS):
        jittered = matrix.copy(order="F")
        jittered[np.diag_indices_from(jittered)] += relative * scale
        try:
            factor = cholesky(jittered, name)
        except NotPositiveDefiniteError:
            if rung + 1 < len(JITTERS):
                warnings.warn(
                    f"{name}: jitter raised from {relative:g} to {JITTERS[rung + 1]:g}",
                    RuntimeWarning,
                    stacklevel=2,
                )
            continue
        return factor, relative * scale
    raise NotPositiveDefiniteError(name, len(matrix), JITTERS[-1])


def solve_lower(factor: FloatArray, block: FloatArray, *, transposed: bool = False) -> FloatArray:
    """L^-1 block, or L^-T block, in place for a C-ordered block (d, m). O(d^2 m / 2) multiply-adds."""
    solved = blas.dtrsm(1.0, factor, block.T, side=1, lower=1, trans_a=int(not transposed), overwrite_b=1)
    return np.asarray(solved.T)


def solve_vector(factor: FloatArray, vector: FloatArray, *, transposed: bool = False) -> FloatArray:
    """L^-1 v, or L^-T v, (d,)."""
    return np.asarray(blas.dtrsv(factor, vector, lower=1, trans=int(transposed)))


def inverse_from_cholesky(factor: FloatArray) -> FloatArray:
    """(L L')^-1, both halves, (d, d); for gradients, where the inverse itself is the answer. O(2 d^3 / 3)."""
    inverse, failed = lapack.dpotri(factor, lower=1)
    if failed:
        raise NumericalError(f"a factor ({len(factor)} x {len(factor)}) has a zero on its diagonal")
    return mirror_lower(inverse)


def mirror_lower(matrix: FloatArray) -> FloatArray:
    """The symmetric matrix whose lower half is that of `matrix`."""
    lower = np.tril(matrix)
    return np.asarray(lower + np.tril(matrix, -1).T)


def pack_upper(matrix: FloatArray) -> FloatArray:
    """The upper triangle of a (d, d) matrix by rows, (d (d + 1) / 2,)."""
    return np.asarray(matrix[np.triu_indices(len(matrix))])


def unpack_upper(packed: FloatArray) -> FloatArray:
    """The upper triangular (d, d) matrix of `pack_upper`, zero below; InvalidDataError for another length."""
    size = (math.isqrt(8 * len(packed) + 1) - 1) // 2
    if size * (size + 1) // 2 != len(packed):
        raise InvalidDataError(f"a packed triangle has d (d + 1) / 2 numbers, got {len(packed)}")
    matrix = np.zeros((size, size))
    matrix[np.triu_indices(size)] = packed
    return matrix


def add_gram(total: FloatArray, block: FloatArray) -> FloatArray:
    """total + block block', lower half only, in place where `total` is Fortran-ordered. O(d^2 m / 2)."""
    return np.asarray(blas.dsyrk(1.0, block.T, beta=1.0, c=total, trans=1, lower=1, overwrite_c=1))


def add_product(total: FloatArray, left: FloatArray, right: FloatArray) -> FloatArray:
    """total + left right' of two C-ordered blocks (d, m) and (e, m), in place for a Fortran-ordered total (d, e)."""
    return np.asarray(blas.dgemm(1.0, left.T, right.T, beta=1.0, c=total, trans_a=1, overwrite_c=1))


def multiply(matrix: FloatArray, block: FloatArray) -> FloatArray:
    """matrix block, (d, e) times (e, m), C-ordered like the block."""
    return np.asarray(blas.dgemm(1.0, block.T, matrix, trans_b=1).T)
