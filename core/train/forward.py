"""Later rows against rows in between: what a random split would promise where new rows come after all others.

A full Gaussian process on up to MOST_ROWS of the rows that were learnt from predicts each of these from the others, and
the rows held out, which are the latest, from all of them.
"""

from dataclasses import dataclass

import numpy as np

from core.arrays import IntArray
from core.errors import NumericalError
from core.hyperparameters import Hyperparameters
from core.mean.closed import closed_form_mean
from core.process.kernel import Kernel
from core.process.rows import variance_by_weight
from core.train.fit import Subset

MOST_ROWS = 1_000
STANDARD_ERRORS = 2.0
"""Standard errors of the difference from which later rows are said to be predicted worse."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForwardErrors:
    """Squared errors as a share of the target's variance, of rows in between and of later rows; standard_error of the
    difference."""

    between: float
    later: float
    standard_error: float

    @property
    def differ(self) -> bool:
        """True where later rows are predicted worse than chance explains."""
        return self.later - self.between > STANDARD_ERRORS * self.standard_error

    @property
    def sentence(self) -> str:
        """Both errors in words."""
        told = (
            f"squared errors are {self.later:.3g} of the target's variance in the latest rows, predicted from earlier "
            f"ones, and {self.between:.3g} in rows between others"
        )
        if not self.differ:
            return told
        return f"{told}: the target changes with time, and the error bars are those of later rows"


def forward_errors(
    subset: Subset, held_out: IntArray, theta: Hyperparameters, random: np.random.Generator
) -> ForwardErrors | None:
    """Compare rows in between with later ones. None where none are held out. O(MOST_ROWS^3 / 2).

    Args:
        subset: all rows.
        held_out: places of the latest.
        theta: of the model.
        random: draws rows.
    """
    if not len(held_out):
        return None
    rows = subset.rows
    others = np.setdiff1d(np.arange(len(rows)), held_out)
    some = rows.take(np.sort(random.permutation(others)[:MOST_ROWS]))
    kernel = Kernel.of(theta, rows.groups)
    try:
        found = closed_form_mean(some, kernel, some.noises(theta.noise_variance))
    except NumericalError:
        return None
    predicted = kernel.cross(some.X, rows.X[held_out]).T @ found.mean.alpha
    variance = variance_by_weight(rows.y, rows.weights)
    between = some.by_weight(np.square(some.y - found.mean.left_out)) / variance
    later = rows.by_weight(np.square(rows.y[held_out] - predicted), held_out) / variance
    error = np.sqrt(between.var() / len(between) + later.var() / len(later))
    return ForwardErrors(between=float(between.mean()), later=float(later.mean()), standard_error=float(error))
