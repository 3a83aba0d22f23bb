"""Powers that make columns with long tails nearly normal.

The power of a column is where the profile likelihood of a normal distribution is highest, with the median as centre or,
where that is likelier, the least value; its unit is the distance of the quartiles, as of a normal distribution.
"""

import numpy as np
from scipy.optimize import minimize_scalar

from core.arrays import BoolArray, FloatArray
from core.input_transform import POWERS, InputTransform, psi

LEAST_GAIN = 0.05
"""Nats a row by which a power must make a column likelier as a normal one, or it stays as it is."""
LEAST_DISTINCT = 6
"""Distinct values of a column below which it has no tail."""
MOST_QUANTILES = 2_000
"""Order statistics that a power is found by, at most."""
LARGEST_SPREAD = 1e100
"""Spread of a column, and one over it, past which it stays as it is: its standardization refuses it by name."""
_NORMAL_QUARTILES = 1.3489795003921634
_TOLERANCE = 1e-3


def yeo_johnson(inputs: FloatArray, alone: BoolArray) -> InputTransform:
    """Return the transform that makes long-tailed columns nearly normal.

    Args:
        inputs: raw, (n, p).
        alone: (p,), the columns that may change: those of numbers, each with a lengthscale of its own.

    Cost O(n p log n).
    """
    table = np.ones((3, inputs.shape[1]))
    table[0] = 0.0
    for column in np.flatnonzero(alone):
        found = _likeliest(np.sort(inputs[:, column]))
        if found is not None:
            table[:, column] = found
    return InputTransform(table=table) if (table[2] != 1.0).any() else InputTransform()


def _likeliest(ordered: FloatArray) -> tuple[float, float, float] | None:
    """Return centre, unit and power of a column (n,), increasing; None where it had better stay as it is."""
    spread = float(ordered[-1] - ordered[0])
    if not 1.0 / LARGEST_SPREAD < spread < LARGEST_SPREAD or len(np.unique(ordered)) < LEAST_DISTINCT:
        return None
    if len(ordered) > MOST_QUANTILES:
        ordered = ordered[np.linspace(0, len(ordered) - 1, MOST_QUANTILES).astype(np.int64)]
    low, median, high = np.quantile(ordered, (0.25, 0.5, 0.75))
    unit = float(high - low) / _NORMAL_QUARTILES or float(np.std(ordered))
    if not unit > spread / LARGEST_SPREAD:
        return None
    best: tuple[float, float, float] | None = None
    plain = 0.5 * float(np.log(np.var(ordered / unit)))
    least = plain - LEAST_GAIN
    for centre in (float(median), float(ordered[0])):
        u = (ordered - centre) / unit
        power, loss = _power_of(u)
        if loss < least:
            best, least = (centre, unit, power), loss
    return best


def _power_of(u: FloatArray) -> tuple[float, float]:
    """Return the likeliest power for u (n,), and the negative log likelihood there but for a constant, nats a row."""
    slope = float(np.mean(np.sign(u) * np.log1p(np.abs(u))))

    def loss(power: float) -> float:
        return 0.5 * float(np.log(np.var(psi(u, np.array(power))))) - (power - 1.0) * slope

    found = minimize_scalar(loss, bounds=POWERS, method="bounded", options={"xatol": _TOLERANCE})
    return float(found.x), float(found.fun)
