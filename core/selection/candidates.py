"""The candidates that a step may choose from, with what the criteria read of them.

Most criteria need the kernel column of a candidate, so a step sees a cache of c of them: the best is taken, and it and
the worst are replaced by fresh random rows (Keerthi & Chu 2005, sec. 3; Sundararajan et al., sec. 3.4). A fresh
candidate costs O(n d); one that stays is carried along in O(n), since with w the newest row of W

    z = s2 w_i + k'w,  S -= z^2,  h -= beta z,  (k - W'z) -= z w,  (k - V'V[:, i]) -= v_i v

Criteria that need no kernel column score every row (`Everyone`).
"""

from collections import OrderedDict
from dataclasses import dataclass

import numpy as np

from core.factors import KEPT_BYTES, Rows
from core.hyperparameters import FloatArray, Hyperparameters, IntArray
from core.kernel import cross
from core.selection.state import GrowingFit, Step


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """What a criterion reads. schur: S of candidates; explained: V and p of the fit; toward: the numerators of the
    candidate's rows of W (c, n); across: those of its row of V (c, n)."""

    schur: bool = False
    explained: bool = False
    toward: bool = False
    across: bool = False


class KernelColumns:
    """Kernel columns K(X, x_i) with bias, the latest kept for candidates that come back."""

    def __init__(self, rows: Rows, hyperparameters: Hyperparameters) -> None:
        self._rows = rows
        self._hyperparameters = hyperparameters
        self._kept: OrderedDict[int, FloatArray] = OrderedDict()
        self._most = KEPT_BYTES // (8 * len(rows))

    def of(self, indices: IntArray) -> FloatArray:
        """(c, n), C order. O(n p) for each column that is not kept."""
        columns = np.empty((len(indices), len(self._rows)))
        missing = np.array([index not in self._kept for index in indices.tolist()], bool)
        if missing.any():
            fresh = cross(self._rows.X[indices[missing]], self._rows.X, self._hyperparameters, self._rows.groups)
            columns[missing] = fresh + self._hyperparameters.bias_variance
        for place, index in enumerate(indices.tolist()):
            if missing[place]:
                self._kept[index] = columns[place].copy()
            else:
                columns[place] = self._kept[index]
                self._kept.move_to_end(index)
        while len(self._kept) > self._most:
            self._kept.popitem(last=False)
        return columns


@dataclass(slots=True, eq=False)
class CandidateCache:
    """c candidates: row numbers, kernel columns K (c, n), k'k (c,), h = k'r - s2 mu_i (c,), and what is needed of
    S (c,), toward = k - W'z (c, n), across = k - V'V[:, i] (c, n)."""

    fit: GrowingFit
    columns: KernelColumns
    needs: Needs
    indices: IntArray
    K: FloatArray
    lengths: FloatArray
    h: FloatArray
    S: FloatArray
    toward: FloatArray
    across: FloatArray

    @classmethod
    def fill(cls, fit: GrowingFit, columns: KernelColumns, needs: Needs, indices: IntArray) -> "CandidateCache":
        """A cache of these candidates."""
        size, n = len(indices), len(fit.rows)
        cache = cls(
            fit=fit,
            columns=columns,
            needs=needs,
            indices=indices.copy(),
            K=np.empty((size, n)),
            lengths=np.empty(size),
            h=np.empty(size),
            S=np.empty(size),
            toward=np.empty((size if needs.toward else 0, n)),
            across=np.empty((size if needs.across else 0, n)),
        )
        cache.replace(np.arange(size), indices)
        return cache

    def column(self, place: int) -> FloatArray:
        """K(X, x) of one candidate, (n,)."""
        return np.asarray(self.K[place])

    def replace(self, places: IntArray, indices: IntArray) -> None:
        """Fresh candidates in these places. O(n d) each where S is needed, O(n p) otherwise."""
        if not len(indices):
            return
        fit, s2 = self.fit, self.fit.hyperparameters.noise_variance
        K = self.columns.of(indices)
        self.indices[places], self.K[places] = indices, K
        self.lengths[places] = np.einsum("cn,cn->c", K, K)
        self.h[places] = K @ fit.residuals - s2 * fit.mu[indices]
        if self.needs.schur:
            W = fit.W[: fit.size]
            Z = s2 * W[:, indices] + W @ K.T
            own = s2 * fit.hyperparameters.prior_variance + self.lengths[places]
            self.S[places] = own - np.einsum("kc,kc->c", Z, Z)
            if self.needs.toward:
                self.toward[places] = K - Z.T @ W
        if self.needs.across and fit.V is not None:
            V = fit.V[: fit.size]
            self.across[places] = K - V[:, indices].T @ V

    def follow(self, step: Step) -> None:
        """Carries every candidate along after a basis vector was added. O(n) each."""
        s2 = self.fit.hyperparameters.noise_variance
        z = s2 * step.w[self.indices] + self.K @ step.w
        self.h -= step.beta * z
        self.S -= np.square(z)
        if self.needs.toward:
            self.toward -= z[:, None] * step.w
        if self.needs.across and step.v is not None:
            self.across -= step.v[self.indices][:, None] * step.v

    def drop(self, places: IntArray) -> None:
        """Fewer candidates, where there are no fresh ones left."""
        stay = np.setdiff1d(np.arange(len(self.indices)), places)
        for name in ("indices", "K", "lengths", "h", "S"):
            setattr(self, name, getattr(self, name)[stay])
        if self.needs.toward:
            self.toward = self.toward[stay]
        if self.needs.across:
            self.across = self.across[stay]


@dataclass(slots=True, eq=False)
class Everyone:
    """All rows that were not taken or refused: for criteria of O(1) a row."""

    fit: GrowingFit
    columns: KernelColumns
    indices: IntArray

    def column(self, place: int) -> FloatArray:
        """K(X, x) of one candidate, (n,), made now."""
        return np.asarray(self.columns.of(self.indices[place : place + 1])[0])

    def follow(self, step: Step) -> None:
        """Nothing is held for candidates."""

    def drop(self, places: IntArray) -> None:
        """These rows are no candidates any more."""
        self.indices = np.delete(self.indices, places)


Candidates = CandidateCache | Everyone
