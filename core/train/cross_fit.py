"""Predictions of rows by fits that did not see them.

Leave-one-out in closed form (`core.sparse.leave_one_out`) is free, but the basis and theta saw the row that is left
out: where basis vectors or columns are many for the rows its errors are too small. Cross-fitting chooses the basis
again without a fold of the rows and predicts the fold (Chernozhukov et al. 2018 name the idea; here it serves a
calibration).
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from core.arrays import FloatArray, IntArray
from core.numeric.linalg import LowerSolver, solve_vector
from core.numeric.threads import map_in_order
from core.predict.calibration import LeftOut
from core.process.rows import Rows, over_rows
from core.row_groups import RowGroups
from core.sparse.factors import Factors

CROSS_FIT_FOLDS = 20
"""Each fit has nearly all rows, as the published one has all."""
FORWARD_FOLDS = 9
"""Forward folds, each of a tenth of the rows, as many as are held out by default."""
ENOUGH_ROWS = 20_000
"""Rows that are enough to be predicted: a coverage of 99% is then known to 0.1 points."""
LEAST_OTHERS = 100
"""Rows of the basis are left out of leave-one-out where at least so many others are there: a basis vector is better
known than any new row."""


def left_out_in_closed_form(
    factors: Factors, moments: tuple[FloatArray, FloatArray], basis: IntArray, other_errors: FloatArray | None = None
) -> LeftOut:
    """Every training row but those of the basis, by leave-one-out. O(n).

    moments: of `core.sparse.leave_one_out.leave_one_out`. other_errors (n, k): of the other targets. basis: which rows
    the basis vectors are, empty where they have moved.
    """
    mean, variance = moments
    noise = factors.rows.noises(factors.hyperparameters.noise_variance)
    others = np.setdiff1d(np.arange(len(mean)), basis)
    places = others if len(others) >= LEAST_OTHERS else np.arange(len(mean))
    return LeftOut(
        places=places,
        error=(factors.rows.y - mean)[places],
        latent_variance=np.maximum(variance - noise, 0.0)[places],
        noise_variance=noise[places],
        far_variance=np.full(len(places), far_variance(factors)),
        others=np.empty((0, 0)) if other_errors is None else other_errors[places],
    )


def left_out_by_folds(
    rows: Rows,
    fit: Callable[[int, IntArray], Factors],
    random: np.random.Generator,
    groups: RowGroups | None = None,
    *,
    folds: int = CROSS_FIT_FOLDS,
    tell: Callable[[float], None] = lambda _: None,
) -> LeftOut:
    """Predict up to `folds` folds of the rows, until ENOUGH_ROWS are predicted, each by `fit(number, places of the
    rest)`.

    rows.workers folds at a time, so that `fit` should keep to one thread. groups: rows that are left out together, by
    default none. tell: hears the share that is done after each. Cost: that of the fits, and O(n d^2 / folds) for each.
    """
    splits = _splits(len(rows), folds, random, RowGroups() if groups is None else groups)

    def part(number: int) -> LeftOut:
        fold, rest = splits[number]
        others = rows.others[fold] if rows.several else None
        weights = rows.weights[fold] if rows.weighted else None
        return predicted(fit(number, rest), rows.X[fold], rows.y[fold], others, weights)

    parts: list[LeftOut] = []
    for found in map_in_order(part, range(len(splits)), rows.workers):
        parts.append(found)
        tell(len(parts) / len(splits))
    left_out = replace(LeftOut.joined(parts), places=np.concatenate([fold for fold, _ in splits]))
    if groups is None or not groups.forward:
        return left_out
    return replace(left_out, group=np.repeat(np.arange(len(splits)), [len(fold) for fold, _ in splits]))


def _splits(rows: int, folds: int, random: np.random.Generator, groups: RowGroups) -> list[tuple[IntArray, IntArray]]:
    """Rows of each fold, until they are enough, and those that it is predicted from."""
    if groups.alone:
        size = min(-(-rows // folds), ENOUGH_ROWS)
        order = random.permutation(rows)
        parts = [order[begin : begin + size] for begin in range(0, min(rows, ENOUGH_ROWS), size)]
        return [(fold, np.setdiff1d(np.arange(rows), fold)) for fold in parts]
    found, count = [], 0
    folds = min(folds, FORWARD_FOLDS) if groups.forward else folds
    for fold, rest in groups.splits(groups.folds(rows, folds, random)):
        if count < ENOUGH_ROWS:
            found.append((fold, rest))
            count += len(fold)
    return found


def predicted(
    factors: Factors,
    X: FloatArray,
    y: FloatArray,
    others: FloatArray | None = None,
    weights: FloatArray | None = None,
) -> LeftOut:
    """New rows X (m, p) with targets y (m,), and (m, k) of the fit's other ones, standardized as the fit's own are.
    weights (m,): of these rows, one each by default. O(m d^2)."""
    theta, kernel = factors.hyperparameters, factors.kernel
    error, latent = np.empty(len(y)), np.empty(len(y))
    lower = LowerSolver(factors.LB)
    other_errors = np.empty((0, 0) if others is None else others.shape)

    def part(places: Sequence[slice]) -> None:
        for place in places:
            k = kernel.cross(factors.Z, X[place])
            error[place] = y[place] - factors.alpha @ k
            if others is not None:
                other_errors[place] = others[place] - k.T @ factors.other_alphas
            V = factors.lower.solve(k)
            explained = np.einsum("km,km->m", V, V)
            W = lower.solve(V)
            latent[place] = np.einsum("km,km->m", W, W)
            if factors.scheme.full_prior:
                latent[place] += np.maximum(theta.prior_variance - explained, 0.0)

    over_rows(Rows(X=X, y=y, groups=factors.rows.groups, workers=factors.rows.workers), factors.Z, part)
    return LeftOut(
        places=np.arange(len(y)),
        error=error,
        latent_variance=latent,
        noise_variance=np.full(len(y), theta.noise_variance) if weights is None else theta.noise_variance / weights,
        far_variance=np.full(len(y), far_variance(factors)),
        others=other_errors,
    )


def far_variance(factors: Factors) -> float:
    """Return the latent variance far from all data, where only the bias is left of the kernel. O(d^2).

    Infinite for SoR, whose prior has no variance there to be compared with.
    """
    if not factors.scheme.full_prior:
        return np.inf
    theta = factors.hyperparameters
    V = solve_vector(factors.L, np.full(len(factors.Z), theta.bias_variance))
    W = solve_vector(factors.LB, V)
    return float(theta.prior_variance - V @ V + W @ W)
