"""The mean that rests on all n rows, with what it predicts for rows that are left out.

    m(x) = k(x, X) alpha,   (K + D) alpha = y,   D = s2 exp g(x_i)

by conjugate gradients (`core.mean.conjugate`), preconditioned by a sparse basis (`core.mean.precondition`). The whole
fit and those without a fold of the rows are columns of one system, so that all of them cost one pass of kernel values
an iteration: n^2 (1 + folds) multiply-adds where K is stored. A Cholesky factor (`core.mean.closed`) takes O(n^3).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from core.arrays import BoolArray, FloatArray
from core.mean.conjugate import Listener, Solved, Stopping, solve
from core.mean.folds import Folds
from core.mean.precondition import SparsePreconditioner
from core.mean.products import STORED_BYTES, SquareProduct, square_cuts, storage_for
from core.numeric.partitions import dividing
from core.numeric.shards import Compute
from core.process.kernel import Kernel
from core.process.rows import Rows


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Mean:
    """A mean k(x, centres) alpha, and what is known of its errors, in standardized units.

    alpha (M,): weights of the centres. left_out (n,): each row predicted without its fold; where it is in none, by the
    whole fit. jointly_left_out: predictions of `Folds.jointly_left` by the joint column, where there is one. unknowns
    (M, columns): of the whole fit and of each fold, from which the iterations can go on.
    iterations: how many it took, 0 in closed form. settled: whether the predictions had stopped changing.
    """

    alpha: FloatArray
    left_out: FloatArray
    unknowns: FloatArray
    iterations: int
    settled: bool
    jointly_left_out: FloatArray = field(default_factory=lambda: np.empty(0))


@dataclass(frozen=True, slots=True, eq=False)
class _Full:
    """(K + D) on the rows of each column."""

    product: SquareProduct
    preconditioner: SparsePreconditioner
    D: FloatArray
    """(n, 1), or (n, r) where it differs from column to column"""
    kept: BoolArray

    def apply(self, vectors: FloatArray) -> tuple[FloatArray, FloatArray]:
        predictions = self.product.times(vectors)
        return np.where(self.kept, predictions + self.D * vectors, 0.0), predictions

    def precondition(self, residuals: FloatArray) -> FloatArray:
        return self.preconditioner.solve(residuals)

    def missing(self, residuals: FloatArray, energies: FloatArray) -> FloatArray:
        """Return what is missing: with R left the predictions miss K (K + D)^-1 R, no longer than R itself."""
        del energies
        return np.asarray(np.sqrt(np.square(residuals).sum(axis=0) / self.kept.sum(axis=0)))


def full_mean(
    rows: Rows,
    kernel: Kernel,
    D: FloatArray,
    Z: FloatArray | SparsePreconditioner,
    folds: Folds,
    *,
    stopping: Stopping | None = None,
    limit: int = STORED_BYTES,
    listen: Listener = lambda _: None,
    resume: FloatArray | None = None,
    product: SquareProduct | None = None,
) -> Mean:
    """Return the mean of the full Gaussian process and its left-out predictions.

    Args:
        rows: standardized, n of them; `rows.workers` threads, or the processes of `rows.compute` where a pass is long
            enough: none of it changes a bit of the result.
        kernel: of the process, bias included.
        D: noise variance of each row, (n,).
        Z: basis vectors of the preconditioner (d, p); any will do, good ones take fewer iterations. Or a preconditioner
            of the same rows and folds, though with other noise.
        folds: rows to leave out.
        stopping: when to end.
        limit: bytes that the kernel matrix may take in a process; what is above is made again in every iteration.
        listen: hears of each iteration, and may raise to cancel.
        resume: `Mean.unknowns`, or an iteration's, (n, columns), to go on from: after a break, or with another D.
        product: K(X, X) of the same kernel and rows, where it is at hand.

    Returns:
        The mean. O(n^2 (1 + folds)) for each iteration, and O(n d^2) once.

    Raises:
        NotPositiveDefiniteError: hyperparameters beyond double precision.
    """
    kept = folds.kept
    if product is None:
        product = square_product(rows, kernel, D, folds, limit=limit)
    preconditioner = Z if isinstance(Z, SparsePreconditioner) else sparse_preconditioner(rows, kernel, Z, D, folds)
    watched = folds.watched(np.repeat(rows.y[:, None], kept.shape[1], axis=1))
    solved = solve(
        _Full(product, preconditioner, D[:, None], kept),
        np.where(kept, rows.y[:, None], 0.0),
        lambda predictions: watched - folds.watched(predictions),
        stopping or Stopping(),
        listen=listen,
        resume=resume,
    )
    return means_of(solved, 1, folds)[0]


def full_means(
    targets: Sequence[FloatArray],
    D: Sequence[FloatArray],
    preconditioner: SparsePreconditioner,
    folds: Folds,
    *,
    stopping: Stopping,
    product: SquareProduct,
    listen: Listener = lambda _: None,
    resume: Sequence[FloatArray] | None = None,
) -> list[Mean]:
    """Return the means of several targets, each with a noise of its own, in lockstep: one pass of kernel values an
    iteration for all of them.

    Args as `full_mean` has them; targets: y (n,) of each; D: noise of each, (n,); resume: `Mean.unknowns` of each.
    O(n^2 t (1 + folds)) for each iteration of t targets.
    """
    kept = np.tile(folds.kept, len(targets))
    each = folds.columns
    solved = solve(
        _Full(product, preconditioner, np.repeat(np.column_stack(D), each, axis=1), kept),
        np.where(kept, np.repeat(np.column_stack(targets), each, axis=1), 0.0),
        watched_errors(targets, folds),
        stopping,
        listen=listen,
        resume=None if resume is None else np.hstack(resume),
    )
    return means_of(solved, len(targets), folds)


def watched_errors(targets: Sequence[FloatArray], folds: Folds) -> Callable[[FloatArray], FloatArray]:
    """Return the errors that iterations for several targets are stopped by: (targets, m)."""
    each = folds.columns

    def errors(predictions: FloatArray) -> FloatArray:
        found = [
            folds.watched(np.repeat(y[:, None], each, axis=1) - predictions[:, place * each : (place + 1) * each])
            for place, y in enumerate(targets)
        ]
        return np.array(found)

    return errors


def means_of(solved: Solved, count: int, folds: Folds) -> list[Mean]:
    """Return the mean of each of `count` targets, whose columns follow each other."""
    found = []
    for unknowns, predictions in zip(
        np.split(solved.unknowns, count, axis=1), np.split(solved.predictions, count, axis=1), strict=True
    ):
        found.append(
            Mean(
                alpha=unknowns[:, 0].copy(),
                left_out=folds.left_out(predictions),
                unknowns=unknowns,
                iterations=solved.iterations,
                settled=solved.settled,
                jointly_left_out=predictions[folds.jointly_left, -1],
            )
        )
    return found


def square_product(
    rows: Rows, kernel: Kernel, D: FloatArray, folds: Folds, targets: int = 1, *, limit: int = STORED_BYTES
) -> SquareProduct:
    """Return K(X, X) for vectors of so many targets with these folds, stored where it fits `limit` bytes, in numbers
    that are accurate enough beside the noise D."""
    cuts = square_cuts(len(rows))
    numbers = sum((end - begin) * end for begin, end in pairwise(cuts))
    storage = storage_for(numbers, len(rows), kernel, float(D.min()), limit)
    compute = compute_for(rows, len(rows), folds, targets)
    return SquareProduct(kernel, rows.X, storage, rows.workers, limit=limit, compute=compute)


def sparse_preconditioner(
    rows: Rows,
    kernel: Kernel,
    Z: FloatArray,
    D: FloatArray,
    folds: Folds,
    targets: int = 1,
    *,
    tell: Callable[[float], None] = lambda _: None,
) -> SparsePreconditioner:
    """Return the preconditioner of basis vectors Z (d, p) and noise D (n,) for vectors of so many targets. tell: hears
    the share that is done."""
    compute = compute_for(rows, len(rows), folds, targets)
    return SparsePreconditioner(kernel, rows.X, Z, D, folds, rows.workers, compute, tell)


def compute_for(rows: Rows, size: int, folds: Folds, targets: int = 1) -> Compute | None:
    """Return the processes beside this one that solve for a mean on `size` centres: those of the rows where one pass of
    kernel values is long enough."""
    return dividing(rows.compute, float(len(rows)) * size * targets * folds.columns)
