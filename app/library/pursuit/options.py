"""Options of a prediction, as a server and as a model without one take them."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from app.services.predict.options import Keep, OnError, word_of

from .errors import ArgumentError, InvalidError, model_errors

Interval = float | Sequence[float] | Literal[False] | None
"""Level of `lower` and `upper`, or several; False: the mean alone; None: 0.95, or the mean of a model without more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """levels: of the intervals, None for the default; of several the columns are called `lower_0.5` and so on.

    on_error: `null` for rows that cannot be predicted; keep: columns that stand before the predictions; None for the
    defaults. keep_for_feedback: the server keeps the predictions for their truth.
    """

    levels: tuple[float, ...] | None
    quantiles: tuple[float, ...]
    include: tuple[str, ...]
    mean_only: bool
    on_error: OnError | None = None
    keep: Keep | None = None
    keep_for_feedback: bool = False

    @classmethod
    def of(
        cls,
        interval: Interval,
        quantiles: Sequence[float],
        include: Sequence[str],
        on_error: str | None = None,
        keep: str | None = None,
        *,
        keep_for_feedback: bool = False,
    ) -> "Options":
        """Return the options that a caller means. ArgumentError for an interval that is none, InvalidError for a word
        that is not one of those known."""
        if interval is True:
            raise ArgumentError(
                "interval: expected a level such as 0.95, several, or False for the mean alone, got True"
            )
        levels: tuple[float, ...] | None = None
        if interval is not None and interval is not False:
            levels = (float(interval),) if isinstance(interval, int | float) else tuple(map(float, interval))
        with model_errors():
            rows = None if on_error is None else word_of(OnError, on_error, "on_error")
            columns = None if keep is None else word_of(Keep, keep, "keep")
        return cls(
            on_error=rows,
            keep=columns,
            levels=levels or None,
            quantiles=tuple(map(float, quantiles)),
            include=(include,) if isinstance(include, str) else tuple(include),
            mean_only=interval is False,
            keep_for_feedback=keep_for_feedback,
        )

    def query(self, model: str) -> dict[str, str | list[str]]:
        """Return the parameters of a request whose body is a file."""
        levels = ["false"] if self.mean_only else [*map(repr, self.levels or ())]
        found: dict[str, str | list[str]] = {
            "model": model,
            "interval": levels,
            "quantiles": [*map(repr, self.quantiles)],
            "include": [*self.include],
            **({"keep_for_feedback": "true"} if self.keep_for_feedback else {}),
        }
        if self.on_error is not None:
            found["on_error"] = self.on_error.value
        return found

    def fields(self, model: str) -> Mapping[str, Any]:
        """Return the fields of a JSON request, beside its rows."""
        found: dict[str, Any] = {"model": model, "quantiles": self.quantiles, "include": self.include}
        if self.keep_for_feedback:
            found["keep_for_feedback"] = True
        if self.mean_only:
            found["interval"] = False
        elif self.levels is not None:
            found["interval"] = self.levels[0] if len(self.levels) == 1 else self.levels
        if self.on_error is not None:
            found["on_error"] = self.on_error.value
        return found

    def kept(self, names: Sequence[str], used: Callable[[], Collection[str]]) -> list[str]:
        """Return which columns stand before the predictions. used: gives the columns that the model reads, and its
        target."""
        if self.keep in (None, Keep.NONE):
            return []
        if not names:
            raise InvalidError("keep: the rows have no names of columns; give a data frame, or a list of dicts")
        return list(names) if self.keep is Keep.ALL else [name for name in names if name not in used()]
