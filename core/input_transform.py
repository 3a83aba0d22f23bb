"""Transforms of the inputs before they are standardized: Yeo and Johnson's family (2000), each column by its own power.

    u = (x - centre) / unit,    psi(u; c) = ((1 + u)^c - 1) / c, u >= 0;    -((1 - u)^(2 - c) - 1) / (2 - c), u < 0

The distances that a kernel sees in a column with a long tail are those of its few largest values; under a power that
makes it nearly normal (`core.train.input_powers`) they are those of the many.
"""

from dataclasses import dataclass, field

import numpy as np

from core.arrays import FloatArray, IntArray, frozen
from core.errors import InvalidDataError

POWERS = (1e-3, 2.0 - 1e-3)
"""Range of the powers: within it psi maps all numbers to all numbers, and no exponent is zero."""
LARGEST_LOGARITHM = 700.0
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
        with np.errstate(over="ignore"):
            found[:, self.columns] = psi((found[:, self.columns] - centre) / unit, power)
        return found

    def inverse(self, inputs: FloatArray) -> FloatArray:
        """Raw inputs (m, p) whose `forward` these are."""
        if not len(self.columns):
            return inputs
        centre, unit, power = self.chosen
        found = np.array(inputs, dtype=np.float64)
        found[:, self.columns] = _psi_inverse(found[:, self.columns], power) * unit + centre
        return found


def psi(u: FloatArray, power: FloatArray) -> FloatArray:
    """Return Yeo and Johnson's map of u at these powers, of any shapes that broadcast."""
    size = np.abs(u)
    exponent = np.where(u < 0.0, 2.0 - power, power)
    raised = np.expm1(np.minimum(exponent * np.log1p(size), LARGEST_LOGARITHM))
    return np.asarray(np.copysign(raised / exponent, u))


def _psi_inverse(z: FloatArray, power: FloatArray) -> FloatArray:
    size = np.abs(z)
    exponent = np.where(z < 0.0, 2.0 - power, power)
    grown = np.expm1(np.minimum(np.log1p(exponent * size) / exponent, LARGEST_LOGARITHM))
    return np.asarray(np.copysign(grown, z))
