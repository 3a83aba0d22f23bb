"""Quasi-Newton descent of a criterion that changes with its basis (Seeger et al. 2003, section 2.3).

The basis is chosen again before each search direction and kept during the line search. Curvature is learnt from two
gradients with the same basis: L-BFGS, its pairs of one line search each. The line search halves the step until the
criterion falls enough (Armijo). It ends after so many iterations, or when no step along the gradient lowers the
criterion, or when it falls by next to nothing.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from core.arrays import FloatArray
from core.errors import NumericalError
from core.hyperparameters import Hyperparameters
from core.process.theta import Box
from core.train.optimise import FIRST_STEP, Objective
from tests.core.problems import hyperparameters_of, theta_of

MEMORY, HALVINGS = 20, 12
ENOUGH = 1e-4
"""Share of the decrease that the slope predicts."""
LONGEST = 2.0
"""Step of any logarithm of a hyperparameter in one iteration."""
SETTLED = 1e-7
"""Relative fall of the criterion at which it ends, three times in a row."""


@dataclass(slots=True, eq=False)
class Trace:
    """thetas: of each iteration. values: of the criterion there, with the basis chosen there. end: the last theta."""

    thetas: list[FloatArray] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    end: FloatArray = field(default_factory=lambda: np.empty(0))

    @property
    def visited(self) -> list[Hyperparameters]:
        """Hyperparameters of each iteration."""
        return [hyperparameters_of(theta) for theta in self.thetas]

    @property
    def hyperparameters(self) -> Hyperparameters:
        """Hyperparameters at the end."""
        return hyperparameters_of(self.end)


def descend(choose: Callable[[Hyperparameters], Objective], start: Hyperparameters, box: Box, iterations: int) -> Trace:
    """choose(theta): the criterion with the basis that belongs to theta. An evaluation or two an iteration."""
    trace, theta, idle = Trace(), box.clip(theta_of(start)), 0
    pairs: list[tuple[FloatArray, FloatArray]] = []
    for _ in range(iterations):
        objective = choose(hyperparameters_of(theta))
        value, gradient = objective(hyperparameters_of(theta))
        trace.thetas.append(theta)
        trace.values.append(value)
        found = _search(objective, theta, value, gradient, _direction(gradient, pairs), box)
        if found is None and pairs:
            pairs = []
            found = _search(objective, theta, value, gradient, _direction(gradient, pairs), box)
        if found is None:
            break
        point, reached, slope = found
        step, turn = point - theta, slope - gradient
        if step @ turn > 1e-10 * np.linalg.norm(step) * np.linalg.norm(turn):
            pairs = [*pairs, (step, turn)][-MEMORY:]
        theta = point
        idle = idle + 1 if value - reached < SETTLED * abs(value) else 0
        if idle == 3:
            break
    trace.end = theta
    return trace


def _direction(gradient: FloatArray, pairs: list[tuple[FloatArray, FloatArray]]) -> FloatArray:
    """Minus the inverse curvature times the gradient (Nocedal & Wright, algorithm 7.4); downhill, and never too far."""
    along, shares = gradient.copy(), []
    for step, turn in reversed(pairs):
        share = float(step @ along) / float(step @ turn)
        along -= share * turn
        shares.append(share)
    if pairs:
        step, turn = pairs[-1]
        along *= float(step @ turn) / float(turn @ turn)
    else:
        along *= FIRST_STEP / max(float(np.abs(gradient).max()), 1e-12)
    for (step, turn), share in zip(pairs, reversed(shares), strict=True):
        along += step * (share - float(turn @ along) / float(step @ turn))
    return -along * min(1.0, LONGEST / max(float(np.abs(along).max()), 1e-12))


def _search(
    objective: Objective, theta: FloatArray, value: float, gradient: FloatArray, direction: FloatArray, box: Box
) -> tuple[FloatArray, float, FloatArray] | None:
    """The first point along the direction that is low enough, its value and gradient; None where there is none."""
    length = 1.0
    for _ in range(HALVINGS):
        point = box.clip(theta + length * direction)
        promised = float(gradient @ (point - theta))
        if promised >= 0.0:
            return None
        try:
            reached, slope = objective(hyperparameters_of(point))
        except NumericalError:
            reached, slope = np.inf, gradient
        if reached <= value + ENOUGH * promised:
            return point, reached, slope
        length *= 0.5
    return None
