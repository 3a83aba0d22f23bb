"""Batch pursuit: the greedy choice from a whole pool at the speed of matrix products.

For a pool J of P rows let G = K_J. K_.J, g = K_J. y and T = s2 K_JJ + G. Then the diagonal of T and g start as S and
h of every candidate, and choosing j updates them all (it is Batch-OMP, Rubinstein et al. 2008,
on the negative log posterior pi of Keerthi & Chu 2005, eq. 4):

    row = (T[j] - R[:, j]'R) / sqrt(S_j),   h -= h_j / sqrt(S_j) row,   S -= row^2

a pivoted Cholesky factorisation of T whose pivot is the candidate of the largest gain. Gains that read e, the prior
variance left, run the same recursion on K_JJ (rows C, C_m = L^-1 K_IJ); and the VFE gain reads |k_j - V'V[:, j]|^2 from
the numbers H = V K_.J and V V' that G gives. One pass over the rows, O(n P^2 / 2); then O(P d^2 / 2), or 3/2 with VFE.

Where rows have weights G and g are products by these.
Of several targets that share theta g and h have a row each, and gains read the root of the mean of h^2.

G and g are sums over rows, and a choice needs no more than a good estimate of them: of many rows SUMMED_ROWS at random
stand for all.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from core.arrays import BoolArray, FloatArray, IntArray
from core.hyperparameters import Hyperparameters
from core.numeric.linalg import STRIP, TILE, add_gram_lower, mirror_lower
from core.process.kernel import Kernel
from core.process.rows import Rows
from core.selection.fill import least_known, with_filled
from core.selection.gains import GAINS, Quantities
from core.selection.state import LEAST_UNEXPLAINED, RIDGE, Selection, distinct
from core.spec import Gain

ROUNDING = 1e-9
"""Error that gains may have, as a share of y'y."""
SUMMED_ROWS = 200_000
"""Rows whose sums choose among candidates, where there are more: as good as all of them."""
POOL_BLOCK = 1024
"""Rows of a block, at least: with fewer, adding a block's P^2 products up costs as much as making them."""


def pool_products(
    rows: Rows, candidates: FloatArray, hyperparameters: Hyperparameters
) -> tuple[FloatArray, FloatArray]:
    """G = K_J. K_.J (P, P) and g = K_J. y (P,) for candidate inputs (P, p), summed over blocks of rows; g (1 + k, P) of
    several targets."""
    made = partial(_products, candidates=candidates, hyperparameters=hyperparameters)
    total = rows.total(made, len(candidates), POOL_BLOCK, lambda part: rows.workspace.give(part.G))
    G = total.G
    if rows.remote is not None:  # it came from elsewhere, and may be read-only; who spends it gives it to the workspace
        G = rows.workspace.take(*total.G.shape)
        G[:] = total.G
    mirror_lower(G)
    return G, total.g


@dataclass(slots=True, eq=False)
class _Products:
    """The lower half of G, and g."""

    G: FloatArray
    g: FloatArray

    def add(self, other: "_Products") -> None:
        """The rows that come next."""
        self.G += other.G
        self.g += other.g


def _products(
    rows: Rows, places: Sequence[slice], *, candidates: FloatArray, hyperparameters: Hyperparameters
) -> _Products:
    kernel = Kernel.of(hyperparameters, rows.groups)
    size, basis = len(candidates), kernel.basis(candidates)
    G, g = rows.workspace.take(size, size), np.zeros((1 + rows.others.shape[1], size) if rows.several else size)
    G.fill(0.0)
    with rows.workspace.borrow(min(STRIP, size), size) as work:
        for place in places:
            with rows.workspace.borrow(size, place.stop - place.start) as K:
                kernel.block(basis, kernel.rows(rows.X[place]), K)
                targets = rows.every_target(place).T if rows.several else rows.y[place]
                if rows.weighted:
                    roots = np.sqrt(rows.weights[place])
                    np.multiply(K, roots, out=K)
                    targets = targets * roots
                add_gram_lower(G, K, work)
                g += (K @ targets.T).T if rows.several else K @ targets
    return _Products(G=G, g=g)


class Pool:
    """Candidates, and what a pursuit among them reads: their kernel with bias K (P, P), G and g.

    among: rows, none of them a candidate, whose sums stand for those of all, each counted n / len(among) times; None:
    all are summed. Folds share such a pool: what a fold of the rows adds to G and g is taken off again, O(n P^2 / 2)
    for all folds together.
    """

    def __init__(
        self, rows: Rows, indices: IntArray, hyperparameters: Hyperparameters, among: IntArray | None = None
    ) -> None:
        self.rows, self.hyperparameters = rows, hyperparameters
        self.indices = distinct(rows.X, indices)
        candidates = rows.X[self.indices]
        size = len(candidates)
        self._K = Kernel.of(hyperparameters, rows.groups).gram(candidates, rows.workspace.take(size, size))
        summed = rows if among is None else rows.sample(among)
        self._G, self._g = pool_products(summed, candidates, hyperparameters)
        self._power = _power(summed)
        if among is not None:
            each_counts = len(rows) / len(summed)
            self._G *= each_counts
            self._g *= each_counts
            self._power *= each_counts

    def pursue(self, size: int, gain: Gain = Gain.SB, least: float = -np.inf) -> Selection:
        """The `size` best candidates by `gain`; fewer where the rest would add only rounding or less than `least`."""
        with self.rows.workspace.borrow(*self._G.shape) as T:
            T[:] = self._G
            return self._pursued(T, self._g, self._power, np.zeros(len(self.indices), bool), size, gain, least)

    def pursue_without(self, fold: IntArray, size: int, gain: Gain = Gain.SB) -> Selection:
        """The same as if these rows, and the candidates among them, were not there; of a pool that sums all rows.
        Threads may do so at once."""
        rows = self.rows.take(fold)
        T, g = pool_products(rows, self.rows.X[self.indices], self.hyperparameters)
        np.subtract(self._G, T, out=T)
        power = self._power - _power(rows)
        selection = self._pursued(T, self._g - g, power, np.isin(self.indices, fold), size, gain)
        self.rows.workspace.give(T)
        return selection

    def release(self) -> None:
        """Gives the memory to the rows' workspace: the end of this pool."""
        self.rows.workspace.give(self._K)
        self.rows.workspace.give(self._G)

    def _pursued(
        self,
        T: FloatArray,
        g: FloatArray,
        power: float,
        out: BoolArray,
        size: int,
        gain: Gain,
        least: float = -np.inf,
    ) -> Selection:
        """T (P, P): G, and then s2 K + G, overwritten. power: y'y. out (P,): who may not be chosen."""
        most = min(size, int((~out).sum()))
        s2 = self.hyperparameters.noise_variance
        for begin in range(0, len(T), TILE):
            strip = slice(begin, begin + TILE)
            T[strip] += s2 * self._K[strip]
        if gain in (Gain.SB, Gain.POST_BACKFITTING):
            T[np.diag_indices_from(T)] *= 1.0 + RIDGE
        state = _Pursuit(self._K, T, g.copy(), power, out.copy(), self.hyperparameters, most, gain)
        while state.size < most and state.take_best(least):
            pass
        reason = "basis_size reached" if state.size == size else "no row of the pool adds more than rounding"
        found = Selection(indices=self.indices[state.chosen], gains=np.array(state.gains), reason=reason)
        if state.size == most or state.negligible:
            return found
        free = ~out
        free[state.chosen] = False
        added = least_known(self._K, state.chosen, free, most - state.size)
        return with_filled(found, self.indices[added], size)


def _power(rows: Rows) -> float:
    """y'y, the mean over the targets."""
    first = float(rows.y @ rows.by_weight(rows.y))
    return (first + float(np.square(rows.others).sum())) / (1 + rows.others.shape[1]) if rows.several else first


def pursue(
    rows: Rows,
    pool: IntArray,
    hyperparameters: Hyperparameters,
    size: int,
    gain: Gain = Gain.SB,
    among: IntArray | None = None,
    least: float = -np.inf,
) -> Selection:
    """The `size` best rows of the pool by `gain`, or fewer where the rest would add only rounding or less than `least`.
    among: see Pool."""
    candidates = Pool(rows, pool, hyperparameters, among)
    selection = candidates.pursue(size, gain, least)
    candidates.release()
    return selection


class _Pursuit:
    """The numbers of every candidate of the pool, (P,) each, and the rows of the factorisations, (d, P)."""

    def __init__(
        self,
        K: FloatArray,
        T: FloatArray,
        g: FloatArray,
        power: float,
        out: BoolArray,
        hyperparameters: Hyperparameters,
        size: int,
        gain: Gain,
    ) -> None:
        self._s2, self._formula = hyperparameters.noise_variance, GAINS[gain]
        self._bounded = gain is Gain.SB
        self._K, self._T = K, T
        self._own = np.diag(self._T).copy()
        self._S, self._h = self._own.copy(), g
        self._left, self._rounding = 0.5 * power, ROUNDING * power
        self._least_S = self._formula.least_share * self._own
        self._R = np.empty((size, g.shape[-1]))
        self._with_e, self._with_across = self._formula.explained, self._formula.across
        self._e = np.diag(K).copy()
        self._least_e = LEAST_UNEXPLAINED * self._e
        self._C = np.empty((size if self._with_e else 0, g.shape[-1]))
        self._across = self._own - self._s2 * np.diag(K)
        self._H = np.empty((size if self._with_across else 0, g.shape[-1]))
        self._VV = np.empty((size, size) if self._with_across else (0, 0))
        self._out = out
        self.chosen: list[int] = []
        self.gains: list[float] = []
        self.negligible = False
        """The best candidate left adds less than was worth it."""

    @property
    def size(self) -> int:
        """Number of chosen candidates."""
        return len(self.chosen)

    def take_best(self, least: float = -np.inf) -> bool:
        """Chooses one more; False where every candidate left would add only rounding, or less than `least`."""
        scores = self._scores()
        self._out |= self._least_S >= self._S
        if self._with_e:
            self._out |= self._e <= self._least_e
        if self._bounded:  # pi cannot fall below zero: who promises that has lost its digits
            self._out |= scores > self._left + self._rounding
        scores = np.where(self._out, -np.inf, scores)
        best = int(np.argmax(scores))
        self.negligible = bool(self.chosen) and -np.inf < scores[best] < least
        if self.negligible or scores[best] == -np.inf:
            return False
        self._add_to_fit(best)
        if self._with_e:
            self._add_to_prior(best)
        self._out[best] = True
        self.chosen.append(best)
        self.gains.append(float(scores[best]))
        return True

    def _scores(self) -> FloatArray:
        found = Quantities(
            noise_variance=self._s2,
            h=self._h if self._h.ndim == 1 else np.sqrt(np.mean(np.square(self._h), axis=0)),
            S=np.maximum(self._S, self._least_S),
            own=self._own,
            e=np.maximum(self._e, self._least_e),
            across=self._across,
        )
        return self._formula.value(found)

    def _add_to_fit(self, best: int) -> None:
        row, root = self._R[self.size], np.sqrt(self._S[best])
        np.subtract(self._T[best], self._R[: self.size, best] @ self._R[: self.size], out=row)
        row /= root
        if self._h.ndim == 1:
            self._left -= 0.5 * float(self._h[best]) ** 2 / float(self._S[best])
            self._h -= (self._h[best] / root) * row
        else:
            self._left -= 0.5 * float(np.mean(np.square(self._h[:, best]))) / float(self._S[best])
            self._h -= (self._h[:, best, None] / root) * row
        self._S -= np.square(row)

    def _add_to_prior(self, best: int) -> None:
        """One more row of C; for VFE also of H = V K_.J and of V V', then |k - V'V[:, j]|^2 of every candidate."""
        size, root = self.size, np.sqrt(self._e[best])
        earlier = self._C[:size, best].copy()
        row = self._C[size]
        np.subtract(self._K[best], earlier @ self._C[:size], out=row)
        row /= root
        self._e -= np.square(row)
        if not self._with_across:
            return
        H = self._H[size]
        np.subtract(self._T[best] - self._s2 * self._K[best], earlier @ self._H[:size], out=H)
        H /= root
        products = (self._H[:size, best] - earlier @ self._VV[:size, :size]) / root
        square = max(float(self._across[best]) / root**2, 0.0)
        self._VV[size, :size] = self._VV[:size, size] = products
        self._VV[size, size] = square
        along = H - products @ self._C[:size]  # (k_j - V'V[:, j])'v of every candidate
        self._across -= row * (2.0 * along - row * square)
        np.maximum(self._across, 0.0, out=self._across)
