"""How much memory a training takes, from its sizes alone, before it is begun.

An upper estimate of the peak, summed over what is held at once (n rows, p columns, d basis vectors, P candidates):

    rows            copies of (n, p): as read, checked, of the learning and of all rows, standardized
    kernel blocks   K and V of a fit, (d, n) each, up to KEPT_BYTES in all; for each thread a few blocks in the making
    batch           K, G, T (P, P) and R (d, P), with one more G for each thread
    others          the rows of W (d, n), and of V where the criterion reads it; c kernel columns (c, n) twice
    squares         Kuu, L, LB, B and what is made of them, (d, d) each

`tests/core/train/test_memory.py` holds it against what trainings took.
"""

from core.process.rows import BLOCK_NUMBERS
from core.sparse.factors import KEPT_BYTES
from core.spec import Method, TrainSpec

NUMBER = 8
ROW_COPIES = 10
SQUARES = 14
BLOCKS = 5
"""Blocks in the making, for each thread."""
POLISH_ROWS = 1_000
"""At most so many rows start the search, by a full GP with a few square matrices of theirs."""


def training_bytes(rows: int, columns: int, spec: TrainSpec, *, workers: int = 1) -> int:
    """Bytes that `core.train.run.train` takes at its peak beside what the process held before, about; O(1).

    rows, columns: of the matrix of inputs. workers: its threads.
    """
    d = min(spec.most_basis, rows)
    numbers = ROW_COPIES * rows * (columns + 1) + SQUARES * d * d + 3 * min(rows, POLISH_ROWS) ** 2
    numbers += min(2 * d * rows, KEPT_BYTES // NUMBER) + workers * (BLOCKS * BLOCK_NUMBERS + 2 * d * d)
    return NUMBER * (numbers + _choosing(rows, d, columns, spec, workers))


def _choosing(rows: int, d: int, columns: int, spec: TrainSpec, workers: int) -> int:
    """Numbers that the choice of the basis holds."""
    if spec.method is Method.BATCH:
        pool = min(max(4 * d, 1_000) if spec.pool_size is None else max(spec.pool_size, d), rows)
        return (3 + workers) * pool * pool + 2 * d * pool
    if spec.method is Method.RAND:
        return 0
    cached = spec.candidates
    if spec.method is Method.DMAX:
        cached = max(d, 500) if spec.cache_size is None else spec.cache_size
    kept = KEPT_BYTES // NUMBER if columns >= 50 else 0
    return 2 * d * rows + 3 * min(cached, rows) * rows + min(kept, rows * rows)
