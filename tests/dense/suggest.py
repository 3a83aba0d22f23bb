"""Rows to measure next, by trying each of them: the whole covariance with it measured, improvement by integration."""

import numpy as np

from tests.dense.kernel import FloatArray


def measured(Sigma: FloatArray, noise: FloatArray, place: int) -> FloatArray:
    """Covariance of all rows once a noisy target at one of them is known, (m, m)."""
    column = Sigma[:, [place]]
    return np.asarray(Sigma - column @ column.T / (Sigma[place, place] + noise[place]))


def best_for_region(Sigma: FloatArray, noise: FloatArray, candidates: int, count: int) -> tuple[list[int], list[float]]:
    """Greedy picks among the first rows, by the mean variance that each leaves over all others, and these gains."""
    picked: list[int] = []
    gains: list[float] = []
    for _ in range(count):
        before = float(np.diag(Sigma)[candidates:].mean())
        gain = {
            place: before - float(np.diag(measured(Sigma, noise, place))[candidates:].mean())
            for place in range(candidates)
            if place not in picked
        }
        best = max(gain, key=lambda place: gain[place])
        picked.append(best)
        gains.append(gain[best])
        Sigma = measured(Sigma, noise, best)
    return picked, gains


def improvement(mean: float, deviation: float, best: float) -> float:
    """E max(f - best, 0), by the trapezoidal rule over twelve standard deviations to each side."""
    f = mean + deviation * np.linspace(-12.0, 12.0, 20_001)
    density = np.exp(-0.5 * ((f - mean) / deviation) ** 2) / (deviation * np.sqrt(2.0 * np.pi))
    return float(np.trapezoid(np.maximum(f - best, 0.0) * density, f))
