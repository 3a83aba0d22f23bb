"""A preconditioner for K + D from a sparse basis, for the whole and for every fold of the rows.

    P = V'V + D,  V = L^-1 K(Z, X),  L L' = K(Z, Z)
    P^-1 r = D^-1 (r - V' B^-1 V D^-1 r),  B = I + V D^-1 V'                              (Woodbury)

A column without a fold of the rows has B without their part, B - V_f D_f^-1 V_f', and lives on the other rows. Folds
take O(n d^2) together and a factorisation each. (The use of a low-rank approximation as preconditioner of a kernel
matrix: Cutajar et al. 2016; Gardner et al. 2018.)
"""

from collections.abc import Sequence

import numpy as np

from core.arrays import BoolArray, FloatArray, IntArray
from core.mean.products import RUNS, VectorSum
from core.numeric.linalg import ROW_UNIT, LowerSolver, cholesky, jittered_cholesky, solve_vector
from core.numeric.shards import tree_total
from core.numeric.threads import split_evenly
from core.process.kernel import Kernel

BLOCK_ROWS = 512
RANK = 15.0
"""Rows that a basis takes for each square root of n: 1,500 of 10,000. With fewer of them iterations are many, with more
its own factors cost as much as they save."""


def random_basis(X: FloatArray, random: np.random.Generator) -> FloatArray:
    """Return basis vectors for a preconditioner: random rows of X (n, p), about RANK sqrt(n) of them, (d, p).

    As good as vectors chosen by any gain at this theta, or for a sparse model, which take longer to choose than they
    save in iterations.
    """
    count = min(len(X), int(RANK * np.sqrt(len(X))))
    return np.asarray(X[np.sort(random.permutation(len(X))[:count])])


class SparsePreconditioner:
    """P of every column, ready to be solved: V (d, n), and d^2 numbers for each column."""

    def __init__(
        self, kernel: Kernel, X: FloatArray, Z: FloatArray, D: FloatArray, kept: BoolArray, workers: int = 1
    ) -> None:
        """Factorise. O(n d^2 + r d^3 / 3).

        Args:
            kernel: bias included.
            X: standardized rows (n, p).
            Z: standardized basis vectors (d, p).
            D: noise variances (n,).
            kept: which rows each column has, (n, r).
            workers: threads.

        Raises:
            NotPositiveDefiniteError: hyperparameters beyond double precision.
        """
        self._D, self._kept, self._workers = D, kept, workers
        L, _ = jittered_cholesky(kernel.gram(Z), "Kuu")
        lower, rows, basis = LowerSolver(L), kernel.rows(X), kernel.basis(Z)
        blocks = [slice(begin, min(begin + BLOCK_ROWS, len(X))) for begin in range(0, len(X), BLOCK_ROWS)]
        self._runs: list[Sequence[slice]] = split_evenly(blocks, RUNS)
        self._V = np.empty((len(X), len(Z)))  # transposed: a run of rows is one piece of memory

        def fill(run: Sequence[slice]) -> VectorSum:
            for place in run:
                self._V[place] = lower.solve(_padded(kernel, basis, rows[place]))[:, : place.stop - place.start].T
            return VectorSum(np.zeros(0))

        tree_total(fill, self._runs, workers)
        self._factors = [cholesky(B, "B = I + V D^-1 V'") for B in self._information()]

    @property
    def columns(self) -> int:
        """r, the number of columns."""
        return int(self._kept.shape[1])

    def solve(self, residuals: FloatArray) -> FloatArray:
        """Return P^-1 R, (n, r), each column on its own rows. O(n d r)."""
        weighted = np.ascontiguousarray(np.where(self._kept, residuals / self._D[:, None], 0.0).T)  # (r, n)

        def project(run: Sequence[slice]) -> VectorSum:
            total = np.zeros((len(weighted), self._V.shape[1]))
            for place in run:
                total += weighted[:, place] @ self._V[place]
            return VectorSum(total)

        inner = tree_total(project, self._runs, self._workers).values
        for column, factor in enumerate(self._factors):
            inner[column] = solve_vector(factor, solve_vector(factor, inner[column]), transposed=True)
        solved = np.empty_like(weighted)

        def expand(run: Sequence[slice]) -> VectorSum:
            for place in run:
                solved[:, place] = weighted[:, place] - inner @ self._V[place].T / self._D[place]
            return VectorSum(np.zeros(0))

        tree_total(expand, self._runs, self._workers)
        return np.where(self._kept, solved.T, 0.0)

    def _information(self) -> list[FloatArray]:
        """B of every column: that of all rows, less the part of those that the column has not."""
        everything = np.eye(self._V.shape[1]) + self._gram(np.arange(len(self._D)))
        return [
            everything if column.all() else everything - self._gram(np.flatnonzero(~column)) for column in self._kept.T
        ]

    def _gram(self, places: IntArray) -> FloatArray:
        blocks = [places[begin : begin + BLOCK_ROWS] for begin in range(0, len(places), BLOCK_ROWS)]

        def part(run: Sequence[IntArray]) -> VectorSum:
            total = np.zeros((self._V.shape[1],) * 2)
            for block in run:
                scaled = self._V[block] / np.sqrt(self._D[block, None])
                total += scaled.T @ scaled
            return VectorSum(total)

        return tree_total(part, split_evenly(blocks, RUNS), self._workers).values


def _padded(kernel: Kernel, basis: FloatArray, rows: FloatArray) -> FloatArray:
    """Kernel values (d, m) with m padded to a multiple of ROW_UNIT."""
    count = -(-len(rows) // ROW_UNIT) * ROW_UNIT
    if count > len(rows):
        rows = np.asfortranarray(np.vstack((rows, np.repeat(rows[-1:], count - len(rows), axis=0))))
    return kernel.block(basis, rows)
