"""The mean of all rows in closed form, with leave-one-out, for a few thousand rows.

    C = K + D,  alpha = C^-1 y,  y_i - m_-i = alpha_i / [C^-1]_ii,  var_-i(y_i) = 1 / [C^-1]_ii

(Rasmussen & Williams 2006, eq. 5.12), the variance with the noise D_i in it. Of several rows left out together, with
S = [C^-1]_ff of their fold, the errors are S^-1 alpha_f and the variances the diagonal of S^-1. Forward, with rows in
the order of their folds, the leading block of C = L L' is that of the rows before, so that

    y_f - m_f = y_f - L_f, z,  var_f = diag(L_ff L_ff'),  z = L^-1 y of the rows before
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from core.arrays import FloatArray, IntArray
from core.hyperparameters import Hyperparameters
from core.mean.folds import Folds
from core.mean.full import Mean
from core.numeric.linalg import cholesky, inverse_from_cholesky, solve_vector
from core.numeric.threads import map_threads, split_evenly
from core.process.kernel import Kernel
from core.process.rows import Rows
from core.row_groups import RowGroups


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ClosedForm:
    """mean: its `left_out` without each row's fold. latent_variance (n,): of each row without its fold, without noise;
    of a row in no fold, that of leave-one-out. inverse (n, n): (K + D)^-1, for the variance at new rows."""

    mean: Mean
    latent_variance: FloatArray
    inverse: FloatArray


def closed_form_mean(rows: Rows, kernel: Kernel, D: FloatArray, folds: Folds | None = None) -> ClosedForm:
    """Return the mean of the full Gaussian process, each row left out in turn. O(n^3 / 2) multiply-adds, 3 n^2 numbers.

    Args:
        rows: standardized, n of them.
        kernel: of the process, bias included.
        D: noise variance of each row, (n,).
        folds: rows that are left out together; each by itself without.

    Raises:
        NotPositiveDefiniteError: hyperparameters beyond double precision.
    """
    C = kernel.gram(rows.X)
    C[np.diag_indices_from(C)] += D
    L = cholesky(C, "K + D")
    alpha = solve_vector(L, solve_vector(L, rows.y), transposed=True)
    inverse = inverse_from_cholesky(L, rows.workers)
    variance = 1.0 / np.diag(inverse)
    error = alpha * variance
    if folds is not None and folds.forward:
        _forward(rows, kernel, D, folds, error, variance)
    elif folds is not None and folds.count < len(rows):
        _without_folds(inverse, alpha, folds, error, variance)
    return ClosedForm(
        mean=Mean(alpha=alpha, left_out=rows.y - error, unknowns=alpha[:, None], iterations=0, settled=True),
        latent_variance=np.maximum(variance - D, 0.0),
        inverse=inverse,
    )


def _without_folds(
    inverse: FloatArray, alpha: FloatArray, folds: Folds, error: FloatArray, variance: FloatArray
) -> None:
    """Errors and variances of rows without their whole fold, written into those of single rows. O(n |f|^2)."""
    order = np.argsort(folds.fold, kind="stable")
    for fold in np.split(order, np.flatnonzero(np.diff(folds.fold[order])) + 1):
        if len(fold) > 1 and folds.fold[fold[0]] >= 0:
            L = cholesky(inverse[np.ix_(fold, fold)], "(K + D)^-1 of a fold")
            covariance = inverse_from_cholesky(L)
            error[fold], variance[fold] = covariance @ alpha[fold], np.diag(covariance)


def _forward(rows: Rows, kernel: Kernel, D: FloatArray, folds: Folds, error: FloatArray, variance: FloatArray) -> None:
    """Errors and variances of rows given the folds before theirs, written where a row is in a fold. O(n^3 / 6)."""
    order = np.argsort(folds.fold, kind="stable")
    C = kernel.gram(rows.X[order])
    C[np.diag_indices_from(C)] += D[order]
    L = cholesky(C, "K + D")
    z, y = solve_vector(L, rows.y[order]), rows.y[order]
    cuts = np.searchsorted(folds.fold[order], np.arange(folds.count + 1))
    for begin, end in pairwise(cuts):
        fold = order[begin:end]
        error[fold] = y[begin:end] - L[begin:end, :begin] @ z[:begin]
        variance[fold] = np.square(np.tril(L[begin:end, begin:end])).sum(axis=1)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BlockErrors:
    """Rows left out of their block: error y - m and latent variance, standardized, one block after the other."""

    error: FloatArray
    latent_variance: FloatArray


def left_out_of_blocks(
    rows: Rows, blocks: Sequence[IntArray], hyperparameters: Hyperparameters, groups: RowGroups | None = None
) -> BlockErrors:
    """Predict each row from the others of its block. O(n |b|^2 / 2) multiply-adds.

    Args:
        rows: standardized, n of them.
        blocks: places of rows.
        hyperparameters: theta, with constant noise.
        groups: rows that are left out together, of which forward ones are not looked at.

    Raises:
        NotPositiveDefiniteError: hyperparameters beyond double precision.
    """
    kernel = Kernel.of(hyperparameters, rows.groups)
    cuts = np.cumsum([0, *map(len, blocks)])
    error, latent = np.empty(cuts[-1]), np.empty(cuts[-1])

    def work(run: Sequence[int]) -> None:
        for number in run:
            block, place = blocks[number], slice(cuts[number], cuts[number + 1])
            some = rows.take(block)
            folds = None
            if groups is not None and not (groups.alone or groups.forward):
                group = groups.take(block).group
                folds = Folds(fold=group, count=int(group.max()) + 1)
            found = closed_form_mean(some, kernel, some.noises(hyperparameters.noise_variance), folds)
            error[place] = some.y - found.mean.left_out
            latent[place] = found.latent_variance

    map_threads(work, split_evenly(range(len(blocks)), rows.workers))
    return BlockErrors(error=error, latent_variance=latent)
