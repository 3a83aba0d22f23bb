"""Single rows that were predicted by a fit which had not seen them, for plots of predicted against true values.

They are at most so many, evenly spread over all such rows, so that what is kept of them does not grow with the table.
"""

from dataclasses import dataclass

import numpy as np

from core.arrays import FloatArray, IntArray
from core.predict.distribution import PredictiveDistribution

MOST_ROWS = 500
LEVEL = 0.95
_DIGITS = 7  # more than a plot shows; each costs a byte for each number


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PredictedRows:
    """Rows with their true and their predicted target, in its unit.

    held_out: they were held out for the report; else each was left out of the fit that predicted it. total: how many
    such rows there were. rows (m,): numbers of rows of the dataset. lower, upper: ends of the interval of LEVEL.
    """

    held_out: bool
    total: int
    rows: IntArray
    targets: FloatArray
    mean: FloatArray
    std: FloatArray
    lower: FloatArray
    upper: FloatArray

    @classmethod
    def of(
        cls, numbers: IntArray, targets: FloatArray, predicted: PredictiveDistribution, *, held_out: bool
    ) -> "PredictedRows":
        """Return up to MOST_ROWS of the rows. numbers (m,): of the predicted rows; targets (n,): of the dataset."""
        total = len(numbers)
        places = np.unique(np.linspace(0, total - 1, min(total, MOST_ROWS)).round().astype(np.int64))
        some = PredictiveDistribution(
            centre=predicted.centre[places],
            variance=predicted.variance[places],
            calibration=predicted.calibration,
            transform=predicted.transform,
        )
        lower, upper = some.interval(LEVEL)
        return cls(
            held_out=held_out,
            total=total,
            rows=numbers[places],
            targets=targets[numbers[places]],
            mean=some.moments()[0],
            std=some.std(),
            lower=lower,
            upper=upper,
        )

    def columns(self) -> dict[str, list[float]]:
        """Return the numbers by name, rounded to digits that count."""
        names = {"target": "targets", "mean": "mean", "std": "std", "lower": "lower", "upper": "upper"}
        return {
            name: [float(f"{v:.{_DIGITS}g}") for v in getattr(self, field).tolist()] for name, field in names.items()
        }
