"""The block-composite likelihood: exact objectives of blocks of near rows, and of random ones, added up.

    phi = (n / sum |b|) sum_b -log N(y_b; 0, K_bb + s2 I)

(Eidsvik et al. 2014; Stein et al. 2004 for likelihoods of near rows.) Blocks of near rows see lengthscales that a random
subset cannot resolve and that few basis vectors cannot hold; random blocks of the same size see the long range. Rows are
cut in halves along the column that is widest in units of its lengthscale, again and again. O(n |b|^2 / 2) multiply-adds.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from core.arrays import FloatArray, IntArray
from core.errors import NumericalError
from core.hyperparameters import Hyperparameters
from core.numeric.shards import tree_total
from core.process.exact import exact_nlml_and_gradient
from core.process.rows import Rows


@dataclass(slots=True, eq=False)
class _Objective:
    """Value and gradient of some blocks."""

    value: float
    gradient: FloatArray

    def add(self, other: "_Objective") -> None:
        self.value += other.value
        self.gradient += other.gradient


def near_blocks(X: FloatArray, weights: FloatArray, largest: int) -> list[IntArray]:
    """Return blocks of near rows, of at most `largest` rows and about as large as each other: places (|b|,) each.

    Args:
        X: standardized rows (n, p).
        weights: w of every column (p,).
        largest: rows of a block, at least 1.
    """
    scaled, blocks = X * np.sqrt(weights), []
    waiting = [(np.arange(len(X)), -(-len(X) // largest))]
    while waiting:
        places, count = waiting.pop()
        if count <= 1:
            blocks.append(np.sort(places))
            continue
        inside, below = scaled[places], count // 2
        order = np.argsort(inside[:, np.argmax(np.var(inside, axis=0))], kind="stable")
        cut = len(places) * below // count
        waiting += [(places[order[cut:]], count - below), (places[order[:cut]], below)]
    return blocks


def random_blocks(rows: int, size: int, count: int, random: np.random.Generator) -> list[IntArray]:
    """Return `count` blocks of so many random rows, or of all where they are fewer: places each."""
    return [np.sort(random.permutation(rows)[:size]) for _ in range(count)]


def blocks_nlml_and_gradient(
    rows: Rows, blocks: Sequence[IntArray], hyperparameters: Hyperparameters
) -> tuple[float, FloatArray]:
    """Return phi in nats, on the scale of n rows, and dphi/dtheta.

    To the same bits for any number of threads. Raises NotPositiveDefiniteError or NumericalError.
    """
    subsets = [rows.take(places) for places in blocks]

    def part(subset: Rows) -> _Objective:
        return _Objective(*exact_nlml_and_gradient(subset, hyperparameters))

    found = tree_total(part, subsets, rows.workers)
    scale = len(rows) / sum(map(len, blocks))
    if not np.isfinite(found.value):
        raise NumericalError("the objective of the blocks is not a finite number")
    return scale * found.value, scale * found.gradient
