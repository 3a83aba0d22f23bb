"""Transforms of the inputs before they are standardized: Yeo and Johnson's family (2000), each column by its own power.

    u = (x - centre) / unit,    psi(u; c) = ((1 + u)^c - 1) / c, u >= 0;    -((1 - u)^(2 - c) - 1) / (2 - c), u < 0

The distances that a kernel sees in a column with a long tail are those of its few largest values; under a power that
makes it nearly normal they are those of the many. c is where the profile likelihood of a normal distribution is
highest, with the median as centre or, where that is likelier, the least value.
"""

from dataclasses import dataclass, field

import numpy as np
from scipy.optimize import minimize_scalar

from core.arrays import BoolArray, FloatArray, IntArray, frozen
from core.errors import InvalidDataError

POWERS = (1e-3, 2.0 - 1e-3)
"""Range of the powers: within it psi maps all numbers to all numbers, and no exponent is zero."""
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
_LARGEST_LOGARITHM = 700.0
"""Logarithm of 1 + |psi|, times its exponent, that is held: past it predictions are those far from all rows anyway, and
a column that was constant divides by infinity."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class InputTransform:
    """psi of some columns. table (3, p): centre, unit and power of each column, one of power 1 stays as it is; (3, 0),
    the default: all of them do. columns (q,): those that do not.

    Raises InvalidDataError for numbers that are no transform.
    """

    table: FloatArray = field(default_factory=lambda: np.empty((3, 0)))
    columns: IntArray = field(init=False)

    def __post_init__(self) -> None:
        table = frozen(self.table)
        if table.ndim != 2 or len(table) != 3:
            raise InvalidDataError(f"input_transform: expected shape (3, columns), got {table.shape}")
        _, unit, power = table
        inside = (power >= POWERS[0]) & (power <= POWERS[1])
        if not (np.isfinite(table).all() and (unit > 0.0).all() and inside.all()):
            low, high = POWERS
            raise InvalidDataError(
                f"input_transform: expected finite centres, units above zero and powers from {low:g} to {high:g}"
            )
        columns = np.flatnonzero(power != 1.0)
        columns.flags.writeable = False
        object.__setattr__(self, "table", table)
        object.__setattr__(self, "columns", columns)

    @property
    def chosen(self) -> FloatArray:
        """Centre, unit and power of the columns that change, (3, q)."""
        return np.asarray(self.table[:, self.columns])

    def forward(self, inputs: FloatArray) -> FloatArray:
        """Raw inputs (m, p) as they are standardized, (m, p)."""
        if not len(self.columns):
            return inputs
        centre, unit, power = self.chosen
        found = np.array(inputs, dtype=np.float64)
        found[:, self.columns] = _psi((found[:, self.columns] - centre) / unit, power)
        return found

    def inverse(self, inputs: FloatArray) -> FloatArray:
        """Raw inputs (m, p) whose `forward` these are."""
        if not len(self.columns):
            return inputs
        centre, unit, power = self.chosen
        found = np.array(inputs, dtype=np.float64)
        found[:, self.columns] = _psi_inverse(found[:, self.columns], power) * unit + centre
        return found


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
        return 0.5 * float(np.log(np.var(_psi(u, np.array(power))))) - (power - 1.0) * slope

    found = minimize_scalar(loss, bounds=POWERS, method="bounded", options={"xatol": _TOLERANCE})
    return float(found.x), float(found.fun)


def _psi(u: FloatArray, power: FloatArray) -> FloatArray:
    size = np.abs(u)
    exponent = np.where(u < 0.0, 2.0 - power, power)
    raised = np.expm1(np.minimum(exponent * np.log1p(size), _LARGEST_LOGARITHM))
    return np.asarray(np.copysign(raised / exponent, u))


def _psi_inverse(z: FloatArray, power: FloatArray) -> FloatArray:
    size = np.abs(z)
    exponent = np.where(z < 0.0, 2.0 - power, power)
    grown = np.expm1(np.minimum(np.log1p(exponent * size) / exponent, _LARGEST_LOGARITHM))
    return np.asarray(np.copysign(grown, z))
