"""Rows far from all training rows, which are told of without being asked for.

Far from the data nothing is left but the prior: the mean goes back to the average, and the error bar is as wide as the
target varies. A row is far where the share of the prior's variance that is left, its support, is FAR or more; not in a
model whose own basis vectors, which are training rows or near them, have as little support, such as a constant one.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from app.services.predict.array_names import target_of
from core.arrays import FloatArray, IntArray
from core.predict.model import ModelPredictor

FAR = 0.9
NEAR = 0.5
"""Median support of basis vectors from which a model knows no row as far."""
KNOWN_ROWS = 64
"""Basis vectors that are looked at."""
SUPPORT = "support"
TOLD_ROWS = 20
"""Rows that a warning names."""


def knows_far_rows(predictor: ModelPredictor, basis: FloatArray) -> bool:
    """Return True where rows far from the basis (d, p), in raw units, differ from those near it."""
    if predictor.mean_only or predictor.predictor.reduced:
        return False
    some = basis[:: -(-len(basis) // KNOWN_ROWS)]
    return bool(np.median(predictor.predict(some).support) < NEAR)


def largest_support(arrays: Mapping[str, FloatArray]) -> FloatArray | None:
    """Return the support of the rows of an answer (m,), of several targets the largest; None where it is not known."""
    found = [array for name, array in arrays.items() if name.startswith(SUPPORT) and target_of(name)[0] == SUPPORT]
    return found[0] if len(found) == 1 else np.maximum.reduce(found) if found else None


def far_rows(arrays: Mapping[str, FloatArray]) -> IntArray | None:
    """Return the rows of an answer that are far from the training rows, of several targets from those of one of them;
    None where there are none, or it is not known.

    O(m), some microseconds.
    """
    support = largest_support(arrays)
    if support is None or not len(support) or support.max() < FAR:
        return None
    rows = np.flatnonzero(support >= FAR)
    return rows if len(rows) else None


def far_message(count: int, first: Sequence[int]) -> str:
    """Say of rows that they are far: how many, and the first of them."""
    named = ", ".join(map(str, first)) + (", .." if count > len(first) else "")
    if count == 1:
        return f"row {named} is far from all training rows: its prediction is little more than their average"
    return f"{count} rows are far from all training rows, their predictions little more than an average: {named}"
