"""core/train/block_theta.py: theta that few basis vectors or few rows cannot show."""

from dataclasses import replace

import numpy as np
import pytest

from core.arrays import FloatArray
from core.process.rows import Rows
from core.train.block_theta import BlockBudget, theta_by_blocks
from core.train.optimise import box, heuristic

BUDGET = BlockBudget(block_rows=60, round_steps=(8, 12))


def wiggly(n: int, noise: FloatArray | float = 0.1) -> Rows:
    """A function with some twenty waves over the rows, and a column that says nothing."""
    random = np.random.default_rng(0)
    X = random.uniform(-1.7, 1.7, size=(n, 2))
    y = np.sin(40.0 * X[:, 0]) + noise * random.normal(size=n)
    return Rows(X=X, y=(y - y.mean()) / y.std(), groups=np.arange(2))


def test_short_lengthscales_are_found() -> None:
    """Two lengthscales from (1.4, 1.4): a wave of .157 has about .03, the other column none."""
    rows = wiggly(600)
    start = heuristic(rows)
    start = replace(start, lengthscales=np.array([0.1, 1.0]))
    found = theta_by_blocks(rows, start, box(rows), np.random.default_rng(1), budget=BUDGET)
    assert 0.02 < found.lengthscales[0] < 0.06
    assert found.lengthscales[1] > 3.0
    assert found.noise_variance < 0.05  # .02 in units of the target's variance


def test_noise_of_known_shape_is_not_taken_for_signal() -> None:
    """Half of the rows have thirty times the noise: with its shape known, s2 is that of a row of ratio 1."""
    random = np.random.default_rng(2)
    X = random.uniform(-1.7, 1.7, size=(600, 2))
    ratio = np.where(X[:, 1] > 0.0, 30.0, 1.0)
    y = np.sin(2.0 * X[:, 0]) + 0.1 * np.sqrt(ratio) * random.normal(size=600)
    rows = Rows(X=X, y=y, groups=np.arange(2))
    found = theta_by_blocks(rows, heuristic(rows), box(rows), random, ratio=ratio, budget=BUDGET)
    assert 0.008 < found.noise_variance < 0.0125  # .01, known to a twentieth from 300 rows


def test_the_number_of_threads_changes_no_bit_and_progress_rises() -> None:
    rows, shares = wiggly(200), list[float]()
    found = [
        theta_by_blocks(
            replace(rows, workers=workers),
            heuristic(rows),
            box(rows),
            np.random.default_rng(3),
            budget=BUDGET,
            tell=lambda share, _: shares.append(share),
        )
        for workers in (1, 2)
    ]
    np.testing.assert_array_equal(found[0].lengthscales, found[1].lengthscales)
    assert shares[: len(shares) // 2] == sorted(shares[: len(shares) // 2])
    assert 0.0 < shares[0] < shares[-1] <= 1.0


def test_a_search_can_be_cancelled() -> None:
    rows = wiggly(100)

    def cancel(_share: float, _objective: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        theta_by_blocks(rows, heuristic(rows), box(rows), np.random.default_rng(4), budget=BUDGET, tell=cancel)
