"""The function of theta that a search minimises with a given basis.

It is phi of the approximation (`core.sparse.likelihood`). Where all distinct rows of a small table are the basis it is
that of the full GP, and with it a weak prior on theta, which makes it a maximum a posteriori estimate: with a
lengthscale for each of many columns the likelihood of few rows rises to no noise at all and to irrelevant columns.

    -log p(theta) = 1/2 (log(s2 / (NOISE_SHARE power)) / NOISE_DEVIATION)^2
                    + 1/2 sum_l log(1 + (IRRELEVANT spread_l / ell_l)^2)      up to a constant

with the target's mean square as power and the column's root mean square as spread. The noise is a tenth of the target's
variance to a factor of seven, and a column costs log(IRRELEVANT spread / ell) nats, as in an information criterion:
data of a few hundred rows overrule both.
"""

from collections.abc import Callable
from functools import partial

import numpy as np

from core.arrays import FloatArray
from core.hyperparameters import Hyperparameters
from core.process.exact import exact_nlml_and_gradient
from core.process.rows import Rows
from core.process.theta import Box, Theta
from core.sparse.likelihood import nlml_and_gradient
from core.sparse.scheme import Scheme
from core.train.optimise import descend, group_spread

NOISE_SHARE, NOISE_DEVIATION = 0.1, 2.0
START_SETTLED = 1e-4
"""A descent of the start ends when its last two steps each lowered the objective by less than this, nats a row. Those
of the rounds do not: what follows a plateau counts."""
ExactObjective = Callable[[Rows, Hyperparameters], tuple[float, FloatArray]]
"""Objective of a full process on some rows, and its gradient."""
IRRELEVANT = 30.0
"""A lengthscale of so many spreads: the column is all but a constant."""
FULL_RATIO = 1.5
"""Rows for each distinct one; with more the sparse form of a complete basis costs less than a full GP."""


def objective_and_gradient(
    rows: Rows, Z: FloatArray, hyperparameters: Hyperparameters, scheme: Scheme, *, complete: bool
) -> tuple[float, FloatArray]:
    """Return phi and dphi/dtheta as `nlml_and_gradient` has them, with the prior where Z is `complete`.

    The full GP gives phi where the rows are hardly more than a complete Z: in a third of the time, and with the digits
    that the jitter of Kuu costs.

    Args:
        rows: training rows, (n, p) and (n,), standardized.
        Z: basis (d, p), standardized.
        hyperparameters: in standardized units.
        scheme: of the approximation.
        complete: True where all distinct rows are in Z.

    Returns:
        phi in nats and its gradient, (g + 3,).

    Raises:
        NotPositiveDefiniteError, NumericalError: for an impossible theta.
    """
    if complete and len(rows) <= FULL_RATIO * len(Z):
        return exact_objective_and_gradient(rows, hyperparameters)
    value, gradient = nlml_and_gradient(rows, Z, hyperparameters, scheme)
    return _with_prior(rows, hyperparameters, value, gradient) if complete else (value, gradient)


def exact_objective_and_gradient(rows: Rows, hyperparameters: Hyperparameters) -> tuple[float, FloatArray]:
    """Return phi of the full GP with the prior, and its gradient (g + 3,). O(n^3 / 2).

    Raises as `exact_nlml_and_gradient` does.
    """
    value, gradient = exact_nlml_and_gradient(rows, hyperparameters)
    return _with_prior(rows, hyperparameters, value, gradient)


def _with_prior(
    rows: Rows, hyperparameters: Hyperparameters, value: float, gradient: FloatArray
) -> tuple[float, FloatArray]:
    """Add minus the log of the prior; the gradient is by log w = -2 log ell + constant."""
    power = rows.mean_square
    z = float(np.log(hyperparameters.noise_variance / (NOISE_SHARE * power))) / NOISE_DEVIATION
    reach = np.square(IRRELEVANT * group_spread(rows) / hyperparameters.lengthscales)
    slope = Theta.assemble(weights=0.5 * reach / (1.0 + reach), signal=0.0, bias=0.0, noise=z / NOISE_DEVIATION)
    return value + 0.5 * z * z + 0.5 * float(np.log1p(reach).sum()), gradient + slope


def descend_exactly(
    objective: ExactObjective,
    rows: Rows,
    start: Hyperparameters,
    bounds: Box,
    steps: int,
) -> tuple[Hyperparameters, float]:
    """A descent of the full GP's objective; it ends when little comes of another step."""
    settled = START_SETTLED * len(rows)
    return descend(partial(objective, rows), start, bounds, steps, settled=settled)
