"""A mean at new rows: k(x, centres) alpha, in blocks of rows. O(M p) for each row."""

from collections.abc import Sequence

import numpy as np

from core.arrays import FloatArray
from core.numeric.linalg import ROW_UNIT
from core.numeric.threads import map_threads, split_evenly
from core.process.kernel import Kernel

BLOCK_NUMBERS = 1 << 19
"""Numbers in one block of kernel values, 4 MiB."""


def mean_at(
    kernel: Kernel, centres: FloatArray, alpha: FloatArray, inputs: FloatArray, *, workers: int = 1
) -> FloatArray:
    """Return the mean at standardized inputs, (m,) or (m, r).

    Args:
        kernel: bias included.
        centres: standardized (M, p).
        alpha: weights (M,), or several columns of them (M, r).
        inputs: standardized (m, p).
        workers: threads, whose number changes no bit of the result.
    """
    prepared, mean = kernel.rows(centres), np.empty((len(inputs), *alpha.shape[1:]))
    step = max(ROW_UNIT, BLOCK_NUMBERS // len(centres) // ROW_UNIT * ROW_UNIT)
    places = [slice(begin, min(begin + step, len(inputs))) for begin in range(0, len(inputs), step)]

    def work(run: Sequence[slice]) -> None:
        for place in run:
            mean[place] = kernel.block(kernel.basis(inputs[place]), prepared) @ alpha

    if places:
        map_threads(work, split_evenly(places, workers))
    return mean
