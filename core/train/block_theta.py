"""Theta of a full mean, by blocks of near rows (`core.process.near_blocks`).

A sparse objective prefers longer lengthscales than the full process has, since few basis vectors cannot follow shorter
ones; and a random subset is too thin to show them. Each round cuts the rows into blocks in units of the lengthscales
found so far, adds random blocks of the same size, and moves theta on the sum.

Where the noise varies with the inputs its shape must be given: constant noise is fitted to the quietest rows, and short
lengthscales follow the noise of the others.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from core.arrays import FloatArray, IntArray
from core.hyperparameters import Hyperparameters
from core.process.near_blocks import blocks_nlml_and_gradient, near_blocks, random_blocks
from core.process.rows import Rows
from core.process.theta import Box
from core.train.optimise import descend

BLOCK_ROWS, RANDOM_BLOCKS = 400, 2
"""Rows of a block; random blocks beside those of near rows."""
ROUND_STEPS = (15, 25)
"""Evaluations of each round: the first ones cut by lengthscales that are still far off."""
FIRST_STEP = 0.2
"""First step of a descent, in log units: from the theta of a sparse model, which is near."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockBudget:
    """Rows of a block, random blocks, and evaluations of each round."""

    block_rows: int = BLOCK_ROWS
    random_blocks: int = RANDOM_BLOCKS
    round_steps: tuple[int, ...] = ROUND_STEPS


def theta_by_blocks(
    rows: Rows,
    start: Hyperparameters,
    bounds: Box,
    random: np.random.Generator,
    *,
    ratio: FloatArray | None = None,
    budget: BlockBudget | None = None,
    tell: Callable[[float, float], None] = lambda _share, _objective: None,
) -> Hyperparameters:
    """Move theta on the block-composite likelihood.

    Args:
        rows: standardized, n of them, on `rows.workers` threads, whose number changes no bit of the result.
        start: where to begin, and which kernel.
        bounds: of theta.
        random: draws the random blocks.
        ratio: noise of each row over s2 (n,), where it varies; its level is taken into s2.
        budget: of the search.
        tell: hears of each evaluation, the share that is done and the objective, nats a row; may raise to cancel.

    Returns:
        The hyperparameters, with s2 the noise of a row whose ratio is 1. O(n block_rows^2 / 2) for each evaluation.

    Raises:
        NumericalError: not even the start can be evaluated.
    """
    budget, theta, done = budget or BlockBudget(), start, 0
    for steps in budget.round_steps:
        blocks = near_blocks(rows.X, theta.weights[rows.groups], budget.block_rows)
        blocks += random_blocks(len(rows), budget.block_rows, budget.random_blocks, random)

        def objective(candidate: Hyperparameters, cut: list[IntArray] = blocks) -> tuple[float, FloatArray]:
            nonlocal done
            value, gradient = blocks_nlml_and_gradient(rows, cut, candidate, ratio)
            done += 1
            tell(min(done / sum(budget.round_steps), 1.0), value / len(rows))
            return value, gradient

        theta, _ = descend(objective, theta, bounds, steps, first_step=FIRST_STEP)
    return theta
