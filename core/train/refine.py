"""Basis vectors that move: after the greedy choice, theta and Z go on together.

The chosen rows are a start. The objective has a gradient in Z from arrays that are there already, so L-BFGS over
(theta, Z) costs no more a step than over theta (Snelson & Ghahramani 2006 for FITC; Titsias 2009 for VFE). What can go
wrong is overfitting, of Z to the noise and above all of s2 towards zero: so the noise has a floor, a share of where it
began, and the point that is kept is the one with the best leave-one-out loss, looked at every few steps.
DTC and SoR have no term that holds the basis to the prior: they must not be refined.
"""

from collections.abc import Callable

import numpy as np

from core.arrays import FloatArray
from core.hyperparameters import Hyperparameters
from core.process.rows import Rows
from core.process.theta import Box, Theta
from core.sparse.factors import factorise
from core.sparse.leave_one_out import leave_one_out_loss
from core.sparse.likelihood import nlml_and_gradients
from core.sparse.scheme import Scheme
from core.train.optimise import minimise

NOISE_FLOOR_SHARE = 0.1
LOOK_EVERY = 5
PATIENCE = 3
"""Looks without a better leave-one-out loss after which it ends."""


def refine(
    rows: Rows,
    Z: FloatArray,
    hyperparameters: Hyperparameters,
    scheme: Scheme,
    box: Box,
    steps: int,
    tell: Callable[[float], None] = lambda _: None,
) -> tuple[FloatArray, Hyperparameters, float]:
    """Z (d, p) and theta with the best leave-one-out NLPD within about `steps` evaluations, and that NLPD.

    tell: hears the objective after each evaluation. Never worse than the start by the loss it stops on.
    O(steps n d^2). Raises NumericalError where not even the start can be evaluated.
    """
    split = Theta.size(len(hyperparameters.lengthscales))
    bounds = box.with_noise_floor(NOISE_FLOOR_SHARE * hyperparameters.noise_variance).followed_by(Z.size)

    def apart(point: FloatArray) -> tuple[Hyperparameters, FloatArray]:
        theta = Theta(values=point[:split])
        return theta.hyperparameters(hyperparameters.kernel), point[split:].reshape(Z.shape)

    last_loss: tuple[FloatArray, float] | None = None

    def objective(point: FloatArray) -> tuple[float, FloatArray]:
        nonlocal last_loss
        theta, basis = apart(point)
        found = nlml_and_gradients(rows, basis, theta, scheme)
        last_loss = None if found.left_out_loss is None else (point.copy(), found.left_out_loss)
        tell(found.value)
        return found.value, np.concatenate((found.by_theta, found.by_basis.ravel()))

    def loss(point: FloatArray) -> float:
        """Mostly of the point that was evaluated last."""
        if last_loss is not None and np.array_equal(last_loss[0], point):
            return last_loss[1]
        theta, basis = apart(point)
        return leave_one_out_loss(factorise(rows, basis, theta, scheme, keep=False))

    start = np.concatenate((Theta.of(hyperparameters).values, Z.ravel()))
    best_point, best_loss = start, loss(start)
    visits = looks_without = 0

    def look(point: FloatArray, _: float) -> None:
        nonlocal best_point, best_loss, visits, looks_without
        visits += 1
        if visits % LOOK_EVERY:
            return
        looks_without += 1
        found = loss(point)
        if found < best_loss:
            best_point, best_loss, looks_without = point.copy(), found, 0
        if looks_without >= PATIENCE:
            raise StopIteration

    last, _ = minimise(objective, start, bounds, steps, look)
    if loss(last) < best_loss:
        best_point, best_loss = last, loss(last)
    theta, basis = apart(best_point)
    return basis, theta, best_loss
