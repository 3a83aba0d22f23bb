"""Options of a prediction, as a server and as a model without one take them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

Interval = float | Sequence[float] | Literal[False] | None
"""Level of `lower` and `upper`, or several; False: the mean alone; None: 0.95, or the mean of a model without more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """levels: of the intervals, None for the default; of several the columns are called `lower_0.5` and so on."""

    levels: tuple[float, ...] | None
    quantiles: tuple[float, ...]
    include: tuple[str, ...]
    mean_only: bool

    @classmethod
    def of(cls, interval: Interval, quantiles: Sequence[float], include: Sequence[str]) -> "Options":
        """Return the options that a caller means. TypeError for an interval that is none."""
        if interval is True:
            raise TypeError("interval: expected a level such as 0.95, several, or False for the mean alone, got True")
        levels: tuple[float, ...] | None = None
        if interval is not None and interval is not False:
            levels = (float(interval),) if isinstance(interval, int | float) else tuple(map(float, interval))
        return cls(
            levels=levels or None,
            quantiles=tuple(map(float, quantiles)),
            include=(include,) if isinstance(include, str) else tuple(include),
            mean_only=interval is False,
        )

    def query(self, model: str) -> dict[str, str | list[str]]:
        """Return the parameters of a request whose body is a file."""
        levels = ["false"] if self.mean_only else [*map(repr, self.levels or ())]
        return {
            "model": model,
            "interval": levels,
            "quantiles": [*map(repr, self.quantiles)],
            "include": [*self.include],
        }

    def fields(self, model: str) -> Mapping[str, Any]:
        """Return the fields of a JSON request, beside its rows."""
        found: dict[str, Any] = {"model": model, "quantiles": self.quantiles, "include": self.include}
        if self.mean_only:
            found["interval"] = False
        elif self.levels is not None:
            found["interval"] = self.levels[0] if len(self.levels) == 1 else self.levels
        return found
