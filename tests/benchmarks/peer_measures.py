"""Measurements of a trained peer: scores, time of a prediction, memory."""

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
Predict = Callable[[FloatArray], tuple[FloatArray, FloatArray]]
"""Inputs (m, p) to mean (m,) and variance (m,) of a new target, noise included."""

TEST_BLOCK = 1_000
LOOKS, LOOK_SECONDS = 200, 1.5
"""A prediction is timed so often, or for so long."""


def scores(predict: Predict, deviations: float, Xs: FloatArray, ys: FloatArray) -> dict[str, float]:
    """NMSE, NLPD of the normal distribution and coverage, block by block as memory asks.

    deviations: half of the 95% interval, in standard deviations.
    """
    blocks = [predict(Xs[first : first + TEST_BLOCK]) for first in range(0, len(Xs), TEST_BLOCK)]
    mean, variance = (np.concatenate(parts).astype(np.float64) for parts in zip(*blocks, strict=True))
    squares = np.square(ys - mean)
    return {
        "nmse": float(squares.mean() / np.var(ys)),
        "nlpd": float(0.5 * np.mean(squares / variance + np.log(2.0 * np.pi * variance))),
        "coverage": float(np.mean(squares <= deviations**2 * variance)),
    }


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
