"""The candidates that a step may choose from, with what the criteria read of them.

Most criteria need the kernel column of a candidate, so a step sees a cache of c of them: the best is taken, and it and
the worst are replaced by fresh random rows (Keerthi & Chu 2005, sec. 3; Sundararajan et al., sec. 3.4). A fresh
candidate costs O(n d); one that stays is carried along in O(n), since with w the newest row of W

    z = s2 w_i + k'w,  S -= z^2,  h -= beta z,  (k - W'z) -= z w,  (k - V'V[:, i]) -= v_i v

Criteria that need no kernel column score every row (`AllRows`). Products over rows are by their weights, where they
have any (`core.selection.state`).
"""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from core.arrays import FloatArray, IntArray
from core.hyperparameters import Hyperparameters
from core.numeric.threads import map_slices, map_threads, split_evenly
from core.process.kernel import Kernel
from core.process.rows import Rows
from core.selection.state import GrowingFit, Step
from core.sparse.factors import KEPT_BYTES

LEAST_CACHED_COLUMNS = 50
"""Columns of the table below which a kernel value is made as quickly as it is copied."""
COLUMN_ROWS = 2048
"""Rows of a kernel block: with 59 candidates it is 1 MB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """Quantities that a criterion reads. schur: S of candidates; explained: V and p of the fit; toward: the numerators
    of the candidate's rows of W (c, n); across: those of its row of V (c, n)."""

    schur: bool = False
    explained: bool = False
    toward: bool = False
    across: bool = False


def kept_columns(rows: int, columns: int) -> int:
    """Return how many kernel columns of n rows are kept for candidates that come back; columns: of the inputs."""
    return KEPT_BYTES // (8 * rows) if columns >= LEAST_CACHED_COLUMNS else 0


class KernelColumns:
    """Kernel columns K(X, x_i) with bias, the latest kept for candidates that come back."""

    def __init__(self, rows: Rows, hyperparameters: Hyperparameters) -> None:
        self._rows = rows
        self._kernel = Kernel.of(hyperparameters, rows.groups)
        places = [slice(start, start + COLUMN_ROWS) for start in range(0, len(rows), COLUMN_ROWS)]
        blocks = [(place, self._kernel.rows(rows.X[place])) for place in places]
        self._runs = split_evenly(blocks, rows.workers)
        self._kept: OrderedDict[int, FloatArray] = OrderedDict()
        self._most = kept_columns(*rows.X.shape)

    def of(self, indices: IntArray) -> FloatArray:
        """Return kernel columns (c, n) in C order. O(n p) for each column that is not kept."""
        if not self._most:
            return self._made(indices)
        missing = np.array([index not in self._kept for index in indices.tolist()], bool)
        fresh = self._made(indices[missing])
        columns = fresh if missing.all() else np.empty((len(indices), len(self._rows)))
        made = iter(fresh)
        for place, index in enumerate(indices.tolist()):
            if missing[place]:
                self._kept[index] = next(made).copy()
            else:
                self._kept.move_to_end(index)
            if columns is not fresh:
                columns[place] = self._kept[index]
        while len(self._kept) > self._most:
            self._kept.popitem(last=False)
        return columns

    def _made(self, indices: IntArray) -> FloatArray:
        """Fresh columns, by blocks that stay in cache, on every thread."""
        basis = self._kernel.basis(self._rows.X[indices])
        columns = np.empty((len(indices), len(self._rows)))

        def fill(run: Sequence[tuple[slice, FloatArray]]) -> None:
            for place, rows in run:
                self._kernel.add_bias(self._kernel.stationary(basis, rows), columns[:, place])

        if len(indices):
            map_threads(fill, self._runs)
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
        residuals = fit.rows.by_weight(fit.residuals)
        weighted = fit.rows.by_weight(K)

        def put(run: slice) -> tuple[FloatArray, FloatArray]:
            self.K[places, run] = K[:, run]
            return np.einsum("cn,cn->c", weighted[:, run], K[:, run]), K[:, run] @ residuals[run]

        parts = map_slices(put, len(fit.rows), 4 * K.size, fit.rows.workers)
        self.indices[places] = indices
        self.lengths[places] = sum(lengths for lengths, _ in parts)
        self.h[places] = sum(h for _, h in parts) - s2 * fit.mu[indices]
        if self.needs.schur:
            W = fit.W[: fit.size]
            Z = s2 * W[:, indices] + W @ weighted.T
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
        z = s2 * step.w[self.indices] + self._times(self.fit.rows.by_weight(step.w))
        self.h -= step.beta * z
        self.S -= np.square(z)
        if self.needs.toward:
            self.toward -= z[:, None] * step.w
        if self.needs.across and step.v is not None:
            self.across -= step.v[self.indices][:, None] * step.v

    def _times(self, w: FloatArray) -> FloatArray:
        """K w, (c,)."""
        parts = map_slices(lambda run: self.K[run] @ w, len(self.K), self.K.size, self.fit.rows.workers)
        return np.concatenate(parts)

    def drop(self, places: IntArray) -> None:
        """Drop candidates, where there are no fresh ones left."""
        if not len(places):  # and no copy of all the others
            return
        stay = np.setdiff1d(np.arange(len(self.indices)), places)
        for name in ("indices", "K", "lengths", "h", "S"):
            setattr(self, name, getattr(self, name)[stay])
        if self.needs.toward:
            self.toward = self.toward[stay]
        if self.needs.across:
            self.across = self.across[stay]


@dataclass(slots=True, eq=False)
class AllRows:
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


Candidates = CandidateCache | AllRows
