"""Does it pay to draw the pool of `batch` other than uniformly, or to refresh it? kin40k, fixed theta, DTC.

    python -m tests.benchmarks.pools

Drawn uniformly; by k-means++ (each row with a probability as its squared kernel distance from those drawn); by ridge
leverage (as the variance that a uniform pool of the same size leaves, and explains, at each row). Refreshed: a second
pursuit in a fresh pool that holds the first one's basis.
"""

import os
import time

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np  # after the setting, which OpenBLAS reads when it loads

from core.arrays import IntArray
from core.hyperparameters import Hyperparameters
from core.numeric.linalg import solve_lower
from core.process.kernel import Kernel
from core.process.rows import Rows
from core.selection.pool import pursue
from core.sparse.factors import factorise
from core.sparse.scheme import Penalty, Scheme
from tests.benchmarks.selection import _rows, _score
from tests.benchmarks.sets import conditions, full_gp_of_kin40k, load

SEEDS = 3
SIZES = ((100, 1_000), (500, 2_000))
"""d and P."""


def main() -> None:
    """Prints a Markdown table: mean NMSE of three seeds, and seconds of drawing and pursuit."""
    split = load("kin40k")
    rows, dataset = _rows(split.train)
    theta = full_gp_of_kin40k()
    print(conditions())
    print("\n| pool | d = 100, P = 1,000: NMSE | s | d = 500, P = 2,000: NMSE | s |\n|---|---|---|---|---|")
    for label, draw in (("uniform", _uniform), ("k-means++", _far_apart), ("leverage", _leverage)):
        for refreshed in (False, True):
            cells = []
            for size, count in SIZES:
                errors, seconds = [], 0.0
                for seed in range(SEEDS):
                    random, begin = np.random.default_rng(seed), time.perf_counter()
                    found = pursue(rows, draw(rows, theta, count, random), theta, size)
                    if refreshed:
                        again = np.concatenate((found.indices, draw(rows, theta, count, random)))
                        found = pursue(rows, again, theta, size)
                    seconds += time.perf_counter() - begin
                    errors.append(_score(rows, dataset, theta, found, split.test).nmse or 0.0)
                cells.append(f"{np.mean(errors):.4f} | {seconds / SEEDS:.2f}")
            print(f"| {label}{', refreshed' if refreshed else ''} | {' | '.join(cells)} |", flush=True)


def _uniform(rows: Rows, _: Hyperparameters, count: int, random: np.random.Generator) -> IntArray:
    return random.permutation(len(rows))[:count]


def _far_apart(rows: Rows, theta: Hyperparameters, count: int, random: np.random.Generator) -> IntArray:
    drawn = [int(random.integers(len(rows)))]
    nearest, kernel = np.full(len(rows), np.inf), Kernel.of(theta, rows.groups)
    while len(drawn) < count:
        k = kernel.cross(rows.X[drawn[-1:]], rows.X)[0]
        np.minimum(nearest, kernel.diagonal - k, out=nearest)
        chances = np.maximum(nearest, 0.0)
        chances[drawn] = 0.0
        drawn.append(int(random.choice(len(rows), p=chances / chances.sum())))
    return np.array(drawn)


def _leverage(rows: Rows, theta: Hyperparameters, count: int, random: np.random.Generator) -> IntArray:
    """tau_i = (K (K + s2 I)^-1)_ii, approximately: by the Nystroem approximation of a uniform sample."""
    Z = rows.X[_uniform(rows, theta, count, random)]
    factors = factorise(rows, Z, theta, Scheme(power=0.0, penalty=Penalty.NONE))
    V = solve_lower(factors.L, factors.kernel.cross(Z, rows.X))
    W = solve_lower(factors.LB, V)
    latent = factors.e + np.einsum("km,km->m", W, W)
    chances = latent / theta.noise_variance
    return random.choice(len(rows), size=count, replace=False, p=chances / chances.sum())


if __name__ == "__main__":
    main()
