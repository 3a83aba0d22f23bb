"""Moving the hyperparameters: L-BFGS-B in theta = log hyperparameters, inside a box, with the basis held fixed.

Two things keep a descent from the all-noise optimum, where peers end silently: the box, in units of the data's own
spread, and the scale of the objective. L-BFGS-B takes its first step along the bare gradient, which for a likelihood
of thousands of rows leaps across the box; dividing the objective by the gradient's size makes that step FIRST_STEP
long in log units. Later steps do not feel the scale.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize

from core.errors import NumericalError
from core.factors import Rows
from core.hyperparameters import FloatArray, Hyperparameters

FIRST_STEP = 0.5
LENGTHSCALE_RANGE = (0.02, 100.0)
"""In standard deviations of the column: from a lookup table to a column that does not matter. Longer ones change
nothing any more, and a descent does not come back from them: the gradient in log w fades with w."""
SIGNAL_RANGE, BIAS_RANGE, NOISE_RANGE = (1e-3, 1e2), (1e-6, 1e1), (1e-6, 2.0)
"""In variances of the target. The noise floor also bounds how badly conditioned the factors can get."""

Objective = Callable[[Hyperparameters], tuple[float, FloatArray]]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Box:
    """Bounds of theta, (g + 3,) each."""

    lower: FloatArray
    upper: FloatArray

    def clip(self, theta: FloatArray) -> FloatArray:
        """The nearest theta inside."""
        return np.asarray(np.clip(theta, self.lower, self.upper))


def box(rows: Rows) -> Box:
    """Bounds in units of the rows' own spread, so that they fit data that were not standardized too."""
    spread = group_spread(rows)
    power = float(np.mean(np.square(rows.y)))
    longest, shortest = LENGTHSCALE_RANGE[1] * spread, LENGTHSCALE_RANGE[0] * spread
    variances = np.array([SIGNAL_RANGE, BIAS_RANGE, NOISE_RANGE]) * power
    return Box(
        lower=np.log(np.concatenate((0.5 / longest**2, variances[:, 0]))),
        upper=np.log(np.concatenate((0.5 / shortest**2, variances[:, 1]))),
    )


def theta_of(hyperparameters: Hyperparameters) -> FloatArray:
    """Logarithms (g + 3,): ARD weights, signal, bias, noise. A bias of zero becomes the smallest number."""
    variances = (
        hyperparameters.signal_variance,
        max(hyperparameters.bias_variance, np.finfo(float).tiny),
        hyperparameters.noise_variance,
    )
    return np.log(np.concatenate((hyperparameters.weights, variances)))


def hyperparameters_of(theta: FloatArray) -> Hyperparameters:
    """The inverse of `theta_of`."""
    natural = np.exp(theta)
    return Hyperparameters(
        lengthscales=np.sqrt(0.5 / natural[:-3]),
        signal_variance=float(natural[-3]),
        bias_variance=float(natural[-2]),
        noise_variance=float(natural[-1]),
    )


def heuristic(rows: Rows, *, reach: float = 1.0, noise_share: float = 0.1) -> Hyperparameters:
    """A start: lengthscales reach * sqrt(g) standard deviations, the target's variance as signal, a tenth as noise."""
    spread = group_spread(rows)
    power = float(np.mean(np.square(rows.y)))
    return Hyperparameters(
        lengthscales=reach * np.sqrt(len(spread)) * spread,
        signal_variance=power,
        bias_variance=1e-3 * power,
        noise_variance=noise_share * power,
    )


def descend(
    objective: Objective,
    start: Hyperparameters,
    box: Box,
    steps: int,
    *,
    settled: float = 0.0,
    first_step: float = FIRST_STEP,
) -> tuple[Hyperparameters, float]:
    """The best hyperparameters seen in about `steps` evaluations, and their objective; never worse than the start.

    settled: two accepted steps in a row that lower the objective by less are the last ones.
    Raises NumericalError where not even the start can be evaluated.
    """
    lowest, idle = np.inf, 0

    def rest(_: FloatArray, value: float) -> None:
        nonlocal lowest, idle
        idle = idle + 1 if value > lowest - settled else 0
        lowest = min(lowest, value)
        if idle == 2:
            raise StopIteration

    theta, value = minimise(
        lambda theta: objective(hyperparameters_of(theta)), theta_of(start), box, steps, rest, first_step
    )
    return hyperparameters_of(theta), value


def minimise(
    function: Callable[[FloatArray], tuple[float, FloatArray]],
    start: FloatArray,
    box: Box,
    steps: int,
    visit: Callable[[FloatArray, float], None] = lambda _point, _value: None,
    first_step: float = FIRST_STEP,
) -> tuple[FloatArray, float]:
    """The best point of L-BFGS-B in about `steps` evaluations of value and gradient, and its value.

    visit: sees each accepted point and its value, and may raise StopIteration. first_step: how long the first step is,
    in the coordinate that moves most. Raises NumericalError where not even the start can be
    evaluated; a point that cannot be is one the line search comes back from.
    """
    start = box.clip(start)
    best_point, (best_value, gradient) = start, function(start)
    at_start: tuple[float, FloatArray] | None = (best_value, gradient)
    scale = max(float(np.abs(gradient).max()), 1e-12) / first_step

    def scaled(point: FloatArray) -> tuple[float, FloatArray]:
        nonlocal best_value, best_point, at_start
        try:
            value, slope = at_start if at_start and np.array_equal(point, start) else function(point)
            at_start = None
        except NumericalError:
            return 2.0 * (abs(best_value) / scale + 1e3), np.zeros_like(point)
        if value < best_value:
            best_value, best_point = value, point.copy()
        return value / scale, slope / scale

    if steps > 1:
        minimize(
            scaled,
            start,
            jac=True,
            method="L-BFGS-B",
            bounds=list(zip(box.lower, box.upper, strict=True)),
            callback=lambda intermediate_result: visit(intermediate_result.x, scale * intermediate_result.fun),
            options={"maxfun": steps, "maxcor": 20},
        )
    return best_point, best_value


def group_spread(rows: Rows) -> FloatArray:
    """Root mean square of the columns of each lengthscale group, (g,); 1 for a group that is constant."""
    groups = rows.groups
    totals = np.bincount(groups, weights=np.square(rows.X).mean(axis=0))
    counts = np.bincount(groups, weights=(np.abs(rows.X).max(axis=0) > 0).astype(float))
    spread = np.sqrt(totals / np.maximum(counts, 1.0))
    spread[spread == 0.0] = 1.0
    return np.asarray(spread)
