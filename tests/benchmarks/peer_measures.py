"""Measurements of a trained peer: scores, time of a prediction, memory."""

import time
from collections.abc import Callable
from pathlib import Path
from statistics import NormalDist
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
Predict = Callable[[FloatArray], tuple[FloatArray, FloatArray]]
"""Inputs (m, p) to mean (m,) and variance (m,) of a new target, noise included."""

TEST_BLOCK = 1_000
LEVELS = (0.5, 0.8, 0.95, 0.99)
LOOKS, LOOK_SECONDS = 200, 1.5
"""A prediction is timed so often, or for so long."""


class Distribution(Protocol):
    """A predictive distribution that is not normal (`core.predict.mixture.Distribution`)."""

    def moments(self) -> tuple[FloatArray, FloatArray]: ...
    def log_density(self, targets: FloatArray) -> FloatArray: ...
    def quantile(self, probability: float) -> FloatArray: ...


def scores(predict: Predict, Xs: FloatArray, ys: FloatArray) -> dict[str, Any]:
    """NMSE, NLPD of the normal distribution, and its coverage at LEVELS in %, block by block as memory asks."""
    blocks = [predict(block) for block in _blocks(Xs)]
    mean, variance = (np.concatenate(parts).astype(np.float64) for parts in zip(*blocks, strict=True))
    squares = np.square(ys - mean)
    return {
        "nmse": float(squares.mean() / np.var(ys)),
        "nlpd": float(0.5 * np.mean(squares / variance + np.log(2.0 * np.pi * variance))),
        "coverage": [100.0 * float(np.mean(squares <= _half_width(level) ** 2 * variance)) for level in LEVELS],
    }


def scores_of(predict: Callable[[FloatArray], Distribution], Xs: FloatArray, ys: FloatArray) -> dict[str, Any]:
    """The same of distributions that have a density and quantiles of their own."""
    squares, loss = np.empty(len(ys)), np.empty(len(ys))
    inside = np.empty((len(LEVELS), len(ys)), bool)
    first = 0
    for block in _blocks(Xs):
        predicted, places = predict(block), slice(first, first + len(block))
        squares[places] = np.square(ys[places] - predicted.moments()[0])
        loss[places] = -predicted.log_density(ys[places])
        for number, level in enumerate(LEVELS):
            lower, upper = predicted.quantile(0.5 - level / 2.0), predicted.quantile(0.5 + level / 2.0)
            inside[number, places] = (lower <= ys[places]) & (ys[places] <= upper)
        first += len(block)
    return {
        "nmse": float(squares.mean() / np.var(ys)),
        "nlpd": float(loss.mean()),
        "coverage": [100.0 * float(each.mean()) for each in inside],
    }


def _blocks(Xs: FloatArray) -> list[FloatArray]:
    return [Xs[first : first + TEST_BLOCK] for first in range(0, len(Xs), TEST_BLOCK)]


def _half_width(level: float) -> float:
    """Half of a normal distribution's central interval, in standard deviations."""
    return NormalDist().inv_cdf(0.5 + level / 2.0)


def microseconds(predict: Predict, rows: FloatArray) -> float:
    """A row, the median of several calls after a first one."""
    predict(rows)
    spent: list[float] = []
    while not spent or (len(spent) < LOOKS and sum(spent) < LOOK_SECONDS):
        begin = time.perf_counter()
        predict(rows)
        spent.append(time.perf_counter() - begin)
    return float(np.median(spent)) / len(rows) * 1e6


def peak_mib() -> float:
    """Peak memory of this process, its imports included. The kernel's other count takes in who started it."""
    status = Path("/proc/self/status")
    if status.exists():
        for line in status.read_text(encoding="utf-8").splitlines():
            if line.startswith("VmHWM"):
                return int(line.split()[1]) / 1024
    return float("nan")
