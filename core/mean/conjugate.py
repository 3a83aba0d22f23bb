"""Preconditioned conjugate gradients for several right-hand sides in lockstep, stopped on what is predicted.

    A alpha_c = b_c for every column c, with A P for all columns in one pass of kernel values

Each column has step sizes of its own (Hestenes & Stiefel 1952; preconditioned as in Golub & Van Loan 2013, 11.5.2), and
a space of its own where its rows are masked: the system's `apply` and `precondition` keep each column inside.

What counts is how far the predictions still are from those of the solution, against their errors. `predictions` of
alpha are linear in it, so that they are carried along with the steps at no cost. Iterations end when over the last
WINDOW of them the watched predictions changed by less than `tolerance` times the root mean square of their errors, and
when in every column the system's own bound on what is missing is below UNSOLVED times that error: where the noise is
tiny, predictions hardly move for a while at the start. Columns may be of several targets, each with errors of its own:
iterations then end when those of every target have.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from core.arrays import FloatArray

UNSOLVED = 0.1
"""Missing part of the predictions against their errors, at most: squared errors are then 1% too large, or less."""
WINDOW = 5
"""Iterations over which a change is measured: a single one may move little where the next ones do not."""
FALL, FEW = 0.3, WINDOW + 3.0
"""Fall of the logarithm of what is missing in an iteration, before one is seen, and iterations that are expected before
there is a change: where there is much noise, and tables are large, they are enough."""


class System(Protocol):
    """Symmetric positive definite systems with one matrix, r columns of unknowns."""

    def apply(self, vectors: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return A P, (m, r), and the predictions of P at all rows, (n, r)."""
        ...

    def precondition(self, residuals: FloatArray) -> FloatArray:
        """Return an approximate A^-1 R, (m, r), symmetric and positive definite for each column."""
        ...

    def missing(self, residuals: FloatArray, energies: FloatArray) -> FloatArray:
        """Return how far predictions are from the solution's, root mean square over rows, about: (r,).

        Args:
            residuals: R, (m, r).
            energies: R' P^-1 R of each column, (r,), with P the preconditioner.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopping:
    """When iterations end: the relative change of watched predictions over WINDOW iterations, or their number."""

    tolerance: float = 5e-2
    most: int = 300


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Iteration:
    """Progress after one iteration.

    number: from 1. change: of the watched predictions over the last WINDOW iterations, as a share of their error;
    infinite before. fraction: estimated share of the work that is done, never falling. unknowns: the columns so far,
    (m, r), from which the iterations can go on; to be copied by who keeps them.
    """

    number: int
    change: float
    fraction: float
    unknowns: FloatArray


Listener = Callable[[Iteration], None]
"""Hears of each iteration; may raise to end the work."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Solved:
    """Unknowns (m, r), their predictions at all rows (n, r), iterations taken, last change, whether it was small
    enough."""

    unknowns: FloatArray
    predictions: FloatArray
    iterations: int
    change: float
    settled: bool


def solve(
    system: System,
    right: FloatArray,
    errors: Callable[[FloatArray], FloatArray],
    stopping: Stopping,
    *,
    listen: Listener = lambda _: None,
    resume: FloatArray | None = None,
) -> Solved:
    """Solve all columns in lockstep.

    Args:
        system: the matrix and its preconditioner.
        right: b, (m, r).
        errors: predictions (n, r) -> the errors that are watched, (m,), or (targets, m) of columns sorted by target.
        stopping: when to end.
        listen: hears of each iteration.
        resume: unknowns to go on from, (m, r); directions begin anew, so that numbers differ from those of an
            uninterrupted run by less than the tolerance.

    Returns:
        What was found; not settled where `stopping.most` iterations were not enough.
    """
    unknowns = np.zeros_like(right) if resume is None else resume.copy()
    if resume is None:
        applied, predictions = np.zeros_like(right), None
    else:
        applied, predictions = system.apply(unknowns)
    residuals = right - applied
    ahead = system.precondition(residuals)
    directions, products = ahead.copy(), _dots(residuals, ahead)
    watched: list[FloatArray] = [] if predictions is None else [errors(predictions)]
    progress, change, number, settled = _Fraction(stopping.most), np.inf, 0, False
    while number < stopping.most:
        image, predicted = system.apply(directions)
        steps = _ratio(products, _dots(directions, image))
        unknowns += steps * directions
        predictions = steps * predicted if predictions is None else predictions + steps * predicted
        residuals -= steps * image
        number += 1
        watched = [*watched[-WINDOW:], errors(predictions)]
        change = _change(watched)
        ahead = system.precondition(residuals)
        last, products = products, _dots(residuals, ahead)
        missing = system.missing(residuals, products).reshape(*watched[-1].shape[:-1], -1).max(axis=-1)
        unsolved = float(np.max(missing / _size(watched[-1])))
        excesses = change / stopping.tolerance, unsolved / UNSOLVED
        settled = max(excesses) <= 1.0
        fraction = progress.after(number, *excesses)
        listen(Iteration(number=number, change=change, fraction=fraction, unknowns=unknowns))
        if settled:
            break
        directions = ahead + _ratio(products, last) * directions
    assert predictions is not None
    return Solved(
        unknowns=unknowns,
        predictions=predictions,
        iterations=number,
        change=change,
        settled=settled,
    )


def _dots(left: FloatArray, right: FloatArray) -> FloatArray:
    """Inner product of each column, (r,)."""
    return np.asarray(np.einsum("ic,ic->c", left, right))


def _ratio(over: FloatArray, under: FloatArray) -> FloatArray:
    """Quotient of each column; 0 where a column is solved to the last bit and nothing is left to divide by."""
    solved = under <= np.finfo(float).tiny
    return np.where(solved, 0.0, over / np.where(solved, 1.0, under))


def _change(watched: list[FloatArray]) -> float:
    """Root mean square of what the last WINDOW iterations changed, over that of the errors; of the worst target."""
    if len(watched) <= WINDOW:
        return np.inf
    return float(np.max(_size(watched[-1] - watched[0]) / _size(watched[-1])))


def _size(values: FloatArray) -> FloatArray:
    """Root mean square of each target, above zero."""
    return np.asarray(np.maximum(np.sqrt(np.mean(np.square(values), axis=-1)), np.finfo(float).tiny))


class _Fraction:
    """Share of the work done, by the iteration after which nothing is above its limit any more."""

    def __init__(self, most: int) -> None:
        self._most, self._fraction = most, 0.0
        self._changes, self._unsolved = _Falling(), _Falling()

    def after(self, number: int, change: float, unsolved: float) -> float:
        """Return the share after an iteration. change, unsolved: over what each may be."""
        known = self._changes.end(number, change) if np.isfinite(change) else FEW
        end = min(max(known, self._unsolved.end(number, unsolved)), float(self._most))
        self._fraction = min(max(self._fraction, number / end), 1.0)
        return self._fraction


class _Falling:
    """What has to fall below 1, as if its logarithm fell evenly."""

    def __init__(self) -> None:
        self._first: tuple[int, float] | None = None

    def end(self, number: int, excess: float) -> float:
        """Return the iteration after which it will have, given its value after one; that one where it has already."""
        above = float(np.log(max(excess, 1.0)))
        if self._first is None:
            self._first = number, above
        begun, before = self._first
        fall = (before - above) / (number - begun) if above < before else FALL
        return number + float(np.ceil(above / fall))
