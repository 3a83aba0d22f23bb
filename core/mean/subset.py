"""The mean that rests on M of n rows (Rudi et al. 2017, "Falkon").

    minimise over alpha  sum_i (y_i - k(x_i, S) alpha)^2 / D_i + alpha' K_SS alpha

With K_SS = T'T, T upper triangular, and u = T alpha, this is a ridge regression on the features V = T^-T K(S, X):

    (I + V D^-1 V') u = V D^-1 y

solved by conjugate gradients, one pass of n M kernel values an iteration. The preconditioner takes the centres for a
sample of the rows: A = I + (n / M) V_S D_S^-1 V_S' with V_S = T, at O(M^3) (Rudi et al. 2017, eq. 13). Left-out folds
are columns of the same system, in which their rows weigh nothing. It is the mean of DTC with M basis vectors, without
the n M^2 of its factors.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from core.arrays import BoolArray, FloatArray, IntArray
from core.mean.conjugate import Listener, Stopping, solve
from core.mean.folds import Folds
from core.mean.full import Mean, compute_for, means_of, watched_errors
from core.mean.products import STORED_BYTES, FeatureProduct, storage_for
from core.numeric.linalg import LowerSolver, cholesky, jittered_cholesky
from core.process.kernel import Kernel
from core.process.rows import Rows


@dataclass(frozen=True, slots=True, eq=False)
class _Features:
    """I + V D^-1 V' on the rows of each column, unknowns u."""

    product: FeatureProduct
    lower: LowerSolver
    preconditioner: LowerSolver
    weights: FloatArray

    def apply(self, vectors: FloatArray) -> tuple[FloatArray, FloatArray]:
        alpha = self.lower.solve_transposed(vectors.copy())
        predictions, back = self.product.through(alpha)
        return vectors + self.lower.solve(back), predictions

    def precondition(self, residuals: FloatArray) -> FloatArray:
        return self.preconditioner.solve_transposed(self.preconditioner.solve(residuals.copy()))

    def missing(self, residuals: FloatArray, energies: FloatArray) -> FloatArray:
        """Return what is missing: with R left, sum_i (missing_i)^2 / D_i is no more than R' (I + V D^-1 V')^-1 R."""
        del residuals
        return np.asarray(np.sqrt(energies / self.weights.sum(axis=0)))


def subset_mean(
    rows: Rows,
    kernel: Kernel,
    D: FloatArray,
    centres: IntArray,
    folds: Folds,
    *,
    stopping: Stopping | None = None,
    limit: int = STORED_BYTES,
    listen: Listener = lambda _: None,
    resume: FloatArray | None = None,
) -> Mean:
    """Return the mean on some of the rows as centres, and its left-out predictions.

    Args:
        rows: standardized, n of them; `rows.workers` threads, or the processes of `rows.compute` where a pass is long
            enough: none of it changes a bit of the result.
        kernel: of the process, bias included.
        D: noise variance of each row, (n,).
        centres: which rows the mean rests on, (M,), without repetition.
        folds: rows to leave out; those that are centres stay centres, without a target.
        stopping: when to end.
        limit: bytes that K(X, S) may take in a process; what is above is made again in every iteration.
        listen: hears of each iteration, and may raise to cancel.
        resume: `Mean.unknowns` to go on from, (M, 1 + folds).

    Returns:
        The mean, alpha (M,). O(n M (2 + 2 folds)) for each iteration, O(M^3) once; memory 2 M^2 numbers beside `limit`.

    Raises:
        NotPositiveDefiniteError: hyperparameters beyond double precision.
    """
    return subset_means(
        rows, kernel, [rows.y], [D], centres, folds, stopping=stopping, limit=limit, listen=listen, resume=resume
    )[0]


def subset_means(
    rows: Rows,
    kernel: Kernel,
    targets: Sequence[FloatArray],
    D: Sequence[FloatArray],
    centres: IntArray,
    folds: Folds,
    *,
    stopping: Stopping | None = None,
    limit: int = STORED_BYTES,
    listen: Listener = lambda _: None,
    resume: FloatArray | None = None,
) -> list[Mean]:
    """Return the means of several targets, each with a noise of its own, in lockstep: one pass of kernel values an
    iteration for all of them. The preconditioner has the noise of the first.

    Args as `subset_mean` has them; targets: y (n,) of each; D: noise of each, (n,); resume: unknowns of all, side by
    side.
    """
    first, count = D[0], len(targets)
    S, kept = np.ascontiguousarray(rows.X[centres]), folds.kept
    L, _ = jittered_cholesky(kernel.gram(S), "K(S, S)")  # L' = T
    lower = LowerSolver(L)
    scaled = L.T / np.sqrt(first[centres] * (len(centres) / len(rows)))  # V_S D_S^-1/2, with V_S = L^-1 K_SS = L'
    information = scaled @ scaled.T
    information[np.diag_indices_from(information)] += 1.0
    preconditioner = LowerSolver(cholesky(information, "I + (n / M) V_S D_S^-1 V_S'"))
    storage = storage_for(len(rows) * len(centres), len(rows), kernel, min(float(each.min()) for each in D), limit)
    weights = np.hstack([_weights(kept, each) for each in D])
    compute = compute_for(rows, len(centres), folds, count)
    product = FeatureProduct(kernel, rows.X, S, weights, storage, rows.workers, limit=limit, compute=compute)
    right = product.back(np.repeat(np.column_stack(targets), kept.shape[1], axis=1) * weights)
    solved = solve(
        _Features(product, lower, preconditioner, weights),
        lower.solve(right),
        watched_errors(targets, folds),
        stopping or Stopping(),
        listen=listen,
        resume=resume,
    )
    return [
        replace(mean, alpha=lower.solve_transposed(mean.unknowns[:, :1].copy())[:, 0])
        for mean in means_of(solved, count, folds)
    ]


def _weights(kept: BoolArray, D: FloatArray) -> FloatArray:
    """One over the noise of each row in each column, 0 where it is left out, (n, r)."""
    return np.where(kept, 1.0 / D[:, None], 0.0)
