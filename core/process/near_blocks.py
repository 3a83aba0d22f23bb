"""The block-composite likelihood: exact objectives of blocks of near rows, and of random ones, added up.

    phi = (n / sum |b|) sum_b -log N(y_b; 0, K_bb + s2 diag(ratio_b))

(Eidsvik et al. 2014; Stein et al. 2004 for likelihoods of near rows.) Blocks of near rows see lengthscales that a
random subset cannot resolve and that few basis vectors cannot hold; random blocks of the same size see the long range.
Rows are cut in halves along the column that is widest in units of its lengthscale, again and again. O(n |b|^2 / 2)
multiply-adds.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from core.arrays import FloatArray, IntArray
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
    rows: Rows, blocks: Sequence[IntArray], hyperparameters: Hyperparameters, ratio: FloatArray | None = None
) -> tuple[float, FloatArray]:
    """Return phi and its gradient, to the same bits for any number of threads.

    Args:
        rows: standardized, n of them.
        blocks: places of the rows of each block; a row may be in several.
        hyperparameters: theta.
        ratio: noise of each row over s2, (n,), where it varies: without it short lengthscales stand in for noise that
            is larger here than there, and s2 falls to that of the quietest rows.

    Returns:
        phi in nats, on the scale of n rows, and dphi/dtheta.

    Raises:
        NumericalError: a value that is not finite, or (NotPositiveDefiniteError) theta beyond double precision.
    """

    def part(places: IntArray) -> _Objective:
        some = None if ratio is None else ratio[places]
        return _Objective(*exact_nlml_and_gradient(rows.take(places), hyperparameters, some))

    found = tree_total(part, blocks, rows.workers)
    scale = len(rows) / sum(map(len, blocks))
    return scale * found.value, scale * found.gradient
