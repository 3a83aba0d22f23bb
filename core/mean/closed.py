"""The mean of all rows in closed form, with leave-one-out, for a few thousand rows.

    C = K + D,  alpha = C^-1 y,  y_i - m_-i = alpha_i / [C^-1]_ii,  var_-i(y_i) = 1 / [C^-1]_ii

(Rasmussen & Williams 2006, eq. 5.12), the variance with the noise D_i in it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from core.arrays import FloatArray, IntArray
from core.hyperparameters import Hyperparameters
from core.mean.full import Mean
from core.numeric.linalg import cholesky, inverse_from_cholesky, solve_vector
from core.numeric.threads import map_threads, split_evenly
from core.process.kernel import Kernel
from core.process.rows import Rows


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ClosedForm:
    """mean: its `left_out` by leave-one-out. latent_variance (n,): of each row given all the others, without noise.
    inverse (n, n): (K + D)^-1, for the variance at new rows."""

    mean: Mean
    latent_variance: FloatArray
    inverse: FloatArray


def closed_form_mean(rows: Rows, kernel: Kernel, D: FloatArray) -> ClosedForm:
    """Return the mean of the full Gaussian process, each row left out in turn. O(n^3 / 2) multiply-adds, 3 n^2 numbers.

    Args:
        rows: standardized, n of them.
        kernel: of the process, bias included.
        D: noise variance of each row, (n,).

    Raises:
        NotPositiveDefiniteError: hyperparameters beyond double precision.
    """
    C = kernel.gram(rows.X)
    C[np.diag_indices_from(C)] += D
    L = cholesky(C, "K + D")
    alpha = solve_vector(L, solve_vector(L, rows.y), transposed=True)
    inverse = inverse_from_cholesky(L)
    variance = 1.0 / np.diag(inverse)
    return ClosedForm(
        mean=Mean(alpha=alpha, left_out=rows.y - alpha * variance, unknowns=alpha[:, None], iterations=0, settled=True),
        latent_variance=np.maximum(variance - D, 0.0),
        inverse=inverse,
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BlockErrors:
    """Rows left out of their block: error y - m and latent variance, standardized, one block after the other."""

    error: FloatArray
    latent_variance: FloatArray


def left_out_of_blocks(rows: Rows, blocks: Sequence[IntArray], hyperparameters: Hyperparameters) -> BlockErrors:
    """Predict each row from the others of its block. O(n |b|^2 / 2) multiply-adds.

    Args:
        rows: standardized, n of them.
        blocks: places of rows.
        hyperparameters: theta, with constant noise.

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
            found = closed_form_mean(some, kernel, np.full(len(block), hyperparameters.noise_variance))
            error[place] = some.y - found.mean.left_out
            latent[place] = found.latent_variance

    map_threads(work, split_evenly(range(len(blocks)), rows.workers))
    return BlockErrors(error=error, latent_variance=latent)
