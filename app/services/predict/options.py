"""Options of a prediction: levels of its intervals, quantiles, extra arrays, or the mean alone."""

from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import TypeVar

from app.errors import InvalidRequestError

Word = TypeVar("Word", bound=StrEnum)

INTERVAL = 0.95
"""Level of the interval where a request gives none."""

IMPUTED = "imputed"
"""Name of the array that counts the missing cells of each row."""

EXTRAS = ("latent_std", "median", "support", IMPUTED)
"""Arrays that a request may ask for by name."""

MOST_LEVELS = 100
"""Levels or quantiles of one request."""


class OnError(StrEnum):
    """Treatment of a row that cannot be predicted: the request is refused, or the row's numbers are null."""

    REFUSE = "refuse"
    NULL = "null"


class Keep(StrEnum):
    """Columns of a table that stand beside its predictions: none, those that are neither inputs nor the target, all."""

    NONE = "none"
    OTHERS = "others"
    ALL = "all"


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictOptions:
    """Contents of a prediction. Raises InvalidRequestError naming the field.

    levels: of its intervals; None where the request gives none, and INTERVAL will do. one_interval: the level was given
    as one number, and `lower` and `upper` are one list each. mean_only: nothing but the mean, which costs a tenth or
    less. on_error: of rows that cannot be predicted.
    """

    levels: tuple[float, ...] | None = None
    quantiles: tuple[float, ...] = ()
    include: frozenset[str] = frozenset()
    mean_only: bool = False
    one_interval: bool = True
    on_error: OnError = OnError.REFUSE

    def __post_init__(self) -> None:
        if self.mean_only and (self.levels is not None or self.quantiles or self.include):
            raise InvalidRequestError("interval: false asks for the mean alone; leave out `quantiles` and `include`")
        for name, values in (("interval", self.levels or ()), ("quantiles", self.quantiles)):
            if len(values) > MOST_LEVELS:
                raise InvalidRequestError(f"{name}: at most {MOST_LEVELS} at once, got {len(values)}")
            if len(set(values)) < len(values):
                raise InvalidRequestError(f"{name}: every level once, got {', '.join(map(repr, values))}")
            for value in values:
                if not 0.0 < value < 1.0:
                    raise InvalidRequestError(f"{name}: expected a probability above 0 and below 1, got {value!r}")
        unknown = sorted(self.include - set(EXTRAS))
        if unknown:
            raise InvalidRequestError(f"include: expected {' or '.join(EXTRAS)}, got {unknown[0]!r}")

    @property
    def needs_variance(self) -> bool:
        """True where the request names something that a mean alone does not say."""
        return self.levels is not None or bool(self.quantiles or self.include - {IMPUTED})

    @property
    def interval_levels(self) -> tuple[float, ...]:
        """Levels of the intervals, the default included."""
        return (INTERVAL,) if self.levels is None else self.levels


DEFAULT_OPTIONS = PredictOptions()


@lru_cache(maxsize=1024)
def predict_options(
    levels: tuple[float, ...] | None = None,
    quantiles: tuple[float, ...] = (),
    include: frozenset[str] = frozenset(),
    mean_only: bool = False,
    one_interval: bool = True,
    on_error: OnError = OnError.REFUSE,
) -> PredictOptions:
    """Options that are checked the first time they come; clients repeat theirs."""
    return PredictOptions(
        levels=levels,
        quantiles=quantiles,
        include=include,
        mean_only=mean_only,
        one_interval=one_interval,
        on_error=on_error,
    )


def word_of(kind: type[Word], value: str, field: str) -> Word:
    """Return the member with this value. InvalidRequestError naming the field."""
    try:
        return kind(value)
    except ValueError:
        expected = ", ".join(kind)
        raise InvalidRequestError(f"{field}: expected one of {expected}; got {value[:80]!r}") from None
