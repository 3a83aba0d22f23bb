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
