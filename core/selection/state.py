"""State of a DTC fit that grows by one basis vector at a time, at fixed theta.

With Kuu = L L', A = s2 Kuu + Kuf Kuf' = (L LM)(L LM)', W = (L LM)^-1 Kuf and V = L^-1 Kuf, adding row i with kernel
column k = K(X, x_i) gives each of them one more row (Keerthi & Chu 2005, sec. 3; Seeger et
al. 2003, appendix A.1):

    z = s2 W[:, i] + W k,  S = s2 K_ii + k'k - z'z,  w = (k - W'z) / sqrt(S),  beta = (y'k - (W y)'z) / sqrt(S)
    v = (k - V'V[:, i]) / sqrt(e_i),  e_i = K_ii - p_i
    mu += beta w,  q += w^2,  p += v^2

W[:, i] and V[:, i] are columns already held, so nothing else is needed. O(n d) a step, one or two (d, n) arrays.
Where rows have weights w every product over rows, k'k, W k, y'k, is by these, A = s2 Kuu + Kuf diag(w) Kuf', and the
share that a row has in its own prediction is w q.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from core.arrays import FloatArray, IntArray
from core.hyperparameters import Hyperparameters
from core.numeric.threads import Partial, map_slices
from core.process.rows import Rows

LEAST_SHARE = 1e-13
"""A candidate whose Schur complement in A is below this share of its own square adds nothing but rounding. More takes
real ones out where lengthscales are long."""
RIDGE = 1e-10
"""A share of each candidate's own square, added to its Schur complement where gains are decreases of pi: it hardly
changes a gain that is known, and takes those off that rounding makes up where lengthscales are long and A, a square,
has lost its digits. A pursuit then neither ends early nor follows the last bits of the rows (their unit, the
processor's way of adding up)."""
LEAST_SHARE_OF_EVIDENCE = 1e-9
"""The same for gains that hold log S, which feel its rounding sooner."""
LEAST_UNEXPLAINED = 1e-8
"""The same for e_i as a share of the prior variance, where V is kept: the jitter's own size."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Selection:
    """indices (d,) into the rows, in the order chosen; gains (d,), nan for a method that has none and for rows
    that filled the basis up (`core.selection.fill`); why it stopped.

    measures: what decides the size, (d + 1,) from the empty basis on: of the method itself where it follows one, of
    leave-one-out where the size was found by that; else empty. complete: every row is in the basis, or equal to one
    that is, so that every approximation is the full GP.
    """

    indices: IntArray
    gains: FloatArray
    reason: str
    measures: FloatArray = field(default_factory=lambda: np.empty(0))
    complete: bool = False

    def first(self, size: int, reason: str) -> "Selection":
        """The first `size` picks, with another reason."""
        return Selection(
            indices=self.indices[:size], gains=self.gains[:size], reason=reason, measures=self.measures[: size + 1]
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Step:
    """One basis vector's new rows: w and v (n,), v None where V is not kept; its coefficient beta."""

    w: FloatArray
    v: FloatArray | None
    beta: float


@dataclass(slots=True, eq=False)
class GrowingFit:
    """The DTC fit of the basis chosen so far.

    W, V: rows [:size] are in use; V is None where no criterion reads p. b = W y. mu, q, p (n,).
    """

    rows: Rows
    hyperparameters: Hyperparameters
    W: FloatArray
    V: FloatArray | None
    b: FloatArray
    mu: FloatArray
    q: FloatArray
    p: FloatArray
    indices: list[int] = field(default_factory=list)

    @classmethod
    def empty(
        cls, rows: Rows, hyperparameters: Hyperparameters, capacity: int, *, explained: bool = False
    ) -> "GrowingFit":
        """No basis vector yet; room for `capacity`. explained: keep V and p too."""
        n = len(rows)
        return cls(
            rows=rows,
            hyperparameters=hyperparameters,
            W=np.empty((capacity, n)),
            V=np.empty((capacity, n)) if explained else None,
            b=np.empty(capacity),
            mu=np.zeros(n),
            q=np.zeros(n),
            p=np.zeros(n),
        )

    @property
    def size(self) -> int:
        """Number of basis vectors."""
        return len(self.indices)

    @property
    def residuals(self) -> FloatArray:
        """y - mu, (n,)."""
        return np.asarray(self.rows.y - self.mu)

    @property
    def share(self) -> FloatArray:
        """Share of each row in its own prediction, w q, (n,)."""
        return self.rows.by_weight(self.q)

    @property
    def unexplained(self) -> FloatArray:
        """e = K_ii - p_i of every row, (n,), never below zero."""
        return np.maximum(self.hyperparameters.prior_variance - self.p, 0.0)

    def holds(self, index: int) -> bool:
        """Return True where the row, or an exact copy of it, is in the basis. O(d p)."""
        return bool(self.indices) and bool((self.rows.X[self.indices] == self.rows.X[index]).all(axis=1).any())

    def grow(self, index: int, column: FloatArray) -> Step | None:
        """Takes row `index` in, k = K(X, x_index) (n,); None, and nothing changes, where it adds only rounding."""
        s2, prior = self.hyperparameters.noise_variance, self.hyperparameters.prior_variance
        W, size, weighted = self.W[: self.size], self.size, self.rows.by_weight(column)
        unexplained = prior - self.p[index]
        z = s2 * W[:, index] + np.asarray(sum(self._across(lambda run: W[:, run] @ weighted[run])))
        own = s2 * prior + weighted @ column
        schur = own - z @ z
        if not schur > LEAST_SHARE * own or (self.V is not None and unexplained <= LEAST_UNEXPLAINED * prior):
            return None
        root, w, v = np.sqrt(schur), self.W[size], None
        beta = float((self.rows.y @ weighted - self.b[:size] @ z) / root)
        if self.V is not None:
            v, V, earlier = self.V[size], self.V[:size], self.V[:size, index].copy()

        def fill(run: slice) -> None:
            np.subtract(column[run], z @ W[:, run], out=w[run])
            w[run] /= root
            self.mu[run] += beta * w[run]
            self.q[run] += np.square(w[run])
            if v is not None:
                np.subtract(column[run], earlier @ V[:, run], out=v[run])
                v[run] /= np.sqrt(unexplained)
                self.p[run] += np.square(v[run])

        self._across(fill)
        self.b[size] = beta
        self.indices.append(index)
        return Step(w=w, v=v, beta=beta)

    def _across(self, work: Callable[[slice], Partial]) -> list[Partial]:
        """work(slice of the rows) on every thread, where the basis is large enough to pay for them."""
        return map_slices(work, len(self.rows), self.size * len(self.rows), self.rows.workers)


def distinct(X: FloatArray, indices: IntArray) -> IntArray:
    """Return the indices without those whose row is an exact copy of an earlier one; order kept."""
    _, first = np.unique(X[indices], axis=0, return_index=True)
    return np.asarray(indices[np.sort(first)])
