"""Leave-one-out moments in closed form, with theta and the basis held fixed.

    y_i - f_-i = beta_i / S_i,  var_-i = 1 / S_i + (1 - a) e_i,   S_i = (Sigma^-1)_ii = (1 - q_i / D_i) / D_i

with q_i = V_i' B^-1 V_i and beta = (y - mu) / D. For FITC (a = 1) this is leave-one-out of a GP with covariance
V'V + D; for DTC (a = 0, D = s2) it is r_i / (1 - q) and s2 / (1 - q) + K_ii - p_i. Noise is included.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial

import numpy as np

from core.arrays import FloatArray
from core.numeric.linalg import LowerSolver
from core.sparse.factors import Block, Factors


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LeftOutMoments:
    """Mean and variance (n,) of each training target given all the others; other_errors (n, k): how far off the mean of
    each of the rows' other targets is, whose variance is the same."""

    mean: FloatArray
    variance: FloatArray
    other_errors: FloatArray


def leave_one_out(factors: Factors) -> tuple[FloatArray, FloatArray]:
    """Return leave-one-out moments of every training row, theta and basis held fixed. O(n d^2).

    Args:
        factors: of one theta and basis.

    Returns:
        Mean (n,) and variance (n,) of each target given all the others, standardized, noise included.
    """
    found = leave_one_out_of_all(factors)
    return found.mean, found.variance


def leave_one_out_of_all(factors: Factors) -> LeftOutMoments:
    """Return `leave_one_out` of every target. O(n d^2), and O(n d) for each of the others."""
    found = factors.total(partial(_moments, lower=LowerSolver(factors.LB)))
    return LeftOutMoments(
        mean=np.concatenate(found.means),
        variance=np.concatenate(found.variances),
        other_errors=np.concatenate(found.others),
    )


@dataclass(slots=True, eq=False)
class _Moments:
    """Moments of each block's rows, in order."""

    means: list[FloatArray]
    variances: list[FloatArray]
    others: list[FloatArray]

    def add(self, other: "_Moments") -> None:
        """The rows that come next."""
        self.means += other.means
        self.variances += other.variances
        self.others += other.others


def _moments(factors: Factors, blocks: Iterable[Block], *, lower: LowerSolver) -> _Moments:
    """lower: of LB."""
    found = _Moments(means=[], variances=[], others=[])
    for block in blocks:
        y = factors.rows.y[block.rows]
        with factors.rows.workspace.borrow(*block.V.shape) as W:
            W[:] = block.V
            lower.solve(W)
            q = np.einsum("km,km->m", W, W)
        error, variance = factors.left_out(block, q, y - factors.c @ block.V)
        if not factors.scheme.full_prior:
            variance -= (1.0 - factors.scheme.power) * factors.e[block.rows]
        found.means.append(y - error)
        found.variances.append(variance)
        errors = []
        if factors.rows.several:
            residuals = factors.rows.others[block.rows].T - factors.other_c.T @ block.V
            errors = [factors.left_out(block, q, r)[0] for r in residuals]
        found.others.append(np.transpose(errors) if errors else np.empty((len(y), 0)))
    return found


def leave_one_out_loss(factors: Factors) -> float:
    """Return the mean negative log predictive density, in nats, of each training target given all the others,
    standardized."""
    mean, variance = leave_one_out(factors)
    return float(0.5 * np.mean(np.square(factors.rows.y - mean) / variance + np.log(2.0 * np.pi * variance)))
