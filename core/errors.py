"""Every refusal of the numerics.

CoreError
├── InvalidSpecError            a field of the specification has an impossible value
├── InvalidDataError            the table cannot be learned from
│   ├── TooFewRowsError
│   ├── ConstantTargetError
│   └── NonFiniteError          a NaN or an infinity, with its row and column
├── MeanOnlyError               an error bar was asked of a model that keeps none
└── NumericalError              the arithmetic broke down
    └── NotPositiveDefiniteError
"""

from typing import Any


class CoreError(Exception):
    """Base of all errors that `core` raises on purpose. They come from other processes as they were raised there."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Restore the message and the attributes, not by the arguments of a constructor, which are others."""
        return _restored, (type(self), self.args, self.__dict__)


def _restored(kind: type[CoreError], args: tuple[Any, ...], attributes: dict[str, Any]) -> CoreError:
    error = kind.__new__(kind)
    error.args = args
    error.__dict__.update(attributes)
    return error


class InvalidSpecError(CoreError):
    """A field of the specification has an impossible value; `field` names it."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field}: {message}")
        self.field = field


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
