"""Number of basis vectors for `basis_size: "auto"`.

Of a small table all distinct rows are in the basis, whatever the method: every approximation is then the full GP, for
next to nothing, where a choice by any measure is a choice by the noise of a few rows (`every_row`). A `max_basis_size`
below the number of distinct rows has the measure choose there too.

In larger tables methods that follow a measure which can rise (nlml, the three leave-one-out measures) stop once it has
risen for good: it may have several minima (Sundararajan et al., sec. 4.1), so the loop goes on for a while past the
best, and the basis is then cut there. `sb` stops at a small gap of Smola and Bartlett's bounds (`core.sparse.bounds`).
The other methods are cut where leave-one-out says so, for every prefix of the basis at once:

    rows of W of a prefix are the first rows of W, so q and mu of every prefix are running sums

one pass over the rows, or over a sample of a large table, O(n d^2) in matrix products. The measure there is loo-cve,
which reads the mean alone: a DTC variance is far too small while the basis is, where the noise is small. The VFE
objective and pi never rise, so they cannot stop alone.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from core.arrays import FloatArray, IntArray
from core.hyperparameters import Hyperparameters
from core.numeric.linalg import LowerSolver
from core.process.rows import Rows
from core.selection.gains import CRITERIA, left_out_moments
from core.selection.state import GrowingFit, Selection, distinct
from core.sparse.bounds import DualGreedy, posterior_bounds
from core.sparse.factors import Block, Factors, factorise
from core.sparse.scheme import Penalty, Scheme
from core.spec import Method, TrainSpec

GAP_METHODS = frozenset({Method.SB, Method.NLPP})
SMALL_TABLE = 500
"""So many distinct rows are all taken."""
LEVEL = 1e-6
"""The first size whose measure is within this share of the least is taken: past it may be nothing but rounding."""
PATIENCE_STEPS, PATIENCE_SHARE = 50, 1.5
"""The loop goes on past the best size for so many steps, or this share of it, whichever is more."""


def every_row(rows: Rows, spec: TrainSpec) -> Selection | None:
    """Return all distinct rows of a small table, the first of those that are equal, in their order.

    None where a size was asked for or these are more than SMALL_TABLE or `max_basis_size`. O(n p log n), much less
    where the first rows say so already.
    """
    most = min(SMALL_TABLE, spec.max_basis_size)
    if spec.basis_size is not None or len(distinct(rows.X, np.arange(min(len(rows), 2 * most)))) > most:
        return None
    indices = distinct(rows.X, np.arange(len(rows)))
    if len(indices) > most:
        return None
    reason = f"all {len(indices)} distinct rows of a small table"
    return Selection(indices=indices, gains=np.full(len(indices), np.nan), reason=reason, complete=True)


class Measure:
    """Measure that a method minimises, from the empty basis on; `values` stays empty for a method that follows nothing.

    For `sb` it is the gap of Theorem 1 of Smola & Bartlett 2001 (`core.sparse.bounds`), where the size is to be found.
    """

    def __init__(self, spec: TrainSpec, rows: Rows, hyperparameters: Hyperparameters, size: int) -> None:
        self._spec, self._rows, self._hyperparameters = spec, rows, hyperparameters
        s2, prior = hyperparameters.noise_variance, hyperparameters.prior_variance
        self._start = CRITERIA[spec.method].start if spec.method in CRITERIA else None
        searching = spec.basis_size is None
        self._dual = DualGreedy(rows, hyperparameters, size) if searching and spec.method in GAP_METHODS else None
        self.values: list[float] = []
        if self._start is not None:
            self.values = [float(self._start.value(rows, prior, s2))]
        if self._dual is not None:
            self.values = [2.0]

    def follow(self, fit: GrowingFit, gain: float) -> None:
        """A basis vector was added with this gain."""
        if self._dual is not None:
            self._dual.grow()
            primal = -0.5 * float(np.square(fit.b[: fit.size]).sum())
            found = posterior_bounds(primal, self._dual, self._rows, self._hyperparameters)
            self.values.append(found.gap)
        elif self._start is not None:
            self.values.append(self.values[-1] - gain if self._start.by_gains else -gain)

    def settled(self) -> bool:
        """Return True where the size is found: the gap is small enough, or the best is so far behind that it will
        stay."""
        if not self.values or self._spec.basis_size is not None:
            return False
        if self._dual is not None:
            return self.values[-1] <= self._spec.gap_tolerance
        best = int(np.argmin(self.values))
        return len(self.values) - 1 - best >= max(PATIENCE_STEPS, PATIENCE_SHARE * best)


def cut(
    rows: Rows,
    hyperparameters: Hyperparameters,
    spec: TrainSpec,
    found: Selection,
    measured: IntArray | None = None,
) -> Selection:
    """The prefix with the smallest measure: the method's own where it can rise, else leave-one-out (loo-cve), of the
    measured rows, None for all."""
    if spec.method in GAP_METHODS:
        gap, last = float(found.measures[-1]), len(found.indices)
        if gap <= spec.gap_tolerance:
            return found.first(last, f"the gap of Smola and Bartlett fell to {gap:.4f}, gap_tolerance")
        return found.first(last, f"{found.reason}; the gap of Smola and Bartlett is still {gap:.4f}")
    name, measures = f"the method's own measure ({spec.method})", found.measures
    if not len(measures) or spec.method is Method.VFE:
        name, measures = "leave-one-out (loo-cve)", prefix_measures(rows, hyperparameters, found, measured)
    size = 1 + int(np.argmax(measures[1:] <= measures[1:].min() + LEVEL * abs(measures[1:].min())))
    followed = replace(found, measures=measures)
    if size == len(found.indices):
        return followed.first(size, f"{name} was still falling at {size}, the most allowed or available")
    return followed.first(size, f"{name} is smallest at {size}; followed to {len(found.indices)}")


def prefix_measures(
    rows: Rows, hyperparameters: Hyperparameters, found: Selection, measured: IntArray | None = None
) -> FloatArray:
    """loo-cve of DTC for the first 0, 1, .. d basis vectors, on the measured rows, None for all: (d + 1,). O(n d^2)."""
    Z = rows.X[found.indices]
    rows = rows if measured is None else rows.sample(measured)
    factors = factorise(rows, Z, hyperparameters, Scheme(power=0.0, penalty=Penalty.NONE))
    coefficients = [factors.LB.T @ c for c in factors.every_c().T]  # W y / sqrt(s2)
    summed = partial(_prefix_part, coefficients=coefficients, lower=LowerSolver(factors.LB))
    return np.asarray(factors.total(summed).errors / len(rows))


@dataclass(slots=True, eq=False)
class _PrefixErrors:
    """Sums of squared leave-one-out errors, by weight, by prefix, (d + 1,)."""

    errors: FloatArray

    def add(self, other: "_PrefixErrors") -> None:
        """The rows that come next."""
        self.errors += other.errors


def _prefix_part(
    factors: Factors, blocks: Iterable[Block], *, coefficients: Sequence[FloatArray], lower: LowerSolver
) -> _PrefixErrors:
    """coefficients: W y / sqrt(s2), (d,) for each target, over which errors are added up. lower: of LB."""
    s2, rows = factors.hyperparameters.noise_variance, factors.rows
    total = np.zeros(len(coefficients[0]) + 1)
    for block in blocks:
        W = lower.solve(block.V.copy())  # sqrt(s2) W
        means = [np.cumsum(each[:, None] * W, axis=0) for each in coefficients]
        np.square(W, out=W)
        W /= rows.noise(s2, block.rows)
        share = np.cumsum(W, axis=0)
        for y, mean in zip(rows.every_target(block.rows).T, means, strict=True):
            total[0] += float(rows.by_weight(y, block.rows) @ y)
            error, _ = left_out_moments(y - mean, share, np.zeros(1), 0.0, s2)
            total[1:] += np.einsum("km,km->k", rows.by_weight(error, block.rows), error)
    return _PrefixErrors(total)
