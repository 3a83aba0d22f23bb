"""Estimate of a training's memory from its sizes alone, before it is begun.

An upper estimate of the peak, summed over what is held at once (n rows, p columns, d basis vectors, P candidates):

    rows            copies of (n, p): as read, checked, of the learning and of all rows, standardized
    kernel blocks   K and V of a fit, (d, n) each, up to KEPT_BYTES in all; for each thread a few blocks in the making
    batch           K, G, T (P, P) and R (d, P), with one more G for each thread
    others          the rows of W (d, n), and of V where the criterion reads it; c kernel columns (c, n) twice
    squares         Kuu, L, LB, B and what is made of them, (d, d) each
    mean            of all rows K, up to STORED_BYTES, the preconditioner's V (n, r), a factor (r, r) and a few vectors
                    (n,) for each fold, or four (n, n) in closed form; of M rows K(X, S), up to STORED_BYTES, and a few
                    (M, M)

`tests/core/train/test_memory.py` holds it against what trainings took.
"""

from core.mean.precondition import RANK
from core.mean.products import STORED_BYTES, STRIP_NUMBERS
from core.process.rows import BLOCK_NUMBERS
from core.selection.candidates import kept_columns
from core.selection.greedy import cache_size, pool_size
from core.sparse.factors import KEPT_BYTES
from core.spec import Method, TrainSpec
from core.train.block_theta import POLISHED
from core.train.mean_choice import CLOSED_ROWS, FOLDS, compared_rows
from core.train.search import POLISH_ROWS

NUMBER = 8
ROW_COPIES = 6
SQUARES = 14
BLOCKS = 5
"""Blocks in the making, for each thread."""
CLOSED_SQUARES, SUBSET_SQUARES, VECTORS = 4, 5, 10
"""Square matrices of a mean in closed form and of one from M rows; vectors of each fold in the iterations."""
EXACT_SQUARES = 8
"""Square matrices of each exact likelihood, while theta of a full process is searched for."""
START_SQUARES = 3
"""Square matrices of the full GP on POLISH_ROWS that starts the search."""


def training_bytes(rows: int, columns: int, spec: TrainSpec, *, workers: int = 1) -> int:
    """Bytes that `core.train.run.train` takes at its peak beside what the process held before, about; O(1).

    rows, columns: of the matrix of inputs. workers: its threads.
    """
    d = min(spec.most_basis, rows)
    numbers = ROW_COPIES * rows * (columns + 1) + SQUARES * d * d + START_SQUARES * min(rows, POLISH_ROWS) ** 2
    numbers += min(2 * d * rows, KEPT_BYTES // NUMBER) + workers * (BLOCKS * BLOCK_NUMBERS + 2 * d * d)
    return NUMBER * (numbers + _choosing(rows, d, columns, spec, workers) + _mean(rows, spec, workers))


def _mean(rows: int, spec: TrainSpec, workers: int) -> int:
    """Numbers that a mean on more rows than the basis holds."""
    size, columns = compared_rows(spec, rows), FOLDS + 1
    if size == 0:
        return 0
    if size == rows <= CLOSED_ROWS:
        searched = EXACT_SQUARES * min(workers, POLISHED) if spec.compares_full else 0
        return max(CLOSED_SQUARES, searched) * rows * rows
    strips = workers * (STRIP_NUMBERS + columns * max(rows, size))
    vectors = VECTORS * columns * rows + strips
    if size < rows:
        return min(rows * size, STORED_BYTES // NUMBER) + SUBSET_SQUARES * size * size + vectors
    rank = min(rows, int(RANK * rows**0.5))
    stored = min(rows * (rows + rank) // 2, STORED_BYTES // NUMBER)
    return stored + 2 * rows * rank + (columns + 3) * rank * rank + vectors


def _choosing(rows: int, d: int, columns: int, spec: TrainSpec, workers: int) -> int:
    """Numbers that the choice of the basis holds."""
    if spec.method is Method.BATCH:
        pool = min(max(pool_size(spec, d), d), rows)
        return (3 + workers) * pool * pool + 2 * d * pool
    if spec.method is Method.RAND:
        return 0
    kept = kept_columns(rows, columns) * rows
    return 2 * d * rows + 3 * min(cache_size(spec, d), rows) * rows + min(kept, rows * rows)
