"""The truth of predicted rows, of one target or of each of several: read, held against the predictions, and counted.

Of several targets a truth is an object of lists by the target's name, and so are the counts; a target whose truth is
not known yet may be left out.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np

from app.errors import Fault, InvalidRequestError
from app.services.monitoring.kept_predictions import RowNumbers
from app.services.predict.loaded_model import LoadedModel
from app.storage.artefact import TARGET_NAMES
from app.storage.monitoring import Truth
from core.arrays import BoolArray, FloatArray

Numbers = Sequence[float | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Targets:
    """Names of a model's targets. several: the model is one of several targets, which may be one."""

    names: tuple[str, ...]
    several: bool

    @classmethod
    def of(cls, summary: Mapping[str, Any]) -> "Targets":
        """Take them out of what lists show of a version."""
        names = summary.get(TARGET_NAMES)
        return cls(names=(str(summary.get("target")),) if names is None else tuple(names), several=names is not None)

    @property
    def places(self) -> tuple[int | None, ...]:
        """Place of each target's counts in the store: None in a model of one."""
        return tuple(range(len(self.names))) if self.several else (None,)

    def by_name(self, values: Sequence[Any]) -> Any:
        """Return an object of a value for each target, or the only value of a model of one."""
        return dict(zip(self.names, values, strict=True)) if self.several else values[0]


def targets_of(model: LoadedModel) -> Targets:
    """Return the targets of a model."""
    names = tuple(each.schema.target for each in model.every_target)
    return Targets(names=names, several=model.others is not None)


def read_truth(truth: Numbers | Mapping[str, Numbers], targets: Targets, rows: int) -> FloatArray:
    """Return the truth of the rows of each target (t, m), NaN where it is not known. InvalidRequestError."""
    if not isinstance(truth, Mapping):
        if len(targets.names) > 1:
            raise _wrong(f"truth: expected an object of lists by target ({_list(targets.names)}), got a list", "truth")
        return _numbers(truth, "truth", rows)[None]
    found = np.full((len(targets.names), rows), np.nan)
    for name, numbers in truth.items():
        field = f"truth.{name[:80]}"
        if name not in targets.names:
            raise _wrong(f"{field}: the model has no such target; it predicts {_list(targets.names)}", field)
        found[targets.names.index(name)] = _numbers(numbers, field, rows)
    return found


def count_truth(truth: FloatArray, numbers: RowNumbers, taken: BoolArray, targets: Targets) -> list[Truth]:
    """Hold the chosen rows of each target (t, m) against their truth. InvalidRequestError for a number too large."""
    day = datetime.now(UTC).date().isoformat()
    found = []
    for place, name in enumerate(targets.names):
        rows = taken[place]
        told, mean, lower, upper = (each[place][rows] for each in (truth, numbers.mean, numbers.lower, numbers.upper))
        with np.errstate(over="ignore"):
            squared = float(np.square(told - mean).sum())
        if not math.isfinite(squared):
            field = f"truth.{name[:80]}" if targets.several else "truth"
            raise _wrong(f"{field}: a number is so large that its error has no square", field)
        found.append(
            Truth(
                day=day,
                rows=len(told),
                with_interval=int(np.count_nonzero(~np.isnan(lower))),
                covered=int(np.count_nonzero((told >= lower) & (told <= upper))),
                squared_error=squared,
            )
        )
    return found


def counts_json(
    model: str, version: int, found: Sequence[Truth], waiting: Sequence[int], targets: Targets
) -> dict[str, Any]:
    """Return the answer to a truth."""
    covered = [one.covered if one.with_interval or not one.rows else None for one in found]
    return {
        "model": model,
        "version": version,
        "rows": targets.by_name([one.rows for one in found]),
        "covered": targets.by_name(covered),
        "waiting": targets.by_name(waiting),
    }


def _numbers(given: Numbers, field: str, rows: int) -> FloatArray:
    if len(given) != rows:
        raise _wrong(f"{field}: expected {rows} numbers, one for each row; got {len(given)}", field)
    return np.array(given, np.float64)  # None is NaN


def _list(names: Sequence[str]) -> str:
    return ", ".join(repr(name) for name in names)


def _wrong(message: str, field: str) -> InvalidRequestError:
    return InvalidRequestError(message, [Fault(message=message, column=field)])
