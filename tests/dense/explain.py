"""Shapley values over all subsets and Sobol' indices over all points, from the mean at every combination of points."""

from collections.abc import Callable, Sequence
from itertools import combinations, product
from math import factorial
from typing import NamedTuple

import numpy as np

from tests.dense.kernel import FloatArray

Mean = Callable[[FloatArray], FloatArray]
"""Mean of rows (m, p), (m,)."""


class Feature(NamedTuple):
    """Columns of one feature, its points (N, width) and their probabilities (N,)."""

    columns: slice
    points: FloatArray
    probabilities: FloatArray


def grid(features: Sequence[Feature], p: int) -> tuple[FloatArray, FloatArray]:
    """Every combination of points as a row, (N, p), and its probability (N,), the last feature fastest."""
    rows, probabilities = [], []
    for places in product(*(range(len(feature.points)) for feature in features)):
        row, probability = np.empty(p), 1.0
        for place, feature in zip(places, features, strict=True):
            row[feature.columns] = feature.points[place]
            probability *= float(feature.probabilities[place])
        rows.append(row)
        probabilities.append(probability)
    return np.array(rows), np.array(probabilities)


def worth(mean: Mean, features: Sequence[Feature], x: FloatArray, known: Sequence[int]) -> float:
    """Mean expected where the features with these numbers are those of x (p,)."""
    rows, probabilities = grid(features, len(x))
    for number in known:
        rows[:, features[number].columns] = x[features[number].columns]
    return float(probabilities @ mean(rows))


def shapley(mean: Mean, features: Sequence[Feature], x: FloatArray) -> FloatArray:
    """Each feature's part of the mean at x, (f,): the average over all orders of what knowing it changes."""
    f = len(features)
    found = np.zeros(f)
    for number in range(f):
        others = [other for other in range(f) if other != number]
        for size in range(f):
            weight = factorial(size) * factorial(f - 1 - size) / factorial(f)
            for known in combinations(others, size):
                gain = worth(mean, features, x, (*known, number)) - worth(mean, features, x, known)
                found[number] += weight * gain
    return found


class Indices(NamedTuple):
    """Variance of the mean, and the shares of each feature in it."""

    variance: float
    first: FloatArray
    total: FloatArray


def sobol(mean: Mean, features: Sequence[Feature], p: int) -> Indices:
    """Indices by summing over all combinations of points."""
    rows, _ = grid(features, p)
    values = mean(rows).reshape([len(feature.points) for feature in features])

    def expected(array: FloatArray, over: Sequence[int]) -> FloatArray:
        """Mean over these features, whose axes stay, with one place each."""
        for number in over:
            shape = [1] * len(features)
            shape[number] = -1
            array = (array * features[number].probabilities.reshape(shape)).sum(axis=number, keepdims=True)
        return array

    def variance(array: FloatArray, over: Sequence[int]) -> FloatArray:
        return np.asarray(expected(np.square(array), over) - np.square(expected(array, over)))

    everything = range(len(features))
    whole = variance(values, everything).item()
    first, total = np.empty(len(features)), np.empty(len(features))
    for number in everything:
        others = [other for other in everything if other != number]
        first[number] = variance(expected(values, others), [number]).item() / whole
        total[number] = expected(variance(values, [number]), others).item() / whole
    return Indices(whole, first, total)
