"""Factorisations and triangular solves made of matrix products.

Everything that is done to blocks of rows, (d, m) arrays in C order, goes through numpy's matrix product: it lets other
Python threads run meanwhile, which scipy's wrappers of BLAS and LAPACK do not, and a triangular solve cut into
products is quicker than OpenBLAS's own.
"""

import math
import warnings
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from scipy.linalg import blas, lapack

from core.arrays import BoolArray, FloatArray
from core.errors import InvalidDataError, NotPositiveDefiniteError, NumericalError
from core.numeric.threads import LEAST_NUMBERS, map_slices, map_threads

ROW_UNIT = 8
"""Rows of a block come in multiples of it: then OpenBLAS uses the same instructions for a row whatever its block is."""
SOLVED = 64
"""Rows of a triangular solve done by one product: fewer make products too thin, more do work that is not needed."""
PRODUCTS_A_NUMBER = 8
"""Multiply-adds of a matrix product in the time that a number takes to be read, about."""
TILE = 256
"""Rows of a large square matrix that are worked on at a time, to stay in cache."""
STRIP = 512
"""Rows of the lower half of a large matrix that are added up at a time."""
JITTERS = (1e-8, 1e-7, 1e-6, 1e-5, 1e-4)
"""The ladder, relative to the mean of the diagonal. The first rung is always added: it bounds the condition number."""


def cholesky(matrix: FloatArray, name: str) -> FloatArray:
    """Return the lower Cholesky factor of a symmetric matrix. O(d^3 / 6) multiply-adds.

    Args:
        matrix: (d, d), of which only the lower half is read.
        name: what an error calls it.

    Returns:
        L (d, d).

    Raises:
        NotPositiveDefiniteError: it is not positive definite.
        NumericalError: it holds a number that is not finite.
    """
    try:
        factor = np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        factor = np.full((1, 1), np.nan)
    if not np.isfinite(factor[-1:, -1:]).all():
        if not np.isfinite(np.tril(matrix)).all():
            raise NumericalError(f"{name} ({len(matrix)} x {len(matrix)}) holds a number that is not finite")
        raise NotPositiveDefiniteError(name, len(matrix), 0.0)
    return np.asarray(factor)


def jittered_cholesky(matrix: FloatArray, name: str) -> tuple[FloatArray, float]:
    """Return the lower Cholesky factor of `matrix` + jitter I, climbing JITTERS with a RuntimeWarning at each step.

    Args:
        matrix: (d, d), symmetric; it is not changed.
        name: what an error calls it.

    Returns:
        L (d, d) and the jitter that was added, absolute.

    Raises:
        NotPositiveDefiniteError: not even with the last jitter.
    """
    scale = float(np.trace(matrix)) / len(matrix)
    for rung, relative in enumerate(JITTERS):
        jittered = matrix.copy()
        jittered.reshape(-1)[:: len(matrix) + 1] += relative * scale
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


class LowerSolver:
    """A lower factor L (d, d) made ready for solves against many columns.

    The rows are cut into runs of SOLVED. With X the inverse of a run's diagonal block, the run of L^-1 K follows from
    those above it as X K_run - X L_run,above (L^-1 K)_above: one product with the matrix [-X L_run,above, X], which is
    made once. Its residuals are those of substitution times the condition of a diagonal block, at most, which is never
    larger than SOLVED. O(d^2 SOLVED) to make.
    """

    def __init__(self, factor: FloatArray) -> None:
        """Raises NumericalError for a zero on the diagonal."""
        self._size = len(factor)
        self._down: list[tuple[slice, FloatArray]] = []
        self._up: list[tuple[slice, FloatArray]] = []
        for begin in range(0, self._size, SOLVED):
            end = min(begin + SOLVED, self._size)
            run = slice(begin, end)
            inverse, failed = lapack.dtrtri(factor[run, run], lower=1)
            if failed:
                raise NumericalError(f"a factor ({self._size} x {self._size}) has a zero on its diagonal")
            inverse = np.where(_on_and_below(end - begin), inverse, 0.0)
            if end - begin == self._size:  # nothing above or below
                self._down.append((run, inverse))
                self._up.append((run, np.ascontiguousarray(inverse.T)))
                continue
            self._down.append((run, np.hstack((-inverse @ factor[run, :begin], inverse))))
            self._up.append((run, np.hstack((inverse.T, -inverse.T @ factor[end:, run].T))))

    def solve(self, block: FloatArray) -> FloatArray:
        """L^-1 block, in place for a C-ordered block (d, m). O(d^2 m / 2) multiply-adds."""
        work = np.empty((min(SOLVED, self._size), block.shape[1]))
        for run, matrix in self._down:
            block[run] = np.matmul(matrix, block[: run.stop], out=work[: run.stop - run.start])
        return block

    def solve_transposed(self, block: FloatArray, first: int = 0) -> FloatArray:
        """L^-T block, likewise. first: where the rows that are wanted begin, at the start of a run; those above it stay
        as they are."""
        work = np.empty((min(SOLVED, self._size), block.shape[1]))
        for run, matrix in reversed(self._up[first // SOLVED :]):
            block[run] = np.matmul(matrix, block[run.start :], out=work[: run.stop - run.start])
        return block

    def between(self, inner: FloatArray, workers: int = 1) -> FloatArray:
        """L^-T inner L^-1 of a symmetric matrix (d, d), which is overwritten, on so many threads. O(2 d^3 / 3)
        multiply-adds: of the second solve half is enough."""
        cost = self._size**3 // PRODUCTS_A_NUMBER
        map_slices(lambda run: self.solve_transposed(inner[:, run]), self._size, cost, workers)
        whole = np.ascontiguousarray(inner.T)
        _for_each_run(lambda run: self.solve_transposed(whole[:, run], run.start), self._size, workers)
        mirror_lower(whole)
        return whole

    def inverse(self, workers: int = 1) -> FloatArray:
        """L^-1, (d, d), with zeros in its upper half, on so many threads. O(d^3 / 6) multiply-adds."""
        inverse = np.eye(self._size)

        def put(columns: slice) -> None:
            for run, matrix in self._down:
                if run.stop > columns.start:
                    above, width = slice(columns.start, run.stop), slice(columns.start, min(columns.stop, run.stop))
                    inverse[run, width] = matrix[:, columns.start :] @ inverse[above, width]

        _for_each_run(put, self._size, workers)
        return inverse


def solve_lower(factor: FloatArray, block: FloatArray, *, transposed: bool = False) -> FloatArray:
    """L^-1 block, or L^-T block, in place for a C-ordered block (d, m), for a single use. O(d^2 m / 2)
    multiply-adds."""
    solver = LowerSolver(factor)
    return solver.solve_transposed(block) if transposed else solver.solve(block)


def solve_vector(factor: FloatArray, vector: FloatArray, *, transposed: bool = False) -> FloatArray:
    """L^-1 v, or L^-T v, (d,)."""
    return np.asarray(blas.dtrsv(factor.T, vector, lower=0, trans=int(not transposed)))  # no copy in C order


def inverse_from_cholesky(factor: FloatArray, workers: int = 1) -> FloatArray:
    """Return (L L')^-1, both halves, (d, d), on so many threads; for gradients, where the inverse itself is the answer.
    O(d^3 / 3) multiply-adds: zeros of L^-1 are left out, run by run."""
    lower = LowerSolver(factor).inverse(workers)
    inverse = np.empty_like(lower)

    def put(run: slice) -> None:
        np.matmul(lower[run.start :, run].T, lower[run.start :, : run.stop], out=inverse[run, : run.stop])

    _for_each_run(put, len(lower), workers)
    mirror_lower(inverse)
    return inverse


def _for_each_run(work: Callable[[slice], object], size: int, workers: int) -> None:
    """work(run) for every run of SOLVED rows of a (d, d) matrix, on so many threads where d^3 is worth them; every
    thread has runs from the top to the bottom, since their costs differ."""
    runs = [slice(begin, min(begin + SOLVED, size)) for begin in range(0, size, SOLVED)]
    threads = max(1, min(workers, size**3 // (PRODUCTS_A_NUMBER * LEAST_NUMBERS), len(runs)))

    def every(own: list[slice]) -> None:
        for run in own:
            work(run)

    map_threads(every, [runs[place::threads] for place in range(threads)])


def mirror_lower(matrix: FloatArray) -> None:
    """Makes the upper half of a (d, d) matrix that of its lower one, in place."""
    for begin in range(0, len(matrix), TILE):
        rows, end = slice(begin, begin + TILE), begin + TILE
        matrix[rows, end:] = matrix[end:, rows].T
        square = matrix[rows, rows]
        np.copyto(square, square.T, where=_on_and_below(len(square)).T)


@lru_cache(maxsize=SOLVED)
def _on_and_below(size: int) -> BoolArray:
    """Where the lower half of a (d, d) matrix is, d at most TILE; to make it anew costs more than to use it."""
    mask = np.tri(size, dtype=bool)
    mask.flags.writeable = False
    return mask


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


def add_gram(total: FloatArray, block: FloatArray, work: FloatArray) -> None:
    """total += block block', both halves, (d, d), in place; work: as large, overwritten. O(d^2 m / 2)."""
    total += np.matmul(block, block.T, out=work)


def add_gram_lower(total: FloatArray, block: FloatArray, work: FloatArray) -> None:
    """The same for the lower half of a large matrix, by strips of its rows: a plain product up to the diagonal, and a
    product with itself, of which BLAS computes half, on it. work: (STRIP, d) at least, overwritten."""
    for begin in range(0, len(total), STRIP):
        rows, end = slice(begin, begin + STRIP), min(begin + STRIP, len(total))
        if begin > 0:
            total[rows, :begin] += np.matmul(block[rows], block[:begin].T, out=work[: end - begin, :begin])
        add_gram(total[rows, rows], block[rows], work[: end - begin, : end - begin])
