"""What peers have in common: where their Gaussian processes begin, and what each of them gives back."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tests.benchmarks.peer_measures import Distribution, FloatArray, Predict

BASIS_SIZE = 500
SIGNAL, NOISE = 1.0, 0.1
ITERATIONS, EPOCHS, ON_THE_WAY = 100, 20, (0.125, 0.25, 0.5)
"""Iterative peers are measured after these shares of its iterations or epochs as well."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """A peer on its way: what it could predict after so many seconds. Made afterwards, off its clock."""

    seconds: float
    predict: Callable[[], Predict]


@dataclass(frozen=True, slots=True, kw_only=True)
class Trained:
    """Result of a peer. distribution: what it predicts where that is not normal; certain: whether it has no error bars;
    size: bytes of what has to be kept to predict; note: for the table."""

    predict: Predict
    distribution: Callable[[FloatArray], Distribution] | None = None
    certain: bool = False
    size: int | None = None
    note: str = ""
    stops: tuple[Stop, ...] = ()


def lengthscales(X: FloatArray) -> FloatArray:
    """One for each column (p,), of sqrt(columns)."""
    return np.full(X.shape[1], np.sqrt(X.shape[1]))


def looks(most: int) -> frozenset[int]:
    """Return after how many of the iterations a peer is looked at on its way."""
    return frozenset(round(share * most) for share in ON_THE_WAY)


def random_rows(X: FloatArray, count: int) -> FloatArray:
    """Return so many rows, the same for all peers."""
    return X[np.random.default_rng(0).permutation(len(X))[:count]].copy()
