"""Moving the hyperparameters: L-BFGS-B in theta = log hyperparameters, inside a box, with the basis held fixed.

Two things keep a descent from the all-noise optimum, where peers end silently: the box, in units of the data's own
spread, and the scale of the objective. L-BFGS-B takes its first step along the bare gradient, which for a likelihood
of thousands of rows leaps across the box; dividing the objective by the gradient's size makes that step FIRST_STEP
long in log units. Later steps do not feel the scale.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from scipy.optimize import minimize

from core.arrays import FloatArray
from core.errors import NumericalError
from core.hyperparameters import Hyperparameters, KernelFamily
from core.process.rows import Rows
from core.process.theta import Box, Theta

FIRST_STEP = 0.5
LENGTHSCALE_RANGE = (0.02, 100.0)
"""Range in standard deviations of the column: from a lookup table to a column that does not matter. Longer ones change
nothing any more, and a descent does not come back from them: the gradient in log w fades with w."""
SIGNAL_RANGE, BIAS_RANGE, NOISE_RANGE = (1e-3, 1e2), (1e-6, 1e1), (1e-8, 2.0)
"""Ranges in variances of the target. The noise floor also bounds how badly conditioned the factors can get."""
START_NOISE = 0.005
"""Noise that a climb on many rows starts with at least, in variances of the target: where it is next to nothing the
likelihood no longer feels it, and a rough kernel on a few hundred rows ends there."""
COUNTED_COLUMNS = 6.0
"""Columns of a group that its spread is a mean over, at most."""

Objective = Callable[[Hyperparameters], tuple[float, FloatArray]]


def box(rows: Rows) -> Box:
    """Bounds in units of the rows' own spread, so that they fit data that were not standardized too."""
    spread = group_spread(rows)
    power = rows.mean_square
    noise_range = NOISE_RANGE
    if rows.weighted:  # that of the row that counts most has the same floor
        noise_range = min(NOISE_RANGE[0] * float(rows.weights.max()), 0.01 * NOISE_RANGE[1]), NOISE_RANGE[1]
    longest, shortest = LENGTHSCALE_RANGE[1] * spread, LENGTHSCALE_RANGE[0] * spread

    def bound(lengthscales: FloatArray, end: int) -> FloatArray:
        variances = (power * limits[end] for limits in (SIGNAL_RANGE, BIAS_RANGE, noise_range))
        signal, bias, noise = variances
        return np.log(Theta.assemble(weights=0.5 / lengthscales**2, signal=signal, bias=bias, noise=noise))

    return Box(lower=bound(longest, 0), upper=bound(shortest, 1))


def heuristic(
    rows: Rows, *, reach: float = 1.0, noise_share: float = 0.1, kernel: KernelFamily = KernelFamily.GAUSSIAN
) -> Hyperparameters:
    """A start: lengthscales reach * sqrt(g) standard deviations, the target's variance as signal, a tenth as noise."""
    spread = group_spread(rows)
    power = rows.mean_square
    return Hyperparameters(
        lengthscales=reach * np.sqrt(len(spread)) * spread,
        signal_variance=power,
        bias_variance=1e-3 * power,
        noise_variance=noise_share * power,
        kernel=kernel,
    )


def noisy(theta: Hyperparameters, rows: Rows) -> Hyperparameters:
    """Return theta with as much noise as a climb starts with at least."""
    return replace(theta, noise_variance=max(theta.noise_variance, START_NOISE * rows.mean_square))


def half_way(first: Hyperparameters, second: Hyperparameters) -> Hyperparameters:
    """Return the geometric mean of both, with the kernel of the first."""
    return Theta(values=0.5 * (Theta.of(first).values + Theta.of(second).values)).hyperparameters(first.kernel)


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

    def hyperparameters(values: FloatArray) -> Hyperparameters:
        return Theta(values=values).hyperparameters(start.kernel)

    values, value = minimise(
        lambda values: objective(hyperparameters(values)), Theta.of(start).values, box, steps, rest, first_step
    )
    return hyperparameters(values), value


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
    """Root mean square of the columns of each group, (g,), COUNTED_COLUMNS of them at most; 1 for a constant group.

    A group's squared distance is a sum over its columns: of 140 levels, that of two is 280 times the mean square. With
    the mean over all, a search would begin with levels apart by exp(-70), where the gradient is nothing, and end there.
    """
    groups = rows.groups
    totals = np.bincount(groups, weights=np.square(rows.X).mean(axis=0))
    counts = np.bincount(groups, weights=(np.abs(rows.X).max(axis=0) > 0).astype(float))
    spread = np.sqrt(totals / np.clip(counts, 1.0, COUNTED_COLUMNS))
    spread[spread == 0.0] = 1.0
    return np.asarray(spread)
