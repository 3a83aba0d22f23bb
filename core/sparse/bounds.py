"""Bounds on the loss of a sparse solution against the full GP (Smola & Bartlett 2001, Theorem 1).

    Q(a) = -y'K a + a'(s2 K + K'K) a / 2,   Q*(a) = -y'a + a'(s2 I + K) a / 2
    Q(a) >= Qmin >= -|y|^2 / 2 - s2 Q*(a*)              for every a and a*

Q is the full GP's negative log posterior up to a constant; over the coefficients of a basis I its least value is
-|W y|^2 / 2. A second greedy set I* makes Q* small: over it the least value is -y_I'(s2 I + K_II)^-1 y_I / 2, and
growing it is a Cholesky factorisation of s2 I + K with pivot h*^2 / S*, O(1) a row and step. The relative gap

    gap = 2 (Q + s2 Q* + |y|^2 / 2) / (-Q + s2 Q* + |y|^2 / 2)

falls to zero as both sets grow. With k(x) in the place of y the same two halves bound the full GP's error bar at x.

Rows of weights w are rows of weight one of another process, sqrt(w) f: K and y stand for W^1/2 K W^1/2 and W^1/2 y.
"""

from dataclasses import dataclass

import numpy as np

from core.arrays import FloatArray, IntArray
from core.hyperparameters import Hyperparameters
from core.numeric.linalg import cholesky, solve_lower
from core.process.kernel import Kernel
from core.process.rows import Rows
from core.sparse.factors import factorise
from core.sparse.scheme import Penalty, Scheme


@dataclass(frozen=True, slots=True, kw_only=True)
class PosteriorBounds:
    """upper = Q of the basis, lower = the bound from the dual set of `dual_size` rows: Qmin is between; gap."""

    upper: float
    lower: float
    gap: float
    dual_size: int


class DualGreedy:
    """The second set I*, grown one row at a time; `value` is Q* over it. O(n d) memory for d rows."""

    def __init__(self, rows: Rows, hyperparameters: Hyperparameters, capacity: int) -> None:
        self._rows, self._hyperparameters = rows, hyperparameters
        self._kernel = Kernel.of(hyperparameters, rows.groups)
        self._U = np.empty((min(capacity, len(rows)), len(rows)))
        self._roots = np.sqrt(rows.weights) if rows.weighted else None
        self._S = hyperparameters.noise_variance + rows.by_weight(np.full(len(rows), hyperparameters.prior_variance))
        self._h = rows.y.copy() if self._roots is None else rows.y * self._roots
        self._free = np.ones(len(rows), bool)
        self.indices: list[int] = []
        self.value = 0.0

    def grow(self, among: IntArray | None = None) -> None:
        """Takes in the row that lowers Q* most; nothing where the set is full. O(n d).

        among: the rows that may be taken (Smola & Bartlett's random subset); every row by default, which costs no more.
        """
        size = len(self.indices)
        if size == len(self._U):
            return
        allowed = self._free
        if among is not None:
            allowed = np.zeros_like(allowed)
            allowed[among] = self._free[among]
        if not allowed.any():
            return
        gains = np.where(allowed, np.square(self._h) / (2.0 * self._S), -np.inf)
        best = int(np.argmax(gains))
        column = self._kernel.cross(self._rows.X[best : best + 1], self._rows.X)[0]
        if self._roots is not None:
            column *= self._roots * self._roots[best]
        column[best] += self._hyperparameters.noise_variance
        root = np.sqrt(self._S[best])
        row = self._U[size]
        np.subtract(column, self._U[:size, best] @ self._U[:size], out=row)
        row /= root
        self._h -= (self._h[best] / root) * row
        self._S = np.maximum(self._S - np.square(row), self._hyperparameters.noise_variance)
        self._free[best] = False
        self.indices.append(best)
        self.value -= float(gains[best])


def posterior_bounds(primal: float, dual: DualGreedy, rows: Rows, hyperparameters: Hyperparameters) -> PosteriorBounds:
    """The two bounds on Qmin and their gap, from Q of a basis (`primal`) and the dual set as it is."""
    half_power = 0.5 * float(rows.by_weight(rows.y) @ rows.y)
    lower = -half_power - hyperparameters.noise_variance * dual.value
    difference, total = max(primal - lower, 0.0), -primal - lower
    return PosteriorBounds(
        upper=primal,
        lower=lower,
        gap=2.0 * difference / total if total > 0 else np.inf,
        dual_size=len(dual.indices),
    )


def bounds_of(
    rows: Rows, hyperparameters: Hyperparameters, basis: IntArray, inputs: FloatArray
) -> tuple[PosteriorBounds, FloatArray, FloatArray]:
    """Bounds on Qmin for a basis (row numbers), and on the full GP's variance of a new target at `inputs` (m, p).

    Inputs standardized; variances with noise, (m,) each: lower (never under s2) and upper. The dual set is as large as
    the basis. O(n d^2 + m n d).
    """
    s2, prior = hyperparameters.noise_variance, hyperparameters.prior_variance
    dual = DualGreedy(rows, hyperparameters, len(basis))
    for _ in basis:
        dual.grow()
    factors = factorise(rows, rows.X[basis], hyperparameters, Scheme(power=0.0, penalty=Penalty.NONE))
    fitted = factors.LB.T @ factors.c  # W y / sqrt(s2)
    found = posterior_bounds(-0.5 * s2 * float(fitted @ fitted), dual, rows, hyperparameters)
    if not len(inputs):
        return found, np.empty(0), np.empty(0)
    chosen = rows.X[dual.indices]
    kernel = Kernel.of(hyperparameters, rows.groups)
    among = kernel.gram(chosen) + np.diag(rows.noises(s2)[dual.indices])
    near = solve_lower(cholesky(among, "s2 I + K"), kernel.cross(chosen, inputs))
    upper = prior + s2 - np.einsum("km,km->m", near, near)
    k = kernel.cross(inputs, rows.X)  # (m, n)
    weighted = rows.by_weight(k)
    parts = factors.over_blocks(lambda blocks: sum(block.V @ weighted[:, block.rows].T for block in blocks))
    along = solve_lower(factors.LB, np.ascontiguousarray(sum(parts)))  # sqrt(s2) W k
    missed = np.einsum("mn,mn->m", weighted, k) - np.einsum("km,km->m", along, along) / s2
    return found, np.maximum(prior + s2 - missed / s2, s2), upper
