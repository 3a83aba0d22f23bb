"""What grows as basis vectors are added one by one, at fixed theta.

With A = s2 Kuu + Kuf Kuf' = (L LM)(L LM)' and W = (L LM)^-1 Kuf, adding row i with kernel column k_i = K(X, x_i) is
(MATH, selection criteria; Keerthi & Chu 2005, sec. 3):

    z = s2 W[:, i] + W k_i,  S = s2 K_ii + k_i'k_i - z'z,  w = (k_i - W'z) / sqrt(S)
    beta = (y'k_i - (W y)'z) / sqrt(S),  mu += beta w

W[:, i] is a column already held, so nothing else is needed. O(n d) a step, (d, n) memory.
"""

from dataclasses import dataclass, field

import numpy as np

from core.factors import Rows
from core.hyperparameters import FloatArray, Hyperparameters

LEAST_SHARE = 1e-11
"""A candidate whose Schur complement is below this share of its own squared length adds nothing but rounding."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Selection:
    """indices (d,) into the rows, in the order chosen; gains (d,), nan for a method that has none; why it stopped."""

    indices: np.ndarray[tuple[int], np.dtype[np.int64]]
    gains: FloatArray
    reason: str


@dataclass(slots=True, eq=False)
class GrowingFit:
    """The DTC fit of the basis chosen so far: W[:size] (size, n), mean mu (n,), chosen row numbers."""

    rows: Rows
    hyperparameters: Hyperparameters
    W: FloatArray
    projections: FloatArray
    """W y, (size,)"""
    mu: FloatArray
    indices: list[int] = field(default_factory=list)

    @classmethod
    def empty(cls, rows: Rows, hyperparameters: Hyperparameters, capacity: int) -> "GrowingFit":
        """No basis vector yet; room for `capacity`."""
        return cls(
            rows=rows,
            hyperparameters=hyperparameters,
            W=np.empty((capacity, len(rows))),
            projections=np.empty(capacity),
            mu=np.zeros(len(rows)),
        )

    @property
    def size(self) -> int:
        """How many basis vectors there are."""
        return len(self.indices)

    @property
    def residuals(self) -> FloatArray:
        """y - mu, (n,)."""
        return np.asarray(self.rows.y - self.mu)

    def holds(self, index: int) -> bool:
        """Whether the row, or an exact copy of it, is in the basis. O(d p)."""
        return bool(self.indices) and bool((self.rows.X[self.indices] == self.rows.X[index]).all(axis=1).any())

    def grow(self, index: int, kernel_column: FloatArray) -> bool:
        """Takes row `index` in, given K(X, x_index) (n,); False, and nothing changes, where it adds only rounding."""
        s2 = self.hyperparameters.noise_variance
        W, size = self.W[: self.size], self.size
        z = s2 * W[:, index] + W @ kernel_column
        own = s2 * self.hyperparameters.prior_variance + kernel_column @ kernel_column
        schur = own - z @ z
        if not schur > LEAST_SHARE * own:
            return False
        root = np.sqrt(schur)
        new = self.W[size]
        np.subtract(kernel_column, W.T @ z, out=new)
        new /= root
        beta = (self.rows.y @ kernel_column - self.projections[:size] @ z) / root
        self.projections[size] = beta
        self.mu += beta * new
        self.indices.append(index)
        return True
