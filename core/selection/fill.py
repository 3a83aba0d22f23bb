"""Rows for a basis that a method could not fill: those whose function the basis knows least.

Where lengthscales are long or the noise is next to nothing a gain is a difference of numbers that agree to their last
digits long before the basis is as large as was asked, and the method ends. What the rows add is still well known then
by the variance that the basis leaves, e of `core.selection.gains`: a pivoted Cholesky factorisation of the kernel
itself, whose digits last twice as long as those of its square (Burt et al. 2020). Gains of such rows are nan.
"""

import numpy as np

from core.arrays import BoolArray, FloatArray, IntArray
from core.hyperparameters import Hyperparameters
from core.process.kernel import Kernel
from core.process.rows import Rows
from core.selection.state import Selection, distinct

LEAST_KNOWN = 1e-13
"""Share of the prior variance above which what the basis leaves of it is more than rounding."""


def fill(rows: Rows, hyperparameters: Hyperparameters, found: Selection, candidates: IntArray, size: int) -> Selection:
    """Return a selection filled up to `size` rows, or to as many as rounding tells apart.

    Args:
        rows: standardized.
        hyperparameters: theta.
        found: what the method chose.
        candidates: places of rows that may follow, in the order in which equals are taken.
        size: of the basis.

    Returns:
        The selection; its measures go as far as the method followed them. O(P d^2 / 2 + P^2 p) for P candidates.
    """
    indices = distinct(rows.X, np.concatenate((found.indices, candidates)))
    kernel = Kernel.of(hyperparameters, rows.groups)
    K = kernel.gram(rows.X[indices])
    count = len(found.indices)
    added = least_known(K, list(range(count)), np.arange(len(indices)) >= count, size - count)
    return with_filled(found, indices[added], size)


def with_filled(found: Selection, added: IntArray, size: int) -> Selection:
    """Return a selection with more rows behind those that it has, and a reason."""
    if not len(added):
        return found
    count, total = len(found.indices), len(found.indices) + len(added)
    reason = f"{count} rows by the method until their gains were rounding, then {len(added)} that the basis knew least"
    return Selection(
        indices=np.concatenate((found.indices, added)),
        gains=np.concatenate((found.gains, np.full(len(added), np.nan))),
        measures=found.measures,
        reason=reason if total == size else f"{reason}; no other row adds more than rounding",
    )


def least_known(K: FloatArray, chosen: list[int], free: BoolArray, count: int) -> IntArray:
    """Return the places of up to `count` free candidates, each the one of most variance given those before it.

    Args:
        K: kernel among the candidates, with bias, (P, P).
        chosen: places of the basis.
        free: which candidates may be taken, (P,).
        count: how many.
    """
    e, free = np.diag(K).copy(), free.copy()
    least = LEAST_KNOWN * float(e.max())
    C, size = np.empty((len(chosen) + count, len(K))), 0
    added: list[int] = []

    def condition(place: int) -> None:
        nonlocal size
        if e[place] <= least:  # the others say all that it does
            return
        row = C[size]
        np.subtract(K[place], C[:size, place] @ C[:size], out=row)
        row /= np.sqrt(e[place])
        e[:] -= np.square(row)
        size += 1

    for place in chosen:
        condition(place)
    while len(added) < count:
        best = int(np.argmax(np.where(free, e, -np.inf)))
        if not free[best] or e[best] <= least:
            break
        condition(best)
        free[best] = False
        added.append(best)
    return np.array(added, np.int64)
