"""Leave-one-out moments in closed form, with theta and the basis held fixed.

    y_i - f_-i = beta_i / S_i,  var_-i = 1 / S_i + (1 - a) e_i,   S_i = (Sigma^-1)_ii = (1 - q_i / D_i) / D_i

with q_i = V_i' B^-1 V_i and beta = (y - mu) / D. For FITC (a = 1) this is leave-one-out of a GP with covariance
V'V + D; for DTC (a = 0, D = s2) it is r_i / (1 - q) and s2 / (1 - q) + K_ii - p_i (MATH). Noise is included.
"""

from collections.abc import Iterable

import numpy as np

from core.factors import Block, Factors
from core.hyperparameters import FloatArray
from core.linalg import LowerSolver


def leave_one_out(factors: Factors, *, full_prior: bool = True) -> tuple[FloatArray, FloatArray]:
    """Mean (n,) and variance (n,) of each training target given all the others, standardized. O(n d^2).

    full_prior: False for SoR, whose prior has no variance outside the span of the basis.
    """
    n = len(factors.rows)
    mean, variance = np.empty(n), np.empty(n)
    lower = LowerSolver(factors.LB)

    def part(blocks: Iterable[Block]) -> None:
        for block in blocks:
            place, y = block.rows, factors.rows.y[block.rows]
            W = lower.solve(block.V.copy())
            error, variance[place] = factors.left_out(block, np.einsum("km,km->m", W, W), y - factors.c @ block.V)
            mean[place] = y - error
            if not full_prior:
                variance[place] -= (1.0 - factors.scheme.power) * factors.e[place]

    factors.over_blocks(part)
    return mean, variance


def leave_one_out_loss(factors: Factors, *, full_prior: bool = True) -> float:
    """Mean negative log predictive density of each training target given all the others, standardized."""
    mean, variance = leave_one_out(factors, full_prior=full_prior)
    return float(0.5 * np.mean(np.square(factors.rows.y - mean) / variance + np.log(2.0 * np.pi * variance)))
