"""Every refusal of the numerics.

CoreError
├── InvalidSpecError            a field of the specification has an impossible value
├── UnsupportedLevelError       a level of an interval that the calibration's scores say nothing about
├── InvalidDataError            the table cannot be learned from
│   ├── TooFewRowsError
│   ├── ConstantTargetError
│   └── NonFiniteError          a NaN or an infinity, with its row and column
├── MeanOnlyError               an error bar was asked of a model that keeps none
└── NumericalError              the arithmetic broke down
    └── NotPositiveDefiniteError
"""

import math


class CoreError(Exception):
    """Base of all errors that `core` raises on purpose."""


class InvalidSpecError(CoreError):
    """A field of the specification has an impossible value; `field` names it."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field}: {message}")
        self.field = field


class UnsupportedLevelError(CoreError):
    """An interval, or a quantile, further out than the scores of the calibration reach."""

    def __init__(self, level: float, most: float, rows: int, *, quantile: float | None = None) -> None:
        """quantile: the one that was asked for, where it was not an interval of this level."""
        most_said = math.floor(most * 1e6 + 1e-6) / 1e6
        if quantile is None:
            asked, limit = f"an interval of level {level!r}", f"the largest level they support is {most_said:.6f}"
        else:
            asked = f"the quantile {quantile!r}"
            limit = f"they support quantiles from {0.5 - 0.5 * most_said:.7f} to {0.5 + 0.5 * most_said:.7f}"
        super().__init__(f"the error bars were calibrated on {rows} rows, which say nothing of {asked}; {limit}")
        self.level = level
        self.most = most


class InvalidDataError(CoreError):
    """The data cannot be learned from."""


class TooFewRowsError(InvalidDataError):
    """A regression needs at least two rows."""

    def __init__(self, rows: int) -> None:
        super().__init__(f"at least 2 rows are needed to learn from, got {rows}")
        self.rows = rows


class ConstantTargetError(InvalidDataError):
    """Every target is the same number, so there is nothing to predict."""

    def __init__(self, value: float) -> None:
        super().__init__(
            f"the target is {value!r} in every row: there is nothing to predict, and nothing tells how far off that "
            "may be; learn another target, or add rows in which it differs"
        )
        self.value = value


class NonFiniteError(InvalidDataError):
    """A NaN or an infinity; `row` is 0-based, `column` is None for the target."""

    def __init__(self, row: int, column: int | None) -> None:
        where = "target" if column is None else f"input column {column}"
        super().__init__(f"row {row}, {where}: not a finite number")
        self.row = row
        self.column = column


class MeanOnlyError(CoreError):
    """An error bar was asked of a model that keeps its mean alone."""

    def __init__(self) -> None:
        super().__init__(
            'this model was stored with `"artefact": "mean"` and has no error bars: ask for the mean alone, without '
            "interval, quantiles and include, or train it again as compact or full"
        )


class NumericalError(CoreError):
    """The arithmetic broke down: a result is not a finite number."""


class NotPositiveDefiniteError(NumericalError):
    """A matrix that must be positive definite is not, at the last jitter tried."""

    def __init__(self, name: str, size: int, jitter: float) -> None:
        super().__init__(
            f"{name} ({size} x {size}) is not positive definite, even with a relative jitter of {jitter:g}; "
            "the hyperparameters are probably extreme: try other starting values"
        )
        self.name = name
        self.size = size
        self.jitter = jitter
