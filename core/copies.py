"""Rows of a table that come twice: exact copies, inputs and target, of a continuous target.

A copy says nothing that its first row does not say, but every split that has one on each side takes it for a row that
was predicted, and noise for something that can be known.
"""

import numpy as np

from core.arrays import FloatArray, IntArray
from core.row_groups import row_bits, row_hashes

CONTINUOUS = 0.5
"""Share of the rows that differ which have a target of their own where it is continuous; of counts and classes equal
rows are no sign of a copy."""

MOST, SAME = 0.5, 1.05
"""Share of the rows that are copies but for a column, from which on it is told; how many times as many different rows
there may be with the target as without it: few rows have equal inputs by chance."""
LOOKED_AT = 20_000
"""Rows, about, that are looked at for each column of a larger table."""
_ODD = np.int64(0x2545F4914F6CDD1D)  # the hash of a target is no other than that of an input


def copies(inputs: FloatArray, targets: FloatArray) -> IntArray:
    """Return the rows that are copies of an earlier one, increasing; none where the target is not continuous.

    O(n p + n log n), and a sort of the rows that look alike. NaN is equal to NaN.

    Args:
        inputs: (n, p).
        targets: (n,).
    """
    bits = row_bits(np.column_stack((inputs, targets)))
    hashes = row_hashes(bits.view(np.float64))
    _, where, counts = np.unique(hashes, return_inverse=True, return_counts=True)
    alike = np.flatnonzero(counts[where] > 1)
    if not len(alike):
        return alike
    _, first, unit = np.unique(bits[alike], axis=0, return_index=True, return_inverse=True)
    found = np.setdiff1d(np.arange(len(alike)), first[unit.reshape(-1)])
    kept = np.setdiff1d(np.arange(len(targets)), alike[found])
    if len(np.unique(targets[kept])) < CONTINUOUS * len(kept):
        return np.empty(0, np.int64)
    return alike[found]


def copies_but_for(inputs: FloatArray, targets: FloatArray, groups: IntArray) -> tuple[int, int] | None:
    """Return the column but for which most rows are copies of others, inputs and target, and how many rows these are;
    None without one, and where the target is not continuous.

    A counter of the rows of an export, or a time that the target does not know of: rows that are left out have been
    seen but for it. O(n log n) where targets differ, else O(n p) and LOOKED_AT rows sorted for each column.
    Memory O(n).

    Args:
        inputs: (n, p).
        targets: (n,).
        groups: number of the column of the table that each input is of, (p,); c of them.
    """
    rows, columns = len(targets), np.unique(groups).tolist()
    _, counts = np.unique(targets, return_counts=True)
    if len(columns) < 2 or counts[counts > 1].sum() < MOST * rows:  # nearly always: copies have equal targets
        return None

    def hashes(column: int) -> IntArray:
        return row_hashes(np.column_stack((inputs[:, groups == column], np.full(rows, float(column)))))

    target, everything = row_hashes(targets[:, None]) * _ODD, np.zeros(rows, np.int64)
    for column in columns:
        everything += hashes(column)
    best, most = None, 0.0
    for column in columns:
        others = everything - hashes(column)
        looked = others % max(1, rows // LOOKED_AT) == 0  # all rows of some kinds
        kinds, counts = np.unique(others[looked], return_counts=True)
        share = float(counts[counts > 1].sum()) / max(1, int(counts.sum()))
        if share < MOST or share <= most or len(np.unique(targets[looked])) < CONTINUOUS * len(kinds):
            continue
        if len(np.unique((others ^ target)[looked])) <= SAME * len(kinds):
            best, most = column, share
    if best is None:
        return None
    _, counts = np.unique(everything - hashes(best), return_counts=True)
    return best, int(counts[counts > 1].sum())
